/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a type string: what is read is a type that its own text leads back to. */
#include "fuzz/fuzz.h"

#include <gmv/model/dtype.h>

static void fuzz_check_error(const gmv_error *err, gmv_status status)
{
    FUZZ_REQUIRE(status == GMV_ERR_VALUE || status == GMV_ERR_DTYPE_UNSUPPORTED);
    FUZZ_REQUIRE(err->status == status);
    FUZZ_REQUIRE(err->has_pointer && strcmp(err->pointer, "/typestr") == 0);
    FUZZ_REQUIRE(err->message[0] != '\0');
    for (const char *c = err->message; *c != '\0'; c++)
        FUZZ_REQUIRE(*c >= 0x20 && *c <= 0x7e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    gmv_dtype dtype = GMV_DTYPE_COUNT;
    gmv_error err;
    gmv_error_init(&err);
    gmv_status status = gmv_dtype_parse((const char *)data, size, &dtype, &err);
    if (status != GMV_OK) {
        fuzz_check_error(&err, status);
        FUZZ_REQUIRE(dtype == GMV_DTYPE_COUNT);
        return 0;
    }
    FUZZ_REQUIRE(dtype >= 0 && dtype < GMV_DTYPE_COUNT);
    const char *canonical = gmv_dtype_describe(dtype)->typestr;
    gmv_dtype again = GMV_DTYPE_COUNT;
    FUZZ_REQUIRE(strlen(canonical) == size && memcmp(canonical + 1, data + 1, size - 1) == 0);
    FUZZ_REQUIRE(gmv_dtype_parse(canonical, size, &again, NULL) == GMV_OK && again == dtype);
    return 0;
}
