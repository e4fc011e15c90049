/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of a tree as JSON. One key of a dictionary may stand in many rows, and a short element may
 * have a long text, so the length is watched as it grows. Recursion goes as deep as columns nest.
 */
#include "codec/column_values.h"

#include "codec/base64.h"
#include "codec/utf8.h"
#include "codec/values.h"

typedef struct values_text {
    gmv_json_writer *writer;
    size_t end; /* length that the text may not pass */
} values_text;

static bool values_put_row(values_text *text, const gmv_column_rows *rows, int64_t row);

static bool values_has_room(const values_text *text, size_t more)
{
    const gmv_strbuf *out = text->writer->out;
    return !gmv_strbuf_failed(out) && out->length <= text->end && more <= text->end - out->length;
}

static bool values_put_run(values_text *text, const gmv_column_rows *rows, int64_t first,
                           int64_t end)
{
    gmv_json_open_array(text->writer);
    for (int64_t i = first; i < end; i++)
        if (!values_put_row(text, rows, i))
            return false;
    gmv_json_close_array(text->writer);
    return true;
}

/* ---- by type ---- */

static bool values_put_string(values_text *text, const gmv_column_rows *rows, int64_t row)
{
    const size_t first = (size_t)rows->offsets[row];
    const size_t length = (size_t)rows->offsets[row + 1] - first;
    const char *characters = length > 0 ? (const char *)rows->data + first : "";
    if (!values_has_room(text, length))
        return false;
    if (gmv_utf8_check(characters, length, NULL)) {
        gmv_json_put_text(text->writer, characters, length);
        return true;
    }
    gmv_json_open_object(text->writer);
    gmv_json_put_key(text->writer, "base64");
    gmv_json_separate(text->writer);
    gmv_strbuf_putc(text->writer->out, '"');
    gmv_base64_encode(text->writer->out, characters, length);
    gmv_strbuf_putc(text->writer->out, '"');
    gmv_json_close_object(text->writer);
    return true;
}

static bool values_put_list(values_text *text, const gmv_column_rows *rows, int64_t row)
{
    return values_put_run(text, rows->children, rows->offsets[row], rows->offsets[row + 1]);
}

static bool values_put_struct(values_text *text, const gmv_column_rows *rows, int64_t row)
{
    gmv_json_open_array(text->writer);
    for (size_t i = 0; i < rows->n_children; i++)
        if (!values_put_row(text, &rows->children[i], row))
            return false;
    gmv_json_close_array(text->writer);
    return true;
}

static bool values_put_key(values_text *text, const gmv_column_rows *rows, int64_t row)
{
    const int64_t key = rows->keys[row];
    if (key != GMV_COLUMN_NO_KEY)
        return values_put_row(text, &rows->children[GMV_COLUMN_KEY_CHILD(key)],
                              GMV_COLUMN_KEY_ROW(key));
    gmv_json_put_null(text->writer);
    return true;
}

static bool values_put_nothing(values_text *text, const gmv_column_rows *rows, int64_t row)
{
    gmv_json_put_null(text->writer);
    return true;
}

static bool values_put_element(values_text *text, const gmv_column_rows *rows, int64_t row)
{
    const size_t width = gmv_cudf_type_width(rows->type.id);
    gmv_encode_fixed_width(text->writer, rows->type,
                           (const unsigned char *)rows->data + (size_t)row * width);
    return true;
}

typedef bool (*values_put)(values_text *text, const gmv_column_rows *rows, int64_t row);

static const values_put values_of_compounds[GMV_CUDF_TYPE_COUNT] = {
    [GMV_CUDF_EMPTY] = values_put_nothing,    [GMV_CUDF_STRING] = values_put_string,
    [GMV_CUDF_LIST] = values_put_list,        [GMV_CUDF_STRUCT] = values_put_struct,
    [GMV_CUDF_DICTIONARY32] = values_put_key,
};

static bool values_put_row(values_text *text, const gmv_column_rows *rows, int64_t row)
{
    const values_put put = values_of_compounds[rows->type.id];
    if (!values_has_room(text, 0))
        return false;
    if (gmv_column_rows_valid(rows, row))
        return put ? put(text, rows, row) : values_put_element(text, rows, row);
    gmv_json_put_null(text->writer);
    return true;
}

bool gmv_encode_column_rows(gmv_json_writer *writer, const gmv_column_rows *rows, size_t nbytes_max)
{
    values_text text = {.writer = writer, .end = writer->out->length + nbytes_max};
    return values_put_run(&text, rows, 0, rows->count) && values_has_room(&text, 0);
}
