/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuDF's chunks: every buffer is cut into batches of 1 MiB, whose last one may be shorter, and a
 * chunk takes whole batches as long as they fit. A buffer without bytes is one batch of none, which
 * goes with the chunk before it.
 */
#include <gmv/base/num.h>

#include "ops/chunked_pack_priv.h"

bool gmv__chunks_have_next(const gmv_chunks *chunks, const gmv_chunk_cursor *cursor)
{
    return chunks->has_rows && (cursor->is_first || cursor->buffer < chunks->n_buffers);
}

uint64_t gmv__chunks_step(const gmv_chunks *chunks, gmv_chunk_cursor *cursor)
{
    const uint64_t begin = cursor->offset;
    const uint64_t limit = begin + chunks->chunk_nbytes;
    while (cursor->buffer < chunks->n_buffers) {
        const uint64_t left = chunks->ends[cursor->buffer] - cursor->offset;
        const uint64_t batch = GMV_MIN(left, GMV_CHUNKED_PACK_BATCH_NBYTES);
        if (cursor->offset + batch > limit)
            break;
        cursor->offset += batch;
        cursor->buffer += batch == left;
    }
    cursor->is_first = false;
    return cursor->offset - begin;
}
