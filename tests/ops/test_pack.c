/* SPDX-License-Identifier: Apache-2.0 */
/* pack and contiguous_split: cuDF's bytes, the rows that went in, and what cannot be split. */
#include <fcntl.h>
#include <jansson.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ops/packed_support.h"

static const uint8_t zeros[4096];

/* ---- vectors ------------------------------------------------------------------------------ */

static int64_t int_of(const json_t *object, const char *key)
{
    json_t *value = json_object_get(object, key);
    cr_assert(json_is_integer(value), "%s", key);
    return json_integer_value(value);
}

static unsigned nibble(char c)
{
    return (unsigned)(c <= '9' ? c - '0' : c - 'a' + 10);
}

/* Bytes of a hexadecimal string; freed with free(). NULL for null. */
static uint8_t *bytes_of(const json_t *object, const char *key, size_t *out_nbytes)
{
    json_t *value = json_object_get(object, key);
    *out_nbytes = 0;
    if (json_is_null(value))
        return NULL;
    const char *text = json_string_value(value);
    cr_assert_not_null(text, "%s", key);
    *out_nbytes = strlen(text) / 2;
    uint8_t *bytes = malloc(*out_nbytes + 1);
    cr_assert_not_null(bytes);
    for (size_t i = 0; i < *out_nbytes; i++)
        bytes[i] = (uint8_t)(nibble(text[2 * i]) << 4 | nibble(text[2 * i + 1]));
    return bytes;
}

/* Any column of a vector, children and all. */
static gmv_column *vector_column(world *w, const json_t *vector)
{
    size_t data_nbytes, mask_nbytes, index;
    uint8_t *data = bytes_of(vector, "data_hex", &data_nbytes);
    uint8_t *mask = bytes_of(vector, "mask_hex", &mask_nbytes);
    json_t *children = json_object_get(vector, "children"), *child;
    gmv_column *made[8] = {NULL}, *column = NULL;
    cr_assert_leq(json_array_size(children), 8);
    json_array_foreach (children, index, child)
        made[index] = vector_column(w, child);
    const gmv_column_request request = {
        .type = {(int32_t)int_of(vector, "type_id"), (int32_t)int_of(vector, "scale")},
        .size = int_of(vector, "size"),
        .offset = int_of(vector, "offset"),
        .data = data ? world_view(w, data, data_nbytes) : NULL,
        .null_mask = mask ? world_view(w, mask, mask_nbytes) : NULL,
        .children = made,
        .n_children = json_array_size(children),
    };
    const gmv_status status = gmv_column_create(&w->operation, &request, NULL, &column, &w->err);
    cr_assert_eq(status, GMV_OK, "%s", w->err.message);
    free(data);
    free(mask);
    return column;
}

static gmv_table *vector_table(world *w, const json_t *vector)
{
    json_t *columns = json_object_get(vector, "columns");
    gmv_column *made[64];
    cr_assert_leq(json_array_size(columns), 64);
    size_t index;
    json_t *column;
    json_array_foreach (columns, index, column)
        made[index] = vector_column(w, column);
    gmv_table *table = NULL;
    const gmv_status status = gmv_table_create(&w->operation, made, json_array_size(columns), true,
                                               int_of(vector, "num_rows"), NULL, &table, &w->err);
    cr_assert_eq(status, GMV_OK, "%s", w->err.message);
    return table;
}

/* What gpu_data must be: the vector's bytes, zero where cuDF leaves them open. */
static uint8_t *expected_gpu_data(const json_t *expected, size_t *out_nbytes)
{
    uint8_t *bytes = bytes_of(expected, "gpu_data_hex", out_nbytes);
    size_t index;
    json_t *range;
    json_array_foreach (json_object_get(expected, "undefined"), index, range)
        memset(bytes + json_integer_value(json_array_get(range, 0)), 0,
               (size_t)json_integer_value(json_array_get(range, 1)));
    json_array_foreach (json_object_get(expected, "slack_bits"), index, range) {
        uint8_t *word = bytes + json_integer_value(json_array_get(range, 0));
        for (int64_t bit = json_integer_value(json_array_get(range, 1)); bit < 32; bit++)
            word[bit / 8] &= (uint8_t) ~(1u << bit % 8);
    }
    return bytes;
}

static void assert_metadata(const gmv_packed *packed, int32_t version, const json_t *expected,
                            const char *key)
{
    size_t nbytes, expected_nbytes;
    uint8_t *bytes = packed_encode(packed, version, &nbytes);
    uint8_t *expected_bytes = bytes_of(expected, key, &expected_nbytes);
    cr_assert_eq(nbytes, expected_nbytes, "%s: %zu bytes, not %zu", key, nbytes, expected_nbytes);
    cr_assert_eq(memcmp(bytes, expected_bytes, nbytes), 0, "%s", key);
    free(bytes);
    free(expected_bytes);
}

static void assert_partition(world *w, gmv_packed *packed, const json_t *expected)
{
    cr_assert_eq(packed->metadata.num_rows, int_of(expected, "num_rows"));
    assert_metadata(packed, GMV_PACKED_VERSION, expected, "metadata_hex");
    assert_metadata(packed, GMV_PACKED_HEADERLESS, expected, "metadata_legacy_hex");

    gmv_view *gpu_data = world_gpu_data(w, packed);
    cr_assert_eq(gpu_data->nbytes, int_of(expected, "gpu_data_size"));
    cr_assert_eq(packed->gpu_data_nbytes, gpu_data->nbytes);
    size_t nbytes;
    uint8_t *expected_bytes = expected_gpu_data(expected, &nbytes);
    uint8_t *bytes = world_read(w, gpu_data);
    cr_assert_eq(nbytes, (size_t)gpu_data->nbytes);
    for (size_t i = 0; i < nbytes; i++)
        cr_assert_eq(bytes[i], expected_bytes[i], "byte %zu is %02x, not %02x", i, bytes[i],
                     expected_bytes[i]);
    free(expected_bytes);
    free(bytes);
}

/* Through the handle, and through both layouts of the metadata. */
static void assert_round_trips(world *w, gmv_packed *packed)
{
    world_assert_packed_equal(w, packed, world_pack(w, world_unpack(w, packed)));
    for (int i = 0; i < 2; i++) {
        const int32_t version = i == 0 ? GMV_PACKED_VERSION : GMV_PACKED_HEADERLESS;
        if (version == GMV_PACKED_HEADERLESS && packed->metadata.num_columns == 0)
            continue; /* that layout does not know the rows */
        size_t nbytes;
        uint8_t *metadata = packed_encode(packed, version, &nbytes);
        gmv_table *table = NULL;
        const gmv_status status = gmv_unpack_from_memoryviews(
            &w->operation, metadata, nbytes, world_gpu_data(w, packed), NULL, &table, &w->err);
        cr_assert_eq(status, GMV_OK, "%s", w->err.message);
        free(metadata);
        world_assert_packed_equal(w, packed, world_pack(w, table));
    }
}

static bool has_strings(const gmv_packed *packed)
{
    for (size_t i = 0; i < packed->metadata.n_entries; i++)
        if (packed->metadata.entries[i].type_id == GMV_CUDF_STRING)
            return true;
    return false;
}

static void check_vector(world *w, const json_t *vector)
{
    gmv_table *table = vector_table(w, json_object_get(vector, "table"));
    json_t *splits_json = json_object_get(vector, "splits");
    json_t *expected = json_object_get(vector, "expected");
    int64_t splits[64];
    const size_t n_splits = json_array_size(splits_json);
    cr_assert_leq(n_splits, 64);
    for (size_t i = 0; i < n_splits; i++)
        splits[i] = json_integer_value(json_array_get(splits_json, i));

    size_t n = 0;
    gmv_packed **packed = world_split(w, table, splits, n_splits, &n);
    cr_assert_eq(n, json_array_size(expected));
    for (size_t i = 0; i < n; i++) {
        assert_partition(w, packed[i], json_array_get(expected, i));
        /* Without rows strings lose their offsets the second time. */
        if (packed[i]->metadata.num_rows > 0 || !has_strings(packed[i]))
            assert_round_trips(w, packed[i]);
    }
    if (n_splits == 0) {
        gmv_packed *whole = world_pack(w, table);
        int64_t nbytes = -1;
        cr_assert_eq(gmv_packed_size(&w->operation, table, &nbytes, &w->err), GMV_OK);
        cr_assert_eq(nbytes, int_of(vector, "packed_size"));
        cr_assert_eq(nbytes, world_gpu_data(w, whole)->nbytes);
        if (n == 1)
            world_assert_packed_equal(w, packed[0], whole);
    }
    gmv_free(packed);
}

Test(pack, tables_give_cudfs_bytes)
{
    world w;
    fixture_open(&w);
    json_t *vectors = load_vectors("packed_metadata.json");
    size_t index, n = 0;
    json_t *vector;
    json_array_foreach (vectors, index, vector) {
        check_vector(&w, vector);
        fixture_next(&w);
        n++;
    }
    cr_assert_eq(n, 62);
    json_decref(vectors);
    fixture_close(&w);
}

/* ---- errors ------------------------------------------------------------------------------- */

/* A table of n_columns INT32 columns of num_rows zeros. */
static gmv_table *zero_table(world *w, int64_t num_rows, size_t n_columns)
{
    gmv_column *columns[8];
    cr_assert_leq(n_columns, 8);
    for (size_t i = 0; i < n_columns; i++)
        columns[i] = world_column(w, GMV_CUDF_INT32, num_rows, 0, zeros, sizeof zeros, NULL, 0);
    gmv_table *table = NULL;
    cr_assert_eq(
        gmv_table_create(&w->operation, columns, n_columns, true, num_rows, NULL, &table, &w->err),
        GMV_OK, "%s", w->err.message);
    return table;
}

static gmv_status try_split(world *w, gmv_table *table, const int64_t *splits, size_t n_splits)
{
    gmv_packed **packed = NULL;
    size_t n = 0;
    gmv_error_init(&w->err);
    const gmv_status status =
        gmv_contiguous_split(&w->operation, table, splits, n_splits, NULL, &packed, &n, &w->err);
    gmv_free(packed);
    return status;
}

static void check_error_vector(world *w, const json_t *vector)
{
    int64_t splits[8];
    json_t *splits_json = json_object_get(vector, "splits");
    for (size_t i = 0; i < json_array_size(splits_json); i++)
        splits[i] = json_integer_value(json_array_get(splits_json, i));
    gmv_table *table =
        zero_table(w, int_of(vector, "num_rows"), (size_t)int_of(vector, "num_columns"));
    const char *python = json_string_value(json_object_get(vector, "python"));
    const census before = world_census(w);
    cr_assert_eq(try_split(w, table, splits, json_array_size(splits_json)),
                 strcmp(python, "IndexError") == 0 ? GMV_ERR_INDEX : GMV_ERR_VALUE, "%s",
                 json_string_value(json_object_get(vector, "name")));
    cr_assert_eq(strncmp(w->err.pointer, "/splits/", 8), 0);
    census_assert_equal(before, world_census(w));
}

Test(contiguous_split, what_cudf_refuses_is_refused_alike)
{
    world w;
    fixture_open(&w);
    json_t *vectors = load_vectors("packed_errors.json");
    size_t index, n = 0;
    json_t *vector;
    json_array_foreach (vectors, index, vector) {
        const char *op = json_string_value(json_object_get(vector, "op"));
        /* Types that cannot be packed: test_pack_nested.c. */
        if (strcmp(op, "contiguous_split") != 0 || json_object_get(vector, "column_type"))
            continue;
        check_error_vector(&w, vector);
        n++;
    }
    cr_assert_eq(n, 9);
    json_decref(vectors);
    fixture_close(&w);
}

Test(contiguous_split, the_first_fault_is_named_the_last_split_looked_at_first)
{
    static const struct {
        int64_t splits[4];
        size_t n_splits;
        gmv_status status;
        const char *pointer;
    } rows[] = {
        {{11, 12}, 2, GMV_ERR_INDEX, "/splits/1"},
        {{-1, 11}, 2, GMV_ERR_INDEX, "/splits/1"},
        {{5, 4}, 2, GMV_ERR_VALUE, "/splits/1"},
        {{-1, 4}, 2, GMV_ERR_VALUE, "/splits/0"},
        {{20, 5}, 2, GMV_ERR_INDEX, "/splits/0"},
        {{3, 11, 10}, 3, GMV_ERR_INDEX, "/splits/1"},
        {{3, 2, 11, 10}, 4, GMV_ERR_VALUE, "/splits/1"},
        {{INT64_MAX}, 1, GMV_ERR_INDEX, "/splits/0"},
        {{INT64_MIN}, 1, GMV_ERR_VALUE, "/splits/0"},
        {{0, 0, 10, 10}, 4, GMV_OK, ""},
    };
    world w;
    fixture_open(&w);
    gmv_table *table = zero_table(&w, 10, 2);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        cr_assert_eq(try_split(&w, table, rows[i].splits, rows[i].n_splits), rows[i].status,
                     "row %zu: %s", i, w.err.message);
        cr_assert_str_eq(w.err.has_pointer ? w.err.pointer : "", rows[i].pointer, "row %zu", i);
    }
    fixture_close(&w);
}

Test(contiguous_split, more_partitions_than_one_call_may_make_are_refused)
{
    world w;
    fixture_open(&w);
    gmv_table *table = zero_table(&w, 10, 0);
    const size_t n = 1u << 18;
    int64_t *splits = calloc(n, sizeof *splits);
    cr_assert_not_null(splits);
    const census before = world_census(&w);
    cr_assert_eq(try_split(&w, table, splits, n), GMV_ERR_VALUE);
    cr_assert_str_eq(w.err.pointer, "/splits");
    census_assert_equal(before, world_census(&w));
    free(splits);
    fixture_close(&w);
}

/* ---- numbers of partitions ---------------------------------------------------------------- */

Test(contiguous_split, there_is_one_partition_more_than_splits)
{
    static const struct {
        int64_t splits[6];
        size_t n_splits;
        int32_t num_rows[7];
    } rows[] = {
        {{0}, 0, {5}},
        {{0}, 1, {0, 5}},
        {{5}, 1, {5, 0}},
        {{2, 2}, 2, {2, 0, 3}},
        {{0, 0, 0, 5, 5, 5}, 6, {0, 0, 0, 5, 0, 0, 0}},
        {{1, 2, 3, 4}, 4, {1, 1, 1, 1, 1}},
    };
    world w;
    fixture_open(&w);
    gmv_table *table = zero_table(&w, 5, 3);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t n;
        gmv_packed **packed = world_split(&w, table, rows[i].splits, rows[i].n_splits, &n);
        cr_assert_eq(n, rows[i].n_splits + 1);
        for (size_t k = 0; k < n; k++) {
            cr_assert_eq(packed[k]->metadata.num_rows, rows[i].num_rows[k]);
            cr_assert_eq(packed[k]->metadata.num_columns, 3);
            gmv_table *part = world_unpack(&w, packed[k]);
            cr_assert_eq(part->num_rows, rows[i].num_rows[k]);
            cr_assert_eq(part->n_columns, 3);
        }
        gmv_free(packed);
    }
    fixture_close(&w);
}

Test(contiguous_split, no_columns_and_no_rows_give_no_partition_whatever_the_splits)
{
    static const int64_t wild[] = {7, -1, INT64_MAX};
    world w;
    fixture_open(&w);
    gmv_table *table = world_table(&w, NULL, 0);
    for (size_t n_splits = 0; n_splits <= 3; n_splits++) {
        size_t n = 99;
        gmv_packed **packed = world_split(&w, table, wild, n_splits, &n);
        cr_assert_eq(n, 0);
        gmv_free(packed);
    }
    fixture_close(&w);
}

Test(pack, no_columns_and_no_rows_give_one_handle_without_bytes)
{
    world w;
    fixture_open(&w);
    gmv_table *table = world_table(&w, NULL, 0);
    gmv_packed *packed = world_pack(&w, table);
    gmv_view *gpu_data = world_gpu_data(&w, packed);
    cr_assert_eq(gpu_data->nbytes, 0);
    cr_assert_not_null(gpu_data->buffer);
    cr_assert_eq(gpu_data->buffer->nbytes, 0);
    cr_assert_eq(gmv_packed_metadata_nbytes(&packed->metadata, GMV_PACKED_VERSION), 0);
    int64_t nbytes = -1;
    cr_assert_eq(gmv_packed_size(&w.operation, table, &nbytes, &w.err), GMV_OK);
    cr_assert_eq(nbytes, 0);
    gmv_table *unpacked = world_unpack(&w, packed);
    cr_assert_eq(unpacked->num_rows, 0);
    cr_assert_eq(unpacked->n_columns, 0);
    world_assert_packed_equal(&w, packed, world_pack(&w, unpacked));

    const gmv_id ids[] = {table->node.id, packed->node.id, unpacked->node.id};
    fixture_next(&w);
    for (size_t i = 0; i < 3; i++)
        cr_assert(world_look_up(&w, &ids[i]) == GMV_OK);
    fixture_close(&w);
}

Test(pack, rows_without_columns_survive)
{
    static const int64_t splits[] = {3};
    world w;
    fixture_open(&w);
    gmv_table *table = zero_table(&w, 7, 0);
    cr_assert_eq(world_unpack(&w, world_pack(&w, table))->num_rows, 7);
    size_t n;
    gmv_packed **packed = world_split(&w, table, splits, 1, &n);
    cr_assert_eq(n, 2);
    cr_assert_eq(world_unpack(&w, packed[0])->num_rows, 3);
    cr_assert_eq(world_unpack(&w, packed[1])->num_rows, 4);
    cr_assert_eq(world_gpu_data(&w, packed[1])->nbytes, 0);
    gmv_free(packed);
    fixture_close(&w);
}

Test(pack, a_table_of_no_rows_keeps_its_types_and_drops_its_masks)
{
    static const int64_t splits[] = {0, 0, 0, 0};
    world w;
    fixture_open(&w);
    gmv_view *data = world_view(&w, zeros, 64);
    gmv_column *const columns[] = {
        world_column(&w, GMV_CUDF_INT32, 0, 0, NULL, 0, NULL, 0),
        world_column(&w, GMV_CUDF_FLOAT64, 0, 3, zeros, 64, zeros, 1),
        world_column_over(&w, (gmv_cudf_type){GMV_CUDF_DECIMAL64, -4}, 0, 0, data, NULL),
    };
    gmv_table *table = world_table(&w, columns, 3);
    size_t n;
    gmv_packed **packed = world_split(&w, table, splits, 4, &n);
    cr_assert_eq(n, 5);
    for (size_t i = 0; i < n; i++) {
        cr_assert_eq(packed[i]->metadata.n_entries, 3);
        for (size_t k = 0; k < 3; k++) {
            const gmv_packed_entry *entry = &packed[i]->metadata.entries[k];
            cr_assert_eq(entry->size, 0);
            cr_assert_eq(entry->data_offset, -1);
            cr_assert_eq(entry->null_mask_offset, -1);
        }
        cr_assert_eq(world_gpu_data(&w, packed[i])->nbytes, 0);
        gmv_table *unpacked = world_unpack(&w, packed[i]);
        cr_assert_eq(unpacked->columns[0]->type.id, GMV_CUDF_INT32);
        cr_assert_eq(unpacked->columns[1]->type.id, GMV_CUDF_FLOAT64);
        cr_assert_eq(unpacked->columns[2]->type.id, GMV_CUDF_DECIMAL64);
        cr_assert_eq(unpacked->columns[2]->type.scale, -4);
        assert_round_trips(&w, packed[i]);
    }
    /* Without any memory at all, by memoryviews: no address is asked for. */
    size_t nbytes;
    uint8_t *metadata = packed_encode(packed[0], GMV_PACKED_VERSION, &nbytes);
    gmv_table *unpacked = NULL;
    cr_assert_eq(
        gmv_unpack_from_memoryviews(&w.operation, metadata, nbytes, NULL, NULL, &unpacked, &w.err),
        GMV_OK, "%s", w.err.message);
    cr_assert_eq(unpacked->n_columns, 3);
    free(metadata);
    gmv_free(packed);
    fixture_close(&w);
}

/* ---- values ------------------------------------------------------------------------------- */

Test(pack, a_sliced_column_takes_its_mask_along)
{
    static const int32_t values[] = {1, 0, 3, 4, 5};
    world w;
    fixture_open(&w);
    gmv_column *column = world_column(&w, GMV_CUDF_INT32, 3, 2, values, sizeof values, "\x1d", 1);
    gmv_packed *packed = world_pack(&w, world_table(&w, &column, 1));
    uint8_t *bytes = world_read(&w, world_gpu_data(&w, packed));
    cr_assert_eq(bytes[0], 0x07);
    cr_assert_eq(memcmp(bytes + 1, zeros, 63), 0);
    cr_assert_eq(memcmp(bytes + 64, values + 2, 12), 0);
    free(bytes);
    gmv_column *unpacked = world_unpack(&w, packed)->columns[0];
    cr_assert_eq(unpacked->size, 3);
    cr_assert_eq(unpacked->null_count, 0);
    cr_assert(gmv_column_is_nullable(unpacked));
    world_assert_rows_equal(&w, column, 0, unpacked, 0, 3);
    fixture_close(&w);
}

Test(contiguous_split, nulls_are_those_of_the_part_of_a_column_that_starts_late)
{
    static const uint8_t mask[] = {0xff, 0xcf, 0xef, 0xff, 0xff, 0xff, 0xff, 0xff};
    static const int64_t splits[] = {5, 20};
    world w;
    fixture_open(&w);
    gmv_column *column = world_column(&w, GMV_CUDF_INT8, 40, 10, zeros, 64, mask, sizeof mask);
    size_t n;
    gmv_packed **packed = world_split(&w, world_table(&w, &column, 1), splits, 2, &n);
    cr_assert_eq(n, 3);
    cr_assert_eq(packed[0]->metadata.entries[0].null_count, 2);
    cr_assert_eq(packed[1]->metadata.entries[0].null_count, 1);
    cr_assert_eq(packed[2]->metadata.entries[0].null_count, 0);
    cr_assert_eq(world_unpack(&w, packed[0])->columns[0]->null_count, 2);
    gmv_free(packed);
    fixture_close(&w);
}

Test(pack, null_counts_are_the_slices_own)
{
    static const struct {
        int64_t first, size;
        int32_t nulls;
    } rows[] = {{11, 9, 0}, {15, 21, 2}, {0, 100, 10}};
    uint8_t mask[13];
    memset(mask, 0xff, sizeof mask);
    for (int i = 0; i < 100; i += 10)
        mask[i / 8] &= (uint8_t) ~(1u << i % 8);
    world w;
    fixture_open(&w);
    for (size_t i = 0; i < 3; i++) {
        gmv_column *column = world_column(&w, GMV_CUDF_INT8, rows[i].size, rows[i].first, zeros,
                                          100, mask, sizeof mask);
        gmv_packed *packed = world_pack(&w, world_table(&w, &column, 1));
        cr_assert_eq(packed->metadata.entries[0].null_count, rows[i].nulls);
    }
    fixture_close(&w);
}

Test(pack, nulls_are_counted_again_when_the_mask_has_changed)
{
    world w;
    fixture_open(&w);
    gmv_column *column = world_column(&w, GMV_CUDF_INT8, 8, 0, zeros, 8, "\xff", 1);
    world_write(&w, column->null_mask, 0, 0x3e);
    gmv_packed *packed = world_pack(&w, world_table(&w, &column, 1));
    cr_assert_eq(packed->metadata.entries[0].null_count, 3);
    cr_assert_eq(column->null_count, 0);
    /* And so does unpacking, when gpu_data has been written to since. */
    world_write(&w, world_gpu_data(&w, packed), 0, 0xfe);
    cr_assert_eq(world_unpack(&w, packed)->columns[0]->null_count, 1);
    fixture_close(&w);
}

/* Five columns of different widths, one with a mask, in every order. */
static void permute(world *w, gmv_column **columns, size_t n, size_t fixed, size_t *count)
{
    if (fixed < n) {
        for (size_t i = fixed; i < n; i++) {
            gmv_column *kept = columns[fixed];
            columns[fixed] = columns[i];
            columns[i] = kept;
            permute(w, columns, n, fixed + 1, count);
            columns[i] = columns[fixed];
            columns[fixed] = kept;
        }
        return;
    }
    (*count)++;
    gmv_packed *packed = world_pack(w, world_table(w, columns, n));
    const int64_t nbytes = world_gpu_data(w, packed)->nbytes;
    cr_assert_eq(nbytes, 6 * 64);
    gmv_table *table = world_unpack(w, packed);
    int64_t end = 0;
    for (size_t i = 0; i < n; i++) {
        const gmv_packed_entry *entry = &packed->metadata.entries[i];
        cr_assert_eq(entry->data_offset % 64, 0);
        if (entry->null_mask_offset >= 0) {
            cr_assert_eq(entry->null_mask_offset, end);
            end += 64;
        }
        cr_assert_eq(entry->data_offset, end);
        end += 64;
        cr_assert_eq(table->columns[i]->null_count, columns[i]->null_count);
        world_assert_rows_equal(w, columns[i], 0, table->columns[i], 0, 3);
    }
    cr_assert_eq(end, nbytes);
}

Test(pack, columns_keep_their_places_in_any_order)
{
    world w;
    fixture_open(&w);
    const int32_t i4[] = {1, 2, 3};
    const double f8[] = {1.5, 2.5, 3.5};
    const int64_t i8[] = {-1, 0, 1};
    gmv_column *columns[] = {
        world_column(&w, GMV_CUDF_INT32, 3, 0, i4, sizeof i4, "\x05", 1),
        world_column(&w, GMV_CUDF_FLOAT64, 3, 0, f8, sizeof f8, NULL, 0),
        world_column(&w, GMV_CUDF_UINT8, 3, 0, "\x07\x08\x09", 3, NULL, 0),
        world_column(&w, GMV_CUDF_BOOL8, 3, 0, "\x01\x00\x01", 3, NULL, 0),
        world_column(&w, GMV_CUDF_INT64, 3, 0, i8, sizeof i8, NULL, 0),
    };
    size_t count = 0;
    permute(&w, columns, 5, 0, &count);
    cr_assert_eq(count, 120);
    fixture_close(&w);
}

Test(contiguous_split, a_byte_column_can_be_cut_at_every_row)
{
    uint8_t values[256], mask[32];
    for (size_t i = 0; i < 256; i++)
        values[i] = (uint8_t)(i * 7);
    for (size_t i = 0; i < 32; i++)
        mask[i] = (uint8_t)(i * 37 + 11);
    world w;
    fixture_open(&w);
    gmv_column *column =
        world_column(&w, GMV_CUDF_UINT8, 256, 0, values, sizeof values, mask, sizeof mask);
    gmv_table *table = world_table(&w, &column, 1);
    for (int64_t split = 0; split <= 256; split++) {
        size_t n;
        gmv_packed **packed = world_split(&w, table, &split, 1, &n);
        gmv_table *left = world_unpack(&w, packed[0]);
        gmv_table *right = world_unpack(&w, packed[1]);
        world_assert_rows_equal(&w, column, 0, left->columns[0], 0, split);
        world_assert_rows_equal(&w, column, split, right->columns[0], 0, 256 - split);
        cr_assert_eq(left->columns[0]->null_count + right->columns[0]->null_count,
                     column->null_count);
        gmv_free(packed);
    }
    fixture_close(&w);
}

Test(contiguous_split, many_rows_of_every_width_are_cut_where_asked)
{
    static const int64_t splits[] = {2,   16,  31,  35,  64,  97,   158,  190,
                                     638, 899, 900, 901, 996, 4200, 7131, 8111};
    static const int32_t types[] = {GMV_CUDF_INT8, GMV_CUDF_INT16, GMV_CUDF_FLOAT32, GMV_CUDF_INT64,
                                    GMV_CUDF_DECIMAL128};
    enum { N_ROWS = 10002, N_SPLITS = 16, N_TYPES = 5 };
    uint8_t *bytes = malloc((size_t)(N_ROWS + 47) * 16);
    uint8_t mask[(N_ROWS + 47) / 8 + 1];
    uint32_t seed = 12345;
    for (size_t i = 0; i < (size_t)(N_ROWS + 47) * 16; i++)
        bytes[i] = (uint8_t)((seed = seed * 1664525 + 1013904223) >> 24);
    for (size_t i = 0; i < sizeof mask; i++)
        mask[i] = (uint8_t)((seed = seed * 1664525 + 1013904223) >> 24);
    world w;
    fixture_open(&w);
    gmv_column *columns[N_TYPES];
    for (size_t i = 0; i < N_TYPES; i++)
        columns[i] = world_column(&w, types[i], N_ROWS, 47, bytes,
                                  (N_ROWS + 47) * gmv_cudf_type_width(types[i]), mask, sizeof mask);
    size_t n;
    gmv_packed **packed = world_split(&w, world_table(&w, columns, N_TYPES), splits, N_SPLITS, &n);
    int64_t nulls = 0;
    for (size_t i = 0; i < n; i++) {
        const int64_t begin = i > 0 ? splits[i - 1] : 0;
        const int64_t end = i < N_SPLITS ? splits[i] : N_ROWS;
        gmv_table *part = world_unpack(&w, packed[i]);
        for (size_t k = 0; k < N_TYPES; k++)
            world_assert_rows_equal(&w, columns[k], begin, part->columns[k], 0, end - begin);
        nulls += part->columns[0]->null_count;
    }
    cr_assert_eq(nulls, columns[0]->null_count);
    gmv_free(packed);
    free(bytes);
    fixture_close(&w);
}

Test(contiguous_split, validity_of_two_million_rows_adds_up)
{
    enum { N_ROWS = 2000000 };
    uint8_t *bytes = calloc(N_ROWS, 1);
    uint8_t *mask = malloc(N_ROWS / 8);
    uint32_t seed = 99;
    int64_t nulls = 0;
    for (size_t i = 0; i < N_ROWS / 8; i++) {
        mask[i] = (uint8_t)((seed = seed * 1664525 + 1013904223) >> 24);
        nulls += 8 - __builtin_popcount(mask[i]);
    }
    world w;
    fixture_open(&w);
    gmv_column *column =
        world_column(&w, GMV_CUDF_INT8, N_ROWS, 0, bytes, N_ROWS, mask, N_ROWS / 8);
    cr_assert_eq(column->null_count, nulls);
    const int64_t split = N_ROWS / 2 + 3;
    size_t n;
    gmv_packed **packed = world_split(&w, world_table(&w, &column, 1), &split, 1, &n);
    cr_assert_eq(packed[0]->metadata.entries[0].null_count +
                     packed[1]->metadata.entries[0].null_count,
                 nulls);
    gmv_free(packed);
    free(bytes);
    free(mask);
    fixture_close(&w);
}

/* ---- random tables ------------------------------------------------------------------------ */

static uint64_t random_state;

static uint64_t random_below(uint64_t n)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state % n;
}

static gmv_column *random_column(world *w, int64_t size)
{
    int32_t type;
    do
        type = (int32_t)random_below(GMV_CUDF_TYPE_COUNT);
    while (!gmv_cudf_type_is_fixed_width(type));
    const int64_t offset = (int64_t)random_below(80);
    const size_t data_nbytes = (size_t)(offset + size) * gmv_cudf_type_width(type);
    const size_t mask_nbytes = (size_t)(offset + size) / 8 + 1 + random_below(70);
    uint8_t *bytes = malloc(data_nbytes + mask_nbytes + 1);
    for (size_t i = 0; i < data_nbytes + mask_nbytes; i++)
        bytes[i] = (uint8_t)random_below(256);
    /* The mask starts anywhere in memory. */
    gmv_view *mask = NULL;
    if (random_below(3) > 0) {
        const uint64_t shift = random_below(8);
        const gmv_layout layout = gmv_layout_flat((int64_t)mask_nbytes);
        gmv_view *all = world_view(w, NULL, mask_nbytes + 8);
        mask = world_view_as(w, all, GMV_DTYPE_U1, &layout, shift, NULL, GMV_MASK_NONE);
        cr_assert_eq(
            gmv_copy_in(w->streams[0], mask->ptr, bytes + data_nbytes, mask_nbytes, &w->err),
            GMV_OK);
    }
    gmv_view *data = world_view(w, bytes, data_nbytes);
    free(bytes);
    const gmv_cudf_type type_and_scale = {
        type, gmv_cudf_type_is_decimal(type) ? (int32_t)random_below(20) - 10 : 0};
    return world_column_over(w, type_and_scale, size, offset, data, mask);
}

static int compare_splits(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void check_random_table(world *w)
{
    const int64_t num_rows = (int64_t)random_below(random_below(4) == 0 ? 3 : 700);
    gmv_column *columns[6];
    const size_t n_columns = 1 + random_below(6);
    for (size_t i = 0; i < n_columns; i++)
        columns[i] = random_column(w, num_rows);
    int64_t splits[5];
    const size_t n_splits = random_below(6);
    for (size_t i = 0; i < n_splits; i++)
        splits[i] = (int64_t)random_below((uint64_t)num_rows + 1);
    qsort(splits, n_splits, sizeof splits[0], compare_splits);

    size_t n;
    gmv_packed **packed = world_split(w, world_table(w, columns, n_columns), splits, n_splits, &n);
    for (size_t i = 0; i < n; i++) {
        const int64_t begin = i > 0 ? splits[i - 1] : 0;
        const int64_t end = i < n_splits ? splits[i] : num_rows;
        gmv_table *part = world_unpack(w, packed[i]);
        cr_assert_eq(part->num_rows, end - begin);
        for (size_t k = 0; k < n_columns; k++) {
            world_assert_rows_equal(w, columns[k], begin, part->columns[k], 0, end - begin);
            cr_assert_eq(gmv_column_is_nullable(part->columns[k]),
                         gmv_column_is_nullable(columns[k]) && end > begin);
        }
        assert_round_trips(w, packed[i]);
    }
    gmv_free(packed);
}

Test(contiguous_split, random_tables_come_back_as_they_were)
{
    world w;
    fixture_open(&w);
    random_state = 0x9e3779b97f4a7c15u;
    const census before = world_census(&w);
    for (int i = 0; i < 300; i++) {
        check_random_table(&w);
        fixture_next(&w);
    }
    cr_assert_gt(world_census(&w).named, before.named);
    fixture_close(&w);
}

/* ---- failures ----------------------------------------------------------------------------- */

static gmv_status chaos_split(world *w, void *context)
{
    static const int64_t splits[] = {2, 2, 5};
    gmv_node *node = NULL;
    GMV_TRY(gmv_operation_get(&w->operation, (const gmv_id *)context, GMV_KIND_TABLE, NULL, &node,
                              &w->err));
    const gmv_creation creation = {.label = "chaos", .label_length = 5, .exportable = true};
    gmv_packed **packed = NULL;
    size_t n = 0;
    GMV_TRY(gmv_contiguous_split(&w->operation, gmv_table_of(node), splits, 3, &creation, &packed,
                                 &n, &w->err));
    for (size_t i = 0; i < n; i++) {
        cr_assert_str_eq(packed[i]->node.label, "chaos");
        world_delete(w, &packed[i]->node.id, GMV_IF_HELD_KEEP);
    }
    gmv_free(packed);
    return GMV_OK;
}

Test(contiguous_split, no_failure_leaves_anything_behind)
{
    world w;
    fixture_open(&w);
    gmv_column *const columns[] = {
        world_column(&w, GMV_CUDF_INT8, 8, 0, zeros, 8, "\x0f", 1),
        world_column(&w, GMV_CUDF_FLOAT64, 8, 1, zeros, 72, NULL, 0),
    };
    gmv_id id = world_table(&w, columns, 2)->node.id;
    world_run_chaos(&w, chaos_split, &id);
    fixture_close(&w);
}

/* A table of one INT8 column of `nbytes` zeros; its id survives the operation. */
static gmv_id big_table(world *w, size_t nbytes)
{
    gmv_view *data = world_view(w, NULL, nbytes);
    gmv_column *column =
        world_column_over(w, (gmv_cudf_type){GMV_CUDF_INT8, 0}, (int64_t)nbytes, 0, data, NULL);
    return world_table(w, &column, 1)->node.id;
}

static gmv_table *table_of(world *w, const gmv_id *id)
{
    gmv_node *node = NULL;
    cr_assert_eq(gmv_operation_get(&w->operation, id, GMV_KIND_TABLE, NULL, &node, &w->err), GMV_OK,
                 "%s", w->err.message);
    return gmv_table_of(node);
}

Test(pack, more_than_the_short_lane_takes_is_moved_to_the_bulk_lane)
{
    world w;
    fixture_open(&w);
    const gmv_id small = big_table(&w, GMV_BULK_NBYTES);
    const gmv_id big = big_table(&w, GMV_BULK_NBYTES + 1);
    fixture_end(&w);
    fixture_begin_lane(&w, GMV_LANE_SHORT);
    const census before = world_census(&w);
    gmv_packed *packed = NULL;
    cr_assert_eq(gmv_pack(&w.operation, table_of(&w, &big), NULL, &packed, &w.err),
                 GMV_MOVE_TO_BULK);
    census_assert_equal(before, world_census(&w));
    cr_assert_eq(gmv_pack(&w.operation, table_of(&w, &small), NULL, &packed, &w.err), GMV_OK);
    fixture_next(&w);
    cr_assert_eq(gmv_pack(&w.operation, table_of(&w, &big), NULL, &packed, &w.err), GMV_OK);
    fixture_close(&w);
}

Test(contiguous_split, more_handles_than_the_short_lane_makes_are_moved_to_the_bulk_lane)
{
    static const int64_t splits[400];
    world w;
    fixture_open(&w);
    const gmv_id id = big_table(&w, 64);
    fixture_end(&w);
    fixture_begin_lane(&w, GMV_LANE_SHORT);
    const census before = world_census(&w);
    cr_assert_eq(try_split(&w, table_of(&w, &id), splits, 400), GMV_MOVE_TO_BULK);
    census_assert_equal(before, world_census(&w));
    cr_assert_eq(try_split(&w, table_of(&w, &id), splits, 40), GMV_OK);
    fixture_next(&w);
    cr_assert_eq(try_split(&w, table_of(&w, &id), splits, 400), GMV_OK);
    fixture_close(&w);
}

Test(pack, every_limit_is_kept_and_nothing_is_half_made)
{
    static const int64_t splits[] = {1, 2, 3};
    static const gmv_limits limits[] = {
        {.max_device_nbytes = 4096 + 2 * 64},
        {.max_logical_nbytes = 4 * 64 - 1},
        {.max_handles = 4 + 3 * 2 + 2},
    };
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        world w;
        fixture_open_with(&w, &limits[i], 1);
        gmv_view *data = world_view(&w, zeros, sizeof zeros);
        gmv_column *column =
            world_column_over(&w, (gmv_cudf_type){GMV_CUDF_INT8, 0}, 4, 0, data, NULL);
        gmv_table *table = world_table(&w, &column, 1);
        const census before = world_census(&w);
        cr_assert_eq(try_split(&w, table, splits, 3), GMV_ERR_QUOTA_EXCEEDED, "limit %zu: %s", i,
                     w.err.message);
        census_assert_equal(before, world_census(&w));
        cr_assert_eq(try_split(&w, table, splits, 1), GMV_OK, "limit %zu: %s", i, w.err.message);
        fixture_close(&w);
    }
}

Test(pack, memory_that_its_exporter_cuts_short_makes_nothing)
{
    world w;
    fixture_open(&w);
    if (!fixture_is_host(&w)) {
        fixture_close(&w);
        cr_skip_test("POSIX shared memory is the host backend's");
    }
    char name[64];
    (void)snprintf(name, sizeof name, "/gmv-test-pack-%ld", (long)getpid());
    const int descriptor = shm_open(name, O_CREAT | O_EXCL | O_RDWR, 0600);
    cr_assert_geq(descriptor, 0);
    cr_assert_eq(ftruncate(descriptor, 1 << 20), 0);
    const gmv_import_shm request = {.name = name};
    gmv_buffer *buffer = NULL;
    cr_assert_eq(gmv_buffer_import_shm(&w.operation, &request, NULL, &buffer, &w.err), GMV_OK, "%s",
                 w.err.message);
    cr_assert_eq(shm_unlink(name), 0);
    gmv_view *mask = fixture_view(&w, &buffer->node, GMV_DTYPE_U1, 1 << 16, 0);
    gmv_view *data = fixture_view(&w, &buffer->node, GMV_DTYPE_U1, 1 << 19, 1 << 19);
    const gmv_cudf_type type = {GMV_CUDF_INT8, 0};
    gmv_column *column = world_column_over(&w, type, 1 << 19, 0, data, mask);
    cr_assert_eq(column->null_count, 1 << 19);
    gmv_table *table = world_table(&w, &column, 1);

    cr_assert_eq(ftruncate(descriptor, 0), 0);
    const census before = world_census(&w);
    gmv_packed *packed = NULL;
    cr_assert_eq(gmv_pack(&w.operation, table, NULL, &packed, &w.err), GMV_ERR_MEMORY_LOST);
    const gmv_column_request again = {.type = type, .size = 8, .data = data, .null_mask = mask};
    cr_assert_eq(gmv_column_create(&w.operation, &again, NULL, &column, &w.err),
                 GMV_ERR_MEMORY_LOST);
    gmv_column_rows rows;
    cr_assert_eq(gmv_column_read_rows(&w.operation, column, 0, 8, &rows, &w.err),
                 GMV_ERR_MEMORY_LOST);
    census_assert_equal(before, world_census(&w));
    cr_assert_eq(close(descriptor), 0);
    fixture_close(&w);
}

Test(pack, a_lost_device_makes_nothing)
{
    world w;
    fixture_open(&w);
    gmv_column *column = world_column(&w, GMV_CUDF_INT8, 8, 0, zeros, 8, "\x0f", 1);
    gmv_table *table = world_table(&w, &column, 1);
    gmv_packed *packed = world_pack(&w, table);
    gmv_device_mark_lost(w.engine.devices[0], "a test says so");
    gmv_packed *second = NULL;
    cr_assert_eq(gmv_pack(&w.operation, table, NULL, &second, &w.err), GMV_ERR_DEVICE_LOST);
    gmv_table *unpacked = NULL;
    cr_assert_eq(gmv_unpack(&w.operation, packed, NULL, &unpacked, &w.err), GMV_ERR_DEVICE_LOST);
    gmv_registry_counts counts;
    gmv_registry_count(w.engine.registry, &counts);
    cr_assert_eq(counts.alive[GMV_KIND_PACKED], 1);
    cr_assert_eq(counts.alive[GMV_KIND_TABLE], 1);
    fixture_close(&w);
}

Test(pack, a_table_on_the_second_device_is_packed_there)
{
    world w;
    fixture_open_with(&w, NULL, 2);
    gmv_result result;
    cr_assert_eq(gmv_result_prepare(&w.operation, w.engine.devices[1], 64, GMV_CONTENTS_ZEROED,
                                    NULL, false, &result, &w.err),
                 GMV_OK);
    gmv_node *const nodes[] = {&result.buffer->node, &result.view->node};
    cr_assert_eq(gmv_operation_reserve(&w.operation, 2, &w.err), GMV_OK);
    gmv_operation_publish(&w.operation, nodes, 2);
    gmv_column *column =
        world_column_over(&w, (gmv_cudf_type){GMV_CUDF_INT8, 0}, 8, 0, result.view, result.view);
    cr_assert_eq(column->device, 1);
    cr_assert_eq(column->null_count, 8);
    gmv_packed *packed = world_pack(&w, world_table(&w, &column, 1));
    cr_assert_eq(packed->device, 1);
    cr_assert_eq(world_gpu_data(&w, packed)->buffer->device, 1);
    cr_assert_eq(world_unpack(&w, packed)->columns[0]->null_count, 8);

    gmv_column *other = world_column(&w, GMV_CUDF_INT8, 8, 0, zeros, 8, NULL, 0);
    gmv_column *const columns[] = {column, other};
    gmv_table *table = NULL;
    fixture_expect(&w, gmv_table_create(&w.operation, columns, 2, false, 0, NULL, &table, &w.err),
                   GMV_ERR_VALUE, "/columns/1");
    const gmv_column_request request = {
        .type = {GMV_CUDF_INT8, 0}, .size = 8, .data = other->data, .null_mask = column->null_mask};
    fixture_expect(&w, gmv_column_create(&w.operation, &request, NULL, &other, &w.err),
                   GMV_ERR_VALUE, "/null_mask");
    fixture_close(&w);
}
