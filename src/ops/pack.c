/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pack and contiguous_split. Each partition is a packed handle over memory of its own. The device
 * begins to copy as soon as it has got memory for a part of them, and the rest, handles and
 * metadata, is made while it does; null counts come back at the end, all together, and all handles
 * appear at once.
 */
#include <stdio.h>
#include <string.h>

#include <gmv/base/alloc.h>
#include <gmv/base/num.h>

#include "ops/column_priv.h"
#include "ops/draft_priv.h"
#include "ops/packed_priv.h"

#define PACK_NODES_PER_PARTITION 3 /* buffer, gpu_data view, packed handle */

/* Copies are started in parts if there are as many bytes. */
#define PACK_START_PARTS  32
#define PACK_START_NBYTES ((uint64_t)32 << 20)

/* What becomes one packed handle. */
typedef struct pack_partition {
    gmv_memory *memory; /* until there is a buffer to own it */
    gmv_result gpu_data;
    gmv_packed *packed;
} pack_partition;

typedef struct pack_job {
    gmv_operation *operation;
    const gmv_creation *creation;
    gmv_pack_plan plan;
    gmv_stream *stream;
    pack_partition *partitions;
    uint64_t *destinations;
    gmv_scratch *counts;  /* of ones, on the device: [partitions][masks]; NULL: no masks */
    uint64_t *set_counts; /* the same here, once the device is at work */
    gmv_node **nodes;
} pack_job;

/* ---- checking ---- */

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

/* ---- making ---- */

static size_t pack_n_counts(const gmv_pack_plan *plan)
{
    return plan->n_partitions * plan->n_masks;
}

static gmv_status pack_allocate(pack_job *job, gmv_error *err)
{
    const size_t n = job->plan.n_partitions, n_counts = pack_n_counts(&job->plan);
    job->partitions = gmv_calloc(n, sizeof *job->partitions);
    job->destinations = gmv_calloc(n, sizeof *job->destinations);
    job->nodes = gmv_calloc(n * PACK_NODES_PER_PARTITION, sizeof(gmv_node *));
    if (!job->partitions || !job->destinations || !job->nodes)
        return gmv_fail_no_memory(err);
    if (n_counts == 0)
        return GMV_OK;
    GMV_TRY(gmv_engine_scratch(job->operation->engine, job->plan.device, job->stream,
                               n_counts * sizeof(uint64_t), &job->counts, err));
    return gmv_fill(job->stream, job->counts->memory->address, 0, n_counts * sizeof(uint64_t), err);
}

/* Gives up everything, made or not. */
static void pack_free(pack_job *job)
{
    gmv_engine_discard_scratch(job->operation->engine, job->counts, true);
    gmv_free(job->partitions);
    gmv_free(job->destinations);
    gmv_free(job->set_counts);
    gmv_free(job->nodes);
    gmv__pack_plan_fini(&job->plan);
}

static void pack_discard(pack_job *job)
{
    gmv_engine *engine = job->operation->engine;
    for (size_t i = 0; job->partitions && i < job->plan.n_partitions; i++) {
        gmv__packed_discard(engine, job->partitions[i].packed);
        if (job->partitions[i].gpu_data.view)
            gmv_result_discard(engine, &job->partitions[i].gpu_data);
        gmv_engine_free(engine, job->partitions[i].memory);
    }
}

/* ---- copying ---- */

static gmv_status pack_take_memory(pack_job *job, size_t partition, gmv_error *err)
{
    const gmv_creation inner = gmv__inner_creation(job->creation);
    gmv_memory **out_memory = &job->partitions[partition].memory;
    /* The copy writes every byte, padding included. */
    GMV_TRY(gmv__result_allocate(job->operation, job->plan.device, job->plan.nbytes[partition],
                                 GMV_CONTENTS_UNSPECIFIED, &inner, out_memory, err));
    gmv_memory *memory = *out_memory;
    job->destinations[partition] = memory->address;
    GMV_TRY(gmv_stream_use(job->stream, memory, err));
    if (memory->capacity == memory->nbytes)
        return GMV_OK;
    /* What the allocator added behind it is cleared here. */
    return gmv_fill(job->stream, memory->address + memory->nbytes, 0,
                    memory->capacity - memory->nbytes, err);
}

static gmv_status pack_start(pack_job *job, size_t first, size_t n, gmv_error *err)
{
    const gmv_pack_plan *plan = &job->plan;
    const gmv_split args = {
        .buffers = plan->buffers,
        .n_buffers = plan->n_buffers,
        .classes = plan->classes,
        .n_classes = plan->n_classes,
        .bounds = plan->bounds,
        .n_levels = plan->n_levels,
        .n_points = plan->n_partitions + 1,
        .destinations = job->destinations,
        .first = first,
        .n = n,
        .set_counts = job->counts ? job->counts->memory->address : 0,
        .n_masks = plan->n_masks,
    };
    for (size_t i = first; i < first + n; i++)
        GMV_TRY(pack_take_memory(job, i, err));
    return plan->n_buffers > 0 ? gmv_kernel_split(job->stream, &args, err) : GMV_OK;
}

/*
 * The copy of the first few partitions is under way as soon as they have got memory, and each start
 * after it has twice as many: by then there is time.
 */
static gmv_status pack_copy(pack_job *job, gmv_error *err)
{
    const size_t n = job->plan.n_partitions;
    size_t together = job->plan.total_nbytes < PACK_START_NBYTES ? n : n / PACK_START_PARTS + 1;
    GMV_TRY(gmv__pack_use(job->stream, &job->plan, err));
    for (size_t first = 0; first < n;) {
        const size_t now = GMV_MIN(together, n - first);
        GMV_TRY(pack_start(job, first, now, err));
        first += now;
        together *= 2;
    }
    return GMV_OK;
}

/* ---- handles ---- */

static gmv_status pack_make_handle(pack_job *job, size_t partition, gmv_error *err)
{
    pack_partition *made = &job->partitions[partition];
    const gmv_creation inner = gmv__inner_creation(job->creation);
    gmv_packed_metadata metadata;
    GMV_TRY(gmv__result_adopt(job->operation, &made->memory, &inner, true, &made->gpu_data, err));
    GMV_TRY(gmv__pack_metadata(&job->plan, partition, &metadata, err));
    const gmv_status status = gmv__packed_prepare(job->operation, &metadata, made->gpu_data.view,
                                                  job->creation, &made->packed, err);
    if (status != GMV_OK)
        gmv_packed_metadata_fini(&metadata);
    return status;
}

/* Room for the counts; the system gives pages when they are written to, which is better done now.
 */
static gmv_status pack_make_counts(pack_job *job, gmv_error *err)
{
    const size_t nbytes = pack_n_counts(&job->plan) * sizeof *job->set_counts;
    if (!job->counts)
        return GMV_OK;
    job->set_counts = gmv_malloc(nbytes);
    if (!job->set_counts)
        return gmv_fail_no_memory(err);
    memset(job->set_counts, 0xff, nbytes);
    return GMV_OK;
}

/* While the device copies. */
static gmv_status pack_make_handles(pack_job *job, gmv_error *err)
{
    for (size_t i = 0; i < job->plan.n_partitions; i++)
        GMV_TRY(pack_make_handle(job, i, err));
    return pack_make_counts(job, err);
}

static gmv_status pack_finish(pack_job *job, gmv_error *err)
{
    const gmv_pack_plan *plan = &job->plan;
    if (job->counts)
        GMV_TRY(gmv_copy_out(job->stream, job->set_counts, job->counts->memory->address,
                             pack_n_counts(plan) * sizeof(uint64_t), err));
    GMV_TRY(gmv_stream_finish(job->stream, err));
    for (size_t i = 0; job->counts && i < plan->n_partitions; i++)
        gmv__pack_count_nulls(plan, job->set_counts + i * plan->n_masks,
                              &job->partitions[i].packed->metadata);
    return GMV_OK;
}

static void pack_publish(pack_job *job)
{
    size_t n = 0;
    for (size_t i = 0; i < job->plan.n_partitions; i++) {
        job->nodes[n++] = &job->partitions[i].gpu_data.buffer->node;
        job->nodes[n++] = &job->partitions[i].gpu_data.view->node;
        job->nodes[n++] = &job->partitions[i].packed->node;
    }
    gmv_operation_publish(job->operation, job->nodes, n);
}

static gmv_status pack_run(pack_job *job, gmv_error *err)
{
    const size_t n_nodes = job->plan.n_partitions * PACK_NODES_PER_PARTITION;
    GMV_TRY(gmv_operation_weigh(job->operation, job->plan.total_nbytes, err));
    GMV_TRY(gmv__weigh_nodes(job->operation, n_nodes));
    GMV_TRY(gmv_operation_reserve(job->operation, n_nodes, err));
    GMV_TRY(pack_allocate(job, err));
    GMV_TRY(pack_copy(job, err));
    GMV_TRY(pack_make_handles(job, err));
    return pack_finish(job, err);
}

/* Makes all handles, held by the operation, and lists them in out_packed. */
static gmv_status pack_table(gmv_operation *operation, const gmv_table *table,
                             const int64_t *splits, size_t n_splits, const gmv_creation *creation,
                             gmv_packed **out_packed, gmv_error *err)
{
    pack_job job = {.operation = operation, .creation = creation};
    GMV_TRY(gmv__pack_plan_init(&job.plan, operation, table, splits, n_splits, err));
    job.stream = gmv_operation_stream(operation, job.plan.device);
    const gmv_status status = pack_run(&job, err);
    if (status == GMV_OK) {
        pack_publish(&job);
        for (size_t i = 0; i < job.plan.n_partitions; i++)
            out_packed[i] = job.partitions[i].packed;
    } else {
        gmv_stream_abandon(job.stream); /* before the memory goes */
        pack_discard(&job);
    }
    pack_free(&job);
    return status;
}

/* ---- the calls ---- */

gmv_status gmv_packed_size(gmv_operation *operation, gmv_table *table, int64_t *out_nbytes,
                           gmv_error *err)
{
    gmv_pack_plan plan;
    GMV_TRY(gmv__pack_plan_init(&plan, operation, table, NULL, 0, err));
    *out_nbytes = (int64_t)plan.total_nbytes;
    gmv__pack_plan_fini(&plan);
    return GMV_OK;
}

gmv_status gmv_pack(gmv_operation *operation, gmv_table *table, const gmv_creation *creation,
                    gmv_packed **out_packed, gmv_error *err)
{
    return pack_table(operation, table, NULL, 0, creation, out_packed, err);
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

    gmv_packed **packed = gmv_calloc(n_splits + 1, sizeof(gmv_packed *));
    if (!packed)
        return gmv_fail_no_memory(err);
    const gmv_status status = pack_table(operation, table, splits, n_splits, creation, packed, err);
    if (status != GMV_OK) {
        gmv_free(packed);
        return status;
    }
    *out_packed = packed;
    *out_n = n_splits + 1;
    return GMV_OK;
}
