/* SPDX-License-Identifier: Apache-2.0 */
/* The exposition, byte by byte where a scraper is strict. */
#include "config.h"

#include "http/metrics.h"
#include "http/service.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>

static gmv_service service;
static gmv_strbuf text;

static void open_service(void)
{
    gmv_device *device;
    const gmv_device_options device_options = {0};
    const gmv_limits limits = {0};
    const gmv_registry_options registry = {0};
    cr_assert_eq(gmv_device_open_host(&device_options, &device, NULL), GMV_OK);
    cr_assert_eq(gmv_engine_init(&service.engine, &device, 1, &limits, &registry, NULL), GMV_OK);
    cr_assert_eq(gmv_metrics_create(gmv_routes, gmv_routes_count, &service.metrics, NULL), GMV_OK);
    service.backend = "host";
}

static void close_service(void)
{
    gmv_strbuf_fini(&text);
    gmv_metrics_destroy(service.metrics);
    gmv_engine_fini(&service.engine);
}

TestSuite(metrics, .init = open_service, .fini = close_service);

static const char *expose(void)
{
    gmv_strbuf_fini(&text);
    gmv_metrics_write(service.metrics, &service, &text);
    cr_assert_not(gmv_strbuf_failed(&text));
    return text.data;
}

static size_t route_of(const char *operation_id)
{
    for (size_t i = 0; i < gmv_routes_count; i++)
        if (strcmp(gmv_routes[i].operation_id, operation_id) == 0)
            return i;
    cr_assert_fail("no route %s", operation_id);
    return 0;
}

static void expect(const char *line)
{
    cr_assert_not_null(strstr(expose(), line), "%s is not in\n%s", line, text.data);
}

Test(metrics, counts_by_method_route_and_status)
{
    gmv_metrics_count_request(service.metrics, route_of("getView"), GMV_METHOD_LABEL_HEAD, 200, 1);
    gmv_metrics_count_request(service.metrics, route_of("getView"), GMV_METHOD_LABEL_HEAD, 200, 1);
    gmv_metrics_count_request(service.metrics, route_of("getView"), GMV_METHOD_LABEL_GET, 410, 1);
    gmv_metrics_count_request(service.metrics, GMV_METRICS_NO_ROUTE, GMV_METHOD_LABEL_OTHER, 404,
                              1);
    gmv_metrics_count_request(service.metrics, GMV_METRICS_NO_ROUTE, GMV_METHOD_LABEL_GET, 418, 1);
    expect(
        "\ngmvd_http_requests_total{method=\"HEAD\",route=\"/v1/views/{id}\",status=\"200\"} 2\n");
    expect(
        "\ngmvd_http_requests_total{method=\"GET\",route=\"/v1/views/{id}\",status=\"410\"} 1\n");
    expect("\ngmvd_http_requests_total{method=\"OTHER\",route=\"\",status=\"404\"} 1\n");
    expect("\ngmvd_http_requests_total{method=\"GET\",route=\"\",status=\"other\"} 1\n");
}

Test(metrics, durations_fall_into_their_buckets)
{
    size_t route = route_of("getView");
    gmv_metrics_count_request(service.metrics, route, GMV_METHOD_LABEL_GET, 200, 100000);
    gmv_metrics_count_request(service.metrics, route, GMV_METHOD_LABEL_GET, 200, 100001);
    gmv_metrics_count_request(service.metrics, route, GMV_METHOD_LABEL_GET, 200,
                              INT64_C(61000000000));
    expect("gmvd_http_request_duration_seconds_bucket{method=\"GET\",route=\"/v1/views/"
           "{id}\",le=\"0.0001\"} 1\n");
    expect("gmvd_http_request_duration_seconds_bucket{method=\"GET\",route=\"/v1/views/"
           "{id}\",le=\"0.00025\"} 2\n");
    expect("gmvd_http_request_duration_seconds_bucket{method=\"GET\",route=\"/v1/views/"
           "{id}\",le=\"60\"} 2\n");
    expect("gmvd_http_request_duration_seconds_bucket{method=\"GET\",route=\"/v1/views/"
           "{id}\",le=\"+Inf\"} 3\n");
    expect("gmvd_http_request_duration_seconds_sum{method=\"GET\",route=\"/v1/views/{id}\"} "
           "61.000200001\n");
    expect("gmvd_http_request_duration_seconds_count{method=\"GET\",route=\"/v1/views/{id}\"} 3\n");
}

Test(metrics, transfers_are_exact_beyond_2_to_the_53)
{
    gmv_metrics_count_transfer(service.metrics, true, UINT64_C(9007199254740993));
    gmv_metrics_count_transfer(service.metrics, false, 7);
    expect("\ngmvd_transfer_bytes_total{direction=\"in\"} 9007199254740993\n");
    expect("\ngmvd_transfer_bytes_total{direction=\"out\"} 7\n");
}

Test(metrics, the_engines_figures_are_there)
{
    expect("\ngmvd_handles{kind=\"buffer\"} 0\n");
    expect("\ngmvd_buffer_bytes{device=\"0\",origin=\"posix_shm\"} 0\n");
    expect("\ngmvd_import_mappings{mechanism=\"posix_shm\"} 0\n");
    expect("\ngmvd_operations_in_flight 0\n");
    expect("\ngmvd_device_lost{device=\"0\"} 0\n");
    gmv_device_mark_lost(service.engine.devices[0], "for the test");
    expect("\ngmvd_device_lost{device=\"0\"} 1\n");
    expect("gmvd_build_info{version=\"" PACKAGE_VERSION "\",backend=\"host\"} 1\n");
    expect("\nprocess_start_time_seconds ");
}

/* One HELP and TYPE for each family, its samples behind them, no blank at a line's end. */
Test(metrics, the_text_is_strict)
{
    for (size_t i = 0; i <= gmv_routes_count; i++)
        for (int method = 0; method < GMV_METHOD_LABEL_COUNT; method++)
            gmv_metrics_count_request(service.metrics, i, (gmv_method_label)method, 200 + method,
                                      12345);
    char *copy = strdup(expose());
    cr_assert_eq(copy[strlen(copy) - 1], '\n');
    char family[128] = "", seen[64][128];
    size_t n_seen = 0;
    char *rest = copy;
    for (char *line; (line = strsep(&rest, "\n")) != NULL && rest;) {
        size_t length = strlen(line);
        cr_assert(length > 0 && line[length - 1] != ' ' && !strchr(line, '\r'), "%s", line);
        if (strncmp(line, "# HELP ", 7) == 0) {
            snprintf(family, sizeof family, "%.*s", (int)strcspn(line + 7, " "), line + 7);
            for (size_t i = 0; i < n_seen; i++)
                cr_assert_str_neq(seen[i], family);
            cr_assert_lt(n_seen, sizeof seen / sizeof seen[0]);
            memcpy(seen[n_seen++], family, sizeof family);
        } else if (strncmp(line, "# TYPE ", 7) == 0) {
            cr_assert_eq(strncmp(line + 7, family, strlen(family)), 0, "%s", line);
        } else {
            cr_assert_eq(strncmp(line, family, strlen(family)), 0, "%s outside of %s", line,
                         family);
        }
    }
    free(copy);
}

static int compare_lines(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Several routes share a path; their samples must differ by method. */
Test(metrics, no_series_stands_twice)
{
    for (size_t i = 0; i < gmv_routes_count; i++)
        gmv_metrics_count_request(service.metrics, i, (gmv_method_label)gmv_routes[i].method, 200,
                                  5);
    char *copy = strdup(expose());
    size_t n_lines = 0;
    static char *lines[10000];
    char *rest = copy;
    for (char *line; (line = strsep(&rest, "\n")) != NULL && rest;) {
        if (line[0] == '#')
            continue;
        *strrchr(line, ' ') = '\0';
        cr_assert_lt(n_lines, sizeof lines / sizeof lines[0]);
        lines[n_lines++] = line;
    }
    cr_assert_gt(n_lines, gmv_routes_count);
    qsort(lines, n_lines, sizeof lines[0], compare_lines);
    for (size_t i = 1; i < n_lines; i++)
        cr_assert_str_neq(lines[i - 1], lines[i]);
    free(copy);
}
