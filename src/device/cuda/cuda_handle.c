/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What may be given to the driver as the handle of another process. The driver believes the bytes:
 * it reads an event's slot beyond its page (and dies of it), and where a second handle of memory
 * that is open already names another process, it frees what the first one's mapping still uses and
 * goes on writing to it, so that the C library finds its heap damaged at some later time (both seen
 * with driver 580). Such handles must be refused before the driver sees them.
 *
 * A device also opens the memory of a peer, and nothing that the driver then says of the address
 * tells whose it is. The handle does.
 *
 * The layout is not documented, so it is checked against handles that the driver makes for us when
 * a device is opened. Where it is another one nothing is assumed, and every handle is let through.
 */
#include <string.h>
#include <unistd.h>

#include <gmv/base/log.h>

#include "device/cuda/cuda_priv.h"

#define HANDLE_EVENT_SLOTS  4096
#define HANDLE_PROBE_NBYTES ((size_t)12345)

typedef struct memory_layout {
    uint64_t cookie;
    uint32_t process;
    uint32_t none;
    uint64_t nbytes; /* from here to `offset`: of this piece of the allocation */
    uint32_t n_pages;
    uint32_t offset;
    uint32_t gpu; /* the system's number of it, the same in every process */
    uint32_t instance;
    uint64_t block;
    uint32_t client; /* this and `object`: names the allocation */
    uint32_t object;
    uint64_t rest;
} memory_layout;

typedef struct event_layout {
    uint64_t process;
    uint64_t page;
    uint64_t slot;
    uint64_t rest[5];
} event_layout;

_Static_assert(sizeof(memory_layout) == GMV_IPC_HANDLE_NBYTES &&
                   sizeof(event_layout) == GMV_IPC_HANDLE_NBYTES,
               "handles are 64 bytes");

static memory_layout memory_read(const uint8_t *handle)
{
    memory_layout layout;
    memcpy(&layout, handle, sizeof layout);
    return layout;
}

static bool event_is_sound(const event_layout *layout)
{
    uint64_t rest = 0;
    for (size_t i = 0; i < sizeof layout->rest / sizeof layout->rest[0]; i++)
        rest |= layout->rest[i];
    return layout->slot < HANDLE_EVENT_SLOTS && rest == 0;
}

/* Whether the driver writes handles of memory as we take them to be. */
static CUresult memory_learn(cuda_device *device)
{
    CUdeviceptr address = 0;
    CUipcMemHandle handle;
    CUresult result = gmv__cuda.memory_allocate(&address, HANDLE_PROBE_NBYTES);
    if (result != CUDA_SUCCESS)
        return result;
    result = gmv__cuda.ipc_export(&handle, address);
    if (result == CUDA_SUCCESS) {
        memory_layout layout = memory_read((const uint8_t *)&handle);
        device->knows_memory_handles = layout.process == (uint32_t)getpid() && layout.none == 0 &&
                                       layout.nbytes == HANDLE_PROBE_NBYTES && layout.client != 0 &&
                                       layout.object != 0 && layout.rest == 0;
        device->gpu_in_handles = layout.gpu;
    }
    if (gmv__cuda_is_lost(device, result))
        return result;
    CUresult freed = gmv__cuda.memory_free(address);
    return result != CUDA_SUCCESS ? result : freed;
}

static CUresult event_learn(cuda_device *device)
{
    CUevent event = NULL;
    CUipcEventHandle handle;
    CUresult result =
        gmv__cuda.event_create(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING);
    if (result != CUDA_SUCCESS)
        return result;
    result = gmv__cuda.ipc_export_event(&handle, event);
    if (result == CUDA_SUCCESS) {
        event_layout layout;
        memcpy(&layout, &handle, sizeof layout);
        device->knows_event_handles =
            layout.process == (uint64_t)getpid() && event_is_sound(&layout);
    }
    if (gmv__cuda_is_lost(device, result))
        return result;
    CUresult destroyed = gmv__cuda.event_destroy(event);
    return result != CUDA_SUCCESS ? result : destroyed;
}

/* A system without such handles opens none, so nothing need be known of them there. */
gmv_status gmv__cuda_handles_learn(cuda_device *device, gmv_error *err)
{
    CUresult result = memory_learn(device);
    if (result == CUDA_SUCCESS)
        result = event_learn(device);
    if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_SUPPORTED)
        return gmv__cuda_fail(device, result, "ipc_export", err);
    if (!device->knows_memory_handles || !device->knows_event_handles)
        gmv_log(GMV_LOG_INFO, "cuda_handles",
                gmv_log_text("layout", "another one; damaged handles are left to the driver"));
    return GMV_OK;
}

bool gmv__cuda_handle_is_event(const cuda_device *device,
                               const uint8_t handle[GMV_IPC_HANDLE_NBYTES])
{
    event_layout layout;
    memcpy(&layout, handle, sizeof layout);
    return !device->knows_event_handles || event_is_sound(&layout);
}

bool gmv__cuda_handle_is_local(const cuda_device *device,
                               const uint8_t handle[GMV_IPC_HANDLE_NBYTES])
{
    return !device->knows_memory_handles || memory_read(handle).gpu == device->gpu_in_handles;
}

uint64_t gmv__cuda_handle_key(const uint8_t handle[GMV_IPC_HANDLE_NBYTES])
{
    memory_layout layout = memory_read(handle);
    return (uint64_t)layout.client << 32 | layout.object;
}

bool gmv__cuda_handles_agree(const cuda_device *device, const uint8_t a[GMV_IPC_HANDLE_NBYTES],
                             const uint8_t b[GMV_IPC_HANDLE_NBYTES])
{
    memory_layout x = memory_read(a), y = memory_read(b);
    if (!device->knows_memory_handles || x.client != y.client || x.object != y.object)
        return true;
    return x.cookie == y.cookie && x.process == y.process && x.none == y.none && x.gpu == y.gpu &&
           x.instance == y.instance && x.block == y.block && x.rest == y.rest;
}
