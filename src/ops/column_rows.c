/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a fixed-width column on the host, for inspection. */
#include <gmv/base/alloc.h>

#include "ops/column_priv.h"

/* Moves bit `shift` (0 to 7) of `bytes` to bit 0; the bits past `n` become 0. */
static void rows_shift_bits(uint8_t *bytes, int64_t nbytes, unsigned shift, int64_t n)
{
    const int64_t used = gmv__bits_nbytes(n);
    for (int64_t i = 0; shift > 0 && i < used; i++) {
        const unsigned next = i + 1 < nbytes ? bytes[i + 1] : 0;
        bytes[i] = (uint8_t)((bytes[i] | next << 8) >> shift);
    }
    if (n % 8 != 0)
        bytes[used - 1] &= (uint8_t)((1u << n % 8) - 1);
}

static gmv_status rows_copy(gmv_stream *stream, const gmv_column *column, int64_t first,
                            gmv_column_rows *rows, int64_t mask_nbytes, gmv_error *err)
{
    const uint64_t width = gmv_cudf_type_width(column->type.id);
    GMV_TRY(gmv__view_use(stream, column->data, err));
    GMV_TRY(gmv_copy_out(stream, rows->data,
                         gmv_column_data_address(column) + (uint64_t)first * width,
                         (uint64_t)rows->count * width, err));
    if (rows->validity) {
        const gmv_bits bits = gmv_column_validity(column);
        const uint64_t source = bits.address + (uint64_t)(bits.offset + first) / 8;
        GMV_TRY(gmv__view_use(stream, column->null_mask, err));
        GMV_TRY(gmv_copy_out(stream, rows->validity, source, (uint64_t)mask_nbytes, err));
    }
    return gmv_stream_finish(stream, err);
}

gmv_status gmv_column_read_rows(gmv_operation *operation, gmv_column *column, int64_t first,
                                int64_t count, gmv_column_rows *out_rows, gmv_error *err)
{
    *out_rows = (gmv_column_rows){0};
    if (!gmv_cudf_type_is_fixed_width(column->type.id))
        return gmv_fail(err, GMV_ERR_DTYPE_UNSUPPORTED, NULL,
                        "rows of type %s cannot be read as elements",
                        gmv_cudf_type_name(column->type.id));
    if (first < 0 || count < 0 || first > column->size || count > column->size - first)
        return gmv_fail(err, GMV_ERR_INDEX, NULL,
                        "rows %lld and %lld more are not all among the %d rows", (long long)first,
                        (long long)count, (int)column->size);
    if (count == 0)
        return GMV_OK;
    const int64_t width = (int64_t)gmv_cudf_type_width(column->type.id);
    GMV_TRY(gmv_operation_weigh(operation, (uint64_t)(count * width), err));

    /* The bits may begin within a byte: up to one byte more than they fill. */
    const int64_t bit = column->offset + first;
    const int64_t mask_nbytes = gmv__bits_nbytes(bit + count) - bit / 8;
    gmv_column_rows rows = {.count = count};
    rows.data = gmv_malloc((size_t)(count * width));
    if (gmv_column_is_nullable(column))
        rows.validity = gmv_malloc((size_t)mask_nbytes);
    if (!rows.data || (gmv_column_is_nullable(column) && !rows.validity)) {
        gmv_column_rows_fini(&rows);
        return gmv_fail_no_memory(err);
    }

    gmv_device *device = gmv_column_device(operation->engine, column);
    gmv_stream *stream = gmv_operation_stream(operation, device);
    const gmv_status status = rows_copy(stream, column, first, &rows, mask_nbytes, err);
    if (status != GMV_OK) {
        gmv_stream_abandon(stream); /* copies may still be under way into the arrays */
        gmv_column_rows_fini(&rows);
        return status;
    }
    if (rows.validity)
        rows_shift_bits(rows.validity, mask_nbytes, (unsigned)(bit % 8), count);
    *out_rows = rows;
    return GMV_OK;
}

void gmv_column_rows_fini(gmv_column_rows *rows)
{
    gmv_free(rows->data);
    gmv_free(rows->validity);
    *rows = (gmv_column_rows){0};
}
