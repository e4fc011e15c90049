/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packing in pieces: chunks end where cuDF's do, lie end to end as pack's bytes, and can be read
 * from any place on; and what is read while others write, delete or run out of memory.
 */
#include <gmv/base/num.h>

#include "ops/nested_support.h"
#include "ops/unpack_support.h"

#include "ops/chunked_pack_priv.h"

#define MIB ((size_t)1 << 20)

/* ---- sizes -------------------------------------------------------------------------------- */

static void expect_sizes(const json_t *vector)
{
    const char *name = json_string_value(json_object_get(vector, "name"));
    const json_t *buffers = json_object_get(vector, "buffer_bytes");
    const json_t *expected = json_object_get(vector, "expected_chunks");
    uint64_t ends[16], end = 0;
    cr_assert_leq(json_array_size(buffers), COUNT_OF(ends));
    for (size_t i = 0; i < json_array_size(buffers); i++)
        ends[i] = end += gmv_round_up((uint64_t)json_integer_value(json_array_get(buffers, i)),
                                      GMV_PACKED_ALIGNMENT);
    const gmv_chunks chunks = {
        .ends = ends,
        .n_buffers = json_array_size(buffers),
        .chunk_nbytes = (uint64_t)json_integer_value(json_object_get(vector, "user_buffer_size")),
        .has_rows = true,
    };
    gmv_chunk_cursor cursor = {.is_first = true};
    size_t n = 0;
    for (; gmv__chunks_have_next(&chunks, &cursor); n++)
        cr_assert_eq((json_int_t)gmv__chunks_step(&chunks, &cursor),
                     json_integer_value(json_array_get(expected, n)), "%s: chunk %zu", name, n);
    cr_assert_eq(n, json_array_size(expected), "%s", name);
    cr_assert_eq((json_int_t)cursor.offset,
                 json_integer_value(json_object_get(vector, "expected_total")), "%s", name);
}

Test(chunks, end_where_cudfs_do)
{
    json_t *vectors = load_vectors("chunked_pack.json");
    size_t index;
    json_t *vector;
    json_array_foreach (vectors, index, vector)
        expect_sizes(vector);
    cr_assert_eq(index, 13);
    json_decref(vectors);
}

Test(chunks, there_are_none_without_rows_and_one_without_buffers)
{
    gmv_chunks chunks = {.chunk_nbytes = MIB};
    gmv_chunk_cursor cursor = {.is_first = true};
    cr_assert_not(gmv__chunks_have_next(&chunks, &cursor));
    chunks.has_rows = true;
    cr_assert(gmv__chunks_have_next(&chunks, &cursor));
    cr_assert_eq(gmv__chunks_step(&chunks, &cursor), 0);
    cr_assert_not(gmv__chunks_have_next(&chunks, &cursor));
}

/* ---- tables ------------------------------------------------------------------------------- */

static int64_t int_of(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

static gmv_view *hex_view(world *w, const json_t *vector, const char *key)
{
    const json_t *text = json_object_get(vector, key);
    if (!json_is_string(text))
        return NULL;
    size_t nbytes;
    unsigned char *bytes = fixture_hex(json_string_value(text), &nbytes);
    gmv_view *view = world_view(w, bytes, nbytes);
    free(bytes);
    return view;
}

static gmv_column *vector_column(world *w, const json_t *vector)
{
    gmv_column *children[8] = {NULL};
    const json_t *given = json_object_get(vector, "children");
    for (size_t i = 0; i < json_array_size(given); i++)
        children[i] = vector_column(w, json_array_get(given, i));
    const gmv_column_request request = {
        .type = {(int32_t)int_of(vector, "type_id"), (int32_t)int_of(vector, "scale")},
        .size = int_of(vector, "size"),
        .offset = int_of(vector, "offset"),
        .data = hex_view(w, vector, "data_hex"),
        .null_mask = hex_view(w, vector, "mask_hex"),
        .children = children,
        .n_children = json_array_size(given),
    };
    return nested_create(w, &request);
}

static gmv_table *vector_table(world *w, const json_t *vector)
{
    gmv_column *columns[32] = {NULL};
    const json_t *given = json_object_get(json_object_get(vector, "table"), "columns");
    for (size_t i = 0; i < json_array_size(given); i++)
        columns[i] = vector_column(w, json_array_get(given, i));
    gmv_table *table = NULL;
    cr_assert_eq(gmv_table_create(&w->operation, columns, json_array_size(given), true,
                                  int_of(json_object_get(vector, "table"), "num_rows"), NULL,
                                  &table, &w->err),
                 GMV_OK, "%s", w->err.message);
    return table;
}

static gmv_chunked_pack *chunked(world *w, gmv_table *table, int64_t chunk_nbytes)
{
    gmv_chunked_pack *pack = NULL;
    const gmv_status status =
        gmv_chunked_pack_create(&w->operation, table, chunk_nbytes, &pack, &w->err);
    cr_assert_eq(status, GMV_OK, "%s", w->err.message);
    return pack;
}

/* The bytes of a packed handle; freed with free(). */
static uint8_t *packed_bytes(world *w, gmv_packed *packed)
{
    return world_read(w, world_gpu_data(w, packed));
}

static void expect_metadata(world *w, gmv_chunked_pack *pack, const gmv_packed *packed)
{
    gmv_packed_metadata metadata;
    cr_assert_eq(gmv_chunked_pack_metadata(pack, &w->operation, &metadata, &w->err), GMV_OK, "%s",
                 w->err.message);
    size_t nbytes;
    uint8_t *wanted = packed_encode(packed, GMV_PACKED_VERSION, &nbytes);
    uint8_t *made = malloc(nbytes + 1);
    cr_assert_eq(gmv_packed_metadata_nbytes(&metadata, GMV_PACKED_VERSION), nbytes);
    gmv_packed_metadata_encode(&metadata, GMV_PACKED_VERSION, made);
    cr_assert_eq(memcmp(made, wanted, nbytes), 0);
    gmv_packed_metadata_fini(&metadata);
    free(wanted);
    free(made);
}

/* Goes through all chunks; returns how many there were. */
static size_t expect_chunks(world *w, gmv_chunked_pack *pack, gmv_view *span, const uint8_t *wanted)
{
    uint64_t total = 0, nbytes;
    size_t n = 0;
    for (; gmv_chunked_pack_has_next(pack); n++) {
        cr_assert_eq(gmv_chunked_pack_next(pack, &w->operation, span, &nbytes, &w->err), GMV_OK,
                     "%s", w->err.message);
        uint8_t *bytes = world_read(w, span);
        if (nbytes > 0)
            cr_assert_eq(memcmp(bytes, wanted + total, nbytes), 0);
        free(bytes);
        total += nbytes;
    }
    cr_assert_eq(total, gmv_chunked_pack_total_nbytes(pack));
    cr_assert_eq(gmv_chunked_pack_next(pack, &w->operation, span, &nbytes, &w->err), GMV_ERR_VALUE);
    gmv_error_init(&w->err);
    return n;
}

static void expect_reads(world *w, gmv_chunked_pack *pack, const uint8_t *wanted)
{
    static const size_t lengths[] = {1, 7, 64, 65, 200, SIZE_MAX};
    const size_t total = (size_t)gmv_chunked_pack_total_nbytes(pack);
    uint8_t *out = malloc(total + 1);
    for (size_t first = 0; first <= total; first += total > 1024 ? 61 : 13) {
        for (size_t i = 0; i < COUNT_OF(lengths); i++) {
            const size_t nbytes = GMV_MIN(lengths[i], total - first);
            out[nbytes] = 0x5a;
            cr_assert_eq(gmv_chunked_pack_read(pack, w->streams[0], first, out, nbytes, &w->err),
                         GMV_OK, "%s", w->err.message);
            cr_assert_eq(memcmp(out, wanted + first, nbytes), 0, "%zu bytes from %zu", nbytes,
                         first);
            cr_assert_eq(out[nbytes], 0x5a);
        }
    }
    cr_assert_eq(gmv_chunked_pack_read(pack, w->streams[0], total, out, 1, &w->err),
                 GMV_ERR_OUT_OF_BOUNDS);
    cr_assert_eq(gmv_chunked_pack_read(pack, w->streams[0], UINT64_MAX, out, 2, &w->err),
                 GMV_ERR_OUT_OF_BOUNDS);
    gmv_error_init(&w->err);
    free(out);
}

Test(chunked_pack, every_vector_is_packs_bytes_in_chunks_and_from_any_place_on)
{
    world w;
    fixture_open(&w);
    json_t *vectors = load_vectors("packed_metadata.json");
    size_t index, n = 0;
    json_t *vector;
    json_array_foreach (vectors, index, vector) {
        gmv_table *table = vector_table(&w, vector);
        gmv_packed *packed = world_pack(&w, table);
        gmv_chunked_pack *pack = chunked(&w, table, (int64_t)MIB);
        uint8_t *wanted = packed_bytes(&w, packed);
        cr_assert_eq(gmv_chunked_pack_total_nbytes(pack), (uint64_t)packed->gpu_data_nbytes);
        const bool has_rows = table->n_columns > 0 && table->num_rows > 0;
        cr_assert_eq(expect_chunks(&w, pack, world_view(&w, NULL, MIB), wanted), has_rows);
        expect_reads(&w, pack, wanted);
        expect_metadata(&w, pack, packed);
        gmv_chunked_pack_destroy(pack);
        free(wanted);
        fixture_next(&w);
        n++;
    }
    cr_assert_eq(n, 62);
    json_decref(vectors);
    fixture_close(&w);
}

/* INT64 with nulls and strings of 0 to 6 characters; several chunks of 1 MiB. */
enum { LONG_ROWS = 300000 };

static gmv_table *long_table(world *w)
{
    int64_t *numbers = malloc(LONG_ROWS * sizeof *numbers);
    int32_t *offsets = malloc((LONG_ROWS + 1) * sizeof *offsets);
    uint8_t *mask = malloc(LONG_ROWS / 8 + 1);
    char *characters = malloc(LONG_ROWS * 6);
    int32_t end = 0;
    for (int32_t i = 0; i < LONG_ROWS; i++) {
        numbers[i] = (int64_t)i * 1000003;
        offsets[i] = end;
        for (int32_t k = 0; k < i % 7; k++)
            characters[end++] = (char)('a' + (i + k) % 26);
    }
    offsets[LONG_ROWS] = end;
    for (int32_t i = 0; i <= LONG_ROWS / 8; i++)
        mask[i] = (uint8_t)(i * 37 + 11);
    gmv_column *child = nested_elements(w, GMV_CUDF_INT32, offsets, LONG_ROWS + 1);
    gmv_column *const columns[] = {
        world_column(w, GMV_CUDF_INT64, LONG_ROWS - 3, 3, numbers, LONG_ROWS * sizeof *numbers,
                     mask, LONG_ROWS / 8 + 1),
        nested_over(w, GMV_CUDF_STRING, LONG_ROWS - 3, 3, world_view(w, characters, (size_t)end),
                    world_view(w, mask, LONG_ROWS / 8 + 1), &child, 1),
    };
    free(numbers);
    free(offsets);
    free(mask);
    free(characters);
    return world_table(w, columns, 2);
}

Test(chunked_pack, long_tables_are_packs_bytes_whatever_the_chunk)
{
    static const int64_t chunk_nbytes[] = {1 << 20, 1572864, 3072000, 64 << 20};
    world w;
    fixture_open(&w);
    gmv_table *table = long_table(&w);
    gmv_packed *packed = world_pack(&w, table);
    uint8_t *wanted = packed_bytes(&w, packed);
    for (size_t i = 0; i < COUNT_OF(chunk_nbytes); i++) {
        gmv_chunked_pack *pack = chunked(&w, table, chunk_nbytes[i]);
        gmv_view *span = world_view(&w, NULL, (size_t)chunk_nbytes[i]);
        const size_t n = expect_chunks(&w, pack, span, wanted);
        cr_assert_geq(n, (size_t)packed->gpu_data_nbytes / (size_t)chunk_nbytes[i]);
        expect_metadata(&w, pack, packed);
        gmv_chunked_pack_destroy(pack);
    }
    free(wanted);
    fixture_close(&w);
}

Test(chunked_pack, bytes_to_serve_are_read_from_any_place_on_within_little_memory)
{
    world w;
    fixture_open(&w);
    gmv_table *table = long_table(&w);
    uint8_t *wanted = packed_bytes(&w, world_pack(&w, table));
    gmv_bytes bytes;
    cr_assert_eq(gmv_chunked_pack_bytes(&w.operation, table, 1 << 20, &bytes, &w.err), GMV_OK);
    cr_assert(gmv_bytes_are_remote(&bytes));
    cr_assert_not(bytes.sealed);
    const gmv_id id = table->node.id;
    fixture_next(&w);
    cr_assert(world_delete(&w, &id, GMV_IF_HELD_KEEP).alive);
    const census before = world_census(&w);
    uint8_t *out = malloc(MIB);
    for (uint64_t first = 0; first < bytes.nbytes; first += MIB - 7) {
        const uint64_t nbytes = GMV_MIN(bytes.nbytes - first, (uint64_t)MIB);
        cr_assert_eq(gmv_bytes_read(&bytes, w.streams[0], first, out, nbytes, &w.err), GMV_OK);
        cr_assert_eq(memcmp(out, wanted + first, nbytes), 0);
    }
    /* More than a chunk at once, from an odd place on. */
    uint8_t *all = malloc(bytes.nbytes);
    cr_assert_eq(gmv_bytes_read(&bytes, w.streams[0], 33, all, bytes.nbytes - 33, &w.err), GMV_OK);
    cr_assert_eq(memcmp(all, wanted + 33, bytes.nbytes - 33), 0);
    free(all);
    census_assert_equal(before, world_census(&w));
    gmv_bytes_release(&bytes);
    (void)gmv_engine_reap(&w.engine);
    cr_assert_eq(world_look_up(&w, &id), GMV_ERR_HANDLE_DELETED);
    cr_assert_not(w.err.subject_alive);
    free(wanted);
    free(out);
    fixture_close(&w);
}

/* Quota for the table and one chunk is enough, whatever is read. */
Test(chunked_pack, no_more_than_a_chunk_of_device_memory_is_taken)
{
    world w;
    fixture_open(&w);
    gmv_table *table = long_table(&w);
    const uint64_t used = world_census(&w).reserved_nbytes;
    w.engine.limits.max_device_nbytes = used + MIB;
    gmv_bytes bytes;
    cr_assert_eq(gmv_chunked_pack_bytes(&w.operation, table, 1 << 20, &bytes, &w.err), GMV_OK, "%s",
                 w.err.message);
    cr_assert_gt(bytes.nbytes, 3 * MIB);
    uint8_t *out = malloc(bytes.nbytes);
    for (uint64_t first = 0; first < 70; first += 23)
        cr_assert_eq(gmv_bytes_read(&bytes, w.streams[0], first, out, bytes.nbytes - first, &w.err),
                     GMV_OK, "%s", w.err.message);
    w.engine.limits.max_device_nbytes = used + MIB - 64;
    cr_assert_eq(gmv_bytes_read(&bytes, w.streams[0], 0, out, bytes.nbytes, &w.err),
                 GMV_ERR_QUOTA_EXCEEDED);
    gmv_bytes_release(&bytes);
    free(out);
    w.engine.limits.max_device_nbytes = 0;
    fixture_close(&w);
}

/* More buffers in one chunk than are described at a time. */
Test(chunked_pack, very_many_small_buffers_fit_into_one_chunk)
{
    enum { N = 9000 };
    world w;
    fixture_open(&w);
    gmv_column **columns = calloc(N, sizeof *columns);
    uint8_t values[64];
    for (size_t i = 0; i < N; i++) {
        memset(values, (int)(i % 251), sizeof values);
        columns[i] = i < 300 ? world_column(&w, GMV_CUDF_INT8, 50, 0, values, 50, NULL, 0)
                             : columns[i % 300];
    }
    gmv_table *table = world_table(&w, columns, N);
    gmv_packed *packed = world_pack(&w, table);
    uint8_t *wanted = packed_bytes(&w, packed);
    gmv_chunked_pack *pack = chunked(&w, table, (int64_t)MIB);
    cr_assert_eq(expect_chunks(&w, pack, world_view(&w, NULL, MIB), wanted), 1);
    expect_metadata(&w, pack, packed);
    gmv_chunked_pack_destroy(pack);
    free(columns);
    free(wanted);
    fixture_close(&w);
}

/* ---- what is refused ---------------------------------------------------------------------- */

Test(chunked_pack, chunks_below_a_mebibyte_are_refused)
{
    world w;
    fixture_open(&w);
    gmv_table *table = world_table(&w, NULL, 0);
    const census before = world_census(&w);
    static const int64_t sizes[] = {0, -1, INT64_MIN, (1 << 20) - 1};
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        gmv_chunked_pack *pack = NULL;
        fixture_expect(&w, gmv_chunked_pack_create(&w.operation, table, sizes[i], &pack, &w.err),
                       GMV_ERR_VALUE, "/chunk_nbytes");
        cr_assert_null(pack);
    }
    census_assert_equal(before, world_census(&w));
    fixture_close(&w);
}

Test(chunked_pack, spans_that_do_not_fit_are_refused_and_lose_no_chunk)
{
    world w;
    fixture_open(&w);
    gmv_table *table = long_table(&w);
    gmv_chunked_pack *pack = chunked(&w, table, (int64_t)MIB);
    uint8_t *wanted = packed_bytes(&w, world_pack(&w, table));
    gmv_view *memory = world_view(&w, NULL, 2 * MIB + 64);
    const gmv_layout whole = gmv_layout_flat((int64_t)MIB);
    const gmv_layout strided = {
        .ndim = 1, .has_strides = true, .shape = {(int64_t)MIB}, .strides = {2}};
    uint64_t nbytes;
    gmv_view *spans[] = {
        world_view(&w, NULL, MIB - 1),
        world_view_as(&w, memory, GMV_DTYPE_U1, &strided, 0, NULL, GMV_MASK_NONE),
        world_view_as(&w, memory, GMV_DTYPE_U1, &whole, 1, NULL, GMV_MASK_NONE),
        world_view(&w, NULL, 0),
    };
    static const gmv_status refusals[] = {GMV_ERR_VALUE, GMV_ERR_NOT_CONTIGUOUS, GMV_ERR_VALUE,
                                          GMV_ERR_VALUE};
    for (size_t i = 0; i < COUNT_OF(spans); i++)
        fixture_expect(&w, gmv_chunked_pack_next(pack, &w.operation, spans[i], &nbytes, &w.err),
                       refusals[i], "/span");
    expect_chunks(&w, pack,
                  world_view_as(&w, memory, GMV_DTYPE_U1, &whole, 64, NULL, GMV_MASK_NONE), wanted);
    gmv_chunked_pack_destroy(pack);
    free(wanted);
    fixture_close(&w);
}

Test(chunked_pack, more_bytes_than_one_operation_may_pass_over_are_refused)
{
    const gmv_limits limits = {.max_logical_nbytes = 1000};
    world w;
    fixture_open_with(&w, &limits, 1);
    static const uint8_t zeros[2000];
    gmv_column *column = world_column(&w, GMV_CUDF_INT8, 2000, 0, zeros, 2000, NULL, 0);
    gmv_table *table = world_table(&w, &column, 1);
    gmv_bytes bytes;
    const census before = world_census(&w);
    fixture_expect(&w, gmv_chunked_pack_bytes(&w.operation, table, 1 << 20, &bytes, &w.err),
                   GMV_ERR_QUOTA_EXCEEDED, NULL);
    census_assert_equal(before, world_census(&w));
    fixture_close(&w);
}

/* ---- others write, or memory runs out ----------------------------------------------------- */

Test(chunked_pack, offsets_that_change_meanwhile_move_no_end)
{
    static const int32_t hostile[] = {-1, INT32_MIN, INT32_MAX, 0, 1000000, 5};
    world w;
    fixture_open(&w);
    gmv_column *offsets = NESTED_INT32(&w, 0, 2, 4, 9);
    gmv_column *elements =
        nested_string(&w, 9, NESTED_INT32(&w, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9), "abcdefghi");
    gmv_column *column = nested_list(&w, 3, offsets, elements);
    gmv_table *table = world_table(&w, &column, 1);
    gmv_chunked_pack *pack = chunked(&w, table, (int64_t)MIB);
    const uint64_t total = gmv_chunked_pack_total_nbytes(pack);
    uint8_t *out = malloc(total);
    for (size_t i = 0; i < COUNT_OF(hostile); i++) {
        for (size_t at = 0; at < 4; at++) {
            const gmv_view *data = i % 2 ? elements->children[0]->data : offsets->data;
            for (size_t k = 0; k < 4; k++)
                world_write(&w, data, at * 4 + k, (uint8_t)((uint32_t)hostile[i] >> 8 * k));
            cr_assert_eq(gmv_chunked_pack_total_nbytes(pack), total);
            cr_assert_eq(gmv_chunked_pack_read(pack, w.streams[0], 0, out, total, &w.err), GMV_OK);
            gmv_packed_metadata metadata;
            cr_assert_eq(gmv_chunked_pack_metadata(pack, &w.operation, &metadata, &w.err), GMV_OK);
            cr_assert_eq(metadata.entries[0].size, 3);
            gmv_packed_metadata_fini(&metadata);
            /* Each offset that is copied is cut to what was read first. */
            for (size_t place = 0; place < 16; place += 4) {
                int32_t offset;
                memcpy(&offset, out + place, sizeof offset);
                cr_assert(offset >= 0 && offset <= 9);
            }
        }
    }
    gmv_chunked_pack_destroy(pack);
    free(out);
    fixture_close(&w);
}

static gmv_status chaos_read(world *w, void *context)
{
    uint8_t out[512];
    gmv_node *node = NULL;
    GMV_TRY(gmv_operation_get(&w->operation, (const gmv_id *)context, GMV_KIND_TABLE, NULL, &node,
                              &w->err));
    gmv_bytes bytes;
    GMV_TRY(gmv_chunked_pack_bytes(&w->operation, gmv_table_of(node), 1 << 20, &bytes, &w->err));
    cr_assert_leq(bytes.nbytes, sizeof out);
    const gmv_status status = gmv_bytes_read(&bytes, w->streams[0], 0, out, bytes.nbytes, &w->err);
    gmv_bytes_release(&bytes);
    return status;
}

static gmv_status chaos_next(world *w, void *context)
{
    gmv_node *node = NULL;
    GMV_TRY(gmv_operation_get(&w->operation, (const gmv_id *)context, GMV_KIND_TABLE, NULL, &node,
                              &w->err));
    gmv_result span;
    GMV_TRY(gmv_result_prepare(&w->operation, w->engine.devices[0], MIB, GMV_CONTENTS_ZEROED, NULL,
                               false, &span, &w->err));
    gmv_chunked_pack *pack = NULL;
    gmv_status status =
        gmv_chunked_pack_create(&w->operation, gmv_table_of(node), 1 << 20, &pack, &w->err);
    uint64_t nbytes;
    gmv_packed_metadata metadata = {0};
    if (status == GMV_OK)
        status = gmv_chunked_pack_next(pack, &w->operation, span.view, &nbytes, &w->err);
    if (status == GMV_OK)
        status = gmv_chunked_pack_metadata(pack, &w->operation, &metadata, &w->err);
    gmv_packed_metadata_fini(&metadata);
    gmv_chunked_pack_destroy(pack);
    gmv_stream_abandon(w->streams[0]);
    gmv_result_discard(&w->engine, &span);
    return status;
}

static void run_chaos(gmv_status (*action)(world *w, void *context))
{
    world w;
    fixture_open(&w);
    json_t *partition = vector_partition("list_of_struct", 0);
    parcel p = parcel_of(partition, "metadata_hex");
    gmv_table *table;
    cr_assert_eq(parcel_unpack(&w, &p, parcel_view(&w, &p), &table), GMV_OK);
    gmv_id id = table->node.id;
    world_run_chaos(&w, action, &id);
    parcel_fini(&p);
    json_decref(partition);
    fixture_close(&w);
}

Test(chunked_pack, no_failure_while_reading_leaves_anything_behind)
{
    run_chaos(chaos_read);
}

Test(chunked_pack, no_failure_of_a_chunk_leaves_anything_behind)
{
    run_chaos(chaos_next);
}
