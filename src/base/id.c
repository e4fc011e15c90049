/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random ids and their one spelling. Randomness is drawn from the kernel into a buffer per thread,
 * since a system call an id would cost more than all the rest of making a handle.
 */
#include <gmv/base/id.h>

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/random.h>

#define ID_DIGITS      26
#define ID_POOL_NBYTES 512

typedef struct id_pool {
    size_t left; /* unused bytes, at the end of `bytes` */
    unsigned char bytes[ID_POOL_NBYTES];
} id_pool;

static __thread id_pool id_thread_pool;
static pthread_once_t id_fork_once = PTHREAD_ONCE_INIT;

static const char id_alphabet[] = "0123456789abcdefghjkmnpqrstvwxyz";

static const struct {
    const char *name;
    const char *prefix;
} id_kinds[GMV_KIND_COUNT] = {
    [GMV_KIND_ANY] = {"handle", ""},          [GMV_KIND_BUFFER] = {"buffer", "buf_"},
    [GMV_KIND_VIEW] = {"view", "view_"},      [GMV_KIND_COLUMN] = {"column", "col_"},
    [GMV_KIND_TABLE] = {"table", "tbl_"},     [GMV_KIND_PACKED] = {"packed", "pkd_"},
    [GMV_KIND_SESSION] = {"session", "ses_"},
};

const char *gmv_kind_name(gmv_kind kind)
{
    unsigned index = (unsigned)kind;
    return id_kinds[index < GMV_KIND_COUNT ? index : GMV_KIND_ANY].name;
}

static bool id_draw(void *out_bytes, size_t nbytes)
{
    unsigned char *next = (unsigned char *)out_bytes;
    while (nbytes > 0) {
        ssize_t drawn = getrandom(next, nbytes, 0);
        if (drawn < 0 && errno == EINTR)
            continue;
        if (drawn <= 0)
            return false;
        next += drawn;
        nbytes -= (size_t)drawn;
    }
    return true;
}

/* Without this a forked child would hand out the same ids as its parent. */
static void id_forget_pool(void)
{
    id_thread_pool.left = 0;
}

static void id_watch_forks(void)
{
    (void)pthread_atfork(NULL, NULL, id_forget_pool);
}

bool gmv_random_bytes(void *out_bytes, size_t nbytes)
{
    id_pool *pool = &id_thread_pool;
    if (nbytes > ID_POOL_NBYTES)
        return id_draw(out_bytes, nbytes);
    if (nbytes > pool->left) {
        (void)pthread_once(&id_fork_once, id_watch_forks);
        pool->left = 0;
        if (!id_draw(pool->bytes, ID_POOL_NBYTES))
            return false;
        pool->left = ID_POOL_NBYTES;
    }
    unsigned char *next = pool->bytes + ID_POOL_NBYTES - pool->left;
    memcpy(out_bytes, next, nbytes);
    memset(next, 0, nbytes);
    pool->left -= nbytes;
    return true;
}

bool gmv_id_generate(gmv_kind kind, gmv_id *out_id)
{
    uint64_t words[2];
    if (!gmv_random_bytes(words, sizeof words))
        return false;
    *out_id = (gmv_id){.high = words[0], .low = words[1], .kind = kind};
    return true;
}

size_t gmv_id_format(const gmv_id *id, char out_text[GMV_ID_TEXT_MAX])
{
    unsigned index = (unsigned)id->kind;
    const char *prefix = id_kinds[index < GMV_KIND_COUNT ? index : GMV_KIND_ANY].prefix;
    size_t prefix_length = strlen(prefix);
    memcpy(out_text, prefix, prefix_length);
    /* 13 digits carry the low 65 bits and 13 the rest: two words are faster than one of 128 bits.
     */
    uint64_t low = id->low;
    uint64_t high = id->high;
    char *digits = out_text + prefix_length;
#pragma GCC unroll 12
    for (size_t i = 12; i > 0; i--, low >>= 5)
        digits[13 + i] = id_alphabet[low & 31];
    digits[13] = id_alphabet[(low & 15) | (high & 1) << 4];
    high >>= 1;
#pragma GCC unroll 13
    for (size_t i = 13; i-- > 0; high >>= 5)
        digits[i] = id_alphabet[high & 31];
    out_text[prefix_length + ID_DIGITS] = '\0';
    return prefix_length + ID_DIGITS;
}

/* The value of a digit plus 1, so that what is no digit is 0. */
static const unsigned char id_digit_values[256] = {
    ['0'] = 1,  ['1'] = 2,  ['2'] = 3,  ['3'] = 4,  ['4'] = 5,  ['5'] = 6,  ['6'] = 7,  ['7'] = 8,
    ['8'] = 9,  ['9'] = 10, ['a'] = 11, ['b'] = 12, ['c'] = 13, ['d'] = 14, ['e'] = 15, ['f'] = 16,
    ['g'] = 17, ['h'] = 18, ['j'] = 19, ['k'] = 20, ['m'] = 21, ['n'] = 22, ['p'] = 23, ['q'] = 24,
    ['r'] = 25, ['s'] = 26, ['t'] = 27, ['v'] = 28, ['w'] = 29, ['x'] = 30, ['y'] = 31, ['z'] = 32,
};

static bool id_parse_digits(const char *digits, gmv_id *out_id)
{
    /* The first digit carries the three top bits only. */
    if (digits[0] > '7')
        return false;
    unsigned __int128 bits = 0;
    for (size_t i = 0; i < ID_DIGITS; i++) {
        unsigned value = id_digit_values[(unsigned char)digits[i]];
        if (value == 0)
            return false;
        bits = bits << 5 | (value - 1);
    }
    out_id->high = (uint64_t)(bits >> 64);
    out_id->low = (uint64_t)bits;
    return true;
}

bool gmv_id_parse(const char *text, size_t length, gmv_id *out_id)
{
    for (int kind = GMV_KIND_BUFFER; kind < GMV_KIND_COUNT; kind++) {
        const char *prefix = id_kinds[kind].prefix;
        size_t prefix_length = strlen(prefix);
        if (length != prefix_length + ID_DIGITS || memcmp(text, prefix, prefix_length) != 0)
            continue;
        gmv_id id = {.kind = (gmv_kind)kind};
        if (!id_parse_digits(text + prefix_length, &id))
            return false;
        *out_id = id;
        return true;
    }
    return false;
}
