/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the registry share.
 *
 * Order of locks: graph, then one shard, then tombstones. No callback (destroy, observe, notify,
 * visit) runs under any of them; nbytes, device and freed_nbytes of a class may.
 *
 * Who may touch a node. Whoever holds a reference; whoever found it in the hash, in the order of
 * creation or in a list of dependents, for as long as the graph lock is held since; and the thread
 * that took its references to zero, which alone buries it. A node leaves all three places under the
 * graph lock before it is destroyed.
 *
 * Who owns work_next. While the node has references: the one cascade that set FLAG_MARKED on it,
 * which holds a reference until it has read the link for the last time. Without references: the
 * thread that took the last one, or the stack of reapable nodes that it gave the node to. A node is
 * marked once and dies once, and it cannot die while a cascade holds it, so no two lists ever share
 * the link.
 */
#ifndef GMV_REGISTRY_PRIV_H
#define GMV_REGISTRY_PRIV_H

#include <pthread.h>

#include <gmv/registry/registry.h>

#include "registry/order.h"
#include "registry/shard.h"
#include "registry/tombstones.h"
#include "registry/wheel.h"

#define REGISTRY_SHARDS 64u

/* Edges and nodes handled in one hold of the graph lock. */
#define REGISTRY_STEP 256u

/* Handles that one page of a list passes over before it ends short. */
#define REGISTRY_LIST_PASS 4096u

/* Dependents that are looked at to tell the living from those that are dead but not yet buried. */
#define REGISTRY_DEPENDENTS_LOOK 1024u

/* gmv_node.state */
enum { STATE_PREPARED, STATE_INNER, STATE_NAMED, STATE_DELETED };

/*
 * A session: the names that belong to it, oldest first, guarded by the graph lock. Its lease is
 * renewed under its shard's lock alone, so that the wheel may hold it under an earlier deadline.
 */
struct gmv_session {
    gmv_node node;
    uint32_t ttl_seconds;
    GMV_ATOMIC(bool) ended; /* its name is gone */
    uint64_t n_members;
    gmv_node *first, *last;
};

/* gmv_node.flags */
enum {
    FLAG_MARKED = 1,    /* reached by a cascade, and so is all that depends on it */
    FLAG_ANNOUNCED = 2, /* observers have heard of its creation */
    FLAG_UNHEARD = 4    /* its name went before that: who announces it tells that next */
};

/* A cascade under way: breadth first over dependents, threaded through work_next from the root. */
typedef struct gmv_cascade {
    gmv_node *root;
    gmv_node *tail;
    gmv_node *expanding; /* whose dependents are being marked */
    gmv_edge *cursor;    /* the next of them; moved on by whoever unlinks that edge */
    struct gmv_cascade *next;
} gmv_cascade;

/*
 * A mutex that serves whoever waits before it lets the last holder in again: work in many short
 * steps would otherwise keep others out for its whole length.
 */
typedef struct gmv_graph_lock {
    pthread_mutex_t turn;
    pthread_mutex_t mutex;
} gmv_graph_lock;

struct gmv_registry {
    gmv_registry_options options;
    atomic_uint_fast64_t n_handles; /* prepared or alive */
    _Atomic(gmv_node *) reapable;   /* a stack of dead nodes */
    void (*notify)(void *context);
    void *notify_context;
    gmv_graph_lock graph; /* guards from here... */
    gmv_order order;      /* of handles */
    gmv_order sessions;   /* of these */
    gmv_wheel wheel;      /* of names with leases */
    uint64_t n_expired;
    int64_t expiry_lag_ns; /* of the last ones that ran out */
    gmv_address_index addresses;
    gmv_cascade *cascades;
    gmv_registry_counts counts; /* ...to here */
    gmv_tombstones tombstones;
    gmv_shard shards[REGISTRY_SHARDS];
};

static inline void graph_lock(gmv_registry *registry)
{
    pthread_mutex_lock(&registry->graph.turn);
    pthread_mutex_lock(&registry->graph.mutex);
    pthread_mutex_unlock(&registry->graph.turn);
}

static inline void graph_unlock(gmv_registry *registry)
{
    pthread_mutex_unlock(&registry->graph.mutex);
}

static inline gmv_shard *registry_shard(gmv_registry *registry, const gmv_id *id)
{
    return &registry->shards[id->low % REGISTRY_SHARDS];
}

static inline bool caller_sees(const gmv_caller *caller, uint32_t principal)
{
    return caller->sees_all || caller->principal == principal;
}

static inline bool node_is_alive(const gmv_node *node)
{
    return atomic_load_explicit(&((gmv_node *)(uintptr_t)node)->references, memory_order_relaxed) >
           0;
}

/* For a node that the caller holds, or whose name stands. */
static inline void node_reference(gmv_node *node)
{
    atomic_fetch_add_explicit(&node->references, 1, memory_order_relaxed);
}

/* False if the node is dead. */
bool gmv__node_try_reference(gmv_node *node);

/* True if that was the last one: the caller must bury the node, or have it reaped. */
static inline bool node_unreference(gmv_node *node)
{
    return atomic_fetch_sub_explicit(&node->references, 1, memory_order_acq_rel) == 1;
}

static inline gmv_order *registry_order(gmv_registry *registry, gmv_kind kind)
{
    return kind == GMV_KIND_SESSION ? &registry->sessions : &registry->order;
}

static inline bool node_is_session(const gmv_node *node)
{
    return node->id.kind == GMV_KIND_SESSION;
}

static inline gmv_session *session_of(gmv_node *node)
{
    return (gmv_session *)(void *)node;
}

/* The member is only read. */
static inline int64_t node_deadline(const gmv_node *node)
{
    return atomic_load_explicit(&((gmv_node *)(uintptr_t)node)->deadline_ns, memory_order_acquire);
}

/*
 * Why a name that still stands is over: its own lease has run out, or its session has ended or is
 * over. GMV_REASON_NONE while it is good, and for nodes without a name. Under the graph lock or the
 * lock of the node's shard.
 */
gmv_reason gmv__node_over(const gmv_node *node);

/* ---- under the graph lock ---- */

/* Takes the edge out of its owner's dependents. True if the owner died by that. */
bool gmv__edge_unlink(gmv_registry *registry, gmv_edge *edge);
void gmv__edge_link(gmv_edge *edge);

/* Writes state and reason, under the shard's lock too. */
void gmv__node_set_state(gmv_registry *registry, gmv_node *node, uint8_t state, uint8_t reason);

/*
 * Takes the name of a named node, and what hangs on it: lease, session, ranges. The name's
 * reference passes to the caller. One that is over gets the reason for that. True if the caller has
 * to tell the observer; false if there is none, or if that is left to who announces the node's
 * creation.
 */
bool gmv__node_take_name(gmv_registry *registry, gmv_node *node, gmv_reason reason);

/* Enters a named node into its session's names and the wheel. */
void gmv__node_enter_life(gmv_registry *registry, gmv_node *node);

/* Takes it out of both. */
void gmv__node_leave_life(gmv_registry *registry, gmv_node *node);

/* The lease of a node ends in `ttl_seconds`, or, with 0, never. Under the shard's lock too, once
 * published. */
void gmv__node_set_lease(gmv_node *node, uint32_t ttl_seconds);

/* Gives a node that has no name yet the lease of another. */
void gmv__node_share_lease(gmv_registry *registry, gmv_node *node, const gmv_node *from);

/* Takes its ranges out of the address index. */
void gmv__node_drop_ranges(gmv_registry *registry, gmv_node *node);

/*
 * The direct dependents that live, oldest first: writes up to `capacity` ids and returns how many
 * there are in all.
 */
uint64_t gmv__node_dependents(const gmv_node *node, gmv_id *out_ids, size_t capacity,
                              size_t *out_written);

/* The node of that id, dead ones not yet buried too; NULL if there is none. */
gmv_node *gmv__registry_find(gmv_registry *registry, const gmv_id *id);

/*
 * What a look-up makes of a node that it found: handle_unknown for who may not see it,
 * handle_deleted, kind_mismatch, or GMV_OK. The lock of the node's shard will do, too.
 */
gmv_status gmv__registry_judge(const gmv_caller *caller, const gmv_node *node, gmv_kind kind,
                               const char *pointer, gmv_error *err);

gmv_status gmv__registry_fail_unknown(const gmv_id *id, const char *pointer, gmv_error *err);

/* The failure for an id that no node has: handle_deleted while it is remembered, then
 * handle_unknown. */
gmv_status gmv__registry_fail_absent(gmv_registry *registry, const gmv_caller *caller,
                                     const gmv_id *id, const char *pointer, gmv_error *err);

/* Copies the label, or "" where there is none, which is told by false. */
bool gmv__node_copy_label(const gmv_node *node, char out_label[GMV_LABEL_CHARACTERS_MAX * 4 + 1]);

/* As gmv_registry_describe makes it. */
void gmv__node_fill_info(const gmv_node *node, gmv_handle_info *info);

/* ---- with no lock held ---- */

static inline void registry_observe(gmv_registry *registry, gmv_event event, const gmv_node *node)
{
    if (registry->options.observe)
        registry->options.observe(registry->options.observe_context, event, node);
}

/* The failure for a handle that has no name of its own. */
gmv_status gmv__registry_fail_inner(const gmv_id *id, gmv_error *err);

/* Gives a session's reference up that a node had. NULL: nothing. */
void gmv__session_unreference(gmv_registry *registry, gmv_session *session);

/*
 * Takes all names that belong to a session whose own name the caller has taken, frees what dies by
 * that, and gives up the reference that was the session's name. Adds to `deletion` unless it is
 * NULL.
 */
void gmv__session_finish(gmv_registry *registry, gmv_session *session, gmv_deletion *deletion);

/*
 * Frees a dead node and whatever dies by that, dependents before owners. Adds to `deletion` unless
 * it is NULL. Returns how many nodes died.
 */
size_t gmv__registry_bury(gmv_registry *registry, gmv_node *dead, gmv_deletion *deletion);

/* Leaves a dead node to the next gmv_registry_reap. */
void gmv__registry_leave(gmv_registry *registry, gmv_node *dead);

#endif
