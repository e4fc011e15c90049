/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unpack: a table of inner columns that point into gpu_data. Nothing is copied. The metadata has
 * passed gmv_packed_metadata_decode (or was written by pack), so every offset and size lies inside
 * gpu_data; what remains to be checked needs the address and the masks themselves.
 */
#include <gmv/base/alloc.h>
#include <gmv/base/num.h>

#include "ops/column_priv.h"
#include "ops/packed_priv.h"

/* The parts of one column, in the order in which they are published. */
typedef struct unpack_parts {
    gmv_view *data;
    gmv_view *mask;
    gmv_column *column;
} unpack_parts;

#define UNPACK_NODES_PER_COLUMN 3

typedef struct unpack_job {
    gmv_operation *operation;
    const gmv_packed_metadata *metadata;
    gmv_view *gpu_data;    /* NULL: none */
    gmv_node *packed;      /* one more owner of the views, or NULL */
    int64_t *valid_counts; /* of each entry's mask, as counted now; rows without one */
    unpack_parts *parts;   /* one for each entry */
    gmv_table *table;
} unpack_job;

/* ---- checking ----------------------------------------------------------------------------- */

static gmv_status unpack_check_types(const gmv_packed_metadata *metadata, gmv_error *err)
{
    for (size_t i = 0; i < metadata->n_entries; i++) {
        const int32_t type = metadata->entries[i].type_id;
        if (!gmv_cudf_type_is_fixed_width(type))
            return gmv_fail(
                err, GMV_ERR_DTYPE_UNSUPPORTED, "/metadata",
                "entry %zu is of type %s, which cannot be unpacked; only fixed-width types can", i,
                gmv_cudf_type_name(type) ? gmv_cudf_type_name(type) : "unknown");
    }
    return GMV_OK;
}

/* Offsets are aligned within gpu_data, but any view may be posted as gpu_data. */
static gmv_status unpack_check_alignment(const unpack_job *job, gmv_error *err)
{
    for (size_t i = 0; job->gpu_data && i < job->metadata->n_entries; i++) {
        const gmv_packed_entry *entry = &job->metadata->entries[i];
        const size_t alignment = gmv__type_alignment(entry->type_id);
        if (entry->size == 0 || entry->data_offset < 0)
            continue;
        if ((job->gpu_data->ptr + (uint64_t)entry->data_offset) % alignment != 0)
            return gmv_fail(
                err, GMV_ERR_VALUE, "/gpu_data",
                "gpu_data must start at a multiple of %zu bytes for entry %zu of type %s",
                alignment, i, gmv_cudf_type_name(entry->type_id));
    }
    return GMV_OK;
}

static bool unpack_has_mask(const gmv_packed_entry *entry)
{
    return entry->size > 0 && entry->null_mask_offset >= 0;
}

static gmv_status unpack_count_ranges(unpack_job *job, const gmv_bit_range *ranges, size_t n_ranges,
                                      int64_t *counts, gmv_error *err)
{
    gmv_device *device =
        gmv__engine_device_of(job->operation->engine, gmv__view_device(job->gpu_data));
    gmv_stream *stream = gmv_operation_stream(job->operation, device);
    const gmv_count_bits args = {
        .address = job->gpu_data->ptr,
        .ranges = ranges,
        .n_ranges = n_ranges,
        .out_counts = counts,
    };
    gmv_status status = gmv__view_use(stream, job->gpu_data, err);
    if (status == GMV_OK)
        status = gmv_kernel_count_bits(stream, &args, err);
    if (status == GMV_OK)
        status = gmv_stream_finish(stream, err);
    if (status != GMV_OK)
        gmv_stream_abandon(stream); /* before the arrays go */
    return status;
}

/* Counts the ones of all masks with one call, then spreads them over the entries. */
static gmv_status unpack_count(unpack_job *job, gmv_error *err)
{
    const size_t n_entries = job->metadata->n_entries;
    uint64_t nbytes = 0;
    size_t n_masks = 0;
    for (size_t i = 0; i < n_entries; i++) {
        const gmv_packed_entry *entry = &job->metadata->entries[i];
        job->valid_counts[i] = entry->size;
        if (unpack_has_mask(entry)) {
            nbytes += (uint64_t)gmv__bits_nbytes(entry->size);
            n_masks++;
        }
    }
    if (n_masks == 0)
        return GMV_OK;
    GMV_TRY(gmv_operation_weigh(job->operation, nbytes, err));

    gmv_bit_range *ranges = gmv_calloc(n_masks, sizeof *ranges);
    int64_t *counts = gmv_calloc(n_masks, sizeof *counts);
    gmv_status status = ranges && counts ? GMV_OK : gmv_fail_no_memory(err);
    if (status == GMV_OK) {
        for (size_t i = 0, k = 0; i < n_entries; i++) {
            const gmv_packed_entry *entry = &job->metadata->entries[i];
            if (unpack_has_mask(entry))
                ranges[k++] = (gmv_bit_range){entry->null_mask_offset * 8,
                                              entry->null_mask_offset * 8 + entry->size};
        }
        status = unpack_count_ranges(job, ranges, n_masks, counts, err);
    }
    for (size_t i = 0, k = 0; status == GMV_OK && i < n_entries; i++) {
        if (unpack_has_mask(&job->metadata->entries[i]))
            job->valid_counts[i] = counts[k++];
    }
    gmv_free(ranges);
    gmv_free(counts);
    return status;
}

static gmv_status unpack_check_null_counts(const unpack_job *job, gmv_error *err)
{
    for (size_t i = 0; i < job->metadata->n_entries; i++) {
        const gmv_packed_entry *entry = &job->metadata->entries[i];
        const int64_t null_count = entry->size - job->valid_counts[i];
        if (entry->null_count != null_count)
            return gmv_fail(err, GMV_ERR_METADATA_INVALID, "/metadata",
                            "entry %zu: null_count is %d, but its mask has %lld nulls", i,
                            (int)entry->null_count, (long long)null_count);
    }
    return GMV_OK;
}

/* ---- making ------------------------------------------------------------------------------- */

static gmv_status unpack_view(unpack_job *job, int64_t offset, int64_t nbytes, gmv_view **out_view,
                              gmv_error *err)
{
    const gmv_layout layout = gmv_layout_flat(nbytes);
    const gmv_view_spec spec = {
        .buffer = job->gpu_data->buffer,
        .parent = &job->gpu_data->node,
        .second_owner = job->packed,
        .ptr = job->gpu_data->ptr + (uint64_t)offset,
        .dtype = GMV_DTYPE_U1,
        .layout = &layout,
        .readonly = job->gpu_data->readonly,
        .bare = true,
    };
    return gmv_view_prepare(job->operation, &spec, NULL, true, out_view, err);
}

static gmv_status unpack_column(unpack_job *job, size_t index, gmv_error *err)
{
    const gmv_packed_entry *entry = &job->metadata->entries[index];
    unpack_parts *parts = &job->parts[index];
    const int64_t width = (int64_t)gmv_cudf_type_width(entry->type_id);
    if (entry->size > 0)
        GMV_TRY(unpack_view(job, entry->data_offset, entry->size * width, &parts->data, err));
    if (unpack_has_mask(entry)) {
        /* As long as cuDF's masks are, where gpu_data has room for the padding. */
        const int64_t nbytes = GMV_MIN(gmv_bitmask_nbytes(entry->size),
                                       job->gpu_data->nbytes - entry->null_mask_offset);
        GMV_TRY(unpack_view(job, entry->null_mask_offset, nbytes, &parts->mask, err));
    }
    const gmv_column_parts column = {
        .type = {entry->type_id, entry->scale},
        .size = entry->size,
        .null_count = (int32_t)(entry->size - job->valid_counts[index]),
        .data = parts->data,
        .null_mask = parts->mask,
    };
    return gmv_column_prepare(job->operation, &column, NULL, true, &parts->column, err);
}

static gmv_status unpack_table(unpack_job *job, const gmv_creation *creation, gmv_error *err)
{
    const size_t n = job->metadata->n_entries;
    for (size_t i = 0; i < n; i++)
        GMV_TRY(unpack_column(job, i, err));
    gmv_column **columns = NULL;
    if (n > 0) {
        columns = gmv_calloc(n, sizeof(gmv_column *));
        if (!columns)
            return gmv_fail_no_memory(err);
    }
    for (size_t i = 0; i < n; i++)
        columns[i] = job->parts[i].column;
    const gmv_status status = gmv_table_prepare(job->operation, columns, n, job->metadata->num_rows,
                                                creation, false, &job->table, err);
    gmv_free(columns);
    return status;
}

static void unpack_discard(unpack_job *job)
{
    gmv_engine *engine = job->operation->engine;
    gmv_table_discard(engine, job->table);
    for (size_t i = 0; job->parts && i < job->metadata->n_entries; i++) {
        gmv_column_discard(engine, job->parts[i].column);
        gmv_view_discard(engine, job->parts[i].mask);
        gmv_view_discard(engine, job->parts[i].data);
    }
}

static void unpack_publish(unpack_job *job, gmv_node **nodes)
{
    size_t n = 0;
    for (size_t i = 0; i < job->metadata->n_entries; i++) {
        const unpack_parts *parts = &job->parts[i];
        if (parts->data)
            nodes[n++] = &parts->data->node;
        if (parts->mask)
            nodes[n++] = &parts->mask->node;
        nodes[n++] = &parts->column->node;
    }
    nodes[n++] = &job->table->node;
    gmv_operation_publish(job->operation, nodes, n);
}

static gmv_status unpack_make(unpack_job *job, const gmv_creation *creation, gmv_error *err)
{
    const size_t n_entries = job->metadata->n_entries;
    const size_t n_nodes = n_entries * UNPACK_NODES_PER_COLUMN + 1;
    GMV_TRY(gmv_operation_reserve(job->operation, n_nodes, err));
    gmv_node **nodes = gmv_calloc(n_nodes, sizeof(gmv_node *));
    job->parts = gmv_calloc(n_entries + 1, sizeof *job->parts);
    gmv_status status =
        nodes && job->parts ? unpack_table(job, creation, err) : gmv_fail_no_memory(err);
    if (status == GMV_OK)
        unpack_publish(job, nodes);
    else
        unpack_discard(job);
    gmv_free(job->parts);
    gmv_free(nodes);
    return status;
}

/* `is_trusted`: the metadata was written by pack; clients may have changed the masks since. */
static gmv_status unpack_run(unpack_job *job, bool is_trusted, const gmv_creation *creation,
                             gmv_table **out_table, gmv_error *err)
{
    GMV_TRY(unpack_check_types(job->metadata, err));
    GMV_TRY(unpack_check_alignment(job, err));
    GMV_TRY(gmv__weigh_nodes(job->operation, job->metadata->n_entries * UNPACK_NODES_PER_COLUMN));
    job->valid_counts = gmv_calloc(job->metadata->n_entries + 1, sizeof *job->valid_counts);
    if (!job->valid_counts)
        return gmv_fail_no_memory(err);
    gmv_status status = unpack_count(job, err);
    if (status == GMV_OK && !is_trusted)
        status = unpack_check_null_counts(job, err);
    if (status == GMV_OK)
        status = unpack_make(job, creation, err);
    gmv_free(job->valid_counts);
    if (status == GMV_OK)
        *out_table = job->table;
    return status;
}

/* ---- the calls ---------------------------------------------------------------------------- */

gmv_status gmv_unpack(gmv_operation *operation, gmv_packed *packed, const gmv_creation *creation,
                      gmv_table **out_table, gmv_error *err)
{
    unpack_job job = {
        .operation = operation,
        .metadata = &packed->metadata,
        .packed = &packed->node,
    };
    GMV_TRY(gmv_packed_gpu_data(operation, packed, &job.gpu_data, err));
    return unpack_run(&job, true, creation, out_table, err);
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
    unpack_job job = {.operation = operation, .metadata = &decoded, .gpu_data = gpu_data};
    const gmv_status status = unpack_run(&job, false, creation, out_table, err);
    gmv_packed_metadata_fini(&decoded);
    return status;
}
