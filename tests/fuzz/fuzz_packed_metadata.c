/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as packed metadata: what is read has its buffers inside the data, and written again in
 * either layout it reads as the same. Input: the size of the data as int64, then the metadata.
 */
#include "fuzz/fuzz.h"

#include <gmv/model/cudf_type.h>
#include <gmv/model/packed_metadata.h>

static void fuzz_check_entry(const gmv_packed_entry *entry, int64_t gpu_data_nbytes)
{
    int64_t width = (int64_t)gmv_cudf_type_width(entry->type_id);
    int64_t mask_nbytes = ((int64_t)entry->size + 31) / 32 * 4;
    FUZZ_REQUIRE(gmv_cudf_type_name(entry->type_id) != NULL);
    FUZZ_REQUIRE(entry->size >= 0 && entry->num_children >= 0);
    FUZZ_REQUIRE(entry->null_count >= 0 && entry->null_count <= entry->size);
    FUZZ_REQUIRE(entry->null_count == 0 || entry->null_mask_offset >= 0);
    FUZZ_REQUIRE(entry->data_offset >= -1 && entry->null_mask_offset >= -1);
    FUZZ_REQUIRE(width == 0 || entry->size == 0 || entry->data_offset >= 0);
    if (gpu_data_nbytes < 0)
        return;
    FUZZ_REQUIRE(entry->data_offset <= gpu_data_nbytes);
    FUZZ_REQUIRE(entry->data_offset < 0 ||
                 entry->size * width <= gpu_data_nbytes - entry->data_offset);
    FUZZ_REQUIRE(entry->null_mask_offset <= gpu_data_nbytes);
    FUZZ_REQUIRE(entry->null_mask_offset < 0 ||
                 mask_nbytes <= gpu_data_nbytes - entry->null_mask_offset);
}

static void fuzz_check_equal(const gmv_packed_metadata *a, const gmv_packed_metadata *b)
{
    FUZZ_REQUIRE(a->num_columns == b->num_columns);
    FUZZ_REQUIRE(a->num_rows == b->num_rows);
    FUZZ_REQUIRE(a->n_entries == b->n_entries);
    for (size_t i = 0; i < a->n_entries; i++) {
        const gmv_packed_entry *left = &a->entries[i];
        const gmv_packed_entry *right = &b->entries[i];
        FUZZ_REQUIRE(left->type_id == right->type_id && left->scale == right->scale);
        FUZZ_REQUIRE(left->size == right->size && left->null_count == right->null_count);
        FUZZ_REQUIRE(left->data_offset == right->data_offset);
        FUZZ_REQUIRE(left->null_mask_offset == right->null_mask_offset);
        FUZZ_REQUIRE(left->num_children == right->num_children);
    }
}

static void fuzz_check_rewritten(const gmv_packed_metadata *metadata, int32_t version,
                                 int64_t gpu_data_nbytes)
{
    size_t nbytes = gmv_packed_metadata_nbytes(metadata, version);
    /* Nothing written stands for the table of nothing, which has no data. */
    if (nbytes == 0)
        return;
    uint8_t *bytes = (uint8_t *)malloc(nbytes);
    FUZZ_REQUIRE(bytes != NULL);
    gmv_packed_metadata_encode(metadata, version, bytes);
    gmv_packed_metadata again = {0};
    gmv_status status = gmv_packed_metadata_decode(bytes, nbytes, gpu_data_nbytes, &again, NULL);
    FUZZ_REQUIRE(status == GMV_OK);
    FUZZ_REQUIRE(again.version == version);
    fuzz_check_equal(metadata, &again);
    gmv_packed_metadata_fini(&again);
    free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_input input = {data, size};
    int64_t gpu_data_nbytes = fuzz_take_int64(&input);
    gmv_packed_metadata metadata = {0};
    gmv_error err;
    gmv_error_init(&err);
    gmv_status status =
        gmv_packed_metadata_decode(input.data, input.left, gpu_data_nbytes, &metadata, &err);
    if (status != GMV_OK) {
        FUZZ_REQUIRE(status == GMV_ERR_METADATA_INVALID);
        FUZZ_REQUIRE(strcmp(err.pointer, "/metadata") == 0 && err.message[0] != '\0');
        FUZZ_REQUIRE(metadata.entries == NULL);
        return 0;
    }
    for (size_t i = 0; i < metadata.n_entries; i++)
        fuzz_check_entry(&metadata.entries[i], gpu_data_nbytes);
    fuzz_check_rewritten(&metadata, GMV_PACKED_VERSION, gpu_data_nbytes);
    fuzz_check_rewritten(&metadata, GMV_PACKED_HEADERLESS, gpu_data_nbytes);
    gmv_packed_metadata_fini(&metadata);
    return 0;
}
