/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of our own. Exportable: an allocation of whole 2 MiB blocks, because an importer sees all
 * of the last one; every byte of it is cleared before anybody can. Ordinary: from the device's
 * pool, which keeps what is freed.
 *
 * Freeing to the pool goes through a stream of its own that waits for nothing: who frees has waited
 * for the work that used the memory.
 */
#include <gmv/base/alloc.h>
#include <gmv/base/num.h>

#include "device/cuda/cuda_priv.h"

/* Takes `reserved_nbytes` bytes from the driver or the pool. */
static gmv_status memory_take(cuda_device *device, cuda_stream *stream, cuda_memory *memory,
                              gmv_error *err)
{
    CUdeviceptr address = 0;
    bool exportable = memory->base.kind == GMV_MEMORY_EXPORTABLE;
    CUresult result = exportable ? gmv__cuda.memory_allocate(&address, memory->reserved_nbytes)
                                 : gmv__cuda.pool_allocate(&address, memory->reserved_nbytes,
                                                           device->pool, stream->handle);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
        gmv__cuda_account(device, 0, true);
        return gmv__device_fail_memory(&device->base, memory->base.nbytes, err);
    }
    if (result != CUDA_SUCCESS)
        return gmv__cuda_fail(device, result, exportable ? "memory_allocate" : "pool_allocate",
                              err);
    stream->busy = true;
    memory->base.address = address;
    atomic_fetch_sub(&device->free_nbytes, (int64_t)memory->reserved_nbytes); /* asks nobody */
    return GMV_OK;
}

static void memory_check_freed(cuda_device *device, CUresult result, const char *what)
{
    if (result == CUDA_SUCCESS)
        return;
    gmv__cuda_log(what, result);
    (void)gmv__cuda_is_lost(device, result);
}

void gmv__cuda_pool_give(cuda_device *device, CUdeviceptr address)
{
    if (!gmv_device_is_lost(&device->base, NULL))
        memory_check_freed(device, gmv__cuda.pool_free(address, device->free_stream), "pool_free");
}

static void memory_give(cuda_device *device, cuda_memory *memory)
{
    CUDA_SCOPE(device);
    if (memory->base.kind == GMV_MEMORY_EXPORTABLE)
        memory_check_freed(device, gmv__cuda.memory_free(memory->base.address), "memory_free");
    else
        gmv__cuda_pool_give(device, memory->base.address);
    gmv__cuda_account(device, (int64_t)memory->reserved_nbytes, false);
}

/* Clears all of the memory, or what follows its `nbytes`. */
static gmv_status memory_clear(cuda_device *device, cuda_stream *stream, const cuda_memory *memory,
                               gmv_contents contents, gmv_error *err)
{
    bool all = contents == GMV_CONTENTS_ZEROED || memory->base.kind == GMV_MEMORY_EXPORTABLE;
    uint64_t begin = all ? 0 : memory->base.nbytes;
    if (begin < memory->reserved_nbytes)
        CUDA_TRY(
            device,
            fill(memory->base.address + begin, 0, memory->reserved_nbytes - begin, stream->handle),
            err);
    return GMV_OK;
}

static gmv_status memory_make(cuda_device *device, cuda_stream *stream, cuda_memory *memory,
                              gmv_contents contents, gmv_error *err)
{
    CUDA_SCOPE(device);
    if (!memory->base.address)
        GMV_TRY(memory_take(device, stream, memory, err));
    gmv_status status = memory_clear(device, stream, memory, contents, err);
    if (status != GMV_OK)
        gmv__cuda_stream_abandon(&stream->base);
    if (status != GMV_OK && !gmv_device_is_lost(&device->base, NULL))
        memory_give(device, memory);
    return status;
}

gmv_status gmv__cuda_memory_allocate(gmv_device *base, gmv_stream *stream, gmv_memory_kind kind,
                                     gmv_contents contents, uint64_t nbytes,
                                     gmv_memory **out_memory, gmv_error *err)
{
    cuda_device *device = cuda_device_of(base);
    if (nbytes > base->info.total_nbytes)
        return gmv__device_fail_memory(&device->base, nbytes, err);
    const uint64_t capacity = gmv_round_up(nbytes, GMV_BITMASK_PADDING);
    cuda_memory *memory =
        kind == GMV_MEMORY_ORDINARY ? gmv__cuda_cache_take(device, capacity) : NULL;
    const uint64_t address = memory ? memory->base.address : 0;
    if (!memory)
        memory = gmv_malloc(sizeof *memory);
    if (!memory)
        return gmv_fail_no_memory(err);
    *memory = (cuda_memory){.base = {.device = base, .nbytes = nbytes, .kind = kind}};
    memory->base.address = address;
    memory->base.capacity = capacity;
    memory->reserved_nbytes =
        kind == GMV_MEMORY_EXPORTABLE ? gmv_round_up(nbytes, CUDA_EXPORT_ALIGNMENT) : capacity;
    gmv_status status = GMV_OK;
    if (nbytes > 0 && (!address || contents == GMV_CONTENTS_ZEROED || nbytes < capacity))
        status = memory_make(device, cuda_stream_of(stream), memory, contents, err);
    if (status != GMV_OK) {
        gmv_free(memory);
        return status;
    }
    *out_memory = &memory->base;
    return GMV_OK;
}

void gmv__cuda_memory_free(gmv_memory *base)
{
    cuda_device *device = cuda_device_of(base->device);
    cuda_memory *memory = cuda_memory_of(base);
    if (base->kind == GMV_MEMORY_IMPORTED) {
        gmv__cuda_import_free(device, memory);
    } else {
        gmv__cuda_export_forget(device, memory);
        if (base->address && !gmv_device_is_lost(base->device, NULL)) {
            if (gmv__cuda_cache_give(device, memory))
                return;
            memory_give(device, memory);
        }
    }
    gmv_free(memory);
}
