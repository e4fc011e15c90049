/* SPDX-License-Identifier: Apache-2.0 */
/* DLPack tensors: what they may say, and what they mean as payloads and back. */
#include <string.h>

#include <criterion/criterion.h>

#include <gmv/model/dlpack.h>

static gmv_dlpack dlpack_plain(void)
{
    return (gmv_dlpack){
        .has_version = true,
        .major = 1,
        .minor = 1,
        .device_type = GMV_DLPACK_CUDA,
        .code = 2,
        .bits = 32,
        .lanes = 1,
        .layout = {.ndim = 2, .has_strides = true, .shape = {3, 4}, .strides = {4, 1}},
        .data = 0x10000,
    };
}

static gmv_status dlpack_read(const gmv_dlpack *tensor, gmv_cai *out, gmv_error *err)
{
    gmv_error_init(err);
    memset(out, 0, sizeof *out);
    return gmv_dlpack_to_cai(tensor, GMV_DLPACK_CUDA, out, err);
}

static void dlpack_refused(const gmv_dlpack *tensor, gmv_status status, const char *pointer)
{
    gmv_cai cai;
    gmv_error err;
    cr_expect_eq(dlpack_read(tensor, &cai, &err), status, "%s: %s", pointer, err.message);
    cr_expect_str_eq(err.pointer, pointer);
}

Test(dlpack, a_tensor_becomes_a_payload_with_byte_strides)
{
    gmv_dlpack tensor = dlpack_plain();
    gmv_cai cai;
    gmv_error err;
    tensor.byte_offset = 12;
    tensor.read_only = true;
    tensor.layout.strides[0] = -4;
    cr_assert_eq(dlpack_read(&tensor, &cai, &err), GMV_OK);
    cr_expect_eq(cai.address, 0x10000 + 12);
    cr_expect_eq(cai.dtype, GMV_DTYPE_F4);
    cr_expect(cai.readonly && cai.layout.has_strides && !cai.has_stream && !cai.is_bit_field);
    cr_expect_eq(cai.layout.ndim, 2);
    cr_expect_eq(cai.layout.shape[1], 4);
    cr_expect_eq(cai.layout.strides[0], -16);
    cr_expect_eq(cai.layout.strides[1], 4);
}

Test(dlpack, types_are_told_by_code_bits_and_lanes)
{
    static const struct {
        int64_t code, bits, lanes;
        gmv_dtype dtype; /* GMV_DTYPE_COUNT: not served */
    } rows[] = {
        {0, 8, 1, GMV_DTYPE_I1},
        {0, 64, 1, GMV_DTYPE_I8},
        {1, 8, 1, GMV_DTYPE_U1},
        {1, 16, 1, GMV_DTYPE_U2},
        {2, 16, 1, GMV_DTYPE_F2},
        {2, 64, 1, GMV_DTYPE_F8},
        {4, 16, 1, GMV_DTYPE_BF16},
        {5, 64, 1, GMV_DTYPE_C8},
        {5, 128, 1, GMV_DTYPE_C16},
        {6, 8, 1, GMV_DTYPE_B1},
        {10, 8, 1, GMV_DTYPE_F8_E4M3FN},
        {12, 8, 1, GMV_DTYPE_F8_E5M2},
        {6, 1, 1, GMV_DTYPE_COUNT},
        {1, 1, 1, GMV_DTYPE_COUNT},
        {2, 32, 2, GMV_DTYPE_COUNT},
        {2, 32, 0, GMV_DTYPE_COUNT},
        {2, 128, 1, GMV_DTYPE_COUNT},
        {2, 8, 1, GMV_DTYPE_COUNT},
        {0, 0, 1, GMV_DTYPE_COUNT},
        {0, 128, 1, GMV_DTYPE_COUNT},
        {3, 64, 1, GMV_DTYPE_COUNT},
        {4, 32, 1, GMV_DTYPE_COUNT},
        {5, 32, 1, GMV_DTYPE_COUNT},
        {7, 8, 1, GMV_DTYPE_COUNT},
        {8, 8, 1, GMV_DTYPE_COUNT},
        {9, 8, 1, GMV_DTYPE_COUNT},
        {11, 8, 1, GMV_DTYPE_COUNT},
        {13, 8, 1, GMV_DTYPE_COUNT},
        {14, 8, 1, GMV_DTYPE_COUNT},
        {15, 6, 1, GMV_DTYPE_COUNT},
        {17, 4, 1, GMV_DTYPE_COUNT},
        {99, 8, 1, GMV_DTYPE_COUNT},
        {255, 255, 65535, GMV_DTYPE_COUNT},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        gmv_dlpack tensor = dlpack_plain();
        gmv_cai cai;
        gmv_error err;
        tensor.code = rows[i].code;
        tensor.bits = rows[i].bits;
        tensor.lanes = rows[i].lanes;
        if (rows[i].dtype == GMV_DTYPE_COUNT) {
            dlpack_refused(&tensor, GMV_ERR_DTYPE_UNSUPPORTED, "/dtype");
        } else {
            cr_expect_eq(dlpack_read(&tensor, &cai, &err), GMV_OK, "row %zu", i);
            cr_expect_eq(cai.dtype, rows[i].dtype, "row %zu", i);
        }
    }
}

Test(dlpack, numbers_that_a_tensor_cannot_hold_are_value_errors)
{
    gmv_dlpack tensor = dlpack_plain();
    tensor.code = -1;
    dlpack_refused(&tensor, GMV_ERR_VALUE, "/dtype/code");
    tensor = dlpack_plain();
    tensor.bits = 256;
    dlpack_refused(&tensor, GMV_ERR_VALUE, "/dtype/bits");
    tensor = dlpack_plain();
    tensor.lanes = 65536;
    dlpack_refused(&tensor, GMV_ERR_VALUE, "/dtype/lanes");
    tensor = dlpack_plain();
    tensor.device_id = -1;
    dlpack_refused(&tensor, GMV_ERR_VALUE, "/device/id");
    tensor = dlpack_plain();
    tensor.data = -1;
    dlpack_refused(&tensor, GMV_ERR_VALUE, "/data");
    tensor = dlpack_plain();
    tensor.byte_offset = -4;
    dlpack_refused(&tensor, GMV_ERR_VALUE, "/byte_offset");
    tensor.byte_offset = INT64_MAX;
    dlpack_refused(&tensor, GMV_ERR_VALUE, "/byte_offset");
    tensor = dlpack_plain();
    tensor.layout.shape[1] = -1;
    dlpack_refused(&tensor, GMV_ERR_VALUE, "/shape/1");
}

Test(dlpack, only_the_served_device_is_taken)
{
    static const int64_t others[] = {-1, 0, 1, 3, 4, 10, 13, INT64_MAX};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        gmv_dlpack tensor = dlpack_plain();
        tensor.device_type = others[i];
        dlpack_refused(&tensor, GMV_ERR_VALUE, "/device/type");
    }
    gmv_dlpack tensor = dlpack_plain();
    gmv_cai cai;
    gmv_error err;
    tensor.device_type = GMV_DLPACK_CPU;
    gmv_error_init(&err);
    cr_expect_eq(gmv_dlpack_to_cai(&tensor, GMV_DLPACK_CPU, &cai, &err), GMV_OK);
}

Test(dlpack, another_major_version_is_not_read)
{
    static const int64_t majors[] = {-1, 0, 2, INT64_MAX};
    for (size_t i = 0; i < sizeof majors / sizeof majors[0]; i++) {
        gmv_dlpack tensor = dlpack_plain();
        tensor.major = majors[i];
        dlpack_refused(&tensor, GMV_ERR_VALUE, "/version");
    }
    gmv_dlpack tensor = dlpack_plain();
    tensor.minor = -1;
    dlpack_refused(&tensor, GMV_ERR_VALUE, "/version");
}

Test(dlpack, strides_must_be_said_from_version_1_2_on)
{
    gmv_cai cai;
    gmv_error err;
    gmv_dlpack tensor = dlpack_plain();
    tensor.layout.has_strides = false;
    cr_expect_eq(dlpack_read(&tensor, &cai, &err), GMV_OK);
    cr_expect_not(cai.layout.has_strides);
    tensor.has_version = false;
    tensor.minor = 9;
    cr_expect_eq(dlpack_read(&tensor, &cai, &err), GMV_OK);
    tensor.has_version = true;
    tensor.minor = 2;
    dlpack_refused(&tensor, GMV_ERR_VALUE, "/strides");
    tensor.layout.ndim = 0;
    cr_expect_eq(dlpack_read(&tensor, &cai, &err), GMV_OK);
    tensor.layout.ndim = 2;
    tensor.layout.has_strides = true;
    tensor.minor = 77;
    cr_expect_eq(dlpack_read(&tensor, &cai, &err), GMV_OK);
}

Test(dlpack, strides_beyond_any_memory_are_left_to_the_bounds)
{
    gmv_cai cai;
    gmv_error err;
    gmv_dlpack tensor = dlpack_plain();
    tensor.layout.strides[0] = INT64_MAX / 2;
    tensor.layout.strides[1] = INT64_MIN / 2;
    cr_assert_eq(dlpack_read(&tensor, &cai, &err), GMV_OK);
    cr_expect_eq(cai.layout.strides[0], INT64_MAX);
    cr_expect_eq(cai.layout.strides[1], INT64_MIN);
}

Test(dlpack, every_type_goes_there_and_back_but_dates)
{
    gmv_layout layout = {.ndim = 2, .has_strides = true, .shape = {3, 5}};
    for (int i = 0; i < GMV_DTYPE_COUNT; i++) {
        const gmv_dtype_info *info = gmv_dtype_describe((gmv_dtype)i);
        gmv_dlpack tensor;
        gmv_cai cai;
        gmv_error err;
        gmv_error_init(&err);
        layout.strides[0] = -2 * info->itemsize;
        layout.strides[1] = 0;
        cr_assert_eq(gmv_dlpack_from_layout((gmv_dtype)i, &layout, 4096, true, &tensor, &err),
                     GMV_OK);
        cr_expect_eq(tensor.layout.strides[0], -2);
        cr_expect_eq(tensor.bits, 8 * info->itemsize);
        tensor.device_type = GMV_DLPACK_CUDA;
        cr_assert_eq(dlpack_read(&tensor, &cai, &err), GMV_OK);
        bool is_time = info->kind == GMV_DTYPE_DATETIME || info->kind == GMV_DTYPE_TIMEDELTA;
        cr_expect_eq(cai.dtype, is_time ? GMV_DTYPE_I8 : (gmv_dtype)i);
        cr_expect(cai.readonly);
        cr_expect_eq(cai.address, 4096);
        cr_expect_eq(memcmp(cai.layout.strides, layout.strides, 2 * sizeof(int64_t)), 0);
    }
}

Test(dlpack, strides_that_are_no_whole_elements_cannot_be_told)
{
    gmv_layout layout = {.ndim = 2, .has_strides = true, .shape = {2, 2}, .strides = {12, 8}};
    gmv_dlpack tensor;
    gmv_error err;
    gmv_error_init(&err);
    cr_expect_eq(gmv_dlpack_from_layout(GMV_DTYPE_C8, &layout, 64, false, &tensor, &err),
                 GMV_ERR_VALUE);
    layout.shape[0] = 1;
    cr_expect_eq(gmv_dlpack_from_layout(GMV_DTYPE_C8, &layout, 64, false, &tensor, &err), GMV_OK);
    layout.shape[0] = 2;
    layout.shape[1] = 0;
    cr_expect_eq(gmv_dlpack_from_layout(GMV_DTYPE_C8, &layout, 0, false, &tensor, &err), GMV_OK);
}
