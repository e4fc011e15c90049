/* SPDX-License-Identifier: Apache-2.0 */
/*
 * device: where bytes live. One interface, backends behind it: memory, copies, streams, sharing and
 * (kernels.h) kernels. Knows nothing of handles or clients.
 *
 * Rules that every backend keeps:
 *  - An address is a number in the daemon's view of the device; 0 stands for "no memory".
 *  - Work is enqueued on a stream and is done when gmv_stream_finish has returned; results that a
 *    call writes to host memory (counts, copies) are valid then. The host backend works at once.
 *  - A stream belongs to one thread at a time. Devices and memory may be used from any thread.
 *  - What an operation reads or writes is announced first with gmv_stream_use. That is what lets
 * the daemon survive an exporter that cuts its segment short: the operation then fails memory_lost.
 *  - Once a device is lost every call fails device_lost and nothing is freed or closed on it.
 */
#ifndef GMV_DEVICE_DEVICE_H
#define GMV_DEVICE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <gmv/base/error.h>

GMV_BEGIN_DECLS

typedef struct gmv_device gmv_device;
typedef struct gmv_stream gmv_stream;
typedef struct gmv_memory gmv_memory;

typedef enum gmv_backend { GMV_BACKEND_HOST, GMV_BACKEND_CUDA } gmv_backend;

/* ---- devices ---- */

typedef struct gmv_device_options {
    int32_t ordinal;
    bool force_portable_kernels; /* host: no intrinsics, whatever the processor has */
    size_t cache_nbytes_max;   /* bytes of freed blocks kept for reuse; 0: the backend's default */
    const char *shm_directory; /* host: NULL is "/dev/shm" */
    uint32_t job_deadline_ms;  /* CUDA: work that takes longer loses the device; 0: none does */
    bool hide_host_pointers;   /* host, for tests: memory is as unreadable as a GPU's */
} gmv_device_options;

typedef struct gmv_device_info {
    gmv_backend backend;
    int32_t ordinal;
    char name[128];
    char uuid[64];               /* "GPU-...", "" for the host */
    char compute_capability[16]; /* "9.0", "" for the host */
    char kernel_set[16];         /* host: "portable" or "avx2" */
    char driver_version[16];     /* the highest CUDA version it speaks, "13.0"; "" for the host */
    uint64_t total_nbytes;
} gmv_device_info;

/* Opens the host backend's one device. @newref: closed by gmv_device_close. */
GMV_NODISCARD gmv_status gmv_device_open_host(const gmv_device_options *options,
                                              gmv_device **out_device, gmv_error *err);

/*
 * How many CUDA devices there are. *out_count is written in any case: 0 unless GMV_OK.
 *
 * @retval GMV_ERR_BACKEND_UNSUPPORTED  built without a CUDA toolkit, or there is no usable driver
 */
GMV_NODISCARD gmv_status gmv_cuda_device_count(int32_t *out_count, gmv_error *err);

/*
 * Opens CUDA device `options->ordinal`. @newref: closed by gmv_device_close. May take a second.
 *
 * @retval GMV_ERR_BACKEND_UNSUPPORTED  as above, or a device that this build has no kernels for
 * @retval GMV_ERR_VALUE                no device has that ordinal
 */
GMV_NODISCARD gmv_status gmv_device_open_cuda(const gmv_device_options *options,
                                              gmv_device **out_device, gmv_error *err);

/* All memory and streams must be gone. NULL: nothing. */
void gmv_device_close(gmv_device *device);

/* @borrowed, lives with the device. */
const gmv_device_info *gmv_device_describe(const gmv_device *device);

/* The highest CUDA version that the driver speaks, "" for the host. @borrowed, as above. */
const char *gmv_device_driver_version(const gmv_device *device);

/* Bytes that could still be allocated, a cached estimate; never blocks. */
uint64_t gmv_device_free_nbytes(const gmv_device *device);

/* Whether the device is lost; *out_reason (may be NULL) is then @borrowed text. Never blocks. */
bool gmv_device_is_lost(const gmv_device *device, const char **out_reason);

/* Marks it lost for good; the first reason stays. Thread-safe, never blocks. */
void gmv_device_mark_lost(gmv_device *device, const char *reason);

/* For tests: the n-th fallible call from now on (1 = the next) fails with `status`; 0: none. */
void gmv_device_fail_once(gmv_device *device, uint64_t n, gmv_status status);

/* For tests: whether that failure has happened since. */
bool gmv_device_has_failed(const gmv_device *device);

/*
 * Asks the device how it is: reads the estimate of gmv_device_free_nbytes anew, and finds out that
 * an idle device is lost. May block: for the maintenance thread.
 */
void gmv_device_refresh(gmv_device *device);

/* Gives cached blocks back to the system. May block: never on an HTTP thread. */
void gmv_device_trim(gmv_device *device);

/* ---- memory ---- */

typedef enum gmv_memory_kind {
    GMV_MEMORY_EXPORTABLE, /* an allocation of its own that another process can open */
    GMV_MEMORY_ORDINARY,   /* carved from a pool */
    GMV_MEMORY_IMPORTED    /* another process's, mapped here; made by the import calls only */
} gmv_memory_kind;

typedef enum gmv_contents {
    GMV_CONTENTS_ZEROED,
    GMV_CONTENTS_UNSPECIFIED /* the caller overwrites every byte, padding included, before anyone
                                sees one */
} gmv_contents;

/*
 * A block. Its start is aligned to 64 bytes at least (256 on CUDA) and its capacity is a multiple
 * of 64; the bytes from `nbytes` to `capacity` are zero. The public members are set once at
 * creation.
 */
struct gmv_memory {
    gmv_device *device;
    uint64_t address;  /* 0 if nbytes is 0 */
    uint64_t nbytes;   /* what was asked for, or what the import covers */
    uint64_t capacity; /* usable bytes; equal to nbytes for imports */
    gmv_memory_kind kind;
    bool readonly; /* imports of segments that cannot be written */
    gmv_id owner; /* set by the floor above: which handle owns it (named by handle_exported_here) */
};

/*
 * @retval GMV_ERR_DEVICE_OUT_OF_MEMORY  also for sizes that cannot exist
 * May block: never on an HTTP thread. @newref: freed by gmv_memory_free. nbytes may be 0.
 */
GMV_NODISCARD gmv_status gmv_memory_allocate(gmv_device *device, gmv_stream *stream,
                                             gmv_memory_kind kind, gmv_contents contents,
                                             uint64_t nbytes, gmv_memory **out_memory,
                                             gmv_error *err);

/* Frees, unmaps, closes or unlinks; no work may still use it. NULL: nothing. May block. */
void gmv_memory_free(gmv_memory *memory);

/* The bytes themselves if this process can read them (host backend), else NULL. @borrowed. */
void *gmv_memory_host_pointer(const gmv_memory *memory);

/* Whether its exporter has cut it short under us. */
bool gmv_memory_is_lost(const gmv_memory *memory);

/* ---- sharing ---- */

typedef enum gmv_share_mechanism { GMV_SHARE_POSIX_SHM, GMV_SHARE_CUDA_IPC } gmv_share_mechanism;

#define GMV_IPC_HANDLE_NBYTES 64
#define GMV_SHM_NAME_MAX      256 /* with the leading '/' and the final NUL */

typedef struct gmv_share {
    gmv_share_mechanism mechanism;
    char shm_name[GMV_SHM_NAME_MAX];           /* posix_shm: as shm_open takes it, "/gmvd-..." */
    uint8_t ipc_handle[GMV_IPC_HANDLE_NBYTES]; /* cuda_ipc */
    char device_uuid[64];                      /* cuda_ipc */
    uint64_t offset; /* bytes from the start of what is opened to the memory */
    uint64_t nbytes;
} gmv_share;

/*
 * Makes exportable memory reachable for other processes; once exported it is never reused. The
 * same memory always gives the same answer.
 *
 * @retval GMV_ERR_NOT_EXPORTABLE  imported or ordinary memory, 0 bytes
 */
GMV_NODISCARD gmv_status gmv_memory_export(gmv_memory *memory, gmv_share *out_share,
                                           gmv_error *err);

/*
 * Maps a POSIX shared memory segment. `nbytes` < 0: all of it. `writable`: ask for write access; a
 * segment that cannot be written is mapped readonly all the same and says so. One mapping of a
 * segment is shared and counted by all imports of it.
 *
 * @retval GMV_ERR_HANDLE_INVALID        malformed name, no such segment, not a regular file, no
 * access (pointer "/posix_shm/name")
 * @retval GMV_ERR_HANDLE_EXPORTED_HERE  this daemon's own export; err->subject is the handle that
 * owns it
 * @retval GMV_ERR_OUT_OF_BOUNDS         nbytes beyond the segment (pointer "/posix_shm/nbytes")
 * @retval GMV_ERR_BACKEND_UNSUPPORTED   not the host backend (pointer "/posix_shm")
 */
GMV_NODISCARD gmv_status gmv_memory_import_shm(gmv_device *device, const char *name, int64_t nbytes,
                                               bool writable, gmv_memory **out_memory,
                                               gmv_error *err);

/*
 * Opens another process's CUDA allocation by its legacy IPC handle. `nbytes` < 0: all that the
 * driver says it has. One mapping of a handle is shared and counted by all imports of it.
 *
 * @retval GMV_ERR_HANDLE_INVALID        the driver cannot open it (pointer "/cuda_ipc/handle")
 * @retval GMV_ERR_HANDLE_EXPORTED_HERE  this daemon's own export; err->subject is the handle that
 * owns it
 * @retval GMV_ERR_OUT_OF_BOUNDS         nbytes beyond the allocation (pointer "/cuda_ipc/nbytes")
 * @retval GMV_ERR_BACKEND_UNSUPPORTED   not the CUDA backend (pointer "/cuda_ipc")
 */
GMV_NODISCARD gmv_status gmv_memory_import_ipc(gmv_device *device,
                                               const uint8_t handle[GMV_IPC_HANDLE_NBYTES],
                                               int64_t nbytes, bool writable,
                                               gmv_memory **out_memory, gmv_error *err);

/*
 * Says that no one will use `memory` any more, and tells whether its bytes go back once it is
 * freed: always for memory of our own; for an import only if it is the last of its mapping that has
 * not been retired. Once for a block at most; gmv_memory_free retires what was not. Never blocks
 * (an atomic count beside the mapping's own): it is asked under a lock.
 */
bool gmv_memory_retire(gmv_memory *memory);

/* Mappings of imported memory that are open now, for metrics. Never blocks. */
uint64_t gmv_device_import_mappings(const gmv_device *device);

/* ---- streams and copies ---- */

/* Whose work goes first where a device is busy. The host backend makes no difference. */
typedef enum gmv_stream_priority {
    GMV_STREAM_PRIORITY_DEFAULT,
    GMV_STREAM_PRIORITY_HIGHEST, /* short work that somebody waits for */
    GMV_STREAM_PRIORITY_LOWEST   /* bulk work */
} gmv_stream_priority;

/*
 * A stream of the default priority, or of another. @newref: gmv_stream_destroy, before the device
 * is closed. May block.
 *
 * @retval GMV_ERR_OVERLOADED                          no host memory
 * @retval GMV_ERR_DEVICE_OUT_OF_MEMORY, GMV_ERR_DEVICE_LOST
 */
GMV_NODISCARD gmv_status gmv_stream_create(gmv_device *device, gmv_stream **out_stream,
                                           gmv_error *err);
GMV_NODISCARD gmv_status gmv_stream_create_with_priority(gmv_device *device,
                                                         gmv_stream_priority priority,
                                                         gmv_stream **out_stream, gmv_error *err);

/* Abandons its work. NULL: nothing. */
void gmv_stream_destroy(gmv_stream *stream);

/* @borrowed, outlives the stream. */
gmv_device *gmv_stream_device(const gmv_stream *stream);

/* Announces that work enqueued until the next finish touches `memory`. NULL: nothing. */
GMV_NODISCARD gmv_status gmv_stream_use(gmv_stream *stream, gmv_memory *memory, gmv_error *err);

/*
 * Waits for all work, forgets what was announced, and tells how it went.
 *
 * @retval GMV_ERR_MEMORY_LOST  memory that was announced has been cut short: results are worthless
 * @retval GMV_ERR_DEVICE_LOST
 */
GMV_NODISCARD gmv_status gmv_stream_finish(gmv_stream *stream, gmv_error *err);

/* The same where the outcome no longer matters (after another failure). */
void gmv_stream_abandon(gmv_stream *stream);

/*
 * Finds out whether what another process has recorded in its interprocess event is done; waits for
 * a fraction of a millisecond at most.
 *
 * @retval GMV_RUN_AGAIN                not yet; the error says so for whoever gives up
 * @retval GMV_ERR_HANDLE_INVALID       the driver cannot open it (pointer "/event")
 * @retval GMV_ERR_BACKEND_UNSUPPORTED  not the CUDA backend (pointer "/event")
 */
GMV_NODISCARD gmv_status gmv_stream_wait_event(gmv_stream *stream,
                                               const uint8_t event_handle[GMV_IPC_HANDLE_NBYTES],
                                               gmv_error *err);

/*
 * Host to device, device to host, within the device (no overlap), and filling; sizes in bytes, 0 is
 * fine. `source` of gmv_copy_in may be changed once the call has returned; what gmv_copy_out reads
 * is in `destination` after gmv_stream_finish, and the memory must live until then.
 *
 * @retval GMV_ERR_DEVICE_LOST, GMV_ERR_DEVICE_OUT_OF_MEMORY, GMV_ERR_OVERLOADED
 */
GMV_NODISCARD gmv_status gmv_copy_in(gmv_stream *stream, uint64_t destination, const void *source,
                                     uint64_t nbytes, gmv_error *err);
GMV_NODISCARD gmv_status gmv_copy_out(gmv_stream *stream, void *destination, uint64_t source,
                                      uint64_t nbytes, gmv_error *err);
GMV_NODISCARD gmv_status gmv_copy_within(gmv_stream *stream, uint64_t destination, uint64_t source,
                                         uint64_t nbytes, gmv_error *err);
GMV_NODISCARD gmv_status gmv_fill(gmv_stream *stream, uint64_t destination, uint8_t value,
                                  uint64_t nbytes, gmv_error *err);

GMV_END_DECLS

#endif
