/* SPDX-License-Identifier: Apache-2.0 */
/* Reading views: the logical bytes, single elements, and copies that outlive the exporter. */
#include <gmv/base/num.h>
#include <gmv/ops/view.h>

#include "ops/draft_priv.h"

gmv_status gmv__draft_use(gmv_draft *draft, const gmv_view *view, gmv_error *err)
{
    return gmv_stream_use(draft->stream, view->buffer ? view->buffer->memory : NULL, err);
}

gmv_status gmv__view_gather(const gmv_view *view, gmv_stream *stream, int64_t first, int64_t count,
                            uint64_t output, gmv_layout *layout, gmv_error *err)
{
    gmv_view_layout(view, layout);
    gmv_gather gather = {
        .address = view->ptr,
        .layout = layout,
        .itemsize = gmv_dtype_describe(view->dtype)->itemsize,
        .first = first,
        .count = count,
        .output = output,
    };
    return gmv_kernel_gather(stream, &gather, err);
}

gmv_status gmv__draft_gather(gmv_draft *draft, const gmv_view *view, int64_t first, int64_t count,
                             uint64_t output, gmv_error *err)
{
    int64_t itemsize = gmv_dtype_describe(view->dtype)->itemsize;
    if (count == 0)
        return GMV_OK;
    GMV_TRY(gmv__draft_use(draft, view, err));
    if (view->contiguous)
        return gmv_copy_within(draft->stream, output, view->ptr + (uint64_t)(first * itemsize),
                               (uint64_t)(count * itemsize), err);
    return gmv__view_gather(view, draft->stream, first, count, output,
                            &draft->layouts[draft->n_layouts++], err);
}

/* ---- bytes ---- */

/* Elements may lie across the ends of the piece, so up to two more are gathered than it holds. */
static gmv_status piece_enqueue(const gmv_view *view, gmv_stream *stream, gmv_memory *memory,
                                uint64_t offset, void *out, uint64_t nbytes, gmv_layout *layout,
                                gmv_error *err)
{
    uint64_t itemsize = gmv_dtype_describe(view->dtype)->itemsize;
    GMV_TRY(gmv_stream_use(stream, view->buffer->memory, err));
    GMV_TRY(gmv_stream_use(stream, memory, err));
    GMV_TRY(gmv__view_gather(view, stream, (int64_t)(offset / itemsize),
                             (int64_t)(memory->nbytes / itemsize), memory->address, layout, err));
    return gmv_copy_out(stream, out, memory->address + offset % itemsize, nbytes, err);
}

gmv_status gmv__view_read_piece(const gmv_view *view, gmv_stream *stream, uint64_t offset,
                                void *out, uint64_t nbytes, gmv_error *err)
{
    uint64_t itemsize = gmv_dtype_describe(view->dtype)->itemsize;
    uint64_t first = offset / itemsize;
    uint64_t count = (offset + nbytes - 1) / itemsize + 1 - first;
    gmv_layout layout;
    gmv_memory *memory = NULL;
    GMV_TRY(gmv_memory_allocate(gmv_stream_device(stream), stream, GMV_MEMORY_ORDINARY,
                                GMV_CONTENTS_UNSPECIFIED, count * itemsize, &memory, err));
    gmv_status status = piece_enqueue(view, stream, memory, offset, out, nbytes, &layout, err);
    if (status == GMV_OK)
        status = gmv_stream_finish(stream, err);
    else
        gmv_stream_abandon(stream);
    gmv_memory_free(memory);
    return status;
}

static gmv_status bytes_check_quota(const gmv_engine *engine, const gmv_view *view, gmv_error *err)
{
    uint64_t limit = engine->limits.max_logical_nbytes;
    if ((uint64_t)view->nbytes <= limit)
        return GMV_OK;
    return gmv_fail(
        err, GMV_ERR_QUOTA_EXCEEDED, NULL,
        "the view stands for %lld bytes, max_logical_nbytes is %llu; make views of parts of it",
        (long long)view->nbytes, (unsigned long long)limit);
}

gmv_status gmv_view_bytes(gmv_operation *operation, gmv_view *view, gmv_bytes *out_bytes,
                          gmv_error *err)
{
    gmv_engine *engine = operation->engine;
    if (view->contiguous)
        return gmv__bytes_of_region(operation, view->buffer, &view->node, view->ptr,
                                    (uint64_t)view->nbytes, out_bytes, err);
    GMV_TRY(bytes_check_quota(engine, view, err));
    GMV_TRY(gmv__memory_check(view->buffer->memory, err));
    gmv_registry_hold(engine->registry, &view->node);
    *out_bytes = (gmv_bytes){
        .nbytes = (uint64_t)view->nbytes,
        .sealed = gmv_buffer_is_sealed(view->buffer),
        .engine = engine,
        .memory = view->buffer->memory,
        .strided = view,
        .node = &view->node,
    };
    return GMV_OK;
}

bool gmv_view_is_fortran(const gmv_view *view)
{
    const int64_t *strides = gmv_view_strides(view);
    int64_t expected = gmv_dtype_describe(view->dtype)->itemsize;
    if (strides == NULL)
        return false;
    for (int i = 0; i < view->ndim; i++) {
        if (view->dims[i] == 1)
            continue;
        if (strides[i] != expected)
            return false;
        expected *= view->dims[i];
    }
    return true;
}

gmv_status gmv_view_fortran_bytes(gmv_operation *operation, gmv_view *view, gmv_bytes *out_bytes,
                                  gmv_error *err)
{
    return gmv__bytes_of_region(operation, view->buffer, &view->node, view->ptr,
                                (uint64_t)view->nbytes, out_bytes, err);
}

/* ---- elements ---- */

static gmv_status elements_copy_out(gmv_draft *draft, const gmv_view *view, int64_t first,
                                    int64_t count, void *out_host, gmv_error *err)
{
    int64_t itemsize = gmv_dtype_describe(view->dtype)->itemsize;
    uint64_t nbytes = (uint64_t)(count * itemsize);
    uint64_t source = view->ptr + (uint64_t)(first * itemsize);
    if (view->contiguous) {
        GMV_TRY(gmv__draft_use(draft, view, err));
    } else {
        gmv_memory *gathered = NULL;
        GMV_TRY(gmv__draft_scratch(draft, nbytes, &gathered, err));
        GMV_TRY(gmv__draft_gather(draft, view, first, count, gathered->address, err));
        source = gathered->address;
    }
    return gmv_copy_out(draft->stream, out_host, source, nbytes, err);
}

gmv_status gmv_view_read_elements(gmv_operation *operation, gmv_view *view, int64_t first,
                                  int64_t count, void *out_host, gmv_error *err)
{
    if (first < 0 || count < 0 || first > view->size || count > view->size - first)
        return gmv_fail(err, GMV_ERR_OUT_OF_BOUNDS, NULL,
                        "%lld elements from %lld on are asked for, the view has %lld",
                        (long long)count, (long long)first, (long long)view->size);
    if (count == 0)
        return GMV_OK;
    int64_t itemsize = gmv_dtype_describe(view->dtype)->itemsize;
    GMV_TRY(gmv_operation_weigh(operation, (uint64_t)(count * itemsize), err));

    gmv_draft draft;
    GMV_TRY(gmv__draft_begin(&draft, operation, gmv__view_device_or_first(operation->engine, view),
                             err));
    return gmv__draft_end(&draft, elements_copy_out(&draft, view, first, count, out_host, err),
                          err);
}

/* ---- copies ---- */

static gmv_status copy_draft_one(gmv_draft *draft, const gmv_view *view, bool readonly,
                                 gmv_view *mask, bool inner, const gmv_creation *creation,
                                 gmv_view **out_copy, gmv_error *err)
{
    gmv_layout layout;
    gmv_view_layout(view, &layout);
    layout.has_strides = false;
    gmv_draft_result result = {
        .dtype = view->dtype,
        .layout = &layout,
        .contents = GMV_CONTENTS_UNSPECIFIED,
        .readonly = readonly,
        .inner = inner,
        .mask = mask,
        .mask_kind = view->mask_kind,
    };
    GMV_TRY(gmv__draft_make(draft, &result, creation, out_copy, err));
    return gmv__draft_gather(draft, view, 0, view->size, (*out_copy)->ptr, err);
}

/* A mask is copied, too: without it the copy would say something else than the view. */
static gmv_status copy_draft(gmv_draft *draft, const gmv_view *view, bool readonly,
                             const gmv_creation *creation, gmv_view **out_copy, gmv_error *err)
{
    gmv_view *mask = NULL;
    if (view->mask)
        GMV_TRY(copy_draft_one(draft, view->mask, readonly, NULL, true, creation, &mask, err));
    return copy_draft_one(draft, view, readonly, mask, false, creation, out_copy, err);
}

gmv_status gmv_view_copy(gmv_operation *operation, gmv_view *view, bool readonly,
                         const gmv_creation *creation, gmv_view **out_view, gmv_error *err)
{
    uint64_t mask_nbytes = view->mask ? (uint64_t)view->mask->nbytes : 0;
    uint64_t nbytes;
    if (!gmv_add_checked((uint64_t)view->nbytes, mask_nbytes, &nbytes))
        nbytes = UINT64_MAX;
    GMV_TRY(gmv_operation_weigh(operation, nbytes, err));

    gmv_draft draft;
    gmv_view *copy = NULL;
    GMV_TRY(gmv__draft_begin(&draft, operation, gmv__view_device_or_first(operation->engine, view),
                             err));
    gmv_status status = copy_draft(&draft, view, readonly, creation, &copy, err);
    GMV_TRY(gmv__draft_end(&draft, status, err));
    *out_view = copy;
    return GMV_OK;
}
