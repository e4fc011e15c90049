/* SPDX-License-Identifier: Apache-2.0 */
/* The route table: the rows of routes.def. */
#include "config.h"

#include "http/handler.h"

#define GMV_ROUTE(method, path, operation_id, kind, query, body, lane, name) \
    {GMV_METHOD_##method,                                                    \
     path,                                                                   \
     #operation_id,                                                          \
     GMV_KIND_##kind,                                                        \
     query,                                                                  \
     GMV_BODY_##body,                                                        \
     GMV_LANE_##lane,                                                        \
     gmv__handle_##name,                                                     \
     NULL},
#define GMV_ROUTE_STREAM(method, path, operation_id, kind, query, lane, name)                \
    {GMV_METHOD_##method, path, #operation_id,      GMV_KIND_##kind, query, GMV_BODY_OCTETS, \
     GMV_LANE_##lane,     NULL, &gmv__stream_##name},

const gmv_route gmv_routes[] = {
#include "http/routes.def"
};

const size_t gmv_routes_count = sizeof gmv_routes / sizeof gmv_routes[0];
