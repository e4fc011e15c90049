/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inner loops of the host kernels, in as many sets as there are instruction sets worth one. All
 * work on whole 64-bit words of bits: host_kernels.c handles what is left over at both ends.
 *
 * `bits` and `shift` (0 to 7) say where a string of bits begins: at bit `shift` of the byte `bits`.
 * Output words are aligned to 8 and do not overlap an input.
 */
#ifndef GMV_DEVICE_HOST_KERNEL_SET_H
#define GMV_DEVICE_HOST_KERNEL_SET_H

#include <gmv/device/kernels.h>

#include "device/host/client_memory.h"

/*
 * 64 elements of `input` make a word; `validity` (NULL: all ones) is and-ed to it. Returns the
 * number of ones.
 */
typedef int64_t (*host_valid_words)(const uint8_t *input, const uint8_t *validity, unsigned shift,
                                    size_t n_words, uint8_t *output);

#define HOST_COPY_COUNT      1u
#define HOST_COPY_PAST_CACHE 2u

typedef struct host_kernel_set {
    const char *name;
    host_valid_words valid_words[3]; /* by gmv_predicate */

    /* A byte of 0 or 1 for each bit. */
    void (*expand_words)(const uint8_t *bits, unsigned shift, size_t n_words, uint8_t *output);

    /*
     * Moves words to bit 0. Returns the number of ones if `copy` has HOST_COPY_COUNT, else
     * anything; with HOST_COPY_PAST_CACHE the output is not read again soon, and is aligned to 64.
     */
    int64_t (*copy_words)(const uint8_t *bits, unsigned shift, size_t n_words, uint8_t *output,
                          unsigned copy);

    /* and-s or or-s words to what the output holds. */
    void (*and_words)(const uint8_t *bits, unsigned shift, size_t n_words, uint8_t *output);
    void (*or_words)(const uint8_t *bits, unsigned shift, size_t n_words, uint8_t *output);

    /* Ones in n_words words from a byte of any alignment. */
    int64_t (*count_words)(const uint8_t *bits, size_t n_words);

    /* Index of the first word that is not 0; n_words if there is none. */
    size_t (*find_word)(const uint8_t *bits, size_t n_words);
} host_kernel_set;

extern const host_kernel_set gmv__host_portable_set;

/* NULL if this processor or this build has none. */
const host_kernel_set *gmv__host_avx2_set(void);

/* The word of 64 bits from bit `shift` of `bits`: reads a ninth byte only if that holds some of it.
 */
CLIENT_INLINE uint64_t host_word(const uint8_t *bits, unsigned shift)
{
    uint64_t word = client_load64(bits);
    if (shift)
        word = word >> shift | (uint64_t)bits[8] << (64 - shift);
    return word;
}

#endif
