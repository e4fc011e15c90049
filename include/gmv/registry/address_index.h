/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An intrusive search tree over half-open address ranges that may overlap. Inserting and removing
 * allocate nothing. Not thread-safe: the registry calls it under its graph lock.
 */
#ifndef GMV_REGISTRY_ADDRESS_INDEX_H
#define GMV_REGISTRY_ADDRESS_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <gmv/base/attr.h>

GMV_BEGIN_DECLS

typedef struct gmv_range_entry {
    uint64_t begin;
    uint64_t end; /* exclusive */
    void *owner;  /* what the range belongs to; the index does not look at it */
    struct gmv_range_entry *left, *right, *parent;
    uint64_t max_end;  /* of this subtree */
    uint64_t priority; /* random: keeps the tree flat */
    bool inserted;
} gmv_range_entry;

typedef struct gmv_address_index {
    gmv_range_entry *root;
    size_t count;
} gmv_address_index;

/*
 * The caller has set `begin`, `end` and `owner` of a zeroed entry, which is @borrowed until it is
 * removed and must not move.
 */
void gmv_address_index_insert(gmv_address_index *index, gmv_range_entry *entry);

/* Does nothing unless the entry is in. */
void gmv_address_index_remove(gmv_address_index *index, gmv_range_entry *entry);

/*
 * Calls `visit` for the entries whose [begin, end) holds `address` (with `include_end`: [begin,
 * end]), in no order, until it returns false.
 */
void gmv_address_index_find(const gmv_address_index *index, uint64_t address, bool include_end,
                            bool (*visit)(gmv_range_entry *entry, void *context), void *context);

GMV_END_DECLS

#endif
