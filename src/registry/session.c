/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions. Ending one takes its own name first: from that moment nothing enters it and all its
 * names are over, whatever else may take them. They are then collected in bounded steps, and
 * freed newest first, so that each object dies as early as it can.
 */
#include <string.h>

#include <gmv/base/alloc.h>
#include <gmv/base/clock.h>
#include <gmv/base/num.h>

#include "registry/registry_priv.h"

/* Owners that are looked at to tell which of a session's handles a dependent counts for. */
#define SESSION_OWNERS_LOOK 4096u

static void session_destroy(gmv_node *node)
{
    gmv_free(session_of(node));
}

static const gmv_node_class session_class = {.kind = GMV_KIND_SESSION, .destroy = session_destroy};

const gmv_id *gmv_session_id(const gmv_session *session)
{
    return &session->node.id;
}

/* Under the graph lock. */
static void session_fill_info(const gmv_session *session, gmv_session_info *info)
{
    const gmv_node *node = &session->node;
    info->id = node->id;
    info->has_label = gmv__node_copy_label(node, info->label);
    info->ttl_seconds = session->ttl_seconds;
    info->created_at_ms = node->created_at_ms;
    info->expires_at_ms = gmv_node_expires_at_ms(node);
    info->handles = session->n_members;
}

/* ---- beginning ---- */

gmv_status gmv_session_create(gmv_registry *registry, const gmv_caller *caller, const char *label,
                              size_t label_length, uint32_t ttl_seconds, gmv_session_info *out_info,
                              gmv_error *err)
{
    if (ttl_seconds < 1 || ttl_seconds > GMV_SESSION_SECONDS_MAX)
        return gmv_fail(err, GMV_ERR_VALUE, "/ttl_seconds",
                        "the lease of a session is 1 to %d seconds", GMV_SESSION_SECONDS_MAX);
    gmv_session *session = gmv_calloc(1, sizeof *session);
    if (!session)
        return gmv_fail_no_memory(err);
    gmv_caller alone = *caller;
    alone.session = NULL; /* sessions do not nest */
    const gmv_node_attributes attributes = {
        .caller = &alone,
        .label = label,
        .label_length = label_length,
        .ttl_seconds = ttl_seconds,
    };
    gmv_node *node = &session->node;
    gmv_status status = gmv_node_prepare(registry, node, &session_class, &attributes, NULL, 0, err);
    if (status != GMV_OK) {
        gmv_free(session);
        return status;
    }
    session->ttl_seconds = ttl_seconds;
    gmv_registry_publish(registry, &node, 1);
    graph_lock(registry);
    session_fill_info(session, out_info);
    graph_unlock(registry);
    gmv_registry_release(registry, node, false);
    return GMV_OK;
}

/* ---- bearing ---- */

gmv_status gmv_session_enter(gmv_registry *registry, const gmv_caller *caller, const gmv_id *id,
                             gmv_session **out_session, gmv_error *err)
{
    if (id->kind != GMV_KIND_SESSION)
        return gmv__registry_fail_unknown(id, NULL, err);
    gmv_shard *shard = registry_shard(registry, id);
    pthread_mutex_lock(&shard->lock);
    gmv_node *node = gmv__shard_find(shard, id);
    gmv_status status = GMV_OK;
    if (node)
        status = gmv__registry_judge(caller, node, GMV_KIND_SESSION, NULL, err);
    if (node && status == GMV_OK) {
        node_reference(node); /* its name stands */
        atomic_fetch_add_explicit(&node->in_flight, 1, memory_order_relaxed);
        gmv__node_set_lease(node, session_of(node)->ttl_seconds);
        *out_session = session_of(node);
    }
    pthread_mutex_unlock(&shard->lock);
    return node ? status : gmv__registry_fail_absent(registry, caller, id, NULL, err);
}

void gmv_session_leave(gmv_registry *registry, gmv_session *session)
{
    if (!session)
        return;
    gmv_node *node = &session->node;
    gmv_shard *shard = registry_shard(registry, &node->id);
    pthread_mutex_lock(&shard->lock);
    if (node->state == STATE_NAMED && gmv__node_over(node) == GMV_REASON_NONE)
        gmv__node_set_lease(node, session->ttl_seconds);
    pthread_mutex_unlock(&shard->lock);
    gmv_registry_release(registry, node, false);
}

void gmv__session_unreference(gmv_registry *registry, gmv_session *session)
{
    if (session && node_unreference(&session->node))
        gmv__registry_bury(registry, &session->node, NULL);
}

/* ---- looking ---- */

gmv_status gmv_session_describe(gmv_registry *registry, const gmv_caller *caller, const gmv_id *id,
                                gmv_session_info *out_info, gmv_error *err)
{
    graph_lock(registry);
    gmv_node *node = gmv__registry_find(registry, id);
    gmv_status status = node ? gmv__registry_judge(caller, node, GMV_KIND_SESSION, NULL, err)
                             : gmv__registry_fail_absent(registry, caller, id, NULL, err);
    if (node && status == GMV_OK)
        session_fill_info(session_of(node), out_info);
    graph_unlock(registry);
    return status;
}

/* Where a list stands. */
typedef struct session_walk {
    const gmv_caller *caller;
    uint64_t cursor; /* the last number seen */
    bool at_end;
} session_walk;

static bool session_is_listed(const gmv_caller *caller, const gmv_node *node)
{
    return caller_sees(caller, node->principal) && node->state == STATE_NAMED &&
           gmv__node_over(node) == GMV_REASON_NONE;
}

/* One hold of the graph lock. */
static bool session_list_step(gmv_registry *registry, session_walk *walk, gmv_session_info *info)
{
    const gmv_order *order = &registry->sessions;
    gmv_order_position position = gmv__order_seek(order, walk->cursor);
    uint64_t sequence;
    for (unsigned budget = REGISTRY_STEP; budget > 0; budget--) {
        gmv_node *node = gmv__order_next(order, &position, &sequence);
        walk->at_end = node == NULL;
        if (!node)
            return false;
        walk->cursor = sequence;
        if (session_is_listed(walk->caller, node)) {
            session_fill_info(session_of(node), info);
            walk->at_end = gmv__order_next(order, &position, &sequence) == NULL;
            return true;
        }
    }
    return false;
}

void gmv_session_list(gmv_registry *registry, const gmv_caller *caller, uint64_t cursor,
                      size_t limit, void (*visit)(void *context, const gmv_session_info *info),
                      void *context, uint64_t *out_cursor)
{
    session_walk walk = {.caller = caller, .cursor = cursor};
    gmv_session_info info;
    size_t n = 0;
    for (unsigned steps = 0;
         n < limit && !walk.at_end && steps < limit + REGISTRY_LIST_PASS / REGISTRY_STEP; steps++) {
        graph_lock(registry);
        bool found = session_list_step(registry, &walk, &info);
        graph_unlock(registry);
        if (found) {
            visit(context, &info);
            n++;
        }
    }
    *out_cursor = walk.at_end ? 0 : walk.cursor;
}

/* ---- ending ---- */

/* What one step has to tell once the lock is given up. */
typedef struct ending_news {
    gmv_node *nodes[REGISTRY_STEP];
    size_t n_nodes;
} ending_news;

/*
 * One hold of the graph lock: takes the newest names and puts their nodes behind *tail, linked by
 * member_next. False at the end.
 */
static bool ending_step(gmv_registry *registry, gmv_session *session, gmv_node ***tail,
                        ending_news *news, uint64_t *deleted)
{
    for (unsigned budget = REGISTRY_STEP; session->last && budget > 0; budget--) {
        gmv_node *node = session->last;
        if (gmv__node_take_name(registry, node, GMV_REASON_SESSION_ENDED))
            news->nodes[news->n_nodes++] = node;
        **tail = node;
        *tail = &node->member_next;
        (*deleted)++;
    }
    return session->last != NULL;
}

/* Nobody enters any more. Returns the list of nodes, newest first, each with its name's reference.
 */
static gmv_node *ending_collect(gmv_registry *registry, gmv_session *session, uint64_t *deleted)
{
    gmv_node *head = NULL;
    gmv_node **tail = &head;
    bool more;
    do {
        ending_news news;
        news.n_nodes = 0;
        graph_lock(registry);
        more = ending_step(registry, session, &tail, &news, deleted);
        graph_unlock(registry);
        for (size_t i = 0; i < news.n_nodes; i++)
            registry_observe(registry, GMV_EVENT_DELETED, news.nodes[i]);
    } while (more);
    return head;
}

/*
 * Whether a dependent lies outside of the session and `node` is the first of its owners that
 * belongs to it, so that it counts once.
 */
static bool ending_counts_for(const gmv_node *dependent, const gmv_node *node, unsigned *look)
{
    if (dependent->session == node->session)
        return false;
    for (uint32_t i = 0; i<dependent->n_owners && * look> 0; i++, (*look)--) {
        const gmv_node *owner = dependent->edges[i].owner;
        if (owner->session == node->session)
            return owner == node;
    }
    return true;
}

/* Under the graph lock: who keeps the node alive from outside of its session. */
static void ending_find_holders(const gmv_node *node, gmv_deletion *deletion)
{
    unsigned look = SESSION_OWNERS_LOOK, edges = REGISTRY_DEPENDENTS_LOOK;
    for (const gmv_edge *edge = node->dependents_head; edge && edges > 0;
         edge = edge->next, edges--) {
        const gmv_node *dependent = edge->dependent;
        if (!node_is_alive(dependent) || !ending_counts_for(dependent, node, &look))
            continue;
        deletion->kept_alive_by_count++;
        if (deletion->n_kept_alive_by < GMV_ERROR_IDS_MAX)
            deletion->kept_alive_by[deletion->n_kept_alive_by++] = dependent->id;
    }
}

/* Gives up the reference that was a name's. */
static void ending_drop(gmv_registry *registry, gmv_node *node, gmv_deletion *deletion)
{
    if (deletion) {
        size_t n_listed = deletion->n_kept_alive_by;
        uint64_t counted = deletion->kept_alive_by_count;
        graph_lock(registry);
        ending_find_holders(node, deletion);
        unsigned in_flight = atomic_load_explicit(&node->in_flight, memory_order_relaxed);
        graph_unlock(registry);
        if (!node_unreference(node)) {
            deletion->alive = true;
            deletion->in_flight += in_flight;
            return;
        }
        deletion->n_kept_alive_by = n_listed;
        deletion->kept_alive_by_count = counted;
    } else if (!node_unreference(node)) {
        return;
    }
    gmv__registry_bury(registry, node, deletion);
}

void gmv__session_finish(gmv_registry *registry, gmv_session *session, gmv_deletion *deletion)
{
    uint64_t deleted = 0;
    gmv_node *node = ending_collect(registry, session, &deleted);
    while (node) {
        gmv_node *next = node->member_next;
        ending_drop(registry, node, deletion);
        node = next;
    }
    if (deletion)
        deletion->deleted = deleted;
    gmv__session_unreference(registry, session);
}

gmv_status gmv_session_end(gmv_registry *registry, const gmv_caller *caller, const gmv_id *id,
                           gmv_deletion *out_deletion, gmv_error *err)
{
    bool tell = false;
    gmv_registry_reap(registry);
    graph_lock(registry);
    gmv_node *node = gmv__registry_find(registry, id);
    gmv_status status = node ? gmv__registry_judge(caller, node, GMV_KIND_SESSION, NULL, err)
                             : gmv__registry_fail_absent(registry, caller, id, NULL, err);
    if (node && status == GMV_OK) {
        atomic_store_explicit(&session_of(node)->ended, true, memory_order_release);
        tell = gmv__node_take_name(registry, node, GMV_REASON_DELETED);
    }
    graph_unlock(registry);
    if (status != GMV_OK || !node)
        return status;
    if (tell)
        registry_observe(registry, GMV_EVENT_DELETED, node);
    *out_deletion = (gmv_deletion){.id = *id};
    gmv__session_finish(registry, session_of(node), out_deletion);
    return GMV_OK;
}
