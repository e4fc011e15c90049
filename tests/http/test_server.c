/* SPDX-License-Identifier: Apache-2.0 */
/* The server over raw sockets: framing, bodies, answers, odd clients, and stopping. */
#include "http/support.h"

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define HOST      "Host: localhost\r\n"
#define JSON_TYPE "Content-Type: application/json\r\n"
#define OCTETS    "Content-Type: application/octet-stream\r\n"
#define CHUNKED   "Transfer-Encoding: chunked\r\n"

/* ---- framing ---- */

typedef struct framing_row {
    const char *what;
    const char *request;
    int status, other_status; /* either is right */
    bool closes;
} framing_row;

#define POST_ECHO "POST /v1/echo HTTP/1.1\r\n" HOST JSON_TYPE

static const framing_row framing_rows[] = {
    {"a length that fits", POST_ECHO "Content-Length: 2\r\n\r\n{}", 200, 200, false},
    {"no body at all", "POST /v1/echo HTTP/1.1\r\n" HOST "\r\n", 200, 200, false},
    {"length 0", POST_ECHO "Content-Length: 0\r\n\r\n", 200, 200, false},
    {"length too short: the rest is no request",
     POST_ECHO "Content-Length: 2\r\n\r\n{}{\"a\":1}\r\n\r\n", 200, 200, true},
    {"length -1", POST_ECHO "Content-Length: -1\r\n\r\n{}", 400, 400, true},
    {"length -268435455700", POST_ECHO "Content-Length: -268435455700\r\n\r\n{}", 400, 400, true},
    {"length +5", POST_ECHO "Content-Length: +5\r\n\r\n{   }", 400, 400, true},
    {"length 5abc", POST_ECHO "Content-Length: 5abc\r\n\r\n{   }", 400, 400, true},
    {"length 0x5", POST_ECHO "Content-Length: 0x5\r\n\r\n{   }", 400, 400, true},
    {"length 5, 5", POST_ECHO "Content-Length: 5, 5\r\n\r\n{   }", 400, 400, true},
    {"length 5, 6", POST_ECHO "Content-Length: 5, 6\r\n\r\n{   }", 400, 400, true},
    {"two lengths", POST_ECHO "Content-Length: 5\r\nContent-Length: 6\r\n\r\n{   }", 400, 400,
     true},
    {"one length twice", POST_ECHO "Content-Length: 5\r\nContent-Length: 5\r\n\r\n{   }", 400, 400,
     true},
    {"an empty length", POST_ECHO "Content-Length:\r\n\r\n{}", 400, 400, true},
    {"a huge length", POST_ECHO "Content-Length: 99999999999999999999\r\n\r\n{}", 400, 413, true},
    {"length and encoding", POST_ECHO "Content-Length: 2\r\n" CHUNKED "\r\n2\r\n{}\r\n0\r\n\r\n",
     400, 400, true},
    {"a blank before the colon", POST_ECHO "Content-Length : 2\r\n\r\n{}", 400, 400, true},
    {"a blank in a name", POST_ECHO "Content-Length: 2\r\nX y: 1\r\n\r\n{}", 400, 400, true},
    {"chunked", POST_ECHO CHUNKED "\r\n2\r\n{}\r\n0\r\n\r\n", 200, 200, false},
    {"Chunked", POST_ECHO "Transfer-Encoding: Chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", 200, 200,
     false},
    {"a chunk extension", POST_ECHO CHUNKED "\r\n2;a=b\r\n{}\r\n0\r\n\r\n", 200, 400, false},
    {"trailers", POST_ECHO CHUNKED "\r\n2\r\n{}\r\n0\r\nX: y\r\n\r\n", 200, 200, false},
    {"gzip", POST_ECHO "Transfer-Encoding: gzip\r\n\r\n2\r\n{}\r\n0\r\n\r\n", 400, 501, true},
    {"gzip, chunked", POST_ECHO "Transfer-Encoding: gzip, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", 400,
     501, true},
    {"chunked, chunked",
     POST_ECHO "Transfer-Encoding: chunked, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", 400, 501, true},
    {"chunked twice", POST_ECHO CHUNKED CHUNKED "\r\n2\r\n{}\r\n0\r\n\r\n", 400, 501, true},
    {"identity", POST_ECHO "Transfer-Encoding: identity\r\n\r\n{}", 400, 501, true},
    {"an empty encoding", POST_ECHO "Transfer-Encoding:\r\n\r\n{}", 400, 501, true},
    {"chunked to HTTP/1.0",
     "POST /v1/echo HTTP/1.0\r\n" JSON_TYPE CHUNKED "\r\n2\r\n{}\r\n0\r\n\r\n", 400, 501, true},
    {"a bad chunk", POST_ECHO CHUNKED "\r\nzz\r\n{}\r\n0\r\n\r\n", 400, 400, true},
    {"no host", "GET /livez HTTP/1.1\r\n\r\n", 400, 400, true},
    {"two hosts", "GET /livez HTTP/1.1\r\n" HOST HOST "\r\n", 400, 400, true},
    {"a foreign host", "GET /livez HTTP/1.1\r\nHost: evil.example\r\n\r\n", 400, 400, true},
    {"a foreign host that starts like ours",
     "GET /livez HTTP/1.1\r\nHost: localhost.evil.example\r\n\r\n", 400, 400, true},
    {"a foreign host in the target", "GET http://evil.example/livez HTTP/1.1\r\n" HOST "\r\n", 400,
     400, true},
    {"our host in the target", "GET http://localhost:1/livez HTTP/1.1\r\n" HOST "\r\n", 200, 200,
     false},
    {"127.0.0.1 and a port", "GET /livez HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n", 200, 200,
     false},
    {"[::1] and a port", "GET /livez HTTP/1.1\r\nHost: [::1]:8080\r\n\r\n", 200, 200, false},
    {"HTTP/1.0 without a host", "GET /livez HTTP/1.0\r\n\r\n", 200, 200, true},
    {"GET with a body", "GET /livez HTTP/1.1\r\n" HOST JSON_TYPE "Content-Length: 2\r\n\r\n{}", 400,
     400, true},
    {"HEAD with a chunked body", "HEAD /livez HTTP/1.1\r\n" HOST CHUNKED "\r\n2\r\n{}\r\n0\r\n\r\n",
     400, 400, true},
    {"DELETE with a body",
     "DELETE /v1/things/x HTTP/1.1\r\n" HOST JSON_TYPE "Content-Length: 2\r\n\r\n{}", 400, 400,
     true},
    {"GET with a body where there is no GET",
     "GET /v1/echo HTTP/1.1\r\n" HOST JSON_TYPE "Content-Length: 2\r\n\r\n{}", 405, 405, false},
    {"DELETE with a body where there is no DELETE",
     "DELETE /livez HTTP/1.1\r\n" HOST CHUNKED "\r\n2\r\n{}\r\n0\r\n\r\n", 405, 405, false},
    {"GET with length 0", "GET /livez HTTP/1.1\r\n" HOST "Content-Length: 0\r\n\r\n", 200, 200,
     false},
    {"no type", "POST /v1/echo HTTP/1.1\r\n" HOST "Content-Length: 2\r\n\r\n{}", 415, 415, false},
    {"no type, chunked", "POST /v1/echo HTTP/1.1\r\n" HOST CHUNKED "\r\n2\r\n{}\r\n0\r\n\r\n", 415,
     415, false},
    {"no type, chunked and empty", "POST /v1/echo HTTP/1.1\r\n" HOST CHUNKED "\r\n0\r\n\r\n", 200,
     200, false},
    {"form type",
     "POST /v1/echo HTTP/1.1\r\n" HOST
     "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 2\r\n\r\n{}",
     415, 415, false},
    {"octets to JSON", "POST /v1/echo HTTP/1.1\r\n" HOST OCTETS "Content-Length: 2\r\n\r\n{}", 415,
     415, false},
    {"JSON to octets", "POST /v1/upload HTTP/1.1\r\n" HOST JSON_TYPE "Content-Length: 2\r\n\r\n{}",
     415, 415, false},
    {"a charset",
     "POST /v1/echo HTTP/1.1\r\n" HOST
     "Content-Type: application/json;charset=UTF-8\r\nContent-Length: 2\r\n\r\n{}",
     200, 200, false},
    {"another charset",
     "POST /v1/echo HTTP/1.1\r\n" HOST
     "Content-Type: application/json; charset=utf-16\r\nContent-Length: 2\r\n\r\n{}",
     415, 415, false},
    {"an unknown path", "GET /v1/nothing HTTP/1.1\r\n" HOST "\r\n", 404, 404, false},
    {"an unknown path with a body",
     "POST /v1/nothing HTTP/1.1\r\n" HOST JSON_TYPE "Content-Length: 2\r\n\r\n{}", 404, 404, false},
    {"a slash behind", "GET /livez/ HTTP/1.1\r\n" HOST "\r\n", 404, 404, false},
    {"an escaped NUL", "GET /livez%00 HTTP/1.1\r\n" HOST "\r\n", 404, 404, false},
    {"a wrong method", "PUT /livez HTTP/1.1\r\n" HOST "\r\n", 405, 405, false},
    {"an unknown method", "FROB /livez HTTP/1.1\r\n" HOST "\r\n", 405, 501, false},
    {"OPTIONS", "OPTIONS /v1/things/x HTTP/1.1\r\n" HOST "\r\n", 405, 405, false},
    {"an unknown parameter", "GET /v1/server?x=1 HTTP/1.1\r\n" HOST "\r\n", 400, 400, true},
    {"an unknown parameter outside /v1", "GET /livez?x=1 HTTP/1.1\r\n" HOST "\r\n", 200, 200,
     false},
    {"a repeated parameter", "GET /v1/contents?sealed&sealed HTTP/1.1\r\n" HOST "\r\n", 400, 400,
     true},
};

/* The client ends its side only where the row says that the server closes. */
static void framing_check(const support_server *s, const framing_row *row)
{
    int fd = support_connect(s);
    (void)support_print(fd, row->request);
    support_answer answer = support_receive(fd, strncmp(row->request, "HEAD", 4) == 0);
    check(answer.status == row->status || answer.status == row->other_status, "%s: %d", row->what,
          answer.status);
    if (row->closes || answer.status == 400) {
        check(support_is_closed(fd), "%s: still open", row->what);
    } else {
        (void)support_print(fd, "GET /livez HTTP/1.1\r\n" HOST "\r\n");
        support_answer next = support_receive(fd, false);
        check(next.status == 200, "%s: then %d", row->what, next.status);
        support_answer_free(&next);
    }
    support_answer_free(&answer);
    close(fd);
}

static void test_framing(void)
{
    support_server s = {0};
    support_start(&s, NULL);
    for (size_t i = 0; i < sizeof framing_rows / sizeof framing_rows[0]; i++)
        framing_check(&s, &framing_rows[i]);
    support_stop(&s, 1000);
}

static void test_cut_body(void)
{
    support_server s = {0};
    support_start(&s, NULL);
    int fd = support_connect(&s);
    (void)support_print(fd, POST_ECHO "Content-Length: 500\r\n\r\n{\"a\":1}");
    shutdown(fd, SHUT_WR);
    support_answer answer = support_receive(fd, false);
    check(answer.status == 400, "%d", answer.status);
    check(support_is_closed(fd));
    support_answer_free(&answer);
    close(fd);
    support_stop(&s, 1000);
}

/* ---- answers ---- */

static void test_problem(void)
{
    support_server s = {0};
    support_answer answer;
    support_start(&s, NULL);
    check(support_ask(&s, "POST /v1/fail HTTP/1.1\r\n" HOST "X-Request-Id: me.1\r\n\r\n",
                      &answer) == 422);
    check(strcmp(support_field(&answer, "Content-Type"), "application/problem+json") == 0);
    check(strcmp(support_field(&answer, "X-Request-Id"), "me.1") == 0);
    check(strstr(answer.body, "\"code\":\"value_error\"") != NULL, "%s", answer.body);
    check(strstr(answer.body, "\"pointer\":\"/member\"") != NULL, "%s", answer.body);
    check(strstr(answer.body, "\"request_id\":\"me.1\"") != NULL, "%s", answer.body);
    check(strstr(answer.body, "left over") == NULL, "%s", answer.body);
    support_answer_free(&answer);
    check(support_ask(&s, "POST /v1/fail_short HTTP/1.1\r\n" HOST "\r\n", &answer) == 422);
    check(strlen(support_field(&answer, "X-Request-Id")) > 8);
    check(strstr(answer.body, "left over") == NULL, "%s", answer.body);
    support_answer_free(&answer);
    check(support_ask(&s, "PUT /v1/things/x HTTP/1.1\r\n" HOST "\r\n", &answer) == 405);
    check(strcmp(support_field(&answer, "Allow"), "GET, HEAD, DELETE") == 0, "%s",
          support_field(&answer, "Allow"));
    support_answer_free(&answer);
    check(support_ask(&s, "GET /v1/internal HTTP/1.1\r\n" HOST "X-Request-Id: b d\r\n\r\n",
                      &answer) == 500);
    check(strstr(answer.body, "secret") == NULL, "%s", answer.body);
    check(strchr(support_field(&answer, "X-Request-Id"), ' ') == NULL);
    support_answer_free(&answer);
    support_stop(&s, 1000);
}

static void check_thing(const support_server *s, const char *fields, int status)
{
    char request[512];
    support_answer answer;
    snprintf(request, sizeof request,
             "GET /v1/things/buf_00000000000000000000000000 HTTP/1.1\r\n" HOST "%s\r\n", fields);
    check(support_ask(s, request, &answer) == status, "%s: %d", fields, answer.status);
    if (status == 304 || status == 200) {
        check(strcmp(support_field(&answer, "ETag"), "\"thing-1\"") == 0, "%s", fields);
        check(strcmp(support_field(&answer, "Cache-Control"), "no-cache") == 0, "%s", fields);
    }
    if (status == 304)
        check(strtoul(support_field(&answer, "Content-Length"), NULL, 10) == 0, "%s", answer.head);
    support_answer_free(&answer);
}

static void test_conditions(void)
{
    support_server s = {0};
    support_start(&s, NULL);
    check_thing(&s, "", 200);
    check_thing(&s, "If-None-Match: \"thing-1\"\r\n", 304);
    check_thing(&s, "If-None-Match: W/\"thing-1\"\r\n", 304);
    check_thing(&s, "If-None-Match: \"a\", W/\"b\" ,\"thing-1\"\r\n", 304);
    check_thing(&s, "If-None-Match: *\r\n", 304);
    check_thing(&s, "If-None-Match: \"thing-2\"\r\n", 200);
    check_thing(&s, "If-None-Match: thing-1\r\n", 200);
    check_thing(&s, "If-None-Match:\r\n", 200);
    check_thing(&s, "If-Match: \"thing-1\"\r\n", 200);
    check_thing(&s, "If-Match: W/\"thing-1\"\r\n", 412);
    check_thing(&s, "If-Match: \"thing-2\"\r\n", 412);
    check_thing(&s, "If-Match: *\r\n", 200);
    /* the next request on the same connection parses behind a 304 */
    int fd = support_connect(&s);
    (void)support_print(fd, "GET /v1/things/x HTTP/1.1\r\n" HOST "If-None-Match: *\r\n\r\n"
                            "HEAD /v1/things/x HTTP/1.1\r\n" HOST "\r\n"
                            "GET /livez HTTP/1.1\r\n" HOST "\r\n");
    support_answer first = support_receive(fd, false);
    support_answer second = support_receive(fd, true);
    support_answer third = support_receive(fd, false);
    check(first.status == 304 && second.status == 200 && third.status == 200, "%d %d %d",
          first.status, second.status, third.status);
    check(strcmp(support_field(&second, "Content-Length"), "12") == 0, "%s", second.head);
    support_answer_free(&first);
    support_answer_free(&second);
    support_answer_free(&third);
    close(fd);
    support_stop(&s, 1000);
}

static const struct {
    const char *method, *query, *fields;
    int status;
    const char *body, *content_range;
} range_rows[] = {
    {"GET", "", "", 200, "0123456789", ""},
    {"GET", "", "Range: bytes=0-3\r\n", 206, "0123", "bytes 0-3/10"},
    {"GET", "", "Range: bytes=-4\r\n", 206, "6789", "bytes 6-9/10"},
    {"GET", "", "Range: bytes=5-\r\n", 206, "56789", "bytes 5-9/10"},
    {"GET", "", "Range: bytes=9-9\r\n", 206, "9", "bytes 9-9/10"},
    {"GET", "", "Range: bytes=10-\r\n", 416, NULL, "bytes */10"},
    {"GET", "", "Range: bytes=-0\r\n", 416, NULL, "bytes */10"},
    {"GET", "", "Range: bytes=3-1\r\n", 200, "0123456789", ""},
    {"GET", "", "Range: items=0-3\r\n", 200, "0123456789", ""},
    {"GET", "", "Range: bytes=0-3\r\nIf-Range: \"contents-1\"\r\n", 200, "0123456789", ""},
    {"GET", "?sealed", "Range: bytes=0-3\r\nIf-Range: \"contents-1\"\r\n", 206, "0123",
     "bytes 0-3/10"},
    {"GET", "?sealed", "Range: bytes=0-3\r\nIf-Range: W/\"contents-1\"\r\n", 200, "0123456789", ""},
    {"GET", "?sealed", "Range: bytes=0-3\r\nIf-Range: \"other\"\r\n", 200, "0123456789", ""},
    {"GET", "?sealed", "Range: bytes=0-3\r\nIf-Range: Sun, 29 Nov 2026 10:00:00 GMT\r\n", 200,
     "0123456789", ""},
    {"GET", "?sealed", "Range: bytes=0-3\r\nIf-None-Match: *\r\n", 304, "", ""},
    {"HEAD", "", "Range: bytes=0-3\r\n", 200, "", ""},
};

static void test_ranges(void)
{
    support_server s = {0};
    support_start(&s, NULL);
    for (size_t i = 0; i < sizeof range_rows / sizeof range_rows[0]; i++) {
        char request[512];
        support_answer answer;
        snprintf(request, sizeof request, "%s /v1/contents%s HTTP/1.1\r\n" HOST "%s\r\n",
                 range_rows[i].method, range_rows[i].query, range_rows[i].fields);
        int status = support_ask(&s, request, &answer);
        check(status == range_rows[i].status, "row %zu: %d", i, status);
        if (range_rows[i].body)
            check(strcmp(answer.body, range_rows[i].body) == 0, "row %zu: %s", i, answer.body);
        check(strcmp(support_field(&answer, "Content-Range"), range_rows[i].content_range) == 0,
              "row %zu: %s", i, support_field(&answer, "Content-Range"));
        if (status == 200)
            check(strcmp(support_field(&answer, "Content-Length"), "10") == 0, "row %zu", i);
        support_answer_free(&answer);
    }
    support_stop(&s, 1000);
}

/* ---- bodies ---- */

static void test_json_limit(void)
{
    support_server s = {0};
    s.service.max_json_nbytes = 100000;
    support_start(&s, NULL);
    static char body[100002];
    memset(body, ' ', sizeof body);
    for (size_t nbytes = 99999; nbytes <= 100001; nbytes++) {
        char head[256];
        int fd = support_connect(&s);
        snprintf(head, sizeof head, POST_ECHO "Content-Length: %zu\r\n\r\n", nbytes);
        check(support_print(fd, head) && support_send(fd, body, nbytes));
        support_answer answer = support_receive(fd, false);
        check(answer.status == (nbytes <= 100000 ? 200 : 413), "%zu: %d", nbytes, answer.status);
        support_answer_free(&answer);
        /* chunked, on the same connection */
        snprintf(head, sizeof head, POST_ECHO CHUNKED "\r\n%zx\r\n", nbytes);
        check(support_print(fd, head) && support_send(fd, body, nbytes) &&
              support_print(fd, "\r\n0\r\n\r\n"));
        answer = support_receive(fd, false);
        check(answer.status == (nbytes <= 100000 ? 200 : 413), "chunked %zu: %d", nbytes,
              answer.status);
        if (answer.status == 200)
            check(strncmp(answer.body, "1 ", 2) == 0, "a long body is parsed by a worker: %s",
                  answer.body);
        support_answer_free(&answer);
        close(fd);
    }
    support_stop(&s, 1000);
}

static void test_early_refusal(void)
{
    support_server s = {0};
    support_start(&s, NULL);
    /* headers alone, then silence: the answer comes all the same */
    int fd = support_connect(&s);
    (void)support_print(fd, POST_ECHO "Content-Length: 100000000\r\n\r\n");
    support_answer answer = support_receive(fd, false);
    check(answer.status == 413, "%d", answer.status);
    check(support_is_closed(fd));
    support_answer_free(&answer);
    close(fd);
    /* a client that waits for 100 Continue hears it at once, and the connection closes */
    fd = support_connect(&s);
    (void)support_print(fd, POST_ECHO "Expect: 100-continue\r\nContent-Length: 100000000\r\n\r\n");
    answer = support_receive(fd, false);
    check(answer.status == 413, "%d", answer.status);
    check(support_is_closed(fd));
    support_answer_free(&answer);
    close(fd);
    /* and one that is welcome gets to send */
    fd = support_connect(&s);
    (void)support_print(fd, POST_ECHO "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    check(support_is_welcome(fd));
    (void)support_print(fd, "{}");
    answer = support_receive(fd, false);
    check(answer.status == 200, "%d", answer.status);
    support_answer_free(&answer);
    close(fd);
    support_stop(&s, 1000);
}

/* A refused client that goes on sending megabytes reads its answer in the end. */
static void test_refused_megabytes(void)
{
    support_server s = {0};
    support_start(&s, NULL);
    static char block[1 << 20];
    int fd = support_connect(&s);
    (void)support_print(fd, "POST /v1/nothing HTTP/1.1\r\n" HOST OCTETS
                            "Content-Length: 8388608\r\n\r\n");
    for (int i = 0; i < 8; i++)
        check(support_send(fd, block, sizeof block));
    support_answer answer = support_receive(fd, false);
    check(answer.status == 404, "%d", answer.status);
    support_answer_free(&answer);
    close(fd);
    /* more than that is cut off, with an answer for those who look */
    fd = support_connect(&s);
    (void)support_print(fd, "POST /v1/nothing HTTP/1.1\r\n" HOST OCTETS
                            "Content-Length: 900000000\r\n\r\n");
    bool is_cut = false;
    for (int i = 0; i < 64 && !is_cut; i++)
        is_cut = !support_send(fd, block, sizeof block);
    check(is_cut, "64 MiB were taken");
    close(fd);
    support_stop(&s, 1000);
}

static void test_body_byte_by_byte(void)
{
    support_server s = {0};
    support_start(&s, NULL);
    int fd = support_connect(&s);
    (void)support_print(fd, POST_ECHO "Content-Length: 300\r\n\r\n");
    for (int i = 0; i < 300; i++)
        (void)support_print(fd, "7");
    support_answer answer = support_receive(fd, false);
    check(answer.status == 200 && strncmp(answer.body, "0 300 777", 9) == 0, "%s", answer.body);
    support_answer_free(&answer);
    close(fd);
    support_stop(&s, 1000);
}

/* ---- lanes ---- */

static void test_lanes(void)
{
    support_server s = {0};
    support_answer answer;
    support_start(&s, NULL);
    check(support_ask(&s, "POST /v1/echo HTTP/1.1\r\n" HOST "\r\n", &answer) == 200);
    check(strcmp(answer.body, "0 0 ") == 0, "%s", answer.body);
    support_answer_free(&answer);
    check(support_ask(&s, "POST /v1/short HTTP/1.1\r\n" HOST "\r\n", &answer) == 200);
    check(strcmp(answer.body, "1 0 ") == 0, "%s", answer.body);
    support_answer_free(&answer);
    check(support_ask(&s, "POST /v1/move HTTP/1.1\r\n" HOST "\r\n", &answer) == 200);
    check(strcmp(answer.body, "2 0 ") == 0, "%s", answer.body);
    support_answer_free(&answer);
    support_stop(&s, 1000);
}

static int send_gate(const support_server *s, const char *path)
{
    char request[256];
    int fd = support_connect(s);
    snprintf(request, sizeof request,
             "POST %s HTTP/1.1\r\n" HOST JSON_TYPE "Content-Length: 2\r\n\r\n{}", path);
    (void)support_print(fd, request);
    return fd;
}

static void check_status(int fd, int status)
{
    support_answer answer = support_receive(fd, false);
    check(answer.status == status, "%d, not %d", answer.status, status);
    if (status == 503)
        check(strcmp(support_field(&answer, "Retry-After"), "1") == 0, "%s", answer.head);
    support_answer_free(&answer);
    close(fd);
}

static void test_full_queue(void)
{
    support_server s = {0};
    const gmv_server_options options = {
        .n_short_workers = 1, .n_bulk_workers = 1, .max_short_jobs = 3, .max_bulk_jobs = 1};
    support_start(&s, &options);
    /* of eight the lane takes three, whichever come first; the others hear so at once */
    support_gate_close();
    struct pollfd sent[8];
    for (int i = 0; i < 8; i++)
        sent[i] = (struct pollfd){.fd = send_gate(&s, "/v1/gate"), .events = POLLIN};
    for (int n_refused = 0; n_refused < 5 && poll(sent, 8, SUPPORT_PATIENCE_MS) > 0;)
        for (int i = 0; i < 8; i++)
            if (sent[i].fd >= 0 && sent[i].revents) {
                check_status(sent[i].fd, 503);
                sent[i].fd = -1;
                n_refused++;
            }
    check(support_ask(&s, "GET /livez HTTP/1.1\r\n" HOST "\r\n", NULL) == 200, "inline goes on");
    check(poll(sent, 8, 20) == 0, "more than three are answered");
    support_gate_open();
    for (int i = 0; i < 8; i++)
        if (sent[i].fd >= 0)
            check_status(sent[i].fd, 200);
    /* the bulk lane full: who wants to move there is told, and nothing hangs */
    support_gate_close();
    int waiting = send_gate(&s, "/v1/move");
    support_gate_await(1);
    check_status(send_gate(&s, "/v1/move"), 503);
    support_gate_open();
    check_status(waiting, 200);
    support_stop(&s, 1000);
}

static void await_runs(int n)
{
    for (int i = 0; i < SUPPORT_PATIENCE_MS && support_n_again < n; i++)
        support_sleep_ms(1);
    check(support_n_again >= n, "%d runs", support_n_again);
}

/* Requests that wait for others' work hold no thread: as many again as there are workers do not. */
static void test_waiting_holds_no_thread(void)
{
    support_server s = {0};
    const gmv_server_options options = {
        .n_short_workers = 2, .n_bulk_workers = 2, .max_bulk_jobs = 6, .max_wait_ms = 600000};
    support_start(&s, &options);
    support_n_again = 0;
    int64_t begun = gmv_clock_monotonic_ns();
    int waiting[5];
    for (int i = 0; i < 5; i++)
        waiting[i] = send_gate(&s, "/v1/again");
    await_runs(5 * 10);
    for (int i = 0; i < 10; i++)
        check_status(send_gate(&s, "/v1/move"), 200);
    for (int i = 0; i < 5; i++)
        check(!support_is_readable(waiting[i], 0), "request %d is given up", i);
    int n = support_n_again;
    int64_t took_ms = (gmv_clock_monotonic_ns() - begun) / 1000000;
    check(n <= 5 * (took_ms + 2), "run %d times in %lld ms", n, (long long)took_ms);
    gmv_clock_advance_ms(600000);
    for (int i = 0; i < 5; i++) {
        support_answer answer = support_receive(waiting[i], false);
        check(answer.status == 422 && strstr(answer.body, "it has not happened"), "%d %s",
              answer.status, answer.body);
        support_answer_free(&answer);
        close(waiting[i]);
    }
    check_status(send_gate(&s, "/v1/move"), 200);
    support_stop(&s, 1000);
}

static void test_drain_ends_waiting(void)
{
    support_server s = {0};
    const gmv_server_options options = {.n_bulk_workers = 1, .max_wait_ms = 600000};
    support_start(&s, &options);
    support_n_again = 0;
    int waiting[3];
    for (int i = 0; i < 3; i++)
        waiting[i] = send_gate(&s, "/v1/again");
    await_runs(3 * 4);
    int64_t took_ms = support_stop(&s, 300);
    check(took_ms < SUPPORT_PATIENCE_MS, "%lld ms", (long long)took_ms);
    for (int i = 0; i < 3; i++)
        close(waiting[i]);
}

/* ---- uploads ---- */

typedef struct upload_job {
    const support_server *s;
    size_t nbytes, piece;
    bool chunked;
    unsigned seed;
    int status;
    bool is_right;
} upload_job;

static unsigned char upload_byte(unsigned seed, size_t i)
{
    return (unsigned char)((i * 2654435761u + seed) >> 7);
}

static bool upload_send_piece(int fd, const unsigned char *bytes, size_t nbytes, bool chunked)
{
    char head[32];
    if (!chunked)
        return support_send(fd, bytes, nbytes);
    snprintf(head, sizeof head, "%zx\r\n", nbytes);
    return support_print(fd, head) && support_send(fd, bytes, nbytes) && support_print(fd, "\r\n");
}

static void *upload_main(void *argument)
{
    upload_job *job = argument;
    char text[256];
    unsigned char *body = malloc(job->nbytes + 1);
    unsigned long long sum = 0;
    for (size_t i = 0; i < job->nbytes; i++) {
        body[i] = upload_byte(job->seed, i);
        sum += (i % 251 + 1) * body[i];
    }
    int fd = support_connect(job->s);
    if (job->chunked)
        snprintf(text, sizeof text, "POST /v1/upload HTTP/1.1\r\n" HOST OCTETS CHUNKED "\r\n");
    else
        snprintf(text, sizeof text,
                 "POST /v1/upload HTTP/1.1\r\n" HOST OCTETS "Content-Length: %zu\r\n\r\n",
                 job->nbytes);
    bool sent = support_print(fd, text);
    for (size_t i = 0; sent && i < job->nbytes; i += job->piece) {
        size_t n = job->nbytes - i < job->piece ? job->nbytes - i : job->piece;
        sent = upload_send_piece(fd, body + i, n, job->chunked);
    }
    if (sent && job->chunked)
        sent = support_print(fd, "0\r\n\r\n");
    support_answer answer = support_receive(fd, false);
    job->status = sent ? answer.status : 0;
    snprintf(text, sizeof text, "%zu %llu", job->nbytes, sum);
    job->is_right = answer.body && strcmp(answer.body, text) == 0;
    support_answer_free(&answer);
    close(fd);
    free(body);
    return NULL;
}

static void test_uploads_at_once(void)
{
    static const struct {
        size_t nbytes, piece;
        bool chunked;
    } rows[12] = {
        {0, 1, false},
        {0, 1, true},
        {1, 1, true},
        {3000, 1, true},
        {3000, 1, false},
        {1 << 20, 4096, false},
        {1 << 20, 4096, true},
        {(1 << 20) + 1, 1000, true},
        {5 << 20, 1 << 20, true},
        {5 << 20, 1 << 20, false},
        {3333333, 777, true},
        {8 << 20, 65537, true},
    };
    support_server s = {0};
    support_start(&s, NULL);
    pthread_t threads[12];
    upload_job jobs[12];
    for (size_t i = 0; i < 12; i++) {
        jobs[i] = (upload_job){.s = &s,
                               .nbytes = rows[i].nbytes,
                               .piece = rows[i].piece,
                               .chunked = rows[i].chunked,
                               .seed = (unsigned)i};
        pthread_create(&threads[i], NULL, upload_main, &jobs[i]);
    }
    for (size_t i = 0; i < 12; i++) {
        pthread_join(threads[i], NULL);
        check(jobs[i].status == 201 && jobs[i].is_right, "row %zu: %d", i, jobs[i].status);
    }
    support_stop(&s, 5000);
}

static void test_upload_fails(void)
{
    static const struct {
        const char *fail;
        size_t nbytes;
        int status;
    } rows[] = {
        {"begin", 10, 422},       {"append", 10, 507},      {"finish", 10, 422},
        {"begin", 3 << 20, 422},  {"append", 3 << 20, 507}, {"finish", 3 << 20, 422},
        {"append", 6 << 20, 507},
    };
    support_server s = {0};
    support_start(&s, NULL);
    static char body[6 << 20];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char head[256];
        int fd = support_connect(&s);
        for (int chunked = 0; chunked < 2; chunked++) {
            if (chunked)
                snprintf(head, sizeof head,
                         "POST /v1/upload?fail=%s HTTP/1.1\r\n" HOST OCTETS CHUNKED "\r\n%zx\r\n",
                         rows[i].fail, rows[i].nbytes);
            else
                snprintf(head, sizeof head,
                         "POST /v1/upload?fail=%s HTTP/1.1\r\n" HOST OCTETS
                         "Content-Length: %zu\r\n\r\n",
                         rows[i].fail, rows[i].nbytes);
            check(support_print(fd, head) && support_send(fd, body, rows[i].nbytes), "row %zu", i);
            if (chunked)
                check(support_print(fd, "\r\n0\r\n\r\n"));
            support_answer answer = support_receive(fd, false);
            check(answer.status == rows[i].status, "row %zu: %d", i, answer.status);
            support_answer_free(&answer);
        }
        close(fd);
    }
    /* with 100-continue a refusal in begin comes before the body */
    int fd = support_connect(&s);
    (void)support_print(fd, "POST /v1/upload?fail=begin HTTP/1.1\r\n" HOST OCTETS
                            "Expect: 100-continue\r\nContent-Length: 50000000\r\n\r\n");
    support_answer answer = support_receive(fd, false);
    check(answer.status == 422, "%d", answer.status);
    support_answer_free(&answer);
    close(fd);
    support_stop(&s, 1000);
}

static void test_upload_limit(void)
{
    support_server s = {0};
    const gmv_server_options options = {
        .max_uploads = 2, .n_bulk_workers = 1, .max_silence_ms = 600000};
    support_start(&s, &options);
    static const char head[] =
        "POST /v1/upload HTTP/1.1\r\n" HOST OCTETS "Content-Length: 4\r\n\r\n";
    static const char asking[] = "POST /v1/upload HTTP/1.1\r\n" HOST OCTETS
                                 "Expect: 100-continue\r\nContent-Length: 4\r\n\r\n";
    int first = support_connect(&s), second = support_connect(&s), third = support_connect(&s);
    check(support_print(first, asking) && support_is_welcome(first));
    check(support_print(second, asking) && support_is_welcome(second));
    check(support_print(third, head) && support_print(third, "abcd"));
    check_status(third, 503);
    check(support_print(first, "abcd"));
    check_status(first, 201);
    third = support_connect(&s);
    check(support_print(third, head) && support_print(third, "abcd"));
    check_status(third, 201);
    close(second); /* breaks off */
    support_stop(&s, 1000);
}

static int upload_head(const support_server *s)
{
    int fd = support_connect(s);
    check(support_print(fd, "POST /v1/upload HTTP/1.1\r\n" HOST OCTETS
                            "Content-Length: 3000000\r\n\r\n"));
    return fd;
}

/* Sends the body behind such a head; the status. */
static int upload_rest(int fd)
{
    static char block[1000000];
    for (int piece = 0; piece < 3 && support_send(fd, block, sizeof block); piece++)
        continue;
    support_answer answer = support_receive(fd, false);
    int status = answer.status;
    support_answer_free(&answer);
    close(fd);
    return status;
}

/* Who has stopped to send gives its place to one who sends, and hears of it; the others go on. */
static void test_silent_uploads(void)
{
    support_server s = {0};
    const gmv_server_options options = {.max_uploads = 3, .max_silence_ms = 1};
    support_start(&s, &options);
    int n_begun = support_uploads_now().begun, silent[3], status = 0;
    for (int i = 0; i < 3; i++) {
        silent[i] = upload_head(&s);
        while (support_uploads_now().begun <= n_begun + i)
            support_sleep_ms(1);
    }
    for (int tries = 0; tries < 1000 && status != 201; tries++) {
        support_sleep_ms(20);
        status = upload_rest(upload_head(&s));
    }
    check(status == 201, "%d", status);
    int n_displaced = 0;
    for (int i = 0; i < 3; i++) {
        status = upload_rest(silent[i]);
        check(status == 201 || status == 503, "%d", status);
        n_displaced += status == 503;
    }
    check(n_displaced == 1, "%d", n_displaced);
    support_stop(&s, 1000);
}

/* Until every upload that has begun has ended, and none begins any more. */
static void await_uploads(void)
{
    for (int calm = 0; calm < 50; calm++) {
        support_uploads now = support_uploads_now();
        if (now.begun != now.finished + now.aborted)
            calm = 0;
        support_sleep_ms(2);
    }
}

/* Bodies that break off before, while and after a worker has a piece of them. */
static void test_broken_uploads(void)
{
    support_server s = {0};
    support_start(&s, NULL);
    support_uploads before = support_uploads_now();
    static char block[1 << 20];
    for (int how = 0; how < 3; how++) {
        for (size_t sent = 0; sent <= 2 << 20; sent += 700001) {
            int fd = support_connect(&s);
            (void)support_print(fd, "POST /v1/upload HTTP/1.1\r\n" HOST OCTETS
                                    "Content-Length: 9000000\r\n\r\n");
            for (size_t left = sent; left;) {
                size_t piece = left < sizeof block ? left : sizeof block;
                check(support_send(fd, block, piece));
                left -= piece;
            }
            if (how == 0) {
                support_reset(fd);
            } else if (how == 1) {
                close(fd);
            } else {
                shutdown(fd, SHUT_WR);
                support_answer answer = support_receive(fd, false);
                check(answer.status == 400, "%d", answer.status);
                support_answer_free(&answer);
                close(fd);
            }
        }
    }
    await_uploads();
    support_uploads now = support_uploads_now();
    check(now.finished == before.finished, "a body that breaks off is never finished");
    support_stop(&s, 2000);
}

/* ---- odd clients ---- */

static void test_clients_leave_while_suspended(void)
{
    support_server s = {0};
    const gmv_server_options options = {.n_short_workers = 2};
    support_start(&s, &options);
    support_gate_close();
    int reset = send_gate(&s, "/v1/gate"), closed = send_gate(&s, "/v1/gate");
    support_gate_await(2);
    support_reset(reset);
    close(closed);
    support_sleep_ms(30); /* so that the loss may be noticed; it need not be */
    support_gate_open();
    check(support_ask(&s, "GET /livez HTTP/1.1\r\n" HOST "\r\n", NULL) == 200);
    support_stop(&s, 2000);
}

static const char *const half_close_requests[] = {
    "GET /livez HTTP/1.1\r\n" HOST "\r\n",
    "POST /v1/echo HTTP/1.1\r\n" HOST JSON_TYPE "Content-Length: 2\r\n\r\n{}",
    "POST /v1/gate HTTP/1.1\r\n" HOST JSON_TYPE "Content-Length: 2\r\n\r\n{}",
    "POST /v1/gate HTTP/1.1\r\n" HOST JSON_TYPE CHUNKED "\r\n1\r\n{\r\n1\r\n}\r\n0\r\n\r\n",
    "POST /v1/move HTTP/1.1\r\n" HOST "\r\n",
    "GET /v1/contents HTTP/1.1\r\n" HOST "\r\n",
    "POST /v1/upload?gate HTTP/1.1\r\n" HOST OCTETS "Content-Length: 4\r\n\r\nabcd",
    "POST /v1/upload?gate HTTP/1.1\r\n" HOST OCTETS CHUNKED "\r\n2\r\nab\r\n2\r\ncd\r\n0\r\n\r\n",
};

/* Who closes its side after the request, at once or while a worker has it, still gets the answer.
 */
static void test_half_close_is_answered(void)
{
    support_server s = {0};
    s.service.idle_timeout_seconds = 1; /* an end in one piece with the request may go unnoticed */
    support_start(&s, NULL);
    for (int pause_ms = 0; pause_ms <= 20; pause_ms += 20) {
        for (size_t i = 0; i < sizeof half_close_requests / sizeof half_close_requests[0]; i++) {
            for (int again = 0; again < 5; again++) {
                support_gate_close();
                int fd = support_connect(&s);
                (void)support_print(fd, half_close_requests[i]);
                support_sleep_ms(pause_ms);
                shutdown(fd, SHUT_WR);
                support_sleep_ms(5);
                support_gate_open();
                support_answer answer = support_receive(fd, false);
                check(answer.status == 200 || answer.status == 201, "row %zu, after %d ms: %d", i,
                      pause_ms, answer.status);
                check(support_is_closed(fd), "row %zu", i);
                support_answer_free(&answer);
                close(fd);
            }
        }
    }
    support_stop(&s, 2000);
}

static void test_pipelined_behind_suspended(void)
{
    support_server s = {0};
    support_start(&s, NULL);
    support_gate_close();
    int fd = support_connect(&s);
    (void)support_print(
        fd, "POST /v1/gate HTTP/1.1\r\n" HOST JSON_TYPE CHUNKED "\r\n1\r\n{\r\n1\r\n}\r\n0\r\n\r\n"
            "POST /v1/move HTTP/1.1\r\n" HOST "\r\nGET /livez HTTP/1.1\r\n" HOST "\r\n");
    support_gate_await(1);
    support_sleep_ms(20);
    support_gate_open();
    for (int i = 0; i < 3; i++) {
        support_answer answer = support_receive(fd, false);
        check(answer.status == 200, "%d", answer.status);
        support_answer_free(&answer);
    }
    close(fd);
    support_stop(&s, 1000);
}

static void test_silent_clients(void)
{
    support_server s = {0};
    s.service.idle_timeout_seconds = 1;
    support_start(&s, NULL);
    static const char *const beginnings[] = {
        "",
        "GE",
        "GET /livez HTTP/1.1\r\n",
        "GET /livez HTTP/1.1\r\n" HOST,
        POST_ECHO "Content-Length: 10\r\n\r\n{",
        "POST /v1/upload HTTP/1.1\r\n" HOST OCTETS CHUNKED "\r\n5\r\nab",
    };
    int fds[6];
    for (int i = 0; i < 6; i++) {
        fds[i] = support_connect(&s);
        (void)support_print(fds[i], beginnings[i]);
    }
    for (int i = 0; i < 6; i++) {
        check(support_is_closed(fds[i]), "%s", beginnings[i]);
        close(fds[i]);
    }
    support_stop(&s, 1000);
}

static void test_reset_downloads(void)
{
    support_server s = {0};
    support_start(&s, NULL);
    for (int i = 0; i < 20; i++) {
        char bytes[1024];
        int fd = support_connect(&s);
        (void)support_print(fd, "GET /v1/big HTTP/1.1\r\n" HOST "\r\n");
        check(recv(fd, bytes, sizeof bytes, 0) > 0);
        support_reset(fd);
        check(support_ask(&s, "GET /livez HTTP/1.1\r\n" HOST "\r\n", NULL) == 200);
    }
    support_answer answer;
    check(support_ask(&s, "GET /v1/big HTTP/1.1\r\n" HOST "\r\n", &answer) == 200);
    check(answer.nbytes == (size_t)32 << 20, "%zu", answer.nbytes);
    support_answer_free(&answer);
    support_stop(&s, 2000);
}

static void test_many_connections(void)
{
    support_server s = {0};
    support_start(&s, NULL);
    int n_right = 0;
    for (int i = 0; i < 1000; i++)
        n_right += support_ask(&s,
                               i % 2 ? "GET /livez HTTP/1.1\r\n" HOST "\r\n"
                                     : "POST /v1/short HTTP/1.1\r\n" HOST "\r\n",
                               NULL) == 200;
    check(n_right == 1000, "%d", n_right);
    support_stop(&s, 2000);
}

static void test_connection_limit(void)
{
    support_server s = {0};
    s.service.connection_limit = 8;
    support_start(&s, NULL);
    int idle[8 + 64];
    for (int i = 0; i < 8; i++) {
        idle[i] = support_connect(&s);
        (void)support_print(idle[i], "GET /livez HTTP/1.1\r\n" HOST "\r\n");
        support_answer answer = support_receive(idle[i], false);
        check(answer.status == 200, "%d: %d", i, answer.status);
        support_answer_free(&answer);
    }
    check(support_ask(&s, "GET /v1/server HTTP/1.1\r\n" HOST "\r\n", NULL) == 503,
          "beyond the limit");
    check(support_ask(&s, "GET /livez HTTP/1.1\r\n" HOST "\r\n", NULL) == 200,
          "probes have a reserve");
    support_await_connections(&s, 8);
    for (int i = 8; i < 72; i++)
        idle[i] = support_connect(&s);
    support_await_connections(&s, 72);
    support_answer answer;
    check(support_ask(&s, "", &answer) == 503, "far beyond the limit: %d", answer.status);
    check(answer.nbytes > 0 && answer.body[answer.nbytes - 1] == '}', "%s", answer.body);
    support_answer_free(&answer);
    for (int i = 0; i < 72; i++)
        close(idle[i]);
    support_await_connections(&s, 0);
    check(support_ask(&s, "GET /v1/server HTTP/1.1\r\n" HOST "\r\n", NULL) == 200, "room again");
    support_stop(&s, 1000);
}

/* A body that trickles is given up; the clock is turned on instead of waiting. */
static void test_trickling_body(void)
{
    support_server s = {0};
    support_start(&s, NULL);
    int json = support_connect(&s), octets = support_connect(&s);
    (void)support_print(json, POST_ECHO "Expect: 100-continue\r\nContent-Length: 1000\r\n\r\n");
    (void)support_print(octets, "POST /v1/upload HTTP/1.1\r\n" HOST OCTETS CHUNKED
                                "Expect: 100-continue\r\n\r\n");
    check(support_is_welcome(json) && support_is_welcome(octets));
    gmv_clock_advance_ms(61000);
    check(!support_is_readable(json, 50) && !support_is_readable(octets, 50));
    (void)support_print(json, "{");
    (void)support_print(octets, "3e8\r\na");
    check(support_is_closed(json));
    check(support_is_closed(octets));
    close(json);
    close(octets);
    support_stop(&s, 1000);
}

static const char *const starved_requests[] = {
    "GET /livez HTTP/1.1\r\n" HOST "\r\n",
    "GET /v1/server?x=1 HTTP/1.1\r\n" HOST "\r\n",
    "GET /v1/contents?sealed HTTP/1.1\r\n" HOST "Range: bytes=1-2\r\n\r\n",
    "GET /v1/nothing HTTP/1.1\r\n" HOST "\r\n",
    POST_ECHO "Content-Length: 2\r\n\r\n{}",
    "POST /v1/short HTTP/1.1\r\n" HOST JSON_TYPE CHUNKED "\r\n2\r\n{}\r\n0\r\n\r\n",
    "POST /v1/fail_short HTTP/1.1\r\n" HOST "\r\n",
    "POST /v1/upload HTTP/1.1\r\n" HOST OCTETS CHUNKED "\r\n2\r\nab\r\n0\r\n\r\n",
    "POST /v1/upload HTTP/1.1\r\n" HOST OCTETS
    "Expect: 100-continue\r\nContent-Length: 2\r\n\r\nab",
    "GET /metrics HTTP/1.1\r\n" HOST "\r\n",
};

/* Each allocation of a request fails in turn: it is answered (503 or as ever) or closed. */
static void test_allocations_fail_in_turn(void)
{
    support_server s = {0};
    support_start(&s, NULL);
    int n_failed = 0;
    for (size_t i = 0; i < sizeof starved_requests / sizeof starved_requests[0]; i++) {
        bool has_failed = true;
        for (uint64_t n = 1; has_failed && n < 200; n++) {
            gmv_alloc_fail_once(n);
            int status = support_ask(&s, starved_requests[i], NULL);
            has_failed = gmv_alloc_has_failed();
            gmv_alloc_fail_once(0);
            n_failed += has_failed ? 1 : 0;
            check(status == 0 || status == 503 || !has_failed ||
                      status == support_ask(&s, starved_requests[i], NULL),
                  "request %zu, allocation %d: %d", i, (int)n, status);
        }
        check(!has_failed, "request %zu", i);
    }
    check(n_failed > 30, "%d", n_failed);
    check(support_ask(&s, starved_requests[0], NULL) == 200);
    support_stop(&s, 1000);
}

/* ---- stopping ---- */

typedef struct drain_job {
    support_server *s;
    int64_t timeout_ms, took_ms;
} drain_job;

static void *drain_main(void *argument)
{
    drain_job *job = argument;
    job->took_ms = support_stop(job->s, job->timeout_ms);
    return NULL;
}

static void await_draining(support_server *s)
{
    while (!atomic_load(&s->service.draining))
        support_sleep_ms(1);
}

static void test_drain_finishes_work(void)
{
    support_server s = {0};
    const gmv_server_options options = {.n_short_workers = 4, .n_bulk_workers = 4};
    support_start(&s, &options);
    support_gate_close();
    int idle = support_connect(&s);
    (void)support_print(idle, "GET /livez HTTP/1.1\r\n" HOST "\r\n");
    support_answer answer = support_receive(idle, false);
    support_answer_free(&answer);
    int fds[4];
    for (int i = 0; i < 4; i++)
        fds[i] = send_gate(&s, i % 2 ? "/v1/gate" : "/v1/move");
    support_gate_await(4);
    drain_job job = {&s, 4 * SUPPORT_PATIENCE_MS, 0};
    pthread_t thread;
    pthread_create(&thread, NULL, drain_main, &job);
    await_draining(&s);
    (void)support_print(idle, "GET /livez HTTP/1.1\r\n" HOST "\r\n");
    answer = support_receive(idle, false);
    check(answer.status == 503, "%d", answer.status);
    check(strstr(answer.body, "\"draining\"") != NULL, "%s", answer.body);
    check(support_is_closed(idle));
    support_answer_free(&answer);
    support_gate_open();
    for (int i = 0; i < 4; i++)
        check_status(fds[i], 200);
    close(idle);
    pthread_join(thread, NULL);
    check(job.took_ms < SUPPORT_PATIENCE_MS, "%lld ms", (long long)job.took_ms);
}

static void test_drain_gives_up(void)
{
    support_server s = {0};
    const gmv_server_options options = {.n_short_workers = 3, .n_bulk_workers = 1};
    support_start(&s, &options);
    support_gate_close();
    int fds[3];
    for (int i = 0; i < 3; i++)
        fds[i] = send_gate(&s, "/v1/gate");
    /* an upload that waits in begin, one in the middle of its body, and half a head */
    int upload = support_connect(&s), half_upload = support_connect(&s),
        half_head = support_connect(&s);
    (void)support_print(upload, "POST /v1/upload?gate HTTP/1.1\r\n" HOST OCTETS
                                "Content-Length: 4\r\n\r\nabcd");
    (void)support_print(half_upload, "POST /v1/upload HTTP/1.1\r\n" HOST OCTETS
                                     "Content-Length: 4000000\r\n\r\nab");
    (void)support_print(half_head, "GET /livez HTTP/1.1\r\n");
    support_gate_await(4);
    support_await_requests(&s, 6);
    drain_job job = {&s, 1000, 0};
    pthread_t thread;
    pthread_create(&thread, NULL, drain_main, &job);
    for (int i = 0; i < 3; i++)
        check_status(fds[i], 503);
    support_gate_open();
    pthread_join(thread, NULL);
    check(job.took_ms < SUPPORT_PATIENCE_MS, "%lld ms", (long long)job.took_ms);
    close(upload);
    close(half_upload);
    close(half_head);
}

static atomic_bool storm_ends;

static void *storm_main(void *argument)
{
    const int fd = *(const int *)argument;
    static const char *const requests[] = {
        "GET /livez HTTP/1.1\r\n" HOST "\r\n",
        "POST /v1/short HTTP/1.1\r\n" HOST "\r\n",
        "POST /v1/move HTTP/1.1\r\n" HOST "\r\n",
        "POST /v1/upload HTTP/1.1\r\n" HOST OCTETS CHUNKED "\r\n2\r\nab\r\n2\r\ncd\r\n0\r\n\r\n",
        "GET /v1/contents HTTP/1.1\r\n" HOST "\r\n",
    };
    for (unsigned i = 0; !atomic_load(&storm_ends); i++) {
        if (!support_print(fd, requests[i % 5]))
            break;
        support_answer answer = support_receive(fd, false);
        int status = answer.status;
        support_answer_free(&answer);
        if (status != 200 && status != 201)
            break;
    }
    return NULL;
}

/* Stops beneath clients that never stop asking; several times, for the order of events varies. */
static void test_drain_under_load(void)
{
    for (int round = 0; round < 5; round++) {
        support_server s = {0};
        support_start(&s, NULL);
        pthread_t threads[6];
        int fds[6];
        atomic_store(&storm_ends, false);
        for (int i = 0; i < 6; i++) {
            fds[i] = support_connect(&s);
            pthread_create(&threads[i], NULL, storm_main, &fds[i]);
        }
        support_await_requests(&s, 120);
        int64_t took_ms = support_stop(&s, round % 2 ? 2000 : 0);
        check(took_ms < SUPPORT_PATIENCE_MS, "%lld ms", (long long)took_ms);
        atomic_store(&storm_ends, true);
        for (int i = 0; i < 6; i++) {
            pthread_join(threads[i], NULL);
            close(fds[i]);
        }
    }
}

/* ---- the server's own resources ---- */

static void test_own_resources(void)
{
    support_server s = {0};
    support_answer answer;
    support_start(&s, NULL);
    check(support_ask(&s, "GET /livez?verbose HTTP/1.1\r\n" HOST "\r\n", &answer) == 200);
    check(strstr(answer.body, "\"checks\":{") != NULL, "%s", answer.body);
    support_answer_free(&answer);
    check(support_ask(&s, "GET /livez?verbose=maybe HTTP/1.1\r\n" HOST "\r\n", NULL) == 400);
    check(support_ask(&s, "GET /readyz HTTP/1.1\r\n" HOST "\r\n", NULL) == 200);
    check(support_ask(&s, "GET /v1/server HTTP/1.1\r\n" HOST "\r\n", &answer) == 200);
    check(strstr(answer.body,
                 "\"backend\":\"host\",\"cuda\":null,\"limits\":{\"max_json_nbytes\":8388608") !=
              NULL,
          "%s", answer.body);
    support_answer_free(&answer);
    check(support_ask(&s, "GET /v1/devices HTTP/1.1\r\n" HOST "\r\n", &answer) == 200);
    check(strstr(answer.body, "\"uuid\":null") && strstr(answer.body, "\"state\":\"ready\""), "%s",
          answer.body);
    support_answer_free(&answer);
    check(support_ask(&s, "GET /openapi.json HTTP/1.1\r\n" HOST "\r\n", &answer) == 200);
    check(answer.nbytes > 2 && answer.body[0] == '{', "%.20s", answer.body);
    support_answer_free(&answer);
    check(support_ask(&s, "GET /metrics HTTP/1.1\r\n" HOST "\r\n", &answer) == 200);
    check(strstr(answer.body,
                 "gmvd_http_requests_total{method=\"GET\",route=\"/livez\",status=\"400\"} 1\n") !=
              NULL,
          "%s", answer.body);
    support_answer_free(&answer);
    gmv_device_mark_lost(s.service.engine.devices[0], "for the test");
    check(support_ask(&s, "GET /readyz HTTP/1.1\r\n" HOST "\r\n", &answer) == 503);
    check(strstr(answer.body, "\"device_lost\"") != NULL, "%s", answer.body);
    support_answer_free(&answer);
    check(support_ask(&s, "GET /livez HTTP/1.1\r\n" HOST "\r\n", NULL) == 200);
    support_stop(&s, 1000);
}

static void test_refuses_to_listen_beyond_loopback(void)
{
    static const char *const addresses[] = {"0.0.0.0:0",       "[::]:0",     "example.org:80",
                                            "127.0.0.1",       "127.0.0.1:", ":80",
                                            "127.0.0.1:65536", "",           "127.0.0.1:1x"};
    static gmv_service service;
    gmv_device *device;
    gmv_error err;
    gmv_error_init(&err);
    const gmv_device_options device_options = {0};
    const gmv_limits limits = {0};
    const gmv_registry_options registry = {0};
    check(gmv_device_open_host(&device_options, &device, &err) == GMV_OK);
    check(gmv_engine_init(&service.engine, &device, 1, &limits, &registry, &err) == GMV_OK);
    service.backend = "host";
    for (size_t i = 0; i < sizeof addresses / sizeof addresses[0]; i++) {
        const gmv_server_options options = {
            .listen = addresses[i], .routes = support_routes, .n_routes = support_routes_count};
        gmv_server *server = NULL;
        gmv_error_init(&err);
        check(gmv_server_start(&service, &options, &server, &err) == GMV_ERR_VALUE, "%s",
              addresses[i]);
    }
    gmv_engine_fini(&service.engine);
}

static const support_test tests[] = {
    {"framing_is_beyond_doubt_or_refused", test_framing},
    {"a_body_cut_by_half_close_is_400", test_cut_body},
    {"errors_are_problem_documents", test_problem},
    {"conditional_requests_follow_the_etag", test_conditions},
    {"ranges_cut_the_contents", test_ranges},
    {"json_bodies_end_at_the_limit", test_json_limit},
    {"a_refusal_reaches_clients_that_wait", test_early_refusal},
    {"a_refusal_reaches_clients_that_send", test_refused_megabytes},
    {"a_body_may_come_byte_by_byte", test_body_byte_by_byte},
    {"requests_run_on_their_lanes", test_lanes},
    {"a_full_queue_is_503", test_full_queue},
    {"requests_that_wait_for_others_hold_no_thread", test_waiting_holds_no_thread},
    {"uploads_in_all_pieces_at_once", test_uploads_at_once},
    {"uploads_that_fail_say_so", test_upload_fails},
    {"too_many_uploads_are_503", test_upload_limit},
    {"silent_uploads_give_their_places_up", test_silent_uploads},
    {"uploads_that_break_off_leave_nothing", test_broken_uploads},
    {"clients_may_leave_while_suspended", test_clients_leave_while_suspended},
    {"clients_that_half_close_are_answered", test_half_close_is_answered},
    {"pipelined_requests_wait_for_the_suspended", test_pipelined_behind_suspended},
    {"silent_clients_time_out", test_silent_clients},
    {"bodies_that_trickle_are_given_up", test_trickling_body},
    {"allocations_may_fail_in_turn", test_allocations_fail_in_turn},
    {"downloads_may_be_reset", test_reset_downloads},
    {"a_thousand_connections_one_by_one", test_many_connections},
    {"connections_beyond_the_limit_hear_503", test_connection_limit},
    {"drain_lets_work_finish", test_drain_finishes_work},
    {"drain_gives_up_in_the_end", test_drain_gives_up},
    {"drain_ends_requests_that_wait_for_others", test_drain_ends_waiting},
    {"drain_under_load_never_aborts", test_drain_under_load},
    {"the_servers_own_resources_answer", test_own_resources},
    {"only_the_loopback_is_listened_on", test_refuses_to_listen_beyond_loopback},
};

int main(int argc, char *argv[])
{
    return support_run(tests, sizeof tests / sizeof tests[0], argc > 1 ? argv[1] : NULL);
}
