/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Views of posted payloads. An address is only a number until it has been found in a buffer, and
 * from then on only its distance from the buffer's start is used, so nothing can wrap.
 */
#include <string.h>

#include <gmv/base/num.h>
#include <gmv/ops/view.h>

#include "ops/draft_priv.h"

#define CREATE_POINTER      "/cuda_array_interface"
#define CREATE_MASK_POINTER CREATE_POINTER "/mask"

/* One payload, view or mask, on its way to become a view. */
typedef struct create_part {
    const gmv_cai *cai;
    gmv_layout layout; /* in items of the dtype, bit fields as bytes */
    gmv_extent extent;
    bool stride_overflow; /* no memory is that large: said once the address is known to be ours */
    gmv_buffer *buffer;   /* NULL for an empty one at address 0 */
    uint64_t ptr;
} create_part;

/* ---- finding the buffer ---- */

static bool create_range_holds(uint64_t begin, uint64_t nbytes, uint64_t address, bool include_end)
{
    if (address < begin)
        return false;
    uint64_t offset = address - begin;
    return offset < nbytes || (include_end && offset == nbytes);
}

/* gmvd's own address space counts before the exporter's. */
static bool create_translate(const gmv_buffer *buffer, uint64_t address, bool include_end,
                             uint64_t *out_ptr)
{
    if (create_range_holds(buffer->ptr, buffer->nbytes, address, include_end)) {
        *out_ptr = address;
        return true;
    }
    if (buffer->has_exporter_base &&
        create_range_holds(buffer->exporter_base, buffer->nbytes, address, include_end)) {
        *out_ptr = buffer->ptr + (address - buffer->exporter_base);
        return true;
    }
    return false;
}

static gmv_status create_fail_unregistered(uint64_t address, gmv_error *err)
{
    return gmv_fail(err, GMV_ERR_POINTER_NOT_REGISTERED, "/data/0",
                    "address %llu is in no buffer; import the allocation around it first, with the "
                    "address that it has in its own process as base",
                    (unsigned long long)address);
}

/* Finds in all of the caller's buffers; the operation holds what is found. */
static gmv_status create_find_anywhere(gmv_operation *operation, uint64_t address, bool empty,
                                       gmv_buffer **out_buffer, uint64_t *out_ptr, gmv_error *err)
{
    gmv_registry *registry = operation->engine->registry;
    bool may_block = operation->lane != GMV_LANE_INLINE;
    gmv_address_hit hits[2];
    bool include_end = false;
    size_t n = gmv_registry_find_address(registry, &operation->caller, address, false, hits);
    if (n == 0 && empty) {
        include_end = true;
        n = gmv_registry_find_address(registry, &operation->caller, address, true, hits);
    }
    if (n == 0)
        return create_fail_unregistered(address, err);
    if (n > 1) {
        for (size_t i = 0; i < n; i++)
            gmv_registry_release(registry, hits[i].node, may_block);
        return gmv_fail(err, GMV_ERR_POINTER_AMBIGUOUS, "/data/0",
                        "address %llu is in more than one buffer; name the buffer",
                        (unsigned long long)address);
    }
    gmv_operation_adopt(operation, hits[0].node);
    *out_buffer = gmv_buffer_of(hits[0].node);
    if (!create_translate(*out_buffer, address, include_end, out_ptr))
        return create_fail_unregistered(address, err);
    return GMV_OK;
}

static gmv_status create_find(gmv_operation *operation, create_part *part, gmv_buffer *named,
                              bool only_named, gmv_error *err)
{
    uint64_t address = (uint64_t)part->cai->address;
    bool empty = part->extent.size == 0;
    if (empty && address == 0) {
        part->buffer = named;
        return GMV_OK;
    }
    if (named && create_translate(named, address, empty, &part->ptr)) {
        part->buffer = named;
        return GMV_OK;
    }
    if (named && only_named)
        return gmv_fail(err, GMV_ERR_POINTER_NOT_REGISTERED, "/data/0",
                        "address %llu is not in the named buffer", (unsigned long long)address);
    return create_find_anywhere(operation, address, empty, &part->buffer, &part->ptr, err);
}

/* ---- geometry ---- */

/* A bit field's shape counts bits, and only whole bytes can be looked at. */
static gmv_status create_layout(create_part *part, gmv_error *err)
{
    part->layout = part->cai->layout;
    if (!part->cai->is_bit_field)
        return GMV_OK;
    if (part->layout.ndim != 1 || part->layout.shape[0] < 0)
        return gmv_fail(err, GMV_ERR_VALUE, "/shape", "a bit field has one dimension");
    int64_t bits = part->layout.shape[0];
    if (part->layout.has_strides && bits > 1)
        return gmv_fail(err, GMV_ERR_VALUE, "/strides", "a bit field has no strides");
    part->layout = gmv_layout_flat(bits / 8 + (bits % 8 != 0));
    return GMV_OK;
}

static gmv_status create_measure(create_part *part, gmv_error *err)
{
    int64_t itemsize = gmv_dtype_describe(part->cai->dtype)->itemsize;
    GMV_TRY(create_layout(part, err));
    gmv_status status = gmv_layout_measure(&part->layout, itemsize, &part->extent, err);
    part->stride_overflow = status == GMV_ERR_OUT_OF_BOUNDS;
    if (part->stride_overflow)
        part->extent = (gmv_extent){.size = 1};
    else if (status != GMV_OK)
        return status;
    if (part->extent.size > 0 && part->cai->address == 0)
        return gmv_fail(err, GMV_ERR_VALUE, "/data/0",
                        "the address is 0, but the array has elements");
    return GMV_OK;
}

static gmv_status create_check_inside(create_part *part, gmv_error *err)
{
    const gmv_dtype_info *dtype = gmv_dtype_describe(part->cai->dtype);
    if (part->stride_overflow)
        return gmv_layout_measure(&part->layout, dtype->itemsize, &part->extent, err);
    if (part->extent.size == 0)
        return gmv_layout_check_exact(&part->layout, &part->extent, err);
    GMV_TRY(gmv_extent_check_inside(&part->extent, (int64_t)(part->ptr - part->buffer->ptr),
                                    (int64_t)part->buffer->nbytes, err));
    GMV_TRY(gmv_layout_check_exact(&part->layout, &part->extent, err));
    GMV_TRY(gmv_layout_check_alignment(&part->layout, dtype->alignment,
                                       (uint64_t)part->cai->address, "/data/0", err));
    return gmv_layout_check_alignment(&part->layout, dtype->alignment, part->ptr, "/data/0", err);
}

static gmv_status create_locate(gmv_operation *operation, create_part *part, gmv_buffer *named,
                                bool only_named, gmv_error *err)
{
    GMV_TRY(create_measure(part, err));
    GMV_TRY(create_find(operation, part, named, only_named, err));
    return create_check_inside(part, err);
}

/* ---- the whole request ---- */

static gmv_status create_prefixed(gmv_status status, const char *prefix, gmv_error *err)
{
    if (status != GMV_OK)
        gmv_error_prefix_pointer(err, prefix);
    return status;
}

/* Whether address 0 will do is a matter of geometry, which comes after the members. */
static gmv_status create_check_members(const gmv_cai *cai, bool has_event, const char *prefix,
                                       gmv_error *err)
{
    gmv_cai members = *cai;
    if (members.address == 0)
        members.address = 1;
    return create_prefixed(gmv_cai_check(&members, has_event, err), prefix, err);
}

static gmv_status create_classify(const gmv_view_request *request, gmv_mask_kind *out_kind,
                                  gmv_error *err)
{
    *out_kind = GMV_MASK_NONE;
    if (!request->mask && request->mask_kind != GMV_MASK_NONE)
        return gmv_fail(err, GMV_ERR_VALUE, "/mask_kind", "there is no mask to be read so");
    if (!request->mask)
        return GMV_OK;
    GMV_TRY(create_check_members(request->mask, request->event != NULL, CREATE_MASK_POINTER, err));
    gmv_status status =
        gmv_cai_classify_mask(request->cai, request->mask, request->mask_kind, out_kind, err);
    /* mask_kind is a member of the request, the others of the payload. */
    if (status != GMV_OK && err && strcmp(err->pointer, "/mask_kind") != 0)
        gmv_error_prefix_pointer(err, CREATE_POINTER);
    return status;
}

static gmv_status create_same_device(const create_part *view, const create_part *mask,
                                     gmv_error *err)
{
    if (!view->buffer || !mask->buffer || view->buffer->device == mask->buffer->device)
        return GMV_OK;
    return gmv_fail(err, GMV_ERR_VALUE, CREATE_MASK_POINTER "/data/0",
                    "the mask is on device %d, the array on device %d", mask->buffer->device,
                    view->buffer->device);
}

static gmv_status create_prepare(gmv_draft *draft, const create_part *part, gmv_view *mask,
                                 gmv_mask_kind mask_kind, char *payload,
                                 const gmv_creation *creation, bool inner, gmv_view **out_view,
                                 gmv_error *err)
{
    gmv_view_spec spec = {
        .buffer = part->buffer,
        .parent = part->buffer ? &part->buffer->node : NULL,
        .mask = mask,
        .mask_kind = mask_kind,
        .ptr = part->ptr,
        .dtype = part->cai->dtype,
        .layout = &part->layout,
        .readonly = part->cai->readonly || (part->buffer && part->buffer->readonly),
        .payload = payload,
    };
    GMV_TRY(gmv_view_prepare(draft->operation, &spec, creation, inner, out_view, err));
    gmv__draft_add(draft, &(*out_view)->node);
    return GMV_OK;
}

/* The view comes last: nothing can fail after it, so the payload never has to be given back. */
static gmv_status create_draft(gmv_draft *draft, const create_part *part,
                               const create_part *mask_part, gmv_mask_kind mask_kind, char *payload,
                               const gmv_creation *creation, gmv_view **out_view, gmv_error *err)
{
    gmv_view *mask = NULL;
    if (mask_kind != GMV_MASK_NONE)
        GMV_TRY(
            create_prepare(draft, mask_part, NULL, GMV_MASK_NONE, NULL, NULL, true, &mask, err));
    return create_prepare(draft, part, mask, mask_kind, payload, creation, false, out_view, err);
}

/* Where an event is waited for. */
static gmv_device *create_device(const gmv_engine *engine, const create_part *view,
                                 const create_part *mask)
{
    const gmv_buffer *buffer = view->buffer ? view->buffer : mask->buffer;
    return buffer ? buffer->memory->device : engine->devices[0];
}

gmv_status gmv_view_create(gmv_operation *operation, gmv_view_request *request,
                           const gmv_creation *creation, gmv_view **out_view, gmv_error *err)
{
    create_part part = {.cai = request->cai};
    create_part mask = {.cai = request->mask};
    gmv_mask_kind kind;
    gmv_draft draft;
    gmv_view *view = NULL;
    if (request->cai->is_bit_field)
        return gmv_fail(err, GMV_ERR_DTYPE_UNSUPPORTED, CREATE_POINTER "/typestr",
                        "bit fields are taken as masks only");
    GMV_TRY(create_check_members(request->cai, request->event != NULL, CREATE_POINTER, err));
    GMV_TRY(create_classify(request, &kind, err));
    GMV_TRY(gmv_operation_reserve(operation, GMV_DRAFT_NODES_MAX + 2, err));
    GMV_TRY(create_prefixed(create_locate(operation, &part, request->buffer, true, err),
                            CREATE_POINTER, err));
    if (request->mask) {
        GMV_TRY(create_prefixed(create_locate(operation, &mask, request->buffer, false, err),
                                CREATE_MASK_POINTER, err));
        GMV_TRY(create_same_device(&part, &mask, err));
    }
    if (request->event && operation->lane != GMV_LANE_BULK)
        return GMV_MOVE_TO_BULK;
    GMV_TRY(gmv__draft_begin(&draft, operation,
                             request->event ? create_device(operation->engine, &part, &mask) : NULL,
                             err));
    gmv_status status = GMV_OK;
    /* The end of the draft waits for the stream, and so for the event, before it publishes. */
    if (request->event)
        status = gmv_stream_wait_event(draft.stream, request->event, err);
    if (status == GMV_OK)
        status = create_draft(&draft, &part, &mask, kind, request->payload, creation, &view, err);
    GMV_TRY(gmv__draft_end(&draft, status, err));
    request->payload = NULL;
    *out_view = view;
    return GMV_OK;
}
