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

/* The response dies, on an HTTP thread; what is left to free is freed by maintenance. */
static void respond_free_bytes(void *context)
{
    gmv_bytes *bytes = context;
    gmv_bytes_release(bytes);
    gmv_free(bytes);
}

static void respond_reply_fini(gmv_reply *reply)
{
    gmv_strbuf_fini(&reply->text);
    if (reply->has_bytes)
        gmv_bytes_release(&reply->bytes);
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

/* Cuts the contents to the range that was asked for; false when it cannot be satisfied. */
static void respond_cut_range(gmv_exchange *exchange, gmv_answer *answer, uint64_t *out_first,
                              uint64_t *nbytes)
{
    const gmv_field_value *range = &exchange->head.fields[GMV_FIELD_RANGE];
    const gmv_field_value *if_range = &exchange->head.fields[GMV_FIELD_IF_RANGE];
    gmv_reply *reply = &answer->reply;
    if (range->count != 1 || exchange->method_label != GMV_METHOD_LABEL_GET ||
        reply->http_status != 200)
        return;
    if (if_range->count && (if_range->count > 1 || !reply->etag[0] || if_range->text[0] != '"' ||
                            !gmv_etag_listed(if_range, reply->etag, false)))
        return;
    uint64_t first, last;
    switch (gmv_range_parse(range->text, range->length, *nbytes, &first, &last)) {
    case GMV_RANGE_WHOLE:
        return;
    case GMV_RANGE_PART:
        snprintf(answer->content_range, sizeof answer->content_range,
                 "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64, first, last, *nbytes);
        *out_first = first;
        *nbytes = last - first + 1;
        reply->http_status = 206;
        return;
    case GMV_RANGE_UNSATISFIABLE:
        break;
    }
    uint64_t whole = *nbytes;
    respond_fail(exchange, answer, GMV_ERR_RANGE_NOT_SATISFIABLE, "Range",
                 "the range holds no byte of the contents");
    snprintf(answer->content_range, sizeof answer->content_range, "bytes */%" PRIu64, whole);
}

/* ---- responses ---- */

static struct MHD_Response *respond_create_static(const void *body, size_t nbytes)
{
    /* The library takes a non-const pointer and, in persistent mode, only reads from it. */
    union {
        const void *in;
        void *out;
    } pointer = {.in = body};
    return MHD_create_response_from_buffer(nbytes, pointer.out, MHD_RESPMEM_PERSISTENT);
}

/* Takes `bytes` over on success. */
static struct MHD_Response *respond_create_readable(const gmv_bytes *bytes, uint64_t first,
                                                    uint64_t nbytes)
{
    gmv_bytes *sent = gmv_malloc(sizeof *sent);
    if (!sent)
        return NULL;
    *sent = *bytes;
    /* The library takes a non-const pointer and only reads from it. */
    union {
        const void *in;
        void *out;
    } pointer = {.in = nbytes ? (const char *)bytes->host + first : ""};
    struct MHD_Response *response = MHD_create_response_from_buffer_with_free_callback_cls(
        (size_t)nbytes, pointer.out, respond_free_bytes, sent);
    if (!response)
        gmv_free(sent);
    return response;
}

static struct MHD_Response *respond_create_bytes(gmv_exchange *exchange, gmv_answer *answer)
{
    gmv_reply *reply = &answer->reply;
    uint64_t first = 0, nbytes = reply->bytes.nbytes;
    respond_cut_range(exchange, answer, &first, &nbytes);
    if (!reply->has_bytes)
        return NULL;
    struct MHD_Response *response =
        gmv_bytes_are_remote(&reply->bytes)
            ? gmv__download_respond(exchange, &reply->bytes, first, nbytes)
            : respond_create_readable(&reply->bytes, first, nbytes);
    if (!response)
        return NULL;
    reply->has_bytes = false;
    if (!exchange->is_head_request)
        gmv_metrics_count_transfer(exchange->server->service->metrics, false, nbytes);
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
    const char *type = reply->content_type ? reply->content_type : "application/json";
    return respond_add(response, "X-Request-Id", exchange->request_id) &&
           respond_add(response, "Content-Type", reply->http_status == 304 ? NULL : type) &&
           respond_add(response, "Cache-Control", respond_caching(reply->caching)) &&
           respond_add(response, "ETag", reply->etag) &&
           respond_add(response, "Location", reply->location) &&
           respond_add(response, "Content-Range", answer->content_range) &&
           respond_add(response, "Allow", answer->allow) &&
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
