/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One operation: who asks, on which thread it runs, and the handles it holds until it ends. All
 * that an operation looks up or makes stays alive until gmv_operation_end. Used by one thread.
 *
 * How long names live that an operation makes is said to the operation, not to each call:
 * `ttl_seconds`, and `caller.session`, which is then to be left after gmv_operation_end.
 */
#ifndef GMV_OPS_OPERATION_H
#define GMV_OPS_OPERATION_H

#include <gmv/base/atomic.h>
#include <gmv/ops/engine.h>

GMV_BEGIN_DECLS

typedef enum gmv_lane {
    GMV_LANE_INLINE, /* an HTTP thread: registry only, must not block */
    GMV_LANE_SHORT,  /* a worker for short work */
    GMV_LANE_BULK    /* a worker for transfers and anything over GMV_BULK_NBYTES */
} gmv_lane;

#define GMV_BULK_NBYTES           (16u << 20)
#define GMV_OPERATION_HELD_INLINE 24

typedef struct gmv_operation {
    gmv_engine *engine;
    gmv_caller caller;
    gmv_lane lane;
    uint32_t ttl_seconds; /* the lease of every name that it makes; 0, at first: none */
    /* @borrowed: whether nobody waits for the outcome any more. NULL, at first. */
    GMV_ATOMIC(bool) * unheard;
    gmv_stream *const *streams; /* one for each device of the engine; NULL on the inline lane */
    gmv_node **held;            /* points to held_inline until more are held */
    bool *made;                 /* likewise: which of them it has published */
    size_t n_held;
    size_t held_capacity;
    gmv_node *held_inline[GMV_OPERATION_HELD_INLINE];
    bool made_inline[GMV_OPERATION_HELD_INLINE];
} gmv_operation;

/*
 * Begins an operation in the caller's storage; cannot fail. `caller` is copied; the engine and the
 * streams are @borrowed until gmv_operation_end, and the streams are this thread's alone.
 */
void gmv_operation_begin(gmv_operation *operation, gmv_engine *engine, const gmv_caller *caller,
                         gmv_lane lane, gmv_stream *const *streams);

/* Abandons unfinished work on the streams and gives back what is held. */
void gmv_operation_end(gmv_operation *operation);

/* Looks a handle up and holds it; errors as gmv_registry_get. *out_node is @borrowed until the end.
 */
GMV_NODISCARD gmv_status gmv_operation_get(gmv_operation *operation, const gmv_id *id,
                                           gmv_kind kind, const char *pointer, gmv_node **out_node,
                                           gmv_error *err);

/*
 * Makes room so that the next `n` calls of gmv_operation_adopt cannot fail. Every op calls it
 * before it publishes.
 *
 * @retval GMV_ERR_OVERLOADED  no memory
 */
GMV_NODISCARD gmv_status gmv_operation_reserve(gmv_operation *operation, size_t n, gmv_error *err);

/* Holds a node whose in-flight reference the caller has and gives up. Needs a reserved place. */
void gmv_operation_adopt(gmv_operation *operation, gmv_node *node);

/* Publishes prepared nodes (owners first) and adopts them. Needs n reserved places. Cannot fail. */
void gmv_operation_publish(gmv_operation *operation, gmv_node *const *nodes, size_t n_nodes);

/*
 * Takes back the names of all that the operation has made, the newest first, as by a deletion that
 * keeps what others hold. Allocates nothing; the objects go when the operation ends.
 */
void gmv_operation_unmake(gmv_operation *operation);

/*
 * Declares how many bytes the work ahead passes over, before anything has been changed or made.
 *
 * @retval GMV_MOVE_TO_BULK        too much for the short lane: give everything up, the whole
 * request is run again on the bulk lane
 * @retval GMV_ERR_QUOTA_EXCEEDED  more than max_logical_nbytes
 */
GMV_NODISCARD gmv_status gmv_operation_weigh(gmv_operation *operation, uint64_t nbytes,
                                             gmv_error *err);

/*
 * Between the pieces of long work that changes nothing.
 *
 * @retval GMV_ERR_DRAINING  nobody waits for the outcome any more
 */
GMV_NODISCARD gmv_status gmv_operation_check(const gmv_operation *operation, gmv_error *err);

/* The operation's stream on a device of the engine. Not for the inline lane. */
gmv_stream *gmv_operation_stream(gmv_operation *operation, const gmv_device *device);

/* What every call that makes a handle may say. */
typedef struct gmv_creation {
    const char *label;   /* UTF-8, NULL: none */
    size_t label_length; /* bytes */
    bool exportable;     /* results: put them in an allocation of their own */
} gmv_creation;

/* Attributes for gmv_node_prepare of a named or inner node; `creation` NULL: no label. */
gmv_node_attributes gmv_operation_attributes(const gmv_operation *operation,
                                             const gmv_creation *creation, bool inner);

GMV_END_DECLS

#endif
