/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the members of a CUDA Array Interface payload may say, and what a mask means. Geometry is
 * judged by layout.c, and whether an address is registered by the registry.
 */
#include <gmv/model/cai.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The two default streams; a poster that names one has synchronized. */
#define CAI_STREAM_LEGACY     1
#define CAI_STREAM_PER_THREAD 2

const char *gmv_mask_kind_name(gmv_mask_kind kind)
{
    static const char *const names[] = {
        [GMV_MASK_BOOLS] = "bools",
        [GMV_MASK_BYTES] = "bytes",
        [GMV_MASK_BITS] = "bits",
    };
    unsigned index = (unsigned)kind;
    return index < sizeof names / sizeof names[0] ? names[index] : NULL;
}

static gmv_status cai_check_version(const gmv_cai *cai, gmv_error *err)
{
    if (cai->version >= 0 && cai->version <= GMV_CAI_VERSION_MAX)
        return GMV_OK;
    return gmv_fail(err, GMV_ERR_VALUE, "/version",
                    "version is %" PRId64 "; versions 0 to %d are understood", cai->version,
                    GMV_CAI_VERSION_MAX);
}

/* `*out_empty` tells whether there are no elements. */
static gmv_status cai_check_shape(const gmv_cai *cai, bool *out_empty, gmv_error *err)
{
    *out_empty = false;
    for (int32_t i = 0; i < cai->layout.ndim; i++) {
        int64_t extent = cai->layout.shape[i];
        if (extent < 0) {
            char pointer[32];
            (void)snprintf(pointer, sizeof pointer, "/shape/%" PRId32, i);
            return gmv_fail(err, GMV_ERR_VALUE, pointer,
                            "extent %" PRId64 " is negative; extents count elements", extent);
        }
        *out_empty |= extent == 0;
    }
    return GMV_OK;
}

static gmv_status cai_check_stream(const gmv_cai *cai, bool has_event, gmv_error *err)
{
    if (!cai->has_stream)
        return GMV_OK;
    if (cai->stream <= 0)
        return gmv_fail(err, GMV_ERR_VALUE, "/stream",
                        "stream is %" PRId64 "; give null, 1 or 2 once the data is ready",
                        cai->stream);
    if (cai->stream != CAI_STREAM_LEGACY && cai->stream != CAI_STREAM_PER_THREAD && !has_event)
        return gmv_fail(err, GMV_ERR_VALUE, "/stream",
                        "stream %" PRId64 " belongs to another process; synchronize and give "
                        "null, or send an event with it",
                        cai->stream);
    return GMV_OK;
}

gmv_status gmv_cai_check(const gmv_cai *cai, bool has_event, gmv_error *err)
{
    bool empty = true;
    GMV_TRY(cai_check_version(cai, err));
    if (cai->address < 0)
        return gmv_fail(err, GMV_ERR_VALUE, "/data/0", "address %" PRId64 " is negative",
                        cai->address);
    GMV_TRY(cai_check_shape(cai, &empty, err));
    GMV_TRY(cai_check_stream(cai, has_event, err));
    if (cai->address == 0 && !empty)
        return gmv_fail(err, GMV_ERR_VALUE, "/data/0",
                        "address 0 stands for no memory, but the shape has elements");
    return GMV_OK;
}

static bool cai_has_shape_of(const gmv_cai *mask, const gmv_cai *cai)
{
    return mask->layout.ndim == cai->layout.ndim &&
           memcmp(mask->layout.shape, cai->layout.shape,
                  (size_t)cai->layout.ndim * sizeof cai->layout.shape[0]) == 0;
}

/* Whether `mask`, as bytes of bits, is long enough for the rows of a 1-d array. */
static bool cai_holds_bits_for(const gmv_cai *mask, const gmv_cai *cai)
{
    if (mask->layout.ndim != 1 || cai->layout.ndim != 1)
        return false;
    int64_t rows = cai->layout.shape[0];
    return mask->layout.shape[0] >= rows / 8 + (rows % 8 != 0);
}

static gmv_status cai_mask_misfit(const char *what, gmv_error *err)
{
    return gmv_fail(err, GMV_ERR_VALUE, "/mask/shape", "the mask's shape does not fit: %s", what);
}

static gmv_status cai_classify_bytes(const gmv_cai *cai, const gmv_cai *mask,
                                     gmv_mask_kind requested, gmv_mask_kind *out_kind,
                                     gmv_error *err)
{
    bool equal = cai_has_shape_of(mask, cai);
    bool bits = requested == GMV_MASK_BITS || (requested == GMV_MASK_NONE && !equal);
    if (bits && !cai_holds_bits_for(mask, cai))
        return cai_mask_misfit("a |u1 mask has the array's own shape, or, for a 1-d array, one "
                               "dimension of at least a byte for 8 rows",
                               err);
    if (!bits && !equal)
        return cai_mask_misfit("a mask of bytes has the array's own shape", err);
    *out_kind = bits ? GMV_MASK_BITS : GMV_MASK_BYTES;
    return GMV_OK;
}

static gmv_status cai_classify_bools(const gmv_cai *cai, const gmv_cai *mask,
                                     gmv_mask_kind *out_kind, gmv_error *err)
{
    if (!cai_has_shape_of(mask, cai))
        return cai_mask_misfit("a |b1 mask has the array's own shape", err);
    *out_kind = GMV_MASK_BOOLS;
    return GMV_OK;
}

static gmv_status cai_classify_bit_field(const gmv_cai *cai, const gmv_cai *mask,
                                         gmv_mask_kind *out_kind, gmv_error *err)
{
    if (cai->layout.ndim != 1 || !cai_has_shape_of(mask, cai))
        return cai_mask_misfit("a |t1 mask is for a 1-d array and has one bit a row", err);
    *out_kind = GMV_MASK_BITS;
    return GMV_OK;
}

/* Bits are read by position from the first byte on, so their bytes must lie side by side. */
static gmv_status cai_check_bits_dense(const gmv_cai *mask, gmv_error *err)
{
    if (!mask->layout.has_strides || mask->layout.shape[0] <= 1 || mask->layout.strides[0] == 1)
        return GMV_OK;
    return gmv_fail(err, GMV_ERR_VALUE, "/mask/strides",
                    "a mask of bits has a stride of %" PRId64 "; its bytes must lie side by side",
                    mask->layout.strides[0]);
}

gmv_status gmv_cai_classify_mask(const gmv_cai *cai, const gmv_cai *mask, gmv_mask_kind requested,
                                 gmv_mask_kind *out_kind, gmv_error *err)
{
    gmv_mask_kind kind = GMV_MASK_NONE;
    if (mask->is_bit_field)
        GMV_TRY(cai_classify_bit_field(cai, mask, &kind, err));
    else if (mask->dtype == GMV_DTYPE_B1)
        GMV_TRY(cai_classify_bools(cai, mask, &kind, err));
    else if (mask->dtype == GMV_DTYPE_U1 && requested != GMV_MASK_BOOLS)
        GMV_TRY(cai_classify_bytes(cai, mask, requested, &kind, err));
    else if (mask->dtype != GMV_DTYPE_U1)
        return gmv_fail(err, GMV_ERR_DTYPE_UNSUPPORTED, "/mask/typestr",
                        "a mask of type '%s' is not served; use |b1, |u1 or |t1",
                        gmv_dtype_describe(mask->dtype)->typestr);
    if (requested != GMV_MASK_NONE && requested != kind)
        return gmv_fail(err, GMV_ERR_VALUE, "/mask_kind",
                        "mask_kind is '%s', which a mask of type '%s' cannot be",
                        gmv_mask_kind_name(requested),
                        mask->is_bit_field ? "|t1" : gmv_dtype_describe(mask->dtype)->typestr);
    if (kind == GMV_MASK_BITS)
        GMV_TRY(cai_check_bits_dense(mask, err));
    *out_kind = kind;
    return GMV_OK;
}
