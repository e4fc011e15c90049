/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host backend's one device: opening and closing it, its streams, and copies. Streams work at
 * once; all that finishing one has to tell is whether memory was lost meanwhile.
 */
#include "device/host/host.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include <gmv/base/alloc.h>
#include <gmv/base/num.h>

#define CACHE_NBYTES_DEFAULT ((uint64_t)1 << 30)

/* ---- memory of any kind ---- */

host_mapping *gmv__host_memory_mapping(const gmv_memory *base)
{
    host_memory *memory = host_memory_of(base);
    switch (base->kind) {
    case GMV_MEMORY_IMPORTED:
        return memory->import ? &memory->import->mapping : NULL;
    case GMV_MEMORY_EXPORTABLE:
        return base->address ? &memory->mapping : NULL;
    case GMV_MEMORY_ORDINARY:
        break;
    }
    return NULL;
}

static gmv_status host_memory_allocate(gmv_device *base, gmv_stream *stream, gmv_memory_kind kind,
                                       gmv_contents contents, uint64_t nbytes,
                                       gmv_memory **out_memory, gmv_error *err)
{
    host_device *device = host_device_of(base);
    uint64_t capacity;
    if (!gmv_round_up_checked(nbytes, HOST_ALIGNMENT, &capacity))
        return gmv__device_fail_memory(&device->base, nbytes, err);
    host_memory *memory = gmv_calloc(1, sizeof *memory);
    if (!memory)
        return gmv_fail_no_memory(err);
    memory->base.device = base;
    memory->base.nbytes = nbytes;
    memory->base.capacity = capacity;
    memory->base.kind = kind;
    memory->descriptor = -1;
    gmv_status status = GMV_OK;
    if (nbytes > 0 && kind == GMV_MEMORY_ORDINARY)
        status = gmv__host_ordinary_allocate(device, memory, contents, err);
    else if (nbytes > 0)
        status = gmv__host_exportable_allocate(device, memory, err);
    if (status != GMV_OK) {
        gmv_free(memory);
        return status;
    }
    *out_memory = &memory->base;
    return GMV_OK;
}

static void host_memory_free(gmv_memory *base)
{
    host_device *device = host_device_of(base->device);
    host_memory *memory = host_memory_of(base);
    if (base->kind == GMV_MEMORY_IMPORTED)
        gmv__host_import_free(device, memory);
    else if (base->nbytes > 0 && base->kind == GMV_MEMORY_ORDINARY)
        gmv__host_ordinary_free(device, memory);
    else if (base->nbytes > 0)
        gmv__host_exportable_free(device, memory);
    gmv_free(memory);
}

static gmv_status host_memory_import_ipc(gmv_device *device,
                                         const uint8_t handle[GMV_IPC_HANDLE_NBYTES],
                                         int64_t nbytes, bool writable, gmv_memory **out_memory,
                                         gmv_error *err)
{
    return gmv_fail(err, GMV_ERR_BACKEND_UNSUPPORTED, "/cuda_ipc",
                    "the host backend opens no CUDA memory; import through posix_shm");
}

static void *host_memory_host_pointer(const gmv_memory *memory)
{
    return (void *)(uintptr_t)memory->address;
}

static bool host_memory_is_lost(const gmv_memory *memory)
{
    const host_mapping *mapping = gmv__host_memory_mapping(memory);
    return mapping && atomic_load(&mapping->lost);
}

/* ---- streams and copies ---- */

static gmv_status host_stream_create(gmv_device *device, gmv_stream_priority priority,
                                     gmv_stream **out_stream, gmv_error *err)
{
    host_stream *stream = gmv_calloc(1, sizeof *stream);
    if (!stream)
        return gmv_fail_no_memory(err);
    stream->base.device = device;
    *out_stream = &stream->base;
    return GMV_OK;
}

static void host_stream_abandon(gmv_stream *stream)
{
    (void)gmv__host_guard_forget(host_stream_of(stream));
}

static void host_stream_destroy(gmv_stream *base)
{
    host_stream *stream = host_stream_of(base);
    (void)gmv__host_guard_forget(stream);
    gmv_free(stream->uses);
    gmv_free(stream);
}

static gmv_status host_stream_use(gmv_stream *stream, gmv_memory *memory, gmv_error *err)
{
    host_mapping *mapping = gmv__host_memory_mapping(memory);
    return mapping ? gmv__host_guard_announce(host_stream_of(stream), mapping, err) : GMV_OK;
}

static gmv_status host_stream_finish(gmv_stream *stream, gmv_error *err)
{
    if (!gmv__host_guard_forget(host_stream_of(stream)))
        return GMV_OK;
    return gmv_fail(err, GMV_ERR_MEMORY_LOST, NULL,
                    "memory that this operation used was cut short by the process that owns it, "
                    "or the system had no page left for it; delete the handles that use it and "
                    "import the segment again");
}

static gmv_status host_stream_wait_event(gmv_stream *stream,
                                         const uint8_t handle[GMV_IPC_HANDLE_NBYTES],
                                         gmv_error *err)
{
    return gmv_fail(err, GMV_ERR_BACKEND_UNSUPPORTED, "/event",
                    "the host backend has no events; synchronize before you post");
}

static gmv_status host_copy_in(gmv_stream *stream, uint64_t destination, const void *source,
                               uint64_t nbytes, gmv_error *err)
{
    client_copy((void *)(uintptr_t)destination, source, (size_t)nbytes);
    return GMV_OK;
}

static gmv_status host_copy_out(gmv_stream *stream, void *destination, uint64_t source,
                                uint64_t nbytes, gmv_error *err)
{
    client_copy(destination, (const void *)(uintptr_t)source, (size_t)nbytes);
    return GMV_OK;
}

static gmv_status host_copy_within(gmv_stream *stream, uint64_t destination, uint64_t source,
                                   uint64_t nbytes, gmv_error *err)
{
    client_copy((void *)(uintptr_t)destination, (const void *)(uintptr_t)source, (size_t)nbytes);
    return GMV_OK;
}

static gmv_status host_fill(gmv_stream *stream, uint64_t destination, uint8_t value,
                            uint64_t nbytes, gmv_error *err)
{
    client_fill((void *)(uintptr_t)destination, value, (size_t)nbytes);
    return GMV_OK;
}

/* ---- the device ---- */

static uint64_t host_free_nbytes(const gmv_device *base)
{
    return base->info.total_nbytes - atomic_load(&host_device_of(base)->used_nbytes);
}

static uint64_t host_import_mappings(const gmv_device *base)
{
    return atomic_load(&host_device_of(base)->imports.n_mappings);
}

/* Host memory keeps its own books, and is not lost. */
static void host_refresh(gmv_device *device)
{
}

static void host_trim(gmv_device *device)
{
    gmv__host_cache_trim(&host_device_of(device)->cache);
}

static void host_close(gmv_device *base)
{
    host_device *device = host_device_of(base);
    assert(atomic_load(&device->used_nbytes) == 0 && atomic_load(&device->imports.n_mappings) == 0);
    gmv__host_cache_destroy(&device->cache);
    pthread_mutex_destroy(&device->exports.lock);
    pthread_cond_destroy(&device->imports.opened);
    pthread_mutex_destroy(&device->imports.lock);
    gmv_free(device->shm_directory);
    gmv_free(device);
}

static const gmv_backend_ops host_ops = {
    .device_close = host_close,
    .device_free_nbytes = host_free_nbytes,
    .device_import_mappings = host_import_mappings,
    .device_refresh = host_refresh,
    .device_trim = host_trim,
    .memory_allocate = host_memory_allocate,
    .memory_free = host_memory_free,
    .memory_host_pointer = host_memory_host_pointer,
    .memory_is_lost = host_memory_is_lost,
    .memory_retire = gmv__host_import_retire,
    .memory_export = gmv__host_memory_export,
    .memory_import_shm = gmv__host_memory_import_shm,
    .memory_import_ipc = host_memory_import_ipc,
    .stream_create = host_stream_create,
    .stream_destroy = host_stream_destroy,
    .stream_use = host_stream_use,
    .stream_finish = host_stream_finish,
    .stream_abandon = host_stream_abandon,
    .stream_wait_event = host_stream_wait_event,
    .copy_in = host_copy_in,
    .copy_out = host_copy_out,
    .copy_within = host_copy_within,
    .fill = host_fill,
    .valid_if = gmv__host_valid_if,
    .bits_to_bools = gmv__host_bits_to_bools,
    .copy_bits = gmv__host_copy_bits,
    .set_bits = gmv__host_set_bits,
    .combine_bits = gmv__host_combine_bits,
    .count_bits = gmv__host_count_bits,
    .find_bit = gmv__host_find_bit,
    .check_indices = gmv__host_check_indices,
    .sequence = gmv__host_sequence,
    .gather = gmv__host_gather,
    .copy_pieces = gmv__host_copy_pieces,
    .split_bounds = gmv__host_split_bounds,
    .split = gmv__host_split,
    .statistics = gmv__host_statistics,
    .compare = gmv__host_compare,
    .histogram = gmv__host_histogram,
    .hash_blocks = gmv__host_hash_blocks,
    .crc32c = gmv__host_crc32c,
};

static const host_kernel_set *host_choose_kernels(const gmv_device_options *options)
{
    const host_kernel_set *best = options->force_portable_kernels ? NULL : gmv__host_avx2_set();
    return best ? best : &gmv__host_portable_set;
}

static void host_describe(host_device *device, const gmv_device_options *options)
{
    gmv_device_info *info = &device->base.info;
    info->backend = GMV_BACKEND_HOST;
    info->ordinal = options->ordinal;
    snprintf(info->name, sizeof info->name, "host memory");
    snprintf(info->kernel_set, sizeof info->kernel_set, "%s", device->kernels->name);
    info->total_nbytes = gmv__host_system_total();
}

gmv_status gmv_device_open_host(const gmv_device_options *options, gmv_device **out_device,
                                gmv_error *err)
{
    static const gmv_device_options defaults;
    if (!options)
        options = &defaults;
    const char *directory = options->shm_directory ? options->shm_directory : HOST_SHM_DIRECTORY;
    host_device *device = gmv_calloc(1, sizeof *device);
    if (!device)
        return gmv_fail_no_memory(err);
    device->shm_directory = gmv_strndup(directory, strlen(directory));
    if (!device->shm_directory) {
        gmv_free(device);
        return gmv_fail_no_memory(err);
    }
    gmv__device_init(&device->base, &host_ops);
    device->base.hides_host_pointers = options->hide_host_pointers;
    device->kernels = host_choose_kernels(options);
    host_describe(device, options);
    gmv__host_limits_init(&device->limits);
    uint64_t cache_max = options->cache_nbytes_max;
    if (cache_max == 0)
        cache_max = GMV_MIN(CACHE_NBYTES_DEFAULT, device->base.info.total_nbytes / 4);
    gmv__host_cache_init(&device->cache, cache_max);
    pthread_mutex_init(&device->exports.lock, NULL);
    pthread_mutex_init(&device->imports.lock, NULL);
    pthread_cond_init(&device->imports.opened, NULL);
    gmv__host_guard_install();
    gmv__host_exports_sweep(device->shm_directory);
    *out_device = &device->base;
    return GMV_OK;
}
