/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SipHash-2-4 (Aumasson and Bernstein, 2012), fed in pieces: a short keyed hash that outsiders
 * cannot aim at. The key is drawn once in each process, so results mean nothing elsewhere.
 */
#ifndef GMV_CODEC_SIPHASH_H
#define GMV_CODEC_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

typedef struct gmv_siphash {
    uint64_t v[4];
    uint64_t tail; /* bytes that do not fill a word yet, the first lowest */
    uint64_t total;
} gmv_siphash;

void gmv_siphash_init(gmv_siphash *hash);
void gmv_siphash_add(gmv_siphash *hash, const void *bytes, size_t nbytes);
/* Ends it. */
uint64_t gmv_siphash_value(gmv_siphash *hash);

/* The same with a given key, for its tests. */
void gmv_siphash_init_keyed(gmv_siphash *hash, const uint64_t key[2]);

#endif
