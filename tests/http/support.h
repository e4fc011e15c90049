/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server in this process over the host backend, with routes of the tests' own, and a client that
 * speaks over a raw socket. Plain C: these programs also run under ThreadSanitizer, where Criterion
 * does not.
 */
#ifndef GMV_TESTS_HTTP_SUPPORT_H
#define GMV_TESTS_HTTP_SUPPORT_H

#include <stdatomic.h>
#include <stdio.h>

#include "http/server.h"
#include "http/service.h"

/* ---- checks ---- */

extern int support_failures;       /* of the test that runs */
extern atomic_int support_n_again; /* runs of POST /again */

#define check(condition, ...)                                       \
    do {                                                            \
        if (!(condition)) {                                         \
            support_failures++;                                     \
            printf("# %s:%d: %s:", __FILE__, __LINE__, #condition); \
            printf(" " __VA_ARGS__);                                \
            printf("\n");                                           \
        }                                                           \
    } while (0)

/*
 * For what must come about: nobody waits this long but for a fault, however busy the machine is.
 * A test as a whole is killed after SUPPORT_TEST_SECONDS.
 */
#define SUPPORT_PATIENCE_MS  60000
#define SUPPORT_TEST_SECONDS 600

typedef struct support_test {
    const char *name;
    void (*run)(void);
} support_test;

/* Runs them, prints TAP; `only` (may be NULL) is a part of the names to run. Exit code. */
int support_run(const support_test *tests, size_t n_tests, const char *only);

/* ---- the server ---- */

typedef struct support_server {
    gmv_service service;
    gmv_server *server;
    uint16_t port;
    bool hides_pointers; /* set before the start: memory must be copied out to be seen */
} support_server;

/* Zeroes mean the defaults; listens on a free port of the loopback. */
void support_start(support_server *s, const gmv_server_options *options);

/* Drains, and checks that nothing is left. Returns how long it took, in milliseconds. */
int64_t support_stop(support_server *s, int64_t timeout_ms);

/* The test routes: see support.c. */
extern const gmv_route support_routes[];
extern const size_t support_routes_count;

/* What GET /v1/remote?nbytes=N answers with, from memory on the device. */
unsigned char support_remote_byte(size_t position);

/* POST /gate and its kin wait until the gate is open. */
void support_gate_close(void);
void support_gate_open(void);
/* How many wait at the gate. */
int support_gate_waiting(void);
void support_gate_await(int n_waiting);

/* Waits until the server has begun so many requests in all, or has so many connections now. */
void support_await_requests(const support_server *s, uint64_t n_started);
void support_await_connections(const support_server *s, unsigned n_connections);

/* What the upload route has seen in all: begun, finished and aborted bodies. */
typedef struct support_uploads {
    int begun, finished, aborted;
} support_uploads;

support_uploads support_uploads_now(void);

/* ---- the client ---- */

typedef struct support_answer {
    int status; /* 0: the connection ended without one */
    char head[4096];
    char *body; /* malloc'ed, NUL-terminated */
    size_t nbytes;
} support_answer;

int support_connect(const support_server *s);
/* False when the peer has gone. */
bool support_send(int fd, const void *bytes, size_t nbytes);
bool support_print(int fd, const char *text);
/* Whether "100 Continue" comes: the server has read the head, and waits for the body. */
bool support_is_welcome(int fd);
/* Reads one answer (`is_head`: without its body). */
support_answer support_receive(int fd, bool is_head);
void support_answer_free(support_answer *answer);
/* The value of a field, "" when it is not there. Valid until the next call. */
const char *support_field(const support_answer *answer, const char *name);
/* Whether the peer closes, which it has SUPPORT_PATIENCE_MS for; bytes before that are dropped. */
bool support_is_closed(int fd);
/* Whether there is something to read, or the end, within the time. */
bool support_is_readable(int fd, int timeout_ms);
/* Closes with a reset. */
void support_reset(int fd);
/* One request on a connection of its own; the status. */
int support_ask(const support_server *s, const char *text, support_answer *out_answer);
void support_sleep_ms(int milliseconds);

#endif
