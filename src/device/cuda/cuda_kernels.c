/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the calls of kernels.h to launches: turns arguments into what the device code takes, cuts
 * long tables into batches that fit a stream's block, and leaves to the driver's own copies and
 * fills what they do as well.
 */
#include <stdio.h>
#include <string.h>

#include <gmv/base/num.h>

#include "device/cuda/cuda_priv.h"

/* Made from kernels/all.cu. */
extern const unsigned char gmv__cuda_fatbin[];

/* What leaves a number for the host comes first in the list of kernels, but for one. */
static uint64_t kernel_blocks_max(cuda_kernel kernel)
{
    bool has_result = kernel < CUDA_KERNEL_copy_pieces && kernel != CUDA_KERNEL_bits_to_bools;
    return has_result ? GMV_CUDA_SUM_BLOCKS_MAX - 1 : INT32_MAX;
}

/* ---- loading and launching ---- */

#define KERNEL_NAME(name, type) [CUDA_KERNEL_##name] = "gmv_" #name,
static const char *const kernel_names[CUDA_KERNEL_COUNT] = {GMV_CUDA_KERNEL_MAP(KERNEL_NAME)};
#undef KERNEL_NAME

static gmv_status kernels_fail(cuda_device *device, CUresult result, gmv_error *err)
{
    const gmv_device_info *info = &device->base.info;
    if (result != CUDA_ERROR_NO_BINARY_FOR_GPU && result != CUDA_ERROR_INVALID_PTX &&
        result != CUDA_ERROR_UNSUPPORTED_PTX_VERSION)
        return gmv__cuda_fail(device, result, "module_load", err);
    gmv__cuda_log("module_load", result);
    return gmv_fail(err, GMV_ERR_BACKEND_UNSUPPORTED, NULL,
                    "this gmvd has no kernels for %s (compute capability %s, driver for CUDA %s); "
                    "build it for that one, or install a newer driver",
                    info->name, info->compute_capability, info->driver_version);
}

/* Asking for an attribute has the driver load each kernel now and not at its first launch. */
gmv_status gmv__cuda_kernels_load(cuda_device *device, gmv_error *err)
{
    int version = 0;
    CUresult result = gmv__cuda.module_load(&device->module, gmv__cuda_fatbin);
    if (result != CUDA_SUCCESS)
        return kernels_fail(device, result, err);
    for (size_t i = 0; i < CUDA_KERNEL_COUNT; i++) {
        CUDA_TRY(device, module_function(&device->kernels[i], device->module, kernel_names[i]),
                 err);
        CUDA_TRY(device,
                 function_attribute(&version, CU_FUNC_ATTRIBUTE_BINARY_VERSION, device->kernels[i]),
                 err);
    }
    snprintf(device->base.info.kernel_set, sizeof device->base.info.kernel_set, "sm_%d", version);
    return GMV_OK;
}

gmv_status gmv__cuda_kernel_launch(cuda_stream *stream, cuda_kernel kernel, const void *args,
                                   uint64_t total, uint64_t tile, gmv_error *err)
{
    cuda_device *device = cuda_stream_device(stream);
    uint64_t blocks = total / tile + (total % tile != 0);
    void *parameters[] = {(void *)(uintptr_t)args};
    if (blocks > kernel_blocks_max(kernel))
        return gmv_fail(err, GMV_ERR_INTERNAL, NULL, "%llu blocks are more than a device takes",
                        (unsigned long long)blocks);
    stream->busy = true;
    CUresult result = gmv__cuda.launch(device->kernels[kernel], (unsigned)blocks, 1, 1,
                                       GMV_CUDA_THREADS, 1, 1, 0, stream->handle, parameters, NULL);
    return result == CUDA_SUCCESS ? GMV_OK
                                  : gmv__cuda_fail(device, result, kernel_names[kernel], err);
}

static cuda_bits bits_of(gmv_bits bits)
{
    return bits.address ? (cuda_bits){bits.address, (uint64_t)bits.offset} : (cuda_bits){0};
}

/* ---- elements to bits and back ---- */

gmv_status gmv__cuda_valid_if(gmv_stream *base, const gmv_valid_if *args, gmv_error *err)
{
    static const cuda_kernel kernels[] = {
        [GMV_PREDICATE_NONZERO_BYTE] = CUDA_KERNEL_valid_bytes,
        [GMV_PREDICATE_NOT_NAN_F4] = CUDA_KERNEL_valid_f4,
        [GMV_PREDICATE_NOT_NAN_F8] = CUDA_KERNEL_valid_f8,
    };
    static const uint64_t tiles[] = {
        [GMV_PREDICATE_NONZERO_BYTE] = GMV_CUDA_BYTES_TILE,
        [GMV_PREDICATE_NOT_NAN_F4] = GMV_CUDA_F4_TILE,
        [GMV_PREDICATE_NOT_NAN_F8] = GMV_CUDA_F8_TILE,
    };
    cuda_stream *stream = cuda_stream_of(base);
    cuda_valid_args launch = {.input = args->input,
                              .validity = bits_of(args->validity),
                              .n = (uint64_t)args->n,
                              .output = args->output,
                              .output_nbytes = args->output_nbytes};
    CUDA_SCOPE(cuda_stream_device(stream));
    if (args->output_nbytes == 0) {
        if (args->out_null_count)
            *args->out_null_count = 0;
        return GMV_OK;
    }
    GMV_TRY(gmv__cuda_stream_result(stream, args->out_null_count, &launch.null_count, err));
    return gmv__cuda_kernel_launch(stream, kernels[args->predicate], &launch,
                                   8 * args->output_nbytes, tiles[args->predicate], err);
}

gmv_status gmv__cuda_bits_to_bools(gmv_stream *base, const gmv_bits_to_bools *args, gmv_error *err)
{
    cuda_stream *stream = cuda_stream_of(base);
    cuda_bools_args launch = {
        .bits = bits_of(args->bits), .n = (uint64_t)args->n, .output = args->output};
    if (args->n == 0)
        return GMV_OK;
    if (args->bits.address == 0)
        return gmv__cuda_fill(base, args->output, 1, (uint64_t)args->n, err);
    CUDA_SCOPE(cuda_stream_device(stream));
    return gmv__cuda_kernel_launch(stream, CUDA_KERNEL_bits_to_bools, &launch,
                                   args->output % 16 + launch.n, GMV_CUDA_BOOLS_TILE, err);
}

/* ---- bits to bits ---- */

/* More inputs than one launch takes: the output of each is the first input of the next. */
gmv_status gmv__cuda_combine_bits(gmv_stream *base, const gmv_combine_bits *args, gmv_error *err)
{
    cuda_stream *stream = cuda_stream_of(base);
    cuda_combine_args launch = {.is_or = args->operation == GMV_BITS_OR,
                                .n = (uint64_t)args->n,
                                .output = args->output,
                                .output_nbytes = args->output_nbytes};
    CUDA_SCOPE(cuda_stream_device(stream));
    if (args->output_nbytes == 0) {
        if (args->out_set_count)
            *args->out_set_count = 0;
        return GMV_OK;
    }
    for (size_t done = 0; done < args->n_inputs;) {
        launch.n_inputs = 0;
        if (done > 0)
            launch.inputs[launch.n_inputs++] = (cuda_bits){args->output, 0};
        while (done < args->n_inputs && launch.n_inputs < GMV_CUDA_INPUTS_MAX)
            launch.inputs[launch.n_inputs++] = bits_of(args->inputs[done++]);
        if (done == args->n_inputs)
            GMV_TRY(gmv__cuda_stream_result(stream, args->out_set_count, &launch.set_count, err));
        GMV_TRY(gmv__cuda_kernel_launch(stream, CUDA_KERNEL_combine_bits, &launch,
                                        args->output_nbytes, GMV_CUDA_TILE, err));
    }
    return GMV_OK;
}

gmv_status gmv__cuda_copy_bits(gmv_stream *base, const gmv_copy_bits *args, gmv_error *err)
{
    const gmv_combine_bits combination = gmv__combine_of_copy(args);
    return gmv__cuda_combine_bits(base, &combination, err);
}

/* The bytes in between are the driver's to fill; a kernel does those that keep some bits. */
gmv_status gmv__cuda_set_bits(gmv_stream *base, const gmv_set_bits *args, gmv_error *err)
{
    cuda_stream *stream = cuda_stream_of(base);
    uint64_t begin = (uint64_t)args->range.begin, end = (uint64_t)args->range.end;
    uint64_t first = begin / 8, last = end / 8; /* `last` holds the end's bits, if any */
    uint8_t from_begin = (uint8_t)(0xff << begin % 8), to_end = (uint8_t) ~(0xff << end % 8);
    cuda_edges_args launch = {.valid = args->valid};
    if (begin == end)
        return GMV_OK;
    if (first == last) {
        launch.addresses[0] = args->address + first;
        launch.masks[0] = from_begin & to_end;
    } else {
        if (begin % 8) {
            launch.addresses[0] = args->address + first++;
            launch.masks[0] = from_begin;
        }
        if (end % 8) {
            launch.addresses[1] = args->address + last;
            launch.masks[1] = to_end;
        }
        if (first < last)
            GMV_TRY(gmv__cuda_fill(base, args->address + first, args->valid ? 0xff : 0,
                                   last - first, err));
    }
    if (!launch.addresses[0] && !launch.addresses[1])
        return GMV_OK;
    CUDA_SCOPE(cuda_stream_device(stream));
    return gmv__cuda_kernel_launch(stream, CUDA_KERNEL_set_edges, &launch, 1, 1, err);
}

/* ---- reading bits ---- */

static uint64_t range_length(gmv_bit_range range)
{
    return range.begin < range.end ? (uint64_t)(range.end - range.begin) : 0;
}

/* Bits of the first aligned block of 16 bytes before those that are meant. */
static uint64_t bits_before(cuda_bits bits)
{
    return (bits.address + bits.offset / 8) % 16 * 8 + bits.offset % 8;
}

/* Counting goes over the aligned blocks that hold the bits, finding over pieces of 128. */
static gmv_status scan_launch(cuda_stream *stream, cuda_kernel kernel, cuda_bits bits, uint64_t n,
                              int64_t *out, gmv_error *err)
{
    cuda_scan_args launch = {.bits = bits, .n = n};
    uint64_t before = kernel == CUDA_KERNEL_count_bits ? bits_before(bits) : 0;
    uint64_t pieces = (before + n + 127) / 128;
    GMV_TRY(gmv__cuda_stream_result(stream, out, &launch.result, err));
    return gmv__cuda_kernel_launch(stream, kernel, &launch, pieces, GMV_CUDA_SCAN_TILE / 16, err);
}

/* What needs no kernel; false if the range does. */
static bool count_is_known(const gmv_count_bits *args, size_t i)
{
    uint64_t n = range_length(args->ranges[i]);
    if (n > 0 && args->address)
        return false;
    args->out_counts[i] = (int64_t)n;
    return true;
}

/*
 * A table of pieces in the stream's block, and the counters that belong to them: uploaded as zeros
 * with it, added to by the kernel, brought back.
 */
typedef struct cuda_batch {
    cuda_slice slice;
    cuda_piece *pieces;
    size_t n, n_pieces_max;
    uint64_t tile, n_tiles; /* bytes of a warp tile, and how many there are */
    size_t n_counters;      /* one for every item, whether it has got a piece or not */
} cuda_batch;

#define BATCH_ITEMS_MAX (CUDA_BLOCK_NBYTES / (sizeof(cuda_piece) + sizeof(uint64_t)))

/* The counters come first. */
static gmv_status batch_begin(cuda_stream *stream, cuda_batch *batch, size_t n_items, uint64_t tile,
                              gmv_error *err)
{
    size_t counters_nbytes = n_items * sizeof(uint64_t);
    *batch = (cuda_batch){.n_pieces_max = n_items, .tile = tile, .n_counters = n_items};
    GMV_TRY(gmv__cuda_stream_reserve(stream, counters_nbytes + n_items * sizeof(cuda_piece),
                                     &batch->slice, err));
    memset(batch->slice.pinned, 0, counters_nbytes);
    batch->pieces = (cuda_piece *)(void *)(batch->slice.pinned + counters_nbytes);
    return GMV_OK;
}

/* Adds the piece of item `item`, which has nbytes > 0 to do. */
static void batch_add(cuda_batch *batch, size_t item, cuda_piece piece, uint64_t nbytes,
                      bool counted)
{
    piece.first_tile = batch->n_tiles;
    piece.counter = counted ? batch->slice.scratch + item * sizeof(uint64_t) : 0;
    batch->pieces[batch->n++] = piece;
    batch->n_tiles += (nbytes + batch->tile - 1) / batch->tile;
}

/* Uploads, launches, and brings the counters back if they are wanted. */
static gmv_status batch_run(cuda_stream *stream, const cuda_batch *batch, cuda_kernel kernel,
                            bool counted, gmv_error *err)
{
    cuda_device *device = cuda_stream_device(stream);
    size_t counters_nbytes = batch->n_counters * sizeof(uint64_t);
    cuda_pieces_args launch = {.pieces = batch->slice.scratch + counters_nbytes,
                               .n_pieces = batch->n,
                               .n_tiles = batch->n_tiles};
    if (batch->n == 0)
        return GMV_OK;
    stream->busy = true;
    CUDA_TRY(device,
             copy_in(batch->slice.scratch, batch->slice.pinned,
                     counters_nbytes + batch->n * sizeof(cuda_piece), stream->handle),
             err);
    GMV_TRY(gmv__cuda_kernel_launch(stream, kernel, &launch, batch->n_tiles, GMV_CUDA_THREADS / 32,
                                    err));
    if (counted)
        CUDA_TRY(
            device,
            copy_out(batch->slice.pinned, batch->slice.scratch, counters_nbytes, stream->handle),
            err);
    return GMV_OK;
}

static gmv_status count_batch(cuda_stream *stream, const gmv_count_bits *args, size_t first,
                              size_t n, gmv_error *err)
{
    cuda_batch batch;
    GMV_TRY(batch_begin(stream, &batch, n, GMV_CUDA_SCAN_WARP_TILE, err));
    for (size_t i = 0; i < n; i++) {
        gmv_bit_range range = args->ranges[first + i];
        cuda_bits bits = {args->address, (uint64_t)range.begin};
        uint64_t length = range_length(range);
        if (length)
            batch_add(&batch, i, (cuda_piece){.bits = bits, .n = length},
                      (bits_before(bits) + length + 7) / 8, true);
    }
    GMV_TRY(batch_run(stream, &batch, CUDA_KERNEL_count_ranges, true, err));
    gmv__cuda_stream_deliver(stream, &args->out_counts[first], batch.slice.pinned,
                             n * sizeof(int64_t));
    return GMV_OK;
}

gmv_status gmv__cuda_count_bits(gmv_stream *base, const gmv_count_bits *args, gmv_error *err)
{
    cuda_stream *stream = cuda_stream_of(base);
    if (!args->out_counts || args->n_ranges == 0)
        return GMV_OK;
    CUDA_SCOPE(cuda_stream_device(stream));
    if (args->n_ranges == 1 && count_is_known(args, 0))
        return GMV_OK;
    if (args->n_ranges == 1)
        return scan_launch(stream, CUDA_KERNEL_count_bits,
                           (cuda_bits){args->address, (uint64_t)args->ranges[0].begin},
                           range_length(args->ranges[0]), args->out_counts, err);
    if (args->address == 0) {
        for (size_t i = 0; i < args->n_ranges; i++)
            (void)count_is_known(args, i);
        return GMV_OK;
    }
    for (size_t done = 0; done < args->n_ranges; done += BATCH_ITEMS_MAX)
        GMV_TRY(
            count_batch(stream, args, done, GMV_MIN(args->n_ranges - done, BATCH_ITEMS_MAX), err));
    return GMV_OK;
}

gmv_status gmv__cuda_find_bit(gmv_stream *base, const gmv_find_bit *args, gmv_error *err)
{
    cuda_stream *stream = cuda_stream_of(base);
    uint64_t n = range_length(args->range);
    if (!args->out_index)
        return GMV_OK;
    if (n == 0 || args->address == 0) {
        *args->out_index = 0; /* the length of no bits, or the first of all ones */
        return GMV_OK;
    }
    CUDA_SCOPE(cuda_stream_device(stream));
    return scan_launch(stream, CUDA_KERNEL_find_bit,
                       (cuda_bits){args->address, (uint64_t)args->range.begin}, n, args->out_index,
                       err);
}

/* ---- strided elements ---- */

/* Adds an extent inside all that are there: dropped if it is 1, merged if both are walked as one.
 */
static void gather_add_extent(cuda_gather_args *launch, uint64_t extent, int64_t stride)
{
    int64_t span;
    if (extent == 1)
        return;
    if (launch->ndim > 0 && extent <= INT64_MAX &&
        gmv_mul_checked((int64_t)extent, stride, &span) &&
        launch->strides[launch->ndim - 1] == span) {
        launch->shape[launch->ndim - 1] *= extent;
        launch->strides[launch->ndim - 1] = stride;
        return;
    }
    launch->shape[launch->ndim] = extent;
    launch->strides[launch->ndim] = stride;
    launch->ndim++;
}

/* Whether all addresses are multiples of `unit`, given that the last extent is left out or not. */
static bool gather_is_aligned(const cuda_gather_args *launch, uint32_t ndim, uint64_t unit)
{
    uint64_t bits = launch->address | launch->output;
    for (uint32_t i = 0; i < ndim; i++)
        bits |= (uint64_t)launch->strides[i];
    return bits % unit == 0;
}

/* The extents of the array, and the parts of an element as one more where it is not aligned. */
static uint64_t gather_plan(cuda_gather_args *launch, const gmv_gather *args)
{
    uint64_t unit = (uint64_t)args->itemsize, parts;
    for (int32_t i = 0; i < args->layout->ndim; i++)
        gather_add_extent(launch, (uint64_t)args->layout->shape[i], args->layout->strides[i]);
    while (!gather_is_aligned(launch, launch->ndim, unit))
        unit /= 2;
    parts = (uint64_t)args->itemsize / unit;
    gather_add_extent(launch, parts, (int64_t)unit);
    launch->first = (uint64_t)args->first * parts;
    launch->count = (uint64_t)args->count * parts;
    if (launch->ndim == 0) {
        launch->shape[launch->ndim] = 1;
        launch->strides[launch->ndim++] = (int64_t)unit;
    }
    return unit;
}

/* Pairs of elements that lie side by side become one element of twice the size, up to 16 bytes. */
static uint64_t gather_widen(cuda_gather_args *launch, uint64_t unit)
{
    uint32_t last = launch->ndim - 1;
    while (unit < 16 && launch->strides[last] == (int64_t)unit && launch->shape[last] % 2 == 0 &&
           launch->first % 2 == 0 && launch->count % 2 == 0 &&
           gather_is_aligned(launch, last, 2 * unit)) {
        unit *= 2;
        launch->strides[last] *= 2;
        launch->shape[last] /= 2;
        launch->first /= 2;
        launch->count /= 2;
    }
    return unit;
}

static bool gather_is_narrow(const cuda_gather_args *launch)
{
    uint64_t end;
    if (!gmv_add_checked(launch->first, launch->count, &end) || end > UINT32_MAX)
        return false;
    for (uint32_t i = 1; i < launch->ndim; i++)
        if (launch->shape[i] > UINT32_MAX)
            return false;
    return true;
}

/* ---- the same where it turns matrices ---- */

#define TRANSPOSE_SIDE_NBYTES 64        /* a shorter side leaves most of a tile idle */
#define TRANSPOSE_BLOCKS_MAX  INT32_MAX /* of one launch */

/* The extent along which the source's elements lie side by side; the last one if there is none. */
static uint32_t transpose_find_columns(const cuda_gather_args *gather, uint64_t unit)
{
    uint32_t last = gather->ndim - 1, found = 0;
    while (found < last && (gather->strides[found] != (int64_t)unit ||
                            gather->shape[found] * unit < TRANSPOSE_SIDE_NBYTES))
        found++;
    return found;
}

/* Puts the extents but the last and `columns` in order, with their strides in the output. */
static void transpose_add_matrices(cuda_transpose_args *launch, const cuda_gather_args *gather,
                                   uint32_t columns, uint64_t unit)
{
    uint64_t stride = unit * gather->shape[gather->ndim - 1];
    launch->ndim = gather->ndim - 2;
    uint32_t place = launch->ndim;
    for (uint32_t i = gather->ndim - 1; i-- > 0; stride *= gather->shape[i]) {
        if (i == columns) {
            launch->output_pitch = stride;
            continue;
        }
        place--;
        launch->shape[place] = gather->shape[i];
        launch->strides[place] = gather->strides[i];
        launch->output_strides[place] = stride;
    }
}

static bool transpose_is_wide(const cuda_transpose_args *launch)
{
    uint64_t bits =
        launch->address | launch->output | (uint64_t)launch->source_pitch | launch->output_pitch;
    for (uint32_t i = 0; i < launch->ndim; i++)
        bits |= (uint64_t)launch->strides[i] | launch->output_strides[i];
    return bits % 16 == 0;
}

/* False where the gather is not of whole matrices, or of none that are worth it. */
static bool transpose_plan(cuda_transpose_args *launch, const cuda_gather_args *gather,
                           uint64_t unit, uint64_t *out_tiles)
{
    uint32_t last = gather->ndim - 1, columns = transpose_find_columns(gather, unit);
    uint64_t size = 1, side = GMV_CUDA_TRANSPOSE_TILE / unit;
    for (uint32_t i = 0; i < gather->ndim; i++)
        size *= gather->shape[i];
    if (unit > 8 || columns == last || gather->first != 0 || gather->count != size ||
        gather->strides[last] == (int64_t)unit ||
        gather->shape[last] * unit < TRANSPOSE_SIDE_NBYTES)
        return false;
    launch->address = gather->address;
    launch->output = gather->output;
    launch->rows = gather->shape[last];
    launch->columns = gather->shape[columns];
    launch->source_pitch = gather->strides[last];
    launch->tiles_of_rows = (launch->rows - 1) / side + 1;
    launch->tiles_of_columns = (launch->columns - 1) / side + 1;
    transpose_add_matrices(launch, gather, columns, unit);
    launch->wide = transpose_is_wide(launch);
    *out_tiles = size / launch->rows / launch->columns;
    return gmv_mul_checked(*out_tiles, launch->tiles_of_rows, out_tiles) &&
           gmv_mul_checked(*out_tiles, launch->tiles_of_columns, out_tiles) &&
           *out_tiles <= TRANSPOSE_BLOCKS_MAX;
}

static gmv_status transpose_launch(cuda_stream *stream, const cuda_transpose_args *launch,
                                   uint64_t unit, uint64_t tiles, gmv_error *err)
{
    static const cuda_kernel kernels[9] = {
        [1] = CUDA_KERNEL_transpose_1,
        [2] = CUDA_KERNEL_transpose_2,
        [4] = CUDA_KERNEL_transpose_4,
        [8] = CUDA_KERNEL_transpose_8,
    };
    CUDA_SCOPE(cuda_stream_device(stream));
    return gmv__cuda_kernel_launch(stream, kernels[unit], launch, tiles, 1, err);
}

gmv_status gmv__cuda_gather(gmv_stream *base, const gmv_gather *args, gmv_error *err)
{
    static const cuda_kernel kernels[17] = {
        [1] = CUDA_KERNEL_gather_1, [2] = CUDA_KERNEL_gather_2,   [4] = CUDA_KERNEL_gather_4,
        [8] = CUDA_KERNEL_gather_8, [16] = CUDA_KERNEL_gather_16,
    };
    cuda_stream *stream = cuda_stream_of(base);
    cuda_gather_args launch = {.address = args->address, .output = args->output};
    if (args->count == 0)
        return GMV_OK;
    if (args->itemsize > 16 || (args->itemsize & (args->itemsize - 1)))
        return gmv_fail(err, GMV_ERR_INTERNAL, NULL, "no element has %lld bytes",
                        (long long)args->itemsize);
    if (!args->layout->has_strides)
        return gmv__cuda_copy_within(base, args->output,
                                     args->address + (uint64_t)(args->first * args->itemsize),
                                     (uint64_t)(args->count * args->itemsize), err);
    uint64_t unit = gather_plan(&launch, args);
    if (launch.ndim == 1 && launch.strides[0] == (int64_t)unit)
        return gmv__cuda_copy_within(base, launch.output, launch.address + launch.first * unit,
                                     launch.count * unit, err);
    cuda_transpose_args transpose = {0};
    uint64_t tiles;
    if (transpose_plan(&transpose, &launch, unit, &tiles))
        return transpose_launch(stream, &transpose, unit, tiles, err);
    unit = gather_widen(&launch, unit);
    launch.narrow = gather_is_narrow(&launch);
    CUDA_SCOPE(cuda_stream_device(stream));
    return gmv__cuda_kernel_launch(stream, kernels[unit], &launch, launch.count,
                                   GMV_CUDA_THREADS * GMV_CUDA_PIECES, err);
}

/* ---- packed tables ---- */

/* Bytes are a string of bits, too. */
static cuda_piece piece_of(const gmv_copy_piece *piece)
{
    cuda_piece out = {.destination = piece->destination, .capacity = piece->capacity};
    if (piece->is_bits) {
        out.bits = bits_of(piece->bits);
        out.n = (uint64_t)piece->n;
    } else if (piece->nbytes) {
        out.bits = (cuda_bits){piece->source, 0};
        out.n = 8 * piece->nbytes;
        out.offset_width = piece->offset_width;
        out.base = piece->base;
        out.end = piece->end;
    }
    return out;
}

static gmv_status pieces_batch(cuda_stream *stream, const gmv_copy_piece *pieces, size_t n,
                               gmv_error *err)
{
    cuda_batch batch;
    bool counted = false;
    GMV_TRY(batch_begin(stream, &batch, n, GMV_CUDA_WARP_TILE, err));
    for (size_t i = 0; i < n; i++) {
        bool wanted = pieces[i].is_bits && pieces[i].out_set_count;
        counted = counted || wanted;
        if (pieces[i].capacity)
            batch_add(&batch, i, piece_of(&pieces[i]), pieces[i].capacity, wanted);
    }
    GMV_TRY(batch_run(stream, &batch, CUDA_KERNEL_copy_pieces, counted, err));
    if (counted)
        gmv__cuda_stream_deliver_counts(stream, pieces, batch.slice.pinned, n);
    return GMV_OK;
}

/* One piece alone needs no table. */
static gmv_status piece_alone(gmv_stream *base, const gmv_copy_piece *piece, gmv_error *err)
{
    cuda_piece one = piece_of(piece);
    return gmv__cuda_copy_bits(
        base,
        &(gmv_copy_bits){.bits = {one.bits.address, (int64_t)one.bits.offset},
                         .n = (int64_t)one.n,
                         .output = one.destination,
                         .output_nbytes = one.capacity,
                         .out_set_count = piece->is_bits ? piece->out_set_count : NULL},
        err);
}

gmv_status gmv__cuda_copy_pieces(gmv_stream *base, const gmv_copy_piece *pieces, size_t n,
                                 gmv_error *err)
{
    cuda_stream *stream = cuda_stream_of(base);
    if (n == 1 && !pieces->offset_width)
        return piece_alone(base, pieces, err);
    CUDA_SCOPE(cuda_stream_device(stream));
    for (size_t done = 0; done < n; done += BATCH_ITEMS_MAX)
        GMV_TRY(pieces_batch(stream, pieces + done, GMV_MIN(n - done, BATCH_ITEMS_MAX), err));
    return GMV_OK;
}
