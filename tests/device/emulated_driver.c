/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes the place of the driver in a test program: device memory is host memory, streams work at
 * once, and launches run the real kernels through the emulator. Every allocation ends at a page
 * that must not be touched, and begins with bytes that nobody has cleared: a kernel that reads or
 * writes too much dies, as it would under a memory checker on a device.
 */
#include "device/cuda/cuda_driver.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "device/cuda_emulator.h"

#define MEMORY_NBYTES    ((size_t)4 << 30)
#define MEMORY_ALIGNMENT 64 /* less than a device's, so that ends lie closer to the guard */

/* ---- memory ---------------------------------------------------------------------------------- */

/* At the start of the pages of an allocation; the memory is at the end of those. */
typedef struct emulated_block {
    size_t mapped;
    void *memory;
    struct emulated_block *next;
} emulated_block;

static pthread_mutex_t blocks_lock = PTHREAD_MUTEX_INITIALIZER;
static emulated_block *blocks;

static void *block_allocate(size_t nbytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t inside = page + (nbytes + page - 1) / page * page;
    uint8_t *base =
        mmap(NULL, inside + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED || mprotect(base + inside, page, PROT_NONE) != 0)
        return NULL;
    size_t rounded = (nbytes + MEMORY_ALIGNMENT - 1) / MEMORY_ALIGNMENT * MEMORY_ALIGNMENT;
    emulated_block *block = (emulated_block *)(void *)base;
    *block = (emulated_block){.mapped = inside + page, .memory = base + inside - rounded};
    memset(block->memory, 0xdb, rounded);
    pthread_mutex_lock(&blocks_lock);
    block->next = blocks;
    blocks = block;
    pthread_mutex_unlock(&blocks_lock);
    return block->memory;
}

static CUresult block_free(const void *memory)
{
    pthread_mutex_lock(&blocks_lock);
    emulated_block **link = &blocks;
    while (*link && (*link)->memory != memory)
        link = &(*link)->next;
    emulated_block *block = *link;
    if (block)
        *link = block->next;
    pthread_mutex_unlock(&blocks_lock);
    if (!block)
        return CUDA_ERROR_INVALID_VALUE;
    munmap(block, block->mapped);
    return CUDA_SUCCESS;
}

static void *pointer_of(CUdeviceptr address)
{
    return (void *)(uintptr_t)address;
}

static CUresult memory_allocate(CUdeviceptr *out_address, size_t nbytes)
{
    void *memory = nbytes ? block_allocate(nbytes) : NULL;
    if (!memory)
        return nbytes ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
    *out_address = (CUdeviceptr)(uintptr_t)memory;
    return CUDA_SUCCESS;
}

static CUresult memory_free(CUdeviceptr address)
{
    return block_free(pointer_of(address));
}

static CUresult memory_info(size_t *out_free, size_t *out_total)
{
    *out_free = *out_total = MEMORY_NBYTES;
    return CUDA_SUCCESS;
}

static CUresult host_allocate(void **out_pointer, size_t nbytes, unsigned flags)
{
    *out_pointer = block_allocate(nbytes);
    return *out_pointer ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult host_free(void *pointer)
{
    return block_free(pointer);
}

static CUresult host_device_pointer(CUdeviceptr *out_address, void *pointer, unsigned flags)
{
    *out_address = (CUdeviceptr)(uintptr_t)pointer;
    return CUDA_SUCCESS;
}

static CUresult pool_create(CUmemoryPool *out_pool, const CUmemPoolProps *properties)
{
    *out_pool = (CUmemoryPool)(void *)&blocks;
    return CUDA_SUCCESS;
}

static CUresult pool_destroy(CUmemoryPool pool)
{
    return CUDA_SUCCESS;
}

static CUresult pool_set(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
    return CUDA_SUCCESS;
}

static CUresult pool_get(CUmemoryPool pool, CUmemPool_attribute attribute, void *out_value)
{
    *(cuuint64_t *)out_value = 0;
    return CUDA_SUCCESS;
}

static CUresult pool_trim(CUmemoryPool pool, size_t keep_nbytes)
{
    return CUDA_SUCCESS;
}

static CUresult pool_allocate(CUdeviceptr *out_address, size_t nbytes, CUmemoryPool pool,
                              CUstream stream)
{
    return memory_allocate(out_address, nbytes);
}

static CUresult pool_free(CUdeviceptr address, CUstream stream)
{
    return block_free(pointer_of(address));
}

static CUresult copy_in(CUdeviceptr to, const void *from, size_t nbytes, CUstream stream)
{
    memcpy(pointer_of(to), from, nbytes);
    return CUDA_SUCCESS;
}

static CUresult copy_out(void *to, CUdeviceptr from, size_t nbytes, CUstream stream)
{
    memcpy(to, pointer_of(from), nbytes);
    return CUDA_SUCCESS;
}

static CUresult copy_within(CUdeviceptr to, CUdeviceptr from, size_t nbytes, CUstream stream)
{
    memcpy(pointer_of(to), pointer_of(from), nbytes);
    return CUDA_SUCCESS;
}

static CUresult fill(CUdeviceptr address, unsigned char value, size_t nbytes, CUstream stream)
{
    memset(pointer_of(address), value, nbytes);
    return CUDA_SUCCESS;
}

/* ---- devices, kernels, streams --------------------------------------------------------------- */

static CUresult error_name(CUresult result, const char **out_name)
{
    *out_name = "emulated";
    return CUDA_SUCCESS;
}

static CUresult driver_version(int *out_version)
{
    *out_version = CUDA_VERSION;
    return CUDA_SUCCESS;
}

static CUresult device_count(int *out_count)
{
    *out_count = 2;
    return CUDA_SUCCESS;
}

static CUresult device_get(CUdevice *out_device, int ordinal)
{
    *out_device = ordinal;
    return CUDA_SUCCESS;
}

static CUresult device_name(char *out_name, int nbytes, CUdevice device)
{
    snprintf(out_name, (size_t)nbytes, "emulated");
    return CUDA_SUCCESS;
}

static CUresult device_uuid(CUuuid *out_uuid, CUdevice device)
{
    memset(out_uuid, 0xee, sizeof *out_uuid);
    return CUDA_SUCCESS;
}

static CUresult device_total(size_t *out_nbytes, CUdevice device)
{
    *out_nbytes = MEMORY_NBYTES;
    return CUDA_SUCCESS;
}

static CUresult device_attribute(int *out_value, CUdevice_attribute attribute, CUdevice device)
{
    *out_value = 1;
    return CUDA_SUCCESS;
}

static CUresult context_retain(CUcontext *out_context, CUdevice device)
{
    *out_context = (CUcontext)(void *)&blocks;
    return CUDA_SUCCESS;
}

static CUresult context_release(CUdevice device)
{
    return CUDA_SUCCESS;
}

static CUresult context_push(CUcontext context)
{
    return CUDA_SUCCESS;
}

static CUresult context_pop(CUcontext *out_context)
{
    return CUDA_SUCCESS;
}

static CUresult context_priorities(int *out_least, int *out_greatest)
{
    *out_least = 0;
    *out_greatest = -5;
    return CUDA_SUCCESS;
}

static CUresult module_load(CUmodule *out_module, const void *image)
{
    *out_module = (CUmodule)(void *)&blocks;
    return CUDA_SUCCESS;
}

static CUresult module_unload(CUmodule module)
{
    return CUDA_SUCCESS;
}

/* A function is its name. */
static CUresult module_function(CUfunction *out_function, CUmodule module, const char *name)
{
    *out_function = (CUfunction)(void *)(uintptr_t)name;
    return CUDA_SUCCESS;
}

static CUresult function_attribute(int *out_value, CUfunction_attribute attribute,
                                   CUfunction function)
{
    *out_value = 0;
    return CUDA_SUCCESS;
}

static CUresult launch(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                       unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_nbytes,
                       CUstream stream, void **parameters, void **extra)
{
    const char *name = (const char *)(void *)function;
    if (grid_x == 0 || grid_y != 1 || grid_z != 1 || block_x != 256 || block_y != 1 ||
        block_z != 1 || !cuda_emulate(name, parameters[0], grid_x)) {
        fprintf(stderr, "%s cannot be launched\n", name);
        abort();
    }
    return CUDA_SUCCESS;
}

static CUresult stream_create(CUstream *out_stream, unsigned flags, int priority)
{
    *out_stream = (CUstream)(void *)&blocks;
    return CUDA_SUCCESS;
}

static CUresult stream_destroy(CUstream stream)
{
    return CUDA_SUCCESS;
}

static CUresult event_create(CUevent *out_event, unsigned flags)
{
    *out_event = (CUevent)(void *)&blocks;
    return CUDA_SUCCESS;
}

static CUresult event_destroy(CUevent event)
{
    return CUDA_SUCCESS;
}

static CUresult event_record(CUevent event, CUstream stream)
{
    return CUDA_SUCCESS;
}

static CUresult event_done(CUevent event)
{
    return CUDA_SUCCESS;
}

/* Nothing here is shared. */
static CUresult ipc_export(CUipcMemHandle *out_handle, CUdeviceptr address)
{
    return CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult ipc_export_event(CUipcEventHandle *out_handle, CUevent event)
{
    return CUDA_ERROR_NOT_SUPPORTED;
}

/* ---- instead of cuda_driver.c ---------------------------------------------------------------- */

cuda_driver gmv__cuda = {
    .driver_version = driver_version,
    .error_name = error_name,
    .device_count = device_count,
    .device_get = device_get,
    .device_name = device_name,
    .device_uuid = device_uuid,
    .device_total = device_total,
    .device_attribute = device_attribute,
    .context_retain = context_retain,
    .context_release = context_release,
    .context_push = context_push,
    .context_pop = context_pop,
    .context_priorities = context_priorities,
    .module_load = module_load,
    .module_unload = module_unload,
    .module_function = module_function,
    .function_attribute = function_attribute,
    .launch = launch,
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .event_record = event_record,
    .event_query = event_done,
    .ipc_export = ipc_export,
    .ipc_export_event = ipc_export_event,
    .event_synchronize = event_done,
    .memory_info = memory_info,
    .memory_allocate = memory_allocate,
    .memory_free = memory_free,
    .host_allocate = host_allocate,
    .host_free = host_free,
    .host_device_pointer = host_device_pointer,
    .pool_create = pool_create,
    .pool_destroy = pool_destroy,
    .pool_set = pool_set,
    .pool_get = pool_get,
    .pool_trim = pool_trim,
    .pool_allocate = pool_allocate,
    .pool_free = pool_free,
    .copy_in = copy_in,
    .copy_out = copy_out,
    .copy_within = copy_within,
    .fill = fill,
};

gmv_status gmv__cuda_driver_open(gmv_error *err)
{
    return GMV_OK;
}
