/* SPDX-License-Identifier: Apache-2.0 */
/* What the files on columns, tables and packed tables share. */
#ifndef GMV_OPS_COLUMN_PRIV_H
#define GMV_OPS_COLUMN_PRIV_H

#include <gmv/ops/column.h>

/* The device of a view's memory; -1 if it has none. NULL: -1. */
int32_t gmv__view_device(const gmv_view *view);

/* The engine's device of that ordinal; NULL if there is none. */
gmv_device *gmv__engine_device_of(gmv_engine *engine, int32_t ordinal);

/* What the address of elements of a fixed-width type must be a multiple of: their width. */
size_t gmv__type_alignment(int32_t type_id);

/* Which child is what. */
#define GMV_CHILD_OFFSETS  0 /* of STRING and LIST */
#define GMV_CHILD_ELEMENTS 1 /* of LIST */
#define GMV_CHILD_INDICES  0 /* of DICTIONARY32 */
#define GMV_CHILD_KEYS     1

/* All that can be said of a request without looking at device memory. */
GMV_NODISCARD gmv_status gmv__column_check(const gmv_column_request *request, gmv_error *err);

/* Looks at the offsets or indices of a request that fits, and waits. Weighs the work. */
GMV_NODISCARD gmv_status gmv__column_check_offsets(gmv_operation *operation,
                                                   const gmv_column_request *request,
                                                   gmv_error *err);

/* Integer `index` of a row of signed little-endian ones of `width` bytes, at any address. */
int64_t gmv__integer_at(const void *integers, int64_t width, int64_t index);

/* Announces a view's memory. A view without memory: nothing. */
GMV_NODISCARD gmv_status gmv__view_use(gmv_stream *stream, const gmv_view *view, gmv_error *err);

/*
 * Counts the nulls among `size` bits from bit `offset` of a mask that is long enough, and waits.
 * Weighs the work. No mask, or one of 0 bytes: 0, and the device is left alone.
 */
GMV_NODISCARD gmv_status gmv__mask_count_nulls(gmv_operation *operation, const gmv_view *mask,
                                               int64_t offset, int64_t size,
                                               int64_t *out_null_count, gmv_error *err);

/* What an inner part of a result takes over from the request: everything but the label. */
static inline gmv_creation gmv__inner_creation(const gmv_creation *creation)
{
    return (gmv_creation){.exportable = creation && creation->exportable};
}

/* Bytes that hold bits 0 to n - 1. */
static inline int64_t gmv__bits_nbytes(int64_t n)
{
    return n / 8 + (n % 8 != 0);
}

#endif
