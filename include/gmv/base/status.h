/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The outcome of every call that can fail. One table gives the enumeration, the stable code that
 * clients see and a short title; what a status means in HTTP is decided in codec/problem.c.
 */
#ifndef GMV_BASE_STATUS_H
#define GMV_BASE_STATUS_H

#include <gmv/base/attr.h>

GMV_BEGIN_DECLS

/* X(NAME, code, title) */
#define GMV_STATUS_MAP(X)                                                                          \
    X(JSON_MALFORMED, "json_malformed", "the body is not well-formed JSON")                        \
    X(REQUEST_MALFORMED, "request_malformed",                                                      \
      "the request line, query, headers or framing are malformed")                                 \
    X(UNAUTHENTICATED, "unauthenticated", "a token is needed")                                     \
    X(SCOPE_MISSING, "scope_missing", "the token lacks a scope")                                   \
    X(READONLY, "readonly", "the memory is readonly")                                              \
    X(ROUTE_UNKNOWN, "route_unknown", "there is no such path")                                     \
    X(HANDLE_UNKNOWN, "handle_unknown", "there is no such handle")                                 \
    X(METHOD_NOT_ALLOWED, "method_not_allowed", "the path does not take this method")              \
    X(HELD_BY_DEPENDENTS, "held_by_dependents", "other handles depend on this one")                \
    X(HANDLE_INNER, "handle_inner", "the handle lies inside another and lives as long as that")    \
    X(ALREADY_RELEASED, "already_released", "the packed handle has been released")                 \
    X(HANDLE_EXPORTED_HERE, "handle_exported_here", "the memory was exported by this daemon")      \
    X(MEMORY_LOST, "memory_lost", "the exporter cut its memory short")                             \
    X(IDEMPOTENCY_IN_FLIGHT, "idempotency_in_flight",                                              \
      "the first request with this key still runs")                                                \
    X(HANDLE_DELETED, "handle_deleted", "the handle has been deleted")                             \
    X(PRECONDITION_FAILED, "precondition_failed", "a precondition does not hold")                  \
    X(BODY_TOO_LARGE, "body_too_large", "the body is larger than the limit")                       \
    X(MEDIA_TYPE_UNSUPPORTED, "media_type_unsupported", "the body's media type is not taken here") \
    X(RANGE_NOT_SATISFIABLE, "range_not_satisfiable", "no byte of the range exists")               \
    X(HEADER_TOO_LARGE, "header_too_large", "the header section is larger than the limit")         \
    X(VALUE, "value_error", "a value is impossible or malformed")                                  \
    X(TYPE, "type_error", "a value has the wrong type")                                            \
    X(INDEX, "index_error", "an index is out of range")                                            \
    X(DTYPE_UNSUPPORTED, "dtype_unsupported", "the element type is not taken here")                \
    X(POINTER_NOT_REGISTERED, "pointer_not_registered", "the address is in no registered buffer")  \
    X(POINTER_AMBIGUOUS, "pointer_ambiguous", "the address is in more than one buffer")            \
    X(OUT_OF_BOUNDS, "out_of_bounds", "the range reaches outside the memory")                      \
    X(NOT_CONTIGUOUS, "not_contiguous", "the view is not C-contiguous")                            \
    X(KIND_MISMATCH, "kind_mismatch", "the handle is of another kind")                             \
    X(METADATA_INVALID, "metadata_invalid", "the packed metadata is not true")                     \
    X(HANDLE_INVALID, "handle_invalid", "the memory or event handle cannot be opened")             \
    X(NOT_EXPORTABLE, "not_exportable", "the memory cannot be exported")                           \
    X(BACKEND_UNSUPPORTED, "backend_unsupported", "this backend does not do that")                 \
    X(IDEMPOTENCY_MISMATCH, "idempotency_mismatch", "the key belongs to another request")          \
    X(QUOTA_EXCEEDED, "quota_exceeded", "a limit is reached")                                      \
    X(OVERLOADED, "overloaded", "the daemon is busy or short of memory")                           \
    X(DRAINING, "draining", "the daemon is shutting down")                                         \
    X(DEVICE_LOST, "device_lost", "the device no longer answers")                                  \
    X(DEVICE_OUT_OF_MEMORY, "device_out_of_memory", "the device has no memory left")               \
    X(INTERNAL, "internal", "a fault in gmvd")

#define GMV_STATUS_ENUM(name, code, title) GMV_ERR_##name,
typedef enum gmv_status {
    GMV_OK = 0,
    GMV_STATUS_MAP(GMV_STATUS_ENUM) GMV_STATUS_COUNT,
    /* Not an error and never seen by clients: run the request again on the bulk lane. */
    GMV_MOVE_TO_BULK = 1000,
    /* Nor this: what is waited for has not happened. Run the request again in a while, or fail it
     * with what the error says. */
    GMV_RUN_AGAIN = 1001
} gmv_status;
#undef GMV_STATUS_ENUM

/* The stable code ("value_error"); "ok" for GMV_OK. Never NULL. @borrowed, static. */
const char *gmv_status_code(gmv_status status);

/* A short title in lower case. Never NULL. @borrowed, static. */
const char *gmv_status_title(gmv_status status);

GMV_END_DECLS

#endif
