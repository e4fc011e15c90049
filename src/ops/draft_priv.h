/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A draft: the nodes that one op has prepared and the scratch memory that it works with, on at most
 * one device. gmv__draft_end waits for the device and publishes, or undoes everything. After a
 * gmv__draft_begin that succeeded, gmv__draft_end must follow.
 */
#ifndef GMV_OPS_DRAFT_PRIV_H
#define GMV_OPS_DRAFT_PRIV_H

#include <gmv/ops/column.h>

#define GMV_DRAFT_NODES_MAX   6
#define GMV_DRAFT_SCRATCH_MAX 4
#define GMV_DRAFT_LAYOUTS_MAX 2

typedef struct gmv_draft {
    gmv_operation *operation;
    gmv_device *device; /* NULL: nothing is computed */
    gmv_stream *stream; /* NULL likewise */
    size_t n_nodes;
    size_t n_scratch;
    gmv_node **nodes; /* prepared, owners before dependents */
    gmv_node *own_nodes[GMV_DRAFT_NODES_MAX];
    gmv_memory *scratch[GMV_DRAFT_SCRATCH_MAX];
    size_t n_layouts;
    gmv_layout
        layouts[GMV_DRAFT_LAYOUTS_MAX]; /* of gathers under way: they live until the finish */
} gmv_draft;

/* Reserves the places for publishing, too. */
GMV_NODISCARD gmv_status gmv__draft_begin(gmv_draft *draft, gmv_operation *operation,
                                          gmv_device *device, gmv_error *err);

/* The same for up to `n` nodes, which are put into an array of the caller's. */
GMV_NODISCARD gmv_status gmv__draft_begin_large(gmv_draft *draft, gmv_operation *operation,
                                                gmv_device *device, gmv_node **nodes, size_t n,
                                                gmv_error *err);

/* Takes a prepared node over. */
void gmv__draft_add(gmv_draft *draft, gmv_node *node);

/* Announced scratch memory, contents unspecified, freed by gmv__draft_end. */
GMV_NODISCARD gmv_status gmv__draft_scratch(gmv_draft *draft, uint64_t nbytes,
                                            gmv_memory **out_memory, gmv_error *err);

/* Finishes (if `status` is GMV_OK) and publishes, or abandons and undoes. Returns how it went. */
GMV_NODISCARD gmv_status gmv__draft_end(gmv_draft *draft, gmv_status status, gmv_error *err);

/* Announces the memory behind a view, if there is any. */
GMV_NODISCARD gmv_status gmv__draft_use(gmv_draft *draft, const gmv_view *view, gmv_error *err);

/*
 * Prepares a new inner buffer and a view of `layout` over it, both added to the draft and
 * announced. `contents` is that of the memory; UNSPECIFIED memory has its padding zeroed here.
 */
typedef struct gmv_draft_result {
    gmv_dtype dtype;
    const gmv_layout *layout;
    gmv_contents contents;
    bool readonly;
    bool bare;
    bool inner;     /* the view is an inner one, too */
    gmv_view *mask; /* in the draft already, or NULL */
    gmv_mask_kind mask_kind;
} gmv_draft_result;

GMV_NODISCARD gmv_status gmv__draft_make(gmv_draft *draft, const gmv_draft_result *result,
                                         const gmv_creation *creation, gmv_view **out_view,
                                         gmv_error *err);

/*
 * gmv_result_prepare in two steps, for who has the device begin before there are handles: the
 * memory, and later the buffer and view over it. *memory becomes NULL when it is not the caller's
 * any more, which may be so on failure, too; nothing uses it then.
 */
GMV_NODISCARD gmv_status gmv__result_allocate(gmv_operation *operation, gmv_device *device,
                                              uint64_t nbytes, gmv_contents contents,
                                              const gmv_creation *creation, gmv_memory **out_memory,
                                              gmv_error *err);
GMV_NODISCARD gmv_status gmv__result_adopt(gmv_operation *operation, gmv_memory **memory,
                                           const gmv_creation *creation, bool inner,
                                           gmv_result *out_result, gmv_error *err);

/* Enqueues a copy of elements [first, first + count) of a view, in C order, to `output`. */
GMV_NODISCARD gmv_status gmv__draft_gather(gmv_draft *draft, const gmv_view *view, int64_t first,
                                           int64_t count, uint64_t output, gmv_error *err);

/* [ptr, ptr + nbytes) of a buffer (NULL if nbytes is 0) as bytes that hold `holder`. */
GMV_NODISCARD gmv_status gmv__bytes_of_region(gmv_operation *operation, gmv_buffer *buffer,
                                              gmv_node *holder, uint64_t ptr, uint64_t nbytes,
                                              gmv_bytes *out_bytes, gmv_error *err);

/*
 * Gathers part of a strided view, bytes [offset, offset + nbytes) of its logical bytes, through
 * memory on the device to host memory, and waits. For pieces: that memory is not counted.
 */
GMV_NODISCARD gmv_status gmv__view_read_piece(const gmv_view *view, gmv_stream *stream,
                                              uint64_t offset, void *out, uint64_t nbytes,
                                              gmv_error *err);

/* Enqueues a gather of elements of a strided view in C order; `layout` lives until the end. */
GMV_NODISCARD gmv_status gmv__view_gather(const gmv_view *view, gmv_stream *stream, int64_t first,
                                          int64_t count, uint64_t output, gmv_layout *layout,
                                          gmv_error *err);

/* Fails if the memory's contents or its device are lost. */
GMV_NODISCARD gmv_status gmv__memory_check(const gmv_memory *memory, gmv_error *err);

/* The device that a view's memory is on; the engine's first if it has none. */
gmv_device *gmv__view_device_or_first(const gmv_engine *engine, const gmv_view *view);

#endif
