/* SPDX-License-Identifier: Apache-2.0 */
/* The registry as a whole: made, torn down, counted. */
#include "registry/registry_priv.h"

#include <string.h>

#include <gmv/base/alloc.h>
#include <gmv/base/clock.h>

const char *gmv_reason_name(gmv_reason reason)
{
    static const char *const names[] = {
        [GMV_REASON_NONE] = NULL,
        [GMV_REASON_DELETED] = "deleted",
        [GMV_REASON_CASCADE] = "cascade",
        [GMV_REASON_LEASE_EXPIRED] = "lease_expired",
        [GMV_REASON_SESSION_ENDED] = "session_ended",
    };
    size_t index = (size_t)reason;
    return index < sizeof names / sizeof names[0] ? names[index] : NULL;
}

gmv_status gmv_registry_create(const gmv_registry_options *options, gmv_registry **out_registry,
                               gmv_error *err)
{
    gmv_registry *registry = gmv_calloc(1, sizeof *registry);
    if (!registry)
        return gmv_fail_no_memory(err);
    if (!gmv__tombstones_init(&registry->tombstones)) {
        gmv_free(registry);
        return gmv_fail_no_memory(err);
    }
    if (options)
        registry->options = *options;
    pthread_mutex_init(&registry->graph.turn, NULL);
    pthread_mutex_init(&registry->graph.mutex, NULL);
    gmv__order_init(&registry->order);
    gmv__order_init(&registry->sessions);
    gmv__wheel_init(&registry->wheel, gmv_clock_monotonic_ns());
    for (size_t i = 0; i < REGISTRY_SHARDS; i++)
        gmv__shard_init(&registry->shards[i]);
    *out_registry = registry;
    return GMV_OK;
}

/* The newest has no dependents: those would be newer. Only its name can hold it. */
static void registry_bury_all(gmv_registry *registry, const gmv_order *order)
{
    for (gmv_node *node; (node = gmv__order_newest(order));) {
        atomic_store_explicit(&node->references, 0, memory_order_relaxed);
        gmv__registry_bury(registry, node, NULL);
    }
}

void gmv_registry_destroy(gmv_registry *registry)
{
    if (!registry)
        return;
    gmv_registry_reap(registry);
    registry_bury_all(registry, &registry->order);
    registry_bury_all(registry, &registry->sessions);
    for (size_t i = 0; i < REGISTRY_SHARDS; i++)
        gmv__shard_fini(&registry->shards[i]);
    gmv__order_fini(&registry->order);
    gmv__order_fini(&registry->sessions);
    pthread_mutex_destroy(&registry->graph.mutex);
    pthread_mutex_destroy(&registry->graph.turn);
    gmv__tombstones_fini(&registry->tombstones);
    gmv_free(registry);
}

void gmv_registry_on_reapable(gmv_registry *registry, void (*notify)(void *context), void *context)
{
    registry->notify = notify;
    registry->notify_context = context;
}

void gmv_registry_count(gmv_registry *registry, gmv_registry_counts *out_counts)
{
    graph_lock(registry);
    *out_counts = registry->counts;
    graph_unlock(registry);
}
