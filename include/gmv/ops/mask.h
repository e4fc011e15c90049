/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Null-mask verbs (cuDF's null_mask.hpp and transform.hpp). Bits LSB first, 1 is valid; results are
 * named |u1 views over inner buffers padded to 64 bytes, padding zero.
 *
 * A `bitmask` that is NULL or of 0 bytes is "no mask": all valid. An `input` is a column, or a 1-d
 * view taken as one (gathered if strided, its own mask counting). Made handles are held by the
 * operation. Positions and counts are rows, 0 to 2^31-1.
 *
 * Beside what is said there, verbs that take a bitmask fail with GMV_ERR_DTYPE_UNSUPPORTED (neither
 * |u1 nor <u4) and GMV_ERR_NOT_CONTIGUOUS at "/bitmask", and with the errors of
 * gmv_bit_range_check; all with GMV_MOVE_TO_BULK or GMV_ERR_QUOTA_EXCEEDED (gmv_operation_weigh),
 * and with those of gmv_engine_allocate and gmv_stream_finish.
 */
#ifndef GMV_OPS_MASK_H
#define GMV_OPS_MASK_H

#include <gmv/model/bitmask.h>
#include <gmv/ops/column.h>

GMV_BEGIN_DECLS

typedef struct gmv_mask_result {
    gmv_view *mask;
    int64_t null_count;
} gmv_mask_result;

/* @retval GMV_ERR_DTYPE_UNSUPPORTED  not BOOL8 ("/input"); GMV_ERR_VALUE  a view that is not 1-d */
GMV_NODISCARD gmv_status gmv_bools_to_mask(gmv_operation *operation, gmv_node *input,
                                           const gmv_creation *creation,
                                           gmv_mask_result *out_result, gmv_error *err);

/* @retval GMV_ERR_DTYPE_UNSUPPORTED  neither FLOAT32 nor FLOAT64 ("/input") */
GMV_NODISCARD gmv_status gmv_nans_to_nulls(gmv_operation *operation, gmv_node *input,
                                           const gmv_creation *creation,
                                           gmv_mask_result *out_result, gmv_error *err);

/* A new column: offset 0, values copied unchanged, the mask kept even without nulls; its views are
 * inner. */
GMV_NODISCARD gmv_status gmv_column_nans_to_nulls(gmv_operation *operation, gmv_node *input,
                                                  const gmv_creation *creation,
                                                  gmv_column **out_column, gmv_error *err);

/* BOOL8 column of end - begin rows. No mask: only of an empty range (`value_error` at "/bitmask").
 */
GMV_NODISCARD gmv_status gmv_mask_to_bools(gmv_operation *operation, gmv_view *bitmask,
                                           gmv_bit_range range, const gmv_creation *creation,
                                           gmv_column **out_column, gmv_error *err);

typedef enum gmv_mask_state {
    GMV_MASK_UNALLOCATED,
    GMV_MASK_UNINITIALIZED, /* zeroed */
    GMV_MASK_ALL_VALID,     /* every byte ff, padding too, as cuDF */
    GMV_MASK_ALL_NULL
} gmv_mask_state;

/* size 0..2^31-1 (else value_error "/size"). */
GMV_NODISCARD gmv_status gmv_create_null_mask(gmv_operation *operation, int64_t device,
                                              int64_t size, gmv_mask_state state,
                                              const gmv_creation *creation, gmv_view **out_mask,
                                              gmv_error *err);

/* In place. @retval GMV_ERR_READONLY; GMV_ERR_VALUE  no mask ("/bitmask") */
GMV_NODISCARD gmv_status gmv_set_null_mask(gmv_operation *operation, gmv_view *bitmask,
                                           gmv_bit_range range, bool valid, gmv_error *err);

/* Bits begin to end, from bit 0 of a new mask on. Of "no mask", and of no bits, a mask of 0 bytes.
 */
GMV_NODISCARD gmv_status gmv_copy_bitmask(gmv_operation *operation, gmv_view *bitmask,
                                          gmv_bit_range range, const gmv_creation *creation,
                                          gmv_view **out_mask, gmv_error *err);

/* The same of a column's rows, its offset applied. */
GMV_NODISCARD gmv_status gmv_copy_column_bitmask(gmv_operation *operation, gmv_column *column,
                                                 const gmv_creation *creation, gmv_view **out_mask,
                                                 gmv_error *err);

/* AND: columns without a mask count as all valid. OR: one column without a mask makes the result
 * "no mask". */
GMV_NODISCARD gmv_status gmv_combine_bitmasks(gmv_operation *operation, gmv_bits_operation kind,
                                              gmv_column *const *columns, size_t n_columns,
                                              const gmv_creation *creation,
                                              gmv_mask_result *out_result, gmv_error *err);

/* How many bits of the range are 0, and how many are 1. Of "no mask" none is 0. */
GMV_NODISCARD gmv_status gmv_null_count(gmv_operation *operation, gmv_view *bitmask,
                                        gmv_bit_range range, int64_t *out_count, gmv_error *err);
GMV_NODISCARD gmv_status gmv_valid_count(gmv_operation *operation, gmv_view *bitmask,
                                         gmv_bit_range range, int64_t *out_count, gmv_error *err);

/* out_counts has n_ranges places. Pointers "/ranges/N". A negative start is index_error. */
GMV_NODISCARD gmv_status gmv_segmented_null_count(gmv_operation *operation, gmv_view *bitmask,
                                                  const gmv_bit_range *ranges, size_t n_ranges,
                                                  int64_t *out_counts, gmv_error *err);

/* Relative to begin; the range's length if there is none; an empty range is value_error
 * ("/end_bit"). */
GMV_NODISCARD gmv_status gmv_index_of_first_set_bit(gmv_operation *operation, gmv_view *bitmask,
                                                    gmv_bit_range range, int64_t *out_index,
                                                    gmv_error *err);

GMV_END_DECLS

#endif
