/* SPDX-License-Identifier: Apache-2.0 */
/* Look-ups in the table of cuDF's column types, which is indexed by type id without gaps. */
#include <gmv/model/cudf_type.h>

#include <string.h>

typedef struct cudf_type_row {
    const char *name;
    uint8_t nbytes;
    bool fixed_width;
} cudf_type_row;

#define CUDF_TYPE_ROW(name, id, nbytes, fixed) [id] = {#name, nbytes, fixed},
static const cudf_type_row cudf_types[GMV_CUDF_TYPE_COUNT] = {GMV_CUDF_TYPE_MAP(CUDF_TYPE_ROW)};
#undef CUDF_TYPE_ROW

/* NULL for an id outside the table. */
static const cudf_type_row *cudf_type_find(int32_t id)
{
    return id >= 0 && id < GMV_CUDF_TYPE_COUNT ? &cudf_types[id] : NULL;
}

const char *gmv_cudf_type_name(int32_t id)
{
    const cudf_type_row *row = cudf_type_find(id);
    return row != NULL ? row->name : NULL;
}

int32_t gmv_cudf_type_by_name(const char *name, size_t length)
{
    for (int32_t id = 0; id < GMV_CUDF_TYPE_COUNT; id++)
        if (strlen(cudf_types[id].name) == length && memcmp(cudf_types[id].name, name, length) == 0)
            return id;
    return GMV_CUDF_NONE;
}

size_t gmv_cudf_type_width(int32_t id)
{
    const cudf_type_row *row = cudf_type_find(id);
    return row != NULL ? row->nbytes : 0;
}

bool gmv_cudf_type_is_fixed_width(int32_t id)
{
    const cudf_type_row *row = cudf_type_find(id);
    return row != NULL && row->fixed_width;
}

bool gmv_cudf_type_is_decimal(int32_t id)
{
    return id >= GMV_CUDF_DECIMAL32 && id <= GMV_CUDF_DECIMAL128;
}

bool gmv_cudf_type_is_timestamp(int32_t id)
{
    return id >= GMV_CUDF_TIMESTAMP_DAYS && id <= GMV_CUDF_TIMESTAMP_NANOSECONDS;
}

bool gmv_cudf_type_is_duration(int32_t id)
{
    return id >= GMV_CUDF_DURATION_DAYS && id <= GMV_CUDF_DURATION_NANOSECONDS;
}
