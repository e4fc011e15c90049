/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes to serve: regions that stay readable until they are given back, on whatever thread. */
#include <gmv/ops/buffer.h>

#include "ops/draft_priv.h"

gmv_status gmv__bytes_of_region(gmv_operation *operation, gmv_buffer *buffer, gmv_node *holder,
                                uint64_t ptr, uint64_t nbytes, gmv_bytes *out_bytes, gmv_error *err)
{
    gmv_engine *engine = operation->engine;
    *out_bytes = (gmv_bytes){.engine = engine, .sealed = buffer && gmv_buffer_is_sealed(buffer)};
    if (nbytes == 0)
        return GMV_OK;
    if (gmv_memory_is_lost(buffer->memory))
        return gmv_fail(err, GMV_ERR_MEMORY_LOST, NULL,
                        "the exporter has cut the memory short; what was made from it is lost");
    const char *host = gmv_memory_host_pointer(buffer->memory);
    if (!host)
        return gmv_fail(err, GMV_ERR_BACKEND_UNSUPPORTED, NULL,
                        "this backend's memory cannot be read in place");
    gmv_registry_hold(engine->registry, holder);
    out_bytes->host = host + (ptr - buffer->ptr);
    out_bytes->nbytes = nbytes;
    out_bytes->node = holder;
    return GMV_OK;
}

void gmv_bytes_release(gmv_bytes *bytes)
{
    if (!bytes->engine)
        return;
    gmv_engine_discard_scratch(bytes->engine, bytes->scratch, false);
    gmv_registry_release(bytes->engine->registry, bytes->node, false);
    *bytes = (gmv_bytes){0};
}
