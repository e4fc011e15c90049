/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The NVIDIA driver, opened at run time: nothing links to it, and the daemon starts without one.
 * Only <cuda.h>'s types are used. Symbols are spelled out with their versions, because the header
 * renames calls from release to release while the library keeps the old ones.
 *
 * X(member, symbol, parameters): every call returns a CUresult.
 */
#ifndef GMV_DEVICE_CUDA_CUDA_DRIVER_H
#define GMV_DEVICE_CUDA_CUDA_DRIVER_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>

#include <gmv/base/error.h>

#define CUDA_DRIVER_LIBRARY "libcuda.so.1"

#define CUDA_DRIVER_MAP(X)                                                                         \
    /* the driver and its devices */                                                               \
    X(init, "cuInit", (unsigned flags))                                                            \
    X(driver_version, "cuDriverGetVersion", (int *out_version))                                    \
    X(error_name, "cuGetErrorName", (CUresult result, const char **out_name))                      \
    X(device_count, "cuDeviceGetCount", (int *out_count))                                          \
    X(device_get, "cuDeviceGet", (CUdevice * out_device, int ordinal))                             \
    X(device_name, "cuDeviceGetName", (char *out_name, int nbytes, CUdevice device))               \
    X(device_uuid, "cuDeviceGetUuid_v2", (CUuuid * out_uuid, CUdevice device))                     \
    X(device_total, "cuDeviceTotalMem_v2", (size_t * out_nbytes, CUdevice device))                 \
    X(device_attribute, "cuDeviceGetAttribute",                                                    \
      (int *out_value, CUdevice_attribute attribute, CUdevice device))                             \
    /* contexts */                                                                                 \
    X(context_retain, "cuDevicePrimaryCtxRetain", (CUcontext * out_context, CUdevice device))      \
    X(context_release, "cuDevicePrimaryCtxRelease_v2", (CUdevice device))                          \
    X(context_push, "cuCtxPushCurrent_v2", (CUcontext context))                                    \
    X(context_pop, "cuCtxPopCurrent_v2", (CUcontext * out_context))                                \
    X(context_priorities, "cuCtxGetStreamPriorityRange", (int *out_least, int *out_greatest))      \
    /* kernels */                                                                                  \
    X(module_load, "cuModuleLoadData", (CUmodule * out_module, const void *image))                 \
    X(module_unload, "cuModuleUnload", (CUmodule module))                                          \
    X(module_function, "cuModuleGetFunction",                                                      \
      (CUfunction * out_function, CUmodule module, const char *name))                              \
    X(function_attribute, "cuFuncGetAttribute",                                                    \
      (int *out_value, CUfunction_attribute attribute, CUfunction function))                       \
    X(launch, "cuLaunchKernel",                                                                    \
      (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,   \
       unsigned block_y, unsigned block_z, unsigned shared_nbytes, CUstream stream,                \
       void **parameters, void **extra))                                                           \
    /* streams and events */                                                                       \
    X(stream_create, "cuStreamCreateWithPriority",                                                 \
      (CUstream * out_stream, unsigned flags, int priority))                                       \
    X(stream_destroy, "cuStreamDestroy_v2", (CUstream stream))                                     \
    X(event_create, "cuEventCreate", (CUevent * out_event, unsigned flags))                        \
    X(event_destroy, "cuEventDestroy_v2", (CUevent event))                                         \
    X(event_record, "cuEventRecord", (CUevent event, CUstream stream))                             \
    X(event_query, "cuEventQuery", (CUevent event))                                                \
    X(event_synchronize, "cuEventSynchronize", (CUevent event))                                    \
    X(event_elapsed, "cuEventElapsedTime", (float *out_milliseconds, CUevent begin, CUevent end))  \
    /* memory */                                                                                   \
    X(memory_info, "cuMemGetInfo_v2", (size_t * out_free, size_t * out_total))                     \
    X(memory_allocate, "cuMemAlloc_v2", (CUdeviceptr * out_address, size_t nbytes))                \
    X(memory_free, "cuMemFree_v2", (CUdeviceptr address))                                          \
    X(memory_range, "cuMemGetAddressRange_v2",                                                     \
      (CUdeviceptr * out_base, size_t * out_nbytes, CUdeviceptr address))                          \
    X(pointer_attribute, "cuPointerGetAttribute",                                                  \
      (void *out_value, CUpointer_attribute attribute, CUdeviceptr address))                       \
    X(host_allocate, "cuMemHostAlloc", (void **out_pointer, size_t nbytes, unsigned flags))        \
    X(host_free, "cuMemFreeHost", (void *pointer))                                                 \
    X(host_device_pointer, "cuMemHostGetDevicePointer_v2",                                         \
      (CUdeviceptr * out_address, void *pointer, unsigned flags))                                  \
    /* pools */                                                                                    \
    X(pool_create, "cuMemPoolCreate", (CUmemoryPool * out_pool, const CUmemPoolProps *properties)) \
    X(pool_destroy, "cuMemPoolDestroy", (CUmemoryPool pool))                                       \
    X(pool_set, "cuMemPoolSetAttribute",                                                           \
      (CUmemoryPool pool, CUmemPool_attribute attribute, void *value))                             \
    X(pool_get, "cuMemPoolGetAttribute",                                                           \
      (CUmemoryPool pool, CUmemPool_attribute attribute, void *out_value))                         \
    X(pool_trim, "cuMemPoolTrimTo", (CUmemoryPool pool, size_t keep_nbytes))                       \
    X(pool_allocate, "cuMemAllocFromPoolAsync",                                                    \
      (CUdeviceptr * out_address, size_t nbytes, CUmemoryPool pool, CUstream stream))              \
    X(pool_free, "cuMemFreeAsync", (CUdeviceptr address, CUstream stream))                         \
    /* copies */                                                                                   \
    X(copy_in, "cuMemcpyHtoDAsync_v2",                                                             \
      (CUdeviceptr to, const void *from, size_t nbytes, CUstream stream))                          \
    X(copy_out, "cuMemcpyDtoHAsync_v2",                                                            \
      (void *to, CUdeviceptr from, size_t nbytes, CUstream stream))                                \
    X(copy_within, "cuMemcpyDtoDAsync_v2",                                                         \
      (CUdeviceptr to, CUdeviceptr from, size_t nbytes, CUstream stream))                          \
    X(fill, "cuMemsetD8Async",                                                                     \
      (CUdeviceptr address, unsigned char value, size_t nbytes, CUstream stream))                  \
    /* sharing */                                                                                  \
    X(ipc_export, "cuIpcGetMemHandle", (CUipcMemHandle * out_handle, CUdeviceptr address))         \
    X(ipc_open, "cuIpcOpenMemHandle_v2",                                                           \
      (CUdeviceptr * out_address, CUipcMemHandle handle, unsigned flags))                          \
    X(ipc_close, "cuIpcCloseMemHandle", (CUdeviceptr address))                                     \
    X(ipc_open_event, "cuIpcOpenEventHandle", (CUevent * out_event, CUipcEventHandle handle))      \
    X(ipc_export_event, "cuIpcGetEventHandle", (CUipcEventHandle * out_handle, CUevent event))

#define CUDA_DRIVER_MEMBER(member, symbol, parameters) CUresult(CUDAAPI *member) parameters;
typedef struct cuda_driver {
    CUDA_DRIVER_MAP(CUDA_DRIVER_MEMBER)
} cuda_driver;
#undef CUDA_DRIVER_MEMBER

/* The driver's calls; all are set once gmv__cuda_driver_open has succeeded. */
extern cuda_driver gmv__cuda;

/*
 * Opens and initializes the driver: the first call does, the others wait and learn the outcome.
 * Never closed.
 *
 * @retval GMV_ERR_BACKEND_UNSUPPORTED  no driver, one that lacks a call (which is named), or one
 * that cannot be initialized
 */
gmv_status gmv__cuda_driver_open(gmv_error *err);

#endif
