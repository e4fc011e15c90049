/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that begin, bear, and end sessions, make leased handles in them, renew, delete, cascade
 * and release, while a reaper ends leases on a clock that runs fast: for ThreadSanitizer and for
 * what must hold in the end: nothing is left, and nothing made in an ended session stands.
 */
#include "registry/race.h"

enum { SHARED = 48, SESSIONS = 6, CLOCK_SPEED = 80 };

static atomic_long sessions_made, refused, expired, ended;
static gmv_id shared[SHARED], sessions[SESSIONS];

static const gmv_node_class race_class = {.kind = GMV_KIND_PACKED, .destroy = race_destroy};

static gmv_node *prepare(const gmv_caller *caller, bool inner, uint32_t ttl, gmv_node *owner)
{
    toy *object = gmv_calloc(1, sizeof *object);
    const gmv_node_attributes attributes = {.caller = caller, .inner = inner, .ttl_seconds = ttl};
    if (!object || gmv_node_prepare(registry, &object->node, &race_class, &attributes, &owner, 1,
                                    NULL) != GMV_OK)
        abort();
    atomic_fetch_add(&made, 1);
    return &object->node;
}

/* An inner one under a named one, over a shared handle, in a session or in none. */
static void make_in(racer *me, const gmv_caller *caller)
{
    gmv_id id = race_pick(me, shared, SHARED);
    gmv_node *owner = hold(&id);
    gmv_node *nodes[2];
    nodes[0] = prepare(caller, true, 0, owner);
    nodes[1] = prepare(caller, false, draw(me, 3), nodes[0]);
    if (draw(me, 4) == 0)
        sched_yield();
    gmv_registry_publish(registry, nodes, 2);
    race_offer(me, shared, SHARED, &nodes[1]->id);
    gmv_registry_release(registry, owner, draw(me, 2));
    for (int i = 0; i < 2; i++)
        gmv_registry_release(registry, nodes[i], draw(me, 2));
}

static void make(racer *me)
{
    make_in(me, &anyone);
}

static void make_in_session(racer *me)
{
    gmv_id id = race_pick(me, sessions, SESSIONS);
    gmv_caller bearer = {0};
    if (gmv_session_enter(registry, &anyone, &id, &bearer.session, &me->err) != GMV_OK) {
        atomic_fetch_add(&refused, 1);
        return;
    }
    make_in(me, &bearer);
    gmv_session_leave(registry, bearer.session);
}

static void begin_session(racer *me)
{
    gmv_session_info info;
    if (gmv_session_create(registry, &anyone, "race", 4, 1 + draw(me, 3), &info, NULL) != GMV_OK)
        abort();
    atomic_fetch_add(&sessions_made, 1);
    race_offer(me, sessions, SESSIONS, &info.id);
}

/* After the end no handle of the session may be found. */
static void end_session(racer *me)
{
    gmv_id id = race_pick(me, sessions, SESSIONS);
    if (gmv_session_end(registry, &anyone, &id, &me->deletion, &me->err) != GMV_OK)
        return;
    atomic_fetch_add(&ended, 1);
    gmv_id other = race_pick(me, shared, SHARED);
    gmv_node *node = hold(&other);
    if (node && gmv_registry_describe(registry, &anyone, &other, &me->info, &me->err) == GMV_OK &&
        gmv_id_equal(&me->info.session, &id) && me->info.named)
        abort();
    gmv_registry_release(registry, node, true);
}

static void change_lease(racer *me)
{
    gmv_id id = race_pick(me, shared, SHARED);
    (void)!gmv_registry_lease(registry, &anyone, &id, draw(me, 4), &me->info, &me->err);
}

static void delete_one(racer *me)
{
    gmv_id id = race_pick(me, shared, SHARED);
    (void)!gmv_registry_delete(registry, &anyone, &id, GMV_KIND_ANY, (gmv_if_held)draw(me, 3),
                               &me->deletion, &me->err);
}

static void disown_one(racer *me)
{
    gmv_id id = race_pick(me, shared, SHARED);
    gmv_node *node = hold(&id), *named = NULL;
    if (node && gmv_registry_disown(registry, node, 0, &named)) {
        race_offer(me, shared, SHARED, &named->id);
        gmv_registry_release(registry, named, false);
    }
    gmv_registry_release(registry, node, false);
}

static void count_session(void *context, const gmv_session_info *info)
{
    *(long *)context += info->ttl_seconds;
}

static void list_page(racer *me)
{
    const gmv_list_filter filter = {.all = draw(me, 2),
                                    .session = race_pick(me, sessions, SESSIONS)};
    uint64_t cursor;
    long n = 0;
    gmv_registry_list(registry, &anyone, &filter, 0, 20, count_info, &n, &cursor);
    gmv_session_list(registry, &anyone, 0, 20, count_session, &n, &cursor);
}

static void *reap(void *argument)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    while (!atomic_load(&race_is_over)) {
        gmv_registry_reap(registry);
        atomic_fetch_add(&expired, (long)gmv_registry_expire(registry));
        nanosleep(&pause, NULL);
        gmv_clock_advance_ms(100);
    }
    return NULL;
}

static void end_listed(void *context, const gmv_session_info *info)
{
    racer *me = context;
    (void)!gmv_session_end(registry, &anyone, &info->id, &me->deletion, &me->err);
}

static void delete_listed(void *context, const gmv_handle_info *info)
{
    racer *me = context;
    (void)!gmv_registry_delete(registry, &anyone, &info->id, GMV_KIND_ANY, GMV_IF_HELD_CASCADE,
                               &me->deletion, &me->err);
}

/* What has a lease or stands in a session goes with it first, then the rest. */
static void end_the_rest(racer *me)
{
    const gmv_list_filter filter = {0};
    uint64_t cursor = 0;
    gmv_clock_advance_ms(10000);
    atomic_fetch_add(&expired, (long)gmv_registry_expire(registry));
    do
        gmv_session_list(registry, &anyone, cursor, 100, end_listed, me, &cursor);
    while (cursor);
    do
        gmv_registry_list(registry, &anyone, &filter, cursor, 100, delete_listed, me, &cursor);
    while (cursor);
    while (gmv_registry_reap(registry) + gmv_registry_expire(registry) > 0)
        ;
}

int main(void)
{
    static race_move *const moves[] = {
        make,        make_in_session, make_in_session, make_in_session, begin_session,
        end_session, change_lease,    delete_one,      disown_one,      list_page};
    (void)race_run(moves, sizeof moves / sizeof moves[0], reap, CLOCK_SPEED);
    end_the_rest(&racers[0]);
    printf(
        "# %ld nodes and %ld sessions made, %ld leases expired, %ld sessions ended, %ld refused\n",
        atomic_load(&made), atomic_load(&sessions_made), atomic_load(&expired), atomic_load(&ended),
        atomic_load(&refused));
    long everything = atomic_load(&made) + atomic_load(&sessions_made);
    printf("1..5\n");
    report(1,
           atomic_load(&made) > RACE_THREADS * RACE_ROUNDS_MIN / 4 &&
               atomic_load(&sessions_made) > 10,
           "the threads have worked");
    report(2, atomic_load(&expired) > 0 && atomic_load(&ended) > 0, "leases and sessions ended");
    report(3, race_count_left() == 0, "nothing is left");
    report(4, atomic_load(&destroyed) == atomic_load(&made), "each node is destroyed once");
    report(5,
           atomic_load(&created) == everything && atomic_load(&freed) == everything &&
               atomic_load(&deleted) >= atomic_load(&sessions_made),
           "observers have heard of every one");
    gmv_registry_destroy(registry);
    return 0;
}
