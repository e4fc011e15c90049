/* SPDX-License-Identifier: Apache-2.0 */
/* Base64 with the standard alphabet and padding (RFC 4648, 4), read strictly: one spelling a value.
 */
#ifndef GMV_CODEC_BASE64_H
#define GMV_CODEC_BASE64_H

#include <stdbool.h>
#include <stddef.h>

#include <gmv/base/strbuf.h>

/* Bytes that a text of `length` decodes to at most. */
static inline size_t gmv_base64_decoded_max(size_t length)
{
    return length / 4 * 3;
}

/*
 * Decodes into `out` (room for gmv_base64_decoded_max bytes). False for a length that is no
 * multiple of 4, other characters, blanks, padding that is missing or too much, or left-over bits
 * that are set.
 */
bool gmv_base64_decode(const char *text, size_t length, void *out, size_t *out_nbytes);

/* Appends the text of some bytes, without quotes. */
void gmv_base64_encode(gmv_strbuf *out, const void *bytes, size_t nbytes);

#endif
