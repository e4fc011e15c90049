/* SPDX-License-Identifier: Apache-2.0 */
/* Columns with children: what they accept and what they say of themselves. */
#include "ops/nested_support.h"

static const int32_t ten_values[10] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};

/* ---- what there is ------------------------------------------------------------------------ */

/* A child of every kind that a column may be given. */
enum child {
    NONE,
    OFFSETS4, /* INT32 0, 2, 5, 5 */
    OFFSETS8, /* INT64, the same */
    NULLABLE, /* INT32, the same, one of them null */
    NO_ROWS,  /* INT32 */
    UNSIGNED4,
    FLOATS,
    INDICES, /* INT8 1, 0, 1 */
    FIVE,    /* INT32, five rows */
    CHILD_COUNT
};

static void children_make(world *w, gmv_column *kinds[CHILD_COUNT])
{
    static const int32_t offsets[4] = {0, 2, 5, 5};
    static const int8_t indices[3] = {1, 0, 1};
    kinds[NONE] = NULL;
    kinds[OFFSETS4] = NESTED_INT32(w, 0, 2, 5, 5);
    kinds[OFFSETS8] = NESTED_INT64(w, 0, 2, 5, 5);
    kinds[NULLABLE] = world_column(w, GMV_CUDF_INT32, 4, 0, offsets, sizeof offsets, "\x0b", 1);
    kinds[NO_ROWS] = nested_elements(w, GMV_CUDF_INT32, NULL, 0);
    kinds[UNSIGNED4] = nested_elements(w, GMV_CUDF_UINT32, offsets, 4);
    kinds[FLOATS] = nested_elements(w, GMV_CUDF_FLOAT32, ten_values, 4);
    kinds[INDICES] = nested_elements(w, GMV_CUDF_INT8, indices, 3);
    kinds[FIVE] = nested_elements(w, GMV_CUDF_INT32, ten_values, 5);
}

/* ---- geometry ----------------------------------------------------------------------------- */

typedef struct geometry {
    const char *why;
    int32_t type_id;
    int64_t size, offset;
    int data_nbytes; /* -1: no view */
    int mask_nbytes; /* -1: no view */
    enum child children[4];
    const char *pointer; /* NULL: accepted */
} geometry;

static const geometry geometries[] = {
    {"strings", GMV_CUDF_STRING, 3, 0, 5, -1, {OFFSETS4}, NULL},
    {"strings with wide offsets", GMV_CUDF_STRING, 3, 0, 5, -1, {OFFSETS8}, NULL},
    {"a slice of strings", GMV_CUDF_STRING, 1, 2, 5, -1, {OFFSETS4}, NULL},
    {"a mask of strings", GMV_CUDF_STRING, 3, 0, 5, 1, {OFFSETS4}, NULL},
    {"no strings at all", GMV_CUDF_STRING, 0, 0, -1, -1, {NONE}, NULL},
    {"no strings behind an offset", GMV_CUDF_STRING, 0, 7, -1, -1, {NONE}, NULL},
    {"no strings over no offsets", GMV_CUDF_STRING, 0, 0, -1, -1, {NO_ROWS}, NULL},
    {"no strings over some offsets", GMV_CUDF_STRING, 0, 3, 5, -1, {OFFSETS4}, NULL},
    {"strings without offsets", GMV_CUDF_STRING, 1, 0, 5, -1, {NONE}, "/children"},
    {"strings with two children", GMV_CUDF_STRING, 3, 0, 5, -1, {OFFSETS4, FIVE}, "/children"},
    {"no strings with two children", GMV_CUDF_STRING, 0, 0, 5, -1, {OFFSETS4, FIVE}, "/children"},
    {"unsigned offsets", GMV_CUDF_STRING, 3, 0, 5, -1, {UNSIGNED4}, "/children/0"},
    {"float offsets", GMV_CUDF_STRING, 3, 0, 5, -1, {FLOATS}, "/children/0"},
    {"null offsets", GMV_CUDF_STRING, 3, 0, 5, -1, {NULLABLE}, "/children/0"},
    {"one offset too few", GMV_CUDF_STRING, 4, 0, 5, -1, {OFFSETS4}, "/children/0"},
    {"offsets too few for the offset", GMV_CUDF_STRING, 3, 1, 5, -1, {OFFSETS4}, "/children/0"},
    {"no strings past the offsets", GMV_CUDF_STRING, 0, 4, 5, -1, {OFFSETS4}, "/children/0"},
    {"rows over no offsets", GMV_CUDF_STRING, 1, 0, 5, -1, {NO_ROWS}, "/children/0"},
    {"offsets for more rows than can be",
     GMV_CUDF_STRING,
     2147483647,
     0,
     5,
     -1,
     {OFFSETS4},
     "/children/0"},
    {"lists", GMV_CUDF_LIST, 3, 0, -1, -1, {OFFSETS4, FIVE}, NULL},
    {"a slice of lists", GMV_CUDF_LIST, 1, 1, -1, 1, {OFFSETS4, FIVE}, NULL},
    {"no lists", GMV_CUDF_LIST, 0, 0, -1, -1, {NO_ROWS, NO_ROWS}, NULL},
    {"lists beside a view of no bytes", GMV_CUDF_LIST, 3, 0, 0, 0, {OFFSETS4, FIVE}, NULL},
    {"no lists without children", GMV_CUDF_LIST, 0, 0, -1, -1, {NONE}, "/children"},
    {"lists without elements", GMV_CUDF_LIST, 3, 0, -1, -1, {OFFSETS4}, "/children"},
    {"lists of three children", GMV_CUDF_LIST, 3, 0, -1, -1, {OFFSETS4, FIVE, FIVE}, "/children"},
    {"lists with wide offsets", GMV_CUDF_LIST, 3, 0, -1, -1, {OFFSETS8, FIVE}, "/children/0"},
    {"lists with null offsets", GMV_CUDF_LIST, 3, 0, -1, -1, {NULLABLE, FIVE}, "/children/0"},
    {"lists with too few offsets", GMV_CUDF_LIST, 3, 1, -1, -1, {OFFSETS4, FIVE}, "/children/0"},
    {"lists with data", GMV_CUDF_LIST, 3, 0, 8, -1, {OFFSETS4, FIVE}, "/data"},
    {"structs", GMV_CUDF_STRUCT, 5, 0, -1, 1, {FIVE, FIVE}, NULL},
    {"a slice of structs", GMV_CUDF_STRUCT, 2, 3, -1, -1, {FIVE}, NULL},
    {"structs of longer fields", GMV_CUDF_STRUCT, 2, 0, -1, -1, {FIVE, OFFSETS4}, NULL},
    {"structs without fields", GMV_CUDF_STRUCT, 2147483647, 0, -1, -1, {NONE}, NULL},
    {"no structs", GMV_CUDF_STRUCT, 0, 0, -1, -1, {NO_ROWS}, NULL},
    {"a field that is too short", GMV_CUDF_STRUCT, 5, 0, -1, -1, {FIVE, OFFSETS4}, "/children/1"},
    {"a field too short for the offset", GMV_CUDF_STRUCT, 4, 2, -1, -1, {FIVE}, "/children/0"},
    {"structs with data", GMV_CUDF_STRUCT, 5, 0, 8, -1, {FIVE}, "/data"},
    {"dictionaries", GMV_CUDF_DICTIONARY32, 3, 0, -1, -1, {INDICES, FIVE}, NULL},
    {"wide indices", GMV_CUDF_DICTIONARY32, 2, 0, -1, 1, {OFFSETS8, FIVE}, NULL},
    {"a slice of a dictionary", GMV_CUDF_DICTIONARY32, 2, 1, -1, -1, {INDICES, FIVE}, NULL},
    {"no dictionary", GMV_CUDF_DICTIONARY32, 0, 0, -1, -1, {NONE}, NULL},
    {"an empty dictionary", GMV_CUDF_DICTIONARY32, 0, 0, -1, -1, {NO_ROWS, NO_ROWS}, NULL},
    {"dictionaries without keys", GMV_CUDF_DICTIONARY32, 3, 0, -1, -1, {INDICES}, "/children"},
    {"rows without a dictionary", GMV_CUDF_DICTIONARY32, 3, 0, -1, -1, {NONE}, "/children"},
    {"unsigned indices", GMV_CUDF_DICTIONARY32, 3, 0, -1, -1, {UNSIGNED4, FIVE}, "/children/0"},
    {"null indices", GMV_CUDF_DICTIONARY32, 3, 0, -1, -1, {NULLABLE, FIVE}, "/children/0"},
    {"too few indices", GMV_CUDF_DICTIONARY32, 3, 1, -1, -1, {INDICES, FIVE}, "/children/0"},
    {"null keys", GMV_CUDF_DICTIONARY32, 3, 0, -1, -1, {INDICES, NULLABLE}, "/children/1"},
    {"dictionaries with data", GMV_CUDF_DICTIONARY32, 3, 0, 8, -1, {INDICES, FIVE}, "/data"},
    {"nothing", GMV_CUDF_EMPTY, 2147483647, 0, -1, -1, {NONE}, NULL},
    {"nothing over views of no bytes", GMV_CUDF_EMPTY, 5, 2, 0, 0, {NONE}, NULL},
    {"nothing with a child", GMV_CUDF_EMPTY, 5, 0, -1, -1, {FIVE}, "/children"},
    {"nothing with data", GMV_CUDF_EMPTY, 5, 0, 8, -1, {NONE}, "/data"},
    {"nothing with a mask", GMV_CUDF_EMPTY, 5, 0, -1, 1, {NONE}, "/null_mask"},
    {"elements with a child", GMV_CUDF_INT8, 5, 0, 8, -1, {FIVE}, "/children"},
};

Test(column_nested, children_must_fit_their_parent)
{
    world w;
    fixture_open(&w);
    gmv_column *kinds[CHILD_COUNT];
    children_make(&w, kinds);
    for (size_t i = 0; i < COUNT_OF(geometries); i++) {
        const geometry *g = &geometries[i];
        gmv_column *children[4];
        size_t n_children = 0;
        while (n_children < 4 && g->children[n_children] != NONE) {
            children[n_children] = kinds[g->children[n_children]];
            n_children++;
        }
        const gmv_column_request request = {
            .type = {g->type_id, 0},
            .size = g->size,
            .offset = g->offset,
            .data = g->data_nbytes < 0 ? NULL : world_view(&w, NULL, (size_t)g->data_nbytes),
            .null_mask = g->mask_nbytes < 0 ? NULL : world_view(&w, NULL, (size_t)g->mask_nbytes),
            .children = children,
            .n_children = n_children,
        };
        if (g->pointer) {
            nested_refuse(&w, &request, GMV_ERR_VALUE, g->pointer, g->why);
            continue;
        }
        gmv_column *column = nested_create(&w, &request);
        cr_assert_eq(column->n_children, n_children, "%s", g->why);
        for (size_t k = 0; k < n_children; k++)
            cr_assert_eq(column->children[k], children[k], "%s", g->why);
        cr_assert_eq(column->size, g->size);
        cr_assert_eq(column->offset, g->offset);
    }
    fixture_close(&w);
}

/* ---- what a column says of itself --------------------------------------------------------- */

Test(column_nested, empty_is_all_null_whatever_is_claimed)
{
    world w;
    fixture_open(&w);
    gmv_column_request request = {.type = {GMV_CUDF_EMPTY, 0}, .size = 7, .offset = 3};
    gmv_column *column = nested_create(&w, &request);
    cr_assert_eq(column->null_count, 7);
    cr_assert_not(gmv_column_is_nullable(column));
    cr_assert_eq(column->device, -1);
    cr_assert_eq(gmv_column_device_buffer_size(column), 0);
    cr_assert_eq(gmv_column_data_address(column), 0);
    request.has_null_count = true;
    request.null_count = 7;
    cr_assert_eq(nested_create(&w, &request)->null_count, 7);
    request.null_count = 0;
    nested_refuse(&w, &request, GMV_ERR_VALUE, "/null_count", "a claim of no nulls");
    fixture_close(&w);
}

Test(column_nested, buffer_sizes_and_depths_add_up_over_the_tree)
{
    world w;
    fixture_open(&w);
    gmv_column *offsets = NESTED_INT32(&w, 0, 3, 5);
    gmv_column *strings = nested_string(&w, 2, offsets, "abcde");              /* 12 + 5 */
    gmv_column *list = nested_list(&w, 2, NESTED_INT32(&w, 0, 1, 2), strings); /* 12 + 17 */
    gmv_column *const fields[] = {list, strings, list};
    gmv_column *made =
        nested_over(&w, GMV_CUDF_STRUCT, 2, 0, NULL, world_view(&w, "\x01", 1), fields, 3);
    cr_assert_eq(gmv_column_device_buffer_size(strings), 17);
    cr_assert_eq(gmv_column_device_buffer_size(list), 29);
    cr_assert_eq(gmv_column_device_buffer_size(made), 1 + 29 + 17 + 29);
    cr_assert_eq(made->depth, 3);
    cr_assert_eq(made->n_entries, 1 + 4 + 2 + 4);
    cr_assert_eq(made->null_count, 1);
    cr_assert_eq(made->device, 0);
    fixture_close(&w);
}

Test(column_nested, a_wrong_null_count_is_refused_for_every_type)
{
    world w;
    fixture_open(&w);
    gmv_column *kinds[CHILD_COUNT];
    children_make(&w, kinds);
    gmv_column *const lists[] = {kinds[OFFSETS4], kinds[FIVE]};
    gmv_column_request request = {
        .type = {GMV_CUDF_LIST, 0},
        .size = 3,
        .null_mask = world_view(&w, "\x05", 1),
        .has_null_count = true,
        .null_count = 1,
        .children = lists,
        .n_children = 2,
    };
    cr_assert_eq(nested_create(&w, &request)->null_count, 1);
    request.null_count = 2;
    nested_refuse(&w, &request, GMV_ERR_VALUE, "/null_count", "a claim of two nulls");
    request.null_mask = NULL;
    nested_refuse(&w, &request, GMV_ERR_VALUE, "/null_count", "nulls without a mask");
    fixture_close(&w);
}

/* ---- limits ------------------------------------------------------------------------------- */

Test(column_nested, nesting_ends_at_the_deepest_level)
{
    world w;
    fixture_open(&w);
    gmv_column *column = NESTED_INT32(&w, 1, 2, 3);
    for (int depth = 1; depth < GMV_COLUMN_DEPTH_MAX; depth++) {
        column = nested_over(&w, GMV_CUDF_STRUCT, 3, 0, NULL, NULL, &column, 1);
        cr_assert_eq(column->depth, depth);
    }
    const gmv_column_request request = {
        .type = {GMV_CUDF_STRUCT, 0}, .size = 3, .children = &column, .n_children = 1};
    nested_refuse(&w, &request, GMV_ERR_QUOTA_EXCEEDED, "/children", "a level too many");
    fixture_close(&w);
}

Test(column_nested, a_child_used_many_times_at_many_levels_does_not_explode)
{
    world w;
    fixture_open(&w);
    gmv_column *column = NESTED_INT32(&w, 1, 2, 3);
    gmv_column *fields[32];
    uint64_t n_entries = 1;
    for (int level = 0;; level++) {
        cr_assert_lt(level, 5, "32 to the 5th is more than what is kept");
        for (size_t i = 0; i < COUNT_OF(fields); i++)
            fields[i] = column;
        const gmv_column_request request = {.type = {GMV_CUDF_STRUCT, 0},
                                            .size = 3,
                                            .children = fields,
                                            .n_children = COUNT_OF(fields)};
        n_entries = n_entries * COUNT_OF(fields) + 1;
        if (n_entries > GMV_COLUMN_ENTRIES_MAX) {
            nested_refuse(&w, &request, GMV_ERR_QUOTA_EXCEEDED, "/children", "a level too many");
            break;
        }
        column = nested_create(&w, &request);
        cr_assert_eq(column->n_entries, n_entries);
    }
    fixture_close(&w);
}

Test(column_nested, a_size_beyond_what_answers_hold_stays_at_their_largest_number)
{
    world w;
    fixture_open(&w);
    /* The views say more than there is memory: nothing reads it. */
    gmv_view *all = world_view(&w, NULL, 64);
    const gmv_layout huge = gmv_layout_flat(INT64_C(1) << 52);
    gmv_view *data = world_view_as(&w, all, GMV_DTYPE_U1, &huge, 0, NULL, GMV_MASK_NONE);
    gmv_column *column = world_column_over(&w, (gmv_cudf_type){GMV_CUDF_INT8, 0}, 1, 0, data, NULL);
    gmv_column *const fields[] = {column, column, column};
    gmv_column *made = nested_over(&w, GMV_CUDF_STRUCT, 1, 0, NULL, NULL, fields, 3);
    cr_assert_eq(gmv_column_device_buffer_size(made), (INT64_C(1) << 53) - 1);
    gmv_column *const columns[] = {made, made};
    gmv_table *table = world_table(&w, columns, 2);
    gmv_handle_info info;
    cr_assert_eq(
        gmv_registry_describe(w.engine.registry, &w.caller, &table->node.id, &info, &w.err),
        GMV_OK);
    cr_assert_eq(info.nbytes, (UINT64_C(1) << 53) - 1);
    fixture_close(&w);
}

/* ---- lives -------------------------------------------------------------------------------- */

Test(column_nested, a_parent_keeps_its_children_alive_and_takes_them_along)
{
    world w;
    fixture_open(&w);
    const census before = world_census(&w);
    gmv_column *strings = nested_string(&w, 2, NESTED_INT32(&w, 0, 3, 5), "abcde");
    gmv_column *const fields[] = {strings, strings};
    gmv_column *made = nested_over(&w, GMV_CUDF_STRUCT, 2, 0, NULL, NULL, fields, 2);
    const gmv_id ids[] = {made->node.id, strings->node.id, strings->data->node.id,
                          strings->children[0]->node.id, strings->children[0]->data->node.id};
    fixture_next(&w);
    for (size_t i = 1; i < COUNT_OF(ids); i++)
        cr_assert(world_delete(&w, &ids[i], GMV_IF_HELD_KEEP).alive, "%zu", i);
    const gmv_deletion deletion = world_delete(&w, &ids[0], GMV_IF_HELD_KEEP);
    cr_assert_not(deletion.alive);
    cr_assert_eq(deletion.freed_count, 7, "three columns, two views and two buffers");
    cr_assert_eq(deletion.freed_nbytes, 17);
    census_assert_equal(before, world_census(&w));
    fixture_close(&w);
}

/* A UINT8 column of 8 rows in memory of one of the devices. */
static gmv_column *column_on(world *w, size_t device)
{
    gmv_result result;
    cr_assert_eq(gmv_result_prepare(&w->operation, w->engine.devices[device], 64,
                                    GMV_CONTENTS_ZEROED, NULL, false, &result, &w->err),
                 GMV_OK);
    cr_assert_eq(gmv_operation_reserve(&w->operation, 2, &w->err), GMV_OK);
    cr_assert_eq(gmv_stream_finish(w->streams[device], &w->err), GMV_OK);
    gmv_node *const nodes[] = {&result.buffer->node, &result.view->node};
    gmv_operation_publish(&w->operation, nodes, 2);
    return world_column_over(w, (gmv_cudf_type){GMV_CUDF_UINT8, 0}, 8, 0, result.view, NULL);
}

Test(column_nested, a_tree_lies_on_one_device)
{
    world w;
    fixture_open_with(&w, NULL, 2);
    gmv_column *const both[] = {column_on(&w, 0), column_on(&w, 1)};
    gmv_column_request request = {
        .type = {GMV_CUDF_STRUCT, 0}, .size = 8, .children = both, .n_children = 2};
    nested_refuse(&w, &request, GMV_ERR_VALUE, "/children/1", "fields on two devices");
    request.null_mask = both[1]->data;
    request.n_children = 1;
    nested_refuse(&w, &request, GMV_ERR_VALUE, "/children/0", "mask and field on two devices");
    request.null_mask = NULL;
    request.children = &both[1];
    cr_assert_eq(nested_create(&w, &request)->device, 1);
    fixture_close(&w);
}
