/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A column from a typed view, without copying its elements. The view's own mask becomes the null
 * mask: as it is when it already holds packed bits, otherwise rewritten into a new inner mask.
 */
#include "ops/column_priv.h"
#include "ops/draft_priv.h"

static gmv_status from_view_check_rows(const gmv_view *view, gmv_error *err)
{
    /* The outer level of nested lists has one offset more than rows, which must be counted too. */
    const int64_t rows_max = view->ndim == 1 ? GMV_SIZE_TYPE_MAX : GMV_SIZE_TYPE_MAX - 1;
    const int64_t rows = gmv_view_length(view);
    if (rows > rows_max)
        return gmv_fail(err, GMV_ERR_VALUE, "/view", "a column has at most %lld rows, not %lld",
                        (long long)rows_max, (long long)rows);
    if (view->size > GMV_SIZE_TYPE_MAX)
        return gmv_fail(err, GMV_ERR_VALUE, "/view", "a column has at most %d elements, not %lld",
                        (int)GMV_SIZE_TYPE_MAX, (long long)view->size);
    return GMV_OK;
}

static gmv_status from_view_check(const gmv_view *view, gmv_error *err)
{
    const gmv_dtype_info *dtype = gmv_dtype_describe(view->dtype);
    if (view->ndim == 0)
        return gmv_fail(err, GMV_ERR_VALUE, "/view", "a 0-d view has no rows; give it a shape");
    if (dtype->cudf_type == GMV_CUDF_NONE)
        return gmv_fail(err, GMV_ERR_DTYPE_UNSUPPORTED, "/view",
                        "element type %s has no column type in cuDF", dtype->typestr);
    GMV_TRY(gmv_view_require_contiguous(view, "/view", err));
    GMV_TRY(from_view_check_rows(view, err));
    if (view->ndim != 1)
        return gmv_fail(err, GMV_ERR_DTYPE_UNSUPPORTED, "/view",
                        "a view of %d dimensions would be nested lists, which are not supported; "
                        "use a 1-d view",
                        (int)view->ndim);
    const size_t alignment = gmv__type_alignment(dtype->cudf_type);
    if (view->size > 0 && view->ptr % alignment != 0)
        return gmv_fail(err, GMV_ERR_VALUE, "/view", "the elements are not aligned to %zu bytes",
                        alignment);
    return GMV_OK;
}

static gmv_status from_view_check_mask(const gmv_view *view, gmv_error *err)
{
    const bool is_bits = view->mask_kind == GMV_MASK_BITS;
    const int64_t needed = is_bits ? gmv__bits_nbytes(view->size) : view->size;
    if (view->mask->nbytes < needed)
        return gmv_fail(err, GMV_ERR_OUT_OF_BOUNDS, "/view",
                        "the view's mask has %lld bytes, %lld rows need %lld",
                        (long long)view->mask->nbytes, (long long)view->size, (long long)needed);
    return GMV_OK;
}

/* Where the mask's bytes lie side by side. */
static gmv_status from_view_gather_mask(gmv_draft *draft, const gmv_view *mask,
                                        uint64_t *out_address, gmv_error *err)
{
    gmv_memory *gathered = NULL;
    if (mask->contiguous) {
        *out_address = mask->ptr;
        return gmv__draft_use(draft, mask, err);
    }
    GMV_TRY(gmv__draft_scratch(draft, (uint64_t)mask->nbytes, &gathered, err));
    *out_address = gathered->address;
    return gmv__draft_gather(draft, mask, 0, mask->size, gathered->address, err);
}

/* Writes the mask as packed bits to `output`, and waits. */
static gmv_status from_view_pack_mask(gmv_draft *draft, const gmv_view *view,
                                      const gmv_view *output, int64_t *out_null_count,
                                      gmv_error *err)
{
    uint64_t address = 0;
    GMV_TRY(from_view_gather_mask(draft, view->mask, &address, err));
    if (view->mask_kind == GMV_MASK_BITS) {
        int64_t set_count = 0;
        const gmv_copy_bits copy = {
            .bits = {address, 0},
            .n = view->size,
            .output = output->ptr,
            .output_nbytes = (uint64_t)output->nbytes,
            .out_set_count = &set_count,
        };
        gmv_status status = gmv_kernel_copy_bits(draft->stream, &copy, err);
        if (status == GMV_OK)
            status = gmv_stream_finish(draft->stream, err);
        if (status != GMV_OK)
            gmv_stream_abandon(draft->stream); /* the count is written to this frame */
        *out_null_count = view->size - set_count;
        return status;
    }
    const gmv_valid_if truthy = {
        .predicate = GMV_PREDICATE_NONZERO_BYTE,
        .input = address,
        .n = view->size,
        .output = output->ptr,
        .output_nbytes = (uint64_t)output->nbytes,
        .out_null_count = out_null_count,
    };
    GMV_TRY(gmv_kernel_valid_if(draft->stream, &truthy, err));
    return gmv_stream_finish(draft->stream, err);
}

static gmv_status from_view_draft(gmv_draft *draft, gmv_view *view, const gmv_creation *creation,
                                  int64_t *null_count, gmv_column **out_column, gmv_error *err)
{
    const gmv_cudf_type type = {gmv_dtype_describe(view->dtype)->cudf_type, 0};
    const bool has_mask = view->mask_kind != GMV_MASK_NONE && view->size > 0;
    gmv_view *mask = NULL;
    if (has_mask && view->mask_kind == GMV_MASK_BITS && view->mask->contiguous) {
        mask = view->mask;
        GMV_TRY(gmv__mask_count_nulls(draft->operation, mask, 0, view->size, null_count, err));
    } else if (has_mask) {
        const gmv_layout layout = gmv_layout_flat(gmv_bitmask_nbytes(view->size));
        const gmv_draft_result result = {
            .dtype = GMV_DTYPE_U1,
            .layout = &layout,
            .contents = GMV_CONTENTS_UNSPECIFIED,
            .bare = true,
            .inner = true,
        };
        GMV_TRY(gmv__draft_make(draft, &result, creation, &mask, err));
        GMV_TRY(from_view_pack_mask(draft, view, mask, null_count, err));
    }
    const gmv_column_parts parts = {
        .type = type,
        .size = (int32_t)view->size,
        .null_count = (int32_t)*null_count,
        .data = view,
        .null_mask = mask,
    };
    GMV_TRY(gmv_column_prepare(draft->operation, &parts, creation, false, out_column, err));
    gmv__draft_add(draft, &(*out_column)->node);
    return GMV_OK;
}

gmv_status gmv_column_from_view(gmv_operation *operation, gmv_view *view,
                                const gmv_creation *creation, gmv_column **out_column,
                                gmv_error *err)
{
    gmv_device *device = NULL; /* a view without a mask needs none */
    GMV_TRY(from_view_check(view, err));
    if (view->mask_kind != GMV_MASK_NONE && view->size > 0) {
        GMV_TRY(from_view_check_mask(view, err));
        GMV_TRY(gmv_operation_weigh(operation, (uint64_t)view->mask->nbytes, err));
        device = gmv__view_device_or_first(operation->engine, view->mask);
    }
    gmv_draft draft;
    gmv_column *column = NULL;
    int64_t null_count = 0;
    GMV_TRY(gmv__draft_begin(&draft, operation, device, err));
    const gmv_status status = from_view_draft(&draft, view, creation, &null_count, &column, err);
    GMV_TRY(gmv__draft_end(&draft, status, err));
    *out_column = column;
    return GMV_OK;
}
