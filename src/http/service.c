/* SPDX-License-Identifier: Apache-2.0 */
/* What handlers ask of the service. */
#include "config.h"

#include "http/service.h"

gmv_engine *gmv_service_engine(gmv_service *service)
{
    return &service->engine;
}

gmv_status gmv_request_target(gmv_request *request, gmv_node **out_node, gmv_error *err)
{
    gmv_kind kind = request->route->kind;
    if (!request->has_id || (kind != GMV_KIND_ANY && request->id.kind != kind))
        return gmv_fail(err, GMV_ERR_HANDLE_UNKNOWN, NULL, "there is no such %s",
                        kind == GMV_KIND_ANY ? "handle" : gmv_kind_name(kind));
    return gmv_operation_get(request->operation, &request->id, kind, NULL, out_node, err);
}
