/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a query: strictly, names are known and unique; leniently, nothing is an error. */
#include "fuzz/fuzz.h"

#include <gmv/base/alloc.h>

#include "codec/query.h"
#include "codec/utf8.h"

#define QUERY_ALLOWED "offset,limit,label,all"

static void query_check(const gmv_query *query)
{
    FUZZ_REQUIRE(query->count <= GMV_QUERY_PARAMETERS_MAX);
    for (size_t i = 0; i < query->count; i++) {
        const gmv_query_parameter *parameter = &query->parameters[i];
        FUZZ_REQUIRE(gmv_utf8_check(parameter->name, strlen(parameter->name), NULL));
        FUZZ_REQUIRE(gmv_query_find(query, parameter->name) == parameter);
        if (parameter->value == NULL)
            continue;
        FUZZ_REQUIRE(strlen(parameter->value) == parameter->value_length);
        FUZZ_REQUIRE(gmv_utf8_check(parameter->value, parameter->value_length, NULL));
    }
}

static void query_check_typed(const gmv_query *query)
{
    int64_t number;
    bool flag;
    gmv_status status = gmv_query_int64(query, "limit", 1, 1000, 100, &number, NULL);
    FUZZ_REQUIRE(status == GMV_ERR_REQUEST_MALFORMED ||
                 (status == GMV_OK && number >= 1 && number <= 1000));
    status = gmv_query_flag(query, "all", &flag, NULL);
    FUZZ_REQUIRE(status == GMV_OK || status == GMV_ERR_REQUEST_MALFORMED);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    gmv_query query;
    gmv_error err;
    const char *text = size > 0 ? (const char *)data : "";
    gmv_error_init(&err);
    int64_t live = gmv_alloc_live();
    gmv_status status = gmv_query_parse(text, size, QUERY_ALLOWED, &query, &err);
    if (status == GMV_OK) {
        query_check(&query);
        FUZZ_REQUIRE(query.count <= 4);
        query_check_typed(&query);
        gmv_query_fini(&query);
    } else {
        FUZZ_REQUIRE(status == GMV_ERR_REQUEST_MALFORMED && err.parameter[0] != '\0');
        for (const char *c = err.message; *c != '\0'; c++)
            FUZZ_REQUIRE(*c >= 0x20 && *c <= 0x7e);
    }
    FUZZ_REQUIRE(gmv_query_parse(text, size, NULL, &query, NULL) == GMV_OK);
    query_check(&query);
    gmv_query_fini(&query);
    FUZZ_REQUIRE(gmv_alloc_live() == live);
    return 0;
}
