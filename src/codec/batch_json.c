/* SPDX-License-Identifier: Apache-2.0 */
/* Batches (see batch_json.h). An answer is parsed when something first refers to it. */
#include "codec/batch_json.h"

#include <stdio.h>
#include <string.h>

#include <gmv/base/alloc.h>
#include <gmv/base/num.h>

#include "codec/decode_priv.h"
#include "codec/name_list.h"

typedef struct batch_answer {
    const char *text; /* NULL: there is none to refer to */
    size_t nbytes;
    json_t *root; /* owned, NULL until it is needed */
} batch_answer;

struct gmv_batch {
    json_t *root;
    const json_t *operations; /* in root */
    bool is_atomic;
    size_t count;
    batch_answer answers[];
};

/* ---- reading ---- */

static gmv_status batch_check_string(const json_t *value, const char *name, gmv_error *err)
{
    if (value == NULL)
        return GMV_OK;
    char pointer[32];
    snprintf(pointer, sizeof pointer, "/%s", name);
    return gmv_json_type_of(value) == GMV_JSON_STRING
               ? GMV_OK
               : gmv_decode_fail_type(value, "a string", pointer, err);
}

static gmv_status batch_check_entry(const json_t *entry, size_t index, void *context,
                                    gmv_error *err)
{
    if (!json_is_object(entry))
        return gmv_decode_fail_type(entry, "an object", "", err);
    GMV_TRY(batch_check_string(json_object_get(entry, "method"), "method", err));
    GMV_TRY(batch_check_string(json_object_get(entry, "path"), "path", err));
    const json_t *body = json_object_get(entry, "body");
    if (body != NULL && !json_is_null(body) && !json_is_object(body))
        return gmv_decode_fail_type(body, "an object", "/body", err);
    return GMV_OK;
}

static gmv_status batch_refuse_unknown(json_t *object, const char *const *known, gmv_error *err)
{
    for (void *at = json_object_iter(object); at != NULL; at = json_object_iter_next(object, at)) {
        const char *name = json_object_iter_key(at);
        size_t i = 0;
        while (known[i] != NULL && strcmp(known[i], name) != 0)
            i++;
        if (known[i] != NULL)
            continue;
        gmv_name_list list;
        gmv_name_list_fill(&list, known);
        gmv_status status =
            gmv_fail(err, GMV_ERR_VALUE, "", "there is no such member; known are: %s", list.text);
        gmv_decode_prefix_member(err, name);
        return status;
    }
    return GMV_OK;
}

static bool entry_is_delete(const json_t *entry)
{
    return strcmp(json_string_value(json_object_get(entry, "method")), "DELETE") == 0;
}

static gmv_status batch_read_entry(const json_t *entry, size_t index, void *context, gmv_error *err)
{
    static const char *const known[] = {"method", "path", "body", NULL};
    json_t *object = json_incref((json_t *)(uintptr_t)entry);
    gmv_status status = batch_refuse_unknown(object, known, err);
    json_decref(object);
    if (status != GMV_OK)
        return status;
    const json_t *method = json_object_get(entry, "method");
    const json_t *path = json_object_get(entry, "path");
    const json_t *body = json_object_get(entry, "body");
    if (method == NULL)
        return gmv_fail(err, GMV_ERR_VALUE, "/method", "method is missing");
    if (path == NULL)
        return gmv_fail(err, GMV_ERR_VALUE, "/path", "path is missing");
    if (!entry_is_delete(entry) && strcmp(json_string_value(method), "POST") != 0)
        return gmv_fail(err, GMV_ERR_VALUE, "/method", "a batch takes POST and DELETE");
    if (entry_is_delete(entry) && body != NULL && !json_is_null(body))
        return gmv_fail(err, GMV_ERR_VALUE, "/body", "DELETE takes no body");
    return GMV_OK;
}

static gmv_status batch_check_types(const json_t *root, gmv_error *err)
{
    if (!json_is_object(root))
        return gmv_decode_fail_type(root, "an object", "", err);
    const json_t *operations = json_object_get(root, "operations");
    const json_t *atomic = json_object_get(root, "atomic");
    if (atomic != NULL && !json_is_null(atomic) && !json_is_boolean(atomic))
        return gmv_decode_fail_type(atomic, "a boolean", "/atomic", err);
    if (operations == NULL)
        return GMV_OK;
    if (!json_is_array(operations))
        return gmv_decode_fail_type(operations, "an array", "/operations", err);
    gmv_status status = gmv_decode_each(operations, batch_check_entry, NULL, err);
    if (status != GMV_OK)
        gmv_decode_prefix_member(err, "operations");
    return status;
}

static gmv_status batch_check_values(json_t *root, gmv_error *err)
{
    static const char *const known[] = {"operations", "atomic", NULL};
    GMV_TRY(batch_refuse_unknown(root, known, err));
    const json_t *operations = json_object_get(root, "operations");
    if (operations == NULL)
        return gmv_fail(err, GMV_ERR_VALUE, "/operations", "operations is missing");
    if (json_array_size(operations) > GMV_BATCH_OPERATIONS_MAX)
        return gmv_fail(err, GMV_ERR_VALUE, "/operations", "a batch has at most %d operations",
                        GMV_BATCH_OPERATIONS_MAX);
    gmv_status status = gmv_decode_each(operations, batch_read_entry, NULL, err);
    if (status != GMV_OK)
        gmv_decode_prefix_member(err, "operations");
    return status;
}

/* Takes the root over on success. */
static gmv_batch *batch_create(json_t *root)
{
    const json_t *operations = json_object_get(root, "operations");
    size_t count = json_array_size(operations);
    gmv_batch *batch = gmv_calloc(1, sizeof *batch + count * sizeof batch->answers[0]);
    if (batch == NULL)
        return NULL;
    batch->root = root;
    batch->operations = operations;
    batch->count = count;
    batch->is_atomic = !json_is_false(json_object_get(root, "atomic"));
    return batch;
}

gmv_status gmv_batch_parse(const char *body, size_t nbytes, gmv_batch **out_batch, gmv_error *err)
{
    json_t *root;
    if (nbytes == 0)
        return gmv_fail(err, GMV_ERR_JSON_MALFORMED, NULL,
                        "the body is empty, but operations is needed");
    GMV_TRY(gmv_json_parse(body, nbytes, &root, err));
    gmv_status status = batch_check_types(root, err);
    if (status == GMV_OK)
        status = batch_check_values(root, err);
    if (status == GMV_OK) {
        *out_batch = batch_create(root);
        if (*out_batch != NULL)
            return GMV_OK;
        status = gmv_fail_no_memory(err);
    }
    json_decref(root);
    return status;
}

void gmv_batch_destroy(gmv_batch *batch)
{
    if (!batch)
        return;
    for (size_t i = 0; i < batch->count; i++)
        json_decref(batch->answers[i].root);
    json_decref(batch->root);
    gmv_free(batch);
}

size_t gmv_batch_count(const gmv_batch *batch)
{
    return batch->count;
}

bool gmv_batch_is_atomic(const gmv_batch *batch)
{
    return batch->is_atomic;
}

bool gmv_batch_is_delete(const gmv_batch *batch, size_t index)
{
    return entry_is_delete(json_array_get(batch->operations, index));
}

void gmv_batch_keep_answer(gmv_batch *batch, size_t index, const char *text, size_t nbytes)
{
    batch->answers[index].text = text;
    batch->answers[index].nbytes = nbytes;
}

/* ---- references ---- */

static gmv_status reference_fail(gmv_error *err)
{
    return gmv_fail(err, GMV_ERR_VALUE, "",
                    "the reference leads nowhere: $N.member names a member of the answer to an "
                    "earlier operation N that has succeeded; a dollar sign is written as two");
}

/* A number without sign and leading zeros, up to the end or a point. */
static bool reference_index(const char *text, size_t length, size_t *out_index)
{
    uint64_t value;
    if (length == 0 || length > 9 || (text[0] == '0' && length > 1) ||
        !gmv_parse_uint64(text, length, &value))
        return false;
    *out_index = (size_t)value;
    return true;
}

static const json_t *reference_member(const json_t *value, const char *name, size_t length)
{
    size_t index;
    if (json_is_object(value)) {
        /* The names of answers are short. */
        char key[64];
        if (length >= sizeof key)
            return NULL;
        memcpy(key, name, length);
        key[length] = '\0';
        return json_object_get(value, key);
    }
    if (json_is_array(value) && reference_index(name, length, &index))
        return json_array_get(value, index);
    return NULL;
}

static gmv_status answer_load(batch_answer *answer, gmv_error *err)
{
    if (answer->root == NULL)
        GMV_TRY(gmv_json_parse(answer->text, answer->nbytes, &answer->root, err));
    return GMV_OK;
}

/* `text` is what stands behind the dollar sign. */
static gmv_status reference_follow(gmv_batch *batch, size_t index, const char *text, size_t length,
                                   const json_t **out_value, gmv_error *err)
{
    const char *end = text + length;
    const char *point = memchr(text, '.', length);
    size_t number;
    if (point == NULL || !reference_index(text, (size_t)(point - text), &number) ||
        number >= index || batch->answers[number].text == NULL)
        return reference_fail(err);
    GMV_TRY(answer_load(&batch->answers[number], err));
    const json_t *value = batch->answers[number].root;
    while (point != NULL && value != NULL) {
        const char *name = point + 1;
        point = memchr(name, '.', (size_t)(end - name));
        value = reference_member(value, name, (size_t)((point ? point : end) - name));
    }
    if (value == NULL)
        return reference_fail(err);
    *out_value = value;
    return GMV_OK;
}

/* ---- paths ---- */

static void path_put_escaped(gmv_strbuf *out, const char *text, size_t length)
{
    static const char plain[] = "-._~";
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)text[i];
        bool is_plain = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') ||
                        (c >= 'a' && c <= 'z') || (c && strchr(plain, c));
        if (is_plain)
            gmv_strbuf_putc(out, (char)c);
        else
            gmv_strbuf_printf(out, "%%%02X", c);
    }
}

static gmv_status path_put_segment(gmv_batch *batch, size_t index, const char *text, size_t length,
                                   gmv_strbuf *out, gmv_error *err)
{
    if (length == 0 || text[0] != '$') {
        gmv_strbuf_append(out, text, length);
        return GMV_OK;
    }
    if (length > 1 && text[1] == '$') {
        gmv_strbuf_append(out, text + 1, length - 1);
        return GMV_OK;
    }
    const json_t *value = NULL;
    GMV_TRY(reference_follow(batch, index, text + 1, length - 1, &value, err));
    if (gmv_json_type_of(value) != GMV_JSON_STRING)
        return gmv_fail(err, GMV_ERR_VALUE, "", "the reference is to %s; a path takes a string",
                        gmv_json_type_name(gmv_json_type_of(value)));
    path_put_escaped(out, json_string_value(value), json_string_length(value));
    return GMV_OK;
}

/* References stand before the query only. */
static gmv_status batch_resolve_path(gmv_batch *batch, size_t index, const json_t *path,
                                     gmv_strbuf *out, gmv_error *err)
{
    const char *text = json_string_value(path);
    size_t length = json_string_length(path);
    const char *query = memchr(text, '?', length);
    const char *end = query ? query : text + length;
    for (const char *at = text;;) {
        const char *slash = memchr(at, '/', (size_t)(end - at));
        const char *stop = slash ? slash : end;
        GMV_TRY(path_put_segment(batch, index, at, (size_t)(stop - at), out, err));
        if (slash == NULL)
            break;
        gmv_strbuf_putc(out, '/');
        at = slash + 1;
    }
    gmv_strbuf_append(out, end, (size_t)(text + length - end));
    return GMV_OK;
}

/* ---- bodies ---- */

typedef struct body_writer {
    gmv_batch *batch;
    size_t index;
    gmv_json_writer json;
} body_writer;

static gmv_status body_put(body_writer *writer, const json_t *value, gmv_error *err);

static gmv_status body_put_entry(const json_t *entry, size_t index, void *context, gmv_error *err)
{
    return body_put(context, entry, err);
}

static gmv_status body_put_object(body_writer *writer, const json_t *value, gmv_error *err)
{
    json_t *object = json_incref((json_t *)(uintptr_t)value);
    gmv_status status = GMV_OK;
    gmv_json_open_object(&writer->json);
    for (void *at = json_object_iter(object); at != NULL && status == GMV_OK;
         at = json_object_iter_next(object, at)) {
        const char *name = json_object_iter_key(at);
        gmv_json_put_foreign_key(&writer->json, name, strlen(name));
        status = body_put(writer, json_object_iter_value(at), err);
        if (status != GMV_OK)
            gmv_decode_prefix_member(err, name);
    }
    gmv_json_close_object(&writer->json);
    json_decref(object);
    return status;
}

static gmv_status body_put_string(body_writer *writer, const json_t *value, gmv_error *err)
{
    const char *text = json_string_value(value);
    size_t length = json_string_length(value);
    if (length > 1 && text[1] == '$') {
        gmv_json_put_text(&writer->json, text + 1, length - 1);
        return GMV_OK;
    }
    const json_t *found = NULL;
    GMV_TRY(reference_follow(writer->batch, writer->index, text + 1, length - 1, &found, err));
    gmv_json_put_value(&writer->json, found);
    return GMV_OK;
}

/* The text nests no deeper than the whole body, which is bounded. */
static gmv_status body_put(body_writer *writer, const json_t *value, gmv_error *err)
{
    if (json_is_object(value))
        return body_put_object(writer, value, err);
    if (json_is_array(value)) {
        gmv_json_open_array(&writer->json);
        gmv_status status = gmv_decode_each(value, body_put_entry, writer, err);
        gmv_json_close_array(&writer->json);
        return status;
    }
    if (gmv_json_type_of(value) == GMV_JSON_STRING && json_string_value(value)[0] == '$')
        return body_put_string(writer, value, err);
    gmv_json_put_value(&writer->json, value);
    return GMV_OK;
}

gmv_status gmv_batch_resolve(gmv_batch *batch, size_t index, gmv_strbuf *path, gmv_strbuf *body,
                             gmv_error *err)
{
    const json_t *entry = json_array_get(batch->operations, index);
    const json_t *value = json_object_get(entry, "body");
    gmv_status status = batch_resolve_path(batch, index, json_object_get(entry, "path"), path, err);
    if (status != GMV_OK) {
        gmv_decode_prefix_member(err, "path");
        return status;
    }
    if (value != NULL && !json_is_null(value)) {
        body_writer writer = {batch, index, gmv_json_writer_over(body)};
        status = body_put(&writer, value, err);
        if (status != GMV_OK) {
            gmv_decode_prefix_member(err, "body");
            return status;
        }
    }
    return gmv_strbuf_failed(path) || gmv_strbuf_failed(body) ? gmv_fail_no_memory(err) : GMV_OK;
}
