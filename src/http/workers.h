/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The threads that do what an HTTP thread must not wait for: two lanes of workers, short and bulk,
 * each with a bounded number of jobs, and one maintenance thread that frees. A place in a lane is
 * reserved first, so that "too busy" is known before anything has been suspended; enqueueing then
 * cannot fail. Thread-safe.
 */
#ifndef GMV_HTTP_WORKERS_H
#define GMV_HTTP_WORKERS_H

#include <gmv/ops/engine.h>
#include <gmv/ops/operation.h>

typedef struct gmv_job gmv_job;

/* Embedded in what is to be done; belongs to the queue from enqueueing until `run` is called. */
struct gmv_job {
    gmv_job *next;
    int64_t due_ns; /* parked: when it is to run again */
    /* `streams`: the thread's own, one for each device; NULL on the maintenance thread. */
    void (*run)(gmv_job *job, gmv_lane lane, gmv_stream *const *streams);
};

typedef struct gmv_workers gmv_workers;

typedef struct gmv_workers_options {
    uint32_t n_short, n_bulk;     /* threads, at least 1 each */
    uint32_t max_short, max_bulk; /* jobs waiting and running */
    void (*tick)(void *context);  /* now and then, on the maintenance thread; NULL: nothing */
    void *tick_context;
} gmv_workers_options;

/* @newref: stopped by gmv_workers_stop, then destroyed by gmv_workers_destroy. */
GMV_NODISCARD gmv_status gmv_workers_create(gmv_engine *engine, const gmv_workers_options *options,
                                            gmv_workers **out_workers, gmv_error *err);

/* Takes a place in a lane; false when all are taken. Given back by gmv_workers_unreserve. */
GMV_NODISCARD bool gmv_workers_reserve(gmv_workers *workers, gmv_lane lane);
void gmv_workers_unreserve(gmv_workers *workers, gmv_lane lane);

/* The caller has a place in the lane, or bounds the number of its jobs otherwise. */
void gmv_workers_enqueue(gmv_workers *workers, gmv_lane lane, gmv_job *job);

/*
 * Enqueues a job once `milliseconds` have passed; it keeps its place in the lane, but no thread.
 * False, and nothing done, once the lane is stopping.
 */
GMV_NODISCARD bool gmv_workers_park(gmv_workers *workers, gmv_lane lane, gmv_job *job,
                                    int64_t milliseconds);

/* Hands a job to the maintenance thread; any number of them. */
void gmv_workers_maintain(gmv_workers *workers, gmv_job *job);

/*
 * Runs what is queued, then ends the threads, the maintenance thread last. False when some did not
 * end in time: then nothing that they use may be freed. Nobody may enqueue any more.
 */
GMV_NODISCARD bool gmv_workers_stop(gmv_workers *workers, int64_t timeout_ms);

/* After a stop that succeeded. NULL: nothing. */
void gmv_workers_destroy(gmv_workers *workers);

#endif
