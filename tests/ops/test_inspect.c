/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looking inside arrays through the ops: layouts, masks of every kind, columns, limits. What the
 * numbers are is tested with NumPy as the oracle (tests/integration/test_inspect.py); here it is
 * that every way to the same elements gives the same.
 */
#include <math.h>
#include <string.h>

#include <criterion/criterion.h>

#include <gmv/base/alloc.h>
#include <gmv/base/num.h>
#include <gmv/ops/inspect.h>

#include "ops/fixture.h"

static fixture f;

static gmv_view *strided_view(gmv_buffer *buffer, gmv_dtype dtype, gmv_layout layout,
                              int64_t offset)
{
    gmv_typed_view_request request = {.dtype = dtype, .layout = layout, .offset = offset};
    gmv_view *view = NULL;
    cr_assert_eq(gmv_view_create_typed(&f.operation, &buffer->node, &request, NULL, &view, &f.err),
                 GMV_OK, "%s", f.err.message);
    return view;
}

static gmv_statistics statistics_of(gmv_node *subject, gmv_view *mask)
{
    gmv_statistics statistics;
    cr_assert_eq(gmv_inspect_statistics(&f.operation, subject, mask, &statistics, &f.err), GMV_OK,
                 "%s", f.err.message);
    return statistics;
}

static gmv_checksum checksum_of(gmv_node *subject, gmv_checksum_algorithm algorithm)
{
    gmv_checksum_request request = {.algorithm = algorithm, .block_nbytes = 1024};
    gmv_checksum checksum;
    cr_assert_eq(gmv_inspect_checksum(&f.operation, subject, &request, &checksum, &f.err), GMV_OK,
                 "%s", f.err.message);
    return checksum;
}

static gmv_comparison compare_of(gmv_node *a, gmv_node *b)
{
    gmv_comparison comparison;
    gmv_comparison_request request = {.nan_equal = true};
    cr_assert_eq(gmv_inspect_compare(&f.operation, a, b, &request, &comparison, &f.err), GMV_OK,
                 "%s", f.err.message);
    return comparison;
}

/* A copy of any layout has the same elements, and everything says so. */
Test(inspect, every_layout_gives_what_its_copy_gives)
{
    static int32_t values[60 * 70];
    fixture_open(&f);
    for (int i = 0; i < 60 * 70; i++)
        values[i] = i * 7919 % 1000 - 500;
    gmv_buffer *buffer = fixture_buffer(&f, values, sizeof values);
    gmv_layout layouts[] = {
        {.ndim = 2, .has_strides = true, .shape = {70, 60}, .strides = {4, 280}},
        {.ndim = 2, .has_strides = true, .shape = {60, 35}, .strides = {280, 8}},
        {.ndim = 1, .has_strides = true, .shape = {60 * 70}, .strides = {-4}},
        {.ndim = 3, .has_strides = true, .shape = {3, 60, 70}, .strides = {0, 280, 4}},
        {.ndim = 1, .has_strides = false, .shape = {60 * 70 - 1}},
    };
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
        int64_t offset = i == 2 ? (int64_t)sizeof values - 4 : i == 4 ? 4 : 0;
        gmv_view *view = strided_view(buffer, GMV_DTYPE_I4, layouts[i], offset), *copy = NULL;
        cr_assert_eq(gmv_view_copy(&f.operation, view, false, NULL, &copy, &f.err), GMV_OK);
        gmv_statistics a = statistics_of(&view->node, NULL), b = statistics_of(&copy->node, NULL);
        cr_assert_eq(memcmp(&a, &b, sizeof a), 0, "layout %zu", i);
        cr_assert_eq(a.count, view->size);
        for (int algorithm = 0; algorithm < 3; algorithm++)
            cr_assert_eq(checksum_of(&view->node, (gmv_checksum_algorithm)algorithm).value,
                         checksum_of(&copy->node, (gmv_checksum_algorithm)algorithm).value);
        gmv_comparison comparison = compare_of(&view->node, &copy->node);
        cr_assert(comparison.equal && comparison.first_difference == -1);
    }
    fixture_close(&f);
}

/* More than one part of what is gathered, ends included. */
Test(inspect, long_broadcasts_go_through_staging_in_parts)
{
    static const uint8_t values[] = {1, 2, 3, 0, 5, 6, 7};
    fixture_open(&f);
    gmv_buffer *buffer = fixture_buffer(&f, values, sizeof values);
    int64_t rows = 2500000;
    gmv_layout layout = {.ndim = 2, .has_strides = true, .shape = {rows, 7}, .strides = {0, 1}};
    gmv_view *view = strided_view(buffer, GMV_DTYPE_U1, layout, 0);
    gmv_statistics statistics = statistics_of(&view->node, NULL);
    cr_assert(statistics.sum_integer == 24 * rows && statistics.zero_count == rows);
    uint32_t crc = UINT32_MAX;
    for (int64_t i = 0; i < rows; i++)
        crc = gmv_crc32c_update(crc, values, sizeof values);
    cr_assert_eq(checksum_of(&view->node, GMV_CHECKSUM_CRC32C).value, (uint32_t)~crc);
    gmv_view *strided_mask = strided_view(buffer, GMV_DTYPE_B1, layout, 0);
    statistics = statistics_of(&view->node, strided_mask);
    cr_assert(statistics.null_count == rows && statistics.zero_count == 0);
    cr_assert_eq(statistics.count, 7 * rows);
    fixture_close(&f);
}

static gmv_column *column_of(gmv_view *data, gmv_view *mask, int32_t type, int64_t size,
                             int64_t offset)
{
    gmv_column_request request = {.type = {.id = type, .scale = type == GMV_CUDF_DECIMAL32 ? 2 : 0},
                                  .size = size,
                                  .offset = offset,
                                  .data = data,
                                  .null_mask = mask};
    gmv_column *column = NULL;
    cr_assert_eq(gmv_column_create(&f.operation, &request, NULL, &column, &f.err), GMV_OK, "%s",
                 f.err.message);
    return column;
}

Test(inspect, a_column_is_looked_at_through_its_offset_and_mask)
{
    static const float values[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, NAN, 11, 12, 13, 14, 15};
    static const uint8_t bits[64] = {0xff, 0x5f};
    fixture_open(&f);
    gmv_view *data = fixture_view_of(&f, GMV_DTYPE_F4, values, sizeof values);
    gmv_view *mask = fixture_view_of(&f, GMV_DTYPE_U1, bits, sizeof bits);
    gmv_column *column = column_of(data, mask, GMV_CUDF_FLOAT32, 12, 4);
    gmv_statistics statistics = statistics_of(&column->node, NULL);
    cr_assert(statistics.count == 12 && statistics.null_count == 2 && statistics.nan_count == 1);
    cr_assert_eq(statistics.sum, 4 + 5 + 6 + 7 + 8 + 9 + 11 + 12 + 14);
    gmv_comparison comparison = compare_of(&column->node, &column->node);
    cr_assert(comparison.equal && comparison.absolute_difference == 0);
    fixture_close(&f);
}

/* Bins one subnormal number wide: their number by the range is infinite, and guesses say nothing.
 */
Test(inspect, the_narrowest_bins_are_found_without_walking_past_all_others, .timeout = 600)
{
    enum { N = 1 << 22, BINS = 65536 };
    static const double smallest = 0x1p-1074;
    gmv_layout layout = {.ndim = 1, .has_strides = true, .shape = {N}, .strides = {0}};
    gmv_histogram_request bins = {
        .bins = BINS, .has_min = true, .has_max = true, .max = BINS * smallest};
    gmv_histogram histogram;
    fixture_open(&f);
    for (int i = 0; i < 3; i++) {
        static const int expected[] = {1, BINS / 2, BINS - 1};
        const double value = expected[i] * smallest;
        gmv_buffer *buffer = fixture_buffer(&f, &value, sizeof value);
        gmv_view *view = strided_view(buffer, GMV_DTYPE_F8, layout, 0);
        cr_assert_eq(gmv_inspect_histogram(&f.operation, &view->node, &bins, &histogram, &f.err),
                     GMV_OK, "%s", f.err.message);
        cr_assert_eq(histogram.counts[expected[i]], N);
        gmv_histogram_fini(&histogram);
    }
    fixture_close(&f);
}

Test(inspect, what_has_no_order_is_refused)
{
    static const float values[16];
    gmv_statistics statistics;
    gmv_histogram histogram;
    gmv_comparison comparison;
    gmv_histogram_request bins = {.bins = 4};
    gmv_comparison_request exact = {0};
    fixture_open(&f);
    gmv_view *data = fixture_view_of(&f, GMV_DTYPE_C8, values, sizeof values);
    gmv_view *floats = fixture_view(&f, &data->buffer->node, GMV_DTYPE_F4, 16, 0);
    gmv_column *decimals = column_of(data, NULL, GMV_CUDF_DECIMAL32, 16, 0);
    gmv_node *subjects[] = {&data->node, &decimals->node};
    for (int i = 0; i < 2; i++) {
        fixture_expect(&f,
                       gmv_inspect_statistics(&f.operation, subjects[i], NULL, &statistics, &f.err),
                       GMV_ERR_DTYPE_UNSUPPORTED, NULL);
        fixture_expect(&f,
                       gmv_inspect_histogram(&f.operation, subjects[i], &bins, &histogram, &f.err),
                       GMV_ERR_DTYPE_UNSUPPORTED, NULL);
    }
    cr_assert_eq(checksum_of(&decimals->node, GMV_CHECKSUM_CRC32C).nbytes, 64);
    fixture_expect(&f,
                   gmv_inspect_compare(&f.operation, &decimals->node, &decimals->node, &exact,
                                       &comparison, &f.err),
                   GMV_ERR_DTYPE_UNSUPPORTED, NULL);
    fixture_expect(
        &f, gmv_inspect_statistics(&f.operation, &data->buffer->node, NULL, &statistics, &f.err),
        GMV_ERR_KIND_MISMATCH, NULL);
    fixture_expect(&f,
                   gmv_inspect_compare(&f.operation, &floats->node, &decimals->node, &exact,
                                       &comparison, &f.err),
                   GMV_ERR_KIND_MISMATCH, "/other");
    exact.relative_tolerance = (double)NAN;
    fixture_expect(&f,
                   gmv_inspect_compare(&f.operation, &floats->node, &floats->node, &exact,
                                       &comparison, &f.err),
                   GMV_ERR_VALUE, "/relative_tolerance");
    fixture_close(&f);
}

Test(inspect, work_beyond_the_limit_is_refused_and_long_work_moves)
{
    static const uint8_t byte[1] = {1};
    gmv_limits limits = {.max_logical_nbytes = 100u << 20};
    gmv_layout layout = {.ndim = 1, .has_strides = true, .shape = {60 << 20}, .strides = {0}};
    gmv_statistics statistics;
    gmv_histogram histogram;
    gmv_histogram_request bins = {.bins = 4};
    fixture_open_with(&f, &limits, 1);
    gmv_buffer *buffer = fixture_buffer(&f, byte, 1);
    gmv_view *view = strided_view(buffer, GMV_DTYPE_U1, layout, 0);
    gmv_id id = view->node.id;
    gmv_node *node = NULL;
    fixture_expect(&f, gmv_inspect_histogram(&f.operation, &view->node, &bins, &histogram, &f.err),
                   GMV_ERR_QUOTA_EXCEEDED, NULL);
    fixture_end(&f);
    fixture_begin_lane(&f, GMV_LANE_SHORT);
    cr_assert_eq(gmv_operation_get(&f.operation, &id, GMV_KIND_VIEW, NULL, &node, &f.err), GMV_OK);
    cr_assert_eq(gmv_inspect_statistics(&f.operation, node, NULL, &statistics, &f.err),
                 GMV_MOVE_TO_BULK);
    fixture_close(&f);
}

/* A view of 2^38 elements: each of these would run for minutes. */
Test(inspect, work_that_nobody_waits_for_stops)
{
    static const uint8_t values[] = {1, 2, 3, 0};
    fixture_open(&f);
    gmv_buffer *buffer = fixture_buffer(&f, values, sizeof values);
    gmv_layout layout = {.ndim = 2, .has_strides = true, .shape = {1L << 36, 4}, .strides = {0, 1}};
    gmv_view *view = strided_view(buffer, GMV_DTYPE_U1, layout, 0);
    gmv_node *node = &view->node;
    fixture_state before = fixture_look(&f);
    _Atomic(bool) unheard;
    atomic_init(&unheard, true);
    f.operation.unheard = &unheard;
    gmv_statistics statistics;
    gmv_comparison comparison;
    gmv_comparison_request request = {0};
    cr_assert_eq(gmv_inspect_statistics(&f.operation, node, NULL, &statistics, &f.err),
                 GMV_ERR_DRAINING);
    cr_assert_eq(gmv_inspect_compare(&f.operation, node, node, &request, &comparison, &f.err),
                 GMV_ERR_DRAINING);
    fixture_state after = fixture_look(&f);
    fixture_expect_same(&before, &after, "stopping");
    atomic_store(&unheard, false);
    gmv_view *small = fixture_view(&f, &buffer->node, GMV_DTYPE_U1, 4, 0);
    cr_assert_eq(gmv_inspect_statistics(&f.operation, &small->node, NULL, &statistics, &f.err),
                 GMV_OK);
    fixture_close(&f);
}

Test(inspect, a_bitmask_of_0_bytes_is_no_mask)
{
    static const uint8_t values[] = {1, 2, 3, 0, 5, 6, 7};
    fixture_open(&f);
    gmv_view *view = fixture_view_of(&f, GMV_DTYPE_U1, values, sizeof values);
    gmv_statistics plain = statistics_of(&view->node, NULL);
    for (size_t i = 0; i < 2; i++) {
        gmv_view *none = fixture_view_of(&f, i ? GMV_DTYPE_U4 : GMV_DTYPE_U1, values, 0);
        gmv_statistics masked = statistics_of(&view->node, none);
        cr_assert_eq(memcmp(&masked, &plain, sizeof plain), 0);
    }
    gmv_view *bools = fixture_view_of(&f, GMV_DTYPE_B1, values, 0);
    gmv_statistics statistics;
    cr_assert_eq(gmv_inspect_statistics(&f.operation, &view->node, bools, &statistics, &f.err),
                 GMV_ERR_VALUE);
    fixture_close(&f);
}

Test(inspect, validity_of_values_by_every_kind_of_mask)
{
    static const uint8_t bytes[40] = {1, 0, 7, 0, 0, 1, 1, 1, 0, 1, 0, 1};
    static const uint8_t wanted_bytes = 0xe5; /* of elements 0 to 7 */
    static const uint8_t wanted_bits = 0x80;  /* of elements 9 to 16 */
    uint8_t *bits = NULL;
    fixture_open(&f);
    gmv_buffer *buffer = fixture_buffer(&f, bytes, sizeof bytes);
    static const gmv_mask_kind kinds[] = {GMV_MASK_BOOLS, GMV_MASK_BYTES, GMV_MASK_BITS};
    for (int i = 0; i < 3; i++) {
        gmv_layout layout = gmv_layout_flat(20);
        gmv_view_spec spec = {.buffer = buffer,
                              .parent = &buffer->node,
                              .ptr = buffer->ptr,
                              .dtype = GMV_DTYPE_U1,
                              .layout = &layout,
                              .mask_kind = kinds[i]};
        spec.mask = fixture_view(&f, &buffer->node, i == 0 ? GMV_DTYPE_B1 : GMV_DTYPE_U1, 20, 0);
        gmv_view *view = NULL;
        cr_assert_eq(gmv_operation_reserve(&f.operation, 1, &f.err), GMV_OK);
        cr_assert_eq(gmv_view_prepare(&f.operation, &spec, NULL, false, &view, &f.err), GMV_OK);
        gmv_node *node = &view->node;
        gmv_operation_publish(&f.operation, &node, 1);
        cr_assert_eq(gmv_view_read_validity(&f.operation, view, kinds[i] == GMV_MASK_BITS ? 9 : 0,
                                            8, &bits, &f.err),
                     GMV_OK);
        cr_assert_eq(bits[0], kinds[i] == GMV_MASK_BITS ? wanted_bits : wanted_bytes,
                     "kind %d: 0x%02x", i, bits[0]);
        gmv_free(bits);
    }
    fixture_close(&f);
}
