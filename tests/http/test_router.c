/* SPDX-License-Identifier: Apache-2.0 */
/* Paths and methods against a small table, and the daemon's own table against itself. */
#include "http/router.h"

#include <stdio.h>
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/parameterized.h>

#define ROUTE(method, path)                                                                      \
    {                                                                                            \
        GMV_METHOD_##method, path, path, GMV_KIND_ANY, "", GMV_BODY_NONE, GMV_LANE_INLINE, NULL, \
            NULL                                                                                 \
    }

static const gmv_route routes[] = {
    ROUTE(GET, "/livez"),
    ROUTE(POST, "/v1/packed/unpack"),
    ROUTE(GET, "/v1/packed/{id}"),
    ROUTE(DELETE, "/v1/packed/{id}"),
    ROUTE(GET, "/v1/packed/{id}/data"),
    ROUTE(PUT, "/v1/packed/{id}/data"),
    ROUTE(POST, "/v1/{id}/pack"),
    ROUTE(POST, "/v1/tables/{id}"),
    ROUTE(GET, "/v1/tables/all"),
    ROUTE(GET, "/"),
};

#define X "view_00000000000000000000000000"

static const struct {
    gmv_method method;
    const char *path;
    gmv_routing routing;
    int index; /* of the route */
    bool has_id;
    const char *allow;
} rows[] = {
    {GMV_METHOD_GET, "/livez", GMV_ROUTING_FOUND, 0, false, ""},
    {GMV_METHOD_GET, "/li%76ez", GMV_ROUTING_FOUND, 0, false, ""},
    {GMV_METHOD_POST, "/livez", GMV_ROUTING_NO_METHOD, -1, false, "GET, HEAD"},
    {GMV_METHOD_COUNT, "/livez", GMV_ROUTING_NO_METHOD, -1, false, "GET, HEAD"},
    {GMV_METHOD_GET, "/v1/packed/" X, GMV_ROUTING_FOUND, 2, true, ""},
    {GMV_METHOD_DELETE, "/v1/packed/" X, GMV_ROUTING_FOUND, 3, true, ""},
    {GMV_METHOD_PUT, "/v1/packed/" X, GMV_ROUTING_NO_METHOD, -1, false, "GET, HEAD, DELETE"},
    {GMV_METHOD_GET, "/v1/packed/view%5F00000000000000000000000000", GMV_ROUTING_FOUND, 2, true,
     ""},
    {GMV_METHOD_GET, "/v1/packed/nonsense", GMV_ROUTING_FOUND, 2, false, ""},
    {GMV_METHOD_GET, "/v1/packed/VIEW_00000000000000000000000000", GMV_ROUTING_FOUND, 2, false, ""},
    {GMV_METHOD_PUT, "/v1/packed/" X "/data", GMV_ROUTING_FOUND, 5, true, ""},
    {GMV_METHOD_POST, "/v1/packed/" X "/data", GMV_ROUTING_NO_METHOD, -1, false, "GET, HEAD, PUT"},
    /* the fixed segment wins, for all methods of the path */
    {GMV_METHOD_POST, "/v1/packed/unpack", GMV_ROUTING_FOUND, 1, false, ""},
    {GMV_METHOD_GET, "/v1/packed/unpack", GMV_ROUTING_NO_METHOD, -1, false, "POST"},
    {GMV_METHOD_GET, "/v1/tables/all", GMV_ROUTING_FOUND, 8, false, ""},
    {GMV_METHOD_POST, "/v1/tables/all", GMV_ROUTING_NO_METHOD, -1, false, "GET, HEAD"},
    {GMV_METHOD_POST, "/v1/tables/pack", GMV_ROUTING_FOUND, 7, false, ""},
    {GMV_METHOD_POST, "/v1/others/pack", GMV_ROUTING_FOUND, 6, false, ""},
    {GMV_METHOD_GET, "/", GMV_ROUTING_FOUND, 9, false, ""},
    {GMV_METHOD_POST, "/", GMV_ROUTING_NO_METHOD, -1, false, "GET, HEAD"},
    /* not paths of ours */
    {GMV_METHOD_GET, "", GMV_ROUTING_NO_PATH, -1, false, ""},
    {GMV_METHOD_GET, "*", GMV_ROUTING_NO_PATH, -1, false, ""},
    {GMV_METHOD_GET, "//", GMV_ROUTING_NO_PATH, -1, false, ""},
    {GMV_METHOD_GET, "livez", GMV_ROUTING_NO_PATH, -1, false, ""},
    {GMV_METHOD_GET, "/livez/", GMV_ROUTING_NO_PATH, -1, false, ""},
    {GMV_METHOD_GET, "//livez", GMV_ROUTING_NO_PATH, -1, false, ""},
    {GMV_METHOD_GET, "/LIVEZ", GMV_ROUTING_NO_PATH, -1, false, ""},
    {GMV_METHOD_GET, "/livez%00", GMV_ROUTING_NO_PATH, -1, false, ""},
    {GMV_METHOD_GET, "/livez%", GMV_ROUTING_NO_PATH, -1, false, ""},
    {GMV_METHOD_GET, "/livez%z0", GMV_ROUTING_NO_PATH, -1, false, ""},
    {GMV_METHOD_GET, "/v1/packed/", GMV_ROUTING_NO_PATH, -1, false, ""},
    {GMV_METHOD_GET, "/v1/packed//", GMV_ROUTING_NO_PATH, -1, false, ""},
    {GMV_METHOD_GET, "/v1/packed/" X "%00", GMV_ROUTING_NO_PATH, -1, false, ""},
    {GMV_METHOD_GET, "/v1/packed/" X "%00zzz", GMV_ROUTING_NO_PATH, -1, false, ""},
    {GMV_METHOD_GET, "/v1/packed/%2F", GMV_ROUTING_NO_PATH, -1, false, ""},
    {GMV_METHOD_GET, "/v1/packed/" X "%2Fdata", GMV_ROUTING_NO_PATH, -1, false, ""},
    {GMV_METHOD_GET, "/v1%2Fpacked/" X, GMV_ROUTING_NO_PATH, -1, false, ""},
    {GMV_METHOD_GET, "/v1/packed/" X "/", GMV_ROUTING_NO_PATH, -1, false, ""},
    {GMV_METHOD_GET, "/v1/packed/..%2F..", GMV_ROUTING_NO_PATH, -1, false, ""},
    {GMV_METHOD_GET, "/a/b/c/d/e/f/g/h/i/j", GMV_ROUTING_NO_PATH, -1, false, ""},
};

ParameterizedTestParameters(router, matches_as_the_row_says)
{
    static size_t indices[sizeof rows / sizeof rows[0]];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        indices[i] = i;
    return cr_make_param_array(size_t, indices, sizeof rows / sizeof rows[0]);
}

ParameterizedTest(size_t *index, router, matches_as_the_row_says)
{
    gmv_router *router;
    gmv_error err;
    gmv_error_init(&err);
    cr_assert_eq(gmv_router_create(routes, sizeof routes / sizeof routes[0], &router, &err),
                 GMV_OK);
    gmv_route_match match = {0};
    gmv_routing routing = gmv_router_match(router, rows[*index].method, rows[*index].path,
                                           strlen(rows[*index].path), &match);
    cr_assert_eq(routing, rows[*index].routing, "%s: %d", rows[*index].path, (int)routing);
    if (routing == GMV_ROUTING_FOUND) {
        cr_assert_eq(match.route, &routes[rows[*index].index], "%s: %s", rows[*index].path,
                     match.route->path);
        cr_assert_eq(match.index, (size_t)rows[*index].index);
        cr_assert_eq(match.has_id, rows[*index].has_id, "%s", rows[*index].path);
    } else if (routing == GMV_ROUTING_NO_METHOD) {
        cr_assert_str_eq(match.allow, rows[*index].allow);
    }
    gmv_router_destroy(router);
}

Test(router, a_path_of_9000_bytes_is_none_of_ours)
{
    gmv_router *router;
    static char path[9000];
    memset(path, 'a', sizeof path);
    path[0] = '/';
    cr_assert_eq(gmv_router_create(routes, sizeof routes / sizeof routes[0], &router, NULL),
                 GMV_OK);
    gmv_route_match match;
    cr_assert_eq(gmv_router_match(router, GMV_METHOD_GET, path, sizeof path, &match),
                 GMV_ROUTING_NO_PATH);
    gmv_router_destroy(router);
}

Test(router, a_path_that_nearly_is_one_is_told_so)
{
    static const struct {
        const char *path, *hint;
    } missed[] = {
        {"/livez/", "without the slash at its end"},
        {"/v1/packed/" X "/data/", "without the slash at its end"},
        {"/packed/" X, "with /v1 before it"},
        {"/tables/all", "with /v1 before it"},
        {"/tables/all/", "/docs"},
        {"/other", "/docs"},
        {"", "/docs"},
    };
    static char path[9000];
    gmv_router *router;
    gmv_error err;
    gmv_error_init(&err);
    cr_assert_eq(gmv_router_create(routes, sizeof routes / sizeof routes[0], &router, &err),
                 GMV_OK);
    for (size_t i = 0; i < sizeof missed / sizeof missed[0]; i++) {
        cr_assert_eq(
            gmv_router_fail_path(router, missed[i].path, strlen(missed[i].path), "/path", &err),
            GMV_ERR_ROUTE_UNKNOWN);
        cr_assert_not_null(strstr(err.message, missed[i].hint), "%s: %s", missed[i].path,
                           err.message);
        cr_assert_str_eq(err.pointer, "/path");
    }
    memset(path, '/', sizeof path);
    cr_assert_eq(gmv_router_fail_path(router, path, sizeof path, NULL, &err),
                 GMV_ERR_ROUTE_UNKNOWN);
    gmv_router_destroy(router);
}

Test(router, a_malformed_template_is_refused)
{
    static const gmv_route wrong[] = {ROUTE(GET, "/a//b")};
    gmv_router *router = NULL;
    gmv_error err;
    gmv_error_init(&err);
    cr_assert_eq(gmv_router_create(wrong, 1, &router, &err), GMV_ERR_INTERNAL);
    cr_assert_null(router);
}

Test(router, running_out_of_memory_is_a_status)
{
    gmv_router *router = NULL;
    gmv_error err;
    gmv_error_init(&err);
    gmv_alloc_fail_once(1);
    cr_assert_eq(gmv_router_create(routes, sizeof routes / sizeof routes[0], &router, &err),
                 GMV_ERR_OVERLOADED);
    gmv_alloc_fail_once(0);
}

Test(router, every_route_of_the_daemon_finds_itself)
{
    gmv_router *router;
    cr_assert_eq(gmv_router_create(gmv_routes, gmv_routes_count, &router, NULL), GMV_OK);
    for (size_t i = 0; i < gmv_routes_count; i++) {
        char path[256];
        const char *id = strstr(gmv_routes[i].path, "{id}");
        if (id)
            snprintf(path, sizeof path, "%.*s" X "%s", (int)(id - gmv_routes[i].path),
                     gmv_routes[i].path, id + 4);
        else
            snprintf(path, sizeof path, "%s", gmv_routes[i].path);
        gmv_route_match match;
        cr_assert_eq(gmv_router_match(router, gmv_routes[i].method, path, strlen(path), &match),
                     GMV_ROUTING_FOUND, "%s", path);
        cr_assert_eq(match.route, &gmv_routes[i], "%s", path);
        cr_assert_eq(match.has_id, id != NULL);
    }
    gmv_router_destroy(router);
}
