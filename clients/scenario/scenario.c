/* SPDX-License-Identifier: Apache-2.0 */
/* The scenario of README.md with openapi-generator's C client (libcurl). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/BuffersAPI.h"
#include "api/ColumnsAPI.h"
#include "api/KernelsAPI.h"
#include "api/PackedAPI.h"
#include "api/SessionsAPI.h"
#include "api/TablesAPI.h"
#include "api/ViewsAPI.h"

#define REQUIRE(what)                                                                              \
    do {                                                                                           \
        if (!(what)) {                                                                             \
            fprintf(stderr, "line %d: %s (status %ld)\n", __LINE__, #what, client->response_code); \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static apiClient_t *client;

/* The body of the last answer: the functions give none back for an error. */
static char answer[4096];

static void keep_answer(void **data, long *length)
{
    const size_t n = (size_t)*length < sizeof answer - 1 ? (size_t)*length : sizeof answer - 1;
    memcpy(answer, *data, n);
    answer[n] = '\0';
}

static list_t *list_of(void *const *items, size_t n)
{
    list_t *list = list_createList();
    for (size_t i = 0; i < n; i++)
        list_addElement(list, items[i]);
    return list;
}

static int list_holds(list_t *list, const char *text)
{
    listEntry_t *entry;
    list_ForEach(entry, list)
    {
        if (strcmp(entry->data, text) == 0)
            return 1;
    }
    return 0;
}

static view_t *create_cai_view(const buffer_t *buffer, char *session)
{
    char text[256];
    snprintf(text, sizeof text,
             "{\"data\": [%ld, false], \"shape\": [10], \"typestr\": \"<f4\", \"version\": 3}",
             *buffer->ptr);
    cJSON *json = cJSON_Parse(text);
    object_t *payload = object_parseFromJSON(json);
    create_view_request_t request = {.cuda_array_interface = payload};
    view_t *view = ViewsAPI_createView(client, &request, session, NULL);
    object_free(payload);
    cJSON_Delete(json);
    return view;
}

static column_t *create_column(char *data, char *mask, char *session)
{
    column_type_request_t type = {.name = gmvd_column_type_request_NAME_FLOAT32};
    int size = 10;
    create_column_request_t request = {
        .type = &type, .size = &size, .data = data, .null_mask = mask};
    return ColumnsAPI_createColumn(client, &request, session, NULL);
}

static packed_list_t *split(char *table, char *session)
{
    double splits[] = {2, 5};
    void *items[] = {&splits[0], &splits[1]};
    split_table_request_t request = {.splits = list_of(items, 2)};
    packed_list_t *list = TablesAPI_splitTable(client, table, &request, session, NULL);
    list_freeList(request.splits);
    return list;
}

static void check_unknown_view(void)
{
    client->data_callback_func = keep_answer;
    view_t *none = ViewsAPI_getView(client, "view_00000000000000000000000000", NULL, NULL);
    client->data_callback_func = NULL;
    REQUIRE(!none && client->response_code == 404);
    cJSON *json = cJSON_Parse(answer);
    problem_t *problem = problem_parseFromJSON(json);
    REQUIRE(problem && *problem->status == 404 && strcmp(problem->code, "handle_unknown") == 0);
    problem_free(problem);
    cJSON_Delete(json);
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 64;
    client = apiClient_create_with_base_path(argv[1], NULL);

    int ttl_seconds = 60;
    create_session_request_t session_request = {.ttl_seconds = &ttl_seconds};
    session_t *session = SessionsAPI_createSession(client, NULL, NULL, &session_request);
    REQUIRE(session && *session->ttl_seconds == 60);
    char *bears = session->id;

    float values[] = {1.5f, NAN, 3, 4, NAN, 6, 7, 8, 9, 10};
    binary_t *bytes = instantiate_binary_t((char *)values, sizeof values);
    buffer_t *buffer = BuffersAPI_uploadBuffer(client, bytes, NULL, NULL, NULL, NULL, bears);
    REQUIRE(buffer && *buffer->nbytes == 40);

    double ten = 10;
    void *shape[] = {&ten};
    create_typed_view_request_t typed_request = {.typestr = "<f4", .shape = list_of(shape, 1)};
    view_t *typed = BuffersAPI_createBufferView(client, buffer->id, &typed_request, bears, NULL);
    REQUIRE(typed && *typed->nbytes == 40);

    view_t *view = create_cai_view(buffer, bears);
    REQUIRE(view && strcmp(view->buffer, buffer->id) == 0 && *view->nbytes == 40);

    int start = 4, stop = -4;
    byte_slice_request_t slice_request = {.start = &start, .stop = &stop};
    view_t *slice = ViewsAPI_byteSliceView(client, view->id, bears, NULL, &slice_request);
    REQUIRE(slice && *slice->nbytes == 32);

    nans_to_nulls_request_t nans_request = {.input = view->id};
    mask_with_count_t *mask = KernelsAPI_nansToNulls(client, &nans_request, bears, NULL);
    REQUIRE(mask && *mask->null_count == 2);

    column_t *column = create_column(view->id, mask->mask->id, bears);
    REQUIRE(column && *column->null_count == 2);

    void *columns[] = {column->id};
    create_table_request_t table_request = {.columns = list_of(columns, 1)};
    table_t *table = TablesAPI_createTable(client, &table_request, bears, NULL);
    REQUIRE(table && *table->num_rows == 10);

    packed_list_t *packed = split(table->id, bears);
    const int rows[] = {2, 3, 5};
    REQUIRE(packed && packed->items->count == 3);
    for (int i = 0; i < 3; i++)
        REQUIRE(*((packed_t *)list_getElementAt(packed->items, i)->data)->num_rows == rows[i]);

    packed_t *first = list_getElementAt(packed->items, 0)->data;
    binary_t *metadata = PackedAPI_getPackedMetadata(client, first->id, NULL, NULL);
    REQUIRE(metadata && metadata->len == 56 && metadata->data[0] == 2);
    binary_t *data = PackedAPI_getPackedData(client, first->id, 0, NULL, NULL, NULL, NULL);
    REQUIRE(data && data->len == 128 && memcmp(data->data + 64, values, 4) == 0);

    check_unknown_view();

    deletion_t *deletion = ViewsAPI_deleteView(client, view->id, 0, NULL);
    REQUIRE(deletion && *deletion->alive && list_holds(deletion->kept_alive_by, slice->id) &&
            list_holds(deletion->kept_alive_by, column->id));

    session_deletion_t *end = SessionsAPI_deleteSession(client, session->id, NULL);
    REQUIRE(end && !*end->alive && *end->deleted >= 8);
    puts("well");
    return 0;
}
