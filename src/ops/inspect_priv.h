/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the verbs that look inside arrays share: a subject (a view or a flat column) described
 * without the device, and a pass over one or two of them that brings parts into the one form that
 * kernels take: contiguous elements and bits of validity.
 */
#ifndef GMV_OPS_INSPECT_PRIV_H
#define GMV_OPS_INSPECT_PRIV_H

#include <gmv/ops/inspect.h>

#include "ops/draft_priv.h"

#define GMV_SUBJECT_MASKS_MAX 2 /* its own, and the request's */

typedef struct gmv_subject_mask {
    const gmv_view *view;
    bool is_bits;   /* contiguous bits from `offset` on, else an element for each */
    int64_t offset; /* bits only */
} gmv_subject_mask;

typedef struct gmv_subject {
    const gmv_view *view; /* holds the memory; NULL only without elements */
    bool contiguous;
    uint64_t address; /* of element 0 */
    gmv_dtype dtype;
    bool has_dtype; /* else the elements are bytes to kernels: decimals */
    int64_t itemsize;
    int64_t size; /* elements */
    gmv_device *device;
    size_t n_masks;
    gmv_subject_mask masks[GMV_SUBJECT_MASKS_MAX];
} gmv_subject;

/* @retval GMV_ERR_KIND_MISMATCH, GMV_ERR_DTYPE_UNSUPPORTED with `pointer` */
GMV_NODISCARD gmv_status gmv__subject_describe(gmv_operation *operation, gmv_node *node,
                                               const char *pointer, gmv_subject *out_subject,
                                               gmv_error *err);

/* Adds the mask of a request (NULL: none). Pointer "/mask". */
GMV_NODISCARD gmv_status gmv__subject_add_mask(gmv_operation *operation, gmv_subject *subject,
                                               const gmv_view *mask, gmv_error *err);

/* @retval GMV_ERR_DTYPE_UNSUPPORTED  the elements have no order */
GMV_NODISCARD gmv_status gmv__subject_require_order(const gmv_subject *subject, gmv_error *err);

/* Bytes that one pass over its elements and masks goes through. */
uint64_t gmv__subject_nbytes(const gmv_subject *subject);

/* A part in the form that kernels take. */
typedef struct gmv_part {
    uint64_t address;
    gmv_bits validity;
} gmv_part;

/*
 * A pass: the same `n` elements of every subject at a time, at most `n_max`. `own` is the verb's
 * scratch memory. After each part the verb finishes the stream, so nothing is announced any more.
 */
typedef struct gmv_pass {
    gmv_draft draft;
    const gmv_subject *subjects[2];
    size_t n_subjects;
    uint64_t alignment; /* of what is not gathered; 1: that of its type */
    int64_t n_max;
    gmv_memory *scratch;
    uint64_t own;        /* address */
    uint64_t staging[2]; /* addresses */
    gmv_layout layouts[2][1 + GMV_SUBJECT_MASKS_MAX];
} gmv_pass;

/* How many elements a part has at most; parts end at multiples of `unit` elements. */
int64_t gmv__pass_part_max(const gmv_subject *subjects, size_t n_subjects, uint64_t alignment,
                           int64_t unit);

/* Allocates. After it succeeded, gmv__pass_end must follow. */
GMV_NODISCARD gmv_status gmv__pass_begin(gmv_pass *pass, gmv_operation *operation,
                                         const gmv_subject *subjects, size_t n_subjects,
                                         uint64_t alignment, int64_t n_max, uint64_t own_nbytes,
                                         gmv_error *err);

/* Announces and gathers elements [first, first + n) of every subject; n <= n_max. */
GMV_NODISCARD gmv_status gmv__pass_load(gmv_pass *pass, int64_t first, int64_t n,
                                        gmv_part *out_parts, gmv_error *err);

GMV_NODISCARD gmv_status gmv__pass_end(gmv_pass *pass, gmv_status status, gmv_error *err);

/* The statistics of a subject, not yet summed up. */
GMV_NODISCARD gmv_status gmv__subject_statistics(gmv_operation *operation,
                                                 const gmv_subject *subject,
                                                 gmv_statistics_partial *out_partial,
                                                 gmv_error *err);

#endif
