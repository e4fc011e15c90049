/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gmvd: the daemon: command line, start, signals and stop.
 *
 * options.h: settings from flags (--max-handles N), the environment (GMVD_MAX_HANDLES) and a file
 * (max-handles = N). A flag beats the environment, which beats the file.
 */
#ifndef GMV_GMVD_OPTIONS_H
#define GMV_GMVD_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <gmv/base/log.h>

#define GMVD_TEXT_MAX  256
#define GMVD_ERROR_MAX 512

#define GMVD_DEVICES_MAX 16

typedef enum gmvd_action {
    GMVD_RUN,
    GMVD_CHECK_CONFIG,
    GMVD_PRINT_OPENAPI,
    GMVD_VERSION,
    GMVD_HELP,
    GMVD_HEALTHCHECK
} gmvd_action;

typedef enum gmvd_backend { GMVD_BACKEND_AUTO, GMVD_BACKEND_CUDA, GMVD_BACKEND_HOST } gmvd_backend;

typedef struct gmvd_ordinals {
    size_t count; /* 0: all that there are */
    int32_t values[GMVD_DEVICES_MAX];
} gmvd_ordinals;

typedef struct gmvd_options {
    gmvd_action action;
    char listen[GMVD_TEXT_MAX];
    char config[GMVD_TEXT_MAX]; /* "" for none */
    int backend;                /* gmvd_backend */
    int log_format;             /* gmv_log_format */
    int log_level;              /* gmv_log_level */
    bool insecure;
    bool stays_when_lost; /* --on-device-lost stay */
    gmvd_ordinals devices;
    uint64_t max_device_nbytes; /* these three: 0 for no limit of our own */
    uint64_t max_logical_nbytes;
    uint64_t max_handles;
    uint64_t max_json_nbytes;
    uint64_t n_threads; /* HTTP threads and workers together; 0: from the cores */
    uint64_t max_connections;
    uint64_t idle_timeout_seconds;
    uint64_t drain_timeout_seconds;
    uint64_t job_deadline_seconds; /* 0: none */
} gmvd_options;

/*
 * Fills `out_options`; `environment` is getenv or a test's own. 0, or an exit code of sysexits.h
 * with one line in `out_error`.
 */
int gmvd_options_read(int argc, char *const argv[], const char *(*environment)(const char *name),
                      gmvd_options *out_options, char out_error[GMVD_ERROR_MAX]);

/* What --help prints. @borrowed, static. */
const char *gmvd_options_help(void);

#endif
