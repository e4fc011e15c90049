/* SPDX-License-Identifier: Apache-2.0 */
/* The allocator fails exactly when told to, counts what is left, and is otherwise the C library's.
 */
#include <pthread.h>
#include <string.h>

#include <criterion/criterion.h>

#include <gmv/base/alloc.h>

#define THREADS           4
#define BLOCKS_PER_THREAD 500

Test(alloc, memory_is_usable_and_freed)
{
    char *block = (char *)gmv_malloc(16);
    cr_assert_not_null(block);
    memset(block, 'x', 16);
    block = (char *)gmv_realloc(block, 4096);
    cr_assert_not_null(block);
    cr_expect_eq(block[15], 'x');
    gmv_free(block);
    gmv_free(NULL);
}

Test(alloc, cleared_memory_is_zero)
{
    char *block = (char *)gmv_calloc(7, 9);
    cr_assert_not_null(block);
    for (int i = 0; i < 63; i++)
        cr_expect_eq(block[i], 0);
    gmv_free(block);
}

Test(alloc, a_product_that_overflows_is_no_memory)
{
    volatile size_t half = SIZE_MAX / 2;
    cr_expect_null(gmv_calloc(half, 3));
}

Test(alloc, resizing_to_nothing_keeps_a_block)
{
    void *block = gmv_malloc(8);
    block = gmv_realloc(block, 0);
    cr_expect_not_null(block);
    gmv_free(block);
}

Test(alloc, texts_are_copied_up_to_their_length_or_end)
{
    char *text = gmv_strndup("abcdef", 3);
    cr_expect_str_eq(text, "abc");
    gmv_free(text);
    text = gmv_strndup("ab", 100);
    cr_expect_str_eq(text, "ab");
    gmv_free(text);
    text = gmv_strndup("", 0);
    cr_expect_str_eq(text, "");
    gmv_free(text);
}

Test(alloc, all_fail_from_the_asked_one_on)
{
    gmv_alloc_fail_from(3);
    void *first = gmv_malloc(8);
    void *second = gmv_calloc(1, 8);
    cr_expect_not_null(first);
    cr_expect_not_null(second);
    cr_expect_not(gmv_alloc_has_failed());
    cr_expect_null(gmv_malloc(8));
    cr_expect(gmv_alloc_has_failed());
    cr_expect_null(gmv_calloc(1, 8));
    cr_expect_null(gmv_strndup("x", 1));
    gmv_alloc_fail_from(0);
    void *third = gmv_malloc(8);
    cr_expect_not_null(third);
    gmv_free(first);
    gmv_free(second);
    gmv_free(third);
}

Test(alloc, only_the_asked_one_fails)
{
    gmv_alloc_fail_once(2);
    void *first = gmv_malloc(8);
    cr_expect_not_null(first);
    cr_expect_null(gmv_malloc(8));
    cr_expect(gmv_alloc_has_failed());
    void *third = gmv_malloc(8);
    cr_expect_not_null(third);
    gmv_alloc_fail_once(0);
    cr_expect_not(gmv_alloc_has_failed());
    gmv_free(first);
    gmv_free(third);
}

Test(alloc, a_failed_resize_leaves_the_block_alone)
{
    char *block = gmv_strndup("kept", 4);
    gmv_alloc_fail_from(1);
    cr_expect_null(gmv_realloc(block, 1 << 20));
    cr_expect_str_eq(block, "kept");
    gmv_alloc_fail_from(0);
    gmv_free(block);
}

Test(alloc, live_blocks_are_counted_while_watched)
{
    void *before = gmv_malloc(8);
    gmv_alloc_watch(1);
    cr_expect_eq(gmv_alloc_live(), 0);
    void *a = gmv_malloc(8);
    void *b = gmv_realloc(NULL, 8);
    char *c = gmv_strndup("text", 4);
    cr_expect_eq(gmv_alloc_live(), 3);
    b = gmv_realloc(b, 800);
    cr_expect_eq(gmv_alloc_live(), 3);
    gmv_free(NULL);
    cr_expect_eq(gmv_alloc_live(), 3);
    gmv_free(a);
    gmv_free(b);
    gmv_free(c);
    cr_expect_eq(gmv_alloc_live(), 0);
    gmv_alloc_watch(0);
    gmv_free(before);
    cr_expect_eq(gmv_alloc_live(), 0);
}

Test(alloc, failed_allocations_are_not_counted)
{
    gmv_alloc_watch(1);
    gmv_alloc_fail_from(1);
    cr_expect_null(gmv_malloc(8));
    cr_expect_null(gmv_calloc(8, 8));
    cr_expect_null(gmv_realloc(NULL, 8));
    gmv_alloc_fail_from(0);
    cr_expect_eq(gmv_alloc_live(), 0);
    gmv_alloc_watch(0);
}

static void *alloc_worker(void *argument)
{
    void **blocks = (void **)argument;
    for (int i = 0; i < BLOCKS_PER_THREAD; i++)
        blocks[i] = gmv_malloc(8);
    return NULL;
}

Test(alloc, threads_count_together_and_one_failure_is_one)
{
    static void *blocks[THREADS][BLOCKS_PER_THREAD];
    pthread_t threads[THREADS];
    gmv_alloc_watch(1);
    gmv_alloc_fail_once(THREADS * BLOCKS_PER_THREAD / 2);
    for (int i = 0; i < THREADS; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, alloc_worker, blocks[i]), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    cr_expect_eq(gmv_alloc_live(), THREADS * BLOCKS_PER_THREAD - 1);
    for (int i = 0; i < THREADS; i++)
        for (int j = 0; j < BLOCKS_PER_THREAD; j++)
            gmv_free(blocks[i][j]);
    cr_expect_eq(gmv_alloc_live(), 0);
    gmv_alloc_fail_once(0);
    gmv_alloc_watch(0);
}
