/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests, loaded into gmvd with LD_PRELOAD: an allocator that keeps what is freed and looks,
 * when its turn comes and at the exit, whether anybody has written to it. It notices what the
 * driver does, which no sanitizer has compiled. What it finds is told on standard error,
 * HEAP_COMPLAINT in front.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HEAP_COMPLAINT "heap: "
#define LIVE           UINT64_C(0x68656170206c6976)
#define DEAD           UINT64_C(0x6865617020646561)
#define FILL           0xdd
#define CHECKED_NBYTES 4096 /* of a block */
#define KEPT_BLOCKS    200000
#define KEPT_NBYTES    ((size_t)256 << 20)

void *__libc_malloc(size_t nbytes);
void *__libc_memalign(size_t alignment, size_t nbytes);
void __libc_free(void *pointer);

/* Right before the bytes. */
typedef struct block {
    void *start; /* what the C library gave */
    struct block *next;
    size_t nbytes;
    void *freed_by;
    uint64_t rest;
    uint64_t state;
} block;
_Static_assert(sizeof(block) % 16 == 0, "the bytes stay aligned");

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static block *oldest, *newest; /* that are kept */
static size_t n_kept, kept_nbytes;

static void complain(const char *what, const block *found)
{
    char text[512];
    Dl_info info = {0};
    (void)dladdr(found->freed_by, &info);
    int length = snprintf(text, sizeof text, HEAP_COMPLAINT "%s: %zu bytes, freed by %s+0x%zx\n",
                          what, found->nbytes, info.dli_fname ? info.dli_fname : "?",
                          (size_t)((char *)found->freed_by - (char *)info.dli_fbase));
    (void)!write(STDERR_FILENO, text, (size_t)length);
}

static void *take(size_t nbytes, size_t alignment, bool cleared)
{
    size_t lead = alignment > sizeof(block) ? alignment : sizeof(block);
    if (nbytes > SIZE_MAX / 2)
        return errno = ENOMEM, NULL;
    char *start =
        alignment > 16 ? __libc_memalign(alignment, lead + nbytes) : __libc_malloc(lead + nbytes);
    if (!start)
        return NULL;
    block *taken = (block *)(void *)(start + lead) - 1;
    *taken = (block){.start = start, .nbytes = nbytes, .state = LIVE};
    if (cleared)
        memset(taken + 1, 0, nbytes);
    return taken + 1;
}

/* Under the lock. */
static void look(const block *kept)
{
    const unsigned char *bytes = (const unsigned char *)(kept + 1);
    size_t nbytes = kept->nbytes < CHECKED_NBYTES ? kept->nbytes : CHECKED_NBYTES;
    for (size_t i = 0; i < nbytes; i++)
        if (bytes[i] != FILL)
            return complain("written after it was freed", kept);
}

static void keep(block *freed)
{
    memset(freed + 1, FILL, freed->nbytes < CHECKED_NBYTES ? freed->nbytes : CHECKED_NBYTES);
    pthread_mutex_lock(&lock);
    freed->next = NULL;
    if (newest)
        newest->next = freed;
    else
        oldest = freed;
    newest = freed;
    n_kept++;
    kept_nbytes += freed->nbytes;
    block *gone = oldest;
    bool goes = n_kept > KEPT_BLOCKS || kept_nbytes > KEPT_NBYTES;
    if (goes) {
        look(gone);
        oldest = gone->next;
        newest = oldest ? newest : NULL;
        n_kept--;
        kept_nbytes -= gone->nbytes;
    }
    pthread_mutex_unlock(&lock);
    if (goes)
        __libc_free(gone->start);
}

static void give(void *pointer, void *caller)
{
    block *given = (block *)pointer - 1;
    int saved = errno;
    if (given->state == DEAD)
        complain("freed twice", given);
    if (given->state != LIVE)
        return;
    given->state = DEAD;
    given->freed_by = caller;
    keep(given);
    errno = saved;
}

__attribute__((destructor)) static void look_at_all(void)
{
    pthread_mutex_lock(&lock);
    for (const block *kept = oldest; kept; kept = kept->next)
        look(kept);
    pthread_mutex_unlock(&lock);
    static const char done[] = "the heap has been looked at\n";
    (void)!write(STDERR_FILENO, done, sizeof done - 1);
}

#define CALLER __builtin_return_address(0)

void *malloc(size_t nbytes)
{
    return take(nbytes, 16, false);
}

void free(void *pointer)
{
    if (pointer)
        give(pointer, CALLER);
}

void *calloc(size_t count, size_t nbytes)
{
    size_t total;
    if (__builtin_mul_overflow(count, nbytes, &total))
        return errno = ENOMEM, NULL;
    return take(total, 16, true);
}

void *realloc(void *pointer, size_t nbytes)
{
    void *moved = take(nbytes, 16, false);
    if (pointer && moved) {
        size_t before = ((block *)pointer - 1)->nbytes;
        memcpy(moved, pointer, before < nbytes ? before : nbytes);
        give(pointer, CALLER);
    }
    return moved;
}

void *memalign(size_t alignment, size_t nbytes)
{
    return take(nbytes, alignment, false);
}

void *aligned_alloc(size_t alignment, size_t nbytes)
{
    return take(nbytes, alignment, false);
}

int posix_memalign(void **out_pointer, size_t alignment, size_t nbytes)
{
    void *taken = take(nbytes, alignment, false);
    if (taken)
        *out_pointer = taken;
    return taken ? 0 : ENOMEM;
}

size_t malloc_usable_size(void *pointer)
{
    return pointer ? ((block *)pointer - 1)->nbytes : 0;
}
