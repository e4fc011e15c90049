/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looking inside views and flat columns: statistics, histograms, checksums, comparisons. The ops
 * name what is at fault by a pointer; what came in the query is told by its parameter instead.
 */
#include <string.h>

#include "codec/encode_inspect.h"
#include "http/handle_priv.h"

/* The pointer "/name" of a request's member becomes the parameter of that name. */
static gmv_status inspect_by_parameter(gmv_status status, gmv_error *err)
{
    if (status == GMV_OK || err == NULL || !err->has_pointer || err->pointer[0] != '/')
        return status;
    strncpy(err->parameter, err->pointer + 1, sizeof err->parameter - 1);
    err->parameter[sizeof err->parameter - 1] = '\0';
    err->pointer[0] = '\0';
    err->has_pointer = false;
    return status;
}

static gmv_status inspect_finish(gmv_reply *reply, gmv_error *err)
{
    reply->caching = GMV_CACHING_NO_STORE;
    return gmv_reply_finish(reply, err);
}

/* ---- statistics ---- */

/* The view that the query names as a mask; NULL if it names none. */
static gmv_status statistics_mask(gmv_request *request, gmv_view **out_mask, gmv_error *err)
{
    const gmv_query_parameter *parameter = gmv_query_find(&request->query, "mask");
    gmv_reference reference = {.given = parameter != NULL};
    gmv_node *node;
    *out_mask = NULL;
    if (parameter == NULL)
        return GMV_OK;
    reference.valid = parameter->value != NULL &&
                      gmv_id_parse(parameter->value, parameter->value_length, &reference.id);
    GMV_TRY(inspect_by_parameter(
        gmv_find_reference(request, &reference, GMV_KIND_VIEW, "/mask", &node, err), err));
    *out_mask = gmv_view_of(node);
    return GMV_OK;
}

GMV_HANDLER(statistics)
{
    gmv_node *subject;
    gmv_view *mask;
    gmv_statistics statistics;
    GMV_TRY(gmv_request_target(request, &subject, err));
    GMV_TRY(statistics_mask(request, &mask, err));
    GMV_TRY(inspect_by_parameter(
        gmv_inspect_statistics(request->operation, subject, mask, &statistics, err), err));
    gmv_json_writer writer = gmv_json_writer_over(&reply->text);
    gmv_encode_statistics(&writer, &statistics);
    return inspect_finish(reply, err);
}

/* ---- histograms ---- */

#define HISTOGRAM_BINS_DEFAULT 64

static gmv_status histogram_query(const gmv_query *query, gmv_histogram_request *out,
                                  gmv_error *err)
{
    *out = (gmv_histogram_request){0};
    GMV_TRY(gmv_query_int64(query, "bins", 1, GMV_HISTOGRAM_BINS_MAX, HISTOGRAM_BINS_DEFAULT,
                            &out->bins, err));
    GMV_TRY(gmv_query_number(query, "min", &out->has_min, &out->min, err));
    GMV_TRY(gmv_query_number(query, "max", &out->has_max, &out->max, err));
    if (out->has_min && out->has_max && out->min > out->max)
        return gmv_fail_parameter(err, GMV_ERR_REQUEST_MALFORMED, "max",
                                  "max must not be below min");
    return GMV_OK;
}

GMV_HANDLER(histogram)
{
    gmv_node *subject;
    gmv_histogram_request histogram_request;
    gmv_histogram histogram;
    GMV_TRY(histogram_query(&request->query, &histogram_request, err));
    GMV_TRY(gmv_request_target(request, &subject, err));
    GMV_TRY(inspect_by_parameter(
        gmv_inspect_histogram(request->operation, subject, &histogram_request, &histogram, err),
        err));
    gmv_json_writer writer = gmv_json_writer_over(&reply->text);
    gmv_encode_histogram(&writer, &histogram);
    gmv_histogram_fini(&histogram);
    return inspect_finish(reply, err);
}

/* ---- checksums ---- */

#define CHECKSUM_BLOCK_DEFAULT 65536

static gmv_status checksum_query(const gmv_query *query, gmv_checksum_request *out, gmv_error *err)
{
    int algorithm;
    GMV_TRY(gmv_query_name(query, "algorithm", gmv_checksum_algorithm_names, GMV_CHECKSUM_CRC32C,
                           &algorithm, err));
    *out = (gmv_checksum_request){.algorithm = (gmv_checksum_algorithm)algorithm};
    GMV_TRY(gmv_query_int64(query, "block_nbytes", GMV_HASH_BLOCK_MIN, GMV_HASH_BLOCK_MAX,
                            CHECKSUM_BLOCK_DEFAULT, &out->block_nbytes, err));
    GMV_TRY(gmv_query_flag(query, "blocks", &out->list_blocks, err));
    if (out->block_nbytes % 64 != 0)
        return gmv_fail_parameter(err, GMV_ERR_REQUEST_MALFORMED, "block_nbytes",
                                  "block_nbytes must be a multiple of 64");
    if (algorithm != GMV_CHECKSUM_CRC32C)
        return GMV_OK;
    if (gmv_query_find(query, "block_nbytes") != NULL)
        return gmv_fail_parameter(err, GMV_ERR_REQUEST_MALFORMED, "block_nbytes",
                                  "crc32c is of the whole; xxh64_tree and xxh3_tree have blocks");
    if (out->list_blocks)
        return gmv_fail_parameter(err, GMV_ERR_REQUEST_MALFORMED, "blocks",
                                  "crc32c is of the whole; xxh64_tree and xxh3_tree have blocks");
    return GMV_OK;
}

GMV_HANDLER(checksum)
{
    gmv_node *subject;
    gmv_checksum_request checksum_request;
    gmv_checksum checksum;
    GMV_TRY(checksum_query(&request->query, &checksum_request, err));
    GMV_TRY(gmv_request_target(request, &subject, err));
    GMV_TRY(inspect_by_parameter(
        gmv_inspect_checksum(request->operation, subject, &checksum_request, &checksum, err), err));
    gmv_json_writer writer = gmv_json_writer_over(&reply->text);
    gmv_encode_checksum(&writer, &checksum_request, &checksum);
    gmv_checksum_fini(&checksum);
    return inspect_finish(reply, err);
}

/* ---- comparisons ---- */

typedef struct compare_members {
    gmv_reference other;
    gmv_comparison_request request;
} compare_members;

static const gmv_field compare_fields[] = {
    GMV_FIELD_REQUIRED("other", REFERENCE, compare_members, other),
    GMV_FIELD("nan_equal", BOOL, compare_members, request.nan_equal),
    GMV_FIELD("absolute_tolerance", NUMBER, compare_members, request.absolute_tolerance),
    GMV_FIELD("relative_tolerance", NUMBER, compare_members, request.relative_tolerance),
    GMV_FIELD_END,
};

static gmv_status compare_run(gmv_request *request, gmv_reply *reply, void *context,
                              gmv_document *document, gmv_error *err)
{
    const compare_members *members = context;
    gmv_node *subject, *other;
    gmv_comparison comparison;
    GMV_TRY(gmv_comparison_check(&members->request, err));
    GMV_TRY(gmv_request_target(request, &subject, err));
    GMV_TRY(gmv_find_reference(request, &members->other, subject->node_class->kind, "/other",
                               &other, err));
    GMV_TRY(gmv_inspect_compare(request->operation, subject, other, &members->request, &comparison,
                                err));
    gmv_json_writer writer = gmv_json_writer_over(&reply->text);
    gmv_encode_comparison(&writer, &comparison);
    return inspect_finish(reply, err);
}

GMV_HANDLER(compare)
{
    compare_members members = {0};
    return gmv_handle_body(request, reply, compare_fields, &members, compare_run, err);
}
