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

#include <gmv/base/atomic.h>
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
    uint64_t max_device_nbytes;  /* memory that gmvd allocates on one device; 0: no limit but the
                                    device's */
    uint64_t max_logical_nbytes; /* bytes that one operation may pass over or materialize; 0: the
                                    default, 1 TiB */
    uint64_t max_handles;        /* 0: no limit */
} gmv_limits;

/* Device memory that an operation needs for itself, and that may outlive it under an answer. */
typedef struct gmv_scratch {
    gmv_memory *memory;
    struct gmv_scratch *next; /* in the list of what waits to be freed */
} gmv_scratch;

typedef struct gmv_engine {
    gmv_registry *registry;
    gmv_device *devices[GMV_DEVICES_MAX];
    size_t n_devices;
    gmv_limits limits;
    GMV_ATOMIC(uint_fast64_t)
    reserved_nbytes[GMV_DEVICES_MAX]; /* capacity of what gmvd allocated, imports left out */
    GMV_ATOMIC(uint_fast64_t)
    registered_nbytes[GMV_DEVICES_MAX][GMV_ORIGIN_COUNT]; /* nbytes of live buffers */
    GMV_ATOMIC(uint_fast64_t) operations_in_flight;
    GMV_ATOMIC(gmv_scratch *) discarded; /* scratch given up by threads that may not block */
    void (*notify)(void *context);       /* set once before use, or NULL */
    void *notify_context;
} gmv_engine;

/*
 * Sets up over open devices, which the engine then owns (also on failure). `options` may hold an
 * observer; its max_handles is taken from `limits`.
 */
GMV_NODISCARD gmv_status gmv_engine_init(gmv_engine *engine, gmv_device *const *devices,
                                         size_t n_devices, const gmv_limits *limits,
                                         const gmv_registry_options *options, gmv_error *err);

/* Frees every handle, then the registry and the devices. No operation may be in flight. */
void gmv_engine_fini(gmv_engine *engine);

/*
 * Frees what threads that may not block have given up, dead handles and scratch memory, and takes
 * names whose leases have run out. Returns how many; to be called again until it is 0. May block:
 * for the maintenance thread.
 */
size_t gmv_engine_reap(gmv_engine *engine);

/* `notify` is called (from any thread, no lock held) when there is something to reap; set once
 * before use. */
void gmv_engine_on_reapable(gmv_engine *engine, void (*notify)(void *context), void *context);

/* @retval GMV_ERR_VALUE  there is no such device (pointer "/device") */
GMV_NODISCARD gmv_status gmv_engine_device(const gmv_engine *engine, int64_t ordinal,
                                           gmv_device **out_device, gmv_error *err);

/*
 * Allocates within the quota; out of memory, the device is trimmed and asked once more. The bytes
 * are given back by gmv_engine_free.
 *
 * @retval GMV_ERR_QUOTA_EXCEEDED, GMV_ERR_DEVICE_OUT_OF_MEMORY, GMV_ERR_DEVICE_LOST
 */
GMV_NODISCARD gmv_status gmv_engine_allocate(gmv_engine *engine, gmv_device *device,
                                             gmv_stream *stream, gmv_memory_kind kind,
                                             gmv_contents contents, uint64_t nbytes,
                                             gmv_memory **out_memory, gmv_error *err);

/* Frees allocated or imported memory and gives its quota back. NULL: nothing. May block. */
void gmv_engine_free(gmv_engine *engine, gmv_memory *memory);

/* Scratch memory: ordinary, contents unspecified. @newref: gmv_engine_discard_scratch. */
GMV_NODISCARD gmv_status gmv_engine_scratch(gmv_engine *engine, gmv_device *device,
                                            gmv_stream *stream, uint64_t nbytes,
                                            gmv_scratch **out_scratch, gmv_error *err);

/* Frees it here if `may_block`, else leaves it to gmv_engine_reap. Allocates nothing. NULL:
 * nothing. */
void gmv_engine_discard_scratch(gmv_engine *engine, gmv_scratch *scratch, bool may_block);

/* Whether its devices are CUDA devices: all are of one backend. */
bool gmv_engine_has_cuda(const gmv_engine *engine);

/* The place of a device among the engine's. */
size_t gmv_engine_device_index(const gmv_engine *engine, const gmv_device *device);

GMV_END_DECLS

#endif
