/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Buffers: the node over a block of memory, and what makes one or writes into one. A buffer owns
 * its memory; all else in gmvd refers to memory through the buffer.
 */
#include <string.h>

#include <gmv/base/alloc.h>
#include <gmv/base/num.h>
#include <gmv/ops/buffer.h>

#include "ops/draft_priv.h"

/* ---- the node ---- */

static void buffer_count(gmv_buffer *buffer, bool appears)
{
    atomic_uint_fast64_t *sum =
        &buffer->engine->registered_nbytes[buffer->device_index][buffer->origin];
    if (appears)
        atomic_fetch_add_explicit(sum, buffer->nbytes, memory_order_relaxed);
    else
        atomic_fetch_sub_explicit(sum, buffer->nbytes, memory_order_relaxed);
}

static void buffer_destroy(gmv_node *node)
{
    gmv_buffer *buffer = gmv_buffer_of(node);
    buffer_count(buffer, false);
    gmv_engine_free(buffer->engine, buffer->memory);
    gmv_free(buffer);
}

static uint64_t buffer_nbytes(const gmv_node *node)
{
    return ((const gmv_buffer *)node)->nbytes;
}

static int32_t buffer_device(const gmv_node *node)
{
    return ((const gmv_buffer *)node)->device;
}

static uint64_t buffer_freed_nbytes(gmv_node *node)
{
    gmv_buffer *buffer = gmv_buffer_of(node);
    return gmv_memory_retire(buffer->memory) ? buffer->nbytes : 0;
}

static const gmv_node_class buffer_class = {
    .kind = GMV_KIND_BUFFER,
    .destroy = buffer_destroy,
    .nbytes = buffer_nbytes,
    .device = buffer_device,
    .freed_nbytes = buffer_freed_nbytes,
};

bool gmv_buffer_is_sealed(const gmv_buffer *buffer)
{
    return buffer->readonly && buffer->memory->kind != GMV_MEMORY_IMPORTED &&
           !atomic_load_explicit(&buffer->shared, memory_order_relaxed);
}

/* An empty buffer is found only at the address that its exporter gave: an empty array points there.
 */
static uint8_t buffer_fill_ranges(gmv_buffer *buffer)
{
    if (buffer->nbytes == 0 && !buffer->has_exporter_base)
        return 0;
    buffer->ranges[0] = (gmv_range_entry){
        .begin = buffer->ptr, .end = buffer->ptr + buffer->nbytes, .owner = &buffer->node};
    if (!buffer->has_exporter_base)
        return 1;
    buffer->ranges[1] = (gmv_range_entry){.begin = buffer->exporter_base,
                                          .end = buffer->exporter_base + buffer->nbytes,
                                          .owner = &buffer->node};
    return 2;
}

gmv_status gmv_buffer_prepare(gmv_operation *operation, gmv_memory *memory, gmv_origin origin,
                              bool readonly, const uint64_t *exporter_base,
                              const gmv_creation *creation, bool inner, gmv_buffer **out_buffer,
                              gmv_error *err)
{
    gmv_buffer *buffer = gmv_calloc(1, sizeof *buffer);
    if (!buffer)
        return gmv_fail_no_memory(err);
    buffer->engine = operation->engine;
    buffer->memory = memory;
    buffer->device = gmv_device_describe(memory->device)->ordinal;
    buffer->device_index = gmv_engine_device_index(operation->engine, memory->device);
    buffer->ptr = memory->address;
    buffer->nbytes = memory->nbytes;
    buffer->readonly = readonly || memory->readonly;
    buffer->origin = origin;
    buffer->has_exporter_base = exporter_base != NULL;
    buffer->exporter_base = exporter_base ? *exporter_base : 0;

    gmv_node_attributes attributes = gmv_operation_attributes(operation, creation, inner);
    gmv_status status = gmv_node_prepare(operation->engine->registry, &buffer->node, &buffer_class,
                                         &attributes, NULL, 0, err);
    if (status != GMV_OK) {
        gmv_free(buffer);
        return status;
    }
    uint8_t n_ranges = buffer_fill_ranges(buffer);
    if (n_ranges > 0)
        gmv_node_set_ranges(&buffer->node, buffer->ranges, n_ranges);
    memory->owner = buffer->node.id;
    buffer_count(buffer, true);
    *out_buffer = buffer;
    return GMV_OK;
}

void gmv_buffer_discard(gmv_buffer *buffer)
{
    if (!buffer)
        return;
    gmv_node_discard(buffer->engine->registry, &buffer->node);
    buffer_destroy(&buffer->node);
}

/* ---- making ---- */

/* Makes a named buffer of memory that the caller has allocated and filled on the draft's stream. */
static gmv_status buffer_draft_named(gmv_draft *draft, gmv_memory *memory, gmv_origin origin,
                                     bool readonly, const uint64_t *exporter_base,
                                     const gmv_creation *creation, gmv_buffer **out_buffer,
                                     gmv_error *err)
{
    gmv_buffer *buffer = NULL;
    gmv_status status = gmv_buffer_prepare(draft->operation, memory, origin, readonly,
                                           exporter_base, creation, false, &buffer, err);
    if (status != GMV_OK) {
        gmv_stream_abandon(draft->stream);
        gmv_engine_free(draft->operation->engine, memory);
        return status;
    }
    gmv__draft_add(draft, &buffer->node);
    *out_buffer = buffer;
    return GMV_OK;
}

gmv_status gmv_buffer_allocate(gmv_operation *operation, int64_t device, int64_t nbytes,
                               bool readonly, const gmv_creation *creation, gmv_buffer **out_buffer,
                               gmv_error *err)
{
    gmv_device *on = NULL;
    if (nbytes < 0)
        return gmv_fail(err, GMV_ERR_VALUE, "/nbytes", "nbytes must be 0 or more, not %lld",
                        (long long)nbytes);
    GMV_TRY(gmv_engine_device(operation->engine, device, &on, err));
    GMV_TRY(gmv_operation_weigh(operation, (uint64_t)nbytes, err));

    gmv_draft draft;
    gmv_memory *memory = NULL;
    gmv_buffer *buffer = NULL;
    GMV_TRY(gmv__draft_begin(&draft, operation, on, err));
    gmv_status status =
        gmv_engine_allocate(operation->engine, on, draft.stream, GMV_MEMORY_EXPORTABLE,
                            GMV_CONTENTS_ZEROED, (uint64_t)nbytes, &memory, err);
    if (status == GMV_OK)
        status = buffer_draft_named(&draft, memory, GMV_ORIGIN_ALLOCATED, readonly, NULL, creation,
                                    &buffer, err);
    GMV_TRY(gmv__draft_end(&draft, status, err));
    *out_buffer = buffer;
    return GMV_OK;
}

/* ---- importing and exporting ---- */

#define IMPORT_SHM "/posix_shm"
#define IMPORT_IPC "/cuda_ipc"

/* What both kinds of import may say of the memory, and under which member. */
typedef struct import_extent {
    const char *prefix;
    bool has_base;
    uint64_t base;
    int64_t nbytes; /* -1: all of it */
    bool readonly;
} import_extent;

static gmv_status import_prefixed(gmv_status status, const char *prefix, gmv_error *err)
{
    if (status != GMV_OK)
        gmv_error_prefix_pointer(err, prefix);
    return status;
}

static gmv_status import_check(bool has_base, int64_t base, bool has_nbytes, int64_t nbytes,
                               gmv_error *err)
{
    if (has_base && base <= 0)
        return gmv_fail(err, GMV_ERR_VALUE, "/base",
                        "base is %lld, it must be the address of the memory in the exporter",
                        (long long)base);
    if (has_nbytes && nbytes < 0)
        return gmv_fail(err, GMV_ERR_VALUE, "/nbytes", "nbytes must be 0 or more, not %lld",
                        (long long)nbytes);
    return GMV_OK;
}

static gmv_status import_check_end(const import_extent *extent, const gmv_memory *memory,
                                   gmv_error *err)
{
    int64_t end;
    if (extent->has_base && !gmv_add_checked((int64_t)extent->base, memory->nbytes, &end))
        return gmv_fail(err, GMV_ERR_VALUE, "/base", "base %llu and %llu bytes reach past 2^63",
                        (unsigned long long)extent->base, (unsigned long long)memory->nbytes);
    return GMV_OK;
}

/* Makes a buffer of memory that has been imported, or frees it. */
static gmv_status import_publish(gmv_operation *operation, gmv_memory *memory, gmv_origin origin,
                                 const import_extent *extent, const gmv_creation *creation,
                                 gmv_buffer **out_buffer, gmv_error *err)
{
    gmv_draft draft;
    gmv_buffer *buffer = NULL;
    gmv_status status = import_prefixed(import_check_end(extent, memory, err), extent->prefix, err);
    if (status == GMV_OK)
        status = gmv__draft_begin(&draft, operation, memory->device, err);
    if (status != GMV_OK) {
        gmv_engine_free(operation->engine, memory);
        return status;
    }
    status = buffer_draft_named(&draft, memory, origin, extent->readonly,
                                extent->has_base ? &extent->base : NULL, creation, &buffer, err);
    GMV_TRY(gmv__draft_end(&draft, status, err));
    *out_buffer = buffer;
    return GMV_OK;
}

gmv_status gmv_buffer_import_shm(gmv_operation *operation, const gmv_import_shm *request,
                                 const gmv_creation *creation, gmv_buffer **out_buffer,
                                 gmv_error *err)
{
    const import_extent extent = {IMPORT_SHM, request->has_base, (uint64_t)request->base,
                                  request->has_nbytes ? request->nbytes : -1, request->readonly};
    gmv_memory *memory = NULL;
    GMV_TRY(import_prefixed(
        import_check(request->has_base, request->base, request->has_nbytes, request->nbytes, err),
        IMPORT_SHM, err));
    GMV_TRY(gmv_memory_import_shm(operation->engine->devices[0], request->name, extent.nbytes,
                                  !extent.readonly, &memory, err));
    return import_publish(operation, memory, GMV_ORIGIN_POSIX_SHM, &extent, creation, out_buffer,
                          err);
}

static gmv_status import_find_device(const gmv_engine *engine, const char *uuid,
                                     gmv_device **out_device, gmv_error *err)
{
    for (size_t i = 0; i < engine->n_devices; i++) {
        if (strcmp(gmv_device_describe(engine->devices[i])->uuid, uuid) != 0)
            continue;
        *out_device = engine->devices[i];
        return GMV_OK;
    }
    return gmv_fail(err, GMV_ERR_HANDLE_INVALID, IMPORT_IPC "/device_uuid",
                    "the memory is on a device that is not served here; /v1/devices lists those "
                    "that are");
}

/* On the device that was named, or the first that can: only a handle it cannot open is no end. */
static gmv_status import_open_ipc(gmv_engine *engine, const gmv_import_ipc *request,
                                  const import_extent *extent, gmv_memory **out_memory,
                                  gmv_error *err)
{
    gmv_device *named = NULL;
    if (request->device_uuid)
        GMV_TRY(import_find_device(engine, request->device_uuid, &named, err));
    if (named)
        return gmv_memory_import_ipc(named, request->handle, extent->nbytes, !extent->readonly,
                                     out_memory, err);
    gmv_status status = GMV_ERR_HANDLE_INVALID;
    for (size_t i = 0; i < engine->n_devices && status == GMV_ERR_HANDLE_INVALID; i++) {
        if (err)
            gmv_error_init(err);
        status = gmv_memory_import_ipc(engine->devices[i], request->handle, extent->nbytes,
                                       !extent->readonly, out_memory, err);
    }
    return status;
}

gmv_status gmv_buffer_import_ipc(gmv_operation *operation, const gmv_import_ipc *request,
                                 const gmv_creation *creation, gmv_buffer **out_buffer,
                                 gmv_error *err)
{
    gmv_engine *engine = operation->engine;
    gmv_memory *memory = NULL;
    if (!gmv_engine_has_cuda(engine))
        return gmv_fail(err, GMV_ERR_BACKEND_UNSUPPORTED, IMPORT_IPC,
                        "the host backend opens no CUDA memory; import through posix_shm");
    const import_extent extent = {IMPORT_IPC, request->has_base, (uint64_t)request->base,
                                  request->has_nbytes ? request->nbytes : -1, request->readonly};
    GMV_TRY(import_prefixed(
        import_check(request->has_base, request->base, request->has_nbytes, request->nbytes, err),
        IMPORT_IPC, err));
    GMV_TRY(import_open_ipc(engine, request, &extent, &memory, err));
    return import_publish(operation, memory, GMV_ORIGIN_CUDA_IPC, &extent, creation, out_buffer,
                          err);
}

static gmv_status export_check(const gmv_buffer *buffer, gmv_error *err)
{
    if (buffer->nbytes == 0)
        return gmv_fail(err, GMV_ERR_NOT_EXPORTABLE, NULL,
                        "a buffer of 0 bytes has no memory to export");
    if (buffer->memory->kind == GMV_MEMORY_IMPORTED)
        return gmv_fail(err, GMV_ERR_NOT_EXPORTABLE, NULL,
                        "the memory was imported: ask its exporter, or copy it first");
    return GMV_OK;
}

static gmv_status export_draft_clone(gmv_draft *draft, gmv_buffer *from,
                                     const gmv_creation *creation, gmv_buffer **out_clone,
                                     gmv_share *out_share, gmv_error *err)
{
    gmv_memory *memory = NULL;
    GMV_TRY(gmv_engine_allocate(draft->operation->engine, draft->device, draft->stream,
                                GMV_MEMORY_EXPORTABLE, GMV_CONTENTS_UNSPECIFIED, from->nbytes,
                                &memory, err));
    GMV_TRY(buffer_draft_named(draft, memory, GMV_ORIGIN_COMPUTED, from->readonly, NULL, creation,
                               out_clone, err));
    GMV_TRY(gmv_stream_use(draft->stream, from->memory, err));
    GMV_TRY(gmv_stream_use(draft->stream, memory, err));
    GMV_TRY(gmv_copy_within(draft->stream, memory->address, from->ptr, from->nbytes, err));
    GMV_TRY(gmv_stream_finish(draft->stream, err));
    GMV_TRY(gmv_memory_export(memory, out_share, err));
    atomic_store_explicit(&(*out_clone)->shared, true, memory_order_relaxed);
    return GMV_OK;
}

static gmv_status export_clone(gmv_operation *operation, gmv_buffer *buffer,
                               const gmv_creation *creation, gmv_buffer **out_buffer,
                               gmv_share *out_share, gmv_error *err)
{
    gmv_draft draft;
    gmv_buffer *clone = NULL;
    GMV_TRY(gmv_operation_weigh(operation, 2 * buffer->nbytes, err));
    GMV_TRY(gmv__draft_begin(&draft, operation, buffer->memory->device, err));
    gmv_status status = export_draft_clone(&draft, buffer, creation, &clone, out_share, err);
    GMV_TRY(gmv__draft_end(&draft, status, err));
    *out_buffer = clone;
    return GMV_OK;
}

gmv_status gmv_buffer_export(gmv_operation *operation, gmv_buffer *buffer,
                             const gmv_creation *creation, gmv_buffer **out_buffer,
                             bool *out_cloned, gmv_share *out_share, gmv_error *err)
{
    GMV_TRY(export_check(buffer, err));
    *out_cloned = buffer->memory->kind != GMV_MEMORY_EXPORTABLE;
    if (*out_cloned)
        return export_clone(operation, buffer, creation, out_buffer, out_share, err);
    GMV_TRY(gmv_memory_export(buffer->memory, out_share, err));
    atomic_store_explicit(&buffer->shared, true, memory_order_relaxed);
    *out_buffer = buffer;
    return GMV_OK;
}

/* ---- bytes in and out ---- */

gmv_status gmv_buffer_write(gmv_operation *operation, gmv_buffer *buffer, uint64_t offset,
                            const void *bytes, uint64_t nbytes, gmv_error *err)
{
    if (buffer->readonly)
        return gmv_fail(err, GMV_ERR_READONLY, NULL, "the buffer is readonly");
    if (offset > buffer->nbytes || nbytes > buffer->nbytes - offset)
        return gmv_fail_parameter(
            err, GMV_ERR_OUT_OF_BOUNDS, "offset",
            "%llu bytes at offset %llu reach past the end of the buffer, which has %llu",
            (unsigned long long)nbytes, (unsigned long long)offset,
            (unsigned long long)buffer->nbytes);
    if (nbytes == 0)
        return GMV_OK;

    gmv_draft draft;
    GMV_TRY(gmv__draft_begin(&draft, operation, buffer->memory->device, err));
    gmv_status status = gmv_stream_use(draft.stream, buffer->memory, err);
    if (status == GMV_OK)
        status = gmv_copy_in(draft.stream, buffer->ptr + offset, bytes, nbytes, err);
    return gmv__draft_end(&draft, status, err);
}

gmv_status gmv_buffer_bytes(gmv_operation *operation, gmv_buffer *buffer, gmv_bytes *out_bytes,
                            gmv_error *err)
{
    return gmv__bytes_of_region(operation, buffer, &buffer->node, buffer->ptr, buffer->nbytes,
                                out_bytes, err);
}
