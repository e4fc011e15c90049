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

/* Errors as gmv_memory_import_shm; base: value_error at "/posix_shm/base" (negative, 0, or wraps
 * past 2^63). */
GMV_NODISCARD gmv_status gmv_buffer_import_shm(gmv_operation *operation,
                                               const gmv_import_shm *request,
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
 * An upload: memory that grows (doubling) as bytes arrive, then becomes a buffer. Each call may run
 * in another operation, one at a time. Memory held beyond the content is bounded by its size.
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

/*
 * Bytes to serve: a region that this process can read as long as the value lives. It holds what it
 * needs (a node in flight, or scratch memory of its own) and may outlive the operation.
 */
typedef struct gmv_bytes {
    const void *host; /* NULL if nbytes is 0 */
    uint64_t nbytes;
    bool sealed; /* the contents can no longer change */
    gmv_engine *engine;
    gmv_node *node;       /* held in flight, or NULL */
    gmv_scratch *scratch; /* owned, or NULL */
} gmv_bytes;

/* Gives back what it holds, from any thread and without blocking: what dies is left to
 * gmv_engine_reap. */
void gmv_bytes_release(gmv_bytes *bytes);

/* The whole of a buffer. @retval GMV_ERR_MEMORY_LOST, GMV_ERR_BACKEND_UNSUPPORTED */
GMV_NODISCARD gmv_status gmv_buffer_bytes(gmv_operation *operation, gmv_buffer *buffer,
                                          gmv_bytes *out_bytes, gmv_error *err);

GMV_END_DECLS

#endif
