/* SPDX-License-Identifier: Apache-2.0 */
/* The timing wheel: nothing comes out early, everything in time, whatever the distances are. */
#include <criterion/criterion.h>

#include <gmv/base/num.h>

#include "registry/toy.h"
#include "registry/wheel.h"

#define TICK_NS (INT64_C(1) << WHEEL_TICK_SHIFT)

enum { N = 3000 };

static gmv_node nodes[N];

static uint64_t draw(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 16;
}

/* Takes all that is due and checks each; returns how many. */
static size_t take_all(gmv_wheel *wheel, int64_t now)
{
    size_t taken = 0;
    unsigned budget;
    do {
        budget = 7;
        for (gmv_node *node; (node = gmv__wheel_take_due(wheel, now, &budget)) != NULL; taken++) {
            cr_assert_leq(node->deadline_ns, now, "one comes out early");
            cr_assert_eq(node->timer_slot, 0);
            node->deadline_ns = 0;
        }
    } while (budget == 0);
    return taken;
}

Test(wheel, an_empty_one_has_nothing_to_do)
{
    static gmv_wheel wheel;
    unsigned budget = 5;
    gmv__wheel_init(&wheel, 123);
    cr_assert_eq(gmv__wheel_next_ns(&wheel), INT64_MAX);
    cr_assert_null(gmv__wheel_take_due(&wheel, INT64_C(1) << 60, &budget));
    cr_assert_eq(budget, 5);
}

Test(wheel, gives_each_node_within_a_tick_of_its_deadline)
{
    static gmv_wheel wheel;
    uint64_t random = 1;
    const int64_t start = 987654321;
    gmv__wheel_init(&wheel, start);
    size_t in = 0, out = 0;
    for (size_t i = 0; i < N; i++) {
        /* From a millisecond to four years, evenly over the orders of magnitude. */
        int64_t distance = (int64_t)(draw(&random) & ((UINT64_C(1) << (20 + i % 38)) - 1));
        nodes[i].deadline_ns = start + distance;
        gmv__wheel_put(&wheel, &nodes[i], nodes[i].deadline_ns);
        in++;
    }
    for (int64_t now = start; in > out;) {
        int64_t next = gmv__wheel_next_ns(&wheel);
        cr_assert_geq(next, now);
        int64_t earliest = INT64_MAX;
        for (size_t i = 0; i < N; i++)
            if (nodes[i].deadline_ns != 0)
                earliest = GMV_MIN(earliest, (int64_t)nodes[i].deadline_ns);
        cr_assert_leq(next, earliest + TICK_NS, "it would wake too late");
        now = next;
        out += take_all(&wheel, now);
    }
    cr_assert_eq(gmv__wheel_next_ns(&wheel), INT64_MAX);
}

Test(wheel, a_leap_over_years_gives_all_at_once)
{
    static gmv_wheel wheel;
    gmv__wheel_init(&wheel, 0);
    for (size_t i = 0; i < N; i++) {
        nodes[i].deadline_ns = (int64_t)(i + 1) * 10000000000000;
        gmv__wheel_put(&wheel, &nodes[i], nodes[i].deadline_ns);
    }
    cr_assert_eq(take_all(&wheel, nodes[N / 2].deadline_ns + TICK_NS), N / 2 + 1);
    cr_assert_eq(take_all(&wheel, nodes[N - 1].deadline_ns + TICK_NS), N - N / 2 - 1);
}

Test(wheel, nodes_leave_and_come_back_anywhere)
{
    static gmv_wheel wheel;
    uint64_t random = 7;
    int64_t now = 5;
    size_t in = 0;
    gmv__wheel_init(&wheel, now);
    for (int round = 0; round < 200000; round++) {
        gmv_node *node = &nodes[draw(&random) % N];
        in -= node->timer_slot != 0;
        gmv__wheel_remove(&wheel, node);
        cr_assert_eq(node->timer_slot, 0);
        node->deadline_ns = now + (int64_t)(draw(&random) % (UINT64_C(1) << (24 + round % 20)));
        if (round % 3 != 0) {
            gmv__wheel_put(&wheel, node, node->deadline_ns);
            in++;
        }
        if (round % 50 == 0) {
            now += (int64_t)(draw(&random) % (UINT64_C(1) << 33));
            in -= take_all(&wheel, now);
        }
        cr_assert_eq(wheel.count, in);
    }
    now += INT64_C(1) << 45;
    cr_assert_eq(take_all(&wheel, now), in);
    cr_assert_eq(wheel.count, 0);
}

Test(wheel, a_deadline_that_has_passed_is_due_at_the_next_tick)
{
    static gmv_wheel wheel;
    gmv__wheel_init(&wheel, 0);
    nodes[0].deadline_ns = 100 * TICK_NS;
    gmv__wheel_put(&wheel, &nodes[0], nodes[0].deadline_ns);
    cr_assert_eq(take_all(&wheel, 101 * TICK_NS), 1);
    nodes[1].deadline_ns = 3;
    gmv__wheel_put(&wheel, &nodes[1], 3);
    cr_assert_leq(gmv__wheel_next_ns(&wheel), 101 * TICK_NS);
    cr_assert_eq(take_all(&wheel, 101 * TICK_NS), 1);
}
