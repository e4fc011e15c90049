/* SPDX-License-Identifier: Apache-2.0 */
/* What a view holds, for people and for NumPy. */
#include <stdio.h>

#include <gmv/base/alloc.h>
#include <gmv/base/num.h>

#include "codec/hexdump.h"
#include "codec/npy.h"
#include "http/handle_priv.h"

#define HEXDUMP_LIMIT_DEFAULT 4096
#define HEXDUMP_LIMIT_MAX     (1 << 20)

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
