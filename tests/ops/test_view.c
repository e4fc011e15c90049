/* SPDX-License-Identifier: Apache-2.0 */
/* Views: posted payloads, typed looks, slices, copies, reading, and the lives of all of them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>

#include <gmv/base/alloc.h>

#include "ops/fixture.h"

#define BASE ((uint64_t)0x302000000) /* where a client has its memory */
#define PI   "/cuda_array_interface"

static fixture f;

static void open_fixture(void)
{
    fixture_open(&f);
}

static void close_fixture(void)
{
    fixture_close(&f);
}

TestSuite(view, .init = open_fixture, .fini = close_fixture);

static gmv_cai cai_of(gmv_dtype dtype, uint64_t address, int64_t n)
{
    return (gmv_cai){
        .address = (int64_t)address, .dtype = dtype, .layout = gmv_layout_flat(n), .version = 3};
}

static gmv_cai cai_strided(gmv_dtype dtype, uint64_t address, int32_t ndim, const int64_t *shape,
                           const int64_t *strides)
{
    gmv_cai cai = {.address = (int64_t)address, .dtype = dtype, .version = 3};
    cai.layout.ndim = ndim;
    cai.layout.has_strides = strides != NULL;
    for (int32_t i = 0; i < ndim; i++) {
        cai.layout.shape[i] = shape[i];
        cai.layout.strides[i] = strides ? strides[i] : 0;
    }
    return cai;
}

static gmv_status create(const gmv_cai *cai, gmv_buffer *buffer, gmv_view **out_view)
{
    gmv_view_request request = {.cai = cai, .buffer = buffer};
    return gmv_view_create(&f.operation, &request, NULL, out_view, &f.err);
}

static gmv_view *create_ok(const gmv_cai *cai, gmv_buffer *buffer)
{
    gmv_view *view = NULL;
    cr_assert_eq(create(cai, buffer, &view), GMV_OK, "%s", f.err.message);
    return view;
}

static void create_fails(const gmv_cai *cai, gmv_buffer *buffer, gmv_status status,
                         const char *pointer)
{
    gmv_view *view = NULL;
    fixture_state before = fixture_look(&f);
    fixture_expect(&f, create(cai, buffer, &view), status, pointer);
    fixture_state after = fixture_look(&f);
    fixture_expect_same(&before, &after, "a refused view");
}

/* ---- finding the buffer ---------------------------------------------------------------------- */

Test(view, an_address_of_the_exporter_is_translated)
{
    gmv_buffer *buffer = fixture_exported_buffer(&f, BASE, 4096);
    gmv_cai cai = cai_of(GMV_DTYPE_F4, BASE + 128, 10);
    gmv_view *view = create_ok(&cai, NULL);
    cr_assert_eq(view->buffer, buffer);
    cr_assert_eq(view->parent, &buffer->node);
    cr_assert_eq(view->ptr, buffer->ptr + 128);
    cr_assert_eq(gmv_view_offset(view), 128);
    cr_assert_eq(view->nbytes, 40);
    cr_assert_eq(view->size, 10);
    cr_assert_eq(gmv_view_length(view), 10);
    cr_assert(view->contiguous);
    cr_assert_null(gmv_view_strides(view));
}

Test(view, an_address_of_gmvd_itself_is_found_too)
{
    gmv_buffer *buffer = fixture_exported_buffer(&f, BASE, 4096);
    gmv_cai cai = cai_of(GMV_DTYPE_F4, buffer->ptr + 128, 10);
    cr_assert_eq(create_ok(&cai, NULL)->ptr, buffer->ptr + 128);
    cr_assert_eq(create_ok(&cai, buffer)->ptr, buffer->ptr + 128);
}

Test(view, gmvds_own_address_space_counts_first)
{
    gmv_memory *memory = NULL;
    gmv_buffer *buffer = NULL;
    cr_assert_eq(gmv_engine_allocate(&f.engine, f.engine.devices[0], f.streams[0],
                                     GMV_MEMORY_ORDINARY, GMV_CONTENTS_ZEROED, 4096, &memory,
                                     &f.err),
                 GMV_OK);
    uint64_t base = memory->address - 1024; /* so that both ranges hold the same addresses */
    cr_assert_eq(gmv_operation_reserve(&f.operation, 1, &f.err), GMV_OK);
    cr_assert_eq(gmv_buffer_prepare(&f.operation, memory, GMV_ORIGIN_ALLOCATED, false, &base, NULL,
                                    false, &buffer, &f.err),
                 GMV_OK);
    gmv_node *node = &buffer->node;
    gmv_operation_publish(&f.operation, &node, 1);
    gmv_cai both = cai_of(GMV_DTYPE_U1, buffer->ptr + 100, 10);
    cr_assert_eq(create_ok(&both, NULL)->ptr, buffer->ptr + 100);
    cr_assert_eq(create_ok(&both, buffer)->ptr, buffer->ptr + 100);
    gmv_cai foreign = cai_of(GMV_DTYPE_U1, base + 100, 10);
    cr_assert_eq(create_ok(&foreign, NULL)->ptr, buffer->ptr + 100);
}

Test(view, an_address_in_two_buffers_needs_the_buffers_name)
{
    gmv_buffer *first = fixture_exported_buffer(&f, BASE, 4096);
    gmv_buffer *second = fixture_exported_buffer(&f, BASE + 1024, 4096);
    gmv_cai shared = cai_of(GMV_DTYPE_U1, BASE + 2048, 10);
    create_fails(&shared, NULL, GMV_ERR_POINTER_AMBIGUOUS, PI "/data/0");
    cr_assert_eq(create_ok(&shared, first)->ptr, first->ptr + 2048);
    cr_assert_eq(create_ok(&shared, second)->ptr, second->ptr + 1024);
    gmv_cai alone = cai_of(GMV_DTYPE_U1, BASE + 10, 10);
    cr_assert_eq(create_ok(&alone, NULL)->buffer, first);
    gmv_id id = second->node.id;
    fixture_next(&f);
    cr_assert(fixture_delete(&f, &id, GMV_IF_HELD_KEEP, NULL));
    cr_assert_eq(create_ok(&shared, NULL)->buffer, first, "deleted buffers are not looked in");
}

Test(view, an_address_in_no_buffer_is_not_registered)
{
    static const uint64_t addresses[] = {1, 3735928559, BASE - 1, BASE + 4096, INT64_MAX};
    gmv_buffer *buffer = fixture_exported_buffer(&f, BASE, 4096);
    for (size_t i = 0; i < sizeof addresses / sizeof addresses[0]; i++) {
        gmv_cai cai = cai_of(GMV_DTYPE_U1, addresses[i], 1);
        create_fails(&cai, NULL, GMV_ERR_POINTER_NOT_REGISTERED, PI "/data/0");
        create_fails(&cai, buffer, GMV_ERR_POINTER_NOT_REGISTERED, PI "/data/0");
    }
}

Test(view, a_freed_buffer_is_not_found_any_more)
{
    gmv_buffer *buffer = fixture_exported_buffer(&f, BASE, 4096);
    gmv_id id = buffer->node.id;
    uint64_t ptr = buffer->ptr;
    fixture_next(&f);
    cr_assert(fixture_delete(&f, &id, GMV_IF_HELD_KEEP, NULL));
    gmv_cai own = cai_of(GMV_DTYPE_U1, ptr, 1);
    gmv_cai foreign = cai_of(GMV_DTYPE_U1, BASE, 1);
    create_fails(&own, NULL, GMV_ERR_POINTER_NOT_REGISTERED, PI "/data/0");
    create_fails(&foreign, NULL, GMV_ERR_POINTER_NOT_REGISTERED, PI "/data/0");
}

Test(view, creating_never_blocks_so_the_inline_lane_will_do)
{
    gmv_id id = fixture_exported_buffer(&f, BASE, 4096)->node.id;
    fixture_end(&f);
    fixture_begin_lane(&f, GMV_LANE_INLINE);
    gmv_cai cai = cai_of(GMV_DTYPE_F8, BASE, 512);
    gmv_view *view = create_ok(&cai, NULL);
    gmv_view *slice_view = NULL;
    gmv_slice slice = {.has_start = true, .start = 8};
    cr_assert_eq(gmv_view_byte_slice(&f.operation, view, &slice, NULL, &slice_view, &f.err),
                 GMV_OK);
    cr_assert_eq(fixture_view(&f, &view->node, GMV_DTYPE_I4, 3, 4)->ptr, view->ptr + 4);
    cr_assert(gmv_id_equal(&view->buffer->node.id, &id));
}

/* ---- geometry -------------------------------------------------------------------------------- */

Test(view, empty_views_need_no_buffer_at_address_0)
{
    static const int64_t shapes[][3] = {{0, 3, 1}, {3, 0, 1}, {2, 0, 5}};
    for (size_t i = 0; i < 3; i++) {
        gmv_cai cai = cai_strided(GMV_DTYPE_I4, 0, 3, shapes[i], NULL);
        gmv_view *view = create_ok(&cai, NULL);
        cr_assert_null(view->buffer);
        cr_assert_null(view->parent);
        cr_assert_eq(view->ptr, 0);
        cr_assert_eq(view->nbytes, 0);
        cr_assert_eq(memcmp(gmv_view_shape(view), shapes[i], sizeof shapes[i]), 0);
        cr_assert_eq(view->node.node_class->device(&view->node), -1);
        fixture_expect_bytes(&f, view, "", 0);
    }
    gmv_buffer *buffer = fixture_exported_buffer(&f, BASE, 64);
    gmv_cai cai = cai_of(GMV_DTYPE_F4, 0, 0);
    gmv_view *named = create_ok(&cai, buffer);
    cr_assert_eq(named->buffer, buffer);
    cr_assert_eq(gmv_view_offset(named), 0);
}

Test(view, empty_views_may_stand_in_a_buffer_or_at_its_end)
{
    gmv_buffer *buffer = fixture_exported_buffer(&f, BASE, 64);
    static const uint64_t offsets[] = {0, 1, 63, 64};
    for (size_t i = 0; i < 4; i++) {
        gmv_cai cai = cai_of(GMV_DTYPE_F8, BASE + offsets[i], 0);
        gmv_view *view = create_ok(&cai, NULL);
        cr_assert_eq(view->buffer, buffer);
        cr_assert_eq(view->ptr, buffer->ptr + offsets[i]);
        cr_assert_eq(gmv_view_offset(view), offsets[i]);
        cr_assert_eq(create_ok(&cai, buffer)->ptr, view->ptr);
    }
    gmv_cai outside = cai_of(GMV_DTYPE_F8, BASE + 65, 0);
    create_fails(&outside, NULL, GMV_ERR_POINTER_NOT_REGISTERED, PI "/data/0");
    create_fails(&outside, buffer, GMV_ERR_POINTER_NOT_REGISTERED, PI "/data/0");
}

Test(view, an_empty_view_between_two_buffers_belongs_to_the_one_that_begins)
{
    fixture_exported_buffer(&f, BASE, 64);
    gmv_buffer *second = fixture_exported_buffer(&f, BASE + 64, 64);
    gmv_cai cai = cai_of(GMV_DTYPE_U1, BASE + 64, 0);
    cr_assert_eq(create_ok(&cai, NULL)->buffer, second);
}

Test(view, strides_decide_what_is_contiguous_only_where_there_is_a_step)
{
    static const struct {
        int64_t shape[2], strides[2];
        bool contiguous;
        int64_t nbytes;
    } rows[] = {
        {{1, 5}, {999, 8}, true, 40}, {{0, 1}, {123, 7}, true, 0}, {{2, 3}, {24, 8}, true, 48},
        {{2, 3}, {8, 16}, false, 48}, {{3, 2}, {0, 8}, false, 48}, {{2, 2}, {-16, -8}, false, 32},
    };
    fixture_exported_buffer(&f, BASE, 48);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint64_t address = rows[i].strides[0] < 0 ? BASE + 24 : BASE;
        gmv_cai cai = cai_strided(GMV_DTYPE_F8, address, 2, rows[i].shape, rows[i].strides);
        gmv_view *view = create_ok(&cai, NULL);
        cr_assert_eq(view->contiguous, rows[i].contiguous, "row %zu", i);
        cr_assert_eq(view->nbytes, rows[i].nbytes, "row %zu", i);
        const int64_t *strides = gmv_view_strides(view);
        cr_assert_eq(strides == NULL, rows[i].contiguous, "row %zu", i);
        cr_assert(!strides || memcmp(strides, rows[i].strides, sizeof rows[i].strides) == 0);
        gmv_layout layout;
        gmv_view_layout(view, &layout);
        cr_assert(layout.has_strides);
        cr_assert_eq(layout.ndim, 2);
    }
}

Test(view, a_layout_must_lie_inside_the_buffer_whatever_its_strides)
{
    static const struct {
        int64_t shape, stride;
        uint64_t offset;
        gmv_status status;
    } rows[] = {
        {4, 8, 32, GMV_OK},
        {4, 8, 40, GMV_ERR_OUT_OF_BOUNDS},
        {9, 8, 0, GMV_ERR_OUT_OF_BOUNDS},
        {8, -8, 56, GMV_OK},
        {8, -8, 48, GMV_ERR_OUT_OF_BOUNDS},
        {2, INT64_MAX - 7, 0, GMV_ERR_OUT_OF_BOUNDS},
        {3, INT64_MIN, 0, GMV_ERR_OUT_OF_BOUNDS},
        {((int64_t)1 << 50) - 1, 0, 56, GMV_OK},
        {(int64_t)1 << 50, 0, 56, GMV_ERR_VALUE}, /* no double holds its bytes */
    };
    fixture_exported_buffer(&f, BASE, 64);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        gmv_cai cai =
            cai_strided(GMV_DTYPE_F8, BASE + rows[i].offset, 1, &rows[i].shape, &rows[i].stride);
        if (rows[i].status == GMV_OK)
            create_ok(&cai, NULL);
        else
            create_fails(&cai, NULL, rows[i].status, PI "/shape");
    }
}

Test(view, sizes_that_wrap_around_never_become_small)
{
    static const int64_t square[] = {(int64_t)1 << 32, (int64_t)1 << 32};
    static const int64_t with_zero[] = {(int64_t)1 << 62, (int64_t)1 << 62, 0};
    static const int64_t long_row[] = {(int64_t)1 << 61};
    fixture_exported_buffer(&f, BASE, 64);
    gmv_cai bytes = cai_strided(GMV_DTYPE_U1, BASE, 2, square, NULL);
    gmv_cai empty = cai_strided(GMV_DTYPE_U1, BASE, 3, with_zero, NULL);
    gmv_cai doubles = cai_strided(GMV_DTYPE_F8, BASE, 1, long_row, NULL);
    create_fails(&bytes, NULL, GMV_ERR_VALUE, PI "/shape");
    create_fails(&empty, NULL, GMV_ERR_VALUE, PI "/shape");
    create_fails(&doubles, NULL, GMV_ERR_VALUE, PI "/shape");
}

Test(view, faults_are_told_in_the_order_of_the_contract)
{
    static const int64_t two = 2, far = INT64_MAX;
    fixture_exported_buffer(&f, BASE, 64);
    gmv_cai overflow = cai_of(GMV_DTYPE_F4, 0, (int64_t)1 << 62);
    create_fails(&overflow, NULL, GMV_ERR_VALUE, PI "/shape");
    gmv_cai address_0 = cai_of(GMV_DTYPE_F4, 0, 4);
    create_fails(&address_0, NULL, GMV_ERR_VALUE, PI "/data/0");
    gmv_cai nowhere =
        cai_strided(GMV_DTYPE_F4, 1, 1, &two, &far); /* misaligned, too far, unknown */
    create_fails(&nowhere, NULL, GMV_ERR_POINTER_NOT_REGISTERED, PI "/data/0");
    gmv_cai outside = cai_strided(GMV_DTYPE_F4, BASE + 1, 1, &two, &far);
    create_fails(&outside, NULL, GMV_ERR_OUT_OF_BOUNDS, PI "/shape");
    gmv_cai misaligned = cai_of(GMV_DTYPE_F4, BASE + 1, 2);
    create_fails(&misaligned, NULL, GMV_ERR_VALUE, PI "/data/0");
}

Test(view, elements_are_aligned_where_they_were_posted_and_where_they_are)
{
    static const int64_t three = 3, twelve = 12;
    fixture_exported_buffer(&f, BASE + 1,
                            64); /* the exporter's addresses are shifted against ours */
    gmv_cai posted = cai_of(GMV_DTYPE_F4, BASE + 4, 2);
    create_fails(&posted, NULL, GMV_ERR_VALUE, PI "/data/0");
    gmv_cai mapped = cai_of(GMV_DTYPE_F4, BASE + 5, 2);
    create_fails(&mapped, NULL, GMV_ERR_VALUE, PI "/data/0");
    gmv_cai bytes = cai_of(GMV_DTYPE_U1, BASE + 5, 2);
    create_ok(&bytes, NULL);
    gmv_cai steps =
        cai_strided(GMV_DTYPE_F8, fixture_buffer(&f, "01234567890123456789012345678901", 32)->ptr,
                    1, &three, &twelve);
    create_fails(&steps, NULL, GMV_ERR_VALUE, PI "/strides/0");
}

Test(view, strides_that_are_no_multiple_of_the_item_are_kept_exact)
{
    static const int64_t shape[] = {3, 8}, strides[] = {12, 1};
    unsigned char bytes[32], want[24];
    for (size_t i = 0; i < 32; i++)
        bytes[i] = (unsigned char)i;
    for (size_t i = 0; i < 24; i++)
        want[i] = (unsigned char)(i / 8 * 12 + i % 8);
    gmv_buffer *buffer = fixture_buffer(&f, bytes, 32);
    gmv_cai cai = cai_strided(GMV_DTYPE_U1, buffer->ptr, 2, shape, strides);
    fixture_expect_bytes(&f, create_ok(&cai, NULL), want, 24);
    gmv_cai over = cai_strided(GMV_DTYPE_U1, buffer->ptr + 1, 2, shape, strides);
    create_fails(&over, NULL, GMV_ERR_OUT_OF_BOUNDS, PI "/shape");
}

Test(view, members_are_checked_first)
{
    fixture_exported_buffer(&f, BASE, 64);
    gmv_cai cai = cai_of(GMV_DTYPE_F4, 12345, 4);
    cai.version = 4;
    create_fails(&cai, NULL, GMV_ERR_VALUE, PI "/version");
    cai.version = 3;
    cai.has_stream = true;
    create_fails(&cai, NULL, GMV_ERR_VALUE, PI "/stream");
    cai.stream = 94201234;
    create_fails(&cai, NULL, GMV_ERR_VALUE, PI "/stream");
    cai.stream = 1;
    create_fails(&cai, NULL, GMV_ERR_POINTER_NOT_REGISTERED, PI "/data/0");
    gmv_cai bits = cai_of(GMV_DTYPE_U1, BASE, 4);
    bits.is_bit_field = true;
    create_fails(&bits, NULL, GMV_ERR_DTYPE_UNSUPPORTED, PI "/typestr");
}

Test(view, readonly_comes_from_the_payload_or_the_buffer)
{
    gmv_buffer *sealed = NULL;
    gmv_buffer *open = fixture_exported_buffer(&f, BASE, 64);
    cr_assert_eq(gmv_buffer_allocate(&f.operation, 0, 64, true, NULL, &sealed, &f.err), GMV_OK);
    gmv_cai plain = cai_of(GMV_DTYPE_U1, BASE, 4);
    cr_assert_not(create_ok(&plain, open)->readonly);
    gmv_cai flagged = plain;
    flagged.readonly = true;
    cr_assert(create_ok(&flagged, open)->readonly);
    gmv_cai inside = cai_of(GMV_DTYPE_U1, sealed->ptr, 4);
    cr_assert(create_ok(&inside, NULL)->readonly);
}

Test(view, the_payload_is_taken_over_only_on_success)
{
    fixture_exported_buffer(&f, BASE, 64);
    gmv_cai good = cai_of(GMV_DTYPE_U1, BASE, 4);
    gmv_cai bad = cai_of(GMV_DTYPE_U1, BASE, 65);
    char *payload = gmv_strndup("{\"x\":1}", 7);
    gmv_view *view = NULL;
    gmv_view_request request = {.cai = &bad, .payload = payload};
    cr_assert_neq(gmv_view_create(&f.operation, &request, NULL, &view, &f.err), GMV_OK);
    cr_assert_eq(request.payload, payload);
    request.cai = &good;
    cr_assert_eq(gmv_view_create(&f.operation, &request, NULL, &view, &f.err), GMV_OK);
    cr_assert_null(request.payload);
    cr_assert_eq(view->payload, payload);
}

/* ---- masks ----------------------------------------------------------------------------------- */

static gmv_status create_masked(const gmv_cai *cai, const gmv_cai *mask, gmv_mask_kind kind,
                                gmv_buffer *buffer, gmv_view **out_view)
{
    gmv_view_request request = {.cai = cai, .mask = mask, .mask_kind = kind, .buffer = buffer};
    return gmv_view_create(&f.operation, &request, NULL, out_view, &f.err);
}

static gmv_cai bit_field(uint64_t address, int64_t bits)
{
    gmv_cai cai = cai_of(GMV_DTYPE_U1, address, bits);
    cai.is_bit_field = true;
    return cai;
}

Test(view, a_mask_is_an_inner_view_that_lives_with_its_view)
{
    gmv_buffer *buffer = fixture_exported_buffer(&f, BASE, 4096);
    gmv_cai cai = cai_of(GMV_DTYPE_I8, BASE, 10);
    gmv_cai mask = cai_of(GMV_DTYPE_U1, BASE + 2048, 64);
    gmv_view *view = NULL;
    gmv_deletion deletion;
    cr_assert_eq(create_masked(&cai, &mask, GMV_MASK_NONE, NULL, &view), GMV_OK, "%s",
                 f.err.message);
    cr_assert_eq(view->mask_kind, GMV_MASK_BITS);
    cr_assert_eq(view->mask->ptr, buffer->ptr + 2048);
    cr_assert_eq(view->mask->nbytes, 64);
    cr_assert(view->mask->node.inner);
    gmv_id id = view->node.id;
    gmv_id inner = view->mask->node.id;
    gmv_node *node = NULL;
    fixture_next(&f);
    cr_assert_eq(gmv_operation_get(&f.operation, &inner, GMV_KIND_VIEW, NULL, &node, &f.err),
                 GMV_OK, "inner handles serve every GET");
    cr_assert_not(fixture_delete(&f, &inner, GMV_IF_HELD_KEEP, NULL));
    fixture_expect(&f, f.err.status, GMV_ERR_HANDLE_INNER, NULL);
    fixture_next(&f);
    cr_assert(fixture_delete(&f, &id, GMV_IF_HELD_KEEP, &deletion));
    cr_assert_eq(deletion.freed_count, 2);
}

Test(view, a_mask_is_read_by_its_type_and_shape)
{
    static const struct {
        gmv_dtype dtype;
        int64_t length;
        bool bit_field;
        gmv_mask_kind requested;
        gmv_status status;
        gmv_mask_kind kind;
        int64_t nbytes;
        const char *pointer;
    } rows[] = {
        {GMV_DTYPE_B1, 64, false, GMV_MASK_NONE, GMV_OK, GMV_MASK_BOOLS, 64, NULL},
        {GMV_DTYPE_U1, 64, false, GMV_MASK_NONE, GMV_OK, GMV_MASK_BYTES, 64, NULL},
        {GMV_DTYPE_U1, 64, false, GMV_MASK_BITS, GMV_OK, GMV_MASK_BITS, 64, NULL},
        {GMV_DTYPE_U1, 8, false, GMV_MASK_NONE, GMV_OK, GMV_MASK_BITS, 8, NULL},
        {GMV_DTYPE_U1, 64, true, GMV_MASK_NONE, GMV_OK, GMV_MASK_BITS, 8, NULL},
        {GMV_DTYPE_U1, 7, false, GMV_MASK_NONE, GMV_ERR_VALUE, 0, 0, PI "/mask/shape"},
        {GMV_DTYPE_U1, 65, true, GMV_MASK_NONE, GMV_ERR_VALUE, 0, 0, PI "/mask/shape"},
        {GMV_DTYPE_B1, 64, false, GMV_MASK_BITS, GMV_ERR_VALUE, 0, 0, "/mask_kind"},
        {GMV_DTYPE_F4, 64, false, GMV_MASK_NONE, GMV_ERR_DTYPE_UNSUPPORTED, 0, 0,
         PI "/mask/typestr"},
    };
    fixture_exported_buffer(&f, BASE, 4096);
    gmv_cai cai = cai_of(GMV_DTYPE_I4, BASE, 64);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        gmv_cai mask = cai_of(rows[i].dtype, BASE + 1024, rows[i].length);
        gmv_view *view = NULL;
        mask.is_bit_field = rows[i].bit_field;
        gmv_status status = create_masked(&cai, &mask, rows[i].requested, NULL, &view);
        fixture_expect(&f, status, rows[i].status, rows[i].pointer);
        if (rows[i].status == GMV_OK) {
            cr_assert_eq(view->mask_kind, rows[i].kind, "row %zu", i);
            cr_assert_eq(view->mask->nbytes, rows[i].nbytes, "row %zu", i);
        }
    }
}

Test(view, a_mask_obeys_the_rules_of_views)
{
    fixture_exported_buffer(&f, BASE, 128);
    gmv_cai cai = cai_of(GMV_DTYPE_U1, BASE, 100);
    gmv_view *view = NULL;
    gmv_cai last_fit = bit_field(BASE + 115, 100); /* 13 bytes */
    cr_assert_eq(create_masked(&cai, &last_fit, GMV_MASK_NONE, NULL, &view), GMV_OK);
    cr_assert_eq(view->mask->nbytes, 13);
    fixture_state before = fixture_look(&f);
    gmv_cai outside = bit_field(BASE + 116, 100);
    fixture_expect(&f, create_masked(&cai, &outside, GMV_MASK_NONE, NULL, &view),
                   GMV_ERR_OUT_OF_BOUNDS, PI "/mask/shape");
    gmv_cai nowhere = bit_field(17, 100);
    fixture_expect(&f, create_masked(&cai, &nowhere, GMV_MASK_NONE, NULL, &view),
                   GMV_ERR_POINTER_NOT_REGISTERED, PI "/mask/data/0");
    gmv_cai address_0 = bit_field(0, 100);
    fixture_expect(&f, create_masked(&cai, &address_0, GMV_MASK_NONE, NULL, &view), GMV_ERR_VALUE,
                   PI "/mask/data/0");
    gmv_cai late = bit_field(BASE, 100);
    late.version = 9;
    fixture_expect(&f, create_masked(&cai, &late, GMV_MASK_NONE, NULL, &view), GMV_ERR_VALUE,
                   PI "/mask/version");
    fixture_expect(&f, create_masked(&cai, NULL, GMV_MASK_BITS, NULL, &view), GMV_ERR_VALUE,
                   "/mask_kind");
    fixture_state after = fixture_look(&f);
    fixture_expect_same(&before, &after, "refused masks");
}

Test(view, a_mask_may_lie_in_another_buffer_of_the_same_device)
{
    gmv_buffer *data = fixture_exported_buffer(&f, BASE, 128);
    gmv_buffer *bits = fixture_exported_buffer(&f, BASE + 4096, 64);
    gmv_cai cai = cai_of(GMV_DTYPE_U1, BASE, 100);
    gmv_cai mask = cai_of(GMV_DTYPE_U1, BASE + 4096, 64);
    gmv_view *view = NULL;
    cr_assert_eq(create_masked(&cai, &mask, GMV_MASK_NONE, data, &view), GMV_OK, "%s",
                 f.err.message);
    cr_assert_eq(view->buffer, data);
    cr_assert_eq(view->mask->buffer, bits);
}

Test(view_devices, a_mask_on_another_device_is_refused, .fini = close_fixture)
{
    gmv_buffer *buffers[2];
    fixture_open_with(&f, NULL, 2);
    for (int64_t i = 0; i < 2; i++)
        cr_assert_eq(gmv_buffer_allocate(&f.operation, i, 128, false, NULL, &buffers[i], &f.err),
                     GMV_OK);
    gmv_cai cai = cai_of(GMV_DTYPE_U1, buffers[0]->ptr, 100);
    gmv_cai mask = cai_of(GMV_DTYPE_U1, buffers[1]->ptr, 64);
    gmv_view *view = NULL;
    fixture_expect(&f, create_masked(&cai, &mask, GMV_MASK_NONE, NULL, &view), GMV_ERR_VALUE,
                   PI "/mask/data/0");
}

/* ---- typed views ----------------------------------------------------------------------------- */

static gmv_status create_typed(gmv_node *parent, gmv_dtype dtype, gmv_layout layout, int64_t offset,
                               gmv_view **out_view)
{
    gmv_typed_view_request request = {.dtype = dtype, .layout = layout, .offset = offset};
    return gmv_view_create_typed(&f.operation, parent, &request, NULL, out_view, &f.err);
}

Test(view, a_typed_view_lies_in_its_parent)
{
    static const struct {
        gmv_dtype dtype;
        int64_t n, offset;
        gmv_status status;
        const char *pointer;
    } rows[] = {
        {GMV_DTYPE_F4, 16, 0, GMV_OK, NULL},
        {GMV_DTYPE_F4, 15, 4, GMV_OK, NULL},
        {GMV_DTYPE_F4, 16, 4, GMV_ERR_OUT_OF_BOUNDS, "/shape"},
        {GMV_DTYPE_F4, 0, 64, GMV_OK, NULL},
        {GMV_DTYPE_F4, 0, 65, GMV_ERR_OUT_OF_BOUNDS, "/offset"},
        {GMV_DTYPE_F4, 1, INT64_MAX, GMV_ERR_OUT_OF_BOUNDS, "/offset"},
        {GMV_DTYPE_F4, 1, -4, GMV_ERR_VALUE, "/offset"},
        {GMV_DTYPE_F4, 1, 2, GMV_ERR_VALUE, "/offset"},
        {GMV_DTYPE_F4, -1, 0, GMV_ERR_VALUE, "/shape/0"},
        {GMV_DTYPE_F8, (int64_t)1 << 61, 0, GMV_ERR_VALUE, "/shape"},
        {GMV_DTYPE_C16, 3, 8, GMV_OK, NULL},
        {GMV_DTYPE_U1, 64, 0, GMV_OK, NULL},
    };
    gmv_buffer *buffer = NULL;
    cr_assert_eq(gmv_buffer_allocate(&f.operation, 0, 64, false, NULL, &buffer, &f.err), GMV_OK);
    gmv_view *whole = fixture_view(&f, &buffer->node, GMV_DTYPE_U1, 64, 0);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        gmv_node *parents[] = {&buffer->node, &whole->node};
        for (size_t p = 0; p < 2; p++) {
            gmv_view *view = NULL;
            gmv_status status = create_typed(parents[p], rows[i].dtype, gmv_layout_flat(rows[i].n),
                                             rows[i].offset, &view);
            fixture_expect(&f, status, rows[i].status, rows[i].pointer);
            if (rows[i].status != GMV_OK)
                continue;
            cr_assert_eq(view->ptr, buffer->ptr + (uint64_t)rows[i].offset);
            cr_assert_eq(view->parent, parents[p]);
            cr_assert_eq(view->buffer, buffer);
        }
    }
}

Test(view, a_typed_view_may_be_strided_but_not_over_strided_bytes)
{
    gmv_buffer *buffer = fixture_buffer(&f, "0123456789abcdef", 16);
    gmv_layout reversed = gmv_layout_flat(4);
    gmv_view *view = NULL;
    gmv_view *again = NULL;
    reversed.has_strides = true;
    reversed.strides[0] = -4;
    fixture_expect(&f, create_typed(&buffer->node, GMV_DTYPE_U4, reversed, 0, &view),
                   GMV_ERR_OUT_OF_BOUNDS, "/shape");
    cr_assert_eq(create_typed(&buffer->node, GMV_DTYPE_U4, reversed, 12, &view), GMV_OK);
    fixture_expect_bytes(&f, view, "cdef89ab45670123", 16);
    fixture_expect(&f, create_typed(&view->node, GMV_DTYPE_U1, gmv_layout_flat(1), 0, &again),
                   GMV_ERR_NOT_CONTIGUOUS, NULL);
    reversed.strides[0] = 3;
    fixture_expect(&f, create_typed(&buffer->node, GMV_DTYPE_U4, reversed, 0, &view), GMV_ERR_VALUE,
                   "/strides/0");
}

Test(view, a_typed_view_is_never_less_readonly_than_its_parent)
{
    gmv_buffer *sealed = NULL;
    cr_assert_eq(gmv_buffer_allocate(&f.operation, 0, 64, true, NULL, &sealed, &f.err), GMV_OK);
    gmv_view *view = fixture_view(&f, &sealed->node, GMV_DTYPE_U1, 64, 0);
    cr_assert(view->readonly);
    cr_assert(fixture_view(&f, &view->node, GMV_DTYPE_F4, 1, 0)->readonly);
    gmv_buffer *open = fixture_buffer(&f, "abcd", 4);
    gmv_typed_view_request request = {
        .dtype = GMV_DTYPE_U1, .layout = gmv_layout_flat(4), .readonly = true};
    gmv_view *asked = NULL;
    cr_assert_eq(gmv_view_create_typed(&f.operation, &open->node, &request, NULL, &asked, &f.err),
                 GMV_OK);
    cr_assert(asked->readonly);
    cr_assert(fixture_view(&f, &asked->node, GMV_DTYPE_U1, 1, 0)->readonly);
}

Test(view, empty_parents_have_empty_typed_views)
{
    gmv_buffer *empty = NULL;
    gmv_cai cai = cai_of(GMV_DTYPE_F4, 0, 0);
    gmv_view *nowhere = create_ok(&cai, NULL);
    gmv_view *view = NULL;
    cr_assert_eq(gmv_buffer_allocate(&f.operation, 0, 0, false, NULL, &empty, &f.err), GMV_OK);
    cr_assert_eq(fixture_view(&f, &empty->node, GMV_DTYPE_F8, 0, 0)->ptr, 0);
    cr_assert_eq(fixture_view(&f, &nowhere->node, GMV_DTYPE_F8, 0, 0)->buffer, NULL);
    fixture_expect(&f, create_typed(&empty->node, GMV_DTYPE_U1, gmv_layout_flat(1), 0, &view),
                   GMV_ERR_OUT_OF_BOUNDS, "/shape");
    fixture_expect(&f, create_typed(&nowhere->node, GMV_DTYPE_U1, gmv_layout_flat(1), 0, &view),
                   GMV_ERR_OUT_OF_BOUNDS, "/shape");
}

/* ---- slices ---------------------------------------------------------------------------------- */

Test(view, slices_count_bytes_and_clamp)
{
    static const struct {
        bool has_start, has_stop;
        int64_t start, stop, offset, length;
    } rows[] = {
        {true, true, 2, 5, 2, 3},      {false, true, 0, 2, 0, 2},
        {true, false, 3, 0, 3, 7},     {true, true, 2, 2, 2, 0},
        {true, true, 0, 10000, 0, 10}, {true, true, 7, 3, 7, 0},
        {true, false, -4, 0, 6, 4},    {true, true, INT64_MIN, INT64_MAX, 0, 10},
        {true, true, 20, 30, 10, 0},   {true, true, -99, -50, 0, 0},
    };
    gmv_view *bytes = fixture_view_of(&f, GMV_DTYPE_U1, "0123456789", 10);
    gmv_view *shorts = fixture_view(&f, &bytes->node, GMV_DTYPE_I2, 5, 0);
    gmv_view *parents[] = {bytes, shorts};
    for (size_t i = 0; i < 2 * sizeof rows / sizeof rows[0]; i++) {
        gmv_view *parent = parents[i % 2];
        gmv_view *view = NULL;
        gmv_slice slice = {rows[i / 2].has_start, rows[i / 2].has_stop, false,
                           rows[i / 2].start,     rows[i / 2].stop,     0};
        cr_assert_eq(gmv_view_byte_slice(&f.operation, parent, &slice, NULL, &view, &f.err),
                     GMV_OK);
        cr_assert_eq(view->ptr, parent->ptr + (uint64_t)rows[i / 2].offset, "row %zu", i / 2);
        cr_assert_eq(view->nbytes, rows[i / 2].length, "row %zu", i / 2);
        cr_assert_eq(view->dtype, GMV_DTYPE_U1);
        cr_assert_eq(view->parent, &parent->node);
        cr_assert(view->bare);
        fixture_expect_bytes(&f, view, &"0123456789"[rows[i / 2].offset],
                             (uint64_t)rows[i / 2].length);
    }
}

Test(view, a_slice_steps_by_1_through_contiguous_bytes)
{
    static const int64_t steps[] = {2, 0, -1, INT64_MAX, INT64_MIN};
    static const int64_t shape = 2, stride = 4;
    gmv_view *view = NULL;
    gmv_view *bytes = fixture_view_of(&f, GMV_DTYPE_U1, "0123456789", 10);
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        gmv_slice slice = {.has_step = true, .step = steps[i]};
        fixture_expect(&f, gmv_view_byte_slice(&f.operation, bytes, &slice, NULL, &view, &f.err),
                       GMV_ERR_VALUE, "/step");
    }
    gmv_cai cai = cai_strided(GMV_DTYPE_U1, bytes->ptr, 1, &shape, &stride);
    gmv_slice all = {.has_step = true, .step = 1};
    fixture_expect(
        &f, gmv_view_byte_slice(&f.operation, create_ok(&cai, NULL), &all, NULL, &view, &f.err),
        GMV_ERR_NOT_CONTIGUOUS, NULL);
}

Test(view, a_slice_drops_the_mask_and_keeps_readonly)
{
    gmv_buffer *buffer = fixture_exported_buffer(&f, BASE, 256);
    gmv_cai cai = cai_of(GMV_DTYPE_I4, BASE, 8);
    gmv_cai mask = cai_of(GMV_DTYPE_B1, BASE + 128, 8);
    gmv_view *view = NULL;
    gmv_view *slice_view = NULL;
    gmv_slice slice = {0};
    cai.readonly = true;
    cr_assert_eq(create_masked(&cai, &mask, GMV_MASK_NONE, buffer, &view), GMV_OK);
    cr_assert_eq(gmv_view_byte_slice(&f.operation, view, &slice, NULL, &slice_view, &f.err),
                 GMV_OK);
    cr_assert_null(slice_view->mask);
    cr_assert_eq(slice_view->mask_kind, GMV_MASK_NONE);
    cr_assert(slice_view->readonly);
    cr_assert_null(slice_view->payload);
}

/* ---- reading --------------------------------------------------------------------------------- */

Test(view, strided_views_are_read_in_c_order)
{
    static const int64_t shape[] = {2, 3}, fortran[] = {8, 16}, zero[] = {0, 8};
    static const double values[] = {0, 1, 2, 3, 4, 5};
    static const double want[] = {0, 2, 4, 1, 3, 5}, repeated[] = {0, 1, 2, 0, 1, 2};
    gmv_buffer *buffer = fixture_buffer(&f, values, sizeof values);
    gmv_cai cai = cai_strided(GMV_DTYPE_F8, buffer->ptr, 2, shape, fortran);
    gmv_view *view = create_ok(&cai, NULL);
    fixture_expect_bytes(&f, view, want, sizeof want);
    double got[3];
    cr_assert_eq(gmv_view_read_elements(&f.operation, view, 2, 3, got, &f.err), GMV_OK);
    cr_assert_eq(memcmp(got, want + 2, sizeof got), 0);
    gmv_cai broadcast = cai_strided(GMV_DTYPE_F8, buffer->ptr, 2, shape, zero);
    fixture_expect_bytes(&f, create_ok(&broadcast, NULL), repeated, sizeof repeated);
}

Test(view, elements_outside_the_view_are_not_read)
{
    char got[8];
    gmv_view *view = fixture_view_of(&f, GMV_DTYPE_U1, "abcdef", 6);
    cr_assert_eq(gmv_view_read_elements(&f.operation, view, 2, 4, got, &f.err), GMV_OK);
    cr_assert_eq(memcmp(got, "cdef", 4), 0);
    cr_assert_eq(gmv_view_read_elements(&f.operation, view, 6, 0, got, &f.err), GMV_OK);
    fixture_expect(&f, gmv_view_read_elements(&f.operation, view, 2, 5, got, &f.err),
                   GMV_ERR_OUT_OF_BOUNDS, NULL);
    fixture_expect(&f, gmv_view_read_elements(&f.operation, view, -1, 1, got, &f.err),
                   GMV_ERR_OUT_OF_BOUNDS, NULL);
    fixture_expect(&f, gmv_view_read_elements(&f.operation, view, INT64_MAX, 1, got, &f.err),
                   GMV_ERR_OUT_OF_BOUNDS, NULL);
}

Test(view, bytes_of_a_contiguous_view_are_served_in_place)
{
    gmv_view *view = fixture_view_of(&f, GMV_DTYPE_U1, "abcdef", 6);
    gmv_bytes bytes;
    cr_assert_eq(gmv_view_bytes(&f.operation, view, &bytes, &f.err), GMV_OK);
    cr_assert_null(bytes.scratch);
    cr_assert_eq(bytes.address, view->ptr);
    if (fixture_is_host(&f))
        cr_assert_eq((uint64_t)(uintptr_t)bytes.host, view->ptr);
    gmv_id id = view->node.id;
    gmv_deletion deletion;
    fixture_next(&f);
    cr_assert(fixture_delete(&f, &id, GMV_IF_HELD_CASCADE, &deletion));
    cr_assert(deletion.alive);
    fixture_fetch(&f, &bytes);
    cr_assert_eq(memcmp(bytes.host, "abcdef", 6), 0);
    gmv_bytes_release(&bytes);
    gmv_engine_reap(&f.engine);
    fixture_expect(
        &f, gmv_registry_describe(f.engine.registry, &f.caller, &id, &(gmv_handle_info){0}, &f.err),
        GMV_ERR_HANDLE_DELETED, NULL);
}

Test(view, strided_bytes_hold_their_view_and_take_no_memory)
{
    static const int64_t shape = 3, stride = -2;
    gmv_buffer *buffer = fixture_buffer(&f, "abcdef", 6);
    gmv_cai cai = cai_strided(GMV_DTYPE_U1, buffer->ptr + 4, 1, &shape, &stride);
    gmv_view *view = create_ok(&cai, NULL);
    gmv_id id = buffer->node.id;
    gmv_bytes bytes;
    uint64_t reserved = f.engine.reserved_nbytes[0];
    cr_assert_eq(gmv_view_bytes(&f.operation, view, &bytes, &f.err), GMV_OK);
    cr_assert(gmv_bytes_are_remote(&bytes));
    fixture_next(&f);
    cr_assert(fixture_delete(&f, &id, GMV_IF_HELD_CASCADE, NULL));
    cr_assert_eq(fixture_look(&f).alive, 2);
    cr_assert_eq(f.engine.reserved_nbytes[0], reserved);
    fixture_fetch(&f, &bytes);
    cr_assert_eq(memcmp(bytes.host, "eca", 3), 0);
    gmv_bytes_release(&bytes);
    gmv_engine_reap(&f.engine);
    cr_assert_eq(fixture_look(&f).alive, 0);
    cr_assert_eq(f.engine.reserved_nbytes[0], 0);
}

Test(view, logical_size_limits_what_is_gathered_not_what_is_described)
{
    static const int64_t shape[] = {(int64_t)1 << 40, 4}, strides[] = {0, 4};
    gmv_buffer *buffer = fixture_buffer(&f, "0123456789abcdef", 16);
    gmv_cai cai = cai_strided(GMV_DTYPE_F4, buffer->ptr, 2, shape, strides);
    gmv_view *view = create_ok(&cai, NULL);
    gmv_view *copy = NULL;
    gmv_bytes bytes;
    char four[4];
    cr_assert_eq(view->nbytes, (int64_t)1 << 44);
    fixture_expect(&f, gmv_view_bytes(&f.operation, view, &bytes, &f.err), GMV_ERR_QUOTA_EXCEEDED,
                   NULL);
    fixture_expect(&f, gmv_view_copy(&f.operation, view, false, NULL, &copy, &f.err),
                   GMV_ERR_QUOTA_EXCEEDED, NULL);
    cr_assert_eq(
        gmv_view_read_elements(&f.operation, view, ((int64_t)1 << 41) + 1, 1, four, &f.err),
        GMV_OK);
    cr_assert_eq(memcmp(four, "4567", 4), 0);
}

/* ---- copies ---------------------------------------------------------------------------------- */

Test(view, a_copy_is_contiguous_and_stands_alone)
{
    static const int64_t shape[] = {2, 3}, strides[] = {8, 16};
    static const double values[] = {0, 1, 2, 3, 4, 5}, want[] = {0, 2, 4, 1, 3, 5};
    gmv_creation creation = {.label = "kept", .label_length = 4, .exportable = true};
    gmv_buffer *buffer = fixture_buffer(&f, values, sizeof values);
    gmv_cai cai = cai_strided(GMV_DTYPE_F8, buffer->ptr, 2, shape, strides);
    gmv_view *copy = NULL;
    cr_assert_eq(gmv_view_copy(&f.operation, create_ok(&cai, NULL), true, &creation, &copy, &f.err),
                 GMV_OK);
    gmv_id source = buffer->node.id, id = copy->node.id;
    gmv_node *node = NULL;
    fixture_next(&f);
    cr_assert(fixture_delete(&f, &source, GMV_IF_HELD_CASCADE, NULL));
    cr_assert_eq(gmv_operation_get(&f.operation, &id, GMV_KIND_VIEW, NULL, &node, &f.err), GMV_OK);
    copy = gmv_view_of(node);
    cr_assert(copy->contiguous);
    cr_assert(copy->readonly);
    cr_assert_str_eq(copy->node.label, "kept");
    cr_assert(copy->buffer->node.inner);
    cr_assert(gmv_buffer_is_sealed(copy->buffer));
    cr_assert_eq(copy->buffer->memory->kind, GMV_MEMORY_EXPORTABLE);
    cr_assert_eq(copy->dtype, GMV_DTYPE_F8);
    cr_assert_eq(memcmp(gmv_view_shape(copy), shape, sizeof shape), 0);
    fixture_expect_bytes(&f, copy, want, sizeof want);
}

Test(view, no_byte_of_before_lies_behind_a_copy)
{
    unsigned char dirt[64];
    memset(dirt, 0xff, sizeof dirt);
    for (int round = 0; round < 8; round++) {
        gmv_id dirty = fixture_buffer(&f, dirt, sizeof dirt)->node.id;
        fixture_next(&f);
        cr_assert(fixture_delete(&f, &dirty, GMV_IF_HELD_KEEP, NULL));
        gmv_view *copy = NULL;
        gmv_view *view = fixture_view_of(&f, GMV_DTYPE_U1, "abcde", 5);
        cr_assert_eq(gmv_view_copy(&f.operation, view, false, NULL, &copy, &f.err), GMV_OK);
        unsigned char *bytes = fixture_memory(&f, copy->buffer->memory);
        for (uint64_t at = 5; at < copy->buffer->memory->capacity; at++)
            cr_assert_eq(bytes[at], 0);
        free(bytes);
    }
}

Test(view, a_copy_keeps_the_mask)
{
    static const int64_t four = 4, two = 2;
    static const unsigned char bytes[] = {1, 2, 3, 4, 9, 9, 9, 9, 1, 9, 0, 9, 1, 9, 0, 9};
    static const unsigned char want[] = {1, 0, 1, 0};
    gmv_buffer *buffer = fixture_buffer(&f, bytes, sizeof bytes);
    gmv_cai cai = cai_of(GMV_DTYPE_U1, buffer->ptr, 4);
    gmv_cai mask = cai_strided(GMV_DTYPE_B1, buffer->ptr + 8, 1, &four, &two);
    gmv_view *view = NULL;
    gmv_view *copy = NULL;
    cr_assert_eq(create_masked(&cai, &mask, GMV_MASK_NONE, NULL, &view), GMV_OK);
    cr_assert_eq(gmv_view_copy(&f.operation, view, false, NULL, &copy, &f.err), GMV_OK);
    cr_assert_eq(copy->mask_kind, GMV_MASK_BOOLS);
    cr_assert_neq(copy->mask->buffer, buffer);
    fixture_expect_bytes(&f, copy, bytes, 4);
    fixture_expect_bytes(&f, copy->mask, want, 4);
}

Test(view, an_empty_view_is_copied_to_an_empty_one)
{
    static const int64_t shape[] = {2, 0, 5};
    gmv_cai cai = cai_strided(GMV_DTYPE_F8, 0, 3, shape, NULL);
    gmv_view *copy = NULL;
    cr_assert_eq(gmv_view_copy(&f.operation, create_ok(&cai, NULL), false, NULL, &copy, &f.err),
                 GMV_OK);
    cr_assert_eq(copy->nbytes, 0);
    cr_assert_eq(memcmp(gmv_view_shape(copy), shape, sizeof shape), 0);
}

/* ---- lives ----------------------------------------------------------------------------------- */

/* The k-th permutation of four things. */
static void permute(int k, int out_order[4])
{
    int left[4] = {0, 1, 2, 3};
    for (int i = 0, n = 4; i < 4; i++, n--) {
        int factorial = n == 4 ? 6 : n == 3 ? 2 : 1;
        int pick = k / factorial;
        k %= factorial;
        out_order[i] = left[pick];
        memmove(left + pick, left + pick + 1, (size_t)(n - pick - 1) * sizeof left[0]);
    }
}

/* PR-LIF-07: deletes buffer, view, slice and slice of the slice in every order. */
Test(view, memory_lives_until_the_last_of_a_chain_is_deleted_in_any_order)
{
    for (int k = 0; k < 24; k++) {
        gmv_id ids[4];
        int order[4];
        bool named[4] = {true, true, true, true};
        gmv_slice slice = {.has_start = true, .start = 1};
        gmv_buffer *buffer = fixture_buffer(&f, "abcdef", 6);
        gmv_view *view = fixture_view(&f, &buffer->node, GMV_DTYPE_U1, 6, 0);
        gmv_view *first = NULL;
        gmv_view *second = NULL;
        cr_assert_eq(gmv_view_byte_slice(&f.operation, view, &slice, NULL, &first, &f.err), GMV_OK);
        cr_assert_eq(gmv_view_byte_slice(&f.operation, first, &slice, NULL, &second, &f.err),
                     GMV_OK);
        ids[0] = buffer->node.id, ids[1] = view->node.id;
        ids[2] = first->node.id, ids[3] = second->node.id;
        permute(k, order);
        int alive = 4; /* ids[0] to ids[alive - 1] are alive: each keeps those before it */
        for (int i = 0; i < 4; i++) {
            gmv_deletion deletion;
            gmv_node *node = NULL;
            fixture_next(&f);
            if (named[3]) {
                cr_assert_eq(
                    gmv_operation_get(&f.operation, &ids[3], GMV_KIND_VIEW, NULL, &node, &f.err),
                    GMV_OK);
                fixture_expect_bytes(&f, gmv_view_of(node), "cdef", 4);
                fixture_next(&f);
            }
            cr_assert(fixture_delete(&f, &ids[order[i]], GMV_IF_HELD_KEEP, &deletion));
            named[order[i]] = false;
            int alive_now = alive;
            while (alive_now > 0 && !named[alive_now - 1])
                alive_now--;
            cr_assert_eq(deletion.freed_count, (uint64_t)(alive - alive_now), "order %d", k);
            for (int j = 0; j < alive - alive_now; j++)
                cr_assert(gmv_id_equal(&deletion.freed[j], &ids[alive - 1 - j]), "order %d", k);
            cr_assert_eq(deletion.alive, order[i] < alive_now, "order %d", k);
            cr_assert_eq(deletion.kept_alive_by_count, order[i] < alive_now ? 1 : 0, "order %d", k);
            cr_assert_eq(deletion.freed_nbytes, alive_now == 0 ? 6 : 0, "order %d", k);
            alive = alive_now;
        }
        cr_assert_eq(f.engine.reserved_nbytes[0], 0, "order %d", k);
    }
}

Test(view, a_long_chain_of_slices_is_freed_without_deep_recursion)
{
    enum { LENGTH = 100000 };
    gmv_slice slice = {0};
    gmv_view *view = fixture_view_of(&f, GMV_DTYPE_U1, "abcdef", 6);
    gmv_id bottom = view->buffer->node.id;
    gmv_id last = view->node.id;
    gmv_deletion deletion;
    for (int i = 0; i < LENGTH; i++) {
        gmv_view *next = NULL;
        gmv_node *node = NULL;
        fixture_end(&f);
        fixture_begin(&f);
        cr_assert_eq(gmv_operation_get(&f.operation, &last, GMV_KIND_VIEW, NULL, &node, &f.err),
                     GMV_OK);
        cr_assert_eq(
            gmv_view_byte_slice(&f.operation, gmv_view_of(node), &slice, NULL, &next, &f.err),
            GMV_OK);
        gmv_id id = next->node.id;
        cr_assert(fixture_delete(&f, &last, GMV_IF_HELD_KEEP, NULL));
        last = id;
    }
    fixture_next(&f);
    cr_assert(fixture_delete(&f, &bottom, GMV_IF_HELD_KEEP, &deletion));
    cr_assert(deletion.alive);
    cr_assert(fixture_delete(&f, &last, GMV_IF_HELD_KEEP, &deletion));
    cr_assert_eq(deletion.freed_count, LENGTH + 2);
    cr_assert_eq(fixture_look(&f).alive, 0);
}
