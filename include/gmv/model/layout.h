/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the elements of an n-dimensional array lie: extents and byte strides, measured with checked
 * arithmetic. Offsets are bytes relative to element [0, ..., 0].
 */
#ifndef GMV_MODEL_LAYOUT_H
#define GMV_MODEL_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

#include <gmv/base/error.h>

GMV_BEGIN_DECLS

#define GMV_NDIM_MAX 64 /* NumPy's limit */

typedef struct gmv_layout {
    int32_t ndim;                  /* 0 to GMV_NDIM_MAX; 0 is one element */
    bool has_strides;              /* false: C-contiguous, `strides` is not set */
    int64_t shape[GMV_NDIM_MAX];   /* elements, each >= 0 */
    int64_t strides[GMV_NDIM_MAX]; /* bytes, any sign */
} gmv_layout;

typedef struct gmv_extent {
    int64_t size;    /* elements: product of the shape */
    int64_t nbytes;  /* logical bytes: size times item bytes */
    int64_t low;     /* first byte touched, <= 0 */
    int64_t high;    /* one past the last byte touched; low == high == 0 when empty */
    bool contiguous; /* C-contiguous; extents of 1 and empty arrays are skipped in judging */
} gmv_extent;

/* A C-contiguous 1-d layout. */
gmv_layout gmv_layout_flat(int64_t n_elements);

/*
 * What can be said without the type of the elements.
 *
 * @retval GMV_ERR_VALUE  a negative extent ("/shape/N"), too many dimensions ("/shape")
 */
GMV_NODISCARD gmv_status gmv_layout_check_shape(const gmv_layout *layout, gmv_error *err);

/*
 * Measures. The product of the non-zero extents times the item size must fit int64 even when an
 * extent is 0; negative and positive strides are summed apart, so that they cannot cancel.
 *
 * @retval GMV_ERR_VALUE          a negative extent ("/shape/N") or overflow of the shape ("/shape")
 * @retval GMV_ERR_OUT_OF_BOUNDS  overflow of a stride times its extent: no memory is that large
 *                                ("/shape")
 */
GMV_NODISCARD gmv_status gmv_layout_measure(const gmv_layout *layout, int64_t itemsize,
                                            gmv_extent *out_extent, gmv_error *err);

/*
 * Whether answers can state the shape: broadcast or empty, an array may pass what doubles hold.
 *
 * @retval GMV_ERR_VALUE  an extent or the logical size beyond 2^53-1 ("/shape")
 */
GMV_NODISCARD gmv_status gmv_layout_check_exact(const gmv_layout *layout, const gmv_extent *extent,
                                                gmv_error *err);

/*
 * Whether [offset + low, offset + high) lies inside [0, nbytes); offset is that of element 0 and
 * may be `nbytes` itself for an empty array.
 *
 * @retval GMV_ERR_OUT_OF_BOUNDS  pointer "/shape"
 */
GMV_NODISCARD gmv_status gmv_extent_check_inside(const gmv_extent *extent, int64_t offset,
                                                 int64_t nbytes, gmv_error *err);

/*
 * Whether every element is aligned: the address (of element 0) and each stride of an extent above 1
 * must be multiples of `alignment`. Empty layouts pass.
 *
 * @retval GMV_ERR_VALUE  pointer "/strides/N", or `address_pointer` for the address
 */
GMV_NODISCARD gmv_status gmv_layout_check_alignment(const gmv_layout *layout, int64_t alignment,
                                                    uint64_t address, const char *address_pointer,
                                                    gmv_error *err);

/* Writes the C-contiguous byte strides of a shape whose measure succeeded. */
void gmv_layout_c_strides(const gmv_layout *layout, int64_t itemsize, int64_t *out_strides);

GMV_END_DECLS

#endif
