/* SPDX-License-Identifier: Apache-2.0 */
/* Hash tables by id (see shard.h). Ids are random, so their bits serve as the hash. */
#include "registry/shard.h"

#include <string.h>

#include <gmv/base/alloc.h>

/* Buckets that one insertion may add: one keeps pace, two catch up after memory was short. */
#define SHARD_SPLITS 2

void gmv__shard_init(gmv_shard *shard)
{
    memset(shard, 0, sizeof *shard);
    pthread_mutex_init(&shard->lock, NULL);
    shard->segments[0] = shard->base;
    shard->n_segments = 1;
    shard->n_buckets = SHARD_BASE_BUCKETS;
    shard->mask = SHARD_BASE_BUCKETS - 1;
}

void gmv__shard_fini(gmv_shard *shard)
{
    for (size_t i = 1; i < shard->n_segments; i++)
        gmv_free(shard->segments[i]);
    pthread_mutex_destroy(&shard->lock);
}

/* The low bits of `low` choose the shard. */
static size_t shard_hash(const gmv_id *id)
{
    return (size_t)id->high;
}

static size_t shard_capacity(const gmv_shard *shard)
{
    return (size_t)SHARD_BASE_BUCKETS << (shard->n_segments - 1);
}

static gmv_node **shard_bucket(const gmv_shard *shard, size_t index)
{
    size_t group = index / SHARD_BASE_BUCKETS;
    if (group == 0)
        return &shard->segments[0][index];
    unsigned level = 63u - (unsigned)__builtin_clzll(group);
    return &shard->segments[level + 1][index - ((size_t)SHARD_BASE_BUCKETS << level)];
}

static gmv_node **shard_bucket_of(const gmv_shard *shard, const gmv_id *id)
{
    size_t index = shard_hash(id) & shard->mask;
    if (index >= shard->n_buckets)
        index &= shard->mask >> 1;
    return shard_bucket(shard, index);
}

static bool shard_wants_segment(const gmv_shard *shard)
{
    return shard->count + shard->reserved > shard_capacity(shard) &&
           shard->n_segments < SHARD_SEGMENTS;
}

void gmv__shard_prefetch(const gmv_shard *shard, const gmv_id *id)
{
    __builtin_prefetch(shard_bucket_of(shard, id));
}

void gmv__shard_reserve(gmv_shard *shard, const gmv_id *id)
{
    pthread_mutex_lock(&shard->lock);
    shard->reserved++;
    gmv__shard_prefetch(shard, id);
    bool wanted = shard_wants_segment(shard);
    size_t n_buckets = shard_capacity(shard);
    pthread_mutex_unlock(&shard->lock);
    if (!wanted)
        return;
    gmv_node **segment = gmv_calloc(n_buckets, sizeof(gmv_node *));
    if (!segment)
        return;
    pthread_mutex_lock(&shard->lock);
    if (shard_wants_segment(shard) && shard_capacity(shard) == n_buckets) {
        shard->segments[shard->n_segments++] = segment;
        segment = NULL;
    }
    pthread_mutex_unlock(&shard->lock);
    gmv_free(segment);
}

void gmv__shard_unreserve(gmv_shard *shard)
{
    pthread_mutex_lock(&shard->lock);
    shard->reserved--;
    pthread_mutex_unlock(&shard->lock);
}

gmv_node *gmv__shard_find(const gmv_shard *shard, const gmv_id *id)
{
    gmv_node *node = *shard_bucket_of(shard, id);
    while (node && !gmv_id_equal(&node->id, id))
        node = node->hash_next;
    return node;
}

/* Puts one more bucket to use and moves to it what belongs there. */
static void shard_split(gmv_shard *shard)
{
    size_t added = shard->n_buckets++;
    if (added > shard->mask)
        shard->mask = shard->mask * 2 + 1;
    gmv_node **link = shard_bucket(shard, added & (shard->mask >> 1));
    gmv_node **target = shard_bucket(shard, added);
    while (*link) {
        gmv_node *node = *link;
        if ((shard_hash(&node->id) & shard->mask) == added) {
            *link = node->hash_next;
            node->hash_next = *target;
            *target = node;
        } else {
            link = &node->hash_next;
        }
    }
    /* The node that the next split looks at first is cold: let it come in the meantime. */
    __builtin_prefetch(*shard_bucket(shard, (added + 1) & (shard->mask >> 1)));
}

static bool shard_is_crowded(const gmv_shard *shard)
{
    return shard->count > shard->n_buckets && shard->n_buckets < shard_capacity(shard);
}

void gmv__shard_insert(gmv_shard *shard, gmv_node *node)
{
    gmv_node **bucket = shard_bucket_of(shard, &node->id);
    node->hash_next = *bucket;
    *bucket = node;
    shard->count++;
    shard->reserved--;
    for (int i = 0; i < SHARD_SPLITS && shard_is_crowded(shard); i++)
        shard_split(shard);
}

void gmv__shard_remove(gmv_shard *shard, gmv_node *node)
{
    gmv_node **link = shard_bucket_of(shard, &node->id);
    while (*link != node)
        link = &(*link)->hash_next;
    *link = node->hash_next;
    node->hash_next = NULL;
    shard->count--;
}
