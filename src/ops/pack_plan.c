/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What goes where in packed tables: cuDF's order of buffers (validity, then data, column by column,
 * depth first), each at a multiple of 64 bytes. Pure: touches no device.
 */
#include <gmv/base/alloc.h>
#include <gmv/base/num.h>

#include "ops/column_priv.h"
#include "ops/packed_priv.h"

/*
 * Host memory that one call may take: partitions times columns, a partition itself counting as
 * four. A short list of splits over many columns would otherwise ask for more memory than the
 * machine has.
 */
#define PACK_ENTRIES_MAX       (1u << 20)
#define PACK_PARTITION_ENTRIES 4

/*
 * Sizes cannot overflow: a buffer has less than 2^31 rows of at most 16 bytes, and there are at
 * most two buffers to each of 2^20 entries, which is below 2^57 bytes together.
 */

static gmv_status plan_check(const gmv_table *table, size_t n_splits, gmv_error *err)
{
    for (uint32_t i = 0; i < table->n_columns; i++) {
        const int32_t type = table->columns[i]->type.id;
        if (!gmv_cudf_type_is_fixed_width(type))
            return gmv_fail(
                err, GMV_ERR_DTYPE_UNSUPPORTED, NULL,
                "column %u is of type %s, which cannot be packed; only fixed-width types can", i,
                gmv_cudf_type_name(type) ? gmv_cudf_type_name(type) : "unknown");
    }
    const uint64_t per_partition = (uint64_t)table->n_columns + PACK_PARTITION_ENTRIES;
    if (n_splits >= PACK_ENTRIES_MAX || (n_splits + 1) * per_partition > PACK_ENTRIES_MAX)
        return gmv_fail(err, GMV_ERR_QUOTA_EXCEEDED, n_splits > 0 ? "/splits" : NULL,
                        "%zu splits of %u columns are too many for one call: partitions times "
                        "(columns + %d) may be %u; split in several calls",
                        n_splits, table->n_columns, PACK_PARTITION_ENTRIES, PACK_ENTRIES_MAX);
    return GMV_OK;
}

/* Buffers of a column in a partition that has rows. */
static size_t plan_count_buffers(const gmv_column *column)
{
    return 1 + (gmv_column_is_nullable(column) ? 1 : 0);
}

static gmv_status plan_allocate(gmv_pack_plan *plan, const gmv_table *table, size_t n_splits,
                                gmv_error *err)
{
    const size_t n_entries = table->n_columns;
    size_t n_buffers = 0;
    for (size_t i = 0; i < n_entries; i++)
        n_buffers += plan_count_buffers(table->columns[i]);
    plan->partitions = gmv_calloc(n_splits + 1, sizeof *plan->partitions);
    if (!plan->partitions)
        return gmv_fail_no_memory(err);
    plan->n_partitions = n_splits + 1;
    if (n_buffers > 0 && table->num_rows > 0) {
        plan->buffers = gmv_calloc(plan->n_partitions * n_buffers, sizeof *plan->buffers);
        if (!plan->buffers)
            return gmv_fail_no_memory(err);
    }
    for (size_t i = 0; n_entries > 0 && i < plan->n_partitions; i++) {
        gmv_packed_metadata *metadata = &plan->partitions[i].metadata;
        metadata->entries = gmv_calloc(n_entries, sizeof *metadata->entries);
        if (!metadata->entries)
            return gmv_fail_no_memory(err);
    }
    return GMV_OK;
}

static void plan_buffer(gmv_pack_plan *plan, gmv_pack_partition *partition,
                        const gmv_column *column, int64_t first, int64_t rows, bool is_validity)
{
    const uint64_t width = gmv_cudf_type_width(column->type.id);
    plan->buffers[plan->n_buffers++] = (gmv_pack_buffer){
        .column = column,
        .is_validity = is_validity,
        .entry = partition->metadata.n_entries - 1,
        .first = first,
        .rows = rows,
        /* cuDF moves validity in words of 32 bits. */
        .nbytes = is_validity ? (uint64_t)gmv_bitmask_words(rows) * 4 : (uint64_t)rows * width,
    };
    partition->n_buffers++;
}

/*
 * Appends a column's entry and buffers: rows [first, first + rows) of its own. Depth first:
 * children, once there are types that have some, follow here.
 */
static void plan_column(gmv_pack_plan *plan, gmv_pack_partition *partition,
                        const gmv_column *column, int64_t first, int64_t rows)
{
    partition->metadata.entries[partition->metadata.n_entries++] = (gmv_packed_entry){
        .type_id = column->type.id,
        .scale = column->type.scale,
        .size = (int32_t)rows,
        .data_offset = -1,
        .null_mask_offset = -1,
        .num_children = (int32_t)column->n_children,
    };
    if (rows == 0)
        return; /* without rows there is no mask either */
    if (gmv_column_is_nullable(column))
        plan_buffer(plan, partition, column, first, rows, true);
    plan_buffer(plan, partition, column, first, rows, false);
}

static void plan_partition(gmv_pack_plan *plan, gmv_pack_partition *partition,
                           const gmv_table *table, int64_t begin, int64_t end)
{
    partition->metadata.version = GMV_PACKED_VERSION;
    partition->metadata.num_columns = (int32_t)table->n_columns;
    partition->metadata.num_rows = (int32_t)(end - begin);
    partition->first_buffer = plan->n_buffers;
    for (uint32_t i = 0; i < table->n_columns; i++) {
        const gmv_column *column = table->columns[i];
        plan_column(plan, partition, column, column->offset + begin, end - begin);
    }
}

static void plan_lay_out(gmv_pack_plan *plan, gmv_pack_partition *partition)
{
    for (size_t i = 0; i < partition->n_buffers; i++) {
        gmv_pack_buffer *buffer = &plan->buffers[partition->first_buffer + i];
        gmv_packed_entry *entry = &partition->metadata.entries[buffer->entry];
        buffer->offset = partition->nbytes;
        buffer->capacity = gmv_round_up(buffer->nbytes, GMV_PACKED_ALIGNMENT);
        partition->nbytes += buffer->capacity;
        if (buffer->is_validity)
            entry->null_mask_offset = (int64_t)buffer->offset;
        else
            entry->data_offset = (int64_t)buffer->offset;
    }
    plan->nbytes += partition->nbytes;
}

gmv_status gmv__pack_plan_init(gmv_pack_plan *plan, const gmv_table *table, const int64_t *splits,
                               size_t n_splits, gmv_error *err)
{
    *plan = (gmv_pack_plan){0};
    GMV_TRY(plan_check(table, n_splits, err));
    const gmv_status status = plan_allocate(plan, table, n_splits, err);
    if (status != GMV_OK) {
        gmv__pack_plan_fini(plan);
        return status;
    }
    for (size_t i = 0; i < plan->n_partitions; i++) {
        const int64_t begin = i > 0 ? splits[i - 1] : 0;
        const int64_t end = i < n_splits ? splits[i] : table->num_rows;
        plan_partition(plan, &plan->partitions[i], table, begin, end);
        plan_lay_out(plan, &plan->partitions[i]);
    }
    return GMV_OK;
}

void gmv__pack_plan_fini(gmv_pack_plan *plan)
{
    for (size_t i = 0; i < plan->n_partitions; i++)
        gmv_packed_metadata_fini(&plan->partitions[i].metadata);
    gmv_free(plan->partitions);
    gmv_free(plan->buffers);
    *plan = (gmv_pack_plan){0};
}
