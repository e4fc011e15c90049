/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Array interface payloads from their text to a view: every case of the vectors comes out as they
 * say, the code included; and well-formed JSON of the wrong shape names its member.
 */
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/parameterized.h>

#include <gmv/base/alloc.h>

#include "codec/decode.h"
#include "codec/json.h"
#include "codec/utf8.h"
#include "ops/fixture.h"
#include "support/vectors.h"

#define CAI_GOOD_MIN    130
#define CAI_REFUSED_MIN 215
#define CAI_NBYTES_MAX  (1u << 20)

/* Here memory of 0 bytes has no address, so none is inside it: such a view is posted with address
 * 0. */
#define CAI_NOWHERE "valid-buffer-of-0-bytes"

typedef struct cai_body {
    gmv_cai_payload payload;
} cai_body;

static const gmv_field cai_fields[] = {
    GMV_FIELD_REQUIRED("cuda_array_interface", CAI, cai_body, payload),
    GMV_FIELD_END,
};

static gmv_status cai_decode(const char *payload, size_t length, cai_body *body,
                             gmv_document *document, gmv_error *err)
{
    gmv_strbuf text = GMV_STRBUF_INIT;
    gmv_strbuf_puts(&text, "{\"cuda_array_interface\":");
    gmv_strbuf_append(&text, payload, length);
    gmv_strbuf_puts(&text, "}");
    cr_assert_not(gmv_strbuf_failed(&text));
    gmv_error_init(err);
    memset(body, 0, sizeof *body);
    gmv_status status = gmv_decode_body(text.data, text.length, cai_fields, body, document, err);
    gmv_strbuf_fini(&text);
    return status;
}

/* ---- the vectors
 * --------------------------------------------------------------------------------- */

/* The payload's text: as given, or written from the case's value. The caller frees it. */
static char *cai_case_text(const json_t *item)
{
    const json_t *text = json_object_get(item, "payload_text");
    if (json_is_string(text))
        return strdup(json_string_value(text));
    gmv_strbuf out = GMV_STRBUF_INIT;
    gmv_json_writer writer = gmv_json_writer_over(&out);
    gmv_json_put_value(&writer, json_object_get(item, "payload"));
    char *copy = strdup(out.data);
    gmv_strbuf_fini(&out);
    return copy;
}

static gmv_status cai_make(fixture *f, const char *text, gmv_buffer *named, gmv_view **view)
{
    cai_body body;
    gmv_document document;
    gmv_status status = cai_decode(text, strlen(text), &body, &document, &f->err);
    if (status != GMV_OK)
        return status;
    gmv_view_request request = {
        .cai = &body.payload.cai,
        .mask = body.payload.has_mask ? &body.payload.mask : NULL,
        .buffer = named,
        .payload = document.payload,
    };
    status = gmv_view_create(&f->operation, &request, NULL, view, &f->err);
    if (status == GMV_OK)
        document.payload = NULL;
    gmv_document_fini(&document);
    return status;
}

static void cai_expect_mask(const gmv_view *view, const json_t *expect, const char *name)
{
    const json_t *mask = json_object_get(expect, "mask");
    if (mask == NULL) {
        cr_assert_null(view->mask, "%s has a mask", name);
        return;
    }
    cr_assert_not_null(view->mask, "%s has no mask", name);
    cr_assert_eq((json_int_t)gmv_view_offset(view->mask), vectors_int(mask, "offset"), "%s", name);
    cr_assert_eq(view->mask->nbytes, vectors_int(mask, "nbytes"), "%s", name);
    cr_assert_str_eq(gmv_mask_kind_name(view->mask_kind), vectors_text(mask, "kind"));
}

static void cai_expect_view(const gmv_view *view, const json_t *expect, const char *name)
{
    const gmv_dtype_info *dtype = gmv_dtype_describe(view->dtype);
    const json_t *len = json_object_get(expect, "len");
    const json_t *type = json_object_get(expect, "cudf_type_id");
    cr_assert_eq(view->nbytes, vectors_int(expect, "nbytes"), "%s: nbytes", name);
    cr_assert_eq(view->size, vectors_int(expect, "size"), "%s: size", name);
    cr_assert_eq(view->ndim, vectors_int(expect, "ndim"), "%s: ndim", name);
    cr_assert_eq(dtype->itemsize, vectors_int(expect, "itemsize"), "%s: itemsize", name);
    cr_assert_eq(gmv_view_length(view), json_is_null(len) ? -1 : json_integer_value(len), "%s: len",
                 name);
    cr_assert_eq(dtype->cudf_type,
                 json_is_null(type) ? GMV_CUDF_NONE : (int32_t)json_integer_value(type), "%s: type",
                 name);
    cr_assert_eq(view->contiguous, json_is_true(json_object_get(expect, "contiguous")),
                 "%s: contiguous", name);
    cr_assert_eq(view->readonly, json_is_true(json_object_get(expect, "readonly")), "%s: readonly",
                 name);
    if (view->buffer != NULL)
        cr_assert_eq((json_int_t)gmv_view_offset(view), vectors_int(expect, "offset"), "%s: offset",
                     name);
    cai_expect_mask(view, expect, name);
}

/* The kept text says what was posted, member for member. */
static void cai_expect_payload(const gmv_view *view, const char *text, const char *name)
{
    json_t *posted;
    json_t *kept;
    gmv_error err;
    gmv_error_init(&err);
    cr_assert_eq(gmv_json_parse(text, strlen(text), &posted, &err), GMV_OK);
    cr_assert_eq(gmv_json_parse(view->payload, strlen(view->payload), &kept, &err), GMV_OK,
                 "%s: %s", name, view->payload);
    cr_assert(json_equal(posted, kept), "%s: %s became %s", name, text, view->payload);
    json_decref(posted);
    json_decref(kept);
}

/*
 * A registered buffer that clients see at `base`. Of one that is too large to be had only the claim
 * is made: nothing here touches its bytes.
 */
static gmv_buffer *cai_register(fixture *f, uint64_t base, uint64_t nbytes)
{
    gmv_memory *memory;
    gmv_buffer *buffer;
    gmv_stream *stream = f->streams[0];
    uint64_t held = nbytes < CAI_NBYTES_MAX ? nbytes : CAI_NBYTES_MAX;
    cr_assert_eq(gmv_engine_allocate(&f->engine, f->engine.devices[0], stream, GMV_MEMORY_ORDINARY,
                                     GMV_CONTENTS_ZEROED, held, &memory, &f->err),
                 GMV_OK);
    cr_assert_eq(gmv_operation_reserve(&f->operation, 1, &f->err), GMV_OK);
    cr_assert_eq(gmv_buffer_prepare(&f->operation, memory, GMV_ORIGIN_ALLOCATED, false, &base, NULL,
                                    false, &buffer, &f->err),
                 GMV_OK);
    buffer->nbytes = nbytes;
    for (size_t i = 0; i < buffer->node.n_ranges; i++)
        buffer->ranges[i].end = buffer->ranges[i].begin + nbytes;
    gmv_node *node = &buffer->node;
    gmv_operation_publish(&f->operation, &node, 1);
    return buffer;
}

static bool cai_run_case(const json_t *item)
{
    const char *name = vectors_text(item, "name");
    const json_t *expect = json_object_get(item, "expect");
    const json_t *buffer = json_object_get(item, "buffer");
    bool good = json_is_true(json_object_get(expect, "ok"));
    const char *code = json_string_value(json_object_get(expect, "code"));
    char *text = cai_case_text(item);
    gmv_view *view = NULL;
    fixture f;
    fixture_open(&f);
    gmv_buffer *registered = cai_register(&f, (uint64_t)vectors_int(buffer, "ptr"),
                                          (uint64_t)vectors_int(buffer, "nbytes"));
    fixture_state before = fixture_look(&f);
    /* Memory of 0 bytes is found by its name only: there is no byte that an address could be of. */
    gmv_buffer *named = registered->nbytes == 0 ? registered : NULL;
    gmv_status status = cai_make(&f, text, named, &view);
    if (good) {
        cr_assert_eq(status, GMV_OK, "%s: %s: %s", name, gmv_status_code(status), f.err.message);
        cai_expect_view(view, expect, name);
        cai_expect_payload(view, text, name);
    } else {
        fixture_state after = fixture_look(&f);
        cr_assert_str_eq(gmv_status_code(status), code, "%s: %s, not %s: %s", name,
                         gmv_status_code(status), code, f.err.message);
        cr_assert(gmv_utf8_check(f.err.message, strlen(f.err.message), NULL), "%s", name);
        fixture_expect_same(&before, &after, name);
    }
    registered->nbytes = registered->memory->nbytes;
    fixture_close(&f);
    free(text);
    return good;
}

Test(cai_json, vectors_come_out_as_they_say)
{
    json_t *ready;
    gmv_error err;
    size_t n_good = 0;
    gmv_error_init(&err);
    cr_assert_eq(gmv_json_parse("1", 1, &ready, &err), GMV_OK);
    json_decref(ready);
    json_t *vectors = vectors_load("cai.json");
    size_t n = json_array_size(vectors);
    for (size_t i = 0; i < n; i++)
        n_good += cai_run_case(json_array_get(vectors, i));
    cr_assert_geq(n_good, CAI_GOOD_MIN);
    cr_assert_geq(n - n_good, CAI_REFUSED_MIN);
    json_decref(vectors);
}

/* ---- pointers
 * ------------------------------------------------------------------------------------ */

static const struct cai_refusal {
    const char *payload;
    gmv_status status;
    const char *pointer; /* below /cuda_array_interface */
} cai_refusals[] = {
    {"5", GMV_ERR_TYPE, ""},
    {"null", GMV_ERR_TYPE, ""},
    {"[]", GMV_ERR_TYPE, ""},
    {"{}", GMV_ERR_VALUE, "/version"},
    {"{\"version\":3}", GMV_ERR_VALUE, "/typestr"},
    {"{\"version\":3,\"typestr\":\"<f4\"}", GMV_ERR_VALUE, "/shape"},
    {"{\"version\":3,\"typestr\":\"<f4\",\"shape\":[]}", GMV_ERR_VALUE, "/data"},
    /* types come before values, wherever they are */
    {"{\"version\":9,\"typestr\":7}", GMV_ERR_TYPE, "/typestr"},
    {"{\"version\":3,\"typestr\":\"f4\",\"shape\":[1,\"2\"],\"data\":[0,false]}", GMV_ERR_TYPE,
     "/shape/1"},
    {"{\"version\":3,\"typestr\":\"f4\",\"shape\":[1],\"data\":[null,false]}", GMV_ERR_TYPE,
     "/data/0"},
    {"{\"version\":3,\"typestr\":\"<f4\",\"shape\":[1],\"data\":[1,0]}", GMV_ERR_TYPE, "/data/1"},
    {"{\"version\":3,\"typestr\":\"<f4\",\"shape\":[1],\"data\":[1]}", GMV_ERR_VALUE, "/data"},
    {"{\"version\":3,\"typestr\":\"<f4\",\"shape\":[1],\"data\":[1,false,0]}", GMV_ERR_VALUE,
     "/data"},
    {"{\"version\":3,\"typestr\":\"<f4\",\"shape\":[1],\"data\":[99999999999999999999,false]}",
     GMV_ERR_VALUE, "/data/0"},
    {"{\"version\":3,\"typestr\":\"<f4\",\"shape\":[1e400],\"data\":[1,false]}", GMV_ERR_VALUE,
     "/shape/0"},
    {"{\"version\":3,\"typestr\":\"<f4\",\"shape\":[4.0],\"data\":[1,false]}", GMV_ERR_TYPE,
     "/shape/0"},
    {"{\"version\":3,\"typestr\":\"<f4\",\"shape\":[-1],\"data\":[64,false]}", GMV_ERR_VALUE,
     "/shape/0"},
    {"{\"version\":3,\"typestr\":\"<f4\",\"shape\":[1],\"data\":[64,false],\"strides\":[4,4]}",
     GMV_ERR_VALUE, "/strides"},
    {"{\"version\":3,\"typestr\":\"<f4\",\"shape\":[1],\"data\":[64,false],\"strides\":[true]}",
     GMV_ERR_TYPE, "/strides/0"},
    {"{\"version\":3,\"typestr\":\"<f4\",\"shape\":[1],\"data\":[64,false],\"stream\":0}",
     GMV_ERR_VALUE, "/stream"},
    {"{\"version\":3,\"typestr\":\"<f4\",\"shape\":[1],\"data\":[64,false],\"stream\":\"1\"}",
     GMV_ERR_TYPE, "/stream"},
    {"{\"version\":3,\"typestr\":\"<f4\",\"shape\":[1],\"data\":[64,false],\"stream\":777}",
     GMV_ERR_VALUE, "/stream"},
    {"{\"version\":4,\"typestr\":\"<f4\",\"shape\":[1],\"data\":[64,false]}", GMV_ERR_VALUE,
     "/version"},
    {"{\"version\":3.5,\"typestr\":\"<f4\",\"shape\":[1],\"data\":[64,false]}", GMV_ERR_TYPE,
     "/version"},
    {"{\"version\":3,\"typestr\":\"|t1\",\"shape\":[1],\"data\":[64,false]}",
     GMV_ERR_DTYPE_UNSUPPORTED, "/typestr"},
    {"{\"version\":3,\"typestr\":\"<f4\",\"shape\":[1],\"data\":[64,false],\"descr\":[[\"\",7]]}",
     GMV_ERR_TYPE, "/descr/0/1"},
    {"{\"version\":3,\"typestr\":\"<f4\",\"shape\":[1],\"data\":[64,false],\"descr\":[[\"\","
     "\"<f2\",[\"2\"]]]}",
     GMV_ERR_TYPE, "/descr/0/2/0"},
    {"{\"version\":3,\"typestr\":\"<f4\",\"shape\":[1],\"data\":[64,false],\"descr\":[[\"\","
     "\"<f2\",[3]]]}",
     GMV_ERR_VALUE, "/descr"},
    {"{\"version\":3,\"typestr\":\"<f4\",\"shape\":[1],\"data\":[64,false],\"descr\":[[\"a\","
     "[[\"b\",\"f2\"]]]]}",
     GMV_ERR_VALUE, "/descr/0/1/0/1"},
    {"{\"version\":3,\"typestr\":\"<f4\",\"shape\":[1],\"data\":[64,false],\"descr\":[[\"a\","
     "\"<V999999999\",[9223372036854775807]]]}",
     GMV_ERR_VALUE, "/descr/0/2"},
    {"{\"version\":3,\"typestr\":\"<f4\",\"shape\":[1],\"data\":[64,false],\"mask\":7}",
     GMV_ERR_TYPE, "/mask"},
    {"{\"version\":3,\"typestr\":\"<f4\",\"shape\":[1],\"data\":[64,false],\"mask\":{}}",
     GMV_ERR_VALUE, "/mask/version"},
    {"{\"version\":3,\"typestr\":\"<f4\",\"shape\":[1],\"data\":[64,false],\"mask\":{\"shape\":["
     "null]}}",
     GMV_ERR_TYPE, "/mask/shape/0"},
    {"{\"version\":3,\"typestr\":\"<f4\",\"shape\":[1],\"data\":[64,false],\"mask\":{\"version\":3,"
     "\"typestr\":\"|b1\",\"shape\":[1],\"data\":[64,false],\"mask\":{}}}",
     GMV_ERR_VALUE, "/mask/mask"},
    {"{\"version\":3,\"typestr\":\"<f4\",\"shape\":[1],\"data\":[64,false],\"mask\":{\"version\":3,"
     "\"typestr\":\"|b1\",\"shape\":[-1],\"data\":[64,false]}}",
     GMV_ERR_VALUE, "/mask/shape/0"},
};

ParameterizedTestParameters(cai_json, refusal_names_the_member)
{
    static size_t indices[sizeof cai_refusals / sizeof cai_refusals[0]];
    for (size_t i = 0; i < sizeof indices / sizeof indices[0]; i++)
        indices[i] = i;
    return cr_make_param_array(size_t, indices, sizeof indices / sizeof indices[0]);
}

ParameterizedTest(size_t *index, cai_json, refusal_names_the_member)
{
    const struct cai_refusal *row = &cai_refusals[*index];
    cai_body body;
    gmv_document document;
    gmv_error err;
    char pointer[GMV_ERROR_POINTER_MAX];
    gmv_alloc_watch(1);
    gmv_status status = cai_decode(row->payload, strlen(row->payload), &body, &document, &err);
    cr_assert_eq(status, row->status, "%s: %s", row->payload, gmv_status_code(status));
    snprintf(pointer, sizeof pointer, "/cuda_array_interface%s", row->pointer);
    cr_assert(err.has_pointer);
    cr_assert_str_eq(err.pointer, pointer, "%s: %s", row->payload, err.pointer);
    cr_assert_eq(gmv_alloc_live(), 0);
}

/* Each known member in turn holds each thing that it must not. */
Test(cai_json, wrong_shapes_name_their_member)
{
    static const char *const members[] = {"version", "typestr", "shape", "data",
                                          "strides", "stream",  "descr", "mask"};
    static const char *const good[] = {"3",    "\"<f4\"", "[1]",  "[64,false]",
                                       "null", "null",    "null", "null"};
    static const char *const values[] = {"null", "true", "\"x\"", "-1",    "1.5",
                                         "[]",   "{}",   "[[1]]", "1e999", "99999999999999999999"};
    enum { N = sizeof members / sizeof members[0], V = sizeof values / sizeof values[0] };
    for (size_t wrong = 0; wrong < N; wrong++) {
        for (size_t value = 0; value < V; value++) {
            gmv_strbuf text = GMV_STRBUF_INIT;
            for (size_t i = 0; i < N; i++)
                gmv_strbuf_printf(&text, "%c\"%s\":%s", i == 0 ? '{' : ',', members[i],
                                  i == wrong ? values[value] : good[i]);
            gmv_strbuf_puts(&text, "}");
            cai_body body;
            gmv_document document;
            gmv_error err;
            gmv_status status = cai_decode(text.data, text.length, &body, &document, &err);
            if (status == GMV_OK) {
                /* Left out, an empty shape of one element, or one that is allowed to be so. */
                bool harmless = strcmp(values[value], good[wrong]) == 0 ||
                                (wrong == 2 && strcmp(values[value], "[]") == 0);
                cr_assert(harmless, "%s passed", text.data);
                gmv_document_fini(&document);
            } else {
                char pointer[64];
                snprintf(pointer, sizeof pointer, "/cuda_array_interface/%s", members[wrong]);
                cr_assert(status == GMV_ERR_TYPE || status == GMV_ERR_VALUE, "%s: %s", text.data,
                          gmv_status_code(status));
                cr_assert_eq(strncmp(err.pointer, pointer, strlen(pointer)), 0, "%s: %s", text.data,
                             err.pointer);
            }
            gmv_strbuf_fini(&text);
        }
    }
}

/* ---- what is kept
 * -------------------------------------------------------------------------------- */

Test(cai_json, unknown_members_and_big_numbers_come_back)
{
    static const char text[] =
        " { \"shape\" : [ 4 ] , \"typestr\" : \"<f4\" , \"data\" : [ 9007199254740993 , false ] , "
        "\"version\" : 3 , \"x\" : { \"n\" : 123456789012345678901234567890 , \"r\" : 1e999 } , "
        "\"mask\" : null, \"\\u00fc\" : 0.1 } ";
    cai_body body;
    gmv_document document;
    gmv_error err;
    cr_assert_eq(cai_decode(text, sizeof text - 1, &body, &document, &err), GMV_OK, "%s",
                 err.message);
    cr_assert_eq(body.payload.cai.address, 9007199254740993);
    cr_assert_str_eq(
        document.payload,
        "{\"shape\":[4],\"typestr\":\"<f4\",\"data\":[9007199254740993,false],\"version\":3,"
        "\"x\":{\"n\":123456789012345678901234567890,\"r\":1e999},\"mask\":null,"
        "\"\xC3\xBC\":0.1}");
    gmv_document_fini(&document);
}

Test(cai_json, nests_as_deep_as_allowed_and_no_deeper)
{
    for (int depth = 30; depth <= 34; depth++) {
        char text[512] =
            "{\"version\":3,\"typestr\":\"|u1\",\"shape\":[0],\"data\":[0,false],\"x\":";
        size_t at = strlen(text);
        memset(text + at, '[', (size_t)depth - 1);
        memset(text + at + depth - 1, ']', (size_t)depth - 1);
        text[at + 2 * (size_t)(depth - 1)] = '}';
        cai_body body;
        gmv_document document;
        gmv_error err;
        gmv_status status = cai_decode(text, strlen(text), &body, &document, &err);
        cr_assert_eq(status, depth <= 32 ? GMV_OK : GMV_ERR_JSON_MALFORMED, "%d deep", depth);
        if (status == GMV_OK)
            gmv_document_fini(&document);
    }
}

Test(cai_json, sixty_four_dimensions_pass_and_one_more_does_not)
{
    for (int ndim = 64; ndim <= 65; ndim++) {
        gmv_strbuf text = GMV_STRBUF_INIT;
        cai_body body;
        gmv_document document;
        gmv_error err;
        gmv_strbuf_puts(&text,
                        "{\"version\":3,\"typestr\":\"|u1\",\"data\":[64,false],\"shape\":[1");
        for (int i = 1; i < ndim; i++)
            gmv_strbuf_puts(&text, ",1");
        gmv_strbuf_puts(&text, "]}");
        gmv_status status = cai_decode(text.data, text.length, &body, &document, &err);
        cr_assert_eq(status, ndim == 64 ? GMV_OK : GMV_ERR_VALUE);
        if (status == GMV_OK)
            gmv_document_fini(&document);
        else
            cr_assert_str_eq(err.pointer, "/cuda_array_interface/shape");
        gmv_strbuf_fini(&text);
    }
}
