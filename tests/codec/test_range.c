/* SPDX-License-Identifier: Apache-2.0 */
/* Byte ranges: ends are inclusive, what is no range is ignored. */
#include <stdio.h>
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/parameterized.h>

#include "codec/range.h"

typedef struct range_case {
    const char *text;
    uint64_t nbytes;
    gmv_range_outcome outcome;
    uint64_t first, last;
} range_case;

static const range_case range_cases[] = {
    {"bytes=0-3", 10, GMV_RANGE_PART, 0, 3},
    {"bytes=-4", 10, GMV_RANGE_PART, 6, 9},
    {"bytes=5-", 10, GMV_RANGE_PART, 5, 9},
    {"bytes=9-9", 10, GMV_RANGE_PART, 9, 9},
    {"bytes=0-9", 10, GMV_RANGE_PART, 0, 9},
    {"bytes=0-10", 10, GMV_RANGE_PART, 0, 9},
    {"bytes=0-0", 1, GMV_RANGE_PART, 0, 0},
    {"bytes=-1", 1, GMV_RANGE_PART, 0, 0},
    {"bytes=-10", 10, GMV_RANGE_PART, 0, 9},
    {"bytes=-11", 10, GMV_RANGE_PART, 0, 9},
    {"BYTES=1-2", 10, GMV_RANGE_PART, 1, 2},
    {"bytes= 1-2 ", 10, GMV_RANGE_PART, 1, 2},
    {"bytes=0-18446744073709551615", 10, GMV_RANGE_PART, 0, 9},
    {"bytes=0-99999999999999999999999999", 10, GMV_RANGE_PART, 0, 9},
    {"bytes=-99999999999999999999999999", 10, GMV_RANGE_PART, 0, 9},
    {"bytes=18446744073709551614-", UINT64_MAX, GMV_RANGE_PART, UINT64_MAX - 1, UINT64_MAX - 1},
    {"bytes=10-", 10, GMV_RANGE_UNSATISFIABLE, 0, 0},
    {"bytes=10-20", 10, GMV_RANGE_UNSATISFIABLE, 0, 0},
    {"bytes=-0", 10, GMV_RANGE_UNSATISFIABLE, 0, 0},
    {"bytes=99999999999999999999999999-", 10, GMV_RANGE_UNSATISFIABLE, 0, 0},
    {"bytes=0-", 0, GMV_RANGE_UNSATISFIABLE, 0, 0},
    {"bytes=0-0", 0, GMV_RANGE_UNSATISFIABLE, 0, 0},
    {"bytes=-5", 0, GMV_RANGE_UNSATISFIABLE, 0, 0},
    {"bytes=3-1", 10, GMV_RANGE_WHOLE, 0, 0},
    {"bytes=0-0,", 10, GMV_RANGE_PART, 0, 0},
    {"bytes=,, 1-2 ,\t,", 10, GMV_RANGE_PART, 1, 2},
    {"bytes=10-,20-30,3-4", 10, GMV_RANGE_PART, 3, 4},
    {"bytes=3-4,10-", 10, GMV_RANGE_PART, 3, 4},
    {"bytes=-0,7-7", 10, GMV_RANGE_PART, 7, 7},
    {"bytes=10-,-0,11-12", 10, GMV_RANGE_UNSATISFIABLE, 0, 0},
    {"bytes=0-0,2-2", 0, GMV_RANGE_UNSATISFIABLE, 0, 0},
    {"bytes=2-2,0-0", 10, GMV_RANGE_WHOLE, 0, 0},
    {"bytes=0-0,0-0", 10, GMV_RANGE_WHOLE, 0, 0},
    {"bytes=0-4,-6", 10, GMV_RANGE_WHOLE, 0, 0},
    {"bytes=5-,9-", 10, GMV_RANGE_WHOLE, 0, 0},
    {"bytes=0-1,x", 10, GMV_RANGE_WHOLE, 0, 0},
    {"bytes=0-1 2-3", 10, GMV_RANGE_WHOLE, 0, 0},
    {"bytes=0-1;2-3", 10, GMV_RANGE_WHOLE, 0, 0},
    {"bytes=,", 10, GMV_RANGE_WHOLE, 0, 0},
    {"bytes=0-3,2-5", 10, GMV_RANGE_WHOLE, 0, 0},
    {"items=0-3", 10, GMV_RANGE_WHOLE, 0, 0},
    {"bytes", 10, GMV_RANGE_WHOLE, 0, 0},
    {"bytes=", 10, GMV_RANGE_WHOLE, 0, 0},
    {"bytes=-", 10, GMV_RANGE_WHOLE, 0, 0},
    {"bytes=--1", 10, GMV_RANGE_WHOLE, 0, 0},
    {"bytes=1", 10, GMV_RANGE_WHOLE, 0, 0},
    {"bytes=a-b", 10, GMV_RANGE_WHOLE, 0, 0},
    {"bytes=1-2x", 10, GMV_RANGE_WHOLE, 0, 0},
    {"bytes=+1-2", 10, GMV_RANGE_WHOLE, 0, 0},
    {"bytes=0x1-2", 10, GMV_RANGE_WHOLE, 0, 0},
    {"bytes =0-1", 10, GMV_RANGE_WHOLE, 0, 0},
    {"", 10, GMV_RANGE_WHOLE, 0, 0},
};

ParameterizedTestParameters(range, is_read_as_the_standard_says)
{
    static size_t indices[sizeof range_cases / sizeof range_cases[0]];
    for (size_t i = 0; i < sizeof indices / sizeof indices[0]; i++)
        indices[i] = i;
    return cr_make_param_array(size_t, indices, sizeof indices / sizeof indices[0]);
}

ParameterizedTest(size_t *index, range, is_read_as_the_standard_says)
{
    const range_case *row = &range_cases[*index];
    gmv_byte_ranges ranges;
    gmv_range_outcome outcome = gmv_range_parse(row->text, strlen(row->text), row->nbytes, &ranges);
    cr_assert_eq(outcome, row->outcome, "'%s' of %llu gave %d", row->text,
                 (unsigned long long)row->nbytes, (int)outcome);
    cr_assert_eq(ranges.count, outcome == GMV_RANGE_PART ? 1 : 0);
    if (outcome != GMV_RANGE_PART)
        return;
    cr_assert_eq(ranges.items[0].first, row->first, "'%s' starts at %llu", row->text,
                 (unsigned long long)ranges.items[0].first);
    cr_assert_eq(ranges.items[0].last, row->last, "'%s' ends at %llu", row->text,
                 (unsigned long long)ranges.items[0].last);
}

Test(range, several_ascend_and_are_disjoint)
{
    gmv_byte_ranges ranges;
    static const char text[] = "bytes=0-0,2-3 , 4-4,99-,7-8,-1";
    cr_assert_eq(gmv_range_parse(text, sizeof text - 1, 10, &ranges), GMV_RANGE_PART);
    static const gmv_byte_range expected[] = {{0, 0}, {2, 3}, {4, 4}, {7, 8}, {9, 9}};
    cr_assert_eq(ranges.count, 5);
    for (size_t i = 0; i < 5; i++) {
        cr_expect_eq(ranges.items[i].first, expected[i].first);
        cr_expect_eq(ranges.items[i].last, expected[i].last);
    }
}

Test(range, sixteen_are_taken_and_seventeen_are_the_whole)
{
    gmv_byte_ranges ranges;
    char text[256] = "bytes=";
    size_t length = 6;
    for (int i = 0; i < 17; i++) {
        length += (size_t)snprintf(text + length, sizeof text - length, "%d-%d,", 2 * i, 2 * i);
        cr_expect_eq(gmv_range_parse(text, length, 100, &ranges),
                     i < 16 ? GMV_RANGE_PART : GMV_RANGE_WHOLE);
        cr_expect_eq(ranges.count, i < 16 ? (size_t)i + 1 : 0);
    }
}

Test(range, absent_is_the_whole)
{
    gmv_byte_ranges ranges;
    cr_assert_eq(gmv_range_parse(NULL, 0, 10, &ranges), GMV_RANGE_WHOLE);
}

Test(range, is_not_read_past_its_length)
{
    gmv_byte_ranges ranges;
    cr_assert_eq(gmv_range_parse("bytes=1-23", 9, 100, &ranges), GMV_RANGE_PART);
    cr_assert_eq(ranges.items[0].last, 2);
}

Test(range, flood_of_ranges_is_the_whole)
{
    char text[6 + 4 * 1000 + 1] = "bytes=";
    gmv_byte_ranges ranges;
    for (int i = 0; i < 1000; i++)
        memcpy(text + 6 + 4 * i, "0-0,", 4);
    cr_assert_eq(gmv_range_parse(text, 6 + 4 * 1000, 10, &ranges), GMV_RANGE_WHOLE);
}
