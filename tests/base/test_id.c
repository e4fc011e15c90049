/* SPDX-License-Identifier: Apache-2.0 */
/* Ids have one spelling, no two are alike, and a forked child draws its own. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <criterion/criterion.h>

#include <gmv/base/id.h>

#define IDS         4000
#define THREADS     4
#define ID_DIGITS   26
#define ID_ALPHABET "0123456789abcdefghjkmnpqrstvwxyz"

static const struct {
    gmv_kind kind;
    const char *name;
    const char *prefix;
} kinds[] = {
    {GMV_KIND_BUFFER, "buffer", "buf_"}, {GMV_KIND_VIEW, "view", "view_"},
    {GMV_KIND_COLUMN, "column", "col_"}, {GMV_KIND_TABLE, "table", "tbl_"},
    {GMV_KIND_PACKED, "packed", "pkd_"}, {GMV_KIND_SESSION, "session", "ses_"},
};

#define KINDS (sizeof kinds / sizeof kinds[0])

Test(id, kinds_have_the_names_that_answers_use)
{
    cr_assert_eq(KINDS, GMV_KIND_COUNT - 1);
    for (size_t i = 0; i < KINDS; i++)
        cr_expect_str_eq(gmv_kind_name(kinds[i].kind), kinds[i].name);
    cr_expect_str_eq(gmv_kind_name(GMV_KIND_ANY), "handle");
    cr_expect_str_eq(gmv_kind_name((gmv_kind)99), "handle");
}

Test(id, texts_of_every_kind_come_back)
{
    for (size_t i = 0; i < KINDS; i++) {
        gmv_id id;
        gmv_id back;
        char text[GMV_ID_TEXT_MAX];
        cr_assert(gmv_id_generate(kinds[i].kind, &id));
        size_t length = gmv_id_format(&id, text);
        cr_expect_eq(length, strlen(text));
        cr_expect_eq(length, strlen(kinds[i].prefix) + ID_DIGITS);
        cr_expect_eq(strncmp(text, kinds[i].prefix, strlen(kinds[i].prefix)), 0);
        cr_expect_eq(strspn(text + strlen(kinds[i].prefix), ID_ALPHABET), ID_DIGITS);
        cr_assert(gmv_id_parse(text, length, &back));
        cr_expect(gmv_id_equal(&id, &back));
    }
}

Test(id, known_values_have_known_texts)
{
    static const struct {
        gmv_id id;
        const char *text;
    } rows[] = {
        {{0, 0, GMV_KIND_BUFFER}, "buf_00000000000000000000000000"},
        {{0, 1, GMV_KIND_VIEW}, "view_00000000000000000000000001"},
        {{0, 31, GMV_KIND_VIEW}, "view_0000000000000000000000000z"},
        {{0, 32, GMV_KIND_COLUMN}, "col_00000000000000000000000010"},
        {{UINT64_MAX, UINT64_MAX, GMV_KIND_TABLE}, "tbl_7zzzzzzzzzzzzzzzzzzzzzzzzz"},
        {{UINT64_C(1) << 63, 0, GMV_KIND_PACKED}, "pkd_40000000000000000000000000"},
        {{1, 0, GMV_KIND_SESSION}, "ses_0000000000000g000000000000"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[GMV_ID_TEXT_MAX];
        gmv_id back;
        gmv_id_format(&rows[i].id, text);
        cr_expect_str_eq(text, rows[i].text);
        cr_assert(gmv_id_parse(text, strlen(text), &back));
        cr_expect(gmv_id_equal(&back, &rows[i].id));
    }
}

Test(id, other_spellings_are_not_read)
{
    static const char *const texts[] = {
        "",
        "buf_",
        "00000000000000000000000000",
        "buf_0000000000000000000000000",   /* one short */
        "buf_000000000000000000000000000", /* one long */
        "buf_80000000000000000000000000",  /* a 129th bit */
        "buf_z0000000000000000000000000",
        "buf_0000000000000000000000000A",
        "buf_0000000000000000000000000i", /* letters that the alphabet leaves out */
        "buf_0000000000000000000000000l",
        "buf_0000000000000000000000000o",
        "buf_0000000000000000000000000u",
        "BUF_00000000000000000000000000",
        "buf-00000000000000000000000000",
        "view00000000000000000000000000_",
        "vie_00000000000000000000000000",
        " buf_00000000000000000000000000",
        "buf_00000000000000000000000000\n",
        "buf_0000000000000000000000000-",
        "buf_/0000000000000000000000000",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        gmv_id id = {1, 2, GMV_KIND_VIEW};
        cr_expect_not(gmv_id_parse(texts[i], strlen(texts[i]), &id), "'%s'", texts[i]);
        cr_expect_eq(id.high, 1);
    }
}

Test(id, every_byte_at_every_place_is_read_as_itself_or_refused)
{
    char text[GMV_ID_TEXT_MAX] = "view_01234567abcdefghjkmnpqrst";
    size_t length = strlen(text);
    for (size_t at = 0; at < length; at++) {
        char kept = text[at];
        for (int byte = 0; byte < 256; byte++) {
            gmv_id id;
            char again[GMV_ID_TEXT_MAX];
            text[at] = (char)byte;
            if (!gmv_id_parse(text, length, &id))
                continue;
            gmv_id_format(&id, again);
            cr_expect_arr_eq(again, text, length);
        }
        text[at] = kept;
    }
}

static int id_compare(const void *a, const void *b)
{
    return memcmp(a, b, 16);
}

Test(id, no_two_are_alike)
{
    static uint64_t words[IDS][2];
    uint64_t all_or = 0;
    uint64_t all_and = UINT64_MAX;
    for (int i = 0; i < IDS; i++) {
        gmv_id id;
        cr_assert(gmv_id_generate(GMV_KIND_VIEW, &id));
        words[i][0] = id.high;
        words[i][1] = id.low;
        all_or |= id.high;
        all_and &= id.low;
    }
    qsort(words, IDS, sizeof words[0], id_compare);
    for (int i = 1; i < IDS; i++)
        cr_expect_neq(memcmp(words[i - 1], words[i], 16), 0);
    cr_expect_eq(all_or, UINT64_MAX);
    cr_expect_eq(all_and, 0);
}

Test(id, a_forked_child_draws_other_ids)
{
    gmv_id id;
    int ends[2];
    cr_assert(gmv_id_generate(GMV_KIND_VIEW, &id));
    cr_assert_eq(pipe(ends), 0);
    pid_t child = fork();
    cr_assert_geq(child, 0);
    if (child == 0) {
        ssize_t written = -1;
        if (gmv_id_generate(GMV_KIND_VIEW, &id))
            written = write(ends[1], &id, sizeof id);
        _exit(written == (ssize_t)sizeof id ? 0 : 1);
    }
    gmv_id from_child;
    int status = 1;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert_eq(status, 0);
    cr_assert_eq(read(ends[0], &from_child, sizeof from_child), (ssize_t)sizeof from_child);
    close(ends[0]);
    close(ends[1]);
    cr_assert(gmv_id_generate(GMV_KIND_VIEW, &id));
    cr_expect_not(gmv_id_equal(&id, &from_child));
}

static void *id_worker(void *argument)
{
    gmv_id *out = (gmv_id *)argument;
    return gmv_id_generate(GMV_KIND_BUFFER, out) ? out : NULL;
}

Test(id, threads_draw_apart)
{
    pthread_t threads[THREADS];
    gmv_id ids[THREADS];
    for (int i = 0; i < THREADS; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, id_worker, &ids[i]), 0);
    for (int i = 0; i < THREADS; i++) {
        void *result = NULL;
        pthread_join(threads[i], &result);
        cr_expect_eq(result, &ids[i]);
    }
    for (int i = 0; i < THREADS; i++)
        for (int j = i + 1; j < THREADS; j++)
            cr_expect_not(gmv_id_equal(&ids[i], &ids[j]));
}

Test(id, random_bytes_of_any_amount_are_drawn)
{
    static const size_t amounts[] = {0, 1, 16, 511, 512, 513, 5000};
    static unsigned char bytes[5001];
    for (size_t i = 0; i < sizeof amounts / sizeof amounts[0]; i++) {
        memset(bytes, 0, sizeof bytes);
        cr_assert(gmv_random_bytes(bytes, amounts[i]));
        cr_expect_eq(bytes[amounts[i]], 0);
        size_t zeros = 0;
        for (size_t j = 0; j < amounts[i]; j++)
            zeros += bytes[j] == 0;
        cr_expect_leq(zeros, amounts[i] / 16 + 8, "%zu of %zu bytes are 0", zeros, amounts[i]);
    }
}

Test(id, equality_looks_at_all_of_it)
{
    const gmv_id id = {1, 2, GMV_KIND_VIEW};
    const gmv_id others[] = {{0, 2, GMV_KIND_VIEW}, {1, 0, GMV_KIND_VIEW}, {1, 2, GMV_KIND_TABLE}};
    cr_expect(gmv_id_equal(&id, &id));
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        cr_expect_not(gmv_id_equal(&id, &others[i]));
}
