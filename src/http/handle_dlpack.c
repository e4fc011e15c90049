/* SPDX-License-Identifier: Apache-2.0 */
/* Views from and as DLPack tensors. */
#include "codec/dlpack_json.h"
#include "http/handle_priv.h"

typedef struct from_dlpack_members {
    gmv_dlpack_members tensor;
    bool has_tensor;
    gmv_reference buffer;
    gmv_text event;
    gmv_text label;
} from_dlpack_members;

static const gmv_field from_dlpack_fields[] = {
    {
        .name = "dlpack",
        .type = GMV_FIELD_OBJECT,
        .required = true,
        .offset = offsetof(from_dlpack_members, tensor),
        .fields = gmv_dlpack_fields,
        .given_offset = offsetof(from_dlpack_members, has_tensor),
    },
    GMV_FIELD("buffer", REFERENCE, from_dlpack_members, buffer),
    GMV_FIELD("event", TEXT, from_dlpack_members, event),
    GMV_FIELD("label", LABEL, from_dlpack_members, label),
    GMV_FIELD_END,
};

static gmv_status from_dlpack_run(gmv_request *request, gmv_reply *reply, void *context,
                                  gmv_document *document, gmv_error *err)
{
    const from_dlpack_members *members = context;
    uint8_t event[GMV_IPC_HANDLE_NBYTES];
    gmv_dlpack tensor;
    gmv_node *buffer;
    gmv_view *view;
    gmv_status status = gmv_dlpack_members_read(&members->tensor, &tensor, err);
    if (status != GMV_OK) {
        gmv_error_prefix_pointer(err, "/dlpack");
        return status;
    }
    GMV_TRY(
        gmv_find_reference(request, &members->buffer, GMV_KIND_BUFFER, "/buffer", &buffer, err));
    if (members->event.text != NULL)
        GMV_TRY(gmv_read_event(request, &members->event, event, err));
    gmv_creation creation = gmv_creation_labelled(&members->label);
    GMV_TRY(gmv_view_create_dlpack(
        request->operation, &tensor, buffer != NULL ? gmv_buffer_of(buffer) : NULL,
        members->event.text != NULL ? event : NULL, &creation, &view, err));
    return gmv_reply_made_view(request, reply, view, err);
}

GMV_HANDLER(view_from_dlpack)
{
    from_dlpack_members members = {0};
    return gmv_handle_body(request, reply, from_dlpack_fields, &members, from_dlpack_run, err);
}

GMV_HANDLER(view_dlpack)
{
    gmv_node *node;
    gmv_dlpack tensor;
    GMV_TRY(gmv_request_target(request, &node, err));
    GMV_TRY(gmv_view_as_dlpack(request->operation, gmv_view_of(node), &tensor, err));
    gmv_json_writer writer = gmv_json_writer_over(&reply->text);
    gmv_encode_dlpack(&writer, &tensor);
    return gmv_reply_finish(reply, err);
}
