/* SPDX-License-Identifier: Apache-2.0 */
/* Problem documents: a status for each code, and text that is valid whatever the error holds. */
#include <string.h>

#include <criterion/criterion.h>
#include <jansson.h>

#include <gmv/base/alloc.h>

#include "codec/problem.h"

static json_t *problem_read(const gmv_error *err, const char *request_id)
{
    gmv_strbuf out = GMV_STRBUF_INIT;
    gmv_problem_write(&out, err, request_id);
    cr_assert_not(gmv_strbuf_failed(&out));
    json_error_t fault;
    json_t *root = json_loadb(out.data, out.length, JSON_REJECT_DUPLICATES, &fault);
    cr_assert_not_null(root, "%s in %s", fault.text, out.data);
    gmv_strbuf_fini(&out);
    return root;
}

static const char *problem_text(const json_t *root, const char *name)
{
    return json_string_value(json_object_get(root, name));
}

Test(problem, code_has_the_status_of_the_contract)
{
    static const struct {
        int http_status;
        const char *codes;
    } rows[] = {
        {400, "json_malformed request_malformed"},
        {401, "unauthenticated"},
        {403, "scope_missing readonly"},
        {404, "route_unknown handle_unknown"},
        {405, "method_not_allowed"},
        {409, "held_by_dependents handle_inner already_released handle_exported_here memory_lost "
              "idempotency_in_flight"},
        {410, "handle_deleted"},
        {412, "precondition_failed"},
        {413, "body_too_large"},
        {415, "media_type_unsupported"},
        {416, "range_not_satisfiable"},
        {431, "header_too_large"},
        {422, "value_error type_error index_error dtype_unsupported pointer_not_registered "
              "pointer_ambiguous out_of_bounds not_contiguous kind_mismatch metadata_invalid "
              "handle_invalid not_exportable backend_unsupported idempotency_mismatch"},
        {429, "quota_exceeded"},
        {503, "overloaded draining device_lost"},
        {507, "device_out_of_memory"},
        {500, "internal"},
    };
    for (int status = GMV_OK + 1; status < GMV_STATUS_COUNT; status++) {
        const char *code = gmv_status_code((gmv_status)status);
        int found = 0;
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
            const char *at = strstr(rows[i].codes, code);
            size_t length = strlen(code);
            if (at != NULL && (at == rows[i].codes || at[-1] == ' ') &&
                (at[length] == ' ' || at[length] == '\0'))
                found = rows[i].http_status;
        }
        cr_assert_eq(gmv_problem_http_status((gmv_status)status), found, "%s: %d, not %d", code,
                     gmv_problem_http_status((gmv_status)status), found);
    }
}

Test(problem, members_stand_in_the_order_of_the_contract)
{
    gmv_error err;
    gmv_strbuf out = GMV_STRBUF_INIT;
    gmv_error_init(&err);
    (void)gmv_fail(&err, GMV_ERR_VALUE, "/step", "byte_slice only supports a step of 1, not 2");
    gmv_problem_write(&out, &err, "r-1");
    cr_assert_str_eq(
        out.data,
        "{\"type\":\"about:blank\",\"title\":\"Unprocessable Content\",\"status\":422,"
        "\"code\":\"value_error\",\"detail\":\"byte_slice only supports a step of 1, not 2\","
        "\"pointer\":\"/step\",\"request_id\":\"r-1\"}");
    gmv_strbuf_fini(&out);
}

Test(problem, empty_pointer_is_told_and_an_absent_one_is_not)
{
    gmv_error err;
    gmv_error_init(&err);
    (void)gmv_fail(&err, GMV_ERR_TYPE, "", "x");
    json_t *root = problem_read(&err, "r");
    cr_assert_str_eq(problem_text(root, "pointer"), "");
    json_decref(root);
    gmv_error_init(&err);
    (void)gmv_fail(&err, GMV_ERR_TYPE, NULL, "x");
    root = problem_read(&err, "r");
    cr_assert_null(json_object_get(root, "pointer"));
    cr_assert_null(json_object_get(root, "parameter"));
    json_decref(root);
}

Test(problem, parameter_is_told)
{
    gmv_error err;
    gmv_error_init(&err);
    (void)gmv_fail_parameter(&err, GMV_ERR_REQUEST_MALFORMED, "limit", "x");
    json_t *root = problem_read(&err, "r");
    cr_assert_str_eq(problem_text(root, "parameter"), "limit");
    cr_assert_eq(json_integer_value(json_object_get(root, "status")), 400);
    json_decref(root);
}

Test(problem, deleted_handle_is_told_with_its_life)
{
    gmv_error err;
    char id[GMV_ID_TEXT_MAX];
    gmv_error_init(&err);
    (void)gmv_fail(&err, GMV_ERR_HANDLE_DELETED, "/input", "gone");
    cr_assert(gmv_id_generate(GMV_KIND_VIEW, &err.subject));
    gmv_id_format(&err.subject, id);
    err.has_subject = true;
    err.subject_alive = true;
    err.subject_reason = "cascade";
    json_t *root = problem_read(&err, "r");
    cr_assert_str_eq(problem_text(root, "title"), "Gone");
    cr_assert_str_eq(problem_text(root, "id"), id);
    cr_assert(json_is_true(json_object_get(root, "alive")));
    cr_assert_str_eq(problem_text(root, "reason"), "cascade");
    json_decref(root);
}

Test(problem, dependents_are_capped_and_counted)
{
    gmv_error err;
    gmv_error_init(&err);
    (void)gmv_fail(&err, GMV_ERR_HELD_BY_DEPENDENTS, NULL, "held");
    for (size_t i = 0; i < GMV_ERROR_IDS_MAX; i++)
        cr_assert(gmv_id_generate(GMV_KIND_VIEW, &err.dependents[i]));
    err.dependents_count = 12345;
    json_t *root = problem_read(&err, "r");
    cr_assert_eq(json_array_size(json_object_get(root, "dependents")), GMV_ERROR_IDS_MAX);
    cr_assert_eq(json_integer_value(json_object_get(root, "dependents_count")), 12345);
    json_decref(root);
}

Test(problem, internal_faults_are_not_told)
{
    gmv_error err;
    gmv_error_init(&err);
    (void)gmv_fail(&err, GMV_ERR_INTERNAL, "/secret", "driver said secret");
    json_t *root = problem_read(&err, "r");
    const char *name;
    json_t *value;
    json_object_foreach (root, name, value) {
        cr_assert(!json_is_string(value) || strstr(json_string_value(value), "secret") == NULL,
                  "%s", name);
    }
    cr_assert_str_eq(problem_text(root, "code"), "internal");
    json_decref(root);
}

Test(problem, text_is_valid_whatever_the_error_holds)
{
    gmv_error err;
    gmv_error_init(&err);
    (void)gmv_fail(&err, GMV_ERR_VALUE, "/\xFF\x01\"\\", "%s", "a\xC3\x28\xED\xA0\x80\"\n\x7F");
    json_t *root = problem_read(&err, "\xF0\x90");
    cr_assert_str_eq(problem_text(root, "pointer"), "/\xEF\xBF\xBD\x01\"\\");
    json_decref(root);
}

Test(problem, long_messages_cut_within_a_character_stay_valid)
{
    char message[2 * GMV_ERROR_MESSAGE_MAX];
    gmv_error err;
    for (size_t i = 0; i + 1 < sizeof message; i++)
        message[i] = (char)(i % 2 == 0 ? 0xC3 : 0xBC);
    message[sizeof message - 1] = '\0';
    gmv_error_init(&err);
    (void)gmv_fail(&err, GMV_ERR_VALUE, NULL, "x%s", message);
    json_decref(problem_read(&err, "r"));
    gmv_error_init(&err);
    (void)gmv_fail(&err, GMV_ERR_VALUE, NULL, "%s", message);
    json_decref(problem_read(&err, "r"));
}

Test(problem, running_out_of_memory_shows_in_the_buffer)
{
    gmv_error err;
    gmv_strbuf out = GMV_STRBUF_INIT;
    gmv_error_init(&err);
    (void)gmv_fail(&err, GMV_ERR_VALUE, NULL, "x");
    gmv_alloc_fail_from(1);
    gmv_problem_write(&out, &err, "r");
    gmv_alloc_fail_from(0);
    cr_assert(gmv_strbuf_failed(&out));
    gmv_strbuf_fini(&out);
}
