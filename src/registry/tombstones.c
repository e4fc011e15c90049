/* SPDX-License-Identifier: Apache-2.0 */
/* The last ids that died (see tombstones.h). */
#include "registry/tombstones.h"

#include <string.h>

#include <gmv/base/alloc.h>

/* Twice as many as the ring has places: probes stay short. */
#define INDEX_SLOTS (2u * GMV_TOMBSTONES_MAX)
#define INDEX_MASK  (INDEX_SLOTS - 1u)

bool gmv__tombstones_init(gmv_tombstones *tombstones)
{
    tombstones->ring = gmv_calloc(GMV_TOMBSTONES_MAX, sizeof *tombstones->ring);
    tombstones->index = gmv_calloc(INDEX_SLOTS, sizeof *tombstones->index);
    tombstones->added = 0;
    if (!tombstones->ring || !tombstones->index) {
        gmv_free(tombstones->ring);
        gmv_free(tombstones->index);
        return false;
    }
    pthread_mutex_init(&tombstones->lock, NULL);
    return true;
}

void gmv__tombstones_fini(gmv_tombstones *tombstones)
{
    pthread_mutex_destroy(&tombstones->lock);
    gmv_free(tombstones->ring);
    gmv_free(tombstones->index);
}

static uint32_t tombstones_home(const gmv_tombstone *tombstone)
{
    return (uint32_t)(tombstone->low >> 32) & INDEX_MASK;
}

/* Empties an index slot and moves up those behind it that had to go past. */
static void tombstones_clear_slot(gmv_tombstones *tombstones, uint32_t hole)
{
    uint32_t *index = tombstones->index;
    index[hole] = 0;
    for (uint32_t slot = (hole + 1) & INDEX_MASK; index[slot]; slot = (slot + 1) & INDEX_MASK) {
        uint32_t home = tombstones_home(&tombstones->ring[index[slot] - 1]);
        if (((slot - home) & INDEX_MASK) >= ((slot - hole) & INDEX_MASK)) {
            index[hole] = index[slot];
            index[slot] = 0;
            hole = slot;
        }
    }
}

static void tombstones_forget(gmv_tombstones *tombstones, uint32_t place)
{
    uint32_t slot = tombstones_home(&tombstones->ring[place]);
    while (tombstones->index[slot] != place + 1)
        slot = (slot + 1) & INDEX_MASK;
    tombstones_clear_slot(tombstones, slot);
}

void gmv__tombstones_add(gmv_tombstones *tombstones, const gmv_id *id, uint32_t principal,
                         gmv_reason reason)
{
    pthread_mutex_lock(&tombstones->lock);
    uint32_t place = (uint32_t)(tombstones->added % GMV_TOMBSTONES_MAX);
    if (tombstones->added >= GMV_TOMBSTONES_MAX)
        tombstones_forget(tombstones, place);
    tombstones->added++;
    gmv_tombstone *tombstone = &tombstones->ring[place];
    *tombstone = (gmv_tombstone){.high = id->high,
                                 .low = id->low,
                                 .principal = principal,
                                 .kind = (uint8_t)id->kind,
                                 .reason = (uint8_t)reason};
    uint32_t slot = tombstones_home(tombstone);
    while (tombstones->index[slot])
        slot = (slot + 1) & INDEX_MASK;
    tombstones->index[slot] = place + 1;
    /* What the next one has to clear. */
    const gmv_tombstone *next = &tombstones->ring[(place + 1) % GMV_TOMBSTONES_MAX];
    __builtin_prefetch(&tombstones->index[tombstones_home(next)]);
    pthread_mutex_unlock(&tombstones->lock);
}

bool gmv__tombstones_find(gmv_tombstones *tombstones, const gmv_id *id,
                          gmv_tombstone *out_tombstone)
{
    const gmv_tombstone wanted = {.low = id->low};
    bool found = false;
    pthread_mutex_lock(&tombstones->lock);
    for (uint32_t slot = tombstones_home(&wanted); !found && tombstones->index[slot];
         slot = (slot + 1) & INDEX_MASK) {
        const gmv_tombstone *tombstone = &tombstones->ring[tombstones->index[slot] - 1];
        if (tombstone->low == id->low && tombstone->high == id->high &&
            tombstone->kind == (uint8_t)id->kind) {
            *out_tombstone = *tombstone;
            found = true;
        }
    }
    pthread_mutex_unlock(&tombstones->lock);
    return found;
}
