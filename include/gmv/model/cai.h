/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A CUDA Array Interface payload as values (versions 0 to 3, one grammar), and what its members may
 * say, by Numba's page "CUDA Array Interface (Version 3)". JSON to this struct is codec/cai_json.h;
 * which buffer an address is in is the registry's.
 */
#ifndef GMV_MODEL_CAI_H
#define GMV_MODEL_CAI_H

#include <stdbool.h>
#include <stdint.h>

#include <gmv/base/error.h>
#include <gmv/model/dtype.h>
#include <gmv/model/layout.h>

GMV_BEGIN_DECLS

#define GMV_CAI_VERSION_MAX 3

typedef struct gmv_cai {
    int64_t address; /* of element [0, ..., 0], in the poster's address space; as posted */
    bool readonly;
    bool is_bit_field; /* typestr "|t1": bits, legal only as a mask; dtype is then U1 */
    gmv_dtype dtype;
    gmv_layout layout;
    int64_t version;
    bool has_stream; /* a stream other than null */
    int64_t stream;
} gmv_cai;

/* How the elements of a mask are read; the array-interface rule and cuDF's own differ. */
typedef enum gmv_mask_kind {
    GMV_MASK_NONE,
    GMV_MASK_BOOLS, /* |b1, one element each, of equal shape */
    GMV_MASK_BYTES, /* |u1, one element each, of equal shape, truthy = valid */
    GMV_MASK_BITS   /* one bit a row, LSB first: cuDF's Arrow bitmap */
} gmv_mask_kind;

/* "bools", "bytes", "bits"; NULL for GMV_MASK_NONE. @borrowed, static. */
const char *gmv_mask_kind_name(gmv_mask_kind kind);

/*
 * The values of the members that stand for themselves, in the order version, address, shape,
 * strides, stream. `has_event`: the request brings an IPC event to wait for.
 *
 * @retval GMV_ERR_VALUE  version below 0 or above 3, negative address or extent, stream 0 or
 *                        negative, a foreign stream without an event, zero address with elements
 * Pointers are relative to the payload ("/version", "/data/0", "/shape/1", "/stream").
 */
GMV_NODISCARD gmv_status gmv_cai_check(const gmv_cai *cai, bool has_event, gmv_error *err);

/*
 * What a mask is, for a view of `layout`: |b1 of equal shape: bools; |t1, 1-d, of as many bits as
 * the view has rows (1-d): bits; |u1 of equal shape: bytes; |u1, 1-d, of another length of at least
 * ceil(rows / 8): bits. `requested` (GMV_MASK_NONE: not given) settles |u1, and must fit.
 *
 * @retval GMV_ERR_VALUE              the shape does not fit ("/mask/shape"), the request does not
 *                                    ("/mask_kind"), or bits do not lie side by side
 *                                    ("/mask/strides")
 * @retval GMV_ERR_DTYPE_UNSUPPORTED  another element type ("/mask/typestr")
 */
GMV_NODISCARD gmv_status gmv_cai_classify_mask(const gmv_cai *cai, const gmv_cai *mask,
                                               gmv_mask_kind requested, gmv_mask_kind *out_kind,
                                               gmv_error *err);

GMV_END_DECLS

#endif
