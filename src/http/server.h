/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The HTTP server: a listener, HTTP threads, workers. Started over a service, drained once.
 *
 * Requests whose route is inline are answered on the HTTP thread; all else runs on a worker while
 * the connection is suspended. An octet-stream body is handed to its route in blocks, each appended
 * by a worker, so memory for it is bounded.
 */
#ifndef GMV_HTTP_SERVER_H
#define GMV_HTTP_SERVER_H

#include "http/handler.h"

typedef struct gmv_server gmv_server;

typedef struct gmv_server_options {
    const char *listen; /* "127.0.0.1:8080", "[::1]:0", "localhost:8080"; port 0: any free one */
    bool insecure;      /* may listen elsewhere than on the loopback */
    const gmv_route *routes; /* @borrowed, outlives the server */
    size_t n_routes;
    uint32_t n_http_threads; /* each of these: 0 for the default */
    uint32_t n_short_workers;
    uint32_t n_bulk_workers;
    uint32_t max_short_jobs; /* waiting and running */
    uint32_t max_bulk_jobs;
    uint32_t max_uploads;    /* octet-stream bodies at once, at most a staging block each */
    uint32_t max_silence_ms; /* of an upload whose place another wants */
    uint32_t max_chunks;     /* staging of downloads from memory that must be copied out */
    uint32_t max_wait_ms;    /* that a request may wait for what is not the daemon's work */
} gmv_server_options;

/*
 * Listens and serves. Fills the service's metrics and thread counts, and its limits where they are
 * 0. The engine is ready and outlives the server.
 *
 * @retval GMV_ERR_VALUE       the address is malformed, or no loopback without `insecure`
 * @retval GMV_ERR_OVERLOADED  the system refuses the address, a thread or memory
 */
GMV_NODISCARD gmv_status gmv_server_start(gmv_service *service, const gmv_server_options *options,
                                          gmv_server **out_server, gmv_error *err);

/*
 * Whether gmv_server_start() would try to listen there; asks the system for nothing.
 *
 * @retval GMV_ERR_VALUE  as above
 */
GMV_NODISCARD gmv_status gmv_server_check_address(const char *listen_at, bool insecure,
                                                  gmv_error *err);

/* "http://127.0.0.1:8080", with the real port. @borrowed. */
const char *gmv_server_url(const gmv_server *server);
uint16_t gmv_server_port(const gmv_server *server);

/*
 * Stops listening, answers new requests 503 draining, waits for those under way up to the time-out,
 * gives up the rest, and ends all threads. False when a worker did not come back: the process must
 * then leave without freeing what it uses.
 */
GMV_NODISCARD bool gmv_server_drain(gmv_server *server, int64_t timeout_ms);

/* After a drain that succeeded. NULL: nothing. */
void gmv_server_destroy(gmv_server *server);

#endif
