/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names and how long they stand: leases, the sessions that names belong to, and the end of both.
 * A deadline is written under the shard's lock, so that a look-up, a renewal and the end of a lease
 * never disagree; the wheel only says where to look.
 */
#include <gmv/base/clock.h>
#include <gmv/base/num.h>

#include "registry/registry_priv.h"

#define LEASE_NS_PER_SECOND INT64_C(1000000000)

/* ---- what stands ---- */

gmv_reason gmv__node_over(const gmv_node *node)
{
    if (node->state != STATE_NAMED)
        return GMV_REASON_NONE;
    const gmv_session *session = node->session;
    if (session &&
        atomic_load_explicit(&((gmv_session *)(uintptr_t)session)->ended, memory_order_acquire))
        return GMV_REASON_SESSION_ENDED;
    if (!session && node_deadline(node) == 0)
        return GMV_REASON_NONE;
    /* The time comes first: a renewal that is seen late can then only make the answer "stands". */
    int64_t now = gmv_clock_monotonic_ns();
    int64_t deadline = node_deadline(node);
    if (deadline != 0 && now >= deadline)
        return GMV_REASON_LEASE_EXPIRED;
    return session && now >= node_deadline(&session->node) ? GMV_REASON_SESSION_ENDED
                                                           : GMV_REASON_NONE;
}

/* ---- names come and go ---- */

void gmv__node_set_lease(gmv_node *node, uint32_t ttl_seconds)
{
    int64_t deadline = 0, expires_at = 0;
    if (ttl_seconds > 0) {
        deadline = gmv_clock_monotonic_ns() + (int64_t)ttl_seconds * LEASE_NS_PER_SECOND;
        expires_at = gmv_clock_wall_ms() + (int64_t)ttl_seconds * 1000;
    }
    atomic_store_explicit(&node->expires_at_ms, expires_at, memory_order_relaxed);
    atomic_store_explicit(&node->deadline_ns, deadline, memory_order_release);
}

void gmv__node_share_lease(gmv_registry *registry, gmv_node *node, const gmv_node *from)
{
    gmv_shard *shard = registry_shard(registry, &node->id);
    int64_t expires_at = gmv_node_expires_at_ms(from);
    pthread_mutex_lock(&shard->lock);
    atomic_store_explicit(&node->expires_at_ms, expires_at, memory_order_relaxed);
    atomic_store_explicit(&node->deadline_ns, node_deadline(from), memory_order_release);
    pthread_mutex_unlock(&shard->lock);
}

void gmv__node_enter_life(gmv_registry *registry, gmv_node *node)
{
    gmv_session *session = node->session;
    int64_t deadline = node_deadline(node);
    if (deadline != 0)
        gmv__wheel_put(&registry->wheel, node, deadline);
    if (!session)
        return;
    node->member_next = NULL;
    node->member_previous = session->last;
    if (session->last)
        session->last->member_next = node;
    else
        session->first = node;
    session->last = node;
    session->n_members++;
}

void gmv__node_leave_life(gmv_registry *registry, gmv_node *node)
{
    gmv_session *session = node->session;
    gmv__wheel_remove(&registry->wheel, node);
    if (!session)
        return;
    if (node->member_previous)
        node->member_previous->member_next = node->member_next;
    else
        session->first = node->member_next;
    if (node->member_next)
        node->member_next->member_previous = node->member_previous;
    else
        session->last = node->member_previous;
    node->member_previous = node->member_next = NULL;
    session->n_members--;
}

bool gmv__node_take_name(gmv_registry *registry, gmv_node *node, gmv_reason reason)
{
    gmv_reason over = gmv__node_over(node);
    gmv__node_set_state(registry, node, STATE_DELETED, (uint8_t)(over ? over : reason));
    gmv__node_leave_life(registry, node);
    gmv__node_drop_ranges(registry, node);
    registry->counts.named[node->id.kind]--;
    if (node->flags & FLAG_ANNOUNCED)
        return true;
    node->flags |= FLAG_UNHEARD;
    return false;
}

/* ---- leases ---- */

static void node_change_lease(gmv_registry *registry, gmv_node *node, uint32_t ttl_seconds)
{
    gmv_shard *shard = registry_shard(registry, &node->id);
    pthread_mutex_lock(&shard->lock);
    gmv__node_set_lease(node, ttl_seconds);
    pthread_mutex_unlock(&shard->lock);
    gmv__wheel_remove(&registry->wheel, node);
    if (ttl_seconds > 0)
        gmv__wheel_put(&registry->wheel, node, node_deadline(node));
}

static gmv_status lease_check(const gmv_caller *caller, const gmv_node *node, gmv_error *err)
{
    GMV_TRY(gmv__registry_judge(caller, node, GMV_KIND_ANY, NULL, err));
    return node->state == STATE_INNER ? gmv__registry_fail_inner(&node->id, err) : GMV_OK;
}

gmv_status gmv_registry_lease(gmv_registry *registry, const gmv_caller *caller, const gmv_id *id,
                              uint32_t ttl_seconds, gmv_handle_info *out_info, gmv_error *err)
{
    if (ttl_seconds > GMV_LEASE_SECONDS_MAX)
        return gmv_fail(err, GMV_ERR_VALUE, "/ttl_seconds", "a lease lasts at most %d seconds",
                        GMV_LEASE_SECONDS_MAX);
    graph_lock(registry);
    gmv_node *node = gmv__registry_find(registry, id);
    gmv_status status = node ? lease_check(caller, node, err)
                             : gmv__registry_fail_absent(registry, caller, id, NULL, err);
    if (node && status == GMV_OK) {
        node_change_lease(registry, node, ttl_seconds);
        gmv__node_fill_info(node, out_info);
    }
    graph_unlock(registry);
    return status;
}

/* ---- the end of leases ---- */

/* What one hold of the graph lock has to tell and to free once the lock is given up. */
typedef struct expiry {
    gmv_node *nodes[REGISTRY_STEP];
    bool tells[REGISTRY_STEP];
    size_t n_nodes;
    unsigned budget; /* what is left of it */
} expiry;

/*
 * Under the graph lock, a node from the wheel. A session's lease may have been renewed since it was
 * put there, or may be at this moment: its shard's lock decides. From then on its names are over.
 */
static bool session_end_if_due(gmv_registry *registry, gmv_session *session, int64_t now)
{
    gmv_shard *shard = registry_shard(registry, &session->node.id);
    pthread_mutex_lock(&shard->lock);
    bool is_due = node_deadline(&session->node) <= now;
    if (is_due)
        atomic_store_explicit(&session->ended, true, memory_order_release);
    pthread_mutex_unlock(&shard->lock);
    return is_due;
}

/* One hold of the graph lock. */
static void expiry_step(gmv_registry *registry, expiry *at)
{
    int64_t now = gmv_clock_monotonic_ns();
    int64_t earliest = now;
    gmv_node *node;
    while (at->budget > 0 &&
           (node = gmv__wheel_take_due(&registry->wheel, now, &at->budget)) != NULL) {
        int64_t deadline = node_deadline(node);
        if (node_is_session(node) && !session_end_if_due(registry, session_of(node), now)) {
            gmv__wheel_put(&registry->wheel, node, node_deadline(node));
            continue;
        }
        earliest = GMV_MIN(earliest, deadline);
        at->tells[at->n_nodes] = gmv__node_take_name(registry, node, GMV_REASON_LEASE_EXPIRED);
        at->nodes[at->n_nodes++] = node;
    }
    if (at->n_nodes > 0) {
        registry->n_expired += at->n_nodes;
        registry->expiry_lag_ns = now - earliest;
    }
}

size_t gmv_registry_expire(gmv_registry *registry)
{
    expiry at;
    at.n_nodes = 0;
    do {
        at.budget = REGISTRY_STEP;
        graph_lock(registry);
        expiry_step(registry, &at);
        graph_unlock(registry);
    } while (at.n_nodes == 0 && at.budget == 0);
    for (size_t i = 0; i < at.n_nodes; i++) {
        gmv_node *node = at.nodes[i];
        if (at.tells[i])
            registry_observe(registry, GMV_EVENT_DELETED, node);
        if (node_is_session(node))
            gmv__session_finish(registry, session_of(node), NULL);
        else if (node_unreference(node))
            gmv__registry_bury(registry, node, NULL);
    }
    return at.n_nodes;
}

int64_t gmv_registry_next_expiry_ns(gmv_registry *registry)
{
    graph_lock(registry);
    int64_t next = gmv__wheel_next_ns(&registry->wheel);
    graph_unlock(registry);
    return next;
}

void gmv_registry_count_leases(gmv_registry *registry, gmv_lease_counts *out_counts)
{
    int64_t now = gmv_clock_monotonic_ns();
    graph_lock(registry);
    int64_t next = gmv__wheel_next_ns(&registry->wheel);
    out_counts->expired = registry->n_expired;
    out_counts->lag_ns = next < now ? now - next : registry->expiry_lag_ns;
    graph_unlock(registry);
}
