/* SPDX-License-Identifier: Apache-2.0 */
/* The ring of events (see events.h). */
#include "config.h"

#include "http/events.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "codec/json_writer.h"

/* Records of others that are passed over in one hold of the lock. */
#define EVENTS_STEP 256u

struct gmv_events {
    uint64_t epoch; /* of this process, random */
    atomic_uint n_readers;
    pthread_mutex_t lock; /* guards from here */
    void (*notify)(void *context);
    void *notify_context;
    uint64_t next; /* sequence number; the first is 1 */
    gmv_event_record records[GMV_EVENTS_MAX];
};

gmv_status gmv_events_create(gmv_events **out_events, gmv_error *err)
{
    gmv_events *events = gmv_calloc(1, sizeof *events);
    if (!events)
        return gmv_fail_no_memory(err);
    if (!gmv_random_bytes(&events->epoch, sizeof events->epoch)) {
        gmv_free(events);
        return gmv_fail(err, GMV_ERR_OVERLOADED, NULL, "the system has no randomness");
    }
    events->next = 1;
    pthread_mutex_init(&events->lock, NULL);
    *out_events = events;
    return GMV_OK;
}

void gmv_events_destroy(gmv_events *events)
{
    if (!events)
        return;
    pthread_mutex_destroy(&events->lock);
    gmv_free(events);
}

void gmv_events_on_added(gmv_events *events, void (*notify)(void *context), void *context)
{
    pthread_mutex_lock(&events->lock);
    events->notify = notify;
    events->notify_context = context;
    pthread_mutex_unlock(&events->lock);
}

/* ---- adding ---- */

static void events_add(gmv_events *events, const gmv_event_record *record)
{
    pthread_mutex_lock(&events->lock);
    gmv_event_record *slot = &events->records[events->next % GMV_EVENTS_MAX];
    *slot = *record;
    slot->sequence = events->next++;
    if (events->notify)
        events->notify(events->notify_context);
    pthread_mutex_unlock(&events->lock);
}

static gmv_event_type events_type_of(gmv_event event, const gmv_node *node)
{
    if (event == GMV_EVENT_CREATED)
        return GMV_EVENT_TYPE_CREATED;
    if (event == GMV_EVENT_FREED)
        return GMV_EVENT_TYPE_FREED;
    return node->reason == GMV_REASON_LEASE_EXPIRED ? GMV_EVENT_TYPE_EXPIRED
                                                    : GMV_EVENT_TYPE_DELETED;
}

void gmv_events_observe(void *context, gmv_event event, const gmv_node *node)
{
    const gmv_node_class *node_class = node->node_class;
    const gmv_event_record record = {
        .type = events_type_of(event, node),
        .principal = node->principal,
        .at_ms = gmv_clock_wall_ms(),
        .id = node->id,
        .session = node->session ? *gmv_session_id(node->session) : (gmv_id){0},
        .named = !node->inner,
        .reason = event == GMV_EVENT_DELETED ? gmv_reason_name((gmv_reason)node->reason) : NULL,
        .nbytes = node_class->nbytes ? node_class->nbytes(node) : 0,
    };
    events_add(context, &record);
}

void gmv_events_add_failure(gmv_events *events, uint32_t principal, const char *operation_id,
                            const gmv_error *err, int http_status, const char *request_id)
{
    gmv_event_record record = {
        .type = GMV_EVENT_TYPE_FAILED,
        .principal = principal,
        .at_ms = gmv_clock_wall_ms(),
        .failure = {.operation_id = operation_id,
                    .code = gmv_status_code(err->status),
                    .http_status = http_status},
    };
    snprintf(record.failure.request_id, sizeof record.failure.request_id, "%s", request_id);
    events_add(events, &record);
}

/* ---- reading ---- */

bool gmv_events_enter(gmv_events *events)
{
    if (atomic_fetch_add(&events->n_readers, 1) < GMV_EVENT_STREAMS_MAX)
        return true;
    gmv_events_leave(events);
    return false;
}

void gmv_events_leave(gmv_events *events)
{
    atomic_fetch_sub(&events->n_readers, 1);
}

static size_t events_format_id(const gmv_events *events, uint64_t sequence,
                               char out_text[GMV_EVENT_ID_MAX])
{
    return (size_t)snprintf(out_text, GMV_EVENT_ID_MAX, "%016" PRIx64 "-%" PRIu64, events->epoch,
                            sequence);
}

/* False if it is no id; *out_is_ours: of this process. */
static bool events_parse_id(const gmv_events *events, const char *text, size_t length,
                            bool *out_is_ours, uint64_t *out_sequence)
{
    char ours[GMV_EVENT_ID_MAX];
    if (length < 18 || length >= GMV_EVENT_ID_MAX || text[16] != '-' ||
        !gmv_parse_uint64(text + 17, length - 17, out_sequence))
        return false;
    for (size_t i = 0; i < 16; i++)
        if (!strchr("0123456789abcdef", text[i]) || text[i] == '\0')
            return false;
    size_t n = events_format_id(events, *out_sequence, ours);
    *out_is_ours = n == length && memcmp(ours, text, n) == 0;
    return true;
}

bool gmv_event_reader_init(gmv_event_reader *reader, gmv_events *events, const gmv_caller *caller,
                           const char *last_id, size_t length)
{
    bool is_ours = false;
    uint64_t sequence = 0;
    if (last_id && !events_parse_id(events, last_id, length, &is_ours, &sequence))
        return false;
    pthread_mutex_lock(&events->lock);
    uint64_t next = events->next;
    pthread_mutex_unlock(&events->lock);
    is_ours = is_ours && sequence < next;
    *reader = (gmv_event_reader){
        .events = events,
        .principal = caller->principal,
        .sees_all = caller->sees_all,
        .has_gap = last_id && !is_ours,
        .next = is_ours ? sequence + 1 : next,
    };
    return true;
}

static void record_set_missed(gmv_event_record *record, bool is_known, uint64_t missed)
{
    *record = (gmv_event_record){
        .type = GMV_EVENT_TYPE_MISSED,
        .at_ms = gmv_clock_wall_ms(),
        .knows_missed = is_known,
        .missed = missed,
    };
}

typedef enum read_outcome { READ_ONE, READ_ON, READ_END } read_outcome;

/* One hold of the lock. */
static read_outcome reader_step(gmv_event_reader *reader, gmv_event_record *out_record)
{
    const gmv_events *events = reader->events;
    uint64_t oldest = events->next > GMV_EVENTS_MAX ? events->next - GMV_EVENTS_MAX : 1;
    if (reader->next < oldest) {
        record_set_missed(out_record, true, oldest - reader->next);
        reader->next = oldest;
        return READ_ONE;
    }
    for (unsigned budget = EVENTS_STEP; reader->next < events->next && budget > 0; budget--) {
        const gmv_event_record *record = &events->records[reader->next++ % GMV_EVENTS_MAX];
        if (reader->sees_all || record->principal == reader->principal) {
            *out_record = *record;
            return READ_ONE;
        }
    }
    return reader->next < events->next ? READ_ON : READ_END;
}

bool gmv_event_read(gmv_event_reader *reader, gmv_event_record *out_record)
{
    if (reader->has_gap) {
        reader->has_gap = false;
        record_set_missed(out_record, false, 0);
        return true;
    }
    read_outcome outcome;
    do {
        pthread_mutex_lock(&reader->events->lock);
        outcome = reader_step(reader, out_record);
        pthread_mutex_unlock(&reader->events->lock);
    } while (outcome == READ_ON);
    return outcome == READ_ONE;
}

/* ---- writing ---- */

static void event_write_handle(const gmv_event_record *record, gmv_json_writer *writer)
{
    gmv_json_member_id(writer, "id", &record->id);
    gmv_json_member_string(writer, "kind", gmv_kind_name(record->id.kind));
    gmv_json_member_bool(writer, "named", record->named);
    gmv_json_member_uint64(writer, "nbytes", record->nbytes);
    gmv_json_member_id(writer, "session", &record->session);
    gmv_json_member_string(writer, "reason", record->reason);
}

static void event_write_failure(const gmv_event_record *record, gmv_json_writer *writer)
{
    gmv_json_member_string(writer, "operation", record->failure.operation_id);
    gmv_json_member_int64(writer, "status", record->failure.http_status);
    gmv_json_member_string(writer, "code", record->failure.code);
    gmv_json_member_string(writer, "request_id", record->failure.request_id);
}

static void event_write_missed(const gmv_event_record *record, gmv_json_writer *writer)
{
    if (record->knows_missed)
        gmv_json_member_uint64(writer, "count", record->missed);
    else
        gmv_json_member_null(writer, "count");
}

void gmv_event_write(const gmv_events *events, const gmv_event_record *record, gmv_strbuf *out)
{
    static const struct {
        const char *name;
        void (*write)(const gmv_event_record *record, gmv_json_writer *writer);
    } types[GMV_EVENT_TYPE_COUNT] = {
        [GMV_EVENT_TYPE_CREATED] = {"created", event_write_handle},
        [GMV_EVENT_TYPE_DELETED] = {"deleted", event_write_handle},
        [GMV_EVENT_TYPE_EXPIRED] = {"expired", event_write_handle},
        [GMV_EVENT_TYPE_FREED] = {"freed", event_write_handle},
        [GMV_EVENT_TYPE_FAILED] = {"failed", event_write_failure},
        [GMV_EVENT_TYPE_MISSED] = {"missed", event_write_missed},
    };
    if (record->type != GMV_EVENT_TYPE_MISSED) {
        char id[GMV_EVENT_ID_MAX];
        events_format_id(events, record->sequence, id);
        gmv_strbuf_printf(out, "id: %s\n", id);
    }
    gmv_strbuf_printf(out, "event: %s\ndata: ", types[record->type].name);
    gmv_json_writer writer = gmv_json_writer_over(out);
    gmv_json_open_object(&writer);
    types[record->type].write(record, &writer);
    gmv_json_member_time(&writer, "at", record->at_ms, false);
    gmv_json_close_object(&writer);
    gmv_strbuf_puts(out, "\n\n");
}
