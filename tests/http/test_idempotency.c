/* SPDX-License-Identifier: Apache-2.0 */
/* Keys: what is remembered, for how long, how much, and for whom. */
#include <criterion/criterion.h>

#include <stdio.h>
#include <string.h>

#include "http/idempotency.h"

static gmv_idempotency *table_new(void)
{
    gmv_idempotency *table;
    cr_assert_eq(gmv_idempotency_create(&table, NULL), GMV_OK);
    return table;
}

static gmv_status begin(gmv_idempotency *table, uint32_t principal, const char *key,
                        uint64_t fingerprint, gmv_reply *reply, gmv_idempotency_entry **out_entry)
{
    const gmv_idempotent_request request = {principal, key, strlen(key), fingerprint};
    *reply = (gmv_reply){0};
    return gmv_idempotency_begin(table, &request, reply, out_entry, NULL);
}

/* Runs a request with the answer of `nbytes` times 'x'. */
static void run(gmv_idempotency *table, const char *key, size_t nbytes)
{
    gmv_idempotency_entry *entry;
    gmv_reply reply;
    cr_assert_eq(begin(table, 0, key, 7, &reply, &entry), GMV_OK);
    cr_assert_not_null(entry);
    reply.http_status = 201;
    strcpy(reply.location, "/v1/views/x");
    char *text = gmv_malloc(nbytes + 1);
    cr_assert_not_null(text);
    memset(text, 'x', nbytes);
    gmv_strbuf_append(&reply.text, text, nbytes);
    gmv_free(text);
    gmv_idempotency_finish(table, entry, &reply);
    gmv_strbuf_fini(&reply.text);
}

static gmv_status again(gmv_idempotency *table, const char *key, size_t nbytes)
{
    gmv_idempotency_entry *entry;
    gmv_reply reply;
    gmv_status status = begin(table, 0, key, 7, &reply, &entry);
    if (status == GMV_OK && entry) {
        gmv_idempotency_finish(table, entry, NULL);
        return GMV_ERR_HANDLE_UNKNOWN; /* it would have been run */
    }
    if (status == GMV_OK) {
        cr_assert_eq(reply.http_status, 201);
        cr_assert_str_eq(reply.location, "/v1/views/x");
        cr_assert_eq(reply.text.length, nbytes);
        gmv_strbuf_fini(&reply.text);
    }
    return status;
}

Test(idempotency, the_first_answer_is_given_again_for_ten_minutes)
{
    gmv_idempotency *table = table_new();
    run(table, "key", 5);
    cr_assert_eq(again(table, "key", 5), GMV_OK);
    cr_assert_eq(again(table, "key", 5), GMV_OK);
    cr_assert_eq(again(table, "kex", 5), GMV_ERR_HANDLE_UNKNOWN);
    gmv_clock_advance_ms(GMV_IDEMPOTENCY_SECONDS * 1000 - 5000);
    cr_assert_eq(again(table, "key", 5), GMV_OK);
    gmv_clock_advance_ms(5000);
    cr_assert_eq(again(table, "key", 5), GMV_ERR_HANDLE_UNKNOWN);
    run(table, "key", 9);
    cr_assert_eq(again(table, "key", 9), GMV_OK);
    gmv_idempotency_destroy(table);
}

Test(idempotency, another_request_and_one_under_way_are_told_apart)
{
    gmv_idempotency *table = table_new();
    gmv_idempotency_entry *entry, *other;
    gmv_reply reply;
    cr_assert_eq(begin(table, 0, "k", 1, &reply, &entry), GMV_OK);
    cr_assert_eq(begin(table, 0, "k", 1, &reply, &other), GMV_ERR_IDEMPOTENCY_IN_FLIGHT);
    cr_assert_eq(begin(table, 0, "k", 2, &reply, &other), GMV_ERR_IDEMPOTENCY_MISMATCH);
    cr_assert_null(other);
    gmv_idempotency_finish(table, entry, &(gmv_reply){.http_status = 200});
    cr_assert_eq(begin(table, 0, "k", 2, &reply, &other), GMV_ERR_IDEMPOTENCY_MISMATCH);
    cr_assert_eq(begin(table, 0, "k", 1, &reply, &other), GMV_OK);
    cr_assert_null(other);
    cr_assert_eq(reply.http_status, 200);
    gmv_idempotency_destroy(table);
}

Test(idempotency, a_request_that_failed_leaves_its_key_free)
{
    gmv_idempotency *table = table_new();
    gmv_idempotency_entry *entry;
    gmv_reply reply;
    cr_assert_eq(begin(table, 0, "k", 1, &reply, &entry), GMV_OK);
    gmv_idempotency_finish(table, entry, NULL);
    cr_assert_eq(begin(table, 0, "k", 2, &reply, &entry), GMV_OK);
    cr_assert_not_null(entry);
    gmv_idempotency_finish(table, entry, NULL);
    gmv_idempotency_destroy(table);
}

Test(idempotency, each_principal_has_keys_of_its_own)
{
    gmv_idempotency *table = table_new();
    gmv_idempotency_entry *first, *second;
    gmv_reply reply;
    cr_assert_eq(begin(table, 1, "k", 1, &reply, &first), GMV_OK);
    cr_assert_eq(begin(table, 2, "k", 9, &reply, &second), GMV_OK);
    cr_assert(first && second);
    gmv_idempotency_finish(table, first, NULL);
    gmv_idempotency_finish(table, second, NULL);
    gmv_idempotency_destroy(table);
}

Test(idempotency, too_long_an_answer_is_not_kept_and_not_run_again)
{
    gmv_idempotency *table = table_new();
    run(table, "long", GMV_IDEMPOTENCY_ANSWER_MAX + 1);
    cr_assert_eq(again(table, "long", 0), GMV_ERR_QUOTA_EXCEEDED);
    run(table, "just", GMV_IDEMPOTENCY_ANSWER_MAX);
    cr_assert_eq(again(table, "just", GMV_IDEMPOTENCY_ANSWER_MAX), GMV_OK);
    gmv_idempotency_destroy(table);
}

Test(idempotency, the_oldest_answers_go_when_there_are_too_many_bytes)
{
    enum { ANSWERS = 20, NBYTES = 4 << 20 };
    gmv_idempotency *table = table_new();
    char key[16];
    for (int i = 0; i < ANSWERS; i++) {
        snprintf(key, sizeof key, "%d", i);
        run(table, key, NBYTES);
    }
    for (int i = 0; i < ANSWERS; i++) {
        snprintf(key, sizeof key, "%d", i);
        cr_assert_eq(again(table, key, NBYTES), i < ANSWERS - 16 ? GMV_ERR_HANDLE_UNKNOWN : GMV_OK,
                     "%d", i);
    }
    gmv_idempotency_destroy(table);
}

Test(idempotency, the_oldest_keys_go_when_there_are_too_many)
{
    enum { KEYS = GMV_IDEMPOTENCY_KEYS_MAX + 100 };
    gmv_idempotency *table = table_new();
    char key[16];
    for (int i = 0; i < KEYS; i++) {
        snprintf(key, sizeof key, "%d", i);
        run(table, key, 1);
    }
    cr_assert_eq(again(table, "99", 1), GMV_ERR_HANDLE_UNKNOWN);
    cr_assert_eq(again(table, "100", 1), GMV_OK);
    gmv_clock_advance_ms(GMV_IDEMPOTENCY_SECONDS * 1000);
    gmv_alloc_watch(1);
    gmv_idempotency_sweep(table);
    cr_assert_leq(gmv_alloc_live(), -2 * GMV_IDEMPOTENCY_KEYS_MAX, "keys and answers are freed");
    gmv_alloc_watch(0);
    gmv_idempotency_destroy(table);
}

Test(idempotency, no_failed_allocation_leaves_anything_or_runs_twice)
{
    gmv_alloc_watch(1);
    for (uint64_t n = 1;; n++) {
        gmv_idempotency *table = table_new();
        gmv_idempotency_entry *entry = NULL;
        gmv_reply reply;
        gmv_alloc_fail_once(n);
        gmv_status status = begin(table, 0, "k", 7, &reply, &entry);
        if (status == GMV_OK) {
            gmv_idempotency_finish(table, entry,
                                   &(gmv_reply){.http_status = 201, .location = "/v1/views/x"});
            gmv_status second = again(table, "k", 0);
            cr_assert(second == GMV_OK || second == GMV_ERR_QUOTA_EXCEEDED ||
                      second == GMV_ERR_OVERLOADED);
        } else {
            cr_assert_eq(status, GMV_ERR_OVERLOADED);
            cr_assert_eq(again(table, "k", 0), GMV_ERR_HANDLE_UNKNOWN);
        }
        bool failed = gmv_alloc_has_failed();
        gmv_alloc_fail_once(0);
        gmv_idempotency_destroy(table);
        cr_assert_eq(gmv_alloc_live(), 0);
        if (!failed)
            break;
    }
}

Test(idempotency, keys_are_visible_ascii)
{
    static char longest[GMV_IDEMPOTENCY_KEY_MAX + 1];
    memset(longest, '~', sizeof longest);
    cr_assert(gmv_idempotency_key_is_valid("!", 1));
    cr_assert(gmv_idempotency_key_is_valid(longest, GMV_IDEMPOTENCY_KEY_MAX));
    cr_assert_not(gmv_idempotency_key_is_valid(longest, GMV_IDEMPOTENCY_KEY_MAX + 1));
    cr_assert_not(gmv_idempotency_key_is_valid("", 0));
    cr_assert_not(gmv_idempotency_key_is_valid("a b", 3));
    cr_assert_not(gmv_idempotency_key_is_valid("a\xC3\xBC", 3));
    cr_assert_not(gmv_idempotency_key_is_valid("a\x7f", 2));
}
