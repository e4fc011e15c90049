/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading elements: one row for each type that has numbers in an order, and what reductions ask of
 * an element's bits. Also how outcomes merge. Plain C and C++ without any backend's types: host
 * kernels, CUDA kernels and the tests' stand-in include it, so all read the same.
 *
 * For a row with suffix s and storage type T there are
 *   element_double_s(T)    its value, rounded where a double cannot hold it; finite ones only
 *   element_key_s(T)       an unsigned integer of the same order
 *   element_of_key_s(T)    an element that has this key
 *   element_class_s(T)     finite, not a number, or infinite
 *   element_is_zero_s(T)
 *   element_low_s(T), element_high_s(T)  integers: 128 bits of two's complement
 */
#ifndef GMV_DEVICE_ELEMENTS_H
#define GMV_DEVICE_ELEMENTS_H

#ifndef __CUDACC__
#    include <math.h>
#endif
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <gmv/device/partials.h>

#ifdef __CUDACC__
#    define ELEMENT static __device__ __forceinline__
#else
#    define ELEMENT static inline __attribute__((unused, always_inline))
#endif

#define ELEMENT_FINITE   0u
#define ELEMENT_NAN      1u
#define ELEMENT_INFINITE 2u

/* X(dtype, suffix, storage type, bits of it, is a float). Dates and time spans are read as i8. */
#define ELEMENT_MAP(X)                        \
    X(U1, u1, uint8_t, 8, false)              \
    X(U2, u2, uint16_t, 16, false)            \
    X(U4, u4, uint32_t, 32, false)            \
    X(U8, u8, uint64_t, 64, false)            \
    X(I1, i1, uint8_t, 8, false)              \
    X(I2, i2, uint16_t, 16, false)            \
    X(I4, i4, uint32_t, 32, false)            \
    X(I8, i8, uint64_t, 64, false)            \
    X(B1, b1, uint8_t, 8, false)              \
    X(F2, f2, uint16_t, 16, true)             \
    X(BF16, bf16, uint16_t, 16, true)         \
    X(F8_E4M3FN, f8_e4m3fn, uint8_t, 8, true) \
    X(F8_E5M2, f8_e5m2, uint8_t, 8, true)     \
    X(F4, f4, uint32_t, 32, true)             \
    X(F8, f8, uint64_t, 64, true)

/* The rows' places, in the order above. */
#define ELEMENT_ENUM(dtype, suffix, type, bits, is_float) ELEMENT_##suffix,
enum { ELEMENT_MAP(ELEMENT_ENUM) ELEMENT_COUNT };
#undef ELEMENT_ENUM

/* ---- integers ---- */

#define ELEMENT_DEFINE_INTEGER(suffix, storage, value_type, sign)      \
    ELEMENT double element_double_##suffix(storage bits)               \
    {                                                                  \
        return (double)(value_type)bits;                               \
    }                                                                  \
    ELEMENT storage element_key_##suffix(storage bits)                 \
    {                                                                  \
        return (storage)(bits ^ (sign));                               \
    }                                                                  \
    ELEMENT storage element_of_key_##suffix(storage key)               \
    {                                                                  \
        return (storage)(key ^ (sign));                                \
    }                                                                  \
    ELEMENT uint32_t element_class_##suffix(storage bits)              \
    {                                                                  \
        (void)bits;                                                    \
        return ELEMENT_FINITE;                                         \
    }                                                                  \
    ELEMENT bool element_is_zero_##suffix(storage bits)                \
    {                                                                  \
        return bits == 0;                                              \
    }                                                                  \
    ELEMENT uint64_t element_low_##suffix(storage bits)                \
    {                                                                  \
        return (uint64_t)(int64_t)(value_type)bits;                    \
    }                                                                  \
    ELEMENT uint64_t element_high_##suffix(storage bits)               \
    {                                                                  \
        return (sign) != 0 && ((bits & (sign)) != 0) ? UINT64_MAX : 0; \
    }

ELEMENT_DEFINE_INTEGER(u1, uint8_t, uint8_t, 0)
ELEMENT_DEFINE_INTEGER(u2, uint16_t, uint16_t, 0)
ELEMENT_DEFINE_INTEGER(u4, uint32_t, uint32_t, 0)
ELEMENT_DEFINE_INTEGER(u8, uint64_t, uint64_t, 0)
ELEMENT_DEFINE_INTEGER(i1, uint8_t, int8_t, 0x80)
ELEMENT_DEFINE_INTEGER(i2, uint16_t, int16_t, 0x8000)
ELEMENT_DEFINE_INTEGER(i4, uint32_t, int32_t, 0x80000000u)
ELEMENT_DEFINE_INTEGER(i8, uint64_t, int64_t, UINT64_C(0x8000000000000000))

/* Any byte but 0 is true, which is 1. */
ELEMENT double element_double_b1(uint8_t bits)
{
    return bits ? 1 : 0;
}

ELEMENT uint8_t element_key_b1(uint8_t bits)
{
    return bits != 0;
}

ELEMENT uint8_t element_of_key_b1(uint8_t key)
{
    return key;
}

ELEMENT uint32_t element_class_b1(uint8_t bits)
{
    (void)bits;
    return ELEMENT_FINITE;
}

ELEMENT bool element_is_zero_b1(uint8_t bits)
{
    return bits == 0;
}

ELEMENT uint64_t element_low_b1(uint8_t bits)
{
    return bits != 0;
}

ELEMENT uint64_t element_high_b1(uint8_t bits)
{
    (void)bits;
    return 0;
}

/* ---- floats ---- */

ELEMENT float element_float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

ELEMENT double element_double_f4(uint32_t bits)
{
    return (double)element_float_of(bits);
}

ELEMENT double element_double_f8(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

ELEMENT double element_double_bf16(uint16_t bits)
{
    return (double)element_float_of((uint32_t)bits << 16);
}

/*
 * The magnitude's bits are moved to where a float has them; a power of two makes up for the other
 * bias, and for subnormals, too.
 */
ELEMENT double element_double_f2(uint16_t bits)
{
    float magnitude = element_float_of((bits & 0x7fffu) << 13) * element_float_of(0x77800000u);
    return (double)(bits & 0x8000u ? -magnitude : magnitude);
}

ELEMENT double element_double_f8_e5m2(uint8_t bits)
{
    return element_double_f2((uint16_t)((unsigned)bits << 8));
}

ELEMENT double element_double_f8_e4m3fn(uint8_t bits)
{
    float magnitude = element_float_of((bits & 0x7fu) << 20) * element_float_of(0x7b800000u);
    return (double)(bits & 0x80u ? -magnitude : magnitude);
}

/* `infinity`: the bits of it; all magnitudes beyond are no numbers. */
#define ELEMENT_DEFINE_FLOAT(suffix, storage, sign, infinity)                    \
    ELEMENT storage element_key_##suffix(storage bits)                           \
    {                                                                            \
        return (storage)(bits ^ (bits & (sign) ? (sign) + ((sign)-1) : (sign))); \
    }                                                                            \
    ELEMENT storage element_of_key_##suffix(storage key)                         \
    {                                                                            \
        return (storage)(key ^ (key & (sign) ? (sign) : (sign) + ((sign)-1)));   \
    }                                                                            \
    ELEMENT uint32_t element_class_##suffix(storage bits)                        \
    {                                                                            \
        storage magnitude = (storage)(bits & ((sign)-1));                        \
        return magnitude < (infinity)    ? ELEMENT_FINITE                        \
               : magnitude == (infinity) ? ELEMENT_INFINITE                      \
                                         : ELEMENT_NAN;                          \
    }                                                                            \
    ELEMENT bool element_is_zero_##suffix(storage bits)                          \
    {                                                                            \
        return (bits & ((sign)-1)) == 0;                                         \
    }                                                                            \
    ELEMENT uint64_t element_low_##suffix(storage bits)                          \
    {                                                                            \
        (void)bits;                                                              \
        return 0;                                                                \
    }                                                                            \
    ELEMENT uint64_t element_high_##suffix(storage bits)                         \
    {                                                                            \
        (void)bits;                                                              \
        return 0;                                                                \
    }

ELEMENT_DEFINE_FLOAT(f2, uint16_t, 0x8000u, 0x7c00u)
ELEMENT_DEFINE_FLOAT(bf16, uint16_t, 0x8000u, 0x7f80u)
ELEMENT_DEFINE_FLOAT(f8_e5m2, uint8_t, 0x80u, 0x7cu)
ELEMENT_DEFINE_FLOAT(f4, uint32_t, 0x80000000u, 0x7f800000u)
ELEMENT_DEFINE_FLOAT(f8, uint64_t, UINT64_C(0x8000000000000000), UINT64_C(0x7ff0000000000000))

/* It has no infinity: only all ones are no number. */
ELEMENT uint8_t element_key_f8_e4m3fn(uint8_t bits)
{
    return (uint8_t)(bits ^ (bits & 0x80u ? 0xffu : 0x80u));
}

ELEMENT uint8_t element_of_key_f8_e4m3fn(uint8_t key)
{
    return (uint8_t)(key ^ (key & 0x80u ? 0x80u : 0xffu));
}

ELEMENT uint32_t element_class_f8_e4m3fn(uint8_t bits)
{
    return (bits & 0x7fu) == 0x7fu ? ELEMENT_NAN : ELEMENT_FINITE;
}

ELEMENT bool element_is_zero_f8_e4m3fn(uint8_t bits)
{
    return (bits & 0x7fu) == 0;
}

ELEMENT uint64_t element_low_f8_e4m3fn(uint8_t bits)
{
    (void)bits;
    return 0;
}

ELEMENT uint64_t element_high_f8_e4m3fn(uint8_t bits)
{
    (void)bits;
    return 0;
}

/* Bits that all are set in what is not finite, of as many elements as 64 bits hold; 0: all are. */
#define element_limits_u1        UINT64_C(0)
#define element_limits_u2        UINT64_C(0)
#define element_limits_u4        UINT64_C(0)
#define element_limits_u8        UINT64_C(0)
#define element_limits_i1        UINT64_C(0)
#define element_limits_i2        UINT64_C(0)
#define element_limits_i4        UINT64_C(0)
#define element_limits_i8        UINT64_C(0)
#define element_limits_b1        UINT64_C(0)
#define element_limits_f2        UINT64_C(0x7c007c007c007c00)
#define element_limits_bf16      UINT64_C(0x7f807f807f807f80)
#define element_limits_f8_e4m3fn UINT64_C(0x7f7f7f7f7f7f7f7f)
#define element_limits_f8_e5m2   UINT64_C(0x7c7c7c7c7c7c7c7c)
#define element_limits_f4        UINT64_C(0x7f8000007f800000)
#define element_limits_f8        UINT64_C(0x7ff0000000000000)

/* ---- statistics ---- */

ELEMENT gmv_statistics_partial statistics_none(void)
{
    gmv_statistics_partial none = {0};
    none.min_key = UINT64_MAX;
    return none;
}

/* a + b, and what rounding took from it, exactly. */
ELEMENT double sum_exactly(double a, double b, double *out_error)
{
    double sum = a + b, from_b = sum - a;
    *out_error = (a - (sum - from_b)) + (b - from_b);
    return sum;
}

/* Moments of `n` elements that follow `*into_n` others: mean and squares. */
ELEMENT void moments_merge(uint64_t into_n, double *mean, double *squares, uint64_t n,
                           double from_mean, double from_squares)
{
    if (n == 0)
        return;
    if (into_n == 0) {
        *mean = from_mean;
        *squares = from_squares;
        return;
    }
    double share = (double)n / (double)(into_n + n), delta = from_mean - *mean;
    *squares += from_squares + delta * delta * ((double)into_n * share);
    *mean += delta * share;
}

ELEMENT void statistics_merge(gmv_statistics_partial *into, const gmv_statistics_partial *from)
{
    double error;
    moments_merge(into->n, &into->mean, &into->squares, from->n, from->mean, from->squares);
    into->n += from->n;
    into->nan_count += from->nan_count;
    into->inf_count += from->inf_count;
    into->zero_count += from->zero_count;
    into->min_key = from->min_key < into->min_key ? from->min_key : into->min_key;
    into->max_key = from->max_key > into->max_key ? from->max_key : into->max_key;
    into->sum_low += from->sum_low;
    into->sum_high += from->sum_high + (into->sum_low < from->sum_low);
    into->sum = sum_exactly(into->sum, from->sum, &error);
    into->sum_error += from->sum_error + error;
}

/* ---- comparisons ---- */

ELEMENT gmv_comparison_partial comparison_none(void)
{
    gmv_comparison_partial none = {0};
    none.first = GMV_NO_INDEX;
    return none;
}

ELEMENT void comparison_merge(gmv_comparison_partial *into, const gmv_comparison_partial *from)
{
    into->n += from->n;
    into->differing += from->differing;
    into->first = from->first < into->first ? from->first : into->first;
    if (from->integer_difference > into->integer_difference)
        into->integer_difference = from->integer_difference;
    if (from->difference > into->difference)
        into->difference = from->difference;
    if (from->relative_difference > into->relative_difference)
        into->relative_difference = from->relative_difference;
}

typedef struct comparison_options {
    double absolute, relative;
    bool nan_equal;
} comparison_options;

/*
 * Pairs of one part, up to 2^32, in order. The largest relative difference is a fraction, so that
 * no pair needs a division; where products of a type's numbers may overflow, it is divided.
 */
typedef struct comparison_pairs {
    uint32_t n, differing;
    uint64_t first;
    uint64_t integer_difference;
    double difference;
    double numerator, denominator;
} comparison_pairs;

ELEMENT comparison_pairs comparison_begin(void)
{
    comparison_pairs pairs = {0, 0, GMV_NO_INDEX, 0, 0, 0, 1};
    return pairs;
}

ELEMENT gmv_comparison_partial comparison_end(const comparison_pairs *pairs)
{
    gmv_comparison_partial partial;
    partial.n = pairs->n;
    partial.differing = pairs->differing;
    partial.first = pairs->first;
    partial.integer_difference = pairs->integer_difference;
    partial.difference = pairs->difference;
    partial.relative_difference = pairs->numerator > 0 ? pairs->numerator / pairs->denominator : 0;
    return partial;
}

ELEMENT double element_magnitude(double value)
{
#ifdef __CUDACC__
    return fabs(value);
#else
    return __builtin_fabs(value);
#endif
}

ELEMENT void comparison_add_relative(comparison_pairs *pairs, double difference, double reference,
                                     bool is_wide)
{
    if (!is_wide) {
        bool more = difference * pairs->denominator > pairs->numerator * reference;
        pairs->numerator = more ? difference : pairs->numerator;
        pairs->denominator = more ? reference : pairs->denominator;
    } else if (reference < 0x1p-900 || difference > pairs->numerator * reference) {
        /* Few pairs come here; products of the smallest numbers say nothing. */
        double relative = difference / reference;
        pairs->numerator = relative > pairs->numerator ? relative : pairs->numerator;
    }
}

/* What a pair of finite elements adds; false if they are not close enough. */
ELEMENT bool comparison_add_difference(comparison_pairs *pairs, double difference, double reference,
                                       bool is_wide, const comparison_options *options)
{
    pairs->n++;
    pairs->difference = difference > pairs->difference ? difference : pairs->difference;
    if (reference > 0)
        comparison_add_relative(pairs, difference, reference, is_wide);
    return difference <= options->absolute + options->relative * reference;
}

/* Indices ascend. */
ELEMENT void comparison_add_index(comparison_pairs *pairs, uint64_t index)
{
    pairs->first = pairs->differing == 0 ? index : pairs->first;
    pairs->differing++;
}

/* Keys are as far apart as the integers are. */
#define COMPARISON_DEFINE_INTEGER(suffix, type)                                                    \
    ELEMENT void comparison_pair_##suffix(comparison_pairs *pairs, type a, type b, uint64_t index, \
                                          const comparison_options *options)                       \
    {                                                                                              \
        type key_a = element_key_##suffix(a), key_b = element_key_##suffix(b);                     \
        uint64_t difference = (type)(key_a < key_b ? key_b - key_a : key_a - key_b);               \
        double reference = element_magnitude(element_double_##suffix(b));                          \
        if (difference == 0) {                                                                     \
            pairs->n++;                                                                            \
            return;                                                                                \
        }                                                                                          \
        if (difference > pairs->integer_difference)                                                \
            pairs->integer_difference = difference;                                                \
        if (!comparison_add_difference(pairs, (double)difference, reference, false, options))      \
            comparison_add_index(pairs, index);                                                    \
    }

#define COMPARISON_DEFINE_FLOAT(suffix, type)                                                      \
    ELEMENT void comparison_pair_##suffix(comparison_pairs *pairs, type a, type b, uint64_t index, \
                                          const comparison_options *options)                       \
    {                                                                                              \
        uint32_t class_a = element_class_##suffix(a), class_b = element_class_##suffix(b);         \
        if (a == b && class_a == ELEMENT_FINITE) {                                                 \
            pairs->n++;                                                                            \
            return;                                                                                \
        }                                                                                          \
        if ((class_a | class_b) == ELEMENT_FINITE) {                                               \
            double value_b = element_double_##suffix(b);                                           \
            double difference = element_magnitude(element_double_##suffix(a) - value_b);           \
            if (!comparison_add_difference(pairs, difference, element_magnitude(value_b),          \
                                           sizeof(type) == 8, options))                            \
                comparison_add_index(pairs, index);                                                \
            return;                                                                                \
        }                                                                                          \
        bool equal = class_a == class_b && (class_a == ELEMENT_NAN ? options->nan_equal : a == b); \
        if (!equal)                                                                                \
            comparison_add_index(pairs, index);                                                    \
    }

#define COMPARISON_DEFINE_true(suffix, type)  COMPARISON_DEFINE_FLOAT(suffix, type)
#define COMPARISON_DEFINE_false(suffix, type) COMPARISON_DEFINE_INTEGER(suffix, type)
#define COMPARISON_DEFINE(dtype, suffix, type, bits, is_float) \
    COMPARISON_DEFINE_##is_float(suffix, type)
ELEMENT_MAP(COMPARISON_DEFINE)

/*
 * A complex number is no number if a part of it is none, and infinite if a part is and none is no
 * number; infinite ones are equal if both parts are.
 */
#define COMPARISON_DEFINE_COMPLEX(suffix, part, type)                                             \
    ELEMENT uint32_t element_class_##suffix(type real, type imaginary)                            \
    {                                                                                             \
        uint32_t both = element_class_##part(real) | element_class_##part(imaginary);             \
        return both & ELEMENT_NAN ? ELEMENT_NAN : both;                                           \
    }                                                                                             \
    ELEMENT bool element_parts_equal_##suffix(type a, type b)                                     \
    {                                                                                             \
        return a == b || (element_is_zero_##part(a) && element_is_zero_##part(b));                \
    }                                                                                             \
    ELEMENT void comparison_pair_##suffix(comparison_pairs *pairs, type a_real, type a_imaginary, \
                                          type b_real, type b_imaginary, uint64_t index,          \
                                          const comparison_options *options)                      \
    {                                                                                             \
        uint32_t class_a = element_class_##suffix(a_real, a_imaginary);                           \
        uint32_t class_b = element_class_##suffix(b_real, b_imaginary);                           \
        bool equal;                                                                               \
        if ((class_a | class_b) == ELEMENT_FINITE) {                                              \
            double real = element_double_##part(b_real);                                          \
            double imaginary = element_double_##part(b_imaginary);                                \
            double difference = hypot(element_double_##part(a_real) - real,                       \
                                      element_double_##part(a_imaginary) - imaginary);            \
            equal = comparison_add_difference(pairs, difference, hypot(real, imaginary),          \
                                              sizeof(type) == 8, options);                        \
        } else if ((class_a | class_b) & ELEMENT_NAN) {                                           \
            equal = class_a == class_b && options->nan_equal;                                     \
        } else {                                                                                  \
            equal = element_parts_equal_##suffix(a_real, b_real) &&                               \
                    element_parts_equal_##suffix(a_imaginary, b_imaginary);                       \
        }                                                                                         \
        if (!equal)                                                                               \
            comparison_add_index(pairs, index);                                                   \
    }

COMPARISON_DEFINE_COMPLEX(c8, f4, uint32_t)
COMPARISON_DEFINE_COMPLEX(c16, f8, uint64_t)

/* ---- histograms ---- */

/* The last bin of low to high whose first edge is not above the value; that of `low` is not. */
ELEMENT uint64_t histogram_seek(double value, const double *edges, uint64_t low, uint64_t high)
{
    while (low < high) {
        uint64_t middle = low + (high - low + 1) / 2;
        if (value < edges[middle])
            high = middle - 1;
        else
            low = middle;
    }
    return low;
}

/*
 * The bin of a value between the first and the last edge: a guess, put right by the edges
 * themselves. Rounding leads it to a neighbour at most, unless the range is so narrow that `scale`
 * is infinite: then the bin is searched for, as a walk may be long.
 */
ELEMENT uint64_t histogram_bin(double value, const double *edges, uint64_t n_bins, double first,
                               double scale)
{
    double guess = (value - first) * scale;
    uint64_t bin = guess > 0 ? (guess < (double)n_bins ? (uint64_t)guess : n_bins - 1) : 0;
    if (bin > 0 && value < edges[bin])
        return value < edges[bin - 1] ? histogram_seek(value, edges, 0, bin - 1) : bin - 1;
    if (bin + 1 < n_bins && value >= edges[bin + 1]) {
        bool is_next = bin + 2 >= n_bins || value < edges[bin + 2];
        return is_next ? bin + 1 : histogram_seek(value, edges, bin + 2, n_bins - 1);
    }
    return bin;
}

#endif
