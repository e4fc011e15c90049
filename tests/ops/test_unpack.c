/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unpacking nested tables: every vector in every layout, and what becomes of metadata and data that
 * lie about each other.
 */
#include <pthread.h>

#include "ops/unpack_support.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ---- vectors ------------------------------------------------------------------------------ */

static int64_t int_of(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

static void expect_view(const gmv_view *view, const gmv_view *gpu_data, int64_t offset,
                        int64_t nbytes)
{
    if (offset < 0) {
        cr_assert_null(view);
        return;
    }
    cr_assert_not_null(view);
    cr_assert(view->node.inner);
    cr_assert(view->bare);
    cr_assert_eq(view->ptr, gpu_data->ptr + (uint64_t)offset);
    cr_assert_eq(view->nbytes, nbytes);
    cr_assert_eq(view->buffer, gpu_data->buffer);
}

/* Checks the column of entry `index` and those below it; returns the entry behind them. */
static size_t expect_tree(const gmv_column *column, const json_t *entries, size_t index,
                          const gmv_view *gpu_data)
{
    const json_t *entry = json_array_get(entries, index);
    const char *type = json_string_value(json_object_get(entry, "type"));
    cr_assert_not_null(entry);
    cr_assert(column->node.inner);
    cr_assert_str_eq(gmv_cudf_type_name(column->type.id), type);
    cr_assert_eq(column->type.scale, int_of(entry, "scale"));
    cr_assert_eq(column->size, int_of(entry, "size"));
    cr_assert_eq(column->null_count, int_of(entry, "null_count"));
    cr_assert_eq(column->n_children, int_of(entry, "num_children"));
    const int64_t mask_offset = int_of(entry, "null_mask_offset");
    if (mask_offset >= 0)
        expect_view(column->null_mask, gpu_data, mask_offset, 64 * ((column->size + 511) / 512));
    else
        cr_assert_null(column->null_mask);
    const int64_t data_offset = int_of(entry, "data_offset");
    if (column->type.id != GMV_CUDF_STRING)
        expect_view(column->data, gpu_data, data_offset,
                    column->size * (int64_t)gmv_cudf_type_width(column->type.id));
    else
        cr_assert_eq(column->data != NULL, data_offset >= 0);
    index++;
    for (uint32_t i = 0; i < column->n_children; i++)
        index = expect_tree(column->children[i], entries, index, gpu_data);
    return index;
}

static void expect_partition(world *w, const json_t *vector, const json_t *partition,
                             int64_t first_row, const char *metadata_key)
{
    parcel p = parcel_of(partition, metadata_key);
    gmv_view *gpu_data = parcel_view(w, &p);
    gmv_table *table;
    cr_assert_eq(parcel_unpack(w, &p, gpu_data, &table), GMV_OK, "%s", w->err.message);
    const json_t *columns = json_object_get(json_object_get(vector, "table"), "columns");
    const json_t *entries = json_object_get(partition, "entries");
    const reading r = {gpu_data, p.gpu_data};
    size_t index = 0;
    cr_assert_eq(table->n_columns, json_array_size(columns));
    cr_assert_eq(table->num_rows, int_of(partition, "num_rows"));
    for (uint32_t i = 0; i < table->n_columns; i++) {
        const gmv_column *column = table->columns[i];
        const json_t *values = json_object_get(json_array_get(columns, i), "values");
        index = expect_tree(column, entries, index, gpu_data);
        reading_assert_sound(&r, column);
        for (int64_t row = 0; row < column->size; row++)
            reading_expect_row(&r, column, row, json_array_get(values, (size_t)(first_row + row)));
    }
    cr_assert_eq(index, json_array_size(entries));
    parcel_fini(&p);
}

Test(unpack_vectors, every_partition_shows_its_values_in_both_layouts)
{
    world w;
    fixture_open(&w);
    json_t *vectors = load_vectors("packed_metadata.json");
    size_t index, n = 0;
    json_t *vector;
    json_array_foreach (vectors, index, vector) {
        size_t k;
        json_t *partition;
        int64_t first_row = 0;
        json_array_foreach (json_object_get(vector, "expected"), k, partition) {
            expect_partition(&w, vector, partition, first_row, "metadata_hex");
            if (int_of(partition, "num_rows") == 0 ||
                json_array_size(json_object_get(partition, "entries")) > 0)
                expect_partition(&w, vector, partition, first_row, "metadata_legacy_hex");
            first_row += int_of(partition, "num_rows");
            fixture_next(&w);
            n++;
        }
    }
    cr_assert_eq(n, 105);
    json_decref(vectors);
    fixture_close(&w);
}

/* ---- lies --------------------------------------------------------------------------------- */

/* Partitions that hold all kinds of columns between them. */
static const struct {
    const char *name;
    size_t partition;
} parcels[] = {
    {"list_of_struct", 0},
    {"list_of_list_int16", 0},
    {"sliced_struct_of_list_of_string", 0},
    {"string_int64_offsets", 0},
    {"five_columns_split_5", 1},
    {"zero_rows", 0},
    {"string_sliced_to_empty_strings", 0},
};

#define PARCELS (sizeof parcels / sizeof parcels[0])

static parcel parcel_number(size_t i)
{
    json_t *partition = vector_partition(parcels[i].name, parcels[i].partition);
    parcel p = parcel_of(partition, "metadata_hex");
    json_decref(partition);
    return p;
}

/* Refused as a lie, with nothing left behind, or let through and sound. */
static void expect_harmless(world *w, const parcel *p, gmv_view *gpu_data)
{
    const census before = world_census(w);
    gmv_table *table;
    const gmv_status status = parcel_unpack(w, p, gpu_data, &table);
    if (status == GMV_OK) {
        const reading r = {gpu_data, p->gpu_data};
        for (uint32_t i = 0; i < table->n_columns; i++) {
            cr_assert_eq(table->columns[i]->size, table->num_rows);
            reading_assert_sound(&r, table->columns[i]);
        }
        return;
    }
    cr_assert_eq(status, GMV_ERR_METADATA_INVALID, "%s: %s", gmv_status_code(status),
                 w->err.message);
    cr_assert_str_eq(w->err.pointer, "/metadata");
    census_assert_equal(before, world_census(w));
}

static gmv_view *view_of(world *w, const gmv_id *id)
{
    gmv_node *node = NULL;
    if (id->kind == 0)
        return NULL;
    cr_assert_eq(gmv_operation_get(&w->operation, id, GMV_KIND_VIEW, NULL, &node, &w->err), GMV_OK);
    return gmv_view_of(node);
}

static gmv_id parcel_view_id(world *w, const parcel *p)
{
    const gmv_view *view = parcel_view(w, p);
    return view ? view->node.id : (gmv_id){0};
}

static const uint64_t hostile_values[] = {0,
                                          1,
                                          2,
                                          3,
                                          4,
                                          5,
                                          8,
                                          9,
                                          10,
                                          22,
                                          23,
                                          24,
                                          27,
                                          28,
                                          29,
                                          60,
                                          63,
                                          64,
                                          65,
                                          128,
                                          192,
                                          320,
                                          384,
                                          448,
                                          512,
                                          65536,
                                          0x7fffffff,
                                          0x80000000,
                                          0xffffffff,
                                          0xfffffffe,
                                          0x100000000,
                                          0x7fffffffffffffc0,
                                          0x7fffffffffffffff,
                                          0x8000000000000000,
                                          0xfffffffffffffffe,
                                          0xffffffffffffffff};

Test(unpack_lies, no_field_of_metadata_can_be_made_to_harm)
{
    world w;
    fixture_open(&w);
    for (size_t k = 0; k < PARCELS; k++) {
        parcel p = parcel_number(k);
        const gmv_id id = parcel_view_id(&w, &p);
        for (size_t width = 4; width <= 8; width += 4) {
            for (size_t at = 0; at + width <= p.metadata_nbytes; at += 4) {
                for (size_t i = 0; i < sizeof hostile_values / sizeof hostile_values[0]; i++) {
                    uint8_t kept[8];
                    memcpy(kept, p.metadata + at, width);
                    memcpy(p.metadata + at, &hostile_values[i], width);
                    fixture_next(&w);
                    expect_harmless(&w, &p, view_of(&w, &id));
                    memcpy(p.metadata + at, kept, width);
                }
            }
        }
        parcel_fini(&p);
    }
    fixture_close(&w);
}

Test(unpack_lies, no_byte_of_data_can_be_made_to_harm)
{
    static const uint8_t masks[] = {0x01, 0x80, 0xff};
    world w;
    fixture_open(&w);
    size_t refused = 0;
    for (size_t k = 0; k < PARCELS; k++) {
        parcel p = parcel_number(k);
        for (size_t at = 0; at < p.gpu_data_nbytes; at++) {
            for (size_t i = 0; i < sizeof masks; i++) {
                p.gpu_data[at] ^= masks[i];
                fixture_next(&w);
                expect_harmless(&w, &p, parcel_view(&w, &p));
                refused += w.err.message[0] != '\0';
                p.gpu_data[at] ^= masks[i];
            }
        }
        parcel_fini(&p);
    }
    cr_assert_gt(refused, 500);
    fixture_close(&w);
}

Test(unpack_lies, gpu_data_cut_short_is_refused_at_every_length_that_cuts_a_buffer)
{
    world w;
    fixture_open(&w);
    for (size_t k = 0; k < PARCELS; k++) {
        parcel p = parcel_number(k);
        size_t refused = 0;
        for (size_t nbytes = 0; nbytes < p.gpu_data_nbytes; nbytes++) {
            parcel cut = p;
            cut.gpu_data_nbytes = nbytes;
            fixture_next(&w);
            gmv_view *view = parcel_view(&w, &cut);
            expect_harmless(&w, &cut, view);
            refused += w.err.message[0] != '\0';
        }
        /* All but the padding of the last buffer is needed. */
        cr_assert_geq(refused + 64, p.gpu_data_nbytes);
        parcel_fini(&p);
    }
    fixture_close(&w);
}

typedef struct data_lie {
    size_t at; /* an offset of list_of_struct (64: lists, 448: strings) */
    int32_t value;
    const char *says;
} data_lie;

static const data_lie data_lies[] = {
    {64, 1, "offsets start at 1, not at 0"},
    {64, -1, "offsets start at -1, not at 0"},
    {64 + 4, 9, "offset number 2 is below the one before it"},
    {64 + 4, -1, "offset number 1 is below"},
    {64 + 4, INT32_MIN, "offset number 1 is below"},
    {64 + 4, INT32_MAX, "offset number 1 is below the one before it, or above 9"},
    {64 + 24, 10, "offsets end at 10, but the number of its elements is 9"},
    {64 + 24, 8, "offsets end at 8, but the number of its elements is 9"},
    {64 + 24, 5, "offset number 6 is below"},
    {64 + 4, 3, "offset number 2 is below"},
    {64 + 4, 1, NULL}, /* other lists, but sound ones */
    {448, 1, "offsets start at 1"},
    {448 + 36, INT32_MAX, "end at 2147483647, but the most that its characters can be is 128"},
    {448 + 36, -1, "end at -1, but"},
    {448 + 36, 129, "end at 129, but the most that its characters can be is 128"},
    {448 + 36, 65, "overlaps"}, /* the offsets come after 64 bytes */
    {448 + 36, 64, NULL},
    {448 + 20, 14, "offset number 6 is below"},
    {0, 0x1d, "null_count is 1, but its mask has 2 nulls"},
};

Test(unpack_lies, offsets_and_masks_are_read_and_judged)
{
    for (size_t i = 0; i < sizeof data_lies / sizeof data_lies[0]; i++) {
        const data_lie *row = &data_lies[i];
        world w;
        fixture_open(&w);
        parcel p = parcel_number(0);
        memcpy(p.gpu_data + row->at, &row->value, sizeof row->value);
        gmv_view *view = parcel_view(&w, &p);
        gmv_table *table;
        const gmv_status status = parcel_unpack(&w, &p, view, &table);
        cr_assert_eq(status, row->says ? GMV_ERR_METADATA_INVALID : GMV_OK, "row %zu: %s", i,
                     w.err.message);
        if (row->says)
            cr_assert_not_null(strstr(w.err.message, row->says), "row %zu: '%s' is not in '%s'", i,
                               row->says, w.err.message);
        parcel_fini(&p);
        fixture_close(&w);
    }
}

Test(unpack_lies, data_at_any_address_is_read_unless_it_is_misaligned)
{
    world w;
    fixture_open(&w);
    parcel p = parcel_number(0);
    for (uint64_t shift = 0; shift <= 16; shift++) {
        gmv_view *all = world_view(&w, NULL, p.gpu_data_nbytes + 64);
        const gmv_layout layout = gmv_layout_flat((int64_t)p.gpu_data_nbytes);
        gmv_view *view = world_view_as(&w, all, GMV_DTYPE_U1, &layout, shift, NULL, GMV_MASK_NONE);
        cr_assert_eq(gmv_copy_in(w.streams[0], view->ptr, p.gpu_data, p.gpu_data_nbytes, &w.err),
                     GMV_OK);
        gmv_table *table;
        const gmv_status status = parcel_unpack(&w, &p, view, &table);
        cr_assert_eq(status, shift % 4 == 0 ? GMV_OK : GMV_ERR_VALUE, "shift %d", (int)shift);
        if (status != GMV_OK)
            cr_assert_str_eq(w.err.pointer, "/gpu_data");
    }
    parcel_fini(&p);
    fixture_close(&w);
}

/* ---- what clients wrote to ---------------------------------------------------------------- */

/* A packed handle of an unpacked column's memory, written to behind its back. */
Test(unpack_lies, a_released_views_offsets_are_read_again)
{
    world w;
    fixture_open(&w);
    parcel p = parcel_number(0);
    gmv_view *view = parcel_view(&w, &p);
    gmv_table *table;
    cr_assert_eq(parcel_unpack(&w, &p, view, &table), GMV_OK);
    world_write(&w, view, 64 + 4, 100);
    cr_assert_eq(parcel_unpack(&w, &p, view, &table), GMV_ERR_METADATA_INVALID);
    cr_assert_null(table);
    world_write(&w, view, 64 + 4, p.gpu_data[64 + 4]);
    cr_assert_eq(parcel_unpack(&w, &p, view, &table), GMV_OK);
    parcel_fini(&p);
    fixture_close(&w);
}

/* A thread that writes any bytes over gpu_data, as an exporter may at any time. */
typedef struct scribbler {
    uint8_t *bytes;
    const parcel *p;
    GMV_ATOMIC(bool) stops;
} scribbler;

static void *scribble(void *context)
{
    static const int32_t numbers[] = {0, -1, INT32_MAX, INT32_MIN, 9, 100, 14, 1 << 20};
    scribbler *s = (scribbler *)context;
    for (uint32_t i = 0; !atomic_load(&s->stops); i++) {
        const size_t at = i * 52u % (s->p->gpu_data_nbytes - 4);
        memcpy(s->bytes + at / 4 * 4, &numbers[i % COUNT(numbers)], 4);
        if (i % 5 == 0)
            memcpy(s->bytes, s->p->gpu_data, s->p->gpu_data_nbytes);
    }
    return NULL;
}

/* What was let through stays inside gpu_data, whatever its offsets say by now. */
static void expect_inside(const gmv_column *column, const gmv_view *gpu_data)
{
    const gmv_view *const views[] = {column->data, column->null_mask};
    for (size_t i = 0; i < 2; i++) {
        if (!views[i])
            continue;
        cr_assert_geq(views[i]->ptr, gpu_data->ptr);
        cr_assert_leq(views[i]->ptr + (uint64_t)views[i]->nbytes,
                      gpu_data->ptr + (uint64_t)gpu_data->nbytes);
    }
    for (uint32_t i = 0; i < column->n_children; i++)
        expect_inside(column->children[i], gpu_data);
}

Test(unpack_lies, data_that_changes_meanwhile_cannot_be_made_to_harm)
{
    world w;
    fixture_open(&w);
    fixture_host_only(&w, "a thread writes to the memory directly");
    parcel p = parcel_number(0);
    const gmv_id id = parcel_view_id(&w, &p);
    scribbler s = {.p = &p};
    s.bytes = gmv_memory_host_pointer(view_of(&w, &id)->buffer->memory);
    atomic_init(&s.stops, false);
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, scribble, &s), 0);
    size_t n_read = 0;
    for (int i = 0; i < 20000; i++) {
        fixture_next(&w);
        gmv_view *gpu_data = view_of(&w, &id);
        gmv_table *table;
        const gmv_status status = parcel_unpack(&w, &p, gpu_data, &table);
        cr_assert(status == GMV_OK || status == GMV_ERR_METADATA_INVALID);
        if (status != GMV_OK)
            continue;
        n_read++;
        expect_inside(table->columns[0], gpu_data);
        gmv_packed *packed = world_pack(&w, table);
        const gmv_id ids[] = {packed->node.id, table->node.id};
        fixture_next(&w);
        world_delete(&w, &ids[0], GMV_IF_HELD_KEEP);
        world_delete(&w, &ids[1], GMV_IF_HELD_KEEP);
    }
    atomic_store(&s.stops, true);
    cr_assert_eq(pthread_join(thread, NULL), 0);
    cr_assert_gt(n_read, 0);
    parcel_fini(&p);
    fixture_close(&w);
}

/* ---- lives -------------------------------------------------------------------------------- */

Test(unpack, everything_below_the_table_goes_with_it)
{
    world w;
    fixture_open(&w);
    const census before = world_census(&w);
    parcel p = parcel_number(0);
    const gmv_id view_id = parcel_view_id(&w, &p);
    gmv_table *table;
    cr_assert_eq(parcel_unpack(&w, &p, view_of(&w, &view_id), &table), GMV_OK);
    const gmv_id table_id = table->node.id;
    const gmv_id deepest = table->columns[0]->children[1]->children[1]->children[0]->data->node.id;
    fixture_next(&w);
    cr_assert_eq(world_delete(&w, &view_id, GMV_IF_HELD_KEEP).freed_nbytes, 0);
    cr_assert_eq(world_look_up(&w, &deepest), GMV_OK);
    const gmv_deletion deletion = world_delete(&w, &table_id, GMV_IF_HELD_KEEP);
    cr_assert_eq(deletion.freed_nbytes, p.gpu_data_nbytes);
    /* A table, 6 columns, 4 of them with data and 4 with a mask, the view and its buffer. */
    cr_assert_eq(deletion.freed_count, 1 + 6 + 4 + 4 + 2);
    cr_assert_eq(world_look_up(&w, &deepest), GMV_ERR_HANDLE_DELETED);
    census_assert_equal(before, world_census(&w));
    parcel_fini(&p);
    fixture_close(&w);
}

/*
 * Names over one list of strings, deleted in every order. What is alive can be read at any time;
 * nothing is left in the end.
 */
enum { LIFE_NAMES = 7 };

typedef struct life {
    gmv_id ids[LIFE_NAMES]; /* buffer, view, table, packed, unpacked, split, table of a child */
    uint64_t nbytes;
} life;

static gmv_node *life_get(world *w, const gmv_id *id)
{
    gmv_node *node = NULL;
    const gmv_status status =
        gmv_operation_get(&w->operation, id, GMV_KIND_ANY, NULL, &node, &w->err);
    gmv_error_init(&w->err);
    return status == GMV_OK ? node : NULL;
}

static life life_make(world *w, const parcel *p)
{
    life l = {.nbytes = 0};
    gmv_buffer *buffer = fixture_buffer(w, p->gpu_data, p->gpu_data_nbytes);
    gmv_view *view = fixture_view(w, &buffer->node, GMV_DTYPE_U1, (int64_t)p->gpu_data_nbytes, 0);
    gmv_table *table, *other;
    cr_assert_eq(parcel_unpack(w, p, view, &table), GMV_OK, "%s", w->err.message);
    gmv_packed *packed = world_pack(w, table);
    gmv_table *again = world_unpack(w, packed);
    static const int64_t splits[] = {3};
    size_t n;
    gmv_packed **parts = world_split(w, again, splits, 1, &n);
    cr_assert_eq(n, 2);
    gmv_column *const column = again->columns[0]->children[1];
    cr_assert_eq(gmv_table_create(&w->operation, &column, 1, false, 0, NULL, &other, &w->err),
                 GMV_OK);
    l.ids[0] = buffer->node.id;
    l.ids[1] = view->node.id;
    l.ids[2] = table->node.id;
    l.ids[3] = packed->node.id;
    l.ids[4] = again->node.id;
    l.ids[5] = parts[1]->node.id;
    l.ids[6] = other->node.id;
    l.nbytes = p->gpu_data_nbytes + (uint64_t)packed->gpu_data_nbytes +
               (uint64_t)parts[1]->gpu_data_nbytes;
    const gmv_id first_part = parts[0]->node.id;
    gmv_free(parts);
    fixture_next(w);
    world_delete(w, &first_part, GMV_IF_HELD_KEEP);
    return l;
}

/* Everything that still has a name shows what it did. */
static void life_expect(world *w, const life *l)
{
    gmv_node *node;
    fixture_next(w);
    for (size_t i = 0; i < LIFE_NAMES; i++) {
        if (l->ids[i].kind != GMV_KIND_TABLE || !(node = life_get(w, &l->ids[i])))
            continue;
        gmv_packed *packed = world_pack(w, gmv_table_of(node));
        uint8_t *bytes = world_read(w, world_gpu_data(w, packed));
        cr_assert_gt(packed->gpu_data_nbytes, 0);
        const uint8_t mask = bytes[0]; /* of lists, or of structs */
        cr_assert_eq(mask, i == 6 ? 0xf7 : 0x3d);
        free(bytes);
        const gmv_id id = packed->node.id;
        fixture_next(w);
        world_delete(w, &id, GMV_IF_HELD_KEEP);
    }
    if ((node = life_get(w, &l->ids[3]))) {
        uint8_t *bytes = world_read(w, world_gpu_data(w, gmv_packed_of(node)));
        cr_assert_eq(memcmp(bytes + 384, "abbddddeghhiii", 14), 0);
        free(bytes);
    }
    fixture_next(w);
}

static void life_delete(world *w, const parcel *p, const size_t order[LIFE_NAMES], bool looks,
                        const census *before)
{
    const life l = life_make(w, p);
    uint64_t freed_nbytes = 0;
    for (size_t i = 0; i < LIFE_NAMES; i++) {
        freed_nbytes += world_delete(w, &l.ids[order[i]], GMV_IF_HELD_KEEP).freed_nbytes;
        if (looks)
            life_expect(w, &l);
    }
    cr_assert_eq(freed_nbytes, l.nbytes);
    census_assert_equal(*before, world_census(w));
}

static void life_in_every_order(world *w, const parcel *p, size_t order[LIFE_NAMES], size_t fixed,
                                const census *before, size_t *n)
{
    if (fixed == LIFE_NAMES) {
        life_delete(w, p, order, (*n)++ % 16 == 0, before);
        return;
    }
    for (size_t i = fixed; i < LIFE_NAMES; i++) {
        const size_t kept = order[fixed];
        order[fixed] = order[i];
        order[i] = kept;
        life_in_every_order(w, p, order, fixed + 1, before, n);
        order[i] = order[fixed];
        order[fixed] = kept;
    }
}

Test(unpack, names_over_nested_memory_can_go_in_any_order)
{
    world w;
    fixture_open(&w);
    parcel p = parcel_number(0);
    const census before = world_census(&w);
    size_t order[LIFE_NAMES] = {0, 1, 2, 3, 4, 5, 6}, n = 0;
    life_in_every_order(&w, &p, order, 0, &before, &n);
    cr_assert_eq(n, 5040);
    parcel_fini(&p);
    fixture_close(&w);
}

/* A released view, the emptied handle and a table unpacked before: the memory goes with the last.
 */
Test(unpack, release_leaves_a_nested_table_its_memory_in_any_order)
{
    static const size_t orders[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                       {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    world w;
    fixture_open(&w);
    parcel p = parcel_number(0);
    const gmv_id source_view = parcel_view_id(&w, &p);
    gmv_table *source;
    cr_assert_eq(parcel_unpack(&w, &p, view_of(&w, &source_view), &source), GMV_OK);
    const gmv_id source_id = source->node.id;
    fixture_next(&w);
    const census before = world_census(&w);
    for (size_t i = 0; i < COUNT(orders); i++) {
        gmv_packed *packed = world_pack(&w, gmv_table_of(life_get(&w, &source_id)));
        gmv_table *table = world_unpack(&w, packed);
        gmv_view *released = NULL;
        cr_assert_eq(gmv_packed_release(&w.operation, packed, &released, &w.err), GMV_OK);
        const gmv_id ids[] = {packed->node.id, released->node.id, table->node.id};
        bool is_gone[3] = {false};
        fixture_next(&w);
        for (size_t k = 0; k < 3; k++) {
            const bool had_gone = is_gone[1] && is_gone[2];
            gmv_node *left = life_get(&w, &ids[2]);
            if (left) {
                gmv_packed *again = world_pack(&w, gmv_table_of(left));
                uint8_t *bytes = world_read(&w, world_gpu_data(&w, again));
                cr_assert_eq(memcmp(bytes + 384, "abbddddeghhiii", 14), 0);
                free(bytes);
                const gmv_id id = again->node.id;
                fixture_next(&w);
                world_delete(&w, &id, GMV_IF_HELD_KEEP);
            }
            const uint64_t freed =
                world_delete(&w, &ids[orders[i][k]], GMV_IF_HELD_KEEP).freed_nbytes;
            is_gone[orders[i][k]] = true;
            cr_assert_eq(freed, !had_gone && is_gone[1] && is_gone[2] ? p.gpu_data_nbytes : 0);
        }
        census_assert_equal(before, world_census(&w));
    }
    parcel_fini(&p);
    fixture_close(&w);
}

typedef struct chaos_parcel {
    parcel p;
    gmv_id view_id;
} chaos_parcel;

static gmv_status chaos_unpack(world *w, void *context)
{
    const chaos_parcel *chaos = (const chaos_parcel *)context;
    gmv_node *node = NULL;
    GMV_TRY(gmv_operation_get(&w->operation, &chaos->view_id, GMV_KIND_VIEW, NULL, &node, &w->err));
    gmv_table *table = NULL;
    GMV_TRY(parcel_unpack(w, &chaos->p, gmv_view_of(node), &table));
    world_delete(w, &table->node.id, GMV_IF_HELD_KEEP);
    return GMV_OK;
}

Test(unpack, no_failure_below_a_nested_table_leaves_anything_behind)
{
    world w;
    fixture_open(&w);
    chaos_parcel chaos = {.p = parcel_number(0)};
    chaos.view_id = parcel_view_id(&w, &chaos.p);
    world_run_chaos(&w, chaos_unpack, &chaos);
    parcel_fini(&chaos.p);
    fixture_close(&w);
}

/* Structs within structs, `levels` columns deep in all. */
static parcel deep_parcel(int32_t levels)
{
    gmv_packed_entry *entries = calloc((size_t)levels, sizeof *entries);
    for (int32_t i = 0; i < levels; i++)
        entries[i] = (gmv_packed_entry){GMV_CUDF_STRUCT, 0, 1, 0, -1, -1, 1};
    entries[levels - 1] = (gmv_packed_entry){GMV_CUDF_INT8, 0, 1, 0, 0, -1, 0};
    const gmv_packed_metadata metadata = {
        .num_columns = 1, .num_rows = 1, .n_entries = (size_t)levels, .entries = entries};
    parcel p = {.gpu_data_nbytes = 64, .gpu_data = calloc(1, 64)};
    p.metadata_nbytes = gmv_packed_metadata_nbytes(&metadata, GMV_PACKED_VERSION);
    p.metadata = malloc(p.metadata_nbytes);
    gmv_packed_metadata_encode(&metadata, GMV_PACKED_VERSION, p.metadata);
    free(entries);
    return p;
}

Test(unpack, columns_nest_as_deep_as_metadata_may)
{
    for (int32_t levels = GMV_PACKED_DEPTH_MAX; levels <= GMV_PACKED_DEPTH_MAX + 1; levels++) {
        world w;
        fixture_open(&w);
        parcel p = deep_parcel(levels);
        gmv_table *table;
        const bool good = levels == GMV_PACKED_DEPTH_MAX;
        cr_assert_eq(parcel_unpack(&w, &p, parcel_view(&w, &p), &table),
                     good ? GMV_OK : GMV_ERR_METADATA_INVALID, "%s", w.err.message);
        if (good)
            cr_assert_eq(table->columns[0]->n_entries, (uint32_t)levels);
        parcel_fini(&p);
        fixture_close(&w);
    }
}

/* ---- layouts of earlier releases ---------------------------------------------------------- */

#define NONE (-1)

/* Three strings as before 24.02, offsets (INT32) and characters (INT8) being children. */
static parcel old_strings(int64_t stub_null_count)
{
    static const gmv_packed_entry entries[] = {
        {GMV_CUDF_STRING, 0, 3, 1, NONE, 0, 2},
        {GMV_CUDF_INT32, 0, 4, 0, 64, NONE, 0},
        {GMV_CUDF_INT8, 0, 5, 0, 128, NONE, 0},
        {GMV_CUDF_INT16, 0, 3, 0, 192, NONE, 0},
    };
    static const int32_t offsets[] = {0, 2, 2, 5};
    gmv_packed_entry copy[4];
    memcpy(copy, entries, sizeof copy);
    const gmv_packed_metadata metadata = {
        .num_columns = 2, .num_rows = 3, .n_entries = 4, .entries = copy};
    parcel p = {.gpu_data_nbytes = 256};
    p.metadata_nbytes = gmv_packed_metadata_nbytes(&metadata, GMV_PACKED_HEADERLESS);
    p.metadata = malloc(p.metadata_nbytes);
    p.gpu_data = calloc(1, p.gpu_data_nbytes);
    gmv_packed_metadata_encode(&metadata, GMV_PACKED_HEADERLESS, p.metadata);
    const int32_t null_count = (int32_t)stub_null_count;
    memcpy(p.metadata + 12, &null_count, sizeof null_count);
    p.gpu_data[0] = 0x05;
    memcpy(p.gpu_data + 64, offsets, sizeof offsets);
    memcpy(p.gpu_data + 128, "abcde", 5);
    return p;
}

Test(unpack_old, strings_with_characters_as_a_child_are_read)
{
    for (int stub_null_count = -1; stub_null_count <= 0; stub_null_count++) {
        world w;
        fixture_open(&w);
        parcel p = old_strings(stub_null_count);
        gmv_view *view = parcel_view(&w, &p);
        gmv_table *table;
        cr_assert_eq(parcel_unpack(&w, &p, view, &table), GMV_OK, "%s", w.err.message);
        cr_assert_eq(table->n_columns, 2);
        cr_assert_eq(table->columns[0]->n_children, 1);
        cr_assert_eq(table->columns[0]->data->ptr, view->ptr + 128);
        cr_assert_eq(table->columns[0]->data->nbytes, 5);
        json_t *want = json_pack("[s, n, s]", "ab", "cde");
        const reading r = {view, p.gpu_data};
        for (int64_t row = 0; row < 3; row++)
            reading_expect_row(&r, table->columns[0], row, json_array_get(want, (size_t)row));
        json_decref(want);
        parcel_fini(&p);
        fixture_close(&w);
    }
}

Test(unpack_old, characters_must_end_where_their_child_does)
{
    static const int32_t ends[] = {4, 6, 5};
    for (size_t i = 0; i < 3; i++) {
        world w;
        fixture_open(&w);
        parcel p = old_strings(0);
        memcpy(p.gpu_data + 64 + 12, &ends[i], 4);
        gmv_table *table;
        const gmv_status status = parcel_unpack(&w, &p, parcel_view(&w, &p), &table);
        cr_assert_eq(status, ends[i] == 5 ? GMV_OK : GMV_ERR_METADATA_INVALID);
        if (status != GMV_OK)
            cr_assert_not_null(strstr(w.err.message, "offsets end at"), "%s", w.err.message);
        parcel_fini(&p);
        fixture_close(&w);
    }
}
