/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fake driver's memory and events of other processes. A handle names the exporter (process and
 * the instant it began), one of its open files, and the allocation in it. As on a real device it
 * proves nothing: the generation is not checked, so a stale handle may open what the exporter has
 * allocated since, and the size is the handle's own, cut to what is mapped.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fake_cuda/fake_priv.h"

#define MEMORY_MAGIC UINT64_C(0x4950436d656d3031)
#define EVENT_MAGIC  UINT64_C(0x4950436576743031)

typedef struct fake_share {
    uint64_t magic;
    uint64_t began; /* of the exporter, in clock ticks since the system's start */
    uint64_t nbytes;
    uint64_t mapped_nbytes;
    int32_t process;
    int32_t descriptor;
    uint32_t generation;
    int32_t ordinal;
    uint8_t rest[16];
} fake_share;
_Static_assert(sizeof(fake_share) == 64, "as large as the driver's");

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

static fake_share share_make(uint64_t magic, int descriptor)
{
    return (fake_share){.magic = magic,
                        .began = process_began(getpid()),
                        .process = getpid(),
                        .descriptor = descriptor};
}

/*
 * Maps the exporter's file.
 *
 * @retval CUDA_ERROR_INVALID_HANDLE  the exporter is gone
 * @retval CUDA_ERROR_INVALID_VALUE   the file is
 */
static CUresult share_map(const fake_share *share, const char *name, size_t nbytes,
                          uint8_t **out_bytes)
{
    char path[64], target[64], expected[64];
    struct stat file;
    if (share->began == 0 || process_began(share->process) != share->began)
        return CUDA_ERROR_INVALID_HANDLE;
    (void)snprintf(path, sizeof path, "/proc/%d/fd/%d", share->process, share->descriptor);
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
    fake_share share = share_make(MEMORY_MAGIC, span->descriptor);
    share.nbytes = span->nbytes;
    share.mapped_nbytes = span->mapped_nbytes;
    share.generation = span->generation;
    share.ordinal = span->context->ordinal;
    memcpy(out_handle, &share, sizeof share);
    return CUDA_SUCCESS;
}

CUresult fake_ipc_export(CUipcMemHandle *out_handle, CUdeviceptr address)
{
    FAKE_CALL("cuIpcGetMemHandle", FAKE_IN_CONTEXT, ipc_export(out_handle, address));
}

static CUresult import_make(fake_context *context, const fake_share *share, fake_span **out_span)
{
    if (share->mapped_nbytes == 0 || share->mapped_nbytes % FAKE_GRANULE)
        return CUDA_ERROR_INVALID_VALUE;
    fake_span *span = calloc(1, sizeof *span);
    if (!span)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *span = (fake_span){.kind = FAKE_IMPORT,
                        .context = context,
                        .nbytes = share->nbytes < share->mapped_nbytes ? share->nbytes
                                                                       : share->mapped_nbytes,
                        .mapped_nbytes = share->mapped_nbytes};
    memcpy(span->handle, share, sizeof *share);
    CUresult result = share_map(share, "fake_cuda_memory", share->mapped_nbytes, &span->bytes);
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

static CUresult ipc_open(fake_context *context, CUdeviceptr *out_address, CUipcMemHandle handle,
                         unsigned flags)
{
    fake_share share;
    memcpy(&share, &handle, sizeof share);
    if (flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS || share.magic != MEMORY_MAGIC ||
        share.ordinal != context->ordinal)
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
    fake_share share = share_make(EVENT_MAGIC, event->descriptor);
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
    fake_share share;
    uint8_t *state = NULL;
    memcpy(&share, &handle, sizeof share);
    if (share.magic != EVENT_MAGIC)
        return CUDA_ERROR_INVALID_VALUE;
    if (share.process == getpid())
        return CUDA_ERROR_INVALID_CONTEXT;
    CUresult result = share_map(&share, "fake_cuda_event", sizeof(fake_event_state), &state);
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
