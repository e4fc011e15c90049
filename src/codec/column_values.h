/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of columns as JSON values. */
#ifndef GMV_CODEC_COLUMN_VALUES_H
#define GMV_CODEC_COLUMN_VALUES_H

#include <gmv/ops/column.h>

#include "codec/json_writer.h"

/* Longest text of the rows of one answer. */
#define GMV_COLUMN_VALUES_NBYTES_MAX ((size_t)32 << 20)

/*
 * An array of the rows: nulls null, fixed-width elements as gmv_encode_fixed_width has them,
 * strings as strings (bytes that are not UTF-8: {"base64": "..."}), lists and structs as arrays,
 * dictionaries as their keys. False when it stopped in the midst of it: the text has become longer
 * than `nbytes_max`, or there is no memory for it (gmv_strbuf_failed).
 */
GMV_NODISCARD bool gmv_encode_column_rows(gmv_json_writer *writer, const gmv_column_rows *rows,
                                          size_t nbytes_max);

#endif
