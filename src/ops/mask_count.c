/* SPDX-License-Identifier: Apache-2.0 */
/* Null-mask verbs that make nothing: counting, searching, and setting bits in place. */
#include <gmv/base/num.h>

#include "ops/mask_priv.h"

/* ---- counting ---- */

static uint64_t count_nbytes(const gmv_bit_range *ranges, size_t n_ranges)
{
    uint64_t bits = 0;
    for (size_t i = 0; i < n_ranges; i++)
        if (!gmv_add_checked(bits, (uint64_t)(ranges[i].end - ranges[i].begin), &bits))
            return UINT64_MAX;
    return bits / 8;
}

/* Counts ones in checked ranges of a mask that exists. */
static gmv_status count_ones(gmv_operation *operation, gmv_view *bitmask,
                             const gmv_bit_range *ranges, size_t n_ranges, int64_t *out_counts,
                             gmv_error *err)
{
    gmv_draft draft;
    if (n_ranges == 0)
        return GMV_OK;
    GMV_TRY(gmv_operation_weigh(operation, count_nbytes(ranges, n_ranges), err));
    GMV_TRY(gmv__draft_begin(&draft, operation,
                             gmv__view_device_or_first(operation->engine, bitmask), err));
    gmv_count_bits count = {
        .address = bitmask->ptr,
        .ranges = ranges,
        .n_ranges = n_ranges,
        .out_counts = out_counts,
    };
    gmv_status status = gmv__draft_use(&draft, bitmask, err);
    if (status == GMV_OK)
        status = gmv_kernel_count_bits(draft.stream, &count, err);
    return gmv__draft_end(&draft, status, err);
}

gmv_status gmv_valid_count(gmv_operation *operation, gmv_view *bitmask, gmv_bit_range range,
                           int64_t *out_count, gmv_error *err)
{
    int64_t bits;
    GMV_TRY(gmv__bitmask_resolve_range(bitmask, range, &bits, err));
    if (bits != GMV_BITMASK_NONE)
        return count_ones(operation, bitmask, &range, 1, out_count, err);
    *out_count = range.end - range.begin;
    return GMV_OK;
}

gmv_status gmv_null_count(gmv_operation *operation, gmv_view *bitmask, gmv_bit_range range,
                          int64_t *out_count, gmv_error *err)
{
    int64_t valid;
    GMV_TRY(gmv_valid_count(operation, bitmask, range, &valid, err));
    *out_count = range.end - range.begin - valid;
    return GMV_OK;
}

gmv_status gmv_segmented_null_count(gmv_operation *operation, gmv_view *bitmask,
                                    const gmv_bit_range *ranges, size_t n_ranges,
                                    int64_t *out_counts, gmv_error *err)
{
    int64_t bits;
    GMV_TRY(gmv__bitmask_resolve(bitmask, &bits, err));
    GMV_TRY(gmv_bit_ranges_check(ranges, n_ranges, bits, err));
    if (bits != GMV_BITMASK_NONE)
        GMV_TRY(count_ones(operation, bitmask, ranges, n_ranges, out_counts, err));
    for (size_t i = 0; i < n_ranges; i++) {
        int64_t length = ranges[i].end - ranges[i].begin;
        out_counts[i] = bits == GMV_BITMASK_NONE ? 0 : length - out_counts[i];
    }
    return GMV_OK;
}

/* ---- searching ---- */

gmv_status gmv_index_of_first_set_bit(gmv_operation *operation, gmv_view *bitmask,
                                      gmv_bit_range range, int64_t *out_index, gmv_error *err)
{
    int64_t bits;
    gmv_draft draft;
    GMV_TRY(gmv__bitmask_resolve_range(bitmask, range, &bits, err));
    if (range.begin == range.end)
        return gmv_fail(err, GMV_ERR_VALUE, "/end_bit", "the range is empty");
    if (bits == GMV_BITMASK_NONE) {
        *out_index = 0;
        return GMV_OK;
    }
    GMV_TRY(gmv_operation_weigh(operation, count_nbytes(&range, 1), err));
    GMV_TRY(gmv__draft_begin(&draft, operation,
                             gmv__view_device_or_first(operation->engine, bitmask), err));
    gmv_find_bit find = {.address = bitmask->ptr, .range = range, .out_index = out_index};
    gmv_status status = gmv__draft_use(&draft, bitmask, err);
    if (status == GMV_OK)
        status = gmv_kernel_find_bit(draft.stream, &find, err);
    return gmv__draft_end(&draft, status, err);
}

/* ---- in place ---- */

gmv_status gmv_set_null_mask(gmv_operation *operation, gmv_view *bitmask, gmv_bit_range range,
                             bool valid, gmv_error *err)
{
    int64_t bits;
    gmv_draft draft;
    GMV_TRY(gmv__bitmask_resolve(bitmask, &bits, err));
    if (bits == GMV_BITMASK_NONE)
        return gmv_fail(err, GMV_ERR_VALUE, "/bitmask", "there is no mask to set bits in");
    if (bitmask->readonly)
        return gmv_fail(err, GMV_ERR_READONLY, "/bitmask", "the view is readonly");
    GMV_TRY(gmv_bit_range_check(range, bits, err));
    if (range.begin == range.end)
        return GMV_OK;
    GMV_TRY(gmv_operation_weigh(operation, count_nbytes(&range, 1), err));
    GMV_TRY(gmv__draft_begin(&draft, operation,
                             gmv__view_device_or_first(operation->engine, bitmask), err));
    gmv_set_bits set = {.address = bitmask->ptr, .range = range, .valid = valid};
    gmv_status status = gmv__draft_use(&draft, bitmask, err);
    if (status == GMV_OK)
        status = gmv_kernel_set_bits(draft.stream, &set, err);
    return gmv__draft_end(&draft, status, err);
}
