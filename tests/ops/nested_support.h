/* SPDX-License-Identifier: Apache-2.0 */
/* Columns with children for the tests, in one line each. */
#ifndef GMV_TESTS_OPS_NESTED_SUPPORT_H
#define GMV_TESTS_OPS_NESTED_SUPPORT_H

#include "ops/packed_support.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* A column that must not be refused. */
static inline gmv_column *nested_create(world *w, const gmv_column_request *request)
{
    gmv_column *column = NULL;
    const gmv_status status = gmv_column_create(&w->operation, request, NULL, &column, &w->err);
    cr_assert_eq(status, GMV_OK, "%s at %s", w->err.message, w->err.pointer);
    return column;
}

/* One that must be refused, and leave nothing behind. */
static inline void nested_refuse(world *w, const gmv_column_request *request, gmv_status wanted,
                                 const char *pointer, const char *why)
{
    const census before = world_census(w);
    gmv_column *column = NULL;
    gmv_error_init(&w->err);
    const gmv_status status = gmv_column_create(&w->operation, request, NULL, &column, &w->err);
    cr_assert_eq(status, wanted, "%s: %d %s", why, (int)status, w->err.message);
    cr_assert_str_eq(w->err.has_pointer ? w->err.pointer : "none", pointer, "%s: %s", why,
                     w->err.message);
    cr_assert_null(column);
    census_assert_equal(before, world_census(w));
}

/* `n` elements without nulls. */
static inline gmv_column *nested_elements(world *w, int32_t type_id, const void *data, int64_t n)
{
    return world_column(w, type_id, n, 0, data, (size_t)n * gmv_cudf_type_width(type_id), NULL, 0);
}

#define NESTED_INT32(w, ...)                                               \
    nested_elements((w), GMV_CUDF_INT32, ((const int32_t[]){__VA_ARGS__}), \
                    (int64_t)COUNT_OF(((const int32_t[]){__VA_ARGS__})))
#define NESTED_INT64(w, ...)                                               \
    nested_elements((w), GMV_CUDF_INT64, ((const int64_t[]){__VA_ARGS__}), \
                    (int64_t)COUNT_OF(((const int64_t[]){__VA_ARGS__})))

/* A column of `type_id` over children; `mask` NULL: none. */
static inline gmv_column *nested_over(world *w, int32_t type_id, int64_t size, int64_t offset,
                                      gmv_view *data, gmv_view *mask, gmv_column *const *children,
                                      size_t n_children)
{
    const gmv_column_request request = {
        .type = {type_id, 0},
        .size = size,
        .offset = offset,
        .data = data,
        .null_mask = mask,
        .children = children,
        .n_children = n_children,
    };
    return nested_create(w, &request);
}

static inline gmv_column *nested_string(world *w, int64_t size, gmv_column *offsets,
                                        const char *characters)
{
    gmv_view *data = characters ? world_view(w, characters, strlen(characters)) : NULL;
    return nested_over(w, GMV_CUDF_STRING, size, 0, data, NULL, &offsets, 1);
}

static inline gmv_column *nested_list(world *w, int64_t size, gmv_column *offsets,
                                      gmv_column *elements)
{
    gmv_column *const children[] = {offsets, elements};
    return nested_over(w, GMV_CUDF_LIST, size, 0, NULL, NULL, children, 2);
}

#endif
