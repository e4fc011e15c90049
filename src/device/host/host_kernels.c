/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels of the host backend: resolves addresses, hands whole words to the device's kernel set
 * and does the bits before and after them here. Counts are of what was written, not of what a
 * second read would find: another process may change an input at any moment.
 */
#include "device/host/host.h"

#include <gmv/base/num.h>

static const host_kernel_set *stream_kernels(const gmv_stream *stream)
{
    return host_device_of(stream->device)->kernels;
}

static uint8_t *pointer_of(uint64_t address)
{
    return (uint8_t *)(uintptr_t)address;
}

/* ---- strings of bits ---- */

/* Where bits begin, as kernel sets take it; first is NULL for all ones. */
typedef struct bit_cursor {
    const uint8_t *first;
    unsigned shift;
} bit_cursor;

static bit_cursor cursor_of(gmv_bits bits)
{
    if (bits.address == 0)
        return (bit_cursor){NULL, 0};
    return (bit_cursor){pointer_of(bits.address) + bits.offset / 8, (unsigned)(bits.offset % 8)};
}

static const uint8_t *cursor_word(bit_cursor cursor, size_t index)
{
    return cursor.first ? cursor.first + 8 * index : NULL;
}

static uint64_t low_ones(unsigned n_bits)
{
    return n_bits >= 64 ? UINT64_MAX : (UINT64_C(1) << n_bits) - 1;
}

/* 1 to 8 bytes as a word, the rest 0. */
GMV_CLIENT_MEMORY static uint64_t load_bytes(const uint8_t *address, unsigned nbytes)
{
    uint64_t word = 0;
    for (unsigned i = 0; i < nbytes; i++)
        word |= (uint64_t)address[i] << 8 * i;
    return word;
}

GMV_CLIENT_MEMORY static void store_bytes(uint8_t *address, uint64_t word, unsigned nbytes)
{
    for (unsigned i = 0; i < nbytes; i++)
        address[i] = (uint8_t)(word >> 8 * i);
}

/* Fewer than 64 bits, from the bytes that hold them only. */
GMV_CLIENT_MEMORY static uint64_t load_bits(const uint8_t *bits, unsigned shift, unsigned n_bits)
{
    if (n_bits == 0)
        return 0;
    if (!bits)
        return low_ones(n_bits);
    unsigned nbytes = (shift + n_bits + 7) / 8;
    uint64_t word = load_bytes(bits, GMV_MIN(nbytes, 8u)) >> shift;
    if (nbytes > 8)
        word |= (uint64_t)bits[8] << (64 - shift);
    return word & low_ones(n_bits);
}

static int64_t count_ones(uint64_t word)
{
    return __builtin_popcountll(word);
}

/* Writes the last, partial word of an output and zeros up to its end. */
static void finish_output(uint8_t *output, uint64_t output_nbytes, int64_t n, uint64_t word)
{
    uint64_t whole = (uint64_t)n / 64 * 8;
    unsigned nbytes = ((unsigned)(n % 64) + 7) / 8;
    if (nbytes)
        store_bytes(output + whole, word, nbytes);
    client_fill(output + whole + nbytes, 0, output_nbytes - whole - nbytes);
}

/* ---- elements to bits and back ---- */

/* What a predicate says of fewer than 64 elements: they go through a whole word of their own. */
static uint64_t valid_tail(const host_kernel_set *kernels, gmv_predicate predicate,
                           const uint8_t *input, unsigned n)
{
    static const unsigned itemsizes[] = {1, 4, 8};
    uint8_t elements[64 * 8] = {0};
    uint64_t word;
    client_copy(elements, input, (size_t)n * itemsizes[predicate]);
    (void)kernels->valid_words[predicate](elements, NULL, 0, 1, (uint8_t *)&word);
    return word & low_ones(n);
}

gmv_status gmv__host_valid_if(gmv_stream *stream, const gmv_valid_if *args, gmv_error *err)
{
    static const unsigned word_nbytes[] = {64, 256, 512};
    const host_kernel_set *kernels = stream_kernels(stream);
    const uint8_t *input = pointer_of(args->input);
    uint8_t *output = pointer_of(args->output);
    bit_cursor validity = cursor_of(args->validity);
    size_t n_words = (size_t)(args->n / 64);
    unsigned rest = (unsigned)(args->n % 64);
    int64_t count = 0;
    uint64_t word = 0;

    if (n_words)
        count = kernels->valid_words[args->predicate](input, validity.first, validity.shift,
                                                      n_words, output);
    if (rest)
        word = valid_tail(kernels, args->predicate, input + n_words * word_nbytes[args->predicate],
                          rest) &
               load_bits(cursor_word(validity, n_words), validity.shift, rest);
    finish_output(output, args->output_nbytes, args->n, word);
    if (args->out_null_count)
        *args->out_null_count = args->n - count - count_ones(word);
    return GMV_OK;
}

gmv_status gmv__host_bits_to_bools(gmv_stream *stream, const gmv_bits_to_bools *args,
                                   gmv_error *err)
{
    bit_cursor bits = cursor_of(args->bits);
    uint8_t *output = pointer_of(args->output);
    size_t n_words = (size_t)(args->n / 64);
    unsigned rest = (unsigned)(args->n % 64);
    if (!bits.first) {
        client_fill(output, 1, (size_t)args->n);
        return GMV_OK;
    }
    const host_kernel_set *kernels = stream_kernels(stream);
    if (n_words)
        kernels->expand_words(bits.first, bits.shift, n_words, output);
    if (rest) {
        uint64_t word = load_bits(cursor_word(bits, n_words), bits.shift, rest);
        uint8_t bools[64];
        kernels->expand_words((const uint8_t *)&word, 0, 1, bools);
        client_copy(output + 64 * n_words, bools, rest);
    }
    return GMV_OK;
}

/* ---- bits to bits ---- */

#define BLOCK_WORDS       1024                /* 8 KiB: stays in the first cache */
#define PAST_CACHE_NBYTES ((uint64_t)1 << 20) /* outputs from here on leave the caches alone */

typedef struct bit_block {
    _Alignas(HOST_ALIGNMENT) uint8_t bytes[8 * BLOCK_WORDS];
} bit_block;

/* The first input's words; all ones where it has no address. */
static void block_begin(bit_block *block, const host_kernel_set *kernels, bit_cursor bits,
                        size_t first_word, size_t n_words)
{
    if (bits.first)
        (void)kernels->copy_words(cursor_word(bits, first_word), bits.shift, n_words, block->bytes,
                                  0);
    else
        memset(block->bytes, 0xff, 8 * n_words);
}

/* A further input's words; all ones change nothing in an AND, everything in an OR. */
static void block_add(bit_block *block, const host_kernel_set *kernels,
                      gmv_bits_operation operation, bit_cursor bits, size_t first_word,
                      size_t n_words)
{
    const uint8_t *words = cursor_word(bits, first_word);
    if (words && operation == GMV_BITS_AND)
        kernels->and_words(words, bits.shift, n_words, block->bytes);
    else if (words)
        kernels->or_words(words, bits.shift, n_words, block->bytes);
    else if (operation == GMV_BITS_OR)
        memset(block->bytes, 0xff, 8 * n_words);
}

static unsigned copy_flags(uint64_t output_nbytes, const int64_t *out_count)
{
    return (output_nbytes >= PAST_CACHE_NBYTES ? HOST_COPY_PAST_CACHE : 0) |
           (out_count ? HOST_COPY_COUNT : 0);
}

static uint64_t combine_tail(const gmv_combine_bits *args, size_t first_word, unsigned rest)
{
    bool is_or = args->operation == GMV_BITS_OR;
    uint64_t word = is_or ? 0 : low_ones(rest);
    for (size_t i = 0; i < args->n_inputs; i++) {
        bit_cursor bits = cursor_of(args->inputs[i]);
        uint64_t more = load_bits(cursor_word(bits, first_word), bits.shift, rest);
        word = is_or ? word | more : word & more;
    }
    return word;
}

/* Whole words: combined a block at a time beside the output, which is written once and not read. */
static int64_t combine_words(const host_kernel_set *kernels, const gmv_combine_bits *args,
                             size_t n_words, uint8_t *output)
{
    unsigned copy = copy_flags(args->output_nbytes, args->out_set_count);
    bit_cursor first = cursor_of(args->inputs[0]);
    if (args->n_inputs == 1 && first.first)
        return kernels->copy_words(first.first, first.shift, n_words, output, copy);

    bit_block block;
    int64_t count = 0;
    for (size_t done = 0; done < n_words;) {
        size_t n = GMV_MIN(n_words - done, (size_t)BLOCK_WORDS);
        block_begin(&block, kernels, first, done, n);
        for (size_t i = 1; i < args->n_inputs; i++)
            block_add(&block, kernels, args->operation, cursor_of(args->inputs[i]), done, n);
        count += kernels->copy_words(block.bytes, 0, n, output + 8 * done, copy);
        done += n;
    }
    return count;
}

gmv_status gmv__host_combine_bits(gmv_stream *stream, const gmv_combine_bits *args, gmv_error *err)
{
    uint8_t *output = pointer_of(args->output);
    size_t n_words = (size_t)(args->n / 64);
    unsigned rest = (unsigned)(args->n % 64);
    int64_t count = 0;
    if (n_words)
        count = combine_words(stream_kernels(stream), args, n_words, output);
    uint64_t word = rest ? combine_tail(args, n_words, rest) : 0;
    finish_output(output, args->output_nbytes, args->n, word);
    if (args->out_set_count)
        *args->out_set_count = count + count_ones(word);
    return GMV_OK;
}

gmv_status gmv__host_copy_bits(gmv_stream *stream, const gmv_copy_bits *args, gmv_error *err)
{
    const gmv_combine_bits combination = gmv__combine_of_copy(args);
    return gmv__host_combine_bits(stream, &combination, err);
}

/* Sets or clears the bits that `mask` selects in one byte. */
GMV_CLIENT_MEMORY static void set_in_byte(uint8_t *byte, uint64_t mask, bool valid)
{
    *byte = (uint8_t)(valid ? *byte | mask : *byte & ~mask);
}

gmv_status gmv__host_set_bits(gmv_stream *stream, const gmv_set_bits *args, gmv_error *err)
{
    if (args->range.begin == args->range.end)
        return GMV_OK;
    uint8_t *first = pointer_of(args->address) + args->range.begin / 8;
    uint8_t *last =
        pointer_of(args->address) + args->range.end / 8; /* holds the end's bits, if any */
    uint64_t from_begin = 0xff & ~low_ones((unsigned)(args->range.begin % 8));
    uint64_t to_end = low_ones((unsigned)(args->range.end % 8));
    if (first == last) {
        set_in_byte(first, from_begin & to_end, args->valid);
        return GMV_OK;
    }
    set_in_byte(first, from_begin, args->valid);
    client_fill(first + 1, args->valid ? 0xff : 0, (size_t)(last - first - 1));
    if (to_end)
        set_in_byte(last, to_end, args->valid);
    return GMV_OK;
}

/* ---- reading bits ---- */

/* A range as the bits up to a byte boundary, whole words, and the rest. */
typedef struct split_range {
    const uint8_t *words;
    size_t n_words;
    uint64_t head, tail;
    unsigned n_head, n_tail;
} split_range;

static split_range range_split(uint64_t address, gmv_bit_range range)
{
    const uint8_t *first = pointer_of(address) + range.begin / 8;
    unsigned shift = (unsigned)(range.begin % 8);
    int64_t n = range.end - range.begin;
    split_range split = {0};
    split.n_head = (unsigned)GMV_MIN(n, (int64_t)(shift ? 8 - shift : 0));
    split.head = load_bits(first, shift, split.n_head);
    split.words = first + (shift ? 1 : 0);
    split.n_words = (size_t)(n - split.n_head) / 64;
    split.n_tail = (unsigned)((n - split.n_head) % 64);
    split.tail = load_bits(split.words + 8 * split.n_words, 0, split.n_tail);
    return split;
}

gmv_status gmv__host_count_bits(gmv_stream *stream, const gmv_count_bits *args, gmv_error *err)
{
    const host_kernel_set *kernels = stream_kernels(stream);
    for (size_t i = 0; i < args->n_ranges && args->out_counts; i++) {
        gmv_bit_range range = args->ranges[i];
        args->out_counts[i] = 0;
        if (range.begin >= range.end)
            continue;
        if (args->address == 0) {
            args->out_counts[i] = range.end - range.begin;
            continue;
        }
        split_range split = range_split(args->address, range);
        args->out_counts[i] = count_ones(split.head) +
                              kernels->count_words(split.words, split.n_words) +
                              count_ones(split.tail);
    }
    return GMV_OK;
}

/* The word is read again after it was found: should it have become 0 meanwhile, its first bit is
 * taken. */
GMV_CLIENT_MEMORY static int64_t first_one_at(const uint8_t *word)
{
    uint64_t bits = client_load64(word);
    return bits ? __builtin_ctzll(bits) : 0;
}

gmv_status gmv__host_find_bit(gmv_stream *stream, const gmv_find_bit *args, gmv_error *err)
{
    int64_t n = args->range.end - args->range.begin;
    int64_t index = n;
    if (n > 0 && args->address == 0) {
        index = 0;
    } else if (n > 0) {
        split_range split = range_split(args->address, args->range);
        size_t word = split.n_words;
        if (split.head)
            index = __builtin_ctzll(split.head);
        else if ((word = stream_kernels(stream)->find_word(split.words, split.n_words)) <
                 split.n_words)
            index = split.n_head + (int64_t)word * 64 + first_one_at(split.words + 8 * word);
        else if (split.tail)
            index = n - split.n_tail + __builtin_ctzll(split.tail);
    }
    if (args->out_index)
        *args->out_index = index;
    return GMV_OK;
}

/* ---- strided elements ---- */

/* A position in a strided array: the layout without what does not move, and an index in each
 * extent. */
typedef struct odometer {
    int32_t ndim;
    int64_t shape[GMV_NDIM_MAX];
    int64_t strides[GMV_NDIM_MAX];
    int64_t index[GMV_NDIM_MAX];
    uint64_t element; /* address of the one at `index` */
} odometer;

/* Drops extents of 1 and merges those that are walked as one. */
static void odometer_set_layout(odometer *position, const gmv_layout *layout)
{
    int32_t ndim = 0;
    for (int32_t i = 0; i < layout->ndim; i++) {
        int64_t extent = layout->shape[i], stride = layout->strides[i], span;
        if (extent == 1)
            continue;
        if (ndim > 0 && gmv_mul_checked(extent, stride, &span) &&
            position->strides[ndim - 1] == span) {
            position->shape[ndim - 1] *= extent;
            position->strides[ndim - 1] = stride;
            continue;
        }
        position->shape[ndim] = extent;
        position->strides[ndim] = stride;
        ndim++;
    }
    position->ndim = ndim;
}

/* Moves to the element with number `first` in C order. */
static void odometer_seek(odometer *position, uint64_t address, int64_t first)
{
    position->element = address;
    for (int32_t i = position->ndim - 1; i >= 0; i--) {
        position->index[i] = first % position->shape[i];
        first /= position->shape[i];
        position->element += (uint64_t)(position->index[i] * position->strides[i]);
    }
}

/* Moves `n` on in the last extent, which has that many left, and carries. */
static void odometer_advance(odometer *position, int64_t n)
{
    int32_t last = position->ndim - 1;
    position->index[last] += n;
    position->element += (uint64_t)(n * position->strides[last]);
    for (int32_t i = last; i > 0 && position->index[i] == position->shape[i]; i--) {
        position->element -= (uint64_t)(position->shape[i] * position->strides[i]);
        position->index[i] = 0;
        position->index[i - 1]++;
        position->element += (uint64_t)position->strides[i - 1];
    }
}

typedef struct client_u128 {
    uint64_t low, high;
} __attribute__((packed, may_alias)) client_u128;
typedef struct client_u8 {
    uint8_t value;
} __attribute__((packed, may_alias)) client_u8;

#define DEFINE_GATHER_RUN(name, type)                                                  \
    GMV_CLIENT_MEMORY static void name(const uint8_t *from, int64_t stride, int64_t n, \
                                       uint8_t *output)                                \
    {                                                                                  \
        type *to = (type *)(void *)output;                                             \
        for (int64_t i = 0; i < n; i++)                                                \
            to[i] = *(const type *)(const void *)(from + i * stride);                  \
    }

DEFINE_GATHER_RUN(gather_run_1, client_u8)
DEFINE_GATHER_RUN(gather_run_2, client_u16)
DEFINE_GATHER_RUN(gather_run_4, client_u32)
DEFINE_GATHER_RUN(gather_run_8, client_u64)
DEFINE_GATHER_RUN(gather_run_16, client_u128)

typedef void (*gather_run)(const uint8_t *from, int64_t stride, int64_t n, uint8_t *output);

static const gather_run gather_runs[17] = {
    [1] = gather_run_1, [2] = gather_run_2,   [4] = gather_run_4,
    [8] = gather_run_8, [16] = gather_run_16,
};

/* `count` elements from `position` on, a run of the last extent at a time. */
static void gather_strided(odometer *position, int64_t itemsize, int64_t count, uint8_t *output)
{
    int32_t last = position->ndim - 1;
    int64_t stride = position->strides[last];
    while (count > 0) {
        int64_t n = GMV_MIN(count, position->shape[last] - position->index[last]);
        if (stride == itemsize)
            client_copy(output, pointer_of(position->element), (size_t)(n * itemsize));
        else
            gather_runs[itemsize](pointer_of(position->element), stride, n, output);
        output += n * itemsize;
        count -= n;
        odometer_advance(position, n);
    }
}

gmv_status gmv__host_gather(gmv_stream *stream, const gmv_gather *args, gmv_error *err)
{
    uint8_t *output = pointer_of(args->output);
    if (args->count == 0)
        return GMV_OK;
    if (args->itemsize > 16 || !gather_runs[args->itemsize])
        return gmv_fail(err, GMV_ERR_INTERNAL, NULL, "no element has %lld bytes",
                        (long long)args->itemsize);
    if (!args->layout->has_strides) {
        const uint8_t *first = pointer_of(args->address) + args->first * args->itemsize;
        client_copy(output, first, (size_t)(args->count * args->itemsize));
        return GMV_OK;
    }
    odometer position = {0};
    odometer_set_layout(&position, args->layout);
    odometer_seek(&position, args->address, args->first);
    if (position.ndim == 0)
        client_copy(output, pointer_of(position.element), (size_t)args->itemsize);
    else
        gather_strided(&position, args->itemsize, args->count, output);
    return GMV_OK;
}
