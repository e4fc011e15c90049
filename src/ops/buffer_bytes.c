/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes to serve: regions that stay until they are given back, on whatever thread. Memory that this
 * process cannot read, or that another may cut short, is copied out on a stream.
 */
#include <gmv/base/alloc.h>
#include <gmv/ops/buffer.h>

#include "ops/draft_priv.h"

gmv_status gmv__memory_check(const gmv_memory *memory, gmv_error *err)
{
    const char *reason;
    if (gmv_device_is_lost(memory->device, &reason))
        return gmv_fail(err, GMV_ERR_DEVICE_LOST, NULL, "device %d is lost (%s)",
                        (int)gmv_device_describe(memory->device)->ordinal, reason);
    if (gmv_memory_is_lost(memory))
        return gmv_fail(err, GMV_ERR_MEMORY_LOST, NULL,
                        "the exporter has cut the memory short; what was made from it is lost");
    return GMV_OK;
}

/*
 * Whether another process may cut the memory short. Such bytes are copied out under guard: a socket
 * that is handed a missing page sends less, which looks like a client that has stopped to read.
 */
static bool bytes_can_shrink(const gmv_buffer *buffer)
{
    return buffer->memory->kind == GMV_MEMORY_IMPORTED ||
           atomic_load_explicit(&buffer->shared, memory_order_relaxed);
}

gmv_status gmv__bytes_of_region(gmv_operation *operation, gmv_buffer *buffer, gmv_node *holder,
                                uint64_t ptr, uint64_t nbytes, gmv_bytes *out_bytes, gmv_error *err)
{
    gmv_engine *engine = operation->engine;
    *out_bytes = (gmv_bytes){.engine = engine, .sealed = buffer && gmv_buffer_is_sealed(buffer)};
    if (nbytes == 0)
        return GMV_OK;
    GMV_TRY(gmv__memory_check(buffer->memory, err));
    const char *host = bytes_can_shrink(buffer) ? NULL : gmv_memory_host_pointer(buffer->memory);
    gmv_registry_hold(engine->registry, holder);
    out_bytes->host = host ? host + (ptr - buffer->ptr) : NULL;
    out_bytes->nbytes = nbytes;
    out_bytes->memory = buffer->memory;
    out_bytes->address = ptr;
    out_bytes->node = holder;
    return GMV_OK;
}

gmv_status gmv_bytes_read(const gmv_bytes *bytes, gmv_stream *stream, uint64_t offset, void *out,
                          uint64_t nbytes, gmv_error *err)
{
    if (offset > bytes->nbytes || nbytes > bytes->nbytes - offset)
        return gmv_fail(err, GMV_ERR_OUT_OF_BOUNDS, NULL,
                        "%llu bytes from %llu on are asked for, there are %llu",
                        (unsigned long long)nbytes, (unsigned long long)offset,
                        (unsigned long long)bytes->nbytes);
    if (nbytes == 0)
        return GMV_OK;
    gmv_status status = gmv_stream_use(stream, bytes->memory, err);
    if (status == GMV_OK)
        status = gmv_copy_out(stream, out, bytes->address + offset, nbytes, err);
    if (status == GMV_OK)
        return gmv_stream_finish(stream, err);
    gmv_stream_abandon(stream);
    return status;
}

gmv_status gmv_bytes_fetch(gmv_bytes *bytes, gmv_stream *stream, gmv_error *err)
{
    if (!gmv_bytes_are_remote(bytes))
        return GMV_OK;
    void *copy = gmv_malloc((size_t)bytes->nbytes);
    if (!copy)
        return gmv_fail_no_memory(err);
    gmv_status status = gmv_bytes_read(bytes, stream, 0, copy, bytes->nbytes, err);
    if (status != GMV_OK) {
        gmv_free(copy);
        return status;
    }
    gmv_bytes fetched = {.host = copy,
                         .nbytes = bytes->nbytes,
                         .sealed = bytes->sealed,
                         .engine = bytes->engine,
                         .copy = copy};
    gmv_bytes_release(bytes);
    *bytes = fetched;
    return GMV_OK;
}

void gmv_bytes_release(gmv_bytes *bytes)
{
    if (!bytes->engine)
        return;
    gmv_free(bytes->copy);
    gmv_engine_discard_scratch(bytes->engine, bytes->scratch, false);
    gmv_registry_release(bytes->engine->registry, bytes->node, false);
    *bytes = (gmv_bytes){0};
}
