/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packing in four steps, each over all partitions at once: plan (which rows of which buffers, depth
 * first), layout (where each goes in its partition's gpu_data), copy (one call of the device), and
 * metadata (null counts as they were copied).
 */
#ifndef GMV_OPS_PACKED_PRIV_H
#define GMV_OPS_PACKED_PRIV_H

#include <gmv/ops/packed.h>

/* One buffer of one partition: rows of a column's null mask or data. */
typedef struct gmv_pack_buffer {
    const gmv_column *column;
    bool is_validity;
    size_t entry;  /* of its column among its partition's entries */
    int64_t first; /* bit or element of the column's own buffers that comes first */
    int64_t rows;
    uint64_t nbytes;   /* content */
    uint64_t capacity; /* content and padding */
    uint64_t offset;   /* from the start of gpu_data */
    int64_t set_count; /* validity: ones, once copied */
} gmv_pack_buffer;

/* What becomes one packed handle. */
typedef struct gmv_pack_partition {
    gmv_packed_metadata metadata; /* moves into the handle */
    size_t first_buffer;          /* among the plan's */
    size_t n_buffers;
    uint64_t nbytes; /* of gpu_data */
    gmv_result gpu_data;
    gmv_packed *packed;
} gmv_pack_partition;

typedef struct gmv_pack_plan {
    gmv_pack_partition *partitions;
    size_t n_partitions;
    gmv_pack_buffer *buffers;
    size_t n_buffers;
    uint64_t nbytes; /* of all gpu_data together */
} gmv_pack_plan;

/*
 * Plans and lays out the partitions [0, splits[0]), [splits[0], splits[1]), ... of a table. The
 * splits have been checked.
 *
 * @retval GMV_ERR_DTYPE_UNSUPPORTED  a column that cannot be packed
 * @retval GMV_ERR_QUOTA_EXCEEDED     more partitions times columns than one call may make
 * Freed by gmv__pack_plan_fini, which leaves handles and results alone.
 */
GMV_NODISCARD gmv_status gmv__pack_plan_init(gmv_pack_plan *plan, const gmv_table *table,
                                             const int64_t *splits, size_t n_splits,
                                             gmv_error *err);
void gmv__pack_plan_fini(gmv_pack_plan *plan);

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
