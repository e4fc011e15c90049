/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA kernels, run by the processor: one thread after the other, on host memory. They are the
 * very sources that nvcc compiles, so what they compute, and what they touch, is tested where there
 * is no device. A misaligned access traps as it would on one.
 */
#ifndef GMV_TESTS_DEVICE_CUDA_EMULATOR_H
#define GMV_TESTS_DEVICE_CUDA_EMULATOR_H

#include <stdbool.h>

/*
 * Runs the kernel with that name ("gmv_combine_bits") in `blocks` blocks; `args` is its argument
 * struct. False if there is none.
 */
bool cuda_emulate(const char *name, const void *args, unsigned blocks);

#endif
