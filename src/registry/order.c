/* SPDX-License-Identifier: Apache-2.0 */
/* The order of creation (see order.h). */
#include "registry/order.h"

#include <string.h>

#include <gmv/base/alloc.h>

#define ORDER_DIRECTORY_MIN 16u

void gmv__order_init(gmv_order *order)
{
    memset(order, 0, sizeof *order);
    order->next_sequence = 1;
}

void gmv__order_fini(gmv_order *order)
{
    for (size_t i = 0; i < order->n_chunks; i++)
        gmv_free(order->directory[i]);
    gmv__order_free_chunks(order->spare);
    gmv_free(order->directory);
    memset(order, 0, sizeof *order);
}

static gmv_order_chunk *order_tail(const gmv_order *order)
{
    return order->n_chunks ? order->directory[order->n_chunks - 1] : NULL;
}

static size_t order_tail_room(const gmv_order *order)
{
    const gmv_order_chunk *tail = order_tail(order);
    return tail ? ORDER_CHUNK_SLOTS - tail->used : 0;
}

bool gmv__order_try_reserve(gmv_order *order)
{
    if (order_tail_room(order) + order->n_spare * ORDER_CHUNK_SLOTS <= order->reserved)
        return false;
    order->reserved++;
    return true;
}

void gmv__order_unreserve(gmv_order *order)
{
    order->reserved--;
}

size_t gmv__order_directory_wanted(const gmv_order *order)
{
    if (order->n_chunks + order->n_spare < order->capacity)
        return 0;
    return order->capacity ? order->capacity * 2 : ORDER_DIRECTORY_MIN;
}

void gmv__order_grow(gmv_order *order, gmv_order_chunk **chunk, gmv_order_chunk ***directory,
                     size_t capacity)
{
    if (*directory && capacity > order->capacity) {
        gmv_order_chunk **old = order->directory;
        if (order->n_chunks)
            memcpy(*directory, old, order->n_chunks * sizeof *old);
        order->directory = *directory;
        order->capacity = capacity;
        *directory = old;
    }
    if (*chunk && order->n_chunks + order->n_spare < order->capacity) {
        (*chunk)->next = order->spare;
        order->spare = *chunk;
        order->n_spare++;
        *chunk = NULL;
    }
}

static void order_give_spare(gmv_order *order, gmv_order_chunk *chunk)
{
    chunk->next = order->spare;
    order->spare = chunk;
    order->n_spare++;
}

/* The index of the last chunk whose first number is not above `sequence`; 0 if there is none. */
static size_t order_find_chunk(const gmv_order *order, uint64_t sequence)
{
    size_t low = 0, high = order->n_chunks;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (order->directory[middle]->first <= sequence)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static void order_unlink_chunk(gmv_order *order, gmv_order_chunk *chunk)
{
    size_t index = order_find_chunk(order, chunk->first);
    memmove(&order->directory[index], &order->directory[index + 1],
            (order->n_chunks - index - 1) * sizeof(gmv_order_chunk *));
    order->n_chunks--;
    if (chunk->previous)
        chunk->previous->next = chunk->next;
    if (chunk->next)
        chunk->next->previous = chunk->previous;
    order_give_spare(order, chunk);
}

/* Copies the live slots of `from` to the end of those kept in `into`, which may be the same. */
static void order_move_slots(gmv_order_chunk *into, const gmv_order_chunk *from, uint32_t used)
{
    for (uint32_t slot = 0; slot < used; slot++) {
        gmv_node *node = from->node[slot];
        if (!node)
            continue;
        into->sequence[into->used] = from->sequence[slot];
        into->node[into->used] = node;
        node->order_chunk = into;
        node->order_slot = into->used++;
    }
}

static bool order_is_sparse(const gmv_order *order, const gmv_order_chunk *chunk)
{
    return chunk && chunk != order_tail(order) && chunk->live <= ORDER_SPARSE_SLOTS;
}

/* Every chunk comes and goes once, so the slots moved are fewer than the nodes ever appended. */
static void order_merge(gmv_order *order, gmv_order_chunk *left, gmv_order_chunk *right)
{
    uint32_t used = left->used;
    left->used = 0;
    order_move_slots(left, left, used);
    order_move_slots(left, right, right->used);
    left->live = left->used;
    order_unlink_chunk(order, right);
}

static void order_balance(gmv_order *order, gmv_order_chunk *chunk)
{
    while (order_is_sparse(order, chunk)) {
        if (order_is_sparse(order, chunk->previous)) {
            gmv_order_chunk *left = chunk->previous;
            order_merge(order, left, chunk);
            chunk = left;
        } else if (order_is_sparse(order, chunk->next)) {
            order_merge(order, chunk, chunk->next);
        } else {
            break;
        }
    }
}

static gmv_order_chunk *order_new_tail(gmv_order *order)
{
    gmv_order_chunk *old = order_tail(order);
    gmv_order_chunk *tail = order->spare;
    order->spare = tail->next;
    order->n_spare--;
    tail->previous = old;
    tail->next = NULL;
    tail->first = order->next_sequence;
    tail->used = 0;
    tail->live = 0;
    if (old)
        old->next = tail;
    order->directory[order->n_chunks++] = tail;
    order_balance(order, old);
    return tail;
}

void gmv__order_append(gmv_order *order, gmv_node *node)
{
    gmv_order_chunk *tail = order_tail(order);
    if (!tail || tail->used == ORDER_CHUNK_SLOTS)
        tail = order_new_tail(order);
    tail->sequence[tail->used] = order->next_sequence++;
    tail->node[tail->used] = node;
    node->order_chunk = tail;
    node->order_slot = tail->used++;
    tail->live++;
    order->reserved--;
}

void gmv__order_remove(gmv_order *order, gmv_node *node)
{
    gmv_order_chunk *chunk = node->order_chunk;
    chunk->node[node->order_slot] = NULL;
    chunk->live--;
    node->order_chunk = NULL;
    while (chunk->used > 0 && !chunk->node[chunk->used - 1])
        chunk->used--;
    if (chunk->live > 0)
        order_balance(order, chunk);
    else if (chunk != order_tail(order))
        order_unlink_chunk(order, chunk);
}

gmv_order_chunk *gmv__order_take_surplus(gmv_order *order)
{
    size_t room = order_tail_room(order);
    size_t wanted = order->reserved > room ? order->reserved - room : 0;
    /* One more than needed, so that a handle made and deleted in turn does not allocate. */
    size_t keep = (wanted + ORDER_CHUNK_SLOTS - 1) / ORDER_CHUNK_SLOTS + 1;
    gmv_order_chunk *surplus = NULL;
    while (order->n_spare > keep) {
        gmv_order_chunk *chunk = order->spare;
        order->spare = chunk->next;
        order->n_spare--;
        chunk->next = surplus;
        surplus = chunk;
    }
    return surplus;
}

void gmv__order_free_chunks(gmv_order_chunk *chunks)
{
    while (chunks) {
        gmv_order_chunk *next = chunks->next;
        gmv_free(chunks);
        chunks = next;
    }
}

gmv_order_position gmv__order_seek(const gmv_order *order, uint64_t after)
{
    gmv_order_position position = {0, 0};
    if (order->n_chunks == 0)
        return position;
    position.chunk = order_find_chunk(order, after);
    const gmv_order_chunk *chunk = order->directory[position.chunk];
    uint32_t low = 0, high = chunk->used;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (chunk->sequence[middle] <= after)
            low = middle + 1;
        else
            high = middle;
    }
    position.slot = low;
    return position;
}

gmv_node *gmv__order_next(const gmv_order *order, gmv_order_position *position,
                          uint64_t *out_sequence)
{
    for (; position->chunk < order->n_chunks; position->chunk++, position->slot = 0) {
        const gmv_order_chunk *chunk = order->directory[position->chunk];
        while (position->slot < chunk->used) {
            uint32_t slot = position->slot++;
            if (chunk->node[slot]) {
                *out_sequence = chunk->sequence[slot];
                return chunk->node[slot];
            }
        }
    }
    return NULL;
}

gmv_node *gmv__order_newest(const gmv_order *order)
{
    const gmv_order_chunk *chunk = order_tail(order);
    if (chunk && chunk->live == 0)
        chunk = chunk->previous;
    for (uint32_t slot = chunk ? chunk->used : 0; slot > 0; slot--)
        if (chunk->node[slot - 1])
            return chunk->node[slot - 1];
    return NULL;
}
