/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Null-mask verbs that make something: masks from values, masks from masks, booleans from masks.
 * Each states its work, drafts its result, enqueues one kernel and ends the draft.
 */
#include <stdio.h>

#include <gmv/base/alloc.h>
#include <gmv/base/num.h>

#include "ops/mask_priv.h"

/* Adds a |u1 view of `nbytes` over new memory to the draft. */
static gmv_status mask_draft_bytes(gmv_draft *draft, int64_t nbytes, gmv_contents contents,
                                   bool inner, const gmv_creation *creation, gmv_view **out_mask,
                                   gmv_error *err)
{
    gmv_layout layout = gmv_layout_flat(nbytes);
    gmv_draft_result result = {
        .dtype = GMV_DTYPE_U1,
        .layout = &layout,
        .contents = contents,
        .bare = true,
        .inner = inner,
    };
    return gmv__draft_make(draft, &result, creation, out_mask, err);
}

/* A mask of 0 bytes, which says "no mask". */
static gmv_status mask_make_none(gmv_operation *operation, gmv_device *device,
                                 const gmv_creation *creation, gmv_view **out_mask, gmv_error *err)
{
    gmv_draft draft;
    gmv_view *mask = NULL;
    GMV_TRY(gmv__draft_begin(&draft, operation, device, err));
    gmv_status status =
        mask_draft_bytes(&draft, 0, GMV_CONTENTS_ZEROED, false, creation, &mask, err);
    GMV_TRY(gmv__draft_end(&draft, status, err));
    *out_mask = mask;
    return GMV_OK;
}

/* ---- masks from values ---- */

static gmv_status values_require(const gmv_mask_input *input, bool floats,
                                 gmv_predicate *out_predicate, gmv_error *err)
{
    static const struct {
        int32_t type;
        bool is_float;
        gmv_predicate predicate;
    } rows[] = {
        {GMV_CUDF_BOOL8, false, GMV_PREDICATE_NONZERO_BYTE},
        {GMV_CUDF_FLOAT32, true, GMV_PREDICATE_NOT_NAN_F4},
        {GMV_CUDF_FLOAT64, true, GMV_PREDICATE_NOT_NAN_F8},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i].type == input->type.id && rows[i].is_float == floats) {
            *out_predicate = rows[i].predicate;
            return GMV_OK;
        }
    }
    return gmv_fail(err, GMV_ERR_DTYPE_UNSUPPORTED, "/input", "the input is %s, only %s taken",
                    gmv_cudf_type_name(input->type.id),
                    floats ? "FLOAT32 and FLOAT64 are" : "BOOL8 is");
}

/* Drafts the mask; its null count is known once the draft has ended. */
static gmv_status values_draft_mask(gmv_draft *draft, gmv_mask_input *input,
                                    gmv_predicate predicate, bool inner,
                                    const gmv_creation *creation, gmv_view **out_mask,
                                    int64_t *out_null_count, gmv_error *err)
{
    int64_t nbytes = gmv_bitmask_nbytes(input->size);
    *out_null_count = 0;
    GMV_TRY(
        mask_draft_bytes(draft, nbytes, GMV_CONTENTS_UNSPECIFIED, inner, creation, out_mask, err));
    if (input->size == 0)
        return GMV_OK;
    GMV_TRY(gmv__mask_input_load(draft, input, err));
    gmv_valid_if valid_if = {
        .predicate = predicate,
        .input = input->address,
        .validity = input->validity,
        .n = input->size,
        .output = (*out_mask)->ptr,
        .output_nbytes = (uint64_t)nbytes,
        .out_null_count = out_null_count,
    };
    return gmv_kernel_valid_if(draft->stream, &valid_if, err);
}

static gmv_status values_to_mask(gmv_operation *operation, gmv_node *node, bool floats,
                                 const gmv_creation *creation, gmv_mask_result *out_result,
                                 gmv_error *err)
{
    gmv_mask_input input;
    gmv_predicate predicate;
    gmv_draft draft;
    gmv_mask_result result = {0};
    GMV_TRY(gmv__mask_input_describe(operation, node, &input, err));
    GMV_TRY(values_require(&input, floats, &predicate, err));
    GMV_TRY(gmv_operation_weigh(operation, gmv__mask_input_nbytes(&input), err));
    GMV_TRY(gmv__draft_begin(&draft, operation, input.device, err));
    gmv_status status = values_draft_mask(&draft, &input, predicate, false, creation, &result.mask,
                                          &result.null_count, err);
    GMV_TRY(gmv__draft_end(&draft, status, err));
    *out_result = result;
    return GMV_OK;
}

gmv_status gmv_bools_to_mask(gmv_operation *operation, gmv_node *input,
                             const gmv_creation *creation, gmv_mask_result *out_result,
                             gmv_error *err)
{
    return values_to_mask(operation, input, false, creation, out_result, err);
}

gmv_status gmv_nans_to_nulls(gmv_operation *operation, gmv_node *input,
                             const gmv_creation *creation, gmv_mask_result *out_result,
                             gmv_error *err)
{
    return values_to_mask(operation, input, true, creation, out_result, err);
}

/* Drafts an inner view of `rows` elements for a column's data. */
static gmv_status column_draft_data(gmv_draft *draft, int32_t type_id, int64_t rows,
                                    const gmv_creation *creation, gmv_view **out_data,
                                    gmv_error *err)
{
    gmv_layout layout = gmv_layout_flat(rows);
    gmv_draft_result result = {
        .layout = &layout,
        .contents = GMV_CONTENTS_UNSPECIFIED,
        .bare = true,
        .inner = true,
    };
    if (!gmv_dtype_from_cudf(type_id, &result.dtype))
        return gmv_fail(err, GMV_ERR_INTERNAL, NULL, "no element type for column type %d", type_id);
    return gmv__draft_make(draft, &result, creation, out_data, err);
}

/*
 * The null count belongs to the column, and the column must be prepared before anything is
 * published, so the device is waited for here.
 */
static gmv_status column_nans_draft(gmv_draft *draft, gmv_mask_input *input,
                                    gmv_predicate predicate, const gmv_creation *creation,
                                    gmv_column **out_column, gmv_error *err)
{
    gmv_view *mask = NULL;
    gmv_view *data = NULL;
    int64_t null_count;
    GMV_TRY(values_draft_mask(draft, input, predicate, true, creation, &mask, &null_count, err));
    GMV_TRY(column_draft_data(draft, input->type.id, input->size, creation, &data, err));
    if (input->size > 0)
        GMV_TRY(
            gmv_copy_within(draft->stream, data->ptr, input->address, (uint64_t)data->nbytes, err));
    GMV_TRY(gmv_stream_finish(draft->stream, err));
    const gmv_column_parts parts = {
        .type = input->type,
        .size = (int32_t)input->size,
        .null_count = (int32_t)null_count,
        .data = data,
        .null_mask = mask,
    };
    GMV_TRY(gmv_column_prepare(draft->operation, &parts, creation, false, out_column, err));
    gmv__draft_add(draft, &(*out_column)->node);
    return GMV_OK;
}

gmv_status gmv_column_nans_to_nulls(gmv_operation *operation, gmv_node *node,
                                    const gmv_creation *creation, gmv_column **out_column,
                                    gmv_error *err)
{
    gmv_mask_input input;
    gmv_predicate predicate;
    gmv_draft draft;
    gmv_column *column = NULL;
    GMV_TRY(gmv__mask_input_describe(operation, node, &input, err));
    GMV_TRY(values_require(&input, true, &predicate, err));
    GMV_TRY(gmv_operation_weigh(operation, 2 * gmv__mask_input_nbytes(&input), err));
    GMV_TRY(gmv__draft_begin(&draft, operation, input.device, err));
    gmv_status status = column_nans_draft(&draft, &input, predicate, creation, &column, err);
    GMV_TRY(gmv__draft_end(&draft, status, err));
    *out_column = column;
    return GMV_OK;
}

/* ---- booleans from masks ---- */

static gmv_status bools_draft(gmv_draft *draft, gmv_view *bitmask, gmv_bit_range range,
                              const gmv_creation *creation, gmv_column **out_column, gmv_error *err)
{
    int64_t rows = range.end - range.begin;
    gmv_view *data = NULL;
    GMV_TRY(column_draft_data(draft, GMV_CUDF_BOOL8, rows, creation, &data, err));
    if (rows > 0) {
        gmv_bits_to_bools to_bools = {
            .bits = {.address = bitmask->ptr, .offset = range.begin},
            .n = rows,
            .output = data->ptr,
        };
        GMV_TRY(gmv__draft_use(draft, bitmask, err));
        GMV_TRY(gmv_kernel_bits_to_bools(draft->stream, &to_bools, err));
    }
    const gmv_column_parts parts = {
        .type = {.id = GMV_CUDF_BOOL8},
        .size = (int32_t)rows,
        .data = data,
    };
    GMV_TRY(gmv_column_prepare(draft->operation, &parts, creation, false, out_column, err));
    gmv__draft_add(draft, &(*out_column)->node);
    return GMV_OK;
}

gmv_status gmv_mask_to_bools(gmv_operation *operation, gmv_view *bitmask, gmv_bit_range range,
                             const gmv_creation *creation, gmv_column **out_column, gmv_error *err)
{
    int64_t bits;
    gmv_draft draft;
    gmv_column *column = NULL;
    GMV_TRY(gmv__bitmask_resolve_range(bitmask, range, &bits, err));
    if (bits == GMV_BITMASK_NONE && range.begin < range.end)
        return gmv_fail(err, GMV_ERR_VALUE, "/bitmask",
                        "there is no mask, so only an empty range has booleans");
    GMV_TRY(gmv_operation_weigh(operation, (uint64_t)(range.end - range.begin), err));
    GMV_TRY(gmv__draft_begin(&draft, operation,
                             gmv__view_device_or_first(operation->engine, bitmask), err));
    gmv_status status = bools_draft(&draft, bitmask, range, creation, &column, err);
    GMV_TRY(gmv__draft_end(&draft, status, err));
    *out_column = column;
    return GMV_OK;
}

/* ---- fresh masks ---- */

static gmv_status create_draft(gmv_draft *draft, int64_t nbytes, bool all_valid,
                               const gmv_creation *creation, gmv_view **out_mask, gmv_error *err)
{
    GMV_TRY(mask_draft_bytes(draft, nbytes, GMV_CONTENTS_ZEROED, false, creation, out_mask, err));
    if (!all_valid)
        return GMV_OK;
    return gmv_fill(draft->stream, (*out_mask)->ptr, 0xff, (uint64_t)nbytes, err);
}

gmv_status gmv_create_null_mask(gmv_operation *operation, int64_t device, int64_t size,
                                gmv_mask_state state, const gmv_creation *creation,
                                gmv_view **out_mask, gmv_error *err)
{
    gmv_device *on = NULL;
    gmv_draft draft;
    gmv_view *mask = NULL;
    if (size < 0 || size > GMV_SIZE_TYPE_MAX)
        return gmv_fail(err, GMV_ERR_VALUE, "/size", "size must be 0 to %d, not %lld",
                        GMV_SIZE_TYPE_MAX, (long long)size);
    GMV_TRY(gmv_engine_device(operation->engine, device, &on, err));
    int64_t nbytes = state == GMV_MASK_UNALLOCATED ? 0 : gmv_bitmask_nbytes(size);
    GMV_TRY(gmv_operation_weigh(operation, (uint64_t)nbytes, err));
    GMV_TRY(gmv__draft_begin(&draft, operation, on, err));
    gmv_status status =
        create_draft(&draft, nbytes, state == GMV_MASK_ALL_VALID, creation, &mask, err);
    GMV_TRY(gmv__draft_end(&draft, status, err));
    *out_mask = mask;
    return GMV_OK;
}

/* ---- masks from masks ---- */

static gmv_status copy_draft(gmv_draft *draft, const gmv_view *source, gmv_bits bits, int64_t n,
                             const gmv_creation *creation, gmv_view **out_mask, gmv_error *err)
{
    int64_t nbytes = gmv_bitmask_nbytes(n);
    GMV_TRY(
        mask_draft_bytes(draft, nbytes, GMV_CONTENTS_UNSPECIFIED, false, creation, out_mask, err));
    gmv_copy_bits copy = {
        .bits = bits,
        .n = n,
        .output = (*out_mask)->ptr,
        .output_nbytes = (uint64_t)nbytes,
    };
    GMV_TRY(gmv__draft_use(draft, source, err));
    return gmv_kernel_copy_bits(draft->stream, &copy, err);
}

/* `source` is the view that the n bits lie in; no bits at all: the result is "no mask". */
static gmv_status copy_bits(gmv_operation *operation, gmv_view *source, gmv_bits bits, int64_t n,
                            const gmv_creation *creation, gmv_view **out_mask, gmv_error *err)
{
    gmv_device *device = gmv__view_device_or_first(operation->engine, source);
    if (n == 0 || bits.address == 0)
        return mask_make_none(operation, device, creation, out_mask, err);
    gmv_draft draft;
    gmv_view *mask = NULL;
    GMV_TRY(gmv_operation_weigh(operation, (uint64_t)n / 4, err));
    GMV_TRY(gmv__draft_begin(&draft, operation, device, err));
    gmv_status status = copy_draft(&draft, source, bits, n, creation, &mask, err);
    GMV_TRY(gmv__draft_end(&draft, status, err));
    *out_mask = mask;
    return GMV_OK;
}

gmv_status gmv_copy_bitmask(gmv_operation *operation, gmv_view *bitmask, gmv_bit_range range,
                            const gmv_creation *creation, gmv_view **out_mask, gmv_error *err)
{
    int64_t available;
    GMV_TRY(gmv__bitmask_resolve_range(bitmask, range, &available, err));
    gmv_bits bits = {0};
    if (available != GMV_BITMASK_NONE)
        bits = (gmv_bits){.address = bitmask->ptr, .offset = range.begin};
    return copy_bits(operation, bitmask, bits, range.end - range.begin, creation, out_mask, err);
}

gmv_status gmv_copy_column_bitmask(gmv_operation *operation, gmv_column *column,
                                   const gmv_creation *creation, gmv_view **out_mask,
                                   gmv_error *err)
{
    gmv_view *source = column->null_mask ? column->null_mask : column->data;
    return copy_bits(operation, source, gmv_column_validity(column), column->size, creation,
                     out_mask, err);
}

/* What combining is about, found before anything is made. */
typedef struct combine_plan {
    gmv_device *device;
    int64_t rows;
    bool none; /* the result is "no mask" */
} combine_plan;

static gmv_status combine_fail(size_t index, gmv_error *err, const char *what)
{
    char pointer[64];
    snprintf(pointer, sizeof pointer, "/columns/%zu", index);
    return gmv_fail(err, GMV_ERR_VALUE, pointer, "%s", what);
}

static gmv_status combine_look(gmv_engine *engine, gmv_bits_operation kind,
                               gmv_column *const *columns, size_t n_columns, combine_plan *out_plan,
                               gmv_error *err)
{
    size_t n_masks = 0;
    gmv_device *device = NULL;
    for (size_t i = 0; i < n_columns; i++) {
        gmv_device *own = gmv_column_device(engine, columns[i]);
        if (columns[i]->size != columns[0]->size)
            return combine_fail(i, err, "all columns must have the same number of rows");
        if (device && own && own != device)
            return combine_fail(i, err, "all columns must be on one device");
        if (!device)
            device = own;
        n_masks += gmv_column_is_nullable(columns[i]);
    }
    out_plan->device = device ? device : engine->devices[0];
    out_plan->rows = n_columns > 0 ? columns[0]->size : 0;
    out_plan->none =
        out_plan->rows == 0 || n_masks == 0 || (kind == GMV_BITS_OR && n_masks < n_columns);
    return GMV_OK;
}

static gmv_status combine_draft(gmv_draft *draft, gmv_bits_operation kind,
                                gmv_column *const *columns, size_t n_columns, int64_t rows,
                                gmv_bits *inputs, const gmv_creation *creation,
                                gmv_mask_result *out_result, gmv_error *err)
{
    int64_t nbytes = gmv_bitmask_nbytes(rows);
    GMV_TRY(mask_draft_bytes(draft, nbytes, GMV_CONTENTS_UNSPECIFIED, false, creation,
                             &out_result->mask, err));
    size_t n_inputs = 0;
    for (size_t i = 0; i < n_columns; i++) {
        if (!gmv_column_is_nullable(columns[i]))
            continue; /* all valid changes nothing in an AND; with an OR we would not be here */
        GMV_TRY(gmv__draft_use(draft, columns[i]->null_mask, err));
        inputs[n_inputs++] = gmv_column_validity(columns[i]);
    }
    gmv_combine_bits combine = {
        .operation = kind,
        .inputs = inputs,
        .n_inputs = n_inputs,
        .n = rows,
        .output = out_result->mask->ptr,
        .output_nbytes = (uint64_t)nbytes,
        .out_set_count = &out_result->null_count,
    };
    return gmv_kernel_combine_bits(draft->stream, &combine, err);
}

static gmv_status combine_weigh(gmv_operation *operation, size_t n_columns, int64_t rows,
                                gmv_error *err)
{
    uint64_t nbytes;
    if (!gmv_mul_checked((uint64_t)n_columns + 1, (uint64_t)rows / 8 + 1, &nbytes))
        nbytes = UINT64_MAX;
    return gmv_operation_weigh(operation, nbytes, err);
}

gmv_status gmv_combine_bitmasks(gmv_operation *operation, gmv_bits_operation kind,
                                gmv_column *const *columns, size_t n_columns,
                                const gmv_creation *creation, gmv_mask_result *out_result,
                                gmv_error *err)
{
    combine_plan plan = {0};
    gmv_draft draft;
    gmv_mask_result result = {0};
    GMV_TRY(combine_look(operation->engine, kind, columns, n_columns, &plan, err));
    if (plan.none) {
        out_result->null_count = 0;
        return mask_make_none(operation, plan.device, creation, &out_result->mask, err);
    }
    GMV_TRY(combine_weigh(operation, n_columns, plan.rows, err));
    gmv_bits *inputs = gmv_calloc(n_columns, sizeof *inputs);
    if (!inputs)
        return gmv_fail_no_memory(err);
    gmv_status status = gmv__draft_begin(&draft, operation, plan.device, err);
    if (status == GMV_OK) {
        status = combine_draft(&draft, kind, columns, n_columns, plan.rows, inputs, creation,
                               &result, err);
        status = gmv__draft_end(&draft, status, err);
    }
    gmv_free(inputs);
    if (status != GMV_OK)
        return status;
    out_result->mask = result.mask;
    out_result->null_count = plan.rows - result.null_count;
    return GMV_OK;
}
