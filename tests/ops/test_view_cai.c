/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The payloads of tests/vectors/cai.json through gmv_view_create: each against a buffer that its
 * exporter has at the vector's address. Vectors whose JSON is at fault belong to the reader's
 * tests.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <criterion/criterion.h>
#include <jansson.h>

#include "ops/fixture.h"

static fixture f;

typedef enum outcome { READ_OK, READ_FAILED, READ_NOT_FOR_US } outcome;

static bool read_int64(const json_t *value, int64_t *out)
{
    if (!json_is_integer(value))
        return false;
    *out = json_integer_value(value);
    return true;
}

static bool read_shape(const json_t *shape, const json_t *strides, gmv_layout *out)
{
    size_t ndim = json_array_size(shape);
    bool strided = json_is_array(strides);
    if (!json_is_array(shape) || ndim > GMV_NDIM_MAX || (strides && !strided))
        return false;
    if (strided && json_array_size(strides) != ndim)
        return false;
    out->ndim = (int32_t)ndim;
    out->has_strides = strided;
    for (size_t i = 0; i < ndim; i++) {
        if (!read_int64(json_array_get(shape, i), &out->shape[i]))
            return false;
        if (strided && !read_int64(json_array_get(strides, i), &out->strides[i]))
            return false;
    }
    return true;
}

static json_t *member(const json_t *object, const char *name)
{
    json_t *value = json_object_get(object, name);
    return json_is_null(value) ? NULL : value;
}

/* READ_FAILED: the type string is at fault, and f.err says how. */
static outcome read_payload(const json_t *payload, gmv_cai *out)
{
    const json_t *data = member(payload, "data");
    const json_t *typestr = member(payload, "typestr");
    const json_t *stream = member(payload, "stream");
    *out = (gmv_cai){.dtype = GMV_DTYPE_U1};
    if (!json_is_array(data) || json_array_size(data) != 2 || !json_is_string(typestr) ||
        member(payload, "descr") ||
        (member(payload, "mask") && !json_is_object(member(payload, "mask"))))
        return READ_NOT_FOR_US;
    if (!read_int64(json_array_get(data, 0), &out->address) ||
        !json_is_boolean(json_array_get(data, 1)) ||
        !read_int64(member(payload, "version"), &out->version) ||
        (stream && !read_int64(stream, &out->stream)) ||
        !read_shape(member(payload, "shape"), member(payload, "strides"), &out->layout))
        return READ_NOT_FOR_US;
    out->has_stream = stream != NULL;
    out->readonly = json_is_true(json_array_get(data, 1));
    out->is_bit_field = strcmp(json_string_value(typestr), "|t1") == 0;
    if (out->is_bit_field)
        return READ_OK;
    return gmv_dtype_parse(json_string_value(typestr), json_string_length(typestr), &out->dtype,
                           &f.err) == GMV_OK
               ? READ_OK
               : READ_FAILED;
}

static int64_t number(const json_t *object, const char *name)
{
    return json_integer_value(json_object_get(object, name));
}

static void expect_view(const char *name, const gmv_view *view, const json_t *want)
{
    gmv_layout layout;
    gmv_extent extent;
    int64_t offset = (int64_t)gmv_view_offset(view);
    const gmv_dtype_info *dtype = gmv_dtype_describe(view->dtype);
    const json_t *length = json_object_get(want, "len");
    const json_t *mask = json_object_get(want, "mask");
    const json_t *type = json_object_get(want, "cudf_type_id");
    gmv_view_layout(view, &layout);
    cr_assert_eq(gmv_layout_measure(&layout, dtype->itemsize, &extent, NULL), GMV_OK);
    cr_assert_eq(view->nbytes, number(want, "nbytes"), "%s", name);
    cr_assert_eq(view->size, number(want, "size"), "%s", name);
    cr_assert_eq(view->ndim, number(want, "ndim"), "%s", name);
    cr_assert_eq(dtype->itemsize, number(want, "itemsize"), "%s", name);
    cr_assert_eq(dtype->cudf_type, json_is_null(type) ? GMV_CUDF_NONE : json_integer_value(type),
                 "%s", name);
    cr_assert_eq(gmv_view_length(view), json_is_null(length) ? -1 : json_integer_value(length),
                 "%s", name);
    cr_assert_eq(view->contiguous, json_is_true(json_object_get(want, "contiguous")), "%s", name);
    cr_assert_eq(view->readonly, json_is_true(json_object_get(want, "readonly")), "%s", name);
    if (view->ptr != 0) {
        cr_assert_eq(offset, number(want, "offset"), "%s", name);
        cr_assert_eq(offset + extent.low, number(want, "min_offset"), "%s", name);
        cr_assert_eq(offset + extent.high, number(want, "max_offset"), "%s", name);
    }
    cr_assert_eq(view->mask != NULL, mask != NULL, "%s", name);
    if (mask) {
        cr_assert_eq((int64_t)gmv_view_offset(view->mask), number(mask, "offset"), "%s", name);
        cr_assert_eq(view->mask->nbytes, number(mask, "nbytes"), "%s", name);
        cr_assert_str_eq(gmv_mask_kind_name(view->mask_kind),
                         json_string_value(json_object_get(mask, "kind")), "%s", name);
    }
}

#define SPARSE_NBYTES ((int64_t)1 << 30)

/* A segment takes no memory until it is written to, so it may be larger than the machine. */
static void import_sparse(uint64_t base, uint64_t nbytes)
{
    char name[64];
    gmv_buffer *buffer = NULL;
    snprintf(name, sizeof name, "/gmv-test-cai-%ld", (long)getpid());
    int descriptor = shm_open(name, O_CREAT | O_EXCL | O_RDWR, 0600);
    cr_assert_geq(descriptor, 0);
    cr_assert_eq(ftruncate(descriptor, (off_t)nbytes), 0);
    gmv_import_shm request = {.name = name, .has_base = true, .base = (int64_t)base};
    gmv_status status = gmv_buffer_import_shm(&f.operation, &request, NULL, &buffer, &f.err);
    close(descriptor);
    shm_unlink(name);
    cr_assert_eq(status, GMV_OK, "%s", f.err.message);
}

/* What of the buffer has to be named: one of 0 bytes is found by no address. */
static gmv_buffer *register_buffer(uint64_t base, uint64_t nbytes)
{
    if (nbytes > (uint64_t)SPARSE_NBYTES)
        import_sparse(base, nbytes);
    else if (nbytes > 0)
        fixture_exported_buffer(&f, base, nbytes);
    return nbytes == 0 ? fixture_exported_buffer(&f, base, nbytes) : NULL;
}

/* Whether the vector was for us. */
static bool run_vector(const json_t *vector)
{
    const char *name = json_string_value(json_object_get(vector, "name"));
    const json_t *payload = json_object_get(vector, "payload");
    const json_t *want = json_object_get(vector, "expect");
    const json_t *where = json_object_get(vector, "buffer");
    const json_t *mask_payload = member(payload, "mask");
    bool ok = json_is_true(json_object_get(want, "ok"));
    gmv_cai cai, mask;
    gmv_view *view = NULL;
    if (json_object_get(vector, "payload_text") || !json_is_object(payload))
        return false;
    outcome got = read_payload(payload, &cai);
    if (got == READ_OK && mask_payload)
        got = member(mask_payload, "mask") ? READ_NOT_FOR_US : read_payload(mask_payload, &mask);
    if (got == READ_NOT_FOR_US) {
        cr_assert(!ok || member(payload, "descr"), "%s was not understood", name);
        gmv_error_init(&f.err);
        return false;
    }
    if (number(where, "nbytes") > SPARSE_NBYTES && !fixture_is_host(&f))
        return false; /* no device has so much, and POSIX shared memory is the host backend's */
    gmv_status status = f.err.status;
    if (got == READ_OK) {
        gmv_buffer *named =
            register_buffer((uint64_t)number(where, "ptr"), (uint64_t)number(where, "nbytes"));
        gmv_view_request request = {
            .cai = &cai, .mask = mask_payload ? &mask : NULL, .buffer = named};
        status = gmv_view_create(&f.operation, &request, NULL, &view, &f.err);
    }
    if (ok) {
        cr_assert_eq(status, GMV_OK, "%s: %s", name, f.err.message);
        expect_view(name, view, want);
    } else {
        cr_assert_str_eq(gmv_status_code(status), json_string_value(json_object_get(want, "code")),
                         "%s: %s", name, f.err.message);
        cr_assert(f.err.has_pointer, "%s", name);
    }
    return true;
}

Test(view_cai, payloads_of_every_producer_are_read_as_the_vectors_say)
{
    size_t nbytes;
    char *text = fixture_vectors("cai.json", &nbytes);
    json_t *vectors = json_loadb(text, nbytes, 0, NULL);
    cr_assert_not_null(vectors);
    size_t run = 0;
    for (size_t i = 0; i < json_array_size(vectors); i++) {
        fixture_open(&f);
        run += run_vector(json_array_get(vectors, i));
        fixture_close(&f);
    }
    cr_assert_geq(run, 220, "only %zu of %zu vectors were run", run, json_array_size(vectors));
    json_decref(vectors);
    free(text);
}
