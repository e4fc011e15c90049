/* SPDX-License-Identifier: Apache-2.0 */
/* Stands for the CUDA backend in a build that had no CUDA toolkit: there are no devices. */
#include <gmv/device/device.h>

static gmv_status cuda_none(gmv_error *err)
{
    return gmv_fail(err, GMV_ERR_BACKEND_UNSUPPORTED, NULL,
                    "this gmvd is built without CUDA; use the host backend, or build it where "
                    "there is a CUDA toolkit");
}

gmv_status gmv_cuda_device_count(int32_t *out_count, gmv_error *err)
{
    *out_count = 0;
    return cuda_none(err);
}

gmv_status gmv_device_open_cuda(const gmv_device_options *options, gmv_device **out_device,
                                gmv_error *err)
{
    return cuda_none(err);
}
