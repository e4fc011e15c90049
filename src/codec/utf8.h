/* SPDX-License-Identifier: Apache-2.0 */
/* UTF-8 as RFC 3629 has it: no overlong forms, no surrogates, nothing past U+10FFFF. Pure. */
#ifndef GMV_CODEC_UTF8_H
#define GMV_CODEC_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes (1 to 4) of the character at the start of `text`, or 0 if there is no valid one. */
size_t gmv_utf8_character(const char *text, size_t length);

/* Whether the whole is valid; *out_characters (may be NULL) is then how many characters it has. */
bool gmv_utf8_check(const char *text, size_t length, size_t *out_characters);

#endif
