/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One of the hash tables by id: intrusive chains, grown one bucket at a time (linear hashing) in
 * segments that never move, so that no insertion has to rehash the whole. Segments are added before
 * nodes are published; without memory for one, the chains just get longer until there is some.
 */
#ifndef GMV_REGISTRY_SHARD_H
#define GMV_REGISTRY_SHARD_H

#include <pthread.h>

#include <gmv/registry/registry.h>

#define SHARD_BASE_BUCKETS 64u
#define SHARD_SEGMENTS     24u

typedef struct gmv_shard {
    pthread_mutex_t lock;
    size_t count;     /* nodes */
    size_t reserved;  /* nodes to come: as many buckets are kept for them */
    size_t n_buckets; /* in use */
    size_t mask;      /* the next power of two above n_buckets - 1, less one */
    size_t n_segments;
    gmv_node *
        *segments[SHARD_SEGMENTS]; /* the first is `base`, then as many buckets as all before */
    gmv_node *base[SHARD_BASE_BUCKETS];
} gmv_shard;

void gmv__shard_init(gmv_shard *shard);
void gmv__shard_fini(gmv_shard *shard);

/*
 * Tries to make room for the node of `id`, besides all that others have reserved: many may be
 * prepared before the first is inserted. Takes the lock, allocates outside it. The insertion uses
 * the place up, or gmv__shard_unreserve gives it back.
 */
void gmv__shard_reserve(gmv_shard *shard, const gmv_id *id);
void gmv__shard_unreserve(gmv_shard *shard);

/*
 * Has the bucket of `id` fetched, which will be needed soon. Under the lock, or under the
 * registry's graph lock, which every insertion holds too.
 */
void gmv__shard_prefetch(const gmv_shard *shard, const gmv_id *id);

/* These three under the lock. */
gmv_node *gmv__shard_find(const gmv_shard *shard, const gmv_id *id);
void gmv__shard_insert(gmv_shard *shard, gmv_node *node);
void gmv__shard_remove(gmv_shard *shard, gmv_node *node);

#endif
