/* SPDX-License-Identifier: Apache-2.0 */
/* The engine's quota and reaping, and what an operation holds. */
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>

#include <gmv/base/alloc.h>
#include <gmv/base/clock.h>

#include "ops/fixture.h"

static fixture f;

static void close_fixture(void)
{
    fixture_close(&f);
}

TestSuite(engine, .fini = close_fixture);

Test(engine, every_origin_has_a_name)
{
    static const char *const names[] = {"allocated", "uploaded", "cuda_ipc", "posix_shm",
                                        "computed"};
    fixture_open(&f);
    for (size_t i = 0; i < GMV_ORIGIN_COUNT; i++)
        cr_assert_str_eq(gmv_origin_name((gmv_origin)i), names[i]);
}

Test(engine, an_unknown_device_is_refused)
{
    gmv_device *device = NULL;
    fixture_open_with(&f, NULL, 2);
    cr_assert_eq(gmv_engine_device(&f.engine, 1, &device, &f.err), GMV_OK);
    cr_assert_eq(device, f.engine.devices[1]);
    fixture_expect(&f, gmv_engine_device(&f.engine, 2, &device, &f.err), GMV_ERR_VALUE, "/device");
    fixture_expect(&f, gmv_engine_device(&f.engine, -1, &device, &f.err), GMV_ERR_VALUE, "/device");
    fixture_expect(&f, gmv_engine_device(&f.engine, INT64_MAX, &device, &f.err), GMV_ERR_VALUE,
                   "/device");
}

Test(engine, a_device_may_hold_as_much_as_the_quota_says_and_no_more)
{
    gmv_limits limits = {.max_device_nbytes = 1 << 20};
    gmv_buffer *first = NULL;
    gmv_buffer *second = NULL;
    fixture_open_with(&f, &limits, 1);
    cr_assert_eq(gmv_buffer_allocate(&f.operation, 0, 1 << 19, false, NULL, &first, &f.err),
                 GMV_OK);
    cr_assert_eq(f.engine.reserved_nbytes[0], 1 << 19);
    fixture_expect(
        &f, gmv_buffer_allocate(&f.operation, 0, (1 << 19) + 1, false, NULL, &second, &f.err),
        GMV_ERR_QUOTA_EXCEEDED, NULL);
    cr_assert_eq(gmv_buffer_allocate(&f.operation, 0, 1 << 19, false, NULL, &second, &f.err),
                 GMV_OK);
    fixture_expect(&f, gmv_buffer_allocate(&f.operation, 0, 1, false, NULL, &second, &f.err),
                   GMV_ERR_QUOTA_EXCEEDED, NULL);
    gmv_id id = first->node.id;
    fixture_next(&f);
    cr_assert(fixture_delete(&f, &id, GMV_IF_HELD_KEEP, NULL));
    cr_assert_eq(gmv_buffer_allocate(&f.operation, 0, 1 << 19, false, NULL, &second, &f.err),
                 GMV_OK);
}

Test(engine, the_quota_counts_for_each_device)
{
    gmv_limits limits = {.max_device_nbytes = 1 << 16};
    gmv_buffer *buffer = NULL;
    fixture_open_with(&f, &limits, 2);
    for (int64_t device = 0; device < 2; device++) {
        cr_assert_eq(
            gmv_buffer_allocate(&f.operation, device, 1 << 16, false, NULL, &buffer, &f.err),
            GMV_OK);
        cr_assert_eq(buffer->device, device);
    }
    cr_assert_eq(f.engine.reserved_nbytes[0], 1 << 16);
    cr_assert_eq(f.engine.reserved_nbytes[1], 1 << 16);
}

Test(engine, sizes_that_cannot_exist_are_refused_and_reserve_nothing)
{
    static const int64_t sizes[] = {INT64_MAX, (int64_t)1 << 62, (int64_t)1 << 40};
    gmv_limits limits = {.max_logical_nbytes = INT64_MAX};
    gmv_buffer *buffer = NULL;
    fixture_open_with(&f, &limits, 1);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        fixture_expect(&f,
                       gmv_buffer_allocate(&f.operation, 0, sizes[i], false, NULL, &buffer, &f.err),
                       GMV_ERR_DEVICE_OUT_OF_MEMORY, NULL);
    cr_assert_eq(f.engine.reserved_nbytes[0], 0);
}

Test(engine, scratch_given_up_by_a_thread_that_may_not_block_waits_for_the_reaper)
{
    gmv_scratch *scratch[3];
    fixture_open(&f);
    for (size_t i = 0; i < 3; i++)
        cr_assert_eq(gmv_engine_scratch(&f.engine, f.engine.devices[0], f.streams[0], 1000,
                                        &scratch[i], &f.err),
                     GMV_OK);
    uint64_t reserved = f.engine.reserved_nbytes[0];
    cr_assert_geq(reserved, 3000);
    gmv_engine_discard_scratch(&f.engine, scratch[0], false);
    gmv_engine_discard_scratch(&f.engine, scratch[1], false);
    cr_assert_eq(f.engine.reserved_nbytes[0], reserved);
    cr_assert_eq(gmv_engine_reap(&f.engine), 2);
    cr_assert_eq(f.engine.reserved_nbytes[0], reserved / 3);
    gmv_engine_discard_scratch(&f.engine, scratch[2], true);
    cr_assert_eq(f.engine.reserved_nbytes[0], 0);
    cr_assert_eq(gmv_engine_reap(&f.engine), 0);
}

static void count_notice(void *context)
{
    ++*(int *)context;
}

Test(engine, the_reaper_is_told_of_scratch)
{
    gmv_scratch *scratch = NULL;
    int notices = 0;
    fixture_open(&f);
    gmv_engine_on_reapable(&f.engine, count_notice, &notices);
    cr_assert_eq(
        gmv_engine_scratch(&f.engine, f.engine.devices[0], f.streams[0], 10, &scratch, &f.err),
        GMV_OK);
    gmv_engine_discard_scratch(&f.engine, scratch, false);
    cr_assert_eq(notices, 1);
}

Test(engine, without_devices_nothing_is_set_up)
{
    gmv_engine engine;
    fixture_open(&f);
    fixture_expect(&f, gmv_engine_init(&engine, NULL, 0, NULL, NULL, &f.err), GMV_ERR_VALUE, NULL);
}

TestSuite(operation, .fini = close_fixture);

Test(operation, what_is_looked_up_stays_alive_until_the_end)
{
    gmv_node *node = NULL;
    gmv_deletion deletion;
    fixture_open(&f);
    gmv_id id = fixture_buffer(&f, "abcd", 4)->node.id;
    fixture_next(&f);
    cr_assert_eq(gmv_operation_get(&f.operation, &id, GMV_KIND_BUFFER, NULL, &node, &f.err),
                 GMV_OK);
    cr_assert(fixture_delete(&f, &id, GMV_IF_HELD_KEEP, &deletion));
    cr_assert(deletion.alive);
    cr_assert_eq(deletion.in_flight, 1);
    cr_assert_eq(gmv_buffer_of(node)->nbytes, 4);
    fixture_next(&f);
    fixture_expect(&f, gmv_operation_get(&f.operation, &id, GMV_KIND_BUFFER, "/x", &node, &f.err),
                   GMV_ERR_HANDLE_DELETED, "/x");
    cr_assert_eq(f.engine.reserved_nbytes[0], 0);
}

Test(operation, any_number_of_handles_can_be_held)
{
    enum { COUNT = 300 };
    gmv_id ids[COUNT];
    gmv_node *node = NULL;
    fixture_open(&f);
    for (size_t i = 0; i < COUNT; i++)
        ids[i] = fixture_buffer(&f, "x", 1)->node.id;
    fixture_next(&f);
    for (size_t i = 0; i < COUNT; i++)
        cr_assert_eq(gmv_operation_get(&f.operation, &ids[i], GMV_KIND_ANY, NULL, &node, &f.err),
                     GMV_OK);
    cr_assert_eq(f.operation.n_held, COUNT);
    for (size_t i = 0; i < COUNT; i++)
        cr_assert(fixture_delete(&f, &ids[i], GMV_IF_HELD_KEEP, NULL));
    cr_assert_eq(fixture_look(&f).alive, COUNT);
    fixture_next(&f);
    cr_assert_eq(fixture_look(&f).alive, 0);
}

Test(operation, operations_in_flight_are_counted)
{
    gmv_operation other;
    fixture_open(&f);
    cr_assert_eq(f.engine.operations_in_flight, 1);
    gmv_operation_begin(&other, &f.engine, &f.caller, GMV_LANE_INLINE, NULL);
    cr_assert_eq(f.engine.operations_in_flight, 2);
    gmv_operation_end(&other);
    cr_assert_eq(f.engine.operations_in_flight, 1);
}

Test(operation, heavy_work_moves_to_the_bulk_lane_and_endless_work_is_refused)
{
    gmv_limits limits = {.max_logical_nbytes = (uint64_t)1 << 30};
    fixture_open_with(&f, &limits, 1);
    fixture_end(&f);
    fixture_begin_lane(&f, GMV_LANE_SHORT);
    cr_assert_eq(gmv_operation_weigh(&f.operation, GMV_BULK_NBYTES, &f.err), GMV_OK);
    cr_assert_eq(gmv_operation_weigh(&f.operation, GMV_BULK_NBYTES + 1, &f.err), GMV_MOVE_TO_BULK);
    fixture_expect(&f, gmv_operation_weigh(&f.operation, ((uint64_t)1 << 30) + 1, &f.err),
                   GMV_ERR_QUOTA_EXCEEDED, NULL);
    fixture_end(&f);
    fixture_begin_lane(&f, GMV_LANE_BULK);
    cr_assert_eq(gmv_operation_weigh(&f.operation, (uint64_t)1 << 30, &f.err), GMV_OK);
    fixture_expect(&f, gmv_operation_weigh(&f.operation, UINT64_MAX, &f.err),
                   GMV_ERR_QUOTA_EXCEEDED, NULL);
}

Test(operation, a_label_is_for_named_handles)
{
    gmv_creation creation = {.label = "weights", .label_length = 7};
    fixture_open(&f);
    cr_assert_str_eq(gmv_operation_attributes(&f.operation, &creation, false).label, "weights");
    cr_assert_null(gmv_operation_attributes(&f.operation, &creation, true).label);
    cr_assert_null(gmv_operation_attributes(&f.operation, NULL, false).label);
}

Test(operation, its_lease_is_for_every_name_that_it_makes)
{
    fixture_open(&f);
    cr_assert_eq(gmv_operation_attributes(&f.operation, NULL, false).ttl_seconds, 0);
    f.operation.ttl_seconds = 60;
    cr_assert_eq(gmv_operation_attributes(&f.operation, NULL, false).ttl_seconds, 60);
    cr_assert_eq(gmv_operation_attributes(&f.operation, NULL, true).ttl_seconds, 0);
    gmv_id id = fixture_buffer(&f, "abcd", 4)->node.id;
    fixture_next(&f);
    cr_assert_eq(f.operation.ttl_seconds, 0, "it ends with the operation");
    cr_assert_eq(gmv_engine_reap(&f.engine), 0);
    gmv_clock_advance_ms(61000);
    cr_assert_geq(gmv_engine_reap(&f.engine), 1);
    gmv_node *node;
    fixture_expect(&f, gmv_operation_get(&f.operation, &id, GMV_KIND_BUFFER, "/x", &node, &f.err),
                   GMV_ERR_HANDLE_DELETED, "/x");
    cr_assert_eq(f.engine.reserved_nbytes[0], 0);
}

Test(operation, what_it_made_can_be_taken_back_and_what_it_found_stays)
{
    enum { COUNT = 3 * GMV_OPERATION_HELD_INLINE };
    gmv_id made[COUNT];
    gmv_node *found = NULL, *node = NULL;
    fixture_open(&f);
    gmv_id id = fixture_buffer(&f, "abcd", 4)->node.id;
    fixture_next(&f);
    fixture_state before = fixture_look(&f);
    for (int i = 0; i < COUNT; i++) {
        cr_assert_eq(gmv_operation_get(&f.operation, &id, GMV_KIND_ANY, NULL, &found, &f.err),
                     GMV_OK);
        made[i] = fixture_view(&f, found, GMV_DTYPE_U1, 4, 0)->node.id;
    }
    gmv_operation_unmake(&f.operation);
    gmv_operation_unmake(&f.operation);
    for (int i = 0; i < COUNT; i++)
        cr_assert_eq(gmv_operation_get(&f.operation, &made[i], GMV_KIND_ANY, NULL, &node, NULL),
                     GMV_ERR_HANDLE_DELETED);
    fixture_next(&f);
    cr_assert_eq(gmv_operation_get(&f.operation, &id, GMV_KIND_ANY, NULL, &found, &f.err), GMV_OK);
    fixture_next(&f);
    fixture_state after = fixture_look(&f);
    cr_assert_eq(after.alive, before.alive);
    cr_assert_eq(after.named, before.named);
}
