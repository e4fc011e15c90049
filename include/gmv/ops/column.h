/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Columns: a cuDF type over data, null mask and children. Row r of a column is element and bit
 * `offset + r` of its data and mask. The same holds one level down: element i of an offsets child
 * is its row `offset of the parent + i`, and row r of a struct is row `offset + r` of each field,
 * the child's own offset added. A column may be the child of several others and several times of
 * one, so the tree below it can be far larger than what is stored: it is counted when a column is
 * made, and bounded.
 */
#ifndef GMV_OPS_COLUMN_H
#define GMV_OPS_COLUMN_H

#include <gmv/device/kernels.h>
#include <gmv/model/packed_metadata.h>
#include <gmv/ops/view.h>

GMV_BEGIN_DECLS

typedef struct gmv_column {
    gmv_node node;
    gmv_cudf_type type;
    int32_t size;        /* rows */
    int32_t offset;      /* of the first row, in elements of data and bits of the mask */
    int32_t null_count;  /* as counted at creation */
    gmv_view *data;      /* owner; elements or characters; NULL where there are none */
    gmv_view *null_mask; /* owner; NULL if none */
    uint32_t n_children;
    struct gmv_column **children; /* owners; fixed-width types have none */
    int32_t device;               /* ordinal, -1 for none; one for the whole tree */
    uint32_t depth;               /* levels below this one: 0 without children */
    uint32_t n_entries;           /* columns of the tree, this one included */
    int64_t device_buffer_size;   /* of the tree */
} gmv_column;

static inline gmv_column *gmv_column_of(gmv_node *node)
{
    return (gmv_column *)node;
}

/* Has a mask of more than 0 bytes. */
bool gmv_column_is_nullable(const gmv_column *column);

/* Address of row 0 in the data (offset applied); of the first character; 0 if none. */
uint64_t gmv_column_data_address(const gmv_column *column);

/* Validity from row 0 (offset applied); address 0 if there is no mask. */
gmv_bits gmv_column_validity(const gmv_column *column);

/* nbytes of data and mask, children added, shared memory counted each time (as pylibcudf). */
int64_t gmv_column_device_buffer_size(const gmv_column *column);

/* The column's device among the engine's; NULL if it has no memory. */
gmv_device *gmv_column_device(gmv_engine *engine, const gmv_column *column);

typedef struct gmv_column_request {
    gmv_cudf_type type;
    int64_t size;        /* 0..2^31-1 */
    int64_t offset;      /* 0..2^31-1, and so is their sum */
    gmv_view *data;      /* NULL: none */
    gmv_view *null_mask; /* NULL or 0 bytes: none */
    bool has_null_count;
    int64_t null_count;
    gmv_column *const *children;
    size_t n_children;
} gmv_column_request;

/*
 * What can be said without looking at data, mask and children: type, scale, sizes, the range of
 * null_count, how many children there are.
 */
GMV_NODISCARD gmv_status gmv_column_check_members(const gmv_column_request *request,
                                                  gmv_error *err);

/*
 * POST /v1/columns. Counts nulls, and looks at offsets and indices once, on the device.
 *
 * @retval GMV_ERR_VALUE              sizes, a scale on a type that has none, data missing for rows
 * or where the type has none, misaligned data, a null count that is not the mask's, nulls without a
 * mask, memory on two devices; children of the wrong number ("/children"), type or size, with nulls
 * or values that lead outside ("/children/N")
 * @retval GMV_ERR_DTYPE_UNSUPPORTED  not a type ("/type/name")
 * @retval GMV_ERR_OUT_OF_BOUNDS      data ("/data") or mask ("/null_mask") too short for offset +
 * size
 * @retval GMV_ERR_NOT_CONTIGUOUS
 */
GMV_NODISCARD gmv_status gmv_column_create(gmv_operation *operation,
                                           const gmv_column_request *request,
                                           const gmv_creation *creation, gmv_column **out_column,
                                           gmv_error *err);

/*
 * POST /v1/columns/from_view; a contiguous typed view, its own mask becoming the null mask of the
 * elements. n dimensions become n - 1 levels of lists, all but the outermost inner handles.
 * Pointer "/view".
 *
 * @retval GMV_ERR_VALUE              0-d, too many rows at some level
 * @retval GMV_ERR_DTYPE_UNSUPPORTED  an element type that cuDF lacks
 * @retval GMV_ERR_NOT_CONTIGUOUS
 */
GMV_NODISCARD gmv_status gmv_column_from_view(gmv_operation *operation, gmv_view *view,
                                              const gmv_creation *creation, gmv_column **out_column,
                                              gmv_error *err);

/* Deepest nesting (as unpack reads it), and most columns in one tree. */
#define GMV_COLUMN_DEPTH_MAX   GMV_PACKED_DEPTH_MAX
#define GMV_COLUMN_ENTRIES_MAX (1u << 20)

/* What a column is made of. All parts are prepared or published, and lie on one device. */
typedef struct gmv_column_parts {
    gmv_cudf_type type;
    int32_t size;
    int32_t offset;
    int32_t null_count;
    gmv_view *data;      /* NULL: none */
    gmv_view *null_mask; /* NULL: none */
    gmv_column *const *children;
    size_t n_children;
} gmv_column_parts;

/*
 * Prepares (does not publish) a column. For ops.
 *
 * @retval GMV_ERR_QUOTA_EXCEEDED  deeper or larger than the bounds above (pointer "/children")
 */
GMV_NODISCARD gmv_status gmv_column_prepare(gmv_operation *operation, const gmv_column_parts *parts,
                                            const gmv_creation *creation, bool inner,
                                            gmv_column **out_column, gmv_error *err);

/* Undoes gmv_column_prepare; views and children are left. NULL: nothing. */
void gmv_column_discard(gmv_engine *engine, gmv_column *column);

/*
 * Rows of a column on the host, and the rows of its children that they lead to. Whatever the device
 * holds, offsets and keys lead to rows that are there.
 */
typedef struct gmv_column_rows {
    gmv_cudf_type type;
    int64_t count;
    void *data; /* fixed-width: `count` elements; STRING: the characters */
    uint8_t
        *validity;    /* ceil(count / 8) bytes from bit 0; NULL: all valid (but of EMPTY none is) */
    int64_t *offsets; /* STRING, LIST: count + 1 of them, from 0, never decreasing */
    int64_t *keys;    /* DICTIONARY32: which child and which of its rows, or GMV_COLUMN_NO_KEY */
    size_t n_children; /* LIST: 1, the elements; STRUCT: the fields; DICTIONARY32: runs of keys */
    struct gmv_column_rows *children; /* NULL without rows */
} gmv_column_rows;

#define GMV_COLUMN_NO_KEY         (-1) /* null rows, and where there are no keys at all */
#define GMV_COLUMN_KEY_CHILD(key) ((size_t)((key) >> 32))
#define GMV_COLUMN_KEY_ROW(key)   ((int64_t)((key)&0xffffffff))

static inline bool gmv_column_rows_valid(const gmv_column_rows *rows, int64_t row)
{
    return !rows->validity || ((unsigned)rows->validity[row / 8] >> (row % 8) & 1) != 0;
}

/* What one call reads at most: values of all levels, with so many more for each column, and bytes.
 */
#define GMV_COLUMN_ROWS_VALUES_MAX (1 << 20)
#define GMV_COLUMN_ROWS_PER_COLUMN 16
#define GMV_COLUMN_ROWS_NBYTES_MAX (16 << 20)

/*
 * Reads rows [first, first + count) with one wait for the device at each level of nesting. Freed by
 * gmv_column_rows_fini.
 *
 * @retval GMV_ERR_INDEX           not all of them are rows of the column
 * @retval GMV_ERR_QUOTA_EXCEEDED  more than the bounds above
 */
GMV_NODISCARD gmv_status gmv_column_read_rows(gmv_operation *operation, gmv_column *column,
                                              int64_t first, int64_t count,
                                              gmv_column_rows *out_rows, gmv_error *err);

/* Frees them with all their children, and leaves zeroes. */
void gmv_column_rows_fini(gmv_column_rows *rows);

GMV_END_DECLS

#endif
