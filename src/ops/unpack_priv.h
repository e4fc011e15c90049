/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unpacking in two steps: read what the data itself says (null counts, offsets, how many characters
 * there are), each byte once, and believe the metadata only as far as that agrees; then make the
 * columns over it.
 */
#ifndef GMV_OPS_UNPACK_PRIV_H
#define GMV_OPS_UNPACK_PRIV_H

#include <gmv/base/alloc.h>

#include "ops/column_priv.h"
#include "ops/packed_priv.h"

/* What the data says of one entry. */
typedef struct gmv_unpack_reading {
    int64_t null_count;
    int64_t characters; /* STRING: where its offsets end */
} gmv_unpack_reading;

typedef struct gmv_unpack_source {
    gmv_operation *operation;
    const gmv_packed_metadata *metadata; /* decoded, or written by pack */
    gmv_view *gpu_data;                  /* contiguous; NULL: none */
} gmv_unpack_source;

static inline bool gmv__unpack_has_mask(const gmv_packed_entry *entry)
{
    return entry->size > 0 && entry->null_mask_offset >= 0;
}

/* Whether an entry is followed by that of its offsets, and there are some. */
static inline bool gmv__unpack_has_offsets(const gmv_packed_entry *entry)
{
    const bool is_of_type = entry->type_id == GMV_CUDF_STRING || entry->type_id == GMV_CUDF_LIST;
    return is_of_type && entry->num_children > 0 && entry[1].size > 0;
}

/*
 * Reads all null masks and offsets, and waits. Fills a reading for each entry. Weighs the work.
 *
 * @retval GMV_ERR_METADATA_INVALID  offsets that do not start at 0, decrease, or do not end where
 * the elements or the data do
 * @retval GMV_ERR_VALUE             data at an address that is misaligned for an entry
 */
GMV_NODISCARD gmv_status gmv__unpack_read(const gmv_unpack_source *source,
                                          gmv_unpack_reading *readings, gmv_error *err);

#endif
