/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handle ids: a kind and 128 random bits. As text, the kind's prefix ("buf_") and 26 characters of
 * Crockford's base32 alphabet in lower case ("0123456789abcdefghjkmnpqrstvwxyz"), most significant
 * first; 26 characters could hold 130 bits, so the first one is 0 to 7. Only that one spelling is
 * read. Thread-safe throughout.
 */
#ifndef GMV_BASE_ID_H
#define GMV_BASE_ID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <gmv/base/attr.h>

GMV_BEGIN_DECLS

typedef enum gmv_kind {
    GMV_KIND_ANY = 0, /* in look-ups only: any kind of handle */
    GMV_KIND_BUFFER,
    GMV_KIND_VIEW,
    GMV_KIND_COLUMN,
    GMV_KIND_TABLE,
    GMV_KIND_PACKED,
    GMV_KIND_SESSION,
    GMV_KIND_COUNT
} gmv_kind;

typedef struct gmv_id {
    uint64_t high;
    uint64_t low;
    gmv_kind kind;
} gmv_id;

/* Room for the longest id text and its final NUL: "view_" and 26 characters. */
#define GMV_ID_TEXT_MAX 32

/* "buffer", "view", ... as answers name it. @borrowed, static. */
const char *gmv_kind_name(gmv_kind kind);

/* Draws a fresh id. Fails (false) only when the system has no randomness. */
GMV_NODISCARD bool gmv_id_generate(gmv_kind kind, gmv_id *out_id);

/* Writes the text and a final NUL; returns the length without it. */
size_t gmv_id_format(const gmv_id *id, char out_text[GMV_ID_TEXT_MAX]);

/* Reads exactly `length` bytes; false if they are not the canonical text of an id of some kind. */
GMV_NODISCARD bool gmv_id_parse(const char *text, size_t length, gmv_id *out_id);

static inline bool gmv_id_equal(const gmv_id *a, const gmv_id *b)
{
    return a->low == b->low && a->high == b->high && a->kind == b->kind;
}

/* Fills with random bytes; false when the system has none. */
GMV_NODISCARD bool gmv_random_bytes(void *out_bytes, size_t nbytes);

GMV_END_DECLS

#endif
