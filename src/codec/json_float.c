/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Floats as JSON: the fewest significant digits that read back to the same value in its own type.
 * Relies on the C locale's decimal point, which the daemon never changes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gmv/model/dtype_float.h>

#include "codec/json_writer.h"

#define FLOAT_TEXT_MAX 48
#define FLOAT_PLAIN_FROM \
    (-5) /* decimal exponents above this and below the next are written plainly */
#define FLOAT_PLAIN_TO 16

/* What tells the types apart. The value itself travels as a double, which holds each exactly.
 */
typedef struct float_type {
    int safe_digits; /* any decimal of so many digits survives a trip through a normal value */
    int most_digits; /* so many always suffice */
    double least_normal;
    bool has_whole; /* whole numbers below 10^6 have no text shorter than all of their digits */
    bool (*reads_back)(const char *text, double value);
} float_type;

typedef struct float_decimal {
    char digits[24]; /* significant digits, NUL-terminated */
    int exponent;    /* of the first digit */
    bool negative;
} float_decimal;

static uint64_t float_bits(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static bool float64_reads_back(const char *text, double value)
{
    return strtod(text, NULL) == value;
}

static bool float32_reads_back(const char *text, double value)
{
    return strtof(text, NULL) == (float)value;
}

/* The formats are few, and a text is tried for one of them: a function each. */
#define FLOAT_READS_BACK(name, dtype)                                                           \
    static bool name##_reads_back(const char *text, double value)                               \
    {                                                                                           \
        double read = strtod(text, NULL);                                                       \
        double magnitude = read < 0 ? -read : read;                                             \
        return gmv_small_float_round(gmv_small_float_describe(GMV_DTYPE_##dtype), magnitude) == \
               (value < 0 ? -value : value);                                                    \
    }

FLOAT_READS_BACK(float16, F2)
FLOAT_READS_BACK(bfloat16, BF16)
FLOAT_READS_BACK(float8_e4m3fn, F8_E4M3FN)
FLOAT_READS_BACK(float8_e5m2, F8_E5M2)

static const float_type float16_type = {3, 5, 6.103515625e-05, false, float16_reads_back};
static const float_type bfloat16_type = {2, 4, 1.1754943508222875e-38, false, bfloat16_reads_back};
static const float_type float8_e4m3fn_type = {1, 3, 0.015625, false, float8_e4m3fn_reads_back};
static const float_type float8_e5m2_type = {1, 2, 6.103515625e-05, false, float8_e5m2_reads_back};
static const float_type float32_type = {6, 9, 1.1754943508222875e-38, true, float32_reads_back};
static const float_type float64_type = {15, 17, 2.2250738585072014e-308, true, float64_reads_back};

/* Splits what "%.*e" wrote. */
static void float_split(const char *text, float_decimal *out)
{
    size_t count = 0;
    out->negative = *text == '-';
    if (out->negative)
        text++;
    for (; *text != 'e' && *text != '\0'; text++)
        if (*text != '.' && count < sizeof out->digits - 1)
            out->digits[count++] = *text;
    out->digits[count] = '\0';
    out->exponent = *text == 'e' ? (int)strtol(text + 1, NULL, 10) : 0;
}

/* The next decimal of as many digits away from zero. */
static void float_step_up(float_decimal *decimal)
{
    size_t at = strlen(decimal->digits);
    while (at > 0 && decimal->digits[at - 1] == '9')
        decimal->digits[--at] = '0';
    if (at > 0) {
        decimal->digits[at - 1]++;
        return;
    }
    decimal->digits[0] = '1';
    decimal->exponent++;
}

static void float_join(const float_decimal *decimal, char text[FLOAT_TEXT_MAX])
{
    snprintf(text, FLOAT_TEXT_MAX, "%s%c.%se%d", decimal->negative ? "-" : "", decimal->digits[0],
             decimal->digits + 1, decimal->exponent);
}

/*
 * Tries so many digits: the nearest such decimal, and at a power of two, where the values above lie
 * further apart than those below, also the next one up.
 */
static bool float_try(const float_type *type, double value, int n_digits, float_decimal *out)
{
    char text[FLOAT_TEXT_MAX];
    snprintf(text, sizeof text, "%.*e", n_digits - 1, value);
    float_split(text, out);
    if (type->reads_back(text, value))
        return true;
    if ((float_bits(value) << 12) != 0)
        return false;
    float_step_up(out);
    float_join(out, text);
    return type->reads_back(text, value);
}

static void float_shortest(const float_type *type, double value, float_decimal *out)
{
    double magnitude = value < 0 ? -value : value;
    int n_digits = magnitude >= type->least_normal ? type->safe_digits : 1;
    while (n_digits < type->most_digits && !float_try(type, value, n_digits, out))
        n_digits++;
    if (n_digits == type->most_digits)
        (void)float_try(type, value, n_digits, out);
    size_t length = strlen(out->digits);
    while (length > 1 && out->digits[length - 1] == '0')
        out->digits[--length] = '\0';
}

static size_t float_put_zeros(char *text, size_t count)
{
    memset(text, '0', count);
    return count;
}

/* Digits with a point among, before or after them. */
static size_t float_plain(const float_decimal *decimal, char *text)
{
    size_t length = strlen(decimal->digits);
    size_t at = 0;
    if (decimal->exponent < 0) {
        text[at++] = '0';
        text[at++] = '.';
        at += float_put_zeros(text + at, (size_t)(-decimal->exponent - 1));
        memcpy(text + at, decimal->digits, length);
        return at + length;
    }
    size_t whole = (size_t)decimal->exponent + 1;
    size_t taken = length < whole ? length : whole;
    memcpy(text, decimal->digits, taken);
    at = taken + float_put_zeros(text + taken, whole - taken);
    text[at++] = '.';
    if (length == taken) {
        text[at++] = '0';
        return at;
    }
    memcpy(text + at, decimal->digits + taken, length - taken);
    return at + length - taken;
}

static size_t float_scientific(const float_decimal *decimal, char *text)
{
    size_t length = strlen(decimal->digits);
    size_t at = 0;
    text[at++] = decimal->digits[0];
    if (length > 1) {
        text[at++] = '.';
        memcpy(text + at, decimal->digits + 1, length - 1);
        at += length - 1;
    }
    return at + (size_t)snprintf(text + at, FLOAT_TEXT_MAX - at, "e%+d", decimal->exponent);
}

/* Whole numbers are common and need no search. */
static bool float_put_whole(gmv_json_writer *writer, double value)
{
    if (!(value > -1e6 && value < 1e6) || value != (double)(int64_t)value || value == 0)
        return false;
    gmv_json_put_int64(writer, (int64_t)value);
    gmv_strbuf_append(writer->out, ".0", 2);
    return true;
}

static void float_put(gmv_json_writer *writer, const float_type *type, double value)
{
    if (value != value) {
        gmv_json_put_raw(writer, "\"NaN\"", 5);
    } else if (value == 0) {
        bool negative = float_bits(value) >> 63;
        gmv_json_put_raw(writer, negative ? "-0.0" : "0.0", negative ? 4 : 3);
    } else if (value - value != 0) {
        gmv_json_put_raw(writer, value > 0 ? "\"Infinity\"" : "\"-Infinity\"", value > 0 ? 10 : 11);
    } else if (!type->has_whole || !float_put_whole(writer, value)) {
        char text[FLOAT_TEXT_MAX];
        float_decimal decimal;
        float_shortest(type, value, &decimal);
        size_t at = 0;
        if (decimal.negative)
            text[at++] = '-';
        bool plain = decimal.exponent > FLOAT_PLAIN_FROM && decimal.exponent < FLOAT_PLAIN_TO;
        at += plain ? float_plain(&decimal, text + at) : float_scientific(&decimal, text + at);
        gmv_json_put_raw(writer, text, at);
    }
}

void gmv_json_put_float32(gmv_json_writer *writer, float value)
{
    float_put(writer, &float32_type, (double)value);
}

void gmv_json_put_float64(gmv_json_writer *writer, double value)
{
    float_put(writer, &float64_type, value);
}

static void float_put_small(gmv_json_writer *writer, const float_type *type, gmv_dtype dtype,
                            uint16_t bits)
{
    float_put(writer, type, (double)gmv_small_float_value(gmv_small_float_describe(dtype), bits));
}

void gmv_json_put_float16(gmv_json_writer *writer, uint16_t bits)
{
    float_put_small(writer, &float16_type, GMV_DTYPE_F2, bits);
}

void gmv_json_put_bfloat16(gmv_json_writer *writer, uint16_t bits)
{
    float_put_small(writer, &bfloat16_type, GMV_DTYPE_BF16, bits);
}

void gmv_json_put_float8_e4m3fn(gmv_json_writer *writer, uint8_t bits)
{
    float_put_small(writer, &float8_e4m3fn_type, GMV_DTYPE_F8_E4M3FN, bits);
}

void gmv_json_put_float8_e5m2(gmv_json_writer *writer, uint8_t bits)
{
    float_put_small(writer, &float8_e5m2_type, GMV_DTYPE_F8_E5M2, bits);
}
