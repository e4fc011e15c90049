/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Freed blocks of the pool, kept for whoever wants as many bytes again: a call of the driver takes
 * longer than all the rest of making a partition of a split table, of which there are thousands.
 * They count as free, are kept up to a limit, oldest out first, and go when memory is short.
 *
 * Who frees has waited for the work that used the memory, so a block is anybody's at once.
 */
#include <gmv/base/alloc.h>
#include <gmv/base/num.h>

#include "device/cuda/cuda_priv.h"

#define CACHE_BLOCK_NBYTES_MAX                                         \
    ((uint64_t)8 << 20) /* a longer one is copied more slowly than got \
                         */
#define CACHE_SHARE 32  /* of all memory one part, at most */

void gmv__cuda_cache_open(cuda_device *device, uint64_t nbytes_max)
{
    const uint64_t share = device->base.info.total_nbytes / CACHE_SHARE;
    device->cache.nbytes_max = nbytes_max ? GMV_MIN(nbytes_max, share) : share;
}

/* ---- lists, under the lock ---- */

static cuda_memory **cache_bucket(cuda_cache *cache, uint64_t nbytes)
{
    const uint64_t hash = nbytes / GMV_BITMASK_PADDING * UINT64_C(0x9e3779b97f4a7c15);
    return &cache->buckets[hash >> 56 & (CUDA_CACHE_BUCKETS - 1)];
}

static void cache_link(cuda_cache *cache, cuda_memory *memory)
{
    cuda_memory **bucket = cache_bucket(cache, memory->reserved_nbytes);
    memory->cached_next = *bucket;
    *bucket = memory;
    memory->cached_older = cache->newest;
    memory->cached_newer = NULL;
    *(cache->newest ? &cache->newest->cached_newer : &cache->oldest) = memory;
    cache->newest = memory;
    cache->nbytes += memory->reserved_nbytes;
}

/* `link` is what leads to it in its bucket. */
static cuda_memory *cache_unlink(cuda_cache *cache, cuda_memory **link)
{
    cuda_memory *memory = *link;
    *link = memory->cached_next;
    *(memory->cached_newer ? &memory->cached_newer->cached_older : &cache->newest) =
        memory->cached_older;
    *(memory->cached_older ? &memory->cached_older->cached_newer : &cache->oldest) =
        memory->cached_newer;
    cache->nbytes -= memory->reserved_nbytes;
    return memory;
}

static cuda_memory *cache_unlink_oldest(cuda_cache *cache)
{
    cuda_memory **link = cache_bucket(cache, cache->oldest->reserved_nbytes);
    while (*link != cache->oldest)
        link = &(*link)->cached_next;
    return cache_unlink(cache, link);
}

/* Takes blocks out until `nbytes` are left at most; they are linked by cached_next. */
static cuda_memory *cache_shrink(cuda_cache *cache, uint64_t nbytes)
{
    cuda_memory *surplus = NULL;
    while (cache->nbytes > nbytes) {
        cuda_memory *memory = cache_unlink_oldest(cache);
        memory->cached_next = surplus;
        surplus = memory;
    }
    return surplus;
}

/* ---- the calls ---- */

/* To the pool; a lost device's memory is gone with it. */
static void cache_free(cuda_device *device, cuda_memory *surplus)
{
    while (surplus) {
        cuda_memory *next = surplus->cached_next;
        gmv__cuda_pool_give(device, surplus->base.address);
        gmv_free(surplus);
        surplus = next;
    }
}

cuda_memory *gmv__cuda_cache_take(cuda_device *device, uint64_t nbytes)
{
    cuda_cache *cache = &device->cache;
    cuda_memory *memory = NULL;
    if (nbytes == 0 || nbytes > CACHE_BLOCK_NBYTES_MAX)
        return NULL;
    pthread_mutex_lock(&cache->lock);
    for (cuda_memory **link = cache_bucket(cache, nbytes); *link && !memory;
         link = &(*link)->cached_next) {
        if ((*link)->reserved_nbytes != nbytes)
            continue;
        memory = cache_unlink(cache, link);
        break;
    }
    pthread_mutex_unlock(&cache->lock);
    if (memory)
        atomic_fetch_sub(&device->free_nbytes, (int64_t)nbytes);
    return memory;
}

bool gmv__cuda_cache_give(cuda_device *device, cuda_memory *memory)
{
    cuda_cache *cache = &device->cache;
    const uint64_t nbytes = memory->reserved_nbytes;
    if (memory->base.kind != GMV_MEMORY_ORDINARY || nbytes == 0 ||
        nbytes > GMV_MIN(CACHE_BLOCK_NBYTES_MAX, cache->nbytes_max))
        return false;
    pthread_mutex_lock(&cache->lock);
    cache_link(cache, memory);
    cuda_memory *surplus = cache_shrink(cache, cache->nbytes_max);
    pthread_mutex_unlock(&cache->lock);
    atomic_fetch_add(&device->free_nbytes, (int64_t)nbytes);
    if (surplus) {
        CUDA_SCOPE(device);
        cache_free(device, surplus);
    }
    return true;
}

bool gmv__cuda_cache_empty(cuda_device *device)
{
    pthread_mutex_lock(&device->cache.lock);
    cuda_memory *surplus = cache_shrink(&device->cache, 0);
    pthread_mutex_unlock(&device->cache.lock);
    cache_free(device, surplus);
    return surplus != NULL;
}

uint64_t gmv__cuda_cache_nbytes(cuda_device *device)
{
    pthread_mutex_lock(&device->cache.lock);
    const uint64_t nbytes = device->cache.nbytes;
    pthread_mutex_unlock(&device->cache.lock);
    return nbytes;
}
