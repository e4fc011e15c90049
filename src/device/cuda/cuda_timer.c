/* SPDX-License-Identifier: Apache-2.0 */
/* Two events around work, and the time between them. */
#include "device/cuda/cuda_timer.h"

#include <gmv/base/alloc.h>

#include "device/cuda/cuda_priv.h"

struct cuda_timer {
    cuda_device *device;
    CUevent begin, end;
};

gmv_status gmv__cuda_timer_create(gmv_device *base, cuda_timer **out_timer, gmv_error *err)
{
    cuda_device *device = cuda_device_of(base);
    cuda_timer *timer = gmv_calloc(1, sizeof *timer);
    if (!timer)
        return gmv_fail_no_memory(err);
    timer->device = device;
    CUDA_SCOPE(device);
    CUresult result = gmv__cuda.event_create(&timer->begin, CU_EVENT_DEFAULT);
    if (result == CUDA_SUCCESS)
        result = gmv__cuda.event_create(&timer->end, CU_EVENT_DEFAULT);
    if (result != CUDA_SUCCESS) {
        gmv__cuda_timer_destroy(timer);
        return gmv__cuda_fail(device, result, "event_create", err);
    }
    *out_timer = timer;
    return GMV_OK;
}

void gmv__cuda_timer_destroy(cuda_timer *timer)
{
    if (!timer)
        return;
    CUDA_SCOPE(timer->device);
    if (timer->begin)
        (void)gmv__cuda.event_destroy(timer->begin);
    if (timer->end)
        (void)gmv__cuda.event_destroy(timer->end);
    gmv_free(timer);
}

gmv_status gmv__cuda_timer_begin(cuda_timer *timer, gmv_stream *stream, gmv_error *err)
{
    CUDA_SCOPE(timer->device);
    CUDA_TRY(timer->device, event_record(timer->begin, cuda_stream_of(stream)->handle), err);
    return GMV_OK;
}

gmv_status gmv__cuda_timer_end(cuda_timer *timer, gmv_stream *stream, gmv_error *err)
{
    CUDA_SCOPE(timer->device);
    CUDA_TRY(timer->device, event_record(timer->end, cuda_stream_of(stream)->handle), err);
    return GMV_OK;
}

gmv_status gmv__cuda_timer_read(cuda_timer *timer, double *out_milliseconds, gmv_error *err)
{
    float milliseconds = 0;
    CUDA_SCOPE(timer->device);
    CUDA_TRY(timer->device, event_elapsed(&milliseconds, timer->begin, timer->end), err);
    *out_milliseconds = (double)milliseconds;
    return GMV_OK;
}
