/* SPDX-License-Identifier: Apache-2.0 */
/* Objects for the registry's tests: a node, a size and ranges, and a count of those destroyed. */
#ifndef GMV_TESTS_REGISTRY_TOY_H
#define GMV_TESTS_REGISTRY_TOY_H

#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <gmv/base/alloc.h>
#include <gmv/registry/registry.h>

typedef struct toy {
    gmv_node node;
    uint64_t nbytes;
    uint64_t shared_nbytes; /* what does not go back */
    gmv_range_entry ranges[2];
} toy;

__attribute__((unused)) static atomic_long toys_destroyed;
__attribute__((unused)) static const gmv_caller anyone = {0};

static inline void toy_destroy(gmv_node *node)
{
    atomic_fetch_add(&toys_destroyed, 1);
    gmv_free(node);
}

static inline uint64_t toy_nbytes(const gmv_node *node)
{
    return ((const toy *)(const void *)node)->nbytes;
}

static inline int32_t toy_device(const gmv_node *node)
{
    return ((const toy *)(const void *)node)->nbytes ? 3 : -1;
}

#define TOY_CLASS(which) \
    [which] = {.kind = which, .destroy = toy_destroy, .nbytes = toy_nbytes, .device = toy_device}

__attribute__((unused)) static const gmv_node_class toy_classes[GMV_KIND_COUNT] = {
    TOY_CLASS(GMV_KIND_BUFFER), TOY_CLASS(GMV_KIND_VIEW),   TOY_CLASS(GMV_KIND_COLUMN),
    TOY_CLASS(GMV_KIND_TABLE),  TOY_CLASS(GMV_KIND_PACKED),
};

static inline gmv_registry *toy_registry(uint64_t max_handles)
{
    gmv_registry_options options = {.max_handles = max_handles};
    gmv_registry *registry = NULL;
    if (gmv_registry_create(&options, &registry, NULL) != GMV_OK)
        abort();
    return registry;
}

/* A prepared node over `owners`; NULL if preparing failed. */
static inline gmv_node *toy_prepare(gmv_registry *registry, gmv_kind kind, bool inner,
                                    const char *label, gmv_node *const *owners, size_t n_owners,
                                    gmv_error *err)
{
    toy *object = gmv_calloc(1, sizeof *object);
    if (!object)
        return NULL;
    gmv_node_attributes attributes = {
        .caller = &anyone,
        .label = label,
        .label_length = label ? strlen(label) : 0,
        .inner = inner,
    };
    if (gmv_node_prepare(registry, &object->node, &toy_classes[kind], &attributes, owners, n_owners,
                         err) != GMV_OK) {
        gmv_free(object);
        return NULL;
    }
    return &object->node;
}

/* Prepares and publishes; the operation in flight is the caller's to end. */
static inline gmv_node *toy_hold(gmv_registry *registry, gmv_kind kind, bool inner, size_t n_owners,
                                 ...)
{
    gmv_node *owners[8];
    va_list arguments;
    va_start(arguments, n_owners);
    for (size_t i = 0; i < n_owners; i++)
        owners[i] = va_arg(arguments, gmv_node *);
    va_end(arguments);
    gmv_node *node = toy_prepare(registry, kind, inner, NULL, owners, n_owners, NULL);
    if (!node)
        abort();
    gmv_registry_publish(registry, &node, 1);
    return node;
}

/* A named node that a caller makes with a lease (0: none), published and settled. */
static inline gmv_node *toy_lease(gmv_registry *registry, gmv_kind kind, const gmv_caller *caller,
                                  uint32_t ttl_seconds, gmv_node *owner)
{
    toy *object = gmv_calloc(1, sizeof *object);
    const gmv_node_attributes attributes = {.caller = caller, .ttl_seconds = ttl_seconds};
    if (!object || gmv_node_prepare(registry, &object->node, &toy_classes[kind], &attributes,
                                    &owner, 1, NULL) != GMV_OK)
        abort();
    gmv_node *node = &object->node;
    gmv_registry_publish(registry, &node, 1);
    gmv_registry_release(registry, node, true);
    return node;
}

/* The same with the operation ended: the node lives by its name or its dependents. */
#define toy_make(registry, kind, n_owners, ...) \
    toy_settle(registry, toy_hold(registry, kind, false, n_owners, ##__VA_ARGS__))

static inline gmv_node *toy_settle(gmv_registry *registry, gmv_node *node)
{
    gmv_registry_release(registry, node, true);
    return node;
}

static inline gmv_status toy_get(gmv_registry *registry, const gmv_id *id, gmv_error *err)
{
    gmv_node *node = NULL;
    gmv_status status = gmv_registry_get(registry, &anyone, id, GMV_KIND_ANY, NULL, &node, err);
    if (status == GMV_OK)
        gmv_registry_release(registry, node, true);
    return status;
}

static inline gmv_deletion toy_delete(gmv_registry *registry, const gmv_id *id, gmv_if_held if_held)
{
    gmv_deletion deletion;
    gmv_id wanted = *id;
    if (gmv_registry_delete(registry, &anyone, &wanted, GMV_KIND_ANY, if_held, &deletion, NULL) !=
        GMV_OK)
        abort();
    return deletion;
}

#endif
