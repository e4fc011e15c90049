/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Maps of buffers. Views are found by walking down from the buffer along the edges by which they
 * were made, so each is found once, whatever else depends on it; all are held until the map is
 * done. A sweep over the ends of their extents then knows at each byte who covers it.
 */
#include <sched.h>
#include <stdlib.h>

#include <gmv/base/alloc.h>
#include <gmv/base/num.h>
#include <gmv/ops/map.h>

#define MAP_STEP        256u
#define MAP_SHORT_VIEWS 4096u /* more are for the bulk lane */

/* An end of a view's extent; its number among those found is its place in the set. */
typedef struct map_event {
    uint64_t offset;
    uint32_t view;
    bool is_end;
} map_event;

typedef struct map_work {
    gmv_operation *operation;
    gmv_buffer *buffer;
    gmv_node **found; /* held; views, visible or not */
    size_t n_found, capacity;
    bool *is_visible;
    map_event *events;
    size_t n_events;
    uint64_t *covering; /* a bit for each view found */
    size_t n_words;
    uint64_t n_covering;
} map_work;

/* ---- finding ---- */

static gmv_status map_reserve(map_work *work, gmv_error *err)
{
    if (work->n_found + MAP_STEP <= work->capacity)
        return GMV_OK;
    size_t capacity = GMV_MAX(2 * work->capacity, (size_t)(4 * MAP_STEP));
    gmv_node **found = gmv_realloc(work->found, capacity * sizeof *found);
    if (!found)
        return gmv_fail_no_memory(err);
    work->found = found;
    bool *is_visible = gmv_realloc(work->is_visible, capacity * sizeof *is_visible);
    if (!is_visible)
        return gmv_fail_no_memory(err);
    work->is_visible = is_visible;
    work->capacity = capacity;
    return GMV_OK;
}

/* Whether the view was made from just this node: by its mask it may depend on others, too. */
static bool map_is_child(const gmv_node *node, const gmv_node *owner)
{
    if (node->node_class->kind != GMV_KIND_VIEW)
        return false;
    const gmv_view *view = (const gmv_view *)node;
    const gmv_node *from = view->parent;
    if (!from && view->buffer)
        from = &view->buffer->node;
    return from == owner;
}

static gmv_status map_check_count(const map_work *work, gmv_error *err)
{
    if (work->n_found > GMV_MAP_VIEWS_MAX)
        return gmv_fail(err, GMV_ERR_QUOTA_EXCEEDED, NULL,
                        "the buffer has more than %d views, too many for a map", GMV_MAP_VIEWS_MAX);
    if (work->n_found > MAP_SHORT_VIEWS && work->operation->lane != GMV_LANE_BULK)
        return GMV_MOVE_TO_BULK;
    return GMV_OK;
}

/* Appends the views made from a node. The one that is the cursor is held until the next is. */
static gmv_status map_expand(map_work *work, const gmv_node *owner, gmv_error *err)
{
    gmv_registry *registry = work->operation->engine->registry;
    gmv_dependent step[MAP_STEP];
    gmv_node *after = NULL; /* held, unless it is among those found */
    bool holds_after = false, has_more = true;
    gmv_status status = GMV_OK;
    while (has_more && status == GMV_OK) {
        status = map_reserve(work, err);
        if (status != GMV_OK)
            break;
        size_t n = gmv_registry_hold_dependents(registry, &work->operation->caller, owner, after,
                                                MAP_STEP, step, &has_more);
        if (n == 0 && has_more && gmv_registry_reap(registry) == 0)
            (void)sched_yield();
        for (size_t i = 0; i < n; i++) {
            if (holds_after)
                gmv_registry_release(registry, after, true);
            after = step[i].node;
            holds_after = !map_is_child(after, owner);
            if (holds_after)
                continue;
            work->is_visible[work->n_found] = step[i].is_visible;
            work->found[work->n_found++] = after;
        }
        if (status == GMV_OK)
            status = map_check_count(work, err);
    }
    if (holds_after)
        gmv_registry_release(registry, after, true);
    return status;
}

static gmv_status map_find(map_work *work, gmv_error *err)
{
    GMV_TRY(map_expand(work, &work->buffer->node, err));
    for (size_t i = 0; i < work->n_found; i++)
        GMV_TRY(map_expand(work, work->found[i], err));
    return GMV_OK;
}

/* ---- sweeping ---- */

static int map_compare(const void *left, const void *right)
{
    const map_event *a = left, *b = right;
    return (a->offset > b->offset) - (a->offset < b->offset);
}

static gmv_status map_add_events(map_work *work, uint32_t index, gmv_error *err)
{
    const gmv_view *view = (const gmv_view *)work->found[index];
    gmv_layout layout;
    gmv_extent extent;
    if (!work->is_visible[index] || view->nbytes == 0)
        return GMV_OK;
    gmv_view_layout(view, &layout);
    GMV_TRY(gmv_layout_measure(&layout, gmv_dtype_describe(view->dtype)->itemsize, &extent, err));
    int64_t offset = (int64_t)gmv_view_offset(view);
    work->events[work->n_events++] =
        (map_event){.offset = (uint64_t)(offset + extent.low), .view = index};
    work->events[work->n_events++] =
        (map_event){.offset = (uint64_t)(offset + extent.high), .view = index, .is_end = true};
    return GMV_OK;
}

static gmv_status map_prepare_sweep(map_work *work, gmv_error *err)
{
    work->n_words = work->n_found / 64 + 1;
    work->covering = gmv_calloc(work->n_words, sizeof *work->covering);
    work->events = gmv_calloc(2 * work->n_found + 1, sizeof *work->events);
    if (!work->covering || !work->events)
        return gmv_fail_no_memory(err);
    for (size_t i = 0; i < work->n_found; i++)
        GMV_TRY(map_add_events(work, (uint32_t)i, err));
    qsort(work->events, work->n_events, sizeof work->events[0], map_compare);
    return GMV_OK;
}

static void map_list_covering(const map_work *work, gmv_map_piece *piece)
{
    piece->views_count = work->n_covering;
    piece->n_views = 0;
    for (size_t i = 0; i < work->n_words && piece->n_views < work->n_covering; i++) {
        for (uint64_t word = work->covering[i]; word != 0; word &= word - 1) {
            if (piece->n_views == GMV_MAP_VIEWS_LISTED)
                return;
            size_t view = i * 64 + (size_t)__builtin_ctzll(word);
            piece->views[piece->n_views++] = work->found[view]->id;
        }
    }
}

static void map_apply(map_work *work, const map_event *event)
{
    work->covering[event->view / 64] ^= (uint64_t)1 << (event->view % 64);
    work->n_covering += event->is_end ? UINT64_MAX : 1;
}

/* Visits from `offset` on; returns where it stopped. */
static uint64_t map_sweep(map_work *work, uint64_t offset, size_t limit, gmv_map_visit visit,
                          void *context)
{
    gmv_map_piece piece;
    size_t next = 0;
    while (limit > 0 && offset < work->buffer->nbytes) {
        for (; next < work->n_events && work->events[next].offset <= offset; next++)
            map_apply(work, &work->events[next]);
        uint64_t end = next < work->n_events ? work->events[next].offset : work->buffer->nbytes;
        piece.offset = offset;
        piece.nbytes = end - offset;
        map_list_covering(work, &piece);
        visit(context, &piece);
        offset = end;
        limit--;
    }
    return offset;
}

static void map_free(map_work *work)
{
    for (size_t i = work->n_found; i > 0; i--)
        gmv_registry_release(work->operation->engine->registry, work->found[i - 1], true);
    gmv_free(work->found);
    gmv_free(work->is_visible);
    gmv_free(work->events);
    gmv_free(work->covering);
}

gmv_status gmv_buffer_map(gmv_operation *operation, gmv_buffer *buffer, uint64_t offset,
                          size_t limit, gmv_map_visit visit, void *context, uint64_t *out_next,
                          gmv_error *err)
{
    map_work work = {.operation = operation, .buffer = buffer};
    gmv_status status = map_find(&work, err);
    if (status == GMV_OK)
        status = map_prepare_sweep(&work, err);
    if (status == GMV_OK)
        *out_next = map_sweep(&work, offset, limit, visit, context);
    map_free(&work);
    return status;
}
