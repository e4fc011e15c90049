/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The timing wheel (see wheel.h). A node stands on the level of the highest group of bits in which
 * its tick differs from the wheel's, so every slot lies ahead within the present round of its
 * level, and the first occupied slot of the lowest occupied level comes first.
 */
#include "registry/wheel.h"

#include <string.h>

#include <gmv/base/num.h>

#define WHEEL_SLOT_MASK (WHEEL_SLOTS - 1u)

void gmv__wheel_init(gmv_wheel *wheel, int64_t now_ns)
{
    memset(wheel, 0, sizeof *wheel);
    wheel->origin_ns = now_ns;
}

static uint64_t wheel_tick_of(const gmv_wheel *wheel, int64_t when_ns)
{
    return when_ns <= wheel->origin_ns ? 0
                                       : (uint64_t)(when_ns - wheel->origin_ns) >> WHEEL_TICK_SHIFT;
}

static unsigned wheel_index(uint64_t tick, unsigned level)
{
    return (unsigned)(tick >> (level * WHEEL_SLOT_BITS)) & WHEEL_SLOT_MASK;
}

void gmv__wheel_put(gmv_wheel *wheel, gmv_node *node, int64_t deadline_ns)
{
    uint64_t tick = GMV_MAX(wheel_tick_of(wheel, deadline_ns), wheel->tick);
    uint64_t differing = tick ^ wheel->tick;
    unsigned level = differing ? (63u - (unsigned)__builtin_clzll(differing)) / WHEEL_SLOT_BITS : 0;
    level = GMV_MIN(level, WHEEL_LEVELS - 1); /* 2,300 years ahead: not reached */
    unsigned index = wheel_index(tick, level);
    gmv_node **slot = &wheel->slots[level][index];
    node->timer_previous = NULL;
    node->timer_next = *slot;
    if (*slot)
        (*slot)->timer_previous = node;
    *slot = node;
    node->timer_slot = (uint16_t)(level * WHEEL_SLOTS + index + 1);
    wheel->occupied[level] |= UINT64_C(1) << index;
    wheel->count++;
}

void gmv__wheel_remove(gmv_wheel *wheel, gmv_node *node)
{
    if (node->timer_slot == 0)
        return;
    unsigned level = (node->timer_slot - 1u) / WHEEL_SLOTS;
    unsigned index = (node->timer_slot - 1u) % WHEEL_SLOTS;
    if (node->timer_previous)
        node->timer_previous->timer_next = node->timer_next;
    else
        wheel->slots[level][index] = node->timer_next;
    if (node->timer_next)
        node->timer_next->timer_previous = node->timer_previous;
    if (!wheel->slots[level][index])
        wheel->occupied[level] &= ~(UINT64_C(1) << index);
    node->timer_previous = node->timer_next = NULL;
    node->timer_slot = 0;
    wheel->count--;
}

typedef struct wheel_place {
    unsigned level, index;
    uint64_t tick; /* where the slot begins, not before the wheel's */
} wheel_place;

/*
 * The slot that is reached first; a slot above the lowest level that time stands in is still moving
 * down and goes before all others. The wheel is not empty.
 */
static wheel_place wheel_first(const gmv_wheel *wheel)
{
    for (unsigned level = WHEEL_LEVELS - 1; level > 0; level--) {
        unsigned index = wheel_index(wheel->tick, level);
        if (wheel->occupied[level] >> index & 1)
            return (wheel_place){level, index, wheel->tick};
    }
    unsigned level = 0;
    while (!wheel->occupied[level])
        level++;
    unsigned index = (unsigned)__builtin_ctzll(wheel->occupied[level]);
    unsigned shift = level * WHEEL_SLOT_BITS;
    uint64_t round = wheel->tick >> (shift + WHEEL_SLOT_BITS) << (shift + WHEEL_SLOT_BITS);
    return (wheel_place){level, index, GMV_MAX(round | (uint64_t)index << shift, wheel->tick)};
}

gmv_node *gmv__wheel_take_due(gmv_wheel *wheel, int64_t now_ns, unsigned *budget)
{
    uint64_t now = wheel_tick_of(wheel, now_ns);
    while (wheel->count > 0 && *budget > 0) {
        wheel_place first = wheel_first(wheel);
        /* The lowest level waits for the end of its tick: then all in it are due. */
        if (first.level == 0 ? first.tick >= now : first.tick > now)
            return NULL;
        (*budget)--;
        wheel->tick = first.tick;
        gmv_node *node = wheel->slots[first.level][first.index];
        gmv__wheel_remove(wheel, node);
        if (first.level == 0)
            return node;
        gmv__wheel_put(wheel, node, node->deadline_ns);
    }
    return NULL;
}

int64_t gmv__wheel_next_ns(const gmv_wheel *wheel)
{
    if (wheel->count == 0)
        return INT64_MAX;
    wheel_place first = wheel_first(wheel);
    uint64_t tick = first.level == 0 ? first.tick + 1 : first.tick;
    return wheel->origin_ns + (int64_t)(tick << WHEEL_TICK_SHIFT);
}
