/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base: what every floor stands on: status and error values, checked numbers, allocation that can
 * fail on demand, text, ids, clock and log. Knows nothing of devices, handles or HTTP.
 *
 * attr.h names the compiler attributes that the headers use.
 */
#ifndef GMV_BASE_ATTR_H
#define GMV_BASE_ATTR_H

#define GMV_NODISCARD         __attribute__((warn_unused_result))
#define GMV_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define GMV_CLEANUP(function) __attribute__((cleanup(function)))
#define GMV_ALWAYS_INLINE     inline __attribute__((always_inline))
#define GMV_LIKELY(x)         __builtin_expect(!!(x), 1)
#define GMV_UNLIKELY(x)       __builtin_expect(!!(x), 0)

/* The struct of type `type` whose member `member` is at `pointer`. */
#define GMV_CONTAINER_OF(pointer, type, member) \
    ((type *)(void *)((char *)(pointer) - __builtin_offsetof(type, member)))

#ifdef __cplusplus
#    define GMV_BEGIN_DECLS extern "C" {
#    define GMV_END_DECLS   }
#else
#    define GMV_BEGIN_DECLS
#    define GMV_END_DECLS
#endif

#endif
