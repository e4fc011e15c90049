/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the test vectors: JSON files of tests/vectors and bytes written in hexadecimal. */
#ifndef GMV_TESTS_SUPPORT_VECTORS_H
#define GMV_TESTS_SUPPORT_VECTORS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>
#include <jansson.h>

/* The array of tests/vectors/NAME; the test fails if it cannot be read. The caller drops it. */
static inline json_t *vectors_load(const char *name)
{
    const char *source = getenv("GMV_SRCDIR");
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/tests/vectors/%s", source != NULL ? source : ".", name);
    json_error_t error;
    json_t *vectors = json_load_file(path, 0, &error);
    cr_assert_not_null(vectors, "%s: %s", path, error.text);
    cr_assert(json_is_array(vectors) && json_array_size(vectors) > 0, "%s holds no cases", path);
    return vectors;
}

static inline const char *vectors_text(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    cr_assert_not_null(text, "there is no text '%s'", key);
    return text;
}

static inline json_int_t vectors_int(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    cr_assert(json_is_integer(value), "there is no integer '%s'", key);
    return json_integer_value(value);
}

/* Exactly the bytes that `hex` shows, in a block that free() takes. */
static inline unsigned char *vectors_bytes(const char *hex, size_t *out_nbytes)
{
    size_t nbytes = strlen(hex) / 2;
    unsigned char *bytes = (unsigned char *)malloc(nbytes == 0 ? 1 : nbytes);
    cr_assert_not_null(bytes);
    for (size_t i = 0; i < nbytes; i++) {
        const char digits[3] = {hex[2 * i], hex[2 * i + 1], '\0'};
        bytes[i] = (unsigned char)strtoul(digits, NULL, 16);
    }
    *out_nbytes = nbytes;
    return bytes;
}

#endif
