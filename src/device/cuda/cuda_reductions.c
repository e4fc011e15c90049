/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches of the kernels that make a few numbers of many elements: partials of tiles, merged 2048
 * at a time until one is left.
 */
#include <gmv/base/num.h>

#include "device/cuda/cuda_priv.h"
#include "device/elements.h"
#include "device/tiles.h"

_Static_assert(REDUCTION_THREADS == GMV_CUDA_THREADS && REDUCTION_MERGE == GMV_CUDA_MERGE_TILE &&
                   GMV_CRC_TILE == GMV_CUDA_CRC_TILE,
               "kernels and callers cut alike");

static cuda_bits validity_of(gmv_bits bits)
{
    return bits.address ? (cuda_bits){bits.address, (uint64_t)bits.offset} : (cuda_bits){0};
}

/* Where the next stage of partials goes: the last one to the start, others one after another. */
typedef struct reduction_plan {
    uint64_t scratch;
    uint64_t partial_nbytes;
    uint64_t next; /* free from here on */
} reduction_plan;

static uint64_t plan_stage(reduction_plan *plan, uint64_t n_partials)
{
    uint64_t at = plan->next;
    if (n_partials == 1)
        return plan->scratch;
    plan->next += n_partials * plan->partial_nbytes;
    return at;
}

static reduction_plan plan_begin(uint64_t scratch, uint64_t partial_nbytes)
{
    return (reduction_plan){scratch, partial_nbytes, scratch + partial_nbytes};
}

/* Merges n partials at `input` until one is at the start. */
static gmv_status plan_merge(cuda_stream *stream, reduction_plan *plan, cuda_kernel kernel,
                             uint64_t input, uint64_t n, gmv_error *err)
{
    while (n > 1) {
        cuda_merge_args launch = {.input = input, .n = n};
        uint64_t merged = reduction_merged(n);
        launch.output = plan_stage(plan, merged);
        GMV_TRY(gmv__cuda_kernel_launch(stream, kernel, &launch, n, GMV_CUDA_MERGE_TILE, err));
        input = launch.output;
        n = merged;
    }
    return GMV_OK;
}

/* ---- statistics ---- */

#define STATISTICS_ROW(dtype, suffix, type, bits, is_float) \
    [ELEMENT_##suffix] = CUDA_KERNEL_statistics_##suffix,
static const cuda_kernel statistics_kernels[] = {ELEMENT_MAP(STATISTICS_ROW)};

gmv_status gmv__cuda_statistics(gmv_stream *base, const gmv_statistics_reduction *args,
                                gmv_error *err)
{
    static const gmv_statistics_partial none = {.min_key = UINT64_MAX};
    cuda_stream *stream = cuda_stream_of(base);
    uint64_t itemsize = gmv_dtype_describe(args->dtype)->itemsize;
    uint64_t tile = (uint64_t)GMV_CUDA_THREADS * reduction_pieces(itemsize);
    uint64_t n_tiles = reduction_tiles((uint64_t)args->n, reduction_pieces(itemsize));
    reduction_plan plan = plan_begin(args->scratch, sizeof none);
    if (args->n == 0)
        return gmv__cuda_copy_in(base, args->scratch, &none, sizeof none, err);
    cuda_statistics_args launch = {.input = args->input,
                                   .validity = validity_of(args->validity),
                                   .n = (uint64_t)args->n,
                                   .output = plan_stage(&plan, n_tiles)};
    CUDA_SCOPE(cuda_stream_device(stream));
    GMV_TRY(gmv__cuda_kernel_launch(stream, statistics_kernels[gmv__element_of_dtype(args->dtype)],
                                    &launch, launch.n, tile, err));
    return plan_merge(stream, &plan, CUDA_KERNEL_merge_statistics, launch.output, n_tiles, err);
}

/* ---- comparisons ---- */

#define COMPARE_ROW(dtype, suffix, type, bits, is_float) \
    [ELEMENT_##suffix] = CUDA_KERNEL_compare_##suffix,
static const cuda_kernel compare_kernels[] = {ELEMENT_MAP(COMPARE_ROW)};

static cuda_kernel compare_kernel_of(gmv_dtype dtype)
{
    int element = gmv__element_of_dtype(dtype);
    if (element >= 0)
        return compare_kernels[element];
    return dtype == GMV_DTYPE_C8 ? CUDA_KERNEL_compare_c8 : CUDA_KERNEL_compare_c16;
}

gmv_status gmv__cuda_compare(gmv_stream *base, const gmv_comparison_reduction *args, gmv_error *err)
{
    static const gmv_comparison_partial none = {.first = GMV_NO_INDEX};
    cuda_stream *stream = cuda_stream_of(base);
    uint64_t itemsize = gmv_dtype_describe(args->dtype)->itemsize;
    uint64_t tile = (uint64_t)GMV_CUDA_THREADS * reduction_pieces(itemsize);
    uint64_t n_tiles = reduction_tiles((uint64_t)args->n, reduction_pieces(itemsize));
    reduction_plan plan = plan_begin(args->scratch, sizeof none);
    if (args->n == 0)
        return gmv__cuda_copy_in(base, args->scratch, &none, sizeof none, err);
    cuda_compare_args launch = {
        .inputs = {args->inputs[0], args->inputs[1]},
        .validities = {validity_of(args->validities[0]), validity_of(args->validities[1])},
        .n = (uint64_t)args->n,
        .output = plan_stage(&plan, n_tiles),
        .absolute = args->absolute_tolerance,
        .relative = args->relative_tolerance,
        .nan_equal = args->nan_equal};
    CUDA_SCOPE(cuda_stream_device(stream));
    GMV_TRY(gmv__cuda_kernel_launch(stream, compare_kernel_of(args->dtype), &launch, launch.n, tile,
                                    err));
    return plan_merge(stream, &plan, CUDA_KERNEL_merge_comparisons, launch.output, n_tiles, err);
}

/* ---- histograms ---- */

gmv_status gmv__cuda_histogram(gmv_stream *base, const gmv_histogram_reduction *args,
                               gmv_error *err)
{
    cuda_stream *stream = cuda_stream_of(base);
    cuda_histogram_args launch = {.input = args->input,
                                  .validity = validity_of(args->validity),
                                  .n = (uint64_t)args->n,
                                  .edges = args->edges,
                                  .n_bins = (uint64_t)args->n_bins,
                                  .counts = args->counts,
                                  .first = args->first_edge,
                                  .last = args->last_edge,
                                  .scale =
                                      (double)args->n_bins / (args->last_edge - args->first_edge),
                                  .element = (uint32_t)gmv__element_of_dtype(args->dtype),
                                  .itemsize = gmv_dtype_describe(args->dtype)->itemsize};
    if (args->n == 0)
        return GMV_OK;
    CUDA_SCOPE(cuda_stream_device(stream));
    return gmv__cuda_kernel_launch(stream, CUDA_KERNEL_histogram, &launch, launch.n,
                                   GMV_CUDA_HISTOGRAM_TILE, err);
}

/* ---- checksums ---- */

gmv_status gmv__cuda_hash_blocks(gmv_stream *base, const gmv_hash_blocks *args, gmv_error *err)
{
    cuda_stream *stream = cuda_stream_of(base);
    cuda_kernel kernel =
        args->hash == GMV_HASH_XXH3 ? CUDA_KERNEL_hash_xxh3 : CUDA_KERNEL_hash_xxh64;
    cuda_hash_args launch = {.input = args->input,
                             .block_nbytes = args->block_nbytes,
                             .n = (uint64_t)args->n,
                             .output = args->output};
    if (args->n == 0)
        return GMV_OK;
    CUDA_SCOPE(cuda_stream_device(stream));
    return gmv__cuda_kernel_launch(stream, kernel, &launch, launch.n, GMV_CUDA_HASH_TILE, err);
}

#define CRC_ONE   0x80000000u               /* x^0 */
#define CRC_ORDER ((UINT64_C(1) << 31) - 1) /* x to this power is 1 */

static void crc_tables_make(cuda_crc_tables *tables)
{
    uint32_t factor = gmv_crc32c_shift(CRC_ONE, 4);
    for (uint32_t nibble = 0; nibble < GMV_CUDA_CRC_NIBBLES; nibble++)
        for (uint32_t value = 0; value < 16; value++)
            tables->shifts[nibble][value] = gmv_crc32c_shift(value << 4 * nibble, GMV_CUDA_CRC_ROW);
    /* The last word of a row is followed by itself only. */
    for (uint32_t i = GMV_CUDA_CRC_ROW / 4; i > 0; i--) {
        tables->factors[i - 1] = factor;
        factor = gmv_crc32c_shift(factor, 4);
    }
}

static pthread_once_t crc_once = PTHREAD_ONCE_INIT;
static cuda_crc_tables crc_tables;

static void crc_init(void)
{
    crc_tables_make(&crc_tables);
}

gmv_status gmv__cuda_crc32c(gmv_stream *base, const gmv_crc32c *args, gmv_error *err)
{
    cuda_stream *stream = cuda_stream_of(base);
    uint64_t zeros = gmv_round_up(args->nbytes, GMV_CRC_TILE) - args->nbytes;
    cuda_slice slice;
    if (args->nbytes == 0)
        return GMV_OK;
    (void)pthread_once(&crc_once, crc_init);
    CUDA_SCOPE(cuda_stream_device(stream));
    GMV_TRY(gmv__cuda_stream_reserve(stream, sizeof crc_tables, &slice, err));
    memcpy(slice.pinned, &crc_tables, sizeof crc_tables);
    stream->busy = true;
    CUDA_TRY(cuda_stream_device(stream),
             copy_in(slice.scratch, slice.pinned, sizeof crc_tables, stream->handle), err);
    cuda_crc_args launch = {.input = args->input,
                            .nbytes = args->nbytes,
                            .tables = slice.scratch,
                            .output = args->output,
                            .last_factor = gmv_crc32c_shift(CRC_ONE, CRC_ORDER - zeros)};
    return gmv__cuda_kernel_launch(stream, CUDA_KERNEL_crc32c, &launch, args->nbytes, GMV_CRC_TILE,
                                   err);
}
