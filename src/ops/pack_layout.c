/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the buffers of a planned partition lie, and its metadata. Pure arithmetic on the plan and
 * its bounds, in the order in which the device lays the same buffers out.
 */
#include <gmv/base/alloc.h>
#include <gmv/base/num.h>

#include "ops/packed_priv.h"

#define PACK_NBYTES_MAX ((uint64_t)INT64_MAX)

_Static_assert(GMV_SPLIT_ALIGNMENT == GMV_PACKED_ALIGNMENT, "one alignment");
_Static_assert(GMV_SPLIT_DEPTH_MAX >= GMV_COLUMN_DEPTH_MAX, "the device goes as deep");

static int64_t layout_rows(const gmv_pack_plan *plan, uint32_t level, size_t partition)
{
    const int64_t *bounds = gmv__pack_bounds(plan, level, partition);
    return bounds[1] - bounds[0];
}

/* Of a buffer with its padding. A buffer lies in memory, so this is below 2^63. */
static uint64_t layout_capacity(const gmv_pack_plan *plan, size_t buffer, size_t partition)
{
    const gmv_split_buffer *planned = &plan->buffers[buffer];
    const int64_t rows = layout_rows(plan, planned->level, partition);
    return gmv_split_capacity(planned->kind, planned->width, rows);
}

/* ---- sizes -------------------------------------------------------------------------------- */

/* Memory that is counted many times may come to more than there are numbers for: then the most. */
static uint64_t layout_add(uint64_t total, uint64_t nbytes, uint64_t count)
{
    uint64_t product;
    if (!gmv_mul_checked(nbytes, count, &product) || product > PACK_NBYTES_MAX - total)
        return PACK_NBYTES_MAX;
    return total + product;
}

static uint64_t layout_nbytes(const gmv_pack_plan *plan, size_t partition)
{
    uint64_t nbytes = 0;
    for (size_t i = 0; i < plan->n_classes; i++) {
        const gmv_split_class *class = &plan->classes[i];
        const int64_t rows = layout_rows(plan, class->level, partition);
        nbytes =
            layout_add(nbytes, gmv_split_capacity(class->kind, class->width, rows), class->count);
    }
    return nbytes;
}

gmv_status gmv__pack_measure(gmv_pack_plan *plan, gmv_error *err)
{
    for (size_t p = 0; p < plan->n_partitions; p++) {
        plan->nbytes[p] = layout_nbytes(plan, p);
        plan->total_nbytes = layout_add(plan->total_nbytes, plan->nbytes[p], 1);
    }
    if (plan->total_nbytes == PACK_NBYTES_MAX)
        return gmv_fail(err, GMV_ERR_QUOTA_EXCEEDED, NULL,
                        "the packed table would have more bytes than there are");
    return GMV_OK;
}

/* ---- pieces ------------------------------------------------------------------------------- */

gmv_copy_piece gmv__pack_piece(const gmv_pack_plan *plan, size_t partition, size_t buffer,
                               uint64_t destination)
{
    const gmv_split_buffer *planned = &plan->buffers[buffer];
    const int64_t *bounds = gmv__pack_bounds(plan, planned->level, partition);
    gmv_copy_piece piece = {
        .nbytes = gmv_split_nbytes(planned->kind, planned->width, bounds[1] - bounds[0]),
        .destination = destination,
        .capacity = layout_capacity(plan, buffer, partition),
    };
    if (planned->kind == GMV_SPLIT_BITS) {
        piece.is_bits = true;
        piece.bits = (gmv_bits){planned->address, planned->first + bounds[0]};
        piece.n = bounds[1] - bounds[0];
        return piece;
    }
    piece.source = planned->address + (uint64_t)bounds[0] * planned->width;
    if (planned->kind == GMV_SPLIT_OFFSETS) {
        const int64_t *below = gmv__pack_bounds(plan, planned->below, partition);
        piece.offset_width = planned->width;
        piece.base = below[0];
        piece.end = below[1];
    }
    return piece;
}

/* ---- metadata ----------------------------------------------------------------------------- */

/* The place of a node's buffer, and the place after it; -1 for a node without rows. */
static int64_t layout_place(const gmv_pack_plan *plan, uint32_t buffer, size_t partition,
                            int64_t rows, uint64_t *offset)
{
    if (buffer == GMV_PACK_NO_BUFFER || rows == 0)
        return -1;
    const int64_t place = (int64_t)*offset;
    *offset += layout_capacity(plan, buffer, partition);
    return place;
}

static gmv_packed_entry layout_entry(const gmv_pack_plan *plan, const gmv_pack_node *node,
                                     size_t partition, uint64_t *offset)
{
    const int64_t rows = layout_rows(plan, node->level, partition);
    gmv_packed_entry entry = {
        .type_id = node->type.id,
        .scale = node->type.scale,
        .size = (int32_t)(rows + (node->is_offsets && rows > 0)),
        .num_children = node->num_children,
    };
    entry.null_mask_offset = layout_place(plan, node->validity, partition, rows, offset);
    entry.data_offset = layout_place(plan, node->data, partition, rows, offset);
    return entry;
}

gmv_status gmv__pack_metadata(const gmv_pack_plan *plan, size_t partition,
                              gmv_packed_metadata *out_metadata, gmv_error *err)
{
    gmv_packed_metadata metadata = {
        .version = GMV_PACKED_VERSION,
        .num_columns = (int32_t)plan->table->n_columns,
        .num_rows = (int32_t)layout_rows(plan, 0, partition),
        .n_entries = plan->n_nodes,
    };
    uint64_t offset = 0;
    if (plan->n_nodes > 0) {
        metadata.entries = gmv_malloc(plan->n_nodes * sizeof *metadata.entries);
        if (!metadata.entries)
            return gmv_fail_no_memory(err);
    }
    for (size_t i = 0; i < plan->n_nodes; i++)
        metadata.entries[i] = layout_entry(plan, &plan->nodes[i], partition, &offset);
    *out_metadata = metadata;
    return GMV_OK;
}

void gmv__pack_count_nulls(const gmv_pack_plan *plan, const uint64_t *set_counts,
                           gmv_packed_metadata *metadata)
{
    for (size_t i = 0; i < plan->n_nodes; i++) {
        const gmv_pack_node *node = &plan->nodes[i];
        gmv_packed_entry *entry = &metadata->entries[i];
        if (node->validity == GMV_PACK_NO_BUFFER)
            continue;
        const uint64_t ones = set_counts[plan->buffers[node->validity].below];
        entry->null_count = (int32_t)(entry->size - (int64_t)GMV_MIN(ones, (uint64_t)entry->size));
    }
}
