/* SPDX-License-Identifier: Apache-2.0 */
/* Integers that say where things are: whether they can be followed, and making some that can. */
#ifndef GMV_DEVICE_CUDA_KERNELS_INDICES_H
#define GMV_DEVICE_CUDA_KERNELS_INDICES_H

#include "device/cuda/kernels/bits.cuh"
#include "device/cuda/kernels/sums.cuh"

/* All loads are under way before the first one is needed; those past the end are left out later. */
#define INDICES_LOAD(type, load)                                     \
    do {                                                             \
        UNROLL                                                       \
        for (uint32_t i = 0; i < GMV_CUDA_INDICES_PIECES; i++) {     \
            uint64_t index = first + (uint64_t)i * GMV_CUDA_THREADS; \
            uint64_t address = args.address + index * sizeof(type);  \
            values[i] = index < args.n ? (type)load(address) : 0;    \
            before[i] = args.in_order && index > 0 && index < args.n \
                            ? (type)load(address - sizeof(type))     \
                            : 0;                                     \
        }                                                            \
    } while (0)

/* What is looked for is the largest distance of a bad one from the end: 0 is then "none". */
KERNEL(check_indices, cuda_indices_args)
{
    uint64_t first = block_index() * GMV_CUDA_INDICES_TILE + thread_index(), best = 0;
    int64_t values[GMV_CUDA_INDICES_PIECES], before[GMV_CUDA_INDICES_PIECES];
    if (args.itemsize == 4)
        INDICES_LOAD(int32_t, load32);
    else if (args.itemsize == 8)
        INDICES_LOAD(int64_t, load64);
    else if (args.itemsize == 2)
        INDICES_LOAD(int16_t, load16);
    else
        INDICES_LOAD(int8_t, load8);
    UNROLL
    for (uint32_t i = 0; i < GMV_CUDA_INDICES_PIECES; i++) {
        uint64_t index = first + (uint64_t)i * GMV_CUDA_THREADS;
        bool bad = values[i] < 0 || values[i] > args.limit || values[i] < before[i];
        if (bad && best == 0 && index < args.n &&
            (args.in_order || bits_read(args.validity, index, 1)))
            best = args.n - index;
    }
    result_subtract_largest(args.result, args.n, best);
}

KERNEL(sequence, cuda_sequence_args)
{
    uint64_t first = block_index() * GMV_CUDA_SEQUENCE_TILE + thread_index();
    UNROLL
    for (uint32_t i = 0; i < GMV_CUDA_PIECES; i++) {
        uint64_t index = first + (uint64_t)i * GMV_CUDA_THREADS;
        if (index < args.n)
            store32(args.output + index * sizeof(int32_t), (uint32_t)index * args.step);
    }
}

#endif
