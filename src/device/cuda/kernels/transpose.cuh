/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matrices whose rows become columns. A thread loads 16 bytes each of as many rows as it takes
 * elements of one, turns that square in its registers, and stores 16 bytes each of as many columns:
 * a warp's loads and stores are whole sectors both ways, and no thread needs what another loaded.
 */
#ifndef GMV_DEVICE_CUDA_KERNELS_TRANSPOSE_H
#define GMV_DEVICE_CUDA_KERNELS_TRANSPOSE_H

#include "device/cuda/kernels/language.cuh"

/* A tile's place: its matrix in both memories, and its first row and column in units of threads. */
typedef struct transpose_tile {
    uint64_t source, output;
    uint64_t row, column;
} transpose_tile;

/* 8 threads of a warp stand along the rows and 4 along the columns: lines of the output are whole.
 */
DEVICE transpose_tile transpose_seek(const cuda_transpose_args *args)
{
    uint32_t thread = thread_index();
    uint64_t index = block_index(), outer = index / args->tiles_of_rows;
    transpose_tile tile = {args->address, args->output, 0, 0};
    tile.row = (index - outer * args->tiles_of_rows) * 16 + (thread >> 2 & 7) + (thread >> 7) * 8;
    index = outer;
    outer = index / args->tiles_of_columns;
    tile.column =
        (index - outer * args->tiles_of_columns) * 16 + (thread & 3) + (thread >> 5 & 3) * 4;
    index = outer;
    for (uint32_t i = args->ndim; i > 0; i--) {
        uint64_t extent = args->shape[i - 1];
        outer = index / extent;
        tile.source += (index - outer * extent) * (uint64_t)args->strides[i - 1];
        tile.output += (index - outer * extent) * args->output_strides[i - 1];
        index = outer;
    }
    return tile;
}

#define DEFINE_TRANSPOSE(name, type, load, store)                                                  \
    /* Element i of each row, side by side. */                                                     \
    DEVICE block16 name##_column(const block16 *rows, uint32_t i)                                  \
    {                                                                                              \
        const uint32_t bits = 8 * sizeof(type), half = 8 / sizeof(type);                           \
        block16 column = {0, 0};                                                                   \
        UNROLL                                                                                     \
        for (uint32_t j = 0; j < half; j++) {                                                      \
            uint64_t low = i < half ? rows[j].low : rows[j].high;                                  \
            uint64_t high = i < half ? rows[j + half].low : rows[j + half].high;                   \
            column.low |= (uint64_t)(type)(low >> (i % half * bits)) << (j * bits);                \
            column.high |= (uint64_t)(type)(high >> (i % half * bits)) << (j * bits);              \
        }                                                                                          \
        return column;                                                                             \
    }                                                                                              \
    KERNEL(name, cuda_transpose_args)                                                              \
    {                                                                                              \
        const uint32_t side = 16 / sizeof(type);                                                   \
        transpose_tile tile = transpose_seek(&args);                                               \
        uint64_t row = tile.row * side, column = tile.column * side;                               \
        if (row >= args.rows || column >= args.columns)                                            \
            return;                                                                                \
        uint64_t source = tile.source + row * (uint64_t)args.source_pitch + column * sizeof(type); \
        uint64_t output = tile.output + column * args.output_pitch + row * sizeof(type);           \
        if (args.wide && args.rows - row >= side && args.columns - column >= side) {               \
            block16 rows[16 / sizeof(type)];                                                       \
            UNROLL                                                                                 \
            for (uint32_t j = 0; j < side; j++)                                                    \
                rows[j] = load128(source + j * (uint64_t)args.source_pitch);                       \
            UNROLL                                                                                 \
            for (uint32_t i = 0; i < side; i++)                                                    \
                store128(output + i * args.output_pitch, name##_column(rows, i));                  \
            return;                                                                                \
        }                                                                                          \
        for (uint32_t i = 0; i < side && i < args.columns - column; i++)                           \
            for (uint32_t j = 0; j < side && j < args.rows - row; j++)                             \
                store(output + i * args.output_pitch + j * sizeof(type),                           \
                      load(source + j * (uint64_t)args.source_pitch + i * sizeof(type)));          \
    }

DEFINE_TRANSPOSE(transpose_1, uint8_t, load8, store8)
DEFINE_TRANSPOSE(transpose_2, uint16_t, load16, store16)
DEFINE_TRANSPOSE(transpose_4, uint32_t, load32, store32)
DEFINE_TRANSPOSE(transpose_8, uint64_t, load64, store64)

#endif
