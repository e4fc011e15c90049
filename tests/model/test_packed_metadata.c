/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packed metadata: every vector is read and written back byte for byte in both layouts, every known
 * lie is refused with a message that names it, and no input makes the reader allocate, recurse or
 * leak beyond its bounds.
 */
#include <criterion/criterion.h>

#include <gmv/base/alloc.h>
#include <gmv/model/cudf_type.h>
#include <gmv/model/packed_metadata.h>

#include "support/vectors.h"

#define PARTITIONS_MIN 100

static gmv_status packed_try(const void *bytes, size_t nbytes, int64_t gpu_data_nbytes,
                             gmv_packed_metadata *out, gmv_error *err)
{
    *out = (gmv_packed_metadata){0};
    gmv_error_init(err);
    return gmv_packed_metadata_decode(bytes, nbytes, gpu_data_nbytes, out, err);
}

/* ---- vectors ---- */

static void packed_expect_encoded(const gmv_packed_metadata *metadata, int32_t version,
                                  const char *hex, const char *name)
{
    size_t expected_nbytes;
    unsigned char *expected = vectors_bytes(hex, &expected_nbytes);
    size_t nbytes = gmv_packed_metadata_nbytes(metadata, version);
    cr_assert_eq(nbytes, expected_nbytes, "%s in layout %d", name, (int)version);
    unsigned char *written = (unsigned char *)malloc(nbytes + 1);
    written[nbytes] = 0x5a;
    gmv_packed_metadata_encode(metadata, version, written);
    cr_expect_eq(memcmp(written, expected, nbytes), 0, "%s in layout %d", name, (int)version);
    cr_expect_eq(written[nbytes], 0x5a, "%s wrote past the end", name);
    free(written);
    free(expected);
}

static void packed_expect_entries(const gmv_packed_metadata *metadata, const json_t *entries,
                                  const char *name)
{
    cr_assert_eq(metadata->n_entries, json_array_size(entries), "%s", name);
    for (size_t i = 0; i < metadata->n_entries; i++) {
        const gmv_packed_entry *entry = &metadata->entries[i];
        const json_t *expected = json_array_get(entries, i);
        cr_expect_eq(entry->scale, vectors_int(expected, "scale"), "%s", name);
        cr_expect_eq(entry->size, vectors_int(expected, "size"), "%s", name);
        cr_expect_eq(entry->null_count, vectors_int(expected, "null_count"), "%s", name);
        cr_expect_eq(entry->data_offset, vectors_int(expected, "data_offset"), "%s", name);
        cr_expect_eq(entry->null_mask_offset, vectors_int(expected, "null_mask_offset"));
        cr_expect_eq(entry->num_children, vectors_int(expected, "num_children"), "%s", name);
    }
}

/* Reads `hex`, which must be of `version` (or empty), and writes it in that layout again. */
static void packed_expect_round_trip(const char *hex, int32_t version, int64_t gpu_data_nbytes,
                                     const char *name, gmv_packed_metadata *out)
{
    size_t nbytes;
    gmv_error err;
    unsigned char *bytes = vectors_bytes(hex, &nbytes);
    cr_assert_eq(packed_try(bytes, nbytes, gpu_data_nbytes, out, &err), GMV_OK, "%s: %s", name,
                 err.message);
    cr_expect_eq(out->version, nbytes == 0 ? GMV_PACKED_VERSION : version, "%s", name);
    packed_expect_encoded(out, version, hex, name);
    free(bytes);
}

static void packed_expect_shorter_data_is_refused(const char *hex, int64_t gpu_data_nbytes,
                                                  const char *name)
{
    size_t nbytes;
    gmv_error err;
    gmv_packed_metadata metadata;
    unsigned char *bytes = vectors_bytes(hex, &nbytes);
    cr_expect_eq(packed_try(bytes, nbytes, gpu_data_nbytes - 64, &metadata, &err),
                 GMV_ERR_METADATA_INVALID, "%s", name);
    cr_expect_eq(packed_try(bytes, nbytes, -1, &metadata, &err), GMV_OK, "%s", name);
    gmv_packed_metadata_fini(&metadata);
    free(bytes);
}

static void packed_expect_partition(const json_t *partition, const char *name)
{
    const char *hex = vectors_text(partition, "metadata_hex");
    const char *legacy_hex = vectors_text(partition, "metadata_legacy_hex");
    const json_t *chunked = json_object_get(partition, "metadata_chunked_hex");
    int64_t gpu_data_nbytes = vectors_int(partition, "gpu_data_size");
    gmv_packed_metadata metadata;

    packed_expect_round_trip(hex, GMV_PACKED_VERSION, gpu_data_nbytes, name, &metadata);
    cr_expect_eq(metadata.num_rows, vectors_int(partition, "num_rows"), "%s", name);
    packed_expect_entries(&metadata, json_object_get(partition, "entries"), name);
    packed_expect_encoded(&metadata, GMV_PACKED_HEADERLESS, legacy_hex, name);
    gmv_packed_metadata_fini(&metadata);

    packed_expect_round_trip(legacy_hex, GMV_PACKED_HEADERLESS, gpu_data_nbytes, name, &metadata);
    if (metadata.num_columns > 0)
        packed_expect_encoded(&metadata, GMV_PACKED_VERSION, hex, name);
    gmv_packed_metadata_fini(&metadata);

    if (json_is_string(chunked)) {
        packed_expect_round_trip(json_string_value(chunked), GMV_PACKED_VERSION, gpu_data_nbytes,
                                 name, &metadata);
        gmv_packed_metadata_fini(&metadata);
    }
    if (gpu_data_nbytes > 0)
        packed_expect_shorter_data_is_refused(hex, gpu_data_nbytes, name);
}

Test(packed_metadata, every_vector_comes_back_byte_for_byte_in_both_layouts)
{
    json_t *rows = vectors_load("packed_metadata.json");
    size_t index;
    size_t seen = 0;
    json_t *row;
    gmv_alloc_watch(1);
    json_array_foreach (rows, index, row) {
        size_t part;
        json_t *partition;
        json_array_foreach (json_object_get(row, "expected"), part, partition) {
            packed_expect_partition(partition, vectors_text(row, "name"));
            seen++;
        }
    }
    cr_expect_geq(seen, PARTITIONS_MIN);
    cr_expect_eq(gmv_alloc_live(), 0);
    gmv_alloc_watch(0);
    json_decref(rows);
}

Test(packed_metadata, every_known_error_is_refused)
{
    json_t *rows = vectors_load("packed_errors.json");
    size_t index;
    size_t seen = 0;
    json_t *row;
    json_array_foreach (rows, index, row) {
        size_t nbytes;
        gmv_error err;
        gmv_packed_metadata metadata;
        const char *name = vectors_text(row, "name");
        if (strcmp(vectors_text(row, "op"), "read_metadata") != 0)
            continue;
        /* These two are good here: the older layout is read, and nothing stands for nothing. */
        bool good = strcmp(name, "legacy_stub_layout") == 0 || strcmp(name, "empty") == 0;
        unsigned char *bytes = vectors_bytes(vectors_text(row, "metadata_hex"), &nbytes);
        gmv_status status = packed_try(bytes, nbytes, -1, &metadata, &err);
        cr_expect_eq(status, good ? GMV_OK : GMV_ERR_METADATA_INVALID, "%s: %s", name, err.message);
        if (status != GMV_OK)
            cr_expect_str_eq(err.pointer, "/metadata", "%s", name);
        gmv_packed_metadata_fini(&metadata);
        free(bytes);
        seen++;
    }
    cr_expect_geq(seen, 14);
    json_decref(rows);
}

/* ---- lies ---- */

#define NONE (-1)

/* Three rows of all kinds of columns; buffers lie in the order that packing gives them. */
static const gmv_packed_entry sample_entries[] = {
    /* type, scale, size, nulls, data, mask, children */
    {GMV_CUDF_INT32, 0, 3, 1, 64, 0, 0},     {GMV_CUDF_DECIMAL64, -2, 3, 0, 128, NONE, 0},
    {GMV_CUDF_STRING, 0, 3, 2, 256, 192, 1}, {GMV_CUDF_INT32, 0, 4, 0, 320, NONE, 0},
    {GMV_CUDF_LIST, 0, 3, 0, NONE, NONE, 2}, {GMV_CUDF_INT32, 0, 4, 0, 384, NONE, 0},
    {GMV_CUDF_INT16, 0, 9, 0, 448, NONE, 0}, {GMV_CUDF_STRUCT, 0, 3, 3, NONE, 512, 2},
    {GMV_CUDF_INT8, 0, 3, 0, 576, NONE, 0},  {GMV_CUDF_FLOAT64, 0, 3, 0, 640, NONE, 0},
};

#define SAMPLE_ENTRIES (sizeof sample_entries / sizeof sample_entries[0])
#define SAMPLE_COLUMNS 5
#define SAMPLE_ROWS    3
#define SAMPLE_DATA    704
#define SAMPLE_NBYTES  (GMV_PACKED_HEADER_NBYTES + SAMPLE_ENTRIES * GMV_PACKED_ENTRY_NBYTES)

static void packed_write_sample(unsigned char out[SAMPLE_NBYTES])
{
    gmv_packed_entry entries[SAMPLE_ENTRIES];
    memcpy(entries, sample_entries, sizeof entries);
    const gmv_packed_metadata metadata = {.version = GMV_PACKED_VERSION,
                                          .num_columns = SAMPLE_COLUMNS,
                                          .num_rows = SAMPLE_ROWS,
                                          .n_entries = SAMPLE_ENTRIES,
                                          .entries = entries};
    cr_assert_eq(gmv_packed_metadata_nbytes(&metadata, GMV_PACKED_VERSION), SAMPLE_NBYTES);
    gmv_packed_metadata_encode(&metadata, GMV_PACKED_VERSION, out);
}

/* Places within an entry, and its width in bytes. */
typedef enum field {
    TYPE = 0,
    SCALE = 4,
    SIZE = 8,
    NULLS = 12,
    DATA = 16,
    MASK = 24,
    CHILDREN = 32,
    PAD = 36
} field;

#define HEADER (-1) /* instead of an entry: the place is one of the header's */

static void packed_patch(unsigned char *bytes, int entry, field at, int64_t value)
{
    size_t base =
        entry == HEADER ? 0 : GMV_PACKED_HEADER_NBYTES + (size_t)entry * GMV_PACKED_ENTRY_NBYTES;
    size_t width = entry != HEADER && (at == DATA || at == MASK) ? 8 : 4;
    for (size_t i = 0; i < width; i++)
        bytes[base + (size_t)at + i] = (unsigned char)((uint64_t)value >> 8 * i);
}

typedef struct packed_lie_row {
    int entry;
    field at;
    int64_t value;
    const char *says; /* part of the message */
} packed_lie_row;

static const packed_lie_row packed_lies[] = {
    {HEADER, TYPE, 1, "version 1"},
    {HEADER, TYPE, 3, "version 3"},
    {HEADER, TYPE, -1, "version -1"},
    {HEADER, SCALE, -1, "column count is -1"},
    {HEADER, SCALE, 1000000, "column count is 1000000"},
    {HEADER, SCALE, 4, "entry 7: all columns are complete"},
    {HEADER, SCALE, 6, "end within a column"},
    {HEADER, SCALE, 0, "entry 0: all columns are complete"},
    {HEADER, SIZE, -1, "row count is -1"},
    {HEADER, SIZE, 4, "the table has 4 rows"},
    {HEADER, NULLS, 1, "header's last four bytes"},
    {0, TYPE, 29, "no type id 29"},
    {0, TYPE, -1, "no type id -1"},
    {0, TYPE, 999, "no type id 999"},
    {0, TYPE, GMV_CUDF_EMPTY, "EMPTY"},
    {0, TYPE, GMV_CUDF_DICTIONARY32, "DICTIONARY32"},
    {0, TYPE, GMV_CUDF_LIST, "LIST has no data of its own"},
    {0, TYPE, GMV_CUDF_DECIMAL128, NULL}, /* 48 bytes fit before the next buffer */
    {0, SCALE, 2, "INT32 has none"},
    {1, SCALE, INT32_MIN, NULL}, /* a decimal may have any scale */
    {0, SIZE, -1, "size is -1"},
    {0, SIZE, 2, "the table has 3 rows"},
    {0, SIZE, 2000000000, "do not fit"},
    {0, SIZE, INT32_MAX, "do not fit"},
    {0, NULLS, -1, "null_count is -1"},
    {0, NULLS, 4, "null_count is 4"},
    {0, NULLS, 3, NULL}, /* whether it is true, only the mask tells */
    {1, NULLS, 1, "there is no null mask"},
    {0, DATA, -1, "data_offset is -1"},
    {0, DATA, -2, "data_offset is -2"},
    {0, DATA, INT64_MIN, "it must be -1, or 0 or more"},
    {0, DATA, 66, "not a multiple of 4"},
    {0, DATA, 704, "do not fit"},
    {0, DATA, 696, "do not fit"},
    {0, DATA, INT64_MAX - 3, "do not fit"},
    {0, DATA, 0, "overlaps"},
    {0, DATA, 132, "overlaps"},
    {0, DATA, 692, NULL}, /* unusual, but inside and apart */
    {1, DATA, 132, "not a multiple of 8"},
    {2, DATA, 324, "overlaps"},
    {2, DATA, 705, "do not fit"},
    {2, DATA, 704, NULL}, /* no characters */
    {2, DATA, -1, NULL},
    {2, DATA, 257, NULL}, /* characters need no alignment */
    {0, MASK, -2, "null_mask_offset is -2"},
    {0, MASK, 2, "not a multiple of 4"},
    {0, MASK, 704, "do not fit"},
    {0, MASK, 1 << 30, "do not fit"},
    {0, MASK, 64, "overlaps"},
    {0, MASK, 700, NULL},
    {0, MASK, -1, "there is no null mask"},
    {4, DATA, 704, "LIST has no data of its own"},
    {7, DATA, 704, "STRUCT has no data of its own"},
    {0, CHILDREN, 1, "INT32 cannot have"},
    {0, CHILDREN, -1, "INT32 cannot have"},
    {2, CHILDREN, 0, "STRING cannot have"},
    {2, CHILDREN, 2, "STRING cannot have"},
    {4, CHILDREN, 1, "LIST cannot have"},
    {4, CHILDREN, 3, "LIST cannot have"},
    {4, CHILDREN, 0, "LIST cannot have"},
    {7, CHILDREN, -1, "STRUCT cannot have"},
    {7, CHILDREN, 3, "only 2 entries follow"},
    {7, CHILDREN, 1000000, "only 2 entries follow"},
    {7, CHILDREN, INT32_MAX, "only 2 entries follow"},
    {7, CHILDREN, 1, "entry 9: all columns are complete"},
    {3, TYPE, GMV_CUDF_INT64, NULL}, /* strings may have wide offsets */
    {3, TYPE, GMV_CUDF_UINT32, "cannot be UINT32"},
    {5, TYPE, GMV_CUDF_INT64, "cannot be INT64"},
    {3, SIZE, 3, "there are 3 offsets for 3 rows"},
    {3, SIZE, 5, "there are 5 offsets for 3 rows"},
    {3, SIZE, 0, "there are 0 offsets for 3 rows"},
    {5, SIZE, 0, "there are 0 offsets for 3 rows"},
    {8, SIZE, 2, "the struct around it has 3 rows"},
    {9, SIZE, 4, "the struct around it has 3 rows"},
    {0, PAD, 1, "entry 0: the last four bytes"},
    {9, PAD, INT32_MIN, "entry 9: the last four bytes"},
};

Test(packed_metadata, every_lie_is_told_apart_from_what_is_merely_unusual)
{
    for (size_t i = 0; i < sizeof packed_lies / sizeof packed_lies[0]; i++) {
        const packed_lie_row *row = &packed_lies[i];
        unsigned char bytes[SAMPLE_NBYTES];
        gmv_packed_metadata metadata;
        gmv_error err;
        packed_write_sample(bytes);
        packed_patch(bytes, row->entry, row->at, row->value);
        gmv_status status = packed_try(bytes, sizeof bytes, SAMPLE_DATA, &metadata, &err);
        cr_expect_eq(status, row->says == NULL ? GMV_OK : GMV_ERR_METADATA_INVALID, "row %zu: %s",
                     i, err.message);
        if (row->says != NULL) {
            cr_expect_not_null(strstr(err.message, row->says), "row %zu: '%s' is not in '%s'", i,
                               row->says, err.message);
            cr_expect_str_eq(err.pointer, "/metadata");
        }
        gmv_packed_metadata_fini(&metadata);
    }
}

Test(packed_metadata, offsets_that_are_null_are_refused)
{
    unsigned char bytes[SAMPLE_NBYTES];
    gmv_packed_metadata metadata;
    gmv_error err;
    packed_write_sample(bytes);
    packed_patch(bytes, 3, MASK, 700);
    packed_patch(bytes, 3, NULLS, 1);
    cr_expect_eq(packed_try(bytes, sizeof bytes, SAMPLE_DATA, &metadata, &err),
                 GMV_ERR_METADATA_INVALID);
    cr_expect_not_null(strstr(err.message, "offsets cannot be null"));
    /* A mask without nulls is refused, too: a table with it could not be packed again. */
    packed_patch(bytes, 3, NULLS, 0);
    cr_expect_eq(packed_try(bytes, sizeof bytes, SAMPLE_DATA, &metadata, &err),
                 GMV_ERR_METADATA_INVALID);
    cr_expect_not_null(strstr(err.message, "offsets have no null mask"));
}

Test(packed_metadata, no_cut_and_no_addition_is_read)
{
    unsigned char bytes[SAMPLE_NBYTES + 41] = {0};
    packed_write_sample(bytes);
    for (size_t nbytes = 1; nbytes <= sizeof bytes; nbytes++) {
        gmv_packed_metadata metadata;
        gmv_error err;
        unsigned char *exact = (unsigned char *)malloc(nbytes);
        memcpy(exact, bytes, nbytes);
        cr_expect_eq(packed_try(exact, nbytes, SAMPLE_DATA, &metadata, &err),
                     nbytes == SAMPLE_NBYTES ? GMV_OK : GMV_ERR_METADATA_INVALID, "%zu bytes",
                     nbytes);
        gmv_packed_metadata_fini(&metadata);
        free(exact);
    }
}

Test(packed_metadata, any_address_is_read)
{
    unsigned char bytes[SAMPLE_NBYTES + 8];
    for (size_t shift = 0; shift < 8; shift++) {
        gmv_packed_metadata metadata;
        gmv_error err;
        packed_write_sample(bytes + shift);
        cr_expect_eq(packed_try(bytes + shift, SAMPLE_NBYTES, SAMPLE_DATA, &metadata, &err),
                     GMV_OK);
        cr_expect_eq(metadata.num_columns, SAMPLE_COLUMNS);
        gmv_packed_metadata_fini(&metadata);
    }
}

Test(packed_metadata, empty_input_is_the_empty_table_if_there_is_no_data)
{
    gmv_packed_metadata metadata;
    gmv_error err;
    cr_expect_eq(packed_try(NULL, 0, 0, &metadata, &err), GMV_OK);
    cr_expect(metadata.num_columns == 0 && metadata.num_rows == 0 && metadata.n_entries == 0);
    cr_expect_eq(metadata.version, GMV_PACKED_VERSION);
    cr_expect_eq(packed_try(NULL, 0, -1, &metadata, &err), GMV_OK);
    cr_expect_eq(packed_try(NULL, 0, 1, &metadata, &err), GMV_ERR_METADATA_INVALID);
}

/* The entry that stands for the table: all but the column count is fixed. */
Test(packed_metadata, the_first_entry_of_the_headerless_layout_is_checked)
{
    static const struct {
        field at;
        int64_t value;
        bool good;
    } rows[] = {
        {SCALE, 1, false},    {SIZE, -1, false}, {SIZE, 2, false}, {NULLS, -1, true},
        {NULLS, -2, false},   {NULLS, 1, false}, {DATA, 0, false}, {MASK, 0, false},
        {CHILDREN, 1, false}, {PAD, 1, false},   {SIZE, 0, false}, {SIZE, 1, true},
    };
    gmv_packed_entry entry = {GMV_CUDF_INT8, 0, 3, 0, 0, NONE, 0};
    const gmv_packed_metadata one = {.num_columns = 1, .n_entries = 1, .entries = &entry};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        unsigned char bytes[80];
        gmv_packed_metadata metadata;
        gmv_error err;
        cr_assert_eq(gmv_packed_metadata_nbytes(&one, GMV_PACKED_HEADERLESS), sizeof bytes);
        gmv_packed_metadata_encode(&one, GMV_PACKED_HEADERLESS, bytes);
        size_t width = rows[i].at == DATA || rows[i].at == MASK ? 8 : 4;
        for (size_t j = 0; j < width; j++)
            bytes[(size_t)rows[i].at + j] = (unsigned char)((uint64_t)rows[i].value >> 8 * j);
        gmv_status status = packed_try(bytes, sizeof bytes, 64, &metadata, &err);
        cr_expect_eq(status == GMV_OK, rows[i].good, "row %zu: %s", i, err.message);
        if (status == GMV_OK)
            cr_expect_eq(metadata.num_rows, 3);
        gmv_packed_metadata_fini(&metadata);
    }
}

/* ---- what earlier releases wrote ---- */

/* Headerless bytes of `n` entries, the first `num_columns` trees being columns. */
static unsigned char *packed_write_old(const gmv_packed_entry *entries, size_t n,
                                       int32_t num_columns, int32_t stub_null_count,
                                       size_t *out_nbytes)
{
    gmv_packed_entry copy[8];
    cr_assert_leq(n, 8);
    memcpy(copy, entries, n * sizeof *entries);
    const gmv_packed_metadata metadata = {
        .num_columns = num_columns, .n_entries = n, .entries = copy};
    *out_nbytes = gmv_packed_metadata_nbytes(&metadata, GMV_PACKED_HEADERLESS);
    unsigned char *bytes = (unsigned char *)malloc(*out_nbytes);
    gmv_packed_metadata_encode(&metadata, GMV_PACKED_HEADERLESS, bytes);
    for (size_t i = 0; i < 4; i++)
        bytes[12 + i] = (unsigned char)((uint32_t)stub_null_count >> 8 * i);
    return bytes;
}

typedef struct packed_old_row {
    const char *name;
    size_t n;
    int32_t num_columns;
    gmv_packed_entry entries[5];
    int32_t stub_null_count;
    const char *says; /* NULL: read */
    int32_t types[5]; /* as read */
    size_t n_read;
} packed_old_row;

/* A row whose string has a third child that is not characters as they were. */
#define CHARACTERS(name, string_data, type, data, mask, says)  \
    {                                                          \
        name, 3, 1,                                            \
            {{GMV_CUDF_STRING, 0, 2, 0, string_data, NONE, 2}, \
             {GMV_CUDF_INT32, 0, 3, 0, 0, NONE, 0},            \
             {type, 0, 9, 0, data, mask, 0}},                  \
            0, says, {0}, 0                                    \
    }

static const packed_old_row packed_old_rows[] = {
    {"characters are joined with their string",
     3,
     1,
     {{GMV_CUDF_STRING, 0, 2, 0, NONE, NONE, 2},
      {GMV_CUDF_INT32, 0, 3, 0, 0, NONE, 0},
      {GMV_CUDF_INT8, 0, 9, 0, 64, NONE, 0}},
     0,
     NULL,
     {GMV_CUDF_STRING, GMV_CUDF_INT32},
     2},
    {"so they are within a list",
     5,
     1,
     {{GMV_CUDF_LIST, 0, 1, 0, NONE, NONE, 2},
      {GMV_CUDF_INT32, 0, 2, 0, 0, NONE, 0},
      {GMV_CUDF_STRING, 0, 2, 0, NONE, NONE, 2},
      {GMV_CUDF_INT32, 0, 3, 0, 64, NONE, 0},
      {GMV_CUDF_INT8, 0, 9, 0, 128, NONE, 0}},
     -1,
     NULL,
     {GMV_CUDF_LIST, GMV_CUDF_INT32, GMV_CUDF_STRING, GMV_CUDF_INT32},
     4},
    {"strings of no rows",
     3,
     1,
     {{GMV_CUDF_STRING, 0, 0, 0, NONE, NONE, 2},
      {GMV_CUDF_INT32, 0, 0, 0, NONE, NONE, 0},
      {GMV_CUDF_INT8, 0, 0, 0, NONE, NONE, 0}},
     0,
     NULL,
     {GMV_CUDF_STRING, GMV_CUDF_INT32},
     2},
    {"characters without offsets",
     3,
     1,
     {{GMV_CUDF_STRING, 0, 0, 0, NONE, NONE, 2},
      {GMV_CUDF_INT32, 0, 0, 0, NONE, NONE, 0},
      {GMV_CUDF_INT8, 0, 1, 0, 0, NONE, 0}},
     0,
     "entry 2: size is 1, but the STRING around it has no offsets",
     {0},
     0},
    CHARACTERS("characters in two places", 128, GMV_CUDF_INT8, 64, NONE,
               "the characters are a child, but the string around them has data_offset 128"),
    CHARACTERS("characters that are no bytes", NONE, GMV_CUDF_INT16, 64, NONE,
               "entry 2: characters cannot be INT16"),
    CHARACTERS("characters with a mask", NONE, GMV_CUDF_INT8, 64, 128,
               "entry 2: characters have no null mask"),
    CHARACTERS("characters over other data", NONE, GMV_CUDF_INT8, 8, NONE, "overlaps"),
    {"id 27 with children is a struct in old releases",
     2,
     1,
     {{27, 0, 3, 0, NONE, NONE, 1}, {GMV_CUDF_INT8, 0, 3, 0, 0, NONE, 0}},
     -1,
     NULL,
     {GMV_CUDF_STRUCT, GMV_CUDF_INT8},
     2},
    {"and decides for one that may be either",
     3,
     2,
     {{27, 0, 0, 0, NONE, NONE, 0},
      {27, 0, 0, 0, NONE, NONE, 1},
      {GMV_CUDF_INT8, 0, 0, 0, NONE, NONE, 0}},
     -1,
     NULL,
     {GMV_CUDF_STRUCT, GMV_CUDF_STRUCT, GMV_CUDF_INT8},
     3},
    {"id 27 with rows and no data is a struct without fields",
     1,
     1,
     {{27, 0, 3, 0, NONE, NONE, 0}},
     -1,
     NULL,
     {GMV_CUDF_STRUCT},
     1},
    {"from 23.06 on id 27 has no children",
     2,
     1,
     {{27, 0, 3, 0, NONE, NONE, 1}, {GMV_CUDF_INT8, 0, 3, 0, 0, NONE, 0}},
     0,
     "data_offset is -1, but there are 3 rows of DECIMAL128",
     {0},
     0},
    {"id 27 with data is a decimal",
     1,
     1,
     {{27, -2, 3, 0, 0, NONE, 0}},
     -1,
     NULL,
     {GMV_CUDF_DECIMAL128},
     1},
    {"and decides, too",
     2,
     2,
     {{27, -2, 0, 0, NONE, NONE, 0}, {27, 0, 0, 0, NONE, NONE, 0}},
     -1,
     NULL,
     {GMV_CUDF_DECIMAL128, GMV_CUDF_DECIMAL128},
     2},
    {"a struct of id 28 beside it decides, too",
     2,
     2,
     {{27, 0, 0, 0, NONE, NONE, 0}, {GMV_CUDF_STRUCT, 0, 0, 0, NONE, NONE, 0}},
     -1,
     NULL,
     {GMV_CUDF_DECIMAL128, GMV_CUDF_STRUCT},
     2},
    {"two releases at once",
     3,
     2,
     {{27, 0, 3, 0, NONE, NONE, 1},
      {GMV_CUDF_INT8, 0, 3, 0, 0, NONE, 0},
      {27, 0, 3, 0, 64, NONE, 0}},
     -1,
     "entry 0: type id 27 is STRUCT here, as up to release 21.10, but entry 2 is of a later "
     "release",
     {0},
     0},
    {"nothing tells which",
     2,
     2,
     {{GMV_CUDF_INT8, 0, 0, 0, NONE, NONE, 0}, {27, 0, 0, 0, NONE, NONE, 0}},
     -1,
     "entry 1: type id 27 is STRUCT up to release 21.10 and DECIMAL128 later",
     {0},
     0},
    {"the release tells which",
     1,
     1,
     {{27, 0, 0, 0, NONE, NONE, 0}},
     0,
     NULL,
     {GMV_CUDF_DECIMAL128},
     1},
};

static void packed_expect_old(const packed_old_row *row)
{
    size_t nbytes;
    gmv_packed_metadata read, again;
    gmv_error err;
    unsigned char *bytes =
        packed_write_old(row->entries, row->n, row->num_columns, row->stub_null_count, &nbytes);
    gmv_status status = packed_try(bytes, nbytes, 256, &read, &err);
    free(bytes);
    cr_expect_eq(status, row->says ? GMV_ERR_METADATA_INVALID : GMV_OK, "%s: %s", row->name,
                 err.message);
    if (row->says) {
        cr_expect_not_null(strstr(err.message, row->says), "%s: '%s'", row->name, err.message);
        return;
    }
    cr_assert_eq(read.n_entries, row->n_read, "%s", row->name);
    for (size_t i = 0; i < row->n_read; i++) {
        cr_expect_eq(read.entries[i].type_id, row->types[i], "%s", row->name);
        if (read.entries[i].type_id == GMV_CUDF_STRING)
            cr_expect_leq(read.entries[i].num_children, 1, "%s", row->name);
    }
    /* What was read is as a later release would have written it, in both layouts. */
    for (int32_t version = 0; version <= GMV_PACKED_VERSION; version += GMV_PACKED_VERSION) {
        unsigned char written[16 + 40 * 6];
        nbytes = gmv_packed_metadata_nbytes(&read, version);
        cr_assert_leq(nbytes, sizeof written);
        gmv_packed_metadata_encode(&read, version, written);
        cr_expect_eq(packed_try(written, nbytes, 256, &again, &err), GMV_OK, "%s: %s", row->name,
                     err.message);
        cr_expect_eq(again.n_entries, read.n_entries);
        gmv_packed_metadata_fini(&again);
    }
    gmv_packed_metadata_fini(&read);
}

Test(packed_metadata, what_earlier_releases_wrote_is_read_where_it_can_be_told_apart)
{
    for (size_t i = 0; i < sizeof packed_old_rows / sizeof packed_old_rows[0]; i++)
        packed_expect_old(&packed_old_rows[i]);
}

Test(packed_metadata, joined_characters_keep_their_place_and_number)
{
    size_t nbytes;
    gmv_packed_metadata read;
    gmv_error err;
    const packed_old_row *row = &packed_old_rows[0];
    unsigned char *bytes = packed_write_old(row->entries, row->n, 1, 0, &nbytes);
    cr_assert_eq(packed_try(bytes, nbytes, 128, &read, &err), GMV_OK, "%s", err.message);
    cr_expect_eq(read.entries[0].data_offset, 64);
    cr_expect_eq(read.entries[0].characters, 9);
    gmv_packed_metadata_fini(&read);
    cr_expect_eq(packed_try(bytes, nbytes, 72, &read, &err), GMV_ERR_METADATA_INVALID);
    free(bytes);
}

Test(packed_metadata, characters_in_a_child_are_not_read_with_a_header)
{
    const packed_old_row *row = &packed_old_rows[0];
    gmv_packed_entry entries[3];
    unsigned char bytes[GMV_PACKED_HEADER_NBYTES + 3 * GMV_PACKED_ENTRY_NBYTES];
    memcpy(entries, row->entries, sizeof entries);
    const gmv_packed_metadata metadata = {
        .num_columns = 1, .num_rows = 2, .n_entries = 3, .entries = entries};
    gmv_packed_metadata read;
    gmv_error err;
    gmv_packed_metadata_encode(&metadata, GMV_PACKED_VERSION, bytes);
    cr_expect_eq(packed_try(bytes, sizeof bytes, 256, &read, &err), GMV_ERR_METADATA_INVALID);
    cr_expect_not_null(strstr(err.message, "STRING cannot have"), "%s", err.message);
}

Test(packed_metadata, a_list_without_offsets_has_no_elements)
{
    gmv_packed_entry entries[] = {{GMV_CUDF_LIST, 0, 0, 0, NONE, NONE, 2},
                                  {GMV_CUDF_INT32, 0, 0, 0, NONE, NONE, 0},
                                  {GMV_CUDF_INT8, 0, 0, 0, NONE, NONE, 0}};
    const gmv_packed_metadata metadata = {.num_columns = 1, .n_entries = 3, .entries = entries};
    unsigned char bytes[GMV_PACKED_HEADER_NBYTES + 3 * GMV_PACKED_ENTRY_NBYTES];
    gmv_packed_metadata read;
    gmv_error err;
    gmv_packed_metadata_encode(&metadata, GMV_PACKED_VERSION, bytes);
    cr_expect_eq(packed_try(bytes, sizeof bytes, 64, &read, &err), GMV_OK, "%s", err.message);
    gmv_packed_metadata_fini(&read);
    entries[2] = (gmv_packed_entry){GMV_CUDF_INT8, 0, 5, 0, 0, NONE, 0};
    gmv_packed_metadata_encode(&metadata, GMV_PACKED_VERSION, bytes);
    cr_expect_eq(packed_try(bytes, sizeof bytes, 64, &read, &err), GMV_ERR_METADATA_INVALID);
    cr_expect_not_null(strstr(err.message, "the LIST around it has no offsets"), "%s", err.message);
}

/* ---- depth, size and memory ---- */

/* Structs of one field each around a column of int8, `levels` columns deep in all. */
static unsigned char *packed_nest(size_t levels, size_t *out_nbytes)
{
    gmv_packed_entry *entries = (gmv_packed_entry *)calloc(levels, sizeof *entries);
    for (size_t i = 0; i < levels; i++)
        entries[i] = (gmv_packed_entry){GMV_CUDF_STRUCT, 0, 1, 0, NONE, NONE, 1};
    entries[levels - 1] = (gmv_packed_entry){GMV_CUDF_INT8, 0, 1, 0, 0, NONE, 0};
    const gmv_packed_metadata metadata = {
        .num_columns = 1, .num_rows = 1, .n_entries = levels, .entries = entries};
    *out_nbytes = gmv_packed_metadata_nbytes(&metadata, GMV_PACKED_VERSION);
    unsigned char *bytes = (unsigned char *)malloc(*out_nbytes);
    gmv_packed_metadata_encode(&metadata, GMV_PACKED_VERSION, bytes);
    free(entries);
    return bytes;
}

Test(packed_metadata, columns_nest_to_the_limit_and_no_deeper)
{
    static const size_t depths[] = {1, 2, GMV_PACKED_DEPTH_MAX, GMV_PACKED_DEPTH_MAX + 1, 100000};
    for (size_t i = 0; i < sizeof depths / sizeof depths[0]; i++) {
        size_t nbytes;
        gmv_packed_metadata metadata;
        gmv_error err;
        unsigned char *bytes = packed_nest(depths[i], &nbytes);
        bool good = depths[i] <= GMV_PACKED_DEPTH_MAX;
        cr_expect_eq(packed_try(bytes, nbytes, 64, &metadata, &err),
                     good ? GMV_OK : GMV_ERR_METADATA_INVALID, "%zu levels", depths[i]);
        if (!good)
            cr_expect_not_null(strstr(err.message, "deeper than 64"));
        gmv_packed_metadata_fini(&metadata);
        free(bytes);
    }
}

/* Many columns whose buffers lie in the opposite order, or at scattered places. */
static void packed_expect_scattered(size_t n, size_t multiplier, bool overlap)
{
    gmv_packed_entry *entries = (gmv_packed_entry *)calloc(n, sizeof *entries);
    for (size_t i = 0; i < n; i++) {
        int64_t place = (int64_t)(i * multiplier % n) * 64;
        /* Moved by one element, a buffer reaches into the next one. */
        if (overlap && place == (int64_t)(n / 2 - 1) * 64)
            place += 8;
        entries[i] = (gmv_packed_entry){GMV_CUDF_INT64, 0, 8, 0, place, NONE, 0};
    }
    gmv_packed_metadata metadata = {
        .num_columns = (int32_t)n, .num_rows = 8, .n_entries = n, .entries = entries};
    size_t nbytes = gmv_packed_metadata_nbytes(&metadata, GMV_PACKED_VERSION);
    unsigned char *bytes = (unsigned char *)malloc(nbytes);
    gmv_packed_metadata_encode(&metadata, GMV_PACKED_VERSION, bytes);
    gmv_packed_metadata read;
    gmv_error err;
    cr_expect_eq(packed_try(bytes, nbytes, (int64_t)n * 64 + 64, &read, &err),
                 overlap ? GMV_ERR_METADATA_INVALID : GMV_OK, "%zu, %zu: %s", n, multiplier,
                 err.message);
    gmv_packed_metadata_fini(&read);
    free(bytes);
    free(entries);
}

Test(packed_metadata, buffers_may_lie_in_any_order_but_not_overlap)
{
    static const size_t counts[] = {2, 3, 4, 5, 7, 16, 17, 1009, 20011};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        size_t n = counts[i];
        for (int overlap = 0; overlap < 2; overlap++) {
            packed_expect_scattered(n, n - 1, overlap);
            packed_expect_scattered(n, 1, overlap);
            packed_expect_scattered(n, n > 7 && n % 2 == 1 ? 389 : 1, overlap);
        }
    }
}

Test(packed_metadata, two_columns_cannot_share_a_buffer)
{
    gmv_packed_entry entries[] = {{GMV_CUDF_INT32, 0, 4, 0, 0, NONE, 0},
                                  {GMV_CUDF_INT32, 0, 4, 0, 0, NONE, 0}};
    gmv_packed_metadata metadata = {
        .num_columns = 2, .num_rows = 4, .n_entries = 2, .entries = entries};
    unsigned char bytes[96];
    gmv_packed_metadata read;
    gmv_error err;
    gmv_packed_metadata_encode(&metadata, GMV_PACKED_VERSION, bytes);
    cr_expect_eq(packed_try(bytes, sizeof bytes, 64, &read, &err), GMV_ERR_METADATA_INVALID);
    cr_expect_not_null(strstr(err.message, "overlaps"));
    metadata.num_rows = entries[0].size = entries[1].size = 0;
    gmv_packed_metadata_encode(&metadata, GMV_PACKED_VERSION, bytes);
    cr_expect_eq(packed_try(bytes, sizeof bytes, 64, &read, &err), GMV_OK);
    gmv_packed_metadata_fini(&read);
}

Test(packed_metadata, a_table_without_columns_keeps_its_rows)
{
    const gmv_packed_metadata metadata = {.num_rows = 7};
    unsigned char bytes[GMV_PACKED_HEADER_NBYTES];
    gmv_packed_metadata read;
    gmv_error err;
    cr_assert_eq(gmv_packed_metadata_nbytes(&metadata, GMV_PACKED_VERSION), sizeof bytes);
    cr_expect_eq(gmv_packed_metadata_nbytes(&metadata, GMV_PACKED_HEADERLESS), 0);
    gmv_packed_metadata_encode(&metadata, GMV_PACKED_VERSION, bytes);
    cr_expect_eq(packed_try(bytes, sizeof bytes, 0, &read, &err), GMV_OK);
    cr_expect_eq(read.num_rows, 7);
    cr_expect_null(read.entries);
}

Test(packed_metadata, an_empty_column_of_no_rows_is_read)
{
    gmv_packed_entry entry = {GMV_CUDF_EMPTY, 0, 0, 0, NONE, NONE, 0};
    const gmv_packed_metadata metadata = {.num_columns = 1, .n_entries = 1, .entries = &entry};
    unsigned char bytes[56];
    gmv_packed_metadata read;
    gmv_error err;
    gmv_packed_metadata_encode(&metadata, GMV_PACKED_VERSION, bytes);
    cr_expect_eq(packed_try(bytes, sizeof bytes, 0, &read, &err), GMV_OK, "%s", err.message);
    gmv_packed_metadata_fini(&read);
}

Test(packed_metadata, each_failing_allocation_is_reported_and_nothing_leaks)
{
    unsigned char bytes[SAMPLE_NBYTES];
    packed_write_sample(bytes);
    packed_patch(bytes, 0, DATA, 692); /* out of order, so that buffers have to be sorted */
    gmv_alloc_watch(1);
    for (uint64_t n = 1;; n++) {
        gmv_packed_metadata metadata;
        gmv_error err;
        gmv_alloc_fail_once(n);
        gmv_status status = packed_try(bytes, sizeof bytes, SAMPLE_DATA, &metadata, &err);
        bool failed = gmv_alloc_has_failed();
        cr_expect_eq(status, failed ? GMV_ERR_OVERLOADED : GMV_OK);
        gmv_packed_metadata_fini(&metadata);
        cr_expect_eq(gmv_alloc_live(), 0);
        if (!failed) {
            cr_expect_eq(n, 3);
            break;
        }
    }
    gmv_alloc_fail_once(0);
    gmv_alloc_watch(0);
}

Test(packed_metadata, a_claimed_count_allocates_nothing)
{
    unsigned char bytes[SAMPLE_NBYTES];
    gmv_packed_metadata metadata;
    gmv_error err;
    packed_write_sample(bytes);
    packed_patch(bytes, HEADER, SCALE, INT32_MAX);
    gmv_alloc_fail_from(1);
    cr_expect_eq(packed_try(bytes, sizeof bytes, SAMPLE_DATA, &metadata, &err),
                 GMV_ERR_METADATA_INVALID);
    cr_expect_not(gmv_alloc_has_failed());
    gmv_alloc_fail_from(0);
}
