/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast contiguous_split is, from the call until every partition can be used, handles and
 * metadata included, against one copy of as many bytes on the same device. Rounds alternate between
 * the two and medians are compared; memory comes from a warm pool.
 *
 *     bench_split [host|cuda, host] [MiB of integers, 256] [rounds, 5]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gmv/base/clock.h>
#include <gmv/base/num.h>
#include <gmv/gmv.h>

#define ROUNDS_MAX    64
#define STRING_NBYTES 12 /* of each string */
#define SWEEP_MAX     (1u << 18)

typedef struct bench {
    gmv_engine engine;
    gmv_device *device;
    gmv_stream *streams[GMV_DEVICES_MAX];
    gmv_caller caller;
    gmv_operation operation;
    uint64_t nbytes; /* of a table of integers */
    int rounds;
} bench;

static void must(gmv_status status, const gmv_error *err)
{
    if (status == GMV_OK)
        return;
    fprintf(stderr, "bench_split: %s: %s\n", gmv_status_code(status), err->message);
    exit(1);
}

#define MUST(call)            \
    do {                      \
        gmv_error err;        \
        gmv_error_init(&err); \
        must((call), &err);   \
    } while (0)

static void begin(bench *b)
{
    gmv_operation_begin(&b->operation, &b->engine, &b->caller, GMV_LANE_BULK, b->streams);
}

static void end(bench *b)
{
    gmv_operation_end(&b->operation);
    gmv_engine_reap(&b->engine);
}

static void delete (bench *b, const gmv_id *id)
{
    gmv_deletion deletion;
    MUST(gmv_registry_delete(b->engine.registry, &b->caller, id, id->kind, GMV_IF_HELD_KEEP,
                             &deletion, &err));
}

/* ---- tables ---------------------------------------------------------------------------------- */

/* A view that is held by the operation and named, so that it can be forgotten. */
static gmv_view *memory_of(bench *b, uint64_t nbytes, gmv_contents contents)
{
    gmv_result result;
    MUST(gmv_result_prepare(&b->operation, b->device, nbytes, contents, NULL, true, &result, &err));
    MUST(gmv_operation_reserve(&b->operation, 2, &err));
    gmv_node *const nodes[] = {&result.buffer->node, &result.view->node};
    gmv_operation_publish(&b->operation, nodes, 2);
    return result.view;
}

static gmv_column *column_of(bench *b, int32_t type, int64_t rows, gmv_view *data, gmv_view *mask,
                             gmv_column *child)
{
    gmv_column *column = NULL;
    const gmv_column_parts parts = {
        .type = {type, 0},
        .size = (int32_t)rows,
        .data = data,
        .null_mask = mask,
        .children = &child,
        .n_children = child ? 1 : 0,
    };
    MUST(gmv_operation_reserve(&b->operation, 1, &err));
    MUST(gmv_column_prepare(&b->operation, &parts, NULL, true, &column, &err));
    gmv_node *const nodes[] = {&column->node};
    gmv_operation_publish(&b->operation, nodes, 1);
    return column;
}

static gmv_view *mask_of(bench *b, int64_t rows)
{
    gmv_view *mask = memory_of(b, (uint64_t)gmv_bitmask_nbytes(rows), GMV_CONTENTS_UNSPECIFIED);
    MUST(gmv_fill(b->streams[0], mask->ptr, 0xb7, (uint64_t)mask->nbytes, &err));
    return mask;
}

static gmv_column *integers_of(bench *b, int64_t rows)
{
    gmv_view *data = memory_of(b, (uint64_t)rows * 4, GMV_CONTENTS_ZEROED);
    return column_of(b, GMV_CUDF_INT32, rows, data, mask_of(b, rows), NULL);
}

static gmv_column *strings_of(bench *b, int64_t rows)
{
    gmv_view *offsets = memory_of(b, (uint64_t)(rows + 1) * 4, GMV_CONTENTS_UNSPECIFIED);
    gmv_view *characters = memory_of(b, (uint64_t)rows * STRING_NBYTES, GMV_CONTENTS_ZEROED);
    const gmv_sequence sequence = {.output = offsets->ptr, .n = rows + 1, .step = STRING_NBYTES};
    MUST(gmv_kernel_sequence(b->streams[0], &sequence, &err));
    gmv_column *child = column_of(b, GMV_CUDF_INT32, rows + 1, offsets, NULL, NULL);
    return column_of(b, GMV_CUDF_STRING, rows, characters, mask_of(b, rows), child);
}

/* A table of new columns; its id lives on. */
static gmv_id table_of(bench *b, gmv_column *(*make)(bench *, int64_t), size_t n_columns,
                       int64_t rows)
{
    gmv_table *table = NULL;
    gmv_column **columns = calloc(n_columns, sizeof(gmv_column *));
    if (!columns)
        exit(1);
    begin(b);
    for (size_t i = 0; i < n_columns; i++)
        columns[i] = make(b, rows);
    MUST(gmv_stream_finish(b->streams[0], &err));
    MUST(gmv_table_create(&b->operation, columns, n_columns, false, 0, NULL, &table, &err));
    const gmv_id id = table->node.id;
    end(b);
    free(columns);
    return id;
}

/* ---- measuring ------------------------------------------------------------------------------- */

static int compare_times(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *times, int n)
{
    qsort(times, (size_t)n, sizeof *times, compare_times);
    return times[n / 2];
}

/* Milliseconds of one call; gives everything back afterwards. */
static double split_once(bench *b, const gmv_id *id, const int64_t *splits, size_t n_splits,
                         uint64_t *out_nbytes)
{
    gmv_node *node = NULL;
    gmv_packed **packed = NULL;
    size_t n = 0;
    begin(b);
    MUST(gmv_operation_get(&b->operation, id, GMV_KIND_TABLE, NULL, &node, &err));
    const int64_t start = gmv_clock_monotonic_ns();
    MUST(gmv_contiguous_split(&b->operation, gmv_table_of(node), splits, n_splits, NULL, &packed,
                              &n, &err));
    const int64_t stop = gmv_clock_monotonic_ns();
    *out_nbytes = 0;
    for (size_t i = 0; i < n; i++) {
        *out_nbytes += (uint64_t)packed[i]->gpu_data_nbytes;
        delete (b, &packed[i]->node.id);
    }
    gmv_free(packed);
    end(b);
    return (double)(stop - start) * 1e-6;
}

/* Milliseconds of one copy of as many bytes. */
static double copy_once(bench *b, uint64_t nbytes)
{
    begin(b);
    gmv_view *from = memory_of(b, nbytes, GMV_CONTENTS_ZEROED);
    gmv_view *to = memory_of(b, nbytes, GMV_CONTENTS_ZEROED);
    MUST(gmv_stream_finish(b->streams[0], &err));
    const int64_t start = gmv_clock_monotonic_ns();
    MUST(gmv_copy_within(b->streams[0], to->ptr, from->ptr, nbytes, &err));
    MUST(gmv_stream_finish(b->streams[0], &err));
    const int64_t stop = gmv_clock_monotonic_ns();
    end(b);
    return (double)(stop - start) * 1e-6;
}

/* Rows in parts of about the same length, none of them at a byte of a mask. */
static int64_t *splits_of(int64_t rows, size_t n_splits)
{
    int64_t *splits = calloc(n_splits + 1, sizeof *splits);
    if (!splits)
        exit(1);
    for (size_t i = 0; i < n_splits; i++)
        splits[i] = rows * (int64_t)(i + 1) / (int64_t)(n_splits + 1);
    return splits;
}

static void measure(bench *b, const char *name, const gmv_id *id, size_t n_columns, int64_t rows,
                    size_t n_splits, size_t n_buffers)
{
    double split_times[ROUNDS_MAX], copy_times[ROUNDS_MAX];
    uint64_t nbytes = 0;
    int64_t *splits = splits_of(rows, n_splits);
    (void)split_once(b, id, splits, n_splits, &nbytes);
    (void)copy_once(b, GMV_MAX(nbytes, UINT64_C(64)));
    for (int i = 0; i < b->rounds; i++) {
        split_times[i] = split_once(b, id, splits, n_splits, &nbytes);
        copy_times[i] = copy_once(b, GMV_MAX(nbytes, UINT64_C(64)));
    }
    const double split = median(split_times, b->rounds), copy = median(copy_times, b->rounds);
    const double pieces = (double)(n_splits + 1) * (double)n_buffers;
    printf("%-10s %5zu columns %5zu splits %8.1f MiB %10.3f ms  copy %10.3f ms  copy/split %.2f  "
           "%8.1f ns/piece over the copy\n",
           name, n_columns, n_splits, (double)nbytes / (1 << 20), split, copy, copy / split,
           (split - copy) * 1e6 / pieces);
    fflush(stdout);
    free(splits);
}

static void measure_integers(bench *b, uint64_t nbytes, size_t n_columns, const size_t *n_splits,
                             size_t n)
{
    const int64_t rows = (int64_t)(nbytes / 4 / n_columns);
    const gmv_id id = table_of(b, integers_of, n_columns, rows);
    for (size_t i = 0; i < n; i++)
        if (n_columns * (n_splits[i] + 1) <= SWEEP_MAX)
            measure(b, "integers", &id, n_columns, rows, n_splits[i], 2 * n_columns);
    delete (b, &id);
    gmv_engine_reap(&b->engine);
}

static void measure_strings(bench *b, uint64_t nbytes, size_t n_columns, size_t n_splits)
{
    const int64_t rows = (int64_t)(nbytes / (STRING_NBYTES + 4) / n_columns);
    const gmv_id id = table_of(b, strings_of, n_columns, rows);
    measure(b, "strings", &id, n_columns, rows, n_splits, 3 * n_columns);
    delete (b, &id);
    gmv_engine_reap(&b->engine);
}

/* ---- all of it ------------------------------------------------------------------------------- */

static void open_device(bench *b, const char *backend)
{
    const gmv_device_options options = {0};
    if (strcmp(backend, "cuda") == 0)
        MUST(gmv_device_open_cuda(&options, &b->device, &err));
    else
        MUST(gmv_device_open_host(&options, &b->device, &err));
    MUST(gmv_engine_init(&b->engine, &b->device, 1, NULL, NULL, &err));
    MUST(gmv_stream_create(b->device, &b->streams[0], &err));
    printf("%s, %s\n", gmv_device_describe(b->device)->name,
           gmv_device_describe(b->device)->kernel_set);
}

int main(int argc, char **argv)
{
    static const size_t few[] = {256}, sweep[] = {0, 1, 16, 256, 4096};
    static const size_t sweep_columns[] = {1, 16, 256, 4096};
    bench b = {
        .nbytes = (argc > 2 ? strtoull(argv[2], NULL, 10) : 256) << 20,
        .rounds = argc > 3 ? atoi(argv[3]) : 5,
    };
    b.rounds = GMV_MIN(GMV_MAX(b.rounds, 1), ROUNDS_MAX);
    open_device(&b, argc > 1 ? argv[1] : "host");
    measure_integers(&b, b.nbytes, 10, few, 1);
    measure_integers(&b, b.nbytes, 512, few, 1);
    measure_strings(&b, b.nbytes / 6, 10, 256);
    for (size_t i = 0; i < sizeof sweep_columns / sizeof sweep_columns[0]; i++)
        measure_integers(&b, b.nbytes / 16, sweep_columns[i], sweep,
                         sizeof sweep / sizeof sweep[0]);
    gmv_stream_destroy(b.streams[0]);
    gmv_engine_fini(&b.engine);
    return 0;
}
