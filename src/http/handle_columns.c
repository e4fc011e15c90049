/* SPDX-License-Identifier: Apache-2.0 */
/* Columns: from parts, from a view, and their rows as JSON. */
#include <gmv/base/alloc.h>
#include <gmv/base/num.h>

#include "codec/column_values.h"
#include "http/handle_priv.h"

static gmv_status column_answer_made(gmv_request *request, gmv_reply *reply, gmv_column *column,
                                     gmv_error *err)
{
    gmv_json_writer writer = gmv_json_writer_over(&reply->text);
    gmv_encode_column(&writer, gmv_request_registry(request), column);
    return gmv_reply_finish_made(request, reply, &column->node, err);
}

/* ---- from parts ---- */

typedef struct type_members {
    int32_t id;
    int64_t scale;
    gmv_optional_int64 type_id;
} type_members;

typedef struct column_members {
    bool has_type;
    type_members type;
    int64_t size;
    int64_t offset;
    gmv_reference data;
    gmv_reference null_mask;
    gmv_optional_int64 null_count;
    gmv_references children;
    gmv_text label;
} column_members;

static const gmv_field type_fields[] = {
    GMV_FIELD_REQUIRED("name", CUDF_NAME, type_members, id),
    GMV_FIELD("scale", INT64, type_members, scale),
    GMV_FIELD("type_id", OPTIONAL_INT64, type_members, type_id),
    GMV_FIELD_END,
};

static const gmv_field column_fields[] = {
    {
        .name = "type",
        .type = GMV_FIELD_OBJECT,
        .required = true,
        .offset = offsetof(column_members, type),
        .fields = type_fields,
        .given_offset = offsetof(column_members, has_type),
    },
    GMV_FIELD_REQUIRED("size", INT64, column_members, size),
    GMV_FIELD("offset", INT64, column_members, offset),
    GMV_FIELD("data", REFERENCE, column_members, data),
    GMV_FIELD("null_mask", REFERENCE, column_members, null_mask),
    GMV_FIELD("null_count", OPTIONAL_INT64, column_members, null_count),
    GMV_FIELD("children", REFERENCES, column_members, children),
    GMV_FIELD("label", LABEL, column_members, label),
    GMV_FIELD_END,
};

static gmv_status column_type(const type_members *members, gmv_cudf_type *out, gmv_error *err)
{
    if (members->type_id.given && members->type_id.value != members->id)
        return gmv_fail(err, GMV_ERR_VALUE, "/type/type_id", "%s has the type id %d, not %lld",
                        gmv_cudf_type_name(members->id), members->id,
                        (long long)members->type_id.value);
    if (members->scale < INT32_MIN || members->scale > INT32_MAX)
        return gmv_fail(err, GMV_ERR_VALUE, "/type/scale", "the scale does not fit 32 bits");
    *out = (gmv_cudf_type){members->id, (int32_t)members->scale};
    return GMV_OK;
}

static gmv_status column_find_view(gmv_request *request, const gmv_reference *reference,
                                   const char *pointer, gmv_view **out_view, gmv_error *err)
{
    gmv_node *node;
    GMV_TRY(gmv_find_reference(request, reference, GMV_KIND_VIEW, pointer, &node, err));
    *out_view = node != NULL ? gmv_view_of(node) : NULL;
    return GMV_OK;
}

static gmv_status column_run(gmv_request *request, gmv_reply *reply, void *context,
                             gmv_document *document, gmv_error *err)
{
    const column_members *members = context;
    gmv_creation creation = gmv_creation_labelled(&members->label);
    gmv_column_request column_request = {
        .size = members->size,
        .offset = members->offset,
        .has_null_count = members->null_count.given,
        .null_count = members->null_count.value,
        .n_children = members->children.count,
    };
    gmv_column **children;
    gmv_column *column;
    GMV_TRY(column_type(&members->type, &column_request.type, err));
    GMV_TRY(gmv_column_check_members(&column_request, err));
    GMV_TRY(column_find_view(request, &members->data, "/data", &column_request.data, err));
    GMV_TRY(column_find_view(request, &members->null_mask, "/null_mask", &column_request.null_mask,
                             err));
    GMV_TRY(gmv_find_columns(request, &members->children, "/children", &children, err));
    column_request.children = children;
    gmv_status status =
        gmv_column_create(request->operation, &column_request, &creation, &column, err);
    gmv_free(children);
    if (status != GMV_OK)
        return status;
    return column_answer_made(request, reply, column, err);
}

GMV_HANDLER(column_create)
{
    column_members members = {0};
    return gmv_handle_body(request, reply, column_fields, &members, column_run, err);
}

/* ---- from a view ---- */

typedef struct from_view_members {
    gmv_reference view;
    gmv_text label;
} from_view_members;

static const gmv_field from_view_fields[] = {
    GMV_FIELD_REQUIRED("view", REFERENCE, from_view_members, view),
    GMV_FIELD("label", LABEL, from_view_members, label),
    GMV_FIELD_END,
};

static gmv_status from_view_run(gmv_request *request, gmv_reply *reply, void *context,
                                gmv_document *document, gmv_error *err)
{
    const from_view_members *members = context;
    gmv_creation creation = gmv_creation_labelled(&members->label);
    gmv_view *view;
    gmv_column *column;
    GMV_TRY(column_find_view(request, &members->view, "/view", &view, err));
    GMV_TRY(gmv_column_from_view(request->operation, view, &creation, &column, err));
    return column_answer_made(request, reply, column, err);
}

GMV_HANDLER(column_from_view)
{
    from_view_members members = {0};
    return gmv_handle_body(request, reply, from_view_fields, &members, from_view_run, err);
}

/* ---- look and read ---- */

GMV_HANDLER(column_get)
{
    gmv_node *node;
    GMV_TRY(gmv_request_target(request, &node, err));
    gmv_reply_described(reply, node);
    gmv_json_writer writer = gmv_json_writer_over(&reply->text);
    gmv_encode_column(&writer, gmv_request_registry(request), gmv_column_of(node));
    return gmv_reply_finish(reply, err);
}

static gmv_status rows_write(gmv_reply *reply, const gmv_column *column, int64_t first,
                             const gmv_column_rows *rows, gmv_error *err)
{
    gmv_json_writer writer = gmv_json_writer_over(&reply->text);
    gmv_json_open_object(&writer);
    gmv_json_put_key(&writer, "type");
    gmv_encode_cudf_type(&writer, column->type);
    gmv_json_member_int64(&writer, "size", column->size);
    gmv_json_member_int64(&writer, "offset", first);
    gmv_json_member_int64(&writer, "count", rows->count);
    gmv_json_put_key(&writer, "values");
    if (!gmv_encode_column_rows(&writer, rows, GMV_COLUMN_VALUES_NBYTES_MAX) &&
        !gmv_strbuf_failed(&reply->text))
        return gmv_fail(err, GMV_ERR_QUOTA_EXCEEDED, NULL, "%s longer than %zu bytes as JSON; %s",
                        rows->count > 1 ? "these rows are" : "this row is",
                        GMV_COLUMN_VALUES_NBYTES_MAX,
                        rows->count > 1 ? "ask for fewer of them" : "read the bytes of its views");
    gmv_json_close_object(&writer);
    return GMV_OK;
}

GMV_HANDLER(column_values)
{
    gmv_node *node;
    int64_t first;
    int64_t count;
    gmv_column_rows rows;
    GMV_TRY(gmv_query_window(&request->query, 0, &first, &count, err));
    GMV_TRY(gmv_request_target(request, &node, err));
    gmv_column *column = gmv_column_of(node);
    GMV_TRY(gmv_query_window(&request->query, column->size, &first, &count, err));
    GMV_TRY(gmv_column_read_rows(request->operation, column, GMV_MIN(first, column->size), count,
                                 &rows, err));
    const gmv_status status = rows_write(reply, column, first, &rows, err);
    gmv_column_rows_fini(&rows);
    if (status != GMV_OK)
        return status;
    reply->caching = GMV_CACHING_NO_STORE;
    return gmv_reply_finish(reply, err);
}
