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

/*
 * An array of `count` rows of a fixed-width type: null where bit i of `validity` is 0 (NULL: all
 * valid), decimals exact as strings, timestamps as ISO 8601, durations as integers.
 */
void gmv_encode_rows(gmv_json_writer *writer, gmv_cudf_type type, const void *data,
                     const uint8_t *validity, int64_t count);

#endif
