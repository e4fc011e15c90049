/* SPDX-License-Identifier: Apache-2.0 */
/* Results: a new inner buffer and a view over the whole of it, prepared together. */
#include <gmv/ops/view.h>

#include "ops/draft_priv.h"

gmv_status gmv__result_allocate(gmv_operation *operation, gmv_device *device, uint64_t nbytes,
                                gmv_contents contents, const gmv_creation *creation,
                                gmv_memory **out_memory, gmv_error *err)
{
    bool exportable = creation && creation->exportable && nbytes > 0;
    if (nbytes > INT64_MAX)
        return gmv_fail(err, GMV_ERR_DEVICE_OUT_OF_MEMORY, NULL,
                        "no device has %llu bytes of memory", (unsigned long long)nbytes);
    return gmv_engine_allocate(operation->engine, device, gmv_operation_stream(operation, device),
                               exportable ? GMV_MEMORY_EXPORTABLE : GMV_MEMORY_ORDINARY, contents,
                               nbytes, out_memory, err);
}

/* Gives memory up that may be in use still. */
static void result_free(gmv_operation *operation, gmv_memory *memory)
{
    gmv_stream_abandon(gmv_operation_stream(operation, memory->device));
    gmv_engine_free(operation->engine, memory);
}

/* Prepares the buffer; frees the memory if that fails. */
static gmv_status result_prepare_buffer(gmv_operation *operation, gmv_device *device,
                                        uint64_t nbytes, gmv_contents contents, bool readonly,
                                        const gmv_creation *creation, gmv_buffer **out_buffer,
                                        gmv_error *err)
{
    gmv_memory *memory = NULL;
    GMV_TRY(gmv__result_allocate(operation, device, nbytes, contents, creation, &memory, err));
    gmv_status status = gmv_buffer_prepare(operation, memory, GMV_ORIGIN_COMPUTED, readonly, NULL,
                                           NULL, true, out_buffer, err);
    if (status != GMV_OK)
        result_free(operation, memory);
    return status;
}

static gmv_view_spec result_spec(gmv_buffer *buffer, gmv_dtype dtype, const gmv_layout *layout)
{
    return (gmv_view_spec){
        .buffer = buffer,
        .parent = &buffer->node,
        .ptr = buffer->ptr,
        .dtype = dtype,
        .layout = layout,
        .readonly = buffer->readonly,
    };
}

gmv_status gmv__result_adopt(gmv_operation *operation, gmv_memory **memory,
                             const gmv_creation *creation, bool inner, gmv_result *out_result,
                             gmv_error *err)
{
    gmv_result result = {0};
    gmv_layout layout = gmv_layout_flat((int64_t)(*memory)->nbytes);
    GMV_TRY(gmv_buffer_prepare(operation, *memory, GMV_ORIGIN_COMPUTED, false, NULL, NULL, true,
                               &result.buffer, err));
    gmv_view_spec spec = result_spec(result.buffer, GMV_DTYPE_U1, &layout);
    spec.bare = true;
    gmv_memory *taken = *memory;
    *memory = NULL;
    gmv_status status = gmv_view_prepare(operation, &spec, creation, inner, &result.view, err);
    if (status != GMV_OK) {
        gmv_stream_abandon(gmv_operation_stream(operation, taken->device));
        gmv_buffer_discard(result.buffer);
        return status;
    }
    *out_result = result;
    return GMV_OK;
}

gmv_status gmv_result_prepare(gmv_operation *operation, gmv_device *device, uint64_t nbytes,
                              gmv_contents contents, const gmv_creation *creation, bool inner,
                              gmv_result *out_result, gmv_error *err)
{
    gmv_memory *memory = NULL;
    GMV_TRY(gmv__result_allocate(operation, device, nbytes, contents, creation, &memory, err));
    gmv_status status = gmv__result_adopt(operation, &memory, creation, inner, out_result, err);
    if (memory)
        result_free(operation, memory);
    return status;
}

void gmv_result_discard(gmv_engine *engine, gmv_result *result)
{
    gmv_view_discard(engine, result->view);
    gmv_buffer_discard(result->buffer);
    *result = (gmv_result){0};
}

gmv_status gmv__draft_make(gmv_draft *draft, const gmv_draft_result *result,
                           const gmv_creation *creation, gmv_view **out_view, gmv_error *err)
{
    gmv_extent extent;
    gmv_buffer *buffer = NULL;
    GMV_TRY(gmv_layout_measure(result->layout, gmv_dtype_describe(result->dtype)->itemsize, &extent,
                               err));
    GMV_TRY(result_prepare_buffer(draft->operation, draft->device, (uint64_t)extent.nbytes,
                                  result->contents, result->readonly, creation, &buffer, err));
    gmv__draft_add(draft, &buffer->node);
    GMV_TRY(gmv_stream_use(draft->stream, buffer->memory, err));

    gmv_view_spec spec = result_spec(buffer, result->dtype, result->layout);
    spec.bare = result->bare;
    spec.mask = result->mask;
    spec.mask_kind = result->mask_kind;
    GMV_TRY(gmv_view_prepare(draft->operation, &spec, creation, result->inner, out_view, err));
    gmv__draft_add(draft, &(*out_view)->node);
    return GMV_OK;
}
