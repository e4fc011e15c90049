/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unpack: a table of inner columns that point into gpu_data. Nothing is copied. Entries lie depth
 * first with parents before children, so walking them backwards meets every child before its
 * parent: the tree is built, and published, without recursion.
 */
#include <gmv/base/num.h>

#include "ops/unpack_priv.h"

/* The parts of one column, in the order in which they are published. */
typedef struct unpack_parts {
    gmv_view *data;
    gmv_view *mask;
    gmv_column *column;
} unpack_parts;

#define UNPACK_NODES_PER_COLUMN 3

typedef struct unpack_job {
    gmv_unpack_source source;
    gmv_node *packed;             /* one more owner of the views, or NULL */
    gmv_unpack_reading *readings; /* one for each entry */
    unpack_parts *parts;          /* one for each entry */
    gmv_column **waiting;         /* room for each entry: columns whose parent comes later, the */
    size_t n_waiting;             /* one met last at the front; they lie at the end of the array */
    gmv_table *table;
} unpack_job;

/* ---- making ---- */

static gmv_status unpack_view(unpack_job *job, int64_t offset, int64_t nbytes, gmv_view **out_view,
                              gmv_error *err)
{
    const gmv_view *gpu_data = job->source.gpu_data;
    const gmv_layout layout = gmv_layout_flat(nbytes);
    const gmv_view_spec spec = {
        .buffer = gpu_data->buffer,
        .parent = &job->source.gpu_data->node,
        .second_owner = job->packed,
        .ptr = gpu_data->ptr + (uint64_t)offset,
        .dtype = GMV_DTYPE_U1,
        .layout = &layout,
        .readonly = gpu_data->readonly,
        .bare = true,
    };
    return gmv_view_prepare(job->source.operation, &spec, NULL, true, out_view, err);
}

/* Elements, or characters; a string without any may have a place for them all the same. */
static gmv_status unpack_data(unpack_job *job, size_t index, gmv_error *err)
{
    const gmv_packed_entry *entry = &job->source.metadata->entries[index];
    if (entry->size == 0 || entry->data_offset < 0)
        return GMV_OK;
    const int64_t nbytes = entry->type_id == GMV_CUDF_STRING
                               ? job->readings[index].characters
                               : entry->size * (int64_t)gmv_cudf_type_width(entry->type_id);
    return unpack_view(job, entry->data_offset, nbytes, &job->parts[index].data, err);
}

/* As long as cuDF's masks are, where gpu_data has room for the padding. */
static gmv_status unpack_mask(unpack_job *job, size_t index, gmv_error *err)
{
    const gmv_packed_entry *entry = &job->source.metadata->entries[index];
    if (!gmv__unpack_has_mask(entry))
        return GMV_OK;
    const int64_t nbytes = GMV_MIN(gmv_bitmask_nbytes(entry->size),
                                   job->source.gpu_data->nbytes - entry->null_mask_offset);
    return unpack_view(job, entry->null_mask_offset, nbytes, &job->parts[index].mask, err);
}

/* The columns that wait, the one of the lowest entry first. */
static gmv_column **unpack_waiting(const unpack_job *job)
{
    return job->waiting + (job->source.metadata->n_entries - job->n_waiting);
}

static gmv_status unpack_column(unpack_job *job, size_t index, gmv_error *err)
{
    const gmv_packed_entry *entry = &job->source.metadata->entries[index];
    unpack_parts *parts = &job->parts[index];
    GMV_TRY(unpack_data(job, index, err));
    GMV_TRY(unpack_mask(job, index, err));
    const gmv_column_parts column = {
        .type = {entry->type_id, entry->scale},
        .size = entry->size,
        .null_count = (int32_t)job->readings[index].null_count,
        .data = parts->data,
        .null_mask = parts->mask,
        .children = unpack_waiting(job),
        .n_children = (size_t)entry->num_children,
    };
    GMV_TRY(gmv_column_prepare(job->source.operation, &column, NULL, true, &parts->column, err));
    job->n_waiting -= (size_t)entry->num_children;
    job->n_waiting++;
    *unpack_waiting(job) = parts->column;
    return GMV_OK;
}

static gmv_status unpack_table(unpack_job *job, const gmv_creation *creation, gmv_error *err)
{
    for (size_t i = job->source.metadata->n_entries; i-- > 0;)
        GMV_TRY(unpack_column(job, i, err));
    return gmv_table_prepare(job->source.operation, unpack_waiting(job), job->n_waiting,
                             job->source.metadata->num_rows, creation, false, &job->table, err);
}

static void unpack_discard(unpack_job *job)
{
    gmv_engine *engine = job->source.operation->engine;
    gmv_table_discard(engine, job->table);
    for (size_t i = 0; job->parts && i < job->source.metadata->n_entries; i++) {
        gmv_column_discard(engine, job->parts[i].column);
        gmv_view_discard(engine, job->parts[i].mask);
        gmv_view_discard(engine, job->parts[i].data);
    }
}

/* Owners before dependents: children, which have the higher entries, before their parents. */
static void unpack_publish(unpack_job *job, gmv_node **nodes)
{
    size_t n = 0;
    for (size_t i = job->source.metadata->n_entries; i-- > 0;) {
        const unpack_parts *parts = &job->parts[i];
        if (parts->data)
            nodes[n++] = &parts->data->node;
        if (parts->mask)
            nodes[n++] = &parts->mask->node;
        nodes[n++] = &parts->column->node;
    }
    nodes[n++] = &job->table->node;
    gmv_operation_publish(job->source.operation, nodes, n);
}

static gmv_status unpack_make(unpack_job *job, const gmv_creation *creation, gmv_error *err)
{
    const size_t n_entries = job->source.metadata->n_entries;
    const size_t n_nodes = n_entries * UNPACK_NODES_PER_COLUMN + 1;
    GMV_TRY(gmv_operation_reserve(job->source.operation, n_nodes, err));
    gmv_node **nodes = gmv_calloc(n_nodes, sizeof(gmv_node *));
    job->parts = gmv_calloc(n_entries + 1, sizeof *job->parts);
    job->waiting = gmv_calloc(n_entries + 1, sizeof(gmv_column *));
    gmv_status status = nodes && job->parts && job->waiting ? unpack_table(job, creation, err)
                                                            : gmv_fail_no_memory(err);
    if (status == GMV_OK)
        unpack_publish(job, nodes);
    else
        unpack_discard(job);
    gmv_free(job->waiting);
    gmv_free(job->parts);
    gmv_free(nodes);
    return status;
}

/* ---- metadata of clients ---- */

static gmv_status unpack_check_null_counts(const unpack_job *job, gmv_error *err)
{
    for (size_t i = 0; i < job->source.metadata->n_entries; i++) {
        const gmv_packed_entry *entry = &job->source.metadata->entries[i];
        const int64_t null_count = job->readings[i].null_count;
        if (entry->null_count != null_count)
            return gmv_fail(err, GMV_ERR_METADATA_INVALID, "/metadata",
                            "entry %zu: null_count is %d, but its mask has %lld nulls", i,
                            (int)entry->null_count, (long long)null_count);
    }
    return GMV_OK;
}

/* Now that the characters have been measured, they must lie apart from all else, too. */
static gmv_status unpack_check_apart(const unpack_job *job, gmv_packed_metadata *metadata,
                                     gmv_error *err)
{
    for (size_t i = 0; i < metadata->n_entries; i++) {
        if (metadata->entries[i].type_id == GMV_CUDF_STRING)
            metadata->entries[i].characters = job->readings[i].characters;
    }
    return gmv_packed_metadata_check_apart(metadata, err);
}

/* `untrusted`: the metadata if it is a client's, NULL if pack wrote it. Masks and offsets are read
 * in any case: clients may write to them. */
static gmv_status unpack_run(unpack_job *job, gmv_packed_metadata *untrusted,
                             const gmv_creation *creation, gmv_table **out_table, gmv_error *err)
{
    const size_t n_entries = job->source.metadata->n_entries;
    GMV_TRY(gmv__weigh_nodes(job->source.operation, n_entries * UNPACK_NODES_PER_COLUMN));
    job->readings = gmv_calloc(n_entries + 1, sizeof *job->readings);
    if (!job->readings)
        return gmv_fail_no_memory(err);
    gmv_status status = gmv__unpack_read(&job->source, job->readings, err);
    if (status == GMV_OK && untrusted)
        status = unpack_check_null_counts(job, err);
    if (status == GMV_OK && untrusted)
        status = unpack_check_apart(job, untrusted, err);
    if (status == GMV_OK)
        status = unpack_make(job, creation, err);
    gmv_free(job->readings);
    if (status == GMV_OK)
        *out_table = job->table;
    else if (status == GMV_ERR_METADATA_INVALID && !untrusted && err)
        err->has_pointer = false; /* the request has no such member */
    return status;
}

/* ---- the calls ---- */

gmv_status gmv_unpack(gmv_operation *operation, gmv_packed *packed, const gmv_creation *creation,
                      gmv_table **out_table, gmv_error *err)
{
    unpack_job job = {
        .source = {.operation = operation, .metadata = &packed->metadata},
        .packed = &packed->node,
    };
    GMV_TRY(gmv_packed_gpu_data(operation, packed, &job.source.gpu_data, err));
    return unpack_run(&job, NULL, creation, out_table, err);
}

gmv_status gmv_unpack_from_memoryviews(gmv_operation *operation, const void *metadata,
                                       size_t metadata_nbytes, gmv_view *gpu_data,
                                       const gmv_creation *creation, gmv_table **out_table,
                                       gmv_error *err)
{
    if (gpu_data)
        GMV_TRY(gmv_view_require_contiguous(gpu_data, "/gpu_data", err));
    gmv_packed_metadata decoded = {0};
    GMV_TRY(gmv_packed_metadata_decode(metadata, metadata_nbytes, gpu_data ? gpu_data->nbytes : 0,
                                       &decoded, err));
    unpack_job job = {
        .source = {.operation = operation, .metadata = &decoded, .gpu_data = gpu_data},
    };
    const gmv_status status = unpack_run(&job, &decoded, creation, out_table, err);
    gmv_packed_metadata_fini(&decoded);
    return status;
}
