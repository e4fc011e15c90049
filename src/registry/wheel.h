/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When leases end: a hierarchical timing wheel. A slot is a list threaded through the nodes, so
 * entering and leaving take a few steps and no memory, however many leases there are. A slot of the
 * lowest level is one tick; one of the next spans all slots of the level below, and its nodes move
 * down when time reaches it, each at most once a level. Nodes come out up to a tick late, in no
 * particular order within it. All under the registry's graph lock.
 */
#ifndef GMV_REGISTRY_WHEEL_H
#define GMV_REGISTRY_WHEEL_H

#include <gmv/registry/registry.h>

#define WHEEL_LEVELS     7u
#define WHEEL_SLOT_BITS  6u
#define WHEEL_SLOTS      (1u << WHEEL_SLOT_BITS)
#define WHEEL_TICK_SHIFT 24u /* a tick is 2^24 ns, 17 ms */

typedef struct gmv_wheel {
    int64_t origin_ns;
    uint64_t tick; /* all before it are empty */
    size_t count;
    uint64_t occupied[WHEEL_LEVELS]; /* a bit for each slot that is not empty */
    gmv_node *slots[WHEEL_LEVELS][WHEEL_SLOTS];
} gmv_wheel;

void gmv__wheel_init(gmv_wheel *wheel, int64_t now_ns);

/* Enters a node that is not in the wheel. */
void gmv__wheel_put(gmv_wheel *wheel, gmv_node *node, int64_t deadline_ns);

/* Takes a node out if it is in the wheel. */
void gmv__wheel_remove(gmv_wheel *wheel, gmv_node *node);

/*
 * Takes one node out whose tick has passed at `now_ns`; NULL when there is none, or when the steps
 * of `*budget` are used up.
 */
gmv_node *gmv__wheel_take_due(gmv_wheel *wheel, int64_t now_ns, unsigned *budget);

/* When there is something to do next; INT64_MAX if the wheel is empty. Never later than the end of
 * the tick in which the first lease ends. */
int64_t gmv__wheel_next_ns(const gmv_wheel *wheel);

#endif
