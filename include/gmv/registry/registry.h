/* SPDX-License-Identifier: Apache-2.0 */
/*
 * registry: handles and the one graph of ownership. An object embeds a gmv_node as its first
 * member; the registry knows its id, what it was made from (owners) and what was made from it
 * (dependents), never what it contains.
 *
 * Lives. A node counts its references: one for its name, one for each dependent, one for each
 * operation in flight. Deleting removes the name; the node dies with its last reference. A node
 * refers only to older ones, so there is no cycle. Freeing walks a work list, never recursion, and
 * allocates nothing.
 *
 * States: named (listed, deletable) -> unnamed but alive (410, alive) -> dead (410 while among the
 * last 65,536 that died) -> forgotten (404). Inner nodes are never named: they are alive, and found
 * by id, as long as a dependent holds them.
 *
 * Lives that end by themselves. A name may have a lease, and may belong to a session, which always
 * has one. From the deadline on, to the nanosecond of the monotonic clock, look-ups answer as if
 * the name had been deleted; gmv_registry_expire, which may run later, takes it away. Giving,
 * renewing and ending leases allocates nothing.
 *
 * Locks. 64 hash shards, a mutex each, for look-ups; one mutex for the graph (edges, names, address
 * index, order of creation), taken before a shard's. Both are held for bounded steps without
 * allocation, device call or I/O. Everything here is thread-safe unless said otherwise.
 */
#ifndef GMV_REGISTRY_REGISTRY_H
#define GMV_REGISTRY_REGISTRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <gmv/base/atomic.h>
#include <gmv/base/error.h>
#include <gmv/base/id.h>
#include <gmv/registry/address_index.h>

GMV_BEGIN_DECLS

typedef struct gmv_registry gmv_registry;
typedef struct gmv_node gmv_node;
typedef struct gmv_edge gmv_edge;

#define GMV_LABEL_CHARACTERS_MAX 256
#define GMV_TOMBSTONES_MAX       65536
#define GMV_LEASE_SECONDS_MAX    31536000
#define GMV_SESSION_SECONDS_MAX  86400

typedef struct gmv_session gmv_session;

/* Who asks. Until access control comes there is one principal, 0. */
typedef struct gmv_caller {
    uint32_t principal;
    bool sees_all; /* an administrator */
    gmv_session
        *session; /* what is made belongs to it; @borrowed from gmv_session_enter, or NULL */
} gmv_caller;

/* Why a name is gone. */
typedef enum gmv_reason {
    GMV_REASON_NONE,
    GMV_REASON_DELETED,
    GMV_REASON_CASCADE,
    GMV_REASON_LEASE_EXPIRED,
    GMV_REASON_SESSION_ENDED
} gmv_reason;

/* "deleted", ...; NULL for GMV_REASON_NONE. @borrowed, static. */
const char *gmv_reason_name(gmv_reason reason);

typedef struct gmv_node_class {
    gmv_kind kind;
    /* Frees the object, node included. Called once, no lock held, never on an HTTP thread. */
    void (*destroy)(gmv_node *node);
    /* Bytes for listings; for a buffer the memory that goes back when it dies. Pure. */
    uint64_t (*nbytes)(const gmv_node *node);
    /* Device ordinal, or -1. Pure. */
    int32_t (*device)(const gmv_node *node);
    /*
     * Optional: the memory bytes that go back because this node dies now (an import that shares its
     * mapping answers 0 while others hold it). Called under the graph lock: must not block. NULL: 0
     * for all kinds but buffers, for which `nbytes` is used.
     */
    uint64_t (*freed_nbytes)(gmv_node *node);
} gmv_node_class;

/* Members are private to the registry except id, label, owners and times, which are set once. */
struct gmv_node {
    gmv_id id;
    const gmv_node_class *node_class;
    GMV_ATOMIC(unsigned) references; /* name + dependents + in flight */
    GMV_ATOMIC(unsigned) in_flight;
    uint32_t principal;
    uint32_t n_owners;
    gmv_edge *edges;           /* n_owners of them; guarded by the graph lock after publication */
    gmv_edge *dependents_head; /* oldest first; guarded by the graph lock */
    gmv_edge *dependents_tail;
    uint32_t n_dependents; /* guarded by the graph lock */
    uint8_t state;         /* these three: written under both locks, read under either */
    uint8_t reason;
    bool inner;
    uint8_t n_ranges;
    gmv_range_entry *ranges; /* in the object, @borrowed; own addresses, then the exporter's */
    gmv_session *session;    /* that it was made in, referenced; NULL: none */
    gmv_node *member_previous, *member_next; /* of the session's names; guarded by the graph lock */
    gmv_node *timer_previous, *timer_next;   /* in the wheel, likewise */
    GMV_ATOMIC(int_fast64_t) deadline_ns;    /* monotonic, 0: none; until published its length */
    gmv_node *hash_next;                     /* guarded by the shard's lock */
    gmv_node *work_next; /* of the one work list it is in (registry_priv.h says which) */
    void *order_chunk;   /* place in the order of creation; guarded by the graph lock */
    uint32_t order_slot;
    uint8_t flags;       /* guarded by the graph lock */
    uint16_t timer_slot; /* likewise: place in the wheel and one; 0: not in it */
    int64_t created_at_ms;
    GMV_ATOMIC(int_fast64_t) expires_at_ms; /* wall time, for people; 0: never */
    char *label;                            /* owned, UTF-8, or NULL */
};

struct gmv_edge {
    gmv_node *owner;
    gmv_node *dependent;
    gmv_edge *previous, *next; /* within the owner's dependents */
};

/* ---- the registry itself ---- */

/* What an observer hears; called with no lock held, in order for any one node, from any thread. */
typedef enum gmv_event { GMV_EVENT_CREATED, GMV_EVENT_DELETED, GMV_EVENT_FREED } gmv_event;

typedef struct gmv_registry_options {
    uint64_t max_handles; /* named and inner together; 0: no limit */
    /* May be NULL; must not keep the node. */
    void (*observe)(void *context, gmv_event event, const gmv_node *node);
    void *observe_context;
} gmv_registry_options;

/*
 * `options` (NULL: none) are copied. @newref: gmv_registry_destroy.
 *
 * @retval GMV_ERR_OVERLOADED  no memory
 */
GMV_NODISCARD gmv_status gmv_registry_create(const gmv_registry_options *options,
                                             gmv_registry **out_registry, gmv_error *err);

/* Frees everything that is left, dependents first, then the registry. No operation may be in
 * flight. */
void gmv_registry_destroy(gmv_registry *registry);

/* ---- making nodes ---- */

typedef struct gmv_node_attributes {
    const gmv_caller *caller;
    const char *label; /* UTF-8 of label_length bytes, copied; NULL: none */
    size_t label_length;
    bool inner;           /* not named */
    uint32_t ttl_seconds; /* 0: no lease; it begins when the node is published */
} gmv_node_attributes;

/*
 * Prepares the node of a fresh, zeroed object: draws the id, copies the label, and reserves all
 * that publishing needs. `owners` (may hold NULLs, which are skipped, and repeats, which count
 * once) must be referenced by the calling operation until it has published. On failure nothing is
 * kept.
 *
 * @retval GMV_ERR_VALUE           a label too long for GMV_LABEL_CHARACTERS_MAX, or with a NUL
 * @retval GMV_ERR_QUOTA_EXCEEDED  max_handles reached
 * @retval GMV_ERR_OVERLOADED      no memory
 */
GMV_NODISCARD gmv_status gmv_node_prepare(gmv_registry *registry, gmv_node *node,
                                          const gmv_node_class *node_class,
                                          const gmv_node_attributes *attributes,
                                          gmv_node *const *owners, size_t n_owners, gmv_error *err);

/* Gives the address ranges that look-ups find this node by (buffers only; before publishing). */
void gmv_node_set_ranges(gmv_node *node, gmv_range_entry *ranges, uint8_t n_ranges);

/* Undoes gmv_node_prepare for a node that will not be published; the object is the caller's to
 * free. */
void gmv_node_discard(gmv_registry *registry, gmv_node *node);

/*
 * Makes prepared nodes visible, in the given order (owners before dependents): up to 256 nodes and
 * edges at once, more in such steps, a node only with all its edges. Cannot fail. Each node gets an
 * in-flight reference for the caller, to be given back by gmv_registry_release: the answer can be
 * written from it. A node made from one that a cascade has deleted meanwhile, or in a session that
 * has ended, is published as deleted.
 */
void gmv_registry_publish(gmv_registry *registry, gmv_node *const *nodes, size_t n_nodes);

/* ---- finding nodes ---- */

/*
 * Takes an in-flight reference on a named or inner live node. @newref: gmv_registry_release.
 *
 * @retval GMV_ERR_HANDLE_UNKNOWN  never made, forgotten, or another principal's
 * @retval GMV_ERR_HANDLE_DELETED  with subject, subject_alive and subject_reason
 * @retval GMV_ERR_KIND_MISMATCH   of another kind than `kind` (not for GMV_KIND_ANY)
 * The error has the pointer `pointer` (NULL: none).
 */
GMV_NODISCARD gmv_status gmv_registry_get(gmv_registry *registry, const gmv_caller *caller,
                                          const gmv_id *id, gmv_kind kind, const char *pointer,
                                          gmv_node **out_node, gmv_error *err);

/* One more in-flight reference on a node that is held already. */
void gmv_registry_hold(gmv_registry *registry, gmv_node *node);

/*
 * Takes an in-flight reference on owner number `index` of a node that is held; false once the
 * owners have been given up (gmv_registry_disown).
 */
GMV_NODISCARD bool gmv_registry_hold_owner(gmv_registry *registry, gmv_node *node, size_t index,
                                           gmv_node **out_owner);

/*
 * Gives one in-flight reference back. A node that dies by it is freed here if `may_block`, else by
 * the next gmv_registry_reap (HTTP threads pass false). NULL: nothing.
 */
void gmv_registry_release(gmv_registry *registry, gmv_node *node, bool may_block);

/* Frees what died on threads that may not block; returns how many. For the maintenance thread. */
size_t gmv_registry_reap(gmv_registry *registry);

/* Called (with no lock held) when there is something to reap; set once before use. */
void gmv_registry_on_reapable(gmv_registry *registry, void (*notify)(void *context), void *context);

/* The buffers, named or inner but not deleted, that hold `address`; with `include_end` also those
 * it is the end of. */
typedef struct gmv_address_hit {
    gmv_node *node; /* @newref in flight */
    size_t range;   /* which of its ranges: 0 its own address, 1 the exporter's */
} gmv_address_hit;

/* Finds up to two distinct nodes (that is enough to tell "ambiguous"); returns how many. */
size_t gmv_registry_find_address(gmv_registry *registry, const gmv_caller *caller, uint64_t address,
                                 bool include_end, gmv_address_hit out_hits[2]);

/* ---- deleting ---- */

typedef enum gmv_if_held { GMV_IF_HELD_KEEP, GMV_IF_HELD_REFUSE, GMV_IF_HELD_CASCADE } gmv_if_held;

/* What a DELETE answers. Lists hold the first GMV_ERROR_IDS_MAX; counts are exact. */
typedef struct gmv_deletion {
    gmv_id id;
    bool alive;            /* the object stays: dependents or operations hold it */
    uint64_t deleted;      /* names removed */
    uint64_t freed_count;  /* nodes that died, inner ones too, dependents before owners */
    uint64_t freed_nbytes; /* memory that went back */
    uint64_t kept_alive_by_count;
    uint32_t in_flight;
    size_t n_freed, n_kept_alive_by;
    gmv_id freed[GMV_ERROR_IDS_MAX];
    gmv_id kept_alive_by[GMV_ERROR_IDS_MAX]; /* direct dependents, oldest first */
} gmv_deletion;

/*
 * Removes the name, and the memory of all that dies by it before it returns. May block and may be
 * long (a cascade works in batches, so look-ups go on): never on an HTTP thread.
 *
 * @retval as gmv_registry_get: GMV_ERR_HANDLE_UNKNOWN, _HANDLE_DELETED, _KIND_MISMATCH
 * @retval GMV_ERR_HANDLE_INNER        the handle has no name of its own
 * @retval GMV_ERR_HELD_BY_DEPENDENTS  when asked to refuse, with `dependents`; nothing has changed
 */
GMV_NODISCARD gmv_status gmv_registry_delete(gmv_registry *registry, const gmv_caller *caller,
                                             const gmv_id *id, gmv_kind kind, gmv_if_held if_held,
                                             gmv_deletion *out_deletion, gmv_error *err);

/*
 * Gives up the owners of a node (its object is empty from then on) and names owner `named` of them
 * in one step: what `release` of a packed handle does. The new name takes over the node's lease and
 * belongs to the session that it was made in. That owner is returned with an in-flight reference.
 * False if the owners were already given up.
 */
GMV_NODISCARD bool gmv_registry_disown(gmv_registry *registry, gmv_node *node, size_t named,
                                       gmv_node **out_named);

/* ---- leases ---- */

typedef struct gmv_handle_info gmv_handle_info;

/*
 * The name ends `ttl_seconds` (1 to GMV_LEASE_SECONDS_MAX) from now, or, with 0, by itself no more.
 *
 * @retval GMV_ERR_VALUE         a length out of range
 * @retval GMV_ERR_HANDLE_INNER  the handle has no name of its own
 * @retval as gmv_registry_get: GMV_ERR_HANDLE_UNKNOWN, GMV_ERR_HANDLE_DELETED
 */
GMV_NODISCARD gmv_status gmv_registry_lease(gmv_registry *registry, const gmv_caller *caller,
                                            const gmv_id *id, uint32_t ttl_seconds,
                                            gmv_handle_info *out_info, gmv_error *err);

/*
 * Takes a bounded number of names whose leases have run out, sessions and all that belongs to them
 * included, and frees what dies by that. Returns how many leases have ended; 0 when none is due.
 * May block: for the maintenance thread.
 */
size_t gmv_registry_expire(gmv_registry *registry);

/* When gmv_registry_expire should be called next, on the monotonic clock; INT64_MAX: nothing has a
 * lease. */
int64_t gmv_registry_next_expiry_ns(gmv_registry *registry);

typedef struct gmv_lease_counts {
    uint64_t expired; /* leases that have run out and were ended, ever */
    int64_t lag_ns;   /* how late the last of them were, or how late the next ones are already */
} gmv_lease_counts;

/* Takes the graph lock for a moment. */
void gmv_registry_count_leases(gmv_registry *registry, gmv_lease_counts *out_counts);

/* ---- sessions ---- */

/*
 * A session is a node of its own kind that no list of handles shows. What is made for a caller that
 * bears it belongs to it, and loses its name when the session ends.
 */
typedef struct gmv_session_info {
    gmv_id id;
    char label[GMV_LABEL_CHARACTERS_MAX * 4 + 1];
    bool has_label;
    uint32_t ttl_seconds;
    int64_t created_at_ms;
    int64_t expires_at_ms;
    uint64_t handles; /* names that belong to it */
} gmv_session_info;

/*
 * Begins a session with a lease of `ttl_seconds` that each use renews. `label` (NULL: none) is
 * UTF-8 of `label_length` bytes and copied.
 *
 * @retval GMV_ERR_VALUE           a length out of 1 to GMV_SESSION_SECONDS_MAX, or the label
 * @retval GMV_ERR_QUOTA_EXCEEDED  max_handles reached: sessions count as handles there
 * @retval GMV_ERR_OVERLOADED      no memory
 */
GMV_NODISCARD gmv_status gmv_session_create(gmv_registry *registry, const gmv_caller *caller,
                                            const char *label, size_t label_length,
                                            uint32_t ttl_seconds, gmv_session_info *out_info,
                                            gmv_error *err);

/*
 * Renews the session's lease and takes an in-flight reference for a caller that bears it. @newref:
 * gmv_session_leave. Takes a shard's lock only.
 *
 * @retval GMV_ERR_HANDLE_UNKNOWN  never made, forgotten, no session, or another principal's
 * @retval GMV_ERR_HANDLE_DELETED  ended
 */
GMV_NODISCARD gmv_status gmv_session_enter(gmv_registry *registry, const gmv_caller *caller,
                                           const gmv_id *id, gmv_session **out_session,
                                           gmv_error *err);

/* Renews the lease once more, unless the session has ended, and gives the reference back. NULL:
 * nothing. */
void gmv_session_leave(gmv_registry *registry, gmv_session *session);

/* @borrowed from the session. */
const gmv_id *gmv_session_id(const gmv_session *session);

/* A snapshot; looking renews nothing. @retval as gmv_session_enter */
GMV_NODISCARD gmv_status gmv_session_describe(gmv_registry *registry, const gmv_caller *caller,
                                              const gmv_id *id, gmv_session_info *out_info,
                                              gmv_error *err);

/* As gmv_registry_list. */
void gmv_session_list(gmv_registry *registry, const gmv_caller *caller, uint64_t cursor,
                      size_t limit, void (*visit)(void *context, const gmv_session_info *info),
                      void *context, uint64_t *out_cursor);

/*
 * Ends a session: all its names go together, and what dies by that is freed before it returns, as
 * by gmv_registry_delete. Of the answer, `deleted` counts the handles' names; `alive` says that
 * some of the handles' objects stay; `kept_alive_by` holds what depends on them from outside of the
 * session.
 *
 * @retval as gmv_session_enter
 */
GMV_NODISCARD gmv_status gmv_session_end(gmv_registry *registry, const gmv_caller *caller,
                                         const gmv_id *id, gmv_deletion *out_deletion,
                                         gmv_error *err);

/* ---- looking ---- */

/* A snapshot of one handle; answers for deleted ones while they live. */
struct gmv_handle_info {
    gmv_id id;
    bool named, alive, deleted;
    gmv_reason reason;
    uint64_t nbytes;
    int32_t device; /* -1: none */
    int64_t created_at_ms;
    int64_t expires_at_ms; /* 0: never */
    gmv_id session;        /* kind 0: none */
    char label[GMV_LABEL_CHARACTERS_MAX * 4 + 1];
    bool has_label;
    uint32_t in_flight;
    uint64_t owners_count, dependents_count;
    size_t n_owners, n_dependents;
    gmv_id owners[GMV_ERROR_IDS_MAX];
    gmv_id dependents[GMV_ERROR_IDS_MAX];
};

/*
 * A snapshot of a handle, with its owners and dependents; it renews nothing.
 *
 * @retval GMV_ERR_HANDLE_UNKNOWN  as gmv_registry_get
 * @retval GMV_ERR_HANDLE_DELETED  once it is dead
 */
GMV_NODISCARD gmv_status gmv_registry_describe(gmv_registry *registry, const gmv_caller *caller,
                                               const gmv_id *id, gmv_handle_info *out_info,
                                               gmv_error *err);

/* The ids that a held node keeps alive directly, in order; returns how many (at most `capacity` are
 * written). */
size_t gmv_registry_owners(gmv_registry *registry, const gmv_node *node, gmv_id *out_ids,
                           size_t capacity);

/* When the lease of a held node ends, as wall time; 0: it has none. A renewal may change it at any
 * moment. */
int64_t gmv_node_expires_at_ms(const gmv_node *node);

/* A dependent that is held in flight, and whether its caller may see it by its id. */
typedef struct gmv_dependent {
    gmv_node *node;
    bool is_visible;
} gmv_dependent;

/*
 * Takes in-flight references on up to `capacity` (at most 256) living dependents of a held node,
 * oldest first, behind `after`: one of them that is still held, or NULL for the first. *out_more
 * tells whether there may be others: with none returned the dead have to be buried first.
 */
size_t gmv_registry_hold_dependents(gmv_registry *registry, const gmv_caller *caller,
                                    const gmv_node *node, gmv_node *after, size_t capacity,
                                    gmv_dependent *out_dependents, bool *out_more);

typedef struct gmv_list_filter {
    gmv_kind kind;     /* GMV_KIND_ANY: all */
    const char *label; /* NULL: all; exact bytes otherwise */
    size_t label_length;
    gmv_id session; /* kind 0: all */
    bool all;       /* inner ones and deleted ones that live, too */
} gmv_list_filter;

/*
 * Walks handles in order of creation from `cursor` (0: the start) and calls `visit` for each that
 * matches, with a snapshot without owners and dependents, no lock held. Ends after `limit` of them,
 * or earlier when a bounded number of others was passed over. *out_cursor is where to go on, 0 at
 * the end.
 */
void gmv_registry_list(gmv_registry *registry, const gmv_caller *caller,
                       const gmv_list_filter *filter, uint64_t cursor, size_t limit,
                       void (*visit)(void *context, const gmv_handle_info *info), void *context,
                       uint64_t *out_cursor);

typedef struct gmv_registry_counts {
    uint64_t named[GMV_KIND_COUNT]; /* by kind, sessions too */
    uint64_t alive[GMV_KIND_COUNT]; /* named, inner and deleted ones that live */
} gmv_registry_counts;

/* How many handles there are now. Takes the graph lock for a moment. */
void gmv_registry_count(gmv_registry *registry, gmv_registry_counts *out_counts);

GMV_END_DECLS

#endif
