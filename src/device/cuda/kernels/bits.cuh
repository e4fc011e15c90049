/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strings of bits in pieces of 128. A piece lies in one aligned block of 16 bytes or across two, so
 * two aligned loads and a shift get it, whatever byte and bit the string begins at. Blocks that
 * are not wholly inside the string's bytes are read byte by byte: no byte outside is touched.
 */
#ifndef GMV_DEVICE_CUDA_KERNELS_BITS_H
#define GMV_DEVICE_CUDA_KERNELS_BITS_H

#include "device/cuda/kernels/language.cuh"

/* `begin` and `end` bound the bytes that hold the string; blocks 0: all ones. */
typedef struct bit_source {
    uint64_t begin, end;
    uint64_t blocks; /* `begin` rounded down to 16 */
    uint32_t shift;  /* where in its block a piece begins, 0 to 127 */
} bit_source;

DEVICE bit_source source_of(cuda_bits bits, uint64_t n)
{
    bit_source source = {0, 0, 0, 0};
    if (bits.address == 0)
        return source;
    source.begin = bits.address + bits.offset / 8;
    source.end = n ? source.begin + (bits.offset % 8 + n + 7) / 8 : source.begin;
    source.blocks = source.begin & ~UINT64_C(15);
    source.shift = (uint32_t)(source.begin % 16 * 8 + bits.offset % 8);
    return source;
}

/* Where a string's bytes begin and end, seen from a block near by: farther off than it matters. */
typedef struct source_window {
    uint64_t at;
    int32_t begin, end;
} source_window;

DEVICE int32_t window_edge(uint64_t edge, uint64_t at)
{
    int64_t distance = (int64_t)(edge - at);
    return distance < -(1 << 30) ? -(1 << 30) : distance > 1 << 30 ? 1 << 30 : (int32_t)distance;
}

DEVICE source_window window_of(const bit_source *source, uint64_t at)
{
    source_window window = {at, window_edge(source->begin, at), window_edge(source->end, at)};
    return window;
}

/* Whether the bytes from `from` to `to` are all the string's. */
DEVICE bool window_has(const source_window *window, int32_t from, int32_t to)
{
    return from >= window->begin && to <= window->end;
}

/* The word at `from`; bytes that are not the string's are 0. */
DEVICE uint32_t window_word(const source_window *window, int32_t from)
{
    uint32_t value = 0;
    if (window_has(window, from, from + 4))
        return load32(window->at + (uint64_t)(int64_t)from);
    UNROLL
    for (int32_t i = 0; i < 4; i++)
        if (window_has(window, from + i, from + i + 1))
            value |= (uint32_t)load8(window->at + (uint64_t)(int64_t)(from + i)) << 8 * i;
    return value;
}

/* The same of a block at an end of the string: by words, most of which are wholly the string's. */
DEVICE block16 window_edge_block(const source_window *window, int32_t from)
{
    block16 value = {0, 0};
    NO_UNROLL
    for (int32_t i = 0; i < 2; i++) {
        value.low = value.high;
        value.high = window_word(window, from + 8 * i) |
                     (uint64_t)window_word(window, from + 8 * i + 4) << 32;
    }
    return value;
}

DEVICE bool window_has_edge(const source_window *window, int32_t from)
{
    return !window_has(window, from, from + 16) && from < window->end && from + 16 > window->begin;
}

/* The block at `from` if it is wholly the string's, or 0. */
DEVICE block16 window_inner(const source_window *window, int32_t from)
{
    block16 value = {0, 0};
    if (window_has(window, from, from + 16))
        value = load128(window->at + (uint64_t)(int64_t)from);
    return value;
}

/* The block at `address`; bytes that are not the string's are 0. */
DEVICE block16 source_block(const bit_source *source, uint64_t address)
{
    const source_window window = window_of(source, address);
    return window_has_edge(&window, 0) ? window_edge_block(&window, 0) : window_inner(&window, 0);
}

/* The 128 bits from bit `shift` of the first block on: whole words first, the rest by a funnel. */
DEVICE block16 block_funnel(block16 first, block16 second, uint32_t shift)
{
    uint64_t a = shift & 64 ? first.high : first.low;
    uint64_t b = shift & 64 ? second.low : first.high;
    uint64_t c = shift & 64 ? second.high : second.low;
    bool odd = shift & 32;
    uint32_t w0 = (uint32_t)(odd ? a >> 32 : a), w1 = (uint32_t)(odd ? b : a >> 32);
    uint32_t w2 = (uint32_t)(odd ? b >> 32 : b), w3 = (uint32_t)(odd ? c : b >> 32);
    uint32_t w4 = (uint32_t)(odd ? c >> 32 : c);
    block16 value = {
        funnel_right(w0, w1, shift) | (uint64_t)funnel_right(w1, w2, shift) << 32,
        funnel_right(w2, w3, shift) | (uint64_t)funnel_right(w3, w4, shift) << 32,
    };
    return value;
}

/* Whether all blocks from the one at `first` to the one at `last` are wholly the string's. */
DEVICE bool source_holds(const bit_source *source, uint64_t first, uint64_t last)
{
    return first >= source->begin && last + 16 <= source->end;
}

/*
 * Pieces first, first + stride, ... of the string: all loads are under way before the first one is
 * needed. Bits past the string's end are anything.
 */
#define SOURCE_PIECES(source, first, stride, n_pieces, out)                                      \
    do {                                                                                         \
        const uint64_t step_ = 16 * (stride);                                                    \
        const uint64_t at_ = (source).blocks + 16 * (first);                                     \
        const bool shifted_ = (source).shift != 0;                                               \
        const source_window window_ = window_of(&(source), at_);                                 \
        block16 upper_[n_pieces];                                                                \
        if (window_has(&window_, 0, (int32_t)(((n_pieces)-1) * step_ + (shifted_ ? 32 : 16)))) { \
            UNROLL                                                                               \
            for (uint32_t i_ = 0; i_ < (n_pieces); i_++)                                         \
                upper_[i_] = (out)[i_] = load128(at_ + i_ * step_);                              \
            if (shifted_) {                                                                      \
                UNROLL                                                                           \
                for (uint32_t i_ = 0; i_ < (n_pieces); i_++)                                     \
                    upper_[i_] = load128(at_ + i_ * step_ + 16);                                 \
            }                                                                                    \
        } else {                                                                                 \
            UNROLL                                                                               \
            for (uint32_t i_ = 0; i_ < (n_pieces); i_++) {                                       \
                (out)[i_] = window_inner(&window_, (int32_t)(i_ * step_));                       \
                upper_[i_] = window_inner(&window_, (int32_t)(i_ * step_ + 16));                 \
            }                                                                                    \
            UNROLL                                                                               \
            for (uint32_t i_ = 0; i_ < (n_pieces); i_++) {                                       \
                if (window_has_edge(&window_, (int32_t)(i_ * step_)))                            \
                    (out)[i_] = window_edge_block(&window_, (int32_t)(i_ * step_));              \
                if (window_has_edge(&window_, (int32_t)(i_ * step_ + 16)))                       \
                    upper_[i_] = window_edge_block(&window_, (int32_t)(i_ * step_ + 16));        \
            }                                                                                    \
        }                                                                                        \
        if (shifted_) {                                                                          \
            UNROLL                                                                               \
            for (uint32_t i_ = 0; i_ < (n_pieces); i_++)                                         \
                (out)[i_] = block_funnel((out)[i_], upper_[i_], (source).shift);                 \
        }                                                                                        \
    } while (0)

/* The same without the shift, of the aligned blocks. */
#define SOURCE_BLOCKS(source, first, stride, n_pieces, out)               \
    do {                                                                  \
        const uint64_t step_ = 16 * (stride);                             \
        const uint64_t at_ = (source).blocks + 16 * (first);              \
        if (source_holds(&(source), at_, at_ + ((n_pieces)-1) * step_)) { \
            UNROLL                                                        \
            for (uint32_t i_ = 0; i_ < (n_pieces); i_++)                  \
                (out)[i_] = load128(at_ + i_ * step_);                    \
        } else {                                                          \
            UNROLL                                                        \
            for (uint32_t i_ = 0; i_ < (n_pieces); i_++)                  \
                (out)[i_] = source_block(&(source), at_ + i_ * step_);    \
        }                                                                 \
    } while (0)

/* Piece `piece` of a string of n bits with what is past its end cleared. */
DEVICE block16 piece_clip(block16 value, uint64_t piece, uint64_t n)
{
    uint64_t begin = 128 * piece;
    if (begin + 128 > n) {
        uint64_t left = n > begin ? n - begin : 0;
        value.low &= low_ones(left);
        value.high &= left > 64 ? low_ones(left - 64) : 0;
    }
    return value;
}

DEVICE uint32_t block_ones(block16 value)
{
    return count_ones(value.low) + count_ones(value.high);
}

/* Whether pieces first, first + stride, ... are all wholly inside the string. */
DEVICE bool pieces_inside(uint64_t first, uint64_t stride, uint32_t n_pieces, uint64_t n)
{
    return 128 * (first + (n_pieces - 1) * stride + 1) <= n;
}

/* Block `block` without what is outside bits `begin` (of the first block) to `end`. */
DEVICE block16 block_clip(block16 value, uint64_t block, uint64_t begin, uint64_t end)
{
    value = piece_clip(value, block, end);
    if (block == 0) {
        value.low &= begin < 64 ? ~low_ones(begin) : 0;
        value.high &= begin > 64 ? ~low_ones(begin - 64) : UINT64_MAX;
    }
    return value;
}

/* Stores 16 bytes at `offset` of an output that is aligned to 16, or what of them is inside it. */
DEVICE void output_store(uint64_t output, uint64_t output_nbytes, uint64_t offset, block16 value)
{
    if (offset + 16 <= output_nbytes) {
        store128(output + offset, value);
        return;
    }
    if (offset >= output_nbytes)
        return;
    NO_UNROLL
    for (uint32_t i = 0; i < 16; i++)
        if (offset + i < output_nbytes)
            store8(output + offset + i, (uint8_t)((i < 8 ? value.low : value.high) >> 8 * (i % 8)));
}

/*
 * Stores pieces first, first + stride, ... of a string of n bits, and zeros past its end; returns
 * the ones. Nothing is compared piece by piece where all are inside.
 */
DEVICE uint32_t pieces_store(const block16 *values, uint64_t first, uint64_t stride, uint64_t n,
                             uint64_t output, uint64_t output_nbytes)
{
    const bool whole = pieces_inside(first, stride, GMV_CUDA_PIECES, n) &&
                       pieces_inside(first, stride, GMV_CUDA_PIECES, 8 * output_nbytes);
    uint64_t at = output + 16 * first;
    uint32_t ones = 0;
    if (whole) {
        UNROLL
        for (uint32_t i = 0; i < GMV_CUDA_PIECES; i++) {
            store128(at + 16 * i * stride, values[i]);
            ones += block_ones(values[i]);
        }
        return ones;
    }
    UNROLL
    for (uint32_t i = 0; i < GMV_CUDA_PIECES; i++) {
        uint64_t piece = first + i * stride;
        block16 value = piece_clip(values[i], piece, n);
        output_store(output, output_nbytes, 16 * piece, value);
        ones += block_ones(value);
    }
    return ones;
}

/* Whether the aligned words of 4 bytes from `first` to the one after `last` are wholly the bits'.
 */
DEVICE bool words_inside(cuda_bits bits, uint64_t n, uint64_t first, uint64_t last)
{
    uint64_t end = bits.address + (bits.offset + n + 7) / 8;
    return first >= bits.address + bits.offset / 8 && last + 8 <= end;
}

/* `count` bits (1 to 32) from bit `first` on, from the bytes that hold them only. */
DEVICE uint32_t bits_read(cuda_bits bits, uint64_t first, uint32_t count)
{
    if (bits.address == 0)
        return (uint32_t)low_ones(count);
    uint64_t position = bits.offset + first;
    uint64_t address = bits.address + position / 8, value = 0;
    uint32_t shift = (uint32_t)(position % 8), nbytes = (shift + count + 7) / 8;
    UNROLL
    for (uint32_t i = 0; i < 5; i++)
        if (i < nbytes)
            value |= (uint64_t)load8(address + i) << 8 * i;
    return (uint32_t)(value >> shift & low_ones(count));
}

/* The same of a string of n bits; the bits past its end are 0, and count may reach beyond it. */
DEVICE uint32_t bits_read_inside(cuda_bits bits, uint64_t first, uint32_t count, uint64_t n)
{
    if (first >= n)
        return 0;
    return bits_read(bits, first, n - first < count ? (uint32_t)(n - first) : count);
}

/* Up to 32 bits of a string of n from bit `first` on; by words unless that is near an end. */
DEVICE uint32_t bits_word(cuda_bits bits, uint64_t first, uint64_t n)
{
    uint64_t position = bits.offset + first, byte = bits.address + position / 8;
    uint64_t word = byte & ~UINT64_C(3);
    if (!words_inside(bits, n, word, word))
        return bits_read_inside(bits, first, 32, n);
    return funnel_right(load32(word), load32(word + 4), (uint32_t)(byte % 4 * 8 + position % 8));
}

#endif
