/* SPDX-License-Identifier: Apache-2.0 */
/* Columns with children: what they accept and what they say of themselves. */
#include <pthread.h>

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

/* ---- offsets and indices ------------------------------------------------------------------ */

/* Offsets over 5 characters, elements or keys. */
typedef struct leading {
    const char *why;
    int32_t type_id, child_type_id;
    int64_t size, offset;
    int64_t values[6];   /* of the child; padded with the last one */
    const char *message; /* NULL: accepted */
} leading;

static const leading leadings[] = {
    {"offsets from 0", GMV_CUDF_STRING, GMV_CUDF_INT32, 3, 0, {0, 1, 3, 5}, NULL},
    {"offsets from elsewhere", GMV_CUDF_STRING, GMV_CUDF_INT32, 3, 0, {2, 2, 4, 4}, NULL},
    {"what is before the offset", GMV_CUDF_LIST, GMV_CUDF_INT32, 2, 1, {-7, 1, 3, 5}, NULL},
    {"what is after the last", GMV_CUDF_LIST, GMV_CUDF_INT32, 2, 0, {0, 1, 3, 99, -1}, NULL},
    {"the largest element", GMV_CUDF_LIST, GMV_CUDF_INT32, 1, 0, {5, 5}, NULL},
    {"no rows", GMV_CUDF_LIST, GMV_CUDF_INT32, 0, 0, {77}, NULL},
    {"a negative offset",
     GMV_CUDF_STRING,
     GMV_CUDF_INT32,
     2,
     0,
     {-1, 0, 5},
     "offset 0 is -1, which is below 0"},
    {"a negative wide offset",
     GMV_CUDF_STRING,
     GMV_CUDF_INT64,
     2,
     0,
     {0, INT64_MIN, 5},
     "offset 1 is -9223372036854775808, which is below 0"},
    {"a step back",
     GMV_CUDF_LIST,
     GMV_CUDF_INT32,
     3,
     0,
     {0, 4, 3, 5},
     "offset 2 is 3, which is below the one before it, 4"},
    {"past the characters",
     GMV_CUDF_STRING,
     GMV_CUDF_INT32,
     3,
     0,
     {0, 4, 5, 6},
     "offset 3 is 6, but there are 5 bytes of characters"},
    {"far past the characters",
     GMV_CUDF_STRING,
     GMV_CUDF_INT64,
     1,
     0,
     {0, INT64_MAX},
     "offset 1 is 9223372036854775807, but there are 5 bytes of characters"},
    {"past the elements, then back",
     GMV_CUDF_LIST,
     GMV_CUDF_INT32,
     3,
     0,
     {0, 6, 5, 5},
     "offset 1 is 6, but there are 5 elements"},
    {"behind the parent's offset",
     GMV_CUDF_LIST,
     GMV_CUDF_INT32,
     2,
     2,
     {9, 9, 4, 5, 3},
     "offset 4 is 3, which is below the one before it, 5"},
    {"all keys", GMV_CUDF_DICTIONARY32, GMV_CUDF_INT8, 5, 0, {4, 0, 2, 4, 1}, NULL},
    {"what is before the first", GMV_CUDF_DICTIONARY32, GMV_CUDF_INT16, 2, 1, {-9, 0, 4}, NULL},
    {"a key too many",
     GMV_CUDF_DICTIONARY32,
     GMV_CUDF_INT64,
     3,
     0,
     {4, 5, 2},
     "index 1 is 5, but there are 5 keys"},
    {"a negative index",
     GMV_CUDF_DICTIONARY32,
     GMV_CUDF_INT8,
     2,
     1,
     {9, 4, -128},
     "index 2 is -128, which is below 0"},
};

static gmv_column *leading_child(world *w, const leading *l)
{
    const size_t width = gmv_cudf_type_width(l->child_type_id);
    uint8_t bytes[6 * sizeof(int64_t)];
    for (size_t i = 0; i < 6; i++)
        memcpy(bytes + i * width, &l->values[i], width);
    return nested_elements(w, l->child_type_id, bytes, 6);
}

Test(column_nested, offsets_and_indices_are_looked_at_when_it_is_made)
{
    world w;
    fixture_open(&w);
    gmv_column *five = nested_elements(&w, GMV_CUDF_INT32, ten_values, 5);
    gmv_view *characters = world_view(&w, "abcde", 5);
    for (size_t i = 0; i < COUNT_OF(leadings); i++) {
        const leading *l = &leadings[i];
        const bool is_string = l->type_id == GMV_CUDF_STRING;
        gmv_column *const children[] = {leading_child(&w, l), five};
        const gmv_column_request request = {
            .type = {l->type_id, 0},
            .size = l->size,
            .offset = l->offset,
            .data = is_string ? characters : NULL,
            .children = children,
            .n_children = is_string ? 1 : 2,
        };
        if (!l->message) {
            nested_create(&w, &request);
            continue;
        }
        nested_refuse(&w, &request, GMV_ERR_VALUE, "/children/0", l->why);
        cr_assert_str_eq(w.err.message, l->message, "%s", l->why);
    }
    fixture_close(&w);
}

Test(column_nested, strings_need_no_characters_where_there_are_none)
{
    world w;
    fixture_open(&w);
    gmv_column *none = NESTED_INT32(&w, 0, 0, 0), *some = NESTED_INT32(&w, 0, 0, 1);
    gmv_column_request request = {
        .type = {GMV_CUDF_STRING, 0}, .size = 2, .children = &none, .n_children = 1};
    cr_assert_eq(gmv_column_device_buffer_size(nested_create(&w, &request)), 12);
    request.children = &some;
    nested_refuse(&w, &request, GMV_ERR_VALUE, "/children/0", "a character that is missing");
    cr_assert_str_eq(w.err.message, "offset 2 is 1, but there are 0 bytes of characters");
    fixture_close(&w);
}

Test(column_nested, the_childs_own_offset_counts)
{
    static const int32_t offsets[] = {-5, -5, 0, 2, 5, 99};
    world w;
    fixture_open(&w);
    gmv_view *bytes = world_view(&w, offsets, sizeof offsets);
    gmv_column *sliced =
        world_column_over(&w, (gmv_cudf_type){GMV_CUDF_INT32, 0}, 3, 2, bytes, NULL);
    gmv_column_request request = {.type = {GMV_CUDF_STRING, 0},
                                  .size = 2,
                                  .data = world_view(&w, "abcde", 5),
                                  .children = &sliced,
                                  .n_children = 1};
    nested_create(&w, &request);
    request.size = 3;
    nested_refuse(&w, &request, GMV_ERR_VALUE, "/children/0", "a row past the slice");
    request.size = 1;
    request.offset = 1;
    nested_create(&w, &request);
    fixture_close(&w);
}

Test(column_nested, indices_of_null_rows_may_lead_nowhere)
{
    static const int8_t indices[] = {99, 1, -1, 0, 99};
    world w;
    fixture_open(&w);
    gmv_column *const children[] = {nested_elements(&w, GMV_CUDF_INT8, indices, 5),
                                    NESTED_INT32(&w, 7, 8)};
    gmv_column_request request = {.type = {GMV_CUDF_DICTIONARY32, 0},
                                  .size = 4,
                                  .offset = 1,
                                  .null_mask = world_view(&w, "\x0a", 1),
                                  .children = children,
                                  .n_children = 2};
    cr_assert_eq(nested_create(&w, &request)->null_count, 2);
    request.null_mask = world_view(&w, "\x1a", 1);
    nested_refuse(&w, &request, GMV_ERR_VALUE, "/children/0", "a row that is valid");
    cr_assert_str_eq(w.err.message, "index 4 is 99, but there are 2 keys");
    gmv_column *const nowhere[] = {children[0], nested_elements(&w, GMV_CUDF_INT32, NULL, 0)};
    request.children = nowhere;
    request.null_mask = world_view(&w, "\0", 1);
    cr_assert_eq(nested_create(&w, &request)->null_count, 4);
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
    for (uint32_t depth = 1; depth < GMV_COLUMN_DEPTH_MAX; depth++) {
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

/* ---- large ones --------------------------------------------------------------------------- */

Test(column_nested, many_offsets_are_looked_at_on_the_bulk_lane)
{
    enum { N = 5 << 20 };
    world w;
    fixture_open(&w);
    gmv_column *offsets = nested_elements(&w, GMV_CUDF_INT32, NULL, 0);
    gmv_view *zeroes = world_view(&w, NULL, N * sizeof(int32_t));
    offsets = world_column_over(&w, (gmv_cudf_type){GMV_CUDF_INT32, 0}, N, 0, zeroes, NULL);
    const gmv_id id = offsets->node.id;
    fixture_end(&w);
    fixture_begin_lane(&w, GMV_LANE_SHORT);
    gmv_node *node = NULL;
    gmv_column *child, *column = NULL;
    cr_assert_eq(gmv_operation_get(&w.operation, &id, GMV_KIND_COLUMN, NULL, &node, &w.err),
                 GMV_OK);
    child = gmv_column_of(node);
    gmv_column_request request = {
        .type = {GMV_CUDF_STRING, 0}, .size = N - 1, .children = &child, .n_children = 1};
    cr_assert_eq(gmv_column_create(&w.operation, &request, NULL, &column, &w.err),
                 GMV_MOVE_TO_BULK);
    request.size = N / 5;
    cr_assert_eq(gmv_column_create(&w.operation, &request, NULL, &column, &w.err), GMV_OK);
    fixture_close(&w);
}

/* ---- what changes meanwhile --------------------------------------------------------------- */

#define FLIPPED_ROWS 500

typedef struct flipper {
    int32_t *offsets;
    _Atomic bool stopped;
} flipper;

/* Another process's writes: nobody orders them. */
static __attribute__((no_sanitize("thread"))) void *flip(void *context)
{
    flipper *f = context;
    for (uint32_t n = 0; !f->stopped; n = n * 1664525u + 1013904223u) {
        volatile int32_t *offset = &f->offsets[(n >> 8) % (FLIPPED_ROWS + 1)];
        *offset = (int32_t)(n ^ n << 7);
        *offset = (int32_t)((n >> 8) % (FLIPPED_ROWS + 1));
    }
    return NULL;
}

static void assert_rows_are_there(const gmv_column_rows *rows)
{
    if (rows->count == 0)
        return; /* of no rows nothing is read */
    for (int64_t i = 0; rows->offsets && i < rows->count; i++)
        cr_assert(rows->offsets[i] >= 0 && rows->offsets[i] <= rows->offsets[i + 1]);
    if (rows->type.id == GMV_CUDF_LIST)
        cr_assert_eq(rows->offsets[rows->count], rows->children[0].count);
    if (rows->type.id == GMV_CUDF_STRING)
        cr_assert_leq(rows->offsets[rows->count], FLIPPED_ROWS);
    for (int64_t i = 0; rows->keys && i < rows->count; i++) {
        const size_t child = GMV_COLUMN_KEY_CHILD(rows->keys[i]);
        cr_assert_lt(child, rows->n_children);
        cr_assert_lt(GMV_COLUMN_KEY_ROW(rows->keys[i]), rows->children[child].count);
    }
    for (size_t i = 0; i < rows->n_children; i++)
        assert_rows_are_there(&rows->children[i]);
}

Test(column_nested, offsets_that_change_all_the_time_are_survived, .timeout = 600)
{
    world w;
    fixture_open(&w);
    fixture_host_only(&w, "the test writes to the memory itself");
    int32_t good[FLIPPED_ROWS + 1];
    char text[FLIPPED_ROWS];
    for (int32_t i = 0; i <= FLIPPED_ROWS; i++)
        good[i] = i;
    memset(text, 'a', sizeof text);
    gmv_column *offsets = nested_elements(&w, GMV_CUDF_INT32, good, FLIPPED_ROWS + 1);
    gmv_column *strings = nested_over(&w, GMV_CUDF_STRING, FLIPPED_ROWS, 0,
                                      world_view(&w, text, sizeof text), NULL, &offsets, 1);
    gmv_column *lists = nested_list(&w, FLIPPED_ROWS, offsets, strings);
    gmv_column *const parts[] = {offsets, lists};
    gmv_column *words =
        nested_over(&w, GMV_CUDF_DICTIONARY32, FLIPPED_ROWS, 0, NULL, NULL, parts, 2);
    gmv_column *const columns[] = {lists, strings};
    gmv_table *table = world_table(&w, columns, 2);

    flipper f = {.offsets = (int32_t *)(uintptr_t)offsets->data->ptr};
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, flip, &f), 0);
    for (int round = 0; round < 300; round++) {
        gmv_column *const all[] = {strings, lists, words};
        for (size_t i = 0; i < COUNT_OF(all); i++) {
            gmv_column_rows rows;
            const gmv_status status =
                gmv_column_read_rows(&w.operation, all[i], 0, FLIPPED_ROWS, &rows, &w.err);
            cr_assert_eq(status, GMV_OK, "%s", w.err.message);
            assert_rows_are_there(&rows);
            gmv_column_rows_fini(&rows);
        }
        const gmv_column_request request = {
            .type = {GMV_CUDF_LIST, 0},
            .size = FLIPPED_ROWS,
            .children = lists->children,
            .n_children = 2,
        };
        gmv_column *column = NULL;
        gmv_status status = gmv_column_create(&w.operation, &request, NULL, &column, &w.err);
        cr_assert(status == GMV_OK || status == GMV_ERR_VALUE, "%s", w.err.message);
        gmv_packed *packed = NULL;
        status = gmv_pack(&w.operation, table, NULL, &packed, &w.err);
        cr_assert(status == GMV_OK || status == GMV_ERR_VALUE, "%s", w.err.message);
    }
    f.stopped = true;
    pthread_join(thread, NULL);
    fixture_close(&w);
}

/* ---- failures ----------------------------------------------------------------------------- */

/* What chaos works on, made before anything fails. */
typedef struct chaos {
    gmv_id offsets, elements, mask;
} chaos;

static gmv_node *chaos_get(world *w, const gmv_id *id, gmv_status *status)
{
    gmv_node *node = NULL;
    if (*status == GMV_OK)
        *status = gmv_operation_get(&w->operation, id, id->kind, NULL, &node, &w->err);
    return node;
}

static gmv_status chaos_create(world *w, void *context)
{
    const chaos *c = context;
    gmv_status status = GMV_OK;
    gmv_node *nodes[] = {chaos_get(w, &c->offsets, &status), chaos_get(w, &c->elements, &status),
                         chaos_get(w, &c->mask, &status)};
    GMV_TRY(status);
    gmv_column *const children[] = {gmv_column_of(nodes[0]), gmv_column_of(nodes[1])};
    const gmv_column_request request = {
        .type = {GMV_CUDF_LIST, 0},
        .size = 3,
        .null_mask = gmv_view_of(nodes[2]),
        .children = children,
        .n_children = 2,
    };
    const gmv_creation creation = {.label = "chaos", .label_length = 5};
    gmv_column *column = NULL;
    GMV_TRY(gmv_column_create(&w->operation, &request, &creation, &column, &w->err));
    gmv_column_rows rows;
    status = gmv_column_read_rows(&w->operation, column, 0, 3, &rows, &w->err);
    gmv_column_rows_fini(&rows);
    world_delete(w, &column->node.id, GMV_IF_HELD_KEEP);
    return status;
}

Test(column_nested, no_failure_leaves_anything_behind)
{
    world w;
    fixture_open(&w);
    gmv_column *strings = nested_string(&w, 5, NESTED_INT64(&w, 0, 1, 2, 3, 4, 5), "abcde");
    gmv_column *const fields[] = {strings, nested_elements(&w, GMV_CUDF_INT32, ten_values, 5)};
    gmv_column *elements = nested_over(&w, GMV_CUDF_STRUCT, 5, 0, NULL, NULL, fields, 2);
    chaos c = {NESTED_INT32(&w, 0, 2, 2, 5)->node.id, elements->node.id,
               world_view(&w, "\x05", 1)->node.id};
    world_run_chaos(&w, chaos_create, &c);
    fixture_close(&w);
}

/* The check finds something, and each call of the device that then tells what it was fails. */
Test(column_nested, a_failure_while_an_offset_is_named_is_that_failure)
{
    world w;
    fixture_open(&w);
    gmv_column *child = NESTED_INT32(&w, 0, 2, 1, 5);
    const gmv_column_request request = {
        .type = {GMV_CUDF_STRING, 0}, .size = 3, .children = &child, .n_children = 1};
    const census before = world_census(&w);
    uint64_t n = 1;
    for (bool has_failed = true; has_failed; n++) {
        gmv_column *column = NULL;
        gmv_device_fail_once(w.engine.devices[0], n, GMV_ERR_INTERNAL);
        const gmv_status status = gmv_column_create(&w.operation, &request, NULL, &column, &w.err);
        has_failed = gmv_device_has_failed(w.engine.devices[0]);
        cr_assert_eq(status, has_failed ? GMV_ERR_INTERNAL : GMV_ERR_VALUE, "call %d", (int)n);
    }
    gmv_device_fail_once(w.engine.devices[0], 0, GMV_OK);
    cr_assert_gt(n, 6, "checking and reading take three calls each");
    census_assert_equal(before, world_census(&w));
    fixture_close(&w);
}
