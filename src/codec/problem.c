/* SPDX-License-Identifier: Apache-2.0 */
/* Statuses in HTTP, and problem documents. A forgotten status is a warning of the compiler. */
#include "codec/problem.h"

#include <string.h>

#include "codec/json_writer.h"

int gmv_problem_http_status(gmv_status status)
{
    switch (status) {
    case GMV_OK:
        return 200;
    case GMV_ERR_JSON_MALFORMED:
    case GMV_ERR_REQUEST_MALFORMED:
        return 400;
    case GMV_ERR_UNAUTHENTICATED:
        return 401;
    case GMV_ERR_SCOPE_MISSING:
    case GMV_ERR_READONLY:
        return 403;
    case GMV_ERR_ROUTE_UNKNOWN:
    case GMV_ERR_HANDLE_UNKNOWN:
        return 404;
    case GMV_ERR_METHOD_NOT_ALLOWED:
        return 405;
    case GMV_ERR_HELD_BY_DEPENDENTS:
    case GMV_ERR_HANDLE_INNER:
    case GMV_ERR_ALREADY_RELEASED:
    case GMV_ERR_HANDLE_EXPORTED_HERE:
    case GMV_ERR_MEMORY_LOST:
    case GMV_ERR_IDEMPOTENCY_IN_FLIGHT:
        return 409;
    case GMV_ERR_HANDLE_DELETED:
        return 410;
    case GMV_ERR_PRECONDITION_FAILED:
        return 412;
    case GMV_ERR_BODY_TOO_LARGE:
        return 413;
    case GMV_ERR_MEDIA_TYPE_UNSUPPORTED:
        return 415;
    case GMV_ERR_RANGE_NOT_SATISFIABLE:
        return 416;
    case GMV_ERR_VALUE:
    case GMV_ERR_TYPE:
    case GMV_ERR_INDEX:
    case GMV_ERR_DTYPE_UNSUPPORTED:
    case GMV_ERR_POINTER_NOT_REGISTERED:
    case GMV_ERR_POINTER_AMBIGUOUS:
    case GMV_ERR_OUT_OF_BOUNDS:
    case GMV_ERR_NOT_CONTIGUOUS:
    case GMV_ERR_KIND_MISMATCH:
    case GMV_ERR_METADATA_INVALID:
    case GMV_ERR_HANDLE_INVALID:
    case GMV_ERR_NOT_EXPORTABLE:
    case GMV_ERR_BACKEND_UNSUPPORTED:
    case GMV_ERR_IDEMPOTENCY_MISMATCH:
        return 422;
    case GMV_ERR_QUOTA_EXCEEDED:
        return 429;
    case GMV_ERR_HEADER_TOO_LARGE:
        return 431;
    case GMV_ERR_OVERLOADED:
    case GMV_ERR_DRAINING:
    case GMV_ERR_DEVICE_LOST:
        return 503;
    case GMV_ERR_DEVICE_OUT_OF_MEMORY:
        return 507;
    case GMV_ERR_INTERNAL:
    case GMV_STATUS_COUNT:
    case GMV_MOVE_TO_BULK:
    case GMV_RUN_AGAIN:
        return 500;
    }
    return 500;
}

/* Reason phrases of RFC 9110, RFC 6585 and RFC 4918. */
static const char *problem_reason_phrase(int http_status)
{
    static const struct {
        int http_status;
        const char *phrase;
    } phrases[] = {
        {200, "OK"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {409, "Conflict"},
        {410, "Gone"},
        {412, "Precondition Failed"},
        {413, "Content Too Large"},
        {415, "Unsupported Media Type"},
        {416, "Range Not Satisfiable"},
        {422, "Unprocessable Content"},
        {429, "Too Many Requests"},
        {431, "Request Header Fields Too Large"},
        {500, "Internal Server Error"},
        {503, "Service Unavailable"},
        {507, "Insufficient Storage"},
    };
    for (size_t i = 0; i < sizeof phrases / sizeof phrases[0]; i++)
        if (phrases[i].http_status == http_status)
            return phrases[i].phrase;
    return "Internal Server Error";
}

/* Members that only some errors have. */
static void problem_write_extras(gmv_json_writer *writer, const gmv_error *err)
{
    if (err->has_subject) {
        gmv_json_member_id(writer, "id", &err->subject);
        gmv_json_member_bool(writer, "alive", err->subject_alive);
        gmv_json_member_string(writer, "reason", err->subject_reason);
    }
    if (err->has_operation)
        gmv_json_member_uint64(writer, "operation", err->operation);
    if (err->status != GMV_ERR_HELD_BY_DEPENDENTS)
        return;
    size_t listed =
        err->dependents_count < GMV_ERROR_IDS_MAX ? err->dependents_count : GMV_ERROR_IDS_MAX;
    gmv_json_put_key(writer, "dependents");
    gmv_json_open_array(writer);
    for (size_t i = 0; i < listed; i++)
        gmv_json_put_id(writer, &err->dependents[i]);
    gmv_json_close_array(writer);
    gmv_json_member_uint64(writer, "dependents_count", err->dependents_count);
}

void gmv_problem_write(gmv_strbuf *out, const gmv_error *err, const char *request_id)
{
    int http_status = gmv_problem_http_status(err->status);
    bool told = http_status != 500;
    gmv_json_writer writer = gmv_json_writer_over(out);
    gmv_json_open_object(&writer);
    gmv_json_member_string(&writer, "type", "about:blank");
    gmv_json_member_string(&writer, "title", problem_reason_phrase(http_status));
    gmv_json_member_int64(&writer, "status", http_status);
    gmv_json_member_string(&writer, "code", gmv_status_code(told ? err->status : GMV_ERR_INTERNAL));
    gmv_json_member_string(&writer, "detail",
                           told ? err->message
                                : "a fault in gmvd; the log has the details under the request id");
    if (told && err->has_pointer)
        gmv_json_member_string(&writer, "pointer", err->pointer);
    if (told && err->parameter[0] != '\0')
        gmv_json_member_string(&writer, "parameter", err->parameter);
    if (told)
        problem_write_extras(&writer, err);
    gmv_json_member_string(&writer, "request_id", request_id);
    gmv_json_close_object(&writer);
}
