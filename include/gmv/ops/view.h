/* SPDX-License-Identifier: Apache-2.0 */
/* Views: immutable typed looks at a buffer, as pylibcudf's gpumemoryview with strides. */
#ifndef GMV_OPS_VIEW_H
#define GMV_OPS_VIEW_H

#include <gmv/model/cai.h>
#include <gmv/model/dlpack.h>
#include <gmv/model/slice.h>
#include <gmv/ops/buffer.h>

GMV_BEGIN_DECLS

/* About 370 bytes with a 1-d shape: millions of them are ordinary. */
typedef struct gmv_view {
    gmv_node node;
    gmv_buffer *buffer;    /* kept alive through `parent`; NULL for an empty view at address 0 */
    gmv_node *parent;      /* `obj`: the buffer or view it was made from (an owner), or NULL */
    struct gmv_view *mask; /* inner view (an owner) or NULL */
    char *payload;  /* owned: the posted CAI as compact JSON text, or NULL if made otherwise */
    uint64_t ptr;   /* of element 0, in gmvd's address space */
    int64_t size;   /* elements */
    int64_t nbytes; /* logical bytes */
    gmv_dtype dtype;
    gmv_mask_kind mask_kind;
    uint8_t ndim;
    bool contiguous; /* C-contiguous */
    bool readonly;
    bool bare; /* made by byte_slice, a kernel or pack: its `cai` has data, shape, typestr, version
                  only */
    int64_t dims[]; /* the shape, then (unless contiguous) the byte strides */
} gmv_view;

static inline gmv_view *gmv_view_of(gmv_node *node)
{
    return (gmv_view *)node;
}

static inline const int64_t *gmv_view_shape(const gmv_view *view)
{
    return view->dims;
}

/* Byte strides, NULL when C-contiguous. */
static inline const int64_t *gmv_view_strides(const gmv_view *view)
{
    return view->contiguous ? NULL : view->dims + view->ndim;
}

/* Element 0's offset from the start of the buffer, in bytes; 0 without a buffer. */
uint64_t gmv_view_offset(const gmv_view *view);

/* The layout with strides filled in. */
void gmv_view_layout(const gmv_view *view, gmv_layout *out_layout);

/* Rows of a 1-d view etc.: shape[0]; -1 for a 0-d view. */
int64_t gmv_view_length(const gmv_view *view);

/* @retval GMV_ERR_NOT_CONTIGUOUS with `pointer` */
GMV_NODISCARD gmv_status gmv_view_require_contiguous(const gmv_view *view, const char *pointer,
                                                     gmv_error *err);

/* A gmv_view to be prepared by ops that make views. */
typedef struct gmv_view_spec {
    gmv_buffer *buffer;     /* may be NULL if empty */
    gmv_node *parent;       /* owner, may be NULL */
    gmv_node *second_owner; /* one more owner (unpacked columns: the packed handle), or NULL */
    gmv_view *mask;         /* prepared or published inner view, or NULL */
    gmv_mask_kind mask_kind;
    uint64_t ptr;
    gmv_dtype dtype;
    const gmv_layout *layout;
    bool readonly;
    bool bare;
    char *payload; /* taken over on success */
} gmv_view_spec;

/* Prepares (does not publish); the spec has been checked. */
GMV_NODISCARD gmv_status gmv_view_prepare(gmv_operation *operation, const gmv_view_spec *spec,
                                          const gmv_creation *creation, bool inner,
                                          gmv_view **out_view, gmv_error *err);

/* Undoes gmv_view_prepare; the buffer, parent and mask are left. NULL: nothing. */
void gmv_view_discard(gmv_engine *engine, gmv_view *view);

/* POST /v1/views: a posted payload. Never blocks unless there is an event. Pointers are below
 * "/cuda_array_interface". */
typedef struct gmv_view_request {
    const gmv_cai *cai;
    const gmv_cai *mask;     /* NULL: none */
    gmv_mask_kind mask_kind; /* GMV_MASK_NONE: not given */
    gmv_buffer *buffer;      /* NULL: look in all of the caller's; its mask may lie elsewhere */
    char *payload;           /* compact JSON text, taken over on success */
    const uint8_t *event;    /* GMV_IPC_HANDLE_NBYTES: waited for before the view is; or NULL */
} gmv_view_request;

/*
 * Checks in the order of the contract: members, overflow, address 0, the buffer (its own address
 * space first, then the exporter's), extent, alignment as posted and as mapped.
 *
 * @retval GMV_MOVE_TO_BULK  there is an event to wait for: everything else has been checked
 * @retval GMV_RUN_AGAIN     it has not passed; nothing has been made
 * @retval GMV_ERR_VALUE, GMV_ERR_POINTER_NOT_REGISTERED, GMV_ERR_POINTER_AMBIGUOUS,
 * GMV_ERR_OUT_OF_BOUNDS, GMV_ERR_DTYPE_UNSUPPORTED
 * @retval GMV_ERR_HANDLE_INVALID, GMV_ERR_BACKEND_UNSUPPORTED  of the event (pointer "/event")
 */
GMV_NODISCARD gmv_status gmv_view_create(gmv_operation *operation, gmv_view_request *request,
                                         const gmv_creation *creation, gmv_view **out_view,
                                         gmv_error *err);

/*
 * The same from a DLPack tensor, on whose memory nothing waits but for `event` (NULL: none).
 * Pointers are below "/dlpack".
 */
GMV_NODISCARD gmv_status gmv_view_create_dlpack(gmv_operation *operation, const gmv_dlpack *tensor,
                                                gmv_buffer *buffer, const uint8_t *event,
                                                const gmv_creation *creation, gmv_view **out_view,
                                                gmv_error *err);

/*
 * The view as a tensor in gmvd's address space.
 * @retval GMV_ERR_VALUE  its strides cannot be told in elements
 */
GMV_NODISCARD gmv_status gmv_view_as_dlpack(const gmv_operation *operation, const gmv_view *view,
                                            gmv_dlpack *out_tensor, gmv_error *err);

/* POST /v1/buffers/{id}/views and /v1/views/{id}/views. */
typedef struct gmv_typed_view_request {
    gmv_dtype dtype;
    gmv_layout layout;
    int64_t offset; /* bytes from the start of the parent */
    bool readonly;
} gmv_typed_view_request;

/* What can be said without the parent: a negative offset or extent is value_error. */
GMV_NODISCARD gmv_status gmv_view_check_typed(const gmv_typed_view_request *request,
                                              gmv_error *err);

/* Parent: a buffer, or a contiguous view (else not_contiguous). Pointers "/shape", "/offset",
 * "/strides/N". */
GMV_NODISCARD gmv_status gmv_view_create_typed(gmv_operation *operation, gmv_node *parent,
                                               const gmv_typed_view_request *request,
                                               const gmv_creation *creation, gmv_view **out_view,
                                               gmv_error *err);

/*
 * A |u1 view of bytes of a contiguous view, as `parent[start:stop]` of a memoryview of bytes.
 * Cheap: nothing is copied.
 *
 * @retval GMV_ERR_NOT_CONTIGUOUS  the parent
 * @retval GMV_ERR_VALUE           a step other than 1 ("/step")
 * @retval as gmv_node_prepare
 */
GMV_NODISCARD gmv_status gmv_view_byte_slice(gmv_operation *operation, gmv_view *parent,
                                             const gmv_slice *slice, const gmv_creation *creation,
                                             gmv_view **out_view, gmv_error *err);

/*
 * A C-contiguous copy in a new inner buffer, and its mask (if any) in another; `readonly` seals
 * both. May be heavy.
 */
GMV_NODISCARD gmv_status gmv_view_copy(gmv_operation *operation, gmv_view *view, bool readonly,
                                       const gmv_creation *creation, gmv_view **out_view,
                                       gmv_error *err);

/*
 * The logical bytes in C order. Strided views are gathered on the device piece by piece, as the
 * bytes are read.
 *
 * @retval GMV_ERR_QUOTA_EXCEEDED  strided: more than max_logical_nbytes
 */
GMV_NODISCARD gmv_status gmv_view_bytes(gmv_operation *operation, gmv_view *view,
                                        gmv_bytes *out_bytes, gmv_error *err);

/* Whether the elements lie side by side with the first index running fastest, and not in C order.
 */
bool gmv_view_is_fortran(const gmv_view *view);

/* The bytes of such a view as they lie. */
GMV_NODISCARD gmv_status gmv_view_fortran_bytes(gmv_operation *operation, gmv_view *view,
                                                gmv_bytes *out_bytes, gmv_error *err);

/* Copies `count` elements from index `first` in C order to `out_host` (count times item bytes), and
 * waits. */
GMV_NODISCARD gmv_status gmv_view_read_elements(gmv_operation *operation, gmv_view *view,
                                                int64_t first, int64_t count, void *out_host,
                                                gmv_error *err);

/*
 * A result: prepares a new inner buffer of `nbytes` (memory of `contents`, exportable if the
 * creation says so) and a bare |u1 view over it, named unless `inner`. Both are discarded together
 * by gmv_result_discard.
 */
typedef struct gmv_result {
    gmv_buffer *buffer;
    gmv_view *view;
} gmv_result;

/* Errors as gmv_engine_allocate and gmv_node_prepare. May block. */
GMV_NODISCARD gmv_status gmv_result_prepare(gmv_operation *operation, gmv_device *device,
                                            uint64_t nbytes, gmv_contents contents,
                                            const gmv_creation *creation, bool inner,
                                            gmv_result *out_result, gmv_error *err);
void gmv_result_discard(gmv_engine *engine, gmv_result *result);

GMV_END_DECLS

#endif
