/* SPDX-License-Identifier: Apache-2.0 */
/* Elements and rows as JSON values. */
#ifndef GMV_CODEC_VALUES_H
#define GMV_CODEC_VALUES_H

#include <gmv/model/cudf_type.h>
#include <gmv/model/dtype.h>

#include "codec/json_writer.h"

/*
 * An array of `count` elements: booleans, complex numbers as [re, im], dates and time spans as
 * integers, 64-bit integers exact.
 */
void gmv_encode_elements(gmv_json_writer *writer, gmv_dtype dtype, const void *elements,
                         int64_t count);

/* The same, null where bit i of `validity` is 0 (NULL: all valid). */
void gmv_encode_masked_elements(gmv_json_writer *writer, gmv_dtype dtype, const void *elements,
                                const uint8_t *validity, int64_t count);

/* One element. */
void gmv_encode_element(gmv_json_writer *writer, gmv_dtype dtype, const void *element);

/*
 * One element of a fixed-width column type, at any address: decimals exact as strings, timestamps
 * as ISO 8601, durations as integers. Years 1 to 9999 have four digits, all others a sign and as
 * many as they need ("+10000", "-0001"; the year 0 is "+0000").
 */
void gmv_encode_fixed_width(gmv_json_writer *writer, gmv_cudf_type type, const void *element);

#endif
