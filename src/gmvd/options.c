/* SPDX-License-Identifier: Apache-2.0 */
/* One table of settings, read from three places in turn, the weakest first. */
#include "config.h"

#include "gmvd/options.h"

#include <ctype.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>

#include <gmv/base/num.h>

#define OPTIONS_LINE_MAX 1024

typedef enum option_kind {
    OPTION_TEXT,
    OPTION_NUMBER,
    OPTION_ORDINALS,
    OPTION_FLAG,
    OPTION_CHOICE
} option_kind;

typedef struct option_setting {
    const char *name;
    option_kind kind;
    size_t offset;
    uint64_t minimum, maximum;  /* of a number, of each ordinal */
    const char *const *choices; /* the index is stored; NULL ends the list */
} option_setting;

typedef struct option_reader {
    gmvd_options *options;
    char *error;
    const char *(*environment)(const char *name);
} option_reader;

static const char *const option_backends[] = {"auto", "cuda", "host", NULL};
static const char *const option_formats[] = {"text", "json", NULL};
static const char *const option_levels[] = {"error", "warning", "info", "debug", NULL};
static const char *const option_when_lost[] = {"exit", "stay", NULL};

#define OPTION_AT(member)  offsetof(gmvd_options, member)
#define OPTION_NBYTES_MAX  ((uint64_t)INT64_MAX)
#define OPTION_SECONDS_MAX 86400

/* The place of "config" below. */
#define OPTION_CONFIG 1

static const option_setting option_settings[] = {
    {"listen", OPTION_TEXT, OPTION_AT(listen), 0, 0, NULL},
    {"config", OPTION_TEXT, OPTION_AT(config), 0, 0, NULL},
    {"backend", OPTION_CHOICE, OPTION_AT(backend), 0, 0, option_backends},
    {"device", OPTION_ORDINALS, OPTION_AT(devices), 0, 1023, NULL},
    {"max-device-nbytes", OPTION_NUMBER, OPTION_AT(max_device_nbytes), 0, OPTION_NBYTES_MAX, NULL},
    {"max-logical-nbytes", OPTION_NUMBER, OPTION_AT(max_logical_nbytes), 0, OPTION_NBYTES_MAX,
     NULL},
    {"max-handles", OPTION_NUMBER, OPTION_AT(max_handles), 0, OPTION_NBYTES_MAX, NULL},
    {"max-json-nbytes", OPTION_NUMBER, OPTION_AT(max_json_nbytes), 1024, UINT64_C(1) << 30, NULL},
    {"max-connections", OPTION_NUMBER, OPTION_AT(max_connections), 1, 1000000, NULL},
    {"threads", OPTION_NUMBER, OPTION_AT(n_threads), 0, 256, NULL},
    {"idle-timeout", OPTION_NUMBER, OPTION_AT(idle_timeout_seconds), 1, OPTION_SECONDS_MAX, NULL},
    {"drain-timeout", OPTION_NUMBER, OPTION_AT(drain_timeout_seconds), 0, OPTION_SECONDS_MAX, NULL},
    {"job-deadline", OPTION_NUMBER, OPTION_AT(job_deadline_seconds), 0, OPTION_SECONDS_MAX, NULL},
    {"on-device-lost", OPTION_CHOICE, OPTION_AT(stays_when_lost), 0, 0, option_when_lost},
    {"log-format", OPTION_CHOICE, OPTION_AT(log_format), 0, 0, option_formats},
    {"log-level", OPTION_CHOICE, OPTION_AT(log_level), 0, 0, option_levels},
    {"insecure", OPTION_FLAG, OPTION_AT(insecure), 0, 0, NULL},
};
#define OPTION_N_SETTINGS (sizeof option_settings / sizeof option_settings[0])

/* What settings were called before they took the words of the API; still understood. */
static const struct {
    const char *former, *name;
} option_former_names[] = {
    {"max-device-bytes", "max-device-nbytes"},
    {"max-logical-bytes", "max-logical-nbytes"},
    {"max-json-bytes", "max-json-nbytes"},
};
#define OPTION_N_FORMER_NAMES (sizeof option_former_names / sizeof option_former_names[0])

static const struct {
    const char *name;
    gmvd_action action;
} option_actions[] = {
    {"--check-config", GMVD_CHECK_CONFIG},
    {"--print-openapi", GMVD_PRINT_OPENAPI},
    {"--version", GMVD_VERSION},
    {"--help", GMVD_HELP},
    {"-h", GMVD_HELP},
    {"healthcheck", GMVD_HEALTHCHECK},
};

static const char option_help[] =
    "usage: gmvd [OPTION...]\n"
    "       gmvd healthcheck [--listen HOST:PORT]\n"
    "\n"
    "Serves device memory and typed views of it over HTTP; /docs of a running one shows the\n"
    "calls. healthcheck asks the one at the address whether it is alive: 0 is yes.\n"
    "\n"
    "Each option is also an environment variable (GMVD_LISTEN) and a line of the\n"
    "file (listen = ...). A flag beats the environment, which beats the file.\n"
    "\n"
    "  --listen HOST:PORT       where to listen (127.0.0.1:8080); port 0: any free one\n"
    "  --insecure               listen elsewhere than on the loopback, without access control\n"
    "  --backend auto|cuda|host where memory lies (auto)\n"
    "  --device N[,N...]        ordinals of the devices to use (all)\n"
    "  --job-deadline S         seconds that work on a device may take before the device counts\n"
    "                           as lost; 0: no end (300)\n"
    "  --on-device-lost exit|stay  what to do when a device no longer answers (exit)\n"
    "  --max-device-nbytes N    memory to allocate on a device; 0: what it has (0)\n"
    "  --max-logical-nbytes N   bytes that one request may pass over; 0: 1 TiB (0)\n"
    "  --max-handles N          handles in all; 0: no limit (0)\n"
    "  --max-json-nbytes N      longest JSON body (8388608)\n"
    "  --max-connections N      connections at once (10000)\n"
    "  --threads N              HTTP threads and workers; 0: from the cores (0)\n"
    "  --idle-timeout S         seconds until a silent connection is closed (60)\n"
    "  --drain-timeout S        seconds that requests may take after SIGTERM (8)\n"
    "  --log-format text|json   (text)\n"
    "  --log-level error|warning|info|debug  (info)\n"
    "  --config FILE            lines of key = value, # for comments\n"
    "  --check-config           read the settings, say what is wrong, and leave\n"
    "  --print-openapi          print the OpenAPI document (YAML)\n"
    "  --version, --help\n";

const char *gmvd_options_help(void)
{
    return option_help;
}

/* Only printable ASCII of what came from outside goes into a message. */
static const char *option_quote(const char *text, char out_text[64])
{
    size_t i = 0;
    for (; text[i] && i < 63; i++)
        out_text[i] = text[i] >= ' ' && text[i] < 127 ? text[i] : '?';
    out_text[i] = '\0';
    return out_text;
}

static bool option_is(const char *name, const char *text, size_t length)
{
    return strlen(name) == length && memcmp(name, text, length) == 0;
}

static const option_setting *option_find(const char *name, size_t length)
{
    for (size_t i = 0; i < OPTION_N_SETTINGS; i++)
        if (option_is(option_settings[i].name, name, length))
            return &option_settings[i];
    for (size_t i = 0; i < OPTION_N_FORMER_NAMES; i++)
        if (option_is(option_former_names[i].former, name, length))
            return option_find(option_former_names[i].name, strlen(option_former_names[i].name));
    return NULL;
}

static bool option_set_choice(const option_setting *setting, void *member, const char *value)
{
    for (int i = 0; setting->choices[i]; i++) {
        if (strcmp(setting->choices[i], value) != 0)
            continue;
        if (setting->offset == OPTION_AT(stays_when_lost))
            *(bool *)member = i != 0;
        else
            *(int *)member = i;
        return true;
    }
    return false;
}

static bool option_set_number(const option_setting *setting, void *member, const char *value)
{
    uint64_t number;
    if (!gmv_parse_uint64(value, strlen(value), &number) || number < setting->minimum ||
        number > setting->maximum)
        return false;
    *(uint64_t *)member = number;
    return true;
}

/* "0,2": each once. */
static bool option_set_ordinals(const option_setting *setting, gmvd_ordinals *member,
                                const char *value)
{
    gmvd_ordinals ordinals = {0};
    for (;;) {
        uint64_t number;
        size_t length = strcspn(value, ",");
        if (ordinals.count == GMVD_DEVICES_MAX || !gmv_parse_uint64(value, length, &number) ||
            number < setting->minimum || number > setting->maximum)
            return false;
        for (size_t i = 0; i < ordinals.count; i++)
            if (ordinals.values[i] == (int32_t)number)
                return false;
        ordinals.values[ordinals.count++] = (int32_t)number;
        if (!value[length])
            break;
        value += length + 1;
    }
    *member = ordinals;
    return true;
}

static bool option_set_text(void *member, const char *value)
{
    size_t length = strlen(value);
    if (length == 0 || length >= GMVD_TEXT_MAX)
        return false;
    memcpy(member, value, length + 1);
    return true;
}

static bool option_set_flag(void *member, const char *value)
{
    bool is_on = strcmp(value, "true") == 0;
    if (!is_on && strcmp(value, "false") != 0)
        return false;
    *(bool *)member = is_on;
    return true;
}

static void option_describe(const option_setting *setting, char out_text[128])
{
    switch (setting->kind) {
    case OPTION_NUMBER:
        snprintf(out_text, 128, "a number from %llu to %llu", (unsigned long long)setting->minimum,
                 (unsigned long long)setting->maximum);
        return;
    case OPTION_ORDINALS:
        snprintf(out_text, 128, "1 to %d different ordinals with commas, as in 0,1",
                 GMVD_DEVICES_MAX);
        return;
    case OPTION_FLAG:
        snprintf(out_text, 128, "true or false");
        return;
    case OPTION_TEXT:
        snprintf(out_text, 128, "1 to %d characters", GMVD_TEXT_MAX - 1);
        return;
    case OPTION_CHOICE:
        break;
    }
    size_t used = 0;
    out_text[0] = '\0';
    for (size_t i = 0; setting->choices[i]; i++)
        used += (size_t)snprintf(out_text + used, 128 - used, "%s%s", i ? ", " : "one of ",
                                 setting->choices[i]);
}

/* `where` says in the message what held the value: "--threads", "GMVD_THREADS", "x.conf:3". */
static bool option_set(const option_reader *reader, const option_setting *setting,
                       const char *value, const char *where)
{
    void *member = (char *)reader->options + setting->offset;
    bool is_set = false;
    switch (setting->kind) {
    case OPTION_TEXT:
        is_set = option_set_text(member, value);
        break;
    case OPTION_NUMBER:
        is_set = option_set_number(setting, member, value);
        break;
    case OPTION_ORDINALS:
        is_set = option_set_ordinals(setting, member, value);
        break;
    case OPTION_FLAG:
        is_set = option_set_flag(member, value);
        break;
    case OPTION_CHOICE:
        is_set = option_set_choice(setting, member, value);
        break;
    }
    if (is_set)
        return true;
    char wanted[128], quoted[64];
    option_describe(setting, wanted);
    snprintf(reader->error, GMVD_ERROR_MAX, "%s: \"%s\" is not %s", where,
             option_quote(value, quoted), wanted);
    return false;
}

/* ---- the file ---- */

static char *option_trim(char *text)
{
    while (isspace((unsigned char)*text))
        text++;
    size_t length = strlen(text);
    while (length && isspace((unsigned char)text[length - 1]))
        text[--length] = '\0';
    return text;
}

static bool option_read_line(const option_reader *reader, char *line, const char *where)
{
    line = option_trim(line);
    if (*line == '\0' || *line == '#')
        return true;
    char *equals = strchr(line, '=');
    if (!equals) {
        snprintf(reader->error, GMVD_ERROR_MAX, "%s: not a line of key = value", where);
        return false;
    }
    *equals = '\0';
    char *name = option_trim(line);
    for (char *c = name; *c; c++)
        if (*c == '_')
            *c = '-';
    const option_setting *setting = option_find(name, strlen(name));
    if (!setting || setting->offset == OPTION_AT(config)) {
        char quoted[64];
        snprintf(reader->error, GMVD_ERROR_MAX, "%s: there is no setting \"%s\"", where,
                 option_quote(name, quoted));
        return false;
    }
    return option_set(reader, setting, option_trim(equals + 1), where);
}

static int option_read_file(const option_reader *reader, const char *path)
{
    FILE *file = fopen(path, "re");
    if (!file) {
        snprintf(reader->error, GMVD_ERROR_MAX, "the file %s cannot be read", path);
        return EX_NOINPUT;
    }
    char line[OPTIONS_LINE_MAX], where[GMVD_TEXT_MAX + 16];
    int code = 0;
    for (int number = 1; code == 0 && fgets(line, sizeof line, file); number++) {
        snprintf(where, sizeof where, "%s:%d", path, number);
        if (!strchr(line, '\n') && !feof(file)) {
            snprintf(reader->error, GMVD_ERROR_MAX, "%s: the line is too long", where);
            code = EX_CONFIG;
        } else if (!option_read_line(reader, line, where)) {
            code = EX_CONFIG;
        }
    }
    if (code == 0 && ferror(file)) {
        snprintf(reader->error, GMVD_ERROR_MAX, "the file %s cannot be read", path);
        code = EX_IOERR;
    }
    fclose(file);
    return code;
}

/* ---- environment and flags ---- */

/* An empty variable is as none: Compose and service files write those for what is not set. */
static const char *option_variable(const option_reader *reader, const char *name, char out_name[64])
{
    size_t used = (size_t)snprintf(out_name, 64, "GMVD_%s", name);
    for (size_t i = 0; i < used; i++)
        out_name[i] = out_name[i] == '-' ? '_' : (char)toupper((unsigned char)out_name[i]);
    const char *value = reader->environment(out_name);
    return value && value[0] ? value : NULL;
}

/* The name of today beats that of before. */
static const char *option_environment(const option_reader *reader, const option_setting *setting,
                                      char out_name[64])
{
    const char *value = option_variable(reader, setting->name, out_name);
    for (size_t i = 0; !value && i < OPTION_N_FORMER_NAMES; i++)
        if (strcmp(option_former_names[i].name, setting->name) == 0)
            value = option_variable(reader, option_former_names[i].former, out_name);
    return value;
}

static bool option_read_environment(const option_reader *reader)
{
    char name[64];
    for (size_t i = 0; i < OPTION_N_SETTINGS; i++) {
        const char *value = option_environment(reader, &option_settings[i], name);
        if (value && !option_set(reader, &option_settings[i], value, name))
            return false;
    }
    return true;
}

static bool option_set_action(const option_reader *reader, const char *argument, bool is_first)
{
    for (size_t i = 0; i < sizeof option_actions / sizeof option_actions[0]; i++) {
        if (strcmp(argument, option_actions[i].name) != 0 || (argument[0] != '-' && !is_first))
            continue;
        reader->options->action = option_actions[i].action;
        return true;
    }
    return false;
}

/* With `only`, all settings but this one are passed over (but checked for being known). */
static bool option_read_flags(const option_reader *reader, int argc, char *const argv[],
                              const char *only)
{
    char quoted[64];
    for (int i = 1; i < argc; i++) {
        if (option_set_action(reader, argv[i], i == 1))
            continue;
        const char *name = strncmp(argv[i], "--", 2) == 0 ? argv[i] + 2 : "";
        size_t length = strcspn(name, "=");
        const option_setting *setting = option_find(name, length);
        if (!setting) {
            snprintf(reader->error, GMVD_ERROR_MAX, "unknown argument %s; see gmvd --help",
                     option_quote(argv[i], quoted));
            return false;
        }
        const char *value = name[length] ? name + length + 1 : NULL;
        if (!value && setting->kind == OPTION_FLAG)
            value = "true";
        if (!value && ++i < argc)
            value = argv[i];
        char where[64];
        snprintf(where, sizeof where, "--%.*s", (int)length, name);
        if (!value) {
            snprintf(reader->error, GMVD_ERROR_MAX, "%s needs a value", where);
            return false;
        }
        if ((!only || strcmp(only, setting->name) == 0) &&
            !option_set(reader, setting, value, where))
            return false;
    }
    return true;
}

static void option_set_defaults(gmvd_options *options)
{
    *options = (gmvd_options){
        .listen = "127.0.0.1:8080",
        .log_level = GMV_LOG_INFO,
        .max_json_nbytes = UINT64_C(8) << 20,
        .max_connections = 10000,
        .idle_timeout_seconds = 60,
        .drain_timeout_seconds = 8,
        .job_deadline_seconds = 300,
    };
}

int gmvd_options_read(int argc, char *const argv[], const char *(*environment)(const char *name),
                      gmvd_options *out_options, char out_error[GMVD_ERROR_MAX])
{
    const option_reader reader = {out_options, out_error, environment};
    char name[64];
    option_set_defaults(out_options);
    out_error[0] = '\0';
    const option_setting *config = &option_settings[OPTION_CONFIG];
    const char *path = option_environment(&reader, config, name);
    if (path && !option_set(&reader, config, path, name))
        return EX_USAGE;
    if (!option_read_flags(&reader, argc, argv, "config"))
        return EX_USAGE;
    if (out_options->config[0]) {
        char file[GMVD_TEXT_MAX];
        memcpy(file, out_options->config, sizeof file);
        int code = option_read_file(&reader, file);
        if (code != 0)
            return code;
    }
    if (!option_read_environment(&reader) || !option_read_flags(&reader, argc, argv, NULL))
        return EX_USAGE;
    return 0;
}
