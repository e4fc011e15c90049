/* SPDX-License-Identifier: Apache-2.0 */
/* A text grows, ends in NUL, and after a failure stays failed without leaking or losing its block.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <criterion/criterion.h>

#include <gmv/base/alloc.h>
#include <gmv/base/strbuf.h>

Test(strbuf, a_fresh_one_is_empty_and_costs_nothing)
{
    gmv_strbuf buf = GMV_STRBUF_INIT;
    cr_expect_null(buf.data);
    cr_expect_eq(buf.length, 0);
    cr_expect_not(gmv_strbuf_failed(&buf));
    gmv_strbuf_fini(&buf);
}

Test(strbuf, pieces_of_all_kinds_join)
{
    gmv_strbuf buf;
    gmv_strbuf_init(&buf);
    gmv_strbuf_puts(&buf, "a");
    gmv_strbuf_putc(&buf, 'b');
    gmv_strbuf_append(&buf, "cde", 2);
    gmv_strbuf_printf(&buf, "%s-%04d", "x", 7);
    gmv_strbuf_int64(&buf, -12);
    gmv_strbuf_uint64(&buf, 34);
    gmv_strbuf_append(&buf, NULL, 0);
    cr_expect_str_eq(buf.data, "abcdx-0007-1234");
    cr_expect_eq(buf.length, strlen(buf.data));
    gmv_strbuf_fini(&buf);
    cr_expect_null(buf.data);
}

Test(strbuf, bytes_of_zero_are_kept)
{
    gmv_strbuf buf = GMV_STRBUF_INIT;
    gmv_strbuf_append(&buf, "a\0b", 3);
    cr_expect_eq(buf.length, 3);
    cr_expect_arr_eq(buf.data, "a\0b\0", 4);
    gmv_strbuf_fini(&buf);
}

Test(strbuf, numbers_are_written_as_printf_writes_them)
{
    static const int64_t numbers[] = {0,    1,         -1,        9,         10,
                                      -10,  99,        100,       INT32_MAX, INT32_MIN,
                                      1234, INT64_MAX, INT64_MIN, -INT64_MAX};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        char expected[32];
        gmv_strbuf buf = GMV_STRBUF_INIT;
        (void)snprintf(expected, sizeof expected, "%" PRId64, numbers[i]);
        gmv_strbuf_int64(&buf, numbers[i]);
        cr_expect_str_eq(buf.data, expected);
        gmv_strbuf_fini(&buf);
        (void)snprintf(expected, sizeof expected, "%" PRIu64, (uint64_t)numbers[i]);
        gmv_strbuf_uint64(&buf, (uint64_t)numbers[i]);
        cr_expect_str_eq(buf.data, expected);
        gmv_strbuf_fini(&buf);
    }
}

Test(strbuf, a_long_text_grows_in_few_steps)
{
    gmv_strbuf buf = GMV_STRBUF_INIT;
    size_t steps = 0;
    size_t capacity = 0;
    for (int i = 0; i < 100000; i++) {
        gmv_strbuf_putc(&buf, (char)('a' + i % 26));
        steps += buf.capacity != capacity;
        capacity = buf.capacity;
    }
    cr_expect_eq(buf.length, 100000);
    cr_expect_eq(buf.data[99999], 'a' + 99999 % 26);
    cr_expect_eq(buf.data[100000], '\0');
    cr_expect_lt(steps, 20);
    gmv_strbuf_fini(&buf);
}

Test(strbuf, every_length_around_a_capacity_is_terminated)
{
    for (size_t length = 0; length < 200; length++) {
        char text[256];
        memset(text, 'y', sizeof text);
        text[length] = '\0';
        gmv_strbuf buf = GMV_STRBUF_INIT;
        gmv_strbuf_printf(&buf, "%s", text);
        cr_expect_str_eq(buf.data, text);
        gmv_strbuf_puts(&buf, text);
        cr_expect_eq(strlen(buf.data), 2 * length);
        gmv_strbuf_fini(&buf);
    }
}

Test(strbuf, reserved_room_needs_no_more_memory)
{
    gmv_strbuf buf = GMV_STRBUF_INIT;
    cr_assert(gmv_strbuf_reserve(&buf, 1000));
    gmv_alloc_fail_from(1);
    for (int i = 0; i < 1000; i++)
        gmv_strbuf_putc(&buf, 'z');
    cr_expect_not(gmv_strbuf_failed(&buf));
    gmv_alloc_fail_from(0);
    cr_expect_eq(buf.length, 1000);
    gmv_strbuf_fini(&buf);
}

Test(strbuf, more_than_there_can_be_fails)
{
    gmv_strbuf buf = GMV_STRBUF_INIT;
    gmv_strbuf_puts(&buf, "x");
    cr_expect_not(gmv_strbuf_reserve(&buf, SIZE_MAX));
    cr_expect(gmv_strbuf_failed(&buf));
    cr_expect_str_eq(buf.data, "x");
    gmv_strbuf_fini(&buf);
    cr_expect_not(gmv_strbuf_reserve(&buf, SIZE_MAX - 1));
    gmv_strbuf_fini(&buf);
}

Test(strbuf, taking_gives_the_text_away)
{
    gmv_strbuf buf = GMV_STRBUF_INIT;
    gmv_strbuf_puts(&buf, "mine");
    size_t length = 0;
    char *text = gmv_strbuf_take(&buf, &length);
    cr_expect_str_eq(text, "mine");
    cr_expect_eq(length, 4);
    cr_expect_null(buf.data);
    gmv_free(text);
    text = gmv_strbuf_take(&buf, NULL);
    cr_expect_str_eq(text, "");
    gmv_free(text);
}

Test(strbuf, each_failing_allocation_is_seen_and_nothing_leaks)
{
    gmv_alloc_watch(1);
    for (uint64_t n = 1;; n++) {
        gmv_strbuf buf = GMV_STRBUF_INIT;
        gmv_alloc_fail_once(n);
        for (int i = 0; i < 50; i++) {
            gmv_strbuf_puts(&buf, "0123456789");
            gmv_strbuf_int64(&buf, -i);
            gmv_strbuf_printf(&buf, "%d", i);
        }
        bool failed = gmv_alloc_has_failed();
        cr_expect_eq(gmv_strbuf_failed(&buf), failed);
        size_t length = 1;
        char *text = gmv_strbuf_take(&buf, &length);
        cr_expect_eq(text == NULL, failed);
        cr_expect_eq(length == 0, failed);
        gmv_free(text);
        cr_expect_eq(gmv_alloc_live(), 0);
        if (!failed) {
            cr_expect_gt(n, 3);
            break;
        }
    }
    gmv_alloc_fail_once(0);
    gmv_alloc_watch(0);
}
