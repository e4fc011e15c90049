/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CUDA Array Interface payloads from JSON. Members that are not known stay in the kept text; what
 * the known ones may say is model's to judge. Pointers are relative to the payload.
 */
#include <string.h>

#include <gmv/base/alloc.h>
#include <gmv/base/num.h>

#include "codec/decode_hint.h"

#define CAI_DEPTH_MAX 32 /* of a payload, its own braces counted */

/* ---- types ---- */

static gmv_status cai_check_integer_entry(const json_t *entry, size_t index, void *context,
                                          gmv_error *err)
{
    return gmv_decode_check_integer(entry, "", err);
}

static gmv_status cai_check_integers(const json_t *value, gmv_error *err)
{
    if (!json_is_array(value))
        return gmv_decode_fail_integers(value, err);
    return gmv_decode_each(value, cai_check_integer_entry, NULL, err);
}

static gmv_status cai_check_integer(const json_t *value, gmv_error *err)
{
    return gmv_decode_check_integer(value, "", err);
}

static gmv_status cai_check_string(const json_t *value, gmv_error *err)
{
    if (gmv_json_type_of(value) == GMV_JSON_STRING)
        return GMV_OK;
    return gmv_decode_fail_type(value, "a string", "", err);
}

static gmv_status cai_check_data(const json_t *value, gmv_error *err)
{
    if (!json_is_array(value))
        return gmv_decode_fail_type(value, "the pair [address, readonly]", "", err);
    const json_t *address = json_array_get(value, 0);
    const json_t *readonly = json_array_get(value, 1);
    if (address != NULL)
        GMV_TRY(gmv_decode_check_integer(address, "/0", err));
    if (readonly != NULL && !json_is_boolean(readonly))
        return gmv_decode_fail_type(readonly, "a boolean", "/1", err);
    return GMV_OK;
}

static gmv_status cai_check_descr(const json_t *value, gmv_error *err);

static gmv_status cai_check_descr_field(const json_t *field, size_t index, void *context,
                                        gmv_error *err)
{
    if (!json_is_array(field))
        return gmv_decode_fail_type(field, "an array", "", err);
    const json_t *type = json_array_get(field, 1);
    const json_t *extents = json_array_get(field, 2);
    gmv_status status = GMV_OK;
    if (type != NULL) {
        status = json_is_array(type) ? cai_check_descr(type, err) : cai_check_string(type, err);
        if (status != GMV_OK)
            gmv_error_prefix_pointer(err, "/1");
    }
    if (status == GMV_OK && extents != NULL) {
        status = cai_check_integers(extents, err);
        if (status != GMV_OK)
            gmv_error_prefix_pointer(err, "/2");
    }
    return status;
}

static gmv_status cai_check_descr(const json_t *value, gmv_error *err)
{
    if (!json_is_array(value))
        return gmv_decode_fail_type(value, "an array", "", err);
    return gmv_decode_each(value, cai_check_descr_field, NULL, err);
}

typedef struct cai_member {
    const char *name;
    bool required;
    gmv_status (*check)(const json_t *value, gmv_error *err);
} cai_member;

static const cai_member cai_members[] = {
    {"version", true, cai_check_integer},   {"typestr", true, cai_check_string},
    {"shape", true, cai_check_integers},    {"data", true, cai_check_data},
    {"strides", false, cai_check_integers}, {"stream", false, cai_check_integer},
    {"descr", false, cai_check_descr},
};

#define CAI_MEMBERS (sizeof cai_members / sizeof cai_members[0])

static gmv_status cai_check_members(const json_t *value, gmv_error *err)
{
    if (!json_is_object(value))
        return gmv_decode_fail_type(value,
                                    "an object with data, shape, typestr and version, as "
                                    "__cuda_array_interface__ has them,",
                                    "", err);
    for (size_t i = 0; i < CAI_MEMBERS; i++) {
        const json_t *member = json_object_get(value, cai_members[i].name);
        gmv_status status = GMV_OK;
        if (member == NULL || (json_is_null(member) && !cai_members[i].required))
            continue;
        if (json_is_null(member))
            status = gmv_fail(err, GMV_ERR_TYPE, "", "%s must not be null", cai_members[i].name);
        else
            status = cai_members[i].check(member, err);
        if (status != GMV_OK) {
            gmv_decode_prefix_member(err, cai_members[i].name);
            return status;
        }
    }
    return GMV_OK;
}

static const json_t *cai_mask_of(const json_t *value)
{
    const json_t *mask = json_object_get(value, "mask");
    return json_is_null(mask) ? NULL : mask;
}

gmv_status gmv_cai_json_check_types(const json_t *value, gmv_error *err)
{
    if (gmv_json_depth(value) > CAI_DEPTH_MAX)
        return gmv_fail(err, GMV_ERR_JSON_MALFORMED, "", "the payload nests more than %d deep",
                        CAI_DEPTH_MAX);
    GMV_TRY(cai_check_members(value, err));
    const json_t *mask = cai_mask_of(value);
    if (mask == NULL)
        return GMV_OK;
    gmv_status status = cai_check_members(mask, err);
    if (status != GMV_OK)
        gmv_error_prefix_pointer(err, "/mask");
    return status;
}

/* ---- values ---- */

typedef struct cai_reader {
    const json_t *value;
    bool is_mask;
    const gmv_dtype *named;
    gmv_cai *out;
} cai_reader;

static const json_t *cai_get(const json_t *value, const char *name)
{
    const json_t *member = json_object_get(value, name);
    return json_is_null(member) ? NULL : member;
}

static gmv_status cai_require_members(const json_t *value, gmv_error *err)
{
    for (size_t i = 0; i < CAI_MEMBERS; i++) {
        if (!cai_members[i].required || json_object_get(value, cai_members[i].name) != NULL)
            continue;
        gmv_status status = gmv_fail(err, GMV_ERR_VALUE, "", "%s is missing", cai_members[i].name);
        gmv_decode_prefix_member(err, cai_members[i].name);
        return status;
    }
    return GMV_OK;
}

static gmv_status cai_read_typestr(const cai_reader *reader, gmv_error *err)
{
    const json_t *member = json_object_get(reader->value, "typestr");
    const char *text = json_string_value(member);
    reader->out->is_bit_field = false;
    if (reader->is_mask && (strcmp(text, "|t1") == 0 || strcmp(text, "<t1") == 0)) {
        reader->out->is_bit_field = true;
        reader->out->dtype = GMV_DTYPE_U1;
        return GMV_OK;
    }
    size_t length = json_string_length(member);
    gmv_status status = reader->named ? gmv_dtype_parse_named(text, length, *reader->named,
                                                              &reader->out->dtype, err)
                                      : gmv_dtype_parse(text, length, &reader->out->dtype, err);
    return gmv_decode_hint_typestr(status, text, length, err);
}

typedef struct cai_integers {
    const char *name;
    int64_t *out;
} cai_integers;

static gmv_status cai_read_entry(const json_t *entry, size_t index, void *context, gmv_error *err)
{
    return gmv_decode_int64(entry, "", (int64_t *)context + index, err);
}

static gmv_status cai_read_extents(const json_t *array, const char *pointer, int64_t *out,
                                   gmv_error *err)
{
    gmv_status status = gmv_decode_each(array, cai_read_entry, out, err);
    if (status != GMV_OK)
        gmv_error_prefix_pointer(err, pointer);
    return status;
}

static gmv_status cai_read_layout(const cai_reader *reader, gmv_error *err)
{
    const json_t *shape = json_object_get(reader->value, "shape");
    const json_t *strides = cai_get(reader->value, "strides");
    gmv_layout *layout = &reader->out->layout;
    if (json_array_size(shape) > GMV_NDIM_MAX)
        return gmv_fail(err, GMV_ERR_VALUE, "/shape", "%zu dimensions; there may be at most %d",
                        json_array_size(shape), GMV_NDIM_MAX);
    layout->ndim = (int32_t)json_array_size(shape);
    GMV_TRY(cai_read_extents(shape, "/shape", layout->shape, err));
    layout->has_strides = strides != NULL;
    if (strides == NULL)
        return GMV_OK;
    if (json_array_size(strides) != json_array_size(shape))
        return gmv_fail(err, GMV_ERR_VALUE, "/strides", "%zu strides for %zu dimensions",
                        json_array_size(strides), json_array_size(shape));
    return cai_read_extents(strides, "/strides", layout->strides, err);
}

static gmv_status cai_read_data(const cai_reader *reader, gmv_error *err)
{
    const json_t *data = json_object_get(reader->value, "data");
    if (json_array_size(data) != 2)
        return gmv_fail(err, GMV_ERR_VALUE, "/data",
                        "data has two entries, the address and whether it is readonly, not %zu",
                        json_array_size(data));
    reader->out->readonly = json_is_true(json_array_get(data, 1));
    return gmv_decode_int64(json_array_get(data, 0), "/data/0", &reader->out->address, err);
}

static gmv_status cai_read_stream(const cai_reader *reader, gmv_error *err)
{
    const json_t *stream = cai_get(reader->value, "stream");
    reader->out->has_stream = stream != NULL;
    reader->out->stream = 0;
    if (stream == NULL)
        return GMV_OK;
    return gmv_decode_int64(stream, "/stream", &reader->out->stream, err);
}

/* ---- descr ---- */

static gmv_status cai_descr_nbytes(const json_t *descr, int64_t *out_nbytes, gmv_error *err);

/*
 * The item size that a type string announces, as far as descr needs it: byte order, kind, digits,
 * and maybe a unit. U counts characters of 4 bytes.
 */
static bool cai_typestr_nbytes(const char *text, int64_t *out_nbytes)
{
    if (text[0] == '\0' || strchr("<>|", text[0]) == NULL || text[1] == '\0' ||
        strchr("?biufcmMOSUVt", text[1]) == NULL || text[1] == '?')
        return false;
    size_t digits = strspn(text + 2, "0123456789");
    const char *rest = text + 2 + digits;
    int64_t count;
    if (digits > 9 || !gmv_parse_int64(text + 2, digits, &count))
        return false;
    bool has_unit = *rest == '[' && strchr("mM", text[1]) != NULL && strlen(rest) >= 3 &&
                    rest[strcspn(rest, "]")] == ']' && rest[strcspn(rest, "]") + 1] == '\0';
    if (*rest != '\0' && !has_unit)
        return false;
    *out_nbytes = text[1] == 'U' ? 4 * count : count;
    return true;
}

static gmv_status cai_descr_times(const json_t *extents, int64_t *nbytes, gmv_error *err)
{
    for (size_t i = 0; i < json_array_size(extents); i++) {
        int64_t extent;
        GMV_TRY(gmv_decode_int64(json_array_get(extents, i), "/2", &extent, err));
        if (extent < 0 || !gmv_mul_checked(*nbytes, extent, nbytes))
            return gmv_fail(err, GMV_ERR_VALUE, "/2", "the extents of a field are impossible");
    }
    return GMV_OK;
}

static gmv_status cai_descr_field(const json_t *field, size_t index, void *context, gmv_error *err)
{
    int64_t *total = context;
    int64_t nbytes;
    size_t parts = json_array_size(field);
    if (parts != 2 && parts != 3)
        return gmv_fail(err, GMV_ERR_VALUE, "", "a field has two or three parts, not %zu", parts);
    const json_t *type = json_array_get(field, 1);
    if (json_is_array(type)) {
        gmv_status status = cai_descr_nbytes(type, &nbytes, err);
        if (status != GMV_OK) {
            gmv_error_prefix_pointer(err, "/1");
            return status;
        }
    } else if (!cai_typestr_nbytes(json_string_value(type), &nbytes)) {
        return gmv_fail(err, GMV_ERR_VALUE, "/1", "not a type string with a size");
    }
    if (parts == 3)
        GMV_TRY(cai_descr_times(json_array_get(field, 2), &nbytes, err));
    if (!gmv_add_checked(*total, nbytes, total))
        return gmv_fail(err, GMV_ERR_VALUE, "", "the fields are impossibly large");
    return GMV_OK;
}

static gmv_status cai_descr_nbytes(const json_t *descr, int64_t *out_nbytes, gmv_error *err)
{
    *out_nbytes = 0;
    return gmv_decode_each(descr, cai_descr_field, out_nbytes, err);
}

static gmv_status cai_check_descr_size(const cai_reader *reader, gmv_error *err)
{
    const json_t *descr = cai_get(reader->value, "descr");
    int64_t nbytes;
    if (descr == NULL)
        return GMV_OK;
    gmv_status status = cai_descr_nbytes(descr, &nbytes, err);
    int64_t itemsize = gmv_dtype_describe(reader->out->dtype)->itemsize;
    if (status == GMV_OK && nbytes != itemsize)
        status = gmv_fail(err, GMV_ERR_VALUE, "", "descr is %lld bytes, typestr %lld",
                          (long long)nbytes, (long long)itemsize);
    if (status != GMV_OK)
        gmv_error_prefix_pointer(err, "/descr");
    return status;
}

/* ---- the whole ---- */

static gmv_status cai_read_members(const cai_reader *reader, bool has_event, gmv_error *err)
{
    GMV_TRY(cai_require_members(reader->value, err));
    GMV_TRY(gmv_decode_int64(json_object_get(reader->value, "version"), "/version",
                             &reader->out->version, err));
    GMV_TRY(cai_read_typestr(reader, err));
    GMV_TRY(cai_read_layout(reader, err));
    GMV_TRY(cai_read_data(reader, err));
    GMV_TRY(cai_read_stream(reader, err));
    GMV_TRY(gmv_cai_check(reader->out, has_event, err));
    return cai_check_descr_size(reader, err);
}

static gmv_status cai_read_mask(const json_t *value, bool has_event, gmv_cai *out, gmv_error *err)
{
    cai_reader reader = {value, true, NULL, out};
    gmv_status status;
    if (cai_mask_of(value) != NULL)
        status = gmv_fail(err, GMV_ERR_VALUE, "/mask", "a mask cannot have a mask");
    else
        status = cai_read_members(&reader, has_event, err);
    if (status != GMV_OK)
        gmv_error_prefix_pointer(err, "/mask");
    return status;
}

gmv_status gmv_cai_json_read(const json_t *value, bool has_event, const gmv_dtype *named,
                             gmv_cai_payload *out_payload, char **out_text, gmv_error *err)
{
    cai_reader reader = {value, false, named, &out_payload->cai};
    GMV_TRY(cai_read_members(&reader, has_event, err));
    const json_t *mask = cai_mask_of(value);
    out_payload->has_mask = mask != NULL;
    if (mask != NULL)
        GMV_TRY(cai_read_mask(mask, has_event, &out_payload->mask, err));
    gmv_strbuf text = GMV_STRBUF_INIT;
    gmv_json_writer writer = gmv_json_writer_over(&text);
    gmv_json_put_value(&writer, value);
    *out_text = gmv_strbuf_take(&text, NULL);
    return *out_text != NULL ? GMV_OK : gmv_fail_no_memory(err);
}
