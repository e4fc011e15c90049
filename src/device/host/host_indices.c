/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Integers that say where things are, on the host. Blocks are looked at without a branch, so that
 * the compiler makes vectors of them; only one that has a bad integer is gone through again.
 * Another process may change what is looked at: whatever is found, nothing outside is touched.
 */
#include "device/host/host.h"

#include <gmv/base/num.h>

#define CHECK_BLOCK 2048

typedef struct client_u8 {
    uint8_t value;
} __attribute__((packed, may_alias)) client_u8;

typedef struct check_run {
    const uint8_t *from;
    const uint8_t *validity; /* NULL: all are looked at */
    int64_t shift;           /* bits of the validity before integer 0 */
    int64_t limit;
    bool in_order;
} check_run;

CLIENT_INLINE bool check_is_valid(const check_run *run, int64_t index)
{
    const int64_t bit = run->shift + index;
    return !run->validity || ((unsigned)run->validity[bit / 8] >> bit % 8 & 1) != 0;
}

/*
 * quick: whether any of n integers is bad, in order with the one before the first, the validity
 * left out. A bad one leaves the sign of a difference set: none of these overflows unless an
 * integer is below 0, and then its own sign is set. check: the index of the first bad one of a
 * block, `end` if there is none; the block of integer 0 has no other.
 */
#define DEFINE_CHECK(bits)                                                                       \
    CLIENT_INLINE bool check_quick_##bits(const client_u##bits *values, uint##bits##_t limit,    \
                                          bool in_order, int64_t n)                              \
    {                                                                                            \
        uint##bits##_t signs = 0;                                                                \
        for (int64_t i = 0; i < n; i++)                                                          \
            signs |= (uint##bits##_t)(values[i].value | (limit - values[i].value));              \
        for (int64_t i = 0; in_order && i < n; i++)                                              \
            signs |= (uint##bits##_t)(values[i].value - values[i - 1].value);                    \
        return signs >> (bits - 1) != 0;                                                         \
    }                                                                                            \
    GMV_CLIENT_MEMORY static int64_t check_##bits(const check_run *run, int64_t first,           \
                                                  int64_t end)                                   \
    {                                                                                            \
        const client_u##bits *values = (const void *)run->from;                                  \
        const uint##bits##_t limit =                                                             \
            (uint##bits##_t)(run->limit > INT##bits##_MAX ? INT##bits##_MAX : run->limit);       \
        const bool in_order = run->in_order && first > 0;                                        \
        const bool bad = end - first == CHECK_BLOCK /* a constant: makes vectors */              \
                             ? check_quick_##bits(values + first, limit, in_order, CHECK_BLOCK)  \
                             : check_quick_##bits(values + first, limit, in_order, end - first); \
        for (int64_t i = first; bad && i < end; i++) {                                           \
            const int64_t value = (int##bits##_t)values[i].value;                                \
            const int64_t before = in_order ? (int##bits##_t)values[i - 1].value : 0;            \
            if ((value < 0 || value > run->limit || value < before) && check_is_valid(run, i))   \
                return i;                                                                        \
        }                                                                                        \
        return end;                                                                              \
    }

DEFINE_CHECK(8)
DEFINE_CHECK(16)
DEFINE_CHECK(32)
DEFINE_CHECK(64)

typedef int64_t (*check_function)(const check_run *run, int64_t first, int64_t end);

static const check_function check_functions[9] = {
    [1] = check_8, [2] = check_16, [4] = check_32, [8] = check_64};

gmv_status gmv__host_check_indices(gmv_stream *stream, const gmv_check_indices *args,
                                   gmv_error *err)
{
    const check_run run = {
        .from = (const uint8_t *)(uintptr_t)args->address,
        .validity = args->in_order ? NULL : (const uint8_t *)(uintptr_t)args->validity.address,
        .shift = args->validity.offset,
        .limit = GMV_MAX(args->limit, -1),
        .in_order = args->in_order,
    };
    const check_function check = check_functions[args->itemsize];
    int64_t bad = 0;
    for (int64_t first = 0; first < args->n; first = bad) {
        const int64_t block = first == 0 ? 1 : CHECK_BLOCK;
        const int64_t end = first + GMV_MIN(args->n - first, block);
        bad = check(&run, first, end);
        if (bad < end)
            break;
    }
    if (args->out_index)
        *args->out_index = bad;
    return GMV_OK;
}

GMV_CLIENT_MEMORY static void sequence_write(uint8_t *output, int64_t n, int32_t step)
{
    client_u32 *values = (void *)output;
    for (int64_t i = 0; i < n; i++)
        values[i].value = (uint32_t)i * (uint32_t)step;
}

gmv_status gmv__host_sequence(gmv_stream *stream, const gmv_sequence *args, gmv_error *err)
{
    sequence_write((uint8_t *)(uintptr_t)args->output, args->n, args->step);
    return GMV_OK;
}
