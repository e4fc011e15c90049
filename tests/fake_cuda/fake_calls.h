/* SPDX-License-Identifier: Apache-2.0 */
/* The calls of the fake driver: those that the backend uses, and these. */
#ifndef GMV_TESTS_FAKE_CALLS_H
#define GMV_TESTS_FAKE_CALLS_H

#include "device/cuda/cuda_driver.h"

/* Calls that the backend does without, for tests and for programs that share with it. */
#define FAKE_EXTRA_MAP(X)                                                                      \
    X(error_text, "cuGetErrorString", (CUresult result, const char **out_text))                \
    X(context_create, "cuCtxCreate_v2",                                                        \
      (CUcontext * out_context, unsigned flags, CUdevice device))                              \
    X(context_destroy, "cuCtxDestroy_v2", (CUcontext context))                                 \
    X(context_set, "cuCtxSetCurrent", (CUcontext context))                                     \
    X(context_get, "cuCtxGetCurrent", (CUcontext * out_context))                               \
    X(context_synchronize, "cuCtxSynchronize", (void))                                         \
    X(module_load_fatbin, "cuModuleLoadFatBinary", (CUmodule * out_module, const void *image)) \
    X(stream_create_plain, "cuStreamCreate", (CUstream * out_stream, unsigned flags))          \
    X(stream_synchronize, "cuStreamSynchronize", (CUstream stream))                            \
    X(stream_query, "cuStreamQuery", (CUstream stream))                                        \
    X(host_allocate_plain, "cuMemAllocHost_v2", (void **out_pointer, size_t nbytes))           \
    X(copy_in_now, "cuMemcpyHtoD_v2", (CUdeviceptr to, const void *from, size_t nbytes))       \
    X(copy_out_now, "cuMemcpyDtoH_v2", (void *to, CUdeviceptr from, size_t nbytes))            \
    X(copy_within_now, "cuMemcpyDtoD_v2", (CUdeviceptr to, CUdeviceptr from, size_t nbytes))   \
    X(fill_now, "cuMemsetD8_v2", (CUdeviceptr address, unsigned char value, size_t nbytes))    \
    X(stream_wait_event, "cuStreamWaitEvent", (CUstream stream, CUevent event, unsigned flags))

#endif
