/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What happens to handles, as a bounded ring of records: whoever reads too slowly misses the oldest
 * and learns how many they were. Adding never waits for a reader and allocates nothing.
 * Thread-safe.
 */
#ifndef GMV_HTTP_EVENTS_H
#define GMV_HTTP_EVENTS_H

#include <gmv/gmv.h>

#define GMV_EVENTS_MAX        8192u
#define GMV_EVENT_STREAMS_MAX 64u /* readers at once */
#define GMV_EVENT_ID_MAX      48  /* "0123456789abcdef-17" and a NUL */

typedef struct gmv_events gmv_events;

typedef enum gmv_event_type {
    GMV_EVENT_TYPE_CREATED,
    GMV_EVENT_TYPE_DELETED,
    GMV_EVENT_TYPE_EXPIRED, /* deleted, because its lease ran out */
    GMV_EVENT_TYPE_FREED,
    GMV_EVENT_TYPE_FAILED,
    GMV_EVENT_TYPE_MISSED, /* never in the ring: made for a reader */
    GMV_EVENT_TYPE_COUNT
} gmv_event_type;

/* A request that failed for want of something or through a fault, not by being wrong. */
typedef struct gmv_event_failure {
    const char *operation_id; /* static, as is the code */
    const char *code;
    int http_status;
    char request_id[129];
} gmv_event_failure;

typedef struct gmv_event_record {
    uint64_t sequence;
    gmv_event_type type;
    uint32_t principal;
    int64_t at_ms;
    gmv_id id;      /* the four of a handle or session */
    gmv_id session; /* kind 0: none */
    bool named;
    const char *reason; /* static or NULL */
    uint64_t nbytes;
    gmv_event_failure failure;
    bool knows_missed; /* MISSED: how many is known */
    uint64_t missed;
} gmv_event_record;

/* @newref: gmv_events_destroy. */
GMV_NODISCARD gmv_status gmv_events_create(gmv_events **out_events, gmv_error *err);
void gmv_events_destroy(gmv_events *events);

/* An observer of a registry (gmv_registry_options.observe); `events` is the context. */
void gmv_events_observe(void *events, gmv_event event, const gmv_node *node);

void gmv_events_add_failure(gmv_events *events, uint32_t principal, const char *operation_id,
                            const gmv_error *err, int http_status, const char *request_id);

/* Called, under a lock and so without waiting, whenever something was added; NULL: no more. */
void gmv_events_on_added(gmv_events *events, void (*notify)(void *context), void *context);

/* ---- reading ---- */

typedef struct gmv_event_reader {
    gmv_events *events;
    uint32_t principal;
    bool sees_all;
    bool has_gap;  /* what was missed before cannot be counted */
    uint64_t next; /* the sequence number that comes next */
} gmv_event_reader;

/* Takes one of the places for readers; false when all are taken. Given back by gmv_events_leave. */
GMV_NODISCARD bool gmv_events_enter(gmv_events *events);
void gmv_events_leave(gmv_events *events);

/*
 * A reader of what is added from now on, or of what came behind `last_id` (not NUL-terminated;
 * NULL: none). An id of another process leaves a gap. False: the text is no id.
 */
GMV_NODISCARD bool gmv_event_reader_init(gmv_event_reader *reader, gmv_events *events,
                                         const gmv_caller *caller, const char *last_id,
                                         size_t length);

/* The next record that the reader may see; false when there is none yet. */
GMV_NODISCARD bool gmv_event_read(gmv_event_reader *reader, gmv_event_record *out_record);

/* Appends a record as server-sent event: id (none for MISSED), event, data. */
void gmv_event_write(const gmv_events *events, const gmv_event_record *record, gmv_strbuf *out);

#endif
