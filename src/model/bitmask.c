/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes and ranges of null masks, in cuDF's size_type: bit positions are 0 to 2^31-1. */
#include <gmv/model/bitmask.h>

#include <inttypes.h>
#include <stdio.h>

#include <gmv/base/num.h>
#include <gmv/model/cudf_type.h>

int64_t gmv_bitmask_words(int64_t bits)
{
    return (bits + 31) / 32;
}

int64_t gmv_bitmask_nbytes(int64_t bits)
{
    return (int64_t)gmv_round_up((uint64_t)(bits + 7) / 8, GMV_BITMASK_PADDING);
}

gmv_status gmv_bitmask_allocation_nbytes(int64_t bits, int64_t padding, int64_t *out_nbytes,
                                         gmv_error *err)
{
    if (bits < 0 || bits > GMV_SIZE_TYPE_MAX)
        return gmv_fail(err, GMV_ERR_VALUE, "/number_of_bits",
                        "number_of_bits is %" PRId64 "; it must be 0 to %" PRId32, bits,
                        GMV_SIZE_TYPE_MAX);
    if (padding < 1)
        return gmv_fail(err, GMV_ERR_VALUE, "/padding_boundary",
                        "padding_boundary is %" PRId64 "; it must be 1 or more", padding);
    int64_t used = (bits + 7) / 8;
    int64_t blocks = used / padding + (used % padding != 0);
    int64_t nbytes;
    if (!gmv_mul_checked(blocks, padding, &nbytes) || nbytes > GMV_EXACT_IN_DOUBLE_MAX)
        return gmv_fail(err, GMV_ERR_VALUE, "/padding_boundary",
                        "the size for a padding_boundary of %" PRId64 " does not fit 53 bits",
                        padding);
    *out_nbytes = nbytes;
    return GMV_OK;
}

gmv_status gmv_bit_range_check(gmv_bit_range range, int64_t bits_available, gmv_error *err)
{
    if (range.begin < 0 || range.begin > GMV_SIZE_TYPE_MAX)
        return gmv_fail(err, GMV_ERR_VALUE, "/begin_bit",
                        "begin_bit must be 0 to %" PRId32 ", not %" PRId64, GMV_SIZE_TYPE_MAX,
                        range.begin);
    if (range.end < range.begin || range.end > GMV_SIZE_TYPE_MAX)
        return gmv_fail(err, GMV_ERR_VALUE, "/end_bit",
                        "end_bit must be begin_bit (%" PRId64 ") to %" PRId32 ", not %" PRId64,
                        range.begin, GMV_SIZE_TYPE_MAX, range.end);
    if (bits_available >= 0 && range.end > bits_available)
        return gmv_fail(err, GMV_ERR_OUT_OF_BOUNDS, "/end_bit",
                        "end_bit is %" PRId64 ", but there are only %" PRId64 " bits", range.end,
                        bits_available);
    return GMV_OK;
}

gmv_status gmv_bit_ranges_check(const gmv_bit_range *ranges, size_t n_ranges,
                                int64_t bits_available, gmv_error *err)
{
    for (size_t i = 0; i < n_ranges; i++) {
        gmv_status status = GMV_OK;
        if (ranges[i].begin < 0)
            status = gmv_fail(err, GMV_ERR_INDEX, "/ranges",
                              "the range starts at %" PRId64 ", below 0", ranges[i].begin);
        else
            status = gmv_bit_range_check(ranges[i], bits_available, err);
        if (status != GMV_OK) {
            if (err)
                (void)snprintf(err->pointer, sizeof err->pointer, "/ranges/%zu", i);
            return status;
        }
    }
    return GMV_OK;
}
