/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA backend: the driver's API, opened at run time, and kernels carried as data. Private to
 * this folder; no other floor or file sees a CUDA type.
 *
 *   cuda_driver.c   finding the driver and its calls
 *   cuda_error.c    what a driver's result means: one table
 *   cuda_device.c   opening and closing, the free figure
 *   cuda_memory.c   exportable and ordinary memory
 *   cuda_cache.c    freed blocks that are kept for the next who wants as many bytes
 *   cuda_handle.c   which bytes may be given to the driver as a handle
 *   cuda_share.c    exports, imports, events of other processes
 *   cuda_stream.c   streams: waiting, results, small transfers
 *   cuda_copy.c     copies and fills; pinned buffers for big transfers
 *   cuda_kernels.c  launching what kernels/ holds
 *   cuda_split.c    the same for whole packed tables
 *   cuda_reductions.c  the same for kernels that make a few numbers of many elements
 *   cuda_none.c     instead of all these where there is no toolkit
 *
 * Locks: each of staging.lock, exports.lock, cache.lock and the table of imports' is held alone,
 * for short steps, and never around a driver call. Every entry point that calls the driver opens
 * with CUDA_SCOPE. What may run on an HTTP thread (figures, lost state, retire) calls no driver.
 */
#ifndef GMV_DEVICE_CUDA_CUDA_PRIV_H
#define GMV_DEVICE_CUDA_CUDA_PRIV_H

#include <pthread.h>

#include "device/backend.h"
#include "device/cuda/cuda_driver.h"
#include "device/cuda/kernels/arguments.h"

/* Work that is enqueued on one stream between two waits: results and small transfers. */
#define CUDA_RESULTS          32
#define CUDA_DELIVERIES       64
#define CUDA_BLOCK_NBYTES     ((size_t)1 << 20)
#define CUDA_SMALL_NBYTES     ((size_t)64 << 10) /* transfers up to here go through that block */
#define CUDA_SPIN_NS          50000
#define CUDA_EXPORT_ALIGNMENT ((uint64_t)2 << 20)

/* ---- pinned buffers for big transfers (cuda_copy.c) ---- */

#define CUDA_STAGING_BUFFERS 4
#define CUDA_STAGING_NBYTES  ((size_t)4 << 20)

typedef struct cuda_staging_buffer {
    uint8_t *bytes;
    CUevent done; /* of the last transfer from or to it */
    bool taken;
} cuda_staging_buffer;

typedef struct cuda_staging {
    pthread_mutex_t lock;
    pthread_cond_t given_back;
    uint8_t *bytes; /* all of them */
    cuda_staging_buffer buffers[CUDA_STAGING_BUFFERS];
} cuda_staging;

/* ---- freed blocks (cuda_cache.c) ---- */

#define CUDA_CACHE_BUCKETS 256

struct cuda_memory;

typedef struct cuda_cache {
    pthread_mutex_t lock;
    uint64_t nbytes, nbytes_max;
    struct cuda_memory *oldest, *newest;
    struct cuda_memory *buckets[CUDA_CACHE_BUCKETS]; /* by their bytes, newest first */
} cuda_cache;

/* ---- sharing (cuda_share.c) ---- */

#define CUDA_HANDLE_BUCKETS 256

typedef struct cuda_exports {
    pthread_mutex_t lock;
    struct cuda_memory *buckets[CUDA_HANDLE_BUCKETS]; /* memory that has been exported */
} cuda_exports;

typedef enum cuda_import_state {
    CUDA_IMPORT_OPENING,
    CUDA_IMPORT_OPEN,
    CUDA_IMPORT_FAILED
} cuda_import_state;

struct cuda_device;

/* One opened handle, shared by `count` memories and by those who wait for it to open. */
typedef struct cuda_import {
    uint8_t handle[GMV_IPC_HANDLE_NBYTES];
    const struct cuda_device *device; /* that it is open on, or tried on */
    struct cuda_import *next;
    CUdeviceptr opened; /* what to close */
    CUdeviceptr base;   /* of the allocation, and its bytes */
    size_t nbytes;
    uint64_t count;
    _Atomic uint64_t users; /* memories among them that have not been retired */
    cuda_import_state state;
    CUresult result; /* why it failed */
} cuda_import;

/* ---- the device, its memory and streams ---- */

#define CUDA_KERNEL_ENUM(name, type) CUDA_KERNEL_##name,
typedef enum cuda_kernel { GMV_CUDA_KERNEL_MAP(CUDA_KERNEL_ENUM) CUDA_KERNEL_COUNT } cuda_kernel;
#undef CUDA_KERNEL_ENUM

typedef struct cuda_device {
    gmv_device base;
    CUdevice handle;
    CUcontext context; /* the primary one, retained */
    CUmodule module;
    CUfunction kernels[CUDA_KERNEL_COUNT];
    CUmemoryPool pool;
    CUstream free_stream; /* frees to the pool; nothing else runs there */
    int priorities[3];    /* by gmv_stream_priority */
    uint32_t job_deadline_ms;
    _Atomic int64_t free_nbytes; /* estimate */
    _Atomic int64_t free_read_ns;
    cuda_staging staging;
    cuda_cache cache;
    cuda_exports exports;
    _Atomic uint64_t n_mappings; /* of imports */
    bool knows_memory_handles;   /* their layout; so the next */
    bool knows_event_handles;
    uint32_t gpu_in_handles; /* how handles of memory name this device */
} cuda_device;

typedef struct cuda_memory {
    gmv_memory base;
    uint64_t reserved_nbytes;
    bool exported; /* in the table of exports, and `handle` is fixed; under exports.lock */
    uint8_t handle[GMV_IPC_HANDLE_NBYTES];
    struct cuda_memory *next_export;
    cuda_import *import; /* imported memory only; NULL for 0 bytes */
    bool retired;
    struct cuda_memory *cached_next, *cached_older, *cached_newer; /* in the cache */
} cuda_memory;

/*
 * What goes from pinned memory to the caller's once the work is done: `nbytes` bytes, or one number
 * for each piece that wants one.
 */
typedef struct cuda_delivery {
    void *to; /* NULL: pieces */
    const gmv_copy_piece *pieces;
    const void *from;
    size_t nbytes; /* or how many pieces */
} cuda_delivery;

typedef struct cuda_stream {
    gmv_stream base;
    CUstream handle;
    CUevent done;
    bool busy;           /* something was enqueued since the last wait */
    uint8_t *pinned;     /* results, then the block; the device sees it at `mapped` */
    CUdeviceptr mapped;  /* of the results */
    CUdeviceptr scratch; /* sums, then the block's twin on the device */
    size_t block_used;
    size_t n_results;
    size_t n_deliveries;
    cuda_delivery deliveries[CUDA_DELIVERIES];
} cuda_stream;

_Static_assert(offsetof(cuda_device, base) == 0 && offsetof(cuda_memory, base) == 0 &&
                   offsetof(cuda_stream, base) == 0,
               "bases come first");

static inline cuda_device *cuda_device_of(const gmv_device *device)
{
    return (cuda_device *)(uintptr_t)device;
}

static inline cuda_memory *cuda_memory_of(const gmv_memory *memory)
{
    return (cuda_memory *)(uintptr_t)memory;
}

static inline cuda_stream *cuda_stream_of(const gmv_stream *stream)
{
    return (cuda_stream *)(uintptr_t)stream;
}

static inline cuda_device *cuda_stream_device(const cuda_stream *stream)
{
    return cuda_device_of(stream->base.device);
}

/* ---- contexts ---- */

typedef struct cuda_scope {
    bool entered;
} cuda_scope;

/* Should entering fail, so does the first call after it, which reports it. */
static inline cuda_scope cuda_scope_enter(const cuda_device *device)
{
    return (cuda_scope){device->context && gmv__cuda.context_push(device->context) == CUDA_SUCCESS};
}

static inline void cuda_scope_leave(const cuda_scope *scope)
{
    CUcontext context;
    if (scope->entered)
        (void)gmv__cuda.context_pop(&context);
}

/* The device's context is current from here to the end of the enclosing block. */
#define CUDA_SCOPE(device)        \
    GMV_CLEANUP(cuda_scope_leave) \
    __attribute__((unused)) const cuda_scope scope = cuda_scope_enter(device)

/* ---- errors (cuda_error.c) ---- */

/*
 * The status and message for a result that is not CUDA_SUCCESS of the call named `what`. Marks the
 * device lost where the result says so. `device` may be NULL while it is being opened.
 */
gmv_status gmv__cuda_fail(cuda_device *device, CUresult result, const char *what, gmv_error *err);

/* Whether the result means that the device is lost; marks it so then. */
bool gmv__cuda_is_lost(cuda_device *device, CUresult result);

/* Writes the result to the log for whom it may help. */
void gmv__cuda_log(const char *what, CUresult result);

/* Returns from the enclosing function unless the call succeeds: CUDA_TRY(device, fill(...), err) */
#define CUDA_TRY(device, call, err)                                      \
    do {                                                                 \
        CUresult cuda_result_ = gmv__cuda.call;                          \
        if (GMV_UNLIKELY(cuda_result_ != CUDA_SUCCESS))                  \
            return gmv__cuda_fail((device), cuda_result_, #call, (err)); \
    } while (0)

/* ---- devices and memory ---- */

/* Adjusts the estimate of what is free, and asks the driver when that was long ago or `now`. */
void gmv__cuda_account(cuda_device *device, int64_t nbytes_freed, bool now);

gmv_status gmv__cuda_memory_allocate(gmv_device *device, gmv_stream *stream, gmv_memory_kind kind,
                                     gmv_contents contents, uint64_t nbytes,
                                     gmv_memory **out_memory, gmv_error *err);
void gmv__cuda_memory_free(gmv_memory *memory);

/* Frees to the pool, without accounting. Under a scope; nothing if the device is lost. */
void gmv__cuda_pool_give(cuda_device *device, CUdeviceptr address);

void gmv__cuda_cache_open(cuda_device *device, uint64_t nbytes_max);

/* A block of exactly as many bytes, accounted as used; NULL if there is none. */
cuda_memory *gmv__cuda_cache_take(cuda_device *device, uint64_t nbytes);

/* False: it is not kept. Else the memory is the cache's and accounted as free. */
bool gmv__cuda_cache_give(cuda_device *device, cuda_memory *memory);

/* Gives all of it to the pool; false if there was nothing. Under a scope unless the device is lost.
 */
bool gmv__cuda_cache_empty(cuda_device *device);
uint64_t gmv__cuda_cache_nbytes(cuda_device *device);

/* ---- handles (cuda_handle.c) ---- */

/* Finds out whether the driver's handles are laid out as we know them. In the device's context. */
gmv_status gmv__cuda_handles_learn(cuda_device *device, gmv_error *err);

/* False: the driver must not see it. */
bool gmv__cuda_handle_is_event(const cuda_device *device,
                               const uint8_t handle[GMV_IPC_HANDLE_NBYTES]);

/* False: the memory is on another device. */
bool gmv__cuda_handle_is_local(const cuda_device *device,
                               const uint8_t handle[GMV_IPC_HANDLE_NBYTES]);

/* Equal for handles of the same allocation. */
uint64_t gmv__cuda_handle_key(const uint8_t handle[GMV_IPC_HANDLE_NBYTES]);

/* False: both name the same allocation, but not alike: one of them at least is not the driver's. */
bool gmv__cuda_handles_agree(const cuda_device *device, const uint8_t a[GMV_IPC_HANDLE_NBYTES],
                             const uint8_t b[GMV_IPC_HANDLE_NBYTES]);

/* ---- sharing ---- */

gmv_status gmv__cuda_memory_export(gmv_memory *memory, gmv_share *out_share, gmv_error *err);
void gmv__cuda_export_forget(cuda_device *device, cuda_memory *memory);
gmv_status gmv__cuda_memory_import_ipc(gmv_device *device,
                                       const uint8_t handle[GMV_IPC_HANDLE_NBYTES], int64_t nbytes,
                                       bool writable, gmv_memory **out_memory, gmv_error *err);
bool gmv__cuda_memory_retire(gmv_memory *memory);
void gmv__cuda_import_free(cuda_device *device, cuda_memory *memory);
gmv_status gmv__cuda_stream_wait_event(gmv_stream *stream,
                                       const uint8_t handle[GMV_IPC_HANDLE_NBYTES], gmv_error *err);

/* ---- streams ---- */

gmv_status gmv__cuda_stream_create(gmv_device *device, gmv_stream_priority priority,
                                   gmv_stream **out_stream, gmv_error *err);
void gmv__cuda_stream_destroy(gmv_stream *stream);
gmv_status gmv__cuda_stream_use(gmv_stream *stream, gmv_memory *memory, gmv_error *err);
gmv_status gmv__cuda_stream_finish(gmv_stream *stream, gmv_error *err);
void gmv__cuda_stream_abandon(gmv_stream *stream);

/* Waits for an event: spins, then blocks, or polls until the deadline and loses the device. */
gmv_status gmv__cuda_wait(cuda_device *device, CUevent event, gmv_error *err);

/* Bytes of the stream's block, pinned and on the device, and one delivery; valid until the next
 * wait, which this may itself be. nbytes is at most CUDA_BLOCK_NBYTES. */
typedef struct cuda_slice {
    uint8_t *pinned;
    CUdeviceptr scratch;
} cuda_slice;

gmv_status gmv__cuda_stream_reserve(cuda_stream *stream, size_t nbytes, cuda_slice *out_slice,
                                    gmv_error *err);

/* Has `nbytes` bytes copied from pinned memory to `to` after the next wait. There must be room. */
void gmv__cuda_stream_deliver(cuda_stream *stream, void *to, const void *from, size_t nbytes);
void gmv__cuda_stream_deliver_counts(cuda_stream *stream, const gmv_copy_piece *pieces,
                                     const void *from, size_t n_pieces);

/* A place where one kernel leaves a number for *out. NULL out: no place, and no number is made. */
gmv_status gmv__cuda_stream_result(cuda_stream *stream, int64_t *out, cuda_result *out_result,
                                   gmv_error *err);

/* ---- copies ---- */

gmv_status gmv__cuda_staging_open(cuda_device *device, gmv_error *err);
void gmv__cuda_staging_close(cuda_device *device);

gmv_status gmv__cuda_copy_in(gmv_stream *stream, uint64_t destination, const void *source,
                             uint64_t nbytes, gmv_error *err);
gmv_status gmv__cuda_copy_out(gmv_stream *stream, void *destination, uint64_t source,
                              uint64_t nbytes, gmv_error *err);
gmv_status gmv__cuda_copy_within(gmv_stream *stream, uint64_t destination, uint64_t source,
                                 uint64_t nbytes, gmv_error *err);
gmv_status gmv__cuda_fill(gmv_stream *stream, uint64_t destination, uint8_t value, uint64_t nbytes,
                          gmv_error *err);

/* ---- kernels ---- */

gmv_status gmv__cuda_kernels_load(cuda_device *device, gmv_error *err);

/* One block of threads for each `tile` of `total`. Under a scope. */
gmv_status gmv__cuda_kernel_launch(cuda_stream *stream, cuda_kernel kernel, const void *args,
                                   uint64_t total, uint64_t tile, gmv_error *err);

gmv_status gmv__cuda_valid_if(gmv_stream *stream, const gmv_valid_if *args, gmv_error *err);
gmv_status gmv__cuda_bits_to_bools(gmv_stream *stream, const gmv_bits_to_bools *args,
                                   gmv_error *err);
gmv_status gmv__cuda_copy_bits(gmv_stream *stream, const gmv_copy_bits *args, gmv_error *err);
gmv_status gmv__cuda_set_bits(gmv_stream *stream, const gmv_set_bits *args, gmv_error *err);
gmv_status gmv__cuda_combine_bits(gmv_stream *stream, const gmv_combine_bits *args, gmv_error *err);
gmv_status gmv__cuda_count_bits(gmv_stream *stream, const gmv_count_bits *args, gmv_error *err);
gmv_status gmv__cuda_find_bit(gmv_stream *stream, const gmv_find_bit *args, gmv_error *err);
gmv_status gmv__cuda_check_indices(gmv_stream *stream, const gmv_check_indices *args,
                                   gmv_error *err);
gmv_status gmv__cuda_sequence(gmv_stream *stream, const gmv_sequence *args, gmv_error *err);
gmv_status gmv__cuda_gather(gmv_stream *stream, const gmv_gather *args, gmv_error *err);
gmv_status gmv__cuda_copy_pieces(gmv_stream *stream, const gmv_copy_piece *pieces, size_t n,
                                 gmv_error *err);
gmv_status gmv__cuda_split_bounds(gmv_stream *stream, const gmv_split_bounds *args, gmv_error *err);
gmv_status gmv__cuda_split(gmv_stream *stream, const gmv_split *args, gmv_error *err);

/* ---- reductions (cuda_reductions.c) ---- */

gmv_status gmv__cuda_statistics(gmv_stream *stream, const gmv_statistics_reduction *args,
                                gmv_error *err);
gmv_status gmv__cuda_compare(gmv_stream *stream, const gmv_comparison_reduction *args,
                             gmv_error *err);
gmv_status gmv__cuda_histogram(gmv_stream *stream, const gmv_histogram_reduction *args,
                               gmv_error *err);
gmv_status gmv__cuda_hash_blocks(gmv_stream *stream, const gmv_hash_blocks *args, gmv_error *err);
gmv_status gmv__cuda_crc32c(gmv_stream *stream, const gmv_crc32c *args, gmv_error *err);

#endif
