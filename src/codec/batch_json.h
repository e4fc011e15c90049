/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batches: operations in one text, whose paths and bodies may refer to members of the answers to
 * earlier ones. "$N.member" as a path segment, or as a whole string of a body, is that member of
 * answer N ("$2.items.1.id"); a string that is to begin with a dollar sign begins with two.
 */
#ifndef GMV_CODEC_BATCH_JSON_H
#define GMV_CODEC_BATCH_JSON_H

#include <stdbool.h>
#include <stddef.h>

#include <gmv/base/error.h>
#include <gmv/base/strbuf.h>

#define GMV_BATCH_OPERATIONS_MAX 1000

typedef struct gmv_batch gmv_batch;

/*
 * Reads a whole body. All types are looked at before any value. @newref: gmv_batch_destroy.
 *
 * @retval GMV_ERR_JSON_MALFORMED, GMV_ERR_TYPE, GMV_ERR_VALUE, GMV_ERR_OVERLOADED
 */
GMV_NODISCARD gmv_status gmv_batch_parse(const char *body, size_t nbytes, gmv_batch **out_batch,
                                         gmv_error *err);
void gmv_batch_destroy(gmv_batch *batch);

size_t gmv_batch_count(const gmv_batch *batch);
bool gmv_batch_is_atomic(const gmv_batch *batch);
bool gmv_batch_is_delete(const gmv_batch *batch, size_t index); /* else it is a POST */

/*
 * The path, and the body of a POST (empty if it has none), with all references followed. Both are
 * appended.
 *
 * @retval GMV_ERR_VALUE       a reference leads nowhere, or to what cannot stand in a path; the
 * pointer begins with "/path" or "/body"
 * @retval GMV_ERR_OVERLOADED  no memory
 */
GMV_NODISCARD gmv_status gmv_batch_resolve(gmv_batch *batch, size_t index, gmv_strbuf *path,
                                           gmv_strbuf *body, gmv_error *err);

/* What was answered, for later references; the text must live as long as the batch. */
void gmv_batch_keep_answer(gmv_batch *batch, size_t index, const char *text, size_t nbytes);

#endif
