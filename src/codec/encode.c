/* SPDX-License-Identifier: Apache-2.0 */
/* One function for each kind of answer. Members stand in the order of the contract. */
#include "codec/encode.h"

#include <string.h>

#include <gmv/base/alloc.h>
#include <gmv/base/num.h>

#include "codec/base64.h"

#define ENCODE_OWNERS_INLINE 64
#define ENCODE_CAI_VERSION   3
#define ENCODE_VIEW_NBYTES   1000 /* most views without a long payload or label take less */

/* Most bytes of one column in the decoded tree, brackets and commas included. */
#define ENCODE_ENTRY_NBYTES_MAX 256

/* ---- parts ---- */

static void encode_ids(gmv_json_writer *writer, const gmv_id *ids, size_t count)
{
    gmv_json_open_array(writer);
    for (size_t i = 0; i < count; i++)
        gmv_json_put_id(writer, &ids[i]);
    gmv_json_close_array(writer);
}

static void encode_node_id(gmv_json_writer *writer, const char *name, const gmv_node *node)
{
    if (node == NULL)
        gmv_json_member_null(writer, name);
    else
        gmv_json_member_id(writer, name, &node->id);
}

static void encode_device(gmv_json_writer *writer, int32_t ordinal)
{
    if (ordinal < 0)
        gmv_json_member_null(writer, "device");
    else
        gmv_json_member_int64(writer, "device", ordinal);
}

/* Opens the object: what every handle starts with. */
static void encode_head(gmv_json_writer *writer, const gmv_node *node)
{
    gmv_json_open_object(writer);
    gmv_json_member_id(writer, "id", &node->id);
    gmv_json_member_word(writer, "kind", gmv_kind_name(node->id.kind));
    encode_device(writer, node->node_class->device(node));
}

static void encode_owners(gmv_json_writer *writer, gmv_registry *registry, const gmv_node *node)
{
    gmv_id few[ENCODE_OWNERS_INLINE];
    gmv_id *ids = few;
    size_t capacity = ENCODE_OWNERS_INLINE;
    size_t count = gmv_registry_owners(registry, node, ids, capacity);
    if (count > capacity) {
        capacity = count;
        ids = gmv_calloc(capacity, sizeof *ids);
        if (ids == NULL) {
            writer->out->failed = true;
            return;
        }
        /* Owners are only ever given up, all at once. */
        count = gmv_registry_owners(registry, node, ids, capacity);
    }
    gmv_json_put_key(writer, "owners");
    encode_ids(writer, ids, GMV_MIN(count, capacity));
    if (ids != few)
        gmv_free(ids);
}

/* Closes the object: what every handle ends with. */
static void encode_tail(gmv_json_writer *writer, gmv_registry *registry, const gmv_node *node)
{
    encode_owners(writer, registry, node);
    gmv_json_member_string(writer, "label", node->label);
    gmv_json_member_time(writer, "created_at", node->created_at_ms, false);
    gmv_json_member_time(writer, "expires_at", gmv_node_expires_at_ms(node), true);
    gmv_json_close_object(writer);
}

static void encode_int64s(gmv_json_writer *writer, const char *name, const int64_t *values,
                          size_t count)
{
    gmv_json_put_key(writer, name);
    gmv_json_open_array(writer);
    for (size_t i = 0; i < count; i++)
        gmv_json_put_int64(writer, values[i]);
    gmv_json_close_array(writer);
}

/* ---- buffers ---- */

void gmv_encode_buffer(gmv_json_writer *writer, gmv_registry *registry, gmv_buffer *buffer)
{
    encode_head(writer, &buffer->node);
    gmv_json_member_uint64(writer, "ptr", buffer->ptr);
    gmv_json_member_uint64(writer, "nbytes", buffer->nbytes);
    gmv_json_member_bool(writer, "readonly", buffer->readonly);
    gmv_json_member_word(writer, "origin", gmv_origin_name(buffer->origin));
    if (buffer->has_exporter_base)
        gmv_json_member_uint64(writer, "exporter_base", buffer->exporter_base);
    else
        gmv_json_member_null(writer, "exporter_base");
    encode_tail(writer, registry, &buffer->node);
}

static void encode_share_ipc(gmv_json_writer *writer, const gmv_share *share)
{
    gmv_json_put_key(writer, "cuda_ipc");
    gmv_json_open_object(writer);
    gmv_json_put_key(writer, "handle");
    gmv_json_put_raw(writer, "\"", 1);
    gmv_base64_encode(writer->out, share->ipc_handle, sizeof share->ipc_handle);
    gmv_strbuf_putc(writer->out, '"');
    gmv_json_member_uint64(writer, "offset", share->offset);
    gmv_json_member_uint64(writer, "nbytes", share->nbytes);
    gmv_json_member_string(writer, "device_uuid", share->device_uuid);
    gmv_json_close_object(writer);
    gmv_json_member_null(writer, "posix_shm");
}

static void encode_share_shm(gmv_json_writer *writer, const gmv_share *share)
{
    gmv_json_member_null(writer, "cuda_ipc");
    gmv_json_put_key(writer, "posix_shm");
    gmv_json_open_object(writer);
    gmv_json_member_string(writer, "name", share->shm_name);
    gmv_json_member_uint64(writer, "offset", share->offset);
    gmv_json_member_uint64(writer, "nbytes", share->nbytes);
    gmv_json_close_object(writer);
}

void gmv_encode_export(gmv_json_writer *writer, const gmv_buffer *buffer, bool cloned,
                       const gmv_share *share)
{
    gmv_json_open_object(writer);
    gmv_json_member_id(writer, "buffer", &buffer->node.id);
    gmv_json_member_bool(writer, "cloned", cloned);
    if (share->mechanism == GMV_SHARE_CUDA_IPC)
        encode_share_ipc(writer, share);
    else
        encode_share_shm(writer, share);
    gmv_json_close_object(writer);
}

/* ---- views ---- */

static void encode_cai_data(gmv_json_writer *writer, uint64_t address, bool readonly)
{
    gmv_json_put_key(writer, "data");
    gmv_json_open_array(writer);
    gmv_json_put_uint64(writer, address);
    gmv_json_put_bool(writer, readonly);
    gmv_json_close_array(writer);
}

static void encode_strides(gmv_json_writer *writer, const gmv_view *view)
{
    const int64_t *strides = gmv_view_strides(view);
    if (strides == NULL)
        gmv_json_member_null(writer, "strides");
    else
        encode_int64s(writer, "strides", strides, view->ndim);
}

void gmv_encode_cuda_array_interface(gmv_json_writer *writer, const gmv_view *view)
{
    gmv_json_open_object(writer);
    encode_cai_data(writer, view->nbytes == 0 ? 0 : view->ptr, view->readonly);
    encode_int64s(writer, "shape", gmv_view_shape(view), view->ndim);
    encode_strides(writer, view);
    gmv_json_member_word(writer, "typestr", gmv_dtype_describe(view->dtype)->typestr);
    gmv_json_member_int64(writer, "version", ENCODE_CAI_VERSION);
    gmv_json_member_null(writer, "stream");
    gmv_json_close_object(writer);
}

/* What was posted; of a view made otherwise, what pylibcudf's byte_slice writes. */
static void encode_cai(gmv_json_writer *writer, const gmv_view *view)
{
    gmv_json_put_key(writer, "cai");
    if (view->payload != NULL) {
        gmv_json_put_raw(writer, view->payload, strlen(view->payload));
        return;
    }
    gmv_json_open_object(writer);
    encode_cai_data(writer, view->ptr, view->readonly);
    encode_int64s(writer, "shape", gmv_view_shape(view), view->ndim);
    gmv_json_member_word(writer, "typestr", gmv_dtype_describe(view->dtype)->typestr);
    gmv_json_member_int64(writer, "version", ENCODE_CAI_VERSION);
    if (gmv_view_strides(view) != NULL)
        encode_strides(writer, view);
    gmv_json_close_object(writer);
}

static void encode_dtype(gmv_json_writer *writer, const gmv_dtype_info *info)
{
    gmv_json_member_word(writer, "typestr", info->typestr);
    gmv_json_member_word(writer, "dtype", info->name);
    gmv_json_put_key(writer, "cudf_type");
    if (info->cudf_type == GMV_CUDF_NONE) {
        gmv_json_put_null(writer);
        return;
    }
    gmv_json_open_object(writer);
    gmv_json_member_word(writer, "name", gmv_cudf_type_name(info->cudf_type));
    gmv_json_member_int64(writer, "type_id", info->cudf_type);
    gmv_json_close_object(writer);
}

static void encode_view_sizes(gmv_json_writer *writer, const gmv_view *view, int64_t itemsize)
{
    int64_t length = gmv_view_length(view);
    gmv_json_member_uint64(writer, "ptr", view->ptr);
    gmv_json_member_int64(writer, "nbytes", view->nbytes);
    gmv_json_member_int64(writer, "size", view->nbytes);
    if (length < 0)
        gmv_json_member_null(writer, "len");
    else
        gmv_json_member_int64(writer, "len", length);
    gmv_json_member_int64(writer, "itemsize", itemsize);
}

void gmv_encode_view(gmv_json_writer *writer, gmv_registry *registry, gmv_view *view)
{
    const gmv_dtype_info *info = gmv_dtype_describe(view->dtype);
    /* Room for the common case at once; a failure shows again at the first append. */
    (void)gmv_strbuf_reserve(writer->out, ENCODE_VIEW_NBYTES);
    encode_head(writer, &view->node);
    encode_view_sizes(writer, view, info->itemsize);
    encode_dtype(writer, info);
    encode_int64s(writer, "shape", gmv_view_shape(view), view->ndim);
    encode_strides(writer, view);
    gmv_json_member_bool(writer, "contiguous", view->contiguous);
    gmv_json_member_bool(writer, "readonly", view->readonly);
    encode_node_id(writer, "buffer", view->buffer != NULL ? &view->buffer->node : NULL);
    gmv_json_member_uint64(writer, "offset", gmv_view_offset(view));
    encode_node_id(writer, "obj", view->parent);
    encode_node_id(writer, "mask", view->mask != NULL ? &view->mask->node : NULL);
    gmv_json_member_word(writer, "mask_kind", gmv_mask_kind_name(view->mask_kind));
    encode_cai(writer, view);
    gmv_json_put_key(writer, "cuda_array_interface");
    gmv_encode_cuda_array_interface(writer, view);
    encode_tail(writer, registry, &view->node);
}

/* ---- columns and tables ---- */

void gmv_encode_cudf_type(gmv_json_writer *writer, gmv_cudf_type type)
{
    gmv_json_open_object(writer);
    gmv_json_member_word(writer, "name", gmv_cudf_type_name(type.id));
    gmv_json_member_int64(writer, "type_id", type.id);
    gmv_json_member_int64(writer, "scale", type.scale);
    gmv_json_close_object(writer);
}

static void encode_columns(gmv_json_writer *writer, const char *name, gmv_column *const *columns,
                           size_t count)
{
    gmv_json_put_key(writer, name);
    gmv_json_open_array(writer);
    for (size_t i = 0; i < count; i++)
        gmv_json_put_id(writer, &columns[i]->node.id);
    gmv_json_close_array(writer);
}

void gmv_encode_column(gmv_json_writer *writer, gmv_registry *registry, gmv_column *column)
{
    encode_head(writer, &column->node);
    gmv_json_put_key(writer, "type");
    gmv_encode_cudf_type(writer, column->type);
    gmv_json_member_int64(writer, "size", column->size);
    gmv_json_member_int64(writer, "offset", column->offset);
    gmv_json_member_int64(writer, "null_count", column->null_count);
    gmv_json_member_bool(writer, "nullable", gmv_column_is_nullable(column));
    encode_node_id(writer, "data", column->data != NULL ? &column->data->node : NULL);
    encode_node_id(writer, "null_mask",
                   column->null_mask != NULL ? &column->null_mask->node : NULL);
    encode_columns(writer, "children", column->children, column->n_children);
    gmv_json_member_int64(writer, "num_children", column->n_children);
    gmv_json_member_int64(writer, "device_buffer_size", gmv_column_device_buffer_size(column));
    encode_tail(writer, registry, &column->node);
}

void gmv_encode_table(gmv_json_writer *writer, gmv_registry *registry, gmv_table *table)
{
    encode_head(writer, &table->node);
    gmv_json_member_int64(writer, "num_rows", table->num_rows);
    gmv_json_member_int64(writer, "num_columns", table->n_columns);
    encode_columns(writer, "columns", table->columns, table->n_columns);
    encode_tail(writer, registry, &table->node);
}

/* ---- packed ---- */

void gmv_encode_metadata(gmv_json_writer *writer, const gmv_packed_metadata *metadata)
{
    size_t nbytes = gmv_packed_metadata_nbytes(metadata, GMV_PACKED_VERSION);
    void *bytes = nbytes > 0 ? gmv_malloc(nbytes) : NULL;
    if (nbytes > 0 && bytes == NULL) {
        writer->out->failed = true;
        return;
    }
    if (nbytes > 0)
        gmv_packed_metadata_encode(metadata, GMV_PACKED_VERSION, bytes);
    gmv_json_put_raw(writer, "\"", 1);
    gmv_base64_encode(writer->out, bytes, nbytes);
    gmv_strbuf_putc(writer->out, '"');
    gmv_free(bytes);
}

/*
 * Writes the entry at `index` and those below it; returns the index behind them. The depth is
 * bounded by GMV_PACKED_DEPTH_MAX, which whoever made the metadata has kept.
 */
static size_t encode_entry(gmv_json_writer *writer, const gmv_packed_metadata *metadata,
                           size_t index, unsigned depth)
{
    const gmv_packed_entry *entry = &metadata->entries[index++];
    gmv_json_open_object(writer);
    gmv_json_put_key(writer, "type");
    gmv_encode_cudf_type(writer, (gmv_cudf_type){entry->type_id, entry->scale});
    gmv_json_member_int64(writer, "size", entry->size);
    gmv_json_member_int64(writer, "null_count", entry->null_count);
    gmv_json_member_int64(writer, "data_offset", entry->data_offset);
    gmv_json_member_int64(writer, "null_mask_offset", entry->null_mask_offset);
    gmv_json_put_key(writer, "children");
    gmv_json_open_array(writer);
    for (int32_t i = 0;
         i < entry->num_children && index < metadata->n_entries && depth < GMV_PACKED_DEPTH_MAX;
         i++)
        index = encode_entry(writer, metadata, index, depth + 1);
    gmv_json_close_array(writer);
    gmv_json_close_object(writer);
    return index;
}

static void encode_entries(gmv_json_writer *writer, const gmv_packed_metadata *metadata)
{
    gmv_json_open_array(writer);
    for (size_t index = 0; index < metadata->n_entries;)
        index = encode_entry(writer, metadata, index, 0);
    gmv_json_close_array(writer);
}

void gmv_encode_packed_inspection(gmv_json_writer *writer, const gmv_packed_metadata *metadata,
                                  size_t nbytes)
{
    gmv_json_open_object(writer);
    gmv_json_member_int64(writer, "num_rows", metadata->num_rows);
    gmv_json_member_int64(writer, "num_columns", metadata->num_columns);
    gmv_json_member_int64(writer, "metadata_version", metadata->version);
    gmv_json_member_uint64(writer, "metadata_nbytes", nbytes);
    gmv_json_put_key(writer, "columns");
    encode_entries(writer, metadata);
    gmv_json_close_object(writer);
}

size_t gmv_encode_packed_metadata_max(const gmv_packed *packed)
{
    size_t nbytes = gmv_packed_metadata_nbytes(&packed->metadata, GMV_PACKED_VERSION);
    return nbytes / 3 * 4 + 4 + packed->metadata.n_entries * ENCODE_ENTRY_NBYTES_MAX;
}

void gmv_encode_packed(gmv_json_writer *writer, gmv_registry *registry, gmv_packed *packed,
                       const gmv_view *gpu_data, bool full)
{
    const gmv_packed_metadata *metadata = &packed->metadata;
    full = full && gmv_encode_packed_metadata_max(packed) <= GMV_ENCODE_PACKED_NBYTES_MAX;
    encode_head(writer, &packed->node);
    gmv_json_member_int64(writer, "num_rows", metadata->num_rows);
    gmv_json_member_int64(writer, "num_columns", metadata->num_columns);
    gmv_json_member_int64(writer, "metadata_version", GMV_PACKED_VERSION);
    gmv_json_put_key(writer, "metadata");
    if (full)
        gmv_encode_metadata(writer, metadata);
    else
        gmv_json_put_null(writer);
    gmv_json_member_uint64(writer, "metadata_nbytes",
                           gmv_packed_metadata_nbytes(metadata, GMV_PACKED_VERSION));
    gmv_json_member_id(writer, "gpu_data", &gpu_data->node.id);
    gmv_json_member_int64(writer, "gpu_data_nbytes", gpu_data->nbytes);
    gmv_json_put_key(writer, "columns");
    if (full)
        encode_entries(writer, metadata);
    else
        gmv_json_put_null(writer);
    encode_tail(writer, registry, &packed->node);
}

/* ---- handles ---- */

void gmv_encode_handle_summary(gmv_json_writer *writer, const gmv_handle_info *info)
{
    gmv_json_open_object(writer);
    gmv_json_member_id(writer, "id", &info->id);
    gmv_json_member_word(writer, "kind", gmv_kind_name(info->id.kind));
    gmv_json_member_bool(writer, "named", info->named);
    gmv_json_member_bool(writer, "deleted", info->deleted);
    gmv_json_member_string(writer, "label", info->has_label ? info->label : NULL);
    encode_device(writer, info->device);
    gmv_json_member_uint64(writer, "nbytes", info->nbytes);
    gmv_json_member_time(writer, "created_at", info->created_at_ms, false);
    gmv_json_member_time(writer, "expires_at", info->expires_at_ms, true);
    gmv_json_member_id(writer, "session", &info->session);
    gmv_json_close_object(writer);
}

void gmv_encode_handle(gmv_json_writer *writer, const gmv_handle_info *info)
{
    gmv_json_open_object(writer);
    gmv_json_member_id(writer, "id", &info->id);
    gmv_json_member_word(writer, "kind", gmv_kind_name(info->id.kind));
    gmv_json_member_bool(writer, "named", info->named);
    gmv_json_member_bool(writer, "alive", info->alive);
    gmv_json_member_bool(writer, "deleted", info->deleted);
    gmv_json_member_string(writer, "reason", gmv_reason_name(info->reason));
    gmv_json_put_key(writer, "owners");
    encode_ids(writer, info->owners, info->n_owners);
    gmv_json_put_key(writer, "dependents");
    encode_ids(writer, info->dependents, info->n_dependents);
    gmv_json_member_uint64(writer, "dependents_count", info->dependents_count);
    gmv_json_member_uint64(writer, "in_flight", info->in_flight);
    gmv_json_member_uint64(writer, "nbytes", info->nbytes);
    gmv_json_member_time(writer, "expires_at", info->expires_at_ms, true);
    gmv_json_member_id(writer, "session", &info->session);
    gmv_json_close_object(writer);
}

/* `bind` needs the peer's process or connection, which a TCP socket does not tell. */
void gmv_encode_session(gmv_json_writer *writer, const gmv_session_info *info)
{
    gmv_json_open_object(writer);
    gmv_json_member_id(writer, "id", &info->id);
    gmv_json_member_string(writer, "label", info->has_label ? info->label : NULL);
    gmv_json_member_uint64(writer, "ttl_seconds", info->ttl_seconds);
    gmv_json_member_null(writer, "bind");
    gmv_json_member_time(writer, "created_at", info->created_at_ms, false);
    gmv_json_member_time(writer, "expires_at", info->expires_at_ms, false);
    gmv_json_member_uint64(writer, "handles", info->handles);
    gmv_json_close_object(writer);
}

void gmv_encode_deletion(gmv_json_writer *writer, const gmv_deletion *deletion)
{
    gmv_json_open_object(writer);
    gmv_json_member_id(writer, "id", &deletion->id);
    gmv_json_member_bool(writer, "alive", deletion->alive);
    gmv_json_member_uint64(writer, "deleted", deletion->deleted);
    gmv_json_put_key(writer, "freed");
    encode_ids(writer, deletion->freed, deletion->n_freed);
    gmv_json_member_uint64(writer, "freed_count", deletion->freed_count);
    gmv_json_member_uint64(writer, "freed_nbytes", deletion->freed_nbytes);
    gmv_json_put_key(writer, "kept_alive_by");
    encode_ids(writer, deletion->kept_alive_by, deletion->n_kept_alive_by);
    gmv_json_member_uint64(writer, "kept_alive_by_count", deletion->kept_alive_by_count);
    gmv_json_member_uint64(writer, "in_flight", deletion->in_flight);
    gmv_json_close_object(writer);
}
