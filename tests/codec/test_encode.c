/* SPDX-License-Identifier: Apache-2.0 */
/* Objects as JSON: exactly the members of the contract, in its order, addresses exact. */
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>
#include <jansson.h>

#include <gmv/base/alloc.h>
#include <gmv/ops/packed.h>
#include <gmv/ops/table.h>

#include "codec/base64.h"
#include "codec/encode.h"
#include "ops/fixture.h"

#define ENCODE_BASE UINT64_C(9007199254740993) /* no double holds it */

/* The members' names in order, with commas. */
static void encode_expect_members(const json_t *object, const char *want)
{
    gmv_strbuf names = GMV_STRBUF_INIT;
    json_t *counted = json_incref((json_t *)(uintptr_t)object);
    for (void *at = json_object_iter(counted); at != NULL;
         at = json_object_iter_next(counted, at)) {
        if (names.length > 0)
            gmv_strbuf_putc(&names, ',');
        gmv_strbuf_puts(&names, json_object_iter_key(at));
    }
    json_decref(counted);
    cr_assert_str_eq(names.data, want);
    gmv_strbuf_fini(&names);
}

static json_t *encode_read(gmv_strbuf *out)
{
    json_error_t fault;
    cr_assert_not(gmv_strbuf_failed(out));
    json_t *root = json_loadb(out->data, out->length, JSON_REJECT_DUPLICATES, &fault);
    cr_assert_not_null(root, "%s: %s", fault.text, out->data);
    gmv_strbuf_fini(out);
    return root;
}

static void encode_expect_id(const json_t *object, const char *name, const gmv_node *node)
{
    char id[GMV_ID_TEXT_MAX];
    gmv_id_format(&node->id, id);
    cr_assert_str_eq(json_string_value(json_object_get(object, name)), id);
}

static json_int_t encode_int(const json_t *object, const char *name)
{
    cr_assert(json_is_integer(json_object_get(object, name)), "%s", name);
    return json_integer_value(json_object_get(object, name));
}

Test(encode, buffer_has_its_members)
{
    fixture f;
    fixture_open(&f);
    gmv_buffer *buffer = fixture_exported_buffer(&f, ENCODE_BASE, 64);
    gmv_strbuf out = GMV_STRBUF_INIT;
    gmv_json_writer writer = gmv_json_writer_over(&out);
    gmv_encode_buffer(&writer, f.engine.registry, buffer);
    cr_assert_not_null(strstr(out.data, "\"exporter_base\":9007199254740993,"), "%s", out.data);
    json_t *root = encode_read(&out);
    encode_expect_members(root, "id,kind,device,ptr,nbytes,readonly,origin,exporter_base,owners,"
                                "label,created_at,expires_at");
    encode_expect_id(root, "id", &buffer->node);
    cr_assert_str_eq(json_string_value(json_object_get(root, "kind")), "buffer");
    cr_assert_eq((uint64_t)encode_int(root, "ptr"), buffer->ptr);
    cr_assert_eq(json_array_size(json_object_get(root, "owners")), 0);
    cr_assert(json_is_null(json_object_get(root, "label")));
    json_decref(root);
    fixture_close(&f);
}

#define VIEW_MEMBERS                                                                              \
    "id,kind,device,ptr,nbytes,size,len,itemsize,typestr,dtype,cudf_type,shape,strides,"          \
    "contiguous,readonly,buffer,offset,obj,mask,mask_kind,cai,cuda_array_interface,owners,label," \
    "created_at,expires_at"

static json_t *encode_view(fixture *f, gmv_view *view)
{
    gmv_strbuf out = GMV_STRBUF_INIT;
    gmv_json_writer writer = gmv_json_writer_over(&out);
    gmv_encode_view(&writer, f->engine.registry, view);
    json_t *root = encode_read(&out);
    encode_expect_members(root, VIEW_MEMBERS);
    encode_expect_members(json_object_get(root, "cuda_array_interface"),
                          "data,shape,strides,typestr,version,stream");
    return root;
}

Test(encode, flat_view_has_its_members)
{
    fixture f;
    fixture_open(&f);
    const float values[10] = {1.5f};
    gmv_buffer *buffer = fixture_buffer(&f, values, sizeof values);
    gmv_view *view = fixture_view(&f, &buffer->node, GMV_DTYPE_F4, 8, 4);
    json_t *root = encode_view(&f, view);
    json_t *cai = json_object_get(root, "cai");
    encode_expect_id(root, "id", &view->node);
    encode_expect_id(root, "buffer", &buffer->node);
    encode_expect_id(root, "obj", &buffer->node);
    cr_assert_eq(encode_int(root, "nbytes"), 32);
    cr_assert_eq(encode_int(root, "size"), 32);
    cr_assert_eq(encode_int(root, "len"), 8);
    cr_assert_eq(encode_int(root, "offset"), 4);
    cr_assert_eq(encode_int(json_object_get(root, "cudf_type"), "type_id"), 9);
    cr_assert_str_eq(json_string_value(json_object_get(root, "dtype")), "float32");
    cr_assert(json_is_null(json_object_get(root, "strides")));
    cr_assert(json_is_null(json_object_get(root, "mask_kind")));
    encode_expect_members(cai, "data,shape,typestr,version");
    cr_assert_eq((uint64_t)json_integer_value(json_array_get(json_object_get(cai, "data"), 0)),
                 buffer->ptr + 4);
    cr_assert_eq(encode_int(cai, "version"), 3);
    cr_assert_eq(json_array_size(json_object_get(root, "owners")), 1);
    json_decref(root);
    fixture_close(&f);
}

Test(encode, strided_view_says_its_strides)
{
    fixture f;
    fixture_open(&f);
    const int16_t values[16] = {0};
    gmv_buffer *buffer = fixture_buffer(&f, values, sizeof values);
    gmv_view *view = NULL;
    gmv_typed_view_request request = {
        .dtype = GMV_DTYPE_F2,
        .layout = {.ndim = 2, .has_strides = true, .shape = {2, 3}, .strides = {8, -2}},
        .offset = 6,
    };
    cr_assert_eq(gmv_view_create_typed(&f.operation, &buffer->node, &request, NULL, &view, &f.err),
                 GMV_OK, "%s", f.err.message);
    json_t *root = encode_view(&f, view);
    json_t *cai = json_object_get(root, "cai");
    cr_assert(json_is_false(json_object_get(root, "contiguous")));
    cr_assert(json_is_null(json_object_get(root, "cudf_type")));
    cr_assert_eq(json_integer_value(json_array_get(json_object_get(root, "strides"), 1)), -2);
    encode_expect_members(cai, "data,shape,typestr,version,strides");
    cr_assert(json_equal(json_object_get(cai, "strides"), json_object_get(root, "strides")));
    json_decref(root);
    fixture_close(&f);
}

Test(encode, view_of_0_bytes_exports_address_0)
{
    fixture f;
    fixture_open(&f);
    gmv_buffer *buffer = fixture_buffer(&f, "12345678", 8);
    gmv_view *parent = fixture_view(&f, &buffer->node, GMV_DTYPE_U1, 8, 0);
    gmv_slice slice = {.has_start = true, .start = 5, .has_stop = true, .stop = 5};
    gmv_view *view = NULL;
    cr_assert_eq(gmv_view_byte_slice(&f.operation, parent, &slice, NULL, &view, &f.err), GMV_OK);
    json_t *root = encode_view(&f, view);
    json_t *exported = json_object_get(json_object_get(root, "cuda_array_interface"), "data");
    json_t *kept = json_object_get(json_object_get(root, "cai"), "data");
    cr_assert_eq((uint64_t)encode_int(root, "ptr"), buffer->ptr + 5);
    cr_assert_eq(json_integer_value(json_array_get(exported, 0)), 0);
    cr_assert_eq((uint64_t)json_integer_value(json_array_get(kept, 0)), buffer->ptr + 5);
    encode_expect_id(root, "obj", &parent->node);
    json_decref(root);
    fixture_close(&f);
}

Test(encode, posted_payload_is_given_back_and_a_0d_view_has_no_length)
{
    fixture f;
    fixture_open(&f);
    gmv_buffer *buffer = fixture_buffer(&f, "12345678", 8);
    gmv_cai cai = {.address = (int64_t)buffer->ptr, .dtype = GMV_DTYPE_I8, .version = 3};
    static const char text[] = "{\"shape\":[],\"x\":123456789012345678901234567890}";
    gmv_view_request request = {.cai = &cai, .payload = gmv_strndup(text, sizeof text - 1)};
    gmv_view *view = NULL;
    cr_assert_eq(gmv_view_create(&f.operation, &request, NULL, &view, &f.err), GMV_OK, "%s",
                 f.err.message);
    gmv_strbuf out = GMV_STRBUF_INIT;
    gmv_json_writer writer = gmv_json_writer_over(&out);
    gmv_encode_view(&writer, f.engine.registry, view);
    cr_assert_not_null(
        strstr(out.data, "\"cai\":{\"shape\":[],\"x\":123456789012345678901234567890},"));
    cr_assert_not_null(strstr(out.data, "\"len\":null,"));
    gmv_strbuf_fini(&out);
    fixture_close(&f);
}

/* ---- columns, tables, packed
 * --------------------------------------------------------------------- */

static gmv_column *encode_make_column(fixture *f)
{
    const int32_t values[4] = {1, 2, 3, 4};
    const uint8_t bits[4] = {0x0D};
    gmv_column *column = NULL;
    gmv_column_request request = {
        .type = {.id = GMV_CUDF_DECIMAL32, .scale = -2},
        .size = 3,
        .offset = 1,
        .data = fixture_view_of(f, GMV_DTYPE_I4, values, sizeof values),
        .null_mask = fixture_view_of(f, GMV_DTYPE_U1, bits, sizeof bits),
    };
    cr_assert_eq(gmv_column_create(&f->operation, &request, NULL, &column, &f->err), GMV_OK, "%s",
                 f->err.message);
    return column;
}

Test(encode, column_and_table_have_their_members)
{
    fixture f;
    fixture_open(&f);
    gmv_column *column = encode_make_column(&f);
    gmv_column *columns[] = {column, column};
    gmv_table *table = NULL;
    cr_assert_eq(gmv_table_create(&f.operation, columns, 2, false, 0, NULL, &table, &f.err),
                 GMV_OK);
    gmv_strbuf out = GMV_STRBUF_INIT;
    gmv_json_writer writer = gmv_json_writer_over(&out);
    gmv_encode_column(&writer, f.engine.registry, column);
    json_t *root = encode_read(&out);
    encode_expect_members(
        root, "id,kind,device,type,size,offset,null_count,nullable,data,null_mask,children,"
              "num_children,device_buffer_size,owners,label,created_at,expires_at");
    encode_expect_members(json_object_get(root, "type"), "name,type_id,scale");
    cr_assert_eq(encode_int(json_object_get(root, "type"), "scale"), -2);
    cr_assert_eq(encode_int(root, "null_count"), 1);
    cr_assert_eq(encode_int(root, "device_buffer_size"), 20);
    cr_assert(json_is_true(json_object_get(root, "nullable")));
    encode_expect_id(root, "data", &column->data->node);
    encode_expect_id(root, "null_mask", &column->null_mask->node);
    cr_assert_eq(json_array_size(json_object_get(root, "owners")), 2);
    json_decref(root);
    writer = gmv_json_writer_over(&out);
    gmv_encode_table(&writer, f.engine.registry, table);
    root = encode_read(&out);
    encode_expect_members(
        root, "id,kind,device,num_rows,num_columns,columns,owners,label,created_at,expires_at");
    cr_assert_eq(encode_int(root, "num_rows"), 3);
    cr_assert_eq(json_array_size(json_object_get(root, "columns")), 2);
    cr_assert_eq(json_array_size(json_object_get(root, "owners")), 1);
    json_decref(root);
    fixture_close(&f);
}

/* A table of one column, packed. */
static gmv_packed *encode_make_packed(fixture *f, gmv_view **out_gpu_data)
{
    gmv_column *column = encode_make_column(f);
    gmv_table *table = NULL;
    gmv_packed *packed = NULL;
    cr_assert_eq(gmv_table_create(&f->operation, &column, 1, false, 0, NULL, &table, &f->err),
                 GMV_OK);
    cr_assert_eq(gmv_pack(&f->operation, table, NULL, &packed, &f->err), GMV_OK);
    cr_assert_eq(gmv_packed_gpu_data(&f->operation, packed, out_gpu_data, &f->err), GMV_OK);
    return packed;
}

static json_t *encode_packed(fixture *f, gmv_packed *packed, bool full)
{
    gmv_view *gpu_data = NULL;
    gmv_strbuf out = GMV_STRBUF_INIT;
    gmv_json_writer writer = gmv_json_writer_over(&out);
    cr_assert_eq(gmv_packed_gpu_data(&f->operation, packed, &gpu_data, &f->err), GMV_OK);
    gmv_encode_packed(&writer, f->engine.registry, packed, gpu_data, full);
    json_t *root = encode_read(&out);
    encode_expect_members(
        root,
        "id,kind,device,num_rows,num_columns,metadata_version,metadata,metadata_nbytes,gpu_data,"
        "gpu_data_nbytes,columns,owners,label,created_at,expires_at");
    encode_expect_id(root, "gpu_data", &gpu_data->node);
    cr_assert_eq(encode_int(root, "metadata_version"), 2);
    return root;
}

Test(encode, packed_tells_its_metadata_twice_or_not_at_all)
{
    fixture f;
    fixture_open(&f);
    gmv_column *column = encode_make_column(&f);
    gmv_table *table = NULL;
    gmv_packed *packed = NULL;
    cr_assert_eq(gmv_table_create(&f.operation, &column, 1, false, 0, NULL, &table, &f.err),
                 GMV_OK);
    cr_assert_eq(gmv_pack(&f.operation, table, NULL, &packed, &f.err), GMV_OK, "%s", f.err.message);
    json_t *root = encode_packed(&f, packed, true);
    const json_t *entry = json_array_get(json_object_get(root, "columns"), 0);
    encode_expect_members(entry, "type,size,null_count,data_offset,null_mask_offset,children");
    cr_assert_eq(encode_int(entry, "size"), 3);
    cr_assert_eq(encode_int(entry, "null_count"), 1);
    const char *text = json_string_value(json_object_get(root, "metadata"));
    unsigned char bytes[128];
    unsigned char want[128];
    size_t nbytes;
    cr_assert(gmv_base64_decode(text, strlen(text), bytes, &nbytes));
    cr_assert_eq((json_int_t)nbytes, encode_int(root, "metadata_nbytes"));
    gmv_packed_metadata_encode(&packed->metadata, GMV_PACKED_VERSION, want);
    cr_assert_eq(memcmp(bytes, want, nbytes), 0);
    cr_assert_geq(gmv_encode_packed_metadata_max(packed), strlen(text) + 100);
    json_decref(root);
    root = encode_packed(&f, packed, false);
    cr_assert(json_is_null(json_object_get(root, "metadata")));
    cr_assert(json_is_null(json_object_get(root, "columns")));
    json_decref(root);
    fixture_close(&f);
}

/* The bound holds for the longest entry that there can be. */
Test(encode, metadata_is_never_longer_than_its_bound)
{
    fixture f;
    fixture_open(&f);
    gmv_view *gpu_data;
    gmv_packed *packed = encode_make_packed(&f, &gpu_data);
    const gmv_packed_metadata kept = packed->metadata;
    gmv_packed_entry entries[3];
    for (size_t i = 0; i < 3; i++)
        entries[i] = (gmv_packed_entry){.type_id = GMV_CUDF_TIMESTAMP_MILLISECONDS,
                                        .scale = INT32_MIN,
                                        .size = INT32_MAX,
                                        .null_count = INT32_MAX,
                                        .data_offset = INT64_MAX,
                                        .null_mask_offset = INT64_MAX};
    entries[0].num_children = 1;
    packed->metadata = (gmv_packed_metadata){.version = GMV_PACKED_VERSION,
                                             .num_columns = 2,
                                             .num_rows = 1,
                                             .n_entries = 3,
                                             .entries = entries};
    size_t lengths[2];
    for (int full = 0; full < 2; full++) {
        gmv_strbuf out = GMV_STRBUF_INIT;
        gmv_json_writer writer = gmv_json_writer_over(&out);
        gmv_encode_packed(&writer, f.engine.registry, packed, gpu_data, full == 1);
        lengths[full] = out.length;
        json_t *root = encode_read(&out);
        if (full == 1) {
            const json_t *columns = json_object_get(root, "columns");
            cr_assert_eq(json_array_size(columns), 2);
            cr_assert_eq(json_array_size(json_object_get(json_array_get(columns, 0), "children")),
                         1);
        }
        json_decref(root);
    }
    cr_assert_leq(lengths[1] - lengths[0], gmv_encode_packed_metadata_max(packed));
    packed->metadata = kept;
    fixture_close(&f);
}

/* A column that is a child many times over makes trees far larger than what was posted. */
Test(encode, a_huge_tree_leaves_its_metadata_to_the_bytes)
{
    enum { N = 70000 };
    fixture f;
    fixture_open(&f);
    gmv_view *gpu_data;
    gmv_packed *packed = encode_make_packed(&f, &gpu_data);
    const gmv_packed_metadata kept = packed->metadata;
    gmv_packed_entry *entries = calloc(N, sizeof *entries);
    for (size_t i = 0; i < N; i++)
        entries[i] = (gmv_packed_entry){.type_id = GMV_CUDF_INT8};
    entries[0] = (gmv_packed_entry){.type_id = GMV_CUDF_STRUCT};
    for (size_t n = N - 60000; n <= N; n += 60000) {
        entries[0].num_children = (int32_t)n - 1;
        packed->metadata =
            (gmv_packed_metadata){.num_columns = 1, .n_entries = n, .entries = entries};
        gmv_strbuf out = GMV_STRBUF_INIT;
        gmv_json_writer writer = gmv_json_writer_over(&out);
        gmv_encode_packed(&writer, f.engine.registry, packed, gpu_data, true);
        cr_assert_lt(out.length, GMV_ENCODE_PACKED_NBYTES_MAX);
        json_t *root = encode_read(&out);
        const bool is_whole = n < N;
        cr_assert_eq(json_is_array(json_object_get(root, "columns")), is_whole);
        cr_assert_eq(json_is_null(json_object_get(root, "metadata")), !is_whole);
        cr_assert_eq(json_integer_value(json_object_get(root, "metadata_nbytes")),
                     (json_int_t)(16 + 40 * n));
        json_decref(root);
    }
    packed->metadata = kept;
    free(entries);
    fixture_close(&f);
}

/* ---- handles
 * ------------------------------------------------------------------------------------- */

Test(encode, handles_and_deletions_have_their_members)
{
    fixture f;
    fixture_open(&f);
    gmv_buffer *buffer = fixture_buffer(&f, "12345678", 8);
    gmv_view *view = fixture_view(&f, &buffer->node, GMV_DTYPE_U1, 8, 0);
    gmv_id id = buffer->node.id;
    gmv_handle_info info;
    gmv_deletion deletion;
    cr_assert_eq(gmv_registry_describe(f.engine.registry, &f.caller, &id, &info, &f.err), GMV_OK);
    gmv_strbuf out = GMV_STRBUF_INIT;
    gmv_json_writer writer = gmv_json_writer_over(&out);
    gmv_encode_handle_summary(&writer, &info);
    json_t *root = encode_read(&out);
    encode_expect_members(
        root, "id,kind,named,deleted,label,device,nbytes,created_at,expires_at,session");
    cr_assert(json_is_null(json_object_get(root, "expires_at")));
    cr_assert(json_is_null(json_object_get(root, "session")));
    json_decref(root);
    writer = gmv_json_writer_over(&out);
    gmv_encode_handle(&writer, &info);
    root = encode_read(&out);
    encode_expect_members(root, "id,kind,named,alive,deleted,reason,owners,dependents,"
                                "dependents_count,in_flight,nbytes,expires_at,session");
    cr_assert(json_is_null(json_object_get(root, "reason")));
    cr_assert_eq(encode_int(root, "dependents_count"), 1);
    json_decref(root);
    cr_assert(fixture_delete(&f, &id, GMV_IF_HELD_KEEP, &deletion));
    writer = gmv_json_writer_over(&out);
    gmv_encode_deletion(&writer, &deletion);
    root = encode_read(&out);
    encode_expect_members(root, "id,alive,deleted,freed,freed_count,freed_nbytes,kept_alive_by,"
                                "kept_alive_by_count,in_flight");
    cr_assert(json_is_true(json_object_get(root, "alive")));
    cr_assert_eq(json_array_size(json_object_get(root, "kept_alive_by")), 1);
    json_decref(root);
    cr_assert_eq(view->size, 8);
    fixture_close(&f);
}

Test(encode, export_says_one_of_two_ways)
{
    gmv_buffer buffer = {.node = {.id = {.kind = GMV_KIND_BUFFER}}};
    gmv_share share = {.mechanism = GMV_SHARE_POSIX_SHM,
                       .shm_name = "/gmvd-x",
                       .offset = 64,
                       .nbytes = 8,
                       .device_uuid = "GPU-1"};
    gmv_strbuf out = GMV_STRBUF_INIT;
    gmv_json_writer writer = gmv_json_writer_over(&out);
    gmv_encode_export(&writer, &buffer, true, &share);
    cr_assert_str_eq(
        out.data,
        "{\"buffer\":\"buf_00000000000000000000000000\",\"cloned\":true,\"cuda_ipc\":null,"
        "\"posix_shm\":{\"name\":\"/gmvd-x\",\"offset\":64,\"nbytes\":8}}");
    gmv_strbuf_fini(&out);
    share.mechanism = GMV_SHARE_CUDA_IPC;
    writer = gmv_json_writer_over(&out);
    gmv_encode_export(&writer, &buffer, false, &share);
    json_t *root = encode_read(&out);
    encode_expect_members(json_object_get(root, "cuda_ipc"), "handle,offset,nbytes,device_uuid");
    cr_assert_eq(
        strlen(json_string_value(json_object_get(json_object_get(root, "cuda_ipc"), "handle"))),
        88);
    cr_assert(json_is_null(json_object_get(root, "posix_shm")));
    json_decref(root);
}

Test(encode, every_failing_allocation_shows_in_the_buffer)
{
    fixture f;
    fixture_open(&f);
    gmv_view *gpu_data;
    gmv_packed *packed = encode_make_packed(&f, &gpu_data);
    int64_t live = gmv_alloc_live();
    uint64_t n = 1;
    for (;; n++) {
        gmv_strbuf out = GMV_STRBUF_INIT;
        gmv_json_writer writer = gmv_json_writer_over(&out);
        gmv_alloc_fail_once(n);
        gmv_encode_packed(&writer, f.engine.registry, packed, gpu_data, true);
        bool failed = gmv_alloc_has_failed();
        gmv_alloc_fail_once(0);
        cr_assert_eq(gmv_strbuf_failed(&out), failed);
        gmv_strbuf_fini(&out);
        cr_assert_eq(gmv_alloc_live(), live);
        if (!failed)
            break;
    }
    cr_assert_gt(n, 4);
    fixture_close(&f);
}
