/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Views from and as DLPack tensors: the same checks as payloads go through, told in the words of
 * the tensor.
 */
#include <string.h>

#include <gmv/ops/view.h>

#define DLPACK_CAI_POINTER "/cuda_array_interface"
#define DLPACK_POINTER     "/dlpack"

static gmv_dlpack_device_type dlpack_device_type(const gmv_engine *engine)
{
    return gmv_engine_has_cuda(engine) ? GMV_DLPACK_CUDA : GMV_DLPACK_CPU;
}

/* A pointer into the payload as one into the tensor, which has another place for the address. */
static void dlpack_rename_pointer(gmv_error *err)
{
    const size_t length = sizeof DLPACK_CAI_POINTER - 1;
    if (!err || !err->has_pointer || strncmp(err->pointer, DLPACK_CAI_POINTER, length) != 0)
        return;
    const char *rest = err->pointer + length;
    if (strcmp(rest, "/data/0") == 0)
        rest = "/data";
    memmove(err->pointer, rest, strlen(rest) + 1);
    gmv_error_prefix_pointer(err, DLPACK_POINTER);
}

gmv_status gmv_view_create_dlpack(gmv_operation *operation, const gmv_dlpack *tensor,
                                  gmv_buffer *buffer, const uint8_t *event,
                                  const gmv_creation *creation, gmv_view **out_view, gmv_error *err)
{
    gmv_cai cai;
    gmv_status status = gmv_dlpack_to_cai(tensor, dlpack_device_type(operation->engine), &cai, err);
    if (status != GMV_OK) {
        gmv_error_prefix_pointer(err, DLPACK_POINTER);
        return status;
    }
    gmv_view_request request = {.cai = &cai, .buffer = buffer, .event = event};
    status = gmv_view_create(operation, &request, creation, out_view, err);
    if (status != GMV_OK)
        dlpack_rename_pointer(err);
    return status;
}

gmv_status gmv_view_as_dlpack(const gmv_operation *operation, const gmv_view *view,
                              gmv_dlpack *out_tensor, gmv_error *err)
{
    gmv_layout layout;
    gmv_view_layout(view, &layout);
    GMV_TRY(gmv_dlpack_from_layout(view->dtype, &layout, view->nbytes == 0 ? 0 : view->ptr,
                                   view->readonly, out_tensor, err));
    out_tensor->device_type = dlpack_device_type(operation->engine);
    out_tensor->device_id = view->buffer ? view->buffer->device : 0;
    return GMV_OK;
}
