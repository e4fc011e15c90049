/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The vectors of tests/vectors/bitmask.json through the ops. Of cuDF's results only the bits that a
 * row owns are compared: every bit past them is 0 here, where cuDF leaves it open.
 */
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <jansson.h>

#include <gmv/ops/mask.h>

#include "ops/fixture.h"

static fixture f;
static const json_t *vector;
static const char *name;

/* ---- the vector ------------------------------------------------------------------------------ */

static int64_t number(const char *member)
{
    const json_t *value = json_object_get(vector, member);
    cr_assert(json_is_integer(value), "%s: %s", name, member);
    return json_integer_value(value);
}

static const char *text(const char *member)
{
    return json_string_value(json_object_get(vector, member));
}

static gmv_bit_range range(const char *begin, const char *end)
{
    return (gmv_bit_range){number(begin), number(end)};
}

static gmv_view *view_of_hex(const char *hex, gmv_dtype dtype)
{
    size_t nbytes;
    unsigned char *bytes = fixture_hex(hex, &nbytes);
    gmv_view *view = fixture_view_of(&f, dtype, bytes, nbytes);
    free(bytes);
    return view;
}

static gmv_view *mask(void)
{
    const char *hex = text("mask_hex");
    return hex ? view_of_hex(hex, GMV_DTYPE_U1) : NULL;
}

/* ---- comparing ------------------------------------------------------------------------------- */

/* True if the vector wants an error and this is it. */
static bool is_error(gmv_status status)
{
    const json_t *error = json_object_get(vector, "error");
    if (!error) {
        cr_assert_eq(status, GMV_OK, "%s: %s", name, f.err.message);
        return false;
    }
    const char *python = json_string_value(json_object_get(error, "python"));
    gmv_status want = strcmp(python, "IndexError") == 0 ? GMV_ERR_INDEX : GMV_ERR_VALUE;
    fixture_expect(&f, status, want, NULL);
    return true;
}

static bool bit(const unsigned char *bytes, int64_t i)
{
    return bytes[i / 8] >> (i % 8) & 1;
}

static void expect_mask(gmv_view *got, int64_t rows)
{
    size_t nbytes;
    unsigned char *want = fixture_hex(text("expected_hex"), &nbytes);
    unsigned char *bytes = malloc(nbytes + 1);
    cr_assert_not_null(bytes);
    cr_assert_eq(got->nbytes, (int64_t)nbytes, "%s", name);
    cr_assert_eq(got->dtype, GMV_DTYPE_U1);
    cr_assert(got->bare && !got->node.inner && got->buffer->node.inner);
    fixture_read(&f, got, bytes, nbytes);
    for (int64_t i = 0; i < (int64_t)nbytes * 8; i++)
        cr_assert_eq(bit(bytes, i), i < rows && bit(want, i), "%s: bit %lld", name, (long long)i);
    free(bytes);
    free(want);
}

static void expect_all_bytes(gmv_view *got)
{
    size_t nbytes;
    unsigned char *want = fixture_hex(text("expected_hex"), &nbytes);
    fixture_expect_bytes(&f, got, want, nbytes);
    free(want);
}

/* ---- columns --------------------------------------------------------------------------------- */

static gmv_column *column(int32_t type, gmv_view *data, gmv_view *null_mask, int64_t size,
                          int64_t offset)
{
    gmv_column *made = NULL;
    gmv_column_request request = {
        .type = {.id = type}, .size = size, .offset = offset, .data = data, .null_mask = null_mask};
    cr_assert_eq(gmv_column_create(&f.operation, &request, NULL, &made, &f.err), GMV_OK, "%s: %s",
                 name, f.err.message);
    return made;
}

static gmv_column *column_of_zeros(gmv_view *null_mask, int64_t size, int64_t offset)
{
    gmv_buffer *buffer = NULL;
    cr_assert_eq(gmv_buffer_allocate(&f.operation, 0, size + offset, false, NULL, &buffer, &f.err),
                 GMV_OK);
    gmv_view *data = fixture_view(&f, &buffer->node, GMV_DTYPE_I1, size + offset, 0);
    return column(GMV_CUDF_INT8, data, null_mask, size, offset);
}

/* ---- the verbs ------------------------------------------------------------------------------- */

static void run_allocation_size(void)
{
    int64_t nbytes;
    cr_assert_eq(gmv_bitmask_allocation_nbytes(number("num_bits"), 64, &nbytes, &f.err), GMV_OK);
    cr_assert_eq(nbytes, number("bytes"));
    cr_assert_eq(gmv_bitmask_words(number("num_bits")), number("words"));
}

static void run_create_null_mask(void)
{
    static const char *const states[] = {"UNALLOCATED", "UNINITIALIZED", "ALL_VALID", "ALL_NULL"};
    size_t state = 0;
    gmv_view *made = NULL;
    while (strcmp(states[state], text("state")) != 0)
        state++;
    cr_assert_eq(gmv_create_null_mask(&f.operation, 0, number("size"), (gmv_mask_state)state, NULL,
                                      &made, &f.err),
                 GMV_OK);
    size_t nbytes = (size_t)number("bytes");
    unsigned char *want = malloc(nbytes + 1);
    cr_assert_not_null(want);
    memset(want, state == GMV_MASK_ALL_VALID ? 0xff : 0, nbytes);
    fixture_expect_bytes(&f, made, want, nbytes);
    free(want);
}

/* The column, and where there is neither offset nor mask the bare view as well. */
static void run_values(int32_t type, bool floats)
{
    gmv_dtype dtype = GMV_DTYPE_U1;
    gmv_mask_result result;
    cr_assert(gmv_dtype_from_cudf(type, &dtype));
    gmv_view *data = view_of_hex(text("data_hex"), dtype);
    gmv_column *input = column(type, data, mask(), number("size"), number("offset"));
    gmv_node *inputs[] = {&input->node, &data->node};
    size_t n = number("offset") == 0 && !text("mask_hex") && data->size == number("size") ? 2 : 1;
    for (size_t i = 0; i < n; i++) {
        gmv_status status = floats
                                ? gmv_nans_to_nulls(&f.operation, inputs[i], NULL, &result, &f.err)
                                : gmv_bools_to_mask(&f.operation, inputs[i], NULL, &result, &f.err);
        cr_assert_eq(status, GMV_OK, "%s: %s", name, f.err.message);
        cr_assert_eq(result.null_count, number("null_count"), "%s", name);
        expect_mask(result.mask, number("size"));
    }
    if (!floats)
        return;
    gmv_column *copy = NULL;
    cr_assert_eq(gmv_column_nans_to_nulls(&f.operation, &input->node, NULL, &copy, &f.err), GMV_OK);
    cr_assert_eq(copy->null_count, number("null_count"), "%s", name);
    cr_assert_eq(copy->offset, 0);
    cr_assert_eq(copy->size, number("size"));
    cr_assert_eq(copy->type.id, type);
    int64_t width = (int64_t)gmv_cudf_type_width(type);
    unsigned char *bytes = malloc((size_t)(data->nbytes + 1));
    cr_assert_not_null(bytes);
    fixture_read(&f, data, bytes, (uint64_t)data->nbytes);
    fixture_expect_bytes(&f, copy->data, bytes + number("offset") * width,
                         (uint64_t)(number("size") * width));
    free(bytes);
}

static void run_bools_to_mask(void)
{
    run_values(GMV_CUDF_BOOL8, false);
}

static void run_nans_to_nulls(void)
{
    run_values(gmv_cudf_type_by_name(text("type"), strlen(text("type"))), true);
}

static void run_mask_to_bools(void)
{
    gmv_column *made = NULL;
    if (is_error(
            gmv_mask_to_bools(&f.operation, mask(), range("begin", "end"), NULL, &made, &f.err)))
        return;
    cr_assert_eq(made->type.id, GMV_CUDF_BOOL8);
    cr_assert_eq(made->size, number("end") - number("begin"));
    cr_assert_eq(made->null_count, 0);
    cr_assert_null(made->null_mask);
    expect_all_bytes(made->data);
}

static void run_copy_bitmask(void)
{
    gmv_view *made = NULL;
    if (is_error(
            gmv_copy_bitmask(&f.operation, mask(), range("begin", "end"), NULL, &made, &f.err)))
        return;
    expect_mask(made, number("end") - number("begin"));
}

static void run_copy_bitmask_column(void)
{
    gmv_view *made = NULL;
    gmv_column *from = column_of_zeros(mask(), number("size"), number("offset"));
    cr_assert_eq(gmv_copy_column_bitmask(&f.operation, from, NULL, &made, &f.err), GMV_OK);
    expect_mask(made, number("size"));
}

static void run_combine(gmv_bits_operation kind)
{
    enum { COLUMNS_MAX = 8 };
    const json_t *list = json_object_get(vector, "columns");
    size_t n = json_array_size(list);
    gmv_column *columns[COLUMNS_MAX];
    gmv_mask_result result;
    cr_assert_leq(n, COLUMNS_MAX);
    for (size_t i = 0; i < n; i++) {
        const json_t *entry = json_array_get(list, i);
        const char *hex = json_string_value(json_object_get(entry, "mask_hex"));
        columns[i] = column_of_zeros(hex ? view_of_hex(hex, GMV_DTYPE_U1) : NULL, number("size"),
                                     json_integer_value(json_object_get(entry, "offset")));
    }
    cr_assert_eq(gmv_combine_bitmasks(&f.operation, kind, columns, n, NULL, &result, &f.err),
                 GMV_OK);
    cr_assert_eq(result.null_count, number("null_count"), "%s", name);
    expect_mask(result.mask, number("size"));
}

static void run_bitmask_and(void)
{
    run_combine(GMV_BITS_AND);
}

static void run_bitmask_or(void)
{
    run_combine(GMV_BITS_OR);
}

static void run_null_count(void)
{
    int64_t nulls, valid;
    gmv_view *bitmask = mask();
    gmv_bit_range bits = range("start", "stop");
    bool failed = is_error(gmv_null_count(&f.operation, bitmask, bits, &nulls, &f.err));
    cr_assert_eq(is_error(gmv_valid_count(&f.operation, bitmask, bits, &valid, &f.err)), failed);
    if (failed)
        return;
    cr_assert_eq(nulls, number("null_count"), "%s", name);
    cr_assert_eq(valid, number("valid_count"), "%s", name);
}

static void run_segmented_count(void)
{
    enum { RANGES_MAX = 64 };
    const json_t *indices = json_object_get(vector, "indices");
    size_t n = json_array_size(indices) / 2;
    gmv_bit_range ranges[RANGES_MAX];
    int64_t counts[RANGES_MAX];
    if (json_array_size(indices) % 2 != 0)
        return; /* a range has two ends by its type; the reader of requests refuses an odd one */
    cr_assert_leq(n, RANGES_MAX);
    for (size_t i = 0; i < n; i++)
        ranges[i] = (gmv_bit_range){json_integer_value(json_array_get(indices, 2 * i)),
                                    json_integer_value(json_array_get(indices, 2 * i + 1))};
    if (is_error(gmv_segmented_null_count(&f.operation, mask(), ranges, n, counts, &f.err)))
        return;
    const json_t *want = json_object_get(vector, "null_counts");
    for (size_t i = 0; i < n; i++)
        cr_assert_eq(counts[i], json_integer_value(json_array_get(want, i)), "%s: range %zu", name,
                     i);
}

static void run_index_of_first_set_bit(void)
{
    int64_t index;
    if (is_error(gmv_index_of_first_set_bit(&f.operation, mask(), range("start", "stop"), &index,
                                            &f.err)))
        return;
    cr_assert_eq(index, number("expected"), "%s", name);
}

static void run_set_null_mask(void)
{
    gmv_view *bitmask = mask();
    bool valid = json_is_true(json_object_get(vector, "valid"));
    if (is_error(gmv_set_null_mask(&f.operation, bitmask, range("begin", "end"), valid, &f.err)))
        return;
    expect_all_bytes(bitmask);
}

static const struct {
    const char *op;
    void (*run)(void);
} verbs[] = {
    {"allocation_size", run_allocation_size},
    {"create_null_mask", run_create_null_mask},
    {"bools_to_mask", run_bools_to_mask},
    {"nans_to_nulls", run_nans_to_nulls},
    {"mask_to_bools", run_mask_to_bools},
    {"copy_bitmask", run_copy_bitmask},
    {"copy_bitmask_column", run_copy_bitmask_column},
    {"bitmask_and", run_bitmask_and},
    {"bitmask_or", run_bitmask_or},
    {"null_count", run_null_count},
    {"segmented_count", run_segmented_count},
    {"index_of_first_set_bit", run_index_of_first_set_bit},
    {"set_null_mask", run_set_null_mask},
};

ParameterizedTestParameters(mask_vectors, verb)
{
    static size_t indices[sizeof verbs / sizeof verbs[0]];
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++)
        indices[i] = i;
    return cr_make_param_array(size_t, indices, sizeof verbs / sizeof verbs[0]);
}

ParameterizedTest(size_t *index, mask_vectors, verb)
{
    size_t nbytes;
    char *json = fixture_vectors("bitmask.json", &nbytes);
    json_t *vectors = json_loadb(json, nbytes, 0, NULL);
    size_t run = 0;
    cr_assert_not_null(vectors);
    for (size_t i = 0; i < json_array_size(vectors); i++) {
        vector = json_array_get(vectors, i);
        name = text("name") ? text("name") : text("op");
        if (strcmp(text("op"), verbs[*index].op) != 0)
            continue;
        fixture_open(&f);
        verbs[*index].run();
        fixture_close(&f);
        run++;
    }
    cr_assert_geq(run, 5, "%s: only %zu vectors", verbs[*index].op, run);
    json_decref(vectors);
    free(json);
}
