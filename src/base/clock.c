/* SPDX-License-Identifier: Apache-2.0 */
/* The two clocks, the amount tests have advanced them by, and the one time format of answers. */
#include <gmv/base/clock.h>

#include <stdatomic.h>
#include <time.h>

#include <gmv/base/num.h>

#define CLOCK_DAY_MS 86400000
#define CLOCK_MAX_MS INT64_C(253402300799999) /* 9999-12-31T23:59:59.999Z */

static atomic_int_fast64_t clock_advanced_ms;

int64_t gmv_clock_monotonic_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    int64_t advanced = atomic_load_explicit(&clock_advanced_ms, memory_order_relaxed);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec + advanced * 1000000;
}

int64_t gmv_clock_wall_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    int64_t advanced = atomic_load_explicit(&clock_advanced_ms, memory_order_relaxed);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000 + advanced;
}

void gmv_clock_advance_ms(int64_t milliseconds)
{
    atomic_fetch_add(&clock_advanced_ms, milliseconds);
}

/*
 * Splits days since 1970-01-01 into a date of the Gregorian calendar: gmtime_r would take a lock.
 * Counts from 0000-03-01, so that leap days end a year, in eras of 400 years.
 */
static void clock_split_days(int days, int *out_year, int *out_month, int *out_day)
{
    const int days_in_era = 146097;
    const int from_march_0000_to_1970 = 719468;
    int shifted = days + from_march_0000_to_1970;
    int era = shifted / days_in_era;
    int day_of_era = shifted % days_in_era;
    int year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    int day_of_year =
        day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100); /* from March 1 */
    int month_from_march = (5 * day_of_year + 2) / 153;
    *out_day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    *out_month = month_from_march < 10 ? month_from_march + 3 : month_from_march - 9;
    *out_year = era * 400 + year_of_era + (*out_month <= 2);
}

static char *clock_put_two(char *out, int value, char after)
{
    out[0] = (char)('0' + value / 10);
    out[1] = (char)('0' + value % 10);
    out[2] = after;
    return out + 3;
}

size_t gmv_clock_format_rfc3339(int64_t wall_ms, char out_text[GMV_RFC3339_MAX])
{
    wall_ms = GMV_MAX(GMV_MIN(wall_ms, CLOCK_MAX_MS), 0);
    int in_day = (int)(wall_ms % CLOCK_DAY_MS);
    int year, month, day;
    clock_split_days((int)(wall_ms / CLOCK_DAY_MS), &year, &month, &day);

    char *out = out_text;
    *out++ = (char)('0' + year / 1000);
    *out++ = (char)('0' + year / 100 % 10);
    out = clock_put_two(out, year % 100, '-');
    out = clock_put_two(out, month, '-');
    out = clock_put_two(out, day, 'T');
    out = clock_put_two(out, in_day / 3600000, ':');
    out = clock_put_two(out, in_day / 60000 % 60, ':');
    out = clock_put_two(out, in_day / 1000 % 60, '.');
    *out++ = (char)('0' + in_day % 1000 / 100);
    out = clock_put_two(out, in_day % 100, 'Z');
    *out = '\0';
    return (size_t)(out - out_text);
}
