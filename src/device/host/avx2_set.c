/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inner loops of the host kernels with AVX2 and POPCNT. The functions carry the target attribute,
 * so the file is built like every other; gmv__host_avx2_set asks the processor. NaNs are told apart
 * with integer compares, which neither raise floating-point flags nor trap.
 */
#include "device/host/kernel_set.h"

#if defined(__x86_64__) && defined(__GNUC__)

#    include <immintrin.h>

#    define AVX2 GMV_CLIENT_MEMORY __attribute__((target("avx2,popcnt")))

static inline AVX2 __m256i avx2_load(const uint8_t *address)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)address);
}

static inline AVX2 void avx2_store(uint8_t *address, __m256i value)
{
    _mm256_storeu_si256((__m256i *)(void *)address, value);
}

/* Inputs are read once and front to back: asking this far ahead hides the memory behind the work.
 */
#    define PREFETCH_NBYTES 1024

static inline AVX2 void avx2_prefetch(const uint8_t *address)
{
    /* A prefetch never faults, wherever it points. */
    _mm_prefetch((const char *)(uintptr_t)((uintptr_t)address + PREFETCH_NBYTES), _MM_HINT_T0);
}

/* 32 bits: which bytes are not 0. */
static inline AVX2 uint32_t avx2_bits_of_bytes(const uint8_t *input)
{
    __m256i is_zero = _mm256_cmpeq_epi8(avx2_load(input), _mm256_setzero_si256());
    return ~(uint32_t)_mm256_movemask_epi8(is_zero);
}

static inline AVX2 uint64_t avx2_word_of_bytes(const uint8_t *input)
{
    avx2_prefetch(input);
    return (uint64_t)avx2_bits_of_bytes(input + 32) << 32 | avx2_bits_of_bytes(input);
}

/* All ones in the lanes of 8 floats that are NaN. */
static inline AVX2 __m256i avx2_nans_of_f4(const uint8_t *input)
{
    __m256i magnitude = _mm256_and_si256(avx2_load(input), _mm256_set1_epi32(INT32_MAX));
    return _mm256_cmpgt_epi32(magnitude, _mm256_set1_epi32(0x7f800000));
}

/* 32 floats: saturating packs keep the verdicts, one permutation puts them back in order. */
static inline AVX2 uint32_t avx2_bits_of_f4(const uint8_t *input)
{
    avx2_prefetch(input);
    avx2_prefetch(input + 64);
    __m256i low = _mm256_packs_epi32(avx2_nans_of_f4(input), avx2_nans_of_f4(input + 32));
    __m256i high = _mm256_packs_epi32(avx2_nans_of_f4(input + 64), avx2_nans_of_f4(input + 96));
    __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    __m256i nans = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(low, high), order);
    return ~(uint32_t)_mm256_movemask_epi8(nans);
}

static inline AVX2 uint64_t avx2_word_of_f4(const uint8_t *input)
{
    return (uint64_t)avx2_bits_of_f4(input + 128) << 32 | avx2_bits_of_f4(input);
}

static inline AVX2 uint64_t avx2_nans_of_f8(const uint8_t *input)
{
    __m256i magnitude = _mm256_and_si256(avx2_load(input), _mm256_set1_epi64x(INT64_MAX));
    __m256i nans = _mm256_cmpgt_epi64(magnitude, _mm256_set1_epi64x(0x7ff0000000000000));
    return (uint64_t)(unsigned)_mm256_movemask_pd(_mm256_castsi256_pd(nans));
}

static inline AVX2 uint64_t avx2_word_of_f8(const uint8_t *input)
{
    uint64_t nans = 0;
    for (unsigned i = 0; i < 16; i += 2) {
        avx2_prefetch(input + 32 * i);
        nans |= avx2_nans_of_f8(input + 32 * i) << 4 * i;
        nans |= avx2_nans_of_f8(input + 32 * i + 32) << (4 * i + 4);
    }
    return ~nans;
}

#    define DEFINE_VALID_WORDS(name, word_of, stride)                                           \
        static AVX2 int64_t name(const uint8_t *input, const uint8_t *validity, unsigned shift, \
                                 size_t n_words, uint8_t *output)                               \
        {                                                                                       \
            int64_t count = 0;                                                                  \
            for (size_t i = 0; i < n_words; i++) {                                              \
                uint64_t word = word_of(input + i * (stride));                                  \
                if (validity)                                                                   \
                    word &= host_word(validity + 8 * i, shift);                                 \
                client_store64(output + 8 * i, word);                                           \
                count += __builtin_popcountll(word);                                            \
            }                                                                                   \
            return count;                                                                       \
        }

DEFINE_VALID_WORDS(avx2_valid_bytes, avx2_word_of_bytes, 64)
DEFINE_VALID_WORDS(avx2_valid_f4, avx2_word_of_f4, 256)
DEFINE_VALID_WORDS(avx2_valid_f8, avx2_word_of_f8, 512)

/* Each byte of the register looks up the byte of `bits` that holds its bit, and tests that bit. */
static inline AVX2 __m256i avx2_expand(uint32_t bits)
{
    const __m256i holder =
        _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    const __m256i selector = _mm256_set1_epi64x((int64_t)0x8040201008040201);
    __m256i spread = _mm256_shuffle_epi8(_mm256_set1_epi32((int)bits), holder);
    __m256i is_set = _mm256_cmpeq_epi8(_mm256_and_si256(spread, selector), selector);
    return _mm256_and_si256(is_set, _mm256_set1_epi8(1));
}

static AVX2 void avx2_expand_words(const uint8_t *bits, unsigned shift, size_t n_words,
                                   uint8_t *output)
{
    for (size_t i = 0; i < n_words; i++) {
        uint64_t word = host_word(bits + 8 * i, shift);
        avx2_store(output + 64 * i, avx2_expand((uint32_t)word));
        avx2_store(output + 64 * i + 32, avx2_expand((uint32_t)(word >> 32)));
    }
}

/* Four words; what comes into each from its neighbour is in the same lane one word further on. */
static inline AVX2 __m256i avx2_word4(const uint8_t *bits, unsigned shift)
{
    __m256i words = avx2_load(bits);
    __m256i next = avx2_load(bits + 8);
    return _mm256_or_si256(_mm256_srl_epi64(words, _mm_cvtsi32_si128((int)shift)),
                           _mm256_sll_epi64(next, _mm_cvtsi32_si128((int)(64 - shift))));
}

/*
 * Four words at a time read 40 bytes where the bits end after 33, so a fifth word must follow; the
 * last ones go singly. A shift by 64 gives 0, so shift 0 needs no case of its own.
 */
#    define DEFINE_MOVE_WORDS(name, combine4, combine1)                                   \
        static AVX2 void name(const uint8_t *bits, unsigned shift, size_t n_words,        \
                              uint8_t *output)                                            \
        {                                                                                 \
            size_t i = 0;                                                                 \
            for (; i + 5 <= n_words; i += 4) {                                            \
                avx2_prefetch(bits + 8 * i);                                              \
                avx2_store(output + 8 * i,                                                \
                           combine4(avx2_word4(bits + 8 * i, shift), output + 8 * i));    \
            }                                                                             \
            for (; i < n_words; i++)                                                      \
                client_store64(output + 8 * i,                                            \
                               combine1(host_word(bits + 8 * i, shift), output + 8 * i)); \
        }

#    define AND4(value, output) _mm256_and_si256((value), avx2_load(output))
#    define AND1(value, output) ((value)&client_load64(output))
#    define OR4(value, output)  _mm256_or_si256((value), avx2_load(output))
#    define OR1(value, output)  ((value) | client_load64(output))

DEFINE_MOVE_WORDS(avx2_and_words, AND4, AND1)
DEFINE_MOVE_WORDS(avx2_or_words, OR4, OR1)

/* Ones in each 64-bit lane: a table of 16 counts, looked up with either half of each byte. */
static inline AVX2 __m256i avx2_count_lanes(__m256i words)
{
    const __m256i counts = _mm256_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4, 0, 1, 1,
                                            2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4);
    const __m256i half = _mm256_set1_epi8(0x0f);
    __m256i low = _mm256_shuffle_epi8(counts, _mm256_and_si256(words, half));
    __m256i high = _mm256_shuffle_epi8(counts, _mm256_and_si256(_mm256_srli_epi16(words, 4), half));
    return _mm256_sad_epu8(_mm256_add_epi8(low, high), _mm256_setzero_si256());
}

static inline AVX2 int64_t avx2_sum_lanes(__m256i sums)
{
    return _mm256_extract_epi64(sums, 0) + _mm256_extract_epi64(sums, 1) +
           _mm256_extract_epi64(sums, 2) + _mm256_extract_epi64(sums, 3);
}

/* Counting is done in passing. Stores past the cache spare reading the output's lines first. */
static AVX2 int64_t avx2_copy_words(const uint8_t *bits, unsigned shift, size_t n_words,
                                    uint8_t *output, unsigned copy)
{
    __m256i sums = _mm256_setzero_si256();
    size_t i = 0;
    for (; i + 5 <= n_words; i += 4) {
        avx2_prefetch(bits + 8 * i);
        __m256i words = avx2_word4(bits + 8 * i, shift);
        if (copy & HOST_COPY_PAST_CACHE)
            _mm256_stream_si256((__m256i *)(void *)(output + 8 * i), words);
        else
            avx2_store(output + 8 * i, words);
        sums = _mm256_add_epi64(sums, avx2_count_lanes(words));
    }
    int64_t count = avx2_sum_lanes(sums);
    for (; i < n_words; i++) {
        uint64_t word = host_word(bits + 8 * i, shift);
        client_store64(output + 8 * i, word);
        count += __builtin_popcountll(word);
    }
    if (copy & HOST_COPY_PAST_CACHE)
        _mm_sfence();
    return count;
}

static AVX2 int64_t avx2_count_words(const uint8_t *bits, size_t n_words)
{
    int64_t counts[4] = {0};
    size_t i = 0;
    for (; i + 8 <= n_words; i += 8) {
        avx2_prefetch(bits + 8 * i);
        for (unsigned j = 0; j < 8; j++)
            counts[j % 4] += __builtin_popcountll(client_load64(bits + 8 * (i + j)));
    }
    for (; i < n_words; i++)
        counts[0] += __builtin_popcountll(client_load64(bits + 8 * i));
    return counts[0] + counts[1] + counts[2] + counts[3];
}

static AVX2 size_t avx2_find_word(const uint8_t *bits, size_t n_words)
{
    size_t i = 0;
    for (; i + 8 <= n_words; i += 8) {
        __m256i any = _mm256_or_si256(avx2_load(bits + 8 * i), avx2_load(bits + 8 * i + 32));
        avx2_prefetch(bits + 8 * i);
        if (!_mm256_testz_si256(any, any))
            break;
    }
    for (; i < n_words; i++)
        if (client_load64(bits + 8 * i))
            return i;
    return n_words;
}

static const host_kernel_set avx2_set = {
    .name = "avx2",
    .valid_words = {[GMV_PREDICATE_NONZERO_BYTE] = avx2_valid_bytes,
                    [GMV_PREDICATE_NOT_NAN_F4] = avx2_valid_f4,
                    [GMV_PREDICATE_NOT_NAN_F8] = avx2_valid_f8},
    .expand_words = avx2_expand_words,
    .copy_words = avx2_copy_words,
    .and_words = avx2_and_words,
    .or_words = avx2_or_words,
    .count_words = avx2_count_words,
    .find_word = avx2_find_word,
};

const host_kernel_set *gmv__host_avx2_set(void)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("popcnt") ? &avx2_set : NULL;
}

#else

const host_kernel_set *gmv__host_avx2_set(void)
{
    return NULL;
}

#endif
