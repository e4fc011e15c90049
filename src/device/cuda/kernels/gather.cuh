/* SPDX-License-Identifier: Apache-2.0 */
/* Elements of a strided array in C order. The host has merged what can be walked as one. */
#ifndef GMV_DEVICE_CUDA_KERNELS_GATHER_H
#define GMV_DEVICE_CUDA_KERNELS_GATHER_H

#include "device/cuda/kernels/language.cuh"

/* The outermost extent needs no division: what is left is its index. */
#define DEFINE_GATHER_SEEK(name, type)                                                  \
    DEVICE uint64_t name(const cuda_gather_args *args, uint64_t element)                \
    {                                                                                   \
        uint64_t address = args->address;                                               \
        type index = (type)element;                                                     \
        for (uint32_t i = args->ndim - 1; i > 0; i--) {                                 \
            type extent = (type)args->shape[i], outer = index / extent;                 \
            address += (uint64_t)(index - outer * extent) * (uint64_t)args->strides[i]; \
            index = outer;                                                              \
        }                                                                               \
        return address + (uint64_t)index * (uint64_t)args->strides[0];                  \
    }

DEFINE_GATHER_SEEK(gather_seek_narrow, uint32_t)
DEFINE_GATHER_SEEK(gather_seek_wide, uint64_t)

#define DEFINE_GATHER(name, type, load, store)                                                  \
    KERNEL(name, cuda_gather_args)                                                              \
    {                                                                                           \
        uint64_t first = block_index() * (GMV_CUDA_THREADS * GMV_CUDA_PIECES) + thread_index(); \
        type values[GMV_CUDA_PIECES];                                                           \
        UNROLL                                                                                  \
        for (uint32_t i = 0; i < GMV_CUDA_PIECES; i++) {                                        \
            uint64_t index = first + (uint64_t)i * GMV_CUDA_THREADS;                            \
            if (index < args.count) {                                                           \
                index += args.first;                                                            \
                values[i] = load(args.narrow ? gather_seek_narrow(&args, index)                 \
                                             : gather_seek_wide(&args, index));                 \
            }                                                                                   \
        }                                                                                       \
        UNROLL                                                                                  \
        for (uint32_t i = 0; i < GMV_CUDA_PIECES; i++) {                                        \
            uint64_t index = first + (uint64_t)i * GMV_CUDA_THREADS;                            \
            if (index < args.count)                                                             \
                store(args.output + index * sizeof(type), values[i]);                           \
        }                                                                                       \
    }

DEFINE_GATHER(gather_1, uint8_t, load8, store8)
DEFINE_GATHER(gather_2, uint16_t, load16, store16)
DEFINE_GATHER(gather_4, uint32_t, load32, store32)
DEFINE_GATHER(gather_8, uint64_t, load64, store64)
DEFINE_GATHER(gather_16, block16, load128, store128)

#endif
