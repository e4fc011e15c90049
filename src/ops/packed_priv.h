/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packing. The plan describes the columns of a table once for all partitions: the entries of the
 * metadata and the buffers of gpu_data, depth first, and the levels of rows that are cut together.
 * The device says where the partitions begin in nested rows; from then on layout and metadata are
 * arithmetic, and the copy is the device's.
 */
#ifndef GMV_OPS_PACKED_PRIV_H
#define GMV_OPS_PACKED_PRIV_H

#include <gmv/device/split.h>
#include <gmv/ops/packed.h>

#define GMV_PACK_NO_BUFFER UINT32_MAX

/* A column of the tree: one entry of every partition's metadata. */
typedef struct gmv_pack_node {
    const gmv_column *column;
    gmv_cudf_type type;
    int32_t num_children;
    uint32_t level;    /* whose rows it has */
    uint32_t validity; /* among the plan's buffers, or GMV_PACK_NO_BUFFER */
    uint32_t data;     /* likewise; the characters of a string */
    bool is_offsets;   /* one row more than its level, if that has any */
} gmv_pack_node;

typedef struct gmv_pack_plan {
    const gmv_table *table;
    gmv_device *device;
    gmv_pack_node *nodes;
    size_t n_nodes;
    gmv_split_level *levels;
    size_t n_levels;
    gmv_split_buffer *buffers;
    size_t n_buffers;
    gmv_split_class *classes; /* of all buffers */
    size_t n_classes;
    uint32_t *class_of; /* which of them a buffer is of */
    uint32_t *masked;   /* the node of each mask, a mask being what `below` of its buffer says */
    size_t n_masks;
    size_t n_partitions;
    int64_t *bounds;  /* [n_levels][n_partitions + 1], sorted */
    uint64_t *nbytes; /* of each partition's gpu_data */
    uint64_t total_nbytes;
} gmv_pack_plan;

/*
 * Plans the partitions [0, splits[0]), [splits[0], splits[1]), ... of a table. The splits have been
 * checked. Waits for the device if there are strings or lists.
 *
 * @retval GMV_ERR_DTYPE_UNSUPPORTED  EMPTY or DICTIONARY32 with rows
 * @retval GMV_ERR_VALUE              children that do not fit their column
 * @retval GMV_ERR_VALUE              more splits times columns than one call may make
 * @retval GMV_ERR_QUOTA_EXCEEDED     more bytes than one call may make
 * Freed by gmv__pack_plan_fini, which leaves handles and results alone.
 */
GMV_NODISCARD gmv_status gmv__pack_plan_init(gmv_pack_plan *plan, gmv_operation *operation,
                                             const gmv_table *table, const int64_t *splits,
                                             size_t n_splits, gmv_error *err);
void gmv__pack_plan_fini(gmv_pack_plan *plan);

/* Sizes of all partitions, once the bounds are known. */
GMV_NODISCARD gmv_status gmv__pack_measure(gmv_pack_plan *plan, gmv_error *err);

/* Announces all memory of the table. */
GMV_NODISCARD gmv_status gmv__pack_use(gmv_stream *stream, const gmv_pack_plan *plan,
                                       gmv_error *err);

/* The rows of a level that a partition takes: from *bounds to bounds[1]. */
static inline const int64_t *gmv__pack_bounds(const gmv_pack_plan *plan, uint32_t level,
                                              size_t partition)
{
    return plan->bounds + level * (plan->n_partitions + 1) + partition;
}

/*
 * The copy of one buffer of one partition; `destination` is where the buffer goes to, its `nbytes`
 * are set for validity, too. The next buffer follows after piece.capacity bytes.
 */
gmv_copy_piece gmv__pack_piece(const gmv_pack_plan *plan, size_t partition, size_t buffer,
                               uint64_t destination);

/* A partition's metadata with null counts of 0. Freed by gmv_packed_metadata_fini. */
GMV_NODISCARD gmv_status gmv__pack_metadata(const gmv_pack_plan *plan, size_t partition,
                                            gmv_packed_metadata *out_metadata, gmv_error *err);

/* Sets the null counts from the ones in each of the plan's n_masks masks. */
void gmv__pack_count_nulls(const gmv_pack_plan *plan, const uint64_t *set_counts,
                           gmv_packed_metadata *metadata);

/*
 * Making handles takes time, too: a few microseconds each. What makes more than this many would
 * keep the short lane as long as a copy that is too big for it.
 */
#define GMV_SHORT_NODES_MAX 1024u

static inline gmv_status gmv__weigh_nodes(const gmv_operation *operation, size_t n_nodes)
{
    const bool is_too_many = n_nodes > GMV_SHORT_NODES_MAX && operation->lane != GMV_LANE_BULK;
    return is_too_many ? GMV_MOVE_TO_BULK : GMV_OK;
}

/* Prepares a packed handle, which takes `metadata` over on success. */
GMV_NODISCARD gmv_status gmv__packed_prepare(gmv_operation *operation,
                                             gmv_packed_metadata *metadata, gmv_view *gpu_data,
                                             const gmv_creation *creation, gmv_packed **out_packed,
                                             gmv_error *err);
void gmv__packed_discard(gmv_engine *engine, gmv_packed *packed);

#endif
