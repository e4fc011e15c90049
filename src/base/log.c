/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Log lines. A line is built on the stack, allocates nothing and holds at most LOG_LINE_MAX bytes,
 * so that one write puts it whole even into a pipe; what does not fit is cut and marked "...".
 */
#include <gmv/base/log.h>

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include <gmv/base/clock.h>

#define LOG_LINE_MAX 4096
#define LOG_TAIL_MAX 8 /* kept free for the mark of a cut, the closing quote and brace, newline */

typedef struct log_line {
    size_t length;
    bool cut;
    char bytes[LOG_LINE_MAX];
} log_line;

static atomic_int log_level = GMV_LOG_INFO;
static atomic_int log_format = GMV_LOG_TEXT;

static const char *const log_level_names[] = {
    [GMV_LOG_ERROR] = "error",
    [GMV_LOG_WARNING] = "warning",
    [GMV_LOG_INFO] = "info",
    [GMV_LOG_DEBUG] = "debug",
};

void gmv_log_configure(gmv_log_format format, gmv_log_level level)
{
    atomic_store(&log_format, (int)format);
    atomic_store(&log_level, (int)level);
}

bool gmv_log_enabled(gmv_log_level level)
{
    return (int)level <= atomic_load_explicit(&log_level, memory_order_relaxed);
}

/* All of `bytes` or, from the first time that something does not fit, nothing. */
static void log_put(log_line *line, const char *bytes, size_t nbytes)
{
    if (line->cut || line->length + nbytes > LOG_LINE_MAX - LOG_TAIL_MAX) {
        line->cut = true;
        return;
    }
    memcpy(line->bytes + line->length, bytes, nbytes);
    line->length += nbytes;
}

static void log_puts(log_line *line, const char *text)
{
    log_put(line, text, strlen(text));
}

static void log_put_tail(log_line *line, const char *text)
{
    size_t length = strlen(text);
    memcpy(line->bytes + line->length, text, length);
    line->length += length;
}

static void log_put_int(log_line *line, int64_t value)
{
    char digits[21];
    char *first = digits + sizeof digits;
    uint64_t magnitude = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    do {
        *--first = (char)('0' + magnitude % 10);
        magnitude /= 10;
    } while (magnitude != 0);
    if (value < 0)
        *--first = '-';
    log_put(line, first, (size_t)(digits + sizeof digits - first));
}

/*
 * One byte of a quoted value. Both formats read back as a JSON string; bytes that are not printable
 * ASCII are shown as \xNN, with the backslash doubled as JSON wants it.
 */
static void log_put_escaped(log_line *line, unsigned char byte)
{
    static const char hex[] = "0123456789abcdef";
    if (byte == '"' || byte == '\\') {
        const char pair[2] = {'\\', (char)byte};
        log_put(line, pair, sizeof pair);
    } else if (byte == '\n') {
        log_put(line, "\\n", 2);
    } else if (byte == '\t') {
        log_put(line, "\\t", 2);
    } else if (byte < 0x20 || byte > 0x7e) {
        const char shown[5] = {'\\', '\\', 'x', hex[byte >> 4], hex[byte & 15]};
        log_put(line, shown, sizeof shown);
    } else {
        const char plain = (char)byte;
        log_put(line, &plain, 1);
    }
}

static bool log_is_plain(const char *text)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "._-/:@+,*[]";
    return text[0] != '\0' && text[strspn(text, plain)] == '\0';
}

static void log_put_value(log_line *line, const char *text, bool always_quoted)
{
    if (!always_quoted && log_is_plain(text)) {
        log_puts(line, text);
        if (line->cut)
            log_put_tail(line, "...");
        return;
    }
    log_puts(line, "\"");
    if (line->cut)
        return;
    for (const char *c = text; *c != '\0' && !line->cut; c++)
        log_put_escaped(line, (unsigned char)*c);
    log_put_tail(line, line->cut ? "...\"" : "\"");
}

/* A field goes in with its key and at least the start of its value, or not at all. */
static void log_put_field(log_line *line, const gmv_log_field *field, bool json)
{
    size_t before = line->length;
    if (json) {
        log_puts(line, ",\"");
        log_puts(line, field->key);
        log_puts(line, "\":");
    } else {
        log_puts(line, " ");
        log_puts(line, field->key);
        log_puts(line, "=");
    }
    size_t value_begin = line->length;
    if (line->cut) {
        line->length = before;
        return;
    }
    if (field->text != NULL)
        log_put_value(line, field->text, json);
    else
        log_put_int(line, field->number);
    if (line->length == value_begin)
        line->length = before;
}

static void log_put_head(log_line *line, gmv_log_level level, const char *event, bool json)
{
    char time_text[GMV_RFC3339_MAX];
    gmv_clock_format_rfc3339(gmv_clock_wall_ms(), time_text);
    if (json) {
        log_puts(line, "{\"time\":\"");
        log_puts(line, time_text);
        log_puts(line, "\",\"level\":\"");
        log_puts(line, log_level_names[level]);
        log_puts(line, "\",\"event\":");
        log_put_value(line, event, true);
        return;
    }
    log_puts(line, time_text);
    log_puts(line, " ");
    log_puts(line, log_level_names[level]);
    log_puts(line, " ");
    log_put_value(line, event, false);
}

void gmv_log_write(gmv_log_level level, const char *event, const gmv_log_field *fields,
                   size_t n_fields)
{
    if (!gmv_log_enabled(level))
        return;
    int kept_errno = errno;
    bool json = atomic_load(&log_format) == GMV_LOG_JSON;
    log_line line;
    line.length = 0;
    line.cut = false;
    log_put_head(&line, level, event, json);
    for (size_t i = 0; i < n_fields && !line.cut; i++)
        log_put_field(&line, &fields[i], json);
    log_put_tail(&line, json ? "}\n" : "\n");
    /* Nobody is left to tell when stderr is gone. */
    ssize_t written;
    do
        written = write(STDERR_FILENO, line.bytes, line.length);
    while (written < 0 && errno == EINTR);
    errno = kept_errno;
}
