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

#include "http/exchange_priv.h"

#include <inttypes.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>

#define EXCHANGE_HURRY_S        1
#define EXCHANGE_DROP_SILENCE_S 2           /* a refused client that sends no more hears why */
#define EXCHANGE_DROP_NS        10000000000 /* one that goes on slowly, too */
#define EXCHANGE_STAGED         ((size_t)64 << 10) /* of a body, at first */
#define EXCHANGE_SLOW_AFTER_NS  60000000000        /* from then on a body must keep this pace: */
#define EXCHANGE_SLOW_NBYTES    1024               /* bytes a second */

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
    exchange->job.run = gmv__exchange_run;
    exchange->started_at_ns = gmv_clock_monotonic_ns();
    exchange->route_index = GMV_METRICS_NO_ROUTE;
    exchange->method_label = GMV_METHOD_LABEL_OTHER;
    atomic_init(&exchange->references, 1);
    return exchange;
}

static void exchange_free(gmv_exchange *exchange)
{
    gmv__exchange_close_stream(exchange, true);
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

void gmv__exchange_unref(gmv_exchange *exchange, bool may_block)
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
    exchange_refuse_with(exchange, GMV_ERR_DRAINING, EXCHANGE_DRAINING);
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

/* ---- the client's end ---- */

static int exchange_socket(const gmv_exchange *exchange)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(exchange->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    return info ? info->connect_fd : -1;
}

static bool exchange_is_dry(int socket_fd)
{
    int n_waiting = 0;
    return ioctl(socket_fd, FIONREAD, &n_waiting) == 0 && n_waiting == 0;
}

/*
 * Whether the client has closed its side and nothing waits in the socket. The library polls edge by
 * edge: an end that came together with the last bytes is never told to it.
 */
static bool exchange_sees_end(const gmv_exchange *exchange)
{
    struct pollfd polled = {.fd = exchange_socket(exchange), .events = POLLRDHUP};
    return polled.fd >= 0 && poll(&polled, 1, 0) == 1 && exchange_is_dry(polled.fd);
}

/* What is missing of the body may lie in the library's buffer; if it does not, time tells soon. */
static void exchange_hurry(gmv_exchange *exchange)
{
    exchange->is_hurried = true;
    exchange_set_timeout(exchange, EXCHANGE_HURRY_S);
}

static void exchange_refuse_cut(gmv_exchange *exchange)
{
    if (atomic_load(&exchange->is_displaced))
        exchange_refuse_with(exchange, GMV_ERR_OVERLOADED,
                             "the upload paused while others waited for its place; send it again");
    else
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

/*
 * Takes what a stream needs. A worker begins it now if the client waits for that or has much to
 * send. A short body is collected first, and all is done in one go: that saves a suspension, and
 * beneath a suspension the library takes a client that has closed its side for one that is gone,
 * although all it sent lies in the buffer.
 */
static void exchange_open_stream(gmv_exchange *exchange)
{
    gmv_server *server = exchange->server;
    bool has_room = gmv__receivers_join(exchange);
    if (!has_room || !gmv_workers_reserve(server->workers, GMV_LANE_BULK)) {
        gmv__receivers_leave(exchange);
        exchange_refuse_with(exchange, GMV_ERR_OVERLOADED,
                             has_room ? EXCHANGE_OVERLOADED
                                      : "too many uploads are under way; try again later");
        return;
    }
    exchange->has_stream = true;
    bool is_long = exchange->head.body_nbytes > (int64_t)GMV_STAGING_NBYTES;
    if ((is_long || gmv_head_expects_continue(&exchange->head)) &&
        !gmv__exchange_start(exchange, GMV_TASK_BEGIN, GMV_LANE_BULK))
        exchange_refuse_draining(exchange);
}

static enum MHD_Result exchange_on_head(gmv_exchange *exchange, const char *url, const char *method,
                                        const char *version)
{
    if (!exchange->is_examined) {
        exchange->is_examined = true;
        gmv__exchange_read_head(exchange, url, method, version);
        gmv_error err;
        gmv_error_init(&err);
        if (gmv__exchange_examine(exchange, method, &err) != GMV_OK)
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
        (void)gmv__exchange_fail_media(exchange, GMV_MEDIA_JSON, &err);
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

/* Room for what has come, doubling up to a whole block: a client that pauses early holds little. */
static bool exchange_widen_staging(gmv_exchange *exchange, size_t more)
{
    const size_t largest = GMV_STAGING_NBYTES + GMV_CONNECTION_NBYTES;
    int64_t expected = exchange->head.body_nbytes;
    size_t limit = expected > 0 && expected < (int64_t)largest ? (size_t)expected : largest;
    size_t needed = GMV_MIN(exchange->staging_nbytes + more, limit);
    if (needed <= exchange->staging_capacity)
        return true;
    size_t capacity = GMV_MAX(GMV_MAX(2 * exchange->staging_capacity, needed), EXCHANGE_STAGED);
    capacity = GMV_MIN(capacity, limit);
    unsigned char *staging = gmv_realloc(exchange->staging, capacity);
    if (!staging)
        return false;
    exchange->staging = staging;
    exchange->staging_capacity = capacity;
    return true;
}

/*
 * Fills the staging block; when it is full a worker takes it. There is room behind "full" for all
 * that the library can hold, so that nothing stays in its buffer while the connection is suspended.
 */
static enum MHD_Result exchange_take_octets(gmv_exchange *exchange, const char *bytes,
                                            size_t *nbytes)
{
    gmv__receivers_hear(exchange);
    if (!exchange_widen_staging(exchange, *nbytes)) {
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
    if (gmv__exchange_start(exchange, GMV_TASK_APPEND, GMV_LANE_BULK))
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
        exchange_refuse_with(exchange, GMV_ERR_OVERLOADED, EXCHANGE_OVERLOADED);
        return exchange_answer_refusal(exchange);
    }
    if (gmv__exchange_start(exchange, GMV_TASK_HANDLE, lane))
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
    if (gmv__exchange_handle(exchange, GMV_LANE_INLINE, NULL) == GMV_MOVE_TO_BULK)
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
    if (gmv__exchange_start(exchange, GMV_TASK_FINISH, GMV_LANE_BULK))
        return MHD_YES;
    exchange_refuse_draining(exchange);
    return exchange_answer_refusal(exchange);
}

/* The connection is no longer suspended: takes over what the worker left. */
static void exchange_take_outcome(gmv_exchange *exchange)
{
    exchange->is_suspended = false;
    gmv__receivers_hear(exchange);
    if (atomic_load(&exchange->is_abandoned)) {
        exchange->is_given_up = true;
        exchange_refuse_draining(exchange);
    } else if (exchange->task_failed) {
        exchange->is_refused = true;
        exchange->refusal = exchange->reply;
        exchange->reply = (gmv_answer){0};
    } else if (exchange->staging && exchange_is_dry(exchange_socket(exchange))) {
        /* Who pauses behind a whole block holds none. */
        gmv__exchange_free_staging(exchange);
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
        return exchange_on_head(exchange, url, method, version);
    if (*upload_nbytes)
        return exchange_on_body(exchange, upload, upload_nbytes);
    return exchange_on_end(exchange);
}

/* What a body that was cut, or a refusal that no call could answer, still gets on its way out. */
static void exchange_answer_last(gmv_exchange *exchange, enum MHD_RequestTerminationCode code)
{
    bool is_cut = code == MHD_REQUEST_TERMINATED_CLIENT_ABORT ||
                  (code == MHD_REQUEST_TERMINATED_TIMEOUT_REACHED && exchange->is_hurried);
    if (exchange->is_answered)
        return;
    if (is_cut && exchange->is_examined && !exchange->is_refused)
        exchange_refuse_cut(exchange);
    if (exchange->is_refused)
        gmv__respond_raw(exchange, &exchange->refusal);
}

static void exchange_count(const gmv_exchange *exchange)
{
    gmv_metrics *metrics = exchange->server->service->metrics;
    const gmv_route *route = exchange->match.route;
    int64_t duration_ns = gmv_clock_monotonic_ns() - exchange->started_at_ns;
    gmv_metrics_count_request(metrics, exchange->route_index, exchange->method_label,
                              exchange->http_status, duration_ns);
    if (!exchange->is_given_up && route && route->body == GMV_BODY_OCTETS)
        gmv_metrics_count_transfer(metrics, true, exchange->body_seen);
    exchange_log(exchange, duration_ns);
}

void gmv__exchange_on_completed(void *context, struct MHD_Connection *connection,
                                void **request_context, enum MHD_RequestTerminationCode code)
{
    gmv_server *server = context;
    gmv_exchange *exchange = *request_context;
    *request_context = NULL;
    if (exchange) {
        gmv__senders_leave(exchange);
        gmv__receivers_leave(exchange);
        if (exchange->is_suspended)
            exchange_take_outcome(exchange);
        exchange_answer_last(exchange, code);
        exchange_count(exchange);
        gmv__exchange_unref(exchange, false);
    }
    atomic_fetch_add(&server->n_completed, 1);
}
