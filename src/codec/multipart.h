/* SPDX-License-Identifier: Apache-2.0 */
/* multipart/byteranges (RFC 9110, 14.6): the texts between the parts. */
#ifndef GMV_CODEC_MULTIPART_H
#define GMV_CODEC_MULTIPART_H

#include <gmv/base/strbuf.h>

#include "codec/range.h"

#define GMV_BOUNDARY_MAX 36 /* with the final NUL */

/* A fresh boundary, random so that no content can be made to hold it. False without randomness. */
GMV_NODISCARD bool gmv_multipart_boundary(char out_boundary[GMV_BOUNDARY_MAX]);

/* What stands before the bytes of a part; before parts but the first one it ends the one before. */
void gmv_multipart_open_part(gmv_strbuf *out, const char *boundary, const char *content_type,
                             const gmv_byte_range *range, uint64_t total, bool is_first);

/* What stands behind the last part. */
void gmv_multipart_close(gmv_strbuf *out, const char *boundary);

/* "bytes 3-9/100" */
void gmv_content_range_write(gmv_strbuf *out, const gmv_byte_range *range, uint64_t total);

#endif
