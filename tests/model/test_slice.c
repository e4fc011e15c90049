/* SPDX-License-Identifier: Apache-2.0 */
/* Slices resolve as Python's do: all cases of the vector file, and the edges by name. */
#include <criterion/criterion.h>

#include <gmv/model/slice.h>

#include "support/vectors.h"

#define SLICE_CASES_MIN 500

/* False if a member is neither an integer nor null, which the decoder refuses before us. */
static bool slice_member(const json_t *object, const char *key, bool *out_has, int64_t *out_value)
{
    const json_t *member = json_object_get(object, key);
    *out_has = json_is_integer(member);
    *out_value = json_integer_value(member);
    return *out_has || json_is_null(member);
}

static bool slice_build(const json_t *object, gmv_slice *out)
{
    *out = (gmv_slice){0};
    return slice_member(object, "start", &out->has_start, &out->start) &&
           slice_member(object, "stop", &out->has_stop, &out->stop) &&
           slice_member(object, "step", &out->has_step, &out->step);
}

static void slice_expect_case(const json_t *row)
{
    const char *name = vectors_text(row, "name");
    const json_t *expect = json_object_get(row, "expect");
    const char *kind = json_string_value(json_object_get(expect, "error_kind"));
    gmv_slice slice;
    if (!slice_build(row, &slice)) {
        cr_expect_str_eq(kind != NULL ? kind : "accepted", "type", "%s", name);
        return;
    }
    gmv_error err;
    gmv_error_init(&err);
    int64_t offset = -1;
    int64_t length = -1;
    gmv_status status =
        gmv_slice_resolve(&slice, vectors_int(row, "nbytes"), &offset, &length, &err);
    if (kind != NULL) {
        cr_expect_str_eq(kind, "value", "%s", name);
        cr_expect_eq(status, GMV_ERR_VALUE, "%s", name);
        cr_expect_str_eq(err.pointer, "/step", "%s", name);
        cr_expect_eq(offset, -1, "%s", name);
        return;
    }
    cr_expect_eq(status, GMV_OK, "%s", name);
    cr_expect_eq(offset, vectors_int(expect, "offset"), "%s", name);
    cr_expect_eq(length, vectors_int(expect, "length"), "%s", name);
}

Test(slice, every_case_of_the_vectors_resolves_as_python_does)
{
    json_t *rows = vectors_load("slices_int64.json");
    cr_assert_geq(json_array_size(rows), SLICE_CASES_MIN);
    size_t index;
    json_t *row;
    json_array_foreach (rows, index, row)
        slice_expect_case(row);
    json_decref(rows);
}

Test(slice, reversed_range_is_empty_at_the_clamped_start)
{
    const gmv_slice slice = {.has_start = true, .has_stop = true, .start = 5, .stop = 3};
    int64_t offset = -1;
    int64_t length = -1;
    cr_expect_eq(gmv_slice_resolve(&slice, 10, &offset, &length, NULL), GMV_OK);
    cr_expect_eq(offset, 5);
    cr_expect_eq(length, 0);
}

Test(slice, the_largest_numbers_clamp)
{
    static const int64_t bounds[] = {INT64_MIN, INT64_MIN + 1, -1, 0, 1, INT64_MAX - 1, INT64_MAX};
    static const int64_t sizes[] = {0, 1, 10, INT64_MAX};
    const size_t n = sizeof bounds / sizeof bounds[0];
    for (size_t i = 0; i < n * n * 4; i++) {
        const gmv_slice slice = {
            .has_start = true, .has_stop = true, .start = bounds[i % n], .stop = bounds[i / n % n]};
        int64_t nbytes = sizes[i / (n * n)];
        int64_t offset = -1;
        int64_t length = -1;
        cr_assert_eq(gmv_slice_resolve(&slice, nbytes, &offset, &length, NULL), GMV_OK);
        cr_expect(offset >= 0 && length >= 0 && offset <= nbytes && length <= nbytes - offset);
    }
}

Test(slice, a_null_step_and_a_step_of_1_are_the_same)
{
    const gmv_slice with = {.has_step = true, .step = 1};
    const gmv_slice without = {.has_step = false, .step = 7};
    int64_t offset = -1;
    int64_t length = -1;
    cr_expect_eq(gmv_slice_resolve(&with, 9, &offset, &length, NULL), GMV_OK);
    cr_expect(offset == 0 && length == 9);
    cr_expect_eq(gmv_slice_resolve(&without, 9, &offset, &length, NULL), GMV_OK);
    cr_expect(offset == 0 && length == 9);
}
