/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What reductions leave in device memory: outcomes of one part of an array, which merge to that of
 * the whole (reductions.h). The same bytes on the host and on a device, so nothing but fixed-width
 * members; kernels include this header, too.
 */
#ifndef GMV_DEVICE_PARTIALS_H
#define GMV_DEVICE_PARTIALS_H

#include <stdint.h>

/*
 * Of `n` finite valid elements; what else is counted is not among them, but for the zeros. Extremes
 * are keys: unsigned integers in the order of the elements (-0 before 0). Integers have their exact
 * sum in 128 bits of two's complement, floats theirs as a double and its rounding errors.
 */
typedef struct gmv_statistics_partial {
    uint64_t n;
    uint64_t nan_count;
    uint64_t inf_count;
    uint64_t zero_count;
    uint64_t min_key; /* UINT64_MAX if n is 0 */
    uint64_t max_key; /* 0 if n is 0 */
    uint64_t sum_low;
    uint64_t sum_high;
    double sum;
    double sum_error; /* to be added to it */
    double mean;
    double squares; /* of the deviations from the mean, added */
} gmv_statistics_partial;

#define GMV_NO_INDEX UINT64_MAX

/* Differences are those of the pairs that are both valid and finite, of which there are `n`. */
typedef struct gmv_comparison_partial {
    uint64_t n;
    uint64_t differing;
    uint64_t first;              /* index of the first pair that differs, or GMV_NO_INDEX */
    uint64_t integer_difference; /* the largest, exact, of integers */
    double difference;           /* the largest, of floats and complex numbers */
    double relative_difference;  /* the largest, of those whose second element is not 0 */
} gmv_comparison_partial;

#endif
