/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Vectors of four doubles, which any compiler breaks up where the processor has shorter ones. Names
 * of what is 0 or all ones in each lane end in _mask.
 */
#include "device/host/host_loops.h"

#include <math.h>
#include <string.h>

#define LANES   4u
#define VECTORS (HOST_LOOP_LANES / LANES) /* independent sums */
#define SUMMED  1024u /* values whose sums are added to the rest, so that each has few errors */
#define BODY    static inline __attribute__((always_inline))

typedef double vector __attribute__((vector_size(32)));
typedef int64_t lanes __attribute__((vector_size(32)));

/* Through memory of any alignment; what the function makes of it stays in registers. */
#define LOAD(out, address) memcpy(&(out), (address), sizeof(vector))

BODY double vector_sum(const vector *sums)
{
    vector sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

/* Past the end there are values that add nothing. */
BODY void values_pad(double *values, uint32_t n, double with)
{
    for (uint32_t i = 0; i < HOST_LOOP_LANES; i++)
        values[n + i] = with;
}

/* Where squares of what the mean is off overflow, those of the deviations may not. */
static double squares_apart(const double *values, uint32_t n, double mean)
{
    double squares = 0;
    for (uint32_t i = 0; i < n; i++)
        squares += (values[i] - mean) * (values[i] - mean);
    return squares;
}

/*
 * A first look finds the mean but for rounding, a second one how far it is off. Where all values
 * are the same, all deviations are a few units, whose sums are exact: the mean is that value, and
 * nothing is left of the squares.
 */
BODY void moments_body(const double *values, uint32_t n, host_moments *out)
{
    vector sums[VECTORS] = {{0}}, shifts[VECTORS] = {{0}}, squares[VECTORS] = {{0}}, value;
    const uint32_t n_whole = n / HOST_LOOP_LANES * HOST_LOOP_LANES;
    double sum = 0, shift = 0, square = 0;
    for (uint32_t done = 0; done < n_whole; done += SUMMED) {
        vector part[VECTORS] = {{0}};
        for (uint32_t i = done; i < n_whole && i < done + SUMMED; i += HOST_LOOP_LANES) {
            for (uint32_t v = 0; v < VECTORS; v++) {
                LOAD(value, values + i + v * LANES);
                part[v] += value;
            }
        }
        for (uint32_t v = 0; v < VECTORS; v++)
            sums[v] += part[v];
    }
    for (uint32_t i = n_whole; i < n; i++)
        sum += values[i];
    sum += vector_sum(sums);
    const double about = sum / n;
    const vector pivot = {about, about, about, about};
    for (uint32_t i = 0; i < n_whole; i += HOST_LOOP_LANES) {
        for (uint32_t v = 0; v < VECTORS; v++) {
            LOAD(value, values + i + v * LANES);
            value -= pivot;
            shifts[v] += value;
            squares[v] += value * value;
        }
    }
    for (uint32_t i = n_whole; i < n; i++) {
        shift += values[i] - about;
        square += (values[i] - about) * (values[i] - about);
    }
    shift += vector_sum(shifts);
    square = (square + vector_sum(squares)) - shift * (shift / n);
    out->sum = sum;
    out->mean = about + shift / n;
    out->squares = square < 0 ? 0 : isfinite(square) ? square : squares_apart(values, n, out->mean);
}

#define MASKED(mask, value) ((vector)((mask) & (lanes)(value)))
#define CHOOSE(mask, a, b)  ((vector)(((mask) & (lanes)(a)) | (~(mask) & (lanes)(b))))

BODY double vector_largest(const vector *values)
{
    const vector value = *values;
    double largest = 0;
    for (uint32_t i = 0; i < LANES; i++)
        largest = value[i] > largest ? value[i] : largest;
    return largest;
}

BODY void pairs_body(double *const pairs[2], uint32_t n, const comparison_options *options,
                     host_pairs *out)
{
    const lanes magnitude = {INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX}, zero = {0};
    const vector infinity = {HUGE_VAL, HUGE_VAL, HUGE_VAL, HUGE_VAL}, one = {1, 1, 1, 1};
    const double absolute = options->absolute, relative = options->relative;
    const vector absolutes = {absolute, absolute, absolute, absolute};
    const vector relatives = {relative, relative, relative, relative};
    const lanes nan_mask = options->nan_equal ? ~zero : zero;
    vector most = {0}, most_relative = {0}, a, b;
    lanes n_finite = {0}, n_equal = {0};
    values_pad(pairs[0], n, HUGE_VAL);
    values_pad(pairs[1], n, HUGE_VAL);
    for (uint32_t i = 0; i < n; i += LANES) {
        LOAD(a, pairs[0] + i);
        LOAD(b, pairs[1] + i);
        vector reference = (vector)((lanes)b & magnitude);
        lanes finite_mask =
            (lanes)((vector)((lanes)a & magnitude) < infinity) & (lanes)(reference < infinity);
        vector difference = MASKED(finite_mask, (vector)((lanes)(a - b) & magnitude));
        lanes some_mask = (lanes)(difference > (vector){0}) & (lanes)(reference > (vector){0});
        vector ratio = MASKED(some_mask, difference / CHOOSE(some_mask, reference, one));
        lanes close_mask = (lanes)(difference <= absolutes + relatives * reference);
        lanes other_mask = (lanes)(a == b) | ((lanes)(a != a) & (lanes)(b != b) & nan_mask);
        most = CHOOSE((lanes)(difference > most), difference, most);
        most_relative = CHOOSE((lanes)(ratio > most_relative), ratio, most_relative);
        n_finite -= finite_mask;
        n_equal -= (finite_mask & close_mask) | (~finite_mask & other_mask);
    }
    out->difference = vector_largest(&most);
    out->relative = vector_largest(&most_relative);
    out->n_finite = (uint32_t)(n_finite[0] + n_finite[1] + n_finite[2] + n_finite[3]);
    /* Padding is equal, too. */
    out->differing = (n + LANES - 1) / LANES * LANES -
                     (uint32_t)(n_equal[0] + n_equal[1] + n_equal[2] + n_equal[3]);
}

/* Few blocks come here: those that have the first pair of all. */
static uint32_t first_differing(double *const pairs[2], uint32_t n,
                                const comparison_options *options)
{
    uint32_t i = 0;
    for (; i + 1 < n; i++) {
        double a = pairs[0][i], b = pairs[1][i];
        bool is_equal = a == b || (isnan(a) && isnan(b) && options->nan_equal);
        if (isfinite(a) && isfinite(b))
            is_equal = fabs(a - b) <= options->absolute + options->relative * fabs(b);
        if (!is_equal)
            break;
    }
    return i;
}

#define DEFINE_LOOPS(name, target)                                                         \
    static target void name##_moments(const double *values, uint32_t n, host_moments *out) \
    {                                                                                      \
        moments_body(values, n, out);                                                      \
    }                                                                                      \
    static target void name##_pairs(double *const pairs[2], uint32_t n,                    \
                                    const comparison_options *options, host_pairs *out)    \
    {                                                                                      \
        pairs_body(pairs, n, options, out);                                                \
    }                                                                                      \
    const host_loops gmv__host_##name##_loops = {                                          \
        .moments = name##_moments, .pairs = name##_pairs, .first_differing = first_differing};

DEFINE_LOOPS(portable, )
#if defined(__x86_64__)
DEFINE_LOOPS(avx2, __attribute__((target("avx2"))))
#else
DEFINE_LOOPS(avx2, )
#endif
