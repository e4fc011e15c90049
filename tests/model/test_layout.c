/* SPDX-License-Identifier: Apache-2.0 */
/* Layouts are measured exactly, and no choice of numbers makes the arithmetic wrap. */
#include <criterion/criterion.h>

#include <gmv/model/layout.h>

#define BIG (INT64_C(1) << 62)

typedef struct layout_row {
    int32_t ndim;
    bool has_strides;
    int64_t shape[4];
    int64_t strides[4];
    int64_t itemsize;
    gmv_status status;
    const char *pointer;
    gmv_extent extent;
} layout_row;

static const layout_row layout_rows[] = {
    {0, false, {0}, {0}, 8, GMV_OK, "", {1, 8, 0, 8, true}},
    {0, true, {0}, {0}, 8, GMV_OK, "", {1, 8, 0, 8, true}},
    {1, false, {10}, {0}, 4, GMV_OK, "", {10, 40, 0, 40, true}},
    {1, true, {10}, {4}, 4, GMV_OK, "", {10, 40, 0, 40, true}},
    {1, true, {10}, {8}, 4, GMV_OK, "", {10, 40, 0, 76, false}},
    {1, true, {10}, {-4}, 4, GMV_OK, "", {10, 40, -36, 4, false}},
    {1, true, {10}, {0}, 4, GMV_OK, "", {10, 40, 0, 4, false}},
    {1, true, {10}, {6}, 4, GMV_OK, "", {10, 40, 0, 58, false}},
    {1, true, {1}, {INT64_MIN}, 4, GMV_OK, "", {1, 4, 0, 4, true}},
    {2, true, {3, 4}, {32, 8}, 8, GMV_OK, "", {12, 96, 0, 96, true}},
    {2, true, {3, 4}, {8, 24}, 8, GMV_OK, "", {12, 96, 0, 96, false}},
    {2, true, {2, 8}, {64, -4}, 4, GMV_OK, "", {16, 64, -28, 68, false}},
    {4, true, {1, 2, 3, 4}, {96, 48, 16, 4}, 4, GMV_OK, "", {24, 96, 0, 96, true}},
    {4, true, {1, 2, 1, 4}, {-7, 16, 999, 4}, 4, GMV_OK, "", {8, 32, 0, 32, true}},
    {2, true, {0, 4}, {INT64_MAX, -7}, 4, GMV_OK, "", {0, 0, 0, 0, true}},
    {2, false, {0, INT64_C(1) << 40}, {0}, 4, GMV_OK, "", {0, 0, 0, 0, true}},
    {2,
     true,
     {INT64_C(1) << 40, 4},
     {0, 4},
     4,
     GMV_OK,
     "",
     {INT64_C(1) << 42, INT64_C(1) << 44, 0, 16, false}},
    {1, false, {INT64_MAX}, {0}, 1, GMV_OK, "", {INT64_MAX, INT64_MAX, 0, INT64_MAX, true}},
    {1, false, {-1}, {0}, 4, GMV_ERR_VALUE, "/shape/0", {0}},
    {2, false, {0, -5}, {0}, 4, GMV_ERR_VALUE, "/shape/1", {0}},
    {2, false, {-2, -5}, {0}, 4, GMV_ERR_VALUE, "/shape/0", {0}},
    {1, false, {INT64_MIN}, {0}, 4, GMV_ERR_VALUE, "/shape/0", {0}},
    {2, false, {INT64_C(1) << 32, INT64_C(1) << 32}, {0}, 4, GMV_ERR_VALUE, "/shape", {0}},
    {1, false, {INT64_C(1) << 61}, {0}, 8, GMV_ERR_VALUE, "/shape", {0}},
    {3, false, {BIG, BIG, 0}, {0}, 4, GMV_ERR_VALUE, "/shape", {0}},
    {3, false, {0, BIG, BIG}, {0}, 4, GMV_ERR_VALUE, "/shape", {0}},
    {1, true, {5}, {BIG}, 4, GMV_ERR_OUT_OF_BOUNDS, "/shape", {0}},
    {1, true, {INT64_C(4294967297)}, {INT64_C(1) << 32}, 4, GMV_ERR_OUT_OF_BOUNDS, "/shape", {0}},
    {1, true, {3}, {INT64_MIN}, 4, GMV_ERR_OUT_OF_BOUNDS, "/shape", {0}},
    {2, true, {3, 3}, {BIG, -BIG}, 4, GMV_ERR_OUT_OF_BOUNDS, "/shape", {0}},
    {2, true, {2, 3}, {INT64_MAX, -BIG}, 4, GMV_ERR_OUT_OF_BOUNDS, "/shape", {0}},
    {1, true, {2}, {INT64_MAX}, 1, GMV_ERR_OUT_OF_BOUNDS, "/shape", {0}},
    {1, true, {2}, {INT64_MIN}, 4, GMV_OK, "", {2, 8, INT64_MIN, 4, false}},
};

#define LAYOUT_ROWS (sizeof layout_rows / sizeof layout_rows[0])

static gmv_layout layout_of(const layout_row *row)
{
    gmv_layout layout = {.ndim = row->ndim, .has_strides = row->has_strides};
    for (int32_t i = 0; i < row->ndim; i++) {
        layout.shape[i] = row->shape[i];
        layout.strides[i] = row->strides[i];
    }
    return layout;
}

Test(layout, each_is_measured_or_refused_with_the_reason)
{
    for (size_t i = 0; i < LAYOUT_ROWS; i++) {
        const layout_row *row = &layout_rows[i];
        gmv_layout layout = layout_of(row);
        gmv_extent extent = {0};
        gmv_error err;
        gmv_error_init(&err);
        cr_expect_eq(gmv_layout_measure(&layout, row->itemsize, &extent, &err), row->status,
                     "row %zu", i);
        cr_expect_str_eq(err.pointer, row->pointer, "row %zu", i);
        cr_expect_eq(extent.size, row->extent.size, "row %zu", i);
        cr_expect_eq(extent.nbytes, row->extent.nbytes, "row %zu", i);
        cr_expect_eq(extent.low, row->extent.low, "row %zu", i);
        cr_expect_eq(extent.high, row->extent.high, "row %zu", i);
        cr_expect_eq(extent.contiguous, row->extent.contiguous, "row %zu", i);
    }
}

Test(layout, dimensions_beyond_the_limit_are_refused)
{
    gmv_layout layout = {.ndim = GMV_NDIM_MAX};
    gmv_extent extent;
    for (int i = 0; i < GMV_NDIM_MAX; i++)
        layout.shape[i] = 1;
    cr_expect_eq(gmv_layout_measure(&layout, 1, &extent, NULL), GMV_OK);
    layout.ndim = GMV_NDIM_MAX + 1;
    cr_expect_eq(gmv_layout_measure(&layout, 1, &extent, NULL), GMV_ERR_VALUE);
    layout.ndim = -1;
    cr_expect_eq(gmv_layout_measure(&layout, 1, &extent, NULL), GMV_ERR_VALUE);
}

Test(layout, a_flat_one_is_contiguous)
{
    gmv_layout layout = gmv_layout_flat(12);
    gmv_extent extent;
    cr_expect_eq(gmv_layout_measure(&layout, 1, &extent, NULL), GMV_OK);
    cr_expect_eq(extent.nbytes, 12);
    cr_expect(extent.contiguous);
}

/* Visits every element of a small layout. */
static void layout_enumerate(const gmv_layout *layout, int32_t dimension, int64_t at,
                             int64_t itemsize, int64_t *low, int64_t *high, int64_t *count)
{
    if (dimension == layout->ndim) {
        *low = at < *low ? at : *low;
        *high = at + itemsize > *high ? at + itemsize : *high;
        ++*count;
        return;
    }
    for (int64_t i = 0; i < layout->shape[dimension]; i++)
        layout_enumerate(layout, dimension + 1, at + i * layout->strides[dimension], itemsize, low,
                         high, count);
}

Test(layout, the_touched_range_is_that_of_visiting_every_element)
{
    static const int64_t extents[] = {0, 1, 2, 3};
    static const int64_t strides[] = {-12, -4, 0, 4, 5, 16};
    for (unsigned i = 0; i < 4 * 4 * 4 * 6 * 6 * 6; i++) {
        gmv_layout layout = {.ndim = 3, .has_strides = true};
        unsigned pick = i;
        for (int j = 0; j < 3; j++, pick /= 4)
            layout.shape[j] = extents[pick % 4];
        for (int j = 0; j < 3; j++, pick /= 6)
            layout.strides[j] = strides[pick % 6];
        int64_t low = 0;
        int64_t high = 0;
        int64_t count = 0;
        gmv_extent extent;
        layout_enumerate(&layout, 0, 0, 4, &low, &high, &count);
        cr_assert_eq(gmv_layout_measure(&layout, 4, &extent, NULL), GMV_OK);
        cr_assert(extent.low == low && extent.high == high && extent.size == count, "case %u", i);
    }
}

Test(layout, c_strides_make_an_equal_contiguous_layout)
{
    gmv_layout layout = {.ndim = 4, .shape = {2, 1, 3, 5}};
    gmv_layout_c_strides(&layout, 8, layout.strides);
    cr_expect_eq(layout.strides[0], 120);
    cr_expect_eq(layout.strides[1], 120);
    cr_expect_eq(layout.strides[2], 40);
    cr_expect_eq(layout.strides[3], 8);
    layout.has_strides = true;
    gmv_extent extent;
    cr_expect_eq(gmv_layout_measure(&layout, 8, &extent, NULL), GMV_OK);
    cr_expect(extent.contiguous);
    gmv_layout empty = {.ndim = 3, .shape = {INT64_C(1) << 29, 0, INT64_C(1) << 30}};
    gmv_layout_c_strides(&empty, 8, empty.strides);
    cr_expect_eq(empty.strides[0], INT64_C(1) << 33);
    cr_expect_eq(empty.strides[2], 8);
}

Test(layout, elements_must_lie_inside_the_memory)
{
    static const struct {
        int64_t low, high, offset, nbytes;
        gmv_status status;
    } rows[] = {
        {0, 40, 0, 40, GMV_OK},
        {0, 40, 0, 39, GMV_ERR_OUT_OF_BOUNDS},
        {0, 40, 1, 40, GMV_ERR_OUT_OF_BOUNDS},
        {-36, 4, 36, 40, GMV_OK},
        {-36, 4, 35, 40, GMV_ERR_OUT_OF_BOUNDS},
        {0, 0, 40, 40, GMV_OK},
        {0, 0, 41, 40, GMV_ERR_OUT_OF_BOUNDS},
        {0, 0, -1, 40, GMV_ERR_OUT_OF_BOUNDS},
        {0, 0, 0, 0, GMV_OK},
        {0, 1, 0, 0, GMV_ERR_OUT_OF_BOUNDS},
        {INT64_MIN, 4, INT64_MAX, INT64_MAX, GMV_ERR_OUT_OF_BOUNDS},
        {0, INT64_MAX, INT64_MAX, INT64_MAX, GMV_ERR_OUT_OF_BOUNDS},
        {0, INT64_MAX, 0, INT64_MAX, GMV_OK},
        {0, 1, INT64_MIN, 40, GMV_ERR_OUT_OF_BOUNDS},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        gmv_extent extent = {.low = rows[i].low, .high = rows[i].high};
        gmv_error err;
        gmv_error_init(&err);
        cr_expect_eq(gmv_extent_check_inside(&extent, rows[i].offset, rows[i].nbytes, &err),
                     rows[i].status, "row %zu", i);
        cr_expect_str_eq(err.pointer, rows[i].status == GMV_OK ? "" : "/shape");
    }
}

Test(layout, misaligned_addresses_and_strides_are_named)
{
    gmv_layout layout = {.ndim = 2, .has_strides = true, .shape = {3, 4}, .strides = {16, 6}};
    gmv_error err;
    gmv_error_init(&err);
    cr_expect_eq(gmv_layout_check_alignment(&layout, 4, 64, "/data/0", &err), GMV_ERR_VALUE);
    cr_expect_str_eq(err.pointer, "/strides/1");
    cr_expect_eq(gmv_layout_check_alignment(&layout, 4, 66, "/data/0", &err), GMV_ERR_VALUE);
    cr_expect_str_eq(err.pointer, "/data/0");
    cr_expect_eq(gmv_layout_check_alignment(&layout, 2, 66, "/data/0", NULL), GMV_OK);
    layout.strides[1] = -6;
    cr_expect_eq(gmv_layout_check_alignment(&layout, 4, 64, "/data/0", NULL), GMV_ERR_VALUE);
    layout.strides[1] = -4;
    cr_expect_eq(gmv_layout_check_alignment(&layout, 4, 64, "/data/0", NULL), GMV_OK);
}

Test(layout, leftovers_on_extents_of_1_and_empty_arrays_need_no_alignment)
{
    gmv_layout layout = {.ndim = 2, .has_strides = true, .shape = {1, 4}, .strides = {7, 4}};
    cr_expect_eq(gmv_layout_check_alignment(&layout, 4, 64, "/data/0", NULL), GMV_OK);
    layout.shape[1] = 0;
    cr_expect_eq(gmv_layout_check_alignment(&layout, 4, 65, "/data/0", NULL), GMV_OK);
    layout.has_strides = false;
    layout.shape[1] = 4;
    cr_expect_eq(gmv_layout_check_alignment(&layout, 4, 65, "/data/0", NULL), GMV_ERR_VALUE);
}
