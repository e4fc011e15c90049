/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams. Each has one block of pinned memory that the device sees, too: kernels leave numbers for
 * the host at its start, small transfers pass through the rest. What is to reach the caller's
 * memory is written down as a delivery and copied after the wait, never if the work is abandoned.
 */
#include "device/cuda/cuda_priv.h"

#include <assert.h>
#include <string.h>
#include <time.h>

#include <gmv/base/alloc.h>
#include <gmv/base/clock.h>
#include <gmv/base/num.h>

#define RESULTS_NBYTES  256 /* of the pinned block, for CUDA_RESULTS numbers */
#define SUMS_NBYTES     gmv_round_up(CUDA_RESULTS *GMV_CUDA_SUMS * sizeof(cuda_sum), 256)
#define SLICE_ALIGNMENT 256

_Static_assert(CUDA_RESULTS * sizeof(int64_t) <= RESULTS_NBYTES, "the results have room");

/* ---- waiting ---- */

static void wait_sleep(int64_t ns)
{
    struct timespec time = {.tv_sec = 0, .tv_nsec = (long)ns};
    (void)nanosleep(&time, NULL);
}

/* Polls with growing pauses; marks the device lost when the time is up. */
static CUresult wait_until(cuda_device *device, CUevent event, int64_t deadline_ns)
{
    CUresult result;
    int64_t pause = 20000;
    while ((result = gmv__cuda.event_query(event)) == CUDA_ERROR_NOT_READY) {
        if (gmv_clock_monotonic_ns() >= deadline_ns) {
            gmv_device_mark_lost(&device->base, "its work did not end within the job deadline");
            break;
        }
        wait_sleep(pause);
        pause = GMV_MIN(2 * pause, (int64_t)1000000);
    }
    return result;
}

gmv_status gmv__cuda_wait(cuda_device *device, CUevent event, gmv_error *err)
{
    CUresult result;
    int64_t begin = gmv_clock_monotonic_ns();
    while ((result = gmv__cuda.event_query(event)) == CUDA_ERROR_NOT_READY)
        if (gmv_clock_monotonic_ns() - begin > CUDA_SPIN_NS)
            break;
    if (result == CUDA_ERROR_NOT_READY && device->job_deadline_ms)
        result = wait_until(device, event, begin + (int64_t)device->job_deadline_ms * 1000000);
    else if (result == CUDA_ERROR_NOT_READY)
        result = gmv__cuda.event_synchronize(event);
    if (result == CUDA_SUCCESS)
        return GMV_OK;
    if (gmv_device_is_lost(&device->base, NULL))
        return gmv__device_fail_lost(&device->base, err);
    return gmv__cuda_fail(device, result, "event_synchronize", err);
}

/* ---- deliveries ---- */

static void delivery_make(const cuda_delivery *delivery)
{
    if (delivery->to) {
        memcpy(delivery->to, delivery->from, delivery->nbytes);
        return;
    }
    const int64_t *counts = delivery->from;
    for (size_t i = 0; i < delivery->nbytes; i++)
        if (delivery->pieces[i].is_bits && delivery->pieces[i].out_set_count)
            *delivery->pieces[i].out_set_count = counts[i];
}

static void stream_forget(cuda_stream *stream)
{
    stream->busy = false;
    stream->block_used = 0;
    stream->n_results = 0;
    stream->n_deliveries = 0;
}

static gmv_status stream_wait(cuda_stream *stream, gmv_error *err)
{
    cuda_device *device = cuda_stream_device(stream);
    CUDA_TRY(device, event_record(stream->done, stream->handle), err);
    return gmv__cuda_wait(device, stream->done, err);
}

/*
 * Waits for what is enqueued and delivers it. Memory may be freed after it, so a wait that fails
 * is tried again, and a device whose work cannot be waited for is lost.
 */
static gmv_status stream_drain(cuda_stream *stream, gmv_error *err)
{
    gmv_device *device = stream->base.device;
    gmv_status status = stream->busy ? stream_wait(stream, err) : GMV_OK;
    if (status != GMV_OK && !gmv_device_is_lost(device, NULL) &&
        stream_wait(stream, NULL) != GMV_OK)
        gmv_device_mark_lost(device, "its work cannot be waited for");
    for (size_t i = 0; i < stream->n_deliveries && status == GMV_OK; i++)
        delivery_make(&stream->deliveries[i]);
    stream_forget(stream);
    return status;
}

gmv_status gmv__cuda_stream_reserve(cuda_stream *stream, size_t nbytes, cuda_slice *out_slice,
                                    gmv_error *err)
{
    assert(nbytes <= CUDA_BLOCK_NBYTES);
    if (stream->n_deliveries == CUDA_DELIVERIES || stream->block_used + nbytes > CUDA_BLOCK_NBYTES)
        GMV_TRY(stream_drain(stream, err));
    out_slice->pinned = stream->pinned + RESULTS_NBYTES + stream->block_used;
    out_slice->scratch = stream->scratch + SUMS_NBYTES + stream->block_used;
    stream->block_used = (size_t)gmv_round_up(stream->block_used + nbytes, SLICE_ALIGNMENT);
    return GMV_OK;
}

static void stream_add_delivery(cuda_stream *stream, cuda_delivery delivery)
{
    assert(stream->n_deliveries < CUDA_DELIVERIES);
    stream->deliveries[stream->n_deliveries++] = delivery;
}

void gmv__cuda_stream_deliver(cuda_stream *stream, void *to, const void *from, size_t nbytes)
{
    stream_add_delivery(stream, (cuda_delivery){.to = to, .from = from, .nbytes = nbytes});
}

void gmv__cuda_stream_deliver_counts(cuda_stream *stream, const gmv_copy_piece *pieces,
                                     const void *from, size_t n_pieces)
{
    stream_add_delivery(stream,
                        (cuda_delivery){.pieces = pieces, .from = from, .nbytes = n_pieces});
}

gmv_status gmv__cuda_stream_result(cuda_stream *stream, int64_t *out, cuda_result *out_result,
                                   gmv_error *err)
{
    *out_result = (cuda_result){0};
    if (!out)
        return GMV_OK;
    if (stream->n_results == CUDA_RESULTS || stream->n_deliveries == CUDA_DELIVERIES)
        GMV_TRY(stream_drain(stream, err));
    size_t i = stream->n_results++;
    out_result->sum = stream->scratch + i * GMV_CUDA_SUMS * sizeof(cuda_sum);
    out_result->output = stream->mapped + i * sizeof(int64_t);
    gmv__cuda_stream_deliver(stream, out, stream->pinned + i * sizeof(int64_t), sizeof(int64_t));
    return GMV_OK;
}

/* ---- streams ---- */

static gmv_status stream_open(cuda_device *device, cuda_stream *stream,
                              gmv_stream_priority priority, gmv_error *err)
{
    void *pinned = NULL;
    CUDA_SCOPE(device);
    CUDA_TRY(device,
             stream_create(&stream->handle, CU_STREAM_NON_BLOCKING, device->priorities[priority]),
             err);
    CUDA_TRY(device, event_create(&stream->done, CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING),
             err);
    CUDA_TRY(device,
             host_allocate(&pinned, RESULTS_NBYTES + CUDA_BLOCK_NBYTES, CU_MEMHOSTALLOC_DEVICEMAP),
             err);
    stream->pinned = pinned;
    CUDA_TRY(device, host_device_pointer(&stream->mapped, pinned, 0), err);
    CUDA_TRY(device,
             pool_allocate(&stream->scratch, SUMS_NBYTES + CUDA_BLOCK_NBYTES, device->pool,
                           stream->handle),
             err);
    CUDA_TRY(device, fill(stream->scratch, 0, SUMS_NBYTES, stream->handle), err);
    stream->busy = true;
    return GMV_OK;
}

/* Takes a stream that is open in part, and none of whose work is under way. */
static void stream_close(cuda_device *device, cuda_stream *stream)
{
    CUDA_SCOPE(device);
    if (stream->scratch)
        (void)gmv__cuda.pool_free(stream->scratch, stream->handle);
    if (stream->pinned)
        (void)gmv__cuda.host_free(stream->pinned);
    if (stream->done)
        (void)gmv__cuda.event_destroy(stream->done);
    if (stream->handle)
        (void)gmv__cuda.stream_destroy(stream->handle);
}

gmv_status gmv__cuda_stream_create(gmv_device *base, gmv_stream_priority priority,
                                   gmv_stream **out_stream, gmv_error *err)
{
    cuda_device *device = cuda_device_of(base);
    cuda_stream *stream = gmv_calloc(1, sizeof *stream);
    if (!stream)
        return gmv_fail_no_memory(err);
    stream->base.device = base;
    gmv_status status = stream_open(device, stream, priority, err);
    if (status != GMV_OK) {
        if (!gmv_device_is_lost(base, NULL))
            stream_close(device, stream);
        gmv_free(stream);
        return status;
    }
    *out_stream = &stream->base;
    return GMV_OK;
}

void gmv__cuda_stream_destroy(gmv_stream *base)
{
    cuda_stream *stream = cuda_stream_of(base);
    gmv__cuda_stream_abandon(base);
    if (!gmv_device_is_lost(base->device, NULL))
        stream_close(cuda_stream_device(stream), stream);
    gmv_free(stream);
}

/* Memory cannot be cut short here; what a lost device means is checked by every call. */
gmv_status gmv__cuda_stream_use(gmv_stream *stream, gmv_memory *memory, gmv_error *err)
{
    return GMV_OK;
}

gmv_status gmv__cuda_stream_finish(gmv_stream *base, gmv_error *err)
{
    cuda_stream *stream = cuda_stream_of(base);
    CUDA_SCOPE(cuda_stream_device(stream));
    return stream_drain(stream, err);
}

void gmv__cuda_stream_abandon(gmv_stream *base)
{
    cuda_stream *stream = cuda_stream_of(base);
    stream->n_deliveries = 0;
    if (gmv_device_is_lost(base->device, NULL))
        stream_forget(stream);
    else
        (void)gmv__cuda_stream_finish(base, NULL);
}
