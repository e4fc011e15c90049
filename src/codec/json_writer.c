/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON writer: structure, strings and numbers but floats, which json_float.c writes. */
#include "codec/json_writer.h"

#include <string.h>

#include <gmv/base/clock.h>

#include "codec/utf8.h"

static void writer_escape(gmv_strbuf *out, unsigned char byte)
{
    static const char digits[] = "0123456789abcdef";
    static const char plain[] = "\"\\\b\f\n\r\t";
    static const char letters[] = "\"\\bfnrt";
    const char *found = byte != 0 ? strchr(plain, byte) : NULL;
    if (found != NULL) {
        const char text[2] = {'\\', letters[found - plain]};
        gmv_strbuf_append(out, text, sizeof text);
    } else {
        const char text[6] = {'\\', 'u', '0', '0', digits[byte >> 4], digits[byte & 15]};
        gmv_strbuf_append(out, text, sizeof text);
    }
}

static bool writer_is_plain(unsigned char byte)
{
    return byte >= 0x20 && byte < 0x80 && byte != '"' && byte != '\\';
}

static void writer_quoted(gmv_strbuf *out, const char *text, size_t length)
{
    static const char replacement[] = "\xEF\xBF\xBD";
    gmv_strbuf_putc(out, '"');
    for (size_t at = 0; at < length;) {
        size_t run = 0;
        while (at + run < length && writer_is_plain((unsigned char)text[at + run]))
            run++;
        if (run > 0) {
            gmv_strbuf_append(out, text + at, run);
            at += run;
            continue;
        }
        size_t step = gmv_utf8_character(text + at, length - at);
        if (step == 0)
            gmv_strbuf_append(out, replacement, sizeof replacement - 1);
        else if (step > 1)
            gmv_strbuf_append(out, text + at, step);
        else
            writer_escape(out, (unsigned char)text[at]);
        at += step == 0 ? 1 : step;
    }
    gmv_strbuf_putc(out, '"');
}

void gmv_json_put_foreign_key(gmv_json_writer *writer, const char *name, size_t length)
{
    if (writer->needs_comma)
        gmv_strbuf_putc(writer->out, ',');
    writer_quoted(writer->out, name, length);
    gmv_strbuf_putc(writer->out, ':');
    writer->needs_comma = false;
}

void gmv_json_put_int64(gmv_json_writer *writer, int64_t value)
{
    gmv_json_separate(writer);
    gmv_strbuf_int64(writer->out, value);
}

void gmv_json_put_uint64(gmv_json_writer *writer, uint64_t value)
{
    gmv_json_separate(writer);
    gmv_strbuf_uint64(writer->out, value);
}

void gmv_json_put_text(gmv_json_writer *writer, const char *text, size_t length)
{
    gmv_json_separate(writer);
    writer_quoted(writer->out, text, length);
}

void gmv_json_put_string(gmv_json_writer *writer, const char *text)
{
    if (text == NULL)
        gmv_json_put_null(writer);
    else
        gmv_json_put_text(writer, text, strlen(text));
}

void gmv_json_put_id(gmv_json_writer *writer, const gmv_id *id)
{
    if (id->kind == GMV_KIND_ANY) {
        gmv_json_put_null(writer);
        return;
    }
    char text[GMV_ID_TEXT_MAX + 2];
    text[0] = '"';
    size_t length = gmv_id_format(id, text + 1);
    text[length + 1] = '"';
    gmv_json_put_raw(writer, text, length + 2);
}

void gmv_json_member_time(gmv_json_writer *writer, const char *name, int64_t wall_ms,
                          bool zero_is_null)
{
    char text[GMV_RFC3339_MAX];
    gmv_json_put_key(writer, name);
    if (zero_is_null && wall_ms == 0) {
        gmv_json_put_null(writer);
    } else {
        size_t length = gmv_clock_format_rfc3339(wall_ms, text);
        gmv_json_put_text(writer, text, length);
    }
}
