/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any array interface values, and any memory: what is accepted lies inside the memory and is
 * aligned, by a measure of its own in 128-bit arithmetic; what is refused has a reason.
 *
 * Input: element type, dimensions, flags, mask flags; address, version, stream, memory address and
 * size as int64; then extents and strides.
 */
#include "fuzz/fuzz.h"

#include <stdbool.h>

#include <gmv/model/cai.h>

enum { FUZZ_READONLY = 1, FUZZ_STRIDES = 2, FUZZ_STREAM = 4, FUZZ_EVENT = 8 };

typedef __int128 wide;

typedef struct fuzz_memory {
    int64_t address;
    int64_t nbytes;
} fuzz_memory;

static gmv_cai fuzz_take_cai(fuzz_input *input, uint8_t *out_flags, fuzz_memory *out_memory)
{
    gmv_cai cai = {0};
    cai.dtype = (gmv_dtype)(fuzz_take_byte(input) % GMV_DTYPE_COUNT);
    cai.layout.ndim = fuzz_take_byte(input) % (GMV_NDIM_MAX + 1);
    uint8_t flags = *out_flags = fuzz_take_byte(input);
    cai.readonly = flags & FUZZ_READONLY;
    cai.layout.has_strides = flags & FUZZ_STRIDES;
    cai.has_stream = flags & FUZZ_STREAM;
    (void)fuzz_take_byte(input);
    cai.address = fuzz_take_int64(input);
    cai.version = fuzz_take_int64(input);
    cai.stream = fuzz_take_int64(input);
    out_memory->address = fuzz_take_int64(input) & INT64_MAX;
    out_memory->nbytes = fuzz_take_int64(input) & INT64_MAX;
    for (int32_t i = 0; i < cai.layout.ndim; i++)
        cai.layout.shape[i] = fuzz_take_int64(input);
    for (int32_t i = 0; cai.layout.has_strides && i < cai.layout.ndim; i++)
        cai.layout.strides[i] = fuzz_take_int64(input);
    return cai;
}

/* Any value beyond int64 is as good as another; this keeps sums of 64 of them from overflowing. */
static wide fuzz_bound(wide value)
{
    const wide limit = (wide)1 << 100;
    return value > limit ? limit : value < -limit ? -limit : value;
}

/* What the measure must be; false if it must fail. */
static bool fuzz_measure(const gmv_layout *layout, int64_t itemsize, gmv_extent *out)
{
    wide nonzero = itemsize;
    wide low = 0;
    wide high = itemsize;
    bool empty = false;
    for (int32_t i = 0; i < layout->ndim; i++) {
        if (layout->shape[i] < 0)
            return false;
        empty |= layout->shape[i] == 0;
        if (layout->shape[i] > 0 && nonzero <= INT64_MAX)
            nonzero *= layout->shape[i];
    }
    if (nonzero > INT64_MAX)
        return false;
    *out = (gmv_extent){.contiguous = true};
    if (empty)
        return true;
    if (!layout->has_strides)
        high = nonzero;
    for (int32_t i = 0; layout->has_strides && i < layout->ndim; i++) {
        wide reach = (wide)(layout->shape[i] - 1) * layout->strides[i];
        *(reach < 0 ? &low : &high) = fuzz_bound(fuzz_bound(reach) + (reach < 0 ? low : high));
    }
    if (low < INT64_MIN || high > INT64_MAX)
        return false;
    out->size = (int64_t)(nonzero / itemsize);
    out->nbytes = (int64_t)nonzero;
    out->low = (int64_t)low;
    out->high = (int64_t)high;
    return true;
}

/* An accepted layout: contiguous exactly if its strides are those of C where they matter. */
static void fuzz_check_contiguity(const gmv_layout *layout, int64_t itemsize,
                                  const gmv_extent *extent)
{
    int64_t strides[GMV_NDIM_MAX];
    bool equal = true;
    gmv_layout_c_strides(layout, itemsize, strides);
    for (int32_t i = 0; layout->has_strides && i < layout->ndim; i++)
        equal &= layout->shape[i] == 1 || layout->strides[i] == strides[i];
    FUZZ_REQUIRE(extent->contiguous == (equal || extent->size == 0));
}

static void fuzz_check_place(const gmv_cai *cai, const gmv_dtype_info *info,
                             const gmv_extent *extent, const fuzz_memory *memory)
{
    wide offset = (wide)cai->address - memory->address;
    if (offset < INT64_MIN || offset > INT64_MAX)
        return;
    bool inside = offset >= 0 && offset <= memory->nbytes && offset + extent->low >= 0 &&
                  offset + extent->high <= memory->nbytes;
    gmv_status status = gmv_extent_check_inside(extent, (int64_t)offset, memory->nbytes, NULL);
    FUZZ_REQUIRE(status == (inside ? GMV_OK : GMV_ERR_OUT_OF_BOUNDS));
    bool aligned = cai->address % info->alignment == 0;
    for (int32_t i = 0; cai->layout.has_strides && i < cai->layout.ndim; i++)
        aligned &= cai->layout.shape[i] <= 1 || cai->layout.strides[i] % info->alignment == 0;
    status = gmv_layout_check_alignment(&cai->layout, info->alignment, (uint64_t)cai->address,
                                        "/data/0", NULL);
    FUZZ_REQUIRE(status == (aligned || extent->size == 0 ? GMV_OK : GMV_ERR_VALUE));
}

/* As a mask for an array of as many rows as its address says. */
static void fuzz_check_mask(const gmv_cai *mask, bool is_bit_field)
{
    gmv_cai array = *mask;
    gmv_cai taken = *mask;
    array.layout = gmv_layout_flat(mask->address);
    taken.is_bit_field = is_bit_field;
    if (is_bit_field)
        taken.dtype = GMV_DTYPE_U1;
    for (int requested = GMV_MASK_NONE; requested <= GMV_MASK_BITS; requested++) {
        gmv_mask_kind kind = GMV_MASK_NONE;
        gmv_status status =
            gmv_cai_classify_mask(&array, &taken, (gmv_mask_kind)requested, &kind, NULL);
        FUZZ_REQUIRE((status == GMV_OK) == (kind != GMV_MASK_NONE));
        FUZZ_REQUIRE(kind == GMV_MASK_NONE || requested == GMV_MASK_NONE ||
                     kind == (gmv_mask_kind)requested);
        FUZZ_REQUIRE(kind != GMV_MASK_BITS || taken.layout.ndim == 1);
        FUZZ_REQUIRE(kind != GMV_MASK_BITS || is_bit_field ||
                     (wide)taken.layout.shape[0] * 8 >= array.layout.shape[0]);
        FUZZ_REQUIRE((kind != GMV_MASK_BOOLS && kind != GMV_MASK_BYTES) ||
                     taken.layout.shape[0] == array.layout.shape[0]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_input input = {data, size};
    uint8_t flags = 0;
    fuzz_memory memory;
    gmv_cai cai = fuzz_take_cai(&input, &flags, &memory);
    const gmv_dtype_info *info = gmv_dtype_describe(cai.dtype);
    gmv_extent extent = {0};
    gmv_extent expected;
    gmv_error err;

    gmv_error_init(&err);
    bool measurable = fuzz_measure(&cai.layout, info->itemsize, &expected);
    gmv_status status = gmv_layout_measure(&cai.layout, info->itemsize, &extent, &err);
    FUZZ_REQUIRE((status == GMV_OK) == measurable);
    if (status == GMV_OK) {
        FUZZ_REQUIRE(extent.size == expected.size && extent.nbytes == expected.nbytes);
        FUZZ_REQUIRE(extent.low == expected.low && extent.high == expected.high);
        fuzz_check_contiguity(&cai.layout, info->itemsize, &extent);
    } else {
        FUZZ_REQUIRE(status == GMV_ERR_VALUE || status == GMV_ERR_OUT_OF_BOUNDS);
        FUZZ_REQUIRE(strncmp(err.pointer, "/shape", 6) == 0);
    }

    gmv_error_init(&err);
    status = gmv_cai_check(&cai, flags & FUZZ_EVENT, &err);
    FUZZ_REQUIRE(status == GMV_OK || (status == GMV_ERR_VALUE && err.pointer[0] == '/'));
    if (status != GMV_OK)
        return 0;
    FUZZ_REQUIRE(cai.address >= 0 && cai.version >= 0 && cai.version <= GMV_CAI_VERSION_MAX);
    FUZZ_REQUIRE(!cai.has_stream || cai.stream > 0);
    if (measurable) {
        FUZZ_REQUIRE(cai.address != 0 || extent.size == 0);
        fuzz_check_place(&cai, info, &extent, &memory);
    }
    fuzz_check_mask(&cai, false);
    fuzz_check_mask(&cai, true);
    return 0;
}
