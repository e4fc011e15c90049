/* SPDX-License-Identifier: Apache-2.0 */
/* Making and finding nodes: preparing, publishing, look-ups, descriptions, quota, observers. */
#include <criterion/criterion.h>

#include <gmv/base/clock.h>

#include "registry/toy.h"

static void expect_alive(gmv_registry *registry, gmv_kind kind, uint64_t named, uint64_t alive)
{
    gmv_registry_counts counts;
    gmv_registry_count(registry, &counts);
    cr_assert_eq(counts.named[kind], named);
    cr_assert_eq(counts.alive[kind], alive);
}

/* ---- looking up
 * ---------------------------------------------------------------------------------- */

Test(get, finds_a_published_handle_of_the_right_kind)
{
    gmv_registry *registry = toy_registry(0);
    gmv_node *buffer = toy_make(registry, GMV_KIND_BUFFER, 0);
    gmv_node *found = NULL;
    gmv_error err;
    gmv_error_init(&err);
    cr_assert_eq(
        gmv_registry_get(registry, &anyone, &buffer->id, GMV_KIND_BUFFER, "/buffer", &found, &err),
        GMV_OK);
    cr_assert_eq(found, buffer);
    cr_assert_eq(atomic_load(&found->in_flight), 1);
    gmv_registry_release(registry, found, true);
    cr_assert_eq(
        gmv_registry_get(registry, &anyone, &buffer->id, GMV_KIND_VIEW, "/view", &found, &err),
        GMV_ERR_KIND_MISMATCH);
    cr_assert(err.has_pointer);
    cr_assert_str_eq(err.pointer, "/view");
    cr_assert_eq(atomic_load(&buffer->in_flight), 0);
    gmv_registry_destroy(registry);
}

Test(get, knows_no_id_that_was_never_made)
{
    gmv_registry *registry = toy_registry(0);
    gmv_id id;
    cr_assert(gmv_id_generate(GMV_KIND_VIEW, &id));
    gmv_error err;
    gmv_error_init(&err);
    gmv_node *found = NULL;
    cr_assert_eq(gmv_registry_get(registry, &anyone, &id, GMV_KIND_ANY, NULL, &found, &err),
                 GMV_ERR_HANDLE_UNKNOWN);
    cr_assert_not(err.has_pointer);
    cr_assert_null(found);
    /* The kind is part of the id. */
    gmv_node *buffer = toy_make(registry, GMV_KIND_BUFFER, 0);
    id = buffer->id;
    id.kind = GMV_KIND_VIEW;
    cr_assert_eq(toy_get(registry, &id, NULL), GMV_ERR_HANDLE_UNKNOWN);
    gmv_registry_destroy(registry);
}

Test(get, says_that_a_handle_is_deleted_before_it_looks_at_the_kind)
{
    gmv_registry *registry = toy_registry(0);
    gmv_node *buffer = toy_hold(registry, GMV_KIND_BUFFER, false, 0);
    gmv_node *found = NULL;
    gmv_id id = buffer->id;
    toy_delete(registry, &id, GMV_IF_HELD_KEEP);
    cr_assert_eq(gmv_registry_get(registry, &anyone, &id, GMV_KIND_VIEW, "/data", &found, NULL),
                 GMV_ERR_HANDLE_DELETED);
    toy_settle(registry, buffer);
    gmv_error err;
    gmv_error_init(&err);
    cr_assert_eq(gmv_registry_get(registry, &anyone, &id, GMV_KIND_VIEW, "/data", &found, &err),
                 GMV_ERR_HANDLE_DELETED);
    cr_assert_str_eq(err.pointer, "/data");
    cr_assert_not(err.subject_alive);
    gmv_registry_destroy(registry);
}

Test(get, does_not_find_what_is_only_prepared_or_was_discarded)
{
    gmv_registry *registry = toy_registry(0);
    gmv_node *node = toy_prepare(registry, GMV_KIND_VIEW, false, "x", NULL, 0, NULL);
    cr_assert_not_null(node);
    cr_assert_eq(toy_get(registry, &node->id, NULL), GMV_ERR_HANDLE_UNKNOWN);
    expect_alive(registry, GMV_KIND_VIEW, 0, 0);
    gmv_id id = node->id;
    gmv_node_discard(registry, node);
    gmv_free(node);
    cr_assert_eq(toy_get(registry, &id, NULL), GMV_ERR_HANDLE_UNKNOWN);
    gmv_registry_destroy(registry);
}

Test(principals, do_not_see_each_others_handles)
{
    gmv_registry *registry = toy_registry(0);
    gmv_node *kept = toy_make(registry, GMV_KIND_BUFFER, 0);
    gmv_node *gone = toy_make(registry, GMV_KIND_BUFFER, 0);
    gmv_node *unnamed = toy_make(registry, GMV_KIND_BUFFER, 0);
    toy_make(registry, GMV_KIND_VIEW, 1, unnamed);
    gmv_id ids[] = {kept->id, gone->id, unnamed->id};
    toy_delete(registry, &ids[1], GMV_IF_HELD_KEEP);
    toy_delete(registry, &ids[2], GMV_IF_HELD_KEEP);
    const gmv_caller stranger = {.principal = 1};
    const gmv_caller administrator = {.principal = 1, .sees_all = true};
    const gmv_status seen[] = {GMV_OK, GMV_ERR_HANDLE_DELETED, GMV_ERR_HANDLE_DELETED};
    gmv_node *found = NULL;
    gmv_handle_info info;
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(
            gmv_registry_get(registry, &stranger, &ids[i], GMV_KIND_ANY, NULL, &found, NULL),
            GMV_ERR_HANDLE_UNKNOWN);
        cr_assert_eq(gmv_registry_describe(registry, &stranger, &ids[i], &info, NULL),
                     GMV_ERR_HANDLE_UNKNOWN);
        cr_assert_eq(
            gmv_registry_get(registry, &administrator, &ids[i], GMV_KIND_ANY, NULL, &found, NULL),
            seen[i]);
    }
    gmv_registry_release(registry, found, true);
    gmv_registry_destroy(registry);
}

/* ---- describing
 * ---------------------------------------------------------------------------------- */

Test(describe, tells_all_about_a_handle)
{
    gmv_registry *registry = toy_registry(0);
    gmv_node *left = toy_make(registry, GMV_KIND_BUFFER, 0);
    gmv_node *right = toy_make(registry, GMV_KIND_BUFFER, 0);
    gmv_node *owners[] = {NULL, right, left, right, NULL, left};
    gmv_error err;
    gmv_error_init(&err);
    int64_t before = gmv_clock_wall_ms();
    gmv_node *view = toy_prepare(registry, GMV_KIND_VIEW, false, "caf\xc3\xa9", owners, 6, &err);
    cr_assert_not_null(view);
    ((toy *)(void *)view)->nbytes = 12;
    gmv_registry_publish(registry, &view, 1);
    gmv_node *slice = toy_make(registry, GMV_KIND_VIEW, 1, view);
    gmv_handle_info info;
    cr_assert_eq(gmv_registry_describe(registry, &anyone, &view->id, &info, &err), GMV_OK);
    cr_assert(gmv_id_equal(&info.id, &view->id));
    cr_assert(info.named && info.alive && !info.deleted && info.has_label);
    cr_assert_str_eq(info.label, "caf\xc3\xa9");
    cr_assert_eq(info.reason, GMV_REASON_NONE);
    cr_assert_eq(info.nbytes, 12);
    cr_assert_eq(info.device, 3);
    cr_assert_eq(info.in_flight, 1);
    cr_assert_eq(info.expires_at_ms, 0);
    cr_assert_eq(info.session.kind, GMV_KIND_ANY);
    cr_assert(info.created_at_ms >= before && info.created_at_ms <= gmv_clock_wall_ms());
    cr_assert_eq(info.owners_count, 2);
    cr_assert_eq(info.n_owners, 2);
    cr_assert(gmv_id_equal(&info.owners[0], &right->id));
    cr_assert(gmv_id_equal(&info.owners[1], &left->id));
    cr_assert_eq(info.dependents_count, 1);
    cr_assert(gmv_id_equal(&info.dependents[0], &slice->id));
    gmv_id ids[2];
    cr_assert_eq(gmv_registry_owners(registry, view, ids, 1), 2);
    cr_assert(gmv_id_equal(&ids[0], &right->id));
    toy_settle(registry, view);
    gmv_registry_destroy(registry);
}

Test(describe, answers_for_a_deleted_handle_while_it_lives)
{
    gmv_registry *registry = toy_registry(0);
    gmv_node *buffer = toy_make(registry, GMV_KIND_BUFFER, 0);
    gmv_node *view = toy_make(registry, GMV_KIND_VIEW, 1, buffer);
    gmv_id id = buffer->id;
    toy_delete(registry, &id, GMV_IF_HELD_KEEP);
    gmv_handle_info info;
    cr_assert_eq(gmv_registry_describe(registry, &anyone, &id, &info, NULL), GMV_OK);
    cr_assert(info.deleted && info.alive && !info.named && !info.has_label);
    cr_assert_eq(info.reason, GMV_REASON_DELETED);
    cr_assert_str_eq(gmv_reason_name(info.reason), "deleted");
    toy_delete(registry, &view->id, GMV_IF_HELD_KEEP);
    cr_assert_eq(gmv_registry_describe(registry, &anyone, &id, &info, NULL),
                 GMV_ERR_HANDLE_DELETED);
    id.high ^= 1;
    cr_assert_eq(gmv_registry_describe(registry, &anyone, &id, &info, NULL),
                 GMV_ERR_HANDLE_UNKNOWN);
    gmv_registry_destroy(registry);
}

Test(reasons, have_their_names)
{
    cr_assert_null(gmv_reason_name(GMV_REASON_NONE));
    cr_assert_str_eq(gmv_reason_name(GMV_REASON_CASCADE), "cascade");
    cr_assert_str_eq(gmv_reason_name(GMV_REASON_LEASE_EXPIRED), "lease_expired");
    cr_assert_str_eq(gmv_reason_name(GMV_REASON_SESSION_ENDED), "session_ended");
}

/* ---- preparing
 * ----------------------------------------------------------------------------------- */

Test(prepare, keeps_many_owners_in_order_and_each_once)
{
    enum { N = 700 };
    gmv_registry *registry = toy_registry(0);
    gmv_node *owners[2 * N];
    for (int i = 0; i < N; i++)
        owners[i] = owners[2 * N - 1 - i] = toy_make(registry, GMV_KIND_COLUMN, 0);
    gmv_node *table =
        toy_prepare(registry, GMV_KIND_TABLE, false, NULL, owners, (size_t)2 * N, NULL);
    cr_assert_not_null(table);
    gmv_registry_publish(registry, &table, 1);
    gmv_id ids[N];
    cr_assert_eq(gmv_registry_owners(registry, table, ids, N), N);
    for (int i = 0; i < N; i++)
        cr_assert(gmv_id_equal(&ids[i], &owners[i]->id));
    toy_settle(registry, table);
    gmv_id table_id = table->id;
    gmv_deletion deletion = toy_delete(registry, &ids[3], GMV_IF_HELD_KEEP);
    cr_assert_eq(deletion.kept_alive_by_count, 1);
    cr_assert(gmv_id_equal(&deletion.kept_alive_by[0], &table_id));
    cr_assert_eq(toy_delete(registry, &table_id, GMV_IF_HELD_KEEP).freed_count, 2);
    gmv_registry_destroy(registry);
}

Test(prepare, refuses_labels_that_no_answer_could_hold)
{
    gmv_registry *registry = toy_registry(0);
    char label[GMV_LABEL_CHARACTERS_MAX * 4 + 2];
    memset(label, 'a', sizeof label - 1);
    label[sizeof label - 1] = '\0';
    gmv_error err;
    gmv_error_init(&err);
    cr_assert_null(toy_prepare(registry, GMV_KIND_VIEW, false, label, NULL, 0, &err));
    cr_assert_eq(err.status, GMV_ERR_VALUE);
    cr_assert_str_eq(err.pointer, "/label");
    label[sizeof label - 2] = '\0';
    gmv_node *node = toy_prepare(registry, GMV_KIND_VIEW, false, label, NULL, 0, &err);
    cr_assert_not_null(node);
    gmv_registry_publish(registry, &node, 1);
    gmv_handle_info info;
    cr_assert_eq(gmv_registry_describe(registry, &anyone, &node->id, &info, &err), GMV_OK);
    cr_assert_str_eq(info.label, label);
    toy_settle(registry, node);
    gmv_registry_destroy(registry);
}

Test(quota, counts_named_inner_prepared_and_unnamed_handles)
{
    gmv_registry *registry = toy_registry(4);
    gmv_node *buffer = toy_make(registry, GMV_KIND_BUFFER, 0);
    gmv_node *inner = toy_hold(registry, GMV_KIND_VIEW, true, 1, buffer);
    gmv_node *view = toy_make(registry, GMV_KIND_VIEW, 1, inner);
    toy_settle(registry, inner);
    toy_delete(registry, &buffer->id, GMV_IF_HELD_KEEP);
    gmv_node *prepared = toy_prepare(registry, GMV_KIND_BUFFER, false, NULL, NULL, 0, NULL);
    cr_assert_not_null(prepared);
    gmv_error err;
    gmv_error_init(&err);
    cr_assert_null(toy_prepare(registry, GMV_KIND_BUFFER, false, NULL, NULL, 0, &err));
    cr_assert_eq(err.status, GMV_ERR_QUOTA_EXCEEDED);
    cr_assert_not_null(strstr(err.message, "max_handles (4)"));
    gmv_node_discard(registry, prepared);
    gmv_free(prepared);
    cr_assert_eq(toy_delete(registry, &view->id, GMV_IF_HELD_KEEP).freed_count, 3);
    for (int i = 0; i < 4; i++)
        toy_make(registry, GMV_KIND_BUFFER, 0);
    cr_assert_null(toy_prepare(registry, GMV_KIND_BUFFER, false, NULL, NULL, 0, NULL));
    gmv_registry_destroy(registry);
}

Test(publish, shows_a_large_set_with_all_its_edges)
{
    enum { N = 2000 };
    gmv_registry *registry = toy_registry(0);
    static gmv_node *nodes[N + 1];
    for (int i = 0; i < N; i++) {
        nodes[i] = toy_prepare(registry, GMV_KIND_COLUMN, true, NULL, nodes, i > 0, NULL);
        cr_assert_not_null(nodes[i]);
    }
    nodes[N] = toy_prepare(registry, GMV_KIND_TABLE, false, NULL, nodes, N, NULL);
    cr_assert_not_null(nodes[N]);
    gmv_registry_publish(registry, nodes, N + 1);
    gmv_handle_info info;
    cr_assert_eq(gmv_registry_describe(registry, &anyone, &nodes[0]->id, &info, NULL), GMV_OK);
    cr_assert_eq(info.dependents_count, N);
    cr_assert_eq(info.n_dependents, GMV_ERROR_IDS_MAX);
    cr_assert_eq(gmv_registry_describe(registry, &anyone, &nodes[N]->id, &info, NULL), GMV_OK);
    cr_assert_eq(info.owners_count, N);
    gmv_id id = nodes[N]->id;
    for (int i = 0; i <= N; i++)
        gmv_registry_release(registry, nodes[i], false);
    cr_assert_eq(gmv_registry_reap(registry), 0);
    expect_alive(registry, GMV_KIND_COLUMN, 0, N);
    cr_assert_eq(toy_delete(registry, &id, GMV_IF_HELD_KEEP).freed_count, N + 1);
    expect_alive(registry, GMV_KIND_COLUMN, 0, 0);
    gmv_registry_destroy(registry);
}

/* ---- memory runs out
 * ----------------------------------------------------------------------------- */

/* Makes a buffer and two nodes over it; false (and nothing kept) when memory ran out. */
static bool make_three(gmv_registry *registry)
{
    gmv_node *nodes[12] = {0};
    size_t n = 0;
    for (; n < 12; n++) {
        nodes[n] = toy_prepare(registry, n ? GMV_KIND_VIEW : GMV_KIND_BUFFER, false, "label", nodes,
                               n, NULL);
        if (!nodes[n])
            break;
    }
    if (n == 12) {
        gmv_registry_publish(registry, nodes, n);
        for (size_t i = 0; i < n; i++)
            gmv_registry_release(registry, nodes[i], true);
        return true;
    }
    while (n > 0) {
        gmv_node_discard(registry, nodes[--n]);
        gmv_free(nodes[n]);
    }
    return false;
}

Test(chaos, whichever_allocation_fails_nothing_is_kept)
{
    gmv_registry *registry = toy_registry(12);
    gmv_alloc_watch(1);
    int64_t before = gmv_alloc_live();
    uint64_t n = 1;
    for (bool done = false; !done; n++) {
        gmv_alloc_fail_once(n);
        bool made = make_three(registry);
        done = !gmv_alloc_has_failed();
        gmv_alloc_fail_once(0);
        cr_assert_lt(n, 1000);
        cr_assert(made || !done);
        if (made)
            break; /* a failed growth of the hash is no failure */
        expect_alive(registry, GMV_KIND_BUFFER, 0, 0);
        expect_alive(registry, GMV_KIND_VIEW, 0, 0);
        /* What is kept in reserve is one chunk of places and the directory. */
        cr_assert_leq(gmv_alloc_live() - before, 3);
    }
    cr_assert_gt(n, 36, "only %d allocations were made to fail", (int)n);
    expect_alive(registry, GMV_KIND_VIEW, 11, 11);
    gmv_alloc_watch(0);
    gmv_registry_destroy(registry);
}

Test(chaos, an_empty_machine_makes_no_registry)
{
    gmv_registry *registry = NULL;
    for (uint64_t n = 1;; n++) {
        gmv_alloc_watch(1);
        gmv_alloc_fail_once(n);
        gmv_status status = gmv_registry_create(NULL, &registry, NULL);
        gmv_alloc_fail_once(0);
        if (status == GMV_OK)
            break;
        cr_assert_eq(status, GMV_ERR_OVERLOADED);
        cr_assert_eq(gmv_alloc_live(), 0);
        cr_assert_lt(n, 100);
    }
    gmv_registry_destroy(registry);
    cr_assert_eq(gmv_alloc_live(), 0);
    gmv_registry_destroy(NULL);
}

Test(chaos, growing_to_thousands_survives_failures_along_the_way)
{
    gmv_registry *registry = toy_registry(0);
    size_t made = 0;
    for (int i = 0; i < 30000; i++) {
        if (i % 7 == 0)
            gmv_alloc_fail_once((uint64_t)(i / 7 % 5) + 1);
        gmv_node *node = toy_prepare(registry, GMV_KIND_VIEW, false, "x", NULL, 0, NULL);
        gmv_alloc_fail_once(0);
        if (!node)
            continue;
        gmv_registry_publish(registry, &node, 1);
        toy_settle(registry, node);
        made++;
    }
    cr_assert_lt(made, 30000);
    cr_assert_gt(made, 20000);
    expect_alive(registry, GMV_KIND_VIEW, made, made);
    gmv_registry_destroy(registry);
    cr_assert_eq(atomic_load(&toys_destroyed), (long)made);
}

Test(registry, leaves_no_memory_behind)
{
    gmv_alloc_watch(1);
    gmv_registry *registry = toy_registry(0);
    gmv_node *node = toy_make(registry, GMV_KIND_BUFFER, 0);
    for (int i = 0; i < 40000; i++) {
        gmv_node *next = toy_make(registry, GMV_KIND_VIEW, 1, node);
        if (i % 3)
            toy_delete(registry, &next->id, GMV_IF_HELD_KEEP);
        else
            node = next;
    }
    gmv_node *dead = toy_hold(registry, GMV_KIND_VIEW, false, 0);
    toy_delete(registry, &dead->id, GMV_IF_HELD_KEEP);
    gmv_registry_release(registry, dead, false);
    gmv_registry_destroy(registry);
    cr_assert_eq(atomic_load(&toys_destroyed), 40002);
    cr_assert_eq(gmv_alloc_live(), 0);
}

/* ---- observers
 * ----------------------------------------------------------------------------------- */

typedef struct heard {
    char text[64];
    size_t n;
    gmv_registry *registry; /* to show that no lock is held */
    bool delete_on_creation;
} heard;

static void hear(void *context, gmv_event event, const gmv_node *node)
{
    static const char letters[] = {'c', 'd', 'f'};
    heard *to = context;
    if (to->n < sizeof to->text - 1)
        to->text[to->n++] = letters[event];
    gmv_registry_counts counts;
    gmv_registry_count(to->registry, &counts);
    if (event == GMV_EVENT_CREATED && to->delete_on_creation)
        toy_delete(to->registry, &node->id, GMV_IF_HELD_KEEP);
}

static gmv_registry *heard_registry(heard *to)
{
    gmv_registry_options options = {.observe = hear, .observe_context = to};
    cr_assert_eq(gmv_registry_create(&options, &to->registry, NULL), GMV_OK);
    return to->registry;
}

Test(observer, hears_of_creation_deletion_and_freeing)
{
    heard to = {0};
    gmv_registry *registry = heard_registry(&to);
    gmv_node *buffer = toy_make(registry, GMV_KIND_BUFFER, 0);
    cr_assert_str_eq(to.text, "c");
    gmv_node *inner = toy_hold(registry, GMV_KIND_VIEW, true, 1, buffer);
    gmv_node *view = toy_make(registry, GMV_KIND_VIEW, 1, inner);
    toy_settle(registry, inner);
    cr_assert_str_eq(to.text, "ccc");
    gmv_id buffer_id = buffer->id;
    toy_delete(registry, &view->id, GMV_IF_HELD_KEEP);
    cr_assert_str_eq(to.text, "cccdff");
    toy_make(registry, GMV_KIND_VIEW, 1, buffer);
    toy_delete(registry, &buffer_id, GMV_IF_HELD_CASCADE);
    cr_assert_str_eq(to.text, "cccdffcddff");
    gmv_registry_destroy(registry);
}

Test(observer, hears_of_creation_first_even_if_deleted_at_once)
{
    heard to = {.delete_on_creation = true};
    gmv_registry *registry = heard_registry(&to);
    toy_make(registry, GMV_KIND_BUFFER, 0);
    cr_assert_str_eq(to.text, "cdf");
    gmv_registry_destroy(registry);
}

Test(observer, hears_that_what_was_made_on_a_cascaded_node_is_deleted)
{
    heard to = {0};
    gmv_registry *registry = heard_registry(&to);
    gmv_node *buffer = toy_hold(registry, GMV_KIND_BUFFER, false, 0);
    gmv_node *view = toy_prepare(registry, GMV_KIND_VIEW, false, NULL, &buffer, 1, NULL);
    cr_assert_not_null(view);
    toy_delete(registry, &buffer->id, GMV_IF_HELD_CASCADE);
    cr_assert_str_eq(to.text, "cd");
    gmv_registry_publish(registry, &view, 1);
    cr_assert_str_eq(to.text, "cdcd");
    toy_settle(registry, buffer);
    toy_settle(registry, view);
    cr_assert_str_eq(to.text, "cdcdff");
    gmv_registry_destroy(registry);
}

/* ---- by address
 * ---------------------------------------------------------------------------------- */

static gmv_node *make_ranged(gmv_registry *registry, bool inner, uint64_t ptr, uint64_t exporter,
                             uint64_t nbytes)
{
    gmv_node *node = toy_prepare(registry, GMV_KIND_BUFFER, inner, NULL, NULL, 0, NULL);
    cr_assert_not_null(node);
    toy *object = (toy *)(void *)node;
    object->ranges[0] = (gmv_range_entry){.begin = ptr, .end = ptr + nbytes};
    object->ranges[1] = (gmv_range_entry){.begin = exporter, .end = exporter + nbytes};
    gmv_node_set_ranges(node, object->ranges, exporter ? 2 : 1);
    gmv_registry_publish(registry, &node, 1);
    return node;
}

static size_t find(gmv_registry *registry, uint64_t address, bool include_end,
                   gmv_address_hit hits[2])
{
    size_t n = gmv_registry_find_address(registry, &anyone, address, include_end, hits);
    for (size_t i = 0; i < n; i++)
        gmv_registry_release(registry, hits[i].node, true);
    return n;
}

Test(address, is_found_in_gmvds_space_and_in_the_exporters)
{
    gmv_registry *registry = toy_registry(0);
    gmv_node *node = toy_settle(registry, make_ranged(registry, false, 1000, 8000, 100));
    gmv_address_hit hits[2];
    cr_assert_eq(find(registry, 1000, false, hits), 1);
    cr_assert_eq(hits[0].node, node);
    cr_assert_eq(hits[0].range, 0);
    cr_assert_eq(find(registry, 8099, false, hits), 1);
    cr_assert_eq(hits[0].range, 1);
    cr_assert_eq(find(registry, 8100, false, hits), 0);
    cr_assert_eq(find(registry, 8100, true, hits), 1);
    cr_assert_eq(find(registry, 8101, true, hits), 0);
    cr_assert_eq(find(registry, 999, true, hits), 0);
    const gmv_caller stranger = {.principal = 2};
    cr_assert_eq(gmv_registry_find_address(registry, &stranger, 1000, false, hits), 0);
    gmv_registry_destroy(registry);
}

Test(address, in_both_spaces_of_one_buffer_is_one_hit_in_gmvds)
{
    gmv_registry *registry = toy_registry(0);
    for (uint64_t exporter = 950; exporter <= 1050; exporter += 100) {
        gmv_node *node = make_ranged(registry, false, 1000, exporter, 100);
        gmv_address_hit hits[2];
        cr_assert_eq(find(registry, 1049, true, hits), 1);
        cr_assert_eq(find(registry, 1050, true, hits), 1);
        cr_assert_eq(hits[0].range, 0);
        toy_delete(registry, &node->id, GMV_IF_HELD_KEEP);
        toy_settle(registry, node);
    }
    gmv_registry_destroy(registry);
}

Test(address, in_two_buffers_is_ambiguous_until_one_is_deleted)
{
    gmv_registry *registry = toy_registry(0);
    gmv_node *first = make_ranged(registry, false, 1000, 0, 100);
    gmv_node *second = make_ranged(registry, true, 1050, 0, 100);
    gmv_address_hit hits[2];
    cr_assert_eq(find(registry, 1060, false, hits), 2);
    cr_assert_neq(hits[0].node, hits[1].node);
    cr_assert_eq(find(registry, 1100, false, hits), 1);
    cr_assert_eq(find(registry, 1100, true, hits), 2);
    toy_delete(registry, &first->id, GMV_IF_HELD_KEEP);
    cr_assert_eq(find(registry, 1060, false, hits), 1);
    cr_assert_eq(hits[0].node, second);
    cr_assert_eq(find(registry, 1010, false, hits), 0, "a deleted buffer is not found");
    toy_settle(registry, first);
    toy_settle(registry, second);
    cr_assert_eq(find(registry, 1060, false, hits), 0);
    gmv_registry_destroy(registry);
}

Test(address, is_not_found_in_an_inner_buffer_that_a_cascade_reached)
{
    gmv_registry *registry = toy_registry(0);
    gmv_node *root = toy_make(registry, GMV_KIND_PACKED, 0);
    gmv_node *node = toy_prepare(registry, GMV_KIND_BUFFER, true, NULL, &root, 1, NULL);
    cr_assert_not_null(node);
    toy *object = (toy *)(void *)node;
    object->ranges[0] = (gmv_range_entry){.begin = 10, .end = 20};
    gmv_node_set_ranges(node, object->ranges, 1);
    gmv_registry_publish(registry, &node, 1);
    gmv_address_hit hits[2];
    cr_assert_eq(find(registry, 15, false, hits), 1);
    toy_delete(registry, &root->id, GMV_IF_HELD_CASCADE);
    cr_assert_eq(find(registry, 15, false, hits), 0);
    toy_settle(registry, node);
    gmv_registry_destroy(registry);
}
