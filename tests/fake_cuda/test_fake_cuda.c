/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fake driver against what is known of a real one, and its watch over memory. Each test runs in
 * a process of its own, in which cuInit has not been called.
 */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device/cuda/kernels/arguments.h"
#include "fake_cuda/fake_calls.h"
#include "fake_cuda/fake_support.h"

#define MEBI ((size_t)1 << 20)

static fake_control control;

#define MEMBER(member, symbol, parameters) CUresult(CUDAAPI *member) parameters;
static struct {
    CUDA_DRIVER_MAP(MEMBER)
    FAKE_EXTRA_MAP(MEMBER)
} driver;
#undef MEMBER

static void driver_load(void)
{
    void *library = fake_load(&control);
    cr_assert_not_null(library);
#define FETCH(member, symbol, parameters) \
    cr_assert(fake_fetch(library, symbol, &driver.member), "%s is missing", symbol);
    CUDA_DRIVER_MAP(FETCH)
    FAKE_EXTRA_MAP(FETCH)
#undef FETCH
}

#define works(call) cr_assert_eq(call, CUDA_SUCCESS, #call)
#define gives(expected, call)                                                         \
    do {                                                                              \
        CUresult result_ = (call);                                                    \
        cr_assert_eq(result_, expected, "%s: %d, not %s", #call, result_, #expected); \
    } while (0)

static CUcontext context;

static void driver_begin(void)
{
    driver_load();
    works(driver.init(0));
    works(driver.context_retain(&context, 0));
    works(driver.context_push(context));
}

static CUdeviceptr allocate(size_t nbytes)
{
    CUdeviceptr address = 0;
    works(driver.memory_allocate(&address, nbytes));
    return address;
}

static CUstream stream_make(void)
{
    CUstream stream = NULL;
    works(driver.stream_create(&stream, CU_STREAM_NON_BLOCKING, 0));
    return stream;
}

static CUevent event_make(void)
{
    CUevent event = NULL;
    works(driver.event_create(&event, CU_EVENT_DISABLE_TIMING));
    return event;
}

/* ---- devices and contexts -------------------------------------------------------------------- */

Test(fake_cuda, nothing_works_before_init_and_without_a_context)
{
    CUdeviceptr address;
    int count;
    driver_load();
    gives(CUDA_ERROR_NOT_INITIALIZED, driver.device_count(&count));
    gives(CUDA_ERROR_INVALID_VALUE, driver.init(1));
    works(driver.init(0));
    works(driver.device_count(&count));
    cr_assert_eq(count, 1);
    gives(CUDA_ERROR_INVALID_CONTEXT, driver.memory_allocate(&address, 1));
    gives(CUDA_ERROR_INVALID_CONTEXT, driver.context_push((CUcontext)&count));
    gives(CUDA_ERROR_INVALID_DEVICE, driver.context_retain(&context, 1));
}

Test(fake_cuda, there_are_as_many_devices_as_asked_for)
{
    CUuuid uuids[2];
    int count;
    driver_load();
    cr_assert_eq(setenv("GMV_FAKE_CUDA_DEVICES", "2", 1), 0);
    works(driver.init(0));
    works(driver.device_count(&count));
    cr_assert_eq(count, 2);
    for (int i = 0; i < 2; i++)
        works(driver.device_uuid(&uuids[i], i));
    cr_assert_neq(memcmp(&uuids[0], &uuids[1], sizeof uuids[0]), 0);
    gives(CUDA_ERROR_INVALID_DEVICE, driver.device_uuid(&uuids[0], 2));
}

Test(fake_cuda, no_device_is_an_error_of_init)
{
    driver_load();
    cr_assert_eq(setenv("GMV_FAKE_CUDA_DEVICES", "0", 1), 0);
    gives(CUDA_ERROR_NO_DEVICE, driver.init(0));
}

Test(fake_cuda, the_end_of_a_context_ends_what_it_owns)
{
    driver_begin();
    (void)allocate(100);
    (void)stream_make();
    works(driver.context_release(0));
    fake_cuda_counters counters = fake_counters(&control);
    cr_assert_eq(counters.contexts + counters.allocations + counters.streams, 0);
    cr_assert_eq(counters.used_nbytes, 0);
    gives(CUDA_ERROR_INVALID_CONTEXT, driver.context_synchronize());
}

/* ---- memory ---------------------------------------------------------------------------------- */

Test(fake_cuda, memory_keeps_what_is_copied_in_and_is_not_zero_before)
{
    uint8_t in[1000], out[1000];
    CUdeviceptr base;
    size_t nbytes, free_nbytes, total_nbytes;
    driver_begin();
    CUdeviceptr address = allocate(1000);
    works(driver.copy_out_now(out, address, 1000));
    cr_assert_neq(out[0] | out[999], 0);
    memset(in, 7, sizeof in);
    works(driver.copy_in_now(address, in, 1000));
    works(driver.fill_now(address + 500, 9, 500));
    works(driver.copy_out_now(out, address, 1000));
    cr_assert(out[0] == 7 && out[499] == 7 && out[500] == 9 && out[999] == 9);
    works(driver.memory_range(&base, &nbytes, address + 999));
    cr_assert(base == address && nbytes == 1000);
    gives(CUDA_ERROR_NOT_FOUND, driver.memory_range(&base, &nbytes, address + 1000));
    works(driver.memory_info(&free_nbytes, &total_nbytes));
    cr_assert_eq(total_nbytes - free_nbytes, 2 * MEBI);
    gives(CUDA_ERROR_INVALID_VALUE, driver.memory_free(address + 1));
    works(driver.memory_free(address));
    gives(CUDA_ERROR_INVALID_VALUE, driver.memory_free(address));
    cr_assert_eq(fake_counters(&control).allocations, 0);
}

Test(fake_cuda, large_fills_with_zeros_reach_every_byte)
{
    static uint8_t out[3 << 20];
    driver_begin();
    CUdeviceptr address = allocate(sizeof out);
    works(driver.fill_now(address, 5, sizeof out));
    works(driver.fill_now(address + 1, 0, sizeof out - 2));
    works(driver.copy_out_now(out, address, sizeof out));
    cr_assert(out[0] == 5 && out[sizeof out - 1] == 5);
    for (size_t i = 1; i < sizeof out - 1; i++)
        cr_assert_eq(out[i], 0);
}

Test(fake_cuda, a_device_has_no_more_memory_than_it_says)
{
    CUdeviceptr address;
    driver_load();
    cr_assert_eq(setenv("GMV_FAKE_CUDA_MEMORY", "16", 1), 0);
    works(driver.init(0));
    works(driver.context_retain(&context, 0));
    works(driver.context_push(context));
    gives(CUDA_ERROR_OUT_OF_MEMORY, driver.memory_allocate(&address, 17 * MEBI));
    gives(CUDA_ERROR_OUT_OF_MEMORY, driver.memory_allocate(&address, SIZE_MAX));
    gives(CUDA_ERROR_INVALID_VALUE, driver.memory_allocate(&address, 0));
    CUdeviceptr all = allocate(16 * MEBI);
    gives(CUDA_ERROR_OUT_OF_MEMORY, driver.memory_allocate(&address, 1));
    works(driver.memory_free(all));
    (void)allocate(1);
}

static const struct {
    size_t offset, nbytes;
    bool is_freed;
} wild_rows[] = {{0, 1001, false}, {1000, 1, false}, {SIZE_MAX, 1, false}, {0, 1, true}};

ParameterizedTestParameters(fake_cuda, who_leaves_live_memory_breaks_the_context)
{
    static size_t rows[] = {0, 1, 2, 3};
    return cr_make_param_array(size_t, rows, sizeof rows / sizeof rows[0]);
}

ParameterizedTest(size_t *row, fake_cuda, who_leaves_live_memory_breaks_the_context)
{
    uint8_t out[2000];
    driver_begin();
    CUdeviceptr address = allocate(1000);
    if (wild_rows[*row].is_freed)
        works(driver.memory_free(address));
    gives(CUDA_ERROR_ILLEGAL_ADDRESS,
          driver.copy_out_now(out, address + wild_rows[*row].offset, wild_rows[*row].nbytes));
    gives(CUDA_ERROR_ILLEGAL_ADDRESS, driver.memory_allocate(&address, 1));
    cr_assert_eq(fake_counters(&control).violations, 1);
    cr_assert_eq(fake_counters(&control).late_calls, 1);
}

/* The system may not read there either. */
Test(fake_cuda, a_device_address_is_no_host_pointer)
{
    int ends[2];
    driver_begin();
    CUdeviceptr address = allocate(1000);
    cr_assert_eq(pipe(ends), 0);
    cr_assert_eq(write(ends[1], (const void *)(uintptr_t)address, 1), -1);
    cr_assert_eq(errno, EFAULT);
}

Test(fake_cuda, mapped_host_memory_is_seen_by_both)
{
    uint8_t *pointer;
    CUdeviceptr address;
    driver_begin();
    works(driver.host_allocate((void **)&pointer, 100, CU_MEMHOSTALLOC_DEVICEMAP));
    works(driver.host_device_pointer(&address, pointer + 10, 0));
    works(driver.fill_now(address, 3, 90));
    cr_assert(pointer[10] == 3 && pointer[99] == 3);
    gives(CUDA_ERROR_INVALID_VALUE, driver.copy_in_now(allocate(200), pointer + 10, 91));
    gives(CUDA_ERROR_INVALID_VALUE, driver.host_free(pointer + 1));
    works(driver.host_free(pointer));
    cr_assert_eq(fake_counters(&control).host_allocations, 0);
}

/* ---- pools ----------------------------------------------------------------------------------- */

static CUmemoryPool pool_make(void)
{
    CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUmemoryPool pool = NULL;
    cuuint64_t keep = UINT64_MAX;
    works(driver.pool_create(&pool, &properties));
    works(driver.pool_set(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
    return pool;
}

Test(fake_cuda, pools_keep_what_is_freed_until_they_are_trimmed)
{
    CUdeviceptr small, large;
    cuuint64_t used, reserved;
    driver_begin();
    CUmemoryPool pool = pool_make();
    CUstream stream = stream_make();
    works(driver.pool_allocate(&small, 100, pool, stream));
    works(driver.pool_allocate(&large, 5 * MEBI, pool, stream));
    cr_assert_eq(small % 256 + large % 256, 0);
    works(driver.pool_get(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
    cr_assert_eq(used, 512 + 6 * MEBI);
    works(driver.pool_free(large, stream));
    gives(CUDA_ERROR_INVALID_VALUE, driver.pool_free(large, stream));
    works(driver.pool_get(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved));
    cr_assert_eq(reserved, 8 * MEBI);
    works(driver.pool_trim(pool, 0));
    works(driver.pool_get(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved));
    cr_assert_eq(reserved, 2 * MEBI);
    works(driver.pool_free(small, stream));
    works(driver.pool_destroy(pool));
    fake_cuda_counters counters = fake_counters(&control);
    cr_assert_eq(counters.pools + counters.pool_allocations + counters.used_nbytes, 0);
}

Test(fake_cuda, pool_memory_cannot_be_exported)
{
    CUdeviceptr address;
    CUipcMemHandle handle;
    unsigned capable = 1;
    driver_begin();
    works(driver.pool_allocate(&address, 100, pool_make(), stream_make()));
    gives(CUDA_ERROR_INVALID_VALUE, driver.ipc_export(&handle, address));
    works(driver.pointer_attribute(&capable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
                                   address));
    cr_assert_eq(capable, 0);
}

/* ---- streams and events ---------------------------------------------------------------------- */

static CUfunction kernel_find(const char *name)
{
    static CUmodule module;
    CUfunction function = NULL;
    if (!module)
        works(driver.module_load(&module, "anything"));
    works(driver.module_function(&function, module, name));
    return function;
}

static CUresult launch(const char *name, void *args, unsigned blocks, CUstream stream)
{
    void *parameters[] = {args};
    return driver.launch(kernel_find(name), blocks, 1, 1, GMV_CUDA_THREADS, 1, 1, 0, stream,
                         parameters, NULL);
}

/* A launch that does nothing but take its turn. */
static void launch_nothing(CUstream stream)
{
    cuda_edges_args args = {{0}};
    works(launch("gmv_set_edges", &args, 1, stream));
}

ParameterizedTestParameters(fake_cuda, what_hangs_holds_its_stream_and_who_waits_for_it)
{
    static size_t rows[] = {0, 1};
    return cr_make_param_array(size_t, rows, sizeof rows / sizeof rows[0]);
}

ParameterizedTest(size_t *is_async, fake_cuda, what_hangs_holds_its_stream_and_who_waits_for_it)
{
    uint8_t out = 0;
    cr_assert_eq(setenv("GMV_FAKE_CUDA_ASYNC", *is_async ? "1" : "0", 1), 0);
    driver_begin();
    CUdeviceptr address = allocate(1);
    CUstream first = stream_make(), second = stream_make();
    CUevent event = event_make(), last = event_make();
    works(driver.fill(address, 1, 1, first));
    control.hang(true);
    launch_nothing(first);
    works(driver.event_record(event, first));
    works(driver.stream_wait_event(second, event, 0));
    works(driver.fill(address, 2, 1, second));
    works(driver.event_record(last, second));
    gives(CUDA_ERROR_NOT_READY, driver.event_query(event));
    gives(CUDA_ERROR_NOT_READY, driver.event_query(last));
    gives(CUDA_ERROR_NOT_READY, driver.stream_query(first));
    works(driver.copy_out_now(&out, address, 1));
    cr_assert_neq(out, 2);
    control.hang(false);
    works(driver.event_synchronize(last));
    works(driver.event_query(event));
    works(driver.copy_out_now(&out, address, 1));
    cr_assert_eq(out, 2);
    works(driver.stream_destroy(first));
    works(driver.event_destroy(event));
    gives(CUDA_ERROR_INVALID_HANDLE, driver.event_query(event));
    gives(CUDA_ERROR_INVALID_HANDLE, driver.stream_query(first));
    cr_assert_eq(fake_counters(&control).streams + fake_counters(&control).events, 2);
}

Test(fake_cuda, pinned_memory_is_read_when_the_stream_gets_there_pageable_at_once)
{
    uint8_t *pinned, pageable = 1, out[2];
    driver_begin();
    CUdeviceptr address = allocate(2);
    CUstream stream = stream_make();
    works(driver.host_allocate((void **)&pinned, 1, 0));
    *pinned = 1;
    control.hang(true);
    launch_nothing(stream);
    works(driver.copy_in(address, pinned, 1, stream));
    works(driver.copy_in(address + 1, &pageable, 1, stream));
    *pinned = pageable = 2;
    control.hang(false);
    works(driver.stream_synchronize(stream));
    works(driver.copy_out_now(out, address, 2));
    cr_assert(out[0] == 2 && out[1] == 1);
}

Test(fake_cuda, memory_is_freed_once_the_work_before_is_done)
{
    uint8_t out;
    CUdeviceptr address;
    cr_assert_eq(setenv("GMV_FAKE_CUDA_ASYNC", "1", 1), 0);
    driver_begin();
    CUmemoryPool pool = pool_make();
    CUstream stream = stream_make();
    for (int i = 0; i < 200; i++) {
        works(driver.pool_allocate(&address, 4096, pool, stream));
        works(driver.fill(address, (uint8_t)i, 4096, stream));
        works(driver.copy_out(&out, address + 4095, 1, stream));
        cr_assert_eq(out, (uint8_t)i);
        works(driver.pool_free(address, stream));
        CUdeviceptr exclusive = allocate(4096);
        works(driver.fill(exclusive, 1, 4096, stream));
        works(driver.memory_free(exclusive));
    }
    works(driver.context_synchronize());
    cr_assert_eq(fake_counters(&control).pool_allocations + fake_counters(&control).allocations, 0);
}

/* ---- faults on demand ------------------------------------------------------------------------ */

Test(fake_cuda, the_nth_call_fails_and_only_that)
{
    driver_begin();
    CUdeviceptr address, kept = allocate(1);
    control.fail(2, CUDA_ERROR_OUT_OF_MEMORY);
    works(driver.memory_allocate(&address, 1));
    cr_assert_null(control.failed());
    gives(CUDA_ERROR_OUT_OF_MEMORY, driver.memory_allocate(&address, 1));
    cr_assert_str_eq(control.failed(), "cuMemAlloc_v2");
    works(driver.memory_allocate(&address, 1));
    cr_assert_eq(fake_counters(&control).allocations, 3);
    control.fail_named("cuMemFree_v2", 1, CUDA_ERROR_UNKNOWN);
    works(driver.fill_now(kept, 0, 1));
    gives(CUDA_ERROR_UNKNOWN, driver.memory_free(kept));
    cr_assert_eq(fake_counters(&control).allocations, 2, "a release releases all the same");
}

Test(fake_cuda, sticky_results_stick_whoever_made_them)
{
    CUdeviceptr address;
    driver_begin();
    control.fail(1, CUDA_ERROR_LAUNCH_FAILED);
    gives(CUDA_ERROR_LAUNCH_FAILED, driver.memory_allocate(&address, 1));
    gives(CUDA_ERROR_LAUNCH_FAILED, driver.memory_allocate(&address, 1));
    cr_assert_eq(fake_counters(&control).late_calls, 1);
    works(driver.context_release(0));
    works(driver.context_retain(&context, 0));
    works(driver.context_push(context));
    (void)allocate(1);
    control.sticky(CUDA_ERROR_ECC_UNCORRECTABLE);
    gives(CUDA_ERROR_ECC_UNCORRECTABLE, driver.context_synchronize());
}

Test(fake_cuda, faults_come_from_the_environment_too)
{
    CUdeviceptr address;
    cr_assert_eq(setenv("GMV_FAKE_CUDA_FAIL", "2:2:cuMemAlloc_v2", 1), 0);
    cr_assert_eq(setenv("GMV_FAKE_CUDA_HANG", "1", 1), 0);
    driver_begin();
    (void)allocate(1);
    gives(CUDA_ERROR_OUT_OF_MEMORY, driver.memory_allocate(&address, 1));
    CUstream stream = stream_make();
    launch_nothing(stream);
    gives(CUDA_ERROR_NOT_READY, driver.stream_query(stream));
}

/* ---- kernels --------------------------------------------------------------------------------- */

/* 1024 bytes of input, 64 of output, a sum and a number for the host. */
typedef struct bench {
    CUdeviceptr input, output, sums;
    int64_t *number;
    CUstream stream;
} bench;

static bench bench_make(const uint8_t *input, size_t nbytes)
{
    bench made = {allocate(1024), allocate(64), allocate(sizeof(cuda_sum) * GMV_CUDA_SUMS), NULL,
                  stream_make()};
    works(driver.host_allocate((void **)&made.number, 8, CU_MEMHOSTALLOC_DEVICEMAP));
    works(driver.copy_in_now(made.input, input, nbytes));
    works(driver.fill_now(made.sums, 0, sizeof(cuda_sum) * GMV_CUDA_SUMS));
    *made.number = -1;
    return made;
}

static cuda_result bench_result(const bench *made)
{
    return (cuda_result){made->sums, (uintptr_t)made->number};
}

static const uint8_t bench_bytes[16] = {0, 1, 2, 0, 0, 0, 255, 3, 0, 1, 0, 1, 0, 0, 0, 1};

Test(fake_cuda, kernels_are_found_by_name_alone)
{
    CUmodule module;
    CUfunction function;
    driver_begin();
    works(driver.module_load(&module, "anything"));
    gives(CUDA_ERROR_NOT_FOUND, driver.module_function(&function, module, "gmv_no_such_kernel"));
    works(driver.module_function(&function, module, "gmv_find_bit"));
    works(driver.module_unload(module));
    gives(CUDA_ERROR_INVALID_HANDLE, driver.module_function(&function, module, "gmv_find_bit"));
}

Test(fake_cuda, kernels_mean_what_their_names_say)
{
    uint8_t mask[64], bools[16];
    driver_begin();
    bench b = bench_make(bench_bytes, sizeof bench_bytes);
    cuda_valid_args valid = {.input = b.input,
                             .n = 16,
                             .output = b.output,
                             .output_nbytes = 64,
                             .null_count = bench_result(&b)};
    works(launch("gmv_valid_bytes", &valid, 1, b.stream));
    works(driver.copy_out(mask, b.output, 64, b.stream));
    cr_assert(mask[0] == 0xc6 && mask[1] == 0x8a && mask[2] == 0 && mask[63] == 0);
    cr_assert_eq(*b.number, 9);
    cuda_bools_args to_bools = {.bits = {b.output, 1}, .n = 15, .output = b.input + 1};
    works(launch("gmv_bits_to_bools", &to_bools, 1, b.stream));
    works(driver.copy_out(bools, b.input, 16, b.stream));
    for (int i = 1; i < 16; i++)
        cr_assert_eq(bools[i], bench_bytes[i] != 0);
    cuda_scan_args scan = {.bits = {b.output, 3}, .n = 13, .result = bench_result(&b)};
    works(launch("gmv_find_bit", &scan, 1, b.stream));
    works(driver.stream_synchronize(b.stream));
    cr_assert_eq(*b.number, 3);
    works(launch("gmv_count_bits", &scan, 1, b.stream));
    works(driver.stream_synchronize(b.stream));
    cr_assert_eq(*b.number, 5);
    cuda_gather_args gather = {.address = b.input + 15,
                               .output = b.output,
                               .first = 1,
                               .count = 2,
                               .ndim = 1,
                               .shape = {3},
                               .strides = {-4}};
    works(driver.copy_in(b.input, bench_bytes, 16, b.stream));
    works(launch("gmv_gather_1", &gather, 1, b.stream));
    works(driver.copy_out(mask, b.output, 2, b.stream));
    cr_assert(mask[0] == bench_bytes[11] && mask[1] == bench_bytes[7]);
}

enum { FEW_BLOCKS, DIRTY_SUMS, MISALIGNED, SHORT_INPUT };

ParameterizedTestParameters(fake_cuda, kernels_watch_over_their_arguments)
{
    static size_t rows[] = {FEW_BLOCKS, DIRTY_SUMS, MISALIGNED, SHORT_INPUT};
    return cr_make_param_array(size_t, rows, sizeof rows / sizeof rows[0]);
}

ParameterizedTest(size_t *row, fake_cuda, kernels_watch_over_their_arguments)
{
    driver_begin();
    bench b = bench_make(bench_bytes, sizeof bench_bytes);
    cuda_scan_args args = {.bits = {b.input, 0}, .n = 128, .result = bench_result(&b)};
    cuda_valid_args valid = {.input = b.input + 2, .n = 2, .output = b.output, .output_nbytes = 64};
    CUdeviceptr large = allocate(GMV_CUDA_SCAN_TILE + 1);
    if (*row == FEW_BLOCKS)
        args = (cuda_scan_args){{large, 0}, 8 * GMV_CUDA_SCAN_TILE + 8, bench_result(&b)};
    if (*row == DIRTY_SUMS)
        works(driver.fill_now(b.sums + 40, 1, 1));
    if (*row == SHORT_INPUT)
        args.n = 8 * 1024 + 1;
    if (*row == MISALIGNED)
        works(launch("gmv_valid_f4", &valid, 1, b.stream));
    else
        works(launch("gmv_count_bits", &args, 1, b.stream));
    gives(*row == MISALIGNED ? CUDA_ERROR_MISALIGNED_ADDRESS : CUDA_ERROR_ILLEGAL_ADDRESS,
          driver.stream_synchronize(b.stream));
    cr_assert_eq(*b.number, -1);
    cr_assert_eq(fake_counters(&control).violations, 1);
}

/* ---- other processes ------------------------------------------------------------------------- */

/* A process that allocates, exports, and obeys: 'f' frees, 'a' allocates as much again. */
typedef struct exporter {
    pid_t process;
    int commands, answers;
    CUipcMemHandle memory;
    CUipcEventHandle event;
} exporter;

static void exporter_export(CUdeviceptr *out_address, uint8_t value, int answers)
{
    CUipcMemHandle memory;
    *out_address = allocate(1000);
    works(driver.fill_now(*out_address, value, 1000));
    works(driver.ipc_export(&memory, *out_address + 5));
    cr_assert_eq(write(answers, &memory, sizeof memory), sizeof memory);
}

static void exporter_run(int commands, int answers)
{
    CUdeviceptr address;
    CUipcEventHandle handle;
    CUevent event;
    char command;
    driver_begin();
    exporter_export(&address, 42, answers);
    gives(CUDA_ERROR_INVALID_VALUE, driver.event_create(&event, CU_EVENT_INTERPROCESS));
    works(driver.event_create(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
    control.hang(true);
    launch_nothing(NULL);
    works(driver.event_record(event, NULL));
    works(driver.ipc_export_event(&handle, event));
    cr_assert_eq(write(answers, &handle, sizeof handle), sizeof handle);
    while (read(commands, &command, 1) == 1) {
        control.hang(false);
        if (command == 'f')
            works(driver.memory_free(address));
        if (command == 'a') {
            exporter_export(&address, 43, answers);
            continue;
        }
        works(driver.event_synchronize(event));
        cr_assert_eq(write(answers, &command, 1), 1);
    }
}

/* Before this process has called cuInit. */
static exporter exporter_begin(void)
{
    int commands[2], answers[2];
    exporter made = {0};
    cr_assert(pipe(commands) == 0 && pipe(answers) == 0);
    made.process = fork();
    if (made.process == 0) {
        (void)close(commands[1]);
        exporter_run(commands[0], answers[1]);
        _exit(0);
    }
    (void)close(commands[0]);
    (void)close(answers[1]);
    made.commands = commands[1];
    made.answers = answers[0];
    cr_assert_eq(read(made.answers, &made.memory, sizeof made.memory), sizeof made.memory);
    cr_assert_eq(read(made.answers, &made.event, sizeof made.event), sizeof made.event);
    return made;
}

static void exporter_tell(const exporter *other, char command)
{
    char answer = 0;
    cr_assert_eq(write(other->commands, &command, 1), 1);
    cr_assert(read(other->answers, &answer, 1) == 1 && answer == command);
}

static void exporter_kill(const exporter *other)
{
    (void)kill(other->process, SIGKILL);
    cr_assert_eq(waitpid(other->process, NULL, 0), other->process);
}

static CUresult ipc_open(const exporter *other, CUdeviceptr *out_address)
{
    return driver.ipc_open(out_address, other->memory, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
}

static uint8_t byte_at(CUdeviceptr address)
{
    uint8_t byte = 0;
    works(driver.copy_out_now(&byte, address, 1));
    return byte;
}

Test(fake_cuda, a_handle_opens_once_and_counts)
{
    CUdeviceptr address, again, base;
    CUipcMemHandle handle;
    size_t nbytes;
    exporter other = exporter_begin();
    driver_begin();
    works(ipc_open(&other, &address));
    works(ipc_open(&other, &again));
    cr_assert_eq(address, again);
    cr_assert_eq(byte_at(address + 999), 42);
    works(driver.memory_range(&base, &nbytes, address + 1));
    cr_assert(base == address && nbytes == 1000);
    gives(CUDA_ERROR_INVALID_VALUE, driver.memory_free(address));
    gives(CUDA_ERROR_INVALID_VALUE, driver.ipc_export(&handle, address));
    gives(CUDA_ERROR_INVALID_VALUE, driver.ipc_close(address + 256));
    cr_assert(fake_counters(&control).imports == 1 && fake_counters(&control).opens == 2);
    works(driver.ipc_close(address));
    cr_assert_eq(byte_at(address), 42);
    works(driver.ipc_close(address));
    gives(CUDA_ERROR_INVALID_VALUE, driver.ipc_close(address));
    gives(CUDA_ERROR_NOT_FOUND, driver.memory_range(&base, &nbytes, address));
    exporter_kill(&other);
}

Test(fake_cuda, a_bad_handle_does_not_open)
{
    CUdeviceptr address;
    CUipcMemHandle zeros = {{0}}, own;
    CUcontext second;
    exporter other = exporter_begin();
    driver_begin();
    gives(CUDA_ERROR_INVALID_VALUE, driver.ipc_open(&address, zeros, 1));
    gives(CUDA_ERROR_INVALID_VALUE, driver.ipc_open(&address, other.memory, 0));
    gives(CUDA_ERROR_INVALID_VALUE, driver.ipc_open(&address, other.memory, 2));
    works(driver.ipc_export(&own, allocate(10)));
    gives(CUDA_ERROR_INVALID_CONTEXT, driver.ipc_open(&address, own, 1));
    works(ipc_open(&other, &address));
    works(driver.context_create(&second, 0, 0));
    gives(CUDA_ERROR_INVALID_HANDLE, ipc_open(&other, &address));
    cr_assert_eq(fake_counters(&control).violations, 0);
    exporter_kill(&other);
}

Test(fake_cuda, imported_memory_outlives_its_exporters_free)
{
    CUdeviceptr address, again;
    CUipcMemHandle stale, fresh;
    exporter other = exporter_begin();
    driver_begin();
    works(ipc_open(&other, &address));
    exporter_tell(&other, 'f');
    cr_assert_eq(byte_at(address), 42);
    works(ipc_open(&other, &again)); /* it is still open here */
    cr_assert_eq(address, again);
    works(driver.ipc_close(address));
    works(driver.ipc_close(address));
    gives(CUDA_ERROR_INVALID_VALUE, ipc_open(&other, &address));
    stale = other.memory;
    cr_assert_eq(write(other.commands, "a", 1), 1);
    cr_assert_eq(read(other.answers, &fresh, sizeof fresh), sizeof fresh);
    cr_assert_neq(memcmp(&stale, &fresh, sizeof fresh), 0);
    works(driver.ipc_open(&address, stale, 1)); /* and sees the new allocation */
    cr_assert_eq(byte_at(address), 43);
    exporter_kill(&other);
}

Test(fake_cuda, imported_memory_outlives_its_exporter)
{
    CUdeviceptr address, again;
    exporter other = exporter_begin();
    driver_begin();
    works(ipc_open(&other, &address));
    exporter_kill(&other);
    cr_assert_eq(byte_at(address), 42);
    works(driver.fill_now(address, 1, 1000));
    works(driver.ipc_close(address));
    gives(CUDA_ERROR_INVALID_HANDLE, ipc_open(&other, &again));
}

Test(fake_cuda, events_of_other_processes_are_waited_for)
{
    CUevent event, dead;
    uint8_t byte = 0;
    CUipcEventHandle zeros = {{0}};
    exporter other = exporter_begin();
    driver_begin();
    gives(CUDA_ERROR_INVALID_VALUE, driver.ipc_open_event(&event, zeros));
    works(driver.ipc_open_event(&event, other.event));
    gives(CUDA_ERROR_NOT_READY, driver.event_query(event));
    CUdeviceptr address = allocate(1);
    CUstream stream = stream_make();
    works(driver.stream_wait_event(stream, event, 0));
    works(driver.event_destroy(event)); /* what waits for it goes on waiting */
    works(driver.fill(address, 7, 1, stream));
    gives(CUDA_ERROR_NOT_READY, driver.stream_query(stream));
    exporter_tell(&other, 'e');
    works(driver.stream_synchronize(stream));
    works(driver.copy_out_now(&byte, address, 1));
    cr_assert_eq(byte, 7);
    exporter_kill(&other);
    works(driver.ipc_open_event(&dead, other.event));
    works(driver.event_query(dead));
}
