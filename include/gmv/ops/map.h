/* SPDX-License-Identifier: Apache-2.0 */
/* Which views cover which bytes of a buffer. */
#ifndef GMV_OPS_MAP_H
#define GMV_OPS_MAP_H

#include <gmv/ops/view.h>

GMV_BEGIN_DECLS

#define GMV_MAP_VIEWS_LISTED 100       /* ids of one piece; the count is exact */
#define GMV_MAP_VIEWS_MAX    (1 << 20) /* views of one buffer that a map is made of */

/* Bytes that are covered by the same views, as far as these are visible to the caller. */
typedef struct gmv_map_piece {
    uint64_t offset, nbytes;
    uint64_t views_count;
    size_t n_views; /* listed: those that were found first, so views before those made from them */
    gmv_id views[GMV_MAP_VIEWS_LISTED];
} gmv_map_piece;

typedef void (*gmv_map_visit)(void *context, const gmv_map_piece *piece);

/*
 * Visits the pieces of a buffer from `offset` on, at most `limit` of them; together they are the
 * whole of it. A view covers its extent, from the first byte that it touches to the last.
 * *out_next is where to go on, the buffer's size at the end.
 *
 * @retval GMV_MOVE_TO_BULK        many views
 * @retval GMV_ERR_QUOTA_EXCEEDED  more than GMV_MAP_VIEWS_MAX
 */
GMV_NODISCARD gmv_status gmv_buffer_map(gmv_operation *operation, gmv_buffer *buffer,
                                        uint64_t offset, size_t limit, gmv_map_visit visit,
                                        void *context, uint64_t *out_next, gmv_error *err);

GMV_END_DECLS

#endif
