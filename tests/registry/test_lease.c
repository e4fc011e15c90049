/* SPDX-License-Identifier: Apache-2.0 */
/* Leases: exact deadlines on a clock that the tests move, renewal, what the end of one frees. */
#include <criterion/criterion.h>

#include <gmv/base/clock.h>

#include "registry/toy.h"

/* More than a tick of the wheel, and more than a test takes. */
enum { SETTLE_MS = 100 };

static void expect_gone(gmv_registry *registry, const gmv_id *id, bool alive, const char *reason)
{
    gmv_error err;
    gmv_error_init(&err);
    cr_assert_eq(toy_get(registry, id, &err), GMV_ERR_HANDLE_DELETED);
    cr_assert_eq(err.subject_alive, alive);
    cr_assert_str_eq(err.subject_reason, reason);
}

static gmv_handle_info describe(gmv_registry *registry, const gmv_id *id)
{
    static gmv_handle_info info;
    cr_assert_eq(gmv_registry_describe(registry, &anyone, id, &info, NULL), GMV_OK);
    return info;
}

static void count_one(void *context, const gmv_handle_info *info)
{
    (void)info;
    ++*(size_t *)context;
}

static size_t count_listed(gmv_registry *registry, bool all)
{
    const gmv_list_filter filter = {.all = all};
    uint64_t cursor = 0;
    size_t n = 0;
    gmv_registry_list(registry, &anyone, &filter, 0, 1000, count_one, &n, &cursor);
    return n;
}

static size_t expire_all(gmv_registry *registry)
{
    size_t n = 0, step;
    while ((step = gmv_registry_expire(registry)) > 0)
        n += step;
    return n;
}

static gmv_lease_counts counts_of(gmv_registry *registry)
{
    gmv_lease_counts counts;
    gmv_registry_count_leases(registry, &counts);
    return counts;
}

Test(lease, a_handle_is_gone_from_its_deadline_on_though_nobody_has_reaped_it)
{
    gmv_registry *registry = toy_registry(0);
    gmv_id id = toy_lease(registry, GMV_KIND_BUFFER, &anyone, 10, NULL)->id;
    gmv_handle_info info = describe(registry, &id);
    cr_assert(info.named);
    cr_assert_eq(info.expires_at_ms / 1000, (info.created_at_ms + 10000) / 1000);
    gmv_clock_advance_ms(9000);
    cr_assert_eq(toy_get(registry, &id, NULL), GMV_OK);
    cr_assert_eq(expire_all(registry), 0);
    gmv_clock_advance_ms(1000);
    expect_gone(registry, &id, true, "lease_expired");
    info = describe(registry, &id);
    cr_assert_not(info.named);
    cr_assert(info.deleted && info.alive);
    cr_assert_eq(info.reason, GMV_REASON_LEASE_EXPIRED);
    cr_assert_eq(count_listed(registry, false), 0);
    cr_assert_eq(count_listed(registry, true), 1);
    gmv_clock_advance_ms(SETTLE_MS);
    cr_assert_eq(expire_all(registry), 1);
    expect_gone(registry, &id, false, "lease_expired");
    cr_assert_eq(atomic_load(&toys_destroyed), 1);
    cr_assert_eq(counts_of(registry).expired, 1);
    cr_assert_geq(counts_of(registry).lag_ns, SETTLE_MS * 1000000);
    gmv_registry_destroy(registry);
}

Test(lease, one_that_is_over_can_be_neither_deleted_nor_renewed_nor_found_by_address)
{
    gmv_registry *registry = toy_registry(0);
    toy *object = gmv_calloc(1, sizeof *object);
    const gmv_node_attributes attributes = {.caller = &anyone, .ttl_seconds = 1};
    gmv_node *node = &object->node;
    cr_assert_eq(
        gmv_node_prepare(registry, node, &toy_classes[GMV_KIND_BUFFER], &attributes, NULL, 0, NULL),
        GMV_OK);
    object->ranges[0] = (gmv_range_entry){.begin = 1000, .end = 2000};
    gmv_node_set_ranges(node, object->ranges, 1);
    gmv_registry_publish(registry, &node, 1);
    toy_settle(registry, node);
    gmv_id id = node->id;
    gmv_address_hit hits[2];
    cr_assert_eq(gmv_registry_find_address(registry, &anyone, 1500, false, hits), 1);
    gmv_registry_release(registry, hits[0].node, true);
    gmv_clock_advance_ms(1000);
    static gmv_deletion deletion;
    static gmv_handle_info info;
    cr_assert_eq(gmv_registry_find_address(registry, &anyone, 1500, false, hits), 0);
    cr_assert_eq(gmv_registry_delete(registry, &anyone, &id, GMV_KIND_ANY, GMV_IF_HELD_KEEP,
                                     &deletion, NULL),
                 GMV_ERR_HANDLE_DELETED);
    cr_assert_eq(gmv_registry_lease(registry, &anyone, &id, 60, &info, NULL),
                 GMV_ERR_HANDLE_DELETED);
    cr_assert_eq(gmv_registry_lease(registry, &anyone, &id, 0, &info, NULL),
                 GMV_ERR_HANDLE_DELETED);
    gmv_registry_destroy(registry);
    cr_assert_eq(atomic_load(&toys_destroyed), 1);
}

Test(lease, is_renewed_shortened_ended_and_given_again)
{
    gmv_registry *registry = toy_registry(0);
    gmv_id id = toy_lease(registry, GMV_KIND_VIEW, &anyone, 10, NULL)->id;
    static gmv_handle_info info;
    cr_assert_eq(gmv_registry_lease(registry, &anyone, &id, 100, &info, NULL), GMV_OK);
    cr_assert_gt(info.expires_at_ms, info.created_at_ms + 90000);
    gmv_clock_advance_ms(50000);
    cr_assert_eq(expire_all(registry), 0);
    cr_assert_eq(gmv_registry_lease(registry, &anyone, &id, 0, &info, NULL), GMV_OK);
    cr_assert_eq(info.expires_at_ms, 0);
    cr_assert_eq(gmv_registry_next_expiry_ns(registry), INT64_MAX);
    gmv_clock_advance_ms(INT64_C(40000000000));
    cr_assert_eq(expire_all(registry), 0);
    cr_assert_eq(gmv_registry_lease(registry, &anyone, &id, GMV_LEASE_SECONDS_MAX, &info, NULL),
                 GMV_OK);
    cr_assert_eq(gmv_registry_lease(registry, &anyone, &id, 2, &info, NULL), GMV_OK);
    gmv_clock_advance_ms(1500);
    cr_assert_eq(toy_get(registry, &id, NULL), GMV_OK);
    gmv_clock_advance_ms(500 + SETTLE_MS);
    cr_assert_eq(expire_all(registry), 1);
    expect_gone(registry, &id, false, "lease_expired");
    gmv_registry_destroy(registry);
}

Test(lease, refuses_lengths_inner_handles_strangers_and_what_is_no_handle)
{
    gmv_registry *registry = toy_registry(0);
    static gmv_handle_info info;
    gmv_node *inner = toy_hold(registry, GMV_KIND_BUFFER, true, 0);
    gmv_node *view = toy_make(registry, GMV_KIND_VIEW, 1, inner);
    toy_settle(registry, inner);
    gmv_error err;
    gmv_error_init(&err);
    cr_assert_eq(
        gmv_registry_lease(registry, &anyone, &view->id, GMV_LEASE_SECONDS_MAX + 1, &info, &err),
        GMV_ERR_VALUE);
    cr_assert_str_eq(err.pointer, "/ttl_seconds");
    cr_assert_eq(gmv_registry_lease(registry, &anyone, &inner->id, 5, &info, NULL),
                 GMV_ERR_HANDLE_INNER);
    const gmv_caller stranger = {.principal = 4};
    cr_assert_eq(gmv_registry_lease(registry, &stranger, &view->id, 5, &info, NULL),
                 GMV_ERR_HANDLE_UNKNOWN);
    gmv_session_info session;
    cr_assert_eq(gmv_session_create(registry, &anyone, NULL, 0, 60, &session, NULL), GMV_OK);
    cr_assert_eq(gmv_registry_lease(registry, &anyone, &session.id, 5, &info, NULL),
                 GMV_ERR_HANDLE_UNKNOWN);
    gmv_registry_destroy(registry);
}

Test(lease, what_was_made_from_an_expired_handle_goes_on)
{
    gmv_registry *registry = toy_registry(0);
    gmv_node *buffer = toy_lease(registry, GMV_KIND_BUFFER, &anyone, 1, NULL);
    gmv_id buffer_id = buffer->id;
    gmv_id view_id = toy_make(registry, GMV_KIND_VIEW, 1, buffer)->id;
    gmv_clock_advance_ms(1000 + SETTLE_MS);
    cr_assert_eq(expire_all(registry), 1);
    expect_gone(registry, &buffer_id, true, "lease_expired");
    cr_assert_eq(toy_get(registry, &view_id, NULL), GMV_OK);
    cr_assert_eq(atomic_load(&toys_destroyed), 0);
    toy_delete(registry, &view_id, GMV_IF_HELD_KEEP);
    expect_gone(registry, &buffer_id, false, "lease_expired");
    cr_assert_eq(atomic_load(&toys_destroyed), 2);
    gmv_registry_destroy(registry);
}

Test(lease, deletion_and_cascade_take_a_lease_along)
{
    gmv_registry *registry = toy_registry(0);
    gmv_node *buffer = toy_lease(registry, GMV_KIND_BUFFER, &anyone, 5, NULL);
    gmv_id id = buffer->id;
    gmv_id view = toy_lease(registry, GMV_KIND_VIEW, &anyone, 7, buffer)->id;
    cr_assert_lt(gmv_registry_next_expiry_ns(registry), INT64_MAX);
    toy_delete(registry, &id, GMV_IF_HELD_CASCADE);
    cr_assert_eq(gmv_registry_next_expiry_ns(registry), INT64_MAX);
    gmv_clock_advance_ms(8000);
    cr_assert_eq(expire_all(registry), 0);
    expect_gone(registry, &id, false, "deleted");
    expect_gone(registry, &view, false, "cascade");
    gmv_registry_destroy(registry);
}

Test(lease, a_name_that_was_over_keeps_that_reason_when_a_cascade_comes_first)
{
    gmv_registry *registry = toy_registry(0);
    gmv_node *buffer = toy_make(registry, GMV_KIND_BUFFER, 0);
    gmv_id view = toy_lease(registry, GMV_KIND_VIEW, &anyone, 1, buffer)->id;
    gmv_clock_advance_ms(1000);
    expect_gone(registry, &view, true, "lease_expired");
    gmv_id id = buffer->id;
    toy_delete(registry, &id, GMV_IF_HELD_CASCADE);
    expect_gone(registry, &view, false, "lease_expired");
    gmv_registry_destroy(registry);
}

Test(lease, begins_when_the_handle_is_published)
{
    gmv_registry *registry = toy_registry(0);
    toy *object = gmv_calloc(1, sizeof *object);
    const gmv_node_attributes attributes = {.caller = &anyone, .ttl_seconds = 5};
    gmv_node *node = &object->node;
    cr_assert_eq(
        gmv_node_prepare(registry, node, &toy_classes[GMV_KIND_VIEW], &attributes, NULL, 0, NULL),
        GMV_OK);
    gmv_clock_advance_ms(60000);
    gmv_registry_publish(registry, &node, 1);
    gmv_clock_advance_ms(4000);
    cr_assert_eq(toy_get(registry, &node->id, NULL), GMV_OK);
    gmv_registry_release(registry, node, true);
    gmv_registry_destroy(registry);
}

Test(lease, a_released_part_takes_over_the_lease_of_its_whole)
{
    gmv_registry *registry = toy_registry(0);
    gmv_node *data = toy_hold(registry, GMV_KIND_VIEW, true, 0);
    gmv_node *packed = toy_lease(registry, GMV_KIND_PACKED, &anyone, 10, data);
    toy_settle(registry, data);
    gmv_id packed_id = packed->id, data_id = data->id;
    gmv_node *named = NULL;
    cr_assert(gmv_registry_disown(registry, packed, 0, &named));
    cr_assert_eq(named, data);
    toy_settle(registry, named);
    cr_assert_eq(describe(registry, &data_id).expires_at_ms,
                 describe(registry, &packed_id).expires_at_ms);
    gmv_clock_advance_ms(10000 + SETTLE_MS);
    cr_assert_eq(expire_all(registry), 2);
    expect_gone(registry, &data_id, false, "lease_expired");
    gmv_registry_destroy(registry);
}

Test(lease, many_end_in_bounded_batches)
{
    enum { MANY = 2000 };
    gmv_registry *registry = toy_registry(0);
    for (int i = 0; i < MANY; i++)
        toy_lease(registry, GMV_KIND_VIEW, &anyone, (uint32_t)(1 + i % 50), NULL);
    gmv_clock_advance_ms(50000 + SETTLE_MS);
    size_t n = 0, step, most = 0;
    while ((step = gmv_registry_expire(registry)) > 0) {
        n += step;
        most = step > most ? step : most;
    }
    cr_assert_eq(n, MANY);
    cr_assert_leq(most, 256);
    cr_assert_eq(atomic_load(&toys_destroyed), MANY);
    cr_assert_eq(counts_of(registry).expired, MANY);
    gmv_registry_destroy(registry);
}

Test(lease, giving_renewing_and_ending_allocates_nothing)
{
    gmv_registry *registry = toy_registry(0);
    gmv_id ids[50];
    for (int i = 0; i < 50; i++)
        ids[i] = toy_make(registry, GMV_KIND_VIEW, 0)->id;
    static gmv_handle_info info;
    gmv_alloc_fail_from(1);
    for (int i = 0; i < 50; i++)
        cr_assert_eq(gmv_registry_lease(registry, &anyone, &ids[i], 5, &info, NULL), GMV_OK);
    for (int i = 0; i < 50; i++)
        cr_assert_eq(gmv_registry_lease(registry, &anyone, &ids[i], 2, &info, NULL), GMV_OK);
    gmv_clock_advance_ms(2000 + SETTLE_MS);
    cr_assert_eq(expire_all(registry), 50);
    cr_assert_not(gmv_alloc_has_failed(), "something was allocated");
    gmv_alloc_fail_from(0);
    cr_assert_eq(atomic_load(&toys_destroyed), 50);
    gmv_registry_destroy(registry);
}
