/* SPDX-License-Identifier: Apache-2.0 */
/* Looking inside: what views hold, who covers a buffer, whether masks are as they are said to be.
 */
#include <stdio.h>

#include <gmv/base/alloc.h>
#include <gmv/base/num.h>

#include "codec/cursor.h"
#include "codec/hexdump.h"
#include "codec/npy.h"
#include "http/handle_priv.h"

#define HEXDUMP_LIMIT_DEFAULT 4096
#define HEXDUMP_LIMIT_MAX     (1 << 20)
#define MAP_LIMIT_DEFAULT     100
#define MAP_LIMIT_MAX         1000

/* ---- .npy ---- */

static gmv_status npy_header(const gmv_view *view, bool fortran_order, gmv_bytes *bytes,
                             gmv_error *err)
{
    gmv_strbuf header = GMV_STRBUF_INIT;
    size_t nbytes;
    gmv_npy_write_header(&header, view->dtype, fortran_order, gmv_view_shape(view), view->ndim);
    char *text = gmv_strbuf_take(&header, &nbytes);
    if (text == NULL) {
        gmv_bytes_release(bytes);
        return gmv_fail_no_memory(err);
    }
    gmv_bytes_prepend(bytes, text, nbytes);
    return GMV_OK;
}

static void npy_name_file(gmv_reply *reply, const gmv_node *node)
{
    char id[GMV_ID_TEXT_MAX];
    gmv_id_format(&node->id, id);
    snprintf(reply->disposition, sizeof reply->disposition, "attachment; filename=\"%s.npy\"", id);
}

GMV_HANDLER(view_npy)
{
    gmv_node *node;
    bool is_snapshot;
    GMV_TRY(gmv_query_consistency(&request->query, &is_snapshot, err));
    GMV_TRY(gmv_request_target(request, &node, err));
    gmv_view *view = gmv_view_of(node);
    bool fortran_order = gmv_view_is_fortran(view);
    if (fortran_order)
        GMV_TRY(gmv_view_fortran_bytes(request->operation, view, &reply->bytes, err));
    else
        GMV_TRY(gmv_view_bytes(request->operation, view, &reply->bytes, err));
    GMV_TRY(npy_header(view, fortran_order, &reply->bytes, err));
    GMV_TRY(gmv_reply_bytes(request, reply, node, err));
    npy_name_file(reply, node);
    return GMV_OK;
}

/* ---- hexdump ---- */

static gmv_status hexdump_read(gmv_request *request, const gmv_bytes *bytes, int64_t offset,
                               uint64_t nbytes, gmv_strbuf *out, gmv_error *err)
{
    if (nbytes == 0)
        return GMV_OK;
    gmv_stream *stream = gmv_operation_stream(request->operation, bytes->memory->device);
    void *copy = gmv_malloc((size_t)nbytes);
    if (copy == NULL)
        return gmv_fail_no_memory(err);
    gmv_status status = gmv_bytes_read(bytes, stream, (uint64_t)offset, copy, nbytes, err);
    if (status == GMV_OK)
        gmv_hexdump_write(out, (uint64_t)offset, copy, (size_t)nbytes);
    gmv_free(copy);
    return status;
}

GMV_HANDLER(view_hexdump)
{
    gmv_node *node;
    gmv_bytes bytes;
    int64_t offset, limit;
    GMV_TRY(
        gmv_query_int64(&request->query, "offset", 0, GMV_EXACT_IN_DOUBLE_MAX, 0, &offset, err));
    GMV_TRY(gmv_query_int64(&request->query, "limit", 1, HEXDUMP_LIMIT_MAX, HEXDUMP_LIMIT_DEFAULT,
                            &limit, err));
    GMV_TRY(gmv_request_target(request, &node, err));
    GMV_TRY(gmv_view_bytes(request->operation, gmv_view_of(node), &bytes, err));
    uint64_t left = (uint64_t)offset < bytes.nbytes ? bytes.nbytes - (uint64_t)offset : 0;
    gmv_status status =
        hexdump_read(request, &bytes, offset, GMV_MIN(left, (uint64_t)limit), &reply->text, err);
    bool is_sealed = bytes.sealed;
    gmv_bytes_release(&bytes);
    if (status != GMV_OK)
        return status;
    reply->content_type = "text/plain; charset=utf-8";
    gmv_reply_contents(reply, node, is_sealed);
    return gmv_reply_finish(reply, err);
}

/* ---- maps of buffers ---- */

static void map_visit(void *context, const gmv_map_piece *piece)
{
    gmv_json_writer *writer = context;
    gmv_json_open_object(writer);
    gmv_json_member_uint64(writer, "offset", piece->offset);
    gmv_json_member_uint64(writer, "nbytes", piece->nbytes);
    gmv_json_put_key(writer, "views");
    gmv_json_open_array(writer);
    for (size_t i = 0; i < piece->n_views; i++)
        gmv_json_put_id(writer, &piece->views[i]);
    gmv_json_close_array(writer);
    gmv_json_member_uint64(writer, "views_count", piece->views_count);
    gmv_json_close_object(writer);
}

/* A cursor is where to go on, tied to the buffer. */
static gmv_status map_read_cursor(const gmv_query *query, const gmv_id *id, uint64_t *out_offset,
                                  gmv_error *err)
{
    const gmv_query_parameter *cursor = gmv_query_find(query, "cursor");
    const uint64_t filters[] = {id->high, id->low};
    *out_offset = 0;
    if (cursor == NULL ||
        (cursor->value != NULL && gmv_cursor_parse(cursor->value, cursor->value_length, filters,
                                                   sizeof filters, out_offset)))
        return GMV_OK;
    return gmv_fail_parameter(err, GMV_ERR_REQUEST_MALFORMED, "cursor",
                              "not a cursor of the map of this buffer");
}

static void map_write_cursor(gmv_json_writer *writer, const gmv_buffer *buffer, uint64_t next)
{
    char text[GMV_CURSOR_TEXT_MAX];
    const uint64_t filters[] = {buffer->node.id.high, buffer->node.id.low};
    if (next >= buffer->nbytes) {
        gmv_json_member_null(writer, "next_cursor");
        return;
    }
    gmv_cursor_format(next, filters, sizeof filters, text);
    gmv_json_member_string(writer, "next_cursor", text);
}

GMV_HANDLER(buffer_map)
{
    gmv_node *node;
    int64_t limit;
    uint64_t offset, next;
    GMV_TRY(gmv_query_int64(&request->query, "limit", 1, MAP_LIMIT_MAX, MAP_LIMIT_DEFAULT, &limit,
                            err));
    GMV_TRY(map_read_cursor(&request->query, &request->id, &offset, err));
    GMV_TRY(gmv_request_target(request, &node, err));
    gmv_buffer *buffer = gmv_buffer_of(node);
    gmv_json_writer writer = gmv_json_writer_over(&reply->text);
    gmv_json_open_object(&writer);
    gmv_json_put_key(&writer, "items");
    gmv_json_open_array(&writer);
    gmv_status status = gmv_buffer_map(request->operation, buffer, offset, (size_t)limit, map_visit,
                                       &writer, &next, err);
    if (status != GMV_OK) {
        gmv_strbuf_fini(&reply->text);
        return status;
    }
    gmv_json_close_array(&writer);
    map_write_cursor(&writer, buffer, next);
    gmv_json_close_object(&writer);
    reply->caching = GMV_CACHING_NO_STORE;
    return gmv_reply_finish(reply, err);
}

/* ---- masks ---- */

GMV_HANDLER(column_mask_check)
{
    gmv_node *node;
    gmv_mask_check check;
    GMV_TRY(gmv_request_target(request, &node, err));
    gmv_column *column = gmv_column_of(node);
    GMV_TRY(gmv_column_check_mask(request->operation, column, &check, err));
    gmv_json_writer writer = gmv_json_writer_over(&reply->text);
    gmv_json_open_object(&writer);
    gmv_json_member_int64(&writer, "claimed", check.claimed);
    gmv_json_member_int64(&writer, "counted", check.counted);
    gmv_json_member_int64(&writer, "bits_past_end", check.bits_past_end);
    gmv_json_member_bool(&writer, "all_valid", check.counted == 0);
    gmv_json_member_bool(&writer, "nullable", gmv_column_is_nullable(column));
    gmv_json_member_int64(&writer, "bits_before", check.bits_before);
    gmv_json_member_bool(&writer, "misaligned", check.is_misaligned);
    gmv_json_close_object(&writer);
    reply->caching = GMV_CACHING_NO_STORE;
    return gmv_reply_finish(reply, err);
}
