/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a column's null mask is what the column says of it. */
#ifndef GMV_OPS_MASK_CHECK_H
#define GMV_OPS_MASK_CHECK_H

#include <gmv/ops/column.h>

GMV_BEGIN_DECLS

typedef struct gmv_mask_check {
    int64_t claimed;       /* the column's null count, as counted when it was made */
    int64_t counted;       /* nulls among the rows now */
    int64_t bits_past_end; /* ones behind the last row, to the end of the mask */
    int64_t bits_before;   /* bits of the mask before row 0: the column's offset */
    bool is_misaligned;    /* the mask's words do not lie at multiples of 4 */
} gmv_mask_check;

/* Counts on the device. @retval GMV_MOVE_TO_BULK, GMV_ERR_MEMORY_LOST, GMV_ERR_DEVICE_LOST */
GMV_NODISCARD gmv_status gmv_column_check_mask(gmv_operation *operation, gmv_column *column,
                                               gmv_mask_check *out_check, gmv_error *err);

GMV_END_DECLS

#endif
