/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Byte slices as Python's slice.indices(nbytes) resolves them, for a step of 1 (which is all that
 * pylibcudf's gpumemoryview takes).
 */
#ifndef GMV_MODEL_SLICE_H
#define GMV_MODEL_SLICE_H

#include <stdbool.h>
#include <stdint.h>

#include <gmv/base/error.h>

GMV_BEGIN_DECLS

/* Integers beyond int64 are saturated by the reader, which gives the same result. */
typedef struct gmv_slice {
    bool has_start, has_stop, has_step;
    int64_t start, stop, step;
} gmv_slice;

/*
 * What can be said without the bytes.
 *
 * @retval GMV_ERR_VALUE  a step other than 1 (pointer "/step")
 */
GMV_NODISCARD gmv_status gmv_slice_check(const gmv_slice *slice, gmv_error *err);

/*
 * Resolves `slice` against `nbytes` bytes. Out of range is clamped, reversed is empty at the
 * clamped start.
 *
 * @retval GMV_ERR_VALUE  a step other than 1 (pointer "/step")
 */
GMV_NODISCARD gmv_status gmv_slice_resolve(const gmv_slice *slice, int64_t nbytes,
                                           int64_t *out_offset, int64_t *out_length,
                                           gmv_error *err);

GMV_END_DECLS

#endif
