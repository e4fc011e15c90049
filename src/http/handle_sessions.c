/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions, and the leases of single handles. */
#include <stdio.h>

#include "codec/cursor.h"
#include "http/handle_priv.h"

#define SESSION_SECONDS_DEFAULT 300
#define SESSION_LIMIT_DEFAULT   100
#define SESSION_LIMIT_MAX       1000

/* An answer to DELETE holds 200 ids at most, each shorter than 40 bytes with quotes and comma. */
#define ENDING_NBYTES_MAX 12288

/* A session as an answer, with the longest label. */
#define SESSION_NBYTES_MAX 8192

static gmv_status session_fail_unknown(gmv_error *err)
{
    return gmv_fail_parameter(err, GMV_ERR_HANDLE_UNKNOWN, "id", "there is no such session");
}

/* ---- create ---- */

typedef struct session_members {
    int64_t ttl_seconds;
    int bind;
    gmv_text label;
} session_members;

enum { BIND_NONE = -1 };

static const char *const session_bindings[] = {"connection", "process", NULL};

static const gmv_field session_fields[] = {
    GMV_FIELD("ttl_seconds", INT64, session_members, ttl_seconds),
    {"bind", GMV_FIELD_NAME, false, offsetof(session_members, bind), .names = session_bindings},
    GMV_FIELD("label", LABEL, session_members, label),
    GMV_FIELD_END,
};

/* The session is made last: nothing can fail behind it. */
static gmv_status session_create_run(gmv_request *request, gmv_reply *reply, void *context,
                                     gmv_document *document, gmv_error *err)
{
    const session_members *members = context;
    gmv_session_info info;
    if (members->ttl_seconds < 1 || members->ttl_seconds > GMV_SESSION_SECONDS_MAX)
        return gmv_fail(err, GMV_ERR_VALUE, "/ttl_seconds",
                        "%lld is no length of a session's lease; it lasts 1 to %d seconds",
                        (long long)members->ttl_seconds, GMV_SESSION_SECONDS_MAX);
    if (members->bind != BIND_NONE)
        return gmv_fail(err, GMV_ERR_VALUE, "/bind",
                        "a session can be bound to a %s on a Unix socket only; leave bind out and "
                        "let the lease end it",
                        session_bindings[members->bind]);
    GMV_TRY(gmv_reply_reserve(reply, SESSION_NBYTES_MAX, err));
    GMV_TRY(gmv_session_create(gmv_request_registry(request), &request->operation->caller,
                               members->label.text, members->label.length,
                               (uint32_t)members->ttl_seconds, &info, err));
    gmv_json_writer writer = gmv_json_writer_over(&reply->text);
    gmv_encode_session(&writer, &info);
    char id[GMV_ID_TEXT_MAX];
    gmv_id_format(&info.id, id);
    snprintf(reply->location, sizeof reply->location, "/v1/sessions/%s", id);
    reply->http_status = 201;
    return gmv_reply_finish(reply, err);
}

GMV_HANDLER(session_create)
{
    session_members members = {.ttl_seconds = SESSION_SECONDS_DEFAULT, .bind = BIND_NONE};
    return gmv_handle_body(request, reply, session_fields, &members, session_create_run, err);
}

/* ---- look ---- */

static const char session_cursor_of[] = "sessions";

static void sessions_visit(void *context, const gmv_session_info *info)
{
    gmv_encode_session(context, info);
}

static gmv_status sessions_read_cursor(const gmv_query *query, uint64_t *out_position,
                                       gmv_error *err)
{
    const gmv_query_parameter *cursor = gmv_query_find(query, "cursor");
    *out_position = 0;
    if (cursor == NULL)
        return GMV_OK;
    if (cursor->value == NULL ||
        !gmv_cursor_parse(cursor->value, cursor->value_length, session_cursor_of,
                          sizeof session_cursor_of, out_position))
        return gmv_fail_parameter(err, GMV_ERR_REQUEST_MALFORMED, "cursor",
                                  "not a cursor of this list");
    return GMV_OK;
}

GMV_HANDLER(sessions_list)
{
    int64_t limit;
    uint64_t position, next;
    GMV_TRY(gmv_query_int64(&request->query, "limit", 1, SESSION_LIMIT_MAX, SESSION_LIMIT_DEFAULT,
                            &limit, err));
    GMV_TRY(sessions_read_cursor(&request->query, &position, err));
    gmv_json_writer writer = gmv_json_writer_over(&reply->text);
    gmv_json_open_object(&writer);
    gmv_json_put_key(&writer, "items");
    gmv_json_open_array(&writer);
    gmv_session_list(gmv_request_registry(request), &request->operation->caller, position,
                     (size_t)limit, sessions_visit, &writer, &next);
    gmv_json_close_array(&writer);
    if (next == 0) {
        gmv_json_member_null(&writer, "next_cursor");
    } else {
        char text[GMV_CURSOR_TEXT_MAX];
        gmv_cursor_format(next, session_cursor_of, sizeof session_cursor_of, text);
        gmv_json_member_string(&writer, "next_cursor", text);
    }
    gmv_json_close_object(&writer);
    reply->caching = GMV_CACHING_NO_STORE;
    return gmv_reply_finish(reply, err);
}

GMV_HANDLER(session_get)
{
    gmv_session_info info;
    if (!request->has_id || request->id.kind != GMV_KIND_SESSION)
        return session_fail_unknown(err);
    GMV_TRY(gmv_session_describe(gmv_request_registry(request), &request->operation->caller,
                                 &request->id, &info, err));
    gmv_json_writer writer = gmv_json_writer_over(&reply->text);
    gmv_encode_session(&writer, &info);
    reply->caching = GMV_CACHING_NO_STORE;
    return gmv_reply_finish(reply, err);
}

/* ---- end ---- */

GMV_HANDLER(session_delete)
{
    gmv_deletion deletion;
    if (!request->has_id || request->id.kind != GMV_KIND_SESSION)
        return session_fail_unknown(err);
    GMV_TRY(gmv_reply_reserve(reply, ENDING_NBYTES_MAX, err));
    GMV_TRY(gmv_session_end(gmv_request_registry(request), &request->operation->caller,
                            &request->id, &deletion, err));
    gmv_json_writer writer = gmv_json_writer_over(&reply->text);
    gmv_encode_deletion(&writer, &deletion);
    return gmv_reply_finish(reply, err);
}

/* ---- leases ---- */

typedef struct lease_members {
    gmv_optional_int64 ttl_seconds;
} lease_members;

static const gmv_field lease_fields[] = {
    GMV_FIELD("ttl_seconds", OPTIONAL_INT64, lease_members, ttl_seconds),
    GMV_FIELD_END,
};

/* Room first: a changed lease cannot be taken back. */
#define LEASE_NBYTES_MAX 12288

static gmv_status lease_run(gmv_request *request, gmv_reply *reply, void *context,
                            gmv_document *document, gmv_error *err)
{
    const gmv_optional_int64 *ttl = &((const lease_members *)context)->ttl_seconds;
    gmv_handle_info info;
    if (ttl->given && (ttl->value < 1 || ttl->value > GMV_LEASE_SECONDS_MAX))
        return gmv_fail(err, GMV_ERR_VALUE, "/ttl_seconds",
                        "%lld is no length of a lease; it lasts 1 to %d seconds, null for ever",
                        (long long)ttl->value, GMV_LEASE_SECONDS_MAX);
    if (!request->has_id)
        return gmv_fail_parameter(err, GMV_ERR_HANDLE_UNKNOWN, "id",
                                  "there is no such handle here");
    GMV_TRY(gmv_reply_reserve(reply, LEASE_NBYTES_MAX, err));
    GMV_TRY(gmv_registry_lease(gmv_request_registry(request), &request->operation->caller,
                               &request->id, ttl->given ? (uint32_t)ttl->value : 0, &info, err));
    gmv_json_writer writer = gmv_json_writer_over(&reply->text);
    gmv_encode_handle(&writer, &info);
    return gmv_reply_finish(reply, err);
}

GMV_HANDLER(handle_lease)
{
    lease_members members = {0};
    return gmv_handle_body(request, reply, lease_fields, &members, lease_run, err);
}
