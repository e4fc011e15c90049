/* SPDX-License-Identifier: Apache-2.0 */
/* The type table agrees with cuDF's ids, which files and clients rely on. */
#include <string.h>

#include <criterion/criterion.h>

#include <gmv/model/cudf_type.h>

Test(cudf_type, ids_are_those_of_cudf)
{
    static const struct {
        int32_t id;
        const char *name;
        size_t width;
    } rows[] = {
        {0, "EMPTY", 0},
        {1, "INT8", 1},
        {4, "INT64", 8},
        {9, "FLOAT32", 4},
        {11, "BOOL8", 1},
        {12, "TIMESTAMP_DAYS", 4},
        {16, "TIMESTAMP_NANOSECONDS", 8},
        {17, "DURATION_DAYS", 4},
        {22, "DICTIONARY32", 0},
        {23, "STRING", 0},
        {24, "LIST", 0},
        {25, "DECIMAL32", 4},
        {26, "DECIMAL64", 8},
        {27, "DECIMAL128", 16},
        {28, "STRUCT", 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        cr_expect_str_eq(gmv_cudf_type_name(rows[i].id), rows[i].name);
        cr_expect_eq(gmv_cudf_type_width(rows[i].id), rows[i].width);
        cr_expect_eq(gmv_cudf_type_is_fixed_width(rows[i].id), rows[i].width > 0);
    }
}

Test(cudf_type, every_name_leads_back_to_its_id)
{
    for (int32_t id = 0; id < GMV_CUDF_TYPE_COUNT; id++) {
        const char *name = gmv_cudf_type_name(id);
        cr_assert_not_null(name);
        cr_expect_eq(gmv_cudf_type_by_name(name, strlen(name)), id);
    }
    cr_expect_eq(GMV_CUDF_TYPE_COUNT, 29);
}

Test(cudf_type, names_match_as_a_whole_only)
{
    cr_expect_eq(gmv_cudf_type_by_name("INT", 3), GMV_CUDF_NONE);
    cr_expect_eq(gmv_cudf_type_by_name("INT644", 6), GMV_CUDF_NONE);
    cr_expect_eq(gmv_cudf_type_by_name("int64", 5), GMV_CUDF_NONE);
    cr_expect_eq(gmv_cudf_type_by_name("", 0), GMV_CUDF_NONE);
    cr_expect_eq(gmv_cudf_type_by_name("INT64xx", 5), GMV_CUDF_INT64);
}

Test(cudf_type, ids_outside_the_table_are_nothing)
{
    static const int32_t ids[] = {-1, 29, 30, 999, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
        cr_expect_null(gmv_cudf_type_name(ids[i]));
        cr_expect_eq(gmv_cudf_type_width(ids[i]), 0);
        cr_expect_not(gmv_cudf_type_is_fixed_width(ids[i]));
        cr_expect_not(gmv_cudf_type_is_decimal(ids[i]));
        cr_expect_not(gmv_cudf_type_is_timestamp(ids[i]));
        cr_expect_not(gmv_cudf_type_is_duration(ids[i]));
    }
}

Test(cudf_type, families_hold_exactly_their_members)
{
    for (int32_t id = 0; id < GMV_CUDF_TYPE_COUNT; id++) {
        const char *name = gmv_cudf_type_name(id);
        cr_expect_eq(gmv_cudf_type_is_decimal(id), strncmp(name, "DECIMAL", 7) == 0, "%s", name);
        cr_expect_eq(gmv_cudf_type_is_timestamp(id), strncmp(name, "TIMESTAMP", 9) == 0);
        cr_expect_eq(gmv_cudf_type_is_duration(id), strncmp(name, "DURATION", 8) == 0);
    }
}
