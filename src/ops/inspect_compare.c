/* SPDX-License-Identifier: Apache-2.0 */
/* Comparing two arrays of the same shape and type, element by element. */
#include <gmv/base/num.h>
#include <math.h>
#include <string.h>

#include "ops/inspect_priv.h"

static gmv_status compare_part(gmv_pass *pass, const gmv_comparison_request *request, int64_t first,
                               int64_t n, gmv_comparison_partial *whole, gmv_error *err)
{
    gmv_part parts[2];
    gmv_comparison_partial partial;
    GMV_TRY(gmv__pass_load(pass, first, n, parts, err));
    gmv_comparison_reduction reduction = {
        .dtype = pass->subjects[0]->dtype,
        .inputs = {parts[0].address, parts[1].address},
        .validities = {parts[0].validity, parts[1].validity},
        .n = n,
        .nan_equal = request->nan_equal,
        .absolute_tolerance = request->absolute_tolerance,
        .relative_tolerance = request->relative_tolerance,
        .scratch = pass->own,
    };
    GMV_TRY(gmv_kernel_compare(pass->draft.stream, &reduction, err));
    GMV_TRY(gmv_copy_out(pass->draft.stream, &partial, pass->own, sizeof partial, err));
    GMV_TRY(gmv_stream_finish(pass->draft.stream, err));
    if (partial.first != GMV_NO_INDEX)
        partial.first += (uint64_t)first;
    gmv_comparison_add(whole, &partial);
    return GMV_OK;
}

static gmv_status compare_run(gmv_operation *operation, const gmv_subject *subjects,
                              const gmv_comparison_request *request, gmv_comparison_partial *whole,
                              gmv_error *err)
{
    gmv_pass pass;
    int64_t n_max = gmv__pass_part_max(subjects, 2, 1, 1), size = subjects[0].size;
    gmv_status status = GMV_OK;
    if (size == 0)
        return GMV_OK;
    GMV_TRY(gmv__pass_begin(&pass, operation, subjects, 2, 1, n_max,
                            gmv_comparison_scratch_nbytes(subjects[0].dtype, n_max), err));
    for (int64_t first = 0; first < size && status == GMV_OK; first += n_max)
        status = compare_part(&pass, request, first, GMV_MIN(n_max, size - first), whole, err);
    return gmv__pass_end(&pass, status, err);
}

/* ---- the request ---- */

static gmv_status check_tolerance(double tolerance, const char *pointer, gmv_error *err)
{
    if (isfinite(tolerance) && tolerance >= 0)
        return GMV_OK;
    return gmv_fail(err, GMV_ERR_VALUE, pointer, "a tolerance is finite and not negative");
}

gmv_status gmv_comparison_check(const gmv_comparison_request *request, gmv_error *err)
{
    GMV_TRY(check_tolerance(request->absolute_tolerance, "/absolute_tolerance", err));
    return check_tolerance(request->relative_tolerance, "/relative_tolerance", err);
}

static gmv_status check_views(const gmv_view *a, const gmv_view *b, gmv_error *err)
{
    if (a->dtype != b->dtype)
        return gmv_fail(err, GMV_ERR_VALUE, "/other", "the elements are %s here and %s there",
                        gmv_dtype_describe(a->dtype)->name, gmv_dtype_describe(b->dtype)->name);
    if (a->ndim != b->ndim ||
        memcmp(gmv_view_shape(a), gmv_view_shape(b), a->ndim * sizeof(int64_t)) != 0)
        return gmv_fail(err, GMV_ERR_VALUE, "/other", "the shapes are not the same");
    return GMV_OK;
}

static gmv_status check_columns(const gmv_column *a, const gmv_column *b, gmv_error *err)
{
    if (a->type.id != b->type.id || a->type.scale != b->type.scale)
        return gmv_fail(err, GMV_ERR_VALUE, "/other", "the rows are of %s here and of %s there",
                        gmv_cudf_type_name(a->type.id), gmv_cudf_type_name(b->type.id));
    if (a->size != b->size)
        return gmv_fail(err, GMV_ERR_VALUE, "/other", "there are %d rows here and %d there",
                        (int)a->size, (int)b->size);
    return GMV_OK;
}

static gmv_status check_alike(gmv_node *a, gmv_node *b, gmv_error *err)
{
    gmv_kind kind = a->node_class->kind;
    if (kind != b->node_class->kind)
        return gmv_fail(err, GMV_ERR_KIND_MISMATCH, "/other", "a %s is compared with a %s",
                        gmv_kind_name(kind), gmv_kind_name(b->node_class->kind));
    if (kind == GMV_KIND_VIEW)
        return check_views(gmv_view_of(a), gmv_view_of(b), err);
    return check_columns(gmv_column_of(a), gmv_column_of(b), err);
}

static gmv_status describe_both(gmv_operation *operation, gmv_node *a, gmv_node *b,
                                gmv_subject *subjects, gmv_error *err)
{
    GMV_TRY(gmv__subject_describe(operation, a, NULL, &subjects[0], err));
    GMV_TRY(gmv__subject_describe(operation, b, "/other", &subjects[1], err));
    GMV_TRY(check_alike(a, b, err));
    if (!subjects[0].has_dtype)
        return gmv_fail(err, GMV_ERR_DTYPE_UNSUPPORTED, NULL, "decimals are not compared");
    if (subjects[0].size > 0 && subjects[0].device != subjects[1].device)
        return gmv_fail(err, GMV_ERR_VALUE, "/other", "the two are on different devices");
    return GMV_OK;
}

/* ---- the outcome ---- */

static gmv_comparison sum_up(const gmv_subject *subject, const gmv_comparison_partial *partial)
{
    gmv_dtype_kind kind = gmv_dtype_describe(subject->dtype)->kind;
    return (gmv_comparison){
        .equal = partial->differing == 0,
        .differing = (int64_t)partial->differing,
        .first_difference = partial->first == GMV_NO_INDEX ? -1 : (int64_t)partial->first,
        .has_differences = partial->n > 0,
        .is_integer = kind != GMV_DTYPE_FLOAT && kind != GMV_DTYPE_COMPLEX,
        .integer_difference = partial->integer_difference,
        .absolute_difference = partial->difference,
        .relative_difference = partial->relative_difference,
    };
}

gmv_status gmv_inspect_compare(gmv_operation *operation, gmv_node *subject, gmv_node *other,
                               const gmv_comparison_request *request,
                               gmv_comparison *out_comparison, gmv_error *err)
{
    gmv_subject subjects[2];
    gmv_comparison_partial partial = gmv_comparison_none();
    uint64_t nbytes;
    GMV_TRY(gmv_comparison_check(request, err));
    GMV_TRY(describe_both(operation, subject, other, subjects, err));
    if (!gmv_add_checked(gmv__subject_nbytes(&subjects[0]), gmv__subject_nbytes(&subjects[1]),
                         &nbytes))
        nbytes = UINT64_MAX;
    GMV_TRY(gmv_operation_weigh(operation, nbytes, err));
    GMV_TRY(compare_run(operation, subjects, request, &partial, err));
    *out_comparison = sum_up(&subjects[0], &partial);
    return GMV_OK;
}
