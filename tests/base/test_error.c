/* SPDX-License-Identifier: Apache-2.0 */
/* An error value is always whole: terminated, printable, with a pointer that names a real place. */
#include <string.h>

#include <criterion/criterion.h>

#include <gmv/base/error.h>

static gmv_status error_try(gmv_status status)
{
    GMV_TRY(status);
    return GMV_ERR_INTERNAL;
}

Test(error, a_fresh_one_says_nothing)
{
    gmv_error err;
    memset(&err, 0xff, sizeof err);
    gmv_error_init(&err);
    cr_expect_eq(err.status, GMV_OK);
    cr_expect_not(err.has_pointer);
    cr_expect_str_empty(err.message);
    cr_expect_str_empty(err.pointer);
    cr_expect_str_empty(err.parameter);
    cr_expect_not(err.has_subject);
    cr_expect_eq(err.dependents_count, 0);
    cr_expect_null(err.subject_reason);
}

Test(error, failing_fills_it_and_returns_the_status)
{
    gmv_error err;
    gmv_error_init(&err);
    gmv_status status = gmv_fail(&err, GMV_ERR_VALUE, "/shape/1", "extent %d is negative", -3);
    cr_expect_eq(status, GMV_ERR_VALUE);
    cr_expect_eq(err.status, GMV_ERR_VALUE);
    cr_expect_str_eq(err.message, "extent -3 is negative");
    cr_expect(err.has_pointer);
    cr_expect_str_eq(err.pointer, "/shape/1");
    cr_expect_str_empty(err.parameter);
    cr_expect_not_null(strstr(err.file, "test_error.c"));
    cr_expect_gt(err.line, 0);
}

Test(error, no_pointer_and_the_empty_pointer_differ)
{
    gmv_error err;
    gmv_error_init(&err);
    (void)gmv_fail(&err, GMV_ERR_VALUE, NULL, "none");
    cr_expect_not(err.has_pointer);
    (void)gmv_fail(&err, GMV_ERR_VALUE, "", "the whole body");
    cr_expect(err.has_pointer);
    cr_expect_str_empty(err.pointer);
}

Test(error, nobody_has_to_listen)
{
    cr_expect_eq(gmv_fail(NULL, GMV_ERR_TYPE, "/a", "text"), GMV_ERR_TYPE);
    cr_expect_eq(gmv_fail_parameter(NULL, GMV_ERR_TYPE, "limit", "text"), GMV_ERR_TYPE);
    gmv_error_prefix_pointer(NULL, "/operations/3");
}

Test(error, a_parameter_is_named_without_a_pointer)
{
    gmv_error err;
    gmv_error_init(&err);
    (void)gmv_fail(&err, GMV_ERR_VALUE, "/a", "before");
    gmv_status status = gmv_fail_parameter(&err, GMV_ERR_REQUEST_MALFORMED, "limit", "is %d", 0);
    cr_expect_eq(status, GMV_ERR_REQUEST_MALFORMED);
    cr_expect_str_eq(err.parameter, "limit");
    cr_expect_str_eq(err.message, "is 0");
    cr_expect_not(err.has_pointer);
}

Test(error, long_texts_are_cut_and_terminated)
{
    char text[2000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    gmv_error err;
    gmv_error_init(&err);
    (void)gmv_fail_parameter(&err, GMV_ERR_VALUE, text, "%s", text);
    cr_expect_eq(strlen(err.message), GMV_ERROR_MESSAGE_MAX - 1);
    cr_expect_eq(strlen(err.parameter), GMV_ERROR_PARAMETER_MAX - 1);
}

Test(error, a_message_holds_printable_ascii_only)
{
    gmv_error err;
    gmv_error_init(&err);
    (void)gmv_fail(&err, GMV_ERR_VALUE, NULL, "%s", "a\x01\n\x7f\xc3\xa4z");
    cr_expect_str_eq(err.message, "a?????z");
    (void)gmv_fail_parameter(&err, GMV_ERR_VALUE, "li\xffmit", "text");
    cr_expect_str_eq(err.parameter, "li?mit");
}

Test(error, a_pointer_that_is_too_long_names_an_ancestor)
{
    char pointer[600] = "/operations/3";
    size_t kept = strlen(pointer);
    pointer[kept] = '/';
    memset(pointer + kept + 1, 'k', 400);
    pointer[kept + 401] = '\0';
    gmv_error err;
    gmv_error_init(&err);
    (void)gmv_fail(&err, GMV_ERR_VALUE, pointer, "text");
    cr_expect(err.has_pointer);
    cr_expect_str_eq(err.pointer, "/operations/3");
}

Test(error, the_longest_pointer_fits_and_one_more_byte_does_not)
{
    char pointer[GMV_ERROR_POINTER_MAX + 1];
    memset(pointer, 'k', sizeof pointer);
    pointer[0] = '/';
    pointer[GMV_ERROR_POINTER_MAX - 1] = '\0';
    gmv_error err;
    gmv_error_init(&err);
    (void)gmv_fail(&err, GMV_ERR_VALUE, pointer, "text");
    cr_expect_str_eq(err.pointer, pointer);
    pointer[GMV_ERROR_POINTER_MAX - 1] = 'k';
    pointer[GMV_ERROR_POINTER_MAX] = '\0';
    (void)gmv_fail(&err, GMV_ERR_VALUE, pointer, "text");
    cr_expect_str_empty(err.pointer);
}

Test(error, a_prefix_goes_in_front_of_a_pointer)
{
    gmv_error err;
    gmv_error_init(&err);
    (void)gmv_fail(&err, GMV_ERR_VALUE, "/stop", "text");
    gmv_error_prefix_pointer(&err, "/operations/3");
    cr_expect_str_eq(err.pointer, "/operations/3/stop");
    (void)gmv_fail(&err, GMV_ERR_VALUE, "", "text");
    gmv_error_prefix_pointer(&err, "/operations/3");
    cr_expect_str_eq(err.pointer, "/operations/3");
}

Test(error, a_prefix_changes_nothing_without_a_pointer)
{
    gmv_error err;
    gmv_error_init(&err);
    (void)gmv_fail(&err, GMV_ERR_VALUE, NULL, "text");
    gmv_error_prefix_pointer(&err, "/operations/3");
    cr_expect_not(err.has_pointer);
    cr_expect_str_empty(err.pointer);
}

Test(error, a_prefix_that_makes_it_too_long_cuts_at_a_member)
{
    char tail[GMV_ERROR_POINTER_MAX];
    memset(tail, 'k', sizeof tail);
    memcpy(tail, "/a/b/", 5);
    tail[sizeof tail - 1] = '\0';
    gmv_error err;
    gmv_error_init(&err);
    (void)gmv_fail(&err, GMV_ERR_VALUE, tail, "text");
    gmv_error_prefix_pointer(&err, "/operations/3");
    cr_expect_str_eq(err.pointer, "/operations/3/a/b");
}

Test(error, it_may_be_built_from_its_own_texts)
{
    gmv_error err;
    gmv_error_init(&err);
    (void)gmv_fail(&err, GMV_ERR_VALUE, "/a/b", "inner");
    (void)gmv_fail(&err, GMV_ERR_METADATA_INVALID, err.pointer, "outer: %s", err.message);
    cr_expect_str_eq(err.message, "outer: inner");
    cr_expect_str_eq(err.pointer, "/a/b");
}

Test(error, failing_again_forgets_the_old_subject)
{
    gmv_error err;
    gmv_error_init(&err);
    (void)gmv_fail(&err, GMV_ERR_HANDLE_DELETED, NULL, "gone");
    err.has_subject = true;
    err.dependents_count = 7;
    (void)gmv_fail(&err, GMV_ERR_VALUE, NULL, "other");
    cr_expect_not(err.has_subject);
    cr_expect_eq(err.dependents_count, 0);
}

Test(error, trying_passes_failures_on_and_success_by)
{
    cr_expect_eq(error_try(GMV_ERR_INDEX), GMV_ERR_INDEX);
    cr_expect_eq(error_try(GMV_OK), GMV_ERR_INTERNAL);
}

Test(error, running_out_of_memory_has_a_status_of_its_own)
{
    gmv_error err;
    gmv_error_init(&err);
    cr_expect_eq(gmv_fail_no_memory(&err), GMV_ERR_OVERLOADED);
    cr_expect_not_null(strstr(err.message, "memory"));
}
