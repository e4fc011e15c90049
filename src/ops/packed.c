/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The packed handle: metadata, and gpu_data as its one owner. Release takes that owner away, so
 * gpu_data is only ever reached through the registry, which tells whether it is still there.
 */
#include <gmv/base/alloc.h>

#include "ops/column_priv.h"
#include "ops/packed_priv.h"

#define PACKED_OWNER_GPU_DATA 0

static void packed_destroy(gmv_node *node)
{
    gmv_packed *packed = gmv_packed_of(node);
    gmv_packed_metadata_fini(&packed->metadata);
    gmv_free(packed);
}

static uint64_t packed_nbytes(const gmv_node *node)
{
    return (uint64_t)((const gmv_packed *)node)->gpu_data_nbytes;
}

static int32_t packed_device(const gmv_node *node)
{
    return ((const gmv_packed *)node)->device;
}

static const gmv_node_class packed_class = {
    .kind = GMV_KIND_PACKED,
    .destroy = packed_destroy,
    .nbytes = packed_nbytes,
    .device = packed_device,
};

gmv_status gmv__packed_prepare(gmv_operation *operation, gmv_packed_metadata *metadata,
                               gmv_view *gpu_data, const gmv_creation *creation,
                               gmv_packed **out_packed, gmv_error *err)
{
    gmv_packed *packed = gmv_calloc(1, sizeof *packed);
    if (!packed)
        return gmv_fail_no_memory(err);
    packed->gpu_data_nbytes = gpu_data->nbytes;
    packed->device = gmv__view_device(gpu_data);

    gmv_node *const owners[] = {[PACKED_OWNER_GPU_DATA] = &gpu_data->node};
    const gmv_node_attributes attributes = gmv_operation_attributes(operation, creation, false);
    const gmv_status status =
        gmv_node_prepare(operation->engine->registry, &packed->node, &packed_class, &attributes,
                         owners, sizeof owners / sizeof owners[0], err);
    if (status != GMV_OK) {
        gmv_free(packed);
        return status;
    }
    packed->metadata = *metadata;
    *metadata = (gmv_packed_metadata){0};
    *out_packed = packed;
    return GMV_OK;
}

void gmv__packed_discard(gmv_engine *engine, gmv_packed *packed)
{
    if (!packed)
        return;
    gmv_node_discard(engine->registry, &packed->node);
    gmv_packed_metadata_fini(&packed->metadata);
    gmv_free(packed);
}

static gmv_status packed_fail_released(gmv_error *err)
{
    return gmv_fail(err, GMV_ERR_ALREADY_RELEASED, NULL,
                    "the packed handle has been released; its gpu_data is a handle of its own now");
}

gmv_status gmv_packed_gpu_data(gmv_operation *operation, gmv_packed *packed, gmv_view **out_view,
                               gmv_error *err)
{
    GMV_TRY(gmv_operation_reserve(operation, 1, err));
    gmv_node *node = NULL;
    if (!gmv_registry_hold_owner(operation->engine->registry, &packed->node, PACKED_OWNER_GPU_DATA,
                                 &node))
        return packed_fail_released(err);
    gmv_operation_adopt(operation, node);
    *out_view = gmv_view_of(node);
    return GMV_OK;
}

gmv_status gmv_packed_release(gmv_operation *operation, gmv_packed *packed, gmv_view **out_gpu_data,
                              gmv_error *err)
{
    GMV_TRY(gmv_operation_reserve(operation, 1, err));
    gmv_node *node = NULL;
    if (!gmv_registry_disown(operation->engine->registry, &packed->node, PACKED_OWNER_GPU_DATA,
                             &node))
        return packed_fail_released(err);
    gmv_operation_adopt(operation, node);
    *out_gpu_data = gmv_view_of(node);
    return GMV_OK;
}
