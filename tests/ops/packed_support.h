/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of columns, tables and packed tables share, over the fixture of the ops tests:
 * columns and packed tables from bytes, comparisons, and failures on demand.
 */
#ifndef GMV_TESTS_OPS_PACKED_SUPPORT_H
#define GMV_TESTS_OPS_PACKED_SUPPORT_H

#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gmv/base/alloc.h>
#include <gmv/ops/packed.h>

#include "ops/fixture.h"

typedef fixture world;

static inline json_t *load_vectors(const char *name)
{
    size_t nbytes;
    char *text = fixture_vectors(name, &nbytes);
    json_t *vectors = json_loadb(text, nbytes, 0, NULL);
    cr_assert_not_null(vectors, "%s is not JSON", name);
    free(text);
    return vectors;
}

/* ---- life and what is alive --------------------------------------------------------------- */

typedef fixture_state census;

static inline census world_census(world *w)
{
    return fixture_look(w);
}

/* Host blocks are left out: the registry keeps some of them for what comes next. */
static inline void census_assert_equal(census before, census after)
{
    after.blocks = before.blocks;
    fixture_expect_same(&before, &after, "census");
}

static inline gmv_deletion world_delete(world *w, const gmv_id *id, gmv_if_held if_held)
{
    gmv_deletion deletion;
    cr_assert(fixture_delete(w, id, if_held, &deletion), "%s", w->err.message);
    return deletion;
}

/* Whether a handle of that id can be looked up; the reference is given back at once. */
static inline gmv_status world_look_up(world *w, const gmv_id *id)
{
    gmv_node *node = NULL;
    const gmv_status status =
        gmv_registry_get(w->engine.registry, &w->caller, id, GMV_KIND_ANY, NULL, &node, &w->err);
    if (status == GMV_OK)
        gmv_registry_release(w->engine.registry, node, true);
    return status;
}

/* ---- memory ------------------------------------------------------------------------------- */

/* A named |u1 view over a new inner buffer that holds `bytes` (NULL: zeros). */
static inline gmv_view *world_view(world *w, const void *bytes, size_t nbytes)
{
    gmv_result result;
    gmv_status status = gmv_result_prepare(&w->operation, w->engine.devices[0], nbytes,
                                           GMV_CONTENTS_ZEROED, NULL, false, &result, &w->err);
    cr_assert_eq(status, GMV_OK, "%s", w->err.message);
    cr_assert_eq(gmv_operation_reserve(&w->operation, 2, &w->err), GMV_OK);
    if (bytes && nbytes > 0) {
        cr_assert_eq(gmv_copy_in(w->streams[0], result.view->ptr, bytes, nbytes, &w->err), GMV_OK);
        cr_assert_eq(gmv_stream_finish(w->streams[0], &w->err), GMV_OK);
    }
    gmv_node *const nodes[] = {&result.buffer->node, &result.view->node};
    gmv_operation_publish(&w->operation, nodes, 2);
    return result.view;
}

/* A view of another type, place or form over the memory of `view`, which it owns. Nothing is
 * checked. */
static inline gmv_view *world_view_as(world *w, gmv_view *view, gmv_dtype dtype,
                                      const gmv_layout *layout, uint64_t offset, gmv_view *mask,
                                      gmv_mask_kind mask_kind)
{
    const gmv_view_spec spec = {
        .buffer = view->buffer,
        .parent = &view->node,
        .mask = mask,
        .mask_kind = mask_kind,
        .ptr = view->ptr + offset,
        .dtype = dtype,
        .layout = layout,
    };
    gmv_view *made = NULL;
    cr_assert_eq(gmv_operation_reserve(&w->operation, 1, &w->err), GMV_OK);
    const gmv_status status = gmv_view_prepare(&w->operation, &spec, NULL, false, &made, &w->err);
    cr_assert_eq(status, GMV_OK, "%s", w->err.message);
    gmv_node *const nodes[] = {&made->node};
    gmv_operation_publish(&w->operation, nodes, 1);
    return made;
}

/* The bytes of a contiguous view; freed with free(). */
static inline uint8_t *world_read(world *w, const gmv_view *view)
{
    uint8_t *bytes = malloc((size_t)view->nbytes + 1);
    cr_assert_not_null(bytes);
    if (view->nbytes > 0) {
        cr_assert_eq(gmv_copy_out(w->streams[0], bytes, view->ptr, (uint64_t)view->nbytes, &w->err),
                     GMV_OK);
        cr_assert_eq(gmv_stream_finish(w->streams[0], &w->err), GMV_OK);
    }
    return bytes;
}

static inline void world_write(world *w, const gmv_view *view, uint64_t offset, uint8_t byte)
{
    cr_assert_eq(gmv_copy_in(w->streams[0], view->ptr + offset, &byte, 1, &w->err), GMV_OK);
    cr_assert_eq(gmv_stream_finish(w->streams[0], &w->err), GMV_OK);
}

/* ---- columns and tables ------------------------------------------------------------------- */

static inline gmv_column *world_column_over(world *w, gmv_cudf_type type, int64_t size,
                                            int64_t offset, gmv_view *data, gmv_view *mask)
{
    const gmv_column_request request = {
        .type = type,
        .size = size,
        .offset = offset,
        .data = data,
        .null_mask = mask,
    };
    gmv_column *column = NULL;
    const gmv_status status = gmv_column_create(&w->operation, &request, NULL, &column, &w->err);
    cr_assert_eq(status, GMV_OK, "%s", w->err.message);
    return column;
}

/* A column over new memory; `mask` NULL: none. */
static inline gmv_column *world_column(world *w, int32_t type_id, int64_t size, int64_t offset,
                                       const void *data, size_t data_nbytes, const void *mask,
                                       size_t mask_nbytes)
{
    gmv_view *data_view = data ? world_view(w, data, data_nbytes) : NULL;
    gmv_view *mask_view = mask ? world_view(w, mask, mask_nbytes) : NULL;
    return world_column_over(w, (gmv_cudf_type){type_id, 0}, size, offset, data_view, mask_view);
}

static inline gmv_table *world_table(world *w, gmv_column *const *columns, size_t n_columns)
{
    gmv_table *table = NULL;
    const gmv_status status =
        gmv_table_create(&w->operation, columns, n_columns, false, 0, NULL, &table, &w->err);
    cr_assert_eq(status, GMV_OK, "%s", w->err.message);
    return table;
}

static inline gmv_packed *world_pack(world *w, gmv_table *table)
{
    gmv_packed *packed = NULL;
    const gmv_status status = gmv_pack(&w->operation, table, NULL, &packed, &w->err);
    cr_assert_eq(status, GMV_OK, "%s", w->err.message);
    return packed;
}

static inline gmv_packed **world_split(world *w, gmv_table *table, const int64_t *splits,
                                       size_t n_splits, size_t *out_n)
{
    gmv_packed **packed = NULL;
    const gmv_status status =
        gmv_contiguous_split(&w->operation, table, splits, n_splits, NULL, &packed, out_n, &w->err);
    cr_assert_eq(status, GMV_OK, "%s", w->err.message);
    return packed;
}

static inline gmv_table *world_unpack(world *w, gmv_packed *packed)
{
    gmv_table *table = NULL;
    const gmv_status status = gmv_unpack(&w->operation, packed, NULL, &table, &w->err);
    cr_assert_eq(status, GMV_OK, "%s", w->err.message);
    return table;
}

static inline gmv_view *world_gpu_data(world *w, gmv_packed *packed)
{
    gmv_view *view = NULL;
    cr_assert_eq(gmv_packed_gpu_data(&w->operation, packed, &view, &w->err), GMV_OK);
    cr_assert_not_null(view);
    return view;
}

/* Encoded metadata; freed with free(). */
static inline uint8_t *packed_encode(const gmv_packed *packed, int32_t version, size_t *out_nbytes)
{
    *out_nbytes = gmv_packed_metadata_nbytes(&packed->metadata, version);
    uint8_t *bytes = malloc(*out_nbytes + 1);
    cr_assert_not_null(bytes);
    gmv_packed_metadata_encode(&packed->metadata, version, bytes);
    return bytes;
}

/* Both handles hold the same metadata and the same bytes. */
static inline void world_assert_packed_equal(world *w, gmv_packed *a, gmv_packed *b)
{
    size_t a_nbytes, b_nbytes;
    uint8_t *a_metadata = packed_encode(a, GMV_PACKED_VERSION, &a_nbytes);
    uint8_t *b_metadata = packed_encode(b, GMV_PACKED_VERSION, &b_nbytes);
    cr_assert_eq(a_nbytes, b_nbytes);
    cr_assert_eq(memcmp(a_metadata, b_metadata, a_nbytes), 0);
    free(a_metadata);
    free(b_metadata);

    gmv_view *a_view = world_gpu_data(w, a);
    gmv_view *b_view = world_gpu_data(w, b);
    cr_assert_eq(a_view->nbytes, b_view->nbytes);
    uint8_t *a_bytes = world_read(w, a_view);
    uint8_t *b_bytes = world_read(w, b_view);
    cr_assert_eq(memcmp(a_bytes, b_bytes, (size_t)a_view->nbytes), 0);
    free(a_bytes);
    free(b_bytes);
}

/* Two columns show the same type, rows and validity. */
static inline void world_assert_rows_equal(world *w, gmv_column *a, int64_t a_first, gmv_column *b,
                                           int64_t b_first, int64_t count)
{
    cr_assert_eq(a->type.id, b->type.id);
    cr_assert_eq(a->type.scale, b->type.scale);
    gmv_column_rows x, y;
    cr_assert_eq(gmv_column_read_rows(&w->operation, a, a_first, count, &x, &w->err), GMV_OK);
    cr_assert_eq(gmv_column_read_rows(&w->operation, b, b_first, count, &y, &w->err), GMV_OK);
    cr_assert_eq(x.count, y.count);
    const size_t width = gmv_cudf_type_width(a->type.id);
    if (count > 0)
        cr_assert_eq(memcmp(x.data, y.data, (size_t)count * width), 0);
    for (int64_t i = 0; i < count; i++) {
        const bool x_valid = !x.validity || (x.validity[i / 8] >> i % 8 & 1);
        const bool y_valid = !y.validity || (y.validity[i / 8] >> i % 8 & 1);
        cr_assert_eq(x_valid, y_valid, "row %lld", (long long)i);
    }
    gmv_column_rows_fini(&x);
    gmv_column_rows_fini(&y);
}

/* ---- failures on demand ------------------------------------------------------------------- */

/*
 * Runs `action` in an operation of its own with every single allocation, then every single device
 * call, failing in turn, until it runs through. After a failure nothing may be left; after success
 * `action` itself deletes what it made. `action` returns the status and may be called any number of
 * times.
 */
static inline void world_run_chaos(world *w, gmv_status (*action)(world *w, void *context),
                                   void *context)
{
    for (int is_device = 0; is_device < 2; is_device++) {
        bool has_failed = true;
        uint64_t failures = 0;
        for (uint64_t n = 1; has_failed; n++) {
            cr_assert_lt(n, 10000, "the failures never end");
            fixture_next(w);
            const census before = world_census(w);
            if (is_device)
                gmv_device_fail_once(w->engine.devices[0], n, GMV_ERR_INTERNAL);
            else
                gmv_alloc_fail_once(n);
            const gmv_status status = action(w, context);
            has_failed = is_device ? gmv_device_has_failed(w->engine.devices[0])
                                   : gmv_alloc_has_failed() != 0;
            gmv_device_fail_once(w->engine.devices[0], 0, GMV_OK);
            gmv_alloc_fail_once(0);
            if (status != GMV_OK) {
                cr_assert(has_failed, "failed by itself: %s", w->err.message);
                cr_assert_eq(w->err.status, status);
                cr_assert_neq(w->err.message[0], '\0');
                failures++;
            }
            fixture_next(w);
            census_assert_equal(before, world_census(w));
        }
        cr_assert_gt(failures, 0);
    }
}

#endif
