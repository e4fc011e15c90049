/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sharing device memory between processes through CUDA's handles, with a second process that is
 * really one: it is made before either has touched the driver. A plain program that prints TAP.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gmv/base/alloc.h>
#include <gmv/device/device.h>

#define NBYTES ((uint64_t)3 << 20 | 5)

static int checks;
static int failures;

static void check(bool good, const char *name)
{
    checks++;
    failures += !good;
    printf("%sok %d - %s\n", good ? "" : "not ", checks, name);
    fflush(stdout);
}

typedef struct side {
    gmv_device *device;
    gmv_stream *stream;
    gmv_error err;
} side;

static bool side_open(side *s)
{
    memset(s, 0, sizeof *s);
    gmv_error_init(&s->err);
    return gmv_device_open_cuda(NULL, &s->device, &s->err) == GMV_OK &&
           gmv_stream_create(s->device, &s->stream, &s->err) == GMV_OK;
}

static void side_close(side *s)
{
    gmv_stream_destroy(s->stream);
    gmv_device_close(s->device);
}

static bool holds(side *s, uint64_t address, uint8_t value, uint64_t nbytes)
{
    uint8_t *bytes = gmv_malloc(nbytes);
    bool good = bytes && gmv_copy_out(s->stream, bytes, address, nbytes, &s->err) == GMV_OK &&
                gmv_stream_finish(s->stream, &s->err) == GMV_OK && bytes[0] == value &&
                memcmp(bytes, bytes + 1, nbytes - 1) == 0;
    gmv_free(bytes);
    return good;
}

/* ---- the other process ----------------------------------------------------------------------- */

typedef struct message {
    bool good;
    bool has_event;
    gmv_share share;
    uint8_t event[GMV_IPC_HANDLE_NBYTES];
} message;

/* An event for other processes, made with the driver's own calls. */
static bool make_event(uint8_t out_handle[GMV_IPC_HANDLE_NBYTES])
{
    union {
        void *address;
        int (*get)(int *device, int ordinal);
        int (*retain)(void **context, int device);
        int (*set)(void *context);
        int (*create)(void **event, unsigned flags);
        int (*record)(void *event, void *stream);
        int (*export_event)(void *handle, void *event);
    } call;
    void *library = dlopen("libcuda.so.1", RTLD_NOW), *context, *event;
    int device;
    if (!library)
        return false;
    call.address = dlsym(library, "cuDeviceGet");
    if (!call.address || call.get(&device, 0) != 0)
        return false;
    call.address = dlsym(library, "cuDevicePrimaryCtxRetain");
    if (!call.address || call.retain(&context, device) != 0)
        return false;
    call.address = dlsym(library, "cuCtxSetCurrent");
    if (!call.address || call.set(context) != 0)
        return false;
    call.address = dlsym(library, "cuEventCreate");
    if (!call.address || call.create(&event, 2 | 4) != 0) /* no timing, interprocess */
        return false;
    call.address = dlsym(library, "cuEventRecord");
    if (!call.address || call.record(event, NULL) != 0)
        return false;
    call.address = dlsym(library, "cuIpcGetEventHandle");
    return call.address && call.export_event(out_handle, event) == 0;
}

/* Its own handle must be known to it before the driver sees it. */
static bool refuses_own(side *s, gmv_memory *memory, const gmv_share *share)
{
    gmv_memory *none = NULL;
    gmv_status status =
        gmv_memory_import_ipc(s->device, share->ipc_handle, -1, true, &none, &s->err);
    return status == GMV_ERR_HANDLE_EXPORTED_HERE && !none && s->err.has_subject &&
           gmv_id_equal(&s->err.subject, &memory->owner) &&
           strcmp(s->err.pointer, "/cuda_ipc/handle") == 0;
}

static bool exporter_begin(side *s, gmv_memory **out_memory, message *out)
{
    gmv_share again;
    if (!side_open(s) ||
        gmv_memory_allocate(s->device, s->stream, GMV_MEMORY_EXPORTABLE, GMV_CONTENTS_UNSPECIFIED,
                            NBYTES, out_memory, &s->err) != GMV_OK ||
        gmv_fill(s->stream, (*out_memory)->address, 0x11, NBYTES, &s->err) != GMV_OK ||
        gmv_stream_finish(s->stream, &s->err) != GMV_OK ||
        gmv_memory_export(*out_memory, &out->share, &s->err) != GMV_OK ||
        gmv_memory_export(*out_memory, &again, &s->err) != GMV_OK)
        return false;
    (*out_memory)->owner = (gmv_id){.high = 1, .low = 2, .kind = GMV_KIND_BUFFER};
    out->has_event = make_event(out->event);
    return memcmp(again.ipc_handle, out->share.ipc_handle, GMV_IPC_HANDLE_NBYTES) == 0 &&
           out->share.mechanism == GMV_SHARE_CUDA_IPC && out->share.offset == 0 &&
           out->share.nbytes == NBYTES && strncmp(out->share.device_uuid, "GPU-", 4) == 0 &&
           refuses_own(s, *out_memory, &out->share);
}

/* Exports, waits until it is told that the other has written, looks, and leaves without freeing. */
static int exporter_main(int from, int to)
{
    side s;
    gmv_memory *memory = NULL;
    message out = {0};
    char byte;
    out.good = exporter_begin(&s, &memory, &out);
    if (!out.good)
        fprintf(stderr, "# exporter: %s\n", s.err.message);
    if (write(to, &out, sizeof out) != sizeof out || !out.good || read(from, &byte, 1) != 1)
        return 1;
    bool seen = holds(&s, memory->address, 0x22, NBYTES);
    if (write(to, &seen, sizeof seen) != sizeof seen || read(from, &byte, 1) != 1)
        return 1;
    return 0;
}

/* ---- this process ---------------------------------------------------------------------------- */

static gmv_status import(side *s, const uint8_t *handle, int64_t nbytes, gmv_memory **out)
{
    gmv_error_init(&s->err);
    *out = NULL;
    return gmv_memory_import_ipc(s->device, handle, nbytes, true, out, &s->err);
}

static void check_one(side *s, const message *in, gmv_memory **out_memory)
{
    gmv_memory *again = NULL, *none = NULL;
    check(import(s, in->share.ipc_handle, (int64_t)NBYTES, out_memory) == GMV_OK,
          "another process's memory is imported");
    gmv_memory *memory = *out_memory;
    if (!memory) {
        printf("Bail out! %s\n", s->err.message);
        exit(1);
    }
    check(memory->kind == GMV_MEMORY_IMPORTED && memory->nbytes == NBYTES && !memory->readonly,
          "an import covers what it claims");
    check(holds(s, memory->address, 0x11, NBYTES), "it holds what the exporter wrote");
    check(import(s, in->share.ipc_handle, -1, &again) == GMV_OK &&
              again->address == memory->address && again->nbytes >= NBYTES &&
              gmv_device_import_mappings(s->device) == 1,
          "a second import shares the mapping");
    check(!gmv_memory_retire(again), "the first of two to be retired gives nothing back");
    gmv_memory_free(again);
    check(import(s, in->share.ipc_handle, INT64_MAX, &none) == GMV_ERR_OUT_OF_BOUNDS &&
              strcmp(s->err.pointer, "/cuda_ipc/nbytes") == 0,
          "a claim beyond the allocation is out of bounds");
    check(import(s, in->share.ipc_handle, 0, &none) == GMV_OK && none->address == 0,
          "an import of no bytes has no address");
    gmv_memory_free(none);
    check(gmv_device_import_mappings(s->device) == 1, "failures and empty imports leave nothing");
}

static void check_refusals(side *s)
{
    static const uint8_t fills[] = {0x00, 0xff, 0x5a};
    uint8_t handle[GMV_IPC_HANDLE_NBYTES];
    gmv_memory *none = NULL;
    bool good = true;
    for (size_t i = 0; i < 3; i++) {
        memset(handle, fills[i], sizeof handle);
        good = good && import(s, handle, -1, &none) == GMV_ERR_HANDLE_INVALID && !none &&
               strcmp(s->err.pointer, "/cuda_ipc/handle") == 0;
    }
    check(good, "bytes that are no handle are refused");
    gmv_error_init(&s->err);
    check(gmv_stream_wait_event(s->stream, handle, &s->err) == GMV_ERR_HANDLE_INVALID &&
              strcmp(s->err.pointer, "/event") == 0,
          "bytes that are no event are refused");
    check(gmv_memory_import_shm(s->device, "/x", -1, true, &none, &s->err) ==
              GMV_ERR_BACKEND_UNSUPPORTED,
          "host segments are the host backend's");
    check(!gmv_device_is_lost(s->device, NULL), "no refusal loses the device");
}

/*
 * Beside a good import of the same memory: a handle that names another process, or anything else
 * than its driver has written, and yet the same allocation.
 */
static void check_damaged(side *s, const message *in)
{
    uint8_t handle[GMV_IPC_HANDLE_NBYTES];
    gmv_memory *none = NULL;
    bool good = true;
    for (size_t i = 0; i < GMV_IPC_HANDLE_NBYTES * 8 && good; i++) {
        size_t place = i / 8;
        /* The size and the offset, which may differ, and what names the allocation. */
        if ((place >= 16 && place < 32) || (place >= 48 && place < 56))
            continue;
        memcpy(handle, in->share.ipc_handle, sizeof handle);
        handle[place] ^= (uint8_t)(1u << i % 8);
        good = import(s, handle, -1, &none) == GMV_ERR_HANDLE_INVALID && !none &&
               strcmp(s->err.pointer, "/cuda_ipc/handle") == 0;
        if (!good)
            printf("# byte %zu, bit %zu\n", place, i % 8);
    }
    check(good && gmv_device_import_mappings(s->device) == 1,
          "a handle that contradicts one that is open is refused");
}

static gmv_status wait_event(side *s, const uint8_t *handle)
{
    gmv_status status;
    do {
        gmv_error_init(&s->err);
        status = gmv_stream_wait_event(s->stream, handle, &s->err);
    } while (status == GMV_RUN_AGAIN);
    return status;
}

/* The driver would read them where there is nothing. */
static void check_damaged_events(side *s, const message *in)
{
    bool good = in->has_event;
    for (size_t i = 16 * 8 + 12; i < GMV_IPC_HANDLE_NBYTES * 8 && good; i++) {
        uint8_t handle[GMV_IPC_HANDLE_NBYTES];
        memcpy(handle, in->event, sizeof handle);
        handle[i / 8] ^= (uint8_t)(1u << i % 8);
        good = wait_event(s, handle) == GMV_ERR_HANDLE_INVALID &&
               strcmp(s->err.pointer, "/event") == 0;
    }
    check(good, "events outside their page are refused");
}

typedef struct importer {
    side *s;
    const message *in;
    gmv_memory *memory;
} importer;

static void *import_in_thread(void *argument)
{
    importer *one = argument;
    gmv_error err;
    gmv_error_init(&err);
    if (gmv_memory_import_ipc(one->s->device, one->in->share.ipc_handle, -1, true, &one->memory,
                              &err) != GMV_OK)
        one->memory = NULL;
    return NULL;
}

static void check_threads(side *s, const message *in)
{
    enum { THREADS = 8, ROUNDS = 20 };
    pthread_t threads[THREADS];
    bool good = true;
    for (int round = 0; round < ROUNDS; round++) {
        importer importers[THREADS];
        for (int i = 0; i < THREADS; i++) {
            importers[i] = (importer){s, in, NULL};
            if (pthread_create(&threads[i], NULL, import_in_thread, &importers[i]) != 0)
                exit(1);
        }
        for (int i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
        good = good && gmv_device_import_mappings(s->device) == 1;
        for (int i = 0; i < THREADS; i++)
            good = good && importers[i].memory && importers[0].memory &&
                   importers[i].memory->address == importers[0].memory->address;
        for (int i = 0; i < THREADS; i++)
            gmv_memory_free(importers[i].memory);
        good = good && gmv_device_import_mappings(s->device) == 0;
    }
    check(good, "threads that import one handle at once share one mapping");
}

static void importer_main(side *s, int from, int to, pid_t child)
{
    message in;
    gmv_memory *memory = NULL, *none = NULL;
    bool seen = false;
    if (read(from, &in, sizeof in) != sizeof in)
        memset(&in, 0, sizeof in);
    check(in.good, "the exporter exports, the same each time, and knows its own handle");
    if (!in.good)
        return;
    check_threads(s, &in);
    check_one(s, &in, &memory);
    check_refusals(s);
    check_damaged(s, &in);
    check_damaged_events(s, &in);
    check(in.has_event && wait_event(s, in.event) == GMV_OK &&
              gmv_stream_finish(s->stream, &s->err) == GMV_OK,
          "another process's event is waited for");
    bool written = gmv_fill(s->stream, memory->address, 0x22, NBYTES, &s->err) == GMV_OK &&
                   gmv_stream_finish(s->stream, &s->err) == GMV_OK;
    check(written && write(to, "w", 1) == 1 && read(from, &seen, sizeof seen) == sizeof seen &&
              seen,
          "the exporter sees what is written");
    int status = -1;
    check(write(to, "x", 1) == 1 && waitpid(child, &status, 0) == child && status == 0,
          "the exporter leaves");
    check(holds(s, memory->address, 0x22, NBYTES), "the memory outlives its exporter");
    check(gmv_memory_retire(memory), "the last one to be retired gives the memory back");
    gmv_memory_free(memory);
    check(gmv_device_import_mappings(s->device) == 0, "nothing is mapped any more");
    check(import(s, in.share.ipc_handle, -1, &none) == GMV_ERR_HANDLE_INVALID,
          "the handle of an exporter that is gone is refused");
}

int main(void)
{
    int down[2], up[2];
    if (pipe(down) != 0 || pipe(up) != 0)
        return 1;
    pid_t child = fork();
    if (child == 0) {
        close(down[1]);
        close(up[0]);
        _exit(exporter_main(down[0], up[1]));
    }
    close(down[0]);
    close(up[1]);
    side s;
    if (!side_open(&s)) {
        printf("1..0 # SKIP no CUDA device: %s\n", s.err.message);
        return 0;
    }
    importer_main(&s, up[0], down[1], child);
    side_close(&s);
    printf("1..%d\n", checks);
    return failures != 0;
}
