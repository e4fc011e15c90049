/* SPDX-License-Identifier: Apache-2.0 */
/* One small function puts one element; tables choose it. Elements may lie at any address. */
#include "codec/values.h"

#include <stdio.h>
#include <string.h>

typedef void (*values_put)(gmv_json_writer *writer, const unsigned char *element, int32_t scale);

#define VALUES_PUT_NUMBER(name, type, put)                                               \
    static void values_put_##name(gmv_json_writer *writer, const unsigned char *element, \
                                  int32_t scale)                                         \
    {                                                                                    \
        type value;                                                                      \
        memcpy(&value, element, sizeof value);                                           \
        put(writer, value);                                                              \
    }

VALUES_PUT_NUMBER(u1, uint8_t, gmv_json_put_uint64)
VALUES_PUT_NUMBER(u2, uint16_t, gmv_json_put_uint64)
VALUES_PUT_NUMBER(u4, uint32_t, gmv_json_put_uint64)
VALUES_PUT_NUMBER(u8, uint64_t, gmv_json_put_uint64)
VALUES_PUT_NUMBER(i1, int8_t, gmv_json_put_int64)
VALUES_PUT_NUMBER(i2, int16_t, gmv_json_put_int64)
VALUES_PUT_NUMBER(i4, int32_t, gmv_json_put_int64)
VALUES_PUT_NUMBER(i8, int64_t, gmv_json_put_int64)
VALUES_PUT_NUMBER(f2, uint16_t, gmv_json_put_float16)
VALUES_PUT_NUMBER(bf16, uint16_t, gmv_json_put_bfloat16)
VALUES_PUT_NUMBER(f8_e4m3fn, uint8_t, gmv_json_put_float8_e4m3fn)
VALUES_PUT_NUMBER(f8_e5m2, uint8_t, gmv_json_put_float8_e5m2)
VALUES_PUT_NUMBER(f4, float, gmv_json_put_float32)
VALUES_PUT_NUMBER(f8, double, gmv_json_put_float64)

static void values_put_b1(gmv_json_writer *writer, const unsigned char *element, int32_t scale)
{
    gmv_json_put_bool(writer, *element != 0);
}

static void values_put_c8(gmv_json_writer *writer, const unsigned char *element, int32_t scale)
{
    gmv_json_open_array(writer);
    values_put_f4(writer, element, 0);
    values_put_f4(writer, element + sizeof(float), 0);
    gmv_json_close_array(writer);
}

static void values_put_c16(gmv_json_writer *writer, const unsigned char *element, int32_t scale)
{
    gmv_json_open_array(writer);
    values_put_f8(writer, element, 0);
    values_put_f8(writer, element + sizeof(double), 0);
    gmv_json_close_array(writer);
}

/* ---- dates ---- */

typedef struct values_date {
    int64_t year;
    unsigned month, day;
} values_date;

static int64_t values_floor_divide(int64_t value, int64_t by)
{
    return value / by - (value % by < 0);
}

/* What the floor leaves: 0 to by - 1. Not by multiplying back, which may overflow. */
static int64_t values_floor_rest(int64_t value, int64_t by)
{
    int64_t rest = value % by;
    return rest < 0 ? rest + by : rest;
}

/*
 * Days since 1970-01-01 to a date of the proleptic Gregorian calendar, by eras of 400 years that
 * begin in March, so that the leap day is the last of its year.
 */
static values_date values_date_of(int64_t days)
{
    const int64_t days_of_era = 146097;
    int64_t shifted = days + 719468; /* days from 0000-03-01 to 1970-01-01 */
    int64_t era = values_floor_divide(shifted, days_of_era);
    int64_t day = shifted - era * days_of_era;
    int64_t year = (day - day / 1460 + day / 36524 - day / 146096) / 365;
    int64_t day_of_year = day - (365 * year + year / 4 - year / 100);
    int64_t month = (5 * day_of_year + 2) / 153;
    values_date date;
    date.day = (unsigned)(day_of_year - (153 * month + 2) / 5 + 1);
    date.month = (unsigned)(month < 10 ? month + 3 : month - 9);
    date.year = year + era * 400 + (date.month <= 2);
    return date;
}

/* Years that ISO 8601 writes with four digits; all others get a sign. */
static int values_format_date(int64_t days, char *out, size_t capacity)
{
    values_date date = values_date_of(days);
    bool plain = date.year >= 1 && date.year <= 9999;
    int signed_width = plain ? 0 : snprintf(out, capacity, "%c", date.year < 0 ? '-' : '+');
    return signed_width +
           snprintf(out + signed_width, capacity - (size_t)signed_width, "%04lld-%02u-%02u",
                    (long long)(date.year < 0 ? -date.year : date.year), date.month, date.day);
}

static void values_put_days(gmv_json_writer *writer, const unsigned char *element, int32_t scale)
{
    char text[64];
    int32_t days;
    memcpy(&days, element, sizeof days);
    int length = values_format_date(days, text, sizeof text);
    gmv_json_put_text(writer, text, (size_t)length);
}

/* `per_second` units a second, written with `n_digits` decimals. */
static void values_put_instant(gmv_json_writer *writer, const unsigned char *element,
                               int64_t per_second, int n_digits)
{
    char text[96];
    int64_t value;
    memcpy(&value, element, sizeof value);
    int64_t seconds = values_floor_divide(value, per_second);
    int64_t fraction = values_floor_rest(value, per_second);
    int64_t days = values_floor_divide(seconds, 86400);
    int64_t second = values_floor_rest(seconds, 86400);
    size_t at = (size_t)values_format_date(days, text, sizeof text);
    at += (size_t)snprintf(text + at, sizeof text - at, "T%02d:%02d:%02d", (int)(second / 3600),
                           (int)(second / 60 % 60), (int)(second % 60));
    if (n_digits > 0)
        at +=
            (size_t)snprintf(text + at, sizeof text - at, ".%0*lld", n_digits, (long long)fraction);
    text[at++] = 'Z';
    gmv_json_put_text(writer, text, at);
}

#define VALUES_PUT_INSTANT(name, per_second, n_digits)                                   \
    static void values_put_##name(gmv_json_writer *writer, const unsigned char *element, \
                                  int32_t scale)                                         \
    {                                                                                    \
        values_put_instant(writer, element, per_second, n_digits);                       \
    }

VALUES_PUT_INSTANT(seconds, 1, 0)
VALUES_PUT_INSTANT(milliseconds, 1000, 3)
VALUES_PUT_INSTANT(microseconds, 1000000, 6)
VALUES_PUT_INSTANT(nanoseconds, 1000000000, 9)

/* ---- decimals ---- */

#define VALUES_INT128_DIGITS 40 /* of the largest magnitude, 2^127, and a NUL */
#define VALUES_PLAIN_SCALE   38 /* beyond it zeros say less than an exponent */

static size_t values_digits(unsigned __int128 magnitude, char *out)
{
    char reversed[VALUES_INT128_DIGITS];
    size_t length = 0;
    do {
        reversed[length++] = (char)('0' + (int)(magnitude % 10));
        magnitude /= 10;
    } while (magnitude != 0);
    for (size_t i = 0; i < length; i++)
        out[i] = reversed[length - 1 - i];
    return length;
}

/* value times 10^scale, all digits, as a string: "-1.50", "1200", "5E-90". */
static void values_put_decimal(gmv_json_writer *writer, __int128 value, int32_t scale)
{
    char digits[VALUES_INT128_DIGITS];
    char text[2 * VALUES_INT128_DIGITS + 32];
    size_t at = 0;
    bool negative = value < 0;
    size_t length =
        values_digits(negative ? 0 - (unsigned __int128)value : (unsigned __int128)value, digits);
    if (negative)
        text[at++] = '-';
    if (scale < -VALUES_PLAIN_SCALE || scale > VALUES_PLAIN_SCALE) {
        memcpy(text + at, digits, length);
        at += length;
        at += (size_t)snprintf(text + at, sizeof text - at, "E%+d", (int)scale);
    } else if (scale >= 0) {
        size_t zeros = value == 0 ? 0 : (size_t)scale;
        memcpy(text + at, digits, length);
        memset(text + at + length, '0', zeros);
        at += length + zeros;
    } else {
        size_t decimals = (size_t)-scale;
        size_t padding = length > decimals ? 0 : decimals + 1 - length;
        size_t whole = length + padding - decimals;
        char padded[2 * VALUES_INT128_DIGITS];
        memset(padded, '0', padding);
        memcpy(padded + padding, digits, length);
        memcpy(text + at, padded, whole);
        text[at + whole] = '.';
        memcpy(text + at + whole + 1, padded + whole, decimals);
        at += whole + 1 + decimals;
    }
    gmv_json_put_text(writer, text, at);
}

#define VALUES_PUT_DECIMAL(name, type)                                                   \
    static void values_put_##name(gmv_json_writer *writer, const unsigned char *element, \
                                  int32_t scale)                                         \
    {                                                                                    \
        type value;                                                                      \
        memcpy(&value, element, sizeof value);                                           \
        values_put_decimal(writer, value, scale);                                        \
    }

VALUES_PUT_DECIMAL(decimal32, int32_t)
VALUES_PUT_DECIMAL(decimal64, int64_t)
VALUES_PUT_DECIMAL(decimal128, __int128)

/* ---- tables ---- */

static const values_put values_by_dtype[GMV_DTYPE_COUNT] = {
    [GMV_DTYPE_U1] = values_put_u1,           [GMV_DTYPE_U2] = values_put_u2,
    [GMV_DTYPE_U4] = values_put_u4,           [GMV_DTYPE_U8] = values_put_u8,
    [GMV_DTYPE_I1] = values_put_i1,           [GMV_DTYPE_I2] = values_put_i2,
    [GMV_DTYPE_I4] = values_put_i4,           [GMV_DTYPE_I8] = values_put_i8,
    [GMV_DTYPE_F2] = values_put_f2,           [GMV_DTYPE_F4] = values_put_f4,
    [GMV_DTYPE_F8] = values_put_f8,           [GMV_DTYPE_B1] = values_put_b1,
    [GMV_DTYPE_C8] = values_put_c8,           [GMV_DTYPE_C16] = values_put_c16,
    [GMV_DTYPE_M8_S] = values_put_i8,         [GMV_DTYPE_M8_MS] = values_put_i8,
    [GMV_DTYPE_M8_US] = values_put_i8,        [GMV_DTYPE_M8_NS] = values_put_i8,
    [GMV_DTYPE_TD_S] = values_put_i8,         [GMV_DTYPE_TD_MS] = values_put_i8,
    [GMV_DTYPE_TD_US] = values_put_i8,        [GMV_DTYPE_TD_NS] = values_put_i8,
    [GMV_DTYPE_BF16] = values_put_bf16,       [GMV_DTYPE_F8_E4M3FN] = values_put_f8_e4m3fn,
    [GMV_DTYPE_F8_E5M2] = values_put_f8_e5m2,
};

static const values_put values_by_cudf_type[GMV_CUDF_TYPE_COUNT] = {
    [GMV_CUDF_INT8] = values_put_i1,
    [GMV_CUDF_INT16] = values_put_i2,
    [GMV_CUDF_INT32] = values_put_i4,
    [GMV_CUDF_INT64] = values_put_i8,
    [GMV_CUDF_UINT8] = values_put_u1,
    [GMV_CUDF_UINT16] = values_put_u2,
    [GMV_CUDF_UINT32] = values_put_u4,
    [GMV_CUDF_UINT64] = values_put_u8,
    [GMV_CUDF_FLOAT32] = values_put_f4,
    [GMV_CUDF_FLOAT64] = values_put_f8,
    [GMV_CUDF_BOOL8] = values_put_b1,
    [GMV_CUDF_TIMESTAMP_DAYS] = values_put_days,
    [GMV_CUDF_TIMESTAMP_SECONDS] = values_put_seconds,
    [GMV_CUDF_TIMESTAMP_MILLISECONDS] = values_put_milliseconds,
    [GMV_CUDF_TIMESTAMP_MICROSECONDS] = values_put_microseconds,
    [GMV_CUDF_TIMESTAMP_NANOSECONDS] = values_put_nanoseconds,
    [GMV_CUDF_DURATION_DAYS] = values_put_i4,
    [GMV_CUDF_DURATION_SECONDS] = values_put_i8,
    [GMV_CUDF_DURATION_MILLISECONDS] = values_put_i8,
    [GMV_CUDF_DURATION_MICROSECONDS] = values_put_i8,
    [GMV_CUDF_DURATION_NANOSECONDS] = values_put_i8,
    [GMV_CUDF_DECIMAL32] = values_put_decimal32,
    [GMV_CUDF_DECIMAL64] = values_put_decimal64,
    [GMV_CUDF_DECIMAL128] = values_put_decimal128,
};

static bool values_is_valid(const uint8_t *validity, int64_t i)
{
    return validity == NULL || ((unsigned)validity[i / 8] >> (i % 8) & 1) != 0;
}

void gmv_encode_element(gmv_json_writer *writer, gmv_dtype dtype, const void *element)
{
    values_by_dtype[dtype](writer, element, 0);
}

void gmv_encode_masked_elements(gmv_json_writer *writer, gmv_dtype dtype, const void *elements,
                                const uint8_t *validity, int64_t count)
{
    const unsigned char *at = elements;
    size_t itemsize = gmv_dtype_describe(dtype)->itemsize;
    gmv_json_open_array(writer);
    for (int64_t i = 0; i < count; i++, at += itemsize) {
        if (values_is_valid(validity, i))
            values_by_dtype[dtype](writer, at, 0);
        else
            gmv_json_put_null(writer);
    }
    gmv_json_close_array(writer);
}

void gmv_encode_elements(gmv_json_writer *writer, gmv_dtype dtype, const void *elements,
                         int64_t count)
{
    gmv_encode_masked_elements(writer, dtype, elements, NULL, count);
}

void gmv_encode_fixed_width(gmv_json_writer *writer, gmv_cudf_type type, const void *element)
{
    values_by_cudf_type[type.id](writer, element, type.scale);
}
