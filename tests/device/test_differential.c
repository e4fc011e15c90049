/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA backend against the host backend: the same random work on both, the same bytes and
 * numbers wanted, outputs to their last byte and what lies around them. Inputs end where their
 * allocation ends, or begin where it begins, so that a memory checker sees a byte too many.
 *
 *     test_differential [rounds for each kernel, 1200] [longest input in KiB, 24576]
 *
 * A plain program that prints TAP: it runs under compute-sanitizer as it is.
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gmv/base/alloc.h>
#include <gmv/base/num.h>
#include <gmv/device/kernels.h>
#include <gmv/device/reductions.h>
#include <gmv/device/split.h>

#ifndef DIFFERENTIAL_ROUNDS
#    define DIFFERENTIAL_ROUNDS 1200
#    define DIFFERENTIAL_KIB    24576
#endif

#define CANARY 0xa5
#define SIDES  2 /* host, CUDA */

typedef struct pair {
    gmv_device *devices[SIDES];
    gmv_stream *streams[SIDES];
    uint64_t state;
    size_t longest; /* bytes of an input */
    char problem[256];
} pair;

static _Noreturn void die(const char *what, const char *why)
{
    printf("Bail out! %s: %s\n", what, why);
    exit(1);
}

#define must(call)                   \
    do {                             \
        gmv_error err;               \
        gmv_error_init(&err);        \
        if ((call) != GMV_OK)        \
            die(#call, err.message); \
    } while (0)

static bool differ(pair *p, const char *format, ...) GMV_PRINTF(2, 3);

static bool differ(pair *p, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(p->problem, sizeof p->problem, format, list);
    va_end(list);
    return false;
}

/* ---- random numbers -------------------------------------------------------------------------- */

static uint64_t random_next(pair *p)
{
    uint64_t value = (p->state += UINT64_C(0x9e3779b97f4a7c15));
    value = (value ^ value >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ value >> 27) * UINT64_C(0x94d049bb133111eb);
    return value ^ value >> 31;
}

static int64_t random_below(pair *p, int64_t limit)
{
    return (int64_t)(random_next(p) % (uint64_t)limit);
}

/* Mostly short; now and then several blocks, and lengths around what a block or warp does. */
static int64_t random_length(pair *p)
{
    switch (random_below(p, 16)) {
    case 0:
        return random_below(p, 3);
    case 1:
        return 64 * random_below(p, 40);
    case 2:
        return random_below(p, 300000);
    case 3:
        return 16384 * (1 + random_below(p, 4)) + random_below(p, 40) - 20;
    default:
        return random_below(p, 5000);
    }
}

/* Runs of zeros, of ones, and noise. */
static void random_fill(pair *p, uint8_t *bytes, size_t nbytes)
{
    for (size_t i = 0; i < nbytes;) {
        size_t run = i + (size_t)random_below(p, 200);
        int64_t mode = random_below(p, 4);
        for (; i < nbytes && i <= run; i++)
            bytes[i] = mode == 0 ? 0 : mode == 1 ? 0xff : (uint8_t)random_next(p);
    }
}

/* ---- memory on both sides -------------------------------------------------------------------- */

typedef struct block {
    uint8_t *bytes; /* what both sides begin with */
    size_t capacity;
    size_t offset; /* of what is used */
    gmv_memory *memory[SIDES];
} block;

static void block_allocate(pair *p, block *b)
{
    for (int s = 0; s < SIDES; s++)
        must(gmv_memory_allocate(p->devices[s], p->streams[s], GMV_MEMORY_ORDINARY,
                                 GMV_CONTENTS_UNSPECIFIED, b->capacity, &b->memory[s], &err));
}

static void block_upload(pair *p, const block *b)
{
    for (int s = 0; s < SIDES; s++)
        must(gmv_copy_in(p->streams[s], b->memory[s]->address, b->bytes, b->capacity, &err));
}

static block block_make(pair *p, size_t capacity, size_t offset)
{
    block b = {.bytes = gmv_malloc(capacity), .capacity = capacity, .offset = offset};
    if (!b.bytes)
        die("block_make", "no memory");
    block_allocate(p, &b);
    return b;
}

/* Random bytes that end where the allocation ends, or begin where it begins. */
static block block_input(pair *p, size_t nbytes)
{
    size_t capacity = (size_t)gmv_round_up(nbytes ? nbytes : 1, 64);
    block b = block_make(p, capacity, random_below(p, 3) ? capacity - nbytes : 0);
    random_fill(p, b.bytes, capacity);
    block_upload(p, &b);
    return b;
}

/* An output with canaries around it; `shift` bytes off the alignment. */
static block block_output(pair *p, size_t nbytes, size_t shift)
{
    block b = block_make(p, (size_t)gmv_round_up(64 + shift + nbytes + 32, 64), 64 + shift);
    memset(b.bytes, CANARY, b.capacity);
    block_upload(p, &b);
    return b;
}

static uint64_t block_address(const block *b, int s)
{
    return b->memory[s]->address + b->offset;
}

static void block_free(block *b)
{
    for (int s = 0; s < SIDES; s++)
        gmv_memory_free(b->memory[s]);
    gmv_free(b->bytes);
}

static void finish(pair *p)
{
    for (int s = 0; s < SIDES; s++)
        must(gmv_stream_finish(p->streams[s], &err));
}

/* Everything that is in the block. */
static bool block_equal(pair *p, const block *b, const char *what)
{
    uint8_t *sides[SIDES];
    bool equal = true;
    for (int s = 0; s < SIDES; s++) {
        sides[s] = gmv_malloc(b->capacity);
        if (!sides[s])
            die("block_equal", "no memory");
        must(gmv_copy_out(p->streams[s], sides[s], b->memory[s]->address, b->capacity, &err));
    }
    finish(p);
    for (size_t i = 0; i < b->capacity && equal; i++)
        if (sides[0][i] != sides[1][i])
            equal = differ(p, "%s: byte %lld: host 0x%02x, CUDA 0x%02x", what,
                           (long long)i - (long long)b->offset, sides[0][i], sides[1][i]);
    gmv_free(sides[0]);
    gmv_free(sides[1]);
    return equal;
}

static bool numbers_equal(pair *p, const int64_t numbers[SIDES], const char *what)
{
    if (numbers[0] == numbers[1])
        return true;
    return differ(p, "%s: host %lld, CUDA %lld", what, (long long)numbers[0],
                  (long long)numbers[1]);
}

/* n bits at a random offset, or none at all: all ones. */
typedef struct bits_input {
    block block;
    bool present;
    int64_t offset;
} bits_input;

static bits_input bits_make(pair *p, int64_t n)
{
    bits_input bits = {.present = random_below(p, 8) != 0};
    bits.offset = random_below(p, 4) ? random_below(p, 300) : 8 * random_below(p, 20);
    if (bits.present)
        bits.block = block_input(p, (size_t)(bits.offset + n + 7) / 8);
    return bits;
}

static gmv_bits bits_on(const bits_input *bits, int s)
{
    return bits->present ? (gmv_bits){block_address(&bits->block, s), bits->offset}
                         : (gmv_bits){0, 0};
}

static void bits_free(bits_input *bits)
{
    if (bits->present)
        block_free(&bits->block);
}

static size_t mask_nbytes(pair *p, int64_t n)
{
    return (size_t)(n + 511) / 512 * 64 + 64 * (size_t)random_below(p, 2);
}

/* ---- elements to bits and back --------------------------------------------------------------- */

static void put_floats(pair *p, block *b, size_t n, size_t itemsize)
{
    static const uint32_t f4[] = {0x7f800000, 0x7f800001, 0x7fc00000, 0xff800000, 0xffffffff,
                                  0x00000000, 0x80000000, 0x7f7fffff, 0x00000001, 0x3f800000};
    static const uint64_t f8[] = {0x7ff0000000000000, 0x7ff0000000000001, 0x7ff8000000000000,
                                  0xfff0000000000000, 0xffffffffffffffff, 0x0000000000000000,
                                  0x8000000000000000, 0x7fefffffffffffff, 0x0000000000000001,
                                  0x7ff00000ffffffff};
    for (size_t i = 0; i < n; i++) {
        size_t which = (size_t)random_below(p, 14);
        const void *value = itemsize == 4 ? (const void *)&f4[which % 10] : &f8[which % 10];
        if (which < 10)
            memcpy(b->bytes + b->offset + i * itemsize, value, itemsize);
    }
    block_upload(p, b);
}

static bool check_valid(pair *p, gmv_predicate predicate, int64_t n)
{
    static const size_t itemsizes[] = {1, 4, 8};
    size_t itemsize = itemsizes[predicate], nbytes = mask_nbytes(p, n);
    int64_t nulls[SIDES] = {-1, -1};
    block input = block_input(p, (size_t)n * itemsize), output = block_output(p, nbytes, 0);
    bits_input validity = bits_make(p, n);
    if (itemsize > 1)
        put_floats(p, &input, (size_t)n, itemsize);
    for (int s = 0; s < SIDES; s++)
        must(gmv_kernel_valid_if(p->streams[s],
                                 &(gmv_valid_if){.predicate = predicate,
                                                 .input = block_address(&input, s),
                                                 .validity = bits_on(&validity, s),
                                                 .n = n,
                                                 .output = block_address(&output, s),
                                                 .output_nbytes = nbytes,
                                                 .out_null_count = &nulls[s]},
                                 &err));
    finish(p);
    bool equal = numbers_equal(p, nulls, "nulls") && block_equal(p, &output, "mask");
    block_free(&input);
    block_free(&output);
    bits_free(&validity);
    return equal;
}

static bool case_valid_bytes(pair *p, int64_t n)
{
    return check_valid(p, GMV_PREDICATE_NONZERO_BYTE, n);
}

static bool case_valid_f4(pair *p, int64_t n)
{
    return check_valid(p, GMV_PREDICATE_NOT_NAN_F4, n / 4);
}

static bool case_valid_f8(pair *p, int64_t n)
{
    return check_valid(p, GMV_PREDICATE_NOT_NAN_F8, n / 8);
}

static bool case_bits_to_bools(pair *p, int64_t n)
{
    bits_input bits = bits_make(p, n);
    block output = block_output(p, (size_t)n, (size_t)random_below(p, 64));
    for (int s = 0; s < SIDES; s++)
        must(gmv_kernel_bits_to_bools(p->streams[s],
                                      &(gmv_bits_to_bools){.bits = bits_on(&bits, s),
                                                           .n = n,
                                                           .output = block_address(&output, s)},
                                      &err));
    bool equal = block_equal(p, &output, "bools");
    bits_free(&bits);
    block_free(&output);
    return equal;
}

/* ---- bits to bits ---------------------------------------------------------------------------- */

static bool case_copy_bits(pair *p, int64_t n)
{
    int64_t counts[SIDES] = {-1, -1};
    n *= 8;
    size_t nbytes = (size_t)(n + 7) / 8 + (size_t)random_below(p, 80);
    bits_input bits = bits_make(p, n);
    block output = block_output(p, nbytes, 0);
    for (int s = 0; s < SIDES; s++)
        must(gmv_kernel_copy_bits(p->streams[s],
                                  &(gmv_copy_bits){.bits = bits_on(&bits, s),
                                                   .n = n,
                                                   .output = block_address(&output, s),
                                                   .output_nbytes = nbytes,
                                                   .out_set_count = &counts[s]},
                                  &err));
    finish(p);
    bool equal = numbers_equal(p, counts, "ones") && block_equal(p, &output, "bits");
    bits_free(&bits);
    block_free(&output);
    return equal;
}

static bool case_set_bits(pair *p, int64_t n)
{
    block bits = block_input(p, (size_t)(n / 8 + 1));
    gmv_bit_range range = {random_below(p, n + 1), n};
    if (random_below(p, 2))
        range.end = range.begin + random_below(p, n - range.begin + 1);
    bool valid = random_below(p, 2);
    for (int s = 0; s < SIDES; s++)
        must(gmv_kernel_set_bits(
            p->streams[s],
            &(gmv_set_bits){.address = block_address(&bits, s), .range = range, .valid = valid},
            &err));
    bool equal = block_equal(p, &bits, "bits");
    block_free(&bits);
    return equal;
}

#define INPUTS_MAX 40

static bool case_combine_bits(pair *p, int64_t n)
{
    bits_input inputs[INPUTS_MAX];
    gmv_bits bits[SIDES][INPUTS_MAX];
    size_t n_inputs = 1 + (size_t)random_below(p, random_below(p, 20) ? 5 : INPUTS_MAX);
    size_t nbytes = mask_nbytes(p, n);
    int64_t counts[SIDES] = {-1, -1};
    gmv_bits_operation operation = random_below(p, 2) ? GMV_BITS_AND : GMV_BITS_OR;
    block output = block_output(p, nbytes, 0);
    for (size_t i = 0; i < n_inputs; i++) {
        inputs[i] = bits_make(p, n);
        for (int s = 0; s < SIDES; s++)
            bits[s][i] = bits_on(&inputs[i], s);
    }
    for (int s = 0; s < SIDES; s++)
        must(gmv_kernel_combine_bits(p->streams[s],
                                     &(gmv_combine_bits){.operation = operation,
                                                         .inputs = bits[s],
                                                         .n_inputs = n_inputs,
                                                         .n = n,
                                                         .output = block_address(&output, s),
                                                         .output_nbytes = nbytes,
                                                         .out_set_count = &counts[s]},
                                     &err));
    finish(p);
    bool equal = numbers_equal(p, counts, "ones") && block_equal(p, &output, "mask");
    for (size_t i = 0; i < n_inputs; i++)
        bits_free(&inputs[i]);
    block_free(&output);
    return equal;
}

/* ---- reading bits ---------------------------------------------------------------------------- */

static bool count_ranges(pair *p, const bits_input *bits, int64_t n, size_t n_ranges)
{
    gmv_bit_range *ranges = gmv_calloc(n_ranges, sizeof *ranges);
    int64_t *counts[SIDES];
    bool equal = true;
    for (size_t i = 0; i < n_ranges; i++) {
        int64_t begin = random_below(p, n + 1);
        ranges[i].begin = bits->offset + (n_ranges == 1 ? 0 : begin);
        ranges[i].end =
            bits->offset +
            (random_below(p, 3) && n_ranges > 1 ? begin + random_below(p, n - begin + 1) : n);
    }
    for (int s = 0; s < SIDES; s++) {
        counts[s] = gmv_calloc(n_ranges, sizeof **counts);
        must(gmv_kernel_count_bits(p->streams[s],
                                   &(gmv_count_bits){.address = bits_on(bits, s).address,
                                                     .ranges = ranges,
                                                     .n_ranges = n_ranges,
                                                     .out_counts = counts[s]},
                                   &err));
    }
    finish(p);
    for (size_t i = 0; i < n_ranges && equal; i++)
        equal = numbers_equal(p, (const int64_t[]){counts[0][i], counts[1][i]}, "ones of a range");
    gmv_free(ranges);
    gmv_free(counts[0]);
    gmv_free(counts[1]);
    return equal;
}

static bool case_count_bits(pair *p, int64_t n)
{
    n *= 8;
    bits_input bits = bits_make(p, n);
    bool equal =
        count_ranges(p, &bits, n, 1) && count_ranges(p, &bits, n, 2 + (size_t)random_below(p, 40));
    bits_free(&bits);
    return equal;
}

static bool case_find_bit(pair *p, int64_t n)
{
    int64_t indices[SIDES] = {-1, -1}, one;
    n = 8 * n + random_below(p, 8);
    bits_input bits = bits_make(p, n);
    if (bits.present && random_below(p, 4)) {
        uint8_t *bytes = bits.block.bytes + bits.block.offset;
        memset(bits.block.bytes, 0, bits.block.capacity);
        one = random_below(p, bits.offset + n + 1);
        if (one < bits.offset + n)
            bytes[one / 8] = (uint8_t)(1 << one % 8);
        block_upload(p, &bits.block);
    }
    for (int s = 0; s < SIDES; s++)
        must(gmv_kernel_find_bit(p->streams[s],
                                 &(gmv_find_bit){.address = bits_on(&bits, s).address,
                                                 .range = {bits.offset, bits.offset + n},
                                                 .out_index = &indices[s]},
                                 &err));
    finish(p);
    bool equal = numbers_equal(p, indices, "index");
    bits_free(&bits);
    return equal;
}

/* ---- integers that say where things are ------------------------------------------------------ */

/* Mostly good integers, so that the search goes on: in order, or within the limit. */
static void indices_fill(pair *p, uint8_t *bytes, int64_t n, int64_t itemsize, bool in_order)
{
    int64_t value = 0;
    for (int64_t i = 0; i < n; i++) {
        value = in_order ? value + random_below(p, 3) : random_below(p, 100);
        memcpy(bytes + i * itemsize, &value, (size_t)itemsize);
    }
    for (int64_t spoilt = random_below(p, 3); n > 0 && spoilt > 0; spoilt--) {
        value = (int64_t)random_next(p) >> random_below(p, 60);
        memcpy(bytes + random_below(p, n) * itemsize, &value, (size_t)itemsize);
    }
}

static bool case_check_indices(pair *p, int64_t n)
{
    const int64_t itemsize = 1 << random_below(p, 4);
    const bool in_order = random_below(p, 2);
    int64_t indices[SIDES] = {-1, -1};
    n /= itemsize;
    bits_input validity = bits_make(p, n);
    block integers = block_input(p, (size_t)(n * itemsize));
    indices_fill(p, integers.bytes + integers.offset, n, itemsize, in_order);
    block_upload(p, &integers);
    for (int s = 0; s < SIDES; s++)
        must(gmv_kernel_check_indices(p->streams[s],
                                      &(gmv_check_indices){.address = block_address(&integers, s),
                                                           .itemsize = itemsize,
                                                           .in_order = in_order,
                                                           .validity = bits_on(&validity, s),
                                                           .n = n,
                                                           .limit = in_order ? 2 * n : 99,
                                                           .out_index = &indices[s]},
                                      &err));
    finish(p);
    bool equal = numbers_equal(p, indices, "first bad index");
    bits_free(&validity);
    block_free(&integers);
    return equal;
}

static bool case_sequence(pair *p, int64_t n)
{
    n /= 4;
    block to = block_output(p, (size_t)(4 * n), 0);
    const int32_t step = (int32_t)random_below(p, n > 0 ? INT32_MAX / n : 100);
    for (int s = 0; s < SIDES; s++)
        must(gmv_kernel_sequence(
            p->streams[s], &(gmv_sequence){.output = block_address(&to, s), .n = n, .step = step},
            &err));
    bool equal = block_equal(p, &to, "sequence");
    block_free(&to);
    return equal;
}

/* ---- strided elements ------------------------------------------------------------------------ */

/* Extents, strides of both signs and 0, in any order; returns the offset of element 0. */
static int64_t random_layout(pair *p, int64_t itemsize, int64_t longest, gmv_layout *layout,
                             int64_t *out_span)
{
    int64_t low = 0, high = itemsize, dense = itemsize;
    *layout = (gmv_layout){.ndim = (int32_t)random_below(p, 6), .has_strides = true};
    for (int32_t i = layout->ndim - 1; i >= 0; i--) {
        int64_t extent = 1 + random_below(p, random_below(p, 3) ? 9 : 60), stride = dense;
        if (random_below(p, 3) == 0)
            stride = itemsize * (random_below(p, 40) - 20);
        else if (random_below(p, 4) == 0)
            stride = random_below(p, 200) - 100;
        else if (random_below(p, 4) == 0)
            stride = -dense;
        if (high - low + extent * llabs(stride) > longest)
            extent = 1;
        layout->shape[i] = extent;
        layout->strides[i] = stride;
        dense = extent * llabs(stride) + (random_below(p, 2) ? 0 : itemsize);
        *(stride < 0 ? &low : &high) += (extent - 1) * stride;
    }
    *out_span = high - low;
    return -low;
}

/* `what` without addresses, out of `span` bytes of which the first element is at `origin`. */
static bool gather_equal(pair *p, gmv_gather what, int64_t span, int64_t origin)
{
    block input = block_input(p, (size_t)span);
    block output = block_output(p, (size_t)(what.count * what.itemsize),
                                random_below(p, 2) ? 0 : (size_t)random_below(p, 64));
    for (int s = 0; s < SIDES; s++) {
        what.address = block_address(&input, s) + (uint64_t)origin;
        what.output = block_address(&output, s);
        must(gmv_kernel_gather(p->streams[s], &what, &err));
    }
    bool equal = block_equal(p, &output, "elements");
    block_free(&input);
    block_free(&output);
    return equal;
}

static bool case_gather(pair *p, int64_t n)
{
    gmv_layout layout;
    int64_t itemsize = 1 << random_below(p, 5), size = 1, span;
    int64_t origin = random_layout(p, itemsize, GMV_MIN(64 * n + 4096, 2000000), &layout, &span);
    for (int32_t i = 0; i < layout.ndim; i++)
        size *= layout.shape[i];
    int64_t first = random_below(p, 2) ? 0 : random_below(p, size);
    int64_t count = random_below(p, 2) ? size - first : random_below(p, size - first + 1);
    const gmv_gather what = {
        .layout = &layout, .itemsize = itemsize, .first = first, .count = count};
    return gather_equal(p, what, span, origin);
}

/* A dense array of up to four dimensions with its axes in any order, all of it. */
static bool case_transpose(pair *p, int64_t n)
{
    gmv_layout layout = {.ndim = (int32_t)(2 + random_below(p, 3)), .has_strides = true};
    int64_t itemsize = 1 << random_below(p, 5), size = 1, order[4] = {0, 1, 2, 3};
    n = GMV_MIN(n, 20000);
    for (int32_t i = 0; i < layout.ndim; i++) {
        int64_t longest = GMV_MAX(2, GMV_MIN(400, 16 * n / size));
        layout.shape[i] = 1 + random_below(p, random_below(p, 2) ? longest : GMV_MIN(longest, 5));
        size *= layout.shape[i];
    }
    for (int32_t i = layout.ndim - 1; i > 0; i--) {
        int64_t other = random_below(p, i + 1), kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }
    int64_t stride = itemsize, origin = 0;
    for (int32_t i = 0; i < layout.ndim; i++) {
        bool is_turned = i > 0 && random_below(p, 4) == 0;
        layout.strides[order[i]] = is_turned ? -stride : stride;
        origin += is_turned ? (layout.shape[order[i]] - 1) * stride : 0;
        stride *= layout.shape[order[i]];
        if (random_below(p, 3) == 0) /* rows with a gap behind them */
            stride += (random_below(p, 2) ? itemsize : 16) * random_below(p, 3);
    }
    const gmv_gather what = {.layout = &layout, .itemsize = itemsize, .count = size};
    return gather_equal(p, what, stride, origin);
}

/* ---- packed tables --------------------------------------------------------------------------- */

typedef struct piece_plan {
    bits_input bits;
    int64_t n; /* bits, or bytes */
    bool is_bits, counted;
    uint32_t offset_width;
    uint64_t capacity, offset;
} piece_plan;

static uint64_t pieces_plan(pair *p, piece_plan *plans, size_t n, int64_t longest)
{
    uint64_t end = 0;
    for (size_t i = 0; i < n; i++) {
        piece_plan *plan = &plans[i];
        plan->is_bits = random_below(p, 2);
        plan->counted = random_below(p, 2);
        plan->n = random_below(p, longest + 1);
        plan->bits = bits_make(p, plan->is_bits ? plan->n : 8 * plan->n);
        if (!plan->is_bits && !plan->bits.present)
            plan->n = 0;
        if (!plan->is_bits && random_below(p, 3) == 0) {
            plan->offset_width = random_below(p, 2) ? 4 : 8;
            plan->n -= plan->n % plan->offset_width;
        }
        uint64_t nbytes = plan->is_bits ? (uint64_t)(plan->n + 7) / 8 : (uint64_t)plan->n;
        plan->capacity = nbytes + (uint64_t)random_below(p, 2) * (uint64_t)random_below(p, 100);
        plan->offset = end;
        end = gmv_round_up(end + plan->capacity, 64);
    }
    return end;
}

static gmv_copy_piece piece_of(const piece_plan *plan, const block *output, int s, int64_t *count)
{
    gmv_copy_piece piece = {.is_bits = plan->is_bits,
                            .destination = block_address(output, s) + plan->offset,
                            .capacity = plan->capacity};
    if (plan->is_bits) {
        piece.bits = bits_on(&plan->bits, s);
        piece.n = plan->n;
        piece.out_set_count = plan->counted ? count : NULL;
    } else {
        piece.source = bits_on(&plan->bits, s).address;
        piece.source += plan->bits.present ? (uint64_t)plan->bits.offset / 8 : 0;
        piece.nbytes = (uint64_t)plan->n;
        piece.offset_width = plan->offset_width;
        piece.base = 1000000;
        piece.end = 2000000000;
    }
    return piece;
}

static bool check_pieces(pair *p, size_t n, int64_t longest)
{
    piece_plan *plans = gmv_calloc(n, sizeof *plans);
    gmv_copy_piece *pieces[SIDES];
    int64_t *counts[SIDES];
    bool equal = true;
    block output = block_output(p, (size_t)pieces_plan(p, plans, n, longest), 0);
    for (int s = 0; s < SIDES; s++) {
        pieces[s] = gmv_calloc(n, sizeof **pieces);
        counts[s] = gmv_calloc(n, sizeof **counts);
        for (size_t i = 0; i < n; i++)
            pieces[s][i] = piece_of(&plans[i], &output, s, &counts[s][i]);
        must(gmv_kernel_copy_pieces(p->streams[s], pieces[s], n, &err));
    }
    finish(p);
    for (size_t i = 0; i < n && equal; i++)
        equal = numbers_equal(p, (const int64_t[]){counts[0][i], counts[1][i]}, "ones of a piece");
    equal = equal && block_equal(p, &output, "table");
    for (size_t i = 0; i < n; i++)
        bits_free(&plans[i].bits);
    for (int s = 0; s < SIDES; s++) {
        gmv_free(pieces[s]);
        gmv_free(counts[s]);
    }
    gmv_free(plans);
    block_free(&output);
    return equal;
}

static bool case_copy_pieces(pair *p, int64_t n)
{
    return check_pieces(p, 1 + (size_t)random_below(p, 30), n);
}

/* ---- partitions of tables -------------------------------------------------------------------- */

#define SPLIT_LEVELS_MAX  8
#define SPLIT_BUFFERS_MAX 40
#define SPLIT_POINTS_MAX  24

typedef struct split_plan {
    gmv_split_level levels[SIDES][SPLIT_LEVELS_MAX];
    gmv_split_buffer buffers[SIDES][SPLIT_BUFFERS_MAX];
    gmv_split_class classes[SPLIT_BUFFERS_MAX]; /* one for each */
    int64_t bounds[SIDES][SPLIT_LEVELS_MAX * SPLIT_POINTS_MAX];
    uint64_t destinations[SIDES][SPLIT_POINTS_MAX];
    block offsets[SPLIT_LEVELS_MAX];
    block inputs[SPLIT_BUFFERS_MAX]; /* capacity 0: none of its own */
    block outputs[SPLIT_POINTS_MAX]; /* likewise */
    block counts;
    size_t n_levels, n_buffers, n_points, n_masks;
} split_plan;

/* n offsets up to `limit` that never decrease, but for some in half of the blocks. */
static void put_offsets(pair *p, block *b, size_t n, size_t width, int64_t limit)
{
    int64_t value = random_below(p, limit / 4 + 1);
    const bool is_wild = random_below(p, 2);
    for (size_t i = 0; i < n; i++) {
        int64_t wild = (int64_t)random_next(p);
        value += random_below(p, 3) ? 0 : random_below(p, 2 * (limit - value) / (int64_t)n + 2);
        value = GMV_MIN(value, limit);
        if (!is_wild || random_below(p, 10))
            wild = value;
        memcpy(b->bytes + b->offset + i * width, &wild, width);
    }
    block_upload(p, b);
}

static void split_add_level(pair *p, split_plan *plan, int64_t longest)
{
    const size_t l = plan->n_levels++;
    const uint32_t parent = l ? (uint32_t)random_below(p, (int64_t)l) : 0;
    const uint32_t width = random_below(p, 2) ? 4 : 8;
    const int64_t limit = random_below(p, 6) ? random_below(p, longest + 1) : 0;
    if (l > 0) {
        const size_t n = (size_t)plan->levels[0][parent].limit + 1;
        plan->offsets[l] = block_input(p, n * width);
        put_offsets(p, &plan->offsets[l], n, width, limit);
    }
    for (int s = 0; s < SIDES; s++) {
        plan->levels[s][l] =
            (gmv_split_level){.limit = limit, .parent = parent, .offset_width = width};
        if (l > 0 && plan->levels[s][parent].limit > 0)
            plan->levels[s][l].offsets = block_address(&plan->offsets[l], s);
    }
}

static void split_add_buffer(pair *p, split_plan *plan)
{
    static const uint32_t widths[] = {1, 2, 4, 8, 16};
    const size_t i = plan->n_buffers++;
    const uint32_t level = (uint32_t)random_below(p, (int64_t)plan->n_levels);
    const int64_t limit = plan->levels[0][level].limit;
    gmv_split_buffer buffer = {.level = level, .kind = (uint32_t)random_below(p, 3)};
    if (buffer.kind == GMV_SPLIT_OFFSETS && level == 0)
        buffer.kind = GMV_SPLIT_BYTES;
    if (buffer.kind == GMV_SPLIT_BYTES) {
        buffer.width = widths[random_below(p, 5)];
        plan->inputs[i] = block_input(p, (size_t)limit * buffer.width);
    } else if (buffer.kind == GMV_SPLIT_BITS) {
        buffer.first = random_below(p, 100);
        buffer.below = (uint32_t)plan->n_masks++;
        plan->inputs[i] = block_input(p, (size_t)(buffer.first + limit + 7) / 8);
    } else {
        buffer.level = plan->levels[0][level].parent;
        buffer.below = level;
        buffer.width = plan->levels[0][level].offset_width;
    }
    plan->classes[i] = (gmv_split_class){buffer.kind, buffer.level, buffer.width, 1};
    for (int s = 0; s < SIDES; s++) {
        plan->buffers[s][i] = buffer;
        plan->buffers[s][i].address = buffer.kind == GMV_SPLIT_OFFSETS
                                          ? block_address(&plan->offsets[level], s)
                                          : block_address(&plan->inputs[i], s);
    }
}

static split_plan *split_make(pair *p, int64_t longest)
{
    split_plan *plan = gmv_calloc(1, sizeof *plan);
    const size_t n_levels = 1 + (size_t)random_below(p, SPLIT_LEVELS_MAX);
    const size_t n_buffers = 1 + (size_t)random_below(p, SPLIT_BUFFERS_MAX);
    if (!plan)
        die("split_make", "no memory");
    while (plan->n_levels < n_levels)
        split_add_level(p, plan, longest);
    while (plan->n_buffers < n_buffers)
        split_add_buffer(p, plan);
    plan->n_points = 2 + (size_t)random_below(p, SPLIT_POINTS_MAX - 1);
    for (size_t k = 1; k < plan->n_points; k++) {
        const int64_t before = plan->bounds[0][k - 1], rows = plan->levels[0][0].limit;
        plan->bounds[0][k] = before + random_below(p, (rows - before) / 3 + 1);
    }
    memcpy(plan->bounds[1], plan->bounds[0], sizeof plan->bounds[0]);
    plan->counts = block_make(p, 8 * plan->n_points * (plan->n_masks + 1) / 64 * 64 + 64, 0);
    memset(plan->counts.bytes, 0, plan->counts.capacity);
    block_upload(p, &plan->counts);
    return plan;
}

static void split_sort(split_plan *plan, int s)
{
    for (size_t l = 1; l < plan->n_levels; l++)
        for (size_t k = 1; k < plan->n_points; k++) {
            int64_t *bound = &plan->bounds[s][l * plan->n_points + k];
            *bound = GMV_MAX(bound[0], bound[-1]);
        }
}

static bool split_bounds_equal(pair *p, split_plan *plan)
{
    for (int s = 0; s < SIDES; s++)
        must(gmv_kernel_split_bounds(p->streams[s],
                                     &(gmv_split_bounds){.levels = plan->levels[s],
                                                         .n_levels = plan->n_levels,
                                                         .n_points = plan->n_points,
                                                         .bounds = plan->bounds[s]},
                                     &err));
    finish(p);
    for (size_t i = 0; i < plan->n_levels * plan->n_points; i++)
        if (!numbers_equal(p, (const int64_t[]){plan->bounds[0][i], plan->bounds[1][i]}, "bounds"))
            return false;
    for (int s = 0; s < SIDES; s++)
        split_sort(plan, s);
    return true;
}

static void split_place(pair *p, split_plan *plan, size_t partition)
{
    uint64_t nbytes = 0;
    for (size_t i = 0; i < plan->n_buffers; i++) {
        const gmv_split_buffer *buffer = &plan->buffers[0][i];
        const int64_t *bounds = plan->bounds[0] + buffer->level * plan->n_points + partition;
        nbytes += gmv_split_capacity(buffer->kind, buffer->width, bounds[1] - bounds[0]);
    }
    if (nbytes == 0)
        return;
    plan->outputs[partition] = block_output(p, (size_t)nbytes, 0);
    for (int s = 0; s < SIDES; s++)
        plan->destinations[s][partition] = block_address(&plan->outputs[partition], s);
}

static void split_copy(pair *p, const split_plan *plan, size_t first, size_t n)
{
    for (int s = 0; s < SIDES; s++)
        must(gmv_kernel_split(p->streams[s],
                              &(gmv_split){.buffers = plan->buffers[s],
                                           .n_buffers = plan->n_buffers,
                                           .classes = plan->classes,
                                           .n_classes = plan->n_buffers,
                                           .bounds = plan->bounds[s],
                                           .n_levels = plan->n_levels,
                                           .n_points = plan->n_points,
                                           .destinations = plan->destinations[s],
                                           .first = first,
                                           .n = n,
                                           .set_counts = block_address(&plan->counts, s),
                                           .n_masks = plan->n_masks},
                              &err));
}

static bool split_equal(pair *p, split_plan *plan)
{
    const size_t n = plan->n_points - 1, first = (size_t)random_below(p, (int64_t)n + 1);
    if (!split_bounds_equal(p, plan))
        return false;
    for (size_t i = 0; i < n; i++)
        split_place(p, plan, i);
    split_copy(p, plan, 0, first);
    split_copy(p, plan, first, n - first);
    finish(p);
    for (size_t i = 0; i < n; i++)
        if (plan->outputs[i].capacity && !block_equal(p, &plan->outputs[i], "partition"))
            return false;
    return block_equal(p, &plan->counts, "ones of masks");
}

static void block_free_any(block *b)
{
    if (b->capacity)
        block_free(b);
}

static bool case_split(pair *p, int64_t n)
{
    split_plan *plan = split_make(p, n / (1 + random_below(p, 4)));
    bool equal = split_equal(p, plan);
    for (size_t i = 0; i < SPLIT_LEVELS_MAX; i++)
        block_free_any(&plan->offsets[i]);
    for (size_t i = 0; i < SPLIT_BUFFERS_MAX; i++)
        block_free_any(&plan->inputs[i]);
    for (size_t i = 0; i < SPLIT_POINTS_MAX; i++)
        block_free_any(&plan->outputs[i]);
    block_free(&plan->counts);
    gmv_free(plan);
    return equal;
}

/* ---- reductions ------------------------------------------------------------------------------ */

#define UNIT 0x1p-53 /* the bounds of reductions.h count in these */

static gmv_dtype random_dtype(pair *p, bool ordered)
{
    gmv_dtype dtype;
    do
        dtype = (gmv_dtype)random_below(p, GMV_DTYPE_COUNT);
    while (ordered && !gmv_dtype_is_ordered(dtype));
    return dtype;
}

/* Half of the inputs are of numbers that are alike, so that moments are finite and hard. */
static block elements_make(pair *p, gmv_dtype dtype, int64_t n)
{
    size_t itemsize = gmv_dtype_describe(dtype)->itemsize;
    block b = block_input(p, (size_t)n * itemsize);
    uint8_t *bytes = b.bytes + b.offset;
    int64_t around = random_below(p, 3) ? 1000000 : 0;
    if (random_below(p, 2))
        return b;
    for (int64_t i = 0; i < n && (dtype == GMV_DTYPE_F4 || dtype == GMV_DTYPE_F8); i++) {
        double value = (double)(around + random_below(p, 1000)) / 8;
        float narrow = (float)value;
        if (random_below(p, 50))
            memcpy(bytes + (size_t)i * itemsize,
                   itemsize == 4 ? (const void *)&narrow : (const void *)&value, itemsize);
    }
    for (int64_t i = 0; i < n && itemsize == 8 && dtype != GMV_DTYPE_F8; i++)
        bytes[(size_t)i * 8 + 7] = bytes[(size_t)i * 8 + 6] = 0;
    block_upload(p, &b);
    return b;
}

static bool bit_is_set(const bits_input *bits, int64_t i)
{
    if (!bits->present)
        return true;
    const uint8_t *bytes = bits->block.bytes + bits->block.offset;
    return bytes[(bits->offset + i) / 8] >> (bits->offset + i) % 8 & 1;
}

/* All |x| that count, added, and the largest of them. */
typedef struct magnitudes {
    double sum, largest;
} magnitudes;

static magnitudes magnitudes_of(const block *input, const bits_input *valid, gmv_dtype dtype,
                                int64_t n)
{
    size_t itemsize = gmv_dtype_describe(dtype)->itemsize;
    magnitudes all = {0, 0};
    for (int64_t i = 0; i < n; i++) {
        double value =
            gmv_element_value(dtype, input->bytes + input->offset + (size_t)i * itemsize);
        if (!isfinite(value) || !bit_is_set(valid, i))
            continue;
        all.sum += fabs(value);
        all.largest = fmax(all.largest, fabs(value));
    }
    return all;
}

/* Where one side overflows the other may be about to. */
static bool close_enough(pair *p, const char *what, double host, double cuda, double bound)
{
    if (!isfinite(host) || !isfinite(cuda) || fabs(host - cuda) <= bound)
        return true;
    return differ(p, "%s: host %.17g, CUDA %.17g, at most %.3g apart", what, host, cuda, bound);
}

static bool statistics_equal(pair *p, const gmv_statistics_partial *sides, magnitudes all)
{
    const gmv_statistics_partial *a = &sides[0], *b = &sides[1];
    if (a->n != b->n || a->nan_count != b->nan_count || a->inf_count != b->inf_count ||
        a->zero_count != b->zero_count || a->min_key != b->min_key || a->max_key != b->max_key ||
        a->sum_low != b->sum_low || a->sum_high != b->sum_high)
        return differ(p, "of %llu and %llu elements: counts, extremes or integer sums differ",
                      (unsigned long long)a->n, (unsigned long long)b->n);
    double n = (double)GMV_MAX(a->n, UINT64_C(1)), deviation = sqrt(a->squares / n);
    double condition = deviation > 0 ? 1 + fabs(a->mean) / deviation : 0;
    double flat = all.sum * all.sum / n * UNIT * UNIT * 16; /* all elements the same */
    double least = 0x1p-1074 * n; /* each operation may round a subnormal by this */
    return close_enough(p, "sum", a->sum + a->sum_error, b->sum + b->sum_error,
                        256 * UNIT * all.sum + least) &&
           close_enough(p, "mean", a->mean, b->mean, 256 * UNIT * all.largest + least) &&
           close_enough(p, "squares", a->squares, b->squares,
                        4096 * UNIT * condition * a->squares + flat + least);
}

static bool case_statistics(pair *p, int64_t n)
{
    gmv_dtype dtype = random_dtype(p, true);
    gmv_statistics_partial sides[SIDES];
    n /= gmv_dtype_describe(dtype)->itemsize;
    block input = elements_make(p, dtype, n);
    block scratch = block_output(p, (size_t)gmv_statistics_scratch_nbytes(dtype, n), 0);
    bits_input validity = bits_make(p, n);
    for (int s = 0; s < SIDES; s++) {
        must(gmv_kernel_statistics(
            p->streams[s],
            &(gmv_statistics_reduction){.dtype = dtype,
                                        .input = block_address(&input, s),
                                        .validity = bits_on(&validity, s),
                                        .n = n,
                                        .scratch = block_address(&scratch, s)},
            &err));
        must(gmv_copy_out(p->streams[s], &sides[s], block_address(&scratch, s), sizeof sides[s],
                          &err));
    }
    finish(p);
    bool equal = statistics_equal(p, sides, magnitudes_of(&input, &validity, dtype, n));
    block_free(&input);
    block_free(&scratch);
    bits_free(&validity);
    return equal;
}

/* A copy of the elements in which some bytes are others. */
static block elements_change(pair *p, const block *input, size_t nbytes)
{
    block b = block_make(p, input->capacity, input->offset);
    memcpy(b.bytes, input->bytes, b.capacity);
    for (int64_t left = random_below(p, 4) ? random_below(p, 20) : 0; left > 0 && nbytes; left--)
        b.bytes[b.offset + (size_t)random_below(p, (int64_t)nbytes)] ^= (uint8_t)random_next(p);
    block_upload(p, &b);
    return b;
}

static bool comparisons_equal(pair *p, const gmv_comparison_partial *sides)
{
    const gmv_comparison_partial *a = &sides[0], *b = &sides[1];
    if (a->n != b->n || a->differing != b->differing || a->first != b->first ||
        a->integer_difference != b->integer_difference)
        return differ(p, "host has %llu that differ, from %lld on, CUDA %llu from %lld on",
                      (unsigned long long)a->differing, (long long)a->first,
                      (unsigned long long)b->differing, (long long)b->first);
    return close_enough(p, "difference", a->difference, b->difference, 4 * UNIT * a->difference) &&
           close_enough(p, "relative difference", a->relative_difference, b->relative_difference,
                        8 * UNIT * a->relative_difference);
}

static bool case_compare(pair *p, int64_t n)
{
    gmv_dtype dtype = random_dtype(p, false);
    size_t itemsize = gmv_dtype_describe(dtype)->itemsize;
    gmv_comparison_partial sides[SIDES];
    n /= (int64_t)itemsize;
    block a = elements_make(p, dtype, n), b = elements_change(p, &a, (size_t)n * itemsize);
    block scratch = block_output(p, (size_t)gmv_comparison_scratch_nbytes(dtype, n), 0);
    bits_input valid_a = bits_make(p, n), valid_b = bits_make(p, n);
    bool alike = random_below(p, 2), nan_equal = random_below(p, 2);
    double tolerance = random_below(p, 2) ? 0 : 0.5;
    for (int s = 0; s < SIDES; s++) {
        must(gmv_kernel_compare(
            p->streams[s],
            &(gmv_comparison_reduction){
                .dtype = dtype,
                .inputs = {block_address(&a, s), block_address(&b, s)},
                .validities = {bits_on(&valid_a, s), bits_on(alike ? &valid_a : &valid_b, s)},
                .n = n,
                .nan_equal = nan_equal,
                .absolute_tolerance = tolerance,
                .relative_tolerance = tolerance / 1024,
                .scratch = block_address(&scratch, s)},
            &err));
        must(gmv_copy_out(p->streams[s], &sides[s], block_address(&scratch, s), sizeof sides[s],
                          &err));
    }
    finish(p);
    bool equal = comparisons_equal(p, sides);
    block_free(&a);
    block_free(&b);
    block_free(&scratch);
    bits_free(&valid_a);
    bits_free(&valid_b);
    return equal;
}

/* Few bins and many, around numbers that are there or not. */
static bool case_histogram(pair *p, int64_t n)
{
    gmv_dtype dtype = random_dtype(p, true);
    int64_t n_bins = 1 + random_below(p, random_below(p, 4) ? 100 : 5000);
    n /= gmv_dtype_describe(dtype)->itemsize;
    block input = elements_make(p, dtype, n);
    block edges = block_input(p, (size_t)(n_bins + 1) * sizeof(double));
    block counts = block_output(p, (size_t)(n_bins + GMV_HISTOGRAM_RESTS) * sizeof(uint64_t), 0);
    bits_input validity = bits_make(p, n);
    double first = (double)random_below(p, 300000) - 150000, width = 1. / (1 << random_below(p, 9));
    double *values = (double *)(void *)(edges.bytes + edges.offset);
    for (int64_t i = 0; i <= n_bins; i++)
        values[i] = first + (double)i * width;
    memset(counts.bytes + counts.offset, 0, (size_t)(n_bins + GMV_HISTOGRAM_RESTS) * 8);
    block_upload(p, &edges);
    block_upload(p, &counts);
    for (int s = 0; s < SIDES; s++)
        must(gmv_kernel_histogram(p->streams[s],
                                  &(gmv_histogram_reduction){.dtype = dtype,
                                                             .input = block_address(&input, s),
                                                             .validity = bits_on(&validity, s),
                                                             .n = n,
                                                             .edges = block_address(&edges, s),
                                                             .n_bins = n_bins,
                                                             .first_edge = values[0],
                                                             .last_edge = values[n_bins],
                                                             .counts = block_address(&counts, s)},
                                  &err));
    bool equal = block_equal(p, &counts, "counts");
    block_free(&input);
    block_free(&edges);
    block_free(&counts);
    bits_free(&validity);
    return equal;
}

/* Checksums take what is aligned to 16: the bytes begin where the allocation does. */
static block bytes_make(pair *p, size_t nbytes)
{
    block b = block_make(p, (size_t)gmv_round_up(nbytes ? nbytes : 1, 64), 0);
    random_fill(p, b.bytes, b.capacity);
    block_upload(p, &b);
    return b;
}

static bool case_hash_blocks(pair *p, int64_t n)
{
    gmv_hash hash = random_below(p, 2) ? GMV_HASH_XXH3 : GMV_HASH_XXH64;
    uint64_t block_nbytes =
        GMV_HASH_BLOCK_MIN + 64 * (uint64_t)random_below(p, random_below(p, 2) ? 4 : 300);
    n = n * 16 / (int64_t)block_nbytes + 1;
    block input = bytes_make(p, (size_t)n * block_nbytes);
    block output = block_output(p, (size_t)n * sizeof(uint64_t), 0);
    for (int s = 0; s < SIDES; s++)
        must(gmv_kernel_hash_blocks(p->streams[s],
                                    &(gmv_hash_blocks){.hash = hash,
                                                       .input = block_address(&input, s),
                                                       .block_nbytes = block_nbytes,
                                                       .n = n,
                                                       .output = block_address(&output, s)},
                                    &err));
    bool equal = block_equal(p, &output, "hashes");
    block_free(&input);
    block_free(&output);
    return equal;
}

static bool case_crc32c(pair *p, int64_t n)
{
    n = random_below(p, 3) ? n : n * 50;
    block input = bytes_make(p, (size_t)n);
    block output = block_output(
        p, (size_t)(((uint64_t)n + GMV_CRC_TILE - 1) / GMV_CRC_TILE) * sizeof(uint32_t), 0);
    for (int s = 0; s < SIDES; s++)
        must(gmv_kernel_crc32c(p->streams[s],
                               &(gmv_crc32c){.input = block_address(&input, s),
                                             .nbytes = (uint64_t)n,
                                             .output = block_address(&output, s)},
                               &err));
    bool equal = block_equal(p, &output, "registers");
    block_free(&input);
    block_free(&output);
    return equal;
}

/* ---- what a stream keeps --------------------------------------------------------------------- */

/* More numbers, uploads and small copies than a stream has places for between two waits. */
static bool case_many_before_finish(pair *p, int64_t n)
{
    enum { CALLS = 150 };
    int64_t numbers[SIDES][CALLS];
    uint8_t copies[SIDES][CALLS][8];
    gmv_bit_range ranges[2] = {{1, n + 8}, {0, n}};
    block bits = block_input(p, (size_t)n / 8 + 16);
    bool equal = true;
    for (int s = 0; s < SIDES; s++) {
        for (int i = 0; i < CALLS; i++) {
            must(gmv_kernel_count_bits(p->streams[s],
                                       &(gmv_count_bits){.address = block_address(&bits, s),
                                                         .ranges = ranges,
                                                         .n_ranges = 1,
                                                         .out_counts = &numbers[s][i]},
                                       &err));
            must(gmv_copy_in(p->streams[s], block_address(&bits, s) + 3, &i, sizeof i, &err));
            must(gmv_copy_out(p->streams[s], copies[s][i], block_address(&bits, s), 8, &err));
        }
    }
    finish(p);
    for (int i = 0; i < CALLS && equal; i++)
        equal = numbers_equal(p, (const int64_t[]){numbers[0][i], numbers[1][i]}, "ones") &&
                (memcmp(copies[0][i], copies[1][i], 8) == 0 || differ(p, "copy %d differs", i));
    block_free(&bits);
    return equal;
}

static bool case_copies(pair *p, int64_t n)
{
    block from = block_input(p, (size_t)n + 1), to = block_output(p, (size_t)n + 1, 0);
    size_t shift = (size_t)random_below(p, 30);
    for (int s = 0; s < SIDES; s++) {
        must(gmv_copy_within(p->streams[s], block_address(&to, s) + shift, block_address(&from, s),
                             (uint64_t)n, &err));
        must(gmv_fill(p->streams[s], block_address(&to, s), 0x5a, shift, &err));
    }
    bool equal = block_equal(p, &to, "copy");
    block_free(&from);
    block_free(&to);
    return equal;
}

/* ---- all of them ----------------------------------------------------------------------------- */

static const struct {
    const char *name;
    bool (*run)(pair *p, int64_t n);
    int share; /* of the rounds: 1 in so many */
} cases[] = {
    {"bytes to a mask", case_valid_bytes, 1},
    {"floats to a mask", case_valid_f4, 1},
    {"doubles to a mask", case_valid_f8, 1},
    {"bits to bools", case_bits_to_bools, 1},
    {"copied bits", case_copy_bits, 1},
    {"set bits", case_set_bits, 1},
    {"combined masks", case_combine_bits, 1},
    {"counted bits", case_count_bits, 1},
    {"found bits", case_find_bit, 1},
    {"checked indices", case_check_indices, 1},
    {"sequences", case_sequence, 2},
    {"gathered elements", case_gather, 1},
    {"turned elements", case_transpose, 1},
    {"packed pieces", case_copy_pieces, 4},
    {"statistics", case_statistics, 1},
    {"compared elements", case_compare, 1},
    {"histograms", case_histogram, 2},
    {"hashed blocks", case_hash_blocks, 4},
    {"registers of CRC-32C", case_crc32c, 4},
    {"partitions of tables", case_split, 4},
    {"many calls before a wait", case_many_before_finish, 40},
    {"copies and fills", case_copies, 2},
};

#define N_CASES (sizeof cases / sizeof cases[0])

static void run_case(pair *p, size_t i, int rounds)
{
    bool equal = true;
    int round = 0;
    for (; round < rounds / cases[i].share + 1 && equal; round++) {
        p->state = (uint64_t)i << 32 | (uint64_t)round;
        equal = cases[i].run(p, GMV_MIN(random_length(p), (int64_t)p->longest));
    }
    printf("%sok %zu - %s are the same on both (%d rounds)\n", equal ? "" : "not ", i + 1,
           cases[i].name, round);
    if (!equal)
        printf("# round %d: %s\n", round - 1, p->problem);
    fflush(stdout);
}

/* Long enough for every stage of a sum, and for several chunks of a big copy. */
static void run_long(pair *p, size_t number)
{
    bool equal = true;
    size_t i = 0;
    for (; i < N_CASES && equal; i++) {
        p->state = 77 + i;
        if (cases[i].run != case_gather && cases[i].run != case_copy_pieces &&
            cases[i].run != case_split && cases[i].run != case_transpose &&
            cases[i].run != case_many_before_finish)
            equal = cases[i].run(p, (int64_t)p->longest - random_below(p, 100));
    }
    printf("%sok %zu - long inputs are the same on both\n", equal ? "" : "not ", number);
    if (!equal)
        printf("# %s: %s\n", cases[i - 1].name, p->problem);
    fflush(stdout);
}

/* More pieces and ranges than one launch takes. */
static void run_many(pair *p, size_t number, size_t n)
{
    p->state = 99;
    bits_input bits = {.present = true, .offset = 5, .block = block_input(p, 4096)};
    bool equal = check_pieces(p, n, 100) && count_ranges(p, &bits, 30000, 2 * n);
    bits_free(&bits);
    printf("%sok %zu - tables of many pieces are the same on both\n", equal ? "" : "not ", number);
    if (!equal)
        printf("# %s\n", p->problem);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : DIFFERENTIAL_ROUNDS;
    pair p = {.longest = (argc > 2 ? (size_t)atoi(argv[2]) : DIFFERENTIAL_KIB) << 10};
    gmv_error why;
    int32_t count;
    gmv_error_init(&why);
    if (gmv_cuda_device_count(&count, &why) != GMV_OK || count == 0) {
        printf("1..0 # SKIP no CUDA device: %s\n", why.message);
        return 0;
    }
    must(gmv_device_open_host(NULL, &p.devices[0], &err));
    must(gmv_device_open_cuda(NULL, &p.devices[1], &err));
    for (int s = 0; s < SIDES; s++)
        must(gmv_stream_create(p.devices[s], &p.streams[s], &err));
    printf("1..%zu\n", N_CASES + 2);
    for (size_t i = 0; i < N_CASES; i++)
        run_case(&p, i, rounds);
    run_long(&p, N_CASES + 1);
    run_many(&p, N_CASES + 2, rounds > 100 ? 20000 : 500);
    for (int s = 0; s < SIDES; s++) {
        gmv_stream_destroy(p.streams[s]);
        gmv_device_close(p.devices[s]);
    }
    return 0;
}
