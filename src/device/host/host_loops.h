/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inner loops of reductions over doubles, on blocks of a few thousand of them in memory of our own.
 * One set is built for each instruction set worth one; both add in the same order, and so give the
 * same results.
 */
#ifndef GMV_DEVICE_HOST_HOST_LOOPS_H
#define GMV_DEVICE_HOST_HOST_LOOPS_H

#include <stddef.h>
#include <stdint.h>

#include "device/elements.h"

#define HOST_LOOP_MAX 4096u /* values of a block */

/* Blocks have room for whole vectors; loops may change what follows the last value. */
#define HOST_LOOP_LANES 16u
#define HOST_LOOP_ROOM  (HOST_LOOP_MAX + HOST_LOOP_LANES)

/* All finite. */
typedef struct host_moments {
    double sum, mean;
    double squares; /* of the deviations from the mean, added */
} host_moments;

/* What pairs[0][i] and pairs[1][i] say, infinite and NaN ones included. */
typedef struct host_pairs {
    uint32_t n_finite, differing;
    double difference, relative;
} host_pairs;

typedef struct host_loops {
    void (*moments)(const double *values, uint32_t n, host_moments *out);
    void (*pairs)(double *const pairs[2], uint32_t n, const comparison_options *options,
                  host_pairs *out);

    /* Index of the first pair that differs: there is one. */
    uint32_t (*first_differing)(double *const pairs[2], uint32_t n,
                                const comparison_options *options);
} host_loops;

extern const host_loops gmv__host_portable_loops;
extern const host_loops gmv__host_avx2_loops; /* where gmv__host_avx2_set() has a set */

#endif
