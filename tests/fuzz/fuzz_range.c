/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a Range header: a part lies inside, and its plain spelling gives the same part. */
#include "fuzz/fuzz.h"

#include "codec/range.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_input input = {data, size};
    uint64_t nbytes = (uint64_t)fuzz_take_int64(&input);
    uint64_t first = 1;
    uint64_t last = 0;
    const char *text = input.left > 0 ? (const char *)input.data : "";
    gmv_range_outcome outcome = gmv_range_parse(text, input.left, nbytes, &first, &last);
    if (outcome != GMV_RANGE_PART) {
        FUZZ_REQUIRE(outcome == GMV_RANGE_WHOLE || outcome == GMV_RANGE_UNSATISFIABLE);
        FUZZ_REQUIRE(first == 1 && last == 0);
        return 0;
    }
    FUZZ_REQUIRE(first <= last && last < nbytes);
    char plain[64];
    uint64_t again_first;
    uint64_t again_last;
    int length = snprintf(plain, sizeof plain, "bytes=%llu-%llu", (unsigned long long)first,
                          (unsigned long long)last);
    FUZZ_REQUIRE(gmv_range_parse(plain, (size_t)length, nbytes, &again_first, &again_last) ==
                 GMV_RANGE_PART);
    FUZZ_REQUIRE(again_first == first && again_last == last);
    return 0;
}
