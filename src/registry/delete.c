/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How nodes go: names are taken (delete, cascade), references given back (release, disown), and
 * what has none left is buried. All of it in bounded steps over intrusive lists; nothing here
 * allocates.
 */
#include <string.h>

#include <gmv/base/alloc.h>

#include "registry/registry_priv.h"

/* ---- burying ---- */

static uint64_t node_freed_nbytes(gmv_node *node)
{
    const gmv_node_class *node_class = node->node_class;
    if (node_class->freed_nbytes)
        return node_class->freed_nbytes(node);
    return node->id.kind == GMV_KIND_BUFFER && node_class->nbytes ? node_class->nbytes(node) : 0;
}

/* Takes a dead node whose edges are unlinked out of everything. Returns the memory that goes back.
 */
static uint64_t node_erase(gmv_registry *registry, gmv_node *node)
{
    gmv_reason reason = node->reason ? (gmv_reason)node->reason : GMV_REASON_DELETED;
    gmv__node_drop_ranges(registry, node);
    gmv__order_remove(registry_order(registry, node->id.kind), node);
    registry->counts.alive[node->id.kind]--;
    if (node->state == STATE_NAMED) { /* only when the registry is torn down */
        gmv__node_leave_life(registry, node);
        registry->counts.named[node->id.kind]--;
    }
    gmv__tombstones_add(&registry->tombstones, &node->id, node->principal, reason);
    gmv_shard *shard = registry_shard(registry, &node->id);
    pthread_mutex_lock(&shard->lock);
    gmv__shard_remove(shard, node);
    pthread_mutex_unlock(&shard->lock);
    return node_freed_nbytes(node);
}

/* A list of dead nodes: [head, pending) are erased, the rest is not; new ones go to the tail. */
typedef struct burial {
    gmv_node *head, *pending, *tail;
    uint32_t edge; /* of pending, how many are unlinked */
    uint64_t nbytes;
} burial;

/* One hold of the graph lock. */
static void burial_step(gmv_registry *registry, burial *at)
{
    for (unsigned budget = REGISTRY_STEP; at->pending && budget > 0; budget--) {
        gmv_node *node = at->pending;
        if (at->edge < node->n_owners) {
            gmv_edge *edge = &node->edges[at->edge++];
            if (gmv__edge_unlink(registry, edge)) {
                edge->owner->work_next = NULL;
                at->tail->work_next = edge->owner;
                at->tail = edge->owner;
                gmv__shard_prefetch(registry_shard(registry, &edge->owner->id), &edge->owner->id);
            }
        } else {
            at->nbytes += node_erase(registry, node);
            at->pending = node->work_next;
            at->edge = 0;
        }
    }
}

static void node_destroy(gmv_registry *registry, gmv_node *node, gmv_deletion *deletion)
{
    if (deletion && deletion->n_freed < GMV_ERROR_IDS_MAX)
        deletion->freed[deletion->n_freed++] = node->id;
    registry_observe(registry, GMV_EVENT_FREED, node);
    gmv_session *session = node->session;
    gmv_free(node->label);
    gmv_free(node->edges);
    node->label = NULL;
    node->edges = NULL;
    atomic_fetch_sub_explicit(&registry->n_handles, 1, memory_order_relaxed);
    node->node_class->destroy(node);
    gmv__session_unreference(registry, session);
}

size_t gmv__registry_bury(gmv_registry *registry, gmv_node *dead, gmv_deletion *deletion)
{
    burial at = {.head = dead, .pending = dead, .tail = dead};
    const gmv_kind dead_kind = dead->id.kind; /* of its order: a session has no owners */
    size_t n_freed = 0;
    dead->work_next = NULL;
    while (at.head) {
        graph_lock(registry);
        burial_step(registry, &at);
        gmv_order_chunk *surplus = gmv__order_take_surplus(registry_order(registry, dead_kind));
        graph_unlock(registry);
        gmv__order_free_chunks(surplus);
        while (at.head != at.pending) {
            gmv_node *next = at.head->work_next;
            node_destroy(registry, at.head, deletion);
            at.head = next;
            n_freed++;
        }
    }
    if (deletion) {
        deletion->freed_count += n_freed;
        deletion->freed_nbytes += at.nbytes;
    }
    return n_freed;
}

/* ---- giving references back ---- */

void gmv__registry_leave(gmv_registry *registry, gmv_node *dead)
{
    gmv_node *top = atomic_load_explicit(&registry->reapable, memory_order_relaxed);
    do
        dead->work_next = top;
    while (!atomic_compare_exchange_weak_explicit(&registry->reapable, &top, dead,
                                                  memory_order_release, memory_order_relaxed));
    if (!top && registry->notify)
        registry->notify(registry->notify_context);
}

size_t gmv_registry_reap(gmv_registry *registry)
{
    gmv_node *stack = atomic_exchange_explicit(&registry->reapable, NULL, memory_order_acquire);
    gmv_node *oldest = NULL;
    while (stack) {
        gmv_node *next = stack->work_next;
        stack->work_next = oldest;
        oldest = stack;
        stack = next;
    }
    size_t n_freed = 0;
    while (oldest) {
        gmv_node *next = oldest->work_next;
        n_freed += gmv__registry_bury(registry, oldest, NULL);
        oldest = next;
    }
    return n_freed;
}

void gmv_registry_release(gmv_registry *registry, gmv_node *node, bool may_block)
{
    if (!node)
        return;
    atomic_fetch_sub_explicit(&node->in_flight, 1, memory_order_relaxed);
    if (!node_unreference(node))
        return;
    if (may_block)
        gmv__registry_bury(registry, node, NULL);
    else
        gmv__registry_leave(registry, node);
}

/* ---- taking names ---- */

/* What one step of a cascade has to tell once the lock is given up. */
typedef struct cascade_news {
    gmv_node *nodes[REGISTRY_STEP];
    size_t n_nodes;
    uint64_t deleted;
} cascade_news;

/*
 * Marks a node and puts it at the end of the list, which holds one reference on it: its name's, or
 * one of its own. A dead one needs nothing: it has no dependents.
 */
static void cascade_mark(gmv_registry *registry, gmv_cascade *cascade, gmv_node *node,
                         cascade_news *news)
{
    if (node->state == STATE_NAMED) {
        news->deleted++;
        if (gmv__node_take_name(registry, node, GMV_REASON_CASCADE))
            news->nodes[news->n_nodes++] = node;
    } else if (!gmv__node_try_reference(node)) {
        return;
    } else if (node->state == STATE_INNER) {
        gmv__node_set_state(registry, node, STATE_DELETED, GMV_REASON_CASCADE);
        gmv__node_drop_ranges(registry, node);
    }
    node->flags |= FLAG_MARKED;
    node->work_next = NULL;
    cascade->tail->work_next = node;
    cascade->tail = node;
}

/* One hold of the graph lock: looks at a bounded number of dependents. False at the end. */
static bool cascade_step(gmv_registry *registry, gmv_cascade *cascade, cascade_news *news)
{
    for (unsigned budget = REGISTRY_STEP; budget > 0; budget--) {
        if (!cascade->cursor) {
            cascade->expanding = cascade->expanding->work_next;
            if (!cascade->expanding)
                return false;
            cascade->cursor = cascade->expanding->dependents_head;
            continue;
        }
        gmv_node *dependent = cascade->cursor->dependent;
        cascade->cursor = cascade->cursor->next;
        if (!(dependent->flags & FLAG_MARKED))
            cascade_mark(registry, cascade, dependent, news);
    }
    return true;
}

/* Under the graph lock, in the hold that took the root's name. */
static void cascade_begin(gmv_registry *registry, gmv_cascade *cascade, gmv_node *root)
{
    root->flags |= FLAG_MARKED;
    root->work_next = NULL;
    *cascade = (gmv_cascade){
        .root = root,
        .tail = root,
        .expanding = root,
        .cursor = root->dependents_head,
        .next = registry->cascades,
    };
    registry->cascades = cascade;
}

static void cascade_unregister(gmv_registry *registry, gmv_cascade *cascade)
{
    gmv_cascade **link = &registry->cascades;
    while (*link != cascade)
        link = &(*link)->next;
    *link = cascade->next;
}

static void cascade_mark_all(gmv_registry *registry, gmv_cascade *cascade, gmv_deletion *deletion)
{
    bool more;
    do {
        cascade_news news;
        news.n_nodes = 0;
        news.deleted = 0;
        graph_lock(registry);
        more = cascade_step(registry, cascade, &news);
        if (!more)
            cascade_unregister(registry, cascade);
        graph_unlock(registry);
        deletion->deleted += news.deleted;
        for (size_t i = 0; i < news.n_nodes; i++)
            registry_observe(registry, GMV_EVENT_DELETED, news.nodes[i]);
    } while (more);
}

/*
 * Gives the list's references back in the order of the list, all but the root's: what dies is freed
 * at once, then what only it kept alive.
 */
static void cascade_drop_all(gmv_registry *registry, gmv_cascade *cascade, gmv_deletion *deletion)
{
    gmv_node *node = cascade->root->work_next;
    while (node) {
        gmv_node *next = node->work_next;
        if (node_unreference(node))
            gmv__registry_bury(registry, node, deletion);
        node = next;
    }
}

/* ---- deleting ---- */

gmv_status gmv__registry_fail_inner(const gmv_id *id, gmv_error *err)
{
    char text[GMV_ID_TEXT_MAX];
    gmv_id_format(id, text);
    return gmv_fail(err, GMV_ERR_HANDLE_INNER, NULL,
                    "the handle %s lies inside another and goes with it; delete that one", text);
}

static gmv_status delete_check_held(const gmv_node *node, gmv_error *err)
{
    gmv_id ids[GMV_ERROR_IDS_MAX];
    size_t n_ids;
    uint64_t held_by = gmv__node_dependents(node, ids, GMV_ERROR_IDS_MAX, &n_ids);
    if (held_by == 0)
        return GMV_OK;
    char text[GMV_ID_TEXT_MAX];
    gmv_id_format(&node->id, text);
    gmv_status status = gmv_fail(err, GMV_ERR_HELD_BY_DEPENDENTS, NULL, "%llu handles depend on %s",
                                 (unsigned long long)held_by, text);
    if (err) {
        err->dependents_count = (size_t)held_by;
        memcpy(err->dependents, ids, n_ids * sizeof ids[0]);
    }
    return status;
}

/* Under the graph lock: everything that may refuse, before anything changes. */
static gmv_status delete_check(const gmv_caller *caller, const gmv_node *node, gmv_kind kind,
                               gmv_if_held if_held, gmv_error *err)
{
    GMV_TRY(gmv__registry_judge(caller, node, kind, NULL, err));
    if (node->state == STATE_INNER)
        return gmv__registry_fail_inner(&node->id, err);
    return if_held == GMV_IF_HELD_REFUSE ? delete_check_held(node, err) : GMV_OK;
}

/* Says who keeps the node alive, then gives up the reference that was its name's. */
static void delete_finish(gmv_registry *registry, gmv_node *node, gmv_deletion *deletion)
{
    graph_lock(registry);
    deletion->kept_alive_by_count = gmv__node_dependents(
        node, deletion->kept_alive_by, GMV_ERROR_IDS_MAX, &deletion->n_kept_alive_by);
    deletion->in_flight = atomic_load_explicit(&node->in_flight, memory_order_relaxed);
    graph_unlock(registry);
    deletion->alive = true;
    if (!node_unreference(node))
        return;
    gmv__registry_bury(registry, node, deletion);
    deletion->alive = false;
    deletion->kept_alive_by_count = 0;
    deletion->n_kept_alive_by = 0;
    deletion->in_flight = 0;
}

static void deletion_init(gmv_deletion *deletion, const gmv_id *id)
{
    deletion->id = *id;
    deletion->deleted = 1;
    deletion->freed_count = deletion->freed_nbytes = 0;
    deletion->n_freed = 0;
}

gmv_status gmv_registry_delete(gmv_registry *registry, const gmv_caller *caller, const gmv_id *id,
                               gmv_kind kind, gmv_if_held if_held, gmv_deletion *out_deletion,
                               gmv_error *err)
{
    gmv_cascade cascade;
    bool tell = false;
    /* What is dead already must not look like a dependent. */
    gmv_registry_reap(registry);
    graph_lock(registry);
    gmv_node *node = gmv__registry_find(registry, id);
    gmv_status status = node ? delete_check(caller, node, kind, if_held, err)
                             : gmv__registry_fail_absent(registry, caller, id, NULL, err);
    if (node && status == GMV_OK) {
        tell = gmv__node_take_name(registry, node, GMV_REASON_DELETED);
        if (if_held == GMV_IF_HELD_CASCADE)
            cascade_begin(registry, &cascade, node);
    }
    graph_unlock(registry);
    if (status != GMV_OK || !node)
        return status;
    if (tell)
        registry_observe(registry, GMV_EVENT_DELETED, node);
    deletion_init(out_deletion, id);
    if (if_held == GMV_IF_HELD_CASCADE) {
        cascade_mark_all(registry, &cascade, out_deletion);
        cascade_drop_all(registry, &cascade, out_deletion);
    }
    delete_finish(registry, node, out_deletion);
    return GMV_OK;
}

/* ---- giving owners up ---- */

/*
 * Under the graph lock. One that a cascade reached stays deleted; a named one stays as it is. In a
 * session that has ended the name goes as all others did.
 */
static void node_give_name(gmv_registry *registry, gmv_node *node, const gmv_node *giver)
{
    if (node->state != STATE_INNER)
        return;
    if (node->session && atomic_load_explicit(&node->session->ended, memory_order_relaxed)) {
        gmv__node_set_state(registry, node, STATE_DELETED, GMV_REASON_SESSION_ENDED);
        gmv__node_drop_ranges(registry, node);
        return;
    }
    gmv__node_share_lease(registry, node, giver);
    gmv__node_set_state(registry, node, STATE_NAMED, GMV_REASON_NONE);
    gmv__node_enter_life(registry, node);
    registry->counts.named[node->id.kind]++;
    node_reference(node);
}

/* Under the graph lock: unlinks the next few edges, and collects the owners that die by it. */
static gmv_node *disown_step(gmv_registry *registry, gmv_edge *edges, uint32_t n_edges,
                             uint32_t *done)
{
    gmv_node *dead = NULL;
    for (unsigned budget = REGISTRY_STEP; *done < n_edges && budget > 0; budget--) {
        gmv_edge *edge = &edges[(*done)++];
        if (gmv__edge_unlink(registry, edge)) {
            edge->owner->work_next = dead;
            dead = edge->owner;
        }
    }
    return dead;
}

bool gmv_registry_disown(gmv_registry *registry, gmv_node *node, size_t named, gmv_node **out_named)
{
    graph_lock(registry);
    gmv_edge *edges = node->edges;
    uint32_t n_edges = node->n_owners, done = 0;
    if (named >= n_edges) {
        graph_unlock(registry);
        return false;
    }
    node->edges = NULL;
    node->n_owners = 0;
    gmv_node *owner = edges[named].owner;
    gmv_registry_hold(registry, owner);
    node_give_name(registry, owner, node);
    for (;;) {
        gmv_node *dead = disown_step(registry, edges, n_edges, &done);
        graph_unlock(registry);
        while (dead) {
            gmv_node *next = dead->work_next;
            gmv__registry_leave(registry, dead);
            dead = next;
        }
        if (done == n_edges)
            break;
        graph_lock(registry);
    }
    gmv_free(edges);
    *out_named = owner;
    return true;
}
