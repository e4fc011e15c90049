/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the kernels mean, as plain loops over the arguments that the backend passes. All they touch
 * is asked for first; the grid must cover the work, and the sums must have been left zero.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "fake_cuda/fake_priv.h"
#include "fake_cuda/fake_reductions.h"

#define WARPS (GMV_CUDA_THREADS / 32)

static uint64_t divide_up(uint64_t value, uint64_t unit)
{
    return value / unit + (value % unit != 0);
}

static void wants_blocks(fake_access *access, uint64_t blocks, uint64_t work, uint64_t tile)
{
    if (blocks >= divide_up(work, tile))
        return;
    char what[96];
    (void)snprintf(what, sizeof what, "%llu blocks for %llu tiles", (unsigned long long)blocks,
                   (unsigned long long)divide_up(work, tile));
    fake_access_fail(access, CUDA_ERROR_ILLEGAL_ADDRESS, what);
}

static void wants(fake_access *access, bool condition, const char *otherwise)
{
    if (!condition)
        fake_access_fail(access, CUDA_ERROR_ILLEGAL_ADDRESS, otherwise);
}

/* ---- results --------------------------------------------------------------------------------- */

/* Where a number goes to; NULL if nobody wants it. */
static int64_t *result_begin(fake_access *access, cuda_result result)
{
    if (result.sum == 0)
        return NULL;
    size_t nbytes = sizeof(cuda_sum) * GMV_CUDA_SUMS;
    const uint8_t *sums = fake_access_aligned(access, result.sum, nbytes, 8);
    for (size_t i = 0; sums && i < nbytes; i++)
        wants(access, sums[i] == 0 || access->failed, "a sum was not left zero");
    return (int64_t *)(void *)fake_access_aligned(access, result.output, 8, 8);
}

static void result_end(fake_access *access, int64_t *output, uint64_t value)
{
    if (output && !access->failed)
        __atomic_store_n(output, (int64_t)value, __ATOMIC_SEQ_CST);
}

/* ---- bits ------------------------------------------------------------------------------------ */

/* Bits that have been asked for: n of them, from bit `shift` of `bytes` on; NULL: all ones. */
typedef struct bits {
    const uint8_t *bytes;
    unsigned shift;
    uint64_t n;
} bits;

static bits bits_begin(fake_access *access, cuda_bits arguments, uint64_t n)
{
    bits found = {NULL, (unsigned)(arguments.offset % 8), n};
    if (arguments.address && n)
        found.bytes = fake_access_bytes(access, arguments.address + arguments.offset / 8,
                                        divide_up(found.shift + n, 8));
    return found;
}

/* Bits 8 * index and on; those beyond the end are 0. */
static unsigned bits_byte(const bits *source, uint64_t index)
{
    if (8 * index >= source->n)
        return 0;
    uint64_t left = source->n - 8 * index;
    unsigned inside = left < 8 ? (1u << left) - 1 : 0xff;
    if (!source->bytes)
        return inside;
    unsigned value = (unsigned)source->bytes[index] >> source->shift;
    if (source->shift && source->shift + left > 8)
        value |= (unsigned)source->bytes[index + 1] << (8 - source->shift);
    return value & inside;
}

static bool bits_at(const bits *source, uint64_t index)
{
    uint64_t bit = source->shift + index;
    return !source->bytes || (source->bytes[bit / 8] >> bit % 8 & 1);
}

static uint64_t bits_count(const bits *source)
{
    uint64_t count = 0;
    for (uint64_t i = 0; 8 * i < source->n; i++)
        count += (unsigned)__builtin_popcount(bits_byte(source, i));
    return count;
}

/* Copies to whole bytes and fills up with zeros; gives the number of ones. */
static uint64_t bits_copy(const bits *source, uint8_t *output, uint64_t nbytes)
{
    uint64_t count = 0;
    for (uint64_t i = 0; i < nbytes; i++) {
        unsigned byte = bits_byte(source, i);
        output[i] = (uint8_t)byte;
        count += (unsigned)__builtin_popcount(byte);
    }
    return count;
}

/* ---- elements to bits ------------------------------------------------------------------------ */

typedef bool (*predicate)(const uint8_t *input, uint64_t index);

static bool is_nonzero(const uint8_t *input, uint64_t index)
{
    return input[index] != 0;
}

static bool is_number_f4(const uint8_t *input, uint64_t index)
{
    uint32_t value;
    memcpy(&value, input + 4 * index, sizeof value);
    return (value & 0x7fffffff) <= 0x7f800000;
}

static bool is_number_f8(const uint8_t *input, uint64_t index)
{
    uint64_t value;
    memcpy(&value, input + 8 * index, sizeof value);
    return (value & INT64_MAX) <= UINT64_C(0x7ff0000000000000);
}

static void valid(fake_access *access, const cuda_valid_args *args, uint64_t itemsize,
                  predicate holds)
{
    int64_t *nulls = result_begin(access, args->null_count);
    const uint8_t *input = fake_access_aligned(access, args->input, args->n * itemsize, itemsize);
    bits validity = bits_begin(access, args->validity, args->n);
    uint8_t *output = fake_access_aligned(access, args->output, args->output_nbytes, 64);
    uint64_t count = 0;
    wants(access, args->output_nbytes >= divide_up(args->n, 8), "the output is too short");
    if (!input || !output || access->failed)
        return;
    memset(output, 0, args->output_nbytes);
    for (uint64_t i = 0; i < args->n; i++) {
        bool is_valid = holds(input, i) && bits_at(&validity, i);
        output[i / 8] |= (uint8_t)(is_valid << i % 8);
        count += !is_valid;
    }
    result_end(access, nulls, count);
}

static void run_valid_bytes(fake_access *access, const void *args, uint64_t blocks)
{
    const cuda_valid_args *valid_args = args;
    wants_blocks(access, blocks, 8 * valid_args->output_nbytes, GMV_CUDA_BYTES_TILE);
    valid(access, valid_args, 1, is_nonzero);
}

static void run_valid_f4(fake_access *access, const void *args, uint64_t blocks)
{
    const cuda_valid_args *valid_args = args;
    wants_blocks(access, blocks, 8 * valid_args->output_nbytes, GMV_CUDA_F4_TILE);
    valid(access, valid_args, 4, is_number_f4);
}

static void run_valid_f8(fake_access *access, const void *args, uint64_t blocks)
{
    const cuda_valid_args *valid_args = args;
    wants_blocks(access, blocks, 8 * valid_args->output_nbytes, GMV_CUDA_F8_TILE);
    valid(access, valid_args, 8, is_number_f8);
}

/* ---- bits to bytes and bits ------------------------------------------------------------------ */

static void run_bits_to_bools(fake_access *access, const void *arguments, uint64_t blocks)
{
    const cuda_bools_args *args = arguments;
    bits source = bits_begin(access, args->bits, args->n);
    uint8_t *output = fake_access_bytes(access, args->output, args->n);
    wants_blocks(access, blocks, args->output % 16 + args->n, GMV_CUDA_BOOLS_TILE);
    if (access->failed)
        return;
    for (uint64_t i = 0; i < args->n; i++)
        output[i] = bits_at(&source, i);
}

static void run_combine_bits(fake_access *access, const void *arguments, uint64_t blocks)
{
    const cuda_combine_args *args = arguments;
    bits inputs[GMV_CUDA_INPUTS_MAX];
    int64_t *set_count = result_begin(access, args->set_count);
    uint8_t *output = fake_access_aligned(access, args->output, args->output_nbytes, 16);
    uint64_t count = 0;
    wants(access, args->n_inputs > 0 && args->n_inputs <= GMV_CUDA_INPUTS_MAX,
          "a number of inputs that cannot be");
    wants(access, args->output_nbytes >= divide_up(args->n, 8), "the output is too short");
    wants_blocks(access, blocks, args->output_nbytes, GMV_CUDA_TILE);
    for (uint32_t i = 0; i < args->n_inputs && !access->failed; i++)
        inputs[i] = bits_begin(access, args->inputs[i], args->n);
    if (access->failed)
        return;
    for (uint64_t at = 0; at < args->output_nbytes; at++) {
        unsigned byte = bits_byte(&inputs[0], at);
        for (uint32_t i = 1; i < args->n_inputs; i++)
            byte =
                args->is_or ? byte | bits_byte(&inputs[i], at) : byte & bits_byte(&inputs[i], at);
        output[at] = (uint8_t)byte;
        count += (unsigned)__builtin_popcount(byte);
    }
    result_end(access, set_count, count);
}

static void run_set_edges(fake_access *access, const void *arguments, uint64_t blocks)
{
    const cuda_edges_args *args = arguments;
    (void)blocks;
    wants(access, args->addresses[0] == 0 || args->addresses[0] != args->addresses[1],
          "two threads write one byte");
    for (int i = 0; i < 2; i++) {
        uint8_t *byte =
            args->addresses[i] ? fake_access_bytes(access, args->addresses[i], 1) : NULL;
        if (byte)
            *byte = (uint8_t)(args->valid ? *byte | args->masks[i] : *byte & ~args->masks[i]);
    }
}

/* ---- bits to numbers ------------------------------------------------------------------------- */

static void run_count_bits(fake_access *access, const void *arguments, uint64_t blocks)
{
    const cuda_scan_args *args = arguments;
    int64_t *result = result_begin(access, args->result);
    bits source = bits_begin(access, args->bits, args->n);
    uint64_t before = (args->bits.address + args->bits.offset / 8) % 16 * 8 + args->bits.offset % 8;
    wants_blocks(access, blocks, before + args->n, 8 * GMV_CUDA_SCAN_TILE);
    if (!access->failed)
        result_end(access, result, bits_count(&source));
}

static void run_find_bit(fake_access *access, const void *arguments, uint64_t blocks)
{
    const cuda_scan_args *args = arguments;
    int64_t *result = result_begin(access, args->result);
    bits source = bits_begin(access, args->bits, args->n);
    uint64_t at = 0;
    wants(access, result != NULL, "nobody wants to know what is found");
    wants_blocks(access, blocks, args->n, 8 * GMV_CUDA_SCAN_TILE);
    if (access->failed)
        return;
    while (8 * at < args->n && bits_byte(&source, at) == 0)
        at++;
    uint64_t index = args->n;
    if (8 * at < args->n)
        index = 8 * at + (unsigned)__builtin_ctz(bits_byte(&source, at));
    result_end(access, result, index);
}

/* ---- many runs of bits ----------------------------------------------------------------------- */

static const cuda_piece *pieces_begin(fake_access *access, const cuda_pieces_args *args,
                                      uint64_t blocks)
{
    wants_blocks(access, blocks, args->n_tiles, WARPS);
    wants(access, args->n_pieces > 0 && args->n_tiles > 0, "an empty table");
    const void *pieces =
        fake_access_aligned(access, args->pieces, args->n_pieces * sizeof(cuda_piece), 8);
    return access->failed ? NULL : pieces;
}

/* Whether the piece has as many tiles as its bytes need. */
static void piece_check(fake_access *access, const cuda_pieces_args *args, const cuda_piece *pieces,
                        uint64_t i, uint64_t nbytes, uint64_t tile)
{
    uint64_t end = i + 1 < args->n_pieces ? pieces[i + 1].first_tile : args->n_tiles;
    uint64_t needs = divide_up(nbytes, tile);
    wants(access, i > 0 || pieces[i].first_tile == 0, "the first piece does not begin at tile 0");
    wants(access, pieces[i].first_tile <= end && end - pieces[i].first_tile >= needs,
          "a piece has too few tiles");
}

static void piece_count(fake_access *access, const cuda_piece *piece, uint64_t ones)
{
    uint64_t *counter = piece->counter
                            ? (uint64_t *)(void *)fake_access_aligned(access, piece->counter, 8, 8)
                            : NULL;
    if (counter)
        (void)__atomic_add_fetch(counter, ones, __ATOMIC_SEQ_CST);
}

static int64_t cut(int64_t value, int64_t low, int64_t high)
{
    return value < low ? low : value > high ? high : value;
}

static int64_t integer_at(const uint8_t *bytes, uint64_t width)
{
    int64_t value = 0;
    int32_t narrow;
    if (width == 8)
        memcpy(&value, bytes, sizeof value);
    else
        memcpy(&narrow, bytes, sizeof narrow);
    return width == 8 ? value : narrow;
}

/* Offsets that have been copied: in their place. */
static void offsets_rebase(fake_access *access, const cuda_piece *piece, uint8_t *output)
{
    const uint64_t width = piece->offset_width;
    wants(access, width == 4 || width == 8, "offsets of a width that cannot be");
    wants(access, piece->base >= 0 && piece->base <= piece->end, "offsets that end too soon");
    wants(access, piece->n % (8 * width) == 0, "a part of an offset");
    for (uint64_t i = 0; i < piece->n / 8 && !access->failed; i += width) {
        int64_t value = cut(integer_at(output + i, width), piece->base, piece->end) - piece->base;
        memcpy(output + i, &value, width);
    }
}

static bool piece_owns(const cuda_piece *pieces, uint64_t n_pieces, uint64_t i, uint64_t tile)
{
    return i < n_pieces && pieces[i].first_tile <= tile &&
           (i + 1 == n_pieces || pieces[i + 1].first_tile > tile);
}

static void owners_check(fake_access *access, const cuda_pieces_args *args,
                         const cuda_piece *pieces)
{
    const uint32_t *owners =
        (void *)fake_access_aligned(access, args->owners, args->n_tiles * 4, 4);
    for (uint64_t tile = 0; tile < args->n_tiles && !access->failed; tile++)
        wants(access, piece_owns(pieces, args->n_pieces, owners[tile], tile),
              "a tile is of another piece");
}

static void run_find_owners(fake_access *access, const void *arguments, uint64_t blocks)
{
    const cuda_owners_args *args = arguments;
    const uint64_t n_owners =
        divide_up(args->n_tiles, GMV_CUDA_OWNERS_PIECES) * GMV_CUDA_OWNERS_PIECES;
    wants_blocks(access, blocks, args->n_tiles, GMV_CUDA_OWNERS_TILE);
    const cuda_piece *pieces =
        (const void *)fake_access_aligned(access, args->pieces, args->n_pieces * sizeof *pieces, 8);
    uint32_t *owners = (void *)fake_access_aligned(access, args->owners, n_owners * 4, 16);
    for (uint64_t tile = 0, i = 0; tile < n_owners && !access->failed; tile++) {
        while (i + 1 < args->n_pieces && pieces[i + 1].first_tile <= tile)
            i++;
        owners[tile] = (uint32_t)i;
    }
}

static void run_copy_pieces(fake_access *access, const void *arguments, uint64_t blocks)
{
    const cuda_pieces_args *args = arguments;
    const cuda_piece *pieces = pieces_begin(access, args, blocks);
    if (pieces && args->owners)
        owners_check(access, args, pieces);
    for (uint64_t i = 0; pieces && i < args->n_pieces && !access->failed; i++) {
        const cuda_piece *piece = &pieces[i];
        piece_check(access, args, pieces, i, piece->capacity, GMV_CUDA_WARP_TILE);
        wants(access, piece->capacity >= divide_up(piece->n, 8), "a piece is too short");
        bits source = bits_begin(access, piece->bits, piece->n);
        uint8_t *output = fake_access_aligned(access, piece->destination, piece->capacity, 16);
        if (access->failed)
            return;
        piece_count(access, piece, bits_copy(&source, output, piece->capacity));
        if (piece->offset_width)
            offsets_rebase(access, piece, output);
    }
}

static void run_count_ranges(fake_access *access, const void *arguments, uint64_t blocks)
{
    const cuda_pieces_args *args = arguments;
    const cuda_piece *pieces = pieces_begin(access, args, blocks);
    for (uint64_t i = 0; pieces && i < args->n_pieces && !access->failed; i++) {
        const cuda_piece *piece = &pieces[i];
        piece_check(access, args, pieces, i, divide_up(piece->n, 8), GMV_CUDA_SCAN_WARP_TILE);
        wants(access, piece->bits.address != 0 || piece->n == 0, "a range of no memory");
        bits source = bits_begin(access, piece->bits, piece->n);
        if (!access->failed)
            piece_count(access, piece, bits_count(&source));
    }
}

/* ---- integers that say where things are -------------------------------------------------------
 */

static int64_t index_at(const uint8_t *integers, uint32_t itemsize, uint64_t index)
{
    uint64_t value = 0;
    memcpy(&value, integers + index * itemsize, itemsize);
    const unsigned unused = 64 - 8 * itemsize;
    return (int64_t)(value << unused) >> unused; /* with its sign */
}

static void run_check_indices(fake_access *access, const void *arguments, uint64_t blocks)
{
    const cuda_indices_args *args = arguments;
    int64_t *result = result_begin(access, args->result);
    const uint8_t *integers =
        fake_access_aligned(access, args->address, args->n * args->itemsize, args->itemsize);
    bits validity = bits_begin(access, args->validity, args->n);
    uint64_t at = 0;
    wants(access, result != NULL, "nobody wants to know what is found");
    wants_blocks(access, blocks, args->n, GMV_CUDA_INDICES_TILE);
    for (; at < args->n && !access->failed; at++) {
        const int64_t value = index_at(integers, args->itemsize, at);
        const bool falls =
            args->in_order && at > 0 && value < index_at(integers, args->itemsize, at - 1);
        if ((value < 0 || value > args->limit || falls) &&
            (args->in_order || bits_at(&validity, at)))
            break;
    }
    result_end(access, result, at);
}

static void run_sequence(fake_access *access, const void *arguments, uint64_t blocks)
{
    const cuda_sequence_args *args = arguments;
    uint8_t *output = fake_access_aligned(access, args->output, 4 * args->n, 4);
    wants_blocks(access, blocks, args->n, GMV_CUDA_SEQUENCE_TILE);
    for (uint64_t i = 0; i < args->n && !access->failed; i++) {
        const uint32_t value = (uint32_t)i * args->step;
        memcpy(output + 4 * i, &value, sizeof value);
    }
}

/* ---- packed tables --------------------------------------------------------------------------- */

static void run_split_bounds(fake_access *access, const void *arguments, uint64_t blocks)
{
    const cuda_split_bounds_args *args = arguments;
    const cuda_split_level *levels =
        (const void *)fake_access_aligned(access, args->levels, args->n_levels * sizeof *levels, 8);
    int64_t *bounds =
        (void *)fake_access_aligned(access, args->bounds, args->n_levels * args->n_points * 8, 8);
    wants_blocks(access, blocks, (args->n_levels - 1) * args->n_points, GMV_CUDA_THREADS);
    for (uint64_t l = 1; l < args->n_levels && !access->failed; l++) {
        const cuda_split_level *level = &levels[l];
        wants(access, level->parent < l, "a level above its parent");
        for (uint64_t k = 0; k < args->n_points && !access->failed; k++) {
            const int64_t row = bounds[level->parent * args->n_points + k];
            const uint64_t at = level->offsets + (uint64_t)row * level->offset_width;
            const uint8_t *offset =
                level->offsets
                    ? fake_access_aligned(access, at, level->offset_width, level->offset_width)
                    : NULL;
            bounds[l * args->n_points + k] =
                offset ? cut(integer_at(offset, level->offset_width), 0, level->limit) : 0;
        }
    }
}

static uint64_t split_nbytes(const cuda_split_buffer *buffer, uint64_t rows)
{
    switch (buffer->kind) {
    case GMV_CUDA_SPLIT_BITS:
        return divide_up(rows, 32) * 4;
    case GMV_CUDA_SPLIT_OFFSETS:
        return rows ? (rows + 1) * buffer->width : 0;
    default:
        return rows * buffer->width;
    }
}

/* What a partition takes of a level. */
static const int64_t *split_bounds_of(const cuda_split_args *args, const int64_t *bounds,
                                      uint32_t level, uint64_t block)
{
    return bounds + level * args->n_points + args->first + block;
}

static cuda_piece split_piece(const cuda_split_args *args, const int64_t *bounds,
                              const cuda_split_buffer *buffer, uint64_t block)
{
    const int64_t *rows = split_bounds_of(args, bounds, buffer->level, block);
    const uint64_t n = (uint64_t)(rows[1] - rows[0]);
    switch (buffer->kind) {
    case GMV_CUDA_SPLIT_BITS:
        return (cuda_piece){
            .bits = {buffer->address, (uint64_t)(buffer->first + rows[0])},
            .n = n,
            .counter = args->counts + 8 * (block * args->n_masks + buffer->below),
        };
    case GMV_CUDA_SPLIT_OFFSETS:
        return (cuda_piece){
            .bits = {buffer->address + (uint64_t)rows[0] * buffer->width, 0},
            .n = 8 * split_nbytes(buffer, n),
            .base = split_bounds_of(args, bounds, buffer->below, block)[0],
            .end = split_bounds_of(args, bounds, buffer->below, block)[1],
            .offset_width = buffer->width,
        };
    default:
        return (cuda_piece){
            .bits = {buffer->address + (uint64_t)rows[0] * buffer->width, 0},
            .n = 8 * split_nbytes(buffer, n),
        };
    }
}

static void run_split_pieces(fake_access *access, const void *arguments, uint64_t all_blocks)
{
    const cuda_split_args *args = arguments;
    wants(access, args->n_parts > 0 && all_blocks % args->n_parts == 0, "parts of a partition");
    const uint64_t blocks = access->failed ? 0 : all_blocks / args->n_parts;
    const cuda_split_buffer *buffers = (const void *)fake_access_aligned(
        access, args->buffers, args->n_buffers * sizeof *buffers, 8);
    const int64_t *bounds =
        (const void *)fake_access_bytes(access, args->bounds, args->n_points * 8);
    const cuda_split_place *places =
        (const void *)fake_access_aligned(access, args->places, blocks * sizeof *places, 8);
    cuda_piece *pieces = (void *)fake_access_aligned(access, args->pieces,
                                                     blocks * args->n_buffers * sizeof *pieces, 8);
    for (uint64_t block = 0; block < blocks && !access->failed; block++) {
        uint64_t destination = places[block].destination;
        uint64_t tile = places[block].first_tile - args->first_tile;
        for (uint64_t i = 0; i < args->n_buffers; i++) {
            cuda_piece piece = split_piece(args, bounds, &buffers[i], block);
            const int64_t *rows = split_bounds_of(args, bounds, buffers[i].level, block);
            const uint64_t nbytes = split_nbytes(&buffers[i], (uint64_t)(rows[1] - rows[0]));
            piece.destination = destination;
            piece.capacity = divide_up(nbytes, GMV_CUDA_SPLIT_ALIGNMENT) * GMV_CUDA_SPLIT_ALIGNMENT;
            piece.first_tile = tile;
            destination += piece.capacity;
            tile += divide_up(piece.capacity, GMV_CUDA_WARP_TILE);
            pieces[block * args->n_buffers + i] = piece;
        }
    }
}

/* ---- strided elements ------------------------------------------------------------------------ */

static uint64_t gather_address(const cuda_gather_args *args, uint64_t index)
{
    uint64_t address = args->address;
    for (uint32_t i = args->ndim; i > 0; i--) {
        uint64_t extent = args->shape[i - 1], outer = i > 1 ? index / extent : 0;
        address += (index - outer * extent) * (uint64_t)args->strides[i - 1];
        index = outer;
    }
    return address;
}

static void gather(fake_access *access, const cuda_gather_args *args, uint64_t blocks,
                   uint64_t itemsize)
{
    uint8_t *output = fake_access_aligned(access, args->output, args->count * itemsize, itemsize);
    wants(access, args->ndim >= 1 && args->ndim <= GMV_CUDA_NDIM_MAX, "dimensions that cannot be");
    wants(access, !args->narrow || args->first + args->count <= UINT64_C(1) << 32,
          "an index does not fit");
    wants_blocks(access, blocks, args->count, GMV_CUDA_THREADS * GMV_CUDA_PIECES);
    for (uint64_t i = 0; i < args->count && !access->failed; i++) {
        const uint8_t *element =
            fake_access_aligned(access, gather_address(args, args->first + i), itemsize, itemsize);
        if (element)
            memcpy(output + i * itemsize, element, itemsize);
    }
}

#define DEFINE_GATHER(nbytes)                                                               \
    static void run_gather_##nbytes(fake_access *access, const void *args, uint64_t blocks) \
    {                                                                                       \
        gather(access, args, blocks, nbytes);                                               \
    }

DEFINE_GATHER(1)
DEFINE_GATHER(2)
DEFINE_GATHER(4)
DEFINE_GATHER(8)
DEFINE_GATHER(16)

/* One matrix, element by element. */
static void transpose_one(fake_access *access, const cuda_transpose_args *args, uint64_t source,
                          uint64_t output, uint64_t itemsize)
{
    uint64_t unit = args->wide ? 16 : itemsize;
    wants(access, (source | output | (uint64_t)args->source_pitch | args->output_pitch) % unit == 0,
          "a matrix that is not aligned as it is said to be");
    for (uint64_t column = 0; column < args->columns && !access->failed; column++) {
        uint8_t *to = fake_access_aligned(access, output + column * args->output_pitch,
                                          args->rows * itemsize, itemsize);
        for (uint64_t row = 0; row < args->rows && to; row++) {
            const uint8_t *from = fake_access_aligned(
                access, source + row * (uint64_t)args->source_pitch + column * itemsize, itemsize,
                itemsize);
            if (from)
                memcpy(to + row * itemsize, from, itemsize);
        }
    }
}

static void transpose(fake_access *access, const cuda_transpose_args *args, uint64_t blocks,
                      uint64_t itemsize)
{
    uint64_t side = GMV_CUDA_TRANSPOSE_TILE / itemsize, matrices = 1;
    wants(access, args->ndim <= GMV_CUDA_NDIM_MAX, "dimensions that cannot be");
    for (uint32_t i = 0; i < args->ndim && !access->failed; i++)
        matrices *= args->shape[i];
    wants(access,
          args->tiles_of_rows == divide_up(args->rows, side) &&
              args->tiles_of_columns == divide_up(args->columns, side),
          "tiles that are not those of the matrices");
    wants_blocks(access, blocks, matrices * args->tiles_of_rows * args->tiles_of_columns, 1);
    for (uint64_t matrix = 0; matrix < matrices && !access->failed; matrix++) {
        uint64_t source = args->address, output = args->output, index = matrix;
        for (uint32_t i = args->ndim; i > 0; index /= args->shape[--i]) {
            source += index % args->shape[i - 1] * (uint64_t)args->strides[i - 1];
            output += index % args->shape[i - 1] * args->output_strides[i - 1];
        }
        transpose_one(access, args, source, output, itemsize);
    }
}

#define DEFINE_TRANSPOSE(nbytes)                                                               \
    static void run_transpose_##nbytes(fake_access *access, const void *args, uint64_t blocks) \
    {                                                                                          \
        transpose(access, args, blocks, nbytes);                                               \
    }

DEFINE_TRANSPOSE(1)
DEFINE_TRANSPOSE(2)
DEFINE_TRANSPOSE(4)
DEFINE_TRANSPOSE(8)

/* ---- the table ------------------------------------------------------------------------------- */

static const fake_kernel kernels[] = {
#define KERNEL(name, type) {"gmv_" #name, sizeof(type), run_##name},
    GMV_CUDA_KERNEL_MAP(KERNEL)
#undef KERNEL
};

#define CHECK_ARGS(name, type) _Static_assert(sizeof(type) <= FAKE_ARGS_MAX, "arguments fit");
GMV_CUDA_KERNEL_MAP(CHECK_ARGS)

const fake_kernel *fake_kernel_find(const char *name)
{
    for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++)
        if (strcmp(kernels[i].name, name) == 0)
            return &kernels[i];
    return NULL;
}
