/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checksums on the host: the library's xxHash, and CRC-32C by the processor's own instruction where
 * it has one. Each byte is read once, so it does not matter if another process changes it.
 */
#include <xxhash.h>

#include <gmv/base/num.h>

#include "device/host/host.h"

#if defined(__x86_64__)
#    include <immintrin.h>
#    define HAVE_CRC_INSTRUCTION 1
#else
#    define HAVE_CRC_INSTRUCTION 0
#endif

gmv_status gmv__host_hash_blocks(gmv_stream *stream, const gmv_hash_blocks *args, gmv_error *err)
{
    const uint8_t *input = (const uint8_t *)(uintptr_t)args->input;
    uint8_t *output = (uint8_t *)(uintptr_t)args->output;
    for (int64_t i = 0; i < args->n; i++)
        client_store64(output + 8 * i,
                       gmv_hash_bytes(args->hash, input + (uint64_t)i * args->block_nbytes,
                                      (size_t)args->block_nbytes));
    return GMV_OK;
}

#if HAVE_CRC_INSTRUCTION
#    define CRC_CHAIN ((size_t)1 << 10) /* bytes of each of three chains that go side by side */

typedef struct crc_joiner {
    gmv_crc32c_shifter one, two; /* past one chain and past two */
} crc_joiner;

static pthread_once_t joiner_once = PTHREAD_ONCE_INIT;
static crc_joiner joiner;

static void joiner_init(void)
{
    gmv_crc32c_shifter_init(&joiner.one, CRC_CHAIN);
    gmv_crc32c_shifter_init(&joiner.two, 2 * CRC_CHAIN);
}

/* The instruction takes three cycles, but a new one can begin in each: hence three chains. */
__attribute__((target("sse4.2"))) GMV_CLIENT_MEMORY static uint32_t
crc_by_instruction(uint32_t crc, const uint8_t *at, size_t nbytes)
{
    uint64_t first = crc;
    for (; nbytes >= 3 * CRC_CHAIN; nbytes -= 3 * CRC_CHAIN, at += 3 * CRC_CHAIN) {
        uint64_t second = 0, third = 0;
        for (size_t i = 0; i < CRC_CHAIN; i += 8) {
            first = _mm_crc32_u64(first, client_load64(at + i));
            second = _mm_crc32_u64(second, client_load64(at + CRC_CHAIN + i));
            third = _mm_crc32_u64(third, client_load64(at + 2 * CRC_CHAIN + i));
        }
        first = gmv_crc32c_shifter_apply(&joiner.two, (uint32_t)first) ^
                gmv_crc32c_shifter_apply(&joiner.one, (uint32_t)second) ^ (uint32_t)third;
    }
    for (; nbytes >= 8; nbytes -= 8, at += 8)
        first = _mm_crc32_u64(first, client_load64(at));
    for (; nbytes > 0; nbytes--, at++)
        first = _mm_crc32_u8((uint32_t)first, *at);
    return (uint32_t)first;
}
#endif

typedef uint32_t (*crc_update)(uint32_t crc, const uint8_t *at, size_t nbytes);

GMV_CLIENT_MEMORY static uint32_t crc_by_tables(uint32_t crc, const uint8_t *at, size_t nbytes)
{
    uint8_t copy[4096];
    while (nbytes > 0) {
        size_t n = GMV_MIN(nbytes, sizeof copy);
        client_copy(copy, at, n);
        crc = gmv_crc32c_update(crc, copy, n);
        at += n;
        nbytes -= n;
    }
    return crc;
}

static crc_update crc_choose(const gmv_stream *stream)
{
#if HAVE_CRC_INSTRUCTION
    if (host_device_of(stream->device)->kernels != &gmv__host_portable_set &&
        __builtin_cpu_supports("sse4.2")) {
        (void)pthread_once(&joiner_once, joiner_init);
        return crc_by_instruction;
    }
#endif
    return crc_by_tables;
}

gmv_status gmv__host_crc32c(gmv_stream *stream, const gmv_crc32c *args, gmv_error *err)
{
    const uint8_t *input = (const uint8_t *)(uintptr_t)args->input;
    client_u32 *output = (client_u32 *)(uintptr_t)args->output;
    crc_update update = crc_choose(stream);
    for (uint64_t done = 0; done < args->nbytes; done += GMV_CRC_TILE, output++)
        output->value = update(0, input + done, (size_t)GMV_MIN(args->nbytes - done, GMV_CRC_TILE));
    return GMV_OK;
}
