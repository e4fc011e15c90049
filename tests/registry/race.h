/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the racing programs of the registry share: threads that draw their moves from numbers of
 * their own for a second and a half, slots of ids that all of them use, and counters of what was
 * made, heard of and destroyed. Plain programs that print TAP; each includes this once.
 */
#ifndef GMV_TESTS_REGISTRY_RACE_H
#define GMV_TESTS_REGISTRY_RACE_H

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <time.h>

#include <gmv/base/clock.h>
#include <gmv/base/num.h>

#include "registry/toy.h"

/* Every thread makes the first number of moves however slow it is, and no more than the second. */
enum { RACE_THREADS = 4, RACE_ROUNDS_MIN = 512, RACE_ROUNDS_MAX = 60000 };

typedef struct racer racer;
typedef void race_move(racer *me);

struct racer {
    uint32_t random;
    long rounds;
    race_move *const *moves;
    uint32_t n_moves;
    gmv_handle_info info;
    gmv_deletion deletion;
    gmv_error err;
};

static gmv_registry *registry;
static racer racers[RACE_THREADS];
static atomic_long made, destroyed, created, deleted, freed;
static atomic_bool race_is_over;
static int64_t race_end_ns;
static pthread_mutex_t race_lock = PTHREAD_MUTEX_INITIALIZER;

static void race_destroy(gmv_node *node)
{
    atomic_fetch_add(&destroyed, 1);
    gmv_free(node);
}

static void race_observe(void *context, gmv_event event, const gmv_node *node)
{
    atomic_long *const counters[] = {&created, &deleted, &freed};
    atomic_fetch_add(counters[event], 1);
}

static uint32_t draw(racer *me, uint32_t bound)
{
    me->random = me->random * 1664525u + 1013904223u;
    return (me->random >> 8) % bound;
}

/* Slots of ids are read and written under the lock. */
static gmv_id race_pick(racer *me, const gmv_id *from, uint32_t n)
{
    pthread_mutex_lock(&race_lock);
    gmv_id id = from[draw(me, n)];
    pthread_mutex_unlock(&race_lock);
    return id;
}

static void race_offer(racer *me, gmv_id *to, uint32_t n, const gmv_id *id)
{
    pthread_mutex_lock(&race_lock);
    to[draw(me, n)] = *id;
    pthread_mutex_unlock(&race_lock);
}

static gmv_node *hold(const gmv_id *id)
{
    gmv_node *node = NULL;
    gmv_status status = gmv_registry_get(registry, &anyone, id, GMV_KIND_ANY, NULL, &node, NULL);
    return status == GMV_OK ? node : NULL;
}

static void count_info(void *context, const gmv_handle_info *info)
{
    *(long *)context += info->alive;
}

static void *race_main(void *argument)
{
    racer *me = argument;
    gmv_error_init(&me->err);
    while (me->rounds < RACE_ROUNDS_MAX) {
        if (me->rounds >= RACE_ROUNDS_MIN && me->rounds % 64 == 0 &&
            gmv_clock_monotonic_ns() > race_end_ns)
            break;
        if (draw(me, 16) == 0)
            sched_yield();
        me->moves[draw(me, me->n_moves)](me);
        me->rounds++;
    }
    return NULL;
}

static void race_start(pthread_t *thread, void *(*main)(void *), void *argument)
{
    if (pthread_create(thread, NULL, main, argument) != 0)
        abort();
}

/*
 * Opens the registry and lets the threads race, beside one that runs `reap` until race_is_over.
 * `clock_speed`: how many times as fast as in life the clock goes meanwhile. Gives their rounds.
 */
static long race_run(race_move *const *moves, uint32_t n_moves, void *(*reap)(void *),
                     int64_t clock_speed)
{
    pthread_t threads[RACE_THREADS], reaper;
    const gmv_registry_options options = {.observe = race_observe};
    long rounds = 0;
    if (gmv_registry_create(&options, &registry, NULL) != GMV_OK)
        abort();
    race_end_ns = gmv_clock_monotonic_ns() + INT64_C(1500000000) * clock_speed;
    for (uint32_t i = 0; i < RACE_THREADS; i++) {
        racers[i] = (racer){.random = i + 1, .moves = moves, .n_moves = n_moves};
        race_start(&threads[i], race_main, &racers[i]);
    }
    race_start(&reaper, reap, NULL);
    for (int i = 0; i < RACE_THREADS; i++) {
        pthread_join(threads[i], NULL);
        rounds += racers[i].rounds;
    }
    atomic_store(&race_is_over, true);
    pthread_join(reaper, NULL);
    return rounds;
}

/* Everything that is alive or has a name. */
static uint64_t race_count_left(void)
{
    gmv_registry_counts counts;
    gmv_registry_count(registry, &counts);
    uint64_t left = 0;
    for (int kind = 0; kind < GMV_KIND_COUNT; kind++)
        left += counts.alive[kind] + counts.named[kind];
    return left;
}

static void report(int number, bool good, const char *what)
{
    printf("%s %d - %s\n", good ? "ok" : "not ok", number, what);
}

#endif
