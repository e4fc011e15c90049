/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that make, look up, describe, list, delete, cascade and disown on shared parents, for
 * ThreadSanitizer and for what must hold in the end: nothing is left, and everything made was
 * destroyed once. A plain program that prints TAP.
 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <time.h>

#include <gmv/base/clock.h>

#include "registry/toy.h"

enum { THREADS = 4, SHARED = 64, ROUNDS_MAX = 60000 };

static gmv_registry *registry;
static atomic_long made, destroyed, created, deleted, freed, names_deleted;
static atomic_bool stop;
static int64_t deadline_ns;

/* Ids that all threads use; a slot is read and written under the lock. */
static pthread_mutex_t shared_lock = PTHREAD_MUTEX_INITIALIZER;
static gmv_id shared[SHARED];

typedef struct racer {
    uint32_t random;
    long rounds;
    gmv_handle_info info;
    gmv_deletion deletion;
    gmv_error err;
} racer;

static void race_destroy(gmv_node *node)
{
    atomic_fetch_add(&destroyed, 1);
    gmv_free(node);
}

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

static uint32_t draw(racer *me, uint32_t bound)
{
    me->random = me->random * 1664525u + 1013904223u;
    return (me->random >> 8) % bound;
}

static gmv_id pick(racer *me)
{
    pthread_mutex_lock(&shared_lock);
    gmv_id id = shared[draw(me, SHARED)];
    pthread_mutex_unlock(&shared_lock);
    return id;
}

static void offer(racer *me, const gmv_id *id)
{
    pthread_mutex_lock(&shared_lock);
    shared[draw(me, SHARED)] = *id;
    pthread_mutex_unlock(&shared_lock);
}

static gmv_node *hold(const gmv_id *id)
{
    gmv_node *node = NULL;
    gmv_status status = gmv_registry_get(registry, &anyone, id, GMV_KIND_ANY, NULL, &node, NULL);
    return status == GMV_OK ? node : NULL;
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

static void count_info(void *context, const gmv_handle_info *info)
{
    *(long *)context += info->alive;
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

static void *race(void *argument)
{
    static void (*const moves[])(racer *) = {make_buffer, make_view, make_view,    look,
                                             look,        list_page, find_address, delete_one,
                                             delete_one,  disown_one};
    racer *me = argument;
    gmv_error_init(&me->err);
    while (me->rounds < ROUNDS_MAX) {
        if (me->rounds % 64 == 0 && gmv_clock_monotonic_ns() > deadline_ns)
            break;
        if (draw(me, 16) == 0)
            sched_yield();
        moves[draw(me, sizeof moves / sizeof moves[0])](me);
        me->rounds++;
    }
    return NULL;
}

static void *reap(void *argument)
{
    (void)argument;
    const struct timespec pause = {.tv_nsec = 1000000};
    while (!atomic_load(&stop)) {
        gmv_registry_reap(registry);
        nanosleep(&pause, NULL);
    }
    return NULL;
}

static void observe(void *context, gmv_event event, const gmv_node *node)
{
    (void)context;
    (void)node;
    atomic_long *const counters[] = {&created, &deleted, &freed};
    atomic_fetch_add(counters[event], 1);
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

static void report(int number, bool good, const char *what)
{
    printf("%s %d - %s\n", good ? "ok" : "not ok", number, what);
}

int main(void)
{
    static racer racers[THREADS];
    pthread_t threads[THREADS + 1];
    const gmv_registry_options options = {.observe = observe};
    deadline_ns = gmv_clock_monotonic_ns() + 1500000000;
    if (gmv_registry_create(&options, &registry, NULL) != GMV_OK)
        abort();
    for (uint32_t i = 0; i < THREADS; i++) {
        racers[i].random = i + 1;
        if (pthread_create(&threads[i], NULL, race, &racers[i]) != 0)
            abort();
    }
    if (pthread_create(&threads[THREADS], NULL, reap, NULL) != 0)
        abort();
    long rounds = 0;
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        rounds += racers[i].rounds;
    }
    atomic_store(&stop, true);
    pthread_join(threads[THREADS], NULL);
    printf("# %ld rounds, %ld nodes made\n", rounds, atomic_load(&made));
    delete_rest(&racers[0]);
    gmv_registry_counts counts;
    gmv_registry_count(registry, &counts);
    uint64_t left = 0;
    for (int kind = 0; kind < GMV_KIND_COUNT; kind++)
        left += counts.alive[kind] + counts.named[kind];
    printf("1..4\n");
    report(1, rounds > 100 && atomic_load(&made) > 100, "the threads have worked");
    report(2, left == 0, "nothing is left");
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
