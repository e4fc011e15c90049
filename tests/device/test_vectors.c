/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The vectors of tests/vectors/bitmask.json, made with cuDF's own code, on every device. Bits that
 * cuDF leaves undefined, and those past the last row, must be 0 here, but for masks that are made
 * all valid, padding included. Vectors of refused arguments are for the floors above.
 */
#include "device/device_support.h"

#include <jansson.h>

static size_t round_up_64(size_t nbytes)
{
    return (nbytes + 63) / 64 * 64;
}

/* ---- reading vectors ------------------------------------------------------------------------- */

static json_t *load_vectors(void)
{
    char path[4096];
    const char *root = getenv("GMV_SRCDIR");
    json_error_t error;
    snprintf(path, sizeof path, "%s/tests/vectors/bitmask.json", root ? root : ".");
    json_t *vectors = json_load_file(path, 0, &error);
    cr_assert(json_is_array(vectors), "%s: %s", path, error.text);
    return vectors;
}

static int64_t number_of(const json_t *vector, const char *key)
{
    const json_t *value = json_object_get(vector, key);
    cr_assert(json_is_integer(value), "no number %s", key);
    return json_integer_value(value);
}

/* Bytes in memory of the device; no memory for null and "". */
static gmv_memory *memory_of(world *w, const json_t *vector, const char *key)
{
    const char *text = json_string_value(json_object_get(vector, key));
    size_t nbytes = text ? strlen(text) / 2 : 0;
    if (nbytes == 0)
        return NULL;
    uint8_t *bytes = gmv_malloc(nbytes);
    for (size_t i = 0; i < nbytes; i++) {
        unsigned value;
        cr_assert_eq(sscanf(text + 2 * i, "%2x", &value), 1);
        bytes[i] = (uint8_t)value;
    }
    gmv_memory *memory = make_memory(w, GMV_MEMORY_ORDINARY, GMV_CONTENTS_ZEROED, nbytes);
    must(w, gmv_copy_in(w->stream, memory->address, bytes, nbytes, &w->err));
    must(w, gmv_stream_finish(w->stream, &w->err));
    gmv_free(bytes);
    return memory;
}

/* What memory of the device holds; freed by gmv_free. NULL for none. */
static uint8_t *read_memory(world *w, const gmv_memory *memory)
{
    if (!memory)
        return NULL;
    uint8_t *bytes = gmv_malloc(memory->nbytes + 1);
    must(w, gmv_copy_out(w->stream, bytes, memory->address, memory->nbytes, &w->err));
    must(w, gmv_stream_finish(w->stream, &w->err));
    return bytes;
}

static bool memories_are_equal(world *w, const gmv_memory *a, const gmv_memory *b)
{
    uint8_t *bytes_a = read_memory(w, a), *bytes_b = read_memory(w, b);
    bool equal = a->nbytes == b->nbytes && memcmp(bytes_a, bytes_b, a->nbytes) == 0;
    gmv_free(bytes_a);
    gmv_free(bytes_b);
    return equal;
}

static uint64_t address_in(const gmv_memory *memory)
{
    return memory ? memory->address : 0;
}

/* A result of n bits, filled with what must not stay. */
static gmv_memory *result_of(world *w, int64_t n)
{
    size_t nbytes = round_up_64((size_t)(n + 7) / 8);
    gmv_memory *memory = make_memory(w, GMV_MEMORY_ORDINARY, GMV_CONTENTS_ZEROED, nbytes);
    must(w, gmv_fill(w->stream, memory->address, 0xa5, nbytes, &w->err));
    return memory;
}

/* The first n bits of a result are the vector's; all after them are 0. */
static void check_bits(world *w, const json_t *vector, const char *name, const gmv_memory *result,
                       int64_t n)
{
    gmv_memory *expected = memory_of(w, vector, "expected_hex");
    uint8_t *want = read_memory(w, expected), *bytes = read_memory(w, result);
    for (int64_t i = 0; i < (int64_t)result->nbytes * 8; i++) {
        /* cuDF gives no mask at all where every row is valid. */
        bool one = i < n && (!want || (want[i / 8] >> i % 8 & 1));
        cr_assert_eq(bytes[i / 8] >> i % 8 & 1, one, "%s: %s: bit %d of %d", w->row->name, name,
                     (int)i, (int)n);
    }
    if (expected)
        cr_assert_eq(expected->nbytes, result->nbytes, "%s: size", name);
    gmv_free(bytes);
    gmv_free(want);
    gmv_memory_free(expected);
}

/* ---- what each vector asks for --------------------------------------------------------------- */

static void run_valid_if(world *w, const json_t *vector, const char *name, gmv_predicate predicate,
                         int64_t itemsize)
{
    int64_t n = number_of(vector, "size"), offset = number_of(vector, "offset"), null_count = -1;
    gmv_memory *data = memory_of(w, vector, "data_hex"), *mask = memory_of(w, vector, "mask_hex");
    gmv_memory *result = result_of(w, n);
    must(w, gmv_kernel_valid_if(
                w->stream,
                &(gmv_valid_if){.predicate = predicate,
                                .input = address_in(data) + (uint64_t)(offset * itemsize),
                                .validity = {address_in(mask), offset},
                                .n = n,
                                .output = result->address,
                                .output_nbytes = result->nbytes,
                                .out_null_count = &null_count},
                &w->err));
    check_bits(w, vector, name, result, n);
    cr_assert_eq(null_count, number_of(vector, "null_count"), "%s", name);
    gmv_memory_free(data);
    gmv_memory_free(mask);
    gmv_memory_free(result);
}

static void run_bools_to_mask(world *w, const json_t *vector, const char *name)
{
    run_valid_if(w, vector, name, GMV_PREDICATE_NONZERO_BYTE, 1);
}

static void run_nans_to_nulls(world *w, const json_t *vector, const char *name)
{
    const char *type = json_string_value(json_object_get(vector, "type"));
    if (strcmp(type, "FLOAT32") == 0)
        run_valid_if(w, vector, name, GMV_PREDICATE_NOT_NAN_F4, 4);
    else
        run_valid_if(w, vector, name, GMV_PREDICATE_NOT_NAN_F8, 8);
}

static void run_mask_to_bools(world *w, const json_t *vector, const char *name)
{
    int64_t begin = number_of(vector, "begin"), n = number_of(vector, "end") - begin;
    gmv_memory *mask = memory_of(w, vector, "mask_hex");
    gmv_memory *expected = memory_of(w, vector, "expected_hex");
    gmv_memory *result = make_memory(w, GMV_MEMORY_ORDINARY, GMV_CONTENTS_ZEROED, (uint64_t)n);
    must(w, gmv_kernel_bits_to_bools(w->stream,
                                     &(gmv_bits_to_bools){.bits = {address_in(mask), begin},
                                                          .n = n,
                                                          .output = result->address},
                                     &w->err));
    must(w, gmv_stream_finish(w->stream, &w->err));
    cr_assert_eq(expected ? (int64_t)expected->nbytes : 0, n, "%s", name);
    if (expected)
        cr_assert(memories_are_equal(w, result, expected), "%s: %s", w->row->name, name);
    gmv_memory_free(mask);
    gmv_memory_free(expected);
    gmv_memory_free(result);
}

static void copy_and_check(world *w, const json_t *vector, const char *name, int64_t begin,
                           int64_t n)
{
    gmv_memory *mask = memory_of(w, vector, "mask_hex"), *result = result_of(w, n);
    int64_t set_count = -1;
    must(w, gmv_kernel_copy_bits(w->stream,
                                 &(gmv_copy_bits){.bits = {address_in(mask), begin},
                                                  .n = n,
                                                  .output = result->address,
                                                  .output_nbytes = result->nbytes,
                                                  .out_set_count = &set_count},
                                 &w->err));
    check_bits(w, vector, name, result, n);
    cr_assert_eq(n - set_count, number_of(vector, "null_count"), "%s", name);
    gmv_memory_free(mask);
    gmv_memory_free(result);
}

static void run_copy_bitmask(world *w, const json_t *vector, const char *name)
{
    int64_t begin = number_of(vector, "begin");
    copy_and_check(w, vector, name, begin, number_of(vector, "end") - begin);
}

static void run_copy_bitmask_column(world *w, const json_t *vector, const char *name)
{
    copy_and_check(w, vector, name, number_of(vector, "offset"), number_of(vector, "size"));
}

static void run_combine(world *w, const json_t *vector, const char *name,
                        gmv_bits_operation operation)
{
    const json_t *columns = json_object_get(vector, "columns");
    int64_t n = number_of(vector, "size"), set_count = -1;
    size_t n_inputs = json_array_size(columns);
    gmv_bits inputs[16];
    gmv_memory *masks[16], *result;
    cr_assert(n_inputs <= 16);
    if (n_inputs == 0)
        return;
    for (size_t i = 0; i < n_inputs; i++) {
        const json_t *column = json_array_get(columns, i);
        masks[i] = memory_of(w, column, "mask_hex");
        inputs[i] = (gmv_bits){address_in(masks[i]), number_of(column, "offset")};
    }
    result = result_of(w, n);
    must(w, gmv_kernel_combine_bits(w->stream,
                                    &(gmv_combine_bits){.operation = operation,
                                                        .inputs = inputs,
                                                        .n_inputs = n_inputs,
                                                        .n = n,
                                                        .output = result->address,
                                                        .output_nbytes = result->nbytes,
                                                        .out_set_count = &set_count},
                                    &w->err));
    check_bits(w, vector, name, result, n);
    cr_assert_eq(n - set_count, number_of(vector, "null_count"), "%s", name);
    for (size_t i = 0; i < n_inputs; i++)
        gmv_memory_free(masks[i]);
    gmv_memory_free(result);
}

static void run_bitmask_and(world *w, const json_t *vector, const char *name)
{
    run_combine(w, vector, name, GMV_BITS_AND);
}

static void run_bitmask_or(world *w, const json_t *vector, const char *name)
{
    run_combine(w, vector, name, GMV_BITS_OR);
}

static void run_null_count(world *w, const json_t *vector, const char *name)
{
    gmv_bit_range range = {number_of(vector, "start"), number_of(vector, "stop")};
    gmv_memory *mask = memory_of(w, vector, "mask_hex");
    int64_t count = -1;
    must(w, gmv_kernel_count_bits(w->stream,
                                  &(gmv_count_bits){.address = address_in(mask),
                                                    .ranges = &range,
                                                    .n_ranges = 1,
                                                    .out_counts = &count},
                                  &w->err));
    must(w, gmv_stream_finish(w->stream, &w->err));
    cr_assert_eq(count, number_of(vector, "valid_count"), "%s: %s", w->row->name, name);
    cr_assert_eq(range.end - range.begin - count, number_of(vector, "null_count"), "%s", name);
    gmv_memory_free(mask);
}

static void run_segmented_count(world *w, const json_t *vector, const char *name)
{
    const json_t *indices = json_object_get(vector, "indices");
    const json_t *valid = json_object_get(vector, "valid_counts");
    size_t n = json_array_size(indices) / 2;
    gmv_bit_range ranges[64];
    int64_t counts[64];
    gmv_memory *mask = memory_of(w, vector, "mask_hex");
    cr_assert(n <= 64 && json_array_size(valid) == n);
    for (size_t i = 0; i < n; i++)
        ranges[i] = (gmv_bit_range){json_integer_value(json_array_get(indices, 2 * i)),
                                    json_integer_value(json_array_get(indices, 2 * i + 1))};
    must(w, gmv_kernel_count_bits(w->stream,
                                  &(gmv_count_bits){.address = address_in(mask),
                                                    .ranges = ranges,
                                                    .n_ranges = n,
                                                    .out_counts = counts},
                                  &w->err));
    must(w, gmv_stream_finish(w->stream, &w->err));
    for (size_t i = 0; i < n; i++)
        cr_assert_eq(counts[i], json_integer_value(json_array_get(valid, i)), "%s: %s: %d",
                     w->row->name, name, (int)i);
    gmv_memory_free(mask);
}

static void run_index_of_first_set_bit(world *w, const json_t *vector, const char *name)
{
    gmv_memory *mask = memory_of(w, vector, "mask_hex");
    int64_t index = -1;
    must(w, gmv_kernel_find_bit(
                w->stream,
                &(gmv_find_bit){.address = address_in(mask),
                                .range = {number_of(vector, "start"), number_of(vector, "stop")},
                                .out_index = &index},
                &w->err));
    must(w, gmv_stream_finish(w->stream, &w->err));
    cr_assert_eq(index, number_of(vector, "expected"), "%s: %s", w->row->name, name);
    gmv_memory_free(mask);
}

/* Bytes that hold no bit of the range stay as they are. */
static void run_set_null_mask(world *w, const json_t *vector, const char *name)
{
    gmv_memory *mask = memory_of(w, vector, "mask_hex");
    gmv_memory *expected = memory_of(w, vector, "expected_hex");
    if (mask) {
        must(w, gmv_kernel_set_bits(
                    w->stream,
                    &(gmv_set_bits){.address = mask->address,
                                    .range = {number_of(vector, "begin"), number_of(vector, "end")},
                                    .valid = json_is_true(json_object_get(vector, "valid"))},
                    &w->err));
        must(w, gmv_stream_finish(w->stream, &w->err));
        cr_assert(memories_are_equal(w, mask, expected), "%s: %s", w->row->name, name);
    }
    gmv_memory_free(mask);
    gmv_memory_free(expected);
}

static void run_create_null_mask(world *w, const json_t *vector, const char *name)
{
    const char *fill = json_string_value(json_object_get(vector, "fill_byte_hex"));
    uint64_t nbytes = (uint64_t)number_of(vector, "bytes");
    if (!fill || nbytes == 0)
        return;
    uint8_t byte = (uint8_t)strtoul(fill, NULL, 16);
    gmv_memory *mask = make_memory(w, GMV_MEMORY_ORDINARY, GMV_CONTENTS_ZEROED, nbytes);
    must(w, gmv_fill(w->stream, mask->address, byte, nbytes, &w->err));
    must(w, gmv_stream_finish(w->stream, &w->err));
    uint8_t *bytes = read_memory(w, mask);
    cr_assert(bytes && bytes_are(bytes, byte, nbytes), "%s", name);
    gmv_free(bytes);
    gmv_memory_free(mask);
}

/* ---- all of them ----------------------------------------------------------------------------- */

static const struct {
    const char *name;
    void (*run)(world *w, const json_t *vector, const char *name);
    int least; /* so many vectors must be there */
} vector_ops[] = {
    {"bools_to_mask", run_bools_to_mask, 30},
    {"nans_to_nulls", run_nans_to_nulls, 36},
    {"mask_to_bools", run_mask_to_bools, 18},
    {"copy_bitmask", run_copy_bitmask, 48},
    {"copy_bitmask_column", run_copy_bitmask_column, 5},
    {"bitmask_and", run_bitmask_and, 19},
    {"bitmask_or", run_bitmask_or, 19},
    {"null_count", run_null_count, 46},
    {"segmented_count", run_segmented_count, 18},
    {"index_of_first_set_bit", run_index_of_first_set_bit, 29},
    {"set_null_mask", run_set_null_mask, 36},
    {"create_null_mask", run_create_null_mask, 24},
};

DEVICE_TEST(vectors, all_that_the_device_computes_agree)
{
    json_t *vectors = load_vectors();
    for (size_t op = 0; op < sizeof vector_ops / sizeof vector_ops[0]; op++) {
        int count = 0;
        for (size_t i = 0; i < json_array_size(vectors); i++) {
            const json_t *vector = json_array_get(vectors, i);
            const char *name = json_string_value(json_object_get(vector, "name"));
            if (strcmp(json_string_value(json_object_get(vector, "op")), vector_ops[op].name) ||
                json_object_get(vector, "error"))
                continue;
            vector_ops[op].run(w, vector, name ? name : vector_ops[op].name);
            count++;
        }
        cr_expect_geq(count, vector_ops[op].least, "%s: %d", vector_ops[op].name, count);
    }
    json_decref(vectors);
}
