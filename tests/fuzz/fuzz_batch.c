/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a batch: what it accepts resolves to well-formed bodies and to paths without a stray
 * reference, or fails as value_error; nothing is left behind.
 */
#include "fuzz/fuzz.h"

#include <gmv/base/alloc.h>

#include "codec/batch_json.h"
#include "codec/json.h"

static const char answer[] = "{\"id\":\"view_0\",\"n\":3,\"items\":[{\"id\":\"a/b?c\"},[null]]}";

static void batch_check_body(const gmv_strbuf *body)
{
    json_t *root;
    if (body->length == 0)
        return;
    FUZZ_REQUIRE(gmv_json_parse(body->data, body->length, &root, NULL) == GMV_OK);
    FUZZ_REQUIRE(json_is_object(root));
    json_decref(root);
}

static void batch_check_operation(gmv_batch *batch, size_t index)
{
    gmv_strbuf path = GMV_STRBUF_INIT, body = GMV_STRBUF_INIT;
    gmv_error err;
    gmv_error_init(&err);
    gmv_status status = gmv_batch_resolve(batch, index, &path, &body, &err);
    if (status == GMV_OK) {
        FUZZ_REQUIRE(!gmv_batch_is_delete(batch, index) || body.length == 0);
        batch_check_body(&body);
        if (index % 3 != 2)
            gmv_batch_keep_answer(batch, index, answer, sizeof answer - 1);
    } else {
        FUZZ_REQUIRE(status == GMV_ERR_VALUE && err.has_pointer);
        FUZZ_REQUIRE(strncmp(err.pointer, "/path", 5) == 0 ||
                     strncmp(err.pointer, "/body", 5) == 0);
    }
    gmv_strbuf_fini(&path);
    gmv_strbuf_fini(&body);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    gmv_batch *batch;
    gmv_error err;
    gmv_error_init(&err);
    int64_t live = gmv_alloc_live();
    gmv_status status = gmv_batch_parse(size > 0 ? (const char *)data : "", size, &batch, &err);
    if (status == GMV_OK) {
        FUZZ_REQUIRE(gmv_batch_count(batch) <= GMV_BATCH_OPERATIONS_MAX);
        for (size_t i = 0; i < gmv_batch_count(batch); i++)
            batch_check_operation(batch, i);
        gmv_batch_destroy(batch);
    } else {
        FUZZ_REQUIRE(status == GMV_ERR_JSON_MALFORMED || status == GMV_ERR_TYPE ||
                     status == GMV_ERR_VALUE);
    }
    FUZZ_REQUIRE(gmv_alloc_live() == live);
    return 0;
}
