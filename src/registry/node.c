/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making nodes: everything that can fail happens in gmv_node_prepare, publishing only links what is
 * there. A large publication is linked in steps: an owner's list of dependents may show a node
 * whose other edges are still missing, but no id is found, listed or counted before its node is
 * complete.
 */
#include <string.h>

#include <gmv/base/alloc.h>
#include <gmv/base/clock.h>

#include "registry/registry_priv.h"

/* Owners up to here are compared one by one to find repeats. */
#define OWNERS_FEW 8u

bool gmv__node_try_reference(gmv_node *node)
{
    unsigned references = atomic_load_explicit(&node->references, memory_order_relaxed);
    while (references > 0)
        if (atomic_compare_exchange_weak_explicit(&node->references, &references, references + 1,
                                                  memory_order_relaxed, memory_order_relaxed))
            return true;
    return false;
}

/* ---- preparing ---- */

static bool owners_few_hold(const gmv_edge *edges, uint32_t n_edges, const gmv_node *owner)
{
    for (uint32_t i = 0; i < n_edges; i++)
        if (edges[i].owner == owner)
            return true;
    return false;
}

/* A set of pointers, for long lists of owners. */
typedef struct owner_set {
    const gmv_node **slots; /* NULL: empty slot */
    size_t mask;
} owner_set;

static bool owner_set_init(owner_set *set, size_t n_owners)
{
    size_t n_slots = 16;
    while (n_slots < n_owners * 2)
        n_slots *= 2;
    set->slots = gmv_calloc(n_slots, sizeof *set->slots);
    set->mask = n_slots - 1;
    return set->slots != NULL;
}

/* True if it was in already. */
static bool owner_set_add(owner_set *set, const gmv_node *owner)
{
    uint64_t hash = (uint64_t)(uintptr_t)owner * UINT64_C(0x9e3779b97f4a7c15);
    size_t slot = (size_t)(hash >> 20) & set->mask;
    for (; set->slots[slot]; slot = (slot + 1) & set->mask)
        if (set->slots[slot] == owner)
            return true;
    set->slots[slot] = owner;
    return false;
}

static bool node_fill_edges(gmv_node *node, gmv_node *const *owners, size_t n_owners, size_t n_real)
{
    owner_set set = {0};
    bool few = n_real <= OWNERS_FEW;
    if (!few && !owner_set_init(&set, n_real))
        return false;
    for (size_t i = 0; i < n_owners; i++) {
        gmv_node *owner = owners[i];
        if (!owner || (few ? owners_few_hold(node->edges, node->n_owners, owner)
                           : owner_set_add(&set, owner)))
            continue;
        node->edges[node->n_owners++] = (gmv_edge){.owner = owner, .dependent = node};
    }
    gmv_free(set.slots);
    return true;
}

/* On failure node->edges may be set; the caller frees it. */
static bool node_make_edges(gmv_node *node, gmv_node *const *owners, size_t n_owners)
{
    size_t n_real = 0;
    for (size_t i = 0; i < n_owners; i++)
        n_real += owners[i] != NULL;
    if (n_real == 0)
        return true;
    if (n_real > UINT32_MAX)
        return false;
    node->edges = gmv_calloc(n_real, sizeof *node->edges);
    return node->edges && node_fill_edges(node, owners, n_owners, n_real);
}

static bool registry_reserve_order(gmv_registry *registry, gmv_order *order)
{
    for (;;) {
        graph_lock(registry);
        bool reserved = gmv__order_try_reserve(order);
        size_t wanted = reserved ? 0 : gmv__order_directory_wanted(order);
        graph_unlock(registry);
        if (reserved)
            return true;
        gmv_order_chunk *chunk = gmv_malloc(sizeof *chunk);
        gmv_order_chunk **directory =
            wanted ? gmv_malloc(wanted * sizeof(gmv_order_chunk *)) : NULL;
        bool enough = chunk && (directory || !wanted);
        if (enough) {
            graph_lock(registry);
            gmv__order_grow(order, &chunk, &directory, wanted);
            graph_unlock(registry);
        }
        gmv_free(chunk);
        gmv_free(directory);
        if (!enough)
            return false;
    }
}

static bool registry_count_in(gmv_registry *registry)
{
    uint64_t limit = registry->options.max_handles;
    uint64_t before = atomic_fetch_add_explicit(&registry->n_handles, 1, memory_order_relaxed);
    if (limit == 0 || before < limit)
        return true;
    atomic_fetch_sub_explicit(&registry->n_handles, 1, memory_order_relaxed);
    return false;
}

static gmv_status node_check_label(const gmv_node_attributes *attributes, gmv_error *err)
{
    if (!attributes->label)
        return GMV_OK;
    if (attributes->label_length > GMV_LABEL_CHARACTERS_MAX * 4)
        return gmv_fail(err, GMV_ERR_VALUE, "/label", "the label has more than %d characters",
                        GMV_LABEL_CHARACTERS_MAX);
    if (memchr(attributes->label, '\0', attributes->label_length))
        return gmv_fail(err, GMV_ERR_VALUE, "/label", "the label holds a NUL character");
    return GMV_OK;
}

static bool node_prepare_parts(gmv_registry *registry, gmv_node *node,
                               const gmv_node_attributes *attributes, gmv_node *const *owners,
                               size_t n_owners)
{
    if (attributes->label) {
        node->label = gmv_strndup(attributes->label, attributes->label_length);
        if (!node->label)
            return false;
    }
    return node_make_edges(node, owners, n_owners) &&
           registry_reserve_order(registry, registry_order(registry, node->id.kind));
}

static void node_free_parts(gmv_node *node)
{
    gmv_free(node->label);
    gmv_free(node->edges);
    node->label = NULL;
    node->edges = NULL;
    node->n_owners = 0;
}

gmv_status gmv_node_prepare(gmv_registry *registry, gmv_node *node,
                            const gmv_node_class *node_class, const gmv_node_attributes *attributes,
                            gmv_node *const *owners, size_t n_owners, gmv_error *err)
{
    GMV_TRY(node_check_label(attributes, err));
    if (!registry_count_in(registry))
        return gmv_fail(err, GMV_ERR_QUOTA_EXCEEDED, NULL,
                        "max_handles (%llu) is reached; delete handles first",
                        (unsigned long long)registry->options.max_handles);
    if (!gmv_id_generate(node_class->kind, &node->id)) {
        atomic_fetch_sub_explicit(&registry->n_handles, 1, memory_order_relaxed);
        return gmv_fail(err, GMV_ERR_INTERNAL, NULL, "the system has no random bytes");
    }
    if (!node_prepare_parts(registry, node, attributes, owners, n_owners)) {
        node_free_parts(node);
        atomic_fetch_sub_explicit(&registry->n_handles, 1, memory_order_relaxed);
        return gmv_fail_no_memory(err);
    }
    gmv__shard_reserve(registry_shard(registry, &node->id), &node->id);
    node->node_class = node_class;
    node->principal = attributes->caller->principal;
    node->session = attributes->caller->session;
    if (node->session)
        node_reference(&node->session->node);
    node->inner = attributes->inner;
    node->created_at_ms = gmv_clock_wall_ms();
    node->state = STATE_PREPARED;
    atomic_init(&node->deadline_ns, attributes->inner ? 0 : attributes->ttl_seconds);
    atomic_init(&node->references, attributes->inner ? 1 : 2);
    atomic_init(&node->in_flight, 1);
    return GMV_OK;
}

void gmv_node_set_ranges(gmv_node *node, gmv_range_entry *ranges, uint8_t n_ranges)
{
    node->ranges = ranges;
    node->n_ranges = n_ranges;
    for (uint8_t i = 0; i < n_ranges; i++) {
        ranges[i].owner = node;
        ranges[i].inserted = false;
    }
}

void gmv_node_discard(gmv_registry *registry, gmv_node *node)
{
    gmv__shard_unreserve(registry_shard(registry, &node->id));
    gmv_order *order = registry_order(registry, node->id.kind);
    graph_lock(registry);
    gmv__order_unreserve(order);
    gmv_order_chunk *surplus = gmv__order_take_surplus(order);
    graph_unlock(registry);
    gmv__order_free_chunks(surplus);
    node_free_parts(node);
    gmv__session_unreference(registry, node->session);
    node->session = NULL;
    atomic_fetch_sub_explicit(&registry->n_handles, 1, memory_order_relaxed);
}

/* ---- edges, state and ranges ---- */

void gmv__edge_link(gmv_edge *edge)
{
    gmv_node *owner = edge->owner;
    edge->next = NULL;
    edge->previous = owner->dependents_tail;
    if (edge->previous)
        edge->previous->next = edge;
    else
        owner->dependents_head = edge;
    owner->dependents_tail = edge;
    owner->n_dependents++;
    node_reference(owner);
}

bool gmv__edge_unlink(gmv_registry *registry, gmv_edge *edge)
{
    gmv_node *owner = edge->owner;
    for (gmv_cascade *cascade = registry->cascades; cascade; cascade = cascade->next)
        if (cascade->cursor == edge)
            cascade->cursor = edge->next;
    if (edge->previous)
        edge->previous->next = edge->next;
    else
        owner->dependents_head = edge->next;
    if (edge->next)
        edge->next->previous = edge->previous;
    else
        owner->dependents_tail = edge->previous;
    owner->n_dependents--;
    return node_unreference(owner);
}

void gmv__node_set_state(gmv_registry *registry, gmv_node *node, uint8_t state, uint8_t reason)
{
    gmv_shard *shard = registry_shard(registry, &node->id);
    pthread_mutex_lock(&shard->lock);
    node->state = state;
    node->reason = reason;
    if (state == STATE_NAMED)
        node->inner = false;
    pthread_mutex_unlock(&shard->lock);
}

void gmv__node_drop_ranges(gmv_registry *registry, gmv_node *node)
{
    for (uint8_t i = 0; i < node->n_ranges; i++)
        gmv_address_index_remove(&registry->addresses, &node->ranges[i]);
}

/* ---- publishing ---- */

/* Why a node that is about to be published has lost its name already. */
static gmv_reason node_gone_before(const gmv_node *node)
{
    if (node->flags & FLAG_MARKED)
        return GMV_REASON_CASCADE;
    bool ended = !node->inner && node->session &&
                 atomic_load_explicit(&node->session->ended, memory_order_relaxed);
    return ended ? GMV_REASON_SESSION_ENDED : GMV_REASON_NONE;
}

/* Makes a node whose edges are linked visible. */
static void node_enter(gmv_registry *registry, gmv_node *node)
{
    gmv_kind kind = node->id.kind;
    gmv_reason gone = node_gone_before(node);
    gmv__order_append(registry_order(registry, kind), node);
    registry->counts.alive[kind]++;
    gmv__node_set_lease(node, (uint32_t)node_deadline(node));
    if (gone != GMV_REASON_NONE) {
        node->state = STATE_DELETED;
        node->reason = (uint8_t)gone;
        if (!node->inner) {
            node->flags |= FLAG_UNHEARD;
            (void)node_unreference(node); /* the name's; the caller's is left */
        }
    } else {
        node->state = node->inner ? STATE_INNER : STATE_NAMED;
        if (!node->inner) {
            registry->counts.named[kind]++;
            gmv__node_enter_life(registry, node);
        }
        for (uint8_t i = 0; i < node->n_ranges; i++)
            gmv_address_index_insert(&registry->addresses, &node->ranges[i]);
    }
    gmv_shard *shard = registry_shard(registry, &node->id);
    pthread_mutex_lock(&shard->lock);
    gmv__shard_insert(shard, node);
    pthread_mutex_unlock(&shard->lock);
}

typedef struct publication {
    gmv_node *const *nodes;
    size_t n_nodes;
    size_t node; /* where it stands */
    uint32_t edge;
} publication;

/* One hold of the graph lock. False once all are in. */
static bool publication_step(gmv_registry *registry, publication *at)
{
    for (unsigned budget = REGISTRY_STEP; at->node < at->n_nodes && budget > 0; budget--) {
        gmv_node *node = at->nodes[at->node];
        if (at->edge < node->n_owners) {
            gmv_edge *edge = &node->edges[at->edge++];
            gmv__edge_link(edge);
            node->flags |= edge->owner->flags & FLAG_MARKED;
        } else {
            node_enter(registry, node);
            at->node++;
            at->edge = 0;
        }
    }
    return at->node < at->n_nodes;
}

/* From here on who takes the node's name tells the observer; what happened before is told here. */
static void node_announce(gmv_registry *registry, gmv_node *node)
{
    registry_observe(registry, GMV_EVENT_CREATED, node);
    graph_lock(registry);
    bool unheard = node->flags & FLAG_UNHEARD;
    node->flags |= FLAG_ANNOUNCED;
    graph_unlock(registry);
    if (unheard)
        registry_observe(registry, GMV_EVENT_DELETED, node);
}

void gmv_registry_publish(gmv_registry *registry, gmv_node *const *nodes, size_t n_nodes)
{
    publication at = {.nodes = nodes, .n_nodes = n_nodes};
    bool more;
    do {
        graph_lock(registry);
        more = publication_step(registry, &at);
        graph_unlock(registry);
    } while (more);
    if (!registry->options.observe)
        return;
    for (size_t i = 0; i < n_nodes; i++)
        node_announce(registry, nodes[i]);
}
