/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handlers called directly: whichever allocation fails, the request fails as overloaded, nothing is
 * left and no handle has been made; with enough memory each answers as the contract says.
 */
#include <stdio.h>
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <jansson.h>

#include <gmv/base/alloc.h>

#include "codec/json.h"
#include "http/router.h"
#include "http/service.h"
#include "ops/fixture.h"

/* What every case finds: ids to put into bodies and to be the path's. */
typedef struct handlers_world {
    fixture f;
    gmv_id buffer, view, bools, mask, column, table, packed;
} handlers_world;

static void handlers_open(handlers_world *world)
{
    const float values[16] = {1.5f, 2.5f};
    const uint8_t bits[64] = {0x05};
    fixture *f = &world->f;
    fixture_open(f);
    gmv_buffer *buffer = fixture_buffer(f, values, sizeof values);
    gmv_view *view = fixture_view(f, &buffer->node, GMV_DTYPE_F4, 16, 0);
    gmv_view *bools = fixture_view(f, &buffer->node, GMV_DTYPE_B1, 64, 0);
    gmv_view *mask = fixture_view_of(f, GMV_DTYPE_U1, bits, sizeof bits);
    gmv_column_request request = {
        .type = {.id = GMV_CUDF_FLOAT32}, .size = 16, .data = view, .null_mask = mask};
    gmv_column *column = NULL;
    gmv_table *table = NULL;
    gmv_packed *packed = NULL;
    cr_assert_eq(gmv_column_create(&f->operation, &request, NULL, &column, &f->err), GMV_OK);
    cr_assert_eq(gmv_table_create(&f->operation, &column, 1, false, 0, NULL, &table, &f->err),
                 GMV_OK);
    cr_assert_eq(gmv_pack(&f->operation, table, NULL, &packed, &f->err), GMV_OK);
    world->buffer = buffer->node.id;
    world->view = view->node.id;
    world->bools = bools->node.id;
    world->mask = mask->node.id;
    world->column = column->node.id;
    world->table = table->node.id;
    world->packed = packed->node.id;
    fixture_next(f);
}

typedef struct handlers_case {
    const char *operation_id;
    const char *target; /* a letter: which handle is the path's; "" for none */
    const char *body;   /* '@' or '#' and a letter: an id with or without quotes; NULL for none */
    const char *query;
    int http_status;
} handlers_case;

static const handlers_case handlers_cases[] = {
    {"createBuffer", "", "{\"nbytes\":64,\"label\":\"a\"}", "", 201},
    {"getBuffer", "b", NULL, "", 200},
    {"exportBuffer", "b", "", "", 200},
    {"createBufferView", "b", "{\"typestr\":\"<u2\",\"shape\":[2,3],\"strides\":[8,2]}", "", 201},
    {"createViewView", "v", "{\"typestr\":\"<u2\",\"shape\":[2,3],\"label\":\"x\"}", "", 201},
    {"createView", "",
     "{\"cuda_array_interface\":{\"version\":3,\"typestr\":\"<f4\",\"shape\":[0],\"data\":[0,"
     "false],\"x\":[1]},\"buffer\":@b}",
     "", 201},
    {"getView", "v", NULL, "", 200},
    {"byteSliceView", "v", "{\"start\":1,\"stop\":-1}", "", 201},
    {"copyView", "v", "{\"readonly\":true,\"label\":\"copy\"}", "", 201},
    {"getViewCudaArrayInterface", "v", NULL, "", 200},
    {"getViewValues", "v", NULL, "limit=5", 200},
    {"getViewStatistics", "v", NULL, "", 200},
    {"getViewHistogram", "v", NULL, "bins=9&max=3.5e0", 200},
    {"getViewChecksum", "v", NULL, "", 200},
    {"compareView", "v", "{\"other\":@v,\"relative_tolerance\":0.5}", "", 200},
    {"getColumnStatistics", "c", NULL, "", 200},
    {"getColumnHistogram", "c", NULL, "", 200},
    {"getColumnChecksum", "c", NULL, "algorithm=xxh64_tree&blocks", 200},
    {"compareColumn", "c", "{\"other\":@c,\"nan_equal\":true}", "", 200},
    {"boolsToMask", "", "{\"input\":@o}", "", 201},
    {"nansToNulls", "", "{\"input\":@v}", "", 201},
    {"columnNansToNulls", "", "{\"input\":@c}", "", 201},
    {"maskToBools", "", "{\"bitmask\":@m,\"end_bit\":9}", "", 201},
    {"createNullMask", "", "{\"size\":100,\"state\":\"ALL_VALID\"}", "", 201},
    {"setNullMask", "", "{\"bitmask\":@m,\"end_bit\":3,\"valid\":true}", "", 200},
    {"copyBitmask", "", "{\"column\":@c}", "", 201},
    {"copyBitmask", "", "{\"bitmask\":@m,\"begin_bit\":1,\"end_bit\":9}", "", 201},
    {"bitmaskAnd", "", "{\"columns\":[@c,@c]}", "", 201},
    {"bitmaskOr", "", "{\"columns\":[@c,@c]}", "", 201},
    {"countNulls", "", "{\"bitmask\":@m,\"end_bit\":9}", "", 200},
    {"countValid", "", "{\"bitmask\":@m,\"end_bit\":9}", "", 200},
    {"countSegmentedNulls", "", "{\"bitmask\":@m,\"ranges\":[[0,3],[3,9]]}", "", 200},
    {"findFirstSetBit", "", "{\"bitmask\":@m,\"end_bit\":9}", "", 200},
    {"getBitmaskAllocationSize", "", "{\"number_of_bits\":100}", "", 200},
    {"createColumn", "",
     "{\"type\":{\"name\":\"FLOAT32\",\"type_id\":9},\"size\":16,\"data\":@v,\"null_mask\":@m}", "",
     201},
    {"createColumnFromView", "", "{\"view\":@v}", "", 201},
    {"getColumn", "c", NULL, "", 200},
    {"getColumnValues", "c", NULL, "", 200},
    {"createTable", "", "{\"columns\":[@c,@c]}", "", 201},
    {"getTable", "t", NULL, "", 200},
    {"getTablePackedSize", "t", NULL, "", 200},
    {"getTablePackedStream", "t", NULL, "chunk_nbytes=1048576", 200},
    {"getTablePackedMetadata", "t", NULL, "metadata_version=0", 200},
    {"packTable", "t", "", "", 201},
    {"splitTable", "t", "{\"splits\":[2,5]}", "", 201},
    {"getPacked", "p", NULL, "", 200},
    {"getPackedMetadata", "p", NULL, "metadata_version=0", 200},
    {"releasePacked", "p", "", "", 200},
    {"unpackPacked", "p", "", "", 201},
    {"unpackFromMemoryviews", "", "{\"metadata\":\"\",\"gpu_data\":null}", "", 201},
    {"inspectMetadata", "",
     "{\"metadata\":\"AgAAAAEAAAACAAAAAAAAAAkAAAAAAAAAAgAAAAEAAABAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
     "AAA=\",\"gpu_data_nbytes\":128}",
     "", 200},
    {"listHandles", "", NULL, "limit=2&label=x", 200},
    {"getHandle", "v", NULL, "", 200},
    {"createBuffer", "", "{\"nbytes\":64,\"ttl_seconds\":9}", "", 201},
    {"leaseHandle", "v", "{\"ttl_seconds\":60}", "", 200},
    {"createSession", "", "{\"ttl_seconds\":60,\"label\":\"s\"}", "", 201},
    {"listSessions", "", NULL, "limit=2", 200},
    {"runBatch", "",
     "{\"operations\":[{\"method\":\"POST\",\"path\":\"/v1/buffers\",\"body\":{\"nbytes\":64}},"
     "{\"method\":\"POST\",\"path\":\"/v1/buffers/$0.id/"
     "views\",\"body\":{\"typestr\":\"|u1\","
     "\"shape\":[\"$0.nbytes\"],\"label\":\"$$\"}},{\"method\":\"DELETE\",\"path\":\"/v1/views/"
     "#v\"},"
     "{\"method\":\"DELETE\",\"path\":\"/v1/buffers/$0.id?if_held=cascade\"},"
     "{\"method\":\"POST\",\"path\":\"/v1/tables/#t/"
     "contiguous_split\",\"body\":{\"splits\":[3]}}]}",
     "", 200},
    {"deleteView", "v", NULL, "", 200},
    {"deleteBuffer", "b", NULL, "if_held=cascade", 200},
};

static const gmv_id *handlers_id(const handlers_world *world, char letter)
{
    switch (letter) {
    case 'b':
        return &world->buffer;
    case 'v':
        return &world->view;
    case 'o':
        return &world->bools;
    case 'm':
        return &world->mask;
    case 'c':
        return &world->column;
    case 't':
        return &world->table;
    default:
        return &world->packed;
    }
}

static const gmv_route *handlers_route(const char *operation_id)
{
    for (size_t i = 0; i < gmv_routes_count; i++)
        if (strcmp(gmv_routes[i].operation_id, operation_id) == 0)
            return &gmv_routes[i];
    cr_assert_fail("there is no %s", operation_id);
    return NULL;
}

static size_t handlers_body(const handlers_world *world, const char *pattern, char *out,
                            size_t capacity)
{
    size_t at = 0;
    for (; *pattern != '\0'; pattern++) {
        cr_assert_lt(at + GMV_ID_TEXT_MAX + 3, capacity);
        if (*pattern != '@' && *pattern != '#') {
            out[at++] = *pattern;
            continue;
        }
        bool quoted = *pattern == '@';
        if (quoted)
            out[at++] = '"';
        at += gmv_id_format(handlers_id(world, *++pattern), out + at);
        if (quoted)
            out[at++] = '"';
    }
    return at;
}

/* Runs the case; the n-th allocation of the handler fails (0: none does). */
static gmv_status handlers_run(handlers_world *world, const handlers_case *row, uint64_t n,
                               gmv_reply *reply, bool *out_failed)
{
    char body[1024];
    gmv_error query_err;
    static gmv_service service;
    gmv_router *router;
    cr_assert_eq(gmv_router_create(gmv_routes, gmv_routes_count, &router, NULL), GMV_OK);
    service.router = router;
    gmv_request request = {
        .service = &service,
        .operation = &world->f.operation,
        .route = handlers_route(row->operation_id),
        .request_id = "r",
    };
    gmv_error_init(&query_err);
    if (row->body != NULL) {
        request.body_nbytes = handlers_body(world, row->body, body, sizeof body);
        request.body = request.body_nbytes > 0 ? body : NULL;
    }
    if (row->target[0] != '\0') {
        request.has_id = true;
        request.id = *handlers_id(world, row->target[0]);
    }
    cr_assert_eq(gmv_query_parse(row->query, strlen(row->query), request.route->query,
                                 &request.query, &query_err),
                 GMV_OK);
    gmv_alloc_fail_once(n);
    gmv_status status = request.route->handle(&request, reply, &world->f.err);
    *out_failed = gmv_alloc_has_failed();
    gmv_alloc_fail_once(0);
    gmv_query_fini(&request.query);
    gmv_router_destroy(router);
    return status;
}

static void handlers_reply_fini(gmv_reply *reply)
{
    gmv_strbuf_fini(&reply->text);
    if (reply->has_bytes)
        gmv_bytes_release(&reply->bytes);
}

static void handlers_expect_answer(const handlers_case *row, const gmv_reply *reply)
{
    int http_status = reply->http_status != 0 ? reply->http_status : 200;
    cr_assert_eq(http_status, row->http_status, "%s: %d", row->operation_id, http_status);
    bool listed = strcmp(row->operation_id, "splitTable") == 0;
    cr_assert_eq(reply->location[0] != '\0', http_status == 201 && !listed, "%s: '%s'",
                 row->operation_id, reply->location);
    if (reply->content_type != NULL)
        return;
    json_error_t fault;
    json_t *root = json_loadb(reply->text.data, reply->text.length, JSON_REJECT_DUPLICATES, &fault);
    cr_assert_not_null(root, "%s: %s", row->operation_id, fault.text);
    cr_assert(json_is_object(root));
    json_decref(root);
}

ParameterizedTestParameters(handlers, any_failing_allocation_changes_nothing)
{
    static size_t indices[sizeof handlers_cases / sizeof handlers_cases[0]];
    for (size_t i = 0; i < sizeof indices / sizeof indices[0]; i++)
        indices[i] = i;
    return cr_make_param_array(size_t, indices, sizeof indices / sizeof indices[0]);
}

ParameterizedTest(size_t *index, handlers, any_failing_allocation_changes_nothing)
{
    const handlers_case *row = &handlers_cases[*index];
    bool failed = true;
    for (uint64_t n = 1; failed; n++) {
        handlers_world world;
        gmv_reply reply = {0};
        json_t *ready;
        handlers_open(&world);
        cr_assert_eq(gmv_json_parse("1", 1, &ready, &world.f.err), GMV_OK);
        json_decref(ready);
        fixture_state before = fixture_look(&world.f);
        gmv_status status = handlers_run(&world, row, n, &reply, &failed);
        if (failed && status != GMV_OK) {
            cr_assert_eq(status, GMV_ERR_OVERLOADED, "%s, allocation %llu: %s: %s",
                         row->operation_id, (unsigned long long)n, gmv_status_code(status),
                         world.f.err.message);
            handlers_reply_fini(&reply);
            fixture_next(&world.f);
            fixture_state after = fixture_look(&world.f);
            fixture_expect_same(&before, &after, row->operation_id);
        } else {
            cr_assert_eq(status, GMV_OK, "%s: %s: %s", row->operation_id, gmv_status_code(status),
                         world.f.err.message);
            handlers_expect_answer(row, &reply);
            handlers_reply_fini(&reply);
        }
        fixture_close(&world.f);
    }
}
