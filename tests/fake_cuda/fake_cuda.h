/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A test-only libcuda.so.1 over host memory, and how tests steer it. It knows what the driver calls
 * of the CUDA backend mean, keeps the books of what is live, and refuses every access outside it;
 * it says nothing of how a GPU behaves. Device addresses are not mapped: who takes one for a host
 * pointer dies. Kernels are written once more here, bit by bit, over the same arguments.
 *
 * What it finds wrong (memory that is not live, a misaligned access, a grid that is too small,
 * sums that were not left zero) it counts as a violation, tells on standard error with
 * FAKE_CUDA_COMPLAINT in front, and turns into a sticky error of the context.
 *
 * Environment, read by cuInit:
 *   GMV_FAKE_CUDA_DEVICES=N      how many devices there are (1)
 *   GMV_FAKE_CUDA_MEMORY=MIB     memory of each (8192)
 *   GMV_FAKE_CUDA_ASYNC=1        streams work on threads of their own, not inside the calls
 *   GMV_FAKE_CUDA_FAIL=N:RESULT[:SYMBOL]   as fake_cuda_fail_named
 *   GMV_FAKE_CUDA_HANG=N         the N-th launch never ends
 */
#ifndef GMV_TESTS_FAKE_CUDA_H
#define GMV_TESTS_FAKE_CUDA_H

#include <stdbool.h>
#include <stdint.h>

#define FAKE_CUDA_COMPLAINT "fake libcuda: "

/* What is live in this process, and what has happened in it. */
typedef struct fake_cuda_counters {
    uint64_t contexts; /* retained or created and not yet released */
    uint64_t modules;
    uint64_t streams;
    uint64_t events;
    uint64_t pools;            /* made by cuMemPoolCreate */
    uint64_t allocations;      /* of cuMemAlloc */
    uint64_t pool_allocations; /* not freed yet in the order of their streams */
    uint64_t host_allocations;
    uint64_t imports;     /* mappings opened by IPC */
    uint64_t opens;       /* opens of them that have not been closed */
    uint64_t used_nbytes; /* of all devices' memory, what pools keep included */
    uint64_t calls;       /* that may fail */
    uint64_t launches;
    uint64_t violations;
    uint64_t late_calls; /* made in a context after it had told a sticky error */
} fake_cuda_counters;

/*
 * The n-th call from now on (1 = the next) that may fail gives `result`, a CUresult; 0: none. A
 * result that is sticky on a real device sticks, if the call is one in a context. A call that
 * releases something does so all the same. Pushing and popping contexts do not count.
 */
typedef void fake_cuda_fail_fn(uint64_t n, int result);
fake_cuda_fail_fn fake_cuda_fail;

/* The same, counting only calls of this symbol, such as "cuMemAlloc_v2". */
typedef void fake_cuda_fail_named_fn(const char *symbol, uint64_t n, int result);
fake_cuda_fail_named_fn fake_cuda_fail_named;

/* The symbol of the call that failed on demand since it was last demanded, NULL if none has. */
typedef const char *fake_cuda_failed_fn(void);
fake_cuda_failed_fn fake_cuda_failed;

/* Every context that lives gives `result` from now on. */
typedef void fake_cuda_sticky_fn(int result);
fake_cuda_sticky_fn fake_cuda_sticky;

/* Launches from now on do not end before this is called with false. */
typedef void fake_cuda_hang_fn(bool on);
fake_cuda_hang_fn fake_cuda_hang;

/* An event (a CUevent) has something before it that does not end, until it is called with false. */
typedef void fake_cuda_hold_event_fn(void *event, bool on);
fake_cuda_hold_event_fn fake_cuda_hold_event;

typedef void fake_cuda_count_fn(fake_cuda_counters *out_counters);
fake_cuda_count_fn fake_cuda_count;

#endif
