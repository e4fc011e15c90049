/* SPDX-License-Identifier: Apache-2.0 */
/* The reader: what is no JSON, how deep it goes, numbers of any size, and every allocation failing.
 */
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/parameterized.h>

#include <gmv/base/alloc.h>

#include "codec/json.h"
#include "codec/utf8.h"

static gmv_status reader_parse(const char *text, size_t length, json_t **root, gmv_error *err)
{
    gmv_error_init(err);
    return gmv_json_parse(text, length, root, err);
}

static json_t *reader_good(const char *text)
{
    json_t *root;
    gmv_error err;
    cr_assert_eq(reader_parse(text, strlen(text), &root, &err), GMV_OK, "%s: %s", text,
                 err.message);
    return root;
}

/* ---- what is refused
 * ----------------------------------------------------------------------------- */

#define TEXT(literal)               \
    {                               \
        literal, sizeof literal - 1 \
    }

static const struct reader_refusal {
    const char *text;
    size_t length;
} reader_refusals[] = {
    TEXT(""),
    TEXT("  \n"),
    TEXT("\xEF\xBB\xBF{}"),
    TEXT("\xFE\xFF{}"),
    TEXT("{}\0"),
    TEXT("\0{}"),
    TEXT("[1\0]"),
    TEXT("[1\0"),
    TEXT("\"a\0b\""),
    TEXT("{\"shape\\u0000x\":[1]}"),
    TEXT("{\"typestr\":\"<f8\\u0000zzz\"}"),
    TEXT("{} x"),
    TEXT("{}{}"),
    TEXT("{\"start\":0,\"stop\":8,\"start\":4}"),
    TEXT("{\"start\":0,\"\\u0073tart\":0}"),
    TEXT("{\"x\":{\"a\":1,\"a\":1}}"),
    TEXT("{\"typestr\":\"\xD7\x49\"}"),
    TEXT("\"\xC0\xAF\""),
    TEXT("\"\\ud800\""),
    TEXT("\"\xE2\x82\""),
    TEXT("\"\xE2\x82"),
    TEXT("[01]"),
    TEXT("[+1]"),
    TEXT("[1.]"),
    TEXT("[.5]"),
    TEXT("[1e]"),
    TEXT("[-]"),
    TEXT("[0x10]"),
    TEXT("[NaN]"),
    TEXT("[Infinity]"),
    TEXT("[-Infinity]"),
    TEXT("[1,]"),
    TEXT("{\"a\":1,}"),
    TEXT("{'a':1}"),
    TEXT("[1] /* x */"),
    TEXT("[(1)]"),
    TEXT("[None]"),
    TEXT("[True]"),
    TEXT("\"\\u0000i7\""),
    TEXT("[\"\\\\\\u0000i7\"]"),
    TEXT("[\"a\\u0000\"]"),
    TEXT("\"\\u0000"),
    TEXT("{\"\\u0000i7\": 1}"),
    TEXT("{\"\\u0000i7\": 99999999999999999999}"),
    TEXT("\"open"),
    TEXT("\"open\\"),
    TEXT("\"open\\\""),
    TEXT("[\"\t\"]"),
    TEXT("{99999999999999999999:1}"),
    TEXT("{99999999999999999999 :1}"),
    TEXT("{1e999\n:1}"),
    TEXT("[\"a\"99999999999999999999]"),
    TEXT("[99999999999999999999\"a\"]"),
    TEXT("[99999999999999999999 99999999999999999999]"),
    TEXT("[x99999999999999999999]"),
    TEXT("[099999999999999999999]"),
    TEXT("[--99999999999999999999]"),
    TEXT("[99999999999999999999-]"),
    TEXT("[9e9e999]"),
    TEXT("[1e+]"),
};

ParameterizedTestParameters(reader, refuses_what_is_no_json)
{
    static size_t indices[sizeof reader_refusals / sizeof reader_refusals[0]];
    for (size_t i = 0; i < sizeof indices / sizeof indices[0]; i++)
        indices[i] = i;
    return cr_make_param_array(size_t, indices, sizeof indices / sizeof indices[0]);
}

ParameterizedTest(size_t *index, reader, refuses_what_is_no_json)
{
    const struct reader_refusal *row = &reader_refusals[*index];
    json_t *root = (json_t *)(uintptr_t)1;
    gmv_error err;
    /* A copy of the exact length lets a sanitizer see reads past the end. */
    char *copy = malloc(row->length + (row->length == 0));
    cr_assert_not_null(copy);
    memcpy(copy, row->text, row->length);
    gmv_status status = reader_parse(copy, row->length, &root, &err);
    cr_assert_eq(status, GMV_ERR_JSON_MALFORMED, "row %zu: %d", *index, (int)status);
    cr_assert_null(root);
    cr_assert(gmv_utf8_check(err.message, strlen(err.message), NULL), "row %zu", *index);
    free(copy);
}

Test(reader, messages_say_where_and_never_what)
{
    json_t *root;
    gmv_error err;
    cr_assert_eq(reader_parse("{\n  \"secret\": secret\n}", 22, &root, &err),
                 GMV_ERR_JSON_MALFORMED);
    cr_assert_null(strstr(err.message, "secret"));
    cr_assert_not_null(strstr(err.message, "line 2"), "%s", err.message);
    cr_assert_eq(reader_parse("[\n\n  \0]", 7, &root, &err), GMV_ERR_JSON_MALFORMED);
    cr_assert_not_null(strstr(err.message, "line 3, column 3"), "%s", err.message);
    cr_assert_not(err.has_pointer);
}

Test(reader, white_space_around_a_value_is_fine)
{
    json_t *root = reader_good(" \r\n\t{\"a\": [1, 2]} \n\r\t ");
    cr_assert_eq(json_array_size(json_object_get(root, "a")), 2);
    json_decref(root);
}

Test(reader, any_value_may_stand_alone)
{
    static const struct {
        const char *text;
        gmv_json_type type;
    } rows[] = {
        {"null", GMV_JSON_NULL},
        {"true", GMV_JSON_BOOL},
        {"false", GMV_JSON_BOOL},
        {"7", GMV_JSON_INT64},
        {"-0", GMV_JSON_INT64},
        {"7.0", GMV_JSON_REAL},
        {"7e0", GMV_JSON_REAL},
        {"1e400", GMV_JSON_REAL},
        {"\"x\"", GMV_JSON_STRING},
        {"[]", GMV_JSON_ARRAY},
        {"{}", GMV_JSON_OBJECT},
        {"9223372036854775807", GMV_JSON_INT64},
        {"-9223372036854775808", GMV_JSON_INT64},
        {"9223372036854775808", GMV_JSON_BIG_INTEGER},
        {"-9223372036854775809", GMV_JSON_BIG_INTEGER},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        json_t *root = reader_good(rows[i].text);
        cr_assert_eq(gmv_json_type_of(root), rows[i].type, "%s", rows[i].text);
        json_decref(root);
    }
}

/* ---- depth
 * --------------------------------------------------------------------------------------- */

static gmv_status reader_nested(char open, size_t depth, bool closed, gmv_error *err)
{
    char *text = malloc(2 * depth + 1);
    json_t *root;
    cr_assert_not_null(text);
    memset(text, open, depth);
    memset(text + depth, open == '[' ? ']' : '}', depth);
    gmv_status status = reader_parse(text, closed ? 2 * depth : depth, &root, err);
    if (status == GMV_OK) {
        cr_assert_eq(gmv_json_depth(root), depth);
        json_decref(root);
    }
    free(text);
    return status;
}

Test(reader, nests_as_deep_as_allowed_and_no_deeper)
{
    gmv_error err;
    cr_assert_eq(reader_nested('[', GMV_JSON_DEPTH_MAX, true, &err), GMV_OK);
    cr_assert_eq(reader_nested('[', GMV_JSON_DEPTH_MAX + 1, true, &err), GMV_ERR_JSON_MALFORMED);
    cr_assert_not_null(strstr(err.message, "line 1, column 37"), "%s", err.message);
}

Test(reader, a_million_brackets_cost_nothing)
{
    gmv_error err;
    gmv_alloc_watch(1);
    cr_assert_eq(reader_nested('[', 1000000, false, &err), GMV_ERR_JSON_MALFORMED);
    cr_assert_eq(reader_nested('{', 1000000, true, &err), GMV_ERR_JSON_MALFORMED);
    cr_assert_eq(gmv_alloc_live(), 0);
}

Test(reader, brackets_in_strings_and_side_by_side_do_not_count)
{
    char text[4096] = "[";
    size_t at = 1;
    for (int i = 0; i < 300; i++) {
        memcpy(text + at, "[\"[[[\"],", 8);
        at += 8;
    }
    text[at - 1] = ']';
    text[at] = '\0';
    json_t *root = reader_good(text);
    cr_assert_eq(json_array_size(root), 300);
    json_decref(root);
}

Test(reader, depth_counts_the_deepest_branch)
{
    static const struct {
        const char *text;
        size_t depth;
    } rows[] = {{"7", 0}, {"{}", 1}, {"[]", 1}, {"[1,[2],3]", 2}, {"{\"a\":{},\"b\":[[0]]}", 3}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        json_t *root = reader_good(rows[i].text);
        cr_assert_eq(gmv_json_depth(root), rows[i].depth, "%s", rows[i].text);
        json_decref(root);
    }
}

/* ---- numbers
 * ------------------------------------------------------------------------------------- */

Test(reader, integers_saturate)
{
    static const struct {
        const char *text;
        int64_t value;
    } rows[] = {
        {"0", 0},
        {"-0", 0},
        {"9007199254740993", 9007199254740993},
        {"9223372036854775807", INT64_MAX},
        {"9223372036854775808", INT64_MAX},
        {"-9223372036854775808", INT64_MIN},
        {"-9223372036854775809", INT64_MIN},
        {"1000000000000000000000000000000", INT64_MAX},
        {"-1000000000000000000000000000000", INT64_MIN},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        json_t *root = reader_good(rows[i].text);
        cr_assert_eq(gmv_json_clamped(root), rows[i].value, "%s", rows[i].text);
        json_decref(root);
    }
}

static void reader_goes_round(const char *text, const char *want)
{
    json_t *root = reader_good(text);
    gmv_strbuf out = GMV_STRBUF_INIT;
    gmv_json_writer writer = gmv_json_writer_over(&out);
    gmv_json_put_value(&writer, root);
    cr_assert_not(gmv_strbuf_failed(&out));
    cr_assert_str_eq(out.data, want);
    gmv_strbuf_fini(&out);
    json_decref(root);
}

Test(reader, what_was_read_is_written_back_compactly)
{
    static const char text[] =
        " { \"b\" : [ 1 , -2.5, 1e400 , -1E+400, true , false , null , \"\\u00e9\\n\\\"\\\\\\/\" ] "
        ","
        " \"a\" : { } , \"big\" : 123456789012345678901234567890 , \"e\" : [ ] ,"
        " \"\\u0001\" : -99999999999999999999, \"min\": -9223372036854775808 } ";
    reader_goes_round(text,
                      "{\"b\":[1,-2.5,1e400,-1E+400,true,false,null,\"\xC3\xA9\\n\\\"\\\\/\"],"
                      "\"a\":{},\"big\":123456789012345678901234567890,\"e\":[],"
                      "\"\\u0001\":-99999999999999999999,\"min\":-9223372036854775808}");
}

Test(reader, numbers_of_thousands_of_digits_come_back)
{
    static char text[5001];
    memset(text, '7', sizeof text - 1);
    reader_goes_round(text, text);
    text[0] = '-';
    reader_goes_round(text, text);
}

Test(reader, long_reals_that_fit_are_numbers)
{
    static char text[2048];
    memset(text, '3', sizeof text - 1);
    text[1] = '.';
    json_t *root = reader_good(text);
    cr_assert(json_is_real(root));
    json_decref(root);
    text[1] = '3';
    text[1000] = '.';
    root = reader_good(text);
    cr_assert(json_is_string(root));
    cr_assert_eq(gmv_json_type_of(root), GMV_JSON_REAL);
    json_decref(root);
}

Test(reader, numbers_in_strings_stay_text)
{
    reader_goes_round("[\"99999999999999999999\",\"1e999\",\"\\\"99999999999999999999\"]",
                      "[\"99999999999999999999\",\"1e999\",\"\\\"99999999999999999999\"]");
}

Test(reader, a_string_like_a_marked_number_is_a_string)
{
    static const char *const texts[] = {"\"i7\"", "\"\\\\u0000i7\"", "\"\\u0001i7\""};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        json_t *root = reader_good(texts[i]);
        cr_assert_eq(gmv_json_type_of(root), GMV_JSON_STRING, "%s", texts[i]);
        json_decref(root);
    }
}

/* ---- memory
 * -------------------------------------------------------------------------------------- */

Test(reader, every_failing_allocation_is_overloaded_and_leaks_nothing)
{
    static const char text[] =
        "{\"a\":[1,2,3,4,5,6,7,8,9,10,99999999999999999999,1e999],"
        "\"b\":{\"c\":\"a string that is longer than sixteen bytes\"},"
        "\"d\":[[[[{}]]]],\"e\":1.5,\"f\":3,\"g\":4,\"h\":5,\"i\":6,\"j\":7}";
    json_decref(reader_good("1"));
    gmv_alloc_watch(1);
    uint64_t n = 1;
    for (;; n++) {
        json_t *root;
        gmv_error err;
        gmv_alloc_fail_once(n);
        gmv_status status = reader_parse(text, sizeof text - 1, &root, &err);
        bool failed = gmv_alloc_has_failed();
        gmv_alloc_fail_once(0);
        if (!failed) {
            cr_assert_eq(status, GMV_OK);
            json_decref(root);
            break;
        }
        cr_assert_eq(status, GMV_ERR_OVERLOADED, "allocation %llu: %d, %s", (unsigned long long)n,
                     (int)status, err.message);
        cr_assert_null(root);
        cr_assert_eq(gmv_alloc_live(), 0, "allocation %llu", (unsigned long long)n);
    }
    cr_assert_gt(n, 30);
    cr_assert_eq(gmv_alloc_live(), 0);
}

/* A token's text grows while it is read; the byte that finds no room may be the closing quote. */
Test(reader, memory_that_ends_within_a_string_of_any_length_is_overloaded)
{
    char text[300];
    json_decref(reader_good("1"));
    gmv_alloc_watch(1);
    for (size_t length = 1; length + 2 < sizeof text; length++) {
        memset(text, 'a', length + 2);
        text[0] = text[length + 1] = '"';
        for (uint64_t n = 1; n < 12; n++) {
            for (int once = 0; once < 2; once++) {
                json_t *root;
                gmv_error err;
                if (once)
                    gmv_alloc_fail_once(n);
                else
                    gmv_alloc_fail_from(n);
                gmv_status status = reader_parse(text, length + 2, &root, &err);
                bool failed = gmv_alloc_has_failed();
                gmv_alloc_fail_from(0);
                cr_assert_eq(status, failed ? GMV_ERR_OVERLOADED : GMV_OK, "%zu bytes", length);
                if (status == GMV_OK)
                    cr_assert_eq(json_string_length(root), length);
                json_decref(root);
                cr_assert_eq(gmv_alloc_live(), 0);
            }
        }
    }
}
