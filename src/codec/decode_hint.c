/* SPDX-License-Identifier: Apache-2.0 */
/* Only ids, names of the tables and texts that are found in a table are repeated in a message. */
#include "codec/decode_hint.h"

#include <string.h>
#include <strings.h>

#include <gmv/base/id.h>
#include <gmv/model/cudf_type.h>

#include "codec/name_list.h"

#define HINT_CUDF_NAME_MAX 40

/* ---- ids and arrays ---- */

/* The id that a string is, or that an object has as the answers have it. NULL: there is none. */
static const char *hint_id(const json_t *value)
{
    gmv_id id;
    const json_t *text = json_is_object(value) ? json_object_get(value, "id") : value;
    bool is_id = json_is_string(text) &&
                 gmv_id_parse(json_string_value(text), json_string_length(text), &id);
    return is_id ? json_string_value(text) : NULL;
}

static const char *hint_type_name(const json_t *value)
{
    return gmv_json_type_name(gmv_json_type_of(value));
}

gmv_status gmv_decode_fail_reference(const json_t *value, gmv_error *err)
{
    const char *id = hint_id(value);
    if (id != NULL)
        return gmv_fail(err, GMV_ERR_TYPE, "",
                        "the id of a handle is wanted here, not %s; write \"%s\"",
                        hint_type_name(value), id);
    return gmv_fail(err, GMV_ERR_TYPE, "",
                    "the id of a handle is wanted here (a string such as \"view_...\"), not %s",
                    hint_type_name(value));
}

gmv_status gmv_decode_fail_references(const json_t *value, gmv_error *err)
{
    const char *id = hint_id(value);
    if (id != NULL)
        return gmv_fail(err, GMV_ERR_TYPE, "",
                        "an array of ids is wanted here, not %s; write [\"%s\"]",
                        hint_type_name(value), id);
    return gmv_fail(err, GMV_ERR_TYPE, "",
                    "an array of ids is wanted here, such as [\"col_...\"], not %s",
                    hint_type_name(value));
}

gmv_status gmv_decode_fail_integers(const json_t *value, gmv_error *err)
{
    if (gmv_json_type_of(value) == GMV_JSON_INT64)
        return gmv_fail(err, GMV_ERR_TYPE, "",
                        "an array is wanted here, not an integer; write [%lld]",
                        (long long)json_integer_value(value));
    return gmv_fail(err, GMV_ERR_TYPE, "",
                    "an array of integers is wanted here, such as [4], not %s",
                    hint_type_name(value));
}

/* ---- objects ---- */

/* The member that a lone string was most likely meant for: the one that must be there. */
static const gmv_field *hint_main_field(const gmv_field *fields)
{
    for (; fields->name != NULL; fields++)
        if (fields->required)
            return fields;
    return NULL;
}

gmv_status gmv_decode_fail_object(const json_t *value, const gmv_field *fields, gmv_error *err)
{
    const gmv_field *main = hint_main_field(fields);
    const char *text = json_is_string(value) ? json_string_value(value) : NULL;
    const char *id = main && main->type == GMV_FIELD_REFERENCE ? hint_id(value) : NULL;
    bool is_cudf_name = main && main->type == GMV_FIELD_CUDF_NAME && text != NULL &&
                        gmv_cudf_type_by_name(text, json_string_length(value)) != GMV_CUDF_NONE;
    if (id != NULL || is_cudf_name)
        return gmv_fail(err, GMV_ERR_TYPE, "",
                        "an object is wanted here, not %s; write {\"%s\": \"%s\"}",
                        hint_type_name(value), main->name, is_cudf_name ? text : id);
    gmv_name_list members;
    gmv_name_list_init(&members);
    for (; fields->name != NULL; fields++)
        gmv_name_list_add(&members, fields->name, strlen(fields->name));
    return gmv_fail(err, GMV_ERR_TYPE, "", "an object is wanted here, not %s; its members are: %s",
                    hint_type_name(value), members.text);
}

/* ---- element types ---- */

static bool hint_is(const char *text, size_t length, const char *word)
{
    return strlen(word) == length && strncasecmp(text, word, length) == 0;
}

/* "float32", "f4", "=f4", "FLOAT32": the type that is meant, or GMV_DTYPE_COUNT. */
static gmv_dtype hint_dtype(const char *text, size_t length)
{
    for (int i = 0; i < GMV_DTYPE_COUNT; i++) {
        const gmv_dtype_info *info = gmv_dtype_describe((gmv_dtype)i);
        const char *bare = info->typestr + 1;
        size_t order = length > 0 && strchr("<|=", text[0]) ? 1 : 0;
        bool is_typestr = strlen(bare) == length - order &&
                          !gmv_dtype_is_named_only((gmv_dtype)i) &&
                          memcmp(text + order, bare, length - order) == 0;
        if (is_typestr || hint_is(text, length, info->name))
            return (gmv_dtype)i;
    }
    return GMV_DTYPE_COUNT;
}

gmv_status gmv_decode_fail_dtype_name(const char *text, size_t length, gmv_error *err)
{
    static const char only[] = "dtype names bfloat16, float8_e4m3fn and float8_e5m2 only, which "
                               "have no type string";
    gmv_dtype meant = hint_dtype(text, length);
    if (meant == GMV_DTYPE_COUNT)
        return gmv_fail(err, GMV_ERR_VALUE, "", "%s", only);
    return gmv_fail(err, GMV_ERR_VALUE, "", "%s; write \"typestr\": \"%s\" instead", only,
                    gmv_dtype_describe(meant)->typestr);
}

gmv_status gmv_decode_hint_typestr(gmv_status status, const char *text, size_t length,
                                   gmv_error *err)
{
    gmv_dtype meant = status == GMV_ERR_VALUE ? hint_dtype(text, length) : GMV_DTYPE_COUNT;
    if (meant == GMV_DTYPE_COUNT)
        return status;
    const gmv_dtype_info *info = gmv_dtype_describe(meant);
    if (gmv_dtype_is_named_only(meant))
        return gmv_fail(err, GMV_ERR_VALUE, "/typestr",
                        "%s has no type string; write \"typestr\": \"%s\" beside \"dtype\": \"%s\"",
                        info->name, info->typestr, info->name);
    return gmv_fail(err, GMV_ERR_VALUE, "/typestr", "'%.*s' is no type string; write \"%s\"",
                    (int)length, text, info->typestr);
}

/* "float32", "<f4", "timestamp_days": the cuDF type that is meant, or GMV_CUDF_NONE. */
static int32_t hint_cudf_type(const char *text, size_t length)
{
    char capitals[HINT_CUDF_NAME_MAX];
    gmv_dtype meant = hint_dtype(text, length);
    if (meant != GMV_DTYPE_COUNT)
        return gmv_dtype_describe(meant)->cudf_type;
    if (length > sizeof capitals)
        return GMV_CUDF_NONE;
    for (size_t i = 0; i < length; i++)
        capitals[i] = text[i] >= 'a' && text[i] <= 'z' ? (char)(text[i] - 'a' + 'A') : text[i];
    return gmv_cudf_type_by_name(capitals, length);
}

gmv_status gmv_decode_fail_cudf_name(const char *text, size_t length, gmv_error *err)
{
    int32_t meant = hint_cudf_type(text, length);
    if (meant != GMV_CUDF_NONE)
        return gmv_fail(err, GMV_ERR_VALUE, "", "cuDF has no type of this name; write \"%s\"",
                        gmv_cudf_type_name(meant));
    return gmv_fail(err, GMV_ERR_VALUE, "",
                    "cuDF has no type of this name; "
                    "they are in capitals, such as FLOAT32, STRING or TIMESTAMP_DAYS");
}
