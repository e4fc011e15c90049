/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions on the host. Elements are read once, a tile at a time: what counts is kept as doubles
 * in a block of its own, so that a second look sees the same even if another process changes the
 * input. Tiles are those of every backend (device/tiles.h), and merge in pairs.
 */
#include <gmv/base/num.h>

#include "device/elements.h"
#include "device/host/host.h"
#include "device/host/host_loops.h"

#define TILE_MAX   HOST_LOOP_MAX
#define TILE_WORDS (TILE_MAX / 64)
#define BLOCK      64u /* elements that are looked at together */

typedef struct client_u8 {
    uint8_t value;
} __attribute__((packed, may_alias)) client_u8;

/* ---- validity ---- */

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

/* ---- a tile ---- */

typedef struct tile_values {
    gmv_statistics_partial partial; /* all but the moments */
    uint32_t n_values;
    double values[HOST_LOOP_ROOM]; /* of what is finite and valid */
} tile_values;

static inline void integer_add(gmv_statistics_partial *partial, uint64_t low, uint64_t high)
{
    partial->sum_low += low;
    partial->sum_high += high + (partial->sum_low < low);
}

/* Looks at n elements, of which `valid` (NULL: all) count, and adds them to the tile. */
typedef void (*tile_read)(tile_values *tile, const uint8_t *input, uint32_t n, uint32_t first,
                          const uint64_t *valid);

static inline void tile_add(tile_values *tile, uint32_t n, uint64_t min, uint64_t max,
                            uint32_t zeros)
{
    gmv_statistics_partial *partial = &tile->partial;
    tile->n_values += n;
    partial->n += n;
    partial->zero_count += zeros;
    if (n && min < partial->min_key)
        partial->min_key = min;
    if (n && max > partial->max_key)
        partial->max_key = max;
}

#if defined(__GNUC__) && !defined(__clang__)
#    define VECTORIZED __attribute__((optimize("O3")))
#else
#    define VECTORIZED
#endif
#if defined(__x86_64__)
#    define WITH_AVX2 __attribute__((target("avx2")))
#else
#    define WITH_AVX2
#endif

/*
 * The first function takes it that all elements are finite and count, and has no branch in its
 * loop; false, and nothing is added, if the extremes are not finite. The other one looks at each.
 */
#define DEFINE_READ_ALL(name, target, suffix, type, bits, is_float)                                \
    GMV_CLIENT_MEMORY VECTORIZED target static bool name##suffix(tile_values *tile,                \
                                                                 const uint8_t *input, uint32_t n) \
    {                                                                                              \
        const client_u##bits *elements = (const client_u##bits *)(const void *)input;              \
        double *values = tile->values + tile->n_values;                                            \
        type min = (type) ~(type)0, max = 0;                                                       \
        uint32_t zeros = 0;                                                                        \
        int64_t sum = 0, high = 0;                                                                 \
        for (uint32_t i = 0; i < n; i++) {                                                         \
            type element = elements[i].value, key = element_key_##suffix(element);                 \
            min = key < min ? key : min;                                                           \
            max = key > max ? key : max;                                                           \
            zeros += element_is_zero_##suffix(element);                                            \
            values[i] = element_double_##suffix(element);                                          \
            if (!(is_float) && (bits) < 64)                                                        \
                sum += (int64_t)element_low_##suffix(element);                                     \
            else if (!(is_float)) {                                                                \
                sum += (int64_t)(element & UINT32_MAX);                                            \
                high += (int64_t)((uint64_t)element >> 16 >> 16);                                  \
                high -= (int64_t)((element_high_##suffix(element) & 1) << 32);                     \
            }                                                                                      \
        }                                                                                          \
        if (element_class_##suffix(element_of_key_##suffix(min)) != ELEMENT_FINITE ||              \
            element_class_##suffix(element_of_key_##suffix(max)) != ELEMENT_FINITE)                \
            return false;                                                                          \
        high += sum >> 32;                                                                         \
        if (!(is_float))                                                                           \
            integer_add(&tile->partial, (uint64_t)high << 32 | ((uint64_t)sum & UINT32_MAX),       \
                        (uint64_t)(high >> 32));                                                   \
        tile_add(tile, n, min, max, zeros);                                                        \
        return true;                                                                               \
    }

#define DEFINE_READ_EACH(suffix, type, bits, is_float)                                             \
    GMV_CLIENT_MEMORY static void read_each_##suffix(tile_values *tile, const uint8_t *input,      \
                                                     uint32_t n, uint32_t first,                   \
                                                     const uint64_t *valid)                        \
    {                                                                                              \
        const client_u##bits *elements = (const client_u##bits *)(const void *)input;              \
        type min = (type) ~(type)0, max = 0;                                                       \
        double *values = tile->values + tile->n_values;                                            \
        uint32_t n_values = 0, zeros = 0, n_nan = 0, n_infinite = 0;                               \
        for (uint32_t i = 0; i < n; i++) {                                                         \
            type element = elements[i].value, key = element_key_##suffix(element);                 \
            uint32_t kind = element_class_##suffix(element), counted = is_valid(valid, first + i); \
            n_nan += counted & (kind == ELEMENT_NAN);                                              \
            n_infinite += counted & (kind == ELEMENT_INFINITE);                                    \
            counted &= kind == ELEMENT_FINITE;                                                     \
            min = counted && key < min ? key : min;                                                \
            max = counted && key > max ? key : max;                                                \
            zeros += counted & element_is_zero_##suffix(element);                                  \
            values[n_values] = element_double_##suffix(element);                                   \
            n_values += counted;                                                                   \
            if (!(is_float))                                                                       \
                integer_add(&tile->partial, counted ? element_low_##suffix(element) : 0,           \
                            counted ? element_high_##suffix(element) : 0);                         \
        }                                                                                          \
        tile->partial.nan_count += n_nan;                                                          \
        tile->partial.inf_count += n_infinite;                                                     \
        tile_add(tile, n_values, min, max, zeros);                                                 \
    }

#define DEFINE_READ(name, suffix, all)                                                            \
    static void name##suffix(tile_values *tile, const uint8_t *input, uint32_t n, uint32_t first, \
                             const uint64_t *valid)                                               \
    {                                                                                             \
        if (valid || !all##suffix(tile, input, n))                                                \
            read_each_##suffix(tile, input, n, first, valid);                                     \
    }

#define DEFINE_TILE(dtype, suffix, type, bits, is_float)                     \
    DEFINE_READ_ALL(read_all_, , suffix, type, bits, is_float)               \
    DEFINE_READ_ALL(read_all_avx2_, WITH_AVX2, suffix, type, bits, is_float) \
    DEFINE_READ_EACH(suffix, type, bits, is_float)                           \
    DEFINE_READ(tile_read_, suffix, read_all_)                               \
    DEFINE_READ(tile_read_avx2_, suffix, read_all_avx2_)
ELEMENT_MAP(DEFINE_TILE)

#define TILE_ROW(dtype, suffix, type, bits, is_float) \
    [ELEMENT_##suffix] = {tile_read_##suffix, tile_read_avx2_##suffix},
static const tile_read tile_reads[][2] = {ELEMENT_MAP(TILE_ROW)};

static bool stream_has_avx2(const gmv_stream *stream)
{
    return host_device_of(stream->device)->kernels == gmv__host_avx2_set();
}

static tile_read tile_reader(const gmv_stream *stream, gmv_dtype dtype)
{
    return tile_reads[gmv__element_of_dtype(dtype)][stream_has_avx2(stream)];
}

static const host_loops *stream_loops(const gmv_stream *stream)
{
    return stream_has_avx2(stream) ? &gmv__host_avx2_loops : &gmv__host_portable_loops;
}

/* The tile of some elements, read in blocks, so that what is not finite slows down its own only. */
static void tile_fill(tile_values *tile, tile_read read, const uint8_t *input, uint32_t n,
                      uint64_t itemsize, const uint64_t *valid)
{
    tile->partial = statistics_none();
    tile->n_values = 0;
    for (uint32_t done = 0; done < n; done += BLOCK)
        read(tile, input + done * itemsize, GMV_MIN(n - done, BLOCK), done, valid);
}

static gmv_statistics_partial tile_statistics(tile_values *tile, const host_loops *loops,
                                              bool is_float)
{
    gmv_statistics_partial partial = tile->partial;
    host_moments moments;
    if (tile->n_values == 0)
        return partial;
    loops->moments(tile->values, tile->n_values, &moments);
    partial.mean = moments.mean;
    partial.squares = moments.squares;
    if (is_float)
        partial.sum = moments.sum;
    return partial;
}

/* ---- statistics ---- */

#define PAIRS_MAX 64

gmv_status gmv__host_statistics(gmv_stream *stream, const gmv_statistics_reduction *args,
                                gmv_error *err)
{
    tile_values tile;
    uint64_t words[TILE_WORDS];
    gmv_statistics_partial pairs[PAIRS_MAX]; /* each of twice as many tiles as the next, or more */
    size_t n_pairs = 0;
    const uint64_t itemsize = gmv_dtype_describe(args->dtype)->itemsize, n = (uint64_t)args->n;
    const uint8_t *input = (const uint8_t *)(uintptr_t)args->input;
    const tile_read read = tile_reader(stream, args->dtype);
    const bool is_float = gmv_dtype_describe(args->dtype)->kind == GMV_DTYPE_FLOAT;
    for (uint64_t first = 0, number = 0; first < n; first += TILE_MAX, number++) {
        uint32_t count = (uint32_t)GMV_MIN(n - first, (uint64_t)TILE_MAX);
        tile_fill(&tile, read, input + first * itemsize, count, itemsize,
                  validity_read(args->validity, first, count, words));
        pairs[n_pairs++] = tile_statistics(&tile, stream_loops(stream), is_float);
        for (uint64_t done = number; done & 1; done >>= 1, n_pairs--)
            statistics_merge(&pairs[n_pairs - 2], &pairs[n_pairs - 1]);
    }
    for (; n_pairs > 1; n_pairs--)
        statistics_merge(&pairs[n_pairs - 2], &pairs[n_pairs - 1]);
    gmv_statistics_partial whole = n_pairs ? pairs[0] : statistics_none();
    client_copy((void *)(uintptr_t)args->scratch, &whole, sizeof whole);
    return GMV_OK;
}

/* ---- comparisons ---- */

/* Pairs of one tile; `valid` words may be NULL. */
typedef struct pairs {
    const uint8_t *inputs[2];
    const uint64_t *valid[2];
    uint64_t first; /* index of the first one */
    uint32_t n;
} pairs;

/* What validity says of a pair: whether to look at it; if not, it may differ. */
static inline bool pair_is_valid(const pairs *p, uint32_t i, comparison_pairs *found)
{
    bool a = is_valid(p->valid[0], i), b = is_valid(p->valid[1], i);
    if (a != b)
        comparison_add_index(found, p->first + i);
    return a && b;
}

typedef void (*pairs_compare)(const pairs *p, const comparison_options *options,
                              gmv_comparison_partial *out_partial);

#define DEFINE_PAIRS(dtype, suffix, type, bits, is_float)                                        \
    GMV_CLIENT_MEMORY static void pairs_compare_##suffix(                                        \
        const pairs *p, const comparison_options *options, gmv_comparison_partial *out_partial)  \
    {                                                                                            \
        comparison_pairs found = comparison_begin();                                             \
        const client_u##bits *a = (const client_u##bits *)(const void *)p->inputs[0];            \
        const client_u##bits *b = (const client_u##bits *)(const void *)p->inputs[1];            \
        for (uint32_t i = 0; i < p->n; i++)                                                      \
            if (pair_is_valid(p, i, &found))                                                     \
                comparison_pair_##suffix(&found, a[i].value, b[i].value, p->first + i, options); \
        *out_partial = comparison_end(&found);                                                   \
    }
ELEMENT_MAP(DEFINE_PAIRS)

#define DEFINE_COMPLEX_PAIRS(suffix, bits)                                                      \
    GMV_CLIENT_MEMORY static void pairs_compare_##suffix(                                       \
        const pairs *p, const comparison_options *options, gmv_comparison_partial *out_partial) \
    {                                                                                           \
        comparison_pairs found = comparison_begin();                                            \
        const client_u##bits *a = (const client_u##bits *)(const void *)p->inputs[0];           \
        const client_u##bits *b = (const client_u##bits *)(const void *)p->inputs[1];           \
        for (uint32_t i = 0; i < p->n; i++)                                                     \
            if (pair_is_valid(p, i, &found))                                                    \
                comparison_pair_##suffix(&found, a[2 * i].value, a[2 * i + 1].value,            \
                                         b[2 * i].value, b[2 * i + 1].value, p->first + i,      \
                                         options);                                              \
        *out_partial = comparison_end(&found);                                                  \
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

/* The value of any float; conversions keep what is not finite of long ones, but not of short ones.
 */
static inline double float_value(double finite, uint32_t kind, bool is_negative)
{
    double other = kind == ELEMENT_NAN ? __builtin_nan("")
                   : is_negative       ? -__builtin_inf()
                                       : __builtin_inf();
    return kind == ELEMENT_FINITE ? finite : other;
}

#define DEFINE_FLOAT_VALUES(name, target, suffix, type, bits)                                      \
    GMV_CLIENT_MEMORY VECTORIZED target static void name##suffix(const uint8_t *input, uint32_t n, \
                                                                 double *values)                   \
    {                                                                                              \
        const client_u##bits *elements = (const client_u##bits *)(const void *)input;              \
        for (uint32_t i = 0; i < n; i++) {                                                         \
            type element = elements[i].value;                                                      \
            values[i] = element_double_##suffix(element);                                          \
            if ((bits) < 32)                                                                       \
                values[i] = float_value(values[i], element_class_##suffix(element),                \
                                        element >> ((bits)-1));                                    \
        }                                                                                          \
    }
#define FLOAT_VALUES_true(suffix, type, bits)                \
    DEFINE_FLOAT_VALUES(float_values_, , suffix, type, bits) \
    DEFINE_FLOAT_VALUES(float_values_avx2_, WITH_AVX2, suffix, type, bits)
#define FLOAT_VALUES_false(suffix, type, bits)
#define FLOAT_VALUES(dtype, suffix, type, bits, is_float) \
    FLOAT_VALUES_##is_float(suffix, type, bits)
ELEMENT_MAP(FLOAT_VALUES)

typedef void (*float_values)(const uint8_t *input, uint32_t n, double *values);

#define FLOAT_ROW_true(suffix) \
    [ELEMENT_##suffix] = {float_values_##suffix, float_values_avx2_##suffix},
#define FLOAT_ROW_false(suffix)
#define FLOAT_ROW(dtype, suffix, type, bits, is_float) FLOAT_ROW_##is_float(suffix)
static const float_values float_readers[ELEMENT_COUNT][2] = {ELEMENT_MAP(FLOAT_ROW)};

static float_values float_reader(const gmv_stream *stream, const gmv_comparison_reduction *args)
{
    int element = gmv__element_of_dtype(args->dtype);
    if (element < 0 || args->validities[0].address || args->validities[1].address)
        return NULL;
    return float_readers[element][stream_has_avx2(stream)];
}

/* Pairs of floats without nulls; the first that differs is looked for where there is one. */
static void floats_compare(const pairs *p, const host_loops *loops, float_values read,
                           const comparison_options *options, bool wants_first,
                           gmv_comparison_partial *out_partial)
{
    double left[HOST_LOOP_ROOM], right[HOST_LOOP_ROOM], *const values[2] = {left, right};
    host_pairs found;
    read(p->inputs[0], p->n, left);
    read(p->inputs[1], p->n, right);
    loops->pairs(values, p->n, options, &found);
    *out_partial = comparison_none();
    out_partial->n = found.n_finite;
    out_partial->differing = found.differing;
    out_partial->difference = found.difference;
    out_partial->relative_difference = found.relative;
    if (found.differing && wants_first)
        out_partial->first = p->first + loops->first_differing(values, p->n, options);
}

gmv_status gmv__host_compare(gmv_stream *stream, const gmv_comparison_reduction *args,
                             gmv_error *err)
{
    uint64_t words[2][TILE_WORDS];
    const uint64_t itemsize = gmv_dtype_describe(args->dtype)->itemsize, n = (uint64_t)args->n;
    const pairs_compare compare = pairs_choose(args->dtype);
    const comparison_options options = {args->absolute_tolerance, args->relative_tolerance,
                                        args->nan_equal};
    const float_values floats = float_reader(stream, args);
    gmv_comparison_partial whole = comparison_none(), part;
    for (uint64_t first = 0; first < n; first += TILE_MAX) {
        pairs p = {.first = first, .n = (uint32_t)GMV_MIN(n - first, (uint64_t)TILE_MAX)};
        for (int i = 0; i < 2; i++) {
            p.inputs[i] = (const uint8_t *)(uintptr_t)args->inputs[i] + first * itemsize;
            p.valid[i] = validity_read(args->validities[i], first, p.n, words[i]);
        }
        if (floats)
            floats_compare(&p, stream_loops(stream), floats, &options, whole.first == GMV_NO_INDEX,
                           &part);
        else
            compare(&p, &options, &part);
        comparison_merge(&whole, &part);
    }
    client_copy((void *)(uintptr_t)args->scratch, &whole, sizeof whole);
    return GMV_OK;
}

/* ---- histograms ---- */

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

gmv_status gmv__host_histogram(gmv_stream *stream, const gmv_histogram_reduction *args,
                               gmv_error *err)
{
    tile_values tile;
    uint64_t words[TILE_WORDS];
    const uint64_t itemsize = gmv_dtype_describe(args->dtype)->itemsize, n = (uint64_t)args->n;
    const uint8_t *input = (const uint8_t *)(uintptr_t)args->input;
    const tile_read read = tile_reader(stream, args->dtype);
    const double scale = (double)args->n_bins / (args->last_edge - args->first_edge);
    for (uint64_t first = 0; first < n; first += TILE_MAX) {
        uint32_t count = (uint32_t)GMV_MIN(n - first, (uint64_t)TILE_MAX);
        tile_fill(&tile, read, input + first * itemsize, count, itemsize,
                  validity_read(args->validity, first, count, words));
        histogram_add(args, &tile, scale);
    }
    return GMV_OK;
}
