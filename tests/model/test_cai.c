/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Array interface payloads: every case of the vectors that is made of well-typed members is judged
 * as the vectors say. Those that only a JSON decoder can refuse are left to the decoder's tests.
 */
#include <criterion/criterion.h>

#include <gmv/model/cai.h>

#include "support/vectors.h"

#define CAI_JUDGED_MIN 240

/* What of the payload and the registered buffer came out. */
typedef struct cai_outcome {
    gmv_cai cai;
    gmv_extent extent;
    int64_t offset;
    bool has_mask;
    gmv_mask_kind mask_kind;
    int64_t mask_offset;
    int64_t mask_nbytes;
} cai_outcome;

static bool cai_build_integers(const json_t *array, int64_t *out, size_t n)
{
    if (!json_is_array(array) || json_array_size(array) != n || n > GMV_NDIM_MAX)
        return false;
    for (size_t i = 0; i < n; i++) {
        const json_t *item = json_array_get(array, i);
        if (!json_is_integer(item))
            return false;
        out[i] = json_integer_value(item);
    }
    return true;
}

static bool cai_build_layout(const json_t *payload, gmv_layout *out)
{
    const json_t *shape = json_object_get(payload, "shape");
    const json_t *strides = json_object_get(payload, "strides");
    size_t ndim = json_array_size(shape);
    out->ndim = (int32_t)ndim;
    out->has_strides = strides != NULL && !json_is_null(strides);
    return cai_build_integers(shape, out->shape, ndim) &&
           (!out->has_strides || cai_build_integers(strides, out->strides, ndim));
}

/* False: not for the model to judge, as a member is missing or of the wrong type or length. */
static bool cai_build(const json_t *payload, gmv_cai *out)
{
    *out = (gmv_cai){0};
    const json_t *data = json_object_get(payload, "data");
    const json_t *version = json_object_get(payload, "version");
    const json_t *stream = json_object_get(payload, "stream");
    out->has_stream = stream != NULL && !json_is_null(stream);
    if (!json_is_array(data) || json_array_size(data) != 2 || !json_is_integer(version) ||
        !json_is_integer(json_array_get(data, 0)) || !json_is_boolean(json_array_get(data, 1)) ||
        !json_is_string(json_object_get(payload, "typestr")) ||
        (out->has_stream && !json_is_integer(stream)) || !cai_build_layout(payload, &out->layout))
        return false;
    out->address = json_integer_value(json_array_get(data, 0));
    out->readonly = json_is_true(json_array_get(data, 1));
    out->version = json_integer_value(version);
    out->stream = json_integer_value(stream);
    return true;
}

static gmv_status cai_judge_type(const json_t *payload, bool is_mask, gmv_cai *cai, gmv_error *err)
{
    const json_t *typestr = json_object_get(payload, "typestr");
    cai->is_bit_field = is_mask && strcmp(json_string_value(typestr), "|t1") == 0;
    cai->dtype = GMV_DTYPE_U1;
    if (cai->is_bit_field)
        return GMV_OK;
    return gmv_dtype_parse(json_string_value(typestr), json_string_length(typestr), &cai->dtype,
                           err);
}

/* Finds the offset in the one buffer that is registered. */
static gmv_status cai_judge_address(const gmv_cai *cai, const gmv_extent *extent,
                                    const json_t *buffer, int64_t *out_offset, gmv_error *err)
{
    int64_t begin = vectors_int(buffer, "ptr");
    int64_t nbytes = vectors_int(buffer, "nbytes");
    *out_offset = 0;
    if (cai->address == 0)
        return GMV_OK;
    int64_t last = extent->size == 0 ? begin + nbytes : begin + nbytes - 1;
    if (cai->address < begin || cai->address > last)
        return gmv_fail(err, GMV_ERR_POINTER_NOT_REGISTERED, "/data/0", "no such buffer");
    *out_offset = cai->address - begin;
    GMV_TRY(gmv_extent_check_inside(extent, *out_offset, nbytes, err));
    return gmv_layout_check_alignment(&cai->layout, gmv_dtype_describe(cai->dtype)->alignment,
                                      (uint64_t)cai->address, "/data/0", err);
}

/* A mask of single bits touches an eighth of what its shape says. */
static gmv_layout cai_byte_layout(const gmv_cai *cai)
{
    return cai->is_bit_field ? gmv_layout_flat((cai->layout.shape[0] + 7) / 8) : cai->layout;
}

static gmv_status cai_judge_mask(const json_t *payload, const json_t *buffer, cai_outcome *outcome,
                                 gmv_error *err)
{
    gmv_cai mask;
    gmv_extent extent = {0};
    cr_assert(cai_build(payload, &mask));
    GMV_TRY(cai_judge_type(payload, true, &mask, err));
    GMV_TRY(gmv_cai_check(&mask, false, err));
    GMV_TRY(gmv_cai_classify_mask(&outcome->cai, &mask, GMV_MASK_NONE, &outcome->mask_kind, err));
    gmv_layout layout = cai_byte_layout(&mask);
    GMV_TRY(gmv_layout_measure(&layout, 1, &extent, err));
    outcome->has_mask = true;
    outcome->mask_nbytes = extent.nbytes;
    return cai_judge_address(&mask, &extent, buffer, &outcome->mask_offset, err);
}

static gmv_status cai_judge(const json_t *payload, const json_t *buffer, cai_outcome *outcome,
                            gmv_error *err)
{
    const json_t *mask = json_object_get(payload, "mask");
    gmv_cai *cai = &outcome->cai;
    GMV_TRY(cai_judge_type(payload, false, cai, err));
    GMV_TRY(gmv_cai_check(cai, false, err));
    GMV_TRY(gmv_layout_measure(&cai->layout, gmv_dtype_describe(cai->dtype)->itemsize,
                               &outcome->extent, err));
    GMV_TRY(cai_judge_address(cai, &outcome->extent, buffer, &outcome->offset, err));
    if (mask == NULL || json_is_null(mask))
        return GMV_OK;
    return cai_judge_mask(mask, buffer, outcome, err);
}

static void cai_expect_type(const json_t *expect, const gmv_dtype_info *info, const char *name)
{
    cr_expect_eq(info->itemsize, vectors_int(expect, "itemsize"), "%s", name);
    const json_t *type = json_object_get(expect, "cudf_type");
    if (json_is_null(type)) {
        cr_expect_eq(info->cudf_type, GMV_CUDF_NONE, "%s", name);
        return;
    }
    cr_expect_eq(info->cudf_type, vectors_int(expect, "cudf_type_id"), "%s", name);
    cr_expect_str_eq(gmv_cudf_type_name(info->cudf_type), json_string_value(type), "%s", name);
}

static void cai_expect_accepted(const json_t *expect, const cai_outcome *outcome, const char *name)
{
    const gmv_extent *extent = &outcome->extent;
    const gmv_layout *layout = &outcome->cai.layout;
    const json_t *length = json_object_get(expect, "len");
    cai_expect_type(expect, gmv_dtype_describe(outcome->cai.dtype), name);
    cr_expect_eq(extent->nbytes, vectors_int(expect, "nbytes"), "%s", name);
    cr_expect_eq(extent->size, vectors_int(expect, "size"), "%s", name);
    cr_expect_eq(layout->ndim, vectors_int(expect, "ndim"), "%s", name);
    cr_expect_eq(json_is_null(length), layout->ndim == 0, "%s", name);
    if (layout->ndim > 0)
        cr_expect_eq(layout->shape[0], json_integer_value(length), "%s", name);
    cr_expect_eq(extent->contiguous, json_is_true(json_object_get(expect, "contiguous")), "%s",
                 name);
    cr_expect_eq(outcome->cai.readonly, json_is_true(json_object_get(expect, "readonly")), "%s",
                 name);
    cr_expect_eq(outcome->offset, vectors_int(expect, "offset"), "%s", name);
    cr_expect_eq(outcome->offset + extent->low, vectors_int(expect, "min_offset"), "%s", name);
    cr_expect_eq(outcome->offset + extent->high, vectors_int(expect, "max_offset"), "%s", name);
    const json_t *mask = json_object_get(expect, "mask");
    cr_expect_eq(outcome->has_mask, json_is_object(mask), "%s", name);
    if (json_is_object(mask)) {
        cr_expect_str_eq(gmv_mask_kind_name(outcome->mask_kind), vectors_text(mask, "kind"));
        cr_expect_eq(outcome->mask_offset, vectors_int(mask, "offset"), "%s", name);
        cr_expect_eq(outcome->mask_nbytes, vectors_int(mask, "nbytes"), "%s", name);
    }
}

/* The vectors' error kinds, for the statuses that the model or the look-up above can give. */
static const char *cai_error_kind(gmv_status status, const gmv_error *err)
{
    if (status == GMV_ERR_OUT_OF_BOUNDS || status == GMV_ERR_POINTER_NOT_REGISTERED)
        return "range";
    if (status == GMV_ERR_DTYPE_UNSUPPORTED || strcmp(err->pointer, "/version") == 0)
        return "unsupported";
    return strcmp(err->pointer, "/shape") == 0 ? "range" : "value";
}

static void cai_expect_refused(const json_t *expect, gmv_status status, const gmv_error *err,
                               const char *name)
{
    cr_expect_str_eq(gmv_status_code(status), vectors_text(expect, "code"), "%s: %s", name,
                     err->message);
    cr_expect_not_null(strchr(err->pointer, '/'), "%s: %s", name, err->message);
    /* A version below 0 and a foreign stream share their pointer with another kind. */
    if (strcmp(name, "bad-version-negative") == 0 || strcmp(err->pointer, "/stream") == 0)
        return;
    cr_expect_str_eq(cai_error_kind(status, err), vectors_text(expect, "error_kind"), "%s: %s",
                     name, err->message);
}

/* Whether refusing it is a decoder's work alone. */
static bool cai_is_for_the_decoder(const json_t *row, cai_outcome *outcome)
{
    const json_t *payload = json_object_get(row, "payload");
    const json_t *mask = json_object_get(payload, "mask");
    const char *name = vectors_text(row, "name");
    gmv_cai mask_cai;
    if (json_object_get(row, "payload_text") != NULL || !json_is_object(payload))
        return true;
    if (strncmp(name, "bad-descr", 9) == 0 || strcmp(name, "bad-mask-of-mask") == 0)
        return true;
    if (mask != NULL && !json_is_null(mask) && !cai_build(mask, &mask_cai))
        return true;
    return !cai_build(payload, &outcome->cai);
}

Test(cai, every_well_typed_case_of_the_vectors_is_judged_as_they_say)
{
    json_t *rows = vectors_load("cai.json");
    size_t index;
    size_t judged = 0;
    json_t *row;
    json_array_foreach (rows, index, row) {
        const char *name = vectors_text(row, "name");
        const json_t *expect = json_object_get(row, "expect");
        bool accepted = json_is_true(json_object_get(expect, "ok"));
        cai_outcome outcome = {0};
        if (cai_is_for_the_decoder(row, &outcome)) {
            cr_expect(!accepted || json_object_get(row, "payload_text") != NULL, "%s", name);
            continue;
        }
        gmv_error err;
        gmv_error_init(&err);
        gmv_status status = cai_judge(json_object_get(row, "payload"),
                                      json_object_get(row, "buffer"), &outcome, &err);
        judged++;
        cr_expect_eq(status == GMV_OK, accepted, "%s: %s", name, err.message);
        if (status == GMV_OK && accepted)
            cai_expect_accepted(expect, &outcome, name);
        if (status != GMV_OK && !accepted)
            cai_expect_refused(expect, status, &err, name);
    }
    cr_expect_geq(judged, CAI_JUDGED_MIN, "only %zu cases were judged", judged);
    json_decref(rows);
}

static gmv_cai cai_plain(gmv_dtype dtype, int64_t length)
{
    return (gmv_cai){
        .address = 64, .version = 3, .dtype = dtype, .layout = gmv_layout_flat(length)};
}

static void cai_expect_check(const gmv_cai *cai, bool has_event, gmv_status status,
                             const char *pointer)
{
    gmv_error err;
    gmv_error_init(&err);
    cr_expect_eq(gmv_cai_check(cai, has_event, &err), status, "%s", err.message);
    cr_expect_str_eq(err.pointer, pointer);
}

Test(cai, an_event_makes_a_foreign_stream_good)
{
    gmv_cai cai = cai_plain(GMV_DTYPE_F4, 10);
    cai.has_stream = true;
    cai.stream = 94117520;
    cai_expect_check(&cai, false, GMV_ERR_VALUE, "/stream");
    cai_expect_check(&cai, true, GMV_OK, "");
    cai.stream = 0;
    cai_expect_check(&cai, true, GMV_ERR_VALUE, "/stream");
    cai.stream = INT64_MIN;
    cai_expect_check(&cai, true, GMV_ERR_VALUE, "/stream");
    cai.has_stream = false;
    cai_expect_check(&cai, false, GMV_OK, "");
}

Test(cai, the_first_wrong_member_is_the_one_that_is_named)
{
    gmv_cai cai = cai_plain(GMV_DTYPE_F4, -3);
    cai.has_stream = true;
    cai.version = 9;
    cai.address = -1;
    cai_expect_check(&cai, false, GMV_ERR_VALUE, "/version");
    cai.version = 0;
    cai_expect_check(&cai, false, GMV_ERR_VALUE, "/data/0");
    cai.address = 0;
    cai_expect_check(&cai, false, GMV_ERR_VALUE, "/shape/0");
    cai.layout.shape[0] = 3;
    cai_expect_check(&cai, false, GMV_ERR_VALUE, "/stream");
    cai.has_stream = false;
    cai_expect_check(&cai, false, GMV_ERR_VALUE, "/data/0");
    cai.layout.shape[0] = 0;
    cai_expect_check(&cai, false, GMV_OK, "");
}

typedef struct mask_row {
    gmv_dtype dtype;
    bool is_bit_field;
    int64_t length; /* of the mask; the array has 64 rows */
    int64_t stride; /* 0: none given */
    gmv_mask_kind requested;
    gmv_status status;
    gmv_mask_kind kind;
    const char *pointer;
} mask_row;

static const mask_row mask_rows[] = {
    {GMV_DTYPE_B1, false, 64, 0, GMV_MASK_NONE, GMV_OK, GMV_MASK_BOOLS, ""},
    {GMV_DTYPE_B1, false, 64, 2, GMV_MASK_BOOLS, GMV_OK, GMV_MASK_BOOLS, ""},
    {GMV_DTYPE_B1, false, 63, 0, GMV_MASK_NONE, GMV_ERR_VALUE, GMV_MASK_NONE, "/mask/shape"},
    {GMV_DTYPE_B1, false, 64, 0, GMV_MASK_BITS, GMV_ERR_VALUE, GMV_MASK_NONE, "/mask_kind"},
    {GMV_DTYPE_B1, false, 64, 0, GMV_MASK_BYTES, GMV_ERR_VALUE, GMV_MASK_NONE, "/mask_kind"},
    {GMV_DTYPE_U1, false, 64, 0, GMV_MASK_NONE, GMV_OK, GMV_MASK_BYTES, ""},
    {GMV_DTYPE_U1, false, 64, 0, GMV_MASK_BITS, GMV_OK, GMV_MASK_BITS, ""},
    {GMV_DTYPE_U1, false, 64, 0, GMV_MASK_BYTES, GMV_OK, GMV_MASK_BYTES, ""},
    {GMV_DTYPE_U1, false, 64, 0, GMV_MASK_BOOLS, GMV_ERR_VALUE, GMV_MASK_NONE, "/mask_kind"},
    {GMV_DTYPE_U1, false, 8, 0, GMV_MASK_NONE, GMV_OK, GMV_MASK_BITS, ""},
    {GMV_DTYPE_U1, false, 8, 1, GMV_MASK_BITS, GMV_OK, GMV_MASK_BITS, ""},
    {GMV_DTYPE_U1, false, 8, 2, GMV_MASK_NONE, GMV_ERR_VALUE, GMV_MASK_NONE, "/mask/strides"},
    {GMV_DTYPE_U1, false, 8, 0, GMV_MASK_BYTES, GMV_ERR_VALUE, GMV_MASK_NONE, "/mask/shape"},
    {GMV_DTYPE_U1, false, 7, 0, GMV_MASK_NONE, GMV_ERR_VALUE, GMV_MASK_NONE, "/mask/shape"},
    {GMV_DTYPE_U1, false, 7, 0, GMV_MASK_BITS, GMV_ERR_VALUE, GMV_MASK_NONE, "/mask/shape"},
    {GMV_DTYPE_U1, false, 4096, 0, GMV_MASK_NONE, GMV_OK, GMV_MASK_BITS, ""},
    {GMV_DTYPE_U1, true, 64, 0, GMV_MASK_NONE, GMV_OK, GMV_MASK_BITS, ""},
    {GMV_DTYPE_U1, true, 64, 0, GMV_MASK_BITS, GMV_OK, GMV_MASK_BITS, ""},
    {GMV_DTYPE_U1, true, 64, 0, GMV_MASK_BYTES, GMV_ERR_VALUE, GMV_MASK_NONE, "/mask_kind"},
    {GMV_DTYPE_U1, true, 63, 0, GMV_MASK_NONE, GMV_ERR_VALUE, GMV_MASK_NONE, "/mask/shape"},
    {GMV_DTYPE_F4, false, 64, 0, GMV_MASK_NONE, GMV_ERR_DTYPE_UNSUPPORTED, GMV_MASK_NONE,
     "/mask/typestr"},
    {GMV_DTYPE_I1, false, 64, 0, GMV_MASK_BITS, GMV_ERR_DTYPE_UNSUPPORTED, GMV_MASK_NONE,
     "/mask/typestr"},
};

Test(cai, a_mask_means_what_its_type_shape_and_the_request_say)
{
    for (size_t i = 0; i < sizeof mask_rows / sizeof mask_rows[0]; i++) {
        const mask_row *row = &mask_rows[i];
        gmv_cai cai = cai_plain(GMV_DTYPE_F4, 64);
        gmv_cai mask = cai_plain(row->dtype, row->length);
        mask.is_bit_field = row->is_bit_field;
        mask.layout.has_strides = row->stride != 0;
        mask.layout.strides[0] = row->stride;
        gmv_mask_kind kind = GMV_MASK_NONE;
        gmv_error err;
        gmv_error_init(&err);
        cr_expect_eq(gmv_cai_classify_mask(&cai, &mask, row->requested, &kind, &err), row->status,
                     "row %zu: %s", i, err.message);
        cr_expect_eq(kind, row->kind, "row %zu", i);
        cr_expect_str_eq(err.pointer, row->pointer, "row %zu", i);
    }
}

Test(cai, bits_are_for_one_dimension_only)
{
    gmv_cai cai = cai_plain(GMV_DTYPE_F4, 8);
    gmv_cai mask = cai_plain(GMV_DTYPE_U1, 64);
    gmv_mask_kind kind = GMV_MASK_NONE;
    cai.layout.ndim = 2;
    cai.layout.shape[1] = 8;
    cr_expect_eq(gmv_cai_classify_mask(&cai, &mask, GMV_MASK_NONE, &kind, NULL), GMV_ERR_VALUE);
    mask.is_bit_field = true;
    cr_expect_eq(gmv_cai_classify_mask(&cai, &mask, GMV_MASK_NONE, &kind, NULL), GMV_ERR_VALUE);
    cai.layout.ndim = 0;
    mask.layout.ndim = 0;
    cr_expect_eq(gmv_cai_classify_mask(&cai, &mask, GMV_MASK_NONE, &kind, NULL), GMV_ERR_VALUE);
    mask.is_bit_field = false;
    mask.dtype = GMV_DTYPE_B1;
    cr_expect_eq(gmv_cai_classify_mask(&cai, &mask, GMV_MASK_NONE, &kind, NULL), GMV_OK);
    cr_expect_eq(kind, GMV_MASK_BOOLS);
}

Test(cai, kinds_of_masks_have_names)
{
    cr_expect_str_eq(gmv_mask_kind_name(GMV_MASK_BOOLS), "bools");
    cr_expect_str_eq(gmv_mask_kind_name(GMV_MASK_BYTES), "bytes");
    cr_expect_str_eq(gmv_mask_kind_name(GMV_MASK_BITS), "bits");
    cr_expect_null(gmv_mask_kind_name(GMV_MASK_NONE));
    cr_expect_null(gmv_mask_kind_name((gmv_mask_kind)99));
}
