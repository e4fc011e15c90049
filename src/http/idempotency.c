/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hash table of entries, and a list of those that are over, the oldest first. Answers are
 * counted, so that they are copied without the lock.
 */
#include "config.h"

#include "http/idempotency.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <gmv/base/alloc.h>
#include <gmv/base/clock.h>

#include "codec/siphash.h"

#define IDEMPOTENCY_BUCKETS 16384u
#define IDEMPOTENCY_STEP    64u /* entries forgotten in one hold of the lock */
#define IDEMPOTENCY_KEEP_NS ((int64_t)GMV_IDEMPOTENCY_SECONDS * 1000000000)

/* The first answer. */
typedef struct idempotency_answer {
    atomic_uint references;
    int http_status;
    gmv_caching caching;
    const char *content_type;
    char location[GMV_LOCATION_MAX];
    char etag[GMV_ETAG_MAX];
    size_t nbytes;
    char text[];
} idempotency_answer;

struct gmv_idempotency_entry {
    gmv_idempotency_entry *hash_next;
    gmv_idempotency_entry *next; /* among those that are over */
    uint64_t hash, fingerprint;
    uint32_t principal;
    bool is_over;
    idempotency_answer *answer; /* NULL while it runs, and when it could not be kept */
    int64_t until_ns;
    size_t key_length;
    char key[];
};

struct gmv_idempotency {
    pthread_mutex_t lock; /* guards from here */
    gmv_idempotency_entry *first, *last;
    size_t n_over;
    size_t nbytes; /* of answers */
    gmv_idempotency_entry *buckets[IDEMPOTENCY_BUCKETS];
};

bool gmv_idempotency_key_is_valid(const char *text, size_t length)
{
    if (length < 1 || length > GMV_IDEMPOTENCY_KEY_MAX)
        return false;
    for (size_t i = 0; i < length; i++)
        if (text[i] < 0x21 || text[i] > 0x7e)
            return false;
    return true;
}

gmv_status gmv_idempotency_create(gmv_idempotency **out_table, gmv_error *err)
{
    gmv_idempotency *table = gmv_calloc(1, sizeof *table);
    if (!table)
        return gmv_fail_no_memory(err);
    pthread_mutex_init(&table->lock, NULL);
    *out_table = table;
    return GMV_OK;
}

static void answer_unref(idempotency_answer *answer)
{
    if (answer && atomic_fetch_sub(&answer->references, 1) == 1)
        gmv_free(answer);
}

/* Frees a list of entries that are in no table any more. */
static void entries_free(gmv_idempotency_entry *entry)
{
    while (entry) {
        gmv_idempotency_entry *next = entry->next;
        answer_unref(entry->answer);
        gmv_free(entry);
        entry = next;
    }
}

void gmv_idempotency_destroy(gmv_idempotency *table)
{
    if (!table)
        return;
    entries_free(table->first);
    pthread_mutex_destroy(&table->lock);
    gmv_free(table);
}

/* ---- under the lock ---- */

static gmv_idempotency_entry **table_bucket(gmv_idempotency *table, uint64_t hash)
{
    return &table->buckets[hash % IDEMPOTENCY_BUCKETS];
}

static gmv_idempotency_entry *table_find(gmv_idempotency *table, uint64_t hash,
                                         const gmv_idempotent_request *request)
{
    gmv_idempotency_entry *entry = *table_bucket(table, hash);
    while (entry && !(entry->hash == hash && entry->principal == request->principal &&
                      entry->key_length == request->key_length &&
                      memcmp(entry->key, request->key, request->key_length) == 0))
        entry = entry->hash_next;
    return entry;
}

static void table_unlink(gmv_idempotency *table, gmv_idempotency_entry *entry)
{
    gmv_idempotency_entry **link = table_bucket(table, entry->hash);
    while (*link != entry)
        link = &(*link)->hash_next;
    *link = entry->hash_next;
}

static bool table_is_too_full(const gmv_idempotency *table)
{
    return table->n_over > GMV_IDEMPOTENCY_KEYS_MAX || table->nbytes > GMV_IDEMPOTENCY_NBYTES_MAX;
}

/* Takes out what is too old or too much; a bounded number, to be freed without the lock. */
static gmv_idempotency_entry *table_take_stale(gmv_idempotency *table, int64_t now)
{
    gmv_idempotency_entry *stale = NULL;
    for (unsigned budget = IDEMPOTENCY_STEP; table->first && budget > 0; budget--) {
        gmv_idempotency_entry *entry = table->first;
        if (now < entry->until_ns && !table_is_too_full(table))
            break;
        table->first = entry->next;
        if (!table->first)
            table->last = NULL;
        table->n_over--;
        table->nbytes -= entry->answer ? entry->answer->nbytes : 0;
        table_unlink(table, entry);
        entry->next = stale;
        stale = entry;
    }
    return stale;
}

static void table_append(gmv_idempotency *table, gmv_idempotency_entry *entry)
{
    entry->next = NULL;
    if (table->last)
        table->last->next = entry;
    else
        table->first = entry;
    table->last = entry;
    table->n_over++;
    table->nbytes += entry->answer ? entry->answer->nbytes : 0;
}

/* What an entry of the same key means for a request; takes a reference on its answer. */
static gmv_status entry_judge(const gmv_idempotency_entry *entry,
                              const gmv_idempotent_request *request,
                              idempotency_answer **out_answer, gmv_error *err)
{
    if (entry->fingerprint != request->fingerprint)
        return gmv_fail_parameter(err, GMV_ERR_IDEMPOTENCY_MISMATCH, "Idempotency-Key",
                                  "the key belongs to another request");
    if (!entry->is_over)
        return gmv_fail_parameter(err, GMV_ERR_IDEMPOTENCY_IN_FLIGHT, "Idempotency-Key",
                                  "the first request with this key still runs");
    if (!entry->answer)
        return gmv_fail_parameter(err, GMV_ERR_QUOTA_EXCEEDED, "Idempotency-Key",
                                  "the request has been carried out, but its answer was too long "
                                  "to be kept; look among the handles for what it made");
    atomic_fetch_add(&entry->answer->references, 1);
    *out_answer = entry->answer;
    return GMV_OK;
}

/* ---- without it ---- */

static uint64_t request_hash(const gmv_idempotent_request *request)
{
    gmv_siphash hash;
    gmv_siphash_init(&hash);
    gmv_siphash_add(&hash, &request->principal, sizeof request->principal);
    gmv_siphash_add(&hash, request->key, request->key_length);
    return gmv_siphash_value(&hash);
}

static gmv_idempotency_entry *entry_create(const gmv_idempotent_request *request, uint64_t hash)
{
    gmv_idempotency_entry *entry = gmv_calloc(1, sizeof *entry + request->key_length);
    if (!entry)
        return NULL;
    entry->hash = hash;
    entry->fingerprint = request->fingerprint;
    entry->principal = request->principal;
    entry->key_length = request->key_length;
    memcpy(entry->key, request->key, request->key_length);
    return entry;
}

static gmv_status answer_replay(const idempotency_answer *answer, gmv_reply *reply, gmv_error *err)
{
    reply->http_status = answer->http_status;
    reply->caching = answer->caching;
    reply->content_type = answer->content_type;
    memcpy(reply->location, answer->location, sizeof reply->location);
    memcpy(reply->etag, answer->etag, sizeof reply->etag);
    gmv_strbuf_append(&reply->text, answer->text, answer->nbytes);
    if (!gmv_strbuf_failed(&reply->text))
        return GMV_OK;
    gmv_strbuf_fini(&reply->text);
    return gmv_fail_no_memory(err);
}

/* NULL: it is too long, no text, or there is no memory. */
static idempotency_answer *answer_keep(const gmv_reply *reply)
{
    size_t nbytes = reply->text.length;
    if (reply->has_bytes || reply->static_body || nbytes > GMV_IDEMPOTENCY_ANSWER_MAX)
        return NULL;
    idempotency_answer *answer = gmv_malloc(sizeof *answer + nbytes);
    if (!answer)
        return NULL;
    *answer = (idempotency_answer){
        .http_status = reply->http_status,
        .caching = reply->caching,
        .content_type = reply->content_type,
        .nbytes = nbytes,
    };
    atomic_init(&answer->references, 1);
    memcpy(answer->location, reply->location, sizeof answer->location);
    memcpy(answer->etag, reply->etag, sizeof answer->etag);
    if (nbytes > 0)
        memcpy(answer->text, reply->text.data, nbytes);
    return answer;
}

/* ---- the table ---- */

gmv_status gmv_idempotency_begin(gmv_idempotency *table, const gmv_idempotent_request *request,
                                 gmv_reply *reply, gmv_idempotency_entry **out_entry,
                                 gmv_error *err)
{
    uint64_t hash = request_hash(request);
    gmv_idempotency_entry *fresh = entry_create(request, hash);
    if (!fresh)
        return gmv_fail_no_memory(err);
    idempotency_answer *answer = NULL;
    gmv_status status = GMV_OK;
    pthread_mutex_lock(&table->lock);
    gmv_idempotency_entry *stale = table_take_stale(table, gmv_clock_monotonic_ns());
    gmv_idempotency_entry *found = table_find(table, hash, request);
    if (found) {
        status = entry_judge(found, request, &answer, err);
    } else {
        fresh->hash_next = *table_bucket(table, hash);
        *table_bucket(table, hash) = fresh;
    }
    pthread_mutex_unlock(&table->lock);
    entries_free(stale);
    *out_entry = found ? NULL : fresh;
    if (found)
        gmv_free(fresh);
    if (answer)
        status = answer_replay(answer, reply, err);
    answer_unref(answer);
    return status;
}

void gmv_idempotency_finish(gmv_idempotency *table, gmv_idempotency_entry *entry,
                            const gmv_reply *reply)
{
    if (!entry)
        return;
    idempotency_answer *answer = reply ? answer_keep(reply) : NULL;
    pthread_mutex_lock(&table->lock);
    if (reply) {
        entry->answer = answer;
        entry->is_over = true;
        entry->until_ns = gmv_clock_monotonic_ns() + IDEMPOTENCY_KEEP_NS;
        table_append(table, entry);
        entry = NULL;
    } else {
        table_unlink(table, entry);
    }
    gmv_idempotency_entry *stale = table_take_stale(table, gmv_clock_monotonic_ns());
    pthread_mutex_unlock(&table->lock);
    entries_free(stale);
    gmv_free(entry);
}

void gmv_idempotency_sweep(gmv_idempotency *table)
{
    gmv_idempotency_entry *stale;
    do {
        pthread_mutex_lock(&table->lock);
        stale = table_take_stale(table, gmv_clock_monotonic_ns());
        pthread_mutex_unlock(&table->lock);
        entries_free(stale);
    } while (stale);
}
