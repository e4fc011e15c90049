/* SPDX-License-Identifier: Apache-2.0 */
/* Probes, metrics, the contract and what the server is. All inline: no device is asked anything
 * that could wait. */
#include "config.h"

#include "codec/json_writer.h"
#include "http/embedded.h"
#include "http/metrics.h"
#include "http/service.h"

/* For who knows nothing but the address. */
GMV_HANDLER(index)
{
    gmv_json_writer writer = gmv_json_writer_over(&reply->text);
    gmv_json_open_object(&writer);
    gmv_json_member_string(&writer, "name", PACKAGE_NAME);
    gmv_json_member_string(&writer, "version", PACKAGE_VERSION);
    gmv_json_member_string(&writer, "docs", "/docs");
    gmv_json_member_string(&writer, "openapi", "/openapi.json");
    gmv_json_member_string(&writer, "server", "/v1/server");
    gmv_json_member_string(&writer, "handles", "/v1/handles");
    gmv_json_close_object(&writer);
    return GMV_OK;
}

static void server_reply_status(gmv_request *request, bool verbose, gmv_reply *reply)
{
    const gmv_engine *engine = &request->service->engine;
    gmv_json_writer writer = gmv_json_writer_over(&reply->text);
    gmv_json_open_object(&writer);
    gmv_json_member_string(&writer, "status", "ok");
    if (verbose) {
        gmv_json_put_key(&writer, "checks");
        gmv_json_open_object(&writer);
        gmv_json_member_bool(&writer, "draining", atomic_load(&request->service->draining));
        gmv_json_member_uint64(&writer, "devices", engine->n_devices);
        uint64_t n_lost = 0;
        for (size_t i = 0; i < engine->n_devices; i++)
            n_lost += gmv_device_is_lost(engine->devices[i], NULL) ? 1 : 0;
        gmv_json_member_uint64(&writer, "devices_lost", n_lost);
        gmv_json_close_object(&writer);
    }
    gmv_json_close_object(&writer);
    reply->caching = GMV_CACHING_NO_STORE;
}

GMV_HANDLER(livez)
{
    bool verbose;
    GMV_TRY(gmv_query_flag(&request->query, "verbose", &verbose, err));
    server_reply_status(request, verbose, reply);
    return GMV_OK;
}

GMV_HANDLER(readyz)
{
    bool verbose;
    GMV_TRY(gmv_query_flag(&request->query, "verbose", &verbose, err));
    const gmv_engine *engine = &request->service->engine;
    const char *reason = "";
    for (size_t i = 0; i < engine->n_devices; i++)
        if (gmv_device_is_lost(engine->devices[i], &reason))
            return gmv_fail(err, GMV_ERR_DEVICE_LOST, NULL, "device %d is lost (%s)",
                            (int)gmv_device_describe(engine->devices[i])->ordinal, reason);
    if (atomic_load(&request->service->draining))
        return gmv_fail(err, GMV_ERR_DRAINING, NULL, "the daemon is shutting down");
    server_reply_status(request, verbose, reply);
    return GMV_OK;
}

GMV_HANDLER(metrics)
{
    gmv_metrics_write(request->service->metrics, request->service, &reply->text);
    reply->content_type = "text/plain; version=0.0.4; charset=utf-8";
    reply->caching = GMV_CACHING_NO_STORE;
    return GMV_OK;
}

static gmv_status server_reply_file(gmv_reply *reply, const char *type, const unsigned char *bytes,
                                    size_t nbytes)
{
    reply->content_type = type;
    reply->static_body = bytes;
    reply->static_nbytes = nbytes;
    return GMV_OK;
}

GMV_HANDLER(openapi_yaml)
{
    return server_reply_file(reply, "text/plain; charset=utf-8", gmv__openapi_yaml,
                             gmv__openapi_yaml_nbytes);
}

GMV_HANDLER(openapi_json)
{
    return server_reply_file(reply, "application/json", gmv__openapi_json,
                             gmv__openapi_json_nbytes);
}

GMV_HANDLER(docs)
{
    return server_reply_file(reply, "text/html; charset=utf-8", gmv__docs_html,
                             gmv__docs_html_nbytes);
}

static void server_put_limits(gmv_json_writer *writer, const gmv_service *service)
{
    const gmv_limits *limits = &service->engine.limits;
    gmv_json_put_key(writer, "limits");
    gmv_json_open_object(writer);
    gmv_json_member_uint64(writer, "max_json_nbytes", service->max_json_nbytes);
    gmv_json_member_uint64(writer, "max_logical_nbytes", limits->max_logical_nbytes);
    gmv_json_member_uint64(writer, "max_device_nbytes", limits->max_device_nbytes);
    gmv_json_member_uint64(writer, "max_handles", limits->max_handles);
    gmv_json_member_uint64(writer, "max_connections", service->connection_limit);
    gmv_json_member_uint64(writer, "max_uploads", service->max_uploads);
    gmv_json_member_uint64(writer, "http_threads", service->n_http_threads);
    gmv_json_member_uint64(writer, "workers", service->n_workers);
    gmv_json_member_int64(writer, "idle_timeout_seconds", service->idle_timeout_seconds);
    gmv_json_close_object(writer);
}

static void server_put_cuda(gmv_json_writer *writer, const gmv_service *service)
{
    if (!gmv_engine_has_cuda(&service->engine)) {
        gmv_json_member_null(writer, "cuda");
        return;
    }
    gmv_json_put_key(writer, "cuda");
    gmv_json_open_object(writer);
    gmv_json_member_string(writer, "toolkit", service->toolkit);
    gmv_json_member_string(writer, "driver", gmv_device_driver_version(service->engine.devices[0]));
    gmv_json_close_object(writer);
}

GMV_HANDLER(server)
{
    const gmv_service *service = request->service;
    gmv_json_writer writer = gmv_json_writer_over(&reply->text);
    gmv_json_open_object(&writer);
    gmv_json_member_string(&writer, "name", PACKAGE_NAME);
    gmv_json_member_string(&writer, "version", PACKAGE_VERSION);
    gmv_json_member_string(&writer, "backend", service->backend);
    server_put_cuda(&writer, service);
    server_put_limits(&writer, service);
    gmv_json_member_time(&writer, "started_at", service->started_at_ms, false);
    gmv_json_member_int64(&writer, "uptime_seconds",
                          (gmv_clock_monotonic_ns() - service->started_at_ns) / 1000000000);
    gmv_json_close_object(&writer);
    reply->caching = GMV_CACHING_NO_STORE;
    return GMV_OK;
}

static void server_put_text_or_null(gmv_json_writer *writer, const char *name, const char *text)
{
    gmv_json_member_string(writer, name, text[0] ? text : NULL);
}

static void server_put_device(gmv_json_writer *writer, const gmv_engine *engine, size_t index)
{
    const gmv_device *device = engine->devices[index];
    const gmv_device_info *info = gmv_device_describe(device);
    uint64_t registered = 0;
    for (int origin = 0; origin < GMV_ORIGIN_COUNT; origin++)
        registered += atomic_load(&engine->registered_nbytes[index][origin]);
    gmv_json_open_object(writer);
    gmv_json_member_int64(writer, "ordinal", info->ordinal);
    gmv_json_member_string(writer, "name", info->name);
    server_put_text_or_null(writer, "uuid", info->uuid);
    server_put_text_or_null(writer, "compute_capability", info->compute_capability);
    gmv_json_member_string(writer, "state", gmv_device_is_lost(device, NULL) ? "lost" : "ready");
    gmv_json_member_uint64(writer, "total_nbytes", info->total_nbytes);
    gmv_json_member_uint64(writer, "free_nbytes", gmv_device_free_nbytes(device));
    gmv_json_member_uint64(writer, "registered_nbytes", registered);
    gmv_json_close_object(writer);
}

GMV_HANDLER(devices)
{
    const gmv_engine *engine = &request->service->engine;
    gmv_json_writer writer = gmv_json_writer_over(&reply->text);
    gmv_json_open_object(&writer);
    gmv_json_put_key(&writer, "items");
    gmv_json_open_array(&writer);
    for (size_t i = 0; i < engine->n_devices; i++)
        server_put_device(&writer, engine, i);
    gmv_json_close_array(&writer);
    gmv_json_member_null(&writer, "next_cursor");
    gmv_json_close_object(&writer);
    reply->caching = GMV_CACHING_NO_STORE;
    return GMV_OK;
}
