/* SPDX-License-Identifier: Apache-2.0 */
/* Integers that say where things are: whether they can be followed, and making some that can. */
#ifndef GMV_DEVICE_CUDA_KERNELS_INDICES_H
#define GMV_DEVICE_CUDA_KERNELS_INDICES_H

#include "device/cuda/kernels/bits.cuh"
#include "device/cuda/kernels/sums.cuh"

/* All threads of a launch take the same branch. */
DEVICE int64_t index_load(const cuda_indices_args *args, uint64_t index)
{
    uint64_t address = args->address + index * args->itemsize;
    if (args->itemsize == 4)
        return (int32_t)load32(address);
    if (args->itemsize == 8)
        return (int64_t)load64(address);
    return args->itemsize == 2 ? (int16_t)load16(address) : (int8_t)load8(address);
}

/* What is looked for is the largest distance of a bad one from the end: 0 is then "none". */
KERNEL(check_indices, cuda_indices_args)
{
    uint64_t first = block_index() * GMV_CUDA_INDICES_TILE + thread_index(), best = 0;
    int64_t values[GMV_CUDA_INDICES_PIECES], before[GMV_CUDA_INDICES_PIECES];
    UNROLL
    for (uint32_t i = 0; i < GMV_CUDA_INDICES_PIECES; i++) {
        uint64_t index = first + (uint64_t)i * GMV_CUDA_THREADS;
        values[i] = before[i] = 0;
        if (index < args.n)
            values[i] = index_load(&args, index);
        if (index < args.n && index > 0 && args.in_order)
            before[i] = index_load(&args, index - 1);
    }
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
