/* SPDX-License-Identifier: Apache-2.0 */
/* Reading of header fields. What the wire makes of them is tested in test_server.c. */
#include "http/head.h"

#include <string.h>

#include <criterion/criterion.h>

static void add(gmv_head *head, const char *name, const char *value)
{
    gmv_head_add(head, name, strlen(name), value, strlen(value));
}

static gmv_head head_with(const char *name, const char *value)
{
    gmv_head head;
    gmv_head_init(&head, true);
    if (name)
        add(&head, name, value);
    return head;
}

static gmv_status framing_of(const char *name, const char *value, int64_t *out_nbytes)
{
    gmv_head head = head_with(name, value);
    gmv_error err;
    gmv_error_init(&err);
    gmv_status status = gmv_head_check_framing(&head, &err);
    *out_nbytes = head.body_nbytes;
    cr_assert_eq(head.is_framing_safe, status == GMV_OK);
    return status;
}

Test(head, lengths_are_plain_decimals)
{
    static const struct {
        const char *text;
        gmv_status status;
        int64_t nbytes;
    } rows[] = {
        {"0", GMV_OK, 0},
        {"5", GMV_OK, 5},
        {"007", GMV_OK, 7},
        {"9223372036854775807", GMV_OK, INT64_MAX},
        {"9223372036854775808", GMV_ERR_REQUEST_MALFORMED, 0},
        {"99999999999999999999", GMV_ERR_REQUEST_MALFORMED, 0},
        {"", GMV_ERR_REQUEST_MALFORMED, 0},
        {"-1", GMV_ERR_REQUEST_MALFORMED, 0},
        {"+5", GMV_ERR_REQUEST_MALFORMED, 0},
        {"5abc", GMV_ERR_REQUEST_MALFORMED, 0},
        {"0x5", GMV_ERR_REQUEST_MALFORMED, 0},
        {"5, 5", GMV_ERR_REQUEST_MALFORMED, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int64_t nbytes;
        cr_assert_eq(framing_of("Content-Length", rows[i].text, &nbytes), rows[i].status, "%s",
                     rows[i].text);
        if (rows[i].status == GMV_OK)
            cr_assert_eq(nbytes, rows[i].nbytes, "%s", rows[i].text);
    }
}

Test(head, the_only_encoding_is_chunked)
{
    int64_t nbytes;
    cr_assert_eq(framing_of("transfer-encoding", "chunked", &nbytes), GMV_OK);
    cr_assert_eq(nbytes, -1);
    cr_assert_eq(framing_of("Transfer-Encoding", "ChunkeD", &nbytes), GMV_OK);
    cr_assert_eq(framing_of("Transfer-Encoding", "chunked ", &nbytes), GMV_ERR_REQUEST_MALFORMED);
    cr_assert_eq(framing_of("Transfer-Encoding", "gzip, chunked", &nbytes),
                 GMV_ERR_REQUEST_MALFORMED);
    cr_assert_eq(framing_of("Transfer-Encoding", "", &nbytes), GMV_ERR_REQUEST_MALFORMED);
    cr_assert_eq(framing_of("Transfer-Encoding", "identity", &nbytes), GMV_ERR_REQUEST_MALFORMED);
}

Test(head, names_are_tokens)
{
    int64_t nbytes;
    cr_assert_eq(framing_of("X-A.b_c", "1", &nbytes), GMV_OK);
    cr_assert_eq(framing_of("X A", "1", &nbytes), GMV_ERR_REQUEST_MALFORMED);
    cr_assert_eq(framing_of("Content-Length ", "1", &nbytes), GMV_ERR_REQUEST_MALFORMED);
    cr_assert_eq(framing_of("", "1", &nbytes), GMV_ERR_REQUEST_MALFORMED);
    cr_assert_eq(framing_of("X\xc3\xa4", "1", &nbytes), GMV_ERR_REQUEST_MALFORMED);
}

static gmv_status host_of(const char *first, const char *second, bool is_1_1, bool loopback_only)
{
    gmv_head head;
    gmv_error err;
    gmv_error_init(&err);
    gmv_head_init(&head, is_1_1);
    if (first)
        add(&head, "Host", first);
    if (second)
        add(&head, "host", second);
    return gmv_head_check_host(&head, loopback_only, &err);
}

Test(head, one_host_and_on_the_loopback_ours)
{
    cr_assert_eq(host_of("localhost", NULL, true, true), GMV_OK);
    cr_assert_eq(host_of("LOCALHOST:80", NULL, true, true), GMV_OK);
    cr_assert_eq(host_of("127.0.0.1:65535", NULL, true, true), GMV_OK);
    cr_assert_eq(host_of("127.0.0.2:80", NULL, true, true), GMV_OK);
    cr_assert_eq(host_of("127.255.255.255", NULL, true, true), GMV_OK);
    cr_assert_eq(host_of("[::1]", NULL, true, true), GMV_OK);
    cr_assert_eq(host_of(NULL, NULL, false, true), GMV_OK);
    cr_assert_eq(host_of("example.org", NULL, true, false), GMV_OK);
    static const char *const wrong[] = {"example.org",
                                        "localhost.",
                                        "localhost:",
                                        "localhost:x",
                                        "localhost:99999",
                                        "localhost.example.org",
                                        "localhost:80@example.org",
                                        "127.0.0.1.example.org",
                                        "::1",
                                        "127.0.0",
                                        "127.0.0.256",
                                        "127.0.0.01",
                                        "127.0.0.1.2",
                                        "127.0.0.1x",
                                        "128.0.0.1",
                                        ""};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        cr_assert_eq(host_of(wrong[i], NULL, true, true), GMV_ERR_REQUEST_MALFORMED, "%s",
                     wrong[i]);
    cr_assert_eq(host_of(NULL, NULL, true, false), GMV_ERR_REQUEST_MALFORMED);
    cr_assert_eq(host_of("localhost", "localhost", true, false), GMV_ERR_REQUEST_MALFORMED);
    cr_assert_eq(host_of("localhost", "localhost", false, false), GMV_ERR_REQUEST_MALFORMED);
}

Test(head, media_types_are_told_apart)
{
    static const struct {
        const char *text;
        gmv_media media;
    } rows[] = {
        {"application/json", GMV_MEDIA_JSON},
        {"Application/JSON", GMV_MEDIA_JSON},
        {" application/json ", GMV_MEDIA_JSON},
        {"application/json; charset=utf-8", GMV_MEDIA_JSON},
        {"application/json;charset=UTF-8", GMV_MEDIA_JSON},
        {"application/json ; charset=\"utf-8\"", GMV_MEDIA_JSON},
        {"application/json; q=1; charset=utf-8", GMV_MEDIA_JSON},
        {"application/json;", GMV_MEDIA_JSON},
        {"application/json; charset=utf-16", GMV_MEDIA_OTHER},
        {"application/json; charset=", GMV_MEDIA_OTHER},
        {"application/jsonx", GMV_MEDIA_OTHER},
        {"application/json, application/json", GMV_MEDIA_OTHER},
        {"text/plain", GMV_MEDIA_OTHER},
        {"", GMV_MEDIA_OTHER},
        {"application/octet-stream", GMV_MEDIA_OCTETS},
        {"APPLICATION/octet-stream; x=y", GMV_MEDIA_OCTETS},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        gmv_head head = head_with("Content-Type", rows[i].text);
        cr_assert_eq(gmv_head_media(&head), rows[i].media, "%s", rows[i].text);
    }
    gmv_head head = head_with(NULL, NULL);
    cr_assert_eq(gmv_head_media(&head), GMV_MEDIA_ABSENT);
    head = head_with("Content-Type", "application/json");
    add(&head, "Content-Type", "application/json");
    cr_assert_eq(gmv_head_media(&head), GMV_MEDIA_OTHER);
}

static bool listed(const char *list, bool weak)
{
    gmv_head head = head_with("If-None-Match", list);
    return gmv_etag_listed(&head.fields[GMV_FIELD_IF_NONE_MATCH], "\"a,b\"", weak);
}

Test(head, entity_tags_are_found_in_lists)
{
    cr_assert(listed("*", true));
    cr_assert(listed("\"a,b\"", false));
    cr_assert(listed("\"x\" , \"a,b\"", false));
    cr_assert(listed("W/\"a,b\"", true));
    cr_assert_not(listed("W/\"a,b\"", false));
    cr_assert(listed("W/\"x\",, \"a,b\"", false));
    cr_assert_not(listed("\"a\", \"b\"", true));
    cr_assert_not(listed("a,b", true));
    cr_assert_not(listed("\"a,b", true));
    cr_assert_not(listed("W/", true));
    cr_assert_not(listed("W", true));
    cr_assert_not(listed("", true));
    cr_assert_not(listed(" , ", true));
    gmv_field_value absent = {0};
    cr_assert_not(gmv_etag_listed(&absent, "\"a\"", true));
}

Test(head, request_ids_are_plain_and_short)
{
    static char longest[129];
    memset(longest, 'x', sizeof longest);
    cr_assert(gmv_request_id_is_plain("a", 1));
    cr_assert(gmv_request_id_is_plain("A.z_0-9", 7));
    cr_assert(gmv_request_id_is_plain(longest, 128));
    cr_assert_not(gmv_request_id_is_plain(longest, 129));
    cr_assert_not(gmv_request_id_is_plain("", 0));
    cr_assert_not(gmv_request_id_is_plain("a b", 3));
    cr_assert_not(gmv_request_id_is_plain("a\n", 2));
    cr_assert_not(gmv_request_id_is_plain("\xc3\xa4", 2));
}

/* A head as libmicrohttpd 0.9 leaves it: each line's end, and the colon, have become NULs. */
static gmv_status status_of_line(const char *line, size_t nbytes, size_t value_at)
{
    char bytes[128] = "HTTP/1.1\0\0Host\0 a\0\0";
    const size_t line_at = 19;
    memcpy(bytes + line_at, line, nbytes);
    gmv_head head;
    gmv_head_init(&head, true);
    gmv_head_follow(&head, bytes + 8);
    gmv_head_add(&head, bytes + 10, 4, bytes + 16, 1);
    if (value_at)
        gmv_head_add(&head, bytes + line_at, strlen(bytes + line_at), bytes + line_at + value_at,
                     strlen(bytes + line_at + value_at));
    gmv_head_end(&head, bytes + line_at + nbytes);
    gmv_error err;
    gmv_error_init(&err);
    return gmv_head_check_framing(&head, &err);
}

Test(head, a_head_that_is_followed_has_no_bytes_in_no_string)
{
    static const struct {
        const char *line;
        size_t nbytes, value_at; /* 0: the library has made no field of it */
        gmv_status status;
    } rows[] = {
        {"X\0 b\0\0\0", 8, 3, GMV_OK},
        {"X\0\0\0\0", 6, 2, GMV_OK},
        {"\0", 2, 0, GMV_OK},                                    /* no further line */
        {"X\0 b\0c\0\0\0", 10, 3, GMV_ERR_REQUEST_MALFORMED},    /* a NUL in a value */
        {"X\0 b\0\0 c\0\0\0", 12, 3, GMV_ERR_REQUEST_MALFORMED}, /* a folded line */
        {"\0 x\0", 5, 0, GMV_ERR_REQUEST_MALFORMED},             /* a line of no name */
        {"\0x\0", 4, 0, GMV_ERR_REQUEST_MALFORMED},              /* one that begins with a NUL */
        {"X\0 b\rc\0\0\0", 10, 3, GMV_ERR_REQUEST_MALFORMED},    /* a bare CR */
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        cr_assert_eq(status_of_line(rows[i].line, rows[i].nbytes, rows[i].value_at), rows[i].status,
                     "row %zu", i);
}

Test(head, strings_of_another_block_are_torn)
{
    gmv_head head;
    gmv_head_init(&head, true);
    gmv_head_follow(&head, "HTTP/1.1" + 8);
    add(&head, "Host", "localhost");
    cr_assert(head.is_torn);
}

Test(head, bodies_are_plain_unless_they_say_otherwise)
{
    gmv_head head = head_with(NULL, NULL);
    cr_assert(gmv_head_is_plain(&head));
    head = head_with("Content-Encoding", "Identity");
    cr_assert(gmv_head_is_plain(&head));
    head = head_with("content-encoding", "gzip");
    cr_assert_not(gmv_head_is_plain(&head));
    head = head_with("Content-Encoding", "identity");
    add(&head, "Content-Encoding", "br");
    cr_assert_not(gmv_head_is_plain(&head));
}

Test(head, a_tag_may_be_told_by_how_it_begins)
{
    static const struct {
        const char *list, *etag;
        bool is_listed;
    } rows[] = {
        {"\"a-1\"", "\"a-1", true},    {"\"b\", \"a-1-ff\"", "\"a-1", true},
        {"\"a-12\"", "\"a-1", false},  {"\"a-1-ff\"", "\"a-1\"", false},
        {"\"a\"", "\"a-1", false},     {"\"a-1\"", "", false},
        {"W/\"a-1\"", "\"a-1", false}, {"*", "", true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        gmv_head head = head_with("If-Match", rows[i].list);
        cr_assert_eq(gmv_etag_listed(&head.fields[GMV_FIELD_IF_MATCH], rows[i].etag, false),
                     rows[i].is_listed, "row %zu", i);
    }
}
