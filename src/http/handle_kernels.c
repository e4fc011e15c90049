/* SPDX-License-Identifier: Apache-2.0 */
/* Null-mask kernels. Those that make a handle answer 201 with its place, the others 200. */
#include <gmv/base/alloc.h>

#include "http/handle_priv.h"

/* ---- answers ---- */

static gmv_status kernel_answer_mask(gmv_request *request, gmv_reply *reply, gmv_view *mask,
                                     const int64_t *null_count, gmv_error *err)
{
    gmv_json_writer writer = gmv_json_writer_over(&reply->text);
    gmv_json_open_object(&writer);
    gmv_json_put_key(&writer, "mask");
    gmv_encode_view(&writer, gmv_request_registry(request), mask);
    if (null_count != NULL)
        gmv_json_member_int64(&writer, "null_count", *null_count);
    gmv_json_close_object(&writer);
    return gmv_reply_finish_made(request, reply, &mask->node, err);
}

static gmv_status kernel_answer_column(gmv_request *request, gmv_reply *reply, gmv_column *column,
                                       gmv_error *err)
{
    gmv_json_writer writer = gmv_json_writer_over(&reply->text);
    gmv_json_open_object(&writer);
    gmv_json_put_key(&writer, "column");
    gmv_encode_column(&writer, gmv_request_registry(request), column);
    gmv_json_close_object(&writer);
    return gmv_reply_finish_made(request, reply, &column->node, err);
}

static gmv_status kernel_answer_number(gmv_reply *reply, const char *name, int64_t value,
                                       gmv_error *err)
{
    gmv_json_writer writer = gmv_json_writer_over(&reply->text);
    gmv_json_open_object(&writer);
    gmv_json_member_int64(&writer, name, value);
    gmv_json_close_object(&writer);
    return gmv_reply_finish(reply, err);
}

/* ---- of an input ---- */

typedef struct input_members {
    gmv_reference input;
    gmv_result_members result;
} input_members;

static const gmv_field input_fields[] = {
    GMV_FIELD_REQUIRED("input", REFERENCE, input_members, input),
    GMV_RESULT_FIELDS(input_members, result),
    GMV_FIELD_END,
};

/* A column, or a view that stands for one. */
static gmv_status input_find(gmv_request *request, const gmv_reference *input, gmv_node **out_node,
                             gmv_error *err)
{
    GMV_TRY(gmv_find_reference(request, input, GMV_KIND_ANY, "/input", out_node, err));
    gmv_kind kind = (*out_node)->id.kind;
    if (kind != GMV_KIND_COLUMN && kind != GMV_KIND_VIEW)
        return gmv_fail(err, GMV_ERR_KIND_MISMATCH, "/input",
                        "a column or a view is wanted here, not a %s", gmv_kind_name(kind));
    return GMV_OK;
}

typedef gmv_status (*input_kernel)(gmv_operation *operation, gmv_node *input,
                                   const gmv_creation *creation, gmv_mask_result *out_result,
                                   gmv_error *err);

static gmv_status input_run_mask(gmv_request *request, gmv_reply *reply,
                                 const input_members *members, input_kernel kernel, gmv_error *err)
{
    gmv_creation creation = gmv_creation_of(&members->result);
    gmv_node *input;
    gmv_mask_result result;
    GMV_TRY(input_find(request, &members->input, &input, err));
    GMV_TRY(kernel(request->operation, input, &creation, &result, err));
    return kernel_answer_mask(request, reply, result.mask, &result.null_count, err);
}

static gmv_status bools_run(gmv_request *request, gmv_reply *reply, void *context,
                            gmv_document *document, gmv_error *err)
{
    return input_run_mask(request, reply, context, gmv_bools_to_mask, err);
}

GMV_HANDLER(bools_to_mask)
{
    input_members members = {0};
    return gmv_handle_body(request, reply, input_fields, &members, bools_run, err);
}

static gmv_status nans_run(gmv_request *request, gmv_reply *reply, void *context,
                           gmv_document *document, gmv_error *err)
{
    return input_run_mask(request, reply, context, gmv_nans_to_nulls, err);
}

GMV_HANDLER(nans_to_nulls)
{
    input_members members = {0};
    return gmv_handle_body(request, reply, input_fields, &members, nans_run, err);
}

static gmv_status column_nans_run(gmv_request *request, gmv_reply *reply, void *context,
                                  gmv_document *document, gmv_error *err)
{
    const input_members *members = context;
    gmv_creation creation = gmv_creation_of(&members->result);
    gmv_node *input;
    gmv_column *column;
    GMV_TRY(input_find(request, &members->input, &input, err));
    GMV_TRY(gmv_column_nans_to_nulls(request->operation, input, &creation, &column, err));
    return kernel_answer_column(request, reply, column, err);
}

GMV_HANDLER(column_nans_to_nulls)
{
    input_members members = {0};
    return gmv_handle_body(request, reply, input_fields, &members, column_nans_run, err);
}

/* ---- of bits ---- */

typedef struct bits_members {
    gmv_reference bitmask;
    gmv_bit_range range;
    gmv_result_members result;
} bits_members;

#define BITS_FIELDS(struct_type)                                 \
    GMV_FIELD("bitmask", REFERENCE, struct_type, bitmask),       \
        GMV_FIELD("begin_bit", INT64, struct_type, range.begin), \
        GMV_FIELD_REQUIRED("end_bit", INT64, struct_type, range.end)

static const gmv_field bits_fields[] = {
    BITS_FIELDS(bits_members),
    GMV_FIELD_END,
};

static const gmv_field bits_result_fields[] = {
    BITS_FIELDS(bits_members),
    GMV_RESULT_FIELDS(bits_members, result),
    GMV_FIELD_END,
};

static gmv_status bitmask_find(gmv_request *request, const gmv_reference *bitmask,
                               gmv_view **out_view, gmv_error *err)
{
    gmv_node *node;
    GMV_TRY(gmv_find_reference(request, bitmask, GMV_KIND_VIEW, "/bitmask", &node, err));
    *out_view = node != NULL ? gmv_view_of(node) : NULL;
    return GMV_OK;
}

/* What is wrong with the range itself is said first: it is a value of the body. */
static gmv_status bits_find(gmv_request *request, const gmv_reference *bitmask, gmv_bit_range range,
                            gmv_view **out_view, gmv_error *err)
{
    GMV_TRY(gmv_bit_range_check(range, GMV_BITMASK_NONE, err));
    return bitmask_find(request, bitmask, out_view, err);
}

static gmv_status mask_to_bools_run(gmv_request *request, gmv_reply *reply, void *context,
                                    gmv_document *document, gmv_error *err)
{
    const bits_members *members = context;
    gmv_creation creation = gmv_creation_of(&members->result);
    gmv_view *bitmask;
    gmv_column *column;
    GMV_TRY(bits_find(request, &members->bitmask, members->range, &bitmask, err));
    GMV_TRY(
        gmv_mask_to_bools(request->operation, bitmask, members->range, &creation, &column, err));
    return kernel_answer_column(request, reply, column, err);
}

GMV_HANDLER(mask_to_bools)
{
    bits_members members = {0};
    return gmv_handle_body(request, reply, bits_result_fields, &members, mask_to_bools_run, err);
}

typedef gmv_status (*bits_kernel)(gmv_operation *operation, gmv_view *bitmask, gmv_bit_range range,
                                  int64_t *out_number, gmv_error *err);

static gmv_status bits_run(gmv_request *request, gmv_reply *reply, const bits_members *members,
                           bits_kernel kernel, const char *name, gmv_error *err)
{
    gmv_view *bitmask;
    int64_t number;
    GMV_TRY(bits_find(request, &members->bitmask, members->range, &bitmask, err));
    GMV_TRY(kernel(request->operation, bitmask, members->range, &number, err));
    return kernel_answer_number(reply, name, number, err);
}

static gmv_status null_count_run(gmv_request *request, gmv_reply *reply, void *context,
                                 gmv_document *document, gmv_error *err)
{
    return bits_run(request, reply, context, gmv_null_count, "count", err);
}

GMV_HANDLER(null_count)
{
    bits_members members = {0};
    return gmv_handle_body(request, reply, bits_fields, &members, null_count_run, err);
}

static gmv_status valid_count_run(gmv_request *request, gmv_reply *reply, void *context,
                                  gmv_document *document, gmv_error *err)
{
    return bits_run(request, reply, context, gmv_valid_count, "count", err);
}

GMV_HANDLER(valid_count)
{
    bits_members members = {0};
    return gmv_handle_body(request, reply, bits_fields, &members, valid_count_run, err);
}

static gmv_status first_set_run(gmv_request *request, gmv_reply *reply, void *context,
                                gmv_document *document, gmv_error *err)
{
    return bits_run(request, reply, context, gmv_index_of_first_set_bit, "index", err);
}

GMV_HANDLER(index_of_first_set_bit)
{
    bits_members members = {0};
    return gmv_handle_body(request, reply, bits_fields, &members, first_set_run, err);
}

typedef struct ranges_members {
    gmv_reference bitmask;
    gmv_ranges ranges;
} ranges_members;

static const gmv_field ranges_fields[] = {
    GMV_FIELD("bitmask", REFERENCE, ranges_members, bitmask),
    GMV_FIELD_REQUIRED("ranges", RANGES, ranges_members, ranges),
    GMV_FIELD_END,
};

static gmv_status ranges_answer(gmv_reply *reply, const int64_t *counts, size_t n, gmv_error *err)
{
    gmv_json_writer writer = gmv_json_writer_over(&reply->text);
    gmv_json_open_object(&writer);
    gmv_json_put_key(&writer, "counts");
    gmv_json_open_array(&writer);
    for (size_t i = 0; i < n; i++)
        gmv_json_put_int64(&writer, counts[i]);
    gmv_json_close_array(&writer);
    gmv_json_close_object(&writer);
    return gmv_reply_finish(reply, err);
}

static gmv_status ranges_run(gmv_request *request, gmv_reply *reply, void *context,
                             gmv_document *document, gmv_error *err)
{
    const ranges_members *members = context;
    size_t n = members->ranges.count;
    gmv_view *bitmask;
    GMV_TRY(gmv_bit_ranges_check(members->ranges.items, n, GMV_BITMASK_NONE, err));
    GMV_TRY(bitmask_find(request, &members->bitmask, &bitmask, err));
    int64_t *counts = gmv_calloc(n + 1, sizeof *counts);
    if (counts == NULL)
        return gmv_fail_no_memory(err);
    gmv_status status = gmv_segmented_null_count(request->operation, bitmask, members->ranges.items,
                                                 n, counts, err);
    if (status == GMV_OK)
        status = ranges_answer(reply, counts, n, err);
    gmv_free(counts);
    return status;
}

GMV_HANDLER(segmented_null_count)
{
    ranges_members members = {0};
    return gmv_handle_body(request, reply, ranges_fields, &members, ranges_run, err);
}

/* ---- making and changing masks ---- */

typedef struct null_mask_members {
    int64_t size;
    int state;
    int64_t device;
    gmv_result_members result;
} null_mask_members;

static const char *const null_mask_states[] = {
    [GMV_MASK_UNALLOCATED] = "UNALLOCATED",
    [GMV_MASK_UNINITIALIZED] = "UNINITIALIZED",
    [GMV_MASK_ALL_VALID] = "ALL_VALID",
    [GMV_MASK_ALL_NULL] = "ALL_NULL",
    NULL,
};

static const gmv_field null_mask_fields[] = {
    GMV_FIELD_REQUIRED("size", INT64, null_mask_members, size),
    {
        .name = "state",
        .type = GMV_FIELD_NAME,
        .offset = offsetof(null_mask_members, state),
        .names = null_mask_states,
    },
    GMV_FIELD("device", INT64, null_mask_members, device),
    GMV_RESULT_FIELDS(null_mask_members, result),
    GMV_FIELD_END,
};

static gmv_status null_mask_run(gmv_request *request, gmv_reply *reply, void *context,
                                gmv_document *document, gmv_error *err)
{
    const null_mask_members *members = context;
    gmv_creation creation = gmv_creation_of(&members->result);
    gmv_view *mask;
    GMV_TRY(gmv_create_null_mask(request->operation, members->device, members->size,
                                 (gmv_mask_state)members->state, &creation, &mask, err));
    return kernel_answer_mask(request, reply, mask, NULL, err);
}

GMV_HANDLER(create_null_mask)
{
    null_mask_members members = {.state = GMV_MASK_UNINITIALIZED};
    return gmv_handle_body(request, reply, null_mask_fields, &members, null_mask_run, err);
}

typedef struct set_members {
    gmv_reference bitmask;
    gmv_bit_range range;
    bool valid;
} set_members;

static const gmv_field set_fields[] = {
    GMV_FIELD_REQUIRED("bitmask", REFERENCE, set_members, bitmask),
    GMV_FIELD("begin_bit", INT64, set_members, range.begin),
    GMV_FIELD_REQUIRED("end_bit", INT64, set_members, range.end),
    GMV_FIELD("valid", BOOL, set_members, valid),
    GMV_FIELD_END,
};

/* The answer is written first: bits that have been set cannot be taken back. */
static gmv_status set_run(gmv_request *request, gmv_reply *reply, void *context,
                          gmv_document *document, gmv_error *err)
{
    const set_members *members = context;
    gmv_view *bitmask;
    GMV_TRY(bits_find(request, &members->bitmask, members->range, &bitmask, err));
    gmv_json_writer writer = gmv_json_writer_over(&reply->text);
    gmv_json_open_object(&writer);
    gmv_json_put_key(&writer, "mask");
    gmv_encode_view(&writer, gmv_request_registry(request), bitmask);
    gmv_json_close_object(&writer);
    GMV_TRY(gmv_reply_finish(reply, err));
    gmv_status status =
        gmv_set_null_mask(request->operation, bitmask, members->range, members->valid, err);
    if (status != GMV_OK)
        gmv_strbuf_fini(&reply->text);
    return status;
}

GMV_HANDLER(set_null_mask)
{
    set_members members = {0};
    return gmv_handle_body(request, reply, set_fields, &members, set_run, err);
}

typedef struct copy_members {
    gmv_reference column;
    gmv_reference bitmask;
    gmv_optional_int64 begin_bit;
    gmv_optional_int64 end_bit;
    gmv_result_members result;
} copy_members;

static const gmv_field copy_fields[] = {
    GMV_FIELD("column", REFERENCE, copy_members, column),
    GMV_FIELD("bitmask", REFERENCE, copy_members, bitmask),
    GMV_FIELD("begin_bit", OPTIONAL_INT64, copy_members, begin_bit),
    GMV_FIELD("end_bit", OPTIONAL_INT64, copy_members, end_bit),
    GMV_RESULT_FIELDS(copy_members, result),
    GMV_FIELD_END,
};

/* Either of a column, or of bits from begin to end. */
static gmv_status copy_check_form(const copy_members *members, gmv_error *err)
{
    if (!members->column.given && !members->end_bit.given)
        return gmv_fail(err, GMV_ERR_VALUE, "/end_bit",
                        "end_bit is missing, or a column instead of bits");
    if (!members->column.given)
        return GMV_OK;
    if (members->bitmask.given)
        return gmv_fail(err, GMV_ERR_VALUE, "/bitmask", "a column or a bitmask, not both");
    if (members->begin_bit.given || members->end_bit.given)
        return gmv_fail(err, GMV_ERR_VALUE, members->begin_bit.given ? "/begin_bit" : "/end_bit",
                        "a column is copied whole; ranges go with a bitmask");
    return GMV_OK;
}

static gmv_status copy_run(gmv_request *request, gmv_reply *reply, void *context,
                           gmv_document *document, gmv_error *err)
{
    const copy_members *members = context;
    gmv_creation creation = gmv_creation_of(&members->result);
    gmv_bit_range range = {members->begin_bit.value, members->end_bit.value};
    gmv_node *column;
    gmv_view *bitmask;
    gmv_view *mask;
    GMV_TRY(copy_check_form(members, err));
    GMV_TRY(gmv_bit_range_check(range, GMV_BITMASK_NONE, err));
    GMV_TRY(
        gmv_find_reference(request, &members->column, GMV_KIND_COLUMN, "/column", &column, err));
    GMV_TRY(bitmask_find(request, &members->bitmask, &bitmask, err));
    if (column != NULL)
        GMV_TRY(gmv_copy_column_bitmask(request->operation, gmv_column_of(column), &creation, &mask,
                                        err));
    else
        GMV_TRY(gmv_copy_bitmask(request->operation, bitmask, range, &creation, &mask, err));
    return kernel_answer_mask(request, reply, mask, NULL, err);
}

GMV_HANDLER(copy_bitmask)
{
    copy_members members = {0};
    return gmv_handle_body(request, reply, copy_fields, &members, copy_run, err);
}

/* ---- combining ---- */

typedef struct combine_members {
    gmv_references columns;
    gmv_result_members result;
} combine_members;

static const gmv_field combine_fields[] = {
    GMV_FIELD_REQUIRED("columns", REFERENCES, combine_members, columns),
    GMV_RESULT_FIELDS(combine_members, result),
    GMV_FIELD_END,
};

static gmv_status combine_run(gmv_request *request, gmv_reply *reply,
                              const combine_members *members, gmv_bits_operation kind,
                              gmv_error *err)
{
    gmv_creation creation = gmv_creation_of(&members->result);
    gmv_column **columns;
    gmv_mask_result result;
    GMV_TRY(gmv_find_columns(request, &members->columns, "/columns", &columns, err));
    gmv_status status = gmv_combine_bitmasks(request->operation, kind, columns,
                                             members->columns.count, &creation, &result, err);
    gmv_free(columns);
    if (status != GMV_OK)
        return status;
    return kernel_answer_mask(request, reply, result.mask, &result.null_count, err);
}

static gmv_status and_run(gmv_request *request, gmv_reply *reply, void *context,
                          gmv_document *document, gmv_error *err)
{
    return combine_run(request, reply, context, GMV_BITS_AND, err);
}

GMV_HANDLER(bitmask_and)
{
    combine_members members = {0};
    return gmv_handle_body(request, reply, combine_fields, &members, and_run, err);
}

static gmv_status or_run(gmv_request *request, gmv_reply *reply, void *context,
                         gmv_document *document, gmv_error *err)
{
    return combine_run(request, reply, context, GMV_BITS_OR, err);
}

GMV_HANDLER(bitmask_or)
{
    combine_members members = {0};
    return gmv_handle_body(request, reply, combine_fields, &members, or_run, err);
}

/* ---- sizes ---- */

typedef struct allocation_members {
    int64_t number_of_bits;
    int64_t padding_boundary;
} allocation_members;

static const gmv_field allocation_fields[] = {
    GMV_FIELD_REQUIRED("number_of_bits", INT64, allocation_members, number_of_bits),
    GMV_FIELD("padding_boundary", INT64, allocation_members, padding_boundary),
    GMV_FIELD_END,
};

static gmv_status allocation_run(gmv_request *request, gmv_reply *reply, void *context,
                                 gmv_document *document, gmv_error *err)
{
    const allocation_members *members = context;
    int64_t nbytes;
    GMV_TRY(gmv_bitmask_allocation_nbytes(members->number_of_bits, members->padding_boundary,
                                          &nbytes, err));
    return kernel_answer_number(reply, "nbytes", nbytes, err);
}

GMV_HANDLER(bitmask_allocation_size_bytes)
{
    allocation_members members = {.padding_boundary = GMV_BITMASK_PADDING};
    return gmv_handle_body(request, reply, allocation_fields, &members, allocation_run, err);
}
