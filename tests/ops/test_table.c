/* SPDX-License-Identifier: Apache-2.0 */
/* Tables: numbers of rows, repeats, and what keeps what alive. */
#include "ops/packed_support.h"

static const uint8_t zeros[256];

static gmv_status create(world *w, gmv_column *const *columns, size_t n_columns, bool has_num_rows,
                         int64_t num_rows, gmv_table **out_table)
{
    *out_table = NULL;
    gmv_error_init(&w->err);
    return gmv_table_create(&w->operation, columns, n_columns, has_num_rows, num_rows, NULL,
                            out_table, &w->err);
}

Test(table, its_rows_are_those_of_its_columns)
{
    world w;
    fixture_open(&w);
    gmv_column *const columns[] = {
        world_column(&w, GMV_CUDF_INT32, 7, 2, zeros, 64, NULL, 0),
        world_column(&w, GMV_CUDF_INT8, 7, 0, zeros, 7, zeros, 1),
    };
    gmv_table *table;
    cr_assert_eq(create(&w, columns, 2, false, 0, &table), GMV_OK);
    cr_assert_eq(table->num_rows, 7);
    cr_assert_eq(table->n_columns, 2);
    cr_assert_eq(table->columns[0], columns[0]);
    cr_assert_eq(table->columns[1], columns[1]);
    gmv_handle_info info;
    cr_assert_eq(
        gmv_registry_describe(w.engine.registry, &w.caller, &table->node.id, &info, &w.err),
        GMV_OK);
    cr_assert_eq(info.device, 0);
    cr_assert_eq(info.nbytes, 64 + 7 + 1);
    cr_assert_eq(info.owners_count, 2);
    cr_assert_eq(create(&w, columns, 2, true, 7, &table), GMV_OK);
    fixture_close(&w);
}

Test(table, columns_of_other_lengths_are_refused)
{
    world w;
    fixture_open(&w);
    gmv_column *const columns[] = {
        world_column(&w, GMV_CUDF_INT32, 2, 0, zeros, 64, NULL, 0),
        world_column(&w, GMV_CUDF_INT32, 2, 1, zeros, 64, NULL, 0),
        world_column(&w, GMV_CUDF_INT32, 1, 0, zeros, 64, NULL, 0),
    };
    gmv_table *table;
    const census before = world_census(&w);
    cr_assert_eq(create(&w, columns, 3, false, 0, &table), GMV_ERR_VALUE);
    cr_assert_str_eq(w.err.pointer, "/columns/2");
    census_assert_equal(before, world_census(&w));
    fixture_close(&w);
}

Test(table, num_rows_must_agree_and_be_in_range)
{
    world w;
    fixture_open(&w);
    gmv_column *const columns[] = {world_column(&w, GMV_CUDF_INT32, 2, 0, zeros, 64, NULL, 0)};
    static const struct {
        size_t n_columns;
        int64_t num_rows;
        gmv_status status;
    } rows[] = {{1, 3, GMV_ERR_VALUE},         {1, -1, GMV_ERR_VALUE},
                {1, 0, GMV_ERR_VALUE},         {1, 2, GMV_OK},
                {0, -1, GMV_ERR_VALUE},        {0, 2147483648LL, GMV_ERR_VALUE},
                {0, INT64_MIN, GMV_ERR_VALUE}, {0, 0, GMV_OK},
                {0, 2147483647, GMV_OK}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        gmv_table *table;
        const gmv_status status =
            create(&w, columns, rows[i].n_columns, true, rows[i].num_rows, &table);
        cr_assert_eq(status, rows[i].status, "row %zu", i);
        if (status == GMV_OK)
            cr_assert_eq(table->num_rows, rows[i].num_rows);
        else
            cr_assert_str_eq(w.err.pointer, "/num_rows");
    }
    fixture_close(&w);
}

Test(table, without_columns_it_has_no_rows_unless_told)
{
    world w;
    fixture_open(&w);
    gmv_table *table;
    cr_assert_eq(create(&w, NULL, 0, false, 0, &table), GMV_OK);
    cr_assert_eq(table->num_rows, 0);
    cr_assert_eq(table->n_columns, 0);
    gmv_handle_info info;
    cr_assert_eq(
        gmv_registry_describe(w.engine.registry, &w.caller, &table->node.id, &info, &w.err),
        GMV_OK);
    cr_assert_eq(info.device, -1);
    cr_assert_eq(info.nbytes, 0);
    fixture_close(&w);
}

Test(table, a_column_may_stand_in_it_more_than_once)
{
    world w;
    fixture_open(&w);
    const census before = world_census(&w);
    gmv_column *column = world_column(&w, GMV_CUDF_INT32, 4, 0, "abcdefghijklmnop", 16, "\x07", 1);
    gmv_column *const columns[] = {column, column, column};
    gmv_table *table;
    cr_assert_eq(create(&w, columns, 3, false, 0, &table), GMV_OK);
    cr_assert_eq(gmv_registry_owners(w.engine.registry, &table->node, NULL, 0), 1);
    gmv_table *unpacked = world_unpack(&w, world_pack(&w, table));
    for (uint32_t i = 0; i < 3; i++)
        world_assert_rows_equal(&w, column, 0, unpacked->columns[i], 0, 4);
    const gmv_id table_id = table->node.id;
    const gmv_id column_id = column->node.id;
    fixture_next(&w);
    const gmv_deletion deletion = world_delete(&w, &column_id, GMV_IF_HELD_KEEP);
    cr_assert_eq(deletion.kept_alive_by_count, 1);
    cr_assert(gmv_id_equal(&deletion.kept_alive_by[0], &table_id));
    cr_assert_gt(world_census(&w).alive, before.alive);
    fixture_close(&w);
}

typedef struct chaos_ids {
    gmv_id columns[2];
} chaos_ids;

static gmv_status chaos_table(world *w, void *context)
{
    const chaos_ids *ids = (const chaos_ids *)context;
    gmv_column *columns[2];
    for (size_t i = 0; i < 2; i++) {
        gmv_node *node = NULL;
        GMV_TRY(gmv_operation_get(&w->operation, &ids->columns[i], GMV_KIND_COLUMN, NULL, &node,
                                  &w->err));
        columns[i] = gmv_column_of(node);
    }
    const gmv_creation creation = {.label = "chaos", .label_length = 5};
    gmv_table *table = NULL;
    GMV_TRY(gmv_table_create(&w->operation, columns, 2, false, 0, &creation, &table, &w->err));
    world_delete(w, &table->node.id, GMV_IF_HELD_KEEP);
    return GMV_OK;
}

/* Making a table asks nothing of the device, so only allocations can fail. */
Test(table, no_failure_leaves_anything_behind)
{
    world w;
    fixture_open(&w);
    chaos_ids ids;
    for (size_t i = 0; i < 2; i++)
        ids.columns[i] = world_column(&w, GMV_CUDF_INT8, 8, 0, zeros, 8, NULL, 0)->node.id;
    bool has_failed = true;
    uint64_t failures = 0;
    for (uint64_t n = 1; has_failed; n++) {
        fixture_next(&w);
        const census before = world_census(&w);
        gmv_alloc_fail_once(n);
        const gmv_status status = chaos_table(&w, &ids);
        has_failed = gmv_alloc_has_failed() != 0;
        gmv_alloc_fail_once(0);
        cr_assert(status == GMV_OK || has_failed);
        failures += status != GMV_OK;
        fixture_next(&w);
        census_assert_equal(before, world_census(&w));
    }
    cr_assert_gt(failures, 0);
    fixture_close(&w);
}
