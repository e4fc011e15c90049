/* SPDX-License-Identifier: Apache-2.0 */
/* Reading of header fields, as strict as an intermediary in front of us could be. */
#include "config.h"

#include "http/head.h"

#include <string.h>
#include <strings.h>

#include <gmv/base/num.h>

static const char *const head_field_names[GMV_FIELD_COUNT] = {
    [GMV_FIELD_HOST] = "Host",
    [GMV_FIELD_CONTENT_LENGTH] = "Content-Length",
    [GMV_FIELD_TRANSFER_ENCODING] = "Transfer-Encoding",
    [GMV_FIELD_CONTENT_TYPE] = "Content-Type",
    [GMV_FIELD_CONTENT_ENCODING] = "Content-Encoding",
    [GMV_FIELD_CONTENT_RANGE] = "Content-Range",
    [GMV_FIELD_EXPECT] = "Expect",
    [GMV_FIELD_RANGE] = "Range",
    [GMV_FIELD_IF_RANGE] = "If-Range",
    [GMV_FIELD_IF_MATCH] = "If-Match",
    [GMV_FIELD_IF_NONE_MATCH] = "If-None-Match",
    [GMV_FIELD_REQUEST_ID] = "X-Request-Id",
    [GMV_FIELD_TRACEPARENT] = "traceparent",
    [GMV_FIELD_SESSION] = "Gmv-Session",
    [GMV_FIELD_IDEMPOTENCY_KEY] = "Idempotency-Key",
    [GMV_FIELD_LAST_EVENT_ID] = "Last-Event-ID",
};

static bool head_is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static void head_trim(const char **text, size_t *length)
{
    while (*length && head_is_blank((*text)[0])) {
        (*text)++;
        (*length)--;
    }
    while (*length && head_is_blank((*text)[*length - 1]))
        (*length)--;
}

static bool head_equals(const char *text, size_t length, const char *word)
{
    return strlen(word) == length && strncasecmp(text, word, length) == 0;
}

static bool head_is_token(const char *text, size_t length)
{
    static const char marks[] = "!#$%&'*+-.^_`|~";
    for (size_t i = 0; i < length; i++) {
        char c = text[i];
        bool alphanumeric =
            (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
        if (!alphanumeric && !(c && strchr(marks, c)))
            return false;
    }
    return length > 0;
}

void gmv_head_init(gmv_head *head, bool is_http_1_1)
{
    *head = (gmv_head){.is_http_1_1 = is_http_1_1};
}

void gmv_head_follow(gmv_head *head, const char *behind)
{
    head->behind = behind;
}

/* The bytes from what is known so far to `next`; strings of another block are far away. */
static uintptr_t head_gap(const gmv_head *head, const char *next)
{
    return (uintptr_t)next - (uintptr_t)head->behind;
}

static void head_trace(gmv_head *head, const char *name, size_t name_length, const char *value,
                       size_t value_length)
{
    uintptr_t gap = head_gap(head, name);
    head->is_torn = head->is_torn || gap < 1 || gap > 2;
    head->behind = value ? value + value_length : name + name_length;
}

void gmv_head_end(gmv_head *head, const char *end)
{
    /* The line's end and an empty line: CR and LF twice, or LF twice. */
    uintptr_t gap = head_gap(head, end);
    head->is_torn = head->is_torn || (gap != 4 && gap != 2);
}

void gmv_head_add(gmv_head *head, const char *name, size_t name_length, const char *value,
                  size_t value_length)
{
    /* A recipient may take a bare CR for a line's end, or not. */
    if (value && memchr(value, '\r', value_length))
        head->is_torn = true;
    if (head->behind)
        head_trace(head, name, name_length, value, value_length);
    if (!head_is_token(name, name_length)) {
        head->has_bad_name = true;
        return;
    }
    for (int field = 0; field < GMV_FIELD_COUNT; field++) {
        if (!head_equals(name, name_length, head_field_names[field]))
            continue;
        gmv_field_value *kept = &head->fields[field];
        if (kept->count++ == 0) {
            kept->text = value ? value : "";
            kept->length = value ? value_length : 0;
            head_trim(&kept->text, &kept->length);
            kept->is_padded = kept->length != (value ? value_length : 0);
        }
        return;
    }
}

static gmv_status head_refuse(gmv_error *err, gmv_field field, const char *why)
{
    return gmv_fail_parameter(err, GMV_ERR_REQUEST_MALFORMED, head_field_names[field], "%s", why);
}

static gmv_status head_check_encoding(gmv_head *head, gmv_error *err)
{
    const gmv_field_value *encoding = &head->fields[GMV_FIELD_TRANSFER_ENCODING];
    if (head->fields[GMV_FIELD_CONTENT_LENGTH].count)
        return head_refuse(err, GMV_FIELD_TRANSFER_ENCODING,
                           "a message has a length or an encoding, not both");
    if (!head->is_http_1_1)
        return head_refuse(err, GMV_FIELD_TRANSFER_ENCODING, "HTTP/1.0 has no transfer encodings");
    /* A blank behind it hides the encoding from the library, which would then wait for ever. */
    if (encoding->count > 1 || encoding->is_padded ||
        !head_equals(encoding->text, encoding->length, "chunked"))
        return head_refuse(err, GMV_FIELD_TRANSFER_ENCODING,
                           "the only transfer encoding taken is chunked, once");
    head->body_nbytes = -1;
    head->is_framing_safe = true;
    return GMV_OK;
}

static gmv_status head_check_length(gmv_head *head, gmv_error *err)
{
    const gmv_field_value *length = &head->fields[GMV_FIELD_CONTENT_LENGTH];
    if (length->count > 1)
        return head_refuse(err, GMV_FIELD_CONTENT_LENGTH, "the length is given more than once");
    int64_t value = 0;
    for (size_t i = 0; i < length->length; i++) {
        char c = length->text[i];
        if (c < '0' || c > '9' || !gmv_mul_checked(value, 10, &value) ||
            !gmv_add_checked(value, c - '0', &value))
            return head_refuse(err, GMV_FIELD_CONTENT_LENGTH,
                               "the length is not a decimal number below 2^63");
    }
    if (length->count && length->length == 0)
        return head_refuse(err, GMV_FIELD_CONTENT_LENGTH, "the length is empty");
    head->body_nbytes = value;
    head->is_framing_safe = true;
    return GMV_OK;
}

gmv_status gmv_head_check_framing(gmv_head *head, gmv_error *err)
{
    head->is_framing_safe = false;
    head->body_nbytes = 0;
    if (head->is_torn)
        return gmv_fail(
            err, GMV_ERR_REQUEST_MALFORMED, NULL,
            "the head holds a NUL, a bare CR, a folded line or a line that is no field");
    if (head->has_bad_name)
        return gmv_fail(err, GMV_ERR_REQUEST_MALFORMED, NULL,
                        "a header field's name is empty or holds a character that none may hold");
    return head->fields[GMV_FIELD_TRANSFER_ENCODING].count ? head_check_encoding(head, err)
                                                           : head_check_length(head, err);
}

/* The bytes of a name of the loopback at the start of `text`, 0 if there is none. */
static size_t head_loopback_length(const char *text, size_t length)
{
    static const char *const names[] = {"localhost", "[::1]"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        size_t name_length = strlen(names[i]);
        if (length >= name_length && strncasecmp(text, names[i], name_length) == 0)
            return name_length;
    }
    /* Four numbers, the first of them 127; no name of a host ends in a number. */
    size_t taken = 0;
    for (int part = 0; part < 4; part++) {
        size_t begin = taken;
        while (taken < length && taken - begin < 3 && text[taken] >= '0' && text[taken] <= '9')
            taken++;
        uint64_t number = 0;
        if (!gmv_parse_uint64(text + begin, taken - begin, &number) || number > 255 ||
            (part == 0 && number != 127))
            return 0;
        if (part < 3 && (taken == length || text[taken++] != '.'))
            return 0;
    }
    return taken;
}

bool gmv_authority_is_loopback(const char *text, size_t length)
{
    size_t taken = head_loopback_length(text, length);
    if (taken == 0 || taken == length)
        return taken != 0;
    uint64_t port = 0;
    return text[taken] == ':' && length - taken <= 6 &&
           gmv_parse_uint64(text + taken + 1, length - taken - 1, &port) && port <= 65535;
}

gmv_status gmv_head_check_host(const gmv_head *head, bool loopback_only, gmv_error *err)
{
    const gmv_field_value *host = &head->fields[GMV_FIELD_HOST];
    if (host->count > 1 || (head->is_http_1_1 && host->count == 0))
        return head_refuse(err, GMV_FIELD_HOST, "HTTP/1.1 wants exactly one Host field");
    if (!host->count || !loopback_only || gmv_authority_is_loopback(host->text, host->length))
        return GMV_OK;
    return head_refuse(err, GMV_FIELD_HOST,
                       "this daemon listens on the loopback and answers to localhost, 127.0.0.1 "
                       "and [::1] only");
}

/* Whether the parameters behind a media type let it be read as UTF-8. */
static bool head_charset_is_utf8(const char *text, size_t length)
{
    while (length) {
        const char *semicolon = memchr(text, ';', length);
        size_t taken = semicolon ? (size_t)(semicolon - text) : length;
        const char *equals = memchr(text, '=', taken);
        if (equals) {
            const char *name = text, *value = equals + 1;
            size_t name_length = (size_t)(equals - text);
            size_t value_length = taken - name_length - 1;
            head_trim(&name, &name_length);
            head_trim(&value, &value_length);
            if (value_length >= 2 && value[0] == '"' && value[value_length - 1] == '"') {
                value++;
                value_length -= 2;
            }
            if (head_equals(name, name_length, "charset") &&
                !head_equals(value, value_length, "utf-8"))
                return false;
        }
        taken += semicolon ? 1 : 0;
        text += taken;
        length -= taken;
    }
    return true;
}

gmv_media gmv_head_media(const gmv_head *head)
{
    const gmv_field_value *field = &head->fields[GMV_FIELD_CONTENT_TYPE];
    if (field->count == 0)
        return GMV_MEDIA_ABSENT;
    if (field->count > 1)
        return GMV_MEDIA_OTHER;
    const char *semicolon = memchr(field->text, ';', field->length);
    const char *type = field->text;
    size_t length = semicolon ? (size_t)(semicolon - type) : field->length;
    const char *rest = type + length;
    size_t rest_length = field->length - length;
    head_trim(&type, &length);
    if (head_equals(type, length, "application/octet-stream"))
        return GMV_MEDIA_OCTETS;
    if (head_equals(type, length, "application/json") && head_charset_is_utf8(rest, rest_length))
        return GMV_MEDIA_JSON;
    if (head_equals(type, length, "application/x-www-form-urlencoded"))
        return GMV_MEDIA_FORM;
    return GMV_MEDIA_OTHER;
}

bool gmv_head_is_plain(const gmv_head *head)
{
    const gmv_field_value *coding = &head->fields[GMV_FIELD_CONTENT_ENCODING];
    return coding->count == 0 ||
           (coding->count == 1 &&
            (coding->length == 0 || head_equals(coding->text, coding->length, "identity")));
}

bool gmv_head_expects_continue(const gmv_head *head)
{
    const gmv_field_value *expect = &head->fields[GMV_FIELD_EXPECT];
    return head->is_http_1_1 && expect->count &&
           head_equals(expect->text, expect->length, "100-continue");
}

/* Whether a tag is `etag` or, where that lacks its closing quote, goes on behind it with a dash. */
static bool head_tag_matches(const char *text, size_t length, const char *etag)
{
    size_t etag_length = strlen(etag);
    if (etag_length == 0 || length < etag_length || memcmp(text, etag, etag_length) != 0)
        return false;
    return length == etag_length ||
           (etag[etag_length - 1] != '"' && (text[etag_length] == '"' || text[etag_length] == '-'));
}

bool gmv_etag_listed(const gmv_field_value *list, const char *etag, bool weak)
{
    if (!list->count)
        return false;
    if (list->length == 1 && list->text[0] == '*')
        return true;
    const char *text = list->text, *end = list->text + list->length;
    while (text < end) {
        while (text < end && (head_is_blank(*text) || *text == ','))
            text++;
        bool is_weak = end - text >= 2 && text[0] == 'W' && text[1] == '/';
        if (is_weak)
            text += 2;
        if (text == end || *text != '"')
            return false;
        const char *quote = memchr(text + 1, '"', (size_t)(end - text - 1));
        if (!quote)
            return false;
        size_t length = (size_t)(quote + 1 - text);
        if ((weak || !is_weak) && head_tag_matches(text, length, etag))
            return true;
        text = quote + 1;
    }
    return false;
}

bool gmv_request_id_is_plain(const char *text, size_t length)
{
    if (length < 1 || length > 128)
        return false;
    for (size_t i = 0; i < length; i++) {
        char c = text[i];
        if (!((c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
              c == '.' || c == '_' || c == '-'))
            return false;
    }
    return true;
}
