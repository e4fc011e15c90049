/* SPDX-License-Identifier: Apache-2.0 */
/* Null-mask verbs: what they take, what "no mask" means, and cases from public reports. */
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

TestSuite(mask, .init = open_fixture, .fini = close_fixture);

#define BYTES(view, literal) fixture_expect_bytes(&f, (view), (literal), sizeof(literal) - 1)

/* A mask of 64 bytes that begins with these and is zero from there on. */
static void expect_mask(gmv_view *mask, const void *bytes, size_t nbytes)
{
    unsigned char want[64] = {0};
    memcpy(want, bytes, nbytes);
    fixture_expect_bytes(&f, mask, want, sizeof want);
}

static gmv_view *bits_of(const void *bytes, size_t nbytes)
{
    return fixture_view_of(&f, GMV_DTYPE_U1, bytes, nbytes);
}

static gmv_column *column_of(int32_t type, gmv_view *data, gmv_view *null_mask, int64_t size,
                             int64_t offset)
{
    gmv_column *column = NULL;
    gmv_column_request request = {
        .type = {.id = type}, .size = size, .offset = offset, .data = data, .null_mask = null_mask};
    cr_assert_eq(gmv_column_create(&f.operation, &request, NULL, &column, &f.err), GMV_OK, "%s",
                 f.err.message);
    return column;
}

/* int8 rows of zeros. */
static gmv_column *rows_with(gmv_view *null_mask, int64_t size, int64_t offset)
{
    gmv_buffer *buffer = NULL;
    cr_assert_eq(gmv_buffer_allocate(&f.operation, 0, size + offset, false, NULL, &buffer, &f.err),
                 GMV_OK);
    gmv_view *data = fixture_view(&f, &buffer->node, GMV_DTYPE_I1, size + offset, 0);
    return column_of(GMV_CUDF_INT8, data, null_mask, size, offset);
}

static int64_t nulls_in(gmv_view *bitmask, int64_t begin, int64_t end)
{
    int64_t count = -1;
    cr_assert_eq(gmv_null_count(&f.operation, bitmask, (gmv_bit_range){begin, end}, &count, &f.err),
                 GMV_OK, "%s", f.err.message);
    return count;
}

static gmv_view *view_create(gmv_cai cai, const gmv_cai *mask, gmv_mask_kind kind)
{
    gmv_view *view = NULL;
    gmv_view_request request = {.cai = &cai, .mask = mask, .mask_kind = kind};
    cr_assert_eq(gmv_view_create(&f.operation, &request, NULL, &view, &f.err), GMV_OK, "%s",
                 f.err.message);
    return view;
}

static gmv_cai cai_of(gmv_dtype dtype, uint64_t address, int64_t n, int64_t stride)
{
    gmv_cai cai = {.address = (int64_t)address, .dtype = dtype, .version = 3};
    cai.layout = gmv_layout_flat(n);
    cai.layout.has_strides = stride != 0;
    cai.layout.strides[0] = stride;
    return cai;
}

/* ---- which views are bitmasks ---------------------------------------------------------------- */

Test(mask, a_bitmask_is_contiguous_bytes_or_words)
{
    static const struct {
        gmv_dtype dtype;
        int64_t n, stride;
        gmv_status status;
    } rows[] = {
        {GMV_DTYPE_U1, 16, 0, GMV_OK},
        {GMV_DTYPE_U4, 4, 0, GMV_OK},
        {GMV_DTYPE_U1, 8, 2, GMV_ERR_NOT_CONTIGUOUS},
        {GMV_DTYPE_I4, 4, 0, GMV_ERR_DTYPE_UNSUPPORTED},
        {GMV_DTYPE_B1, 16, 0, GMV_ERR_DTYPE_UNSUPPORTED},
        {GMV_DTYPE_U8, 2, 0, GMV_ERR_DTYPE_UNSUPPORTED},
    };
    gmv_buffer *buffer =
        fixture_buffer(&f, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 16);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        gmv_view *view = view_create(cai_of(rows[i].dtype, buffer->ptr, rows[i].n, rows[i].stride),
                                     NULL, GMV_MASK_NONE);
        gmv_bit_range range = {0, 64};
        gmv_column *column = NULL;
        gmv_view *made = NULL;
        int64_t count;
        gmv_status want = rows[i].status;
        const char *pointer = want == GMV_OK ? NULL : "/bitmask";
        fixture_expect(&f, gmv_null_count(&f.operation, view, range, &count, &f.err), want,
                       pointer);
        fixture_expect(&f, gmv_copy_bitmask(&f.operation, view, range, NULL, &made, &f.err), want,
                       pointer);
        fixture_expect(&f, gmv_mask_to_bools(&f.operation, view, range, NULL, &column, &f.err),
                       want, pointer);
        fixture_expect(&f, gmv_index_of_first_set_bit(&f.operation, view, range, &count, &f.err),
                       want, pointer);
        fixture_expect(&f, gmv_segmented_null_count(&f.operation, view, &range, 1, &count, &f.err),
                       want, pointer);
        fixture_expect(&f, gmv_set_null_mask(&f.operation, view, range, true, &f.err), want,
                       pointer);
    }
}

Test(mask, a_bitmask_has_as_many_bits_as_its_bytes_and_starts_at_any_byte)
{
    gmv_buffer *buffer = fixture_buffer(&f, "\xff\x17", 2);
    gmv_view *view = fixture_view(&f, &buffer->node, GMV_DTYPE_U1, 1, 1);
    int64_t count;
    cr_assert_eq(nulls_in(view, 0, 5), 1); /* PR-MSK-08 */
    cr_assert_eq(nulls_in(view, 0, 8), 4);
    fixture_expect(&f, gmv_null_count(&f.operation, view, (gmv_bit_range){0, 9}, &count, &f.err),
                   GMV_ERR_OUT_OF_BOUNDS, "/end_bit");
}

Test(mask, ranges_are_checked_even_without_a_mask)
{
    static const struct {
        gmv_bit_range range;
        gmv_status status;
    } rows[] = {
        {{0, 64}, GMV_OK},
        {{5, 5}, GMV_OK},
        {{6, 5}, GMV_ERR_VALUE},
        {{-1, 3}, GMV_ERR_VALUE},
        {{60, 65}, GMV_ERR_OUT_OF_BOUNDS},
        {{0, (int64_t)INT32_MAX + 1}, GMV_ERR_VALUE},
        {{INT64_MIN, INT64_MAX}, GMV_ERR_VALUE},
    };
    gmv_view *bits = bits_of("\xff\xff\xff\xff\xff\xff\xff\xff", 8);
    gmv_view *empty = bits_of("", 0);
    gmv_view *masks[] = {bits, empty, NULL};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (size_t m = 0; m < 3; m++) {
            bool past_end = rows[i].status == GMV_ERR_OUT_OF_BOUNDS;
            gmv_status want = m > 0 && past_end ? GMV_OK : rows[i].status;
            int64_t count;
            gmv_view *made = NULL;
            fixture_expect(&f,
                           gmv_null_count(&f.operation, masks[m], rows[i].range, &count, &f.err),
                           want, NULL);
            if (want == GMV_OK)
                cr_assert_eq(count, 0);
            fixture_expect(&f,
                           gmv_valid_count(&f.operation, masks[m], rows[i].range, &count, &f.err),
                           want, NULL);
            if (want == GMV_OK)
                cr_assert_eq(count, rows[i].range.end - rows[i].range.begin);
            fixture_expect(
                &f, gmv_copy_bitmask(&f.operation, masks[m], rows[i].range, NULL, &made, &f.err),
                want, NULL);
        }
    }
}

/* PR-MSK-03, PR-MSK-05: a mask that is absent, or of 0 bytes, means that every row is valid. */
Test(mask, no_mask_means_all_valid)
{
    gmv_view *empty = bits_of("", 0);
    gmv_view *masks[] = {NULL, empty};
    for (size_t m = 0; m < 2; m++) {
        gmv_view *made = NULL;
        gmv_column *column = NULL;
        int64_t index = -1;
        cr_assert_eq(nulls_in(masks[m], 0, 100), 0);
        cr_assert_eq(gmv_index_of_first_set_bit(&f.operation, masks[m], (gmv_bit_range){5, 10},
                                                &index, &f.err),
                     GMV_OK);
        cr_assert_eq(index, 0);
        cr_assert_eq(
            gmv_copy_bitmask(&f.operation, masks[m], (gmv_bit_range){3, 90}, NULL, &made, &f.err),
            GMV_OK);
        BYTES(made, "");
        cr_assert_eq(
            gmv_mask_to_bools(&f.operation, masks[m], (gmv_bit_range){4, 4}, NULL, &column, &f.err),
            GMV_OK);
        cr_assert_eq(column->size, 0);
        fixture_expect(
            &f,
            gmv_mask_to_bools(&f.operation, masks[m], (gmv_bit_range){0, 5}, NULL, &column, &f.err),
            GMV_ERR_VALUE, "/bitmask");
        fixture_expect(
            &f, gmv_set_null_mask(&f.operation, masks[m], (gmv_bit_range){0, 0}, true, &f.err),
            GMV_ERR_VALUE, "/bitmask");
    }
}

/* ---- inputs ---------------------------------------------------------------------------------- */

/* PR-MSK-04 */
Test(mask, a_null_boolean_is_false_and_any_byte_but_0_is_true)
{
    gmv_mask_result result;
    gmv_view *data = fixture_view_of(&f, GMV_DTYPE_B1, "\x01\x01\x00\x01", 4);
    gmv_column *column = column_of(GMV_CUDF_BOOL8, data, bits_of("\x0d", 1), 4, 0);
    cr_assert_eq(gmv_bools_to_mask(&f.operation, &column->node, NULL, &result, &f.err), GMV_OK);
    expect_mask(result.mask, "\x09", 1);
    cr_assert_eq(result.null_count, 2);
    gmv_view *view = fixture_view_of(&f, GMV_DTYPE_B1, "\x01\x02\xff\x00", 4);
    cr_assert_eq(gmv_bools_to_mask(&f.operation, &view->node, NULL, &result, &f.err), GMV_OK);
    expect_mask(result.mask, "\x07", 1);
    cr_assert_eq(result.null_count, 1);
}

/* PR-MSK-10 */
Test(mask, every_nan_is_a_null_and_infinities_are_not)
{
    static const uint32_t floats[] = {0x3f800000, 0x7fc00000, 0x7fc00000, 0x40400000};
    static const uint32_t odd[] = {0xffffffff, 0x7f800000, 0xff800000, 0x80000000, 0x7f800001};
    static const uint64_t doubles[] = {0x3ff0000000000000, 0x4000000000000000, 0x7ff8000000000000,
                                       0x4010000000000000};
    gmv_mask_result result;
    gmv_view *f8 = fixture_view_of(&f, GMV_DTYPE_F8, doubles, sizeof doubles);
    cr_assert_eq(gmv_nans_to_nulls(&f.operation, &f8->node, NULL, &result, &f.err), GMV_OK);
    expect_mask(result.mask, "\x0b", 1);
    cr_assert_eq(result.null_count, 1);
    gmv_view *f4 = fixture_view_of(&f, GMV_DTYPE_F4, floats, sizeof floats);
    gmv_column *column = column_of(GMV_CUDF_FLOAT32, f4, bits_of("\x0b", 1), 4, 0);
    cr_assert_eq(gmv_nans_to_nulls(&f.operation, &column->node, NULL, &result, &f.err), GMV_OK);
    expect_mask(result.mask, "\x09", 1);
    cr_assert_eq(result.null_count, 2);
    gmv_view *strange = fixture_view_of(&f, GMV_DTYPE_F4, odd, sizeof odd);
    cr_assert_eq(gmv_nans_to_nulls(&f.operation, &strange->node, NULL, &result, &f.err), GMV_OK);
    expect_mask(result.mask, "\x0e", 1);
}

Test(mask, inputs_of_other_types_are_refused)
{
    static const gmv_dtype no_bools[] = {GMV_DTYPE_U1, GMV_DTYPE_I1, GMV_DTYPE_F4, GMV_DTYPE_C8};
    static const gmv_dtype no_floats[] = {GMV_DTYPE_F2, GMV_DTYPE_I4, GMV_DTYPE_B1, GMV_DTYPE_C16,
                                          GMV_DTYPE_M8_NS};
    gmv_mask_result result;
    gmv_column *column = NULL;
    gmv_buffer *buffer = fixture_buffer(&f, "0123456789abcdef", 16);
    for (size_t i = 0; i < sizeof no_bools / sizeof no_bools[0]; i++) {
        gmv_view *view = fixture_view(&f, &buffer->node, no_bools[i], i % 2, 0);
        fixture_expect(&f, gmv_bools_to_mask(&f.operation, &view->node, NULL, &result, &f.err),
                       GMV_ERR_DTYPE_UNSUPPORTED, "/input");
    }
    for (size_t i = 0; i < sizeof no_floats / sizeof no_floats[0]; i++) {
        gmv_view *view = fixture_view(&f, &buffer->node, no_floats[i], i % 2, 0);
        fixture_expect(&f, gmv_nans_to_nulls(&f.operation, &view->node, NULL, &result, &f.err),
                       GMV_ERR_DTYPE_UNSUPPORTED, "/input");
        fixture_expect(&f,
                       gmv_column_nans_to_nulls(&f.operation, &view->node, NULL, &column, &f.err),
                       GMV_ERR_DTYPE_UNSUPPORTED, "/input");
    }
    fixture_expect(&f, gmv_bools_to_mask(&f.operation, &buffer->node, NULL, &result, &f.err),
                   GMV_ERR_KIND_MISMATCH, "/input");
}

Test(mask, an_input_view_has_one_dimension_and_at_most_2_31_minus_1_rows)
{
    gmv_mask_result result;
    gmv_view *view = NULL;
    gmv_buffer *buffer = fixture_buffer(&f, "abcdef", 6);
    gmv_typed_view_request two = {.dtype = GMV_DTYPE_B1, .layout = {.ndim = 2, .shape = {2, 3}}};
    gmv_typed_view_request zero = {.dtype = GMV_DTYPE_B1, .layout = {.ndim = 0}};
    gmv_typed_view_request *requests[] = {&two, &zero};
    for (size_t i = 0; i < 2; i++) {
        cr_assert_eq(
            gmv_view_create_typed(&f.operation, &buffer->node, requests[i], NULL, &view, &f.err),
            GMV_OK);
        fixture_expect(&f, gmv_bools_to_mask(&f.operation, &view->node, NULL, &result, &f.err),
                       GMV_ERR_VALUE, "/input");
    }
    gmv_cai cai = cai_of(GMV_DTYPE_B1, buffer->ptr, (int64_t)1 << 31, 0);
    cai.layout.has_strides = true; /* one byte, over and over */
    view = view_create(cai, NULL, GMV_MASK_NONE);
    fixture_expect(&f, gmv_bools_to_mask(&f.operation, &view->node, NULL, &result, &f.err),
                   GMV_ERR_VALUE, "/input");
}

Test(mask, strided_inputs_are_gathered)
{
    static const float values[] = {1, 2, 3, 4, 5, 6};
    float with_nan[6];
    gmv_mask_result result;
    gmv_column *column = NULL;
    memcpy(with_nan, values, sizeof values);
    with_nan[3] = (float)strtod("nan", NULL);
    gmv_buffer *buffer = fixture_buffer(&f, with_nan, sizeof with_nan);
    gmv_view *reversed = view_create(cai_of(GMV_DTYPE_F4, buffer->ptr + 20, 3, -8), NULL,
                                     GMV_MASK_NONE); /* 6, NaN, 2 */
    cr_assert_eq(gmv_nans_to_nulls(&f.operation, &reversed->node, NULL, &result, &f.err), GMV_OK);
    expect_mask(result.mask, "\x05", 1);
    cr_assert_eq(result.null_count, 1);
    cr_assert_eq(gmv_column_nans_to_nulls(&f.operation, &reversed->node, NULL, &column, &f.err),
                 GMV_OK);
    float want[] = {with_nan[5], with_nan[3], with_nan[1]};
    fixture_expect_bytes(&f, column->data, want, sizeof want);
    expect_mask(column->null_mask, "\x05", 1);
    cr_assert(column->data->node.inner && column->null_mask->node.inner);
    cr_assert_not(column->node.inner);
}

Test(mask, the_mask_of_an_input_view_counts_whatever_its_kind)
{
    static const unsigned char bytes[] = {1,    1, 0, 1, 1, 1, 1, 1, /* values */
                                          1,    0, 7, 1, 0, 0, 2, 1, /* a byte an element */
                                          0xcd, 0, 0, 0, 0, 0, 0, 0};
    static const struct {
        gmv_dtype dtype;
        uint64_t offset;
        int64_t n;
        gmv_mask_kind kind;
        bool bit_field;
    } rows[] = {
        {GMV_DTYPE_B1, 8, 8, GMV_MASK_BOOLS, false}, {GMV_DTYPE_U1, 8, 8, GMV_MASK_BYTES, false},
        {GMV_DTYPE_U1, 16, 1, GMV_MASK_BITS, false}, {GMV_DTYPE_U1, 16, 8, GMV_MASK_BITS, true},
        {GMV_DTYPE_U1, 16, 8, GMV_MASK_BITS, false},
    };
    gmv_buffer *buffer = fixture_buffer(&f, bytes, sizeof bytes);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        gmv_cai mask = cai_of(rows[i].dtype, buffer->ptr + rows[i].offset, rows[i].n, 0);
        gmv_mask_result result;
        mask.is_bit_field = rows[i].bit_field;
        gmv_view *view = view_create(cai_of(GMV_DTYPE_B1, buffer->ptr, 8, 0), &mask, rows[i].kind);
        cr_assert_eq(gmv_bools_to_mask(&f.operation, &view->node, NULL, &result, &f.err), GMV_OK);
        expect_mask(result.mask, "\xc9", 1); /* 11110111 reversed and 10110011 */
        cr_assert_eq(result.null_count, 4, "row %zu", i);
    }
}

Test(mask, a_strided_view_with_a_strided_mask_is_gathered_twice)
{
    static const unsigned char bytes[] = {1, 9, 0, 9, 1, 9, 1, 9, 1, 9, 1, 9, 0, 9, 1, 9};
    gmv_buffer *buffer = fixture_buffer(&f, bytes, sizeof bytes);
    gmv_cai mask = cai_of(GMV_DTYPE_B1, buffer->ptr + 8, 4, 2); /* 1 1 0 1 */
    gmv_view *view = view_create(cai_of(GMV_DTYPE_B1, buffer->ptr, 4, 2), &mask, GMV_MASK_NONE);
    gmv_mask_result result;
    cr_assert_eq(gmv_bools_to_mask(&f.operation, &view->node, NULL, &result, &f.err), GMV_OK);
    expect_mask(result.mask, "\x09", 1); /* 1 0 1 1 and 1 1 0 1 */
    cr_assert_eq(result.null_count, 2);
}

/* PR-CAI-02 */
Test(mask, an_empty_view_at_address_0_makes_an_empty_mask)
{
    gmv_mask_result result;
    gmv_column *column = NULL;
    gmv_view *bools = view_create(cai_of(GMV_DTYPE_B1, 0, 0, 0), NULL, GMV_MASK_NONE);
    gmv_view *floats = view_create(cai_of(GMV_DTYPE_F8, 0, 0, 0), NULL, GMV_MASK_NONE);
    cr_assert_eq(gmv_bools_to_mask(&f.operation, &bools->node, NULL, &result, &f.err), GMV_OK);
    BYTES(result.mask, "");
    cr_assert_eq(result.null_count, 0);
    cr_assert_eq(result.mask->buffer->nbytes, 0);
    cr_assert_eq(gmv_column_nans_to_nulls(&f.operation, &floats->node, NULL, &column, &f.err),
                 GMV_OK);
    cr_assert_eq(column->size, 0);
    cr_assert_not(gmv_column_is_nullable(column));
}

/* PR-MSK-06 */
Test(mask, padding_is_zero_whatever_the_memory_held_before)
{
    unsigned char dirt[64];
    gmv_mask_result result;
    memset(dirt, 0xff, sizeof dirt);
    for (int round = 0; round < 8; round++) {
        gmv_id dirty = bits_of(dirt, sizeof dirt)->node.id;
        fixture_next(&f);
        cr_assert(fixture_delete(&f, &dirty, GMV_IF_HELD_CASCADE, NULL));
        gmv_view *view = fixture_view_of(&f, GMV_DTYPE_B1, "\1\1\1\1\1", 5);
        cr_assert_eq(gmv_bools_to_mask(&f.operation, &view->node, NULL, &result, &f.err), GMV_OK);
        expect_mask(result.mask, "\x1f", 1);
        cr_assert_eq(nulls_in(result.mask, 0, 5), 0);
    }
}

Test(mask, exportable_results_are_allocations_of_their_own_and_labels_go_to_the_view)
{
    gmv_creation creation = {.label = "m", .label_length = 1, .exportable = true};
    gmv_mask_result result;
    gmv_view *view = fixture_view_of(&f, GMV_DTYPE_B1, "\1\0", 2);
    cr_assert_eq(gmv_bools_to_mask(&f.operation, &view->node, &creation, &result, &f.err), GMV_OK);
    cr_assert_eq(result.mask->buffer->memory->kind, GMV_MEMORY_EXPORTABLE);
    cr_assert_str_eq(result.mask->node.label, "m");
    cr_assert_null(result.mask->buffer->node.label);
    cr_assert_eq(gmv_bools_to_mask(&f.operation, &view->node, NULL, &result, &f.err), GMV_OK);
    cr_assert_eq(result.mask->buffer->memory->kind, GMV_MEMORY_ORDINARY);
}

/* ---- making and setting ---------------------------------------------------------------------- */

/* PR-MSK-07 */
Test(mask, fresh_masks_have_the_padded_size)
{
    static const int64_t sizes[] = {0, 1, 512, 513, 1024, 1025};
    static const int64_t want[] = {0, 64, 64, 128, 128, 192};
    for (size_t i = 0; i < 6; i++) {
        for (int state = GMV_MASK_UNALLOCATED; state <= GMV_MASK_ALL_NULL; state++) {
            gmv_view *made = NULL;
            cr_assert_eq(gmv_create_null_mask(&f.operation, 0, sizes[i], (gmv_mask_state)state,
                                              NULL, &made, &f.err),
                         GMV_OK);
            cr_assert_eq(made->nbytes, state == GMV_MASK_UNALLOCATED ? 0 : want[i]);
            if (made->nbytes > 0)
                cr_assert_eq(nulls_in(made, 0, made->nbytes * 8),
                             state == GMV_MASK_ALL_VALID ? 0 : made->nbytes * 8);
        }
    }
    gmv_view *made = NULL;
    static const int64_t bad[] = {-1, (int64_t)INT32_MAX + 1, INT64_MAX, INT64_MIN};
    for (size_t i = 0; i < 4; i++)
        fixture_expect(
            &f,
            gmv_create_null_mask(&f.operation, 0, bad[i], GMV_MASK_ALL_NULL, NULL, &made, &f.err),
            GMV_ERR_VALUE, "/size");
    fixture_expect(&f,
                   gmv_create_null_mask(&f.operation, 3, 1, GMV_MASK_ALL_NULL, NULL, &made, &f.err),
                   GMV_ERR_VALUE, "/device");
}

/* PR-MSK-11 */
Test(mask, setting_bits_keeps_their_neighbours)
{
    static const struct {
        gmv_bit_range range;
        gmv_status status;
        const char *pointer;
    } rows[] = {
        {{5, 3}, GMV_ERR_VALUE, "/end_bit"},
        {{30, 34}, GMV_ERR_OUT_OF_BOUNDS, "/end_bit"},
        {{-1, 2}, GMV_ERR_VALUE, "/begin_bit"},
    };
    gmv_view *bits = bits_of("\0\0\0\0", 4);
    cr_assert_eq(gmv_set_null_mask(&f.operation, bits, (gmv_bit_range){7, 7}, true, &f.err),
                 GMV_OK);
    BYTES(bits, "\0\0\0\0");
    cr_assert_eq(gmv_set_null_mask(&f.operation, bits, (gmv_bit_range){3, 5}, true, &f.err),
                 GMV_OK);
    BYTES(bits, "\x18\0\0\0");
    cr_assert_eq(gmv_set_null_mask(&f.operation, bits, (gmv_bit_range){4, 20}, false, &f.err),
                 GMV_OK);
    BYTES(bits, "\x08\0\0\0");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        fixture_expect(&f, gmv_set_null_mask(&f.operation, bits, rows[i].range, true, &f.err),
                       rows[i].status, rows[i].pointer);
    BYTES(bits, "\x08\0\0\0");
}

Test(mask, bits_of_a_readonly_view_are_not_set)
{
    gmv_cai cai = cai_of(GMV_DTYPE_U1, fixture_buffer(&f, "\0\0\0\0", 4)->ptr, 4, 0);
    cai.readonly = true;
    gmv_view *bits = view_create(cai, NULL, GMV_MASK_NONE);
    fixture_expect(&f, gmv_set_null_mask(&f.operation, bits, (gmv_bit_range){0, 9}, true, &f.err),
                   GMV_ERR_READONLY, "/bitmask");
    BYTES(bits, "\0\0\0\0");
}

/* PR-MSK-15 */
Test(mask, stray_bits_are_neither_copied_nor_counted)
{
    gmv_view *made = NULL;
    gmv_view *bits = bits_of("\xad", 1);
    cr_assert_eq(gmv_copy_bitmask(&f.operation, bits, (gmv_bit_range){0, 7}, NULL, &made, &f.err),
                 GMV_OK);
    expect_mask(made, "\x2d", 1);
    cr_assert_eq(nulls_in(bits, 0, 7), 3);
}

Test(mask, an_empty_range_copies_to_no_mask)
{
    gmv_view *made = NULL;
    gmv_view *bits = bits_of("\xad", 1);
    cr_assert_eq(gmv_copy_bitmask(&f.operation, bits, (gmv_bit_range){3, 3}, NULL, &made, &f.err),
                 GMV_OK);
    BYTES(made, "");
    cr_assert_not(made->node.inner);
    cr_assert(made->buffer->node.inner);
}

/* ---- columns --------------------------------------------------------------------------------- */

/* PR-MSK-02 */
Test(mask, the_mask_moves_with_the_offset_of_a_column)
{
    static const int32_t values[] = {1, 0, 3, 4, 5};
    gmv_view *data = fixture_view_of(&f, GMV_DTYPE_I4, values, sizeof values);
    gmv_column *column = column_of(GMV_CUDF_INT32, data, bits_of("\x1d", 1), 3, 2);
    gmv_view *made = NULL;
    gmv_column *bools = NULL;
    cr_assert_eq(gmv_copy_column_bitmask(&f.operation, column, NULL, &made, &f.err), GMV_OK);
    expect_mask(made, "\x07", 1);
    cr_assert_eq(gmv_mask_to_bools(&f.operation, made, (gmv_bit_range){0, 3}, NULL, &bools, &f.err),
                 GMV_OK);
    BYTES(bools->data, "\1\1\1");
    cr_assert_eq(column->null_count, 0);
}

Test(mask, the_mask_decides_and_not_the_count_of_long_ago)
{
    gmv_view *data = fixture_view_of(&f, GMV_DTYPE_B1, "\1\1\1\1", 4);
    gmv_view *bits = bits_of("\x0f", 1);
    gmv_column *column = column_of(GMV_CUDF_BOOL8, data, bits, 4, 0);
    gmv_mask_result result;
    cr_assert_eq(column->null_count, 0);
    cr_assert_eq(gmv_set_null_mask(&f.operation, bits, (gmv_bit_range){1, 3}, false, &f.err),
                 GMV_OK);
    cr_assert_eq(gmv_bools_to_mask(&f.operation, &column->node, NULL, &result, &f.err), GMV_OK);
    expect_mask(result.mask, "\x09", 1);
    cr_assert_eq(result.null_count, 2);
}

/* PR-MSK-12 */
Test(mask, combining_answers_the_mask_and_the_count_of_nulls)
{
    gmv_mask_result result;
    gmv_column *columns[] = {rows_with(bits_of("\xf0\xf0\xf0\xf0", 4), 10, 3),
                             rows_with(bits_of("\x33\x33\x33\x33", 4), 10, 6)};
    cr_assert_eq(
        gmv_combine_bitmasks(&f.operation, GMV_BITS_AND, columns, 2, NULL, &result, &f.err),
        GMV_OK);
    expect_mask(result.mask, "\x0c\x00", 2);
    cr_assert_eq(result.null_count, 8);
    cr_assert_eq(gmv_combine_bitmasks(&f.operation, GMV_BITS_OR, columns, 2, NULL, &result, &f.err),
                 GMV_OK);
    expect_mask(result.mask, "\xde\x02", 2);
    cr_assert_eq(result.null_count, 3);
}

Test(mask, combining_without_masks_answers_no_mask)
{
    gmv_view *bits = bits_of("\x05", 1);
    gmv_column *plain = rows_with(NULL, 5, 0);
    gmv_column *masked = rows_with(bits, 5, 0);
    gmv_column *no_rows = rows_with(bits, 0, 0);
    gmv_column *pair[] = {plain, plain};
    gmv_column *mixed[] = {plain, masked};
    gmv_column *empty[] = {no_rows};
    static const gmv_bits_operation kinds[] = {GMV_BITS_AND, GMV_BITS_OR};
    for (size_t k = 0; k < 2; k++) {
        gmv_mask_result result;
        struct {
            gmv_column **columns;
            size_t n;
        } rows[] = {{NULL, 0}, {pair, 2}, {empty, 1}};
        for (size_t i = 0; i < 3; i++) {
            cr_assert_eq(gmv_combine_bitmasks(&f.operation, kinds[k], rows[i].columns, rows[i].n,
                                              NULL, &result, &f.err),
                         GMV_OK);
            BYTES(result.mask, "");
            cr_assert_eq(result.null_count, 0);
        }
        cr_assert_eq(gmv_combine_bitmasks(&f.operation, kinds[k], mixed, 2, NULL, &result, &f.err),
                     GMV_OK);
        cr_assert_eq(result.mask->nbytes, kinds[k] == GMV_BITS_AND ? 64 : 0);
        cr_assert_eq(result.null_count, kinds[k] == GMV_BITS_AND ? 3 : 0);
    }
}

Test(mask, combined_columns_have_equal_sizes)
{
    gmv_mask_result result;
    gmv_column *columns[] = {rows_with(NULL, 10, 0), rows_with(NULL, 10, 0), rows_with(NULL, 9, 0)};
    fixture_expect(
        &f, gmv_combine_bitmasks(&f.operation, GMV_BITS_AND, columns, 3, NULL, &result, &f.err),
        GMV_ERR_VALUE, "/columns/2");
}

Test(mask_devices, combined_columns_lie_on_one_device, .fini = close_fixture)
{
    gmv_column *columns[2];
    gmv_mask_result result;
    fixture_open_with(&f, NULL, 2);
    for (int64_t i = 0; i < 2; i++) {
        gmv_view *bits = NULL;
        cr_assert_eq(
            gmv_create_null_mask(&f.operation, i, 10, GMV_MASK_ALL_VALID, NULL, &bits, &f.err),
            GMV_OK);
        columns[i] = column_of(GMV_CUDF_INT8, bits, bits, 10, 0);
    }
    fixture_expect(
        &f, gmv_combine_bitmasks(&f.operation, GMV_BITS_AND, columns, 2, NULL, &result, &f.err),
        GMV_ERR_VALUE, "/columns/1");
}

/* ---- counting and searching ------------------------------------------------------------------ */

/* PR-MSK-01 */
Test(mask, null_counts_of_columns_honour_the_offset)
{
    gmv_view *bits = bits_of("\xff\xcf\xef\xff\xff\xff\xff\xff", 8);
    cr_assert_eq(rows_with(bits, 40, 10)->null_count, 3);
    cr_assert_eq(rows_with(bits, 5, 10)->null_count, 2);
    cr_assert_eq(rows_with(bits, 15, 15)->null_count, 1);
}

/* PR-MSK-13 */
Test(mask, the_first_set_bit_is_relative_to_the_begin)
{
    static const struct {
        gmv_bit_range range;
        int64_t index;
    } rows[] = {{{64, 128}, 6}, {{0, 128}, 70}, {{71, 128}, 57}, {{0, 64}, 64}, {{70, 71}, 0}};
    unsigned char bytes[16] = {[8] = 0x40};
    gmv_view *bits = bits_of(bytes, sizeof bytes);
    int64_t index;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        cr_assert_eq(gmv_index_of_first_set_bit(&f.operation, bits, rows[i].range, &index, &f.err),
                     GMV_OK);
        cr_assert_eq(index, rows[i].index, "row %zu", i);
    }
    fixture_expect(
        &f, gmv_index_of_first_set_bit(&f.operation, bits, (gmv_bit_range){70, 70}, &index, &f.err),
        GMV_ERR_VALUE, "/end_bit");
}

/* PR-MSK-14 */
Test(mask, segments_say_which_of_them_is_wrong)
{
    static const struct {
        gmv_bit_range second;
        gmv_status status;
    } rows[] = {
        {{8, 0}, GMV_ERR_VALUE},          {{-1, 0}, GMV_ERR_INDEX}, {{-2, -3}, GMV_ERR_INDEX},
        {{0, 65}, GMV_ERR_OUT_OF_BOUNDS}, {{8, 8}, GMV_OK},
    };
    gmv_view *bits = bits_of("\xff\xff\xff\xff\xff\xff\xff\xfe", 8);
    int64_t counts[2] = {-1, -1};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        gmv_bit_range ranges[] = {{0, 64}, rows[i].second};
        fixture_expect(&f, gmv_segmented_null_count(&f.operation, bits, ranges, 2, counts, &f.err),
                       rows[i].status, rows[i].status == GMV_OK ? NULL : "/ranges/1");
    }
    cr_assert_eq(counts[0], 1);
    cr_assert_eq(counts[1], 0);
    cr_assert_eq(gmv_segmented_null_count(&f.operation, bits, NULL, 0, counts, &f.err), GMV_OK);
    gmv_bit_range reversed = {5, 3};
    fixture_expect(&f, gmv_segmented_null_count(&f.operation, NULL, &reversed, 1, counts, &f.err),
                   GMV_ERR_VALUE, "/ranges/0");
}

Test(mask, heavy_masks_are_left_to_the_bulk_lane_before_anything_is_made)
{
    gmv_view *made = NULL;
    fixture_state before = fixture_look(&f);
    fixture_end(&f);
    fixture_begin_lane(&f, GMV_LANE_SHORT);
    cr_assert_eq(
        gmv_create_null_mask(&f.operation, 0, INT32_MAX, GMV_MASK_ALL_VALID, NULL, &made, &f.err),
        GMV_MOVE_TO_BULK);
    fixture_state after = fixture_look(&f);
    fixture_expect_same(&before, &after, "a request that moves on");
}
