/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packed tables on the device: what the host knows of a table is small, the pieces that copy its
 * partitions are many, so the device makes their table itself. Scratch comes from the pool and goes
 * back to it in the order of the stream.
 */
#include "device/cuda/cuda_priv.h"

#include <stddef.h>
#include <string.h>

#include <gmv/base/alloc.h>
#include <gmv/base/num.h>

#define SPLIT_PIECES_MAX ((size_t)1 << 16) /* of one launch, unless a partition has more */
#define SPLIT_ALIGNMENT  256

_Static_assert(sizeof(cuda_split_level) == sizeof(gmv_split_level) &&
                   offsetof(cuda_split_level, limit) == offsetof(gmv_split_level, limit) &&
                   offsetof(cuda_split_level, parent) == offsetof(gmv_split_level, parent) &&
                   offsetof(cuda_split_level, offset_width) ==
                       offsetof(gmv_split_level, offset_width),
               "levels are the same on both sides");
_Static_assert(sizeof(cuda_split_buffer) == sizeof(gmv_split_buffer) &&
                   offsetof(cuda_split_buffer, first) == offsetof(gmv_split_buffer, first) &&
                   offsetof(cuda_split_buffer, kind) == offsetof(gmv_split_buffer, kind) &&
                   offsetof(cuda_split_buffer, level) == offsetof(gmv_split_buffer, level) &&
                   offsetof(cuda_split_buffer, width) == offsetof(gmv_split_buffer, width) &&
                   offsetof(cuda_split_buffer, below) == offsetof(gmv_split_buffer, below),
               "buffers are the same on both sides");
_Static_assert((int)GMV_SPLIT_BYTES == GMV_CUDA_SPLIT_BYTES &&
                   (int)GMV_SPLIT_BITS == GMV_CUDA_SPLIT_BITS &&
                   (int)GMV_SPLIT_OFFSETS == GMV_CUDA_SPLIT_OFFSETS &&
                   GMV_SPLIT_ALIGNMENT == GMV_CUDA_SPLIT_ALIGNMENT &&
                   GMV_SPLIT_DEPTH_MAX == GMV_CUDA_DEPTH_MAX,
               "so is what their members mean");

/* ---- scratch -------------------------------------------------------------------------------- */

static gmv_status scratch_take(cuda_stream *stream, size_t nbytes, CUdeviceptr *out_address,
                               gmv_error *err)
{
    cuda_device *device = cuda_stream_device(stream);
    CUresult result = cuda.pool_allocate(out_address, nbytes, device->pool, stream->handle);
    if (result == CUDA_ERROR_OUT_OF_MEMORY)
        return gmv_fail(err, GMV_ERR_DEVICE_OUT_OF_MEMORY, NULL,
                        "the device cannot give %zu bytes of scratch memory", nbytes);
    if (result != CUDA_SUCCESS)
        return cuda_fail(device, result, "pool_allocate", err);
    stream->busy = true;
    return GMV_OK;
}

/* What is enqueued may still use it: the pool gives it away after that only. */
static void scratch_give(cuda_stream *stream, CUdeviceptr address)
{
    cuda_device *device = cuda_stream_device(stream);
    if (gmv_device_is_lost(&device->base, NULL))
        return;
    CUresult result = cuda.pool_free(address, stream->handle);
    if (result != CUDA_SUCCESS) {
        cuda_log("pool_free", result);
        (void)cuda_is_lost(device, result);
    }
}

/* The next part of the scratch memory; with address 0 its parts are only counted. */
static CUdeviceptr scratch_part(CUdeviceptr scratch, size_t *used, size_t nbytes)
{
    const CUdeviceptr part = scratch + *used;
    *used += (size_t)gmv_round_up(nbytes, SPLIT_ALIGNMENT);
    return part;
}

/* ---- bounds --------------------------------------------------------------------------------- */

static gmv_status bounds_run(gmv_stream *base, const gmv_split_bounds *args,
                             const cuda_split_bounds_args *launch, gmv_error *err)
{
    const size_t row_nbytes = args->n_points * sizeof(int64_t);
    const uint64_t total = (args->n_levels - 1) * (uint64_t)args->n_points;
    GMV_TRY(cuda_copy_in(base, launch->levels, args->levels, args->n_levels * sizeof *args->levels,
                         err));
    GMV_TRY(cuda_copy_in(base, launch->bounds, args->bounds, row_nbytes, err));
    GMV_TRY(cuda_kernel_launch(cuda_stream_of(base), CUDA_KERNEL_split_bounds, launch, total,
                               GMV_CUDA_THREADS, err));
    return cuda_copy_out(base, args->bounds + args->n_points, launch->bounds + row_nbytes,
                         total * sizeof(int64_t), err);
}

gmv_status cuda_split_bounds(gmv_stream *base, const gmv_split_bounds *args, gmv_error *err)
{
    cuda_stream *stream = cuda_stream_of(base);
    size_t used = 0;
    CUdeviceptr scratch = 0;
    if (args->n_levels == 1 || args->n_points == 0)
        return GMV_OK;
    CUDA_SCOPE(cuda_stream_device(stream));
    cuda_split_bounds_args launch = {.n_levels = args->n_levels, .n_points = args->n_points};
    launch.levels = scratch_part(0, &used, args->n_levels * sizeof *args->levels);
    launch.bounds = scratch_part(0, &used, args->n_levels * args->n_points * sizeof(int64_t));
    GMV_TRY(scratch_take(stream, used, &scratch, err));
    launch.levels += scratch;
    launch.bounds += scratch;
    const gmv_status status = bounds_run(base, args, &launch, err);
    scratch_give(stream, scratch);
    return status;
}

/* ---- partitions ----------------------------------------------------------------------------- */

/* Warp tiles of a partition, as the kernel counts them. */
static uint64_t split_tiles(const gmv_split *args, size_t partition)
{
    uint64_t tiles = 0;
    for (size_t i = 0; i < args->n_buffers; i++) {
        const gmv_split_buffer *buffer = &args->buffers[i];
        const int64_t *bounds = args->bounds + buffer->level * args->n_points + partition;
        const uint64_t nbytes = gmv_split_nbytes(buffer, bounds[1] - bounds[0]);
        tiles += (gmv_round_up(nbytes, GMV_SPLIT_ALIGNMENT) + GMV_CUDA_WARP_TILE - 1) /
                 GMV_CUDA_WARP_TILE;
    }
    return tiles;
}

/* Partitions of tables without nested rows are mostly alike. */
static bool split_is_like_before(const gmv_split *args, size_t partition)
{
    const int64_t *bounds = args->bounds + partition;
    return args->n_levels == 1 && partition > args->first &&
           bounds[1] - bounds[0] == bounds[0] - bounds[-1];
}

/* places[n] is where one more partition would begin. */
static void split_find_places(const gmv_split *args, cuda_split_place *places)
{
    uint64_t tiles = 0;
    places[0].first_tile = 0;
    for (size_t i = 0; i < args->n; i++) {
        const size_t partition = args->first + i;
        if (!split_is_like_before(args, partition))
            tiles = split_tiles(args, partition);
        places[i].destination = args->destinations[partition];
        places[i + 1].first_tile = places[i].first_tile + tiles;
    }
}

/* What all launches of a call share, on the device and here. */
typedef struct split_work {
    cuda_split_args launch;
    cuda_split_place *places;
    size_t per_launch; /* partitions */
} split_work;

/* One table of pieces after the other: they share their memory. */
static gmv_status split_launch(cuda_stream *stream, const gmv_split *args, const split_work *work,
                               size_t done, size_t n, gmv_error *err)
{
    cuda_split_args launch = work->launch;
    launch.places += done * sizeof(cuda_split_place);
    launch.first = args->first + done;
    launch.first_tile = work->places[done].first_tile;
    launch.counts += launch.first * args->n_masks * sizeof(uint64_t);
    const cuda_pieces_args pieces = {
        .pieces = launch.pieces,
        .n_pieces = n * args->n_buffers,
        .n_tiles = work->places[done + n].first_tile - launch.first_tile,
    };
    if (pieces.n_tiles == 0)
        return GMV_OK;
    GMV_TRY(cuda_kernel_launch(stream, CUDA_KERNEL_split_pieces, &launch, n, 1, err));
    return cuda_kernel_launch(stream, CUDA_KERNEL_copy_pieces, &pieces, pieces.n_tiles,
                              GMV_CUDA_THREADS / 32, err);
}

static gmv_status split_upload(gmv_stream *base, const gmv_split *args, const split_work *work,
                               gmv_error *err)
{
    GMV_TRY(cuda_copy_in(base, work->launch.buffers, args->buffers,
                         args->n_buffers * sizeof *args->buffers, err));
    GMV_TRY(cuda_copy_in(base, work->launch.bounds, args->bounds,
                         args->n_levels * args->n_points * sizeof(int64_t), err));
    return cuda_copy_in(base, work->launch.places, work->places, args->n * sizeof(cuda_split_place),
                        err);
}

static gmv_status split_run(gmv_stream *base, const gmv_split *args, const split_work *work,
                            gmv_error *err)
{
    GMV_TRY(split_upload(base, args, work, err));
    for (size_t done = 0; done < args->n; done += work->per_launch)
        GMV_TRY(split_launch(cuda_stream_of(base), args, work, done,
                             GMV_MIN(args->n - done, work->per_launch), err));
    return GMV_OK;
}

/* Lays the scratch memory out; returns its bytes. */
static size_t split_lay_out(const gmv_split *args, split_work *work, CUdeviceptr scratch)
{
    size_t used = 0;
    cuda_split_args *launch = &work->launch;
    work->per_launch = GMV_MIN(GMV_MAX(SPLIT_PIECES_MAX / args->n_buffers, (size_t)1), args->n);
    launch->n_buffers = args->n_buffers;
    launch->n_points = args->n_points;
    launch->n_masks = args->n_masks;
    launch->counts = args->set_counts;
    launch->buffers = scratch_part(scratch, &used, args->n_buffers * sizeof *args->buffers);
    launch->bounds =
        scratch_part(scratch, &used, args->n_levels * args->n_points * sizeof(int64_t));
    launch->places = scratch_part(scratch, &used, args->n * sizeof(cuda_split_place));
    launch->pieces =
        scratch_part(scratch, &used, work->per_launch * args->n_buffers * sizeof(cuda_piece));
    return used;
}

gmv_status cuda_split(gmv_stream *base, const gmv_split *args, gmv_error *err)
{
    cuda_stream *stream = cuda_stream_of(base);
    split_work work = {0};
    CUdeviceptr scratch = 0;
    if (args->n == 0 || args->n_buffers == 0)
        return GMV_OK;
    CUDA_SCOPE(cuda_stream_device(stream));
    const size_t nbytes = split_lay_out(args, &work, 0);
    work.places = gmv_calloc(args->n + 1, sizeof *work.places);
    if (!work.places)
        return gmv_fail_no_memory(err);
    split_find_places(args, work.places);
    gmv_status status = scratch_take(stream, nbytes, &scratch, err);
    if (status == GMV_OK) {
        (void)split_lay_out(args, &work, scratch);
        status = split_run(base, args, &work, err);
        scratch_give(stream, scratch);
    }
    gmv_free(work.places);
    return status;
}
