/* SPDX-License-Identifier: Apache-2.0 */
/* The ring of events: order, who sees what, where a reader goes on, what it has missed. */
#include <criterion/criterion.h>

#include <stdio.h>
#include <string.h>

#include "http/events.h"

static const gmv_caller me = {.principal = 1}, other = {.principal = 2}, all = {.sees_all = true};

static gmv_events *events_new(void)
{
    gmv_events *events;
    cr_assert_eq(gmv_events_create(&events, NULL), GMV_OK);
    return events;
}

static gmv_event_reader reader_new(gmv_events *events, const gmv_caller *caller, const char *id)
{
    gmv_event_reader reader;
    cr_assert(gmv_event_reader_init(&reader, events, caller, id, id ? strlen(id) : 0));
    return reader;
}

/* One failure whose request id is a number. */
static void add(gmv_events *events, uint32_t principal, int number)
{
    char id[16];
    gmv_error err;
    gmv_error_init(&err);
    (void)gmv_fail(&err, GMV_ERR_OVERLOADED, NULL, "busy");
    snprintf(id, sizeof id, "%d", number);
    gmv_events_add_failure(events, principal, "createBuffer", &err, 503, id);
}

static void expect(gmv_event_reader *reader, int number)
{
    gmv_event_record record;
    char id[16];
    snprintf(id, sizeof id, "%d", number);
    cr_assert(gmv_event_read(reader, &record), "%d is missing", number);
    cr_assert_eq(record.type, GMV_EVENT_TYPE_FAILED);
    cr_assert_str_eq(record.failure.request_id, id);
}

static void expect_missed(gmv_event_reader *reader, bool known, uint64_t count)
{
    gmv_event_record record;
    cr_assert(gmv_event_read(reader, &record));
    cr_assert_eq(record.type, GMV_EVENT_TYPE_MISSED);
    cr_assert_eq(record.knows_missed, known);
    if (known)
        cr_assert_eq(record.missed, count);
}

static void expect_end(gmv_event_reader *reader)
{
    gmv_event_record record;
    cr_assert_not(gmv_event_read(reader, &record));
}

/* The id that a record is written with. */
static void id_of(gmv_events *events, const gmv_event_record *record, char out[GMV_EVENT_ID_MAX])
{
    gmv_strbuf text = GMV_STRBUF_INIT;
    gmv_event_write(events, record, &text);
    cr_assert_eq(sscanf(text.data, "id: %47s", out), 1, "%s", text.data);
    gmv_strbuf_fini(&text);
}

Test(events, a_reader_hears_what_comes_after_it_in_order)
{
    gmv_events *events = events_new();
    add(events, 1, 0);
    gmv_event_reader reader = reader_new(events, &me, NULL);
    expect_end(&reader);
    for (int i = 1; i < 20; i++)
        add(events, 1, i);
    for (int i = 1; i < 20; i++)
        expect(&reader, i);
    expect_end(&reader);
    gmv_events_destroy(events);
}

Test(events, each_principal_hears_its_own_and_an_administrator_all)
{
    gmv_events *events = events_new();
    gmv_event_reader mine = reader_new(events, &me, NULL),
                     theirs = reader_new(events, &other, NULL),
                     every = reader_new(events, &all, NULL);
    for (int i = 0; i < 2000; i++)
        add(events, 1 + (uint32_t)(i == 1999), i);
    for (int i = 0; i < 2000; i++) {
        if (i < 1999)
            expect(&mine, i);
        expect(&every, i);
    }
    expect(&theirs, 1999);
    expect_end(&mine);
    expect_end(&theirs);
    expect_end(&every);
    gmv_events_destroy(events);
}

Test(events, a_slow_reader_misses_the_oldest_and_is_told_how_many)
{
    gmv_events *events = events_new();
    gmv_event_reader reader = reader_new(events, &me, NULL);
    for (int i = 0; i < (int)GMV_EVENTS_MAX + 5; i++)
        add(events, 1, i);
    expect_missed(&reader, true, 5);
    for (int i = 5; i < (int)GMV_EVENTS_MAX + 5; i++)
        expect(&reader, i);
    expect_end(&reader);
    gmv_events_destroy(events);
}

Test(events, a_reader_goes_on_behind_the_id_that_it_saw_last)
{
    gmv_events *events = events_new();
    gmv_event_reader first = reader_new(events, &me, NULL);
    char id[GMV_EVENT_ID_MAX];
    gmv_event_record record;
    for (int i = 0; i < 6; i++)
        add(events, 1, i);
    for (int i = 0; i < 3; i++)
        cr_assert(gmv_event_read(&first, &record));
    id_of(events, &record, id);
    gmv_event_reader second = reader_new(events, &me, id);
    for (int i = 3; i < 6; i++)
        expect(&second, i);
    expect_end(&second);
    for (int i = 0; i < (int)GMV_EVENTS_MAX; i++)
        add(events, 1, i);
    gmv_event_reader third = reader_new(events, &me, id);
    expect_missed(&third, true, 3);
    expect(&third, 0);
    gmv_events_destroy(events);
}

Test(events, an_id_of_another_process_or_of_the_future_leaves_a_gap)
{
    gmv_events *events = events_new();
    gmv_event_reader first = reader_new(events, &me, NULL);
    char id[GMV_EVENT_ID_MAX];
    gmv_event_record record;
    add(events, 1, 7);
    cr_assert(gmv_event_read(&first, &record));
    id_of(events, &record, id);
    id[strlen(id) - 1] = '2';
    gmv_event_reader future = reader_new(events, &me, id);
    expect_missed(&future, false, 0);
    expect_end(&future);
    gmv_event_reader stranger = reader_new(events, &me, "0123456789abcdef-1");
    expect_missed(&stranger, false, 0);
    add(events, 1, 8);
    expect(&stranger, 8);
    gmv_events_destroy(events);
}

Test(events, other_texts_are_no_ids)
{
    static const char *const texts[] = {"",
                                        "1",
                                        "0123456789abcdef",
                                        "0123456789abcdef-",
                                        "0123456789abcdeg-1",
                                        "0123456789ABCDEF-1",
                                        "0123456789abcdef_1",
                                        "0123456789abcdef--1",
                                        "0123456789abcdef-1x",
                                        "0123456789abcdef-99999999999999999999",
                                        "0123456789abcdef-00000000000000000000000000000001"};
    gmv_events *events = events_new();
    gmv_event_reader reader;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        cr_assert_not(gmv_event_reader_init(&reader, events, &me, texts[i], strlen(texts[i])), "%s",
                      texts[i]);
    gmv_events_destroy(events);
}

Test(events, places_for_readers_are_limited_and_given_back)
{
    gmv_events *events = events_new();
    for (unsigned i = 0; i < GMV_EVENT_STREAMS_MAX; i++)
        cr_assert(gmv_events_enter(events));
    cr_assert_not(gmv_events_enter(events));
    gmv_events_leave(events);
    cr_assert(gmv_events_enter(events));
    gmv_events_destroy(events);
}

/* ---- what the registry tells ----------------------------------------------------------------- */

static void lone_destroy(gmv_node *node)
{
    gmv_free(node);
}

static uint64_t lone_nbytes(const gmv_node *node)
{
    return node->inner ? 7 : 70;
}

static const gmv_node_class lone_class = {
    .kind = GMV_KIND_BUFFER, .destroy = lone_destroy, .nbytes = lone_nbytes};

static gmv_node *lone_publish(gmv_registry *registry, const gmv_caller *caller, uint32_t ttl)
{
    gmv_node *node = gmv_calloc(1, sizeof *node);
    const gmv_node_attributes attributes = {.caller = caller, .ttl_seconds = ttl};
    cr_assert_not_null(node);
    cr_assert_eq(gmv_node_prepare(registry, node, &lone_class, &attributes, NULL, 0, NULL), GMV_OK);
    gmv_registry_publish(registry, &node, 1);
    gmv_registry_release(registry, node, true);
    return node;
}

static void expect_handle(gmv_event_reader *reader, gmv_event_type type, gmv_kind kind,
                          const char *reason)
{
    gmv_event_record record;
    cr_assert(gmv_event_read(reader, &record));
    cr_assert_eq(record.type, type, "%d, not %d", (int)record.type, (int)type);
    cr_assert_eq(record.id.kind, kind);
    cr_assert_eq(record.reason == NULL, reason == NULL);
    if (reason)
        cr_assert_str_eq(record.reason, reason);
    if (kind == GMV_KIND_BUFFER)
        cr_assert_eq(record.nbytes, 70);
}

Test(events, tell_the_whole_life_of_handles_and_sessions)
{
    gmv_events *events = events_new();
    const gmv_registry_options options = {.observe = gmv_events_observe, .observe_context = events};
    gmv_registry *registry;
    cr_assert_eq(gmv_registry_create(&options, &registry, NULL), GMV_OK);
    gmv_event_reader reader = reader_new(events, &me, NULL);
    static gmv_deletion deletion;
    gmv_session_info session;
    gmv_caller bearer = me;
    cr_assert_eq(gmv_session_create(registry, &me, NULL, 0, 60, &session, NULL), GMV_OK);
    cr_assert_eq(gmv_session_enter(registry, &me, &session.id, &bearer.session, NULL), GMV_OK);
    lone_publish(registry, &bearer, 0);
    gmv_session_leave(registry, bearer.session);
    lone_publish(registry, &me, 1);
    gmv_id id = lone_publish(registry, &me, 0)->id;
    cr_assert_eq(
        gmv_registry_delete(registry, &me, &id, GMV_KIND_BUFFER, GMV_IF_HELD_KEEP, &deletion, NULL),
        GMV_OK);
    gmv_clock_advance_ms(2000);
    cr_assert_eq(gmv_registry_expire(registry), 1);
    cr_assert_eq(gmv_session_end(registry, &me, &session.id, &deletion, NULL), GMV_OK);
    expect_handle(&reader, GMV_EVENT_TYPE_CREATED, GMV_KIND_SESSION, NULL);
    expect_handle(&reader, GMV_EVENT_TYPE_CREATED, GMV_KIND_BUFFER, NULL);
    expect_handle(&reader, GMV_EVENT_TYPE_CREATED, GMV_KIND_BUFFER, NULL);
    expect_handle(&reader, GMV_EVENT_TYPE_CREATED, GMV_KIND_BUFFER, NULL);
    expect_handle(&reader, GMV_EVENT_TYPE_DELETED, GMV_KIND_BUFFER, "deleted");
    expect_handle(&reader, GMV_EVENT_TYPE_FREED, GMV_KIND_BUFFER, NULL);
    expect_handle(&reader, GMV_EVENT_TYPE_EXPIRED, GMV_KIND_BUFFER, "lease_expired");
    expect_handle(&reader, GMV_EVENT_TYPE_FREED, GMV_KIND_BUFFER, NULL);
    expect_handle(&reader, GMV_EVENT_TYPE_DELETED, GMV_KIND_SESSION, "deleted");
    expect_handle(&reader, GMV_EVENT_TYPE_DELETED, GMV_KIND_BUFFER, "session_ended");
    expect_handle(&reader, GMV_EVENT_TYPE_FREED, GMV_KIND_BUFFER, NULL);
    expect_handle(&reader, GMV_EVENT_TYPE_FREED, GMV_KIND_SESSION, NULL);
    expect_end(&reader);
    gmv_registry_destroy(registry);
    gmv_events_destroy(events);
}

static const struct {
    gmv_event_record record;
    const char *text;
} written[] = {
    {{.type = GMV_EVENT_TYPE_MISSED, .knows_missed = true, .missed = 12},
     "event: missed\ndata: {\"count\":12,\"at\":\"1970-01-01T00:00:00.000Z\"}\n\n"},
    {{.type = GMV_EVENT_TYPE_MISSED},
     "event: missed\ndata: {\"count\":null,\"at\":\"1970-01-01T00:00:00.000Z\"}\n\n"},
};

Test(events, what_was_missed_is_written_without_an_id)
{
    gmv_events *events = events_new();
    for (size_t i = 0; i < sizeof written / sizeof written[0]; i++) {
        gmv_strbuf text = GMV_STRBUF_INIT;
        gmv_event_write(events, &written[i].record, &text);
        cr_assert_str_eq(text.data, written[i].text);
        gmv_strbuf_fini(&text);
    }
    gmv_events_destroy(events);
}
