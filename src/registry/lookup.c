/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding and describing nodes. gmv_registry_get takes a shard's lock only; what looks at edges or
 * at the order of creation copies a bounded part at a time under the graph lock.
 */
#include <string.h>

#include <gmv/base/num.h>

#include "registry/registry_priv.h"

/* ---- one node by id ---- */

gmv_status gmv__registry_fail_unknown(const gmv_id *id, const char *pointer, gmv_error *err)
{
    char text[GMV_ID_TEXT_MAX];
    gmv_id_format(id, text);
    return gmv_fail(err, GMV_ERR_HANDLE_UNKNOWN, pointer, "there is no handle %s", text);
}

static gmv_status fail_deleted(const gmv_id *id, bool alive, gmv_reason reason, const char *pointer,
                               gmv_error *err)
{
    char text[GMV_ID_TEXT_MAX];
    gmv_id_format(id, text);
    gmv_status status =
        gmv_fail(err, GMV_ERR_HANDLE_DELETED, pointer, "the handle %s has been deleted", text);
    if (err) {
        err->has_subject = true;
        err->subject = *id;
        err->subject_alive = alive;
        err->subject_reason = gmv_reason_name(reason);
    }
    return status;
}

gmv_status gmv__registry_fail_absent(gmv_registry *registry, const gmv_caller *caller,
                                     const gmv_id *id, const char *pointer, gmv_error *err)
{
    gmv_tombstone tombstone;
    if (gmv__tombstones_find(&registry->tombstones, id, &tombstone) &&
        caller_sees(caller, tombstone.principal))
        return fail_deleted(id, false, (gmv_reason)tombstone.reason, pointer, err);
    return gmv__registry_fail_unknown(id, pointer, err);
}

static gmv_status fail_kind(const gmv_id *id, gmv_kind kind, const char *pointer, gmv_error *err)
{
    char text[GMV_ID_TEXT_MAX];
    gmv_id_format(id, text);
    return gmv_fail(err, GMV_ERR_KIND_MISMATCH, pointer, "the handle %s is a %s, not a %s", text,
                    gmv_kind_name(id->kind), gmv_kind_name(kind));
}

static gmv_reason node_reason(const gmv_node *node)
{
    return node->reason ? (gmv_reason)node->reason : GMV_REASON_DELETED;
}

/* Look-ups of any kind are for handles. */
static bool kind_fits(gmv_kind wanted, gmv_kind kind)
{
    return wanted == GMV_KIND_ANY ? kind != GMV_KIND_SESSION : wanted == kind;
}

gmv_status gmv__registry_judge(const gmv_caller *caller, const gmv_node *node, gmv_kind kind,
                               const char *pointer, gmv_error *err)
{
    const gmv_id *id = &node->id;
    gmv_reason over = gmv__node_over(node);
    if (!caller_sees(caller, node->principal) ||
        (kind == GMV_KIND_ANY && id->kind == GMV_KIND_SESSION))
        return gmv__registry_fail_unknown(id, pointer, err);
    if (node->state == STATE_DELETED || over || !node_is_alive(node))
        return fail_deleted(id, node_is_alive(node), over ? over : node_reason(node), pointer, err);
    if (!kind_fits(kind, id->kind))
        return fail_kind(id, kind, pointer, err);
    return GMV_OK;
}

gmv_node *gmv__registry_find(gmv_registry *registry, const gmv_id *id)
{
    gmv_shard *shard = registry_shard(registry, id);
    pthread_mutex_lock(&shard->lock);
    gmv_node *node = gmv__shard_find(shard, id);
    pthread_mutex_unlock(&shard->lock);
    return node;
}

static void node_hold(gmv_node *node)
{
    node_reference(node);
    atomic_fetch_add_explicit(&node->in_flight, 1, memory_order_relaxed);
}

gmv_status gmv_registry_get(gmv_registry *registry, const gmv_caller *caller, const gmv_id *id,
                            gmv_kind kind, const char *pointer, gmv_node **out_node, gmv_error *err)
{
    gmv_shard *shard = registry_shard(registry, id);
    pthread_mutex_lock(&shard->lock);
    gmv_node *node = gmv__shard_find(shard, id);
    if (node && caller_sees(caller, node->principal) && node->state != STATE_DELETED &&
        kind_fits(kind, id->kind) && !gmv__node_over(node) && gmv__node_try_reference(node)) {
        atomic_fetch_add_explicit(&node->in_flight, 1, memory_order_relaxed);
        pthread_mutex_unlock(&shard->lock);
        *out_node = node;
        return GMV_OK;
    }
    gmv_status status = GMV_OK;
    if (node)
        status = gmv__registry_judge(caller, node, kind, pointer, err);
    pthread_mutex_unlock(&shard->lock);
    /* A node is remembered before it leaves the shard, so none is missed between the two. */
    return node ? status : gmv__registry_fail_absent(registry, caller, id, pointer, err);
}

void gmv_registry_hold(gmv_registry *registry, gmv_node *node)
{
    (void)registry;
    node_hold(node);
}

bool gmv_registry_hold_owner(gmv_registry *registry, gmv_node *node, size_t index,
                             gmv_node **out_owner)
{
    graph_lock(registry);
    bool held = index < node->n_owners;
    if (held) {
        *out_owner = node->edges[index].owner;
        node_hold(*out_owner);
    }
    graph_unlock(registry);
    return held;
}

size_t gmv_registry_owners(gmv_registry *registry, const gmv_node *node, gmv_id *out_ids,
                           size_t capacity)
{
    size_t n_owners, done = 0;
    do {
        graph_lock(registry);
        n_owners = node->n_owners;
        size_t end = GMV_MIN(GMV_MIN(n_owners, capacity), done + REGISTRY_STEP);
        for (; done < end; done++)
            out_ids[done] = node->edges[done].owner->id;
        graph_unlock(registry);
    } while (done < n_owners && done < capacity);
    return n_owners;
}

/* The member is only read. */
int64_t gmv_node_expires_at_ms(const gmv_node *node)
{
    return atomic_load_explicit(&((gmv_node *)(uintptr_t)node)->expires_at_ms,
                                memory_order_relaxed);
}

/* ---- by address ---- */

typedef struct address_search {
    const gmv_caller *caller;
    gmv_address_hit *hits;
    size_t n_hits;
} address_search;

static bool address_visit(gmv_range_entry *entry, void *context)
{
    address_search *search = context;
    gmv_node *node = entry->owner;
    size_t range = (size_t)(entry - node->ranges);
    if (search->n_hits > 0 && search->hits[0].node == node) {
        search->hits[0].range = GMV_MIN(search->hits[0].range, range);
        return true;
    }
    if (!caller_sees(search->caller, node->principal) || gmv__node_over(node) ||
        !gmv__node_try_reference(node))
        return true;
    atomic_fetch_add_explicit(&node->in_flight, 1, memory_order_relaxed);
    search->hits[search->n_hits++] = (gmv_address_hit){.node = node, .range = range};
    return search->n_hits < 2;
}

size_t gmv_registry_find_address(gmv_registry *registry, const gmv_caller *caller, uint64_t address,
                                 bool include_end, gmv_address_hit out_hits[2])
{
    address_search search = {.caller = caller, .hits = out_hits};
    graph_lock(registry);
    gmv_address_index_find(&registry->addresses, address, include_end, address_visit, &search);
    graph_unlock(registry);
    return search.n_hits;
}

/* ---- snapshots ---- */

uint64_t gmv__node_dependents(const gmv_node *node, gmv_id *out_ids, size_t capacity,
                              size_t *out_written)
{
    uint64_t dead = 0;
    size_t written = 0;
    unsigned look = REGISTRY_DEPENDENTS_LOOK;
    for (const gmv_edge *edge = node->dependents_head; edge && look > 0;
         edge = edge->next, look--) {
        if (!node_is_alive(edge->dependent))
            dead++;
        else if (written < capacity)
            out_ids[written++] = edge->dependent->id;
    }
    *out_written = written;
    return node->n_dependents - dead;
}

bool gmv__node_copy_label(const gmv_node *node, char out_label[GMV_LABEL_CHARACTERS_MAX * 4 + 1])
{
    const char *label = node->label ? node->label : "";
    memcpy(out_label, label, strlen(label) + 1);
    return node->label != NULL;
}

/* Everything but owners and dependents, which are set to none. */
static void node_fill_summary(const gmv_node *node, gmv_handle_info *info)
{
    const gmv_node_class *node_class = node->node_class;
    gmv_reason over = gmv__node_over(node);
    info->id = node->id;
    info->named = node->state == STATE_NAMED && !over;
    info->deleted = node->state == STATE_DELETED || over;
    info->alive = true;
    info->reason = over ? over : (gmv_reason)node->reason;
    info->nbytes = node_class->nbytes ? node_class->nbytes(node) : 0;
    info->device = node_class->device ? node_class->device(node) : -1;
    info->created_at_ms = node->created_at_ms;
    info->expires_at_ms = gmv_node_expires_at_ms(node);
    info->session = node->session ? node->session->node.id : (gmv_id){0};
    info->has_label = gmv__node_copy_label(node, info->label);
    info->in_flight =
        atomic_load_explicit(&((gmv_node *)(uintptr_t)node)->in_flight, memory_order_relaxed);
    info->owners_count = info->dependents_count = 0;
    info->n_owners = info->n_dependents = 0;
}

void gmv__node_fill_info(const gmv_node *node, gmv_handle_info *info)
{
    node_fill_summary(node, info);
    info->owners_count = node->n_owners;
    info->n_owners = GMV_MIN(node->n_owners, (uint32_t)GMV_ERROR_IDS_MAX);
    for (size_t i = 0; i < info->n_owners; i++)
        info->owners[i] = node->edges[i].owner->id;
    info->dependents_count =
        gmv__node_dependents(node, info->dependents, GMV_ERROR_IDS_MAX, &info->n_dependents);
}

gmv_status gmv_registry_describe(gmv_registry *registry, const gmv_caller *caller, const gmv_id *id,
                                 gmv_handle_info *out_info, gmv_error *err)
{
    graph_lock(registry);
    gmv_node *node = gmv__registry_find(registry, id);
    gmv_status status = GMV_OK;
    if (node && caller_sees(caller, node->principal) && node_is_alive(node) &&
        !node_is_session(node)) {
        gmv__node_fill_info(node, out_info);
    } else if (node) {
        status = gmv__registry_judge(caller, node, GMV_KIND_ANY, NULL, err);
    } else {
        status = gmv__registry_fail_absent(registry, caller, id, NULL, err);
    }
    graph_unlock(registry);
    return status;
}

/* ---- lists ---- */

typedef struct list_walk {
    const gmv_caller *caller;
    const gmv_list_filter *filter;
    uint64_t cursor; /* the last number seen */
    unsigned passed;
    bool at_end;
} list_walk;

static bool list_matches(const list_walk *walk, const gmv_node *node)
{
    const gmv_list_filter *filter = walk->filter;
    if (!caller_sees(walk->caller, node->principal) || !node_is_alive(node))
        return false;
    if ((node->state != STATE_NAMED || gmv__node_over(node)) && !filter->all)
        return false;
    if (filter->kind != GMV_KIND_ANY && filter->kind != node->id.kind)
        return false;
    if (filter->session.kind != GMV_KIND_ANY &&
        !(node->session && gmv_id_equal(&filter->session, &node->session->node.id)))
        return false;
    return !filter->label || (node->label && strlen(node->label) == filter->label_length &&
                              memcmp(node->label, filter->label, filter->label_length) == 0);
}

/* One hold of the graph lock: looks for the next match among a bounded number of nodes. */
static bool list_step(gmv_registry *registry, list_walk *walk, gmv_handle_info *info)
{
    const gmv_order *order = &registry->order;
    gmv_order_position position = gmv__order_seek(order, walk->cursor);
    uint64_t sequence;
    for (unsigned budget = REGISTRY_STEP; budget > 0; budget--) {
        const gmv_node *node = gmv__order_next(order, &position, &sequence);
        if (!node) {
            walk->at_end = true;
            return false;
        }
        walk->cursor = sequence;
        if (list_matches(walk, node)) {
            node_fill_summary(node, info);
            walk->at_end = gmv__order_next(order, &position, &sequence) == NULL;
            return true;
        }
        walk->passed++;
    }
    return false;
}

void gmv_registry_list(gmv_registry *registry, const gmv_caller *caller,
                       const gmv_list_filter *filter, uint64_t cursor, size_t limit,
                       void (*visit)(void *context, const gmv_handle_info *info), void *context,
                       uint64_t *out_cursor)
{
    list_walk walk = {.caller = caller, .filter = filter, .cursor = cursor};
    gmv_handle_info info;
    for (size_t n = 0; n < limit && !walk.at_end && walk.passed < REGISTRY_LIST_PASS;) {
        graph_lock(registry);
        bool found = list_step(registry, &walk, &info);
        graph_unlock(registry);
        if (found) {
            visit(context, &info);
            n++;
        }
    }
    *out_cursor = walk.at_end ? 0 : walk.cursor;
}
