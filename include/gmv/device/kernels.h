/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a device computes. Every kernel takes any alignment and any bit offset unless said
 * otherwise, reads no byte outside what its arguments span, and writes every byte of its output,
 * padding as zero. Arguments are checked by the floor above. Host pointers named out_* are valid
 * after gmv_stream_finish and may be NULL where the result is not wanted; arrays that are passed in
 * must live until then.
 *
 * Enqueued on the stream, which belongs to one thread at a time; the memory is announced before
 * (gmv_stream_use). A gmv_kernel_* may fail with GMV_ERR_DEVICE_LOST, GMV_ERR_DEVICE_OUT_OF_MEMORY
 * or GMV_ERR_OVERLOADED; what an exporter has cut short is told by gmv_stream_finish.
 */
#ifndef GMV_DEVICE_KERNELS_H
#define GMV_DEVICE_KERNELS_H

#include <gmv/device/device.h>
#include <gmv/model/bitmask.h>
#include <gmv/model/layout.h>

GMV_BEGIN_DECLS

/* Bits `offset` and on, counted from the lowest bit of the byte at `address`; address 0: all ones.
 */
typedef struct gmv_bits {
    uint64_t address;
    int64_t offset;
} gmv_bits;

typedef enum gmv_predicate {
    GMV_PREDICATE_NONZERO_BYTE, /* any byte but 0 is true */
    GMV_PREDICATE_NOT_NAN_F4,   /* aligned to 4; every NaN counts, whatever sign and payload */
    GMV_PREDICATE_NOT_NAN_F8    /* aligned to 8 */
} gmv_predicate;

/* Bit i of the output is predicate(input[i]) and validity[i]; bits from `n` to the end are 0. */
typedef struct gmv_valid_if {
    gmv_predicate predicate;
    uint64_t input; /* address of element 0 */
    gmv_bits validity;
    int64_t n;              /* elements */
    uint64_t output;        /* aligned to 64 */
    uint64_t output_nbytes; /* multiple of 64, at least gmv_bitmask_nbytes(n) */
    int64_t *out_null_count;
} gmv_valid_if;

/* Byte i of the output (n bytes) is 1 or 0 as bit i. */
typedef struct gmv_bits_to_bools {
    gmv_bits bits;
    int64_t n;
    uint64_t output;
} gmv_bits_to_bools;

/* Copies n bits to bit 0 of the output; the rest of output_nbytes is 0. */
typedef struct gmv_copy_bits {
    gmv_bits bits;
    int64_t n;
    uint64_t output;        /* aligned to 64 */
    uint64_t output_nbytes; /* at least ceil(n / 8) */
    int64_t *out_set_count;
} gmv_copy_bits;

/* Sets the bits of a range to `valid`, and leaves the other bits of its first and last byte. */
typedef struct gmv_set_bits {
    uint64_t address;
    gmv_bit_range range;
    bool valid;
} gmv_set_bits;

typedef enum gmv_bits_operation { GMV_BITS_AND, GMV_BITS_OR } gmv_bits_operation;

/* Combines n bits of each input; an input with address 0 is all ones. */
typedef struct gmv_combine_bits {
    gmv_bits_operation operation;
    const gmv_bits *inputs;
    size_t n_inputs; /* at least 1 */
    int64_t n;
    uint64_t output; /* aligned to 64 */
    uint64_t output_nbytes;
    int64_t *out_set_count;
} gmv_combine_bits;

/* Counts the ones in each of n ranges of bits from `address`. */
typedef struct gmv_count_bits {
    uint64_t address;
    const gmv_bit_range *ranges;
    size_t n_ranges;
    int64_t *out_counts; /* n_ranges of them */
} gmv_count_bits;

/* The first one in the range, relative to its begin; the range's length if there is none. */
typedef struct gmv_find_bit {
    uint64_t address;
    gmv_bit_range range;
    int64_t *out_index;
} gmv_find_bit;

/* Copies the elements of a strided array in C order to a contiguous output. */
typedef struct gmv_gather {
    uint64_t address;         /* of element [0, ..., 0] */
    const gmv_layout *layout; /* with strides */
    int64_t itemsize;         /* bytes: 1, 2, 4, 8 or 16 */
    int64_t first;            /* index in C order of the first element to copy */
    int64_t count;            /* elements to copy */
    uint64_t output;          /* count times itemsize bytes */
} gmv_gather;

/* One buffer of a packed table. */
typedef struct gmv_copy_piece {
    bool is_bits; /* false: nbytes bytes from `source`; true: n bits of `bits` */
    uint64_t source;
    uint64_t nbytes;
    gmv_bits bits;
    int64_t n;
    uint64_t destination;   /* aligned to 64 */
    uint64_t capacity;      /* bytes to write; what follows the content is 0 */
    int64_t *out_set_count; /* bits only */
    /* Bytes only: signed integers of 4 or 8 bytes, each cut to base..end and then less base. */
    uint32_t offset_width; /* 0: bytes as they are */
    int64_t base, end;
} gmv_copy_piece;

/*
 * Looks at n signed integers that say where things are. One is bad if it is below 0, above `limit`,
 * or, where they are in order, below the one before it. Those whose validity is 0 are passed over
 * (only where they are not in order).
 */
typedef struct gmv_check_indices {
    uint64_t address; /* aligned to itemsize */
    int64_t itemsize; /* bytes: 1, 2, 4 or 8 */
    bool in_order;
    gmv_bits validity;
    int64_t n;
    int64_t limit;      /* the largest that is good; below 0: none is */
    int64_t *out_index; /* of the first bad one; n if there is none */
} gmv_check_indices;

/* Writes n integers of 32 bits: 0, step, 2 * step, ... All of them fit. */
typedef struct gmv_sequence {
    uint64_t output; /* aligned to 4 */
    int64_t n;
    int32_t step; /* at least 0 */
} gmv_sequence;

GMV_NODISCARD gmv_status gmv_kernel_valid_if(gmv_stream *stream, const gmv_valid_if *args,
                                             gmv_error *err);
GMV_NODISCARD gmv_status gmv_kernel_bits_to_bools(gmv_stream *stream, const gmv_bits_to_bools *args,
                                                  gmv_error *err);
GMV_NODISCARD gmv_status gmv_kernel_copy_bits(gmv_stream *stream, const gmv_copy_bits *args,
                                              gmv_error *err);
GMV_NODISCARD gmv_status gmv_kernel_set_bits(gmv_stream *stream, const gmv_set_bits *args,
                                             gmv_error *err);
GMV_NODISCARD gmv_status gmv_kernel_combine_bits(gmv_stream *stream, const gmv_combine_bits *args,
                                                 gmv_error *err);
GMV_NODISCARD gmv_status gmv_kernel_count_bits(gmv_stream *stream, const gmv_count_bits *args,
                                               gmv_error *err);
GMV_NODISCARD gmv_status gmv_kernel_find_bit(gmv_stream *stream, const gmv_find_bit *args,
                                             gmv_error *err);
GMV_NODISCARD gmv_status gmv_kernel_check_indices(gmv_stream *stream, const gmv_check_indices *args,
                                                  gmv_error *err);
GMV_NODISCARD gmv_status gmv_kernel_sequence(gmv_stream *stream, const gmv_sequence *args,
                                             gmv_error *err);
GMV_NODISCARD gmv_status gmv_kernel_gather(gmv_stream *stream, const gmv_gather *args,
                                           gmv_error *err);
GMV_NODISCARD gmv_status gmv_kernel_copy_pieces(gmv_stream *stream, const gmv_copy_piece *pieces,
                                                size_t n, gmv_error *err);

GMV_END_DECLS

#endif
