/* SPDX-License-Identifier: Apache-2.0 */
/* What looking inside arrays has found, as text: numbers that are not there are null. */
#include <math.h>
#include <string.h>

#include <criterion/criterion.h>

#include "codec/encode_inspect.h"
#include "codec/values.h"

static void inspect_expect(gmv_strbuf *out, const char *want)
{
    cr_assert_str_eq(out->data, want);
    gmv_strbuf_fini(out);
}

Test(encode_inspect, statistics_in_the_elements_own_type)
{
    gmv_strbuf out = GMV_STRBUF_INIT;
    gmv_json_writer writer = gmv_json_writer_over(&out);
    gmv_statistics statistics = {.dtype = GMV_DTYPE_F4,
                                 .count = 3,
                                 .has_extremes = true,
                                 .has_sum = true,
                                 .sum = 0.5,
                                 .has_mean = true,
                                 .mean = 0.25,
                                 .has_deviation = true,
                                 .deviation = 1};
    float min = 0.1f, max = 3;
    memcpy(statistics.min, &min, sizeof min);
    memcpy(statistics.max, &max, sizeof max);
    gmv_encode_statistics(&writer, &statistics);
    inspect_expect(&out, "{\"count\":3,\"null_count\":0,\"nan_count\":0,\"inf_count\":0,"
                         "\"zero_count\":0,\"min\":0.1,\"max\":3.0,\"sum\":0.5,"
                         "\"sum_overflow\":false,\"mean\":0.25,\"std\":1.0}");
}

Test(encode_inspect, statistics_of_nothing_and_of_too_much)
{
    gmv_strbuf out = GMV_STRBUF_INIT;
    gmv_json_writer writer = gmv_json_writer_over(&out);
    gmv_statistics statistics = {
        .dtype = GMV_DTYPE_U1, .is_integer = true, .has_extremes = true, .sum_overflow = true};
    statistics.max[0] = 255;
    gmv_encode_statistics(&writer, &statistics);
    inspect_expect(&out, "{\"count\":0,\"null_count\":0,\"nan_count\":0,\"inf_count\":0,"
                         "\"zero_count\":0,\"min\":0,\"max\":255,\"sum\":null,"
                         "\"sum_overflow\":true,\"mean\":null,\"std\":null}");
}

Test(encode_inspect, histograms)
{
    double edges[] = {0, (double)0.1f, 1};
    uint64_t counts[] = {5, 6, 1, 2, 3, 4};
    gmv_histogram histogram = {.bins = 2, .edges = edges, .counts = counts, .short_edges = true};
    gmv_strbuf out = GMV_STRBUF_INIT;
    gmv_json_writer writer = gmv_json_writer_over(&out);
    gmv_encode_histogram(&writer, &histogram);
    inspect_expect(&out, "{\"edges\":[0.0,0.1,1.0],\"counts\":[5,6],\"below\":1,\"above\":2,"
                         "\"nan_count\":3,\"inf_count\":4}");
}

Test(encode_inspect, checksums_are_hexadecimal)
{
    uint64_t blocks[] = {0xab, UINT64_MAX};
    gmv_checksum_request request = {.algorithm = GMV_CHECKSUM_XXH64_TREE, .block_nbytes = 1024};
    gmv_checksum checksum = {.nbytes = 1500, .value = 0xcafe, .n_blocks = 2, .blocks = blocks};
    gmv_strbuf out = GMV_STRBUF_INIT;
    gmv_json_writer writer = gmv_json_writer_over(&out);
    gmv_encode_checksum(&writer, &request, &checksum);
    inspect_expect(&out, "{\"algorithm\":\"xxh64_tree\",\"nbytes\":1500,\"block_nbytes\":1024,"
                         "\"value\":\"000000000000cafe\","
                         "\"blocks\":[\"00000000000000ab\",\"ffffffffffffffff\"]}");
    gmv_strbuf whole = GMV_STRBUF_INIT;
    writer = gmv_json_writer_over(&whole);
    request.algorithm = GMV_CHECKSUM_CRC32C;
    checksum.blocks = NULL;
    gmv_encode_checksum(&writer, &request, &checksum);
    inspect_expect(&whole, "{\"algorithm\":\"crc32c\",\"nbytes\":1500,\"block_nbytes\":null,"
                           "\"value\":\"0000cafe\",\"blocks\":null}");
}

Test(encode_inspect, comparisons)
{
    gmv_strbuf out = GMV_STRBUF_INIT;
    gmv_json_writer writer = gmv_json_writer_over(&out);
    gmv_comparison comparison = {.differing = 2,
                                 .first_difference = 0,
                                 .has_differences = true,
                                 .is_integer = true,
                                 .integer_difference = UINT64_MAX,
                                 .relative_difference = 0.5};
    gmv_encode_comparison(&writer, &comparison);
    inspect_expect(&out, "{\"equal\":false,\"differing\":2,\"first_difference\":0,"
                         "\"max_absolute_difference\":18446744073709551615,"
                         "\"max_relative_difference\":0.5}");
    gmv_strbuf same = GMV_STRBUF_INIT;
    writer = gmv_json_writer_over(&same);
    comparison = (gmv_comparison){.equal = true,
                                  .first_difference = -1,
                                  .has_differences = true,
                                  .absolute_difference = (double)INFINITY};
    gmv_encode_comparison(&writer, &comparison);
    inspect_expect(&same, "{\"equal\":true,\"differing\":0,\"first_difference\":null,"
                          "\"max_absolute_difference\":null,\"max_relative_difference\":0.0}");
}

Test(encode_inspect, masked_elements_are_null)
{
    static const int16_t elements[] = {1, -2, 3};
    static const uint8_t valid[] = {0x5};
    gmv_strbuf out = GMV_STRBUF_INIT;
    gmv_json_writer writer = gmv_json_writer_over(&out);
    gmv_encode_masked_elements(&writer, GMV_DTYPE_I2, elements, valid, 3);
    inspect_expect(&out, "[1,null,3]");
}
