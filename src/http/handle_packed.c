/* SPDX-License-Identifier: Apache-2.0 */
/* Packed tables: look, read, release, unpack. A released one answers already_released to all. */
#include <gmv/base/alloc.h>

#include "http/handle_priv.h"

/* gpu_data is a flat view of our own without a payload: its JSON is short. */
#define RELEASE_VIEW_NBYTES_MAX 4096

/* The path's packed handle and its gpu_data. */
static gmv_status packed_target(gmv_request *request, gmv_packed **out_packed,
                                gmv_view **out_gpu_data, gmv_error *err)
{
    gmv_node *node;
    GMV_TRY(gmv_request_target(request, &node, err));
    *out_packed = gmv_packed_of(node);
    return gmv_packed_gpu_data(request->operation, *out_packed, out_gpu_data, err);
}

GMV_HANDLER(packed_get)
{
    gmv_packed *packed;
    gmv_view *gpu_data;
    GMV_TRY(packed_target(request, &packed, &gpu_data, err));
    gmv_reply_described(reply, &packed->node);
    gmv_json_writer writer = gmv_json_writer_over(&reply->text);
    gmv_encode_packed(&writer, gmv_request_registry(request), packed, gpu_data, true);
    return gmv_reply_finish(reply, err);
}

gmv_status gmv_query_metadata_version(const gmv_query *query, int32_t *out_version, gmv_error *err)
{
    int64_t version;
    GMV_TRY(gmv_query_int64(query, "metadata_version", GMV_PACKED_HEADERLESS, GMV_PACKED_VERSION,
                            GMV_PACKED_VERSION, &version, err));
    if (version != GMV_PACKED_HEADERLESS && version != GMV_PACKED_VERSION)
        return gmv_fail_parameter(err, GMV_ERR_REQUEST_MALFORMED, "metadata_version",
                                  "metadata_version must be %d or %d", GMV_PACKED_VERSION,
                                  GMV_PACKED_HEADERLESS);
    *out_version = (int32_t)version;
    return GMV_OK;
}

gmv_status gmv_reply_metadata(gmv_reply *reply, const gmv_packed_metadata *metadata,
                              int32_t version, gmv_error *err)
{
    size_t nbytes = gmv_packed_metadata_nbytes(metadata, version);
    GMV_TRY(gmv_reply_reserve(reply, nbytes, err));
    gmv_packed_metadata_encode(metadata, version, reply->text.data);
    reply->text.length = nbytes;
    reply->text.data[nbytes] = '\0';
    reply->content_type = "application/octet-stream";
    return GMV_OK;
}

GMV_HANDLER(packed_metadata)
{
    gmv_packed *packed;
    gmv_view *gpu_data;
    int32_t version;
    GMV_TRY(gmv_query_metadata_version(&request->query, &version, err));
    GMV_TRY(packed_target(request, &packed, &gpu_data, err));
    return gmv_reply_metadata(reply, &packed->metadata, version, err);
}

GMV_HANDLER(packed_data)
{
    gmv_packed *packed;
    gmv_view *gpu_data;
    bool is_snapshot;
    GMV_TRY(gmv_query_consistency(&request->query, &is_snapshot, err));
    GMV_TRY(packed_target(request, &packed, &gpu_data, err));
    GMV_TRY(gmv_view_bytes(request->operation, gpu_data, &reply->bytes, err));
    return gmv_reply_bytes(request, reply, &packed->node, err);
}

/* ---- release ---- */

static const gmv_field no_fields[] = {GMV_FIELD_END};

/* All but gpu_data is written before, and room is made for that: releasing cannot be taken back. */
static gmv_status release_run(gmv_request *request, gmv_reply *reply, void *context,
                              gmv_document *document, gmv_error *err)
{
    gmv_packed *packed;
    gmv_view *gpu_data;
    GMV_TRY(packed_target(request, &packed, &gpu_data, err));
    gmv_json_writer writer = gmv_json_writer_over(&reply->text);
    gmv_json_open_object(&writer);
    gmv_json_put_key(&writer, "metadata");
    gmv_encode_metadata(&writer, &packed->metadata);
    gmv_json_member_uint64(&writer, "metadata_nbytes",
                           gmv_packed_metadata_nbytes(&packed->metadata, GMV_PACKED_VERSION));
    GMV_TRY(gmv_reply_reserve(reply, RELEASE_VIEW_NBYTES_MAX, err));
    gmv_status status = gmv_packed_release(request->operation, packed, &gpu_data, err);
    if (status != GMV_OK) {
        gmv_strbuf_fini(&reply->text);
        return status;
    }
    gmv_json_put_key(&writer, "gpu_data");
    gmv_encode_view(&writer, gmv_request_registry(request), gpu_data);
    gmv_json_close_object(&writer);
    return gmv_reply_finish(reply, err);
}

GMV_HANDLER(packed_release)
{
    char nothing;
    return gmv_handle_body(request, reply, no_fields, &nothing, release_run, err);
}

/* ---- unpack ---- */

static gmv_status unpack_answer(gmv_request *request, gmv_reply *reply, gmv_table *table,
                                gmv_error *err)
{
    gmv_json_writer writer = gmv_json_writer_over(&reply->text);
    gmv_encode_table(&writer, gmv_request_registry(request), table);
    return gmv_reply_finish_made(request, reply, &table->node, err);
}

typedef struct unpack_members {
    gmv_text label;
} unpack_members;

static const gmv_field unpack_fields[] = {
    GMV_FIELD("label", LABEL, unpack_members, label),
    GMV_FIELD_END,
};

static gmv_status unpack_run(gmv_request *request, gmv_reply *reply, void *context,
                             gmv_document *document, gmv_error *err)
{
    const unpack_members *members = context;
    gmv_creation creation = gmv_creation_labelled(&members->label);
    gmv_packed *packed;
    gmv_view *gpu_data;
    gmv_table *table;
    GMV_TRY(packed_target(request, &packed, &gpu_data, err));
    GMV_TRY(gmv_unpack(request->operation, packed, &creation, &table, err));
    return unpack_answer(request, reply, table, err);
}

GMV_HANDLER(packed_unpack)
{
    unpack_members members = {0};
    return gmv_handle_body(request, reply, unpack_fields, &members, unpack_run, err);
}

typedef struct memoryviews_members {
    gmv_blob metadata;
    gmv_reference gpu_data;
    gmv_text label;
} memoryviews_members;

static const gmv_field memoryviews_fields[] = {
    GMV_FIELD_REQUIRED("metadata", BASE64, memoryviews_members, metadata),
    GMV_FIELD("gpu_data", REFERENCE, memoryviews_members, gpu_data),
    GMV_FIELD("label", LABEL, memoryviews_members, label),
    GMV_FIELD_END,
};

static gmv_status memoryviews_run(gmv_request *request, gmv_reply *reply, void *context,
                                  gmv_document *document, gmv_error *err)
{
    const memoryviews_members *members = context;
    gmv_creation creation = gmv_creation_labelled(&members->label);
    gmv_node *gpu_data;
    gmv_table *table;
    GMV_TRY(gmv_find_reference(request, &members->gpu_data, GMV_KIND_VIEW, "/gpu_data", &gpu_data,
                               err));
    GMV_TRY(gmv_unpack_from_memoryviews(
        request->operation, members->metadata.bytes, members->metadata.nbytes,
        gpu_data != NULL ? gmv_view_of(gpu_data) : NULL, &creation, &table, err));
    return unpack_answer(request, reply, table, err);
}

GMV_HANDLER(unpack_from_memoryviews)
{
    memoryviews_members members = {0};
    return gmv_handle_body(request, reply, memoryviews_fields, &members, memoryviews_run, err);
}

/* ---- inspect ---- */

typedef struct inspect_members {
    gmv_blob metadata;
    gmv_optional_int64 gpu_data_nbytes;
} inspect_members;

static const gmv_field inspect_fields[] = {
    GMV_FIELD_REQUIRED("metadata", BASE64, inspect_members, metadata),
    GMV_FIELD("gpu_data_nbytes", OPTIONAL_INT64, inspect_members, gpu_data_nbytes),
    GMV_FIELD_END,
};

static gmv_status inspect_run(gmv_request *request, gmv_reply *reply, void *context,
                              gmv_document *document, gmv_error *err)
{
    const inspect_members *members = context;
    const gmv_optional_int64 *nbytes = &members->gpu_data_nbytes;
    if (nbytes->given && nbytes->value < 0)
        return gmv_fail(err, GMV_ERR_VALUE, "/gpu_data_nbytes",
                        "gpu_data_nbytes must be 0 or more, not %lld", (long long)nbytes->value);
    gmv_packed_metadata metadata = {0};
    GMV_TRY(gmv_packed_metadata_decode(members->metadata.bytes, members->metadata.nbytes,
                                       nbytes->given ? nbytes->value : -1, &metadata, err));
    gmv_json_writer writer = gmv_json_writer_over(&reply->text);
    gmv_encode_packed_inspection(&writer, &metadata, members->metadata.nbytes);
    gmv_packed_metadata_fini(&metadata);
    return gmv_reply_finish(reply, err);
}

GMV_HANDLER(packed_inspect)
{
    inspect_members members = {0};
    return gmv_handle_body(request, reply, inspect_fields, &members, inspect_run, err);
}
