/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that make, look up, describe, list, delete, cascade and disown on shared parents, for
 * ThreadSanitizer and for what must hold in the end: nothing is left, and everything made was
 * destroyed once. A plain program that prints TAP.
 */
#include "registry/race.h"

enum { SHARED = 64 };

static atomic_long names_deleted;
static gmv_id shared[SHARED];

static const gmv_node_class race_classes[GMV_KIND_COUNT] = {
    [GMV_KIND_BUFFER] = {.kind = GMV_KIND_BUFFER,
                         .destroy = race_destroy,
                         .nbytes = toy_nbytes,
                         .device = toy_device},
    [GMV_KIND_VIEW] = {.kind = GMV_KIND_VIEW,
                       .destroy = race_destroy,
                       .nbytes = toy_nbytes,
                       .device = toy_device},
    [GMV_KIND_PACKED] = {.kind = GMV_KIND_PACKED,
                         .destroy = race_destroy,
                         .nbytes = toy_nbytes,
                         .device = toy_device},
};

static gmv_id pick(racer *me)
{
    return race_pick(me, shared, SHARED);
}

static void offer(racer *me, const gmv_id *id)
{
    race_offer(me, shared, SHARED, id);
}

static gmv_node *prepare(gmv_kind kind, bool inner, gmv_node *const *owners, size_t n_owners)
{
    toy *object = gmv_calloc(1, sizeof *object);
    gmv_node_attributes attributes = {.caller = &anyone, .inner = inner};
    if (!object || gmv_node_prepare(registry, &object->node, &race_classes[kind], &attributes,
                                    owners, n_owners, NULL) != GMV_OK)
        abort();
    atomic_fetch_add(&made, 1);
    object->ranges[0] = (gmv_range_entry){.begin = object->node.id.low % 4096, .end = 5000};
    if (kind == GMV_KIND_BUFFER)
        gmv_node_set_ranges(&object->node, object->ranges, 1);
    return &object->node;
}

static void make_buffer(racer *me)
{
    gmv_node *buffer = prepare(GMV_KIND_BUFFER, false, NULL, 0);
    gmv_registry_publish(registry, &buffer, 1);
    offer(me, &buffer->id);
    gmv_registry_release(registry, buffer, draw(me, 2));
}

/* A view over an inner one over up to two shared handles. */
static void make_view(racer *me)
{
    gmv_id first = pick(me), second = pick(me);
    gmv_node *owners[] = {hold(&first), hold(&second)};
    gmv_node *nodes[2];
    nodes[0] = prepare(GMV_KIND_VIEW, true, owners, 2);
    nodes[1] = prepare(GMV_KIND_PACKED, false, nodes, 1);
    gmv_registry_publish(registry, nodes, 2);
    offer(me, &nodes[draw(me, 2)]->id);
    for (int i = 0; i < 2; i++) {
        gmv_registry_release(registry, owners[i], draw(me, 2));
        gmv_registry_release(registry, nodes[i], draw(me, 2));
    }
}

static void look(racer *me)
{
    gmv_id id = pick(me);
    gmv_node *node = hold(&id);
    gmv_node *owner = NULL;
    if (node && gmv_registry_hold_owner(registry, node, 0, &owner))
        gmv_registry_release(registry, owner, false);
    gmv_registry_release(registry, node, false);
    if (gmv_registry_describe(registry, &anyone, &id, &me->info, &me->err) == GMV_OK &&
        !gmv_id_equal(&me->info.id, &id))
        abort();
}

static void list_page(racer *me)
{
    const gmv_list_filter filter = {.all = draw(me, 2)};
    uint64_t cursor = 0;
    long n = 0;
    gmv_registry_list(registry, &anyone, &filter, cursor, 20, count_info, &n, &cursor);
}

static void find_address(racer *me)
{
    gmv_address_hit hits[2];
    size_t n = gmv_registry_find_address(registry, &anyone, draw(me, 5000), draw(me, 2), hits);
    for (size_t i = 0; i < n; i++)
        gmv_registry_release(registry, hits[i].node, false);
}

static void delete_one(racer *me)
{
    gmv_id id = pick(me);
    gmv_if_held if_held = (gmv_if_held)draw(me, 3);
    if (gmv_registry_delete(registry, &anyone, &id, GMV_KIND_ANY, if_held, &me->deletion,
                            &me->err) == GMV_OK)
        atomic_fetch_add(&names_deleted, (long)me->deletion.deleted);
}

static void disown_one(racer *me)
{
    gmv_id id = pick(me);
    gmv_node *node = hold(&id), *named = NULL;
    if (node && id.kind == GMV_KIND_PACKED && gmv_registry_disown(registry, node, 0, &named)) {
        offer(me, &named->id);
        gmv_registry_release(registry, named, false);
    }
    gmv_registry_release(registry, node, false);
}

static void *reap(void *argument)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    while (!atomic_load(&race_is_over)) {
        gmv_registry_reap(registry);
        nanosleep(&pause, NULL);
    }
    return NULL;
}

static void delete_listed(void *context, const gmv_handle_info *info)
{
    racer *me = context;
    if (gmv_registry_delete(registry, &anyone, &info->id, GMV_KIND_ANY, GMV_IF_HELD_CASCADE,
                            &me->deletion, &me->err) == GMV_OK)
        atomic_fetch_add(&names_deleted, (long)me->deletion.deleted);
}

static void delete_rest(racer *me)
{
    const gmv_list_filter filter = {0};
    uint64_t cursor = 0;
    do
        gmv_registry_list(registry, &anyone, &filter, cursor, 100, delete_listed, me, &cursor);
    while (cursor);
    gmv_registry_reap(registry);
}

int main(void)
{
    static race_move *const moves[] = {make_buffer, make_view, make_view,    look,
                                       look,        list_page, find_address, delete_one,
                                       delete_one,  disown_one};
    long rounds = race_run(moves, sizeof moves / sizeof moves[0], reap, 1);
    printf("# %ld rounds, %ld nodes made\n", rounds, atomic_load(&made));
    delete_rest(&racers[0]);
    printf("1..4\n");
    report(1, atomic_load(&made) > RACE_THREADS * RACE_ROUNDS_MIN / 4, "the threads have worked");
    report(2, race_count_left() == 0, "nothing is left");
    report(3, atomic_load(&destroyed) == atomic_load(&made), "each node is destroyed once");
    report(4,
           atomic_load(&created) == atomic_load(&made) &&
               atomic_load(&freed) == atomic_load(&made) &&
               atomic_load(&deleted) >= atomic_load(&names_deleted),
           "observers have heard of every one");
    printf("# deleted: %ld heard, %ld answered\n", atomic_load(&deleted),
           atomic_load(&names_deleted));
    gmv_registry_destroy(registry);
    return 0;
}
