/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels that make a few numbers of many elements, and what merges their outcomes. As for those of
 * kernels.h, arguments are checked by the floor above; inputs are contiguous and aligned to their
 * type. Outcomes are left in device memory: copy them out, then finish.
 *
 * Both backends take an array in the same tiles and merge these in order, and both compute with
 * doubles, so that what they answer differs by rounding alone. With u = 2^-53 and S the sum of all
 * |x|, a sum of floats is within 128 u S of the exact one, so two of them are within 256 u S of
 * each other; means are within 128 u of the largest |x| of the exact one. The squares of
 * deviations, added, are within a factor of 1 +- 4096 u (1 + |mean| / std), and 0 where all
 * elements are the same. Where numbers are subnormal, each of the n operations may add 2^-1074 to
 * these. Counts, extremes, sums of integers and indices are the same on both, and so are
 * differences but those of complex numbers (4 u) and relative ones (8 u).
 */
#ifndef GMV_DEVICE_REDUCTIONS_H
#define GMV_DEVICE_REDUCTIONS_H

#include <gmv/device/kernels.h>
#include <gmv/device/partials.h>
#include <gmv/model/dtype.h>

GMV_BEGIN_DECLS

/* Most elements that one call takes. */
#define GMV_REDUCTION_ELEMENTS_MAX (INT64_C(1) << 32)

/* Scratch memory that a reduction of n elements needs, in bytes; the outcome is at its start. */
uint64_t gmv_statistics_scratch_nbytes(gmv_dtype dtype, int64_t n);
uint64_t gmv_comparison_scratch_nbytes(gmv_dtype dtype, int64_t n);

/* Whether the type has an order, and so statistics and histograms. */
bool gmv_dtype_is_ordered(gmv_dtype dtype);

/* Leaves a gmv_statistics_partial at the start of the scratch memory. */
typedef struct gmv_statistics_reduction {
    gmv_dtype dtype; /* ordered */
    uint64_t input;
    gmv_bits validity;
    int64_t n;
    uint64_t scratch; /* aligned to 64, as many bytes as said above */
} gmv_statistics_reduction;

/*
 * Leaves a gmv_comparison_partial at the start of the scratch memory. Elements differ where one of
 * two is not valid, or both are and neither equal, nor both no numbers and nan_equal, nor finite
 * and |a - b| <= absolute_tolerance + relative_tolerance * |b|.
 */
typedef struct gmv_comparison_reduction {
    gmv_dtype dtype; /* any */
    uint64_t inputs[2];
    gmv_bits validities[2];
    int64_t n;
    bool nan_equal;
    double absolute_tolerance;
    double relative_tolerance;
    uint64_t scratch;
} gmv_comparison_reduction;

/* Where the counts are that no bin has, after those of the bins. */
typedef enum gmv_histogram_rest {
    GMV_HISTOGRAM_BELOW,
    GMV_HISTOGRAM_ABOVE,
    GMV_HISTOGRAM_NAN,
    GMV_HISTOGRAM_INFINITE,
    GMV_HISTOGRAM_RESTS
} gmv_histogram_rest;

/*
 * Adds to n_bins and GMV_HISTOGRAM_RESTS counts. Bin i has the elements x with edges[i] <= x <
 * edges[i + 1], the last bin also those that are its upper edge. Edges ascend.
 */
typedef struct gmv_histogram_reduction {
    gmv_dtype dtype; /* ordered */
    uint64_t input;
    gmv_bits validity;
    int64_t n;
    uint64_t edges; /* doubles on the device, n_bins + 1 of them */
    int64_t n_bins;
    double first_edge, last_edge; /* as in that memory */
    uint64_t counts;              /* uint64_t on the device */
} gmv_histogram_reduction;

typedef enum gmv_hash { GMV_HASH_XXH64, GMV_HASH_XXH3 } gmv_hash;

/*
 * The 64-bit hash (seed 0) of each of n blocks that lie one after another; outputs are uint64_t.
 */
typedef struct gmv_hash_blocks {
    gmv_hash hash;
    uint64_t input;        /* aligned to 16 */
    uint64_t block_nbytes; /* a multiple of 64, at least GMV_HASH_BLOCK_MIN */
    int64_t n;
    uint64_t output; /* aligned to 8 */
} gmv_hash_blocks;

#define GMV_HASH_BLOCK_MIN 1024
#define GMV_HASH_BLOCK_MAX (16 << 20)

/* Bytes that one number of a gmv_crc32c is of. */
#define GMV_CRC_TILE ((uint64_t)128 << 10)

/*
 * The CRC-32C register, from 0 on and not inverted, after each tile of the input; the last tile may
 * be shorter. Outputs are uint32_t.
 */
typedef struct gmv_crc32c {
    uint64_t input; /* aligned to 16 */
    uint64_t nbytes;
    uint64_t output; /* aligned to 4 */
} gmv_crc32c;

GMV_NODISCARD gmv_status gmv_kernel_statistics(gmv_stream *stream,
                                               const gmv_statistics_reduction *args,
                                               gmv_error *err);
GMV_NODISCARD gmv_status gmv_kernel_compare(gmv_stream *stream,
                                            const gmv_comparison_reduction *args, gmv_error *err);
GMV_NODISCARD gmv_status gmv_kernel_histogram(gmv_stream *stream,
                                              const gmv_histogram_reduction *args, gmv_error *err);
GMV_NODISCARD gmv_status gmv_kernel_hash_blocks(gmv_stream *stream, const gmv_hash_blocks *args,
                                                gmv_error *err);
GMV_NODISCARD gmv_status gmv_kernel_crc32c(gmv_stream *stream, const gmv_crc32c *args,
                                           gmv_error *err);

/* ---- on the host ---- */

/* Of nothing. */
gmv_statistics_partial gmv_statistics_none(void);
gmv_comparison_partial gmv_comparison_none(void);

/* `from` follows `into`. The first index of `from` counts from the start of the whole. */
void gmv_statistics_add(gmv_statistics_partial *into, const gmv_statistics_partial *from);
void gmv_comparison_add(gmv_comparison_partial *into, const gmv_comparison_partial *from);

/* The element that has this key, as its bytes. */
void gmv_element_of_key(gmv_dtype dtype, uint64_t key, void *out_element);

/* The value of an element of an ordered type, rounded to a double; infinite and NaN as they are. */
double gmv_element_value(gmv_dtype dtype, const void *element);

/*
 * A CRC-32C register of some bytes, by tables. `gmv_crc32c_shift` gives the register that `crc`
 * becomes when n zero bytes follow, so that two registers (from 0 on) join:
 * shift(first, bytes of second) ^ second.
 */
uint32_t gmv_crc32c_update(uint32_t crc, const void *bytes, size_t nbytes);
uint32_t gmv_crc32c_shift(uint32_t crc, uint64_t nbytes);

/* The same shift many times: a table for one number of bytes. */
typedef struct gmv_crc32c_shifter {
    uint32_t table[4][256];
} gmv_crc32c_shifter;

void gmv_crc32c_shifter_init(gmv_crc32c_shifter *shifter, uint64_t nbytes);

static inline uint32_t gmv_crc32c_shifter_apply(const gmv_crc32c_shifter *shifter, uint32_t crc)
{
    return shifter->table[0][crc & 0xff] ^ shifter->table[1][crc >> 8 & 0xff] ^
           shifter->table[2][crc >> 16 & 0xff] ^ shifter->table[3][crc >> 24];
}

/* The 64-bit hash of some bytes, seed 0. */
uint64_t gmv_hash_bytes(gmv_hash hash, const void *bytes, size_t nbytes);

GMV_END_DECLS

#endif
