/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a fuzz target is: one function over raw bytes, which libFuzzer calls, or driver.c where
 * there is no libFuzzer. A target never fails by a result; it stops the program when a property
 * that must hold for every input does not.
 */
#ifndef GMV_TESTS_FUZZ_FUZZ_H
#define GMV_TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Returns 0. `data` may be NULL if `size` is 0; nothing may be kept. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Unlike assert, it is there in every build. */
#define FUZZ_REQUIRE(property)                                                                  \
    do {                                                                                        \
        if (!(property)) {                                                                      \
            (void)fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #property); \
            abort();                                                                            \
        }                                                                                       \
    } while (0)

/* Reads fixed-size values off the front of an input; what is missing reads as zero. */
typedef struct fuzz_input {
    const uint8_t *data;
    size_t left;
} fuzz_input;

static inline void fuzz_take(fuzz_input *input, void *out, size_t nbytes)
{
    size_t there = input->left < nbytes ? input->left : nbytes;
    memset(out, 0, nbytes);
    if (there == 0)
        return;
    memcpy(out, input->data, there);
    input->data += there;
    input->left -= there;
}

static inline uint8_t fuzz_take_byte(fuzz_input *input)
{
    uint8_t byte;
    fuzz_take(input, &byte, sizeof byte);
    return byte;
}

/* Little-endian, as the corpora are written. */
static inline int64_t fuzz_take_int64(fuzz_input *input)
{
    uint8_t bytes[8];
    uint64_t value = 0;
    fuzz_take(input, bytes, sizeof bytes);
    for (size_t i = 0; i < sizeof bytes; i++)
        value |= (uint64_t)bytes[i] << 8 * i;
    return (int64_t)value;
}

#endif
