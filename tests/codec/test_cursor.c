/* SPDX-License-Identifier: Apache-2.0 */
/* Cursors belong to one list with its filters; all else is junk. */
#include <string.h>

#include <criterion/criterion.h>

#include "codec/cursor.h"

Test(cursor, comes_back_with_the_same_filters_only)
{
    static const uint64_t positions[] = {1, 2, 4096, UINT64_MAX};
    for (size_t i = 0; i < sizeof positions / sizeof positions[0]; i++) {
        char text[GMV_CURSOR_TEXT_MAX];
        uint64_t back = 0;
        gmv_cursor_format(positions[i], "kind=view", 9, text);
        cr_assert(gmv_cursor_parse(text, strlen(text), "kind=view", 9, &back));
        cr_assert_eq(back, positions[i]);
        cr_assert_not(gmv_cursor_parse(text, strlen(text), "kind=vieW", 9, &back));
        cr_assert_not(gmv_cursor_parse(text, strlen(text), "kind=view", 8, &back));
        cr_assert_not(gmv_cursor_parse(text, strlen(text), NULL, 0, &back));
    }
}

Test(cursor, filters_that_differ_in_trailing_zeros_differ)
{
    char text[GMV_CURSOR_TEXT_MAX];
    uint64_t back;
    gmv_cursor_format(7, "a\0\0", 3, text);
    cr_assert_not(gmv_cursor_parse(text, strlen(text), "a\0\0", 2, &back));
    cr_assert_not(gmv_cursor_parse(text, strlen(text), "a", 1, &back));
    cr_assert(gmv_cursor_parse(text, strlen(text), "a\0\0", 3, &back));
}

Test(cursor, any_other_character_is_junk)
{
    char text[GMV_CURSOR_TEXT_MAX];
    uint64_t back;
    gmv_cursor_format(77, "x", 1, text);
    for (size_t i = 0; i + 1 < sizeof text; i++) {
        char kept = text[i];
        for (const char *other = "0123456789abcdefAgz \xFF"; *other != '\0'; other++) {
            text[i] = *other;
            cr_assert(*other == kept || !gmv_cursor_parse(text, strlen(text), "x", 1, &back),
                      "position %zu, '%c'", i, *other);
        }
        text[i] = kept;
    }
    cr_assert_not(gmv_cursor_parse(text, strlen(text) - 1, "x", 1, &back));
    cr_assert_not(gmv_cursor_parse("", 0, "x", 1, &back));
}
