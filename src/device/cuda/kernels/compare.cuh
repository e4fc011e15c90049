/* SPDX-License-Identifier: Apache-2.0 */
/* Pairs of elements: how many differ, where the first one is, and by how much at most. */
#ifndef GMV_DEVICE_CUDA_KERNELS_COMPARE_H
#define GMV_DEVICE_CUDA_KERNELS_COMPARE_H

#include "device/cuda/kernels/reduce.cuh"

#define COMPARE_PIECES 8u /* loads of each input that are under way at once */

DEFINE_BLOCK_MERGE(block_comparison, gmv_comparison_partial, comparison_merge)
DEFINE_MERGE_KERNEL(merge_comparisons, gmv_comparison_partial, comparison_none, comparison_merge,
                    block_comparison)

/* What validity says of pair k: 0 look at it, 1 both null, 2 they differ. */
DEVICE uint32_t compare_nulls(const cuda_compare_args *args, reduce_place place, uint32_t k)
{
    bool a = reduce_is_valid(place, k, args->validities[0], args->n);
    bool b = reduce_is_valid(place, k, args->validities[1], args->n);
    return a && b ? 0 : a == b ? 1 : 2;
}

DEVICE comparison_options compare_options(const cuda_compare_args *args)
{
    comparison_options options = {args->absolute, args->relative, args->nan_equal != 0};
    return options;
}

/*
 * `parts`: numbers that an element has, each of `bits` bits; `judge` looks at a pair. Pieces past
 * the end are both null.
 */
#define DEFINE_COMPARE_OF(name, type, bits, parts, judge)                                          \
    KERNEL(name, cuda_compare_args)                                                                \
    {                                                                                              \
        const reduce_place place = reduce_place_of(REDUCE_PIECES((bits) * (parts)));               \
        const uint64_t offset = place.first * (sizeof(type) * (parts));                            \
        const uint64_t step = WARP_THREADS * sizeof(type) * (parts);                               \
        const bool whole = reduce_is_inside(place, REDUCE_PIECES((bits) * (parts)), args.n);       \
        const bool all_valid =                                                                     \
            whole && args.validities[0].address == 0 && args.validities[1].address == 0;           \
        const comparison_options options = compare_options(&args);                                 \
        gmv_comparison_partial mine = comparison_none();                                           \
        NO_UNROLL                                                                                  \
        for (uint32_t done = 0; done < REDUCE_PIECES((bits) * (parts)); done += COMPARE_PIECES) {  \
            type pairs[COMPARE_PIECES][2][parts];                                                  \
            UNROLL                                                                                 \
            for (uint32_t i = 0; i < COMPARE_PIECES; i++) {                                        \
                uint64_t at = offset + (done + i) * step;                                          \
                UNROLL                                                                             \
                for (uint32_t part = 0; part < (parts); part++) {                                  \
                    pairs[i][0][part] = pairs[i][1][part] = 0;                                     \
                    if (whole || place.first + (done + i) * WARP_THREADS < args.n) {               \
                        pairs[i][0][part] = load##bits(args.inputs[0] + at + part * sizeof(type)); \
                        pairs[i][1][part] = load##bits(args.inputs[1] + at + part * sizeof(type)); \
                    }                                                                              \
                }                                                                                  \
            }                                                                                      \
            UNROLL                                                                                 \
            for (uint32_t i = 0; i < COMPARE_PIECES; i++) {                                        \
                uint64_t index = place.first + (done + i) * WARP_THREADS;                          \
                uint32_t nulls = all_valid ? 0 : compare_nulls(&args, place, done + i);            \
                if (nulls == 0)                                                                    \
                    judge(&mine, pairs[i], index, &options);                                       \
                else if (nulls == 2)                                                               \
                    comparison_add_index(&mine, index);                                            \
            }                                                                                      \
        }                                                                                          \
        if (block_comparison(&mine))                                                               \
            ((gmv_comparison_partial *)args.output)[block_index()] = mine;                         \
    }

#define DEFINE_COMPARE(dtype, suffix, type, bits, is_float)                               \
    DEVICE void compare_judge_##suffix(gmv_comparison_partial *mine, type(*pair)[1],      \
                                       uint64_t index, const comparison_options *options) \
    {                                                                                     \
        comparison_pair_##suffix(mine, pair[0][0], pair[1][0], index, options);           \
    }                                                                                     \
    DEFINE_COMPARE_OF(compare_##suffix, type, bits, 1, compare_judge_##suffix)

#define DEFINE_COMPARE_COMPLEX(suffix, type, bits)                                            \
    DEVICE void compare_judge_##suffix(gmv_comparison_partial *mine, type(*pair)[2],          \
                                       uint64_t index, const comparison_options *options)     \
    {                                                                                         \
        comparison_pair_##suffix(mine, pair[0][0], pair[0][1], pair[1][0], pair[1][1], index, \
                                 options);                                                    \
    }                                                                                         \
    DEFINE_COMPARE_OF(compare_##suffix, type, bits, 2, compare_judge_##suffix)

ELEMENT_MAP(DEFINE_COMPARE)
DEFINE_COMPARE_COMPLEX(c8, uint32_t, 32)
DEFINE_COMPARE_COMPLEX(c16, uint64_t, 64)

#endif
