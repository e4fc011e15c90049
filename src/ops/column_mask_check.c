/* SPDX-License-Identifier: Apache-2.0 */
/* Counts a column's mask anew: the rows and what lies behind them in one pass. */
#include <gmv/base/num.h>
#include <gmv/ops/mask_check.h>

#include "ops/draft_priv.h"

#define MASK_WORD_NBYTES 4

static gmv_status mask_count(gmv_operation *operation, const gmv_column *column,
                             const gmv_bit_range ranges[2], int64_t out_counts[2], gmv_error *err)
{
    const gmv_view *mask = column->null_mask;
    gmv_draft draft;
    GMV_TRY(gmv_operation_weigh(operation, (uint64_t)mask->nbytes, err));
    GMV_TRY(gmv__draft_begin(&draft, operation, mask->buffer->memory->device, err));
    gmv_count_bits count = {
        .address = mask->ptr,
        .ranges = ranges,
        .n_ranges = 2,
        .out_counts = out_counts,
    };
    gmv_status status = gmv__draft_use(&draft, mask, err);
    if (status == GMV_OK)
        status = gmv_kernel_count_bits(draft.stream, &count, err);
    return gmv__draft_end(&draft, status, err);
}

gmv_status gmv_column_check_mask(gmv_operation *operation, gmv_column *column,
                                 gmv_mask_check *out_check, gmv_error *err)
{
    *out_check = (gmv_mask_check){
        .claimed = column->null_count,
        .counted = column->type.id == GMV_CUDF_EMPTY ? column->size : 0,
        .bits_before = column->offset,
    };
    if (!gmv_column_is_nullable(column))
        return GMV_OK;
    int64_t end = (int64_t)column->offset + column->size, counts[2];
    const gmv_bit_range ranges[2] = {
        {column->offset, end},
        {end, GMV_MAX(end, column->null_mask->nbytes * 8)},
    };
    GMV_TRY(mask_count(operation, column, ranges, counts, err));
    out_check->counted = column->size - counts[0];
    out_check->bits_past_end = counts[1];
    out_check->is_misaligned = column->null_mask->ptr % MASK_WORD_NBYTES != 0;
    return GMV_OK;
}
