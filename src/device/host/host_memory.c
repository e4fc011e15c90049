/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ordinary memory. Small blocks come from the C library. Big ones are mapped, in sizes of eight
 * steps to a power of two, and kept when freed: fresh pages cost ten times what most operations do
 * with them. The cache is bounded; the block that was freed first makes room.
 *
 * What is counted as used never exceeds the device's total, the cache included, and fresh pages are
 * taken only while the system says that it has them: running out is a status, not a killed process.
 */
#include "device/host/host.h"

#include <stdlib.h>
#include <sys/mman.h>

#include <gmv/base/num.h>

/* ---- accounting ---- */

#define FRESH_CHECK_NBYTES \
    ((uint64_t)16 << 20)                      /* asking the system costs 20 us: once for so many */
#define HEADROOM_NBYTES ((uint64_t)128 << 20) /* left for everyone else, on small machines less */

static bool system_has(const host_device *device, uint64_t nbytes)
{
    uint64_t headroom = GMV_MIN(HEADROOM_NBYTES, device->base.info.total_nbytes / 32);
    uint64_t available = gmv__host_system_available();
    return available >= headroom && nbytes <= available - headroom;
}

bool gmv__host_has_fresh(host_device *device, uint64_t nbytes)
{
    uint64_t unchecked = atomic_fetch_add(&device->unchecked_nbytes, nbytes) + nbytes;
    if (unchecked < FRESH_CHECK_NBYTES)
        return true;
    uint64_t used = atomic_load(&device->used_nbytes); /* nbytes are in it already */
    if (used + gmv__host_cache_nbytes(&device->cache) > device->base.info.total_nbytes)
        gmv__host_cache_trim(&device->cache);
    if (!system_has(device, nbytes)) {
        gmv__host_cache_trim(&device->cache);
        if (!system_has(device, nbytes)) {
            /* Asked again next time, however little it is that is wanted then. */
            atomic_store(&device->unchecked_nbytes, FRESH_CHECK_NBYTES);
            return false;
        }
    }
    atomic_store(&device->unchecked_nbytes, 0);
    return true;
}

bool gmv__host_reserve(host_device *device, uint64_t nbytes)
{
    uint64_t total = device->base.info.total_nbytes;
    uint64_t used = atomic_load(&device->used_nbytes);
    do {
        if (nbytes > total || used > total - nbytes)
            return false;
    } while (!atomic_compare_exchange_weak(&device->used_nbytes, &used, used + nbytes));
    return true;
}

void gmv__host_release(host_device *device, uint64_t nbytes)
{
    atomic_fetch_sub(&device->used_nbytes, nbytes);
}

/* ---- limits of the process ---- */

void gmv__host_limits_init(host_limits *limits)
{
    limits->mappings_max = gmv__host_system_mappings() / 4 * 3;
    limits->descriptors_max = gmv__host_system_descriptors() / 4 * 3;
    atomic_init(&limits->mappings, 0);
    atomic_init(&limits->descriptors, 0);
}

bool gmv__host_limit_take(_Atomic uint64_t *count, uint64_t max)
{
    if (atomic_fetch_add(count, 1) < max)
        return true;
    atomic_fetch_sub(count, 1);
    return false;
}

void gmv__host_limit_give(_Atomic uint64_t *count)
{
    atomic_fetch_sub(count, 1);
}

/* ---- the cache of freed blocks ---- */

struct host_free_block {
    uint64_t nbytes;
    host_free_block *next_in_class, *previous_in_class;
    host_free_block *newer, *older;
};

#define STEPS_LOG2    3
#define SMALLEST_LOG2 16

_Static_assert(HOST_BIG_NBYTES == (uint64_t)1 << SMALLEST_LOG2,
               "the first class is the smallest block");

static unsigned size_log2(uint64_t nbytes)
{
    return 63 - (unsigned)__builtin_clzll(nbytes);
}

/* The size of the block that serves nbytes; 0 if there is none that large. */
static uint64_t block_size(uint64_t nbytes)
{
    uint64_t size;
    if (nbytes >> (SMALLEST_LOG2 + HOST_CACHE_CLASSES / 8 - 1))
        return 0;
    if (!gmv_round_up_checked(nbytes, (uint64_t)1 << (size_log2(nbytes) - STEPS_LOG2), &size))
        return 0;
    return size;
}

static size_t block_class(uint64_t size)
{
    unsigned log2 = size_log2(size);
    uint64_t step = (size >> (log2 - STEPS_LOG2)) & 7;
    return (size_t)(log2 - SMALLEST_LOG2) * 8 + (size_t)step;
}

void gmv__host_cache_init(host_cache *cache, uint64_t nbytes_max)
{
    pthread_mutex_init(&cache->lock, NULL);
    cache->nbytes_max = nbytes_max;
}

uint64_t gmv__host_cache_nbytes(host_cache *cache)
{
    pthread_mutex_lock(&cache->lock);
    uint64_t nbytes = cache->nbytes;
    pthread_mutex_unlock(&cache->lock);
    return nbytes;
}

/* Takes a block out of both lists. Under the lock. */
static void cache_unlink(host_cache *cache, host_free_block *block)
{
    host_free_block **class_head = &cache->classes[block_class(block->nbytes)];
    *(block->previous_in_class ? &block->previous_in_class->next_in_class : class_head) =
        block->next_in_class;
    if (block->next_in_class)
        block->next_in_class->previous_in_class = block->previous_in_class;
    *(block->older ? &block->older->newer : &cache->oldest) = block->newer;
    *(block->newer ? &block->newer->older : &cache->newest) = block->older;
    cache->nbytes -= block->nbytes;
}

/* Under the lock. */
static void cache_link(host_cache *cache, host_free_block *block, uint64_t nbytes)
{
    host_free_block **class_head = &cache->classes[block_class(nbytes)];
    *block =
        (host_free_block){.nbytes = nbytes, .next_in_class = *class_head, .older = cache->newest};
    if (*class_head)
        (*class_head)->previous_in_class = block;
    *class_head = block;
    *(cache->newest ? &cache->newest->newer : &cache->oldest) = block;
    cache->newest = block;
    cache->nbytes += nbytes;
}

static void *cache_take(host_cache *cache, uint64_t size)
{
    pthread_mutex_lock(&cache->lock);
    host_free_block *block = cache->classes[block_class(size)];
    if (block)
        cache_unlink(cache, block);
    pthread_mutex_unlock(&cache->lock);
    return block;
}

static void cache_put(host_cache *cache, void *block, uint64_t size)
{
    pthread_mutex_lock(&cache->lock);
    cache_link(cache, block, size);
    pthread_mutex_unlock(&cache->lock);
}

/*
 * Unmaps blocks, the first freed ones first, until the cache holds nbytes_max at most. Unmapping
 * the middle of what the kernel merged needs a mapping more; where the kernel has none left the
 * block stays in the cache.
 */
static void cache_shrink(host_cache *cache, uint64_t nbytes_max)
{
    for (;;) {
        pthread_mutex_lock(&cache->lock);
        host_free_block *block = cache->nbytes > nbytes_max ? cache->oldest : NULL;
        uint64_t nbytes = block ? block->nbytes : 0;
        if (block)
            cache_unlink(cache, block);
        pthread_mutex_unlock(&cache->lock);
        if (!block)
            return;
        if (munmap(block, nbytes) != 0) {
            cache_put(cache, block, nbytes);
            return;
        }
    }
}

void gmv__host_cache_trim(host_cache *cache)
{
    cache_shrink(cache, 0);
}

void gmv__host_cache_destroy(host_cache *cache)
{
    gmv__host_cache_trim(cache);
    pthread_mutex_destroy(&cache->lock);
}

/* ---- ordinary memory ---- */

static gmv_status small_allocate(host_device *device, host_memory *memory, gmv_error *err)
{
    void *block;
    memory->reserved_nbytes = memory->base.capacity;
    if (!gmv__host_reserve(device, memory->reserved_nbytes))
        return gmv__device_fail_memory(&device->base, memory->base.nbytes, err);
    if (!gmv__host_has_fresh(device, memory->reserved_nbytes) ||
        posix_memalign(&block, HOST_ALIGNMENT, (size_t)memory->base.capacity) != 0) {
        gmv__host_release(device, memory->reserved_nbytes);
        return gmv__device_fail_memory(&device->base, memory->base.nbytes, err);
    }
    memory->base.address = (uint64_t)(uintptr_t)block;
    return GMV_OK;
}

#define HUGE_NBYTES \
    ((uint64_t)4 << 20) /* from here on huge pages are asked for: they come faster */

/* Fresh pages, all zero; MAP_FAILED when there are none. */
static void *map_block(uint64_t size)
{
    const int protection = PROT_READ | PROT_WRITE;
    void *block = mmap(NULL, size, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block != MAP_FAILED && size >= HUGE_NBYTES)
        (void)madvise(block, size, MADV_HUGEPAGE); /* only a wish */
    return block;
}

/* *out_zero: the block is fresh from the system. */
static gmv_status big_allocate(host_device *device, host_memory *memory, bool *out_zero,
                               gmv_error *err)
{
    uint64_t size = block_size(memory->base.capacity);
    memory->reserved_nbytes = size;
    if (size == 0 || !gmv__host_reserve(device, size))
        return gmv__device_fail_memory(&device->base, memory->base.nbytes, err);
    void *block = cache_take(&device->cache, size);
    *out_zero = !block;
    if (!block) {
        block = MAP_FAILED;
        if (gmv__host_has_fresh(device, size))
            block = map_block(size);
    }
    if (block == MAP_FAILED) {
        gmv__host_release(device, size);
        return gmv__device_fail_memory(&device->base, memory->base.nbytes, err);
    }
    memory->base.address = (uint64_t)(uintptr_t)block;
    return GMV_OK;
}

gmv_status gmv__host_ordinary_allocate(host_device *device, host_memory *memory,
                                       gmv_contents contents, gmv_error *err)
{
    bool is_zero = false;
    if (memory->base.capacity < HOST_BIG_NBYTES)
        GMV_TRY(small_allocate(device, memory, err));
    else
        GMV_TRY(big_allocate(device, memory, &is_zero, err));
    uint8_t *block = (uint8_t *)(uintptr_t)memory->base.address;
    uint64_t begin = contents == GMV_CONTENTS_ZEROED ? 0 : memory->base.nbytes;
    if (!is_zero)
        client_fill(block + begin, 0, (size_t)(memory->base.capacity - begin));
    return GMV_OK;
}

void gmv__host_ordinary_free(host_device *device, host_memory *memory)
{
    void *block = (void *)(uintptr_t)memory->base.address;
    uint64_t size = memory->reserved_nbytes;
    if (memory->base.capacity < HOST_BIG_NBYTES) {
        free(block);
    } else if (size > device->cache.nbytes_max && munmap(block, size) == 0) {
        /* Too big to keep. */
    } else {
        cache_put(&device->cache, block, size);
        cache_shrink(&device->cache, device->cache.nbytes_max);
    }
    gmv__host_release(device, size);
}
