/* SPDX-License-Identifier: Apache-2.0 */
/* The Range header (RFC 9110, 14.2) for bytes of a known length. */
#ifndef GMV_CODEC_RANGE_H
#define GMV_CODEC_RANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GMV_RANGES_MAX 16 /* asked for at once; more are answered with the whole */

typedef enum gmv_range_outcome {
    GMV_RANGE_WHOLE, /* none, another unit, bad syntax, too many, unsorted, overlapping: 200 */
    GMV_RANGE_PART,  /* one or more satisfiable ranges: 206 */
    GMV_RANGE_UNSATISFIABLE /* 416 */
} gmv_range_outcome;

/* First and last byte, both within. */
typedef struct gmv_byte_range {
    uint64_t first, last;
} gmv_byte_range;

typedef struct gmv_byte_ranges {
    size_t count; /* at least 1 of a part, otherwise 0 */
    gmv_byte_range items[GMV_RANGES_MAX];
} gmv_byte_ranges;

/*
 * `text` (may be NULL) of `length` bytes against `nbytes` in all. Several ranges must ascend and be
 * disjoint; those that hold no byte are left out while another does. Pure.
 */
gmv_range_outcome gmv_range_parse(const char *text, size_t length, uint64_t nbytes,
                                  gmv_byte_ranges *out_ranges);

/*
 * The Content-Range header (RFC 9110, 14.4) of a request: "bytes 3-9/100" or "bytes 3-9/" and a
 * star. False for anything else. *out_total is UINT64_MAX when it is not told. Pure.
 */
bool gmv_content_range_parse(const char *text, size_t length, uint64_t *out_first,
                             uint64_t *out_last, uint64_t *out_total);

#endif
