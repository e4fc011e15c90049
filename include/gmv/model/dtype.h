/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Element types of views and their NumPy type strings (reference: NumPy array interface, CUDA
 * Array Interface). One table says everything about a type. The machine-learning types have no type
 * string of their own: they stand as raw bytes ("<V2") and are told by name.
 */
#ifndef GMV_MODEL_DTYPE_H
#define GMV_MODEL_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <gmv/base/error.h>
#include <gmv/model/cudf_type.h>

GMV_BEGIN_DECLS

/* X(NAME, typestr, NumPy name, item bytes, alignment, KIND, cuDF type) */
#define GMV_DTYPE_MAP(X)                                                                    \
    X(U1, "|u1", "uint8", 1, 1, UNSIGNED, GMV_CUDF_UINT8)                                   \
    X(U2, "<u2", "uint16", 2, 2, UNSIGNED, GMV_CUDF_UINT16)                                 \
    X(U4, "<u4", "uint32", 4, 4, UNSIGNED, GMV_CUDF_UINT32)                                 \
    X(U8, "<u8", "uint64", 8, 8, UNSIGNED, GMV_CUDF_UINT64)                                 \
    X(I1, "|i1", "int8", 1, 1, SIGNED, GMV_CUDF_INT8)                                       \
    X(I2, "<i2", "int16", 2, 2, SIGNED, GMV_CUDF_INT16)                                     \
    X(I4, "<i4", "int32", 4, 4, SIGNED, GMV_CUDF_INT32)                                     \
    X(I8, "<i8", "int64", 8, 8, SIGNED, GMV_CUDF_INT64)                                     \
    X(F2, "<f2", "float16", 2, 2, FLOAT, GMV_CUDF_NONE)                                     \
    X(F4, "<f4", "float32", 4, 4, FLOAT, GMV_CUDF_FLOAT32)                                  \
    X(F8, "<f8", "float64", 8, 8, FLOAT, GMV_CUDF_FLOAT64)                                  \
    X(B1, "|b1", "bool", 1, 1, BOOLEAN, GMV_CUDF_BOOL8)                                     \
    X(C8, "<c8", "complex64", 8, 4, COMPLEX, GMV_CUDF_NONE)                                 \
    X(C16, "<c16", "complex128", 16, 8, COMPLEX, GMV_CUDF_NONE)                             \
    X(M8_S, "<M8[s]", "datetime64[s]", 8, 8, DATETIME, GMV_CUDF_TIMESTAMP_SECONDS)          \
    X(M8_MS, "<M8[ms]", "datetime64[ms]", 8, 8, DATETIME, GMV_CUDF_TIMESTAMP_MILLISECONDS)  \
    X(M8_US, "<M8[us]", "datetime64[us]", 8, 8, DATETIME, GMV_CUDF_TIMESTAMP_MICROSECONDS)  \
    X(M8_NS, "<M8[ns]", "datetime64[ns]", 8, 8, DATETIME, GMV_CUDF_TIMESTAMP_NANOSECONDS)   \
    X(TD_S, "<m8[s]", "timedelta64[s]", 8, 8, TIMEDELTA, GMV_CUDF_DURATION_SECONDS)         \
    X(TD_MS, "<m8[ms]", "timedelta64[ms]", 8, 8, TIMEDELTA, GMV_CUDF_DURATION_MILLISECONDS) \
    X(TD_US, "<m8[us]", "timedelta64[us]", 8, 8, TIMEDELTA, GMV_CUDF_DURATION_MICROSECONDS) \
    X(TD_NS, "<m8[ns]", "timedelta64[ns]", 8, 8, TIMEDELTA, GMV_CUDF_DURATION_NANOSECONDS)  \
    X(BF16, "<V2", "bfloat16", 2, 2, FLOAT, GMV_CUDF_NONE)                                  \
    X(F8_E4M3FN, "|V1", "float8_e4m3fn", 1, 1, FLOAT, GMV_CUDF_NONE)                        \
    X(F8_E5M2, "|V1", "float8_e5m2", 1, 1, FLOAT, GMV_CUDF_NONE)

#define GMV_DTYPE_ENUM(name, typestr, numpy, nbytes, alignment, kind, cudf) GMV_DTYPE_##name,
typedef enum gmv_dtype { GMV_DTYPE_MAP(GMV_DTYPE_ENUM) GMV_DTYPE_COUNT } gmv_dtype;
#undef GMV_DTYPE_ENUM

typedef enum gmv_dtype_kind {
    GMV_DTYPE_UNSIGNED,
    GMV_DTYPE_SIGNED,
    GMV_DTYPE_FLOAT,
    GMV_DTYPE_BOOLEAN,
    GMV_DTYPE_COMPLEX,
    GMV_DTYPE_DATETIME,
    GMV_DTYPE_TIMEDELTA
} gmv_dtype_kind;

typedef struct gmv_dtype_info {
    const char *typestr; /* canonical: '|' for one byte, '<' otherwise */
    const char *name;    /* NumPy's name of the dtype */
    uint8_t itemsize;    /* bytes */
    uint8_t alignment;   /* bytes */
    gmv_dtype_kind kind;
    int32_t cudf_type; /* type id or GMV_CUDF_NONE */
} gmv_dtype_info;

/* @borrowed, static. */
const gmv_dtype_info *gmv_dtype_describe(gmv_dtype dtype);

/*
 * Reads a type string of exactly `length` bytes: byte order, kind, size and a unit for M and m.
 * '<' and '|' are native, on every size. Grammar: three parts exactly, no leading zeros, no spaces.
 *
 * @retval GMV_ERR_VALUE              not a type string ("f8", "<i4x", "=f4", "<f04", non-ASCII)
 * @retval GMV_ERR_DTYPE_UNSUPPORTED  a well-formed one that is not served: '>' on any, O S U V t,
 *                                    16-byte floats, other units, sizes that NumPy lacks ("<i99")
 * The error has the pointer "/typestr".
 */
GMV_NODISCARD gmv_status gmv_dtype_parse(const char *typestr, size_t length, gmv_dtype *out_dtype,
                                         gmv_error *err);

/* Whether the type has a name only: a machine-learning type, whose type string means raw bytes. */
bool gmv_dtype_is_named_only(gmv_dtype dtype);

/* The named-only type of this name ("bfloat16") of exactly `length` bytes; false for others. */
GMV_NODISCARD bool gmv_dtype_by_name(const char *name, size_t length, gmv_dtype *out_dtype);

/*
 * Reads the type string of elements that are said to be of `named`, a named-only type: any type
 * string of that item size will do, as producers use "<V2" and "<u2" for bfloat16.
 *
 * @retval GMV_ERR_VALUE              not a type string, or one of another item size
 * @retval GMV_ERR_DTYPE_UNSUPPORTED  as gmv_dtype_parse; raw bytes of another size, too
 */
GMV_NODISCARD gmv_status gmv_dtype_parse_named(const char *typestr, size_t length, gmv_dtype named,
                                               gmv_dtype *out_dtype, gmv_error *err);

/* The dtype whose cuDF type is `type_id` (days and decimals have none): false if there is none. */
GMV_NODISCARD bool gmv_dtype_from_cudf(int32_t type_id, gmv_dtype *out_dtype);

GMV_END_DECLS

#endif
