/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a Range header: parts lie inside, ascend and are disjoint, and the plain spelling of
 * each gives the same part.
 */
#include "fuzz/fuzz.h"

#include "codec/range.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_input input = {data, size};
    uint64_t nbytes = (uint64_t)fuzz_take_int64(&input);
    gmv_byte_ranges ranges;
    const char *text = input.left > 0 ? (const char *)input.data : "";
    gmv_range_outcome outcome = gmv_range_parse(text, input.left, nbytes, &ranges);
    if (outcome != GMV_RANGE_PART) {
        FUZZ_REQUIRE(outcome == GMV_RANGE_WHOLE || outcome == GMV_RANGE_UNSATISFIABLE);
        FUZZ_REQUIRE(ranges.count == 0);
        return 0;
    }
    FUZZ_REQUIRE(ranges.count >= 1 && ranges.count <= GMV_RANGES_MAX);
    for (size_t i = 0; i < ranges.count; i++) {
        const gmv_byte_range *range = &ranges.items[i];
        gmv_byte_ranges again;
        char plain[64];
        FUZZ_REQUIRE(range->first <= range->last && range->last < nbytes);
        FUZZ_REQUIRE(i == 0 || range[-1].last < range->first);
        int length = snprintf(plain, sizeof plain, "bytes=%llu-%llu",
                              (unsigned long long)range->first, (unsigned long long)range->last);
        FUZZ_REQUIRE(gmv_range_parse(plain, (size_t)length, nbytes, &again) == GMV_RANGE_PART);
        FUZZ_REQUIRE(again.count == 1);
        FUZZ_REQUIRE(again.items[0].first == range->first && again.items[0].last == range->last);
    }
    return 0;
}
