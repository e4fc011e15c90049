/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of devices share: the table of devices that every row runs on, a world of one open
 * device and stream, memory with forbidden pages around it, and random numbers that repeat.
 */
#ifndef GMV_TESTS_DEVICE_SUPPORT_H
#define GMV_TESTS_DEVICE_SUPPORT_H

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gmv/base/alloc.h>
#include <gmv/device/kernels.h>

/* ---- the devices ----------------------------------------------------------------------------- */

static const struct device_row {
    const char *name;
    const char *kernel_set;
    bool portable;
    bool is_cuda;
} device_rows[] = {
    {"host, portable kernels", "portable", true, false},
    {"host, AVX2 kernels", "avx2", false, false},
    {"CUDA", NULL, false, true},
};

#define DEVICE_ROWS (sizeof device_rows / sizeof device_rows[0])
#define HOST_ROWS   2 /* the first ones */

typedef struct world {
    const struct device_row *row;
    gmv_device *device;
    gmv_stream *stream;
    gmv_error err;
    uint8_t *seen; /* what world_read gave last */
} world;

/* Fails the test and says what the call did, unless it went well. */
#define must(w, call)                                                              \
    do {                                                                           \
        gmv_error_init(&(w)->err);                                                 \
        gmv_status must_status_ = (call);                                          \
        cr_assert(must_status_ == GMV_OK, "%s: %s: %s: %s", (w)->row->name, #call, \
                  gmv_status_code(must_status_), (w)->err.message);                \
    } while (0)

/* The call must fail with exactly this status, and fill the error with it. */
#define must_fail(w, expected, call)                                                            \
    do {                                                                                        \
        gmv_error_init(&(w)->err);                                                              \
        gmv_status must_status_ = (call);                                                       \
        cr_assert(must_status_ == (expected), "%s: %s: %s, not %s (%s)", (w)->row->name, #call, \
                  gmv_status_code(must_status_), gmv_status_code(expected), (w)->err.message);  \
        cr_assert((w)->err.status == (expected) && (w)->err.message[0], "%s: %s: no message",   \
                  (w)->row->name, #call);                                                       \
    } while (0)

static inline void world_open_cuda(world *w, const gmv_device_options *options)
{
    int32_t count = 0;
    gmv_error_init(&w->err);
    if (gmv_cuda_device_count(&count, &w->err) != GMV_OK || count == 0)
        cr_skip_test("no CUDA device: %s", w->err.message);
    must(w, gmv_device_open_cuda(options, &w->device, &w->err));
    must(w, gmv_stream_create(w->device, &w->stream, &w->err));
}

static inline void world_open_with(world *w, size_t row, gmv_device_options options)
{
    memset(w, 0, sizeof *w);
    w->row = &device_rows[row];
    options.force_portable_kernels = w->row->portable;
    if (w->row->is_cuda) {
        world_open_cuda(w, &options);
        return;
    }
    must(w, gmv_device_open_host(&options, &w->device, &w->err));
    must(w, gmv_stream_create(w->device, &w->stream, &w->err));
    if (strcmp(gmv_device_describe(w->device)->kernel_set, w->row->kernel_set) != 0)
        cr_skip_test("this processor has no %s kernels", w->row->kernel_set);
}

/* Also checks that nothing is left: what is allocated, and what is mapped. */
static inline void world_close(world *w)
{
    /* Others may use a GPU, too. */
    if (!w->row->is_cuda)
        cr_assert_eq(gmv_device_free_nbytes(w->device),
                     gmv_device_describe(w->device)->total_nbytes, "%s: memory is left",
                     w->row->name);
    gmv_free(w->seen);
    cr_assert_eq(gmv_device_import_mappings(w->device), 0, "%s: mappings are left", w->row->name);
    gmv_stream_destroy(w->stream);
    gmv_device_close(w->device);
}

static inline size_t *device_indices(void)
{
    static size_t indices[DEVICE_ROWS];
    for (size_t i = 0; i < DEVICE_ROWS; i++)
        indices[i] = i;
    return indices;
}

/* A test that runs on the first `rows` devices of the table; its body gets `world *w`. */
#define DEVICE_TEST_OF(rows, suite, name, ...)                        \
    static void suite##_##name(world *w);                             \
    ParameterizedTestParameters(suite, name)                          \
    {                                                                 \
        return cr_make_param_array(size_t, device_indices(), rows);   \
    }                                                                 \
    ParameterizedTest(size_t *row, suite, name)                       \
    {                                                                 \
        world w;                                                      \
        world_open_with(&w, *row, (gmv_device_options){__VA_ARGS__}); \
        suite##_##name(&w);                                           \
        world_close(&w);                                              \
    }                                                                 \
    static void suite##_##name(world *w)

/* On every device; on the host alone, where the test is about what only the host has. */
#define DEVICE_TEST(suite, name)         DEVICE_TEST_OF(DEVICE_ROWS, suite, name, 0)
#define HOST_TEST(suite, name)           DEVICE_TEST_OF(HOST_ROWS, suite, name, 0)
#define HOST_TEST_WITH(suite, name, ...) DEVICE_TEST_OF(HOST_ROWS, suite, name, __VA_ARGS__)

/* ---- memory ---------------------------------------------------------------------------------- */

static inline gmv_memory *make_memory(world *w, gmv_memory_kind kind, gmv_contents contents,
                                      uint64_t nbytes)
{
    gmv_memory *memory = NULL;
    must(w, gmv_memory_allocate(w->device, w->stream, kind, contents, nbytes, &memory, &w->err));
    return memory;
}

/* The work that was enqueued is done, and these are the bytes now. @borrowed until the next call.
 */
static inline const uint8_t *world_read(world *w, const gmv_memory *memory)
{
    must(w, gmv_stream_finish(w->stream, &w->err));
    if (!w->row->is_cuda)
        return gmv_memory_host_pointer(memory);
    gmv_free(w->seen);
    w->seen = gmv_malloc(memory->capacity + 1);
    cr_assert_not_null(w->seen);
    must(w, gmv_copy_out(w->stream, w->seen, memory->address, memory->capacity, &w->err));
    must(w, gmv_stream_finish(w->stream, &w->err));
    return w->seen;
}

/* True if all bytes are `value`. */
static inline bool bytes_are(const void *bytes, uint8_t value, size_t nbytes)
{
    const uint8_t *byte = bytes;
    return nbytes == 0 || (byte[0] == value && memcmp(byte, byte + 1, nbytes - 1) == 0);
}

/* Pages between two that must not be touched. */
typedef struct guarded {
    uint8_t *begin, *end;
} guarded;

static inline guarded guarded_make(size_t nbytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t inside = (nbytes + page - 1) / page * page + page;
    uint8_t *all = mmap(NULL, inside + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq(all, MAP_FAILED);
    cr_assert_eq(mprotect(all + page, inside, PROT_READ | PROT_WRITE), 0);
    return (guarded){all + page, all + page + inside};
}

static inline void guarded_free(guarded memory)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    munmap(memory.begin - page, (size_t)(memory.end - memory.begin) + 2 * page);
}

static inline uint64_t address_of(const void *pointer)
{
    return (uint64_t)(uintptr_t)pointer;
}

/* ---- random numbers -------------------------------------------------------------------------- */

static inline uint64_t random_next(uint64_t *state)
{
    uint64_t value = (*state += UINT64_C(0x9e3779b97f4a7c15));
    value = (value ^ value >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ value >> 27) * UINT64_C(0x94d049bb133111eb);
    return value ^ value >> 31;
}

static inline int64_t random_below(uint64_t *state, int64_t limit)
{
    return (int64_t)(random_next(state) % (uint64_t)limit);
}

/* Mostly short, sometimes long enough for every loop of a kernel. */
static inline int64_t random_length(uint64_t *state)
{
    switch (random_below(state, 10)) {
    case 0:
        return random_below(state, 3);
    case 1:
        return 64 * random_below(state, 12);
    case 2:
        return random_below(state, 6000);
    default:
        return random_below(state, 400);
    }
}

/* Runs of zeros, of ones, and noise. */
static inline void random_fill(uint64_t *state, uint8_t *bytes, size_t nbytes)
{
    for (size_t i = 0; i < nbytes;) {
        size_t run = i + (size_t)random_below(state, 40);
        int64_t mode = random_below(state, 4);
        for (; i < nbytes && i <= run; i++)
            bytes[i] = mode == 0 ? 0 : mode == 1 ? 0xff : (uint8_t)random_next(state);
    }
}

#endif
