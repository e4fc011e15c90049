/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Downloads of memory that must be copied out: every size and range, too little staging, clients
 * that stall or go, copies that fail, and stopping in the midst of it.
 */
#include "config.h"

#include "support.h"

#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <gmv/base/alloc.h>
#include <gmv/base/clock.h>

#define MIB ((size_t)1 << 20)

static void open_server(support_server *s, uint32_t max_chunks)
{
    const gmv_server_options options = {.max_chunks = max_chunks};
    memset(s, 0, sizeof *s);
    s->hides_pointers = true;
    support_start(s, &options);
}

static void print_request(char out[256], const char *method, size_t nbytes, const char *fields)
{
    snprintf(out, 256, "%s /v1/remote?nbytes=%zu HTTP/1.1\r\nHost: localhost\r\n%s\r\n", method,
             nbytes, fields);
}

/* Where the body departs from the pattern that starts at `first`; `nbytes` if nowhere. */
static size_t first_difference(const char *body, size_t nbytes, size_t first)
{
    size_t i = 0;
    while (i < nbytes && (unsigned char)body[i] == support_remote_byte(first + i))
        i++;
    return i;
}

static void check_body(const support_answer *answer, size_t nbytes, size_t first, const char *what)
{
    check(answer->nbytes == nbytes, "%s: %zu bytes instead of %zu", what, answer->nbytes, nbytes);
    if (answer->nbytes != nbytes)
        return;
    size_t same = first_difference(answer->body, nbytes, first);
    check(same == nbytes, "%s: another byte at %zu of %zu", what, same, nbytes);
}

/* ---- whole and in part ---- */

static void test_every_size(void)
{
    static const size_t sizes[] = {1,   65535,   65536,   65537,       MIB - 1,
                                   MIB, MIB + 1, 2 * MIB, 5 * MIB + 3, 33 * MIB + 17};
    support_server s;
    open_server(&s, 0);
    int fd = support_connect(&s);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        char request[256];
        print_request(request, "GET", sizes[i], "");
        (void)support_print(fd, request);
        support_answer answer = support_receive(fd, false);
        check(answer.status == 200, "%d", answer.status);
        check_body(&answer, sizes[i], 0, "whole");
        support_answer_free(&answer);
        print_request(request, "HEAD", sizes[i], "");
        (void)support_print(fd, request);
        answer = support_receive(fd, true);
        size_t said = strtoull(support_field(&answer, "Content-Length"), NULL, 10);
        check(answer.status == 200 && said == sizes[i], "%d %zu", answer.status, said);
        support_answer_free(&answer);
    }
    close(fd);
    support_stop(&s, 5000);
}

static void test_ranges(void)
{
    static const struct {
        size_t first, last;
    } rows[] = {{0, 0},
                {5, 1000},
                {MIB - 1, MIB},
                {MIB, 2 * MIB - 1},
                {3 * MIB + 7, 6 * MIB - 9},
                {8 * MIB - 1, 8 * MIB - 1}};
    support_server s;
    open_server(&s, 0);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char fields[64], request[256];
        snprintf(fields, sizeof fields, "Range: bytes=%zu-%zu\r\n", rows[i].first, rows[i].last);
        print_request(request, "GET", 8 * MIB, fields);
        support_answer answer;
        check(support_ask(&s, request, &answer) == 206, "%d", answer.status);
        check_body(&answer, rows[i].last - rows[i].first + 1, rows[i].first, "range");
        support_answer_free(&answer);
    }
    support_stop(&s, 5000);
}

/* ---- several ranges ---- */

typedef struct part_span {
    size_t first, last;
} part_span;

static const part_span part_spans[] = {
    {0, 0}, {5, 70000}, {MIB - 1, MIB}, {2 * MIB, 4 * MIB + 11}, {8 * MIB - 1, 8 * MIB - 1}};

#define PART_SPANS (sizeof part_spans / sizeof part_spans[0])

static void print_parts_request(char out[256], size_t nbytes)
{
    char fields[160] = "Range: bytes=";
    for (size_t i = 0; i < PART_SPANS; i++) {
        size_t length = strlen(fields);
        snprintf(fields + length, sizeof fields - length, "%zu-%zu%s", part_spans[i].first,
                 part_spans[i].last, i + 1 < PART_SPANS ? "," : "\r\n");
    }
    print_request(out, "GET", nbytes, fields);
}

/* Past the head of a part, which must be that of `span`; NULL if it is not. */
static const char *skip_part_head(const char *at, const char *end, const part_span *span,
                                  size_t total)
{
    char want[80];
    const char *body = memmem(at, (size_t)(end - at), "\r\n\r\n", 4);
    snprintf(want, sizeof want, "\r\nContent-Range: bytes %zu-%zu/%zu\r\n", span->first, span->last,
             total);
    if (!body || !memmem(at, (size_t)(body - at) + 2, want, strlen(want)))
        return NULL;
    return body + 4;
}

static void check_parts(const support_answer *answer, size_t total)
{
    const char *at = answer->body, *end = at + answer->nbytes;
    check(strncmp(support_field(answer, "Content-Type"), "multipart/byteranges; boundary=", 31) ==
              0,
          "%s", support_field(answer, "Content-Type"));
    for (size_t i = 0; i < PART_SPANS; i++) {
        size_t nbytes = part_spans[i].last - part_spans[i].first + 1;
        at = skip_part_head(at, end, &part_spans[i], total);
        check(at != NULL && (size_t)(end - at) > nbytes, "part %zu is not there", i);
        if (!at || (size_t)(end - at) <= nbytes)
            return;
        size_t same = first_difference(at, nbytes, part_spans[i].first);
        check(same == nbytes, "part %zu: another byte at %zu", i, same);
        at += nbytes;
    }
    check(end - at == 40 && memcmp(end - 4, "--\r\n", 4) == 0, "%td bytes at the end", end - at);
}

static void test_several_ranges(void)
{
    support_server s;
    char request[256];
    open_server(&s, 2);
    print_parts_request(request, 8 * MIB);
    for (int i = 0; i < 3; i++) {
        support_answer answer;
        check(support_ask(&s, request, &answer) == 206, "%d", answer.status);
        check_parts(&answer, 8 * MIB);
        support_answer_free(&answer);
    }
    support_stop(&s, 5000);
}

/* Refused or cut short, but never with a part that holds something else. */
static void test_parts_with_failing_allocations(void)
{
    bool has_failed = true;
    int n_failed = 0;
    for (uint64_t n = 1; has_failed && n < 200; n++) {
        support_server s;
        char request[256];
        support_answer answer;
        open_server(&s, 0);
        print_parts_request(request, 8 * MIB);
        gmv_alloc_fail_once(n);
        int status = support_ask(&s, request, &answer);
        has_failed = gmv_alloc_has_failed();
        gmv_alloc_fail_once(0);
        n_failed += has_failed ? 1 : 0;
        check(status == 206 || (has_failed && (status == 503 || status == 0)), "%d", status);
        if (status == 206 && !has_failed)
            check_parts(&answer, 8 * MIB);
        support_answer_free(&answer);
        support_stop(&s, 5000);
    }
    check(!has_failed && n_failed > 6, "%d", n_failed);
}

/* ---- many ---- */

static void *reader_main(void *argument)
{
    const support_server *s = argument;
    char request[256];
    for (int i = 0; i < 4; i++) {
        size_t nbytes = 3 * MIB + (size_t)i * 4321;
        print_request(request, "GET", nbytes, "");
        support_answer answer;
        check(support_ask(s, request, &answer) == 200, "%d", answer.status);
        check_body(&answer, nbytes, 0, "one of many");
        support_answer_free(&answer);
    }
    return NULL;
}

/* Two chunks for eight clients: they wait for each other, and all come to their end. */
static void test_scarce_staging(void)
{
    support_server s;
    pthread_t threads[8];
    open_server(&s, 2);
    for (size_t i = 0; i < 8; i++)
        (void)pthread_create(&threads[i], NULL, reader_main, &s);
    for (size_t i = 0; i < 8; i++)
        (void)pthread_join(threads[i], NULL);
    support_stop(&s, 5000);
}

/* ---- clients that do not read ---- */

static int stalled_client(const support_server *s, size_t nbytes)
{
    char request[256];
    int fd = support_connect(s);
    print_request(request, "GET", nbytes, "");
    (void)support_print(fd, request);
    return fd;
}

/* Those who stall hold all staging, and must lose it to one who reads; theirs goes on later. */
static void test_stalled_clients(void)
{
    support_server s;
    int stalled[4];
    open_server(&s, 2);
    for (size_t i = 0; i < 4; i++)
        stalled[i] = stalled_client(&s, 16 * MIB);
    for (size_t i = 0; i < 4; i++)
        check(support_is_readable(stalled[i], SUPPORT_PATIENCE_MS), "no answer");
    (void)reader_main(&s);
    support_sleep_ms(2500); /* longer than staging is left to a client that does not read */
    for (size_t i = 0; i < 4; i++) {
        support_answer answer = support_receive(stalled[i], false);
        check(answer.status == 200, "%d", answer.status);
        check_body(&answer, 16 * MIB, 0, "stalled");
        support_answer_free(&answer);
        close(stalled[i]);
    }
    support_stop(&s, 5000);
}

static void test_clients_go(void)
{
    support_server s;
    open_server(&s, 2);
    for (int i = 0; i < 60; i++) {
        int fd = stalled_client(&s, 4 * MIB);
        char some[1000];
        if (i % 3 > 0)
            (void)recv(fd, some, sizeof some, 0);
        if (i % 3 > 1)
            support_sleep_ms(2);
        if (i % 2)
            support_reset(fd);
        else
            close(fd);
    }
    (void)reader_main(&s);
    support_stop(&s, 5000);
}

/* ---- failures ---- */

/* An answer that cannot be ended as it was begun must not look whole. */
static void test_failed_copy(void)
{
    support_server s;
    open_server(&s, 0);
    /* a buffer so small that the answer cannot be under way as a whole before the failure is set */
    int fd = support_connect(&s), room = 65536;
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
    char request[256], some[4096];
    print_request(request, "GET", 32 * MIB, "");
    (void)support_print(fd, request);
    check(recv(fd, some, sizeof some, MSG_PEEK | MSG_WAITALL) == (ssize_t)sizeof some, "no answer");
    gmv_device *device = s.service.engine.devices[0];
    gmv_device_fail_once(device, 1, GMV_ERR_MEMORY_LOST);
    support_answer answer = support_receive(fd, false);
    check(answer.status == 200, "%d", answer.status);
    check(gmv_device_has_failed(device), "nothing failed");
    check(answer.nbytes > 0 && answer.nbytes < 32 * MIB, "%zu bytes", answer.nbytes);
    size_t same = first_difference(answer.body, answer.nbytes, 0);
    check(same == answer.nbytes, "another byte at %zu", same);
    check(support_is_closed(fd), "open");
    support_answer_free(&answer);
    close(fd);
    (void)reader_main(&s);
    support_stop(&s, 5000);
}

/* A short body is copied before the answer: a failure is still an answer. */
static void test_failed_fetch(void)
{
    support_server s;
    open_server(&s, 0);
    bool was_refused = false;
    for (uint64_t n = 1; n < 40 && !was_refused; n++) {
        char request[256];
        gmv_device *device = s.service.engine.devices[0];
        gmv_device_fail_once(device, n, GMV_ERR_MEMORY_LOST);
        print_request(request, "GET", 100, "");
        support_answer answer;
        int status = support_ask(&s, request, &answer);
        check(status == 200 || status == 409, "%d", status);
        was_refused = !gmv_device_has_failed(device);
        check(was_refused == (status == 200), "call %d: %d", (int)n, status);
        if (status == 200)
            check_body(&answer, 100, 0, "short");
        support_answer_free(&answer);
        gmv_device_fail_once(device, 0, GMV_OK);
    }
    check(was_refused, "no call is left that could not fail");
    support_stop(&s, 5000);
}

/* Refused, cut short or whole, but never wrong and never left hanging. */
static void test_allocations_fail_in_turn(void)
{
    static const size_t sizes[] = {100, 3 * MIB};
    int n_failed = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        bool has_failed = true;
        for (uint64_t n = 1; has_failed && n < 200; n++) {
            support_server s;
            char request[256];
            support_answer answer;
            open_server(&s, 0);
            print_request(request, "GET", sizes[i], "");
            gmv_alloc_fail_once(n);
            int status = support_ask(&s, request, &answer);
            has_failed = gmv_alloc_has_failed();
            gmv_alloc_fail_once(0);
            n_failed += has_failed ? 1 : 0;
            check(status == 200 || (has_failed && (status == 503 || status == 0)), "%d", status);
            if (status == 200) {
                check(has_failed || answer.nbytes == sizes[i], "%zu bytes", answer.nbytes);
                size_t same = first_difference(answer.body, answer.nbytes, 0);
                check(same == answer.nbytes, "another byte at %zu", same);
            }
            support_answer_free(&answer);
            support_stop(&s, 5000);
        }
        check(!has_failed, "size %zu", sizes[i]);
    }
    check(n_failed > 6, "%d", n_failed);
}

/* ---- the end ---- */

/* Stalled, waiting for staging and under way: all are cut, in the time that they were given. */
static void test_stop_amid_downloads(void)
{
    for (int round = 0; round < 5; round++) {
        support_server s;
        int fds[12];
        open_server(&s, 2);
        for (size_t i = 0; i < 12; i++)
            fds[i] = stalled_client(&s, 8 * MIB);
        support_sleep_ms(round * 40);
        int64_t took_ms = support_stop(&s, 200);
        check(took_ms < SUPPORT_PATIENCE_MS, "%lld ms", (long long)took_ms);
        for (size_t i = 0; i < 12; i++) {
            check(support_is_closed(fds[i]), "connection %zu is open", i);
            close(fds[i]);
        }
    }
}

/* ---- send buffers ---- */

/* The depth of the send buffer behind a client's connection, whose socket is in this process. */
static int send_buffer_nbytes(int client_fd)
{
    struct sockaddr_in own = {0}, peer;
    socklen_t length = sizeof own;
    check(getsockname(client_fd, (struct sockaddr *)&own, &length) == 0, "no name");
    for (int fd = 0; fd < 1024; fd++) {
        int nbytes;
        length = sizeof peer;
        if (getpeername(fd, (struct sockaddr *)&peer, &length) != 0 ||
            peer.sin_port != own.sin_port || fd == client_fd)
            continue;
        length = sizeof nbytes;
        return getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &nbytes, &length) == 0 ? nbytes : -1;
    }
    return -1;
}

static bool send_buffer_becomes(int client_fd, int nbytes)
{
    int64_t deadline_ns = gmv_clock_monotonic_ns() + SUPPORT_PATIENCE_MS * INT64_C(1000000);
    while (send_buffer_nbytes(client_fd) != nbytes) {
        if (gmv_clock_monotonic_ns() > deadline_ns)
            return false;
        support_sleep_ms(2);
    }
    return true;
}

/* What comes of it where the kernel's own limit (net.core.wmem_max) is lower. */
static int send_buffer_granted(int nbytes)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), asked = nbytes / 2;
    socklen_t length = sizeof nbytes;
    check(fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &asked, sizeof asked) == 0 &&
          getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &nbytes, &length) == 0);
    close(fd);
    return nbytes;
}

/* One sender has a deep buffer, several share it, and behind its body each is as it was. */
static void test_send_buffers(void)
{
    const int usual = 128 << 10; /* as the kernel counts: twice what is asked for */
    support_server s;
    int clients[5];
    char request[256];
    open_server(&s, 0);
    for (int i = 0; i < 5; i++) {
        clients[i] = stalled_client(&s, 4 * MIB);
        for (int before = 0; before <= i; before++)
            check(send_buffer_becomes(clients[before],
                                      send_buffer_granted(GMV_MAX(4 * usual / (i + 1), usual))),
                  "%d of %d: %d", before, i + 1, send_buffer_nbytes(clients[before]));
    }
    print_request(request, "GET", MIB - 1, "");
    int small = support_connect(&s);
    (void)support_print(small, request);
    support_answer answer = support_receive(small, false);
    check(send_buffer_nbytes(small) == usual, "%d", send_buffer_nbytes(small));
    support_answer_free(&answer);
    close(small);
    for (int i = 0; i < 5; i++) {
        answer = support_receive(clients[i], false);
        check_body(&answer, 4 * MIB, 0, "shared");
        support_answer_free(&answer);
        check(send_buffer_becomes(clients[i], usual), "%d", send_buffer_nbytes(clients[i]));
        check(i == 4 || send_buffer_becomes(
                            clients[4], send_buffer_granted(GMV_MAX(4 * usual / (4 - i), usual))),
              "%d are left: %d", 4 - i, send_buffer_nbytes(clients[4]));
    }
    for (int i = 0; i < 5; i++)
        close(clients[i]);
    support_stop(&s, 5000);
}

static const support_test tests[] = {
    {"every size comes whole", test_every_size},
    {"ranges cut across chunks", test_ranges},
    {"several ranges come in parts", test_several_ranges},
    {"allocations may fail amid parts", test_parts_with_failing_allocations},
    {"many clients share two chunks", test_scarce_staging},
    {"stalled clients hold no staging", test_stalled_clients},
    {"clients go in the middle", test_clients_go},
    {"a copy that fails cuts the answer", test_failed_copy},
    {"a short copy that fails is an error", test_failed_fetch},
    {"allocations may fail in turn", test_allocations_fail_in_turn},
    {"stopping cuts downloads", test_stop_amid_downloads},
    {"senders share one budget of send buffers", test_send_buffers},
};

int main(int argc, char *argv[])
{
    return support_run(tests, sizeof tests / sizeof tests[0], argc > 1 ? argv[1] : NULL);
}
