/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers: conditional requests, ranges, headers. Header fields belong to the response object, so
 * each answer has a fresh one; bodies that this process can read are never copied.
 */
#include "config.h"

#include "http/server_priv.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "codec/problem.h"
#include "codec/range.h"

static const char respond_no_memory[] =
    "{\"type\":\"about:blank\",\"title\":\"Service Unavailable\",\"status\":503,"
    "\"code\":\"overloaded\",\"detail\":\"the daemon is out of memory; try again later\"}";

/* ---- bodies ---- */

static void respond_reply_fini(gmv_reply *reply)
{
    gmv_strbuf_fini(&reply->text);
    if (reply->has_bytes)
        gmv_bytes_release(&reply->bytes);
    if (reply->has_events)
        gmv_events_leave(reply->events.events);
    *reply = (gmv_reply){0};
}

void gmv__answer_fini(gmv_answer *answer)
{
    respond_reply_fini(&answer->reply);
    *answer = (gmv_answer){0};
}

void gmv__answer_error(gmv_answer *answer, const gmv_error *err, const char *request_id)
{
    gmv__answer_fini(answer);
    gmv_reply *reply = &answer->reply;
    reply->http_status = gmv_problem_http_status(err->status);
    reply->content_type = "application/problem+json";
    answer->is_retryable = err->status == GMV_ERR_OVERLOADED || err->status == GMV_ERR_DRAINING;
    answer->closes = reply->http_status == 400 || err->status == GMV_ERR_DRAINING;
    gmv_problem_write(&reply->text, err, request_id);
    if (!gmv_strbuf_failed(&reply->text))
        return;
    gmv_strbuf_fini(&reply->text);
    reply->http_status = 503;
    reply->static_body = respond_no_memory;
    reply->static_nbytes = sizeof respond_no_memory - 1;
    answer->is_retryable = true;
}

/* ---- conditions ---- */

static void respond_fail(gmv_exchange *exchange, gmv_answer *answer, gmv_status status,
                         const char *parameter, const char *message)
{
    gmv_error err;
    gmv_error_init(&err);
    (void)gmv_fail_parameter(&err, status, parameter, "%s", message);
    gmv__answer_error(answer, &err, exchange->request_id);
}

static bool respond_is_get(const gmv_exchange *exchange)
{
    return exchange->method_label == GMV_METHOD_LABEL_GET ||
           exchange->method_label == GMV_METHOD_LABEL_HEAD;
}

/* If-Match and If-None-Match against what is about to be sent. */
static void respond_check_conditions(gmv_exchange *exchange, gmv_answer *answer)
{
    const gmv_field_value *fields = exchange->head.fields;
    gmv_reply *reply = &answer->reply;
    if (!respond_is_get(exchange) || reply->http_status != 200)
        return;
    if (fields[GMV_FIELD_IF_MATCH].count &&
        !gmv_etag_listed(&fields[GMV_FIELD_IF_MATCH], reply->etag, false)) {
        respond_fail(exchange, answer, GMV_ERR_PRECONDITION_FAILED, "If-Match",
                     "no entity tag of the list is the one of this resource");
        return;
    }
    if (!reply->etag[0] || !gmv_etag_listed(&fields[GMV_FIELD_IF_NONE_MATCH], reply->etag, true))
        return;
    gmv_reply not_modified = {.http_status = 304, .caching = reply->caching};
    memcpy(not_modified.etag, reply->etag, sizeof not_modified.etag);
    respond_reply_fini(reply);
    *reply = not_modified;
}

/* ---- ranges ---- */

static void plan_add(gmv_body_plan *plan, gmv_segment segment)
{
    plan->segments[plan->n_segments++] = segment;
    plan->nbytes += segment.nbytes;
}

static void plan_add_range(gmv_body_plan *plan, const gmv_byte_range *range)
{
    plan_add(plan, (gmv_segment){.first = range->first, .nbytes = range->last - range->first + 1});
}

/* The texts are written one behind the other, and each part knows where its own ends. */
static bool plan_parts(gmv_answer *answer, const gmv_byte_ranges *ranges, uint64_t total,
                       gmv_body_plan *plan)
{
    gmv_strbuf text = GMV_STRBUF_INIT;
    char boundary[GMV_BOUNDARY_MAX];
    size_t ends[GMV_RANGES_MAX + 1], at = 0;
    if (!gmv_multipart_boundary(boundary))
        return false;
    for (size_t i = 0; i < ranges->count; i++) {
        gmv_multipart_open_part(&text, boundary, answer->reply.content_type, &ranges->items[i],
                                total, i == 0);
        ends[i] = text.length;
    }
    gmv_multipart_close(&text, boundary);
    ends[ranges->count] = text.length;
    plan->text = gmv_strbuf_take(&text, NULL);
    if (!plan->text)
        return false;
    for (size_t i = 0; i <= ranges->count; at = ends[i++]) {
        plan_add(plan, (gmv_segment){.text = plan->text + at, .nbytes = ends[i] - at});
        if (i < ranges->count)
            plan_add_range(plan, &ranges->items[i]);
    }
    snprintf(answer->multipart_type, sizeof answer->multipart_type,
             "multipart/byteranges; boundary=%s", boundary);
    return true;
}

static bool plan_one(gmv_answer *answer, const gmv_byte_range *range, uint64_t total,
                     gmv_body_plan *plan)
{
    snprintf(answer->content_range, sizeof answer->content_range,
             "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64, range->first, range->last, total);
    plan_add_range(plan, range);
    return true;
}

static bool plan_whole(uint64_t total, gmv_body_plan *plan)
{
    plan_add(plan, (gmv_segment){.nbytes = total});
    return true;
}

/* Whether Range counts: not if If-Range names other contents than those that are sealed here. */
static bool respond_honours_range(const gmv_exchange *exchange, const gmv_reply *reply)
{
    const gmv_field_value *range = &exchange->head.fields[GMV_FIELD_RANGE];
    const gmv_field_value *if_range = &exchange->head.fields[GMV_FIELD_IF_RANGE];
    if (range->count != 1 || exchange->method_label != GMV_METHOD_LABEL_GET ||
        reply->http_status != 200)
        return false;
    return if_range->count == 0 ||
           (if_range->count == 1 && reply->etag[0] && if_range->text[0] == '"' &&
            gmv_etag_listed(if_range, reply->etag, false));
}

static void respond_fail_range(gmv_exchange *exchange, gmv_answer *answer, uint64_t total)
{
    respond_fail(exchange, answer, GMV_ERR_RANGE_NOT_SATISFIABLE, "Range",
                 "the range holds no byte of the contents");
    snprintf(answer->content_range, sizeof answer->content_range, "bytes */%" PRIu64, total);
}

/*
 * What of the contents is sent. False without memory; an answer without contents (416) has an empty
 * plan.
 */
static bool respond_plan(gmv_exchange *exchange, gmv_answer *answer, gmv_body_plan *plan)
{
    const gmv_field_value *range = &exchange->head.fields[GMV_FIELD_RANGE];
    gmv_reply *reply = &answer->reply;
    uint64_t total = reply->bytes.nbytes;
    gmv_byte_ranges ranges;
    if (!respond_honours_range(exchange, reply))
        return plan_whole(total, plan);
    switch (gmv_range_parse(range->text, range->length, total, &ranges)) {
    case GMV_RANGE_UNSATISFIABLE:
        respond_fail_range(exchange, answer, total);
        return true;
    case GMV_RANGE_PART:
        reply->http_status = 206;
        return ranges.count == 1 ? plan_one(answer, &ranges.items[0], total, plan)
                                 : plan_parts(answer, &ranges, total, plan);
    case GMV_RANGE_WHOLE:
        break;
    }
    return plan_whole(total, plan);
}

/* ---- responses ---- */

/* The library takes non-const pointers to what it only reads. */
static void *respond_unconst(const void *bytes)
{
    union {
        const void *in;
        void *out;
    } pointer = {.in = bytes};
    return pointer.out;
}

static struct MHD_Response *respond_create_static(const void *body, size_t nbytes)
{
    return MHD_create_response_from_buffer(nbytes, respond_unconst(body), MHD_RESPMEM_PERSISTENT);
}

/* Contents that are sent from where they lie, and what is sent between them. */
typedef struct respond_sent {
    gmv_bytes bytes;
    char *text;
} respond_sent;

/* The response dies, on an HTTP thread; what is left to free is freed by maintenance. */
static void respond_free_sent(void *context)
{
    respond_sent *sent = context;
    gmv_bytes_release(&sent->bytes);
    gmv_free(sent->text);
    gmv_free(sent);
}

static void respond_add_piece(struct MHD_IoVec *pieces, size_t *n_pieces, const void *bytes,
                              uint64_t offset, uint64_t nbytes)
{
    if (nbytes > 0)
        pieces[(*n_pieces)++] = (struct MHD_IoVec){(const char *)bytes + offset, (size_t)nbytes};
}

/* A segment is one piece, or two where it begins in the prefix and ends behind it. */
static void respond_add_segment(struct MHD_IoVec *pieces, size_t *n_pieces, const gmv_bytes *bytes,
                                const gmv_segment *segment)
{
    if (segment->text) {
        respond_add_piece(pieces, n_pieces, segment->text, 0, segment->nbytes);
        return;
    }
    uint64_t prefix = bytes->prefix_nbytes;
    uint64_t before =
        segment->first < prefix ? GMV_MIN(prefix - segment->first, segment->nbytes) : 0;
    respond_add_piece(pieces, n_pieces, bytes->prefix, segment->first, before);
    respond_add_piece(pieces, n_pieces, bytes->host, segment->first + before - prefix,
                      segment->nbytes - before);
}

static struct MHD_Response *respond_create_pieces(const gmv_bytes *bytes, const gmv_body_plan *plan,
                                                  respond_sent *sent)
{
    struct MHD_IoVec pieces[GMV_SEGMENTS_MAX + 1];
    size_t n_pieces = 0;
    for (size_t i = 0; i < plan->n_segments; i++)
        respond_add_segment(pieces, &n_pieces, bytes, &plan->segments[i]);
    if (n_pieces == 1)
        return MHD_create_response_from_buffer_with_free_callback_cls(
            pieces[0].iov_len, respond_unconst(pieces[0].iov_base), respond_free_sent, sent);
    if (n_pieces == 0)
        return MHD_create_response_from_buffer_with_free_callback_cls(0, respond_unconst(""),
                                                                      respond_free_sent, sent);
    return MHD_create_response_from_iovec(pieces, (unsigned)n_pieces, respond_free_sent, sent);
}

/* Takes `bytes` and the plan's text over on success. */
static struct MHD_Response *respond_create_readable(const gmv_bytes *bytes,
                                                    const gmv_body_plan *plan)
{
    respond_sent *sent = gmv_malloc(sizeof *sent);
    if (!sent)
        return NULL;
    *sent = (respond_sent){*bytes, plan->text};
    struct MHD_Response *response = respond_create_pieces(bytes, plan, sent);
    if (!response)
        gmv_free(sent);
    return response;
}

static struct MHD_Response *respond_create_bytes(gmv_exchange *exchange, gmv_answer *answer)
{
    gmv_reply *reply = &answer->reply;
    gmv_body_plan plan = {0};
    bool is_planned = respond_plan(exchange, answer, &plan);
    if (!is_planned || !reply->has_bytes) {
        gmv_free(plan.text);
        return NULL;
    }
    struct MHD_Response *response = gmv_bytes_are_remote(&reply->bytes)
                                        ? gmv__download_respond(exchange, &reply->bytes, &plan)
                                        : respond_create_readable(&reply->bytes, &plan);
    if (!response) {
        gmv_free(plan.text);
        return NULL;
    }
    reply->has_bytes = false;
    if (!exchange->is_head_request) {
        gmv_metrics_count_transfer(exchange->server->service->metrics, false, plan.nbytes);
        gmv__senders_join(exchange, plan.nbytes);
    }
    if (MHD_add_response_header(response, "Accept-Ranges", "bytes") == MHD_NO) {
        MHD_destroy_response(response);
        return NULL;
    }
    return response;
}

static struct MHD_Response *respond_create_text(gmv_reply *reply)
{
    size_t length;
    char *text = gmv_strbuf_take(&reply->text, &length);
    if (!text)
        return NULL;
    struct MHD_Response *response =
        MHD_create_response_from_buffer_with_free_callback(length, text, gmv_free);
    if (!response)
        gmv_free(text);
    return response;
}

static struct MHD_Response *respond_create(gmv_exchange *exchange, gmv_answer *answer)
{
    gmv_reply *reply = &answer->reply;
    if (reply->has_bytes) {
        struct MHD_Response *response = respond_create_bytes(exchange, answer);
        if (response || reply->text.data == NULL)
            return response;
    }
    if (reply->has_events) {
        struct MHD_Response *response = gmv__event_stream_respond(exchange, &reply->events);
        reply->has_events = response == NULL;
        return response;
    }
    if (reply->static_body)
        return respond_create_static(reply->static_body, reply->static_nbytes);
    if (reply->http_status == 304 || (reply->text.length == 0 && !gmv_strbuf_failed(&reply->text)))
        return respond_create_static("", 0);
    return respond_create_text(reply);
}

static const char *respond_caching(gmv_caching caching)
{
    switch (caching) {
    case GMV_CACHING_NO_STORE:
        return "no-store";
    case GMV_CACHING_NO_CACHE:
        return "no-cache";
    case GMV_CACHING_NONE:
        break;
    }
    return NULL;
}

static bool respond_add(struct MHD_Response *response, const char *name, const char *value)
{
    return !value || !value[0] || MHD_add_response_header(response, name, value) == MHD_YES;
}

static bool respond_add_fields(gmv_exchange *exchange, gmv_answer *answer,
                               struct MHD_Response *response)
{
    const gmv_reply *reply = &answer->reply;
    const char *type = answer->multipart_type[0] ? answer->multipart_type
                       : reply->content_type     ? reply->content_type
                                                 : "application/json";
    return respond_add(response, "X-Request-Id", exchange->request_id) &&
           respond_add(response, "Content-Type", reply->http_status == 304 ? NULL : type) &&
           respond_add(response, "Cache-Control", respond_caching(reply->caching)) &&
           respond_add(response, "ETag", reply->etag) &&
           respond_add(response, "Location", reply->location) &&
           respond_add(response, "Content-Range", answer->content_range) &&
           respond_add(response, "Content-Disposition", reply->disposition) &&
           respond_add(response, "Allow", answer->allow) &&
           respond_add(response, "Idempotency-Replayed", answer->is_replayed ? "true" : NULL) &&
           respond_add(response, "Retry-After", answer->is_retryable ? "1" : NULL) &&
           respond_add(response, "Connection", answer->closes ? "close" : NULL);
}

static struct MHD_Response *respond_build(gmv_exchange *exchange, gmv_answer *answer)
{
    struct MHD_Response *response = respond_create(exchange, answer);
    if (response && !respond_add_fields(exchange, answer, response)) {
        MHD_destroy_response(response);
        response = NULL;
    }
    return response;
}

enum MHD_Result gmv__respond(gmv_exchange *exchange, gmv_answer *answer)
{
    if (answer->reply.http_status == 0)
        answer->reply.http_status = 200;
    respond_check_conditions(exchange, answer);
    struct MHD_Response *response = respond_build(exchange, answer);
    if (!response) {
        bool closes = answer->closes;
        gmv_error err;
        gmv_error_init(&err);
        (void)gmv_fail_no_memory(&err);
        gmv__answer_error(answer, &err, exchange->request_id);
        answer->closes = answer->closes || closes;
        response = respond_build(exchange, answer);
    }
    int http_status = answer->reply.http_status;
    gmv__answer_fini(answer);
    if (!response)
        return MHD_NO;
    enum MHD_Result result =
        MHD_queue_response(exchange->connection, (unsigned)http_status, response);
    MHD_destroy_response(response);
    if (result == MHD_YES) {
        exchange->is_answered = true;
        exchange->http_status = http_status;
    }
    return result;
}

void gmv__respond_raw(gmv_exchange *exchange, gmv_answer *answer)
{
    const gmv_reply *reply = &answer->reply;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(exchange->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    if (!info || gmv_strbuf_failed(&reply->text))
        return;
    const char *body = reply->static_body ? reply->static_body : reply->text.data;
    size_t nbytes = reply->static_body ? reply->static_nbytes : reply->text.length;
    gmv_strbuf text = GMV_STRBUF_INIT;
    gmv_strbuf_printf(&text,
                      "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n"
                      "Connection: close\r\nX-Request-Id: %s\r\n",
                      reply->http_status, MHD_get_reason_phrase_for((unsigned)reply->http_status),
                      reply->content_type, nbytes, exchange->request_id);
    if (answer->allow)
        gmv_strbuf_printf(&text, "Allow: %s\r\n", answer->allow);
    if (answer->is_retryable)
        gmv_strbuf_puts(&text, "Retry-After: 1\r\n");
    gmv_strbuf_puts(&text, "\r\n");
    if (!exchange->is_head_request)
        gmv_strbuf_append(&text, body, nbytes);
    if (!gmv_strbuf_failed(&text) && send(info->connect_fd, text.data, text.length,
                                          MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)text.length)
        exchange->http_status = reply->http_status;
    gmv_strbuf_fini(&text);
}
