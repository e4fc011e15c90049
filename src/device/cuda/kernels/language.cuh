/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The language that the kernels are written in: what C and CUDA C++ have in common, and these
 * names. nvcc makes device code of it; any C compiler makes functions that tests run a thread at a
 * time, on host memory (tests/device/cuda_emulator.c). Threads talk to each other in the functions
 * below only, and there never by waiting for one another, so one after the other is an order they
 * may run in.
 */
#ifndef GMV_DEVICE_CUDA_KERNELS_LANGUAGE_H
#define GMV_DEVICE_CUDA_KERNELS_LANGUAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "device/cuda/kernels/arguments.h"

#define WARP_THREADS 32
#define LINE_NBYTES  128 /* of a cache */
#define BLOCK_WARPS  (GMV_CUDA_THREADS / WARP_THREADS)

/* 16 bytes, which are loaded and stored at once. */
typedef struct block16 {
    uint64_t low, high;
} block16;

#ifdef __CUDACC__

#    define KERNEL_RESIDENT(name, type, blocks)                                \
        extern "C" __global__ void __launch_bounds__(GMV_CUDA_THREADS, blocks) \
            gmv_##name(const __grid_constant__ type args)
#    define KERNEL(name, type)                                         \
        extern "C" __global__ void __launch_bounds__(GMV_CUDA_THREADS) \
            gmv_##name(const __grid_constant__ type args)
#    define DEVICE static __device__ __forceinline__
/* What is rare or long, and so is there once, not in every kernel. */
#    define DEVICE_CALL       static __device__ __noinline__
#    define UNROLL            _Pragma("unroll")
#    define UNROLL_4          _Pragma("unroll 4")
#    define NO_UNROLL         _Pragma("unroll 1")
#    define UNROLL_BY_(times) _Pragma(#    times)
#    define UNROLL_BY(times)  UNROLL_BY_(unroll times)

DEVICE uint32_t thread_index(void)
{
    return threadIdx.x;
}

DEVICE uint64_t block_index(void)
{
    return blockIdx.x;
}

DEVICE uint64_t grid_blocks(void)
{
    return gridDim.x;
}

/* Caches of all levels: what a thread loads beside its own piece is its neighbour's. */
DEVICE uint8_t load8(uint64_t address)
{
    return __ldca((const unsigned char *)address);
}

DEVICE uint16_t load16(uint64_t address)
{
    return __ldca((const unsigned short *)address);
}

DEVICE uint32_t load32(uint64_t address)
{
    return __ldca((const unsigned int *)address);
}

DEVICE uint64_t load64(uint64_t address)
{
    return __ldca((const unsigned long long *)address);
}

DEVICE block16 load128(uint64_t address)
{
    ulonglong2 both = __ldca((const ulonglong2 *)address);
    block16 value = {both.x, both.y};
    return value;
}

/*
 * The same for what is read once: the first cache keeps it as above, but it leaves the second one
 * before what is to be written does.
 */
#    if __CUDA_ARCH__ >= 800
DEVICE uint64_t evict_first(void)
{
    uint64_t policy;
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}

DEVICE uint64_t load64_streaming(uint64_t address)
{
    uint64_t value;
    asm volatile("ld.global.L2::cache_hint.u64 %0, [%1], %2;"
                 : "=l"(value)
                 : "l"(address), "l"(evict_first()));
    return value;
}
#    else
#        define load64_streaming load64
#    endif

DEVICE void store8(uint64_t address, uint8_t value)
{
    __stwb((unsigned char *)address, value);
}

DEVICE void store16(uint64_t address, uint16_t value)
{
    __stwb((unsigned short *)address, value);
}

DEVICE void store32(uint64_t address, uint32_t value)
{
    __stwb((unsigned int *)address, value);
}

DEVICE void store64(uint64_t address, uint64_t value)
{
    __stwb((unsigned long long *)address, (unsigned long long)value);
}

DEVICE void store128(uint64_t address, block16 value)
{
    __stwb((ulonglong2 *)address, make_ulonglong2(value.low, value.high));
}

/* For what nobody needs soon: it leaves the second cache before other bytes do. */
DEVICE void store128_streaming(uint64_t address, block16 value)
{
    __stcs((ulonglong2 *)address, make_ulonglong2(value.low, value.high));
}

/* Has the second cache get the bytes around, if it is large enough to keep some megabytes. */
DEVICE void prefetch(uint64_t address)
{
#    if __CUDA_ARCH__ == 800 || __CUDA_ARCH__ >= 890
    asm volatile("prefetch.global.L2 [%0];" ::"l"(address));
#    else
    (void)address;
#    endif
}

DEVICE uint32_t count_ones(uint64_t word)
{
    return (uint32_t)__popcll((unsigned long long)word);
}

/* The number of zeros below the lowest one; word is not 0. */
DEVICE uint32_t lowest_one(uint64_t word)
{
    return (uint32_t)__ffsll((long long)word) - 1;
}

/* The 32 bits from bit `shift` % 32 on of the 64 of both. */
DEVICE uint32_t funnel_right(uint32_t low, uint32_t high, uint32_t shift)
{
    return __funnelshift_r(low, high, shift);
}

/* `value`, and bytes of `a` times those of `b`, all added. */
DEVICE uint32_t add_products(uint32_t a, uint32_t b, uint32_t value)
{
    return __dp4a(a, b, value);
}

/* Each of four bytes by itself. */
DEVICE uint32_t bytes_min(uint32_t a, uint32_t b)
{
    return __vminu4(a, b);
}

DEVICE uint32_t bytes_max(uint32_t a, uint32_t b)
{
    return __vmaxu4(a, b);
}

DEVICE uint64_t atomic_add(uint64_t *address, uint64_t value)
{
    return atomicAdd((unsigned long long *)address, (unsigned long long)value);
}

DEVICE void atomic_max(uint64_t *address, uint64_t value)
{
    (void)atomicMax((unsigned long long *)address, (unsigned long long)value);
}

/* The value that was there, and 0 from now on. */
DEVICE uint64_t atomic_take(uint64_t *address)
{
    return atomicExch((unsigned long long *)address, 0ull);
}

/* What was written before it is seen, by whoever sees what is written after it. */
DEVICE void memory_fence(void)
{
    __threadfence();
}

/* All threads of a warp call it together; true in the one that has got the sum. */
DEVICE bool warp_sum(uint32_t *value)
{
#    if __CUDA_ARCH__ >= 800
    *value = __reduce_add_sync(0xffffffffu, *value);
#    else
    UNROLL
    for (int distance = WARP_THREADS / 2; distance > 0; distance /= 2)
        *value += __shfl_down_sync(0xffffffffu, *value, (unsigned)distance);
#    endif
    return threadIdx.x % WARP_THREADS == 0;
}

/* The same for a block. */
DEVICE bool block_sum(uint32_t *value)
{
    __shared__ uint32_t parts[BLOCK_WARPS];
    if (warp_sum(value))
        parts[threadIdx.x / WARP_THREADS] = *value;
    __syncthreads();
    if (threadIdx.x != 0)
        return false;
    UNROLL
    for (int warp = 1; warp < BLOCK_WARPS; warp++)
        *value += parts[warp];
    return true;
}

/*
 * Each warp adds its threads' values to the number at `counter`, if that is not 0. Warps of the
 * block that have got the same one do it together.
 */
DEVICE void block_count(uint64_t counter, uint32_t value)
{
    __shared__ uint64_t counters[BLOCK_WARPS];
    __shared__ uint32_t sums[BLOCK_WARPS];
    uint64_t sum = 0;
    if (warp_sum(&value)) {
        counters[threadIdx.x / WARP_THREADS] = counter;
        sums[threadIdx.x / WARP_THREADS] = value;
    }
    __syncthreads();
    if (threadIdx.x != 0)
        return;
    UNROLL
    for (int warp = 0; warp < BLOCK_WARPS; warp++) {
        sum += sums[warp];
        if (warp + 1 < BLOCK_WARPS && counters[warp + 1] == counters[warp])
            continue;
        if (counters[warp] && sum)
            (void)atomic_add((uint64_t *)counters[warp], sum);
        sum = 0;
    }
}

/* The block's largest value; in most blocks all are 0, and then nothing is compared. */
DEVICE bool block_largest(uint64_t *value)
{
    __shared__ unsigned long long largest;
    if (threadIdx.x == 0)
        largest = 0;
    if (__syncthreads_or(*value != 0)) {
        if (*value)
            atomicMax(&largest, (unsigned long long)*value);
        __syncthreads();
        *value = largest;
    }
    return threadIdx.x == 0;
}

/* How many callers of block_sum and block_largest get true. */
DEVICE uint64_t combined_blocks(uint64_t blocks)
{
    return blocks;
}

/* What the threads before this one have got, added: two sums at once. Once in a kernel. */
DEVICE block16 block_before(block16 own)
{
    __shared__ unsigned long long lows[BLOCK_WARPS], highs[BLOCK_WARPS];
    const unsigned lane = threadIdx.x % WARP_THREADS, warp = threadIdx.x / WARP_THREADS;
    unsigned long long low = own.low, high = own.high;
    UNROLL
    for (unsigned distance = 1; distance < WARP_THREADS; distance *= 2) {
        unsigned long long more_low = __shfl_up_sync(0xffffffffu, low, distance);
        unsigned long long more_high = __shfl_up_sync(0xffffffffu, high, distance);
        low += lane >= distance ? more_low : 0;
        high += lane >= distance ? more_high : 0;
    }
    if (lane == WARP_THREADS - 1) {
        lows[warp] = low;
        highs[warp] = high;
    }
    __syncthreads();
    UNROLL
    for (unsigned before = 0; before < BLOCK_WARPS; before++) {
        low += before < warp ? lows[before] : 0;
        high += before < warp ? highs[before] : 0;
    }
    block16 value = {low - own.low, high - own.high};
    return value;
}

/* `sum` is what `value`, a block16 made from a thread's number, is for all threads before. */
#    define BLOCK_BEFORE(sum, thread, value)     \
        do {                                     \
            const uint32_t thread = threadIdx.x; \
            (sum) = block_before(value);         \
        } while (0)

/* Bit l of `word` is what lane l of the warp says. */
#    define WARP_BALLOT(word, lane, condition) ((word) = __ballot_sync(0xffffffffu, condition))
#    define WARP_LANES_BEGIN(lane)             uint32_t lane = threadIdx.x % WARP_THREADS;
#    define WARP_LANES_END

#else

#    include <string.h>

#    define KERNEL(name, type)                  static void emulated_##name(const type args)

/* As many blocks have to be resident at once: the compiler keeps to as many registers. */
#    define KERNEL_RESIDENT(name, type, blocks) KERNEL(name, type)
#    define DEVICE                              static inline __attribute__((unused))
#    define DEVICE_CALL                         DEVICE
#    define UNROLL
#    define UNROLL_4
#    define NO_UNROLL
#    define UNROLL_BY(times)

/* Which thread is running; set by the emulator. */
typedef struct cuda_emulated {
    uint32_t thread;
    uint64_t block, blocks;
} cuda_emulated;
extern _Thread_local cuda_emulated cuda_emulated_now;

DEVICE uint32_t thread_index(void)
{
    return cuda_emulated_now.thread;
}

DEVICE uint64_t block_index(void)
{
    return cuda_emulated_now.block;
}

DEVICE uint64_t grid_blocks(void)
{
    return cuda_emulated_now.blocks;
}

/* A misaligned access is an error on the device, so it is one here. */
#    define DEFINE_ACCESS(bits, type)                                       \
        DEVICE type load##bits(uint64_t address)                            \
        {                                                                   \
            type value;                                                     \
            if (address % sizeof value)                                     \
                __builtin_trap();                                           \
            memcpy(&value, (const void *)(uintptr_t)address, sizeof value); \
            return value;                                                   \
        }                                                                   \
        DEVICE void store##bits(uint64_t address, type value)               \
        {                                                                   \
            if (address % sizeof value)                                     \
                __builtin_trap();                                           \
            memcpy((void *)(uintptr_t)address, &value, sizeof value);       \
        }

DEFINE_ACCESS(8, uint8_t)
DEFINE_ACCESS(16, uint16_t)
DEFINE_ACCESS(32, uint32_t)
DEFINE_ACCESS(64, uint64_t)
DEFINE_ACCESS(128, block16)

#    define load32_streaming load32
#    define load64_streaming load64

DEVICE void store128_streaming(uint64_t address, block16 value)
{
    store128(address, value);
}

/* As good as a load, for what watches over memory. */
DEVICE void prefetch(uint64_t address)
{
    (void)*(const volatile uint8_t *)(uintptr_t)address;
}

DEVICE uint32_t count_ones(uint64_t word)
{
    return (uint32_t)__builtin_popcountll(word);
}

DEVICE uint32_t lowest_one(uint64_t word)
{
    return (uint32_t)__builtin_ctzll(word);
}

DEVICE uint32_t funnel_right(uint32_t low, uint32_t high, uint32_t shift)
{
    return (uint32_t)(((uint64_t)high << 32 | low) >> shift % 32);
}

DEVICE uint32_t add_products(uint32_t a, uint32_t b, uint32_t value)
{
    for (uint32_t i = 0; i < 32; i += 8)
        value += (a >> i & 0xff) * (b >> i & 0xff);
    return value;
}

DEVICE uint32_t bytes_max(uint32_t a, uint32_t b)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < 32; i += 8)
        most |= ((a >> i & 0xff) > (b >> i & 0xff) ? a : b) & 0xffu << i;
    return most;
}

DEVICE uint32_t bytes_min(uint32_t a, uint32_t b)
{
    return ~bytes_max(~a, ~b);
}

DEVICE uint64_t atomic_add(uint64_t *address, uint64_t value)
{
    return __atomic_fetch_add(address, value, __ATOMIC_SEQ_CST);
}

DEVICE void atomic_max(uint64_t *address, uint64_t value)
{
    uint64_t old = __atomic_load_n(address, __ATOMIC_SEQ_CST);
    while (old < value && !__atomic_compare_exchange_n(address, &old, value, false,
                                                       __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
        continue;
}

DEVICE uint64_t atomic_take(uint64_t *address)
{
    return __atomic_exchange_n(address, 0, __ATOMIC_SEQ_CST);
}

DEVICE void memory_fence(void)
{
}

/* Every thread brings what it has on its own. */
DEVICE bool warp_sum(uint32_t *value)
{
    (void)value;
    return true;
}

DEVICE bool block_sum(uint32_t *value)
{
    (void)value;
    return true;
}

DEVICE void block_count(uint64_t counter, uint32_t value)
{
    if (counter)
        (void)atomic_add((uint64_t *)counter, value);
}

DEVICE bool block_largest(uint64_t *value)
{
    (void)value;
    return true;
}

DEVICE uint64_t combined_blocks(uint64_t blocks)
{
    return blocks * GMV_CUDA_THREADS;
}

/* Every thread finds out by itself. */
#    define BLOCK_BEFORE(sum, thread, value)                                         \
        do {                                                                         \
            block16 sum_ = {0, 0};                                                   \
            for (uint32_t thread = 0; thread < cuda_emulated_now.thread; thread++) { \
                const block16 value_ = (value);                                      \
                sum_.low += value_.low;                                              \
                sum_.high += value_.high;                                            \
            }                                                                        \
            (sum) = sum_;                                                            \
        } while (0)

/* Every thread asks all lanes of its warp. */
#    define WARP_LANES_BEGIN(lane)             for (uint32_t lane = 0; lane < WARP_THREADS; lane++) {
#    define WARP_LANES_END                     }
#    define WARP_BALLOT(word, lane, condition) ((word) |= (uint32_t)(condition) << (lane))

#endif

DEVICE uint64_t low_ones(uint64_t n_bits)
{
    return n_bits >= 64 ? UINT64_MAX : (UINT64_C(1) << n_bits) - 1;
}

#endif
