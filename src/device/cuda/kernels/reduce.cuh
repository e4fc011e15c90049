/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What kernels share that make a few numbers of many elements: where a thread's elements are, which
 * of them count, and how the partials of a block's threads become one.
 */
#ifndef GMV_DEVICE_CUDA_KERNELS_REDUCE_H
#define GMV_DEVICE_CUDA_KERNELS_REDUCE_H

#include "device/cuda/kernels/bits.cuh"
#include "device/elements.h"

/* Elements that a thread has of a tile, by the bits of one: as device/tiles.h says. */
#define REDUCE_PIECES(bits) ((bits) <= 32 ? 32u : 1024u / (bits))

/*
 * A thread's elements are `first`, first + 32, ...: a warp's loads lie side by side. `row` is that
 * of the warp's first 32, in units of 32 elements.
 */
typedef struct reduce_place {
    uint64_t row;
    uint64_t first;
    uint32_t lane;
} reduce_place;

DEVICE reduce_place reduce_place_of(uint32_t pieces)
{
    reduce_place place;
    place.lane = thread_index() % WARP_THREADS;
    place.row = (block_index() * BLOCK_WARPS + thread_index() / WARP_THREADS) * pieces;
    place.first = place.row * WARP_THREADS + place.lane;
    return place;
}

DEVICE bool reduce_is_inside(reduce_place place, uint32_t pieces, uint64_t n)
{
    return place.first + (uint64_t)(pieces - 1) * WARP_THREADS < n;
}

/* Whether element k of the thread's is there and valid. */
DEVICE bool reduce_is_valid(reduce_place place, uint32_t k, cuda_bits validity, uint64_t n)
{
    if (place.first + k * WARP_THREADS >= n)
        return false;
    if (validity.address == 0)
        return true;
    return bits_word(validity, (place.row + k) * WARP_THREADS, n) >> place.lane & 1;
}

/*
 * All threads of a block call name(mine); true in the one that has got the merged partial. On the
 * device they halve in shared memory, each partial one word longer than it is, so that no two
 * threads of a warp meet in a bank; the emulator's come one after another.
 */
#ifdef __CUDACC__
#    define DEFINE_BLOCK_MERGE(name, type, merge)                                   \
        DEVICE bool name(type *mine)                                                \
        {                                                                           \
            struct padded {                                                         \
                type partial;                                                       \
                uint64_t unused[sizeof(type) / 8 % 2 ? 2 : 1];                      \
            };                                                                      \
            __shared__ padded partials[GMV_CUDA_THREADS];                           \
            uint32_t self = threadIdx.x;                                            \
            partials[self].partial = *mine;                                         \
            for (uint32_t half = GMV_CUDA_THREADS / 2; half > 0; half /= 2) {       \
                __syncthreads();                                                    \
                if (self < half)                                                    \
                    merge(&partials[self].partial, &partials[self + half].partial); \
            }                                                                       \
            if (self == 0)                                                          \
                *mine = partials[0].partial;                                        \
            return self == 0;                                                       \
        }
#else
#    define DEFINE_BLOCK_MERGE(name, type, merge)          \
        DEVICE bool name(type *mine)                       \
        {                                                  \
            static _Thread_local type whole;               \
            if (thread_index() == 0)                       \
                whole = *mine;                             \
            else                                           \
                merge(&whole, mine);                       \
            *mine = whole;                                 \
            return thread_index() == GMV_CUDA_THREADS - 1; \
        }
#endif

/* Each thread merges neighbours in order, then the block does. */
#define DEFINE_MERGE_KERNEL(name, type, none, merge, block_merge)               \
    KERNEL(name, cuda_merge_args)                                               \
    {                                                                           \
        const type *partials = (const type *)args.input;                        \
        uint64_t at = block_index() * GMV_CUDA_MERGE_TILE +                     \
                      (uint64_t)thread_index() * GMV_CUDA_MERGE_PIECES;         \
        type mine = none();                                                     \
        for (uint32_t k = 0; k < GMV_CUDA_MERGE_PIECES && at + k < args.n; k++) \
            merge(&mine, &partials[at + k]);                                    \
        if (block_merge(&mine))                                                 \
            ((type *)args.output)[block_index()] = mine;                        \
    }

#endif
