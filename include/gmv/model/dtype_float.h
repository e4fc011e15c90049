/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Floats that C has no type for: float16, bfloat16, float8_e4m3fn, float8_e5m2. A sign, an exponent
 * and a mantissa from the highest bit down, subnormals included; float32 holds every value of them.
 */
#ifndef GMV_MODEL_DTYPE_FLOAT_H
#define GMV_MODEL_DTYPE_FLOAT_H

#include <gmv/model/dtype.h>

GMV_BEGIN_DECLS

typedef struct gmv_small_float {
    uint8_t exponent_bits;
    uint8_t mantissa_bits;
    bool has_infinity; /* else only all ones in both parts is no number */
} gmv_small_float;

/* How a small float is laid out, NULL for every other type. @borrowed, static. */
const gmv_small_float *gmv_small_float_describe(gmv_dtype dtype);

/* The value of an element's bits, exactly. */
float gmv_small_float_value(const gmv_small_float *format, uint16_t bits);

/* The bits of the element at any address: one byte or two. */
uint16_t gmv_small_float_bits(const gmv_small_float *format, const void *element);

/*
 * The finite value that a magnitude rounds to, ties to even, or infinity where it rounds to one
 * beyond the largest.
 */
double gmv_small_float_round(const gmv_small_float *format, double magnitude);

/* 2^(1 - bias): the least magnitude that has all of its mantissa. */
double gmv_small_float_least_normal(const gmv_small_float *format);

double gmv_small_float_largest(const gmv_small_float *format);

/* The value of IEEE 754 binary16 bits, exactly. */
float gmv_float16_value(uint16_t bits);

GMV_END_DECLS

#endif
