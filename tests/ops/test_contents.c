/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes to serve: strided ones in pieces, prefixes, and copies taken at one time. */
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>

#include <gmv/base/alloc.h>

#include "ops/fixture.h"

static fixture f;

static void open_fixture(void)
{
    fixture_open(&f);
}

static void close_fixture(void)
{
    fixture_close(&f);
}

TestSuite(contents, .init = open_fixture, .fini = close_fixture);

/* A view of any layout over a buffer, element 0 at `offset`. */
static gmv_view *contents_view(gmv_buffer *buffer, gmv_dtype dtype, int64_t offset, int32_t ndim,
                               const int64_t *shape, const int64_t *strides)
{
    gmv_cai cai = {.address = (int64_t)buffer->ptr + offset, .dtype = dtype, .version = 3};
    gmv_view *view = NULL;
    cai.layout.ndim = ndim;
    cai.layout.has_strides = true;
    memcpy(cai.layout.shape, shape, (size_t)ndim * sizeof *shape);
    memcpy(cai.layout.strides, strides, (size_t)ndim * sizeof *strides);
    gmv_view_request request = {.cai = &cai, .buffer = buffer};
    cr_assert_eq(gmv_view_create(&f.operation, &request, NULL, &view, &f.err), GMV_OK, "%s",
                 f.err.message);
    return view;
}

static gmv_buffer *contents_counting(unsigned char *content, size_t nbytes)
{
    for (size_t i = 0; i < nbytes; i++)
        content[i] = (unsigned char)(i * 7 + i / 251);
    return fixture_buffer(&f, content, nbytes);
}

static gmv_bytes contents_bytes(gmv_view *view)
{
    gmv_bytes bytes;
    cr_assert_eq(gmv_view_bytes(&f.operation, view, &bytes, &f.err), GMV_OK, "%s", f.err.message);
    return bytes;
}

Test(contents, any_piece_of_a_transposed_view_is_its_part_of_the_whole)
{
    static const int64_t shape[] = {7, 9}, strides[] = {8, 56};
    unsigned char content[504], whole[504], piece[504];
    gmv_buffer *buffer = contents_counting(content, sizeof content);
    gmv_view *view = contents_view(buffer, GMV_DTYPE_F8, 0, 2, shape, strides);
    for (size_t i = 0; i < 63; i++)
        memcpy(whole + 8 * i, content + i / 9 * 8 + i % 9 * 56, 8);
    gmv_bytes bytes = contents_bytes(view);
    for (uint64_t offset = 0; offset <= sizeof whole; offset += 11) {
        for (uint64_t nbytes = 0; nbytes <= sizeof whole - offset; nbytes += 13) {
            memset(piece, 0xEE, sizeof piece);
            cr_assert_eq(gmv_bytes_read(&bytes, f.streams[0], offset, piece, nbytes, &f.err),
                         GMV_OK);
            cr_assert_eq(memcmp(piece, whole + offset, nbytes), 0);
            cr_assert(nbytes == sizeof piece || piece[nbytes] == 0xEE);
        }
    }
    fixture_expect(&f, gmv_bytes_read(&bytes, f.streams[0], 500, piece, 5, &f.err),
                   GMV_ERR_OUT_OF_BOUNDS, NULL);
    gmv_bytes_release(&bytes);
}

Test(contents, a_reversed_view_longer_than_a_piece_is_read_whole)
{
    static const int64_t stride = -1;
    const int64_t n = ((int64_t)5 << 19) + 3; /* two and a half pieces */
    unsigned char *content = malloc((size_t)n), *got = malloc((size_t)n);
    gmv_buffer *buffer = contents_counting(content, (size_t)n);
    gmv_view *view = contents_view(buffer, GMV_DTYPE_U1, n - 1, 1, &n, &stride);
    gmv_bytes bytes = contents_bytes(view);
    uint64_t reserved = f.engine.reserved_nbytes[0];
    cr_assert_eq(gmv_bytes_read(&bytes, f.streams[0], 0, got, (uint64_t)n, &f.err), GMV_OK);
    for (int64_t i = 0; i < n; i++)
        cr_assert_eq(got[i], content[n - 1 - i]);
    cr_assert_eq(f.engine.reserved_nbytes[0], reserved);
    gmv_bytes_release(&bytes);
    free(content);
    free(got);
}

/* 2^36 logical bytes from 16: whatever is read of them, only as much is made. */
Test(contents, the_end_of_a_huge_broadcast_is_read_at_once)
{
    static const int64_t shape[] = {(int64_t)1 << 32, 4}, strides[] = {0, 4};
    gmv_buffer *buffer = fixture_buffer(&f, "0123456789abcdef", 16);
    gmv_view *view = contents_view(buffer, GMV_DTYPE_F4, 0, 2, shape, strides);
    gmv_bytes bytes = contents_bytes(view);
    char got[20];
    cr_assert_eq(bytes.nbytes, (uint64_t)1 << 36);
    cr_assert_eq(gmv_bytes_read(&bytes, f.streams[0], ((uint64_t)1 << 36) - 18, got, 18, &f.err),
                 GMV_OK);
    cr_assert_eq(memcmp(got, "ef0123456789abcdef", 18), 0);
    gmv_bytes_release(&bytes);
}

Test(contents, pieces_that_cannot_be_gathered_fail_and_leave_nothing)
{
    static const int64_t shape = 3, stride = -2;
    gmv_buffer *buffer = fixture_buffer(&f, "abcdef", 6);
    gmv_view *view = contents_view(buffer, GMV_DTYPE_U1, 4, 1, &shape, &stride);
    gmv_bytes bytes = contents_bytes(view);
    char got[3];
    fixture_state before = fixture_look(&f);
    uint64_t n = 0;
    gmv_status status;
    do {
        gmv_device_fail_once(f.engine.devices[0], ++n, GMV_ERR_DEVICE_OUT_OF_MEMORY);
        gmv_error_init(&f.err);
        status = gmv_bytes_read(&bytes, f.streams[0], 0, got, 3, &f.err);
        cr_assert_eq(status, gmv_device_has_failed(f.engine.devices[0])
                                 ? GMV_ERR_DEVICE_OUT_OF_MEMORY
                                 : GMV_OK);
    } while (status != GMV_OK);
    cr_assert_gt(n, 4);
    cr_assert_eq(memcmp(got, "eca", 3), 0);
    fixture_state after = fixture_look(&f);
    fixture_expect_same(&before, &after, "reading in pieces");
    gmv_bytes_release(&bytes);
}

/* ---- prefixes ---- */

static void *contents_prefix(const char *text)
{
    size_t nbytes = strlen(text);
    char *prefix = gmv_malloc(nbytes + 1);
    cr_assert_not_null(prefix);
    memcpy(prefix, text, nbytes + 1);
    return prefix;
}

static void contents_expect_pieces(const gmv_bytes *bytes, const char *want)
{
    uint64_t n = strlen(want);
    char got[64];
    cr_assert_eq(bytes->nbytes, n);
    for (uint64_t first = 0; first <= n; first++) {
        for (uint64_t nbytes = 0; nbytes <= n - first; nbytes++) {
            cr_assert_eq(gmv_bytes_read(bytes, f.streams[0], first, got, nbytes, &f.err), GMV_OK);
            cr_assert_eq(memcmp(got, want + first, nbytes), 0);
        }
    }
}

Test(contents, a_prefix_stands_before_regions_and_strided_bytes)
{
    static const int64_t shape = 3, stride = -2;
    gmv_buffer *buffer = fixture_buffer(&f, "abcdef", 6);
    gmv_view *strided = contents_view(buffer, GMV_DTYPE_U1, 4, 1, &shape, &stride);
    gmv_bytes bytes = contents_bytes(fixture_view(&f, &buffer->node, GMV_DTYPE_U1, 6, 0));
    gmv_bytes_prepend(&bytes, contents_prefix("head:"), 5);
    contents_expect_pieces(&bytes, "head:abcdef");
    gmv_bytes_release(&bytes);
    bytes = contents_bytes(strided);
    gmv_bytes_prepend(&bytes, contents_prefix("head:"), 5);
    contents_expect_pieces(&bytes, "head:eca");
    cr_assert_eq(gmv_bytes_fetch(&bytes, f.streams[0], &f.err), GMV_OK);
    cr_assert_eq(bytes.prefix_nbytes, 0);
    cr_assert_eq(memcmp(bytes.host, "head:eca", 8), 0);
    contents_expect_pieces(&bytes, "head:eca");
    gmv_bytes_release(&bytes);
}

Test(contents, a_prefix_alone_needs_no_device)
{
    gmv_buffer *buffer = fixture_buffer(&f, "abcdef", 6);
    gmv_bytes bytes = contents_bytes(fixture_view(&f, &buffer->node, GMV_DTYPE_U1, 0, 6));
    gmv_bytes_prepend(&bytes, contents_prefix("head:"), 5);
    cr_assert_not(gmv_bytes_are_remote(&bytes));
    contents_expect_pieces(&bytes, "head:");
    cr_assert_eq(gmv_bytes_freeze(&f.operation, &bytes, &f.err), GMV_OK);
    contents_expect_pieces(&bytes, "head:");
    gmv_bytes_release(&bytes);
}

/* ---- taken at one time ---- */

static void contents_overwrite(gmv_buffer *buffer, const char *text)
{
    cr_assert_eq(gmv_buffer_write(&f.operation, buffer, 0, text, strlen(text), &f.err), GMV_OK);
}

Test(contents, frozen_bytes_do_not_change_and_hold_their_node)
{
    static const int64_t shape = 3, stride = -2;
    gmv_buffer *buffer = fixture_buffer(&f, "abcdef", 6);
    gmv_view *strided = contents_view(buffer, GMV_DTYPE_U1, 4, 1, &shape, &stride);
    gmv_view *flat = fixture_view(&f, &buffer->node, GMV_DTYPE_U1, 6, 0);
    gmv_bytes live = contents_bytes(flat), whole = contents_bytes(flat);
    gmv_bytes gathered = contents_bytes(strided);
    gmv_bytes_prepend(&whole, contents_prefix("head:"), 5);
    uint64_t reserved = f.engine.reserved_nbytes[0];
    cr_assert_eq(gmv_bytes_freeze(&f.operation, &whole, &f.err), GMV_OK);
    cr_assert_eq(gmv_bytes_freeze(&f.operation, &gathered, &f.err), GMV_OK);
    cr_assert_gt(f.engine.reserved_nbytes[0], reserved);
    contents_overwrite(buffer, "ABCDEF");
    contents_expect_pieces(&live, "ABCDEF");
    contents_expect_pieces(&whole, "head:abcdef");
    contents_expect_pieces(&gathered, "eca");
    cr_assert_eq(whole.node, &flat->node);
    cr_assert_eq(gathered.node, &strided->node);
    gmv_bytes_release(&live);
    gmv_bytes_release(&whole);
    gmv_bytes_release(&gathered);
    gmv_engine_reap(&f.engine);
    cr_assert_eq(f.engine.reserved_nbytes[0], reserved);
}

/* A part of "head:" and the elements ef, cd, ab of two bytes each, or of "head:abcdef". */
static void contents_expect_frozen_part(gmv_buffer *buffer, gmv_view *view, const char *want,
                                        uint64_t first, uint64_t nbytes)
{
    char got[16];
    gmv_bytes bytes = contents_bytes(view);
    gmv_bytes_prepend(&bytes, contents_prefix("head:"), 5);
    contents_overwrite(buffer, "abcdef");
    cr_assert_eq(gmv_bytes_freeze_part(&f.operation, &bytes, first, nbytes, &f.err), GMV_OK);
    contents_overwrite(buffer, "ABCDEF");
    cr_assert_eq(bytes.nbytes, strlen(want));
    cr_assert_eq(gmv_bytes_read(&bytes, f.streams[0], first, got, nbytes, &f.err), GMV_OK);
    cr_assert_eq(memcmp(got, want + first, nbytes), 0);
    cr_assert_eq(gmv_bytes_read(&bytes, f.streams[0], 0, got, 5, &f.err), GMV_OK);
    cr_assert_eq(memcmp(got, "head:", 5), 0);
    uint64_t held = bytes.nbytes - 5 - bytes.absent_before - bytes.absent_behind;
    bool is_frozen = first + nbytes > 5 && nbytes > 0;
    cr_assert_eq(bytes.scratch != NULL, is_frozen);
    cr_assert_leq(is_frozen ? held : 0, nbytes + 2, "no more than the ends of its elements");
    if (bytes.absent_before > 0)
        fixture_expect(&f, gmv_bytes_read(&bytes, f.streams[0], 5, got, 1, &f.err),
                       GMV_ERR_OUT_OF_BOUNDS, NULL);
    if (bytes.absent_behind > 0)
        fixture_expect(&f, gmv_bytes_read(&bytes, f.streams[0], bytes.nbytes - 1, got, 1, &f.err),
                       GMV_ERR_OUT_OF_BOUNDS, NULL);
    cr_assert(gmv_bytes_are_remote(&bytes) || bytes.absent_before + bytes.absent_behind == 0);
    cr_assert_eq(gmv_bytes_fetch(&bytes, f.streams[0], &f.err), GMV_OK);
    cr_assert_eq(memcmp((const char *)bytes.host + first - bytes.prefix_nbytes, want + first,
                        first >= bytes.prefix_nbytes ? nbytes : 0),
                 0);
    gmv_bytes_release(&bytes);
}

Test(contents, of_a_part_no_more_than_that_is_frozen)
{
    static const int64_t shape = 3, stride = -2;
    gmv_buffer *buffer = fixture_buffer(&f, "abcdef", 6);
    gmv_view *flat = fixture_view(&f, &buffer->node, GMV_DTYPE_U1, 6, 0);
    gmv_view *strided = contents_view(buffer, GMV_DTYPE_U2, 4, 1, &shape, &stride);
    for (uint64_t first = 0; first <= 11; first++) {
        for (uint64_t nbytes = 0; nbytes <= 11 - first; nbytes++) {
            contents_expect_frozen_part(buffer, flat, "head:abcdef", first, nbytes);
            contents_expect_frozen_part(buffer, strided, "head:efcdab", first, nbytes);
        }
    }
}

Test(contents, sealed_bytes_are_frozen_as_they_are)
{
    gmv_view *view = fixture_view_of(&f, GMV_DTYPE_U1, "abcdef", 6), *copy = NULL;
    cr_assert_eq(gmv_view_copy(&f.operation, view, true, NULL, &copy, &f.err), GMV_OK);
    gmv_bytes bytes = contents_bytes(copy);
    cr_assert(bytes.sealed);
    cr_assert_eq(gmv_bytes_freeze(&f.operation, &bytes, &f.err), GMV_OK);
    cr_assert_null(bytes.scratch);
    gmv_bytes_release(&bytes);
}

Test(contents, bytes_that_cannot_be_frozen_have_been_given_back)
{
    fixture_end(&f);
    fixture_begin_lane(&f, GMV_LANE_SHORT);
    static const int64_t shape[] = {(int64_t)1 << 32, 4}, strides[] = {0, 4};
    gmv_buffer *buffer = fixture_buffer(&f, "0123456789abcdef", 16);
    gmv_view *view = contents_view(buffer, GMV_DTYPE_F4, 0, 2, shape, strides);
    gmv_view *small = fixture_view(&f, &buffer->node, GMV_DTYPE_U1, 16, 0);
    fixture_state before = fixture_look(&f);
    gmv_bytes bytes = contents_bytes(view);
    cr_assert_eq(gmv_bytes_freeze(&f.operation, &bytes, &f.err), GMV_MOVE_TO_BULK);
    cr_assert_null(bytes.engine);
    for (uint64_t n = 1; n <= 3; n++) {
        bytes = contents_bytes(small);
        gmv_device_fail_once(f.engine.devices[0], n, GMV_ERR_MEMORY_LOST);
        gmv_error_init(&f.err);
        cr_assert_eq(gmv_bytes_freeze(&f.operation, &bytes, &f.err), GMV_ERR_MEMORY_LOST);
        cr_assert_null(bytes.engine);
    }
    fixture_state after = fixture_look(&f);
    fixture_expect_same(&before, &after, "freezing");
}

/* ---- layouts ---- */

Test(contents, fortran_order_is_seen_where_the_first_index_runs_fastest)
{
    static const struct {
        int32_t ndim;
        int64_t shape[3], strides[3];
        bool is_fortran;
    } rows[] = {
        {2, {2, 3}, {4, 8}, true},
        {2, {2, 3}, {12, 4}, false},
        {3, {2, 3, 4}, {4, 8, 24}, true},
        {3, {2, 1, 3}, {4, 99, 8}, true},
        {3, {2, 3, 4}, {4, 32, 8}, false},
        {2, {2, 3}, {4, 12}, false},
        {2, {2, 3}, {0, 4}, false},
        {1, {3}, {4}, false},
        {1, {3}, {8}, false},
        {2, {1, 3}, {44, 4}, false},
        {2, {0, 3}, {4, 4}, false},
    };
    unsigned char content[128] = {0};
    gmv_buffer *buffer = fixture_buffer(&f, content, sizeof content);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        gmv_view *view =
            contents_view(buffer, GMV_DTYPE_F4, 0, rows[i].ndim, rows[i].shape, rows[i].strides);
        cr_expect_eq(gmv_view_is_fortran(view), rows[i].is_fortran, "row %zu", i);
    }
}

Test(contents, fortran_bytes_are_the_memory_as_it_lies)
{
    static const int64_t shape[] = {2, 3}, strides[] = {1, 2};
    gmv_buffer *buffer = fixture_buffer(&f, "xabcdefx", 8);
    gmv_view *view = contents_view(buffer, GMV_DTYPE_U1, 1, 2, shape, strides);
    gmv_bytes bytes;
    cr_assert(gmv_view_is_fortran(view));
    cr_assert_eq(gmv_view_fortran_bytes(&f.operation, view, &bytes, &f.err), GMV_OK);
    contents_expect_pieces(&bytes, "abcdef");
    gmv_bytes_release(&bytes);
}
