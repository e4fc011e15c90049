/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects as the JSON of the HTTP contract, members in its order, null where there is nothing to
 * say. Objects are held by the caller's operation. Failed allocations stay in the writer's buffer.
 */
#ifndef GMV_CODEC_ENCODE_H
#define GMV_CODEC_ENCODE_H

#include <gmv/ops/buffer.h>
#include <gmv/ops/column.h>
#include <gmv/ops/packed.h>
#include <gmv/ops/table.h>
#include <gmv/ops/view.h>
#include <gmv/registry/registry.h>

#include "codec/json_writer.h"

void gmv_encode_buffer(gmv_json_writer *writer, gmv_registry *registry, gmv_buffer *buffer);
void gmv_encode_view(gmv_json_writer *writer, gmv_registry *registry, gmv_view *view);
void gmv_encode_column(gmv_json_writer *writer, gmv_registry *registry, gmv_column *column);
void gmv_encode_table(gmv_json_writer *writer, gmv_registry *registry, gmv_table *table);

/* Longest metadata and columns that an answer on one packed handle holds; else both are null. */
#define GMV_ENCODE_PACKED_NBYTES_MAX ((size_t)16 << 20)

/* `gpu_data` is the packed handle's; without `full` metadata and columns are null. */
void gmv_encode_packed(gmv_json_writer *writer, gmv_registry *registry, gmv_packed *packed,
                       const gmv_view *gpu_data, bool full);

/* An upper bound of what the metadata of a packed handle adds to an answer, in bytes. */
size_t gmv_encode_packed_metadata_max(const gmv_packed *packed);

/* Metadata on its own, of which `nbytes` bytes were read, as a tree of columns. */
void gmv_encode_packed_inspection(gmv_json_writer *writer, const gmv_packed_metadata *metadata,
                                  size_t nbytes);

/* The view as a CUDA Array Interface object in gmvd's address space. */
void gmv_encode_cuda_array_interface(gmv_json_writer *writer, const gmv_view *view);

/* {name, type_id, scale}. */
void gmv_encode_cudf_type(gmv_json_writer *writer, gmv_cudf_type type);

/* Metadata in version 2 as a base64 string. */
void gmv_encode_metadata(gmv_json_writer *writer, const gmv_packed_metadata *metadata);

/* A line of a list of handles. */
void gmv_encode_handle_summary(gmv_json_writer *writer, const gmv_handle_info *info);
void gmv_encode_handle(gmv_json_writer *writer, const gmv_handle_info *info);
void gmv_encode_session(gmv_json_writer *writer, const gmv_session_info *info);
void gmv_encode_deletion(gmv_json_writer *writer, const gmv_deletion *deletion);
void gmv_encode_export(gmv_json_writer *writer, const gmv_buffer *buffer, bool cloned,
                       const gmv_share *share);

#endif
