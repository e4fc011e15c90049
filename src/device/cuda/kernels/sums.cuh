/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the blocks of a launch make one number for the host. Each adds what it found and a ticket in
 * one atomic operation, so that neither waits for the other to be seen; whose ticket is the last
 * one writes the outcome and leaves zeros for the next launch. Beyond some blocks a single address
 * is too busy: they meet in leaves first, and the leaves at the root.
 */
#ifndef GMV_DEVICE_CUDA_KERNELS_SUMS_H
#define GMV_DEVICE_CUDA_KERNELS_SUMS_H

#include "device/cuda/kernels/language.cuh"

#ifdef __CUDACC__
#    define SUM_BLOCKS_DIRECT 8192
#else
#    define SUM_BLOCKS_DIRECT 64 /* short inputs have got leaves, too */
#endif
#define SUM_VALUE_BITS 44 /* the tickets are above them */

/* Brings *value; true, and *value is all that was brought, for the last of `members`. */
DEVICE bool sum_join(cuda_sum *sum, uint64_t members, uint64_t *value)
{
    const uint64_t ticket = UINT64_C(1) << SUM_VALUE_BITS;
    uint64_t before = atomic_add(&sum->joined, ticket + *value);
    if (before >> SUM_VALUE_BITS != members - 1)
        return false;
    *value += before & (ticket - 1);
    (void)atomic_take(&sum->joined);
    return true;
}

/* Called by one thread of each block; true for the last one. */
DEVICE bool sum_meet(cuda_sum *sums, uint64_t *value)
{
    uint64_t blocks = grid_blocks();
    if (blocks <= SUM_BLOCKS_DIRECT)
        return sum_join(&sums[0], combined_blocks(blocks), value);
    uint64_t leaf = block_index() % GMV_CUDA_LEAVES;
    uint64_t members = blocks / GMV_CUDA_LEAVES + (leaf < blocks % GMV_CUDA_LEAVES);
    if (!sum_join(&sums[1 + leaf], combined_blocks(members), value))
        return false;
    memory_fence(); /* what the others of this leaf have done before is seen at the root */
    return sum_join(&sums[0], GMV_CUDA_LEAVES, value);
}

DEVICE void result_write(cuda_result result, uint64_t value)
{
    *(volatile int64_t *)result.output = (int64_t)value;
}

/*
 * The result is the sum of all threads' values, of which a block's fits 32 bits. All threads of the
 * block call it.
 */
DEVICE void result_add(cuda_result result, uint32_t value)
{
    if (result.sum == 0 || !block_sum(&value))
        return;
    uint64_t sum = value;
    if (sum_meet((cuda_sum *)result.sum, &sum))
        result_write(result, sum);
}

/*
 * The result is `base` minus the largest of all threads' values. The largest so far is at the root
 * at any time, for those who can stop early.
 */
DEVICE void result_subtract_largest(cuda_result result, uint64_t base, uint64_t value)
{
    cuda_sum *sums = (cuda_sum *)result.sum;
    uint64_t nothing = 0;
    if (!block_largest(&value))
        return;
    if (value) {
        atomic_max(&sums[0].largest, value);
        memory_fence();
    }
    if (!sum_meet(sums, &nothing))
        return;
    memory_fence();
    result_write(result, base - atomic_take(&sums[0].largest));
}

/* It may be an old one from a cache near by, which is much faster to have. */
DEVICE uint64_t result_largest_so_far(cuda_result result)
{
    return load64((uint64_t) & ((const cuda_sum *)result.sum)->largest);
}

#endif
