/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as the head of a request, cut into strings as libmicrohttpd 0.9 does it: what passes
 * for whole holds no NUL, no folded line and no line without a name. Any value of the fields that
 * have a grammar is read without harm.
 */
#include "fuzz/fuzz.h"

#include <stdlib.h>

#include "http/head.h"

#define HEAD_MAX 4096

typedef struct cut_head {
    gmv_head head;
    char *name;  /* of the field that the next line may go on; NULL: none */
    char *moved; /* a name that a folded line has lengthened, owned */
    char *value;
} cut_head;

/* The next line, its end overwritten by NULs; NULL when there is none. */
static char *head_next_line(char **at, const char *end)
{
    char *line = *at;
    for (char *c = line; c < end; c++) {
        bool is_pair = c[0] == '\r' && c + 1 < end && c[1] == '\n';
        if (!is_pair && *c != '\n')
            continue;
        *at = c + (is_pair ? 2 : 1);
        memset(c, 0, (size_t)(*at - c));
        return line;
    }
    return NULL;
}

static bool head_open_field(cut_head *cut, char *line)
{
    char *colon = strchr(line, ':');
    if (colon == NULL)
        return false;
    *colon++ = '\0';
    cut->name = line;
    cut->value = colon + strspn(colon, " \t");
    return true;
}

static void head_fold(cut_head *cut, const char *line)
{
    line += strspn(line, " \t");
    size_t length = strlen(cut->name);
    char *name = malloc(length + strlen(line) + 1);
    FUZZ_REQUIRE(name != NULL);
    memcpy(name, cut->name, length);
    memcpy(name + length, line, strlen(line) + 1);
    free(cut->moved);
    cut->name = cut->moved = name;
}

/* False where the library refuses the head, or waits for more of it. */
static bool head_cut(cut_head *cut, char *bytes, const char *end, size_t *out_nbytes)
{
    char *at = bytes, *line;
    gmv_head_init(&cut->head, true);
    gmv_head_follow(&cut->head, bytes - 2); /* what ends the line before */
    while ((line = head_next_line(&at, end)) != NULL) {
        if (cut->name != NULL && (line[0] == ' ' || line[0] == '\t')) {
            head_fold(cut, line);
            continue;
        }
        if (cut->name != NULL)
            gmv_head_add(&cut->head, cut->name, strlen(cut->name), cut->value, strlen(cut->value));
        bool is_first = cut->name == NULL;
        if (line[0] != '\0' && !head_open_field(cut, line))
            return false;
        if (line[0] == '\0' && !(is_first && cut->name != NULL)) {
            gmv_head_end(&cut->head, at);
            *out_nbytes = (size_t)(at - bytes);
            return true;
        }
    }
    return false;
}

static bool head_is_clean(const char *bytes, size_t nbytes)
{
    for (size_t i = 0; i < nbytes; i++) {
        bool begins_line = i == 0 || bytes[i - 1] == '\n';
        if (bytes[i] == '\0' || (bytes[i] == '\r' && bytes[i + 1] != '\n') ||
            (begins_line && memchr(" \t:", bytes[i], 3) != NULL))
            return false;
        if (begins_line && bytes[i] == '\r' && i + 2 != nbytes)
            return false;
    }
    return true;
}

/* Bare line feeds are ends of lines, too, but a NUL or colon before one looks like an empty line.
 */
static bool head_has_bare_feed(const char *bytes, size_t nbytes)
{
    for (size_t i = 0; i < nbytes; i++)
        if (bytes[i] == '\n' && (i == 0 || bytes[i - 1] != '\r'))
            return true;
    return false;
}

static void head_read_values(const char *text, size_t length)
{
    static const char *const names[] = {"Content-Length", "Transfer-Encoding", "Host",
                                        "Content-Type",   "Content-Encoding",  "Expect",
                                        "If-None-Match"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        gmv_head head;
        gmv_error err;
        gmv_error_init(&err);
        gmv_head_init(&head, true);
        gmv_head_add(&head, names[i], strlen(names[i]), text, length);
        gmv_status status = gmv_head_check_framing(&head, &err);
        FUZZ_REQUIRE(head.is_framing_safe == (status == GMV_OK));
        FUZZ_REQUIRE(status == GMV_OK || status == GMV_ERR_REQUEST_MALFORMED);
        status = gmv_head_check_host(&head, true, &err);
        FUZZ_REQUIRE(status == GMV_OK || status == GMV_ERR_REQUEST_MALFORMED);
        (void)gmv_head_media(&head);
        (void)gmv_head_is_plain(&head);
        (void)gmv_head_expects_continue(&head);
        (void)gmv_etag_listed(&head.fields[GMV_FIELD_IF_NONE_MATCH], "\"a-1", true);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char ending[] = "\r\n\r\n";
    if (size > HEAD_MAX)
        return 0;
    head_read_values(size > 0 ? (const char *)data : "", size);
    /* The end of the request line, the bytes, and an end. */
    const size_t nbytes = size + 4;
    char *raw = malloc(nbytes + 1), *bytes = calloc(1, nbytes + 2);
    FUZZ_REQUIRE(raw != NULL && bytes != NULL);
    if (size > 0)
        memcpy(raw, data, size);
    memcpy(raw + size, ending, 5);
    memcpy(bytes + 2, raw, nbytes);
    cut_head cut = {.name = NULL};
    size_t taken;
    if (head_cut(&cut, bytes + 2, bytes + 2 + nbytes, &taken)) {
        bool is_clean = head_is_clean(raw, taken);
        FUZZ_REQUIRE(cut.head.is_torn || cut.head.has_bad_name || is_clean ||
                     head_has_bare_feed(raw, taken));
        FUZZ_REQUIRE(!cut.head.is_torn || !is_clean || head_has_bare_feed(raw, taken));
    }
    free(cut.moved);
    free(raw);
    free(bytes);
    return 0;
}
