/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every template is cut into segments once. A match is ranked by which of its segments are fixed,
 * the leftmost counting most; equal ranks of one path mean the same template under another method.
 */
#include "config.h"

#include "http/router.h"

#include <string.h>

#define ROUTER_SEGMENTS_MAX 6
#define ROUTER_KEY_SEGMENTS 2 /* as many as tell the resources apart */
#define ROUTER_SEGMENT_MAX  64
#define ROUTER_HINTED_MAX   256 /* bytes of a path that is looked for elsewhere */

typedef struct router_segment {
    const char *text;
    size_t length;
    bool is_id;
} router_segment;

typedef struct router_template {
    size_t n_segments;
    uint32_t key;  /* of the first segments; 0 when one of them is no fixed text */
    unsigned rank; /* bit (ROUTER_SEGMENTS_MAX - 1 - i) is set when segment i is fixed */
    router_segment segments[ROUTER_SEGMENTS_MAX];
} router_template;

struct gmv_router {
    const gmv_route *routes;
    size_t n_routes;
    router_template templates[];
};

typedef struct router_path {
    size_t n_segments;
    size_t lengths[ROUTER_SEGMENTS_MAX];
    const char *segments[ROUTER_SEGMENTS_MAX]; /* in the path, or in `decoded` */
    char decoded[ROUTER_SEGMENTS_MAX][ROUTER_SEGMENT_MAX];
} router_path;

static const char *const router_method_names[GMV_METHOD_COUNT] = {
    [GMV_METHOD_GET] = "GET, HEAD",
    [GMV_METHOD_POST] = "POST",
    [GMV_METHOD_PUT] = "PUT",
    [GMV_METHOD_DELETE] = "DELETE",
};

/* One step of FNV-1a over a segment: most templates are passed over by one comparison. */
static uint32_t router_hash(uint32_t key, const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        key = (key ^ (unsigned char)text[i]) * 16777619u;
    return (key ^ '/') * 16777619u;
}

static uint32_t router_template_key(const router_template *template)
{
    uint32_t key = 2166136261u;
    for (size_t i = 0; i < GMV_MIN(template->n_segments, (size_t)ROUTER_KEY_SEGMENTS); i++) {
        if (template->segments[i].is_id)
            return 0;
        key = router_hash(key, template->segments[i].text, template->segments[i].length);
    }
    return key;
}

static uint32_t router_path_key(const router_path *path)
{
    uint32_t key = 2166136261u;
    for (size_t i = 0; i < GMV_MIN(path->n_segments, (size_t)ROUTER_KEY_SEGMENTS); i++)
        key = router_hash(key, path->segments[i], path->lengths[i]);
    return key;
}

static bool router_compile(const char *path, router_template *out_template)
{
    *out_template = (router_template){0};
    bool is_root = strcmp(path, "/") == 0;
    if (is_root)
        path++;
    while (*path == '/') {
        size_t length = strcspn(++path, "/");
        size_t i = out_template->n_segments;
        if (i == ROUTER_SEGMENTS_MAX || length == 0)
            return false;
        bool is_id = length == 4 && memcmp(path, "{id}", 4) == 0;
        out_template->segments[i] = (router_segment){path, length, is_id};
        if (!is_id)
            out_template->rank |= 1u << (ROUTER_SEGMENTS_MAX - 1 - i);
        out_template->n_segments++;
        path += length;
    }
    out_template->key = router_template_key(out_template);
    return *path == '\0' && (is_root || out_template->n_segments > 0);
}

/* Most segments hold no escape and are taken as they stand. */
static bool router_take_segment(router_path *path, const char *text, size_t length)
{
    size_t i = path->n_segments;
    if (i == ROUTER_SEGMENTS_MAX || length == 0 || length >= ROUTER_SEGMENT_MAX * 3)
        return false;
    path->segments[i] = text;
    path->lengths[i] = length;
    if (memchr(text, '%', length) != NULL) {
        if (!gmv_segment_decode(text, length, path->decoded[i], ROUTER_SEGMENT_MAX))
            return false;
        path->segments[i] = path->decoded[i];
        path->lengths[i] = strlen(path->decoded[i]);
    }
    path->n_segments++;
    return path->lengths[i] < ROUTER_SEGMENT_MAX;
}

static bool router_split(const char *path, size_t length, router_path *out_path)
{
    const char *end = path + length;
    out_path->n_segments = 0;
    if (length == 1 && *path == '/')
        return true;
    while (path < end && *path == '/') {
        path++;
        const char *slash = memchr(path, '/', (size_t)(end - path));
        const char *stop = slash ? slash : end;
        if (!router_take_segment(out_path, path, (size_t)(stop - path)))
            return false;
        path = stop;
    }
    return path == end && out_path->n_segments > 0;
}

static bool router_fits(const router_template *template, const router_path *path)
{
    for (size_t i = 0; i < template->n_segments; i++) {
        const router_segment *segment = &template->segments[i];
        if (segment->is_id)
            continue;
        if (segment->length != path->lengths[i] ||
            memcmp(segment->text, path->segments[i], segment->length) != 0)
            return false;
    }
    return true;
}

static void router_take_id(const router_template *template, const router_path *path,
                           gmv_route_match *match)
{
    match->has_id = false;
    for (size_t i = 0; i < template->n_segments; i++)
        if (template->segments[i].is_id)
            match->has_id = gmv_id_parse(path->segments[i], path->lengths[i], &match->id);
}

static void router_write_allow(unsigned methods, char out_allow[GMV_ALLOW_MAX])
{
    char *end = out_allow;
    for (int method = 0; method < GMV_METHOD_COUNT; method++) {
        if (!(methods & 1u << method))
            continue;
        if (end != out_allow)
            end = stpcpy(end, ", ");
        end = stpcpy(end, router_method_names[method]);
    }
    *end = '\0';
}

gmv_status gmv_router_create(const gmv_route *routes, size_t n_routes, gmv_router **out_router,
                             gmv_error *err)
{
    gmv_router *router = gmv_malloc(sizeof *router + n_routes * sizeof router->templates[0]);
    if (!router)
        return gmv_fail_no_memory(err);
    router->routes = routes;
    router->n_routes = n_routes;
    for (size_t i = 0; i < n_routes; i++) {
        if (!router_compile(routes[i].path, &router->templates[i])) {
            gmv_free(router);
            return gmv_fail(err, GMV_ERR_INTERNAL, NULL, "the path of route %s is malformed",
                            routes[i].operation_id);
        }
    }
    *out_router = router;
    return GMV_OK;
}

void gmv_router_destroy(gmv_router *router)
{
    gmv_free(router);
}

gmv_routing gmv_router_match(const gmv_router *router, gmv_method method, const char *path,
                             size_t length, gmv_route_match *out_match)
{
    router_path split;
    if (!router_split(path, length, &split))
        return GMV_ROUTING_NO_PATH;
    uint32_t key = router_path_key(&split);
    bool fits = false;
    unsigned rank = 0, methods = 0;
    out_match->route = NULL;
    for (size_t i = 0; i < router->n_routes; i++) {
        const router_template *template = &router->templates[i];
        if (template->n_segments != split.n_segments || (template->key && template->key != key))
            continue;
        if ((fits && template->rank < rank) || !router_fits(template, &split))
            continue;
        if (!fits || template->rank > rank) {
            fits = true;
            rank = template->rank;
            methods = 0;
            out_match->route = NULL;
        }
        methods |= 1u << router->routes[i].method;
        if (router->routes[i].method == method) {
            out_match->route = &router->routes[i];
            out_match->index = i;
            router_take_id(template, &split, out_match);
        }
    }
    if (!fits)
        return GMV_ROUTING_NO_PATH;
    if (out_match->route)
        return GMV_ROUTING_FOUND;
    router_write_allow(methods, out_match->allow);
    return GMV_ROUTING_NO_METHOD;
}

static bool router_has(const gmv_router *router, const char *path, size_t length)
{
    gmv_route_match match;
    return gmv_router_match(router, GMV_METHOD_COUNT, path, length, &match) != GMV_ROUTING_NO_PATH;
}

static bool router_has_behind(const gmv_router *router, const char *prefix, const char *path,
                              size_t length)
{
    char longer[ROUTER_HINTED_MAX];
    size_t prefix_length = strlen(prefix);
    if (length > sizeof longer - prefix_length)
        return false;
    memcpy(longer, prefix, prefix_length);
    memcpy(longer + prefix_length, path, length);
    return router_has(router, longer, prefix_length + length);
}

gmv_status gmv_router_fail_path(const gmv_router *router, const char *path, size_t length,
                                const char *pointer, gmv_error *err)
{
    const char *hint = "; /docs shows those that there are";
    if (length > 1 && path[length - 1] == '/' && router_has(router, path, length - 1))
        hint = ", but there is one without the slash at its end";
    else if (router_has_behind(router, "/v1", path, length))
        hint = ", but there is one with /v1 before it";
    return gmv_fail(err, GMV_ERR_ROUTE_UNKNOWN, pointer, "there is no such path%s", hint);
}
