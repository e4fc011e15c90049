/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a request body of every type of field: errors name a member, nothing is left behind,
 * and the payload that is kept decodes to the same again.
 */
#include "fuzz/fuzz.h"

#include <gmv/base/alloc.h>
#include <gmv/base/strbuf.h>

#include "codec/decode.h"

typedef struct body_inner {
    int64_t number;
    gmv_text text;
} body_inner;

typedef struct body_all {
    gmv_cai_payload payload;
    bool flag;
    gmv_optional_int64 maybe, clamped;
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
    body_inner inner;
} body_all;

static const char *const body_names[] = {"ONE", "TWO", NULL};

static const gmv_field body_inner_fields[] = {
    GMV_FIELD_REQUIRED("number", INT64, body_inner, number),
    GMV_FIELD("text", TEXT, body_inner, text),
    GMV_FIELD_END,
};

static const gmv_field body_fields[] = {
    GMV_FIELD("cai", CAI, body_all, payload),
    GMV_FIELD("flag", BOOL, body_all, flag),
    GMV_FIELD("maybe", OPTIONAL_INT64, body_all, maybe),
    GMV_FIELD("clamped", CLAMPED_INT64, body_all, clamped),
    GMV_FIELD("label", LABEL, body_all, label),
    {
        .name = "name",
        .type = GMV_FIELD_NAME,
        .offset = offsetof(body_all, name),
        .names = body_names,
    },
    GMV_FIELD("typestr", TYPESTR, body_all, dtype),
    GMV_FIELD("type", CUDF_NAME, body_all, type_id),
    GMV_FIELD("reference", REFERENCE, body_all, reference),
    GMV_FIELD("references", REFERENCES, body_all, references),
    GMV_FIELD("int64s", INT64S, body_all, int64s),
    GMV_FIELD("ranges", RANGES, body_all, ranges),
    GMV_FIELD("blob", BASE64, body_all, blob),
    {
        .name = "inner",
        .type = GMV_FIELD_OBJECT,
        .offset = offsetof(body_all, inner),
        .fields = body_inner_fields,
        .given_offset = offsetof(body_all, has_inner),
    },
    GMV_FIELD_END,
};

static void body_check_error(const gmv_error *err, gmv_status status)
{
    FUZZ_REQUIRE(err->status == status && err->message[0] != '\0');
    FUZZ_REQUIRE(status == GMV_ERR_JSON_MALFORMED || err->has_pointer);
    FUZZ_REQUIRE(err->pointer[0] == '\0' || err->pointer[0] == '/');
    for (const char *c = err->pointer; *c != '\0'; c++)
        FUZZ_REQUIRE(*c >= 0x20 && *c <= 0x7e);
    for (const char *c = err->message; *c != '\0'; c++)
        FUZZ_REQUIRE(*c >= 0x20 && *c <= 0x7e);
}

/* Reads the kept payload as if it had been posted. */
static void body_check_payload(const gmv_cai_payload *payload, const char *text)
{
    body_all again;
    gmv_document document;
    gmv_strbuf body = GMV_STRBUF_INIT;
    memset(&again, 0, sizeof again);
    gmv_strbuf_printf(&body, "{\"cai\":%s}", text);
    FUZZ_REQUIRE(gmv_decode_body(body.data, body.length, body_fields, &again, &document, NULL) ==
                 GMV_OK);
    FUZZ_REQUIRE(strcmp(document.payload, text) == 0);
    FUZZ_REQUIRE(again.payload.cai.address == payload->cai.address);
    FUZZ_REQUIRE(again.payload.cai.dtype == payload->cai.dtype);
    FUZZ_REQUIRE(again.payload.cai.layout.ndim == payload->cai.layout.ndim);
    FUZZ_REQUIRE(again.payload.has_mask == payload->has_mask);
    gmv_document_fini(&document);
    gmv_strbuf_fini(&body);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    body_all all;
    gmv_document document;
    gmv_error err;
    memset(&all, 0, sizeof all);
    gmv_error_init(&err);
    int64_t live = gmv_alloc_live();
    gmv_status status =
        gmv_decode_body((const char *)data, size, body_fields, &all, &document, &err);
    if (status != GMV_OK) {
        body_check_error(&err, status);
    } else {
        FUZZ_REQUIRE(all.name == 0 || all.name == 1);
        FUZZ_REQUIRE(all.payload.cai.layout.ndim >= 0);
        FUZZ_REQUIRE(all.payload.cai.layout.ndim <= GMV_NDIM_MAX);
        if (document.payload != NULL)
            body_check_payload(&all.payload, document.payload);
        gmv_document_fini(&document);
    }
    FUZZ_REQUIRE(gmv_alloc_live() == live);
    return 0;
}
