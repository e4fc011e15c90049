/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA backend over the fake driver: devices that are missing, full, lost or stuck. What is
 * lost is left alone: nothing is freed or closed on it, and nobody waits for it.
 */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <cuda.h>
#include <unistd.h>

#include <gmv/base/alloc.h>
#include <gmv/base/clock.h>
#include <gmv/device/kernels.h>

#include "fake_cuda/fake_support.h"

static fake_control control;
static gmv_error err;
static gmv_device *device;
static gmv_stream *stream;
static gmv_memory *memory;

#define works(call)                                            \
    do {                                                       \
        gmv_error_init(&err);                                  \
        cr_assert_eq(call, GMV_OK, #call ": %s", err.message); \
    } while (0)
#define fails(expected, call)                                                    \
    do {                                                                         \
        gmv_error_init(&err);                                                    \
        gmv_status status_ = (call);                                             \
        cr_assert_eq(status_, expected, #call ": %s", gmv_status_code(status_)); \
    } while (0)

static gmv_status allocate(uint64_t nbytes, gmv_memory_kind kind, gmv_memory **out_memory)
{
    return gmv_memory_allocate(device, stream, kind, GMV_CONTENTS_ZEROED, nbytes, out_memory, &err);
}

static void open_with(gmv_device_options options)
{
    gmv_alloc_watch(1);
    cr_assert_not_null(fake_load(&control));
    works(gmv_device_open_cuda(&options, &device, &err));
    works(gmv_stream_create(device, &stream, &err));
    works(allocate(1000, GMV_MEMORY_EXPORTABLE, &memory));
    works(gmv_stream_finish(stream, &err));
}

static gmv_status set_one_bit(void)
{
    return gmv_kernel_set_bits(stream, &(gmv_set_bits){memory->address, {1, 2}, true}, &err);
}

/* All that is left to do with a lost device; none of it may reach the driver, or wait. */
static void check_lost(void)
{
    gmv_memory *other = NULL;
    gmv_share share;
    uint64_t calls = fake_counters(&control).calls;
    uint64_t late = fake_counters(&control).late_calls;
    const char *reason = NULL;
    cr_assert(gmv_device_is_lost(device, &reason));
    cr_assert_not_null(reason);
    fails(GMV_ERR_DEVICE_LOST, allocate(1, GMV_MEMORY_ORDINARY, &other));
    fails(GMV_ERR_DEVICE_LOST, gmv_fill(stream, memory->address, 1, 1, &err));
    fails(GMV_ERR_DEVICE_LOST, gmv_memory_export(memory, &share, &err));
    fails(GMV_ERR_DEVICE_LOST, gmv_stream_finish(stream, &err));
    gmv_stream_abandon(stream);
    gmv_device_trim(device);
    (void)gmv_device_free_nbytes(device);
    gmv_memory_free(memory);
    gmv_stream_destroy(stream);
    gmv_device_close(device);
    cr_assert_eq(fake_counters(&control).calls, calls, "the driver was called");
    cr_assert_eq(fake_counters(&control).late_calls, late, "the driver was called");
    cr_assert_eq(gmv_alloc_live(), 0, "%lld blocks are left", (long long)gmv_alloc_live());
}

Test(cuda_lost, a_kernel_that_never_ends_loses_the_device, .timeout = 600)
{
    open_with((gmv_device_options){.job_deadline_ms = 200});
    control.hang(true);
    works(set_one_bit());
    int64_t begin = gmv_clock_monotonic_ns();
    fails(GMV_ERR_DEVICE_LOST, gmv_stream_finish(stream, &err));
    int64_t waited = gmv_clock_monotonic_ns() - begin;
    cr_assert_geq(waited, INT64_C(200) * 1000000);
    check_lost();
}

Test(cuda_lost, long_work_within_the_deadline_does_not)
{
    cr_assert_eq(setenv("GMV_FAKE_CUDA_ASYNC", "1", 1), 0);
    open_with((gmv_device_options){.job_deadline_ms = 60000});
    works(set_one_bit());
    works(gmv_stream_finish(stream, &err));
    cr_assert_not(gmv_device_is_lost(device, NULL));
}

static const int sticky_results[] = {
    CUDA_ERROR_ILLEGAL_ADDRESS,     CUDA_ERROR_MISALIGNED_ADDRESS, CUDA_ERROR_LAUNCH_FAILED,
    CUDA_ERROR_LAUNCH_TIMEOUT,      CUDA_ERROR_ECC_UNCORRECTABLE,  CUDA_ERROR_ASSERT,
    CUDA_ERROR_ILLEGAL_INSTRUCTION, CUDA_ERROR_INVALID_PC,
};

#define STICKY_RESULTS (sizeof sticky_results / sizeof sticky_results[0])

ParameterizedTestParameters(cuda_lost, sticky_results_lose_the_device)
{
    static size_t rows[STICKY_RESULTS];
    for (size_t i = 0; i < STICKY_RESULTS; i++)
        rows[i] = i;
    return cr_make_param_array(size_t, rows, STICKY_RESULTS);
}

ParameterizedTest(size_t *row, cuda_lost, sticky_results_lose_the_device)
{
    open_with((gmv_device_options){0});
    works(set_one_bit());
    control.sticky(sticky_results[*row]);
    fails(GMV_ERR_DEVICE_LOST, gmv_stream_finish(stream, &err));
    check_lost();
}

/* Nothing stops the caller here from passing an address that is not the device's. */
Test(cuda_lost, work_outside_of_memory_is_seen_by_the_driver)
{
    open_with((gmv_device_options){0});
    works(gmv_fill(stream, memory->address + memory->capacity, 1, (uint64_t)2 << 20, &err));
    fails(GMV_ERR_DEVICE_LOST, gmv_stream_finish(stream, &err));
    cr_assert_eq(fake_counters(&control).violations, 1);
    check_lost();
}

Test(cuda_lost, no_device_is_no_backend)
{
    int32_t count = 1;
    cr_assert_not_null(fake_load(&control));
    cr_assert_eq(setenv("GMV_FAKE_CUDA_DEVICES", "0", 1), 0);
    fails(GMV_ERR_BACKEND_UNSUPPORTED, gmv_cuda_device_count(&count, &err));
    cr_assert_eq(count, 0);
    fails(GMV_ERR_BACKEND_UNSUPPORTED, gmv_device_open_cuda(NULL, &device, &err));
}

Test(cuda_lost, two_devices_are_told_apart)
{
    gmv_device *devices[2];
    int32_t count;
    cr_assert_not_null(fake_load(&control));
    cr_assert_eq(setenv("GMV_FAKE_CUDA_DEVICES", "2", 1), 0);
    works(gmv_cuda_device_count(&count, &err));
    cr_assert_eq(count, 2);
    for (int32_t i = 0; i < 2; i++) {
        const gmv_device_options options = {.ordinal = i};
        works(gmv_device_open_cuda(&options, &devices[i], &err));
        cr_assert_eq(gmv_device_describe(devices[i])->ordinal, i);
    }
    cr_assert_str_neq(gmv_device_describe(devices[0])->uuid, gmv_device_describe(devices[1])->uuid);
    const gmv_device_options none = {.ordinal = 2}, negative = {.ordinal = -1};
    fails(GMV_ERR_VALUE, gmv_device_open_cuda(&none, &device, &err));
    fails(GMV_ERR_VALUE, gmv_device_open_cuda(&negative, &device, &err));
    gmv_device_mark_lost(devices[0], "a test asked for it");
    cr_assert_not(gmv_device_is_lost(devices[1], NULL));
    gmv_device_close(devices[1]);
    gmv_device_close(devices[0]);
    cr_assert_eq(fake_counters(&control).contexts, 1, "a lost device is left alone");
}

Test(cuda_lost, a_full_device_says_so_and_gives_what_its_pool_keeps)
{
    gmv_memory *large = NULL, *other = NULL;
    cr_assert_eq(setenv("GMV_FAKE_CUDA_MEMORY", "128", 1), 0);
    open_with((gmv_device_options){0});
    works(allocate((uint64_t)80 << 20, GMV_MEMORY_ORDINARY, &large));
    works(gmv_stream_finish(stream, &err));
    fails(GMV_ERR_DEVICE_OUT_OF_MEMORY, allocate((uint64_t)80 << 20, GMV_MEMORY_ORDINARY, &other));
    fails(GMV_ERR_DEVICE_OUT_OF_MEMORY,
          allocate((uint64_t)80 << 20, GMV_MEMORY_EXPORTABLE, &other));
    fails(GMV_ERR_DEVICE_OUT_OF_MEMORY, allocate(UINT64_MAX, GMV_MEMORY_ORDINARY, &other));
    cr_assert_not(gmv_device_is_lost(device, NULL));
    gmv_memory_free(large);
    works(allocate((uint64_t)80 << 20, GMV_MEMORY_EXPORTABLE, &other));
    works(gmv_stream_finish(stream, &err));
    gmv_memory_free(other);
    gmv_memory_free(memory);
    gmv_stream_destroy(stream);
    gmv_device_close(device);
    cr_assert_eq(fake_counters(&control).used_nbytes, 0);
    cr_assert_eq(gmv_alloc_live(), 0);
}
