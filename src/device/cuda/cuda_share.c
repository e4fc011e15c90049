/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sharing memory with other processes by the driver's legacy handles: 64 bytes that name a whole
 * allocation and prove nothing. They are compared whole and never parsed, logged or given back.
 *
 * Handles of our own are found in a table before the driver is asked. A foreign one is opened once,
 * outside the lock, by whoever comes first; the others wait for the outcome and share it. Its size
 * is what the driver says, so no work can leave what is mapped. It is closed when the last memory
 * that uses it is freed, never kept to be opened again: by then it may name other data.
 *
 * The table of imports is the process's, not a device's: a handle is open on one device, the one
 * that its memory is on, although a peer could open it as well, and no handle is opened beside
 * another one that it contradicts, whichever device that is on.
 */
#include <string.h>
#include <time.h>

#include <gmv/base/alloc.h>
#include <gmv/base/clock.h>

#include "device/cuda/cuda_priv.h"

#define HANDLE_POINTER "/cuda_ipc/handle"
#define NBYTES_POINTER "/cuda_ipc/nbytes"
#define EVENT_POINTER  "/event"

_Static_assert(sizeof(CUipcMemHandle) == GMV_IPC_HANDLE_NBYTES &&
                   sizeof(CUipcEventHandle) == GMV_IPC_HANDLE_NBYTES,
               "handles are 64 bytes");

/* Handles of one allocation fall into one bucket. */
static size_t handle_bucket(const uint8_t handle[GMV_IPC_HANDLE_NBYTES])
{
    return gmv__cuda_handle_key(handle) * UINT64_C(0x9e3779b97f4a7c15) >> 56;
}
_Static_assert(CUDA_HANDLE_BUCKETS == 256, "as many as the hash has values");

static bool handle_equal(const uint8_t *a, const uint8_t *b)
{
    return memcmp(a, b, GMV_IPC_HANDLE_NBYTES) == 0;
}

/* ---- exports ---- */

/* Makes `handle` the memory's unless another thread was faster. */
static void export_publish(cuda_exports *exports, cuda_memory *memory, const CUipcMemHandle *handle)
{
    pthread_mutex_lock(&exports->lock);
    if (!memory->exported) {
        memcpy(memory->handle, handle, sizeof memory->handle);
        cuda_memory **head = &exports->buckets[handle_bucket(memory->handle)];
        memory->exported = true;
        memory->next_export = *head;
        *head = memory;
    }
    pthread_mutex_unlock(&exports->lock);
}

static bool export_is_done(cuda_exports *exports, const cuda_memory *memory)
{
    pthread_mutex_lock(&exports->lock);
    bool done = memory->exported;
    pthread_mutex_unlock(&exports->lock);
    return done;
}

gmv_status gmv__cuda_memory_export(gmv_memory *base, gmv_share *out_share, gmv_error *err)
{
    cuda_memory *memory = cuda_memory_of(base);
    cuda_device *device = cuda_device_of(base->device);
    if (!export_is_done(&device->exports, memory)) {
        CUipcMemHandle handle;
        CUDA_SCOPE(device);
        CUDA_TRY(device, ipc_export(&handle, base->address), err);
        export_publish(&device->exports, memory, &handle);
    }
    *out_share = (gmv_share){.mechanism = GMV_SHARE_CUDA_IPC, .nbytes = base->nbytes};
    memcpy(out_share->ipc_handle, memory->handle, sizeof out_share->ipc_handle);
    memcpy(out_share->device_uuid, base->device->info.uuid, sizeof out_share->device_uuid);
    return GMV_OK;
}

void gmv__cuda_export_forget(cuda_device *device, cuda_memory *memory)
{
    if (memory->base.kind != GMV_MEMORY_EXPORTABLE)
        return;
    pthread_mutex_lock(&device->exports.lock);
    if (memory->exported) {
        cuda_memory **link = &device->exports.buckets[handle_bucket(memory->handle)];
        while (*link && *link != memory)
            link = &(*link)->next_export;
        if (*link)
            *link = memory->next_export;
        memory->exported = false;
    }
    pthread_mutex_unlock(&device->exports.lock);
}

/* Fails if the handle is one that this daemon has given out. */
static gmv_status export_check_foreign(cuda_device *device, const uint8_t *handle, gmv_error *err)
{
    gmv_id owner = {0};
    pthread_mutex_lock(&device->exports.lock);
    const cuda_memory *memory = device->exports.buckets[handle_bucket(handle)];
    while (memory && !handle_equal(memory->handle, handle))
        memory = memory->next_export;
    if (memory)
        owner = memory->base.owner;
    bool found = memory != NULL;
    pthread_mutex_unlock(&device->exports.lock);
    if (!found)
        return GMV_OK;
    gmv_status status = gmv_fail(err, GMV_ERR_HANDLE_EXPORTED_HERE, HANDLE_POINTER,
                                 "this daemon has exported that memory itself; use the buffer's "
                                 "own handle");
    if (err && owner.kind != GMV_KIND_ANY) {
        err->has_subject = true;
        err->subject = owner;
        err->subject_alive = true;
    }
    return status;
}

/* ---- what the driver says of a handle ---- */

typedef struct handle_row {
    CUresult result;
    const char *message;
} handle_row;

static const char handle_same_process[] =
    "the driver takes the exporter for this very process: it has the same process id in another "
    "PID namespace; let the containers share one (--pid=host or --pid=container:NAME)";
static const char handle_gone[] =
    "the exporter is gone, or holds the memory in another context; export it again from a process "
    "that is running";
static const char handle_elsewhere[] =
    "the handle is of no memory on this device, but of another GPU or MIG instance (compare the "
    "uuid, and have gmvd serve that device, too), or it is none of cudaIpcGetMemHandle; containers "
    "share memory in one PID and IPC namespace only";

static const handle_row handle_rows[] = {
    {CUDA_ERROR_INVALID_VALUE,
     "the handle is no longer good, not one of cudaIpcGetMemHandle, or of memory that it cannot "
     "carry (cudaMallocAsync, pools, VMM, managed); allocate with cudaMalloc and export again"},
    {CUDA_ERROR_INVALID_CONTEXT, handle_same_process},
    {CUDA_ERROR_INVALID_HANDLE, handle_gone},
    {CUDA_ERROR_MAP_FAILED, handle_elsewhere},
    {CUDA_ERROR_ALREADY_MAPPED, handle_elsewhere},
    {CUDA_ERROR_INVALID_DEVICE, handle_elsewhere},
    {CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, handle_elsewhere},
    {CUDA_ERROR_TOO_MANY_PEERS, handle_elsewhere},
    {CUDA_ERROR_NOT_SUPPORTED,
     "this system has no CUDA interprocess handles; the driver refuses them under some "
     "virtualization"},
};

static gmv_status handle_fail(cuda_device *device, CUresult result, const char *what,
                              const char *pointer, gmv_error *err)
{
    if (result == CUDA_ERROR_OUT_OF_MEMORY || gmv__cuda_is_lost(device, result))
        return gmv__cuda_fail(device, result, what, err);
    gmv__cuda_log(what, result);
    const char *message = "the driver cannot open the handle; export it again";
    for (size_t i = 0; i < sizeof handle_rows / sizeof handle_rows[0]; i++)
        if (handle_rows[i].result == result)
            message = handle_rows[i].message;
    return gmv_fail(err, GMV_ERR_HANDLE_INVALID, pointer, "%s", message);
}

/* ---- the table of imports ---- */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t opened;
    cuda_import *buckets[CUDA_HANDLE_BUCKETS];
} imports = {.lock = PTHREAD_MUTEX_INITIALIZER, .opened = PTHREAD_COND_INITIALIZER};

/* Under the lock. */
static void imports_unlink(const cuda_import *import)
{
    cuda_import **link = &imports.buckets[handle_bucket(import->handle)];
    while (*link && *link != import)
        link = &(*link)->next;
    if (*link)
        *link = import->next;
}

/* Under the lock: the entry of this very handle; *out_agree: no entry contradicts the handle. */
static cuda_import *imports_find(const cuda_import *fresh, bool *out_agree)
{
    cuda_import *found = NULL;
    *out_agree = true;
    for (cuda_import *import = imports.buckets[handle_bucket(fresh->handle)]; import;
         import = import->next) {
        if (handle_equal(import->handle, fresh->handle))
            found = import;
        else if (!gmv__cuda_handles_agree(fresh->device, import->handle, fresh->handle))
            *out_agree = false;
    }
    return found;
}

/* Under the lock: waits until a counted entry is open or has failed. */
static void imports_wait(const cuda_import *import)
{
    while (import->state == CUDA_IMPORT_OPENING)
        pthread_cond_wait(&imports.opened, &imports.lock);
}

/*
 * Counts the import of fresh->handle and waits until it is open or has failed; or enters `fresh`
 * itself as opening, and returns it; or NULL and *out_result where it must not be opened here.
 */
static cuda_import *imports_join(cuda_import *fresh, CUresult *out_result)
{
    bool agree;
    if (!gmv__cuda_handle_is_local(fresh->device, fresh->handle)) {
        *out_result = CUDA_ERROR_INVALID_DEVICE;
        return NULL;
    }
    cuda_import **head = &imports.buckets[handle_bucket(fresh->handle)];
    pthread_mutex_lock(&imports.lock);
    cuda_import *import = imports_find(fresh, &agree);
    /* Another device tries it: what comes of that says whether this one may. */
    while (import && import->device != fresh->device && import->state == CUDA_IMPORT_OPENING) {
        pthread_cond_wait(&imports.opened, &imports.lock);
        import = imports_find(fresh, &agree);
    }
    if (import && import->device == fresh->device) {
        import->count++;
        imports_wait(import);
    } else if (import || !agree) {
        *out_result = import ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_INVALID_VALUE;
        import = NULL;
    } else {
        import = fresh;
        import->next = *head;
        *head = import;
    }
    pthread_mutex_unlock(&imports.lock);
    return import;
}

/*
 * The driver believes the offset that a handle's bytes give, and the range it then reports may
 * reach past what is mapped: one flipped bit there, and a read at the end loses the device (seen on
 * driver 580). A range that is not inside its mapping is no good handle's.
 */
static CUresult import_check_mapped(const cuda_import *import)
{
    CUdeviceptr mapping = 0;
    size_t mapped_nbytes = 0;
    CUresult result = gmv__cuda.pointer_attribute(&mapping, CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR,
                                                  import->opened);
    if (result == CUDA_SUCCESS)
        result = gmv__cuda.pointer_attribute(&mapped_nbytes, CU_POINTER_ATTRIBUTE_MAPPING_SIZE,
                                             import->opened);
    if (result != CUDA_SUCCESS)
        return result;
    bool is_inside = import->base >= mapping && import->base - mapping <= mapped_nbytes &&
                     import->nbytes <= mapped_nbytes - (import->base - mapping);
    return is_inside ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Opens and measures; closed again if that fails, unless the device is lost with it. */
static CUresult import_open(cuda_device *device, cuda_import *import)
{
    CUipcMemHandle handle;
    memcpy(&handle, import->handle, sizeof handle);
    CUresult result =
        gmv__cuda.ipc_open(&import->opened, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    if (result != CUDA_SUCCESS)
        return result;
    result = gmv__cuda.memory_range(&import->base, &import->nbytes, import->opened);
    if (result == CUDA_SUCCESS && import->nbytes == 0)
        result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_ERROR_NOT_FOUND)
        result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        result = import_check_mapped(import);
    if (result != CUDA_SUCCESS && !gmv__cuda_is_lost(device, result))
        (void)gmv__cuda.ipc_close(import->opened);
    return result;
}

/* Opens what imports_join has entered, and tells those who wait. */
static void imports_open(cuda_device *device, cuda_import *import)
{
    CUresult result = import_open(device, import);
    pthread_mutex_lock(&imports.lock);
    import->result = result;
    import->state = result == CUDA_SUCCESS ? CUDA_IMPORT_OPEN : CUDA_IMPORT_FAILED;
    if (result == CUDA_SUCCESS)
        atomic_fetch_add(&device->n_mappings, 1);
    else
        imports_unlink(import);
    pthread_cond_broadcast(&imports.opened);
    pthread_mutex_unlock(&imports.lock);
}

/* Gives up one count; the last one closes what is open. */
static void import_release(cuda_device *device, cuda_import *import)
{
    pthread_mutex_lock(&imports.lock);
    bool last = --import->count == 0;
    bool opened = import->state == CUDA_IMPORT_OPEN;
    if (last && opened)
        imports_unlink(import);
    pthread_mutex_unlock(&imports.lock);
    if (!last)
        return;
    if (opened) {
        atomic_fetch_sub(&device->n_mappings, 1);
        if (!gmv_device_is_lost(&device->base, NULL)) {
            CUDA_SCOPE(device);
            CUresult result = gmv__cuda.ipc_close(import->opened);
            if (result != CUDA_SUCCESS) {
                gmv__cuda_log("ipc_close", result);
                (void)gmv__cuda_is_lost(device, result);
            }
        }
    }
    gmv_free(import);
}

/* A counted, open import of the handle. */
static gmv_status import_acquire(cuda_device *device, const uint8_t *handle,
                                 cuda_import **out_import, gmv_error *err)
{
    cuda_import *fresh = gmv_calloc(1, sizeof *fresh);
    if (!fresh)
        return gmv_fail_no_memory(err);
    memcpy(fresh->handle, handle, sizeof fresh->handle);
    fresh->device = device;
    fresh->state = CUDA_IMPORT_OPENING;
    fresh->count = 1;
    CUresult result = CUDA_SUCCESS;
    cuda_import *import = imports_join(fresh, &result);
    if (import == fresh)
        imports_open(device, import);
    else
        gmv_free(fresh);
    if (!import)
        return handle_fail(device, result, "imports_join", HANDLE_POINTER, err);
    if (import->state == CUDA_IMPORT_OPEN) {
        *out_import = import;
        return GMV_OK;
    }
    result = import->result;
    import_release(device, import);
    return handle_fail(device, result, "ipc_open", HANDLE_POINTER, err);
}

/* ---- imported memory ---- */

static gmv_status import_cover(const cuda_import *import, int64_t claim, uint64_t *out_nbytes,
                               gmv_error *err)
{
    if (claim >= 0 && (uint64_t)claim > import->nbytes)
        return gmv_fail(err, GMV_ERR_OUT_OF_BOUNDS, NBYTES_POINTER,
                        "nbytes is %lld, but the allocation has %llu bytes", (long long)claim,
                        (unsigned long long)import->nbytes);
    *out_nbytes = claim < 0 ? import->nbytes : (uint64_t)claim;
    return GMV_OK;
}

static gmv_status import_memory(cuda_device *device, const uint8_t *handle, int64_t claim,
                                cuda_memory *memory, gmv_error *err)
{
    uint64_t nbytes = 0;
    CUDA_SCOPE(device);
    GMV_TRY(export_check_foreign(device, handle, err));
    GMV_TRY(import_acquire(device, handle, &memory->import, err));
    gmv_status status = import_cover(memory->import, claim, &nbytes, err);
    if (status != GMV_OK || nbytes == 0) {
        import_release(device, memory->import);
        memory->import = NULL;
        return status;
    }
    atomic_fetch_add(&memory->import->users, 1);
    memory->base.address = memory->import->base;
    memory->base.nbytes = nbytes;
    memory->base.capacity = nbytes;
    return GMV_OK;
}

gmv_status gmv__cuda_memory_import_ipc(gmv_device *base,
                                       const uint8_t handle[GMV_IPC_HANDLE_NBYTES], int64_t nbytes,
                                       bool writable, gmv_memory **out_memory, gmv_error *err)
{
    cuda_memory *memory = gmv_calloc(1, sizeof *memory);
    if (!memory)
        return gmv_fail_no_memory(err);
    memory->base.device = base;
    memory->base.kind = GMV_MEMORY_IMPORTED;
    memory->base.readonly = !writable;
    gmv_status status = import_memory(cuda_device_of(base), handle, nbytes, memory, err);
    if (status != GMV_OK) {
        gmv_free(memory);
        return status;
    }
    *out_memory = &memory->base;
    return GMV_OK;
}

bool gmv__cuda_memory_retire(gmv_memory *base)
{
    cuda_memory *memory = cuda_memory_of(base);
    if (memory->retired || !memory->import)
        return false;
    memory->retired = true;
    return atomic_fetch_sub(&memory->import->users, 1) == 1;
}

void gmv__cuda_import_free(cuda_device *device, cuda_memory *memory)
{
    (void)gmv__cuda_memory_retire(&memory->base);
    if (memory->import)
        import_release(device, memory->import);
}

/* ---- events ---- */

#define EVENT_POLL_NS  500000 /* for which a thread waits for an event */
#define EVENT_PAUSE_NS 20000

static gmv_status event_open(cuda_device *device, const uint8_t *handle, CUevent *out_event,
                             gmv_error *err)
{
    CUipcEventHandle opaque;
    memcpy(&opaque, handle, sizeof opaque);
    CUresult result = gmv__cuda_handle_is_event(device, handle)
                          ? gmv__cuda.ipc_open_event(out_event, opaque)
                          : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        return GMV_OK;
    if (result == CUDA_ERROR_OUT_OF_MEMORY || gmv__cuda_is_lost(device, result))
        return gmv__cuda_fail(device, result, "ipc_open_event", err);
    gmv__cuda_log("ipc_open_event", result);
    return gmv_fail(err, GMV_ERR_HANDLE_INVALID, EVENT_POINTER, "%s",
                    result == CUDA_ERROR_INVALID_CONTEXT
                        ? handle_same_process
                        : "the driver cannot open the event; make it with the interprocess and "
                          "no-timing flags, and keep it until the answer is there");
}

static CUresult event_poll(CUevent event)
{
    const struct timespec pause = {.tv_nsec = EVENT_PAUSE_NS};
    int64_t until = gmv_clock_monotonic_ns() + EVENT_POLL_NS;
    CUresult result;
    while ((result = gmv__cuda.event_query(event)) == CUDA_ERROR_NOT_READY &&
           gmv_clock_monotonic_ns() < until)
        (void)nanosleep(&pause, NULL);
    return result;
}

/*
 * The stream is not made to wait: an event that never passes would take it, its thread and, at the
 * job deadline, the whole device along.
 */
gmv_status gmv__cuda_stream_wait_event(gmv_stream *base,
                                       const uint8_t handle[GMV_IPC_HANDLE_NBYTES], gmv_error *err)
{
    cuda_device *device = cuda_stream_device(cuda_stream_of(base));
    CUevent event = NULL;
    CUDA_SCOPE(device);
    GMV_TRY(event_open(device, handle, &event, err));
    CUresult result = event_poll(event);
    if (!gmv__cuda_is_lost(device, result))
        (void)gmv__cuda.event_destroy(event);
    if (result == CUDA_SUCCESS)
        return GMV_OK;
    if (result != CUDA_ERROR_NOT_READY)
        return gmv__cuda_fail(device, result, "event_query", err);
    (void)gmv_fail(err, GMV_ERR_HANDLE_INVALID, EVENT_POINTER,
                   "the event has not passed in time: the work in front of it goes on or has "
                   "stopped; send the request again once the event has passed, without it");
    return GMV_RUN_AGAIN;
}
