/* SPDX-License-Identifier: Apache-2.0 */
/* Base64, four characters at a time. */
#include "codec/base64.h"

#include <stdint.h>

static int base64_value(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    if (c == '+')
        return 62;
    return c == '/' ? 63 : -1;
}

/* How many of the last four characters are padding. */
static size_t base64_padding(const char *text, size_t length)
{
    if (length == 0 || text[length - 1] != '=')
        return 0;
    return text[length - 2] == '=' ? 2 : 1;
}

bool gmv_base64_decode(const char *text, size_t length, void *out, size_t *out_nbytes)
{
    unsigned char *bytes = out;
    size_t written = 0;
    if (length % 4 != 0)
        return false;
    size_t padding = base64_padding(text, length);
    for (size_t at = 0; at < length; at += 4) {
        size_t missing = at + 4 == length ? padding : 0;
        uint32_t group = 0;
        for (size_t i = 0; i < 4; i++) {
            int value = i < 4 - missing ? base64_value(text[at + i]) : 0;
            if (value < 0)
                return false;
            group = group << 6 | (uint32_t)value;
        }
        if ((group & ((1u << (8 * missing)) - 1)) != 0)
            return false;
        for (size_t i = 0; i < 3 - missing; i++)
            bytes[written++] = (unsigned char)(group >> (16 - 8 * i));
    }
    *out_nbytes = written;
    return true;
}

void gmv_base64_encode(gmv_strbuf *out, const void *bytes, size_t nbytes)
{
    static const char alphabet[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *from = bytes;
    if (!gmv_strbuf_reserve(out, (nbytes + 2) / 3 * 4))
        return;
    for (size_t at = 0; at < nbytes; at += 3) {
        size_t present = nbytes - at < 3 ? nbytes - at : 3;
        uint32_t group = 0;
        for (size_t i = 0; i < 3; i++)
            group = group << 8 | (i < present ? from[at + i] : 0u);
        char text[4];
        for (size_t i = 0; i < 4; i++)
            text[i] = i <= present ? alphabet[group >> (18 - 6 * i) & 63] : '=';
        gmv_strbuf_append(out, text, sizeof text);
    }
}
