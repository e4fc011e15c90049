/* SPDX-License-Identifier: Apache-2.0 */
/* Any slice of any size resolves as Python's rule says, here in arithmetic that cannot overflow. */
#include "fuzz/fuzz.h"

#include <gmv/model/slice.h>

typedef __int128 wide;

static wide fuzz_clamp(wide bound, wide nbytes)
{
    if (bound < 0)
        bound += nbytes;
    return bound < 0 ? 0 : bound > nbytes ? nbytes : bound;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_input input = {data, size};
    uint8_t flags = fuzz_take_byte(&input);
    gmv_slice slice = {.has_start = flags & 1, .has_stop = flags & 2, .has_step = flags & 4};
    int64_t nbytes = fuzz_take_int64(&input) & INT64_MAX;
    slice.start = fuzz_take_int64(&input);
    slice.stop = fuzz_take_int64(&input);
    slice.step = fuzz_take_int64(&input);

    int64_t offset = -1;
    int64_t length = -1;
    gmv_error err;
    gmv_error_init(&err);
    gmv_status status = gmv_slice_resolve(&slice, nbytes, &offset, &length, &err);
    if (slice.has_step && slice.step != 1) {
        FUZZ_REQUIRE(status == GMV_ERR_VALUE && strcmp(err.pointer, "/step") == 0);
        return 0;
    }
    wide start = slice.has_start ? fuzz_clamp(slice.start, nbytes) : 0;
    wide stop = slice.has_stop ? fuzz_clamp(slice.stop, nbytes) : nbytes;
    FUZZ_REQUIRE(status == GMV_OK);
    FUZZ_REQUIRE(offset == start);
    FUZZ_REQUIRE(length == (stop > start ? stop - start : 0));
    return 0;
}
