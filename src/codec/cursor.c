/* SPDX-License-Identifier: Apache-2.0 */
/* Position and checksum in hexadecimal. The checksum is SipHash-2-4 (Aumasson and Bernstein, 2012).
 */
#include "codec/cursor.h"

#include <pthread.h>
#include <string.h>

#include <gmv/base/id.h>

static uint64_t cursor_key[2];
static pthread_once_t cursor_once = PTHREAD_ONCE_INIT;

/* Without randomness the key stays 0: a cursor is then forgeable, which harms nobody. */
static void cursor_draw_key(void)
{
    if (!gmv_random_bytes(cursor_key, sizeof cursor_key))
        memset(cursor_key, 0, sizeof cursor_key);
}

static uint64_t cursor_rotate(uint64_t value, int bits)
{
    return value << bits | value >> (64 - bits);
}

static void cursor_rounds(uint64_t v[4], int n)
{
    while (n-- > 0) {
        v[0] += v[1];
        v[1] = cursor_rotate(v[1], 13) ^ v[0];
        v[0] = cursor_rotate(v[0], 32);
        v[2] += v[3];
        v[3] = cursor_rotate(v[3], 16) ^ v[2];
        v[0] += v[3];
        v[3] = cursor_rotate(v[3], 21) ^ v[0];
        v[2] += v[1];
        v[1] = cursor_rotate(v[1], 17) ^ v[2];
        v[2] = cursor_rotate(v[2], 32);
    }
}

static void cursor_absorb(uint64_t v[4], uint64_t word)
{
    v[3] ^= word;
    cursor_rounds(v, 2);
    v[0] ^= word;
}

/* Over the position, then the filters, then their length. */
static uint64_t cursor_checksum(uint64_t position, const void *filters, size_t nbytes)
{
    pthread_once(&cursor_once, cursor_draw_key);
    const unsigned char *bytes = filters;
    uint64_t v[4] = {cursor_key[0] ^ 0x736f6d6570736575u, cursor_key[1] ^ 0x646f72616e646f6du,
                     cursor_key[0] ^ 0x6c7967656e657261u, cursor_key[1] ^ 0x7465646279746573u};
    cursor_absorb(v, position);
    for (size_t at = 0; at < nbytes; at += 8) {
        uint64_t word = 0;
        memcpy(&word, bytes + at, nbytes - at < 8 ? nbytes - at : 8);
        cursor_absorb(v, word);
    }
    cursor_absorb(v, nbytes);
    v[2] ^= 0xff;
    cursor_rounds(v, 4);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

static void cursor_put_hex(uint64_t value, char *out)
{
    for (int i = 0; i < 16; i++)
        out[i] = "0123456789abcdef"[value >> (60 - 4 * i) & 15];
}

static bool cursor_get_hex(const char *text, uint64_t *out)
{
    *out = 0;
    for (int i = 0; i < 16; i++) {
        bool digit = text[i] >= '0' && text[i] <= '9';
        bool letter = text[i] >= 'a' && text[i] <= 'f';
        if (!digit && !letter)
            return false;
        *out = *out << 4 | (uint64_t)(digit ? text[i] - '0' : text[i] - 'a' + 10);
    }
    return true;
}

void gmv_cursor_format(uint64_t position, const void *filters, size_t filters_nbytes,
                       char out_text[GMV_CURSOR_TEXT_MAX])
{
    cursor_put_hex(position, out_text);
    cursor_put_hex(cursor_checksum(position, filters, filters_nbytes), out_text + 16);
    out_text[32] = '\0';
}

bool gmv_cursor_parse(const char *text, size_t length, const void *filters, size_t filters_nbytes,
                      uint64_t *out_position)
{
    uint64_t checksum;
    return length == GMV_CURSOR_TEXT_MAX - 1 && cursor_get_hex(text, out_position) &&
           cursor_get_hex(text + 16, &checksum) &&
           checksum == cursor_checksum(*out_position, filters, filters_nbytes);
}
