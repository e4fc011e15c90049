/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A GPU that is lost for real: another part of this process runs a faulty kernel in the context
 * that gmv uses. gmv must say so, leave the device alone from then on, and let the process end.
 * Plain TAP; each case is a process of its own, since what is lost stays lost.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gmv/base/clock.h>
#include <gmv/device/kernels.h>

#include "gpu/fault.h"

#define NBYTES       ((uint64_t)1 << 20)
#define CASE_SECONDS 60
#define CLOSE_NS     ((int64_t)5 * 1000000000)
#define NO_DEVICE    77

static int n_failed;
static gmv_error err;

/* What a case finds out goes to the parent's output as diagnostics; its exit code is the verdict.
 */
static void expect(bool holds, const char *what)
{
    if (holds)
        return;
    n_failed++;
    printf("# does not hold: %s (last error: %s)\n", what, err.message);
    fflush(stdout);
}

typedef struct world {
    gmv_device *device;
    gmv_stream *stream;
    gmv_memory *exportable, *ordinary;
    uint8_t *bytes;
} world;

static gmv_status allocate(world *w, gmv_memory_kind kind, gmv_memory **out_memory)
{
    gmv_error_init(&err);
    return gmv_memory_allocate(w->device, w->stream, kind, GMV_CONTENTS_ZEROED, NBYTES, out_memory,
                               &err);
}

static bool world_open(world *w)
{
    static uint8_t bytes[NBYTES];
    w->bytes = bytes;
    return gmv_device_open_cuda(NULL, &w->device, &err) == GMV_OK &&
           gmv_stream_create(w->device, &w->stream, &err) == GMV_OK &&
           allocate(w, GMV_MEMORY_EXPORTABLE, &w->exportable) == GMV_OK &&
           allocate(w, GMV_MEMORY_ORDINARY, &w->ordinary) == GMV_OK &&
           gmv_fill(w->stream, w->ordinary->address, 7, NBYTES, &err) == GMV_OK &&
           gmv_copy_out(w->stream, bytes, w->ordinary->address, NBYTES, &err) == GMV_OK &&
           gmv_stream_finish(w->stream, &err) == GMV_OK && bytes[NBYTES - 1] == 7;
}

/* The next operation, whether the loss shows when it is enqueued or when it ends. */
static gmv_status read_all(world *w)
{
    gmv_status status = gmv_copy_out(w->stream, w->bytes, w->ordinary->address, NBYTES, &err);
    return status == GMV_OK ? gmv_stream_finish(w->stream, &err) : status;
}

static gmv_status fill_all(world *w)
{
    gmv_status status = gmv_fill(w->stream, w->ordinary->address, 1, NBYTES, &err);
    return status == GMV_OK ? gmv_stream_finish(w->stream, &err) : status;
}

static gmv_status set_bits(world *w)
{
    gmv_set_bits what = {w->ordinary->address, {3, 5}, true};
    gmv_status status = gmv_kernel_set_bits(w->stream, &what, &err);
    return status == GMV_OK ? gmv_stream_finish(w->stream, &err) : status;
}

static gmv_status allocate_more(world *w)
{
    gmv_memory *more = NULL;
    gmv_status status = allocate(w, GMV_MEMORY_EXPORTABLE, &more);
    if (status == GMV_OK)
        status = gmv_stream_finish(w->stream, &err);
    return status;
}

/* An idle device: only the look that is taken now and then can tell. */
static gmv_status refresh(world *w)
{
    gmv_device_refresh(w->device);
    return gmv_device_is_lost(w->device, NULL) ? GMV_ERR_DEVICE_LOST : GMV_OK;
}

typedef struct lost_case {
    const char *name;
    gmv_status (*first)(world *w);
} lost_case;

static const lost_case cases[] = {
    {"a copy", read_all},      {"a fill", fill_all},
    {"a kernel", set_bits},    {"an allocation", allocate_more},
    {"a look at it", refresh},
};
#define N_CASES (sizeof cases / sizeof cases[0])

/* All that is left to do; none of it may wait for the device, or bring the process down. */
static void check_leftovers(world *w)
{
    gmv_share share;
    gmv_stream *stream = NULL;
    int64_t begin = gmv_clock_monotonic_ns();
    expect(read_all(w) == GMV_ERR_DEVICE_LOST, "a copy answers device_lost");
    expect(fill_all(w) == GMV_ERR_DEVICE_LOST, "a fill answers device_lost");
    expect(set_bits(w) == GMV_ERR_DEVICE_LOST, "a kernel answers device_lost");
    expect(allocate_more(w) == GMV_ERR_DEVICE_LOST, "an allocation answers device_lost");
    expect(gmv_memory_export(w->exportable, &share, &err) == GMV_ERR_DEVICE_LOST,
           "an export answers device_lost");
    expect(gmv_stream_create(w->device, &stream, &err) == GMV_ERR_DEVICE_LOST,
           "a new stream answers device_lost");
    gmv_stream_abandon(w->stream);
    gmv_device_refresh(w->device);
    gmv_device_trim(w->device);
    gmv_memory_free(w->ordinary);
    gmv_memory_free(w->exportable);
    gmv_stream_destroy(w->stream);
    gmv_device_close(w->device);
    expect(gmv_clock_monotonic_ns() - begin < CLOSE_NS, "nothing waits for a lost device");
}

static int run_case(const lost_case *which)
{
    world w = {0};
    int32_t count = 0;
    const char *reason = NULL;
    gmv_error_init(&err);
    if (gmv_cuda_device_count(&count, &err) != GMV_OK || count == 0)
        return NO_DEVICE;
    expect(world_open(&w), "the device opens and works");
    if (n_failed)
        return 1;
    expect(!gmv_device_is_lost(w.device, NULL), "it is not lost at first");
    const char *trouble = fault_device(0);
    expect(!trouble, trouble ? trouble : "");
    if (n_failed)
        return 1;
    expect(which->first(&w) == GMV_ERR_DEVICE_LOST, "the next call answers device_lost");
    expect(gmv_device_is_lost(w.device, &reason), "the device is lost");
    expect(reason && strstr(reason, "a kernel"), "the reason speaks of a kernel");
    printf("# reason: %s\n", reason ? reason : "none");
    check_leftovers(&w);
    return n_failed ? 1 : 0;
}

/* The exit code of a process that ran the case to its end, exit handlers included, or -1. */
static int run_apart(const lost_case *which)
{
    int status = 0;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        alarm(CASE_SECONDS);
        exit(run_case(which));
    }
    if (child < 0 || waitpid(child, &status, 0) != child)
        return -1;
    if (WIFSIGNALED(status))
        printf("# ended by signal %d%s\n", WTERMSIG(status),
               WTERMSIG(status) == SIGALRM ? ": it hung" : "");
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int main(void)
{
    int failed = 0;
    for (size_t i = 0; i < N_CASES; i++) {
        int code = run_apart(&cases[i]);
        if (i == 0 && code == NO_DEVICE) {
            printf("1..0 # SKIP no CUDA device\n");
            return 0;
        }
        failed += code != 0;
        printf("%sok %zu - %s finds a lost device, and the process ends well\n", code ? "not " : "",
               i + 1, cases[i].name);
    }
    printf("1..%zu\n", N_CASES);
    return failed != 0;
}
