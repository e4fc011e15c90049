/* SPDX-License-Identifier: Apache-2.0 */
/* DLPack tensors as JSON: a capsule cannot leave its process, its description can. */
#ifndef GMV_CODEC_DLPACK_JSON_H
#define GMV_CODEC_DLPACK_JSON_H

#include <gmv/model/dlpack.h>

#include "codec/decode.h"
#include "codec/json_writer.h"

/* What a table of fields decodes a tensor to; lives as long as its document. */
typedef struct gmv_dlpack_members {
    gmv_int64s version;
    struct {
        bool read_only, is_copied;
    } flags;
    struct {
        int64_t type, id;
    } device;
    struct {
        int64_t code, bits, lanes;
    } dtype;
    bool has_flags, has_device, has_dtype;
    gmv_int64s shape, strides;
    int64_t data, byte_offset;
} gmv_dlpack_members;

extern const gmv_field gmv_dlpack_fields[];

/*
 * The numbers of entries, and all members in one struct.
 *
 * @retval GMV_ERR_VALUE  pointers are relative to the tensor
 */
GMV_NODISCARD gmv_status gmv_dlpack_members_read(const gmv_dlpack_members *members,
                                                 gmv_dlpack *out_tensor, gmv_error *err);

void gmv_encode_dlpack(gmv_json_writer *writer, const gmv_dlpack *tensor);

#endif
