/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of 16 bytes in groups of two: the offset, the digits, and what of it is plain ASCII. */
#include "codec/hexdump.h"

#include <string.h>

#define HEXDUMP_LINE_NBYTES  16
#define HEXDUMP_OFFSET_MIN   8  /* digits */
#define HEXDUMP_OFFSET_MAX   16 /* digits */
#define HEXDUMP_DIGITS_WIDTH 41 /* columns from the colon's blank to the text */
#define HEXDUMP_LINE_MAX     (HEXDUMP_OFFSET_MAX + 2 + HEXDUMP_DIGITS_WIDTH + HEXDUMP_LINE_NBYTES + 1)

static const char hexdump_digits[] = "0123456789abcdef";

static size_t hexdump_offset(char *out, uint64_t offset)
{
    size_t width = HEXDUMP_OFFSET_MIN;
    while (width < HEXDUMP_OFFSET_MAX && offset >> (4 * width) != 0)
        width++;
    for (size_t i = 0; i < width; i++)
        out[i] = hexdump_digits[offset >> (4 * (width - 1 - i)) & 15];
    return width;
}

static size_t hexdump_line(char *out, uint64_t offset, const unsigned char *bytes, size_t nbytes)
{
    size_t at = hexdump_offset(out, offset);
    out[at++] = ':';
    out[at++] = ' ';
    char *digits = out + at;
    memset(digits, ' ', HEXDUMP_DIGITS_WIDTH);
    char *text = digits + HEXDUMP_DIGITS_WIDTH;
    for (size_t i = 0; i < nbytes; i++) {
        char *pair = digits + 2 * i + i / 2;
        pair[0] = hexdump_digits[bytes[i] >> 4];
        pair[1] = hexdump_digits[bytes[i] & 15];
        text[i] = bytes[i] >= 0x20 && bytes[i] < 0x7F ? (char)bytes[i] : '.';
    }
    text[nbytes] = '\n';
    return at + HEXDUMP_DIGITS_WIDTH + nbytes + 1;
}

void gmv_hexdump_write(gmv_strbuf *out, uint64_t offset, const void *bytes, size_t nbytes)
{
    const unsigned char *at = bytes;
    size_t n_lines = (nbytes + HEXDUMP_LINE_NBYTES - 1) / HEXDUMP_LINE_NBYTES;
    (void)gmv_strbuf_reserve(out, n_lines * HEXDUMP_LINE_MAX);
    while (nbytes > 0) {
        char line[HEXDUMP_LINE_MAX];
        size_t taken = nbytes < HEXDUMP_LINE_NBYTES ? nbytes : HEXDUMP_LINE_NBYTES;
        gmv_strbuf_append(out, line, hexdump_line(line, offset, at, taken));
        offset += taken;
        at += taken;
        nbytes -= taken;
    }
}
