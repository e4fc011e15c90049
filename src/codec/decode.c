/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bodies by tables: one check of types and one reader for each type of field. Errors are raised
 * with pointers relative to the value and get their prefix on the way up.
 */
#include "codec/decode_priv.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <gmv/base/alloc.h>
#include <gmv/base/num.h>
#include <gmv/model/cudf_type.h>
#include <gmv/registry/registry.h>

#include "codec/base64.h"
#include "codec/decode_hint.h"
#include "codec/name_list.h"
#include "codec/utf8.h"

/* ---- memory ---- */

typedef struct document_block {
    struct document_block *next;
    max_align_t data[];
} document_block;

void *gmv_document_allocate(gmv_document *document, size_t count, size_t nbytes)
{
    size_t total;
    if (count == 0 || !gmv_mul_checked(count, nbytes, &total) ||
        !gmv_add_checked(total, sizeof(document_block), &total))
        return NULL;
    document_block *block = gmv_calloc(1, total);
    if (block == NULL)
        return NULL;
    block->next = document->blocks;
    document->blocks = block;
    return block->data;
}

void gmv_document_fini(gmv_document *document)
{
    while (document->blocks != NULL) {
        document_block *block = document->blocks;
        document->blocks = block->next;
        gmv_free(block);
    }
    gmv_free(document->payload);
    document->payload = NULL;
    json_decref(document->root);
    document->root = NULL;
}

/* ---- pointers ---- */

#define DECODE_SHOWN_NAME_MAX 64

/* RFC 6901: '~' is "~0" and '/' is "~1". False for names that are not short plain ASCII. */
static bool decode_escape_name(const char *name, char *out, size_t capacity)
{
    size_t at = 0;
    if (strlen(name) > DECODE_SHOWN_NAME_MAX)
        return false;
    out[at++] = '/';
    for (; *name != '\0'; name++) {
        if (*name < 0x20 || *name > 0x7E || at + 3 > capacity)
            return false;
        if (*name == '~' || *name == '/') {
            out[at++] = '~';
            out[at++] = *name == '~' ? '0' : '1';
        } else {
            out[at++] = *name;
        }
    }
    out[at] = '\0';
    return true;
}

void gmv_decode_prefix_member(gmv_error *err, const char *name)
{
    char prefix[2 * DECODE_SHOWN_NAME_MAX + 4];
    if (decode_escape_name(name, prefix, sizeof prefix))
        gmv_error_prefix_pointer(err, prefix);
}

#define DECODE_LEASE "ttl_seconds"

/* A table with a label and no field of that name. */
static bool decode_takes_lease(const gmv_field *fields)
{
    bool has_label = false;
    for (; fields->name != NULL; fields++) {
        if (strcmp(fields->name, DECODE_LEASE) == 0)
            return false;
        has_label |= fields->type == GMV_FIELD_LABEL;
    }
    return has_label;
}

static gmv_status decode_fail_unknown(const char *name, const gmv_field *fields, gmv_error *err)
{
    char pointer[2 * DECODE_SHOWN_NAME_MAX + 4];
    bool takes_lease = decode_takes_lease(fields);
    gmv_name_list known;
    gmv_name_list_init(&known);
    for (; fields->name != NULL; fields++)
        gmv_name_list_add(&known, fields->name, strlen(fields->name));
    if (takes_lease)
        gmv_name_list_add(&known, DECODE_LEASE, sizeof DECODE_LEASE - 1);
    if (decode_escape_name(name, pointer, sizeof pointer))
        return gmv_fail(err, GMV_ERR_VALUE, pointer, "there is no such member; known are: %s",
                        known.text);
    return gmv_fail(err, GMV_ERR_VALUE, "",
                    "there is a member that is not known; its name is too long or not plain text");
}

/* ---- parts ---- */

/* "64" and "true": right but for the quotes. */
static bool decode_is_quoted(const json_t *value, const char *wanted)
{
    int64_t integer;
    if (gmv_json_type_of(value) != GMV_JSON_STRING)
        return false;
    const char *text = json_string_value(value);
    if (strcmp(wanted, "a boolean") == 0)
        return strcmp(text, "true") == 0 || strcmp(text, "false") == 0;
    return strcmp(wanted, "an integer") == 0 &&
           gmv_parse_int64(text, json_string_length(value), &integer);
}

gmv_status gmv_decode_fail_type(const json_t *value, const char *wanted, const char *pointer,
                                gmv_error *err)
{
    return gmv_fail(err, GMV_ERR_TYPE, pointer, "%s is wanted here, not %s%s", wanted,
                    gmv_json_type_name(gmv_json_type_of(value)),
                    decode_is_quoted(value, wanted) ? "; leave the quotes out" : "");
}

/* A real beyond any double is a fault of the value: nothing that fits was meant by it. */
gmv_status gmv_decode_check_integer(const json_t *value, const char *pointer, gmv_error *err)
{
    gmv_json_type type = gmv_json_type_of(value);
    if (type == GMV_JSON_INT64 || type == GMV_JSON_BIG_INTEGER ||
        (type == GMV_JSON_REAL && json_is_string(value)))
        return GMV_OK;
    return gmv_decode_fail_type(value, "an integer", pointer, err);
}

gmv_status gmv_decode_int64(const json_t *value, const char *pointer, int64_t *out_value,
                            gmv_error *err)
{
    if (!json_is_integer(value))
        return gmv_fail(err, GMV_ERR_VALUE, pointer,
                        "the number does not fit; integers from -2^63 to 2^63-1 do");
    *out_value = json_integer_value(value);
    return GMV_OK;
}

gmv_status gmv_decode_each(const json_t *array, gmv_decode_entry decode, void *context,
                           gmv_error *err)
{
    for (size_t i = 0; i < json_array_size(array); i++) {
        gmv_status status = decode(json_array_get(array, i), i, context, err);
        if (status == GMV_OK)
            continue;
        char prefix[32];
        snprintf(prefix, sizeof prefix, "/%zu", i);
        gmv_error_prefix_pointer(err, prefix);
        return status;
    }
    return GMV_OK;
}

/* ---- types ---- */

static gmv_status decode_check_fields(const json_t *value, const gmv_field *fields, gmv_error *err);

static gmv_status decode_check_bool(const gmv_field *field, const json_t *value, gmv_error *err)
{
    return json_is_boolean(value) ? GMV_OK : gmv_decode_fail_type(value, "a boolean", "", err);
}

static gmv_status decode_check_integer(const gmv_field *field, const json_t *value, gmv_error *err)
{
    return gmv_decode_check_integer(value, "", err);
}

static gmv_status decode_check_clamped(const gmv_field *field, const json_t *value, gmv_error *err)
{
    if (gmv_json_type_of(value) == GMV_JSON_REAL)
        return gmv_decode_fail_type(value, "an integer", "", err);
    return gmv_decode_check_integer(value, "", err);
}

static gmv_status decode_check_number(const gmv_field *field, const json_t *value, gmv_error *err)
{
    if (gmv_json_type_of(value) == GMV_JSON_REAL || gmv_json_type_of(value) == GMV_JSON_INT64 ||
        gmv_json_type_of(value) == GMV_JSON_BIG_INTEGER)
        return GMV_OK;
    return gmv_decode_fail_type(value, "a number", "", err);
}

static gmv_status decode_check_string(const gmv_field *field, const json_t *value, gmv_error *err)
{
    if (gmv_json_type_of(value) == GMV_JSON_STRING)
        return GMV_OK;
    return gmv_decode_fail_type(value, "a string", "", err);
}

static gmv_status decode_check_reference(const gmv_field *field, const json_t *value,
                                         gmv_error *err)
{
    return gmv_json_type_of(value) == GMV_JSON_STRING ? GMV_OK
                                                      : gmv_decode_fail_reference(value, err);
}

static gmv_status decode_check_reference_entry(const json_t *entry, size_t index, void *context,
                                               gmv_error *err)
{
    return decode_check_reference(NULL, entry, err);
}

static gmv_status decode_check_references(const gmv_field *field, const json_t *value,
                                          gmv_error *err)
{
    if (!json_is_array(value))
        return gmv_decode_fail_references(value, err);
    return gmv_decode_each(value, decode_check_reference_entry, NULL, err);
}

static gmv_status decode_check_integer_entry(const json_t *entry, size_t index, void *context,
                                             gmv_error *err)
{
    return gmv_decode_check_integer(entry, "", err);
}

static gmv_status decode_check_integers(const gmv_field *field, const json_t *value, gmv_error *err)
{
    if (!json_is_array(value))
        return gmv_decode_fail_integers(value, err);
    return gmv_decode_each(value, decode_check_integer_entry, NULL, err);
}

static gmv_status decode_check_range_entry(const json_t *entry, size_t index, void *context,
                                           gmv_error *err)
{
    if (!json_is_array(entry))
        return gmv_decode_fail_type(entry, "a pair such as [0, 8]", "", err);
    return decode_check_integers(NULL, entry, err);
}

static gmv_status decode_check_ranges(const gmv_field *field, const json_t *value, gmv_error *err)
{
    if (!json_is_array(value))
        return gmv_decode_fail_type(value, "an array of pairs such as [[0, 8]]", "", err);
    return gmv_decode_each(value, decode_check_range_entry, NULL, err);
}

static gmv_status decode_check_object(const gmv_field *field, const json_t *value, gmv_error *err)
{
    return decode_check_fields(value, field->fields, err);
}

static gmv_status decode_check_cai(const gmv_field *field, const json_t *value, gmv_error *err)
{
    return gmv_cai_json_check_types(value, err);
}

/* ---- values ---- */

/* Where a value goes: the place in the struct, the struct itself, and whose document it is. */
typedef struct decode_target {
    gmv_document *document;
    void *whole;
    void *place;
} decode_target;

static gmv_status decode_read_fields(const json_t *value, const gmv_field *fields, void *out_struct,
                                     gmv_document *document, gmv_error *err);

static gmv_status decode_read_bool(const gmv_field *field, const json_t *value,
                                   const decode_target *target, gmv_error *err)
{
    *(bool *)target->place = json_is_true(value);
    return GMV_OK;
}

static gmv_status decode_read_int64(const gmv_field *field, const json_t *value,
                                    const decode_target *target, gmv_error *err)
{
    return gmv_decode_int64(value, "", target->place, err);
}

static gmv_status decode_read_optional(const gmv_field *field, const json_t *value,
                                       const decode_target *target, gmv_error *err)
{
    gmv_optional_int64 *out = target->place;
    out->given = true;
    return gmv_decode_int64(value, "", &out->value, err);
}

static gmv_status decode_read_clamped(const gmv_field *field, const json_t *value,
                                      const decode_target *target, gmv_error *err)
{
    gmv_optional_int64 *out = target->place;
    out->given = true;
    out->value = gmv_json_clamped(value);
    return GMV_OK;
}

static gmv_status decode_read_number(const gmv_field *field, const json_t *value,
                                     const decode_target *target, gmv_error *err)
{
    double number = gmv_json_number(value);
    if (!isfinite(number))
        return gmv_fail(err, GMV_ERR_VALUE, "", "no double is as large as this number");
    *(double *)target->place = number;
    return GMV_OK;
}

static gmv_status decode_read_text(const gmv_field *field, const json_t *value,
                                   const decode_target *target, gmv_error *err)
{
    *(gmv_text *)target->place = (gmv_text){json_string_value(value), json_string_length(value)};
    return GMV_OK;
}

static gmv_status decode_read_label(const gmv_field *field, const json_t *value,
                                    const decode_target *target, gmv_error *err)
{
    size_t characters;
    if (!gmv_utf8_check(json_string_value(value), json_string_length(value), &characters) ||
        characters > GMV_LABEL_CHARACTERS_MAX)
        return gmv_fail(err, GMV_ERR_VALUE, "", "a label has at most %d characters",
                        GMV_LABEL_CHARACTERS_MAX);
    return decode_read_text(field, value, target, err);
}

static gmv_status decode_read_name(const gmv_field *field, const json_t *value,
                                   const decode_target *target, gmv_error *err)
{
    const char *text = json_string_value(value);
    for (int i = 0; field->names[i] != NULL; i++) {
        if (strcmp(field->names[i], text) == 0) {
            *(int *)target->place = i;
            return GMV_OK;
        }
    }
    gmv_name_list known;
    gmv_name_list_fill(&known, field->names);
    return gmv_fail(err, GMV_ERR_VALUE, "", "%s has no such value; it has: %s", field->name,
                    known.text);
}

static gmv_status decode_read_dtype_name(const gmv_field *field, const json_t *value,
                                         const decode_target *target, gmv_error *err)
{
    gmv_optional_dtype *out = target->place;
    out->given = true;
    const char *text = json_string_value(value);
    size_t length = json_string_length(value);
    return gmv_dtype_by_name(text, length, &out->dtype)
               ? GMV_OK
               : gmv_decode_fail_dtype_name(text, length, err);
}

/* The type that an earlier field has named, or NULL. */
static const gmv_dtype *decode_named_dtype(const gmv_field *field, const decode_target *target)
{
    const gmv_optional_dtype *named =
        (const void *)((const char *)target->whole + field->dtype_offset);
    return field->dtype_offset != 0 && named->given ? &named->dtype : NULL;
}

static gmv_status decode_read_typestr(const gmv_field *field, const json_t *value,
                                      const decode_target *target, gmv_error *err)
{
    const gmv_dtype *named = decode_named_dtype(field, target);
    const char *text = json_string_value(value);
    size_t length = json_string_length(value);
    gmv_status status = named ? gmv_dtype_parse_named(text, length, *named, target->place, err)
                              : gmv_dtype_parse(text, length, target->place, err);
    status = gmv_decode_hint_typestr(status, text, length, err);
    /* It names its own member, which the caller is about to do. */
    if (status != GMV_OK && err != NULL)
        err->pointer[0] = '\0';
    return status;
}

static gmv_status decode_read_cudf_name(const gmv_field *field, const json_t *value,
                                        const decode_target *target, gmv_error *err)
{
    int32_t id = gmv_cudf_type_by_name(json_string_value(value), json_string_length(value));
    if (id == GMV_CUDF_NONE)
        return gmv_decode_fail_cudf_name(json_string_value(value), json_string_length(value), err);
    *(int32_t *)target->place = id;
    return GMV_OK;
}

static void decode_reference(const json_t *value, gmv_reference *out)
{
    out->given = true;
    out->valid = gmv_id_parse(json_string_value(value), json_string_length(value), &out->id);
}

static gmv_status decode_read_reference(const gmv_field *field, const json_t *value,
                                        const decode_target *target, gmv_error *err)
{
    decode_reference(value, target->place);
    return GMV_OK;
}

static gmv_status decode_read_references(const gmv_field *field, const json_t *value,
                                         const decode_target *target, gmv_error *err)
{
    gmv_references *out = target->place;
    out->given = true;
    out->count = json_array_size(value);
    out->items = gmv_document_allocate(target->document, out->count, sizeof out->items[0]);
    if (out->count > 0 && out->items == NULL)
        return gmv_fail_no_memory(err);
    for (size_t i = 0; i < out->count; i++)
        decode_reference(json_array_get(value, i), &out->items[i]);
    return GMV_OK;
}

static gmv_status decode_read_int64_entry(const json_t *entry, size_t index, void *context,
                                          gmv_error *err)
{
    return gmv_decode_int64(entry, "", (int64_t *)context + index, err);
}

static gmv_status decode_read_int64s(const gmv_field *field, const json_t *value,
                                     const decode_target *target, gmv_error *err)
{
    gmv_int64s *out = target->place;
    out->given = true;
    out->count = json_array_size(value);
    out->items = gmv_document_allocate(target->document, out->count, sizeof out->items[0]);
    if (out->count > 0 && out->items == NULL)
        return gmv_fail_no_memory(err);
    return gmv_decode_each(value, decode_read_int64_entry, out->items, err);
}

static gmv_status decode_read_range_entry(const json_t *entry, size_t index, void *context,
                                          gmv_error *err)
{
    gmv_bit_range *range = (gmv_bit_range *)context + index;
    if (json_array_size(entry) != 2)
        return gmv_fail(err, GMV_ERR_VALUE, "", "a range has two entries, begin and end");
    GMV_TRY(gmv_decode_int64(json_array_get(entry, 0), "/0", &range->begin, err));
    return gmv_decode_int64(json_array_get(entry, 1), "/1", &range->end, err);
}

static gmv_status decode_read_ranges(const gmv_field *field, const json_t *value,
                                     const decode_target *target, gmv_error *err)
{
    gmv_ranges *out = target->place;
    out->given = true;
    out->count = json_array_size(value);
    out->items = gmv_document_allocate(target->document, out->count, sizeof out->items[0]);
    if (out->count > 0 && out->items == NULL)
        return gmv_fail_no_memory(err);
    return gmv_decode_each(value, decode_read_range_entry, out->items, err);
}

static gmv_status decode_read_base64(const gmv_field *field, const json_t *value,
                                     const decode_target *target, gmv_error *err)
{
    gmv_blob *out = target->place;
    size_t length = json_string_length(value);
    size_t room = gmv_base64_decoded_max(length);
    out->given = true;
    out->bytes = gmv_document_allocate(target->document, room, 1);
    if (room > 0 && out->bytes == NULL)
        return gmv_fail_no_memory(err);
    if (!gmv_base64_decode(json_string_value(value), length, out->bytes, &out->nbytes))
        return gmv_fail(
            err, GMV_ERR_VALUE, "",
            "not base64: the standard alphabet with padding and without blanks is wanted");
    return GMV_OK;
}

static gmv_status decode_read_object(const gmv_field *field, const json_t *value,
                                     const decode_target *target, gmv_error *err)
{
    *((bool *)((char *)target->whole + field->given_offset)) = true;
    return decode_read_fields(value, field->fields, target->place, target->document, err);
}

static gmv_status decode_read_cai(const gmv_field *field, const json_t *value,
                                  const decode_target *target, gmv_error *err)
{
    return gmv_cai_json_read(value, field->with_event, decode_named_dtype(field, target),
                             target->place, &target->document->payload, err);
}

typedef struct decode_type {
    gmv_status (*check)(const gmv_field *field, const json_t *value, gmv_error *err);
    gmv_status (*read)(const gmv_field *field, const json_t *value, const decode_target *target,
                       gmv_error *err);
} decode_type;

static const decode_type decode_types[] = {
    [GMV_FIELD_BOOL] = {decode_check_bool, decode_read_bool},
    [GMV_FIELD_INT64] = {decode_check_integer, decode_read_int64},
    [GMV_FIELD_OPTIONAL_INT64] = {decode_check_integer, decode_read_optional},
    [GMV_FIELD_CLAMPED_INT64] = {decode_check_clamped, decode_read_clamped},
    [GMV_FIELD_NUMBER] = {decode_check_number, decode_read_number},
    [GMV_FIELD_TEXT] = {decode_check_string, decode_read_text},
    [GMV_FIELD_LABEL] = {decode_check_string, decode_read_label},
    [GMV_FIELD_NAME] = {decode_check_string, decode_read_name},
    [GMV_FIELD_DTYPE_NAME] = {decode_check_string, decode_read_dtype_name},
    [GMV_FIELD_TYPESTR] = {decode_check_string, decode_read_typestr},
    [GMV_FIELD_CUDF_NAME] = {decode_check_string, decode_read_cudf_name},
    [GMV_FIELD_REFERENCE] = {decode_check_reference, decode_read_reference},
    [GMV_FIELD_REFERENCES] = {decode_check_references, decode_read_references},
    [GMV_FIELD_INT64S] = {decode_check_integers, decode_read_int64s},
    [GMV_FIELD_RANGES] = {decode_check_ranges, decode_read_ranges},
    [GMV_FIELD_BASE64] = {decode_check_string, decode_read_base64},
    [GMV_FIELD_OBJECT] = {decode_check_object, decode_read_object},
    [GMV_FIELD_CAI] = {decode_check_cai, decode_read_cai},
};

/* ---- objects ---- */

static gmv_status decode_check_fields(const json_t *value, const gmv_field *fields, gmv_error *err)
{
    if (!json_is_object(value))
        return gmv_decode_fail_object(value, fields, err);
    for (const gmv_field *field = fields; field->name != NULL; field++) {
        const json_t *member = json_object_get(value, field->name);
        gmv_status status = GMV_OK;
        if (member == NULL || (json_is_null(member) && !field->required))
            continue;
        if (json_is_null(member))
            status = gmv_fail(err, GMV_ERR_TYPE, "", "%s must not be null", field->name);
        else
            status = decode_types[field->type].check(field, member, err);
        if (status != GMV_OK) {
            gmv_decode_prefix_member(err, field->name);
            return status;
        }
    }
    return GMV_OK;
}

static bool decode_is_known(const gmv_field *fields, const char *name)
{
    for (; fields->name != NULL; fields++)
        if (strcmp(fields->name, name) == 0)
            return true;
    return false;
}

static gmv_status decode_refuse_unknown(const json_t *value, const gmv_field *fields,
                                        gmv_error *err)
{
    json_t *object = json_incref((json_t *)(uintptr_t)value);
    gmv_status status = GMV_OK;
    for (void *at = json_object_iter(object); at != NULL && status == GMV_OK;
         at = json_object_iter_next(object, at))
        if (!decode_is_known(fields, json_object_iter_key(at)))
            status = decode_fail_unknown(json_object_iter_key(at), fields, err);
    json_decref(object);
    return status;
}

static gmv_status decode_read_fields(const json_t *value, const gmv_field *fields, void *out_struct,
                                     gmv_document *document, gmv_error *err)
{
    GMV_TRY(decode_refuse_unknown(value, fields, err));
    for (const gmv_field *field = fields; field->name != NULL; field++) {
        const json_t *member = json_object_get(value, field->name);
        gmv_status status = GMV_OK;
        if (member == NULL && field->required)
            status = gmv_fail(err, GMV_ERR_VALUE, "", "%s is missing", field->name);
        if (member != NULL && !json_is_null(member)) {
            decode_target target = {document, out_struct, (char *)out_struct + field->offset};
            status = decode_types[field->type].read(field, member, &target, err);
        }
        if (status != GMV_OK) {
            gmv_decode_prefix_member(err, field->name);
            return status;
        }
    }
    return GMV_OK;
}

static gmv_status decode_empty_body(const gmv_field *fields, gmv_error *err)
{
    for (; fields->name != NULL; fields++)
        if (fields->required)
            return gmv_fail(err, GMV_ERR_JSON_MALFORMED, NULL,
                            "the body is empty, but %s is needed", fields->name);
    return GMV_OK;
}

/* ---- leases ---- */

/* Takes the member out of the object; NULL when there is none, or null. The caller's to release. */
static json_t *decode_take_lease(json_t *root, const gmv_field *fields)
{
    json_t *lease = decode_takes_lease(fields) ? json_object_get(root, DECODE_LEASE) : NULL;
    if (lease == NULL)
        return NULL;
    json_incref(lease);
    (void)json_object_del(root, DECODE_LEASE);
    if (!json_is_null(lease))
        return lease;
    json_decref(lease);
    return NULL;
}

static gmv_status decode_check_lease(const json_t *lease, gmv_error *err)
{
    return lease ? gmv_decode_check_integer(lease, "/" DECODE_LEASE, err) : GMV_OK;
}

static gmv_status decode_read_lease(const json_t *lease, uint32_t *out_seconds, gmv_error *err)
{
    int64_t seconds = 0;
    if (lease == NULL)
        return GMV_OK;
    GMV_TRY(gmv_decode_int64(lease, "/" DECODE_LEASE, &seconds, err));
    if (seconds < 1 || seconds > GMV_LEASE_SECONDS_MAX)
        return gmv_fail(err, GMV_ERR_VALUE, "/" DECODE_LEASE,
                        "%lld is no length of a lease; it lasts 1 to %d seconds, null for ever",
                        (long long)seconds, GMV_LEASE_SECONDS_MAX);
    *out_seconds = (uint32_t)seconds;
    return GMV_OK;
}

static gmv_status decode_root(json_t *root, const gmv_field *fields, void *out_struct,
                              gmv_document *document, gmv_error *err)
{
    json_t *lease = decode_take_lease(root, fields);
    gmv_status status = decode_check_fields(root, fields, err);
    if (status == GMV_OK)
        status = decode_check_lease(lease, err);
    if (status == GMV_OK)
        status = decode_read_fields(root, fields, out_struct, document, err);
    if (status == GMV_OK)
        status = decode_read_lease(lease, &document->ttl_seconds, err);
    json_decref(lease);
    return status;
}

gmv_status gmv_decode_body(const char *body, size_t nbytes, const gmv_field *fields,
                           void *out_struct, gmv_document *out_document, gmv_error *err)
{
    *out_document = (gmv_document){0};
    if (nbytes == 0)
        return decode_empty_body(fields, err);
    json_t *root;
    GMV_TRY(gmv_json_parse(body, nbytes, &root, err));
    out_document->root = root;
    gmv_status status = decode_root(root, fields, out_struct, out_document, err);
    if (status != GMV_OK)
        gmv_document_fini(out_document);
    return status;
}
