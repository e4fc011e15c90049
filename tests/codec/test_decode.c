/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies by tables of fields: defaults, types before values, pointers, and failing allocations. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/parameterized.h>

#include <gmv/base/alloc.h>
#include <gmv/model/slice.h>
#include <gmv/registry/registry.h>

#include "codec/decode.h"
#include "codec/json.h"
#include "support/vectors.h"

typedef struct inner_body {
    int64_t depth;
    gmv_text word;
} inner_body;

typedef struct outer_body {
    int64_t number;
    gmv_optional_int64 maybe;
    gmv_optional_int64 clamped;
    bool flag;
    gmv_text text;
    gmv_text label;
    int name;
    gmv_dtype dtype;
    int32_t type_id;
    gmv_reference reference;
    gmv_references references;
    gmv_int64s int64s;
    gmv_ranges ranges;
    gmv_blob blob;
    bool has_inner;
    inner_body inner;
} outer_body;

static const char *const outer_names[] = {"ONE", "TWO", NULL};

static const gmv_field inner_fields[] = {
    GMV_FIELD_REQUIRED("depth", INT64, inner_body, depth),
    GMV_FIELD("word", TEXT, inner_body, word),
    GMV_FIELD_END,
};

static const gmv_field outer_fields[] = {
    GMV_FIELD_REQUIRED("number", INT64, outer_body, number),
    GMV_FIELD("maybe", OPTIONAL_INT64, outer_body, maybe),
    GMV_FIELD("clamped", CLAMPED_INT64, outer_body, clamped),
    GMV_FIELD("flag", BOOL, outer_body, flag),
    GMV_FIELD("text", TEXT, outer_body, text),
    GMV_FIELD("label", LABEL, outer_body, label),
    {
        .name = "name",
        .type = GMV_FIELD_NAME,
        .offset = offsetof(outer_body, name),
        .names = outer_names,
    },
    GMV_FIELD("typestr", TYPESTR, outer_body, dtype),
    GMV_FIELD("type", CUDF_NAME, outer_body, type_id),
    GMV_FIELD("reference", REFERENCE, outer_body, reference),
    GMV_FIELD("references", REFERENCES, outer_body, references),
    GMV_FIELD("int64s", INT64S, outer_body, int64s),
    GMV_FIELD("ranges", RANGES, outer_body, ranges),
    GMV_FIELD("blob", BASE64, outer_body, blob),
    {
        .name = "inner",
        .type = GMV_FIELD_OBJECT,
        .offset = offsetof(outer_body, inner),
        .fields = inner_fields,
        .given_offset = offsetof(outer_body, has_inner),
    },
    GMV_FIELD_END,
};

static gmv_status outer_decode(const char *text, outer_body *body, gmv_document *document,
                               gmv_error *err)
{
    gmv_error_init(err);
    memset(body, 0, sizeof *body);
    body->name = -1;
    return gmv_decode_body(text, strlen(text), outer_fields, body, document, err);
}

static const char outer_full[] =
    "{\"number\":-0,\"maybe\":9223372036854775807,\"clamped\":-99999999999999999999,\"flag\":true,"
    "\"text\":\"\",\"label\":\"\\u00fc\",\"name\":\"TWO\",\"typestr\":\"<f8\",\"type\":\"INT32\","
    "\"reference\":\"view_00000000000000000000000001\","
    "\"references\":[\"col_00000000000000000000000001\",\"x\",\"\"],\"int64s\":[1,-2],"
    "\"ranges\":[[0,1],[-5,9007199254740993]],\"blob\":\"Zm9v\","
    "\"inner\":{\"depth\":7,\"word\":\"w\"}}";

Test(decode, all_members_arrive)
{
    outer_body body;
    gmv_document document;
    gmv_error err;
    cr_assert_eq(outer_decode(outer_full, &body, &document, &err), GMV_OK, "%s", err.message);
    cr_assert_eq(body.number, 0);
    cr_assert(body.maybe.given && body.maybe.value == INT64_MAX);
    cr_assert(body.clamped.given && body.clamped.value == INT64_MIN);
    cr_assert(body.flag);
    cr_assert(body.text.text != NULL && body.text.length == 0);
    cr_assert_eq(body.label.length, 2);
    cr_assert_eq(body.name, 1);
    cr_assert_eq(body.dtype, GMV_DTYPE_F8);
    cr_assert_eq(body.type_id, GMV_CUDF_INT32);
    cr_assert(body.reference.given && body.reference.valid && body.reference.id.low == 1);
    cr_assert_eq(body.references.count, 3);
    cr_assert(body.references.items[0].valid);
    cr_assert(body.references.items[1].given && !body.references.items[1].valid);
    cr_assert_not(body.references.items[2].valid);
    cr_assert_eq(body.int64s.count, 2);
    cr_assert_eq(body.int64s.items[1], -2);
    cr_assert_eq(body.ranges.items[1].end, 9007199254740993);
    cr_assert(body.blob.nbytes == 3 && memcmp(body.blob.bytes, "foo", 3) == 0);
    cr_assert(body.has_inner && body.inner.depth == 7);
    gmv_document_fini(&document);
}

Test(decode, absent_and_null_leave_the_defaults)
{
    outer_body body;
    gmv_document document;
    gmv_error err;
    cr_assert_eq(outer_decode("{\"number\":1,\"maybe\":null,\"clamped\":null,\"flag\":null,"
                              "\"label\":null,\"name\":null,\"reference\":null,\"ranges\":null,"
                              "\"blob\":null,\"inner\":null,\"text\":null,\"int64s\":null,"
                              "\"typestr\":null,\"type\":null,\"references\":null}",
                              &body, &document, &err),
                 GMV_OK, "%s", err.message);
    cr_assert_not(body.maybe.given || body.clamped.given || body.reference.given ||
                  body.references.given || body.ranges.given || body.blob.given || body.has_inner ||
                  body.int64s.given);
    cr_assert_null(body.label.text);
    cr_assert_eq(body.name, -1);
    gmv_document_fini(&document);
}

Test(decode, empty_lists_are_given)
{
    outer_body body;
    gmv_document document;
    gmv_error err;
    cr_assert_eq(outer_decode("{\"number\":1,\"references\":[],\"int64s\":[],\"ranges\":[],"
                              "\"blob\":\"\"}",
                              &body, &document, &err),
                 GMV_OK);
    cr_assert(body.references.given && body.references.count == 0);
    cr_assert(body.int64s.given && body.int64s.count == 0);
    cr_assert(body.ranges.given && body.ranges.count == 0);
    cr_assert(body.blob.given && body.blob.nbytes == 0);
    gmv_document_fini(&document);
}

#define LONG_NAME "0123456789012345678901234567890123456789012345678901234567890123456789"

static const struct decode_refusal {
    const char *text;
    gmv_status status;
    const char *pointer;
} decode_refusals[] = {
    {"[]", GMV_ERR_TYPE, ""},
    {"\"x\"", GMV_ERR_TYPE, ""},
    {"null", GMV_ERR_TYPE, ""},
    {"7", GMV_ERR_TYPE, ""},
    {"99999999999999999999", GMV_ERR_TYPE, ""},
    {"{}", GMV_ERR_VALUE, "/number"},
    {"{\"number\":null}", GMV_ERR_TYPE, "/number"},
    {"{\"number\":1.0}", GMV_ERR_TYPE, "/number"},
    {"{\"number\":1e3}", GMV_ERR_TYPE, "/number"},
    {"{\"number\":\"1\"}", GMV_ERR_TYPE, "/number"},
    {"{\"number\":true}", GMV_ERR_TYPE, "/number"},
    {"{\"number\":[]}", GMV_ERR_TYPE, "/number"},
    {"{\"number\":9223372036854775808}", GMV_ERR_VALUE, "/number"},
    {"{\"number\":-9223372036854775809}", GMV_ERR_VALUE, "/number"},
    {"{\"number\":1e400}", GMV_ERR_VALUE, "/number"},
    {"{\"number\":1,\"maybe\":2.5}", GMV_ERR_TYPE, "/maybe"},
    {"{\"number\":1,\"clamped\":2.5}", GMV_ERR_TYPE, "/clamped"},
    {"{\"number\":1,\"clamped\":1e400}", GMV_ERR_TYPE, "/clamped"},
    {"{\"number\":1,\"clamped\":\"a\"}", GMV_ERR_TYPE, "/clamped"},
    {"{\"number\":1,\"flag\":1}", GMV_ERR_TYPE, "/flag"},
    {"{\"number\":1,\"text\":7}", GMV_ERR_TYPE, "/text"},
    {"{\"number\":1,\"text\":99999999999999999999}", GMV_ERR_TYPE, "/text"},
    {"{\"number\":1,\"name\":\"THREE\"}", GMV_ERR_VALUE, "/name"},
    {"{\"number\":1,\"name\":\"two\"}", GMV_ERR_VALUE, "/name"},
    {"{\"number\":1,\"name\":2}", GMV_ERR_TYPE, "/name"},
    {"{\"number\":1,\"typestr\":\"f8\"}", GMV_ERR_VALUE, "/typestr"},
    {"{\"number\":1,\"typestr\":\">f8\"}", GMV_ERR_DTYPE_UNSUPPORTED, "/typestr"},
    {"{\"number\":1,\"type\":\"int32\"}", GMV_ERR_VALUE, "/type"},
    {"{\"number\":1,\"reference\":7}", GMV_ERR_TYPE, "/reference"},
    {"{\"number\":1,\"reference\":{}}", GMV_ERR_TYPE, "/reference"},
    {"{\"number\":1,\"references\":\"x\"}", GMV_ERR_TYPE, "/references"},
    {"{\"number\":1,\"references\":[\"x\",null]}", GMV_ERR_TYPE, "/references/1"},
    {"{\"number\":1,\"int64s\":[1,2,true]}", GMV_ERR_TYPE, "/int64s/2"},
    {"{\"number\":1,\"int64s\":[1,99999999999999999999]}", GMV_ERR_VALUE, "/int64s/1"},
    {"{\"number\":1,\"ranges\":[1]}", GMV_ERR_TYPE, "/ranges/0"},
    {"{\"number\":1,\"ranges\":[[1,2],[1,\"2\"]]}", GMV_ERR_TYPE, "/ranges/1/1"},
    {"{\"number\":1,\"ranges\":[[1]]}", GMV_ERR_VALUE, "/ranges/0"},
    {"{\"number\":1,\"ranges\":[[1,2,3]]}", GMV_ERR_VALUE, "/ranges/0"},
    {"{\"number\":1,\"ranges\":[[1,99999999999999999999]]}", GMV_ERR_VALUE, "/ranges/0/1"},
    {"{\"number\":1,\"blob\":\"Zg=\"}", GMV_ERR_VALUE, "/blob"},
    {"{\"number\":1,\"blob\":\"Zm 9v\"}", GMV_ERR_VALUE, "/blob"},
    {"{\"number\":1,\"inner\":[]}", GMV_ERR_TYPE, "/inner"},
    {"{\"number\":1,\"inner\":{}}", GMV_ERR_VALUE, "/inner/depth"},
    {"{\"number\":1,\"inner\":{\"depth\":\"x\"}}", GMV_ERR_TYPE, "/inner/depth"},
    {"{\"number\":1,\"inner\":{\"depth\":1,\"x\":1}}", GMV_ERR_VALUE, "/inner/x"},
    {"{\"number\":1,\"ttl_second\":1}", GMV_ERR_VALUE, "/ttl_second"},
    {"{\"number\":1,\"ttl_seconds\":0}", GMV_ERR_VALUE, "/ttl_seconds"},
    {"{\"number\":1,\"ttl_seconds\":31536001}", GMV_ERR_VALUE, "/ttl_seconds"},
    {"{\"number\":1,\"ttl_seconds\":99999999999999999999}", GMV_ERR_VALUE, "/ttl_seconds"},
    {"{\"ttl_seconds\":\"1\"}", GMV_ERR_TYPE, "/ttl_seconds"},
    {"{\"number\":1,\"ttl_seconds\":1.0}", GMV_ERR_TYPE, "/ttl_seconds"},
    {"{\"number\":1,\"inner\":{\"depth\":1,\"ttl_seconds\":1}}", GMV_ERR_VALUE,
     "/inner/ttl_seconds"},
    {"{\"number\":1,\"Number\":1}", GMV_ERR_VALUE, "/Number"},
    {"{\"number\":1,\"a/b~c\":1}", GMV_ERR_VALUE, "/a~1b~0c"},
    {"{\"number\":1,\"\":1}", GMV_ERR_VALUE, "/"},
    {"{\"number\":1,\"\\u00fc\":1}", GMV_ERR_VALUE, ""},
    {"{\"number\":1,\"a\\nb\":1}", GMV_ERR_VALUE, ""},
    {"{\"number\":1,\"" LONG_NAME "\":1}", GMV_ERR_VALUE, ""},
    {"{\"number\":1,\"inner\":{\"depth\":1,\"" LONG_NAME "\":1}}", GMV_ERR_VALUE, "/inner"},
    /* all types come before any value */
    {"{\"x\":1,\"inner\":{\"word\":5}}", GMV_ERR_TYPE, "/inner/word"},
    {"{\"name\":\"THREE\",\"blob\":7}", GMV_ERR_TYPE, "/blob"},
    {"{\"number\":99999999999999999999,\"ranges\":[[1],[\"x\"]]}", GMV_ERR_TYPE, "/ranges/1/0"},
    {"", GMV_ERR_JSON_MALFORMED, NULL},
    {"{", GMV_ERR_JSON_MALFORMED, NULL},
};

ParameterizedTestParameters(decode, refusal_names_the_member)
{
    static size_t indices[sizeof decode_refusals / sizeof decode_refusals[0]];
    for (size_t i = 0; i < sizeof indices / sizeof indices[0]; i++)
        indices[i] = i;
    return cr_make_param_array(size_t, indices, sizeof indices / sizeof indices[0]);
}

ParameterizedTest(size_t *index, decode, refusal_names_the_member)
{
    const struct decode_refusal *row = &decode_refusals[*index];
    outer_body body;
    gmv_document document;
    gmv_error err;
    gmv_alloc_watch(1);
    gmv_status status = outer_decode(row->text, &body, &document, &err);
    cr_assert_eq(status, row->status, "%s: %s: %s", row->text, gmv_status_code(status),
                 err.message);
    cr_assert_eq(err.has_pointer, row->pointer != NULL, "%s", row->text);
    if (row->pointer != NULL)
        cr_assert_str_eq(err.pointer, row->pointer, "%s: %s", row->text, err.pointer);
    cr_assert_eq(gmv_alloc_live(), 0, "%s", row->text);
}

Test(decode, refusal_lists_the_members_and_the_values_that_are_known)
{
    outer_body body;
    gmv_document document;
    gmv_error err;
    cr_assert_eq(outer_decode("{\"number\":1,\"inner\":{\"height\":1}}", &body, &document, &err),
                 GMV_ERR_VALUE);
    cr_assert_str_eq(err.message, "there is no such member; known are: depth, word");
    cr_assert_eq(outer_decode("{\"numbr\":1}", &body, &document, &err), GMV_ERR_VALUE);
    cr_assert_not_null(strstr(err.message, "known are: number, "));
    cr_assert_not_null(strstr(err.message, ", ttl_seconds"));
    cr_assert_eq(outer_decode("{\"number\":1,\"name\":\"THREE\"}", &body, &document, &err),
                 GMV_ERR_VALUE);
    cr_assert_str_eq(err.message, "name has no such value; it has: ONE, TWO");
}

Test(decode, what_has_a_label_may_have_a_lease)
{
    static const gmv_field plain_fields[] = {
        GMV_FIELD("number", INT64, outer_body, number),
        GMV_FIELD_END,
    };
    static const gmv_field own_fields[] = {
        GMV_FIELD("label", LABEL, outer_body, label),
        GMV_FIELD("ttl_seconds", INT64, outer_body, number),
        GMV_FIELD_END,
    };
    static const char text[] = "{\"ttl_seconds\":60}",
                      null[] = "{\"number\":1,\"ttl_seconds\":null}",
                      given[] = "{\"ttl_seconds\":31536000,\"number\":2}";
    outer_body body = {0};
    gmv_document document;
    gmv_error err;
    gmv_error_init(&err);
    cr_assert_eq(outer_decode(given, &body, &document, &err), GMV_OK);
    cr_assert_eq(document.ttl_seconds, 31536000);
    gmv_document_fini(&document);
    cr_assert_eq(outer_decode(null, &body, &document, &err), GMV_OK);
    cr_assert_eq(document.ttl_seconds, 0);
    gmv_document_fini(&document);
    cr_assert_eq(gmv_decode_body(text, strlen(text), plain_fields, &body, &document, &err),
                 GMV_ERR_VALUE);
    body.number = 0;
    cr_assert_eq(gmv_decode_body(text, strlen(text), own_fields, &body, &document, &err), GMV_OK);
    cr_assert_eq(document.ttl_seconds, 0, "a field of that name takes it");
    cr_assert_eq(body.number, 60);
    gmv_document_fini(&document);
}

Test(decode, empty_body_is_an_empty_object_where_nothing_is_required)
{
    static const gmv_field fields[] = {
        GMV_FIELD("label", LABEL, outer_body, label),
        GMV_FIELD_END,
    };
    outer_body body = {0};
    gmv_document document;
    gmv_error err;
    gmv_error_init(&err);
    cr_assert_eq(gmv_decode_body(NULL, 0, fields, &body, &document, &err), GMV_OK);
    gmv_document_fini(&document);
    cr_assert_eq(gmv_decode_body(NULL, 0, outer_fields, &body, &document, &err),
                 GMV_ERR_JSON_MALFORMED);
}

#define HINT_ID "view_00000000000000000000000001"

Test(decode, a_slip_is_told_what_to_write_instead)
{
    static const struct {
        const char *members, *pointer, *hint;
    } slips[] = {
        {"\"number\":\"64\"", "/number", "leave the quotes out"},
        {"\"number\":1,\"flag\":\"false\"", "/flag", "leave the quotes out"},
        {"\"number\":1,\"reference\":5", "/reference", "\"view_...\""},
        {"\"number\":1,\"reference\":{\"id\":\"" HINT_ID "\"}", "/reference",
         "write \"" HINT_ID "\""},
        {"\"number\":1,\"reference\":{\"id\":\"x\"}", "/reference", "\"view_...\""},
        {"\"number\":1,\"references\":\"" HINT_ID "\"", "/references", "write [\"" HINT_ID "\"]"},
        {"\"number\":1,\"int64s\":-7", "/int64s", "write [-7]"},
        {"\"number\":1,\"int64s\":99999999999999999999", "/int64s", "such as [4]"},
        {"\"number\":1,\"ranges\":[3]", "/ranges/0", "[0, 8]"},
        {"\"number\":1,\"inner\":7", "/inner", "its members are: depth, word"},
        {"\"number\":1,\"typestr\":\"Float64\"", "/typestr", "write \"<f8\""},
        {"\"number\":1,\"typestr\":\"float8_e5m2\"", "/typestr", "\"dtype\": \"float8_e5m2\""},
        {"\"number\":1,\"typestr\":\"\"", "/typestr", "such as '<f4'"},
        {"\"number\":1,\"type\":\"|i1\"", "/type", "write \"INT8\""},
        {"\"number\":1,\"type\":\"decimal64\"", "/type", "write \"DECIMAL64\""},
        {"\"number\":1,\"type\":\"\"", "/type", "in capitals"},
    };
    for (size_t i = 0; i < sizeof slips / sizeof slips[0]; i++) {
        char text[160];
        outer_body body;
        gmv_document document;
        gmv_error err;
        snprintf(text, sizeof text, "{%s}", slips[i].members);
        cr_assert_neq(outer_decode(text, &body, &document, &err), GMV_OK, "%s", text);
        cr_assert_str_eq(err.pointer, slips[i].pointer, "%s", text);
        cr_assert_not_null(strstr(err.message, slips[i].hint), "%s: %s", text, err.message);
    }
}

static gmv_status decode_label_of(size_t characters, const char *character)
{
    gmv_strbuf text = GMV_STRBUF_INIT;
    outer_body body;
    gmv_document document;
    gmv_error err;
    gmv_strbuf_puts(&text, "{\"number\":1,\"label\":\"");
    for (size_t i = 0; i < characters; i++)
        gmv_strbuf_puts(&text, character);
    gmv_strbuf_puts(&text, "\"}");
    gmv_status status = outer_decode(text.data, &body, &document, &err);
    if (status == GMV_OK) {
        cr_assert_eq(body.label.length, characters * strlen(character));
        gmv_document_fini(&document);
    } else {
        cr_assert_str_eq(err.pointer, "/label");
    }
    gmv_strbuf_fini(&text);
    return status;
}

Test(decode, labels_are_counted_in_characters)
{
    cr_assert_eq(decode_label_of(0, "x"), GMV_OK);
    cr_assert_eq(decode_label_of(GMV_LABEL_CHARACTERS_MAX, "x"), GMV_OK);
    cr_assert_eq(decode_label_of(GMV_LABEL_CHARACTERS_MAX, "\xF0\x9F\x98\x80"), GMV_OK);
    cr_assert_eq(decode_label_of(GMV_LABEL_CHARACTERS_MAX + 1, "x"), GMV_ERR_VALUE);
    cr_assert_eq(decode_label_of(GMV_LABEL_CHARACTERS_MAX + 1, "\xC3\xBC"), GMV_ERR_VALUE);
}

Test(decode, every_failing_allocation_is_overloaded_and_leaks_nothing)
{
    outer_body body;
    gmv_document document;
    gmv_error err;
    cr_assert_eq(outer_decode(outer_full, &body, &document, &err), GMV_OK);
    gmv_document_fini(&document);
    gmv_alloc_watch(1);
    uint64_t n = 1;
    for (;; n++) {
        gmv_alloc_fail_once(n);
        gmv_status status = outer_decode(outer_full, &body, &document, &err);
        bool failed = gmv_alloc_has_failed();
        gmv_alloc_fail_once(0);
        if (!failed)
            break;
        cr_assert_eq(status, GMV_ERR_OVERLOADED, "allocation %llu: %s", (unsigned long long)n,
                     err.message);
        cr_assert_eq(gmv_alloc_live(), 0, "allocation %llu", (unsigned long long)n);
    }
    gmv_document_fini(&document);
    cr_assert_gt(n, 40);
    cr_assert_eq(gmv_alloc_live(), 0);
}

/* ---- slices, from their text
 * --------------------------------------------------------------------- */

typedef struct slice_body {
    gmv_optional_int64 start, stop, step;
} slice_body;

static const gmv_field slice_fields[] = {
    GMV_FIELD("start", CLAMPED_INT64, slice_body, start),
    GMV_FIELD("stop", CLAMPED_INT64, slice_body, stop),
    GMV_FIELD("step", CLAMPED_INT64, slice_body, step),
    GMV_FIELD_END,
};

static void slice_run_case(const json_t *item)
{
    const char *name = vectors_text(item, "name");
    const json_t *expect = json_object_get(item, "expect");
    gmv_strbuf text = GMV_STRBUF_INIT;
    if (json_object_get(item, "request_text") != NULL) {
        gmv_strbuf_puts(&text, vectors_text(item, "request_text"));
    } else {
        static const char *const members[] = {"start", "stop", "step"};
        gmv_json_writer writer = gmv_json_writer_over(&text);
        gmv_json_open_object(&writer);
        for (size_t i = 0; i < 3; i++) {
            gmv_json_put_key(&writer, members[i]);
            gmv_json_put_value(&writer, json_object_get(item, members[i]));
        }
        gmv_json_close_object(&writer);
    }
    slice_body body = {0};
    gmv_document document;
    gmv_error err;
    gmv_error_init(&err);
    const char *kind = json_string_value(json_object_get(expect, "error_kind"));
    gmv_status status =
        gmv_decode_body(text.data, text.length, slice_fields, &body, &document, &err);
    if (kind != NULL && strcmp(kind, "type") == 0) {
        cr_assert_eq(status, GMV_ERR_TYPE, "%s: %s", name, text.data);
        gmv_strbuf_fini(&text);
        return;
    }
    cr_assert_eq(status, GMV_OK, "%s: %s: %s", name, text.data, err.message);
    const gmv_slice slice = {body.start.given, body.stop.given, body.step.given,
                             body.start.value, body.stop.value, body.step.value};
    int64_t offset = -1;
    int64_t length = -1;
    status = gmv_slice_resolve(&slice, vectors_int(item, "nbytes"), &offset, &length, &err);
    if (kind != NULL) {
        cr_assert_eq(status, GMV_ERR_VALUE, "%s", name);
        cr_assert_str_eq(err.pointer, "/step");
    } else {
        cr_assert_eq(status, GMV_OK, "%s", name);
        cr_assert_eq(offset, vectors_int(expect, "offset"), "%s", name);
        cr_assert_eq(length, vectors_int(expect, "length"), "%s", name);
    }
    gmv_document_fini(&document);
    gmv_strbuf_fini(&text);
}

/* slices.json holds integers that only our own reader can hold, so that reads the file, too. */
static json_t *slice_vectors(const char *name)
{
    const char *source = getenv("GMV_SRCDIR");
    char path[4096];
    snprintf(path, sizeof path, "%s/tests/vectors/%s", source != NULL ? source : ".", name);
    FILE *file = fopen(path, "rb");
    cr_assert_not_null(file, "%s", path);
    gmv_strbuf text = GMV_STRBUF_INIT;
    char block[4096];
    for (size_t n; (n = fread(block, 1, sizeof block, file)) > 0;)
        gmv_strbuf_append(&text, block, n);
    fclose(file);
    json_t *root;
    gmv_error err;
    gmv_error_init(&err);
    cr_assert_eq(gmv_json_parse(text.data, text.length, &root, &err), GMV_OK, "%s", err.message);
    gmv_strbuf_fini(&text);
    return root;
}

static void slice_run_file(const char *name)
{
    json_t *vectors = slice_vectors(name);
    size_t n = json_array_size(vectors);
    cr_assert_gt(n, 300);
    for (size_t i = 0; i < n; i++)
        slice_run_case(json_array_get(vectors, i));
    json_decref(vectors);
}

Test(decode, slices_of_any_integers_resolve_as_in_python)
{
    slice_run_file("slices.json");
}

Test(decode, slices_of_64_bits_resolve_as_in_python)
{
    slice_run_file("slices_int64.json");
}

Test(decode, numbers_are_integers_or_reals_that_a_double_holds)
{
    static const gmv_field fields[] = {
        {.name = "n", .type = GMV_FIELD_NUMBER, .offset = 0},
        GMV_FIELD_END,
    };
    static const struct {
        const char *text;
        gmv_status status;
        double value;
    } rows[] = {
        {"{\"n\":3}", GMV_OK, 3},
        {"{\"n\":-2.5e1}", GMV_OK, -25},
        {"{\"n\":100000000000000000000000}", GMV_OK, 1e23},
        {"{\"n\":null}", GMV_OK, 7},
        {"{}", GMV_OK, 7},
        {"{\"n\":1e400}", GMV_ERR_VALUE, 0},
        {"{\"n\":\"1\"}", GMV_ERR_TYPE, 0},
        {"{\"n\":true}", GMV_ERR_TYPE, 0},
        {"{\"n\":[1]}", GMV_ERR_TYPE, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        gmv_document document;
        gmv_error err;
        double value = 7;
        gmv_error_init(&err);
        gmv_status status =
            gmv_decode_body(rows[i].text, strlen(rows[i].text), fields, &value, &document, &err);
        cr_assert_eq(status, rows[i].status, "%s: %s", rows[i].text, err.message);
        if (status == GMV_OK) {
            cr_assert_eq(value, rows[i].value, "%s: %.17g", rows[i].text, value);
            gmv_document_fini(&document);
        } else {
            cr_assert_str_eq(err.pointer, "/n");
        }
    }
}
