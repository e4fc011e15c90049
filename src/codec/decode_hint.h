/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What to write instead: refusals of the slips that people make when they write a body by hand or
 * send what another library calls it. For codec alone. Pointers are relative and empty.
 */
#ifndef GMV_CODEC_DECODE_HINT_H
#define GMV_CODEC_DECODE_HINT_H

#include "codec/decode_priv.h"

/* type_error: not the id of a handle. An object that has one is told to give it. */
gmv_status gmv_decode_fail_reference(const json_t *value, gmv_error *err);

/* type_error: not an array of such ids. */
gmv_status gmv_decode_fail_references(const json_t *value, gmv_error *err);

/* type_error: not an array of integers. */
gmv_status gmv_decode_fail_integers(const json_t *value, gmv_error *err);

/* type_error: not an object with these members. */
gmv_status gmv_decode_fail_object(const json_t *value, const gmv_field *fields, gmv_error *err);

/* value_error: no name of a cuDF type. */
gmv_status gmv_decode_fail_cudf_name(const char *text, size_t length, gmv_error *err);

/* value_error: a `dtype` that does not name what only it can name. */
gmv_status gmv_decode_fail_dtype_name(const char *text, size_t length, gmv_error *err);

/*
 * The failure of a type string: a value_error of a text that stands for a type elsewhere, such as
 * NumPy's name of it, is told how it is written here. Gives `status` back.
 */
gmv_status gmv_decode_hint_typestr(gmv_status status, const char *text, size_t length,
                                   gmv_error *err);

#endif
