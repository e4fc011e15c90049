/* SPDX-License-Identifier: Apache-2.0 */
/* Texts around and about contents: .npy headers, hexdumps, the parts of several ranges. */
#include <string.h>

#include <criterion/criterion.h>

#include <gmv/model/layout.h>

#include "codec/hexdump.h"
#include "codec/multipart.h"
#include "codec/npy.h"

static size_t npy_length(const gmv_strbuf *out)
{
    return (size_t)(unsigned char)out->data[8] | (size_t)(unsigned char)out->data[9] << 8;
}

Test(npy, a_header_is_a_python_dict_padded_to_64)
{
    static const struct {
        gmv_dtype dtype;
        bool fortran_order;
        size_t ndim;
        int64_t shape[3];
        const char *dict;
    } rows[] = {
        {GMV_DTYPE_F4,
         false,
         2,
         {3, 4},
         "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }"},
        {GMV_DTYPE_U1, false, 1, {3}, "{'descr': '|u1', 'fortran_order': False, 'shape': (3,), }"},
        {GMV_DTYPE_F8, false, 0, {0}, "{'descr': '<f8', 'fortran_order': False, 'shape': (), }"},
        {GMV_DTYPE_M8_NS,
         true,
         3,
         {2, 0, 1},
         "{'descr': '<M8[ns]', 'fortran_order': True, 'shape': (2, 0, 1), }"},
        {GMV_DTYPE_BF16,
         false,
         1,
         {7},
         "{'descr': '|V2', 'fortran_order': False, 'shape': (7,), }"},
        {GMV_DTYPE_F8_E5M2,
         false,
         1,
         {7},
         "{'descr': '|V1', 'fortran_order': False, 'shape': (7,), }"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        gmv_strbuf out = GMV_STRBUF_INIT;
        gmv_npy_write_header(&out, rows[i].dtype, rows[i].fortran_order, rows[i].shape,
                             rows[i].ndim);
        cr_assert_eq(memcmp(out.data, "\x93NUMPY\x01\x00", 8), 0);
        cr_assert_eq(out.length, 10 + npy_length(&out));
        cr_assert_eq(out.length % 64, 0);
        size_t length = strlen(rows[i].dict);
        cr_assert_eq(strncmp(out.data + 10, rows[i].dict, length), 0, "%s", out.data + 10);
        cr_assert_eq(strspn(out.data + 10 + length, " "), out.length - 11 - length);
        cr_assert_eq(out.data[out.length - 1], '\n');
        gmv_strbuf_fini(&out);
    }
}

Test(npy, the_longest_shape_still_has_its_length)
{
    int64_t shape[GMV_NDIM_MAX];
    gmv_strbuf out = GMV_STRBUF_INIT;
    for (size_t i = 0; i < GMV_NDIM_MAX; i++)
        shape[i] = INT64_MAX;
    gmv_npy_write_header(&out, GMV_DTYPE_C16, false, shape, GMV_NDIM_MAX);
    cr_assert_gt(npy_length(&out), 64 * 19);
    cr_assert_lt(npy_length(&out), 10000);
    cr_assert_eq(out.length, 10 + npy_length(&out));
    cr_assert_eq(out.length % 64, 0);
    gmv_strbuf_fini(&out);
}

static void hexdump_expect(uint64_t offset, const void *bytes, size_t nbytes, const char *want)
{
    gmv_strbuf out = GMV_STRBUF_INIT;
    gmv_hexdump_write(&out, offset, bytes, nbytes);
    cr_assert_not(gmv_strbuf_failed(&out));
    cr_expect_str_eq(out.data ? out.data : "", want);
    gmv_strbuf_fini(&out);
}

Test(hexdump, lines_are_those_of_xxd)
{
    hexdump_expect(0, "", 0, "");
    hexdump_expect(0, "a", 1, "00000000: 61                                       a\n");
    hexdump_expect(3, "defg hijk\0\x7f\x80\xffxyz", 16,
                   "00000003: 6465 6667 2068 696a 6b00 7f80 ff78 797a  defg hijk....xyz\n");
    hexdump_expect(16, "0123456789abcdef~ \x1f", 19,
                   "00000010: 3031 3233 3435 3637 3839 6162 6364 6566  0123456789abcdef\n"
                   "00000020: 7e20 1f                                  ~ .\n");
    hexdump_expect(0xFFFFFFFFF8u, "01", 2,
                   "fffffffff8: 3031                                     01\n");
    hexdump_expect(UINT64_MAX, "0", 1,
                   "ffffffffffffffff: 30                                       0\n");
}

Test(multipart, parts_are_parted_as_the_standard_says)
{
    gmv_strbuf out = GMV_STRBUF_INIT;
    gmv_multipart_open_part(&out, "b", "a/b", &(gmv_byte_range){0, 1}, 10, true);
    gmv_strbuf_puts(&out, "AB");
    gmv_multipart_open_part(&out, "b", "a/b", &(gmv_byte_range){5, 5}, 10, false);
    gmv_strbuf_puts(&out, "F");
    gmv_multipart_close(&out, "b");
    cr_assert_str_eq(out.data,
                     "--b\r\nContent-Type: a/b\r\nContent-Range: bytes 0-1/10\r\n\r\nAB"
                     "\r\n--b\r\nContent-Type: a/b\r\nContent-Range: bytes 5-5/10\r\n\r\nF"
                     "\r\n--b--\r\n");
    gmv_strbuf_fini(&out);
}

Test(multipart, boundaries_are_fresh_and_plain)
{
    char one[GMV_BOUNDARY_MAX], other[GMV_BOUNDARY_MAX];
    cr_assert(gmv_multipart_boundary(one) && gmv_multipart_boundary(other));
    cr_assert_str_neq(one, other);
    cr_assert_eq(strspn(one, "0123456789abcdef"), 32);
    cr_assert_eq(strlen(one), 32);
}
