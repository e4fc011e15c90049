/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of a column of any type on the host, for inspection. The tree is read level by level: all
 * that one level needs is enqueued, then waited for once. Offsets and indices are the exporter's
 * and may be anything by now: they are clamped as soon as they are here, before they lead anywhere.
 */
#include <stdlib.h>
#include <string.h>

#include <gmv/base/alloc.h>
#include <gmv/base/num.h>

#include "ops/column_priv.h"

/* Something to read: rows of a column, or the characters of strings whose offsets are known. */
typedef struct rows_task {
    gmv_column *column;
    gmv_column_rows *rows;
    int64_t first; /* row, or byte of the characters */
    bool is_characters;
} rows_task;

typedef struct rows_tasks {
    rows_task *items;
    size_t n, capacity;
} rows_tasks;

typedef struct rows_job {
    gmv_operation *operation;
    gmv_stream *stream; /* NULL until something is read */
    gmv_error *err;
    int64_t count; /* rows asked for */
    int64_t values, nbytes;
    rows_tasks now, next; /* this level, the one below */
} rows_job;

/* Keys this far apart are read in one go. */
#define ROWS_KEY_GAP 64

/* ---- bounds ---- */

static gmv_status rows_fail_too_many(const rows_job *job)
{
    return gmv_fail(job->err, GMV_ERR_QUOTA_EXCEEDED, NULL,
                    "%s more than %d values (each column below counting as %d) or %d bytes; %s",
                    job->count > 1 ? "these rows hold" : "this row alone holds",
                    GMV_COLUMN_ROWS_VALUES_MAX, GMV_COLUMN_ROWS_PER_COLUMN,
                    GMV_COLUMN_ROWS_NBYTES_MAX,
                    job->count > 1 ? "ask for fewer of them" : "read the bytes of its views");
}

static gmv_status rows_charge(rows_job *job, int64_t values, int64_t nbytes)
{
    if (values > GMV_COLUMN_ROWS_VALUES_MAX - job->values ||
        nbytes > GMV_COLUMN_ROWS_NBYTES_MAX - job->nbytes)
        return rows_fail_too_many(job);
    job->values += values;
    job->nbytes += nbytes;
    return gmv_operation_weigh(job->operation, (uint64_t)job->nbytes, job->err);
}

/* Memory for bytes that are read, which count. */
static gmv_status rows_allocate(rows_job *job, int64_t nbytes, void *out_pointer)
{
    GMV_TRY(rows_charge(job, 0, nbytes));
    void *bytes = gmv_malloc((size_t)nbytes);
    if (!bytes)
        return gmv_fail_no_memory(job->err);
    memcpy(out_pointer, &bytes, sizeof bytes);
    return GMV_OK;
}

/* ---- tasks ---- */

static gmv_status rows_push(rows_job *job, rows_tasks *tasks, const rows_task *task)
{
    if (tasks->n == tasks->capacity) {
        const size_t capacity = tasks->capacity > 0 ? 2 * tasks->capacity : 16;
        rows_task *items = gmv_realloc(tasks->items, capacity * sizeof *items);
        if (!items)
            return gmv_fail_no_memory(job->err);
        tasks->items = items;
        tasks->capacity = capacity;
    }
    tasks->items[tasks->n++] = *task;
    return GMV_OK;
}

/* Rows [first, first + count) of a column become `rows`. */
static gmv_status rows_push_rows(rows_job *job, rows_tasks *tasks, gmv_column *column,
                                 int64_t first, int64_t count, gmv_column_rows *rows)
{
    GMV_TRY(rows_charge(job, count + GMV_COLUMN_ROWS_PER_COLUMN, 0));
    rows->type = column->type;
    rows->count = count;
    if (count == 0)
        return GMV_OK;
    return rows_push(job, tasks, &(rows_task){.column = column, .rows = rows, .first = first});
}

static gmv_status rows_make_children(rows_job *job, gmv_column_rows *rows, size_t n)
{
    if (n > GMV_COLUMN_ROWS_VALUES_MAX)
        return rows_fail_too_many(job);
    if (n == 0)
        return GMV_OK;
    rows->children = gmv_calloc(n, sizeof *rows->children);
    if (!rows->children)
        return gmv_fail_no_memory(job->err);
    rows->n_children = n;
    return GMV_OK;
}

/* ---- enqueueing ---- */

static gmv_status rows_enqueue(rows_job *job, const gmv_view *view, void *destination,
                               uint64_t source, int64_t nbytes)
{
    if (!job->stream) {
        gmv_engine *engine = job->operation->engine;
        job->stream = gmv_operation_stream(job->operation,
                                           gmv__engine_device_of(engine, gmv__view_device(view)));
    }
    GMV_TRY(gmv__view_use(job->stream, view, job->err));
    return gmv_copy_out(job->stream, destination, source, (uint64_t)nbytes, job->err);
}

/* The bits may begin within a byte: up to one byte more than they fill. */
static int64_t rows_mask_nbytes(int64_t bit, int64_t count)
{
    return gmv__bits_nbytes(bit + count) - bit / 8;
}

static gmv_status rows_read_validity(rows_job *job, const rows_task *task)
{
    if (!gmv_column_is_nullable(task->column))
        return GMV_OK;
    const gmv_bits bits = gmv_column_validity(task->column);
    const int64_t bit = bits.offset + task->first;
    const int64_t nbytes = rows_mask_nbytes(bit, task->rows->count);
    GMV_TRY(rows_allocate(job, nbytes, &task->rows->validity));
    return rows_enqueue(job, task->column->null_mask, task->rows->validity,
                        bits.address + (uint64_t)bit / 8, nbytes);
}

static gmv_status rows_read_elements(rows_job *job, const rows_task *task)
{
    const gmv_column *column = task->column;
    const int64_t width = (int64_t)gmv_cudf_type_width(column->type.id);
    const int64_t nbytes = task->rows->count * width;
    GMV_TRY(rows_allocate(job, nbytes, &task->rows->data));
    return rows_enqueue(job, column->data, task->rows->data,
                        gmv_column_data_address(column) + (uint64_t)(task->first * width), nbytes);
}

/*
 * `n` integers of child 0, from the parent's row `first` on, into the end of an array of int64_t:
 * from there they are widened in place.
 */
static gmv_status rows_read_integers(rows_job *job, const rows_task *task, int64_t n,
                                     int64_t **out_integers)
{
    const gmv_column *child = task->column->children[0];
    const int64_t width = (int64_t)gmv_cudf_type_width(child->type.id);
    const int64_t first = task->column->offset + task->first;
    GMV_TRY(rows_allocate(job, n * (int64_t)sizeof(int64_t), out_integers));
    unsigned char *end = (unsigned char *)(*out_integers + n);
    return rows_enqueue(job, child->data, end - n * width,
                        gmv_column_data_address(child) + (uint64_t)(first * width), n * width);
}

static void rows_widen(int64_t *integers, int64_t n, const gmv_column *child)
{
    const int64_t width = (int64_t)gmv_cudf_type_width(child->type.id);
    const unsigned char *narrow = (const unsigned char *)(integers + n) - n * width;
    for (int64_t i = 0; i < n; i++)
        integers[i] = gmv__integer_at(narrow, width, i);
}

/* Fields are of the same level. */
static gmv_status rows_begin_struct(rows_job *job, const rows_task *task)
{
    gmv_column *column = task->column;
    gmv_column_rows *rows = task->rows;
    GMV_TRY(rows_make_children(job, rows, column->n_children));
    for (size_t i = 0; i < rows->n_children; i++)
        GMV_TRY(rows_push_rows(job, &job->now, column->children[i], column->offset + task->first,
                               rows->count, &rows->children[i]));
    return GMV_OK;
}

static gmv_status rows_begin(rows_job *job, const rows_task *task)
{
    gmv_column_rows *rows = task->rows;
    if (task->is_characters)
        return rows_enqueue(job, task->column->data, rows->data,
                            task->column->data->ptr + (uint64_t)task->first,
                            rows->offsets[rows->count]);
    GMV_TRY(rows_read_validity(job, task));
    switch (task->column->type.id) {
    case GMV_CUDF_EMPTY:
        return GMV_OK;
    case GMV_CUDF_STRING:
    case GMV_CUDF_LIST:
        return rows_read_integers(job, task, rows->count + 1, &rows->offsets);
    case GMV_CUDF_DICTIONARY32:
        return rows_read_integers(job, task, rows->count, &rows->keys);
    case GMV_CUDF_STRUCT:
        return rows_begin_struct(job, task);
    default:
        return rows_read_elements(job, task);
    }
}

/* ---- what comes of what was read ---- */

/* Moves bit `shift` (0 to 7) of `bytes` to bit 0; the bits past `n` become 0. */
static void rows_shift_bits(uint8_t *bytes, int64_t nbytes, unsigned shift, int64_t n)
{
    const int64_t used = gmv__bits_nbytes(n);
    for (int64_t i = 0; shift > 0 && i < used; i++) {
        const unsigned next = i + 1 < nbytes ? bytes[i + 1] : 0;
        bytes[i] = (uint8_t)((bytes[i] | next << 8) >> shift);
    }
    if (n % 8 != 0)
        bytes[used - 1] &= (uint8_t)((1u << n % 8) - 1);
}

/* Never decreasing, from 0 on, to `size` - *out_first at most; *out_first is what 0 stands for. */
static void rows_clamp_offsets(int64_t *offsets, int64_t n, int64_t size, int64_t *out_first)
{
    int64_t last = 0;
    for (int64_t i = 0; i < n; i++) {
        last = GMV_MIN(GMV_MAX(offsets[i], last), size);
        offsets[i] = last;
    }
    *out_first = offsets[0];
    for (int64_t i = 0; i < n; i++)
        offsets[i] -= *out_first;
}

static gmv_status rows_follow_string(rows_job *job, const rows_task *task)
{
    const gmv_column *column = task->column;
    gmv_column_rows *rows = task->rows;
    rows_task characters = {.column = task->column, .rows = rows, .is_characters = true};
    rows_widen(rows->offsets, rows->count + 1, column->children[GMV_CHILD_OFFSETS]);
    rows_clamp_offsets(rows->offsets, rows->count + 1, column->data ? column->data->nbytes : 0,
                       &characters.first);
    if (rows->offsets[rows->count] == 0)
        return GMV_OK;
    GMV_TRY(rows_allocate(job, rows->offsets[rows->count], &rows->data));
    return rows_push(job, &job->next, &characters);
}

static gmv_status rows_follow_list(rows_job *job, const rows_task *task)
{
    gmv_column *elements = task->column->children[GMV_CHILD_ELEMENTS];
    gmv_column_rows *rows = task->rows;
    int64_t first;
    rows_widen(rows->offsets, rows->count + 1, task->column->children[GMV_CHILD_OFFSETS]);
    rows_clamp_offsets(rows->offsets, rows->count + 1, elements->size, &first);
    GMV_TRY(rows_make_children(job, rows, 1));
    return rows_push_rows(job, &job->next, elements, first, rows->offsets[rows->count],
                          &rows->children[0]);
}

static int rows_compare(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Keys [first, first + count). */
typedef struct rows_run {
    int64_t first, count;
} rows_run;

/* Ascending runs that hold n sorted keys. Returns how many. */
static size_t rows_make_runs(const int64_t *sorted, int64_t n, rows_run *runs)
{
    size_t n_runs = 0;
    for (int64_t i = 0; i < n; i++) {
        rows_run *last = n_runs > 0 ? &runs[n_runs - 1] : NULL;
        if (last && sorted[i] < last->first + last->count + ROWS_KEY_GAP)
            last->count = GMV_MAX(last->count, sorted[i] - last->first + 1);
        else
            runs[n_runs++] = (rows_run){sorted[i], 1};
    }
    return n_runs;
}

static int64_t rows_place_key(const rows_run *runs, size_t n_runs, int64_t key)
{
    size_t low = 0, high = n_runs;
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        if (runs[middle].first <= key)
            low = middle;
        else
            high = middle;
    }
    return (int64_t)low << 32 | (key - runs[low].first);
}

/* The keys that rows lead to, in as few pieces as they are scattered over. */
static gmv_status rows_read_keys(rows_job *job, const rows_task *task, int64_t *sorted,
                                 rows_run *runs)
{
    gmv_column_rows *rows = task->rows;
    int64_t n = 0;
    for (int64_t i = 0; i < rows->count; i++)
        if (rows->keys[i] != GMV_COLUMN_NO_KEY)
            sorted[n++] = rows->keys[i];
    qsort(sorted, (size_t)n, sizeof *sorted, rows_compare);
    const size_t n_runs = rows_make_runs(sorted, n, runs);
    GMV_TRY(rows_make_children(job, rows, n_runs));
    for (size_t i = 0; i < n_runs; i++)
        GMV_TRY(rows_push_rows(job, &job->next, task->column->children[GMV_CHILD_KEYS],
                               runs[i].first, runs[i].count, &rows->children[i]));
    for (int64_t i = 0; i < rows->count; i++)
        if (rows->keys[i] != GMV_COLUMN_NO_KEY)
            rows->keys[i] = rows_place_key(runs, n_runs, rows->keys[i]);
    return GMV_OK;
}

static gmv_status rows_follow_dictionary(rows_job *job, const rows_task *task)
{
    gmv_column_rows *rows = task->rows;
    const int64_t last = task->column->children[GMV_CHILD_KEYS]->size - 1;
    rows_widen(rows->keys, rows->count, task->column->children[GMV_CHILD_INDICES]);
    for (int64_t i = 0; i < rows->count; i++)
        rows->keys[i] = gmv_column_rows_valid(rows, i) && last >= 0
                            ? GMV_MIN(GMV_MAX(rows->keys[i], 0), last)
                            : GMV_COLUMN_NO_KEY;
    int64_t *sorted = gmv_calloc((size_t)rows->count, sizeof *sorted);
    rows_run *runs = gmv_calloc((size_t)rows->count, sizeof *runs);
    const gmv_status status =
        sorted && runs ? rows_read_keys(job, task, sorted, runs) : gmv_fail_no_memory(job->err);
    gmv_free(sorted);
    gmv_free(runs);
    return status;
}

static gmv_status rows_follow(rows_job *job, const rows_task *task)
{
    gmv_column_rows *rows = task->rows;
    if (task->is_characters)
        return GMV_OK;
    if (rows->validity) {
        const int64_t bit = task->column->offset + task->first;
        rows_shift_bits(rows->validity, rows_mask_nbytes(bit, rows->count), (unsigned)(bit % 8),
                        rows->count);
    }
    switch (task->column->type.id) {
    case GMV_CUDF_STRING:
        return rows_follow_string(job, task);
    case GMV_CUDF_LIST:
        return rows_follow_list(job, task);
    case GMV_CUDF_DICTIONARY32:
        return rows_follow_dictionary(job, task);
    default:
        return GMV_OK;
    }
}

/* ---- the call ---- */

static gmv_status rows_read_level(rows_job *job)
{
    for (size_t i = 0; i < job->now.n; i++) {
        const rows_task task = job->now.items[i]; /* fields are added, which may move the items */
        GMV_TRY(rows_begin(job, &task));
    }
    if (job->stream)
        GMV_TRY(gmv_stream_finish(job->stream, job->err));
    for (size_t i = 0; i < job->now.n; i++)
        GMV_TRY(rows_follow(job, &job->now.items[i]));
    const rows_tasks done = job->now;
    job->now = job->next;
    job->next = (rows_tasks){.items = done.items, .capacity = done.capacity};
    return GMV_OK;
}

gmv_status gmv_column_read_rows(gmv_operation *operation, gmv_column *column, int64_t first,
                                int64_t count, gmv_column_rows *out_rows, gmv_error *err)
{
    *out_rows = (gmv_column_rows){.type = column->type};
    if (first < 0 || count < 0 || first > column->size || count > column->size - first)
        return gmv_fail(err, GMV_ERR_INDEX, NULL,
                        "rows %lld and %lld more are not all among the %d rows", (long long)first,
                        (long long)count, (int)column->size);
    gmv_column_rows rows = {0};
    rows_job job = {.operation = operation, .err = err, .count = count};
    gmv_status status = rows_push_rows(&job, &job.now, column, first, count, &rows);
    while (status == GMV_OK && job.now.n > 0)
        status = rows_read_level(&job);
    if (status != GMV_OK && job.stream)
        gmv_stream_abandon(job.stream); /* copies may still be under way into the arrays */
    gmv_free(job.now.items);
    gmv_free(job.next.items);
    if (status != GMV_OK) {
        gmv_column_rows_fini(&rows);
        return status;
    }
    *out_rows = rows;
    return GMV_OK;
}

/* As deep as columns nest. */
void gmv_column_rows_fini(gmv_column_rows *rows)
{
    for (size_t i = 0; i < rows->n_children; i++)
        gmv_column_rows_fini(&rows->children[i]);
    gmv_free(rows->children);
    gmv_free(rows->keys);
    gmv_free(rows->offsets);
    gmv_free(rows->validity);
    gmv_free(rows->data);
    *rows = (gmv_column_rows){0};
}
