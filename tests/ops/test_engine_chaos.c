/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every op with its first, second, third, ... allocation failing, then its first, second, ...
 * device call, until it succeeds: what fails must leave handles, memory and quota as they were. On
 * a CUDA device over the stand-in for the driver its calls fail one after the other, too.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <criterion/criterion.h>
#include <criterion/parameterized.h>

#include <gmv/base/alloc.h>
#include <gmv/ops/inspect.h>
#include <gmv/ops/mask.h>

#include "fake_cuda/fake_support.h"
#include "ops/fixture.h"

#define BASE     ((uint64_t)0x302000000)
#define N_MAX    400 /* more failures than that in one op: it does not end */
#define ROWS     1000
#define SEGMENT  "/gmv-test-chaos"
#define VALUES_N (ROWS * sizeof(float))

static fixture f;
static fake_control driver;
static bool driver_is_fake;

/* What the scenarios work on; made before anything fails. */
static struct {
    gmv_buffer *buffer;   /* ordinary memory, reached at BASE, too */
    gmv_buffer *exported; /* shared as it is */
    gmv_view *bytes, *floats, *strided, *masked, *bits;
    gmv_column *column, *other;
    char segment[64];
} world;

static gmv_cai cai_of(gmv_dtype dtype, uint64_t address, int64_t n, int64_t stride)
{
    gmv_cai cai = {.address = (int64_t)address, .dtype = dtype, .version = 3};
    cai.layout = gmv_layout_flat(n);
    cai.layout.has_strides = stride != 0;
    cai.layout.strides[0] = stride;
    return cai;
}

static gmv_status create(gmv_cai cai, const gmv_cai *mask, gmv_view **out_view)
{
    gmv_view_request request = {.cai = &cai, .mask = mask, .buffer = world.buffer};
    return gmv_view_create(&f.operation, &request, NULL, out_view, &f.err);
}

static gmv_column *make_column(void)
{
    gmv_column *column = NULL;
    gmv_column_request request = {.type = {.id = GMV_CUDF_FLOAT32},
                                  .size = ROWS - 3,
                                  .offset = 3,
                                  .data = world.floats,
                                  .null_mask = world.bits};
    cr_assert_eq(gmv_column_create(&f.operation, &request, NULL, &column, &f.err), GMV_OK, "%s",
                 f.err.message);
    return column;
}

static void make_segment(void)
{
    snprintf(world.segment, sizeof world.segment, SEGMENT "-%ld", (long)getpid());
    int descriptor = shm_open(world.segment, O_CREAT | O_EXCL | O_RDWR, 0600);
    cr_assert_geq(descriptor, 0);
    cr_assert_eq(ftruncate(descriptor, 8192), 0);
    close(descriptor);
}

static void open_world(void)
{
    fixture_open(&f);
    driver_is_fake = fake_attach(&driver);
    world.buffer = fixture_exported_buffer(&f, BASE, 4 * VALUES_N);
    cr_assert_eq(gmv_buffer_allocate(&f.operation, 0, 128, false, NULL, &world.exported, &f.err),
                 GMV_OK);
    world.bytes = fixture_view(&f, &world.buffer->node, GMV_DTYPE_U1, ROWS, 0);
    world.floats = fixture_view(&f, &world.buffer->node, GMV_DTYPE_F4, ROWS, 0);
    world.bits = fixture_view(&f, &world.buffer->node, GMV_DTYPE_U1, 128, 0);
    gmv_cai mask = cai_of(GMV_DTYPE_B1, BASE + 64, ROWS, 2);
    cr_assert_eq(create(cai_of(GMV_DTYPE_F4, BASE, ROWS, 8), NULL, &world.strided), GMV_OK);
    cr_assert_eq(create(cai_of(GMV_DTYPE_F4, BASE, ROWS, 8), &mask, &world.masked), GMV_OK);
    world.column = make_column();
    world.other = make_column();
    /* A skipped test is left before its clean-up, and on other devices what needs this is skipped.
     */
    if (fixture_is_host(&f))
        make_segment();
}

static void close_world(void)
{
    if (world.segment[0])
        shm_unlink(world.segment);
    fixture_close(&f);
}

/* ---- scenarios ------------------------------------------------------------------------------- */

static gmv_status run_allocate(void)
{
    gmv_creation creation = {.label = "label", .label_length = 5};
    gmv_buffer *made = NULL;
    return gmv_buffer_allocate(&f.operation, 0, 1000, false, &creation, &made, &f.err);
}

static gmv_status run_upload(void)
{
    static unsigned char bytes[70000];
    gmv_upload *upload = NULL;
    gmv_buffer *made = NULL;
    GMV_TRY(gmv_upload_begin(&f.operation, 0, -1, &upload, &f.err));
    gmv_status status = gmv_upload_append(&f.operation, upload, bytes, 40000, &f.err);
    if (status == GMV_OK)
        status = gmv_upload_append(&f.operation, upload, bytes, sizeof bytes, &f.err);
    if (status == GMV_OK)
        status = gmv_upload_finish(&f.operation, upload, false, NULL, &made, &f.err);
    if (status != GMV_OK)
        gmv_upload_abort(upload);
    return status;
}

static gmv_status run_upload_of_known_size(void)
{
    gmv_upload *upload = NULL;
    gmv_buffer *made = NULL;
    GMV_TRY(gmv_upload_begin(&f.operation, 0, 100, &upload, &f.err));
    gmv_status status = gmv_upload_append(&f.operation, upload, "0123456789", 10, &f.err);
    if (status == GMV_OK)
        status = gmv_upload_finish(&f.operation, upload, true, NULL, &made, &f.err);
    if (status != GMV_OK)
        gmv_upload_abort(upload);
    return status;
}

static gmv_status run_import(void)
{
    gmv_import_shm request = {.name = world.segment, .has_base = true, .base = 4096};
    gmv_buffer *made = NULL;
    return gmv_buffer_import_shm(&f.operation, &request, NULL, &made, &f.err);
}

static gmv_status run_export_clone(void)
{
    gmv_buffer *made = NULL;
    gmv_share share;
    bool cloned;
    return gmv_buffer_export(&f.operation, world.buffer, NULL, &made, &cloned, &share, &f.err);
}

static gmv_status run_write(void)
{
    return gmv_buffer_write(&f.operation, world.buffer, 4, "abcd", 4, &f.err);
}

static gmv_status run_view(void)
{
    gmv_view *made = NULL;
    return create(cai_of(GMV_DTYPE_I4, BASE + 8, 7, 0), NULL, &made);
}

static gmv_status run_view_with_mask(void)
{
    gmv_cai cai = cai_of(GMV_DTYPE_I4, BASE + 8, 7, 0);
    gmv_cai mask = cai_of(GMV_DTYPE_B1, BASE + 64, 7, 0);
    gmv_view *made = NULL;
    char *payload = gmv_strndup("{}", 2);
    if (!payload)
        return gmv_fail_no_memory(&f.err);
    gmv_view_request request = {.cai = &cai, .mask = &mask, .payload = payload}; /* looked up */
    gmv_status status = gmv_view_create(&f.operation, &request, NULL, &made, &f.err);
    if (status != GMV_OK)
        gmv_free(request.payload);
    return status;
}

static gmv_status run_typed_view(void)
{
    gmv_typed_view_request request = {.dtype = GMV_DTYPE_F8, .layout = gmv_layout_flat(3)};
    gmv_view *made = NULL;
    return gmv_view_create_typed(&f.operation, &world.bytes->node, &request, NULL, &made, &f.err);
}

static gmv_status run_slice(void)
{
    gmv_slice slice = {.has_start = true, .start = 3};
    gmv_view *made = NULL;
    return gmv_view_byte_slice(&f.operation, world.floats, &slice, NULL, &made, &f.err);
}

static gmv_status run_copy(void)
{
    gmv_view *made = NULL;
    return gmv_view_copy(&f.operation, world.masked, true, NULL, &made, &f.err);
}

static gmv_status run_bytes(void)
{
    gmv_bytes bytes;
    GMV_TRY(gmv_view_bytes(&f.operation, world.strided, &bytes, &f.err));
    GMV_TRY(gmv_bytes_freeze(&f.operation, &bytes, &f.err));
    gmv_bytes_release(&bytes);
    return GMV_OK;
}

static gmv_status run_elements(void)
{
    float values[10];
    return gmv_view_read_elements(&f.operation, world.strided, 5, 10, values, &f.err);
}

static gmv_status run_nans_to_nulls(void)
{
    gmv_mask_result result;
    return gmv_nans_to_nulls(&f.operation, &world.masked->node, NULL, &result, &f.err);
}

static gmv_status run_nans_to_nulls_of_column(void)
{
    gmv_creation creation = {.exportable = true};
    gmv_mask_result result;
    return gmv_nans_to_nulls(&f.operation, &world.column->node, &creation, &result, &f.err);
}

static gmv_status run_column_nans_to_nulls(void)
{
    gmv_column *made = NULL;
    return gmv_column_nans_to_nulls(&f.operation, &world.masked->node, NULL, &made, &f.err);
}

static gmv_status run_mask_to_bools(void)
{
    gmv_column *made = NULL;
    return gmv_mask_to_bools(&f.operation, world.bits, (gmv_bit_range){3, 99}, NULL, &made, &f.err);
}

static gmv_status run_create_null_mask(void)
{
    gmv_view *made = NULL;
    return gmv_create_null_mask(&f.operation, 0, 100, GMV_MASK_ALL_VALID, NULL, &made, &f.err);
}

static gmv_status run_no_mask(void)
{
    gmv_view *made = NULL;
    return gmv_copy_bitmask(&f.operation, NULL, (gmv_bit_range){3, 99}, NULL, &made, &f.err);
}

static gmv_status run_copy_bitmask(void)
{
    gmv_view *made = NULL;
    return gmv_copy_bitmask(&f.operation, world.bits, (gmv_bit_range){3, 99}, NULL, &made, &f.err);
}

static gmv_status run_combine(void)
{
    gmv_column *columns[] = {world.column, world.other};
    gmv_mask_result result;
    return gmv_combine_bitmasks(&f.operation, GMV_BITS_OR, columns, 2, NULL, &result, &f.err);
}

static gmv_status run_counts(void)
{
    gmv_bit_range ranges[] = {{0, 8}, {3, 99}};
    int64_t counts[2];
    GMV_TRY(gmv_segmented_null_count(&f.operation, world.bits, ranges, 2, counts, &f.err));
    return gmv_index_of_first_set_bit(&f.operation, world.bits, ranges[1], counts, &f.err);
}

static gmv_status run_set_null_mask(void)
{
    return gmv_set_null_mask(&f.operation, world.bits, (gmv_bit_range){3, 99}, true, &f.err);
}

/* Deleting cannot fail, whatever the allocator and the device do meanwhile. */
static gmv_status run_delete(void)
{
    gmv_view *made = NULL;
    gmv_slice slice = {0};
    GMV_TRY(gmv_view_byte_slice(&f.operation, world.bytes, &slice, NULL, &made, &f.err));
    return fixture_delete(&f, &made->node.id, GMV_IF_HELD_CASCADE, NULL) ? GMV_OK : f.err.status;
}

static gmv_status run_statistics(void)
{
    gmv_statistics statistics;
    return gmv_inspect_statistics(&f.operation, &world.masked->node, world.bits, &statistics,
                                  &f.err);
}

static gmv_status run_histogram(void)
{
    gmv_histogram_request request = {.bins = 10};
    gmv_histogram histogram;
    GMV_TRY(gmv_inspect_histogram(&f.operation, &world.column->node, &request, &histogram, &f.err));
    gmv_histogram_fini(&histogram);
    return GMV_OK;
}

static gmv_status run_checksum(void)
{
    gmv_checksum_request request = {
        .algorithm = GMV_CHECKSUM_XXH3_TREE, .block_nbytes = 1024, .list_blocks = true};
    gmv_checksum checksum;
    GMV_TRY(gmv_inspect_checksum(&f.operation, &world.strided->node, &request, &checksum, &f.err));
    gmv_checksum_fini(&checksum);
    request.algorithm = GMV_CHECKSUM_CRC32C;
    request.list_blocks = false;
    return gmv_inspect_checksum(&f.operation, &world.bytes->node, &request, &checksum, &f.err);
}

static gmv_status run_comparison(void)
{
    gmv_comparison_request request = {.nan_equal = true};
    gmv_comparison comparison;
    return gmv_inspect_compare(&f.operation, &world.masked->node, &world.strided->node, &request,
                               &comparison, &f.err);
}

static const struct {
    const char *name;
    gmv_status (*run)(void);
    size_t least; /* failures that it must have gone through, of both kinds together */
} scenarios[] = {
    {"allocate", run_allocate, 4},
    {"upload", run_upload, 10},
    {"upload of known size", run_upload_of_known_size, 6},
    {"import", run_import, 4},
    {"export with a clone", run_export_clone, 8},
    {"write", run_write, 3},
    {"view", run_view, 2},
    {"view with a mask", run_view_with_mask, 4},
    {"typed view", run_typed_view, 2},
    {"byte slice", run_slice, 2},
    {"copy", run_copy, 10},
    {"bytes", run_bytes, 4},
    {"elements", run_elements, 4},
    {"nans_to_nulls of a view", run_nans_to_nulls, 12},
    {"nans_to_nulls of a column", run_nans_to_nulls_of_column, 6},
    {"column_nans_to_nulls", run_column_nans_to_nulls, 15},
    {"mask_to_bools", run_mask_to_bools, 8},
    {"create_null_mask", run_create_null_mask, 6},
    {"no mask", run_no_mask, 5},
    {"copy_bitmask", run_copy_bitmask, 6},
    {"bitmask_or", run_combine, 7},
    {"counting", run_counts, 4},
    {"set_null_mask", run_set_null_mask, 3},
    {"delete", run_delete, 2},
    {"statistics", run_statistics, 6},
    {"histogram", run_histogram, 10},
    {"checksum", run_checksum, 10},
    {"comparison", run_comparison, 6},
};

/* ---- the loop -------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    gmv_status status;
    int result; /* of a driver call */
} faults[] = {
    {"an allocation", GMV_ERR_OVERLOADED, 0},
    {"a device call", GMV_ERR_DEVICE_OUT_OF_MEMORY, 0},
    {"a device call", GMV_ERR_MEMORY_LOST, 0},
    {"a driver call", GMV_ERR_DEVICE_OUT_OF_MEMORY, 2}, /* CUDA_ERROR_OUT_OF_MEMORY */
    {"a driver call", GMV_ERR_INTERNAL, 999},           /* CUDA_ERROR_UNKNOWN */
};

static void arm(size_t fault, uint64_t n)
{
    if (fault == 0)
        gmv_alloc_fail_once(n);
    else if (faults[fault].result)
        driver.fail(n, faults[fault].result);
    else
        gmv_device_fail_once(f.engine.devices[0], n, faults[fault].status);
}

static bool has_failed(size_t fault)
{
    if (faults[fault].result)
        return driver.failed() != NULL;
    return fault == 0 ? gmv_alloc_has_failed() : gmv_device_has_failed(f.engine.devices[0]);
}

/*
 * The operation is ended after each try, so what it holds goes; the handles of the world have
 * names. The device's cache of blocks is emptied, so that it does not count as left behind.
 */
static fixture_state settle(void)
{
    fixture_next(&f);
    gmv_device_trim(f.engine.devices[0]);
    fixture_state state = fixture_look(&f);
    return state;
}

/* Names that the try has made are deleted, so that the next one starts from the same state. */
typedef struct leftover {
    gmv_id ids[16];
    size_t n;
    uint64_t newer_than;
} leftover;

static void collect(void *context, const gmv_handle_info *info)
{
    leftover *list = context;
    if (list->n < sizeof list->ids / sizeof list->ids[0])
        list->ids[list->n++] = info->id;
}

static void delete_made(uint64_t cursor)
{
    leftover list = {.n = 0};
    gmv_list_filter filter = {.kind = GMV_KIND_ANY};
    gmv_registry_list(f.engine.registry, &f.caller, &filter, cursor, 16, collect, &list, &cursor);
    while (list.n > 0)
        cr_assert(fixture_delete(&f, &list.ids[--list.n], GMV_IF_HELD_KEEP, NULL));
}

static void count_handles(void *context, const gmv_handle_info *info)
{
    (void)info;
    ++*(size_t *)context;
}

/* Where a list goes on after all handles of now; 0 cannot be, for the world has some. */
static uint64_t end_of_handles(void)
{
    size_t count = 0;
    uint64_t cursor = 0;
    gmv_list_filter filter = {.kind = GMV_KIND_ANY, .all = true};
    gmv_buffer *marker = NULL;
    cr_assert_eq(gmv_buffer_allocate(&f.operation, 0, 0, false, NULL, &marker, &f.err), GMV_OK);
    gmv_registry_counts counts;
    gmv_registry_count(f.engine.registry, &counts);
    uint64_t alive = 0;
    for (size_t i = 0; i < GMV_KIND_COUNT; i++)
        alive += counts.alive[i];
    gmv_registry_list(f.engine.registry, &f.caller, &filter, 0, alive - 1, count_handles, &count,
                      &cursor);
    cr_assert_neq(cursor, 0);
    cr_assert(fixture_delete(&f, &marker->node.id, GMV_IF_HELD_KEEP, NULL));
    return cursor;
}

/* What the driver holds for the process, where that can be asked. */
static uint64_t driver_holdings(void)
{
    if (!driver_is_fake)
        return 0;
    fake_cuda_counters held = fake_counters(&driver);
    return held.allocations + held.pool_allocations + held.host_allocations + held.opens +
           held.events + held.streams + held.violations;
}

static size_t run_until_it_succeeds(size_t index, size_t fault, uint64_t cursor)
{
    gmv_status status = GMV_ERR_INTERNAL;
    uint64_t n = 0;
    fixture_state before = settle();
    uint64_t holdings = driver_holdings();
    while (status != GMV_OK || has_failed(fault)) {
        char what[128];
        n++;
        cr_assert_lt(n, N_MAX, "%s does not end", scenarios[index].name);
        snprintf(what, sizeof what, "%s, %s number %llu failing (%s)", scenarios[index].name,
                 faults[fault].name, (unsigned long long)n, gmv_status_code(faults[fault].status));
        arm(fault, n);
        status = scenarios[index].run();
        bool failed = has_failed(fault);
        gmv_alloc_fail_once(0);
        if (driver_is_fake)
            driver.fail(0, 0);
        if (status != GMV_OK) {
            cr_assert(failed, "%s: fails by itself: %s", what, f.err.message);
            cr_assert_eq(f.err.status, status, "%s: the error says nothing", what);
        }
        if (!failed)
            break;
        gmv_device_fail_once(f.engine.devices[0], 0, GMV_OK);
        fixture_next(&f);
        delete_made(cursor); /* a failure may be survived: an allocation is tried twice */
        fixture_state after = settle();
        fixture_expect_same(&before, &after, what);
        cr_assert_eq(driver_holdings(), holdings, "%s: the driver holds more or less", what);
    }
    gmv_device_fail_once(f.engine.devices[0], 0, GMV_OK);
    fixture_next(&f);
    delete_made(cursor);
    fixture_state after = settle();
    fixture_expect_same(&before, &after, scenarios[index].name);
    return (size_t)n - 1;
}

ParameterizedTestParameters(engine_chaos, a_failure_anywhere_leaves_nothing_behind)
{
    static size_t indices[sizeof scenarios / sizeof scenarios[0]];
    for (size_t i = 0; i < sizeof scenarios / sizeof scenarios[0]; i++)
        indices[i] = i;
    return cr_make_param_array(size_t, indices, sizeof scenarios / sizeof scenarios[0]);
}

ParameterizedTest(size_t *index, engine_chaos, a_failure_anywhere_leaves_nothing_behind,
                  .fini = close_world)
{
    size_t failures = 0;
    open_world();
    if (scenarios[*index].run == run_import && !fixture_is_host(&f))
        cr_skip_test("POSIX shared memory is the host backend's");
    cr_assert_eq(scenarios[*index].run(), GMV_OK, "%s: %s", scenarios[*index].name, f.err.message);
    uint64_t cursor = end_of_handles();
    fixture_next(&f);
    for (size_t fault = 0; fault < sizeof faults / sizeof faults[0]; fault++)
        if (faults[fault].result == 0 || driver_is_fake)
            failures += run_until_it_succeeds(*index, fault, cursor);
    cr_assert_geq(failures, scenarios[*index].least, "%s: only %zu", scenarios[*index].name,
                  failures);
}
