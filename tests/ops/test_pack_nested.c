/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packing nested columns against a model: random trees of columns as plain bytes, packed by a few
 * lines that follow the format's words, and by the device. And what happens when their offsets
 * change meanwhile.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ops/packed_support.h"

/* ---- random numbers ----------------------------------------------------------------------- */

static uint64_t random_state;

static uint64_t random_below(uint64_t limit)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state % limit;
}

/* ---- columns as bytes --------------------------------------------------------------------- */

#define CHILDREN_MAX 4

typedef struct model {
    gmv_cudf_type type;
    int64_t size, offset;
    uint8_t *data; /* NULL: none */
    size_t data_nbytes;
    uint8_t *mask; /* NULL: none */
    size_t mask_nbytes;
    struct model *children[CHILDREN_MAX];
    size_t n_children;
    gmv_column *column;
} model;

static void *zeroed(size_t nbytes)
{
    void *bytes = calloc(nbytes + 1, 1);
    cr_assert_not_null(bytes);
    return bytes;
}

static void model_free(model *m)
{
    for (size_t i = 0; i < m->n_children; i++)
        model_free(m->children[i]);
    free(m->data);
    free(m->mask);
    free(m);
}

/* A column of at least `rows` rows, which begins somewhere in its buffers. */
static model *model_new(int32_t type, int64_t rows, bool nullable)
{
    model *m = zeroed(sizeof *m);
    m->type.id = type;
    m->type.scale = gmv_cudf_type_is_decimal(type) ? (int32_t)random_below(20) - 10 : 0;
    m->size = rows + (int64_t)(random_below(3) ? 0 : random_below(6));
    m->offset = random_below(2) ? 0 : (int64_t)random_below(40);
    if (nullable && random_below(2)) {
        m->mask_nbytes = (size_t)(m->offset + m->size + 7) / 8 + random_below(3);
        m->mask = zeroed(m->mask_nbytes);
        for (size_t i = 0; i < m->mask_nbytes; i++)
            m->mask[i] = random_below(4) ? (uint8_t)random_below(256) : 0xff;
    }
    return m;
}

static void model_fill(model *m, size_t nbytes)
{
    m->data_nbytes = nbytes;
    m->data = zeroed(nbytes);
    for (size_t i = 0; i < nbytes; i++)
        m->data[i] = (uint8_t)random_below(256);
}

static void integer_put(model *m, int64_t index, int64_t value)
{
    const size_t width = gmv_cudf_type_width(m->type.id);
    memcpy(m->data + (size_t)index * width, &value, width);
}

static int64_t integer_at(const model *m, int64_t index)
{
    int32_t narrow;
    int64_t wide;
    if (m->type.id == GMV_CUDF_INT64) {
        memcpy(&wide, m->data + 8 * index, sizeof wide);
        return wide;
    }
    memcpy(&narrow, m->data + 4 * index, sizeof narrow);
    return narrow;
}

/* The offsets of a string or list; *out_end is where the last row ends. */
static model *model_offsets(const model *parent, bool wide, int64_t *out_end)
{
    const bool is_all_empty = random_below(8) == 0;
    const int64_t n = parent->offset + parent->size + 1;
    model *m = model_new(wide ? GMV_CUDF_INT64 : GMV_CUDF_INT32, n, false);
    model_fill(m, (size_t)(m->offset + m->size) * gmv_cudf_type_width(m->type.id));
    int64_t value = is_all_empty ? 0 : (int64_t)random_below(5);
    for (int64_t i = 0; i < m->size; i++) {
        integer_put(m, m->offset + i, value);
        value += is_all_empty || random_below(4) == 0 ? 0 : (int64_t)random_below(5);
    }
    *out_end = integer_at(m, m->offset + m->size - 1);
    return m;
}

static model *model_random(int depth, int64_t rows);

static model *model_fixed(int64_t rows)
{
    int32_t type;
    do {
        type = (int32_t)random_below(GMV_CUDF_TYPE_COUNT);
    } while (!gmv_cudf_type_is_fixed_width(type));
    model *m = model_new(type, rows, true);
    model_fill(m, (size_t)(m->offset + m->size) * gmv_cudf_type_width(type));
    return m;
}

static model *model_string(int64_t rows)
{
    int64_t end;
    model *m = model_new(GMV_CUDF_STRING, rows, true);
    if (m->size == 0 && random_below(2)) {
        m->offset = 0;
        return m;
    }
    m->children[m->n_children++] = model_offsets(m, random_below(2), &end);
    if (end > 0 || random_below(2))
        model_fill(m, (size_t)end + 1);
    return m;
}

static model *model_list(int depth, int64_t rows)
{
    int64_t end;
    model *m = model_new(GMV_CUDF_LIST, rows, true);
    m->children[m->n_children++] = model_offsets(m, false, &end);
    m->children[m->n_children++] = model_random(depth - 1, end);
    return m;
}

static model *model_struct(int depth, int64_t rows)
{
    model *m = model_new(GMV_CUDF_STRUCT, rows, true);
    const size_t n = random_below(CHILDREN_MAX);
    while (m->n_children < n)
        m->children[m->n_children++] = model_random(depth - 1, m->offset + m->size);
    return m;
}

static model *model_random(int depth, int64_t rows)
{
    const uint64_t kind = depth > 0 ? random_below(5) : random_below(2);
    if (kind == 0)
        return model_string(rows);
    if (kind == 1)
        return model_fixed(rows);
    return kind == 2 ? model_struct(depth, rows) : model_list(depth, rows);
}

/* The same on the device. */
static gmv_column *model_make(world *w, model *m)
{
    gmv_column *children[CHILDREN_MAX] = {NULL}, *column = NULL;
    for (size_t i = 0; i < m->n_children; i++)
        children[i] = model_make(w, m->children[i]);
    const gmv_column_request request = {
        .type = m->type,
        .size = m->size,
        .offset = m->offset,
        .data = m->data ? world_view(w, m->data, m->data_nbytes) : NULL,
        .null_mask = m->mask ? world_view(w, m->mask, m->mask_nbytes) : NULL,
        .children = children,
        .n_children = m->n_children,
    };
    const gmv_status status = gmv_column_create(&w->operation, &request, NULL, &column, &w->err);
    cr_assert_eq(status, GMV_OK, "%s", w->err.message);
    m->column = column;
    return column;
}

/* ---- packing as the format's words have it ------------------------------------------------ */

typedef struct reference {
    uint8_t *bytes; /* of gpu_data */
    size_t nbytes, capacity;
    gmv_packed_entry entries[4096];
    size_t n_entries;
    bool is_rowless; /* the whole table is */
} reference;

/* Room for a buffer, zeroed; returns where it begins. */
static int64_t reference_add(reference *r, size_t nbytes)
{
    const size_t begin = r->nbytes;
    r->nbytes += (nbytes + 63) / 64 * 64;
    if (r->nbytes > r->capacity) {
        r->capacity = 2 * r->nbytes;
        r->bytes = realloc(r->bytes, r->capacity);
        cr_assert_not_null(r->bytes);
    }
    if (r->nbytes > begin)
        memset(r->bytes + begin, 0, r->nbytes - begin);
    return (int64_t)begin;
}

static void reference_mask(reference *r, gmv_packed_entry *entry, const model *m, int64_t first,
                           int64_t rows)
{
    if (!m->mask || rows == 0)
        return;
    entry->null_mask_offset = reference_add(r, (size_t)(rows + 31) / 32 * 4);
    for (int64_t i = 0; i < rows; i++) {
        const bool is_valid = m->mask[(first + i) / 8] >> (first + i) % 8 & 1;
        entry->null_count += !is_valid;
        r->bytes[entry->null_mask_offset + i / 8] |= (uint8_t)(is_valid << i % 8);
    }
}

static int64_t reference_bytes(reference *r, const uint8_t *bytes, int64_t nbytes)
{
    const int64_t offset = reference_add(r, (size_t)nbytes);
    if (nbytes > 0)
        memcpy(r->bytes + offset, bytes, (size_t)nbytes);
    return offset;
}

static gmv_packed_entry *reference_entry(reference *r, const model *m, int64_t rows)
{
    cr_assert_lt(r->n_entries, sizeof r->entries / sizeof r->entries[0]);
    gmv_packed_entry *entry = &r->entries[r->n_entries++];
    *entry = (gmv_packed_entry){
        .type_id = m->type.id,
        .scale = m->type.scale,
        .size = (int32_t)rows,
        .data_offset = -1,
        .null_mask_offset = -1,
        .num_children = (int32_t)m->n_children,
    };
    return entry;
}

static void reference_offsets(reference *r, const model *m, int64_t first, int64_t rows)
{
    gmv_packed_entry *entry = reference_entry(r, m, rows ? rows + 1 : 0);
    const int64_t width = (int64_t)gmv_cudf_type_width(m->type.id);
    if (rows == 0)
        return;
    entry->data_offset = reference_add(r, (size_t)((rows + 1) * width));
    for (int64_t i = 0; i <= rows; i++) {
        const int64_t value =
            integer_at(m, m->offset + first + i) - integer_at(m, m->offset + first);
        memcpy(r->bytes + entry->data_offset + i * width, &value, (size_t)width);
    }
}

/* Where row `row` of a string or list begins, in what it leads to. */
static int64_t reference_begin(const model *m, int64_t row)
{
    const model *offsets = m->children[0];
    return integer_at(offsets, offsets->offset + m->offset + row);
}

/* Rows [row, row + rows) of a column. */
static void reference_column(reference *r, const model *m, int64_t row, int64_t rows)
{
    gmv_packed_entry *entry = reference_entry(r, m, rows);
    const int64_t first = m->offset + row;
    const bool is_string = m->type.id == GMV_CUDF_STRING, is_list = m->type.id == GMV_CUDF_LIST;
    int64_t begin = 0, end = 0;
    reference_mask(r, entry, m, first, rows);
    if ((is_string || is_list) && rows > 0) {
        begin = reference_begin(m, row);
        end = reference_begin(m, row + rows);
    }
    if (is_string && rows > 0 && m->data)
        entry->data_offset = reference_bytes(r, m->data + begin, end - begin);
    if (gmv_cudf_type_is_fixed_width(m->type.id) && rows > 0) {
        const int64_t width = (int64_t)gmv_cudf_type_width(m->type.id);
        entry->data_offset = reference_bytes(r, m->data + first * width, rows * width);
    }
    if (is_string && r->is_rowless)
        entry->num_children = 0;
    for (size_t i = 0; i < (size_t)entry->num_children; i++) {
        if ((is_string || is_list) && i == 0)
            reference_offsets(r, m->children[i], first, rows);
        else if (is_list)
            reference_column(r, m->children[i], begin, end - begin);
        else
            reference_column(r, m->children[i], first, rows);
    }
}

static void reference_assert(world *w, const reference *r, gmv_packed *packed, int64_t rows)
{
    cr_assert_eq(packed->metadata.num_rows, rows);
    cr_assert_eq(packed->metadata.n_entries, r->n_entries);
    for (size_t i = 0; i < r->n_entries; i++) {
        const gmv_packed_entry *is = &packed->metadata.entries[i], *want = &r->entries[i];
        cr_assert_eq(is->type_id, want->type_id, "entry %zu", i);
        cr_assert_eq(is->scale, want->scale, "entry %zu", i);
        cr_assert_eq(is->size, want->size, "entry %zu: %d, not %d", i, is->size, want->size);
        cr_assert_eq(is->null_count, want->null_count, "entry %zu", i);
        cr_assert_eq(is->data_offset, want->data_offset, "entry %zu", i);
        cr_assert_eq(is->null_mask_offset, want->null_mask_offset, "entry %zu", i);
        cr_assert_eq(is->num_children, want->num_children, "entry %zu", i);
    }
    gmv_view *gpu_data = world_gpu_data(w, packed);
    cr_assert_eq(gpu_data->nbytes, (int64_t)r->nbytes);
    uint8_t *bytes = world_read(w, gpu_data);
    for (size_t i = 0; i < r->nbytes; i++)
        cr_assert_eq(bytes[i], r->bytes[i], "byte %zu is %02x, not %02x", i, bytes[i], r->bytes[i]);
    free(bytes);
}

/* ---- random tables ------------------------------------------------------------------------ */

static int compare_splits(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

#define COLUMNS_MAX 4
#define SPLITS_MAX  12

typedef struct sample {
    model *models[COLUMNS_MAX];
    size_t n_columns;
    int64_t rows;
    int64_t splits[SPLITS_MAX];
    size_t n_splits;
    gmv_table *table;
} sample;

/* Columns of a table are equally long, whatever their models say. */
static void sample_make(world *w, sample *s)
{
    gmv_column *columns[COLUMNS_MAX];
    s->rows = (int64_t)(random_below(5) ? random_below(200) : random_below(3));
    s->n_columns = 1 + random_below(COLUMNS_MAX);
    for (size_t i = 0; i < s->n_columns; i++) {
        s->models[i] = model_random(3, s->rows);
        s->models[i]->size = s->rows;
        if (s->rows == 0 && s->models[i]->type.id == GMV_CUDF_STRING && random_below(2))
            s->models[i]->offset = 0;
        columns[i] = model_make(w, s->models[i]);
    }
    s->n_splits = random_below(SPLITS_MAX);
    for (size_t i = 0; i < s->n_splits; i++)
        s->splits[i] = (int64_t)random_below((uint64_t)s->rows + 1);
    qsort(s->splits, s->n_splits, sizeof s->splits[0], compare_splits);
    s->table = world_table(w, columns, s->n_columns);
}

static void sample_free(sample *s)
{
    for (size_t i = 0; i < s->n_columns; i++)
        model_free(s->models[i]);
}

static void sample_check(world *w, const sample *s)
{
    size_t n;
    gmv_packed **packed = world_split(w, s->table, s->splits, s->n_splits, &n);
    cr_assert_eq(n, s->n_splits + 1);
    for (size_t i = 0; i < n; i++) {
        const int64_t begin = i > 0 ? s->splits[i - 1] : 0;
        const int64_t end = i < s->n_splits ? s->splits[i] : s->rows;
        reference *r = zeroed(sizeof *r);
        r->is_rowless = s->rows == 0;
        for (size_t k = 0; k < s->n_columns; k++)
            reference_column(r, s->models[k], begin, end - begin);
        reference_assert(w, r, packed[i], end - begin);
        free(r->bytes);
        free(r);
    }
    gmv_free(packed);
}

Test(pack, random_trees_are_packed_as_the_model_does, .timeout = 600)
{
    world w;
    fixture_open(&w);
    random_state = 0x2545f4914f6cdd1du;
    for (int i = 0; i < 400; i++) {
        sample s = {.n_columns = 0};
        sample_make(&w, &s);
        sample_check(&w, &s);
        int64_t nbytes = -1;
        cr_assert_eq(gmv_packed_size(&w.operation, s.table, &nbytes, &w.err), GMV_OK);
        cr_assert_eq(nbytes, world_gpu_data(&w, world_pack(&w, s.table))->nbytes);
        sample_free(&s);
        fixture_next(&w);
    }
    fixture_close(&w);
}

/* ---- columns that cannot be --------------------------------------------------------------- */

/* A column that nothing has checked. */
static gmv_column *unchecked(world *w, int32_t type, int32_t size, gmv_view *data, gmv_view *mask,
                             gmv_column *const *children, size_t n_children)
{
    const gmv_column_parts parts = {
        .type = {type, 0},
        .size = size,
        .data = data,
        .null_mask = mask,
        .children = children,
        .n_children = n_children,
    };
    gmv_column *column = NULL;
    cr_assert_eq(gmv_operation_reserve(&w->operation, 1, &w->err), GMV_OK);
    cr_assert_eq(gmv_column_prepare(&w->operation, &parts, NULL, false, &column, &w->err), GMV_OK,
                 "%s", w->err.message);
    gmv_node *const nodes[] = {&column->node};
    gmv_operation_publish(&w->operation, nodes, 1);
    return column;
}

static gmv_column *integers(world *w, int32_t type, int32_t size)
{
    static const uint8_t zeros[256];
    gmv_view *data = world_view(w, zeros, (size_t)size * gmv_cudf_type_width(type));
    return unchecked(w, type, size, data, NULL, NULL, 0);
}

static void expect_refused(world *w, gmv_column *column, gmv_status status)
{
    const census before = world_census(w);
    gmv_table *table = world_table(w, &column, 1);
    gmv_packed *packed = NULL;
    int64_t nbytes = 0;
    cr_assert_eq(gmv_pack(&w->operation, table, NULL, &packed, &w->err), status, "%s",
                 w->err.message);
    cr_assert_neq(w->err.message[0], '\0');
    cr_assert_eq(gmv_packed_size(&w->operation, table, &nbytes, &w->err), status);
    cr_assert_eq(world_census(w).alive, before.alive + 1);
}

Test(pack, a_column_without_a_packed_form_is_refused)
{
    world w;
    fixture_open(&w);
    gmv_column *bytes = integers(&w, GMV_CUDF_INT8, 4), *ints = integers(&w, GMV_CUDF_INT32, 5);
    gmv_column *longs = integers(&w, GMV_CUDF_INT64, 5);
    gmv_view *mask = world_view(&w, "\xff", 1);
    gmv_column *masked = unchecked(&w, GMV_CUDF_INT32, 5, ints->data, mask, NULL, 0);
    gmv_column *dictionary =
        unchecked(&w, GMV_CUDF_DICTIONARY32, 4, NULL, NULL, (gmv_column *[]){bytes, ints}, 2);
    gmv_column *empty = unchecked(&w, GMV_CUDF_EMPTY, 4, NULL, NULL, NULL, 0);
    struct {
        int32_t type;
        gmv_column *children[2];
        size_t n;
        gmv_status status;
    } rows[] = {
        {GMV_CUDF_STRUCT, {dictionary}, 1, GMV_ERR_DTYPE_UNSUPPORTED},
        {GMV_CUDF_STRUCT, {empty}, 1, GMV_ERR_DTYPE_UNSUPPORTED},
        {GMV_CUDF_STRING, {NULL}, 0, GMV_ERR_VALUE},        /* no offsets */
        {GMV_CUDF_STRING, {ints, bytes}, 2, GMV_ERR_VALUE}, /* as old releases had them */
        {GMV_CUDF_STRING, {masked}, 1, GMV_ERR_VALUE},      /* offsets with a mask */
        {GMV_CUDF_STRING, {bytes}, 1, GMV_ERR_VALUE},       /* of another type */
        {GMV_CUDF_LIST, {longs, bytes}, 2, GMV_ERR_VALUE},  /* wide ones are a string's */
        {GMV_CUDF_LIST, {ints}, 1, GMV_ERR_VALUE},          /* no elements */
        {GMV_CUDF_LIST, {masked, bytes}, 2, GMV_ERR_VALUE}, /* offsets with a mask */
        {GMV_CUDF_STRUCT, {integers(&w, GMV_CUDF_INT8, 3)}, 1, GMV_ERR_VALUE}, /* too short */
        {GMV_CUDF_STRING, {integers(&w, GMV_CUDF_INT32, 4)}, 1, GMV_ERR_VALUE},
    };
    expect_refused(&w, dictionary, GMV_ERR_DTYPE_UNSUPPORTED);
    expect_refused(&w, empty, GMV_ERR_DTYPE_UNSUPPORTED);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        expect_refused(&w, unchecked(&w, rows[i].type, 4, NULL, NULL, rows[i].children, rows[i].n),
                       rows[i].status);
    fixture_close(&w);
}

Test(pack, memory_that_is_too_short_for_its_column_is_refused)
{
    world w;
    fixture_open(&w);
    gmv_view *short_view = world_view(&w, "\xff\xff\xff", 3);
    gmv_column *ints = integers(&w, GMV_CUDF_INT32, 33);
    expect_refused(&w, unchecked(&w, GMV_CUDF_INT32, 1, short_view, NULL, NULL, 0), GMV_ERR_VALUE);
    expect_refused(&w, unchecked(&w, GMV_CUDF_INT8, 4, NULL, NULL, NULL, 0), GMV_ERR_VALUE);
    expect_refused(&w, unchecked(&w, GMV_CUDF_INT32, 33, ints->data, short_view, NULL, 0),
                   GMV_ERR_VALUE);
    gmv_column *bad = unchecked(&w, GMV_CUDF_INT32, 5, short_view, NULL, NULL, 0);
    expect_refused(&w, unchecked(&w, GMV_CUDF_STRING, 4, NULL, NULL, &bad, 1), GMV_ERR_VALUE);
    fixture_close(&w);
}

Test(pack, types_without_a_packed_form_can_be_packed_without_rows)
{
    world w;
    fixture_open(&w);
    gmv_column *bytes = integers(&w, GMV_CUDF_INT8, 4);
    gmv_column *dictionary =
        unchecked(&w, GMV_CUDF_DICTIONARY32, 0, NULL, NULL, (gmv_column *[]){bytes, bytes}, 2);
    gmv_column *empty = unchecked(&w, GMV_CUDF_EMPTY, 0, NULL, NULL, NULL, 0);
    gmv_column *columns[] = {dictionary, empty};
    gmv_packed *packed = world_pack(&w, world_table(&w, columns, 2));
    cr_assert_eq(packed->metadata.n_entries, 2);
    cr_assert_eq(packed->metadata.entries[0].num_children, 0);
    cr_assert_eq(packed->gpu_data_nbytes, 0);

    /* The same below lists that hold nothing. */
    gmv_column *offsets = integers(&w, GMV_CUDF_INT32, 4);
    gmv_column *list =
        unchecked(&w, GMV_CUDF_LIST, 3, NULL, NULL, (gmv_column *[]){offsets, dictionary}, 2);
    packed = world_pack(&w, world_table(&w, &list, 1));
    cr_assert_eq(packed->metadata.n_entries, 3);
    cr_assert_eq(packed->metadata.entries[2].type_id, GMV_CUDF_DICTIONARY32);
    cr_assert_eq(packed->metadata.entries[2].num_children, 0);
    cr_assert_eq(packed->gpu_data_nbytes, 64);
    fixture_close(&w);
}

/* 2^18 fields of one column: the tree is counted, not what is stored. */
Test(pack, a_tree_with_more_columns_than_one_call_takes_is_refused)
{
    world w;
    fixture_open(&w);
    gmv_column *column = integers(&w, GMV_CUDF_INT8, 1);
    for (int level = 0; level < 18; level++)
        column = unchecked(&w, GMV_CUDF_STRUCT, 1, NULL, NULL, (gmv_column *[]){column, column}, 2);
    static const int64_t splits[] = {0, 1, 1};
    gmv_table *table = world_table(&w, &column, 1);
    gmv_packed **packed = NULL;
    size_t n = 0;
    cr_assert_eq(gmv_contiguous_split(&w.operation, table, splits, 3, NULL, &packed, &n, &w.err),
                 GMV_ERR_VALUE);
    cr_assert_str_eq(w.err.pointer, "/splits");
    gmv_packed *whole = world_pack(&w, table);
    cr_assert_eq(whole->metadata.n_entries, (2u << 18) - 1);
    cr_assert_eq(whole->gpu_data_nbytes, 64 << 18);
    fixture_close(&w);
}

/* More copies than one launch takes on a device: 65,536 of them in each of three partitions. */
Test(contiguous_split, many_copies_all_arrive)
{
    world w;
    fixture_open(&w);
    static const uint8_t rows[] = {7, 1, 8, 2, 8, 1, 8, 2, 8, 4};
    static const int64_t splits[] = {3, 4};
    gmv_view *data = world_view(&w, rows, sizeof rows);
    gmv_column *column = unchecked(&w, GMV_CUDF_UINT8, sizeof rows, data, NULL, NULL, 0);
    for (int level = 0; level < 16; level++)
        column = unchecked(&w, GMV_CUDF_STRUCT, sizeof rows, NULL, NULL,
                           (gmv_column *[]){column, column}, 2);
    size_t n;
    gmv_packed **packed = world_split(&w, world_table(&w, &column, 1), splits, 2, &n);
    for (size_t i = 0; i < n; i++) {
        const int64_t begin = i > 0 ? splits[i - 1] : 0;
        const int64_t end = i < 2 ? splits[i] : (int64_t)sizeof rows;
        uint8_t want[64] = {0};
        memcpy(want, rows + begin, (size_t)(end - begin));
        gmv_view *gpu_data = world_gpu_data(&w, packed[i]);
        cr_assert_eq(gpu_data->nbytes, 64 << 16);
        uint8_t *bytes = world_read(&w, gpu_data);
        for (size_t k = 0; k < 1 << 16; k++)
            cr_assert_eq(memcmp(bytes + 64 * k, want, 64), 0, "part %zu, copy %zu", i, k);
        free(bytes);
    }
    gmv_free(packed);
    fixture_close(&w);
}

/* Forty lists, one in the other. */
Test(contiguous_split, deep_nesting_is_cut_on_every_level)
{
    world w;
    fixture_open(&w);
    static const int32_t offsets[] = {0, 1, 3, 4};
    model *inner = zeroed(sizeof *inner), *m = inner;
    sample s = {.n_columns = 1, .rows = 3, .splits = {1, 2, 2}, .n_splits = 3};
    *inner = (model){.type = {GMV_CUDF_INT8, 0}, .size = 4};
    model_fill(inner, 4);
    for (int level = 0; level < 40; level++) {
        model *list = zeroed(sizeof *list), *child = zeroed(sizeof *child);
        *child = (model){.type = {GMV_CUDF_INT32, 0}, .size = 4, .data_nbytes = sizeof offsets};
        child->data = zeroed(sizeof offsets);
        memcpy(child->data, offsets, sizeof offsets);
        *list =
            (model){.type = {GMV_CUDF_LIST, 0}, .size = 3, .children = {child, m}, .n_children = 2};
        m = list;
        for (int i = 2; i < 4 && level > 0; i++)
            integer_put(child, i, i); /* what is below has three rows, too */
    }
    s.models[0] = m;
    gmv_column *column = model_make(&w, m);
    s.table = world_table(&w, &column, 1);
    sample_check(&w, &s);
    sample_free(&s);
    fixture_close(&w);
}

/* ---- offsets that change ------------------------------------------------------------------ */

typedef struct flipper {
    gmv_stream *stream;
    gmv_view *offsets[2];
    const int32_t *valid, *wild;
    size_t nbytes;
    _Atomic bool is_over;
} flipper;

/* Writes what is right and what is not, in turn, as an exporter could. */
static void *flip(void *context)
{
    flipper *f = context;
    gmv_error err;
    gmv_error_init(&err);
    for (unsigned i = 0; !f->is_over; i++)
        for (int k = 0; k < 2; k++) {
            if (gmv_copy_in(f->stream, f->offsets[k]->ptr, i % 2 ? f->wild : f->valid, f->nbytes,
                            &err) != GMV_OK ||
                gmv_stream_finish(f->stream, &err) != GMV_OK)
                return f;
        }
    return NULL;
}

#define FLIP_ROWS 2000

/* Its metadata is whole, and the column that nobody touched is in its place. */
static void flip_check(world *w, gmv_packed *packed, const uint8_t *honest, int64_t begin)
{
    size_t nbytes;
    uint8_t *encoded = packed_encode(packed, GMV_PACKED_VERSION, &nbytes);
    gmv_packed_metadata metadata;
    cr_assert_eq(
        gmv_packed_metadata_decode(encoded, nbytes, packed->gpu_data_nbytes, &metadata, &w->err),
        GMV_OK, "%s", w->err.message);
    const gmv_packed_entry *last = &metadata.entries[metadata.n_entries - 1];
    uint8_t *bytes = world_read(w, world_gpu_data(w, packed));
    if (last->size > 0)
        cr_assert_eq(memcmp(bytes + last->data_offset, honest + begin, (size_t)last->size), 0);
    free(bytes);
    gmv_packed_metadata_fini(&metadata);
    free(encoded);
}

Test(contiguous_split, offsets_that_change_meanwhile_do_no_harm, .timeout = 600)
{
    static int32_t valid[FLIP_ROWS + 1], wild[FLIP_ROWS + 1];
    static uint8_t bytes[FLIP_ROWS];
    static const int64_t splits[] = {1, 500, 500, 900, 1999};
    world w;
    fixture_open(&w);
    random_state = 0x853c49e6748fea9bu;
    for (int i = 0; i <= FLIP_ROWS; i++) {
        valid[i] = i;
        wild[i] = i % 3 ? (int32_t)random_below(UINT32_MAX) : INT32_MAX - i;
    }
    for (int i = 0; i < FLIP_ROWS; i++)
        bytes[i] = (uint8_t)random_below(256);
    gmv_view *views[] = {world_view(&w, valid, sizeof valid), world_view(&w, valid, sizeof valid)};
    gmv_view *data = world_view(&w, bytes, sizeof bytes);
    gmv_column *offsets[2];
    for (int i = 0; i < 2; i++)
        offsets[i] = unchecked(&w, GMV_CUDF_INT32, FLIP_ROWS + 1, views[i], NULL, NULL, 0);
    gmv_column *string = unchecked(&w, GMV_CUDF_STRING, FLIP_ROWS, data, NULL, offsets, 1);
    gmv_column *list = unchecked(&w, GMV_CUDF_LIST, FLIP_ROWS, NULL, NULL,
                                 (gmv_column *[]){offsets[1], string}, 2);
    gmv_column *honest = unchecked(&w, GMV_CUDF_UINT8, FLIP_ROWS, data, NULL, NULL, 0);
    const gmv_id id = world_table(&w, (gmv_column *[]){list, string, honest}, 3)->node.id;

    flipper f = {
        .offsets = {views[0], views[1]}, .valid = valid, .wild = wild, .nbytes = sizeof valid};
    pthread_t thread;
    cr_assert_eq(gmv_stream_create(w.engine.devices[0], &f.stream, &w.err), GMV_OK);
    cr_assert_eq(pthread_create(&thread, NULL, flip, &f), 0);
    for (int round = 0; round < 200; round++) {
        gmv_node *node = NULL;
        fixture_next(&w);
        cr_assert_eq(gmv_operation_get(&w.operation, &id, GMV_KIND_TABLE, NULL, &node, &w.err),
                     GMV_OK);
        size_t n;
        gmv_packed **packed = world_split(&w, gmv_table_of(node), splits, 5, &n);
        for (size_t i = 0; i < n; i++) {
            flip_check(&w, packed[i], bytes, i > 0 ? splits[i - 1] : 0);
            world_delete(&w, &packed[i]->node.id, GMV_IF_HELD_KEEP);
        }
        gmv_free(packed);
    }
    f.is_over = true;
    void *failed = NULL;
    cr_assert_eq(pthread_join(thread, &failed), 0);
    cr_assert_null(failed);
    cr_assert_not(gmv_device_is_lost(w.engine.devices[0], NULL));
    gmv_stream_destroy(f.stream);
    fixture_close(&w);
}

/* The same at rest: whatever offsets say, rows are where their column is. */
Test(pack, wild_offsets_lead_nowhere)
{
    static const int64_t wild[] = {INT64_MIN, INT64_MAX, -1, 5, 3};
    static const uint32_t narrow[] = {0x80000000, 0x7fffffff, 0xffffffff, 5, 3};
    world w;
    fixture_open(&w);
    for (int is_wide = 0; is_wide < 2; is_wide++) {
        gmv_view *view =
            is_wide ? world_view(&w, wild, sizeof wild) : world_view(&w, narrow, sizeof narrow);
        gmv_column *offsets =
            unchecked(&w, is_wide ? GMV_CUDF_INT64 : GMV_CUDF_INT32, 5, view, NULL, NULL, 0);
        gmv_column *string =
            unchecked(&w, GMV_CUDF_STRING, 4, world_view(&w, "abcd", 4), NULL, &offsets, 1);
        gmv_packed *packed = world_pack(&w, world_table(&w, &string, 1));
        const gmv_packed_entry *entries = packed->metadata.entries;
        uint8_t *bytes = world_read(&w, world_gpu_data(&w, packed));
        cr_assert_eq(memcmp(bytes + entries[0].data_offset, "abc\0", 4), 0);
        const int64_t want[] = {0, 3, 0, 3, 3};
        for (int i = 0; i < 5; i++) {
            int64_t value = 0;
            const size_t width = is_wide ? 8 : 4;
            memcpy(&value, bytes + entries[1].data_offset + (size_t)i * width, width);
            cr_assert_eq(value, want[i], "offset %d is %lld", i, (long long)value);
        }
        free(bytes);
    }
    fixture_close(&w);
}

/* The exporter takes the offsets away, or the characters. */
Test(pack, a_string_that_is_cut_short_makes_nothing)
{
    world w;
    fixture_open(&w);
    fixture_host_only(&w, "POSIX shared memory is the host backend's");
    for (int is_offsets = 0; is_offsets < 2; is_offsets++) {
        char name[64];
        (void)snprintf(name, sizeof name, "/gmv-test-nested-%ld", (long)getpid());
        const int descriptor = shm_open(name, O_CREAT | O_EXCL | O_RDWR, 0600);
        cr_assert_geq(descriptor, 0);
        cr_assert_eq(ftruncate(descriptor, 1 << 20), 0);
        const gmv_import_shm request = {.name = name};
        gmv_buffer *buffer = NULL;
        cr_assert_eq(gmv_buffer_import_shm(&w.operation, &request, NULL, &buffer, &w.err), GMV_OK,
                     "%s", w.err.message);
        cr_assert_eq(shm_unlink(name), 0);
        gmv_view *imported = fixture_view(&w, &buffer->node, GMV_DTYPE_U1, 1 << 18, 1 << 19);
        static const int32_t rows[1001] = {[1000] = 1000};
        gmv_view *offsets = is_offsets ? imported : world_view(&w, rows, sizeof rows);
        gmv_view *characters = is_offsets ? world_view(&w, rows, sizeof rows) : imported;
        gmv_column *child = unchecked(&w, GMV_CUDF_INT32, 1001, offsets, NULL, NULL, 0);
        gmv_column *string = unchecked(&w, GMV_CUDF_STRING, 1000, characters, NULL, &child, 1);
        gmv_table *table = world_table(&w, &string, 1);
        gmv_packed *packed = world_pack(&w, table);
        cr_assert_eq(packed->metadata.n_entries, 2);

        cr_assert_eq(ftruncate(descriptor, 0), 0);
        const census before = world_census(&w);
        cr_assert_eq(gmv_pack(&w.operation, table, NULL, &packed, &w.err), GMV_ERR_MEMORY_LOST);
        census_assert_equal(before, world_census(&w));
        cr_assert_eq(close(descriptor), 0);
        fixture_next(&w);
    }
    fixture_close(&w);
}

/* ---- failures ----------------------------------------------------------------------------- */

static gmv_status chaos_split(world *w, void *context)
{
    static const int64_t splits[] = {3, 3, 20};
    gmv_node *node = NULL;
    GMV_TRY(gmv_operation_get(&w->operation, (const gmv_id *)context, GMV_KIND_TABLE, NULL, &node,
                              &w->err));
    gmv_packed **packed = NULL;
    size_t n = 0;
    int64_t nbytes = 0;
    GMV_TRY(gmv_packed_size(&w->operation, gmv_table_of(node), &nbytes, &w->err));
    GMV_TRY(gmv_contiguous_split(&w->operation, gmv_table_of(node), splits, 3, NULL, &packed, &n,
                                 &w->err));
    for (size_t i = 0; i < n; i++)
        world_delete(w, &packed[i]->node.id, GMV_IF_HELD_KEEP);
    gmv_free(packed);
    return GMV_OK;
}

Test(contiguous_split, no_failure_leaves_anything_of_a_nested_table_behind, .timeout = 600)
{
    world w;
    fixture_open(&w);
    random_state = 0xda942042e4dd58b5u;
    model *models[] = {model_list(2, 30), model_struct(2, 30), model_string(30)};
    gmv_column *columns[3];
    for (int i = 0; i < 3; i++) {
        models[i]->size = 30;
        columns[i] = model_make(&w, models[i]);
    }
    gmv_id id = world_table(&w, columns, 3)->node.id;
    world_run_chaos(&w, chaos_split, &id);
    for (int i = 0; i < 3; i++)
        model_free(models[i]);
    fixture_close(&w);
}
