/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Start, wait, stop, in that order. Signals are blocked before the first thread is made, so that
 * only main sees them. A second one, while requests are being waited for, leaves at once.
 */
#include "config.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

#include "gmvd/healthcheck.h"
#include "gmvd/options.h"
#include "http/embedded.h"
#include "http/server.h"
#include "http/service.h"

#include <gmv/gmv.h>

#define MAIN_LOOK_INTERVAL_NS 250000000

static const char *main_environment(const char *name)
{
    return getenv(name);
}

static int main_fail(int code, const char *message)
{
    fprintf(stderr, "gmvd: %s\n", message);
    return code;
}

/* Each connection is a descriptor, each export too. */
static void main_raise_descriptors(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max)
        return;
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
}

static void main_on_second_signal(int number)
{
    _exit(128 + number);
}

static void main_arm_second_signal(const sigset_t *signals)
{
    struct sigaction action = {.sa_handler = main_on_second_signal};
    sigemptyset(&action.sa_mask);
    (void)sigaction(SIGTERM, &action, NULL);
    (void)sigaction(SIGINT, &action, NULL);
    (void)pthread_sigmask(SIG_UNBLOCK, signals, NULL);
}

static const char *main_lost_reason(const gmv_engine *engine)
{
    const char *reason = NULL;
    for (size_t i = 0; i < engine->n_devices; i++)
        if (gmv_device_is_lost(engine->devices[i], &reason))
            return reason ? reason : "";
    return NULL;
}

/* Until a signal comes. A lost device ends the process: nothing on it can be freed any more. */
static void main_wait(const gmv_engine *engine, const gmvd_options *options,
                      const sigset_t *signals)
{
    const struct timespec interval = {.tv_nsec = MAIN_LOOK_INTERVAL_NS};
    bool is_told = false;
    for (;;) {
        int number = sigtimedwait(signals, NULL, &interval);
        if (number > 0) {
            gmv_log(GMV_LOG_INFO, "stopping", gmv_log_int("signal", number));
            return;
        }
        const char *reason = main_lost_reason(engine);
        if (!reason || is_told)
            continue;
        is_told = true;
        gmv_log(GMV_LOG_ERROR, "device_lost", gmv_log_text("reason", reason));
        if (!options->stays_when_lost)
            _exit(EX_UNAVAILABLE);
    }
}

static int main_serve(gmv_service *service, const gmvd_options *options, const sigset_t *signals)
{
    gmv_error err;
    gmv_error_init(&err);
    gmv_server *server;
    uint32_t n_threads = (uint32_t)options->n_threads;
    const gmv_server_options server_options = {
        .listen = options->listen,
        .insecure = options->insecure,
        .routes = gmv_routes,
        .n_routes = gmv_routes_count,
        .n_http_threads = n_threads ? GMV_MAX(n_threads / 4, 1u) : 0,
        .n_short_workers = n_threads ? GMV_MAX(n_threads / 2, 1u) : 0,
        .n_bulk_workers = n_threads ? GMV_MAX(n_threads / 4, 1u) : 0,
    };
    if (gmv_server_start(service, &server_options, &server, &err) != GMV_OK)
        return main_fail(err.status == GMV_ERR_VALUE ? EX_USAGE : EX_UNAVAILABLE, err.message);
    gmv_log(GMV_LOG_INFO, "listening", gmv_log_text("url", gmv_server_url(server)),
            gmv_log_text("backend", service->backend), gmv_log_text("version", PACKAGE_VERSION));
    printf("gmvd listening on %s\n", gmv_server_url(server));
    (void)fflush(stdout);
    main_wait(&service->engine, options, signals);
    main_arm_second_signal(signals);
    if (!gmv_server_drain(server, (int64_t)options->drain_timeout_seconds * 1000)) {
        gmv_log(GMV_LOG_WARNING, "stopped", gmv_log_text("left", "work that did not end in time"));
        _exit(EX_OK);
    }
    gmv_server_destroy(server);
    gmv_log(GMV_LOG_INFO, "stopped", gmv_log_text("left", ""));
    return EX_OK;
}

/* What the daemon runs over: devices of one backend. */
typedef struct main_devices {
    gmv_device *items[GMV_DEVICES_MAX];
    size_t count;
} main_devices;

static void main_close_devices(main_devices *devices)
{
    while (devices->count > 0)
        gmv_device_close(devices->items[--devices->count]);
}

static int main_open_host(const gmvd_options *options, main_devices *devices)
{
    if (options->devices.count > 1 || (options->devices.count == 1 && options->devices.values[0]))
        return main_fail(EX_UNAVAILABLE, "--device: the host backend has one device, 0");
    gmv_error err;
    gmv_error_init(&err);
    /* For the project's own tests: downloads as from a GPU. */
    const char *hides = getenv("GMVD_TEST_HIDE_HOST_POINTERS");
    const gmv_device_options device_options = {.hide_host_pointers = hides && hides[0] == '1'};
    if (gmv_device_open_host(&device_options, &devices->items[0], &err) != GMV_OK)
        return main_fail(EX_OSERR, err.message);
    devices->count = 1;
    return EX_OK;
}

/*
 * Opens those that were named, or all. One that cannot be opened is a failure, unless the choice
 * was left to us.
 */
static gmv_status main_open_cuda(const gmvd_options *options, main_devices *devices, gmv_error *err)
{
    int32_t n_present;
    bool is_free = options->backend == GMVD_BACKEND_AUTO && options->devices.count == 0;
    GMV_TRY(gmv_cuda_device_count(&n_present, err));
    size_t n_wanted = options->devices.count ? options->devices.count : (size_t)n_present;
    if (n_wanted == 0)
        return gmv_fail(err, GMV_ERR_BACKEND_UNSUPPORTED, NULL,
                        "the driver shows no device; look at CUDA_VISIBLE_DEVICES, and in a "
                        "container at how GPUs are passed to it");
    for (size_t i = 0; i < GMV_MIN(n_wanted, (size_t)GMV_DEVICES_MAX); i++) {
        const gmv_device_options device_options = {
            .ordinal = options->devices.count ? options->devices.values[i] : (int32_t)i,
            .job_deadline_ms = (uint32_t)options->job_deadline_seconds * 1000,
        };
        gmv_error_init(err);
        gmv_status status =
            gmv_device_open_cuda(&device_options, &devices->items[devices->count], err);
        if (status == GMV_OK)
            devices->count++;
        else if (!is_free)
            return status;
        else
            gmv_log(GMV_LOG_WARNING, "device_skipped", gmv_log_int("ordinal", (int64_t)i),
                    gmv_log_text("reason", err->message));
    }
    return devices->count > 0 ? GMV_OK : err->status;
}

static int main_fail_cuda(const gmvd_options *options, const gmv_error *err)
{
    char message[sizeof err->message + 128];
    snprintf(message, sizeof message, "%s: %s; --backend host runs without a GPU",
             options->backend == GMVD_BACKEND_CUDA ? "--backend cuda" : "--device", err->message);
    return main_fail(EX_UNAVAILABLE, message);
}

/* One that was asked for by name must be there. */
static int main_open_devices(const gmvd_options *options, main_devices *devices)
{
    gmv_error err;
    gmv_error_init(&err);
    if (options->backend == GMVD_BACKEND_HOST)
        return main_open_host(options, devices);
    gmv_status status = main_open_cuda(options, devices, &err);
    if (status == GMV_OK)
        return EX_OK;
    main_close_devices(devices);
    if (options->backend == GMVD_BACKEND_CUDA || status != GMV_ERR_BACKEND_UNSUPPORTED)
        return main_fail_cuda(options, &err);
    gmv_log(GMV_LOG_INFO, "backend", gmv_log_text("name", "host"),
            gmv_log_text("reason", err.message));
    return main_open_host(options, devices);
}

static int main_run(const gmvd_options *options)
{
    /* Big and alive until the end; the exit of a stuck drain leaves it to the threads. */
    static gmv_service service;
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    (void)pthread_sigmask(SIG_BLOCK, &signals, NULL);
    main_raise_descriptors();
    main_devices devices = {0};
    int code = main_open_devices(options, &devices);
    if (code != EX_OK)
        return code;
    bool is_cuda = gmv_device_describe(devices.items[0])->backend == GMV_BACKEND_CUDA;
    service.backend = is_cuda ? "cuda" : "host";
    service.toolkit = is_cuda ? GMV_CUDA_TOOLKIT : "";
    service.started_at_ms = gmv_clock_wall_ms();
    service.started_at_ns = gmv_clock_monotonic_ns();
    service.max_json_nbytes = options->max_json_nbytes;
    service.connection_limit = (uint32_t)options->max_connections;
    service.idle_timeout_seconds = (int64_t)options->idle_timeout_seconds;
    const gmv_limits limits = {options->max_device_nbytes, options->max_logical_nbytes,
                               options->max_handles};
    gmv_error err;
    gmv_error_init(&err);
    if (gmv_events_create(&service.events, &err) != GMV_OK) {
        main_close_devices(&devices);
        return main_fail(EX_OSERR, err.message);
    }
    const gmv_registry_options registry = {.observe = gmv_events_observe,
                                           .observe_context = service.events};
    if (gmv_engine_init(&service.engine, devices.items, devices.count, &limits, &registry, &err) !=
        GMV_OK)
        return main_fail(EX_OSERR, err.message);
    code = main_serve(&service, options, &signals);
    gmv_engine_fini(&service.engine);
    gmv_events_destroy(service.events);
    return code;
}

static int main_print_openapi(void)
{
    size_t nbytes = gmv__openapi_yaml_nbytes;
    return fwrite(gmv__openapi_yaml, 1, nbytes, stdout) == nbytes && fflush(stdout) == 0 ? EX_OK
                                                                                         : EX_IOERR;
}

/* What is right by itself may still be an address that cannot be listened on. */
static int main_check_config(const gmvd_options *options)
{
    gmv_error err;
    gmv_error_init(&err);
    if (gmv_server_check_address(options->listen, options->insecure, &err) == GMV_OK)
        return EX_OK;
    return main_fail(EX_USAGE, err.message);
}

int main(int argc, char *argv[])
{
    gmvd_options options;
    char error[GMVD_ERROR_MAX];
    int code = gmvd_options_read(argc, argv, main_environment, &options, error);
    if (code != 0)
        return main_fail(code, error);
    gmv_log_configure((gmv_log_format)options.log_format, (gmv_log_level)options.log_level);
    switch (options.action) {
    case GMVD_CHECK_CONFIG:
        return main_check_config(&options);
    case GMVD_PRINT_OPENAPI:
        return main_print_openapi();
    case GMVD_VERSION:
        printf("gmvd %s\n", PACKAGE_VERSION);
        return EX_OK;
    case GMVD_HELP:
        fputs(gmvd_options_help(), stdout);
        return EX_OK;
    case GMVD_HEALTHCHECK:
        return gmvd_healthcheck(options.listen);
    case GMVD_RUN:
        break;
    }
    return main_run(&options);
}
