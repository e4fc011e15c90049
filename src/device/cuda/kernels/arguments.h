/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the host passes to the kernels: each takes one of these structs by value as its only
 * parameter. Plain C and C++, included by both sides; no CUDA type in it.
 *
 * Every kernel is launched with GMV_CUDA_THREADS threads in a block and a one-dimensional grid of
 * as many blocks as its "tile" says. Outputs are whole: padding is written as zero.
 */
#ifndef GMV_DEVICE_CUDA_KERNELS_ARGUMENTS_H
#define GMV_DEVICE_CUDA_KERNELS_ARGUMENTS_H

#include <stdint.h>

#include <gmv/device/partials.h>

#define GMV_CUDA_THREADS 256
#define GMV_CUDA_PIECES  4 /* independent pieces of 16 bytes for each thread */

/* Bytes of bits that a block works on (16 KiB), and a warp's share of them (2 KiB). */
#define GMV_CUDA_TILE      (GMV_CUDA_THREADS * GMV_CUDA_PIECES * 16)
#define GMV_CUDA_WARP_TILE (GMV_CUDA_TILE / (GMV_CUDA_THREADS / 32))

/* Elements of a block of gmv_valid_bytes: 4 times 32 for each thread. */
#define GMV_CUDA_BYTES_TILE (GMV_CUDA_THREADS * GMV_CUDA_PIECES * 32)

/* Elements for each thread of gmv_valid_f4 and gmv_valid_f8, 128 bytes of them. */
#define GMV_CUDA_F4_PIECES 32
#define GMV_CUDA_F8_PIECES 16
#define GMV_CUDA_F4_TILE   (GMV_CUDA_THREADS * GMV_CUDA_F4_PIECES)
#define GMV_CUDA_F8_TILE   (GMV_CUDA_THREADS * GMV_CUDA_F8_PIECES)

/* Bytes of a block of gmv_bits_to_bools: 16 for each thread. */
#define GMV_CUDA_BOOLS_TILE (GMV_CUDA_THREADS * 16)

/* Pieces of 16 bytes for each thread, and bytes of a block, where bits are only read. */
#define GMV_CUDA_SCAN_PIECES    8
#define GMV_CUDA_SCAN_TILE      (GMV_CUDA_THREADS * GMV_CUDA_SCAN_PIECES * 16)
#define GMV_CUDA_SCAN_WARP_TILE (GMV_CUDA_SCAN_TILE / (GMV_CUDA_THREADS / 32))

/* Integers of a block of gmv_check_indices, and of one of gmv_sequence. */
#define GMV_CUDA_INDICES_PIECES 8
#define GMV_CUDA_INDICES_TILE   (GMV_CUDA_THREADS * GMV_CUDA_INDICES_PIECES)
#define GMV_CUDA_SEQUENCE_TILE  (GMV_CUDA_THREADS * GMV_CUDA_PIECES)

#define GMV_CUDA_INPUTS_MAX     16
#define GMV_CUDA_TRANSPOSE_TILE 256 /* bytes: 16 threads with 16 each */
#define GMV_CUDA_NDIM_MAX       65  /* a model layout's, and one for the parts of an element */

/*
 * Where a number for the host comes together. Zero before and after every launch; of a result's
 * array of them the first is the root, the others are leaves (sums.cuh).
 */
typedef struct cuda_sum {
    uint64_t joined;    /* tickets and a sum */
    uint64_t largest;   /* of the root */
    uint64_t unused[2]; /* each in a sector of its own */
} cuda_sum;

/* A launch with a result has fewer blocks: a leaf counts up to 2^20 of them. */
#define GMV_CUDA_SUM_BLOCKS_MAX ((uint64_t)1 << 25)

#define GMV_CUDA_LEAVES 32
#define GMV_CUDA_SUMS   (1 + GMV_CUDA_LEAVES)

/* Device addresses; sum 0: nobody wants the number. */
typedef struct cuda_result {
    uint64_t sum;    /* cuda_sum[GMV_CUDA_SUMS] */
    uint64_t output; /* an int64_t of mapped host memory */
} cuda_result;

/* n bits from bit `offset` of `address` on (n is told elsewhere); address 0: all ones. */
typedef struct cuda_bits {
    uint64_t address;
    uint64_t offset;
} cuda_bits;

/*
 * gmv_valid_bytes, gmv_valid_f4 and gmv_valid_f8. The result is the number of zeros among the n
 * bits. Tiles of GMV_CUDA_BYTES_TILE, GMV_CUDA_F4_TILE and GMV_CUDA_F8_TILE elements over all 8 *
 * output_nbytes of them.
 */
typedef struct cuda_valid_args {
    uint64_t input;
    cuda_bits validity;
    uint64_t n;
    uint64_t output;
    uint64_t output_nbytes;
    cuda_result null_count;
} cuda_valid_args;

/* gmv_bits_to_bools. Tiles of GMV_CUDA_BOOLS_TILE bytes over [output rounded down to 16, output +
 * n). */
typedef struct cuda_bools_args {
    cuda_bits bits;
    uint64_t n;
    uint64_t output;
} cuda_bools_args;

/*
 * gmv_combine_bits; one input: a copy. Tiles of GMV_CUDA_TILE bytes over output_nbytes. The output
 * may itself be an input with offset 0. The result is the number of ones.
 */
typedef struct cuda_combine_args {
    cuda_bits inputs[GMV_CUDA_INPUTS_MAX];
    uint32_t n_inputs;
    uint32_t is_or;
    uint64_t n;
    uint64_t output;
    uint64_t output_nbytes;
    cuda_result set_count;
} cuda_combine_args;

/* gmv_set_edges: one block. Sets or clears the bits of each mask in its byte; address 0: none. */
typedef struct cuda_edges_args {
    uint64_t addresses[2];
    uint8_t masks[2];
    uint8_t valid;
} cuda_edges_args;

/*
 * gmv_count_bits: tiles of GMV_CUDA_SCAN_TILE bytes over the aligned blocks of 16 bytes that hold
 * the bits; the result is the number of ones. gmv_find_bit: tiles of as many bytes over the n bits
 * themselves; the result is the index of the first one, n if there is none.
 */
typedef struct cuda_scan_args {
    cuda_bits bits;
    uint64_t n;
    cuda_result result;
} cuda_scan_args;

/*
 * A run of bits, in a table sorted by first_tile. It has as many warp tiles as it needs: of
 * GMV_CUDA_WARP_TILE bytes of its output (pieces), or of GMV_CUDA_SCAN_WARP_TILE bytes of the
 * aligned blocks that hold its bits (ranges); one without any begins where the next one does.
 */
typedef struct cuda_piece {
    cuda_bits bits;
    uint64_t n;
    uint64_t destination; /* pieces only */
    uint64_t capacity;    /* pieces only: bytes to write */
    uint64_t first_tile;
    uint64_t counter; /* address of a uint64_t, zero before, to which the ones are added; 0: none */
    int64_t base, end;     /* of offsets, pieces only: each is cut to base..end and less base */
    uint64_t offset_width; /* 4 or 8: signed integers of so many bytes; 0: bits as they are */
} cuda_piece;

/* gmv_copy_pieces and gmv_count_ranges: a warp to each of n_tiles warp tiles. */
typedef struct cuda_pieces_args {
    uint64_t pieces; /* cuda_piece[n_pieces] */
    uint64_t n_pieces;
    uint64_t n_tiles;
    uint64_t owners; /* pieces only: what gmv_find_owners has left; 0: the piece is searched for */
} cuda_pieces_args;

/* gmv_find_owners: which piece each tile is of. A thread to each GMV_CUDA_OWNERS_PIECES tiles. */
#define GMV_CUDA_OWNERS_PIECES 4
#define GMV_CUDA_OWNERS_TILE   (GMV_CUDA_THREADS * GMV_CUDA_OWNERS_PIECES)

typedef struct cuda_owners_args {
    uint64_t pieces; /* cuda_piece[n_pieces], fewer than 2^32 */
    uint64_t n_pieces;
    uint64_t n_tiles;
    uint64_t owners; /* uint32_t[n_tiles rounded up to GMV_CUDA_OWNERS_PIECES], aligned to 16 */
} cuda_owners_args;

/* Levels of rows and buffers of partitions, as in gmv/device/split.h. */
typedef struct cuda_split_level {
    uint64_t offsets;
    int64_t limit;
    uint32_t parent;
    uint32_t offset_width;
} cuda_split_level;

#define GMV_CUDA_SPLIT_BYTES   0
#define GMV_CUDA_SPLIT_BITS    1
#define GMV_CUDA_SPLIT_OFFSETS 2

typedef struct cuda_split_buffer {
    uint64_t address;
    int64_t first;
    uint32_t kind;
    uint32_t level;
    uint32_t width;
    uint32_t below;
} cuda_split_buffer;

/* gmv_split_bounds: a thread to each bound of the levels after the first one. */
typedef struct cuda_split_bounds_args {
    uint64_t levels; /* cuda_split_level[n_levels] */
    uint64_t bounds; /* int64_t[n_levels][n_points] */
    uint64_t n_levels;
    uint64_t n_points;
} cuda_split_bounds_args;

#define GMV_CUDA_DEPTH_MAX 64 /* levels above a level */

/* Where a partition lies, and its first tile. */
typedef struct cuda_split_place {
    uint64_t destination;
    uint64_t first_tile;
} cuda_split_place;

/* gmv_split_pieces: n_parts blocks to each partition make the table of its pieces. */
typedef struct cuda_split_args {
    uint64_t buffers; /* cuda_split_buffer[n_buffers] */
    uint64_t bounds;  /* int64_t[levels][n_points], sorted */
    uint64_t places;  /* cuda_split_place[partitions] */
    uint64_t pieces;  /* cuda_piece[partitions][n_buffers] */
    uint64_t counts;  /* uint64_t[partitions][n_masks], zero before */
    uint64_t n_buffers;
    uint64_t n_points;
    uint64_t n_masks;
    uint64_t n_parts;
    uint64_t first;      /* the partition of block 0 */
    uint64_t first_tile; /* of its place: tile 0 of the table */
} cuda_split_args;

#define GMV_CUDA_SPLIT_ALIGNMENT 64

/*
 * gmv_gather_1, _2, _4, _8, _16: elements of that many bytes, everything aligned to them. Tiles of
 * GMV_CUDA_THREADS * GMV_CUDA_PIECES elements over `count`.
 */
typedef struct cuda_gather_args {
    uint64_t address;
    uint64_t output;
    uint64_t first;
    uint64_t count;
    uint32_t ndim;   /* at least 1 */
    uint32_t narrow; /* first + count, and so every index, fits 32 bits */
    uint64_t shape[GMV_CUDA_NDIM_MAX];
    int64_t strides[GMV_CUDA_NDIM_MAX];
} cuda_gather_args;

/*
 * gmv_transpose_1, _2, _4, _8: matrices of elements of that many bytes, aligned to them, whose
 * `columns` lie side by side in the source and whose `rows` do in the output. Tiles of
 * GMV_CUDA_TRANSPOSE_TILE by as many bytes over each matrix, those of one matrix one behind the
 * other.
 */
typedef struct cuda_transpose_args {
    uint64_t address;
    uint64_t output;
    uint64_t rows;
    uint64_t columns;
    int64_t source_pitch;   /* bytes from row to row */
    uint64_t output_pitch;  /* bytes from column to column */
    uint64_t tiles_of_rows; /* in a matrix */
    uint64_t tiles_of_columns;
    uint32_t wide; /* all of the addresses are multiples of 16 */
    uint32_t ndim; /* of the matrices, outermost first */
    uint64_t shape[GMV_CUDA_NDIM_MAX];
    int64_t strides[GMV_CUDA_NDIM_MAX];
    uint64_t output_strides[GMV_CUDA_NDIM_MAX];
} cuda_transpose_args;

/*
 * gmv_check_indices: n signed integers of 1, 2, 4 or 8 bytes, aligned to them. Tiles of
 * GMV_CUDA_INDICES_TILE of them. The result is the index of the first that is below 0, above the
 * limit, or (in order) below the one before; n if there is none.
 */
typedef struct cuda_indices_args {
    uint64_t address;
    cuda_bits validity; /* not asked in order */
    uint64_t n;
    int64_t limit;
    uint32_t itemsize;
    uint32_t in_order;
    cuda_result result;
} cuda_indices_args;

/* gmv_sequence: n integers of 32 bits. Tiles of GMV_CUDA_SEQUENCE_TILE of them. */
typedef struct cuda_sequence_args {
    uint64_t output;
    uint64_t n;
    uint32_t step;
} cuda_sequence_args;

/*
 * gmv_statistics_...: a gmv_statistics_partial for each tile of GMV_CUDA_THREADS times as many
 * elements as device/tiles.h says.
 */
typedef struct cuda_statistics_args {
    uint64_t input;
    cuda_bits validity;
    uint64_t n;
    uint64_t output;
} cuda_statistics_args;

/* gmv_compare_...: a gmv_comparison_partial for each tile, as above. */
typedef struct cuda_compare_args {
    uint64_t inputs[2];
    cuda_bits validities[2];
    uint64_t n;
    uint64_t output;
    double absolute, relative; /* tolerances */
    uint32_t nan_equal;
} cuda_compare_args;

/* gmv_merge_statistics, gmv_merge_comparisons: one of each 2048 of n partials. */
#define GMV_CUDA_MERGE_PIECES 8
#define GMV_CUDA_MERGE_TILE   (GMV_CUDA_THREADS * GMV_CUDA_MERGE_PIECES)

typedef struct cuda_merge_args {
    uint64_t input;
    uint64_t n;
    uint64_t output;
} cuda_merge_args;

/*
 * gmv_histogram: tiles of GMV_CUDA_HISTOGRAM_TILE elements. Adds to n_bins counts and those of
 * below, above, not a number, infinite. `element` is the row of device/elements.h.
 */
#define GMV_CUDA_HISTOGRAM_PIECES 16
#define GMV_CUDA_HISTOGRAM_TILE   (GMV_CUDA_THREADS * GMV_CUDA_HISTOGRAM_PIECES)

typedef struct cuda_histogram_args {
    uint64_t input;
    cuda_bits validity;
    uint64_t n;
    uint64_t edges;
    uint64_t n_bins;
    uint64_t counts;
    double first, last, scale;
    uint32_t element;
    uint32_t itemsize;
} cuda_histogram_args;

/*
 * gmv_hash_xxh64, gmv_hash_xxh3: four threads for each of n blocks of block_nbytes, which is a
 * multiple of 64.
 */
#define GMV_CUDA_HASH_LANES 4
#define GMV_CUDA_HASH_TILE  (GMV_CUDA_THREADS / GMV_CUDA_HASH_LANES)

typedef struct cuda_hash_args {
    uint64_t input;
    uint64_t block_nbytes;
    uint64_t n;
    uint64_t output;
} cuda_hash_args;

/*
 * gmv_crc32c: tiles of GMV_CRC_TILE bytes, each of rows. A register per column of words: from row
 * to row it is shifted by `shifts`, in the end by its column's factor. The last tile counts as
 * filled with zeros, which last_factor takes back.
 */
#define GMV_CUDA_CRC_ROW     (GMV_CUDA_THREADS * 16)
#define GMV_CUDA_CRC_ROWS    32
#define GMV_CUDA_CRC_TILE    (GMV_CUDA_CRC_ROW * GMV_CUDA_CRC_ROWS)
#define GMV_CUDA_CRC_NIBBLES 8

typedef struct cuda_crc_tables {
    uint32_t shifts[GMV_CUDA_CRC_NIBBLES][16];
    uint32_t factors[GMV_CUDA_CRC_ROW / 4];
} cuda_crc_tables;

typedef struct cuda_crc_args {
    uint64_t input;
    uint64_t nbytes;
    uint64_t tables; /* cuda_crc_tables, aligned to 16 */
    uint64_t output;
    uint32_t last_factor;
} cuda_crc_args;

/* A kernel for each row of device/elements.h. */
#define GMV_CUDA_ELEMENT_ROWS(X, verb, type) \
    X(verb##_u1, type)                       \
    X(verb##_u2, type)                       \
    X(verb##_u4, type)                       \
    X(verb##_u8, type)                       \
    X(verb##_i1, type)                       \
    X(verb##_i2, type)                       \
    X(verb##_i4, type)                       \
    X(verb##_i8, type)                       \
    X(verb##_b1, type)                       \
    X(verb##_f2, type)                       \
    X(verb##_bf16, type)                     \
    X(verb##_f8_e4m3fn, type)                \
    X(verb##_f8_e5m2, type)                  \
    X(verb##_f4, type)                       \
    X(verb##_f8, type)

#define GMV_CUDA_KERNEL_MAP(X)                                 \
    X(valid_bytes, cuda_valid_args)                            \
    X(valid_f4, cuda_valid_args)                               \
    X(valid_f8, cuda_valid_args)                               \
    X(bits_to_bools, cuda_bools_args)                          \
    X(combine_bits, cuda_combine_args)                         \
    X(set_edges, cuda_edges_args)                              \
    X(count_bits, cuda_scan_args)                              \
    X(find_bit, cuda_scan_args)                                \
    X(check_indices, cuda_indices_args)                        \
    X(copy_pieces, cuda_pieces_args)                           \
    X(count_ranges, cuda_pieces_args)                          \
    X(sequence, cuda_sequence_args)                            \
    X(gather_1, cuda_gather_args)                              \
    X(gather_2, cuda_gather_args)                              \
    X(gather_4, cuda_gather_args)                              \
    X(gather_8, cuda_gather_args)                              \
    X(gather_16, cuda_gather_args)                             \
    X(transpose_1, cuda_transpose_args)                        \
    X(transpose_2, cuda_transpose_args)                        \
    X(transpose_4, cuda_transpose_args)                        \
    X(transpose_8, cuda_transpose_args)                        \
    X(split_bounds, cuda_split_bounds_args)                    \
    X(split_pieces, cuda_split_args)                           \
    X(find_owners, cuda_owners_args)                           \
    GMV_CUDA_ELEMENT_ROWS(X, statistics, cuda_statistics_args) \
    X(merge_statistics, cuda_merge_args)                       \
    GMV_CUDA_ELEMENT_ROWS(X, compare, cuda_compare_args)       \
    X(compare_c8, cuda_compare_args)                           \
    X(compare_c16, cuda_compare_args)                          \
    X(merge_comparisons, cuda_merge_args)                      \
    X(histogram, cuda_histogram_args)                          \
    X(hash_xxh64, cuda_hash_args)                              \
    X(hash_xxh3, cuda_hash_args)                               \
    X(crc32c, cuda_crc_args)

#endif
