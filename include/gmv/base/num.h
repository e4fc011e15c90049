/* SPDX-License-Identifier: Apache-2.0 */
/* Checked arithmetic and strict number parsing. Pure, thread-safe. */
#ifndef GMV_BASE_NUM_H
#define GMV_BASE_NUM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <gmv/base/attr.h>

GMV_BEGIN_DECLS

/* True if the exact result fits, which is then stored. */
#define gmv_add_checked(a, b, out) (!__builtin_add_overflow((a), (b), (out)))
#define gmv_sub_checked(a, b, out) (!__builtin_sub_overflow((a), (b), (out)))
#define gmv_mul_checked(a, b, out) (!__builtin_mul_overflow((a), (b), (out)))

#define GMV_MIN(a, b) ((a) < (b) ? (a) : (b))
#define GMV_MAX(a, b) ((a) > (b) ? (a) : (b))

/* The next multiple of `boundary` (a power of two); false when it does not fit. */
static inline bool gmv_round_up_checked(uint64_t value, uint64_t boundary, uint64_t *out)
{
    uint64_t sum;
    if (!gmv_add_checked(value, boundary - 1, &sum))
        return false;
    *out = sum & ~(boundary - 1);
    return true;
}

/* Doubles hold every integer up to this one: the bound of sizes and offsets in answers. */
#define GMV_EXACT_IN_DOUBLE_MAX ((INT64_C(1) << 53) - 1)

/* The same where the caller knows that it fits. */
static inline uint64_t gmv_round_up(uint64_t value, uint64_t boundary)
{
    return (value + boundary - 1) & ~(boundary - 1);
}

/*
 * Reads exactly `length` bytes as a decimal integer: an optional '-', then digits without leading
 * zeros other than "0" itself. False for anything else or for what does not fit.
 */
GMV_NODISCARD bool gmv_parse_int64(const char *text, size_t length, int64_t *out);
GMV_NODISCARD bool gmv_parse_uint64(const char *text, size_t length, uint64_t *out);

GMV_END_DECLS

#endif
