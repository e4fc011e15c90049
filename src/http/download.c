/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bodies that lie on a device. A bulk worker copies them chunk by chunk into staging, of which
 * there is a bounded number of chunks for all connections; the HTTP thread hands them on. While it
 * has no chunk to send the connection is suspended, and while it sends one the next is read.
 *
 * All decisions are taken under one lock: who suspends, who resumes, and whose a chunk is. Chunks
 * limit the jobs, too, so a job needs no place in the bulk lane. Staging is never held for a client
 * that has stopped to read: a sweep takes it back, and it is read again when the client comes back.
 */
#include "config.h"

#include "http/server_priv.h"

#include <string.h>

#define DOWNLOAD_BLOCK_NBYTES ((size_t)64 << 10) /* what the library keeps of each answer */
#define DOWNLOAD_STALE_NS     2000000000         /* staging not looked at is taken back */
#define DOWNLOAD_SCARCE_NS    250000000          /* the same while others wait for staging */
#define DOWNLOAD_SWEEP_NS     100000000

typedef struct gmv_download gmv_download;

typedef struct download_chunk {
    struct download_chunk *next;
    unsigned char bytes[GMV_STAGING_NBYTES];
} download_chunk;

/* A chunk and what it holds: bytes of the body from `first` on. Without a chunk: nothing. */
typedef struct download_piece {
    download_chunk *chunk;
    uint64_t first, nbytes;
} download_piece;

struct gmv_downloads {
    gmv_workers *const *workers;
    pthread_mutex_t lock;
    /* all below guarded by lock */
    gmv_download *all;
    gmv_download *first_waiting, *last_waiting; /* for a chunk */
    download_chunk *free;
    uint32_t n_chunks, max_chunks;
    int64_t swept_at_ns;
    bool is_stopping; /* nothing is suspended any more */
};

struct gmv_download {
    gmv_job job;
    gmv_downloads *downloads;
    struct MHD_Connection *connection;
    gmv_bytes bytes;
    gmv_body_plan plan;
    size_t device_index;
    /* all below guarded by the lock of downloads */
    gmv_download *previous, *next;
    gmv_download *next_waiting;
    download_piece current; /* being sent */
    download_piece ahead;   /* behind it; the job's while it reads */
    uint64_t wanted;        /* waiting: position of the byte that comes next */
    bool is_reading;        /* a job is under way */
    bool is_copying;        /* the HTTP thread reads `current` */
    bool is_suspended;
    bool is_closed; /* the response is gone; a job that is under way frees all */
    bool has_failed;
    int64_t looked_at_ns;
};

static void download_run(gmv_job *job, gmv_lane lane, gmv_stream *const *streams);

/* ---- chunks (all under the lock) ---- */

/* A chunk, or NULL when all are in use. */
static download_chunk *chunks_take(gmv_downloads *downloads)
{
    download_chunk *chunk = downloads->free;
    if (chunk) {
        downloads->free = chunk->next;
        return chunk;
    }
    if (downloads->n_chunks == downloads->max_chunks)
        return NULL;
    chunk = gmv_malloc(sizeof *chunk);
    downloads->n_chunks += chunk ? 1 : 0;
    return chunk;
}

static void download_start(gmv_download *download, download_chunk *chunk, uint64_t position)
{
    uint64_t left = download->plan.nbytes - position;
    download->ahead = (download_piece){chunk, position, GMV_MIN(left, sizeof chunk->bytes)};
    download->is_reading = true;
    gmv_workers_enqueue(*download->downloads->workers, GMV_LANE_BULK, &download->job);
}

/* Gives a chunk to the one who has waited longest, or back. */
static void chunks_put(gmv_downloads *downloads, download_chunk *chunk)
{
    gmv_download *waiting = downloads->first_waiting;
    if (!waiting) {
        chunk->next = downloads->free;
        downloads->free = chunk;
        return;
    }
    downloads->first_waiting = waiting->next_waiting;
    if (!downloads->first_waiting)
        downloads->last_waiting = NULL;
    download_start(waiting, chunk, waiting->wanted);
}

static void chunks_free(gmv_downloads *downloads)
{
    while (downloads->free) {
        download_chunk *chunk = downloads->free;
        downloads->free = chunk->next;
        downloads->n_chunks--;
        gmv_free(chunk);
    }
}

static void piece_drop(gmv_downloads *downloads, download_piece *piece)
{
    download_chunk *chunk = piece->chunk;
    *piece = (download_piece){0};
    if (chunk)
        chunks_put(downloads, chunk);
}

static bool piece_holds(const download_piece *piece, uint64_t position)
{
    return piece->chunk && position >= piece->first && position - piece->first < piece->nbytes;
}

/* ---- one download ---- */

static void download_wait(gmv_download *download, uint64_t position)
{
    gmv_downloads *downloads = download->downloads;
    download->wanted = position;
    download->next_waiting = NULL;
    if (downloads->last_waiting)
        downloads->last_waiting->next_waiting = download;
    else
        downloads->first_waiting = download;
    downloads->last_waiting = download;
}

/* Makes `current` the piece that holds the position, if there is one. */
static void download_advance(gmv_download *download, uint64_t position)
{
    gmv_downloads *downloads = download->downloads;
    if (download->current.chunk && !piece_holds(&download->current, position))
        piece_drop(downloads, &download->current);
    if (download->current.chunk || download->is_reading)
        return;
    if (!piece_holds(&download->ahead, position)) {
        piece_drop(downloads, &download->ahead);
        return;
    }
    download->current = download->ahead;
    download->ahead = (download_piece){0};
}

/* Reads on behind `current`, if there is staging to spare. */
static void download_read_ahead(gmv_download *download)
{
    uint64_t position = download->current.first + download->current.nbytes;
    if (download->is_reading || download->ahead.chunk || position >= download->plan.nbytes)
        return;
    download_chunk *chunk = chunks_take(download->downloads);
    if (chunk)
        download_start(download, chunk, position);
}

/* Suspends until the position has been read. False when it never can be. */
static bool download_suspend(gmv_download *download, uint64_t position)
{
    gmv_downloads *downloads = download->downloads;
    download_chunk *chunk = download->is_reading ? NULL : chunks_take(downloads);
    if (!download->is_reading && !chunk && downloads->n_chunks == 0)
        return false;
    download->is_suspended = true;
    MHD_suspend_connection(download->connection);
    if (chunk)
        download_start(download, chunk, position);
    else if (!download->is_reading)
        download_wait(download, position);
    return true;
}

/* Copies from `current`, whose chunk nobody takes meanwhile. Leaves the lock for that. */
static size_t download_copy(gmv_download *download, uint64_t position, char *out, size_t max)
{
    gmv_downloads *downloads = download->downloads;
    const download_piece piece = download->current;
    uint64_t offset = position - piece.first;
    size_t nbytes = (size_t)GMV_MIN(piece.nbytes - offset, (uint64_t)max);
    download_read_ahead(download);
    download->is_copying = true;
    pthread_mutex_unlock(&downloads->lock);
    memcpy(out, piece.chunk->bytes + offset, nbytes);
    pthread_mutex_lock(&downloads->lock);
    download->is_copying = false;
    if (offset + nbytes == piece.nbytes)
        piece_drop(downloads, &download->current);
    return nbytes;
}

/* libmicrohttpd wants up to `max` bytes of the body; on the HTTP thread. */
static ssize_t download_on_read(void *context, uint64_t position, char *out, size_t max)
{
    gmv_download *download = context;
    gmv_downloads *downloads = download->downloads;
    ssize_t result = 0;
    pthread_mutex_lock(&downloads->lock);
    download->looked_at_ns = gmv_clock_monotonic_ns();
    download_advance(download, position);
    if (download->has_failed || downloads->is_stopping)
        result = MHD_CONTENT_READER_END_WITH_ERROR;
    else if (download->current.chunk)
        result = (ssize_t)download_copy(download, position, out, max);
    else if (!download_suspend(download, position))
        result = MHD_CONTENT_READER_END_WITH_ERROR;
    pthread_mutex_unlock(&downloads->lock);
    return result;
}

static void download_free(gmv_download *download)
{
    gmv_bytes_release(&download->bytes);
    gmv_free(download->plan.text);
    gmv_free(download);
}

static void download_unlink(gmv_download *download)
{
    if (download->previous)
        download->previous->next = download->next;
    else
        download->downloads->all = download->next;
    if (download->next)
        download->next->previous = download->previous;
}

/* The response dies, so the connection is not suspended; on the HTTP thread. */
static void download_on_free(void *context)
{
    gmv_download *download = context;
    gmv_downloads *downloads = download->downloads;
    pthread_mutex_lock(&downloads->lock);
    download->is_closed = true;
    download_unlink(download);
    piece_drop(downloads, &download->current);
    bool is_reading = download->is_reading;
    if (!is_reading)
        piece_drop(downloads, &download->ahead);
    pthread_mutex_unlock(&downloads->lock);
    if (!is_reading)
        download_free(download);
}

/* ---- the worker's part ---- */

static bool download_is_wanted(gmv_download *download)
{
    gmv_downloads *downloads = download->downloads;
    pthread_mutex_lock(&downloads->lock);
    bool is_wanted = !download->is_closed && !downloads->is_stopping;
    pthread_mutex_unlock(&downloads->lock);
    return is_wanted;
}

/* Puts together bytes [position, position + nbytes) of the body. */
static gmv_status download_assemble(const gmv_download *download, gmv_stream *stream,
                                    uint64_t position, unsigned char *out, uint64_t nbytes,
                                    gmv_error *err)
{
    uint64_t start = 0;
    for (const gmv_segment *segment = download->plan.segments; nbytes > 0; segment++) {
        uint64_t end = start + segment->nbytes;
        if (position < end) {
            uint64_t offset = position - start;
            uint64_t taken = GMV_MIN(nbytes, segment->nbytes - offset);
            if (segment->text)
                memcpy(out, segment->text + offset, (size_t)taken);
            else
                GMV_TRY(gmv_bytes_read(&download->bytes, stream, segment->first + offset, out,
                                       taken, err));
            position += taken;
            out += taken;
            nbytes -= taken;
        }
        start = end;
    }
    return GMV_OK;
}

static bool download_fetch(gmv_download *download, gmv_stream *stream)
{
    const download_piece *piece = &download->ahead;
    gmv_error err;
    gmv_error_init(&err);
    if (download_assemble(download, stream, piece->first, piece->chunk->bytes, piece->nbytes,
                          &err) == GMV_OK)
        return true;
    gmv_log(GMV_LOG_WARNING, "download_cut", gmv_log_text("code", gmv_status_code(err.status)),
            gmv_log_text("message", err.message));
    return false;
}

static void download_run(gmv_job *job, gmv_lane lane, gmv_stream *const *streams)
{
    gmv_download *download = GMV_CONTAINER_OF(job, gmv_download, job);
    gmv_downloads *downloads = download->downloads;
    bool is_read =
        download_is_wanted(download) && download_fetch(download, streams[download->device_index]);
    pthread_mutex_lock(&downloads->lock);
    download->is_reading = false;
    download->has_failed = download->has_failed || !is_read;
    bool is_closed = download->is_closed;
    if (is_closed || !is_read)
        piece_drop(downloads, &download->ahead);
    if (!is_closed && download->is_suspended) {
        download->is_suspended = false;
        MHD_resume_connection(download->connection);
    }
    pthread_mutex_unlock(&downloads->lock);
    /* An open one may be gone by now: it is the HTTP thread's. */
    if (is_closed)
        download_free(download);
}

/* ---- all downloads ---- */

gmv_status gmv__downloads_create(gmv_server *server, uint32_t max_chunks,
                                 gmv_downloads **out_downloads, gmv_error *err)
{
    gmv_downloads *downloads = gmv_calloc(1, sizeof *downloads);
    if (!downloads)
        return gmv_fail_no_memory(err);
    downloads->workers = &server->workers;
    downloads->max_chunks = max_chunks;
    pthread_mutex_init(&downloads->lock, NULL);
    *out_downloads = downloads;
    return GMV_OK;
}

void gmv__downloads_destroy(gmv_downloads *downloads)
{
    if (!downloads)
        return;
    chunks_free(downloads);
    pthread_mutex_destroy(&downloads->lock);
    gmv_free(downloads);
}

void gmv__downloads_stop(gmv_downloads *downloads)
{
    if (!downloads)
        return;
    pthread_mutex_lock(&downloads->lock);
    downloads->is_stopping = true;
    downloads->first_waiting = NULL;
    downloads->last_waiting = NULL;
    for (gmv_download *download = downloads->all; download; download = download->next) {
        if (!download->is_suspended)
            continue;
        download->is_suspended = false;
        MHD_resume_connection(download->connection);
    }
    pthread_mutex_unlock(&downloads->lock);
}

void gmv__downloads_sweep(gmv_downloads *downloads)
{
    int64_t now = gmv_clock_monotonic_ns();
    pthread_mutex_lock(&downloads->lock);
    bool is_due = now - downloads->swept_at_ns >= DOWNLOAD_SWEEP_NS;
    if (is_due)
        downloads->swept_at_ns = now;
    int64_t stale = downloads->first_waiting ? DOWNLOAD_SCARCE_NS : DOWNLOAD_STALE_NS;
    for (gmv_download *download = is_due ? downloads->all : NULL; download;
         download = download->next) {
        bool is_busy = download->is_suspended || download->is_copying || download->is_reading;
        if (is_busy || now - download->looked_at_ns < stale)
            continue;
        piece_drop(downloads, &download->current);
        piece_drop(downloads, &download->ahead);
    }
    if (is_due && !downloads->all)
        chunks_free(downloads);
    pthread_mutex_unlock(&downloads->lock);
}

struct MHD_Response *gmv__download_respond(gmv_exchange *exchange, const gmv_bytes *bytes,
                                           const gmv_body_plan *plan)
{
    gmv_downloads *downloads = exchange->server->downloads;
    gmv_download *download = gmv_calloc(1, sizeof *download);
    if (!download)
        return NULL;
    *download = (gmv_download){
        .job.run = download_run,
        .downloads = downloads,
        .connection = exchange->connection,
        .bytes = *bytes,
        .plan = *plan,
        .device_index = gmv_engine_device_index(bytes->engine, gmv_bytes_device(bytes)),
        .looked_at_ns = gmv_clock_monotonic_ns(),
    };
    struct MHD_Response *response = MHD_create_response_from_callback(
        plan->nbytes, DOWNLOAD_BLOCK_NBYTES, download_on_read, download, download_on_free);
    if (!response) {
        gmv_free(download);
        return NULL;
    }
    pthread_mutex_lock(&downloads->lock);
    download->next = downloads->all;
    if (download->next)
        download->next->previous = download;
    downloads->all = download;
    pthread_mutex_unlock(&downloads->lock);
    return response;
}
