/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pack in pieces: the bytes that gmv_pack would make, a chunk at a time or from any place on, never
 * all of them on the device. How many there are, and where nested rows begin and end, is read once,
 * when it is made: where somebody writes to the table meanwhile the bytes may be any, but nothing
 * outside the table is read and their number stays.
 */
#ifndef GMV_OPS_CHUNKED_PACK_H
#define GMV_OPS_CHUNKED_PACK_H

#include <gmv/ops/table.h>

GMV_BEGIN_DECLS

#define GMV_CHUNKED_PACK_BATCH_NBYTES ((uint64_t)1 << 20) /* buffers are cut into such batches */
#define GMV_CHUNKED_PACK_NBYTES_MIN   GMV_CHUNKED_PACK_BATCH_NBYTES
#define GMV_CHUNKED_PACK_NBYTES       ((uint64_t)64 << 20) /* chunks, where nobody says */

/* Used by one thread at a time; may outlive the operation that made it. Holds its table. */
typedef struct gmv_chunked_pack gmv_chunked_pack;

/*
 * `chunk_nbytes`: what a chunk may have at most. @newref: gmv_chunked_pack_destroy.
 *
 * @retval GMV_ERR_VALUE  chunk_nbytes below 1 MiB ("/chunk_nbytes")
 * Otherwise as gmv_pack.
 */
GMV_NODISCARD gmv_status gmv_chunked_pack_create(gmv_operation *operation, gmv_table *table,
                                                 int64_t chunk_nbytes, gmv_chunked_pack **out_pack,
                                                 gmv_error *err);

/* Gives back what it holds, from any thread and without blocking. NULL: nothing. */
void gmv_chunked_pack_destroy(gmv_chunked_pack *pack);

/* Bytes of all chunks together: what gmv_packed_size says. */
uint64_t gmv_chunked_pack_total_nbytes(const gmv_chunked_pack *pack);

/*
 * Whether there is another chunk: of no more than chunk_nbytes, made of whole batches of 1 MiB of
 * each buffer (the last batch of a buffer may be shorter). A table with rows and without bytes has
 * one chunk of 0 bytes.
 */
bool gmv_chunked_pack_has_next(const gmv_chunked_pack *pack);

/*
 * Writes the next chunk to the start of `span`, and waits. After a failure the same chunk is next.
 *
 * @retval GMV_ERR_READONLY, GMV_ERR_NOT_CONTIGUOUS  of the span ("/span")
 * @retval GMV_ERR_VALUE  a span of fewer bytes than chunk_nbytes, on another device or at an
 * address that is no multiple of 64 ("/span"); no chunk is left
 */
GMV_NODISCARD gmv_status gmv_chunked_pack_next(gmv_chunked_pack *pack, gmv_operation *operation,
                                               gmv_view *span, uint64_t *out_nbytes,
                                               gmv_error *err);

/*
 * Makes bytes [offset, offset + nbytes) and copies them to host memory, and waits. Device memory of
 * as many bytes, but no more than chunk_nbytes, is taken for that and given back. `stream` is the
 * thread's own on the table's device. Leaves the next chunk alone.
 *
 * @retval GMV_ERR_OUT_OF_BOUNDS, GMV_ERR_MEMORY_LOST, GMV_ERR_DEVICE_LOST
 */
GMV_NODISCARD gmv_status gmv_chunked_pack_read(gmv_chunked_pack *pack, gmv_stream *stream,
                                               uint64_t offset, void *out, uint64_t nbytes,
                                               gmv_error *err);

/* The metadata that goes with the bytes, nulls counted now. Freed by gmv_packed_metadata_fini. */
GMV_NODISCARD gmv_status gmv_chunked_pack_metadata(gmv_chunked_pack *pack, gmv_operation *operation,
                                                   gmv_packed_metadata *out_metadata,
                                                   gmv_error *err);

/*
 * All bytes, to be served: they are made as they are read, by gmv_chunked_pack_read. Errors as
 * gmv_chunked_pack_create.
 *
 * @retval GMV_ERR_QUOTA_EXCEEDED  also more bytes than one operation may pass over
 */
GMV_NODISCARD gmv_status gmv_chunked_pack_bytes(gmv_operation *operation, gmv_table *table,
                                                int64_t chunk_nbytes, gmv_bytes *out_bytes,
                                                gmv_error *err);

GMV_END_DECLS

#endif
