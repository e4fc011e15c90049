/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every kernel of every device against a reference that goes bit by bit, on random shapes,
 * alignments and offsets. Inputs end, or begin, where a forbidden page begins, or ends: a kernel
 * that reads a byte too many dies.
 */
#include "device/device_support.h"

#include <math.h>

#include <gmv/base/num.h>

#define ROUNDS 3000

#define ARENA_REGIONS 3

/* Memory that the rounds of one test share; a device that is not the host has twins of it. */
typedef struct arena {
    union {
        struct {
            guarded input, other, output;
        };
        guarded regions[ARENA_REGIONS];
    };
    gmv_memory *twins[ARENA_REGIONS];
    uint64_t state;
} arena;

#define ARENA_NBYTES ((size_t)64 << 10)

/* The one of the test that runs. */
static arena *arena_now;

static size_t region_nbytes(const arena *a, size_t i)
{
    return (size_t)(a->regions[i].end - a->regions[i].begin);
}

static arena *arena_make(world *w, uint64_t seed)
{
    static arena a;
    a.state = seed;
    for (size_t i = 0; i < ARENA_REGIONS; i++) {
        a.regions[i] = guarded_make(ARENA_NBYTES);
        if (w->row->is_cuda)
            a.twins[i] =
                make_memory(w, GMV_MEMORY_ORDINARY, GMV_CONTENTS_ZEROED, region_nbytes(&a, i));
    }
    arena_now = &a;
    return &a;
}

static void arena_free(arena *a)
{
    for (size_t i = 0; i < ARENA_REGIONS; i++) {
        guarded_free(a->regions[i]);
        gmv_memory_free(a->twins[i]);
    }
}

/* Where the device finds what is at `pointer`. */
static uint64_t place_of(const void *pointer)
{
    const uint8_t *byte = pointer;
    for (size_t i = 0; i < ARENA_REGIONS; i++) {
        const guarded *region = &arena_now->regions[i];
        if (arena_now->twins[i] && byte >= region->begin && byte <= region->end)
            return arena_now->twins[i]->address + (uint64_t)(byte - region->begin);
    }
    return address_of(pointer);
}

static void arena_send(world *w)
{
    for (size_t i = 0; i < ARENA_REGIONS; i++)
        if (arena_now->twins[i])
            must(w, gmv_copy_in(w->stream, arena_now->twins[i]->address,
                                arena_now->regions[i].begin, region_nbytes(arena_now, i), &w->err));
}

static void arena_receive(world *w)
{
    for (size_t i = 0; i < ARENA_REGIONS; i++)
        if (arena_now->twins[i])
            must(w,
                 gmv_copy_out(w->stream, arena_now->regions[i].begin, arena_now->twins[i]->address,
                              region_nbytes(arena_now, i), &w->err));
    must(w, gmv_stream_finish(w->stream, &w->err));
}

/* One kernel, from what the arena holds to what it holds then. */
#define compute(w, call)   \
    do {                   \
        arena_send(w);     \
        must((w), (call)); \
        arena_receive(w);  \
    } while (0)

/* `nbytes` at the end or the beginning of guarded memory, filled at random. */
static uint8_t *arena_place(arena *a, guarded memory, size_t nbytes)
{
    uint8_t *bytes = random_below(&a->state, 3) ? memory.end - nbytes : memory.begin;
    random_fill(&a->state, bytes, nbytes);
    return bytes;
}

/* A string of n bits that begins `*out_offset` bits after the address and ends at a page's edge. */
static uint8_t *arena_bits(arena *a, guarded memory, int64_t n, int64_t *out_offset)
{
    *out_offset = random_below(&a->state, 4) ? random_below(&a->state, 100) : 0;
    return arena_place(a, memory, (size_t)(*out_offset + n + 7) / 8);
}

/* An output of a multiple of 64 bytes that ends at a forbidden page. */
static uint8_t *arena_output(arena *a, size_t nbytes)
{
    uint8_t *output = a->output.end - nbytes;
    memset(output - 64, 0xa5, nbytes + 64);
    return output;
}

static bool bit_at(const uint8_t *bits, int64_t index)
{
    return !bits || (bits[index / 8] >> index % 8 & 1);
}

static size_t mask_nbytes(int64_t n)
{
    return (size_t)(n + 511) / 512 * 64;
}

/* Compares a mask, whose expected bits are one a byte, to its very end; returns the ones. */
static int64_t check_mask(world *w, const uint8_t *mask, size_t nbytes, const uint8_t *expected,
                          int64_t n)
{
    int64_t count = 0;
    for (int64_t i = 0; i < (int64_t)nbytes * 8; i++) {
        bool want = i < n && expected[i];
        cr_assert_eq(bit_at(mask, i), want, "%s: bit %lld of %lld", w->row->name, (long long)i,
                     (long long)n);
        count += want;
    }
    return count;
}

/* ---- elements to bits ------------------------------------------------------------------------ */

static const size_t itemsizes[] = {1, 4, 8};

static void put_special_floats(arena *a, uint8_t *input, int64_t n, size_t itemsize)
{
    static const uint32_t f4[] = {0x7f800000, 0x7f800001, 0x7fc00000, 0xff800000,
                                  0xff800001, 0xffffffff, 0x7fffffff, 0x00000000,
                                  0x80000000, 0x7f7fffff, 0x00000001, 0x3f800000};
    static const uint64_t f8[] = {0x7ff0000000000000, 0x7ff0000000000001, 0x7ff8000000000000,
                                  0xfff0000000000000, 0xfff0000000000001, 0xffffffffffffffff,
                                  0x7fffffffffffffff, 0x0000000000000000, 0x8000000000000000,
                                  0x7fefffffffffffff, 0x0000000000000001, 0x7ff00000ffffffff};
    for (int64_t i = 0; i < n; i++) {
        size_t which = (size_t)random_below(&a->state, 18);
        if (which < 12)
            memcpy(input + (size_t)i * itemsize,
                   itemsize == 4 ? (const void *)&f4[which] : (const void *)&f8[which], itemsize);
    }
}

static bool reference_valid(gmv_predicate predicate, const uint8_t *input, int64_t i)
{
    float f4;
    double f8;
    switch (predicate) {
    case GMV_PREDICATE_NONZERO_BYTE:
        return input[i] != 0;
    case GMV_PREDICATE_NOT_NAN_F4:
        memcpy(&f4, input + 4 * i, 4);
        return !isnan(f4);
    case GMV_PREDICATE_NOT_NAN_F8:
        memcpy(&f8, input + 8 * i, 8);
        return !isnan(f8);
    }
    return false;
}

static void check_valid_if(world *w, arena *a, gmv_predicate predicate)
{
    static uint8_t expected[8192];
    size_t itemsize = itemsizes[predicate];
    int64_t n = random_length(&a->state), offset = 0, null_count = -1;
    uint8_t *input = arena_place(a, a->input, (size_t)n * itemsize);
    const uint8_t *validity = NULL;
    if (itemsize > 1)
        put_special_floats(a, input, n, itemsize);
    if (random_below(&a->state, 2))
        validity = arena_bits(a, a->other, n, &offset);
    size_t nbytes = mask_nbytes(n) + 64 * (size_t)random_below(&a->state, 2);
    uint8_t *output = arena_output(a, nbytes);
    for (int64_t i = 0; i < n; i++)
        expected[i] = reference_valid(predicate, input, i) && bit_at(validity, offset + i);
    compute(w, gmv_kernel_valid_if(w->stream,
                                   &(gmv_valid_if){.predicate = predicate,
                                                   .input = place_of(input),
                                                   .validity = {place_of(validity), offset},
                                                   .n = n,
                                                   .output = place_of(output),
                                                   .output_nbytes = nbytes,
                                                   .out_null_count = &null_count},
                                   &w->err));
    must(w, gmv_stream_finish(w->stream, &w->err));
    cr_assert_eq(null_count, n - check_mask(w, output, nbytes, expected, n));
    cr_assert(bytes_are(output - 64, 0xa5, 64));
}

DEVICE_TEST(kernels, valid_if_nonzero_byte_is_exact)
{
    arena *a = arena_make(w, 1);
    for (int i = 0; i < ROUNDS; i++)
        check_valid_if(w, a, GMV_PREDICATE_NONZERO_BYTE);
    arena_free(a);
}

DEVICE_TEST(kernels, valid_if_not_nan_f4_is_exact)
{
    arena *a = arena_make(w, 2);
    for (int i = 0; i < ROUNDS; i++)
        check_valid_if(w, a, GMV_PREDICATE_NOT_NAN_F4);
    arena_free(a);
}

DEVICE_TEST(kernels, valid_if_not_nan_f8_is_exact)
{
    arena *a = arena_make(w, 3);
    for (int i = 0; i < ROUNDS; i++)
        check_valid_if(w, a, GMV_PREDICATE_NOT_NAN_F8);
    arena_free(a);
}

/* ---- bits to elements and bits --------------------------------------------------------------- */

DEVICE_TEST(kernels, bits_to_bools_is_exact)
{
    arena *a = arena_make(w, 4);
    for (int round = 0; round < ROUNDS; round++) {
        int64_t n = random_length(&a->state), offset = 0;
        const uint8_t *bits = NULL;
        if (random_below(&a->state, 8))
            bits = arena_bits(a, a->input, n, &offset);
        uint8_t *output = arena_output(a, (size_t)n);
        compute(w, gmv_kernel_bits_to_bools(w->stream,
                                            &(gmv_bits_to_bools){.bits = {place_of(bits), offset},
                                                                 .n = n,
                                                                 .output = place_of(output)},
                                            &w->err));
        for (int64_t i = 0; i < n; i++)
            cr_assert_eq(output[i], bit_at(bits, offset + i), "%s: %d of %d", w->row->name, (int)i,
                         (int)n);
        cr_assert(bytes_are(output - 64, 0xa5, 64));
    }
    arena_free(a);
}

static void check_copy_bits(world *w, arena *a, int64_t n)
{
    static uint8_t expected[1 << 20];
    int64_t offset = 0, count = -1;
    const uint8_t *bits = NULL;
    if (random_below(&a->state, 8))
        bits = arena_bits(a, a->input, n, &offset);
    /* The output need not be a multiple of 64; what follows it must stay. */
    size_t nbytes = (size_t)(n + 7) / 8 + (size_t)random_below(&a->state, 80);
    uint8_t *output = arena_output(a, (nbytes + 127) / 64 * 64);
    for (int64_t i = 0; i < n; i++)
        expected[i] = bit_at(bits, offset + i);
    compute(w, gmv_kernel_copy_bits(w->stream,
                                    &(gmv_copy_bits){.bits = {place_of(bits), offset},
                                                     .n = n,
                                                     .output = place_of(output),
                                                     .output_nbytes = nbytes,
                                                     .out_set_count = &count},
                                    &w->err));
    cr_assert_eq(count, check_mask(w, output, nbytes, expected, n));
    cr_assert(bytes_are(output - 64, 0xa5, 64));
    cr_assert(bytes_are(output + nbytes, 0xa5, 64));
}

DEVICE_TEST(kernels, copy_bits_is_exact)
{
    arena *a = arena_make(w, 5);
    for (int round = 0; round < ROUNDS; round++)
        check_copy_bits(w, a, random_length(&a->state));
    for (int round = 0; round < 6; round++)
        check_copy_bits(w, a, 200000 + random_below(&a->state, 200000));
    arena_free(a);
}

HOST_TEST(kernels, copy_bits_past_the_caches_is_exact)
{
    enum { NBYTES = 3 << 20 };
    uint8_t *input = gmv_malloc(NBYTES + 8);
    uint64_t state = 6;
    random_fill(&state, input, NBYTES + 8);
    gmv_memory *memory = make_memory(w, GMV_MEMORY_ORDINARY, GMV_CONTENTS_UNSPECIFIED, NBYTES);
    const uint8_t *output = gmv_memory_host_pointer(memory);
    for (int64_t offset = 0; offset < 8; offset++) {
        int64_t n = (int64_t)NBYTES * 8 - 100 - offset, count = -1, expected = 0;
        must(w, gmv_kernel_copy_bits(w->stream,
                                     &(gmv_copy_bits){.bits = {address_of(input), offset},
                                                      .n = n,
                                                      .output = memory->address,
                                                      .output_nbytes = NBYTES,
                                                      .out_set_count = &count},
                                     &w->err));
        for (int64_t i = 0; i < n / 8; i++) {
            unsigned pair = input[i] | (unsigned)input[i + 1] << 8;
            uint8_t want = (uint8_t)(pair >> offset);
            cr_assert_eq(output[i], want, "byte %d", (int)i);
            expected += __builtin_popcount(want);
        }
        for (int64_t i = n / 8 * 8; i < (int64_t)NBYTES * 8; i++) {
            bool want = i < n && bit_at(input, offset + i);
            cr_assert_eq(bit_at(output, i), want);
            expected += want;
        }
        cr_assert_eq(count, expected);
    }
    gmv_memory_free(memory);
    gmv_free(input);
}

DEVICE_TEST(kernels, set_bits_is_exact)
{
    arena *a = arena_make(w, 7);
    static uint8_t before[8192];
    for (int round = 0; round < ROUNDS; round++) {
        int64_t n = random_length(&a->state) + 1;
        size_t nbytes = (size_t)(n + 7) / 8;
        uint8_t *bits = arena_place(a, a->input, nbytes);
        gmv_bit_range range = {random_below(&a->state, n), n};
        if (random_below(&a->state, 2))
            range.end = range.begin + random_below(&a->state, n - range.begin + 1);
        bool valid = random_below(&a->state, 2);
        memcpy(before, bits, nbytes);
        compute(w, gmv_kernel_set_bits(
                       w->stream,
                       &(gmv_set_bits){.address = place_of(bits), .range = range, .valid = valid},
                       &w->err));
        for (int64_t i = 0; i < (int64_t)nbytes * 8; i++)
            cr_assert_eq(
                bit_at(bits, i), i >= range.begin && i < range.end ? valid : bit_at(before, i),
                "%s: bit %d, [%d, %d)", w->row->name, (int)i, (int)range.begin, (int)range.end);
    }
    arena_free(a);
}

static void check_combine_bits(world *w, arena *a, int64_t n)
{
    static uint8_t expected[1 << 20];
    guarded places[] = {a->input, a->other};
    gmv_bits inputs[5];
    const uint8_t *bits[5];
    size_t n_inputs = 1 + (size_t)random_below(&a->state, 5);
    bool is_or = random_below(&a->state, 2);
    int64_t count = -1;
    for (size_t i = 0; i < n_inputs; i++) {
        bits[i] = NULL;
        inputs[i].offset = 0;
        /* Two places only: inputs after the second share the bytes, at other offsets. */
        if (i < 2 && random_below(&a->state, 6))
            bits[i] = arena_bits(a, places[i], n + 9, &inputs[i].offset);
        else if (i >= 2 && bits[i - 2]) {
            bits[i] = bits[i - 2];
            inputs[i].offset = inputs[i - 2].offset + random_below(&a->state, 4);
        }
        inputs[i].address = place_of(bits[i]);
    }
    for (int64_t i = 0; i < n; i++) {
        expected[i] = !is_or;
        for (size_t j = 0; j < n_inputs; j++) {
            bool bit = bit_at(bits[j], inputs[j].offset + i);
            expected[i] = is_or ? expected[i] | bit : expected[i] & bit;
        }
    }
    size_t nbytes = mask_nbytes(n);
    uint8_t *output = arena_output(a, nbytes);
    compute(w, gmv_kernel_combine_bits(
                   w->stream,
                   &(gmv_combine_bits){.operation = is_or ? GMV_BITS_OR : GMV_BITS_AND,
                                       .inputs = inputs,
                                       .n_inputs = n_inputs,
                                       .n = n,
                                       .output = place_of(output),
                                       .output_nbytes = nbytes,
                                       .out_set_count = &count},
                   &w->err));
    cr_assert_eq(count, check_mask(w, output, nbytes, expected, n));
    cr_assert(bytes_are(output - 64, 0xa5, 64));
}

DEVICE_TEST(kernels, combine_bits_is_exact)
{
    arena *a = arena_make(w, 8);
    for (int round = 0; round < ROUNDS; round++)
        check_combine_bits(w, a, random_length(&a->state));
    for (int round = 0; round < 6; round++)
        check_combine_bits(w, a, 130000 + random_below(&a->state, 200000));
    arena_free(a);
}

/* ---- reading bits ---------------------------------------------------------------------------- */

/* A range whose last byte is the last that may be read. */
static gmv_bit_range random_range(arena *a, const uint8_t **out_bits)
{
    int64_t offset, n = random_length(&a->state);
    *out_bits = arena_bits(a, a->input, n, &offset);
    return (gmv_bit_range){offset, offset + n};
}

DEVICE_TEST(kernels, count_bits_is_exact)
{
    arena *a = arena_make(w, 9);
    for (int round = 0; round < ROUNDS; round++) {
        const uint8_t *bits;
        gmv_bit_range ranges[3] = {random_range(a, &bits)};
        int64_t length = ranges[0].end - ranges[0].begin, counts[3] = {-1, -1, -1};
        ranges[1] = (gmv_bit_range){ranges[0].begin + length / 3, ranges[0].end};
        ranges[2] = (gmv_bit_range){ranges[0].begin, ranges[0].begin + length / 5};
        if (random_below(&a->state, 10) == 0)
            bits = NULL;
        compute(w, gmv_kernel_count_bits(w->stream,
                                         &(gmv_count_bits){.address = place_of(bits),
                                                           .ranges = ranges,
                                                           .n_ranges = 3,
                                                           .out_counts = counts},
                                         &w->err));
        for (size_t i = 0; i < 3; i++) {
            int64_t expected = 0;
            for (int64_t bit = ranges[i].begin; bit < ranges[i].end; bit++)
                expected += bit_at(bits, bit);
            cr_assert_eq(counts[i], expected);
        }
    }
    compute(w, gmv_kernel_count_bits(w->stream, &(gmv_count_bits){.n_ranges = 0}, &w->err));
    arena_free(a);
}

DEVICE_TEST(kernels, find_bit_is_exact)
{
    arena *a = arena_make(w, 10);
    for (int round = 0; round < ROUNDS; round++) {
        const uint8_t *bits;
        gmv_bit_range range = random_range(a, &bits);
        int64_t n = range.end - range.begin, index = -1, expected = 0;
        uint8_t *writable = (uint8_t *)(uintptr_t)bits;
        /* Mostly zeros: noise would end every search in the first byte. */
        if (n > 0 && random_below(&a->state, 4)) {
            memset(writable, 0, (size_t)(range.end + 7) / 8);
            int64_t one = random_below(&a->state, range.end + 1);
            if (one < range.end)
                writable[one / 8] = (uint8_t)(1 << one % 8);
        }
        while (expected < n && !bit_at(bits, range.begin + expected))
            expected++;
        compute(w,
                gmv_kernel_find_bit(
                    w->stream,
                    &(gmv_find_bit){.address = place_of(bits), .range = range, .out_index = &index},
                    &w->err));
        cr_assert_eq(index, expected, "%s: [%d, %d)", w->row->name, (int)range.begin,
                     (int)range.end);
    }
    arena_free(a);
}

/* ---- integers that say where things are ------------------------------------------------------ */

static int64_t integer_at(const uint8_t *bytes, int64_t itemsize, int64_t index)
{
    int8_t one;
    int16_t two;
    int32_t four;
    int64_t eight;
    switch (itemsize) {
    case 1:
        memcpy(&one, bytes + index, sizeof one);
        return one;
    case 2:
        memcpy(&two, bytes + 2 * index, sizeof two);
        return two;
    case 4:
        memcpy(&four, bytes + 4 * index, sizeof four);
        return four;
    default:
        memcpy(&eight, bytes + 8 * index, sizeof eight);
        return eight;
    }
}

/* Good integers, but for a few. */
static void integers_fill(arena *a, uint8_t *bytes, int64_t itemsize, int64_t n, bool in_order)
{
    int64_t value = random_below(&a->state, 3);
    for (int64_t i = 0; i < n; i++) {
        value = in_order ? value + (random_below(&a->state, 100) == 0 && value < 100)
                         : random_below(&a->state, 101);
        memcpy(bytes + i * itemsize, &value, (size_t)itemsize);
    }
    for (int64_t spoilt = random_below(&a->state, 3); n > 0 && spoilt > 0; spoilt--) {
        value = (int64_t)random_next(&a->state) >> random_below(&a->state, 64);
        memcpy(bytes + random_below(&a->state, n) * itemsize, &value, (size_t)itemsize);
    }
}

DEVICE_TEST(kernels, check_indices_finds_the_first_bad_one)
{
    arena *a = arena_make(w, 21);
    int64_t good = 0;
    for (int round = 0; round < ROUNDS; round++) {
        const int64_t itemsize = 1 << round % 4, n = random_below(&a->state, 6000 / itemsize);
        const bool in_order = random_below(&a->state, 2), some = random_below(&a->state, 2);
        const int64_t limit = random_below(&a->state, 8) ? 100 : random_below(&a->state, 100) - 1;
        int64_t offset, index = -1, expected = 0;
        uint8_t *bytes = arena_place(a, a->input, (size_t)(n * itemsize));
        const uint8_t *bits = arena_bits(a, a->other, n, &offset);
        integers_fill(a, bytes, itemsize, n, in_order);
        for (; expected < n; expected++) {
            const int64_t value = integer_at(bytes, itemsize, expected);
            if (!in_order && some && !bit_at(bits, offset + expected))
                continue;
            if (value < 0 || value > limit ||
                (in_order && expected > 0 && value < integer_at(bytes, itemsize, expected - 1)))
                break;
        }
        compute(w, gmv_kernel_check_indices(
                       w->stream,
                       &(gmv_check_indices){
                           .address = place_of(bytes),
                           .itemsize = itemsize,
                           .in_order = in_order,
                           .validity = {some ? place_of(bits) : 0, some ? offset : 0},
                           .n = n,
                           .limit = limit,
                           .out_index = &index,
                       },
                       &w->err));
        cr_assert_eq(index, expected, "%s: round %d: %lld, not %lld of %lld", w->row->name, round,
                     (long long)index, (long long)expected, (long long)n);
        good += n > 0 && index == n;
    }
    cr_assert_gt(good, ROUNDS / 10);
    cr_assert_lt(good, ROUNDS / 10 * 9);
    arena_free(a);
}

DEVICE_TEST(kernels, a_sequence_ends_where_it_should)
{
    arena *a = arena_make(w, 22);
    for (int round = 0; round < ROUNDS / 10; round++) {
        const int64_t n = random_below(&a->state, 3000);
        const int32_t step = (int32_t)random_below(&a->state, INT32_MAX / 3000);
        uint8_t *output = arena_output(a, (size_t)(4 * n));
        compute(
            w, gmv_kernel_sequence(w->stream, &(gmv_sequence){place_of(output), n, step}, &w->err));
        for (int64_t i = 0; i < n; i++)
            cr_assert_eq(integer_at(output, 4, i), i * step);
        for (int64_t i = 1; i <= 64; i++)
            cr_assert_eq(output[-i], 0xa5);
    }
    arena_free(a);
}

/* ---- strided elements ------------------------------------------------------------------------ */

/*
 * A random strided array inside `nbytes` bytes: extents, strides of both signs and 0, in any order.
 * Returns the byte offset of element 0.
 */
static int64_t random_layout(uint64_t *state, int64_t itemsize, int64_t nbytes, gmv_layout *layout)
{
    int64_t low = 0, high = itemsize;
    *layout = (gmv_layout){.ndim = (int32_t)random_below(state, 5), .has_strides = true};
    for (int32_t i = 0; i < layout->ndim; i++) {
        int64_t extent = 1 + random_below(state, 7);
        int64_t stride = random_below(state, 3) ? itemsize * (random_below(state, 9) - 3)
                                                : random_below(state, 40) - 20;
        if (random_below(state, 3) == 0 && i > 0)
            stride = layout->strides[i - 1] / GMV_MAX(extent, 1);
        layout->shape[i] = extent;
        layout->strides[i] = stride;
        *(stride < 0 ? &low : &high) += (extent - 1) * stride;
    }
    cr_assert(high - low <= nbytes);
    /* As close to the end as it goes, or to the beginning. */
    return random_below(state, 2) ? nbytes - high : -low;
}

static void reference_gather(const uint8_t *element0, const gmv_layout *layout, int64_t itemsize,
                             int64_t first, int64_t count, uint8_t *output)
{
    for (int64_t i = first; i < first + count; i++) {
        int64_t rest = i;
        const uint8_t *element = element0;
        for (int32_t dim = layout->ndim - 1; dim >= 0; dim--) {
            element += rest % layout->shape[dim] * layout->strides[dim];
            rest /= layout->shape[dim];
        }
        memcpy(output + (i - first) * itemsize, element, (size_t)itemsize);
    }
}

DEVICE_TEST(kernels, gather_is_exact)
{
    static const int64_t sizes[] = {1, 2, 4, 8, 16};
    static uint8_t expected[7 * 7 * 7 * 7 * 16];
    arena *a = arena_make(w, 11);
    size_t nbytes = (size_t)(a->input.end - a->input.begin);
    random_fill(&a->state, a->input.begin, nbytes);
    for (int round = 0; round < ROUNDS; round++) {
        gmv_layout layout;
        int64_t itemsize = sizes[random_below(&a->state, 5)], size = 1;
        int64_t offset = random_layout(&a->state, itemsize, (int64_t)nbytes, &layout);
        for (int32_t i = 0; i < layout.ndim; i++)
            size *= layout.shape[i];
        int64_t first = random_below(&a->state, 2) ? 0 : random_below(&a->state, size);
        int64_t count =
            random_below(&a->state, 2) ? size - first : random_below(&a->state, size - first + 1);
        uint8_t *output = arena_output(a, (size_t)(count * itemsize));
        reference_gather(a->input.begin + offset, &layout, itemsize, first, count, expected);
        compute(w, gmv_kernel_gather(w->stream,
                                     &(gmv_gather){.address = place_of(a->input.begin + offset),
                                                   .layout = &layout,
                                                   .itemsize = itemsize,
                                                   .first = first,
                                                   .count = count,
                                                   .output = place_of(output)},
                                     &w->err));
        cr_assert_eq(memcmp(output, expected, (size_t)(count * itemsize)), 0, "%s: round %d",
                     w->row->name, round);
        cr_assert(bytes_are(output - 64, 0xa5, 64));
    }
    arena_free(a);
}

DEVICE_TEST(kernels, gather_of_a_contiguous_layout_is_a_copy)
{
    arena *a = arena_make(w, 12);
    uint8_t *input = arena_place(a, a->input, 1000 * 8);
    gmv_layout layout = gmv_layout_flat(1000);
    uint8_t *output = arena_output(a, 900 * 8);
    compute(w, gmv_kernel_gather(w->stream,
                                 &(gmv_gather){.address = place_of(input),
                                               .layout = &layout,
                                               .itemsize = 8,
                                               .first = 100,
                                               .count = 900,
                                               .output = place_of(output)},
                                 &w->err));
    cr_expect_eq(memcmp(output, input + 800, 7200), 0);
    gmv_layout empty = {.ndim = 2, .has_strides = true, .shape = {3, 0}, .strides = {8, 8}};
    compute(w, gmv_kernel_gather(
                   w->stream,
                   &(gmv_gather){.address = place_of(input), .layout = &empty, .itemsize = 8},
                   &w->err));
    arena_free(a);
}

/* ---- packed tables --------------------------------------------------------------------------- */

DEVICE_TEST(kernels, copy_pieces_writes_every_byte)
{
    arena *a = arena_make(w, 13);
    for (int round = 0; round < ROUNDS / 4; round++) {
        gmv_copy_piece pieces[4];
        int64_t counts[4] = {-1, -1, -1, -1}, lengths[4], offset;
        guarded inputs[] = {a->input, a->other};
        const uint8_t *sources[4];
        size_t total = 0;
        for (size_t i = 0; i < 4; i++) {
            int64_t n = lengths[i] = random_length(&a->state);
            bool is_bits = random_below(&a->state, 2);
            pieces[i] = (gmv_copy_piece){.is_bits = is_bits};
            if (i >= 2) {
                /* Shares the bytes of an earlier piece. */
                pieces[i] = pieces[i - 2];
                sources[i] = sources[i - 2];
                lengths[i] = lengths[i - 2];
            } else if (is_bits) {
                sources[i] = arena_bits(a, inputs[i], n, &offset);
                pieces[i].bits = (gmv_bits){place_of(sources[i]), offset};
                pieces[i].n = n;
            } else {
                sources[i] = arena_place(a, inputs[i], (size_t)n);
                pieces[i].source = place_of(sources[i]);
                pieces[i].nbytes = (uint64_t)n;
            }
            uint64_t nbytes =
                pieces[i].is_bits ? ((uint64_t)pieces[i].n + 7) / 8 : pieces[i].nbytes;
            pieces[i].capacity =
                (nbytes + 63) / 64 * 64 + 64 * (uint64_t)random_below(&a->state, 2);
            pieces[i].out_set_count = pieces[i].is_bits ? &counts[i] : NULL;
            total += pieces[i].capacity;
        }
        uint8_t *output = arena_output(a, total);
        for (size_t i = 0, at = 0; i < 4; at += pieces[i].capacity, i++)
            pieces[i].destination = place_of(output + at);
        compute(w, gmv_kernel_copy_pieces(w->stream, pieces, 4, &w->err));
        for (size_t i = 0; i < 4; i++) {
            const uint8_t *to = output + (pieces[i].destination - place_of(output));
            int64_t ones = 0;
            if (!pieces[i].is_bits) {
                cr_assert_eq(memcmp(to, sources[i], (size_t)lengths[i]), 0);
                cr_assert(bytes_are(to + lengths[i], 0, pieces[i].capacity - (size_t)lengths[i]));
                continue;
            }
            for (int64_t bit = 0; bit < (int64_t)pieces[i].capacity * 8; bit++) {
                bool want = bit < lengths[i] && bit_at(sources[i], pieces[i].bits.offset + bit);
                cr_assert_eq(bit_at(to, bit), want);
                ones += want;
            }
            cr_assert_eq(counts[i], ones);
        }
        cr_assert(bytes_are(output - 64, 0xa5, 64));
    }
    compute(w, gmv_kernel_copy_pieces(w->stream, NULL, 0, &w->err));
    arena_free(a);
}

DEVICE_TEST(kernels, results_that_nobody_wants_are_not_written)
{
    gmv_memory *memory = make_memory(w, GMV_MEMORY_ORDINARY, GMV_CONTENTS_ZEROED, 4096);
    const gmv_bits bits = {memory->address, 5};
    const gmv_bit_range range = {5, 1000};
    const uint64_t output = memory->address + 2048;
    must(w, gmv_kernel_valid_if(
                w->stream,
                &(gmv_valid_if){
                    .input = memory->address, .n = 500, .output = output, .output_nbytes = 64},
                &w->err));
    must(w, gmv_kernel_copy_bits(
                w->stream,
                &(gmv_copy_bits){.bits = bits, .n = 500, .output = output, .output_nbytes = 64},
                &w->err));
    must(w, gmv_kernel_count_bits(
                w->stream,
                &(gmv_count_bits){.address = memory->address, .ranges = &range, .n_ranges = 1},
                &w->err));
    must(w, gmv_kernel_find_bit(
                w->stream, &(gmv_find_bit){.address = memory->address, .range = range}, &w->err));
    must(w,
         gmv_kernel_check_indices(
             w->stream, &(gmv_check_indices){.address = memory->address, .itemsize = 8, .n = 100},
             &w->err));
    must(w, gmv_stream_finish(w->stream, &w->err));
    gmv_memory_free(memory);
}
