/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside of the fake driver.
 *
 *   fake_driver.c   devices, contexts, modules, faults on demand, the books
 *   fake_memory.c   memory of all kinds: what is live, and where it lies
 *   fake_stream.c   streams, events, copies, launches
 *   fake_ipc.c      memory and events of other processes
 *   fake_kernels.c  what the kernels mean
 *
 * One lock, fake.lock, is held from fake_enter to fake_leave, and given up while a stream works and
 * while a call waits. Work pins the memory that it touches, so that none is unmapped under it.
 */
#ifndef GMV_TESTS_FAKE_PRIV_H
#define GMV_TESTS_FAKE_PRIV_H

#include <pthread.h>
#include <stddef.h>
#include <sys/types.h>

#include "device/cuda/kernels/arguments.h"
#include "fake_cuda/fake_calls.h"
#include "fake_cuda/fake_cuda.h"

#define FAKE_DECLARE(member, symbol, parameters) \
    CUresult CUDAAPI fake_##member parameters __asm__(symbol);
CUDA_DRIVER_MAP(FAKE_DECLARE)
FAKE_EXTRA_MAP(FAKE_DECLARE)
#undef FAKE_DECLARE

#define FAKE_DEVICES_MAX 8
#define FAKE_GRANULE     ((size_t)2 << 20)

typedef struct fake_context fake_context;
typedef struct fake_stream fake_stream;
typedef struct fake_event fake_event;
typedef struct fake_module fake_module;
typedef struct fake_pool fake_pool;
typedef struct fake_span fake_span;
typedef struct fake_operation fake_operation;

/* ---- handles --------------------------------------------------------------------------------- */

typedef enum fake_type {
    FAKE_CONTEXT = 1,
    FAKE_STREAM,
    FAKE_EVENT,
    FAKE_MODULE,
    FAKE_FUNCTION,
    FAKE_POOL
} fake_type;

/* A handle is a number, not a pointer, and is never given out twice. NULL: out of memory. */
void *fake_handle_make(fake_type type, void *object);
void *fake_handle_object(fake_type type, const void *handle); /* NULL if it is none, or stale */
void fake_handle_drop(const void *handle);

/* ---- calls ----------------------------------------------------------------------------------- */

typedef enum fake_scope {
    FAKE_GLOBAL,    /* needs cuInit */
    FAKE_IN_CONTEXT /* needs a current context, and fails where that has a sticky error */
} fake_scope;

typedef struct fake_call {
    fake_scope scope;
    fake_context *context; /* current, may be NULL for FAKE_GLOBAL */
    CUresult planned;      /* to be given in the end, whatever the call does */
} fake_call;

/* Takes the lock if it succeeds. */
CUresult fake_enter(fake_call *call, const char *symbol, fake_scope scope);

/* The same for a call that releases something: where it is to fail, it does its work first. */
CUresult fake_enter_release(fake_call *call, const char *symbol, fake_scope scope);

/* Gives the lock up; the result to return. */
CUresult fake_leave(const fake_call *call, CUresult result);

/* A call's whole body. */
#define FAKE_CALL(symbol, scope, body)                        \
    do {                                                      \
        fake_call call;                                       \
        CUresult refused_ = fake_enter(&call, symbol, scope); \
        return refused_ ? refused_ : fake_leave(&call, body); \
    } while (0)
#define FAKE_RELEASE(symbol, scope, body)                             \
    do {                                                              \
        fake_call call;                                               \
        CUresult refused_ = fake_enter_release(&call, symbol, scope); \
        return refused_ ? refused_ : fake_leave(&call, body);         \
    } while (0)

/* Whether this result, once given, is given for ever. */
bool fake_is_sticky(CUresult result);

/* Something was done that breaks a context: tells it, counts it, and makes it sticky. */
void fake_violate(fake_context *context, CUresult result, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- the whole ------------------------------------------------------------------------------- */

typedef struct fake_device {
    uint64_t total_nbytes;
    uint64_t used_nbytes;
    fake_context *primary;
    unsigned retains;
} fake_device;

struct fake_context {
    void *handle;
    int ordinal;
    bool is_primary;
    CUresult sticky;
    bool told; /* a call has returned it */
    fake_stream *default_stream;
    fake_context *next;
};

typedef struct fake_state {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* a stream has moved on, or may */
    bool initialized;
    bool async;
    bool hanging;
    int n_devices;
    fake_device devices[FAKE_DEVICES_MAX];
    fake_context *contexts;
    fake_stream *streams;
    uint64_t operations;       /* pushed so far */
    uint64_t launches_to_hang; /* 0: none */
    uint64_t calls_to_failure; /* 0: none */
    char failing_symbol[64];   /* "": any */
    CUresult failure;
    const char *failed_symbol;
    fake_cuda_counters counters;
} fake_state;

extern fake_state fake;

/* Ends everything that belongs to the context; nothing may be at work. */
void fake_context_end(fake_context *context);

/* ---- memory ---------------------------------------------------------------------------------- */

typedef enum fake_kind { FAKE_ALLOCATION, FAKE_POOLED, FAKE_HOST, FAKE_IMPORT } fake_kind;

struct fake_span {
    uint64_t address; /* on the device; for FAKE_HOST that of the bytes */
    size_t nbytes;    /* that may be touched */
    uint8_t *bytes;
    size_t mapped_nbytes; /* of the mapping at `bytes`; 0: part of a slab */
    fake_kind kind;
    fake_context *context;
    uint32_t generation;
    unsigned pins;
    bool freeing;       /* a free of it is in a stream */
    int descriptor;     /* FAKE_ALLOCATION: the file that it lies in */
    fake_pool *pool;    /* FAKE_POOLED */
    fake_span *next;    /* FAKE_POOLED, free: in the pool */
    uint8_t handle[64]; /* FAKE_IMPORT: what was opened */
    uint64_t opens;     /* FAKE_IMPORT */
};

/* The live span that holds the address; NULL if none does. */
fake_span *fake_span_find(uint64_t address);

/* Makes it live at a device address of its own, or (FAKE_HOST) where it lies. */
bool fake_span_add(fake_span *span);
void fake_span_remove(fake_span *span);

/* Takes it out and unmaps it, once no work uses it. */
void fake_span_end(fake_span *span);

/* The import that was opened by these bytes. */
fake_span *fake_span_imported(const uint8_t handle[64]);

/* The bytes that the i-th import was opened by; false if there are not so many. */
bool fake_span_import(size_t i, uint8_t out_handle[64]);

/* A file without a name of `nbytes`, which other processes reach through this one's descriptors. */
int fake_file_make(const char *name, size_t nbytes);

/* Frees all that the context owns. */
void fake_memory_end(fake_context *context);

/* A free that has come up in its stream. */
void fake_pool_take_back(fake_span *span);

/* Puts all bytes to one value; large runs of zeros are given back to the system. */
void fake_bytes_fill(uint8_t *bytes, uint8_t value, size_t nbytes);

/* ---- access by work -------------------------------------------------------------------------- */

/* What one piece of work touches. */
typedef struct fake_access {
    fake_context *context;
    const char *who;
    fake_span **pinned;
    size_t n_pinned, capacity;
    fake_span *last;
    bool failed;
} fake_access;

/* Host address of device bytes, pinned till the end; NULL, and a violation, if not all are live. */
uint8_t *fake_access_bytes(fake_access *access, uint64_t address, uint64_t nbytes);

/* The same for what is to be aligned. */
uint8_t *fake_access_aligned(fake_access *access, uint64_t address, uint64_t nbytes,
                             uint64_t alignment);
void fake_access_fail(fake_access *access, CUresult result, const char *what);
void fake_access_end(fake_access *access);

/* ---- streams and events ---------------------------------------------------------------------- */

/* Where events of all processes count: how often recorded, and how much of that is done. */
typedef struct fake_event_state {
    _Atomic uint64_t recorded;
    _Atomic uint64_t done;
    double milliseconds;
} fake_event_state;

struct fake_event {
    void *handle;
    fake_context *context;
    unsigned flags;
    unsigned references;
    fake_event_state *state;
    size_t mapped_nbytes; /* of a shared state; 0: it is own_state */
    int descriptor;       /* of the file that an interprocess event's state lies in, or -1 */
    fake_event_state own_state;
};

fake_event *fake_event_make(fake_context *context, unsigned flags);
void fake_event_release(fake_event *event);

/* Waits until everything in the context that was pushed before has been done. */
void fake_context_wait(fake_context *context);

void fake_streams_end(fake_context *context);

/* ---- kernels --------------------------------------------------------------------------------- */

typedef void (*fake_kernel_run)(fake_access *access, const void *args, uint64_t blocks);

typedef struct fake_kernel {
    const char *name;
    size_t args_nbytes;
    fake_kernel_run run;
} fake_kernel;

const fake_kernel *fake_kernel_find(const char *name);

/* The bytes must hold every kernel's arguments. */
#define FAKE_ARGS_MAX 2048

#endif
