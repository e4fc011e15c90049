/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Histograms. Where the counts fit, a block gathers its own in shared memory and adds them to those
 * of the whole in the end; a count of a block fits 32 bits.
 */
#ifndef GMV_DEVICE_CUDA_KERNELS_HISTOGRAM_H
#define GMV_DEVICE_CUDA_KERNELS_HISTOGRAM_H

#include "device/cuda/kernels/reduce.cuh"

#define HISTOGRAM_SHARED 2048u

/*
 * A thread's elements are `first`, first + 32, ...: a warp's loads lie side by side. `row` is that
 * of the warp's first 32, in units of 32 elements.
 */
typedef struct histogram_elements {
    uint64_t row;
    uint64_t first;
    uint32_t lane;
} histogram_elements;

DEVICE histogram_elements histogram_elements_of(uint32_t pieces)
{
    histogram_elements place;
    place.lane = thread_index() % WARP_THREADS;
    place.row = (block_index() * BLOCK_WARPS + thread_index() / WARP_THREADS) * pieces;
    place.first = place.row * WARP_THREADS + place.lane;
    return place;
}

/* Whether element k of the thread's is there and valid. */
DEVICE bool histogram_is_valid(histogram_elements place, uint32_t k, cuda_bits validity, uint64_t n)
{
    if (place.first + k * WARP_THREADS >= n)
        return false;
    if (validity.address == 0)
        return true;
    return bits_word(validity, (place.row + k) * WARP_THREADS, n) >> place.lane & 1;
}

#ifdef __CUDACC__
#    define HISTOGRAM_BEGIN(n_counts)                                                      \
        __shared__ uint32_t own[HISTOGRAM_SHARED];                                         \
        const bool is_shared = (n_counts) <= HISTOGRAM_SHARED;                             \
        for (uint32_t i = threadIdx.x; is_shared && i < (n_counts); i += GMV_CUDA_THREADS) \
            own[i] = 0;                                                                    \
        __syncthreads();
#    define HISTOGRAM_COUNT(counts, index)                           \
        do {                                                         \
            if (is_shared)                                           \
                (void)atomicAdd(&own[index], 1u);                    \
            else                                                     \
                (void)atomic_add((uint64_t *)(counts) + (index), 1); \
        } while (0)
#    define HISTOGRAM_END(counts, n_counts)                                                \
        __syncthreads();                                                                   \
        for (uint32_t i = threadIdx.x; is_shared && i < (n_counts); i += GMV_CUDA_THREADS) \
            if (own[i])                                                                    \
                (void)atomic_add((uint64_t *)(counts) + i, own[i]);
#else
#    define HISTOGRAM_BEGIN(n_counts)      (void)(n_counts);
#    define HISTOGRAM_COUNT(counts, index) ((void)atomic_add((uint64_t *)(counts) + (index), 1))
#    define HISTOGRAM_END(counts, n_counts)
#endif

/* The class of an element, and its value if it is finite. */
DEVICE uint32_t histogram_read(const cuda_histogram_args *args, uint64_t index, double *value)
{
    uint64_t at = args->input + index * args->itemsize;
#define HISTOGRAM_ROW(dtype, suffix, type, bits, is_float) \
case ELEMENT_##suffix: {                                   \
    type element = load##bits(at);                         \
    *value = element_double_##suffix(element);             \
    return element_class_##suffix(element);                \
}
    switch (args->element) {
        ELEMENT_MAP(HISTOGRAM_ROW)
    default:
        return ELEMENT_NAN;
    }
#undef HISTOGRAM_ROW
}

/* Which count the element adds to. */
DEVICE uint64_t histogram_place(const cuda_histogram_args *args, uint64_t index)
{
    double value = 0;
    uint32_t kind = histogram_read(args, index, &value);
    if (kind != ELEMENT_FINITE)
        return args->n_bins + (kind == ELEMENT_NAN ? 2 : 3);
    if (value < args->first)
        return args->n_bins;
    if (value > args->last)
        return args->n_bins + 1;
    return histogram_bin(value, (const double *)args->edges, args->n_bins, args->first,
                         args->scale);
}

KERNEL(histogram, cuda_histogram_args)
{
    const histogram_elements place = histogram_elements_of(GMV_CUDA_HISTOGRAM_PIECES);
    const uint64_t n_counts = args.n_bins + 4;
    HISTOGRAM_BEGIN(n_counts)
    NO_UNROLL
    for (uint32_t k = 0; k < GMV_CUDA_HISTOGRAM_PIECES; k++) {
        if (!histogram_is_valid(place, k, args.validity, args.n))
            continue;
        uint64_t count = histogram_place(&args, place.first + k * WARP_THREADS);
        HISTOGRAM_COUNT(args.counts, count);
    }
    HISTOGRAM_END(args.counts, n_counts)
}

#endif
