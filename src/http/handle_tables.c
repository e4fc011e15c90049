/* SPDX-License-Identifier: Apache-2.0 */
/* Tables, and how they are packed. */
#include <gmv/base/alloc.h>

#include "http/handle_priv.h"

/* Past it an answer with many packed handles leaves out what each of them has. */
#define SPLIT_NBYTES_MAX (1u << 20)

/* ---- making and looking ---- */

typedef struct table_members {
    gmv_references columns;
    gmv_optional_int64 num_rows;
    gmv_text label;
} table_members;

static const gmv_field table_fields[] = {
    GMV_FIELD_REQUIRED("columns", REFERENCES, table_members, columns),
    GMV_FIELD("num_rows", OPTIONAL_INT64, table_members, num_rows),
    GMV_FIELD("label", LABEL, table_members, label),
    GMV_FIELD_END,
};

static gmv_status table_run(gmv_request *request, gmv_reply *reply, void *context,
                            gmv_document *document, gmv_error *err)
{
    const table_members *members = context;
    gmv_creation creation = gmv_creation_labelled(&members->label);
    gmv_column **columns;
    gmv_table *table;
    GMV_TRY(gmv_table_check_rows(members->num_rows.given, members->num_rows.value, err));
    GMV_TRY(gmv_find_columns(request, &members->columns, "/columns", &columns, err));
    gmv_status status =
        gmv_table_create(request->operation, columns, members->columns.count,
                         members->num_rows.given, members->num_rows.value, &creation, &table, err);
    gmv_free(columns);
    if (status != GMV_OK)
        return status;
    gmv_json_writer writer = gmv_json_writer_over(&reply->text);
    gmv_encode_table(&writer, gmv_request_registry(request), table);
    return gmv_reply_finish_made(request, reply, &table->node, err);
}

GMV_HANDLER(table_create)
{
    table_members members = {0};
    return gmv_handle_body(request, reply, table_fields, &members, table_run, err);
}

GMV_HANDLER(table_get)
{
    gmv_node *node;
    GMV_TRY(gmv_request_target(request, &node, err));
    gmv_reply_described(reply, node);
    gmv_json_writer writer = gmv_json_writer_over(&reply->text);
    gmv_encode_table(&writer, gmv_request_registry(request), gmv_table_of(node));
    return gmv_reply_finish(reply, err);
}

/* ---- packing ---- */

GMV_HANDLER(table_packed_size)
{
    gmv_node *node;
    int64_t nbytes;
    GMV_TRY(gmv_request_target(request, &node, err));
    GMV_TRY(gmv_packed_size(request->operation, gmv_table_of(node), &nbytes, err));
    gmv_json_writer writer = gmv_json_writer_over(&reply->text);
    gmv_json_open_object(&writer);
    gmv_json_member_int64(&writer, "nbytes", nbytes);
    gmv_json_close_object(&writer);
    reply->caching = GMV_CACHING_NO_STORE; /* offsets are live */
    return gmv_reply_finish(reply, err);
}

/* Contents are live, as those of a view are: they are read as they are sent. */
GMV_HANDLER(table_packed_stream)
{
    gmv_node *node;
    int64_t chunk_nbytes;
    GMV_TRY(gmv_query_int64(&request->query, "chunk_nbytes", GMV_CHUNKED_PACK_NBYTES_MIN, INT64_MAX,
                            GMV_CHUNKED_PACK_NBYTES, &chunk_nbytes, err));
    GMV_TRY(gmv_request_target(request, &node, err));
    GMV_TRY(gmv_chunked_pack_bytes(request->operation, gmv_table_of(node), chunk_nbytes,
                                   &reply->bytes, err));
    return gmv_reply_bytes(request, reply, node, err);
}

GMV_HANDLER(table_packed_metadata)
{
    gmv_node *node;
    int32_t version;
    gmv_chunked_pack *pack;
    gmv_packed_metadata metadata;
    GMV_TRY(gmv_query_metadata_version(&request->query, &version, err));
    GMV_TRY(gmv_request_target(request, &node, err));
    GMV_TRY(gmv_chunked_pack_create(request->operation, gmv_table_of(node), GMV_CHUNKED_PACK_NBYTES,
                                    &pack, err));
    gmv_status status = gmv_chunked_pack_metadata(pack, request->operation, &metadata, err);
    gmv_chunked_pack_destroy(pack);
    if (status != GMV_OK)
        return status;
    status = gmv_reply_metadata(reply, &metadata, version, err);
    gmv_packed_metadata_fini(&metadata);
    reply->caching = GMV_CACHING_NO_STORE;
    return status;
}

static const gmv_field pack_fields[] = {
    GMV_FIELD("label", LABEL, gmv_result_members, label),
    GMV_FIELD("exportable", BOOL, gmv_result_members, exportable),
    GMV_FIELD_END,
};

static gmv_status pack_write(gmv_request *request, gmv_json_writer *writer, gmv_packed *packed,
                             bool full, gmv_error *err)
{
    gmv_view *gpu_data;
    GMV_TRY(gmv_packed_gpu_data(request->operation, packed, &gpu_data, err));
    gmv_encode_packed(writer, gmv_request_registry(request), packed, gpu_data, full);
    return GMV_OK;
}

static gmv_status pack_run(gmv_request *request, gmv_reply *reply, void *context,
                           gmv_document *document, gmv_error *err)
{
    gmv_creation creation = gmv_creation_of(context);
    gmv_json_writer writer = gmv_json_writer_over(&reply->text);
    gmv_node *table;
    gmv_packed *packed;
    GMV_TRY(gmv_request_target(request, &table, err));
    GMV_TRY(gmv_pack(request->operation, gmv_table_of(table), &creation, &packed, err));
    gmv_status status = pack_write(request, &writer, packed, true, err);
    if (status == GMV_OK)
        return gmv_reply_finish_made(request, reply, &packed->node, err);
    gmv_strbuf_fini(&reply->text);
    gmv_request_unmake(request, &packed->node);
    return status;
}

GMV_HANDLER(table_pack)
{
    gmv_result_members members = {0};
    return gmv_handle_body(request, reply, pack_fields, &members, pack_run, err);
}

typedef struct split_members {
    gmv_int64s splits;
    gmv_result_members result;
} split_members;

static const gmv_field split_fields[] = {
    GMV_FIELD_REQUIRED("splits", INT64S, split_members, splits),
    GMV_RESULT_FIELDS(split_members, result),
    GMV_FIELD_END,
};

static gmv_status split_write(gmv_request *request, gmv_reply *reply, gmv_packed **items, size_t n,
                              gmv_error *err)
{
    gmv_json_writer writer = gmv_json_writer_over(&reply->text);
    gmv_json_open_object(&writer);
    gmv_json_put_key(&writer, "items");
    gmv_json_open_array(&writer);
    for (size_t i = 0; i < n; i++) {
        size_t more = gmv_encode_packed_metadata_max(items[i]);
        bool full = reply->text.length + more <= SPLIT_NBYTES_MAX;
        GMV_TRY(pack_write(request, &writer, items[i], full, err));
    }
    gmv_json_close_array(&writer);
    gmv_json_close_object(&writer);
    return gmv_reply_finish(reply, err);
}

static gmv_status split_run(gmv_request *request, gmv_reply *reply, void *context,
                            gmv_document *document, gmv_error *err)
{
    const split_members *members = context;
    gmv_creation creation = gmv_creation_of(&members->result);
    gmv_node *table;
    gmv_packed **items;
    size_t n;
    GMV_TRY(gmv_request_target(request, &table, err));
    GMV_TRY(gmv_contiguous_split(request->operation, gmv_table_of(table), members->splits.items,
                                 members->splits.count, &creation, &items, &n, err));
    gmv_status status = split_write(request, reply, items, n, err);
    if (status == GMV_OK)
        reply->http_status = 201;
    else
        gmv_strbuf_fini(&reply->text);
    for (size_t i = 0; i < n && status != GMV_OK; i++)
        gmv_request_unmake(request, &items[i]->node);
    gmv_free(items);
    return status;
}

GMV_HANDLER(table_contiguous_split)
{
    split_members members = {0};
    return gmv_handle_body(request, reply, split_fields, &members, split_run, err);
}
