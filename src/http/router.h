/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the route of a method and a raw path. Segments are decoded one by one, so an escaped slash
 * never splits and an escaped NUL never cuts; whatever is not a plain segment is no path of ours. A
 * fixed segment wins over {id}. Immutable after creation, so thread-safe.
 */
#ifndef GMV_HTTP_ROUTER_H
#define GMV_HTTP_ROUTER_H

#include "http/handler.h"

typedef struct gmv_router gmv_router;

typedef enum gmv_routing {
    GMV_ROUTING_FOUND,
    GMV_ROUTING_NO_PATH,  /* 404 route_unknown */
    GMV_ROUTING_NO_METHOD /* 405 method_not_allowed */
} gmv_routing;

#define GMV_ALLOW_MAX 48

typedef struct gmv_route_match {
    const gmv_route *route; /* found only */
    size_t index;           /* of the route in its table */
    bool has_id;            /* {id} is the canonical text of an id */
    gmv_id id;
    char allow[GMV_ALLOW_MAX]; /* no method only: "GET, HEAD, DELETE" */
} gmv_route_match;

/* `routes` is @borrowed and outlives the router. @newref: destroyed by gmv_router_destroy. */
GMV_NODISCARD gmv_status gmv_router_create(const gmv_route *routes, size_t n_routes,
                                           gmv_router **out_router, gmv_error *err);
void gmv_router_destroy(gmv_router *router);

/* `method` is GMV_METHOD_COUNT for one that no route has; `path` is raw, without the query. */
gmv_routing gmv_router_match(const gmv_router *router, gmv_method method, const char *path,
                             size_t length, gmv_route_match *out_match);

/* The failure for a path that is none: says so, and what would make it one where that is plain. */
gmv_status gmv_router_fail_path(const gmv_router *router, const char *path, size_t length,
                                const char *pointer, gmv_error *err);

#endif
