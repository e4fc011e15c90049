/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http: the life of a request over libmicrohttpd, one route table, workers in two lanes, metrics,
 * and a file of handlers for each resource. Knows nothing of CUDA.
 *
 * handler.h: what a handler sees: plain structs. A handler decodes, calls one op and encodes; it
 * may run on any thread, never sees libmicrohttpd, and on failure just returns the error.
 */
#ifndef GMV_HTTP_HANDLER_H
#define GMV_HTTP_HANDLER_H

#include <stdatomic.h>

#include <gmv/gmv.h>

#include "codec/query.h"
#include "http/events.h"

typedef struct gmv_service gmv_service;
typedef struct gmv_route gmv_route;

typedef enum gmv_method {
    GMV_METHOD_GET, /* HEAD too: the server drops the body */
    GMV_METHOD_POST,
    GMV_METHOD_PUT,
    GMV_METHOD_DELETE,
    GMV_METHOD_COUNT
} gmv_method;

typedef enum gmv_body {
    GMV_BODY_NONE,  /* a body is refused */
    GMV_BODY_JSON,  /* collected, at most max_json_nbytes; an empty one has 0 bytes */
    GMV_BODY_OCTETS /* streamed to the route's gmv_stream_handler */
} gmv_body;

typedef struct gmv_request {
    gmv_service *service;
    gmv_operation *operation; /* begun; its lane and streams fit the thread; NULL in abort */
    const gmv_route *route;
    bool is_head; /* HEAD: what the answer would hold is not sent, so it need not be made */
    bool has_id;  /* the path's {id} is the canonical text of an id */
    gmv_id id;
    bool must_not_change; /* PUT and DELETE: an If-Match or If-None-Match does not hold */
    gmv_query query;      /* only names that the route allows, each once */
    const char *body;     /* JSON text, not NUL-terminated */
    size_t body_nbytes;
    int64_t content_length;    /* octets: -1 when chunked */
    const char *content_range; /* octets: the field's text, not NUL-terminated; NULL: none */
    size_t content_range_length;
    const char
        *range; /* one Range field that If-Range leaves standing; or NULL, as content_range */
    size_t range_length;
    const char *last_event_id; /* inline routes only, not NUL-terminated; NULL: none */
    size_t last_event_id_length;
    const char *request_id;
    void *stream_state; /* of a gmv_stream_handler */
} gmv_request;

typedef enum gmv_caching {
    GMV_CACHING_NONE,     /* no header */
    GMV_CACHING_NO_STORE, /* live contents */
    GMV_CACHING_NO_CACHE  /* may be kept, must be asked for again: goes with an ETag */
} gmv_caching;

#define GMV_LOCATION_MAX    48
#define GMV_ETAG_MAX        64
#define GMV_DISPOSITION_MAX 80

typedef struct gmv_reply {
    int http_status;          /* 200 when the handler does not set it */
    const char *content_type; /* static; "application/json" when the handler does not set it */
    gmv_strbuf text;          /* the body, owned, unless one of those below is set */
    const void *static_body;  /* a body that lives as long as the process */
    size_t static_nbytes;
    bool has_bytes;  /* the body is `bytes` (device contents): Range is honoured */
    gmv_bytes bytes; /* released by the server once it has been sent */
    bool has_events; /* the body is what `events` reads, without an end; it has a place */
    gmv_event_reader events;
    gmv_caching caching;
    char location[GMV_LOCATION_MAX];       /* "" for none */
    char disposition[GMV_DISPOSITION_MAX]; /* Content-Disposition, "" for none */
    char etag[GMV_ETAG_MAX]; /* with its quotes, "" for none; If-None-Match is the server's work */
} gmv_reply;

typedef gmv_status (*gmv_handler)(gmv_request *request, gmv_reply *reply, gmv_error *err);

/*
 * An octet-stream body, in pieces. Each function runs on a bulk worker, one at a time for a
 * request; `begin` before the first byte is taken from a client that waits for 100 Continue or has
 * more than a staging block to send, else with the body at hand. After any failure, or when the
 * client goes, `abort` frees request->stream_state.
 */
typedef struct gmv_stream_handler {
    gmv_status (*begin)(gmv_request *request, gmv_error *err);
    gmv_status (*append)(gmv_request *request, const void *bytes, size_t nbytes, gmv_error *err);
    gmv_status (*finish)(gmv_request *request, gmv_reply *reply, gmv_error *err);
    void (*abort)(gmv_request *request); /* NULL state: nothing; may block */
} gmv_stream_handler;

struct gmv_route {
    gmv_method method;
    const char *path;         /* "/v1/views/{id}/byte_slice" */
    const char *operation_id; /* as in the OpenAPI file */
    gmv_kind kind;            /* of {id} or of the items of a list; GMV_KIND_ANY: any, or neither */
    const char *query;        /* parameters it takes, comma-separated */
    gmv_body body;
    gmv_lane lane;                    /* where it starts */
    gmv_handler handle;               /* NULL for octets */
    const gmv_stream_handler *stream; /* octets only */
};

/* The table (routes.def) and, below GMV_HANDLER, what it names. */
extern const gmv_route gmv_routes[];
extern const size_t gmv_routes_count;

#define GMV_HANDLER(name) \
    gmv_status gmv__handle_##name(gmv_request *request, gmv_reply *reply, gmv_error *err)

#define GMV_ROUTE(method, path, operation_id, kind, query, body, lane, name) GMV_HANDLER(name);
#define GMV_ROUTE_STREAM(method, path, operation_id, kind, query, lane, name) \
    extern const gmv_stream_handler gmv__stream_##name;
#include "http/routes.def"
#undef GMV_ROUTE
#undef GMV_ROUTE_STREAM

/*
 * The handle that {id} names, held by the operation. handle_unknown when the text is no id or of
 * another kind than the route's. Called after the body has been decoded, as the order of checks
 * demands.
 */
GMV_NODISCARD gmv_status gmv_request_target(gmv_request *request, gmv_node **out_node,
                                            gmv_error *err);

/* Fills in handle_unknown for an {id} that is none, or is of another kind than the route's. */
gmv_status gmv_request_fail_kind(const gmv_request *request, gmv_error *err);

/* Fills in precondition_failed; for a request that must not change anything. */
gmv_status gmv_request_fail_condition(gmv_error *err);

/* What handlers share; defined in service.h. */
gmv_engine *gmv_service_engine(gmv_service *service);

#endif
