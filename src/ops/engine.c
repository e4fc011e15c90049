/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine: devices, registry, quota. A byte is reserved before it is allocated and given back
 * after it was freed, so the sum never understates what is held.
 */
#include <gmv/base/alloc.h>
#include <gmv/base/num.h>
#include <gmv/ops/engine.h>

#define ENGINE_LOGICAL_NBYTES_DEFAULT ((uint64_t)1 << 40)

const char *gmv_origin_name(gmv_origin origin)
{
    static const char *const names[GMV_ORIGIN_COUNT] = {
        [GMV_ORIGIN_ALLOCATED] = "allocated", [GMV_ORIGIN_UPLOADED] = "uploaded",
        [GMV_ORIGIN_CUDA_IPC] = "cuda_ipc",   [GMV_ORIGIN_POSIX_SHM] = "posix_shm",
        [GMV_ORIGIN_COMPUTED] = "computed",
    };
    return (unsigned)origin < GMV_ORIGIN_COUNT ? names[origin] : "unknown";
}

static void engine_close_devices(gmv_engine *engine)
{
    for (size_t i = 0; i < engine->n_devices; i++)
        gmv_device_close(engine->devices[i]);
    engine->n_devices = 0;
}

gmv_status gmv_engine_init(gmv_engine *engine, gmv_device *const *devices, size_t n_devices,
                           const gmv_limits *limits, const gmv_registry_options *options,
                           gmv_error *err)
{
    *engine = (gmv_engine){0};
    if (n_devices == 0 || n_devices > GMV_DEVICES_MAX) {
        for (size_t i = 0; i < n_devices; i++)
            gmv_device_close(devices[i]);
        return gmv_fail(err, GMV_ERR_VALUE, NULL, "%zu devices were given, 1 to %d are served",
                        n_devices, GMV_DEVICES_MAX);
    }
    for (size_t i = 0; i < n_devices; i++)
        engine->devices[i] = devices[i];
    engine->n_devices = n_devices;
    if (limits)
        engine->limits = *limits;
    if (engine->limits.max_logical_nbytes == 0)
        engine->limits.max_logical_nbytes = ENGINE_LOGICAL_NBYTES_DEFAULT;

    gmv_registry_options registry_options = options ? *options : (gmv_registry_options){0};
    registry_options.max_handles = engine->limits.max_handles;
    gmv_status status = gmv_registry_create(&registry_options, &engine->registry, err);
    if (status != GMV_OK)
        engine_close_devices(engine);
    return status;
}

void gmv_engine_fini(gmv_engine *engine)
{
    gmv_registry_destroy(engine->registry);
    engine->registry = NULL;
    gmv_engine_reap(engine);
    engine_close_devices(engine);
}

/* Order does not matter, and a list taken whole needs no care for blocks that come back (ABA). */
static size_t engine_reap_scratch(gmv_engine *engine)
{
    gmv_scratch *scratch = atomic_exchange_explicit(&engine->discarded, NULL, memory_order_acquire);
    size_t count = 0;
    while (scratch) {
        gmv_scratch *next = scratch->next;
        gmv_engine_discard_scratch(engine, scratch, true);
        scratch = next;
        count++;
    }
    return count;
}

size_t gmv_engine_reap(gmv_engine *engine)
{
    size_t count = engine_reap_scratch(engine);
    if (engine->registry)
        count += gmv_registry_reap(engine->registry) + gmv_registry_expire(engine->registry);
    return count;
}

void gmv_engine_on_reapable(gmv_engine *engine, void (*notify)(void *context), void *context)
{
    engine->notify = notify;
    engine->notify_context = context;
    gmv_registry_on_reapable(engine->registry, notify, context);
}

gmv_status gmv_engine_device(const gmv_engine *engine, int64_t ordinal, gmv_device **out_device,
                             gmv_error *err)
{
    for (size_t i = 0; i < engine->n_devices; i++) {
        if (gmv_device_describe(engine->devices[i])->ordinal == ordinal) {
            *out_device = engine->devices[i];
            return GMV_OK;
        }
    }
    return gmv_fail(err, GMV_ERR_VALUE, "/device", "there is no device %lld; see /v1/devices",
                    (long long)ordinal);
}

bool gmv_engine_has_cuda(const gmv_engine *engine)
{
    return gmv_device_describe(engine->devices[0])->backend == GMV_BACKEND_CUDA;
}

size_t gmv_engine_device_index(const gmv_engine *engine, const gmv_device *device)
{
    size_t index = 0;
    while (index + 1 < engine->n_devices && engine->devices[index] != device)
        index++;
    return index;
}

/* ---- memory ---- */

static gmv_status engine_reserve(gmv_engine *engine, size_t index, uint64_t nbytes, gmv_error *err)
{
    uint64_t limit = engine->limits.max_device_nbytes;
    uint_fast64_t held =
        atomic_load_explicit(&engine->reserved_nbytes[index], memory_order_relaxed);
    uint64_t sum;
    do {
        if (!gmv_add_checked((uint64_t)held, nbytes, &sum))
            return gmv_fail(err, GMV_ERR_DEVICE_OUT_OF_MEMORY, NULL,
                            "no device has %llu bytes of memory", (unsigned long long)nbytes);
        if (limit != 0 && sum > limit)
            return gmv_fail(err, GMV_ERR_QUOTA_EXCEEDED, NULL,
                            "max_device_nbytes is %llu, %llu are in use and %llu more are needed; "
                            "delete something first",
                            (unsigned long long)limit, (unsigned long long)held,
                            (unsigned long long)nbytes);
    } while (!atomic_compare_exchange_weak_explicit(&engine->reserved_nbytes[index], &held, sum,
                                                    memory_order_relaxed, memory_order_relaxed));
    return GMV_OK;
}

static void engine_unreserve(gmv_engine *engine, size_t index, uint64_t nbytes)
{
    atomic_fetch_sub_explicit(&engine->reserved_nbytes[index], nbytes, memory_order_relaxed);
}

/* Memory that is cached for reuse in one size may be what another size lacks. */
static gmv_status engine_allocate_or_trim(gmv_device *device, gmv_stream *stream,
                                          gmv_memory_kind kind, gmv_contents contents,
                                          uint64_t nbytes, gmv_memory **out_memory, gmv_error *err)
{
    gmv_error first;
    gmv_error_init(&first);
    gmv_status status =
        gmv_memory_allocate(device, stream, kind, contents, nbytes, out_memory, &first);
    if (status == GMV_ERR_DEVICE_OUT_OF_MEMORY) {
        gmv_device_trim(device);
        return gmv_memory_allocate(device, stream, kind, contents, nbytes, out_memory, err);
    }
    if (status != GMV_OK && err)
        *err = first;
    return status;
}

gmv_status gmv_engine_allocate(gmv_engine *engine, gmv_device *device, gmv_stream *stream,
                               gmv_memory_kind kind, gmv_contents contents, uint64_t nbytes,
                               gmv_memory **out_memory, gmv_error *err)
{
    size_t index = gmv_engine_device_index(engine, device);
    GMV_TRY(engine_reserve(engine, index, nbytes, err));

    gmv_memory *memory = NULL;
    gmv_status status =
        engine_allocate_or_trim(device, stream, kind, contents, nbytes, &memory, err);
    if (status != GMV_OK) {
        engine_unreserve(engine, index, nbytes);
        return status;
    }
    status = engine_reserve(engine, index, memory->capacity - nbytes, err);
    if (status != GMV_OK) {
        gmv_memory_free(memory);
        engine_unreserve(engine, index, nbytes);
        return status;
    }
    *out_memory = memory;
    return GMV_OK;
}

void gmv_engine_free(gmv_engine *engine, gmv_memory *memory)
{
    if (!memory)
        return;
    size_t index = gmv_engine_device_index(engine, memory->device);
    uint64_t reserved = memory->kind == GMV_MEMORY_IMPORTED ? 0 : memory->capacity;
    gmv_memory_free(memory);
    engine_unreserve(engine, index, reserved);
}

gmv_status gmv_engine_scratch(gmv_engine *engine, gmv_device *device, gmv_stream *stream,
                              uint64_t nbytes, gmv_scratch **out_scratch, gmv_error *err)
{
    gmv_scratch *scratch = gmv_calloc(1, sizeof *scratch);
    if (!scratch)
        return gmv_fail_no_memory(err);
    gmv_status status =
        gmv_engine_allocate(engine, device, stream, GMV_MEMORY_ORDINARY, GMV_CONTENTS_UNSPECIFIED,
                            nbytes, &scratch->memory, err);
    if (status != GMV_OK) {
        gmv_free(scratch);
        return status;
    }
    *out_scratch = scratch;
    return GMV_OK;
}

void gmv_engine_discard_scratch(gmv_engine *engine, gmv_scratch *scratch, bool may_block)
{
    if (!scratch)
        return;
    if (may_block) {
        gmv_engine_free(engine, scratch->memory);
        gmv_free(scratch);
        return;
    }
    scratch->next = atomic_load_explicit(&engine->discarded, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&engine->discarded, &scratch->next, scratch,
                                                  memory_order_release, memory_order_relaxed))
        continue;
    if (engine->notify)
        engine->notify(engine->notify_context);
}
