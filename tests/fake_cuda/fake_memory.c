/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fake driver's memory. Live spans stand in one array, sorted by device address. Allocations
 * lie in files without a name, so that other processes can map them; what pools give is carved from
 * slabs. Fresh and freed memory holds a pattern at both ends: nobody may take it for zeros.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fake_cuda/fake_priv.h"

#define PATTERN          0xa5
#define PATTERN_NBYTES   ((size_t)64 << 10)
#define SPACE_NBYTES     ((size_t)1 << 40)
#define SPACE_NBYTES_MIN ((size_t)1 << 34)
#define POOL_ALIGNMENT   ((size_t)512)
#define SLAB_NBYTES      FAKE_GRANULE
#define PAGE_NBYTES      ((size_t)4096)

static size_t round_up(size_t value, size_t unit)
{
    return (value + unit - 1) / unit * unit;
}

/* ---- live spans ------------------------------------------------------------------------------ */

static struct {
    fake_span **spans; /* by address */
    size_t n, capacity;
    uint64_t space, space_end, next; /* device addresses: a reserved range that nobody can touch */
} live;

/* How many spans begin at or below the address. */
static size_t live_count_to(uint64_t address)
{
    size_t low = 0, high = live.n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (live.spans[middle]->address <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

fake_span *fake_span_find(uint64_t address)
{
    size_t count = live_count_to(address);
    fake_span *span = count ? live.spans[count - 1] : NULL;
    return span && address - span->address < span->nbytes ? span : NULL;
}

static bool live_grow(void)
{
    if (live.n < live.capacity)
        return true;
    size_t capacity = live.capacity ? 2 * live.capacity : 256;
    fake_span **spans = realloc(live.spans, capacity * sizeof *spans);
    if (!spans)
        return false;
    live.spans = spans;
    live.capacity = capacity;
    return true;
}

static bool space_reserve(void)
{
    for (size_t nbytes = SPACE_NBYTES; !live.space && nbytes >= SPACE_NBYTES_MIN; nbytes /= 2) {
        void *space =
            mmap(NULL, nbytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (space == MAP_FAILED)
            continue;
        live.space = round_up((uintptr_t)space, FAKE_GRANULE);
        live.space_end = (uintptr_t)space + nbytes;
        live.next = live.space;
    }
    return live.space != 0;
}

/*
 * A free device address. They go round, so that one is not used again soon; a gap keeps what runs
 * over an end from finding the neighbour.
 */
static uint64_t space_take(size_t nbytes, size_t alignment)
{
    if (!space_reserve())
        return 0;
    uint64_t address = live.next;
    for (int rounds = 0; rounds < 2;) {
        address = round_up(address, alignment);
        if (address + nbytes + alignment > live.space_end) {
            address = live.space;
            rounds++;
            continue;
        }
        size_t count = live_count_to(address + nbytes + alignment);
        fake_span *below = count ? live.spans[count - 1] : NULL;
        if (!below || below->address < live.space ||
            below->address + below->nbytes + alignment <= address) {
            live.next = address + nbytes + alignment;
            return address;
        }
        address = below->address + below->nbytes + alignment;
    }
    return 0;
}

bool fake_span_add(fake_span *span)
{
    if (!live_grow())
        return false;
    if (span->kind == FAKE_HOST)
        span->address = (uintptr_t)span->bytes;
    else if (span->address == 0)
        span->address =
            space_take(span->nbytes, span->kind == FAKE_POOLED ? POOL_ALIGNMENT : FAKE_GRANULE);
    if (span->address == 0)
        return false;
    size_t at = live_count_to(span->address);
    memmove(live.spans + at + 1, live.spans + at, (live.n - at) * sizeof live.spans[0]);
    live.spans[at] = span;
    live.n++;
    return true;
}

void fake_span_remove(fake_span *span)
{
    size_t at = live_count_to(span->address) - 1;
    memmove(live.spans + at, live.spans + at + 1, (live.n - at - 1) * sizeof live.spans[0]);
    live.n--;
}

fake_span *fake_span_imported(const uint8_t handle[64])
{
    for (size_t i = 0; i < live.n; i++)
        if (live.spans[i]->kind == FAKE_IMPORT && memcmp(live.spans[i]->handle, handle, 64) == 0)
            return live.spans[i];
    return NULL;
}

bool fake_span_import(size_t wanted, uint8_t out_handle[64])
{
    for (size_t i = 0; i < live.n; i++) {
        if (live.spans[i]->kind != FAKE_IMPORT || wanted-- > 0)
            continue;
        memcpy(out_handle, live.spans[i]->handle, 64);
        return true;
    }
    return false;
}

/* ---- bytes ----------------------------------------------------------------------------------- */

void fake_bytes_fill(uint8_t *bytes, uint8_t value, size_t nbytes)
{
    uint8_t *first = (uint8_t *)round_up((uintptr_t)bytes, PAGE_NBYTES);
    size_t lead = (size_t)(first - bytes);
    if (value != 0 || nbytes < lead + 16 * PAGE_NBYTES) {
        memset(bytes, value, nbytes);
        return;
    }
    size_t middle = (nbytes - lead) / PAGE_NBYTES * PAGE_NBYTES;
    memset(bytes, 0, lead);
    memset(first + middle, 0, nbytes - lead - middle);
    if (madvise(first, middle, MADV_REMOVE) != 0) /* works for files; not for private memory */
        memset(first, 0, middle);
}

static void bytes_spoil(uint8_t *bytes, size_t nbytes)
{
    size_t part = nbytes < PATTERN_NBYTES ? nbytes : PATTERN_NBYTES;
    memset(bytes, PATTERN, part);
    memset(bytes + nbytes - part, PATTERN, part);
}

int fake_file_make(const char *name, size_t nbytes)
{
    int descriptor = memfd_create(name, MFD_CLOEXEC);
    if (descriptor >= 0 && ftruncate(descriptor, (off_t)nbytes) != 0) {
        (void)close(descriptor);
        return -1;
    }
    return descriptor;
}

static uint8_t *bytes_map(size_t nbytes, int descriptor)
{
    int flags = descriptor >= 0 ? MAP_SHARED : MAP_SHARED | MAP_ANONYMOUS;
    void *bytes = mmap(NULL, nbytes, PROT_READ | PROT_WRITE, flags | MAP_NORESERVE, descriptor, 0);
    return bytes == MAP_FAILED ? NULL : bytes;
}

static void span_unmap(fake_span *span)
{
    if (span->mapped_nbytes)
        (void)munmap(span->bytes, span->mapped_nbytes);
    if (span->kind == FAKE_ALLOCATION && span->descriptor >= 0)
        (void)close(span->descriptor);
    free(span);
}

/* ---- access by work -------------------------------------------------------------------------- */

static bool access_pin(fake_access *access, fake_span *span)
{
    for (size_t i = access->n_pinned; i > 0 && i + 8 > access->n_pinned; i--)
        if (access->pinned[i - 1] == span)
            return true;
    if (access->n_pinned == access->capacity) {
        size_t capacity = access->capacity ? 2 * access->capacity : 16;
        fake_span **pinned = realloc(access->pinned, capacity * sizeof(fake_span *));
        if (!pinned)
            return false;
        access->pinned = pinned;
        access->capacity = capacity;
    }
    span->pins++;
    access->pinned[access->n_pinned++] = span;
    return true;
}

static bool span_holds(const fake_span *span, uint64_t address, uint64_t nbytes)
{
    return span && address >= span->address && address - span->address < span->nbytes &&
           nbytes <= span->nbytes - (address - span->address);
}

uint8_t *fake_access_bytes(fake_access *access, uint64_t address, uint64_t nbytes)
{
    static uint8_t nothing[16];
    if (nbytes == 0)
        return nothing;
    if (span_holds(access->last, address, nbytes)) /* pinned, so it stands still */
        return access->last->bytes + (address - access->last->address);
    (void)pthread_mutex_lock(&fake.lock);
    fake_span *span = fake_span_find(address);
    uint8_t *bytes = NULL;
    if (span_holds(span, address, nbytes) && access_pin(access, span)) {
        access->last = span;
        bytes = span->bytes + (address - span->address);
    }
    (void)pthread_mutex_unlock(&fake.lock);
    if (!bytes) {
        char what[96];
        (void)snprintf(what, sizeof what, "%#llx and %llu bytes on are not live memory",
                       (unsigned long long)address, (unsigned long long)nbytes);
        fake_access_fail(access, CUDA_ERROR_ILLEGAL_ADDRESS, what);
    }
    return bytes;
}

uint8_t *fake_access_aligned(fake_access *access, uint64_t address, uint64_t nbytes,
                             uint64_t alignment)
{
    if (nbytes && address % alignment) {
        fake_access_fail(access, CUDA_ERROR_MISALIGNED_ADDRESS, "misaligned address");
        return NULL;
    }
    return fake_access_bytes(access, address, nbytes);
}

void fake_access_fail(fake_access *access, CUresult result, const char *what)
{
    (void)pthread_mutex_lock(&fake.lock);
    fake_violate(access->context, result, "%s: %s", access->who, what);
    (void)pthread_mutex_unlock(&fake.lock);
    access->failed = true;
}

/* Called with the lock. */
void fake_access_end(fake_access *access)
{
    for (size_t i = 0; i < access->n_pinned; i++)
        access->pinned[i]->pins--;
    free(access->pinned);
}

/* ---- allocations ----------------------------------------------------------------------------- */

static void pools_trim(int ordinal);

/* Counts nbytes of the device as used; what pools keep is given up for it. */
static bool device_reserve(int ordinal, size_t nbytes)
{
    fake_device *device = &fake.devices[ordinal];
    if (nbytes > device->total_nbytes)
        return false;
    if (device->used_nbytes + nbytes > device->total_nbytes)
        pools_trim(ordinal);
    if (device->used_nbytes + nbytes > device->total_nbytes)
        return false;
    device->used_nbytes += nbytes;
    return true;
}

static void device_release(int ordinal, size_t nbytes)
{
    fake.devices[ordinal].used_nbytes -= nbytes;
}

static CUresult memory_info(const fake_context *context, size_t *out_free, size_t *out_total)
{
    const fake_device *device = &fake.devices[context->ordinal];
    *out_total = device->total_nbytes;
    *out_free = device->total_nbytes - device->used_nbytes;
    return CUDA_SUCCESS;
}

CUresult fake_memory_info(size_t *out_free, size_t *out_total)
{
    FAKE_CALL("cuMemGetInfo_v2", FAKE_IN_CONTEXT, memory_info(call.context, out_free, out_total));
}

/* A span over fresh bytes of a file, which is live; NULL if the system does not have them. */
static fake_span *allocation_make(fake_context *context, size_t nbytes)
{
    static uint32_t generation;
    fake_span *span = calloc(1, sizeof *span);
    if (!span)
        return NULL;
    *span = (fake_span){.nbytes = nbytes,
                        .mapped_nbytes = round_up(nbytes, FAKE_GRANULE),
                        .kind = FAKE_ALLOCATION,
                        .context = context,
                        .generation = ++generation};
    span->descriptor = fake_file_make("fake_cuda_memory", span->mapped_nbytes);
    if (span->descriptor >= 0)
        span->bytes = bytes_map(span->mapped_nbytes, span->descriptor);
    if (!span->bytes)
        span->mapped_nbytes = 0;
    if (!span->bytes || !fake_span_add(span)) {
        span_unmap(span);
        return NULL;
    }
    bytes_spoil(span->bytes, nbytes);
    return span;
}

static CUresult memory_allocate(fake_context *context, CUdeviceptr *out_address, size_t nbytes)
{
    if (nbytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (nbytes > SIZE_MAX - FAKE_GRANULE ||
        !device_reserve(context->ordinal, round_up(nbytes, FAKE_GRANULE)))
        return CUDA_ERROR_OUT_OF_MEMORY;
    fake_span *span = allocation_make(context, nbytes);
    if (!span) {
        device_release(context->ordinal, round_up(nbytes, FAKE_GRANULE));
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    fake.counters.allocations++;
    *out_address = span->address;
    return CUDA_SUCCESS;
}

CUresult fake_memory_allocate(CUdeviceptr *out_address, size_t nbytes)
{
    FAKE_CALL("cuMemAlloc_v2", FAKE_IN_CONTEXT, memory_allocate(call.context, out_address, nbytes));
}

/* The live span of this kind that begins there. */
static fake_span *span_begun(uint64_t address, fake_kind kind)
{
    fake_span *span = fake_span_find(address);
    return span && span->address == address && span->kind == kind && !span->freeing ? span : NULL;
}

/* Once no work uses it; what still does then is on a stream of another context. */
void fake_span_end(fake_span *span)
{
    if (span->pins)
        fake_violate(span->context, CUDA_ERROR_ILLEGAL_ADDRESS, "memory is freed while it is used");
    while (span->pins)
        (void)pthread_cond_wait(&fake.changed, &fake.lock);
    fake_span_remove(span);
    span_unmap(span);
}

static void allocation_end(fake_span *span)
{
    device_release(span->context->ordinal, span->mapped_nbytes);
    fake.counters.allocations--;
    fake_span_end(span);
}

/* The driver waits for all work before it frees. */
static CUresult memory_free(fake_context *context, CUdeviceptr address)
{
    fake_span *span = span_begun(address, FAKE_ALLOCATION);
    fake_span *pooled = span ? NULL : span_begun(address, FAKE_POOLED);
    if (!span && !pooled)
        return address ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    (span ? span : pooled)->freeing = true;
    fake_context_wait(context);
    if (span)
        allocation_end(span);
    else
        fake_pool_take_back(pooled);
    return CUDA_SUCCESS;
}

CUresult fake_memory_free(CUdeviceptr address)
{
    FAKE_RELEASE("cuMemFree_v2", FAKE_IN_CONTEXT, memory_free(call.context, address));
}

static CUresult memory_range(CUdeviceptr *out_base, size_t *out_nbytes, CUdeviceptr address)
{
    const fake_span *span = fake_span_find(address);
    if (!span)
        return CUDA_ERROR_NOT_FOUND;
    if (out_base)
        *out_base = span->address;
    if (out_nbytes)
        *out_nbytes = span->nbytes;
    return CUDA_SUCCESS;
}

CUresult fake_memory_range(CUdeviceptr *out_base, size_t *out_nbytes, CUdeviceptr address)
{
    FAKE_CALL("cuMemGetAddressRange_v2", FAKE_IN_CONTEXT,
              memory_range(out_base, out_nbytes, address));
}

/* The value's type depends on the attribute. */
static CUresult pointer_attribute(void *out_value, CUpointer_attribute attribute,
                                  CUdeviceptr address)
{
    const fake_span *span = fake_span_find(address);
    if (!span)
        return CUDA_ERROR_INVALID_VALUE;
    switch ((int)attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        *(CUcontext *)out_value = span->context->handle;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(unsigned *)out_value =
            span->kind == FAKE_HOST ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)out_value = span->context->ordinal;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        *(unsigned *)out_value = span->kind == FAKE_ALLOCATION;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *(uint64_t *)out_value = span->address;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        *(size_t *)out_value = span->nbytes;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
        *(uint64_t *)out_value = span->address;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
        *(size_t *)out_value = span->mapped_nbytes;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

CUresult fake_pointer_attribute(void *out_value, CUpointer_attribute attribute, CUdeviceptr address)
{
    FAKE_CALL("cuPointerGetAttribute", FAKE_IN_CONTEXT,
              pointer_attribute(out_value, attribute, address));
}

/* ---- host memory ----------------------------------------------------------------------------- */

static CUresult host_allocate(fake_context *context, void **out_pointer, size_t nbytes)
{
    if (nbytes == 0 || nbytes > SIZE_MAX - PAGE_NBYTES)
        return CUDA_ERROR_INVALID_VALUE;
    fake_span *span = calloc(1, sizeof *span);
    if (!span)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *span = (fake_span){.nbytes = nbytes,
                        .mapped_nbytes = round_up(nbytes, PAGE_NBYTES),
                        .kind = FAKE_HOST,
                        .context = context};
    span->bytes = bytes_map(span->mapped_nbytes, -1);
    if (!span->bytes)
        span->mapped_nbytes = 0;
    if (!span->bytes || !fake_span_add(span)) {
        span_unmap(span);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    bytes_spoil(span->bytes, nbytes);
    fake.counters.host_allocations++;
    *out_pointer = span->bytes;
    return CUDA_SUCCESS;
}

CUresult fake_host_allocate(void **out_pointer, size_t nbytes, unsigned flags)
{
    (void)flags;
    FAKE_CALL("cuMemHostAlloc", FAKE_IN_CONTEXT, host_allocate(call.context, out_pointer, nbytes));
}

CUresult fake_host_allocate_plain(void **out_pointer, size_t nbytes)
{
    FAKE_CALL("cuMemAllocHost_v2", FAKE_IN_CONTEXT,
              host_allocate(call.context, out_pointer, nbytes));
}

static CUresult host_free(fake_context *context, void *pointer)
{
    fake_span *span = span_begun((uintptr_t)pointer, FAKE_HOST);
    if (!span)
        return CUDA_ERROR_INVALID_VALUE;
    span->freeing = true;
    fake_context_wait(context);
    fake.counters.host_allocations--;
    fake_span_end(span);
    return CUDA_SUCCESS;
}

CUresult fake_host_free(void *pointer)
{
    FAKE_RELEASE("cuMemFreeHost", FAKE_IN_CONTEXT, host_free(call.context, pointer));
}

static CUresult host_device_pointer(CUdeviceptr *out_address, void *pointer)
{
    const fake_span *span = fake_span_find((uintptr_t)pointer);
    if (!span || span->kind != FAKE_HOST)
        return CUDA_ERROR_INVALID_VALUE;
    *out_address = (uintptr_t)pointer;
    return CUDA_SUCCESS;
}

CUresult fake_host_device_pointer(CUdeviceptr *out_address, void *pointer, unsigned flags)
{
    (void)flags;
    FAKE_CALL("cuMemHostGetDevicePointer_v2", FAKE_IN_CONTEXT,
              host_device_pointer(out_address, pointer));
}

/* ---- pools ----------------------------------------------------------------------------------- */

/* Where small blocks come from; goes back with its pool. */
typedef struct fake_slab {
    struct fake_slab *next;
    uint8_t *bytes;
    size_t used_nbytes;
} fake_slab;

/* What a destroyed pool has given out stays live, and so does the pool's struct until then. */
struct fake_pool {
    void *handle; /* NULL once destroyed */
    int ordinal;
    uint64_t threshold;
    uint64_t reserved_nbytes, reserved_nbytes_high;
    uint64_t used_nbytes, used_nbytes_high;
    size_t n_live;
    fake_span *free; /* by no order; their nbytes is the block's */
    fake_slab *slabs;
    fake_pool *next;
};

static fake_pool *pools;

static size_t block_nbytes(size_t nbytes)
{
    return round_up(nbytes, nbytes >= SLAB_NBYTES / 2 ? FAKE_GRANULE : POOL_ALIGNMENT);
}

static void pool_unreserve(fake_pool *pool, size_t nbytes)
{
    pool->reserved_nbytes -= nbytes;
    device_release(pool->ordinal, nbytes);
}

/* Gives free blocks with a mapping of their own back until no more than `keep` is reserved. */
static void pool_trim(fake_pool *pool, uint64_t keep)
{
    fake_span **link = &pool->free;
    while (*link && pool->reserved_nbytes > keep) {
        fake_span *span = *link;
        if (!span->mapped_nbytes) {
            link = &span->next;
            continue;
        }
        *link = span->next;
        pool_unreserve(pool, span->mapped_nbytes);
        span_unmap(span);
    }
}

static void pools_trim(int ordinal)
{
    for (fake_pool *pool = pools; pool; pool = pool->next)
        if (pool->ordinal == ordinal)
            pool_trim(pool, 0);
}

/* Ends a destroyed pool once nothing of it is live. */
static void pool_end(fake_pool *pool)
{
    fake_pool **link = &pools;
    if (pool->handle || pool->n_live)
        return;
    pool_trim(pool, 0);
    for (fake_span *span; (span = pool->free);) {
        pool->free = span->next;
        free(span);
    }
    for (fake_slab *slab; (slab = pool->slabs);) {
        pool->slabs = slab->next;
        (void)munmap(slab->bytes, SLAB_NBYTES);
        pool_unreserve(pool, SLAB_NBYTES);
        free(slab);
    }
    while (*link != pool)
        link = &(*link)->next;
    *link = pool->next;
    free(pool);
}

static CUresult pool_create(CUmemoryPool *out_pool, const CUmemPoolProps *properties)
{
    int ordinal = properties->location.id;
    if (properties->allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
        properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    if (ordinal < 0 || ordinal >= fake.n_devices)
        return CUDA_ERROR_INVALID_DEVICE;
    fake_pool *pool = calloc(1, sizeof *pool);
    void *handle = pool ? fake_handle_make(FAKE_POOL, pool) : NULL;
    if (!handle) {
        free(pool);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *pool = (fake_pool){.handle = handle, .ordinal = ordinal, .next = pools};
    pools = pool;
    fake.counters.pools++;
    *out_pool = handle;
    return CUDA_SUCCESS;
}

CUresult fake_pool_create(CUmemoryPool *out_pool, const CUmemPoolProps *properties)
{
    FAKE_CALL("cuMemPoolCreate", FAKE_GLOBAL, pool_create(out_pool, properties));
}

static CUresult pool_destroy(CUmemoryPool handle)
{
    fake_pool *pool = fake_handle_object(FAKE_POOL, handle);
    if (!pool)
        return CUDA_ERROR_INVALID_VALUE;
    fake_handle_drop(handle);
    pool->handle = NULL;
    fake.counters.pools--;
    pool_end(pool);
    return CUDA_SUCCESS;
}

CUresult fake_pool_destroy(CUmemoryPool pool)
{
    FAKE_RELEASE("cuMemPoolDestroy", FAKE_GLOBAL, pool_destroy(pool));
}

static CUresult pool_set(CUmemoryPool handle, CUmemPool_attribute attribute, const void *value)
{
    fake_pool *pool = fake_handle_object(FAKE_POOL, handle);
    if (!pool)
        return CUDA_ERROR_INVALID_VALUE;
    switch ((int)attribute) {
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        pool->threshold = *(const uint64_t *)value;
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
        pool->reserved_nbytes_high = pool->reserved_nbytes;
        return *(const uint64_t *)value ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        pool->used_nbytes_high = pool->used_nbytes;
        return *(const uint64_t *)value ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult fake_pool_set(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
    FAKE_CALL("cuMemPoolSetAttribute", FAKE_GLOBAL, pool_set(pool, attribute, value));
}

static CUresult pool_get(CUmemoryPool handle, CUmemPool_attribute attribute, void *out_value)
{
    const fake_pool *pool = fake_handle_object(FAKE_POOL, handle);
    const struct {
        CUmemPool_attribute attribute;
        uint64_t value;
    } rows[] = {
        {CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, pool ? pool->threshold : 0},
        {CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, pool ? pool->reserved_nbytes : 0},
        {CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, pool ? pool->reserved_nbytes_high : 0},
        {CU_MEMPOOL_ATTR_USED_MEM_CURRENT, pool ? pool->used_nbytes : 0},
        {CU_MEMPOOL_ATTR_USED_MEM_HIGH, pool ? pool->used_nbytes_high : 0},
    };
    for (size_t i = 0; pool && i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].attribute == attribute) {
            *(uint64_t *)out_value = rows[i].value;
            return CUDA_SUCCESS;
        }
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult fake_pool_get(CUmemoryPool pool, CUmemPool_attribute attribute, void *out_value)
{
    FAKE_CALL("cuMemPoolGetAttribute", FAKE_GLOBAL, pool_get(pool, attribute, out_value));
}

static CUresult pool_trim_to(CUmemoryPool handle, size_t keep_nbytes)
{
    fake_pool *pool = fake_handle_object(FAKE_POOL, handle);
    if (!pool)
        return CUDA_ERROR_INVALID_VALUE;
    pool_trim(pool, keep_nbytes);
    return CUDA_SUCCESS;
}

CUresult fake_pool_trim(CUmemoryPool pool, size_t keep_nbytes)
{
    FAKE_CALL("cuMemPoolTrimTo", FAKE_GLOBAL, pool_trim_to(pool, keep_nbytes));
}

static uint8_t *pool_map(fake_pool *pool, size_t nbytes)
{
    if (!device_reserve(pool->ordinal, nbytes))
        return NULL;
    uint8_t *bytes = bytes_map(nbytes, -1);
    if (!bytes) {
        device_release(pool->ordinal, nbytes);
        return NULL;
    }
    pool->reserved_nbytes += nbytes;
    if (pool->reserved_nbytes > pool->reserved_nbytes_high)
        pool->reserved_nbytes_high = pool->reserved_nbytes;
    return bytes;
}

static uint8_t *slab_carve(fake_pool *pool, size_t nbytes)
{
    fake_slab *slab = pool->slabs;
    if (!slab || SLAB_NBYTES - slab->used_nbytes < nbytes) {
        slab = calloc(1, sizeof *slab);
        if (!slab || !(slab->bytes = pool_map(pool, SLAB_NBYTES))) {
            free(slab);
            return NULL;
        }
        slab->next = pool->slabs;
        pool->slabs = slab;
    }
    slab->used_nbytes += nbytes;
    return slab->bytes + slab->used_nbytes - nbytes;
}

/* A free block of just this size, or a new one. */
static fake_span *pool_take(fake_pool *pool, size_t nbytes)
{
    for (fake_span **link = &pool->free; *link; link = &(*link)->next)
        if ((*link)->nbytes == nbytes) {
            fake_span *span = *link;
            *link = span->next;
            return span;
        }
    fake_span *span = calloc(1, sizeof *span);
    if (!span)
        return NULL;
    bool is_large = nbytes % FAKE_GRANULE == 0;
    *span = (fake_span){.nbytes = nbytes,
                        .kind = FAKE_POOLED,
                        .mapped_nbytes = is_large ? nbytes : 0,
                        .pool = pool};
    span->bytes = is_large ? pool_map(pool, nbytes) : slab_carve(pool, nbytes);
    if (!span->bytes) {
        free(span);
        return NULL;
    }
    return span;
}

/* Makes the block free again; its bytes are kept for the next one. */
static void pool_keep(fake_span *span)
{
    fake_pool *pool = span->pool;
    span->nbytes = block_nbytes(span->nbytes);
    bytes_spoil(span->bytes, span->nbytes);
    span->next = pool->free;
    pool->free = span;
    pool_trim(pool, pool->threshold > pool->used_nbytes ? pool->threshold : pool->used_nbytes);
    pool_end(pool);
}

static CUresult pool_allocate(fake_context *context, CUdeviceptr *out_address, size_t nbytes,
                              CUmemoryPool handle)
{
    fake_pool *pool = fake_handle_object(FAKE_POOL, handle);
    if (!pool || nbytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (nbytes > fake.devices[pool->ordinal].total_nbytes)
        return CUDA_ERROR_OUT_OF_MEMORY;
    fake_span *span = pool_take(pool, block_nbytes(nbytes));
    if (!span)
        return CUDA_ERROR_OUT_OF_MEMORY;
    bytes_spoil(span->bytes, span->nbytes);
    span->nbytes = nbytes;
    span->context = context;
    span->freeing = false;
    span->address = 0;
    pool->n_live++;
    pool->used_nbytes += block_nbytes(nbytes);
    if (pool->used_nbytes > pool->used_nbytes_high)
        pool->used_nbytes_high = pool->used_nbytes;
    fake.counters.pool_allocations++;
    if (!fake_span_add(span)) {
        fake.counters.pool_allocations--;
        pool->n_live--;
        pool->used_nbytes -= block_nbytes(nbytes);
        pool_keep(span);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *out_address = span->address;
    return CUDA_SUCCESS;
}

CUresult fake_pool_allocate(CUdeviceptr *out_address, size_t nbytes, CUmemoryPool pool,
                            CUstream stream)
{
    (void)stream;
    FAKE_CALL("cuMemAllocFromPoolAsync", FAKE_IN_CONTEXT,
              pool_allocate(call.context, out_address, nbytes, pool));
}

void fake_pool_take_back(fake_span *span)
{
    if (span->pins)
        fake_violate(span->context, CUDA_ERROR_ILLEGAL_ADDRESS,
                     "pool memory is freed while another stream uses it");
    while (span->pins)
        (void)pthread_cond_wait(&fake.changed, &fake.lock);
    fake_span_remove(span);
    fake.counters.pool_allocations--;
    span->pool->n_live--;
    span->pool->used_nbytes -= block_nbytes(span->nbytes);
    pool_keep(span);
}

/* ---- the end of a context -------------------------------------------------------------------- */

void fake_memory_end(fake_context *context)
{
    for (size_t i = live.n; i > 0; i--) {
        fake_span *span = live.spans[i - 1];
        if (span->context != context)
            continue;
        switch (span->kind) {
        case FAKE_ALLOCATION:
            allocation_end(span);
            break;
        case FAKE_POOLED:
            fake_pool_take_back(span);
            break;
        case FAKE_HOST:
            fake.counters.host_allocations--;
            fake_span_end(span);
            break;
        case FAKE_IMPORT:
            fake.counters.imports--;
            fake.counters.opens -= span->opens;
            fake_span_end(span);
            break;
        }
    }
}
