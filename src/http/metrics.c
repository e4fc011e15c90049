/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counters in one flat table: route, method, status. A family's HELP and TYPE stand once, its
 * samples behind them, with nothing after the number.
 */
#include "config.h"

#include "http/metrics.h"

#include <inttypes.h>

#include "http/service.h"

#define METRICS_NS_PER_SECOND 1000000000

static const int metrics_statuses[] = {
    0,
    200,
    201,
    206,
    304,
    400,
    401,
    403,
    404,
    405,
    409,
    410,
    412,
    413,
    415,
    416,
    422,
    429,
    431,
    500,
    503,
    507,
    /* any other: */ -1,
};
#define METRICS_N_STATUSES (sizeof metrics_statuses / sizeof metrics_statuses[0])

/* Upper bounds of the duration's buckets; +Inf follows. */
static const struct {
    int64_t ns;
    const char *text;
} metrics_bounds[] = {
    {100000, "0.0001"},  {250000, "0.00025"}, {500000, "0.0005"},  {1000000, "0.001"},
    {2500000, "0.0025"}, {5000000, "0.005"},  {10000000, "0.01"},  {25000000, "0.025"},
    {50000000, "0.05"},  {100000000, "0.1"},  {250000000, "0.25"}, {500000000, "0.5"},
    {1000000000, "1"},   {2500000000, "2.5"}, {5000000000, "5"},   {10000000000, "10"},
    {30000000000, "30"}, {60000000000, "60"},
};
#define METRICS_N_BOUNDS (sizeof metrics_bounds / sizeof metrics_bounds[0])

static const char *const metrics_methods[GMV_METHOD_LABEL_COUNT] = {
    "GET", "POST", "PUT", "DELETE", "HEAD", "OTHER",
};

typedef struct metrics_cell {
    atomic_uint_fast64_t statuses[METRICS_N_STATUSES];
    atomic_uint_fast64_t buckets[METRICS_N_BOUNDS + 1];
    atomic_uint_fast64_t sum_ns;
} metrics_cell;

struct gmv_metrics {
    const gmv_route *routes;
    size_t n_routes;
    int64_t started_at_ms;
    atomic_uint_fast64_t transferred[2]; /* out, in */
    metrics_cell cells[]; /* (n_routes + 1) times the methods; the last row is "no route" */
};

static uint64_t metrics_load(const atomic_uint_fast64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static void metrics_add(atomic_uint_fast64_t *counter, uint64_t n)
{
    atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

gmv_status gmv_metrics_create(const gmv_route *routes, size_t n_routes, gmv_metrics **out_metrics,
                              gmv_error *err)
{
    size_t n_cells = (n_routes + 1) * GMV_METHOD_LABEL_COUNT;
    gmv_metrics *metrics = gmv_calloc(1, sizeof *metrics + n_cells * sizeof metrics->cells[0]);
    if (!metrics)
        return gmv_fail_no_memory(err);
    metrics->routes = routes;
    metrics->n_routes = n_routes;
    metrics->started_at_ms = gmv_clock_wall_ms();
    *out_metrics = metrics;
    return GMV_OK;
}

void gmv_metrics_destroy(gmv_metrics *metrics)
{
    gmv_free(metrics);
}

void gmv_metrics_count_request(gmv_metrics *metrics, size_t route, gmv_method_label method,
                               int http_status, int64_t duration_ns)
{
    size_t row = GMV_MIN(route, metrics->n_routes);
    metrics_cell *cell = &metrics->cells[row * GMV_METHOD_LABEL_COUNT + method];
    size_t i = 0;
    while (i < METRICS_N_STATUSES - 1 && metrics_statuses[i] != http_status)
        i++;
    metrics_add(&cell->statuses[i], 1);
    i = 0;
    while (i < METRICS_N_BOUNDS && metrics_bounds[i].ns < duration_ns)
        i++;
    metrics_add(&cell->buckets[i], 1);
    metrics_add(&cell->sum_ns, duration_ns > 0 ? (uint64_t)duration_ns : 0);
}

void gmv_metrics_count_transfer(gmv_metrics *metrics, bool is_upload, uint64_t nbytes)
{
    metrics_add(&metrics->transferred[is_upload], nbytes);
}

static void metrics_family(gmv_strbuf *out, const char *name, const char *type, const char *help)
{
    gmv_strbuf_printf(out, "# HELP gmvd_%s %s\n# TYPE gmvd_%s %s\n", name, help, name, type);
}

static const char *metrics_path(const gmv_metrics *metrics, size_t row)
{
    return row < metrics->n_routes ? metrics->routes[row].path : "";
}

static void metrics_write_requests(const gmv_metrics *metrics, gmv_strbuf *out)
{
    metrics_family(out, "http_requests_total", "counter",
                   "Requests that have ended; status 0: the client left first.");
    size_t n_cells = (metrics->n_routes + 1) * GMV_METHOD_LABEL_COUNT;
    for (size_t i = 0; i < n_cells; i++) {
        for (size_t j = 0; j < METRICS_N_STATUSES; j++) {
            uint64_t count = metrics_load(&metrics->cells[i].statuses[j]);
            if (count == 0)
                continue;
            gmv_strbuf_printf(out, "gmvd_http_requests_total{method=\"%s\",route=\"%s\",status=\"",
                              metrics_methods[i % GMV_METHOD_LABEL_COUNT],
                              metrics_path(metrics, i / GMV_METHOD_LABEL_COUNT));
            if (metrics_statuses[j] >= 0)
                gmv_strbuf_printf(out, "%d\"} %" PRIu64 "\n", metrics_statuses[j], count);
            else
                gmv_strbuf_printf(out, "other\"} %" PRIu64 "\n", count);
        }
    }
}

static void metrics_write_histogram(const gmv_metrics *metrics, size_t index, gmv_strbuf *out)
{
    const metrics_cell *cell = &metrics->cells[index];
    const char *method = metrics_methods[index % GMV_METHOD_LABEL_COUNT];
    const char *path = metrics_path(metrics, index / GMV_METHOD_LABEL_COUNT);
    uint64_t counts[METRICS_N_BOUNDS + 1], total = 0;
    for (size_t i = 0; i <= METRICS_N_BOUNDS; i++) {
        total += metrics_load(&cell->buckets[i]);
        counts[i] = total;
    }
    if (total == 0)
        return;
    static const char name[] = "gmvd_http_request_duration_seconds";
    for (size_t i = 0; i <= METRICS_N_BOUNDS; i++)
        gmv_strbuf_printf(out, "%s_bucket{method=\"%s\",route=\"%s\",le=\"%s\"} %" PRIu64 "\n",
                          name, method, path,
                          i < METRICS_N_BOUNDS ? metrics_bounds[i].text : "+Inf", counts[i]);
    uint64_t sum = metrics_load(&cell->sum_ns);
    gmv_strbuf_printf(out, "%s_sum{method=\"%s\",route=\"%s\"} %" PRIu64 ".%09" PRIu64 "\n", name,
                      method, path, sum / METRICS_NS_PER_SECOND, sum % METRICS_NS_PER_SECOND);
    gmv_strbuf_printf(out, "%s_count{method=\"%s\",route=\"%s\"} %" PRIu64 "\n", name, method, path,
                      total);
}

static void metrics_write_durations(const gmv_metrics *metrics, gmv_strbuf *out)
{
    metrics_family(out, "http_request_duration_seconds", "histogram",
                   "From the request line to the last byte of the answer.");
    size_t n_cells = (metrics->n_routes + 1) * GMV_METHOD_LABEL_COUNT;
    for (size_t i = 0; i < n_cells; i++)
        metrics_write_histogram(metrics, i, out);
}

static void metrics_write_handles(const gmv_service *service, gmv_strbuf *out)
{
    gmv_registry_counts counts;
    gmv_registry_count(service->engine.registry, &counts);
    metrics_family(out, "handles", "gauge", "Named handles.");
    for (int kind = GMV_KIND_BUFFER; kind < GMV_KIND_SESSION; kind++)
        gmv_strbuf_printf(out, "gmvd_handles{kind=\"%s\"} %" PRIu64 "\n",
                          gmv_kind_name((gmv_kind)kind), counts.named[kind]);
}

static void metrics_write_lives(const gmv_service *service, gmv_strbuf *out)
{
    gmv_registry_counts counts;
    gmv_lease_counts leases;
    gmv_registry_count(service->engine.registry, &counts);
    gmv_registry_count_leases(service->engine.registry, &leases);
    metrics_family(out, "sessions", "gauge", "Sessions that have not ended.");
    gmv_strbuf_printf(out, "gmvd_sessions %" PRIu64 "\n", counts.named[GMV_KIND_SESSION]);
    metrics_family(out, "leases_expired_total", "counter",
                   "Leases of handles and sessions that have run out.");
    gmv_strbuf_printf(out, "gmvd_leases_expired_total %" PRIu64 "\n", leases.expired);
    metrics_family(out, "reaper_lag_seconds", "gauge",
                   "How late the names of the last leases that ran out were taken.");
    gmv_strbuf_printf(out, "gmvd_reaper_lag_seconds %" PRId64 ".%09" PRId64 "\n",
                      leases.lag_ns / METRICS_NS_PER_SECOND, leases.lag_ns % METRICS_NS_PER_SECOND);
}

static void metrics_write_buffers(const gmv_service *service, gmv_strbuf *out)
{
    const gmv_engine *engine = &service->engine;
    metrics_family(out, "buffer_bytes", "gauge", "Bytes of live buffers.");
    for (size_t i = 0; i < engine->n_devices; i++)
        for (int origin = 0; origin < GMV_ORIGIN_COUNT; origin++)
            gmv_strbuf_printf(
                out, "gmvd_buffer_bytes{device=\"%" PRId32 "\",origin=\"%s\"} %" PRIu64 "\n",
                gmv_device_describe(engine->devices[i])->ordinal,
                gmv_origin_name((gmv_origin)origin),
                (uint64_t)atomic_load(&engine->registered_nbytes[i][origin]));
}

static void metrics_write_devices(const gmv_service *service, gmv_strbuf *out)
{
    const gmv_engine *engine = &service->engine;
    uint64_t mappings[2] = {0};
    for (size_t i = 0; i < engine->n_devices; i++)
        mappings[gmv_device_describe(engine->devices[i])->backend == GMV_BACKEND_CUDA] +=
            gmv_device_import_mappings(engine->devices[i]);
    metrics_family(out, "import_mappings", "gauge", "Mappings of imported memory that are open.");
    gmv_strbuf_printf(out,
                      "gmvd_import_mappings{mechanism=\"posix_shm\"} %" PRIu64 "\n"
                      "gmvd_import_mappings{mechanism=\"cuda_ipc\"} %" PRIu64 "\n",
                      mappings[0], mappings[1]);
    metrics_family(out, "device_lost", "gauge", "1 when the device no longer answers.");
    for (size_t i = 0; i < engine->n_devices; i++)
        gmv_strbuf_printf(out, "gmvd_device_lost{device=\"%" PRId32 "\"} %d\n",
                          gmv_device_describe(engine->devices[i])->ordinal,
                          gmv_device_is_lost(engine->devices[i], NULL) ? 1 : 0);
}

static void metrics_write_process(const gmv_metrics *metrics, const gmv_service *service,
                                  gmv_strbuf *out)
{
    metrics_family(out, "build_info", "gauge", "1, with what was built as labels.");
    gmv_strbuf_printf(out, "gmvd_build_info{version=\"%s\",backend=\"%s\"} 1\n", PACKAGE_VERSION,
                      service->backend);
    gmv_strbuf_printf(out,
                      "# HELP process_start_time_seconds When the daemon started, since 1970.\n"
                      "# TYPE process_start_time_seconds gauge\n"
                      "process_start_time_seconds %" PRId64 ".%03" PRId64 "\n",
                      metrics->started_at_ms / 1000, metrics->started_at_ms % 1000);
    metrics_family(out, "operations_in_flight", "gauge", "Operations that run now.");
    gmv_strbuf_printf(out, "gmvd_operations_in_flight %" PRIu64 "\n",
                      (uint64_t)atomic_load(&service->engine.operations_in_flight));
}

void gmv_metrics_write(const gmv_metrics *metrics, const gmv_service *service, gmv_strbuf *out)
{
    metrics_write_process(metrics, service, out);
    metrics_write_requests(metrics, out);
    metrics_write_durations(metrics, out);
    metrics_family(out, "transfer_bytes_total", "counter", "Contents that went in and out.");
    gmv_strbuf_printf(out,
                      "gmvd_transfer_bytes_total{direction=\"in\"} %" PRIu64 "\n"
                      "gmvd_transfer_bytes_total{direction=\"out\"} %" PRIu64 "\n",
                      metrics_load(&metrics->transferred[1]),
                      metrics_load(&metrics->transferred[0]));
    metrics_write_handles(service, out);
    metrics_write_lives(service, out);
    metrics_write_buffers(service, out);
    metrics_write_devices(service, out);
}
