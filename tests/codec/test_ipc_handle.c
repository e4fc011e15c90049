/* SPDX-License-Identifier: Apache-2.0 */
/* IPC handles: 64 bytes, 66 with a prefix that is known, and nothing else. */
#include <string.h>

#include <criterion/criterion.h>

#include "codec/base64.h"
#include "codec/ipc_handle.h"

/* The base64 of n bytes: `first` and `second`, then 2, 3, 4, ... */
static void spell(gmv_strbuf *out, size_t n, unsigned char first, unsigned char second)
{
    unsigned char bytes[128];
    for (size_t i = 0; i < n; i++)
        bytes[i] = (unsigned char)i;
    if (n > 1) {
        bytes[0] = first;
        bytes[1] = second;
    }
    gmv_base64_encode(out, bytes, n);
}

static gmv_status read_spelled(size_t n, unsigned char first, unsigned char second, bool is_event,
                               uint8_t out[GMV_IPC_HANDLE_NBYTES], gmv_error *err)
{
    gmv_strbuf text = GMV_STRBUF_INIT;
    gmv_error_init(err);
    spell(&text, n, first, second);
    const char *spelled = text.data ? text.data : "";
    gmv_status status = is_event ? gmv_ipc_event_read(spelled, text.length, "/event", out, err)
                                 : gmv_ipc_handle_read(spelled, text.length, "/handle", out, err);
    gmv_strbuf_fini(&text);
    return status;
}

Test(ipc_handle, bare_and_prefixed_bytes_are_read)
{
    uint8_t out[GMV_IPC_HANDLE_NBYTES];
    gmv_error err;
    cr_assert_eq(read_spelled(64, 200, 1, false, out, &err), GMV_OK);
    cr_assert(out[0] == 200 && out[1] == 1 && out[63] == 63);
    for (unsigned char version = 2; version <= 3; version++) {
        cr_assert_eq(read_spelled(66, version, 'c', false, out, &err), GMV_OK);
        cr_assert(out[0] == 2 && out[63] == 65);
    }
    cr_assert_eq(read_spelled(64, 200, 1, true, out, &err), GMV_OK);
    cr_assert(out[0] == 200 && out[63] == 63);
}

Test(ipc_handle, other_lengths_are_invalid)
{
    uint8_t out[GMV_IPC_HANDLE_NBYTES];
    gmv_error err;
    for (size_t n = 0; n <= 128; n++) {
        bool is_handle = n == 64 || n == 66;
        cr_assert_eq(read_spelled(n, 2, 'c', false, out, &err) == GMV_OK, is_handle, "%zu", n);
        cr_assert(is_handle ||
                  (err.status == GMV_ERR_HANDLE_INVALID && strcmp(err.pointer, "/handle") == 0));
        cr_assert_eq(read_spelled(n, 2, 'c', true, out, &err) == GMV_OK, n == 64, "%zu", n);
    }
}

Test(ipc_handle, unknown_prefixes_are_invalid)
{
    static const unsigned char prefixes[][2] = {{1, 'c'}, {4, 'c'}, {2, 'e'}, {3, 'e'},
                                                {2, 'C'}, {0, 0},   {2, 0},   {'c', 2}};
    uint8_t out[GMV_IPC_HANDLE_NBYTES];
    gmv_error err;
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++)
        cr_assert_eq(read_spelled(66, prefixes[i][0], prefixes[i][1], false, out, &err),
                     GMV_ERR_HANDLE_INVALID, "row %zu", i);
    cr_assert_eq(read_spelled(66, 2, 'e', false, out, &err), GMV_ERR_HANDLE_INVALID);
    cr_assert_not_null(strstr(err.message, "expandable"));
}

Test(ipc_handle, other_spellings_are_invalid)
{
    gmv_strbuf text = GMV_STRBUF_INIT;
    uint8_t out[GMV_IPC_HANDLE_NBYTES];
    gmv_error err;
    spell(&text, 64, 255, 255);
    cr_assert_eq(text.length, 88);
    for (size_t at = 0; at < text.length; at += 3) {
        char changed[89];
        memcpy(changed, text.data, text.length);
        changed[at] = "-_\n =*"[at % 6];
        gmv_error_init(&err);
        bool is_same = changed[at] == text.data[at];
        cr_assert(is_same || gmv_ipc_handle_read(changed, text.length, "/handle", out, &err) ==
                                 GMV_ERR_HANDLE_INVALID);
    }
    gmv_error_init(&err);
    cr_assert_eq(gmv_ipc_handle_read(text.data, 86, "/handle", out, &err), GMV_ERR_HANDLE_INVALID);
    cr_assert_null(strstr(err.message, "//"), "the handle is repeated: %s", err.message);
    gmv_strbuf_fini(&text);
}
