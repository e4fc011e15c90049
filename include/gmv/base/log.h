/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Levelled log lines on stderr: time, level, event and key=value pairs, as text or as JSON. Values
 * are escaped, so no request can forge a line. Thread-safe; a line is written with one write call.
 */
#ifndef GMV_BASE_LOG_H
#define GMV_BASE_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <gmv/base/attr.h>

GMV_BEGIN_DECLS

typedef enum gmv_log_level {
    GMV_LOG_ERROR,
    GMV_LOG_WARNING,
    GMV_LOG_INFO,
    GMV_LOG_DEBUG
} gmv_log_level;

typedef enum gmv_log_format { GMV_LOG_TEXT, GMV_LOG_JSON } gmv_log_format;

/* One value of a line. Made by the three helpers below; keys are static text. */
typedef struct gmv_log_field {
    const char *key;
    const char *text; /* NULL: `number` counts */
    int64_t number;
} gmv_log_field;

static inline gmv_log_field gmv_log_text(const char *key, const char *text)
{
    return (gmv_log_field){key, text ? text : "", 0};
}

static inline gmv_log_field gmv_log_int(const char *key, int64_t number)
{
    return (gmv_log_field){key, NULL, number};
}

/* Text and GMV_LOG_INFO until then; lines that other threads are writing may still be of old. */
void gmv_log_configure(gmv_log_format format, gmv_log_level level);

/* Whether a line of that level would be written. */
bool gmv_log_enabled(gmv_log_level level);

/* Writes one line, whatever the level. A line that is too long is cut; one that cannot be written
 * is lost. */
void gmv_log_write(gmv_log_level level, const char *event, const gmv_log_field *fields,
                   size_t n_fields);

/* gmv_log(GMV_LOG_INFO, "listening", gmv_log_text("address", a), gmv_log_int("port", p)) */
#define gmv_log(level, event, ...)                                                 \
    do {                                                                           \
        if (gmv_log_enabled(level)) {                                              \
            const gmv_log_field gmv_log_fields_[] = {{0}, ##__VA_ARGS__};          \
            gmv_log_write((level), (event), gmv_log_fields_ + 1,                   \
                          sizeof gmv_log_fields_ / sizeof gmv_log_fields_[0] - 1); \
        }                                                                          \
    } while (0)

GMV_END_DECLS

#endif
