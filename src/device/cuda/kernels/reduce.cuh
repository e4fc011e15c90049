/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What kernels share that make a few numbers of many elements: where a thread's elements are, which
 * of them count, and how the partials of a block's threads become one.
 */
#ifndef GMV_DEVICE_CUDA_KERNELS_REDUCE_H
#define GMV_DEVICE_CUDA_KERNELS_REDUCE_H

#include "device/cuda/kernels/bits.cuh"
#include "device/elements.h"

/* Blocks of 16 bytes that a thread has of a tile, and those of its that lie between two others. */
#define REDUCE_PIECES 16u
#define REDUCE_STRIDE WARP_THREADS

/* Blocks that a multiprocessor has registers for: 64 for a thread. */
#define REDUCE_RESIDENT 4

/* Elements of `bits` bits in one of them. */
#define REDUCE_ELEMENTS(bits) (128u / (bits))

/* Pieces first, first + REDUCE_STRIDE, ... are a thread's: a warp's loads lie side by side. */
DEVICE uint64_t reduce_first_piece(void)
{
    return (block_index() * BLOCK_WARPS + thread_index() / WARP_THREADS) *
               (REDUCE_PIECES * WARP_THREADS) +
           thread_index() % WARP_THREADS;
}

/* An array of n elements as a string of bits. */
DEVICE bit_source reduce_source(uint64_t address, uint64_t n, uint32_t bits)
{
    cuda_bits array = {address, 0};
    return source_of(array, n * bits);
}

/* A piece near an end: bytes that are not the array's are 0. Arguments are a bit_source's. */
DEVICE_CALL block16 reduce_edge_piece(uint64_t begin, uint64_t end, uint32_t shift, uint64_t piece)
{
    const bit_source source = {begin, end, begin & ~UINT64_C(15), shift};
    uint64_t at = source.blocks + 16 * piece;
    block16 first = source_block(&source, at), none = {0, 0};
    if (shift == 0)
        return first;
    return block_funnel(first, at + 16 < end ? source_block(&source, at + 16) : none, shift);
}

/* Whether n_pieces pieces, and what of the next ones they are shifted from, are inside. */
DEVICE bool reduce_is_inside(bit_source source, uint64_t first, uint32_t n_pieces)
{
    uint64_t at = source.blocks + 16 * first, last = at + 16 * (n_pieces - 1) * REDUCE_STRIDE;
    return source_holds(&source, at, last + (source.shift ? 16 : 0));
}

/* Pieces that are inside: all loads are under way before the first one is needed. */
#define REDUCE_LOAD(source, first, n_pieces, out)                                                \
    do {                                                                                         \
        const uint64_t at_ = (source).blocks + 16 * (first);                                     \
        UNROLL                                                                                   \
        for (uint32_t i_ = 0; i_ < (n_pieces); i_++)                                             \
            (out)[i_] = load128(at_ + 16 * i_ * REDUCE_STRIDE);                                  \
        if ((source).shift) {                                                                    \
            UNROLL                                                                               \
            for (uint32_t i_ = 0; i_ < (n_pieces); i_++)                                         \
                (out)[i_] = block_funnel((out)[i_], load128(at_ + 16 * i_ * REDUCE_STRIDE + 16), \
                                         (source).shift);                                        \
        }                                                                                        \
    } while (0)

/* Has the second cache get the pieces that the next turn loads. */
DEVICE void reduce_prefetch(bit_source source, uint64_t first, uint32_t n_pieces)
{
    UNROLL
    for (uint32_t i = 0; i < n_pieces; i++)
        prefetch(source.blocks + 16 * (first + i * REDUCE_STRIDE));
}

/* One bit for each element of a piece: whether it is there and valid. */
DEVICE uint32_t reduce_valid_bits(cuda_bits validity, uint64_t piece, uint32_t elements, uint64_t n)
{
    uint64_t index = piece * elements, left = index < n ? n - index : 0;
    uint32_t all = (uint32_t)low_ones(left < elements ? left : elements);
    return validity.address && all ? bits_word(validity, index, n) & all : all;
}

/* Element `i` of some pieces. */
#define REDUCE_ELEMENT(type, bits, pieces, i)                                                \
    ((type)((i) % REDUCE_ELEMENTS(bits) * (bits) < 64                                        \
                ? (pieces)[(i) / REDUCE_ELEMENTS(bits)].low >> (i) % (64u / (bits)) * (bits) \
                : (pieces)[(i) / REDUCE_ELEMENTS(bits)].high >> (i) % (64u / (bits)) * (bits)))

/* Changes bits of element `i`: those that `change` has. */
#define REDUCE_CHANGE(bits, pieces, i, change)                                  \
    do {                                                                        \
        uint64_t change_ = (uint64_t)(change) << (i) % (64u / (bits)) * (bits); \
        if ((i) % REDUCE_ELEMENTS(bits) * (bits) < 64)                          \
            (pieces)[(i) / REDUCE_ELEMENTS(bits)].low ^= change_;               \
        else                                                                    \
            (pieces)[(i) / REDUCE_ELEMENTS(bits)].high ^= change_;              \
    } while (0)

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
