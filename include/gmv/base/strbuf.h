/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A growing text. After a failed allocation it stays failed: later calls do nothing, and the one
 * check at the end (gmv_strbuf_failed) is enough. The text is always NUL-terminated once something
 * was appended. Not shared between threads.
 */
#ifndef GMV_BASE_STRBUF_H
#define GMV_BASE_STRBUF_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <gmv/base/attr.h>

GMV_BEGIN_DECLS

typedef struct gmv_strbuf {
    char *data;    /* NULL until something is appended */
    size_t length; /* bytes without the final NUL */
    size_t capacity;
    bool failed;
} gmv_strbuf;

#define GMV_STRBUF_INIT ((gmv_strbuf){0})

/* Empty, as zeroes are. What is appended is freed by gmv_strbuf_fini, after which it is empty. */
void gmv_strbuf_init(gmv_strbuf *buf);
void gmv_strbuf_fini(gmv_strbuf *buf);

/* Makes room for `more` bytes behind the text, and a NUL. False without memory: it has failed. */
bool gmv_strbuf_reserve(gmv_strbuf *buf, size_t more);

/* What the inline functions below do when there is no room yet. */
void gmv_strbuf_append_slowly(gmv_strbuf *buf, const void *bytes, size_t nbytes);

/* Inline, so that a literal's length is known where it is written: answers are made of thousands.
 */
static GMV_ALWAYS_INLINE void gmv_strbuf_append(gmv_strbuf *buf, const void *bytes, size_t nbytes)
{
    /* Nothing may come with a NULL; without data capacity and length are both 0. */
    if (GMV_UNLIKELY(nbytes == 0 || nbytes >= buf->capacity - buf->length || buf->failed)) {
        gmv_strbuf_append_slowly(buf, bytes, nbytes);
        return;
    }
    __builtin_memcpy(buf->data + buf->length, bytes, nbytes);
    buf->length += nbytes;
    buf->data[buf->length] = '\0';
}

static GMV_ALWAYS_INLINE void gmv_strbuf_puts(gmv_strbuf *buf, const char *text)
{
    gmv_strbuf_append(buf, text, __builtin_strlen(text));
}

static GMV_ALWAYS_INLINE void gmv_strbuf_putc(gmv_strbuf *buf, char c)
{
    gmv_strbuf_append(buf, &c, 1);
}

void gmv_strbuf_printf(gmv_strbuf *buf, const char *format, ...) GMV_PRINTF(2, 3);

/* In decimal, many times faster than printf. */
void gmv_strbuf_int64(gmv_strbuf *buf, int64_t value);
void gmv_strbuf_uint64(gmv_strbuf *buf, uint64_t value);

static inline bool gmv_strbuf_failed(const gmv_strbuf *buf)
{
    return buf->failed;
}

/* Gives the text to the caller, who frees it with gmv_free, and empties `buf`. NULL if failed. */
char *gmv_strbuf_take(gmv_strbuf *buf, size_t *out_length);

GMV_END_DECLS

#endif
