/* SPDX-License-Identifier: Apache-2.0 */
/* Floats as text: they read back, and no shorter text does. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>

#include <gmv/model/dtype_float.h>

#include "codec/json_writer.h"

#define FLOAT_RANDOM_ROUNDS 20000

static const char *float_text64(gmv_strbuf *out, double value)
{
    gmv_json_writer writer = gmv_json_writer_over(out);
    out->length = 0;
    gmv_json_put_float64(&writer, value);
    return out->data;
}

static const char *float_text32(gmv_strbuf *out, float value)
{
    gmv_json_writer writer = gmv_json_writer_over(out);
    out->length = 0;
    gmv_json_put_float32(&writer, value);
    return out->data;
}

static const char *float_text16(gmv_strbuf *out, uint16_t bits)
{
    gmv_json_writer writer = gmv_json_writer_over(out);
    out->length = 0;
    gmv_json_put_float16(&writer, bits);
    return out->data;
}

/* Significant digits of a decimal text, leading and trailing zeros left out. */
static int float_digits(const char *text)
{
    char digits[64];
    int n = 0;
    for (; *text != '\0' && *text != 'e'; text++)
        if (*text >= '0' && *text <= '9' && (n > 0 || *text != '0'))
            digits[n++] = *text;
    while (n > 0 && digits[n - 1] == '0')
        n--;
    return n;
}

/* A JSON number with a point or an exponent. */
static bool float_is_json_real(const char *text)
{
    if (*text == '-')
        text++;
    size_t whole = strspn(text, "0123456789");
    if (whole == 0 || (text[0] == '0' && whole > 1))
        return false;
    bool marked = false;
    text += whole;
    if (*text == '.') {
        size_t fraction = strspn(text + 1, "0123456789");
        if (fraction == 0)
            return false;
        marked = true;
        text += 1 + fraction;
    }
    if (*text == 'e') {
        text++;
        text += *text == '+' || *text == '-';
        size_t exponent = strspn(text, "0123456789");
        if (exponent == 0)
            return false;
        marked = true;
        text += exponent;
    }
    return marked && *text == '\0';
}

typedef bool (*float_same)(const char *text, double value);

static bool float_same64(const char *text, double value)
{
    return strtod(text, NULL) == value;
}

static bool float_same32(const char *text, double value)
{
    return strtof(text, NULL) == (float)value;
}

/*
 * Whether a decimal of exactly n digits reads back: the two that enclose the value are enough, as
 * those further away are further away.
 */
static bool float_has_shorter(double value, int n, float_same same)
{
    char text[64];
    char digits[32];
    snprintf(text, sizeof text, "%.*e", n - 1, value);
    if (same(text, value))
        return true;
    int exponent = atoi(strchr(text, 'e') + 1);
    int count = 0;
    for (const char *at = text; *at != 'e'; at++)
        if (*at >= '0' && *at <= '9')
            digits[count++] = *at;
    digits[count] = '\0';
    long long number = atoll(digits);
    for (long long step = -1; step <= 1; step += 2) {
        snprintf(text, sizeof text, "%s%llde%d", value < 0 ? "-" : "", number + step,
                 exponent - count + 1);
        if (same(text, value))
            return true;
    }
    return false;
}

static void float_check(const char *text, double value, float_same same)
{
    cr_assert(float_is_json_real(text), "%s", text);
    cr_assert(same(text, value), "%s is not %.17g", text, value);
    int n = float_digits(text);
    cr_assert(n <= 1 || !float_has_shorter(value, n - 1, same), "%s has a shorter spelling", text);
}

static uint64_t float_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

Test(json_float, known_doubles_have_their_known_texts)
{
    static const struct {
        double value;
        const char *text;
    } rows[] = {
        {0.0, "0.0"},
        {-0.0, "-0.0"},
        {3.0, "3.0"},
        {-1.0, "-1.0"},
        {0.1, "0.1"},
        {0.3, "0.3"},
        {0.1 + 0.2, "0.30000000000000004"},
        {1e-4, "0.0001"},
        {1e-5, "1e-5"},
        {123456.789, "123456.789"},
        {999999.0, "999999.0"},
        {1000000.0, "1000000.0"},
        {1e15, "1000000000000000.0"},
        {1e16, "1e+16"},
        {1e22, "1e+22"},
        {1e23, "1e+23"},
        {9007199254740992.0, "9007199254740992.0"},
        {9007199254740993.0, "9007199254740992.0"},
        {1.7976931348623157e308, "1.7976931348623157e+308"},
        {2.2250738585072014e-308, "2.2250738585072014e-308"},
        {2.225073858507201e-308, "2.225073858507201e-308"},
        {5e-324, "5e-324"},
        {5.684341886080802e-14,
         "5.684341886080802e-14"}, /* 2^-44: its nearest 16 digits are too low */
        {4.35, "4.35"},
    };
    gmv_strbuf out = GMV_STRBUF_INIT;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        cr_assert_str_eq(float_text64(&out, rows[i].value), rows[i].text);
    gmv_strbuf_fini(&out);
}

Test(json_float, known_floats_have_their_known_texts)
{
    static const struct {
        float value;
        const char *text;
    } rows[] = {
        {0.1f, "0.1"},
        {3.0f, "3.0"},
        {-0.0f, "-0.0"},
        {1.5f, "1.5"},
        {16777216.0f, "16777216.0"},
        {3.4028235e38f, "3.4028235e+38"},
        {1.17549435e-38f, "1.1754944e-38"},
        {1e-45f, "1e-45"},
        {0.3f, "0.3"},
        {33554432.0f, "33554432.0"},
        {8.5899346e9f, "8589935000.0"},
    };
    gmv_strbuf out = GMV_STRBUF_INIT;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        cr_assert_str_eq(float_text32(&out, rows[i].value), rows[i].text);
    gmv_strbuf_fini(&out);
}

Test(json_float, what_is_not_finite_is_a_string)
{
    gmv_strbuf out = GMV_STRBUF_INIT;
    cr_assert_str_eq(float_text64(&out, (double)NAN), "\"NaN\"");
    cr_assert_str_eq(float_text64(&out, -(double)NAN), "\"NaN\"");
    cr_assert_str_eq(float_text64(&out, (double)INFINITY), "\"Infinity\"");
    cr_assert_str_eq(float_text64(&out, -(double)INFINITY), "\"-Infinity\"");
    cr_assert_str_eq(float_text32(&out, NAN), "\"NaN\"");
    cr_assert_str_eq(float_text32(&out, -INFINITY), "\"-Infinity\"");
    cr_assert_str_eq(float_text16(&out, 0x7C00), "\"Infinity\"");
    cr_assert_str_eq(float_text16(&out, 0xFC00), "\"-Infinity\"");
    cr_assert_str_eq(float_text16(&out, 0x7E00), "\"NaN\"");
    gmv_strbuf_fini(&out);
}

Test(json_float, random_doubles_are_shortest)
{
    gmv_strbuf out = GMV_STRBUF_INIT;
    uint64_t state = 88172645463325252u;
    for (int i = 0; i < FLOAT_RANDOM_ROUNDS; i++) {
        double value;
        uint64_t bits = float_random(&state);
        memcpy(&value, &bits, sizeof value);
        if (isfinite(value))
            float_check(float_text64(&out, value), value, float_same64);
        value = (double)(int64_t)(bits >> 20) / 1000;
        if (value != 0)
            float_check(float_text64(&out, value), value, float_same64);
    }
    gmv_strbuf_fini(&out);
}

Test(json_float, random_floats_are_shortest)
{
    gmv_strbuf out = GMV_STRBUF_INIT;
    uint64_t state = 2463534242u;
    for (int i = 0; i < FLOAT_RANDOM_ROUNDS; i++) {
        float value;
        uint32_t bits = (uint32_t)float_random(&state);
        memcpy(&value, &bits, sizeof value);
        if (isfinite(value) && value != 0)
            float_check(float_text32(&out, value), (double)value, float_same32);
    }
    gmv_strbuf_fini(&out);
}

Test(json_float, powers_of_two_and_their_neighbours_are_shortest)
{
    gmv_strbuf out = GMV_STRBUF_INIT;
    for (int exponent = -1074; exponent <= 1023; exponent++) {
        double value = ldexp(1.0, exponent);
        float_check(float_text64(&out, value), value, float_same64);
        value = nextafter(value, (double)INFINITY);
        float_check(float_text64(&out, value), value, float_same64);
        value = -nextafter(nextafter(value, 0), 0);
        if (value != 0)
            float_check(float_text64(&out, value), value, float_same64);
    }
    for (int exponent = -149; exponent <= 127; exponent++) {
        float value = ldexpf(1.0f, exponent);
        float_check(float_text32(&out, value), (double)value, float_same32);
    }
    gmv_strbuf_fini(&out);
}

/* ---- binary16: all of them
 * ----------------------------------------------------------------------- */

static double float_half(uint16_t bits)
{
    int exponent = bits >> 10 & 0x1F;
    int mantissa = bits & 0x3FF;
    double value = exponent == 0 ? ldexp(mantissa, -24) : ldexp(1024 + mantissa, exponent - 25);
    return bits >> 15 ? -value : value;
}

/* By comparison with the neighbours in the table of all values, ties to the even one. */
static bool float_same16(const char *text, double value)
{
    double read = fabs(strtod(text, NULL));
    double magnitude = fabs(value);
    uint16_t bits = 0;
    for (uint16_t half = 0x4000; half > 0; half >>= 1)
        if ((bits | half) < 0x7C00 && float_half((uint16_t)(bits | half)) <= magnitude)
            bits |= half;
    double below = bits == 0 ? 0 : (float_half((uint16_t)(bits - 1)) + magnitude) / 2;
    double next = bits + 1 < 0x7C00 ? float_half((uint16_t)(bits + 1)) : 65536;
    double above = (magnitude + next) / 2;
    bool even = bits % 2 == 0;
    return even ? read >= below && read <= above : read > below && read < above;
}

Test(json_float, every_binary16_is_shortest)
{
    gmv_strbuf out = GMV_STRBUF_INIT;
    for (uint32_t bits = 0; bits < 0x10000; bits++) {
        if ((bits >> 10 & 0x1F) == 0x1F || (bits & 0x7FFF) == 0)
            continue;
        double value = float_half((uint16_t)bits);
        cr_assert_eq((double)gmv_float16_value((uint16_t)bits), value);
        float_check(float_text16(&out, (uint16_t)bits), value, float_same16);
    }
    cr_assert_str_eq(float_text16(&out, 0x8000), "-0.0");
    cr_assert_str_eq(float_text16(&out, 0x3C00), "1.0");
    cr_assert_str_eq(float_text16(&out, 0x2E66), "0.1");
    cr_assert_str_eq(float_text16(&out, 0x7BFF), "65500.0");
    cr_assert_str_eq(float_text16(&out, 0x0001), "6e-8");
    gmv_strbuf_fini(&out);
}

/* ---- the other small floats: all of them, against the table of their values
 * ---------------------------------------- */

typedef struct float_small {
    gmv_dtype dtype;
    unsigned finite; /* patterns of bits below it are finite and not negative */
    double beyond;   /* where the value after the largest would be */
} float_small;

static const float_small float_smalls[] = {
    {GMV_DTYPE_BF16, 0x7F80, 0x1p128},
    {GMV_DTYPE_F8_E4M3FN, 0x7F, 480},
    {GMV_DTYPE_F8_E5M2, 0x7C, 65536},
};

static const float_small *float_tried;

static double float_small_at(const float_small *small, unsigned bits)
{
    if (bits >= small->finite)
        return small->beyond;
    return (double)gmv_small_float_value(gmv_small_float_describe(small->dtype), (uint16_t)bits);
}

static bool float_same_small(const char *text, double value)
{
    double read = fabs(strtod(text, NULL));
    unsigned low = 0, high = float_tried->finite;
    while (high - low > 1) {
        unsigned middle = (low + high) / 2;
        if (float_small_at(float_tried, middle) <= fabs(value))
            low = middle;
        else
            high = middle;
    }
    double own = float_small_at(float_tried, low);
    double below = low == 0 ? 0 : (float_small_at(float_tried, low - 1) + own) / 2;
    double above = (own + float_small_at(float_tried, low + 1)) / 2;
    return low % 2 == 0 ? read >= below && read <= above : read > below && read < above;
}

static const char *float_text_small(gmv_strbuf *out, gmv_dtype dtype, unsigned bits)
{
    gmv_json_writer writer = gmv_json_writer_over(out);
    out->length = 0;
    if (dtype == GMV_DTYPE_BF16)
        gmv_json_put_bfloat16(&writer, (uint16_t)bits);
    else if (dtype == GMV_DTYPE_F8_E4M3FN)
        gmv_json_put_float8_e4m3fn(&writer, (uint8_t)bits);
    else
        gmv_json_put_float8_e5m2(&writer, (uint8_t)bits);
    return out->data;
}

Test(json_float, every_machine_learning_float_is_shortest)
{
    gmv_strbuf out = GMV_STRBUF_INIT;
    for (size_t i = 0; i < sizeof float_smalls / sizeof float_smalls[0]; i++) {
        float_tried = &float_smalls[i];
        for (unsigned bits = 1; bits < float_tried->finite; bits++) {
            const char *text = float_text_small(&out, float_tried->dtype, bits);
            float_check(text, float_small_at(float_tried, bits), float_same_small);
        }
    }
    gmv_strbuf_fini(&out);
}

Test(json_float, known_machine_learning_floats_have_their_known_texts)
{
    static const struct {
        gmv_dtype dtype;
        unsigned bits;
        const char *text;
    } rows[] = {
        {GMV_DTYPE_BF16, 0x3F80, "1.0"},
        {GMV_DTYPE_BF16, 0x3DCD, "0.1"},
        {GMV_DTYPE_BF16, 0xC049, "-3.14"},
        {GMV_DTYPE_BF16, 0x7F7F, "3.39e+38"},
        {GMV_DTYPE_BF16, 0x0001, "9e-41"},
        {GMV_DTYPE_BF16, 0x8000, "-0.0"},
        {GMV_DTYPE_BF16, 0x7F80, "\"Infinity\""},
        {GMV_DTYPE_BF16, 0xFF80, "\"-Infinity\""},
        {GMV_DTYPE_BF16, 0x7FC0, "\"NaN\""},
        {GMV_DTYPE_F8_E4M3FN, 0x38, "1.0"},
        {GMV_DTYPE_F8_E4M3FN, 0x7E, "450.0"},
        {GMV_DTYPE_F8_E4M3FN, 0x7F, "\"NaN\""},
        {GMV_DTYPE_F8_E4M3FN, 0xFF, "\"NaN\""},
        {GMV_DTYPE_F8_E4M3FN, 0x01, "0.002"},
        {GMV_DTYPE_F8_E4M3FN, 0x80, "-0.0"},
        {GMV_DTYPE_F8_E5M2, 0x3C, "1.0"},
        {GMV_DTYPE_F8_E5M2, 0x7B, "60000.0"},
        {GMV_DTYPE_F8_E5M2, 0x7C, "\"Infinity\""},
        {GMV_DTYPE_F8_E5M2, 0xFC, "\"-Infinity\""},
        {GMV_DTYPE_F8_E5M2, 0x7D, "\"NaN\""},
        {GMV_DTYPE_F8_E5M2, 0x01, "2e-5"},
    };
    gmv_strbuf out = GMV_STRBUF_INIT;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        cr_expect_str_eq(float_text_small(&out, rows[i].dtype, rows[i].bits), rows[i].text);
    gmv_strbuf_fini(&out);
}
