/* SPDX-License-Identifier: Apache-2.0 */
/* Byte ranges. Numbers beyond 64 bits saturate: they are well-formed, only far away. */
#include "codec/range.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

typedef struct range_text {
    const char *at;
    const char *end;
} range_text;

static void range_skip_blanks(range_text *text)
{
    while (text->at < text->end && (*text->at == ' ' || *text->at == '\t'))
        text->at++;
}

/* Reads digits; false if there is none. */
static bool range_number(range_text *text, uint64_t *out)
{
    const char *start = text->at;
    uint64_t value = 0;
    for (; text->at < text->end && *text->at >= '0' && *text->at <= '9'; text->at++) {
        uint64_t digit = (uint64_t)(*text->at - '0');
        if (__builtin_mul_overflow(value, 10u, &value) ||
            __builtin_add_overflow(value, digit, &value)) {
            value = UINT64_MAX;
            while (text->at < text->end && *text->at >= '0' && *text->at <= '9')
                text->at++;
            break;
        }
    }
    *out = value;
    return text->at > start;
}

/* "bytes" and what stands behind it, of any case, as units are compared. */
static bool range_unit(range_text *text, const char *unit)
{
    size_t length = strlen(unit);
    if ((size_t)(text->end - text->at) < length || strncasecmp(text->at, unit, length) != 0)
        return false;
    text->at += length;
    return true;
}

typedef struct range_spec {
    bool has_first, has_last;
    uint64_t first, last;
} range_spec;

/* One range of a list; what stands behind it is left. */
static bool range_parse_spec(range_text *text, range_spec *spec)
{
    *spec = (range_spec){0};
    range_skip_blanks(text);
    spec->has_first = range_number(text, &spec->first);
    if (text->at == text->end || *text->at != '-')
        return false;
    text->at++;
    spec->has_last = range_number(text, &spec->last);
    range_skip_blanks(text);
    if (!spec->has_first && !spec->has_last)
        return false;
    return !spec->has_first || !spec->has_last || spec->first <= spec->last;
}

/* False where the range holds no byte. */
static bool range_resolve(const range_spec *spec, uint64_t nbytes, gmv_byte_range *out)
{
    if (nbytes == 0 || (spec->has_first && spec->first >= nbytes) ||
        (!spec->has_first && spec->last == 0))
        return false;
    if (spec->has_first) {
        out->first = spec->first;
        out->last = spec->has_last && spec->last < nbytes ? spec->last : nbytes - 1;
    } else {
        out->first = spec->last >= nbytes ? 0 : nbytes - spec->last;
        out->last = nbytes - 1;
    }
    return true;
}

/* Past commas and blanks: a list may have empty elements. False at the end. */
static bool range_next(range_text *text)
{
    while (text->at < text->end && (*text->at == ',' || *text->at == ' ' || *text->at == '\t'))
        text->at++;
    return text->at < text->end;
}

gmv_range_outcome gmv_range_parse(const char *text, size_t length, uint64_t nbytes,
                                  gmv_byte_ranges *out_ranges)
{
    gmv_byte_ranges found = {0};
    out_ranges->count = 0;
    if (text == NULL)
        return GMV_RANGE_WHOLE;
    range_text rest = {text, text + length};
    if (!range_unit(&rest, "bytes="))
        return GMV_RANGE_WHOLE;
    size_t n_specs = 0;
    for (; range_next(&rest); n_specs++) {
        range_spec spec;
        if (n_specs == GMV_RANGES_MAX || !range_parse_spec(&rest, &spec) ||
            (rest.at < rest.end && *rest.at != ','))
            return GMV_RANGE_WHOLE;
        gmv_byte_range *next = &found.items[found.count];
        if (!range_resolve(&spec, nbytes, next))
            continue;
        if (found.count > 0 && next->first <= next[-1].last)
            return GMV_RANGE_WHOLE;
        found.count++;
    }
    if (found.count > 0)
        *out_ranges = found;
    else if (n_specs == 0)
        return GMV_RANGE_WHOLE;
    return found.count > 0 ? GMV_RANGE_PART : GMV_RANGE_UNSATISFIABLE;
}

static bool range_character(range_text *text, char c)
{
    if (text->at == text->end || *text->at != c)
        return false;
    text->at++;
    return true;
}

bool gmv_content_range_parse(const char *text, size_t length, uint64_t *out_first,
                             uint64_t *out_last, uint64_t *out_total)
{
    range_text rest = {text, text + length};
    *out_total = UINT64_MAX;
    return range_unit(&rest, "bytes ") && range_number(&rest, out_first) &&
           range_character(&rest, '-') && range_number(&rest, out_last) &&
           range_character(&rest, '/') &&
           (range_character(&rest, '*') || range_number(&rest, out_total)) && rest.at == rest.end &&
           *out_first <= *out_last && *out_last < *out_total;
}
