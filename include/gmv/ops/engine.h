/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ops: the objects (buffer, view, column, table, packed) and the verbs on them. Everything the
 * daemon can do, a C program can do with this floor. Knows nothing of JSON or HTTP; the pointers in
 * its errors name members of the request structs, which have the names of the HTTP contract.
 *
 * engine.h: the registry, the devices and the limits that all operations share.
 */
#ifndef GMV_OPS_ENGINE_H
#define GMV_OPS_ENGINE_H

#include <stdatomic.h>

#include <gmv/device/device.h>
#include <gmv/registry/registry.h>

GMV_BEGIN_DECLS

#define GMV_DEVICES_MAX 16

typedef enum gmv_origin {
    GMV_ORIGIN_ALLOCATED,
    GMV_ORIGIN_UPLOADED,
    GMV_ORIGIN_CUDA_IPC,
    GMV_ORIGIN_POSIX_SHM,
    GMV_ORIGIN_COMPUTED,
    GMV_ORIGIN_COUNT
} gmv_origin;

/* "allocated", ... @borrowed, static. */
const char *gmv_origin_name(gmv_origin origin);

typedef struct gmv_limits {
    uint64_t max_device_nbytes;  /* memory that gmvd allocates on one device; 0: no limit but the device's */
    uint64_t max_logical_nbytes; /* bytes that one operation may pass over or materialize; 0: the default, 1 TiB */
    uint64_t max_handles;        /* 0: no limit */
} gmv_limits;

typedef struct gmv_engine {
    gmv_registry *registry;
    gmv_device *devices[GMV_DEVICES_MAX];
    size_t n_devices;
    gmv_limits limits;
    atomic_uint_fast64_t reserved_nbytes[GMV_DEVICES_MAX];                    /* allocated by gmvd, not imported */
    atomic_uint_fast64_t registered_nbytes[GMV_DEVICES_MAX][GMV_ORIGIN_COUNT]; /* nbytes of live buffers */
    atomic_uint_fast64_t operations_in_flight;
} gmv_engine;

/*
 * Sets up over open devices, which the engine then owns (also on failure). `options` may hold an
 * observer; its max_handles is taken from `limits`.
 */
GMV_NODISCARD gmv_status gmv_engine_init(gmv_engine *engine, gmv_device *const *devices,
    size_t n_devices, const gmv_limits *limits, const gmv_registry_options *options, gmv_error *err);

/* Frees every handle, then the registry and the devices. No operation may be in flight. */
void gmv_engine_fini(gmv_engine *engine);

/* @retval GMV_ERR_VALUE  there is no such device (pointer "/device") */
GMV_NODISCARD gmv_status gmv_engine_device(const gmv_engine *engine, int64_t ordinal,
    gmv_device **out_device, gmv_error *err);

/*
 * Allocates within the quota; out of memory, the device is trimmed and asked once more. The bytes are given back by gmv_engine_free.
 *
 * @retval GMV_ERR_QUOTA_EXCEEDED, GMV_ERR_DEVICE_OUT_OF_MEMORY, GMV_ERR_DEVICE_LOST
 */
GMV_NODISCARD gmv_status gmv_engine_allocate(gmv_engine *engine, gmv_device *device,
    gmv_stream *stream, gmv_memory_kind kind, gmv_contents contents, uint64_t nbytes,
    gmv_memory **out_memory, gmv_error *err);
void gmv_engine_free(gmv_engine *engine, gmv_memory *memory);

GMV_END_DECLS

#endif
