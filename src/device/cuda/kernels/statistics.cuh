/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts, extremes, sums and moments. A thread takes its elements' deviations from the first that
 * counts, so nothing is lost where the mean is far from 0; the moments of threads and tiles merge.
 */
#ifndef GMV_DEVICE_CUDA_KERNELS_STATISTICS_H
#define GMV_DEVICE_CUDA_KERNELS_STATISTICS_H

#include "device/cuda/kernels/reduce.cuh"

DEFINE_BLOCK_MERGE(block_statistics, gmv_statistics_partial, statistics_merge)
DEFINE_MERGE_KERNEL(merge_statistics, gmv_statistics_partial, statistics_none, statistics_merge,
                    block_statistics)

/* A thread's elements so far: `shift` and `squares` are the deviations from `pivot`, added. */
typedef struct thread_statistics {
    uint32_t n, nan_count, inf_count, zero_count;
    double pivot, shift, squares, sum;
    uint64_t low, high;
} thread_statistics;

DEVICE void thread_add_value(thread_statistics *mine, double value)
{
    mine->pivot = mine->n == 0 ? value : mine->pivot;
    double deviation = value - mine->pivot;
    mine->shift += deviation;
    mine->squares += deviation * deviation;
    mine->n++;
}

DEVICE void thread_add_integer(thread_statistics *mine, uint64_t low, uint64_t high)
{
    mine->low += low;
    mine->high += high + (mine->low < low);
}

/* What does not depend on the elements' type. */
DEVICE gmv_statistics_partial thread_partial(const thread_statistics *mine)
{
    gmv_statistics_partial partial = statistics_none();
    partial.nan_count = mine->nan_count;
    partial.inf_count = mine->inf_count;
    partial.zero_count = mine->zero_count;
    partial.n = mine->n;
    partial.sum = mine->sum;
    partial.sum_low = mine->low;
    partial.sum_high = mine->high;
    if (mine->n) {
        double mean = mine->shift / mine->n;
        double squares = mine->squares - mine->shift * mean;
        partial.mean = mine->pivot + mean;
        partial.squares = squares < 0 ? 0 : squares;
    }
    return partial;
}

/* Loads that are under way at once; short types are many, so their code is to be short, too. */
#define STATISTICS_PIECES(bits) ((bits) >= 32 ? 16u : 8u)

#define DEFINE_STATISTICS(dtype, suffix, type, bits, is_float)                                 \
    KERNEL(statistics_##suffix, cuda_statistics_args)                                          \
    {                                                                                          \
        const reduce_place place = reduce_place_of(REDUCE_PIECES(bits));                       \
        const uint64_t at = args.input + place.first * sizeof(type);                           \
        const uint64_t step = WARP_THREADS * sizeof(type);                                     \
        const bool whole = reduce_is_inside(place, REDUCE_PIECES(bits), args.n);               \
        const bool all_valid = whole && args.validity.address == 0;                            \
        type min = (type) ~(type)0, max = 0;                                                   \
        thread_statistics mine = {0};                                                          \
        NO_UNROLL                                                                              \
        for (uint32_t done = 0; done < REDUCE_PIECES(bits); done += STATISTICS_PIECES(bits)) { \
            type elements[STATISTICS_PIECES(bits)];                                            \
            UNROLL                                                                             \
            for (uint32_t i = 0; i < STATISTICS_PIECES(bits); i++) {                           \
                elements[i] = 0;                                                               \
                if (whole || place.first + (done + i) * WARP_THREADS < args.n)                 \
                    elements[i] = load##bits(at + (done + i) * step);                          \
            }                                                                                  \
            UNROLL                                                                             \
            for (uint32_t i = 0; i < STATISTICS_PIECES(bits); i++) {                           \
                type element = elements[i], key = element_key_##suffix(element);               \
                uint32_t kind = element_class_##suffix(element);                               \
                if (!all_valid && !reduce_is_valid(place, done + i, args.validity, args.n))    \
                    continue;                                                                  \
                if (kind != ELEMENT_FINITE) {                                                  \
                    mine.nan_count += kind == ELEMENT_NAN;                                     \
                    mine.inf_count += kind == ELEMENT_INFINITE;                                \
                    continue;                                                                  \
                }                                                                              \
                min = key < min ? key : min;                                                   \
                max = key > max ? key : max;                                                   \
                mine.zero_count += element_is_zero_##suffix(element);                          \
                thread_add_value(&mine, element_double_##suffix(element));                     \
                if (is_float)                                                                  \
                    mine.sum += element_double_##suffix(element);                              \
                else                                                                           \
                    thread_add_integer(&mine, element_low_##suffix(element),                   \
                                       element_high_##suffix(element));                        \
            }                                                                                  \
        }                                                                                      \
        gmv_statistics_partial partial = thread_partial(&mine);                                \
        if (mine.n) {                                                                          \
            partial.min_key = min;                                                             \
            partial.max_key = max;                                                             \
        }                                                                                      \
        if (block_statistics(&partial))                                                        \
            ((gmv_statistics_partial *)args.output)[block_index()] = partial;                  \
    }

ELEMENT_MAP(DEFINE_STATISTICS)

#endif
