/* SPDX-License-Identifier: Apache-2.0 */
/* Python's rule for the bounds of a slice, for a step of 1. */
#include <gmv/model/slice.h>

#include <inttypes.h>

#include <gmv/base/num.h>

/* A negative bound counts from the end; the sum cannot overflow, as nbytes is not negative. */
static int64_t slice_clamp(int64_t bound, int64_t nbytes)
{
    if (bound < 0)
        bound += nbytes;
    return GMV_MIN(GMV_MAX(bound, 0), nbytes);
}

gmv_status gmv_slice_check(const gmv_slice *slice, gmv_error *err)
{
    if (slice->has_step && slice->step != 1)
        return gmv_fail(err, GMV_ERR_VALUE, "/step",
                        "step is %" PRId64 "; only a step of 1 keeps bytes together", slice->step);
    return GMV_OK;
}

gmv_status gmv_slice_resolve(const gmv_slice *slice, int64_t nbytes, int64_t *out_offset,
                             int64_t *out_length, gmv_error *err)
{
    GMV_TRY(gmv_slice_check(slice, err));
    int64_t start = slice->has_start ? slice_clamp(slice->start, nbytes) : 0;
    int64_t stop = slice->has_stop ? slice_clamp(slice->stop, nbytes) : nbytes;
    *out_offset = start;
    *out_length = GMV_MAX(stop - start, 0);
    return GMV_OK;
}
