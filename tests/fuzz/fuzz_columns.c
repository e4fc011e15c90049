/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trees of columns over memory that is zero while they are made and anything afterwards: what is
 * accepted can be read, shown, packed and unpacked whatever its offsets and indices have become,
 * and nothing is left behind.
 *
 * An input is a list of columns of 16 bytes each, up to the first of type 0xff, then the bytes that
 * the memory is filled with.
 */
#include "fuzz/fuzz.h"

#include <gmv/ops/packed.h>

#include "codec/column_values.h"
#include "codec/utf8.h"

#define COLUMNS_MAX        12
#define CHILDREN_MAX       4
#define MEMORY_NBYTES      2048
#define PACKED_ENTRIES_MAX 256
#define ANSWER_NBYTES_MAX  ((size_t)1 << 16)
#define LOGICAL_NBYTES_MAX ((uint64_t)32 << 20)

typedef struct columns_world {
    gmv_engine engine;
    gmv_stream *stream;
    gmv_caller caller;
    gmv_operation operation;
    gmv_view *memory;
    size_t n;
    gmv_column *columns[COLUMNS_MAX];
} columns_world;

static columns_world world;

static void columns_open(void)
{
    gmv_device *device = NULL;
    gmv_error err;
    const gmv_limits limits = {.max_logical_nbytes = LOGICAL_NBYTES_MAX};
    gmv_error_init(&err);
    FUZZ_REQUIRE(gmv_device_open_host(NULL, &device, &err) == GMV_OK);
    FUZZ_REQUIRE(gmv_engine_init(&world.engine, &device, 1, &limits, NULL, &err) == GMV_OK);
    FUZZ_REQUIRE(gmv_stream_create(device, &world.stream, &err) == GMV_OK);
}

/* Failures that hostile input may cause; each says why. */
static bool columns_may_fail(gmv_status status, const gmv_error *err)
{
    static const gmv_status statuses[] = {
        GMV_OK,
        GMV_ERR_VALUE,
        GMV_ERR_OUT_OF_BOUNDS,
        GMV_ERR_DTYPE_UNSUPPORTED,
        GMV_ERR_QUOTA_EXCEEDED,
        GMV_ERR_DEVICE_OUT_OF_MEMORY,
        GMV_ERR_METADATA_INVALID,
    };
    for (size_t i = 0; i < sizeof statuses / sizeof statuses[0]; i++)
        if (status == statuses[i])
            return status == GMV_OK || (err->status == status && err->message[0] != '\0');
    return false;
}

/* ---- making ------------------------------------------------------------------------------- */

static void columns_make_memory(void)
{
    gmv_result result;
    gmv_error err;
    gmv_error_init(&err);
    FUZZ_REQUIRE(gmv_operation_reserve(&world.operation, 2, &err) == GMV_OK);
    FUZZ_REQUIRE(gmv_result_prepare(&world.operation, world.engine.devices[0], MEMORY_NBYTES,
                                    GMV_CONTENTS_ZEROED, NULL, false, &result, &err) == GMV_OK);
    FUZZ_REQUIRE(gmv_stream_finish(world.stream, &err) == GMV_OK);
    gmv_node *const nodes[] = {&result.buffer->node, &result.view->node};
    gmv_operation_publish(&world.operation, nodes, 2);
    world.memory = result.view;
}

/* Bytes from a place on to the end of the memory. */
static gmv_view *columns_view(unsigned place)
{
    gmv_view *view = NULL;
    gmv_error err;
    const int64_t offset = place * 8 % (MEMORY_NBYTES + 8);
    const gmv_typed_view_request request = {
        .dtype = GMV_DTYPE_U1,
        .layout = gmv_layout_flat(MEMORY_NBYTES - offset),
        .offset = offset,
    };
    gmv_error_init(&err);
    FUZZ_REQUIRE(gmv_view_create_typed(&world.operation, &world.memory->node, &request, NULL, &view,
                                       &err) == GMV_OK);
    return view;
}

static bool columns_make(fuzz_input *input)
{
    uint8_t spec[16];
    fuzz_take(input, spec, sizeof spec);
    if (spec[0] == 0xff || world.n == COLUMNS_MAX)
        return false;
    gmv_column *children[CHILDREN_MAX];
    gmv_column_request request = {
        .type = {spec[0] % (GMV_CUDF_TYPE_COUNT + 1), (int8_t)spec[1]},
        .size = spec[2] | (spec[3] & 3) << 8 | (spec[3] & 0x80 ? INT64_C(0x7ffffc00) : 0),
        .offset = spec[4],
        .data = spec[5] ? columns_view(spec[5]) : NULL,
        .null_mask = spec[6] ? columns_view(spec[6]) : NULL,
        .has_null_count = spec[7] & 1,
        .null_count = spec[7] >> 1,
        .children = children,
    };
    if (!gmv_cudf_type_is_decimal(request.type.id))
        request.type.scale = 0;
    for (; world.n > 0 && request.n_children < spec[8] % (CHILDREN_MAX + 1); request.n_children++)
        children[request.n_children] = world.columns[spec[9 + request.n_children] % world.n];
    gmv_column *column = NULL;
    gmv_error err;
    gmv_error_init(&err);
    const gmv_status status = gmv_column_create(&world.operation, &request, NULL, &column, &err);
    FUZZ_REQUIRE(columns_may_fail(status, &err));
    FUZZ_REQUIRE((status == GMV_OK) == (column != NULL));
    if (column)
        world.columns[world.n++] = column;
    return true;
}

/* What is left of the input, again and again. */
static void columns_fill(const fuzz_input *input)
{
    uint8_t bytes[MEMORY_NBYTES] = {0};
    gmv_error err;
    gmv_error_init(&err);
    for (size_t i = 0; input->left > 0 && i < sizeof bytes; i++)
        bytes[i] = input->data[i % input->left];
    FUZZ_REQUIRE(gmv_copy_in(world.stream, world.memory->ptr, bytes, sizeof bytes, &err) == GMV_OK);
    FUZZ_REQUIRE(gmv_stream_finish(world.stream, &err) == GMV_OK);
}

/* ---- reading ------------------------------------------------------------------------------ */

static void columns_check_rows(const gmv_column_rows *rows)
{
    const bool is_string = rows->type.id == GMV_CUDF_STRING;
    for (int64_t i = 0; rows->offsets && i < rows->count; i++)
        FUZZ_REQUIRE(rows->offsets[i] >= 0 && rows->offsets[i] <= rows->offsets[i + 1]);
    if (rows->offsets && !is_string)
        FUZZ_REQUIRE(rows->n_children == 1 &&
                     rows->offsets[rows->count] == rows->children[0].count);
    for (int64_t i = 0; rows->keys && i < rows->count; i++) {
        const int64_t key = rows->keys[i];
        FUZZ_REQUIRE(key == GMV_COLUMN_NO_KEY ||
                     (GMV_COLUMN_KEY_CHILD(key) < rows->n_children &&
                      GMV_COLUMN_KEY_ROW(key) < rows->children[GMV_COLUMN_KEY_CHILD(key)].count));
    }
    for (size_t i = 0; i < rows->n_children; i++)
        columns_check_rows(&rows->children[i]);
}

static void columns_read(gmv_column *column)
{
    gmv_column_rows rows;
    gmv_error err;
    const int64_t count = column->size < 300 ? column->size : 300;
    gmv_error_init(&err);
    const gmv_status status =
        gmv_column_read_rows(&world.operation, column, column->size - count, count, &rows, &err);
    FUZZ_REQUIRE(columns_may_fail(status, &err));
    if (status == GMV_OK) {
        gmv_strbuf text = GMV_STRBUF_INIT;
        gmv_json_writer writer = gmv_json_writer_over(&text);
        columns_check_rows(&rows);
        FUZZ_REQUIRE(rows.count == count);
        if (gmv_encode_column_rows(&writer, &rows, ANSWER_NBYTES_MAX))
            FUZZ_REQUIRE(text.length >= 2 && text.data[text.length - 1] == ']');
        FUZZ_REQUIRE(gmv_utf8_check(text.data, text.length, NULL));
        gmv_strbuf_fini(&text);
    }
    gmv_column_rows_fini(&rows);
}

/* The same column once more: its offsets are looked at as they are now. */
static void columns_make_again(const gmv_column *column)
{
    gmv_column *again = NULL;
    gmv_error err;
    const gmv_column_request request = {
        .type = column->type,
        .size = column->size,
        .offset = column->offset,
        .data = column->data,
        .null_mask = column->null_mask,
        .children = column->children,
        .n_children = column->n_children,
    };
    gmv_error_init(&err);
    FUZZ_REQUIRE(
        columns_may_fail(gmv_column_create(&world.operation, &request, NULL, &again, &err), &err));
}

static void columns_pack(gmv_column *column)
{
    gmv_table *table = NULL;
    gmv_packed *packed = NULL;
    gmv_error err;
    gmv_error_init(&err);
    FUZZ_REQUIRE(gmv_table_create(&world.operation, &column, 1, false, 0, NULL, &table, &err) ==
                 GMV_OK);
    gmv_status status = gmv_pack(&world.operation, table, NULL, &packed, &err);
    FUZZ_REQUIRE(columns_may_fail(status, &err));
    if (status != GMV_OK)
        return;
    /* Offsets are packed as they are; those that lead nowhere are refused when they are unpacked.
     */
    status = gmv_unpack(&world.operation, packed, NULL, &table, &err);
    FUZZ_REQUIRE(columns_may_fail(status, &err));
    if (status == GMV_OK)
        columns_read(table->columns[0]);
}

/* ---- all of it ---------------------------------------------------------------------------- */

static void columns_delete(void *context, const gmv_handle_info *info)
{
    static gmv_deletion deletion;
    gmv_error err;
    gmv_error_init(&err);
    FUZZ_REQUIRE(gmv_registry_delete(world.engine.registry, &world.caller, &info->id, info->id.kind,
                                     GMV_IF_HELD_KEEP, &deletion, &err) == GMV_OK);
}

/* Takes back every name that there is; then there must be nothing. */
static void columns_forget(void)
{
    const gmv_list_filter all_named = {.kind = GMV_KIND_ANY};
    gmv_registry_counts counts;
    uint64_t cursor = 0;
    gmv_operation_end(&world.operation);
    do {
        gmv_registry_list(world.engine.registry, &world.caller, &all_named, cursor, 100,
                          columns_delete, NULL, &cursor);
    } while (cursor != 0);
    while (gmv_engine_reap(&world.engine) > 0)
        continue;
    gmv_registry_count(world.engine.registry, &counts);
    for (size_t i = 0; i < GMV_KIND_COUNT; i++)
        FUZZ_REQUIRE(counts.alive[i] == 0);
    FUZZ_REQUIRE(world.engine.reserved_nbytes[0] == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_input input = {data, size};
    if (!world.stream)
        columns_open();
    gmv_operation_begin(&world.operation, &world.engine, &world.caller, GMV_LANE_BULK,
                        &world.stream);
    world.n = 0;
    columns_make_memory();
    while (input.left > 0 && columns_make(&input))
        continue;
    columns_fill(&input);
    for (size_t i = 0; i < world.n; i++) {
        columns_read(world.columns[i]);
        columns_make_again(world.columns[i]);
        if (world.columns[i]->n_entries <= PACKED_ENTRIES_MAX)
            columns_pack(world.columns[i]);
    }
    columns_forget();
    return 0;
}
