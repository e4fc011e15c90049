/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a driver's result means. The one place where a result becomes a status, and where a device
 * is found to be lost: after these results every later call of the context fails, too.
 */
#include "device/cuda/cuda_priv.h"

#include <gmv/base/log.h>

typedef struct lost_row {
    CUresult result;
    const char *reason;
} lost_row;

static const lost_row lost_rows[] = {
    {CUDA_ERROR_ILLEGAL_ADDRESS, "a kernel touched memory that is not there"},
    {CUDA_ERROR_MISALIGNED_ADDRESS, "a kernel touched memory that is not aligned"},
    {CUDA_ERROR_INVALID_ADDRESS_SPACE, "a kernel touched memory of the wrong kind"},
    {CUDA_ERROR_ILLEGAL_INSTRUCTION, "a kernel met an instruction that does not exist"},
    {CUDA_ERROR_INVALID_PC, "a kernel jumped out of its code"},
    {CUDA_ERROR_HARDWARE_STACK_ERROR, "a kernel's stack is broken"},
    {CUDA_ERROR_ASSERT, "a kernel stopped itself"},
    {CUDA_ERROR_LAUNCH_FAILED, "a kernel failed"},
    {CUDA_ERROR_LAUNCH_TIMEOUT, "a kernel took too long"},
    {CUDA_ERROR_ECC_UNCORRECTABLE, "its memory has an error that cannot be corrected"},
    {CUDA_ERROR_NVLINK_UNCORRECTABLE, "its link has an error that cannot be corrected"},
    {CUDA_ERROR_DEVICE_UNAVAILABLE, "it is not available"},
    {CUDA_ERROR_CONTEXT_IS_DESTROYED, "its context is gone"},
    {CUDA_ERROR_DEINITIALIZED, "the driver has been shut down"},
    {CUDA_ERROR_SYSTEM_NOT_READY, "the system is not ready"},
    {CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, "the driver has been replaced while it was running"},
};

void gmv__cuda_log(const char *what, CUresult result)
{
    const char *name = NULL;
    if (gmv_log_enabled(GMV_LOG_DEBUG) && gmv__cuda.error_name(result, &name) != CUDA_SUCCESS)
        name = NULL;
    gmv_log(GMV_LOG_DEBUG, "cuda", gmv_log_text("call", what),
            gmv_log_text("error", name ? name : "unknown"), gmv_log_int("code", (int64_t)result));
}

bool gmv__cuda_is_lost(cuda_device *device, CUresult result)
{
    for (size_t i = 0; i < sizeof lost_rows / sizeof lost_rows[0]; i++) {
        if (lost_rows[i].result != result)
            continue;
        gmv_device_mark_lost(&device->base, lost_rows[i].reason);
        return true;
    }
    return false;
}

gmv_status gmv__cuda_fail(cuda_device *device, CUresult result, const char *what, gmv_error *err)
{
    gmv__cuda_log(what, result);
    if (device && gmv__cuda_is_lost(device, result))
        return gmv__device_fail_lost(&device->base, err);
    if (result == CUDA_ERROR_OUT_OF_MEMORY)
        return gmv_fail(err, GMV_ERR_DEVICE_OUT_OF_MEMORY, NULL,
                        "the device has no memory left for this; delete handles that are no "
                        "longer needed");
    return gmv_fail(err, GMV_ERR_INTERNAL, NULL,
                    "the device refused an operation (error %d); the log has more at level debug",
                    (int)result);
}
