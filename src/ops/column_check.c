/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a column request must be before anything is made of it: members, data, mask and children
 * that fit each other. Nothing here looks at device memory; column_offsets.c does.
 */
#include <stdarg.h>
#include <stdio.h>

#include "ops/column_priv.h"

/* ---- members ---- */

static gmv_status check_type(const gmv_column_request *request, gmv_error *err)
{
    const gmv_cudf_type type = request->type;
    const char *name = gmv_cudf_type_name(type.id);
    if (!name)
        return gmv_fail(err, GMV_ERR_DTYPE_UNSUPPORTED, "/type/name",
                        "%d is no id of a column type", (int)type.id);
    if (type.scale != 0 && !gmv_cudf_type_is_decimal(type.id))
        return gmv_fail(err, GMV_ERR_VALUE, "/type/scale",
                        "type %s has no scale; only decimals have one, not %d", name,
                        (int)type.scale);
    return GMV_OK;
}

static gmv_status check_rows(const gmv_column_request *request, gmv_error *err)
{
    if (request->size < 0 || request->size > GMV_SIZE_TYPE_MAX)
        return gmv_fail(err, GMV_ERR_VALUE, "/size", "size must be 0 to %d, not %lld",
                        (int)GMV_SIZE_TYPE_MAX, (long long)request->size);
    if (request->offset < 0 || request->offset > GMV_SIZE_TYPE_MAX)
        return gmv_fail(err, GMV_ERR_VALUE, "/offset", "offset must be 0 to %d, not %lld",
                        (int)GMV_SIZE_TYPE_MAX, (long long)request->offset);
    if (request->offset + request->size > GMV_SIZE_TYPE_MAX)
        return gmv_fail(
            err, GMV_ERR_VALUE, "/offset", "offset %lld and size %lld add up to more than %d rows",
            (long long)request->offset, (long long)request->size, (int)GMV_SIZE_TYPE_MAX);
    if (request->has_null_count && (request->null_count < 0 || request->null_count > request->size))
        return gmv_fail(err, GMV_ERR_VALUE, "/null_count", "null_count must be 0 to %lld, not %lld",
                        (long long)request->size, (long long)request->null_count);
    if (request->has_null_count && request->type.id == GMV_CUDF_EMPTY &&
        request->null_count != request->size)
        return gmv_fail(err, GMV_ERR_VALUE, "/null_count",
                        "all %lld rows of type EMPTY are null, not %lld", (long long)request->size,
                        (long long)request->null_count);
    return GMV_OK;
}

/* How many children the types that are not fixed-width have. */
static const struct {
    size_t n;
    bool any;             /* or any other number */
    bool none_when_empty; /* or none, without rows */
    const char *what;
} child_counts[GMV_CUDF_TYPE_COUNT] = {
    [GMV_CUDF_STRING] = {1, .none_when_empty = true, .what = "one child, its offsets"},
    [GMV_CUDF_LIST] = {2, .what = "two children, offsets and elements"},
    [GMV_CUDF_STRUCT] = {0, .any = true},
    [GMV_CUDF_DICTIONARY32] = {2, .none_when_empty = true,
                               .what = "two children, indices and keys"},
};

static gmv_status check_child_count(const gmv_column_request *request, gmv_error *err)
{
    const int32_t id = request->type.id;
    const size_t n = request->n_children;
    if (child_counts[id].any || n == child_counts[id].n ||
        (n == 0 && request->size == 0 && child_counts[id].none_when_empty))
        return GMV_OK;
    return gmv_fail(err, GMV_ERR_VALUE, "/children",
                    "a column of %lld rows of type %s has %s, not %zu children",
                    (long long)request->size, gmv_cudf_type_name(id),
                    child_counts[id].what ? child_counts[id].what : "no children", n);
}

gmv_status gmv_column_check_members(const gmv_column_request *request, gmv_error *err)
{
    GMV_TRY(check_type(request, err));
    GMV_TRY(check_rows(request, err));
    return check_child_count(request, err);
}

/* ---- data and mask ---- */

/* A view of no bytes is as good as none. */
static gmv_status check_no_bytes(const gmv_column_request *request, const gmv_view *view,
                                 const char *pointer, const char *what, gmv_error *err)
{
    if (!view || view->nbytes == 0)
        return GMV_OK;
    return gmv_fail(err, GMV_ERR_VALUE, pointer, "a column of type %s has no %s; leave it out",
                    gmv_cudf_type_name(request->type.id), what);
}

static gmv_status check_no_data(const gmv_column_request *request, gmv_error *err)
{
    return check_no_bytes(request, request->data, "/data", "data of its own", err);
}

/* Which of the characters are used is up to the offsets. */
static gmv_status check_characters(const gmv_column_request *request, gmv_error *err)
{
    return request->data ? gmv_view_require_contiguous(request->data, "/data", err) : GMV_OK;
}

static gmv_status check_elements(const gmv_column_request *request, gmv_error *err)
{
    const gmv_view *data = request->data;
    if (!data) {
        if (request->size > 0)
            return gmv_fail(err, GMV_ERR_VALUE, "/data", "a column of %lld rows needs data",
                            (long long)request->size);
        return GMV_OK;
    }
    GMV_TRY(gmv_view_require_contiguous(data, "/data", err));

    const int64_t width = (int64_t)gmv_cudf_type_width(request->type.id);
    const int64_t needed = (request->offset + request->size) * width;
    if (data->nbytes < needed)
        return gmv_fail(
            err, GMV_ERR_OUT_OF_BOUNDS, "/data",
            "offset + size is %lld rows of %lld bytes, which need %lld bytes; the view has %lld",
            (long long)(request->offset + request->size), (long long)width, (long long)needed,
            (long long)data->nbytes);
    const size_t alignment = gmv__type_alignment(request->type.id);
    if (needed > 0 && data->ptr % alignment != 0)
        return gmv_fail(err, GMV_ERR_VALUE, "/data",
                        "the data must start at a multiple of %zu bytes for type %s; its address "
                        "is %zu past one",
                        alignment, gmv_cudf_type_name(request->type.id),
                        (size_t)(data->ptr % alignment));
    return GMV_OK;
}

static gmv_status check_mask(const gmv_column_request *request, gmv_error *err)
{
    const gmv_view *mask = request->null_mask;
    if (!mask)
        return GMV_OK;
    if (request->type.id == GMV_CUDF_EMPTY)
        return check_no_bytes(request, mask, "/null_mask", "null mask", err);
    GMV_TRY(gmv_view_require_contiguous(mask, "/null_mask", err));

    const int64_t needed = gmv__bits_nbytes(request->offset + request->size);
    if (mask->nbytes > 0 && mask->nbytes < needed)
        return gmv_fail(err, GMV_ERR_OUT_OF_BOUNDS, "/null_mask",
                        "offset + size is %lld bits, which need %lld bytes; the view has %lld",
                        (long long)(request->offset + request->size), (long long)needed,
                        (long long)mask->nbytes);
    return GMV_OK;
}

static gmv_status check_claim(const gmv_column_request *request, gmv_error *err)
{
    if (!request->has_null_count || request->type.id == GMV_CUDF_EMPTY)
        return GMV_OK;
    if (request->null_count > 0 && (!request->null_mask || request->null_mask->nbytes == 0))
        return gmv_fail(err, GMV_ERR_VALUE, "/null_count",
                        "null_count is %lld, but a column without null_mask has no nulls",
                        (long long)request->null_count);
    return GMV_OK;
}

/* ---- children ---- */

static gmv_status check_fail_child(size_t index, gmv_error *err, const char *format, ...)
    GMV_PRINTF(3, 4);

static gmv_status check_fail_child(size_t index, gmv_error *err, const char *format, ...)
{
    char pointer[48], message[GMV_ERROR_MESSAGE_MAX];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    (void)snprintf(pointer, sizeof pointer, "/children/%zu", index);
    return gmv_fail(err, GMV_ERR_VALUE, pointer, "%s", message);
}

/* A child that says where things are, one entry for each row or one more. */
static gmv_status check_without_nulls(const gmv_column *child, size_t index, const char *what,
                                      gmv_error *err)
{
    if (child->null_count == 0)
        return GMV_OK;
    return check_fail_child(index, err, "%s have no nulls, this column has %d", what,
                            (int)child->null_count);
}

static gmv_status check_offsets(const gmv_column_request *request, bool wide, gmv_error *err)
{
    const gmv_column *offsets = request->children[GMV_CHILD_OFFSETS];
    const int64_t wanted = request->offset + request->size + 1;
    if (offsets->type.id != GMV_CUDF_INT32 && !(wide && offsets->type.id == GMV_CUDF_INT64))
        return check_fail_child(GMV_CHILD_OFFSETS, err, "offsets are of type %s, not %s",
                                wide ? "INT32 or INT64" : "INT32",
                                gmv_cudf_type_name(offsets->type.id));
    GMV_TRY(check_without_nulls(offsets, GMV_CHILD_OFFSETS, "offsets", err));
    if (offsets->size >= wanted || (request->size == 0 && offsets->size == 0))
        return GMV_OK;
    return check_fail_child(GMV_CHILD_OFFSETS, err,
                            "offset + size + 1 is %lld offsets, this column has %d",
                            (long long)wanted, (int)offsets->size);
}

static gmv_status check_string(const gmv_column_request *request, gmv_error *err)
{
    return request->n_children > 0 ? check_offsets(request, true, err) : GMV_OK;
}

static gmv_status check_list(const gmv_column_request *request, gmv_error *err)
{
    return check_offsets(request, false, err);
}

static gmv_status check_struct(const gmv_column_request *request, gmv_error *err)
{
    const int64_t wanted = request->offset + request->size;
    for (size_t i = 0; i < request->n_children; i++) {
        if (request->children[i]->size < wanted)
            return check_fail_child(i, err, "offset + size is %lld rows, this field has %d",
                                    (long long)wanted, (int)request->children[i]->size);
    }
    return GMV_OK;
}

static bool check_is_signed(int32_t type_id)
{
    return type_id >= GMV_CUDF_INT8 && type_id <= GMV_CUDF_INT64;
}

static gmv_status check_dictionary(const gmv_column_request *request, gmv_error *err)
{
    if (request->n_children == 0)
        return GMV_OK;
    const gmv_column *indices = request->children[GMV_CHILD_INDICES];
    const gmv_column *keys = request->children[GMV_CHILD_KEYS];
    const int64_t wanted = request->offset + request->size;
    if (!check_is_signed(indices->type.id))
        return check_fail_child(GMV_CHILD_INDICES, err,
                                "indices are of a signed integer type, not %s",
                                gmv_cudf_type_name(indices->type.id));
    GMV_TRY(check_without_nulls(indices, GMV_CHILD_INDICES, "indices", err));
    if (indices->size < wanted)
        return check_fail_child(GMV_CHILD_INDICES, err,
                                "offset + size is %lld indices, this column has %d",
                                (long long)wanted, (int)indices->size);
    return check_without_nulls(keys, GMV_CHILD_KEYS, "keys", err);
}

/* ---- one device ---- */

static gmv_status check_devices(const gmv_column_request *request, gmv_error *err)
{
    int32_t device = gmv__view_device(request->data);
    const int32_t mask_device = gmv__view_device(request->null_mask);
    if (device >= 0 && mask_device >= 0 && device != mask_device)
        return gmv_fail(
            err, GMV_ERR_VALUE, "/null_mask",
            "data is on device %d and null_mask on device %d; one column lies on one device",
            (int)device, (int)mask_device);
    device = device >= 0 ? device : mask_device;
    for (size_t i = 0; i < request->n_children; i++) {
        const int32_t child_device = request->children[i]->device;
        if (device >= 0 && child_device >= 0 && child_device != device)
            return check_fail_child(
                i, err,
                "this child is on device %d, other parts are on device %d; one column lies "
                "on one device",
                (int)child_device, (int)device);
        device = device >= 0 ? device : child_device;
    }
    return GMV_OK;
}

/* ---- all of it ---- */

typedef gmv_status (*check_part)(const gmv_column_request *request, gmv_error *err);

static gmv_status check_nothing(const gmv_column_request *request, gmv_error *err)
{
    return GMV_OK;
}

/* What the types that are not fixed-width have. */
static const struct {
    check_part children, data;
} compounds[GMV_CUDF_TYPE_COUNT] = {
    [GMV_CUDF_EMPTY] = {check_nothing, check_no_data},
    [GMV_CUDF_STRING] = {check_string, check_characters},
    [GMV_CUDF_LIST] = {check_list, check_no_data},
    [GMV_CUDF_STRUCT] = {check_struct, check_no_data},
    [GMV_CUDF_DICTIONARY32] = {check_dictionary, check_no_data},
};

gmv_status gmv__column_check(const gmv_column_request *request, gmv_error *err)
{
    const int32_t id = request->type.id;
    GMV_TRY(gmv_column_check_members(request, err));
    if (gmv_cudf_type_is_fixed_width(id)) {
        GMV_TRY(check_elements(request, err));
    } else {
        GMV_TRY(compounds[id].children(request, err));
        GMV_TRY(compounds[id].data(request, err));
    }
    GMV_TRY(check_mask(request, err));
    GMV_TRY(check_devices(request, err));
    return check_claim(request, err);
}
