/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An interval tree kept flat by random priorities (a treap): ordered by begin, a heap by priority,
 * and each entry knows the largest end below it. No recursion: paths are walked by parent links.
 */
#include <gmv/registry/address_index.h>

static uint64_t index_mix(uint64_t x)
{
    x ^= x >> 30;
    x *= UINT64_C(0xbf58476d1ce4e5b9);
    x ^= x >> 27;
    x *= UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* Entries of the same begin are told apart by where they lie. */
static bool index_before(const gmv_range_entry *a, const gmv_range_entry *b)
{
    return a->begin != b->begin ? a->begin < b->begin : (uintptr_t)a < (uintptr_t)b;
}

static void index_update(gmv_range_entry *entry)
{
    uint64_t max_end = entry->end;
    if (entry->left && entry->left->max_end > max_end)
        max_end = entry->left->max_end;
    if (entry->right && entry->right->max_end > max_end)
        max_end = entry->right->max_end;
    entry->max_end = max_end;
}

/* The pointer that leads to `entry`. */
static gmv_range_entry **index_link(gmv_address_index *index, const gmv_range_entry *entry)
{
    if (!entry->parent)
        return &index->root;
    return entry->parent->left == entry ? &entry->parent->left : &entry->parent->right;
}

/* Turns `child` above its parent; both are brought up to date. */
static void index_rotate_up(gmv_address_index *index, gmv_range_entry *child)
{
    gmv_range_entry *parent = child->parent;
    *index_link(index, parent) = child;
    child->parent = parent->parent;
    gmv_range_entry *moved;
    if (parent->left == child) {
        moved = child->right;
        parent->left = moved;
        child->right = parent;
    } else {
        moved = child->left;
        parent->right = moved;
        child->left = parent;
    }
    if (moved)
        moved->parent = parent;
    parent->parent = child;
    index_update(parent);
    index_update(child);
}

void gmv_address_index_insert(gmv_address_index *index, gmv_range_entry *entry)
{
    entry->left = entry->right = entry->parent = NULL;
    entry->max_end = entry->end;
    entry->priority =
        index_mix((uint64_t)(uintptr_t)entry + index_mix(entry->begin + index->count));
    entry->inserted = true;
    index->count++;
    gmv_range_entry **link = &index->root;
    while (*link) {
        gmv_range_entry *parent = *link;
        entry->parent = parent;
        if (entry->end > parent->max_end)
            parent->max_end = entry->end;
        link = index_before(entry, parent) ? &parent->left : &parent->right;
    }
    *link = entry;
    while (entry->parent && entry->parent->priority < entry->priority)
        index_rotate_up(index, entry);
}

void gmv_address_index_remove(gmv_address_index *index, gmv_range_entry *entry)
{
    if (!entry->inserted)
        return;
    while (entry->left && entry->right) {
        bool left = entry->left->priority > entry->right->priority;
        index_rotate_up(index, left ? entry->left : entry->right);
    }
    gmv_range_entry *child = entry->left ? entry->left : entry->right;
    *index_link(index, entry) = child;
    if (child)
        child->parent = entry->parent;
    for (gmv_range_entry *above = entry->parent; above; above = above->parent)
        index_update(above);
    entry->left = entry->right = entry->parent = NULL;
    entry->inserted = false;
    index->count--;
}

/* Whether a range that ends at `end` reaches `address`. */
static bool index_reaches(uint64_t end, uint64_t address, bool include_end)
{
    return include_end ? end >= address : end > address;
}

/* The next entry in preorder outside the subtree of `entry` that may hold `address`. */
static gmv_range_entry *index_climb(gmv_range_entry *entry, uint64_t address)
{
    for (; entry->parent; entry = entry->parent) {
        gmv_range_entry *parent = entry->parent;
        if (entry == parent->left && parent->right && parent->begin <= address)
            return parent->right;
    }
    return NULL;
}

void gmv_address_index_find(const gmv_address_index *index, uint64_t address, bool include_end,
                            bool (*visit)(gmv_range_entry *entry, void *context), void *context)
{
    gmv_range_entry *entry = index->root;
    while (entry) {
        gmv_range_entry *below = NULL;
        if (index_reaches(entry->max_end, address, include_end)) {
            if (entry->begin <= address && index_reaches(entry->end, address, include_end) &&
                !visit(entry, context))
                return;
            below = entry->left ? entry->left : entry->begin <= address ? entry->right : NULL;
        }
        entry = below ? below : index_climb(entry, address);
    }
}
