/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes to serve: regions that stay until they are given back, on whatever thread. Memory that this
 * process cannot read, or that another may cut short, is copied out on a stream.
 */
#include <string.h>

#include <gmv/base/alloc.h>
#include <gmv/base/num.h>
#include <gmv/ops/buffer.h>

#include "ops/draft_priv.h"

#define BYTES_PIECE_NBYTES (1u << 20) /* gathered at once */

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

static gmv_status bytes_copy_out(const gmv_bytes *bytes, gmv_stream *stream, uint64_t offset,
                                 void *out, uint64_t nbytes, gmv_error *err)
{
    gmv_status status = gmv_stream_use(stream, bytes->memory, err);
    if (status == GMV_OK)
        status = gmv_copy_out(stream, out, bytes->address + offset, nbytes, err);
    if (status == GMV_OK)
        return gmv_stream_finish(stream, err);
    gmv_stream_abandon(stream);
    return status;
}

static gmv_status bytes_gather_out(const gmv_bytes *bytes, gmv_stream *stream, uint64_t offset,
                                   void *out, uint64_t nbytes, gmv_error *err)
{
    char *at = out;
    while (nbytes > 0) {
        uint64_t taken = GMV_MIN(nbytes, (uint64_t)BYTES_PIECE_NBYTES);
        GMV_TRY(gmv__view_read_piece(bytes->strided, stream, offset, at, taken, err));
        offset += taken;
        at += taken;
        nbytes -= taken;
    }
    return GMV_OK;
}

/* Bytes behind the prefix that are there. */
static uint64_t bytes_held(const gmv_bytes *bytes)
{
    return bytes->nbytes - bytes->prefix_nbytes - bytes->absent_before - bytes->absent_behind;
}

gmv_status gmv_bytes_read(const gmv_bytes *bytes, gmv_stream *stream, uint64_t offset, void *out,
                          uint64_t nbytes, gmv_error *err)
{
    if (offset > bytes->nbytes || nbytes > bytes->nbytes - offset)
        return gmv_fail(err, GMV_ERR_OUT_OF_BOUNDS, NULL,
                        "%llu bytes from %llu on are asked for, there are %llu",
                        (unsigned long long)nbytes, (unsigned long long)offset,
                        (unsigned long long)bytes->nbytes);
    uint64_t before = 0;
    if (offset < bytes->prefix_nbytes) {
        before = GMV_MIN(bytes->prefix_nbytes - offset, nbytes);
        memcpy(out, (const char *)bytes->prefix + offset, (size_t)before);
    }
    if (nbytes == before)
        return GMV_OK;
    out = (char *)out + before;
    offset += before - bytes->prefix_nbytes;
    nbytes -= before;
    uint64_t held = bytes_held(bytes);
    if (offset < bytes->absent_before || offset - bytes->absent_before > held ||
        nbytes > held - (offset - bytes->absent_before))
        return gmv_fail(err, GMV_ERR_OUT_OF_BOUNDS, NULL,
                        "only a part of the bytes was copied, and this is outside of it");
    offset -= bytes->absent_before;
    if (bytes->copy) {
        memcpy(out, (const char *)bytes->copy + offset, (size_t)nbytes);
        return GMV_OK;
    }
    if (bytes->source)
        return bytes->source->read(bytes->source, stream, offset, out, nbytes, err);
    return bytes->strided ? bytes_gather_out(bytes, stream, offset, out, nbytes, err)
                          : bytes_copy_out(bytes, stream, offset, out, nbytes, err);
}

gmv_status gmv_bytes_fetch(gmv_bytes *bytes, gmv_stream *stream, gmv_error *err)
{
    if (!gmv_bytes_are_remote(bytes))
        return GMV_OK;
    uint64_t start = bytes->prefix_nbytes + bytes->absent_before;
    char *copy = gmv_calloc(1, (size_t)bytes->nbytes);
    if (!copy)
        return gmv_fail_no_memory(err);
    if (bytes->prefix_nbytes > 0)
        memcpy(copy, bytes->prefix, (size_t)bytes->prefix_nbytes);
    gmv_status status = gmv_bytes_read(bytes, stream, start, copy + start, bytes_held(bytes), err);
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

void gmv_bytes_prepend(gmv_bytes *bytes, void *prefix, uint64_t nbytes)
{
    bytes->prefix = prefix;
    bytes->prefix_nbytes = nbytes;
    bytes->nbytes += nbytes;
}

/* A part of what lies behind the prefix; of gathered elements whole ones. */
typedef struct bytes_part {
    uint64_t first, nbytes;
    uint64_t itemsize; /* of what is gathered, otherwise 1 */
} bytes_part;

static bytes_part bytes_part_of(const gmv_bytes *bytes, uint64_t offset, uint64_t nbytes)
{
    bytes_part part = {.itemsize = 1};
    uint64_t begin = GMV_MAX(offset, bytes->prefix_nbytes) - bytes->prefix_nbytes;
    uint64_t end = GMV_MAX(offset + nbytes, bytes->prefix_nbytes) - bytes->prefix_nbytes;
    if (bytes->strided)
        part.itemsize = gmv_dtype_describe(bytes->strided->dtype)->itemsize;
    part.first = begin - begin % part.itemsize;
    part.nbytes = begin < end ? gmv_round_up(end - part.first, part.itemsize) : 0;
    return part;
}

static gmv_status bytes_enqueue_copy(const gmv_bytes *bytes, const bytes_part *part,
                                     gmv_stream *stream, gmv_memory *memory, gmv_layout *layout,
                                     gmv_error *err)
{
    GMV_TRY(gmv_stream_use(stream, bytes->memory, err));
    GMV_TRY(gmv_stream_use(stream, memory, err));
    if (!bytes->strided)
        return gmv_copy_within(stream, memory->address, bytes->address + part->first, part->nbytes,
                               err);
    return gmv__view_gather(bytes->strided, stream, (int64_t)(part->first / part->itemsize),
                            (int64_t)(part->nbytes / part->itemsize), memory->address, layout, err);
}

static gmv_status bytes_copy_within(gmv_operation *operation, gmv_bytes *bytes,
                                    const bytes_part *part, gmv_error *err)
{
    gmv_device *device = bytes->memory->device;
    gmv_stream *stream = gmv_operation_stream(operation, device);
    gmv_scratch *scratch = NULL;
    gmv_layout layout;
    GMV_TRY(gmv_operation_weigh(operation, part->nbytes, err));
    GMV_TRY(gmv_engine_scratch(bytes->engine, device, stream, part->nbytes, &scratch, err));
    gmv_status status = bytes_enqueue_copy(bytes, part, stream, scratch->memory, &layout, err);
    if (status == GMV_OK)
        status = gmv_stream_finish(stream, err);
    else
        gmv_stream_abandon(stream);
    if (status != GMV_OK) {
        gmv_engine_discard_scratch(bytes->engine, scratch, true);
        return status;
    }
    bytes->scratch = scratch;
    bytes->memory = scratch->memory;
    bytes->address = scratch->memory->address;
    bytes->strided = NULL;
    bytes->absent_behind = bytes->nbytes - bytes->prefix_nbytes - part->first - part->nbytes;
    bytes->absent_before = part->first;
    /* Who reads from `host` does not look at what is absent. */
    bool is_whole = bytes->absent_before == 0 && bytes->absent_behind == 0;
    bytes->host = is_whole ? gmv_memory_host_pointer(scratch->memory) : NULL;
    return GMV_OK;
}

gmv_status gmv_bytes_freeze(gmv_operation *operation, gmv_bytes *bytes, gmv_error *err)
{
    return gmv_bytes_freeze_part(operation, bytes, 0, bytes->nbytes, err);
}

gmv_status gmv_bytes_freeze_part(gmv_operation *operation, gmv_bytes *bytes, uint64_t offset,
                                 uint64_t nbytes, gmv_error *err)
{
    bytes_part part = bytes_part_of(bytes, offset, nbytes);
    if (bytes->sealed || part.nbytes == 0)
        return GMV_OK;
    gmv_status status = bytes_copy_within(operation, bytes, &part, err);
    if (status != GMV_OK)
        gmv_bytes_release(bytes);
    return status;
}

void gmv_bytes_release(gmv_bytes *bytes)
{
    if (!bytes->engine)
        return;
    if (bytes->source)
        bytes->source->release(bytes->source);
    gmv_free(bytes->copy);
    gmv_free(bytes->prefix);
    gmv_engine_discard_scratch(bytes->engine, bytes->scratch, false);
    gmv_registry_release(bytes->engine->registry, bytes->node, false);
    *bytes = (gmv_bytes){0};
}
