/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast the CUDA kernels are, against the driver's own copy within the device of as many bytes
 * (read and written together), by the device's clock. Between two measurements 256 MiB of other
 * memory are read, so that nothing is left in a cache, neither what was read nor what is still to
 * be written. A ratio above 1 is faster than the copy.
 *
 *     bench_cuda [MiB of the longest input, 4096] [rounds, 7] [part of the names of rows, all]
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gmv/base/clock.h>
#include <gmv/base/num.h>
#include <gmv/device/kernels.h>
#include <gmv/device/reductions.h>

#include "device/cuda/cuda_timer.h"

#define FLUSH_NBYTES ((uint64_t)256 << 20)
#define ZEROS_NBYTES ((uint64_t)256 << 20)
#define SLACK        4096 /* bytes beyond each input, for what is off the alignment */
#define SHORT_CALLS  3000

typedef struct bench {
    gmv_device *device;
    gmv_stream *stream;
    cuda_timer *timer;
    uint64_t nbytes;
    int rounds;
    gmv_memory *input, *other, *output, *zeros, *flush;
} bench;

static void must(gmv_status status, const gmv_error *err)
{
    if (status == GMV_OK)
        return;
    fprintf(stderr, "bench_cuda: %s: %s\n", gmv_status_code(status), err->message);
    exit(1);
}

static gmv_memory *allocate(const bench *b, gmv_memory_kind kind, uint64_t nbytes)
{
    gmv_error err;
    gmv_memory *memory = NULL;
    gmv_error_init(&err);
    must(gmv_memory_allocate(b->device, b->stream, kind, GMV_CONTENTS_UNSPECIFIED, nbytes, &memory,
                             &err),
         &err);
    return memory;
}

static void finish(const bench *b, gmv_stream *stream)
{
    gmv_error err;
    gmv_error_init(&err);
    must(gmv_stream_finish(stream, &err), &err);
}

/* ---- what is measured ------------------------------------------------------------------------ */

static int64_t number;
static int64_t numbers[1000];

typedef struct row {
    const char *name;
    /* Enqueues the work on `nbytes` bytes of input, `shift` off the alignment: bytes or bits. */
    gmv_status (*run)(const bench *b, gmv_stream *stream, uint64_t nbytes, int64_t shift,
                      gmv_error *err);
    unsigned divisor; /* of the longest input */
    int64_t shift;
    double traffic; /* bytes read and written for each byte of input */
} row;

static gmv_status valid(const bench *b, gmv_stream *stream, gmv_predicate predicate,
                        uint64_t itemsize, uint64_t nbytes, int64_t shift, gmv_error *err)
{
    int64_t n = (int64_t)(nbytes / itemsize);
    gmv_valid_if args = {.predicate = predicate,
                         .input = b->input->address + (uint64_t)shift,
                         .n = n,
                         .output = b->output->address,
                         .output_nbytes = ((uint64_t)n + 511) / 512 * 64,
                         .out_null_count = &number};
    return gmv_kernel_valid_if(stream, &args, err);
}

static gmv_status run_bytes(const bench *b, gmv_stream *stream, uint64_t nbytes, int64_t shift,
                            gmv_error *err)
{
    return valid(b, stream, GMV_PREDICATE_NONZERO_BYTE, 1, nbytes, shift, err);
}

static gmv_status run_f4(const bench *b, gmv_stream *stream, uint64_t nbytes, int64_t shift,
                         gmv_error *err)
{
    return valid(b, stream, GMV_PREDICATE_NOT_NAN_F4, 4, nbytes, shift, err);
}

static gmv_status run_f8(const bench *b, gmv_stream *stream, uint64_t nbytes, int64_t shift,
                         gmv_error *err)
{
    return valid(b, stream, GMV_PREDICATE_NOT_NAN_F8, 8, nbytes, shift, err);
}

/* nbytes are those of the output; the shift is in bits of the input and bytes of the output. */
static gmv_status run_bools(const bench *b, gmv_stream *stream, uint64_t nbytes, int64_t shift,
                            gmv_error *err)
{
    gmv_bits_to_bools args = {.bits = {b->input->address, shift},
                              .n = (int64_t)nbytes,
                              .output = b->output->address + (uint64_t)shift};
    return gmv_kernel_bits_to_bools(stream, &args, err);
}

static gmv_status run_copy_bits(const bench *b, gmv_stream *stream, uint64_t nbytes, int64_t shift,
                                gmv_error *err)
{
    gmv_copy_bits args = {.bits = {b->input->address, shift},
                          .n = (int64_t)nbytes * 8,
                          .output = b->output->address,
                          .output_nbytes = nbytes,
                          .out_set_count = &number};
    return gmv_kernel_copy_bits(stream, &args, err);
}

/* nbytes are those of one of the two inputs. */
static gmv_status combine(const bench *b, gmv_stream *stream, gmv_bits_operation operation,
                          uint64_t nbytes, int64_t shift, gmv_error *err)
{
    const gmv_bits inputs[] = {{b->input->address, shift}, {b->other->address, 0}};
    gmv_combine_bits args = {.operation = operation,
                             .inputs = inputs,
                             .n_inputs = 2,
                             .n = (int64_t)nbytes * 8,
                             .output = b->output->address,
                             .output_nbytes = nbytes,
                             .out_set_count = &number};
    return gmv_kernel_combine_bits(stream, &args, err);
}

static gmv_status run_and(const bench *b, gmv_stream *stream, uint64_t nbytes, int64_t shift,
                          gmv_error *err)
{
    return combine(b, stream, GMV_BITS_AND, nbytes, shift, err);
}

static gmv_status run_or(const bench *b, gmv_stream *stream, uint64_t nbytes, int64_t shift,
                         gmv_error *err)
{
    return combine(b, stream, GMV_BITS_OR, nbytes, shift, err);
}

static gmv_status run_count(const bench *b, gmv_stream *stream, uint64_t nbytes, int64_t shift,
                            gmv_error *err)
{
    gmv_bit_range range = {shift, shift + (int64_t)nbytes * 8};
    gmv_count_bits args = {
        .address = b->input->address, .ranges = &range, .n_ranges = 1, .out_counts = &number};
    return gmv_kernel_count_bits(stream, &args, err);
}

static gmv_status run_count_many(const bench *b, gmv_stream *stream, uint64_t nbytes, int64_t shift,
                                 gmv_error *err)
{
    static gmv_bit_range ranges[1000];
    int64_t each = (int64_t)nbytes * 8 / 1000;
    for (int i = 0; i < 1000; i++)
        ranges[i] = (gmv_bit_range){shift + i * each, shift + (i + 1) * each};
    gmv_count_bits args = {
        .address = b->input->address, .ranges = ranges, .n_ranges = 1000, .out_counts = numbers};
    return gmv_kernel_count_bits(stream, &args, err);
}

/* In memory that is all zeros. */
static gmv_status run_find(const bench *b, gmv_stream *stream, uint64_t nbytes, int64_t shift,
                           gmv_error *err)
{
    gmv_find_bit args = {.address = b->zeros->address,
                         .range = {shift, (int64_t)GMV_MIN(nbytes, ZEROS_NBYTES) * 8},
                         .out_index = &number};
    return gmv_kernel_find_bit(stream, &args, err);
}

/* Every other column of a matrix of 8-byte elements: half of the input is copied. */
static gmv_status run_gather(const bench *b, gmv_stream *stream, uint64_t nbytes, int64_t shift,
                             gmv_error *err)
{
    int64_t rows = (int64_t)(nbytes / 8192);
    gmv_layout layout = {
        .ndim = 2, .has_strides = true, .shape = {rows, 512}, .strides = {8192, 16}};
    gmv_gather args = {.address = b->input->address,
                       .layout = &layout,
                       .itemsize = 8,
                       .count = rows * 512,
                       .output = b->output->address};
    return gmv_kernel_gather(stream, &args, err);
}

/* A square matrix of 4-byte elements, turned. */
static gmv_status run_transpose(const bench *b, gmv_stream *stream, uint64_t nbytes, int64_t shift,
                                gmv_error *err)
{
    int64_t side = 1024;
    while (4 * (uint64_t)(2 * side) * (uint64_t)(2 * side) <= nbytes)
        side *= 2;
    gmv_layout layout = {
        .ndim = 2, .has_strides = true, .shape = {side, side}, .strides = {4, 4 * side}};
    gmv_gather args = {.address = b->input->address,
                       .layout = &layout,
                       .itemsize = 4,
                       .count = side * side,
                       .output = b->output->address};
    return gmv_kernel_gather(stream, &args, err);
}

static gmv_status run_pieces(const bench *b, gmv_stream *stream, uint64_t nbytes, int64_t shift,
                             gmv_error *err)
{
    static gmv_copy_piece pieces[200];
    uint64_t each = nbytes / 200 / 64 * 64;
    for (size_t i = 0; i < 200; i++)
        pieces[i] = (gmv_copy_piece){.source = b->input->address + i * each + (uint64_t)shift,
                                     .nbytes = each,
                                     .destination = b->output->address + i * each,
                                     .capacity = each};
    return gmv_kernel_copy_pieces(stream, pieces, 200, err);
}

/* ---- reductions: against a copy that reads half of the bytes and writes as many ---------------
 */

static gmv_status statistics(const bench *b, gmv_stream *stream, gmv_dtype dtype, uint64_t nbytes,
                             int64_t shift, gmv_error *err)
{
    gmv_statistics_reduction args = {.dtype = dtype,
                                     .input = b->input->address + (uint64_t)shift,
                                     .n = (int64_t)(nbytes / gmv_dtype_describe(dtype)->itemsize),
                                     .scratch = b->output->address};
    return gmv_kernel_statistics(stream, &args, err);
}

static gmv_status run_statistics_f4(const bench *b, gmv_stream *stream, uint64_t nbytes,
                                    int64_t shift, gmv_error *err)
{
    return statistics(b, stream, GMV_DTYPE_F4, nbytes, shift, err);
}

static gmv_status run_statistics_f8(const bench *b, gmv_stream *stream, uint64_t nbytes,
                                    int64_t shift, gmv_error *err)
{
    return statistics(b, stream, GMV_DTYPE_F8, nbytes, shift, err);
}

static gmv_status run_statistics_i8(const bench *b, gmv_stream *stream, uint64_t nbytes,
                                    int64_t shift, gmv_error *err)
{
    return statistics(b, stream, GMV_DTYPE_I8, nbytes, shift, err);
}

static gmv_status run_statistics_u1(const bench *b, gmv_stream *stream, uint64_t nbytes,
                                    int64_t shift, gmv_error *err)
{
    return statistics(b, stream, GMV_DTYPE_U1, nbytes, shift, err);
}

/* Half of the input with the other half, which has the same pattern unless it is shifted. */
static gmv_status run_compare(const bench *b, gmv_stream *stream, uint64_t nbytes, int64_t shift,
                              gmv_error *err)
{
    uint64_t half = nbytes / 2;
    gmv_comparison_reduction args = {
        .dtype = GMV_DTYPE_F4,
        .inputs = {b->input->address, b->input->address + half + (uint64_t)shift},
        .n = (int64_t)(half / 4),
        .nan_equal = true,
        .scratch = b->output->address};
    return gmv_kernel_compare(stream, &args, err);
}

/* The shift is log2 of the block's bytes. */
static gmv_status hash_blocks(const bench *b, gmv_stream *stream, gmv_hash hash, uint64_t nbytes,
                              int64_t shift, gmv_error *err)
{
    gmv_hash_blocks args = {.hash = hash,
                            .input = b->input->address,
                            .block_nbytes = UINT64_C(1) << shift,
                            .n = (int64_t)(nbytes >> shift),
                            .output = b->output->address};
    return gmv_kernel_hash_blocks(stream, &args, err);
}

static gmv_status run_xxh64(const bench *b, gmv_stream *stream, uint64_t nbytes, int64_t shift,
                            gmv_error *err)
{
    return hash_blocks(b, stream, GMV_HASH_XXH64, nbytes, shift, err);
}

static gmv_status run_xxh3(const bench *b, gmv_stream *stream, uint64_t nbytes, int64_t shift,
                           gmv_error *err)
{
    return hash_blocks(b, stream, GMV_HASH_XXH3, nbytes, shift, err);
}

static gmv_status run_crc32c(const bench *b, gmv_stream *stream, uint64_t nbytes, int64_t shift,
                             gmv_error *err)
{
    gmv_crc32c args = {.input = b->input->address, .nbytes = nbytes, .output = b->output->address};
    return gmv_kernel_crc32c(stream, &args, err);
}

static const row rows[] = {
    {"bools_to_mask", run_bytes, 1, 0, 1.125},
    {"bools_to_mask, 1 byte off", run_bytes, 1, 1, 1.125},
    {"nans_to_nulls f4", run_f4, 1, 0, 1 + 1. / 32},
    {"nans_to_nulls f4, 4 bytes off", run_f4, 1, 4, 1 + 1. / 32},
    {"nans_to_nulls f8", run_f8, 1, 0, 1 + 1. / 64},
    {"nans_to_nulls f8, 8 bytes off", run_f8, 1, 8, 1 + 1. / 64},
    {"mask_to_bools", run_bools, 1, 0, 1.125},
    {"mask_to_bools, 3 off", run_bools, 1, 3, 1.125},
    {"null_count of 2^33", run_count, 4, 0, 1},
    {"null_count of 2^33, 3 bits off", run_count, 4, 3, 1},
    {"null_count of 2^30", run_count, 32, 0, 1},
    {"null_count of 2^33 in 1000 ranges", run_count_many, 4, 3, 1},
    {"bitmask_and of 2^33", run_and, 4, 0, 3},
    {"bitmask_and of 2^33, 3 bits off", run_and, 4, 3, 3},
    {"bitmask_or of 2^33", run_or, 4, 0, 3},
    {"bitmask_and of 2^30", run_and, 32, 0, 3},
    {"bitmask_or of 2^30, 77 bits off", run_or, 32, 77, 3},
    {"copy_bitmask of 2^33", run_copy_bits, 4, 0, 2},
    {"copy_bitmask of 2^33, 3 bits off", run_copy_bits, 4, 3, 2},
    {"index_of_first_set_bit, none", run_find, 16, 0, 1},
    {"gather every other f8", run_gather, 1, 0, 1.5},
    {"transpose of 16384x16384 f4", run_transpose, 4, 0, 2},
    {"pack 200 columns", run_pieces, 1, 0, 2},
    {"pack 200 columns, 1 byte off", run_pieces, 1, 1, 2},
    {"statistics f4", run_statistics_f4, 1, 0, 1},
    {"statistics f4, 4 bytes off", run_statistics_f4, 1, 4, 1},
    {"statistics f8", run_statistics_f8, 1, 0, 1},
    {"statistics i8", run_statistics_i8, 1, 0, 1},
    {"statistics u1", run_statistics_u1, 1, 0, 1},
    {"compare f4, equal", run_compare, 1, 0, 1},
    {"compare f4, all differ", run_compare, 1, 4, 1},
    {"xxh64_tree, 64 KiB blocks", run_xxh64, 1, 16, 1},
    {"xxh64_tree, 4 KiB blocks", run_xxh64, 1, 12, 1},
    {"xxh3_tree, 64 KiB blocks", run_xxh3, 1, 16, 1},
    {"crc32c", run_crc32c, 1, 0, 1},
};

/* ---- measuring ------------------------------------------------------------------------------- */

static int compare_times(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double quantile(double *times, int n, double q)
{
    qsort(times, (size_t)n, sizeof *times, compare_times);
    return times[(int)((n - 1) * q)];
}

static gmv_status run_copy(const bench *b, double traffic, gmv_error *err)
{
    uint64_t nbytes = (uint64_t)(traffic / 2) / 64 * 64;
    return gmv_copy_within(b->stream, b->output->address, b->input->address, nbytes, err);
}

/* Fills the caches with what nobody needs and nobody has written. */
static void flush_caches(const bench *b)
{
    static int64_t ones;
    gmv_bit_range range = {0, (int64_t)FLUSH_NBYTES * 8};
    gmv_count_bits args = {
        .address = b->flush->address, .ranges = &range, .n_ranges = 1, .out_counts = &ones};
    gmv_error err;
    gmv_error_init(&err);
    must(gmv_kernel_count_bits(b->stream, &args, &err), &err);
}

/* Milliseconds of one run, with the caches full of something else; what == NULL: the copy. */
static double measure_once(const bench *b, const row *what, uint64_t nbytes, double traffic)
{
    gmv_error err;
    double milliseconds = 0;
    gmv_error_init(&err);
    flush_caches(b);
    must(gmv__cuda_timer_begin(b->timer, b->stream, &err), &err);
    must(what ? what->run(b, b->stream, nbytes, what->shift, &err) : run_copy(b, traffic, &err),
         &err);
    must(gmv__cuda_timer_end(b->timer, b->stream, &err), &err);
    finish(b, b->stream);
    must(gmv__cuda_timer_read(b->timer, &milliseconds, &err), &err);
    return milliseconds;
}

static void measure(const bench *b, const row *what)
{
    double kernels[64], copies[64];
    uint64_t nbytes = b->nbytes / what->divisor;
    double traffic = (double)nbytes * what->traffic;
    for (int i = -1; i < b->rounds; i++) {
        double kernel = measure_once(b, what, nbytes, traffic);
        double copy = measure_once(b, NULL, nbytes, traffic);
        if (i < 0)
            continue;
        kernels[i] = kernel;
        copies[i] = copy;
    }
    double kernel = quantile(kernels, b->rounds, 0.5), copy = quantile(copies, b->rounds, 0.5);
    printf("%-36s %9.3f ms %7.0f GB/s   copy %9.3f ms %7.0f GB/s   ratio %.2f\n", what->name,
           kernel, traffic / kernel * 1e-6, copy, traffic / copy * 1e-6, copy / kernel);
    fflush(stdout);
}

/* ---- allocating ------------------------------------------------------------------------------ */

static void measure_allocation(const bench *b, gmv_memory_kind kind, const char *name,
                               uint64_t nbytes)
{
    double allocations[32], frees[32];
    for (int i = 0; i < 32; i++) {
        int64_t begin = gmv_clock_monotonic_ns();
        gmv_memory *memory = allocate(b, kind, nbytes);
        int64_t made = gmv_clock_monotonic_ns();
        finish(b, b->stream);
        int64_t ready = gmv_clock_monotonic_ns();
        gmv_memory_free(memory);
        allocations[i] = (double)(made - begin) * 1e-3;
        frees[i] = (double)(gmv_clock_monotonic_ns() - ready) * 1e-3;
    }
    printf("%-20s %10llu KiB   allocate %8.1f us   free %8.1f us\n", name,
           (unsigned long long)(nbytes >> 10), quantile(allocations, 32, 0.5),
           quantile(frees, 32, 0.5));
}

/* ---- short work beside long work ------------------------------------------------------------- */

typedef struct bulk {
    const bench *b;
    gmv_stream *stream;
    _Atomic bool stop;
} bulk;

static void *run_bulk(void *argument)
{
    bulk *work = argument;
    gmv_error err;
    gmv_error_init(&err);
    while (!atomic_load(&work->stop)) {
        must(run_bytes(work->b, work->stream, work->b->nbytes, 0, &err), &err);
        finish(work->b, work->stream);
    }
    return NULL;
}

/* Launch, wait, and the number read, as a request does it. */
static void measure_short(const bench *b, gmv_stream *stream, const gmv_memory *small,
                          const char *name)
{
    static double times[SHORT_CALLS];
    gmv_error err;
    int64_t nulls = -1;
    gmv_error_init(&err);
    for (int i = 0; i < SHORT_CALLS; i++) {
        gmv_valid_if args = {.input = small->address,
                             .n = 4096,
                             .output = small->address + 4096,
                             .output_nbytes = 512,
                             .out_null_count = &nulls};
        int64_t begin = gmv_clock_monotonic_ns();
        must(gmv_kernel_valid_if(stream, &args, &err), &err);
        finish(b, stream);
        times[i] = (double)(gmv_clock_monotonic_ns() - begin) * 1e-3;
    }
    double p50 = quantile(times, SHORT_CALLS, 0.5), p99 = quantile(times, SHORT_CALLS, 0.99);
    printf("4 KiB bools_to_mask %-32s p50 %8.1f us   p99 %8.1f us\n", name, p50, p99);
}

static void measure_beside(const bench *b)
{
    gmv_error err;
    gmv_stream *quick = NULL;
    bulk work = {.b = b};
    pthread_t thread;
    gmv_error_init(&err);
    must(gmv_stream_create_with_priority(b->device, GMV_STREAM_PRIORITY_HIGHEST, &quick, &err),
         &err);
    must(gmv_stream_create_with_priority(b->device, GMV_STREAM_PRIORITY_LOWEST, &work.stream, &err),
         &err);
    gmv_memory *small = allocate(b, GMV_MEMORY_ORDINARY, 8192);
    finish(b, b->stream);
    measure_short(b, quick, small, "alone");
    if (pthread_create(&thread, NULL, run_bulk, &work) != 0)
        exit(1);
    measure_short(b, quick, small, "beside the longest one, again and again");
    atomic_store(&work.stop, true);
    pthread_join(thread, NULL);
    gmv_memory_free(small);
    gmv_stream_destroy(quick);
    gmv_stream_destroy(work.stream);
}

/* ---- all of it ------------------------------------------------------------------------------- */

/*
 * A pattern of noise, zeros and ones, doubled until the memory is full. Two bits of the noise are
 * 0, so that it is finite numbers, too; ones are none.
 */
static void fill_memory(const bench *b, const gmv_memory *memory)
{
    static uint8_t pattern[1 << 20];
    uint64_t state = memory->address, done = sizeof pattern;
    gmv_error err;
    gmv_error_init(&err);
    for (size_t i = 0; i < sizeof pattern; i++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        pattern[i] = i / 4096 % 3 ? (uint8_t)(state >> (i % 4 == 3 ? 58 : 56))
                                  : (uint8_t)(i / 4096 % 2 * 0xff);
    }
    must(gmv_copy_in(b->stream, memory->address, pattern, sizeof pattern, &err), &err);
    while (done < memory->nbytes) {
        uint64_t nbytes = GMV_MIN(done, memory->nbytes - done);
        must(gmv_copy_within(b->stream, memory->address + done, memory->address, nbytes, &err),
             &err);
        done += nbytes;
    }
    finish(b, b->stream);
}

static void bench_open(bench *b)
{
    gmv_error err;
    gmv_error_init(&err);
    must(gmv_device_open_cuda(NULL, &b->device, &err), &err);
    must(gmv_stream_create(b->device, &b->stream, &err), &err);
    must(gmv__cuda_timer_create(b->device, &b->timer, &err), &err);
    b->input = allocate(b, GMV_MEMORY_ORDINARY, b->nbytes + SLACK);
    b->other = allocate(b, GMV_MEMORY_ORDINARY, b->nbytes / 4 + (1 << 20));
    b->output = allocate(b, GMV_MEMORY_ORDINARY, b->nbytes + SLACK);
    b->zeros = allocate(b, GMV_MEMORY_ORDINARY, ZEROS_NBYTES);
    b->flush = allocate(b, GMV_MEMORY_ORDINARY, FLUSH_NBYTES);
    must(gmv_fill(b->stream, b->zeros->address, 0, ZEROS_NBYTES, &err), &err);
    fill_memory(b, b->flush);
    fill_memory(b, b->input);
    fill_memory(b, b->other);
    const gmv_device_info *info = gmv_device_describe(b->device);
    printf("# %s, compute capability %s, kernels %s, driver for CUDA %s, longest input %llu MiB\n",
           info->name, info->compute_capability, info->kernel_set, info->driver_version,
           (unsigned long long)(b->nbytes >> 20));
}

static void bench_close(bench *b)
{
    gmv_memory_free(b->input);
    gmv_memory_free(b->other);
    gmv_memory_free(b->output);
    gmv_memory_free(b->zeros);
    gmv_memory_free(b->flush);
    gmv__cuda_timer_destroy(b->timer);
    gmv_stream_destroy(b->stream);
    gmv_device_close(b->device);
}

int main(int argc, char **argv)
{
    uint64_t mebibytes = argc > 1 ? strtoull(argv[1], NULL, 10) : 4096;
    bench b = {.nbytes = mebibytes << 20, .rounds = argc > 2 ? atoi(argv[2]) : 7};
    if (mebibytes < 32 || b.rounds < 1 || b.rounds > 64) {
        fprintf(stderr, "usage: bench_cuda [MiB, 32 and more] [rounds, up to 64] [rows]\n");
        return 64;
    }
    const char *wanted = argc > 3 ? argv[3] : "";
    bench_open(&b);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strstr(rows[i].name, wanted))
            measure(&b, &rows[i]);
    if (*wanted) {
        bench_close(&b);
        return 0;
    }
    static const uint64_t sizes[] = {4096, (uint64_t)2 << 20, (uint64_t)1 << 30};
    for (size_t i = 0; i < 3; i++) {
        uint64_t nbytes = GMV_MIN(sizes[i], b.nbytes);
        measure_allocation(&b, GMV_MEMORY_EXPORTABLE, "own allocation", nbytes);
        measure_allocation(&b, GMV_MEMORY_ORDINARY, "pool", nbytes);
    }
    measure_beside(&b);
    bench_close(&b);
    return 0;
}
