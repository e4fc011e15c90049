/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Columns. A column that exists has data, mask and children that are long enough for its offset and
 * size, aligned data, and all of its memory on one device; its null count was counted on the
 * device. What its offsets and indices hold was looked at once and may have changed since.
 */
#include <string.h>

#include <gmv/base/alloc.h>
#include <gmv/base/num.h>

#include "ops/column_priv.h"

/* ---- the node ---- */

static void column_destroy(gmv_node *node)
{
    gmv_column *column = gmv_column_of(node);
    gmv_free(column->children);
    gmv_free(column);
}

static uint64_t column_nbytes(const gmv_node *node)
{
    return (uint64_t)gmv_column_device_buffer_size((const gmv_column *)node);
}

static int32_t column_device(const gmv_node *node)
{
    return ((const gmv_column *)node)->device;
}

static const gmv_node_class column_class = {
    .kind = GMV_KIND_COLUMN,
    .destroy = column_destroy,
    .nbytes = column_nbytes,
    .device = column_device,
};

/*
 * Sums over a tree, which sharing may make far larger than memory: they end at the largest number
 * that answers can hold.
 */
static int64_t column_add_nbytes(int64_t total, int64_t nbytes)
{
    return nbytes > GMV_EXACT_IN_DOUBLE_MAX - total ? GMV_EXACT_IN_DOUBLE_MAX : total + nbytes;
}

/* Depth, entries and bytes of the tree; a child's are known. */
static gmv_status column_measure(gmv_column *column, const gmv_column_parts *parts, gmv_error *err)
{
    uint64_t n_entries = 1;
    column->device_buffer_size = column_add_nbytes(parts->data ? parts->data->nbytes : 0,
                                                   parts->null_mask ? parts->null_mask->nbytes : 0);
    for (size_t i = 0; i < parts->n_children; i++) {
        const gmv_column *child = parts->children[i];
        n_entries += child->n_entries;
        column->depth = GMV_MAX(column->depth, child->depth + 1);
        column->device_buffer_size =
            column_add_nbytes(column->device_buffer_size, child->device_buffer_size);
    }
    if (column->depth >= GMV_COLUMN_DEPTH_MAX)
        return gmv_fail(err, GMV_ERR_QUOTA_EXCEEDED, "/children",
                        "columns nest at most %d levels deep", GMV_COLUMN_DEPTH_MAX);
    if (n_entries > GMV_COLUMN_ENTRIES_MAX)
        return gmv_fail(err, GMV_ERR_QUOTA_EXCEEDED, "/children",
                        "this column and what is below it are %llu columns; at most %u are kept",
                        (unsigned long long)n_entries, GMV_COLUMN_ENTRIES_MAX);
    column->n_entries = (uint32_t)n_entries;
    return GMV_OK;
}

static int32_t column_find_device(const gmv_column_parts *parts)
{
    int32_t device = gmv__view_device(parts->data);
    if (device < 0)
        device = gmv__view_device(parts->null_mask);
    for (size_t i = 0; device < 0 && i < parts->n_children; i++)
        device = parts->children[i]->device;
    return device;
}

/* Owners are data, mask and children, in this order. */
static gmv_status column_prepare_node(gmv_operation *operation, gmv_column *column,
                                      const gmv_column_parts *parts, const gmv_creation *creation,
                                      bool inner, gmv_error *err)
{
    const size_t n_owners = parts->n_children + 2;
    gmv_node **owners = gmv_calloc(n_owners, sizeof(gmv_node *));
    if (!owners)
        return gmv_fail_no_memory(err);
    owners[0] = parts->data ? &parts->data->node : NULL;
    owners[1] = parts->null_mask ? &parts->null_mask->node : NULL;
    for (size_t i = 0; i < parts->n_children; i++)
        owners[i + 2] = &parts->children[i]->node;
    const gmv_node_attributes attributes = gmv_operation_attributes(operation, creation, inner);
    const gmv_status status = gmv_node_prepare(operation->engine->registry, &column->node,
                                               &column_class, &attributes, owners, n_owners, err);
    gmv_free(owners);
    return status;
}

static gmv_status column_fill(gmv_column *column, const gmv_column_parts *parts, gmv_error *err)
{
    column->type = parts->type;
    column->size = parts->size;
    column->offset = parts->offset;
    column->null_count = parts->null_count;
    column->data = parts->data;
    column->null_mask = parts->null_mask;
    column->device = column_find_device(parts);
    GMV_TRY(column_measure(column, parts, err));
    if (parts->n_children == 0)
        return GMV_OK;
    column->children = gmv_calloc(parts->n_children, sizeof(gmv_column *));
    if (!column->children)
        return gmv_fail_no_memory(err);
    column->n_children = (uint32_t)parts->n_children;
    memcpy(column->children, parts->children, parts->n_children * sizeof(gmv_column *));
    return GMV_OK;
}

gmv_status gmv_column_prepare(gmv_operation *operation, const gmv_column_parts *parts,
                              const gmv_creation *creation, bool inner, gmv_column **out_column,
                              gmv_error *err)
{
    gmv_column *column = gmv_calloc(1, sizeof *column);
    if (!column)
        return gmv_fail_no_memory(err);
    gmv_status status = column_fill(column, parts, err);
    if (status == GMV_OK)
        status = column_prepare_node(operation, column, parts, creation, inner, err);
    if (status != GMV_OK) {
        gmv_free(column->children);
        gmv_free(column);
        return status;
    }
    *out_column = column;
    return GMV_OK;
}

void gmv_column_discard(gmv_engine *engine, gmv_column *column)
{
    if (!column)
        return;
    gmv_node_discard(engine->registry, &column->node);
    gmv_free(column->children);
    gmv_free(column);
}

/* ---- looking ---- */

int32_t gmv__view_device(const gmv_view *view)
{
    return view && view->buffer ? view->buffer->device : -1;
}

gmv_device *gmv__engine_device_of(gmv_engine *engine, int32_t ordinal)
{
    for (size_t i = 0; i < engine->n_devices; i++) {
        if (gmv_device_describe(engine->devices[i])->ordinal == ordinal)
            return engine->devices[i];
    }
    return NULL;
}

size_t gmv__type_alignment(int32_t type_id)
{
    return gmv_cudf_type_width(type_id);
}

bool gmv_column_is_nullable(const gmv_column *column)
{
    return column->null_mask && column->null_mask->nbytes > 0;
}

uint64_t gmv_column_data_address(const gmv_column *column)
{
    if (!column->data || column->data->ptr == 0)
        return 0;
    const uint64_t width = gmv_cudf_type_width(column->type.id);
    return column->data->ptr + (uint64_t)column->offset * width;
}

gmv_bits gmv_column_validity(const gmv_column *column)
{
    if (!gmv_column_is_nullable(column))
        return (gmv_bits){0, 0};
    return (gmv_bits){column->null_mask->ptr, column->offset};
}

int64_t gmv_column_device_buffer_size(const gmv_column *column)
{
    return column->device_buffer_size;
}

gmv_device *gmv_column_device(gmv_engine *engine, const gmv_column *column)
{
    return gmv__engine_device_of(engine, column->device);
}

gmv_status gmv__view_use(gmv_stream *stream, const gmv_view *view, gmv_error *err)
{
    if (!view || !view->buffer)
        return GMV_OK;
    return gmv_stream_use(stream, view->buffer->memory, err);
}

/* ---- counting nulls ---- */

static gmv_status mask_count_valid(gmv_stream *stream, const gmv_view *mask,
                                   const gmv_bit_range *range, int64_t *out_count, gmv_error *err)
{
    const gmv_count_bits args = {
        .address = mask->ptr,
        .ranges = range,
        .n_ranges = 1,
        .out_counts = out_count,
    };
    GMV_TRY(gmv__view_use(stream, mask, err));
    GMV_TRY(gmv_kernel_count_bits(stream, &args, err));
    return gmv_stream_finish(stream, err);
}

gmv_status gmv__mask_count_nulls(gmv_operation *operation, const gmv_view *mask, int64_t offset,
                                 int64_t size, int64_t *out_null_count, gmv_error *err)
{
    *out_null_count = 0;
    if (!mask || mask->nbytes == 0 || size == 0)
        return GMV_OK;
    GMV_TRY(gmv_operation_weigh(operation, (uint64_t)gmv__bits_nbytes(size), err));

    gmv_device *device = gmv__engine_device_of(operation->engine, gmv__view_device(mask));
    gmv_stream *stream = gmv_operation_stream(operation, device);
    const gmv_bit_range range = {offset, offset + size};
    int64_t valid = 0;
    const gmv_status status = mask_count_valid(stream, mask, &range, &valid, err);
    if (status != GMV_OK) {
        gmv_stream_abandon(stream); /* the kernel writes to this frame */
        return status;
    }
    *out_null_count = size - valid;
    return GMV_OK;
}

/* ---- creating ---- */

gmv_status gmv_column_create(gmv_operation *operation, const gmv_column_request *request,
                             const gmv_creation *creation, gmv_column **out_column, gmv_error *err)
{
    GMV_TRY(gmv__column_check(request, err));
    GMV_TRY(gmv__column_check_offsets(operation, request, err));

    int64_t null_count = request->type.id == GMV_CUDF_EMPTY ? request->size : 0;
    if (request->type.id != GMV_CUDF_EMPTY)
        GMV_TRY(gmv__mask_count_nulls(operation, request->null_mask, request->offset, request->size,
                                      &null_count, err));
    if (request->has_null_count && request->null_count != null_count)
        return gmv_fail(err, GMV_ERR_VALUE, "/null_count",
                        "null_count is %lld, but the mask has %lld nulls",
                        (long long)request->null_count, (long long)null_count);

    GMV_TRY(gmv_operation_reserve(operation, 1, err));
    gmv_column *column = NULL;
    const gmv_column_parts parts = {
        .type = request->type,
        .size = (int32_t)request->size,
        .offset = (int32_t)request->offset,
        .null_count = (int32_t)null_count,
        .data = request->data,
        .null_mask = request->null_mask,
        .children = request->children,
        .n_children = request->n_children,
    };
    GMV_TRY(gmv_column_prepare(operation, &parts, creation, false, &column, err));
    gmv_node *const nodes[] = {&column->node};
    gmv_operation_publish(operation, nodes, 1);
    *out_column = column;
    return GMV_OK;
}
