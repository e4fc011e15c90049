/* SPDX-License-Identifier: Apache-2.0 */
/* What the decoders of one document share: pointers, type checks, memory. For codec alone. */
#ifndef GMV_CODEC_DECODE_PRIV_H
#define GMV_CODEC_DECODE_PRIV_H

#include "codec/decode.h"
#include "codec/json.h"

/* Memory that lives as long as the document; NULL on failure or for nothing. */
void *gmv_document_allocate(gmv_document *document, size_t count, size_t nbytes);

/* type_error at `pointer` (relative): what was wanted and what came. */
gmv_status gmv_decode_fail_type(const json_t *value, const char *wanted, const char *pointer,
                                gmv_error *err);

/* Whether the value is an integer, of any length. */
GMV_NODISCARD gmv_status gmv_decode_check_integer(const json_t *value, const char *pointer,
                                                  gmv_error *err);

/* An integer that has been checked; beyond int64 it is value_error. */
GMV_NODISCARD gmv_status gmv_decode_int64(const json_t *value, const char *pointer,
                                          int64_t *out_value, gmv_error *err);

/*
 * Runs over the entries of an array and puts "/N" before the pointer of the first failure.
 */
typedef gmv_status (*gmv_decode_entry)(const json_t *entry, size_t index, void *context,
                                       gmv_error *err);
GMV_NODISCARD gmv_status gmv_decode_each(const json_t *array, gmv_decode_entry decode,
                                         void *context, gmv_error *err);

/* Puts "/name" before the pointer of `err`; names that cannot be shown leave it at the parent. */
void gmv_decode_prefix_member(gmv_error *err, const char *name);

/*
 * A CAI payload: first the types of all its members, then their values. Pointers are relative.
 * `named` (NULL: none) is the machine-learning type that the elements are said to be of.
 */
GMV_NODISCARD gmv_status gmv_cai_json_check_types(const json_t *value, gmv_error *err);
GMV_NODISCARD gmv_status gmv_cai_json_read(const json_t *value, bool has_event,
                                           const gmv_dtype *named, gmv_cai_payload *out_payload,
                                           char **out_text, gmv_error *err);

#endif
