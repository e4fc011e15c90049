/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that cut one table of strings over and over, while another writes right and wild offsets
 * to it in turn. Made for ThreadSanitizer: a plain program that prints TAP. The offsets that race
 * are clients' and exempt. Canaries around every partition tell what was written too far.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <gmv/device/split.h>

#define THREADS    4
#define ROUNDS     400
#define ROWS       1000
#define PARTITIONS 5
#define LEVELS     2
#define PLACE      ((uint64_t)16384) /* for each partition, canaries included */
#define CANARY     0xc5

static gmv_device *device;
static gmv_memory *offsets, *characters;
static int32_t valid[ROWS + 1], wild[ROWS + 1];
static _Atomic int failures;
static _Atomic bool stop;

static void expect(bool condition, const char *what, const gmv_error *err)
{
    if (condition)
        return;
    atomic_fetch_add(&failures, 1);
    printf("# %s: %s\n", what, err ? err->message : "");
}

static gmv_memory *allocate(gmv_stream *stream, uint64_t nbytes)
{
    gmv_error err;
    gmv_memory *memory = NULL;
    gmv_error_init(&err);
    expect(gmv_memory_allocate(device, stream, GMV_MEMORY_ORDINARY, GMV_CONTENTS_ZEROED, nbytes,
                               &memory, &err) == GMV_OK,
           "allocate", &err);
    return memory;
}

static void *write_offsets(void *argument)
{
    gmv_error err;
    gmv_stream *stream = NULL;
    gmv_error_init(&err);
    expect(gmv_stream_create(device, &stream, &err) == GMV_OK, "stream", &err);
    for (unsigned i = 0; !atomic_load(&stop) && atomic_load(&failures) == 0; i++)
        expect(gmv_copy_in(stream, offsets->address, i % 2 ? wild : valid, sizeof valid, &err) ==
                   GMV_OK,
               "copy", &err);
    gmv_stream_destroy(stream);
    return argument;
}

static void sort_bounds(int64_t *bounds)
{
    for (int k = 1; k <= PARTITIONS; k++)
        if (bounds[k] < bounds[k - 1])
            bounds[k] = bounds[k - 1];
}

/* Every byte that no partition has is as it was. */
static void check_canaries(const gmv_memory *output, const uint64_t *nbytes)
{
    const uint8_t *bytes = gmv_memory_host_pointer(output);
    for (uint64_t p = 0; p < PARTITIONS; p++) {
        const uint8_t *place = bytes + p * PLACE;
        for (uint64_t i = 0; i < PLACE; i++)
            if ((i < 64 || i >= 64 + nbytes[p]) && place[i] != CANARY) {
                expect(false, "a byte outside a partition was written", NULL);
                return;
            }
    }
}

static void split_once(gmv_stream *stream, const gmv_memory *output, const gmv_memory *counts)
{
    const gmv_split_level levels[LEVELS] = {
        {.limit = ROWS},
        {.offsets = offsets->address, .limit = ROWS, .offset_width = 4},
    };
    const gmv_split_buffer buffers[] = {
        {.address = characters->address, .kind = GMV_SPLIT_BYTES, .level = 1, .width = 1},
        {.address = offsets->address, .kind = GMV_SPLIT_OFFSETS, .width = 4, .below = 1},
    };
    const gmv_split_class classes[] = {{GMV_SPLIT_BYTES, 1, 1, 1}, {GMV_SPLIT_OFFSETS, 0, 4, 1}};
    int64_t bounds[LEVELS * (PARTITIONS + 1)] = {0, 1, 400, 400, 900, ROWS};
    uint64_t destinations[PARTITIONS], nbytes[PARTITIONS];
    gmv_error err;
    gmv_error_init(&err);
    expect(gmv_kernel_split_bounds(stream,
                                   &(gmv_split_bounds){.levels = levels,
                                                       .n_levels = LEVELS,
                                                       .n_points = PARTITIONS + 1,
                                                       .bounds = bounds},
                                   &err) == GMV_OK &&
               gmv_stream_finish(stream, &err) == GMV_OK,
           "bounds", &err);
    sort_bounds(bounds + PARTITIONS + 1);
    for (int p = 0; p < PARTITIONS; p++) {
        destinations[p] = output->address + (uint64_t)p * PLACE + 64;
        nbytes[p] = 0;
        for (int i = 0; i < 2; i++) {
            const int64_t *rows = bounds + buffers[i].level * (PARTITIONS + 1) + p;
            nbytes[p] += gmv_split_capacity(buffers[i].kind, buffers[i].width, rows[1] - rows[0]);
        }
    }
    expect(gmv_fill(stream, output->address, CANARY, output->nbytes, &err) == GMV_OK, "fill", &err);
    expect(gmv_kernel_split(stream,
                            &(gmv_split){.buffers = buffers,
                                         .n_buffers = 2,
                                         .classes = classes,
                                         .n_classes = 2,
                                         .bounds = bounds,
                                         .n_levels = LEVELS,
                                         .n_points = PARTITIONS + 1,
                                         .destinations = destinations,
                                         .n = PARTITIONS,
                                         .set_counts = counts->address},
                            &err) == GMV_OK &&
               gmv_stream_finish(stream, &err) == GMV_OK,
           "split", &err);
    check_canaries(output, nbytes);
}

static void *work(void *argument)
{
    gmv_error err;
    gmv_stream *stream = NULL;
    gmv_error_init(&err);
    expect(gmv_stream_create(device, &stream, &err) == GMV_OK, "stream", &err);
    gmv_memory *output = allocate(stream, PARTITIONS * PLACE), *counts = allocate(stream, 64);
    for (int i = 0; i < ROUNDS && atomic_load(&failures) == 0; i++)
        split_once(stream, output, counts);
    gmv_memory_free(output);
    gmv_memory_free(counts);
    gmv_stream_destroy(stream);
    return argument;
}

static void run_threads(void)
{
    pthread_t writer, threads[THREADS];
    pthread_create(&writer, NULL, write_offsets, NULL);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, NULL);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    atomic_store(&stop, true);
    pthread_join(writer, NULL);
}

int main(void)
{
    const gmv_device_options options = {0};
    gmv_stream *stream = NULL;
    gmv_error err;
    gmv_error_init(&err);
    printf("1..1\n");
    if (gmv_device_open_host(&options, &device, &err) != GMV_OK ||
        gmv_stream_create(device, &stream, &err) != GMV_OK) {
        printf("Bail out! %s\n", err.message);
        return 1;
    }
    for (int i = 0; i <= ROWS; i++) {
        valid[i] = i;
        wild[i] = i % 3 ? (int32_t)(0x9e3779b9u * (unsigned)i) : INT32_MAX - i;
    }
    offsets = allocate(stream, sizeof valid);
    characters = allocate(stream, ROWS);
    if (failures == 0)
        run_threads();
    printf("%s 1 - nothing outside a partition is written, whatever offsets say meanwhile\n",
           failures == 0 ? "ok" : "not ok");
    gmv_memory_free(offsets);
    gmv_memory_free(characters);
    gmv_stream_destroy(stream);
    gmv_device_close(device);
    return failures == 0 ? 0 : 1;
}
