/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes of null masks agree with cuDF's, and ranges of bits are checked to the last position. */
#include <criterion/criterion.h>

#include <gmv/model/bitmask.h>
#include <gmv/model/cudf_type.h>

#include "support/vectors.h"

#define MAX GMV_SIZE_TYPE_MAX

Test(bitmask, sizes_of_the_vectors_come_out)
{
    json_t *rows = vectors_load("bitmask.json");
    size_t index;
    size_t seen = 0;
    json_t *row;
    json_array_foreach (rows, index, row) {
        if (strcmp(vectors_text(row, "op"), "allocation_size") != 0)
            continue;
        int64_t bits = vectors_int(row, "num_bits");
        int64_t nbytes = -1;
        seen++;
        cr_expect_eq(gmv_bitmask_words(bits), vectors_int(row, "words"));
        cr_expect_eq(gmv_bitmask_nbytes(bits), vectors_int(row, "bytes"));
        cr_expect_eq(gmv_bitmask_allocation_nbytes(bits, 64, &nbytes, NULL), GMV_OK);
        cr_expect_eq(nbytes, vectors_int(row, "bytes"));
    }
    cr_expect_geq(seen, 15);
    json_decref(rows);
}

Test(bitmask, any_padding_is_a_multiple)
{
    static const struct {
        int64_t bits;
        int64_t padding;
        int64_t nbytes;
    } rows[] = {
        {0, 1, 0},
        {0, INT64_MAX, 0},
        {1, 1, 1},
        {8, 1, 1},
        {9, 1, 2},
        {9, 3, 3},
        {33, 3, 6},
        {100, 7, 14},
        {512, 64, 64},
        {513, 64, 128},
        {1, (INT64_C(1) << 53) - 1, (INT64_C(1) << 53) - 1},
        {MAX, 1, 268435456},
        {MAX, 64, 268435456},
        {MAX, 268435455, 536870910},
        {MAX, (INT64_C(1) << 53) - 1, (INT64_C(1) << 53) - 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int64_t nbytes = -1;
        cr_expect_eq(gmv_bitmask_allocation_nbytes(rows[i].bits, rows[i].padding, &nbytes, NULL),
                     GMV_OK);
        cr_expect_eq(nbytes, rows[i].nbytes, "%zu", i);
    }
}

Test(bitmask, impossible_numbers_of_bits_and_paddings_are_refused)
{
    static const struct {
        int64_t bits;
        int64_t padding;
        const char *pointer;
    } rows[] = {
        {-1, 64, "/number_of_bits"},
        {INT64_MIN, 64, "/number_of_bits"},
        {INT64_C(1) << 31, 64, "/number_of_bits"},
        {INT64_MAX, 64, "/number_of_bits"},
        {10, 0, "/padding_boundary"},
        {10, -64, "/padding_boundary"},
        {0, 0, "/padding_boundary"},
        {10, INT64_MIN, "/padding_boundary"},
        {1, (INT64_C(1) << 53), "/padding_boundary"}, /* no double holds the sizes beyond */
        {1, INT64_MAX, "/padding_boundary"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int64_t nbytes = -1;
        gmv_error err;
        gmv_error_init(&err);
        cr_expect_eq(gmv_bitmask_allocation_nbytes(rows[i].bits, rows[i].padding, &nbytes, &err),
                     GMV_ERR_VALUE);
        cr_expect_str_eq(err.pointer, rows[i].pointer);
    }
}

Test(bitmask, ranges_are_checked_against_the_bits_there_are)
{
    static const struct {
        gmv_bit_range range;
        int64_t available;
        gmv_status status;
        const char *pointer;
    } rows[] = {
        {{0, 0}, 0, GMV_OK, ""},
        {{0, 10}, 10, GMV_OK, ""},
        {{10, 10}, 10, GMV_OK, ""},
        {{0, MAX}, MAX, GMV_OK, ""},
        {{0, MAX}, -1, GMV_OK, ""},
        {{MAX, MAX}, -1, GMV_OK, ""},
        {{-1, 5}, 10, GMV_ERR_VALUE, "/begin_bit"},
        {{INT64_MIN, 5}, 10, GMV_ERR_VALUE, "/begin_bit"},
        {{INT64_MAX, INT64_MAX}, -1, GMV_ERR_VALUE, "/begin_bit"},
        {{5, 4}, 10, GMV_ERR_VALUE, "/end_bit"},
        {{5, -1}, 10, GMV_ERR_VALUE, "/end_bit"},
        {{0, (int64_t)MAX + 1}, -1, GMV_ERR_VALUE, "/end_bit"},
        {{0, INT64_MAX}, INT64_MAX, GMV_ERR_VALUE, "/end_bit"},
        {{0, 11}, 10, GMV_ERR_OUT_OF_BOUNDS, "/end_bit"},
        {{11, 11}, 10, GMV_ERR_OUT_OF_BOUNDS, "/end_bit"},
        {{0, 1}, 0, GMV_ERR_OUT_OF_BOUNDS, "/end_bit"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        gmv_error err;
        gmv_error_init(&err);
        cr_expect_eq(gmv_bit_range_check(rows[i].range, rows[i].available, &err), rows[i].status,
                     "row %zu", i);
        cr_expect_str_eq(err.pointer, rows[i].pointer, "row %zu", i);
    }
}

Test(bitmask, lists_of_ranges_name_the_one_at_fault)
{
    static const struct {
        gmv_bit_range ranges[2];
        int64_t available;
        gmv_status status;
        const char *pointer;
    } rows[] = {
        {{{0, 8}, {8, 16}}, 16, GMV_OK, ""},
        {{{8, 16}, {0, 8}}, GMV_BITMASK_NONE, GMV_OK, ""},
        {{{0, 8}, {-1, 8}}, 16, GMV_ERR_INDEX, "/ranges/1"},
        {{{-1, -2}, {0, 8}}, GMV_BITMASK_NONE, GMV_ERR_INDEX, "/ranges/0"},
        {{{0, 8}, {8, 7}}, GMV_BITMASK_NONE, GMV_ERR_VALUE, "/ranges/1"},
        {{{0, 8}, {8, 17}}, 16, GMV_ERR_OUT_OF_BOUNDS, "/ranges/1"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        gmv_error err;
        gmv_error_init(&err);
        cr_expect_eq(gmv_bit_ranges_check(rows[i].ranges, 2, rows[i].available, &err),
                     rows[i].status, "row %zu", i);
        cr_expect_str_eq(err.pointer, rows[i].pointer, "row %zu", i);
    }
    cr_expect_eq(gmv_bit_ranges_check(NULL, 0, 0, NULL), GMV_OK);
}
