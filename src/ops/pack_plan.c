/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tree of a table as a plan of its packing: cuDF's order of entries and buffers (a column's
 * validity, its own data, then its children), and the levels of rows. A row of a level is an
 * element of a buffer once the offsets of all columns on the way have been added, which happens
 * here, once.
 *
 * What is described here has been checked when the columns were made; it is checked again against
 * the memory that there is, because the device will read what is said here.
 */
#include <gmv/base/alloc.h>

#include "ops/column_priv.h"
#include "ops/packed_priv.h"

/*
 * Host memory that one call may take: splits times columns, and splits alone. A short list of
 * splits over many columns would otherwise ask for more memory than the machine has.
 */
#define PACK_ENTRIES_MAX (1u << 20)
#define PACK_SPLITS_MAX  (1u << 18)

#define PLAN_WIDTHS  5 /* 1, 2, 4, 8, 16 bytes */
#define PLAN_CLASSES (3 * PLAN_WIDTHS)

typedef struct plan_walk {
    gmv_pack_plan *plan;
    uint32_t top; /* the column of the table below which it is */
    gmv_error *err;
} plan_walk;

/* ---- refusals ---- */

static gmv_status plan_refuse(const plan_walk *walk, const gmv_column *column, const char *why)
{
    const char *name = gmv_cudf_type_name(column->type.id);
    return gmv_fail(walk->err, GMV_ERR_VALUE, NULL,
                    "column %u of the table cannot be packed: its %s column of %d rows %s",
                    walk->top, name ? name : "unknown", (int)column->size, why);
}

static gmv_status plan_refuse_type(const plan_walk *walk, const gmv_column *column)
{
    const char *name = gmv_cudf_type_name(column->type.id);
    return gmv_fail(walk->err, GMV_ERR_DTYPE_UNSUPPORTED, NULL,
                    "column %u of the table cannot be packed: a column of type %s with rows has no "
                    "packed form",
                    walk->top, name ? name : "unknown");
}

static bool view_holds(const gmv_view *view, uint64_t nbytes)
{
    return view && view->ptr != 0 && view->nbytes >= 0 && (uint64_t)view->nbytes >= nbytes;
}

/* ---- adding ---- */

static gmv_pack_node *plan_add_node(gmv_pack_plan *plan, const gmv_column *column, uint32_t level)
{
    gmv_pack_node *node = &plan->nodes[plan->n_nodes++];
    *node = (gmv_pack_node){
        .column = column,
        .type = column->type,
        .level = level,
        .validity = GMV_PACK_NO_BUFFER,
        .data = GMV_PACK_NO_BUFFER,
    };
    return node;
}

static uint32_t plan_add_buffer(gmv_pack_plan *plan, gmv_split_buffer buffer)
{
    plan->buffers[plan->n_buffers] = buffer;
    return (uint32_t)plan->n_buffers++;
}

static uint32_t plan_add_level(gmv_pack_plan *plan, gmv_split_level level)
{
    plan->levels[plan->n_levels] = level;
    return (uint32_t)plan->n_levels++;
}

/* Row 0 of the level is element `first` of the column's buffers. */
static gmv_status plan_add_validity(const plan_walk *walk, gmv_pack_node *node, int64_t first)
{
    const gmv_column *column = node->column;
    if (!gmv_column_is_nullable(column))
        return GMV_OK;
    const int64_t end = first + walk->plan->levels[node->level].limit;
    if (!view_holds(column->null_mask, (uint64_t)gmv__bits_nbytes(end)))
        return plan_refuse(walk, column, "has a null mask that is too short");
    node->validity = plan_add_buffer(walk->plan, (gmv_split_buffer){
                                                     .address = column->null_mask->ptr,
                                                     .first = first,
                                                     .kind = GMV_SPLIT_BITS,
                                                     .level = node->level,
                                                     .below = (uint32_t)walk->plan->n_masks,
                                                 });
    walk->plan->masked[walk->plan->n_masks++] = (uint32_t)(node - walk->plan->nodes);
    return GMV_OK;
}

static gmv_status plan_add_data(const plan_walk *walk, gmv_pack_node *node, int64_t first)
{
    const gmv_column *column = node->column;
    const uint64_t width = gmv_cudf_type_width(column->type.id);
    const int64_t end = first + walk->plan->levels[node->level].limit;
    if (!view_holds(column->data, (uint64_t)end * width))
        return plan_refuse(walk, column, "has data that is too short");
    node->data =
        plan_add_buffer(walk->plan, (gmv_split_buffer){
                                        .address = column->data->ptr + (uint64_t)first * width,
                                        .kind = GMV_SPLIT_BYTES,
                                        .level = node->level,
                                        .width = (uint32_t)width,
                                    });
    return GMV_OK;
}

/* ---- columns that cannot have rows ---- */

/*
 * A table without rows is rebuilt from its types alone, where strings lose their offsets; inside a
 * table with rows they keep them.
 */
static gmv_status plan_rowless(const plan_walk *walk, const gmv_column *column, uint32_t level)
{
    const bool is_nested = column->type.id == GMV_CUDF_LIST || column->type.id == GMV_CUDF_STRUCT;
    const bool keeps =
        is_nested || (column->type.id == GMV_CUDF_STRING && walk->plan->table->num_rows > 0);
    if (column->type.id == GMV_CUDF_LIST && column->n_children != 2)
        return plan_refuse(walk, column, "must have two children: offsets and elements");
    if (column->type.id == GMV_CUDF_STRING && column->n_children > 1)
        return plan_refuse(walk, column, "must have one child: offsets");
    gmv_pack_node *node = plan_add_node(walk->plan, column, level);
    node->num_children = keeps ? (int32_t)column->n_children : 0;
    for (uint32_t i = 0; keeps && i < column->n_children; i++)
        GMV_TRY(plan_rowless(walk, column->children[i], level));
    return GMV_OK;
}

/* ---- columns with rows ---- */

static gmv_status plan_column(const plan_walk *walk, const gmv_column *column, uint32_t level,
                              int64_t shift);

/* The offsets of a string or list, whose row 0 is their row `shift`, and what they lead to. */
static gmv_status plan_check_offsets(const plan_walk *walk, const gmv_column *parent, int64_t shift,
                                     int64_t limit)
{
    const gmv_column *offsets = parent->children[0];
    const bool is_wide = offsets->type.id == GMV_CUDF_INT64;
    const uint64_t width = gmv_cudf_type_width(offsets->type.id);
    if (offsets->type.id != GMV_CUDF_INT32 && !(is_wide && parent->type.id == GMV_CUDF_STRING))
        return plan_refuse(walk, parent, "has offsets of a type that offsets cannot have");
    if (gmv_column_is_nullable(offsets))
        return plan_refuse(walk, parent, "has offsets with a null mask");
    if (shift + limit + 1 > offsets->size)
        return plan_refuse(walk, parent, "has too few offsets");
    if (!view_holds(offsets->data, (uint64_t)(offsets->offset + shift + limit + 1) * width))
        return plan_refuse(walk, parent, "has offsets whose data is too short");
    if (offsets->data->ptr % width != 0)
        return plan_refuse(walk, parent, "has misaligned offsets");
    return GMV_OK;
}

/* Adds the level that the offsets lead to; what is there has `limit` rows. */
static uint32_t plan_add_below(const plan_walk *walk, const gmv_column *parent, uint32_t level,
                               int64_t shift, int64_t limit)
{
    const gmv_column *offsets = parent->children[0];
    const uint64_t width = gmv_cudf_type_width(offsets->type.id);
    const uint64_t first = (uint64_t)(offsets->offset + shift);
    return plan_add_level(walk->plan, (gmv_split_level){
                                          .offsets = limit ? offsets->data->ptr + first * width : 0,
                                          .limit = limit,
                                          .parent = level,
                                          .offset_width = (uint32_t)width,
                                      });
}

static void plan_add_offsets(const plan_walk *walk, const gmv_column *parent, uint32_t level,
                             int64_t shift, uint32_t below)
{
    const gmv_column *offsets = parent->children[0];
    const uint64_t width = gmv_cudf_type_width(offsets->type.id);
    const uint64_t first = (uint64_t)(offsets->offset + shift);
    gmv_pack_node *node = plan_add_node(walk->plan, offsets, level);
    node->is_offsets = true;
    node->data = plan_add_buffer(walk->plan, (gmv_split_buffer){
                                                 .address = offsets->data->ptr + first * width,
                                                 .kind = GMV_SPLIT_OFFSETS,
                                                 .level = level,
                                                 .width = (uint32_t)width,
                                                 .below = below,
                                             });
}

/* Characters are counted from the start of their memory, whatever the string's own offset. */
static gmv_status plan_string(const plan_walk *walk, gmv_pack_node *node, int64_t first)
{
    const gmv_column *column = node->column;
    const uint32_t level = node->level;
    if (column->n_children != 1)
        return plan_refuse(walk, column, "must have one child: offsets");
    GMV_TRY(plan_check_offsets(walk, column, first, walk->plan->levels[level].limit));
    const bool has_memory = column->data && column->data->ptr != 0;
    const uint32_t characters =
        plan_add_below(walk, column, level, first, has_memory ? column->data->nbytes : 0);
    node->num_children = 1;
    if (has_memory)
        node->data = plan_add_buffer(walk->plan, (gmv_split_buffer){
                                                     .address = column->data->ptr,
                                                     .kind = GMV_SPLIT_BYTES,
                                                     .level = characters,
                                                     .width = 1,
                                                 });
    plan_add_offsets(walk, column, level, first, characters);
    return GMV_OK;
}

static gmv_status plan_list(const plan_walk *walk, gmv_pack_node *node, int64_t first)
{
    const gmv_column *column = node->column;
    const uint32_t level = node->level;
    if (column->n_children != 2)
        return plan_refuse(walk, column, "must have two children: offsets and elements");
    GMV_TRY(plan_check_offsets(walk, column, first, walk->plan->levels[level].limit));
    const uint32_t elements = plan_add_below(walk, column, level, first, column->children[1]->size);
    node->num_children = 2;
    plan_add_offsets(walk, column, level, first, elements);
    return plan_column(walk, column->children[1], elements, 0);
}

static gmv_status plan_struct(const plan_walk *walk, gmv_pack_node *node, int64_t first)
{
    const gmv_column *column = node->column;
    const uint32_t level = node->level;
    node->num_children = (int32_t)column->n_children;
    for (uint32_t i = 0; i < column->n_children; i++)
        GMV_TRY(plan_column(walk, column->children[i], level, first));
    return GMV_OK;
}

/* A column whose row `shift` is row 0 of the level. As deep as columns nest. */
static gmv_status plan_column(const plan_walk *walk, const gmv_column *column, uint32_t level,
                              int64_t shift)
{
    const int64_t limit = walk->plan->levels[level].limit;
    if (limit == 0)
        return plan_rowless(walk, column, level);
    if (shift + limit > column->size)
        return plan_refuse(walk, column, "is shorter than what it is a part of");
    const int64_t first = shift + column->offset;
    const int32_t type = column->type.id;
    const bool is_fixed = gmv_cudf_type_is_fixed_width(type);
    if (!is_fixed && type != GMV_CUDF_STRING && type != GMV_CUDF_LIST && type != GMV_CUDF_STRUCT)
        return plan_refuse_type(walk, column);
    gmv_pack_node *node = plan_add_node(walk->plan, column, level);
    GMV_TRY(plan_add_validity(walk, node, first));
    if (is_fixed)
        return plan_add_data(walk, node, first);
    if (type == GMV_CUDF_STRING)
        return plan_string(walk, node, first);
    return type == GMV_CUDF_LIST ? plan_list(walk, node, first) : plan_struct(walk, node, first);
}

/* ---- the plan ---- */

static gmv_status plan_count_entries(const gmv_table *table, size_t n_splits, uint64_t *out_n,
                                     gmv_error *err)
{
    uint64_t n_entries = 0;
    for (uint32_t i = 0; i < table->n_columns; i++)
        n_entries += table->columns[i]->n_entries;
    if (n_splits >= PACK_SPLITS_MAX || GMV_MAX(n_splits, 1) * n_entries > PACK_ENTRIES_MAX)
        return gmv_fail(err, GMV_ERR_VALUE, n_splits > 0 ? "/splits" : NULL,
                        "%zu splits of %llu columns, children included, are too many for one call: "
                        "splits times columns may be %u, and there may be %u splits; split in "
                        "several calls",
                        n_splits, (unsigned long long)n_entries, PACK_ENTRIES_MAX,
                        PACK_SPLITS_MAX - 1);
    *out_n = n_entries;
    return GMV_OK;
}

static gmv_status plan_allocate(gmv_pack_plan *plan, uint64_t n_entries, gmv_error *err)
{
    plan->nodes = gmv_calloc(n_entries + 1, sizeof *plan->nodes);
    plan->levels = gmv_calloc(n_entries + 1, sizeof *plan->levels);
    plan->buffers = gmv_calloc(2 * n_entries + 1, sizeof *plan->buffers);
    plan->classes = gmv_calloc(2 * n_entries + PLAN_CLASSES, sizeof *plan->classes);
    plan->class_of = gmv_calloc(2 * n_entries + 1, sizeof *plan->class_of);
    plan->masked = gmv_calloc(n_entries + 1, sizeof *plan->masked);
    plan->nbytes = gmv_calloc(plan->n_partitions, sizeof *plan->nbytes);
    if (!plan->nodes || !plan->levels || !plan->buffers || !plan->classes || !plan->class_of ||
        !plan->masked || !plan->nbytes)
        return gmv_fail_no_memory(err);
    return GMV_OK;
}

/* The device of a table's columns; a table without memory is packed on the first one. */
static gmv_device *plan_find_device(gmv_engine *engine, const gmv_table *table)
{
    for (uint32_t i = 0; i < table->n_columns; i++) {
        gmv_device *device = gmv_column_device(engine, table->columns[i]);
        if (device)
            return device;
    }
    return engine->devices[0];
}

static gmv_status plan_describe(gmv_pack_plan *plan, gmv_error *err)
{
    const gmv_table *table = plan->table;
    (void)plan_add_level(plan, (gmv_split_level){.limit = table->num_rows});
    for (uint32_t i = 0; i < table->n_columns; i++)
        GMV_TRY(plan_column(&(plan_walk){plan, i, err}, table->columns[i], 0, 0));
    return GMV_OK;
}

/* Which of the classes of the table's own rows: by kind and width, a power of two up to 16. */
static size_t plan_class(const gmv_split_buffer *buffer)
{
    return buffer->kind * PLAN_WIDTHS + (size_t)(buffer->width ? __builtin_ctz(buffer->width) : 0);
}

/*
 * Most buffers are of the table's own rows and so of few sizes: partitions are measured by these.
 * What is nested is measured one by one.
 */
static void plan_classify(gmv_pack_plan *plan)
{
    plan->n_classes = PLAN_CLASSES;
    for (size_t i = 0; i < plan->n_buffers; i++) {
        const gmv_split_buffer *buffer = &plan->buffers[i];
        plan->class_of[i] = (uint32_t)(buffer->level > 0 ? plan->n_classes++ : plan_class(buffer));
        gmv_split_class *class = &plan->classes[plan->class_of[i]];
        class->kind = buffer->kind;
        class->level = buffer->level;
        class->width = buffer->width;
        class->count++;
    }
}

static gmv_status plan_read_bounds(gmv_pack_plan *plan, gmv_operation *operation, gmv_error *err)
{
    gmv_stream *stream = gmv_operation_stream(operation, plan->device);
    const gmv_split_bounds args = {
        .levels = plan->levels,
        .n_levels = plan->n_levels,
        .n_points = plan->n_partitions + 1,
        .bounds = plan->bounds,
    };
    gmv_status status = gmv__pack_use(stream, plan, err);
    if (status == GMV_OK)
        status = gmv_kernel_split_bounds(stream, &args, err);
    if (status == GMV_OK)
        status = gmv_stream_finish(stream, err);
    if (status != GMV_OK)
        gmv_stream_abandon(stream); /* before the bounds go */
    return status;
}

/*
 * Offsets that decrease end a partition where it begins; and what has no rows has none below,
 * whatever was read for both of its ends.
 */
static void plan_sort_bounds(gmv_pack_plan *plan)
{
    const size_t n_points = plan->n_partitions + 1;
    for (size_t l = 1; l < plan->n_levels; l++) {
        const int64_t *parents = plan->bounds + plan->levels[l].parent * n_points;
        int64_t *bounds = plan->bounds + l * n_points;
        for (size_t k = 1; k < n_points; k++)
            if (bounds[k] < bounds[k - 1] || parents[k] == parents[k - 1])
                bounds[k] = bounds[k - 1];
    }
}

static gmv_status plan_bound(gmv_pack_plan *plan, gmv_operation *operation, const int64_t *splits,
                             gmv_error *err)
{
    const size_t n_points = plan->n_partitions + 1;
    plan->bounds = gmv_calloc(plan->n_levels * n_points, sizeof *plan->bounds);
    if (!plan->bounds)
        return gmv_fail_no_memory(err);
    for (size_t k = 1; k + 1 < n_points; k++)
        plan->bounds[k] = splits[k - 1];
    plan->bounds[n_points - 1] = plan->table->num_rows;
    if (plan->n_levels == 1)
        return GMV_OK;
    GMV_TRY(plan_read_bounds(plan, operation, err));
    plan_sort_bounds(plan);
    return GMV_OK;
}

static gmv_status plan_make(gmv_pack_plan *plan, gmv_operation *operation, const int64_t *splits,
                            size_t n_splits, gmv_error *err)
{
    uint64_t n_entries = 0;
    GMV_TRY(plan_count_entries(plan->table, n_splits, &n_entries, err));
    plan->n_partitions = n_splits + 1;
    GMV_TRY(plan_allocate(plan, n_entries, err));
    GMV_TRY(plan_describe(plan, err));
    plan_classify(plan);
    GMV_TRY(plan_bound(plan, operation, splits, err));
    return gmv__pack_measure(plan, err);
}

gmv_status gmv__pack_plan_init(gmv_pack_plan *plan, gmv_operation *operation,
                               const gmv_table *table, const int64_t *splits, size_t n_splits,
                               gmv_error *err)
{
    *plan = (gmv_pack_plan){
        .table = table,
        .device = plan_find_device(operation->engine, table),
    };
    const gmv_status status = plan_make(plan, operation, splits, n_splits, err);
    if (status != GMV_OK)
        gmv__pack_plan_fini(plan);
    return status;
}

void gmv__pack_plan_fini(gmv_pack_plan *plan)
{
    gmv_free(plan->nodes);
    gmv_free(plan->levels);
    gmv_free(plan->buffers);
    gmv_free(plan->classes);
    gmv_free(plan->class_of);
    gmv_free(plan->masked);
    gmv_free(plan->bounds);
    gmv_free(plan->nbytes);
    *plan = (gmv_pack_plan){0};
}

gmv_status gmv__pack_use(gmv_stream *stream, const gmv_pack_plan *plan, gmv_error *err)
{
    for (size_t i = 0; i < plan->n_nodes; i++) {
        GMV_TRY(gmv__view_use(stream, plan->nodes[i].column->data, err));
        GMV_TRY(gmv__view_use(stream, plan->nodes[i].column->null_mask, err));
    }
    return GMV_OK;
}
