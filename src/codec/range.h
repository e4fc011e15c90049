/* SPDX-License-Identifier: Apache-2.0 */
/* The Range header (RFC 9110, 14.1.2) for bytes of a known length. */
#ifndef GMV_CODEC_RANGE_H
#define GMV_CODEC_RANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum gmv_range_outcome {
    GMV_RANGE_WHOLE,        /* no range, another unit, bad syntax, or several ranges: 200 */
    GMV_RANGE_PART,         /* one satisfiable range: 206 */
    GMV_RANGE_UNSATISFIABLE /* 416 */
} gmv_range_outcome;

/* `text` (may be NULL) of `length` bytes against `nbytes` in all; first and last are inclusive.
 * Pure. */
gmv_range_outcome gmv_range_parse(const char *text, size_t length, uint64_t nbytes,
                                  uint64_t *out_first, uint64_t *out_last);

/*
 * The Content-Range header (RFC 9110, 14.4) of a request: "bytes 3-9/100" or "bytes 3-9/" and a
 * star. False for anything else. *out_total is UINT64_MAX when it is not told. Pure.
 */
bool gmv_content_range_parse(const char *text, size_t length, uint64_t *out_first,
                             uint64_t *out_last, uint64_t *out_total);

#endif
