/* SPDX-License-Identifier: Apache-2.0 */
/* SipHash against its published value, and pieces against the whole. */
#include <criterion/criterion.h>

#include "codec/siphash.h"

static const uint64_t key[2] = {UINT64_C(0x0706050403020100), UINT64_C(0x0f0e0d0c0b0a0908)};

Test(siphash, agrees_with_the_example_of_its_authors)
{
    unsigned char bytes[15];
    gmv_siphash hash;
    for (unsigned i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)i;
    gmv_siphash_init_keyed(&hash, key);
    gmv_siphash_add(&hash, bytes, sizeof bytes);
    cr_assert_eq(gmv_siphash_value(&hash), UINT64_C(0xa129ca6149be45e5));
}

Test(siphash, pieces_of_any_lengths_make_the_same_whole)
{
    unsigned char bytes[64];
    for (unsigned i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * 37 + 5);
    for (size_t n = 0; n <= sizeof bytes; n++) {
        gmv_siphash whole;
        gmv_siphash_init_keyed(&whole, key);
        gmv_siphash_add(&whole, bytes, n);
        uint64_t wanted = gmv_siphash_value(&whole);
        for (size_t first = 0; first <= n; first++) {
            gmv_siphash pieces;
            gmv_siphash_init_keyed(&pieces, key);
            gmv_siphash_add(&pieces, bytes, first);
            gmv_siphash_add(&pieces, NULL, 0);
            gmv_siphash_add(&pieces, bytes + first, n - first);
            cr_assert_eq(gmv_siphash_value(&pieces), wanted, "%zu of %zu", first, n);
        }
    }
}

Test(siphash, lengths_and_zeros_are_told_apart)
{
    static const unsigned char zeros[16];
    uint64_t values[sizeof zeros + 1];
    for (size_t n = 0; n <= sizeof zeros; n++) {
        gmv_siphash hash;
        gmv_siphash_init(&hash);
        gmv_siphash_add(&hash, zeros, n);
        values[n] = gmv_siphash_value(&hash);
        for (size_t i = 0; i < n; i++)
            cr_assert_neq(values[i], values[n]);
    }
}
