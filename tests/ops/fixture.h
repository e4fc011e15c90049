/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An engine over the host backend with a stream for each device, and one operation at a time. The
 * helpers assert that what they do succeeds; closing asserts that nothing is left behind.
 */
#ifndef GMV_TESTS_OPS_FIXTURE_H
#define GMV_TESTS_OPS_FIXTURE_H

#include <gmv/ops/view.h>

typedef struct fixture {
    gmv_engine engine;
    gmv_stream *streams[GMV_DEVICES_MAX];
    gmv_caller caller;
    gmv_operation operation; /* begun between fixture_begin and fixture_end */
    bool begun;
    gmv_error err; /* empty after fixture_begin */
} fixture;

/* What must be as before after an operation that failed. */
typedef struct fixture_state {
    uint64_t named, alive; /* handles of all kinds */
    uint64_t reserved_nbytes, registered_nbytes;
    int64_t blocks; /* host memory, see gmv_alloc_watch */
} fixture_state;

/* One device, no limits; an operation on the bulk lane is begun. */
void fixture_open(fixture *f);
void fixture_open_with(fixture *f, const gmv_limits *limits, size_t n_devices);
void fixture_close(fixture *f);

/* Whether memory lies on the host; and skips the test if not. */
bool fixture_is_host(const fixture *f);
void fixture_host_only(const fixture *f, const char *why);

void fixture_begin(fixture *f);
void fixture_begin_lane(fixture *f, gmv_lane lane);
void fixture_end(fixture *f);
/* Ends and begins, so that nothing of before is held. */
void fixture_next(fixture *f);

fixture_state fixture_look(fixture *f);
void fixture_expect_same(const fixture_state *before, const fixture_state *after, const char *what);

/* Handles made here are named and held by the operation. */
gmv_buffer *fixture_buffer(fixture *f, const void *bytes, uint64_t nbytes);
/* Memory that clients see at `base`. */
gmv_buffer *fixture_exported_buffer(fixture *f, uint64_t base, uint64_t nbytes);
gmv_view *fixture_view(fixture *f, gmv_node *parent, gmv_dtype dtype, int64_t n, int64_t offset);
/* A 1-d view over a buffer of exactly these bytes. */
gmv_view *fixture_view_of(fixture *f, gmv_dtype dtype, const void *bytes, uint64_t nbytes);

/* All bytes of the memory, to its capacity, for free(). */
unsigned char *fixture_memory(fixture *f, const gmv_memory *memory);

/* Brings bytes that this process cannot see to where it can. */
void fixture_fetch(fixture *f, gmv_bytes *bytes);

/* Reads the logical bytes, of which there must be exactly `nbytes`. */
void fixture_read(fixture *f, gmv_view *view, void *out_bytes, uint64_t nbytes);
void fixture_expect_bytes(fixture *f, gmv_view *view, const void *bytes, uint64_t nbytes);

/* Deletes by id; false if the registry refuses, with the error in f->err. */
bool fixture_delete(fixture *f, const gmv_id *id, gmv_if_held if_held, gmv_deletion *out_deletion);

/* Reads hexadecimal text (NULL: none); returns bytes for free() and their number. */
unsigned char *fixture_hex(const char *hex, size_t *out_nbytes);

/* Asserts a status and, unless NULL, the pointer of f->err; then empties f->err. */
void fixture_expect(fixture *f, gmv_status got, gmv_status want, const char *pointer);

/* The text of tests/vectors/<name>, for free(). */
char *fixture_vectors(const char *name, size_t *out_nbytes);

#endif
