/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What Prometheus reads. Counting is atomic additions only; the text is made on demand. Labels are
 * routes' templates, methods and statuses, never ids or labels of handles. Thread-safe.
 */
#ifndef GMV_HTTP_METRICS_H
#define GMV_HTTP_METRICS_H

#include "http/handler.h"

typedef struct gmv_metrics gmv_metrics;

/* What was asked, as a label: the methods that routes have, HEAD, and any other. */
typedef enum gmv_method_label {
    GMV_METHOD_LABEL_GET,
    GMV_METHOD_LABEL_POST,
    GMV_METHOD_LABEL_PUT,
    GMV_METHOD_LABEL_DELETE,
    GMV_METHOD_LABEL_HEAD,
    GMV_METHOD_LABEL_OTHER,
    GMV_METHOD_LABEL_COUNT
} gmv_method_label;

/* The route of a request that matched none. */
#define GMV_METRICS_NO_ROUTE SIZE_MAX

/* `routes` is @borrowed and outlives the metrics. @newref: gmv_metrics_destroy. */
GMV_NODISCARD gmv_status gmv_metrics_create(const gmv_route *routes, size_t n_routes,
                                            gmv_metrics **out_metrics, gmv_error *err);
void gmv_metrics_destroy(gmv_metrics *metrics);

/* One request has ended. `http_status` 0: the client went before there was an answer. */
void gmv_metrics_count_request(gmv_metrics *metrics, size_t route, gmv_method_label method,
                               int http_status, int64_t duration_ns);

/* Contents of device memory that came in or went out. */
void gmv_metrics_count_transfer(gmv_metrics *metrics, bool is_upload, uint64_t nbytes);

/* The whole exposition, figures of the engine included. */
void gmv_metrics_write(const gmv_metrics *metrics, const gmv_service *service, gmv_strbuf *out);

#endif
