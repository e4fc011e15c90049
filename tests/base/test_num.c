/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers are read in one spelling each, and arithmetic that does not fit says so. */
#include <string.h>

#include <criterion/criterion.h>

#include <gmv/base/num.h>

typedef struct num_row {
    const char *text;
    bool signed_ok;
    int64_t signed_value;
    bool unsigned_ok;
    uint64_t unsigned_value;
} num_row;

static const num_row num_rows[] = {
    {"0", true, 0, true, 0},
    {"-0", true, 0, false, 0},
    {"7", true, 7, true, 7},
    {"-7", true, -7, false, 0},
    {"10", true, 10, true, 10},
    {"9223372036854775807", true, INT64_MAX, true, INT64_MAX},
    {"9223372036854775808", false, 0, true, UINT64_C(9223372036854775808)},
    {"-9223372036854775808", true, INT64_MIN, false, 0},
    {"-9223372036854775809", false, 0, false, 0},
    {"18446744073709551615", false, 0, true, UINT64_MAX},
    {"18446744073709551616", false, 0, false, 0},
    {"184467440737095516150", false, 0, false, 0},
    {"99999999999999999999999999999999", false, 0, false, 0},
    {"", false, 0, false, 0},
    {"-", false, 0, false, 0},
    {"--1", false, 0, false, 0},
    {"+1", false, 0, false, 0},
    {"00", false, 0, false, 0},
    {"01", false, 0, false, 0},
    {"-01", false, 0, false, 0},
    {" 1", false, 0, false, 0},
    {"1 ", false, 0, false, 0},
    {"1.0", false, 0, false, 0},
    {"1e3", false, 0, false, 0},
    {"0x10", false, 0, false, 0},
    {"1_000", false, 0, false, 0},
    {"\xd9\xa4", false, 0, false, 0},
};

Test(num, only_canonical_decimals_that_fit_are_read)
{
    for (size_t i = 0; i < sizeof num_rows / sizeof num_rows[0]; i++) {
        const num_row *row = &num_rows[i];
        int64_t number = 42;
        uint64_t natural = 42;
        bool ok = gmv_parse_int64(row->text, strlen(row->text), &number);
        cr_expect_eq(ok, row->signed_ok, "'%s' signed", row->text);
        cr_expect_eq(number, row->signed_ok ? row->signed_value : 42, "'%s' signed", row->text);
        ok = gmv_parse_uint64(row->text, strlen(row->text), &natural);
        cr_expect_eq(ok, row->unsigned_ok, "'%s' unsigned", row->text);
        cr_expect_eq(natural, row->unsigned_ok ? row->unsigned_value : 42, "'%s'", row->text);
    }
}

Test(num, no_byte_beyond_the_length_is_looked_at)
{
    int64_t number = 0;
    cr_expect(gmv_parse_int64("123x", 3, &number));
    cr_expect_eq(number, 123);
    cr_expect(gmv_parse_int64("-5678", 3, &number));
    cr_expect_eq(number, -56);
    cr_expect_not(gmv_parse_int64("1\0002", 3, &number));
}

Test(num, checked_arithmetic_stores_exact_results_only)
{
    int64_t sum = 1;
    cr_expect(gmv_add_checked(INT64_MAX - 1, 1, &sum));
    cr_expect_eq(sum, INT64_MAX);
    cr_expect_not(gmv_add_checked(INT64_MAX, 1, &sum));
    cr_expect_not(gmv_sub_checked(INT64_MIN, 1, &sum));
    cr_expect_not(gmv_mul_checked(INT64_C(1) << 62, 2, &sum));
    cr_expect(gmv_mul_checked(INT64_C(1) << 62, -2, &sum));
    cr_expect_eq(sum, INT64_MIN);
}

Test(num, rounding_up_stops_at_the_end_of_the_numbers)
{
    uint64_t rounded = 0;
    cr_expect(gmv_round_up_checked(0, 64, &rounded));
    cr_expect_eq(rounded, 0);
    cr_expect(gmv_round_up_checked(1, 64, &rounded));
    cr_expect_eq(rounded, 64);
    cr_expect(gmv_round_up_checked(64, 64, &rounded));
    cr_expect_eq(rounded, 64);
    cr_expect(gmv_round_up_checked(UINT64_MAX - 63, 64, &rounded));
    cr_expect_eq(rounded, UINT64_MAX - 63);
    cr_expect_not(gmv_round_up_checked(UINT64_MAX - 62, 64, &rounded));
    cr_expect_eq(gmv_round_up(65, 64), 128);
    cr_expect_eq(GMV_MIN(-1, 2), -1);
    cr_expect_eq(GMV_MAX(-1, 2), 2);
}
