/* SPDX-License-Identifier: Apache-2.0 */
/* Statistics: partials of parts, merged in order, and summed up. */
#include <gmv/base/num.h>
#include <math.h>

#include "ops/inspect_priv.h"

static gmv_status statistics_part(gmv_pass *pass, int64_t first, int64_t n,
                                  gmv_statistics_partial *whole, gmv_error *err)
{
    gmv_part part;
    gmv_statistics_partial partial;
    GMV_TRY(gmv__pass_load(pass, first, n, &part, err));
    gmv_statistics_reduction reduction = {
        .dtype = pass->subjects[0]->dtype,
        .input = part.address,
        .validity = part.validity,
        .n = n,
        .scratch = pass->own,
    };
    GMV_TRY(gmv_kernel_statistics(pass->draft.stream, &reduction, err));
    GMV_TRY(gmv_copy_out(pass->draft.stream, &partial, pass->own, sizeof partial, err));
    GMV_TRY(gmv_stream_finish(pass->draft.stream, err));
    gmv_statistics_add(whole, &partial);
    return GMV_OK;
}

gmv_status gmv__subject_statistics(gmv_operation *operation, const gmv_subject *subject,
                                   gmv_statistics_partial *out_partial, gmv_error *err)
{
    gmv_pass pass;
    gmv_statistics_partial whole = gmv_statistics_none();
    int64_t n_max = gmv__pass_part_max(subject, 1, 1, 1);
    gmv_status status = GMV_OK;
    *out_partial = whole;
    if (subject->size == 0)
        return GMV_OK;
    GMV_TRY(gmv__pass_begin(&pass, operation, subject, 1, 1, n_max,
                            gmv_statistics_scratch_nbytes(subject->dtype, n_max), err));
    for (int64_t first = 0; first < subject->size && status == GMV_OK; first += n_max)
        status = statistics_part(&pass, first, GMV_MIN(n_max, subject->size - first), &whole, err);
    GMV_TRY(gmv__pass_end(&pass, status, err));
    *out_partial = whole;
    return GMV_OK;
}

/* ---- summing up ---- */

static void sum_up_integers(const gmv_statistics_partial *partial, gmv_statistics *out)
{
    __int128 sum = (__int128)((unsigned __int128)partial->sum_high << 64 | partial->sum_low);
    out->sum_overflow = sum < INT64_MIN || sum > INT64_MAX;
    out->has_sum = !out->sum_overflow;
    out->sum_integer = out->has_sum ? (int64_t)sum : 0;
    out->has_mean = true;
    out->mean = (double)sum / (double)partial->n;
}

static void sum_up_floats(const gmv_statistics_partial *partial, gmv_statistics *out)
{
    double sum = partial->sum + partial->sum_error;
    out->sum_overflow = !isfinite(sum);
    out->has_sum = out->has_mean = !out->sum_overflow;
    out->sum = out->has_sum ? sum : 0;
    out->mean = out->has_sum ? sum / (double)partial->n : 0;
}

static gmv_statistics sum_up(const gmv_subject *subject, const gmv_statistics_partial *partial)
{
    gmv_dtype_kind kind = gmv_dtype_describe(subject->dtype)->kind;
    gmv_statistics out = {
        .dtype = kind == GMV_DTYPE_BOOLEAN ? GMV_DTYPE_U1 : subject->dtype,
        .count = subject->size,
        .nan_count = (int64_t)partial->nan_count,
        .inf_count = (int64_t)partial->inf_count,
        .zero_count = (int64_t)partial->zero_count,
        .is_integer = kind != GMV_DTYPE_FLOAT,
    };
    out.null_count = out.count - (int64_t)partial->n - out.nan_count - out.inf_count;
    if (partial->n == 0)
        return out;
    out.has_extremes = true;
    gmv_element_of_key(out.dtype, partial->min_key, out.min);
    gmv_element_of_key(out.dtype, partial->max_key, out.max);
    if (out.is_integer)
        sum_up_integers(partial, &out);
    else
        sum_up_floats(partial, &out);
    out.deviation = sqrt(partial->squares / (double)partial->n);
    out.has_deviation = isfinite(out.deviation);
    return out;
}

gmv_status gmv_inspect_statistics(gmv_operation *operation, gmv_node *subject_node, gmv_view *mask,
                                  gmv_statistics *out_statistics, gmv_error *err)
{
    gmv_subject subject;
    gmv_statistics_partial partial;
    GMV_TRY(gmv__subject_describe(operation, subject_node, NULL, &subject, err));
    GMV_TRY(gmv__subject_require_order(&subject, err));
    GMV_TRY(gmv__subject_add_mask(operation, &subject, mask, err));
    GMV_TRY(gmv_operation_weigh(operation, gmv__subject_nbytes(&subject), err));
    GMV_TRY(gmv__subject_statistics(operation, &subject, &partial, err));
    *out_statistics = sum_up(&subject, &partial);
    return GMV_OK;
}
