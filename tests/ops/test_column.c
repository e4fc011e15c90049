/* SPDX-License-Identifier: Apache-2.0 */
/* Columns: what they accept, how they count nulls, and rows read back. */
#include <jansson.h>

#include "ops/packed_support.h"

static const uint8_t zeros[256];

/* ---- types -------------------------------------------------------------------------------- */

Test(column, every_fixed_width_type_is_accepted_over_its_data)
{
    world w;
    fixture_open(&w);
    gmv_view *data = world_view(&w, zeros, sizeof zeros);
    for (int32_t id = -1; id <= GMV_CUDF_TYPE_COUNT; id++) {
        const gmv_column_request request = {.type = {id, 0}, .size = 3, .offset = 1, .data = data};
        gmv_column *column = NULL;
        const gmv_status status = gmv_column_create(&w.operation, &request, NULL, &column, &w.err);
        if ((id >= 1 && id <= 21) || (id >= 25 && id <= 27)) {
            cr_assert_eq(status, GMV_OK, "type %d: %s", id, w.err.message);
            cr_assert_eq(column->type.id, id);
            cr_assert_eq(column->size, 3);
            cr_assert_eq(column->offset, 1);
            cr_assert_eq(column->null_count, 0);
            cr_assert_eq(column->n_children, 0);
            cr_assert_eq(column->device, 0);
            cr_assert_not(gmv_column_is_nullable(column));
            cr_assert_eq(gmv_column_data_address(column), data->ptr + gmv_cudf_type_width(id));
            cr_assert_eq(gmv_column_validity(column).address, 0);
            cr_assert_eq(gmv_column_device(&w.engine, column), w.engine.devices[0]);
            cr_assert_eq(gmv_column_device_buffer_size(column), (int64_t)sizeof zeros);
        } else if (id >= 0 && id < GMV_CUDF_TYPE_COUNT) {
            cr_assert_eq(status, GMV_ERR_VALUE, "type %d lacks children or takes no data", id);
        } else {
            cr_assert_eq(status, GMV_ERR_DTYPE_UNSUPPORTED, "type %d", id);
            cr_assert_str_eq(w.err.pointer, "/type/name");
        }
    }
    fixture_close(&w);
}

Test(column, only_decimals_have_a_scale)
{
    world w;
    fixture_open(&w);
    gmv_view *data = world_view(&w, zeros, sizeof zeros);
    for (int32_t id = 0; id < GMV_CUDF_TYPE_COUNT; id++) {
        const gmv_column_request request = {.type = {id, -2}, .size = 1, .data = data};
        gmv_column *column = NULL;
        const gmv_status status = gmv_column_create(&w.operation, &request, NULL, &column, &w.err);
        if (gmv_cudf_type_is_decimal(id)) {
            cr_assert_eq(status, GMV_OK);
            cr_assert_eq(column->type.scale, -2);
        } else {
            cr_assert_eq(status, GMV_ERR_VALUE);
            cr_assert_str_eq(w.err.pointer, "/type/scale");
        }
    }
    fixture_close(&w);
}

/* ---- what is refused ---------------------------------------------------------------------- */

/* A column over 64 bytes of data (from `data_offset`) and a mask of mask_nbytes. */
typedef struct refusal {
    const char *why;
    int32_t type_id;
    int64_t size, offset;
    int64_t data_offset; /* -1: no data */
    int64_t mask_nbytes; /* -1: no mask; all bits are null */
    int64_t null_count;  /* -1: not given */
    gmv_status status;
    const char *pointer;
} refusal;

static const refusal refusals[] = {
    {"negative size", 3, -1, 0, 0, -1, -1, GMV_ERR_VALUE, "/size"},
    {"size beyond int32", 3, 2147483648LL, 0, 0, -1, -1, GMV_ERR_VALUE, "/size"},
    {"size at the end of int64", 3, INT64_MAX, 1, 0, -1, -1, GMV_ERR_VALUE, "/size"},
    {"negative offset", 3, 2, -1, 0, -1, -1, GMV_ERR_VALUE, "/offset"},
    {"offset beyond int32", 3, 0, 2147483648LL, 0, -1, -1, GMV_ERR_VALUE, "/offset"},
    {"sum beyond int32", 1, 2147483647, 1, 0, -1, -1, GMV_ERR_VALUE, "/offset"},
    {"rows without data", 3, 2, 0, -1, -1, -1, GMV_ERR_VALUE, "/data"},
    {"one row too many", 3, 17, 0, 0, -1, -1, GMV_ERR_OUT_OF_BOUNDS, "/data"},
    {"offset leads past the end", 3, 16, 1, 0, -1, -1, GMV_ERR_OUT_OF_BOUNDS, "/data"},
    {"bytes beyond int32", 27, 2147483647, 0, 0, -1, -1, GMV_ERR_OUT_OF_BOUNDS, "/data"},
    {"2-byte data at an odd address", 2, 2, 0, 1, -1, -1, GMV_ERR_VALUE, "/data"},
    {"8-byte data at a multiple of 4", 10, 2, 0, 4, -1, -1, GMV_ERR_VALUE, "/data"},
    {"16-byte data at a multiple of 8", 27, 2, 0, 8, -1, -1, GMV_ERR_VALUE, "/data"},
    {"mask one bit too short", 1, 9, 0, 0, 1, -1, GMV_ERR_OUT_OF_BOUNDS, "/null_mask"},
    {"mask too short for the offset", 1, 8, 1, 0, 1, -1, GMV_ERR_OUT_OF_BOUNDS, "/null_mask"},
    {"negative null count", 1, 4, 0, 0, 1, -2, GMV_ERR_VALUE, "/null_count"},
    {"more nulls than rows", 1, 4, 0, 0, 1, 5, GMV_ERR_VALUE, "/null_count"},
    {"fewer nulls than the mask has", 1, 4, 0, 0, 1, 3, GMV_ERR_VALUE, "/null_count"},
    {"nulls without a mask", 1, 4, 0, 0, -1, 1, GMV_ERR_VALUE, "/null_count"},
    {"nulls with a mask of no bytes", 1, 4, 0, 0, 0, 1, GMV_ERR_VALUE, "/null_count"},
    {"nothing is wrong", 1, 4, 3, 0, 1, 4, GMV_OK, ""},
    {"all of data and mask", 1, 64, 0, 0, 8, 64, GMV_OK, ""},
    {"no rows at all", 3, 0, 0, -1, -1, 0, GMV_OK, ""},
    {"no rows beyond an offset", 3, 0, 16, 0, -1, -1, GMV_OK, ""},
    {"no rows at an odd address", 4, 0, 0, 1, -1, -1, GMV_OK, ""},
};

Test(column, impossible_requests_are_refused_with_their_member)
{
    world w;
    fixture_open(&w);
    gmv_view *all = world_view(&w, zeros, 64);
    gmv_view *mask_all = world_view(&w, zeros, 64);
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        const refusal *r = &refusals[i];
        gmv_view *data = NULL, *mask = NULL;
        if (r->data_offset >= 0) {
            const gmv_layout layout = gmv_layout_flat(64 - r->data_offset);
            data = world_view_as(&w, all, GMV_DTYPE_U1, &layout, (uint64_t)r->data_offset, NULL,
                                 GMV_MASK_NONE);
        }
        if (r->mask_nbytes >= 0) {
            const gmv_layout layout = gmv_layout_flat(r->mask_nbytes);
            mask = world_view_as(&w, mask_all, GMV_DTYPE_U1, &layout, 0, NULL, GMV_MASK_NONE);
        }
        const gmv_column_request request = {
            .type = {r->type_id, 0},
            .size = r->size,
            .offset = r->offset,
            .data = data,
            .null_mask = mask,
            .has_null_count = r->null_count != -1,
            .null_count = r->null_count,
        };
        const census before = world_census(&w);
        gmv_column *column = NULL;
        gmv_error_init(&w.err);
        const gmv_status status = gmv_column_create(&w.operation, &request, NULL, &column, &w.err);
        cr_assert_eq(status, r->status, "%s: %s", r->why, w.err.message);
        cr_assert_str_eq(w.err.has_pointer ? w.err.pointer : "", r->pointer, "%s", r->why);
        if (status != GMV_OK)
            census_assert_equal(before, world_census(&w));
    }
    fixture_close(&w);
}

Test(column, a_fixed_width_column_has_no_children)
{
    world w;
    fixture_open(&w);
    gmv_column *child = world_column(&w, GMV_CUDF_INT32, 1, 0, zeros, 64, NULL, 0);
    gmv_column *const children[] = {child};
    const gmv_column_request request = {
        .type = {GMV_CUDF_INT8, 0},
        .size = 1,
        .data = child->data,
        .children = children,
        .n_children = 1,
    };
    gmv_column *column = NULL;
    cr_assert_eq(gmv_column_create(&w.operation, &request, NULL, &column, &w.err), GMV_ERR_VALUE);
    cr_assert_str_eq(w.err.pointer, "/children");
    fixture_close(&w);
}

Test(column, strided_data_and_masks_are_not_contiguous)
{
    world w;
    fixture_open(&w);
    gmv_view *all = world_view(&w, zeros, 64);
    const gmv_layout strided = {.ndim = 1, .has_strides = true, .shape = {8}, .strides = {2}};
    gmv_view *view = world_view_as(&w, all, GMV_DTYPE_U1, &strided, 0, NULL, GMV_MASK_NONE);
    gmv_column_request request = {.type = {GMV_CUDF_INT8, 0}, .size = 8, .data = view};
    gmv_column *column = NULL;
    cr_assert_eq(gmv_column_create(&w.operation, &request, NULL, &column, &w.err),
                 GMV_ERR_NOT_CONTIGUOUS);
    cr_assert_str_eq(w.err.pointer, "/data");
    request.data = all;
    request.null_mask = view;
    cr_assert_eq(gmv_column_create(&w.operation, &request, NULL, &column, &w.err),
                 GMV_ERR_NOT_CONTIGUOUS);
    cr_assert_str_eq(w.err.pointer, "/null_mask");
    fixture_close(&w);
}

/* The columns of the error vectors: what cuDF refuses is refused here. */
Test(column, what_cudf_refuses_is_refused)
{
    world w;
    fixture_open(&w);
    json_t *vectors = load_vectors("packed_errors.json");
    gmv_view *data = world_view(&w, zeros, 8);
    size_t index, n = 0;
    json_t *vector;
    json_array_foreach (vectors, index, vector) {
        if (strcmp(json_string_value(json_object_get(vector, "op")), "column") != 0)
            continue;
        const char *type = json_string_value(json_object_get(vector, "type"));
        const gmv_column_request request = {
            .type = {gmv_cudf_type_by_name(type, strlen(type)), 0},
            .size = json_integer_value(json_object_get(vector, "size")),
            .offset = json_integer_value(json_object_get(vector, "offset")),
            .data = json_is_null(json_object_get(vector, "data_hex")) ? NULL : data,
            .has_null_count = true,
            .null_count = json_integer_value(json_object_get(vector, "null_count")),
        };
        gmv_column *column = NULL;
        const gmv_status status = gmv_column_create(&w.operation, &request, NULL, &column, &w.err);
        cr_assert(status == GMV_ERR_VALUE || status == GMV_ERR_DTYPE_UNSUPPORTED, "%s",
                  json_string_value(json_object_get(vector, "name")));
        n++;
    }
    cr_assert_eq(n, 6);
    json_decref(vectors);
    fixture_close(&w);
}

/* ---- masks -------------------------------------------------------------------------------- */

static const uint8_t late_nulls[8] = {0xff, 0xcf, 0xef, 0xff, 0xff, 0xff, 0xff, 0xff};

Test(column, nulls_are_counted_from_its_offset)
{
    static const struct {
        int64_t offset, size, nulls;
    } rows[] = {{10, 40, 3}, {10, 5, 2}, {15, 15, 1}, {0, 64, 3},  {0, 12, 0}, {12, 1, 1},
                {13, 1, 1},  {14, 6, 0}, {20, 1, 1},  {21, 43, 0}, {63, 1, 0}, {64, 0, 0}};
    world w;
    fixture_open(&w);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        gmv_column *column = world_column(&w, GMV_CUDF_INT8, rows[i].size, rows[i].offset, zeros,
                                          64, late_nulls, sizeof late_nulls);
        cr_assert_eq(column->null_count, rows[i].nulls, "%lld rows from %lld",
                     (long long)rows[i].size, (long long)rows[i].offset);
        cr_assert(gmv_column_is_nullable(column));
        cr_assert_eq(gmv_column_validity(column).address, column->null_mask->ptr);
        cr_assert_eq(gmv_column_validity(column).offset, rows[i].offset);
    }
    fixture_close(&w);
}

Test(column, a_right_null_count_is_accepted)
{
    world w;
    fixture_open(&w);
    const gmv_column_request request = {
        .type = {GMV_CUDF_INT8, 0},
        .size = 40,
        .offset = 10,
        .data = world_view(&w, zeros, 64),
        .null_mask = world_view(&w, late_nulls, 8),
        .has_null_count = true,
        .null_count = 3,
    };
    gmv_column *column = NULL;
    cr_assert_eq(gmv_column_create(&w.operation, &request, NULL, &column, &w.err), GMV_OK);
    cr_assert_eq(column->null_count, 3);
    cr_assert_eq(gmv_column_device_buffer_size(column), 72);
    gmv_handle_info info;
    cr_assert_eq(
        gmv_registry_describe(w.engine.registry, &w.caller, &column->node.id, &info, &w.err),
        GMV_OK);
    cr_assert_eq(info.nbytes, 72);
    cr_assert_eq(info.device, 0);
    fixture_close(&w);
}

Test(column, a_mask_of_no_bytes_is_no_mask_but_is_kept)
{
    world w;
    fixture_open(&w);
    gmv_view *mask = world_view(&w, NULL, 0);
    gmv_column *column = world_column_over(&w, (gmv_cudf_type){GMV_CUDF_INT8, 0}, 10, 0,
                                           world_view(&w, zeros, 10), mask);
    cr_assert_eq(column->null_mask, mask);
    cr_assert_not(gmv_column_is_nullable(column));
    cr_assert_eq(gmv_column_validity(column).address, 0);
    cr_assert_eq(column->null_count, 0);
    fixture_close(&w);
}

Test(column, a_later_write_to_the_mask_leaves_its_null_count)
{
    world w;
    fixture_open(&w);
    gmv_column *column = world_column(&w, GMV_CUDF_INT8, 8, 0, zeros, 8, "\xff", 1);
    world_write(&w, column->null_mask, 0, 0x0f);
    cr_assert_eq(column->null_count, 0);
    gmv_column *again = world_column_over(&w, column->type, 8, 0, column->data, column->null_mask);
    cr_assert_eq(again->null_count, 4);
    fixture_close(&w);
}

Test(column, without_a_mask_it_needs_no_device)
{
    world w;
    fixture_open(&w);
    const gmv_id id = world_view(&w, zeros, 64)->node.id;
    fixture_end(&w);
    fixture_begin_lane(&w, GMV_LANE_INLINE);
    gmv_node *node = NULL;
    cr_assert_eq(gmv_operation_get(&w.operation, &id, GMV_KIND_VIEW, NULL, &node, &w.err), GMV_OK);
    const gmv_column_request request = {
        .type = {GMV_CUDF_INT32, 0}, .size = 16, .data = gmv_view_of(node)};
    gmv_column *column = NULL;
    cr_assert_eq(gmv_column_create(&w.operation, &request, NULL, &column, &w.err), GMV_OK);
    cr_assert_eq(gmv_column_from_view(&w.operation, gmv_view_of(node), NULL, &column, &w.err),
                 GMV_OK);
    fixture_close(&w);
}

/* ---- from a view -------------------------------------------------------------------------- */

static gmv_status from_view(world *w, gmv_view *view, gmv_column **out_column)
{
    *out_column = NULL;
    gmv_error_init(&w->err);
    return gmv_column_from_view(&w->operation, view, NULL, out_column, &w->err);
}

Test(column_from_view, every_dtype_of_cudf_becomes_its_type)
{
    world w;
    fixture_open(&w);
    gmv_view *all = world_view(&w, zeros, sizeof zeros);
    const gmv_layout layout = gmv_layout_flat(6);
    for (int dtype = 0; dtype < GMV_DTYPE_COUNT; dtype++) {
        gmv_view *view = world_view_as(&w, all, (gmv_dtype)dtype, &layout, 0, NULL, GMV_MASK_NONE);
        gmv_column *column;
        const gmv_status status = from_view(&w, view, &column);
        const int32_t type = gmv_dtype_describe((gmv_dtype)dtype)->cudf_type;
        if (type == GMV_CUDF_NONE) {
            cr_assert_eq(status, GMV_ERR_DTYPE_UNSUPPORTED);
            cr_assert_str_eq(w.err.pointer, "/view");
            continue;
        }
        cr_assert_eq(status, GMV_OK, "%s", w.err.message);
        cr_assert_eq(column->type.id, type);
        cr_assert_eq(column->size, 6);
        cr_assert_eq(column->data, view);
        cr_assert_null(column->null_mask);
    }
    fixture_close(&w);
}

Test(column_from_view, shapes_that_cudf_refuses_are_refused)
{
    static const struct {
        gmv_layout layout;
        gmv_status status;
    } rows[] = {
        {{.ndim = 0}, GMV_ERR_VALUE},
        {{.ndim = 1, .has_strides = true, .shape = {3}, .strides = {8}}, GMV_ERR_NOT_CONTIGUOUS},
        {{.ndim = 1, .has_strides = true, .shape = {3}, .strides = {-4}}, GMV_ERR_NOT_CONTIGUOUS},
        {{.ndim = 2, .has_strides = true, .shape = {2, 2}, .strides = {4, 8}},
         GMV_ERR_NOT_CONTIGUOUS},
        {{.ndim = 2, .shape = {2, 3}}, GMV_OK},
        {{.ndim = 2, .shape = {2, 0}}, GMV_OK},
        {{.ndim = 1, .shape = {2147483648LL}}, GMV_ERR_VALUE},
        {{.ndim = 2, .shape = {2147483647, 1}}, GMV_ERR_VALUE},
        {{.ndim = 2, .shape = {65536, 32768}}, GMV_ERR_VALUE},
        {{.ndim = 3, .shape = {65536, 32768, 0}}, GMV_ERR_VALUE},
        {{.ndim = 3, .shape = {1, 2147483647, 0}}, GMV_ERR_VALUE},
        {{.ndim = 3, .shape = {0, 2147483648LL, 1}}, GMV_OK},
        {{.ndim = 1, .shape = {0}}, GMV_OK},
        {{.ndim = 1, .has_strides = true, .shape = {1}, .strides = {400}}, GMV_OK},
    };
    world w;
    fixture_open(&w);
    gmv_view *all = world_view(&w, zeros, sizeof zeros);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        gmv_view *view =
            world_view_as(&w, all, GMV_DTYPE_I4, &rows[i].layout, 64, NULL, GMV_MASK_NONE);
        gmv_column *column;
        cr_assert_eq(from_view(&w, view, &column), rows[i].status, "row %zu: %s", i, w.err.message);
        if (rows[i].status != GMV_OK)
            cr_assert_str_eq(w.err.pointer, "/view");
    }
    fixture_close(&w);
}

/* Rows 1, 4, 8 and 11 of 12 are null, said in each way a view's mask can say it. */
static const uint8_t twelve_bits[2] = {0xed, 0x06};

static void assert_twelve_rows(world *w, gmv_column *column)
{
    cr_assert_eq(column->null_count, 4);
    gmv_column_rows rows;
    cr_assert_eq(gmv_column_read_rows(&w->operation, column, 0, 12, &rows, &w->err), GMV_OK);
    cr_assert_not_null(rows.validity);
    cr_assert_eq(memcmp(rows.validity, twelve_bits, 2), 0);
    gmv_column_rows_fini(&rows);
}

static gmv_view *twelve_rows_with_mask(world *w, gmv_view *mask, gmv_mask_kind kind)
{
    const gmv_layout layout = gmv_layout_flat(12);
    return world_view_as(w, world_view(w, zeros, 96), GMV_DTYPE_F8, &layout, 0, mask, kind);
}

Test(column_from_view, packed_bits_become_its_mask_as_they_are)
{
    world w;
    fixture_open(&w);
    gmv_view *mask = world_view(&w, twelve_bits, 2);
    gmv_column *column;
    cr_assert_eq(from_view(&w, twelve_rows_with_mask(&w, mask, GMV_MASK_BITS), &column), GMV_OK);
    cr_assert_eq(column->null_mask, mask);
    assert_twelve_rows(&w, column);
    fixture_close(&w);
}

Test(column_from_view, bools_and_bytes_become_a_new_inner_mask)
{
    world w;
    fixture_open(&w);
    for (int kind = GMV_MASK_BOOLS; kind <= GMV_MASK_BYTES; kind++) {
        for (int64_t stride = -2; stride <= 2; stride++) {
            if (stride == 0)
                continue;
            const uint64_t first = stride < 0 ? (uint64_t)(-stride * 11) : 0;
            uint8_t bytes[64];
            memset(bytes, 0xa5, sizeof bytes);
            for (int64_t i = 0; i < 12; i++) {
                const bool valid = twelve_bits[i / 8] >> i % 8 & 1;
                bytes[(int64_t)first + i * stride] = valid ? (uint8_t)(1 + i * 20) : 0;
            }
            const gmv_layout layout = {
                .ndim = 1, .has_strides = true, .shape = {12}, .strides = {stride}};
            gmv_view *mask = world_view_as(&w, world_view(&w, bytes, sizeof bytes),
                                           kind == GMV_MASK_BOOLS ? GMV_DTYPE_B1 : GMV_DTYPE_U1,
                                           &layout, first, NULL, GMV_MASK_NONE);
            gmv_column *column;
            cr_assert_eq(
                from_view(&w, twelve_rows_with_mask(&w, mask, (gmv_mask_kind)kind), &column),
                GMV_OK, "%s", w.err.message);
            cr_assert_neq(column->null_mask, mask);
            cr_assert(column->null_mask->node.inner);
            cr_assert_eq(column->null_mask->nbytes, 64);
            assert_twelve_rows(&w, column);
            uint8_t *made = world_read(&w, column->null_mask);
            cr_assert_eq(memcmp(made + 2, zeros, 62), 0, "padding is not zero");
            free(made);
        }
    }
    fixture_close(&w);
}

Test(column_from_view, strided_bits_are_gathered)
{
    world w;
    fixture_open(&w);
    const uint8_t spread[4] = {twelve_bits[0], 0xff, twelve_bits[1] | 0xf0, 0xff};
    const gmv_layout layout = {.ndim = 1, .has_strides = true, .shape = {2}, .strides = {2}};
    gmv_view *mask =
        world_view_as(&w, world_view(&w, spread, 4), GMV_DTYPE_U1, &layout, 0, NULL, GMV_MASK_NONE);
    gmv_column *column;
    cr_assert_eq(from_view(&w, twelve_rows_with_mask(&w, mask, GMV_MASK_BITS), &column), GMV_OK);
    cr_assert_neq(column->null_mask, mask);
    assert_twelve_rows(&w, column);
    fixture_close(&w);
}

Test(column_from_view, elements_at_a_misaligned_address_are_refused)
{
    world w;
    fixture_open(&w);
    const gmv_layout layout = gmv_layout_flat(3);
    gmv_view *view =
        world_view_as(&w, world_view(&w, zeros, 64), GMV_DTYPE_F8, &layout, 4, NULL, GMV_MASK_NONE);
    gmv_column *column;
    cr_assert_eq(from_view(&w, view, &column), GMV_ERR_VALUE);
    cr_assert_str_eq(w.err.pointer, "/view");
    fixture_close(&w);
}

Test(column_from_view, a_mask_that_is_too_short_is_refused)
{
    world w;
    fixture_open(&w);
    gmv_view *mask = world_view(&w, twelve_bits, 1);
    gmv_column *column;
    cr_assert_eq(from_view(&w, twelve_rows_with_mask(&w, mask, GMV_MASK_BITS), &column),
                 GMV_ERR_OUT_OF_BOUNDS);
    cr_assert_eq(from_view(&w, twelve_rows_with_mask(&w, mask, GMV_MASK_BOOLS), &column),
                 GMV_ERR_OUT_OF_BOUNDS);
    fixture_close(&w);
}

Test(column_from_view, its_new_mask_goes_with_it)
{
    world w;
    fixture_open(&w);
    const uint8_t bools[12] = {1};
    gmv_view *mask = world_view(&w, bools, 12);
    gmv_view *view = twelve_rows_with_mask(&w, mask, GMV_MASK_BOOLS);
    fixture_next(&w);
    const gmv_id view_id = view->node.id;
    gmv_node *node = NULL;
    cr_assert_eq(gmv_operation_get(&w.operation, &view_id, GMV_KIND_VIEW, NULL, &node, &w.err),
                 GMV_OK);
    const census before = world_census(&w);
    gmv_column *column;
    cr_assert_eq(from_view(&w, gmv_view_of(node), &column), GMV_OK);
    const gmv_id column_id = column->node.id;
    const gmv_id mask_id = column->null_mask->node.id;
    fixture_next(&w);
    cr_assert_eq(world_look_up(&w, &mask_id), GMV_OK);
    const gmv_deletion deletion = world_delete(&w, &column_id, GMV_IF_HELD_KEEP);
    cr_assert_eq(deletion.freed_count, 3, "column, mask and its buffer");
    cr_assert_eq(deletion.freed_nbytes, 64);
    cr_assert_eq(world_look_up(&w, &mask_id), GMV_ERR_HANDLE_DELETED);
    census_assert_equal(before, world_census(&w));
    fixture_close(&w);
}

/* ---- reading rows ------------------------------------------------------------------------- */

Test(column_rows, any_range_of_any_offset_reads_its_own_elements_and_bits)
{
    world w;
    fixture_open(&w);
    uint16_t values[64];
    uint8_t mask[8] = {0x5b, 0x80, 0x01, 0xfe, 0x33, 0x00, 0xff, 0x9a};
    for (size_t i = 0; i < 64; i++)
        values[i] = (uint16_t)(i * 1009);
    for (int64_t offset = 0; offset < 12; offset++) {
        const int64_t size = 64 - offset;
        gmv_column *column = world_column(&w, GMV_CUDF_UINT16, size, offset, values, sizeof values,
                                          mask, sizeof mask);
        for (int64_t first = 0; first <= size; first += 3) {
            for (int64_t count = 0; count <= size - first; count += 5) {
                gmv_column_rows rows;
                cr_assert_eq(
                    gmv_column_read_rows(&w.operation, column, first, count, &rows, &w.err), GMV_OK,
                    "%s", w.err.message);
                cr_assert_eq(rows.count, count);
                const uint16_t *got = (const uint16_t *)rows.data;
                for (int64_t i = 0; i < count; i++) {
                    const int64_t at = offset + first + i;
                    cr_assert_eq(got[i], values[at]);
                    cr_assert_eq(rows.validity[i / 8] >> i % 8 & 1, mask[at / 8] >> at % 8 & 1);
                }
                if (count % 8 != 0)
                    cr_assert_eq(rows.validity[count / 8] >> count % 8, 0, "bits past the end");
                gmv_column_rows_fini(&rows);
            }
        }
    }
    fixture_close(&w);
}

Test(column_rows, a_range_outside_is_an_index_error)
{
    static const int64_t ranges[][2] = {
        {-1, 1},       {0, -1}, {0, 11}, {11, 0}, {5, 6}, {10, INT64_MAX}, {INT64_MAX, INT64_MAX},
        {INT64_MIN, 5}};
    world w;
    fixture_open(&w);
    gmv_column *column = world_column(&w, GMV_CUDF_INT8, 10, 2, zeros, 64, NULL, 0);
    gmv_column_rows rows;
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++)
        cr_assert_eq(
            gmv_column_read_rows(&w.operation, column, ranges[i][0], ranges[i][1], &rows, &w.err),
            GMV_ERR_INDEX);
    cr_assert_eq(gmv_column_read_rows(&w.operation, column, 10, 0, &rows, &w.err), GMV_OK);
    cr_assert_null(rows.data);
    cr_assert_null(rows.validity);
    cr_assert_eq(gmv_column_read_rows(&w.operation, column, 0, 10, &rows, &w.err), GMV_OK);
    cr_assert_null(rows.validity, "all valid");
    gmv_column_rows_fini(&rows);
    fixture_close(&w);
}

/* ---- lives and failures ------------------------------------------------------------------- */

Test(column, it_keeps_data_and_mask_alive)
{
    world w;
    fixture_open(&w);
    const census before = world_census(&w);
    gmv_column *column = world_column(&w, GMV_CUDF_INT8, 8, 0, zeros, 8, "\x0f", 1);
    const gmv_id id = column->node.id;
    const gmv_id data = column->data->node.id;
    const gmv_id mask = column->null_mask->node.id;
    cr_assert_eq(gmv_registry_owners(w.engine.registry, &column->node, NULL, 0), 2);
    fixture_next(&w);

    const gmv_deletion of_data = world_delete(&w, &data, GMV_IF_HELD_KEEP);
    cr_assert(of_data.alive);
    cr_assert_eq(of_data.kept_alive_by_count, 1);
    cr_assert(gmv_id_equal(&of_data.kept_alive_by[0], &id));
    cr_assert(world_delete(&w, &mask, GMV_IF_HELD_KEEP).alive);
    gmv_node *node = NULL;
    cr_assert_eq(gmv_operation_get(&w.operation, &id, GMV_KIND_COLUMN, NULL, &node, &w.err),
                 GMV_OK);
    gmv_column_rows rows;
    cr_assert_eq(gmv_column_read_rows(&w.operation, gmv_column_of(node), 0, 8, &rows, &w.err),
                 GMV_OK);
    cr_assert_eq(rows.validity[0], 0x0f);
    gmv_column_rows_fini(&rows);
    fixture_next(&w);

    const gmv_deletion of_column = world_delete(&w, &id, GMV_IF_HELD_KEEP);
    cr_assert_eq(of_column.freed_count, 5);
    cr_assert_eq(of_column.freed_nbytes, 9);
    census_assert_equal(before, world_census(&w));
    fixture_close(&w);
}

static gmv_status chaos_create(world *w, void *context)
{
    (void)context;
    gmv_result data = {0}, mask = {0};
    gmv_device *device = w->engine.devices[0];
    gmv_stream *stream = gmv_operation_stream(&w->operation, device);
    GMV_TRY(gmv_operation_reserve(&w->operation, 4, &w->err));
    GMV_TRY(gmv_result_prepare(&w->operation, device, 64, GMV_CONTENTS_ZEROED, NULL, false, &data,
                               &w->err));
    gmv_status status = gmv_result_prepare(&w->operation, device, 64, GMV_CONTENTS_ZEROED, NULL,
                                           false, &mask, &w->err);
    if (status == GMV_OK)
        status = gmv_stream_finish(stream, &w->err);
    if (status != GMV_OK) {
        gmv_stream_abandon(stream); /* it may be clearing the memory still */
        gmv_result_discard(&w->engine, &mask);
        gmv_result_discard(&w->engine, &data);
        return status;
    }
    gmv_node *const nodes[] = {&data.buffer->node, &data.view->node, &mask.buffer->node,
                               &mask.view->node};
    gmv_operation_publish(&w->operation, nodes, 4);
    const gmv_column_request request = {
        .type = {GMV_CUDF_INT8, 0}, .size = 20, .data = data.view, .null_mask = mask.view};
    const gmv_creation creation = {.label = "chaos", .label_length = 5};
    gmv_column *column = NULL;
    const gmv_status created =
        gmv_column_create(&w->operation, &request, &creation, &column, &w->err);
    if (created == GMV_OK)
        world_delete(w, &column->node.id, GMV_IF_HELD_KEEP);
    world_delete(w, &data.view->node.id, GMV_IF_HELD_KEEP);
    world_delete(w, &mask.view->node.id, GMV_IF_HELD_KEEP);
    return created;
}

Test(column, no_failure_leaves_anything_behind)
{
    world w;
    fixture_open(&w);
    world_run_chaos(&w, chaos_create, NULL);
    fixture_close(&w);
}

static gmv_status chaos_from_view(world *w, void *context)
{
    gmv_node *node = NULL;
    GMV_TRY(gmv_operation_get(&w->operation, (const gmv_id *)context, GMV_KIND_VIEW, NULL, &node,
                              &w->err));
    gmv_column *column = NULL;
    GMV_TRY(gmv_column_from_view(&w->operation, gmv_view_of(node), NULL, &column, &w->err));
    world_delete(w, &column->node.id, GMV_IF_HELD_KEEP);
    return GMV_OK;
}

Test(column_from_view, no_failure_leaves_anything_behind)
{
    world w;
    fixture_open(&w);
    const gmv_layout layout = {.ndim = 1, .has_strides = true, .shape = {12}, .strides = {3}};
    gmv_view *all = world_view(&w, zeros, 64);
    gmv_view *bools = world_view_as(&w, all, GMV_DTYPE_B1, &layout, 0, NULL, GMV_MASK_NONE);
    gmv_view *bits = world_view_as(&w, all, GMV_DTYPE_U1, &layout, 0, NULL, GMV_MASK_NONE);
    gmv_id ids[] = {
        twelve_rows_with_mask(&w, bools, GMV_MASK_BOOLS)->node.id,
        twelve_rows_with_mask(&w, bits, GMV_MASK_BITS)->node.id,
        twelve_rows_with_mask(&w, all, GMV_MASK_BITS)->node.id,
    };
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++)
        world_run_chaos(&w, chaos_from_view, &ids[i]);
    fixture_close(&w);
}

static gmv_status chaos_read(world *w, void *context)
{
    gmv_node *node = NULL;
    GMV_TRY(gmv_operation_get(&w->operation, (const gmv_id *)context, GMV_KIND_COLUMN, NULL, &node,
                              &w->err));
    gmv_column_rows rows;
    GMV_TRY(gmv_column_read_rows(&w->operation, gmv_column_of(node), 1, 6, &rows, &w->err));
    gmv_column_rows_fini(&rows);
    return GMV_OK;
}

Test(column_rows, no_failure_leaves_anything_behind)
{
    world w;
    fixture_open(&w);
    gmv_id id = world_column(&w, GMV_CUDF_INT8, 8, 0, zeros, 8, "\x0f", 1)->node.id;
    world_run_chaos(&w, chaos_read, &id);
    fixture_close(&w);
}
