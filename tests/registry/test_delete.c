/* SPDX-License-Identifier: Apache-2.0 */
/* What deleting does: names, lives, orders of freeing, refusing, cascades, inner nodes, disowning.
 */
#include <criterion/criterion.h>

#include "registry/toy.h"

static void expect_ids(const gmv_id *found, size_t n_found, const gmv_id *wanted, size_t n_wanted)
{
    cr_assert_eq(n_found, n_wanted, "%zu ids, not %zu", n_found, n_wanted);
    for (size_t i = 0; i < n_found; i++)
        cr_assert(gmv_id_equal(&found[i], &wanted[i]), "id %zu differs", i);
}

static void expect_deleted(gmv_registry *registry, const gmv_id *id, bool alive, const char *reason)
{
    gmv_error err;
    gmv_error_init(&err);
    cr_assert_eq(toy_get(registry, id, &err), GMV_ERR_HANDLE_DELETED);
    cr_assert(err.has_subject);
    cr_assert(gmv_id_equal(&err.subject, id));
    cr_assert_eq(err.subject_alive, alive);
    cr_assert_str_eq(err.subject_reason, reason);
}

static void expect_empty(gmv_registry *registry)
{
    gmv_registry_counts counts;
    gmv_registry_count(registry, &counts);
    for (int kind = 0; kind < GMV_KIND_COUNT; kind++) {
        cr_assert_eq(counts.named[kind], 0);
        cr_assert_eq(counts.alive[kind], 0);
    }
}

Test(delete, frees_a_lone_buffer_and_its_bytes)
{
    gmv_registry *registry = toy_registry(0);
    gmv_node *buffer = toy_hold(registry, GMV_KIND_BUFFER, false, 0);
    ((toy *)(void *)buffer)->nbytes = 4096;
    gmv_id id = buffer->id;
    toy_settle(registry, buffer);
    gmv_deletion deletion = toy_delete(registry, &id, GMV_IF_HELD_KEEP);
    cr_assert(gmv_id_equal(&deletion.id, &id));
    cr_assert_not(deletion.alive);
    cr_assert_eq(deletion.deleted, 1);
    cr_assert_eq(deletion.freed_count, 1);
    cr_assert_eq(deletion.freed_nbytes, 4096);
    expect_ids(deletion.freed, deletion.n_freed, &id, 1);
    cr_assert_eq(deletion.n_kept_alive_by, 0);
    cr_assert_eq(atomic_load(&toys_destroyed), 1);
    expect_deleted(registry, &id, false, "deleted");
    expect_empty(registry);
    gmv_registry_destroy(registry);
}

Test(delete, counts_bytes_of_buffers_only)
{
    gmv_registry *registry = toy_registry(0);
    gmv_node *view = toy_hold(registry, GMV_KIND_VIEW, false, 0);
    ((toy *)(void *)view)->nbytes = 100;
    toy_settle(registry, view);
    cr_assert_eq(toy_delete(registry, &view->id, GMV_IF_HELD_KEEP).freed_nbytes, 0);
    gmv_registry_destroy(registry);
}

static uint64_t toy_freed_nbytes(gmv_node *node)
{
    toy *object = (toy *)(void *)node;
    return object->nbytes - object->shared_nbytes;
}

Test(delete, asks_the_class_what_memory_goes_back)
{
    static const gmv_node_class shared_class = {.kind = GMV_KIND_BUFFER,
                                                .destroy = toy_destroy,
                                                .nbytes = toy_nbytes,
                                                .device = toy_device,
                                                .freed_nbytes = toy_freed_nbytes};
    gmv_registry *registry = toy_registry(0);
    toy *object = gmv_calloc(1, sizeof *object);
    cr_assert_not_null(object);
    object->nbytes = 1000;
    object->shared_nbytes = 900;
    gmv_node_attributes attributes = {.caller = &anyone};
    cr_assert_eq(
        gmv_node_prepare(registry, &object->node, &shared_class, &attributes, NULL, 0, NULL),
        GMV_OK);
    gmv_node *node = &object->node;
    gmv_registry_publish(registry, &node, 1);
    toy_settle(registry, node);
    cr_assert_eq(toy_delete(registry, &node->id, GMV_IF_HELD_KEEP).freed_nbytes, 100);
    gmv_registry_destroy(registry);
}

/* buf_b <- view_v <- view_w; col_c over view_v and view_m; tbl_t over col_c. */
Test(delete, frees_in_the_order_of_the_worked_example)
{
    gmv_registry *registry = toy_registry(0);
    gmv_node *b = toy_hold(registry, GMV_KIND_BUFFER, false, 0);
    ((toy *)(void *)b)->nbytes = 40;
    toy_settle(registry, b);
    gmv_node *v = toy_make(registry, GMV_KIND_VIEW, 1, b);
    gmv_node *w = toy_make(registry, GMV_KIND_VIEW, 1, v);
    gmv_node *mask_buffer = toy_hold(registry, GMV_KIND_BUFFER, true, 0);
    ((toy *)(void *)mask_buffer)->nbytes = 64;
    gmv_node *m = toy_make(registry, GMV_KIND_VIEW, 1, mask_buffer);
    toy_settle(registry, mask_buffer);
    gmv_node *c = toy_make(registry, GMV_KIND_COLUMN, 2, v, m);
    gmv_node *t = toy_make(registry, GMV_KIND_TABLE, 1, c);
    const gmv_id ids[] = {w->id, t->id, c->id, v->id, b->id};
    const gmv_id m_id = m->id, mask_buffer_id = mask_buffer->id;

    gmv_deletion first = toy_delete(registry, &ids[3], GMV_IF_HELD_KEEP);
    const gmv_id kept[] = {ids[0], ids[2]};
    cr_assert(first.alive);
    cr_assert_eq(first.deleted, 1);
    cr_assert_eq(first.freed_count, 0);
    cr_assert_eq(first.kept_alive_by_count, 2);
    cr_assert_eq(first.in_flight, 0);
    expect_ids(first.kept_alive_by, first.n_kept_alive_by, kept, 2);
    expect_deleted(registry, &ids[3], true, "deleted");

    gmv_deletion second = toy_delete(registry, &ids[4], GMV_IF_HELD_CASCADE);
    cr_assert_not(second.alive);
    cr_assert_eq(second.deleted, 4);
    cr_assert_eq(second.freed_count, 5);
    cr_assert_eq(second.freed_nbytes, 40);
    cr_assert_eq(second.kept_alive_by_count, 0);
    expect_ids(second.freed, second.n_freed, ids, 5);
    expect_deleted(registry, &ids[0], false, "cascade");
    expect_deleted(registry, &ids[1], false, "cascade");
    expect_deleted(registry, &ids[2], false, "cascade");
    expect_deleted(registry, &ids[3], false, "deleted");
    expect_deleted(registry, &ids[4], false, "deleted");

    cr_assert_eq(toy_get(registry, &mask_buffer_id, NULL), GMV_OK);
    gmv_deletion third = toy_delete(registry, &m_id, GMV_IF_HELD_KEEP);
    const gmv_id rest[] = {m_id, mask_buffer_id};
    expect_ids(third.freed, third.n_freed, rest, 2);
    cr_assert_eq(third.deleted, 1);
    cr_assert_eq(third.freed_nbytes, 64);
    expect_deleted(registry, &mask_buffer_id, false, "deleted");
    expect_empty(registry);
    gmv_registry_destroy(registry);
}

/* ---- all orders of deleting
 * ---------------------------------------------------------------------- */

/* A naive model of four handles; parent -1: none. */
typedef struct model {
    int parent[4];
    bool named[4];
    bool alive[4];
} model;

static bool model_has_dependents(const model *m, int node)
{
    for (int i = 0; i < 4; i++)
        if (m->alive[i] && m->parent[i] == node)
            return true;
    return false;
}

/* What dies once `node` has no name: itself and its ancestors as far as nothing holds them. */
static size_t model_delete(model *m, int node, int freed[4])
{
    size_t n = 0;
    m->named[node] = false;
    while (node >= 0 && m->alive[node] && !m->named[node] && !model_has_dependents(m, node)) {
        m->alive[node] = false;
        freed[n++] = node;
        node = m->parent[node];
    }
    return n;
}

static void expect_as_model(gmv_registry *registry, model *m, const gmv_id ids[4], int node)
{
    gmv_deletion deletion = toy_delete(registry, &ids[node], GMV_IF_HELD_KEEP);
    int freed[4];
    gmv_id wanted[4];
    size_t n = model_delete(m, node, freed);
    for (size_t i = 0; i < n; i++)
        wanted[i] = ids[freed[i]];
    expect_ids(deletion.freed, deletion.n_freed, wanted, n);
    cr_assert_eq(deletion.freed_count, n);
    cr_assert_eq(deletion.alive, m->alive[node]);
    cr_assert_eq(deletion.in_flight, 0);
    n = 0;
    for (int i = 0; i < 4; i++)
        if (m->alive[i] && m->parent[i] == node)
            wanted[n++] = ids[i];
    expect_ids(deletion.kept_alive_by, deletion.n_kept_alive_by, wanted, n);
    cr_assert_eq(deletion.kept_alive_by_count, n);
    for (int i = 0; i < 4; i++) {
        if (m->named[i])
            cr_assert_eq(toy_get(registry, &ids[i], NULL), GMV_OK);
        else
            expect_deleted(registry, &ids[i], m->alive[i], "deleted");
    }
}

static void delete_in_order(const int parent[4], const int order[4])
{
    gmv_registry *registry = toy_registry(0);
    model m = {0};
    gmv_node *nodes[4];
    gmv_id ids[4];
    for (int i = 0; i < 4; i++) {
        m.parent[i] = parent[i];
        m.named[i] = m.alive[i] = true;
        nodes[i] = parent[i] < 0 ? toy_make(registry, GMV_KIND_BUFFER, 0)
                                 : toy_make(registry, GMV_KIND_VIEW, 1, nodes[parent[i]]);
        ids[i] = nodes[i]->id;
    }
    for (int i = 0; i < 4; i++)
        expect_as_model(registry, &m, ids, order[i]);
    expect_empty(registry);
    gmv_registry_destroy(registry);
}

static void delete_in_all_orders(const int parent[4])
{
    int n_orders = 0;
    for (int code = 0; code < 256; code++) {
        const int order[4] = {code & 3, code >> 2 & 3, code >> 4 & 3, code >> 6 & 3};
        unsigned seen = 0;
        for (int i = 0; i < 4; i++)
            seen |= 1u << order[i];
        if (seen == 15u) {
            delete_in_order(parent, order);
            n_orders++;
        }
    }
    cr_assert_eq(n_orders, 24);
}

Test(delete, goes_in_any_order_over_two_slices_of_a_view)
{
    static const int parent[4] = {-1, 0, 1, 1};
    delete_in_all_orders(parent);
}

Test(delete, goes_in_any_order_over_a_slice_of_a_slice)
{
    static const int parent[4] = {-1, 0, 1, 2};
    delete_in_all_orders(parent);
}

/* ---- work in flight
 * ------------------------------------------------------------------------------ */

Test(delete, leaves_the_object_to_the_work_in_flight)
{
    gmv_registry *registry = toy_registry(0);
    gmv_node *node = toy_hold(registry, GMV_KIND_BUFFER, false, 0);
    gmv_registry_hold(registry, node);
    gmv_id id = node->id;
    gmv_deletion deletion = toy_delete(registry, &id, GMV_IF_HELD_REFUSE);
    cr_assert(deletion.alive);
    cr_assert_eq(deletion.in_flight, 2);
    cr_assert_eq(deletion.kept_alive_by_count, 0);
    gmv_registry_release(registry, node, true);
    expect_deleted(registry, &id, true, "deleted");
    cr_assert_eq(atomic_load(&toys_destroyed), 0);
    gmv_registry_release(registry, node, true);
    cr_assert_eq(atomic_load(&toys_destroyed), 1);
    expect_deleted(registry, &id, false, "deleted");
    gmv_registry_destroy(registry);
}

static void count_notification(void *context)
{
    ++*(int *)context;
}

Test(release, on_a_thread_that_may_not_block_leaves_the_dead_to_the_reaper)
{
    gmv_registry *registry = toy_registry(0);
    int notified = 0;
    gmv_registry_on_reapable(registry, count_notification, &notified);
    gmv_node *buffer = toy_hold(registry, GMV_KIND_BUFFER, false, 0);
    gmv_node *view = toy_hold(registry, GMV_KIND_VIEW, false, 1, buffer);
    gmv_id ids[] = {view->id, buffer->id};
    toy_delete(registry, &ids[0], GMV_IF_HELD_KEEP);
    toy_delete(registry, &ids[1], GMV_IF_HELD_KEEP);
    gmv_registry_release(registry, buffer, false);
    cr_assert_eq(notified, 0);
    gmv_registry_release(registry, view, false);
    cr_assert_eq(notified, 1);
    cr_assert_eq(atomic_load(&toys_destroyed), 0);
    expect_deleted(registry, &ids[0], false, "deleted");
    expect_deleted(registry, &ids[1], true, "deleted");
    cr_assert_eq(gmv_registry_reap(registry), 2);
    cr_assert_eq(gmv_registry_reap(registry), 0);
    cr_assert_eq(atomic_load(&toys_destroyed), 2);
    expect_deleted(registry, &ids[1], false, "deleted");
    expect_empty(registry);
    gmv_registry_destroy(registry);
}

Test(release, of_nothing_does_nothing)
{
    gmv_registry *registry = toy_registry(0);
    gmv_registry_release(registry, NULL, true);
    gmv_registry_release(registry, NULL, false);
    cr_assert_eq(gmv_registry_reap(registry), 0);
    gmv_registry_destroy(registry);
}

Test(delete, does_not_take_the_dead_for_dependents)
{
    gmv_registry *registry = toy_registry(0);
    gmv_node *buffer = toy_make(registry, GMV_KIND_BUFFER, 0);
    gmv_node *view = toy_hold(registry, GMV_KIND_VIEW, false, 1, buffer);
    gmv_id id = buffer->id;
    toy_delete(registry, &view->id, GMV_IF_HELD_KEEP);
    gmv_registry_release(registry, view, false);
    gmv_handle_info info;
    cr_assert_eq(gmv_registry_describe(registry, &anyone, &id, &info, NULL), GMV_OK);
    cr_assert_eq(info.dependents_count, 0);
    cr_assert_eq(info.n_dependents, 0);
    gmv_deletion deletion = toy_delete(registry, &id, GMV_IF_HELD_REFUSE);
    cr_assert_not(deletion.alive);
    cr_assert_eq(deletion.freed_count, 1);
    gmv_registry_destroy(registry);
}

/* ---- long chains, many dependents
 * ---------------------------------------------------------------- */

static gmv_id make_chain(gmv_registry *registry, size_t n, gmv_id *out_last)
{
    gmv_node *node = toy_make(registry, GMV_KIND_BUFFER, 0);
    gmv_id first = node->id;
    for (size_t i = 1; i < n; i++) {
        gmv_node *slice = toy_make(registry, GMV_KIND_VIEW, 1, node);
        if (i > 1)
            toy_delete(registry, &node->id, GMV_IF_HELD_KEEP);
        node = slice;
    }
    *out_last = node->id;
    return first;
}

Test(delete, frees_a_chain_of_a_million_without_recursion)
{
    gmv_registry *registry = toy_registry(0);
    gmv_id last;
    gmv_id first = make_chain(registry, 1000000, &last);
    cr_assert_eq(toy_delete(registry, &first, GMV_IF_HELD_KEEP).freed_count, 0);
    gmv_deletion deletion = toy_delete(registry, &last, GMV_IF_HELD_KEEP);
    cr_assert_eq(deletion.freed_count, 1000000);
    cr_assert_eq(deletion.n_freed, GMV_ERROR_IDS_MAX);
    cr_assert(gmv_id_equal(&deletion.freed[0], &last));
    expect_empty(registry);
    gmv_registry_destroy(registry);
}

Test(cascade, runs_down_a_chain_of_unnamed_nodes)
{
    gmv_registry *registry = toy_registry(0);
    gmv_id last;
    gmv_id first = make_chain(registry, 5000, &last);
    gmv_deletion deletion = toy_delete(registry, &first, GMV_IF_HELD_CASCADE);
    cr_assert_not(deletion.alive);
    cr_assert_eq(deletion.deleted, 2);
    cr_assert_eq(deletion.freed_count, 5000);
    expect_deleted(registry, &last, false, "cascade");
    expect_empty(registry);
    gmv_registry_destroy(registry);
}

Test(cascade, takes_ten_thousand_views_of_one_buffer)
{
    gmv_registry *registry = toy_registry(0);
    gmv_node *buffer = toy_make(registry, GMV_KIND_BUFFER, 0);
    gmv_id id = buffer->id;
    for (int i = 0; i < 10000; i++)
        toy_make(registry, GMV_KIND_VIEW, 1, buffer);
    gmv_deletion kept = toy_delete(registry, &id, GMV_IF_HELD_KEEP);
    cr_assert_eq(kept.kept_alive_by_count, 10000);
    cr_assert_eq(kept.n_kept_alive_by, GMV_ERROR_IDS_MAX);
    gmv_registry_destroy(registry);
    cr_assert_eq(atomic_load(&toys_destroyed), 10001);

    registry = toy_registry(0);
    buffer = toy_make(registry, GMV_KIND_BUFFER, 0);
    id = buffer->id;
    for (int i = 0; i < 10000; i++)
        toy_make(registry, GMV_KIND_VIEW, 1, buffer);
    gmv_deletion deletion = toy_delete(registry, &id, GMV_IF_HELD_CASCADE);
    cr_assert_eq(deletion.deleted, 10001);
    cr_assert_eq(deletion.freed_count, 10001);
    expect_empty(registry);
    gmv_registry_destroy(registry);
}

/* ---- refusing
 * ------------------------------------------------------------------------------------ */

Test(refuse, names_the_dependents_and_changes_nothing)
{
    gmv_registry *registry = toy_registry(0);
    gmv_node *buffer = toy_make(registry, GMV_KIND_BUFFER, 0);
    gmv_node *first = toy_make(registry, GMV_KIND_VIEW, 1, buffer);
    gmv_node *second = toy_make(registry, GMV_KIND_VIEW, 1, buffer);
    const gmv_id ids[] = {first->id, second->id};
    gmv_deletion deletion;
    gmv_error err;
    gmv_error_init(&err);
    cr_assert_eq(gmv_registry_delete(registry, &anyone, &buffer->id, GMV_KIND_BUFFER,
                                     GMV_IF_HELD_REFUSE, &deletion, &err),
                 GMV_ERR_HELD_BY_DEPENDENTS);
    cr_assert_eq(err.dependents_count, 2);
    expect_ids(err.dependents, 2, ids, 2);
    cr_assert_eq(toy_get(registry, &buffer->id, NULL), GMV_OK);
    toy_delete(registry, &ids[0], GMV_IF_HELD_REFUSE);
    toy_delete(registry, &ids[1], GMV_IF_HELD_REFUSE);
    cr_assert_eq(toy_delete(registry, &buffer->id, GMV_IF_HELD_REFUSE).freed_count, 1);
    gmv_registry_destroy(registry);
}

Test(delete, refuses_what_a_look_up_refuses)
{
    gmv_registry *registry = toy_registry(0);
    gmv_node *buffer = toy_make(registry, GMV_KIND_BUFFER, 0);
    gmv_id id = buffer->id, other = id;
    other.low ^= 1;
    gmv_deletion deletion;
    cr_assert_eq(gmv_registry_delete(registry, &anyone, &other, GMV_KIND_ANY, GMV_IF_HELD_KEEP,
                                     &deletion, NULL),
                 GMV_ERR_HANDLE_UNKNOWN);
    cr_assert_eq(gmv_registry_delete(registry, &anyone, &id, GMV_KIND_VIEW, GMV_IF_HELD_KEEP,
                                     &deletion, NULL),
                 GMV_ERR_KIND_MISMATCH);
    const gmv_caller stranger = {.principal = 7};
    cr_assert_eq(gmv_registry_delete(registry, &stranger, &id, GMV_KIND_ANY, GMV_IF_HELD_KEEP,
                                     &deletion, NULL),
                 GMV_ERR_HANDLE_UNKNOWN);
    cr_assert_eq(toy_get(registry, &id, NULL), GMV_OK);
    toy_delete(registry, &id, GMV_IF_HELD_KEEP);
    cr_assert_eq(gmv_registry_delete(registry, &anyone, &id, GMV_KIND_ANY, GMV_IF_HELD_CASCADE,
                                     &deletion, NULL),
                 GMV_ERR_HANDLE_DELETED);
    gmv_registry_destroy(registry);
}

Test(delete, of_one_that_lives_on_without_a_name_is_refused)
{
    gmv_registry *registry = toy_registry(0);
    gmv_node *buffer = toy_make(registry, GMV_KIND_BUFFER, 0);
    toy_make(registry, GMV_KIND_VIEW, 1, buffer);
    toy_delete(registry, &buffer->id, GMV_IF_HELD_KEEP);
    gmv_deletion deletion;
    gmv_error err;
    gmv_error_init(&err);
    cr_assert_eq(gmv_registry_delete(registry, &anyone, &buffer->id, GMV_KIND_ANY,
                                     GMV_IF_HELD_CASCADE, &deletion, &err),
                 GMV_ERR_HANDLE_DELETED);
    cr_assert(err.subject_alive);
    gmv_registry_destroy(registry);
}

/* ---- cascades
 * ------------------------------------------------------------------------------------ */

Test(cascade, passes_a_diamond_once)
{
    gmv_registry *registry = toy_registry(0);
    gmv_node *buffer = toy_make(registry, GMV_KIND_BUFFER, 0);
    gmv_node *left = toy_make(registry, GMV_KIND_VIEW, 1, buffer);
    gmv_node *right = toy_make(registry, GMV_KIND_VIEW, 1, buffer);
    gmv_node *column = toy_make(registry, GMV_KIND_COLUMN, 2, left, right);
    const gmv_id ids[] = {column->id, left->id, right->id, buffer->id};
    gmv_deletion deletion = toy_delete(registry, &ids[3], GMV_IF_HELD_CASCADE);
    cr_assert_eq(deletion.deleted, 4);
    expect_ids(deletion.freed, deletion.n_freed, ids, 4);
    expect_empty(registry);
    gmv_registry_destroy(registry);
}

Test(cascade, frees_dependents_first_where_paths_differ_in_length)
{
    gmv_registry *registry = toy_registry(0);
    gmv_node *buffer = toy_make(registry, GMV_KIND_BUFFER, 0);
    gmv_node *view = toy_make(registry, GMV_KIND_VIEW, 1, buffer);
    gmv_node *column = toy_make(registry, GMV_KIND_COLUMN, 1, view);
    gmv_node *table = toy_make(registry, GMV_KIND_TABLE, 2, buffer, column);
    const gmv_id ids[] = {table->id, column->id, view->id, buffer->id};
    gmv_deletion deletion = toy_delete(registry, &ids[3], GMV_IF_HELD_CASCADE);
    expect_ids(deletion.freed, deletion.n_freed, ids, 4);
    gmv_registry_destroy(registry);
}

Test(cascade, spares_what_does_not_depend)
{
    gmv_registry *registry = toy_registry(0);
    gmv_node *buffer = toy_make(registry, GMV_KIND_BUFFER, 0);
    gmv_node *other = toy_make(registry, GMV_KIND_BUFFER, 0);
    gmv_node *column = toy_make(registry, GMV_KIND_COLUMN, 2, buffer, other);
    const gmv_id column_id = column->id;
    gmv_deletion deletion = toy_delete(registry, &buffer->id, GMV_IF_HELD_CASCADE);
    cr_assert_eq(deletion.deleted, 2);
    cr_assert_eq(deletion.freed_count, 2);
    expect_deleted(registry, &column_id, false, "cascade");
    cr_assert_eq(toy_get(registry, &other->id, NULL), GMV_OK);
    gmv_registry_destroy(registry);
}

Test(cascade, goes_through_unnamed_and_inner_nodes)
{
    gmv_registry *registry = toy_registry(0);
    gmv_node *buffer = toy_make(registry, GMV_KIND_BUFFER, 0);
    gmv_node *unnamed = toy_make(registry, GMV_KIND_VIEW, 1, buffer);
    gmv_node *inner = toy_hold(registry, GMV_KIND_VIEW, true, 1, unnamed);
    gmv_node *column = toy_make(registry, GMV_KIND_COLUMN, 1, inner);
    toy_settle(registry, inner);
    const gmv_id ids[] = {column->id, inner->id, unnamed->id, buffer->id};
    toy_delete(registry, &ids[2], GMV_IF_HELD_KEEP);
    gmv_deletion deletion = toy_delete(registry, &ids[3], GMV_IF_HELD_CASCADE);
    cr_assert_eq(deletion.deleted, 2);
    expect_ids(deletion.freed, deletion.n_freed, ids, 4);
    expect_deleted(registry, &ids[0], false, "cascade");
    expect_deleted(registry, &ids[1], false, "cascade");
    expect_deleted(registry, &ids[2], false, "deleted");
    gmv_registry_destroy(registry);
}

Test(cascade, leaves_what_is_in_flight_to_its_holder_deleted)
{
    gmv_registry *registry = toy_registry(0);
    gmv_node *buffer = toy_make(registry, GMV_KIND_BUFFER, 0);
    gmv_node *inner = toy_hold(registry, GMV_KIND_VIEW, true, 1, buffer);
    gmv_node *column = toy_hold(registry, GMV_KIND_COLUMN, false, 1, inner);
    const gmv_id ids[] = {column->id, inner->id, buffer->id};
    toy_settle(registry, inner);
    gmv_deletion deletion = toy_delete(registry, &ids[2], GMV_IF_HELD_CASCADE);
    cr_assert(deletion.alive);
    cr_assert_eq(deletion.deleted, 2);
    cr_assert_eq(deletion.freed_count, 0);
    expect_ids(deletion.kept_alive_by, deletion.n_kept_alive_by, &ids[1], 1);
    expect_deleted(registry, &ids[0], true, "cascade");
    expect_deleted(registry, &ids[1], true, "cascade");
    gmv_handle_info info;
    cr_assert_eq(gmv_registry_describe(registry, &anyone, &ids[0], &info, NULL), GMV_OK);
    cr_assert(info.deleted && info.alive && !info.named);
    cr_assert_eq(info.reason, GMV_REASON_CASCADE);
    cr_assert_eq(info.in_flight, 1);
    gmv_registry_release(registry, column, true);
    expect_empty(registry);
    gmv_registry_destroy(registry);
}

Test(cascade, reaches_what_is_published_on_its_nodes_later)
{
    gmv_registry *registry = toy_registry(0);
    gmv_node *buffer = toy_hold(registry, GMV_KIND_BUFFER, false, 0);
    gmv_node *prepared = toy_prepare(registry, GMV_KIND_VIEW, false, NULL, &buffer, 1, NULL);
    gmv_node *second = toy_prepare(registry, GMV_KIND_COLUMN, true, NULL, &prepared, 1, NULL);
    cr_assert(prepared && second);
    toy_delete(registry, &buffer->id, GMV_IF_HELD_CASCADE);
    gmv_node *both[] = {prepared, second};
    gmv_registry_publish(registry, both, 2);
    const gmv_id ids[] = {prepared->id, second->id};
    expect_deleted(registry, &ids[0], true, "cascade");
    expect_deleted(registry, &ids[1], true, "cascade");
    gmv_registry_counts counts;
    gmv_registry_count(registry, &counts);
    cr_assert_eq(counts.named[GMV_KIND_VIEW], 0);
    cr_assert_eq(counts.alive[GMV_KIND_VIEW], 1);
    toy_settle(registry, buffer);
    toy_settle(registry, prepared);
    cr_assert_eq(atomic_load(&toys_destroyed), 0);
    toy_settle(registry, second);
    cr_assert_eq(atomic_load(&toys_destroyed), 3);
    expect_empty(registry);
    gmv_registry_destroy(registry);
}

Test(delete, does_not_reach_what_is_published_on_its_node_later)
{
    gmv_registry *registry = toy_registry(0);
    gmv_node *buffer = toy_hold(registry, GMV_KIND_BUFFER, false, 0);
    gmv_node *prepared = toy_prepare(registry, GMV_KIND_VIEW, false, NULL, &buffer, 1, NULL);
    cr_assert_not_null(prepared);
    toy_delete(registry, &buffer->id, GMV_IF_HELD_KEEP);
    gmv_registry_publish(registry, &prepared, 1);
    gmv_id id = prepared->id;
    toy_settle(registry, prepared);
    toy_settle(registry, buffer);
    cr_assert_eq(toy_get(registry, &id, NULL), GMV_OK);
    cr_assert_eq(toy_delete(registry, &id, GMV_IF_HELD_KEEP).freed_count, 2);
    gmv_registry_destroy(registry);
}

/* ---- inner nodes
 * --------------------------------------------------------------------------------- */

Test(inner, lives_with_its_last_holder_and_has_no_name_to_delete)
{
    gmv_registry *registry = toy_registry(0);
    gmv_node *buffer = toy_hold(registry, GMV_KIND_BUFFER, true, 0);
    gmv_node *first = toy_make(registry, GMV_KIND_VIEW, 1, buffer);
    gmv_node *second = toy_make(registry, GMV_KIND_VIEW, 1, buffer);
    toy_settle(registry, buffer);
    const gmv_id id = buffer->id;
    gmv_deletion deletion;
    for (int if_held = GMV_IF_HELD_KEEP; if_held <= GMV_IF_HELD_CASCADE; if_held++)
        cr_assert_eq(gmv_registry_delete(registry, &anyone, &id, GMV_KIND_ANY, (gmv_if_held)if_held,
                                         &deletion, NULL),
                     GMV_ERR_HANDLE_INNER);
    gmv_handle_info info;
    cr_assert_eq(gmv_registry_describe(registry, &anyone, &id, &info, NULL), GMV_OK);
    cr_assert(!info.named && info.alive && !info.deleted);
    cr_assert_eq(info.reason, GMV_REASON_NONE);
    cr_assert_eq(info.dependents_count, 2);
    toy_delete(registry, &first->id, GMV_IF_HELD_KEEP);
    cr_assert_eq(toy_get(registry, &id, NULL), GMV_OK);
    cr_assert_eq(toy_delete(registry, &second->id, GMV_IF_HELD_KEEP).freed_count, 2);
    expect_deleted(registry, &id, false, "deleted");
    gmv_registry_destroy(registry);
}

/* ---- giving owners up
 * ---------------------------------------------------------------------------- */

Test(disown, names_one_owner_and_gives_up_all)
{
    gmv_registry *registry = toy_registry(0);
    gmv_node *other = toy_hold(registry, GMV_KIND_BUFFER, true, 0);
    gmv_node *data = toy_hold(registry, GMV_KIND_VIEW, true, 0);
    gmv_node *packed = toy_hold(registry, GMV_KIND_PACKED, false, 2, other, data);
    const gmv_id other_id = other->id, data_id = data->id, packed_id = packed->id;
    toy_settle(registry, other);
    toy_settle(registry, data);
    gmv_node *named = NULL, *owner = NULL;
    cr_assert(gmv_registry_hold_owner(registry, packed, 1, &owner));
    cr_assert_eq(owner, data);
    toy_settle(registry, owner);
    cr_assert_not(gmv_registry_hold_owner(registry, packed, 2, &owner));
    cr_assert(gmv_registry_disown(registry, packed, 1, &named));
    cr_assert_eq(named, data);
    cr_assert_not(gmv_registry_disown(registry, packed, 1, &named));
    cr_assert_not(gmv_registry_hold_owner(registry, packed, 0, &owner));
    cr_assert_eq(gmv_registry_owners(registry, packed, NULL, 0), 0);
    cr_assert_eq(atomic_load(&toys_destroyed), 0, "disowning may not block");
    cr_assert_eq(gmv_registry_reap(registry), 1);
    expect_deleted(registry, &other_id, false, "deleted");
    gmv_registry_release(registry, named, true);
    gmv_handle_info info;
    cr_assert_eq(gmv_registry_describe(registry, &anyone, &data_id, &info, NULL), GMV_OK);
    cr_assert(info.named && !info.deleted);
    cr_assert_eq(info.dependents_count, 0);
    toy_settle(registry, packed);
    cr_assert_eq(toy_delete(registry, &packed_id, GMV_IF_HELD_REFUSE).freed_count, 1);
    cr_assert_eq(toy_delete(registry, &data_id, GMV_IF_HELD_KEEP).freed_count, 1);
    expect_empty(registry);
    gmv_registry_destroy(registry);
}

Test(disown, gives_no_name_to_what_a_cascade_deleted)
{
    gmv_registry *registry = toy_registry(0);
    gmv_node *buffer = toy_make(registry, GMV_KIND_BUFFER, 0);
    gmv_node *data = toy_hold(registry, GMV_KIND_VIEW, true, 1, buffer);
    gmv_node *packed = toy_hold(registry, GMV_KIND_PACKED, false, 1, data);
    const gmv_id data_id = data->id;
    toy_settle(registry, data);
    toy_delete(registry, &buffer->id, GMV_IF_HELD_CASCADE);
    gmv_node *named = NULL;
    cr_assert(gmv_registry_disown(registry, packed, 0, &named));
    expect_deleted(registry, &data_id, true, "cascade");
    gmv_registry_release(registry, named, true);
    gmv_registry_release(registry, packed, true);
    expect_empty(registry);
    gmv_registry_destroy(registry);
}

Test(disown, with_a_thousand_owners_frees_all_but_the_named_one)
{
    enum { N = 1000 };
    gmv_registry *registry = toy_registry(0);
    gmv_node *owners[N];
    for (int i = 0; i < N; i++)
        owners[i] = toy_hold(registry, GMV_KIND_VIEW, true, 0);
    gmv_node *table = toy_prepare(registry, GMV_KIND_TABLE, false, NULL, owners, N, NULL);
    cr_assert_not_null(table);
    gmv_registry_publish(registry, &table, 1);
    for (int i = 0; i < N; i++)
        toy_settle(registry, owners[i]);
    gmv_node *named = NULL;
    cr_assert(gmv_registry_disown(registry, table, 500, &named));
    cr_assert_eq(named, owners[500]);
    cr_assert_eq(gmv_registry_reap(registry), N - 1);
    toy_settle(registry, named);
    cr_assert_eq(toy_delete(registry, &named->id, GMV_IF_HELD_KEEP).freed_count, 1);
    toy_settle(registry, table);
    cr_assert_eq(toy_delete(registry, &table->id, GMV_IF_HELD_KEEP).freed_count, 1);
    expect_empty(registry);
    gmv_registry_destroy(registry);
}

/* ---- others meanwhile ------------------------------------------------------------------------ */

typedef struct meddler {
    gmv_registry *registry;
    gmv_id victim;
    bool done;
} meddler;

/* Called between two steps of a cascade: frees the dependent that the next step would begin with.
 */
static void meddle(void *context, gmv_event event, const gmv_node *node)
{
    meddler *me = context;
    if (event != GMV_EVENT_DELETED || node->id.kind != GMV_KIND_VIEW || me->done ||
        me->victim.kind == GMV_KIND_ANY)
        return;
    me->done = true;
    cr_assert_eq(toy_delete(me->registry, &me->victim, GMV_IF_HELD_KEEP).freed_count, 1);
}

Test(cascade, goes_on_where_it_stood_when_that_dependent_is_gone)
{
    enum { N = 300 };
    for (int gone = 255; gone <= 257; gone++) {
        meddler me = {0};
        const gmv_registry_options options = {.observe = meddle, .observe_context = &me};
        cr_assert_eq(gmv_registry_create(&options, &me.registry, NULL), GMV_OK);
        gmv_node *buffer = toy_hold(me.registry, GMV_KIND_BUFFER, false, 0);
        gmv_id id = buffer->id, victim = id;
        for (int i = 0; i < N; i++) {
            gmv_node *view = toy_make(me.registry, GMV_KIND_VIEW, 1, buffer);
            if (i == gone)
                victim = view->id;
        }
        toy_settle(me.registry, buffer);
        if (gone > 255) /* the first 256 have lost their names when the observer hears of one */
            me.victim = victim;
        gmv_deletion deletion = toy_delete(me.registry, &id, GMV_IF_HELD_CASCADE);
        cr_assert_eq(deletion.deleted, gone > 255 ? N : N + 1);
        cr_assert_eq(deletion.freed_count, gone > 255 ? N : N + 1);
        expect_empty(me.registry);
        gmv_registry_destroy(me.registry);
    }
}
