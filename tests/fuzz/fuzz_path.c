/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a path segment: what is decoded fits and holds no NUL; an id has one spelling. */
#include "fuzz/fuzz.h"

#include <gmv/base/id.h>

#include "codec/query.h"

#define PATH_ROOM 64

static void path_check_id(const char *segment)
{
    gmv_id id;
    char text[GMV_ID_TEXT_MAX];
    if (!gmv_id_parse(segment, strlen(segment), &id))
        return;
    FUZZ_REQUIRE(gmv_id_format(&id, text) == strlen(segment));
    FUZZ_REQUIRE(strcmp(text, segment) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = size > 0 ? (const char *)data : "";
    char out[PATH_ROOM + 1];
    size_t room = size > 0 ? data[size - 1] % PATH_ROOM + 1u : 1;
    memset(out, 0x55, sizeof out);
    if (gmv_segment_decode(text, size, out, room)) {
        size_t length = strlen(out);
        FUZZ_REQUIRE(length < room && length <= size);
        FUZZ_REQUIRE(memchr(text, '%', size) != NULL || length == size);
        FUZZ_REQUIRE(strchr(out, '/') == NULL || memchr(text, '/', size) != NULL);
        path_check_id(out);
    }
    FUZZ_REQUIRE(out[room] == 0x55);
    return 0;
}
