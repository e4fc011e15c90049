/* SPDX-License-Identifier: Apache-2.0 */
/* Compiles the device code as C and walks through its threads. */
#include "device/cuda_emulator.h"

#include <string.h>

#include "device/cuda/kernels/compare.cuh"
#include "device/cuda/kernels/gather.cuh"
#include "device/cuda/kernels/hash.cuh"
#include "device/cuda/kernels/histogram.cuh"
#include "device/cuda/kernels/indices.cuh"
#include "device/cuda/kernels/masks.cuh"
#include "device/cuda/kernels/pieces.cuh"
#include "device/cuda/kernels/split.cuh"
#include "device/cuda/kernels/statistics.cuh"
#include "device/cuda/kernels/transpose.cuh"
#include "device/cuda/kernels/valid.cuh"

_Thread_local cuda_emulated cuda_emulated_now;

#define DEFINE_RUN(name, type)               \
    static void run_##name(const void *args) \
    {                                        \
        type copy;                           \
        memcpy(&copy, args, sizeof copy);    \
        emulated_##name(copy);               \
    }
GMV_CUDA_KERNEL_MAP(DEFINE_RUN)

static const struct {
    const char *name;
    void (*run)(const void *args);
} emulated_kernels[] = {
#define KERNEL_ROW(name, type) {"gmv_" #name, run_##name},
    GMV_CUDA_KERNEL_MAP(KERNEL_ROW)
#undef KERNEL_ROW
};

bool cuda_emulate(const char *name, const void *args, unsigned blocks)
{
    for (size_t i = 0; i < sizeof emulated_kernels / sizeof emulated_kernels[0]; i++) {
        if (strcmp(emulated_kernels[i].name, name) != 0)
            continue;
        for (unsigned block = 0; block < blocks; block++) {
            for (uint32_t thread = 0; thread < GMV_CUDA_THREADS; thread++) {
                cuda_emulated_now = (cuda_emulated){thread, block, blocks};
                emulated_kernels[i].run(args);
            }
        }
        return true;
    }
    return false;
}
