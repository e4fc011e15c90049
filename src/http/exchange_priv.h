/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the three files of an exchange share: exchange.c (the calls of libmicrohttpd),
 * exchange_head.c (what the head asks for and whether it may) and exchange_jobs.c (the work, and
 * who resumes the connection). The rules of who may touch which member are in server_priv.h.
 */
#ifndef GMV_HTTP_EXCHANGE_PRIV_H
#define GMV_HTTP_EXCHANGE_PRIV_H

#include "http/server_priv.h"

#define EXCHANGE_SESSION    "Gmv-Session"
#define EXCHANGE_DRAINING   "the daemon is shutting down"
#define EXCHANGE_OVERLOADED "too many requests wait; try again later"

/* ---- exchange.c ---- */

/* Gives one reference back. Where the caller may not block, a stream is aborted by another thread.
 */
void gmv__exchange_unref(gmv_exchange *exchange, bool may_block);

/* ---- exchange_head.c ---- */

/* Takes the fields over and gives the request its id; refuses nothing. The texts are the library's.
 */
void gmv__exchange_read_head(gmv_exchange *exchange, const char *url, const char *method,
                             const char *version);

/* Whether the request may go on to its body; then its members that the head decides are filled. */
gmv_status gmv__exchange_examine(gmv_exchange *exchange, const char *method_name, gmv_error *err);

/* A refusal that says what came, too: clients that are told no media type send one of their own. */
gmv_status gmv__exchange_fail_media(const gmv_exchange *exchange, gmv_media wanted, gmv_error *err);

/* ---- exchange_jobs.c ---- */

/* The job of an exchange: does `task` on a worker, then resumes the connection. */
void gmv__exchange_run(gmv_job *job, gmv_lane lane, gmv_stream *const *streams);

/*
 * Suspends the connection and has a worker do `task`, for which the caller has a place in the lane.
 * False when the server stops: then nothing has been done, the place included.
 */
bool gmv__exchange_start(gmv_exchange *exchange, gmv_task task, gmv_lane lane);

/*
 * Runs the handler on this thread; any error has become the reply. GMV_MOVE_TO_BULK and
 * GMV_RUN_AGAIN are passed on, the latter with a reply for whoever gives up.
 */
gmv_status gmv__exchange_handle(gmv_exchange *exchange, gmv_lane lane, gmv_stream *const *streams);

/* Gives back what a body was staged in; nothing may be in it. */
void gmv__exchange_free_staging(gmv_exchange *exchange);

/* Ends a stream, if one is open, with the places that it holds. Aborting may block. */
void gmv__exchange_close_stream(gmv_exchange *exchange, bool aborts);

#endif
