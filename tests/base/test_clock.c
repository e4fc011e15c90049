/* SPDX-License-Identifier: Apache-2.0 */
/* Time goes forward, follows the tests that steer it, and is written as RFC 3339 has it. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <criterion/criterion.h>

#include <gmv/base/clock.h>

Test(clock, monotonic_time_never_goes_back)
{
    int64_t before = gmv_clock_monotonic_ns();
    for (int i = 0; i < 1000; i++) {
        int64_t now = gmv_clock_monotonic_ns();
        cr_assert_geq(now, before);
        before = now;
    }
}

Test(clock, wall_time_is_that_of_the_system)
{
    int64_t before = (int64_t)time(NULL) * 1000;
    int64_t now = gmv_clock_wall_ms();
    cr_expect_geq(now, before - 1000);
    cr_expect_leq(now, before + 60000);
}

Test(clock, advancing_moves_both_clocks)
{
    int64_t wall = gmv_clock_wall_ms();
    int64_t monotonic = gmv_clock_monotonic_ns();
    gmv_clock_advance_ms(3600000);
    cr_expect_geq(gmv_clock_wall_ms() - wall, 3600000 - 1000);
    cr_expect_geq(gmv_clock_monotonic_ns() - monotonic, INT64_C(3600000000000));
    gmv_clock_advance_ms(-3600000);
    cr_expect_lt(gmv_clock_monotonic_ns() - monotonic, INT64_C(3600000000000));
}

Test(clock, known_instants_have_known_texts)
{
    static const struct {
        int64_t wall_ms;
        const char *text;
    } rows[] = {
        {0, "1970-01-01T00:00:00.000Z"},
        {1, "1970-01-01T00:00:00.001Z"},
        {INT64_C(951782400000), "2000-02-29T00:00:00.000Z"},
        {INT64_C(951868799999), "2000-02-29T23:59:59.999Z"},
        {INT64_C(951868800000), "2000-03-01T00:00:00.000Z"},
        {INT64_C(1795946400250), "2026-11-29T10:00:00.250Z"},
        {INT64_C(4107542400000), "2100-03-01T00:00:00.000Z"},
        {INT64_C(253402300799999), "9999-12-31T23:59:59.999Z"},
        {INT64_C(253402300800000), "9999-12-31T23:59:59.999Z"},
        {-1, "1970-01-01T00:00:00.000Z"},
        {INT64_MIN, "1970-01-01T00:00:00.000Z"},
        {INT64_MAX, "9999-12-31T23:59:59.999Z"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[GMV_RFC3339_MAX];
        size_t length = gmv_clock_format_rfc3339(rows[i].wall_ms, text);
        cr_expect_str_eq(text, rows[i].text);
        cr_expect_eq(length, strlen(text));
    }
}

Test(clock, dates_agree_with_the_c_library)
{
    for (int64_t day = 0; day < 2932897; day += 13) {
        char text[GMV_RFC3339_MAX];
        char expected[64];
        struct tm parts;
        time_t seconds = (time_t)(day * 86400 + day % 86400);
        cr_assert_not_null(gmtime_r(&seconds, &parts));
        (void)snprintf(expected, sizeof expected, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ",
                       parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday, parts.tm_hour,
                       parts.tm_min, parts.tm_sec, (int)(day % 1000));
        gmv_clock_format_rfc3339((int64_t)seconds * 1000 + day % 1000, text);
        cr_assert_str_eq(text, expected);
    }
}
