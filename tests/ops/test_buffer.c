/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers: allocating, uploading, importing, exporting, writing, and the bytes they serve. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <criterion/criterion.h>

#include <gmv/ops/mask.h>

#include "ops/fixture.h"

static fixture f;
static char segment[64];

static void open_fixture(void)
{
    fixture_open(&f);
}

static void close_fixture(void)
{
    fixture_close(&f);
    if (segment[0] != '\0')
        shm_unlink(segment);
}

TestSuite(buffer, .init = open_fixture, .fini = close_fixture);

/* Another process's segment, as far as the daemon can tell; byte i is i % 251. */
static int make_segment(size_t nbytes)
{
    fixture_host_only(&f, "POSIX shared memory is the host backend's");
    snprintf(segment, sizeof segment, "/gmv-test-%ld", (long)getpid());
    int descriptor = shm_open(segment, O_CREAT | O_EXCL | O_RDWR, 0600);
    cr_assert_geq(descriptor, 0);
    for (size_t i = 0; i < nbytes; i++) {
        unsigned char byte = (unsigned char)(i % 251);
        cr_assert_eq(write(descriptor, &byte, 1), 1);
    }
    return descriptor;
}

static gmv_buffer *import(const gmv_import_shm *request)
{
    gmv_buffer *buffer = NULL;
    cr_assert_eq(gmv_buffer_import_shm(&f.operation, request, NULL, &buffer, &f.err), GMV_OK, "%s",
                 f.err.message);
    return buffer;
}

static void expect_bytes(gmv_buffer *buffer, const void *bytes, uint64_t nbytes)
{
    gmv_bytes got;
    cr_assert_eq(gmv_buffer_bytes(&f.operation, buffer, &got, &f.err), GMV_OK, "%s", f.err.message);
    cr_assert_eq(got.nbytes, nbytes);
    fixture_fetch(&f, &got);
    cr_assert(nbytes == 0 || memcmp(got.host, bytes, nbytes) == 0);
    gmv_bytes_release(&got);
}

/* ---- allocating ------------------------------------------------------------------------------ */

Test(buffer, fresh_memory_is_zero)
{
    static const unsigned char zeros[100000];
    gmv_buffer *buffer = NULL;
    cr_assert_eq(gmv_buffer_allocate(&f.operation, 0, sizeof zeros, false, NULL, &buffer, &f.err),
                 GMV_OK);
    expect_bytes(buffer, zeros, sizeof zeros);
    cr_assert_neq(buffer->ptr, 0);
    cr_assert_eq(buffer->origin, GMV_ORIGIN_ALLOCATED);
    cr_assert_eq(buffer->memory->kind, GMV_MEMORY_EXPORTABLE);
    cr_assert_eq(f.engine.registered_nbytes[0][GMV_ORIGIN_ALLOCATED], sizeof zeros);
    cr_assert(gmv_id_equal(&buffer->memory->owner, &buffer->node.id));
}

Test(buffer, zero_bytes_have_no_address)
{
    gmv_buffer *buffer = NULL;
    cr_assert_eq(gmv_buffer_allocate(&f.operation, 0, 0, false, NULL, &buffer, &f.err), GMV_OK);
    cr_assert_eq(buffer->ptr, 0);
    cr_assert_eq(buffer->nbytes, 0);
    expect_bytes(buffer, NULL, 0);
}

Test(buffer, negative_sizes_and_unknown_devices_are_refused)
{
    gmv_buffer *buffer = NULL;
    fixture_expect(&f, gmv_buffer_allocate(&f.operation, 0, -1, false, NULL, &buffer, &f.err),
                   GMV_ERR_VALUE, "/nbytes");
    fixture_expect(&f, gmv_buffer_allocate(&f.operation, 7, 1, false, NULL, &buffer, &f.err),
                   GMV_ERR_VALUE, "/device");
}

Test(buffer, a_label_stays_with_the_buffer)
{
    gmv_creation creation = {.label = "weights", .label_length = 7};
    gmv_buffer *buffer = NULL;
    cr_assert_eq(gmv_buffer_allocate(&f.operation, 0, 8, false, &creation, &buffer, &f.err),
                 GMV_OK);
    cr_assert_str_eq(buffer->node.label, "weights");
}

Test(buffer, contents_are_fixed_only_if_readonly_ours_and_not_exported)
{
    gmv_buffer *sealed = NULL;
    gmv_buffer *open = NULL;
    gmv_buffer *same = NULL;
    gmv_share share;
    bool cloned;
    cr_assert_eq(gmv_buffer_allocate(&f.operation, 0, 8, true, NULL, &sealed, &f.err), GMV_OK);
    cr_assert_eq(gmv_buffer_allocate(&f.operation, 0, 8, false, NULL, &open, &f.err), GMV_OK);
    cr_assert(gmv_buffer_is_sealed(sealed));
    cr_assert_not(gmv_buffer_is_sealed(open));
    cr_assert_eq(gmv_buffer_export(&f.operation, sealed, NULL, &same, &cloned, &share, &f.err),
                 GMV_OK);
    cr_assert_not(gmv_buffer_is_sealed(sealed));
}

/* ---- writing --------------------------------------------------------------------------------- */

Test(buffer, writes_land_where_they_are_told_to)
{
    gmv_buffer *buffer = fixture_buffer(&f, "abcdef", 6);
    cr_assert_eq(gmv_buffer_write(&f.operation, buffer, 2, "XY", 2, &f.err), GMV_OK);
    cr_assert_eq(gmv_buffer_write(&f.operation, buffer, 6, "", 0, &f.err), GMV_OK);
    expect_bytes(buffer, "abXYef", 6);
}

Test(buffer, writes_outside_change_nothing)
{
    static const struct {
        uint64_t offset, nbytes;
    } rows[] = {{5, 2}, {6, 1}, {7, 0}, {UINT64_MAX, 1}, {1, UINT64_MAX}, {UINT64_MAX, UINT64_MAX}};
    gmv_buffer *buffer = fixture_buffer(&f, "abcdef", 6);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        fixture_expect(
            &f,
            gmv_buffer_write(&f.operation, buffer, rows[i].offset, "ZZ", rows[i].nbytes, &f.err),
            GMV_ERR_OUT_OF_BOUNDS, NULL);
    expect_bytes(buffer, "abcdef", 6);
}

Test(buffer, readonly_memory_is_not_written)
{
    gmv_buffer *buffer = NULL;
    cr_assert_eq(gmv_buffer_allocate(&f.operation, 0, 8, true, NULL, &buffer, &f.err), GMV_OK);
    fixture_expect(&f, gmv_buffer_write(&f.operation, buffer, 0, "x", 1, &f.err), GMV_ERR_READONLY,
                   NULL);
    expect_bytes(buffer, "\0\0\0\0\0\0\0\0", 8);
}

/* ---- uploading ------------------------------------------------------------------------------- */

static unsigned char *pattern(size_t nbytes)
{
    unsigned char *bytes = malloc(nbytes + 1);
    cr_assert_not_null(bytes);
    for (size_t i = 0; i < nbytes; i++)
        bytes[i] = (unsigned char)(i * 7 + i / 251);
    return bytes;
}

static gmv_buffer *upload(size_t nbytes, int64_t expected, size_t step)
{
    unsigned char *bytes = pattern(nbytes);
    gmv_upload *up = NULL;
    gmv_buffer *buffer = NULL;
    cr_assert_eq(gmv_upload_begin(&f.operation, 0, expected, &up, &f.err), GMV_OK);
    for (size_t at = 0; at < nbytes; at += step) {
        size_t count = nbytes - at < step ? nbytes - at : step;
        cr_assert_eq(gmv_upload_append(&f.operation, up, bytes + at, count, &f.err), GMV_OK);
    }
    cr_assert_eq(gmv_upload_finish(&f.operation, up, false, NULL, &buffer, &f.err), GMV_OK);
    expect_bytes(buffer, bytes, nbytes);
    free(bytes);
    return buffer;
}

Test(buffer, an_upload_has_exactly_the_size_of_its_content)
{
    static const struct {
        size_t nbytes;
        int64_t expected;
        size_t step;
    } rows[] = {
        {0, -1, 1},          {0, 0, 1},           {1, -1, 1},          {1, 1, 1},
        {100, 1000, 7},      {1000, 100, 7},      {65535, -1, 4096},   {65536, -1, 4096},
        {65536, 65536, 777}, {65537, 65536, 999}, {300001, -1, 10007}, {300001, 300001, 300001},
        {0, 70000, 1},       {5, 70000, 1},       {70000, 5, 70000},   {1048576, -1, 65536},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        gmv_buffer *buffer = upload(rows[i].nbytes, rows[i].expected, rows[i].step);
        cr_assert_eq(buffer->nbytes, rows[i].nbytes, "row %zu", i);
        cr_assert_eq(buffer->memory->nbytes, rows[i].nbytes, "row %zu", i);
        cr_assert_eq(buffer->origin, GMV_ORIGIN_UPLOADED);
        cr_assert_eq(buffer->memory->kind,
                     rows[i].nbytes >= 65536 ? GMV_MEMORY_EXPORTABLE : GMV_MEMORY_ORDINARY);
        cr_assert_eq(f.engine.reserved_nbytes[0], buffer->memory->capacity, "row %zu", i);
        unsigned char *bytes = fixture_memory(&f, buffer->memory);
        for (uint64_t at = buffer->nbytes; at < buffer->memory->capacity; at++)
            cr_assert_eq(bytes[at], 0, "row %zu: the byte behind the content is not zero", i);
        free(bytes);
        gmv_id id = buffer->node.id;
        fixture_next(&f);
        cr_assert(fixture_delete(&f, &id, GMV_IF_HELD_KEEP, NULL));
    }
}

Test(buffer, an_upload_goes_on_from_one_operation_to_the_next)
{
    unsigned char *bytes = pattern(200000);
    gmv_upload *up = NULL;
    gmv_buffer *buffer = NULL;
    cr_assert_eq(gmv_upload_begin(&f.operation, 0, -1, &up, &f.err), GMV_OK);
    for (size_t at = 0; at < 200000; at += 50000) {
        fixture_next(&f);
        cr_assert_eq(gmv_upload_append(&f.operation, up, bytes + at, 50000, &f.err), GMV_OK);
    }
    fixture_next(&f);
    cr_assert_eq(gmv_upload_finish(&f.operation, up, true, NULL, &buffer, &f.err), GMV_OK);
    expect_bytes(buffer, bytes, 200000);
    cr_assert(gmv_buffer_is_sealed(buffer));
    free(bytes);
}

Test(buffer, an_upload_that_is_broken_off_leaves_nothing)
{
    gmv_upload *up = NULL;
    fixture_state before = fixture_look(&f);
    cr_assert_eq(gmv_upload_begin(&f.operation, 0, -1, &up, &f.err), GMV_OK);
    cr_assert_eq(gmv_upload_append(&f.operation, up, "abc", 3, &f.err), GMV_OK);
    gmv_upload_abort(up);
    fixture_state after = fixture_look(&f);
    after.blocks = before.blocks; /* the device keeps a block for reuse */
    fixture_expect_same(&before, &after, "aborted upload");
}

Test(buffer, an_announced_upload_is_held_against_the_quota_before_its_first_byte)
{
    gmv_upload *up = NULL;
    f.engine.limits.max_device_nbytes = 1 << 16;
    fixture_expect(&f, gmv_upload_begin(&f.operation, 0, 1 << 17, &up, &f.err),
                   GMV_ERR_QUOTA_EXCEEDED, NULL);
    fixture_expect(&f, gmv_upload_begin(&f.operation, 9, -1, &up, &f.err), GMV_ERR_VALUE,
                   "/device");
    cr_assert_eq(f.engine.reserved_nbytes[0], 0);
}

Test(buffer, a_growing_upload_is_held_against_the_quota_at_every_growth)
{
    unsigned char *bytes = pattern(1 << 16);
    gmv_upload *up = NULL;
    gmv_status status = GMV_OK;
    f.engine.limits.max_device_nbytes = 1 << 18;
    cr_assert_eq(gmv_upload_begin(&f.operation, 0, -1, &up, &f.err), GMV_OK);
    size_t appended = 0;
    while (status == GMV_OK && appended < 100) {
        status = gmv_upload_append(&f.operation, up, bytes, 1 << 16, &f.err);
        appended += status == GMV_OK;
        cr_assert_leq(f.engine.reserved_nbytes[0], 1 << 18);
    }
    fixture_expect(&f, status, GMV_ERR_QUOTA_EXCEEDED, NULL);
    cr_assert_eq(appended, 4, "what has come is held once: %zu", appended);
    gmv_upload_abort(up);
    cr_assert_eq(f.engine.reserved_nbytes[0], 0);
    free(bytes);
}

Test(buffer, an_endless_upload_ends_at_the_logical_limit)
{
    gmv_upload *up = NULL;
    f.engine.limits.max_logical_nbytes = 100;
    fixture_expect(&f, gmv_upload_begin(&f.operation, 0, 101, &up, &f.err), GMV_ERR_QUOTA_EXCEEDED,
                   NULL);
    cr_assert_eq(gmv_upload_begin(&f.operation, 0, -1, &up, &f.err), GMV_OK);
    unsigned char *bytes = pattern(70000);
    fixture_expect(&f, gmv_upload_append(&f.operation, up, bytes, 70000, &f.err),
                   GMV_ERR_QUOTA_EXCEEDED, NULL);
    gmv_upload_abort(up);
    free(bytes);
}

/* ---- importing ------------------------------------------------------------------------------- */

Test(buffer, an_import_shows_the_exporters_bytes_and_its_later_writes)
{
    int descriptor = make_segment(1000);
    gmv_import_shm request = {.name = segment, .has_base = true, .base = 0x7000000};
    gmv_buffer *buffer = import(&request);
    cr_assert_eq(buffer->nbytes, 1000);
    cr_assert_eq(buffer->origin, GMV_ORIGIN_POSIX_SHM);
    cr_assert(buffer->has_exporter_base);
    cr_assert_eq(buffer->exporter_base, 0x7000000);
    cr_assert_eq(f.engine.reserved_nbytes[0], 0, "imports are not ours to count");
    cr_assert_eq(f.engine.registered_nbytes[0][GMV_ORIGIN_POSIX_SHM], 1000);
    cr_assert_eq(pwrite(descriptor, "\x7b", 1, 4), 1);
    gmv_bytes bytes;
    cr_assert_eq(gmv_buffer_bytes(&f.operation, buffer, &bytes, &f.err), GMV_OK);
    /* The exporter may cut the memory short, so it is never handed out as it lies. */
    unsigned char seen[301];
    cr_assert(gmv_bytes_are_remote(&bytes));
    cr_assert_eq(gmv_bytes_read(&bytes, f.streams[0], 0, seen, sizeof seen, &f.err), GMV_OK);
    cr_assert_eq(seen[4], 0x7b);
    cr_assert_eq(seen[300], 300 % 251);
    cr_assert_not(bytes.sealed);
    gmv_bytes_release(&bytes);
    close(descriptor);
}

Test(buffer, what_an_import_claims_is_checked)
{
    static const struct {
        bool has_base;
        int64_t base;
        bool has_nbytes;
        int64_t nbytes;
        gmv_status status;
        const char *pointer;
    } rows[] = {
        {true, 0, false, 0, GMV_ERR_VALUE, "/posix_shm/base"},
        {true, -1, false, 0, GMV_ERR_VALUE, "/posix_shm/base"},
        {true, INT64_MAX, false, 0, GMV_ERR_VALUE, "/posix_shm/base"},
        {true, INT64_MAX - 998, false, 0, GMV_ERR_VALUE, "/posix_shm/base"},
        {false, 0, true, -1, GMV_ERR_VALUE, "/posix_shm/nbytes"},
        {false, 0, true, 1001, GMV_ERR_OUT_OF_BOUNDS, "/posix_shm/nbytes"},
        {false, 0, true, INT64_MAX, GMV_ERR_OUT_OF_BOUNDS, "/posix_shm/nbytes"},
    };
    gmv_buffer *buffer = NULL;
    close(make_segment(1000));
    fixture_state before = fixture_look(&f);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        gmv_import_shm request = {
            segment, rows[i].has_base, rows[i].base, rows[i].has_nbytes, rows[i].nbytes, false};
        fixture_expect(&f, gmv_buffer_import_shm(&f.operation, &request, NULL, &buffer, &f.err),
                       rows[i].status, rows[i].pointer);
    }
    gmv_import_shm request = {.name = "/gmv-no-such-segment"};
    fixture_expect(&f, gmv_buffer_import_shm(&f.operation, &request, NULL, &buffer, &f.err),
                   GMV_ERR_HANDLE_INVALID, "/posix_shm/name");
    fixture_state after = fixture_look(&f);
    fixture_expect_same(&before, &after, "refused imports");
    cr_assert_eq(gmv_device_import_mappings(f.engine.devices[0]), 0);
}

Test(buffer, the_last_import_of_a_mapping_gives_the_bytes_back)
{
    close(make_segment(4096));
    gmv_import_shm request = {.name = segment};
    gmv_id first = import(&request)->node.id;
    gmv_id second = import(&request)->node.id;
    gmv_deletion deletion;
    fixture_next(&f);
    cr_assert_eq(gmv_device_import_mappings(f.engine.devices[0]), 1);
    cr_assert(fixture_delete(&f, &first, GMV_IF_HELD_KEEP, &deletion));
    cr_assert_eq(deletion.freed_count, 1);
    cr_assert_eq(deletion.freed_nbytes, 0);
    cr_assert(fixture_delete(&f, &second, GMV_IF_HELD_KEEP, &deletion));
    cr_assert_eq(deletion.freed_nbytes, 4096);
    cr_assert_eq(gmv_device_import_mappings(f.engine.devices[0]), 0);
}

Test(buffer, a_readonly_import_is_not_written)
{
    close(make_segment(16));
    gmv_import_shm request = {.name = segment, .readonly = true};
    gmv_buffer *buffer = import(&request);
    cr_assert(buffer->readonly);
    cr_assert_not(gmv_buffer_is_sealed(buffer), "its exporter may write");
    fixture_expect(&f, gmv_buffer_write(&f.operation, buffer, 0, "x", 1, &f.err), GMV_ERR_READONLY,
                   NULL);
}

Test(buffer, a_segment_cut_short_is_lost_and_the_daemon_lives)
{
    int descriptor = make_segment(20000);
    gmv_import_shm request = {.name = segment};
    gmv_buffer *buffer = import(&request);
    gmv_view *view = fixture_view(&f, &buffer->node, GMV_DTYPE_U1, 20000, 0);
    gmv_view *copy = NULL;
    gmv_bytes bytes;
    unsigned char out[20000];
    cr_assert_eq(ftruncate(descriptor, 0), 0);
    close(descriptor);
    fixture_expect(&f, gmv_view_copy(&f.operation, view, false, NULL, &copy, &f.err),
                   GMV_ERR_MEMORY_LOST, NULL);
    fixture_expect(&f, gmv_view_read_elements(&f.operation, view, 0, 20000, out, &f.err),
                   GMV_ERR_MEMORY_LOST, NULL);
    int64_t count;
    gmv_bit_range all = {0, 160000};
    fixture_expect(&f, gmv_null_count(&f.operation, view, all, &count, &f.err), GMV_ERR_MEMORY_LOST,
                   NULL);
    fixture_expect(&f, gmv_copy_bitmask(&f.operation, view, all, NULL, &copy, &f.err),
                   GMV_ERR_MEMORY_LOST, NULL);
    fixture_expect(&f, gmv_set_null_mask(&f.operation, view, all, true, &f.err),
                   GMV_ERR_MEMORY_LOST, NULL);
    fixture_expect(&f, gmv_buffer_bytes(&f.operation, buffer, &bytes, &f.err), GMV_ERR_MEMORY_LOST,
                   NULL);
    fixture_expect(&f, gmv_view_bytes(&f.operation, view, &bytes, &f.err), GMV_ERR_MEMORY_LOST,
                   NULL);
    fixture_expect(&f, gmv_buffer_write(&f.operation, buffer, 0, "x", 1, &f.err),
                   GMV_ERR_MEMORY_LOST, NULL);
    expect_bytes(fixture_buffer(&f, "fine", 4), "fine", 4);
}

/* ---- exporting ------------------------------------------------------------------------------- */

static void expect_shared(const gmv_share *share, const void *bytes, size_t nbytes)
{
    fixture_host_only(&f, "POSIX shared memory is the host backend's");
    cr_assert_eq(share->mechanism, GMV_SHARE_POSIX_SHM);
    cr_assert_eq(share->nbytes, nbytes);
    int descriptor = shm_open(share->shm_name, O_RDONLY, 0);
    cr_assert_geq(descriptor, 0, "%s", share->shm_name);
    unsigned char *got = malloc(nbytes + 1);
    cr_assert_not_null(got);
    cr_assert_eq(pread(descriptor, got, nbytes, (off_t)share->offset), (ssize_t)nbytes);
    cr_assert_eq(memcmp(got, bytes, nbytes), 0);
    struct stat status;
    cr_assert_eq(fstat(descriptor, &status), 0);
    for (off_t at = (off_t)(share->offset + nbytes); at < status.st_size; at++) {
        unsigned char byte = 1;
        cr_assert_eq(pread(descriptor, &byte, 1, at), 1);
        cr_assert_eq(byte, 0, "a byte behind the buffer is served");
    }
    free(got);
    close(descriptor);
}

Test(buffer, exportable_memory_is_shared_as_it_is)
{
    gmv_buffer *buffer = upload(70000, -1, 7000);
    unsigned char *bytes = pattern(70000);
    gmv_buffer *exported = NULL;
    gmv_share share;
    bool cloned = true;
    cr_assert_eq(gmv_buffer_export(&f.operation, buffer, NULL, &exported, &cloned, &share, &f.err),
                 GMV_OK);
    cr_assert_eq(exported, buffer);
    cr_assert_not(cloned);
    expect_shared(&share, bytes, 70000);
    free(bytes);
}

Test(buffer, ordinary_memory_is_cloned_to_be_shared)
{
    gmv_creation creation = {.label = "clone", .label_length = 5};
    gmv_buffer *buffer = fixture_buffer(&f, "abcdef", 6);
    gmv_buffer *exported = NULL;
    gmv_share share;
    bool cloned = false;
    cr_assert_eq(
        gmv_buffer_export(&f.operation, buffer, &creation, &exported, &cloned, &share, &f.err),
        GMV_OK);
    cr_assert(cloned);
    cr_assert_neq(exported, buffer);
    cr_assert_eq(exported->origin, GMV_ORIGIN_COMPUTED);
    cr_assert_str_eq(exported->node.label, "clone");
    expect_shared(&share, "abcdef", 6);
    gmv_id id = buffer->node.id;
    gmv_id clone = exported->node.id;
    fixture_next(&f);
    cr_assert(fixture_delete(&f, &id, GMV_IF_HELD_KEEP, NULL), "the clone stands alone");
    expect_shared(&share, "abcdef", 6);
    cr_assert(fixture_delete(&f, &clone, GMV_IF_HELD_KEEP, NULL));
    cr_assert_lt(shm_open(share.shm_name, O_RDONLY, 0), 0, "an export ends with its buffer");
}

Test(buffer, what_gmvd_exported_is_not_imported_again)
{
    fixture_host_only(&f, "POSIX shared memory is the host backend's");
    gmv_buffer *buffer = upload(70000, -1, 7000);
    gmv_buffer *exported = NULL;
    gmv_buffer *again = NULL;
    gmv_share share;
    bool cloned;
    cr_assert_eq(gmv_buffer_export(&f.operation, buffer, NULL, &exported, &cloned, &share, &f.err),
                 GMV_OK);
    gmv_import_shm request = {.name = share.shm_name};
    cr_assert_eq(gmv_buffer_import_shm(&f.operation, &request, NULL, &again, &f.err),
                 GMV_ERR_HANDLE_EXPORTED_HERE);
    cr_assert(f.err.has_subject);
    cr_assert(gmv_id_equal(&f.err.subject, &buffer->node.id));
}

Test(buffer, imported_and_empty_memory_is_not_exported)
{
    gmv_buffer *empty = NULL;
    gmv_buffer *exported = NULL;
    gmv_share share;
    bool cloned;
    close(make_segment(100));
    gmv_import_shm request = {.name = segment};
    gmv_buffer *imported = import(&request);
    cr_assert_eq(gmv_buffer_allocate(&f.operation, 0, 0, false, NULL, &empty, &f.err), GMV_OK);
    fixture_expect(
        &f, gmv_buffer_export(&f.operation, imported, NULL, &exported, &cloned, &share, &f.err),
        GMV_ERR_NOT_EXPORTABLE, NULL);
    fixture_expect(&f,
                   gmv_buffer_export(&f.operation, empty, NULL, &exported, &cloned, &share, &f.err),
                   GMV_ERR_NOT_EXPORTABLE, NULL);
}

/* ---- bytes that outlive ---------------------------------------------------------------------- */

Test(buffer, bytes_stay_readable_after_the_operation_and_the_delete)
{
    gmv_buffer *buffer = fixture_buffer(&f, "abcdef", 6);
    gmv_id id = buffer->node.id;
    gmv_bytes bytes;
    gmv_deletion deletion;
    cr_assert_eq(gmv_buffer_bytes(&f.operation, buffer, &bytes, &f.err), GMV_OK);
    fixture_next(&f);
    cr_assert(fixture_delete(&f, &id, GMV_IF_HELD_KEEP, &deletion));
    cr_assert(deletion.alive);
    fixture_fetch(&f, &bytes);
    cr_assert_eq(memcmp(bytes.host, "abcdef", 6), 0);
    gmv_bytes_release(&bytes);
    cr_assert_gt(f.engine.reserved_nbytes[0], 0, "nothing is freed where it must not block");
    gmv_engine_reap(&f.engine);
    cr_assert_eq(f.engine.reserved_nbytes[0], 0);
    gmv_bytes_release(&bytes);
}

/* ---- bytes that must be copied out ----------------------------------------------------------- */

Test(buffer, bytes_are_copied_out_piece_by_piece)
{
    unsigned char content[1000], piece[1000];
    for (size_t i = 0; i < sizeof content; i++)
        content[i] = (unsigned char)(i * 7);
    gmv_buffer *buffer = fixture_buffer(&f, content, sizeof content);
    gmv_bytes bytes;
    cr_assert_eq(gmv_buffer_bytes(&f.operation, buffer, &bytes, &f.err), GMV_OK);
    cr_assert_eq(gmv_bytes_read(&bytes, f.streams[0], 0, piece, 1000, &f.err), GMV_OK);
    cr_assert_eq(memcmp(piece, content, 1000), 0);
    cr_assert_eq(gmv_bytes_read(&bytes, f.streams[0], 999, piece, 1, &f.err), GMV_OK);
    cr_assert_eq(piece[0], content[999]);
    cr_assert_eq(gmv_bytes_read(&bytes, f.streams[0], 1000, piece, 0, &f.err), GMV_OK);
    cr_assert_eq(gmv_bytes_read(&bytes, f.streams[0], 1000, piece, 1, &f.err),
                 GMV_ERR_OUT_OF_BOUNDS);
    cr_assert_eq(gmv_bytes_read(&bytes, f.streams[0], UINT64_MAX, piece, 2, &f.err),
                 GMV_ERR_OUT_OF_BOUNDS);
    gmv_bytes_release(&bytes);
}

Test(buffer, fetched_bytes_need_their_buffer_no_more)
{
    gmv_buffer *buffer = fixture_buffer(&f, "0123456789", 10);
    gmv_id id = buffer->node.id;
    gmv_bytes bytes;
    gmv_deletion deletion;
    cr_assert_eq(gmv_buffer_bytes(&f.operation, buffer, &bytes, &f.err), GMV_OK);
    cr_assert_eq(gmv_bytes_are_remote(&bytes), !fixture_is_host(&f));
    bytes.host = NULL; /* as on a GPU */
    cr_assert(gmv_bytes_are_remote(&bytes));
    cr_assert_eq(gmv_bytes_fetch(&bytes, f.streams[0], &f.err), GMV_OK);
    cr_assert_not(gmv_bytes_are_remote(&bytes));
    fixture_next(&f);
    cr_assert(fixture_delete(&f, &id, GMV_IF_HELD_KEEP, &deletion));
    cr_assert_eq(f.engine.reserved_nbytes[0], 0);
    cr_assert_eq(memcmp(bytes.host, "0123456789", 10), 0);
    gmv_bytes_release(&bytes);
}

Test(buffer, a_fetch_that_fails_changes_nothing)
{
    gmv_buffer *buffer = fixture_buffer(&f, "0123456789", 10);
    gmv_bytes bytes;
    cr_assert_eq(gmv_buffer_bytes(&f.operation, buffer, &bytes, &f.err), GMV_OK);
    const void *host = bytes.host;
    bytes.host = NULL;
    for (uint64_t n = 1; n <= 3; n++) {
        gmv_device_fail_once(f.engine.devices[0], n, GMV_ERR_MEMORY_LOST);
        gmv_error_init(&f.err);
        cr_assert_eq(gmv_bytes_fetch(&bytes, f.streams[0], &f.err), GMV_ERR_MEMORY_LOST);
        cr_assert(gmv_bytes_are_remote(&bytes) && bytes.node == &buffer->node);
    }
    bytes.host = host;
    gmv_bytes_release(&bytes);
}

Test(buffer, contents_of_a_lost_device_are_not_served)
{
    gmv_buffer *buffer = fixture_buffer(&f, "0123456789", 10);
    gmv_bytes bytes;
    gmv_device_mark_lost(f.engine.devices[0], "a test");
    cr_assert_eq(gmv_buffer_bytes(&f.operation, buffer, &bytes, &f.err), GMV_ERR_DEVICE_LOST);
}
