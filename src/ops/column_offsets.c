/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Offsets and dictionary indices, looked at once on the device when a column is made. What is found
 * makes for a good message and no more: whoever wrote them may write them again, so every reader
 * clamps what it reads.
 */
#include "ops/column_priv.h"

/* What is looked at, and how it is called. */
typedef struct offsets_check {
    const gmv_column *child;
    const gmv_view *mask; /* whose bits say what is passed over, or NULL */
    gmv_check_indices args;
    int64_t first; /* row of the child that comes first */
    const char *name;
    const char *limit_name;
} offsets_check;

static gmv_status offsets_run(gmv_stream *stream, const offsets_check *check, gmv_error *err)
{
    GMV_TRY(gmv__view_use(stream, check->child->data, err));
    GMV_TRY(gmv__view_use(stream, check->mask, err));
    GMV_TRY(gmv_kernel_check_indices(stream, &check->args, err));
    return gmv_stream_finish(stream, err);
}

/* The bad one and the one before it, as they are now. */
static gmv_status offsets_read(gmv_stream *stream, const offsets_check *check, int64_t index,
                               int64_t out_pair[2], gmv_error *err)
{
    const int64_t width = check->args.itemsize;
    const int64_t n = index > 0 && check->args.in_order ? 2 : 1;
    unsigned char bytes[2 * sizeof(int64_t)];
    const uint64_t source = check->args.address + (uint64_t)((index - n + 1) * width);
    GMV_TRY(gmv__view_use(stream, check->child->data, err));
    GMV_TRY(gmv_copy_out(stream, bytes, source, (uint64_t)(n * width), err));
    GMV_TRY(gmv_stream_finish(stream, err));
    out_pair[0] = n == 2 ? gmv__integer_at(bytes, width, 0) : 0;
    out_pair[1] = gmv__integer_at(bytes, width, n - 1);
    return GMV_OK;
}

static gmv_status offsets_fail(gmv_stream *stream, const offsets_check *check, int64_t index,
                               gmv_error *err)
{
    int64_t pair[2] = {0};
    const long long row = check->first + index;
    const gmv_status status = offsets_read(stream, check, index, pair, err);
    if (status != GMV_OK) {
        gmv_stream_abandon(stream);
        return status;
    }
    if (pair[1] < 0)
        return gmv_fail(err, GMV_ERR_VALUE, "/children/0", "%s %lld is %lld, which is below 0",
                        check->name, row, (long long)pair[1]);
    if (pair[1] > check->args.limit)
        return gmv_fail(err, GMV_ERR_VALUE, "/children/0", "%s %lld is %lld, but there are %lld %s",
                        check->name, row, (long long)pair[1],
                        (long long)check->args.limit + !check->args.in_order, check->limit_name);
    if (pair[1] < pair[0])
        return gmv_fail(err, GMV_ERR_VALUE, "/children/0",
                        "%s %lld is %lld, which is below the one before it, %lld", check->name, row,
                        (long long)pair[1], (long long)pair[0]);
    return gmv_fail(err, GMV_ERR_VALUE, "/children/0",
                    "%s %lld was bad and has been changed since; make the column again",
                    check->name, row);
}

static gmv_status offsets_check_with(gmv_operation *operation, offsets_check *check, gmv_error *err)
{
    const gmv_column *child = check->child;
    const int64_t n = check->args.n;
    int64_t bad = n;
    check->args.itemsize = (int64_t)gmv_cudf_type_width(child->type.id);
    check->args.address =
        gmv_column_data_address(child) + (uint64_t)(check->first * check->args.itemsize);
    check->args.out_index = &bad;
    GMV_TRY(gmv_operation_weigh(operation, (uint64_t)(n * check->args.itemsize), err));

    gmv_stream *stream =
        gmv_operation_stream(operation, gmv_column_device(operation->engine, child));
    const gmv_status status = offsets_run(stream, check, err);
    if (status != GMV_OK) {
        gmv_stream_abandon(stream); /* the kernel writes to this frame */
        return status;
    }
    return bad < n ? offsets_fail(stream, check, bad, err) : GMV_OK;
}

static gmv_status offsets_check_offsets(gmv_operation *operation, const gmv_column_request *request,
                                        gmv_error *err)
{
    const bool is_string = request->type.id == GMV_CUDF_STRING;
    offsets_check check = {
        .child = request->children[GMV_CHILD_OFFSETS],
        .args = {.in_order = true, .n = request->size + 1},
        .first = request->offset,
        .name = "offset",
        .limit_name = is_string ? "bytes of characters" : "elements",
    };
    if (!is_string)
        check.args.limit = request->children[GMV_CHILD_ELEMENTS]->size;
    else if (request->data)
        check.args.limit = request->data->nbytes;
    return offsets_check_with(operation, &check, err);
}

/* An index of a null row leads nowhere. */
static gmv_status offsets_check_indices(gmv_operation *operation, const gmv_column_request *request,
                                        gmv_error *err)
{
    const gmv_view *mask = request->null_mask;
    const bool has_mask = mask && mask->nbytes > 0;
    offsets_check check = {
        .child = request->children[GMV_CHILD_INDICES],
        .mask = has_mask ? mask : NULL,
        .args = {.validity = {has_mask ? mask->ptr : 0, has_mask ? request->offset : 0},
                 .n = request->size,
                 .limit = request->children[GMV_CHILD_KEYS]->size - 1},
        .first = request->offset,
        .name = "index",
        .limit_name = "keys",
    };
    return offsets_check_with(operation, &check, err);
}

gmv_status gmv__column_check_offsets(gmv_operation *operation, const gmv_column_request *request,
                                     gmv_error *err)
{
    if (request->size == 0)
        return GMV_OK; /* nothing is read through them */
    switch (request->type.id) {
    case GMV_CUDF_STRING:
    case GMV_CUDF_LIST:
        return offsets_check_offsets(operation, request, err);
    case GMV_CUDF_DICTIONARY32:
        return offsets_check_indices(operation, request, err);
    default:
        return GMV_OK;
    }
}

int64_t gmv__integer_at(const void *integers, int64_t width, int64_t index)
{
    const unsigned char *from = (const unsigned char *)integers + index * width;
    uint64_t value = 0;
    for (int64_t i = 0; i < width; i++)
        value |= (uint64_t)from[i] << 8 * i;
    const int64_t unused = 64 - 8 * width;
    return (int64_t)(value << unused) >> unused; /* with its sign */
}
