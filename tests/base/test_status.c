/* SPDX-License-Identifier: Apache-2.0 */
/* Status codes are a contract with clients: distinct, spelled one way, and never missing. */
#include <string.h>

#include <criterion/criterion.h>

#include <gmv/base/status.h>

Test(status, success_has_the_code_ok)
{
    cr_expect_str_eq(gmv_status_code(GMV_OK), "ok");
    cr_expect_not_null(gmv_status_title(GMV_OK));
}

Test(status, every_code_is_lower_case_with_underscores)
{
    for (int status = GMV_OK; status < GMV_STATUS_COUNT; status++) {
        const char *code = gmv_status_code((gmv_status)status);
        cr_assert_not_null(code);
        cr_expect_gt(strlen(code), 1);
        cr_expect_eq(strspn(code, "abcdefghijklmnopqrstuvwxyz_"), strlen(code), "code '%s'", code);
    }
}

Test(status, every_title_is_there_and_has_no_full_stop)
{
    for (int status = GMV_OK; status < GMV_STATUS_COUNT; status++) {
        const char *title = gmv_status_title((gmv_status)status);
        cr_assert_not_null(title);
        cr_assert_gt(strlen(title), 3);
        cr_expect_neq(title[strlen(title) - 1], '.', "title '%s'", title);
    }
}

Test(status, no_two_codes_are_equal)
{
    for (int a = GMV_OK; a < GMV_STATUS_COUNT; a++)
        for (int b = a + 1; b < GMV_STATUS_COUNT; b++)
            cr_expect_str_neq(gmv_status_code((gmv_status)a), gmv_status_code((gmv_status)b));
}

Test(status, codes_that_clients_rely_on_keep_their_names)
{
    static const struct {
        gmv_status status;
        const char *code;
    } rows[] = {
        {GMV_ERR_VALUE, "value_error"},
        {GMV_ERR_TYPE, "type_error"},
        {GMV_ERR_OUT_OF_BOUNDS, "out_of_bounds"},
        {GMV_ERR_POINTER_NOT_REGISTERED, "pointer_not_registered"},
        {GMV_ERR_METADATA_INVALID, "metadata_invalid"},
        {GMV_ERR_DTYPE_UNSUPPORTED, "dtype_unsupported"},
        {GMV_ERR_HANDLE_DELETED, "handle_deleted"},
        {GMV_ERR_OVERLOADED, "overloaded"},
        {GMV_ERR_DEVICE_LOST, "device_lost"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        cr_expect_str_eq(gmv_status_code(rows[i].status), rows[i].code);
}

Test(status, a_value_outside_the_table_is_an_internal_fault)
{
    static const int values[] = {GMV_STATUS_COUNT, GMV_MOVE_TO_BULK, GMV_RUN_AGAIN, -1, 123456};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        cr_expect_str_eq(gmv_status_code((gmv_status)values[i]), "internal");
        cr_expect_str_eq(gmv_status_title((gmv_status)values[i]),
                         gmv_status_title(GMV_ERR_INTERNAL));
    }
}
