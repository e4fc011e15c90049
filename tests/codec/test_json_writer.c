/* SPDX-License-Identifier: Apache-2.0 */
/* The writer: commas, escapes, and valid UTF-8 whatever comes in. */
#include <string.h>

#include <criterion/criterion.h>
#include <jansson.h>

#include <gmv/base/alloc.h>

#include "codec/json_writer.h"

Test(json_writer, structure_has_its_commas)
{
    gmv_strbuf out = GMV_STRBUF_INIT;
    gmv_json_writer writer = gmv_json_writer_over(&out);
    gmv_json_open_object(&writer);
    gmv_json_put_key(&writer, "a");
    gmv_json_open_array(&writer);
    gmv_json_close_array(&writer);
    gmv_json_put_key(&writer, "b");
    gmv_json_open_array(&writer);
    gmv_json_put_int64(&writer, INT64_MIN);
    gmv_json_put_uint64(&writer, UINT64_MAX);
    gmv_json_open_object(&writer);
    gmv_json_close_object(&writer);
    gmv_json_put_null(&writer);
    gmv_json_close_array(&writer);
    gmv_json_member_bool(&writer, "c", true);
    gmv_json_put_foreign_key(&writer, "d\"\xFF", 3);
    gmv_json_put_raw(&writer, "1e400", 5);
    gmv_json_member_string(&writer, "e", NULL);
    gmv_json_member_time(&writer, "f", 0, true);
    gmv_json_member_time(&writer, "g", 250, false);
    gmv_json_close_object(&writer);
    cr_assert_str_eq(
        out.data,
        "{\"a\":[],\"b\":[-9223372036854775808,18446744073709551615,{},null],\"c\":true,"
        "\"d\\\"\xEF\xBF\xBD\":1e400,\"e\":null,\"f\":null,\"g\":\"1970-01-01T00:00:00.250Z\"}");
    gmv_strbuf_fini(&out);
}

Test(json_writer, ids_are_quoted_and_none_is_null)
{
    gmv_strbuf out = GMV_STRBUF_INIT;
    gmv_json_writer writer = gmv_json_writer_over(&out);
    gmv_id none = {0};
    gmv_id one = {.kind = GMV_KIND_PACKED};
    gmv_json_open_array(&writer);
    gmv_json_put_id(&writer, &none);
    gmv_json_put_id(&writer, &one);
    gmv_json_close_array(&writer);
    cr_assert_str_eq(out.data, "[null,\"pkd_00000000000000000000000000\"]");
    gmv_strbuf_fini(&out);
}

/* Each pair of bytes, alone and within text: what comes out is JSON and holds what was valid. */
Test(json_writer, any_two_bytes_become_valid_text)
{
    for (int first = 0; first < 256; first++) {
        for (int second = 0; second < 256; second++) {
            const char text[4] = {'<', (char)first, (char)second, '>'};
            gmv_strbuf out = GMV_STRBUF_INIT;
            gmv_json_writer writer = gmv_json_writer_over(&out);
            gmv_json_put_text(&writer, text, sizeof text);
            json_t *root = json_loadb(out.data, out.length, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
            cr_assert_not_null(root, "%02x %02x", first, second);
            size_t length = json_string_length(root);
            cr_assert_eq(json_string_value(root)[0], '<');
            cr_assert_eq(json_string_value(root)[length - 1], '>');
            if (first < 0x80 && second < 0x80)
                cr_assert(length == 4 && memcmp(json_string_value(root), text, 4) == 0);
            json_decref(root);
            gmv_strbuf_fini(&out);
        }
    }
}

Test(json_writer, good_characters_pass_and_broken_ones_are_replaced)
{
    static const struct {
        const char *text, *want;
    } rows[] = {
        {"\xC3\xBC\xE2\x82\xAC\xF0\x9F\x98\x80", "\xC3\xBC\xE2\x82\xAC\xF0\x9F\x98\x80"},
        {"\xF4\x8F\xBF\xBF", "\xF4\x8F\xBF\xBF"},
        {"\xF4\x90\x80\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
        {"\xED\xA0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
        {"\xE0\x80\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
        {"\xC0\xAF", "\xEF\xBF\xBD\xEF\xBF\xBD"},
        {"a\xE2\x82", "a\xEF\xBF\xBD\xEF\xBF\xBD"},
        {"\x7F", "\x7F"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        gmv_strbuf out = GMV_STRBUF_INIT;
        gmv_json_writer writer = gmv_json_writer_over(&out);
        gmv_json_put_string(&writer, rows[i].text);
        cr_assert_eq(out.length, strlen(rows[i].want) + 2, "row %zu: %s", i, out.data);
        cr_assert_eq(memcmp(out.data + 1, rows[i].want, out.length - 2), 0, "row %zu", i);
        gmv_strbuf_fini(&out);
    }
}

Test(json_writer, failing_allocations_stay_failed)
{
    gmv_strbuf out = GMV_STRBUF_INIT;
    gmv_json_writer writer = gmv_json_writer_over(&out);
    gmv_alloc_fail_from(1);
    gmv_json_open_object(&writer);
    gmv_json_member_string(&writer, "a", "b");
    gmv_json_put_key(&writer, "c");
    gmv_json_put_float64(&writer, 0.1);
    gmv_json_close_object(&writer);
    gmv_alloc_fail_from(0);
    cr_assert(gmv_strbuf_failed(&out));
    gmv_strbuf_fini(&out);
}
