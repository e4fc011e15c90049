/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers: registered memory, allocated, uploaded, imported or computed. Immutable but for
 * contents. */
#ifndef GMV_OPS_BUFFER_H
#define GMV_OPS_BUFFER_H

#include <gmv/base/atomic.h>
#include <gmv/ops/operation.h>

GMV_BEGIN_DECLS

typedef struct gmv_buffer {
    gmv_node node;
    gmv_engine *engine;
    gmv_memory *memory;  /* owned */
    int32_t device;      /* ordinal */
    size_t device_index; /* in engine->devices */
    uint64_t ptr;        /* in gmvd's address space; 0 if empty */
    uint64_t nbytes;
    bool readonly;
    gmv_origin origin;
    bool has_exporter_base;
    uint64_t exporter_base;
    GMV_ATOMIC(bool) shared; /* exported: other processes may write to it */
    gmv_range_entry ranges[2];
} gmv_buffer;

static inline gmv_buffer *gmv_buffer_of(gmv_node *node)
{
    return (gmv_buffer *)node;
}

/* Readonly memory that gmvd itself owns and has shared with nobody: its contents can no longer
 * change. */
bool gmv_buffer_is_sealed(const gmv_buffer *buffer);

/*
 * Prepares (does not publish) a buffer over `memory`, which it takes over on success only. For ops
 * that make buffers; `memory` counts towards the quota already unless it is imported.
 */
GMV_NODISCARD gmv_status gmv_buffer_prepare(gmv_operation *operation, gmv_memory *memory,
                                            gmv_origin origin, bool readonly,
                                            const uint64_t *exporter_base,
                                            const gmv_creation *creation, bool inner,
                                            gmv_buffer **out_buffer, gmv_error *err);

/* Undoes gmv_buffer_prepare, memory included. NULL: nothing. */
void gmv_buffer_discard(gmv_buffer *buffer);

/* Allocates zeroed, exportable memory. Pointers "/nbytes", "/device". nbytes below 0 is
 * value_error. */
GMV_NODISCARD gmv_status gmv_buffer_allocate(gmv_operation *operation, int64_t device,
                                             int64_t nbytes, bool readonly,
                                             const gmv_creation *creation, gmv_buffer **out_buffer,
                                             gmv_error *err);

/* What POST /v1/buffers/import with posix_shm asks for. */
typedef struct gmv_import_shm {
    const char *name;
    bool has_base;
    int64_t base; /* address of the segment's start in the exporter, > 0 */
    bool has_nbytes;
    int64_t nbytes;
    bool readonly;
} gmv_import_shm;

/* The same with cuda_ipc. */
typedef struct gmv_import_ipc {
    const uint8_t *handle;   /* GMV_IPC_HANDLE_NBYTES of them */
    const char *device_uuid; /* NULL: the first device that can open it */
    bool has_base;
    int64_t base; /* address of the allocation's start in the exporter, > 0 */
    bool has_nbytes;
    int64_t nbytes;
    bool readonly;
} gmv_import_ipc;

/* Errors as gmv_memory_import_shm; base: value_error at "/posix_shm/base" (negative, 0, or wraps
 * past 2^63). */
GMV_NODISCARD gmv_status gmv_buffer_import_shm(gmv_operation *operation,
                                               const gmv_import_shm *request,
                                               const gmv_creation *creation,
                                               gmv_buffer **out_buffer, gmv_error *err);

/*
 * Errors as gmv_memory_import_ipc; base as above, at "/cuda_ipc/base".
 *
 * @retval GMV_ERR_HANDLE_INVALID       also an unknown device (pointer "/cuda_ipc/device_uuid")
 * @retval GMV_ERR_BACKEND_UNSUPPORTED  no CUDA device (pointer "/cuda_ipc")
 */
GMV_NODISCARD gmv_status gmv_buffer_import_ipc(gmv_operation *operation,
                                               const gmv_import_ipc *request,
                                               const gmv_creation *creation,
                                               gmv_buffer **out_buffer, gmv_error *err);

/*
 * Exports. Exportable memory is shared as it is (*out_buffer is `buffer`); other memory of gmvd's
 * own is cloned into a new named buffer (*out_cloned).
 */
GMV_NODISCARD gmv_status gmv_buffer_export(gmv_operation *operation, gmv_buffer *buffer,
                                           const gmv_creation *creation, gmv_buffer **out_buffer,
                                           bool *out_cloned, gmv_share *out_share, gmv_error *err);

/*
 * Writes host bytes into a buffer from `offset`, as they come.
 * @retval GMV_ERR_READONLY, GMV_ERR_OUT_OF_BOUNDS
 */
GMV_NODISCARD gmv_status gmv_buffer_write(gmv_operation *operation, gmv_buffer *buffer,
                                          uint64_t offset, const void *bytes, uint64_t nbytes,
                                          gmv_error *err);

/*
 * An upload: pieces of memory that are filled as bytes arrive, then become a buffer. Each call may
 * run in another operation, one at a time. A content of unknown length is held twice for a moment
 * at its end.
 */
typedef struct gmv_upload gmv_upload;

/* `expected_nbytes` < 0: unknown. Checks device and quota before the first byte. */
GMV_NODISCARD gmv_status gmv_upload_begin(gmv_operation *operation, int64_t device,
                                          int64_t expected_nbytes, gmv_upload **out_upload,
                                          gmv_error *err);
GMV_NODISCARD gmv_status gmv_upload_append(gmv_operation *operation, gmv_upload *upload,
                                           const void *bytes, uint64_t nbytes, gmv_error *err);
/* Publishes and consumes the upload on success; on failure the caller still aborts it. */
GMV_NODISCARD gmv_status gmv_upload_finish(gmv_operation *operation, gmv_upload *upload,
                                           bool readonly, const gmv_creation *creation,
                                           gmv_buffer **out_buffer, gmv_error *err);
/* Frees everything. May block. NULL: nothing. */
void gmv_upload_abort(gmv_upload *upload);

/* Bytes that are made as they are read. The object that makes them embeds it first. */
typedef struct gmv_bytes_source {
    gmv_device *device; /* whose streams `read` takes */
    /* As gmv_bytes_read; offset and nbytes are in range. */
    gmv_status (*read)(struct gmv_bytes_source *source, gmv_stream *stream, uint64_t offset,
                       void *out, uint64_t nbytes, gmv_error *err);
    void (*release)(struct gmv_bytes_source *source); /* frees it; must not block */
} gmv_bytes_source;

/*
 * Bytes to serve: a region of memory, or the elements of a strided view in C order, that stay as
 * long as the value lives; before them there may be a prefix in host memory. The value holds what
 * it needs (a node in flight, scratch memory of its own) and may outlive the operation. Where this
 * process cannot read the memory as it lies, `host` is NULL and the bytes are copied out piece by
 * piece, so that nothing is ever made of the size of the whole.
 */
typedef struct gmv_bytes {
    const void *host; /* of the first byte behind the prefix; NULL if there is none, or if only
                         gmv_bytes_read gets at them */
    uint64_t nbytes;  /* with the prefix */
    bool sealed;      /* the contents can no longer change */
    gmv_engine *engine;
    gmv_memory *memory;             /* @borrowed, NULL if there are none or they are `copy` */
    uint64_t address;               /* of the first byte on the device */
    const struct gmv_view *strided; /* whose elements they are, kept by `node`; NULL: a region */
    gmv_node *node;                 /* held in flight, or NULL */
    gmv_scratch *scratch;           /* owned, or NULL */
    void *copy;                     /* owned, or NULL */
    void *prefix;                   /* owned, or NULL */
    uint64_t prefix_nbytes;
    /* Behind the prefix, counted in `nbytes` but not held: read they are an error. Remote only. */
    uint64_t absent_before, absent_behind;
    gmv_bytes_source *source; /* owned, makes the bytes behind the prefix; or NULL */
} gmv_bytes;

/* The device whose streams gmv_bytes_read takes; for remote bytes only. */
static inline gmv_device *gmv_bytes_device(const gmv_bytes *bytes)
{
    return bytes->source ? bytes->source->device : bytes->memory->device;
}

/* Whether they must be copied out to be seen. */
static inline bool gmv_bytes_are_remote(const gmv_bytes *bytes)
{
    return bytes->nbytes > bytes->prefix_nbytes && !bytes->host;
}

/*
 * Copies `nbytes` bytes from `offset` on to host memory, and waits. `stream` is the thread's own on
 * the device of the bytes. May block.
 *
 * @retval GMV_ERR_OUT_OF_BOUNDS         outside of the bytes, or of what is held of them
 * @retval GMV_ERR_MEMORY_LOST, GMV_ERR_DEVICE_LOST
 * @retval GMV_ERR_DEVICE_OUT_OF_MEMORY  strided: a piece is gathered on the device first
 */
GMV_NODISCARD gmv_status gmv_bytes_read(const gmv_bytes *bytes, gmv_stream *stream, uint64_t offset,
                                        void *out, uint64_t nbytes, gmv_error *err);

/* Replaces remote bytes by a copy in host memory, and gives back what they held. May block. */
GMV_NODISCARD gmv_status gmv_bytes_fetch(gmv_bytes *bytes, gmv_stream *stream, gmv_error *err);

/* Puts a prefix before bytes without one; `prefix` (of gmv_malloc) is taken over. */
void gmv_bytes_prepend(gmv_bytes *bytes, void *prefix, uint64_t nbytes);

/*
 * Replaces live bytes by a copy on the device, taken at one time; their node is still held. Sealed
 * ones stay as they are. After any failure the bytes have been given back.
 *
 * @retval GMV_MOVE_TO_BULK, GMV_ERR_QUOTA_EXCEEDED, GMV_ERR_DEVICE_OUT_OF_MEMORY
 */
GMV_NODISCARD gmv_status gmv_bytes_freeze(gmv_operation *operation, gmv_bytes *bytes,
                                          gmv_error *err);

/*
 * The same of `nbytes` bytes from `offset` on, which lie within; no others may be read afterwards,
 * save the prefix. `nbytes` of the whole stays.
 */
GMV_NODISCARD gmv_status gmv_bytes_freeze_part(gmv_operation *operation, gmv_bytes *bytes,
                                               uint64_t offset, uint64_t nbytes, gmv_error *err);

/* Gives back what it holds, from any thread and without blocking: what dies is left to
 * gmv_engine_reap. */
void gmv_bytes_release(gmv_bytes *bytes);

/* The whole of a buffer. @retval GMV_ERR_MEMORY_LOST, GMV_ERR_DEVICE_LOST */
GMV_NODISCARD gmv_status gmv_buffer_bytes(gmv_operation *operation, gmv_buffer *buffer,
                                          gmv_bytes *out_bytes, gmv_error *err);

GMV_END_DECLS

#endif
