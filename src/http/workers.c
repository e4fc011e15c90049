/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A lane is a list under a mutex. Workers run at nice 10: on few cores the HTTP threads, which only
 * look things up, would otherwise wait milliseconds behind a copy.
 */
#include "config.h"

#include "http/workers.h"

#include <errno.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <gmv/base/alloc.h>
#include <gmv/base/clock.h>
#include <gmv/base/log.h>
#include <gmv/base/num.h>

#define WORKER_NICE        10
#define MAINTENANCE_NAP_MS 500

typedef struct lane_queue {
    pthread_mutex_t lock;
    pthread_cond_t wake;
    gmv_job *head, *tail; /* guarded by lock, as are the next three */
    gmv_job *parked;      /* the next to be due first */
    bool is_stopping;
    bool is_poked; /* maintenance only: there is something to reap */
    atomic_uint n_reserved;
    uint32_t max_reserved;
} lane_queue;

typedef struct worker {
    gmv_workers *workers;
    lane_queue *queue;
    gmv_lane lane;
    pthread_t thread;
    bool is_started;
    gmv_stream *streams[GMV_DEVICES_MAX];
} worker;

struct gmv_workers {
    gmv_engine *engine;
    lane_queue short_lane, bulk_lane, maintenance;
    void (*tick)(void *context);
    void *tick_context;
    worker keeper; /* the maintenance thread */
    size_t n_threads;
    worker threads[];
};

static void queue_init(lane_queue *queue, uint32_t max_reserved)
{
    /* A wall clock that is set back must not make a nap of milliseconds one of hours. */
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&queue->lock, NULL);
    pthread_cond_init(&queue->wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
    queue->max_reserved = max_reserved;
}

static void queue_fini(lane_queue *queue)
{
    pthread_cond_destroy(&queue->wake);
    pthread_mutex_destroy(&queue->lock);
}

static void queue_append_locked(lane_queue *queue, gmv_job *job)
{
    job->next = NULL;
    if (queue->tail)
        queue->tail->next = job;
    else
        queue->head = job;
    queue->tail = job;
}

static void queue_push(lane_queue *queue, gmv_job *job)
{
    pthread_mutex_lock(&queue->lock);
    queue_append_locked(queue, job);
    pthread_cond_signal(&queue->wake);
    pthread_mutex_unlock(&queue->lock);
}

static gmv_job *queue_take_locked(lane_queue *queue)
{
    gmv_job *job = queue->head;
    if (job) {
        queue->head = job->next;
        if (!queue->head)
            queue->tail = NULL;
    }
    return job;
}

static void deadline_after(clockid_t clock, int64_t milliseconds, struct timespec *out_time)
{
    clock_gettime(clock, out_time);
    out_time->tv_sec += (time_t)(milliseconds / 1000);
    out_time->tv_nsec += (long)(milliseconds % 1000) * 1000000;
    if (out_time->tv_nsec >= 1000000000) {
        out_time->tv_sec++;
        out_time->tv_nsec -= 1000000000;
    }
}

/* Makes jobs of what is due, of everything once the lane is stopping. */
static void queue_unpark_locked(lane_queue *queue)
{
    int64_t now = queue->parked ? gmv_clock_monotonic_ns() : 0;
    while (queue->parked && (queue->is_stopping || queue->parked->due_ns <= now)) {
        gmv_job *job = queue->parked;
        queue->parked = job->next;
        queue_append_locked(queue, job);
    }
}

static void queue_wait_locked(lane_queue *queue)
{
    struct timespec until;
    if (!queue->parked) {
        pthread_cond_wait(&queue->wake, &queue->lock);
        return;
    }
    int64_t left_ns = queue->parked->due_ns - gmv_clock_monotonic_ns();
    deadline_after(CLOCK_MONOTONIC, GMV_MAX(left_ns, INT64_C(0)) / 1000000 + 1, &until);
    (void)pthread_cond_timedwait(&queue->wake, &queue->lock, &until);
}

/* The next job; NULL once the queue is empty and stopping. */
static gmv_job *queue_pop(lane_queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    for (queue_unpark_locked(queue); !queue->head && !queue->is_stopping;
         queue_unpark_locked(queue))
        queue_wait_locked(queue);
    gmv_job *job = queue_take_locked(queue);
    pthread_mutex_unlock(&queue->lock);
    return job;
}

static bool queue_park(lane_queue *queue, gmv_job *job, int64_t milliseconds)
{
    job->due_ns = gmv_clock_monotonic_ns() + milliseconds * 1000000;
    pthread_mutex_lock(&queue->lock);
    bool goes_on = !queue->is_stopping;
    gmv_job **link = &queue->parked;
    while (goes_on && *link && (*link)->due_ns <= job->due_ns)
        link = &(*link)->next;
    if (goes_on) {
        job->next = *link;
        *link = job;
        pthread_cond_signal(&queue->wake);
    }
    pthread_mutex_unlock(&queue->lock);
    return goes_on;
}

static void queue_stop(lane_queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    queue->is_stopping = true;
    pthread_cond_broadcast(&queue->wake);
    pthread_mutex_unlock(&queue->lock);
}

static lane_queue *workers_lane(gmv_workers *workers, gmv_lane lane)
{
    return lane == GMV_LANE_BULK ? &workers->bulk_lane : &workers->short_lane;
}

static void *worker_main(void *argument)
{
    worker *self = argument;
    /* On Linux the nice value belongs to the thread. A refusal costs latency only. */
    (void)setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), WORKER_NICE);
    for (gmv_job *job; (job = queue_pop(self->queue)) != NULL;)
        job->run(job, self->lane, self->streams);
    return NULL;
}

/*
 * Up to when the next lease ends. One that is given during the nap cannot end within it: leases
 * last a second at least.
 */
static int64_t maintenance_nap_ms(gmv_engine *engine)
{
    int64_t next = gmv_registry_next_expiry_ns(engine->registry);
    int64_t now = gmv_clock_monotonic_ns();
    if (next <= now)
        return 1;
    return GMV_MIN((next - now) / 1000000 + 1, (int64_t)MAINTENANCE_NAP_MS);
}

/* Waits for a job, something to reap, or the end of a nap; false once all is done and stopping. */
static bool maintenance_wait(lane_queue *queue, gmv_engine *engine, gmv_job **out_job)
{
    struct timespec until;
    deadline_after(CLOCK_MONOTONIC, maintenance_nap_ms(engine), &until);
    pthread_mutex_lock(&queue->lock);
    int waited = 0;
    while (!queue->head && !queue->is_poked && !queue->is_stopping && waited != ETIMEDOUT)
        waited = pthread_cond_timedwait(&queue->wake, &queue->lock, &until);
    queue->is_poked = false;
    *out_job = queue_take_locked(queue);
    bool goes_on = *out_job || !queue->is_stopping;
    pthread_mutex_unlock(&queue->lock);
    return goes_on;
}

static void *maintenance_main(void *argument)
{
    worker *self = argument;
    gmv_workers *workers = self->workers;
    (void)setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), WORKER_NICE);
    gmv_job *job;
    do {
        bool goes_on = maintenance_wait(self->queue, workers->engine, &job);
        if (job)
            job->run(job, GMV_LANE_BULK, NULL);
        while (gmv_engine_reap(workers->engine) > 0)
            ;
        if (workers->tick)
            workers->tick(workers->tick_context);
        if (!goes_on)
            break;
    } while (true);
    return NULL;
}

static void maintenance_poke(void *context)
{
    lane_queue *queue = context;
    pthread_mutex_lock(&queue->lock);
    queue->is_poked = true;
    pthread_cond_signal(&queue->wake);
    pthread_mutex_unlock(&queue->lock);
}

static gmv_status worker_start(worker *self, void *(*main)(void *), gmv_error *err)
{
    int code = pthread_create(&self->thread, NULL, main, self);
    if (code != 0)
        return gmv_fail(err, GMV_ERR_OVERLOADED, NULL,
                        "a worker thread cannot be started: error %d", code);
    self->is_started = true;
    return GMV_OK;
}

static gmv_status worker_open(worker *self, gmv_error *err)
{
    gmv_engine *engine = self->workers->engine;
    gmv_stream_priority priority =
        self->lane == GMV_LANE_SHORT ? GMV_STREAM_PRIORITY_HIGHEST : GMV_STREAM_PRIORITY_LOWEST;
    for (size_t i = 0; i < engine->n_devices; i++)
        GMV_TRY(
            gmv_stream_create_with_priority(engine->devices[i], priority, &self->streams[i], err));
    return worker_start(self, worker_main, err);
}

static void worker_close(worker *self)
{
    for (size_t i = 0; i < GMV_DEVICES_MAX; i++)
        if (self->streams[i])
            gmv_stream_destroy(self->streams[i]);
}

static gmv_status workers_open(gmv_workers *workers, uint32_t n_short, gmv_error *err)
{
    workers->keeper = (worker){.workers = workers, .queue = &workers->maintenance};
    GMV_TRY(worker_start(&workers->keeper, maintenance_main, err));
    for (size_t i = 0; i < workers->n_threads; i++) {
        worker *self = &workers->threads[i];
        self->workers = workers;
        self->lane = i < n_short ? GMV_LANE_SHORT : GMV_LANE_BULK;
        self->queue = workers_lane(workers, self->lane);
        GMV_TRY(worker_open(self, err));
    }
    return GMV_OK;
}

gmv_status gmv_workers_create(gmv_engine *engine, const gmv_workers_options *options,
                              gmv_workers **out_workers, gmv_error *err)
{
    size_t n_threads = (size_t)options->n_short + options->n_bulk;
    gmv_workers *workers = gmv_calloc(1, sizeof *workers + n_threads * sizeof workers->threads[0]);
    if (!workers)
        return gmv_fail_no_memory(err);
    workers->engine = engine;
    workers->n_threads = n_threads;
    workers->tick = options->tick;
    workers->tick_context = options->tick_context;
    queue_init(&workers->short_lane, options->max_short);
    queue_init(&workers->bulk_lane, options->max_bulk);
    queue_init(&workers->maintenance, 0);
    gmv_status status = workers_open(workers, options->n_short, err);
    if (status != GMV_OK) {
        if (gmv_workers_stop(workers, INT64_C(60000)))
            gmv_workers_destroy(workers);
        return status;
    }
    gmv_engine_on_reapable(engine, maintenance_poke, &workers->maintenance);
    *out_workers = workers;
    return GMV_OK;
}

bool gmv_workers_reserve(gmv_workers *workers, gmv_lane lane)
{
    lane_queue *queue = workers_lane(workers, lane);
    if (atomic_fetch_add_explicit(&queue->n_reserved, 1, memory_order_relaxed) <
        queue->max_reserved)
        return true;
    atomic_fetch_sub_explicit(&queue->n_reserved, 1, memory_order_relaxed);
    return false;
}

void gmv_workers_unreserve(gmv_workers *workers, gmv_lane lane)
{
    atomic_fetch_sub_explicit(&workers_lane(workers, lane)->n_reserved, 1, memory_order_relaxed);
}

void gmv_workers_enqueue(gmv_workers *workers, gmv_lane lane, gmv_job *job)
{
    queue_push(workers_lane(workers, lane), job);
}

bool gmv_workers_park(gmv_workers *workers, gmv_lane lane, gmv_job *job, int64_t milliseconds)
{
    return queue_park(workers_lane(workers, lane), job, milliseconds);
}

void gmv_workers_maintain(gmv_workers *workers, gmv_job *job)
{
    queue_push(&workers->maintenance, job);
}

static bool worker_join(worker *self, const struct timespec *until)
{
    if (!self->is_started)
        return true;
    if (pthread_timedjoin_np(self->thread, NULL, until) != 0)
        return false;
    self->is_started = false;
    return true;
}

bool gmv_workers_stop(gmv_workers *workers, int64_t timeout_ms)
{
    struct timespec until;
    deadline_after(CLOCK_REALTIME, timeout_ms, &until);
    /* In the order in which work is handed on: short workers to bulk ones, these to maintenance. */
    lane_queue *const queues[] = {&workers->short_lane, &workers->bulk_lane};
    for (size_t lane = 0; lane < 2; lane++) {
        queue_stop(queues[lane]);
        for (size_t i = 0; i < workers->n_threads; i++)
            if (workers->threads[i].queue == queues[lane] &&
                !worker_join(&workers->threads[i], &until))
                return false;
    }
    queue_stop(&workers->maintenance);
    if (!worker_join(&workers->keeper, &until))
        return false;
    gmv_engine_on_reapable(workers->engine, NULL, NULL);
    return true;
}

void gmv_workers_destroy(gmv_workers *workers)
{
    if (!workers)
        return;
    for (size_t i = 0; i < workers->n_threads; i++)
        worker_close(&workers->threads[i]);
    queue_fini(&workers->short_lane);
    queue_fini(&workers->bulk_lane);
    queue_fini(&workers->maintenance);
    gmv_free(workers);
}
