/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packed tables from the vectors, and what unpacked ones show: values are read straight from the
 * bytes that the columns' views point to.
 */
#ifndef GMV_TESTS_OPS_UNPACK_SUPPORT_H
#define GMV_TESTS_OPS_UNPACK_SUPPORT_H

#include <math.h>

#include "ops/packed_support.h"

/* A partition of a vector: its metadata and gpu_data as bytes. */
typedef struct parcel {
    uint8_t *metadata; /* freed with free(), as gpu_data */
    size_t metadata_nbytes;
    uint8_t *gpu_data;
    size_t gpu_data_nbytes;
} parcel;

static inline parcel parcel_of(const json_t *partition, const char *metadata_key)
{
    parcel made = {0};
    made.metadata = fixture_hex(json_string_value(json_object_get(partition, metadata_key)),
                                &made.metadata_nbytes);
    made.gpu_data = fixture_hex(json_string_value(json_object_get(partition, "gpu_data_hex")),
                                &made.gpu_data_nbytes);
    return made;
}

static inline void parcel_fini(parcel *p)
{
    free(p->metadata);
    free(p->gpu_data);
    *p = (parcel){0};
}

/* Partition `index` of the vector of that name; the reference is the caller's. */
static inline json_t *vector_partition(const char *name, size_t index)
{
    json_t *vectors = load_vectors("packed_metadata.json");
    json_t *found = NULL, *vector;
    size_t i;
    json_array_foreach (vectors, i, vector) {
        if (strcmp(json_string_value(json_object_get(vector, "name")), name) == 0)
            found = json_incref(json_array_get(json_object_get(vector, "expected"), index));
    }
    json_decref(vectors);
    cr_assert_not_null(found, "there is no vector %s with partition %zu", name, index);
    return found;
}

/* A named view over the parcel's gpu_data; NULL if there is none. */
static inline gmv_view *parcel_view(world *w, const parcel *p)
{
    return p->gpu_data_nbytes > 0 ? world_view(w, p->gpu_data, p->gpu_data_nbytes) : NULL;
}

static inline gmv_status parcel_unpack(world *w, const parcel *p, gmv_view *gpu_data,
                                       gmv_table **out_table)
{
    *out_table = NULL;
    gmv_error_init(&w->err);
    return gmv_unpack_from_memoryviews(&w->operation, p->metadata, p->metadata_nbytes, gpu_data,
                                       NULL, out_table, &w->err);
}

/* ---- reading columns ---------------------------------------------------------------------- */

/* Unpacked columns have offset 0 and lie in one gpu_data, of which `bytes` is a copy. */
typedef struct reading {
    const gmv_view *gpu_data;
    const uint8_t *bytes;
} reading;

static inline const uint8_t *reading_bytes(const reading *r, const gmv_view *view)
{
    cr_assert_geq(view->ptr, r->gpu_data->ptr);
    cr_assert_leq(view->ptr + (uint64_t)view->nbytes,
                  r->gpu_data->ptr + (uint64_t)r->gpu_data->nbytes);
    return r->bytes + (view->ptr - r->gpu_data->ptr);
}

static inline bool reading_is_valid(const reading *r, const gmv_column *column, int64_t row)
{
    if (!gmv_column_is_nullable(column))
        return true;
    cr_assert_leq(row / 8, column->null_mask->nbytes - 1);
    return reading_bytes(r, column->null_mask)[row / 8] >> row % 8 & 1;
}

static inline int64_t reading_offset(const reading *r, const gmv_column *column, int64_t i)
{
    const gmv_column *offsets = column->children[0];
    const size_t width = gmv_cudf_type_width(offsets->type.id);
    cr_assert_lt(i, offsets->size);
    const uint8_t *at = reading_bytes(r, offsets->data) + (size_t)i * width;
    int32_t narrow;
    int64_t wide;
    memcpy(&narrow, at, sizeof narrow);
    if (width == 4)
        return narrow;
    memcpy(&wide, at, sizeof wide);
    return wide;
}

static inline void reading_expect_float(double value, const json_t *want)
{
    if (json_is_number(want)) {
        cr_assert_eq(value, json_number_value(want));
        cr_assert_eq(signbit(value) != 0, signbit(json_number_value(want)) != 0);
        return;
    }
    const char *text = json_string_value(want);
    cr_assert(strcmp(text, "nan") == 0 ? isnan(value)
                                       : isinf(value) && (value < 0) == (text[0] == '-'));
}

static inline void reading_expect_integer(__int128 value, const json_t *want)
{
    char text[48];
    size_t at = sizeof text - 1;
    unsigned __int128 rest = value < 0 ? -(unsigned __int128)value : (unsigned __int128)value;
    text[at] = '\0';
    do
        text[--at] = (char)('0' + (int)(rest % 10));
    while ((rest /= 10) > 0);
    if (value < 0)
        text[--at] = '-';
    char number[32];
    (void)snprintf(number, sizeof number, "%lld", (long long)json_integer_value(want));
    cr_assert_str_eq(text + at, json_is_string(want) ? json_string_value(want) : number);
}

static inline void reading_expect_element(const reading *r, const gmv_column *column, int64_t row,
                                          const json_t *want)
{
    const int32_t type = column->type.id;
    const size_t width = gmv_cudf_type_width(type);
    cr_assert_leq((row + 1) * (int64_t)width, column->data->nbytes);
    const uint8_t *at = reading_bytes(r, column->data) + (size_t)row * width;
    if (type == GMV_CUDF_FLOAT32) {
        float value;
        memcpy(&value, at, sizeof value);
        reading_expect_float((double)value, want);
        return;
    }
    if (type == GMV_CUDF_FLOAT64) {
        double value;
        memcpy(&value, at, sizeof value);
        reading_expect_float(value, want);
        return;
    }
    const bool is_signed =
        (type < GMV_CUDF_UINT8 || type > GMV_CUDF_UINT64) && type != GMV_CUDF_BOOL8;
    __int128 value = is_signed && at[width - 1] & 0x80 ? -1 : 0;
    memcpy(&value, at, width);
    reading_expect_integer(value, want);
}

static inline void reading_expect_row(const reading *r, const gmv_column *column, int64_t row,
                                      const json_t *want);

static inline void reading_expect_string(const reading *r, int64_t begin, int64_t end,
                                         const gmv_column *column, const json_t *want)
{
    cr_assert_eq((size_t)(end - begin), json_string_length(want));
    if (begin == end)
        return;
    cr_assert_leq(end, column->data->nbytes);
    cr_assert_eq(memcmp(reading_bytes(r, column->data) + begin, json_string_value(want),
                        (size_t)(end - begin)),
                 0);
}

static inline void reading_expect_ranged(const reading *r, const gmv_column *column, int64_t row,
                                         const json_t *want)
{
    const int64_t begin = reading_offset(r, column, row);
    const int64_t end = reading_offset(r, column, row + 1);
    if (column->type.id == GMV_CUDF_STRING) {
        reading_expect_string(r, begin, end, column, want);
        return;
    }
    cr_assert_eq((size_t)(end - begin), json_array_size(want));
    for (int64_t i = begin; i < end; i++)
        reading_expect_row(r, column->children[1], i, json_array_get(want, (size_t)(i - begin)));
}

static inline void reading_expect_row(const reading *r, const gmv_column *column, int64_t row,
                                      const json_t *want)
{
    cr_assert_lt(row, column->size);
    cr_assert_eq(reading_is_valid(r, column, row), !json_is_null(want), "row %lld", (long long)row);
    if (json_is_null(want))
        return;
    switch (column->type.id) {
    case GMV_CUDF_STRING:
    case GMV_CUDF_LIST:
        reading_expect_ranged(r, column, row, want);
        break;
    case GMV_CUDF_STRUCT:
        cr_assert_eq(column->n_children, json_array_size(want));
        for (uint32_t i = 0; i < column->n_children; i++)
            reading_expect_row(r, column->children[i], row, json_array_get(want, i));
        break;
    default:
        reading_expect_element(r, column, row, want);
        break;
    }
}

/* ---- what must hold of any table that was let through -------------------------------------- */

static inline void reading_assert_sound(const reading *r, const gmv_column *column)
{
    int64_t null_count = 0;
    for (int64_t row = 0; row < column->size; row++)
        null_count += !reading_is_valid(r, column, row);
    cr_assert_eq(null_count, column->null_count);
    cr_assert_eq(column->offset, 0);
    if (gmv_cudf_type_is_fixed_width(column->type.id) && column->size > 0) {
        const int64_t width = (int64_t)gmv_cudf_type_width(column->type.id);
        cr_assert_eq(column->data->nbytes, column->size * width);
        cr_assert_eq(column->data->ptr % (uint64_t)width, 0);
        (void)reading_bytes(r, column->data);
    }
    const bool has_offsets =
        (column->type.id == GMV_CUDF_STRING || column->type.id == GMV_CUDF_LIST) &&
        column->n_children > 0 && column->children[0]->size > 0;
    if (has_offsets) {
        int64_t previous = 0;
        for (int64_t i = 0; i < column->children[0]->size; i++) {
            const int64_t offset = reading_offset(r, column, i);
            cr_assert(i > 0 ? offset >= previous : offset == 0);
            previous = offset;
        }
        const bool is_list = column->type.id == GMV_CUDF_LIST;
        cr_assert_eq(previous, is_list        ? column->children[1]->size
                               : column->data ? column->data->nbytes
                                              : 0);
        if (!is_list && column->data)
            (void)reading_bytes(r, column->data);
    }
    for (uint32_t i = 0; i < column->n_children; i++) {
        if (column->type.id == GMV_CUDF_STRUCT)
            cr_assert_eq(column->children[i]->size, column->size);
        reading_assert_sound(r, column->children[i]);
    }
}

#endif
