/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers of the handlers. */
#include <stdio.h>
#include <string.h>

#include <gmv/base/alloc.h>
#include <gmv/base/num.h>

#include "codec/range.h"
#include "codec/utf8.h"
#include "http/handle_priv.h"

#define VALUES_LIMIT_DEFAULT 1000
#define VALUES_LIMIT_MAX     100000

gmv_creation gmv_creation_labelled(const gmv_text *label)
{
    return (gmv_creation){.label = label->text, .label_length = label->length};
}

gmv_creation gmv_creation_of(const gmv_result_members *members)
{
    gmv_creation creation = gmv_creation_labelled(&members->label);
    creation.exportable = members->exportable;
    return creation;
}

gmv_status gmv_creation_from_query(gmv_request *request, gmv_creation *out_creation, gmv_error *err)
{
    const gmv_query_parameter *label = gmv_query_find(&request->query, "label");
    size_t characters;
    int64_t ttl_seconds;
    *out_creation = (gmv_creation){0};
    GMV_TRY(gmv_query_int64(&request->query, "ttl_seconds", 1, GMV_LEASE_SECONDS_MAX, 0,
                            &ttl_seconds, err));
    request->operation->ttl_seconds = (uint32_t)ttl_seconds;
    if (label == NULL)
        return GMV_OK;
    if (label->value == NULL || !gmv_utf8_check(label->value, label->value_length, &characters) ||
        characters > GMV_LABEL_CHARACTERS_MAX)
        return gmv_fail_parameter(err, GMV_ERR_REQUEST_MALFORMED, "label",
                                  "a label has at most %d characters", GMV_LABEL_CHARACTERS_MAX);
    out_creation->label = label->value;
    out_creation->label_length = label->value_length;
    return GMV_OK;
}

gmv_status gmv_handle_body(gmv_request *request, gmv_reply *reply, const gmv_field *fields,
                           void *members, gmv_body_run run, gmv_error *err)
{
    gmv_document document;
    GMV_TRY(gmv_decode_body(request->body, request->body_nbytes, fields, members, &document, err));
    request->operation->ttl_seconds = document.ttl_seconds;
    gmv_status status = run(request, reply, members, &document, err);
    gmv_document_fini(&document);
    return status;
}

gmv_registry *gmv_request_registry(const gmv_request *request)
{
    return request->operation->engine->registry;
}

gmv_status gmv_find_reference(gmv_request *request, const gmv_reference *reference, gmv_kind kind,
                              const char *pointer, gmv_node **out_node, gmv_error *err)
{
    *out_node = NULL;
    if (!reference->given)
        return GMV_OK;
    if (!reference->valid)
        return gmv_fail(err, GMV_ERR_HANDLE_UNKNOWN, pointer, "there is no such handle");
    return gmv_operation_get(request->operation, &reference->id, kind, pointer, out_node, err);
}

gmv_status gmv_find_columns(gmv_request *request, const gmv_references *references,
                            const char *pointer, gmv_column ***out_columns, gmv_error *err)
{
    *out_columns = NULL;
    if (references->count == 0)
        return GMV_OK;
    gmv_column **columns = gmv_calloc(references->count, sizeof *columns);
    if (columns == NULL)
        return gmv_fail_no_memory(err);
    gmv_status status = GMV_OK;
    for (size_t i = 0; i < references->count && status == GMV_OK; i++) {
        char entry[64];
        gmv_node *node;
        snprintf(entry, sizeof entry, "%s/%zu", pointer, i);
        status =
            gmv_find_reference(request, &references->items[i], GMV_KIND_COLUMN, entry, &node, err);
        if (status == GMV_OK)
            columns[i] = gmv_column_of(node);
    }
    if (status == GMV_OK)
        *out_columns = columns;
    else
        gmv_free(columns);
    return status;
}

void gmv_reply_made(gmv_reply *reply, const gmv_node *node)
{
    static const char *const collections[GMV_KIND_COUNT] = {
        [GMV_KIND_BUFFER] = "buffers", [GMV_KIND_VIEW] = "views",    [GMV_KIND_COLUMN] = "columns",
        [GMV_KIND_TABLE] = "tables",   [GMV_KIND_PACKED] = "packed",
    };
    char id[GMV_ID_TEXT_MAX];
    gmv_id_format(&node->id, id);
    reply->http_status = 201;
    snprintf(reply->location, sizeof reply->location, "/v1/%s/%s", collections[node->id.kind], id);
}

/* The id, the version of the format, and, where there is one, the end of the lease. */
static void reply_etag(gmv_reply *reply, const gmv_node *node, int64_t expires_at_ms)
{
    static const char version[] = "-1\"";
    reply->etag[0] = '"';
    size_t length = 1 + gmv_id_format(&node->id, reply->etag + 1);
    if (expires_at_ms == 0)
        memcpy(reply->etag + length, version, sizeof version);
    else
        snprintf(reply->etag + length, sizeof reply->etag - length, "-1-%llx\"",
                 (unsigned long long)expires_at_ms);
    reply->caching = GMV_CACHING_NO_CACHE;
}

void gmv_reply_described(gmv_reply *reply, const gmv_node *node)
{
    reply_etag(reply, node, gmv_node_expires_at_ms(node));
}

gmv_status gmv_reply_finish(gmv_reply *reply, gmv_error *err)
{
    if (!gmv_strbuf_failed(&reply->text))
        return GMV_OK;
    gmv_strbuf_fini(&reply->text);
    return gmv_fail_no_memory(err);
}

/* The operation still holds the object, so only the name goes here, and nothing blocks. */
void gmv_request_unmake(gmv_request *request, const gmv_node *node)
{
    gmv_deletion deletion;
    gmv_error ignored;
    gmv_error_init(&ignored);
    if (gmv_registry_delete(gmv_request_registry(request), &request->operation->caller, &node->id,
                            node->id.kind, GMV_IF_HELD_KEEP, &deletion, &ignored) != GMV_OK)
        gmv_log(GMV_LOG_DEBUG, "unmake", gmv_log_text("code", gmv_status_code(ignored.status)));
}

gmv_status gmv_reply_finish_made(gmv_request *request, gmv_reply *reply, const gmv_node *node,
                                 gmv_error *err)
{
    gmv_status status = gmv_reply_finish(reply, err);
    if (status != GMV_OK)
        gmv_request_unmake(request, node);
    else
        gmv_reply_made(reply, node);
    return status;
}

gmv_status gmv_reply_reserve(gmv_reply *reply, size_t nbytes, gmv_error *err)
{
    (void)gmv_strbuf_reserve(&reply->text, nbytes);
    return gmv_reply_finish(reply, err);
}

void gmv_reply_contents(gmv_reply *reply, const gmv_node *node, bool sealed)
{
    if (sealed)
        reply_etag(reply, node, 0);
    else
        reply->caching = GMV_CACHING_NO_STORE;
}

gmv_status gmv_query_consistency(const gmv_query *query, bool *out_snapshot, gmv_error *err)
{
    const gmv_query_parameter *consistency = gmv_query_find(query, "consistency");
    const char *value = consistency == NULL ? "live" : consistency->value;
    *out_snapshot = value != NULL && strcmp(value, "snapshot") == 0;
    if (*out_snapshot || (value != NULL && strcmp(value, "live") == 0))
        return GMV_OK;
    return gmv_fail_parameter(err, GMV_ERR_REQUEST_MALFORMED, "consistency",
                              "consistency must be live or snapshot");
}

/* All that will be sent: the whole, or, of ranges, from the first of them to the last. */
static gmv_status reply_freeze(gmv_request *request, gmv_bytes *bytes, gmv_error *err)
{
    gmv_byte_ranges ranges;
    gmv_range_outcome outcome =
        gmv_range_parse(request->range, request->range_length, bytes->nbytes, &ranges);
    if (outcome == GMV_RANGE_UNSATISFIABLE)
        return GMV_OK;
    if (outcome == GMV_RANGE_WHOLE)
        return gmv_bytes_freeze(request->operation, bytes, err);
    uint64_t first = ranges.items[0].first;
    uint64_t last = ranges.items[ranges.count - 1].last;
    return gmv_bytes_freeze_part(request->operation, bytes, first, last - first + 1, err);
}

gmv_status gmv_reply_bytes(gmv_request *request, gmv_reply *reply, const gmv_node *node,
                           gmv_error *err)
{
    bool is_snapshot = false;
    gmv_status status = gmv_query_consistency(&request->query, &is_snapshot, err);
    if (status != GMV_OK)
        gmv_bytes_release(&reply->bytes);
    else if (is_snapshot && !request->is_head)
        status = reply_freeze(request, &reply->bytes, err);
    if (status != GMV_OK)
        return status;
    reply->has_bytes = true;
    reply->content_type = "application/octet-stream";
    gmv_reply_contents(reply, node, reply->bytes.sealed);
    return GMV_OK;
}

gmv_status gmv_query_window(const gmv_query *query, int64_t size, int64_t *out_first,
                            int64_t *out_count, gmv_error *err)
{
    int64_t limit;
    GMV_TRY(gmv_query_int64(query, "offset", 0, GMV_EXACT_IN_DOUBLE_MAX, 0, out_first, err));
    GMV_TRY(
        gmv_query_int64(query, "limit", 1, VALUES_LIMIT_MAX, VALUES_LIMIT_DEFAULT, &limit, err));
    int64_t left = *out_first < size ? size - *out_first : 0;
    *out_count = GMV_MIN(left, limit);
    return GMV_OK;
}
