/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looking inside an array, computed where it lies: statistics, histograms, checksums, comparisons.
 * The subject is a view of any layout, whose own mask counts, or a column of a fixed-width type.
 * What is strided, or masked by other than one bitmask, is gathered a bounded part at a time; work
 * is weighed in logical bytes.
 */
#ifndef GMV_OPS_INSPECT_H
#define GMV_OPS_INSPECT_H

#include <gmv/device/reductions.h>
#include <gmv/ops/column.h>

GMV_BEGIN_DECLS

/*
 * Bits of validity of `count` elements from `first` on by the view's own mask, from bit 0 on; NULL
 * without a mask. Freed with gmv_free.
 */
GMV_NODISCARD gmv_status gmv_view_read_validity(gmv_operation *operation, gmv_view *view,
                                                int64_t first, int64_t count, uint8_t **out_bits,
                                                gmv_error *err);

/* ---- statistics ---- */

/*
 * All but the counts is of the finite valid elements, of which there are `count` less those that
 * are null, not a number or infinite. Booleans count as 0 and 1, dates as integers.
 */
typedef struct gmv_statistics {
    gmv_dtype dtype; /* of the extremes: U1 for booleans */
    int64_t count;   /* all elements */
    int64_t null_count;
    int64_t nan_count;
    int64_t inf_count;
    int64_t zero_count;
    bool has_extremes; /* there is at least one element to speak of */
    uint8_t min[8];    /* elements of dtype */
    uint8_t max[8];
    bool is_integer;   /* the sum is `sum_integer` and exact, else `sum` */
    bool has_sum;      /* not so without elements to add, and if it overflows */
    bool sum_overflow; /* it is beyond int64, or for floats beyond double */
    int64_t sum_integer;
    double sum;
    bool has_mean;
    double mean;
    bool has_deviation;
    double deviation; /* standard; divides by the number of elements */
} gmv_statistics;

/*
 * `mask` (NULL, or a bitmask of 0 bytes: none) is a |b1 view of as many elements, or a bitmask (|u1
 * or <u4, contiguous): 1 is valid; elements must be valid by it and by the subject's own mask.
 * Pointer "/mask".
 *
 * @retval GMV_ERR_KIND_MISMATCH      neither a view nor a column
 * @retval GMV_ERR_DTYPE_UNSUPPORTED  elements without an order: complex numbers, and columns of
 *                                    decimals, strings and nested types; a mask of another type
 * @retval GMV_ERR_VALUE              a mask of another size or on another device
 * @retval GMV_ERR_OUT_OF_BOUNDS      a bitmask that is too short
 * @retval GMV_ERR_NOT_CONTIGUOUS     a strided bitmask
 */
GMV_NODISCARD gmv_status gmv_inspect_statistics(gmv_operation *operation, gmv_node *subject,
                                                gmv_view *mask, gmv_statistics *out_statistics,
                                                gmv_error *err);

/* ---- histograms ---- */

#define GMV_HISTOGRAM_BINS_MAX 65536

typedef struct gmv_histogram_request {
    int64_t bins; /* 1 to GMV_HISTOGRAM_BINS_MAX */
    bool has_min, has_max;
    double min, max; /* finite, min <= max; what is not given is found */
} gmv_histogram_request;

/* Of finite valid elements; bins and edges are those of numpy.histogram. */
typedef struct gmv_histogram {
    int64_t bins;
    double *edges;    /* bins + 1 of them */
    uint64_t *counts; /* of the bins, then GMV_HISTOGRAM_RESTS more */
    bool short_edges; /* edges are float32 values */
} gmv_histogram;

/*
 * Errors as gmv_inspect_statistics, and:
 * @retval GMV_ERR_VALUE  two edges would be the same: too many bins for the range ("/bins")
 * Freed by gmv_histogram_fini, on success only.
 */
GMV_NODISCARD gmv_status gmv_inspect_histogram(gmv_operation *operation, gmv_node *subject,
                                               const gmv_histogram_request *request,
                                               gmv_histogram *out_histogram, gmv_error *err);
void gmv_histogram_fini(gmv_histogram *histogram);

/* ---- checksums ---- */

typedef enum gmv_checksum_algorithm {
    GMV_CHECKSUM_CRC32C,     /* of the whole */
    GMV_CHECKSUM_XXH64_TREE, /* of the little-endian hashes of blocks, one after another */
    GMV_CHECKSUM_XXH3_TREE
} gmv_checksum_algorithm;

#define GMV_CHECKSUM_LISTED_MAX 65536

typedef struct gmv_checksum_request {
    gmv_checksum_algorithm algorithm;
    int64_t block_nbytes; /* trees: a multiple of 64, GMV_HASH_BLOCK_MIN to GMV_HASH_BLOCK_MAX */
    bool list_blocks;     /* trees only */
} gmv_checksum_request;

/* Of the logical bytes in C order, whatever a mask says. */
typedef struct gmv_checksum {
    uint64_t nbytes;
    uint64_t value; /* of a CRC the lower 32 bits */
    uint64_t n_blocks;
    uint64_t *blocks; /* NULL unless listed */
} gmv_checksum;

/*
 * @retval GMV_ERR_VALUE              more blocks to list than GMV_CHECKSUM_LISTED_MAX ("/blocks")
 * @retval GMV_ERR_DTYPE_UNSUPPORTED  a column that is not of a fixed-width type
 * Freed by gmv_checksum_fini, on success only.
 */
GMV_NODISCARD gmv_status gmv_inspect_checksum(gmv_operation *operation, gmv_node *subject,
                                              const gmv_checksum_request *request,
                                              gmv_checksum *out_checksum, gmv_error *err);
void gmv_checksum_fini(gmv_checksum *checksum);

/* ---- comparisons ---- */

typedef struct gmv_comparison_request {
    bool nan_equal;
    double absolute_tolerance; /* finite, not negative */
    double relative_tolerance;
} gmv_comparison_request;

/* @retval GMV_ERR_VALUE  a tolerance ("/absolute_tolerance", "/relative_tolerance") */
GMV_NODISCARD gmv_status gmv_comparison_check(const gmv_comparison_request *request,
                                              gmv_error *err);

/*
 * Elements are equal, or both null, or both not a number if so asked for, or |a - b| <= absolute +
 * relative * |b|. Differences are those of pairs that are both valid and finite; the relative one
 * leaves out pairs whose second element is 0.
 */
typedef struct gmv_comparison {
    bool equal;
    int64_t differing;
    int64_t first_difference; /* index in C order, -1 for none */
    bool has_differences;
    bool is_integer; /* the absolute difference is `integer_difference` and exact */
    uint64_t integer_difference;
    double absolute_difference;
    double relative_difference;
} gmv_comparison;

/*
 * @retval GMV_ERR_VALUE  another shape, element type or device ("/other"), a negative tolerance
 *                        ("/absolute_tolerance", "/relative_tolerance")
 */
GMV_NODISCARD gmv_status gmv_inspect_compare(gmv_operation *operation, gmv_node *subject,
                                             gmv_node *other, const gmv_comparison_request *request,
                                             gmv_comparison *out_comparison, gmv_error *err);

GMV_END_DECLS

#endif
