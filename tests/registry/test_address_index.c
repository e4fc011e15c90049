/* SPDX-License-Identifier: Apache-2.0 */
/* The address index against a naive list of ranges. */
#include <criterion/criterion.h>

#include <gmv/registry/address_index.h>

enum { N = 400, OPERATIONS = 10000 };

static gmv_range_entry entries[N];
static uint32_t random_state = 12345;

static uint32_t draw(uint32_t bound)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 17;
    random_state ^= random_state << 5;
    return random_state % bound;
}

typedef struct seen {
    bool entry[N];
    size_t n;
    size_t stop_after;
} seen;

static bool see(gmv_range_entry *entry, void *context)
{
    seen *to = context;
    size_t index = (size_t)(entry - entries);
    cr_assert_lt(index, N);
    cr_assert_not(to->entry[index], "an entry is visited twice");
    to->entry[index] = true;
    return ++to->n < to->stop_after;
}

static size_t check_address(const gmv_address_index *index, uint64_t address, bool include_end)
{
    seen to = {.stop_after = N + 1};
    gmv_address_index_find(index, address, include_end, see, &to);
    for (size_t i = 0; i < N; i++) {
        const gmv_range_entry *e = &entries[i];
        bool wanted = e->inserted && e->begin <= address &&
                      (address < e->end || (include_end && address == e->end));
        cr_assert_eq(to.entry[i], wanted, "entry %zu [%lu, %lu) at %lu", i, (unsigned long)e->begin,
                     (unsigned long)e->end, (unsigned long)address);
    }
    return to.n;
}

static size_t tree_depth(const gmv_range_entry *entry)
{
    if (!entry)
        return 0;
    size_t left = tree_depth(entry->left), right = tree_depth(entry->right);
    return 1 + (left > right ? left : right);
}

Test(address_index, agrees_with_a_list_under_random_changes)
{
    gmv_address_index index = {0};
    size_t n_inserted = 0, n_hits = 0;
    for (int operation = 0; operation < OPERATIONS; operation++) {
        gmv_range_entry *entry = &entries[draw(N)];
        if (entry->inserted) {
            gmv_address_index_remove(&index, entry);
            n_inserted--;
        } else {
            entry->begin = draw(1000);
            entry->end = entry->begin + (draw(4) ? draw(30) : draw(600));
            gmv_address_index_insert(&index, entry);
            n_inserted++;
        }
        cr_assert_eq(index.count, n_inserted);
        n_hits += check_address(&index, draw(1700), draw(2));
        n_hits += check_address(&index, entry->end, true);
    }
    cr_assert_gt(n_hits, OPERATIONS);
    cr_assert_lt(tree_depth(index.root), 40);
    for (size_t i = 0; i < N; i++)
        gmv_address_index_remove(&index, &entries[i]);
    cr_assert_eq(index.count, 0);
    cr_assert_null(index.root);
}

Test(address_index, stays_flat_when_addresses_ascend)
{
    gmv_address_index index = {0};
    for (size_t i = 0; i < N; i++) {
        entries[i] = (gmv_range_entry){.begin = i * 10, .end = i * 10 + 10};
        gmv_address_index_insert(&index, &entries[i]);
    }
    cr_assert_lt(tree_depth(index.root), 40);
    for (uint64_t address = 0; address <= N * 10; address++) {
        size_t n = check_address(&index, address, false);
        cr_assert_eq(n, address < N * 10);
    }
}

Test(address_index, stops_when_the_visitor_has_enough)
{
    gmv_address_index index = {0};
    for (size_t i = 0; i < N; i++) {
        entries[i] = (gmv_range_entry){.begin = 5, .end = 50};
        gmv_address_index_insert(&index, &entries[i]);
    }
    seen to = {.stop_after = 2};
    gmv_address_index_find(&index, 5, false, see, &to);
    cr_assert_eq(to.n, 2);
    cr_assert_eq(check_address(&index, 49, false), N);
    cr_assert_eq(check_address(&index, 50, false), 0);
    cr_assert_eq(check_address(&index, 50, true), N);
}

Test(address_index, holds_empty_ranges_and_the_last_address)
{
    gmv_address_index index = {0};
    entries[0] = (gmv_range_entry){.begin = 7, .end = 7};
    entries[1] = (gmv_range_entry){.begin = UINT64_MAX - 8, .end = UINT64_MAX};
    gmv_address_index_insert(&index, &entries[0]);
    gmv_address_index_insert(&index, &entries[1]);
    cr_assert_eq(check_address(&index, 7, false), 0);
    cr_assert_eq(check_address(&index, 7, true), 1);
    cr_assert_eq(check_address(&index, UINT64_MAX, false), 0);
    cr_assert_eq(check_address(&index, UINT64_MAX, true), 1);
    cr_assert_eq(check_address(&index, UINT64_MAX - 1, false), 1);
}

Test(address_index, removes_nothing_that_is_not_in_it)
{
    gmv_address_index index = {0};
    gmv_range_entry entry = {.begin = 1, .end = 2};
    gmv_address_index_remove(&index, &entry);
    cr_assert_eq(index.count, 0);
}
