/* SPDX-License-Identifier: Apache-2.0 */
/* Histograms with the edges of numpy.histogram: linspace, in float32 where NumPy has it so. */
#include <gmv/base/alloc.h>
#include <gmv/base/num.h>
#include <math.h>

#include "ops/inspect_priv.h"

/* ---- edges ---- */

typedef struct edge_range {
    double first, last;
    bool is_short; /* both are float32 values of the array, so NumPy goes on in float32 */
} edge_range;

/* What is not given is found; nothing to be found in: 0 to 1. */
static gmv_status range_find(gmv_operation *operation, const gmv_subject *subject,
                             const gmv_histogram_request *request, edge_range *out, gmv_error *err)
{
    gmv_statistics_partial partial;
    unsigned char element[8];
    *out = (edge_range){request->min, request->max, false};
    if (request->has_min && request->has_max)
        return GMV_OK;
    GMV_TRY(gmv__subject_statistics(operation, subject, &partial, err));
    if (partial.n > 0) {
        gmv_dtype dtype = subject->dtype == GMV_DTYPE_B1 ? GMV_DTYPE_U1 : subject->dtype;
        gmv_element_of_key(dtype, partial.min_key, element);
        out->first = request->has_min ? request->min : gmv_element_value(dtype, element);
        gmv_element_of_key(dtype, partial.max_key, element);
        out->last = request->has_max ? request->max : gmv_element_value(dtype, element);
    } else {
        out->first = request->has_min ? request->min : request->has_max ? request->max : 0;
        out->last = request->has_max ? request->max : request->has_min ? request->min : 1;
    }
    /* A side that was found may lie beyond the one that was given. */
    if (out->first > out->last && request->has_min)
        out->last = out->first;
    else if (out->first > out->last)
        out->first = out->last;
    out->is_short = subject->dtype == GMV_DTYPE_F4 && !request->has_min && !request->has_max;
    return GMV_OK;
}

/* Each step is rounded by itself: a product and a sum must not become one. */
static void edges_fill_short(float first, float last, int64_t bins, double *edges)
{
    float delta = last - first, step = delta / (float)bins;
    for (int64_t i = 0; i < bins; i++) {
        volatile float offset = (float)i * step;
        if (step == 0)
            offset = (float)i / (float)bins * delta;
        float edge = offset + first;
        edges[i] = (double)edge;
    }
    edges[bins] = (double)last;
}

static void edges_fill(double first, double last, int64_t bins, double *edges)
{
    double delta = last - first, step = delta / (double)bins;
    for (int64_t i = 0; i < bins; i++) {
        volatile double offset = (double)i * step;
        if (step == 0)
            offset = (double)i / (double)bins * delta;
        edges[i] = offset + first;
    }
    edges[bins] = last;
}

static gmv_status edges_make(const gmv_subject *subject, edge_range range, int64_t bins,
                             double *edges, gmv_error *err)
{
    if (range.first == range.last && range.is_short) {
        range.first = (double)((float)range.first - 0.5f);
        range.last = (double)((float)range.last + 0.5f);
    } else if (range.first == range.last) {
        range.first -= 0.5;
        range.last += 0.5;
    }
    if (!isfinite(range.last - range.first))
        return gmv_fail(err, GMV_ERR_VALUE, "/max", "the range is wider than a double can say");
    if (range.is_short)
        edges_fill_short((float)range.first, (float)range.last, bins, edges);
    else
        edges_fill(range.first, range.last, bins, edges);
    if (subject->dtype == GMV_DTYPE_F4)
        for (int64_t i = 0; i <= bins; i++)
            edges[i] = (double)(float)edges[i];
    for (int64_t i = 0; i < bins; i++)
        if (!(edges[i] < edges[i + 1]))
            return gmv_fail(err, GMV_ERR_VALUE, "/bins",
                            "%lld bins are too many: between %.17g and %.17g there are not as many "
                            "numbers",
                            (long long)bins, range.first, range.last);
    return GMV_OK;
}

/* ---- counts ---- */

static gmv_status histogram_count(gmv_pass *pass, const gmv_subject *subject,
                                  gmv_histogram *histogram, gmv_error *err)
{
    const uint64_t edges_nbytes = (uint64_t)(histogram->bins + 1) * sizeof(double);
    const uint64_t counts = pass->own + gmv_round_up(edges_nbytes, 64);
    const uint64_t counts_nbytes =
        (uint64_t)(histogram->bins + GMV_HISTOGRAM_RESTS) * sizeof(uint64_t);
    gmv_stream *stream = pass->draft.stream;
    GMV_TRY(gmv_stream_use(stream, pass->scratch, err));
    GMV_TRY(gmv_copy_in(stream, pass->own, histogram->edges, edges_nbytes, err));
    GMV_TRY(gmv_fill(stream, counts, 0, counts_nbytes, err));
    for (int64_t first = 0, n; first < subject->size; first += n) {
        gmv_part part;
        n = GMV_MIN(pass->n_max, subject->size - first);
        GMV_TRY(gmv__pass_load(pass, first, n, &part, err));
        gmv_histogram_reduction reduction = {
            .dtype = subject->dtype,
            .input = part.address,
            .validity = part.validity,
            .n = n,
            .edges = pass->own,
            .n_bins = histogram->bins,
            .first_edge = histogram->edges[0],
            .last_edge = histogram->edges[histogram->bins],
            .counts = counts,
        };
        GMV_TRY(gmv_kernel_histogram(stream, &reduction, err));
        GMV_TRY(gmv_stream_finish(stream, err));
    }
    GMV_TRY(gmv_stream_use(stream, pass->scratch, err));
    return gmv_copy_out(stream, histogram->counts, counts, counts_nbytes, err);
}

static gmv_status histogram_make(gmv_operation *operation, const gmv_subject *subject,
                                 const gmv_histogram_request *request, gmv_histogram *histogram,
                                 gmv_error *err)
{
    edge_range range;
    gmv_pass pass;
    GMV_TRY(range_find(operation, subject, request, &range, err));
    GMV_TRY(edges_make(subject, range, histogram->bins, histogram->edges, err));
    if (subject->size == 0)
        return GMV_OK;
    uint64_t own = ((uint64_t)histogram->bins * 2 + GMV_HISTOGRAM_RESTS + 16) * sizeof(uint64_t);
    GMV_TRY(gmv__pass_begin(&pass, operation, subject, 1, 1, gmv__pass_part_max(subject, 1, 1, 1),
                            own, err));
    return gmv__pass_end(&pass, histogram_count(&pass, subject, histogram, err), err);
}

static gmv_status request_check(const gmv_histogram_request *request, gmv_error *err)
{
    if (request->bins < 1 || request->bins > GMV_HISTOGRAM_BINS_MAX)
        return gmv_fail(err, GMV_ERR_VALUE, "/bins", "a histogram has 1 to %d bins",
                        GMV_HISTOGRAM_BINS_MAX);
    if ((request->has_min && !isfinite(request->min)) ||
        (request->has_max && !isfinite(request->max)))
        return gmv_fail(err, GMV_ERR_VALUE, request->has_min ? "/min" : "/max",
                        "the range must be finite");
    if (request->has_min && request->has_max && request->min > request->max)
        return gmv_fail(err, GMV_ERR_VALUE, "/max", "the range ends before it begins");
    return GMV_OK;
}

gmv_status gmv_inspect_histogram(gmv_operation *operation, gmv_node *subject_node,
                                 const gmv_histogram_request *request, gmv_histogram *out_histogram,
                                 gmv_error *err)
{
    gmv_subject subject;
    uint64_t nbytes;
    GMV_TRY(request_check(request, err));
    GMV_TRY(gmv__subject_describe(operation, subject_node, NULL, &subject, err));
    GMV_TRY(gmv__subject_require_order(&subject, err));
    if (!gmv_mul_checked(gmv__subject_nbytes(&subject),
                         (uint64_t)(request->has_min && request->has_max ? 1 : 2), &nbytes))
        nbytes = UINT64_MAX;
    GMV_TRY(gmv_operation_weigh(operation, nbytes, err));
    gmv_histogram histogram = {
        .bins = request->bins,
        .edges = gmv_calloc((size_t)request->bins + 1, sizeof(double)),
        .counts = gmv_calloc((size_t)request->bins + GMV_HISTOGRAM_RESTS, sizeof(uint64_t)),
        .short_edges = subject.dtype == GMV_DTYPE_F4,
    };
    gmv_status status = histogram.edges && histogram.counts
                            ? histogram_make(operation, &subject, request, &histogram, err)
                            : gmv_fail_no_memory(err);
    if (status != GMV_OK) {
        gmv_histogram_fini(&histogram);
        return status;
    }
    *out_histogram = histogram;
    return GMV_OK;
}

void gmv_histogram_fini(gmv_histogram *histogram)
{
    gmv_free(histogram->edges);
    gmv_free(histogram->counts);
    *histogram = (gmv_histogram){0};
}
