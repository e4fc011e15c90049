/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CRC-32C (RFC 3720, appendix B.4) by tables. A register is a polynomial over GF(2) whose bit 31 is
 * the coefficient of x^0; n zero bytes multiply it by x^(8 n).
 */
#include <gmv/device/reductions.h>

#include <pthread.h>
#include <string.h>

#define CRC_POLYNOMIAL 0x82f63b78u
#define CRC_ONE        0x80000000u /* x^0 */

static pthread_once_t crc_once = PTHREAD_ONCE_INIT;
static uint32_t crc_tables[8][256]; /* what a byte leaves when 0 to 7 zero bytes follow it */
static uint32_t crc_powers[64];     /* x^(8 * 2^i) */

static uint32_t crc_multiply(uint32_t a, uint32_t b)
{
    uint32_t product = 0;
    for (uint32_t bit = CRC_ONE; bit; bit >>= 1) {
        product ^= a & bit ? b : 0;
        b = b >> 1 ^ (b & 1 ? CRC_POLYNOMIAL : 0);
    }
    return product;
}

static void crc_init(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? CRC_POLYNOMIAL : 0);
        crc_tables[0][i] = crc;
    }
    for (int k = 1; k < 8; k++)
        for (uint32_t i = 0; i < 256; i++)
            crc_tables[k][i] =
                crc_tables[k - 1][i] >> 8 ^ crc_tables[0][crc_tables[k - 1][i] & 0xff];
    crc_powers[0] = CRC_ONE >> 8;
    for (int i = 1; i < 64; i++)
        crc_powers[i] = crc_multiply(crc_powers[i - 1], crc_powers[i - 1]);
}

uint32_t gmv_crc32c_update(uint32_t crc, const void *bytes, size_t nbytes)
{
    const uint8_t *at = bytes;
    (void)pthread_once(&crc_once, crc_init);
    for (; nbytes >= 8; nbytes -= 8, at += 8) {
        uint64_t word;
        memcpy(&word, at, sizeof word);
        word ^= crc;
        crc = 0;
        for (int i = 0; i < 8; i++)
            crc ^= crc_tables[7 - i][word >> 8 * i & 0xff];
    }
    for (; nbytes > 0; nbytes--, at++)
        crc = crc >> 8 ^ crc_tables[0][(crc ^ *at) & 0xff];
    return crc;
}

uint32_t gmv_crc32c_shift(uint32_t crc, uint64_t nbytes)
{
    (void)pthread_once(&crc_once, crc_init);
    for (int i = 0; nbytes; i++, nbytes >>= 1)
        if (nbytes & 1)
            crc = crc_multiply(crc, crc_powers[i]);
    return crc;
}

void gmv_crc32c_shifter_init(gmv_crc32c_shifter *shifter, uint64_t nbytes)
{
    uint32_t factor = gmv_crc32c_shift(CRC_ONE, nbytes);
    for (int k = 0; k < 4; k++)
        for (uint32_t i = 0; i < 256; i++)
            shifter->table[k][i] = crc_multiply(i << 8 * k, factor);
}
