/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small floats by the numbers of their bits alone. All of it is done in doubles, which hold every
 * value and every unit of these types as normal numbers, so nothing is rounded on the way.
 */
#include <gmv/model/dtype_float.h>

#include <string.h>

static const gmv_small_float float_float16 = {5, 10, true};
static const gmv_small_float float_bfloat16 = {8, 7, true};
static const gmv_small_float float_float8_e4m3fn = {4, 3, false};
static const gmv_small_float float_float8_e5m2 = {5, 2, true};

const gmv_small_float *gmv_small_float_describe(gmv_dtype dtype)
{
    switch (dtype) {
    case GMV_DTYPE_F2:
        return &float_float16;
    case GMV_DTYPE_BF16:
        return &float_bfloat16;
    case GMV_DTYPE_F8_E4M3FN:
        return &float_float8_e4m3fn;
    case GMV_DTYPE_F8_E5M2:
        return &float_float8_e5m2;
    default:
        return NULL;
    }
}

static int float_bias(const gmv_small_float *format)
{
    return (1 << (format->exponent_bits - 1)) - 1;
}

/* For exponents of normal doubles. */
static double float_power_of_two(int exponent)
{
    uint64_t bits = (uint64_t)(exponent + 1023) << 52;
    double power;
    memcpy(&power, &bits, sizeof power);
    return power;
}

/* Of a finite double's highest bit; far below all small floats for zero and subnormals. */
static int float_exponent(double magnitude)
{
    uint64_t bits;
    memcpy(&bits, &magnitude, sizeof bits);
    return (int)(bits >> 52 & 0x7FF) - 1023;
}

static float float_special(bool is_infinite, bool is_negative)
{
    uint32_t wide = (uint32_t)is_negative << 31 | (is_infinite ? 0x7F800000u : 0x7FC00000u);
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}

float gmv_small_float_value(const gmv_small_float *format, uint16_t bits)
{
    const unsigned exponent_ones = (1u << format->exponent_bits) - 1;
    const unsigned mantissa_ones = (1u << format->mantissa_bits) - 1;
    unsigned mantissa = bits & mantissa_ones;
    unsigned exponent = (unsigned)bits >> format->mantissa_bits & exponent_ones;
    bool is_negative = (unsigned)bits >> (format->mantissa_bits + format->exponent_bits) & 1;
    if (exponent == exponent_ones && (format->has_infinity || mantissa == mantissa_ones))
        return float_special(format->has_infinity && mantissa == 0, is_negative);
    if (exponent == 0)
        exponent = 1;
    else
        mantissa += mantissa_ones + 1;
    int unit = (int)exponent - float_bias(format) - format->mantissa_bits;
    float magnitude = (float)((double)mantissa * float_power_of_two(unit));
    return is_negative ? -magnitude : magnitude;
}

uint16_t gmv_small_float_bits(const gmv_small_float *format, const void *element)
{
    uint16_t two;
    uint8_t one;
    if (format->exponent_bits + format->mantissa_bits >= 8) {
        memcpy(&two, element, sizeof two);
        return two;
    }
    memcpy(&one, element, sizeof one);
    return one;
}

double gmv_small_float_least_normal(const gmv_small_float *format)
{
    return float_power_of_two(1 - float_bias(format));
}

double gmv_small_float_largest(const gmv_small_float *format)
{
    unsigned exponent_ones = (1u << format->exponent_bits) - 1;
    unsigned mantissa_ones = (1u << format->mantissa_bits) - 1;
    unsigned exponent = format->has_infinity ? exponent_ones - 1 : exponent_ones;
    unsigned mantissa = format->has_infinity ? mantissa_ones : mantissa_ones - 1;
    unsigned bits = exponent << format->mantissa_bits | mantissa;
    return (double)gmv_small_float_value(format, (uint16_t)bits);
}

/* Rounds a non-negative double below 2^52 to an integer, ties to even. */
static double float_round_even(double value)
{
    const double big = 4503599627370496.0;
    volatile double sum = value + big;
    return sum - big;
}

double gmv_small_float_round(const gmv_small_float *format, double magnitude)
{
    double largest = gmv_small_float_largest(format);
    if (!(magnitude <= largest * 2))
        return (double)float_special(true, false);
    int exponent = float_exponent(magnitude);
    if (exponent < 1 - float_bias(format))
        exponent = 1 - float_bias(format);
    double unit = float_power_of_two(exponent - format->mantissa_bits);
    double rounded = float_round_even(magnitude / unit) * unit;
    return rounded > largest ? (double)float_special(true, false) : rounded;
}

float gmv_float16_value(uint16_t bits)
{
    return gmv_small_float_value(&float_float16, bits);
}
