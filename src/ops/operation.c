/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One operation: what it holds, and the draft of what it makes. A draft is either published whole
 * or undone whole, so no op needs a clean-up path of its own.
 */
#include <string.h>

#include <gmv/base/alloc.h>
#include <gmv/ops/operation.h>

#include "ops/draft_priv.h"

static void operation_hold_inline(gmv_operation *operation)
{
    operation->held = operation->held_inline;
    operation->made = operation->made_inline;
    operation->held_capacity = GMV_OPERATION_HELD_INLINE;
}

void gmv_operation_begin(gmv_operation *operation, gmv_engine *engine, const gmv_caller *caller,
                         gmv_lane lane, gmv_stream *const *streams)
{
    operation->engine = engine;
    operation->caller = *caller;
    operation->lane = lane;
    operation->ttl_seconds = 0;
    operation->unheard = NULL;
    operation->streams = streams;
    operation_hold_inline(operation);
    operation->n_held = 0;
    atomic_fetch_add_explicit(&engine->operations_in_flight, 1, memory_order_relaxed);
}

/* Newest first: what was made goes before what it was made from, so each dies as early as it can.
 */
void gmv_operation_end(gmv_operation *operation)
{
    gmv_engine *engine = operation->engine;
    if (operation->streams)
        for (size_t i = 0; i < engine->n_devices; i++)
            gmv_stream_abandon(operation->streams[i]);
    while (operation->n_held > 0)
        gmv_registry_release(engine->registry, operation->held[--operation->n_held],
                             operation->lane != GMV_LANE_INLINE);
    if (operation->held != operation->held_inline)
        gmv_free(operation->held);
    operation_hold_inline(operation);
    atomic_fetch_sub_explicit(&engine->operations_in_flight, 1, memory_order_relaxed);
}

gmv_status gmv_operation_reserve(gmv_operation *operation, size_t n, gmv_error *err)
{
    size_t needed = operation->n_held + n;
    if (needed <= operation->held_capacity)
        return GMV_OK;
    size_t capacity = operation->held_capacity;
    while (capacity < needed)
        capacity *= 2;

    /* One block: the nodes, then whether they were made. */
    gmv_node **held = gmv_malloc(capacity * (sizeof(gmv_node *) + sizeof(bool)));
    if (!held)
        return gmv_fail_no_memory(err);
    bool *made = (bool *)(held + capacity);
    memcpy(held, operation->held, operation->n_held * sizeof(gmv_node *));
    memcpy(made, operation->made, operation->n_held * sizeof(bool));
    if (operation->held != operation->held_inline)
        gmv_free(operation->held);
    operation->held = held;
    operation->made = made;
    operation->held_capacity = capacity;
    return GMV_OK;
}

void gmv_operation_adopt(gmv_operation *operation, gmv_node *node)
{
    operation->made[operation->n_held] = false;
    operation->held[operation->n_held++] = node;
}

gmv_status gmv_operation_get(gmv_operation *operation, const gmv_id *id, gmv_kind kind,
                             const char *pointer, gmv_node **out_node, gmv_error *err)
{
    gmv_node *node = NULL;
    GMV_TRY(gmv_operation_reserve(operation, 1, err));
    GMV_TRY(gmv_registry_get(operation->engine->registry, &operation->caller, id, kind, pointer,
                             &node, err));
    gmv_operation_adopt(operation, node);
    *out_node = node;
    return GMV_OK;
}

void gmv_operation_publish(gmv_operation *operation, gmv_node *const *nodes, size_t n_nodes)
{
    gmv_registry_publish(operation->engine->registry, nodes, n_nodes);
    for (size_t i = 0; i < n_nodes; i++) {
        gmv_operation_adopt(operation, nodes[i]);
        operation->made[operation->n_held - 1] = true;
    }
}

void gmv_operation_unmake(gmv_operation *operation)
{
    gmv_deletion deletion;
    for (size_t i = operation->n_held; i > 0; i--) {
        gmv_node *node = operation->held[i - 1];
        /* Inner ones have no name, and others may have taken one already: both are well. */
        if (operation->made[i - 1])
            (void)!gmv_registry_delete(operation->engine->registry, &operation->caller, &node->id,
                                       node->id.kind, GMV_IF_HELD_KEEP, &deletion, NULL);
    }
}

gmv_status gmv_operation_weigh(gmv_operation *operation, uint64_t nbytes, gmv_error *err)
{
    uint64_t limit = operation->engine->limits.max_logical_nbytes;
    if (nbytes > limit)
        return gmv_fail(
            err, GMV_ERR_QUOTA_EXCEEDED, NULL,
            "the work would pass over %llu bytes, max_logical_nbytes is %llu; take it in parts",
            (unsigned long long)nbytes, (unsigned long long)limit);
    if (nbytes > GMV_BULK_NBYTES && operation->lane != GMV_LANE_BULK)
        return GMV_MOVE_TO_BULK;
    return GMV_OK;
}

gmv_status gmv_operation_check(const gmv_operation *operation, gmv_error *err)
{
    if (!operation->unheard || !atomic_load_explicit(operation->unheard, memory_order_relaxed))
        return GMV_OK;
    return gmv_fail(err, GMV_ERR_DRAINING, NULL, "nobody waits for the outcome any more");
}

gmv_stream *gmv_operation_stream(gmv_operation *operation, const gmv_device *device)
{
    return operation->streams[gmv_engine_device_index(operation->engine, device)];
}

gmv_node_attributes gmv_operation_attributes(const gmv_operation *operation,
                                             const gmv_creation *creation, bool inner)
{
    bool labelled = creation && creation->label && !inner;
    return (gmv_node_attributes){
        .caller = &operation->caller,
        .label = labelled ? creation->label : NULL,
        .label_length = labelled ? creation->label_length : 0,
        .inner = inner,
        .ttl_seconds = inner ? 0 : operation->ttl_seconds,
    };
}

/* ---- drafts ---- */

gmv_status gmv__draft_begin(gmv_draft *draft, gmv_operation *operation, gmv_device *device,
                            gmv_error *err)
{
    return gmv__draft_begin_large(draft, operation, device, draft->own_nodes, GMV_DRAFT_NODES_MAX,
                                  err);
}

gmv_status gmv__draft_begin_large(gmv_draft *draft, gmv_operation *operation, gmv_device *device,
                                  gmv_node **nodes, size_t n, gmv_error *err)
{
    draft->operation = operation;
    draft->device = device;
    draft->stream = device ? gmv_operation_stream(operation, device) : NULL;
    draft->nodes = nodes;
    draft->n_nodes = 0;
    draft->n_scratch = 0;
    draft->n_layouts = 0;
    return gmv_operation_reserve(operation, n, err);
}

void gmv__draft_add(gmv_draft *draft, gmv_node *node)
{
    draft->nodes[draft->n_nodes++] = node;
}

gmv_status gmv__draft_scratch(gmv_draft *draft, uint64_t nbytes, gmv_memory **out_memory,
                              gmv_error *err)
{
    gmv_memory *memory = NULL;
    GMV_TRY(gmv_engine_allocate(draft->operation->engine, draft->device, draft->stream,
                                GMV_MEMORY_ORDINARY, GMV_CONTENTS_UNSPECIFIED, nbytes, &memory,
                                err));
    draft->scratch[draft->n_scratch++] = memory;
    *out_memory = memory;
    return gmv_stream_use(draft->stream, memory, err);
}

/* Newest first, since a node may only be undone while what it refers to still stands. */
static void draft_discard_nodes(gmv_draft *draft)
{
    gmv_engine *engine = draft->operation->engine;
    while (draft->n_nodes > 0) {
        gmv_node *node = draft->nodes[--draft->n_nodes];
        if (node->node_class->kind == GMV_KIND_COLUMN)
            gmv_column_discard(engine, gmv_column_of(node));
        else if (node->node_class->kind == GMV_KIND_VIEW)
            gmv_view_discard(engine, gmv_view_of(node));
        else
            gmv_buffer_discard(gmv_buffer_of(node));
    }
}

gmv_status gmv__draft_end(gmv_draft *draft, gmv_status status, gmv_error *err)
{
    if (draft->stream && status == GMV_OK)
        status = gmv_stream_finish(draft->stream, err);
    else if (draft->stream)
        gmv_stream_abandon(draft->stream);

    while (draft->n_scratch > 0)
        gmv_engine_free(draft->operation->engine, draft->scratch[--draft->n_scratch]);
    if (status == GMV_OK)
        gmv_operation_publish(draft->operation, draft->nodes, draft->n_nodes);
    else
        draft_discard_nodes(draft);
    return status;
}
