/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The only reader of JSON text. One scan goes over the bytes before jansson sees them: it bounds
 * the nesting, refuses NUL and a byte-order mark, and turns numbers that jansson cannot hold
 * (integers beyond int64, reals that overflow) into marked strings. The mark is a NUL, so no string
 * from outside can pass for a number.
 *
 * For codec alone: other floors use decode.h, which shows no jansson type.
 */
#ifndef GMV_CODEC_JSON_H
#define GMV_CODEC_JSON_H

#include <jansson.h>

#include <gmv/base/error.h>

#include "codec/json_writer.h"

#define GMV_JSON_DEPTH_MAX 36 /* of a body */

/*
 * Parses a whole text. *out_root is a new reference: json_decref. Messages give line and column and
 * never the bytes.
 *
 * @retval GMV_ERR_JSON_MALFORMED  also duplicate members, NUL, depth, text behind the value
 * @retval GMV_ERR_OVERLOADED      no memory
 */
GMV_NODISCARD gmv_status gmv_json_parse(const char *text, size_t length, json_t **out_root,
                                        gmv_error *err);

typedef enum gmv_json_type {
    GMV_JSON_NULL,
    GMV_JSON_BOOL,
    GMV_JSON_INT64,
    GMV_JSON_BIG_INTEGER, /* beyond int64 */
    GMV_JSON_REAL,        /* a point or an exponent, of any size */
    GMV_JSON_STRING,
    GMV_JSON_ARRAY,
    GMV_JSON_OBJECT
} gmv_json_type;

/* What a value of a parsed text is: json_typeof knows nothing of marked numbers. */
gmv_json_type gmv_json_type_of(const json_t *value);

/* "null", "a boolean", ... for messages. @borrowed, static. */
const char *gmv_json_type_name(gmv_json_type type);

/* A value of type INT64 or BIG_INTEGER, saturated. */
int64_t gmv_json_clamped(const json_t *value);

/* A value of type INT64, BIG_INTEGER or REAL, rounded; infinite beyond the largest double. */
double gmv_json_number(const json_t *value);

/* How deep a value nests: 0 for scalars, 1 for {}. */
size_t gmv_json_depth(const json_t *value);

/* Writes a value back, compactly; marked numbers get their digits back. */
void gmv_json_put_value(gmv_json_writer *writer, const json_t *value);

#endif
