/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Floats as JSON: the fewest significant digits that read back to the same value in its own type.
 * Relies on the C locale's decimal point, which the daemon never changes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codec/json_writer.h"

#define FLOAT_TEXT_MAX 48
#define FLOAT_PLAIN_FROM \
    (-5) /* decimal exponents above this and below the next are written plainly */
#define FLOAT_PLAIN_TO 16

/* What tells the three types apart. The value itself travels as a double, which holds each exactly.
 */
typedef struct float_type {
    int safe_digits; /* any decimal of so many digits survives a trip through a normal value */
    int most_digits; /* so many always suffice */
    double least_normal;
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

/* Rounds a non-negative double below 2^52 to an integer, ties to even. */
static double float_round_even(double value)
{
    const double big = 4503599627370496.0;
    volatile double sum = value + big;
    return sum - big;
}

/* The magnitude rounded to binary16, as a double; beyond the largest one it is 65536. */
static double float16_round(double magnitude)
{
    double unit = 1.0 / 16777216; /* 2^-24, the spacing of the subnormals */
    for (double top = 1.0 / 8192; magnitude >= top && top < 65536; top *= 2)
        unit *= 2;
    double rounded = float_round_even(magnitude / unit) * unit;
    return rounded >= 65520 ? 65536 : rounded;
}

static bool float16_reads_back(const char *text, double value)
{
    double read = strtod(text, NULL);
    double magnitude = read < 0 ? -read : read;
    return float16_round(magnitude) == (value < 0 ? -value : value);
}

static const float_type float16_type = {3, 5, 6.103515625e-05, float16_reads_back};
static const float_type float32_type = {6, 9, 1.1754943508222875e-38, float32_reads_back};
static const float_type float64_type = {15, 17, 2.2250738585072014e-308, float64_reads_back};

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
    } else if (type == &float16_type || !float_put_whole(writer, value)) {
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

float gmv_float16_value(uint16_t bits)
{
    uint32_t exponent = (bits >> 10) & 0x1F;
    uint32_t mantissa = bits & 0x3FF;
    if (exponent == 0) {
        float magnitude = (float)mantissa / 16777216.0f;
        return bits >> 15 ? -magnitude : magnitude;
    }
    uint32_t wide = (uint32_t)(bits >> 15) << 31 | mantissa << 13;
    wide |= exponent == 0x1F ? 0x7F800000u : (exponent + 112) << 23;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}

void gmv_json_put_float16(gmv_json_writer *writer, uint16_t bits)
{
    float_put(writer, &float16_type, (double)gmv_float16_value(bits));
}
