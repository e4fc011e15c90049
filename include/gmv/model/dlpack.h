/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A DLPack tensor as values (versions 1.x of include/dlpack/dlpack.h): what its members may say,
 * and what it means as a CUDA Array Interface payload, whose rules of geometry then hold. Strides
 * count elements here. JSON to this struct is codec/dlpack_json.h.
 */
#ifndef GMV_MODEL_DLPACK_H
#define GMV_MODEL_DLPACK_H

#include <gmv/model/cai.h>

GMV_BEGIN_DECLS

#define GMV_DLPACK_MAJOR 1 /* what is written, and the one major version that is read */
#define GMV_DLPACK_MINOR 1

typedef enum gmv_dlpack_device_type {
    GMV_DLPACK_CPU = 1,
    GMV_DLPACK_CUDA = 2
} gmv_dlpack_device_type;

typedef struct gmv_dlpack {
    bool has_version; /* false: a tensor of before version 1.0 */
    int64_t major, minor;
    bool read_only;
    bool is_copied;
    int64_t device_type;
    int64_t device_id; /* the producer's ordinal: where memory is, its address says */
    int64_t code, bits, lanes;
    gmv_layout layout; /* strides in elements */
    int64_t data;      /* address as posted */
    int64_t byte_offset;
} gmv_dlpack;

/*
 * The values of the members that stand for themselves, in the order version, device, dtype, shape,
 * strides, data, and the payload that they amount to. `device_type` is the one that is served. A
 * stride that no memory is large enough for is saturated, so that the bounds refuse it.
 *
 * @retval GMV_ERR_VALUE              another major version, another device, numbers that a tensor
 *                                    cannot hold, a negative extent, strides missing where the
 *                                    version wants them, an address past the last
 * @retval GMV_ERR_DTYPE_UNSUPPORTED  codes, bits and lanes that are not served ("/dtype")
 * Pointers are relative to the tensor ("/version", "/device/type", "/strides", "/byte_offset").
 */
GMV_NODISCARD gmv_status gmv_dlpack_to_cai(const gmv_dlpack *tensor,
                                           gmv_dlpack_device_type device_type, gmv_cai *out_cai,
                                           gmv_error *err);

/*
 * The tensor of elements at `address` (0 for none) in a layout with byte strides. Dates and time
 * spans become 64-bit integers, which is all that DLPack has for them.
 *
 * @retval GMV_ERR_VALUE  a stride that is no multiple of the item size
 */
GMV_NODISCARD gmv_status gmv_dlpack_from_layout(gmv_dtype dtype, const gmv_layout *layout,
                                                uint64_t address, bool readonly,
                                                gmv_dlpack *out_tensor, gmv_error *err);

GMV_END_DECLS

#endif
