/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Surviving segments that are cut short. Touching a page that the file no longer has raises SIGBUS
 * in the thread that does it. A stream lists the mappings that its work may touch; when the address
 * is in one of them, the handler lays pages of zeros from there to the end of the mapping and marks
 * it lost, so that the work runs to its end and its result is thrown away. Any other SIGBUS goes to
 * the handler that was there before, or kills the process as usual.
 *
 * SIGBUS is raised by the thread's own access, and no access to such memory happens while a list is
 * being changed: signal fences are all the ordering that is needed.
 */
#include "device/host/host.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <gmv/base/alloc.h>

static __thread host_stream
    *guard_active; /* streams of this thread that have announced something */
static struct sigaction guard_former;
static uintptr_t guard_page_nbytes;

/* The system call itself: tools that wrap mmap are not made for signal handlers. */
static void *guard_map_zeros(void *address, size_t nbytes)
{
    const int protection = PROT_READ | PROT_WRITE;
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
#if defined(__LP64__) && defined(SYS_mmap)
    return (void *)syscall(SYS_mmap, address, nbytes, protection, flags, -1, (long)0); // NOLINT
#else
    return mmap(address, nbytes, protection, flags, -1, 0);
#endif
}

/* Lays zeros from the page of `fault` on; false if that is in no announced mapping. */
static bool guard_rescue(uintptr_t fault)
{
    uintptr_t page = fault & ~(guard_page_nbytes - 1);
    for (host_stream *stream = guard_active; stream; stream = stream->next_active) {
        for (size_t i = 0; i < stream->n_uses; i++) {
            host_mapping *mapping = stream->uses[i];
            uintptr_t begin = (uintptr_t)mapping->address;
            if (fault < begin || fault - begin >= mapping->nbytes)
                continue;
            size_t rest = begin + mapping->nbytes - page;
            atomic_store(&mapping->lost, true);
            return guard_map_zeros((void *)page, rest) != MAP_FAILED;
        }
    }
    return false;
}

/* What would have happened without this handler. */
static void guard_pass_on(int number, siginfo_t *info, void *context)
{
    bool sent = info->si_code <= 0; /* by kill, not by an access */
    if (guard_former.sa_flags & SA_SIGINFO) {
        guard_former.sa_sigaction(number, info, context);
    } else if (guard_former.sa_handler == SIG_IGN && sent) {
        return;
    } else if (guard_former.sa_handler != SIG_DFL && guard_former.sa_handler != SIG_IGN) {
        guard_former.sa_handler(number);
    } else {
        struct sigaction fall = {.sa_handler = SIG_DFL};
        sigemptyset(&fall.sa_mask);
        sigaction(number, &fall, NULL);
        if (sent)
            raise(number);
        /* Else the access happens again, and this time it kills. */
    }
}

static void guard_handle(int number, siginfo_t *info, void *context)
{
    int saved_errno = errno;
    if (info->si_code != BUS_ADRERR || !guard_rescue((uintptr_t)info->si_addr))
        guard_pass_on(number, info, context);
    errno = saved_errno;
}

static void guard_install_once(void)
{
    guard_page_nbytes = (uintptr_t)sysconf(_SC_PAGESIZE);
    struct sigaction action = {.sa_sigaction = guard_handle, .sa_flags = SA_SIGINFO | SA_NODEFER};
    sigemptyset(&action.sa_mask);
    /* Cannot fail for this signal; the former action is needed before the handler can run. */
    sigaction(SIGBUS, NULL, &guard_former);
    sigaction(SIGBUS, &action, NULL);
}

void gmv__host_guard_install(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, guard_install_once);
}

static bool guard_reserve_use(host_stream *stream)
{
    if (stream->n_uses < stream->uses_capacity)
        return true;
    size_t capacity = stream->uses_capacity ? 2 * stream->uses_capacity : 16;
    host_mapping **uses = gmv_realloc(stream->uses, capacity * sizeof *uses);
    if (!uses)
        return false;
    stream->uses = uses;
    stream->uses_capacity = capacity;
    return true;
}

gmv_status gmv__host_guard_announce(host_stream *stream, host_mapping *mapping, gmv_error *err)
{
    if (atomic_load(&mapping->lost))
        return gmv_fail(err, GMV_ERR_MEMORY_LOST, NULL,
                        "the memory was cut short by the process that owns it; delete the handles "
                        "that use it and import the segment again");
    if (stream->n_uses && stream->uses[stream->n_uses - 1] == mapping)
        return GMV_OK;
    if (!guard_reserve_use(stream))
        return gmv_fail_no_memory(err);
    stream->uses[stream->n_uses] = mapping;
    atomic_signal_fence(memory_order_seq_cst);
    stream->n_uses++;
    if (!stream->active) {
        stream->active = true;
        stream->next_active = guard_active;
        atomic_signal_fence(memory_order_seq_cst);
        guard_active = stream;
    }
    atomic_signal_fence(memory_order_seq_cst);
    return GMV_OK;
}

bool gmv__host_guard_forget(host_stream *stream)
{
    atomic_signal_fence(memory_order_seq_cst);
    if (!stream->active)
        return false;
    host_stream **link = &guard_active;
    while (*link && *link != stream)
        link = &(*link)->next_active;
    assert(*link); /* a stream is finished by the thread that used it */
    if (*link)
        *link = stream->next_active;
    stream->active = false;
    bool lost = false;
    for (size_t i = 0; i < stream->n_uses; i++)
        lost |= atomic_load(&stream->uses[i]->lost);
    stream->n_uses = 0;
    atomic_signal_fence(memory_order_seq_cst);
    return lost;
}
