/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Filling error values. A message holds printable ASCII only and a pointer that does not fit names
 * the nearest ancestor that does, so an answer built from them is always well formed.
 */
#include <gmv/base/error.h>

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void gmv_error_init(gmv_error *err)
{
    err->status = GMV_OK;
    err->has_pointer = false;
    err->message[0] = '\0';
    err->pointer[0] = '\0';
    err->parameter[0] = '\0';
    err->has_subject = false;
    err->subject = (gmv_id){0};
    err->subject_alive = false;
    err->subject_reason = NULL;
    err->has_operation = false;
    err->operation = 0;
    err->dependents_count = 0;
    err->file = NULL;
    err->line = 0;
}

static void error_format_message(char out_message[GMV_ERROR_MESSAGE_MAX], const char *format,
                                 va_list arguments) GMV_PRINTF(2, 0);

static void error_format_message(char out_message[GMV_ERROR_MESSAGE_MAX], const char *format,
                                 va_list arguments)
{
    if (vsnprintf(out_message, GMV_ERROR_MESSAGE_MAX, format, arguments) < 0)
        out_message[0] = '\0';
    for (char *c = out_message; *c != '\0'; c++)
        if (*c < 0x20 || *c > 0x7e)
            *c = '?';
}

/* Where to cut a pointer that has to end before `limit`: in front of a '/', or nowhere. */
static size_t error_pointer_cut(const char *pointer, size_t length, size_t limit)
{
    if (length < limit)
        return length;
    size_t cut = limit - 1;
    while (cut > 0 && pointer[cut] != '/')
        cut--;
    return cut;
}

static void error_fill(gmv_error *err, const char *file, int line, gmv_status status,
                       const char *message)
{
    gmv_error_init(err);
    err->status = status;
    err->file = file;
    err->line = line;
    memcpy(err->message, message, strlen(message) + 1);
}

gmv_status gmv_error_set(gmv_error *err, const char *file, int line, gmv_status status,
                         const char *pointer, const char *format, ...)
{
    if (err == NULL)
        return status;

    /* Built aside: the arguments may be members of the error that is being replaced. */
    char message[GMV_ERROR_MESSAGE_MAX];
    char kept_pointer[GMV_ERROR_POINTER_MAX];
    va_list arguments;
    va_start(arguments, format);
    error_format_message(message, format, arguments);
    va_end(arguments);
    size_t cut = 0;
    if (pointer != NULL) {
        cut = error_pointer_cut(pointer, strlen(pointer), sizeof kept_pointer);
        memcpy(kept_pointer, pointer, cut);
    }

    error_fill(err, file, line, status, message);
    if (pointer != NULL) {
        err->has_pointer = true;
        memcpy(err->pointer, kept_pointer, cut);
        err->pointer[cut] = '\0';
    }
    return status;
}

gmv_status gmv_error_set_parameter(gmv_error *err, const char *file, int line, gmv_status status,
                                   const char *parameter, const char *format, ...)
{
    if (err == NULL)
        return status;

    char message[GMV_ERROR_MESSAGE_MAX];
    char kept_parameter[GMV_ERROR_PARAMETER_MAX];
    va_list arguments;
    va_start(arguments, format);
    error_format_message(message, format, arguments);
    va_end(arguments);
    size_t length = strnlen(parameter, sizeof kept_parameter - 1);
    for (size_t i = 0; i < length; i++)
        kept_parameter[i] = parameter[i] < 0x20 || parameter[i] > 0x7e ? '?' : parameter[i];

    error_fill(err, file, line, status, message);
    memcpy(err->parameter, kept_parameter, length);
    err->parameter[length] = '\0';
    return status;
}

void gmv_error_prefix_pointer(gmv_error *err, const char *prefix)
{
    if (err == NULL || !err->has_pointer)
        return;
    size_t prefix_length = strlen(prefix);
    size_t prefix_cut = error_pointer_cut(prefix, prefix_length, sizeof err->pointer);
    size_t tail_length = 0;
    if (prefix_cut == prefix_length)
        tail_length =
            error_pointer_cut(err->pointer, strlen(err->pointer), sizeof err->pointer - prefix_cut);
    memmove(err->pointer + prefix_cut, err->pointer, tail_length);
    memcpy(err->pointer, prefix, prefix_cut);
    err->pointer[prefix_cut + tail_length] = '\0';
}
