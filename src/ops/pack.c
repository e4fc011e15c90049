/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pack and contiguous_split. Each partition is a packed handle over memory of its own; all
 * partitions are copied by one call of the device, and all handles appear at once.
 */
#include <stdio.h>

#include <gmv/base/alloc.h>

#include "ops/column_priv.h"
#include "ops/packed_priv.h"

#define PACK_NODES_PER_PARTITION 3 /* buffer, gpu_data view, packed handle */

/* ---- checking ----------------------------------------------------------------------------- */

static gmv_status split_fail(gmv_error *err, gmv_status status, size_t index, int64_t split,
                             int64_t low, int64_t high)
{
    char pointer[48];
    (void)snprintf(pointer, sizeof pointer, "/splits/%zu", index);
    return gmv_fail(err, status, pointer, "split %zu must be %lld to %lld, not %lld", index,
                    (long long)low, (long long)high, (long long)split);
}

/* cuDF's order: the last split against the rows first, then one by one. */
static gmv_status splits_check(const int64_t *splits, size_t n_splits, int64_t num_rows,
                               gmv_error *err)
{
    if (n_splits == 0)
        return GMV_OK;
    const size_t last = n_splits - 1;
    if (splits[last] > num_rows)
        return split_fail(err, GMV_ERR_INDEX, last, splits[last], 0, num_rows);
    int64_t previous = 0;
    for (size_t i = 0; i < n_splits; i++) {
        if (splits[i] < previous)
            return split_fail(err, GMV_ERR_VALUE, i, splits[i], previous, num_rows);
        if (splits[i] > num_rows)
            return split_fail(err, GMV_ERR_INDEX, i, splits[i], previous, num_rows);
        previous = splits[i];
    }
    return GMV_OK;
}

/* ---- making ------------------------------------------------------------------------------- */

/* The device of a table's columns; a table without memory is packed on the first one. */
static gmv_device *pack_device(gmv_engine *engine, const gmv_table *table)
{
    for (uint32_t i = 0; i < table->n_columns; i++) {
        gmv_device *device = gmv_column_device(engine, table->columns[i]);
        if (device)
            return device;
    }
    return engine->devices[0];
}

static gmv_status pack_prepare(gmv_operation *operation, gmv_pack_plan *plan, gmv_device *device,
                               const gmv_creation *creation, gmv_error *err)
{
    const gmv_creation inner = gmv__inner_creation(creation);
    for (size_t i = 0; i < plan->n_partitions; i++) {
        gmv_pack_partition *partition = &plan->partitions[i];
        /* The copy writes every byte, padding included. */
        GMV_TRY(gmv_result_prepare(operation, device, partition->nbytes, GMV_CONTENTS_UNSPECIFIED,
                                   &inner, true, &partition->gpu_data, err));
        GMV_TRY(gmv__packed_prepare(operation, &partition->metadata, partition->gpu_data.view,
                                    creation, &partition->packed, err));
    }
    return GMV_OK;
}

static void pack_discard(gmv_engine *engine, gmv_pack_plan *plan)
{
    for (size_t i = 0; i < plan->n_partitions; i++) {
        gmv__packed_discard(engine, plan->partitions[i].packed);
        if (plan->partitions[i].gpu_data.view)
            gmv_result_discard(engine, &plan->partitions[i].gpu_data);
    }
}

static gmv_status pack_announce(gmv_stream *stream, const gmv_pack_plan *plan,
                                const gmv_table *table, gmv_error *err)
{
    for (uint32_t i = 0; i < table->n_columns; i++) {
        GMV_TRY(gmv__view_use(stream, table->columns[i]->data, err));
        GMV_TRY(gmv__view_use(stream, table->columns[i]->null_mask, err));
    }
    for (size_t i = 0; i < plan->n_partitions; i++) {
        gmv_memory *memory = plan->partitions[i].gpu_data.buffer->memory;
        GMV_TRY(gmv_stream_use(stream, memory, err));
        /* The pieces fill gpu_data; what the allocator added behind it is cleared here. */
        GMV_TRY(gmv_fill(stream, memory->address + memory->nbytes, 0,
                         memory->capacity - memory->nbytes, err));
    }
    return GMV_OK;
}

static gmv_copy_piece pack_piece(const gmv_pack_partition *partition, gmv_pack_buffer *buffer)
{
    const gmv_column *column = buffer->column;
    gmv_copy_piece piece = {
        .destination = partition->gpu_data.view->ptr + buffer->offset,
        .capacity = buffer->capacity,
    };
    if (buffer->is_validity) {
        piece.is_bits = true;
        piece.bits = (gmv_bits){column->null_mask->ptr, buffer->first};
        piece.n = buffer->rows;
        piece.out_set_count = &buffer->set_count;
    } else {
        piece.source =
            column->data->ptr + (uint64_t)buffer->first * gmv_cudf_type_width(column->type.id);
        piece.nbytes = buffer->nbytes;
    }
    return piece;
}

static gmv_status pack_copy(gmv_stream *stream, gmv_pack_plan *plan, const gmv_table *table,
                            gmv_error *err)
{
    if (plan->n_buffers == 0)
        return GMV_OK;
    gmv_copy_piece *pieces = gmv_calloc(plan->n_buffers, sizeof *pieces);
    if (!pieces)
        return gmv_fail_no_memory(err);
    for (size_t i = 0; i < plan->n_partitions; i++) {
        const gmv_pack_partition *partition = &plan->partitions[i];
        for (size_t k = 0; k < partition->n_buffers; k++) {
            const size_t index = partition->first_buffer + k;
            pieces[index] = pack_piece(partition, &plan->buffers[index]);
        }
    }
    gmv_status status = pack_announce(stream, plan, table, err);
    if (status == GMV_OK)
        status = gmv_kernel_copy_pieces(stream, pieces, plan->n_buffers, err);
    if (status == GMV_OK)
        status = gmv_stream_finish(stream, err);
    if (status != GMV_OK)
        gmv_stream_abandon(stream); /* before the pieces and the memory go */
    gmv_free(pieces);
    return status;
}

static void pack_set_null_counts(gmv_pack_plan *plan)
{
    for (size_t i = 0; i < plan->n_partitions; i++) {
        const gmv_pack_partition *partition = &plan->partitions[i];
        for (size_t k = 0; k < partition->n_buffers; k++) {
            const gmv_pack_buffer *buffer = &plan->buffers[partition->first_buffer + k];
            if (buffer->is_validity)
                partition->packed->metadata.entries[buffer->entry].null_count =
                    (int32_t)(buffer->rows - buffer->set_count);
        }
    }
}

static void pack_publish(gmv_operation *operation, gmv_pack_plan *plan, gmv_node **nodes)
{
    size_t n = 0;
    for (size_t i = 0; i < plan->n_partitions; i++) {
        nodes[n++] = &plan->partitions[i].gpu_data.buffer->node;
        nodes[n++] = &plan->partitions[i].gpu_data.view->node;
        nodes[n++] = &plan->partitions[i].packed->node;
    }
    gmv_operation_publish(operation, nodes, n);
}

static gmv_status pack_run(gmv_operation *operation, gmv_pack_plan *plan, const gmv_table *table,
                           const gmv_creation *creation, gmv_error *err)
{
    const size_t n_nodes = plan->n_partitions * PACK_NODES_PER_PARTITION;
    GMV_TRY(gmv_operation_weigh(operation, plan->nbytes, err));
    GMV_TRY(gmv__weigh_nodes(operation, n_nodes));
    GMV_TRY(gmv_operation_reserve(operation, n_nodes, err));
    gmv_node **nodes = gmv_calloc(n_nodes, sizeof(gmv_node *));
    if (!nodes)
        return gmv_fail_no_memory(err);

    gmv_device *device = pack_device(operation->engine, table);
    gmv_stream *stream = gmv_operation_stream(operation, device);
    gmv_status status = pack_prepare(operation, plan, device, creation, err);
    if (status == GMV_OK)
        status = pack_copy(stream, plan, table, err);
    if (status == GMV_OK) {
        pack_set_null_counts(plan);
        pack_publish(operation, plan, nodes);
    } else {
        gmv_stream_abandon(stream);
        pack_discard(operation->engine, plan);
    }
    gmv_free(nodes);
    return status;
}

/* ---- the calls ---------------------------------------------------------------------------- */

gmv_status gmv_packed_size(gmv_operation *operation, gmv_table *table, int64_t *out_nbytes,
                           gmv_error *err)
{
    (void)operation;
    gmv_pack_plan plan;
    GMV_TRY(gmv__pack_plan_init(&plan, table, NULL, 0, err));
    *out_nbytes = (int64_t)plan.nbytes;
    gmv__pack_plan_fini(&plan);
    return GMV_OK;
}

gmv_status gmv_pack(gmv_operation *operation, gmv_table *table, const gmv_creation *creation,
                    gmv_packed **out_packed, gmv_error *err)
{
    gmv_pack_plan plan;
    GMV_TRY(gmv__pack_plan_init(&plan, table, NULL, 0, err));
    const gmv_status status = pack_run(operation, &plan, table, creation, err);
    if (status == GMV_OK)
        *out_packed = plan.partitions[0].packed;
    gmv__pack_plan_fini(&plan);
    return status;
}

gmv_status gmv_contiguous_split(gmv_operation *operation, gmv_table *table, const int64_t *splits,
                                size_t n_splits, const gmv_creation *creation,
                                gmv_packed ***out_packed, size_t *out_n, gmv_error *err)
{
    if (table->n_columns == 0 && table->num_rows == 0) {
        *out_packed = NULL;
        *out_n = 0;
        return GMV_OK;
    }
    GMV_TRY(splits_check(splits, n_splits, table->num_rows, err));

    gmv_pack_plan plan;
    GMV_TRY(gmv__pack_plan_init(&plan, table, splits, n_splits, err));
    gmv_packed **packed = gmv_calloc(plan.n_partitions, sizeof(gmv_packed *));
    gmv_status status =
        packed ? pack_run(operation, &plan, table, creation, err) : gmv_fail_no_memory(err);
    if (status == GMV_OK) {
        for (size_t i = 0; i < plan.n_partitions; i++)
            packed[i] = plan.partitions[i].packed;
        *out_packed = packed;
        *out_n = plan.n_partitions;
    } else {
        gmv_free(packed);
    }
    gmv__pack_plan_fini(&plan);
    return status;
}
