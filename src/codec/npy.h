/* SPDX-License-Identifier: Apache-2.0 */
/* The header of NumPy's .npy format, version 1.0, which suffices for every layout that is served.
 */
#ifndef GMV_CODEC_NPY_H
#define GMV_CODEC_NPY_H

#include <gmv/base/strbuf.h>
#include <gmv/model/dtype.h>

/*
 * Magic, version and a dict of descr, fortran_order and shape, padded so that what follows starts
 * at a multiple of 64. Types that NumPy lacks are raw bytes ("|V2").
 */
void gmv_npy_write_header(gmv_strbuf *out, gmv_dtype dtype, bool fortran_order,
                          const int64_t *shape, size_t ndim);

#endif
