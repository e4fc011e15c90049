/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions of every device: what can be said without another implementation. Hashes and registers
 * are held against published values, keys and values against the model's floats, partials against
 * what small arrays plainly are.
 */
#include "device/device_support.h"

#include <math.h>

#include <gmv/base/num.h>
#include <gmv/device/reductions.h>
#include <gmv/model/dtype_float.h>

/* Memory with these bytes, at a multiple of 64. */
static gmv_memory *upload(world *w, const void *bytes, size_t nbytes)
{
    gmv_memory *memory = make_memory(w, GMV_MEMORY_ORDINARY, GMV_CONTENTS_UNSPECIFIED, nbytes + 1);
    must(w, gmv_copy_in(w->stream, memory->address, bytes, nbytes, &w->err));
    must(w, gmv_stream_finish(w->stream, &w->err));
    return memory;
}

/* ---- elements -------------------------------------------------------------------------------- */

Test(elements, short_floats_have_the_models_values_and_order)
{
    static const gmv_dtype dtypes[] = {GMV_DTYPE_F2, GMV_DTYPE_BF16, GMV_DTYPE_F8_E4M3FN,
                                       GMV_DTYPE_F8_E5M2};
    for (size_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++) {
        const gmv_small_float *format = gmv_small_float_describe(dtypes[d]);
        size_t itemsize = gmv_dtype_describe(dtypes[d])->itemsize;
        for (uint32_t bits = 0; bits < 1u << 8 * itemsize; bits++) {
            double wanted = (double)gmv_small_float_value(format, (uint16_t)bits);
            double value = gmv_element_value(dtypes[d], &bits);
            cr_assert(isnan(wanted) ? isnan(value) : value == wanted, "%s 0x%x: %g, not %g",
                      gmv_dtype_describe(dtypes[d])->name, bits, value, wanted);
        }
    }
}

Test(elements, a_key_leads_back_to_its_element)
{
    static const struct {
        gmv_dtype dtype;
        uint64_t key, bits;
    } rows[] = {
        {GMV_DTYPE_U1, 200, 200},
        {GMV_DTYPE_I1, 0, 0x80},
        {GMV_DTYPE_I4, 0x80000000, 0},
        {GMV_DTYPE_I8, 1, UINT64_C(0x8000000000000001)},
        {GMV_DTYPE_M8_NS, UINT64_C(1) << 63, 0},
        {GMV_DTYPE_F4, 0x80000000, 0},
        {GMV_DTYPE_F4, 0x7fffffff, 0x80000000},
        {GMV_DTYPE_F8, ~UINT64_C(0xc000000000000000), UINT64_C(0xc000000000000000)},
        {GMV_DTYPE_F2, 0xfbff, 0x7bff},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint64_t bits = 0;
        gmv_element_of_key(rows[i].dtype, rows[i].key, &bits);
        cr_assert_eq(bits, rows[i].bits, "row %zu: 0x%llx", i, (unsigned long long)bits);
    }
}

/* ---- statistics ------------------------------------------------------------------------------ */

static gmv_statistics_partial statistics_of(world *w, gmv_dtype dtype, const void *elements,
                                            int64_t n, const uint8_t *valid, int64_t bit)
{
    gmv_statistics_partial partial;
    size_t nbytes = (size_t)n * gmv_dtype_describe(dtype)->itemsize;
    gmv_memory *input = upload(w, elements, nbytes), *bits = NULL;
    gmv_memory *scratch = make_memory(w, GMV_MEMORY_ORDINARY, GMV_CONTENTS_UNSPECIFIED,
                                      gmv_statistics_scratch_nbytes(dtype, n));
    if (valid)
        bits = upload(w, valid, (size_t)(bit + n + 7) / 8);
    gmv_statistics_reduction args = {.dtype = dtype,
                                     .input = input->address,
                                     .validity = {bits ? bits->address : 0, bit},
                                     .n = n,
                                     .scratch = scratch->address};
    must(w, gmv_kernel_statistics(w->stream, &args, &w->err));
    must(w, gmv_copy_out(w->stream, &partial, scratch->address, sizeof partial, &w->err));
    must(w, gmv_stream_finish(w->stream, &w->err));
    gmv_memory_free(input);
    gmv_memory_free(scratch);
    gmv_memory_free(bits);
    return partial;
}

DEVICE_TEST(statistics, nothing_has_no_extremes)
{
    gmv_statistics_partial partial = statistics_of(w, GMV_DTYPE_F4, "", 0, NULL, 0);
    cr_assert(partial.n == 0 && partial.min_key == UINT64_MAX && partial.max_key == 0);
    float values[] = {NAN, INFINITY, -INFINITY, -NAN};
    partial = statistics_of(w, GMV_DTYPE_F4, values, 4, NULL, 0);
    cr_assert(partial.n == 0 && partial.nan_count == 2 && partial.inf_count == 2);
    cr_assert(partial.min_key == UINT64_MAX && partial.sum == 0 && partial.squares == 0);
}

DEVICE_TEST(statistics, nulls_are_left_out_whatever_bit_they_begin_at)
{
    int16_t values[100];
    uint8_t bits[32];
    for (int i = 0; i < 100; i++)
        values[i] = (int16_t)(i - 50);
    for (int64_t bit = 0; bit < 20; bit++) {
        memset(bits, 0, sizeof bits);
        for (int64_t i = 0; i < 100; i += 3)
            bits[(bit + i) / 8] |= (uint8_t)(1 << (bit + i) % 8);
        gmv_statistics_partial partial = statistics_of(w, GMV_DTYPE_I2, values, 100, bits, bit);
        cr_assert_eq(partial.n, 34);
        cr_assert_eq((int64_t)partial.sum_low, -17, "%lld", (long long)partial.sum_low);
        cr_assert_eq(partial.sum_high, UINT64_MAX);
        int16_t min = 0, max = 0;
        gmv_element_of_key(GMV_DTYPE_I2, partial.min_key, &min);
        gmv_element_of_key(GMV_DTYPE_I2, partial.max_key, &max);
        cr_assert(min == -50 && max == 49 && partial.zero_count == 0);
    }
}

/* Several merges of tiles: sums of integers stay exact, those of floats to a rounding. */
DEVICE_TEST(statistics, long_arrays_are_summed_exactly)
{
    enum { N = 3000000 };
    uint64_t *values = gmv_malloc(N * sizeof *values);
    double *doubles = (double *)values;
    cr_assert_not_null(values);
    for (int i = 0; i < N; i++)
        values[i] = UINT64_MAX - (uint64_t)i;
    gmv_statistics_partial partial = statistics_of(w, GMV_DTYPE_U8, values, N, NULL, 0);
    unsigned __int128 sum = (unsigned __int128)UINT64_MAX * N - (unsigned __int128)N * (N - 1) / 2;
    cr_assert(partial.sum_low == (uint64_t)sum && partial.sum_high == (uint64_t)(sum >> 64));
    for (int i = 0; i < N; i++)
        doubles[i] = 0.1;
    partial = statistics_of(w, GMV_DTYPE_F8, doubles, N, NULL, 0);
    double error = partial.sum + partial.sum_error - 0.1 * N;
    cr_assert(fabs(error) < 1e-8, "%g", error);
    cr_assert(fabs(partial.squares) < 1e-20 && fabs(partial.mean - 0.1) < 1e-16);
    gmv_free(values);
}

/* What rounding makes hard; `of(i)` is element i. */
static double near_offset(int i)
{
    return 1e8 + (i * 7919 % 1000) * 1e-7;
}

static double alternating(int i)
{
    return (i % 2 ? -1 : 1) * (1e15 + i % 13);
}

static double outlier_first(int i)
{
    return i ? 1 + i % 5 * 1e-3 : 1e9;
}

static double subnormal(int i)
{
    return (i % 100 - 30) * 0x1p-1074;
}

static double near_overflow(int i)
{
    return (i % 2 ? -1 : 1) * (1e151 + i % 7 * 1e148);
}

static const struct {
    const char *name;
    double (*of)(int i);
} hard_rows[] = {{"1e8 and noise", near_offset},
                 {"alternating signs", alternating},
                 {"an outlier first", outlier_first},
                 {"subnormals", subnormal},
                 {"squares near the largest number", near_overflow}};

/* The bounds of reductions.h, against sums of more bits. */
static void expect_moments(const gmv_statistics_partial *partial, const double *values, int n,
                           const char *name)
{
    long double sum = 0, magnitude = 0, squares = 0, largest = 0;
    for (int i = 0; i < n; i++) {
        sum += values[i];
        magnitude += fabsl((long double)values[i]);
        largest = fmaxl(largest, fabsl((long double)values[i]));
    }
    long double mean = sum / n, unit = 0x1p-53L;
    for (int i = 0; i < n; i++)
        squares += (values[i] - mean) * (values[i] - mean);
    long double least = 0x1p-1074L * n, condition = 1 + fabsl(mean) / sqrtl(squares / n);
    cr_assert(partial->n == (uint64_t)n, "%s", name);
    cr_assert(fabsl((long double)partial->sum + partial->sum_error - sum) <=
                  128 * unit * magnitude + least,
              "%s: sum %.17g, not %.17Lg", name, partial->sum, sum);
    cr_assert(fabsl(partial->mean - mean) <= 128 * unit * largest + least,
              "%s: mean %.17g, not %.17Lg", name, partial->mean, mean);
    cr_assert(fabsl(partial->squares - squares) <= 4096 * unit * condition * squares + least,
              "%s: squares %.17g, not %.17Lg", name, partial->squares, squares);
}

DEVICE_TEST(statistics, hard_numbers_stay_within_the_bounds)
{
    enum { N = 50000 };
    double *values = gmv_malloc(N * sizeof *values);
    cr_assert_not_null(values);
    for (size_t row = 0; row < sizeof hard_rows / sizeof hard_rows[0]; row++) {
        for (int n = 1; n <= N; n = n * 7 + 3) {
            for (int i = 0; i < n; i++)
                values[i] = hard_rows[row].of(i);
            gmv_statistics_partial partial = statistics_of(w, GMV_DTYPE_F8, values, n, NULL, 0);
            if (n > 1)
                expect_moments(&partial, values, n, hard_rows[row].name);
        }
    }
    gmv_free(values);
}

/* Numbers that no sum of them has exactly, with and without what does not count among them. */
DEVICE_TEST(statistics, equal_numbers_do_not_deviate)
{
    enum { N = 30000 };
    static const double rows[] = {0.1, -1e300, 0x1p-1074, 1e8 + 0.3, 3e-310};
    double *values = gmv_malloc(N * sizeof *values);
    float *narrow = (float *)values;
    cr_assert_not_null(values);
    for (size_t row = 0; row < 2 * sizeof rows / sizeof rows[0]; row++) {
        for (int i = 0; i < N; i++)
            values[i] = row % 2 && i % 5 == 0 ? (double)NAN : rows[row / 2];
        gmv_statistics_partial partial = statistics_of(w, GMV_DTYPE_F8, values, N, NULL, 0);
        cr_assert(partial.squares == 0 && partial.mean == rows[row / 2], "%g: %g, %g",
                  rows[row / 2], partial.squares, partial.mean);
    }
    for (int i = 0; i < N; i++)
        narrow[i] = 0.1f;
    gmv_statistics_partial partial = statistics_of(w, GMV_DTYPE_F4, narrow, N, NULL, 0);
    cr_assert(partial.squares == 0 && partial.mean == (double)0.1f);
    gmv_free(values);
}

/* All bytes, in any amount and from any alignment: sums of bytes are exact. */
DEVICE_TEST(statistics, bytes_are_summed_exactly)
{
    enum { N = 70000 };
    int8_t *values = gmv_malloc(N);
    cr_assert_not_null(values);
    for (int n = 1; n < N; n = n * 3 + 5) {
        int64_t sum = 0, squares = 0, zeros = 0;
        int8_t min = 127, max = -128;
        for (int i = 0; i < n; i++) {
            values[i] = (int8_t)(i * 31 % 251 - 120);
            sum += values[i];
            squares += values[i] * values[i];
            zeros += values[i] == 0;
            min = GMV_MIN(min, values[i]);
            max = GMV_MAX(max, values[i]);
        }
        gmv_statistics_partial partial = statistics_of(w, GMV_DTYPE_I1, values, n, NULL, 0);
        double wanted = (double)squares - (double)sum * (double)sum / n;
        cr_assert((int64_t)partial.sum_low == sum && partial.zero_count == (uint64_t)zeros);
        cr_assert(partial.min_key == (uint8_t)(min ^ 0x80) &&
                  partial.max_key == (uint8_t)(max ^ 0x80));
        cr_assert(fabs(partial.squares - wanted) <= 1e-12 * wanted, "%d: %.17g, not %.17g", n,
                  partial.squares, wanted);
    }
    gmv_free(values);
}

/* ---- comparisons ----------------------------------------------------------------------------- */

static gmv_comparison_partial compare_of(world *w, gmv_dtype dtype, const void *a, const void *b,
                                         int64_t n, bool nan_equal, double absolute,
                                         double relative)
{
    gmv_comparison_partial partial;
    size_t nbytes = (size_t)n * gmv_dtype_describe(dtype)->itemsize;
    gmv_memory *left = upload(w, a, nbytes), *right = upload(w, b, nbytes);
    gmv_memory *scratch = make_memory(w, GMV_MEMORY_ORDINARY, GMV_CONTENTS_UNSPECIFIED,
                                      gmv_comparison_scratch_nbytes(dtype, n));
    gmv_comparison_reduction args = {.dtype = dtype,
                                     .inputs = {left->address, right->address},
                                     .n = n,
                                     .nan_equal = nan_equal,
                                     .absolute_tolerance = absolute,
                                     .relative_tolerance = relative,
                                     .scratch = scratch->address};
    must(w, gmv_kernel_compare(w->stream, &args, &w->err));
    must(w, gmv_copy_out(w->stream, &partial, scratch->address, sizeof partial, &w->err));
    must(w, gmv_stream_finish(w->stream, &w->err));
    gmv_memory_free(left);
    gmv_memory_free(right);
    gmv_memory_free(scratch);
    return partial;
}

DEVICE_TEST(compare, what_is_not_finite_is_equal_to_itself_only)
{
    float a[] = {1, NAN, INFINITY, -INFINITY, INFINITY, 0.0f, 2};
    float b[] = {1, NAN, INFINITY, INFINITY, 5, -0.0f, 2.5f};
    gmv_comparison_partial partial = compare_of(w, GMV_DTYPE_F4, a, b, 7, false, 0, 0);
    cr_assert(partial.differing == 4 && partial.first == 1 && partial.n == 3);
    cr_assert(partial.difference == 0.5 && partial.relative_difference == 0.2);
    partial = compare_of(w, GMV_DTYPE_F4, a, b, 7, true, 0.25, 0.1);
    cr_assert(partial.differing == 2 && partial.first == 3);
}

DEVICE_TEST(compare, integers_are_as_far_apart_as_they_are)
{
    int64_t a[] = {INT64_MIN, 5, -7}, b[] = {INT64_MAX, 5, 0};
    gmv_comparison_partial partial = compare_of(w, GMV_DTYPE_I8, a, b, 3, false, 7, 0);
    cr_assert(partial.integer_difference == UINT64_MAX && partial.differing == 1);
    cr_assert(partial.first == 0 && partial.n == 3 && partial.relative_difference == 2);
    uint8_t left[] = {2, 0, 1}, right[] = {1, 0, 9};
    partial = compare_of(w, GMV_DTYPE_B1, left, right, 3, false, 0, 0);
    cr_assert(partial.differing == 0, "any byte but 0 is true");
}

DEVICE_TEST(compare, complex_numbers_differ_by_their_distance)
{
    double a[] = {0, 0, 3, 4, (double)NAN, 1}, b[] = {3, 4, 3, 4, (double)NAN, 2};
    gmv_comparison_partial partial = compare_of(w, GMV_DTYPE_C16, a, b, 3, true, 0, 0);
    cr_assert(partial.differing == 1 && partial.first == 0 && partial.difference == 5);
    cr_assert(partial.relative_difference == 1 && partial.n == 2);
}

/* ---- histograms ------------------------------------------------------------------------------ */

DEVICE_TEST(histogram, the_last_bin_holds_its_upper_edge)
{
    double edges[] = {0, 1, 2, 4};
    float values[] = {0, 0.5f, 1, 2, 4, -1, 4.5f, NAN, INFINITY, 3};
    uint64_t counts[3 + GMV_HISTOGRAM_RESTS] = {10};
    static const uint64_t wanted[] = {12, 1, 3, 1, 1, 1, 1};
    gmv_memory *input = upload(w, values, sizeof values), *places = upload(w, edges, sizeof edges);
    gmv_memory *output = upload(w, counts, sizeof counts);
    gmv_histogram_reduction args = {.dtype = GMV_DTYPE_F4,
                                    .input = input->address,
                                    .n = 10,
                                    .edges = places->address,
                                    .n_bins = 3,
                                    .first_edge = 0,
                                    .last_edge = 4,
                                    .counts = output->address};
    must(w, gmv_kernel_histogram(w->stream, &args, &w->err));
    must(w, gmv_copy_out(w->stream, counts, output->address, sizeof counts, &w->err));
    must(w, gmv_stream_finish(w->stream, &w->err));
    cr_assert_arr_eq(counts, wanted, sizeof wanted);
    gmv_memory_free(input);
    gmv_memory_free(places);
    gmv_memory_free(output);
}

/* ---- checksums ------------------------------------------------------------------------------- */

Test(crc32c, published_values)
{
    static const uint8_t zeros[32], digits[] = "123456789";
    uint8_t ones[32];
    memset(ones, 0xff, sizeof ones);
    cr_assert_eq(~gmv_crc32c_update(UINT32_MAX, digits, 9), 0xe3069283);
    cr_assert_eq(~gmv_crc32c_update(UINT32_MAX, zeros, 32), 0x8a9136aa);
    cr_assert_eq(~gmv_crc32c_update(UINT32_MAX, ones, 32), 0x62a8ab43);
    cr_assert_eq(gmv_hash_bytes(GMV_HASH_XXH64, "", 0), UINT64_C(0xef46db3751d8e999));
    cr_assert_eq(gmv_hash_bytes(GMV_HASH_XXH64, "xxhash", 6), UINT64_C(0x32dd38952c4bc720));
    cr_assert_eq(gmv_hash_bytes(GMV_HASH_XXH3, "", 0), UINT64_C(0x2d06800538d394c2));
}

Test(crc32c, a_shift_is_zeros_that_follow)
{
    static const uint8_t zeros[5000];
    gmv_crc32c_shifter shifter;
    uint64_t state = 1;
    for (int i = 0; i < 200; i++) {
        uint32_t crc = (uint32_t)random_next(&state);
        size_t n = (size_t)random_below(&state, sizeof zeros);
        uint32_t wanted = gmv_crc32c_update(crc, zeros, n);
        cr_assert_eq(gmv_crc32c_shift(crc, n), wanted);
        gmv_crc32c_shifter_init(&shifter, n);
        cr_assert_eq(gmv_crc32c_shifter_apply(&shifter, crc), wanted);
        cr_assert_eq(gmv_crc32c_shift(crc, INT32_MAX), crc, "x has this order");
    }
}

DEVICE_TEST(crc32c, tiles_join_to_the_register_of_the_whole)
{
    static const size_t sizes[] = {1,      15,     16,     4095,  GMV_CRC_TILE - 1, GMV_CRC_TILE,
                                   131073, 262144, 262145, 400000};
    uint8_t *bytes = gmv_malloc(400000);
    uint64_t state = 7;
    cr_assert_not_null(bytes);
    random_fill(&state, bytes, 400000);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint32_t tiles[8] = {0}, crc = UINT32_MAX;
        size_t n_tiles = (sizes[i] + GMV_CRC_TILE - 1) / GMV_CRC_TILE;
        gmv_memory *input = upload(w, bytes, sizes[i]), *output = upload(w, tiles, sizeof tiles);
        gmv_crc32c args = {input->address, sizes[i], output->address};
        must(w, gmv_kernel_crc32c(w->stream, &args, &w->err));
        must(w, gmv_copy_out(w->stream, tiles, output->address, sizeof tiles, &w->err));
        must(w, gmv_stream_finish(w->stream, &w->err));
        for (size_t t = 0; t < n_tiles; t++) {
            uint64_t nbytes = GMV_MIN(sizes[i] - t * GMV_CRC_TILE, (uint64_t)GMV_CRC_TILE);
            crc = gmv_crc32c_shift(crc, nbytes) ^ tiles[t];
        }
        cr_assert_eq(crc, gmv_crc32c_update(UINT32_MAX, bytes, sizes[i]), "%zu bytes", sizes[i]);
        cr_assert_eq(tiles[n_tiles], 0, "no more than the tiles are written");
        gmv_memory_free(input);
        gmv_memory_free(output);
    }
    gmv_free(bytes);
}

DEVICE_TEST(hash, blocks_have_the_hashes_of_their_bytes)
{
    enum { BYTES = 300000 };
    static const size_t sizes[] = {1024, 1088, 2048, 4160, 65536};
    uint8_t *bytes = gmv_malloc(BYTES);
    uint64_t hashes[BYTES / 1024], state = 9;
    cr_assert_not_null(bytes);
    random_fill(&state, bytes, BYTES);
    gmv_memory *input = upload(w, bytes, BYTES), *output = upload(w, hashes, sizeof hashes);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        for (gmv_hash hash = GMV_HASH_XXH64; hash <= GMV_HASH_XXH3; hash++) {
            int64_t n = (int64_t)(BYTES / sizes[i]);
            gmv_hash_blocks args = {hash, input->address, sizes[i], n, output->address};
            must(w, gmv_kernel_hash_blocks(w->stream, &args, &w->err));
            must(w, gmv_copy_out(w->stream, hashes, output->address, sizeof hashes, &w->err));
            must(w, gmv_stream_finish(w->stream, &w->err));
            for (int64_t k = 0; k < n; k++)
                cr_assert_eq(hashes[k],
                             gmv_hash_bytes(hash, bytes + (size_t)k * sizes[i], sizes[i]));
        }
    }
    gmv_memory_free(input);
    gmv_memory_free(output);
    gmv_free(bytes);
}

DEVICE_TEST(reductions, a_failing_device_is_told)
{
    gmv_memory *memory = make_memory(w, GMV_MEMORY_ORDINARY, GMV_CONTENTS_ZEROED, 4096);
    gmv_statistics_reduction args = {
        .dtype = GMV_DTYPE_F4, .input = memory->address, .n = 100, .scratch = memory->address};
    gmv_device_fail_once(w->device, 1, GMV_ERR_MEMORY_LOST);
    must_fail(w, GMV_ERR_MEMORY_LOST, gmv_kernel_statistics(w->stream, &args, &w->err));
    gmv_memory_free(memory);
}
