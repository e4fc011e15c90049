/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Uploads: pieces of memory that are filled as bytes arrive. What becomes of them has exactly the
 * size of the content: one piece of a known size is taken as it is if it was filled, all others are
 * copied together, and each is freed as soon as it has been.
 */
#include <gmv/base/alloc.h>
#include <gmv/base/num.h>
#include <gmv/ops/buffer.h>

#include "ops/draft_priv.h"

#define UPLOAD_EXPORTABLE_NBYTES ((uint64_t)64 << 10) /* from here on, an allocation of its own */
#define UPLOAD_PIECE_NBYTES_MIN  ((uint64_t)64 << 10) /* of unknown length: doubling from here */
#define UPLOAD_PIECE_NBYTES_MAX  ((uint64_t)32 << 20)

struct gmv_upload {
    gmv_engine *engine;
    gmv_device *device;
    gmv_memory **pieces; /* all but the last are full */
    size_t n_pieces, pieces_capacity;
    uint64_t room;     /* in all pieces */
    uint64_t used;     /* of that */
    gmv_memory *whole; /* the content once it is complete; then there are no pieces */
};

static gmv_memory_kind upload_kind(uint64_t nbytes)
{
    return nbytes >= UPLOAD_EXPORTABLE_NBYTES ? GMV_MEMORY_EXPORTABLE : GMV_MEMORY_ORDINARY;
}

static gmv_status upload_check_limit(const gmv_engine *engine, uint64_t nbytes, gmv_error *err)
{
    if (nbytes > engine->limits.max_logical_nbytes)
        return gmv_fail(
            err, GMV_ERR_QUOTA_EXCEEDED, NULL,
            "the upload would hold %llu bytes, max_logical_nbytes is %llu; send it in parts",
            (unsigned long long)nbytes, (unsigned long long)engine->limits.max_logical_nbytes);
    return GMV_OK;
}

static gmv_status upload_add_piece(gmv_upload *upload, gmv_stream *stream, gmv_memory_kind kind,
                                   uint64_t nbytes, gmv_error *err)
{
    if (upload->n_pieces == upload->pieces_capacity) {
        size_t capacity = GMV_MAX(2 * upload->pieces_capacity, (size_t)4);
        gmv_memory **pieces = gmv_realloc(upload->pieces, capacity * sizeof(gmv_memory *));
        if (!pieces)
            return gmv_fail_no_memory(err);
        upload->pieces = pieces;
        upload->pieces_capacity = capacity;
    }
    GMV_TRY(gmv_engine_allocate(upload->engine, upload->device, stream, kind,
                                GMV_CONTENTS_UNSPECIFIED, nbytes, &upload->pieces[upload->n_pieces],
                                err));
    upload->n_pieces++;
    upload->room += nbytes;
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
        gmv_status status = upload_add_piece(upload, gmv_operation_stream(operation, on),
                                             upload_kind(nbytes), nbytes, err);
        if (status != GMV_OK) {
            gmv_upload_abort(upload);
            return status;
        }
    }
    *out_upload = upload;
    return GMV_OK;
}

/* Copies to or within memory that is listed for the stream, and waits. `from` NULL: from host. */
static gmv_status upload_copy(gmv_stream *stream, gmv_memory *to, uint64_t offset, gmv_memory *from,
                              const void *bytes, uint64_t nbytes, gmv_error *err)
{
    gmv_status status = gmv_stream_use(stream, to, err);
    if (status == GMV_OK && from)
        status = gmv_stream_use(stream, from, err);
    if (status == GMV_OK && from)
        status = gmv_copy_within(stream, to->address + offset, from->address, nbytes, err);
    else if (status == GMV_OK)
        status = gmv_copy_in(stream, to->address + offset, bytes, nbytes, err);
    if (status == GMV_OK)
        return gmv_stream_finish(stream, err);
    gmv_stream_abandon(stream);
    return status;
}

/* Room for at least a byte; a piece is as large as all before it, within limits. */
static gmv_status upload_make_room(gmv_upload *upload, gmv_stream *stream, gmv_error *err)
{
    if (upload->used < upload->room)
        return GMV_OK;
    uint64_t nbytes =
        GMV_MIN(GMV_MAX(upload->room, UPLOAD_PIECE_NBYTES_MIN), UPLOAD_PIECE_NBYTES_MAX);
    return upload_add_piece(upload, stream, GMV_MEMORY_ORDINARY, nbytes, err);
}

gmv_status gmv_upload_append(gmv_operation *operation, gmv_upload *upload, const void *bytes,
                             uint64_t nbytes, gmv_error *err)
{
    gmv_stream *stream = gmv_operation_stream(operation, upload->device);
    uint64_t total;
    if (!gmv_add_checked(upload->used, nbytes, &total))
        return gmv_fail(err, GMV_ERR_QUOTA_EXCEEDED, NULL, "the upload has no end");
    GMV_TRY(upload_check_limit(upload->engine, total, err));
    const unsigned char *from = bytes;
    while (upload->used < total) {
        GMV_TRY(upload_make_room(upload, stream, err));
        gmv_memory *last = upload->pieces[upload->n_pieces - 1];
        uint64_t offset = last->nbytes - (upload->room - upload->used);
        uint64_t taken = GMV_MIN(total - upload->used, last->nbytes - offset);
        GMV_TRY(upload_copy(stream, last, offset, NULL, from, taken, err));
        upload->used += taken;
        from += taken;
    }
    return GMV_OK;
}

/* Frees the pieces as they are copied; on failure some are left. */
static gmv_status upload_gather(gmv_upload *upload, gmv_stream *stream, gmv_error *err)
{
    uint64_t offset = 0;
    for (size_t i = 0; i < upload->n_pieces; i++) {
        gmv_memory *piece = upload->pieces[i];
        uint64_t nbytes = GMV_MIN(piece->nbytes, upload->used - offset);
        GMV_TRY(upload_copy(stream, upload->whole, offset, piece, NULL, nbytes, err));
        offset += nbytes;
        gmv_engine_free(upload->engine, piece);
        upload->pieces[i] = NULL;
    }
    upload->n_pieces = 0;
    return GMV_OK;
}

/* Makes the whole of the size and the kind that the content asks for. */
static gmv_status upload_complete(gmv_upload *upload, gmv_stream *stream, gmv_error *err)
{
    gmv_memory_kind kind = upload_kind(upload->used);
    gmv_memory *only = upload->n_pieces == 1 ? upload->pieces[0] : NULL;
    if (only && only->nbytes == upload->used && only->kind == kind) {
        upload->whole = only;
        upload->n_pieces = 0;
        return GMV_OK;
    }
    GMV_TRY(gmv_engine_allocate(upload->engine, upload->device, stream, kind,
                                GMV_CONTENTS_UNSPECIFIED, upload->used, &upload->whole, err));
    return upload_gather(upload, stream, err);
}

gmv_status gmv_upload_finish(gmv_operation *operation, gmv_upload *upload, bool readonly,
                             const gmv_creation *creation, gmv_buffer **out_buffer, gmv_error *err)
{
    gmv_stream *stream = gmv_operation_stream(operation, upload->device);
    gmv_buffer *buffer = NULL;
    GMV_TRY(gmv_operation_reserve(operation, 1, err));
    GMV_TRY(upload_complete(upload, stream, err));
    /* Prepared last: a prepared buffer that is undone would take the memory with it. */
    GMV_TRY(gmv_buffer_prepare(operation, upload->whole, GMV_ORIGIN_UPLOADED, readonly, NULL,
                               creation, false, &buffer, err));
    gmv_node *node = &buffer->node;
    gmv_operation_publish(operation, &node, 1);
    upload->whole = NULL;
    gmv_upload_abort(upload);
    *out_buffer = buffer;
    return GMV_OK;
}

void gmv_upload_abort(gmv_upload *upload)
{
    if (!upload)
        return;
    for (size_t i = 0; i < upload->n_pieces; i++)
        gmv_engine_free(upload->engine, upload->pieces[i]);
    gmv_engine_free(upload->engine, upload->whole);
    gmv_free(upload->pieces);
    gmv_free(upload);
}
