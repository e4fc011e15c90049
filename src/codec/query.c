/* SPDX-License-Identifier: Apache-2.0 */
/* Query strings and path segments. Decoding never makes a text longer, so one block holds all. */
#include "codec/query.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <gmv/base/alloc.h>
#include <gmv/base/num.h>

#include "codec/name_list.h"
#include "codec/utf8.h"

static int query_hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

/*
 * Decodes into `out` (room for `length` bytes and a NUL). False for a bad escape, a NUL or bytes
 * that are not UTF-8.
 */
static bool query_decode(const char *text, size_t length, bool plus_is_blank, char *out,
                         size_t *out_length)
{
    size_t written = 0;
    for (size_t at = 0; at < length; at++) {
        char c = text[at];
        if (c == '%') {
            if (length - at < 3)
                return false;
            int high = query_hex_digit(text[at + 1]);
            int low = query_hex_digit(text[at + 2]);
            if (high < 0 || low < 0)
                return false;
            c = (char)(high * 16 + low);
            at += 2;
        } else if (c == '+' && plus_is_blank) {
            c = ' ';
        }
        if (c == '\0')
            return false;
        out[written++] = c;
    }
    out[written] = '\0';
    *out_length = written;
    return gmv_utf8_check(out, written, NULL);
}

static bool query_is_allowed(const char *allowed, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = allowed; *at != '\0';) {
        size_t span = strcspn(at, ",");
        if (span == length && memcmp(at, name, length) == 0)
            return length > 0;
        at += span;
        if (*at == ',')
            at++;
    }
    return false;
}

static void query_list_allowed(const char *allowed, gmv_name_list *out)
{
    gmv_name_list_init(out);
    while (*allowed != '\0') {
        size_t span = strcspn(allowed, ",");
        gmv_name_list_add(out, allowed, span);
        allowed += span + (allowed[span] == ',');
    }
}

/* A name that may stand in an error: what came from outside only as a plain word. */
static const char *query_shown_name(const char *name)
{
    size_t length = strlen(name);
    if (length == 0 || length >= GMV_ERROR_PARAMETER_MAX)
        return "query";
    for (const char *at = name; *at != '\0'; at++) {
        bool plain = (*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') ||
                     (*at >= '0' && *at <= '9') || *at == '_' || *at == '-' || *at == '.';
        if (!plain)
            return "query";
    }
    return name;
}

/* Decodes one "name=value"; `storage` moves on. */
static bool query_decode_pair(const char *text, size_t length, char **storage,
                              gmv_query_parameter *out)
{
    const char *equals = memchr(text, '=', length);
    size_t name_length = equals != NULL ? (size_t)(equals - text) : length;
    size_t decoded;
    out->name = *storage;
    if (!query_decode(text, name_length, true, out->name, &decoded))
        return false;
    *storage += decoded + 1;
    out->value = NULL;
    out->value_length = 0;
    if (equals == NULL)
        return true;
    out->value = *storage;
    if (!query_decode(equals + 1, length - name_length - 1, true, out->value, &decoded))
        return false;
    out->value_length = decoded;
    *storage += decoded + 1;
    return true;
}

static gmv_status query_add(gmv_query *query, const char *text, size_t length, const char *allowed,
                            char **storage, gmv_error *err)
{
    bool lenient = allowed == NULL;
    gmv_query_parameter parameter;
    if (!query_decode_pair(text, length, storage, &parameter)) {
        if (lenient)
            return GMV_OK;
        return gmv_fail_parameter(
            err, GMV_ERR_REQUEST_MALFORMED, "query",
            "the query holds a bad percent escape, a NUL or bytes that are not UTF-8");
    }
    if (!lenient && !query_is_allowed(allowed, parameter.name)) {
        gmv_name_list known;
        query_list_allowed(allowed, &known);
        return gmv_fail_parameter(err, GMV_ERR_REQUEST_MALFORMED, query_shown_name(parameter.name),
                                  "the query parameter is not known here; known are: %s",
                                  known.text);
    }
    if (gmv_query_find(query, parameter.name) != NULL) {
        if (lenient)
            return GMV_OK;
        return gmv_fail_parameter(err, GMV_ERR_REQUEST_MALFORMED, query_shown_name(parameter.name),
                                  "the query parameter is given more than once");
    }
    if (query->count == GMV_QUERY_PARAMETERS_MAX) {
        if (lenient)
            return GMV_OK;
        return gmv_fail_parameter(err, GMV_ERR_REQUEST_MALFORMED, "query",
                                  "the query has more than %d parameters",
                                  GMV_QUERY_PARAMETERS_MAX);
    }
    query->parameters[query->count++] = parameter;
    return GMV_OK;
}

gmv_status gmv_query_parse(const char *text, size_t length, const char *allowed,
                           gmv_query *out_query, gmv_error *err)
{
    out_query->count = 0;
    out_query->storage = NULL;
    if (length == 0)
        return GMV_OK;
    /* A pair needs two NULs for the "=" and "&" that it loses; the last one has no "&". */
    out_query->storage = gmv_malloc(length + 2);
    if (out_query->storage == NULL)
        return gmv_fail_no_memory(err);
    char *storage = out_query->storage;
    gmv_status status = GMV_OK;
    for (size_t at = 0; at < length && status == GMV_OK;) {
        const char *ampersand = memchr(text + at, '&', length - at);
        size_t pair = ampersand != NULL ? (size_t)(ampersand - (text + at)) : length - at;
        if (pair > 0)
            status = query_add(out_query, text + at, pair, allowed, &storage, err);
        at += pair + 1;
    }
    if (status != GMV_OK)
        gmv_query_fini(out_query);
    return status;
}

void gmv_query_fini(gmv_query *query)
{
    gmv_free(query->storage);
    query->storage = NULL;
    query->count = 0;
}

const gmv_query_parameter *gmv_query_find(const gmv_query *query, const char *name)
{
    for (size_t i = 0; i < query->count; i++)
        if (strcmp(query->parameters[i].name, name) == 0)
            return &query->parameters[i];
    return NULL;
}

gmv_status gmv_query_int64(const gmv_query *query, const char *name, int64_t minimum,
                           int64_t maximum, int64_t absent, int64_t *out_value, gmv_error *err)
{
    const gmv_query_parameter *parameter = gmv_query_find(query, name);
    if (parameter == NULL) {
        *out_value = absent;
        return GMV_OK;
    }
    int64_t value;
    if (parameter->value == NULL ||
        !gmv_parse_int64(parameter->value, parameter->value_length, &value) || value < minimum ||
        value > maximum)
        return gmv_fail_parameter(err, GMV_ERR_REQUEST_MALFORMED, name,
                                  "%s must be an integer from %lld to %lld", name,
                                  (long long)minimum, (long long)maximum);
    *out_value = value;
    return GMV_OK;
}

static size_t query_digits(const char *text)
{
    return strspn(text, "0123456789");
}

/* The grammar of JSON: no blanks, no leading zeros, no hexadecimal, no words. */
static bool query_is_number(const char *text)
{
    text += *text == '-';
    size_t n_digits = query_digits(text);
    if (n_digits == 0 || (n_digits > 1 && *text == '0'))
        return false;
    text += n_digits;
    if (*text == '.') {
        n_digits = query_digits(++text);
        if (n_digits == 0)
            return false;
        text += n_digits;
    }
    if (*text == 'e' || *text == 'E') {
        text++;
        text += *text == '-' || *text == '+';
        n_digits = query_digits(text);
        if (n_digits == 0)
            return false;
        text += n_digits;
    }
    return *text == '\0';
}

gmv_status gmv_query_number(const gmv_query *query, const char *name, bool *out_given,
                            double *out_value, gmv_error *err)
{
    const gmv_query_parameter *parameter = gmv_query_find(query, name);
    *out_given = parameter != NULL;
    if (parameter == NULL)
        return GMV_OK;
    double value = HUGE_VAL;
    if (parameter->value != NULL && query_is_number(parameter->value))
        value = strtod(parameter->value, NULL);
    if (!isfinite(value))
        return gmv_fail_parameter(err, GMV_ERR_REQUEST_MALFORMED, name, "%s must be a number",
                                  name);
    *out_value = value;
    return GMV_OK;
}

gmv_status gmv_query_name(const gmv_query *query, const char *name, const char *const *names,
                          int absent, int *out_index, gmv_error *err)
{
    const gmv_query_parameter *parameter = gmv_query_find(query, name);
    *out_index = absent;
    if (parameter == NULL)
        return GMV_OK;
    for (int i = 0; parameter->value != NULL && names[i] != NULL; i++) {
        if (strcmp(parameter->value, names[i]) == 0) {
            *out_index = i;
            return GMV_OK;
        }
    }
    gmv_name_list known;
    gmv_name_list_fill(&known, names);
    return gmv_fail_parameter(err, GMV_ERR_REQUEST_MALFORMED, name,
                              "%s has no such value; it has: %s", name, known.text);
}

gmv_status gmv_query_flag(const gmv_query *query, const char *name, bool *out_value, gmv_error *err)
{
    const gmv_query_parameter *parameter = gmv_query_find(query, name);
    if (parameter == NULL) {
        *out_value = false;
        return GMV_OK;
    }
    /* "?verbose=" is how some clients write a bare name. */
    if (parameter->value == NULL || parameter->value_length == 0 ||
        strcmp(parameter->value, "true") == 0) {
        *out_value = true;
        return GMV_OK;
    }
    if (strcmp(parameter->value, "false") == 0) {
        *out_value = false;
        return GMV_OK;
    }
    return gmv_fail_parameter(err, GMV_ERR_REQUEST_MALFORMED, name, "%s must be true or false",
                              name);
}

bool gmv_segment_decode(const char *text, size_t length, char *out, size_t capacity)
{
    if (capacity == 0)
        return false;
    size_t written = 0;
    for (size_t at = 0; at < length; at++) {
        char c = text[at];
        if (c == '%') {
            int high = length - at >= 3 ? query_hex_digit(text[at + 1]) : -1;
            int low = length - at >= 3 ? query_hex_digit(text[at + 2]) : -1;
            if (high < 0 || low < 0)
                return false;
            c = (char)(high * 16 + low);
            at += 2;
            if (c == '/')
                return false;
        }
        if (c == '\0' || written + 1 >= capacity)
            return false;
        out[written++] = c;
    }
    out[written] = '\0';
    return true;
}
