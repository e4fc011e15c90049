/* SPDX-License-Identifier: Apache-2.0 */
/* .npy headers. The dict is a Python literal, so a shape of one extent keeps its comma. */
#include "codec/npy.h"

#include <string.h>

#define NPY_ALIGNMENT 64
#define NPY_PROLOGUE  10 /* magic, version and the length of the dict */

static const char npy_magic[] = "\x93NUMPY\x01\x00";

static void npy_write_dict(gmv_strbuf *out, gmv_dtype dtype, bool fortran_order,
                           const int64_t *shape, size_t ndim)
{
    const char *typestr = gmv_dtype_describe(dtype)->typestr;
    gmv_strbuf_puts(out, "{'descr': '");
    gmv_strbuf_putc(out, gmv_dtype_is_named_only(dtype) ? '|' : typestr[0]);
    gmv_strbuf_puts(out, typestr + 1);
    gmv_strbuf_puts(out, "', 'fortran_order': ");
    gmv_strbuf_puts(out, fortran_order ? "True" : "False");
    gmv_strbuf_puts(out, ", 'shape': (");
    for (size_t i = 0; i < ndim; i++) {
        gmv_strbuf_puts(out, i > 0 ? ", " : "");
        gmv_strbuf_int64(out, shape[i]);
    }
    gmv_strbuf_puts(out, ndim == 1 ? ",), }" : "), }");
}

void gmv_npy_write_header(gmv_strbuf *out, gmv_dtype dtype, bool fortran_order,
                          const int64_t *shape, size_t ndim)
{
    size_t start = out->length;
    gmv_strbuf_append(out, npy_magic, sizeof npy_magic - 1);
    gmv_strbuf_append(out, "\0\0", 2);
    npy_write_dict(out, dtype, fortran_order, shape, ndim);
    while (!gmv_strbuf_failed(out) && (out->length - start + 1) % NPY_ALIGNMENT != 0)
        gmv_strbuf_putc(out, ' ');
    gmv_strbuf_putc(out, '\n');
    if (gmv_strbuf_failed(out))
        return;
    size_t length = out->length - start - NPY_PROLOGUE;
    out->data[start + NPY_PROLOGUE - 2] = (char)(length & 0xFF);
    out->data[start + NPY_PROLOGUE - 1] = (char)(length >> 8);
}
