/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as JSON: what is read can be written, and what was written reads back to the same text.
 */
#include "fuzz/fuzz.h"

#include "codec/json.h"
#include "codec/utf8.h"

static gmv_strbuf json_written(const json_t *value)
{
    gmv_strbuf out = GMV_STRBUF_INIT;
    gmv_json_writer writer = gmv_json_writer_over(&out);
    gmv_json_put_value(&writer, value);
    FUZZ_REQUIRE(!gmv_strbuf_failed(&out));
    FUZZ_REQUIRE(gmv_utf8_check(out.data, out.length, NULL));
    return out;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *root;
    json_t *again;
    gmv_error err;
    gmv_error_init(&err);
    gmv_status status = gmv_json_parse((const char *)data, size, &root, &err);
    if (status != GMV_OK) {
        FUZZ_REQUIRE(status == GMV_ERR_JSON_MALFORMED && err.status == status && root == NULL);
        for (const char *c = err.message; *c != '\0'; c++)
            FUZZ_REQUIRE(*c >= 0x20 && *c <= 0x7e);
        return 0;
    }
    FUZZ_REQUIRE(gmv_json_depth(root) <= GMV_JSON_DEPTH_MAX);
    gmv_strbuf first = json_written(root);
    FUZZ_REQUIRE(gmv_json_parse(first.data, first.length, &again, &err) == GMV_OK);
    FUZZ_REQUIRE(json_equal(root, again));
    gmv_strbuf second = json_written(again);
    FUZZ_REQUIRE(first.length == second.length &&
                 memcmp(first.data, second.data, first.length) == 0);
    gmv_strbuf_fini(&first);
    gmv_strbuf_fini(&second);
    json_decref(root);
    json_decref(again);
    return 0;
}
