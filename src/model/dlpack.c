/* SPDX-License-Identifier: Apache-2.0 */
/* DLPack tensors. One table pairs its type codes with ours. */
#include <gmv/model/dlpack.h>

#include <inttypes.h>
#include <stdio.h>

#include <gmv/base/num.h>

/* From this minor version on a tensor with dimensions must say its strides. */
#define DLPACK_STRIDES_SINCE 2

#define DLPACK_INT      0
#define DLPACK_BITS_MAX 255   /* also of codes */
#define DLPACK_LANE_MAX 65535 /* what 16 bits hold */

typedef struct dlpack_type {
    gmv_dtype dtype;
    uint8_t code;
    uint8_t bits;
} dlpack_type;

static const dlpack_type dlpack_types[] = {
    {GMV_DTYPE_I1, DLPACK_INT, 8},  {GMV_DTYPE_I2, DLPACK_INT, 16}, {GMV_DTYPE_I4, DLPACK_INT, 32},
    {GMV_DTYPE_I8, DLPACK_INT, 64}, {GMV_DTYPE_U1, 1, 8},           {GMV_DTYPE_U2, 1, 16},
    {GMV_DTYPE_U4, 1, 32},          {GMV_DTYPE_U8, 1, 64},          {GMV_DTYPE_F2, 2, 16},
    {GMV_DTYPE_F4, 2, 32},          {GMV_DTYPE_F8, 2, 64},          {GMV_DTYPE_BF16, 4, 16},
    {GMV_DTYPE_C8, 5, 64},          {GMV_DTYPE_C16, 5, 128},        {GMV_DTYPE_B1, 6, 8},
    {GMV_DTYPE_F8_E4M3FN, 10, 8},   {GMV_DTYPE_F8_E5M2, 12, 8},
};

#define DLPACK_TYPES (sizeof dlpack_types / sizeof dlpack_types[0])

/* ---- in ---- */

static gmv_status dlpack_check_version(const gmv_dlpack *tensor, gmv_error *err)
{
    if (!tensor->has_version)
        return GMV_OK;
    if (tensor->major != GMV_DLPACK_MAJOR)
        return gmv_fail(err, GMV_ERR_VALUE, "/version",
                        "major version %" PRId64 " of DLPack is not known, only %d", tensor->major,
                        GMV_DLPACK_MAJOR);
    if (tensor->minor < 0 || tensor->minor > UINT32_MAX)
        return gmv_fail(err, GMV_ERR_VALUE, "/version", "there is no minor version %" PRId64,
                        tensor->minor);
    return GMV_OK;
}

static gmv_status dlpack_check_device(const gmv_dlpack *tensor, gmv_dlpack_device_type wanted,
                                      gmv_error *err)
{
    if (tensor->device_type != (int64_t)wanted)
        return gmv_fail(err, GMV_ERR_VALUE, "/device/type",
                        "device type %" PRId64 " is not what this daemon serves, which is %d",
                        tensor->device_type, (int)wanted);
    if (tensor->device_id < 0 || tensor->device_id > INT32_MAX)
        return gmv_fail(err, GMV_ERR_VALUE, "/device/id", "there is no device %" PRId64,
                        tensor->device_id);
    return GMV_OK;
}

static gmv_status dlpack_check_number(int64_t value, int64_t maximum, const char *pointer,
                                      gmv_error *err)
{
    if (value >= 0 && value <= maximum)
        return GMV_OK;
    return gmv_fail(err, GMV_ERR_VALUE, pointer, "%" PRId64 " is not between 0 and %" PRId64, value,
                    maximum);
}

static gmv_status dlpack_read_dtype(const gmv_dlpack *tensor, gmv_dtype *out_dtype, gmv_error *err)
{
    GMV_TRY(dlpack_check_number(tensor->code, DLPACK_BITS_MAX, "/dtype/code", err));
    GMV_TRY(dlpack_check_number(tensor->bits, DLPACK_BITS_MAX, "/dtype/bits", err));
    GMV_TRY(dlpack_check_number(tensor->lanes, DLPACK_LANE_MAX, "/dtype/lanes", err));
    for (size_t i = 0; i < DLPACK_TYPES && tensor->lanes == 1; i++) {
        if (dlpack_types[i].code == tensor->code && dlpack_types[i].bits == tensor->bits) {
            *out_dtype = dlpack_types[i].dtype;
            return GMV_OK;
        }
    }
    return gmv_fail(err, GMV_ERR_DTYPE_UNSUPPORTED, "/dtype",
                    "elements of code %" PRId64 ", %" PRId64 " bits and %" PRId64
                    " lanes are not served",
                    tensor->code, tensor->bits, tensor->lanes);
}

static gmv_status dlpack_read_layout(const gmv_dlpack *tensor, int64_t itemsize,
                                     gmv_layout *out_layout, gmv_error *err)
{
    const gmv_layout *layout = &tensor->layout;
    GMV_TRY(gmv_layout_check_shape(layout, err));
    bool must_have_strides =
        tensor->has_version && tensor->minor >= DLPACK_STRIDES_SINCE && layout->ndim > 0;
    if (!layout->has_strides && must_have_strides)
        return gmv_fail(err, GMV_ERR_VALUE, "/strides",
                        "from version %d.%d on a tensor says its strides", GMV_DLPACK_MAJOR,
                        DLPACK_STRIDES_SINCE);
    *out_layout = *layout;
    for (int32_t i = 0; layout->has_strides && i < layout->ndim; i++) {
        int64_t stride = layout->strides[i];
        if (!gmv_mul_checked(stride, itemsize, &out_layout->strides[i]))
            out_layout->strides[i] = stride < 0 ? INT64_MIN : INT64_MAX;
    }
    return GMV_OK;
}

static gmv_status dlpack_read_address(const gmv_dlpack *tensor, int64_t *out_address,
                                      gmv_error *err)
{
    if (tensor->data < 0)
        return gmv_fail(err, GMV_ERR_VALUE, "/data", "an address is not negative");
    if (tensor->byte_offset < 0)
        return gmv_fail(err, GMV_ERR_VALUE, "/byte_offset", "byte_offset must not be negative");
    if (!gmv_add_checked(tensor->data, tensor->byte_offset, out_address))
        return gmv_fail(err, GMV_ERR_VALUE, "/byte_offset",
                        "the first element would lie past the last address");
    return GMV_OK;
}

gmv_status gmv_dlpack_to_cai(const gmv_dlpack *tensor, gmv_dlpack_device_type device_type,
                             gmv_cai *out_cai, gmv_error *err)
{
    GMV_TRY(dlpack_check_version(tensor, err));
    GMV_TRY(dlpack_check_device(tensor, device_type, err));
    GMV_TRY(dlpack_read_dtype(tensor, &out_cai->dtype, err));
    GMV_TRY(dlpack_read_layout(tensor, gmv_dtype_describe(out_cai->dtype)->itemsize,
                               &out_cai->layout, err));
    GMV_TRY(dlpack_read_address(tensor, &out_cai->address, err));
    out_cai->readonly = tensor->read_only;
    out_cai->is_bit_field = false;
    out_cai->version = GMV_CAI_VERSION_MAX;
    out_cai->has_stream = false;
    out_cai->stream = 0;
    return GMV_OK;
}

/* ---- out ---- */

static void dlpack_write_dtype(gmv_dtype dtype, gmv_dlpack *tensor)
{
    tensor->code = DLPACK_INT;
    tensor->bits = 64;
    tensor->lanes = 1;
    for (size_t i = 0; i < DLPACK_TYPES; i++) {
        if (dlpack_types[i].dtype == dtype) {
            tensor->code = dlpack_types[i].code;
            tensor->bits = dlpack_types[i].bits;
        }
    }
}

/* Strides of single extents and of nothing carry no meaning, so any number will do. */
static gmv_status dlpack_write_strides(const gmv_layout *layout, int64_t itemsize, bool is_empty,
                                       gmv_layout *out_layout, gmv_error *err)
{
    for (int32_t i = 0; i < layout->ndim; i++) {
        bool is_meant = layout->shape[i] > 1 && !is_empty;
        if (is_meant && layout->strides[i] % itemsize != 0) {
            return gmv_fail(err, GMV_ERR_VALUE, NULL,
                            "DLPack counts strides in elements, and %" PRId64
                            " bytes are no multiple of %" PRId64 "; copy the view first",
                            layout->strides[i], itemsize);
        }
        out_layout->strides[i] = layout->strides[i] / itemsize;
    }
    return GMV_OK;
}

gmv_status gmv_dlpack_from_layout(gmv_dtype dtype, const gmv_layout *layout, uint64_t address,
                                  bool readonly, gmv_dlpack *out_tensor, gmv_error *err)
{
    bool is_empty = false;
    for (int32_t i = 0; i < layout->ndim; i++)
        is_empty = is_empty || layout->shape[i] == 0;
    out_tensor->has_version = true;
    out_tensor->major = GMV_DLPACK_MAJOR;
    out_tensor->minor = GMV_DLPACK_MINOR;
    out_tensor->read_only = readonly;
    out_tensor->is_copied = false;
    out_tensor->device_type = 0;
    out_tensor->device_id = 0;
    out_tensor->layout = *layout;
    out_tensor->layout.has_strides = true;
    out_tensor->data = (int64_t)address;
    out_tensor->byte_offset = 0;
    dlpack_write_dtype(dtype, out_tensor);
    return dlpack_write_strides(layout, gmv_dtype_describe(dtype)->itemsize, is_empty,
                                &out_tensor->layout, err);
}
