/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files that speak to libmicrohttpd share: server.c (threads, sockets, start and stop),
 * exchange*.c (the life of one request), respond.c (its answer), download.c (bodies that lie on a
 * device) and event_streams.c (bodies without an end).
 *
 * Who may touch an exchange. Its connection's HTTP thread, unless a job is under way; then the
 * worker has `request`, `reply`, `task_failed` and the stream members, and the HTTP thread none of
 * them. Giving a connection up (drain) leaves those members to the worker for good. All decisions
 * on who resumes a connection are taken under jobs_lock, in one place each.
 */
#ifndef GMV_HTTP_SERVER_PRIV_H
#define GMV_HTTP_SERVER_PRIV_H

#include <microhttpd.h>
#include <pthread.h>

#include "codec/multipart.h"
#include "http/head.h"
#include "http/idempotency.h"
#include "http/metrics.h"
#include "http/router.h"
#include "http/server.h"
#include "http/service.h"
#include "http/workers.h"

#define GMV_HTTP_THREADS_MAX    32
#define GMV_REQUEST_ID_MAX      129
#define GMV_INLINE_JSON_NBYTES  ((size_t)64 << 10)  /* longer bodies are parsed by a worker */
#define GMV_DROP_NBYTES         ((uint64_t)8 << 20) /* of a refused body, before the answer */
#define GMV_STAGING_NBYTES      ((size_t)1 << 20)
#define GMV_SOCKET_SEND_NBYTES  (64 << 10) /* the kernel doubles it; see senders.c */
#define GMV_CONNECTION_NBYTES   ((size_t)32 << 10)
#define GMV_SURPLUS_CONNECTIONS 64 /* beyond the limit: they hear 503 instead of nothing */
#define GMV_FETCH_NBYTES        ((uint64_t)64 << 10) /* of remote contents, before the answer */

typedef struct gmv_exchange gmv_exchange;
typedef struct gmv_downloads gmv_downloads;
typedef struct gmv_event_streams gmv_event_streams;

/* Requests whose answers have big bodies, while these are sent. */
typedef struct gmv_senders {
    pthread_mutex_t lock;
    /* all below guarded by lock */
    gmv_exchange *first;
    size_t count;
    size_t nbytes; /* of the send buffer of each */
} gmv_senders;

/* Requests whose octet-stream bodies are under way. */
typedef struct gmv_receivers {
    pthread_mutex_t lock;
    /* all below guarded by lock */
    gmv_exchange *first;
    size_t count;
} gmv_receivers;

struct gmv_server {
    gmv_service *service;
    gmv_server_options options;
    gmv_router *router;
    gmv_workers *workers;
    gmv_downloads *downloads;
    gmv_senders senders;
    gmv_receivers receivers;
    gmv_event_streams *event_streams;
    gmv_idempotency *idempotency;
    int64_t refreshed_at_ns; /* the maintenance thread's */
    bool checks_host;        /* bound to the loopback */
    char url[128];
    uint16_t port;
    char request_id_prefix[17]; /* of this process, random */
    atomic_uint_fast64_t request_id_next;

    int listen_fd;
    int stop_fd; /* an eventfd that ends the acceptor */
    pthread_t acceptor;
    bool has_acceptor;
    /* One daemon for each HTTP thread, fed by the acceptor: stopping then needs no quiescing. */
    struct MHD_Daemon *daemons[GMV_HTTP_THREADS_MAX];
    size_t n_daemons;

    atomic_uint n_connections;
    atomic_uint_fast64_t n_started, n_completed; /* requests */

    pthread_mutex_t jobs_lock;
    gmv_exchange *jobs; /* guarded by jobs_lock: exchanges whose connection is suspended */
    bool is_stopping;   /* guarded by jobs_lock: nothing is suspended any more */
};

/* A reply and what only the server adds to it. */
typedef struct gmv_answer {
    gmv_reply reply;
    const char *allow; /* 405 */
    bool is_retryable; /* Retry-After */
    bool closes;       /* the connection, behind it */
    bool is_replayed;  /* the first answer to an Idempotency-Key */
    char content_range[80];
    char multipart_type[GMV_BOUNDARY_MAX + 40]; /* "" unless the body has several parts */
} gmv_answer;

#define GMV_SEGMENTS_MAX (2 * GMV_RANGES_MAX + 1)

/* A stretch of a body: text of its own, or bytes of the contents from `first` on. */
typedef struct gmv_segment {
    const char *text; /* within the plan's; NULL: contents */
    uint64_t first, nbytes;
} gmv_segment;

/* What a body is put together from: contents whole, a range of them, or ranges with texts. */
typedef struct gmv_body_plan {
    uint64_t nbytes;
    size_t n_segments;
    gmv_segment segments[GMV_SEGMENTS_MAX];
    char *text; /* owned by whom holds the plan, or NULL */
} gmv_body_plan;

typedef enum gmv_task {
    GMV_TASK_NONE,
    GMV_TASK_HANDLE, /* the whole request */
    GMV_TASK_BEGIN,  /* of a stream; the two below begin it first if it has not begun */
    GMV_TASK_APPEND, /* what is staged */
    GMV_TASK_FINISH  /* with the rest of it */
} gmv_task;

struct gmv_exchange {
    gmv_job job;
    gmv_exchange *previous, *next;                   /* in server->jobs */
    gmv_exchange *previous_sender, *next_sender;     /* guarded by the lock of senders */
    gmv_exchange *previous_receiver, *next_receiver; /* these by the lock of receivers */
    bool is_receiver;
    int receiver_fd;
    atomic_int_fast64_t heard_at_ns; /* the client, by a receiver; INT64_MAX: it is not its turn */
    atomic_bool is_displaced;        /* its place was given to another */
    gmv_server *server;
    struct MHD_Connection *connection;
    atomic_uint references;   /* the connection's, and a job's */
    atomic_bool is_abandoned; /* set under jobs_lock */
    atomic_bool is_unheard;   /* likewise: what a job finds out reaches nobody */

    /* the HTTP thread's */
    bool is_examined, is_head_done, is_suspended;
    bool is_surplus; /* beyond the limit of connections */
    bool is_refused; /* `refusal` is the answer */
    bool is_answered;
    bool is_hurried; /* the client has closed its side before its body was here */
    bool has_gone_round;
    bool has_own_timeout; /* the connection has, for now */
    bool is_given_up;     /* seen is_abandoned: the worker's members are not ours any more */
    bool is_type_wrong;   /* refused with the first byte of the body */
    bool is_head_request;
    bool is_sender;
    int sender_fd;          /* of a sender */
    gmv_id session_id;      /* that the request bears; kind 0: none */
    char content_range[96]; /* copied, as the next: a worker may outlive the connection */
    char range[128];
    size_t once_key_length; /* of its Idempotency-Key; 0: none */
    char once_key[GMV_IDEMPOTENCY_KEY_MAX];
    gmv_method_label method_label;
    size_t route_index;
    gmv_route_match match;
    gmv_head head;
    uint64_t body_seen, body_dropped;
    int64_t started_at_ns, drop_until_ns;
    gmv_answer refusal;
    int http_status;
    char request_id[GMV_REQUEST_ID_MAX];

    /* the worker's while a job is under way */
    gmv_task task;
    uint32_t principal;          /* of the operation */
    gmv_idempotency_entry *once; /* of a request with a key that is being run */
    bool has_run;                /* `reply` is the answer */
    int64_t waits_since_ns;      /* GMV_RUN_AGAIN was first heard; 0: never */
    bool task_failed;
    gmv_lane lane; /* the lane that `task` holds a place in */
    gmv_request request;
    gmv_answer reply;
    char *body; /* JSON, owned */
    size_t body_capacity;
    bool has_begun;
    bool has_stream;        /* a place in the bulk lane, one of the receivers, and staging */
    unsigned char *staging; /* owned */
    size_t staging_capacity, staging_nbytes;

    char target[]; /* raw, as it came */
};

/* ---- server.c ---- */

/* Whether the library refuses heads that two readers could read differently: from 1.0 on. */
bool gmv__server_parses_strictly(void);

/* A fresh request id. */
void gmv__server_name_request(gmv_server *server, char out_id[GMV_REQUEST_ID_MAX]);

/* ---- exchange.c ---- */

void *gmv__exchange_on_target(void *server, const char *target, struct MHD_Connection *connection);
enum MHD_Result gmv__exchange_on_call(void *server, struct MHD_Connection *connection,
                                      const char *url, const char *method, const char *version,
                                      const char *upload, size_t *upload_nbytes, void **context);
void gmv__exchange_on_completed(void *server, struct MHD_Connection *connection, void **context,
                                enum MHD_RequestTerminationCode code);

/* In exchange_jobs.c: gives up every suspended request; none is suspended afterwards. */
void gmv__exchange_abandon_all(gmv_server *server);

/* Tells long work whose client is gone to stop. For the maintenance thread. */
void gmv__exchange_sweep(gmv_server *server);

/* ---- download.c ---- */

/* @newref: gmv__downloads_destroy. */
GMV_NODISCARD gmv_status gmv__downloads_create(gmv_server *server, uint32_t max_chunks,
                                               gmv_downloads **out_downloads, gmv_error *err);

/* When all responses and jobs are gone. NULL: nothing. */
void gmv__downloads_destroy(gmv_downloads *downloads);

/* Cuts what is under way; nothing is suspended afterwards. NULL: nothing. */
void gmv__downloads_stop(gmv_downloads *downloads);

/* Takes staging back from clients that do not read. For the maintenance thread. */
void gmv__downloads_sweep(gmv_downloads *downloads);

/*
 * A response whose body (at least 1 byte) is put together from remote bytes. Takes `bytes` and the
 * plan's text over on success. NULL without memory.
 */
struct MHD_Response *gmv__download_respond(gmv_exchange *exchange, const gmv_bytes *bytes,
                                           const gmv_body_plan *plan);

/* ---- senders.c ---- */

void gmv__senders_init(gmv_senders *senders);
void gmv__senders_fini(gmv_senders *senders);

/* A body of so many bytes is about to be sent; on the HTTP thread, as the next. */
void gmv__senders_join(gmv_exchange *exchange, uint64_t body_nbytes);

/* The answer is sent or given up, and the socket not closed yet. A request that has not joined:
 * nothing. */
void gmv__senders_leave(gmv_exchange *exchange);

/* ---- receivers.c ---- */

void gmv__receivers_init(gmv_receivers *receivers);
void gmv__receivers_fini(gmv_receivers *receivers);

/* Whether there is a place for one more octet-stream body; on the HTTP thread, as the next two. */
bool gmv__receivers_join(gmv_exchange *exchange);

/* Something has come, or the client may go on to send. */
void gmv__receivers_hear(gmv_exchange *exchange);

/* The client waits for the daemon, however long. */
void gmv__receivers_excuse(gmv_exchange *exchange);

/* The body has ended or was given up. A request that has no place: nothing. */
void gmv__receivers_leave(gmv_exchange *exchange);

/* ---- event_streams.c ---- */

/* @newref: gmv__event_streams_destroy, when all responses and jobs are gone. */
GMV_NODISCARD gmv_status gmv__event_streams_create(gmv_server *server,
                                                   gmv_event_streams **out_streams, gmv_error *err);
void gmv__event_streams_destroy(gmv_event_streams *streams);

/* Once there are workers. */
void gmv__event_streams_start(gmv_event_streams *streams);

/* Ends them all; nothing is suspended afterwards. NULL: nothing. */
void gmv__event_streams_stop(gmv_event_streams *streams);

/* Closes those whose clients do not read to the end that they were sent. NULL: nothing. */
void gmv__event_streams_cut(gmv_event_streams *streams);

/* Sends a sign of life where nothing else was sent. For the maintenance thread. */
void gmv__event_streams_tick(gmv_event_streams *streams);

/* A response without an end. Takes the reader's place over on success. NULL without memory. */
struct MHD_Response *gmv__event_stream_respond(gmv_exchange *exchange,
                                               const gmv_event_reader *reader);

/* ---- respond.c ---- */

/* Turns an error into an answer; what the answer held before is let go. */
void gmv__answer_error(gmv_answer *answer, const gmv_error *err, const char *request_id);
void gmv__answer_fini(gmv_answer *answer);

/* Queues the answer and empties it. */
enum MHD_Result gmv__respond(gmv_exchange *exchange, gmv_answer *answer);

/*
 * Writes a refusal straight to the socket of a connection that libmicrohttpd is about to close: in
 * the middle of a body it takes no answer. Never waits; what does not fit is lost.
 */
void gmv__respond_raw(gmv_exchange *exchange, gmv_answer *answer);

#endif
