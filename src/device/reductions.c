/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions: dispatch to the backend, and what merges their outcomes on the host. */
#include <gmv/device/reductions.h>

#include <assert.h>

#include <xxhash.h>

#include <gmv/base/num.h>

#include "device/backend.h"
#include "device/elements.h"
#include "device/tiles.h"

/* A call on a lost device, or the one that a test has chosen, fails. */
#define ENTER(stream, err) GMV_TRY(gmv__device_enter((stream)->device, err))

gmv_status gmv_kernel_statistics(gmv_stream *stream, const gmv_statistics_reduction *args,
                                 gmv_error *err)
{
    ENTER(stream, err);
    assert(args->n >= 0 && args->n <= GMV_REDUCTION_ELEMENTS_MAX && args->scratch % 64 == 0);
    assert(gmv_dtype_is_ordered(args->dtype));
    return stream->device->ops->statistics(stream, args, err);
}

gmv_status gmv_kernel_compare(gmv_stream *stream, const gmv_comparison_reduction *args,
                              gmv_error *err)
{
    ENTER(stream, err);
    assert(args->n >= 0 && args->n <= GMV_REDUCTION_ELEMENTS_MAX && args->scratch % 64 == 0);
    return stream->device->ops->compare(stream, args, err);
}

gmv_status gmv_kernel_histogram(gmv_stream *stream, const gmv_histogram_reduction *args,
                                gmv_error *err)
{
    ENTER(stream, err);
    assert(args->n >= 0 && args->n <= GMV_REDUCTION_ELEMENTS_MAX && args->n_bins >= 1);
    assert(gmv_dtype_is_ordered(args->dtype));
    return stream->device->ops->histogram(stream, args, err);
}

gmv_status gmv_kernel_hash_blocks(gmv_stream *stream, const gmv_hash_blocks *args, gmv_error *err)
{
    ENTER(stream, err);
    assert(args->n >= 0 && args->input % 16 == 0 && args->output % 8 == 0);
    assert(args->block_nbytes % 64 == 0 && args->block_nbytes >= GMV_HASH_BLOCK_MIN);
    return stream->device->ops->hash_blocks(stream, args, err);
}

gmv_status gmv_kernel_crc32c(gmv_stream *stream, const gmv_crc32c *args, gmv_error *err)
{
    ENTER(stream, err);
    assert(args->input % 16 == 0 && args->output % 4 == 0);
    return stream->device->ops->crc32c(stream, args, err);
}

/* ---- elements ---- */

/* Dates and time spans are read as integers. */
int gmv__element_of_dtype(gmv_dtype dtype)
{
#define ROW(name, suffix, type, bits, is_float) \
    case GMV_DTYPE_##name:                      \
        return ELEMENT_##suffix;
    switch (dtype) {
        ELEMENT_MAP(ROW)
    default:
        break;
    }
#undef ROW
    gmv_dtype_kind kind = gmv_dtype_describe(dtype)->kind;
    return kind == GMV_DTYPE_DATETIME || kind == GMV_DTYPE_TIMEDELTA ? ELEMENT_i8 : -1;
}

bool gmv_dtype_is_ordered(gmv_dtype dtype)
{
    return gmv__element_of_dtype(dtype) >= 0;
}

/* What a key was made of: keys of b1 are 0 and 1, of the others the bits with the sign changed. */
static uint64_t key_bits(gmv_dtype_kind kind, unsigned n_bits, uint64_t key)
{
    uint64_t sign = UINT64_C(1) << (n_bits - 1);
    if (kind == GMV_DTYPE_UNSIGNED || kind == GMV_DTYPE_BOOLEAN)
        return key;
    if (kind == GMV_DTYPE_FLOAT)
        return key & sign ? key ^ sign : ~key;
    return key ^ sign;
}

void gmv_element_of_key(gmv_dtype dtype, uint64_t key, void *out_element)
{
    const gmv_dtype_info *info = gmv_dtype_describe(dtype);
    uint64_t bits = key_bits(info->kind, 8u * info->itemsize, key);
    memcpy(out_element, &bits, info->itemsize);
}

double gmv_element_value(gmv_dtype dtype, const void *element)
{
#define ROW(name, suffix, type, n_bits, is_float)                         \
    case ELEMENT_##suffix: {                                              \
        type bits;                                                        \
        memcpy(&bits, element, sizeof bits);                              \
        if (element_class_##suffix(bits) == ELEMENT_FINITE)               \
            return element_double_##suffix(bits);                         \
        if (element_class_##suffix(bits) == ELEMENT_NAN)                  \
            return __builtin_nan("");                                     \
        return bits >> ((n_bits)-1) ? -__builtin_inf() : __builtin_inf(); \
    }
    switch (gmv__element_of_dtype(dtype)) {
        ELEMENT_MAP(ROW)
    default:
        return __builtin_nan("");
    }
#undef ROW
}

/* ---- outcomes ---- */

/* The outcome, then those of the tiles, then those of their merges, stage by stage. */
static uint64_t scratch_nbytes(gmv_dtype dtype, int64_t n, uint64_t partial_nbytes)
{
    uint32_t pieces = reduction_pieces(gmv_dtype_describe(dtype)->itemsize);
    uint64_t count = reduction_tiles((uint64_t)n, pieces), total = 1;
    for (; count > 1; count = reduction_merged(count))
        total += count;
    return gmv_round_up(total * partial_nbytes, 64);
}

uint64_t gmv_statistics_scratch_nbytes(gmv_dtype dtype, int64_t n)
{
    return scratch_nbytes(dtype, n, sizeof(gmv_statistics_partial));
}

uint64_t gmv_comparison_scratch_nbytes(gmv_dtype dtype, int64_t n)
{
    return scratch_nbytes(dtype, n, sizeof(gmv_comparison_partial));
}

gmv_statistics_partial gmv_statistics_none(void)
{
    return statistics_none();
}

gmv_comparison_partial gmv_comparison_none(void)
{
    return comparison_none();
}

void gmv_statistics_add(gmv_statistics_partial *into, const gmv_statistics_partial *from)
{
    statistics_merge(into, from);
}

void gmv_comparison_add(gmv_comparison_partial *into, const gmv_comparison_partial *from)
{
    comparison_merge(into, from);
}

/* ---- checksums ---- */

uint64_t gmv_hash_bytes(gmv_hash hash, const void *bytes, size_t nbytes)
{
    return hash == GMV_HASH_XXH3 ? XXH3_64bits(bytes, nbytes) : XXH64(bytes, nbytes, 0);
}
