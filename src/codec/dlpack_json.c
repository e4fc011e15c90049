/* SPDX-License-Identifier: Apache-2.0 */
/* DLPack tensors as JSON. */
#include "codec/dlpack_json.h"

static const gmv_field dlpack_flags_fields[] = {
    GMV_FIELD("read_only", BOOL, gmv_dlpack_members, flags.read_only),
    GMV_FIELD("is_copied", BOOL, gmv_dlpack_members, flags.is_copied),
    GMV_FIELD_END,
};

static const gmv_field dlpack_device_fields[] = {
    GMV_FIELD_REQUIRED("type", INT64, gmv_dlpack_members, device.type),
    GMV_FIELD("id", INT64, gmv_dlpack_members, device.id),
    GMV_FIELD_END,
};

static const gmv_field dlpack_dtype_fields[] = {
    GMV_FIELD_REQUIRED("code", INT64, gmv_dlpack_members, dtype.code),
    GMV_FIELD_REQUIRED("bits", INT64, gmv_dlpack_members, dtype.bits),
    GMV_FIELD_REQUIRED("lanes", INT64, gmv_dlpack_members, dtype.lanes),
    GMV_FIELD_END,
};

/* The objects inside are read into the one struct, so they start where it does. */
#define DLPACK_OBJECT(member_name, is_required, object_fields, given)                            \
    {                                                                                            \
        .name = (member_name), .type = GMV_FIELD_OBJECT, .required = (is_required), .offset = 0, \
        .fields = (object_fields), .given_offset = offsetof(gmv_dlpack_members, given),          \
    }

const gmv_field gmv_dlpack_fields[] = {
    GMV_FIELD("version", INT64S, gmv_dlpack_members, version),
    DLPACK_OBJECT("flags", false, dlpack_flags_fields, has_flags),
    DLPACK_OBJECT("device", true, dlpack_device_fields, has_device),
    DLPACK_OBJECT("dtype", true, dlpack_dtype_fields, has_dtype),
    GMV_FIELD_REQUIRED("shape", INT64S, gmv_dlpack_members, shape),
    GMV_FIELD("strides", INT64S, gmv_dlpack_members, strides),
    GMV_FIELD_REQUIRED("data", INT64, gmv_dlpack_members, data),
    GMV_FIELD("byte_offset", INT64, gmv_dlpack_members, byte_offset),
    GMV_FIELD_END,
};

gmv_status gmv_dlpack_members_read(const gmv_dlpack_members *members, gmv_dlpack *out_tensor,
                                   gmv_error *err)
{
    const gmv_int64s *shape = &members->shape, *strides = &members->strides;
    if (members->version.given && members->version.count != 2)
        return gmv_fail(err, GMV_ERR_VALUE, "/version",
                        "a version has two entries, major and minor, not %zu",
                        members->version.count);
    if (shape->count > GMV_NDIM_MAX)
        return gmv_fail(err, GMV_ERR_VALUE, "/shape", "%zu dimensions; there may be at most %d",
                        shape->count, GMV_NDIM_MAX);
    if (strides->given && strides->count != shape->count)
        return gmv_fail(err, GMV_ERR_VALUE, "/strides", "%zu strides for %zu dimensions",
                        strides->count, shape->count);
    *out_tensor = (gmv_dlpack){
        .has_version = members->version.given,
        .major = members->version.given ? members->version.items[0] : 0,
        .minor = members->version.given ? members->version.items[1] : 0,
        .read_only = members->flags.read_only,
        .is_copied = members->flags.is_copied,
        .device_type = members->device.type,
        .device_id = members->device.id,
        .code = members->dtype.code,
        .bits = members->dtype.bits,
        .lanes = members->dtype.lanes,
        .layout = {.ndim = (int32_t)shape->count, .has_strides = strides->given},
        .data = members->data,
        .byte_offset = members->byte_offset,
    };
    for (size_t i = 0; i < shape->count; i++) {
        out_tensor->layout.shape[i] = shape->items[i];
        out_tensor->layout.strides[i] = strides->given ? strides->items[i] : 0;
    }
    return GMV_OK;
}

static void dlpack_put_pair(gmv_json_writer *writer, const char *name, int64_t first,
                            int64_t second)
{
    gmv_json_put_key(writer, name);
    gmv_json_open_array(writer);
    gmv_json_put_int64(writer, first);
    gmv_json_put_int64(writer, second);
    gmv_json_close_array(writer);
}

static void dlpack_put_list(gmv_json_writer *writer, const char *name, const int64_t *values,
                            int32_t count)
{
    gmv_json_put_key(writer, name);
    gmv_json_open_array(writer);
    for (int32_t i = 0; i < count; i++)
        gmv_json_put_int64(writer, values[i]);
    gmv_json_close_array(writer);
}

void gmv_encode_dlpack(gmv_json_writer *writer, const gmv_dlpack *tensor)
{
    gmv_json_open_object(writer);
    dlpack_put_pair(writer, "version", tensor->major, tensor->minor);
    gmv_json_put_key(writer, "flags");
    gmv_json_open_object(writer);
    gmv_json_member_bool(writer, "read_only", tensor->read_only);
    gmv_json_member_bool(writer, "is_copied", tensor->is_copied);
    gmv_json_close_object(writer);
    gmv_json_put_key(writer, "device");
    gmv_json_open_object(writer);
    gmv_json_member_int64(writer, "type", tensor->device_type);
    gmv_json_member_int64(writer, "id", tensor->device_id);
    gmv_json_close_object(writer);
    gmv_json_put_key(writer, "dtype");
    gmv_json_open_object(writer);
    gmv_json_member_int64(writer, "code", tensor->code);
    gmv_json_member_int64(writer, "bits", tensor->bits);
    gmv_json_member_int64(writer, "lanes", tensor->lanes);
    gmv_json_close_object(writer);
    dlpack_put_list(writer, "shape", tensor->layout.shape, tensor->layout.ndim);
    dlpack_put_list(writer, "strides", tensor->layout.strides, tensor->layout.ndim);
    gmv_json_member_int64(writer, "data", tensor->data);
    gmv_json_member_int64(writer, "byte_offset", tensor->byte_offset);
    gmv_json_close_object(writer);
}
