/* SPDX-License-Identifier: Apache-2.0 */
/* See support.h. */
#include "http/support.h"

#include "http/server_priv.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

int support_failures;
atomic_int support_n_again;

int support_run(const support_test *tests, size_t n_tests, const char *only)
{
    int n_failed = 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("1..%zu\n", n_tests);
    for (size_t i = 0; i < n_tests; i++) {
        if (only && !strstr(tests[i].name, only)) {
            printf("ok %zu - %s # SKIP not asked for\n", i + 1, tests[i].name);
            continue;
        }
        support_failures = 0;
        int64_t begun = gmv_clock_monotonic_ns();
        (void)alarm(SUPPORT_TEST_SECONDS);
        tests[i].run();
        printf("# %lld ms\n", (long long)((gmv_clock_monotonic_ns() - begun) / 1000000));
        n_failed += support_failures ? 1 : 0;
        printf("%sok %zu - %s\n", support_failures ? "not " : "", i + 1, tests[i].name);
    }
    return n_failed ? 1 : 0;
}

void support_sleep_ms(int milliseconds)
{
    const struct timespec nap = {milliseconds / 1000, (long)(milliseconds % 1000) * 1000000};
    nanosleep(&nap, NULL);
}

/* ---- the gate ---- */

static pthread_mutex_t gate_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t gate_changed = PTHREAD_COND_INITIALIZER;
static bool gate_is_closed;
static int gate_n_waiting;

void support_gate_close(void)
{
    pthread_mutex_lock(&gate_lock);
    gate_is_closed = true;
    pthread_mutex_unlock(&gate_lock);
}

void support_gate_open(void)
{
    pthread_mutex_lock(&gate_lock);
    gate_is_closed = false;
    pthread_cond_broadcast(&gate_changed);
    pthread_mutex_unlock(&gate_lock);
}

static void gate_pass(void)
{
    pthread_mutex_lock(&gate_lock);
    gate_n_waiting++;
    while (gate_is_closed)
        pthread_cond_wait(&gate_changed, &gate_lock);
    gate_n_waiting--;
    pthread_mutex_unlock(&gate_lock);
}

int support_gate_waiting(void)
{
    pthread_mutex_lock(&gate_lock);
    int n = gate_n_waiting;
    pthread_mutex_unlock(&gate_lock);
    return n;
}

void support_gate_await(int n_waiting)
{
    for (int i = 0; i < SUPPORT_PATIENCE_MS && support_gate_waiting() < n_waiting; i++)
        support_sleep_ms(1);
    check(support_gate_waiting() >= n_waiting, "%d wait", support_gate_waiting());
}

void support_await_requests(const support_server *s, uint64_t n_started)
{
    for (int i = 0; i < SUPPORT_PATIENCE_MS && s->server->n_started < n_started; i++)
        support_sleep_ms(1);
    check(s->server->n_started >= n_started, "%d have begun", (int)s->server->n_started);
}

void support_await_connections(const support_server *s, unsigned n_connections)
{
    for (int i = 0; i < SUPPORT_PATIENCE_MS && s->server->n_connections != n_connections; i++)
        support_sleep_ms(1);
    check(s->server->n_connections == n_connections, "%d are open", (int)s->server->n_connections);
}

/* ---- handlers ---- */

static const char test_contents[] = "0123456789";

/* What came in: the length of the body and its text, with the lane it ran on. */
static gmv_status handle_echo(gmv_request *request, gmv_reply *reply, gmv_error *err)
{
    gmv_strbuf_printf(&reply->text, "%d %zu ", (int)request->operation->lane, request->body_nbytes);
    if (request->body_nbytes)
        gmv_strbuf_append(&reply->text, request->body, GMV_MIN(request->body_nbytes, (size_t)64));
    reply->content_type = "text/plain";
    return GMV_OK;
}

static gmv_status handle_gate(gmv_request *request, gmv_reply *reply, gmv_error *err)
{
    gate_pass();
    return handle_echo(request, reply, err);
}

/* Waits for what never happens. */
static gmv_status handle_again(gmv_request *request, gmv_reply *reply, gmv_error *err)
{
    gmv_strbuf_puts(&reply->text, "left over ");
    if (request->operation->lane != GMV_LANE_BULK)
        return GMV_MOVE_TO_BULK;
    atomic_fetch_add(&support_n_again, 1);
    (void)gmv_fail(err, GMV_ERR_HANDLE_INVALID, "/event", "it has not happened");
    return GMV_RUN_AGAIN;
}

static gmv_status handle_move(gmv_request *request, gmv_reply *reply, gmv_error *err)
{
    gmv_strbuf_puts(&reply->text, "left over ");
    if (request->operation->lane != GMV_LANE_BULK)
        return GMV_MOVE_TO_BULK;
    gmv_strbuf_fini(&reply->text);
    return handle_gate(request, reply, err);
}

static gmv_status handle_fail(gmv_request *request, gmv_reply *reply, gmv_error *err)
{
    gmv_strbuf_puts(&reply->text, "left over ");
    return gmv_fail(err, GMV_ERR_VALUE, "/member", "it is wrong");
}

static gmv_status handle_internal(gmv_request *request, gmv_reply *reply, gmv_error *err)
{
    return gmv_fail(err, GMV_ERR_INTERNAL, NULL, "a secret");
}

static gmv_status handle_thing(gmv_request *request, gmv_reply *reply, gmv_error *err)
{
    gmv_strbuf_puts(&reply->text, request->has_id ? "{\"id\":true}" : "{\"id\":false}");
    reply->caching = GMV_CACHING_NO_CACHE;
    snprintf(reply->etag, sizeof reply->etag, "\"thing-1\"");
    return GMV_OK;
}

static gmv_status handle_contents(gmv_request *request, gmv_reply *reply, gmv_error *err)
{
    bool sealed;
    GMV_TRY(gmv_query_flag(&request->query, "sealed", &sealed, err));
    reply->content_type = "application/octet-stream";
    reply->has_bytes = true;
    reply->bytes = (gmv_bytes){.host = test_contents, .nbytes = sizeof test_contents - 1};
    reply->caching = sealed ? GMV_CACHING_NO_CACHE : GMV_CACHING_NO_STORE;
    if (sealed)
        snprintf(reply->etag, sizeof reply->etag, "\"contents-1\"");
    return GMV_OK;
}

#define TEST_BIG_NBYTES ((size_t)32 << 20)
static char test_big[TEST_BIG_NBYTES];

static gmv_status handle_big(gmv_request *request, gmv_reply *reply, gmv_error *err)
{
    reply->content_type = "application/octet-stream";
    reply->has_bytes = true;
    reply->bytes = (gmv_bytes){.host = test_big, .nbytes = TEST_BIG_NBYTES};
    return GMV_OK;
}

unsigned char support_remote_byte(size_t position)
{
    return (unsigned char)(position * 31 + (position >> 12) * 7);
}

static gmv_status remote_fill(gmv_stream *stream, gmv_memory *memory, gmv_error *err)
{
    unsigned char piece[4096];
    GMV_TRY(gmv_stream_use(stream, memory, err));
    for (uint64_t at = 0; at < memory->nbytes; at += sizeof piece) {
        size_t nbytes = (size_t)GMV_MIN(memory->nbytes - at, (uint64_t)sizeof piece);
        for (size_t i = 0; i < nbytes; i++)
            piece[i] = support_remote_byte((size_t)at + i);
        GMV_TRY(gmv_copy_in(stream, memory->address + at, piece, nbytes, err));
    }
    return gmv_stream_finish(stream, err);
}

static gmv_status handle_remote(gmv_request *request, gmv_reply *reply, gmv_error *err)
{
    gmv_engine *engine = request->operation->engine;
    gmv_device *device = engine->devices[0];
    gmv_stream *stream = gmv_operation_stream(request->operation, device);
    gmv_scratch *scratch;
    int64_t nbytes;
    GMV_TRY(gmv_query_int64(&request->query, "nbytes", 1, 1 << 30, 1, &nbytes, err));
    GMV_TRY(gmv_engine_scratch(engine, device, stream, (uint64_t)nbytes, &scratch, err));
    gmv_status status = remote_fill(stream, scratch->memory, err);
    if (status != GMV_OK) {
        gmv_engine_discard_scratch(engine, scratch, true);
        return status;
    }
    reply->content_type = "application/octet-stream";
    reply->has_bytes = true;
    reply->bytes = (gmv_bytes){.host = gmv_memory_host_pointer(scratch->memory),
                               .nbytes = (uint64_t)nbytes,
                               .engine = engine,
                               .memory = scratch->memory,
                               .address = scratch->memory->address,
                               .scratch = scratch};
    return GMV_OK;
}

/* ---- uploads ---- */

typedef struct test_upload {
    uint64_t nbytes, sum, position;
    bool fails_in_append, fails_in_finish;
} test_upload;

static pthread_mutex_t uploads_lock = PTHREAD_MUTEX_INITIALIZER;
static support_uploads uploads;

support_uploads support_uploads_now(void)
{
    pthread_mutex_lock(&uploads_lock);
    support_uploads now = uploads;
    pthread_mutex_unlock(&uploads_lock);
    return now;
}

static void uploads_count(int *counter)
{
    pthread_mutex_lock(&uploads_lock);
    (*counter)++;
    pthread_mutex_unlock(&uploads_lock);
}

static gmv_status upload_begin(gmv_request *request, gmv_error *err)
{
    const gmv_query_parameter *fail = gmv_query_find(&request->query, "fail");
    const char *where = fail && fail->value ? fail->value : "";
    if (gmv_query_find(&request->query, "gate"))
        gate_pass();
    if (strcmp(where, "begin") == 0)
        return gmv_fail(err, GMV_ERR_VALUE, NULL, "begin fails");
    test_upload *upload = gmv_calloc(1, sizeof *upload);
    if (!upload)
        return gmv_fail_no_memory(err);
    upload->fails_in_append = strcmp(where, "append") == 0;
    upload->fails_in_finish = strcmp(where, "finish") == 0;
    request->stream_state = upload;
    uploads_count(&uploads.begun);
    return GMV_OK;
}

static gmv_status upload_append(gmv_request *request, const void *bytes, size_t nbytes,
                                gmv_error *err)
{
    test_upload *upload = request->stream_state;
    if (upload->fails_in_append)
        return gmv_fail(err, GMV_ERR_DEVICE_OUT_OF_MEMORY, NULL, "append fails");
    const unsigned char *text = bytes;
    for (size_t i = 0; i < nbytes; i++)
        upload->sum += (upload->position++ % 251 + 1) * text[i];
    upload->nbytes += nbytes;
    return GMV_OK;
}

static gmv_status upload_finish(gmv_request *request, gmv_reply *reply, gmv_error *err)
{
    test_upload *upload = request->stream_state;
    if (upload->fails_in_finish)
        return gmv_fail(err, GMV_ERR_VALUE, NULL, "finish fails");
    gmv_strbuf_printf(&reply->text, "%llu %llu", (unsigned long long)upload->nbytes,
                      (unsigned long long)upload->sum);
    reply->content_type = "text/plain";
    reply->http_status = 201;
    gmv_free(upload);
    request->stream_state = NULL;
    uploads_count(&uploads.finished);
    return GMV_OK;
}

static void upload_abort(gmv_request *request)
{
    gmv_free(request->stream_state);
    request->stream_state = NULL;
    uploads_count(&uploads.aborted);
}

static const gmv_stream_handler upload_handler = {upload_begin, upload_append, upload_finish,
                                                  upload_abort};

/* ---- routes ---- */

#define TEST_ROUTE(method, path, id, query, body, lane, handle)              \
    {GMV_METHOD_##method, path,   #id, GMV_KIND_ANY, query, GMV_BODY_##body, \
     GMV_LANE_##lane,     handle, NULL},

const gmv_route support_routes[] = {
    TEST_ROUTE(GET, "/v1/events", streamEvents, "", NONE, INLINE, gmv__handle_events) TEST_ROUTE(
        GET, "/livez", getLivez, "verbose", NONE, INLINE,
        gmv__handle_livez) TEST_ROUTE(GET, "/readyz", getReadyz, "verbose", NONE, INLINE,
                                      gmv__handle_readyz)
        TEST_ROUTE(GET, "/metrics", getMetrics, "", NONE, INLINE, gmv__handle_metrics) TEST_ROUTE(
            GET, "/openapi.json", getOpenapiJson, "", NONE, INLINE, gmv__handle_openapi_json)
            TEST_ROUTE(GET, "/v1/server", getServer, "", NONE, INLINE,
                       gmv__handle_server) TEST_ROUTE(GET, "/v1/devices", listDevices, "", NONE,
                                                      INLINE, gmv__handle_devices)
                TEST_ROUTE(POST, "/v1/echo", echo, "", JSON, INLINE, handle_echo) TEST_ROUTE(
                    POST, "/v1/short", runShort, "", JSON, SHORT, handle_echo)
                    TEST_ROUTE(POST, "/v1/gate", passGate, "", JSON, SHORT, handle_gate) TEST_ROUTE(
                        POST, "/v1/move", moveToBulk, "", JSON, SHORT, handle_move)
                        TEST_ROUTE(POST, "/v1/again", runAgain, "", JSON, SHORT, handle_again)
                            TEST_ROUTE(POST, "/v1/fail", failInline, "", JSON, INLINE,
                                       handle_fail) TEST_ROUTE(POST, "/v1/fail_short", failShort,
                                                               "", JSON, SHORT, handle_fail)
                                TEST_ROUTE(GET, "/v1/internal", failInternally, "", NONE, INLINE,
                                           handle_internal) TEST_ROUTE(GET, "/v1/things/{id}",
                                                                       getThing, "", NONE, INLINE,
                                                                       handle_thing)
                                    TEST_ROUTE(DELETE, "/v1/things/{id}", deleteThing, "", NONE,
                                               SHORT, handle_thing)
                                        TEST_ROUTE(GET, "/v1/contents", getContents, "sealed", NONE,
                                                   SHORT, handle_contents)
                                            TEST_ROUTE(GET, "/v1/big", getBig, "", NONE, SHORT,
                                                       handle_big)
                                                TEST_ROUTE(GET, "/v1/remote", getRemote, "nbytes",
                                                           NONE, SHORT, handle_remote){
                                                    GMV_METHOD_POST, "/v1/upload", "upload",
                                                    GMV_KIND_ANY, "fail,gate", GMV_BODY_OCTETS,
                                                    GMV_LANE_BULK, NULL, &upload_handler},
};

const size_t support_routes_count = sizeof support_routes / sizeof support_routes[0];

/* ---- the server ---- */

void support_start(support_server *s, const gmv_server_options *given)
{
    gmv_error err;
    gmv_error_init(&err);
    gmv_log_configure(GMV_LOG_TEXT, getenv("GMV_TEST_VERBOSE") ? GMV_LOG_DEBUG : GMV_LOG_ERROR);
    gmv_device *device = NULL;
    const gmv_device_options device_options = {.hide_host_pointers = s->hides_pointers};
    const gmv_limits limits = {0};
    gmv_registry_options registry = {.observe = gmv_events_observe};
    if (gmv_events_create(&s->service.events, &err) != GMV_OK) {
        printf("Bail out! %s\n", err.message);
        exit(1);
    }
    registry.observe_context = s->service.events;
    if (gmv_device_open_host(&device_options, &device, &err) != GMV_OK ||
        gmv_engine_init(&s->service.engine, &device, 1, &limits, &registry, &err) != GMV_OK) {
        printf("Bail out! %s\n", err.message);
        exit(1);
    }
    s->service.backend = "host";
    s->service.started_at_ms = gmv_clock_wall_ms();
    s->service.started_at_ns = gmv_clock_monotonic_ns();
    gmv_server_options options = given ? *given : (gmv_server_options){0};
    options.listen = options.listen ? options.listen : "127.0.0.1:0";
    options.routes = support_routes;
    options.n_routes = support_routes_count;
    if (!options.n_http_threads)
        options.n_http_threads = 2;
    if (gmv_server_start(&s->service, &options, &s->server, &err) != GMV_OK) {
        printf("Bail out! %s\n", err.message);
        exit(1);
    }
    s->port = gmv_server_port(s->server);
}

int64_t support_stop(support_server *s, int64_t timeout_ms)
{
    int64_t begun = gmv_clock_monotonic_ns();
    bool is_clean = gmv_server_drain(s->server, timeout_ms);
    int64_t took_ms = (gmv_clock_monotonic_ns() - begun) / 1000000;
    check(is_clean, "a worker did not come back");
    if (!is_clean)
        exit(1);
    gmv_server_destroy(s->server);
    gmv_engine_fini(&s->service.engine);
    gmv_events_destroy(s->service.events);
    support_uploads now = support_uploads_now();
    check(now.begun == now.finished + now.aborted, "%d begun, %d finished, %d aborted", now.begun,
          now.finished, now.aborted);
    return took_ms;
}

/* ---- the client ---- */

int support_connect(const support_server *s)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(s->port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int on = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    const struct timeval timeout = {.tv_sec = SUPPORT_PATIENCE_MS / 1000};
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) != 0) {
        check(false, "cannot connect: %s", strerror(errno));
        close(fd);
        return -1;
    }
    return fd;
}

bool support_send(int fd, const void *bytes, size_t nbytes)
{
    const char *text = bytes;
    while (nbytes) {
        ssize_t sent = send(fd, text, nbytes, MSG_NOSIGNAL);
        if (sent <= 0)
            return false;
        text += sent;
        nbytes -= (size_t)sent;
    }
    return true;
}

bool support_print(int fd, const char *text)
{
    return support_send(fd, text, strlen(text));
}

const char *support_field(const support_answer *answer, const char *name)
{
    static _Thread_local char value[512];
    size_t length = strlen(name);
    value[0] = '\0';
    for (const char *line = strstr(answer->head, "\r\n"); line; line = strstr(line, "\r\n")) {
        line += 2;
        if (strncasecmp(line, name, length) != 0 || line[length] != ':')
            continue;
        line += length + 1 + strspn(line + length + 1, " ");
        snprintf(value, sizeof value, "%.*s", (int)strcspn(line, "\r"), line);
        break;
    }
    return value;
}

/* The head, byte by byte, so that nothing behind it is taken. */
static bool client_receive_head(int fd, support_answer *answer)
{
    size_t n = 0;
    while (n + 1 < sizeof answer->head && recv(fd, answer->head + n, 1, 0) == 1) {
        answer->head[++n] = '\0';
        if (n >= 4 && memcmp(answer->head + n - 4, "\r\n\r\n", 4) == 0)
            return sscanf(answer->head, "HTTP/1.%*d %d", &answer->status) == 1;
    }
    return false;
}

support_answer support_receive(int fd, bool is_head)
{
    support_answer answer = {0};
    do
        if (!client_receive_head(fd, &answer))
            return (support_answer){0};
    while (answer.status == 100);
    size_t wanted = is_head || answer.status == 304
                        ? 0
                        : strtoull(support_field(&answer, "Content-Length"), NULL, 10);
    answer.body = calloc(1, wanted + 1);
    while (answer.nbytes < wanted) {
        ssize_t n = recv(fd, answer.body + answer.nbytes, wanted - answer.nbytes, 0);
        if (n <= 0)
            break;
        answer.nbytes += (size_t)n;
    }
    return answer;
}

void support_answer_free(support_answer *answer)
{
    free(answer->body);
    answer->body = NULL;
}

bool support_is_welcome(int fd)
{
    static const char interim[] = "HTTP/1.1 100 Continue\r\n\r\n";
    char bytes[sizeof interim - 1];
    return recv(fd, bytes, sizeof bytes, MSG_WAITALL) == (ssize_t)sizeof bytes &&
           memcmp(bytes, interim, sizeof bytes) == 0;
}

bool support_is_readable(int fd, int timeout_ms)
{
    struct pollfd polled = {.fd = fd, .events = POLLIN};
    return poll(&polled, 1, timeout_ms) == 1;
}

bool support_is_closed(int fd)
{
    char bytes[4096];
    while (support_is_readable(fd, SUPPORT_PATIENCE_MS))
        if (recv(fd, bytes, sizeof bytes, 0) <= 0)
            return true;
    return false;
}

void support_reset(int fd)
{
    const struct linger linger = {.l_onoff = 1, .l_linger = 0};
    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    close(fd);
}

int support_ask(const support_server *s, const char *text, support_answer *out_answer)
{
    int fd = support_connect(s);
    bool is_head = strncmp(text, "HEAD ", 5) == 0;
    (void)support_print(fd, text);
    support_answer answer = support_receive(fd, is_head);
    close(fd);
    int status = answer.status;
    if (out_answer)
        *out_answer = answer;
    else
        support_answer_free(&answer);
    return status;
}
