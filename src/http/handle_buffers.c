/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers: allocate, upload, import, export, read and write. */
#include <stdlib.h>

#include <gmv/base/alloc.h>

#include "codec/ipc_handle.h"
#include "codec/range.h"
#include "http/handle_priv.h"

/* An export's answer: two ids, a name or a handle, numbers. */
#define EXPORT_NBYTES_MAX 2048

static gmv_status buffer_answer_made(gmv_request *request, gmv_reply *reply, gmv_buffer *buffer,
                                     gmv_error *err)
{
    gmv_json_writer writer = gmv_json_writer_over(&reply->text);
    gmv_encode_buffer(&writer, gmv_request_registry(request), buffer);
    return gmv_reply_finish_made(request, reply, &buffer->node, err);
}

/* ---- allocate ---- */

typedef struct create_members {
    int64_t nbytes;
    int64_t device;
    bool readonly;
    gmv_text label;
} create_members;

static const gmv_field create_fields[] = {
    GMV_FIELD_REQUIRED("nbytes", INT64, create_members, nbytes),
    GMV_FIELD("device", INT64, create_members, device),
    GMV_FIELD("readonly", BOOL, create_members, readonly),
    GMV_FIELD("label", LABEL, create_members, label),
    GMV_FIELD_END,
};

static gmv_status create_run(gmv_request *request, gmv_reply *reply, void *context,
                             gmv_document *document, gmv_error *err)
{
    const create_members *members = context;
    gmv_creation creation = gmv_creation_labelled(&members->label);
    gmv_buffer *buffer;
    GMV_TRY(gmv_buffer_allocate(request->operation, members->device, members->nbytes,
                                members->readonly, &creation, &buffer, err));
    return buffer_answer_made(request, reply, buffer, err);
}

GMV_HANDLER(buffer_create)
{
    create_members members = {0};
    return gmv_handle_body(request, reply, create_fields, &members, create_run, err);
}

/* ---- import ---- */

typedef struct import_shm {
    gmv_text name;
    gmv_optional_int64 base;
    gmv_optional_int64 nbytes;
} import_shm;

typedef struct import_ipc {
    gmv_text handle;
    gmv_optional_int64 base;
    gmv_optional_int64 nbytes;
    gmv_text device_uuid;
} import_ipc;

typedef struct import_members {
    bool has_shm, has_ipc;
    import_shm shm;
    import_ipc ipc;
    bool readonly;
    gmv_text label;
} import_members;

static const gmv_field import_shm_fields[] = {
    GMV_FIELD_REQUIRED("name", TEXT, import_shm, name),
    GMV_FIELD("base", OPTIONAL_INT64, import_shm, base),
    GMV_FIELD("nbytes", OPTIONAL_INT64, import_shm, nbytes),
    GMV_FIELD_END,
};

static const gmv_field import_ipc_fields[] = {
    GMV_FIELD_REQUIRED("handle", TEXT, import_ipc, handle),
    GMV_FIELD("base", OPTIONAL_INT64, import_ipc, base),
    GMV_FIELD("nbytes", OPTIONAL_INT64, import_ipc, nbytes),
    GMV_FIELD("device_uuid", TEXT, import_ipc, device_uuid),
    GMV_FIELD_END,
};

static const gmv_field import_fields[] = {
    {
        .name = "posix_shm",
        .type = GMV_FIELD_OBJECT,
        .offset = offsetof(import_members, shm),
        .fields = import_shm_fields,
        .given_offset = offsetof(import_members, has_shm),
    },
    {
        .name = "cuda_ipc",
        .type = GMV_FIELD_OBJECT,
        .offset = offsetof(import_members, ipc),
        .fields = import_ipc_fields,
        .given_offset = offsetof(import_members, has_ipc),
    },
    GMV_FIELD("readonly", BOOL, import_members, readonly),
    GMV_FIELD("label", LABEL, import_members, label),
    GMV_FIELD_END,
};

static gmv_status import_run_shm(gmv_request *request, const import_members *members,
                                 const gmv_creation *creation, gmv_buffer **out_buffer,
                                 gmv_error *err)
{
    const gmv_import_shm import = {
        .name = members->shm.name.text,
        .has_base = members->shm.base.given,
        .base = members->shm.base.value,
        .has_nbytes = members->shm.nbytes.given,
        .nbytes = members->shm.nbytes.value,
        .readonly = members->readonly,
    };
    return gmv_buffer_import_shm(request->operation, &import, creation, out_buffer, err);
}

static gmv_status import_run_ipc(gmv_request *request, const import_members *members,
                                 const gmv_creation *creation, gmv_buffer **out_buffer,
                                 gmv_error *err)
{
    uint8_t handle[GMV_IPC_HANDLE_NBYTES] = {0};
    const gmv_import_ipc import = {
        .handle = handle,
        .device_uuid = members->ipc.device_uuid.text,
        .has_base = members->ipc.base.given,
        .base = members->ipc.base.value,
        .has_nbytes = members->ipc.nbytes.given,
        .nbytes = members->ipc.nbytes.value,
        .readonly = members->readonly,
    };
    /* The host backend says that it has no such memory, whatever the handle. */
    if (gmv_engine_has_cuda(request->operation->engine))
        GMV_TRY(gmv_ipc_handle_read(members->ipc.handle.text, members->ipc.handle.length,
                                    "/cuda_ipc/handle", handle, err));
    return gmv_buffer_import_ipc(request->operation, &import, creation, out_buffer, err);
}

static gmv_status import_run(gmv_request *request, gmv_reply *reply, void *context,
                             gmv_document *document, gmv_error *err)
{
    const import_members *members = context;
    if (members->has_shm == members->has_ipc)
        return gmv_fail(err, GMV_ERR_VALUE, "",
                        "exactly one of posix_shm and cuda_ipc must be given");
    gmv_creation creation = gmv_creation_labelled(&members->label);
    gmv_buffer *buffer;
    if (members->has_ipc)
        GMV_TRY(import_run_ipc(request, members, &creation, &buffer, err));
    else
        GMV_TRY(import_run_shm(request, members, &creation, &buffer, err));
    return buffer_answer_made(request, reply, buffer, err);
}

GMV_HANDLER(buffer_import)
{
    import_members members = {0};
    return gmv_handle_body(request, reply, import_fields, &members, import_run, err);
}

/* ---- look and read ---- */

GMV_HANDLER(buffer_get)
{
    gmv_node *node;
    GMV_TRY(gmv_request_target(request, &node, err));
    gmv_reply_described(reply, node);
    gmv_json_writer writer = gmv_json_writer_over(&reply->text);
    gmv_encode_buffer(&writer, gmv_request_registry(request), gmv_buffer_of(node));
    return gmv_reply_finish(reply, err);
}

GMV_HANDLER(buffer_data)
{
    gmv_node *node;
    bool is_snapshot;
    GMV_TRY(gmv_query_consistency(&request->query, &is_snapshot, err));
    GMV_TRY(gmv_request_target(request, &node, err));
    GMV_TRY(gmv_buffer_bytes(request->operation, gmv_buffer_of(node), &reply->bytes, err));
    return gmv_reply_bytes(request, reply, node, err);
}

/* ---- export ---- */

typedef struct export_members {
    gmv_text label;
} export_members;

static const gmv_field export_fields[] = {
    GMV_FIELD("label", LABEL, export_members, label),
    GMV_FIELD_END,
};

static gmv_status export_run(gmv_request *request, gmv_reply *reply, void *context,
                             gmv_document *document, gmv_error *err)
{
    const export_members *members = context;
    gmv_creation creation = gmv_creation_labelled(&members->label);
    gmv_node *node;
    gmv_buffer *buffer;
    gmv_share share;
    bool cloned;
    GMV_TRY(gmv_request_target(request, &node, err));
    GMV_TRY(gmv_reply_reserve(reply, EXPORT_NBYTES_MAX, err));
    GMV_TRY(gmv_buffer_export(request->operation, gmv_buffer_of(node), &creation, &buffer, &cloned,
                              &share, err));
    gmv_json_writer writer = gmv_json_writer_over(&reply->text);
    gmv_encode_export(&writer, buffer, cloned, &share);
    gmv_status status = gmv_reply_finish(reply, err);
    if (status != GMV_OK && cloned)
        gmv_request_unmake(request, &buffer->node);
    return status;
}

GMV_HANDLER(buffer_export)
{
    export_members members = {0};
    return gmv_handle_body(request, reply, export_fields, &members, export_run, err);
}

/* ---- upload ---- */

static gmv_status upload_read_device(gmv_request *request, int64_t *out_device, gmv_error *err)
{
    gmv_device *device;
    gmv_error ignored;
    gmv_error_init(&ignored);
    GMV_TRY(gmv_query_int64(&request->query, "device", 0, INT32_MAX, 0, out_device, err));
    if (gmv_engine_device(request->operation->engine, *out_device, &device, &ignored) != GMV_OK)
        return gmv_fail_parameter(err, GMV_ERR_REQUEST_MALFORMED, "device",
                                  "there is no device %lld", (long long)*out_device);
    return GMV_OK;
}

static gmv_status upload_begin(gmv_request *request, gmv_error *err)
{
    int64_t device;
    bool readonly;
    gmv_creation creation;
    gmv_upload *upload;
    request->stream_state = NULL;
    GMV_TRY(upload_read_device(request, &device, err));
    GMV_TRY(gmv_query_flag(&request->query, "readonly", &readonly, err));
    GMV_TRY(gmv_creation_from_query(request, &creation, err));
    GMV_TRY(gmv_upload_begin(request->operation, device, request->content_length, &upload, err));
    request->stream_state = upload;
    return GMV_OK;
}

static gmv_status upload_append(gmv_request *request, const void *bytes, size_t nbytes,
                                gmv_error *err)
{
    return gmv_upload_append(request->operation, request->stream_state, bytes, nbytes, err);
}

static gmv_status upload_finish(gmv_request *request, gmv_reply *reply, gmv_error *err)
{
    bool readonly;
    gmv_creation creation;
    gmv_buffer *buffer;
    GMV_TRY(gmv_query_flag(&request->query, "readonly", &readonly, err));
    GMV_TRY(gmv_creation_from_query(request, &creation, err));
    GMV_TRY(gmv_upload_finish(request->operation, request->stream_state, readonly, &creation,
                              &buffer, err));
    request->stream_state = NULL;
    return buffer_answer_made(request, reply, buffer, err);
}

static void upload_abort(gmv_request *request)
{
    gmv_upload_abort(request->stream_state);
    request->stream_state = NULL;
}

const gmv_stream_handler gmv__stream_buffer_upload = {upload_begin, upload_append, upload_finish,
                                                      upload_abort};

/* ---- write ---- */

/* Lives across operations, so it holds its target, a buffer or a view, itself. */
typedef struct put_state {
    gmv_registry *registry;
    gmv_node *node;
    gmv_buffer *buffer; /* kept alive by `node`; NULL for an empty view without one */
    uint64_t start;     /* of the target in the buffer, in bytes */
    uint64_t limit;     /* bytes of the target */
    uint64_t offset;    /* in the target */
    uint64_t nbytes;    /* written so far */
} put_state;

/* What may be written to: a buffer, or the bytes of a contiguous view. */
static gmv_status put_find_place(gmv_node *node, put_state *state, gmv_error *err)
{
    bool readonly;
    if (node->id.kind == GMV_KIND_VIEW) {
        const gmv_view *view = gmv_view_of(node);
        GMV_TRY(gmv_view_require_contiguous(view, NULL, err));
        readonly = view->readonly;
        state->buffer = view->buffer;
        state->start = gmv_view_offset(view);
        state->limit = (uint64_t)view->nbytes;
    } else {
        state->buffer = gmv_buffer_of(node);
        readonly = state->buffer->readonly;
        state->limit = state->buffer->nbytes;
    }
    return readonly ? gmv_fail(err, GMV_ERR_READONLY, NULL, "the memory is readonly") : GMV_OK;
}

static gmv_status put_check_inside(const put_state *state, uint64_t nbytes, gmv_error *err)
{
    uint64_t begin = state->offset + state->nbytes;
    if (state->offset <= state->limit && nbytes <= state->limit - begin)
        return GMV_OK;
    return gmv_fail_parameter(err, GMV_ERR_OUT_OF_BOUNDS, "offset",
                              "%llu bytes at %llu reach outside the %llu that there are",
                              (unsigned long long)nbytes, (unsigned long long)begin,
                              (unsigned long long)state->limit);
}

/* Where the body goes: ?offset= or Content-Range, which must agree with the body and the buffer. */
static gmv_status put_read_place(const gmv_request *request, int64_t *out_offset, gmv_error *err)
{
    static const char field[] = "Content-Range";
    GMV_TRY(gmv_query_int64(&request->query, "offset", 0, INT64_MAX, 0, out_offset, err));
    if (request->content_range == NULL)
        return GMV_OK;
    uint64_t first, last, total;
    if (gmv_query_find(&request->query, "offset") != NULL)
        return gmv_fail_parameter(err, GMV_ERR_REQUEST_MALFORMED, field,
                                  "give the offset or a Content-Range, not both");
    if (!gmv_content_range_parse(request->content_range, request->content_range_length, &first,
                                 &last, &total) ||
        last > INT64_MAX)
        return gmv_fail_parameter(err, GMV_ERR_REQUEST_MALFORMED, field,
                                  "this is not bytes FIRST-LAST/TOTAL");
    if (request->content_length != (int64_t)(last - first + 1))
        return gmv_fail_parameter(err, GMV_ERR_REQUEST_MALFORMED, field,
                                  "the range holds %llu bytes, and Content-Length must say so",
                                  (unsigned long long)(last - first + 1));
    *out_offset = (int64_t)first;
    return GMV_OK;
}

static gmv_status put_begin(gmv_request *request, gmv_error *err)
{
    int64_t offset;
    uint64_t expected = request->content_length > 0 ? (uint64_t)request->content_length : 0;
    put_state place = {.registry = gmv_request_registry(request)};
    request->stream_state = NULL;
    GMV_TRY(put_read_place(request, &offset, err));
    GMV_TRY(gmv_request_target(request, &place.node, err));
    GMV_TRY(put_find_place(place.node, &place, err));
    place.offset = (uint64_t)offset;
    GMV_TRY(put_check_inside(&place, expected, err));
    if (request->must_not_change)
        return gmv_request_fail_condition(err);
    put_state *state = gmv_calloc(1, sizeof *state);
    if (state == NULL)
        return gmv_fail_no_memory(err);
    *state = place;
    gmv_registry_hold(state->registry, state->node);
    request->stream_state = state;
    return GMV_OK;
}

static gmv_status put_append(gmv_request *request, const void *bytes, size_t nbytes, gmv_error *err)
{
    put_state *state = request->stream_state;
    GMV_TRY(put_check_inside(state, nbytes, err));
    if (nbytes > 0)
        GMV_TRY(gmv_buffer_write(request->operation, state->buffer,
                                 state->start + state->offset + state->nbytes, bytes, nbytes, err));
    state->nbytes += nbytes;
    return GMV_OK;
}

static void put_abort(gmv_request *request)
{
    put_state *state = request->stream_state;
    if (state == NULL)
        return;
    gmv_registry_release(state->registry, state->node, true);
    gmv_free(state);
    request->stream_state = NULL;
}

static gmv_status put_finish(gmv_request *request, gmv_reply *reply, gmv_error *err)
{
    const put_state *state = request->stream_state;
    gmv_json_writer writer = gmv_json_writer_over(&reply->text);
    gmv_json_open_object(&writer);
    gmv_json_member_uint64(&writer, "offset", state->offset);
    gmv_json_member_uint64(&writer, "nbytes", state->nbytes);
    gmv_json_close_object(&writer);
    GMV_TRY(gmv_reply_finish(reply, err));
    put_abort(request);
    return GMV_OK;
}

const gmv_stream_handler gmv__stream_buffer_put = {put_begin, put_append, put_finish, put_abort};
