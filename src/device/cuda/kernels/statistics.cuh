/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts, extremes, sums and moments. A thread takes deviations of up to 64 elements from the
 * middle between two of them, so nothing is lost where the mean is far from 0, and no element costs
 * a division; the moments of threads, warps and tiles merge.
 */
#ifndef GMV_DEVICE_CUDA_KERNELS_STATISTICS_H
#define GMV_DEVICE_CUDA_KERNELS_STATISTICS_H

#include "device/cuda/kernels/reduce.cuh"

/* ---- of a block ---- */

/*
 * Threads of a warp meet around the mean of all of them, then so do the block's warps: squares of
 * deviations are added, nothing is taken from anything large.
 */
#ifdef __CUDACC__
DEVICE double warp_add(double value)
{
    UNROLL
    for (uint32_t distance = WARP_THREADS / 2; distance > 0; distance /= 2)
        value += __shfl_xor_sync(0xffffffffu, value, distance);
    return value;
}

DEVICE uint64_t warp_add(uint64_t value)
{
    UNROLL
    for (uint32_t distance = WARP_THREADS / 2; distance > 0; distance /= 2)
        value += __shfl_xor_sync(0xffffffffu, (unsigned long long)value, distance);
    return value;
}

DEVICE uint64_t warp_min(uint64_t value)
{
    UNROLL
    for (uint32_t distance = WARP_THREADS / 2; distance > 0; distance /= 2) {
        uint64_t other = __shfl_xor_sync(0xffffffffu, (unsigned long long)value, distance);
        value = other < value ? other : value;
    }
    return value;
}

/* The same number in all threads. */
DEVICE uint32_t warp_count(uint64_t value)
{
#    if __CUDA_ARCH__ >= 800
    return __reduce_add_sync(0xffffffffu, (uint32_t)value);
#    else
    return (uint32_t)warp_add(value);
#    endif
}

DEVICE uint32_t warp_min_short(uint64_t value)
{
#    if __CUDA_ARCH__ >= 800
    return __reduce_min_sync(0xffffffffu, (uint32_t)value);
#    else
    return (uint32_t)warp_min((uint32_t)value);
#    endif
}

DEVICE void warp_moments(gmv_statistics_partial *mine, uint32_t total)
{
    const uint32_t some = __ballot_sync(0xffffffffu, mine->n != 0);
    if (some == 0)
        return;
    const double n = (double)(uint32_t)mine->n;
    const double pivot = __shfl_sync(0xffffffffu, mine->mean, lowest_one(some));
    const double shift = mine->n ? n * (mine->mean - pivot) : 0;
    const double mean = pivot + warp_add(shift) / (double)total;
    const double rest = mine->mean - mean;
    mine->squares = warp_add(mine->n ? mine->squares + n * rest * rest : 0);
    mine->mean = mean;
}

DEVICE void warp_statistics(gmv_statistics_partial *mine, uint32_t bits, bool is_float)
{
    const uint32_t total = warp_count(mine->n);
    warp_moments(mine, total);
    mine->n = total;
    mine->zero_count = warp_count(mine->zero_count);
    if (bits <= 32) {
        uint32_t least = warp_min_short(mine->min_key);
        mine->min_key = total ? least : UINT64_MAX;
        mine->max_key = ~warp_min_short(~mine->max_key);
    } else {
        mine->min_key = warp_min(mine->min_key);
        mine->max_key = ~warp_min(~mine->max_key);
    }
    if (is_float) {
        mine->nan_count = warp_count(mine->nan_count);
        mine->inf_count = warp_count(mine->inf_count);
        mine->sum = warp_add(mine->sum);
    } else {
        /* Two sums of halves: carries are left to the end. */
        uint64_t low = warp_add(mine->sum_low & 0xffffffffu),
                 middle = warp_add(mine->sum_low >> 32);
        middle += low >> 32;
        mine->sum_low = middle << 32 | (low & 0xffffffffu);
        mine->sum_high = warp_add(mine->sum_high) + (middle >> 32);
    }
}

/* True in the one thread that has got the block's. */
DEVICE bool block_statistics(gmv_statistics_partial *mine, uint32_t bits, bool is_float)
{
    __shared__ gmv_statistics_partial partials[BLOCK_WARPS];
    warp_statistics(mine, bits, is_float);
    if (threadIdx.x % WARP_THREADS == 0)
        partials[threadIdx.x / WARP_THREADS] = *mine;
    __syncthreads();
    if (threadIdx.x >= WARP_THREADS)
        return false;
    *mine = threadIdx.x < BLOCK_WARPS ? partials[threadIdx.x] : statistics_none();
    warp_statistics(mine, bits, is_float);
    return threadIdx.x == 0;
}
#else
DEFINE_BLOCK_MERGE(block_merge_statistics, gmv_statistics_partial, statistics_merge)
#    define block_statistics(mine, bits, is_float) block_merge_statistics(mine)
#endif

DEFINE_BLOCK_MERGE(block_partials, gmv_statistics_partial, statistics_merge)
DEFINE_MERGE_KERNEL(merge_statistics, gmv_statistics_partial, statistics_none, statistics_merge,
                    block_partials)

/* ---- of a thread ---- */

/*
 * Elements that are looked at together, and after how many of these batches deviations begin anew,
 * from another pivot: after 32 or 64 elements.
 */
#define STATISTICS_BATCH(bits)  ((bits) <= 32 ? 16u : 8u)
#define STATISTICS_PIECES(bits) (STATISTICS_BATCH(bits) * (bits) / 128u)
#define STATISTICS_TURN         4u
#define STATISTICS_TURNS(bits)  (REDUCE_PIECES / (STATISTICS_PIECES(bits) * STATISTICS_TURN))

/* `shift` and `squares` are the deviations of `n_turn` elements from `pivot`, added. */
typedef struct thread_statistics {
    gmv_statistics_partial done;
    uint32_t n, n_turn, zero_count, nan_count, inf_count;
    double pivot, shift, squares, sum;
    uint64_t low, high;
} thread_statistics;

DEVICE thread_statistics thread_begin(void)
{
    thread_statistics mine = {0};
    mine.done = statistics_none();
    return mine;
}

DEVICE void thread_turn(thread_statistics *mine)
{
    if (mine->n_turn == 0)
        return;
    double mean = mine->shift / mine->n_turn;
    double squares = mine->squares - mine->shift * mean;
    moments_merge(mine->n, &mine->done.mean, &mine->done.squares, mine->n_turn, mine->pivot + mean,
                  squares < 0 ? 0 : squares);
    mine->n += mine->n_turn;
    mine->n_turn = 0;
    mine->shift = mine->squares = 0;
}

DEVICE void thread_add_integer(thread_statistics *mine, uint64_t low, uint64_t high, uint32_t bits)
{
    mine->low += low;
    if (bits == 64)
        mine->high += high + (mine->low < low);
}

/* A thread's sum of shorter integers has a sign of its own. */
DEVICE gmv_statistics_partial thread_partial(const thread_statistics *mine, uint32_t bits,
                                             uint64_t min, uint64_t max)
{
    gmv_statistics_partial partial = mine->done;
    partial.n = mine->n;
    partial.nan_count = mine->nan_count;
    partial.inf_count = mine->inf_count;
    partial.zero_count = mine->zero_count;
    partial.sum = mine->sum;
    partial.sum_low = mine->low;
    partial.sum_high = bits == 64 ? mine->high : (mine->low >> 63 ? UINT64_MAX : 0);
    if (mine->n) {
        partial.min_key = min;
        partial.max_key = max;
    }
    return partial;
}

/* One bit for each of a batch's elements: those that are there and valid. */
DEVICE_CALL uint32_t batch_valid_bits(cuda_bits validity, uint64_t n, uint64_t first,
                                      uint32_t n_pieces, uint32_t elements)
{
    uint32_t valid = 0;
    NO_UNROLL
    for (uint32_t i = 0; i < n_pieces; i++)
        valid |= reduce_valid_bits(validity, first + i * REDUCE_STRIDE, elements, n)
                 << i * elements;
    return valid;
}

/*
 * Extremes first: where no key lies beyond the finite ones, all elements are finite. Elements that
 * do not count become like one that does, so that extremes need not ask.
 */
#define DEFINE_STATISTICS(suffix, type, bits, is_float)                                           \
    /* Takes what is not finite out of `counted`. */                                              \
    DEVICE uint32_t statistics_filter_##suffix(thread_statistics *mine, const block16 *pieces,    \
                                               uint32_t counted)                                  \
    {                                                                                             \
        UNROLL                                                                                    \
        for (uint32_t i = 0; (is_float) && i < STATISTICS_BATCH(bits); i++) {                     \
            uint32_t kind = element_class_##suffix(REDUCE_ELEMENT(type, bits, pieces, i));        \
            mine->nan_count += kind == ELEMENT_NAN ? counted >> i & 1 : 0;                        \
            mine->inf_count += kind == ELEMENT_INFINITE ? counted >> i & 1 : 0;                   \
            counted &= ~((uint32_t)(kind != ELEMENT_FINITE) << i);                                \
        }                                                                                         \
        return counted;                                                                           \
    }                                                                                             \
    DEVICE void statistics_fill_##suffix(block16 *pieces, uint32_t counted)                       \
    {                                                                                             \
        type filler = 0;                                                                          \
        UNROLL                                                                                    \
        for (uint32_t i = 0; i < STATISTICS_BATCH(bits); i++)                                     \
            filler = counted >> i & 1 ? REDUCE_ELEMENT(type, bits, pieces, i) : filler;           \
        UNROLL                                                                                    \
        for (uint32_t i = 0; i < STATISTICS_BATCH(bits); i++) {                                   \
            type change = filler ^ REDUCE_ELEMENT(type, bits, pieces, i);                         \
            change = counted >> i & 1 ? 0 : change;                                               \
            REDUCE_CHANGE(bits, pieces, i, change);                                               \
        }                                                                                         \
    }                                                                                             \
    DEVICE void statistics_extremes_##suffix(const block16 *pieces, type *min, type *max)         \
    {                                                                                             \
        *min = (type) ~(type)0;                                                                   \
        *max = 0;                                                                                 \
        UNROLL                                                                                    \
        for (uint32_t i = 0; i < STATISTICS_BATCH(bits); i++) {                                   \
            type key = element_key_##suffix(REDUCE_ELEMENT(type, bits, pieces, i));               \
            *min = key < *min ? key : *min;                                                       \
            *max = key > *max ? key : *max;                                                       \
        }                                                                                         \
    }                                                                                             \
    KERNEL_RESIDENT(statistics_##suffix, cuda_statistics_args, REDUCE_RESIDENT)                   \
    {                                                                                             \
        const uint32_t all = (1u << STATISTICS_BATCH(bits)) - 1;                                  \
        const bit_source source = reduce_source(args.input, args.n, bits);                        \
        uint64_t first = reduce_first_piece();                                                    \
        const bool inside = reduce_is_inside(source, first, REDUCE_PIECES);                       \
        thread_statistics mine = thread_begin();                                                  \
        type all_min = (type) ~(type)0, all_max = 0;                                              \
        NO_UNROLL                                                                                 \
        for (uint32_t batch = 0; batch < REDUCE_PIECES / STATISTICS_PIECES(bits); batch++) {      \
            block16 pieces[STATISTICS_PIECES(bits)];                                              \
            uint32_t counted = all;                                                               \
            type min, max;                                                                        \
            if (inside) {                                                                         \
                REDUCE_LOAD(source, first, STATISTICS_PIECES(bits), pieces);                      \
            } else {                                                                              \
                UNROLL                                                                            \
                for (uint32_t i = 0; i < STATISTICS_PIECES(bits); i++)                            \
                    pieces[i] = reduce_edge_piece(source.begin, source.end, source.shift,         \
                                                  first + i * REDUCE_STRIDE);                     \
            }                                                                                     \
            if (inside && batch + 1 < REDUCE_PIECES / STATISTICS_PIECES(bits))                    \
                reduce_prefetch(source, first + STATISTICS_PIECES(bits) * REDUCE_STRIDE,          \
                                STATISTICS_PIECES(bits));                                         \
            if (!inside || args.validity.address)                                                 \
                counted = batch_valid_bits(args.validity, args.n, first, STATISTICS_PIECES(bits), \
                                           REDUCE_ELEMENTS(bits));                                \
            statistics_extremes_##suffix(pieces, &min, &max);                                     \
            if (element_class_##suffix(element_of_key_##suffix(min)) != ELEMENT_FINITE ||         \
                element_class_##suffix(element_of_key_##suffix(max)) != ELEMENT_FINITE)           \
                counted = statistics_filter_##suffix(&mine, pieces, counted);                     \
            if (counted != all) {                                                                 \
                statistics_fill_##suffix(pieces, counted);                                        \
                statistics_extremes_##suffix(pieces, &min, &max);                                 \
            }                                                                                     \
            if (counted) {                                                                        \
                const double lowest = element_double_##suffix(element_of_key_##suffix(min));      \
                const double highest = element_double_##suffix(element_of_key_##suffix(max));     \
                mine.pivot = mine.n_turn ? mine.pivot : 0.5 * lowest + 0.5 * highest;             \
                mine.n_turn += count_ones(counted);                                               \
                all_min = min < all_min ? min : all_min;                                          \
                all_max = max > all_max ? max : all_max;                                          \
                UNROLL                                                                            \
                for (uint32_t i = 0; i < STATISTICS_BATCH(bits); i++) {                           \
                    type element = REDUCE_ELEMENT(type, bits, pieces, i);                         \
                    double value = element_double_##suffix(element);                              \
                    double deviation = value - mine.pivot;                                        \
                    if (counted >> i & 1) {                                                       \
                        mine.zero_count += element_is_zero_##suffix(element);                     \
                        mine.shift += deviation;                                                  \
                        mine.squares += deviation * deviation;                                    \
                        if (is_float)                                                             \
                            mine.sum += value;                                                    \
                        else                                                                      \
                            thread_add_integer(&mine, element_low_##suffix(element),              \
                                               element_high_##suffix(element), bits);             \
                    }                                                                             \
                }                                                                                 \
            }                                                                                     \
            if (STATISTICS_TURNS(bits) > 1 && batch % STATISTICS_TURN == STATISTICS_TURN - 1)     \
                thread_turn(&mine);                                                               \
            first += STATISTICS_PIECES(bits) * REDUCE_STRIDE;                                     \
        }                                                                                         \
        thread_turn(&mine);                                                                       \
        gmv_statistics_partial partial = thread_partial(&mine, bits, all_min, all_max);           \
        if (block_statistics(&partial, bits, is_float))                                           \
            ((gmv_statistics_partial *)args.output)[block_index()] = partial;                     \
    }

DEFINE_STATISTICS(u2, uint16_t, 16, false)
DEFINE_STATISTICS(i2, uint16_t, 16, false)
DEFINE_STATISTICS(u4, uint32_t, 32, false)
DEFINE_STATISTICS(i4, uint32_t, 32, false)
DEFINE_STATISTICS(u8, uint64_t, 64, false)
DEFINE_STATISTICS(i8, uint64_t, 64, false)
DEFINE_STATISTICS(f2, uint16_t, 16, true)
DEFINE_STATISTICS(bf16, uint16_t, 16, true)
DEFINE_STATISTICS(f8_e4m3fn, uint8_t, 8, true)
DEFINE_STATISTICS(f8_e5m2, uint8_t, 8, true)
DEFINE_STATISTICS(f4, uint32_t, 32, true)
DEFINE_STATISTICS(f8, uint64_t, 64, true)

/* ---- of bytes ---- */

/*
 * Four at a time; sums and squares of up to 256 keys are exact, and so are the moments but for a
 * division.
 */
typedef struct byte_statistics {
    uint32_t n, sum, squares, not_zero, min, max;
} byte_statistics;

/* The high bit of each byte that is not 0. */
DEVICE uint32_t bytes_not_zero(uint32_t word)
{
    return (((word & 0x7f7f7f7fu) + 0x7f7f7f7fu) | word) & 0x80808080u;
}

DEVICE void byte_add(byte_statistics *mine, uint32_t word, uint32_t counted, uint32_t flip,
                     bool is_boolean)
{
    uint32_t mask = ((counted & 15u) * 0x00204081u & 0x01010101u) * 0xffu;
    uint32_t not_zero = bytes_not_zero(word) & mask;
    uint32_t keys = is_boolean ? not_zero >> 7 : (word ^ flip) & mask;
    mine->sum = add_products(keys, 0x01010101u, mine->sum);
    mine->squares = add_products(keys, keys, mine->squares);
    mine->not_zero += count_ones(not_zero);
    mine->min = bytes_min(mine->min, keys | ~mask);
    mine->max = bytes_max(mine->max, keys);
}

DEVICE uint32_t byte_of(uint32_t word, bool is_max)
{
    uint32_t byte = word & 0xffu;
    UNROLL
    for (uint32_t i = 8; i < 32; i += 8) {
        uint32_t other = word >> i & 0xffu;
        byte = (other > byte) == is_max ? other : byte;
    }
    return byte;
}

/* Keys are the values and `offset`. */
DEVICE gmv_statistics_partial byte_partial(const byte_statistics *mine, uint32_t offset)
{
    gmv_statistics_partial partial = statistics_none();
    int64_t sum = (int64_t)mine->sum - (int64_t)(mine->n * offset);
    if (mine->n == 0)
        return partial;
    partial.n = mine->n;
    partial.zero_count = mine->n - mine->not_zero;
    partial.min_key = byte_of(mine->min, false);
    partial.max_key = byte_of(mine->max, true);
    partial.sum_low = (uint64_t)sum;
    partial.sum_high = sum < 0 ? UINT64_MAX : 0;
    partial.mean = (double)sum / mine->n;
    partial.squares =
        (double)((uint64_t)mine->squares * mine->n - (uint64_t)mine->sum * mine->sum) / mine->n;
    return partial;
}

#define BYTE_PIECES 4u

#define DEFINE_BYTE_STATISTICS(suffix, flip, is_boolean)                                   \
    KERNEL_RESIDENT(statistics_##suffix, cuda_statistics_args, REDUCE_RESIDENT)            \
    {                                                                                      \
        const bit_source source = reduce_source(args.input, args.n, 8);                    \
        uint64_t first = reduce_first_piece();                                             \
        const bool inside = reduce_is_inside(source, first, REDUCE_PIECES);                \
        const bool whole = inside && args.validity.address == 0;                           \
        byte_statistics mine = {0, 0, 0, 0, UINT32_MAX, 0};                                \
        NO_UNROLL                                                                          \
        for (uint32_t batch = 0; batch < REDUCE_PIECES / BYTE_PIECES; batch++) {           \
            block16 pieces[BYTE_PIECES];                                                   \
            if (inside) {                                                                  \
                REDUCE_LOAD(source, first, BYTE_PIECES, pieces);                           \
            } else {                                                                       \
                UNROLL                                                                     \
                for (uint32_t i = 0; i < BYTE_PIECES; i++)                                 \
                    pieces[i] = reduce_edge_piece(source.begin, source.end, source.shift,  \
                                                  first + i * REDUCE_STRIDE);              \
            }                                                                              \
            if (inside && batch + 1 < REDUCE_PIECES / BYTE_PIECES)                         \
                reduce_prefetch(source, first + BYTE_PIECES * REDUCE_STRIDE, BYTE_PIECES); \
            UNROLL                                                                         \
            for (uint32_t i = 0; i < BYTE_PIECES; i++, first += REDUCE_STRIDE) {           \
                uint32_t counted = 0xffffu;                                                \
                if (!whole)                                                                \
                    counted = reduce_valid_bits(args.validity, first, 16, args.n);         \
                mine.n += count_ones(counted);                                             \
                for (uint32_t word = 0; word < 4; word++)                                  \
                    byte_add(&mine, REDUCE_ELEMENT(uint32_t, 32, &pieces[i], word),        \
                             counted >> 4 * word, flip, is_boolean);                       \
            }                                                                              \
        }                                                                                  \
        gmv_statistics_partial partial = byte_partial(&mine, (flip)&0xffu);                \
        if (block_statistics(&partial, 8, false))                                          \
            ((gmv_statistics_partial *)args.output)[block_index()] = partial;              \
    }

DEFINE_BYTE_STATISTICS(u1, 0, false)
DEFINE_BYTE_STATISTICS(i1, 0x80808080u, false)
DEFINE_BYTE_STATISTICS(b1, 0, true)

#endif
