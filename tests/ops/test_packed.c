/* SPDX-License-Identifier: Apache-2.0 */
/* Packed handles: release, unpack, metadata that lies, and who keeps what alive. */
#include <jansson.h>
#include <pthread.h>

#include "ops/packed_support.h"

static const uint8_t zeros[4096];

/* INT32 with nulls at rows 1 and 3, and UINT8 without a mask; 5 rows, sliced from row 1. */
static gmv_table *two_columns(world *w)
{
    static const int32_t i4[] = {9, 10, 20, 30, 40, 50};
    gmv_column *const columns[] = {
        world_column(w, GMV_CUDF_INT32, 5, 1, i4, sizeof i4, "\xeb", 1),
        world_column(w, GMV_CUDF_UINT8, 5, 1, "abcdef", 6, NULL, 0),
    };
    return world_table(w, columns, 2);
}

static void assert_two_columns(world *w, gmv_table *table)
{
    static const int32_t i4[] = {10, 20, 30, 40, 50};
    cr_assert_eq(table->num_rows, 5);
    cr_assert_eq(table->n_columns, 2);
    gmv_column_rows rows;
    cr_assert_eq(gmv_column_read_rows(&w->operation, table->columns[0], 0, 5, &rows, &w->err),
                 GMV_OK);
    cr_assert_eq(memcmp(rows.data, i4, sizeof i4), 0);
    cr_assert_eq(rows.validity[0], 0x15);
    gmv_column_rows_fini(&rows);
    cr_assert_eq(gmv_column_read_rows(&w->operation, table->columns[1], 0, 5, &rows, &w->err),
                 GMV_OK);
    cr_assert_eq(memcmp(rows.data, "bcdef", 5), 0);
    cr_assert_null(rows.validity);
    gmv_column_rows_fini(&rows);
}

static gmv_node *get(world *w, const gmv_id *id)
{
    gmv_node *node = NULL;
    const gmv_status status =
        gmv_operation_get(&w->operation, id, GMV_KIND_ANY, NULL, &node, &w->err);
    cr_assert_eq(status, GMV_OK, "%s", w->err.message);
    return node;
}

static size_t owners_of(world *w, const gmv_node *node, gmv_id out_ids[8])
{
    return gmv_registry_owners(w->engine.registry, node, out_ids, 8);
}

/* ---- what there is ------------------------------------------------------------------------ */

Test(packed, it_owns_an_inner_view_of_an_inner_buffer)
{
    world w;
    fixture_open(&w);
    gmv_packed *packed = world_pack(&w, two_columns(&w));
    gmv_view *gpu_data = world_gpu_data(&w, packed);
    cr_assert_not(packed->node.inner);
    cr_assert(gpu_data->node.inner);
    cr_assert(gpu_data->bare);
    cr_assert_eq(gpu_data->dtype, GMV_DTYPE_U1);
    cr_assert_eq(gpu_data->nbytes, 3 * 64);
    cr_assert_eq(gpu_data->ptr % 64, 0);
    cr_assert(gpu_data->buffer->node.inner);
    cr_assert_eq(gpu_data->buffer->origin, GMV_ORIGIN_COMPUTED);
    cr_assert_eq(packed->device, 0);
    gmv_id ids[8];
    cr_assert_eq(owners_of(&w, &packed->node, ids), 1);
    cr_assert(gmv_id_equal(&ids[0], &gpu_data->node.id));
    gmv_handle_info info;
    cr_assert_eq(
        gmv_registry_describe(w.engine.registry, &w.caller, &packed->node.id, &info, &w.err),
        GMV_OK);
    cr_assert_eq(info.nbytes, 3 * 64);
    fixture_close(&w);
}

Test(packed, the_worked_example_of_the_contract)
{
    static const uint32_t floats[10] = {0x3fc00000, 0x7fc00000, 0x40400000, 0x40800000, 0x7fc00000,
                                        0x40c00000, 0x40e00000, 0x41000000, 0x41100000, 0x41200000};
    static const int64_t splits[] = {2, 5};
    static const int32_t num_rows[] = {2, 3, 5}, null_counts[] = {1, 1, 0};
    world w;
    fixture_open(&w);
    gmv_column *column =
        world_column(&w, GMV_CUDF_FLOAT32, 10, 0, floats, sizeof floats, "\xed\x03", 64 - 62);
    cr_assert_eq(column->null_count, 2);
    size_t n;
    gmv_packed **packed = world_split(&w, world_table(&w, &column, 1), splits, 2, &n);
    cr_assert_eq(n, 3);
    for (size_t i = 0; i < n; i++) {
        cr_assert_eq(packed[i]->metadata.num_rows, num_rows[i]);
        cr_assert_eq(packed[i]->metadata.entries[0].null_count, null_counts[i]);
        cr_assert_eq(packed[i]->metadata.entries[0].null_mask_offset, 0);
        cr_assert_eq(packed[i]->metadata.entries[0].data_offset, 64);
        cr_assert_eq(gmv_packed_metadata_nbytes(&packed[i]->metadata, GMV_PACKED_VERSION), 56);
        cr_assert_eq(world_gpu_data(&w, packed[i])->nbytes, 128);
    }
    gmv_free(packed);
    fixture_close(&w);
}

Test(packed, what_was_packed_needs_nothing_of_its_source)
{
    world w;
    fixture_open(&w);
    gmv_table *table = two_columns(&w);
    const gmv_id packed_id = world_pack(&w, table)->node.id;
    const gmv_id ids[] = {table->node.id,
                          table->columns[0]->node.id,
                          table->columns[1]->node.id,
                          table->columns[0]->data->node.id,
                          table->columns[0]->null_mask->node.id,
                          table->columns[1]->data->node.id};
    fixture_next(&w);
    for (size_t i = 0; i < 6; i++)
        world_delete(&w, &ids[i], GMV_IF_HELD_KEEP);
    const census left = world_census(&w);
    cr_assert_eq(left.alive, 3, "packed, view, buffer");
    cr_assert_eq(left.registered_nbytes, 3 * 64);
    assert_two_columns(&w, world_unpack(&w, gmv_packed_of(get(&w, &packed_id))));
    fixture_close(&w);
}

/* ---- unpack ------------------------------------------------------------------------------- */

Test(unpack, its_columns_are_inner_and_point_into_gpu_data)
{
    world w;
    fixture_open(&w);
    gmv_packed *packed = world_pack(&w, two_columns(&w));
    gmv_view *gpu_data = world_gpu_data(&w, packed);
    gmv_table *table = world_unpack(&w, packed);
    assert_two_columns(&w, table);
    cr_assert_not(table->node.inner);
    for (uint32_t i = 0; i < table->n_columns; i++) {
        const gmv_column *column = table->columns[i];
        const gmv_packed_entry *entry = &packed->metadata.entries[i];
        cr_assert(column->node.inner);
        cr_assert(column->data->node.inner);
        cr_assert_eq(column->offset, 0);
        cr_assert_eq(column->data->ptr, gpu_data->ptr + (uint64_t)entry->data_offset);
        cr_assert_eq(column->data->dtype, GMV_DTYPE_U1);
        cr_assert_eq(column->data->nbytes, 5 * (int64_t)gmv_cudf_type_width(column->type.id));
        cr_assert_eq(column->data->buffer, gpu_data->buffer);
        gmv_id ids[8];
        cr_assert_eq(owners_of(&w, &column->data->node, ids), 2);
        cr_assert(gmv_id_equal(&ids[0], &gpu_data->node.id));
        cr_assert(gmv_id_equal(&ids[1], &packed->node.id));
    }
    cr_assert_eq(table->columns[0]->null_mask->nbytes, 64);
    cr_assert_eq(table->columns[0]->null_count, 2);
    cr_assert_null(table->columns[1]->null_mask);
    fixture_close(&w);
}

Test(unpack, members_live_as_long_as_what_is_made_from_them)
{
    world w;
    fixture_open(&w);
    gmv_packed *packed = world_pack(&w, two_columns(&w));
    gmv_table *table = world_unpack(&w, packed);
    const gmv_id packed_id = packed->node.id, table_id = table->node.id;
    const gmv_id c0 = table->columns[0]->node.id, c1 = table->columns[1]->node.id;
    const gmv_id buffer_id = world_gpu_data(&w, packed)->buffer->node.id;
    fixture_next(&w);

    const gmv_deletion of_packed = world_delete(&w, &packed_id, GMV_IF_HELD_KEEP);
    cr_assert(of_packed.alive);
    cr_assert_eq(of_packed.kept_alive_by_count, 3, "the views of both columns and a mask");
    cr_assert_eq(world_look_up(&w, &packed_id), GMV_ERR_HANDLE_DELETED);
    cr_assert(w.err.subject_alive);

    gmv_column *column = gmv_column_of(get(&w, &c1));
    const gmv_id other_id = world_table(&w, &column, 1)->node.id;
    fixture_next(&w);
    world_delete(&w, &table_id, GMV_IF_HELD_KEEP);
    cr_assert_eq(world_look_up(&w, &c0), GMV_ERR_HANDLE_DELETED);
    cr_assert_eq(world_look_up(&w, &c1), GMV_OK);
    gmv_column_rows rows;
    cr_assert_eq(
        gmv_column_read_rows(&w.operation, gmv_column_of(get(&w, &c1)), 0, 5, &rows, &w.err),
        GMV_OK);
    cr_assert_eq(memcmp(rows.data, "bcdef", 5), 0);
    gmv_column_rows_fini(&rows);
    fixture_next(&w);

    const gmv_deletion of_other = world_delete(&w, &other_id, GMV_IF_HELD_KEEP);
    cr_assert_eq(of_other.freed_nbytes, 3 * 64);
    cr_assert_eq(world_look_up(&w, &c1), GMV_ERR_HANDLE_DELETED);
    cr_assert_eq(world_look_up(&w, &buffer_id), GMV_ERR_HANDLE_DELETED);
    cr_assert_not(w.err.subject_alive);
    cr_assert_eq(world_look_up(&w, &packed_id), GMV_ERR_HANDLE_DELETED);
    cr_assert_not(w.err.subject_alive);
    fixture_close(&w);
}

Test(unpack, a_cascade_takes_what_was_made_from_a_member)
{
    world w;
    fixture_open(&w);
    gmv_packed *packed = world_pack(&w, two_columns(&w));
    gmv_table *table = world_unpack(&w, packed);
    const gmv_slice slice = {.has_start = true, .start = 1, .has_stop = true, .stop = 3};
    gmv_view *child = NULL;
    cr_assert_eq(
        gmv_view_byte_slice(&w.operation, table->columns[1]->data, &slice, NULL, &child, &w.err),
        GMV_OK);
    const gmv_id packed_id = packed->node.id, table_id = table->node.id;
    const gmv_id inner = table->columns[0]->node.id, child_id = child->node.id;
    fixture_next(&w);
    gmv_deletion deletion;
    cr_assert_eq(gmv_registry_delete(w.engine.registry, &w.caller, &inner, GMV_KIND_ANY,
                                     GMV_IF_HELD_KEEP, &deletion, &w.err),
                 GMV_ERR_HANDLE_INNER);
    deletion = world_delete(&w, &packed_id, GMV_IF_HELD_CASCADE);
    cr_assert_eq(deletion.deleted, 3);
    cr_assert_eq(world_look_up(&w, &table_id), GMV_ERR_HANDLE_DELETED);
    cr_assert_eq(world_look_up(&w, &child_id), GMV_ERR_HANDLE_DELETED);
    cr_assert_eq(deletion.freed_nbytes, 3 * 64);
    fixture_close(&w);
}

Test(unpack, more_columns_than_the_short_lane_makes_are_moved_to_the_bulk_lane)
{
    enum { N = 400 };
    world w;
    fixture_open(&w);
    gmv_column *columns[N];
    columns[0] = world_column(&w, GMV_CUDF_INT8, 2, 0, zeros, 2, NULL, 0);
    for (size_t i = 1; i < N; i++)
        columns[i] = columns[0];
    const gmv_id id = world_pack(&w, world_table(&w, columns, N))->node.id;
    fixture_end(&w);
    fixture_begin_lane(&w, GMV_LANE_SHORT);
    gmv_table *table = NULL;
    cr_assert_eq(gmv_unpack(&w.operation, gmv_packed_of(get(&w, &id)), NULL, &table, &w.err),
                 GMV_MOVE_TO_BULK);
    cr_assert_null(table);
    fixture_next(&w);
    cr_assert_eq(world_unpack(&w, gmv_packed_of(get(&w, &id)))->n_columns, N);
    fixture_close(&w);
}

/* Names that depend on each other, deleted in every order; memory goes when its last holder does.
 */
enum { DELETED_NAMES = 6 };

static void build_names(world *w, gmv_id ids[DELETED_NAMES])
{
    gmv_view *data = world_view(w, zeros, 64);
    gmv_column *column = world_column_over(w, (gmv_cudf_type){GMV_CUDF_INT8, 0}, 16, 0, data,
                                           world_view(w, "\xff\x0f", 2));
    gmv_table *table = world_table(w, &column, 1);
    gmv_packed *packed = world_pack(w, table);
    ids[0] = packed->node.id;
    ids[1] = world_unpack(w, packed)->node.id;
    ids[2] = table->node.id;
    ids[3] = column->node.id;
    ids[4] = data->node.id;
    ids[5] = column->null_mask->node.id;
    fixture_next(w);
}

static void delete_in_every_order(world *w, size_t order[DELETED_NAMES], size_t fixed,
                                  const census *before)
{
    if (fixed < DELETED_NAMES) {
        for (size_t i = fixed; i < DELETED_NAMES; i++) {
            const size_t kept = order[fixed];
            order[fixed] = order[i];
            order[i] = kept;
            delete_in_every_order(w, order, fixed + 1, before);
            order[i] = order[fixed];
            order[fixed] = kept;
        }
        return;
    }
    gmv_id ids[DELETED_NAMES];
    build_names(w, ids);
    uint64_t freed_nbytes = 0, freed = 0;
    for (size_t i = 0; i < DELETED_NAMES; i++) {
        const gmv_deletion deletion = world_delete(w, &ids[order[i]], GMV_IF_HELD_KEEP);
        freed_nbytes += deletion.freed_nbytes;
        freed += deletion.freed_count;
    }
    cr_assert_eq(freed_nbytes, 64 + 2 + 128);
    cr_assert_eq(freed, 13);
    census_assert_equal(*before, world_census(w));
}

Test(packed, names_can_go_in_any_order)
{
    world w;
    fixture_open(&w);
    const census before = world_census(&w);
    size_t order[DELETED_NAMES] = {0, 1, 2, 3, 4, 5};
    delete_in_every_order(&w, order, 0, &before);
    fixture_close(&w);
}

/* ---- release ------------------------------------------------------------------------------ */

Test(release, names_the_view_and_empties_the_handle)
{
    world w;
    fixture_open(&w);
    gmv_packed *packed = world_pack(&w, two_columns(&w));
    const gmv_id packed_id = packed->node.id;
    const gmv_id gpu_data_id = world_gpu_data(&w, packed)->node.id;
    gmv_view *released = NULL;
    cr_assert_eq(gmv_packed_release(&w.operation, packed, &released, &w.err), GMV_OK);
    cr_assert(gmv_id_equal(&released->node.id, &gpu_data_id));

    gmv_view *again = NULL;
    cr_assert_eq(gmv_packed_release(&w.operation, packed, &again, &w.err),
                 GMV_ERR_ALREADY_RELEASED);
    cr_assert_eq(gmv_packed_gpu_data(&w.operation, packed, &again, &w.err),
                 GMV_ERR_ALREADY_RELEASED);
    gmv_table *table = NULL;
    cr_assert_eq(gmv_unpack(&w.operation, packed, NULL, &table, &w.err), GMV_ERR_ALREADY_RELEASED);
    cr_assert_null(table);
    fixture_next(&w);

    world_delete(&w, &packed_id, GMV_IF_HELD_KEEP);
    cr_assert_eq(world_look_up(&w, &gpu_data_id), GMV_OK);
    cr_assert_eq(world_delete(&w, &gpu_data_id, GMV_IF_HELD_KEEP).freed_nbytes, 3 * 64);
    fixture_close(&w);
}

Test(release, what_is_released_can_be_unpacked_after_the_handle_is_gone)
{
    world w;
    fixture_open(&w);
    gmv_packed *packed = world_pack(&w, two_columns(&w));
    const gmv_id packed_id = packed->node.id;
    size_t nbytes;
    uint8_t *metadata = packed_encode(packed, GMV_PACKED_VERSION, &nbytes);
    gmv_view *released = NULL;
    cr_assert_eq(gmv_packed_release(&w.operation, packed, &released, &w.err), GMV_OK);
    const gmv_id view_id = released->node.id;
    fixture_next(&w);
    world_delete(&w, &packed_id, GMV_IF_HELD_KEEP);

    gmv_table *table = NULL;
    cr_assert_eq(gmv_unpack_from_memoryviews(&w.operation, metadata, nbytes,
                                             gmv_view_of(get(&w, &view_id)), NULL, &table, &w.err),
                 GMV_OK);
    free(metadata);
    assert_two_columns(&w, table);
    gmv_id ids[8];
    cr_assert_eq(owners_of(&w, &table->columns[0]->data->node, ids), 1);
    cr_assert(gmv_id_equal(&ids[0], &view_id));
    const gmv_id table_id = table->node.id;
    fixture_next(&w);
    world_delete(&w, &view_id, GMV_IF_HELD_KEEP);
    assert_two_columns(&w, gmv_table_of(get(&w, &table_id)));
    fixture_close(&w);
}

Test(release, a_table_unpacked_before_keeps_its_memory)
{
    world w;
    fixture_open(&w);
    gmv_packed *packed = world_pack(&w, two_columns(&w));
    const gmv_id packed_id = packed->node.id;
    const gmv_id table_id = world_unpack(&w, packed)->node.id;
    gmv_view *released = NULL;
    cr_assert_eq(gmv_packed_release(&w.operation, packed, &released, &w.err), GMV_OK);
    const gmv_id view_id = released->node.id;
    fixture_next(&w);
    cr_assert_eq(world_delete(&w, &view_id, GMV_IF_HELD_KEEP).freed_nbytes, 0);
    cr_assert_eq(world_delete(&w, &packed_id, GMV_IF_HELD_KEEP).freed_nbytes, 0);
    assert_two_columns(&w, gmv_table_of(get(&w, &table_id)));
    fixture_next(&w);
    cr_assert_eq(world_delete(&w, &table_id, GMV_IF_HELD_KEEP).freed_nbytes, 3 * 64);
    fixture_close(&w);
}

/* Each thread releases, unpacks and deletes the same handle. */
enum { RACERS = 8 };

typedef struct racer {
    world *w;
    gmv_id id;
    pthread_barrier_t *barrier;
    gmv_status release, unpack;
    gmv_id view_id, table_id;
} racer;

static void *race(void *context)
{
    racer *r = (racer *)context;
    gmv_error err;
    gmv_error_init(&err);
    gmv_stream *stream = NULL;
    cr_assert_eq(gmv_stream_create(r->w->engine.devices[0], &stream, &err), GMV_OK);
    gmv_stream *const streams[] = {stream};
    gmv_operation operation;
    gmv_operation_begin(&operation, &r->w->engine, &r->w->caller, GMV_LANE_BULK, streams);
    gmv_node *node = NULL;
    const gmv_status got =
        gmv_operation_get(&operation, &r->id, GMV_KIND_PACKED, NULL, &node, &err);
    cr_assert_eq(got, GMV_OK);
    (void)pthread_barrier_wait(r->barrier);

    gmv_table *table = NULL;
    r->unpack = gmv_unpack(&operation, gmv_packed_of(node), NULL, &table, &err);
    if (table)
        r->table_id = table->node.id;
    gmv_view *view = NULL;
    r->release = gmv_packed_release(&operation, gmv_packed_of(node), &view, &err);
    if (view)
        r->view_id = view->node.id;
    gmv_deletion deletion;
    const gmv_status deleted = gmv_registry_delete(r->w->engine.registry, &r->w->caller, &r->id,
                                                   GMV_KIND_ANY, GMV_IF_HELD_KEEP, &deletion, &err);
    cr_assert(deleted == GMV_OK || deleted == GMV_ERR_HANDLE_DELETED);
    gmv_operation_end(&operation);
    gmv_stream_destroy(stream);
    return NULL;
}

static void race_once(world *w)
{
    const gmv_id id = world_pack(w, two_columns(w))->node.id;
    fixture_next(w);
    pthread_barrier_t barrier;
    cr_assert_eq(pthread_barrier_init(&barrier, NULL, RACERS), 0);
    pthread_t threads[RACERS];
    racer racers[RACERS] = {{0}};
    for (size_t i = 0; i < RACERS; i++) {
        racers[i] = (racer){.w = w, .id = id, .barrier = &barrier};
        cr_assert_eq(pthread_create(&threads[i], NULL, race, &racers[i]), 0);
    }
    for (size_t i = 0; i < RACERS; i++)
        cr_assert_eq(pthread_join(threads[i], NULL), 0);
    (void)pthread_barrier_destroy(&barrier);

    size_t released = 0;
    for (size_t i = 0; i < RACERS; i++) {
        cr_assert(racers[i].unpack == GMV_OK || racers[i].unpack == GMV_ERR_ALREADY_RELEASED);
        if (racers[i].unpack == GMV_OK) {
            assert_two_columns(w, gmv_table_of(get(w, &racers[i].table_id)));
            world_delete(w, &racers[i].table_id, GMV_IF_HELD_KEEP);
        }
        if (racers[i].release == GMV_OK) {
            released++;
            world_delete(w, &racers[i].view_id, GMV_IF_HELD_KEEP);
        } else {
            cr_assert_eq(racers[i].release, GMV_ERR_ALREADY_RELEASED);
        }
    }
    cr_assert_eq(released, 1);
}

Test(release, exactly_one_of_many_callers_gets_the_view)
{
    world w;
    fixture_open(&w);
    for (int i = 0; i < 50; i++)
        race_once(&w);
    fixture_next(&w);
    gmv_registry_counts counts;
    gmv_registry_count(w.engine.registry, &counts);
    cr_assert_eq(counts.alive[GMV_KIND_PACKED], 0);
    fixture_close(&w);
}

/* ---- unpack_from_memoryviews -------------------------------------------------------------- */

static gmv_status unpack_bytes(world *w, const void *metadata, size_t nbytes, gmv_view *gpu_data,
                               gmv_table **out_table)
{
    *out_table = NULL;
    gmv_error_init(&w->err);
    return gmv_unpack_from_memoryviews(&w->operation, metadata, nbytes, gpu_data, NULL, out_table,
                                       &w->err);
}

Test(unpack_from_memoryviews, empty_metadata_is_the_empty_table_only_without_data)
{
    world w;
    fixture_open(&w);
    gmv_table *table;
    cr_assert_eq(unpack_bytes(&w, NULL, 0, NULL, &table), GMV_OK);
    cr_assert_eq(table->num_rows, 0);
    cr_assert_eq(table->n_columns, 0);
    cr_assert_eq(unpack_bytes(&w, "", 0, world_view(&w, NULL, 0), &table), GMV_OK);
    cr_assert_eq(table->n_columns, 0);
    cr_assert_eq(unpack_bytes(&w, "", 0, world_view(&w, zeros, 64), &table),
                 GMV_ERR_METADATA_INVALID);
    cr_assert_null(table);
    fixture_close(&w);
}

Test(unpack_from_memoryviews, what_cudf_refuses_is_refused)
{
    world w;
    fixture_open(&w);
    json_t *vectors = load_vectors("packed_errors.json");
    gmv_view *gpu_data = world_view(&w, zeros, sizeof zeros);
    size_t index, n = 0;
    json_t *vector;
    json_array_foreach (vectors, index, vector) {
        if (strcmp(json_string_value(json_object_get(vector, "op")), "read_metadata") != 0)
            continue;
        const char *name = json_string_value(json_object_get(vector, "name"));
        const char *hex = json_string_value(json_object_get(vector, "metadata_hex"));
        const size_t nbytes = strlen(hex) / 2;
        uint8_t *metadata = malloc(nbytes + 1);
        for (size_t i = 0; i < nbytes; i++) {
            unsigned byte = 0;
            cr_assert_eq(sscanf(hex + 2 * i, "%2x", &byte), 1);
            metadata[i] = (uint8_t)byte;
        }
        gmv_table *table;
        const census before = world_census(&w);
        const gmv_status status = unpack_bytes(&w, metadata, nbytes, gpu_data, &table);
        /* The layout before 26.08 is read here. */
        const bool is_read = strcmp(name, "legacy_stub_layout") == 0;
        cr_assert_eq(status, is_read ? GMV_OK : GMV_ERR_METADATA_INVALID, "%s", name);
        if (!is_read)
            census_assert_equal(before, world_census(&w));
        free(metadata);
        n++;
    }
    cr_assert_eq(n, 14);
    json_decref(vectors);
    fixture_close(&w);
}

/* A packed table as bytes: two INT64 columns of 9 rows, the first with nulls, and a DECIMAL128. */
enum { SOUND_ENTRIES = 3, SOUND_METADATA = 16 + 40 * SOUND_ENTRIES };

typedef struct sound {
    uint8_t metadata[SOUND_METADATA];
    uint8_t *gpu_data; /* freed with free() */
    size_t gpu_data_nbytes;
} sound;

static sound make_sound(world *w)
{
    uint8_t bytes[16 * 9];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 3 + 1);
    gmv_column *const columns[] = {
        world_column(w, GMV_CUDF_INT64, 9, 0, bytes, 72, "\xfd\xff", 2),
        world_column(w, GMV_CUDF_INT64, 9, 0, bytes, 72, NULL, 0),
        world_column(w, GMV_CUDF_DECIMAL128, 9, 0, bytes, 144, "\xff\x01", 2),
    };
    gmv_packed *packed = world_pack(w, world_table(w, columns, 3));
    sound s = {0};
    size_t nbytes;
    uint8_t *metadata = packed_encode(packed, GMV_PACKED_VERSION, &nbytes);
    cr_assert_eq(nbytes, (size_t)SOUND_METADATA);
    memcpy(s.metadata, metadata, nbytes);
    free(metadata);
    gmv_view *view = world_gpu_data(w, packed);
    s.gpu_data = world_read(w, view);
    s.gpu_data_nbytes = (size_t)view->nbytes;
    return s;
}

Test(unpack_from_memoryviews, a_strided_view_is_not_contiguous)
{
    world w;
    fixture_open(&w);
    sound s = make_sound(&w);
    gmv_view *all = world_view(&w, NULL, 2 * s.gpu_data_nbytes);
    const gmv_layout layout = {
        .ndim = 1, .has_strides = true, .shape = {(int64_t)s.gpu_data_nbytes}, .strides = {2}};
    gmv_view *strided = world_view_as(&w, all, GMV_DTYPE_U1, &layout, 0, NULL, GMV_MASK_NONE);
    gmv_table *table;
    cr_assert_eq(unpack_bytes(&w, s.metadata, sizeof s.metadata, strided, &table),
                 GMV_ERR_NOT_CONTIGUOUS);
    cr_assert_str_eq(w.err.pointer, "/gpu_data");
    free(s.gpu_data);
    fixture_close(&w);
}

Test(unpack_from_memoryviews, any_contiguous_view_of_enough_bytes_will_do)
{
    world w;
    fixture_open(&w);
    sound s = make_sound(&w);
    gmv_view *all = world_view(&w, s.gpu_data, s.gpu_data_nbytes);
    const gmv_layout layout = {.ndim = 2, .shape = {2, (int64_t)s.gpu_data_nbytes / 16}};
    gmv_view *doubles = world_view_as(&w, all, GMV_DTYPE_F8, &layout, 0, NULL, GMV_MASK_NONE);
    gmv_table *table;
    cr_assert_eq(unpack_bytes(&w, s.metadata, sizeof s.metadata, doubles, &table), GMV_OK, "%s",
                 w.err.message);
    cr_assert_eq(table->columns[0]->null_count, 1);
    cr_assert_eq(table->columns[2]->null_count, 0);
    cr_assert(gmv_column_is_nullable(table->columns[2]));
    const gmv_layout shorter = gmv_layout_flat((int64_t)s.gpu_data_nbytes - 64);
    gmv_view *cut = world_view_as(&w, all, GMV_DTYPE_U1, &shorter, 0, NULL, GMV_MASK_NONE);
    cr_assert_eq(unpack_bytes(&w, s.metadata, sizeof s.metadata, cut, &table),
                 GMV_ERR_METADATA_INVALID);
    cr_assert_eq(unpack_bytes(&w, s.metadata, sizeof s.metadata, NULL, &table),
                 GMV_ERR_METADATA_INVALID);
    free(s.gpu_data);
    fixture_close(&w);
}

Test(unpack_from_memoryviews, data_at_a_misaligned_address_is_refused)
{
    world w;
    fixture_open(&w);
    sound s = make_sound(&w);
    for (uint64_t shift = 0; shift <= 32; shift++) {
        gmv_view *all = world_view(&w, NULL, s.gpu_data_nbytes + 64);
        const gmv_layout layout = gmv_layout_flat((int64_t)s.gpu_data_nbytes);
        gmv_view *view = world_view_as(&w, all, GMV_DTYPE_U1, &layout, shift, NULL, GMV_MASK_NONE);
        cr_assert_eq(gmv_copy_in(w.streams[0], view->ptr, s.gpu_data, s.gpu_data_nbytes, &w.err),
                     GMV_OK);
        gmv_table *table;
        const gmv_status status = unpack_bytes(&w, s.metadata, sizeof s.metadata, view, &table);
        cr_assert_eq(status, shift % 16 == 0 ? GMV_OK : GMV_ERR_VALUE, "shift %d", (int)shift);
        if (status != GMV_OK)
            cr_assert_str_eq(w.err.pointer, "/gpu_data");
    }
    free(s.gpu_data);
    fixture_close(&w);
}

Test(unpack_from_memoryviews, data_without_its_padding_is_enough)
{
    world w;
    fixture_open(&w);
    /* One UINT8 column of 3 rows with a mask that ends where the view does. */
    const gmv_packed_metadata metadata = {
        .version = GMV_PACKED_VERSION,
        .num_columns = 1,
        .num_rows = 3,
        .n_entries = 1,
        .entries = &(gmv_packed_entry){.type_id = GMV_CUDF_UINT8,
                                       .size = 3,
                                       .null_count = 1,
                                       .data_offset = 0,
                                       .null_mask_offset = 64},
    };
    uint8_t bytes[56], data[68] = {7, 8, 9};
    data[64] = 0x05;
    gmv_packed_metadata_encode(&metadata, GMV_PACKED_VERSION, bytes);
    gmv_table *table;
    cr_assert_eq(unpack_bytes(&w, bytes, sizeof bytes, world_view(&w, data, 68), &table), GMV_OK,
                 "%s", w.err.message);
    cr_assert_eq(table->columns[0]->null_mask->nbytes, 4);
    cr_assert_eq(table->columns[0]->null_count, 1);
    fixture_close(&w);
}

Test(unpack_from_memoryviews, a_null_count_that_the_mask_belies_is_a_lie)
{
    world w;
    fixture_open(&w);
    sound s = make_sound(&w);
    gmv_view *view = world_view(&w, s.gpu_data, s.gpu_data_nbytes);
    for (uint8_t claimed = 0; claimed <= 10; claimed++) {
        s.metadata[16 + 12] = claimed;
        gmv_table *table;
        const gmv_status status = unpack_bytes(&w, s.metadata, sizeof s.metadata, view, &table);
        cr_assert_eq(status, claimed == 1 ? GMV_OK : GMV_ERR_METADATA_INVALID);
        if (status != GMV_OK)
            cr_assert_str_eq(w.err.pointer, "/metadata");
    }
    free(s.gpu_data);
    fixture_close(&w);
}

/* Whatever a table claims, all of it must lie inside gpu_data and be readable. */
static void assert_sound_table(world *w, gmv_table *table, const gmv_view *gpu_data)
{
    for (uint32_t i = 0; i < table->n_columns; i++) {
        gmv_column *column = table->columns[i];
        cr_assert_eq(column->size, table->num_rows);
        const gmv_view *parts[] = {column->data, column->null_mask};
        for (size_t k = 0; k < 2; k++) {
            if (!parts[k])
                continue;
            cr_assert_geq(parts[k]->ptr, gpu_data->ptr);
            cr_assert_leq(parts[k]->ptr + (uint64_t)parts[k]->nbytes,
                          gpu_data->ptr + (uint64_t)gpu_data->nbytes);
        }
        gmv_column_rows rows;
        cr_assert_eq(gmv_column_read_rows(&w->operation, column, 0, column->size, &rows, &w->err),
                     GMV_OK);
        gmv_column_rows_fini(&rows);
    }
    (void)world_pack(w, table);
}

static void try_hostile(world *w, const uint8_t *metadata, size_t nbytes, gmv_view *gpu_data)
{
    const census before = world_census(w);
    gmv_table *table;
    const gmv_status status = unpack_bytes(w, metadata, nbytes, gpu_data, &table);
    if (status == GMV_OK) {
        assert_sound_table(w, table, gpu_data);
        return;
    }
    cr_assert_eq(status, GMV_ERR_METADATA_INVALID, "%s: %s", gmv_status_code(status),
                 w->err.message);
    cr_assert_str_eq(w->err.pointer, "/metadata");
    census_assert_equal(before, world_census(w));
}

Test(unpack_from_memoryviews, no_field_can_be_made_to_harm)
{
    static const uint64_t values[] = {0,
                                      1,
                                      2,
                                      3,
                                      4,
                                      7,
                                      8,
                                      9,
                                      10,
                                      12,
                                      16,
                                      22,
                                      23,
                                      24,
                                      27,
                                      28,
                                      29,
                                      40,
                                      48,
                                      63,
                                      64,
                                      65,
                                      99,
                                      128,
                                      191,
                                      192,
                                      256,
                                      319,
                                      320,
                                      448,
                                      512,
                                      4096,
                                      65536,
                                      1000000,
                                      2000000000,
                                      0x7fffffff,
                                      0x80000000,
                                      0xfffffff0,
                                      0xfffffffe,
                                      0xffffffff,
                                      0x100000000,
                                      0x7fffffffffffffc0,
                                      0x7fffffffffffffff,
                                      0x8000000000000000,
                                      0xfffffffffffffffe,
                                      0xffffffffffffffff};
    world w;
    fixture_open(&w);
    sound s = make_sound(&w);
    const gmv_id view_id = world_view(&w, s.gpu_data, s.gpu_data_nbytes)->node.id;
    for (size_t width = 4; width <= 8; width += 4) {
        for (size_t at = 0; at + width <= sizeof s.metadata; at += 4) {
            for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
                uint8_t metadata[SOUND_METADATA];
                memcpy(metadata, s.metadata, sizeof metadata);
                memcpy(metadata + at, &values[i], width);
                try_hostile(&w, metadata, sizeof metadata, gmv_view_of(get(&w, &view_id)));
                fixture_next(&w);
            }
        }
    }
    free(s.gpu_data);
    fixture_close(&w);
}

Test(unpack_from_memoryviews, no_length_and_no_single_bit_can_be_made_to_harm)
{
    world w;
    fixture_open(&w);
    sound s = make_sound(&w);
    const gmv_id view_id = world_view(&w, s.gpu_data, s.gpu_data_nbytes)->node.id;
    uint8_t longer[SOUND_METADATA + 81] = {0};
    memcpy(longer, s.metadata, sizeof s.metadata);
    for (size_t nbytes = 1; nbytes <= sizeof longer; nbytes++) {
        if (nbytes == sizeof s.metadata)
            continue;
        gmv_table *table;
        cr_assert_eq(unpack_bytes(&w, longer, nbytes, gmv_view_of(get(&w, &view_id)), &table),
                     GMV_ERR_METADATA_INVALID, "%zu bytes", nbytes);
    }
    for (size_t bit = 0; bit < sizeof s.metadata * 8; bit++) {
        uint8_t metadata[SOUND_METADATA];
        memcpy(metadata, s.metadata, sizeof metadata);
        metadata[bit / 8] ^= (uint8_t)(1u << bit % 8);
        try_hostile(&w, metadata, sizeof metadata, gmv_view_of(get(&w, &view_id)));
        fixture_next(&w);
    }
    /* Unharmed itself, it still unpacks, at an odd address too. */
    uint8_t odd[SOUND_METADATA + 1];
    memcpy(odd + 1, s.metadata, sizeof s.metadata);
    gmv_table *table;
    cr_assert_eq(unpack_bytes(&w, odd + 1, SOUND_METADATA, gmv_view_of(get(&w, &view_id)), &table),
                 GMV_OK);
    cr_assert_eq(unpack_bytes(&w, odd, sizeof odd, gmv_view_of(get(&w, &view_id)), &table),
                 GMV_ERR_METADATA_INVALID);
    free(s.gpu_data);
    fixture_close(&w);
}

/* ---- memory and failures ------------------------------------------------------------------ */

Test(packed, a_hundred_rounds_give_all_memory_back)
{
    world w;
    fixture_open(&w);
    gmv_column *column = world_column(&w, GMV_CUDF_INT8, 4096, 0, zeros, 4096, zeros, 512);
    const gmv_id table_id = world_table(&w, &column, 1)->node.id;
    fixture_next(&w);
    const census before = world_census(&w);
    for (int i = 0; i < 100; i++) {
        gmv_packed *packed = world_pack(&w, gmv_table_of(get(&w, &table_id)));
        gmv_id ids[3] = {packed->node.id};
        size_t n = 1;
        if (i % 2 == 0)
            ids[n++] = world_unpack(&w, packed)->node.id;
        if (i % 3 == 0) {
            gmv_view *released = NULL;
            cr_assert_eq(gmv_packed_release(&w.operation, packed, &released, &w.err), GMV_OK);
            ids[n++] = released->node.id;
        }
        fixture_next(&w);
        uint64_t freed = 0;
        for (size_t k = 0; k < n; k++)
            freed += world_delete(&w, &ids[(k + (size_t)i) % n], GMV_IF_HELD_KEEP).freed_nbytes;
        cr_assert_eq(freed, 4096 + 512);
        census_assert_equal(before, world_census(&w));
    }
    fixture_close(&w);
}

static gmv_status chaos_unpack(world *w, void *context)
{
    gmv_node *node = NULL;
    GMV_TRY(gmv_operation_get(&w->operation, (const gmv_id *)context, GMV_KIND_PACKED, NULL, &node,
                              &w->err));
    gmv_table *table = NULL;
    GMV_TRY(gmv_unpack(&w->operation, gmv_packed_of(node), NULL, &table, &w->err));
    world_delete(w, &table->node.id, GMV_IF_HELD_KEEP);
    return GMV_OK;
}

Test(unpack, no_failure_leaves_anything_behind)
{
    world w;
    fixture_open(&w);
    gmv_id id = world_pack(&w, two_columns(&w))->node.id;
    world_run_chaos(&w, chaos_unpack, &id);
    fixture_close(&w);
}

typedef struct chaos_bytes {
    sound s;
    gmv_id view_id;
} chaos_bytes;

static gmv_status chaos_from_memoryviews(world *w, void *context)
{
    const chaos_bytes *bytes = (const chaos_bytes *)context;
    gmv_node *node = NULL;
    GMV_TRY(gmv_operation_get(&w->operation, &bytes->view_id, GMV_KIND_VIEW, NULL, &node, &w->err));
    gmv_table *table = NULL;
    GMV_TRY(
        unpack_bytes(w, bytes->s.metadata, sizeof bytes->s.metadata, gmv_view_of(node), &table));
    world_delete(w, &table->node.id, GMV_IF_HELD_KEEP);
    return GMV_OK;
}

Test(unpack_from_memoryviews, no_failure_leaves_anything_behind)
{
    world w;
    fixture_open(&w);
    chaos_bytes bytes = {.s = make_sound(&w)};
    bytes.view_id = world_view(&w, bytes.s.gpu_data, bytes.s.gpu_data_nbytes)->node.id;
    world_run_chaos(&w, chaos_from_memoryviews, &bytes);
    free(bytes.s.gpu_data);
    fixture_close(&w);
}

typedef struct chaos_release_ids {
    gmv_id table_id;
} chaos_release_ids;

static gmv_status chaos_release(world *w, void *context)
{
    gmv_node *node = NULL;
    GMV_TRY(gmv_operation_get(&w->operation, &((chaos_release_ids *)context)->table_id,
                              GMV_KIND_TABLE, NULL, &node, &w->err));
    gmv_packed *packed = NULL;
    GMV_TRY(gmv_pack(&w->operation, gmv_table_of(node), NULL, &packed, &w->err));
    gmv_view *view = NULL;
    const gmv_status status = gmv_packed_release(&w->operation, packed, &view, &w->err);
    world_delete(w, &packed->node.id, GMV_IF_HELD_KEEP);
    if (status == GMV_OK)
        world_delete(w, &view->node.id, GMV_IF_HELD_KEEP);
    return status;
}

Test(release, no_failure_leaves_anything_behind)
{
    world w;
    fixture_open(&w);
    chaos_release_ids ids = {two_columns(&w)->node.id};
    world_run_chaos(&w, chaos_release, &ids);
    fixture_close(&w);
}
