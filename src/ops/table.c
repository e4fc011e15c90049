/* SPDX-License-Identifier: Apache-2.0 */
/* Tables. All columns of a table have its number of rows and lie on one device. */
#include <stdio.h>

#include <gmv/base/alloc.h>
#include <gmv/base/num.h>
#include <gmv/ops/table.h>

static void table_destroy(gmv_node *node)
{
    gmv_free(gmv_table_of(node));
}

static uint64_t table_nbytes(const gmv_node *node)
{
    const gmv_table *table = (const gmv_table *)node;
    int64_t nbytes = 0; /* columns that share much may say more than answers can hold */
    for (uint32_t i = 0; i < table->n_columns; i++) {
        const int64_t more = gmv_column_device_buffer_size(table->columns[i]);
        nbytes = more > GMV_EXACT_IN_DOUBLE_MAX - nbytes ? GMV_EXACT_IN_DOUBLE_MAX : nbytes + more;
    }
    return (uint64_t)nbytes;
}

static int32_t table_device(const gmv_node *node)
{
    const gmv_table *table = (const gmv_table *)node;
    for (uint32_t i = 0; i < table->n_columns; i++) {
        if (table->columns[i]->device >= 0)
            return table->columns[i]->device;
    }
    return -1;
}

static const gmv_node_class table_class = {
    .kind = GMV_KIND_TABLE,
    .destroy = table_destroy,
    .nbytes = table_nbytes,
    .device = table_device,
};

static gmv_status table_prepare_node(gmv_operation *operation, gmv_table *table,
                                     const gmv_creation *creation, bool inner, gmv_error *err)
{
    const size_t n = table->n_columns;
    gmv_node **owners = NULL;
    if (n > 0) {
        owners = gmv_calloc(n, sizeof(gmv_node *));
        if (!owners)
            return gmv_fail_no_memory(err);
    }
    for (size_t i = 0; i < n; i++)
        owners[i] = &table->columns[i]->node;
    const gmv_node_attributes attributes = gmv_operation_attributes(operation, creation, inner);
    const gmv_status status = gmv_node_prepare(operation->engine->registry, &table->node,
                                               &table_class, &attributes, owners, n, err);
    gmv_free(owners);
    return status;
}

gmv_status gmv_table_prepare(gmv_operation *operation, gmv_column *const *columns, size_t n_columns,
                             int32_t num_rows, const gmv_creation *creation, bool inner,
                             gmv_table **out_table, gmv_error *err)
{
    gmv_table *table = gmv_calloc(1, sizeof *table + n_columns * sizeof table->columns[0]);
    if (!table)
        return gmv_fail_no_memory(err);
    table->num_rows = num_rows;
    table->n_columns = (uint32_t)n_columns;
    for (size_t i = 0; i < n_columns; i++)
        table->columns[i] = columns[i];
    const gmv_status status = table_prepare_node(operation, table, creation, inner, err);
    if (status != GMV_OK) {
        gmv_free(table);
        return status;
    }
    *out_table = table;
    return GMV_OK;
}

void gmv_table_discard(gmv_engine *engine, gmv_table *table)
{
    if (!table)
        return;
    gmv_node_discard(engine->registry, &table->node);
    gmv_free(table);
}

static gmv_status table_check_columns(gmv_column *const *columns, size_t n_columns, gmv_error *err)
{
    if (n_columns > GMV_SIZE_TYPE_MAX)
        return gmv_fail(err, GMV_ERR_VALUE, "/columns", "a table has at most %d columns, not %zu",
                        (int)GMV_SIZE_TYPE_MAX, n_columns);
    int32_t device = -1;
    for (size_t i = 0; i < n_columns; i++) {
        char pointer[48];
        (void)snprintf(pointer, sizeof pointer, "/columns/%zu", i);
        if (columns[i]->size != columns[0]->size)
            return gmv_fail(
                err, GMV_ERR_VALUE, pointer,
                "column %zu has %d rows, the first has %d; all columns have equally many", i,
                (int)columns[i]->size, (int)columns[0]->size);
        if (columns[i]->device < 0)
            continue;
        if (device >= 0 && columns[i]->device != device)
            return gmv_fail(
                err, GMV_ERR_VALUE, pointer,
                "column %zu is on device %d, others are on device %d; a table lies on one device",
                i, (int)columns[i]->device, (int)device);
        device = columns[i]->device;
    }
    return GMV_OK;
}

gmv_status gmv_table_check_rows(bool has_num_rows, int64_t num_rows, gmv_error *err)
{
    if (has_num_rows && (num_rows < 0 || num_rows > GMV_SIZE_TYPE_MAX))
        return gmv_fail(err, GMV_ERR_VALUE, "/num_rows", "num_rows must be 0 to %d, not %lld",
                        (int)GMV_SIZE_TYPE_MAX, (long long)num_rows);
    return GMV_OK;
}

gmv_status gmv_table_create(gmv_operation *operation, gmv_column *const *columns, size_t n_columns,
                            bool has_num_rows, int64_t num_rows, const gmv_creation *creation,
                            gmv_table **out_table, gmv_error *err)
{
    GMV_TRY(gmv_table_check_rows(has_num_rows, num_rows, err));
    GMV_TRY(table_check_columns(columns, n_columns, err));
    const int32_t rows = n_columns > 0 ? columns[0]->size : (int32_t)(has_num_rows ? num_rows : 0);
    if (has_num_rows && num_rows != rows)
        return gmv_fail(err, GMV_ERR_VALUE, "/num_rows",
                        "num_rows is %lld, but the columns have %d rows; leave it out",
                        (long long)num_rows, (int)rows);

    GMV_TRY(gmv_operation_reserve(operation, 1, err));
    gmv_table *table = NULL;
    GMV_TRY(gmv_table_prepare(operation, columns, n_columns, rows, creation, false, &table, err));
    gmv_node *const nodes[] = {&table->node};
    gmv_operation_publish(operation, nodes, 1);
    *out_table = table;
    return GMV_OK;
}
