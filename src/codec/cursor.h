/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cursors of lists as opaque text: where to go on, and a keyed checksum over that and the filters,
 * so that junk, or a cursor of another list, is told apart. The key is new in each process.
 */
#ifndef GMV_CODEC_CURSOR_H
#define GMV_CODEC_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GMV_CURSOR_TEXT_MAX 33 /* 32 hexadecimal digits and a NUL */

/* `filters` are any bytes that two lists with different filters do not share. */
void gmv_cursor_format(uint64_t position, const void *filters, size_t filters_nbytes,
                       char out_text[GMV_CURSOR_TEXT_MAX]);
bool gmv_cursor_parse(const char *text, size_t length, const void *filters, size_t filters_nbytes,
                      uint64_t *out_position);

#endif
