/* SPDX-License-Identifier: Apache-2.0 */
/* Every kernel in one unit: it becomes one fatbin, which the daemon carries as data. */
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
