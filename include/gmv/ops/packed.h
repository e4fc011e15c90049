/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packed tables: cuDF's contiguous_split layout, byte for byte where cuDF defines the bytes, zero
 * where it leaves them open (cpp/src/copying/contiguous_split.cu, pack.cpp).
 */
#ifndef GMV_OPS_PACKED_H
#define GMV_OPS_PACKED_H

#include <gmv/model/packed_metadata.h>
#include <gmv/ops/table.h>

GMV_BEGIN_DECLS

typedef struct gmv_packed {
    gmv_node node;
    gmv_packed_metadata metadata; /* owned; kept after release */
    int64_t gpu_data_nbytes;      /* kept after release */
    int32_t device;
} gmv_packed;

static inline gmv_packed *gmv_packed_of(gmv_node *node)
{
    return (gmv_packed *)node;
}

/*
 * The gpu_data view of a packed handle, held by the operation.
 * @retval GMV_ERR_ALREADY_RELEASED
 */
GMV_NODISCARD gmv_status gmv_packed_gpu_data(gmv_operation *operation, gmv_packed *packed,
                                             gmv_view **out_view, gmv_error *err);

/* Bytes of gpu_data that gmv_pack would make. @retval GMV_ERR_DTYPE_UNSUPPORTED */
GMV_NODISCARD gmv_status gmv_packed_size(gmv_operation *operation, gmv_table *table,
                                         int64_t *out_nbytes, gmv_error *err);

/*
 * Packs a whole table into one new buffer; nulls are counted now. What somebody writes to the table
 * meanwhile may or may not be in it.
 *
 * @retval GMV_ERR_DTYPE_UNSUPPORTED  a type that the layout has no place for
 * @retval GMV_ERR_VALUE              a column that the layout cannot hold as it is (the message
 * says which), or more columns than one call takes
 * @retval GMV_MOVE_TO_BULK, GMV_ERR_QUOTA_EXCEEDED  as gmv_operation_weigh
 * @retval as gmv_engine_allocate and gmv_stream_finish
 */
GMV_NODISCARD gmv_status gmv_pack(gmv_operation *operation, gmv_table *table,
                                  const gmv_creation *creation, gmv_packed **out_packed,
                                  gmv_error *err);

/*
 * One partition more than splits; none for a table of no columns and no rows, whatever the splits.
 * *out_packed is an array of *out_n held handles, freed by the caller with gmv_free.
 *
 * @retval GMV_ERR_VALUE  more than 2^20 splits times columns ("/splits")
 * @retval GMV_ERR_INDEX  a split past the rows (the last one is looked at first), "/splits/N"
 * @retval GMV_ERR_VALUE  negative, or below the one before, "/splits/N"
 */
GMV_NODISCARD gmv_status gmv_contiguous_split(gmv_operation *operation, gmv_table *table,
                                              const int64_t *splits, size_t n_splits,
                                              const gmv_creation *creation,
                                              gmv_packed ***out_packed, size_t *out_n,
                                              gmv_error *err);

/*
 * Gives the packed handle's gpu_data a name of its own and empties the handle.
 * @retval GMV_ERR_ALREADY_RELEASED
 */
GMV_NODISCARD gmv_status gmv_packed_release(gmv_operation *operation, gmv_packed *packed,
                                            gmv_view **out_gpu_data, gmv_error *err);

/*
 * A table of inner columns that point into the packed buffer; their views own the handle and its
 * gpu_data. Null counts are counted again, and offsets checked: clients may have written to both.
 *
 * @retval GMV_ERR_METADATA_INVALID  offsets that were written to no longer fit the columns
 */
GMV_NODISCARD gmv_status gmv_unpack(gmv_operation *operation, gmv_packed *packed,
                                    const gmv_creation *creation, gmv_table **out_table,
                                    gmv_error *err);

/*
 * The same from untrusted metadata and any contiguous view (NULL: no data).
 * @retval GMV_ERR_METADATA_INVALID  also null counts and ends that masks and offsets belie, all
 * read on the device before anything is made
 * @retval GMV_ERR_NOT_CONTIGUOUS    "/gpu_data"
 * @retval GMV_ERR_VALUE             gpu_data whose address is misaligned for its columns
 * ("/gpu_data")
 */
GMV_NODISCARD gmv_status gmv_unpack_from_memoryviews(gmv_operation *operation, const void *metadata,
                                                     size_t metadata_nbytes, gmv_view *gpu_data,
                                                     const gmv_creation *creation,
                                                     gmv_table **out_table, gmv_error *err);

GMV_END_DECLS

#endif
