/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions on the host. Elements are read once, a tile at a time: what counts is kept as doubles
 * in a block of its own, so that a second look sees the same even if another process changes the
 * input. Tiles are those of every backend (device/tiles.h), and merge in pairs.
 */
#include <gmv/base/num.h>

#include "device/elements.h"
#include "device/host/host.h"
#include "device/tiles.h"

#define TILE_MAX   (32u * REDUCTION_THREADS)
#define TILE_WORDS (TILE_MAX / 64)
#define LANES      16u  /* independent sums */
#define BLOCK      256u /* values that lanes add up before they are added to the rest */

typedef struct client_u8 {
    uint8_t value;
} __attribute__((packed, may_alias)) client_u8;

/* ---- validity -------------------------------------------------------------------------------- */

/* Bits first to first + n - 1 as words from bit 0 on; NULL if all are ones. */
static const uint64_t *validity_read(gmv_bits bits, uint64_t first, uint32_t n, uint64_t *words)
{
    if (bits.address == 0)
        return NULL;
    uint64_t bit = (uint64_t)bits.offset + first;
    const uint8_t *at = (const uint8_t *)(uintptr_t)bits.address + bit / 8;
    unsigned shift = (unsigned)(bit % 8);
    for (uint32_t done = 0; done < n; done += 64, at += 8) {
        uint32_t n_bits = GMV_MIN(n - done, 64u);
        uint8_t bytes[16] = {0};
        client_copy(bytes, at, (shift + n_bits + 7) / 8);
        words[done / 64] = host_word(bytes, shift);
    }
    return words;
}

static inline bool is_valid(const uint64_t *words, uint32_t i)
{
    return !words || (words[i / 64] >> i % 64 & 1);
}

/* ---- a tile ---------------------------------------------------------------------------------- */

typedef struct tile_values {
    gmv_statistics_partial partial; /* all but the moments */
    uint32_t n_values;
    double values[TILE_MAX]; /* of what is finite and valid */
} tile_values;

static inline void integer_add(gmv_statistics_partial *partial, uint64_t low, uint64_t high)
{
    partial->sum_low += low;
    partial->sum_high += high + (partial->sum_low < low);
}

typedef void (*tile_read)(tile_values *tile, const uint8_t *input, uint32_t n,
                          const uint64_t *valid);

/* Extremes are of `n` elements; keys of short types are widened. */
static void tile_finish(tile_values *tile, gmv_statistics_partial partial, uint64_t min,
                        uint64_t max, uint32_t n)
{
    partial.n = tile->n_values = n;
    if (n) {
        partial.min_key = min;
        partial.max_key = max;
    }
    tile->partial = partial;
}

/*
 * The first function takes it that all elements are finite, and does without a branch; false if
 * they are not. The second one looks at each.
 */
#define DEFINE_TILE(dtype, suffix, type, bits, is_float)                                          \
    GMV_CLIENT_MEMORY static bool tile_read_all_##suffix(tile_values *tile, const uint8_t *input, \
                                                         uint32_t n)                              \
    {                                                                                             \
        const client_u##bits *elements = (const client_u##bits *)(const void *)input;             \
        gmv_statistics_partial partial = statistics_none();                                       \
        type min = (type) ~(type)0, max = 0;                                                      \
        uint32_t kinds = ELEMENT_FINITE, zeros = 0;                                               \
        int64_t sum = 0;                                                                          \
        for (uint32_t i = 0; i < n; i++) {                                                        \
            if (i % BLOCK == 0 && kinds != ELEMENT_FINITE)                                        \
                return false;                                                                     \
            type element = elements[i].value, key = element_key_##suffix(element);                \
            kinds |= element_class_##suffix(element);                                             \
            min = key < min ? key : min;                                                          \
            max = key > max ? key : max;                                                          \
            zeros += element_is_zero_##suffix(element);                                           \
            tile->values[i] = element_double_##suffix(element);                                   \
            if (!(is_float) && (bits) < 64)                                                       \
                sum += (int64_t)element_low_##suffix(element);                                    \
            else if (!(is_float))                                                                 \
                integer_add(&partial, element_low_##suffix(element),                              \
                            element_high_##suffix(element));                                      \
        }                                                                                         \
        if (!(is_float) && (bits) < 64)                                                           \
            integer_add(&partial, (uint64_t)sum, sum < 0 ? UINT64_MAX : 0);                       \
        partial.zero_count = zeros;                                                               \
        tile_finish(tile, partial, min, max, n);                                                  \
        return kinds == ELEMENT_FINITE;                                                           \
    }                                                                                             \
    GMV_CLIENT_MEMORY static void tile_read_##suffix(tile_values *tile, const uint8_t *input,     \
                                                     uint32_t n, const uint64_t *valid)           \
    {                                                                                             \
        const client_u##bits *elements = (const client_u##bits *)(const void *)input;             \
        gmv_statistics_partial partial = statistics_none();                                       \
        type min = (type) ~(type)0, max = 0;                                                      \
        uint32_t n_values = 0;                                                                    \
        if (!valid && tile_read_all_##suffix(tile, input, n))                                     \
            return;                                                                               \
        for (uint32_t i = 0; i < n; i++) {                                                        \
            type element = elements[i].value, key = element_key_##suffix(element);                \
            uint32_t kind = element_class_##suffix(element);                                      \
            if (!is_valid(valid, i))                                                              \
                continue;                                                                         \
            if (kind != ELEMENT_FINITE) {                                                         \
                partial.nan_count += kind == ELEMENT_NAN;                                         \
                partial.inf_count += kind == ELEMENT_INFINITE;                                    \
                continue;                                                                         \
            }                                                                                     \
            min = key < min ? key : min;                                                          \
            max = key > max ? key : max;                                                          \
            partial.zero_count += element_is_zero_##suffix(element);                              \
            if (!(is_float))                                                                      \
                integer_add(&partial, element_low_##suffix(element),                              \
                            element_high_##suffix(element));                                      \
            tile->values[n_values++] = element_double_##suffix(element);                          \
        }                                                                                         \
        tile_finish(tile, partial, min, max, n_values);                                           \
    }
ELEMENT_MAP(DEFINE_TILE)

#define TILE_ROW(dtype, suffix, type, bits, is_float) [ELEMENT_##suffix] = tile_read_##suffix,
static const tile_read tile_reads[] = {ELEMENT_MAP(TILE_ROW)};

/* The sum of values less `shift`, or of the squares of these differences. */
static double values_sum(const double *values, uint32_t n, double shift, bool squared)
{
    double sum = 0;
    for (uint32_t done = 0; done < n; done += BLOCK) {
        double lanes[LANES] = {0};
        uint32_t n_block = GMV_MIN(n - done, BLOCK), i = 0;
        for (; i + LANES <= n_block; i += LANES) {
            for (uint32_t lane = 0; lane < LANES; lane++) {
                double value = values[done + i + lane] - shift;
                lanes[lane] += squared ? value * value : value;
            }
        }
        for (; i < n_block; i++) {
            double value = values[done + i] - shift;
            lanes[i % LANES] += squared ? value * value : value;
        }
        for (uint32_t half = LANES / 2; half > 0; half /= 2)
            for (uint32_t lane = 0; lane < half; lane++)
                lanes[lane] += lanes[lane + half];
        sum += lanes[0];
    }
    return sum;
}

static gmv_statistics_partial tile_statistics(tile_values *tile, bool is_float)
{
    gmv_statistics_partial partial = tile->partial;
    if (tile->n_values == 0)
        return partial;
    double sum = values_sum(tile->values, tile->n_values, 0, false);
    partial.mean = sum / tile->n_values;
    partial.squares = values_sum(tile->values, tile->n_values, partial.mean, true);
    if (is_float)
        partial.sum = sum;
    return partial;
}

/* ---- statistics ------------------------------------------------------------------------------ */

#define PAIRS_MAX 64

gmv_status host_statistics(gmv_stream *stream, const gmv_statistics_reduction *args, gmv_error *err)
{
    tile_values tile;
    uint64_t words[TILE_WORDS];
    gmv_statistics_partial pairs[PAIRS_MAX]; /* each of twice as many tiles as the next, or more */
    size_t n_pairs = 0;
    const uint64_t itemsize = gmv_dtype_describe(args->dtype)->itemsize, n = (uint64_t)args->n;
    const uint8_t *input = (const uint8_t *)(uintptr_t)args->input;
    const uint32_t n_tile = REDUCTION_THREADS * reduction_pieces(itemsize);
    const tile_read read = tile_reads[gmv__element_of_dtype(args->dtype)];
    const bool is_float = gmv_dtype_describe(args->dtype)->kind == GMV_DTYPE_FLOAT;
    for (uint64_t first = 0, number = 0; first < n; first += n_tile, number++) {
        uint32_t count = (uint32_t)GMV_MIN(n - first, (uint64_t)n_tile);
        read(&tile, input + first * itemsize, count,
             validity_read(args->validity, first, count, words));
        pairs[n_pairs++] = tile_statistics(&tile, is_float);
        for (uint64_t done = number; done & 1; done >>= 1, n_pairs--)
            statistics_merge(&pairs[n_pairs - 2], &pairs[n_pairs - 1]);
    }
    for (; n_pairs > 1; n_pairs--)
        statistics_merge(&pairs[n_pairs - 2], &pairs[n_pairs - 1]);
    gmv_statistics_partial whole = n_pairs ? pairs[0] : statistics_none();
    client_copy((void *)(uintptr_t)args->scratch, &whole, sizeof whole);
    return GMV_OK;
}

/* ---- comparisons ----------------------------------------------------------------------------- */

/* Pairs of one tile; `valid` words may be NULL. */
typedef struct pairs {
    const uint8_t *inputs[2];
    const uint64_t *valid[2];
    uint64_t first; /* index of the first one */
    uint32_t n;
} pairs;

/* What validity says of a pair: whether to look at it; if not, it may differ. */
static inline bool pair_is_valid(const pairs *p, uint32_t i, gmv_comparison_partial *partial)
{
    bool a = is_valid(p->valid[0], i), b = is_valid(p->valid[1], i);
    if (a != b)
        comparison_add_index(partial, p->first + i);
    return a && b;
}

typedef void (*pairs_compare)(const pairs *p, const comparison_options *options,
                              gmv_comparison_partial *out_partial);

#define DEFINE_PAIRS(dtype, suffix, type, bits, is_float)                                          \
    GMV_CLIENT_MEMORY static void pairs_compare_##suffix(                                          \
        const pairs *p, const comparison_options *options, gmv_comparison_partial *out_partial)    \
    {                                                                                              \
        gmv_comparison_partial partial = comparison_none();                                        \
        const client_u##bits *a = (const client_u##bits *)(const void *)p->inputs[0];              \
        const client_u##bits *b = (const client_u##bits *)(const void *)p->inputs[1];              \
        for (uint32_t i = 0; i < p->n; i++)                                                        \
            if (pair_is_valid(p, i, &partial))                                                     \
                comparison_pair_##suffix(&partial, a[i].value, b[i].value, p->first + i, options); \
        *out_partial = partial;                                                                    \
    }
ELEMENT_MAP(DEFINE_PAIRS)

#define DEFINE_COMPLEX_PAIRS(suffix, bits)                                                      \
    GMV_CLIENT_MEMORY static void pairs_compare_##suffix(                                       \
        const pairs *p, const comparison_options *options, gmv_comparison_partial *out_partial) \
    {                                                                                           \
        gmv_comparison_partial partial = comparison_none();                                     \
        const client_u##bits *a = (const client_u##bits *)(const void *)p->inputs[0];           \
        const client_u##bits *b = (const client_u##bits *)(const void *)p->inputs[1];           \
        for (uint32_t i = 0; i < p->n; i++)                                                     \
            if (pair_is_valid(p, i, &partial))                                                  \
                comparison_pair_##suffix(&partial, a[2 * i].value, a[2 * i + 1].value,          \
                                         b[2 * i].value, b[2 * i + 1].value, p->first + i,      \
                                         options);                                              \
        *out_partial = partial;                                                                 \
    }
DEFINE_COMPLEX_PAIRS(c8, 32)
DEFINE_COMPLEX_PAIRS(c16, 64)

#define PAIRS_ROW(dtype, suffix, type, bits, is_float) [ELEMENT_##suffix] = pairs_compare_##suffix,
static const pairs_compare pairs_compares[] = {ELEMENT_MAP(PAIRS_ROW)};

static pairs_compare pairs_choose(gmv_dtype dtype)
{
    int element = gmv__element_of_dtype(dtype);
    if (element >= 0)
        return pairs_compares[element];
    return dtype == GMV_DTYPE_C8 ? pairs_compare_c8 : pairs_compare_c16;
}

gmv_status host_compare(gmv_stream *stream, const gmv_comparison_reduction *args, gmv_error *err)
{
    uint64_t words[2][TILE_WORDS];
    const uint64_t itemsize = gmv_dtype_describe(args->dtype)->itemsize, n = (uint64_t)args->n;
    const pairs_compare compare = pairs_choose(args->dtype);
    const comparison_options options = {args->absolute_tolerance, args->relative_tolerance,
                                        args->nan_equal};
    gmv_comparison_partial whole = comparison_none(), part;
    for (uint64_t first = 0; first < n; first += TILE_MAX) {
        pairs p = {.first = first, .n = (uint32_t)GMV_MIN(n - first, (uint64_t)TILE_MAX)};
        for (int i = 0; i < 2; i++) {
            p.inputs[i] = (const uint8_t *)(uintptr_t)args->inputs[i] + first * itemsize;
            p.valid[i] = validity_read(args->validities[i], first, p.n, words[i]);
        }
        compare(&p, &options, &part);
        comparison_merge(&whole, &part);
    }
    client_copy((void *)(uintptr_t)args->scratch, &whole, sizeof whole);
    return GMV_OK;
}

/* ---- histograms ------------------------------------------------------------------------------ */

static void histogram_add(const gmv_histogram_reduction *args, const tile_values *tile,
                          double scale)
{
    const double *edges = (const double *)(uintptr_t)args->edges;
    uint64_t *counts = (uint64_t *)(uintptr_t)args->counts;
    uint64_t *rests = counts + args->n_bins;
    rests[GMV_HISTOGRAM_NAN] += tile->partial.nan_count;
    rests[GMV_HISTOGRAM_INFINITE] += tile->partial.inf_count;
    for (uint32_t i = 0; i < tile->n_values; i++) {
        double value = tile->values[i];
        if (value < args->first_edge)
            rests[GMV_HISTOGRAM_BELOW]++;
        else if (value > args->last_edge)
            rests[GMV_HISTOGRAM_ABOVE]++;
        else
            counts[histogram_bin(value, edges, (uint64_t)args->n_bins, args->first_edge, scale)]++;
    }
}

gmv_status host_histogram(gmv_stream *stream, const gmv_histogram_reduction *args, gmv_error *err)
{
    tile_values tile;
    uint64_t words[TILE_WORDS];
    const uint64_t itemsize = gmv_dtype_describe(args->dtype)->itemsize, n = (uint64_t)args->n;
    const uint8_t *input = (const uint8_t *)(uintptr_t)args->input;
    const tile_read read = tile_reads[gmv__element_of_dtype(args->dtype)];
    const double scale = (double)args->n_bins / (args->last_edge - args->first_edge);
    for (uint64_t first = 0; first < n; first += TILE_MAX) {
        uint32_t count = (uint32_t)GMV_MIN(n - first, (uint64_t)TILE_MAX);
        read(&tile, input + first * itemsize, count,
             validity_read(args->validity, first, count, words));
        histogram_add(args, &tile, scale);
    }
    return GMV_OK;
}
