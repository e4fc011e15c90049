/* SPDX-License-Identifier: Apache-2.0 */
/* What handlers ask of the service. */
#include "config.h"

#include "http/service.h"

gmv_engine *gmv_service_engine(gmv_service *service)
{
    return &service->engine;
}

gmv_status gmv_request_fail_condition(gmv_error *err)
{
    return gmv_fail_parameter(err, GMV_ERR_PRECONDITION_FAILED, "If-Match",
                              "If-Match or If-None-Match does not hold; nothing has been changed");
}

gmv_status gmv_request_fail_kind(const gmv_request *request, gmv_error *err)
{
    gmv_kind kind = request->route->kind;
    const char *wanted = kind == GMV_KIND_ANY ? "handle" : gmv_kind_name(kind);
    if (!request->has_id)
        return gmv_fail_parameter(err, GMV_ERR_HANDLE_UNKNOWN, "id", "there is no such %s", wanted);
    char text[GMV_ID_TEXT_MAX];
    gmv_id_format(&request->id, text);
    return gmv_fail_parameter(err, GMV_ERR_HANDLE_UNKNOWN, "id",
                              "this path is for a %s, and %s is the id of a %s", wanted, text,
                              gmv_kind_name(request->id.kind));
}

gmv_status gmv_request_target(gmv_request *request, gmv_node **out_node, gmv_error *err)
{
    gmv_kind kind = request->route->kind;
    if (!request->has_id || (kind != GMV_KIND_ANY && request->id.kind != kind))
        return gmv_request_fail_kind(request, err);
    return gmv_operation_get(request->operation, &request->id, kind, NULL, out_node, err);
}
