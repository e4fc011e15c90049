/* SPDX-License-Identifier: Apache-2.0 */
/* Streams of events over real sockets: they hold no thread, end with a drain, and bear bad readers.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "http/support.h"

static const char get_events[] = "GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n";

static void add_events(support_server *s, int n)
{
    gmv_error err;
    gmv_error_init(&err);
    (void)gmv_fail(&err, GMV_ERR_OVERLOADED, NULL, "busy");
    for (int i = 0; i < n; i++)
        gmv_events_add_failure(s->service.events, 0, "createBuffer", &err, 503, "request");
}

/* Opens a stream and reads its head; the descriptor. */
static int stream_open(support_server *s)
{
    int fd = support_connect(s);
    check(support_print(fd, get_events));
    support_answer answer = support_receive(fd, false);
    check(answer.status == 200, "%d", answer.status);
    check(strcmp(support_field(&answer, "Content-Type"), "text/event-stream") == 0);
    check(strcmp(support_field(&answer, "Cache-Control"), "no-store") == 0);
    check(strcmp(support_field(&answer, "Transfer-Encoding"), "chunked") == 0);
    support_answer_free(&answer);
    return fd;
}

/* Reads until `n` texts like `wanted` have come; what came is dropped. */
static int stream_count(int fd, const char *wanted, int n)
{
    static const size_t room = 4096;
    char bytes[4097];
    size_t have = 0, length = strlen(wanted);
    int found = 0;
    while (found < n && support_is_readable(fd, SUPPORT_PATIENCE_MS)) {
        ssize_t got = recv(fd, bytes + have, room - have, 0);
        if (got <= 0)
            break;
        have += (size_t)got;
        bytes[have] = '\0';
        char *at = bytes;
        for (char *next; (next = strstr(at, wanted)) != NULL; at = next + length)
            found++;
        size_t kept = GMV_MIN((size_t)(bytes + have - at), length - 1);
        memmove(bytes, bytes + have - kept, kept);
        have = kept;
    }
    return found;
}

static void test_events_arrive(void)
{
    static support_server s;
    support_start(&s, NULL);
    int fds[3];
    for (int i = 0; i < 3; i++)
        fds[i] = stream_open(&s);
    for (int round = 0; round < 20; round++) {
        add_events(&s, 5);
        for (int i = 0; i < 3; i++)
            check(stream_count(fds[i], "event: failed", 5) == 5);
    }
    for (int i = 0; i < 3; i++)
        close(fds[i]);
    support_stop(&s, 5000);
}

/* More streams than there are threads of all kinds, and the daemon still works. */
static void test_no_thread_is_held(void)
{
    static support_server s;
    const gmv_server_options options = {
        .n_http_threads = 1, .n_short_workers = 1, .n_bulk_workers = 1};
    support_start(&s, &options);
    int fds[GMV_EVENT_STREAMS_MAX];
    for (unsigned i = 0; i < GMV_EVENT_STREAMS_MAX; i++)
        fds[i] = stream_open(&s);
    support_answer answer;
    check(support_ask(&s, get_events, &answer) == 503);
    check(strcmp(support_field(&answer, "Retry-After"), "1") == 0);
    support_answer_free(&answer);
    check(support_ask(&s, "POST /v1/short HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n",
                      NULL) == 200);
    check(support_ask(&s, "HEAD /livez HTTP/1.1\r\nHost: localhost\r\n\r\n", NULL) == 200);
    add_events(&s, 100);
    for (unsigned i = 0; i < GMV_EVENT_STREAMS_MAX; i++)
        check(stream_count(fds[i], "event: failed", 100) == 100, "stream %u", i);
    for (unsigned i = 0; i < GMV_EVENT_STREAMS_MAX; i++)
        close(fds[i]);
    support_stop(&s, 5000);
}

/*
 * Reads to the end of a stream; tells whether it ended as HTTP wants it. The end of the chunk
 * before may have been read already, and nothing but the last chunk has an empty line behind a 0.
 */
static void *read_to_end(void *argument)
{
    return stream_count(*(const int *)argument, "0\r\n\r\n", 1) == 1 ? argument : NULL;
}

static void test_drain_ends_streams(void)
{
    static support_server s;
    support_start(&s, NULL);
    int waiting = stream_open(&s), busy = stream_open(&s), stuck = stream_open(&s);
    add_events(&s, 10);
    check(stream_count(busy, "event: failed", 10) == 10);
    add_events(&s, 20000); /* more than a socket takes */
    pthread_t reader;
    void *well = NULL;
    check(pthread_create(&reader, NULL, read_to_end, &busy) == 0);
    int64_t took_ms = support_stop(&s, 4 * SUPPORT_PATIENCE_MS);
    check(took_ms < SUPPORT_PATIENCE_MS, "%lld ms", (long long)took_ms);
    check(pthread_join(reader, &well) == 0 && well, "the stream ends as HTTP wants it");
    check(support_is_closed(waiting));
    close(waiting);
    close(busy);
    close(stuck);
}

/* One that does not read must not hold the daemon up for the whole time-out. */
static void test_drain_cuts_who_does_not_read(void)
{
    static support_server s;
    support_start(&s, NULL);
    int stuck = stream_open(&s);
    for (int i = 0; i < 60; i++) {
        add_events(&s, (int)GMV_EVENTS_MAX - 100);
        support_sleep_ms(2);
    }
    int64_t took_ms = support_stop(&s, 4 * SUPPORT_PATIENCE_MS);
    check(took_ms < SUPPORT_PATIENCE_MS, "%lld ms", (long long)took_ms);
    close(stuck);
}

static void test_clients_go(void)
{
    static support_server s;
    support_start(&s, NULL);
    for (int i = 0; i < 3 * (int)GMV_EVENT_STREAMS_MAX; i++) {
        int fd = stream_open(&s);
        if (i % 3 == 0)
            support_reset(fd);
        else
            close(fd);
        add_events(&s, 2000); /* so that the loss is noticed */
        support_sleep_ms(1);
    }
    int fd = stream_open(&s);
    add_events(&s, 1);
    check(stream_count(fd, "event: failed", 1) == 1);
    close(fd);
    support_stop(&s, 5000);
}

static void test_slow_reader(void)
{
    static support_server s;
    support_start(&s, NULL);
    int fd = stream_open(&s);
    add_events(&s, 200000);                           /* far more than sockets and ring hold */
    check(stream_count(fd, "event: missed", 1) >= 1); /* several may come in one read */
    close(fd);
    support_stop(&s, 5000);
}

typedef struct producer {
    support_server *s;
    atomic_bool *stop;
} producer;

static void *produce(void *argument)
{
    const producer *me = argument;
    while (!atomic_load(me->stop)) {
        add_events(me->s, 20);
        support_sleep_ms(1);
    }
    return NULL;
}

/* Events, streams that come and go, and a drain in the midst of it. */
static void test_all_at_once(void)
{
    static support_server s;
    support_start(&s, NULL);
    atomic_bool stop = false;
    producer shared = {&s, &stop};
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        check(pthread_create(&threads[i], NULL, produce, &shared) == 0);
    int open_ones[8];
    for (int i = 0; i < 200; i++) {
        int fd = stream_open(&s);
        if (i % 2)
            check(stream_count(fd, "event: failed", 3) >= 3);
        if (i >= 192)
            open_ones[i - 192] = fd;
        else
            close(fd);
    }
    atomic_store(&stop, true);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    support_stop(&s, 20000);
    for (int i = 0; i < 8; i++)
        close(open_ones[i]);
}

static void test_head_and_bad_ids(void)
{
    static support_server s;
    support_answer answer;
    support_start(&s, NULL);
    check(support_ask(&s, "HEAD /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n", &answer) == 200);
    check(strcmp(support_field(&answer, "Content-Type"), "text/event-stream") == 0);
    support_answer_free(&answer);
    check(support_ask(&s, "GET /v1/events HTTP/1.1\r\nHost: localhost\r\nLast-Event-ID: x\r\n\r\n",
                      NULL) == 400);
    check(support_ask(&s,
                      "GET /v1/events HTTP/1.1\r\nHost: localhost\r\n"
                      "Last-Event-ID: 0123456789abcdef-1\r\nLast-Event-ID: "
                      "0123456789abcdef-1\r\n\r\n",
                      NULL) == 400);
    support_stop(&s, 5000);
}

static const support_test tests[] = {
    {"every stream hears every event", test_events_arrive},
    {"streams hold no thread, and their number is limited", test_no_thread_is_held},
    {"a drain ends streams as HTTP wants it", test_drain_ends_streams},
    {"a drain cuts who does not read", test_drain_cuts_who_does_not_read},
    {"clients that go give their places back", test_clients_go},
    {"a slow reader is told that it has missed some", test_slow_reader},
    {"events, streams and a drain at once", test_all_at_once},
    {"HEAD has the head, and other ids are refused", test_head_and_bad_ids},
};

int main(int argc, char *argv[])
{
    return support_run(tests, sizeof tests / sizeof tests[0], argc > 1 ? argv[1] : NULL);
}
