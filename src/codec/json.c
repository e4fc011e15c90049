/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scan before jansson, jansson itself, and what reads marked numbers. jansson recurses over a
 * value, which the bounded nesting makes safe on small stacks.
 */
#include "codec/json.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <gmv/base/alloc.h>
#include <gmv/base/num.h>

/*
 * A marked number is a NUL, a letter (integer or real) and the digits as they came. No text that is
 * read can hold a NUL, bare or escaped, so none can pass for one.
 */
#define MARK_ESCAPED    "\\u0000"
#define MARK_INTEGER    'i'
#define MARK_REAL       'r'
#define INT64_DIGITS    18 /* so many digits always fit */
#define REAL_DIGITS_MAX 300

static pthread_once_t reader_once = PTHREAD_ONCE_INIT;

/* ---- memory ---- */

/*
 * jansson goes on after a failed allocation in places (growing the text of a token drops bytes, and
 * the string is then searched for a quote that may be gone), so none may fail under it: a parse
 * that runs out is left by longjmp, and all that it had allocated is freed. jansson holds no lock
 * and nothing but memory there. For that each block knows its neighbours of the same parse.
 */
typedef struct reader_block {
    struct reader_block *previous, *next;
} reader_block;

typedef struct reader_parse {
    reader_block ring; /* of the blocks that are allocated, this one not being one */
    jmp_buf out_of_memory;
} reader_parse;

static _Thread_local reader_parse *reader_current;

static void reader_link(reader_block *block, reader_block *before)
{
    block->previous = before != NULL ? before->previous : block;
    block->next = before != NULL ? before : block;
    block->previous->next = block;
    block->next->previous = block;
}

static void reader_unlink(reader_block *block)
{
    block->previous->next = block->next;
    block->next->previous = block->previous;
}

static void *reader_allocate(size_t nbytes)
{
    size_t total;
    reader_block *block = NULL;
    if (gmv_add_checked(nbytes, sizeof *block, &total))
        block = gmv_malloc(total);
    if (block == NULL && reader_current != NULL)
        longjmp(reader_current->out_of_memory, 1);
    if (block == NULL)
        return NULL;
    reader_link(block, reader_current != NULL ? &reader_current->ring : NULL);
    return block + 1;
}

static void reader_release(void *memory)
{
    if (memory == NULL)
        return;
    reader_block *block = (reader_block *)memory - 1;
    reader_unlink(block);
    gmv_free(block);
}

/* Before anything else uses jansson, whose blocks must all come from here. */
static void __attribute__((constructor)) reader_take_over_memory(void)
{
    json_set_alloc_funcs(reader_allocate, reader_release);
}

static void reader_seed(void)
{
    json_object_seed(0);
}

/* ---- the scan ---- */

typedef struct reader_scan {
    const char *text;
    size_t length;
    size_t at;
    size_t depth;
    size_t copied;        /* the bytes before this one are in `rewritten` already */
    gmv_strbuf rewritten; /* empty while no number had to be marked */
} reader_scan;

/* Where byte `at` stands, for people: both from 1, columns in bytes. */
static gmv_status reader_fail_at(const char *text, size_t at, const char *what, gmv_error *err)
{
    size_t line = 1;
    size_t column = 1;
    for (size_t i = 0; i < at; i++) {
        column = text[i] == '\n' ? 1 : column + 1;
        line += text[i] == '\n';
    }
    return gmv_fail(err, GMV_ERR_JSON_MALFORMED, NULL, "%s at line %zu, column %zu", what, line,
                    column);
}

static bool reader_is_escaped_nul(const reader_scan *scan)
{
    static const size_t length = sizeof MARK_ESCAPED - 1;
    return scan->length - scan->at >= length &&
           memcmp(scan->text + scan->at, MARK_ESCAPED, length) == 0;
}

/* Skips a string whose opening quote is at `at`. An unclosed one runs to the end; jansson says so.
 */
static gmv_status reader_scan_string(reader_scan *scan, gmv_error *err)
{
    for (scan->at++; scan->at < scan->length && scan->text[scan->at] != '"'; scan->at++) {
        if (scan->text[scan->at] == '\0')
            return reader_fail_at(scan->text, scan->at, "a NUL byte", err);
        if (scan->text[scan->at] != '\\')
            continue;
        if (reader_is_escaped_nul(scan))
            return reader_fail_at(scan->text, scan->at, "a NUL character in a string", err);
        if (scan->at + 1 < scan->length && scan->text[scan->at + 1] != '\0')
            scan->at++;
    }
    scan->at++;
    return GMV_OK;
}

static bool reader_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool reader_is_number_byte(char c)
{
    return reader_is_digit(c) || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E';
}

static size_t reader_skip_digits(const char *text, size_t at, size_t length)
{
    while (at < length && reader_is_digit(text[at]))
        at++;
    return at;
}

/* Whether the bytes are one number by the grammar, and of which sort. */
static bool reader_is_number(const char *text, size_t length, bool *out_real)
{
    size_t at = length > 0 && text[0] == '-';
    size_t whole = reader_skip_digits(text, at, length);
    if (whole == at || (text[at] == '0' && whole - at > 1))
        return false;
    at = whole;
    *out_real = at < length;
    if (at < length && text[at] == '.') {
        size_t fraction = reader_skip_digits(text, at + 1, length);
        if (fraction == at + 1)
            return false;
        at = fraction;
    }
    if (at < length && (text[at] == 'e' || text[at] == 'E')) {
        at++;
        if (at < length && (text[at] == '+' || text[at] == '-'))
            at++;
        size_t exponent = reader_skip_digits(text, at, length);
        if (exponent == at)
            return false;
        at = exponent;
    }
    return at == length;
}

static bool reader_real_overflows(const char *text, size_t length, bool *out_failed)
{
    char inline_copy[64];
    char *copy = inline_copy;
    if (length >= sizeof inline_copy)
        copy = gmv_strndup(text, length);
    *out_failed = copy == NULL;
    if (copy == NULL)
        return false;
    if (copy == inline_copy) {
        memcpy(copy, text, length);
        copy[length] = '\0';
    }
    double value = strtod(copy, NULL);
    if (copy != inline_copy)
        gmv_free(copy);
    return value - value != 0;
}

/* The next byte behind `at` that is not white space, or 0. */
static char reader_next_byte(const reader_scan *scan, size_t at)
{
    while (at < scan->length && strchr(" \t\r\n", scan->text[at]) != NULL && scan->text[at] != '\0')
        at++;
    return at < scan->length ? scan->text[at] : '\0';
}

static void reader_mark_number(reader_scan *scan, size_t start, size_t end, char letter)
{
    gmv_strbuf *out = &scan->rewritten;
    gmv_strbuf_append(out, scan->text + scan->copied, start - scan->copied);
    gmv_strbuf_append(out, "\"" MARK_ESCAPED, sizeof "\"" MARK_ESCAPED - 1);
    gmv_strbuf_putc(out, letter);
    gmv_strbuf_append(out, scan->text + start, end - start);
    gmv_strbuf_putc(out, '"');
    scan->copied = end;
}

static gmv_status reader_scan_number(reader_scan *scan, gmv_error *err)
{
    const char *text = scan->text + scan->at;
    size_t start = scan->at;
    bool has_exponent = false;
    for (; scan->at < scan->length && reader_is_number_byte(scan->text[scan->at]); scan->at++)
        has_exponent |= scan->text[scan->at] == 'e' || scan->text[scan->at] == 'E';
    size_t length = scan->at - start;
    if (length <= INT64_DIGITS && !has_exponent)
        return GMV_OK;
    bool real;
    bool too_big;
    bool failed = false;
    int64_t ignored;
    if (!reader_is_number(text, length, &real))
        return GMV_OK;
    if (real)
        too_big = (has_exponent || length > REAL_DIGITS_MAX) &&
                  reader_real_overflows(text, length, &failed);
    else
        too_big = !gmv_parse_int64(text, length, &ignored);
    /* A number where a key belongs must stay what it is: malformed. */
    if (too_big && reader_next_byte(scan, scan->at) != ':')
        reader_mark_number(scan, start, scan->at, real ? MARK_REAL : MARK_INTEGER);
    if (failed || gmv_strbuf_failed(&scan->rewritten))
        return gmv_fail_no_memory(err);
    return GMV_OK;
}

static gmv_status reader_scan_byte(reader_scan *scan, gmv_error *err)
{
    char c = scan->text[scan->at];
    if (c == '"')
        return reader_scan_string(scan, err);
    if (c == '-' || reader_is_digit(c))
        return reader_scan_number(scan, err);
    if (c == '\0')
        return reader_fail_at(scan->text, scan->at, "a NUL byte", err);
    if ((c == '[' || c == '{') && ++scan->depth > GMV_JSON_DEPTH_MAX)
        return reader_fail_at(scan->text, scan->at, "nested more than 36 deep", err);
    if ((c == ']' || c == '}') && scan->depth > 0)
        scan->depth--;
    scan->at++;
    return GMV_OK;
}

static gmv_status reader_scan_all(reader_scan *scan, gmv_error *err)
{
    if (scan->length >= 3 && memcmp(scan->text, "\xEF\xBB\xBF", 3) == 0)
        return gmv_fail(err, GMV_ERR_JSON_MALFORMED, NULL,
                        "a byte-order mark stands before the text");
    while (scan->at < scan->length)
        GMV_TRY(reader_scan_byte(scan, err));
    if (scan->copied > 0)
        gmv_strbuf_append(&scan->rewritten, scan->text + scan->copied, scan->length - scan->copied);
    return gmv_strbuf_failed(&scan->rewritten) ? gmv_fail_no_memory(err) : GMV_OK;
}

/* ---- parsing ---- */

static const char *reader_fault(enum json_error_code code)
{
    switch (code) {
    case json_error_premature_end_of_input:
        return "the text ends too early";
    case json_error_end_of_input_expected:
        return "more text follows the value";
    case json_error_invalid_utf8:
        return "bytes that are not UTF-8";
    case json_error_duplicate_key:
        return "a member is given twice";
    default:
        return "not well-formed JSON";
    }
}

/* False when memory ran out: all of the parse is then freed. */
static bool reader_load_guarded(reader_parse *parse, const char *text, size_t length,
                                json_t **out_root, json_error_t *out_fault)
{
    reader_link(&parse->ring, NULL);
    reader_current = parse;
    if (setjmp(parse->out_of_memory) != 0) {
        reader_current = NULL;
        while (parse->ring.next != &parse->ring)
            reader_release(parse->ring.next + 1);
        *out_root = NULL;
        return false;
    }
    *out_root = json_loadb(text, length, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL,
                           out_fault);
    reader_current = NULL;
    reader_unlink(&parse->ring);
    return true;
}

static gmv_status reader_load(const char *text, size_t length, bool rewritten, json_t **out_root,
                              gmv_error *err)
{
    json_error_t fault;
    reader_parse parse;
    if (!reader_load_guarded(&parse, text, length, out_root, &fault))
        return gmv_fail_no_memory(err);
    if (*out_root != NULL)
        return GMV_OK;
    /* Marking moves columns but never lines. */
    if (rewritten || fault.column < 1)
        return gmv_fail(err, GMV_ERR_JSON_MALFORMED, NULL, "%s, near line %d",
                        reader_fault(json_error_code(&fault)), fault.line < 1 ? 1 : fault.line);
    return gmv_fail(err, GMV_ERR_JSON_MALFORMED, NULL, "%s, near line %d, column %d",
                    reader_fault(json_error_code(&fault)), fault.line, fault.column);
}

gmv_status gmv_json_parse(const char *text, size_t length, json_t **out_root, gmv_error *err)
{
    *out_root = NULL;
    pthread_once(&reader_once, reader_seed);
    if (length == 0)
        return gmv_fail(err, GMV_ERR_JSON_MALFORMED, NULL, "the text is empty");
    reader_scan scan = {.text = text, .length = length};
    gmv_status status = reader_scan_all(&scan, err);
    if (status == GMV_OK && scan.copied > 0)
        status = reader_load(scan.rewritten.data, scan.rewritten.length, true, out_root, err);
    else if (status == GMV_OK)
        status = reader_load(text, length, false, out_root, err);
    gmv_strbuf_fini(&scan.rewritten);
    return status;
}

/* ---- values ---- */

/* The letter and digits of a marked number, or NULL. */
static const char *reader_marked(const json_t *value, size_t *out_length)
{
    size_t length = json_string_length(value);
    const char *text = json_string_value(value);
    if (length == 0 || text[0] != '\0')
        return NULL;
    *out_length = length - 1;
    return text + 1;
}

gmv_json_type gmv_json_type_of(const json_t *value)
{
    size_t length;
    const char *marked;
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return GMV_JSON_OBJECT;
    case JSON_ARRAY:
        return GMV_JSON_ARRAY;
    case JSON_INTEGER:
        return GMV_JSON_INT64;
    case JSON_REAL:
        return GMV_JSON_REAL;
    case JSON_TRUE:
    case JSON_FALSE:
        return GMV_JSON_BOOL;
    case JSON_STRING:
        marked = reader_marked(value, &length);
        if (marked == NULL)
            return GMV_JSON_STRING;
        return *marked == MARK_INTEGER ? GMV_JSON_BIG_INTEGER : GMV_JSON_REAL;
    case JSON_NULL:
        break;
    }
    return GMV_JSON_NULL;
}

const char *gmv_json_type_name(gmv_json_type type)
{
    static const char *const names[] = {
        [GMV_JSON_NULL] = "null",
        [GMV_JSON_BOOL] = "a boolean",
        [GMV_JSON_INT64] = "an integer",
        [GMV_JSON_BIG_INTEGER] = "an integer",
        [GMV_JSON_REAL] = "a number with a point or an exponent",
        [GMV_JSON_STRING] = "a string",
        [GMV_JSON_ARRAY] = "an array",
        [GMV_JSON_OBJECT] = "an object",
    };
    return names[type];
}

int64_t gmv_json_clamped(const json_t *value)
{
    if (json_is_integer(value))
        return json_integer_value(value);
    size_t length;
    const char *marked = reader_marked(value, &length);
    return marked != NULL && length > 1 && marked[1] == '-' ? INT64_MIN : INT64_MAX;
}

double gmv_json_number(const json_t *value)
{
    size_t length;
    if (json_is_number(value))
        return json_number_value(value);
    const char *marked = reader_marked(value, &length);
    return marked != NULL ? strtod(marked + 1, NULL) : 0;
}

size_t gmv_json_depth(const json_t *value)
{
    size_t deepest = 0;
    size_t depth;
    if (json_is_array(value)) {
        for (size_t i = 0; i < json_array_size(value); i++) {
            depth = gmv_json_depth(json_array_get(value, i));
            deepest = GMV_MAX(deepest, depth);
        }
        return deepest + 1;
    }
    if (!json_is_object(value))
        return 0;
    /* jansson's iterators take no const object, though they change nothing. */
    json_t *object = json_incref((json_t *)(uintptr_t)value);
    for (void *at = json_object_iter(object); at != NULL; at = json_object_iter_next(object, at)) {
        depth = gmv_json_depth(json_object_iter_value(at));
        deepest = GMV_MAX(deepest, depth);
    }
    json_decref(object);
    return deepest + 1;
}

static void reader_put_object(gmv_json_writer *writer, const json_t *value)
{
    json_t *object = json_incref((json_t *)(uintptr_t)value);
    gmv_json_open_object(writer);
    for (void *at = json_object_iter(object); at != NULL; at = json_object_iter_next(object, at)) {
        const char *key = json_object_iter_key(at);
        gmv_json_put_foreign_key(writer, key, strlen(key));
        gmv_json_put_value(writer, json_object_iter_value(at));
    }
    gmv_json_close_object(writer);
    json_decref(object);
}

static void reader_put_string(gmv_json_writer *writer, const json_t *value)
{
    size_t length;
    const char *marked = reader_marked(value, &length);
    if (marked != NULL)
        gmv_json_put_raw(writer, marked + 1, length - 1);
    else
        gmv_json_put_text(writer, json_string_value(value), json_string_length(value));
}

void gmv_json_put_value(gmv_json_writer *writer, const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        reader_put_object(writer, value);
        return;
    case JSON_ARRAY:
        gmv_json_open_array(writer);
        for (size_t i = 0; i < json_array_size(value); i++)
            gmv_json_put_value(writer, json_array_get(value, i));
        gmv_json_close_array(writer);
        return;
    case JSON_STRING:
        reader_put_string(writer, value);
        return;
    case JSON_INTEGER:
        gmv_json_put_int64(writer, json_integer_value(value));
        return;
    case JSON_REAL:
        gmv_json_put_float64(writer, json_real_value(value));
        return;
    case JSON_TRUE:
    case JSON_FALSE:
        gmv_json_put_bool(writer, json_is_true(value));
        return;
    case JSON_NULL:
        gmv_json_put_null(writer);
        return;
    }
}
