/* SPDX-License-Identifier: Apache-2.0 */
/* Views: from payloads, over buffers and views, slices, copies, and what they hold. */
#include <string.h>

#include <gmv/base/alloc.h>

#include "codec/ipc_handle.h"
#include "codec/values.h"
#include "http/handle_priv.h"

gmv_status gmv_reply_made_view(gmv_request *request, gmv_reply *reply, gmv_view *view,
                               gmv_error *err)
{
    gmv_json_writer writer = gmv_json_writer_over(&reply->text);
    gmv_encode_view(&writer, gmv_request_registry(request), view);
    return gmv_reply_finish_made(request, reply, &view->node, err);
}

/* ---- from a payload ---- */

typedef struct payload_members {
    gmv_cai_payload payload;
    gmv_reference buffer;
    gmv_text event;
    int mask_kind; /* index in mask_kinds, or -1 */
    gmv_optional_dtype dtype;
    gmv_text label;
} payload_members;

static const char *const payload_mask_kinds[] = {"bools", "bytes", "bits", NULL};
static const gmv_mask_kind payload_mask_values[] = {GMV_MASK_BOOLS, GMV_MASK_BYTES, GMV_MASK_BITS};

/* Streams of other processes pass here: whether there is an event is known once all is read. */
static const gmv_field payload_fields[] = {
    GMV_FIELD("dtype", DTYPE_NAME, payload_members, dtype),
    {
        .name = "cuda_array_interface",
        .type = GMV_FIELD_CAI,
        .required = true,
        .offset = offsetof(payload_members, payload),
        .with_event = true,
        .dtype_offset = offsetof(payload_members, dtype),
    },
    GMV_FIELD("buffer", REFERENCE, payload_members, buffer),
    GMV_FIELD("event", TEXT, payload_members, event),
    {
        .name = "mask_kind",
        .type = GMV_FIELD_NAME,
        .offset = offsetof(payload_members, mask_kind),
        .names = payload_mask_kinds,
    },
    GMV_FIELD("label", LABEL, payload_members, label),
    GMV_FIELD_END,
};

static gmv_status payload_check_streams(const payload_members *members, gmv_error *err)
{
    if (members->event.text != NULL)
        return GMV_OK;
    gmv_status status = gmv_cai_check(&members->payload.cai, false, err);
    if (status == GMV_OK && members->payload.has_mask) {
        status = gmv_cai_check(&members->payload.mask, false, err);
        if (status != GMV_OK)
            gmv_error_prefix_pointer(err, "/mask");
    }
    if (status != GMV_OK)
        gmv_error_prefix_pointer(err, "/cuda_array_interface");
    return status;
}

gmv_status gmv_read_event(const gmv_request *request, const gmv_text *text,
                          uint8_t out_event[GMV_IPC_HANDLE_NBYTES], gmv_error *err)
{
    if (!gmv_engine_has_cuda(request->operation->engine))
        return gmv_fail(err, GMV_ERR_BACKEND_UNSUPPORTED, "/event",
                        "the host backend has no events; synchronize before you post");
    return gmv_ipc_event_read(text->text, text->length, "/event", out_event, err);
}

static gmv_status payload_run(gmv_request *request, gmv_reply *reply, void *context,
                              gmv_document *document, gmv_error *err)
{
    payload_members *members = context;
    gmv_node *buffer;
    gmv_view *view;
    GMV_TRY(payload_check_streams(members, err));
    GMV_TRY(
        gmv_find_reference(request, &members->buffer, GMV_KIND_BUFFER, "/buffer", &buffer, err));
    uint8_t event[GMV_IPC_HANDLE_NBYTES];
    if (members->event.text != NULL)
        GMV_TRY(gmv_read_event(request, &members->event, event, err));
    gmv_view_request view_request = {
        .cai = &members->payload.cai,
        .mask = members->payload.has_mask ? &members->payload.mask : NULL,
        .mask_kind =
            members->mask_kind < 0 ? GMV_MASK_NONE : payload_mask_values[members->mask_kind],
        .buffer = buffer != NULL ? gmv_buffer_of(buffer) : NULL,
        .payload = document->payload,
        .event = members->event.text != NULL ? event : NULL,
    };
    gmv_creation creation = gmv_creation_labelled(&members->label);
    GMV_TRY(gmv_view_create(request->operation, &view_request, &creation, &view, err));
    document->payload = NULL;
    return gmv_reply_made_view(request, reply, view, err);
}

GMV_HANDLER(view_create)
{
    payload_members members;
    memset(&members, 0, sizeof members);
    members.mask_kind = -1;
    return gmv_handle_body(request, reply, payload_fields, &members, payload_run, err);
}

/* ---- typed, over a buffer or a view ---- */

typedef struct typed_members {
    gmv_dtype dtype;
    gmv_int64s shape;
    gmv_int64s strides;
    int64_t offset;
    bool readonly;
    gmv_optional_dtype dtype_name;
    gmv_text label;
} typed_members;

static const gmv_field typed_fields[] = {
    GMV_FIELD("dtype", DTYPE_NAME, typed_members, dtype_name),
    {
        .name = "typestr",
        .type = GMV_FIELD_TYPESTR,
        .required = true,
        .offset = offsetof(typed_members, dtype),
        .dtype_offset = offsetof(typed_members, dtype_name),
    },
    GMV_FIELD_REQUIRED("shape", INT64S, typed_members, shape),
    GMV_FIELD("strides", INT64S, typed_members, strides),
    GMV_FIELD("offset", INT64, typed_members, offset),
    GMV_FIELD("readonly", BOOL, typed_members, readonly),
    GMV_FIELD("label", LABEL, typed_members, label),
    GMV_FIELD_END,
};

static gmv_status typed_layout(const typed_members *members, gmv_layout *out, gmv_error *err)
{
    if (members->shape.count > GMV_NDIM_MAX)
        return gmv_fail(err, GMV_ERR_VALUE, "/shape", "%zu dimensions; there may be at most %d",
                        members->shape.count, GMV_NDIM_MAX);
    if (members->strides.given && members->strides.count != members->shape.count)
        return gmv_fail(err, GMV_ERR_VALUE, "/strides", "%zu strides for %zu dimensions",
                        members->strides.count, members->shape.count);
    out->ndim = (int32_t)members->shape.count;
    out->has_strides = members->strides.given;
    for (size_t i = 0; i < members->shape.count; i++) {
        out->shape[i] = members->shape.items[i];
        out->strides[i] = members->strides.given ? members->strides.items[i] : 0;
    }
    return GMV_OK;
}

static gmv_status typed_run(gmv_request *request, gmv_reply *reply, void *context,
                            gmv_document *document, gmv_error *err)
{
    const typed_members *members = context;
    gmv_typed_view_request typed = {
        .dtype = members->dtype,
        .offset = members->offset,
        .readonly = members->readonly,
    };
    gmv_creation creation = gmv_creation_labelled(&members->label);
    gmv_node *parent;
    gmv_view *view;
    GMV_TRY(typed_layout(members, &typed.layout, err));
    GMV_TRY(gmv_view_check_typed(&typed, err));
    GMV_TRY(gmv_request_target(request, &parent, err));
    GMV_TRY(gmv_view_create_typed(request->operation, parent, &typed, &creation, &view, err));
    return gmv_reply_made_view(request, reply, view, err);
}

GMV_HANDLER(typed_view_create)
{
    typed_members members = {0};
    return gmv_handle_body(request, reply, typed_fields, &members, typed_run, err);
}

/* ---- slices and copies ---- */

typedef struct slice_members {
    gmv_optional_int64 start, stop, step;
    gmv_text label;
} slice_members;

static const gmv_field slice_fields[] = {
    GMV_FIELD("start", CLAMPED_INT64, slice_members, start),
    GMV_FIELD("stop", CLAMPED_INT64, slice_members, stop),
    GMV_FIELD("step", CLAMPED_INT64, slice_members, step),
    GMV_FIELD("label", LABEL, slice_members, label),
    GMV_FIELD_END,
};

static gmv_status slice_run(gmv_request *request, gmv_reply *reply, void *context,
                            gmv_document *document, gmv_error *err)
{
    const slice_members *members = context;
    const gmv_slice slice = {
        .has_start = members->start.given,
        .start = members->start.value,
        .has_stop = members->stop.given,
        .stop = members->stop.value,
        .has_step = members->step.given,
        .step = members->step.value,
    };
    gmv_creation creation = gmv_creation_labelled(&members->label);
    gmv_node *parent;
    gmv_view *view;
    GMV_TRY(gmv_slice_check(&slice, err));
    GMV_TRY(gmv_request_target(request, &parent, err));
    GMV_TRY(gmv_view_byte_slice(request->operation, gmv_view_of(parent), &slice, &creation, &view,
                                err));
    return gmv_reply_made_view(request, reply, view, err);
}

GMV_HANDLER(view_byte_slice)
{
    slice_members members = {0};
    return gmv_handle_body(request, reply, slice_fields, &members, slice_run, err);
}

typedef struct copy_members {
    bool readonly;
    gmv_result_members result;
} copy_members;

static const gmv_field copy_fields[] = {
    GMV_FIELD("readonly", BOOL, copy_members, readonly),
    GMV_RESULT_FIELDS(copy_members, result),
    GMV_FIELD_END,
};

static gmv_status copy_run(gmv_request *request, gmv_reply *reply, void *context,
                           gmv_document *document, gmv_error *err)
{
    const copy_members *members = context;
    gmv_creation creation = gmv_creation_of(&members->result);
    gmv_node *source;
    gmv_view *view;
    GMV_TRY(gmv_request_target(request, &source, err));
    GMV_TRY(gmv_view_copy(request->operation, gmv_view_of(source), members->readonly, &creation,
                          &view, err));
    return gmv_reply_made_view(request, reply, view, err);
}

GMV_HANDLER(view_copy)
{
    copy_members members = {0};
    return gmv_handle_body(request, reply, copy_fields, &members, copy_run, err);
}

/* ---- look and read ---- */

GMV_HANDLER(view_get)
{
    gmv_node *node;
    GMV_TRY(gmv_request_target(request, &node, err));
    gmv_reply_described(reply, node);
    gmv_json_writer writer = gmv_json_writer_over(&reply->text);
    gmv_encode_view(&writer, gmv_request_registry(request), gmv_view_of(node));
    return gmv_reply_finish(reply, err);
}

GMV_HANDLER(view_cai)
{
    gmv_node *node;
    GMV_TRY(gmv_request_target(request, &node, err));
    gmv_json_writer writer = gmv_json_writer_over(&reply->text);
    gmv_encode_cuda_array_interface(&writer, gmv_view_of(node));
    return gmv_reply_finish(reply, err);
}

GMV_HANDLER(view_data)
{
    gmv_node *node;
    bool is_snapshot;
    GMV_TRY(gmv_query_consistency(&request->query, &is_snapshot, err));
    GMV_TRY(gmv_request_target(request, &node, err));
    GMV_TRY(gmv_view_bytes(request->operation, gmv_view_of(node), &reply->bytes, err));
    return gmv_reply_bytes(request, reply, node, err);
}

static void values_write(gmv_reply *reply, const gmv_view *view, int64_t first, int64_t count,
                         const void *elements, const uint8_t *validity)
{
    gmv_json_writer writer = gmv_json_writer_over(&reply->text);
    gmv_json_open_object(&writer);
    gmv_json_member_string(&writer, "typestr", gmv_dtype_describe(view->dtype)->typestr);
    gmv_json_put_key(&writer, "shape");
    gmv_json_open_array(&writer);
    for (int i = 0; i < view->ndim; i++)
        gmv_json_put_int64(&writer, gmv_view_shape(view)[i]);
    gmv_json_close_array(&writer);
    gmv_json_member_int64(&writer, "size", view->size);
    gmv_json_member_int64(&writer, "offset", first);
    gmv_json_member_int64(&writer, "count", count);
    gmv_json_put_key(&writer, "values");
    gmv_encode_masked_elements(&writer, view->dtype, elements, validity, count);
    gmv_json_close_object(&writer);
}

GMV_HANDLER(view_values)
{
    gmv_node *node;
    int64_t first;
    int64_t count;
    GMV_TRY(gmv_query_window(&request->query, 0, &first, &count, err));
    GMV_TRY(gmv_request_target(request, &node, err));
    gmv_view *view = gmv_view_of(node);
    GMV_TRY(gmv_query_window(&request->query, view->size, &first, &count, err));
    size_t itemsize = gmv_dtype_describe(view->dtype)->itemsize;
    void *elements = gmv_malloc((size_t)count * itemsize + 1);
    if (elements == NULL)
        return gmv_fail_no_memory(err);
    uint8_t *validity = NULL;
    gmv_status status = GMV_OK;
    if (count > 0)
        status = gmv_view_read_elements(request->operation, view, first, count, elements, err);
    if (status == GMV_OK)
        status = gmv_view_read_validity(request->operation, view, first, count, &validity, err);
    if (status == GMV_OK) {
        values_write(reply, view, first, count, elements, validity);
        reply->caching = GMV_CACHING_NO_STORE;
        status = gmv_reply_finish(reply, err);
    }
    gmv_free(validity);
    gmv_free(elements);
    return status;
}
