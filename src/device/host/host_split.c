/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packed tables on the host backend: the copy of their buffers, and where partitions begin in
 * nested rows. Offsets may change at any moment: each is read once where it is used, and cut to
 * what there is.
 */
#include "device/host/host.h"

static uint8_t *pointer_of(uint64_t address)
{
    return (uint8_t *)(uintptr_t)address;
}

static int64_t cut(int64_t value, int64_t low, int64_t high)
{
    return value < low ? low : value > high ? high : value;
}

/* Read once: what is cut must be what was read. */
GMV_CLIENT_MEMORY static int64_t load_offset(const uint8_t *address, uint32_t width)
{
    if (width == 4)
        return (int32_t)((const volatile client_u32 *)(const void *)address)->value;
    return (int64_t)((const volatile client_u64 *)(const void *)address)->value;
}

/* ---- pieces ---- */

GMV_CLIENT_MEMORY static void rebase_4(uint8_t *output, const uint8_t *source, uint64_t n,
                                       int32_t base, int32_t end)
{
    for (uint64_t i = 0; i < n; i++) {
        int32_t value = (int32_t)((const client_u32 *)(const void *)(source + 4 * i))->value;
        value = value < base ? base : value;
        value = value > end ? end : value;
        ((client_u32 *)(void *)(output + 4 * i))->value = (uint32_t)(value - base);
    }
}

GMV_CLIENT_MEMORY static void rebase_8(uint8_t *output, const uint8_t *source, uint64_t n,
                                       int64_t base, int64_t end)
{
    for (uint64_t i = 0; i < n; i++) {
        int64_t value = (int64_t)client_load64(source + 8 * i);
        value = value < base ? base : value;
        value = value > end ? end : value;
        client_store64(output + 8 * i, (uint64_t)(value - base));
    }
}

static void copy_bytes(const gmv_copy_piece *piece)
{
    uint8_t *output = pointer_of(piece->destination);
    const uint8_t *source = pointer_of(piece->source);
    if (piece->offset_width == 4)
        rebase_4(output, source, piece->nbytes / 4, (int32_t)piece->base, (int32_t)piece->end);
    else if (piece->offset_width == 8)
        rebase_8(output, source, piece->nbytes / 8, piece->base, piece->end);
    else if (piece->nbytes)
        client_copy(output, source, piece->nbytes);
    if (piece->capacity > piece->nbytes)
        client_fill(output + piece->nbytes, 0, piece->capacity - piece->nbytes);
}

static gmv_status copy_piece(gmv_stream *stream, const gmv_copy_piece *piece, gmv_error *err)
{
    if (piece->is_bits)
        return gmv__host_copy_bits(stream,
                                   &(gmv_copy_bits){.bits = piece->bits,
                                                    .n = piece->n,
                                                    .output = piece->destination,
                                                    .output_nbytes = piece->capacity,
                                                    .out_set_count = piece->out_set_count},
                                   err);
    copy_bytes(piece);
    return GMV_OK;
}

gmv_status gmv__host_copy_pieces(gmv_stream *stream, const gmv_copy_piece *pieces, size_t n,
                                 gmv_error *err)
{
    for (size_t i = 0; i < n; i++)
        GMV_TRY(copy_piece(stream, &pieces[i], err));
    return GMV_OK;
}

/* ---- bounds ---- */

gmv_status gmv__host_split_bounds(gmv_stream *stream, const gmv_split_bounds *args, gmv_error *err)
{
    (void)stream;
    for (size_t l = 1; l < args->n_levels; l++) {
        const gmv_split_level *level = &args->levels[l];
        const int64_t *parents = args->bounds + level->parent * args->n_points;
        int64_t *bounds = args->bounds + l * args->n_points;
        for (size_t k = 0; k < args->n_points; k++) {
            const uint64_t at = (uint64_t)parents[k] * level->offset_width;
            bounds[k] = level->offsets
                            ? cut(load_offset(pointer_of(level->offsets + at), level->offset_width),
                                  0, level->limit)
                            : 0;
        }
    }
    return GMV_OK;
}

/* ---- partitions ---- */

static gmv_copy_piece split_piece(const gmv_split *args, const gmv_split_buffer *buffer,
                                  size_t partition, int64_t *out_set_count)
{
    const int64_t *bounds = args->bounds + buffer->level * args->n_points + partition;
    const int64_t rows = bounds[1] - bounds[0];
    gmv_copy_piece piece = {.nbytes = gmv_split_nbytes(buffer->kind, buffer->width, rows)};
    piece.capacity = gmv_round_up(piece.nbytes, GMV_SPLIT_ALIGNMENT);
    if (buffer->kind == GMV_SPLIT_BITS) {
        piece.is_bits = true;
        piece.bits = (gmv_bits){buffer->address, buffer->first + bounds[0]};
        piece.n = rows;
        piece.out_set_count = out_set_count;
        return piece;
    }
    piece.source = buffer->address + (uint64_t)bounds[0] * buffer->width;
    if (buffer->kind == GMV_SPLIT_OFFSETS) {
        const int64_t *below = args->bounds + buffer->below * args->n_points + partition;
        piece.offset_width = buffer->width;
        piece.base = below[0];
        piece.end = below[1];
    }
    return piece;
}

static gmv_status split_partition(gmv_stream *stream, const gmv_split *args, size_t partition,
                                  gmv_error *err)
{
    uint64_t destination = args->destinations[partition];
    uint64_t *counts = (void *)pointer_of(args->set_counts); /* NULL where there are no masks */
    for (size_t i = 0; i < args->n_buffers; i++) {
        const gmv_split_buffer *buffer = &args->buffers[i];
        int64_t set_count = 0;
        gmv_copy_piece piece = split_piece(args, buffer, partition, &set_count);
        piece.destination = destination;
        destination += piece.capacity;
        GMV_TRY(copy_piece(stream, &piece, err));
        if (piece.is_bits)
            counts[partition * args->n_masks + buffer->below] = (uint64_t)set_count;
    }
    return GMV_OK;
}

gmv_status gmv__host_split(gmv_stream *stream, const gmv_split *args, gmv_error *err)
{
    for (size_t p = args->first; p < args->first + args->n; p++)
        if (args->destinations[p])
            GMV_TRY(split_partition(stream, args, p, err));
    return GMV_OK;
}
