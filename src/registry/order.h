/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of creation: chunks of slots in a directory sorted by sequence number. Room is reserved
 * before a node is published, so appending cannot fail, and removing allocates nothing. Sparse
 * neighbours are merged: of two adjacent chunks (the last one aside) at least one is a quarter
 * full, which keeps memory proportional to what lives. All under the registry's graph lock.
 */
#ifndef GMV_REGISTRY_ORDER_H
#define GMV_REGISTRY_ORDER_H

#include <gmv/registry/registry.h>

#define ORDER_CHUNK_SLOTS  512u
#define ORDER_SPARSE_SLOTS 128u

typedef struct gmv_order_chunk {
    struct gmv_order_chunk *previous, *next; /* spare ones: next only */
    uint64_t first;                          /* not above any sequence number in here */
    uint32_t used;                           /* the last of them is not empty */
    uint32_t live;                           /* of them not empty */
    uint64_t sequence[ORDER_CHUNK_SLOTS];
    gmv_node *node[ORDER_CHUNK_SLOTS]; /* NULL: removed */
} gmv_order_chunk;

typedef struct gmv_order {
    gmv_order_chunk **directory; /* always has room for the spare chunks too */
    size_t n_chunks;
    size_t capacity;
    gmv_order_chunk *spare;
    size_t n_spare;
    size_t reserved; /* slots promised to nodes not yet appended */
    uint64_t next_sequence;
} gmv_order;

/* Where a walk stands. Good only as long as the graph lock is held. */
typedef struct gmv_order_position {
    size_t chunk;
    uint32_t slot;
} gmv_order_position;

void gmv__order_init(gmv_order *order);
void gmv__order_fini(gmv_order *order); /* nothing may be left in it */

/* Promises one slot if there is room. */
bool gmv__order_try_reserve(gmv_order *order);
void gmv__order_unreserve(gmv_order *order);

/* How large a directory must be to take one more chunk; 0: it has room. */
size_t gmv__order_directory_wanted(const gmv_order *order);

/*
 * Adds room. Both may be NULL; *directory becomes the one to free (the old one, or the given one if
 * it was not needed), *chunk NULL if it was taken.
 */
void gmv__order_grow(gmv_order *order, gmv_order_chunk **chunk, gmv_order_chunk ***directory,
                     size_t capacity);

/* Uses a reserved slot. */
void gmv__order_append(gmv_order *order, gmv_node *node);
void gmv__order_remove(gmv_order *order, gmv_node *node);

/* The spare chunks that nothing needs, linked by next: the caller frees them without the lock. */
gmv_order_chunk *gmv__order_take_surplus(gmv_order *order);
void gmv__order_free_chunks(gmv_order_chunk *chunks);

/* Before the first node whose sequence number is above `after`. */
gmv_order_position gmv__order_seek(const gmv_order *order, uint64_t after);

/* The next node and its number; NULL at the end. */
gmv_node *gmv__order_next(const gmv_order *order, gmv_order_position *position,
                          uint64_t *out_sequence);

/* The newest node; NULL if there is none. */
gmv_node *gmv__order_newest(const gmv_order *order);

#endif
