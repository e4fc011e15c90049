/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The time that work takes on a CUDA device, by its own clock: for the benchmark. No CUDA type, so
 * that who measures needs no toolkit. Device and streams are the CUDA backend's.
 */
#ifndef GMV_DEVICE_CUDA_CUDA_TIMER_H
#define GMV_DEVICE_CUDA_CUDA_TIMER_H

#include <gmv/device/device.h>

typedef struct cuda_timer cuda_timer;

/* @newref: destroyed by gmv__cuda_timer_destroy (NULL: nothing), before its device is closed. */
gmv_status gmv__cuda_timer_create(gmv_device *device, cuda_timer **out_timer, gmv_error *err);
void gmv__cuda_timer_destroy(cuda_timer *timer);

/* Around the work that is enqueued on the stream between the two. */
gmv_status gmv__cuda_timer_begin(cuda_timer *timer, gmv_stream *stream, gmv_error *err);
gmv_status gmv__cuda_timer_end(cuda_timer *timer, gmv_stream *stream, gmv_error *err);

/* Milliseconds between the two; the stream's work is finished. */
gmv_status gmv__cuda_timer_read(cuda_timer *timer, double *out_milliseconds, gmv_error *err);

#endif
