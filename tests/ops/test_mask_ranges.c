/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranges of bits, exhaustively or in tables: counting, searching, setting, copying in pieces,
 * and combining. A byte for each bit is the model.
 */
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>

#include <gmv/ops/mask.h>

#include "ops/fixture.h"

static fixture f;

static void open_fixture(void)
{
    fixture_open(&f);
}

static void close_fixture(void)
{
    fixture_close(&f);
}

TestSuite(mask_ranges, .init = open_fixture, .fini = close_fixture, .timeout = 600);

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* ---- masks from a byte for each bit -----------------------------------------------------------
 */

/* Whole words; what lies behind the last bit is set, so that nobody counts it unnoticed. */
static gmv_view *mask_of(const bool *bits, int64_t n)
{
    const size_t nbytes = (size_t)(n + 31) / 32 * 4;
    unsigned char *bytes = malloc(nbytes + 1);
    cr_assert_not_null(bytes);
    memset(bytes, 0xff, nbytes);
    for (int64_t i = 0; i < n; i++)
        if (!bits[i])
            bytes[i / 8] &= (unsigned char)~(1u << i % 8);
    gmv_view *view = fixture_view_of(&f, GMV_DTYPE_U1, bytes, nbytes);
    free(bytes);
    return view;
}

static gmv_view *mask_uniform(int64_t n, bool valid)
{
    bool *bits = malloc((size_t)n);
    cr_assert_not_null(bits);
    memset(bits, valid, (size_t)n);
    gmv_view *view = mask_of(bits, n);
    free(bits);
    return view;
}

/* The first `n` bits of a mask must be these. */
static void expect_bits(gmv_view *mask, const bool *want, int64_t n, const char *what)
{
    unsigned char *bytes = malloc((size_t)mask->nbytes + 1);
    cr_assert_not_null(bytes);
    fixture_read(&f, mask, bytes, (uint64_t)mask->nbytes);
    cr_assert_leq(n, mask->nbytes * 8);
    for (int64_t i = 0; i < n; i++)
        cr_assert_eq(bytes[i / 8] >> i % 8 & 1, want[i], "%s: bit %lld", what, (long long)i);
    free(bytes);
}

static int64_t nulls_in(gmv_view *mask, int64_t begin, int64_t end)
{
    int64_t count = -1;
    cr_assert_eq(gmv_null_count(&f.operation, mask, (gmv_bit_range){begin, end}, &count, &f.err),
                 GMV_OK, "%s", f.err.message);
    return count;
}

static void set_bits(gmv_view *mask, int64_t begin, int64_t end, bool valid)
{
    cr_assert_eq(gmv_set_null_mask(&f.operation, mask, (gmv_bit_range){begin, end}, valid, &f.err),
                 GMV_OK, "%s", f.err.message);
}

/* INT8 rows of zeros under a mask. */
static gmv_column *rows_under(gmv_view *mask, int64_t offset, int64_t size)
{
    gmv_buffer *buffer = NULL;
    gmv_column *column = NULL;
    cr_assert_eq(gmv_buffer_allocate(&f.operation, 0, size + offset, false, NULL, &buffer, &f.err),
                 GMV_OK);
    const gmv_column_request request = {
        .type = {.id = GMV_CUDF_INT8},
        .size = size,
        .offset = offset,
        .data = fixture_view(&f, &buffer->node, GMV_DTYPE_I1, size + offset, 0),
        .null_mask = mask,
    };
    cr_assert_eq(gmv_column_create(&f.operation, &request, NULL, &column, &f.err), GMV_OK, "%s",
                 f.err.message);
    return column;
}

/* ---- counting -----------------------------------------------------------------------------------
 */

static void expect_uniform_counts(int64_t n_bits, const gmv_bit_range *ranges, size_t n)
{
    for (int valid = 0; valid < 2; valid++) {
        gmv_view *mask = mask_uniform(n_bits, valid);
        int64_t counts[32];
        cr_assert_leq(n, COUNT_OF(counts));
        cr_assert_eq(gmv_segmented_null_count(&f.operation, mask, ranges, n, counts, &f.err),
                     GMV_OK);
        for (size_t i = 0; i < n; i++) {
            const int64_t want = valid ? 0 : ranges[i].end - ranges[i].begin;
            cr_assert_eq(nulls_in(mask, ranges[i].begin, ranges[i].end), want, "range %zu", i);
            cr_assert_eq(counts[i], want, "segment %zu", i);
        }
    }
}

Test(mask_ranges, bits_of_one_word_are_counted_whatever_the_edges)
{
    static const gmv_bit_range ranges[] = {{0, 32}, {17, 18}, {7, 8},  {13, 14}, {0, 1},
                                           {7, 32}, {8, 32},  {0, 17}, {0, 18},  {1, 31},
                                           {7, 17}, {2, 30},  {4, 16}, {31, 32}, {9, 9}};
    expect_uniform_counts(32, ranges, COUNT_OF(ranges));
}

Test(mask_ranges, bits_of_ten_words_are_counted_whatever_the_edges)
{
    static const gmv_bit_range ranges[] = {{0, 320},  {32, 288}, {32, 192}, {31, 33},  {60, 67},
                                           {67, 293}, {37, 319}, {67, 68},  {31, 32},  {192, 193},
                                           {64, 64},  {96, 97},  {95, 96},  {319, 320}};
    expect_uniform_counts(320, ranges, COUNT_OF(ranges));
}

Test(mask_ranges, masks_of_a_table_are_counted_one_by_one)
{
    static const struct {
        bool bits[6];
        int64_t nulls;
    } rows[] = {
        {{1, 0, 1, 0, 1, 0}, 3}, {{0, 0, 0, 1, 1, 1}, 3}, {{1, 1, 0, 0, 1, 1}, 2},
        {{1, 1, 1, 1, 1, 0}, 1}, {{0, 0, 0, 0, 0, 0}, 6},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        gmv_view *mask = mask_of(rows[i].bits, 6);
        cr_assert_eq(nulls_in(mask, 0, 6), rows[i].nulls, "mask %zu", i);
        cr_assert_eq(rows_under(mask, 0, 6)->null_count, rows[i].nulls, "column %zu", i);
    }
    cr_assert_eq(nulls_in(NULL, 0, 6), 0);
    cr_assert_eq(rows_under(NULL, 0, 6)->null_count, 0);
}

/* A mask in one of the states of create_null_mask, under rows. */
Test(mask_ranges, a_fresh_mask_says_all_or_nothing_of_its_rows)
{
    static const struct {
        gmv_mask_state state;
        int64_t size, nulls;
    } rows[] = {
        {GMV_MASK_UNALLOCATED, 42, 0}, {GMV_MASK_ALL_NULL, 42, 42}, {GMV_MASK_ALL_VALID, 42, 0},
        {GMV_MASK_UNALLOCATED, 3, 0},  {GMV_MASK_ALL_NULL, 3, 3},   {GMV_MASK_ALL_VALID, 3, 0},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        gmv_view *mask = NULL;
        cr_assert_eq(
            gmv_create_null_mask(&f.operation, 0, rows[i].size, rows[i].state, NULL, &mask, &f.err),
            GMV_OK);
        gmv_column *column = rows_under(mask, 0, rows[i].size);
        cr_assert_eq(column->null_count, rows[i].nulls, "row %zu", i);
        cr_assert_eq(gmv_column_is_nullable(column), rows[i].state != GMV_MASK_UNALLOCATED);
    }
}

/* Row by row, through slices that start at an offset. */
Test(mask_ranges, the_validity_of_a_single_row_counts_from_the_slice)
{
    static const gmv_bit_range slices[] = {{0, 1000}, {1, 5}, {2, 5}, {37, 1000}};
    bool bits[1000];
    for (int i = 0; i < 1000; i++)
        bits[i] = i % 3 != 0;
    gmv_view *mask = mask_of(bits, 1000);
    for (size_t s = 0; s < COUNT_OF(slices); s++) {
        const int64_t first = slices[s].begin, size = slices[s].end - first;
        gmv_column *column = rows_under(mask, first, size);
        for (int64_t row = 0; row<size; row += size> 100 ? 7 : 1) {
            gmv_column_rows rows;
            cr_assert_eq(gmv_column_read_rows(&f.operation, column, row, 1, &rows, &f.err), GMV_OK);
            cr_assert_eq(gmv_column_rows_valid(&rows, 0), bits[first + row], "slice %zu row %lld",
                         s, (long long)row);
            gmv_column_rows_fini(&rows);
        }
    }
}

/* ---- searching ----------------------------------------------------------------------------------
 */

/* From `set` on all bits are set, if it lies in the range; else none is. */
Test(mask_ranges, the_first_set_bit_is_found_from_any_start)
{
    static const struct {
        int64_t n, set, start, index;
    } rows[] = {
        {28, 0, 0, 0},         {28, 10, 10, 0},       {32, 0, 0, 0},       {32, 10, 10, 0},
        {32, 10, 11, 21},      {64, 33, 0, 33},       {260, 258, 0, 258},  {260, 258, 32, 226},
        {320, 260, 60, 200},   {320, 260, 256, 4},    {9000, 2, 0, 2},     {9000, 260, 256, 4},
        {9000, 8193, 0, 8193}, {9000, 8193, 8192, 1}, {9000, 8, 80, 8920},
    };
    static bool bits[9000];
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        int64_t index = -1;
        memset(bits, 0, sizeof bits);
        bits[rows[i].set] = true;
        for (int64_t k = rows[i].set; rows[i].set >= rows[i].start && k < rows[i].n; k++)
            bits[k] = true;
        const gmv_bit_range range = {rows[i].start, rows[i].n};
        cr_assert_eq(gmv_index_of_first_set_bit(&f.operation, mask_of(bits, rows[i].n), range,
                                                &index, &f.err),
                     GMV_OK);
        cr_assert_eq(index, rows[i].index, "row %zu: %lld", i, (long long)index);
    }
}

/* ---- setting ------------------------------------------------------------------------------------
 */

enum { SET_BITS = 121 };

Test(mask_ranges, exactly_the_bits_of_a_range_are_set)
{
    bool want[128];
    gmv_view *mask = mask_uniform(128, false);
    for (int64_t begin = 0; begin < SET_BITS; begin += 5)
        for (int64_t end = begin; end <= SET_BITS; end += 7)
            for (int valid = 0; valid < 2; valid++) {
                set_bits(mask, 0, 128, !valid);
                set_bits(mask, begin, end, valid);
                for (int64_t i = 0; i < 128; i++)
                    want[i] = (i >= begin && i < end) == valid;
                expect_bits(mask, want, 128, valid ? "valid" : "null");
            }
}

Test(mask_ranges, two_ranges_that_meet_in_a_word_leave_each_other_alone)
{
    static const int64_t sizes[] = {67, SET_BITS};
    bool want[128];
    gmv_view *mask = mask_uniform(128, false);
    for (size_t s = 0; s < COUNT_OF(sizes); s++)
        for (int64_t middle = 0; middle <= sizes[s]; middle++)
            for (int valid = 0; valid < 2; valid++) {
                set_bits(mask, 0, middle, valid);
                set_bits(mask, middle, sizes[s], !valid);
                for (int64_t i = 0; i < sizes[s]; i++)
                    want[i] = (i < middle) == valid;
                expect_bits(mask, want, sizes[s], "two halves");
            }
}

Test(mask_ranges, a_range_that_cannot_be_set_sets_nothing)
{
    static const struct {
        gmv_bit_range range;
        gmv_status status;
    } rows[] = {
        {{-1, 121}, GMV_ERR_VALUE}, {{-2, -1}, GMV_ERR_VALUE}, {{9, 8}, GMV_ERR_VALUE},
        {{0, 121}, GMV_OK},         {{0, 1}, GMV_OK},          {{8, 8}, GMV_OK},
        {{8, 9}, GMV_OK},           {{120, 121}, GMV_OK},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        bool want[SET_BITS] = {false};
        gmv_view *mask = mask_uniform(SET_BITS, false);
        fixture_expect(&f, gmv_set_null_mask(&f.operation, mask, rows[i].range, true, &f.err),
                       rows[i].status, NULL);
        for (int64_t k = rows[i].range.begin; rows[i].status == GMV_OK && k < rows[i].range.end;
             k++)
            want[k] = true;
        expect_bits(mask, want, SET_BITS, "after");
    }
}

/* ---- copying ------------------------------------------------------------------------------------
 */

Test(mask_ranges, copies_of_slices_laid_end_to_end_are_the_whole)
{
    static const int64_t cuts[] = {0, 100, 200, 300, 412, 555, 666, 777, 900, 1001};
    bool bits[1001];
    uint32_t seed = 7;
    for (size_t i = 0; i < COUNT_OF(bits); i++)
        bits[i] = (seed = seed * 1664525 + 1013904223) >> 31;
    gmv_view *mask = mask_of(bits, 1001);
    int64_t nulls = 0;
    for (size_t i = 0; i + 1 < COUNT_OF(cuts); i++) {
        gmv_view *of_range = NULL, *of_column = NULL;
        const int64_t size = cuts[i + 1] - cuts[i];
        const gmv_bit_range range = {cuts[i], cuts[i + 1]};
        gmv_column *slice = rows_under(mask, cuts[i], size);
        cr_assert_eq(gmv_copy_bitmask(&f.operation, mask, range, NULL, &of_range, &f.err), GMV_OK);
        cr_assert_eq(gmv_copy_column_bitmask(&f.operation, slice, NULL, &of_column, &f.err),
                     GMV_OK);
        expect_bits(of_range, bits + cuts[i], size, "of a range");
        expect_bits(of_column, bits + cuts[i], size, "of a column");
        cr_assert_eq(nulls_in(of_range, 0, size), slice->null_count);
        nulls += slice->null_count;
    }
    cr_assert_eq(nulls, nulls_in(mask, 0, 1001));
}

/* ---- combining and making
 * ------------------------------------------------------------------------ */

Test(mask_ranges, rows_are_valid_where_all_or_any_of_the_columns_are)
{
    static const bool x = false, v = true;
    const struct {
        gmv_bits_operation kind;
        bool first[5], second[5], want[5];
        int64_t nulls;
    } rows[] = {
        {GMV_BITS_AND, {x, v, v, v, x}, {v, v, x, v, x}, {x, v, x, v, x}, 3},
        {GMV_BITS_OR, {v, v, x, x, v}, {x, x, v, x, v}, {v, v, v, x, v}, 1},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        gmv_column *columns[] = {rows_under(mask_of(rows[i].first, 5), 0, 5),
                                 rows_under(mask_of(rows[i].second, 5), 0, 5),
                                 rows_under(NULL, 0, 5)};
        const bool is_and = rows[i].kind == GMV_BITS_AND;
        bool want[512] = {false}; /* no bit that a row has not is set */
        gmv_mask_result result;
        memcpy(want, rows[i].want, sizeof rows[i].want);
        for (size_t n = 2; n <= 3; n++) {
            const bool has_mask = n == 2 || is_and;
            cr_assert_eq(
                gmv_combine_bitmasks(&f.operation, rows[i].kind, columns, n, NULL, &result, &f.err),
                GMV_OK);
            cr_assert_eq(result.null_count, has_mask ? rows[i].nulls : 0);
            cr_assert_eq(result.mask->nbytes, has_mask ? 64 : 0);
            if (has_mask)
                expect_bits(result.mask, want, 512, "combined");
        }
        cr_assert_eq(
            gmv_combine_bitmasks(&f.operation, rows[i].kind, columns + 2, 1, NULL, &result, &f.err),
            GMV_OK);
        cr_assert_eq(result.mask->nbytes + result.null_count, 0);
    }
}

Test(mask_ranges, ten_thousand_rows_are_valid_where_their_byte_is)
{
    enum { N = 10000 };
    static const struct {
        int begin, step;
        int64_t nulls;
    } rows[] = {{1, 2, 5000}, {0, 1, 0}, {N, 1, N}};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        static bool bits[N];
        gmv_mask_result result;
        memset(bits, 0, sizeof bits);
        for (int k = rows[i].begin; k < N; k += rows[i].step)
            bits[k] = true;
        gmv_view *bools = fixture_view_of(&f, GMV_DTYPE_B1, bits, N);
        cr_assert_eq(gmv_bools_to_mask(&f.operation, &bools->node, NULL, &result, &f.err), GMV_OK);
        cr_assert_eq(result.null_count, rows[i].nulls);
        expect_bits(result.mask, bits, N, "of bools");
    }
}
