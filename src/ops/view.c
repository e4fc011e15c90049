/* SPDX-License-Identifier: Apache-2.0 */
/* Views: the node, its exactly sized geometry, and the looks at another view's or buffer's bytes.
 */
#include <string.h>

#include <gmv/base/alloc.h>
#include <gmv/base/num.h>
#include <gmv/ops/view.h>

#include "ops/draft_priv.h"

/* ---- the node ---- */

static void view_destroy(gmv_node *node)
{
    gmv_view *view = gmv_view_of(node);
    gmv_free(view->payload);
    gmv_free(view);
}

static uint64_t view_nbytes(const gmv_node *node)
{
    return (uint64_t)((const gmv_view *)node)->nbytes;
}

static int32_t view_device(const gmv_node *node)
{
    const gmv_view *view = (const gmv_view *)node;
    return view->buffer ? view->buffer->device : -1;
}

static const gmv_node_class view_class = {
    .kind = GMV_KIND_VIEW,
    .destroy = view_destroy,
    .nbytes = view_nbytes,
    .device = view_device,
};

static gmv_view *view_new(const gmv_view_spec *spec, const gmv_extent *extent)
{
    const gmv_layout *layout = spec->layout;
    size_t ndim = (size_t)layout->ndim;
    size_t n_dims = extent->contiguous ? ndim : 2 * ndim;
    gmv_view *view = gmv_calloc(1, sizeof *view + n_dims * sizeof view->dims[0]);
    if (!view)
        return NULL;
    view->buffer = spec->buffer;
    view->parent = spec->parent;
    view->mask = spec->mask;
    view->mask_kind = spec->mask_kind;
    view->ptr = spec->ptr;
    view->size = extent->size;
    view->nbytes = extent->nbytes;
    view->dtype = spec->dtype;
    view->ndim = (uint8_t)ndim;
    view->contiguous = extent->contiguous;
    view->readonly = spec->readonly;
    view->bare = spec->bare;
    memcpy(view->dims, layout->shape, ndim * sizeof view->dims[0]);
    if (!extent->contiguous)
        memcpy(view->dims + ndim, layout->strides, ndim * sizeof view->dims[0]);
    return view;
}

gmv_status gmv_view_prepare(gmv_operation *operation, const gmv_view_spec *spec,
                            const gmv_creation *creation, bool inner, gmv_view **out_view,
                            gmv_error *err)
{
    gmv_extent extent;
    int64_t itemsize = gmv_dtype_describe(spec->dtype)->itemsize;
    GMV_TRY(gmv_layout_measure(spec->layout, itemsize, &extent, err));
    gmv_view *view = view_new(spec, &extent);
    if (!view)
        return gmv_fail_no_memory(err);

    gmv_node *buffer = spec->parent || !spec->buffer ? NULL : &spec->buffer->node;
    gmv_node *owners[] = {spec->parent, buffer, spec->second_owner,
                          spec->mask ? &spec->mask->node : NULL};
    gmv_node_attributes attributes = gmv_operation_attributes(operation, creation, inner);
    gmv_status status =
        gmv_node_prepare(operation->engine->registry, &view->node, &view_class, &attributes, owners,
                         sizeof owners / sizeof owners[0], err);
    if (status != GMV_OK) {
        gmv_free(view);
        return status;
    }
    view->payload = spec->payload;
    *out_view = view;
    return GMV_OK;
}

void gmv_view_discard(gmv_engine *engine, gmv_view *view)
{
    if (!view)
        return;
    gmv_node_discard(engine->registry, &view->node);
    view_destroy(&view->node);
}

/* ---- looking ---- */

uint64_t gmv_view_offset(const gmv_view *view)
{
    return view->buffer && view->ptr != 0 ? view->ptr - view->buffer->ptr : 0;
}

void gmv_view_layout(const gmv_view *view, gmv_layout *out_layout)
{
    size_t nbytes = view->ndim * sizeof view->dims[0];
    out_layout->ndim = view->ndim;
    memcpy(out_layout->shape, view->dims, nbytes);
    if (view->contiguous)
        gmv_layout_c_strides(out_layout, gmv_dtype_describe(view->dtype)->itemsize,
                             out_layout->strides);
    else
        memcpy(out_layout->strides, view->dims + view->ndim, nbytes);
    out_layout->has_strides = true;
}

int64_t gmv_view_length(const gmv_view *view)
{
    return view->ndim > 0 ? view->dims[0] : -1;
}

gmv_status gmv_view_require_contiguous(const gmv_view *view, const char *pointer, gmv_error *err)
{
    if (view->contiguous)
        return GMV_OK;
    return gmv_fail(err, GMV_ERR_NOT_CONTIGUOUS, pointer,
                    "the view is strided and this call takes C-contiguous ones; copy it first");
}

gmv_device *gmv__view_device_or_first(const gmv_engine *engine, const gmv_view *view)
{
    return engine->devices[view && view->buffer ? view->buffer->device_index : 0];
}

/* ---- looks at bytes that gmvd already knows ---- */

static gmv_status view_publish(gmv_operation *operation, const gmv_view_spec *spec,
                               const gmv_creation *creation, gmv_view **out_view, gmv_error *err)
{
    gmv_view *view = NULL;
    GMV_TRY(gmv_operation_reserve(operation, 1, err));
    GMV_TRY(gmv_view_prepare(operation, spec, creation, false, &view, err));
    gmv_node *node = &view->node;
    gmv_operation_publish(operation, &node, 1);
    *out_view = view;
    return GMV_OK;
}

gmv_status gmv_view_byte_slice(gmv_operation *operation, gmv_view *parent, const gmv_slice *slice,
                               const gmv_creation *creation, gmv_view **out_view, gmv_error *err)
{
    int64_t offset, length;
    GMV_TRY(gmv_view_require_contiguous(parent, NULL, err));
    GMV_TRY(gmv_slice_resolve(slice, parent->nbytes, &offset, &length, err));
    gmv_layout layout = gmv_layout_flat(length);
    gmv_view_spec spec = {
        .buffer = parent->buffer,
        .parent = &parent->node,
        .ptr = parent->ptr + (uint64_t)offset,
        .dtype = GMV_DTYPE_U1,
        .layout = &layout,
        .readonly = parent->readonly,
        .bare = true,
    };
    return view_publish(operation, &spec, creation, out_view, err);
}

/* The bytes that a typed view is laid over. */
typedef struct view_base {
    gmv_buffer *buffer; /* NULL for an empty view without one */
    uint64_t ptr;
    int64_t nbytes;
    bool readonly;
} view_base;

static gmv_status view_base_of(gmv_node *parent, view_base *out_base, gmv_error *err)
{
    if (parent->node_class->kind == GMV_KIND_BUFFER) {
        gmv_buffer *buffer = gmv_buffer_of(parent);
        *out_base = (view_base){buffer, buffer->ptr, (int64_t)buffer->nbytes, buffer->readonly};
        return GMV_OK;
    }
    if (parent->node_class->kind != GMV_KIND_VIEW)
        return gmv_fail(err, GMV_ERR_KIND_MISMATCH, NULL, "a %s has no bytes to look at",
                        gmv_kind_name(parent->node_class->kind));
    gmv_view *view = gmv_view_of(parent);
    GMV_TRY(gmv_view_require_contiguous(view, NULL, err));
    *out_base = (view_base){view->buffer, view->ptr, view->nbytes, view->readonly};
    return GMV_OK;
}

gmv_status gmv_view_check_typed(const gmv_typed_view_request *request, gmv_error *err)
{
    if (request->offset < 0)
        return gmv_fail(err, GMV_ERR_VALUE, "/offset", "offset must be 0 or more, not %lld",
                        (long long)request->offset);
    return gmv_layout_check_shape(&request->layout, err);
}

static gmv_status typed_check(const gmv_typed_view_request *request, const view_base *base,
                              gmv_error *err)
{
    const gmv_dtype_info *dtype = gmv_dtype_describe(request->dtype);
    gmv_extent extent;
    GMV_TRY(gmv_view_check_typed(request, err));
    GMV_TRY(gmv_layout_measure(&request->layout, dtype->itemsize, &extent, err));
    if (request->offset > base->nbytes)
        return gmv_fail(err, GMV_ERR_OUT_OF_BOUNDS, "/offset",
                        "offset %lld is past the end, there are %lld bytes",
                        (long long)request->offset, (long long)base->nbytes);
    GMV_TRY(gmv_extent_check_inside(&extent, request->offset, base->nbytes, err));
    GMV_TRY(gmv_layout_check_exact(&request->layout, &extent, err));
    return gmv_layout_check_alignment(&request->layout, dtype->alignment,
                                      base->ptr + (uint64_t)request->offset, "/offset", err);
}

gmv_status gmv_view_create_typed(gmv_operation *operation, gmv_node *parent,
                                 const gmv_typed_view_request *request,
                                 const gmv_creation *creation, gmv_view **out_view, gmv_error *err)
{
    view_base base = {0};
    GMV_TRY(view_base_of(parent, &base, err));
    GMV_TRY(typed_check(request, &base, err));
    gmv_view_spec spec = {
        .buffer = base.buffer,
        .parent = parent,
        .ptr = base.ptr + (uint64_t)request->offset,
        .dtype = request->dtype,
        .layout = &request->layout,
        .readonly = request->readonly || base.readonly,
    };
    return view_publish(operation, &spec, creation, out_view, err);
}
