/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CUDA devices: opening them, what they say of themselves, and how much memory they have left. The
 * primary context is used, so that what another library in the process makes is the same device's.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include <gmv/base/alloc.h>
#include <gmv/base/clock.h>
#include <gmv/base/log.h>
#include <gmv/base/num.h>

#include "device/cuda/cuda_priv.h"

#define POOL_WARM_NBYTES ((size_t)64 << 20)
#define FREE_READ_NS     50000000 /* an estimate that is older is read anew */

/* ---- how much is free ---- */

/* What the driver has, and what the pool holds without using it. */
static bool device_read_free(cuda_device *device, int64_t *out_nbytes)
{
    size_t free_nbytes = 0, total_nbytes = 0;
    cuuint64_t reserved = 0, used = 0;
    if (gmv__cuda.memory_info(&free_nbytes, &total_nbytes) != CUDA_SUCCESS ||
        gmv__cuda.pool_get(device->pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved) !=
            CUDA_SUCCESS ||
        gmv__cuda.pool_get(device->pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used) != CUDA_SUCCESS)
        return false;
    *out_nbytes = (int64_t)(free_nbytes + (reserved > used ? reserved - used : 0) +
                            gmv__cuda_cache_nbytes(device));
    return true;
}

void gmv__cuda_account(cuda_device *device, int64_t nbytes_freed, bool now)
{
    int64_t time = gmv_clock_monotonic_ns();
    int64_t read = atomic_load_explicit(&device->free_read_ns, memory_order_relaxed);
    int64_t nbytes;
    if ((now || time - read > FREE_READ_NS) &&
        atomic_compare_exchange_strong(&device->free_read_ns, &read, time) &&
        device_read_free(device, &nbytes))
        atomic_store(&device->free_nbytes, nbytes);
    else
        atomic_fetch_add(&device->free_nbytes, nbytes_freed);
}

static uint64_t cuda_device_free_nbytes(const gmv_device *base)
{
    int64_t nbytes = atomic_load(&cuda_device_of(base)->free_nbytes);
    uint64_t total = base->info.total_nbytes;
    return nbytes < 0 ? 0 : GMV_MIN((uint64_t)nbytes, total);
}

static uint64_t cuda_device_import_mappings(const gmv_device *base)
{
    return atomic_load(&cuda_device_of(base)->n_mappings);
}

static void cuda_device_refresh(gmv_device *base)
{
    cuda_device *device = cuda_device_of(base);
    size_t free_nbytes, total_nbytes;
    CUDA_SCOPE(device);
    CUresult result = gmv__cuda.memory_info(&free_nbytes, &total_nbytes);
    if (result == CUDA_SUCCESS) {
        gmv__cuda_account(device, 0, true);
        return;
    }
    gmv__cuda_log("memory_info", result);
    (void)gmv__cuda_is_lost(device, result);
}

static void cuda_device_trim(gmv_device *base)
{
    cuda_device *device = cuda_device_of(base);
    CUDA_SCOPE(device);
    (void)gmv__cuda_cache_empty(device);
    CUresult result = gmv__cuda.pool_trim(device->pool, 0);
    if (result != CUDA_SUCCESS) {
        gmv__cuda_log("pool_trim", result);
        (void)gmv__cuda_is_lost(device, result);
    }
    gmv__cuda_account(device, 0, true);
}

/* ---- what a device says of itself ---- */

static void device_format_uuid(const CUuuid *uuid, char out_text[64])
{
    static const char digits[] = "0123456789abcdef";
    char *end = out_text;
    memcpy(end, "GPU-", 4);
    end += 4;
    for (int i = 0; i < 16; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            *end++ = '-';
        *end++ = digits[(unsigned char)uuid->bytes[i] >> 4];
        *end++ = digits[uuid->bytes[i] & 15];
    }
    *end = '\0';
}

static gmv_status device_describe(cuda_device *device, int32_t ordinal, gmv_error *err)
{
    gmv_device_info *info = &device->base.info;
    int version = 0, major = 0, minor = 0, pools = 0;
    size_t total = 0;
    CUuuid uuid;
    CUDA_TRY(NULL, device_get(&device->handle, ordinal), err);
    CUDA_TRY(NULL, device_name(info->name, sizeof info->name, device->handle), err);
    CUDA_TRY(NULL, device_uuid(&uuid, device->handle), err);
    CUDA_TRY(NULL, device_total(&total, device->handle), err);
    CUDA_TRY(NULL, driver_version(&version), err);
    CUDA_TRY(NULL,
             device_attribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device->handle),
             err);
    CUDA_TRY(NULL,
             device_attribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device->handle),
             err);
    CUDA_TRY(NULL,
             device_attribute(&pools, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, device->handle),
             err);
    info->backend = GMV_BACKEND_CUDA;
    info->ordinal = ordinal;
    info->total_nbytes = total;
    device_format_uuid(&uuid, info->uuid);
    snprintf(info->compute_capability, sizeof info->compute_capability, "%d.%d", major, minor);
    snprintf(info->driver_version, sizeof info->driver_version, "%d.%d", version / 1000,
             version % 1000 / 10);
    if (!pools)
        return gmv_fail(err, GMV_ERR_BACKEND_UNSUPPORTED, NULL,
                        "CUDA device %d (%s) has no memory pools", (int)ordinal, info->name);
    return GMV_OK;
}

/* ---- opening and closing ---- */

/* The first allocation of a pool is slow; it is made here, before anybody waits. */
static gmv_status device_open_pool(cuda_device *device, size_t cache_nbytes_max, gmv_error *err)
{
    CUmemPoolProps properties = {
        .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
        .handleTypes = CU_MEM_HANDLE_TYPE_NONE,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device->base.info.ordinal}};
    cuuint64_t keep = cache_nbytes_max ? cache_nbytes_max : UINT64_MAX;
    CUdeviceptr address;
    CUDA_TRY(device, pool_create(&device->pool, &properties), err);
    CUDA_TRY(device, pool_set(device->pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep), err);
    CUDA_TRY(device, stream_create(&device->free_stream, CU_STREAM_NON_BLOCKING, 0), err);
    CUresult result =
        gmv__cuda.pool_allocate(&address, POOL_WARM_NBYTES, device->pool, device->free_stream);
    if (result == CUDA_SUCCESS)
        CUDA_TRY(device, pool_free(address, device->free_stream), err);
    else if (result != CUDA_ERROR_OUT_OF_MEMORY)
        return gmv__cuda_fail(device, result, "pool_allocate", err);
    return GMV_OK;
}

static gmv_status device_open_context(cuda_device *device, gmv_error *err)
{
    int least = 0, greatest = 0;
    CUDA_TRY(device, context_retain(&device->context, device->handle), err);
    CUDA_SCOPE(device);
    CUDA_TRY(device, context_priorities(&least, &greatest), err);
    device->priorities[GMV_STREAM_PRIORITY_DEFAULT] = (least + greatest) / 2;
    device->priorities[GMV_STREAM_PRIORITY_HIGHEST] = greatest;
    device->priorities[GMV_STREAM_PRIORITY_LOWEST] = least;
    return gmv__cuda_kernels_load(device, err);
}

static gmv_status device_open_rest(cuda_device *device, size_t cache_nbytes_max, gmv_error *err)
{
    CUDA_SCOPE(device);
    gmv__cuda_cache_open(device, cache_nbytes_max);
    GMV_TRY(device_open_pool(device, cache_nbytes_max, err));
    GMV_TRY(gmv__cuda_staging_open(device, err));
    GMV_TRY(gmv__cuda_handles_learn(device, err));
    gmv__cuda_account(device, 0, true);
    return GMV_OK;
}

/* Takes a device that is open in part; a lost one keeps what the driver would have to free. */
static void cuda_device_close(gmv_device *base)
{
    cuda_device *device = cuda_device_of(base);
    bool lost = gmv_device_is_lost(base, NULL);
    if (lost)
        (void)gmv__cuda_cache_empty(device);
    if (device->context && !lost) {
        CUDA_SCOPE(device);
        (void)gmv__cuda_cache_empty(device);
        gmv__cuda_staging_close(device);
        if (device->free_stream)
            (void)gmv__cuda.stream_destroy(device->free_stream);
        if (device->pool)
            (void)gmv__cuda.pool_destroy(device->pool);
        if (device->module)
            (void)gmv__cuda.module_unload(device->module);
    }
    if (device->context && !lost)
        (void)gmv__cuda.context_release(device->handle);
    pthread_cond_destroy(&device->staging.given_back);
    pthread_mutex_destroy(&device->staging.lock);
    pthread_mutex_destroy(&device->cache.lock);
    pthread_mutex_destroy(&device->exports.lock);
    gmv_free(device);
}

static void *cuda_memory_host_pointer(const gmv_memory *memory)
{
    return NULL;
}

static bool cuda_memory_is_lost(const gmv_memory *memory)
{
    return false;
}

static gmv_status cuda_memory_import_shm(gmv_device *device, const char *name, int64_t nbytes,
                                         bool writable, gmv_memory **out_memory, gmv_error *err)
{
    return gmv_fail(err, GMV_ERR_BACKEND_UNSUPPORTED, "/posix_shm",
                    "the CUDA backend opens no segments of host memory; import through cuda_ipc");
}

static const gmv_backend_ops cuda_ops = {
    .device_close = cuda_device_close,
    .device_free_nbytes = cuda_device_free_nbytes,
    .device_import_mappings = cuda_device_import_mappings,
    .device_refresh = cuda_device_refresh,
    .device_trim = cuda_device_trim,
    .memory_allocate = gmv__cuda_memory_allocate,
    .memory_free = gmv__cuda_memory_free,
    .memory_host_pointer = cuda_memory_host_pointer,
    .memory_is_lost = cuda_memory_is_lost,
    .memory_retire = gmv__cuda_memory_retire,
    .memory_export = gmv__cuda_memory_export,
    .memory_import_shm = cuda_memory_import_shm,
    .memory_import_ipc = gmv__cuda_memory_import_ipc,
    .stream_create = gmv__cuda_stream_create,
    .stream_destroy = gmv__cuda_stream_destroy,
    .stream_use = gmv__cuda_stream_use,
    .stream_finish = gmv__cuda_stream_finish,
    .stream_abandon = gmv__cuda_stream_abandon,
    .stream_wait_event = gmv__cuda_stream_wait_event,
    .copy_in = gmv__cuda_copy_in,
    .copy_out = gmv__cuda_copy_out,
    .copy_within = gmv__cuda_copy_within,
    .fill = gmv__cuda_fill,
    .valid_if = gmv__cuda_valid_if,
    .bits_to_bools = gmv__cuda_bits_to_bools,
    .copy_bits = gmv__cuda_copy_bits,
    .set_bits = gmv__cuda_set_bits,
    .combine_bits = gmv__cuda_combine_bits,
    .count_bits = gmv__cuda_count_bits,
    .find_bit = gmv__cuda_find_bit,
    .check_indices = gmv__cuda_check_indices,
    .sequence = gmv__cuda_sequence,
    .gather = gmv__cuda_gather,
    .copy_pieces = gmv__cuda_copy_pieces,
    .split_bounds = gmv__cuda_split_bounds,
    .split = gmv__cuda_split,
    .statistics = gmv__cuda_statistics,
    .compare = gmv__cuda_compare,
    .histogram = gmv__cuda_histogram,
    .hash_blocks = gmv__cuda_hash_blocks,
    .crc32c = gmv__cuda_crc32c,
};

gmv_status gmv_cuda_device_count(int32_t *out_count, gmv_error *err)
{
    int count = 0;
    *out_count = 0;
    GMV_TRY(gmv__cuda_driver_open(err));
    CUDA_TRY(NULL, device_count(&count), err);
    *out_count = count;
    return GMV_OK;
}

static gmv_status device_open(cuda_device *device, const gmv_device_options *options,
                              gmv_error *err)
{
    GMV_TRY(device_describe(device, options->ordinal, err));
    GMV_TRY(device_open_context(device, err));
    return device_open_rest(device, options->cache_nbytes_max, err);
}

gmv_status gmv_device_open_cuda(const gmv_device_options *options, gmv_device **out_device,
                                gmv_error *err)
{
    static const gmv_device_options defaults = {0};
    int32_t count;
    assert(out_device);
    if (!options)
        options = &defaults;
    GMV_TRY(gmv_cuda_device_count(&count, err));
    if (options->ordinal < 0 || options->ordinal >= count)
        return gmv_fail(err, GMV_ERR_VALUE, NULL, "there is no CUDA device %d; there are %d",
                        (int)options->ordinal, (int)count);
    cuda_device *device = gmv_calloc(1, sizeof *device);
    if (!device)
        return gmv_fail_no_memory(err);
    gmv__device_init(&device->base, &cuda_ops);
    device->job_deadline_ms = options->job_deadline_ms;
    pthread_mutex_init(&device->staging.lock, NULL);
    pthread_cond_init(&device->staging.given_back, NULL);
    pthread_mutex_init(&device->cache.lock, NULL);
    pthread_mutex_init(&device->exports.lock, NULL);
    gmv_status status = device_open(device, options, err);
    if (status != GMV_OK) {
        cuda_device_close(&device->base);
        return status;
    }
    *out_device = &device->base;
    return GMV_OK;
}
