/* SPDX-License-Identifier: Apache-2.0 */
/* Where the chunks of a packed table end. Pure: the sizes of buffers are all it needs. */
#ifndef GMV_OPS_CHUNKED_PACK_PRIV_H
#define GMV_OPS_CHUNKED_PACK_PRIV_H

#include <gmv/ops/chunked_pack.h>

/* `ends[i]` is where buffer i ends in gpu_data with its padding; buffer 0 begins at 0. */
typedef struct gmv_chunks {
    const uint64_t *ends;
    size_t n_buffers;
    uint64_t chunk_nbytes;
    bool has_rows; /* without any buffer there is one chunk of no bytes then */
} gmv_chunks;

typedef struct gmv_chunk_cursor {
    uint64_t offset; /* where the next chunk begins */
    size_t buffer;   /* that it begins in; n_buffers at the end */
    bool is_first;
} gmv_chunk_cursor;

bool gmv__chunks_have_next(const gmv_chunks *chunks, const gmv_chunk_cursor *cursor);

/* Bytes of the next chunk; moves the cursor behind it. There is one. */
uint64_t gmv__chunks_step(const gmv_chunks *chunks, gmv_chunk_cursor *cursor);

#endif
