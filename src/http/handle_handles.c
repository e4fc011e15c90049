/* SPDX-License-Identifier: Apache-2.0 */
/* Lists and lives of handles of any kind. */
#include <string.h>

#include "codec/cursor.h"
#include "http/handle_priv.h"

#define LIST_LIMIT_DEFAULT 100
#define LIST_LIMIT_MAX     1000

/* An answer to DELETE holds 200 ids at most, each shorter than 40 bytes with quotes and comma. */
#define DELETION_NBYTES_MAX 12288

typedef struct list_request {
    gmv_list_filter filter;
    int64_t limit;
    uint64_t position;
    gmv_strbuf bytes; /* the filters, for the cursor's checksum */
} list_request;

/* What the route lists alone; of those that list all the parameter chooses. */
static gmv_status list_read_kind(const gmv_request *request, gmv_kind *out_kind, gmv_error *err)
{
    const gmv_query_parameter *kind = gmv_query_find(&request->query, "kind");
    *out_kind = request->route->kind;
    if (kind == NULL)
        return GMV_OK;
    for (int i = GMV_KIND_BUFFER; i <= GMV_KIND_PACKED && kind->value != NULL; i++) {
        if (strcmp(kind->value, gmv_kind_name((gmv_kind)i)) == 0) {
            *out_kind = (gmv_kind)i;
            return GMV_OK;
        }
    }
    return gmv_fail_parameter(err, GMV_ERR_REQUEST_MALFORMED, "kind",
                              "kind must be buffer, view, column, table or packed");
}

/* A session that nobody has gives an empty list, and so does a text that is no session's id. */
static void list_read_session(const gmv_query *query, gmv_id *out_session)
{
    const gmv_query_parameter *session = gmv_query_find(query, "session");
    *out_session = (gmv_id){0};
    if (session == NULL)
        return;
    if (session->value == NULL ||
        !gmv_id_parse(session->value, session->value_length, out_session) ||
        out_session->kind != GMV_KIND_SESSION)
        *out_session = (gmv_id){.kind = GMV_KIND_SESSION};
}

static gmv_status list_read_filters(const gmv_request *request, list_request *list, gmv_error *err)
{
    gmv_list_filter *filter = &list->filter;
    const gmv_query *query = &request->query;
    GMV_TRY(list_read_kind(request, &filter->kind, err));
    GMV_TRY(gmv_query_flag(query, "all", &filter->all, err));
    list_read_session(query, &filter->session);
    const gmv_query_parameter *label = gmv_query_find(query, "label");
    if (label != NULL) {
        filter->label = label->value != NULL ? label->value : "";
        filter->label_length = label->value_length;
    }
    gmv_strbuf_printf(&list->bytes, "%d %d %d %016llx%016llx %d ", (int)filter->kind, filter->all,
                      (int)filter->session.kind, (unsigned long long)filter->session.high,
                      (unsigned long long)filter->session.low, label != NULL);
    gmv_strbuf_append(&list->bytes, filter->label, filter->label_length);
    return gmv_strbuf_failed(&list->bytes) ? gmv_fail_no_memory(err) : GMV_OK;
}

static gmv_status list_read_cursor(const gmv_query *query, list_request *list, gmv_error *err)
{
    const gmv_query_parameter *cursor = gmv_query_find(query, "cursor");
    list->position = 0;
    if (cursor == NULL)
        return GMV_OK;
    if (cursor->value == NULL ||
        !gmv_cursor_parse(cursor->value, cursor->value_length, list->bytes.data, list->bytes.length,
                          &list->position))
        return gmv_fail_parameter(err, GMV_ERR_REQUEST_MALFORMED, "cursor",
                                  "not a cursor of this list with these filters");
    return GMV_OK;
}

static void list_visit(void *context, const gmv_handle_info *info)
{
    gmv_encode_handle_summary(context, info);
}

static void list_write(gmv_request *request, gmv_reply *reply, const list_request *list)
{
    gmv_json_writer writer = gmv_json_writer_over(&reply->text);
    uint64_t next;
    gmv_json_open_object(&writer);
    gmv_json_put_key(&writer, "items");
    gmv_json_open_array(&writer);
    gmv_registry_list(gmv_request_registry(request), &request->operation->caller, &list->filter,
                      list->position, (size_t)list->limit, list_visit, &writer, &next);
    gmv_json_close_array(&writer);
    if (next == 0) {
        gmv_json_member_null(&writer, "next_cursor");
    } else {
        char text[GMV_CURSOR_TEXT_MAX];
        gmv_cursor_format(next, list->bytes.data, list->bytes.length, text);
        gmv_json_member_string(&writer, "next_cursor", text);
    }
    gmv_json_close_object(&writer);
}

GMV_HANDLER(handles_list)
{
    list_request list = {0};
    gmv_status status = gmv_query_int64(&request->query, "limit", 1, LIST_LIMIT_MAX,
                                        LIST_LIMIT_DEFAULT, &list.limit, err);
    if (status == GMV_OK)
        status = list_read_filters(request, &list, err);
    if (status == GMV_OK)
        status = list_read_cursor(&request->query, &list, err);
    if (status == GMV_OK) {
        list_write(request, reply, &list);
        reply->caching = GMV_CACHING_NO_STORE;
        status = gmv_reply_finish(reply, err);
    }
    gmv_strbuf_fini(&list.bytes);
    return status;
}

static gmv_status handle_fail_unknown(gmv_error *err)
{
    return gmv_fail_parameter(err, GMV_ERR_HANDLE_UNKNOWN, "id", "there is no such handle here");
}

GMV_HANDLER(handle_get)
{
    gmv_handle_info info;
    if (!request->has_id)
        return handle_fail_unknown(err);
    GMV_TRY(gmv_registry_describe(gmv_request_registry(request), &request->operation->caller,
                                  &request->id, &info, err));
    gmv_json_writer writer = gmv_json_writer_over(&reply->text);
    gmv_encode_handle(&writer, &info);
    reply->caching = GMV_CACHING_NO_STORE;
    return gmv_reply_finish(reply, err);
}

static gmv_status delete_read_if_held(const gmv_query *query, gmv_if_held *out_if_held,
                                      gmv_error *err)
{
    static const char *const names[] = {
        [GMV_IF_HELD_KEEP] = "keep",
        [GMV_IF_HELD_REFUSE] = "refuse",
        [GMV_IF_HELD_CASCADE] = "cascade",
    };
    const gmv_query_parameter *parameter = gmv_query_find(query, "if_held");
    *out_if_held = GMV_IF_HELD_KEEP;
    if (parameter == NULL)
        return GMV_OK;
    for (size_t i = 0; i < sizeof names / sizeof names[0] && parameter->value != NULL; i++) {
        if (strcmp(parameter->value, names[i]) == 0) {
            *out_if_held = (gmv_if_held)i;
            return GMV_OK;
        }
    }
    return gmv_fail_parameter(err, GMV_ERR_REQUEST_MALFORMED, "if_held",
                              "if_held must be keep, refuse or cascade");
}

/* A condition counts only where the call would succeed without it. */
static gmv_status delete_check_condition(const gmv_request *request, gmv_error *err)
{
    gmv_handle_info info;
    if (!request->must_not_change)
        return GMV_OK;
    GMV_TRY(gmv_registry_describe(gmv_request_registry(request), &request->operation->caller,
                                  &request->id, &info, err));
    return info.deleted || !info.named ? GMV_OK : gmv_request_fail_condition(err);
}

/* Not through the operation: a reference of its own would keep the object alive. */
GMV_HANDLER(handle_delete)
{
    gmv_if_held if_held;
    gmv_deletion deletion;
    GMV_TRY(delete_read_if_held(&request->query, &if_held, err));
    if (!request->has_id || request->id.kind != request->route->kind)
        return gmv_request_fail_kind(request, err);
    GMV_TRY(delete_check_condition(request, err));
    GMV_TRY(gmv_reply_reserve(reply, DELETION_NBYTES_MAX, err));
    gmv_status status =
        gmv_registry_delete(gmv_request_registry(request), &request->operation->caller,
                            &request->id, request->route->kind, if_held, &deletion, err);
    if (status != GMV_OK)
        return status;
    gmv_json_writer writer = gmv_json_writer_over(&reply->text);
    gmv_encode_deletion(&writer, &deletion);
    return gmv_reply_finish(reply, err);
}
