/* SPDX-License-Identifier: Apache-2.0 */
/* What the registry remembers and for how long, and that its memory follows what lives. */
#include <criterion/criterion.h>

#include <gmv/base/num.h>

#include "registry/order.h"
#include "registry/shard.h"
#include "registry/tombstones.h"
#include "registry/toy.h"

/* ---- tombstones
 * ---------------------------------------------------------------------------------- */

Test(tombstones, are_forgotten_after_65536_more_deaths)
{
    gmv_registry *registry = toy_registry(0);
    gmv_id first = toy_make(registry, GMV_KIND_VIEW, 0)->id;
    gmv_id second = toy_make(registry, GMV_KIND_VIEW, 0)->id;
    toy_delete(registry, &first, GMV_IF_HELD_KEEP);
    toy_delete(registry, &second, GMV_IF_HELD_KEEP);
    for (int i = 0; i < GMV_TOMBSTONES_MAX - 2; i++) {
        gmv_id id = toy_make(registry, GMV_KIND_VIEW, 0)->id;
        toy_delete(registry, &id, GMV_IF_HELD_KEEP);
    }
    cr_assert_eq(toy_get(registry, &first, NULL), GMV_ERR_HANDLE_DELETED);
    gmv_id id = toy_make(registry, GMV_KIND_VIEW, 0)->id;
    toy_delete(registry, &id, GMV_IF_HELD_KEEP);
    cr_assert_eq(toy_get(registry, &first, NULL), GMV_ERR_HANDLE_UNKNOWN);
    cr_assert_eq(toy_get(registry, &second, NULL), GMV_ERR_HANDLE_DELETED);
    cr_assert_eq(toy_get(registry, &id, NULL), GMV_ERR_HANDLE_DELETED);
    gmv_registry_destroy(registry);
}

Test(tombstones, survive_ids_that_collide_in_the_index)
{
    enum { N = 3 * GMV_TOMBSTONES_MAX };
    gmv_tombstones tombstones;
    cr_assert(gmv__tombstones_init(&tombstones));
    gmv_tombstone found;
    for (uint32_t i = 0; i < N; i++) {
        /* Eight to a place, eleven apart: full runs, and holes filled from behind. */
        gmv_id id = {.kind = GMV_KIND_VIEW, .high = i, .low = (uint64_t)(i / 8 * 11) << 32};
        gmv__tombstones_add(&tombstones, &id, i % 5, GMV_REASON_CASCADE);
        cr_assert(gmv__tombstones_find(&tombstones, &id, &found));
        cr_assert_eq(found.principal, i % 5);
    }
    for (uint32_t i = 0; i < N; i++) {
        gmv_id id = {.kind = GMV_KIND_VIEW, .high = i, .low = (uint64_t)(i / 8 * 11) << 32};
        cr_assert_eq(gmv__tombstones_find(&tombstones, &id, &found), i >= N - GMV_TOMBSTONES_MAX);
        id.kind = GMV_KIND_TABLE;
        cr_assert_not(gmv__tombstones_find(&tombstones, &id, &found));
    }
    gmv__tombstones_fini(&tombstones);
}

/* ---- the order of creation
 * ----------------------------------------------------------------------- */

static void order_make_room(gmv_order *order)
{
    while (!gmv__order_try_reserve(order)) {
        size_t wanted = gmv__order_directory_wanted(order);
        gmv_order_chunk *chunk = gmv_malloc(sizeof *chunk);
        gmv_order_chunk **directory =
            wanted ? gmv_malloc(wanted * sizeof(gmv_order_chunk *)) : NULL;
        cr_assert(chunk && (directory || !wanted));
        gmv__order_grow(order, &chunk, &directory, wanted);
        gmv_free(chunk);
        gmv_free(directory);
    }
}

/* Walks the whole order against the nodes that are expected to be in it, in that order. */
static void check_order(const gmv_order *order, gmv_node *nodes, const bool *in, size_t n)
{
    gmv_order_position position = gmv__order_seek(order, 0);
    uint64_t before = 0, sequence = 0;
    for (size_t i = 0; i < n; i++) {
        if (!in[i])
            continue;
        cr_assert_eq(gmv__order_next(order, &position, &sequence), &nodes[i], "at %zu", i);
        cr_assert_gt(sequence, before);
        gmv_order_position again = gmv__order_seek(order, before);
        uint64_t same;
        cr_assert_eq(gmv__order_next(order, &again, &same), &nodes[i]);
        cr_assert_eq(same, sequence);
        before = sequence;
    }
    cr_assert_null(gmv__order_next(order, &position, &sequence));
}

static void check_chunks(const gmv_order *order, size_t n_live)
{
    size_t live = 0;
    cr_assert_leq(order->n_chunks + order->n_spare, order->capacity);
    for (size_t i = 0; i < order->n_chunks; i++) {
        const gmv_order_chunk *chunk = order->directory[i];
        live += chunk->live;
        cr_assert_eq(chunk->previous, i ? order->directory[i - 1] : NULL);
        if (i + 1 == order->n_chunks) {
            cr_assert_null(chunk->next);
            continue;
        }
        cr_assert_eq(chunk->next, order->directory[i + 1]);
        cr_assert_gt(chunk->live, 0);
        if (i + 2 < order->n_chunks)
            cr_assert_gt(GMV_MAX(chunk->live, order->directory[i + 1]->live), ORDER_SPARSE_SLOTS);
    }
    cr_assert_eq(live, n_live);
}

Test(order, keeps_its_order_and_its_memory_in_proportion)
{
    enum { N = 40000 };
    static gmv_node nodes[N];
    static bool in[N];
    gmv_order order;
    gmv__order_init(&order);
    size_t n = 0, live = 0;
    uint32_t random = 7;
    while (n < N) {
        random = random * 1664525u + 1013904223u;
        /* Phases that mostly add and phases that mostly remove. */
        bool add = (random >> 9) % 8 < (n / 5000 % 2 ? 3u : 6u) || live == 0;
        if (add) {
            order_make_room(&order);
            gmv__order_append(&order, &nodes[n]);
            in[n++] = true;
            live++;
        } else {
            size_t victim = (random >> 4) % n;
            if (in[victim]) {
                gmv__order_remove(&order, &nodes[victim]);
                in[victim] = false;
                live--;
            }
        }
        gmv__order_free_chunks(gmv__order_take_surplus(&order));
        if (n % 997 == 0)
            check_chunks(&order, live);
    }
    check_chunks(&order, live);
    check_order(&order, nodes, in, n);
    for (size_t i = 0; i < n; i++)
        if (in[i])
            gmv__order_remove(&order, &nodes[i]);
    gmv__order_free_chunks(gmv__order_take_surplus(&order));
    cr_assert_eq(order.n_chunks, 1);
    cr_assert_leq(order.n_spare, 1);
    gmv__order_fini(&order);
}

Test(order, of_a_few_that_stay_among_many_that_go_takes_little_memory)
{
    enum { N = 200 };
    static gmv_node kept[N];
    static bool in[N];
    gmv_order order;
    gmv__order_init(&order);
    for (size_t i = 0; i < N; i++) {
        gmv_node passing[ORDER_CHUNK_SLOTS];
        order_make_room(&order);
        gmv__order_append(&order, &kept[i]);
        in[i] = true;
        for (size_t j = 0; j < ORDER_CHUNK_SLOTS; j++) {
            order_make_room(&order);
            gmv__order_append(&order, &passing[j]);
        }
        for (size_t j = 0; j < ORDER_CHUNK_SLOTS; j++)
            gmv__order_remove(&order, &passing[j]);
        gmv__order_free_chunks(gmv__order_take_surplus(&order));
        cr_assert_eq(gmv__order_newest(&order), &kept[i]);
    }
    check_chunks(&order, N);
    check_order(&order, kept, in, N);
    cr_assert_leq(order.n_chunks, 4);
    for (size_t i = N; i > 0; i--)
        gmv__order_remove(&order, &kept[i - 1]);
    cr_assert_null(gmv__order_newest(&order));
    gmv__order_fini(&order);
}

/* ---- the hash
 * ------------------------------------------------------------------------------------ */

Test(shard, finds_everything_while_it_grows_and_shrinks)
{
    enum { N = 5000 };
    static gmv_node nodes[N];
    gmv_shard shard;
    gmv__shard_init(&shard);
    for (size_t i = 0; i < N; i++) {
        cr_assert(gmv_id_generate(GMV_KIND_VIEW, &nodes[i].id));
        /* Without memory the chains get longer, and later it catches up. */
        if (i < N / 2)
            gmv_alloc_fail_from(1);
        gmv__shard_reserve(&shard, &nodes[i].id);
        gmv_alloc_fail_from(0);
        gmv__shard_insert(&shard, &nodes[i]);
        if (i % 100 == 0)
            for (size_t j = 0; j <= i; j++)
                cr_assert_eq(gmv__shard_find(&shard, &nodes[j].id), &nodes[j]);
    }
    cr_assert_eq(shard.n_buckets, N);
    for (size_t i = 0; i < N; i += 2)
        gmv__shard_remove(&shard, &nodes[i]);
    for (size_t i = 0; i < N; i++)
        cr_assert_eq(gmv__shard_find(&shard, &nodes[i].id), i % 2 ? &nodes[i] : NULL);
    cr_assert_eq(shard.count, N / 2);
    gmv__shard_fini(&shard);
}

Test(shard, grows_for_all_that_is_prepared_before_the_first_is_inserted)
{
    enum { N = 5000, DISCARDED = 1000 };
    static gmv_node nodes[N];
    gmv_shard shard;
    gmv__shard_init(&shard);
    for (size_t i = 0; i < N; i++) {
        cr_assert(gmv_id_generate(GMV_KIND_VIEW, &nodes[i].id));
        gmv__shard_reserve(&shard, &nodes[i].id);
    }
    for (size_t i = 0; i < DISCARDED; i++)
        gmv__shard_unreserve(&shard);
    for (size_t i = DISCARDED; i < N; i++)
        gmv__shard_insert(&shard, &nodes[i]);
    cr_assert_eq(shard.count, N - DISCARDED);
    cr_assert_eq(shard.reserved, 0);
    cr_assert_eq(shard.n_buckets, N - DISCARDED, "chains grew: %zu buckets", shard.n_buckets);
    for (size_t i = 0; i < N; i++)
        cr_assert_eq(gmv__shard_find(&shard, &nodes[i].id), i < DISCARDED ? NULL : &nodes[i]);
    gmv__shard_fini(&shard);
}

Test(node, with_an_edge_stays_small)
{
    cr_assert_leq(sizeof(gmv_node) + sizeof(gmv_edge), 224);
}
