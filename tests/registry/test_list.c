/* SPDX-License-Identifier: Apache-2.0 */
/* Lists: order, cursors while others delete, filters, short pages. */
#include <criterion/criterion.h>

#include "registry/toy.h"

enum { PAGE_MAX = 1000 };

typedef struct page {
    gmv_handle_info infos[PAGE_MAX];
    size_t n;
} page;

static page shown; /* an info is large */

static void collect(void *context, const gmv_handle_info *info)
{
    page *to = context;
    cr_assert_lt(to->n, PAGE_MAX);
    to->infos[to->n++] = *info;
}

static uint64_t list(gmv_registry *registry, const gmv_list_filter *filter, uint64_t cursor,
                     size_t limit)
{
    shown.n = 0;
    gmv_registry_list(registry, &anyone, filter, cursor, limit, collect, &shown, &cursor);
    cr_assert_leq(shown.n, limit);
    return cursor;
}

static size_t list_whole(gmv_registry *registry, const gmv_list_filter *filter)
{
    size_t n = 0;
    uint64_t cursor = 0;
    do {
        cursor = list(registry, filter, cursor, 100);
        n += shown.n;
    } while (cursor);
    return n;
}

Test(list, of_nothing_is_empty)
{
    gmv_registry *registry = toy_registry(0);
    const gmv_list_filter every = {0};
    cr_assert_eq(list(registry, &every, 0, 10), 0);
    cr_assert_eq(shown.n, 0);
    gmv_registry_destroy(registry);
}

Test(list, goes_in_order_of_creation_in_pages)
{
    enum { N = 1500 };
    static gmv_id ids[N];
    gmv_registry *registry = toy_registry(0);
    for (int i = 0; i < N; i++)
        ids[i] = toy_make(registry, i % 2 ? GMV_KIND_VIEW : GMV_KIND_BUFFER, 0)->id;
    const gmv_list_filter every = {0};
    uint64_t cursor = 0;
    size_t n = 0;
    do {
        cursor = list(registry, &every, cursor, 70);
        for (size_t i = 0; i < shown.n; i++, n++)
            cr_assert(gmv_id_equal(&shown.infos[i].id, &ids[n]));
    } while (cursor);
    cr_assert_eq(n, N);
    gmv_registry_destroy(registry);
}

Test(list, ends_with_a_null_cursor_when_the_last_fits_exactly)
{
    gmv_registry *registry = toy_registry(0);
    for (int i = 0; i < 10; i++)
        toy_make(registry, GMV_KIND_BUFFER, 0);
    const gmv_list_filter every = {0};
    cr_assert_eq(list(registry, &every, 0, 10), 0);
    cr_assert_neq(list(registry, &every, 0, 9), 0);
    gmv_registry_destroy(registry);
}

Test(list, misses_and_repeats_nothing_while_others_come_and_go)
{
    enum { N = 6000 };
    static gmv_id ids[N];
    static bool deleted[N];
    gmv_registry *registry = toy_registry(0);
    for (int i = 0; i < N; i++)
        ids[i] = toy_make(registry, GMV_KIND_VIEW, 0)->id;
    const gmv_list_filter every = {0};
    uint64_t cursor = 0;
    int next = 0; /* the first that has not been passed */
    uint32_t random = 1;
    do {
        cursor = list(registry, &every, cursor, 50);
        for (size_t i = 0; i < shown.n; i++) {
            while (next < N && deleted[next])
                next++;
            if (next == N)
                break; /* those made meanwhile */
            cr_assert(gmv_id_equal(&shown.infos[i].id, &ids[next]), "at %d", next);
            next++;
        }
        for (int i = 0; i < 40; i++) {
            random = random * 1664525u + 1013904223u;
            int victim = (int)(random >> 8) % N;
            if (!deleted[victim])
                toy_delete(registry, &ids[victim], GMV_IF_HELD_KEEP);
            deleted[victim] = true;
        }
        if (next < N)
            toy_make(registry, GMV_KIND_VIEW, 0);
    } while (cursor);
    while (next < N && deleted[next])
        next++;
    cr_assert_eq(next, N);
    gmv_registry_destroy(registry);
}

Test(list, filters_by_kind_label_and_session)
{
    gmv_registry *registry = toy_registry(0);
    gmv_session_info info;
    gmv_caller bearer = {0};
    cr_assert_eq(gmv_session_create(registry, &anyone, NULL, 0, 60, &info, NULL), GMV_OK);
    const gmv_id session = info.id;
    cr_assert_eq(gmv_session_enter(registry, &anyone, &session, &bearer.session, NULL), GMV_OK);
    static const char *const labels[] = {"a", "ab", "", NULL};
    for (int i = 0; i < 16; i++) {
        toy *object = gmv_calloc(1, sizeof *object);
        cr_assert_not_null(object);
        const char *label = labels[i % 4];
        gmv_node_attributes attributes = {.caller = i < 8 ? &bearer : &anyone,
                                          .label = label,
                                          .label_length = label ? strlen(label) : 0};
        gmv_kind kind = i % 8 < 4 ? GMV_KIND_TABLE : GMV_KIND_COLUMN;
        cr_assert_eq(gmv_node_prepare(registry, &object->node, &toy_classes[kind], &attributes,
                                      NULL, 0, NULL),
                     GMV_OK);
        gmv_node *node = &object->node;
        gmv_registry_publish(registry, &node, 1);
        toy_settle(registry, node);
    }
    cr_assert_eq(list_whole(registry, &(gmv_list_filter){0}), 16);
    cr_assert_eq(list_whole(registry, &(gmv_list_filter){.kind = GMV_KIND_TABLE}), 8);
    cr_assert_eq(list_whole(registry, &(gmv_list_filter){.kind = GMV_KIND_BUFFER}), 0);
    cr_assert_eq(list_whole(registry, &(gmv_list_filter){.label = "a", .label_length = 1}), 4);
    cr_assert_eq(list_whole(registry, &(gmv_list_filter){.label = "", .label_length = 0}), 4);
    cr_assert_eq(list_whole(registry, &(gmv_list_filter){.label = "abc", .label_length = 3}), 0);
    cr_assert_eq(list_whole(registry, &(gmv_list_filter){.session = session}), 8);
    cr_assert_eq(list_whole(registry, &(gmv_list_filter){.session = session,
                                                         .kind = GMV_KIND_COLUMN,
                                                         .label = "ab",
                                                         .label_length = 2}),
                 1);
    cr_assert(shown.infos[0].has_label);
    cr_assert_str_eq(shown.infos[0].label, "ab");
    cr_assert(gmv_id_equal(&shown.infos[0].session, &session));
    gmv_session_leave(registry, bearer.session);
    gmv_registry_destroy(registry);
}

Test(list, shows_inner_and_deleted_ones_only_when_asked_for_all)
{
    gmv_registry *registry = toy_registry(0);
    gmv_node *buffer = toy_make(registry, GMV_KIND_BUFFER, 0);
    gmv_node *inner = toy_hold(registry, GMV_KIND_VIEW, true, 1, buffer);
    gmv_node *view = toy_make(registry, GMV_KIND_VIEW, 1, inner);
    gmv_node *dead = toy_hold(registry, GMV_KIND_VIEW, false, 0);
    toy_settle(registry, inner);
    toy_delete(registry, &buffer->id, GMV_IF_HELD_KEEP);
    toy_delete(registry, &dead->id, GMV_IF_HELD_KEEP);
    gmv_registry_release(registry, dead, false);
    cr_assert_eq(list_whole(registry, &(gmv_list_filter){0}), 1);
    cr_assert(gmv_id_equal(&shown.infos[0].id, &view->id));
    cr_assert_eq(list_whole(registry, &(gmv_list_filter){.all = true}), 3);
    cr_assert(shown.infos[0].deleted && !shown.infos[0].named && shown.infos[0].alive);
    cr_assert(!shown.infos[1].deleted && !shown.infos[1].named && shown.infos[1].alive);
    cr_assert(!shown.infos[2].deleted && shown.infos[2].named);
    gmv_registry_destroy(registry);
}

Test(list, shows_a_principal_its_own)
{
    gmv_registry *registry = toy_registry(0);
    toy_make(registry, GMV_KIND_BUFFER, 0);
    const gmv_caller stranger = {.principal = 9};
    const gmv_caller administrator = {.principal = 9, .sees_all = true};
    const gmv_list_filter every = {.all = true};
    uint64_t cursor;
    shown.n = 0;
    gmv_registry_list(registry, &stranger, &every, 0, 10, collect, &shown, &cursor);
    cr_assert_eq(shown.n, 0);
    gmv_registry_list(registry, &administrator, &every, 0, 10, collect, &shown, &cursor);
    cr_assert_eq(shown.n, 1);
    gmv_registry_destroy(registry);
}

Test(list, page_may_end_short_and_goes_on_from_there)
{
    enum { N = 20000 };
    gmv_registry *registry = toy_registry(0);
    for (int i = 0; i < N; i++)
        toy_make(registry, GMV_KIND_VIEW, 0);
    gmv_id id = toy_make(registry, GMV_KIND_TABLE, 0)->id;
    const gmv_list_filter tables = {.kind = GMV_KIND_TABLE};
    uint64_t cursor = list(registry, &tables, 0, 10);
    cr_assert_eq(shown.n, 0);
    cr_assert_neq(cursor, 0);
    int pages = 1;
    while (shown.n == 0 && cursor) {
        cursor = list(registry, &tables, cursor, 10);
        pages++;
    }
    cr_assert_eq(shown.n, 1);
    cr_assert(gmv_id_equal(&shown.infos[0].id, &id));
    cr_assert_eq(cursor, 0);
    cr_assert_eq(pages, N / 4096 + 1);
    gmv_registry_destroy(registry);
}

Test(list, with_a_cursor_past_the_end_is_at_its_end)
{
    gmv_registry *registry = toy_registry(0);
    toy_make(registry, GMV_KIND_VIEW, 0);
    const gmv_list_filter every = {0};
    cr_assert_eq(list(registry, &every, UINT64_MAX, 10), 0);
    cr_assert_eq(shown.n, 0);
    gmv_registry_destroy(registry);
}
