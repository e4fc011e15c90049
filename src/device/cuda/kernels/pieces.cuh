/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many runs of bits at once: the buffers of a packed table (bytes are bits, eight of them), or the
 * segments of a mask. Warps share all tiles of all runs evenly, so a table of one long and a
 * thousand short columns is no slower than its bytes.
 */
#ifndef GMV_DEVICE_CUDA_KERNELS_PIECES_H
#define GMV_DEVICE_CUDA_KERNELS_PIECES_H

#include "device/cuda/kernels/bits.cuh"

#define PIECE_STEPS  8    /* pieces looked at one by one before a search */
#define OWNERS_AHEAD 8192 /* tiles, a multiple of those of a block */

/* The last piece that begins at or before the tile. All lanes look for the same, 32 at a time. */
DEVICE const cuda_piece *piece_find(const cuda_pieces_args *args, uint64_t tile)
{
    const cuda_piece *pieces = (const cuda_piece *)args->pieces;
    uint64_t low = 0, left = args->n_pieces;
    while (left > 1) {
        uint64_t step = (left + WARP_THREADS - 1) / WARP_THREADS;
        uint32_t before = 0;
        WARP_LANES_BEGIN(lane)
        bool is_before = lane * step < left && pieces[low + lane * step].first_tile <= tile;
        WARP_BALLOT(before, lane, is_before);
        WARP_LANES_END
        uint64_t skipped = (count_ones(before) - 1) * step;
        low += skipped;
        left = left - skipped < step ? left - skipped : step;
    }
    return &pieces[low];
}

/* The same in a part of the table, from `low` on, by each thread on its own. */
DEVICE uint64_t piece_last(const cuda_piece *pieces, uint64_t low, uint64_t end, uint64_t tile)
{
    for (uint64_t left = end - low; left > 1;) {
        uint64_t half = left / 2;
        bool is_before = pieces[low + half].first_tile <= tile;
        low += is_before ? half : 0;
        left = is_before ? left - half : half;
    }
    return low;
}

/* The same for a tile of the piece `low` or soon after it. */
DEVICE uint64_t piece_next(const cuda_piece *pieces, uint64_t low, uint64_t end, uint64_t tile)
{
    NO_UNROLL
    for (uint32_t i = 0; i < PIECE_STEPS; i++, low++)
        if (low + 1 >= end || pieces[low + 1].first_tile > tile)
            return low;
    return piece_last(pieces, low, end, tile);
}

/* A search in thousands of pieces takes as long as the copy of a tile: it is made once for many. */
KERNEL(find_owners, cuda_owners_args)
{
    const cuda_piece *pieces = (const cuda_piece *)args.pieces;
    uint64_t first = (block_index() * GMV_CUDA_THREADS + thread_index()) * GMV_CUDA_OWNERS_PIECES;
    uint32_t owners[GMV_CUDA_OWNERS_PIECES];
    if (first >= args.n_tiles)
        return;
    uint64_t owner = piece_last(pieces, 0, args.n_pieces, first);
    UNROLL
    for (uint32_t i = 0; i < GMV_CUDA_OWNERS_PIECES; i++) {
        owner = piece_next(pieces, owner, args.n_pieces, first + i);
        owners[i] = (uint32_t)owner;
    }
    block16 value = {owners[0] | (uint64_t)owners[1] << 32, owners[2] | (uint64_t)owners[3] << 32};
    store128(args.owners + 4 * first, value);
}

/* The piece that the tile is of. */
DEVICE const cuda_piece *piece_of(const cuda_pieces_args *args, uint64_t tile)
{
    if (args->owners == 0)
        return piece_find(args, tile);
    uint64_t owner = load32(args->owners + 4 * tile);
    return (const cuda_piece *)args->pieces + (owner < args->n_pieces ? owner : 0);
}

/* What a tile some waves ahead will ask for; by then it has left the caches again otherwise. */
DEVICE void owners_prefetch(const cuda_pieces_args *args, uint64_t tile)
{
    uint64_t ahead = tile + OWNERS_AHEAD;
    if (args->owners && ahead % BLOCK_WARPS == 0 && ahead < args->n_tiles)
        prefetch(args->owners + 4 * ahead);
}

DEVICE uint64_t warp_tile(void)
{
    return block_index() * BLOCK_WARPS + thread_index() / WARP_THREADS;
}

/* The thread's first piece of 16 bytes in the tile. */
DEVICE uint64_t tile_first(uint64_t tile, uint64_t tile_nbytes)
{
    return tile * (tile_nbytes / 16) + thread_index() % WARP_THREADS;
}

DEVICE uint32_t rebase_4(uint32_t bits, int32_t base, int32_t end)
{
    int32_t value = (int32_t)bits;
    value = value < base ? base : value;
    value = value > end ? end : value;
    return (uint32_t)(value - base);
}

DEVICE uint64_t rebase_8(uint64_t bits, int64_t base, int64_t end)
{
    int64_t value = (int64_t)bits;
    value = value < base ? base : value;
    value = value > end ? end : value;
    return (uint64_t)(value - base);
}

DEVICE uint64_t rebase_both(uint64_t bits, int32_t base, int32_t end)
{
    return rebase_4((uint32_t)bits, base, end) |
           (uint64_t)rebase_4((uint32_t)(bits >> 32), base, end) << 32;
}

/* Offsets that may be anything become those of the partition, from 0 to end - base. */
DEVICE void values_rebase(block16 *values, const cuda_piece *piece)
{
    if (piece->offset_width == 4) {
        UNROLL
        for (uint32_t i = 0; i < GMV_CUDA_PIECES; i++) {
            values[i].low = rebase_both(values[i].low, (int32_t)piece->base, (int32_t)piece->end);
            values[i].high = rebase_both(values[i].high, (int32_t)piece->base, (int32_t)piece->end);
        }
        return;
    }
    UNROLL
    for (uint32_t i = 0; i < GMV_CUDA_PIECES; i++) {
        values[i].low = rebase_8(values[i].low, piece->base, piece->end);
        values[i].high = rebase_8(values[i].high, piece->base, piece->end);
    }
}

/* Copies a warp tile and returns its ones. */
DEVICE uint32_t tile_copy(const cuda_piece *piece, uint64_t tile)
{
    uint64_t first = tile_first(tile, GMV_CUDA_WARP_TILE);
    bit_source source = source_of(piece->bits, piece->n);
    block16 values[GMV_CUDA_PIECES];
    if (source.blocks) {
        SOURCE_PIECES(source, first, WARP_THREADS, GMV_CUDA_PIECES, values);
    } else {
        UNROLL
        for (uint32_t i = 0; i < GMV_CUDA_PIECES; i++)
            values[i].low = values[i].high = UINT64_MAX;
    }
    if (piece->offset_width)
        values_rebase(values, piece);
    return pieces_store(values, first, WARP_THREADS, piece->n, piece->destination, piece->capacity);
}

KERNEL_RESIDENT(copy_pieces, cuda_pieces_args, 4)
{
    uint64_t tile = warp_tile(), counter = 0;
    uint32_t ones = 0;
    if (tile < args.n_tiles) {
        owners_prefetch(&args, tile);
        const cuda_piece *piece = piece_of(&args, tile);
        counter = piece->counter;
        ones = tile_copy(piece, tile - piece->first_tile);
    }
    block_count(counter, ones);
}

/* The ones of a warp tile, counted where they lie. */
DEVICE uint32_t tile_count(const cuda_piece *piece, uint64_t tile)
{
    uint64_t first = tile_first(tile, GMV_CUDA_SCAN_WARP_TILE);
    bit_source source = source_of(piece->bits, piece->n);
    uint64_t end = source.shift + piece->n;
    block16 blocks[GMV_CUDA_SCAN_PIECES];
    uint32_t ones = 0;
    SOURCE_BLOCKS(source, first, WARP_THREADS, GMV_CUDA_SCAN_PIECES, blocks);
    if (first == 0 || !pieces_inside(first, WARP_THREADS, GMV_CUDA_SCAN_PIECES, end)) {
        UNROLL
        for (uint32_t i = 0; i < GMV_CUDA_SCAN_PIECES; i++)
            blocks[i] = block_clip(blocks[i], first + i * WARP_THREADS, source.shift, end);
    }
    UNROLL
    for (uint32_t i = 0; i < GMV_CUDA_SCAN_PIECES; i++)
        ones += block_ones(blocks[i]);
    return ones;
}

KERNEL(count_ranges, cuda_pieces_args)
{
    uint64_t tile = warp_tile(), counter = 0;
    uint32_t ones = 0;
    if (tile < args.n_tiles) {
        const cuda_piece piece = *piece_find(&args, tile);
        counter = piece.counter;
        ones = tile_count(&piece, tile - piece.first_tile);
    }
    block_count(counter, ones);
}

#endif
