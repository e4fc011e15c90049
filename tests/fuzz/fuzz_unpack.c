/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any metadata over any data: what is unpacked lies inside the data, says what is true of it, and
 * packs again to a table that unpacks to the same; in chunks it is the same bytes; and nothing is
 * left of it. Input: the length of the metadata in 2 bytes, little-endian, the metadata, the data.
 */
#include "fuzz/fuzz.h"

#include <gmv/base/alloc.h>
#include <gmv/gmv.h>

#define FUZZ_DATA_MAX ((size_t)1 << 16)

typedef struct fuzz_world {
    gmv_engine engine;
    gmv_stream *streams[1];
    gmv_operation operation;
    const uint8_t *data; /* what gpu_data holds */
    const gmv_view *gpu_data;
} fuzz_world;

static fuzz_world world;

static void fuzz_open(void)
{
    static const gmv_limits limits = {.max_logical_nbytes = 1 << 28, .max_handles = 100000};
    static const gmv_device_options device_options = {.cache_nbytes_max = 1 << 20};
    static const gmv_registry_options registry_options = {0};
    static bool is_open;
    if (is_open)
        return;
    is_open = true;
    gmv_device *device = NULL;
    FUZZ_REQUIRE(gmv_device_open_host(&device_options, &device, NULL) == GMV_OK);
    FUZZ_REQUIRE(gmv_engine_init(&world.engine, &device, 1, &limits, &registry_options, NULL) ==
                 GMV_OK);
    FUZZ_REQUIRE(gmv_stream_create(device, &world.streams[0], NULL) == GMV_OK);
}

/* ---- columns against the data ------------------------------------------------------------- */

static const uint8_t *fuzz_bytes(const gmv_view *view)
{
    FUZZ_REQUIRE(view->ptr >= world.gpu_data->ptr);
    FUZZ_REQUIRE(view->nbytes >= 0);
    FUZZ_REQUIRE(view->ptr + (uint64_t)view->nbytes <=
                 world.gpu_data->ptr + (uint64_t)world.gpu_data->nbytes);
    return world.data + (view->ptr - world.gpu_data->ptr);
}

static void fuzz_check_mask(const gmv_column *column)
{
    int64_t null_count = 0;
    if (!column->null_mask) {
        FUZZ_REQUIRE(column->null_count == 0);
        return;
    }
    const uint8_t *bits = fuzz_bytes(column->null_mask);
    FUZZ_REQUIRE((column->size + 7) / 8 <= column->null_mask->nbytes);
    for (int32_t row = 0; row < column->size; row++)
        null_count += !(bits[row / 8] >> row % 8 & 1);
    FUZZ_REQUIRE(null_count == column->null_count);
}

/* Where the offsets end; they must be good up to there. */
static int64_t fuzz_check_offsets(const gmv_column *offsets)
{
    const size_t width = gmv_cudf_type_width(offsets->type.id);
    int64_t previous = 0;
    for (int32_t i = 0; i < offsets->size; i++) {
        int32_t narrow = 0;
        int64_t offset = 0;
        const uint8_t *at = fuzz_bytes(offsets->data) + (size_t)i * width;
        memcpy(&narrow, at, sizeof narrow);
        offset = narrow;
        if (width == sizeof offset)
            memcpy(&offset, at, sizeof offset);
        FUZZ_REQUIRE(i == 0 ? offset == 0 : offset >= previous);
        previous = offset;
    }
    return previous;
}

static void fuzz_check_column(const gmv_column *column, unsigned depth)
{
    const int32_t type = column->type.id;
    const int64_t width = (int64_t)gmv_cudf_type_width(type);
    FUZZ_REQUIRE(depth < GMV_PACKED_DEPTH_MAX);
    FUZZ_REQUIRE(column->size >= 0 && column->offset == 0);
    fuzz_check_mask(column);
    if (width > 0 && column->size > 0) {
        FUZZ_REQUIRE(column->data->nbytes == column->size * width);
        FUZZ_REQUIRE(column->data->ptr % (uint64_t)width == 0);
        (void)fuzz_bytes(column->data);
    }
    if (type == GMV_CUDF_STRING && column->n_children == 1) {
        const int64_t end = fuzz_check_offsets(column->children[0]);
        FUZZ_REQUIRE(end == (column->data ? column->data->nbytes : 0));
        if (column->data)
            (void)fuzz_bytes(column->data);
    }
    if (type == GMV_CUDF_LIST)
        FUZZ_REQUIRE(fuzz_check_offsets(column->children[0]) == column->children[1]->size);
    for (uint32_t i = 0; i < column->n_children; i++) {
        FUZZ_REQUIRE(type != GMV_CUDF_STRUCT || column->children[i]->size == column->size);
        fuzz_check_column(column->children[i], depth + 1);
    }
}

static void fuzz_check_table(const gmv_table *table)
{
    for (uint32_t i = 0; i < table->n_columns; i++) {
        FUZZ_REQUIRE(table->columns[i]->size == table->num_rows);
        fuzz_check_column(table->columns[i], 0);
    }
}

/* ---- packing it again --------------------------------------------------------------------- */

static void fuzz_delete(const gmv_node *node)
{
    gmv_deletion deletion;
    const gmv_id id = node->id;
    FUZZ_REQUIRE(gmv_registry_delete(world.engine.registry, &world.operation.caller, &id,
                                     GMV_KIND_ANY, GMV_IF_HELD_KEEP, &deletion, NULL) == GMV_OK);
}

static uint8_t *fuzz_encode(const gmv_packed_metadata *metadata, size_t *out_nbytes)
{
    *out_nbytes = gmv_packed_metadata_nbytes(metadata, GMV_PACKED_VERSION);
    uint8_t *bytes = (uint8_t *)malloc(*out_nbytes + 1);
    FUZZ_REQUIRE(bytes != NULL);
    gmv_packed_metadata_encode(metadata, GMV_PACKED_VERSION, bytes);
    return bytes;
}

static void fuzz_check_metadata(const gmv_packed_metadata *a, const gmv_packed_metadata *b)
{
    size_t a_nbytes, b_nbytes;
    uint8_t *left = fuzz_encode(a, &a_nbytes);
    uint8_t *right = fuzz_encode(b, &b_nbytes);
    FUZZ_REQUIRE(a_nbytes == b_nbytes && memcmp(left, right, a_nbytes) == 0);
    free(left);
    free(right);
}

static uint8_t *fuzz_read(const gmv_view *view)
{
    uint8_t *bytes = (uint8_t *)malloc((size_t)view->nbytes + 1);
    FUZZ_REQUIRE(bytes != NULL);
    FUZZ_REQUIRE(gmv_copy_out(world.streams[0], bytes, view->ptr, (uint64_t)view->nbytes, NULL) ==
                 GMV_OK);
    FUZZ_REQUIRE(gmv_stream_finish(world.streams[0], NULL) == GMV_OK);
    return bytes;
}

/* In chunks it is the same. */
static void fuzz_check_chunked(gmv_table *table, const gmv_packed *packed, const uint8_t *bytes)
{
    gmv_chunked_pack *pack = NULL;
    gmv_packed_metadata metadata;
    const uint64_t total = (uint64_t)packed->gpu_data_nbytes;
    uint8_t *read = (uint8_t *)malloc((size_t)total + 1);
    FUZZ_REQUIRE(read != NULL);
    FUZZ_REQUIRE(gmv_chunked_pack_create(&world.operation, table, GMV_CHUNKED_PACK_NBYTES, &pack,
                                         NULL) == GMV_OK);
    FUZZ_REQUIRE(gmv_chunked_pack_total_nbytes(pack) == total);
    for (uint64_t first = 0; first < total; first += 200) {
        const uint64_t nbytes = total - first < 200 ? total - first : 200;
        FUZZ_REQUIRE(gmv_chunked_pack_read(pack, world.streams[0], first, read + first, nbytes,
                                           NULL) == GMV_OK);
    }
    FUZZ_REQUIRE(memcmp(read, bytes, (size_t)total) == 0);
    FUZZ_REQUIRE(gmv_chunked_pack_metadata(pack, &world.operation, &metadata, NULL) == GMV_OK);
    fuzz_check_metadata(&metadata, &packed->metadata);
    gmv_packed_metadata_fini(&metadata);
    gmv_chunked_pack_destroy(pack);
    free(read);
}

static void fuzz_check_again(gmv_table *table)
{
    gmv_packed *packed = NULL, *twice = NULL;
    gmv_table *again = NULL;
    gmv_view *view = NULL, *twice_view = NULL;
    FUZZ_REQUIRE(gmv_pack(&world.operation, table, NULL, &packed, NULL) == GMV_OK);
    FUZZ_REQUIRE(gmv_packed_gpu_data(&world.operation, packed, &view, NULL) == GMV_OK);
    FUZZ_REQUIRE(gmv_unpack(&world.operation, packed, NULL, &again, NULL) == GMV_OK);
    FUZZ_REQUIRE(gmv_pack(&world.operation, again, NULL, &twice, NULL) == GMV_OK);
    FUZZ_REQUIRE(gmv_packed_gpu_data(&world.operation, twice, &twice_view, NULL) == GMV_OK);
    fuzz_check_metadata(&packed->metadata, &twice->metadata);
    uint8_t *bytes = fuzz_read(view);
    uint8_t *twice_bytes = fuzz_read(twice_view);
    FUZZ_REQUIRE(view->nbytes == twice_view->nbytes);
    FUZZ_REQUIRE(memcmp(bytes, twice_bytes, (size_t)view->nbytes) == 0);
    fuzz_check_chunked(table, packed, bytes);
    free(bytes);
    free(twice_bytes);
    fuzz_delete(&packed->node);
    fuzz_delete(&again->node);
    fuzz_delete(&twice->node);
}

/* ---- one input ---------------------------------------------------------------------------- */

static gmv_view *fuzz_view(const uint8_t *data, size_t nbytes)
{
    gmv_result result;
    FUZZ_REQUIRE(gmv_operation_reserve(&world.operation, 2, NULL) == GMV_OK);
    FUZZ_REQUIRE(gmv_result_prepare(&world.operation, world.engine.devices[0], nbytes,
                                    GMV_CONTENTS_ZEROED, NULL, false, &result, NULL) == GMV_OK);
    FUZZ_REQUIRE(gmv_copy_in(world.streams[0], result.view->ptr, data, nbytes, NULL) == GMV_OK);
    FUZZ_REQUIRE(gmv_stream_finish(world.streams[0], NULL) == GMV_OK);
    gmv_node *const nodes[] = {&result.buffer->node, &result.view->node};
    gmv_operation_publish(&world.operation, nodes, 2);
    return result.view;
}

static void fuzz_run(const uint8_t *metadata, size_t metadata_nbytes, gmv_view *view)
{
    gmv_error err;
    gmv_table *table = NULL;
    gmv_error_init(&err);
    const gmv_status status = gmv_unpack_from_memoryviews(
        &world.operation, metadata, metadata_nbytes, view, NULL, &table, &err);
    if (status != GMV_OK) {
        FUZZ_REQUIRE(status == GMV_ERR_METADATA_INVALID);
        FUZZ_REQUIRE(strcmp(err.pointer, "/metadata") == 0 && err.message[0] != '\0');
        FUZZ_REQUIRE(table == NULL);
        return;
    }
    fuzz_check_table(table);
    fuzz_check_again(table);
    fuzz_delete(&table->node);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const gmv_caller caller = {0};
    fuzz_input input = {data, size};
    const size_t low = fuzz_take_byte(&input);
    const size_t wanted = low | (size_t)fuzz_take_byte(&input) << 8;
    const size_t metadata_nbytes = wanted < input.left ? wanted : input.left;
    const uint8_t *metadata = input.data;
    const size_t left = input.left - metadata_nbytes;
    const size_t nbytes = left < FUZZ_DATA_MAX ? left : FUZZ_DATA_MAX;
    fuzz_open();
    gmv_operation_begin(&world.operation, &world.engine, &caller, GMV_LANE_BULK, world.streams);
    gmv_view *view = nbytes > 0 ? fuzz_view(metadata + metadata_nbytes, nbytes) : NULL;
    world.data = nbytes > 0 ? metadata + metadata_nbytes : NULL;
    world.gpu_data = view;
    fuzz_run(metadata, metadata_nbytes, view);
    if (view)
        fuzz_delete(&view->node);
    gmv_operation_end(&world.operation);

    gmv_registry_counts counts;
    gmv_registry_count(world.engine.registry, &counts);
    for (int kind = 0; kind < GMV_KIND_COUNT; kind++)
        FUZZ_REQUIRE(counts.alive[kind] == 0);
    return 0;
}
