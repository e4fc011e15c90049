/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checksums. XXH64 and XXH3 (xxHash specification) of many blocks at once, four threads to each:
 * its accumulators do not depend on each other until the end. CRC-32C by tiles: a register is
 * linear in the bytes, so every column of words has one of its own, and they meet in the end.
 */
#ifndef GMV_DEVICE_CUDA_KERNELS_HASH_H
#define GMV_DEVICE_CUDA_KERNELS_HASH_H

#include "device/cuda/kernels/language.cuh"

/*
 * QUAD_BEGIN to QUAD_END is done by each of the four threads of a group, `lane` 0 to 3; QUAD_SHARE
 * gives all of them what each has. The emulator's threads do the work of all four.
 */
#ifdef __CUDACC__
#    define CONSTANT         static __device__ __constant__
#    define QUAD_BEGIN(lane) uint32_t lane = threadIdx.x % GMV_CUDA_HASH_LANES;
#    define QUAD_END
#    define QUAD_SHARE(shared, lane, value)                               \
        UNROLL                                                            \
        for (uint32_t other_ = 0; other_ < GMV_CUDA_HASH_LANES; other_++) \
            (shared)[other_] = __shfl_sync(0xffffffffu, value, other_, GMV_CUDA_HASH_LANES);
#else
#    define CONSTANT                        static const
#    define QUAD_BEGIN(lane)                for (uint32_t lane = 0; lane < GMV_CUDA_HASH_LANES; lane++) {
#    define QUAD_END                        }
#    define QUAD_SHARE(shared, lane, value) (shared)[lane] = (value);
#endif

#define XXH_32_1 UINT64_C(0x9e3779b1)
#define XXH_32_2 UINT64_C(0x85ebca77)
#define XXH_32_3 UINT64_C(0xc2b2ae3d)
#define XXH_64_1 UINT64_C(0x9e3779b185ebca87)
#define XXH_64_2 UINT64_C(0xc2b2ae3d27d4eb4f)
#define XXH_64_3 UINT64_C(0x165667b19e3779f9)
#define XXH_64_4 UINT64_C(0x85ebca77c2b2ae63)
#define XXH_64_5 UINT64_C(0x27d4eb2f165667c5)

/* Which block a thread works on, and whether there is one. */
DEVICE uint64_t hash_block(void)
{
    return block_index() * GMV_CUDA_HASH_TILE + thread_index() / GMV_CUDA_HASH_LANES;
}

DEVICE void hash_store(const cuda_hash_args *args, uint64_t block, uint64_t hash)
{
    if (block < args->n && thread_index() % GMV_CUDA_HASH_LANES == 0)
        store64(args->output + 8 * block, hash);
}

/* ---- XXH64 ---- */

#define XXH64_STRIPES 8u /* of 32 bytes, whose loads are under way at once */

DEVICE uint64_t rotate_left(uint64_t value, uint32_t by)
{
    return value << by | value >> (64 - by);
}

DEVICE uint64_t xxh64_round(uint64_t accumulator, uint64_t word)
{
    return rotate_left(accumulator + word * XXH_64_2, 31) * XXH_64_1;
}

/* The accumulator of one lane after `n_stripes` stripes. */
DEVICE uint64_t xxh64_lane(uint64_t at, uint64_t n_stripes, uint32_t lane)
{
    uint64_t accumulator = lane == 0   ? XXH_64_1 + XXH_64_2
                           : lane == 1 ? XXH_64_2
                           : lane == 2 ? 0
                                       : 0 - XXH_64_1;
    uint64_t done = 0;
    at += 8 * lane;
    for (; done + XXH64_STRIPES <= n_stripes; done += XXH64_STRIPES) {
        uint64_t words[XXH64_STRIPES];
        UNROLL
        for (uint32_t i = 0; i < XXH64_STRIPES; i++)
            words[i] = load64_streaming(at + 32 * (done + i));
        UNROLL
        for (uint32_t i = 0; i < XXH64_STRIPES; i++)
            accumulator = xxh64_round(accumulator, words[i]);
    }
    NO_UNROLL
    for (; done < n_stripes; done++)
        accumulator = xxh64_round(accumulator, load64(at + 32 * done));
    return accumulator;
}

/* The hash of a block whose bytes are all in the accumulators. */
DEVICE uint64_t xxh64_finish(const uint64_t *accumulators, uint64_t nbytes)
{
    uint64_t hash = rotate_left(accumulators[0], 1) + rotate_left(accumulators[1], 7) +
                    rotate_left(accumulators[2], 12) + rotate_left(accumulators[3], 18);
    UNROLL
    for (uint32_t i = 0; i < GMV_CUDA_HASH_LANES; i++)
        hash = (hash ^ xxh64_round(0, accumulators[i])) * XXH_64_1 + XXH_64_4;
    hash += nbytes;
    hash = (hash ^ hash >> 33) * XXH_64_2;
    hash = (hash ^ hash >> 29) * XXH_64_3;
    return hash ^ hash >> 32;
}

KERNEL(hash_xxh64, cuda_hash_args)
{
    const uint64_t block = hash_block(), at = args.input + block * args.block_nbytes;
    const uint64_t n_stripes = block < args.n ? args.block_nbytes / 32 : 0;
    uint64_t accumulators[GMV_CUDA_HASH_LANES];
    QUAD_BEGIN(lane)
    uint64_t accumulator = xxh64_lane(at, n_stripes, lane);
    QUAD_SHARE(accumulators, lane, accumulator)
    QUAD_END
    hash_store(&args, block, xxh64_finish(accumulators, args.block_nbytes));
}

/* ---- XXH3 ---- */

#define XXH3_STRIPES 16u /* of 64 bytes, between two scrambles */

/* The default secret as words from bytes 0, 121 and 11 on, for stripes, the last one, and the end.
 */
CONSTANT uint64_t xxh3_stripe_keys[24] = {
    UINT64_C(0xbe4ba423396cfeb8), UINT64_C(0x1cad21f72c81017c), UINT64_C(0xdb979083e96dd4de),
    UINT64_C(0x1f67b3b7a4a44072), UINT64_C(0x78e5c0cc4ee679cb), UINT64_C(0x2172ffcc7dd05a82),
    UINT64_C(0x8e2443f7744608b8), UINT64_C(0x4c263a81e69035e0), UINT64_C(0xcb00c391bb52283c),
    UINT64_C(0xa32e531b8b65d088), UINT64_C(0x4ef90da297486471), UINT64_C(0xd8acdea946ef1938),
    UINT64_C(0x3f349ce33f76faa8), UINT64_C(0x1d4f0bc7c7bbdcf9), UINT64_C(0x3159b4cd4be0518a),
    UINT64_C(0x647378d9c97e9fc8), UINT64_C(0xc3ebd33483acc5ea), UINT64_C(0xeb6313faffa081c5),
    UINT64_C(0x49daf0b751dd0d17), UINT64_C(0x9e68d429265516d3), UINT64_C(0xfca1477d58be162b),
    UINT64_C(0xce31d07ad1b8f88f), UINT64_C(0x280416958f3acb45), UINT64_C(0x7e404bbbcafbd7af),
};

CONSTANT uint64_t xxh3_last_keys[8] = {
    UINT64_C(0xea647378d9c97e9f), UINT64_C(0xc5c3ebd33483acc5), UINT64_C(0x17eb6313faffa081),
    UINT64_C(0xd349daf0b751dd0d), UINT64_C(0x2b9e68d429265516), UINT64_C(0x8ffca1477d58be16),
    UINT64_C(0x45ce31d07ad1b8f8), UINT64_C(0xaf280416958f3acb),
};

CONSTANT uint64_t xxh3_merge_keys[8] = {
    UINT64_C(0x6dd4de1cad21f72c), UINT64_C(0xa44072db979083e9), UINT64_C(0xe679cb1f67b3b7a4),
    UINT64_C(0xd05a8278e5c0cc4e), UINT64_C(0x4608b82172ffcc7d), UINT64_C(0x9035e08e2443f774),
    UINT64_C(0x52283c4c263a81e6), UINT64_C(0x65d088cb00c391bb),
};

/* A lane has two accumulators; each also takes the other's word as it is. */
typedef struct xxh3_pair {
    uint64_t first, second;
} xxh3_pair;

DEVICE uint64_t xxh3_product(uint64_t value)
{
    return (value & 0xffffffffu) * (value >> 32);
}

DEVICE void xxh3_add(xxh3_pair *pair, block16 words, uint64_t first_key, uint64_t second_key)
{
    pair->first += words.high + xxh3_product(words.low ^ first_key);
    pair->second += words.low + xxh3_product(words.high ^ second_key);
}

DEVICE uint64_t xxh3_scramble(uint64_t accumulator, uint64_t key)
{
    return (accumulator ^ accumulator >> 47 ^ key) * XXH_32_1;
}

DEVICE xxh3_pair xxh3_begin(uint32_t lane)
{
    xxh3_pair pairs[GMV_CUDA_HASH_LANES] = {
        {XXH_32_3, XXH_64_1}, {XXH_64_2, XXH_64_3}, {XXH_64_4, XXH_32_2}, {XXH_64_5, XXH_32_1}};
    return lane == 0 ? pairs[0] : lane == 1 ? pairs[1] : lane == 2 ? pairs[2] : pairs[3];
}

/* All but the last stripe go through scrambled groups of 16; the last one is read apart. */
DEVICE xxh3_pair xxh3_lane(uint64_t at, uint64_t nbytes, uint32_t lane)
{
    const uint64_t group = 64 * XXH3_STRIPES, n_groups = (nbytes - 1) / group;
    const uint32_t rest = (uint32_t)((nbytes - 1 - n_groups * group) / 64);
    xxh3_pair pair = xxh3_begin(lane);
    uint64_t keys[XXH3_STRIPES + 1];
    UNROLL
    for (uint32_t i = 0; i <= XXH3_STRIPES; i++)
        keys[i] = xxh3_stripe_keys[2 * lane + i];
    at += 16 * lane;
    NO_UNROLL
    for (uint64_t i = 0; i < n_groups; i++, at += group) {
        block16 words[XXH3_STRIPES];
        UNROLL
        for (uint32_t k = 0; k < XXH3_STRIPES; k++)
            words[k] = load128(at + 64 * k);
        UNROLL
        for (uint32_t k = 0; k < XXH3_STRIPES; k++)
            xxh3_add(&pair, words[k], keys[k], keys[k + 1]);
        pair.first = xxh3_scramble(pair.first, xxh3_stripe_keys[16 + 2 * lane]);
        pair.second = xxh3_scramble(pair.second, xxh3_stripe_keys[17 + 2 * lane]);
    }
    UNROLL
    for (uint32_t k = 0; k < XXH3_STRIPES; k++)
        if (k < rest)
            xxh3_add(&pair, load128(at + 64 * k), keys[k], keys[k + 1]);
    xxh3_add(&pair, load128(at + 64 * rest), xxh3_last_keys[2 * lane],
             xxh3_last_keys[2 * lane + 1]);
    return pair;
}

DEVICE uint64_t xxh3_fold(uint64_t a, uint64_t b)
{
#ifdef __CUDACC__
    return a * b ^ __umul64hi(a, b);
#else
    unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
#endif
}

KERNEL(hash_xxh3, cuda_hash_args)
{
    const uint64_t block = hash_block(), at = args.input + block * args.block_nbytes;
    uint64_t folded[GMV_CUDA_HASH_LANES], hash = args.block_nbytes * XXH_64_1;
    QUAD_BEGIN(lane)
    xxh3_pair pair = xxh3_begin(lane);
    if (block < args.n)
        pair = xxh3_lane(at, args.block_nbytes, lane);
    uint64_t part = xxh3_fold(pair.first ^ xxh3_merge_keys[2 * lane],
                              pair.second ^ xxh3_merge_keys[2 * lane + 1]);
    QUAD_SHARE(folded, lane, part)
    QUAD_END
    UNROLL
    for (uint32_t i = 0; i < GMV_CUDA_HASH_LANES; i++)
        hash += folded[i];
    hash = (hash ^ hash >> 37) * UINT64_C(0x165667919e3779f9);
    hash_store(&args, block, hash ^ hash >> 32);
}

/* ---- CRC-32C ---- */

#define CRC_POLYNOMIAL 0x82f63b78u /* bit 31 is the coefficient of x^0 */
#define CRC_LOADS      4u          /* rows whose loads are under way at once */

/*
 * On the device each lane of a warp has a copy of the table in a bank of its own, so that no two
 * lanes meet there, whatever they look up.
 */
#ifdef __CUDACC__
#    define CRC_TABLE_BEGIN(tables)                                                                \
        __shared__ uint32_t own[GMV_CUDA_CRC_NIBBLES * 16 * WARP_THREADS];                         \
        UNROLL                                                                                     \
        for (uint32_t i = 0; i < GMV_CUDA_CRC_NIBBLES * 16 / BLOCK_WARPS; i++) {                   \
            uint32_t entry = threadIdx.x / WARP_THREADS + i * BLOCK_WARPS;                         \
            own[entry * WARP_THREADS + threadIdx.x % WARP_THREADS] = load32((tables) + 4 * entry); \
        }                                                                                          \
        __syncthreads();                                                                           \
        const uint32_t *table = own + threadIdx.x % WARP_THREADS;
#    define CRC_ENTRY(table, nibble, value) (table)[((nibble)*16 + (value)) * WARP_THREADS]
#else
#    define CRC_TABLE_BEGIN(tables)         const uint32_t *table = (const uint32_t *)(tables);
#    define CRC_ENTRY(table, nibble, value) (table)[(nibble)*16 + (value)]
#endif

/* The register after a row of zeros more. */
DEVICE uint32_t crc_next_row(const uint32_t *table, uint32_t crc)
{
    uint32_t shifted = 0;
    UNROLL
    for (uint32_t i = 0; i < GMV_CUDA_CRC_NIBBLES; i++)
        shifted ^= CRC_ENTRY(table, i, crc >> 4 * i & 15);
    return shifted;
}

/* The product of two polynomials, reduced. */
DEVICE uint32_t crc_multiply(uint32_t a, uint32_t b)
{
    uint32_t product = 0;
    UNROLL
    for (uint32_t i = 0; i < 32; i++) {
        product ^= a & 0x80000000u >> i ? b : 0;
        b = b >> 1 ^ (b & 1 ? CRC_POLYNOMIAL : 0);
    }
    return product;
}

/* 16 bytes at `offset` of the input; those past its end are 0. */
DEVICE block16 crc_piece(const cuda_crc_args *args, uint64_t offset)
{
    block16 value = {0, 0};
    if (offset + 16 <= args->nbytes)
        return load128(args->input + offset);
    NO_UNROLL
    for (uint32_t i = 0; i < 16; i++) {
        if (offset + i >= args->nbytes)
            break;
        uint64_t byte = (uint64_t)load8(args->input + offset + i) << 8 * (i % 8);
        if (i < 8)
            value.low |= byte;
        else
            value.high |= byte;
    }
    return value;
}

/* All threads of the block add theirs; true in the one that has got the sum. */
DEVICE bool block_exclusive_or(uint32_t *value)
{
#ifdef __CUDACC__
    __shared__ uint32_t parts[BLOCK_WARPS];
    UNROLL
    for (int distance = WARP_THREADS / 2; distance > 0; distance /= 2)
        *value ^= __shfl_down_sync(0xffffffffu, *value, (unsigned)distance);
    if (threadIdx.x % WARP_THREADS == 0)
        parts[threadIdx.x / WARP_THREADS] = *value;
    __syncthreads();
    if (threadIdx.x != 0)
        return false;
    UNROLL
    for (int warp = 1; warp < BLOCK_WARPS; warp++)
        *value ^= parts[warp];
    return true;
#else
    static _Thread_local uint32_t whole;
    whole = thread_index() == 0 ? *value : whole ^ *value;
    *value = whole;
    return thread_index() == GMV_CUDA_THREADS - 1;
#endif
}

DEVICE void crc_add_piece(const uint32_t *table, uint32_t *registers, block16 piece)
{
    const uint32_t words[4] = {(uint32_t)piece.low, (uint32_t)(piece.low >> 32),
                               (uint32_t)piece.high, (uint32_t)(piece.high >> 32)};
    UNROLL
    for (uint32_t i = 0; i < 4; i++)
        registers[i] = crc_next_row(table, registers[i]) ^ words[i];
}

KERNEL(crc32c, cuda_crc_args)
{
    CRC_TABLE_BEGIN(args.tables)
    const uint64_t tile = block_index() * GMV_CUDA_CRC_TILE, own_offset = 16 * thread_index();
    const bool whole = tile + GMV_CUDA_CRC_TILE <= args.nbytes;
    uint32_t registers[4] = {0, 0, 0, 0}, crc = 0;
    NO_UNROLL
    for (uint32_t row = 0; row < GMV_CUDA_CRC_ROWS; row += CRC_LOADS) {
        const uint64_t offset = tile + own_offset + (uint64_t)row * GMV_CUDA_CRC_ROW;
        block16 pieces[CRC_LOADS];
        UNROLL
        for (uint32_t i = 0; i < CRC_LOADS; i++)
            pieces[i] = whole ? load128(args.input + offset + i * GMV_CUDA_CRC_ROW)
                              : crc_piece(&args, offset + i * GMV_CUDA_CRC_ROW);
        UNROLL
        for (uint32_t i = 0; i < CRC_LOADS; i++)
            crc_add_piece(table, registers, pieces[i]);
    }
    const uint64_t factors = args.tables + 4 * GMV_CUDA_CRC_NIBBLES * 16 + own_offset;
    UNROLL
    for (uint32_t i = 0; i < 4; i++)
        crc ^= crc_multiply(registers[i], load32(factors + 4 * i));
    if (!block_exclusive_or(&crc))
        return;
    if (block_index() + 1 == grid_blocks())
        crc = crc_multiply(crc, args.last_factor);
    store32(args.output + 4 * block_index(), crc);
}

#endif
