/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions: what belongs to one, how it lives and renews, what its end takes and answers. */
#include <criterion/criterion.h>

#include <gmv/base/clock.h>

#include "registry/toy.h"

enum { SETTLE_MS = 100 };

static gmv_id session_new(gmv_registry *registry, uint32_t ttl_seconds)
{
    gmv_session_info info;
    cr_assert_eq(gmv_session_create(registry, &anyone, NULL, 0, ttl_seconds, &info, NULL), GMV_OK);
    return info.id;
}

static gmv_caller bear(gmv_registry *registry, const gmv_id *id)
{
    gmv_caller bearer = {0};
    cr_assert_eq(gmv_session_enter(registry, &anyone, id, &bearer.session, NULL), GMV_OK);
    return bearer;
}

static gmv_session_info session_info(gmv_registry *registry, const gmv_id *id)
{
    gmv_session_info info;
    cr_assert_eq(gmv_session_describe(registry, &anyone, id, &info, NULL), GMV_OK);
    return info;
}

static void expect_ended(gmv_registry *registry, const gmv_id *id, const char *reason)
{
    gmv_session *session;
    gmv_session_info info;
    gmv_error err;
    gmv_error_init(&err);
    cr_assert_eq(gmv_session_enter(registry, &anyone, id, &session, &err), GMV_ERR_HANDLE_DELETED);
    cr_assert_str_eq(err.subject_reason, reason);
    cr_assert_eq(gmv_session_describe(registry, &anyone, id, &info, NULL), GMV_ERR_HANDLE_DELETED);
}

static void expect_gone(gmv_registry *registry, const gmv_id *id, bool alive, const char *reason)
{
    gmv_error err;
    gmv_error_init(&err);
    cr_assert_eq(toy_get(registry, id, &err), GMV_ERR_HANDLE_DELETED);
    cr_assert_eq(err.subject_alive, alive);
    cr_assert_str_eq(err.subject_reason, reason);
}

static void expect_empty(gmv_registry *registry)
{
    gmv_registry_reap(registry); /* a session that was left last by who may not block */
    gmv_registry_counts counts;
    gmv_registry_count(registry, &counts);
    for (int kind = 0; kind < GMV_KIND_COUNT; kind++) {
        cr_assert_eq(counts.named[kind], 0);
        cr_assert_eq(counts.alive[kind], 0, "%d of kind %d live", (int)counts.alive[kind], kind);
    }
    cr_assert_eq(gmv_registry_next_expiry_ns(registry), INT64_MAX);
}

static size_t expire_all(gmv_registry *registry)
{
    size_t n = 0, step;
    while ((step = gmv_registry_expire(registry)) > 0)
        n += step;
    return n;
}

Test(session, has_an_id_a_label_a_lease_and_counts_its_handles)
{
    gmv_registry *registry = toy_registry(0);
    gmv_session_info info;
    cr_assert_eq(gmv_session_create(registry, &anyone, "etl", 3, 300, &info, NULL), GMV_OK);
    cr_assert_eq(info.id.kind, GMV_KIND_SESSION);
    cr_assert(info.has_label);
    cr_assert_str_eq(info.label, "etl");
    cr_assert_eq(info.ttl_seconds, 300);
    cr_assert_eq(info.handles, 0);
    cr_assert_eq((info.expires_at_ms - info.created_at_ms) / 1000, 300);
    gmv_caller bearer = bear(registry, &info.id);
    cr_assert(gmv_id_equal(gmv_session_id(bearer.session), &info.id));
    gmv_node *buffer = toy_lease(registry, GMV_KIND_BUFFER, &bearer, 0, NULL);
    toy_lease(registry, GMV_KIND_VIEW, &bearer, 0, buffer);
    toy_lease(registry, GMV_KIND_VIEW, &anyone, 0, buffer);
    gmv_session_leave(registry, bearer.session);
    cr_assert_eq(session_info(registry, &info.id).handles, 2);
    gmv_registry_counts counts;
    gmv_registry_count(registry, &counts);
    cr_assert_eq(counts.named[GMV_KIND_SESSION], 1);
    static gmv_handle_info handle;
    gmv_id id = buffer->id;
    cr_assert_eq(gmv_registry_describe(registry, &anyone, &id, &handle, NULL), GMV_OK);
    cr_assert(gmv_id_equal(&handle.session, &info.id));
    toy_delete(registry, &id, GMV_IF_HELD_KEEP);
    cr_assert_eq(session_info(registry, &info.id).handles, 1);
    gmv_registry_destroy(registry);
    cr_assert_eq(atomic_load(&toys_destroyed), 3);
}

Test(session, refuses_lengths_and_labels)
{
    gmv_registry *registry = toy_registry(2);
    static const uint32_t lengths[] = {0, GMV_SESSION_SECONDS_MAX + 1, UINT32_MAX};
    gmv_session_info info;
    for (size_t i = 0; i < 3; i++)
        cr_assert_eq(gmv_session_create(registry, &anyone, NULL, 0, lengths[i], &info, NULL),
                     GMV_ERR_VALUE);
    cr_assert_eq(gmv_session_create(registry, &anyone, "a\0b", 3, 5, &info, NULL), GMV_ERR_VALUE);
    cr_assert_eq(
        gmv_session_create(registry, &anyone, NULL, 0, GMV_SESSION_SECONDS_MAX, &info, NULL),
        GMV_OK);
    cr_assert_eq(gmv_session_create(registry, &anyone, NULL, 0, 1, &info, NULL), GMV_OK);
    cr_assert_eq(gmv_session_create(registry, &anyone, NULL, 0, 1, &info, NULL),
                 GMV_ERR_QUOTA_EXCEEDED);
    gmv_registry_destroy(registry);
}

Test(session, is_no_handle_and_a_handle_is_no_session)
{
    gmv_registry *registry = toy_registry(0);
    gmv_id id = session_new(registry, 60);
    gmv_id view = toy_make(registry, GMV_KIND_VIEW, 0)->id;
    static gmv_handle_info info;
    gmv_node *node;
    gmv_session *session;
    cr_assert_eq(toy_get(registry, &id, NULL), GMV_ERR_HANDLE_UNKNOWN);
    cr_assert_eq(gmv_registry_get(registry, &anyone, &id, GMV_KIND_VIEW, NULL, &node, NULL),
                 GMV_ERR_KIND_MISMATCH);
    cr_assert_eq(gmv_registry_describe(registry, &anyone, &id, &info, NULL),
                 GMV_ERR_HANDLE_UNKNOWN);
    cr_assert_eq(gmv_session_enter(registry, &anyone, &view, &session, NULL),
                 GMV_ERR_HANDLE_UNKNOWN);
    gmv_id never = id;
    never.low ^= 1;
    cr_assert_eq(gmv_session_enter(registry, &anyone, &never, &session, NULL),
                 GMV_ERR_HANDLE_UNKNOWN);
    const gmv_caller stranger = {.principal = 7};
    static gmv_deletion deletion;
    cr_assert_eq(gmv_session_enter(registry, &stranger, &id, &session, NULL),
                 GMV_ERR_HANDLE_UNKNOWN);
    cr_assert_eq(gmv_session_end(registry, &stranger, &id, &deletion, NULL),
                 GMV_ERR_HANDLE_UNKNOWN);
    gmv_registry_destroy(registry);
}

Test(session, is_renewed_by_whoever_bears_it)
{
    gmv_registry *registry = toy_registry(0);
    gmv_id id = session_new(registry, 10);
    for (int i = 0; i < 20; i++) {
        gmv_clock_advance_ms(6000);
        cr_assert_eq(expire_all(registry), 0);
        gmv_caller bearer = bear(registry, &id);
        gmv_clock_advance_ms(6000);
        gmv_session_leave(registry, bearer.session);
    }
    gmv_clock_advance_ms(9000);
    cr_assert_eq(session_info(registry, &id).ttl_seconds, 10);
    gmv_clock_advance_ms(1000);
    expect_ended(registry, &id, "lease_expired");
    gmv_clock_advance_ms(SETTLE_MS);
    cr_assert_eq(expire_all(registry), 1);
    expect_ended(registry, &id, "lease_expired");
    expect_empty(registry);
    gmv_registry_destroy(registry);
}

Test(session, its_handles_are_gone_from_its_deadline_on_though_nobody_has_reaped)
{
    gmv_registry *registry = toy_registry(0);
    gmv_id id = session_new(registry, 10);
    gmv_caller bearer = bear(registry, &id);
    gmv_id handle = toy_lease(registry, GMV_KIND_BUFFER, &bearer, 3600, NULL)->id;
    gmv_session_leave(registry, bearer.session);
    gmv_clock_advance_ms(10000);
    expect_gone(registry, &handle, true, "session_ended");
    gmv_clock_advance_ms(SETTLE_MS);
    expire_all(registry);
    expect_gone(registry, &handle, false, "session_ended");
    expect_empty(registry);
    gmv_registry_destroy(registry);
}

/* The worked example's end: three packed, a mask and a table, each with inner parts. */
Test(session, its_end_takes_all_names_and_answers_for_them_together)
{
    enum { OBJECTS = 5 };
    gmv_registry *registry = toy_registry(0);
    gmv_id id = session_new(registry, 60);
    gmv_caller bearer = bear(registry, &id);
    gmv_id handles[OBJECTS];
    for (int i = 0; i < OBJECTS; i++) {
        gmv_node *buffer = toy_hold(registry, GMV_KIND_BUFFER, true, 0);
        ((toy *)(void *)buffer)->nbytes = 64;
        handles[i] = toy_lease(registry, GMV_KIND_VIEW, &bearer, 0, buffer)->id;
        toy_settle(registry, buffer);
    }
    gmv_session_leave(registry, bearer.session);
    gmv_deletion deletion;
    cr_assert_eq(gmv_session_end(registry, &anyone, &id, &deletion, NULL), GMV_OK);
    cr_assert(gmv_id_equal(&deletion.id, &id));
    cr_assert_not(deletion.alive);
    cr_assert_eq(deletion.deleted, OBJECTS);
    cr_assert_eq(deletion.freed_count, 2 * OBJECTS);
    cr_assert_eq(deletion.n_freed, 2 * OBJECTS);
    cr_assert_eq(deletion.freed_nbytes, 64 * OBJECTS);
    cr_assert_eq(deletion.kept_alive_by_count, 0);
    cr_assert_eq(deletion.in_flight, 0);
    cr_assert(gmv_id_equal(&deletion.freed[0], &handles[OBJECTS - 1]), "the newest goes first");
    for (int i = 0; i < OBJECTS; i++)
        expect_gone(registry, &handles[i], false, "session_ended");
    expect_ended(registry, &id, "deleted");
    expect_empty(registry);
    cr_assert_eq(gmv_session_end(registry, &anyone, &id, &deletion, NULL), GMV_ERR_HANDLE_DELETED);
    gmv_registry_destroy(registry);
}

Test(session, its_end_says_who_from_outside_keeps_what_alive_and_counts_each_once)
{
    gmv_registry *registry = toy_registry(0);
    gmv_id id = session_new(registry, 60);
    gmv_caller bearer = bear(registry, &id);
    gmv_node *buffer = toy_lease(registry, GMV_KIND_BUFFER, &bearer, 0, NULL);
    gmv_node *view = toy_lease(registry, GMV_KIND_VIEW, &bearer, 0, buffer);
    gmv_node *mask = toy_lease(registry, GMV_KIND_VIEW, &bearer, 0, NULL);
    gmv_node *lone = toy_lease(registry, GMV_KIND_VIEW, &bearer, 0, NULL);
    gmv_id lone_id = lone->id, view_id = view->id;
    gmv_id column = toy_make(registry, GMV_KIND_COLUMN, 2, view, mask)->id;
    gmv_session_leave(registry, bearer.session);
    gmv_deletion deletion;
    cr_assert_eq(gmv_session_end(registry, &anyone, &id, &deletion, NULL), GMV_OK);
    cr_assert(deletion.alive);
    cr_assert_eq(deletion.deleted, 4);
    cr_assert_eq(deletion.freed_count, 1);
    cr_assert(gmv_id_equal(&deletion.freed[0], &lone_id));
    cr_assert_eq(deletion.kept_alive_by_count, 1);
    cr_assert_eq(deletion.n_kept_alive_by, 1);
    cr_assert(gmv_id_equal(&deletion.kept_alive_by[0], &column));
    expect_gone(registry, &view_id, true, "session_ended");
    cr_assert_eq(toy_get(registry, &column, NULL), GMV_OK);
    toy_delete(registry, &column, GMV_IF_HELD_KEEP);
    expect_gone(registry, &view_id, false, "session_ended");
    expect_empty(registry);
    gmv_registry_destroy(registry);
}

Test(session, work_in_flight_keeps_an_object_past_the_end_and_is_counted)
{
    gmv_registry *registry = toy_registry(0);
    gmv_id id = session_new(registry, 60);
    gmv_caller bearer = bear(registry, &id);
    gmv_id view = toy_lease(registry, GMV_KIND_VIEW, &bearer, 0, NULL)->id;
    gmv_node *held;
    cr_assert_eq(gmv_registry_get(registry, &anyone, &view, GMV_KIND_VIEW, NULL, &held, NULL),
                 GMV_OK);
    gmv_deletion deletion;
    cr_assert_eq(gmv_session_end(registry, &anyone, &id, &deletion, NULL), GMV_OK);
    cr_assert(deletion.alive);
    cr_assert_eq(deletion.in_flight, 1);
    cr_assert_eq(deletion.freed_count, 0);
    gmv_registry_release(registry, held, true);
    expect_gone(registry, &view, false, "session_ended");
    gmv_session_leave(registry, bearer.session);
    expect_empty(registry);
    gmv_registry_destroy(registry);
}

/* Prepared, not published. */
static gmv_node *session_view(gmv_registry *registry, const gmv_node_attributes *attributes)
{
    toy *object = gmv_calloc(1, sizeof *object);
    cr_assert_not_null(object);
    cr_assert_eq(gmv_node_prepare(registry, &object->node, &toy_classes[GMV_KIND_VIEW], attributes,
                                  NULL, 0, NULL),
                 GMV_OK);
    return &object->node;
}

Test(session, what_is_published_after_its_end_is_deleted_and_does_not_leak)
{
    gmv_registry *registry = toy_registry(0);
    gmv_id id = session_new(registry, 60);
    gmv_caller bearer = bear(registry, &id);
    gmv_node *node =
        session_view(registry, &(gmv_node_attributes){.caller = &bearer, .ttl_seconds = 5});
    gmv_deletion deletion;
    cr_assert_eq(gmv_session_end(registry, &anyone, &id, &deletion, NULL), GMV_OK);
    cr_assert_eq(deletion.deleted, 0);
    gmv_registry_publish(registry, &node, 1);
    gmv_id made = node->id;
    expect_gone(registry, &made, true, "session_ended");
    gmv_registry_release(registry, node, true);
    expect_gone(registry, &made, false, "session_ended");
    gmv_session_leave(registry, bearer.session);
    expect_empty(registry);
    gmv_registry_destroy(registry);
}

Test(session, a_part_released_in_an_ended_session_gets_no_name)
{
    gmv_registry *registry = toy_registry(0);
    gmv_id id = session_new(registry, 60);
    gmv_caller bearer = bear(registry, &id);
    gmv_node *data =
        session_view(registry, &(gmv_node_attributes){.caller = &bearer, .inner = true});
    gmv_registry_publish(registry, &data, 1);
    gmv_id packed = toy_lease(registry, GMV_KIND_PACKED, &bearer, 0, data)->id;
    toy_settle(registry, data);
    gmv_node *held, *named;
    cr_assert_eq(gmv_registry_get(registry, &anyone, &packed, GMV_KIND_PACKED, NULL, &held, NULL),
                 GMV_OK);
    gmv_deletion deletion;
    cr_assert_eq(gmv_session_end(registry, &anyone, &id, &deletion, NULL), GMV_OK);
    cr_assert(gmv_registry_disown(registry, held, 0, &named));
    gmv_id named_id = named->id;
    gmv_registry_release(registry, named, true);
    gmv_registry_release(registry, held, true);
    gmv_registry_reap(registry);
    expect_gone(registry, &named_id, false, "session_ended");
    gmv_session_leave(registry, bearer.session);
    expect_empty(registry);
    gmv_registry_destroy(registry);
}

Test(session, a_part_released_in_a_living_session_belongs_to_it)
{
    gmv_registry *registry = toy_registry(0);
    gmv_id id = session_new(registry, 60);
    gmv_caller bearer = bear(registry, &id);
    gmv_node *data =
        session_view(registry, &(gmv_node_attributes){.caller = &bearer, .inner = true});
    gmv_registry_publish(registry, &data, 1);
    gmv_node *packed = toy_lease(registry, GMV_KIND_PACKED, &bearer, 0, data);
    toy_settle(registry, data);
    gmv_session_leave(registry, bearer.session);
    gmv_node *named;
    cr_assert(gmv_registry_disown(registry, packed, 0, &named));
    gmv_registry_release(registry, named, true);
    cr_assert_eq(session_info(registry, &id).handles, 2);
    gmv_deletion deletion;
    cr_assert_eq(gmv_session_end(registry, &anyone, &id, &deletion, NULL), GMV_OK);
    cr_assert_eq(deletion.deleted, 2);
    expect_empty(registry);
    gmv_registry_destroy(registry);
}

Test(session, one_with_many_handles_ends_in_steps)
{
    enum { MANY = 3000 };
    gmv_registry *registry = toy_registry(0);
    gmv_id id = session_new(registry, 60);
    gmv_caller bearer = bear(registry, &id);
    gmv_node *owner = NULL;
    for (int i = 0; i < MANY; i++)
        owner = toy_lease(registry, GMV_KIND_VIEW, &bearer, (uint32_t)(i % 3), owner);
    gmv_session_leave(registry, bearer.session);
    static gmv_deletion deletion;
    cr_assert_eq(gmv_session_end(registry, &anyone, &id, &deletion, NULL), GMV_OK);
    cr_assert_eq(deletion.deleted, MANY);
    cr_assert_eq(deletion.freed_count, MANY);
    cr_assert_eq(atomic_load(&toys_destroyed), MANY);
    expect_empty(registry);
    gmv_registry_destroy(registry);
}

typedef struct shown_sessions {
    size_t n;
    gmv_id ids[40];
} shown_sessions;

static void show(void *context, const gmv_session_info *info)
{
    shown_sessions *shown = context;
    shown->ids[shown->n++ % 40] = info->id;
}

Test(session, lists_go_in_order_by_pages_and_skip_what_is_over)
{
    enum { SESSIONS = 30 };
    gmv_registry *registry = toy_registry(0);
    gmv_id ids[SESSIONS];
    for (int i = 0; i < SESSIONS; i++)
        ids[i] = session_new(registry, i % 3 == 0 ? 1 : 1000);
    gmv_clock_advance_ms(1000);
    shown_sessions shown = {0};
    uint64_t cursor = 0;
    do
        gmv_session_list(registry, &anyone, cursor, 7, show, &shown, &cursor);
    while (cursor);
    cr_assert_eq(shown.n, 20);
    for (size_t i = 0, j = 0; i < SESSIONS; i++)
        if (i % 3 != 0)
            cr_assert(gmv_id_equal(&shown.ids[j++], &ids[i]));
    const gmv_caller stranger = {.principal = 3};
    shown.n = 0;
    gmv_session_list(registry, &stranger, 0, 100, show, &shown, &cursor);
    cr_assert_eq(shown.n, 0);
    gmv_registry_destroy(registry);
}

Test(session, no_failed_allocation_leaves_anything)
{
    gmv_alloc_watch(1);
    for (uint64_t n = 1;; n++) {
        gmv_registry *registry = toy_registry(0);
        int64_t live = gmv_alloc_live();
        gmv_session_info info;
        gmv_alloc_fail_once(n);
        gmv_status status = gmv_session_create(registry, &anyone, "label", 5, 9, &info, NULL);
        bool failed = gmv_alloc_has_failed();
        gmv_alloc_fail_once(0);
        if (status != GMV_OK) {
            cr_assert_eq(status, GMV_ERR_OVERLOADED);
            cr_assert_leq(gmv_alloc_live(), live + 3, "only room for later may stay");
            expect_empty(registry);
        }
        gmv_registry_destroy(registry);
        cr_assert_eq(gmv_alloc_live(), 0);
        if (!failed)
            break;
    }
}
