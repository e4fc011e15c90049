/* SPDX-License-Identifier: Apache-2.0 */
/* The route table: routes.def read twice, first for the handlers' names, then for the rows. */
#include "config.h"

#include "http/handler.h"

#define GMV_ROUTE(method, path, operation_id, kind, query, body, lane, name) GMV_HANDLER(name);
#define GMV_ROUTE_STREAM(method, path, operation_id, kind, query, lane, name)                      \
    extern const gmv_stream_handler gmv__stream_##name;
#include "http/routes.def"
#undef GMV_ROUTE
#undef GMV_ROUTE_STREAM

#define GMV_ROUTE(method, path, operation_id, kind, query, body, lane, name)                       \
    {GMV_METHOD_##method, path,           #operation_id, GMV_KIND_##kind,         query,           \
     GMV_BODY_##body,     GMV_LANE_##lane, gmv__handle_##name, NULL},
#define GMV_ROUTE_STREAM(method, path, operation_id, kind, query, lane, name)                      \
    {GMV_METHOD_##method, path,           #operation_id, GMV_KIND_##kind,        query,            \
     GMV_BODY_OCTETS,     GMV_LANE_##lane, NULL,          &gmv__stream_##name},

const gmv_route gmv_routes[] = {
#include "http/routes.def"
};

const size_t gmv_routes_count = sizeof gmv_routes / sizeof gmv_routes[0];
