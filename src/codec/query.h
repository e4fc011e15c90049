/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Query strings and path segments: percent-decoding and typed values. Works on the raw target as it
 * came. Errors are request_malformed with the parameter's name.
 */
#ifndef GMV_CODEC_QUERY_H
#define GMV_CODEC_QUERY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <gmv/base/error.h>

#define GMV_QUERY_PARAMETERS_MAX 8

typedef struct gmv_query_parameter {
    char *name;          /* decoded, NUL-terminated, inside gmv_query.storage */
    char *value;         /* decoded; NULL for a bare name */
    size_t value_length; /* bytes; a decoded NUL is refused */
} gmv_query_parameter;

typedef struct gmv_query {
    size_t count;
    gmv_query_parameter parameters[GMV_QUERY_PARAMETERS_MAX];
    char *storage; /* owned */
} gmv_query;

/*
 * Splits "a=1&b=2" (without '?'), decodes %XX and '+' as blank, and refuses bad escapes, NUL, bytes
 * that are not UTF-8, repeated names, more than GMV_QUERY_PARAMETERS_MAX, and names that are not in
 * `allowed` (comma-separated, "" for none; NULL: anything goes and nothing is an error).
 */
GMV_NODISCARD gmv_status gmv_query_parse(const char *text, size_t length, const char *allowed,
                                         gmv_query *out_query, gmv_error *err);
void gmv_query_fini(gmv_query *query);

/* The parameter, or NULL. @borrowed. */
const gmv_query_parameter *gmv_query_find(const gmv_query *query, const char *name);

/* An integer in [minimum, maximum], or `absent` when it is not there. */
GMV_NODISCARD gmv_status gmv_query_int64(const gmv_query *query, const char *name, int64_t minimum,
                                         int64_t maximum, int64_t absent, int64_t *out_value,
                                         gmv_error *err);

/* A JSON number, finite; false in *out_given when it is not there. */
GMV_NODISCARD gmv_status gmv_query_number(const gmv_query *query, const char *name, bool *out_given,
                                          double *out_value, gmv_error *err);

/* The index in `names`, which ends with NULL, or `absent`. */
GMV_NODISCARD gmv_status gmv_query_name(const gmv_query *query, const char *name,
                                        const char *const *names, int absent, int *out_index,
                                        gmv_error *err);

/* "true" or "false"; bare or empty means true; absent means false. */
GMV_NODISCARD gmv_status gmv_query_flag(const gmv_query *query, const char *name, bool *out_value,
                                        gmv_error *err);

/*
 * Percent-decodes one path segment into `out` (NUL-terminated). False for bad escapes, NUL, '/'
 * made by an escape, or text that does not fit.
 */
GMV_NODISCARD bool gmv_segment_decode(const char *text, size_t length, char *out, size_t capacity);

#endif
