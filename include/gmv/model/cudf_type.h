/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model: pure values without memory or I/O: element types, slices, layouts, CUDA Array Interface
 * payloads, bitmask geometry and packed metadata. Every function is pure and thread-safe.
 *
 * cudf_type.h: cuDF's column types with the ids of cpp/include/cudf/types.hpp.
 */
#ifndef GMV_MODEL_CUDF_TYPE_H
#define GMV_MODEL_CUDF_TYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <gmv/base/attr.h>

GMV_BEGIN_DECLS

/* X(NAME, id, bytes of an element or 0, is fixed width) */
#define GMV_CUDF_TYPE_MAP(X)               \
    X(EMPTY, 0, 0, false)                  \
    X(INT8, 1, 1, true)                    \
    X(INT16, 2, 2, true)                   \
    X(INT32, 3, 4, true)                   \
    X(INT64, 4, 8, true)                   \
    X(UINT8, 5, 1, true)                   \
    X(UINT16, 6, 2, true)                  \
    X(UINT32, 7, 4, true)                  \
    X(UINT64, 8, 8, true)                  \
    X(FLOAT32, 9, 4, true)                 \
    X(FLOAT64, 10, 8, true)                \
    X(BOOL8, 11, 1, true)                  \
    X(TIMESTAMP_DAYS, 12, 4, true)         \
    X(TIMESTAMP_SECONDS, 13, 8, true)      \
    X(TIMESTAMP_MILLISECONDS, 14, 8, true) \
    X(TIMESTAMP_MICROSECONDS, 15, 8, true) \
    X(TIMESTAMP_NANOSECONDS, 16, 8, true)  \
    X(DURATION_DAYS, 17, 4, true)          \
    X(DURATION_SECONDS, 18, 8, true)       \
    X(DURATION_MILLISECONDS, 19, 8, true)  \
    X(DURATION_MICROSECONDS, 20, 8, true)  \
    X(DURATION_NANOSECONDS, 21, 8, true)   \
    X(DICTIONARY32, 22, 0, false)          \
    X(STRING, 23, 0, false)                \
    X(LIST, 24, 0, false)                  \
    X(DECIMAL32, 25, 4, true)              \
    X(DECIMAL64, 26, 8, true)              \
    X(DECIMAL128, 27, 16, true)            \
    X(STRUCT, 28, 0, false)

#define GMV_CUDF_TYPE_ENUM(name, id, nbytes, fixed) GMV_CUDF_##name = (id),
typedef enum gmv_cudf_type_id {
    GMV_CUDF_TYPE_MAP(GMV_CUDF_TYPE_ENUM) GMV_CUDF_TYPE_COUNT
} gmv_cudf_type_id;
#undef GMV_CUDF_TYPE_ENUM

#define GMV_CUDF_NONE (-1) /* an element type that cuDF does not have */

/* A column type. `scale` is the power of ten of a decimal, otherwise 0. Equal if both are. */
typedef struct gmv_cudf_type {
    int32_t id;
    int32_t scale;
} gmv_cudf_type;

/* "INT32", or NULL for an id outside the table. @borrowed, static. */
const char *gmv_cudf_type_name(int32_t id);

/* The id of a name of exactly `length` bytes, or GMV_CUDF_NONE. */
int32_t gmv_cudf_type_by_name(const char *name, size_t length);

/* Bytes of an element of a fixed-width type, otherwise 0. */
size_t gmv_cudf_type_width(int32_t id);

bool gmv_cudf_type_is_fixed_width(int32_t id);
bool gmv_cudf_type_is_decimal(int32_t id);
bool gmv_cudf_type_is_timestamp(int32_t id);
bool gmv_cudf_type_is_duration(int32_t id);

/* Rows, bit positions and null counts are cuDF's size_type, an int32. */
#define GMV_SIZE_TYPE_MAX INT32_MAX

GMV_END_DECLS

#endif
