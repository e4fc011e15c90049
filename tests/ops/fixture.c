/* SPDX-License-Identifier: Apache-2.0 */
/* See fixture.h. */
#include "ops/fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>

#include <gmv/base/alloc.h>

void fixture_open(fixture *f)
{
    fixture_open_with(f, NULL, 1);
}

/* The host's, or a CUDA device if GMV_TEST_BACKEND or the program itself says so. */
static gmv_status fixture_open_device(int32_t ordinal, gmv_device **out_device, gmv_error *err)
{
#ifdef FIXTURE_BACKEND
    const char *backend = FIXTURE_BACKEND;
#else
    const char *backend = getenv("GMV_TEST_BACKEND");
#endif
    gmv_device_options options = {.ordinal = ordinal};
    return backend && strcmp(backend, "cuda") == 0
               ? gmv_device_open_cuda(&options, out_device, err)
               : gmv_device_open_host(&options, out_device, err);
}

void fixture_open_with(fixture *f, const gmv_limits *limits, size_t n_devices)
{
    gmv_device *devices[GMV_DEVICES_MAX];
    memset(f, 0, sizeof *f);
    gmv_error_init(&f->err);
    gmv_alloc_watch(1);
    for (size_t i = 0; i < n_devices; i++)
        cr_assert_eq(fixture_open_device((int32_t)i, &devices[i], &f->err), GMV_OK, "%s",
                     f->err.message);
    cr_assert_eq(gmv_engine_init(&f->engine, devices, n_devices, limits, NULL, &f->err), GMV_OK,
                 "%s", f->err.message);
    for (size_t i = 0; i < n_devices; i++)
        cr_assert_eq(gmv_stream_create(devices[i], &f->streams[i], &f->err), GMV_OK, "%s",
                     f->err.message);
    fixture_begin(f);
}

bool fixture_is_host(const fixture *f)
{
    return gmv_device_describe(f->engine.devices[0])->backend == GMV_BACKEND_HOST;
}

void fixture_host_only(const fixture *f, const char *why)
{
    if (!fixture_is_host(f))
        cr_skip_test("%s", why);
}

/* Ends the process: an assertion that fails while a test is torn down would not count. */
static void fixture_gate(bool holds, const char *what, long long number)
{
    if (holds)
        return;
    fprintf(stderr, "left behind: %s (%lld)\n", what, number);
    abort();
}

/* The engine frees what is left, so the sums must fall to nothing by themselves. */
void fixture_close(fixture *f)
{
    if (f->begun)
        fixture_end(f);
    for (size_t i = 0; i < f->engine.n_devices; i++)
        gmv_stream_destroy(f->streams[i]);
    gmv_engine_fini(&f->engine);
    for (size_t i = 0; i < GMV_DEVICES_MAX; i++) {
        fixture_gate(f->engine.reserved_nbytes[i] == 0, "reserved bytes",
                     (long long)f->engine.reserved_nbytes[i]);
        for (size_t j = 0; j < GMV_ORIGIN_COUNT; j++)
            fixture_gate(f->engine.registered_nbytes[i][j] == 0, "registered bytes",
                         (long long)f->engine.registered_nbytes[i][j]);
    }
    fixture_gate(f->engine.operations_in_flight == 0, "operations",
                 (long long)f->engine.operations_in_flight);
    fixture_gate(gmv_alloc_live() == 0, "blocks of host memory", (long long)gmv_alloc_live());
}

void fixture_begin(fixture *f)
{
    fixture_begin_lane(f, GMV_LANE_BULK);
}

void fixture_begin_lane(fixture *f, gmv_lane lane)
{
    gmv_error_init(&f->err);
    gmv_operation_begin(&f->operation, &f->engine, &f->caller, lane,
                        lane == GMV_LANE_INLINE ? NULL : f->streams);
    f->begun = true;
}

void fixture_end(fixture *f)
{
    gmv_operation_end(&f->operation);
    f->begun = false;
}

void fixture_next(fixture *f)
{
    fixture_end(f);
    gmv_engine_reap(&f->engine);
    fixture_begin(f);
}

fixture_state fixture_look(fixture *f)
{
    gmv_registry_counts counts;
    /* What a device keeps of freed blocks is no leak. */
    for (size_t i = 0; i < f->engine.n_devices; i++)
        gmv_device_trim(f->engine.devices[i]);
    fixture_state state = {.blocks = gmv_alloc_live()};
    gmv_registry_count(f->engine.registry, &counts);
    for (size_t i = 0; i < GMV_KIND_COUNT; i++) {
        state.named += counts.named[i];
        state.alive += counts.alive[i];
    }
    for (size_t i = 0; i < f->engine.n_devices; i++) {
        state.reserved_nbytes += f->engine.reserved_nbytes[i];
        for (size_t j = 0; j < GMV_ORIGIN_COUNT; j++)
            state.registered_nbytes += f->engine.registered_nbytes[i][j];
    }
    return state;
}

void fixture_expect_same(const fixture_state *before, const fixture_state *after, const char *what)
{
    cr_assert_eq(after->named, before->named, "%s: names", what);
    cr_assert_eq(after->alive, before->alive, "%s: handles", what);
    cr_assert_eq(after->reserved_nbytes, before->reserved_nbytes, "%s: reserved bytes", what);
    cr_assert_eq(after->registered_nbytes, before->registered_nbytes, "%s: registered bytes", what);
    cr_assert_eq(after->blocks, before->blocks, "%s: %lld blocks before, %lld after", what,
                 (long long)before->blocks, (long long)after->blocks);
}

gmv_buffer *fixture_buffer(fixture *f, const void *bytes, uint64_t nbytes)
{
    gmv_upload *upload = NULL;
    gmv_buffer *buffer = NULL;
    cr_assert_eq(gmv_upload_begin(&f->operation, 0, (int64_t)nbytes, &upload, &f->err), GMV_OK,
                 "%s", f->err.message);
    cr_assert_eq(gmv_upload_append(&f->operation, upload, bytes, nbytes, &f->err), GMV_OK, "%s",
                 f->err.message);
    cr_assert_eq(gmv_upload_finish(&f->operation, upload, false, NULL, &buffer, &f->err), GMV_OK,
                 "%s", f->err.message);
    return buffer;
}

gmv_buffer *fixture_exported_buffer(fixture *f, uint64_t base, uint64_t nbytes)
{
    gmv_memory *memory = NULL;
    gmv_buffer *buffer = NULL;
    cr_assert_eq(gmv_engine_allocate(&f->engine, f->engine.devices[0], f->streams[0],
                                     GMV_MEMORY_ORDINARY, GMV_CONTENTS_ZEROED, nbytes, &memory,
                                     &f->err),
                 GMV_OK);
    cr_assert_eq(gmv_operation_reserve(&f->operation, 1, &f->err), GMV_OK);
    cr_assert_eq(gmv_buffer_prepare(&f->operation, memory, GMV_ORIGIN_ALLOCATED, false, &base, NULL,
                                    false, &buffer, &f->err),
                 GMV_OK);
    gmv_node *node = &buffer->node;
    gmv_operation_publish(&f->operation, &node, 1);
    return buffer;
}

gmv_view *fixture_view(fixture *f, gmv_node *parent, gmv_dtype dtype, int64_t n, int64_t offset)
{
    gmv_view *view = NULL;
    gmv_typed_view_request request = {
        .dtype = dtype, .layout = gmv_layout_flat(n), .offset = offset};
    cr_assert_eq(gmv_view_create_typed(&f->operation, parent, &request, NULL, &view, &f->err),
                 GMV_OK, "%s", f->err.message);
    return view;
}

gmv_view *fixture_view_of(fixture *f, gmv_dtype dtype, const void *bytes, uint64_t nbytes)
{
    gmv_buffer *buffer = fixture_buffer(f, bytes, nbytes);
    return fixture_view(f, &buffer->node, dtype,
                        (int64_t)nbytes / gmv_dtype_describe(dtype)->itemsize, 0);
}

unsigned char *fixture_memory(fixture *f, const gmv_memory *memory)
{
    unsigned char *bytes = malloc(memory->capacity + 1);
    cr_assert_not_null(bytes);
    cr_assert_eq(gmv_copy_out(f->streams[0], bytes, memory->address, memory->capacity, &f->err),
                 GMV_OK, "%s", f->err.message);
    cr_assert_eq(gmv_stream_finish(f->streams[0], &f->err), GMV_OK, "%s", f->err.message);
    return bytes;
}

void fixture_fetch(fixture *f, gmv_bytes *bytes)
{
    if (!gmv_bytes_are_remote(bytes))
        return;
    size_t ordinal = (size_t)gmv_device_describe(bytes->memory->device)->ordinal;
    cr_assert_eq(gmv_bytes_fetch(bytes, f->streams[ordinal], &f->err), GMV_OK, "%s",
                 f->err.message);
}

void fixture_read(fixture *f, gmv_view *view, void *out_bytes, uint64_t nbytes)
{
    gmv_bytes bytes;
    cr_assert_eq(gmv_view_bytes(&f->operation, view, &bytes, &f->err), GMV_OK, "%s",
                 f->err.message);
    cr_assert_eq(bytes.nbytes, nbytes, "%llu bytes, not %llu", (unsigned long long)bytes.nbytes,
                 (unsigned long long)nbytes);
    fixture_fetch(f, &bytes);
    if (nbytes > 0)
        memcpy(out_bytes, bytes.host, nbytes);
    gmv_bytes_release(&bytes);
    gmv_engine_reap(&f->engine);
}

void fixture_expect_bytes(fixture *f, gmv_view *view, const void *bytes, uint64_t nbytes)
{
    unsigned char *got = malloc(nbytes + 1);
    cr_assert_not_null(got);
    fixture_read(f, view, got, nbytes);
    for (uint64_t i = 0; i < nbytes; i++)
        cr_assert_eq(got[i], ((const unsigned char *)bytes)[i], "byte %llu is %02x, not %02x",
                     (unsigned long long)i, got[i], ((const unsigned char *)bytes)[i]);
    free(got);
}

bool fixture_delete(fixture *f, const gmv_id *id, gmv_if_held if_held, gmv_deletion *out_deletion)
{
    gmv_deletion deletion;
    return gmv_registry_delete(f->engine.registry, &f->caller, id, id->kind, if_held,
                               out_deletion ? out_deletion : &deletion, &f->err) == GMV_OK;
}

unsigned char *fixture_hex(const char *hex, size_t *out_nbytes)
{
    size_t nbytes = hex ? strlen(hex) / 2 : 0;
    unsigned char *bytes = malloc(nbytes + 1);
    cr_assert_not_null(bytes);
    for (size_t i = 0; i < nbytes; i++) {
        unsigned value = 0;
        cr_assert_eq(sscanf(hex + 2 * i, "%2x", &value), 1);
        bytes[i] = (unsigned char)value;
    }
    *out_nbytes = nbytes;
    return bytes;
}

void fixture_expect(fixture *f, gmv_status got, gmv_status want, const char *pointer)
{
    cr_assert_eq(got, want, "%s, not %s: %s", gmv_status_code(got), gmv_status_code(want),
                 f->err.message);
    if (pointer)
        cr_assert(f->err.has_pointer && strcmp(f->err.pointer, pointer) == 0,
                  "pointer \"%s\", not \"%s\"", f->err.pointer, pointer);
    gmv_error_init(&f->err);
}

char *fixture_vectors(const char *name, size_t *out_nbytes)
{
    char path[1024];
    const char *root = getenv("GMV_SRCDIR");
    snprintf(path, sizeof path, "%s/tests/vectors/%s", root ? root : ".", name);
    FILE *file = fopen(path, "rb");
    cr_assert_not_null(file, "%s cannot be opened", path);
    size_t capacity = (size_t)1 << 20;
    char *text = malloc(capacity);
    cr_assert_not_null(text);
    *out_nbytes = fread(text, 1, capacity, file);
    cr_assert_lt(*out_nbytes, capacity);
    fclose(file);
    return text;
}
