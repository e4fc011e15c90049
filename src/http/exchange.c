/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of one request. libmicrohttpd calls with the head, with each piece of the body, and once
 * more at the end; only in the last of these may an answer be queued without closing the
 * connection. A refusal is therefore kept until the body has been read and dropped.
 *
 * A chunked body goes on calling after we have suspended, in the same pass over its buffer, and
 * even after the worker has resumed: so the first thing asked is whether the library still counts
 * the connection as suspended, and then nothing is consumed and nothing done.
 */
#include "config.h"

#include "http/server_priv.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>

#include "codec/problem.h"
#include "codec/siphash.h"

#define EXCHANGE_SESSION        "Gmv-Session"
#define EXCHANGE_HURRY_S        1
#define EXCHANGE_SHOWN_MAX      80          /* bytes of a media type in a message */
#define EXCHANGE_DROP_SILENCE_S 2           /* a refused client that sends no more hears why */
#define EXCHANGE_DROP_NS        10000000000 /* one that goes on slowly, too */
#define EXCHANGE_SLOW_AFTER_NS  60000000000 /* from then on a body must keep this pace: */
#define EXCHANGE_SLOW_NBYTES    1024        /* bytes a second */
#define EXCHANGE_PAUSE_SHARE    4           /* a parked request rests for this part of its wait, */
#define EXCHANGE_PAUSE_MS       20          /* and no longer than this */

static void exchange_run(gmv_job *job, gmv_lane lane, gmv_stream *const *streams);

/* ---- birth and death ---- */

void *gmv__exchange_on_target(void *context, const char *target, struct MHD_Connection *connection)
{
    gmv_server *server = context;
    atomic_fetch_add(&server->n_started, 1);
    size_t length = target ? strlen(target) : 0;
    gmv_exchange *exchange = gmv_calloc(1, sizeof *exchange + length + 1);
    if (!exchange)
        return NULL;
    if (length)
        memcpy(exchange->target, target, length);
    exchange->server = server;
    exchange->connection = connection;
    exchange->job.run = exchange_run;
    exchange->started_at_ns = gmv_clock_monotonic_ns();
    exchange->route_index = GMV_METRICS_NO_ROUTE;
    exchange->method_label = GMV_METHOD_LABEL_OTHER;
    atomic_init(&exchange->references, 1);
    return exchange;
}

/* Ends a stream that has begun: on a worker or the maintenance thread, for abort may block. */
static void exchange_close_stream(gmv_exchange *exchange, bool aborts)
{
    if (!exchange->has_stream)
        return;
    exchange->has_stream = false;
    exchange->request.operation = NULL;
    if (aborts && exchange->request.stream_state)
        exchange->request.route->stream->abort(&exchange->request);
    gmv_free(exchange->staging);
    exchange->staging = NULL;
    atomic_fetch_sub(&exchange->server->n_uploads, 1);
    gmv_workers_unreserve(exchange->server->workers, GMV_LANE_BULK);
}

static void exchange_free(gmv_exchange *exchange)
{
    exchange_close_stream(exchange, true);
    gmv_idempotency_finish(exchange->server->idempotency, exchange->once, NULL);
    gmv__answer_fini(&exchange->reply);
    gmv__answer_fini(&exchange->refusal);
    gmv_query_fini(&exchange->request.query);
    gmv_free(exchange->body);
    gmv_free(exchange);
}

static void exchange_free_later(gmv_job *job, gmv_lane lane, gmv_stream *const *streams)
{
    exchange_free(GMV_CONTAINER_OF(job, gmv_exchange, job));
}

static void exchange_unref(gmv_exchange *exchange, bool may_block)
{
    if (atomic_fetch_sub(&exchange->references, 1) != 1)
        return;
    if (may_block || !exchange->has_stream) {
        exchange_free(exchange);
        return;
    }
    exchange->job.run = exchange_free_later;
    gmv_workers_maintain(exchange->server->workers, &exchange->job);
}

static void exchange_log(const gmv_exchange *exchange, int64_t duration_ns)
{
    const gmv_field_value *traceparent = &exchange->head.fields[GMV_FIELD_TRACEPARENT];
    char trace[64] = "";
    if (traceparent->count && traceparent->length < sizeof trace)
        memcpy(trace, traceparent->text, traceparent->length);
    gmv_log_level level = exchange->http_status == 500 ? GMV_LOG_WARNING : GMV_LOG_DEBUG;
    const gmv_route *route = exchange->match.route;
    gmv_log(level, "request", gmv_log_text("route", route ? route->path : ""),
            gmv_log_text("operation", route ? route->operation_id : ""),
            gmv_log_int("status", exchange->http_status),
            gmv_log_int("duration_us", duration_ns / 1000),
            gmv_log_text("request_id", exchange->request_id), gmv_log_text("traceparent", trace));
}

/* ---- refusing ---- */

static void exchange_refuse(gmv_exchange *exchange, const gmv_error *err)
{
    exchange->is_refused = true;
    gmv__answer_error(&exchange->refusal, err, exchange->request_id);
    if (err->status == GMV_ERR_METHOD_NOT_ALLOWED)
        exchange->refusal.allow = exchange->match.allow;
    if (exchange->is_surplus)
        exchange->refusal.closes = true;
}

static void exchange_refuse_with(gmv_exchange *exchange, gmv_status status, const char *message)
{
    gmv_error err;
    gmv_error_init(&err);
    (void)gmv_fail(&err, status, NULL, "%s", message);
    exchange_refuse(exchange, &err);
}

static void exchange_refuse_draining(gmv_exchange *exchange)
{
    exchange_refuse_with(exchange, GMV_ERR_DRAINING, "the daemon is shutting down");
}

/* How long the connection may be silent. */
static void exchange_set_timeout(gmv_exchange *exchange, int64_t seconds)
{
    (void)MHD_set_connection_option(exchange->connection, MHD_CONNECTION_OPTION_TIMEOUT,
                                    (unsigned)seconds);
    exchange->has_own_timeout = seconds != exchange->server->service->idle_timeout_seconds;
}

/* From now on the body is read and dropped, for a while. */
static void exchange_start_dropping(gmv_exchange *exchange)
{
    exchange->drop_until_ns = gmv_clock_monotonic_ns() + EXCHANGE_DROP_NS;
    exchange_set_timeout(exchange, EXCHANGE_DROP_SILENCE_S);
}

static enum MHD_Result exchange_answer_refusal(gmv_exchange *exchange)
{
    return gmv__respond(exchange, &exchange->refusal);
}

/* ---- jobs ---- */

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
 * of it or a suspended connection. False when the server stops. The caller has a place in the lane.
 */
static bool exchange_start(gmv_exchange *exchange, gmv_task task, gmv_lane lane)
{
    gmv_server *server = exchange->server;
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
    exchange_unref(exchange, true);
}

void gmv__exchange_abandon_all(gmv_server *server)
{
    pthread_mutex_lock(&server->jobs_lock);
    server->is_stopping = true;
    while (server->jobs) {
        gmv_exchange *exchange = server->jobs;
        exchange_unlink(exchange);
        atomic_store(&exchange->is_abandoned, true);
        MHD_resume_connection(exchange->connection);
    }
    pthread_mutex_unlock(&server->jobs_lock);
}

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

/*
 * Runs the handler; any error has become the reply. GMV_MOVE_TO_BULK and GMV_RUN_AGAIN are passed
 * on, the latter with a reply for whoever gives up.
 */
static gmv_status exchange_handle(gmv_exchange *exchange, gmv_lane lane, gmv_stream *const *streams)
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
    gmv_error err;
    gmv_error_init(&err);
    (void)gmv_fail(&err, GMV_ERR_DRAINING, NULL, "the daemon is shutting down");
    exchange_set_error(exchange, &err);
    return false;
}

static void exchange_set_overloaded(gmv_exchange *exchange)
{
    gmv_error err;
    gmv_error_init(&err);
    (void)gmv_fail(&err, GMV_ERR_OVERLOADED, NULL, "too many requests wait; try again later");
    exchange_set_error(exchange, &err);
}

/* True when the request goes on, on the bulk lane or later. */
static bool exchange_run_handle(gmv_exchange *exchange, gmv_lane lane, gmv_stream *const *streams)
{
    gmv_workers *workers = exchange->server->workers;
    gmv_status status = exchange_handle(exchange, lane, streams);
    if (status == GMV_RUN_AGAIN && exchange_park(exchange, lane))
        return true;
    bool moves = status == GMV_MOVE_TO_BULK && gmv_workers_reserve(workers, GMV_LANE_BULK);
    if (status == GMV_MOVE_TO_BULK && !moves)
        exchange_set_overloaded(exchange);
    if (!moves)
        exchange_end_once(exchange, status);
    gmv_workers_unreserve(workers, lane);
    exchange->has_run = !moves;
    if (moves)
        gmv_workers_enqueue(workers, GMV_LANE_BULK, &exchange->job);
    return moves;
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
        exchange_close_stream(exchange, status != GMV_OK);
}

static void exchange_run(gmv_job *job, gmv_lane lane, gmv_stream *const *streams)
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

/* ---- the client's end ---- */

/*
 * Whether the client has closed its side and nothing waits in the socket. The library polls edge by
 * edge: an end that came together with the last bytes is never told to it.
 */
static bool exchange_sees_end(const gmv_exchange *exchange)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(exchange->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    if (!info)
        return false;
    struct pollfd polled = {.fd = info->connect_fd, .events = POLLRDHUP};
    int n_waiting = 0;
    return poll(&polled, 1, 0) == 1 && ioctl(info->connect_fd, FIONREAD, &n_waiting) == 0 &&
           n_waiting == 0;
}

/* What is missing of the body may lie in the library's buffer; if it does not, time tells soon. */
static void exchange_hurry(gmv_exchange *exchange)
{
    exchange->is_hurried = true;
    exchange_set_timeout(exchange, EXCHANGE_HURRY_S);
}

static void exchange_refuse_cut(gmv_exchange *exchange)
{
    exchange_refuse_with(exchange, GMV_ERR_REQUEST_MALFORMED,
                         "the connection ended before the body did");
}

/* Behind a piece of the body that was consumed whole. MHD_NO when nothing more can come. */
static enum MHD_Result exchange_look_for_end(gmv_exchange *exchange)
{
    int64_t expected = exchange->head.body_nbytes;
    if (expected >= 0 && exchange->body_seen + exchange->body_dropped >= (uint64_t)expected)
        return MHD_YES;
    if (!exchange_sees_end(exchange))
        return MHD_YES;
    if (expected < 0) {
        exchange_hurry(exchange);
        return MHD_YES;
    }
    if (!exchange->is_refused)
        exchange_refuse_cut(exchange);
    return MHD_NO;
}

/* ---- the head ---- */

static enum MHD_Result exchange_add_field(void *context, enum MHD_ValueKind kind, const char *name,
                                          size_t name_length, const char *value,
                                          size_t value_length)
{
    gmv_head_add(context, name, name_length, value, value_length);
    return MHD_YES;
}

static void exchange_read_head(gmv_exchange *exchange, const char *version)
{
    gmv_head_init(&exchange->head, version[0] && strcmp(version, "HTTP/1.0") != 0);
    (void)MHD_get_connection_values_n(exchange->connection, MHD_HEADER_KIND, exchange_add_field,
                                      &exchange->head);
    gmv_server *server = exchange->server;
    const gmv_field_value *id = &exchange->head.fields[GMV_FIELD_REQUEST_ID];
    if (id->count == 1 && gmv_request_id_is_plain(id->text, id->length))
        memcpy(exchange->request_id, id->text, id->length);
    else
        gmv__server_name_request(server, exchange->request_id);
}

static gmv_method exchange_read_method(gmv_exchange *exchange, const char *name)
{
    static const struct {
        const char *name;
        gmv_method method;
        gmv_method_label label;
    } methods[] = {
        {"GET", GMV_METHOD_GET, GMV_METHOD_LABEL_GET},
        {"HEAD", GMV_METHOD_GET, GMV_METHOD_LABEL_HEAD},
        {"POST", GMV_METHOD_POST, GMV_METHOD_LABEL_POST},
        {"PUT", GMV_METHOD_PUT, GMV_METHOD_LABEL_PUT},
        {"DELETE", GMV_METHOD_DELETE, GMV_METHOD_LABEL_DELETE},
    };
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++) {
        if (strcmp(name, methods[i].name) != 0)
            continue;
        exchange->method_label = methods[i].label;
        exchange->is_head_request = methods[i].label == GMV_METHOD_LABEL_HEAD;
        return methods[i].method;
    }
    return GMV_METHOD_COUNT;
}

/* The path, without the scheme and authority that an absolute target starts with, nor the query. */
static const char *exchange_path(const char *target, size_t *out_length)
{
    static const char scheme[] = "http://";
    if (strncasecmp(target, scheme, sizeof scheme - 1) == 0) {
        const char *slash = strchr(target + sizeof scheme - 1, '/');
        target = slash ? slash : "";
    }
    *out_length = strcspn(target, "?#");
    return target;
}

static gmv_status exchange_check_authority(const gmv_exchange *exchange, gmv_error *err)
{
    static const char scheme[] = "http://";
    bool loopback_only = exchange->server->checks_host;
    GMV_TRY(gmv_head_check_host(&exchange->head, loopback_only, err));
    if (!loopback_only || strncasecmp(exchange->target, scheme, sizeof scheme - 1) != 0)
        return GMV_OK;
    const char *authority = exchange->target + sizeof scheme - 1;
    if (gmv_authority_is_loopback(authority, strcspn(authority, "/?#")))
        return GMV_OK;
    return gmv_fail(err, GMV_ERR_REQUEST_MALFORMED, NULL,
                    "the request target names another host than the loopback");
}

static gmv_status exchange_route(gmv_exchange *exchange, gmv_method method, gmv_error *err)
{
    size_t length;
    const char *path = exchange_path(exchange->target, &length);
    switch (gmv_router_match(exchange->server->router, method, path, length, &exchange->match)) {
    case GMV_ROUTING_FOUND:
        exchange->route_index = exchange->match.index;
        return GMV_OK;
    case GMV_ROUTING_NO_METHOD:
        return gmv_fail(err, GMV_ERR_METHOD_NOT_ALLOWED, NULL, "this path takes %s",
                        exchange->match.allow);
    case GMV_ROUTING_NO_PATH:
        break;
    }
    return gmv_fail(err, GMV_ERR_ROUTE_UNKNOWN, NULL,
                    "there is no such path; /docs shows those that there are");
}

/* On a connection beyond the limit only probes and the like are answered. */
static gmv_status exchange_check_room(gmv_exchange *exchange, gmv_error *err)
{
    const gmv_service *service = exchange->server->service;
    if (strncmp(exchange->match.route->path, "/v1/", 4) != 0)
        return GMV_OK;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(exchange->connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    if (!info || !info->socket_context)
        return GMV_OK;
    exchange->is_surplus = true;
    return gmv_fail(err, GMV_ERR_OVERLOADED, NULL,
                    "all %" PRIu32 " connections are in use; try again later",
                    service->connection_limit);
}

/* Says what came, too: clients send a media type of their own choice where they are told none. */
static gmv_status exchange_fail_media(const gmv_exchange *exchange, gmv_media wanted,
                                      gmv_error *err)
{
    const gmv_field_value *came = &exchange->head.fields[GMV_FIELD_CONTENT_TYPE];
    const char *takes =
        wanted == GMV_MEDIA_JSON ? "application/json (in UTF-8)" : "application/octet-stream";
    size_t plain = 0;
    while (plain < came->length && came->text[plain] >= ' ' && came->text[plain] <= '~')
        plain++;
    if (came->count == 0)
        return gmv_fail_parameter(err, GMV_ERR_MEDIA_TYPE_UNSUPPORTED, "Content-Type",
                                  "the body came without a Content-Type; this call takes %s",
                                  takes);
    if (came->count > 1 || plain < came->length || plain > EXCHANGE_SHOWN_MAX)
        return gmv_fail_parameter(err, GMV_ERR_MEDIA_TYPE_UNSUPPORTED, "Content-Type",
                                  "this call takes %s", takes);
    return gmv_fail_parameter(err, GMV_ERR_MEDIA_TYPE_UNSUPPORTED, "Content-Type",
                              "the body came as %.*s; this call takes %s", (int)plain, came->text,
                              takes);
}

static gmv_status exchange_check_body(gmv_exchange *exchange, gmv_error *err)
{
    const gmv_head *head = &exchange->head;
    const gmv_route *route = exchange->match.route;
    uint64_t limit = exchange->server->service->max_json_nbytes;
    if (head->body_nbytes == 0)
        return GMV_OK;
    if (route->body == GMV_BODY_NONE)
        return gmv_fail(err, GMV_ERR_REQUEST_MALFORMED, NULL, "this call takes no body");
    if (route->body == GMV_BODY_JSON && head->body_nbytes > 0 &&
        (uint64_t)head->body_nbytes > limit)
        return gmv_fail(err, GMV_ERR_BODY_TOO_LARGE, NULL,
                        "a JSON body of %" PRId64 " bytes is beyond the limit of %" PRIu64,
                        head->body_nbytes, limit);
    gmv_media wanted = route->body == GMV_BODY_JSON ? GMV_MEDIA_JSON : GMV_MEDIA_OCTETS;
    if (gmv_head_media(head) == wanted)
        return GMV_OK;
    if (head->body_nbytes < 0 && route->body == GMV_BODY_JSON) {
        exchange->is_type_wrong = true; /* it may turn out to be empty */
        return GMV_OK;
    }
    return exchange_fail_media(exchange, wanted, err);
}

static bool exchange_is_versioned(const gmv_exchange *exchange)
{
    return strncmp(exchange->match.route->path, "/v1/", 4) == 0;
}

static gmv_status exchange_read_query(gmv_exchange *exchange, gmv_error *err)
{
    const gmv_route *route = exchange->match.route;
    bool is_strict = exchange_is_versioned(exchange);
    const char *mark = strchr(exchange->target, '?');
    size_t length = mark ? strcspn(mark + 1, "#") : 0;
    return gmv_query_parse(mark ? mark + 1 : "", length, is_strict ? route->query : NULL,
                           &exchange->request.query, err);
}

/* Probes and documents are served whatever a client always sends along. */
static gmv_status exchange_read_session(gmv_exchange *exchange, gmv_error *err)
{
    const gmv_field_value *field = &exchange->head.fields[GMV_FIELD_SESSION];
    if (field->count == 0 || !exchange_is_versioned(exchange))
        return GMV_OK;
    if (field->count > 1)
        return gmv_fail_parameter(err, GMV_ERR_REQUEST_MALFORMED, EXCHANGE_SESSION,
                                  "a request bears one session");
    gmv_id id;
    if (!gmv_id_parse(field->text, field->length, &id) || id.kind != GMV_KIND_SESSION)
        return gmv_fail_parameter(err, GMV_ERR_HANDLE_UNKNOWN, EXCHANGE_SESSION,
                                  "there is no such session");
    exchange->session_id = id;
    return GMV_OK;
}

/* Copied: a worker may outlive the connection and its memory. */
static gmv_status exchange_read_key(gmv_exchange *exchange, gmv_error *err)
{
    const gmv_field_value *key = &exchange->head.fields[GMV_FIELD_IDEMPOTENCY_KEY];
    const gmv_route *route = exchange->match.route;
    if (key->count == 0 || route->method != GMV_METHOD_POST || route->body != GMV_BODY_JSON)
        return GMV_OK;
    if (key->count > 1 || !gmv_idempotency_key_is_valid(key->text, key->length))
        return gmv_fail_parameter(err, GMV_ERR_REQUEST_MALFORMED, "Idempotency-Key",
                                  "a key is one field of 1 to %d visible ASCII characters",
                                  GMV_IDEMPOTENCY_KEY_MAX);
    memcpy(exchange->once_key, key->text, key->length);
    exchange->once_key_length = key->length;
    return GMV_OK;
}

/* Two fields, and one that is longer than any range, are one that cannot be read. */
static void exchange_copy_content_range(gmv_exchange *exchange)
{
    const gmv_field_value *field = &exchange->head.fields[GMV_FIELD_CONTENT_RANGE];
    gmv_request *request = &exchange->request;
    bool is_readable = field->count == 1 && field->length <= sizeof exchange->content_range;
    if (field->count == 0)
        return;
    request->content_range = exchange->content_range;
    request->content_range_length = is_readable ? field->length : 0;
    if (is_readable)
        memcpy(exchange->content_range, field->text, field->length);
}

static gmv_status exchange_examine(gmv_exchange *exchange, const char *method_name, gmv_error *err)
{
    gmv_method method = exchange_read_method(exchange, method_name);
    GMV_TRY(gmv_head_check_framing(&exchange->head, err));
    GMV_TRY(exchange_check_authority(exchange, err));
    if (atomic_load_explicit(&exchange->server->service->draining, memory_order_relaxed))
        return gmv_fail(err, GMV_ERR_DRAINING, NULL, "the daemon is shutting down");
    GMV_TRY(exchange_route(exchange, method, err));
    GMV_TRY(exchange_check_room(exchange, err));
    GMV_TRY(exchange_check_body(exchange, err));
    GMV_TRY(exchange_read_query(exchange, err));
    GMV_TRY(exchange_read_session(exchange, err));
    GMV_TRY(exchange_read_key(exchange, err));
    gmv_request *request = &exchange->request;
    request->service = exchange->server->service;
    request->route = exchange->match.route;
    request->is_head = exchange->is_head_request;
    request->has_id = exchange->match.has_id;
    request->id = exchange->match.id;
    request->content_length = exchange->head.body_nbytes;
    exchange_copy_content_range(exchange);
    const gmv_field_value *last_event_id = &exchange->head.fields[GMV_FIELD_LAST_EVENT_ID];
    request->last_event_id = last_event_id->count ? last_event_id->text : NULL;
    request->last_event_id_length = last_event_id->count == 1 ? last_event_id->length : 0;
    request->request_id = exchange->request_id;
    return GMV_OK;
}

/*
 * Takes what a stream needs. A worker begins it now if the client waits for that or has much to
 * send. A short body is collected first, and all is done in one go: that saves a suspension, and
 * beneath a suspension the library takes a client that has closed its side for one that is gone,
 * although all it sent lies in the buffer.
 */
static void exchange_open_stream(gmv_exchange *exchange)
{
    gmv_server *server = exchange->server;
    bool has_room = atomic_fetch_add(&server->n_uploads, 1) < server->service->max_uploads;
    if (!has_room || !gmv_workers_reserve(server->workers, GMV_LANE_BULK)) {
        atomic_fetch_sub(&server->n_uploads, 1);
        exchange_refuse_with(exchange, GMV_ERR_OVERLOADED,
                             has_room ? "too many requests wait; try again later"
                                      : "too many uploads are under way; try again later");
        return;
    }
    exchange->has_stream = true;
    bool is_long = exchange->head.body_nbytes > (int64_t)GMV_STAGING_NBYTES;
    if ((is_long || gmv_head_expects_continue(&exchange->head)) &&
        !exchange_start(exchange, GMV_TASK_BEGIN, GMV_LANE_BULK))
        exchange_refuse_draining(exchange);
}

static enum MHD_Result exchange_on_head(gmv_exchange *exchange, const char *method,
                                        const char *version)
{
    if (!exchange->is_examined) {
        exchange->is_examined = true;
        exchange_read_head(exchange, version);
        gmv_error err;
        gmv_error_init(&err);
        if (exchange_examine(exchange, method, &err) != GMV_OK)
            exchange_refuse(exchange, &err);
        else if (exchange->request.route->body == GMV_BODY_OCTETS)
            exchange_open_stream(exchange);
        if (exchange->is_suspended)
            return MHD_YES;
    }
    exchange->is_head_done = true;
    if (exchange->head.body_nbytes != 0 && exchange->head.is_framing_safe &&
        exchange_sees_end(exchange))
        exchange_hurry(exchange);
    if (!exchange->is_refused)
        return MHD_YES;
    if (!exchange->head.is_framing_safe || gmv_head_expects_continue(&exchange->head))
        return exchange_answer_refusal(exchange);
    if (exchange->head.body_nbytes != 0)
        exchange_start_dropping(exchange);
    return MHD_YES;
}

/* ---- the body ---- */

static bool exchange_is_too_slow(const gmv_exchange *exchange)
{
    int64_t elapsed = gmv_clock_monotonic_ns() - exchange->started_at_ns;
    return elapsed > EXCHANGE_SLOW_AFTER_NS &&
           exchange->body_seen < (uint64_t)elapsed / 1000000000 * EXCHANGE_SLOW_NBYTES;
}

/* MHD_NO closes; the completion then writes the refusal itself. */
static enum MHD_Result exchange_drop(gmv_exchange *exchange, size_t *nbytes)
{
    exchange->body_dropped += *nbytes;
    *nbytes = 0;
    bool goes_on = exchange->body_dropped <= GMV_DROP_NBYTES &&
                   gmv_clock_monotonic_ns() < exchange->drop_until_ns;
    return goes_on ? MHD_YES : MHD_NO;
}

static bool exchange_keep_json(gmv_exchange *exchange, const char *bytes, size_t nbytes)
{
    gmv_request *request = &exchange->request;
    size_t needed = request->body_nbytes + nbytes;
    if (needed > exchange->body_capacity) {
        size_t capacity = GMV_MAX(exchange->body_capacity * 2, (size_t)4096);
        if (exchange->head.body_nbytes > 0 && exchange->body_capacity == 0)
            capacity = GMV_MIN((size_t)exchange->head.body_nbytes, (size_t)64 << 10);
        capacity = GMV_MAX(capacity, needed);
        char *body = gmv_realloc(exchange->body, capacity);
        if (!body)
            return false;
        exchange->body = body;
        exchange->body_capacity = capacity;
    }
    memcpy(exchange->body + request->body_nbytes, bytes, nbytes);
    request->body_nbytes = needed;
    request->body = exchange->body;
    return true;
}

static void exchange_take_json(gmv_exchange *exchange, const char *bytes, size_t nbytes)
{
    gmv_error err;
    gmv_error_init(&err);
    uint64_t limit = exchange->server->service->max_json_nbytes;
    if (exchange->is_type_wrong)
        (void)exchange_fail_media(exchange, GMV_MEDIA_JSON, &err);
    else if (exchange->body_seen > limit)
        (void)gmv_fail(&err, GMV_ERR_BODY_TOO_LARGE, NULL,
                       "the JSON body is beyond the limit of %" PRIu64 " bytes", limit);
    else if (!exchange_keep_json(exchange, bytes, nbytes))
        (void)gmv_fail_no_memory(&err);
    if (err.status == GMV_OK)
        return;
    exchange_refuse(exchange, &err);
    exchange_start_dropping(exchange);
}

static bool exchange_open_staging(gmv_exchange *exchange)
{
    if (exchange->staging)
        return true;
    size_t capacity = GMV_STAGING_NBYTES + GMV_CONNECTION_NBYTES;
    int64_t expected = exchange->head.body_nbytes;
    if (expected > 0 && expected < (int64_t)capacity)
        capacity = (size_t)expected;
    exchange->staging = gmv_malloc(capacity);
    exchange->staging_capacity = exchange->staging ? capacity : 0;
    return exchange->staging != NULL;
}

/*
 * Fills the staging block; when it is full a worker takes it. There is room behind "full" for all
 * that the library can hold, so that nothing stays in its buffer while the connection is suspended.
 */
static enum MHD_Result exchange_take_octets(gmv_exchange *exchange, const char *bytes,
                                            size_t *nbytes)
{
    if (!exchange_open_staging(exchange)) {
        exchange_refuse_with(exchange, GMV_ERR_OVERLOADED,
                             "the daemon is out of memory; try again later");
        exchange_start_dropping(exchange);
        return exchange_drop(exchange, nbytes);
    }
    size_t taken = GMV_MIN(exchange->staging_capacity - exchange->staging_nbytes, *nbytes);
    memcpy(exchange->staging + exchange->staging_nbytes, bytes, taken);
    exchange->staging_nbytes += taken;
    exchange->body_seen += taken;
    *nbytes -= taken;
    if (exchange->staging_nbytes < GMV_STAGING_NBYTES ||
        (exchange->head.body_nbytes >= 0 &&
         exchange->body_seen == (uint64_t)exchange->head.body_nbytes))
        return MHD_YES;
    if (exchange_start(exchange, GMV_TASK_APPEND, GMV_LANE_BULK))
        return MHD_YES;
    exchange_refuse_draining(exchange);
    return MHD_NO;
}

static enum MHD_Result exchange_take_body(gmv_exchange *exchange, const char *bytes, size_t *nbytes)
{
    if (exchange->is_refused)
        return exchange_drop(exchange, nbytes);
    if (exchange_is_too_slow(exchange))
        return MHD_NO;
    if (exchange->request.route->body == GMV_BODY_OCTETS)
        return exchange_take_octets(exchange, bytes, nbytes);
    exchange->body_seen += *nbytes;
    exchange_take_json(exchange, bytes, *nbytes);
    *nbytes = 0;
    return MHD_YES;
}

static enum MHD_Result exchange_on_body(gmv_exchange *exchange, const char *bytes, size_t *nbytes)
{
    enum MHD_Result result = exchange_take_body(exchange, bytes, nbytes);
    if (result == MHD_NO || exchange->is_suspended || *nbytes)
        return result;
    return exchange_look_for_end(exchange);
}

/* ---- the end ---- */

/* Hands the whole request to a worker. */
static enum MHD_Result exchange_hand_over(gmv_exchange *exchange, gmv_lane lane)
{
    gmv_workers *workers = exchange->server->workers;
    if (!gmv_workers_reserve(workers, lane)) {
        exchange_refuse_with(exchange, GMV_ERR_OVERLOADED,
                             "too many requests wait; try again later");
        return exchange_answer_refusal(exchange);
    }
    if (exchange_start(exchange, GMV_TASK_HANDLE, lane))
        return MHD_YES;
    gmv_workers_unreserve(workers, lane);
    exchange_refuse_draining(exchange);
    return exchange_answer_refusal(exchange);
}

static enum MHD_Result exchange_run_whole(gmv_exchange *exchange)
{
    gmv_request *request = &exchange->request;
    gmv_lane lane = request->route->lane;
    if (lane != GMV_LANE_INLINE)
        return exchange_hand_over(exchange, lane);
    if (request->body_nbytes > GMV_INLINE_JSON_NBYTES)
        return exchange_hand_over(exchange, GMV_LANE_SHORT);
    if (exchange_handle(exchange, GMV_LANE_INLINE, NULL) == GMV_MOVE_TO_BULK)
        return exchange_hand_over(exchange, GMV_LANE_BULK);
    return gmv__respond(exchange, &exchange->reply);
}

/*
 * Whether a worker will be needed. Then the library is let go round once more before we suspend:
 * its state is now "wait for the application", so that it will not read when the connection is
 * resumed, and a client that has closed its side after the request still gets the answer.
 */
static bool exchange_goes_round(gmv_exchange *exchange)
{
    const gmv_request *request = &exchange->request;
    bool is_inline =
        request->route->lane == GMV_LANE_INLINE && request->body_nbytes <= GMV_INLINE_JSON_NBYTES;
    bool goes_round = !is_inline && !exchange->has_gone_round;
    exchange->has_gone_round = true;
    return goes_round;
}

static enum MHD_Result exchange_on_end(gmv_exchange *exchange)
{
    if (exchange->has_own_timeout)
        exchange_set_timeout(exchange, exchange->server->service->idle_timeout_seconds);
    if (exchange->is_refused)
        return exchange_answer_refusal(exchange);
    if (exchange->has_run)
        return gmv__respond(exchange, &exchange->reply);
    if (exchange_goes_round(exchange))
        return MHD_YES;
    if (exchange->request.route->body != GMV_BODY_OCTETS)
        return exchange_run_whole(exchange);
    if (exchange_start(exchange, GMV_TASK_FINISH, GMV_LANE_BULK))
        return MHD_YES;
    exchange_refuse_draining(exchange);
    return exchange_answer_refusal(exchange);
}

/* The connection is no longer suspended: takes over what the worker left. */
static void exchange_take_outcome(gmv_exchange *exchange)
{
    exchange->is_suspended = false;
    if (atomic_load(&exchange->is_abandoned)) {
        exchange->is_given_up = true;
        exchange_refuse_draining(exchange);
    } else if (exchange->task_failed) {
        exchange->is_refused = true;
        exchange->refusal = exchange->reply;
        exchange->reply = (gmv_answer){0};
    }
}

enum MHD_Result gmv__exchange_on_call(void *server, struct MHD_Connection *connection,
                                      const char *url, const char *method, const char *version,
                                      const char *upload, size_t *upload_nbytes, void **context)
{
    gmv_exchange *exchange = *context;
    if (!exchange)
        return MHD_NO;
    if (exchange->is_suspended) {
        const union MHD_ConnectionInfo *info =
            MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_SUSPENDED);
        if (info && info->suspended == MHD_YES)
            return MHD_YES;
        exchange_take_outcome(exchange);
        if (exchange->is_refused && exchange->is_head_done)
            exchange_start_dropping(exchange);
    }
    if (!exchange->is_head_done)
        return exchange_on_head(exchange, method, version);
    if (*upload_nbytes)
        return exchange_on_body(exchange, upload, upload_nbytes);
    return exchange_on_end(exchange);
}

void gmv__exchange_on_completed(void *context, struct MHD_Connection *connection,
                                void **request_context, enum MHD_RequestTerminationCode code)
{
    gmv_server *server = context;
    gmv_exchange *exchange = *request_context;
    *request_context = NULL;
    if (exchange) {
        gmv__senders_leave(exchange);
        if (exchange->is_suspended)
            exchange_take_outcome(exchange);
        bool is_cut = code == MHD_REQUEST_TERMINATED_CLIENT_ABORT ||
                      (code == MHD_REQUEST_TERMINATED_TIMEOUT_REACHED && exchange->is_hurried);
        if (!exchange->is_answered && is_cut && exchange->is_examined && !exchange->is_refused)
            exchange_refuse_cut(exchange);
        if (!exchange->is_answered && exchange->is_refused)
            gmv__respond_raw(exchange, &exchange->refusal);
        int64_t duration_ns = gmv_clock_monotonic_ns() - exchange->started_at_ns;
        gmv_metrics *metrics = server->service->metrics;
        gmv_metrics_count_request(metrics, exchange->route_index, exchange->method_label,
                                  exchange->http_status, duration_ns);
        if (!exchange->is_given_up && exchange->match.route &&
            exchange->match.route->body == GMV_BODY_OCTETS)
            gmv_metrics_count_transfer(metrics, true, exchange->body_seen);
        exchange_log(exchange, duration_ns);
        exchange_unref(exchange, false);
    }
    atomic_fetch_add(&server->n_completed, 1);
}
