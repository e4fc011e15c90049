/* SPDX-License-Identifier: Apache-2.0 */
/* Pairs of elements: how many differ, where the first one is, and by how much at most. */
#ifndef GMV_DEVICE_CUDA_KERNELS_COMPARE_H
#define GMV_DEVICE_CUDA_KERNELS_COMPARE_H

#include "device/cuda/kernels/reduce.cuh"

#define COMPARE_PIECES 2u /* of each input, whose loads are under way at once */

DEFINE_BLOCK_MERGE(block_comparison, gmv_comparison_partial, comparison_merge)
DEFINE_MERGE_KERNEL(merge_comparisons, gmv_comparison_partial, comparison_none, comparison_merge,
                    block_comparison)

DEVICE comparison_options compare_options(const cuda_compare_args *args)
{
    comparison_options options = {args->absolute, args->relative, args->nan_equal != 0};
    return options;
}

/* The high bit of each number of `bits` bits. */
#define COMPARE_SIGNS(bits)                        \
    ((bits) == 8    ? UINT64_C(0x8080808080808080) \
     : (bits) == 16 ? UINT64_C(0x8000800080008000) \
     : (bits) == 32 ? UINT64_C(0x8000000080000000) \
                    : UINT64_C(0x8000000000000000))

/*
 * How many numbers of a piece are finite, their signs as above. Those that are not have all bits of
 * `limits`: adding all bits below the highest one to what is missing sets that if anything is.
 */
DEVICE uint32_t compare_finite(block16 piece, uint64_t limits, uint64_t signs)
{
    piece.low = ((~piece.low & limits) + ~signs) & signs;
    piece.high = ((~piece.high & limits) + ~signs) & signs;
    return count_ones(piece.low) + count_ones(piece.high);
}

/* Both validities of a piece; past the end there are nulls. */
typedef struct compare_valid {
    uint32_t both, one;
} compare_valid;

DEVICE compare_valid compare_valid_bits(const cuda_compare_args *args, uint64_t piece,
                                        uint32_t elements)
{
    uint32_t a = reduce_valid_bits(args->validities[0], piece, elements, args->n);
    uint32_t b = reduce_valid_bits(args->validities[1], piece, elements, args->n);
    compare_valid valid = {a & b, a ^ b};
    return valid;
}

DEVICE block16 compare_shift(block16 value, uint32_t by)
{
    if (by < 64) {
        value.low = value.low >> by | value.high << (64 - by);
        value.high >>= by;
    } else {
        value.low = value.high;
        value.high = 0;
    }
    return value;
}

/*
 * `bits`: those of an element; `judge` looks at the pair in the low bits of two pieces. Pieces that
 * are the same and finite are not looked at any closer; others are taken from the cache again.
 */
#define DEFINE_COMPARE_OF(name, bits, limits, finite, judge)                                     \
    KERNEL_RESIDENT(name, cuda_compare_args, REDUCE_RESIDENT)                                    \
    {                                                                                            \
        const bit_source sources[2] = {reduce_source(args.inputs[0], args.n, bits),              \
                                       reduce_source(args.inputs[1], args.n, bits)};             \
        uint64_t first = reduce_first_piece();                                                   \
        const bool inside = reduce_is_inside(sources[0], first, REDUCE_PIECES) &&                \
                            reduce_is_inside(sources[1], first, REDUCE_PIECES);                  \
        const bool whole =                                                                       \
            inside && args.validities[0].address == 0 && args.validities[1].address == 0;        \
        const comparison_options options = compare_options(&args);                               \
        comparison_pairs mine = comparison_begin();                                              \
        NO_UNROLL                                                                                \
        for (uint32_t done = 0; done < REDUCE_PIECES; done += COMPARE_PIECES) {                  \
            bool same = whole;                                                                   \
            uint32_t n_finite = COMPARE_PIECES * REDUCE_ELEMENTS(bits);                          \
            if (whole) {                                                                         \
                block16 pieces[2][COMPARE_PIECES];                                               \
                REDUCE_LOAD(sources[0], first, COMPARE_PIECES, pieces[0]);                       \
                REDUCE_LOAD(sources[1], first, COMPARE_PIECES, pieces[1]);                       \
                UNROLL                                                                           \
                for (uint32_t i = 0; i < COMPARE_PIECES; i++)                                    \
                    same = same && pieces[0][i].low == pieces[1][i].low &&                       \
                           pieces[0][i].high == pieces[1][i].high;                               \
                if (same && (limits)) {                                                          \
                    n_finite = 0;                                                                \
                    UNROLL                                                                       \
                    for (uint32_t i = 0; i < COMPARE_PIECES; i++)                                \
                        n_finite += finite(pieces[0][i], limits);                                \
                    same =                                                                       \
                        options.nan_equal || n_finite == COMPARE_PIECES * REDUCE_ELEMENTS(bits); \
                }                                                                                \
            }                                                                                    \
            if (inside && done + COMPARE_PIECES < REDUCE_PIECES) {                               \
                reduce_prefetch(sources[0], first + COMPARE_PIECES * REDUCE_STRIDE,              \
                                COMPARE_PIECES);                                                 \
                reduce_prefetch(sources[1], first + COMPARE_PIECES * REDUCE_STRIDE,              \
                                COMPARE_PIECES);                                                 \
            }                                                                                    \
            mine.n += same ? n_finite : 0;                                                       \
            NO_UNROLL                                                                            \
            for (uint32_t i = 0; i < COMPARE_PIECES && !same; i++) {                             \
                const uint64_t piece = first + i * REDUCE_STRIDE;                                \
                block16 pair[2];                                                                 \
                compare_valid valid = {(1u << REDUCE_ELEMENTS(bits)) - 1, 0};                    \
                if (!whole)                                                                      \
                    valid = compare_valid_bits(&args, piece, REDUCE_ELEMENTS(bits));             \
                if (inside) {                                                                    \
                    REDUCE_LOAD(sources[0], piece, 1, &pair[0]);                                 \
                    REDUCE_LOAD(sources[1], piece, 1, &pair[1]);                                 \
                } else {                                                                         \
                    pair[0] = reduce_edge_piece(sources[0].begin, sources[0].end,                \
                                                sources[0].shift, piece);                        \
                    pair[1] = reduce_edge_piece(sources[1].begin, sources[1].end,                \
                                                sources[1].shift, piece);                        \
                }                                                                                \
                UNROLL_BY(REDUCE_ELEMENTS(bits) <= 4 ? 4 : 1)                                    \
                for (uint32_t e = 0; e < REDUCE_ELEMENTS(bits); e++) {                           \
                    const uint64_t index = piece * REDUCE_ELEMENTS(bits) + e;                    \
                    if (valid.both >> e & 1)                                                     \
                        judge(&mine, pair[0], pair[1], index, &options);                         \
                    else if (valid.one >> e & 1)                                                 \
                        comparison_add_index(&mine, index);                                      \
                    pair[0] = compare_shift(pair[0], bits);                                      \
                    pair[1] = compare_shift(pair[1], bits);                                      \
                }                                                                                \
            }                                                                                    \
            first += COMPARE_PIECES * REDUCE_STRIDE;                                             \
        }                                                                                        \
        gmv_comparison_partial partial = comparison_end(&mine);                                  \
        if (block_comparison(&partial))                                                          \
            ((gmv_comparison_partial *)args.output)[block_index()] = partial;                    \
    }

#define DEFINE_COMPARE(dtype, suffix, type, bits, is_float)                                     \
    DEVICE uint32_t compare_finite_##suffix(block16 piece, uint64_t limits)                     \
    {                                                                                           \
        return compare_finite(piece, limits, COMPARE_SIGNS(bits));                              \
    }                                                                                           \
    DEVICE void compare_judge_##suffix(comparison_pairs *mine, block16 a, block16 b,            \
                                       uint64_t index, const comparison_options *options)       \
    {                                                                                           \
        comparison_pair_##suffix(mine, (type)a.low, (type)b.low, index, options);               \
    }                                                                                           \
    DEFINE_COMPARE_OF(compare_##suffix, bits, element_limits_##suffix, compare_finite_##suffix, \
                      compare_judge_##suffix)
ELEMENT_MAP(DEFINE_COMPARE)

/* Complex numbers are finite if both parts are. */
DEVICE uint32_t compare_finite_c8(block16 piece, uint64_t limits)
{
    block16 both = {piece.low >> 32, piece.high >> 32};
    both.low = ((~both.low & limits) + 0x7fffffffu) & ((~piece.low & limits) + 0x7fffffffu);
    both.high = ((~both.high & limits) + 0x7fffffffu) & ((~piece.high & limits) + 0x7fffffffu);
    return (uint32_t)(both.low >> 31 & 1) + (uint32_t)(both.high >> 31 & 1);
}

DEVICE uint32_t compare_finite_c16(block16 piece, uint64_t limits)
{
    return compare_finite(piece, limits, COMPARE_SIGNS(64)) == 2;
}

DEVICE void compare_judge_c8(comparison_pairs *mine, block16 a, block16 b, uint64_t index,
                             const comparison_options *options)
{
    comparison_pair_c8(mine, (uint32_t)a.low, (uint32_t)(a.low >> 32), (uint32_t)b.low,
                       (uint32_t)(b.low >> 32), index, options);
}
DEFINE_COMPARE_OF(compare_c8, 64, UINT64_C(0x7f800000), compare_finite_c8, compare_judge_c8)

DEVICE void compare_judge_c16(comparison_pairs *mine, block16 a, block16 b, uint64_t index,
                              const comparison_options *options)
{
    comparison_pair_c16(mine, a.low, a.high, b.low, b.high, index, options);
}
DEFINE_COMPARE_OF(compare_c16, 128, element_limits_f8, compare_finite_c16, compare_judge_c16)

#endif
