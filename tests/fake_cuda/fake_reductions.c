/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions as plain loops: one element after the other, moments by Welford's updates, histograms
 * by a search of the edges, CRC-32C bit by bit, other hashes by their library. Elements are read,
 * and pairs judged, as everywhere (device/elements.h).
 */
#include "fake_cuda/fake_reductions.h"

#include <xxhash.h>

#include "device/elements.h"
#include "device/tiles.h"

static void wants(fake_access *access, bool condition, const char *otherwise)
{
    if (!condition)
        fake_access_fail(access, CUDA_ERROR_ILLEGAL_ADDRESS, otherwise);
}

static void wants_blocks(fake_access *access, uint64_t blocks, uint64_t work, uint64_t tile)
{
    wants(access, blocks == work / tile + (work % tile != 0), "blocks that do not fit the work");
}

/* Bits that have been asked for; NULL bytes: all ones. */
typedef struct fake_bits {
    const uint8_t *bytes;
    uint64_t shift;
} fake_bits;

static fake_bits bits_begin(fake_access *access, cuda_bits bits, uint64_t n)
{
    fake_bits found = {NULL, bits.offset % 8};
    if (bits.address && n)
        found.bytes =
            fake_access_bytes(access, bits.address + bits.offset / 8, (found.shift + n + 7) / 8);
    return found;
}

static bool bits_at(const fake_bits *bits, uint64_t i)
{
    uint64_t bit = bits->shift + i;
    return !bits->bytes || (bits->bytes[bit / 8] >> bit % 8 & 1);
}

/* ---- statistics ------------------------------------------------------------------------------ */

static void statistics_add(gmv_statistics_partial *partial, uint64_t key, double value,
                           bool is_float)
{
    double error, delta = value - partial->mean;
    partial->n++;
    partial->mean += delta / (double)partial->n;
    partial->squares += delta * (value - partial->mean);
    partial->min_key = key < partial->min_key ? key : partial->min_key;
    partial->max_key = key > partial->max_key ? key : partial->max_key;
    if (!is_float)
        return;
    partial->sum = sum_exactly(partial->sum, value, &error);
    partial->sum_error += error;
}

static void statistics_add_integer(gmv_statistics_partial *partial, uint64_t low, uint64_t high)
{
    partial->sum_low += low;
    partial->sum_high += high + (partial->sum_low < low);
}

#define DEFINE_STATISTICS(dtype, suffix, type, n_bits, is_float)                              \
    void run_statistics_##suffix(fake_access *access, const void *arguments, uint64_t blocks) \
    {                                                                                         \
        const cuda_statistics_args *args = arguments;                                         \
        const uint64_t tile = (uint64_t)GMV_CUDA_THREADS * reduction_pieces(sizeof(type));    \
        const type *elements = (const void *)fake_access_aligned(                             \
            access, args->input, args->n * sizeof(type), sizeof(type));                       \
        gmv_statistics_partial *output =                                                      \
            (void *)fake_access_aligned(access, args->output, blocks * sizeof *output, 8);    \
        fake_bits valid = bits_begin(access, args->validity, args->n);                        \
        wants_blocks(access, blocks, args->n, tile);                                          \
        for (uint64_t block = 0; block < blocks && !access->failed; block++) {                \
            output[block] = statistics_none();                                                \
            for (uint64_t i = block * tile; i < (block + 1) * tile && i < args->n; i++) {     \
                uint32_t kind = element_class_##suffix(elements[i]);                          \
                if (!bits_at(&valid, i))                                                      \
                    continue;                                                                 \
                output[block].nan_count += kind == ELEMENT_NAN;                               \
                output[block].inf_count += kind == ELEMENT_INFINITE;                          \
                if (kind != ELEMENT_FINITE)                                                   \
                    continue;                                                                 \
                output[block].zero_count += element_is_zero_##suffix(elements[i]);            \
                statistics_add(&output[block], element_key_##suffix(elements[i]),             \
                               element_double_##suffix(elements[i]), is_float);               \
                statistics_add_integer(&output[block], element_low_##suffix(elements[i]),     \
                                       element_high_##suffix(elements[i]));                   \
            }                                                                                 \
        }                                                                                     \
    }
ELEMENT_MAP(DEFINE_STATISTICS)

#define DEFINE_MERGE(name, type, none, merge)                                                  \
    void run_##name(fake_access *access, const void *arguments, uint64_t blocks)               \
    {                                                                                          \
        const cuda_merge_args *args = arguments;                                               \
        const type *input =                                                                    \
            (const void *)fake_access_aligned(access, args->input, args->n * sizeof(type), 8); \
        type *output =                                                                         \
            (void *)fake_access_aligned(access, args->output, blocks * sizeof(type), 8);       \
        wants_blocks(access, blocks, args->n, GMV_CUDA_MERGE_TILE);                            \
        for (uint64_t block = 0; block < blocks && !access->failed; block++)                   \
            output[block] = none();                                                            \
        for (uint64_t i = 0; i < args->n && !access->failed; i++)                              \
            merge(&output[i / GMV_CUDA_MERGE_TILE], &input[i]);                                \
    }
DEFINE_MERGE(merge_statistics, gmv_statistics_partial, statistics_none, statistics_merge)
DEFINE_MERGE(merge_comparisons, gmv_comparison_partial, comparison_none, comparison_merge)

/* ---- comparisons ----------------------------------------------------------------------------- */

/* `parts`: numbers of an element; `judge` adds pair i to the partial. */
#define DEFINE_COMPARE(name, type, parts, judge)                                                   \
    void run_compare_##name(fake_access *access, const void *arguments, uint64_t blocks)           \
    {                                                                                              \
        const cuda_compare_args *args = arguments;                                                 \
        const comparison_options options = {args->absolute, args->relative, args->nan_equal != 0}; \
        const uint64_t nbytes = sizeof(type) * (parts);                                            \
        const uint64_t tile = (uint64_t)GMV_CUDA_THREADS * reduction_pieces(nbytes);               \
        const type *a = (const void *)fake_access_aligned(access, args->inputs[0],                 \
                                                          args->n * nbytes, sizeof(type));         \
        const type *b = (const void *)fake_access_aligned(access, args->inputs[1],                 \
                                                          args->n * nbytes, sizeof(type));         \
        gmv_comparison_partial *output =                                                           \
            (void *)fake_access_aligned(access, args->output, blocks * sizeof *output, 8);         \
        fake_bits valid_a = bits_begin(access, args->validities[0], args->n);                      \
        fake_bits valid_b = bits_begin(access, args->validities[1], args->n);                      \
        wants_blocks(access, blocks, args->n, tile);                                               \
        for (uint64_t block = 0; block < blocks && !access->failed; block++) {                     \
            comparison_pairs pairs = comparison_begin();                                           \
            for (uint64_t i = block * tile; i < (block + 1) * tile && i < args->n; i++) {          \
                if (bits_at(&valid_a, i) && bits_at(&valid_b, i))                                  \
                    judge(&pairs, a, b, i, &options);                                              \
                else if (bits_at(&valid_a, i) != bits_at(&valid_b, i))                             \
                    comparison_add_index(&pairs, i);                                               \
            }                                                                                      \
            output[block] = comparison_end(&pairs);                                                \
        }                                                                                          \
    }

#define DEFINE_COMPARE_ROW(dtype, suffix, type, n_bits, is_float)                                 \
    static void judge_##suffix(comparison_pairs *pairs, const type *a, const type *b, uint64_t i, \
                               const comparison_options *options)                                 \
    {                                                                                             \
        comparison_pair_##suffix(pairs, a[i], b[i], i, options);                                  \
    }                                                                                             \
    DEFINE_COMPARE(suffix, type, 1, judge_##suffix)
ELEMENT_MAP(DEFINE_COMPARE_ROW)

#define DEFINE_COMPARE_COMPLEX(suffix, type)                                                      \
    static void judge_##suffix(comparison_pairs *pairs, const type *a, const type *b, uint64_t i, \
                               const comparison_options *options)                                 \
    {                                                                                             \
        comparison_pair_##suffix(pairs, a[2 * i], a[2 * i + 1], b[2 * i], b[2 * i + 1], i,        \
                                 options);                                                        \
    }                                                                                             \
    DEFINE_COMPARE(suffix, type, 2, judge_##suffix)
DEFINE_COMPARE_COMPLEX(c8, uint32_t)
DEFINE_COMPARE_COMPLEX(c16, uint64_t)

/* ---- histograms ------------------------------------------------------------------------------ */

static uint32_t histogram_read(const cuda_histogram_args *args, const uint8_t *input, uint64_t i,
                               double *value)
{
#define HISTOGRAM_ROW(dtype, suffix, type, n_bits, is_float)          \
    case ELEMENT_##suffix: {                                          \
        type element;                                                 \
        memcpy(&element, input + i * sizeof element, sizeof element); \
        *value = element_double_##suffix(element);                    \
        return element_class_##suffix(element);                       \
    }
    switch (args->element) {
        ELEMENT_MAP(HISTOGRAM_ROW)
    default:
        return ELEMENT_NAN;
    }
}

/* The last bin whose lower edge is not above the value. */
static uint64_t histogram_search(const double *edges, uint64_t n_bins, double value)
{
    uint64_t low = 0, high = n_bins;
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        if (edges[middle] <= value)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static uint64_t histogram_place(const cuda_histogram_args *args, const double *edges, uint32_t kind,
                                double value)
{
    if (kind != ELEMENT_FINITE)
        return args->n_bins + (kind == ELEMENT_NAN ? 2 : 3);
    if (value < edges[0])
        return args->n_bins;
    if (value > edges[args->n_bins])
        return args->n_bins + 1;
    return histogram_search(edges, args->n_bins, value);
}

void run_histogram(fake_access *access, const void *arguments, uint64_t blocks)
{
    const cuda_histogram_args *args = arguments;
    const uint8_t *input =
        fake_access_aligned(access, args->input, args->n * args->itemsize, args->itemsize);
    const double *edges =
        (const void *)fake_access_aligned(access, args->edges, (args->n_bins + 1) * 8, 8);
    uint64_t *counts = (void *)fake_access_aligned(access, args->counts, (args->n_bins + 4) * 8, 8);
    fake_bits valid = bits_begin(access, args->validity, args->n);
    wants_blocks(access, blocks, args->n, GMV_CUDA_HISTOGRAM_TILE);
    if (!access->failed)
        wants(access, edges[0] == args->first && edges[args->n_bins] == args->last,
              "edges that are not the arguments'");
    for (uint64_t i = 0; i < args->n && !access->failed; i++) {
        double value = 0;
        uint32_t kind = histogram_read(args, input, i, &value);
        if (bits_at(&valid, i))
            counts[histogram_place(args, edges, kind, value)]++;
    }
}

/* ---- checksums ------------------------------------------------------------------------------- */

static void hash_blocks(fake_access *access, const cuda_hash_args *args, uint64_t blocks,
                        bool is_xxh3)
{
    const uint8_t *input =
        fake_access_aligned(access, args->input, args->n * args->block_nbytes, 16);
    uint64_t *output = (void *)fake_access_aligned(access, args->output, args->n * 8, 8);
    wants(access, args->block_nbytes % 64 == 0 && args->block_nbytes > 240, "blocks of odd sizes");
    wants_blocks(access, blocks, args->n, GMV_CUDA_HASH_TILE);
    for (uint64_t i = 0; i < args->n && !access->failed; i++) {
        const uint8_t *block = input + i * args->block_nbytes;
        output[i] =
            is_xxh3 ? XXH3_64bits(block, args->block_nbytes) : XXH64(block, args->block_nbytes, 0);
    }
}

void run_hash_xxh64(fake_access *access, const void *arguments, uint64_t blocks)
{
    hash_blocks(access, arguments, blocks, false);
}

void run_hash_xxh3(fake_access *access, const void *arguments, uint64_t blocks)
{
    hash_blocks(access, arguments, blocks, true);
}

static uint32_t crc_add(uint32_t crc, uint8_t byte)
{
    crc ^= byte;
    for (int bit = 0; bit < 8; bit++)
        crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
    return crc;
}

void run_crc32c(fake_access *access, const void *arguments, uint64_t blocks)
{
    static uint32_t table[256];
    const cuda_crc_args *args = arguments;
    const uint8_t *input = fake_access_aligned(access, args->input, args->nbytes, 16);
    uint32_t *output = (void *)fake_access_aligned(access, args->output, blocks * 4, 4);
    (void)fake_access_aligned(access, args->tables, sizeof(cuda_crc_tables), 16);
    wants_blocks(access, blocks, args->nbytes, GMV_CUDA_CRC_TILE);
    for (uint32_t i = 0; i < 256; i++)
        table[i] = crc_add(0, (uint8_t)i);
    for (uint64_t block = 0; block < blocks && !access->failed; block++) {
        uint64_t begin = block * GMV_CUDA_CRC_TILE, end = begin + GMV_CUDA_CRC_TILE;
        uint32_t crc = 0;
        for (uint64_t i = begin; i < end && i < args->nbytes; i++)
            crc = crc >> 8 ^ table[(crc ^ input[i]) & 0xff];
        output[block] = crc;
    }
}
