/* SPDX-License-Identifier: Apache-2.0 */
/* Launches of the kernels for integers that say where things are. */
#include "device/cuda/cuda_priv.h"

gmv_status gmv__cuda_check_indices(gmv_stream *base, const gmv_check_indices *args, gmv_error *err)
{
    cuda_stream *stream = cuda_stream_of(base);
    cuda_indices_args launch = {
        .address = args->address,
        .n = (uint64_t)args->n,
        .limit = args->limit,
        .itemsize = (uint32_t)args->itemsize,
        .in_order = args->in_order,
    };
    if (args->validity.address)
        launch.validity = (cuda_bits){args->validity.address, (uint64_t)args->validity.offset};
    if (!args->out_index)
        return GMV_OK;
    if (args->n == 0) {
        *args->out_index = 0;
        return GMV_OK;
    }
    CUDA_SCOPE(cuda_stream_device(stream));
    GMV_TRY(gmv__cuda_stream_result(stream, args->out_index, &launch.result, err));
    return gmv__cuda_kernel_launch(stream, CUDA_KERNEL_check_indices, &launch, launch.n,
                                   GMV_CUDA_INDICES_TILE, err);
}

gmv_status gmv__cuda_sequence(gmv_stream *base, const gmv_sequence *args, gmv_error *err)
{
    cuda_stream *stream = cuda_stream_of(base);
    cuda_sequence_args launch = {
        .output = args->output, .n = (uint64_t)args->n, .step = (uint32_t)args->step};
    if (args->n == 0)
        return GMV_OK;
    CUDA_SCOPE(cuda_stream_device(stream));
    return gmv__cuda_kernel_launch(stream, CUDA_KERNEL_sequence, &launch, launch.n,
                                   GMV_CUDA_SEQUENCE_TILE, err);
}
