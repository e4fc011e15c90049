/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fake driver's memory and events of other processes. A handle names the exporter (process and
 * the instant it began), one of its open files, and the allocation in it, laid out as the driver
 * does it. As on a real device it proves nothing: the generation is not checked, so a stale handle
 * may open what the exporter has allocated since, and the size is the handle's own, cut to what is
 * mapped. Handles that break a real driver are violations here.
 */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fake_cuda/fake_priv.h"

#define MEMORY_MAGIC 0x6d656d31u
#define FIRST_GPU    6 /* the number of device 0 in handles */
#define PAGE_NBYTES  UINT64_C(4096)
#define EVENT_SLOTS  4096

typedef struct fake_share {
    uint64_t began; /* of the exporter, in clock ticks since the system's start */
    int32_t process;
    uint32_t none;
    uint64_t nbytes;
    uint32_t n_pages; /* that are mapped */
    uint32_t offset;  /* always 0 */
    uint32_t gpu;
    uint32_t magic;
    uint64_t generation;
    uint32_t client;
    int32_t descriptor;
    uint64_t rest;
} fake_share;

typedef struct fake_event_share {
    uint64_t process;
    uint64_t began;
    uint64_t slot; /* the exporter's descriptor */
    uint64_t rest[5];
} fake_event_share;
_Static_assert(sizeof(fake_share) == 64 && sizeof(fake_event_share) == 64,
               "as large as the driver's");

/* When a process began; 0 if it does not run. */
static uint64_t process_began(int process)
{
    char path[64], text[1024];
    (void)snprintf(path, sizeof path, "/proc/%d/stat", process);
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = descriptor < 0 ? -1 : read(descriptor, text, sizeof text - 1);
    if (descriptor >= 0)
        (void)close(descriptor);
    text[n < 0 ? 0 : n] = '\0';
    char *field = strrchr(text, ')'); /* the name before it may hold anything */
    if (!field || field[1] != ' ' || field[2] == 'Z' || field[2] == 'X')
        return 0;
    for (int i = 0; field && i < 20; i++)
        field = strchr(field + 1, ' ');
    return field ? strtoull(field, NULL, 10) : 0;
}

/*
 * Maps the exporter's file.
 *
 * @retval CUDA_ERROR_INVALID_HANDLE  the exporter is gone
 * @retval CUDA_ERROR_INVALID_VALUE   the file is
 */
static CUresult share_map(int process, uint64_t began, int exported, const char *name,
                          size_t nbytes, uint8_t **out_bytes)
{
    char path[64], target[64], expected[64];
    struct stat file;
    if (began == 0 || process_began(process) != began)
        return CUDA_ERROR_INVALID_HANDLE;
    (void)snprintf(path, sizeof path, "/proc/%d/fd/%d", process, exported);
    (void)snprintf(expected, sizeof expected, "/memfd:%s (deleted)", name);
    ssize_t length = readlink(path, target, sizeof target);
    if (length != (ssize_t)strlen(expected) || memcmp(target, expected, (size_t)length) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    int descriptor = open(path, O_RDWR | O_CLOEXEC);
    if (descriptor < 0)
        return CUDA_ERROR_INVALID_VALUE;
    void *bytes = MAP_FAILED;
    if (fstat(descriptor, &file) == 0 && (uint64_t)file.st_size == nbytes)
        bytes = mmap(NULL, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    (void)close(descriptor);
    if (bytes == MAP_FAILED)
        return CUDA_ERROR_INVALID_VALUE;
    *out_bytes = bytes;
    return CUDA_SUCCESS;
}

/* ---- memory ---------------------------------------------------------------------------------- */

static CUresult ipc_export(CUipcMemHandle *out_handle, CUdeviceptr address)
{
    const fake_span *span = fake_span_find(address);
    if (!span || span->kind != FAKE_ALLOCATION || span->freeing)
        return CUDA_ERROR_INVALID_VALUE;
    const fake_share share = {.began = process_began(getpid()),
                              .process = getpid(),
                              .nbytes = span->nbytes,
                              .n_pages = (uint32_t)(span->mapped_nbytes / PAGE_NBYTES),
                              .magic = MEMORY_MAGIC,
                              .generation = span->generation,
                              .gpu = FIRST_GPU + (uint32_t)span->context->ordinal,
                              .client = ~(uint32_t)getpid(),
                              .descriptor = span->descriptor};
    memcpy(out_handle, &share, sizeof share);
    return CUDA_SUCCESS;
}

CUresult fake_ipc_export(CUipcMemHandle *out_handle, CUdeviceptr address)
{
    FAKE_CALL("cuIpcGetMemHandle", FAKE_IN_CONTEXT, ipc_export(out_handle, address));
}

static CUresult import_make(fake_context *context, const fake_share *share, fake_span **out_span)
{
    uint64_t mapped_nbytes = share->n_pages * PAGE_NBYTES;
    if (mapped_nbytes == 0 || mapped_nbytes % FAKE_GRANULE)
        return CUDA_ERROR_INVALID_VALUE;
    fake_span *span = calloc(1, sizeof *span);
    if (!span)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *span = (fake_span){.kind = FAKE_IMPORT,
                        .context = context,
                        .nbytes = share->nbytes < mapped_nbytes ? share->nbytes : mapped_nbytes,
                        .mapped_nbytes = mapped_nbytes};
    memcpy(span->handle, share, sizeof *share);
    CUresult result = share_map(share->process, share->began, share->descriptor, "fake_cuda_memory",
                                mapped_nbytes, &span->bytes);
    if (result == CUDA_SUCCESS && !fake_span_add(span)) {
        (void)munmap(span->bytes, span->mapped_nbytes);
        result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (result != CUDA_SUCCESS) {
        free(span);
        return result;
    }
    fake.counters.imports++;
    *out_span = span;
    return CUDA_SUCCESS;
}

/* Whether an import of the same allocation is open by a handle that names another exporter. */
static bool ipc_is_contradicted(const fake_share *share)
{
    fake_share other;
    for (size_t i = 0; fake_span_import(i, (uint8_t *)&other); i++)
        if (other.client == share->client && other.descriptor == share->descriptor &&
            (other.process != share->process || other.began != share->began ||
             other.magic != share->magic || other.gpu != share->gpu || other.rest != share->rest))
            return true;
    return false;
}

/* Any device opens the memory: all are peers, and the address does not tell whose it is. */
static CUresult ipc_open(fake_context *context, CUdeviceptr *out_address, CUipcMemHandle handle,
                         unsigned flags)
{
    fake_share share;
    memcpy(&share, &handle, sizeof share);
    if (ipc_is_contradicted(&share)) {
        fake_violate(context, CUDA_ERROR_UNKNOWN, "two handles of one allocation disagree");
        return CUDA_ERROR_UNKNOWN;
    }
    if (flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS || share.magic != MEMORY_MAGIC ||
        share.client != ~(uint32_t)share.process || share.gpu < FIRST_GPU ||
        share.gpu >= FIRST_GPU + (uint32_t)fake.n_devices)
        return CUDA_ERROR_INVALID_VALUE;
    if (share.process == getpid())
        return CUDA_ERROR_INVALID_CONTEXT;
    fake_span *span = fake_span_imported((const uint8_t *)&share);
    if (span && span->context != context)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult result = span ? CUDA_SUCCESS : import_make(context, &share, &span);
    if (result != CUDA_SUCCESS || !span)
        return result;
    span->opens++;
    fake.counters.opens++;
    *out_address = span->address;
    return CUDA_SUCCESS;
}

CUresult fake_ipc_open(CUdeviceptr *out_address, CUipcMemHandle handle, unsigned flags)
{
    FAKE_CALL("cuIpcOpenMemHandle_v2", FAKE_IN_CONTEXT,
              ipc_open(call.context, out_address, handle, flags));
}

static CUresult ipc_close(CUdeviceptr address)
{
    fake_span *span = fake_span_find(address);
    if (!span || span->address != address || span->kind != FAKE_IMPORT || span->opens == 0)
        return CUDA_ERROR_INVALID_VALUE;
    fake.counters.opens--;
    if (--span->opens > 0)
        return CUDA_SUCCESS;
    fake.counters.imports--;
    fake_span_end(span);
    return CUDA_SUCCESS;
}

CUresult fake_ipc_close(CUdeviceptr address)
{
    FAKE_RELEASE("cuIpcCloseMemHandle", FAKE_IN_CONTEXT, ipc_close(address));
}

/* ---- events ---------------------------------------------------------------------------------- */

static CUresult ipc_export_event(CUipcEventHandle *out_handle, CUevent handle)
{
    const fake_event *event = fake_handle_object(FAKE_EVENT, handle);
    if (!event || event->descriptor < 0)
        return CUDA_ERROR_INVALID_HANDLE;
    const fake_event_share share = {.process = (uint64_t)getpid(),
                                    .began = process_began(getpid()),
                                    .slot = (uint64_t)event->descriptor};
    memcpy(out_handle, &share, sizeof share);
    return CUDA_SUCCESS;
}

CUresult fake_ipc_export_event(CUipcEventHandle *out_handle, CUevent event)
{
    FAKE_CALL("cuIpcGetEventHandle", FAKE_IN_CONTEXT, ipc_export_event(out_handle, event));
}

/* An event whose exporter is gone is one that has happened. */
static CUresult ipc_open_event(fake_context *context, CUevent *out_event, CUipcEventHandle handle)
{
    fake_event_share share;
    uint8_t *state = NULL;
    memcpy(&share, &handle, sizeof share);
    if (share.process == 0 || share.process > INT_MAX || share.began == 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (share.process == (uint64_t)getpid())
        return CUDA_ERROR_INVALID_CONTEXT;
    if (share.slot >= EVENT_SLOTS) {
        fake_violate(context, CUDA_ERROR_UNKNOWN, "an event beyond its page is read");
        return CUDA_ERROR_UNKNOWN;
    }
    CUresult result = share_map((int)share.process, share.began, (int)share.slot, "fake_cuda_event",
                                sizeof(fake_event_state), &state);
    if (result != CUDA_SUCCESS && result != CUDA_ERROR_INVALID_HANDLE)
        return result;
    fake_event *event = fake_event_make(context, CU_EVENT_DISABLE_TIMING);
    if (!event) {
        if (state)
            (void)munmap(state, sizeof(fake_event_state));
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (state) {
        event->state = (fake_event_state *)(void *)state;
        event->mapped_nbytes = sizeof(fake_event_state);
    }
    *out_event = event->handle;
    return CUDA_SUCCESS;
}

CUresult fake_ipc_open_event(CUevent *out_event, CUipcEventHandle handle)
{
    FAKE_CALL("cuIpcOpenEventHandle", FAKE_IN_CONTEXT,
              ipc_open_event(call.context, out_event, handle));
}
