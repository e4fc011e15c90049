/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a handle costs: its memory, a look-up among a thousand and a million, and the end of a chain
 * of a million slices while another thread looks handles up. Times are of the thread that works,
 * but the longest look-up is by the clock.
 */
#include <inttypes.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <gmv/base/alloc.h>
#include <gmv/base/clock.h>
#include <gmv/registry/registry.h>

enum { MILLION = 1000000, LOOK_UPS = 1000000 };

/* As large as a view and what it keeps of its payload. */
typedef struct object {
    gmv_node node;
    char rest[330 - sizeof(gmv_node)];
} object;

static const gmv_caller anyone = {0};

static void object_destroy(gmv_node *node)
{
    gmv_free(node);
}

static const gmv_node_class object_class = {.kind = GMV_KIND_VIEW, .destroy = object_destroy};

static gmv_registry *make_registry(void)
{
    gmv_registry *registry = NULL;
    if (gmv_registry_create(NULL, &registry, NULL) != GMV_OK)
        abort();
    return registry;
}

/* In flight for the caller. */
static gmv_node *make(gmv_registry *registry, gmv_node *owner)
{
    object *made = gmv_calloc(1, sizeof *made);
    const gmv_node_attributes attributes = {.caller = &anyone};
    if (!made || gmv_node_prepare(registry, &made->node, &object_class, &attributes, &owner, 1,
                                  NULL) != GMV_OK)
        abort();
    gmv_node *node = &made->node;
    gmv_registry_publish(registry, &node, 1);
    return node;
}

/* Of this thread: other programs on the machine do not count. */
static int64_t cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static double since_ms(int64_t start_ns)
{
    return (double)(cpu_ns() - start_ns) / 1e6;
}

static void look_up(gmv_registry *registry, const gmv_id *id)
{
    gmv_node *node = NULL;
    if (gmv_registry_get(registry, &anyone, id, GMV_KIND_VIEW, NULL, &node, NULL) != GMV_OK)
        abort();
    gmv_registry_release(registry, node, false);
}

static void measure_look_ups(gmv_registry *registry, const gmv_id *ids, size_t n)
{
    uint64_t random = 1;
    int64_t start = cpu_ns();
    for (int i = 0; i < LOOK_UPS; i++) {
        random = random * UINT64_C(6364136223846793005) + 1;
        look_up(registry, &ids[(random >> 33) % n]);
    }
    printf("look-up and release among %zu: %.0f ns\n", n, since_ms(start) * 1e6 / LOOK_UPS);
}

static void measure_handles(size_t n)
{
    gmv_registry *registry = make_registry();
    gmv_id *ids = malloc(n * sizeof *ids);
    if (!ids)
        abort();
    gmv_node *owner = make(registry, NULL);
    size_t before = mallinfo2().uordblks + mallinfo2().hblkhd;
    int64_t start = cpu_ns();
    for (size_t i = 0; i < n; i++) {
        gmv_node *node = make(registry, owner);
        ids[i] = node->id;
        gmv_registry_release(registry, node, true);
    }
    double ms = since_ms(start);
    size_t after = mallinfo2().uordblks + mallinfo2().hblkhd;
    printf("%zu handles of %zu bytes and one owner: %.0f bytes and %.0f ns each\n", n,
           sizeof(object), (double)(after - before) / (double)n, ms * 1e6 / (double)n);
    measure_look_ups(registry, ids, n);
    gmv_registry_release(registry, owner, true);
    free(ids);
    gmv_registry_destroy(registry);
}

typedef struct looker {
    gmv_registry *registry;
    gmv_id id;
    atomic_bool stop;
    atomic_llong longest_ns;
    long count;
} looker;

static void *look(void *argument)
{
    looker *me = argument;
    while (!atomic_load_explicit(&me->stop, memory_order_relaxed)) {
        int64_t start = gmv_clock_monotonic_ns();
        look_up(me->registry, &me->id);
        int64_t took = gmv_clock_monotonic_ns() - start;
        if (took > atomic_load(&me->longest_ns))
            atomic_store(&me->longest_ns, took);
        me->count++;
    }
    return NULL;
}

static void measure_chain(void)
{
    gmv_registry *registry = make_registry();
    static looker other;
    static gmv_deletion deletion;
    gmv_node *bystander = make(registry, NULL);
    other.registry = registry;
    other.id = bystander->id;
    gmv_registry_release(registry, bystander, true);
    gmv_node *node = make(registry, NULL);
    for (int i = 1; i < MILLION; i++) {
        gmv_node *slice = make(registry, node);
        gmv_id id = node->id;
        gmv_registry_release(registry, node, true);
        if (gmv_registry_delete(registry, &anyone, &id, GMV_KIND_ANY, GMV_IF_HELD_KEEP, &deletion,
                                NULL) != GMV_OK)
            abort();
        node = slice;
    }
    gmv_id last = node->id;
    gmv_registry_release(registry, node, true);
    pthread_t thread;
    if (pthread_create(&thread, NULL, look, &other) != 0)
        abort();
    /* What this machine does to a look-up that nothing is in the way of. */
    nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
    double alone_ms = (double)atomic_exchange(&other.longest_ns, 0) / 1e6;
    int64_t start = cpu_ns();
    if (gmv_registry_delete(registry, &anyone, &last, GMV_KIND_ANY, GMV_IF_HELD_KEEP, &deletion,
                            NULL) != GMV_OK)
        abort();
    double ms = since_ms(start);
    atomic_store(&other.stop, true);
    pthread_join(thread, NULL);
    printf("chain of %" PRIu64
           " freed in %.0f ms of work; the longest of %ld look-ups took %.2f ms, "
           "%.2f ms before that\n",
           deletion.freed_count, ms, other.count, (double)atomic_load(&other.longest_ns) / 1e6,
           alone_ms);
    gmv_registry_destroy(registry);
}

static void measure_cascade(void)
{
    gmv_registry *registry = make_registry();
    static gmv_deletion deletion;
    gmv_node *owner = make(registry, NULL);
    for (int i = 0; i < MILLION; i++)
        gmv_registry_release(registry, make(registry, owner), true);
    gmv_id id = owner->id;
    gmv_registry_release(registry, owner, true);
    int64_t start = cpu_ns();
    if (gmv_registry_delete(registry, &anyone, &id, GMV_KIND_ANY, GMV_IF_HELD_CASCADE, &deletion,
                            NULL) != GMV_OK)
        abort();
    printf("cascade over %" PRIu64 " in %.0f ms\n", deletion.freed_count, since_ms(start));
    gmv_registry_destroy(registry);
}

int main(void)
{
    printf("a node %zu bytes, an edge %zu\n", sizeof(gmv_node), sizeof(gmv_edge));
    measure_handles(1000);
    measure_handles(MILLION);
    measure_chain();
    measure_cascade();
    return 0;
}
