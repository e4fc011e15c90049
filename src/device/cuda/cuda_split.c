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

#define SPLIT_PIECES_MAX ((size_t)1 << 17) /* of one launch, unless a partition has more */
#define SPLIT_ALIGNMENT  256
#define SPLIT_BLOCKS     ((uint64_t)256) /* that make pieces at once, if there is work for them */

/* What is searched for in one step is not looked up, nor in a table of more than 64 MiB. */
#define OWNERS_PIECES_MIN 32
#define OWNERS_TILES_MAX  ((uint64_t)1 << 24)

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

/* ---- scratch ---- */

static gmv_status scratch_take(cuda_stream *stream, size_t nbytes, CUdeviceptr *out_address,
                               gmv_error *err)
{
    cuda_device *device = cuda_stream_device(stream);
    CUresult result = gmv__cuda.pool_allocate(out_address, nbytes, device->pool, stream->handle);
    if (result == CUDA_ERROR_OUT_OF_MEMORY && gmv__cuda_cache_empty(device))
        result = gmv__cuda.pool_allocate(out_address, nbytes, device->pool, stream->handle);
    if (result == CUDA_ERROR_OUT_OF_MEMORY)
        return gmv_fail(err, GMV_ERR_DEVICE_OUT_OF_MEMORY, NULL,
                        "the device cannot give %zu bytes of scratch memory; delete handles that "
                        "are no longer needed",
                        nbytes);
    if (result != CUDA_SUCCESS)
        return gmv__cuda_fail(device, result, "pool_allocate", err);
    stream->busy = true;
    return GMV_OK;
}

/* What is enqueued may still use it: the pool gives it away after that only. */
static void scratch_give(cuda_stream *stream, CUdeviceptr address)
{
    cuda_device *device = cuda_stream_device(stream);
    if (gmv_device_is_lost(&device->base, NULL))
        return;
    CUresult result = gmv__cuda.pool_free(address, stream->handle);
    if (result != CUDA_SUCCESS) {
        gmv__cuda_log("pool_free", result);
        (void)gmv__cuda_is_lost(device, result);
    }
}

/* Makes room for one more table at *end; returns where it begins. */
static size_t tables_add(size_t *end, size_t nbytes)
{
    const size_t begin = *end;
    *end += (size_t)gmv_round_up(nbytes, SPLIT_ALIGNMENT);
    return begin;
}

/* ---- bounds ---- */

static gmv_status bounds_run(gmv_stream *base, const gmv_split_bounds *args,
                             const cuda_split_bounds_args *launch, gmv_error *err)
{
    const size_t row_nbytes = args->n_points * sizeof(int64_t);
    const uint64_t total = (args->n_levels - 1) * (uint64_t)args->n_points;
    GMV_TRY(gmv__cuda_copy_in(base, launch->levels, args->levels,
                              args->n_levels * sizeof *args->levels, err));
    GMV_TRY(gmv__cuda_copy_in(base, launch->bounds, args->bounds, row_nbytes, err));
    GMV_TRY(gmv__cuda_kernel_launch(cuda_stream_of(base), CUDA_KERNEL_split_bounds, launch, total,
                                    GMV_CUDA_THREADS, err));
    return gmv__cuda_copy_out(base, args->bounds + args->n_points, launch->bounds + row_nbytes,
                              total * sizeof(int64_t), err);
}

gmv_status gmv__cuda_split_bounds(gmv_stream *base, const gmv_split_bounds *args, gmv_error *err)
{
    cuda_stream *stream = cuda_stream_of(base);
    size_t used = 0;
    CUdeviceptr scratch = 0;
    if (args->n_levels == 1 || args->n_points == 0)
        return GMV_OK;
    CUDA_SCOPE(cuda_stream_device(stream));
    const size_t levels = tables_add(&used, args->n_levels * sizeof *args->levels);
    const size_t bounds = tables_add(&used, args->n_levels * args->n_points * sizeof(int64_t));
    GMV_TRY(scratch_take(stream, used, &scratch, err));
    const cuda_split_bounds_args launch = {
        .levels = scratch + levels,
        .bounds = scratch + bounds,
        .n_levels = args->n_levels,
        .n_points = args->n_points,
    };
    const gmv_status status = bounds_run(base, args, &launch, err);
    scratch_give(stream, scratch);
    return status;
}

/* ---- partitions ---- */

/* Warp tiles of a partition, as the kernel counts them. */
static uint64_t split_tiles(const gmv_split *args, size_t partition)
{
    uint64_t tiles = 0;
    for (size_t i = 0; i < args->n_classes; i++) {
        const gmv_split_class *class = &args->classes[i];
        const int64_t *bounds = args->bounds + class->level * args->n_points + partition;
        const uint64_t capacity =
            gmv_split_capacity(class->kind, class->width, bounds[1] - bounds[0]);
        tiles += (capacity + GMV_CUDA_WARP_TILE - 1) / GMV_CUDA_WARP_TILE * class->count;
    }
    return tiles;
}

/* places[n] is where one more partition would begin. */
static void split_find_places(const gmv_split *args, cuda_split_place *places)
{
    places[0].first_tile = 0;
    for (size_t i = 0; i < args->n; i++) {
        const size_t partition = args->first + i;
        places[i].destination = args->destinations[partition];
        places[i + 1].first_tile = places[i].first_tile + split_tiles(args, partition);
    }
}

/*
 * The tables of a call: what the host has to say in one piece, which is uploaded at once, and the
 * pieces that the device makes of it, with the piece that each tile is of.
 */
typedef struct split_tables {
    size_t buffers, bounds, places, pieces, owners; /* where they begin */
    size_t nbytes_in, nbytes;                       /* of the upload, and of all */
    size_t per_launch;                              /* partitions whose pieces there is room for */
} split_tables;

static split_tables tables_of(const gmv_split *args)
{
    split_tables tables = {0};
    size_t end = 0;
    const size_t most = GMV_MAX(SPLIT_PIECES_MAX / args->n_buffers, (size_t)1);
    const size_t n_launches = (args->n + most - 1) / most;
    tables.per_launch = (args->n + n_launches - 1) / n_launches;
    tables.buffers = tables_add(&end, args->n_buffers * sizeof *args->buffers);
    tables.bounds = tables_add(&end, args->n_levels * args->n_points * sizeof(int64_t));
    tables.places = tables_add(&end, (args->n + 1) * sizeof(cuda_split_place));
    tables.nbytes_in = end;
    tables.pieces = tables_add(&end, tables.per_launch * args->n_buffers * sizeof(cuda_piece));
    tables.owners = tables.nbytes = end;
    return tables;
}

/* Tiles of the launch that begins with partition `done` of the call's, and how many of those. */
static uint64_t launch_tiles(const gmv_split *args, const split_tables *tables,
                             const cuda_split_place *places, size_t done, size_t *out_n)
{
    *out_n = GMV_MIN(args->n - done, tables->per_launch);
    return places[done + *out_n].first_tile - places[done].first_tile;
}

static bool launch_has_owners(uint64_t n_pieces, uint64_t n_tiles)
{
    return n_pieces > OWNERS_PIECES_MIN && n_tiles <= OWNERS_TILES_MAX;
}

/* Room for the owners of all tiles of a launch. */
static void tables_add_owners(split_tables *tables, const gmv_split *args,
                              const cuda_split_place *places)
{
    uint64_t most = 0;
    size_t n = 0;
    for (size_t done = 0; done < args->n; done += n) {
        const uint64_t n_tiles = launch_tiles(args, tables, places, done, &n);
        if (launch_has_owners(n * args->n_buffers, n_tiles))
            most = GMV_MAX(most, n_tiles);
    }
    tables->owners = tables_add(&tables->nbytes, most * sizeof(uint32_t));
}

static void tables_fill(const split_tables *tables, const gmv_split *args, uint8_t *bytes)
{
    memcpy(bytes + tables->buffers, args->buffers, args->n_buffers * sizeof *args->buffers);
    memcpy(bytes + tables->bounds, args->bounds, args->n_levels * args->n_points * sizeof(int64_t));
    split_find_places(args, (cuda_split_place *)(void *)(bytes + tables->places));
}

static gmv_status split_find_owners(cuda_stream *stream, const cuda_pieces_args *pieces,
                                    gmv_error *err)
{
    const cuda_owners_args launch = {
        .pieces = pieces->pieces,
        .n_pieces = pieces->n_pieces,
        .n_tiles = pieces->n_tiles,
        .owners = pieces->owners,
    };
    return gmv__cuda_kernel_launch(stream, CUDA_KERNEL_find_owners, &launch, launch.n_tiles,
                                   GMV_CUDA_OWNERS_TILE, err);
}

/* A block for each of the pieces that a thread has to make, where partitions alone are too few. */
static uint64_t split_parts(const gmv_split *args, size_t n)
{
    const uint64_t share = (args->n_buffers + GMV_CUDA_THREADS - 1) / GMV_CUDA_THREADS;
    return GMV_MIN(share, GMV_MAX(SPLIT_BLOCKS / n, (uint64_t)1));
}

/* One table of pieces after the other: they share their memory. `places` are the call's own. */
static gmv_status split_launch(cuda_stream *stream, const gmv_split *args,
                               const split_tables *tables, CUdeviceptr scratch,
                               const cuda_split_place *places, size_t done, gmv_error *err)
{
    const size_t first = args->first + done;
    size_t n = 0;
    const uint64_t n_tiles = launch_tiles(args, tables, places, done, &n);
    const cuda_split_args launch = {
        .buffers = scratch + tables->buffers,
        .bounds = scratch + tables->bounds,
        .places = scratch + tables->places + done * sizeof *places,
        .pieces = scratch + tables->pieces,
        .counts = args->set_counts + first * args->n_masks * sizeof(uint64_t),
        .n_buffers = args->n_buffers,
        .n_points = args->n_points,
        .n_masks = args->n_masks,
        .n_parts = split_parts(args, n),
        .first = first,
        .first_tile = places[done].first_tile,
    };
    cuda_pieces_args pieces = {
        .pieces = launch.pieces,
        .n_pieces = n * args->n_buffers,
        .n_tiles = n_tiles,
    };
    if (pieces.n_tiles == 0)
        return GMV_OK;
    GMV_TRY(gmv__cuda_kernel_launch(stream, CUDA_KERNEL_split_pieces, &launch, n * launch.n_parts,
                                    1, err));
    if (launch_has_owners(pieces.n_pieces, pieces.n_tiles)) {
        pieces.owners = scratch + tables->owners;
        GMV_TRY(split_find_owners(stream, &pieces, err));
    }
    return gmv__cuda_kernel_launch(stream, CUDA_KERNEL_copy_pieces, &pieces, pieces.n_tiles,
                                   GMV_CUDA_THREADS / 32, err);
}

/* `bytes` is what is uploaded: of pinned memory that lasts, or of any, which is waited for. */
static gmv_status split_run(cuda_stream *stream, const gmv_split *args, const split_tables *tables,
                            CUdeviceptr scratch, const uint8_t *bytes, bool is_pinned,
                            gmv_error *err)
{
    const cuda_split_place *places = (const void *)(bytes + tables->places);
    if (is_pinned)
        CUDA_TRY(cuda_stream_device(stream),
                 copy_in(scratch, bytes, tables->nbytes_in, stream->handle), err);
    else
        GMV_TRY(gmv__cuda_copy_in(&stream->base, scratch, bytes, tables->nbytes_in, err));
    for (size_t done = 0; done < args->n; done += tables->per_launch)
        GMV_TRY(split_launch(stream, args, tables, scratch, places, done, err));
    return GMV_OK;
}

static gmv_status split_with(cuda_stream *stream, const gmv_split *args, split_tables *tables,
                             uint8_t *bytes, bool is_pinned, gmv_error *err)
{
    CUdeviceptr scratch = 0;
    tables_fill(tables, args, bytes);
    tables_add_owners(tables, args, (const void *)(bytes + tables->places));
    GMV_TRY(scratch_take(stream, tables->nbytes, &scratch, err));
    const gmv_status status = split_run(stream, args, tables, scratch, bytes, is_pinned, err);
    scratch_give(stream, scratch);
    return status;
}

/* Through the stream's own pinned block, if that is large enough: nobody waits then. */
gmv_status gmv__cuda_split(gmv_stream *base, const gmv_split *args, gmv_error *err)
{
    cuda_stream *stream = cuda_stream_of(base);
    if (args->n == 0 || args->n_buffers == 0)
        return GMV_OK;
    split_tables tables = tables_of(args);
    CUDA_SCOPE(cuda_stream_device(stream));
    if (tables.nbytes_in <= CUDA_BLOCK_NBYTES) {
        cuda_slice slice;
        GMV_TRY(gmv__cuda_stream_reserve(stream, tables.nbytes_in, &slice, err));
        return split_with(stream, args, &tables, slice.pinned, true, err);
    }
    uint8_t *bytes = gmv_malloc(tables.nbytes_in);
    if (!bytes)
        return gmv_fail_no_memory(err);
    const gmv_status status = split_with(stream, args, &tables, bytes, false, err);
    gmv_free(bytes);
    return status;
}
