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

static bool clock_is_leap_year(int year)
{
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

/* Splits days since 1970-01-01 by walking years and months: gmtime_r would take a lock. */
static void clock_split_days(int days, int *out_year, int *out_month, int *out_day)
{
    static const int month_days[12] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    const int days_in_400_years = 146097;
    int year = 1970 + days / days_in_400_years * 400;
    days %= days_in_400_years;
    while (days >= 365 + clock_is_leap_year(year))
        days -= 365 + clock_is_leap_year(year++);
    int month = 0;
    for (;; month++) {
        int length = month_days[month] + (month == 1 && clock_is_leap_year(year));
        if (days < length)
            break;
        days -= length;
    }
    *out_year = year;
    *out_month = month + 1;
    *out_day = days + 1;
}

static char *clock_put_digits(char *out, int value, int width)
{
    for (int i = width; i-- > 0; value /= 10)
        out[i] = (char)('0' + value % 10);
    return out + width;
}

size_t gmv_clock_format_rfc3339(int64_t wall_ms, char out_text[GMV_RFC3339_MAX])
{
    wall_ms = GMV_MAX(GMV_MIN(wall_ms, CLOCK_MAX_MS), 0);
    int in_day = (int)(wall_ms % CLOCK_DAY_MS);
    int year, month, day;
    clock_split_days((int)(wall_ms / CLOCK_DAY_MS), &year, &month, &day);

    const struct {
        int value;
        int width;
        char after;
    } parts[] = {
        {year, 4, '-'},
        {month, 2, '-'},
        {day, 2, 'T'},
        {in_day / 3600000, 2, ':'},
        {in_day / 60000 % 60, 2, ':'},
        {in_day / 1000 % 60, 2, '.'},
        {in_day % 1000, 3, 'Z'},
    };
    char *out = out_text;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        out = clock_put_digits(out, parts[i].value, parts[i].width);
        *out++ = parts[i].after;
    }
    *out = '\0';
    return (size_t)(out - out_text);
}
