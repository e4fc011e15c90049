/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads and sockets. The listener is ours: an acceptor hands connections to one libmicrohttpd
 * daemon for each HTTP thread. So stopping is to close our own socket (quiescing a pool of 0.9.75
 * races with its threads, and the loser aborts the process), and a connection too many hears 503
 * instead of waiting in the backlog.
 */
#include "config.h"

#include "http/server_priv.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define SERVER_BACKLOG           1024
#define SERVER_RETRY_ACCEPT_MS   20
#define SERVER_SETTLE_MS         2000 /* for answers of requests that were given up */
#define SERVER_GRACE_MS          1000 /* for streams to take their end */
#define SERVER_POLL_MS           2
#define SERVER_MAX_SILENCE_MS    2000
#define SERVER_MAX_WAIT_MS       10000
#define SERVER_REFRESH_NS        400000000 /* between two looks at the devices */
#define SERVER_DESCRIPTORS_SPARE 64
#define SERVER_STACK_NBYTES      ((size_t)512 << 10)

/* ---- the address ---- */

typedef struct server_address {
    struct sockaddr_storage storage;
    socklen_t length;
    bool is_loopback;
} server_address;

static gmv_status server_split_address(const char *listen_at, char host[64], char port[8],
                                       gmv_error *err)
{
    const char *colon = strrchr(listen_at, ':');
    size_t host_length = colon ? (size_t)(colon - listen_at) : 0;
    uint64_t number;
    if (!colon || host_length == 0 || host_length >= 64 || strlen(colon + 1) >= 8 ||
        !gmv_parse_uint64(colon + 1, strlen(colon + 1), &number) || number > 65535)
        return gmv_fail(err, GMV_ERR_VALUE, NULL,
                        "the address to listen on must be HOST:PORT, as in 127.0.0.1:8080 or "
                        "[::1]:8080");
    if (listen_at[0] == '[' && listen_at[host_length - 1] == ']') {
        listen_at++;
        host_length -= 2;
    }
    memcpy(host, listen_at, host_length);
    host[host_length] = '\0';
    memcpy(port, colon + 1, strlen(colon + 1) + 1);
    return GMV_OK;
}

static bool server_is_loopback(const struct sockaddr *address)
{
    union {
        const struct sockaddr *any;
        const struct sockaddr_in *v4;
        const struct sockaddr_in6 *v6;
    } pointer = {.any = address};
    if (address->sa_family == AF_INET)
        return ntohl(pointer.v4->sin_addr.s_addr) >> 24 == 127;
    return address->sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&pointer.v6->sin6_addr);
}

static gmv_status server_resolve(const char *listen_at, server_address *out_address, gmv_error *err)
{
    char host[64], port[8];
    GMV_TRY(server_split_address(listen_at, host, port, err));
    if (strcasecmp(host, "localhost") == 0)
        memcpy(host, "127.0.0.1", sizeof "127.0.0.1");
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE};
    struct addrinfo *found = NULL;
    if (getaddrinfo(host, port, &hints, &found) != 0 || !found)
        return gmv_fail(err, GMV_ERR_VALUE, NULL,
                        "the address to listen on must be a number or localhost");
    memset(out_address, 0, sizeof *out_address);
    memcpy(&out_address->storage, found->ai_addr, found->ai_addrlen);
    out_address->length = found->ai_addrlen;
    out_address->is_loopback = server_is_loopback(found->ai_addr);
    freeaddrinfo(found);
    return GMV_OK;
}

static void server_write_url(gmv_server *server, const struct sockaddr_storage *storage,
                             socklen_t length)
{
    char host[64] = "", port[8] = "0";
    (void)getnameinfo((const struct sockaddr *)storage, length, host, sizeof host, port,
                      sizeof port, NI_NUMERICHOST | NI_NUMERICSERV);
    uint64_t number = 0;
    (void)!gmv_parse_uint64(port, strlen(port), &number);
    server->port = (uint16_t)number;
    bool is_v6 = storage->ss_family == AF_INET6;
    snprintf(server->url, sizeof server->url, "http://%s%s%s:%s", is_v6 ? "[" : "", host,
             is_v6 ? "]" : "", port);
}

static gmv_status server_fail_system(gmv_error *err, const char *what)
{
    char reason[96];
    const char *text = strerror_r(errno, reason, sizeof reason);
    return gmv_fail(err, GMV_ERR_OVERLOADED, NULL, "%s: %s", what, text);
}

/* Accepted sockets inherit it: a client that is gone without a word breaks its connection. */
static void server_keep_alive(int fd)
{
    static const int on = 1, idle_s = 30, interval_s = 10, probes = 3;
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof interval_s);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
}

static gmv_status server_judge_address(const char *listen_at, bool insecure,
                                       server_address *out_address, gmv_error *err)
{
    GMV_TRY(server_resolve(listen_at, out_address, err));
    if (!out_address->is_loopback && !insecure)
        return gmv_fail(err, GMV_ERR_VALUE, NULL,
                        "listening beyond the loopback without access control is refused; "
                        "--insecure takes the risk");
    return GMV_OK;
}

gmv_status gmv_server_check_address(const char *listen_at, bool insecure, gmv_error *err)
{
    server_address address;
    return server_judge_address(listen_at, insecure, &address, err);
}

static gmv_status server_listen(gmv_server *server, gmv_error *err)
{
    server_address address;
    GMV_TRY(server_judge_address(server->options.listen, server->options.insecure, &address, err));
    server->checks_host = address.is_loopback;
    server->listen_fd =
        socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (server->listen_fd < 0)
        return server_fail_system(err, "no socket can be made");
    int on = 1;
    (void)setsockopt(server->listen_fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    server_keep_alive(server->listen_fd);
    if (bind(server->listen_fd, (const struct sockaddr *)&address.storage, address.length) != 0 ||
        listen(server->listen_fd, SERVER_BACKLOG) != 0) {
        int reason = errno;
        char what[160];
        snprintf(what, sizeof what, "%.100s cannot be listened on", server->options.listen);
        errno = reason;
        return server_fail_system(err, what);
    }
    struct sockaddr_storage bound = {0};
    socklen_t length = sizeof bound;
    if (getsockname(server->listen_fd, (struct sockaddr *)&bound, &length) != 0)
        return server_fail_system(err, "the listening address cannot be read");
    server_write_url(server, &bound, length);
    return GMV_OK;
}

/* ---- connections ---- */

bool gmv__server_parses_strictly(void)
{
    return MHD_get_version()[0] != '0';
}

void gmv__server_name_request(gmv_server *server, char out_id[GMV_REQUEST_ID_MAX])
{
    static const char digits[] = "0123456789abcdef";
    uint64_t number = atomic_fetch_add_explicit(&server->request_id_next, 1, memory_order_relaxed);
    char *out = stpcpy(out_id, server->request_id_prefix);
    *out++ = '-';
    for (int shift = 60 - __builtin_clzll(number | 1) / 4 * 4; shift >= 0; shift -= 4)
        *out++ = digits[number >> shift & 15];
    *out = '\0';
}

static void server_on_connection(void *context, struct MHD_Connection *connection,
                                 void **socket_context, enum MHD_ConnectionNotificationCode code)
{
    gmv_server *server = context;
    if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
        atomic_fetch_sub(&server->n_connections, 1);
        return;
    }
    if (atomic_fetch_add(&server->n_connections, 1) >= server->service->connection_limit)
        *socket_context = server; /* a surplus one; any mark does */
}

/* One connection too many even for a full answer. */
static void server_turn_away(gmv_server *server, int fd)
{
    static const char body[] =
        "{\"type\":\"about:blank\",\"title\":\"Service Unavailable\",\"status\":503,"
        "\"code\":\"overloaded\",\"detail\":\"all connections are in use; try again later\"}";
    char answer[512], id[GMV_REQUEST_ID_MAX];
    gmv__server_name_request(server, id);
    int nbytes = snprintf(answer, sizeof answer,
                          "HTTP/1.1 503 Service Unavailable\r\n"
                          "Content-Type: application/problem+json\r\nContent-Length: %zu\r\n"
                          "X-Request-Id: %s\r\nRetry-After: 1\r\nConnection: close\r\n\r\n%s",
                          sizeof body - 1, id, body);
    (void)!send(fd, answer, (size_t)nbytes, MSG_DONTWAIT | MSG_NOSIGNAL);
    (void)shutdown(fd, SHUT_WR);
    close(fd);
}

static void server_take(gmv_server *server, int fd, const struct sockaddr_storage *peer,
                        socklen_t length)
{
    if (atomic_load(&server->n_connections) >=
        server->service->connection_limit + GMV_SURPLUS_CONNECTIONS) {
        server_turn_away(server, fd);
        return;
    }
    int nbytes = GMV_SOCKET_SEND_NBYTES;
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &nbytes, sizeof nbytes);
    /* Descriptors are reused from the lowest, so they spread connections evenly. On failure the
     * library has closed the socket. */
    (void)MHD_add_connection(server->daemons[(size_t)fd % server->n_daemons], fd,
                             (const struct sockaddr *)peer, length);
}

/* Takes all that wait; false when the system has no descriptors left. */
static bool server_accept(gmv_server *server)
{
    for (;;) {
        struct sockaddr_storage peer = {0};
        socklen_t length = sizeof peer;
        int fd = accept4(server->listen_fd, (struct sockaddr *)&peer, &length,
                         SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0)
            server_take(server, fd, &peer, length);
        else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)
            return false;
        else if (errno != EINTR && errno != ECONNABORTED)
            return true;
    }
}

static void *server_acceptor_main(void *argument)
{
    gmv_server *server = argument;
    struct pollfd polled[2] = {{.fd = server->stop_fd, .events = POLLIN},
                               {.fd = server->listen_fd, .events = POLLIN}};
    bool has_room = true;
    while (polled[0].revents == 0) {
        polled[1].fd = has_room ? server->listen_fd : -1;
        polled[1].revents = 0;
        if (poll(polled, 2, has_room ? -1 : SERVER_RETRY_ACCEPT_MS) < 0)
            continue;
        if (polled[0].revents == 0)
            has_room = server_accept(server);
    }
    return NULL;
}

/* ---- libmicrohttpd ---- */

/* Paths are decoded by the router, segment by segment. */
static size_t server_keep_escapes(void *context, struct MHD_Connection *connection, char *text)
{
    return strlen(text);
}

static void server_log_library(void *context, const char *format, va_list arguments)
    __attribute__((format(printf, 2, 0)));

static void server_log_library(void *context, const char *format, va_list arguments)
{
    if (!gmv_log_enabled(GMV_LOG_DEBUG))
        return;
    char text[256];
    vsnprintf(text, sizeof text, format, arguments);
    text[strcspn(text, "\n")] = '\0';
    gmv_log(GMV_LOG_DEBUG, "http_engine", gmv_log_text("message", text));
}

static struct MHD_Daemon *server_start_daemon(gmv_server *server)
{
    const gmv_service *service = server->service;
    const unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_NO_LISTEN_SOCKET | MHD_USE_ITC |
                           MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG;
    return MHD_start_daemon(
        flags, 0, NULL, NULL, gmv__exchange_on_call, server, MHD_OPTION_EXTERNAL_LOGGER,
        server_log_library, NULL, MHD_OPTION_URI_LOG_CALLBACK, gmv__exchange_on_target, server,
        MHD_OPTION_UNESCAPE_CALLBACK, server_keep_escapes, NULL, MHD_OPTION_NOTIFY_COMPLETED,
        gmv__exchange_on_completed, server, MHD_OPTION_NOTIFY_CONNECTION, server_on_connection,
        server, MHD_OPTION_CONNECTION_MEMORY_LIMIT, GMV_CONNECTION_NBYTES,
        MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)(service->connection_limit + 2 * GMV_SURPLUS_CONNECTIONS),
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)service->idle_timeout_seconds,
        MHD_OPTION_THREAD_STACK_SIZE, SERVER_STACK_NBYTES,
        /* 0.9.75 answers twice when it is strict */
        MHD_OPTION_STRICT_FOR_CLIENT, gmv__server_parses_strictly() ? 1 : 0, MHD_OPTION_END);
}

/* ---- start ---- */

static uint32_t server_default(uint32_t given, uint32_t otherwise)
{
    return given ? given : otherwise;
}

/* Connections that the process has descriptors for. */
static uint32_t server_connection_limit(uint32_t wanted)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return wanted;
    uint64_t spare = SERVER_DESCRIPTORS_SPARE + 2 * GMV_SURPLUS_CONNECTIONS;
    uint64_t room = limit.rlim_cur > spare + 16 ? limit.rlim_cur - spare : 16;
    return (uint32_t)GMV_MIN(room, (uint64_t)wanted);
}

static void server_set_defaults(gmv_server *server)
{
    gmv_service *service = server->service;
    gmv_server_options *options = &server->options;
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    uint32_t n_cores = online > 1 ? (uint32_t)GMV_MIN(online, 64) : 1;
    options->n_http_threads = server_default(options->n_http_threads, GMV_MAX(n_cores / 4, 1u));
    options->n_http_threads = GMV_MIN(options->n_http_threads, (uint32_t)GMV_HTTP_THREADS_MAX);
    options->n_short_workers = server_default(options->n_short_workers, GMV_MAX(n_cores / 2, 1u));
    options->n_bulk_workers = server_default(options->n_bulk_workers, GMV_MAX(n_cores / 2, 1u));
    options->max_short_jobs = server_default(options->max_short_jobs, 1024);
    options->max_bulk_jobs = server_default(options->max_bulk_jobs, 256);
    options->max_uploads = server_default(options->max_uploads, 128);
    options->max_silence_ms = server_default(options->max_silence_ms, SERVER_MAX_SILENCE_MS);
    options->max_chunks = server_default(options->max_chunks, 32);
    options->max_wait_ms = server_default(options->max_wait_ms, SERVER_MAX_WAIT_MS);
    service->n_http_threads = options->n_http_threads;
    service->n_workers = options->n_short_workers + options->n_bulk_workers;
    service->max_uploads = options->max_uploads;
    service->connection_limit =
        server_connection_limit(server_default(service->connection_limit, 10000));
    if (service->idle_timeout_seconds == 0)
        service->idle_timeout_seconds = 60;
    if (service->max_json_nbytes == 0)
        service->max_json_nbytes = UINT64_C(8) << 20;
}

static gmv_status server_name_requests(gmv_server *server, gmv_error *err)
{
    uint64_t random;
    if (!gmv_random_bytes(&random, sizeof random))
        return gmv_fail(err, GMV_ERR_OVERLOADED, NULL, "the system has no randomness");
    snprintf(server->request_id_prefix, sizeof server->request_id_prefix, "%016" PRIx64, random);
    return GMV_OK;
}

/* On the maintenance thread: what must be looked at now and then. */
static void server_tick(void *context)
{
    gmv_server *server = context;
    const gmv_engine *engine = &server->service->engine;
    int64_t now = gmv_clock_monotonic_ns();
    gmv__downloads_sweep(server->downloads);
    gmv__exchange_sweep(server);
    gmv__event_streams_tick(server->event_streams);
    if (now - server->refreshed_at_ns < SERVER_REFRESH_NS)
        return;
    server->refreshed_at_ns = now;
    gmv_idempotency_sweep(server->idempotency);
    for (size_t i = 0; i < engine->n_devices; i++)
        gmv_device_refresh(engine->devices[i]);
}

static gmv_status server_start_workers(gmv_server *server, gmv_error *err)
{
    const gmv_workers_options options = {
        .n_short = server->options.n_short_workers,
        .n_bulk = server->options.n_bulk_workers,
        .max_short = server->options.max_short_jobs,
        .max_bulk = server->options.max_bulk_jobs,
        .tick = server_tick,
        .tick_context = server,
    };
    return gmv_workers_create(&server->service->engine, &options, &server->workers, err);
}

static gmv_status server_start_threads(gmv_server *server, gmv_error *err)
{
    for (size_t i = 0; i < server->options.n_http_threads; i++) {
        server->daemons[i] = server_start_daemon(server);
        if (!server->daemons[i])
            return gmv_fail(err, GMV_ERR_OVERLOADED, NULL, "an HTTP thread cannot be started");
        server->n_daemons++;
    }
    server->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (server->stop_fd < 0)
        return server_fail_system(err, "no event descriptor can be made");
    if (pthread_create(&server->acceptor, NULL, server_acceptor_main, server) != 0)
        return gmv_fail(err, GMV_ERR_OVERLOADED, NULL, "the acceptor cannot be started");
    server->has_acceptor = true;
    return GMV_OK;
}

static gmv_status server_open(gmv_server *server, gmv_error *err)
{
    const gmv_server_options *options = &server->options;
    GMV_TRY(server_name_requests(server, err));
    GMV_TRY(gmv_router_create(options->routes, options->n_routes, &server->router, err));
    server->service->router = server->router;
    GMV_TRY(gmv_metrics_create(options->routes, options->n_routes, &server->service->metrics, err));
    GMV_TRY(server_listen(server, err));
    GMV_TRY(gmv__downloads_create(server, server->options.max_chunks, &server->downloads, err));
    GMV_TRY(gmv_idempotency_create(&server->idempotency, err));
    GMV_TRY(gmv__event_streams_create(server, &server->event_streams, err));
    GMV_TRY(server_start_workers(server, err));
    gmv__event_streams_start(server->event_streams);
    return server_start_threads(server, err);
}

gmv_status gmv_server_start(gmv_service *service, const gmv_server_options *options,
                            gmv_server **out_server, gmv_error *err)
{
    gmv_server *server = gmv_calloc(1, sizeof *server);
    if (!server)
        return gmv_fail_no_memory(err);
    (void)signal(SIGPIPE, SIG_IGN);
    server->service = service;
    server->options = *options;
    server->listen_fd = -1;
    server->stop_fd = -1;
    pthread_mutex_init(&server->jobs_lock, NULL);
    gmv__senders_init(&server->senders);
    gmv__receivers_init(&server->receivers);
    server_set_defaults(server);
    atomic_store(&service->draining, false);
    gmv_status status = server_open(server, err);
    if (status != GMV_OK) {
        if (gmv_server_drain(server, SERVER_SETTLE_MS))
            gmv_server_destroy(server);
        return status;
    }
    *out_server = server;
    return GMV_OK;
}

const char *gmv_server_url(const gmv_server *server)
{
    return server->url;
}

uint16_t gmv_server_port(const gmv_server *server)
{
    return server->port;
}

/* ---- stop ---- */

static void server_stop_listening(gmv_server *server)
{
    if (server->has_acceptor) {
        const uint64_t one = 1;
        (void)!write(server->stop_fd, &one, sizeof one);
        pthread_join(server->acceptor, NULL);
        server->has_acceptor = false;
    }
    if (server->listen_fd >= 0)
        close(server->listen_fd);
    server->listen_fd = -1;
}

/* Whether every request that started has been completed, within the time. */
static bool server_wait_quiet(gmv_server *server, int64_t timeout_ms)
{
    const struct timespec nap = {.tv_nsec = SERVER_POLL_MS * 1000000};
    int64_t until = gmv_clock_monotonic_ns() + timeout_ms * 1000000;
    /* The completed are read first: they never run ahead of the started. */
    for (;;) {
        uint64_t completed = atomic_load(&server->n_completed);
        if (completed == atomic_load(&server->n_started))
            return true;
        if (gmv_clock_monotonic_ns() >= until)
            return false;
        nanosleep(&nap, NULL);
    }
}

bool gmv_server_drain(gmv_server *server, int64_t timeout_ms)
{
    atomic_store(&server->service->draining, true);
    server_stop_listening(server);
    gmv__event_streams_stop(server->event_streams);
    int64_t grace_ms = GMV_MIN(timeout_ms, SERVER_GRACE_MS);
    bool is_quiet = server_wait_quiet(server, grace_ms);
    if (!is_quiet) {
        gmv__event_streams_cut(server->event_streams);
        is_quiet = server_wait_quiet(server, timeout_ms - grace_ms);
    }
    gmv__exchange_abandon_all(server);
    gmv__downloads_stop(server->downloads);
    if (!is_quiet) {
        gmv_log(GMV_LOG_WARNING, "drain_timeout",
                gmv_log_int("requests", (int64_t)(atomic_load(&server->n_started) -
                                                  atomic_load(&server->n_completed))));
        (void)server_wait_quiet(server, GMV_MIN(timeout_ms, SERVER_SETTLE_MS));
    }
    /* Nothing is suspended now, and nothing will be: the library may close what is left. */
    for (size_t i = 0; i < server->n_daemons; i++)
        MHD_stop_daemon(server->daemons[i]);
    server->n_daemons = 0;
    return !server->workers || gmv_workers_stop(server->workers, SERVER_SETTLE_MS);
}

void gmv_server_destroy(gmv_server *server)
{
    if (!server)
        return;
    gmv_workers_destroy(server->workers);
    gmv__downloads_destroy(server->downloads);
    gmv__event_streams_destroy(server->event_streams);
    gmv_idempotency_destroy(server->idempotency);
    if (server->stop_fd >= 0)
        close(server->stop_fd);
    gmv_router_destroy(server->router);
    server->service->router = NULL;
    gmv_metrics_destroy(server->service->metrics);
    server->service->metrics = NULL;
    gmv__senders_fini(&server->senders);
    gmv__receivers_fini(&server->receivers);
    pthread_mutex_destroy(&server->jobs_lock);
    gmv_free(server);
}
