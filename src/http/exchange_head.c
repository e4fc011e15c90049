/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The head of a request: its route, and all that can be refused before the first byte of the body.
 * Nothing is answered here; whoever calls turns an error into a refusal.
 */
#include "config.h"

#include "http/exchange_priv.h"

#include <inttypes.h>
#include <string.h>
#include <strings.h>

#define EXCHANGE_SHOWN_MAX 80 /* bytes of a media type in a message */

static enum MHD_Result exchange_add_field(void *context, enum MHD_ValueKind kind, const char *name,
                                          size_t name_length, const char *value,
                                          size_t value_length)
{
    gmv_head_add(context, name, name_length, value, value_length);
    return MHD_YES;
}

/* Whether the version follows the target: otherwise a NUL has cut the target short. */
static bool exchange_target_is_whole(const gmv_exchange *exchange, const char *url,
                                     const char *version)
{
    return (uintptr_t)version - (uintptr_t)url == strlen(exchange->target) + 1;
}

void gmv__exchange_read_head(gmv_exchange *exchange, const char *url, const char *method,
                             const char *version)
{
    gmv_head *head = &exchange->head;
    gmv_head_init(head, version[0] && strcmp(version, "HTTP/1.0") != 0);
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(exchange->connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    bool is_followed = info && !gmv__server_parses_strictly();
    if (is_followed) {
        head->is_torn = !exchange_target_is_whole(exchange, url, version);
        gmv_head_follow(head, version + strlen(version));
    }
    (void)MHD_get_connection_values_n(exchange->connection, MHD_HEADER_KIND, exchange_add_field,
                                      head);
    if (is_followed)
        gmv_head_end(head, method + info->header_size);
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
    return gmv_router_fail_path(exchange->server->router, path, length, NULL, err);
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

gmv_status gmv__exchange_fail_media(const gmv_exchange *exchange, gmv_media wanted, gmv_error *err)
{
    const gmv_field_value *came = &exchange->head.fields[GMV_FIELD_CONTENT_TYPE];
    const char *takes =
        wanted == GMV_MEDIA_JSON ? "application/json (in UTF-8)" : "application/octet-stream";
    const char *remedy = "";
    /* What curl sends of its own accord. */
    if (gmv_head_media(&exchange->head) == GMV_MEDIA_FORM)
        remedy = wanted == GMV_MEDIA_JSON
                     ? "; with curl add -H 'Content-Type: application/json'"
                     : "; with curl write -H 'Content-Type: application/octet-stream' "
                       "--data-binary @FILE";
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
                              "the body came as %.*s; this call takes %s%s", (int)plain, came->text,
                              takes, remedy);
}

/* 0 bytes are bytes, too, but only when they are meant: who forgot the body hears of it. */
static gmv_status exchange_check_absent_body(const gmv_exchange *exchange, gmv_error *err)
{
    if (exchange->match.route->body != GMV_BODY_OCTETS ||
        exchange->head.fields[GMV_FIELD_CONTENT_LENGTH].count)
        return GMV_OK;
    return gmv_fail_parameter(err, GMV_ERR_REQUEST_MALFORMED, "Content-Length",
                              "there is no body; send bytes with a Content-Length or in chunks, or "
                              "Content-Length: 0 if you mean none");
}

static gmv_status exchange_check_body(gmv_exchange *exchange, gmv_error *err)
{
    const gmv_head *head = &exchange->head;
    const gmv_route *route = exchange->match.route;
    uint64_t limit = exchange->server->service->max_json_nbytes;
    if (head->body_nbytes == 0)
        return exchange_check_absent_body(exchange, err);
    if (route->body == GMV_BODY_NONE)
        return gmv_fail(err, GMV_ERR_REQUEST_MALFORMED, NULL, "this call takes no body");
    if (route->body == GMV_BODY_JSON && head->body_nbytes > 0 &&
        (uint64_t)head->body_nbytes > limit)
        return gmv_fail(err, GMV_ERR_BODY_TOO_LARGE, NULL,
                        "a JSON body of %" PRId64 " bytes is beyond the limit of %" PRIu64,
                        head->body_nbytes, limit);
    gmv_media wanted = route->body == GMV_BODY_JSON ? GMV_MEDIA_JSON : GMV_MEDIA_OCTETS;
    if (!gmv_head_is_plain(head))
        return gmv_fail_parameter(err, GMV_ERR_MEDIA_TYPE_UNSUPPORTED, "Content-Encoding",
                                  "the body is compressed; only plain bodies are taken");
    if (gmv_head_media(head) == wanted)
        return GMV_OK;
    if (head->body_nbytes < 0 && route->body == GMV_BODY_JSON) {
        exchange->is_type_wrong = true; /* it may turn out to be empty */
        return GMV_OK;
    }
    return gmv__exchange_fail_media(exchange, wanted, err);
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

/*
 * So that a snapshot need not hold more than is sent. Where the answer is planned the field must
 * count, too; those for which that is not sure are left out here, which costs a whole copy.
 */
static void exchange_copy_range(gmv_exchange *exchange)
{
    const gmv_field_value *field = &exchange->head.fields[GMV_FIELD_RANGE];
    if (field->count != 1 || field->length > sizeof exchange->range ||
        exchange->head.fields[GMV_FIELD_IF_RANGE].count)
        return;
    memcpy(exchange->range, field->text, field->length);
    exchange->request.range = exchange->range;
    exchange->request.range_length = field->length;
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

/*
 * Of what PUT and DELETE change, handles have an entity tag, which begins with the id and the
 * version of the format (the end of a lease may follow); contents that can be written have none.
 */
static bool exchange_must_not_change(const gmv_exchange *exchange)
{
    const gmv_field_value *fields = exchange->head.fields;
    gmv_method method = exchange->match.route->method;
    if (method != GMV_METHOD_PUT && method != GMV_METHOD_DELETE)
        return false;
    char etag[GMV_ETAG_MAX] = "";
    if (method == GMV_METHOD_DELETE && exchange->match.has_id) {
        etag[0] = '"';
        size_t length = 1 + gmv_id_format(&exchange->match.id, etag + 1);
        memcpy(etag + length, "-1", sizeof "-1");
    }
    const gmv_field_value *if_match = &fields[GMV_FIELD_IF_MATCH];
    return (if_match->count && !gmv_etag_listed(if_match, etag, false)) ||
           gmv_etag_listed(&fields[GMV_FIELD_IF_NONE_MATCH], etag, true);
}

gmv_status gmv__exchange_examine(gmv_exchange *exchange, const char *method_name, gmv_error *err)
{
    gmv_method method = exchange_read_method(exchange, method_name);
    GMV_TRY(gmv_head_check_framing(&exchange->head, err));
    GMV_TRY(exchange_check_authority(exchange, err));
    if (atomic_load_explicit(&exchange->server->service->draining, memory_order_relaxed))
        return gmv_fail(err, GMV_ERR_DRAINING, NULL, EXCHANGE_DRAINING);
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
    request->must_not_change = exchange_must_not_change(exchange);
    exchange_copy_content_range(exchange);
    exchange_copy_range(exchange);
    const gmv_field_value *last_event_id = &exchange->head.fields[GMV_FIELD_LAST_EVENT_ID];
    request->last_event_id = last_event_id->count ? last_event_id->text : NULL;
    request->last_event_id_length = last_event_id->count == 1 ? last_event_id->length : 0;
    request->request_id = exchange->request_id;
    return GMV_OK;
}
