/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that import, use and close the same two segments, export, allocate and free, all at once,
 * while another thread writes to the segments. Made for ThreadSanitizer, under which Criterion does
 * not start: a plain program that prints TAP. The bytes that race are clients' and exempt; a report
 * about anything else makes the program fail.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <gmv/device/kernels.h>

#define THREADS  6
#define ROUNDS   1000
#define SEGMENTS 2
#define NBYTES   20000

static char names[SEGMENTS][64];
static int descriptors[SEGMENTS];
static gmv_device *device;
static gmv_memory *exported;
static _Atomic int failures;
static _Atomic bool stop;

static void expect(bool condition, const char *what, const gmv_error *err)
{
    if (condition)
        return;
    atomic_fetch_add(&failures, 1);
    printf("# %s: %s\n", what, err ? err->message : "");
}

/* The client: writes to the segments with what the daemon calls itself, over and over. */
static void *write_to_segments(void *argument)
{
    gmv_error err;
    gmv_stream *stream = NULL;
    gmv_error_init(&err);
    expect(gmv_stream_create(device, &stream, &err) == GMV_OK, "stream", &err);
    for (uint8_t value = 1; !atomic_load(&stop) && atomic_load(&failures) == 0; value++) {
        gmv_memory *memory = NULL;
        gmv_status status =
            gmv_memory_import_shm(device, names[value % SEGMENTS], -1, true, &memory, &err);
        expect(status == GMV_OK, "import", &err);
        if (memory)
            expect(gmv_fill(stream, memory->address, value, NBYTES, &err) == GMV_OK, "fill", &err);
        gmv_memory_free(memory);
    }
    gmv_stream_destroy(stream);
    return NULL;
}

static void compute(gmv_stream *stream, gmv_memory *from, gmv_memory *to)
{
    gmv_error err;
    int64_t null_count = -1;
    gmv_valid_if args = {.input = from->address,
                         .n = NBYTES,
                         .output = to->address,
                         .output_nbytes = NBYTES / 8 / 64 * 64 + 64,
                         .out_null_count = &null_count};
    gmv_error_init(&err);
    expect(gmv_stream_use(stream, from, &err) == GMV_OK, "use", &err);
    expect(gmv_stream_use(stream, to, &err) == GMV_OK, "use", &err);
    expect(gmv_kernel_valid_if(stream, &args, &err) == GMV_OK, "kernel", &err);
    expect(gmv_copy_within(stream, to->address, from->address, NBYTES, &err) == GMV_OK, "copy",
           &err);
    expect(gmv_stream_finish(stream, &err) == GMV_OK, "finish", &err);
    expect(null_count >= 0 && null_count <= NBYTES, "null count", NULL);
}

static void *work(void *argument)
{
    size_t self = (size_t)(uintptr_t)argument;
    gmv_stream *stream = NULL;
    gmv_error err;
    gmv_error_init(&err);
    expect(gmv_stream_create(device, &stream, &err) == GMV_OK, "stream", &err);
    for (size_t round = 0; round < ROUNDS && atomic_load(&failures) == 0; round++) {
        gmv_memory *from = NULL, *to = NULL;
        gmv_share share;
        gmv_memory_kind kind = round % 8 == 0 ? GMV_MEMORY_EXPORTABLE : GMV_MEMORY_ORDINARY;
        uint64_t nbytes = round % 3 == 0 ? 100000 : 32768;
        gmv_status status = gmv_memory_import_shm(device, names[(round + self) % SEGMENTS],
                                                  round % 2 ? -1 : NBYTES, true, &from, &err);
        expect(status == GMV_OK, "import", &err);
        status = gmv_memory_allocate(device, stream, kind, GMV_CONTENTS_ZEROED, nbytes, &to, &err);
        expect(status == GMV_OK, "allocate", &err);
        if (from && to)
            compute(stream, from, to);
        expect(gmv_memory_export(exported, &share, &err) == GMV_OK, "export", &err);
        if (to && kind == GMV_MEMORY_EXPORTABLE)
            expect(gmv_memory_export(to, &share, &err) == GMV_OK, "export", &err);
        gmv_memory_free(from);
        gmv_memory_free(to);
        if (round % 50 == 0)
            gmv_device_trim(device);
    }
    gmv_stream_destroy(stream);
    return NULL;
}

static bool make_segments(void)
{
    for (int i = 0; i < SEGMENTS; i++) {
        snprintf(names[i], sizeof names[i], "/gmvtest-race-%d-%d", (int)getpid(), i);
        descriptors[i] = shm_open(names[i], O_CREAT | O_EXCL | O_RDWR, 0600);
        if (descriptors[i] < 0 || ftruncate(descriptors[i], NBYTES) != 0)
            return false;
    }
    return true;
}

static bool open_device(gmv_stream **out_stream)
{
    gmv_error err;
    gmv_error_init(&err);
    return gmv_device_open_host(NULL, &device, &err) == GMV_OK &&
           gmv_stream_create(device, out_stream, &err) == GMV_OK &&
           gmv_memory_allocate(device, *out_stream, GMV_MEMORY_EXPORTABLE, GMV_CONTENTS_ZEROED,
                               NBYTES, &exported, &err) == GMV_OK;
}

static void run_threads(void)
{
    pthread_t writer, threads[THREADS];
    pthread_create(&writer, NULL, write_to_segments, NULL);
    for (size_t i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, (void *)(uintptr_t)i);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    atomic_store(&stop, true);
    pthread_join(writer, NULL);
}

int main(void)
{
    gmv_stream *stream = NULL;
    printf("1..3\n");
    if (!make_segments() || !open_device(&stream)) {
        printf("Bail out! no segments or no device\n");
        return 1;
    }
    run_threads();
    printf("%s 1 - every call went well in every thread\n", failures == 0 ? "ok" : "not ok");
    bool no_mapping = gmv_device_import_mappings(device) == 0;
    printf("%s 2 - no mapping is left\n", no_mapping ? "ok" : "not ok");
    gmv_memory_free(exported);
    bool no_memory = gmv_device_free_nbytes(device) == gmv_device_describe(device)->total_nbytes;
    printf("%s 3 - no memory is left\n", no_memory ? "ok" : "not ok");
    gmv_stream_destroy(stream);
    gmv_device_close(device);
    for (size_t i = 0; i < SEGMENTS; i++) {
        close(descriptors[i]);
        shm_unlink(names[i]);
    }
    return failures == 0 && no_mapping && no_memory ? 0 : 1;
}
