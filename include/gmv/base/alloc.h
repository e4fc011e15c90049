/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host memory. All allocation of the project goes through here (jansson's too), so that tests can
 * make the n-th one fail and count what is left. Running out is an ordinary status, never an abort.
 * Thread-safe.
 */
#ifndef GMV_BASE_ALLOC_H
#define GMV_BASE_ALLOC_H

#include <stddef.h>
#include <stdint.h>

#include <gmv/base/attr.h>

GMV_BEGIN_DECLS

/*
 * NULL on failure, as their namesakes of the C library; sizes in bytes. What they return is the
 * caller's, who frees it with gmv_free (NULL: nothing). gmv_strndup copies no more than `length`
 * bytes and adds the final NUL.
 */
void *gmv_malloc(size_t nbytes);
void *gmv_calloc(size_t count, size_t nbytes);
void *gmv_realloc(void *block, size_t nbytes);
char *gmv_strndup(const char *text, size_t length);
void gmv_free(void *block);

/* For tests: from now on the n-th allocation (1 = the next) and all after it fail; 0: none does. */
void gmv_alloc_fail_from(uint64_t n);

/* For tests: only the n-th allocation (1 = the next) fails; 0: none does. */
void gmv_alloc_fail_once(uint64_t n);

/* For tests: whether a failure asked for above has happened since. */
int gmv_alloc_has_failed(void);

/* For tests: blocks allocated and not yet freed, counted since gmv_alloc_watch(1). */
void gmv_alloc_watch(int on);
int64_t gmv_alloc_live(void);

GMV_END_DECLS

#endif
