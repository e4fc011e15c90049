/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the host backend touches memory that clients and other processes may touch at the same time.
 *
 * Such races are theirs to order, so every function that reads or writes client memory carries
 * GMV_CLIENT_MEMORY, which exempts it from ThreadSanitizer; nothing else is exempt. memcpy and
 * memset are checked by that tool wherever they are called from: use client_copy and client_fill
 * instead. Loads and stores take any alignment and are little-endian, as all formats served here
 * are.
 */
#ifndef GMV_DEVICE_HOST_CLIENT_MEMORY_H
#define GMV_DEVICE_HOST_CLIENT_MEMORY_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <gmv/base/attr.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "masks and elements are little-endian");

#if defined(__SANITIZE_THREAD__)
#    define GMV_THREAD_SANITIZER 1
#elif defined(__has_feature)
#    if __has_feature(thread_sanitizer)
#        define GMV_THREAD_SANITIZER 1
#    endif
#endif
#ifndef GMV_THREAD_SANITIZER
#    define GMV_THREAD_SANITIZER 0
#endif

#if GMV_THREAD_SANITIZER
#    define GMV_CLIENT_MEMORY __attribute__((no_sanitize("thread"), no_sanitize_thread))
#else
#    define GMV_CLIENT_MEMORY
#endif

#define CLIENT_INLINE static inline GMV_CLIENT_MEMORY __attribute__((unused))

/* Packed types: the compiler loads them directly at any alignment, in every build. */
typedef struct client_u16 {
    uint16_t value;
} __attribute__((packed, may_alias)) client_u16;
typedef struct client_u32 {
    uint32_t value;
} __attribute__((packed, may_alias)) client_u32;
typedef struct client_u64 {
    uint64_t value;
} __attribute__((packed, may_alias)) client_u64;

CLIENT_INLINE uint64_t client_load64(const uint8_t *address)
{
    return ((const client_u64 *)(const void *)address)->value;
}

CLIENT_INLINE void client_store64(uint8_t *address, uint64_t value)
{
    ((client_u64 *)(void *)address)->value = value;
}

CLIENT_INLINE void client_copy(void *destination, const void *source, size_t nbytes)
{
#if GMV_THREAD_SANITIZER
    /* volatile keeps the compiler from making a call of memcpy out of this. */
    volatile uint8_t *to = destination;
    const volatile uint8_t *from = source;
    for (size_t i = 0; i < nbytes; i++)
        to[i] = from[i];
#else
    if (nbytes) /* addresses of nothing may be NULL */
        memcpy(destination, source, nbytes);
#endif
}

CLIENT_INLINE void client_fill(void *destination, uint8_t value, size_t nbytes)
{
#if GMV_THREAD_SANITIZER
    volatile uint8_t *to = destination;
    for (size_t i = 0; i < nbytes; i++)
        to[i] = value;
#else
    if (nbytes)
        memset(destination, value, nbytes);
#endif
}

#endif
