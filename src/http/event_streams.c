/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams of events. A stream holds no thread: while there is nothing to send its connection is
 * suspended, and whoever adds an event has the maintenance thread resume those that wait. A comment
 * goes out now and then, so that a client that has gone is noticed. One that does not read keeps
 * its place in the ring's past, and hears what it has missed when it reads on; the library closes
 * it when it has taken nothing for the connection's time-out.
 *
 * All decisions on who suspends and who resumes are taken under one lock, which comes before the
 * ring's.
 */
#include "config.h"

#include "http/server_priv.h"

#include <string.h>
#include <sys/socket.h>

#define STREAM_BLOCK_NBYTES ((size_t)4 << 10)
#define STREAM_QUIET_NS     10000000000 /* then a comment is sent */
#define STREAM_TEXT_NBYTES  2048        /* what is written ahead of the socket */

typedef struct gmv_event_stream gmv_event_stream;

struct gmv_event_streams {
    gmv_server *server;
    gmv_job wake; /* the maintenance thread's, queued at most once */
    atomic_bool is_waking;
    atomic_uint n_open;
    pthread_mutex_t lock; /* guards from here, and all streams */
    gmv_event_stream *all;
    bool is_stopping; /* nothing is suspended any more */
};

struct gmv_event_stream {
    gmv_event_streams *streams;
    struct MHD_Connection *connection;
    gmv_event_stream *previous, *next;
    gmv_event_reader reader;
    gmv_strbuf text; /* to be sent, from `sent` on */
    size_t sent;
    bool is_suspended;
    bool needs_comment;
    int64_t wrote_at_ns;
};

/* ---- one stream (under the lock) ---- */

/* Writes events until there is a block of them or none is left. */
static void stream_fill(gmv_event_stream *stream)
{
    gmv_event_record record;
    stream->text.length = 0;
    stream->sent = 0;
    while (stream->text.length < STREAM_TEXT_NBYTES && gmv_event_read(&stream->reader, &record))
        gmv_event_write(stream->reader.events, &record, &stream->text);
    if (stream->text.length == 0 && stream->needs_comment)
        gmv_strbuf_puts(&stream->text, ":\n\n");
    stream->needs_comment = false;
}

static ssize_t stream_take(gmv_event_stream *stream, char *out, size_t max)
{
    size_t nbytes = GMV_MIN(stream->text.length - stream->sent, max);
    if (nbytes > 0)
        memcpy(out, stream->text.data + stream->sent, nbytes);
    stream->sent += nbytes;
    stream->wrote_at_ns = gmv_clock_monotonic_ns();
    return (ssize_t)nbytes;
}

static ssize_t stream_read(gmv_event_stream *stream, char *out, size_t max)
{
    if (stream->streams->is_stopping)
        return MHD_CONTENT_READER_END_OF_STREAM;
    if (stream->sent == stream->text.length)
        stream_fill(stream);
    if (gmv_strbuf_failed(&stream->text))
        return MHD_CONTENT_READER_END_WITH_ERROR;
    if (stream->sent < stream->text.length)
        return stream_take(stream, out, max);
    stream->is_suspended = true;
    MHD_suspend_connection(stream->connection);
    return 0;
}

static void stream_resume(gmv_event_stream *stream)
{
    if (!stream->is_suspended)
        return;
    stream->is_suspended = false;
    MHD_resume_connection(stream->connection);
}

/* ---- what the library calls, on the HTTP thread ---- */

static ssize_t stream_on_read(void *context, uint64_t position, char *out, size_t max)
{
    gmv_event_stream *stream = context;
    pthread_mutex_lock(&stream->streams->lock);
    ssize_t result = stream_read(stream, out, max);
    pthread_mutex_unlock(&stream->streams->lock);
    return result;
}

static void stream_free(gmv_event_stream *stream)
{
    gmv_strbuf_fini(&stream->text);
    gmv_free(stream);
}

/* The response dies, so the connection is not suspended. */
static void stream_on_free(void *context)
{
    gmv_event_stream *stream = context;
    gmv_event_streams *streams = stream->streams;
    pthread_mutex_lock(&streams->lock);
    if (stream->previous)
        stream->previous->next = stream->next;
    else
        streams->all = stream->next;
    if (stream->next)
        stream->next->previous = stream->previous;
    pthread_mutex_unlock(&streams->lock);
    atomic_fetch_sub(&streams->n_open, 1);
    gmv_events_leave(stream->reader.events);
    stream_free(stream);
}

struct MHD_Response *gmv__event_stream_respond(gmv_exchange *exchange,
                                               const gmv_event_reader *reader)
{
    gmv_event_streams *streams = exchange->server->event_streams;
    gmv_event_stream *stream = gmv_calloc(1, sizeof *stream);
    if (!stream)
        return NULL;
    stream->streams = streams;
    stream->connection = exchange->connection;
    stream->reader = *reader;
    /* Something to begin with: clients then know that they are connected. */
    gmv_strbuf_puts(&stream->text, "retry: 1000\n\n");
    struct MHD_Response *response = MHD_create_response_from_callback(
        MHD_SIZE_UNKNOWN, STREAM_BLOCK_NBYTES, stream_on_read, stream, stream_on_free);
    if (!response) {
        stream_free(stream);
        return NULL;
    }
    /* To HEAD libmicrohttpd would send the last chunk, which clients take for the next answer. */
    if (exchange->is_head_request)
        (void)MHD_set_response_options(response, MHD_RF_HTTP_1_0_COMPATIBLE_STRICT, MHD_RO_END);
    atomic_fetch_add(&streams->n_open, 1);
    pthread_mutex_lock(&streams->lock);
    stream->next = streams->all;
    if (stream->next)
        stream->next->previous = stream;
    streams->all = stream;
    pthread_mutex_unlock(&streams->lock);
    return response;
}

/* ---- waking ---- */

static void streams_resume_all(gmv_event_streams *streams)
{
    for (gmv_event_stream *stream = streams->all; stream; stream = stream->next)
        stream_resume(stream);
}

/* On the maintenance thread. What is added from here on queues the job again. */
static void streams_wake(gmv_job *job, gmv_lane lane, gmv_stream *const *device_streams)
{
    gmv_event_streams *streams = GMV_CONTAINER_OF(job, gmv_event_streams, wake);
    atomic_store(&streams->is_waking, false);
    pthread_mutex_lock(&streams->lock);
    streams_resume_all(streams);
    pthread_mutex_unlock(&streams->lock);
}

/* Under the ring's lock, on any thread. */
static void streams_on_added(void *context)
{
    gmv_event_streams *streams = context;
    if (atomic_load(&streams->n_open) > 0 && !atomic_exchange(&streams->is_waking, true))
        gmv_workers_maintain(streams->server->workers, &streams->wake);
}

void gmv__event_streams_tick(gmv_event_streams *streams)
{
    if (!streams || atomic_load(&streams->n_open) == 0)
        return;
    int64_t now = gmv_clock_monotonic_ns();
    pthread_mutex_lock(&streams->lock);
    for (gmv_event_stream *stream = streams->all; stream; stream = stream->next) {
        if (!stream->is_suspended || now - stream->wrote_at_ns < STREAM_QUIET_NS)
            continue;
        stream->needs_comment = true;
        stream_resume(stream);
    }
    pthread_mutex_unlock(&streams->lock);
}

/* ---- start and stop ---- */

gmv_status gmv__event_streams_create(gmv_server *server, gmv_event_streams **out_streams,
                                     gmv_error *err)
{
    gmv_event_streams *streams = gmv_calloc(1, sizeof *streams);
    if (!streams)
        return gmv_fail_no_memory(err);
    streams->server = server;
    streams->wake.run = streams_wake;
    pthread_mutex_init(&streams->lock, NULL);
    *out_streams = streams;
    return GMV_OK;
}

void gmv__event_streams_start(gmv_event_streams *streams)
{
    gmv_events_on_added(streams->server->service->events, streams_on_added, streams);
}

void gmv__event_streams_stop(gmv_event_streams *streams)
{
    if (!streams)
        return;
    gmv_events_on_added(streams->server->service->events, NULL, NULL);
    pthread_mutex_lock(&streams->lock);
    streams->is_stopping = true;
    streams_resume_all(streams);
    pthread_mutex_unlock(&streams->lock);
}

void gmv__event_streams_cut(gmv_event_streams *streams)
{
    if (!streams)
        return;
    pthread_mutex_lock(&streams->lock);
    for (gmv_event_stream *stream = streams->all; stream; stream = stream->next) {
        const union MHD_ConnectionInfo *info =
            MHD_get_connection_info(stream->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
        if (info)
            (void)shutdown(info->connect_fd, SHUT_RDWR);
    }
    pthread_mutex_unlock(&streams->lock);
}

void gmv__event_streams_destroy(gmv_event_streams *streams)
{
    if (!streams)
        return;
    pthread_mutex_destroy(&streams->lock);
    gmv_free(streams);
}
