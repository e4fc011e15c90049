/* SPDX-License-Identifier: Apache-2.0 */
/* Flags, environment and file, which beats which, and what is said of faults. */
#include "gmvd/options.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include <criterion/criterion.h>

static const char *env_names[4], *env_values[4];

static const char *environment(const char *name)
{
    for (size_t i = 0; i < 4; i++)
        if (env_names[i] && strcmp(env_names[i], name) == 0)
            return env_values[i];
    return NULL;
}

static gmvd_options options;
static char error[GMVD_ERROR_MAX];

/* Arguments end with NULL. */
static int read_options(const char *first, ...)
{
    char *argv[16] = {strdup("gmvd")};
    int argc = 1;
    va_list arguments;
    va_start(arguments, first);
    for (const char *argument = first; argument; argument = va_arg(arguments, const char *))
        argv[argc++] = strdup(argument);
    va_end(arguments);
    int code = gmvd_options_read(argc, argv, environment, &options, error);
    for (int i = 0; i < argc; i++)
        free(argv[i]);
    return code;
}

static char file_path[64];

static const char *write_file(const char *contents)
{
    snprintf(file_path, sizeof file_path, "test_options_%d.conf", (int)getpid());
    FILE *file = fopen(file_path, "w");
    cr_assert_not_null(file);
    fputs(contents, file);
    fclose(file);
    return file_path;
}

static void remove_file(void)
{
    if (file_path[0])
        (void)unlink(file_path);
}

TestSuite(options, .fini = remove_file);

Test(options, defaults_are_those_of_the_help)
{
    cr_assert_eq(read_options(NULL), 0);
    cr_assert_eq(options.action, GMVD_RUN);
    cr_assert_str_eq(options.listen, "127.0.0.1:8080");
    cr_assert_eq(options.max_json_nbytes, 8388608);
    cr_assert_eq(options.idle_timeout_seconds, 60);
    cr_assert_eq(options.drain_timeout_seconds, 8);
    cr_assert_eq(options.backend, GMVD_BACKEND_AUTO);
    cr_assert_eq(options.log_level, GMV_LOG_INFO);
    cr_assert_not(options.insecure);
    cr_assert_not_null(strstr(gmvd_options_help(), "(127.0.0.1:8080)"));
}

Test(options, flags_take_both_forms)
{
    cr_assert_eq(read_options("--listen", "[::1]:0", "--backend=host", "--insecure",
                              "--max-handles=7", "--on-device-lost", "stay", NULL),
                 0);
    cr_assert_str_eq(options.listen, "[::1]:0");
    cr_assert_eq(options.backend, GMVD_BACKEND_HOST);
    cr_assert(options.insecure);
    cr_assert(options.stays_when_lost);
    cr_assert_eq(options.max_handles, 7);
    cr_assert_eq(read_options("--insecure=false", NULL), 0);
    cr_assert_not(options.insecure);
}

Test(options, flag_beats_environment_beats_file)
{
    const char *path =
        write_file("# settings\n\nthreads = 1\nidle_timeout = 11\n  drain-timeout=12  \n");
    env_names[0] = "GMVD_THREADS", env_values[0] = "2";
    env_names[1] = "GMVD_IDLE_TIMEOUT", env_values[1] = "22";
    cr_assert_eq(read_options("--config", path, "--threads", "3", NULL), 0, "%s", error);
    cr_assert_eq(options.n_threads, 3);
    cr_assert_eq(options.idle_timeout_seconds, 22);
    cr_assert_eq(options.drain_timeout_seconds, 12);
}

Test(options, the_file_may_be_named_by_the_environment)
{
    env_names[0] = "GMVD_CONFIG", env_values[0] = write_file("listen = localhost:1");
    cr_assert_eq(read_options(NULL), 0, "%s", error);
    cr_assert_str_eq(options.listen, "localhost:1");
}

Test(options, faults_are_told_in_one_line)
{
    static const struct {
        const char *arguments[2];
        const char *said;
    } rows[] = {
        {{"--nope", NULL}, "--nope"},
        {{"--nope=1", NULL}, "--nope=1"},
        {{"nope", NULL}, "nope"},
        {{"--listen", NULL}, "--listen needs a value"},
        {{"--threads", "x"}, "--threads: \"x\""},
        {{"--threads", "257"}, "0 to 256"},
        {{"--threads", "-1"}, "\"-1\""},
        {{"--threads", ""}, "\"\""},
        {{"--max-json-nbytes", "99999999999999999999"}, "--max-json-nbytes"},
        {{"--backend", "gpu"}, "one of auto, cuda, host"},
        {{"--insecure=maybe", NULL}, "true or false"},
        {{"--threads", "\x1b[31m\n"}, "?[31m?"},
        {{"--listen", "healthcheck"}, NULL},
        {{"--threads", "1"}, NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int code = read_options(rows[i].arguments[0], rows[i].arguments[1], NULL);
        cr_assert_eq(code, rows[i].said ? EX_USAGE : 0, "row %zu: %d %s", i, code, error);
        if (rows[i].said)
            cr_assert_not_null(strstr(error, rows[i].said), "%s", error);
        cr_assert_null(strchr(error, '\n'));
    }
}

Test(options, faults_of_a_file_name_the_line)
{
    static const char *const contents[] = {"listen = a:1\nnope = 1\n", "\nthreads = x\n",
                                           "\nlisten\n", "\nconfig = other\n"};
    for (size_t i = 0; i < sizeof contents / sizeof contents[0]; i++) {
        cr_assert_eq(read_options("--config", write_file(contents[i]), NULL), EX_CONFIG, "row %zu",
                     i);
        cr_assert_not_null(strstr(error, ".conf:2: "), "%s", error);
    }
    cr_assert_eq(read_options("--config", "/nowhere/gmvd.conf", NULL), EX_NOINPUT);
    char *line = malloc(3000);
    memset(line, 'x', 2999);
    line[2999] = '\0';
    cr_assert_eq(read_options("--config", write_file(line), NULL), EX_CONFIG);
    free(line);
}

Test(options, faults_of_the_environment_name_the_variable)
{
    env_names[0] = "GMVD_MAX_HANDLES", env_values[0] = "many";
    cr_assert_eq(read_options(NULL), EX_USAGE);
    cr_assert_not_null(strstr(error, "GMVD_MAX_HANDLES"), "%s", error);
}

Test(options, an_empty_variable_is_as_none)
{
    env_names[0] = "GMVD_MAX_HANDLES", env_values[0] = "";
    env_names[1] = "GMVD_LISTEN", env_values[1] = "";
    env_names[2] = "GMVD_CONFIG", env_values[2] = "";
    cr_assert_eq(read_options(NULL), 0, "%s", error);
    cr_assert_str_eq(options.listen, "127.0.0.1:8080");
}

Test(options, actions_are_told)
{
    cr_assert_eq(read_options("healthcheck", "--listen", "127.0.0.1:9", NULL), 0);
    cr_assert_eq(options.action, GMVD_HEALTHCHECK);
    cr_assert_str_eq(options.listen, "127.0.0.1:9");
    cr_assert_eq(read_options("--check-config", NULL), 0);
    cr_assert_eq(options.action, GMVD_CHECK_CONFIG);
    cr_assert_eq(read_options("--print-openapi", NULL), 0);
    cr_assert_eq(options.action, GMVD_PRINT_OPENAPI);
    cr_assert_eq(read_options("--version", NULL), 0);
    cr_assert_eq(options.action, GMVD_VERSION);
    cr_assert_eq(read_options("-h", NULL), 0);
    cr_assert_eq(options.action, GMVD_HELP);
    cr_assert_eq(read_options("--insecure", "healthcheck", NULL), EX_USAGE);
}

Test(options, devices_are_a_list_of_ordinals)
{
    static const struct {
        const char *text;
        size_t count; /* 0: refused */
        int32_t first, last;
    } rows[] = {
        {"0", 1, 0, 0},
        {"7", 1, 7, 7},
        {"1,0", 2, 1, 0},
        {"3,1023,5", 3, 3, 5},
        {"", 0, 0, 0},
        {"0,", 0, 0, 0},
        {",0", 0, 0, 0},
        {"0,,1", 0, 0, 0},
        {"0,0", 0, 0, 0},
        {"-1", 0, 0, 0},
        {"1024", 0, 0, 0},
        {"a", 0, 0, 0},
        {"0 ,1", 0, 0, 0},
        {"0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15", 16, 0, 15},
        {"0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16", 0, 0, 0},
    };
    cr_assert_eq(read_options(NULL), 0);
    cr_assert_eq(options.devices.count, 0);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int code = read_options("--device", rows[i].text, NULL);
        cr_assert_eq(code, rows[i].count ? 0 : EX_USAGE, "row %zu: %s", i, error);
        if (code != 0) {
            cr_assert_not_null(strstr(error, "--device"), "%s", error);
            continue;
        }
        cr_assert_eq(options.devices.count, rows[i].count);
        cr_assert_eq(options.devices.values[0], rows[i].first);
        cr_assert_eq(options.devices.values[rows[i].count - 1], rows[i].last);
    }
}

Test(options, work_ends_after_five_minutes_unless_told_otherwise)
{
    cr_assert_eq(read_options(NULL), 0);
    cr_assert_eq(options.job_deadline_seconds, 300);
    cr_assert_eq(read_options("--job-deadline", "0", NULL), 0);
    cr_assert_eq(options.job_deadline_seconds, 0);
}

Test(options, former_names_are_understood)
{
    cr_assert_eq(read_options("--max-json-bytes", "2048", "--max-device-bytes=1",
                              "--max-logical-bytes", "2", NULL),
                 0);
    cr_assert_eq(options.max_json_nbytes, 2048);
    cr_assert_eq(options.max_device_nbytes, 1);
    cr_assert_eq(options.max_logical_nbytes, 2);
    cr_assert_eq(read_options("--config", write_file("max_json_bytes = 4096\n"), NULL), 0);
    cr_assert_eq(options.max_json_nbytes, 4096);
    cr_assert_eq(read_options("--max-json-bytes", "1", NULL), EX_USAGE);
    cr_assert(strncmp(error, "--max-json-bytes: ", 18) == 0, "%s", error);
}

Test(options, a_former_variable_yields_to_that_of_today)
{
    env_names[0] = "GMVD_MAX_JSON_BYTES";
    env_values[0] = "2048";
    cr_assert_eq(read_options(NULL), 0);
    cr_assert_eq(options.max_json_nbytes, 2048);
    env_names[1] = "GMVD_MAX_JSON_NBYTES";
    env_values[1] = "4096";
    cr_assert_eq(read_options(NULL), 0);
    cr_assert_eq(options.max_json_nbytes, 4096);
    cr_assert_eq(read_options("--max-json-bytes", "8192", NULL), 0);
    cr_assert_eq(options.max_json_nbytes, 8192);
    env_values[1] = "x";
    cr_assert_eq(read_options(NULL), EX_USAGE);
    cr_assert(strncmp(error, "GMVD_MAX_JSON_NBYTES: ", 22) == 0, "%s", error);
}
