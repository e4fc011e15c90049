/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Integers that say where things are, on the host. Blocks are looked at without a branch, so that
 * the compiler makes vectors of them; only one that has a bad integer is gone through again.
 * Another process may change what is looked at: whatever is found, nothing outside is touched.
 */
#include "device/host/host.h"

#include <gmv/base/num.h>

#define CHECK_BLOCK 2048

typedef struct client_i8 {
    int8_t value;
} __attribute__((packed, may_alias)) client_i8;
typedef struct client_i16 {
    int16_t value;
} __attribute__((packed, may_alias)) client_i16;
typedef struct client_i32 {
    int32_t value;
} __attribute__((packed, may_alias)) client_i32;
typedef struct client_i64 {
    int64_t value;
} __attribute__((packed, may_alias)) client_i64;

/* Integers from `first` to before `end` of those at `from`, of which some are passed over. */
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
 * The index of the first bad one from `first` to before `end`; `end` if there is none. `quick`:
 * whether any is bad, the validity left out.
 */
#define DEFINE_CHECK(bits)                                                                     \
    GMV_CLIENT_MEMORY static bool check_quick_##bits(const check_run *run, int64_t first,      \
                                                     int64_t end)                              \
    {                                                                                          \
        const client_i##bits *values = (const void *)run->from;                                \
        const int##bits##_t limit =                                                            \
            run->limit > INT##bits##_MAX ? INT##bits##_MAX : (int##bits##_t)run->limit;        \
        unsigned bad = 0;                                                                      \
        for (int64_t i = first; i < end; i++)                                                  \
            bad |= (unsigned)(values[i].value < 0) | (unsigned)(values[i].value > limit);      \
        if (run->in_order)                                                                     \
            for (int64_t i = first > 0 ? first : 1; i < end; i++)                              \
                bad |= (unsigned)(values[i].value < values[i - 1].value);                      \
        return bad != 0;                                                                       \
    }                                                                                          \
    GMV_CLIENT_MEMORY static int64_t check_##bits(const check_run *run, int64_t first,         \
                                                  int64_t end)                                 \
    {                                                                                          \
        const client_i##bits *values = (const void *)run->from;                                \
        if (!check_quick_##bits(run, first, end))                                              \
            return end;                                                                        \
        for (int64_t i = first; i < end; i++) {                                                \
            const int64_t value = values[i].value;                                             \
            const int64_t before = run->in_order && i > 0 ? values[i - 1].value : 0;           \
            if ((value < 0 || value > run->limit || value < before) && check_is_valid(run, i)) \
                return i;                                                                      \
        }                                                                                      \
        return end;                                                                            \
    }

DEFINE_CHECK(8)
DEFINE_CHECK(16)
DEFINE_CHECK(32)
DEFINE_CHECK(64)

typedef int64_t (*check_function)(const check_run *run, int64_t first, int64_t end);

static const check_function check_functions[9] = {
    [1] = check_8, [2] = check_16, [4] = check_32, [8] = check_64};

gmv_status host_check_indices(gmv_stream *stream, const gmv_check_indices *args, gmv_error *err)
{
    const check_run run = {
        .from = (const uint8_t *)(uintptr_t)args->address,
        .validity = args->in_order ? NULL : (const uint8_t *)(uintptr_t)args->validity.address,
        .shift = args->validity.offset,
        .limit = GMV_MAX(args->limit, -1),
        .in_order = args->in_order,
    };
    const check_function check = check_functions[args->itemsize];
    int64_t first = 0, bad = 0;
    for (; first < args->n; first = bad) {
        const int64_t end = first + GMV_MIN(args->n - first, (int64_t)CHECK_BLOCK);
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

gmv_status host_sequence(gmv_stream *stream, const gmv_sequence *args, gmv_error *err)
{
    sequence_write((uint8_t *)(uintptr_t)args->output, args->n, args->step);
    return GMV_OK;
}
