/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fake driver's streams and events. Each stream is a queue: a call appends, and who drains it
 * is the call itself, or a thread of the stream's own if GMV_FAKE_CUDA_ASYNC is set. A queue stands
 * still before a launch that hangs and before a wait for an event that has not come; calls that
 * ask or wait then try again. What a stream finds wrong it tells by its context's sticky error.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "fake_cuda/fake_priv.h"

#define POLL_NANOSECONDS 1000000 /* for events of other processes, whose changes nobody signals */

typedef enum fake_what {
    COPY_IN,
    COPY_OUT,
    COPY_WITHIN,
    FILL,
    LAUNCH,
    RECORD,
    WAIT,
    FREE
} fake_what;

struct fake_operation {
    fake_operation *next;
    fake_what what;
    uint64_t number;
    uint64_t to, from, nbytes;
    uint8_t value;
    uint8_t *staged; /* COPY_IN from pageable memory: a copy of the source */
    void *host;
    const fake_kernel *kernel;
    uint64_t blocks;
    bool hangs;
    fake_event *event;
    uint64_t event_count;
    fake_span *span;
    _Alignas(16) uint8_t args[FAKE_ARGS_MAX];
};

struct fake_stream {
    void *handle;
    fake_context *context;
    fake_operation *first, *last;
    uint64_t at_work; /* number of the operation that runs now, 0: none */
    bool destroyed;   /* goes once its queue is empty */
    bool has_thread;
    pthread_cond_t filled; /* its own thread is woken by this alone while it has nothing to do */
    fake_stream *next;
};

/* ---- events ---------------------------------------------------------------------------------- */

static bool event_state_map(fake_event *event)
{
    event->descriptor = fake_file_make("fake_cuda_event", sizeof(fake_event_state));
    if (event->descriptor < 0)
        return false;
    void *state = mmap(NULL, sizeof(fake_event_state), PROT_READ | PROT_WRITE, MAP_SHARED,
                       event->descriptor, 0);
    if (state == MAP_FAILED) {
        (void)close(event->descriptor);
        return false;
    }
    event->state = state;
    event->mapped_nbytes = sizeof(fake_event_state);
    return true;
}

fake_event *fake_event_make(fake_context *context, unsigned flags)
{
    fake_event *event = calloc(1, sizeof *event);
    if (!event)
        return NULL;
    *event = (fake_event){.context = context, .flags = flags, .references = 1, .descriptor = -1};
    event->state = &event->own_state;
    if ((flags & CU_EVENT_INTERPROCESS) && !event_state_map(event)) {
        free(event);
        return NULL;
    }
    event->handle = fake_handle_make(FAKE_EVENT, event);
    if (!event->handle) {
        fake_event_release(event);
        return NULL;
    }
    fake.counters.events++;
    return event;
}

void fake_event_release(fake_event *event)
{
    if (--event->references > 0)
        return;
    if (event->mapped_nbytes)
        (void)munmap(event->state, event->mapped_nbytes);
    if (event->descriptor >= 0)
        (void)close(event->descriptor);
    free(event);
}

static bool event_has_reached(const fake_event *event, uint64_t count)
{
    return event->state->done >= count;
}

static double now_milliseconds(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

/* ---- one operation --------------------------------------------------------------------------- */

static const char *const operation_names[] = {
    [COPY_IN] = "cuMemcpyHtoDAsync",     [COPY_OUT] = "cuMemcpyDtoHAsync",
    [COPY_WITHIN] = "cuMemcpyDtoDAsync", [FILL] = "cuMemsetD8Async",
    [LAUNCH] = "cuLaunchKernel",         [RECORD] = "cuEventRecord",
    [WAIT] = "cuStreamWaitEvent",        [FREE] = "cuMemFreeAsync",
};

static void operation_copy_within(fake_access *access, const fake_operation *operation)
{
    uint64_t distance = operation->to > operation->from ? operation->to - operation->from
                                                        : operation->from - operation->to;
    if (distance < operation->nbytes) {
        fake_access_fail(access, CUDA_ERROR_ILLEGAL_ADDRESS, "source and destination overlap");
        return;
    }
    uint8_t *to = fake_access_bytes(access, operation->to, operation->nbytes);
    const uint8_t *from = fake_access_bytes(access, operation->from, operation->nbytes);
    if (to && from)
        memcpy(to, from, operation->nbytes);
}

/* Without the lock. */
static void operation_work(fake_access *access, const fake_operation *operation)
{
    uint8_t *to;
    const uint8_t *from;
    switch (operation->what) {
    case COPY_IN:
        if ((to = fake_access_bytes(access, operation->to, operation->nbytes)))
            memcpy(to, operation->staged ? operation->staged : operation->host, operation->nbytes);
        break;
    case COPY_OUT:
        if ((from = fake_access_bytes(access, operation->from, operation->nbytes)))
            memcpy(operation->host, from, operation->nbytes);
        break;
    case COPY_WITHIN:
        operation_copy_within(access, operation);
        break;
    case FILL:
        if ((to = fake_access_bytes(access, operation->to, operation->nbytes)))
            fake_bytes_fill(to, operation->value, operation->nbytes);
        break;
    case LAUNCH:
        access->who = operation->kernel->name;
        operation->kernel->run(access, operation->args, operation->blocks);
        break;
    case RECORD:
    case WAIT:
    case FREE:
        break;
    }
}

static void operation_conclude(fake_operation *operation)
{
    fake_event *event = operation->event;
    if (operation->what == RECORD) {
        event->state->milliseconds = now_milliseconds();
        if (event->state->done < operation->event_count)
            event->state->done = operation->event_count;
    }
    if (operation->what == FREE)
        fake_pool_take_back(operation->span);
    if (event)
        fake_event_release(event);
    free(operation->staged);
    free(operation);
    (void)pthread_cond_broadcast(&fake.changed);
}

static bool operation_can_run(const fake_stream *stream, const fake_operation *operation)
{
    if (stream->context->sticky)
        return true; /* nothing is done any more */
    if (operation->what == LAUNCH && operation->hangs)
        return !fake.hanging;
    if (operation->what == WAIT)
        return event_has_reached(operation->event, operation->event_count);
    return true;
}

/* ---- queues ---------------------------------------------------------------------------------- */

static void stream_unlink(fake_stream *stream)
{
    fake_stream **link = &fake.streams;
    while (*link != stream)
        link = &(*link)->next;
    *link = stream->next;
    (void)pthread_cond_destroy(&stream->filled);
    free(stream);
}

/* Runs what can run; the stream may be gone after. True if anything was done. */
static bool stream_drain(fake_stream *stream)
{
    bool moved = false;
    while (stream->first && !stream->at_work && operation_can_run(stream, stream->first)) {
        fake_operation *operation = stream->first;
        fake_access access = {.context = stream->context, .who = operation_names[operation->what]};
        stream->first = operation->next;
        stream->at_work = operation->number;
        if (!stream->context->sticky) {
            (void)pthread_mutex_unlock(&fake.lock);
            operation_work(&access, operation);
            (void)pthread_mutex_lock(&fake.lock);
        }
        fake_access_end(&access);
        operation_conclude(operation);
        stream->at_work = 0;
        moved = true;
    }
    if (stream->destroyed && !stream->first && !stream->at_work && !stream->has_thread)
        stream_unlink(stream);
    return moved;
}

/* Tries every stream again, until none moves. */
static void streams_drain(void)
{
    bool moved = !fake.async;
    while (moved) {
        moved = false;
        for (fake_stream *stream = fake.streams, *next; stream && !moved; stream = next) {
            next = stream->next;
            moved = stream_drain(stream);
        }
    }
}

static void wait_a_while(void)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += POLL_NANOSECONDS;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    (void)pthread_cond_timedwait(&fake.changed, &fake.lock, &until);
}

static void *stream_thread(void *argument)
{
    fake_stream *stream = argument;
    (void)pthread_mutex_lock(&fake.lock);
    while (!stream->destroyed || stream->first) {
        if (stream_drain(stream))
            continue;
        if (stream->first)
            wait_a_while();
        else
            (void)pthread_cond_wait(&stream->filled, &fake.lock);
    }
    stream_unlink(stream);
    (void)pthread_cond_broadcast(&fake.changed);
    (void)pthread_mutex_unlock(&fake.lock);
    return NULL;
}

static fake_stream *stream_make(fake_context *context)
{
    fake_stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        return NULL;
    *stream = (fake_stream){.context = context, .next = fake.streams};
    (void)pthread_cond_init(&stream->filled, NULL);
    stream->handle = fake_handle_make(FAKE_STREAM, stream);
    pthread_t thread;
    if (stream->handle && fake.async && pthread_create(&thread, NULL, stream_thread, stream) == 0) {
        (void)pthread_detach(thread);
        stream->has_thread = true;
    }
    if (!stream->handle || (fake.async && !stream->has_thread)) {
        fake_handle_drop(stream->handle);
        (void)pthread_cond_destroy(&stream->filled);
        free(stream);
        return NULL;
    }
    fake.streams = stream;
    return stream;
}

static fake_stream *stream_find(fake_context *context, CUstream handle)
{
    fake_stream *stream;
    if (handle && handle != CU_STREAM_LEGACY && handle != CU_STREAM_PER_THREAD) {
        stream = fake_handle_object(FAKE_STREAM, handle);
        return stream && stream->context == context ? stream : NULL;
    }
    if (!context->default_stream)
        context->default_stream = stream_make(context);
    return context->default_stream;
}

/* Takes the operation, and whatever it holds, in any case. */
static CUresult stream_push(fake_stream *stream, fake_operation *operation)
{
    operation->number = ++fake.operations;
    operation->next = NULL;
    if (stream->first)
        stream->last->next = operation;
    else
        stream->first = operation;
    stream->last = operation;
    if (fake.async)
        (void)pthread_cond_signal(&stream->filled);
    else
        streams_drain();
    return CUDA_SUCCESS;
}

static fake_operation *operation_make(fake_what what)
{
    fake_operation *operation = calloc(1, sizeof *operation);
    if (operation)
        operation->what = what;
    return operation;
}

/* Whether the stream still has an operation up to this number to do. */
static bool stream_is_behind(const fake_stream *stream, uint64_t number)
{
    return (stream->at_work && stream->at_work <= number) ||
           (stream->first && stream->first->number <= number);
}

static void stream_wait(fake_stream *stream, uint64_t number)
{
    for (;;) {
        streams_drain();
        if (!stream_is_behind(stream, number))
            return;
        wait_a_while();
    }
}

static bool context_is_behind(const fake_context *context, uint64_t number)
{
    for (const fake_stream *stream = fake.streams; stream; stream = stream->next)
        if (stream->context == context && stream_is_behind(stream, number))
            return true;
    return false;
}

void fake_context_wait(fake_context *context)
{
    uint64_t number = fake.operations;
    for (;;) {
        streams_drain();
        if (!context_is_behind(context, number))
            return;
        wait_a_while();
    }
}

static CUresult context_synchronize(fake_context *context)
{
    fake_context_wait(context);
    return context->sticky;
}

CUresult fake_context_synchronize(void)
{
    FAKE_CALL("cuCtxSynchronize", FAKE_IN_CONTEXT, context_synchronize(call.context));
}

/* ---- stream calls ---------------------------------------------------------------------------- */

static CUresult stream_create(fake_context *context, CUstream *out_stream)
{
    fake_stream *stream = stream_make(context);
    if (!stream)
        return CUDA_ERROR_OUT_OF_MEMORY;
    fake.counters.streams++;
    *out_stream = stream->handle;
    return CUDA_SUCCESS;
}

CUresult fake_stream_create(CUstream *out_stream, unsigned flags, int priority)
{
    (void)flags;
    (void)priority;
    FAKE_CALL("cuStreamCreateWithPriority", FAKE_IN_CONTEXT,
              stream_create(call.context, out_stream));
}

CUresult fake_stream_create_plain(CUstream *out_stream, unsigned flags)
{
    (void)flags;
    FAKE_CALL("cuStreamCreate", FAKE_IN_CONTEXT, stream_create(call.context, out_stream));
}

/* It does what is in its queue first, and nobody waits for that. */
static void stream_abandon(fake_stream *stream)
{
    fake_handle_drop(stream->handle);
    stream->destroyed = true;
    if (stream->has_thread)
        (void)pthread_cond_signal(&stream->filled);
    else
        (void)stream_drain(stream);
}

static CUresult stream_destroy(CUstream handle)
{
    fake_stream *stream = fake_handle_object(FAKE_STREAM, handle);
    if (!stream)
        return CUDA_ERROR_INVALID_HANDLE;
    fake.counters.streams--;
    stream_abandon(stream);
    return CUDA_SUCCESS;
}

CUresult fake_stream_destroy(CUstream stream)
{
    FAKE_RELEASE("cuStreamDestroy_v2", FAKE_IN_CONTEXT, stream_destroy(stream));
}

void fake_streams_end(fake_context *context)
{
    for (fake_stream *stream = fake.streams, *next; stream; stream = next) {
        next = stream->next;
        if (stream->context != context || stream->destroyed)
            continue;
        if (stream != context->default_stream)
            fake.counters.streams--;
        stream_abandon(stream);
    }
    context->default_stream = NULL;
    for (bool found = true; found;) {
        found = false;
        for (const fake_stream *stream = fake.streams; stream; stream = stream->next)
            found |= stream->context == context;
        if (found)
            wait_a_while();
    }
}

static CUresult stream_synchronize(fake_context *context, CUstream handle)
{
    fake_stream *stream = stream_find(context, handle);
    if (!stream)
        return CUDA_ERROR_INVALID_HANDLE;
    stream_wait(stream, fake.operations);
    return context->sticky;
}

CUresult fake_stream_synchronize(CUstream stream)
{
    FAKE_CALL("cuStreamSynchronize", FAKE_IN_CONTEXT, stream_synchronize(call.context, stream));
}

static CUresult stream_query(fake_context *context, CUstream handle)
{
    const fake_stream *stream = stream_find(context, handle);
    if (!stream)
        return CUDA_ERROR_INVALID_HANDLE;
    streams_drain();
    if (context->sticky)
        return context->sticky;
    return stream_is_behind(stream, fake.operations) ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

CUresult fake_stream_query(CUstream stream)
{
    FAKE_CALL("cuStreamQuery", FAKE_IN_CONTEXT, stream_query(call.context, stream));
}

static CUresult event_push(fake_context *context, CUstream stream_handle, CUevent event_handle,
                           fake_what what)
{
    fake_stream *stream = stream_find(context, stream_handle);
    fake_event *event = fake_handle_object(FAKE_EVENT, event_handle);
    if (!stream || !event)
        return CUDA_ERROR_INVALID_HANDLE;
    fake_operation *operation = operation_make(what);
    if (!operation)
        return CUDA_ERROR_OUT_OF_MEMORY;
    operation->event = event;
    operation->event_count =
        what == RECORD ? ++event->state->recorded : (uint64_t)event->state->recorded;
    event->references++;
    return stream_push(stream, operation);
}

CUresult fake_stream_wait_event(CUstream stream, CUevent event, unsigned flags)
{
    (void)flags;
    FAKE_CALL("cuStreamWaitEvent", FAKE_IN_CONTEXT, event_push(call.context, stream, event, WAIT));
}

CUresult fake_event_record(CUevent event, CUstream stream)
{
    FAKE_CALL("cuEventRecord", FAKE_IN_CONTEXT, event_push(call.context, stream, event, RECORD));
}

/* ---- event calls ----------------------------------------------------------------------------- */

static CUresult event_create(fake_context *context, CUevent *out_event, unsigned flags)
{
    if ((flags & CU_EVENT_INTERPROCESS) && !(flags & CU_EVENT_DISABLE_TIMING))
        return CUDA_ERROR_INVALID_VALUE;
    fake_event *event = fake_event_make(context, flags);
    if (!event)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *out_event = event->handle;
    return CUDA_SUCCESS;
}

CUresult fake_event_create(CUevent *out_event, unsigned flags)
{
    FAKE_CALL("cuEventCreate", FAKE_IN_CONTEXT, event_create(call.context, out_event, flags));
}

static CUresult event_destroy(CUevent handle)
{
    fake_event *event = fake_handle_object(FAKE_EVENT, handle);
    if (!event)
        return CUDA_ERROR_INVALID_HANDLE;
    fake_handle_drop(handle);
    fake.counters.events--;
    fake_event_release(event);
    return CUDA_SUCCESS;
}

CUresult fake_event_destroy(CUevent event)
{
    FAKE_RELEASE("cuEventDestroy_v2", FAKE_IN_CONTEXT, event_destroy(event));
}

void fake_cuda_hold_event(void *handle, bool on)
{
    pthread_mutex_lock(&fake.lock);
    const fake_event *event = fake_handle_object(FAKE_EVENT, handle);
    if (event && on)
        event->state->recorded++;
    else if (event)
        event->state->done = event->state->recorded;
    pthread_mutex_unlock(&fake.lock);
}

static CUresult event_query(const fake_context *context, CUevent handle)
{
    const fake_event *event = fake_handle_object(FAKE_EVENT, handle);
    if (!event)
        return CUDA_ERROR_INVALID_HANDLE;
    streams_drain();
    if (context->sticky)
        return context->sticky;
    return event_has_reached(event, event->state->recorded) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult fake_event_query(CUevent event)
{
    FAKE_CALL("cuEventQuery", FAKE_IN_CONTEXT, event_query(call.context, event));
}

static CUresult event_synchronize(const fake_context *context, CUevent handle)
{
    CUresult result;
    while ((result = event_query(context, handle)) == CUDA_ERROR_NOT_READY)
        wait_a_while();
    return result;
}

CUresult fake_event_synchronize(CUevent event)
{
    FAKE_CALL("cuEventSynchronize", FAKE_IN_CONTEXT, event_synchronize(call.context, event));
}

static CUresult event_elapsed(float *out_milliseconds, CUevent begin_handle, CUevent end_handle)
{
    const fake_event *begin = fake_handle_object(FAKE_EVENT, begin_handle);
    const fake_event *end = fake_handle_object(FAKE_EVENT, end_handle);
    if (!begin || !end || ((begin->flags | end->flags) & CU_EVENT_DISABLE_TIMING) ||
        begin->state->recorded == 0 || end->state->recorded == 0)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!event_has_reached(begin, begin->state->recorded) ||
        !event_has_reached(end, end->state->recorded))
        return CUDA_ERROR_NOT_READY;
    *out_milliseconds = (float)(end->state->milliseconds - begin->state->milliseconds);
    return CUDA_SUCCESS;
}

CUresult fake_event_elapsed(float *out_milliseconds, CUevent begin, CUevent end)
{
    FAKE_CALL("cuEventElapsedTime", FAKE_IN_CONTEXT, event_elapsed(out_milliseconds, begin, end));
}

/* ---- copies ---------------------------------------------------------------------------------- */

/* Of the host's end of a copy. */
typedef enum fake_paging { PINNED, PAGEABLE, BROKEN } fake_paging;

static fake_paging paging_of(const void *pointer, size_t nbytes)
{
    const fake_span *span = fake_span_find((uintptr_t)pointer);
    if (!span)
        return PAGEABLE;
    size_t left = span->nbytes - (size_t)((uintptr_t)pointer - span->address);
    return span->kind == FAKE_HOST && nbytes <= left ? PINNED : BROKEN;
}

/* As the driver does: from pageable memory the bytes are taken before the call returns. */
static CUresult copy_in(fake_context *context, CUdeviceptr to, const void *from, size_t nbytes,
                        CUstream handle)
{
    fake_stream *stream = stream_find(context, handle);
    fake_paging paging = paging_of(from, nbytes);
    if (!stream)
        return CUDA_ERROR_INVALID_HANDLE;
    if (paging == BROKEN || !from)
        return nbytes ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    fake_operation *operation = operation_make(COPY_IN);
    if (!operation)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (paging == PAGEABLE && (fake.async || stream->first)) {
        operation->staged = malloc(nbytes + 1);
        if (!operation->staged) {
            free(operation);
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
        memcpy(operation->staged, from, nbytes);
    }
    operation->to = to;
    operation->host = (void *)(uintptr_t)from;
    operation->nbytes = nbytes;
    return stream_push(stream, operation);
}

CUresult fake_copy_in(CUdeviceptr to, const void *from, size_t nbytes, CUstream stream)
{
    FAKE_CALL("cuMemcpyHtoDAsync_v2", FAKE_IN_CONTEXT,
              copy_in(call.context, to, from, nbytes, stream));
}

/* As the driver does: into pageable memory it waits. */
static CUresult copy_out(fake_context *context, void *to, CUdeviceptr from, size_t nbytes,
                         CUstream handle)
{
    fake_stream *stream = stream_find(context, handle);
    fake_paging paging = paging_of(to, nbytes);
    if (!stream)
        return CUDA_ERROR_INVALID_HANDLE;
    if (paging == BROKEN || !to)
        return nbytes ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    fake_operation *operation = operation_make(COPY_OUT);
    if (!operation)
        return CUDA_ERROR_OUT_OF_MEMORY;
    operation->from = from;
    operation->host = to;
    operation->nbytes = nbytes;
    CUresult result = stream_push(stream, operation);
    if (paging == PAGEABLE)
        stream_wait(stream, fake.operations);
    return result;
}

CUresult fake_copy_out(void *to, CUdeviceptr from, size_t nbytes, CUstream stream)
{
    FAKE_CALL("cuMemcpyDtoHAsync_v2", FAKE_IN_CONTEXT,
              copy_out(call.context, to, from, nbytes, stream));
}

static CUresult device_push(fake_context *context, CUstream handle, const fake_operation *model)
{
    fake_stream *stream = stream_find(context, handle);
    if (!stream)
        return CUDA_ERROR_INVALID_HANDLE;
    fake_operation *operation = malloc(sizeof *operation);
    if (!operation)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *operation = *model;
    return stream_push(stream, operation);
}

CUresult fake_copy_within(CUdeviceptr to, CUdeviceptr from, size_t nbytes, CUstream stream)
{
    fake_operation model = {.what = COPY_WITHIN, .to = to, .from = from, .nbytes = nbytes};
    FAKE_CALL("cuMemcpyDtoDAsync_v2", FAKE_IN_CONTEXT, device_push(call.context, stream, &model));
}

CUresult fake_fill(CUdeviceptr address, unsigned char value, size_t nbytes, CUstream stream)
{
    fake_operation model = {.what = FILL, .to = address, .value = value, .nbytes = nbytes};
    FAKE_CALL("cuMemsetD8Async", FAKE_IN_CONTEXT, device_push(call.context, stream, &model));
}

/* On the default stream, and done when it returns. */
static CUresult done_now(fake_context *context, CUresult result)
{
    if (result == CUDA_SUCCESS)
        result = stream_synchronize(context, NULL);
    return result;
}

CUresult fake_copy_in_now(CUdeviceptr to, const void *from, size_t nbytes)
{
    FAKE_CALL("cuMemcpyHtoD_v2", FAKE_IN_CONTEXT,
              done_now(call.context, copy_in(call.context, to, from, nbytes, NULL)));
}

CUresult fake_copy_out_now(void *to, CUdeviceptr from, size_t nbytes)
{
    FAKE_CALL("cuMemcpyDtoH_v2", FAKE_IN_CONTEXT,
              done_now(call.context, copy_out(call.context, to, from, nbytes, NULL)));
}

CUresult fake_copy_within_now(CUdeviceptr to, CUdeviceptr from, size_t nbytes)
{
    fake_operation model = {.what = COPY_WITHIN, .to = to, .from = from, .nbytes = nbytes};
    FAKE_CALL("cuMemcpyDtoD_v2", FAKE_IN_CONTEXT,
              done_now(call.context, device_push(call.context, NULL, &model)));
}

CUresult fake_fill_now(CUdeviceptr address, unsigned char value, size_t nbytes)
{
    fake_operation model = {.what = FILL, .to = address, .value = value, .nbytes = nbytes};
    FAKE_CALL("cuMemsetD8_v2", FAKE_IN_CONTEXT,
              done_now(call.context, device_push(call.context, NULL, &model)));
}

static CUresult pool_free(fake_context *context, CUdeviceptr address, CUstream handle)
{
    fake_stream *stream = stream_find(context, handle);
    fake_span *span = fake_span_find(address);
    if (!stream)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!span || span->address != address || span->kind != FAKE_POOLED || span->freeing)
        return CUDA_ERROR_INVALID_VALUE;
    fake_operation *operation = operation_make(FREE);
    if (!operation)
        return CUDA_ERROR_OUT_OF_MEMORY;
    span->freeing = true;
    operation->span = span;
    return stream_push(stream, operation);
}

CUresult fake_pool_free(CUdeviceptr address, CUstream stream)
{
    FAKE_RELEASE("cuMemFreeAsync", FAKE_IN_CONTEXT, pool_free(call.context, address, stream));
}

/* ---- launches -------------------------------------------------------------------------------- */

/* Whether this launch is one that never ends by itself. */
static bool launch_hangs(void)
{
    fake.counters.launches++;
    if (fake.launches_to_hang && --fake.launches_to_hang == 0)
        fake.hanging = true;
    return fake.hanging;
}

static CUresult launch(fake_context *context, CUfunction function, const unsigned size[6],
                       CUstream handle, void **parameters, void **extra)
{
    const fake_kernel *kernel = fake_handle_object(FAKE_FUNCTION, function);
    fake_stream *stream = stream_find(context, handle);
    if (!kernel || !stream)
        return CUDA_ERROR_INVALID_HANDLE;
    if (size[0] == 0 || size[0] > INT32_MAX || size[1] != 1 || size[2] != 1 ||
        size[3] != GMV_CUDA_THREADS || size[4] != 1 || size[5] != 1 || !parameters || extra)
        return CUDA_ERROR_INVALID_VALUE;
    fake_operation *operation = operation_make(LAUNCH);
    if (!operation)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(operation->args, parameters[0], kernel->args_nbytes);
    operation->kernel = kernel;
    operation->blocks = size[0];
    operation->hangs = launch_hangs();
    return stream_push(stream, operation);
}

CUresult fake_launch(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                     unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_nbytes,
                     CUstream stream, void **parameters, void **extra)
{
    const unsigned size[6] = {grid_x, grid_y, grid_z, block_x, block_y, block_z};
    (void)shared_nbytes;
    FAKE_CALL("cuLaunchKernel", FAKE_IN_CONTEXT,
              launch(call.context, function, size, stream, parameters, extra));
}
