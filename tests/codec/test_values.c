/* SPDX-License-Identifier: Apache-2.0 */
/* Elements and rows: each type at its edges, nulls, dates of any year, exact decimals. */
#include <string.h>

#include <criterion/criterion.h>

#include "codec/column_values.h"
#include "codec/values.h"

#define ELEMENTS(dtype, want, type, ...)                                                    \
    do {                                                                                    \
        const type values[] = {__VA_ARGS__};                                                \
        values_expect_elements(GMV_DTYPE_##dtype, values, sizeof values / sizeof values[0], \
                               sizeof values[0], want);                                     \
    } while (0)

/* At an odd address, as nothing promises alignment. */
static void values_expect_elements(gmv_dtype dtype, const void *values, size_t n, size_t itemsize,
                                   const char *want)
{
    unsigned char odd[512];
    gmv_strbuf out = GMV_STRBUF_INIT;
    gmv_json_writer writer = gmv_json_writer_over(&out);
    cr_assert_leq(n * itemsize, sizeof odd - 1);
    memcpy(odd + 1, values, n * itemsize);
    int64_t count = (int64_t)(n * itemsize / gmv_dtype_describe(dtype)->itemsize);
    gmv_encode_elements(&writer, dtype, odd + 1, count);
    cr_assert_str_eq(out.data, want);
    gmv_strbuf_fini(&out);
}

Test(values, elements_of_each_type)
{
    ELEMENTS(U1, "[0,255]", uint8_t, 0, 255);
    ELEMENTS(U2, "[0,65535]", uint16_t, 0, 65535);
    ELEMENTS(U4, "[0,4294967295]", uint32_t, 0, UINT32_MAX);
    ELEMENTS(U8, "[9007199254740993,18446744073709551615]", uint64_t, 9007199254740993, UINT64_MAX);
    ELEMENTS(I1, "[-128,127]", int8_t, -128, 127);
    ELEMENTS(I2, "[-32768,32767]", int16_t, INT16_MIN, INT16_MAX);
    ELEMENTS(I4, "[-2147483648,2147483647]", int32_t, INT32_MIN, INT32_MAX);
    ELEMENTS(I8, "[-9223372036854775808,9223372036854775807]", int64_t, INT64_MIN, INT64_MAX);
    ELEMENTS(F2, "[1.0,0.1,\"NaN\",\"-Infinity\",-0.0]", uint16_t, 0x3C00, 0x2E66, 0x7E01, 0xFC00,
             0x8000);
    ELEMENTS(F4, "[1.5,\"NaN\",\"Infinity\",\"-Infinity\",-0.0]", float, 1.5f, __builtin_nanf(""),
             __builtin_inff(), -__builtin_inff(), -0.0f);
    ELEMENTS(F8, "[0.1,3.0]", double, 0.1, 3.0);
    ELEMENTS(B1, "[false,true,true,true]", uint8_t, 0, 1, 2, 255);
    ELEMENTS(C8, "[[0.1,-2.0],[\"NaN\",0.0]]", float, 0.1f, -2.0f, __builtin_nanf(""), 0.0f);
    ELEMENTS(C16, "[[0.1,-2.0]]", double, 0.1, -2.0);
    ELEMENTS(M8_S, "[1,-9223372036854775808]", int64_t, 1, INT64_MIN);
    ELEMENTS(M8_NS, "[1704164645678000000]", int64_t, 1704164645678000000);
    ELEMENTS(TD_MS, "[-5]", int64_t, -5);
}

Test(values, no_elements_are_an_empty_list)
{
    gmv_strbuf out = GMV_STRBUF_INIT;
    gmv_json_writer writer = gmv_json_writer_over(&out);
    gmv_encode_elements(&writer, GMV_DTYPE_F8, NULL, 0);
    cr_assert_str_eq(out.data, "[]");
    gmv_strbuf_fini(&out);
}

/* ---- rows
 * ---------------------------------------------------------------------------------------- */

static void values_expect_rows(int32_t type_id, int32_t scale, const void *data,
                               const uint8_t *validity, int64_t count, const char *want)
{
    gmv_strbuf out = GMV_STRBUF_INIT;
    gmv_json_writer writer = gmv_json_writer_over(&out);
    const gmv_column_rows rows = {.type = {type_id, scale},
                                  .count = count,
                                  .data = (void *)(uintptr_t)data,
                                  .validity = (uint8_t *)(uintptr_t)validity};
    cr_assert(gmv_encode_column_rows(&writer, &rows, 10000));
    cr_assert_str_eq(out.data, want);
    gmv_strbuf_fini(&out);
}

#define ROWS(type_id, scale, want, type, ...)                       \
    do {                                                            \
        const type values[] = {__VA_ARGS__};                        \
        values_expect_rows(GMV_CUDF_##type_id, scale, values, NULL, \
                           sizeof values / sizeof values[0], want); \
    } while (0)

Test(values, null_rows_are_null)
{
    const int32_t data[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
    const uint8_t validity[] = {0xA5, 0x02};
    values_expect_rows(GMV_CUDF_INT32, 0, data, validity, 10,
                       "[1,null,3,null,null,6,null,8,null,10]");
}

Test(values, booleans_and_numbers)
{
    ROWS(BOOL8, 0, "[true,false,true]", uint8_t, 1, 0, 7);
    ROWS(UINT64, 0, "[18446744073709551615]", uint64_t, UINT64_MAX);
    ROWS(INT8, 0, "[-1]", int8_t, -1);
    ROWS(FLOAT64, 0, "[2.5]", double, 2.5);
    ROWS(DURATION_DAYS, 0, "[-3]", int32_t, -3);
    ROWS(DURATION_NANOSECONDS, 0, "[9223372036854775807]", int64_t, INT64_MAX);
}

Test(values, timestamps_are_iso_8601)
{
    ROWS(TIMESTAMP_DAYS, 0,
         "[\"1970-01-01\",\"1969-12-31\",\"2024-02-29\",\"2000-03-01\",\"1900-02-28\",\"1900-03-"
         "01\"]",
         int32_t, 0, -1, 19782, 11017, -25509, -25508);
    ROWS(TIMESTAMP_SECONDS, 0, "[\"1970-01-01T00:00:00Z\",\"1969-12-31T23:59:59Z\"]", int64_t, 0,
         -1);
    ROWS(TIMESTAMP_MILLISECONDS, 0, "[\"2024-01-02T03:04:05.678Z\",\"1969-12-31T23:59:59.999Z\"]",
         int64_t, 1704164645678, -1);
    ROWS(TIMESTAMP_MICROSECONDS, 0, "[\"2024-01-02T03:04:05.000001Z\"]", int64_t, 1704164645000001);
    ROWS(TIMESTAMP_NANOSECONDS, 0,
         "[\"1677-09-21T00:12:43.145224192Z\",\"2262-04-11T23:47:16.854775807Z\"]", int64_t,
         INT64_MIN, INT64_MAX);
}

/* Against Python's proleptic Gregorian calendar where that ends, and by eras of 400 years beyond.
 */
Test(values, years_outside_four_digits_are_signed_and_exact)
{
    ROWS(TIMESTAMP_DAYS, 0,
         "[\"9999-12-31\",\"+10000-01-01\",\"0001-01-01\",\"+0000-12-31\",\"+0000-01-01\","
         "\"-0001-12-31\",\"-0400-01-01\",\"+5881580-07-11\",\"-5877641-06-23\"]",
         int32_t, 2932896, 2932897, -719162, -719163, -719528, -719529, -865625, INT32_MAX,
         INT32_MIN);
    ROWS(TIMESTAMP_SECONDS, 0,
         "[\"+292277026596-12-04T15:30:07Z\",\"-292277022657-01-27T08:29:52Z\"]", int64_t,
         INT64_MAX, INT64_MIN);
}

Test(values, decimals_are_exact)
{
    ROWS(DECIMAL32, -2, "[\"123.45\",\"-0.01\",\"0.00\",\"-123.45\",\"0.10\"]", int32_t, 12345, -1,
         0, -12345, 10);
    ROWS(DECIMAL32, 0, "[\"5\",\"-2147483648\"]", int32_t, 5, INT32_MIN);
    ROWS(DECIMAL64, 3, "[\"5000\",\"0\",\"-7000\"]", int64_t, 5, 0, -7);
    ROWS(DECIMAL64, -18, "[\"-9.223372036854775808\"]", int64_t, INT64_MIN);
    ROWS(DECIMAL64, -25, "[\"0.0000000000000000000000001\"]", int64_t, 1);
    ROWS(DECIMAL64, 39, "[\"5E+39\",\"0E+39\"]", int64_t, 5, 0);
    ROWS(DECIMAL64, -90, "[\"-5E-90\"]", int64_t, -5);
    ROWS(DECIMAL32, INT32_MIN, "[\"1E-2147483648\"]", int32_t, 1);
    const __int128 largest = (__int128)(((unsigned __int128)1 << 127) - 1);
    ROWS(DECIMAL128, 0,
         "[\"170141183460469231731687303715884105727\",\"-"
         "170141183460469231731687303715884105728\"]",
         __int128, largest, -largest - 1);
    ROWS(DECIMAL128, -38,
         "[\"1.70141183460469231731687303715884105727\","
         "\"-1.70141183460469231731687303715884105728\",\"0."
         "00000000000000000000000000000000000001\"]",
         __int128, largest, -largest - 1, 1);
    ROWS(DECIMAL128, 38,
         "[\"17014118346046923173168730371588410572700000000000000000000000000000000000000\"]",
         __int128, largest);
}

Test(values, rows_of_nothing_are_null)
{
    values_expect_rows(GMV_CUDF_EMPTY, 0, NULL, NULL, 2, "[null,null]");
}
