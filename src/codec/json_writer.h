/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes JSON text into a gmv_strbuf, commas included. Whatever strings hold, the text is valid
 * UTF-8: bytes that are not become U+FFFD. Allocation failures stay in the buffer and are asked for
 * once at the end. The caller opens and closes in pairs and gives each value of an object its key
 * first.
 */
#ifndef GMV_CODEC_JSON_WRITER_H
#define GMV_CODEC_JSON_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <gmv/base/id.h>
#include <gmv/base/strbuf.h>

typedef struct gmv_json_writer {
    gmv_strbuf *out;  /* @borrowed */
    bool needs_comma; /* a value stands before in the same object or array */
} gmv_json_writer;

static inline gmv_json_writer gmv_json_writer_over(gmv_strbuf *out)
{
    return (gmv_json_writer){out, false};
}

/* The comma in front of a value, where one is due. The rest of this header goes through it. */
static inline void gmv_json_separate(gmv_json_writer *writer)
{
    if (writer->needs_comma)
        gmv_strbuf_putc(writer->out, ',');
    writer->needs_comma = true;
}

static inline void gmv_json_open(gmv_json_writer *writer, char bracket)
{
    gmv_json_separate(writer);
    gmv_strbuf_putc(writer->out, bracket);
    writer->needs_comma = false;
}

static inline void gmv_json_close(gmv_json_writer *writer, char bracket)
{
    gmv_strbuf_putc(writer->out, bracket);
    writer->needs_comma = true;
}

static inline void gmv_json_open_object(gmv_json_writer *writer)
{
    gmv_json_open(writer, '{');
}

static inline void gmv_json_close_object(gmv_json_writer *writer)
{
    gmv_json_close(writer, '}');
}

static inline void gmv_json_open_array(gmv_json_writer *writer)
{
    gmv_json_open(writer, '[');
}

static inline void gmv_json_close_array(gmv_json_writer *writer)
{
    gmv_json_close(writer, ']');
}

/*
 * `name` is plain ASCII without quotes, backslashes or controls: it is written as it stands.
 * Always inline: a literal's length and bytes are then constants.
 */
static GMV_ALWAYS_INLINE void gmv_json_put_key(gmv_json_writer *writer, const char *name)
{
    gmv_json_separate(writer);
    gmv_strbuf_putc(writer->out, '"');
    gmv_strbuf_puts(writer->out, name);
    gmv_strbuf_append(writer->out, "\":", 2);
    writer->needs_comma = false;
}

/* A key that came from outside. */
void gmv_json_put_foreign_key(gmv_json_writer *writer, const char *name, size_t length);

/* A piece of JSON that is known to be one well-formed value. */
static inline void gmv_json_put_raw(gmv_json_writer *writer, const char *text, size_t length)
{
    gmv_json_separate(writer);
    gmv_strbuf_append(writer->out, text, length);
}

static inline void gmv_json_put_null(gmv_json_writer *writer)
{
    gmv_json_put_raw(writer, "null", 4);
}

static inline void gmv_json_put_bool(gmv_json_writer *writer, bool value)
{
    if (value)
        gmv_json_put_raw(writer, "true", 4);
    else
        gmv_json_put_raw(writer, "false", 5);
}

void gmv_json_put_int64(gmv_json_writer *writer, int64_t value);
void gmv_json_put_uint64(gmv_json_writer *writer, uint64_t value);
void gmv_json_put_text(gmv_json_writer *writer, const char *text, size_t length);
void gmv_json_put_string(gmv_json_writer *writer, const char *text); /* NULL: null */
void gmv_json_put_id(gmv_json_writer *writer, const gmv_id *id);     /* kind 0: null */

/*
 * Floats: a point or an exponent and the fewest digits that read back to the same value in the
 * given type; "NaN", "Infinity" and "-Infinity" as strings. Small floats are given by their bits.
 */
void gmv_json_put_float32(gmv_json_writer *writer, float value);
void gmv_json_put_float64(gmv_json_writer *writer, double value);
void gmv_json_put_float16(gmv_json_writer *writer, uint16_t bits);
void gmv_json_put_bfloat16(gmv_json_writer *writer, uint16_t bits);
void gmv_json_put_float8_e4m3fn(gmv_json_writer *writer, uint8_t bits);
void gmv_json_put_float8_e5m2(gmv_json_writer *writer, uint8_t bits);

/* ---- members: key and value ---- */

static GMV_ALWAYS_INLINE void gmv_json_member_null(gmv_json_writer *writer, const char *name)
{
    gmv_json_put_key(writer, name);
    gmv_json_put_null(writer);
}

static GMV_ALWAYS_INLINE void gmv_json_member_bool(gmv_json_writer *writer, const char *name,
                                                   bool value)
{
    gmv_json_put_key(writer, name);
    gmv_json_put_bool(writer, value);
}

static GMV_ALWAYS_INLINE void gmv_json_member_int64(gmv_json_writer *writer, const char *name,
                                                    int64_t value)
{
    gmv_json_put_key(writer, name);
    gmv_json_put_int64(writer, value);
}

static GMV_ALWAYS_INLINE void gmv_json_member_uint64(gmv_json_writer *writer, const char *name,
                                                     uint64_t value)
{
    gmv_json_put_key(writer, name);
    gmv_json_put_uint64(writer, value);
}

static GMV_ALWAYS_INLINE void gmv_json_member_string(gmv_json_writer *writer, const char *name,
                                                     const char *text)
{
    gmv_json_put_key(writer, name);
    gmv_json_put_string(writer, text);
}

static GMV_ALWAYS_INLINE void gmv_json_member_id(gmv_json_writer *writer, const char *name,
                                                 const gmv_id *id)
{
    gmv_json_put_key(writer, name);
    gmv_json_put_id(writer, id);
}

/* A string of our own tables (NULL: null): plain ASCII without quotes or backslashes. */
static inline void gmv_json_member_word(gmv_json_writer *writer, const char *name, const char *word)
{
    gmv_json_put_key(writer, name);
    if (word == NULL) {
        gmv_json_put_null(writer);
        return;
    }
    gmv_json_separate(writer);
    gmv_strbuf_putc(writer->out, '"');
    gmv_strbuf_puts(writer->out, word);
    gmv_strbuf_putc(writer->out, '"');
}

/* RFC 3339 in UTC; `zero_is_null`: 0 stands for "never". */
void gmv_json_member_time(gmv_json_writer *writer, const char *name, int64_t wall_ms,
                          bool zero_is_null);

#endif
