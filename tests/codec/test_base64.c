/* SPDX-License-Identifier: Apache-2.0 */
/* Base64: the vectors of RFC 4648, and every way to spell it wrongly. */
#include <string.h>

#include <criterion/criterion.h>

#include "codec/base64.h"

static const struct {
    const char *bytes, *text;
} base64_rfc[] = {
    {"", ""},
    {"f", "Zg=="},
    {"fo", "Zm8="},
    {"foo", "Zm9v"},
    {"foob", "Zm9vYg=="},
    {"fooba", "Zm9vYmE="},
    {"foobar", "Zm9vYmFy"},
};

Test(base64, vectors_of_the_standard_go_both_ways)
{
    for (size_t i = 0; i < sizeof base64_rfc / sizeof base64_rfc[0]; i++) {
        gmv_strbuf out = GMV_STRBUF_INIT;
        char bytes[16];
        size_t nbytes;
        gmv_base64_encode(&out, base64_rfc[i].bytes, strlen(base64_rfc[i].bytes));
        cr_assert_eq(out.length, strlen(base64_rfc[i].text));
        cr_assert_eq(memcmp(out.data != NULL ? out.data : "", base64_rfc[i].text, out.length), 0);
        cr_assert(
            gmv_base64_decode(base64_rfc[i].text, strlen(base64_rfc[i].text), bytes, &nbytes));
        cr_assert_eq(nbytes, strlen(base64_rfc[i].bytes));
        cr_assert_eq(memcmp(bytes, base64_rfc[i].bytes, nbytes), 0);
        gmv_strbuf_fini(&out);
    }
}

Test(base64, all_bytes_and_lengths_survive)
{
    unsigned char bytes[256];
    unsigned char back[256];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * 7 + 3);
    for (size_t n = 0; n <= sizeof bytes; n++) {
        gmv_strbuf out = GMV_STRBUF_INIT;
        size_t nbytes;
        gmv_base64_encode(&out, bytes, n);
        cr_assert(n == 0 || gmv_base64_decoded_max(out.length) >= n);
        cr_assert(gmv_base64_decode(out.data != NULL ? out.data : "", out.length, back, &nbytes));
        cr_assert_eq(nbytes, n);
        cr_assert_eq(memcmp(bytes, back, n), 0);
        gmv_strbuf_fini(&out);
    }
}

Test(base64, other_spellings_are_refused)
{
    static const char *const texts[] = {"Z",     "Zg",     "Zg=",  "Zg===",    "Zm8",
                                        "====",  "=",      "Z===", "Zg==Zg==", "Zm9v ",
                                        " Zm9v", "Zm\n9v", "Zm9-", "Zm9_",     "Zh==",
                                        "Zm9=",  "Zm=v",   "Z=g=", "Zm9v====", "\xC3\xBC\xC3\xBC"};
    char bytes[16];
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        size_t nbytes;
        cr_assert_not(gmv_base64_decode(texts[i], strlen(texts[i]), bytes, &nbytes), "'%s'",
                      texts[i]);
    }
}
