/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The growing text. Capacity doubles, so appending is linear in all; there is always room for the
 * final NUL. A failure is sticky and keeps what was there, for fini to free.
 */
#include <gmv/base/strbuf.h>

#include <stdio.h>
#include <string.h>

#include <gmv/base/alloc.h>
#include <gmv/base/num.h>

#define STRBUF_CAPACITY_MIN 64
#define STRBUF_DIGITS_MAX   20 /* of UINT64_MAX */

void gmv_strbuf_init(gmv_strbuf *buf)
{
    *buf = GMV_STRBUF_INIT;
}

void gmv_strbuf_fini(gmv_strbuf *buf)
{
    gmv_free(buf->data);
    *buf = GMV_STRBUF_INIT;
}

static bool strbuf_grow(gmv_strbuf *buf, size_t more)
{
    size_t needed;
    size_t doubled;
    if (!gmv_add_checked(buf->length, more, &needed) || !gmv_add_checked(needed, 1u, &needed) ||
        !gmv_mul_checked(buf->capacity, 2u, &doubled)) {
        buf->failed = true;
        return false;
    }
    size_t capacity = GMV_MAX(GMV_MAX(needed, doubled), STRBUF_CAPACITY_MIN);
    char *data = (char *)gmv_realloc(buf->data, capacity);
    if (data == NULL) {
        buf->failed = true;
        return false;
    }
    data[buf->length] = '\0';
    buf->data = data;
    buf->capacity = capacity;
    return true;
}

bool gmv_strbuf_reserve(gmv_strbuf *buf, size_t more)
{
    if (buf->failed)
        return false;
    /* capacity - length is at least 1 once there is data: the NUL's place. */
    if (GMV_LIKELY(buf->data != NULL && more < buf->capacity - buf->length))
        return true;
    return strbuf_grow(buf, more);
}

void gmv_strbuf_append_slowly(gmv_strbuf *buf, const void *bytes, size_t nbytes)
{
    if (!gmv_strbuf_reserve(buf, nbytes))
        return;
    if (nbytes != 0)
        memcpy(buf->data + buf->length, bytes, nbytes);
    buf->length += nbytes;
    buf->data[buf->length] = '\0';
}

void gmv_strbuf_printf(gmv_strbuf *buf, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    if (length < 0) {
        buf->failed = true;
        return;
    }
    if (!gmv_strbuf_reserve(buf, (size_t)length))
        return;
    va_start(arguments, format);
    (void)vsnprintf(buf->data + buf->length, (size_t)length + 1, format, arguments);
    va_end(arguments);
    buf->length += (size_t)length;
}

void gmv_strbuf_uint64(gmv_strbuf *buf, uint64_t value)
{
    static const char pairs[] = "00010203040506070809101112131415161718192021222324"
                                "25262728293031323334353637383940414243444546474849"
                                "50515253545556575859606162636465666768697071727374"
                                "75767778798081828384858687888990919293949596979899";
    char digits[STRBUF_DIGITS_MAX];
    char *end = digits + sizeof digits;
    char *first = end;
    for (; value >= 100; value /= 100) {
        first -= 2;
        memcpy(first, pairs + value % 100 * 2, 2);
    }
    if (value >= 10) {
        first -= 2;
        memcpy(first, pairs + value * 2, 2);
    } else {
        *--first = (char)('0' + value);
    }
    gmv_strbuf_append(buf, first, (size_t)(end - first));
}

void gmv_strbuf_int64(gmv_strbuf *buf, int64_t value)
{
    if (value < 0)
        gmv_strbuf_putc(buf, '-');
    gmv_strbuf_uint64(buf, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
}

char *gmv_strbuf_take(gmv_strbuf *buf, size_t *out_length)
{
    if (!gmv_strbuf_reserve(buf, 0)) {
        gmv_strbuf_fini(buf);
        if (out_length != NULL)
            *out_length = 0;
        return NULL;
    }
    char *text = buf->data;
    if (out_length != NULL)
        *out_length = buf->length;
    *buf = GMV_STRBUF_INIT;
    return text;
}
