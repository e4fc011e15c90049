/* SPDX-License-Identifier: Apache-2.0 */
/* What the handlers of one daemon share. Lives from start to stop. */
#ifndef GMV_HTTP_SERVICE_H
#define GMV_HTTP_SERVICE_H

#include "http/handler.h"

typedef struct gmv_metrics gmv_metrics;
typedef struct gmv_router gmv_router;

struct gmv_service {
    gmv_engine engine;
    gmv_metrics *metrics;
    const gmv_router *router; /* the server's, for batches */
    gmv_events *events;       /* @borrowed, observes the engine's registry; outlives the engine */
    const char *backend;      /* "host" or "cuda" */
    const char *toolkit;      /* CUDA toolkit of the build, "13.0"; "" for the host */
    int64_t started_at_ms;    /* wall */
    int64_t started_at_ns;    /* monotonic */
    uint64_t max_json_nbytes;
    uint32_t n_http_threads;
    uint32_t n_workers;
    uint32_t connection_limit;
    int64_t idle_timeout_seconds;
    uint32_t max_uploads; /* octet-stream bodies at once */
    atomic_bool draining;
};

#endif
