/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that upload, look at, compute on, read and delete the same few handles at once, each with
 * a stream of its own, beside one that reaps. Plain TAP: ThreadSanitizer and Criterion do not mix.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gmv/ops/mask.h>

#define THREADS 4
#define ROUNDS  1000
#define SHARED  8
#define NBYTES  256

static gmv_engine engine;
static gmv_caller caller;
static pthread_mutex_t shared_lock = PTHREAD_MUTEX_INITIALIZER;
static gmv_id shared[SHARED];
static atomic_int faults;
static atomic_bool stop;

typedef struct worker {
    pthread_t thread;
    gmv_stream *stream;
    unsigned seed;
} worker;

static void check(bool holds, const char *what)
{
    if (holds)
        return;
    printf("# %s\n", what);
    atomic_fetch_add(&faults, 1);
}

static unsigned random_below(worker *self, unsigned limit)
{
    self->seed = self->seed * 1103515245u + 12345u;
    return (self->seed >> 16) % limit;
}

static gmv_id pick(worker *self)
{
    pthread_mutex_lock(&shared_lock);
    gmv_id id = shared[random_below(self, SHARED)];
    pthread_mutex_unlock(&shared_lock);
    return id;
}

/* Puts a fresh buffer in the place of another, which is deleted. */
static void replace(worker *self, gmv_operation *operation, gmv_error *err)
{
    unsigned char bytes[NBYTES];
    gmv_upload *upload = NULL;
    gmv_buffer *buffer = NULL;
    gmv_deletion deletion;
    memset(bytes, (int)random_below(self, 256), sizeof bytes);
    check(gmv_upload_begin(operation, 0, NBYTES, &upload, err) == GMV_OK, "upload begins");
    check(gmv_upload_append(operation, upload, bytes, NBYTES, err) == GMV_OK, "upload goes on");
    check(gmv_upload_finish(operation, upload, false, NULL, &buffer, err) == GMV_OK, "upload ends");
    pthread_mutex_lock(&shared_lock);
    gmv_id *place = &shared[random_below(self, SHARED)];
    gmv_id old = *place;
    *place = buffer->node.id;
    pthread_mutex_unlock(&shared_lock);
    if (old.kind != GMV_KIND_ANY)
        check(gmv_registry_delete(engine.registry, &caller, &old, GMV_KIND_BUFFER,
                                  GMV_IF_HELD_CASCADE, &deletion, err) == GMV_OK,
              "each buffer is deleted once");
}

/* All bytes of a buffer are equal, so a mask over it tells whether it is read whole. */
static void use(worker *self, gmv_operation *operation, gmv_error *err)
{
    gmv_id id = pick(self);
    gmv_node *node = NULL;
    gmv_view *view = NULL;
    gmv_mask_result result;
    gmv_bytes bytes;
    if (id.kind == GMV_KIND_ANY ||
        gmv_operation_get(operation, &id, GMV_KIND_BUFFER, NULL, &node, err) != GMV_OK)
        return;
    gmv_buffer *buffer = gmv_buffer_of(node);
    gmv_cai cai = {.address = (int64_t)buffer->ptr, .dtype = GMV_DTYPE_B1, .version = 3};
    cai.layout = gmv_layout_flat(NBYTES / 2);
    cai.layout.has_strides = true;
    cai.layout.strides[0] = 2;
    gmv_view_request request = {.cai = &cai, .buffer = random_below(self, 2) ? buffer : NULL};
    gmv_status status = gmv_view_create(operation, &request, NULL, &view, err);
    check(status == GMV_OK || status == GMV_ERR_POINTER_NOT_REGISTERED, "a view is made or not");
    if (status != GMV_OK)
        return;
    check(gmv_bools_to_mask(operation, &view->node, NULL, &result, err) == GMV_OK, "a mask");
    check(result.null_count == 0 || result.null_count == NBYTES / 2, "the whole of one buffer");
    check(gmv_view_bytes(operation, view, &bytes, err) == GMV_OK, "bytes");
    check(gmv_bytes_fetch(&bytes, self->stream, err) == GMV_OK, "bytes are gathered");
    check(memcmp(bytes.host, (const char *)bytes.host + 1, NBYTES / 2 - 1) == 0, "of one buffer");
    gmv_bytes_release(&bytes);
}

static void *work(void *context)
{
    worker *self = context;
    gmv_error err;
    for (int round = 0; round < ROUNDS; round++) {
        gmv_operation operation;
        gmv_error_init(&err);
        gmv_operation_begin(&operation, &engine, &caller, GMV_LANE_BULK, &self->stream);
        if (round % 3 == 0)
            replace(self, &operation, &err);
        else
            use(self, &operation, &err);
        gmv_operation_end(&operation);
    }
    return NULL;
}

static void *reap(void *context)
{
    (void)context;
    while (!atomic_load(&stop)) {
        gmv_engine_reap(&engine);
        sched_yield();
    }
    return NULL;
}

int main(void)
{
    gmv_error err;
    gmv_device *device = NULL;
    gmv_device_options options = {0};
    worker workers[THREADS];
    pthread_t reaper;
    gmv_error_init(&err);
    printf("1..1\n");
    if (gmv_device_open_host(&options, &device, &err) != GMV_OK ||
        gmv_engine_init(&engine, &device, 1, NULL, NULL, &err) != GMV_OK)
        return EXIT_FAILURE;
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i].seed = i;
        if (gmv_stream_create(device, &workers[i].stream, &err) != GMV_OK)
            return EXIT_FAILURE;
    }
    pthread_create(&reaper, NULL, reap, NULL);
    for (size_t i = 0; i < THREADS; i++)
        pthread_create(&workers[i].thread, NULL, work, &workers[i]);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(workers[i].thread, NULL);
    atomic_store(&stop, true);
    pthread_join(reaper, NULL);
    for (size_t i = 0; i < THREADS; i++)
        gmv_stream_destroy(workers[i].stream);
    gmv_engine_fini(&engine);
    check(engine.reserved_nbytes[0] == 0, "all memory went back");
    printf("%sok 1 - threads share handles without harm\n", atomic_load(&faults) ? "not " : "");
    return atomic_load(&faults) ? EXIT_FAILURE : EXIT_SUCCESS;
}
