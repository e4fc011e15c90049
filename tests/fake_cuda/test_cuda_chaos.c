/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA backend with its first, second, third, ... driver call failing, until none is left to
 * fail: every call of the device either succeeds or says what went wrong, nothing stays behind in
 * the driver or in the host's memory, and the device is lost after sticky results and no others.
 *
 * A plain program that prints TAP. Each scenario runs in a process of its own, over the fake
 * driver.
 */
#include <cuda.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gmv/base/alloc.h>
#include <gmv/device/kernels.h>
#include <gmv/device/split.h>

#include "fake_cuda/fake_calls.h"
#include "fake_cuda/fake_support.h"

#define N_MAX        500 /* more driver calls than that in one scenario: it does not end */
#define LARGE_NBYTES ((uint64_t)9 << 20)
#define SMALL_NBYTES 4096

static fake_control control;

/* What a scenario works on; made before anything fails. */
static struct {
    gmv_device *device;
    gmv_stream *stream;
    gmv_memory *input, *output;
    uint8_t *host; /* LARGE_NBYTES */
    gmv_error err;
    uint8_t memory_handle[GMV_IPC_HANDLE_NBYTES];
    uint8_t event_handle[GMV_IPC_HANDLE_NBYTES];
} world;

static _Noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));

static _Noreturn void die(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    (void)printf("# ");
    (void)vprintf(format, list);
    (void)printf("\n");
    va_end(list);
    (void)fflush(stdout);
    _exit(1);
}

#define must(call)                                   \
    do {                                             \
        gmv_error_init(&world.err);                  \
        if ((call) != GMV_OK)                        \
            die("%s: %s", #call, world.err.message); \
    } while (0)

/* ---- another process that shares ------------------------------------------------------------- */

#define SYMBOL(library, member, symbol)                  \
    do {                                                 \
        if (!fake_fetch((library), (symbol), &(member))) \
            die("%s is missing", (symbol));              \
    } while (0)

#define MEMBER(member, symbol, parameters) CUresult(CUDAAPI *member) parameters;
typedef struct fake_driver {
    CUDA_DRIVER_MAP(MEMBER)
    FAKE_EXTRA_MAP(MEMBER)
} fake_driver;
#undef MEMBER

static void exporter_run(void *library, int out)
{
    fake_driver driver;
    CUcontext context;
    CUdeviceptr address;
    CUipcMemHandle memory;
    CUipcEventHandle event_handle;
    CUevent event;
#define FETCH(member, symbol, parameters) SYMBOL(library, driver.member, symbol);
    CUDA_DRIVER_MAP(FETCH)
    FAKE_EXTRA_MAP(FETCH)
#undef FETCH
    bool done = driver.init(0) == CUDA_SUCCESS &&
                driver.context_retain(&context, 0) == CUDA_SUCCESS &&
                driver.context_push(context) == CUDA_SUCCESS &&
                driver.memory_allocate(&address, SMALL_NBYTES) == CUDA_SUCCESS &&
                driver.ipc_export(&memory, address) == CUDA_SUCCESS &&
                driver.event_create(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING) ==
                    CUDA_SUCCESS &&
                driver.event_record(event, NULL) == CUDA_SUCCESS &&
                driver.ipc_export_event(&event_handle, event) == CUDA_SUCCESS;
    if (!done || write(out, &memory, sizeof memory) != sizeof memory ||
        write(out, &event_handle, sizeof event_handle) != sizeof event_handle)
        _exit(1);
    for (;;)
        (void)pause();
}

static pid_t exporter_begin(void *library)
{
    int pipes[2];
    if (pipe(pipes) != 0)
        die("no pipe");
    pid_t process = fork();
    if (process == 0)
        exporter_run(library, pipes[1]);
    (void)close(pipes[1]);
    if (read(pipes[0], world.memory_handle, sizeof world.memory_handle) !=
            sizeof world.memory_handle ||
        read(pipes[0], world.event_handle, sizeof world.event_handle) != sizeof world.event_handle)
        die("the exporter does not export");
    (void)close(pipes[0]);
    return process;
}

/* ---- the world ------------------------------------------------------------------------------- */

static void world_open(void)
{
    must(gmv_device_open_cuda(NULL, &world.device, &world.err));
    must(gmv_stream_create(world.device, &world.stream, &world.err));
    must(gmv_memory_allocate(world.device, world.stream, GMV_MEMORY_ORDINARY, GMV_CONTENTS_ZEROED,
                             LARGE_NBYTES, &world.input, &world.err));
    must(gmv_memory_allocate(world.device, world.stream, GMV_MEMORY_EXPORTABLE, GMV_CONTENTS_ZEROED,
                             LARGE_NBYTES, &world.output, &world.err));
    must(gmv_stream_finish(world.stream, &world.err));
    world.host = gmv_calloc(1, LARGE_NBYTES);
    if (!world.host)
        die("no memory");
}

/* Afterwards nothing is left, but for what only the driver of a lost device could free. */
static void world_close(bool lost)
{
    gmv_memory_free(world.input);
    gmv_memory_free(world.output);
    gmv_stream_destroy(world.stream);
    gmv_device_close(world.device);
    gmv_free(world.host);
    if (gmv_alloc_live() != 0)
        die("%lld blocks of host memory are left", (long long)gmv_alloc_live());
    fake_cuda_counters left = fake_counters(&control);
    if (!lost && (left.contexts || left.modules || left.streams || left.events || left.pools ||
                  left.allocations || left.pool_allocations || left.host_allocations ||
                  left.imports || left.used_nbytes))
        die("something is left in the driver after all is closed");
}

/* ---- scenarios ------------------------------------------------------------------------------- */

/* How an operation ends: whatever failed, its work is waited for. */
static gmv_status conclude(gmv_status status)
{
    if (status == GMV_OK)
        return gmv_stream_finish(world.stream, &world.err);
    gmv_stream_abandon(world.stream);
    return status;
}

static gmv_status run_open(void)
{
    gmv_device *device = NULL;
    GMV_TRY(gmv_device_open_cuda(NULL, &device, &world.err));
    gmv_device_close(device);
    return GMV_OK;
}

static gmv_status run_stream(void)
{
    gmv_stream *stream = NULL;
    GMV_TRY(gmv_stream_create_with_priority(world.device, GMV_STREAM_PRIORITY_HIGHEST, &stream,
                                            &world.err));
    gmv_stream_destroy(stream);
    return GMV_OK;
}

static gmv_status run_allocate(gmv_memory_kind kind, gmv_contents contents)
{
    gmv_memory *memory = NULL;
    gmv_status status = conclude(
        gmv_memory_allocate(world.device, world.stream, kind, contents, 1000, &memory, &world.err));
    gmv_memory_free(memory);
    return status;
}

static gmv_status run_allocate_exportable(void)
{
    return run_allocate(GMV_MEMORY_EXPORTABLE, GMV_CONTENTS_UNSPECIFIED);
}

static gmv_status run_allocate_ordinary(void)
{
    const gmv_status status = run_allocate(GMV_MEMORY_ORDINARY, GMV_CONTENTS_ZEROED);
    gmv_device_trim(world.device); /* what was freed is kept until then */
    return status;
}

static gmv_status run_trim(void)
{
    gmv_device_trim(world.device);
    return GMV_OK;
}

static gmv_status run_copies(uint64_t nbytes)
{
    GMV_TRY(
        conclude(gmv_copy_in(world.stream, world.input->address, world.host, nbytes, &world.err)));
    GMV_TRY(conclude(gmv_copy_within(world.stream, world.output->address, world.input->address,
                                     nbytes, &world.err)));
    return conclude(
        gmv_copy_out(world.stream, world.host, world.output->address, nbytes, &world.err));
}

static gmv_status run_small_copies(void)
{
    return run_copies(SMALL_NBYTES);
}

static gmv_status run_large_copies(void)
{
    return run_copies(LARGE_NBYTES);
}

static gmv_status run_fill(void)
{
    return conclude(gmv_fill(world.stream, world.input->address, 7, SMALL_NBYTES, &world.err));
}

static gmv_status run_valid_if(void)
{
    int64_t null_count;
    return conclude(gmv_kernel_valid_if(world.stream,
                                        &(gmv_valid_if){.predicate = GMV_PREDICATE_NOT_NAN_F4,
                                                        .input = world.input->address,
                                                        .validity = {world.input->address + 64, 3},
                                                        .n = 1000,
                                                        .output = world.output->address,
                                                        .output_nbytes = 128,
                                                        .out_null_count = &null_count},
                                        &world.err));
}

static gmv_status run_bits_to_bools(void)
{
    return conclude(gmv_kernel_bits_to_bools(world.stream,
                                             &(gmv_bits_to_bools){.bits = {world.input->address, 5},
                                                                  .n = 999,
                                                                  .output = world.output->address},
                                             &world.err));
}

/* More inputs than one launch takes. */
static gmv_status run_combine(void)
{
    gmv_bits inputs[20];
    int64_t set_count;
    for (int i = 0; i < 20; i++)
        inputs[i] = (gmv_bits){world.input->address, i};
    return conclude(gmv_kernel_combine_bits(world.stream,
                                            &(gmv_combine_bits){.operation = GMV_BITS_OR,
                                                                .inputs = inputs,
                                                                .n_inputs = 20,
                                                                .n = 1000,
                                                                .output = world.output->address,
                                                                .output_nbytes = 128,
                                                                .out_set_count = &set_count},
                                            &world.err));
}

static gmv_status run_set_bits(void)
{
    return conclude(gmv_kernel_set_bits(
        world.stream, &(gmv_set_bits){world.input->address, {3, 99}, true}, &world.err));
}

static gmv_status run_counts(void)
{
    const gmv_bit_range ranges[] = {{0, 8}, {3, 99}};
    int64_t counts[2], index;
    const gmv_count_bits one = {world.input->address, ranges, 1, counts};
    const gmv_count_bits both = {world.input->address, ranges, 2, counts};
    GMV_TRY(conclude(gmv_kernel_count_bits(world.stream, &one, &world.err)));
    GMV_TRY(conclude(gmv_kernel_count_bits(world.stream, &both, &world.err)));
    return conclude(gmv_kernel_find_bit(
        world.stream, &(gmv_find_bit){world.input->address, {3, 99}, &index}, &world.err));
}

static gmv_status run_indices(void)
{
    int64_t index;
    GMV_TRY(conclude(gmv_kernel_sequence(
        world.stream, &(gmv_sequence){.output = world.output->address, .n = 100, .step = 3},
        &world.err)));
    return conclude(gmv_kernel_check_indices(world.stream,
                                             &(gmv_check_indices){.address = world.output->address,
                                                                  .itemsize = 4,
                                                                  .in_order = true,
                                                                  .n = 100,
                                                                  .limit = 1000,
                                                                  .out_index = &index},
                                             &world.err));
}

static gmv_status run_gather(void)
{
    gmv_layout layout = gmv_layout_flat(100);
    layout.has_strides = true;
    layout.strides[0] = -12;
    return conclude(gmv_kernel_gather(world.stream,
                                      &(gmv_gather){.address = world.input->address + 4096,
                                                    .layout = &layout,
                                                    .itemsize = 4,
                                                    .first = 1,
                                                    .count = 99,
                                                    .output = world.output->address},
                                      &world.err));
}

static gmv_status run_pieces(void)
{
    int64_t set_count;
    const gmv_copy_piece pieces[] = {
        {.source = world.input->address,
         .nbytes = 100,
         .destination = world.output->address,
         .capacity = 128},
        {.is_bits = true,
         .bits = {world.input->address, 3},
         .n = 1000,
         .destination = world.output->address + 128,
         .capacity = 128,
         .out_set_count = &set_count},
    };
    return conclude(gmv_kernel_copy_pieces(world.stream, pieces, 2, &world.err));
}

/* A list of integers with a mask: its offsets, the elements' mask and the elements. */
static gmv_status run_split(void)
{
    const gmv_split_level levels[] = {
        {.limit = 100},
        {.offsets = world.input->address, .limit = 500, .offset_width = 4},
    };
    const gmv_split_buffer buffers[] = {
        {.address = world.input->address, .kind = GMV_SPLIT_OFFSETS, .width = 4, .below = 1},
        {.address = world.input->address, .first = 3, .kind = GMV_SPLIT_BITS, .level = 1},
        {.address = world.input->address, .kind = GMV_SPLIT_BYTES, .level = 1, .width = 4},
    };
    const gmv_split_class classes[] = {
        {GMV_SPLIT_OFFSETS, 0, 4, 1}, {GMV_SPLIT_BITS, 1, 0, 1}, {GMV_SPLIT_BYTES, 1, 4, 1}};
    const uint64_t destinations[] = {world.output->address, world.output->address + 16384};
    int64_t bounds[6] = {0, 50, 100};
    GMV_TRY(conclude(gmv_kernel_split_bounds(
        world.stream,
        &(gmv_split_bounds){.levels = levels, .n_levels = 2, .n_points = 3, .bounds = bounds},
        &world.err)));
    for (int k = 0; k < 3; k++)
        bounds[3 + k] = 200 * k; /* whatever was there */
    return conclude(gmv_kernel_split(world.stream,
                                     &(gmv_split){.buffers = buffers,
                                                  .n_buffers = 3,
                                                  .classes = classes,
                                                  .n_classes = 3,
                                                  .bounds = bounds,
                                                  .n_levels = 2,
                                                  .n_points = 3,
                                                  .destinations = destinations,
                                                  .n = 2,
                                                  .set_counts = world.output->address + 32768,
                                                  .n_masks = 1},
                                     &world.err));
}

static gmv_status run_export(void)
{
    gmv_memory *memory = NULL;
    gmv_share share;
    gmv_status status =
        conclude(gmv_memory_allocate(world.device, world.stream, GMV_MEMORY_EXPORTABLE,
                                     GMV_CONTENTS_ZEROED, 1000, &memory, &world.err));
    if (status == GMV_OK)
        status = gmv_memory_export(memory, &share, &world.err);
    gmv_memory_free(memory);
    return status;
}

static gmv_status run_import(void)
{
    gmv_memory *first = NULL, *second = NULL;
    GMV_TRY(gmv_memory_import_ipc(world.device, world.memory_handle, -1, true, &first, &world.err));
    gmv_status status =
        gmv_memory_import_ipc(world.device, world.memory_handle, 100, false, &second, &world.err);
    if (status == GMV_OK)
        status = conclude(gmv_copy_within(world.stream, world.output->address, first->address,
                                          SMALL_NBYTES, &world.err));
    gmv_memory_free(first);
    gmv_memory_free(second);
    return status;
}

static gmv_status run_import_too_much(void)
{
    gmv_memory *memory = NULL;
    gmv_status status = gmv_memory_import_ipc(world.device, world.memory_handle, SMALL_NBYTES + 1,
                                              true, &memory, &world.err);
    return status == GMV_ERR_OUT_OF_BOUNDS ? GMV_OK : status;
}

static gmv_status run_wait_for_event(void)
{
    return conclude(gmv_stream_wait_event(world.stream, world.event_handle, &world.err));
}

static const struct scenario {
    const char *name;
    gmv_status (*run)(void);
    uint64_t least; /* driver calls that it makes */
} scenarios[] = {
    {"open and close", run_open, 30},
    {"a stream", run_stream, 12},
    {"exportable memory", run_allocate_exportable, 5},
    {"ordinary memory", run_allocate_ordinary, 5},
    {"trimming", run_trim, 4},
    {"small copies", run_small_copies, 9},
    {"large copies", run_large_copies, 20},
    {"fill", run_fill, 3},
    {"valid_if", run_valid_if, 3},
    {"bits_to_bools", run_bits_to_bools, 3},
    {"combine_bits", run_combine, 4},
    {"set_bits", run_set_bits, 4},
    {"counting and finding", run_counts, 11},
    {"indices", run_indices, 3},
    {"gather", run_gather, 3},
    {"copy_pieces", run_pieces, 5},
    {"partitions", run_split, 12},
    {"export", run_export, 6},
    {"import", run_import, 6},
    {"import of too much", run_import_too_much, 3},
    {"waiting for an event", run_wait_for_event, 3},
};

/* ---- faults ---------------------------------------------------------------------------------- */

static const struct fault {
    const char *name;
    int result;
    bool sticky;
} faults[] = {
    {"CUDA_ERROR_OUT_OF_MEMORY", CUDA_ERROR_OUT_OF_MEMORY, false},
    {"CUDA_ERROR_INVALID_VALUE", CUDA_ERROR_INVALID_VALUE, false},
    {"CUDA_ERROR_UNKNOWN", CUDA_ERROR_UNKNOWN, false},
    {"CUDA_ERROR_LAUNCH_FAILED", CUDA_ERROR_LAUNCH_FAILED, true},
    {"CUDA_ERROR_ECC_UNCORRECTABLE", CUDA_ERROR_ECC_UNCORRECTABLE, true},
};

/* Calls whose failure a caller need not hear of: releases, and figures for estimates. */
static bool call_may_fail(const char *symbol)
{
    static const char *const symbols[] = {
        "cuMemFree_v2",        "cuMemFreeAsync",     "cuMemFreeHost",
        "cuIpcCloseMemHandle", "cuStreamDestroy_v2", "cuEventDestroy_v2",
        "cuModuleUnload",      "cuMemPoolDestroy",   "cuDevicePrimaryCtxRelease_v2",
        "cuCtxPopCurrent_v2",  "cuMemGetInfo_v2",    "cuMemPoolGetAttribute",
        "cuMemPoolTrimTo",
    };
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++)
        if (strcmp(symbols[i], symbol) == 0)
            return true;
    return false;
}

/* Calls that ask no context, so that what they give does not stick. */
static bool is_outside_contexts(const char *symbol)
{
    return strncmp(symbol, "cuDevice", 8) == 0 || strncmp(symbol, "cuMemPool", 9) == 0;
}

static void expect_same(const fake_cuda_counters *a, const fake_cuda_counters *b, const char *what)
{
#define SAME(member)                                                                             \
    do {                                                                                         \
        if (a->member != b->member)                                                              \
            die("%s: %s: %llu before, %llu after", what, #member, (unsigned long long)a->member, \
                (unsigned long long)b->member);                                                  \
    } while (0)
    SAME(contexts);
    SAME(modules);
    SAME(streams);
    SAME(events);
    SAME(pools);
    SAME(allocations);
    SAME(pool_allocations);
    SAME(host_allocations);
    SAME(imports);
    SAME(opens);
    SAME(violations);
#undef SAME
}

/* Opening warms the pool, which a full device need not do; who destroys a stream waits for it. */
static bool call_is_optional(const struct scenario *scenario, const struct fault *fault,
                             const char *symbol)
{
    return call_may_fail(symbol) ||
           (scenario->run == run_open && fault->result == CUDA_ERROR_OUT_OF_MEMORY &&
            strcmp(symbol, "cuMemAllocFromPoolAsync") == 0) ||
           (scenario->run == run_stream && strncmp(symbol, "cuEvent", 7) == 0);
}

/* One try; the symbol of the call that failed, NULL if none did. */
static const char *try_once(const struct scenario *scenario, const struct fault *fault, uint64_t n)
{
    char what[160];
    gmv_error_init(&world.err);
    control.fail(n, fault->result);
    gmv_status status = scenario->run();
    const char *failed = control.failed();
    control.fail(0, 0);
    (void)snprintf(what, sizeof what, "call %llu, %s, gives %s", (unsigned long long)n,
                   failed ? failed : "none", fault->name);
    if (!failed && status != GMV_OK)
        die("%s, and it fails by itself: %s", what, world.err.message);
    if (status != GMV_OK && (world.err.status != status || !world.err.message[0]))
        die("%s: the error says nothing", what);
    if (failed && status == GMV_OK && !call_is_optional(scenario, fault, failed))
        die("%s, and nobody says so", what);
    bool lost = gmv_device_is_lost(world.device, NULL);
    if (lost && !fault->sticky)
        die("%s, and the device is lost", what);
    if (failed && status == GMV_ERR_DEVICE_LOST && !lost && scenario->run != run_open)
        die("%s: a device that is not lost is said to be", what);
    return failed;
}

/* On one device, call after call; whatever failed, the next try works on what is there. */
static void run_passing(const struct scenario *scenario, const struct fault *fault)
{
    uint64_t n = 0;
    const char *failed;
    world_open();
    if (scenario->run() != GMV_OK)
        die("fails by itself: %s", world.err.message);
    fake_cuda_counters before = fake_counters(&control);
    int64_t blocks = gmv_alloc_live();
    while ((failed = try_once(scenario, fault, ++n))) {
        char what[128];
        fake_cuda_counters after = fake_counters(&control);
        (void)snprintf(what, sizeof what, "call %llu, %s", (unsigned long long)n, failed);
        expect_same(&before, &after, what);
        if (gmv_alloc_live() != blocks)
            die("%s: %lld blocks of host memory before, %lld after", what, (long long)blocks,
                (long long)gmv_alloc_live());
        if (n == N_MAX)
            die("it does not end");
    }
    if (n - 1 < scenario->least)
        die("only %llu driver calls", (unsigned long long)n - 1);
    world_close(false);
}

/* On a device of its own, which is lost; true if there was a call to fail. */
static bool run_sticky_once(const struct scenario *scenario, const struct fault *fault, uint64_t n)
{
    gmv_memory *memory = NULL;
    world_open();
    const char *failed = try_once(scenario, fault, n);
    if (!failed) {
        world_close(false);
        return false;
    }
    /* Who releases does not listen: the next call hears of it, and that may be a release, too. */
    uint64_t late = fake_counters(&control).late_calls;
    if (!call_may_fail(failed) && late > 0)
        die("call %llu, %s: %llu calls on a lost device", (unsigned long long)n, failed,
            (unsigned long long)late);
    if (!is_outside_contexts(failed) &&
        gmv_memory_allocate(world.device, world.stream, GMV_MEMORY_ORDINARY, GMV_CONTENTS_ZEROED, 1,
                            &memory, &world.err) != GMV_ERR_DEVICE_LOST)
        die("call %llu, %s: the device is not lost", (unsigned long long)n, failed);
    gmv_memory_free(memory);
    /* What a device that was opened beside this one has kept is in the same context. */
    world_close(scenario->run == run_open || gmv_device_is_lost(world.device, NULL));
    return true;
}

static void run_sticky(const struct scenario *scenario, const struct fault *fault)
{
    for (uint64_t n = 1; n <= N_MAX; n++) {
        (void)fflush(stdout);
        pid_t process = fork();
        int status = 0;
        if (process == 0)
            _exit(run_sticky_once(scenario, fault, n) ? 0 : 2);
        if (waitpid(process, &status, 0) != process || !WIFEXITED(status))
            die("call %llu: the process died (%d)", (unsigned long long)n, status);
        if (WEXITSTATUS(status) == 2 && n > scenario->least)
            return;
        if (WEXITSTATUS(status) != 0)
            die("call %llu: failed", (unsigned long long)n);
    }
    die("it does not end");
}

static bool run_in_process(const struct scenario *scenario, const struct fault *fault)
{
    int status = 0;
    (void)fflush(stdout);
    pid_t process = fork();
    if (process == 0) {
        gmv_alloc_watch(1);
        if (fault->sticky)
            run_sticky(scenario, fault);
        else
            run_passing(scenario, fault);
        _exit(0);
    }
    if (waitpid(process, &status, 0) != process || !WIFEXITED(status))
        (void)printf("# the process died (%d)\n", status);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int main(void)
{
    size_t n_scenarios = sizeof scenarios / sizeof scenarios[0];
    size_t n_faults = sizeof faults / sizeof faults[0];
    int number = 0, failures = 0;
    void *library = fake_load(&control);
    (void)unsetenv("GMV_FAKE_CUDA_ASYNC"); /* the calls of a try must always be the same */
    if (!library) {
        (void)printf("Bail out! the fake driver cannot be loaded\n");
        return 1;
    }
    pid_t exporter = exporter_begin(library);
    (void)printf("1..%zu\n", n_scenarios * n_faults);
    for (size_t i = 0; i < n_scenarios; i++) {
        for (size_t j = 0; j < n_faults; j++) {
            bool passed = run_in_process(&scenarios[i], &faults[j]);
            failures += !passed;
            (void)printf("%sok %d - %s: any driver call may give %s\n", passed ? "" : "not ",
                         ++number, scenarios[i].name, faults[j].name);
        }
    }
    (void)kill(exporter, SIGKILL);
    (void)waitpid(exporter, NULL, 0);
    return failures ? 1 : 0;
}
