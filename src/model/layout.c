/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measuring layouts. Every product and sum of client numbers is checked; once a measure has
 * succeeded, offsets derived from it cannot overflow.
 */
#include <gmv/model/layout.h>

#include <inttypes.h>
#include <stdio.h>

#include <gmv/base/num.h>

gmv_layout gmv_layout_flat(int64_t n_elements)
{
    gmv_layout layout;
    layout.ndim = 1;
    layout.has_strides = false;
    layout.shape[0] = n_elements;
    return layout;
}

static bool layout_is_empty(const gmv_layout *layout)
{
    for (int32_t i = 0; i < layout->ndim; i++)
        if (layout->shape[i] == 0)
            return true;
    return false;
}

gmv_status gmv_layout_check_shape(const gmv_layout *layout, gmv_error *err)
{
    if (layout->ndim < 0 || layout->ndim > GMV_NDIM_MAX)
        return gmv_fail(err, GMV_ERR_VALUE, "/shape",
                        "the shape has %" PRId32 " dimensions; at most %d are possible",
                        layout->ndim, GMV_NDIM_MAX);
    for (int32_t i = 0; i < layout->ndim; i++) {
        if (layout->shape[i] < 0) {
            char pointer[32];
            (void)snprintf(pointer, sizeof pointer, "/shape/%" PRId32, i);
            return gmv_fail(err, GMV_ERR_VALUE, pointer,
                            "extent %" PRId64 " is negative; extents count elements",
                            layout->shape[i]);
        }
    }
    return GMV_OK;
}

/* Bytes of all elements, with extents of 0 left out: what strides are computed from. */
static gmv_status layout_count_nbytes(const gmv_layout *layout, int64_t itemsize,
                                      int64_t *out_nbytes, gmv_error *err)
{
    int64_t nbytes = itemsize;
    for (int32_t i = 0; i < layout->ndim; i++)
        if (layout->shape[i] != 0 && !gmv_mul_checked(nbytes, layout->shape[i], &nbytes))
            return gmv_fail(err, GMV_ERR_VALUE, "/shape",
                            "the shape times %" PRId64 " bytes an element does not fit 63 bits",
                            itemsize);
    *out_nbytes = nbytes;
    return GMV_OK;
}

static gmv_status layout_measure_strides(const gmv_layout *layout, int64_t itemsize,
                                         gmv_extent *extent, gmv_error *err)
{
    int64_t low = 0;
    int64_t high = itemsize;
    for (int32_t i = 0; i < layout->ndim; i++) {
        int64_t reach;
        if (layout->shape[i] == 1)
            continue;
        if (!gmv_mul_checked(layout->shape[i] - 1, layout->strides[i], &reach) ||
            !gmv_add_checked(low, GMV_MIN(reach, 0), &low) ||
            !gmv_add_checked(high, GMV_MAX(reach, 0), &high))
            return gmv_fail(err, GMV_ERR_OUT_OF_BOUNDS, "/shape",
                            "extent %" PRId64 " times stride %" PRId64 " in dimension %" PRId32
                            " reaches beyond 63 bits",
                            layout->shape[i], layout->strides[i], i);
    }
    extent->low = low;
    extent->high = high;
    return GMV_OK;
}

static bool layout_is_contiguous(const gmv_layout *layout, int64_t itemsize)
{
    int64_t expected = itemsize;
    for (int32_t i = layout->ndim; i-- > 0;) {
        if (layout->shape[i] == 1)
            continue;
        if (layout->strides[i] != expected)
            return false;
        expected *= layout->shape[i];
    }
    return true;
}

gmv_status gmv_layout_measure(const gmv_layout *layout, int64_t itemsize, gmv_extent *out_extent,
                              gmv_error *err)
{
    int64_t nbytes = 0;
    GMV_TRY(gmv_layout_check_shape(layout, err));
    GMV_TRY(layout_count_nbytes(layout, itemsize, &nbytes, err));
    gmv_extent extent = {.contiguous = true};
    if (!layout_is_empty(layout)) {
        extent.size = nbytes / itemsize;
        extent.nbytes = nbytes;
        extent.high = nbytes;
        if (layout->has_strides) {
            GMV_TRY(layout_measure_strides(layout, itemsize, &extent, err));
            extent.contiguous = layout_is_contiguous(layout, itemsize);
        }
    }
    *out_extent = extent;
    return GMV_OK;
}

gmv_status gmv_layout_check_exact(const gmv_layout *layout, const gmv_extent *extent,
                                  gmv_error *err)
{
    int64_t largest = extent->nbytes;
    for (int32_t i = 0; i < layout->ndim; i++)
        largest = GMV_MAX(largest, layout->shape[i]);
    if (largest > GMV_EXACT_IN_DOUBLE_MAX)
        return gmv_fail(err, GMV_ERR_VALUE, "/shape",
                        "the shape spans %" PRId64 " bytes or elements; 2^53-1 is the most",
                        largest);
    return GMV_OK;
}

gmv_status gmv_extent_check_inside(const gmv_extent *extent, int64_t offset, int64_t nbytes,
                                   gmv_error *err)
{
    /* With 0 <= offset <= nbytes, neither -offset nor nbytes - offset can overflow. */
    if (offset >= 0 && offset <= nbytes && extent->low >= -offset &&
        extent->high <= nbytes - offset)
        return GMV_OK;
    return gmv_fail(err, GMV_ERR_OUT_OF_BOUNDS, "/shape",
                    "the elements lie in bytes %" PRId64 " to %" PRId64 " from offset %" PRId64
                    ", outside the memory of %" PRId64 " bytes",
                    extent->low, extent->high, offset, nbytes);
}

gmv_status gmv_layout_check_alignment(const gmv_layout *layout, int64_t alignment, uint64_t address,
                                      const char *address_pointer, gmv_error *err)
{
    if (layout_is_empty(layout))
        return GMV_OK;
    if (address % (uint64_t)alignment != 0)
        return gmv_fail(err, GMV_ERR_VALUE, address_pointer,
                        "address %" PRIu64 " is not a multiple of %" PRId64
                        ", the alignment of the element type",
                        address, alignment);
    for (int32_t i = 0; layout->has_strides && i < layout->ndim; i++) {
        if (layout->shape[i] > 1 && layout->strides[i] % alignment != 0) {
            char pointer[32];
            (void)snprintf(pointer, sizeof pointer, "/strides/%" PRId32, i);
            return gmv_fail(err, GMV_ERR_VALUE, pointer,
                            "stride %" PRId64 " is not a multiple of %" PRId64
                            ", the alignment of the element type",
                            layout->strides[i], alignment);
        }
    }
    return GMV_OK;
}

void gmv_layout_c_strides(const gmv_layout *layout, int64_t itemsize, int64_t *out_strides)
{
    int64_t stride = itemsize;
    for (int32_t i = layout->ndim; i-- > 0;) {
        out_strides[i] = stride;
        stride *= GMV_MAX(layout->shape[i], 1);
    }
}
