/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What null-mask verbs take: an input (a column, or a 1-d view as one) and a bitmask. Strided views
 * are gathered, masks of one byte an element become bits, so that kernels see one form only.
 */
#include <gmv/base/num.h>

#include "ops/mask_priv.h"

/* ---- inputs ---- */

static gmv_status input_describe_column(gmv_engine *engine, gmv_column *column,
                                        gmv_mask_input *out_input)
{
    gmv_device *device = gmv_column_device(engine, column);
    *out_input = (gmv_mask_input){
        .column = column,
        .type = column->type,
        .size = column->size,
        .device = device ? device : engine->devices[0],
    };
    return GMV_OK;
}

static gmv_status input_describe_view(gmv_engine *engine, gmv_view *view, gmv_mask_input *out_input,
                                      gmv_error *err)
{
    const gmv_dtype_info *dtype = gmv_dtype_describe(view->dtype);
    if (dtype->cudf_type == GMV_CUDF_NONE)
        return gmv_fail(err, GMV_ERR_DTYPE_UNSUPPORTED, "/input", "%s is not a column type",
                        dtype->name);
    if (view->ndim != 1)
        return gmv_fail(err, GMV_ERR_VALUE, "/input",
                        "the view has %d dimensions, only those of 1 are taken as a column",
                        view->ndim);
    if (view->size > GMV_SIZE_TYPE_MAX)
        return gmv_fail(err, GMV_ERR_VALUE, "/input",
                        "the view has %lld rows, at most %d are taken", (long long)view->size,
                        GMV_SIZE_TYPE_MAX);
    *out_input = (gmv_mask_input){
        .view = view,
        .type = {.id = dtype->cudf_type},
        .size = view->size,
        .device = gmv__view_device_or_first(engine, view),
    };
    return GMV_OK;
}

gmv_status gmv__mask_input_describe(gmv_operation *operation, gmv_node *input,
                                    gmv_mask_input *out_input, gmv_error *err)
{
    gmv_kind kind = input->node_class->kind;
    if (kind == GMV_KIND_COLUMN)
        return input_describe_column(operation->engine, gmv_column_of(input), out_input);
    if (kind == GMV_KIND_VIEW)
        return input_describe_view(operation->engine, gmv_view_of(input), out_input, err);
    return gmv_fail(err, GMV_ERR_KIND_MISMATCH, "/input", "the input is a %s, not a column or view",
                    gmv_kind_name(kind));
}

/* The view itself where it is contiguous, else its elements gathered into scratch memory. */
static gmv_status input_contiguous(gmv_draft *draft, const gmv_view *view, uint64_t *out_address,
                                   gmv_error *err)
{
    gmv_memory *gathered = NULL;
    if (view->contiguous) {
        *out_address = view->ptr;
        return gmv__draft_use(draft, view, err);
    }
    GMV_TRY(gmv__draft_scratch(draft, (uint64_t)view->nbytes, &gathered, err));
    GMV_TRY(gmv__draft_gather(draft, view, 0, view->size, gathered->address, err));
    *out_address = gathered->address;
    return GMV_OK;
}

static gmv_status input_validity(gmv_draft *draft, const gmv_view *view, gmv_bits *out_validity,
                                 gmv_error *err)
{
    uint64_t address;
    gmv_memory *bits = NULL;
    *out_validity = (gmv_bits){0};
    if (!view->mask || view->size == 0)
        return GMV_OK;
    GMV_TRY(input_contiguous(draft, view->mask, &address, err));
    if (view->mask_kind != GMV_MASK_BITS) {
        uint64_t nbytes = (uint64_t)gmv_bitmask_nbytes(view->size);
        GMV_TRY(gmv__draft_scratch(draft, nbytes, &bits, err));
        gmv_valid_if truthy = {
            .predicate = GMV_PREDICATE_NONZERO_BYTE,
            .input = address,
            .n = view->size,
            .output = bits->address,
            .output_nbytes = nbytes,
        };
        GMV_TRY(gmv_kernel_valid_if(draft->stream, &truthy, err));
        address = bits->address;
    }
    out_validity->address = address;
    return GMV_OK;
}

gmv_status gmv__mask_input_load(gmv_draft *draft, gmv_mask_input *input, gmv_error *err)
{
    if (input->size == 0)
        return GMV_OK;
    if (input->view) {
        GMV_TRY(input_contiguous(draft, input->view, &input->address, err));
        return input_validity(draft, input->view, &input->validity, err);
    }
    GMV_TRY(gmv__draft_use_column(draft, input->column, err));
    input->address = gmv_column_data_address(input->column);
    input->validity = gmv_column_validity(input->column);
    return GMV_OK;
}

gmv_status gmv__draft_use_column(gmv_draft *draft, const gmv_column *column, gmv_error *err)
{
    if (column->data)
        GMV_TRY(gmv__draft_use(draft, column->data, err));
    if (column->null_mask)
        GMV_TRY(gmv__draft_use(draft, column->null_mask, err));
    return GMV_OK;
}

uint64_t gmv__mask_input_nbytes(const gmv_mask_input *input)
{
    uint64_t width = gmv_cudf_type_width(input->type.id);
    uint64_t mask = input->view && input->view->mask ? (uint64_t)input->view->mask->nbytes : 0;
    return (uint64_t)input->size * width + mask;
}

/* ---- bitmasks ---- */

gmv_status gmv__bitmask_resolve(const gmv_view *bitmask, int64_t *out_bits, gmv_error *err)
{
    *out_bits = GMV_BITMASK_NONE;
    if (!bitmask || bitmask->nbytes == 0)
        return GMV_OK;
    if (bitmask->dtype != GMV_DTYPE_U1 && bitmask->dtype != GMV_DTYPE_U4)
        return gmv_fail(err, GMV_ERR_DTYPE_UNSUPPORTED, "/bitmask",
                        "a bitmask is |u1 or <u4, the view is %s",
                        gmv_dtype_describe(bitmask->dtype)->typestr);
    GMV_TRY(gmv_view_require_contiguous(bitmask, "/bitmask", err));
    if (!gmv_mul_checked(bitmask->nbytes, (int64_t)8, out_bits))
        *out_bits = INT64_MAX;
    return GMV_OK;
}

gmv_status gmv__bitmask_resolve_range(const gmv_view *bitmask, gmv_bit_range range,
                                      int64_t *out_bits, gmv_error *err)
{
    GMV_TRY(gmv__bitmask_resolve(bitmask, out_bits, err));
    return gmv_bit_range_check(range, *out_bits, err);
}
