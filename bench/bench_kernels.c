/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast the host kernels are, against memcpy of the same input: rounds alternate between the
 * two, because a shared machine's speed drifts, and medians are compared. A ratio of 1 is the speed
 * of memcpy; both write into memory that has been touched before, but for the lines that say
 * "fresh".
 *
 *     bench_kernels [MiB of input, 256] [rounds, 9]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gmv/base/clock.h>
#include <gmv/device/kernels.h>
#include <gmv/device/reductions.h>

#define FRESH_ROUNDS 3 /* the pages cost more than the work: a few rounds tell */

typedef struct bench {
    gmv_device *device;
    gmv_stream *stream;
    uint64_t nbytes;
    uint64_t input, other, output; /* addresses of nbytes each, and 64 more */
    gmv_contents contents;
} bench;

static void must(gmv_status status, const gmv_error *err)
{
    if (status == GMV_OK)
        return;
    fprintf(stderr, "bench_kernels: %s: %s\n", gmv_status_code(status), err->message);
    exit(1);
}

static gmv_memory *allocate(const bench *b, uint64_t nbytes, gmv_contents contents)
{
    gmv_error err;
    gmv_memory *memory = NULL;
    gmv_error_init(&err);
    must(gmv_memory_allocate(b->device, b->stream, GMV_MEMORY_ORDINARY, contents, nbytes, &memory,
                             &err),
         &err);
    return memory;
}

/* ---- what is measured ------------------------------------------------------------------------ */

typedef gmv_status (*work)(const bench *b, gmv_error *err);

static gmv_status valid_if(const bench *b, gmv_predicate predicate, unsigned itemsize, bool masked,
                           gmv_error *err)
{
    int64_t n = (int64_t)(b->nbytes / itemsize), null_count;
    gmv_valid_if args = {.predicate = predicate,
                         .input = b->input,
                         .validity = {masked ? b->other : 0, masked ? 3 : 0},
                         .n = n,
                         .output = b->output,
                         .output_nbytes = ((uint64_t)n + 511) / 512 * 64,
                         .out_null_count = &null_count};
    return gmv_kernel_valid_if(b->stream, &args, err);
}

static gmv_status run_bytes(const bench *b, gmv_error *err)
{
    return valid_if(b, GMV_PREDICATE_NONZERO_BYTE, 1, false, err);
}

static gmv_status run_bytes_masked(const bench *b, gmv_error *err)
{
    return valid_if(b, GMV_PREDICATE_NONZERO_BYTE, 1, true, err);
}

static gmv_status run_f4(const bench *b, gmv_error *err)
{
    return valid_if(b, GMV_PREDICATE_NOT_NAN_F4, 4, false, err);
}

static gmv_status run_f8(const bench *b, gmv_error *err)
{
    return valid_if(b, GMV_PREDICATE_NOT_NAN_F8, 8, false, err);
}

static gmv_status run_bools(const bench *b, gmv_error *err)
{
    gmv_bits_to_bools args = {
        .bits = {b->input, 3}, .n = (int64_t)b->nbytes - 64, .output = b->output};
    return gmv_kernel_bits_to_bools(b->stream, &args, err);
}

static gmv_status copy_bits(const bench *b, int64_t offset, gmv_error *err)
{
    int64_t count;
    gmv_copy_bits args = {.bits = {b->input, offset},
                          .n = (int64_t)b->nbytes * 8 - 64,
                          .output = b->output,
                          .output_nbytes = b->nbytes,
                          .out_set_count = &count};
    return gmv_kernel_copy_bits(b->stream, &args, err);
}

static gmv_status run_copy_bits(const bench *b, gmv_error *err)
{
    return copy_bits(b, 0, err);
}

static gmv_status run_copy_bits_shifted(const bench *b, gmv_error *err)
{
    return copy_bits(b, 3, err);
}

static gmv_status run_and(const bench *b, gmv_error *err)
{
    gmv_bits inputs[] = {{b->input, 3}, {b->other, 0}};
    int64_t count;
    gmv_combine_bits args = {.operation = GMV_BITS_AND,
                             .inputs = inputs,
                             .n_inputs = 2,
                             .n = (int64_t)b->nbytes * 8 - 64,
                             .output = b->output,
                             .output_nbytes = b->nbytes,
                             .out_set_count = &count};
    return gmv_kernel_combine_bits(b->stream, &args, err);
}

static gmv_status run_count(const bench *b, gmv_error *err)
{
    gmv_bit_range range = {3, (int64_t)b->nbytes * 8 - 3};
    int64_t count;
    gmv_count_bits args = {
        .address = b->input, .ranges = &range, .n_ranges = 1, .out_counts = &count};
    return gmv_kernel_count_bits(b->stream, &args, err);
}

/* Every other column of a matrix of 8-byte elements: half of the input is copied. */
static gmv_status run_gather(const bench *b, gmv_error *err)
{
    int64_t rows = (int64_t)(b->nbytes / 8 / 1024);
    gmv_layout layout = {
        .ndim = 2, .has_strides = true, .shape = {rows, 512}, .strides = {8192, 16}};
    gmv_gather args = {.address = b->input,
                       .layout = &layout,
                       .itemsize = 8,
                       .count = rows * 512,
                       .output = b->output};
    return gmv_kernel_gather(b->stream, &args, err);
}

static gmv_status run_pieces(const bench *b, gmv_error *err)
{
    gmv_copy_piece pieces[64];
    uint64_t each = b->nbytes / 64 / 64 * 64;
    for (size_t i = 0; i < 64; i++)
        pieces[i] = (gmv_copy_piece){.source = b->input + i * each,
                                     .nbytes = each,
                                     .destination = b->output + i * each,
                                     .capacity = each};
    return gmv_kernel_copy_pieces(b->stream, pieces, 64, err);
}

/* The output is large enough to be the scratch memory. */
static gmv_status statistics(const bench *b, gmv_dtype dtype, gmv_error *err)
{
    gmv_statistics_reduction args = {.dtype = dtype,
                                     .input = b->input,
                                     .n =
                                         (int64_t)(b->nbytes / gmv_dtype_describe(dtype)->itemsize),
                                     .scratch = b->output};
    return gmv_kernel_statistics(b->stream, &args, err);
}

static gmv_status run_statistics_f4(const bench *b, gmv_error *err)
{
    return statistics(b, GMV_DTYPE_F4, err);
}

static gmv_status run_statistics_i8(const bench *b, gmv_error *err)
{
    return statistics(b, GMV_DTYPE_I8, err);
}

static gmv_status run_compare(const bench *b, gmv_error *err)
{
    gmv_comparison_reduction args = {.dtype = GMV_DTYPE_F4,
                                     .inputs = {b->input, b->input + b->nbytes / 2},
                                     .n = (int64_t)(b->nbytes / 8),
                                     .scratch = b->output};
    return gmv_kernel_compare(b->stream, &args, err);
}

static gmv_status run_xxh64(const bench *b, gmv_error *err)
{
    gmv_hash_blocks args = {.hash = GMV_HASH_XXH64,
                            .input = b->input,
                            .block_nbytes = 65536,
                            .n = (int64_t)(b->nbytes / 65536),
                            .output = b->output};
    return gmv_kernel_hash_blocks(b->stream, &args, err);
}

static gmv_status run_crc32c(const bench *b, gmv_error *err)
{
    gmv_crc32c args = {.input = b->input, .nbytes = b->nbytes, .output = b->output};
    return gmv_kernel_crc32c(b->stream, &args, err);
}

static const struct {
    const char *name;
    work run;

} works[] = {
    {"bytes to mask", run_bytes},
    {"bytes to mask, and a mask", run_bytes_masked},
    {"f4 not NaN", run_f4},
    {"f8 not NaN", run_f8},
    {"mask to bools (against its output)", run_bools},
    {"copy bits", run_copy_bits},
    {"copy bits, shifted", run_copy_bits_shifted},
    {"and of two masks (against one)", run_and},
    {"count bits", run_count},
    {"gather every other f8", run_gather},
    {"64 pieces of a packed table", run_pieces},
    {"statistics of f4", run_statistics_f4},
    {"statistics of i8", run_statistics_i8},
    {"compare the halves, f4", run_compare},
    {"xxh64 of 64 KiB blocks", run_xxh64},
    {"crc32c", run_crc32c},
};

/* ---- measuring ------------------------------------------------------------------------------- */

static int compare_times(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static double median_ms(int64_t *times, int rounds)
{
    qsort(times, (size_t)rounds, sizeof *times, compare_times);
    return (double)times[rounds / 2] * 1e-6;
}

/* With `fresh`, both write into memory that is allocated for the purpose and that nobody touched.
 */
static void measure(bench *b, const char *name, work run, int rounds, bool fresh)
{
    int64_t *copies = calloc((size_t)rounds, sizeof *copies);
    int64_t *kernels = calloc((size_t)rounds, sizeof *kernels);
    uint64_t touched = b->output;
    gmv_error err;
    gmv_error_init(&err);
    if (!copies || !kernels)
        exit(1);
    for (int i = -1; i < 2 * rounds; i++) {
        gmv_memory *memory = NULL;
        if (fresh) {
            gmv_device_trim(b->device);
            memory = allocate(b, b->nbytes + 64, GMV_CONTENTS_UNSPECIFIED);
            b->output = memory->address;
        }
        int64_t begin = gmv_clock_monotonic_ns();
        if (i % 2 == 0)
            must(gmv_copy_within(b->stream, b->output, b->input, b->nbytes, &err), &err);
        else
            must(run(b, &err), &err);
        int64_t time = gmv_clock_monotonic_ns() - begin;
        if (i >= 0)
            (i % 2 == 0 ? copies : kernels)[i / 2] = time;
        gmv_memory_free(memory);
    }
    b->output = touched;
    double copy = median_ms(copies, rounds), kernel = median_ms(kernels, rounds);
    printf("%-9s %-36s memcpy %8.2f ms  kernel %8.2f ms  ratio %.2f%s\n",
           gmv_device_describe(b->device)->kernel_set, name, copy, kernel, copy / kernel,
           fresh ? "  fresh" : "");
    free(copies);
    free(kernels);
}

static void fill_input(const bench *b, uint64_t address, uint64_t seed)
{
    uint64_t *words = (uint64_t *)(uintptr_t)address;
    for (uint64_t i = 0; i < (b->nbytes + 64) / 8; i++) {
        seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
        words[i] = seed ^ seed >> 29;
    }
}

static void bench_device(bool portable, uint64_t nbytes, int rounds)
{
    gmv_device_options options = {.force_portable_kernels = portable,
                                  .cache_nbytes_max = 4 * nbytes};
    bench b = {.nbytes = nbytes};
    gmv_error err;
    gmv_error_init(&err);
    must(gmv_device_open_host(&options, &b.device, &err), &err);
    must(gmv_stream_create(b.device, &b.stream, &err), &err);
    gmv_memory *input = allocate(&b, nbytes + 64, GMV_CONTENTS_ZEROED);
    gmv_memory *other = allocate(&b, nbytes + 64, GMV_CONTENTS_ZEROED);
    gmv_memory *output = allocate(&b, nbytes + 64, GMV_CONTENTS_ZEROED);
    b.input = input->address;
    b.other = other->address;
    b.output = output->address;
    fill_input(&b, b.input, 1);
    fill_input(&b, b.other, 2);
    must(gmv_fill(b.stream, b.output, 1, nbytes + 64, &err), &err);
    for (size_t i = 0; i < sizeof works / sizeof works[0]; i++)
        measure(&b, works[i].name, works[i].run, rounds, false);
    measure(&b, works[0].name, works[0].run, FRESH_ROUNDS, true);
    measure(&b, works[10].name, works[10].run, FRESH_ROUNDS, true);
    gmv_memory_free(input);
    gmv_memory_free(other);
    gmv_memory_free(output);
    gmv_stream_destroy(b.stream);
    gmv_device_close(b.device);
}

int main(int argc, char **argv)
{
    uint64_t mebibytes = argc > 1 ? strtoull(argv[1], NULL, 10) : 256;
    int rounds = argc > 2 ? atoi(argv[2]) : 9;
    if (mebibytes == 0 || rounds < 1) {
        fprintf(stderr, "usage: bench_kernels [MiB] [rounds]\n");
        return 64;
    }
    bench_device(true, mebibytes << 20, rounds);
    bench_device(false, mebibytes << 20, rounds);
    return 0;
}
