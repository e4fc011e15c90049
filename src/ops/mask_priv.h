/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of null-mask verbs share. */
#ifndef GMV_OPS_MASK_PRIV_H
#define GMV_OPS_MASK_PRIV_H

#include <gmv/ops/mask.h>

#include "ops/draft_priv.h"

/* An input, described first (without the device), loaded later. Exactly one of column and view is
 * set. */
typedef struct gmv_mask_input {
    gmv_column *column;
    gmv_view *view;
    gmv_cudf_type type;
    int64_t size; /* rows */
    gmv_device *device;
    uint64_t address;  /* of row 0, contiguous; set by gmv__mask_input_load */
    gmv_bits validity; /* from row 0; set by gmv__mask_input_load */
} gmv_mask_input;

GMV_NODISCARD gmv_status gmv__mask_input_describe(gmv_operation *operation, gmv_node *input,
                                                  gmv_mask_input *out_input, gmv_error *err);

/* Bytes that loading and reading it once pass over. */
uint64_t gmv__mask_input_nbytes(const gmv_mask_input *input);

/* Announces the memory, gathers and converts; needs up to 3 places for scratch memory in the draft.
 */
GMV_NODISCARD gmv_status gmv__mask_input_load(gmv_draft *draft, gmv_mask_input *input,
                                              gmv_error *err);

/* Announces a column's data and mask. */
GMV_NODISCARD gmv_status gmv__draft_use_column(gmv_draft *draft, const gmv_column *column,
                                               gmv_error *err);

/* Bits of a bitmask, GMV_BITMASK_NONE for no mask. Pointer "/bitmask". */
GMV_NODISCARD gmv_status gmv__bitmask_resolve(const gmv_view *bitmask, int64_t *out_bits,
                                              gmv_error *err);

/* The same, and the range lies in it. */
GMV_NODISCARD gmv_status gmv__bitmask_resolve_range(const gmv_view *bitmask, gmv_bit_range range,
                                                    int64_t *out_bits, gmv_error *err);

#endif
