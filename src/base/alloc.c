/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host memory with failures on demand. While no test has armed it, each call costs one load and one
 * predictable branch over the C library's.
 */
#include <gmv/base/alloc.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

typedef enum alloc_plan { ALLOC_NEVER, ALLOC_FROM, ALLOC_ONCE } alloc_plan;

static atomic_bool alloc_armed; /* a failure is planned, or blocks are counted */
static atomic_bool alloc_watched;
static atomic_int alloc_planned = ALLOC_NEVER;
static atomic_uint_fast64_t alloc_fail_at;
static atomic_uint_fast64_t alloc_seen;
static atomic_bool alloc_failed;
static atomic_int_fast64_t alloc_blocks;

static bool alloc_is_armed(void)
{
    return GMV_UNLIKELY(atomic_load_explicit(&alloc_armed, memory_order_relaxed));
}

/* Counts an allocation that is about to be made; true if it has to fail. */
static bool alloc_fails_now(void)
{
    int plan = atomic_load(&alloc_planned);
    if (plan == ALLOC_NEVER)
        return false;
    uint64_t ordinal = atomic_fetch_add(&alloc_seen, 1) + 1;
    uint64_t fail_at = atomic_load(&alloc_fail_at);
    bool fails = plan == ALLOC_FROM ? ordinal >= fail_at : ordinal == fail_at;
    if (fails)
        atomic_store(&alloc_failed, true);
    return fails;
}

static void alloc_count(int64_t change)
{
    if (atomic_load(&alloc_watched))
        atomic_fetch_add(&alloc_blocks, change);
}

static void alloc_arm(void)
{
    atomic_store(&alloc_armed,
                 atomic_load(&alloc_watched) || atomic_load(&alloc_planned) != ALLOC_NEVER);
}

static void alloc_plan_failure(alloc_plan plan, uint64_t n)
{
    atomic_store(&alloc_planned, ALLOC_NEVER);
    atomic_store(&alloc_seen, 0);
    atomic_store(&alloc_fail_at, n);
    atomic_store(&alloc_failed, false);
    atomic_store(&alloc_planned, n == 0 ? ALLOC_NEVER : plan);
    alloc_arm();
}

static void *alloc_counted(void *block)
{
    if (block != NULL)
        alloc_count(1);
    return block;
}

void *gmv_malloc(size_t nbytes)
{
    if (!alloc_is_armed())
        return malloc(nbytes);
    return alloc_fails_now() ? NULL : alloc_counted(malloc(nbytes));
}

void *gmv_calloc(size_t count, size_t nbytes)
{
    if (!alloc_is_armed())
        return calloc(count, nbytes);
    return alloc_fails_now() ? NULL : alloc_counted(calloc(count, nbytes));
}

void *gmv_realloc(void *block, size_t nbytes)
{
    /* The C library may free the block for a size of 0, which no caller here expects. */
    if (nbytes == 0)
        nbytes = 1;
    if (!alloc_is_armed())
        return realloc(block, nbytes);
    if (alloc_fails_now())
        return NULL;
    return block == NULL ? alloc_counted(malloc(nbytes)) : realloc(block, nbytes);
}

char *gmv_strndup(const char *text, size_t length)
{
    size_t kept = strnlen(text, length);
    char *copy = (char *)gmv_malloc(kept + 1);
    if (copy == NULL)
        return NULL;
    memcpy(copy, text, kept);
    copy[kept] = '\0';
    return copy;
}

void gmv_free(void *block)
{
    if (alloc_is_armed() && block != NULL)
        alloc_count(-1);
    free(block);
}

void gmv_alloc_fail_from(uint64_t n)
{
    alloc_plan_failure(ALLOC_FROM, n);
}

void gmv_alloc_fail_once(uint64_t n)
{
    alloc_plan_failure(ALLOC_ONCE, n);
}

int gmv_alloc_has_failed(void)
{
    return atomic_load(&alloc_failed);
}

void gmv_alloc_watch(int on)
{
    if (on)
        atomic_store(&alloc_blocks, 0);
    atomic_store(&alloc_watched, on != 0);
    alloc_arm();
}

int64_t gmv_alloc_live(void)
{
    return atomic_load(&alloc_blocks);
}
