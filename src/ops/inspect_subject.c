/* SPDX-License-Identifier: Apache-2.0 */
/* Subjects of inspection, and passes over them. */
#include <gmv/base/num.h>

#include "ops/column_priv.h"
#include "ops/inspect_priv.h"

/* Parts that are gathered: at most so many elements, and so many bytes. */
#define STAGED_ELEMENTS_MAX (INT64_C(16) << 20)
#define STAGED_NBYTES_MAX   (INT64_C(64) << 20)
/* Parts that kernels read where they lie. */
#define DIRECT_ELEMENTS_MAX (INT64_C(1) << 30)

/* ---- subjects ---- */

static void subject_describe_view(gmv_engine *engine, const gmv_view *view, gmv_subject *out)
{
    *out = (gmv_subject){
        .view = view,
        .contiguous = view->contiguous,
        .address = view->ptr,
        .dtype = view->dtype,
        .has_dtype = true,
        .itemsize = gmv_dtype_describe(view->dtype)->itemsize,
        .size = view->size,
        .device = gmv__view_device_or_first(engine, view),
    };
    if (view->mask && view->size > 0)
        out->masks[out->n_masks++] =
            (gmv_subject_mask){.view = view->mask, .is_bits = view->mask_kind == GMV_MASK_BITS};
}

/* Days are integers of 4 bytes, which no view says. */
static bool column_dtype(gmv_cudf_type type, gmv_dtype *out_dtype)
{
    if (type.id == GMV_CUDF_TIMESTAMP_DAYS || type.id == GMV_CUDF_DURATION_DAYS) {
        *out_dtype = GMV_DTYPE_I4;
        return true;
    }
    return gmv_dtype_from_cudf(type.id, out_dtype);
}

static gmv_status subject_describe_column(gmv_engine *engine, const gmv_column *column,
                                          const char *pointer, gmv_subject *out, gmv_error *err)
{
    gmv_device *device = gmv_column_device(engine, column);
    if (!gmv_cudf_type_is_fixed_width(column->type.id))
        return gmv_fail(err, GMV_ERR_DTYPE_UNSUPPORTED, pointer,
                        "a column of %s is not flat: look at its children",
                        gmv_cudf_type_name(column->type.id));
    *out = (gmv_subject){
        .view = column->data,
        .contiguous = true,
        .address = gmv_column_data_address(column),
        .itemsize = (int64_t)gmv_cudf_type_width(column->type.id),
        .size = column->size,
        .device = device ? device : engine->devices[0],
    };
    out->has_dtype = column_dtype(column->type, &out->dtype);
    if (gmv_column_is_nullable(column) && column->size > 0)
        out->masks[out->n_masks++] = (gmv_subject_mask){
            .view = column->null_mask, .is_bits = true, .offset = column->offset};
    return GMV_OK;
}

gmv_status gmv__subject_describe(gmv_operation *operation, gmv_node *node, const char *pointer,
                                 gmv_subject *out_subject, gmv_error *err)
{
    gmv_kind kind = node->node_class->kind;
    if (kind == GMV_KIND_COLUMN)
        return subject_describe_column(operation->engine, gmv_column_of(node), pointer, out_subject,
                                       err);
    if (kind != GMV_KIND_VIEW)
        return gmv_fail(err, GMV_ERR_KIND_MISMATCH, pointer, "this is a %s, not a view or column",
                        gmv_kind_name(kind));
    subject_describe_view(operation->engine, gmv_view_of(node), out_subject);
    return GMV_OK;
}

static gmv_status mask_check(const gmv_subject *subject, const gmv_view *mask, gmv_error *err)
{
    if (mask->dtype == GMV_DTYPE_B1) {
        if (mask->size == subject->size)
            return GMV_OK;
        return gmv_fail(err, GMV_ERR_VALUE, "/mask", "the mask has %lld elements, the array %lld",
                        (long long)mask->size, (long long)subject->size);
    }
    if (mask->dtype != GMV_DTYPE_U1 && mask->dtype != GMV_DTYPE_U4)
        return gmv_fail(err, GMV_ERR_DTYPE_UNSUPPORTED, "/mask",
                        "a mask is |b1, or a bitmask of |u1 or <u4; the view is %s",
                        gmv_dtype_describe(mask->dtype)->typestr);
    GMV_TRY(gmv_view_require_contiguous(mask, "/mask", err));
    if (mask->nbytes > 0 && mask->nbytes < gmv__bits_nbytes(subject->size))
        return gmv_fail(err, GMV_ERR_OUT_OF_BOUNDS, "/mask",
                        "the bitmask has %lld bytes, too few bits for %lld elements",
                        (long long)mask->nbytes, (long long)subject->size);
    return GMV_OK;
}

gmv_status gmv__subject_add_mask(gmv_operation *operation, gmv_subject *subject,
                                 const gmv_view *mask, gmv_error *err)
{
    if (!mask)
        return GMV_OK;
    GMV_TRY(mask_check(subject, mask, err));
    /* A bitmask of 0 bytes is none, as everywhere. */
    if (subject->size == 0 || mask->nbytes == 0)
        return GMV_OK;
    if (gmv__view_device_or_first(operation->engine, mask) != subject->device)
        return gmv_fail(err, GMV_ERR_VALUE, "/mask", "the mask is on another device");
    subject->masks[subject->n_masks++] =
        (gmv_subject_mask){.view = mask, .is_bits = mask->dtype != GMV_DTYPE_B1};
    return GMV_OK;
}

gmv_status gmv__subject_require_order(const gmv_subject *subject, gmv_error *err)
{
    if (subject->has_dtype && gmv_dtype_is_ordered(subject->dtype))
        return GMV_OK;
    return gmv_fail(err, GMV_ERR_DTYPE_UNSUPPORTED, NULL,
                    "elements that are %s have checksums, but no statistics",
                    subject->has_dtype ? gmv_dtype_describe(subject->dtype)->name : "decimals");
}

static uint64_t add_saturated(uint64_t a, uint64_t b)
{
    uint64_t sum;
    return gmv_add_checked(a, b, &sum) ? sum : UINT64_MAX;
}

uint64_t gmv__subject_nbytes(const gmv_subject *subject)
{
    uint64_t nbytes;
    if (!gmv_mul_checked((uint64_t)subject->size, (uint64_t)subject->itemsize, &nbytes))
        nbytes = UINT64_MAX;
    for (size_t i = 0; i < subject->n_masks; i++)
        nbytes = add_saturated(nbytes, subject->masks[i].is_bits ? (uint64_t)subject->size / 8
                                                                 : (uint64_t)subject->size);
    return nbytes;
}

/* ---- staging ---- */

/* Whether elements are read where they lie. */
static bool elements_are_direct(const gmv_subject *subject, uint64_t alignment)
{
    return subject->contiguous && subject->address % alignment == 0;
}

static bool masks_are_direct(const gmv_subject *subject)
{
    return subject->n_masks == 0 || (subject->n_masks == 1 && subject->masks[0].is_bits);
}

int64_t gmv__pass_part_max(const gmv_subject *subjects, size_t n_subjects, uint64_t alignment,
                           int64_t unit)
{
    int64_t n = DIRECT_ELEMENTS_MAX;
    for (size_t i = 0; i < n_subjects; i++) {
        if (!elements_are_direct(&subjects[i], alignment) || !masks_are_direct(&subjects[i]))
            n = GMV_MIN(n, STAGED_ELEMENTS_MAX);
        if (!elements_are_direct(&subjects[i], alignment))
            n = GMV_MIN(n, STAGED_NBYTES_MAX / subjects[i].itemsize);
    }
    n = GMV_MAX(n / unit, 1) * unit;
    return n_subjects ? GMV_MIN(n, GMV_MAX(subjects[0].size, 1)) : n;
}

/* What staging one subject takes: elements, then bytes of a mask, then bits of each and of both. */
typedef struct staging_plan {
    uint64_t elements, bools, bits;
    uint64_t bits_nbytes; /* of one mask */
    uint64_t nbytes;      /* of all */
} staging_plan;

static staging_plan staging_of(const gmv_subject *subject, uint64_t alignment, int64_t n)
{
    staging_plan plan = {0};
    bool strided_mask = false;
    for (size_t i = 0; i < subject->n_masks; i++)
        if (!subject->masks[i].is_bits && !subject->masks[i].view->contiguous)
            strided_mask = true;
    if (!elements_are_direct(subject, alignment))
        plan.nbytes = gmv_round_up((uint64_t)(n * subject->itemsize), 64);
    plan.bools = plan.nbytes;
    if (strided_mask)
        plan.nbytes += gmv_round_up((uint64_t)n, 64);
    plan.bits = plan.nbytes;
    if (!masks_are_direct(subject)) {
        plan.bits_nbytes = (uint64_t)gmv_bitmask_nbytes(n);
        plan.nbytes += 3 * plan.bits_nbytes;
    }
    return plan;
}

gmv_status gmv__pass_begin(gmv_pass *pass, gmv_operation *operation, const gmv_subject *subjects,
                           size_t n_subjects, uint64_t alignment, int64_t n_max,
                           uint64_t own_nbytes, gmv_error *err)
{
    uint64_t total = gmv_round_up(own_nbytes, 64);
    GMV_TRY(gmv__draft_begin(&pass->draft, operation, subjects[0].device, err));
    pass->n_subjects = n_subjects;
    pass->alignment = alignment;
    pass->n_max = n_max;
    pass->scratch = NULL;
    for (size_t i = 0; i < n_subjects; i++) {
        pass->subjects[i] = &subjects[i];
        pass->staging[i] = total;
        total += staging_of(&subjects[i], alignment, n_max).nbytes;
    }
    gmv_status status = gmv__draft_scratch(&pass->draft, total, &pass->scratch, err);
    if (status != GMV_OK)
        return gmv__draft_end(&pass->draft, status, err);
    pass->own = pass->scratch->address;
    for (size_t i = 0; i < n_subjects; i++)
        pass->staging[i] += pass->scratch->address;
    return GMV_OK;
}

static gmv_status pass_load_elements(gmv_pass *pass, size_t i, int64_t first, int64_t n,
                                     uint64_t *out_address, gmv_error *err)
{
    const gmv_subject *subject = pass->subjects[i];
    uint64_t offset = (uint64_t)(first * subject->itemsize);
    GMV_TRY(gmv__draft_use(&pass->draft, subject->view, err));
    *out_address = subject->address + offset;
    if (elements_are_direct(subject, pass->alignment))
        return GMV_OK;
    *out_address = pass->staging[i];
    if (subject->contiguous)
        return gmv_copy_within(pass->draft.stream, pass->staging[i], subject->address + offset,
                               (uint64_t)(n * subject->itemsize), err);
    return gmv__view_gather(subject->view, pass->draft.stream, first, n, pass->staging[i],
                            &pass->layouts[i][0], err);
}

/* Bits of one mask; those of one element each are made in staging memory. */
static gmv_status pass_load_mask(gmv_pass *pass, size_t i, size_t k, int64_t first, int64_t n,
                                 gmv_bits *out_bits, gmv_error *err)
{
    const gmv_subject *subject = pass->subjects[i];
    const gmv_subject_mask *mask = &subject->masks[k];
    const staging_plan plan = staging_of(subject, pass->alignment, pass->n_max);
    GMV_TRY(gmv__draft_use(&pass->draft, mask->view, err));
    if (mask->is_bits) {
        *out_bits = (gmv_bits){mask->view->ptr, mask->offset + first};
        return GMV_OK;
    }
    uint64_t bools = mask->view->ptr + (uint64_t)first;
    if (!mask->view->contiguous) {
        bools = pass->staging[i] + plan.bools;
        GMV_TRY(gmv__view_gather(mask->view, pass->draft.stream, first, n, bools,
                                 &pass->layouts[i][1 + k], err));
    }
    gmv_valid_if truthy = {
        .predicate = GMV_PREDICATE_NONZERO_BYTE,
        .input = bools,
        .n = n,
        .output = pass->staging[i] + plan.bits + k * plan.bits_nbytes,
        .output_nbytes = plan.bits_nbytes,
    };
    *out_bits = (gmv_bits){truthy.output, 0};
    return gmv_kernel_valid_if(pass->draft.stream, &truthy, err);
}

static gmv_status pass_load_validity(gmv_pass *pass, size_t i, int64_t first, int64_t n,
                                     gmv_bits *out_validity, gmv_error *err)
{
    const gmv_subject *subject = pass->subjects[i];
    const staging_plan plan = staging_of(subject, pass->alignment, pass->n_max);
    gmv_bits bits[GMV_SUBJECT_MASKS_MAX] = {{0, 0}};
    for (size_t k = 0; k < subject->n_masks; k++)
        GMV_TRY(pass_load_mask(pass, i, k, first, n, &bits[k], err));
    *out_validity = bits[0];
    if (subject->n_masks < 2)
        return GMV_OK;
    /* The third place is for both; where a mask is bits already, its own place stays empty. */
    gmv_combine_bits both = {
        .operation = GMV_BITS_AND,
        .inputs = bits,
        .n_inputs = 2,
        .n = n,
        .output = pass->staging[i] + plan.bits + 2 * plan.bits_nbytes,
        .output_nbytes = plan.bits_nbytes,
    };
    *out_validity = (gmv_bits){both.output, 0};
    return gmv_kernel_combine_bits(pass->draft.stream, &both, err);
}

gmv_status gmv__pass_load(gmv_pass *pass, int64_t first, int64_t n, gmv_part *out_parts,
                          gmv_error *err)
{
    GMV_TRY(gmv_operation_check(pass->draft.operation, err));
    GMV_TRY(gmv_stream_use(pass->draft.stream, pass->scratch, err));
    for (size_t i = 0; i < pass->n_subjects; i++) {
        GMV_TRY(pass_load_elements(pass, i, first, n, &out_parts[i].address, err));
        GMV_TRY(pass_load_validity(pass, i, first, n, &out_parts[i].validity, err));
    }
    return GMV_OK;
}

gmv_status gmv__pass_end(gmv_pass *pass, gmv_status status, gmv_error *err)
{
    return gmv__draft_end(&pass->draft, status, err);
}
