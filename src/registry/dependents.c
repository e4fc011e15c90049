/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walking down the graph, a bounded part at a time. The last dependent that was returned is the
 * cursor: while it is held its edge stays where it is.
 */
#include <gmv/base/num.h>

#include "registry/registry_priv.h"

static gmv_edge *dependents_behind(const gmv_node *node, const gmv_node *after)
{
    if (!after)
        return node->dependents_head;
    for (uint32_t i = 0; i < after->n_owners; i++)
        if (after->edges[i].owner == node)
            return after->edges[i].next;
    return NULL;
}

size_t gmv_registry_hold_dependents(gmv_registry *registry, const gmv_caller *caller,
                                    const gmv_node *node, gmv_node *after, size_t capacity,
                                    gmv_dependent *out_dependents, bool *out_more)
{
    size_t n_found = 0, room = GMV_MIN(capacity, (size_t)REGISTRY_STEP);
    unsigned look = REGISTRY_DEPENDENTS_LOOK;
    graph_lock(registry);
    gmv_edge *edge = dependents_behind(node, after);
    for (; edge && n_found < room && look > 0; edge = edge->next, look--) {
        gmv_node *dependent = edge->dependent;
        if (!gmv__node_try_reference(dependent))
            continue;
        atomic_fetch_add_explicit(&dependent->in_flight, 1, memory_order_relaxed);
        out_dependents[n_found++] = (gmv_dependent){
            .node = dependent,
            .is_visible = caller_sees(caller, dependent->principal) &&
                          dependent->state != STATE_DELETED && !gmv__node_over(dependent),
        };
    }
    *out_more = edge != NULL;
    graph_unlock(registry);
    return n_found;
}
