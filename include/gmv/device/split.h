/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a device computes for packed tables: where each partition of a table begins in all its
 * nested rows, and the copy of partitions, described by the columns that they have in common and
 * the rows that each takes.
 *
 * Offsets in device memory may change at any moment. Each one is cut to what there is where it is
 * used, so whatever they say nothing outside the table is read and nothing outside a partition is
 * written.
 */
#ifndef GMV_DEVICE_SPLIT_H
#define GMV_DEVICE_SPLIT_H

#include <gmv/base/num.h>
#include <gmv/device/kernels.h>

GMV_BEGIN_DECLS

#define GMV_SPLIT_ALIGNMENT 64 /* of every buffer in a partition, and its padding */
#define GMV_SPLIT_DEPTH_MAX 64 /* levels above a level */

/*
 * Rows that are cut together: the table's (level 0), or the elements of a list or the characters of
 * a string, which begin where the offset of the parent's row says.
 */
typedef struct gmv_split_level {
    uint64_t offsets;      /* aligned address of the offset of the parent's row 0; 0: no rows */
    int64_t limit;         /* how many rows there are */
    uint32_t parent;       /* a level before this one */
    uint32_t offset_width; /* 4 or 8, signed */
} gmv_split_level;

typedef enum gmv_split_kind { GMV_SPLIT_BYTES, GMV_SPLIT_BITS, GMV_SPLIT_OFFSETS } gmv_split_kind;

/* A buffer that every partition has, in the order in which they follow one another. */
typedef struct gmv_split_buffer {
    uint64_t address; /* BYTES and OFFSETS: of row 0; BITS: what `first` counts from */
    int64_t first;    /* BITS: the bit of row 0 */
    uint32_t kind;    /* a gmv_split_kind */
    uint32_t level;
    uint32_t width; /* bytes of a row; OFFSETS: 4 or 8 */
    uint32_t below; /* OFFSETS: the level that they lead to. BITS: which count gets the ones */
} gmv_split_buffer;

/* How many buffers are of one size in every partition. */
typedef struct gmv_split_class {
    uint32_t kind;
    uint32_t level;
    uint32_t width;
    uint32_t count;
} gmv_split_class;

/* Bytes of a buffer's content for so many rows: masks in words of 32 bits, one offset more. */
static inline uint64_t gmv_split_nbytes(uint32_t kind, uint32_t width, int64_t rows)
{
    if (kind == GMV_SPLIT_BITS)
        return ((uint64_t)rows + 31) / 32 * 4;
    if (kind == GMV_SPLIT_OFFSETS)
        return rows > 0 ? ((uint64_t)rows + 1) * width : 0;
    return (uint64_t)rows * width;
}

/* The same with its padding. */
static inline uint64_t gmv_split_capacity(uint32_t kind, uint32_t width, int64_t rows)
{
    return gmv_round_up(gmv_split_nbytes(kind, width, rows), GMV_SPLIT_ALIGNMENT);
}

/*
 * bounds[l * n_points + k] is where in the rows of level l point k lies. Those of level 0 are given
 * and inside its limit; the others are found, each from 0 to its limit, and not sorted if the
 * offsets are not.
 */
typedef struct gmv_split_bounds {
    const gmv_split_level *levels;
    size_t n_levels; /* at least 1 */
    size_t n_points;
    int64_t *bounds;
} gmv_split_bounds;

/*
 * Partition p takes the rows from point p to point p + 1 of each level and lies at destinations[p],
 * aligned to GMV_SPLIT_ALIGNMENT. What follows a content up to the next buffer is 0.
 */
typedef struct gmv_split {
    const gmv_split_buffer *buffers;
    size_t n_buffers;
    const gmv_split_class *classes; /* of all buffers */
    size_t n_classes;
    const int64_t *bounds; /* as above, sorted now */
    size_t n_levels;
    size_t n_points;              /* one more than partitions */
    const uint64_t *destinations; /* 0 where there is nothing to copy */
    size_t first, n;              /* the partitions to copy now */
    uint64_t set_counts;          /* device address: uint64_t[partitions][n_masks], zero before */
    size_t n_masks;
} gmv_split;

/* The rules and errors of kernels.h hold for both. Bounds are found once the stream is finished. */
GMV_NODISCARD gmv_status gmv_kernel_split_bounds(gmv_stream *stream, const gmv_split_bounds *args,
                                                 gmv_error *err);
/* Enqueues the copy of `n` partitions from `first` on. */
GMV_NODISCARD gmv_status gmv_kernel_split(gmv_stream *stream, const gmv_split *args,
                                          gmv_error *err);

GMV_END_DECLS

#endif
