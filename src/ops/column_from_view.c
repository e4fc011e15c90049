/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A column from a typed view, without copying its elements. The view's own mask becomes the null
 * mask: as it is when it already holds packed bits, otherwise rewritten into a new inner mask.
 */
#include <gmv/base/num.h>

#include "ops/column_priv.h"

static gmv_status from_view_check(const gmv_view *view, gmv_error *err)
{
    const gmv_dtype_info *dtype = gmv_dtype_describe(view->dtype);
    if (view->ndim == 0)
        return gmv_fail(err, GMV_ERR_VALUE, "/view", "a 0-d view has no rows; reshape it to [1]");
    if (dtype->cudf_type == GMV_CUDF_NONE)
        return gmv_fail(err, GMV_ERR_DTYPE_UNSUPPORTED, "/view",
                        "element type %s has no column type in cuDF", dtype->typestr);
    GMV_TRY(gmv_view_require_contiguous(view, "/view", err));
    const int64_t rows = gmv_view_shape(view)[0];
    /* The outer level of nested lists has one offset more than rows, which must be counted too. */
    const int64_t rows_max = view->ndim == 1 ? GMV_SIZE_TYPE_MAX : GMV_SIZE_TYPE_MAX - 1;
    if (rows > rows_max)
        return gmv_fail(err, GMV_ERR_VALUE, "/view", "a column has at most %lld rows, not %lld",
                        (long long)rows_max, (long long)rows);
    if (view->size > GMV_SIZE_TYPE_MAX)
        return gmv_fail(err, GMV_ERR_VALUE, "/view", "a column has at most %d elements, not %lld",
                        (int)GMV_SIZE_TYPE_MAX, (long long)view->size);
    if (view->ndim != 1)
        return gmv_fail(err, GMV_ERR_DTYPE_UNSUPPORTED, "/view",
                        "a view of %d dimensions would be nested lists, which are not supported; "
                        "use a 1-d view",
                        (int)view->ndim);
    if (view->size > 0 && view->ptr % gmv__type_alignment(dtype->cudf_type) != 0)
        return gmv_fail(err, GMV_ERR_VALUE, "/view", "the elements are not aligned to %zu bytes",
                        gmv__type_alignment(dtype->cudf_type));
    return GMV_OK;
}

static bool from_view_mask_is_usable(const gmv_view *view)
{
    return view->mask_kind == GMV_MASK_BITS && view->mask->contiguous &&
           view->mask->nbytes >= gmv__bits_nbytes(view->size);
}

/* Where the mask's elements lie side by side: in place, or in *out_scratch (@newref, NULL: none).
 */
static gmv_status from_view_gather_mask(gmv_operation *operation, gmv_stream *stream,
                                        const gmv_view *mask, gmv_memory **out_scratch,
                                        uint64_t *out_address, gmv_error *err)
{
    if (mask->contiguous) {
        *out_address = mask->ptr;
        return GMV_OK;
    }
    gmv_layout layout;
    gmv_view_layout(mask, &layout);
    GMV_TRY(gmv_engine_allocate(operation->engine, gmv_stream_device(stream), stream,
                                GMV_MEMORY_ORDINARY, GMV_CONTENTS_UNSPECIFIED,
                                (uint64_t)mask->nbytes, out_scratch, err));
    GMV_TRY(gmv_stream_use(stream, *out_scratch, err));
    const gmv_gather gather = {
        .address = mask->ptr,
        .layout = &layout,
        .itemsize = gmv_dtype_describe(mask->dtype)->itemsize,
        .count = mask->size,
        .output = (*out_scratch)->address,
    };
    GMV_TRY(gmv_kernel_gather(stream, &gather, err));
    *out_address = (*out_scratch)->address;
    return gmv_stream_finish(stream, err); /* `layout` lives no longer than this frame */
}

static gmv_status from_view_write_mask(gmv_operation *operation, gmv_stream *stream,
                                       const gmv_view *view, const gmv_result *result,
                                       gmv_memory **out_scratch, int64_t *out_null_count,
                                       gmv_error *err)
{
    uint64_t address = 0;
    GMV_TRY(gmv__view_use(stream, view->mask, err));
    GMV_TRY(from_view_gather_mask(operation, stream, view->mask, out_scratch, &address, err));
    GMV_TRY(gmv__view_use(stream, view->mask, err));
    GMV_TRY(gmv__view_use(stream, result->view, err));
    GMV_TRY(*out_scratch ? gmv_stream_use(stream, *out_scratch, err) : GMV_OK);

    const uint64_t output_nbytes = (uint64_t)gmv_bitmask_nbytes(view->size);
    int64_t set_count = 0;
    if (view->mask_kind == GMV_MASK_BITS) {
        const gmv_copy_bits args = {
            .bits = {address, 0},
            .n = view->size,
            .output = result->view->ptr,
            .output_nbytes = output_nbytes,
            .out_set_count = &set_count,
        };
        GMV_TRY(gmv_kernel_copy_bits(stream, &args, err));
        GMV_TRY(gmv_stream_finish(stream, err));
        *out_null_count = view->size - set_count;
        return GMV_OK;
    }
    const gmv_valid_if args = {
        .predicate = GMV_PREDICATE_NONZERO_BYTE,
        .input = address,
        .n = view->size,
        .output = result->view->ptr,
        .output_nbytes = output_nbytes,
        .out_null_count = out_null_count,
    };
    GMV_TRY(gmv_kernel_valid_if(stream, &args, err));
    return gmv_stream_finish(stream, err);
}

/* A new inner mask of packed bits from a mask of another form. */
static gmv_status from_view_make_mask(gmv_operation *operation, const gmv_view *view,
                                      const gmv_creation *creation, gmv_result *out_result,
                                      int64_t *out_null_count, gmv_error *err)
{
    gmv_device *device = gmv__engine_device_of(operation->engine, gmv__view_device(view->mask));
    gmv_stream *stream = gmv_operation_stream(operation, device);
    const gmv_creation inner = gmv__inner_creation(creation);
    GMV_TRY(gmv_result_prepare(operation, device, (uint64_t)gmv_bitmask_nbytes(view->size),
                               GMV_CONTENTS_UNSPECIFIED, &inner, true, out_result, err));

    gmv_memory *scratch = NULL;
    const gmv_status status =
        from_view_write_mask(operation, stream, view, out_result, &scratch, out_null_count, err);
    if (status != GMV_OK)
        gmv_stream_abandon(stream);
    if (scratch)
        gmv_engine_free(operation->engine, scratch);
    if (status != GMV_OK)
        gmv_result_discard(operation->engine, out_result);
    return status;
}

static gmv_status from_view_mask(gmv_operation *operation, gmv_view *view,
                                 const gmv_creation *creation, gmv_result *out_result,
                                 gmv_view **out_mask, int64_t *out_null_count, gmv_error *err)
{
    if (view->mask_kind == GMV_MASK_NONE || view->size == 0)
        return GMV_OK;
    if (from_view_mask_is_usable(view)) {
        *out_mask = view->mask;
        return gmv__mask_count_nulls(operation, view->mask, 0, view->size, out_null_count, err);
    }
    const int64_t mask_nbytes = view->mask->nbytes;
    if (mask_nbytes <
        (view->mask_kind == GMV_MASK_BITS ? gmv__bits_nbytes(view->size) : view->size))
        return gmv_fail(err, GMV_ERR_OUT_OF_BOUNDS, "/view",
                        "the view's mask of %lld bytes is too short", (long long)mask_nbytes);
    GMV_TRY(gmv_operation_weigh(operation, (uint64_t)mask_nbytes, err));
    GMV_TRY(from_view_make_mask(operation, view, creation, out_result, out_null_count, err));
    *out_mask = out_result->view;
    return GMV_OK;
}

gmv_status gmv_column_from_view(gmv_operation *operation, gmv_view *view,
                                const gmv_creation *creation, gmv_column **out_column,
                                gmv_error *err)
{
    GMV_TRY(from_view_check(view, err));
    GMV_TRY(gmv_operation_reserve(operation, 3, err));

    gmv_result result = {0};
    gmv_view *mask = NULL;
    int64_t null_count = 0;
    GMV_TRY(from_view_mask(operation, view, creation, &result, &mask, &null_count, err));

    const gmv_cudf_type type = {gmv_dtype_describe(view->dtype)->cudf_type, 0};
    gmv_column *column = NULL;
    const gmv_status status =
        gmv_column_prepare(operation, type, (int32_t)view->size, 0, (int32_t)null_count, view, mask,
                           creation, false, &column, err);
    if (status != GMV_OK) {
        if (result.view)
            gmv_result_discard(operation->engine, &result);
        return status;
    }
    gmv_node *nodes[3];
    size_t n_nodes = 0;
    if (result.view) {
        nodes[n_nodes++] = &result.buffer->node;
        nodes[n_nodes++] = &result.view->node;
    }
    nodes[n_nodes++] = &column->node;
    gmv_operation_publish(operation, nodes, n_nodes);
    *out_column = column;
    return GMV_OK;
}
