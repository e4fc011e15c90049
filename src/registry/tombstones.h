/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ids of the last GMV_TOMBSTONES_MAX nodes that died: a ring, and an open-addressing index into
 * it with linear probing. All memory is taken at the start. Has a lock of its own, innermost of
 * all.
 */
#ifndef GMV_REGISTRY_TOMBSTONES_H
#define GMV_REGISTRY_TOMBSTONES_H

#include <pthread.h>

#include <gmv/registry/registry.h>

typedef struct gmv_tombstone {
    uint64_t high, low;
    uint32_t principal;
    uint8_t kind;
    uint8_t reason;
} gmv_tombstone;

typedef struct gmv_tombstones {
    pthread_mutex_t lock;
    gmv_tombstone *ring;
    uint32_t *index; /* place in the ring and one; 0: empty */
    uint64_t added;  /* ever */
} gmv_tombstones;

GMV_NODISCARD bool gmv__tombstones_init(gmv_tombstones *tombstones);
void gmv__tombstones_fini(gmv_tombstones *tombstones);

/* Remembers `id`, and forgets the oldest when the ring is full. */
void gmv__tombstones_add(gmv_tombstones *tombstones, const gmv_id *id, uint32_t principal,
                         gmv_reason reason);

/* False if `id` is not remembered. */
GMV_NODISCARD bool gmv__tombstones_find(gmv_tombstones *tombstones, const gmv_id *id,
                                        gmv_tombstone *out_tombstone);

#endif
