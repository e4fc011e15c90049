/* SPDX-License-Identifier: Apache-2.0 */
/* From elements to bits and back. */
#ifndef GMV_DEVICE_CUDA_KERNELS_VALID_H
#define GMV_DEVICE_CUDA_KERNELS_VALID_H

#include "device/cuda/kernels/bits.cuh"
#include "device/cuda/kernels/sums.cuh"

/* ---- bytes ----------------------------------------------------------------------------------- */

/* Bit i of the outcome says whether byte i of the word is not 0; a product brings them together. */
DEVICE uint32_t nonzero_bits(uint32_t word)
{
    uint32_t tops = (((word & 0x7f7f7f7fu) + 0x7f7f7f7fu) | word) & 0x80808080u;
    return (tops >> 7) * 0x01020408u >> 24;
}

DEVICE uint32_t nonzero_bits_of_block(block16 bytes)
{
    return nonzero_bits((uint32_t)bytes.low) | nonzero_bits((uint32_t)(bytes.low >> 32)) << 4 |
           nonzero_bits((uint32_t)bytes.high) << 8 |
           nonzero_bits((uint32_t)(bytes.high >> 32)) << 12;
}

/* The bytes are a string of 8 * n bits; what lies past its end comes out as 0. */
KERNEL(valid_bytes, cuda_valid_args)
{
    cuda_bits bytes = {args.input, 0};
    bit_source source = source_of(bytes, 8 * args.n);
    uint64_t first = block_index() * (GMV_CUDA_THREADS * GMV_CUDA_PIECES) + thread_index();
    block16 elements[GMV_CUDA_PIECES];
    uint32_t validity[GMV_CUDA_PIECES];
    uint64_t nulls = 0;
    SOURCE_PIECES(source, first, GMV_CUDA_THREADS, GMV_CUDA_PIECES, elements);
    UNROLL
    for (uint32_t i = 0; i < GMV_CUDA_PIECES; i++)
        validity[i] = bits_read_inside(args.validity, 16 * (first + (uint64_t)i * GMV_CUDA_THREADS),
                                       16, args.n);
    UNROLL
    for (uint32_t i = 0; i < GMV_CUDA_PIECES; i++) {
        uint64_t piece = first + (uint64_t)i * GMV_CUDA_THREADS;
        if (2 * piece >= args.output_nbytes)
            continue;
        uint64_t left = args.n > 16 * piece ? args.n - 16 * piece : 0;
        uint32_t inside = (uint32_t)low_ones(left < 16 ? left : 16);
        uint32_t valid = nonzero_bits_of_block(elements[i]) & validity[i] & inside;
        store16(args.output + 2 * piece, (uint16_t)valid);
        nulls += count_ones(inside & ~valid);
    }
    result_add(args.null_count, nulls);
}

/* ---- floats ---------------------------------------------------------------------------------- */

DEVICE bool f4_is_valid(uint32_t element)
{
    return (element & 0x7fffffffu) <= 0x7f800000u;
}

DEVICE bool f8_is_valid(uint64_t element)
{
    return (element & UINT64_C(0x7fffffffffffffff)) <= UINT64_C(0x7ff0000000000000);
}

/*
 * Bit k: whether element first + 32 * k is valid. A warp's loads lie side by side, whatever the
 * alignment.
 */
#define DEFINE_LANE_BITS(name, type, load, is_valid)                    \
    DEVICE uint32_t name(const cuda_valid_args *args, uint64_t first)   \
    {                                                                   \
        type elements[GMV_CUDA_FLOAT_PIECES];                           \
        uint32_t bits = 0;                                              \
        UNROLL                                                          \
        for (uint32_t k = 0; k < GMV_CUDA_FLOAT_PIECES; k++) {          \
            uint64_t index = first + WARP_THREADS * k;                  \
            elements[k] = 0;                                            \
            if (index < args->n)                                        \
                elements[k] = load(args->input + index * sizeof(type)); \
        }                                                               \
        UNROLL                                                          \
        for (uint32_t k = 0; k < GMV_CUDA_FLOAT_PIECES; k++)            \
            bits |= (uint32_t)is_valid(elements[k]) << k;               \
        return bits;                                                    \
    }

DEFINE_LANE_BITS(f4_lane_bits, uint32_t, load32, f4_is_valid)
DEFINE_LANE_BITS(f8_lane_bits, uint64_t, load64, f8_is_valid)

/* Writes word `word` of the output; returns its nulls. */
DEVICE uint64_t float_word_store(const cuda_valid_args *args, uint64_t word, uint32_t valid)
{
    if (4 * word >= args->output_nbytes)
        return 0;
    uint64_t left = args->n > 32 * word ? args->n - 32 * word : 0;
    uint32_t inside = (uint32_t)low_ones(left < 32 ? left : 32);
    valid &= inside;
    if (args->validity.address)
        valid &= bits_read_inside(args->validity, 32 * word, 32, args->n);
    store32(args->output + 4 * word, valid);
    return count_ones(inside & ~valid);
}

/* A warp makes GMV_CUDA_FLOAT_PIECES words; lane k writes the k-th. */
#define DEFINE_VALID_FLOAT(name, lane_bits)                                                   \
    KERNEL(name, cuda_valid_args)                                                             \
    {                                                                                         \
        uint64_t warp = block_index() * BLOCK_WARPS + thread_index() / WARP_THREADS;          \
        uint32_t self = thread_index() % WARP_THREADS;                                        \
        uint32_t words[GMV_CUDA_FLOAT_PIECES] = {0}, word = 0;                                \
        uint64_t nulls = 0;                                                                   \
        WARP_LANES_BEGIN(lane)                                                                \
        uint32_t bits = lane_bits(&args, warp * WARP_THREADS * GMV_CUDA_FLOAT_PIECES + lane); \
        UNROLL                                                                                \
        for (uint32_t k = 0; k < GMV_CUDA_FLOAT_PIECES; k++)                                  \
            WARP_COLUMN(words[k], k, lane, bits);                                             \
        WARP_LANES_END                                                                        \
        UNROLL                                                                                \
        for (uint32_t k = 0; k < GMV_CUDA_FLOAT_PIECES; k++)                                  \
            word = self == k ? words[k] : word;                                               \
        if (self < GMV_CUDA_FLOAT_PIECES)                                                     \
            nulls = float_word_store(&args, warp * GMV_CUDA_FLOAT_PIECES + self, word);       \
        result_add(args.null_count, nulls);                                                   \
    }

DEFINE_VALID_FLOAT(valid_f4, f4_lane_bits)
DEFINE_VALID_FLOAT(valid_f8, f8_lane_bits)

/* ---- bits to bytes --------------------------------------------------------------------------- */

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

/* Pieces are the aligned blocks of the output; of the first and the last one a part may be ours. */
KERNEL(bits_to_bools, cuda_bools_args)
{
    uint64_t first = block_index() * (GMV_CUDA_THREADS * GMV_CUDA_PIECES) + thread_index();
    uint64_t lead = args.output % 16, blocks = args.output - lead;
    uint32_t bits[GMV_CUDA_PIECES];
    UNROLL
    for (uint32_t i = 0; i < GMV_CUDA_PIECES; i++) {
        uint64_t begin = 16 * (first + (uint64_t)i * GMV_CUDA_THREADS);
        bits[i] = 0;
        if (begin >= lead && begin - lead + 16 <= args.n)
            bits[i] = bits_read(args.bits, begin - lead, 16);
    }
    UNROLL
    for (uint32_t i = 0; i < GMV_CUDA_PIECES; i++) {
        uint64_t begin = 16 * (first + (uint64_t)i * GMV_CUDA_THREADS);
        if (begin >= lead && begin - lead + 16 <= args.n) {
            store128(blocks + begin, spread_block(bits[i]));
            continue;
        }
        NO_UNROLL
        for (uint64_t at = begin; at < begin + 16; at++)
            if (at >= lead && at - lead < args.n)
                store8(blocks + at, (uint8_t)bits_read(args.bits, at - lead, 1));
    }
}

#endif
