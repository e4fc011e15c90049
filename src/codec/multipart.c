/* SPDX-License-Identifier: Apache-2.0 */
/* The texts of multipart/byteranges. */
#include "codec/multipart.h"

#include <gmv/base/id.h>

bool gmv_multipart_boundary(char out_boundary[GMV_BOUNDARY_MAX])
{
    static const char digits[] = "0123456789abcdef";
    unsigned char random[16];
    char *at = out_boundary;
    if (!gmv_random_bytes(random, sizeof random))
        return false;
    for (size_t i = 0; i < sizeof random; i++) {
        *at++ = digits[random[i] >> 4];
        *at++ = digits[random[i] & 15];
    }
    *at = '\0';
    return true;
}

void gmv_content_range_write(gmv_strbuf *out, const gmv_byte_range *range, uint64_t total)
{
    gmv_strbuf_puts(out, "bytes ");
    gmv_strbuf_uint64(out, range->first);
    gmv_strbuf_putc(out, '-');
    gmv_strbuf_uint64(out, range->last);
    gmv_strbuf_putc(out, '/');
    gmv_strbuf_uint64(out, total);
}

void gmv_multipart_open_part(gmv_strbuf *out, const char *boundary, const char *content_type,
                             const gmv_byte_range *range, uint64_t total, bool is_first)
{
    gmv_strbuf_puts(out, is_first ? "--" : "\r\n--");
    gmv_strbuf_puts(out, boundary);
    gmv_strbuf_puts(out, "\r\nContent-Type: ");
    gmv_strbuf_puts(out, content_type);
    gmv_strbuf_puts(out, "\r\nContent-Range: ");
    gmv_content_range_write(out, range, total);
    gmv_strbuf_puts(out, "\r\n\r\n");
}

void gmv_multipart_close(gmv_strbuf *out, const char *boundary)
{
    gmv_strbuf_puts(out, "\r\n--");
    gmv_strbuf_puts(out, boundary);
    gmv_strbuf_puts(out, "--\r\n");
}
