/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Uploads: memory that grows by doubling while bytes arrive. What becomes of it has exactly the
 * size of the content: memory of a known size is taken as it is if it was filled, all other is
 * copied.
 */
#include <gmv/base/alloc.h>
#include <gmv/base/num.h>
#include <gmv/ops/buffer.h>

#include "ops/draft_priv.h"

#define UPLOAD_EXPORTABLE_NBYTES ((uint64_t)64 << 10) /* from here on, an allocation of its own */
#define UPLOAD_NBYTES_MIN        ((uint64_t)64 << 10) /* of memory that will grow */

struct gmv_upload {
    gmv_engine *engine;
    gmv_device *device;
    gmv_memory *memory; /* contents unspecified from `used` on; NULL until there is need */
    uint64_t used;
};

static gmv_memory_kind upload_kind(uint64_t nbytes)
{
    return nbytes >= UPLOAD_EXPORTABLE_NBYTES ? GMV_MEMORY_EXPORTABLE : GMV_MEMORY_ORDINARY;
}

static gmv_status upload_check_limit(const gmv_engine *engine, uint64_t nbytes, gmv_error *err)
{
    if (nbytes > engine->limits.max_logical_nbytes)
        return gmv_fail(err, GMV_ERR_QUOTA_EXCEEDED, NULL,
                        "the upload would hold %llu bytes, max_logical_nbytes is %llu",
                        (unsigned long long)nbytes,
                        (unsigned long long)engine->limits.max_logical_nbytes);
    return GMV_OK;
}

gmv_status gmv_upload_begin(gmv_operation *operation, int64_t device, int64_t expected_nbytes,
                            gmv_upload **out_upload, gmv_error *err)
{
    gmv_engine *engine = operation->engine;
    gmv_device *on = NULL;
    GMV_TRY(gmv_engine_device(engine, device, &on, err));
    uint64_t nbytes = expected_nbytes < 0 ? 0 : (uint64_t)expected_nbytes;
    GMV_TRY(upload_check_limit(engine, nbytes, err));

    gmv_upload *upload = gmv_calloc(1, sizeof *upload);
    if (!upload)
        return gmv_fail_no_memory(err);
    upload->engine = engine;
    upload->device = on;
    if (nbytes > 0) {
        gmv_status status = gmv_engine_allocate(engine, on, gmv_operation_stream(operation, on),
                                                upload_kind(nbytes), GMV_CONTENTS_UNSPECIFIED,
                                                nbytes, &upload->memory, err);
        if (status != GMV_OK) {
            gmv_free(upload);
            return status;
        }
    }
    *out_upload = upload;
    return GMV_OK;
}

/* Moves the content to other memory and waits; on failure `to` is freed. */
static gmv_status upload_move(gmv_upload *upload, gmv_stream *stream, gmv_memory *to,
                              gmv_error *err)
{
    gmv_status status = gmv_stream_use(stream, to, err);
    if (status == GMV_OK && upload->used > 0) {
        status = gmv_stream_use(stream, upload->memory, err);
        if (status == GMV_OK)
            status =
                gmv_copy_within(stream, to->address, upload->memory->address, upload->used, err);
    }
    if (status == GMV_OK)
        status = gmv_stream_finish(stream, err);
    else
        gmv_stream_abandon(stream);
    if (status != GMV_OK) {
        gmv_engine_free(upload->engine, to);
        return status;
    }
    gmv_engine_free(upload->engine, upload->memory);
    upload->memory = to;
    return GMV_OK;
}

static gmv_status upload_resize(gmv_upload *upload, gmv_stream *stream, gmv_memory_kind kind,
                                uint64_t nbytes, gmv_error *err)
{
    gmv_memory *memory = NULL;
    GMV_TRY(gmv_engine_allocate(upload->engine, upload->device, stream, kind,
                                GMV_CONTENTS_UNSPECIFIED, nbytes, &memory, err));
    return upload_move(upload, stream, memory, err);
}

static gmv_status upload_make_room(gmv_upload *upload, gmv_stream *stream, uint64_t more,
                                   gmv_error *err)
{
    uint64_t room = upload->memory ? upload->memory->nbytes : 0;
    uint64_t needed;
    if (!gmv_add_checked(upload->used, more, &needed))
        return gmv_fail(err, GMV_ERR_QUOTA_EXCEEDED, NULL, "the upload has no end");
    if (needed <= room)
        return GMV_OK;
    GMV_TRY(upload_check_limit(upload->engine, needed, err));
    uint64_t doubled = room <= UINT64_MAX / 2 ? 2 * room : UINT64_MAX;
    uint64_t nbytes = GMV_MAX(GMV_MAX(needed, doubled), UPLOAD_NBYTES_MIN);
    return upload_resize(upload, stream, GMV_MEMORY_ORDINARY, nbytes, err);
}

gmv_status gmv_upload_append(gmv_operation *operation, gmv_upload *upload, const void *bytes,
                             uint64_t nbytes, gmv_error *err)
{
    if (nbytes == 0)
        return GMV_OK;
    gmv_stream *stream = gmv_operation_stream(operation, upload->device);
    GMV_TRY(upload_make_room(upload, stream, nbytes, err));

    gmv_status status = gmv_stream_use(stream, upload->memory, err);
    if (status == GMV_OK)
        status = gmv_copy_in(stream, upload->memory->address + upload->used, bytes, nbytes, err);
    if (status != GMV_OK) {
        gmv_stream_abandon(stream);
        return status;
    }
    GMV_TRY(gmv_stream_finish(stream, err));
    upload->used += nbytes;
    return GMV_OK;
}

/* Gives the memory the size and the kind that the content asks for. */
static gmv_status upload_fit(gmv_upload *upload, gmv_stream *stream, gmv_error *err)
{
    gmv_memory_kind kind = upload_kind(upload->used);
    const gmv_memory *memory = upload->memory;
    if (memory && memory->nbytes == upload->used && memory->kind == kind)
        return GMV_OK;
    return upload_resize(upload, stream, kind, upload->used, err);
}

gmv_status gmv_upload_finish(gmv_operation *operation, gmv_upload *upload, bool readonly,
                             const gmv_creation *creation, gmv_buffer **out_buffer, gmv_error *err)
{
    gmv_stream *stream = gmv_operation_stream(operation, upload->device);
    gmv_buffer *buffer = NULL;
    GMV_TRY(gmv_operation_reserve(operation, 1, err));
    GMV_TRY(upload_fit(upload, stream, err));
    /* Prepared last: a prepared buffer that is undone would take the memory with it. */
    GMV_TRY(gmv_buffer_prepare(operation, upload->memory, GMV_ORIGIN_UPLOADED, readonly, NULL,
                               creation, false, &buffer, err));
    gmv_node *node = &buffer->node;
    gmv_operation_publish(operation, &node, 1);
    gmv_free(upload);
    *out_buffer = buffer;
    return GMV_OK;
}

void gmv_upload_abort(gmv_upload *upload)
{
    if (!upload)
        return;
    gmv_engine_free(upload->engine, upload->memory);
    gmv_free(upload);
}
