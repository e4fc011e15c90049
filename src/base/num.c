/* SPDX-License-Identifier: Apache-2.0 */
/* Strict decimal numbers: one spelling a value ("-0" apart), no locale, no white space. */
#include <gmv/base/num.h>

bool gmv_parse_uint64(const char *text, size_t length, uint64_t *out)
{
    if (length == 0 || (length > 1 && text[0] == '0'))
        return false;
    uint64_t value = 0;
    for (size_t i = 0; i < length; i++) {
        unsigned digit = (unsigned char)text[i] - (unsigned)'0';
        if (digit > 9 || !gmv_mul_checked(value, 10u, &value) ||
            !gmv_add_checked(value, digit, &value))
            return false;
    }
    *out = value;
    return true;
}

bool gmv_parse_int64(const char *text, size_t length, int64_t *out)
{
    bool negative = length > 0 && text[0] == '-';
    uint64_t magnitude;
    if (!gmv_parse_uint64(text + negative, length - negative, &magnitude))
        return false;
    /* Of a negative one, INT64_MIN's magnitude is one above INT64_MAX. */
    if (magnitude > (uint64_t)INT64_MAX + negative)
        return false;
    *out = negative ? (int64_t)(0 - magnitude) : (int64_t)magnitude;
    return true;
}
