/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Type strings. The grammar is checked first; as it leaves each type one spelling behind the byte
 * order, what is served is then found by comparing text with the table. Raw bytes are served under
 * the name of a machine-learning type only.
 */
#include <gmv/model/dtype.h>

#include <string.h>

#include <gmv/base/num.h>

#define DTYPE_SHOWN_MAX 40 /* longest type string that a message repeats */

#define DTYPE_ROW(name, typestr, numpy, nbytes, alignment, kind, cudf) \
    [GMV_DTYPE_##name] = {typestr, numpy, nbytes, alignment, GMV_DTYPE_##kind, cudf},
static const gmv_dtype_info dtype_infos[GMV_DTYPE_COUNT] = {GMV_DTYPE_MAP(DTYPE_ROW)};
#undef DTYPE_ROW

const gmv_dtype_info *gmv_dtype_describe(gmv_dtype dtype)
{
    unsigned index = (unsigned)dtype;
    return &dtype_infos[index < GMV_DTYPE_COUNT ? index : GMV_DTYPE_U1];
}

bool gmv_dtype_is_named_only(gmv_dtype dtype)
{
    return gmv_dtype_describe(dtype)->typestr[1] == 'V';
}

bool gmv_dtype_by_name(const char *name, size_t length, gmv_dtype *out_dtype)
{
    for (int i = 0; i < GMV_DTYPE_COUNT; i++) {
        const char *own = dtype_infos[i].name;
        if (gmv_dtype_is_named_only((gmv_dtype)i) && strlen(own) == length &&
            memcmp(own, name, length) == 0) {
            *out_dtype = (gmv_dtype)i;
            return true;
        }
    }
    return false;
}

bool gmv_dtype_from_cudf(int32_t type_id, gmv_dtype *out_dtype)
{
    if (type_id == GMV_CUDF_NONE)
        return false;
    for (int i = 0; i < GMV_DTYPE_COUNT; i++) {
        if (dtype_infos[i].cudf_type == type_id) {
            *out_dtype = (gmv_dtype)i;
            return true;
        }
    }
    return false;
}

typedef struct dtype_text {
    const char *at;
    const char *end;
} dtype_text;

static bool dtype_take(dtype_text *text, char c)
{
    if (text->at == text->end || *text->at != c)
        return false;
    text->at++;
    return true;
}

/* A positive decimal without leading zeros that fits int64; false if there is none here. */
static bool dtype_take_number(dtype_text *text)
{
    const char *begin = text->at;
    while (text->at < text->end && *text->at >= '0' && *text->at <= '9')
        text->at++;
    int64_t number;
    return gmv_parse_int64(begin, (size_t)(text->at - begin), &number) && number > 0;
}

static bool dtype_at_digit(const dtype_text *text)
{
    return text->at < text->end && *text->at >= '0' && *text->at <= '9';
}

static bool dtype_take_unit_name(dtype_text *text)
{
    static const char *const names[] = {"ms", "us", "ns", "ps", "fs", "as", "Y",
                                        "M",  "W",  "D",  "h",  "m",  "s"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        size_t length = strlen(names[i]);
        if ((size_t)(text->end - text->at) >= length && memcmp(text->at, names[i], length) == 0) {
            text->at += length;
            return true;
        }
    }
    return false;
}

/* "[ns]", "[25s]", "[s/10]". */
static bool dtype_take_unit(dtype_text *text)
{
    if (!dtype_take(text, '['))
        return false;
    if (dtype_at_digit(text) && !dtype_take_number(text))
        return false;
    if (!dtype_take_unit_name(text))
        return false;
    if (dtype_take(text, '/') && !dtype_take_number(text))
        return false;
    return dtype_take(text, ']');
}

static bool dtype_is_well_formed(const char *typestr, size_t length)
{
    if (length < 2 || memchr("<>|", typestr[0], 3) == NULL ||
        memchr("biufcMmVOSUt", typestr[1], 12) == NULL)
        return false;
    char kind = typestr[1];
    dtype_text text = {typestr + 2, typestr + length};
    /* Object pointers are written without a size. */
    if ((kind != 'O' || text.at < text.end) && !dtype_take_number(&text))
        return false;
    /* A datetime without a unit is well formed, though generic. */
    if ((kind == 'M' || kind == 'm') && text.at < text.end && !dtype_take_unit(&text))
        return false;
    return text.at == text.end;
}

static bool dtype_is_showable(const char *typestr, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (typestr[i] < 0x20 || typestr[i] > 0x7e)
            return false;
    return length > 0 && length <= DTYPE_SHOWN_MAX;
}

static gmv_status dtype_refuse(gmv_status status, const char *typestr, size_t length,
                               const char *why, gmv_error *err)
{
    if (!dtype_is_showable(typestr, length))
        return gmv_fail(err, status, "/typestr", "the type string %s", why);
    return gmv_fail(err, status, "/typestr", "type string '%.*s' %s", (int)length, typestr, why);
}

/* A type that the string stands for by itself, or GMV_DTYPE_COUNT. Well formed. */
static gmv_dtype dtype_find(const char *typestr, size_t length)
{
    for (int i = 0; i < GMV_DTYPE_COUNT; i++) {
        const char *served = dtype_infos[i].typestr;
        if (!gmv_dtype_is_named_only((gmv_dtype)i) && strlen(served) == length &&
            memcmp(served + 1, typestr + 1, length - 1) == 0)
            return (gmv_dtype)i;
    }
    return GMV_DTYPE_COUNT;
}

static gmv_status dtype_check(const char *typestr, size_t length, gmv_error *err)
{
    if (!dtype_is_well_formed(typestr, length))
        return dtype_refuse(GMV_ERR_VALUE, typestr, length,
                            "is not a byte order, a kind and a size, such as '<f4' or '<M8[ns]'",
                            err);
    if (typestr[0] == '>')
        return dtype_refuse(GMV_ERR_DTYPE_UNSUPPORTED, typestr, length,
                            "is big-endian; convert the data to little-endian first", err);
    return GMV_OK;
}

gmv_status gmv_dtype_parse(const char *typestr, size_t length, gmv_dtype *out_dtype, gmv_error *err)
{
    GMV_TRY(dtype_check(typestr, length, err));
    gmv_dtype found = dtype_find(typestr, length);
    if (found == GMV_DTYPE_COUNT)
        return dtype_refuse(GMV_ERR_DTYPE_UNSUPPORTED, typestr, length,
                            "is well formed, but elements of this type are not served", err);
    *out_dtype = found;
    return GMV_OK;
}

gmv_status gmv_dtype_parse_named(const char *typestr, size_t length, gmv_dtype named,
                                 gmv_dtype *out_dtype, gmv_error *err)
{
    const gmv_dtype_info *info = gmv_dtype_describe(named);
    GMV_TRY(dtype_check(typestr, length, err));
    gmv_dtype found = dtype_find(typestr, length);
    bool is_raw =
        strlen(info->typestr) == length && memcmp(info->typestr + 1, typestr + 1, length - 1) == 0;
    if (found == GMV_DTYPE_COUNT && !is_raw)
        return dtype_refuse(GMV_ERR_DTYPE_UNSUPPORTED, typestr, length,
                            "is well formed, but not of a size that the dtype has", err);
    if (!is_raw && gmv_dtype_describe(found)->itemsize != info->itemsize)
        return dtype_refuse(GMV_ERR_VALUE, typestr, length, "has another item size than the dtype",
                            err);
    *out_dtype = named;
    return GMV_OK;
}
