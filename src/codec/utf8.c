/* SPDX-License-Identifier: Apache-2.0 */
/* Validation of UTF-8, one character at a time. */
#include "codec/utf8.h"

static bool utf8_is_tail(unsigned char byte)
{
    return (byte & 0xC0) == 0x80;
}

/* Second bytes are narrower after four of the leads: overlong forms, surrogates, past U+10FFFF. */
static bool utf8_second_fits(unsigned char lead, unsigned char second)
{
    switch (lead) {
    case 0xE0:
        return second >= 0xA0 && second <= 0xBF;
    case 0xED:
        return second >= 0x80 && second <= 0x9F;
    case 0xF0:
        return second >= 0x90 && second <= 0xBF;
    case 0xF4:
        return second >= 0x80 && second <= 0x8F;
    default:
        return utf8_is_tail(second);
    }
}

size_t gmv_utf8_character(const char *text, size_t length)
{
    if (length == 0)
        return 0;
    const unsigned char *bytes = (const unsigned char *)text;
    if (bytes[0] < 0x80)
        return 1;
    size_t wanted = 0;
    if (bytes[0] >= 0xC2 && bytes[0] <= 0xDF)
        wanted = 2;
    else if (bytes[0] >= 0xE0 && bytes[0] <= 0xEF)
        wanted = 3;
    else if (bytes[0] >= 0xF0 && bytes[0] <= 0xF4)
        wanted = 4;
    if (wanted == 0 || wanted > length || !utf8_second_fits(bytes[0], bytes[1]))
        return 0;
    for (size_t i = 2; i < wanted; i++)
        if (!utf8_is_tail(bytes[i]))
            return 0;
    return wanted;
}

bool gmv_utf8_check(const char *text, size_t length, size_t *out_characters)
{
    size_t characters = 0;
    for (size_t at = 0; at < length; characters++) {
        size_t step = gmv_utf8_character(text + at, length - at);
        if (step == 0)
            return false;
        at += step;
    }
    if (out_characters != NULL)
        *out_characters = characters;
    return true;
}
