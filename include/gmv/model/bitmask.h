/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Geometry of null masks: bit i is bit i % 8 of byte i / 8 (so bit i % 32 of little-endian word
 * i / 32), 1 is valid. Masks that gmvd makes are padded to 64 bytes, padding zero. That is Arrow's
 * validity bitmap (columnar format, "Validity bitmaps") and cuDF's
 * (cpp/include/cudf/null_mask.hpp).
 */
#ifndef GMV_MODEL_BITMASK_H
#define GMV_MODEL_BITMASK_H

#include <stdint.h>

#include <gmv/base/error.h>

GMV_BEGIN_DECLS

#define GMV_BITMASK_PADDING 64 /* bytes, as cuDF's bitmask_allocation_size_bytes */

/* Half-open range of bit positions. */
typedef struct gmv_bit_range {
    int64_t begin;
    int64_t end;
} gmv_bit_range;

#define GMV_BITMASK_NONE (-1) /* as a number of bits: there is no mask, or it is not known yet */

/* ceil(bits / 32), for bits in 0..2^31-1. */
int64_t gmv_bitmask_words(int64_t bits);

/* ceil(bits / 8) rounded up to 64 bytes, for bits in 0..2^31-1. */
int64_t gmv_bitmask_nbytes(int64_t bits);

/*
 * ceil(ceil(bits / 8) / padding) * padding.
 *
 * @retval GMV_ERR_VALUE  bits outside 0..2^31-1 (pointer "/number_of_bits"), padding below 1, or
 *                        a size beyond 2^53-1 by it (pointer "/padding_boundary")
 */
GMV_NODISCARD gmv_status gmv_bitmask_allocation_nbytes(int64_t bits, int64_t padding,
                                                       int64_t *out_nbytes, gmv_error *err);

/*
 * Checks 0 <= begin <= end <= bits_available; with GMV_BITMASK_NONE any end up to
 * 2^31-1. Pointers are "/begin_bit" and "/end_bit".
 *
 * @retval GMV_ERR_VALUE          negative, reversed, or beyond 2^31-1
 * @retval GMV_ERR_OUT_OF_BOUNDS  past the bits
 */
GMV_NODISCARD gmv_status gmv_bit_range_check(gmv_bit_range range, int64_t bits_available,
                                             gmv_error *err);

/*
 * The same for a list. Pointers are "/ranges/N".
 *
 * @retval GMV_ERR_INDEX  a negative start
 */
GMV_NODISCARD gmv_status gmv_bit_ranges_check(const gmv_bit_range *ranges, size_t n_ranges,
                                              int64_t bits_available, gmv_error *err);

GMV_END_DECLS

#endif
