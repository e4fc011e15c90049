/* SPDX-License-Identifier: Apache-2.0 */
/* What a view's own mask says of some of its elements, as bits on the host. */
#include <gmv/base/alloc.h>

#include "ops/column_priv.h"
#include "ops/inspect_priv.h"

/* Bit i of `bits` is bit `shift + i` of `bytes`; true if byte i is not 0 where there are no bits.
 */
static void validity_pack(const uint8_t *bytes, bool is_bits, unsigned shift, int64_t count,
                          uint8_t *bits)
{
    for (int64_t i = 0; i < count; i++) {
        bool valid = is_bits ? bytes[(shift + i) / 8] >> (shift + i) % 8 & 1 : bytes[i] != 0;
        bits[i / 8] = (uint8_t)(bits[i / 8] | valid << i % 8);
    }
}

gmv_status gmv_view_read_validity(gmv_operation *operation, gmv_view *view, int64_t first,
                                  int64_t count, uint8_t **out_bits, gmv_error *err)
{
    bool is_bits = view->mask_kind == GMV_MASK_BITS;
    *out_bits = NULL;
    if (!view->mask || count == 0)
        return GMV_OK;
    int64_t from = is_bits ? first / 8 : first;
    int64_t n = is_bits ? gmv__bits_nbytes(first % 8 + count) : count;
    uint8_t *bytes = gmv_malloc((size_t)n);
    uint8_t *bits = gmv_calloc((size_t)gmv__bits_nbytes(count), 1);
    gmv_status status = bytes && bits
                            ? gmv_view_read_elements(operation, view->mask, from, n, bytes, err)
                            : gmv_fail_no_memory(err);
    if (status == GMV_OK) {
        validity_pack(bytes, is_bits, (unsigned)(first % 8), count, bits);
        *out_bits = bits;
    } else {
        gmv_free(bits);
    }
    gmv_free(bytes);
    return status;
}
