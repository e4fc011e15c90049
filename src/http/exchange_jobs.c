/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The work of a request: the handler or a step of a stream, on the HTTP thread or on a worker, and
 * the suspension of the connection around what a worker does.
 *
 * A job ends in one of three ways: it resumes the connection, it goes on later or on another lane,
 * or the connection has been given up meanwhile and the outcome is dropped.
 */
#include "config.h"

#include "http/exchange_priv.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "codec/problem.h"
#include "codec/siphash.h"

#define EXCHANGE_LONG_NS     1000000000 /* before that nobody asks whether the client is there */
#define EXCHANGE_PAUSE_SHARE 4          /* a parked request rests for this part of its wait, */
#define EXCHANGE_PAUSE_MS    20         /* and no longer than this */

/* ---- suspending and resuming ---- */

static void exchange_link(gmv_exchange *exchange)
{
    gmv_server *server = exchange->server;
    exchange->previous = NULL;
    exchange->next = server->jobs;
    if (server->jobs)
        server->jobs->previous = exchange;
    server->jobs = exchange;
}

static void exchange_unlink(gmv_exchange *exchange)
{
    if (exchange->previous)
        exchange->previous->next = exchange->next;
    else
        exchange->server->jobs = exchange->next;
    if (exchange->next)
        exchange->next->previous = exchange->previous;
}

/*
 * Suspends, then enqueues. One lock around both, so that whoever gives requests up sees either none
 * of it or a suspended connection.
 */
bool gmv__exchange_start(gmv_exchange *exchange, gmv_task task, gmv_lane lane)
{
    gmv_server *server = exchange->server;
    gmv__receivers_excuse(exchange);
    pthread_mutex_lock(&server->jobs_lock);
    bool starts = !server->is_stopping;
    if (starts) {
        exchange->task = task;
        exchange->lane = lane;
        exchange->is_suspended = true;
        atomic_fetch_add(&exchange->references, 1);
        exchange_link(exchange);
        MHD_suspend_connection(exchange->connection);
        gmv_workers_enqueue(server->workers, lane, &exchange->job);
    }
    pthread_mutex_unlock(&server->jobs_lock);
    return starts;
}

/* A worker is done: resumes, unless the request has been given up meanwhile. */
static void exchange_end(gmv_exchange *exchange)
{
    gmv_server *server = exchange->server;
    pthread_mutex_lock(&server->jobs_lock);
    bool is_abandoned = atomic_load(&exchange->is_abandoned);
    if (!is_abandoned) {
        exchange_unlink(exchange);
        MHD_resume_connection(exchange->connection);
    }
    pthread_mutex_unlock(&server->jobs_lock);
    gmv__exchange_unref(exchange, true);
}

void gmv__exchange_abandon_all(gmv_server *server)
{
    pthread_mutex_lock(&server->jobs_lock);
    server->is_stopping = true;
    while (server->jobs) {
        gmv_exchange *exchange = server->jobs;
        exchange_unlink(exchange);
        atomic_store(&exchange->is_abandoned, true);
        atomic_store(&exchange->is_unheard, true);
        MHD_resume_connection(exchange->connection);
    }
    pthread_mutex_unlock(&server->jobs_lock);
}

/*
 * Whether the connection is broken. One that the client has merely closed its side of is not: it
 * may wait for the answer. If nobody is there any more, keep-alive probes break it in the end.
 */
static bool exchange_is_broken(const gmv_exchange *exchange)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(exchange->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct pollfd polled = {.fd = info ? info->connect_fd : -1};
    return poll(&polled, 1, 0) == 1 && (polled.revents & (POLLHUP | POLLERR));
}

/* Under the lock the connections in the list are suspended, so their sockets stay open. */
void gmv__exchange_sweep(gmv_server *server)
{
    int64_t then = gmv_clock_monotonic_ns() - EXCHANGE_LONG_NS;
    pthread_mutex_lock(&server->jobs_lock);
    for (gmv_exchange *exchange = server->jobs; exchange; exchange = exchange->next)
        if (exchange->started_at_ns < then && !atomic_load(&exchange->is_unheard) &&
            exchange_is_broken(exchange))
            atomic_store(&exchange->is_unheard, true);
    pthread_mutex_unlock(&server->jobs_lock);
}

/* ---- failing ---- */

static void exchange_log_internal(const gmv_exchange *exchange, const gmv_error *err)
{
    gmv_log(GMV_LOG_ERROR, "internal_error", gmv_log_text("message", err->message),
            gmv_log_text("file", err->file), gmv_log_int("line", err->line),
            gmv_log_text("request_id", exchange->request_id));
}

/* Others are to know what failed for want of something or through a fault. */
static void exchange_tell_failure(gmv_exchange *exchange, const gmv_error *err)
{
    static const gmv_status told[] = {GMV_ERR_MEMORY_LOST, GMV_ERR_QUOTA_EXCEEDED,
                                      GMV_ERR_OVERLOADED,  GMV_ERR_DEVICE_LOST,
                                      GMV_ERR_INTERNAL,    GMV_ERR_DEVICE_OUT_OF_MEMORY};
    const gmv_route *route = exchange->match.route;
    bool is_told = false;
    for (size_t i = 0; i < sizeof told / sizeof told[0]; i++)
        is_told = is_told || err->status == told[i];
    if (is_told && route->method != GMV_METHOD_GET)
        gmv_events_add_failure(exchange->server->service->events, exchange->principal,
                               route->operation_id, err, gmv_problem_http_status(err->status),
                               exchange->request_id);
}

static void exchange_set_error(gmv_exchange *exchange, const gmv_error *err)
{
    exchange_tell_failure(exchange, err);
    if (err->status == GMV_ERR_INTERNAL)
        exchange_log_internal(exchange, err);
    gmv__answer_error(&exchange->reply, err, exchange->request_id);
}

static void exchange_set_failure(gmv_exchange *exchange, gmv_status status, const char *message)
{
    gmv_error err;
    gmv_error_init(&err);
    (void)gmv_fail(&err, status, NULL, "%s", message);
    exchange_set_error(exchange, &err);
}

/* ---- around a handler ---- */

static gmv_status exchange_enter_session(gmv_exchange *exchange, gmv_operation *operation,
                                         gmv_error *err)
{
    gmv_registry *registry = operation->engine->registry;
    gmv_status status = gmv_session_enter(registry, &operation->caller, &exchange->session_id,
                                          &operation->caller.session, err);
    if (status != GMV_OK)
        snprintf(err->parameter, sizeof err->parameter, "%s", EXCHANGE_SESSION);
    return status;
}

/* To be ended by exchange_end_operation also when the session is refused. */
static gmv_status exchange_begin_operation(gmv_exchange *exchange, gmv_operation *operation,
                                           gmv_lane lane, gmv_stream *const *streams,
                                           gmv_error *err)
{
    static const gmv_caller caller = {0};
    gmv_operation_begin(operation, &exchange->server->service->engine, &caller, lane, streams);
    operation->unheard = &exchange->is_unheard;
    exchange->request.operation = operation;
    exchange->principal = caller.principal;
    return exchange->session_id.kind ? exchange_enter_session(exchange, operation, err) : GMV_OK;
}

/* The session is left last: its lease counts from the end of the work. */
static void exchange_end_operation(gmv_exchange *exchange, gmv_operation *operation)
{
    gmv_registry *registry = operation->engine->registry;
    gmv_session *session = operation->caller.session;
    gmv_operation_end(operation);
    gmv_session_leave(registry, session);
    exchange->request.operation = NULL;
}

/* Short contents that must be copied out are, so that the answer needs no further worker. */
static gmv_status exchange_fetch(gmv_exchange *exchange, gmv_operation *operation, gmv_error *err)
{
    gmv_reply *reply = &exchange->reply.reply;
    bool fetches = reply->has_bytes && gmv_bytes_are_remote(&reply->bytes) &&
                   reply->bytes.nbytes <= GMV_FETCH_NBYTES && operation->streams &&
                   !exchange->is_head_request;
    if (!fetches)
        return GMV_OK;
    gmv_stream *stream = gmv_operation_stream(operation, gmv_bytes_device(&reply->bytes));
    return gmv_bytes_fetch(&reply->bytes, stream, err);
}

/* The same request: what it asks for, in which session, with which body. */
static uint64_t exchange_fingerprint(const gmv_exchange *exchange)
{
    gmv_siphash hash;
    const gmv_id *session = &exchange->session_id;
    gmv_siphash_init(&hash);
    gmv_siphash_add(&hash, &session->high, sizeof session->high);
    gmv_siphash_add(&hash, &session->low, sizeof session->low);
    gmv_siphash_add(&hash, exchange->target, strlen(exchange->target) + 1);
    gmv_siphash_add(&hash, exchange->request.body, exchange->request.body_nbytes);
    return gmv_siphash_value(&hash);
}

/*
 * Whether a request with a key is to be run, or its first answer is the reply already. One that
 * moves to the bulk lane or runs again later keeps its entry.
 */
static gmv_status exchange_begin_once(gmv_exchange *exchange, const gmv_operation *operation,
                                      bool *out_runs, gmv_error *err)
{
    *out_runs = true;
    if (exchange->once || exchange->once_key_length == 0)
        return GMV_OK;
    const gmv_idempotent_request request = {
        .principal = operation->caller.principal,
        .key = exchange->once_key,
        .key_length = exchange->once_key_length,
        .fingerprint = exchange_fingerprint(exchange),
    };
    GMV_TRY(gmv_idempotency_begin(exchange->server->idempotency, &request, &exchange->reply.reply,
                                  &exchange->once, err));
    *out_runs = exchange->once != NULL;
    exchange->reply.is_replayed = !*out_runs;
    return GMV_OK;
}

/* Keeps the answer, or after a failure forgets the key. */
static void exchange_end_once(gmv_exchange *exchange, gmv_status status)
{
    gmv_idempotency_finish(exchange->server->idempotency, exchange->once,
                           status == GMV_OK ? &exchange->reply.reply : NULL);
    exchange->once = NULL;
}

/* ---- whole requests ---- */

gmv_status gmv__exchange_handle(gmv_exchange *exchange, gmv_lane lane, gmv_stream *const *streams)
{
    gmv_operation operation;
    gmv_error err;
    gmv_error_init(&err);
    gmv_status status = exchange_begin_operation(exchange, &operation, lane, streams, &err);
    bool runs = false;
    if (status == GMV_OK)
        status = exchange_begin_once(exchange, &operation, &runs, &err);
    if (status == GMV_OK && runs)
        status = exchange->request.route->handle(&exchange->request, &exchange->reply.reply, &err);
    if (status == GMV_OK)
        status = exchange_fetch(exchange, &operation, &err);
    exchange_end_operation(exchange, &operation);
    if (status == GMV_MOVE_TO_BULK && lane == GMV_LANE_BULK)
        status = gmv_fail(&err, GMV_ERR_INTERNAL, NULL, "the bulk lane was asked for on itself");
    if (status != GMV_MOVE_TO_BULK && status != GMV_RUN_AGAIN)
        exchange_end_once(exchange, status);
    if (status == GMV_MOVE_TO_BULK)
        gmv__answer_fini(&exchange->reply);
    else if (status != GMV_OK)
        exchange_set_error(exchange, &err);
    return status;
}

/*
 * Has a request run again later; meanwhile it holds no thread. False when it has waited for long
 * enough, or when the server stops. The pauses grow with the wait.
 */
static bool exchange_park(gmv_exchange *exchange, gmv_lane lane)
{
    int64_t now = gmv_clock_monotonic_ns();
    if (exchange->waits_since_ns == 0)
        exchange->waits_since_ns = now;
    int64_t waited_ms = (now - exchange->waits_since_ns) / 1000000;
    if (waited_ms >= exchange->server->options.max_wait_ms)
        return false;
    /* The job may run before the call returns: the reply is let go first, and made again. */
    gmv__answer_fini(&exchange->reply);
    int64_t pause_ms = GMV_MIN(waited_ms / EXCHANGE_PAUSE_SHARE + 1, (int64_t)EXCHANGE_PAUSE_MS);
    if (gmv_workers_park(exchange->server->workers, lane, &exchange->job, pause_ms))
        return true;
    exchange_set_failure(exchange, GMV_ERR_DRAINING, EXCHANGE_DRAINING);
    return false;
}

/* True when the request goes on, on the bulk lane or later. */
static bool exchange_run_handle(gmv_exchange *exchange, gmv_lane lane, gmv_stream *const *streams)
{
    gmv_workers *workers = exchange->server->workers;
    gmv_status status = gmv__exchange_handle(exchange, lane, streams);
    if (status == GMV_RUN_AGAIN && exchange_park(exchange, lane))
        return true;
    bool moves = status == GMV_MOVE_TO_BULK && gmv_workers_reserve(workers, GMV_LANE_BULK);
    if (status == GMV_MOVE_TO_BULK && !moves)
        exchange_set_failure(exchange, GMV_ERR_OVERLOADED, EXCHANGE_OVERLOADED);
    if (!moves)
        exchange_end_once(exchange, status);
    gmv_workers_unreserve(workers, lane);
    exchange->has_run = !moves;
    if (moves)
        gmv_workers_enqueue(workers, GMV_LANE_BULK, &exchange->job);
    return moves;
}

/* ---- streams ---- */

void gmv__exchange_free_staging(gmv_exchange *exchange)
{
    gmv_free(exchange->staging);
    exchange->staging = NULL;
    exchange->staging_capacity = 0;
}

void gmv__exchange_close_stream(gmv_exchange *exchange, bool aborts)
{
    if (!exchange->has_stream)
        return;
    exchange->has_stream = false;
    exchange->request.operation = NULL;
    if (aborts && exchange->request.stream_state)
        exchange->request.route->stream->abort(&exchange->request);
    gmv__exchange_free_staging(exchange);
    gmv__receivers_leave(exchange);
    gmv_workers_unreserve(exchange->server->workers, GMV_LANE_BULK);
}

static gmv_status exchange_begin_stream(gmv_exchange *exchange, gmv_error *err)
{
    if (exchange->has_begun)
        return GMV_OK;
    exchange->has_begun = true;
    return exchange->request.route->stream->begin(&exchange->request, err);
}

static gmv_status exchange_append_stream(gmv_exchange *exchange, gmv_error *err)
{
    size_t nbytes = exchange->staging_nbytes;
    exchange->staging_nbytes = 0;
    if (nbytes == 0)
        return GMV_OK;
    return exchange->request.route->stream->append(&exchange->request, exchange->staging, nbytes,
                                                   err);
}

static gmv_status exchange_step_stream(gmv_exchange *exchange, gmv_error *err)
{
    GMV_TRY(exchange_begin_stream(exchange, err));
    GMV_TRY(exchange_append_stream(exchange, err));
    if (exchange->task != GMV_TASK_FINISH)
        return GMV_OK;
    GMV_TRY(
        exchange->request.route->stream->finish(&exchange->request, &exchange->reply.reply, err));
    exchange->has_run = true;
    return GMV_OK;
}

static void exchange_run_stream(gmv_exchange *exchange, gmv_lane lane, gmv_stream *const *streams)
{
    gmv_operation operation;
    gmv_error err;
    gmv_error_init(&err);
    gmv_status status = exchange_begin_operation(exchange, &operation, lane, streams, &err);
    if (status == GMV_OK)
        status = exchange_step_stream(exchange, &err);
    exchange_end_operation(exchange, &operation);
    if (status == GMV_MOVE_TO_BULK)
        status = gmv_fail(&err, GMV_ERR_INTERNAL, NULL, "the bulk lane was asked for on itself");
    if (status != GMV_OK) {
        exchange->task_failed = true;
        exchange_set_error(exchange, &err);
    }
    if (status != GMV_OK || exchange->has_run)
        gmv__exchange_close_stream(exchange, status != GMV_OK);
}

/* ---- the job ---- */

void gmv__exchange_run(gmv_job *job, gmv_lane lane, gmv_stream *const *streams)
{
    gmv_exchange *exchange = GMV_CONTAINER_OF(job, gmv_exchange, job);
    if (atomic_load(&exchange->is_abandoned)) {
        if (exchange->task == GMV_TASK_HANDLE)
            gmv_workers_unreserve(exchange->server->workers, lane);
    } else if (exchange->task != GMV_TASK_HANDLE) {
        exchange_run_stream(exchange, lane, streams);
    } else if (exchange_run_handle(exchange, lane, streams)) {
        return;
    }
    exchange_end(exchange);
}
