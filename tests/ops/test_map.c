/* SPDX-License-Identifier: Apache-2.0 */
/* Maps of buffers: every byte once, and with it just the views whose extents hold it. */
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>

#include <gmv/base/alloc.h>
#include <gmv/ops/map.h>
#include <gmv/ops/mask_check.h>

#include "ops/fixture.h"

#define MAP_PIECES_MAX 4096

static fixture f;
static gmv_map_piece pieces[MAP_PIECES_MAX];
static size_t n_pieces;

static void open_fixture(void)
{
    fixture_open(&f);
}

static void close_fixture(void)
{
    fixture_close(&f);
}

TestSuite(map, .init = open_fixture, .fini = close_fixture);
TestSuite(mask_check, .init = open_fixture, .fini = close_fixture);

static void map_keep(void *context, const gmv_map_piece *piece)
{
    (void)context;
    cr_assert_lt(n_pieces, MAP_PIECES_MAX);
    pieces[n_pieces++] = *piece;
}

/* All pages of `limit` pieces each. */
static void map_of(gmv_buffer *buffer, size_t limit)
{
    uint64_t next = 0;
    n_pieces = 0;
    do {
        uint64_t from = next;
        size_t before = n_pieces;
        cr_assert_eq(
            gmv_buffer_map(&f.operation, buffer, from, limit, map_keep, NULL, &next, &f.err),
            GMV_OK, "%s", f.err.message);
        cr_assert(n_pieces - before <= limit);
        cr_assert(next > from || buffer->nbytes == 0);
    } while (next < buffer->nbytes);
}

static bool piece_lists(const gmv_map_piece *piece, const gmv_view *view)
{
    for (size_t i = 0; i < piece->n_views; i++)
        if (gmv_id_equal(&piece->views[i], &view->node.id))
            return true;
    return false;
}

static gmv_view *slice_of(gmv_view *parent, int64_t start, int64_t stop)
{
    gmv_slice slice = {.has_start = true, .start = start, .has_stop = true, .stop = stop};
    gmv_view *view = NULL;
    cr_assert_eq(gmv_view_byte_slice(&f.operation, parent, &slice, NULL, &view, &f.err), GMV_OK);
    return view;
}

Test(map, a_buffer_without_views_is_one_piece_that_nobody_sees)
{
    gmv_buffer *buffer = fixture_buffer(&f, "0123456789", 10);
    map_of(buffer, 100);
    cr_assert_eq(n_pieces, 1);
    cr_expect(pieces[0].offset == 0 && pieces[0].nbytes == 10);
    cr_expect(pieces[0].views_count == 0 && pieces[0].n_views == 0);
    map_of(fixture_buffer(&f, "", 0), 100);
    cr_expect_eq(n_pieces, 0);
}

Test(map, views_of_views_cover_what_they_touch)
{
    gmv_buffer *buffer = fixture_buffer(&f, "0123456789abcdef", 16);
    gmv_view *whole = fixture_view(&f, &buffer->node, GMV_DTYPE_U1, 12, 2);
    gmv_view *slice = slice_of(whole, 4, 8);
    gmv_view *deep = slice_of(slice, 1, 2);
    gmv_view *empty = slice_of(slice, 1, 1);
    map_of(buffer, 100);
    static const struct {
        uint64_t offset, nbytes, views;
    } want[] = {{0, 2, 0}, {2, 4, 1}, {6, 1, 2}, {7, 1, 3}, {8, 2, 2}, {10, 4, 1}, {14, 2, 0}};
    cr_assert_eq(n_pieces, sizeof want / sizeof want[0]);
    for (size_t i = 0; i < n_pieces; i++) {
        cr_expect_eq(pieces[i].offset, want[i].offset);
        cr_expect_eq(pieces[i].nbytes, want[i].nbytes);
        cr_expect_eq(pieces[i].views_count, want[i].views);
        cr_expect_eq(pieces[i].n_views, want[i].views);
        cr_expect_not(piece_lists(&pieces[i], empty));
    }
    cr_expect(gmv_id_equal(&pieces[3].views[0], &whole->node.id));
    cr_expect(gmv_id_equal(&pieces[3].views[1], &slice->node.id));
    cr_expect(gmv_id_equal(&pieces[3].views[2], &deep->node.id));
}

Test(map, strided_views_cover_their_extent_and_broadcast_ones_what_lies_there)
{
    static const struct {
        int64_t offset, shape[2], strides[2];
        uint64_t first, last;
    } rows[] = {
        {12, {3, 1}, {-4, 0}, 4, 13},
        {4, {2, 3}, {8, 2}, 4, 17},
        {20, {1000000, 2}, {0, 1}, 20, 22},
        {10, {2, 2}, {-10, 5}, 0, 16},
    };
    char content[32] = {0};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        gmv_buffer *buffer = fixture_buffer(&f, content, sizeof content);
        gmv_typed_view_request request = {.dtype = GMV_DTYPE_U1,
                                          .offset = rows[i].offset,
                                          .layout = {.ndim = 2, .has_strides = true}};
        gmv_view *view = NULL;
        memcpy(request.layout.shape, rows[i].shape, sizeof rows[i].shape);
        memcpy(request.layout.strides, rows[i].strides, sizeof rows[i].strides);
        cr_assert_eq(
            gmv_view_create_typed(&f.operation, &buffer->node, &request, NULL, &view, &f.err),
            GMV_OK, "%s", f.err.message);
        map_of(buffer, 100);
        for (size_t j = 0; j < n_pieces; j++) {
            bool covered = pieces[j].offset >= rows[i].first && pieces[j].offset < rows[i].last;
            cr_expect_eq(piece_lists(&pieces[j], view), covered);
            cr_expect(!covered || pieces[j].offset + pieces[j].nbytes == rows[i].last);
        }
    }
}

static uint64_t map_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* Against a look at each byte, with pages of every size. */
Test(map, random_views_are_where_they_are)
{
    enum { NBYTES = 200, VIEWS = 40 };
    char content[NBYTES] = {0};
    gmv_buffer *buffer = fixture_buffer(&f, content, NBYTES);
    gmv_view *views[VIEWS];
    uint64_t state = 88172645463325252u;
    for (size_t i = 0; i < VIEWS; i++) {
        int64_t first = (int64_t)(map_random(&state) % NBYTES);
        int64_t n = (int64_t)(map_random(&state) % (uint64_t)(NBYTES - first + 1));
        if (i >= 10 && i % 2)
            views[i] = slice_of(views[map_random(&state) % i], first / 4, first / 4 + n / 2);
        else
            views[i] = fixture_view(&f, &buffer->node, GMV_DTYPE_U1, n, first);
    }
    for (size_t limit = 1; limit < 90; limit += 11) {
        map_of(buffer, limit);
        uint64_t at = 0;
        for (size_t i = 0; i < n_pieces; i++) {
            cr_assert_eq(pieces[i].offset, at);
            for (uint64_t byte = at; byte < at + pieces[i].nbytes; byte++) {
                uint64_t count = 0;
                for (size_t j = 0; j < VIEWS; j++) {
                    uint64_t first = gmv_view_offset(views[j]);
                    bool covers = byte >= first && byte < first + (uint64_t)views[j]->nbytes;
                    cr_assert_eq(piece_lists(&pieces[i], views[j]), covers);
                    count += covers ? 1 : 0;
                }
                cr_assert_eq(pieces[i].views_count, count);
            }
            at += pieces[i].nbytes;
        }
        cr_assert_eq(at, NBYTES);
    }
}

Test(map, a_hundred_views_are_listed_and_all_are_counted)
{
    gmv_buffer *buffer = fixture_buffer(&f, "0123", 4);
    gmv_view *first = fixture_view(&f, &buffer->node, GMV_DTYPE_U1, 4, 0), *view = first;
    for (int i = 1; i < 700; i++) /* more than one step of the walk, in breadth and in depth */
        view = i % 2 ? fixture_view(&f, &buffer->node, GMV_DTYPE_U1, 4, 0) : slice_of(view, 0, 4);
    map_of(buffer, 100);
    cr_assert_eq(n_pieces, 1);
    cr_expect_eq(pieces[0].views_count, 700);
    cr_expect_eq(pieces[0].n_views, GMV_MAP_VIEWS_LISTED);
    cr_expect(gmv_id_equal(&pieces[0].views[0], &first->node.id));
}

Test(map, deleted_views_cover_nothing_but_what_was_made_from_them_does)
{
    gmv_buffer *buffer = fixture_buffer(&f, "01234567", 8);
    gmv_view *parent = fixture_view(&f, &buffer->node, GMV_DTYPE_U1, 8, 0);
    gmv_view *child = slice_of(parent, 2, 4);
    gmv_id id = parent->node.id;
    cr_assert(fixture_delete(&f, &id, GMV_IF_HELD_KEEP, NULL));
    map_of(buffer, 100);
    cr_assert_eq(n_pieces, 3);
    cr_expect(pieces[0].views_count == 0 && pieces[2].views_count == 0);
    cr_expect(pieces[1].views_count == 1 && piece_lists(&pieces[1], child));
}

/* A view depends on its mask, too, which may lie in another buffer. */
Test(map, masks_bring_no_view_into_another_buffer)
{
    gmv_buffer *buffer = fixture_buffer(&f, "0123", 4), *other = fixture_buffer(&f, "\1\1\1\1", 4);
    gmv_cai cai = {.address = (int64_t)buffer->ptr, .dtype = GMV_DTYPE_U1, .version = 3};
    gmv_cai mask = {.address = (int64_t)other->ptr, .dtype = GMV_DTYPE_B1, .version = 3};
    gmv_view_request request = {.cai = &cai, .mask = &mask};
    gmv_view *view = NULL;
    cai.layout = gmv_layout_flat(4);
    mask.layout = gmv_layout_flat(4);
    cr_assert_eq(gmv_view_create(&f.operation, &request, NULL, &view, &f.err), GMV_OK, "%s",
                 f.err.message);
    map_of(buffer, 100);
    cr_expect(n_pieces == 1 && pieces[0].views_count == 1 && piece_lists(&pieces[0], view));
    map_of(other, 100);
    cr_expect(n_pieces == 1 && pieces[0].views_count == 1 && piece_lists(&pieces[0], view->mask));
}

Test(map, a_map_holds_nothing_when_it_is_done_or_has_failed)
{
    gmv_buffer *buffer = fixture_buffer(&f, "0123", 4);
    for (int i = 0; i < 20; i++)
        (void)slice_of(fixture_view(&f, &buffer->node, GMV_DTYPE_U1, 4, 0), 1, 2);
    fixture_state before = fixture_look(&f);
    uint64_t next;
    bool has_failed = true;
    for (uint64_t n = 1; has_failed; n++) {
        n_pieces = 0;
        gmv_error_init(&f.err);
        gmv_alloc_fail_once(n);
        gmv_status status =
            gmv_buffer_map(&f.operation, buffer, 0, 100, map_keep, NULL, &next, &f.err);
        has_failed = gmv_alloc_has_failed();
        gmv_alloc_fail_once(0);
        cr_assert_eq(status, has_failed ? GMV_ERR_OVERLOADED : GMV_OK);
        fixture_state after = fixture_look(&f);
        fixture_expect_same(&before, &after, "a map");
    }
    gmv_handle_info info;
    cr_assert_eq(
        gmv_registry_describe(f.engine.registry, &f.caller, &buffer->node.id, &info, &f.err),
        GMV_OK);
    cr_expect_eq(info.in_flight, 1);
}

/* ---- masks ---- */

static gmv_mask_check check_of(int64_t size, int64_t offset, gmv_view *mask)
{
    static const unsigned char data[64] = {0};
    gmv_column_request request = {
        .type = {.id = GMV_CUDF_INT8},
        .size = size,
        .offset = offset,
        .data = fixture_view_of(&f, GMV_DTYPE_I1, data, sizeof data),
        .null_mask = mask,
    };
    gmv_column *column = NULL;
    gmv_mask_check check;
    cr_assert_eq(gmv_column_create(&f.operation, &request, NULL, &column, &f.err), GMV_OK, "%s",
                 f.err.message);
    cr_assert_eq(gmv_column_check_mask(&f.operation, column, &check, &f.err), GMV_OK, "%s",
                 f.err.message);
    cr_expect_eq(check.claimed, column->null_count);
    cr_expect_eq(check.bits_before, offset);
    return check;
}

Test(mask_check, rows_and_what_lies_behind_them_are_counted_apart)
{
    static const unsigned char bits[] = {0xF0, 0x0F, 0xFF, 0x01};
    gmv_view *mask = fixture_view_of(&f, GMV_DTYPE_U1, bits, sizeof bits);
    gmv_mask_check check = check_of(10, 0, mask);
    cr_expect(check.counted == 4 && check.bits_past_end == 11 && !check.is_misaligned);
    check = check_of(10, 3, mask);
    cr_expect(check.counted == 2 && check.bits_past_end == 9);
    check = check_of(32, 0, mask);
    cr_expect(check.counted == 15 && check.bits_past_end == 0);
    check = check_of(0, 0, mask);
    cr_expect(check.counted == 0 && check.bits_past_end == 17);
}

Test(mask_check, a_mask_may_lie_anywhere_and_says_so)
{
    static const unsigned char bits[] = {0x00, 0xFF, 0xFF, 0xFF, 0xFF};
    gmv_buffer *buffer = fixture_buffer(&f, bits, sizeof bits);
    gmv_mask_check check = check_of(16, 0, fixture_view(&f, &buffer->node, GMV_DTYPE_U1, 2, 1));
    cr_expect(check.counted == 0 && check.is_misaligned);
    check = check_of(16, 0, fixture_view(&f, &buffer->node, GMV_DTYPE_U1, 2, 0));
    cr_expect(check.counted == 8 && !check.is_misaligned);
}

Test(mask_check, without_a_mask_all_rows_are_valid)
{
    gmv_mask_check check = check_of(10, 0, NULL);
    cr_expect(check.claimed == 0 && check.counted == 0 && check.bits_past_end == 0);
}

Test(mask_check, a_later_write_shows)
{
    static const unsigned char bits[] = {0xFF, 0xFF};
    gmv_buffer *buffer = fixture_buffer(&f, bits, sizeof bits);
    static const unsigned char data[16] = {0};
    gmv_column_request request = {
        .type = {.id = GMV_CUDF_INT8},
        .size = 12,
        .data = fixture_view_of(&f, GMV_DTYPE_I1, data, sizeof data),
        .null_mask = fixture_view(&f, &buffer->node, GMV_DTYPE_U1, 2, 0),
    };
    gmv_column *column = NULL;
    gmv_mask_check check;
    cr_assert_eq(gmv_column_create(&f.operation, &request, NULL, &column, &f.err), GMV_OK);
    cr_assert_eq(gmv_buffer_write(&f.operation, buffer, 0, "\x0F\x00", 2, &f.err), GMV_OK);
    cr_assert_eq(gmv_column_check_mask(&f.operation, column, &check, &f.err), GMV_OK);
    cr_expect(check.claimed == 0 && check.counted == 8 && check.bits_past_end == 0);
}
