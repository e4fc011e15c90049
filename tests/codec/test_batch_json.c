/* SPDX-License-Identifier: Apache-2.0 */
/* Batches: what is read, how references are followed, and that no failure leaves memory behind. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>

#include <string.h>

#include <gmv/base/alloc.h>

#include "codec/batch_json.h"

#define LONG "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"

static const char answer[] =
    "{\"id\":\"a b\",\"n\":7,\"big\":123456789012345678901234567890,\"real\":0.5,\"none\":null,"
    "\"yes\":true,\"list\":[{\"x\":\"in\"},[1,2]],\"$\":\"dollar\",\"0\":\"zero\"}";

/* Resolves the second operation of a batch whose first was answered. */
static gmv_status resolve(const char *path, const char *body, gmv_strbuf *out_path,
                          gmv_strbuf *out_body, gmv_error *err)
{
    gmv_strbuf text = GMV_STRBUF_INIT;
    gmv_batch *batch;
    gmv_strbuf_printf(&text,
                      "{\"operations\":[{\"method\":\"POST\",\"path\":\"/first\"},"
                      "{\"method\":\"POST\",\"path\":\"%s\",\"body\":%s}]}",
                      path, body);
    *out_path = *out_body = GMV_STRBUF_INIT;
    gmv_error_init(err);
    gmv_status status = gmv_strbuf_failed(&text)
                            ? gmv_fail_no_memory(err)
                            : gmv_batch_parse(text.data, text.length, &batch, err);
    gmv_strbuf_fini(&text);
    if (status != GMV_OK)
        return status;
    gmv_batch_keep_answer(batch, 0, answer, strlen(answer));
    status = gmv_batch_resolve(batch, 1, out_path, out_body, err);
    gmv_batch_destroy(batch);
    return status;
}

static const struct resolve_row {
    const char *path, *body;
    const char *wanted_path, *wanted_body; /* NULL: refused */
    const char *pointer;
} resolve_rows[] = {
    {"/v1/x", "{}", "/v1/x", "{}", NULL},
    {"/v1/x", "null", "/v1/x", "", NULL},
    {"", "{}", "", "{}", NULL},
    {"/v1/$0.id/y?q=$0.id", "{}", "/v1/a%20b/y?q=$0.id", "{}", NULL},
    {"/$$0.id/a$0.id", "{}", "/$0.id/a$0.id", "{}", NULL},
    {"/$0.list.0.x/", "{}", "/in/", "{}", NULL},
    {"/$0.$", "{}", "/dollar", "{}", NULL},
    {"/x", "{\"a\":\"$0.id\"}", "/x", "{\"a\":\"a b\"}", NULL},
    {"/x", "{\"a\":[\"$0.n\",{\"b\":\"$0.list.1\"}]}", "/x", "{\"a\":[7,{\"b\":[1,2]}]}", NULL},
    {"/x", "{\"a\":\"$0.big\",\"b\":\"$0.real\",\"c\":\"$0.none\",\"d\":\"$0.yes\"}", "/x",
     "{\"a\":123456789012345678901234567890,\"b\":0.5,\"c\":null,\"d\":true}", NULL},
    {"/x", "{\"a\":\"$$\",\"b\":\"$$$\",\"c\":\"a$0.id\",\"d\":\"$$0.id\",\"$0.id\":1}", "/x",
     "{\"a\":\"$\",\"b\":\"$$\",\"c\":\"a$0.id\",\"d\":\"$0.id\",\"$0.id\":1}", NULL},
    {"/x", "{\"a\":99999999999999999999999,\"b\":\"\\u00e9\\n\"}", "/x",
     "{\"a\":99999999999999999999999,\"b\":\"\xC3\xA9\\n\"}", NULL},
    {"/x", "{\"a\":\"$0.list.1.1\",\"b\":\"$0.list.0\"}", "/x", "{\"a\":2,\"b\":{\"x\":\"in\"}}",
     NULL},
    {"/$0.n", "{}", NULL, NULL, "/path"},
    {"/$0.list", "{}", NULL, NULL, "/path"},
    {"/$", "{}", NULL, NULL, "/path"},
    {"/$0", "{}", NULL, NULL, "/path"},
    {"/$1.id", "{}", NULL, NULL, "/path"},
    {"/x", "{\"a\":\"$\"}", NULL, NULL, "/body/a"},
    {"/x", "{\"a\":\"$0\"}", NULL, NULL, "/body/a"},
    {"/x", "{\"a\":\"$0.\"}", NULL, NULL, "/body/a"},
    {"/x", "{\"a\":\"$01.id\"}", NULL, NULL, "/body/a"},
    {"/x", "{\"a\":\"$+0.id\"}", NULL, NULL, "/body/a"},
    {"/x", "{\"a\":\"$4294967296.id\"}", NULL, NULL, "/body/a"},
    {"/x", "{\"a\":[0,{\"b\":\"$0.list.2\"}]}", NULL, NULL, "/body/a/1/b"},
    {"/x", "{\"a\":\"$0.list.00\"}", NULL, NULL, "/body/a"},
    {"/x", "{\"a\":\"$0.list.x\"}", NULL, NULL, "/body/a"},
    {"/x", "{\"a\":\"$0.id.x\"}", NULL, NULL, "/body/a"},
    {"/x", "{\"a\":\"$0." LONG "\"}", NULL, NULL, "/body/a"},
    {"/x", "{\"a\":\"$0.id.\"}", NULL, NULL, "/body/a"},
};

ParameterizedTestParameters(batch_json, references_are_followed)
{
    static size_t indices[sizeof resolve_rows / sizeof resolve_rows[0]];
    for (size_t i = 0; i < sizeof indices / sizeof indices[0]; i++)
        indices[i] = i;
    return cr_make_param_array(size_t, indices, sizeof indices / sizeof indices[0]);
}

/* Whichever allocation fails: overloaded, and nothing is left. */
ParameterizedTest(size_t *index, batch_json, references_are_followed)
{
    const struct resolve_row *row = &resolve_rows[*index];
    bool failed = true;
    gmv_alloc_watch(1);
    for (uint64_t n = 1; failed; n++) {
        gmv_strbuf path, body;
        gmv_error err;
        gmv_alloc_fail_once(n);
        gmv_status status = resolve(row->path, row->body, &path, &body, &err);
        failed = gmv_alloc_has_failed();
        gmv_alloc_fail_once(0);
        if (failed && status != GMV_OK && status != GMV_ERR_VALUE) {
            cr_assert_eq(status, GMV_ERR_OVERLOADED, "%s", gmv_status_code(status));
        } else if (row->wanted_path) {
            cr_assert_eq(status, GMV_OK, "%s %s: %s", row->path, row->body, err.message);
            cr_assert_str_eq(path.data ? path.data : "", row->wanted_path);
            cr_assert_str_eq(body.data ? body.data : "", row->wanted_body);
        } else {
            cr_assert_eq(status, GMV_ERR_VALUE, "%s %s", row->path, row->body);
            cr_assert_str_eq(err.pointer, row->pointer);
        }
        gmv_strbuf_fini(&path);
        gmv_strbuf_fini(&body);
        cr_assert_eq(gmv_alloc_live(), 0);
    }
}

Test(batch_json, what_it_holds_is_told)
{
    static const char text[] = "{\"operations\":[{\"method\":\"DELETE\",\"path\":\"/a\"},"
                               "{\"method\":\"POST\",\"path\":\"/b\"}],\"atomic\":false}";
    gmv_batch *batch;
    cr_assert_eq(gmv_batch_parse(text, strlen(text), &batch, NULL), GMV_OK);
    cr_assert_eq(gmv_batch_count(batch), 2);
    cr_assert_not(gmv_batch_is_atomic(batch));
    cr_assert(gmv_batch_is_delete(batch, 0));
    cr_assert_not(gmv_batch_is_delete(batch, 1));
    gmv_batch_destroy(batch);
    cr_assert_eq(gmv_batch_parse("{\"operations\":[],\"atomic\":null}", 31, &batch, NULL), GMV_OK);
    cr_assert(gmv_batch_is_atomic(batch));
    gmv_batch_destroy(batch);
}
