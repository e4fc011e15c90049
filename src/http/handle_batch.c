/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batches: the handlers of other routes, called one after the other. An atomic batch makes all its
 * things in one operation, looks whether every deletion can be carried out, and only then deletes;
 * until that point whatever was made can be taken back. Otherwise each operation stands alone.
 */
#include <stdio.h>
#include <string.h>

#include "codec/batch_json.h"
#include "codec/problem.h"
#include "http/handle_priv.h"
#include "http/router.h"
#include "http/service.h"

/* Bytes of the answers together; longer ones have null in their place. */
#define BATCH_ANSWERS_NBYTES_MAX ((size_t)16 << 20)

/* What an answer to DELETE takes at most, and what stands around an answer. */
#define BATCH_DELETION_NBYTES_MAX 12288
#define BATCH_FRAME_NBYTES        64

typedef struct batch_result {
    int http_status; /* 0: not run yet */
    gmv_strbuf text; /* empty: left out */
} batch_result;

typedef struct batch_run {
    gmv_request *request;
    gmv_batch *batch;
    size_t count;
    size_t nbytes; /* of the answers */
    batch_result *results;
} batch_run;

/* One operation, ready to be run. */
typedef struct batch_call {
    gmv_strbuf path, body;
    gmv_route_match match;
    gmv_request request;
    gmv_reply reply;
} batch_call;

static void call_fini(batch_call *call)
{
    gmv_query_fini(&call->request.query);
    gmv_strbuf_fini(&call->path);
    gmv_strbuf_fini(&call->body);
    gmv_strbuf_fini(&call->reply.text);
}

/* ---- what may be called ---- */

static bool route_is_one_of(const gmv_route *route, const char *const *operation_ids)
{
    for (; *operation_ids != NULL; operation_ids++)
        if (strcmp(route->operation_id, *operation_ids) == 0)
            return true;
    return false;
}

static gmv_status call_check_route(const gmv_route *route, bool is_atomic, gmv_error *err)
{
    static const char *const never[] = {"runBatch",    "createSession", "deleteSession",
                                        "leaseHandle", "importBuffer",  "exportBuffer",
                                        NULL};
    static const char *const not_atomic[] = {"setNullMask", "releasePacked", NULL};
    bool is_taken = strncmp(route->path, "/v1/", 4) == 0 &&
                    (route->method == GMV_METHOD_DELETE || route->body == GMV_BODY_JSON);
    if (!is_taken || route_is_one_of(route, never))
        return gmv_fail(err, GMV_ERR_VALUE, "/path", "%s cannot be part of a batch",
                        route->operation_id);
    if (is_atomic && route_is_one_of(route, not_atomic))
        return gmv_fail(err, GMV_ERR_VALUE, "/path",
                        "%s cannot be taken back, so an atomic batch does not take it",
                        route->operation_id);
    return GMV_OK;
}

static gmv_status call_find_route(const batch_run *run, size_t index, batch_call *call,
                                  gmv_error *err)
{
    gmv_method method =
        gmv_batch_is_delete(run->batch, index) ? GMV_METHOD_DELETE : GMV_METHOD_POST;
    size_t length = strcspn(call->path.data, "?#");
    switch (gmv_router_match(run->request->service->router, method, call->path.data, length,
                             &call->match)) {
    case GMV_ROUTING_FOUND:
        return call_check_route(call->match.route, gmv_batch_is_atomic(run->batch), err);
    case GMV_ROUTING_NO_METHOD:
        return gmv_fail(err, GMV_ERR_VALUE, "/method", "this path takes %s only",
                        call->match.allow);
    case GMV_ROUTING_NO_PATH:
        break;
    }
    return gmv_router_fail_path(run->request->service->router, call->path.data, length, "/path",
                                err);
}

static gmv_status call_read_query(batch_call *call, gmv_error *err)
{
    const char *mark = strchr(call->path.data, '?');
    return gmv_query_parse(mark ? mark + 1 : "", mark ? strlen(mark + 1) : 0,
                           call->match.route->query, &call->request.query, err);
}

/* Follows references and finds the handler. To be ended by call_fini in any case. */
static gmv_status call_prepare(batch_run *run, size_t index, gmv_operation *operation,
                               batch_call *call, gmv_error *err)
{
    *call = (batch_call){0};
    GMV_TRY(gmv_batch_resolve(run->batch, index, &call->path, &call->body, err));
    /* Never NULL, so that it can be read as a text. */
    gmv_strbuf_append(&call->path, "", 0);
    if (call->path.data == NULL)
        return gmv_fail(err, GMV_ERR_ROUTE_UNKNOWN, "/path", "there is no such path");
    if (strlen(call->path.data) != call->path.length)
        return gmv_fail(err, GMV_ERR_ROUTE_UNKNOWN, "/path", "there is no such path");
    GMV_TRY(call_find_route(run, index, call, err));
    gmv_request *request = &call->request;
    request->service = run->request->service;
    request->operation = operation;
    request->route = call->match.route;
    request->has_id = call->match.has_id;
    request->id = call->match.id;
    request->body = call->body.data;
    request->body_nbytes = call->body.length;
    request->request_id = run->request->request_id;
    return call_read_query(call, err);
}

/* ---- results ---- */

/* Where in the batch an error arose: what a handler names lies in its body. */
static void error_place(gmv_error *err, size_t index, bool in_body)
{
    char prefix[64];
    snprintf(prefix, sizeof prefix, "/operations/%zu%s", index,
             err->has_pointer && in_body ? "/body" : "");
    if (!err->has_pointer) {
        err->has_pointer = true;
        err->pointer[0] = '\0';
    }
    gmv_error_prefix_pointer(err, prefix);
    err->has_operation = true;
    err->operation = index;
}

/* Takes the text over. */
static void result_set(batch_run *run, size_t index, int http_status, gmv_strbuf *text)
{
    batch_result *result = &run->results[index];
    result->http_status = http_status;
    if (text->length > BATCH_ANSWERS_NBYTES_MAX - run->nbytes) {
        gmv_strbuf_fini(text);
        return;
    }
    run->nbytes += text->length;
    result->text = *text;
    *text = GMV_STRBUF_INIT;
    if (http_status < 300)
        gmv_batch_keep_answer(run->batch, index, result->text.data, result->text.length);
}

/* Runs a handler; its answer becomes the result. The streams are left without work under way. */
static gmv_status call_run(batch_run *run, size_t index, batch_call *call, gmv_error *err)
{
    gmv_reply *reply = &call->reply;
    gmv_operation *operation = call->request.operation;
    gmv_status status = call->match.route->handle(&call->request, reply, err);
    if (status == GMV_MOVE_TO_BULK)
        status = gmv_fail(err, GMV_ERR_INTERNAL, NULL, "the bulk lane was asked for on itself");
    if (status == GMV_RUN_AGAIN)
        status = err->status; /* what it waits for has not happened: that is its failure */
    if (status != GMV_OK && operation->streams)
        for (size_t i = 0; i < operation->engine->n_devices; i++)
            gmv_stream_abandon(operation->streams[i]);
    if (status == GMV_OK)
        result_set(run, index, reply->http_status ? reply->http_status : 200, &reply->text);
    return status;
}

static gmv_status run_one(batch_run *run, size_t index, gmv_operation *operation, gmv_error *err)
{
    batch_call call;
    gmv_status status = call_prepare(run, index, operation, &call, err);
    bool in_body = status == GMV_OK;
    if (status == GMV_OK)
        status = call_run(run, index, &call, err);
    call_fini(&call);
    if (status != GMV_OK)
        error_place(err, index, in_body);
    return status;
}

static void operation_begin(batch_run *run, gmv_operation *operation)
{
    const gmv_operation *outer = run->request->operation;
    gmv_operation_begin(operation, outer->engine, &outer->caller, outer->lane, outer->streams);
}

/* ---- one by one ---- */

static gmv_status result_set_error(batch_run *run, size_t index, const gmv_error *err,
                                   gmv_error *out_err)
{
    gmv_strbuf text = GMV_STRBUF_INIT;
    gmv_problem_write(&text, err, run->request->request_id);
    if (gmv_strbuf_failed(&text)) {
        gmv_strbuf_fini(&text);
        return gmv_fail_no_memory(out_err);
    }
    result_set(run, index, gmv_problem_http_status(err->status), &text);
    return GMV_OK;
}

static gmv_status run_each(batch_run *run, gmv_error *err)
{
    for (size_t i = 0; i < run->count; i++) {
        gmv_operation operation;
        gmv_error failure;
        gmv_error_init(&failure);
        operation_begin(run, &operation);
        gmv_status status = run_one(run, i, &operation, &failure);
        gmv_operation_end(&operation);
        if (status != GMV_OK)
            GMV_TRY(result_set_error(run, i, &failure, err));
    }
    return GMV_OK;
}

/* ---- all or none ---- */

/* Whether the handle could be deleted now, and by none of the operations before. */
static gmv_status delete_check(const gmv_request *request, gmv_operation *operation, gmv_error *err)
{
    const gmv_query_parameter *if_held = gmv_query_find(&request->query, "if_held");
    gmv_handle_info info;
    gmv_node *node;
    if (if_held && if_held->value && strcmp(if_held->value, "refuse") == 0)
        return gmv_fail_parameter(err, GMV_ERR_VALUE, "if_held",
                                  "an atomic batch cannot refuse at its end; look first");
    if (!request->has_id || request->id.kind != request->route->kind)
        return gmv_request_fail_kind(request, err);
    gmv_registry *registry = operation->engine->registry;
    GMV_TRY(gmv_registry_get(registry, &operation->caller, &request->id, request->route->kind, NULL,
                             &node, err));
    gmv_status status =
        gmv_registry_describe(registry, &operation->caller, &request->id, &info, err);
    gmv_registry_release(registry, node, true);
    if (status == GMV_OK && !info.named)
        status = gmv_fail(err, GMV_ERR_HANDLE_INNER, NULL,
                          "the handle lies inside another and goes with it");
    return status;
}

static bool delete_is_repeated(const batch_call *calls, size_t n, const gmv_id *id)
{
    for (size_t i = 0; i < n; i++)
        if (gmv_id_equal(&calls[i].request.id, id))
            return true;
    return false;
}

typedef struct batch_deletes {
    batch_call *calls;
    size_t *indices;
    size_t count;
} batch_deletes;

static void deletes_fini(batch_deletes *deletes)
{
    for (size_t i = 0; i < deletes->count; i++)
        call_fini(&deletes->calls[i]);
    gmv_free(deletes->calls);
    gmv_free(deletes->indices);
}

static gmv_status deletes_init(batch_deletes *deletes, size_t capacity, gmv_error *err)
{
    *deletes = (batch_deletes){0};
    deletes->calls = gmv_calloc(capacity + 1, sizeof *deletes->calls);
    deletes->indices = gmv_calloc(capacity + 1, sizeof *deletes->indices);
    return deletes->calls && deletes->indices ? GMV_OK : gmv_fail_no_memory(err);
}

/* Sees whether deletion `index` can be carried out, and keeps it, with room for its answer. */
static gmv_status deletes_add(batch_deletes *deletes, batch_run *run, size_t index,
                              gmv_operation *operation, gmv_error *err)
{
    batch_call *call = &deletes->calls[deletes->count];
    gmv_status status = call_prepare(run, index, operation, call, err);
    bool in_body = status == GMV_OK;
    if (status == GMV_OK)
        status = delete_check(&call->request, operation, err);
    if (status == GMV_OK && delete_is_repeated(deletes->calls, deletes->count, &call->request.id))
        status = gmv_fail(err, GMV_ERR_HANDLE_DELETED, NULL,
                          "an operation before this one deletes the handle");
    if (status == GMV_OK)
        status = gmv_reply_reserve(&call->reply, BATCH_DELETION_NBYTES_MAX, err);
    deletes->indices[deletes->count++] = index;
    if (status != GMV_OK)
        error_place(err, index, in_body);
    return status;
}

/* Ids that nobody hears of would be of no use, so an answer that is left out is a failure. */
static gmv_status make_one(batch_run *run, size_t index, gmv_operation *operation, gmv_error *err)
{
    GMV_TRY(run_one(run, index, operation, err));
    if (run->results[index].text.length > 0)
        return GMV_OK;
    gmv_status status =
        gmv_fail(err, GMV_ERR_QUOTA_EXCEEDED, NULL,
                 "the answers of an atomic batch have %zu bytes at most", BATCH_ANSWERS_NBYTES_MAX);
    error_place(err, index, false);
    return status;
}

static gmv_status make_all(batch_run *run, gmv_operation *operation, gmv_error *err)
{
    for (size_t i = 0; i < run->count; i++)
        if (!gmv_batch_is_delete(run->batch, i))
            GMV_TRY(make_one(run, i, operation, err));
    return GMV_OK;
}

static gmv_status check_deletes(batch_run *run, batch_deletes *deletes, gmv_operation *operation,
                                gmv_error *err)
{
    for (size_t i = 0; i < run->count; i++)
        if (gmv_batch_is_delete(run->batch, i))
            GMV_TRY(deletes_add(deletes, run, i, operation, err));
    return GMV_OK;
}

/* Nothing is refused any more; a handle that went in the meantime has that as its result. */
static gmv_status delete_all(batch_run *run, batch_deletes *deletes, gmv_error *err)
{
    for (size_t i = 0; i < deletes->count; i++) {
        gmv_operation operation;
        gmv_error failure;
        gmv_error_init(&failure);
        operation_begin(run, &operation);
        deletes->calls[i].request.operation = &operation;
        gmv_status status = call_run(run, deletes->indices[i], &deletes->calls[i], &failure);
        gmv_operation_end(&operation);
        if (status == GMV_OK)
            continue;
        error_place(&failure, deletes->indices[i], true);
        GMV_TRY(result_set_error(run, deletes->indices[i], &failure, err));
    }
    return GMV_OK;
}

/* Room for the whole answer: behind the deletions nothing may fail. */
static gmv_status reserve_answer(const batch_run *run, const batch_deletes *deletes,
                                 gmv_reply *reply, gmv_error *err)
{
    return gmv_reply_reserve(reply,
                             run->nbytes + (run->count + 1) * BATCH_FRAME_NBYTES +
                                 deletes->count * BATCH_DELETION_NBYTES_MAX,
                             err);
}

static gmv_status run_atomic(batch_run *run, gmv_reply *reply, gmv_error *err)
{
    gmv_operation operation;
    batch_deletes deletes;
    gmv_status status = deletes_init(&deletes, run->count, err);
    operation_begin(run, &operation);
    if (status == GMV_OK)
        status = make_all(run, &operation, err);
    if (status == GMV_OK)
        status = check_deletes(run, &deletes, &operation, err);
    if (status == GMV_OK)
        status = reserve_answer(run, &deletes, reply, err);
    if (status != GMV_OK)
        gmv_operation_unmake(&operation);
    gmv_operation_end(&operation);
    if (status == GMV_OK)
        status = delete_all(run, &deletes, err);
    deletes_fini(&deletes);
    return status;
}

/* ---- the whole ---- */

static gmv_status run_answer(const batch_run *run, gmv_reply *reply, gmv_error *err)
{
    gmv_json_writer writer = gmv_json_writer_over(&reply->text);
    gmv_json_open_object(&writer);
    gmv_json_put_key(&writer, "results");
    gmv_json_open_array(&writer);
    for (size_t i = 0; i < run->count; i++) {
        const gmv_strbuf *text = &run->results[i].text;
        gmv_json_open_object(&writer);
        gmv_json_member_int64(&writer, "status", run->results[i].http_status);
        gmv_json_put_key(&writer, "body");
        if (text->length > 0)
            gmv_json_put_raw(&writer, text->data, text->length);
        else
            gmv_json_put_null(&writer);
        gmv_json_close_object(&writer);
    }
    gmv_json_close_array(&writer);
    gmv_json_close_object(&writer);
    return gmv_reply_finish(reply, err);
}

GMV_HANDLER(batch)
{
    batch_run run = {.request = request};
    GMV_TRY(gmv_batch_parse(request->body, request->body_nbytes, &run.batch, err));
    run.count = gmv_batch_count(run.batch);
    run.results = gmv_calloc(run.count + 1, sizeof *run.results);
    gmv_status status = run.results ? GMV_OK : gmv_fail_no_memory(err);
    if (status == GMV_OK)
        status =
            gmv_batch_is_atomic(run.batch) ? run_atomic(&run, reply, err) : run_each(&run, err);
    if (status == GMV_OK)
        status = run_answer(&run, reply, err);
    for (size_t i = 0; i < run.count && run.results; i++)
        gmv_strbuf_fini(&run.results[i].text);
    gmv_free(run.results);
    gmv_batch_destroy(run.batch);
    return status;
}
