/* SPDX-License-Identifier: Apache-2.0 */
/* SipHash-2-4 (see siphash.h). */
#include "codec/siphash.h"

#include <pthread.h>
#include <string.h>

#include <gmv/base/id.h>

static uint64_t siphash_key[2];
static pthread_once_t siphash_once = PTHREAD_ONCE_INIT;

/* Without randomness the key stays 0: what is hashed is then forgeable by its own maker only. */
static void siphash_draw_key(void)
{
    if (!gmv_random_bytes(siphash_key, sizeof siphash_key))
        memset(siphash_key, 0, sizeof siphash_key);
}

static uint64_t siphash_rotate(uint64_t value, int bits)
{
    return value << bits | value >> (64 - bits);
}

static void siphash_rounds(uint64_t v[4], int n)
{
    while (n-- > 0) {
        v[0] += v[1];
        v[1] = siphash_rotate(v[1], 13) ^ v[0];
        v[0] = siphash_rotate(v[0], 32);
        v[2] += v[3];
        v[3] = siphash_rotate(v[3], 16) ^ v[2];
        v[0] += v[3];
        v[3] = siphash_rotate(v[3], 21) ^ v[0];
        v[2] += v[1];
        v[1] = siphash_rotate(v[1], 17) ^ v[2];
        v[2] = siphash_rotate(v[2], 32);
    }
}

static void siphash_absorb(uint64_t v[4], uint64_t word)
{
    v[3] ^= word;
    siphash_rounds(v, 2);
    v[0] ^= word;
}

void gmv_siphash_init_keyed(gmv_siphash *hash, const uint64_t key[2])
{
    *hash = (gmv_siphash){
        .v = {key[0] ^ 0x736f6d6570736575u, key[1] ^ 0x646f72616e646f6du,
              key[0] ^ 0x6c7967656e657261u, key[1] ^ 0x7465646279746573u},
    };
}

void gmv_siphash_init(gmv_siphash *hash)
{
    pthread_once(&siphash_once, siphash_draw_key);
    gmv_siphash_init_keyed(hash, siphash_key);
}

static void siphash_add_byte(gmv_siphash *hash, unsigned char byte)
{
    unsigned shift = (unsigned)(hash->total++ % 8) * 8;
    hash->tail |= (uint64_t)byte << shift;
    if (shift < 56)
        return;
    siphash_absorb(hash->v, hash->tail);
    hash->tail = 0;
}

void gmv_siphash_add(gmv_siphash *hash, const void *bytes, size_t nbytes)
{
    if (nbytes == 0)
        return;
    const unsigned char *from = bytes;
    const unsigned char *end = from + nbytes;
    while (from < end && hash->total % 8 != 0)
        siphash_add_byte(hash, *from++);
    for (; end - from >= 8; from += 8, hash->total += 8) {
        uint64_t word = 0;
        for (int i = 7; i >= 0; i--)
            word = word << 8 | from[i];
        siphash_absorb(hash->v, word);
    }
    while (from < end)
        siphash_add_byte(hash, *from++);
}

uint64_t gmv_siphash_value(gmv_siphash *hash)
{
    uint64_t *v = hash->v;
    siphash_absorb(v, hash->tail | hash->total << 56);
    v[2] ^= 0xff;
    siphash_rounds(v, 4);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}
