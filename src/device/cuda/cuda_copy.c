/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies and fills. Callers' memory is pageable, and the driver is slow with that: small transfers
 * go through the stream's own pinned block, big ones through two of the device's pinned buffers,
 * one of which is copied by the processor while the other is by the device.
 */
#include "device/cuda/cuda_priv.h"

#include <string.h>

#include <gmv/base/num.h>

/* ---- pinned buffers ---- */

gmv_status gmv__cuda_staging_open(cuda_device *device, gmv_error *err)
{
    cuda_staging *staging = &device->staging;
    void *bytes = NULL;
    CUDA_TRY(
        device,
        host_allocate(&bytes, CUDA_STAGING_BUFFERS * CUDA_STAGING_NBYTES, CU_MEMHOSTALLOC_PORTABLE),
        err);
    staging->bytes = bytes;
    for (size_t i = 0; i < CUDA_STAGING_BUFFERS; i++) {
        staging->buffers[i].bytes = staging->bytes + i * CUDA_STAGING_NBYTES;
        CUDA_TRY(device,
                 event_create(&staging->buffers[i].done,
                              CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING),
                 err);
    }
    return GMV_OK;
}

void gmv__cuda_staging_close(cuda_device *device)
{
    cuda_staging *staging = &device->staging;
    for (size_t i = 0; i < CUDA_STAGING_BUFFERS; i++)
        if (staging->buffers[i].done)
            (void)gmv__cuda.event_destroy(staging->buffers[i].done);
    if (staging->bytes)
        (void)gmv__cuda.host_free(staging->bytes);
}

/* Under the lock; NULL if none is free. */
static cuda_staging_buffer *staging_find(cuda_staging *staging)
{
    for (size_t i = 0; i < CUDA_STAGING_BUFFERS; i++)
        if (!staging->buffers[i].taken)
            return &staging->buffers[i];
    return NULL;
}

/*
 * One buffer at least, waiting for it, and a second one only if there is one: who holds one never
 * waits for another, so nobody waits for ever. Returns their number.
 */
static size_t staging_take(cuda_staging *staging, size_t wanted,
                           cuda_staging_buffer *out_buffers[2])
{
    size_t n = 0;
    cuda_staging_buffer *buffer;
    pthread_mutex_lock(&staging->lock);
    while (!(buffer = staging_find(staging)))
        pthread_cond_wait(&staging->given_back, &staging->lock);
    do {
        buffer->taken = true;
        out_buffers[n++] = buffer;
    } while (n < wanted && (buffer = staging_find(staging)));
    pthread_mutex_unlock(&staging->lock);
    return n;
}

static void staging_give(cuda_staging *staging, cuda_staging_buffer *buffers[2], size_t n)
{
    pthread_mutex_lock(&staging->lock);
    for (size_t i = 0; i < n; i++)
        buffers[i]->taken = false;
    pthread_cond_broadcast(&staging->given_back);
    pthread_mutex_unlock(&staging->lock);
}

/* ---- big transfers ---- */

typedef struct cuda_transfer {
    cuda_stream *stream;
    const uint8_t *source; /* in, else NULL */
    uint8_t *destination;  /* out, else NULL */
    uint64_t address;
    uint64_t nbytes;
    size_t n_buffers;
    cuda_staging_buffer *buffers[2];
} cuda_transfer;

static size_t transfer_chunk_nbytes(const cuda_transfer *transfer, uint64_t chunk)
{
    return (size_t)GMV_MIN(transfer->nbytes - chunk * CUDA_STAGING_NBYTES,
                           (uint64_t)CUDA_STAGING_NBYTES);
}

/* Enqueues one chunk; its buffer is free. */
static gmv_status transfer_begin(const cuda_transfer *transfer, uint64_t chunk, gmv_error *err)
{
    cuda_device *device = cuda_stream_device(transfer->stream);
    CUstream handle = transfer->stream->handle;
    const cuda_staging_buffer *buffer = transfer->buffers[chunk % transfer->n_buffers];
    uint64_t offset = chunk * CUDA_STAGING_NBYTES;
    size_t nbytes = transfer_chunk_nbytes(transfer, chunk);
    transfer->stream->busy = true;
    if (transfer->source) {
        memcpy(buffer->bytes, transfer->source + offset, nbytes);
        CUDA_TRY(device, copy_in(transfer->address + offset, buffer->bytes, nbytes, handle), err);
    } else {
        CUDA_TRY(device, copy_out(buffer->bytes, transfer->address + offset, nbytes, handle), err);
    }
    CUDA_TRY(device, event_record(buffer->done, handle), err);
    return GMV_OK;
}

/* Waits for one chunk and brings it to its place if it comes out. */
static gmv_status transfer_end(const cuda_transfer *transfer, uint64_t chunk, gmv_error *err)
{
    const cuda_staging_buffer *buffer = transfer->buffers[chunk % transfer->n_buffers];
    GMV_TRY(gmv__cuda_wait(cuda_stream_device(transfer->stream), buffer->done, err));
    if (transfer->destination)
        memcpy(transfer->destination + chunk * CUDA_STAGING_NBYTES, buffer->bytes,
               transfer_chunk_nbytes(transfer, chunk));
    return GMV_OK;
}

static gmv_status transfer_chunks(const cuda_transfer *transfer, gmv_error *err)
{
    uint64_t n_chunks = (transfer->nbytes + CUDA_STAGING_NBYTES - 1) / CUDA_STAGING_NBYTES;
    for (uint64_t chunk = 0; chunk < n_chunks + transfer->n_buffers; chunk++) {
        if (chunk >= transfer->n_buffers && chunk - transfer->n_buffers < n_chunks)
            GMV_TRY(transfer_end(transfer, chunk - transfer->n_buffers, err));
        if (chunk < n_chunks)
            GMV_TRY(transfer_begin(transfer, chunk, err));
    }
    return GMV_OK;
}

/* Done when it returns. A failure waits until no buffer is in use any more. */
static gmv_status transfer_run(cuda_transfer *transfer, gmv_error *err)
{
    cuda_staging *staging = &cuda_stream_device(transfer->stream)->staging;
    size_t wanted = transfer->nbytes > CUDA_STAGING_NBYTES ? 2 : 1;
    transfer->n_buffers = staging_take(staging, wanted, transfer->buffers);
    gmv_status status = transfer_chunks(transfer, err);
    if (status != GMV_OK)
        gmv__cuda_stream_abandon(&transfer->stream->base);
    staging_give(staging, transfer->buffers, transfer->n_buffers);
    return status;
}

/* ---- the calls ---- */

gmv_status gmv__cuda_copy_in(gmv_stream *base, uint64_t destination, const void *source,
                             uint64_t nbytes, gmv_error *err)
{
    cuda_stream *stream = cuda_stream_of(base);
    cuda_device *device = cuda_stream_device(stream);
    cuda_slice slice;
    CUDA_SCOPE(device);
    if (nbytes > CUDA_SMALL_NBYTES)
        return transfer_run(
            &(cuda_transfer){
                .stream = stream, .source = source, .address = destination, .nbytes = nbytes},
            err);
    GMV_TRY(gmv__cuda_stream_reserve(stream, (size_t)nbytes, &slice, err));
    memcpy(slice.pinned, source, (size_t)nbytes);
    stream->busy = true;
    CUDA_TRY(device, copy_in(destination, slice.pinned, (size_t)nbytes, stream->handle), err);
    return GMV_OK;
}

gmv_status gmv__cuda_copy_out(gmv_stream *base, void *destination, uint64_t source, uint64_t nbytes,
                              gmv_error *err)
{
    cuda_stream *stream = cuda_stream_of(base);
    cuda_device *device = cuda_stream_device(stream);
    cuda_slice slice;
    CUDA_SCOPE(device);
    if (nbytes > CUDA_SMALL_NBYTES)
        return transfer_run(
            &(cuda_transfer){
                .stream = stream, .destination = destination, .address = source, .nbytes = nbytes},
            err);
    GMV_TRY(gmv__cuda_stream_reserve(stream, (size_t)nbytes, &slice, err));
    stream->busy = true;
    CUDA_TRY(device, copy_out(slice.pinned, source, (size_t)nbytes, stream->handle), err);
    gmv__cuda_stream_deliver(stream, destination, slice.pinned, (size_t)nbytes);
    return GMV_OK;
}

gmv_status gmv__cuda_copy_within(gmv_stream *base, uint64_t destination, uint64_t source,
                                 uint64_t nbytes, gmv_error *err)
{
    cuda_stream *stream = cuda_stream_of(base);
    cuda_device *device = cuda_stream_device(stream);
    CUDA_SCOPE(device);
    stream->busy = true;
    CUDA_TRY(device, copy_within(destination, source, nbytes, stream->handle), err);
    return GMV_OK;
}

gmv_status gmv__cuda_fill(gmv_stream *base, uint64_t destination, uint8_t value, uint64_t nbytes,
                          gmv_error *err)
{
    cuda_stream *stream = cuda_stream_of(base);
    cuda_device *device = cuda_stream_device(stream);
    CUDA_SCOPE(device);
    stream->busy = true;
    CUDA_TRY(device, fill(destination, value, nbytes, stream->handle), err);
    return GMV_OK;
}
