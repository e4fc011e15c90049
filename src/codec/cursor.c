/* SPDX-License-Identifier: Apache-2.0 */
/* Position and keyed checksum in hexadecimal. */
#include "codec/cursor.h"

#include "codec/siphash.h"

/* Over the position, then the filters. */
static uint64_t cursor_checksum(uint64_t position, const void *filters, size_t nbytes)
{
    gmv_siphash hash;
    gmv_siphash_init(&hash);
    gmv_siphash_add(&hash, &position, sizeof position);
    gmv_siphash_add(&hash, filters, nbytes);
    return gmv_siphash_value(&hash);
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
