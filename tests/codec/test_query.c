/* SPDX-License-Identifier: Apache-2.0 */
/* Queries and path segments: decoding, what is refused, and typed values. */
#include <stdio.h>
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/parameterized.h>

#include <gmv/base/alloc.h>

#include "codec/name_list.h"
#include "codec/query.h"
#include "codec/utf8.h"

#define QUERY_ALLOWED "offset,limit,label,all"

static gmv_status query_read(const char *text, const char *allowed, gmv_query *query,
                             gmv_error *err)
{
    gmv_error_init(err);
    return gmv_query_parse(text, strlen(text), allowed, query, err);
}

Test(query, names_and_values_are_decoded)
{
    gmv_query query;
    gmv_error err;
    cr_assert_eq(
        query_read("la%62el=a+b%2B%26%3d%C3%BC&offset=12&all", QUERY_ALLOWED, &query, &err),
        GMV_OK);
    cr_assert_eq(query.count, 3);
    cr_assert_str_eq(gmv_query_find(&query, "label")->value, "a b+&=\xC3\xBC");
    cr_assert_eq(gmv_query_find(&query, "label")->value_length, 8);
    cr_assert_str_eq(gmv_query_find(&query, "offset")->value, "12");
    cr_assert_null(gmv_query_find(&query, "all")->value);
    cr_assert_null(gmv_query_find(&query, "limit"));
    gmv_query_fini(&query);
}

Test(query, value_may_hold_equals_signs_and_be_empty)
{
    gmv_query query;
    gmv_error err;
    cr_assert_eq(query_read("label=a=b==&offset=", QUERY_ALLOWED, &query, &err), GMV_OK);
    cr_assert_str_eq(gmv_query_find(&query, "label")->value, "a=b==");
    cr_assert_str_eq(gmv_query_find(&query, "offset")->value, "");
    gmv_query_fini(&query);
}

Test(query, empty_text_and_empty_pairs_are_nothing)
{
    gmv_query query;
    gmv_error err;
    cr_assert_eq(query_read("", "", &query, &err), GMV_OK);
    cr_assert_eq(query.count, 0);
    gmv_query_fini(&query);
    cr_assert_eq(query_read("&&", "", &query, &err), GMV_OK);
    cr_assert_eq(query.count, 0);
    gmv_query_fini(&query);
}

typedef struct query_refusal {
    const char *text;
    const char *parameter;
} query_refusal;

static const query_refusal query_refusals[] = {
    {"unknown=1", "unknown"},
    {"Offset=1", "Offset"},
    {"offset%00=1", "query"},
    {"offset=1&offset=2", "offset"},
    {"offset=1&%6Fffset=2", "offset"},
    {"label=%", "query"},
    {"label=%2", "query"},
    {"label=%zz", "query"},
    {"label=%-1", "query"},
    {"label=a%00b", "query"},
    {"label=%FF", "query"},
    {"label=%C0%AF", "query"},
    {"label=%ED%A0%80", "query"},
    {"%C3%BC=1", "query"},
    {"=1", "query"},
    {"offset,limit=1", "query"},
    {"lim=1", "lim"},
};

ParameterizedTestParameters(query, refusal_names_the_parameter)
{
    static size_t indices[sizeof query_refusals / sizeof query_refusals[0]];
    for (size_t i = 0; i < sizeof indices / sizeof indices[0]; i++)
        indices[i] = i;
    return cr_make_param_array(size_t, indices, sizeof indices / sizeof indices[0]);
}

ParameterizedTest(size_t *index, query, refusal_names_the_parameter)
{
    const query_refusal *row = &query_refusals[*index];
    gmv_query query;
    gmv_error err;
    cr_assert_eq(query_read(row->text, QUERY_ALLOWED, &query, &err), GMV_ERR_REQUEST_MALFORMED,
                 "'%s' passed", row->text);
    cr_assert_str_eq(err.parameter, row->parameter, "'%s': %s", row->text, err.parameter);
    cr_assert(gmv_utf8_check(err.message, strlen(err.message), NULL));
    cr_assert_null(query.storage);
}

Test(query, refusal_lists_what_is_known)
{
    static const char *const names[] = {"keep", "refuse", NULL};
    gmv_query query;
    gmv_error err;
    int index;
    cr_assert_eq(query_read("ofset=1", "offset,limit", &query, &err), GMV_ERR_REQUEST_MALFORMED);
    cr_assert_str_eq(err.message,
                     "the query parameter is not known here; known are: offset, limit");
    cr_assert_eq(query_read("offset=1", "", &query, &err), GMV_ERR_REQUEST_MALFORMED);
    cr_assert_str_eq(err.message, "the query parameter is not known here; known are: none");
    cr_assert_eq(query_read("way=go", "way", &query, &err), GMV_OK);
    cr_assert_eq(gmv_query_name(&query, "way", names, 0, &index, &err), GMV_ERR_REQUEST_MALFORMED);
    cr_assert_str_eq(err.message, "way has no such value; it has: keep, refuse");
    gmv_query_fini(&query);
}

Test(name_list, ends_with_dots_where_it_is_full)
{
    gmv_name_list list;
    gmv_name_list_init(&list);
    cr_assert_str_eq(list.text, "none");
    for (int i = 0; i < 100; i++)
        gmv_name_list_add(&list, "tenletters", 1 + i % 10);
    cr_assert_lt(list.length, sizeof list.text);
    cr_assert_eq(strlen(list.text), list.length);
    cr_assert_str_eq(list.text + list.length - 5, ", ...");
    gmv_name_list_init(&list);
    gmv_name_list_add(&list, "x", 1);
    cr_assert_str_eq(list.text, "x");
    char longest[GMV_NAME_LIST_MAX] = {0};
    memset(longest, 'n', sizeof longest - 1);
    gmv_name_list_add(&list, longest, sizeof longest - 1);
    cr_assert_str_eq(list.text, "x, ...");
}

Test(query, more_parameters_than_there_is_room_for_are_refused)
{
    gmv_query query;
    gmv_error err;
    char allowed[256] = "";
    char text[256] = "";
    for (int i = 0; i <= GMV_QUERY_PARAMETERS_MAX; i++) {
        snprintf(allowed + strlen(allowed), sizeof allowed - strlen(allowed), "p%d,", i);
        snprintf(text + strlen(text), sizeof text - strlen(text), "p%d=1&", i);
    }
    cr_assert_eq(query_read(text, allowed, &query, &err), GMV_ERR_REQUEST_MALFORMED);
    text[strlen(text) - strlen("p16=1&")] = '\0';
    cr_assert_eq(query_read(text, allowed, &query, &err), GMV_OK);
    cr_assert_eq(query.count, GMV_QUERY_PARAMETERS_MAX);
    gmv_query_fini(&query);
}

Test(query, without_a_list_of_names_nothing_is_an_error)
{
    gmv_query query;
    gmv_error err;
    cr_assert_eq(query_read("a=1&a=2&%zz&b=%00&c=%C3%BC&verbose", NULL, &query, &err), GMV_OK);
    cr_assert_eq(query.count, 3);
    cr_assert_str_eq(gmv_query_find(&query, "a")->value, "1");
    cr_assert_not_null(gmv_query_find(&query, "verbose"));
    gmv_query_fini(&query);
}

Test(query, integers_are_exact_and_bounded)
{
    gmv_query query;
    gmv_error err;
    int64_t value;
    cr_assert_eq(query_read("offset=9007199254740993", QUERY_ALLOWED, &query, &err), GMV_OK);
    cr_assert_eq(gmv_query_int64(&query, "offset", 0, INT64_MAX, 7, &value, &err), GMV_OK);
    cr_assert_eq(value, 9007199254740993);
    cr_assert_eq(gmv_query_int64(&query, "limit", 0, 10, 7, &value, &err), GMV_OK);
    cr_assert_eq(value, 7);
    cr_assert_eq(gmv_query_int64(&query, "offset", 0, 10, 7, &value, &err),
                 GMV_ERR_REQUEST_MALFORMED);
    cr_assert_str_eq(err.parameter, "offset");
    gmv_query_fini(&query);
}

Test(query, what_is_no_integer_is_refused)
{
    static const char *const texts[] = {"offset",      "offset=",    "offset=1.0",
                                        "offset=1e3",  "offset=+1",  "offset=0x1",
                                        "offset=%201", "offset=01",  "offset=9223372036854775808",
                                        "offset=-1",   "offset=true"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        gmv_query query;
        gmv_error err;
        int64_t value;
        cr_assert_eq(query_read(texts[i], QUERY_ALLOWED, &query, &err), GMV_OK);
        cr_assert_eq(gmv_query_int64(&query, "offset", 0, INT64_MAX, 0, &value, &err),
                     GMV_ERR_REQUEST_MALFORMED, "'%s' passed", texts[i]);
        gmv_query_fini(&query);
    }
}

Test(query, flags_are_true_false_or_bare)
{
    static const struct {
        const char *text;
        gmv_status status;
        bool value;
    } rows[] = {
        {"", GMV_OK, false},
        {"all", GMV_OK, true},
        {"all=true", GMV_OK, true},
        {"all=false", GMV_OK, false},
        {"all=", GMV_OK, true},
        {"all=1", GMV_ERR_REQUEST_MALFORMED, false},
        {"all=True", GMV_ERR_REQUEST_MALFORMED, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        gmv_query query;
        gmv_error err;
        bool value = !rows[i].value;
        cr_assert_eq(query_read(rows[i].text, QUERY_ALLOWED, &query, &err), GMV_OK);
        cr_assert_eq(gmv_query_flag(&query, "all", &value, &err), rows[i].status, "'%s'",
                     rows[i].text);
        if (rows[i].status == GMV_OK)
            cr_assert_eq(value, rows[i].value, "'%s'", rows[i].text);
        gmv_query_fini(&query);
    }
}

Test(query, running_out_of_memory_is_overloaded)
{
    gmv_query query;
    gmv_error err;
    gmv_alloc_fail_from(1);
    cr_assert_eq(query_read("label=a", QUERY_ALLOWED, &query, &err), GMV_ERR_OVERLOADED);
    gmv_alloc_fail_from(0);
}

Test(segment, is_decoded_once)
{
    char out[16];
    cr_assert(gmv_segment_decode("a%62%2Bc+d", 10, out, sizeof out));
    cr_assert_str_eq(out, "ab+c+d");
    cr_assert(gmv_segment_decode("%2562", 5, out, sizeof out));
    cr_assert_str_eq(out, "%62");
    cr_assert(gmv_segment_decode("", 0, out, sizeof out));
    cr_assert_str_eq(out, "");
}

Test(segment, bad_escapes_nul_slashes_and_long_ones_are_refused)
{
    static const char *const texts[] = {"%",    "a%",      "a%2", "%zz",     "%2",
                                        "X%00", "X%00zzz", "%2F", "..%2f..", "0123456789abcdef"};
    char out[16];
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        cr_assert_not(gmv_segment_decode(texts[i], strlen(texts[i]), out, sizeof out), "'%s'",
                      texts[i]);
    cr_assert_not(gmv_segment_decode("a\0b", 3, out, sizeof out));
    cr_assert(gmv_segment_decode("0123456789abcde", 15, out, sizeof out));
}

Test(query, numbers_have_the_grammar_of_json)
{
    static const struct {
        const char *text;
        bool good;
        double value;
    } rows[] = {
        {"n=0", true, 0},         {"n=-1.5", true, -1.5},   {"n=1e3", true, 1000},
        {"n=-0", true, 0},        {"n=2.5E-1", true, 0.25}, {"n=1e%2B2", true, 100},
        {"n=1e308", true, 1e308}, {"n=1e309", false, 0},    {"n=01", false, 0},
        {"n=.5", false, 0},       {"n=1.", false, 0},       {"n=1e", false, 0},
        {"n=nan", false, 0},      {"n=inf", false, 0},      {"n=0x10", false, 0},
        {"n=+1", false, 0},       {"n=", false, 0},         {"n", false, 0},
        {"n=1%201", false, 0},    {"n=--1", false, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        gmv_query query;
        gmv_error err;
        bool given = false;
        double value = 77;
        cr_assert_eq(query_read(rows[i].text, "n", &query, &err), GMV_OK);
        gmv_status status = gmv_query_number(&query, "n", &given, &value, &err);
        cr_assert_eq(status, rows[i].good ? GMV_OK : GMV_ERR_REQUEST_MALFORMED, "'%s'",
                     rows[i].text);
        cr_assert(!rows[i].good || (given && value == rows[i].value), "'%s'", rows[i].text);
        cr_assert_eq(gmv_query_number(&query, "m", &given, &value, &err), GMV_OK);
        cr_assert_not(given);
        gmv_query_fini(&query);
    }
}

Test(query, names_are_those_of_the_list)
{
    static const char *const names[] = {"one", "two", NULL};
    static const struct {
        const char *text;
        int index; /* -1: refused */
    } rows[] = {{"", 7}, {"n=one", 0}, {"n=two", 1}, {"n=tw", -1}, {"n=ONE", -1}, {"n", -1}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        gmv_query query;
        gmv_error err;
        int index = -2;
        cr_assert_eq(query_read(rows[i].text, "n", &query, &err), GMV_OK);
        gmv_status status = gmv_query_name(&query, "n", names, 7, &index, &err);
        cr_assert_eq(status, rows[i].index < 0 ? GMV_ERR_REQUEST_MALFORMED : GMV_OK, "'%s'",
                     rows[i].text);
        cr_assert(rows[i].index < 0 || index == rows[i].index, "'%s'", rows[i].text);
        gmv_query_fini(&query);
    }
}
