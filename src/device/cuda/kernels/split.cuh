/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packed tables: where partitions begin in nested rows, and the tables of pieces that copy them.
 * Offsets may change at any moment, so each is read once and cut to what there is.
 */
#ifndef GMV_DEVICE_CUDA_KERNELS_SPLIT_H
#define GMV_DEVICE_CUDA_KERNELS_SPLIT_H

#include "device/cuda/kernels/language.cuh"

/* Where the row of the parent begins in this level. */
DEVICE int64_t split_step(const cuda_split_level *level, int64_t row)
{
    if (level->offsets == 0)
        return 0;
    uint64_t at = level->offsets + (uint64_t)row * level->offset_width;
    int64_t value = level->offset_width == 4 ? (int32_t)load32(at) : (int64_t)load64(at);
    return value < 0 ? 0 : value > level->limit ? level->limit : value;
}

/* Every thread walks down from the table's rows: one that waited for its parent's would be slower.
 */
KERNEL(split_bounds, cuda_split_bounds_args)
{
    const cuda_split_level *levels = (const cuda_split_level *)args.levels;
    int64_t *bounds = (int64_t *)args.bounds;
    uint64_t index = block_index() * GMV_CUDA_THREADS + thread_index();
    uint64_t level = 1 + index / args.n_points, point = index % args.n_points;
    uint32_t path[GMV_CUDA_DEPTH_MAX], n = 0;
    if (level >= args.n_levels)
        return;
    for (uint32_t up = (uint32_t)level; up > 0 && n < GMV_CUDA_DEPTH_MAX; up = levels[up].parent)
        path[n++] = up;
    int64_t row = bounds[point];
    while (n > 0)
        row = split_step(&levels[path[--n]], row);
    bounds[level * args.n_points + point] = row;
}

typedef struct split_rows {
    uint64_t first, n;
} split_rows;

DEVICE split_rows split_rows_of(const cuda_split_args *args, uint32_t level, uint64_t partition)
{
    const int64_t *bounds = (const int64_t *)args->bounds + level * args->n_points + partition;
    split_rows rows = {(uint64_t)bounds[0], (uint64_t)(bounds[1] - bounds[0])};
    return rows;
}

DEVICE uint64_t split_nbytes(const cuda_split_buffer *buffer, uint64_t n_rows)
{
    if (buffer->kind == GMV_CUDA_SPLIT_BITS)
        return (n_rows + 31) / 32 * 4;
    if (buffer->kind == GMV_CUDA_SPLIT_OFFSETS)
        return n_rows ? (n_rows + 1) * buffer->width : 0;
    return n_rows * buffer->width;
}

/* Bytes with their padding, and warp tiles. */
DEVICE block16 split_room(const cuda_split_args *args, const cuda_split_buffer *buffer,
                          uint64_t partition)
{
    uint64_t nbytes = split_nbytes(buffer, split_rows_of(args, buffer->level, partition).n);
    uint64_t capacity = (nbytes + GMV_CUDA_SPLIT_ALIGNMENT - 1) / GMV_CUDA_SPLIT_ALIGNMENT *
                        GMV_CUDA_SPLIT_ALIGNMENT;
    block16 room = {capacity, (capacity + GMV_CUDA_WARP_TILE - 1) / GMV_CUDA_WARP_TILE};
    return room;
}

/* Buffers for each thread, side by side. */
DEVICE uint64_t split_share(const cuda_split_args *args)
{
    return (args->n_buffers + GMV_CUDA_THREADS - 1) / GMV_CUDA_THREADS;
}

DEVICE uint64_t split_share_end(const cuda_split_args *args, uint64_t begin)
{
    uint64_t end = begin + split_share(args);
    return end < args->n_buffers ? end : args->n_buffers;
}

/* The room of all buffers of a thread. */
DEVICE block16 split_share_room(const cuda_split_args *args, uint64_t partition, uint32_t thread)
{
    const cuda_split_buffer *buffers = (const cuda_split_buffer *)args->buffers;
    uint64_t begin = thread * split_share(args), end = split_share_end(args, begin);
    block16 sum = {0, 0};
    UNROLL_4
    for (uint64_t i = begin; i < end; i++) {
        block16 room = split_room(args, &buffers[i], partition);
        sum.low += room.low;
        sum.high += room.high;
    }
    return sum;
}

/* What a piece copies; where it goes to is told elsewhere. */
DEVICE cuda_piece split_piece(const cuda_split_args *args, const cuda_split_buffer *buffer,
                              uint64_t partition)
{
    uint64_t index = partition - args->first;
    split_rows rows = split_rows_of(args, buffer->level, partition);
    cuda_piece piece = {{0, 0}, 0, 0, 0, 0, 0, 0, 0, 0};
    if (buffer->kind == GMV_CUDA_SPLIT_BITS) {
        uint64_t *counts = (uint64_t *)args->counts;
        piece.bits.address = buffer->address;
        piece.bits.offset = (uint64_t)buffer->first + rows.first;
        piece.n = rows.n;
        piece.counter = (uint64_t)&counts[index * args->n_masks + buffer->below];
        return piece;
    }
    piece.bits.address = buffer->address + rows.first * buffer->width;
    piece.n = 8 * split_nbytes(buffer, rows.n);
    if (buffer->kind == GMV_CUDA_SPLIT_OFFSETS) {
        split_rows below = split_rows_of(args, buffer->below, partition);
        piece.base = (int64_t)below.first;
        piece.end = (int64_t)(below.first + below.n);
        piece.offset_width = buffer->width;
    }
    return piece;
}

/* All blocks of a partition add up the same, and each writes every n_parts-th piece of a thread. */
KERNEL(split_pieces, cuda_split_args)
{
    const cuda_split_buffer *buffers = (const cuda_split_buffer *)args.buffers;
    const uint64_t index = block_index() / args.n_parts, part = block_index() % args.n_parts;
    const cuda_split_place *place = (const cuda_split_place *)args.places + index;
    cuda_piece *pieces = (cuda_piece *)args.pieces + index * args.n_buffers;
    const uint64_t partition = args.first + index;
    block16 before;
    BLOCK_BEFORE(before, thread, split_share_room(&args, partition, thread));
    uint64_t begin = thread_index() * split_share(&args), end = split_share_end(&args, begin);
    for (uint64_t i = begin; i < end; i++) {
        block16 room = split_room(&args, &buffers[i], partition);
        if ((i - begin) % args.n_parts == part) {
            cuda_piece piece = split_piece(&args, &buffers[i], partition);
            piece.destination = place->destination + before.low;
            piece.capacity = room.low;
            piece.first_tile = place->first_tile - args.first_tile + before.high;
            pieces[i] = piece;
        }
        before.low += room.low;
        before.high += room.high;
    }
}

#endif
