/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of columns with children as JSON, read from where the device has them. */
#include "codec/column_values.h"

#include "ops/nested_support.h"

/* The rows as text; freed with gmv_free. */
static char *rows_text(world *w, gmv_column *column, int64_t first, int64_t count)
{
    gmv_strbuf out = GMV_STRBUF_INIT;
    gmv_json_writer writer = gmv_json_writer_over(&out);
    gmv_column_rows rows;
    const gmv_status status =
        gmv_column_read_rows(&w->operation, column, first, count, &rows, &w->err);
    cr_assert_eq(status, GMV_OK, "%s", w->err.message);
    cr_assert(gmv_encode_column_rows(&writer, &rows, 1 << 20));
    gmv_column_rows_fini(&rows);
    return gmv_strbuf_take(&out, NULL);
}

static void expect_rows(world *w, gmv_column *column, int64_t first, int64_t count,
                        const char *want)
{
    char *text = rows_text(w, column, first, count);
    cr_assert_str_eq(text, want);
    gmv_free(text);
}

static void expect_values(world *w, gmv_column *column, const char *want)
{
    expect_rows(w, column, 0, column->size, want);
}

static gmv_view *mask_of(world *w, uint8_t bits)
{
    return world_view(w, &bits, 1);
}

/* ---- by type ------------------------------------------------------------------------------ */

Test(column_values, strings_of_any_bytes_and_either_width_of_offsets)
{
    world w;
    fixture_open(&w);
    gmv_view *characters = world_view(&w,
                                      "a\"\0\xc3\xa4\xff\xfe"
                                      "end",
                                      10);
    gmv_column *narrow = NESTED_INT32(&w, 0, 2, 2, 3, 5, 7, 10);
    gmv_column *wide = NESTED_INT64(&w, 0, 2, 2, 3, 5, 7, 10);
    const char *all = "[\"a\\\"\",\"\",\"\\u0000\",\"\xc3\xa4\",{\"base64\":\"//4=\"},\"end\"]";
    expect_values(&w, nested_over(&w, GMV_CUDF_STRING, 6, 0, characters, NULL, &narrow, 1), all);
    expect_values(&w, nested_over(&w, GMV_CUDF_STRING, 6, 0, characters, NULL, &wide, 1), all);
    gmv_column *sliced =
        nested_over(&w, GMV_CUDF_STRING, 3, 3, characters, mask_of(&w, 0x28), &wide, 1);
    expect_values(&w, sliced, "[\"\xc3\xa4\",null,\"end\"]");
    expect_rows(&w, sliced, 2, 1, "[\"end\"]");
    expect_rows(&w, sliced, 3, 0, "[]");
    /* A character cut in two is none. */
    gmv_column *cut = NESTED_INT32(&w, 3, 4, 5);
    expect_values(&w, nested_over(&w, GMV_CUDF_STRING, 2, 0, characters, NULL, &cut, 1),
                  "[{\"base64\":\"ww==\"},{\"base64\":\"pA==\"}]");
    fixture_close(&w);
}

Test(column_values, zero_rows_of_each_type_are_an_empty_list)
{
    world w;
    fixture_open(&w);
    gmv_column *none = nested_elements(&w, GMV_CUDF_INT32, NULL, 0);
    gmv_column *const two[] = {none, none};
    expect_values(&w, nested_over(&w, GMV_CUDF_STRING, 0, 0, NULL, NULL, NULL, 0), "[]");
    expect_values(&w, nested_over(&w, GMV_CUDF_STRING, 0, 9, NULL, NULL, &none, 1), "[]");
    expect_values(&w, nested_over(&w, GMV_CUDF_LIST, 0, 0, NULL, NULL, two, 2), "[]");
    expect_values(&w, nested_over(&w, GMV_CUDF_STRUCT, 0, 0, NULL, NULL, two, 2), "[]");
    expect_values(&w, nested_over(&w, GMV_CUDF_DICTIONARY32, 0, 0, NULL, NULL, NULL, 0), "[]");
    expect_values(&w, nested_over(&w, GMV_CUDF_DICTIONARY32, 0, 0, NULL, NULL, two, 2), "[]");
    expect_values(&w, nested_over(&w, GMV_CUDF_EMPTY, 0, 0, NULL, NULL, NULL, 0), "[]");
    fixture_close(&w);
}

Test(column_values, nothing_is_null)
{
    world w;
    fixture_open(&w);
    gmv_column *nothing = nested_over(&w, GMV_CUDF_EMPTY, 3, 2, NULL, NULL, NULL, 0);
    expect_values(&w, nothing, "[null,null,null]");
    gmv_column *lists = nested_list(&w, 2, NESTED_INT32(&w, 0, 1, 3), nothing);
    expect_values(&w, lists, "[[null],[null,null]]");
    gmv_column *structs = nested_over(&w, GMV_CUDF_STRUCT, 2, 1, NULL, NULL, &nothing, 1);
    expect_values(&w, structs, "[[null],[null]]");
    fixture_close(&w);
}

Test(column_values, lists_of_lists_of_strings_with_nulls_everywhere)
{
    world w;
    fixture_open(&w);
    gmv_column *offsets = NESTED_INT32(&w, 0, 1, 3, 3, 6);
    gmv_column *strings = nested_over(&w, GMV_CUDF_STRING, 4, 0, world_view(&w, "abbccc", 6),
                                      mask_of(&w, 0x0b), &offsets, 1);
    gmv_column *const inner[] = {NESTED_INT32(&w, 0, 2, 2, 4), strings};
    gmv_column *lists = nested_over(&w, GMV_CUDF_LIST, 3, 0, NULL, mask_of(&w, 0x05), inner, 2);
    gmv_column *const outer[] = {NESTED_INT32(&w, 0, 0, 1, 3), lists};
    gmv_column *deep = nested_over(&w, GMV_CUDF_LIST, 3, 0, NULL, mask_of(&w, 0x06), outer, 2);
    expect_values(&w, strings, "[\"a\",\"bb\",null,\"ccc\"]");
    expect_values(&w, lists, "[[\"a\",\"bb\"],null,[null,\"ccc\"]]");
    expect_values(&w, deep, "[null,[[\"a\",\"bb\"]],[null,[null,\"ccc\"]]]");
    expect_rows(&w, deep, 2, 1, "[[null,[null,\"ccc\"]]]");
    gmv_column *sliced = nested_over(&w, GMV_CUDF_LIST, 1, 2, NULL, mask_of(&w, 0x04), outer, 2);
    expect_values(&w, sliced, "[[null,[null,\"ccc\"]]]");
    fixture_close(&w);
}

Test(column_values, structs_add_their_offset_to_their_fields_own)
{
    static const int16_t numbers[] = {10, 11, 12, 13, 14, 15};
    world w;
    fixture_open(&w);
    gmv_view *bytes = world_view(&w, numbers, sizeof numbers);
    gmv_column *field = world_column_over(&w, (gmv_cudf_type){GMV_CUDF_INT16, 0}, 4, 1, bytes,
                                          mask_of(&w, 0x37)); /* 11 12 null 14 */
    gmv_column *strings = nested_string(&w, 4, NESTED_INT32(&w, 0, 1, 2, 3, 4), "pqrs");
    gmv_column *const fields[] = {field, strings, field};
    gmv_column *structs =
        nested_over(&w, GMV_CUDF_STRUCT, 3, 1, NULL, mask_of(&w, 0x0a), fields, 3);
    expect_values(&w, field, "[11,12,null,14]");
    expect_values(&w, structs, "[[12,\"q\",12],null,[14,\"s\",14]]");
    gmv_column *const lists[] = {NESTED_INT32(&w, 0, 1, 3), structs};
    gmv_column *list = nested_over(&w, GMV_CUDF_LIST, 2, 0, NULL, NULL, lists, 2);
    expect_values(&w, list, "[[[12,\"q\",12]],[null,[14,\"s\",14]]]");
    gmv_column *bare = nested_over(&w, GMV_CUDF_STRUCT, 3, 0, NULL, mask_of(&w, 0x05), NULL, 0);
    expect_values(&w, bare, "[[],null,[]]");
    fixture_close(&w);
}

Test(column_values, dictionaries_are_their_keys)
{
    static const int8_t indices[] = {9, 2, 0, 99, 2, 1};
    static const int64_t wide[] = {1, 0, 2};
    world w;
    fixture_open(&w);
    gmv_column *keys = nested_string(&w, 3, NESTED_INT32(&w, 0, 1, 3, 6), "abbccc");
    gmv_column *const narrow[] = {nested_elements(&w, GMV_CUDF_INT8, indices, 6), keys};
    gmv_column *column =
        nested_over(&w, GMV_CUDF_DICTIONARY32, 5, 1, NULL, mask_of(&w, 0x36), narrow, 2);
    expect_values(&w, column, "[\"ccc\",\"a\",null,\"ccc\",\"bb\"]");
    expect_rows(&w, column, 1, 2, "[\"a\",null]");
    gmv_column *const lists[] = {nested_elements(&w, GMV_CUDF_INT64, wide, 3),
                                 nested_list(&w, 3, NESTED_INT32(&w, 0, 1, 1, 3), keys)};
    expect_values(&w, nested_over(&w, GMV_CUDF_DICTIONARY32, 3, 0, NULL, NULL, lists, 2),
                  "[[],[\"a\"],[\"bb\",\"ccc\"]]");
    fixture_close(&w);
}

Test(column_values, keys_far_apart_are_not_read_with_all_between_them)
{
    enum { KEYS = 8 << 20, ROWS = 5 };
    static const int32_t indices[ROWS] = {KEYS - 1, 0, 63, KEYS / 2, KEYS - 64};
    world w;
    fixture_open(&w);
    int32_t *numbers = malloc(KEYS * sizeof *numbers);
    cr_assert_not_null(numbers);
    for (int32_t i = 0; i < KEYS; i++)
        numbers[i] = i;
    gmv_column *const children[] = {nested_elements(&w, GMV_CUDF_INT32, indices, ROWS),
                                    nested_elements(&w, GMV_CUDF_INT32, numbers, KEYS)};
    free(numbers);
    gmv_column *column = nested_over(&w, GMV_CUDF_DICTIONARY32, ROWS, 0, NULL, NULL, children, 2);
    expect_values(&w, column, "[8388607,0,63,4194304,8388544]");
    gmv_column_rows rows;
    cr_assert_eq(gmv_column_read_rows(&w.operation, column, 0, ROWS, &rows, &w.err), GMV_OK);
    cr_assert_eq(rows.n_children, 3);
    cr_assert_eq(rows.children[0].count + rows.children[1].count + rows.children[2].count,
                 64 + 1 + 64);
    gmv_column_rows_fini(&rows);
    fixture_close(&w);
}

Test(column_values, the_deepest_nesting_reads_like_any_other)
{
    world w;
    fixture_open(&w);
    gmv_column *column = NESTED_INT32(&w, 7, 8, 9);
    char want[1024] = "[";
    for (int depth = 1; depth < GMV_COLUMN_DEPTH_MAX; depth++) {
        if (depth % 2 == 0)
            column = nested_list(&w, 1, NESTED_INT32(&w, 0, column->size), column);
        else
            column = nested_over(&w, GMV_CUDF_STRUCT, column->size, 0, NULL, NULL, &column, 1);
        strcat(want, "[");
    }
    char *text = rows_text(&w, column, 0, column->size);
    cr_assert_eq(strncmp(text, want, strlen(want)), 0, "%s", text);
    cr_assert_not_null(strstr(text, "7],[8],[9]"), "%s", text);
    gmv_free(text);
    fixture_close(&w);
}

/* ---- from a view of several dimensions ---------------------------------------------------- */

static gmv_column *column_from(world *w, gmv_view *all, gmv_dtype dtype, const gmv_layout *layout,
                               gmv_view *mask, gmv_mask_kind mask_kind)
{
    gmv_view *view = world_view_as(w, all, dtype, layout, 0, mask, mask_kind);
    gmv_column *column = NULL;
    cr_assert_eq(gmv_column_from_view(&w->operation, view, NULL, &column, &w->err), GMV_OK, "%s",
                 w->err.message);
    return column;
}

Test(column_values, dimensions_become_nested_lists)
{
    static const struct {
        gmv_layout layout;
        const char *want;
    } rows[] = {
        {{.ndim = 1, .shape = {6}}, "[0,1,2,3,4,5]"},
        {{.ndim = 2, .shape = {2, 3}}, "[[0,1,2],[3,4,5]]"},
        {{.ndim = 2, .shape = {3, 2}}, "[[0,1],[2,3],[4,5]]"},
        {{.ndim = 3, .shape = {2, 1, 3}}, "[[[0,1,2]],[[3,4,5]]]"},
        {{.ndim = 4, .shape = {1, 3, 2, 1}}, "[[[[0],[1]],[[2],[3]],[[4],[5]]]]"},
        {{.ndim = 2, .shape = {2, 0}}, "[[],[]]"},
        {{.ndim = 2, .shape = {0, 2}}, "[]"},
        {{.ndim = 3, .shape = {2, 0, 5}}, "[[],[]]"},
        {{.ndim = 3, .shape = {2, 1, 0}}, "[[[]],[[]]]"},
        {{.ndim = 3, .shape = {0, 2147483647, 200}}, "[]"},
    };
    static const int32_t numbers[] = {0, 1, 2, 3, 4, 5};
    world w;
    fixture_open(&w);
    gmv_view *all = world_view(&w, numbers, sizeof numbers);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const gmv_layout *layout = &rows[i].layout;
        gmv_column *column = column_from(&w, all, GMV_DTYPE_I4, layout, NULL, GMV_MASK_NONE);
        expect_values(&w, column, rows[i].want);
        int64_t n = 1;
        for (int32_t k = 0; k + 1 < layout->ndim; k++, column = column->children[1]) {
            n *= layout->shape[k];
            cr_assert_eq(column->type.id, GMV_CUDF_LIST);
            cr_assert_eq(column->size, n);
            cr_assert_eq(column->null_count, 0);
            cr_assert_null(column->data);
            cr_assert_null(column->null_mask);
            cr_assert_eq(column->node.inner, k > 0);
            cr_assert_eq(column->n_children, 2);
            cr_assert_eq(column->children[0]->type.id, GMV_CUDF_INT32);
            cr_assert_eq(column->children[0]->size, n + 1);
            cr_assert(column->children[0]->node.inner);
            cr_assert_eq(column->children[0]->data->nbytes, 4 * (n + 1));
        }
        cr_assert_eq(column->type.id, GMV_CUDF_INT32);
        cr_assert_eq(column->node.inner, layout->ndim > 1);
        cr_assert_eq(column->data->parent, &all->node);
    }
    fixture_close(&w);
}

Test(column_values, as_many_dimensions_as_there_can_be)
{
    world w;
    fixture_open(&w);
    gmv_layout layout = {.ndim = GMV_NDIM_MAX};
    for (int32_t i = 0; i < GMV_NDIM_MAX; i++)
        layout.shape[i] = 1;
    gmv_column *column =
        column_from(&w, world_view(&w, "*", 1), GMV_DTYPE_U1, &layout, NULL, GMV_MASK_NONE);
    char want[2 * GMV_NDIM_MAX + 3] = "";
    for (int32_t i = 0; i < GMV_NDIM_MAX; i++)
        strcat(want, "[");
    strcat(want, "42");
    for (int32_t i = 0; i < GMV_NDIM_MAX; i++)
        strcat(want, "]");
    expect_values(&w, column, want);
    cr_assert_eq(column->depth, GMV_NDIM_MAX - 1);
    fixture_close(&w);
}

Test(column_values, a_mask_of_several_dimensions_says_which_elements_are_null)
{
    static const uint8_t bools[] = {1, 0, 1, 1, 1, 0};
    world w;
    fixture_open(&w);
    const gmv_layout layout = {.ndim = 2, .shape = {2, 3}};
    gmv_view *mask = world_view_as(&w, world_view(&w, bools, sizeof bools), GMV_DTYPE_B1, &layout,
                                   0, NULL, GMV_MASK_NONE);
    gmv_column *column =
        column_from(&w, world_view(&w, "abcdef", 6), GMV_DTYPE_U1, &layout, mask, GMV_MASK_BOOLS);
    expect_values(&w, column, "[[97,null,99],[100,101,null]]");
    cr_assert_eq(column->null_count, 0);
    cr_assert_eq(column->children[1]->null_count, 2);
    fixture_close(&w);
}

Test(column_values, nested_lists_go_with_their_column)
{
    world w;
    fixture_open(&w);
    const gmv_layout layout = {.ndim = 3, .shape = {2, 3, 1}};
    gmv_view *all = world_view(&w, "abcdef", 6);
    fixture_next(&w);
    const census before = world_census(&w);
    gmv_column *column = column_from(&w, all, GMV_DTYPE_U1, &layout, NULL, GMV_MASK_NONE);
    const gmv_id id = column->node.id, view = column->children[1]->children[1]->data->node.id;
    const gmv_id inner = column->children[1]->node.id;
    fixture_next(&w);
    cr_assert_eq(world_look_up(&w, &inner), GMV_OK);
    cr_assert(world_delete(&w, &view, GMV_IF_HELD_KEEP).alive);
    const gmv_deletion deletion = world_delete(&w, &id, GMV_IF_HELD_KEEP);
    cr_assert_eq(deletion.freed_count, 10,
                 "2 lists, 2 offsets with a view each, a view and a buffer for both, the elements "
                 "and their view");
    cr_assert_eq(world_look_up(&w, &inner), GMV_ERR_HANDLE_DELETED);
    census_assert_equal(before, world_census(&w));
    fixture_close(&w);
}

static gmv_status chaos_nest(world *w, void *context)
{
    gmv_node *node = NULL;
    gmv_column *column = NULL;
    GMV_TRY(gmv_operation_get(&w->operation, context, GMV_KIND_VIEW, NULL, &node, &w->err));
    GMV_TRY(gmv_column_from_view(&w->operation, gmv_view_of(node), NULL, &column, &w->err));
    world_delete(w, &column->node.id, GMV_IF_HELD_KEEP);
    return GMV_OK;
}

Test(column_values, no_failure_leaves_a_level_behind)
{
    static const uint8_t bools[] = {1, 0, 1, 1, 1, 0};
    world w;
    fixture_open(&w);
    const gmv_layout layout = {.ndim = 3, .shape = {2, 3, 1}};
    gmv_view *mask = world_view_as(&w, world_view(&w, bools, sizeof bools), GMV_DTYPE_B1, &layout,
                                   0, NULL, GMV_MASK_NONE);
    gmv_id id = world_view_as(&w, world_view(&w, "abcdef", 6), GMV_DTYPE_U1, &layout, 0, mask,
                              GMV_MASK_BOOLS)
                    ->node.id;
    world_run_chaos(&w, chaos_nest, &id);
    fixture_close(&w);
}

/* ---- bounds ------------------------------------------------------------------------------- */

static void expect_too_much(world *w, gmv_column *column, int64_t count, const char *part)
{
    const census before = world_census(w);
    gmv_column_rows rows;
    gmv_error_init(&w->err);
    cr_assert_eq(gmv_column_read_rows(&w->operation, column, 0, count, &rows, &w->err),
                 GMV_ERR_QUOTA_EXCEEDED, "%s", w->err.message);
    cr_assert_not_null(strstr(w->err.message, part), "%s", w->err.message);
    cr_assert_null(rows.children);
    cr_assert_null(rows.data);
    census_assert_equal(before, world_census(w));
}

Test(column_values, one_string_can_be_too_long)
{
    enum { NBYTES = (16 << 20) + 1 };
    world w;
    fixture_open(&w);
    gmv_column *offsets = NESTED_INT32(&w, 0, NBYTES, NBYTES);
    gmv_view *characters = world_view(&w, NULL, NBYTES);
    gmv_column *column = nested_over(&w, GMV_CUDF_STRING, 2, 0, characters, NULL, &offsets, 1);
    expect_too_much(&w, column, 1, "this row alone holds more than 1048576 values");
    expect_too_much(&w, column, 2, "ask for fewer of them");
    expect_rows(&w, column, 1, 1, "[\"\"]");
    fixture_close(&w);
}

Test(column_values, one_list_of_nothing_can_be_too_long)
{
    world w;
    fixture_open(&w);
    gmv_column *nothing =
        nested_over(&w, GMV_CUDF_EMPTY, GMV_SIZE_TYPE_MAX, 0, NULL, NULL, NULL, 0);
    gmv_column *column = nested_list(&w, 1, NESTED_INT32(&w, 0, GMV_SIZE_TYPE_MAX), nothing);
    expect_too_much(&w, column, 1, "this row alone");
    fixture_close(&w);
}

Test(column_values, one_struct_can_have_too_many_fields_below_it)
{
    world w;
    fixture_open(&w);
    gmv_column *column = NESTED_INT32(&w, 1);
    gmv_column *fields[64];
    for (int level = 0; level < 3; level++) {
        for (size_t i = 0; i < COUNT_OF(fields); i++)
            fields[i] = column;
        column = nested_over(&w, GMV_CUDF_STRUCT, 1, 0, NULL, NULL, fields, COUNT_OF(fields));
    }
    cr_assert_eq(column->n_entries, 1 + 64 * (1 + 64 * (1 + 64)));
    expect_too_much(&w, column, 1, "this row alone");
    fixture_close(&w);
}

Test(column_values, a_text_that_grows_too_long_is_given_up)
{
    static const int8_t indices[100];
    world w;
    fixture_open(&w);
    gmv_column *offsets = NESTED_INT32(&w, 0, 4000);
    gmv_column *keys =
        nested_over(&w, GMV_CUDF_STRING, 1, 0, world_view(&w, NULL, 4000), NULL, &offsets, 1);
    gmv_column *const children[] = {nested_elements(&w, GMV_CUDF_INT8, indices, 100), keys};
    gmv_column *column = nested_over(&w, GMV_CUDF_DICTIONARY32, 100, 0, NULL, NULL, children, 2);
    for (size_t limit = 0; limit < 100000; limit = 2 * limit + 1) {
        gmv_strbuf out = GMV_STRBUF_INIT;
        gmv_json_writer writer = gmv_json_writer_over(&out);
        gmv_column_rows rows;
        cr_assert_eq(gmv_column_read_rows(&w.operation, column, 0, 100, &rows, &w.err), GMV_OK);
        cr_assert_not(gmv_encode_column_rows(&writer, &rows, limit));
        cr_assert_leq(out.length, limit + 6 * 4000 + 8);
        gmv_column_rows_fini(&rows);
        gmv_strbuf_fini(&out);
    }
    fixture_close(&w);
}

/* ---- hostile memory ----------------------------------------------------------------------- */

/* Overwrites what the check has seen. */
static void overwrite(world *w, const gmv_column *column, const void *bytes, size_t nbytes)
{
    cr_assert_eq(gmv_copy_in(w->streams[0], column->data->ptr, bytes, nbytes, &w->err), GMV_OK);
    cr_assert_eq(gmv_stream_finish(w->streams[0], &w->err), GMV_OK);
}

Test(column_values, offsets_that_were_changed_lead_to_what_is_there)
{
    static const struct {
        int32_t offsets[4];
        const char *strings, *lists;
    } rows[] = {
        {{0, 1, 3, 5}, "[\"a\",\"bc\",\"de\"]", "[[0],[1,2],[3,4]]"},
        {{-5, 1, 3, 5}, "[\"a\",\"bc\",\"de\"]", "[[0],[1,2],[3,4]]"},
        {{4, 1, 3, 5}, "[\"\",\"\",\"e\"]", "[[],[],[4]]"},
        {{0, 9, 3, 5}, "[\"abcde\",\"\",\"\"]", "[[0,1,2,3,4],[],[]]"},
        {{9, 9, 9, 9}, "[\"\",\"\",\"\"]", "[[],[],[]]"},
        {{INT32_MIN, INT32_MIN, INT32_MIN, INT32_MAX},
         "[\"\",\"\",\"abcde\"]",
         "[[],[],[0,1,2,3,4]]"},
        {{INT32_MAX, INT32_MIN, 0, 1}, "[\"\",\"\",\"\"]", "[[],[],[]]"},
    };
    world w;
    fixture_open(&w);
    gmv_column *offsets = NESTED_INT32(&w, 0, 1, 3, 5);
    gmv_column *strings = nested_string(&w, 3, offsets, "abcde");
    gmv_column *lists = nested_list(&w, 3, offsets, NESTED_INT32(&w, 0, 1, 2, 3, 4));
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        overwrite(&w, offsets, rows[i].offsets, sizeof rows[i].offsets);
        expect_values(&w, strings, rows[i].strings);
        expect_values(&w, lists, rows[i].lists);
    }
    fixture_close(&w);
}

Test(column_values, indices_that_were_changed_lead_to_the_nearest_key)
{
    static const int32_t changed[] = {INT32_MIN, 3, INT32_MAX};
    world w;
    fixture_open(&w);
    gmv_column *indices = NESTED_INT32(&w, 0, 0, 0);
    gmv_column *const children[] = {indices, NESTED_INT32(&w, 70, 71, 72)};
    gmv_column *column = nested_over(&w, GMV_CUDF_DICTIONARY32, 3, 0, NULL, NULL, children, 2);
    overwrite(&w, indices, changed, sizeof changed);
    expect_values(&w, column, "[70,72,72]");
    gmv_column *const nowhere[] = {indices, nested_elements(&w, GMV_CUDF_INT32, NULL, 0)};
    gmv_column *nulls =
        nested_over(&w, GMV_CUDF_DICTIONARY32, 3, 0, NULL, mask_of(&w, 0x00), nowhere, 2);
    world_write(&w, nulls->null_mask, 0, 0x07);
    expect_values(&w, nulls, "[null,null,null]");
    fixture_close(&w);
}
