/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The metadata of cuDF's packed tables (cpp/src/copying/pack.cpp): version 2 with a 16-byte header
 * (releases 26.08 and later) and the headerless layout before it, whose first 40-byte entry stands
 * for the table. Little-endian. Entries are 40 bytes each, depth first, parents before children.
 */
#ifndef GMV_MODEL_PACKED_METADATA_H
#define GMV_MODEL_PACKED_METADATA_H

#include <stddef.h>
#include <stdint.h>

#include <gmv/base/error.h>

GMV_BEGIN_DECLS

#define GMV_PACKED_HEADER_NBYTES 16
#define GMV_PACKED_ENTRY_NBYTES  40
#define GMV_PACKED_VERSION       2  /* what is written by default */
#define GMV_PACKED_HEADERLESS    0  /* the layout before 26.08 */
#define GMV_PACKED_ALIGNMENT     64 /* of every buffer within gpu_data, and its padding */
#define GMV_PACKED_DEPTH_MAX     64 /* deepest nesting of columns that is read */

typedef struct gmv_packed_entry {
    int32_t type_id;
    int32_t scale;
    int32_t size; /* rows */
    int32_t null_count;
    int64_t data_offset;      /* bytes from the start of gpu_data, or -1 */
    int64_t null_mask_offset; /* likewise */
    int32_t num_children;     /* direct children */
    int64_t characters; /* STRING: bytes from data_offset on, 0 where unknown; never written */
} gmv_packed_entry;

typedef struct gmv_packed_metadata {
    int32_t version;     /* GMV_PACKED_VERSION or GMV_PACKED_HEADERLESS */
    int32_t num_columns; /* top-level columns */
    int32_t num_rows;
    size_t n_entries;
    gmv_packed_entry *entries; /* owned; freed by gmv_packed_metadata_fini */
} gmv_packed_metadata;

/* Frees the entries and leaves zeroes, which may be given to it again. */
void gmv_packed_metadata_fini(gmv_packed_metadata *metadata);

/*
 * Bytes of the encoded form in `version`: 0 for a table of no columns and no rows, and for the
 * headerless layout of a table of no columns.
 */
size_t gmv_packed_metadata_nbytes(const gmv_packed_metadata *metadata, int32_t version);

/* Writes exactly that many bytes to `out_bytes`, at any alignment. Cannot fail. */
void gmv_packed_metadata_encode(const gmv_packed_metadata *metadata, int32_t version,
                                void *out_bytes);

/*
 * Reads untrusted bytes of either layout and checks the whole of what can be known without the
 * data: length, version, counts, types, scales, sizes, null counts, child counts and sizes, depth,
 * left-over entries; every buffer against `gpu_data_nbytes` (negative: unknown, only alignment and
 * sign are checked) and against the other buffers, which it must not overlap. Offsets are multiples
 * of the element size (masks: 4). Empty input is the table of no columns and no rows if
 * gpu_data_nbytes <= 0. What is allocated has a fixed ratio to the bytes that really are there.
 *
 * Headerless metadata of releases before 24.02 gave strings a second child with the characters: it
 * is joined with the string, as if a later release had written it. Up to 21.10 id 27 meant STRUCT:
 * it is read so where nothing speaks for DECIMAL128, and refused where nothing tells them apart.
 *
 * @retval GMV_ERR_METADATA_INVALID  the message says which entry and field; pointer "/metadata"
 * @retval GMV_ERR_OVERLOADED        no memory
 */
GMV_NODISCARD gmv_status gmv_packed_metadata_decode(const void *bytes, size_t nbytes,
                                                    int64_t gpu_data_nbytes,
                                                    gmv_packed_metadata *out_metadata,
                                                    gmv_error *err);

/*
 * Whether the buffers of metadata that has been decoded lie apart; to be asked again once the data
 * has told how many characters there are.
 *
 * @retval GMV_ERR_METADATA_INVALID, GMV_ERR_OVERLOADED  as above
 */
GMV_NODISCARD gmv_status gmv_packed_metadata_check_apart(const gmv_packed_metadata *metadata,
                                                         gmv_error *err);

GMV_END_DECLS

#endif
