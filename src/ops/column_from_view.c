/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A column from a typed view, without copying its elements. The view's own mask becomes the null
 * mask: as it is when it already holds packed bits, otherwise rewritten into a new inner mask. A
 * view of several dimensions becomes nested lists over its elements: level i has a list for each
 * index of the first i + 1 dimensions, all of them as long as the next one; the offsets of all
 * levels lie in one new buffer.
 */
#include <gmv/base/alloc.h>
#include <gmv/base/num.h>

#include "ops/column_priv.h"
#include "ops/draft_priv.h"

/* Each level of lists has one offset more than rows, which must be counted, too. */
static gmv_status from_view_check_rows(const gmv_view *view, gmv_error *err)
{
    int64_t rows = 1;
    for (int32_t i = 0; i + 1 < view->ndim; i++) {
        if (!gmv_mul_checked(rows, gmv_view_shape(view)[i], &rows) || rows > GMV_SIZE_TYPE_MAX - 1)
            return gmv_fail(err, GMV_ERR_VALUE, "/view",
                            "the first %d dimensions make more than %d lists", (int)i + 1,
                            (int)GMV_SIZE_TYPE_MAX - 1);
    }
    if (view->size > GMV_SIZE_TYPE_MAX)
        return gmv_fail(err, GMV_ERR_VALUE, "/view", "a column has at most %d elements, not %lld",
                        (int)GMV_SIZE_TYPE_MAX, (long long)view->size);
    return GMV_OK;
}

static gmv_status from_view_check(const gmv_view *view, gmv_error *err)
{
    const gmv_dtype_info *dtype = gmv_dtype_describe(view->dtype);
    if (view->ndim == 0)
        return gmv_fail(err, GMV_ERR_VALUE, "/view", "a 0-d view has no rows; give it a shape");
    if (dtype->cudf_type == GMV_CUDF_NONE)
        return gmv_fail(err, GMV_ERR_DTYPE_UNSUPPORTED, "/view",
                        "element type %s has no column type in cuDF", dtype->typestr);
    GMV_TRY(gmv_view_require_contiguous(view, "/view", err));
    GMV_TRY(from_view_check_rows(view, err));
    const size_t alignment = gmv__type_alignment(dtype->cudf_type);
    if (view->size > 0 && view->ptr % alignment != 0)
        return gmv_fail(err, GMV_ERR_VALUE, "/view", "the elements are not aligned to %zu bytes",
                        alignment);
    return GMV_OK;
}

static gmv_status from_view_check_mask(const gmv_view *view, gmv_error *err)
{
    const bool is_bits = view->mask_kind == GMV_MASK_BITS;
    const int64_t needed = is_bits ? gmv__bits_nbytes(view->size) : view->size;
    if (view->mask->nbytes < needed)
        return gmv_fail(err, GMV_ERR_OUT_OF_BOUNDS, "/view",
                        "the view's mask has %lld bytes, %lld rows need %lld",
                        (long long)view->mask->nbytes, (long long)view->size, (long long)needed);
    return GMV_OK;
}

/* Where the mask's bytes lie side by side. */
static gmv_status from_view_gather_mask(gmv_draft *draft, const gmv_view *mask,
                                        uint64_t *out_address, gmv_error *err)
{
    gmv_memory *gathered = NULL;
    if (mask->contiguous) {
        *out_address = mask->ptr;
        return gmv__draft_use(draft, mask, err);
    }
    GMV_TRY(gmv__draft_scratch(draft, (uint64_t)mask->nbytes, &gathered, err));
    *out_address = gathered->address;
    return gmv__draft_gather(draft, mask, 0, mask->size, gathered->address, err);
}

/* Writes the mask as packed bits to `output`, and waits. */
static gmv_status from_view_pack_mask(gmv_draft *draft, const gmv_view *view,
                                      const gmv_view *output, int64_t *out_null_count,
                                      gmv_error *err)
{
    uint64_t address = 0;
    GMV_TRY(from_view_gather_mask(draft, view->mask, &address, err));
    if (view->mask_kind == GMV_MASK_BITS) {
        int64_t set_count = 0;
        const gmv_copy_bits copy = {
            .bits = {address, 0},
            .n = view->size,
            .output = output->ptr,
            .output_nbytes = (uint64_t)output->nbytes,
            .out_set_count = &set_count,
        };
        gmv_status status = gmv_kernel_copy_bits(draft->stream, &copy, err);
        if (status == GMV_OK)
            status = gmv_stream_finish(draft->stream, err);
        if (status != GMV_OK)
            gmv_stream_abandon(draft->stream); /* the count is written to this frame */
        *out_null_count = view->size - set_count;
        return status;
    }
    const gmv_valid_if truthy = {
        .predicate = GMV_PREDICATE_NONZERO_BYTE,
        .input = address,
        .n = view->size,
        .output = output->ptr,
        .output_nbytes = (uint64_t)output->nbytes,
        .out_null_count = out_null_count,
    };
    GMV_TRY(gmv_kernel_valid_if(draft->stream, &truthy, err));
    return gmv_stream_finish(draft->stream, err);
}

static gmv_status from_view_column(gmv_draft *draft, const gmv_column_parts *parts,
                                   const gmv_creation *creation, bool inner,
                                   gmv_column **out_column, gmv_error *err)
{
    GMV_TRY(gmv_column_prepare(draft->operation, parts, creation, inner, out_column, err));
    gmv__draft_add(draft, &(*out_column)->node);
    return GMV_OK;
}

/* The column of the elements: the result, or what lies in the innermost lists. */
static gmv_status from_view_elements(gmv_draft *draft, gmv_view *view, const gmv_creation *creation,
                                     int64_t *null_count, gmv_column **out_column, gmv_error *err)
{
    const gmv_cudf_type type = {gmv_dtype_describe(view->dtype)->cudf_type, 0};
    const bool has_mask = view->mask_kind != GMV_MASK_NONE && view->size > 0;
    gmv_view *mask = NULL;
    if (has_mask && view->mask_kind == GMV_MASK_BITS && view->mask->contiguous) {
        mask = view->mask;
        GMV_TRY(gmv__mask_count_nulls(draft->operation, mask, 0, view->size, null_count, err));
    } else if (has_mask) {
        const gmv_layout layout = gmv_layout_flat(gmv_bitmask_nbytes(view->size));
        const gmv_draft_result result = {
            .dtype = GMV_DTYPE_U1,
            .layout = &layout,
            .contents = GMV_CONTENTS_UNSPECIFIED,
            .bare = true,
            .inner = true,
        };
        GMV_TRY(gmv__draft_make(draft, &result, creation, &mask, err));
        GMV_TRY(from_view_pack_mask(draft, view, mask, null_count, err));
    }
    const gmv_column_parts parts = {
        .type = type,
        .size = (int32_t)view->size,
        .null_count = (int32_t)*null_count,
        .data = view,
        .null_mask = mask,
    };
    return from_view_column(draft, &parts, creation, view->ndim > 1, out_column, err);
}

/* ---- nested lists ---- */

/* Lists of one level, and where its offsets are in the buffer of all. */
typedef struct from_view_level {
    int64_t rows;
    int64_t length;  /* of each */
    uint64_t offset; /* bytes */
} from_view_level;

#define FROM_VIEW_LEVELS_MAX (GMV_NDIM_MAX - 1)

/* The view of the offsets, their column, the lists. */
#define FROM_VIEW_NODES_PER_LEVEL 3

typedef struct from_view_plan {
    int32_t n_levels;
    from_view_level levels[FROM_VIEW_LEVELS_MAX]; /* outermost first */
    uint64_t nbytes; /* of all offsets, each level at a multiple of 64 */
} from_view_plan;

static int64_t from_view_offsets_nbytes(const from_view_level *level)
{
    return (level->rows + 1) * (int64_t)sizeof(int32_t);
}

static void from_view_plan_levels(const gmv_view *view, from_view_plan *plan)
{
    int64_t rows = 1;
    plan->n_levels = view->ndim - 1;
    plan->nbytes = 0;
    for (int32_t i = 0; i < plan->n_levels; i++) {
        from_view_level *level = &plan->levels[i];
        rows *= gmv_view_shape(view)[i];
        level->rows = rows;
        level->length = rows > 0 ? gmv_view_shape(view)[i + 1] : 0; /* no lists have any length */
        level->offset = plan->nbytes;
        plan->nbytes += gmv_round_up((uint64_t)from_view_offsets_nbytes(level), 64);
    }
}

static gmv_status from_view_offsets(gmv_draft *draft, const from_view_level *level,
                                    gmv_view *all_offsets, gmv_column **out_column, gmv_error *err)
{
    const gmv_layout layout = gmv_layout_flat(from_view_offsets_nbytes(level));
    const gmv_view_spec spec = {
        .buffer = all_offsets->buffer,
        .parent = &all_offsets->node,
        .ptr = all_offsets->ptr + level->offset,
        .dtype = GMV_DTYPE_U1,
        .layout = &layout,
        .bare = true,
    };
    const gmv_sequence sequence = {
        .output = spec.ptr, .n = level->rows + 1, .step = (int32_t)level->length};
    gmv_view *offsets = NULL;
    GMV_TRY(gmv_kernel_sequence(draft->stream, &sequence, err));
    GMV_TRY(gmv_view_prepare(draft->operation, &spec, NULL, true, &offsets, err));
    gmv__draft_add(draft, &offsets->node);
    const gmv_column_parts parts = {
        .type = {GMV_CUDF_INT32, 0}, .size = (int32_t)level->rows + 1, .data = offsets};
    return from_view_column(draft, &parts, NULL, true, out_column, err);
}

/* Wraps *column into the lists of all levels, the innermost ones first. */
static gmv_status from_view_nest(gmv_draft *draft, const from_view_plan *plan,
                                 const gmv_creation *creation, gmv_column **column, gmv_error *err)
{
    const gmv_layout layout = gmv_layout_flat((int64_t)plan->nbytes);
    const gmv_draft_result result = {
        .dtype = GMV_DTYPE_U1,
        .layout = &layout,
        .contents = GMV_CONTENTS_ZEROED,
        .bare = true,
        .inner = true,
    };
    gmv_view *all_offsets = NULL;
    GMV_TRY(gmv__draft_make(draft, &result, NULL, &all_offsets, err));
    for (int32_t i = plan->n_levels - 1; i >= 0; i--) {
        const from_view_level *level = &plan->levels[i];
        gmv_column *children[] = {[GMV_CHILD_OFFSETS] = NULL, [GMV_CHILD_ELEMENTS] = *column};
        GMV_TRY(from_view_offsets(draft, level, all_offsets, &children[GMV_CHILD_OFFSETS], err));
        const gmv_column_parts parts = {.type = {GMV_CUDF_LIST, 0},
                                        .size = (int32_t)level->rows,
                                        .children = children,
                                        .n_children = 2};
        GMV_TRY(from_view_column(draft, &parts, creation, i > 0, column, err));
    }
    return GMV_OK;
}

/* ---- the call ---- */

static gmv_status from_view_draft(gmv_draft *draft, gmv_view *view, const from_view_plan *plan,
                                  const gmv_creation *creation, int64_t *null_count,
                                  gmv_column **out_column, gmv_error *err)
{
    GMV_TRY(from_view_elements(draft, view, creation, null_count, out_column, err));
    return plan->n_levels > 0 ? from_view_nest(draft, plan, creation, out_column, err) : GMV_OK;
}

gmv_status gmv_column_from_view(gmv_operation *operation, gmv_view *view,
                                const gmv_creation *creation, gmv_column **out_column,
                                gmv_error *err)
{
    GMV_TRY(from_view_check(view, err));
    const bool has_mask = view->mask_kind != GMV_MASK_NONE && view->size > 0;
    from_view_plan plan;
    from_view_plan_levels(view, &plan);
    if (has_mask)
        GMV_TRY(from_view_check_mask(view, err));
    if (has_mask || plan.n_levels > 0)
        GMV_TRY(gmv_operation_weigh(
            operation, plan.nbytes + (has_mask ? (uint64_t)view->mask->nbytes : 0), err));

    /* A column over a view as it is needs no device. */
    gmv_device *device = NULL;
    if (has_mask || plan.n_levels > 0)
        device = gmv__view_device_or_first(operation->engine, has_mask ? view->mask : view);
    const size_t n_nodes = GMV_DRAFT_NODES_MAX + (size_t)plan.n_levels * FROM_VIEW_NODES_PER_LEVEL;
    gmv_node **nodes = gmv_calloc(n_nodes, sizeof(gmv_node *));
    if (!nodes)
        return gmv_fail_no_memory(err);
    gmv_draft draft;
    gmv_column *column = NULL;
    int64_t null_count = 0;
    gmv_status status = gmv__draft_begin_large(&draft, operation, device, nodes, n_nodes, err);
    if (status == GMV_OK) {
        status = from_view_draft(&draft, view, &plan, creation, &null_count, &column, err);
        status = gmv__draft_end(&draft, status, err);
    }
    gmv_free(nodes);
    if (status != GMV_OK)
        return status;
    *out_column = column;
    return GMV_OK;
}
