/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers that are not there, or not finite, are null. */
#include "codec/encode_inspect.h"

#include <math.h>
#include <stdio.h>

#include "codec/values.h"

const char *const gmv_checksum_algorithm_names[] = {
    [GMV_CHECKSUM_CRC32C] = "crc32c",
    [GMV_CHECKSUM_XXH64_TREE] = "xxh64_tree",
    [GMV_CHECKSUM_XXH3_TREE] = "xxh3_tree",
    NULL,
};

static void inspect_member_double(gmv_json_writer *writer, const char *name, bool given,
                                  double value)
{
    gmv_json_put_key(writer, name);
    if (given && isfinite(value))
        gmv_json_put_float64(writer, value);
    else
        gmv_json_put_null(writer);
}

static void inspect_member_element(gmv_json_writer *writer, const char *name,
                                   const gmv_statistics *statistics, const uint8_t *element)
{
    gmv_json_put_key(writer, name);
    if (statistics->has_extremes)
        gmv_encode_element(writer, statistics->dtype, element);
    else
        gmv_json_put_null(writer);
}

void gmv_encode_statistics(gmv_json_writer *writer, const gmv_statistics *statistics)
{
    gmv_json_open_object(writer);
    gmv_json_member_int64(writer, "count", statistics->count);
    gmv_json_member_int64(writer, "null_count", statistics->null_count);
    gmv_json_member_int64(writer, "nan_count", statistics->nan_count);
    gmv_json_member_int64(writer, "inf_count", statistics->inf_count);
    gmv_json_member_int64(writer, "zero_count", statistics->zero_count);
    inspect_member_element(writer, "min", statistics, statistics->min);
    inspect_member_element(writer, "max", statistics, statistics->max);
    if (statistics->has_sum && statistics->is_integer)
        gmv_json_member_int64(writer, "sum", statistics->sum_integer);
    else
        inspect_member_double(writer, "sum", statistics->has_sum, statistics->sum);
    gmv_json_member_bool(writer, "sum_overflow", statistics->sum_overflow);
    inspect_member_double(writer, "mean", statistics->has_mean, statistics->mean);
    inspect_member_double(writer, "std", statistics->has_deviation, statistics->deviation);
    gmv_json_close_object(writer);
}

void gmv_encode_histogram(gmv_json_writer *writer, const gmv_histogram *histogram)
{
    const uint64_t *rests = histogram->counts + histogram->bins;
    gmv_json_open_object(writer);
    gmv_json_put_key(writer, "edges");
    gmv_json_open_array(writer);
    for (int64_t i = 0; i <= histogram->bins; i++) {
        if (histogram->short_edges)
            gmv_json_put_float32(writer, (float)histogram->edges[i]);
        else
            gmv_json_put_float64(writer, histogram->edges[i]);
    }
    gmv_json_close_array(writer);
    gmv_json_put_key(writer, "counts");
    gmv_json_open_array(writer);
    for (int64_t i = 0; i < histogram->bins; i++)
        gmv_json_put_uint64(writer, histogram->counts[i]);
    gmv_json_close_array(writer);
    gmv_json_member_uint64(writer, "below", rests[GMV_HISTOGRAM_BELOW]);
    gmv_json_member_uint64(writer, "above", rests[GMV_HISTOGRAM_ABOVE]);
    gmv_json_member_uint64(writer, "nan_count", rests[GMV_HISTOGRAM_NAN]);
    gmv_json_member_uint64(writer, "inf_count", rests[GMV_HISTOGRAM_INFINITE]);
    gmv_json_close_object(writer);
}

static void inspect_put_hex(gmv_json_writer *writer, uint64_t value, int n_digits)
{
    char text[20];
    int length = snprintf(text, sizeof text, "%0*llx", n_digits, (unsigned long long)value);
    gmv_json_put_text(writer, text, (size_t)length);
}

void gmv_encode_checksum(gmv_json_writer *writer, const gmv_checksum_request *request,
                         const gmv_checksum *checksum)
{
    const bool is_tree = request->algorithm != GMV_CHECKSUM_CRC32C;
    gmv_json_open_object(writer);
    gmv_json_member_word(writer, "algorithm", gmv_checksum_algorithm_names[request->algorithm]);
    gmv_json_member_uint64(writer, "nbytes", checksum->nbytes);
    if (is_tree)
        gmv_json_member_int64(writer, "block_nbytes", request->block_nbytes);
    else
        gmv_json_member_null(writer, "block_nbytes");
    gmv_json_put_key(writer, "value");
    inspect_put_hex(writer, checksum->value, is_tree ? 16 : 8);
    gmv_json_put_key(writer, "blocks");
    if (checksum->blocks) {
        gmv_json_open_array(writer);
        for (uint64_t i = 0; i < checksum->n_blocks; i++)
            inspect_put_hex(writer, checksum->blocks[i], 16);
        gmv_json_close_array(writer);
    } else {
        gmv_json_put_null(writer);
    }
    gmv_json_close_object(writer);
}

void gmv_encode_comparison(gmv_json_writer *writer, const gmv_comparison *comparison)
{
    gmv_json_open_object(writer);
    gmv_json_member_bool(writer, "equal", comparison->equal);
    gmv_json_member_int64(writer, "differing", comparison->differing);
    if (comparison->first_difference < 0)
        gmv_json_member_null(writer, "first_difference");
    else
        gmv_json_member_int64(writer, "first_difference", comparison->first_difference);
    if (comparison->has_differences && comparison->is_integer)
        gmv_json_member_uint64(writer, "max_absolute_difference", comparison->integer_difference);
    else
        inspect_member_double(writer, "max_absolute_difference", comparison->has_differences,
                              comparison->absolute_difference);
    inspect_member_double(writer, "max_relative_difference", comparison->has_differences,
                          comparison->relative_difference);
    gmv_json_close_object(writer);
}
