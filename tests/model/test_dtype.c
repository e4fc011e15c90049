/* SPDX-License-Identifier: Apache-2.0 */
/* Type strings: what is served, what is well formed but not served, and what is no type string. */
#include <string.h>

#include <criterion/criterion.h>

#include <gmv/model/dtype.h>

static gmv_status dtype_try(const char *text, size_t length, gmv_dtype *out, gmv_error *err)
{
    gmv_error_init(err);
    return gmv_dtype_parse(text, length, out, err);
}

Test(dtype, every_type_is_read_with_either_native_order)
{
    for (int i = 0; i < GMV_DTYPE_COUNT; i++) {
        const gmv_dtype_info *info = gmv_dtype_describe((gmv_dtype)i);
        char text[16];
        if (gmv_dtype_is_named_only((gmv_dtype)i))
            continue;
        strcpy(text, info->typestr);
        for (const char *order = "<|"; *order != '\0'; order++) {
            gmv_dtype dtype = GMV_DTYPE_COUNT;
            gmv_error err;
            text[0] = *order;
            cr_expect_eq(dtype_try(text, strlen(text), &dtype, &err), GMV_OK, "%s", text);
            cr_expect_eq(dtype, (gmv_dtype)i, "%s", text);
        }
    }
}

Test(dtype, the_canonical_order_is_a_bar_on_single_bytes_only)
{
    for (int i = 0; i < GMV_DTYPE_COUNT; i++) {
        const gmv_dtype_info *info = gmv_dtype_describe((gmv_dtype)i);
        cr_expect_eq(info->typestr[0], info->itemsize == 1 ? '|' : '<');
        cr_expect_eq(info->itemsize % info->alignment, 0);
        cr_expect_eq(info->alignment,
                     info->kind == GMV_DTYPE_COMPLEX ? info->itemsize / 2 : info->itemsize);
    }
}

Test(dtype, cudf_types_have_the_width_of_their_element)
{
    for (int i = 0; i < GMV_DTYPE_COUNT; i++) {
        const gmv_dtype_info *info = gmv_dtype_describe((gmv_dtype)i);
        gmv_dtype back = GMV_DTYPE_COUNT;
        if (info->cudf_type == GMV_CUDF_NONE)
            continue;
        cr_expect_eq(gmv_cudf_type_width(info->cudf_type), info->itemsize);
        cr_expect(gmv_dtype_from_cudf(info->cudf_type, &back));
        cr_expect_eq(back, (gmv_dtype)i);
    }
}

Test(dtype, cudf_types_without_elements_of_their_own_have_none)
{
    static const int32_t ids[] = {
        GMV_CUDF_NONE,
        GMV_CUDF_EMPTY,
        GMV_CUDF_TIMESTAMP_DAYS,
        GMV_CUDF_DURATION_DAYS,
        GMV_CUDF_DECIMAL32,
        GMV_CUDF_DECIMAL64,
        GMV_CUDF_DECIMAL128,
        GMV_CUDF_STRING,
        GMV_CUDF_LIST,
        GMV_CUDF_STRUCT,
        999,
    };
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
        gmv_dtype dtype;
        cr_expect_not(gmv_dtype_from_cudf(ids[i], &dtype), "%d", (int)ids[i]);
    }
}

Test(dtype, what_is_no_type_string_is_a_value_error)
{
    static const char *const texts[] = {
        "",
        "f",
        "<",
        "<f",
        "f4",
        "=f4",
        "!f4",
        "<z4",
        "<f0",
        "<f04",
        "<f-4",
        "<f+4",
        "<f4 ",
        " <f4",
        "< f4",
        "<f4x",
        "<f4\n",
        "<f4,<f4",
        "(2,)<f4",
        "float32",
        "<f4[ns]",
        "<M8[ns",
        "<M8[]",
        "<M8[xs]",
        "<M8[NS]",
        "<M8[ns]x",
        "<M8[ns][ns]",
        "<M8[0ns]",
        "<M8[01s]",
        "<M8[s/]",
        "<M8[s/0]",
        "<M8[/10]",
        "<M8[25]",
        "<M8ns",
        "<M[ns]",
        "<M8 [ns]",
        "<M8[n s]",
        "<F4",
        "<B1",
        "|O08",
        "<t",
        "<f99999999999999999999",
        "<M8[99999999999999999999s]",
        "<f\xd9\xa4",
        "<M8[\xce\xbcs]",
        "<f4.0",
        "<f4e0",
        "><f4",
        ">f",
        ">f04",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        gmv_dtype dtype = GMV_DTYPE_COUNT;
        gmv_error err;
        cr_expect_eq(dtype_try(texts[i], strlen(texts[i]), &dtype, &err), GMV_ERR_VALUE, "'%s'",
                     texts[i]);
        cr_expect_eq(dtype, GMV_DTYPE_COUNT);
        cr_expect(err.has_pointer);
        cr_expect_str_eq(err.pointer, "/typestr");
    }
}

Test(dtype, what_is_well_formed_but_not_served_is_unsupported)
{
    static const char *const texts[] = {
        ">f4",     ">i8",      ">u1",      ">M8[ns]",   "|O",        "|O8",    "|S5",
        "<U3",     "|V6",      "<V2",      "|V2",       "|V1",       "|t1",    "|t8",
        "<i3",     "<i16",     "<i99",     "<f3",       "<f16",      "|b2",    "<c4",
        "<c32",    "<M8",      "<M8[D]",   "<M8[h]",    "<M8[ps]",   "<M8[Y]", "<M8[M]",
        "<M8[as]", "<M8[25s]", "<M8[1ns]", "<M8[s/10]", "<M8[2s/3]", "<M4[s]", "<m8",
        "<m8[W]",  "<m16[ns]", ">O",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        gmv_dtype dtype = GMV_DTYPE_COUNT;
        gmv_error err;
        cr_expect_eq(dtype_try(texts[i], strlen(texts[i]), &dtype, &err), GMV_ERR_DTYPE_UNSUPPORTED,
                     "'%s'", texts[i]);
        cr_expect_eq(dtype, GMV_DTYPE_COUNT);
        cr_expect_str_eq(err.pointer, "/typestr");
        cr_expect_not_null(strstr(err.message, texts[i]), "%s", err.message);
    }
}

Test(dtype, only_length_bytes_are_read)
{
    gmv_dtype dtype;
    gmv_error err;
    cr_expect_eq(dtype_try("<f4xyz", 3, &dtype, &err), GMV_OK);
    cr_expect_eq(dtype_try("<f4\0", 4, &dtype, &err), GMV_ERR_VALUE);
    cr_expect_eq(dtype_try("<f\0"
                           "4",
                           4, &dtype, &err),
                 GMV_ERR_VALUE);
    cr_expect_eq(dtype_try("<\0"
                           "8",
                           3, &dtype, &err),
                 GMV_ERR_VALUE);
    cr_expect_eq(dtype_try("\0f4", 3, &dtype, &err), GMV_ERR_VALUE);
}

Test(dtype, messages_repeat_only_short_plain_text)
{
    gmv_dtype dtype;
    gmv_error err;
    char text[400] = "<f";
    memset(text + 2, '4', sizeof text - 3);
    cr_expect_eq(dtype_try(text, sizeof text - 1, &dtype, &err), GMV_ERR_VALUE);
    cr_expect_null(strstr(err.message, "4444444444444444444444444444444444444444444"));
    cr_expect_eq(dtype_try("<f\xff", 3, &dtype, &err), GMV_ERR_VALUE);
    cr_expect_null(strchr(err.message, '?'));
}

Test(dtype, a_value_outside_the_table_is_described_as_bytes)
{
    cr_expect_str_eq(gmv_dtype_describe((gmv_dtype)999)->typestr, "|u1");
}

static gmv_status dtype_try_named(const char *text, gmv_dtype named, gmv_dtype *out, gmv_error *err)
{
    gmv_error_init(err);
    *out = GMV_DTYPE_COUNT;
    return gmv_dtype_parse_named(text, strlen(text), named, out, err);
}

Test(dtype, a_named_type_takes_any_type_string_of_its_size)
{
    static const struct {
        gmv_dtype named;
        const char *text;
        gmv_status status;
    } rows[] = {
        {GMV_DTYPE_BF16, "<V2", GMV_OK},
        {GMV_DTYPE_BF16, "|V2", GMV_OK},
        {GMV_DTYPE_BF16, "<u2", GMV_OK},
        {GMV_DTYPE_BF16, "<f2", GMV_OK},
        {GMV_DTYPE_BF16, "|V1", GMV_ERR_DTYPE_UNSUPPORTED},
        {GMV_DTYPE_BF16, "|V4", GMV_ERR_DTYPE_UNSUPPORTED},
        {GMV_DTYPE_BF16, "|S2", GMV_ERR_DTYPE_UNSUPPORTED},
        {GMV_DTYPE_BF16, ">u2", GMV_ERR_DTYPE_UNSUPPORTED},
        {GMV_DTYPE_BF16, "<f4", GMV_ERR_VALUE},
        {GMV_DTYPE_BF16, "|u1", GMV_ERR_VALUE},
        {GMV_DTYPE_BF16, "V2", GMV_ERR_VALUE},
        {GMV_DTYPE_BF16, "", GMV_ERR_VALUE},
        {GMV_DTYPE_F8_E4M3FN, "|V1", GMV_OK},
        {GMV_DTYPE_F8_E4M3FN, "<V1", GMV_OK},
        {GMV_DTYPE_F8_E4M3FN, "|u1", GMV_OK},
        {GMV_DTYPE_F8_E4M3FN, "<V2", GMV_ERR_DTYPE_UNSUPPORTED},
        {GMV_DTYPE_F8_E5M2, "|V1", GMV_OK},
        {GMV_DTYPE_F8_E5M2, "|i1", GMV_OK},
        {GMV_DTYPE_F8_E5M2, "<u2", GMV_ERR_VALUE},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        gmv_dtype dtype;
        gmv_error err;
        cr_expect_eq(dtype_try_named(rows[i].text, rows[i].named, &dtype, &err), rows[i].status,
                     "%s", rows[i].text);
        cr_expect_eq(dtype, rows[i].status == GMV_OK ? rows[i].named : GMV_DTYPE_COUNT);
        if (rows[i].status != GMV_OK)
            cr_expect_str_eq(err.pointer, "/typestr");
    }
}

Test(dtype, machine_learning_types_are_found_by_name_and_no_others)
{
    gmv_dtype dtype = GMV_DTYPE_COUNT;
    cr_expect(gmv_dtype_by_name("bfloat16", 8, &dtype));
    cr_expect_eq(dtype, GMV_DTYPE_BF16);
    cr_expect(gmv_dtype_by_name("float8_e4m3fn", 13, &dtype));
    cr_expect_eq(dtype, GMV_DTYPE_F8_E4M3FN);
    cr_expect(gmv_dtype_by_name("float8_e5m2", 11, &dtype));
    cr_expect_eq(dtype, GMV_DTYPE_F8_E5M2);
    cr_expect_not(gmv_dtype_by_name("float8_e5m2fnuz", 15, &dtype));
    cr_expect_not(gmv_dtype_by_name("bfloat16", 7, &dtype));
    cr_expect_not(gmv_dtype_by_name("float32", 7, &dtype));
    cr_expect_not(gmv_dtype_by_name("", 0, &dtype));
}
