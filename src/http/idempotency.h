/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests that may be sent again: what was answered to a key is remembered for a while, so that a
 * client that never heard the answer gets it, and nothing is made twice. A request that fails
 * changes nothing and is not remembered: it may simply be tried again with its key.
 *
 * Memory is bounded: keys whose request is over are forgotten, the oldest first, when there are
 * more than GMV_IDEMPOTENCY_KEYS_MAX or their answers have more bytes than
 * GMV_IDEMPOTENCY_NBYTES_MAX; those under way are as many as there are requests. Thread-safe.
 */
#ifndef GMV_HTTP_IDEMPOTENCY_H
#define GMV_HTTP_IDEMPOTENCY_H

#include "http/handler.h"

#define GMV_IDEMPOTENCY_KEY_MAX    128
#define GMV_IDEMPOTENCY_SECONDS    600
#define GMV_IDEMPOTENCY_KEYS_MAX   65536
#define GMV_IDEMPOTENCY_NBYTES_MAX ((size_t)64 << 20)
#define GMV_IDEMPOTENCY_ANSWER_MAX ((size_t)8 << 20) /* longer ones are not kept */

typedef struct gmv_idempotency gmv_idempotency;
typedef struct gmv_idempotency_entry gmv_idempotency_entry;

/* @newref: gmv_idempotency_destroy. */
GMV_NODISCARD gmv_status gmv_idempotency_create(gmv_idempotency **out_table, gmv_error *err);

/* No request may be under way. NULL: nothing. */
void gmv_idempotency_destroy(gmv_idempotency *table);

/* Whether the text may be a key: 1 to 128 visible ASCII characters. */
bool gmv_idempotency_key_is_valid(const char *text, size_t length);

typedef struct gmv_idempotent_request {
    uint32_t principal;
    const char *key; /* valid */
    size_t key_length;
    uint64_t fingerprint; /* of all that makes it the same request */
} gmv_idempotent_request;

/*
 * Asks whether the request is to be run. *out_entry: then it is, and gmv_idempotency_finish must
 * follow. NULL: it has been run, and `reply` is the first answer.
 *
 * @retval GMV_ERR_IDEMPOTENCY_IN_FLIGHT  the first request with the key still runs
 * @retval GMV_ERR_IDEMPOTENCY_MISMATCH   the key belongs to another request
 * @retval GMV_ERR_QUOTA_EXCEEDED         it has been run, but its answer could not be kept
 * @retval GMV_ERR_OVERLOADED             no memory; nothing was changed
 */
GMV_NODISCARD gmv_status gmv_idempotency_begin(gmv_idempotency *table,
                                               const gmv_idempotent_request *request,
                                               gmv_reply *reply, gmv_idempotency_entry **out_entry,
                                               gmv_error *err);

/* The request is over: keeps a copy of the answer, or, with NULL, forgets the key. Entry NULL:
 * nothing. */
void gmv_idempotency_finish(gmv_idempotency *table, gmv_idempotency_entry *entry,
                            const gmv_reply *reply);

/* Forgets what is older than GMV_IDEMPOTENCY_SECONDS. To be called now and then. */
void gmv_idempotency_sweep(gmv_idempotency *table);

#endif
