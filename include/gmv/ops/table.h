/* SPDX-License-Identifier: Apache-2.0 */
/* Tables: columns of equal length, or a number of rows without columns. */
#ifndef GMV_OPS_TABLE_H
#define GMV_OPS_TABLE_H

#include <gmv/ops/column.h>

GMV_BEGIN_DECLS

typedef struct gmv_table {
    gmv_node node;
    int32_t num_rows;
    uint32_t n_columns;
    gmv_column *columns[]; /* owners, repeats allowed */
} gmv_table;

static inline gmv_table *gmv_table_of(gmv_node *node)
{
    return (gmv_table *)node;
}

/* What can be said without the columns. Pointer "/num_rows". */
GMV_NODISCARD gmv_status gmv_table_check_rows(bool has_num_rows, int64_t num_rows, gmv_error *err);

/*
 * `num_rows` is needed only without columns (0 if not given) and must agree with them otherwise.
 * @retval GMV_ERR_VALUE  lengths differ ("/columns/N"), num_rows disagrees or is out of range
 * ("/num_rows"), two devices
 */
GMV_NODISCARD gmv_status gmv_table_create(gmv_operation *operation, gmv_column *const *columns,
                                          size_t n_columns, bool has_num_rows, int64_t num_rows,
                                          const gmv_creation *creation, gmv_table **out_table,
                                          gmv_error *err);

/* Prepares (does not publish). For ops. */
GMV_NODISCARD gmv_status gmv_table_prepare(gmv_operation *operation, gmv_column *const *columns,
                                           size_t n_columns, int32_t num_rows,
                                           const gmv_creation *creation, bool inner,
                                           gmv_table **out_table, gmv_error *err);

/* Undoes gmv_table_prepare; the columns are left. NULL: nothing. */
void gmv_table_discard(gmv_engine *engine, gmv_table *table);

GMV_END_DECLS

#endif
