/* SPDX-License-Identifier: Apache-2.0 */
/* What is logged can be read back, is one line whatever it holds, and leaves out lower levels. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <criterion/criterion.h>
#include <jansson.h>

#include <gmv/base/log.h>

#define CAPTURE_MAX 20000
#define TIME_LENGTH 24

static int saved_stderr = -1;
static FILE *captured;

static void log_capture_begin(void)
{
    captured = tmpfile();
    cr_assert_not_null(captured);
    saved_stderr = dup(STDERR_FILENO);
    cr_assert_geq(dup2(fileno(captured), STDERR_FILENO), 0);
}

/* What was written to stderr since begin. */
static size_t log_capture_end(char out[CAPTURE_MAX])
{
    dup2(saved_stderr, STDERR_FILENO);
    close(saved_stderr);
    rewind(captured);
    size_t length = fread(out, 1, CAPTURE_MAX - 1, captured);
    out[length] = '\0';
    fclose(captured);
    return length;
}

Test(log, text_lines_hold_time_level_event_and_fields)
{
    char line[CAPTURE_MAX];
    gmv_log_configure(GMV_LOG_TEXT, GMV_LOG_INFO);
    log_capture_begin();
    gmv_log(GMV_LOG_WARNING, "listening", gmv_log_text("address", "127.0.0.1:80"),
            gmv_log_int("port", -80), gmv_log_text("note", "two words"), gmv_log_text("no", ""));
    log_capture_end(line);
    cr_expect_str_eq(line + TIME_LENGTH, " warning listening address=127.0.0.1:80 port=-80 "
                                         "note=\"two words\" no=\"\"\n");
    cr_expect_eq(line[10], 'T');
    cr_expect_eq(line[TIME_LENGTH - 1], 'Z');
}

Test(log, a_line_without_fields_is_whole)
{
    char line[CAPTURE_MAX];
    gmv_log_configure(GMV_LOG_TEXT, GMV_LOG_INFO);
    log_capture_begin();
    gmv_log(GMV_LOG_ERROR, "stopped");
    log_capture_end(line);
    cr_expect_str_eq(line + TIME_LENGTH, " error stopped\n");
}

Test(log, json_lines_parse)
{
    char line[CAPTURE_MAX];
    gmv_log_configure(GMV_LOG_JSON, GMV_LOG_DEBUG);
    log_capture_begin();
    gmv_log(GMV_LOG_DEBUG, "request", gmv_log_text("path", "/v1/\"x\"\\\n\t\x01\xff"),
            gmv_log_int("smallest", INT64_MIN), gmv_log_int("largest", INT64_MAX),
            gmv_log_int("none", 0));
    log_capture_end(line);
    json_t *parsed = json_loads(line, 0, NULL);
    cr_assert_not_null(parsed, "%s", line);
    cr_expect_str_eq(json_string_value(json_object_get(parsed, "level")), "debug");
    cr_expect_str_eq(json_string_value(json_object_get(parsed, "event")), "request");
    cr_expect_str_eq(json_string_value(json_object_get(parsed, "path")),
                     "/v1/\"x\"\\\n\t\\x01\\xff");
    cr_expect_eq(json_integer_value(json_object_get(parsed, "smallest")), INT64_MIN);
    cr_expect_eq(json_integer_value(json_object_get(parsed, "largest")), INT64_MAX);
    cr_expect_eq(json_integer_value(json_object_get(parsed, "none")), 0);
    cr_expect_eq(strlen(json_string_value(json_object_get(parsed, "time"))), TIME_LENGTH);
    json_decref(parsed);
}

Test(log, no_value_can_forge_a_line_or_a_field)
{
    char line[CAPTURE_MAX];
    gmv_log_configure(GMV_LOG_TEXT, GMV_LOG_INFO);
    log_capture_begin();
    gmv_log(GMV_LOG_INFO, "request",
            gmv_log_text("path", "/x\n2026-11-29T10:00:00.250Z info forged a=\"b\" \x1b[31m"));
    size_t length = log_capture_end(line);
    cr_expect_eq(strchr(line, '\n'), line + length - 1);
    cr_expect_not_null(strstr(line, "path=\"/x\\n2026-11-29T10:00:00.250Z info forged "
                                    "a=\\\"b\\\" \\\\x1b[31m\"\n"));
}

Test(log, levels_below_the_configured_one_are_left_out)
{
    char line[CAPTURE_MAX];
    gmv_log_configure(GMV_LOG_TEXT, GMV_LOG_WARNING);
    cr_expect(gmv_log_enabled(GMV_LOG_ERROR));
    cr_expect(gmv_log_enabled(GMV_LOG_WARNING));
    cr_expect_not(gmv_log_enabled(GMV_LOG_INFO));
    log_capture_begin();
    gmv_log(GMV_LOG_INFO, "quiet");
    gmv_log_write(GMV_LOG_DEBUG, "quiet", NULL, 0);
    cr_expect_eq(log_capture_end(line), 0);
}

Test(log, a_null_text_is_an_empty_one)
{
    char line[CAPTURE_MAX];
    gmv_log_configure(GMV_LOG_TEXT, GMV_LOG_INFO);
    log_capture_begin();
    gmv_log(GMV_LOG_INFO, "event", gmv_log_text("key", NULL));
    log_capture_end(line);
    cr_expect_str_eq(line + TIME_LENGTH, " info event key=\"\"\n");
}

/* Values of every length, of plain bytes and of bytes that are escaped. */
static void log_expect_cut_lines_to_parse(char byte)
{
    static char value[6000];
    static char line[CAPTURE_MAX];
    bool cut_seen = false;
    for (size_t n = 3000; n < sizeof value - 1; n = n < 3900 || n > 4200 ? n + 97 : n + 1) {
        memset(value, byte, n);
        value[n] = '\0';
        log_capture_begin();
        gmv_log(GMV_LOG_INFO, "request", gmv_log_text("path", value), gmv_log_int("number", 7),
                gmv_log_text("after", "x"));
        size_t length = log_capture_end(line);
        cr_assert_leq(length, 4096);
        json_t *parsed = json_loads(line, 0, NULL);
        cr_assert_not_null(parsed, "%zu times %d: %s", n, byte, line);
        cut_seen |= json_object_get(parsed, "after") == NULL;
        json_decref(parsed);
    }
    cr_expect(cut_seen);
}

Test(log, a_line_that_is_cut_is_still_json)
{
    gmv_log_configure(GMV_LOG_JSON, GMV_LOG_INFO);
    log_expect_cut_lines_to_parse('x');
    log_expect_cut_lines_to_parse('"');
    log_expect_cut_lines_to_parse('\x01');
}

Test(log, a_text_line_that_is_cut_is_marked_and_ends)
{
    static char value[5000];
    static char line[CAPTURE_MAX];
    memset(value, 'x', sizeof value - 1);
    gmv_log_configure(GMV_LOG_TEXT, GMV_LOG_INFO);
    log_capture_begin();
    gmv_log(GMV_LOG_INFO, "request", gmv_log_text("path", value), gmv_log_int("after", 7));
    size_t length = log_capture_end(line);
    cr_expect_leq(length, 4096);
    cr_expect_str_eq(line + length - 4, "...\n");
    cr_expect_null(strstr(line, "after"));
}

Test(log, errno_survives)
{
    char line[CAPTURE_MAX];
    log_capture_begin();
    errno = ENOENT;
    gmv_log(GMV_LOG_ERROR, "event");
    cr_expect_eq(errno, ENOENT);
    log_capture_end(line);
}
