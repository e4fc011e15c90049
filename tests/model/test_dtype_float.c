/* SPDX-License-Identifier: Apache-2.0 */
/* Small floats against values that ldexp makes, all bits of each type. */
#include <math.h>

#include <criterion/criterion.h>

#include <gmv/model/dtype_float.h>

typedef struct float_row {
    gmv_dtype dtype;
    int exponent_bits, mantissa_bits;
    bool has_infinity;
    double largest;
} float_row;

static const float_row float_rows[] = {
    {GMV_DTYPE_F2, 5, 10, true, 65504},
    {GMV_DTYPE_BF16, 8, 7, true, 0x1.FEp127},
    {GMV_DTYPE_F8_E4M3FN, 4, 3, false, 448},
    {GMV_DTYPE_F8_E5M2, 5, 2, true, 57344},
};

#define FLOAT_ROWS (sizeof float_rows / sizeof float_rows[0])

static unsigned float_count(const float_row *row)
{
    return 1u << (1 + row->exponent_bits + row->mantissa_bits);
}

static double float_expected(const float_row *row, unsigned bits)
{
    unsigned ones = (1u << row->exponent_bits) - 1, whole = 1u << row->mantissa_bits;
    unsigned mantissa = bits % whole, exponent = bits / whole % (ones + 1);
    double sign = bits / whole / (ones + 1) ? -1 : 1;
    int bias = (1 << (row->exponent_bits - 1)) - 1;
    if (exponent == ones && row->has_infinity)
        return mantissa ? (double)NAN : sign * (double)INFINITY;
    if (exponent == ones && mantissa == whole - 1)
        return (double)NAN;
    if (exponent == 0)
        return sign * ldexp(mantissa, 1 - bias - row->mantissa_bits);
    return sign * ldexp(whole + mantissa, (int)exponent - bias - row->mantissa_bits);
}

Test(dtype_float, every_pattern_of_bits_has_its_value)
{
    for (size_t i = 0; i < FLOAT_ROWS; i++) {
        const gmv_small_float *format = gmv_small_float_describe(float_rows[i].dtype);
        cr_assert_not_null(format);
        for (unsigned bits = 0; bits < float_count(&float_rows[i]); bits++) {
            double expected = float_expected(&float_rows[i], bits);
            double value = (double)gmv_small_float_value(format, (uint16_t)bits);
            if (isnan(expected))
                cr_assert(isnan(value), "%u", bits);
            else
                cr_assert(value == expected && !signbit(value) == !signbit(expected), "%u", bits);
        }
        cr_expect_eq(gmv_small_float_largest(format), float_rows[i].largest);
    }
}

Test(dtype_float, every_value_rounds_to_itself_and_midpoints_to_the_even_one)
{
    for (size_t i = 0; i < FLOAT_ROWS; i++) {
        const float_row *row = &float_rows[i];
        const gmv_small_float *format = gmv_small_float_describe(row->dtype);
        for (unsigned bits = 0; float_expected(row, bits) < row->largest; bits++) {
            double value = float_expected(row, bits), next = float_expected(row, bits + 1);
            double middle = (value + next) / 2;
            cr_assert_eq(gmv_small_float_round(format, value), value);
            cr_assert_eq(gmv_small_float_round(format, middle), bits % 2 == 0 ? value : next);
            cr_assert_eq(gmv_small_float_round(format, nextafter(middle, 0)), value);
            cr_assert_eq(gmv_small_float_round(format, nextafter(middle, (double)INFINITY)), next);
        }
        cr_assert_eq(gmv_small_float_round(format, row->largest), row->largest);
    }
}

Test(dtype_float, what_is_beyond_the_largest_rounds_to_infinity)
{
    const gmv_small_float *half = gmv_small_float_describe(GMV_DTYPE_F2);
    const gmv_small_float *e4m3fn = gmv_small_float_describe(GMV_DTYPE_F8_E4M3FN);
    cr_expect_eq(gmv_small_float_round(half, 65519.99), 65504);
    cr_expect(isinf(gmv_small_float_round(half, 65520)));
    cr_expect(isinf(gmv_small_float_round(half, 1e300)));
    cr_expect(isinf(gmv_small_float_round(half, (double)INFINITY)));
    cr_expect_eq(gmv_small_float_round(e4m3fn, 464), 448);
    cr_expect(isinf(gmv_small_float_round(e4m3fn, 464.1)));
}

Test(dtype_float, bits_are_read_from_any_address)
{
    const unsigned char bytes[] = {0xFF, 0x80, 0x3F, 0x7E};
    cr_expect_eq(gmv_small_float_bits(gmv_small_float_describe(GMV_DTYPE_BF16), bytes + 1), 0x3F80);
    cr_expect_eq(gmv_small_float_bits(gmv_small_float_describe(GMV_DTYPE_F8_E4M3FN), bytes + 3),
                 0x7E);
    cr_expect_eq(gmv_small_float_bits(gmv_small_float_describe(GMV_DTYPE_F8_E5M2), bytes + 3),
                 0x7E);
}

Test(dtype_float, other_types_have_no_description)
{
    cr_expect_null(gmv_small_float_describe(GMV_DTYPE_F4));
    cr_expect_null(gmv_small_float_describe(GMV_DTYPE_F8));
    cr_expect_null(gmv_small_float_describe(GMV_DTYPE_U2));
    cr_expect_null(gmv_small_float_describe((gmv_dtype)999));
}
