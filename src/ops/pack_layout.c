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

/* Of each buffer of a class, with its padding. A buffer lies in memory, so this is below 2^63. */
static uint64_t layout_capacity(const gmv_pack_plan *plan, size_t class_index, size_t partition)
{
    const gmv_split_class *class = &plan->classes[class_index];
    return gmv_split_capacity(class->kind, class->width,
                              layout_rows(plan, class->level, partition));
}

/* ---- sizes ---- */

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

/* ---- pieces ---- */

gmv_copy_piece gmv__pack_piece(const gmv_pack_plan *plan, size_t partition, size_t buffer,
                               uint64_t destination)
{
    const gmv_split_buffer *planned = &plan->buffers[buffer];
    const int64_t *bounds = gmv__pack_bounds(plan, planned->level, partition);
    gmv_copy_piece piece = {
        .nbytes = gmv_split_nbytes(planned->kind, planned->width, bounds[1] - bounds[0]),
        .destination = destination,
        .capacity = layout_capacity(plan, plan->class_of[buffer], partition),
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

/* ---- metadata ---- */

/* Where a partition's next buffer lies, and what buffers of each class take. */
typedef struct layout_cursor {
    uint64_t offset;
    uint64_t *capacities;
} layout_cursor;

static gmv_status cursor_init(layout_cursor *cursor, const gmv_pack_plan *plan, size_t partition,
                              gmv_error *err)
{
    *cursor = (layout_cursor){.capacities = gmv_malloc(plan->n_classes * sizeof(uint64_t))};
    if (!cursor->capacities)
        return gmv_fail_no_memory(err);
    for (size_t i = 0; i < plan->n_classes; i++)
        cursor->capacities[i] = layout_capacity(plan, i, partition);
    return GMV_OK;
}

/* The place of a node's buffer; -1 for none, or for a node without rows. */
static int64_t cursor_take(layout_cursor *cursor, const gmv_pack_plan *plan, uint32_t buffer,
                           int64_t rows)
{
    if (buffer == GMV_PACK_NO_BUFFER || rows == 0)
        return -1;
    const int64_t place = (int64_t)cursor->offset;
    cursor->offset += cursor->capacities[plan->class_of[buffer]];
    return place;
}

static void layout_entries(const gmv_pack_plan *plan, size_t partition, layout_cursor *cursor,
                           gmv_packed_entry *entries)
{
    for (size_t i = 0; i < plan->n_nodes; i++) {
        const gmv_pack_node *node = &plan->nodes[i];
        const int64_t rows = layout_rows(plan, node->level, partition);
        const int64_t mask = cursor_take(cursor, plan, node->validity, rows);
        entries[i] = (gmv_packed_entry){
            .type_id = node->type.id,
            .scale = node->type.scale,
            .size = (int32_t)(rows + (node->is_offsets && rows > 0)),
            .data_offset = cursor_take(cursor, plan, node->data, rows),
            .null_mask_offset = mask,
            .num_children = node->num_children,
        };
    }
}

gmv_status gmv__pack_metadata(const gmv_pack_plan *plan, size_t partition,
                              gmv_packed_metadata *out_metadata, gmv_error *err)
{
    layout_cursor cursor;
    gmv_packed_metadata metadata = {
        .version = GMV_PACKED_VERSION,
        .num_columns = (int32_t)plan->table->n_columns,
        .num_rows = (int32_t)layout_rows(plan, 0, partition),
        .n_entries = plan->n_nodes,
    };
    if (plan->n_nodes > 0) {
        metadata.entries = gmv_malloc(plan->n_nodes * sizeof *metadata.entries);
        if (!metadata.entries)
            return gmv_fail_no_memory(err);
    }
    const gmv_status status = cursor_init(&cursor, plan, partition, err);
    if (status != GMV_OK) {
        gmv_free(metadata.entries);
        return status;
    }
    layout_entries(plan, partition, &cursor, metadata.entries);
    gmv_free(cursor.capacities);
    *out_metadata = metadata;
    return GMV_OK;
}

void gmv__pack_count_nulls(const gmv_pack_plan *plan, const uint64_t *set_counts,
                           gmv_packed_metadata *metadata)
{
    for (size_t i = 0; i < plan->n_masks; i++) {
        gmv_packed_entry *entry = &metadata->entries[plan->masked[i]];
        const int64_t ones = (int64_t)GMV_MIN(set_counts[i], (uint64_t)entry->size);
        entry->null_count = (int32_t)(entry->size - ones);
    }
}
