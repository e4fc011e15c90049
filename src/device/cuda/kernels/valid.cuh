/* SPDX-License-Identifier: Apache-2.0 */
/* From elements to bits and back. */
#ifndef GMV_DEVICE_CUDA_KERNELS_VALID_H
#define GMV_DEVICE_CUDA_KERNELS_VALID_H

#include "device/cuda/kernels/bits.cuh"
#include "device/cuda/kernels/sums.cuh"

/* Writes word `word` of the output; returns its nulls. */
DEVICE uint32_t word_store(const cuda_valid_args *args, uint64_t word, uint32_t valid)
{
    if (4 * word >= args->output_nbytes)
        return 0;
    uint64_t left = args->n > 32 * word ? args->n - 32 * word : 0;
    uint32_t inside = (uint32_t)low_ones(left);
    valid &= inside;
    if (args->validity.address && left)
        valid &= bits_word(args->validity, 32 * word, args->n);
    store32(args->output + 4 * word, valid);
    return count_ones(inside & ~valid);
}

/* ---- bytes ---- */

/* 0x80 in each byte that is not 0. */
DEVICE uint32_t nonzero_tops(uint32_t word)
{
    return (((word & 0x7f7f7f7fu) + 0x7f7f7f7fu) | word) & 0x80808080u;
}

/* Bit 7 + i of the outcome says whether byte i of the 8 is not 0. */
DEVICE uint32_t nonzero_bits(uint64_t bytes)
{
    uint32_t low = add_products(nonzero_tops((uint32_t)bytes), 0x08040201u, 0);
    return add_products(nonzero_tops((uint32_t)(bytes >> 32)), 0x80402010u, low);
}

DEVICE uint32_t nonzero_bits_of_block(block16 bytes)
{
    return nonzero_bits(bytes.low) >> 7 | nonzero_bits(bytes.high) << 1;
}

/*
 * The bytes are a string of 8 * n bits; what lies past its end comes out as 0. 32 bytes lie in two
 * aligned blocks or across three: their bits are shifted, not the bytes.
 */
KERNEL(valid_bytes, cuda_valid_args)
{
    const cuda_bits bytes = {args.input, 0};
    const bit_source source = source_of(bytes, 8 * args.n);
    const uint64_t first = block_index() * (GMV_CUDA_THREADS * GMV_CUDA_PIECES) + thread_index();
    const uint64_t at = source.blocks + 32 * first, step = 32 * GMV_CUDA_THREADS;
    const uint64_t rest = source.shift ? 32 : 16; /* from a piece's first block to its last */
    block16 blocks[GMV_CUDA_PIECES][3];
    uint32_t nulls = 0;
    if (source_holds(&source, at, at + (GMV_CUDA_PIECES - 1) * step + rest)) {
        UNROLL
        for (uint32_t i = 0; i < GMV_CUDA_PIECES; i++) {
            blocks[i][0] = load128(at + i * step);
            blocks[i][1] = blocks[i][2] = load128(at + i * step + 16);
        }
        if (source.shift) {
            UNROLL
            for (uint32_t i = 0; i < GMV_CUDA_PIECES; i++)
                blocks[i][2] = load128(at + i * step + 32);
        }
    } else {
        UNROLL
        for (uint32_t i = 0; i < GMV_CUDA_PIECES; i++) {
            UNROLL
            for (uint32_t k = 0; k < 3; k++)
                blocks[i][k] = source_block(&source, at + i * step + 16 * k);
        }
    }
    const uint64_t end = 32 * (first + (GMV_CUDA_PIECES - 1) * GMV_CUDA_THREADS + 1);
    const bool whole = !args.validity.address && end <= args.n;
    UNROLL
    for (uint32_t i = 0; i < GMV_CUDA_PIECES; i++) {
        uint32_t valid = nonzero_bits_of_block(blocks[i][0]) | nonzero_bits_of_block(blocks[i][1])
                                                                   << 16;
        if (source.shift)
            valid = funnel_right(valid, nonzero_bits_of_block(blocks[i][2]), source.shift / 8);
        if (whole) {
            store32(args.output + 4 * first + 4 * GMV_CUDA_THREADS * i, valid);
            nulls += count_ones(~valid);
        } else {
            nulls += word_store(&args, first + i * GMV_CUDA_THREADS, valid);
        }
    }
    result_add(args.null_count, nulls);
}

/* ---- floats ---- */

DEVICE bool f4_is_valid(uint32_t element)
{
    return (element & 0x7fffffffu) <= 0x7f800000u;
}

DEVICE bool f8_is_valid(uint64_t element)
{
    return (element & UINT64_C(0x7fffffffffffffff)) <= UINT64_C(0x7ff0000000000000);
}

/*
 * Elements first, first + 32, ...; 0 past the end. A warp's loads lie side by side, whatever the
 * alignment.
 */
#define DEFINE_LANE_LOAD(name, type, n_pieces, load)                              \
    DEVICE void name(const cuda_valid_args *args, uint64_t first, type *elements) \
    {                                                                             \
        const uint64_t at = args->input + first * sizeof(type);                   \
        const uint64_t step = WARP_THREADS * sizeof(type);                        \
        if (first + WARP_THREADS * ((n_pieces)-1) < args->n) {                    \
            UNROLL                                                                \
            for (uint32_t k = 0; k < (n_pieces); k++)                             \
                elements[k] = load(at + k * step);                                \
            return;                                                               \
        }                                                                         \
        UNROLL                                                                    \
        for (uint32_t k = 0; k < (n_pieces); k++) {                               \
            elements[k] = 0;                                                      \
            if (first + WARP_THREADS * k < args->n)                               \
                elements[k] = load(at + k * step);                                \
        }                                                                         \
    }

DEFINE_LANE_LOAD(f4_lane_load, uint32_t, GMV_CUDA_F4_PIECES, load32)
DEFINE_LANE_LOAD(f8_lane_load, uint64_t, GMV_CUDA_F8_PIECES, load64_streaming)

/* A warp makes n_pieces words; lane k writes the k-th. */
#define DEFINE_VALID_FLOAT(name, type, n_pieces, lane_load, is_valid)                \
    KERNEL(name, cuda_valid_args)                                                    \
    {                                                                                \
        uint64_t warp = block_index() * BLOCK_WARPS + thread_index() / WARP_THREADS; \
        uint32_t self = thread_index() % WARP_THREADS;                               \
        uint32_t words[n_pieces] = {0}, word = 0, nulls = 0;                         \
        WARP_LANES_BEGIN(lane)                                                       \
        type elements[n_pieces];                                                     \
        lane_load(&args, warp *WARP_THREADS *(n_pieces) + lane, elements);           \
        UNROLL                                                                       \
        for (uint32_t k = 0; k < (n_pieces); k++)                                    \
            WARP_BALLOT(words[k], lane, is_valid(elements[k]));                      \
        WARP_LANES_END                                                               \
        UNROLL                                                                       \
        for (uint32_t k = 0; k < (n_pieces); k++)                                    \
            word = self == k ? words[k] : word;                                      \
        if (self < (n_pieces))                                                       \
            nulls = word_store(&args, warp * (n_pieces) + self, word);               \
        result_add(args.null_count, nulls);                                          \
    }

DEFINE_VALID_FLOAT(valid_f4, uint32_t, GMV_CUDA_F4_PIECES, f4_lane_load, f4_is_valid)
DEFINE_VALID_FLOAT(valid_f8, uint64_t, GMV_CUDA_F8_PIECES, f8_lane_load, f8_is_valid)

/* ---- bits to bytes ---- */

/* Bits 0 to 3 as bytes of 0 or 1; no two of the products meet. */
DEVICE uint32_t spread_bits(uint32_t bits)
{
    return (bits & 0xf) * 0x00204081u & 0x01010101u;
}

DEVICE block16 spread_block(uint32_t bits)
{
    block16 value = {
        spread_bits(bits) | (uint64_t)spread_bits(bits >> 4) << 32,
        spread_bits(bits >> 8) | (uint64_t)spread_bits(bits >> 12) << 32,
    };
    return value;
}

/* The piece that begins at `begin` of the output, of which a part may be ours. */
DEVICE void bools_store(const cuda_bools_args *args, uint64_t begin, uint64_t lead)
{
    uint64_t blocks = args->output - lead;
    if (begin >= lead && begin + 16 <= lead + args->n) {
        store128(blocks + begin, spread_block(bits_read(args->bits, begin - lead, 16)));
        return;
    }
    NO_UNROLL
    for (uint64_t at = begin; at < begin + 16; at++)
        if (at >= lead && at - lead < args->n)
            store8(blocks + at, (uint8_t)bits_read(args->bits, at - lead, 1));
}

/*
 * Blocks come in groups: the first ones of each fetch the bits of the next group, a line of the
 * cache for each thread. Memory that is written to without a break is slow to turn round for a read
 * now and then; so there are many reads at once, and none for a while.
 */
#ifdef __CUDACC__
#    define BOOLS_GROUP 6144 /* 24 MiB of bytes, 3 MiB of bits */
#else
#    define BOOLS_GROUP 16 /* short inputs have got several, too */
#endif
#define BOOLS_GROUP_LINES (BOOLS_GROUP * GMV_CUDA_BOOLS_TILE / 8 / LINE_NBYTES)

DEVICE void bools_fetch_ahead(const cuda_bools_args *args)
{
    uint32_t group = (uint32_t)block_index() / BOOLS_GROUP;
    uint32_t line = (uint32_t)block_index() % BOOLS_GROUP * GMV_CUDA_THREADS;
    if (line >= BOOLS_GROUP_LINES)
        return;
    line += thread_index();
    uint64_t at = (((uint64_t)group + 1) * BOOLS_GROUP_LINES + line) * LINE_NBYTES;
    if (line < BOOLS_GROUP_LINES && at < (args->bits.offset % 8 + args->n + 7) / 8)
        prefetch(args->bits.address + args->bits.offset / 8 + at);
}

/* Pieces are the aligned blocks of the output. */
KERNEL(bits_to_bools, cuda_bools_args)
{
    const uint64_t lead = args.output % 16;
    const uint64_t tile = block_index() * GMV_CUDA_BOOLS_TILE, own = 16 * thread_index();
    const uint64_t position = args.bits.offset + tile - lead; /* of the tile's first bit */
    const uint64_t byte = args.bits.address + position / 8, word = byte & ~UINT64_C(3);
    bools_fetch_ahead(&args);
    if (tile < lead || tile + GMV_CUDA_BOOLS_TILE > lead + args.n ||
        !words_inside(args.bits, args.n, word, word + GMV_CUDA_BOOLS_TILE / 8)) {
        bools_store(&args, tile + own, lead);
        return;
    }
    uint32_t bit = (uint32_t)(byte % 4 * 8 + position % 8 + own);
    uint64_t at = word + bit / 32 * 4;
    uint32_t bits = funnel_right(load32(at), load32(at + 4), bit);
    store128_streaming(args.output - lead + tile + own, spread_block(bits));
}

#endif
