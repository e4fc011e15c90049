/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of every device: kinds, zeroing, padding, recycling, copies, running out, failing calls.
 */
#include "device/device_support.h"

#include <sys/resource.h>

static const gmv_memory_kind kinds[] = {GMV_MEMORY_EXPORTABLE, GMV_MEMORY_ORDINARY};
static const uint64_t sizes[] = {1,     63,    64,     65,     4095,    4096,   4097,
                                 65535, 65536, 100000, 131073, 1 << 20, 5000001};

DEVICE_TEST(memory, describes_itself)
{
    const gmv_device_info *info = gmv_device_describe(w->device);
    bool is_cuda = w->row->is_cuda;
    cr_expect_eq(info->backend, is_cuda ? GMV_BACKEND_CUDA : GMV_BACKEND_HOST);
    if (!is_cuda)
        cr_expect_str_eq(info->kernel_set, w->row->kernel_set);
    cr_expect_eq(strncmp(info->uuid, "GPU-", 4) == 0 && strlen(info->uuid) == 40, is_cuda);
    cr_expect_eq(info->compute_capability[0] != '\0', is_cuda);
    cr_expect_eq(gmv_device_driver_version(w->device)[0] != '\0', is_cuda);
    cr_expect_gt(info->total_nbytes, 1 << 20);
    cr_expect_neq(info->name[0], '\0');
}

DEVICE_TEST(memory, is_aligned_padded_and_zeroed)
{
    for (size_t kind = 0; kind < 2; kind++) {
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            gmv_memory *memory = make_memory(w, kinds[kind], GMV_CONTENTS_ZEROED, sizes[i]);
            const uint8_t *bytes = world_read(w, memory);
            cr_expect_eq(memory->device, w->device);
            cr_expect_eq(memory->kind, kinds[kind]);
            cr_expect_eq(memory->nbytes, sizes[i]);
            cr_expect(memory->capacity % 64 == 0 && memory->capacity >= sizes[i]);
            cr_expect(memory->address != 0 && memory->address % 64 == 0);
            cr_expect(!memory->readonly && !gmv_memory_is_lost(memory));
            cr_expect(bytes_are(bytes, 0, memory->capacity));
            gmv_memory_free(memory);
        }
    }
}

DEVICE_TEST(memory, of_no_bytes_has_no_address)
{
    for (size_t kind = 0; kind < 2; kind++) {
        gmv_memory *memory = make_memory(w, kinds[kind], GMV_CONTENTS_ZEROED, 0);
        cr_expect(memory->address == 0 && memory->nbytes == 0 && memory->capacity == 0);
        cr_expect_null(gmv_memory_host_pointer(memory));
        must(w, gmv_stream_use(w->stream, memory, &w->err));
        must(w, gmv_stream_finish(w->stream, &w->err));
        gmv_memory_free(memory);
    }
    gmv_memory_free(NULL);
}

DEVICE_TEST(memory, has_zero_padding_whatever_lay_there_before)
{
    for (size_t kind = 0; kind < 2; kind++) {
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            gmv_memory *memory = make_memory(w, kinds[kind], GMV_CONTENTS_UNSPECIFIED, sizes[i]);
            must(w, gmv_fill(w->stream, memory->address, 0xee, memory->capacity, &w->err));
            must(w, gmv_stream_finish(w->stream, &w->err));
            gmv_memory_free(memory);
            memory = make_memory(w, kinds[kind], GMV_CONTENTS_UNSPECIFIED, sizes[i]);
            const uint8_t *bytes = world_read(w, memory);
            cr_expect(bytes_are(bytes + sizes[i], 0, memory->capacity - sizes[i]));
            gmv_memory_free(memory);
        }
    }
}

DEVICE_TEST(memory, recycled_never_shows_old_bytes)
{
    for (size_t kind = 0; kind < 2; kind++) {
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            gmv_memory *memory = make_memory(w, kinds[kind], GMV_CONTENTS_UNSPECIFIED, sizes[i]);
            must(w, gmv_fill(w->stream, memory->address, 0xee, memory->capacity, &w->err));
            must(w, gmv_stream_finish(w->stream, &w->err));
            gmv_memory_free(memory);
            memory = make_memory(w, kinds[kind], GMV_CONTENTS_ZEROED, sizes[i]);
            cr_expect(bytes_are(world_read(w, memory), 0, memory->capacity));
            gmv_memory_free(memory);
        }
    }
}

/* The last one that was freed first; one of another size never. */
DEVICE_TEST(memory, freed_blocks_of_a_device_are_taken_again)
{
    gmv_memory *memories[3];
    uint64_t addresses[3];
    const uint64_t nbytes[3] = {96 << 10, 96 << 10, (96 << 10) + 64};
    for (size_t i = 0; w->row->is_cuda && i < 3; i++) {
        memories[i] = make_memory(w, GMV_MEMORY_ORDINARY, GMV_CONTENTS_ZEROED, nbytes[i]);
        addresses[i] = memories[i]->address;
    }
    for (size_t i = 0; w->row->is_cuda && i < 3; i++)
        gmv_memory_free(memories[i]);
    for (size_t i = 0; w->row->is_cuda && i < 2; i++) {
        memories[i] = make_memory(w, GMV_MEMORY_ORDINARY, GMV_CONTENTS_UNSPECIFIED, nbytes[i] - 1);
        cr_expect_eq(memories[i]->address, addresses[1 - i]);
        cr_expect_eq(memories[i]->nbytes, nbytes[i] - 1);
    }
    for (size_t i = 0; w->row->is_cuda && i < 2; i++)
        gmv_memory_free(memories[i]);
}

/* Whether a page is mapped in this process. */
static bool is_mapped(uint64_t address)
{
    return msync((void *)(uintptr_t)address, 1, MS_ASYNC) == 0;
}

HOST_TEST(memory, big_blocks_are_recycled_until_trimmed)
{
    gmv_memory *memory = make_memory(w, GMV_MEMORY_ORDINARY, GMV_CONTENTS_ZEROED, 3 << 20);
    uint64_t address = memory->address;
    gmv_memory_free(memory);
    memory = make_memory(w, GMV_MEMORY_ORDINARY, GMV_CONTENTS_ZEROED, (3 << 20) - 100);
    cr_expect_eq(memory->address, address);
    gmv_memory_free(memory);
    cr_expect(is_mapped(address));
    gmv_device_trim(w->device);
    cr_expect_not(is_mapped(address));
}

/* The blocks are held together first, so that none is the other's. */
HOST_TEST_WITH(memory, cache_keeps_the_last_freed_within_its_bound, .cache_nbytes_max = 1 << 20)
{
    gmv_memory *memories[8];
    uint64_t addresses[8];
    for (size_t i = 0; i < 8; i++) {
        memories[i] = make_memory(w, GMV_MEMORY_ORDINARY, GMV_CONTENTS_ZEROED, 256 << 10);
        addresses[i] = memories[i]->address;
    }
    for (size_t i = 0; i < 8; i++)
        gmv_memory_free(memories[i]);
    for (size_t i = 0; i < 8; i++)
        cr_expect_eq(is_mapped(addresses[i]), i >= 4, "block %zu", i);
}

HOST_TEST_WITH(memory, blocks_beyond_the_cache_go_back_at_once, .cache_nbytes_max = 1 << 20)
{
    gmv_memory *memory = make_memory(w, GMV_MEMORY_ORDINARY, GMV_CONTENTS_ZEROED, 2 << 20);
    uint64_t address = memory->address;
    gmv_memory_free(memory);
    cr_expect_not(is_mapped(address));
}

HOST_TEST(memory, counts_what_is_free)
{
    uint64_t total = gmv_device_describe(w->device)->total_nbytes;
    for (size_t kind = 0; kind < 2; kind++) {
        gmv_memory *memory = make_memory(w, kinds[kind], GMV_CONTENTS_ZEROED, 10 << 20);
        cr_expect_leq(gmv_device_free_nbytes(w->device), total - (10 << 20));
        gmv_memory_free(memory);
        cr_expect_eq(gmv_device_free_nbytes(w->device), total);
    }
}

DEVICE_TEST(memory, impossible_sizes_are_out_of_memory)
{
    uint64_t total = gmv_device_describe(w->device)->total_nbytes;
    const uint64_t impossible[] = {UINT64_MAX, UINT64_MAX - 63, (uint64_t)INT64_MAX + 1,
                                   INT64_MAX,  total + 1,       (uint64_t)1 << 47};
    for (size_t kind = 0; kind < 2; kind++) {
        for (size_t i = 0; i < sizeof impossible / sizeof impossible[0]; i++) {
            gmv_memory *memory = NULL;
            must_fail(w, GMV_ERR_DEVICE_OUT_OF_MEMORY,
                      gmv_memory_allocate(w->device, w->stream, kinds[kind], GMV_CONTENTS_ZEROED,
                                          impossible[i], &memory, &w->err));
            cr_expect_null(memory);
        }
        gmv_memory_free(make_memory(w, kinds[kind], GMV_CONTENTS_ZEROED, 1000));
    }
}

/* The system has less than the device's total: asking for all of it must not wake the OOM killer.
 */
DEVICE_TEST(memory, more_than_the_system_has_left_is_out_of_memory)
{
    uint64_t total = gmv_device_describe(w->device)->total_nbytes;
    for (size_t kind = 0; kind < 2; kind++) {
        gmv_memory *memory = NULL;
        must_fail(w, GMV_ERR_DEVICE_OUT_OF_MEMORY,
                  gmv_memory_allocate(w->device, w->stream, kinds[kind], GMV_CONTENTS_ZEROED,
                                      total - (1 << 20), &memory, &w->err));
    }
}

DEVICE_TEST(memory, copies_in_within_and_out)
{
    enum { N = 100003 };
    uint8_t *from = gmv_malloc(N), *to = gmv_calloc(1, N);
    uint64_t state = 7;
    random_fill(&state, from, N);
    gmv_memory *first = make_memory(w, GMV_MEMORY_EXPORTABLE, GMV_CONTENTS_ZEROED, N);
    gmv_memory *second = make_memory(w, GMV_MEMORY_ORDINARY, GMV_CONTENTS_ZEROED, N + 16);
    must(w, gmv_stream_use(w->stream, first, &w->err));
    must(w, gmv_stream_use(w->stream, second, &w->err));
    must(w, gmv_copy_in(w->stream, first->address, from, N, &w->err));
    must(w, gmv_copy_within(w->stream, second->address + 3, first->address, N, &w->err));
    must(w, gmv_copy_out(w->stream, to, second->address + 3, N, &w->err));
    must(w, gmv_stream_finish(w->stream, &w->err));
    cr_expect_arr_eq(to, from, N);
    must(w, gmv_fill(w->stream, first->address + 10, 0x5a, 1000, &w->err));
    must(w, gmv_stream_finish(w->stream, &w->err));
    const uint8_t *bytes = world_read(w, first);
    cr_expect(bytes_are(bytes + 10, 0x5a, 1000));
    cr_expect(bytes[9] == from[9] && bytes[1010] == from[1010]);
    must(w, gmv_copy_in(w->stream, 0, NULL, 0, &w->err));
    must(w, gmv_copy_out(w->stream, NULL, 0, 0, &w->err));
    must(w, gmv_copy_within(w->stream, 0, 0, 0, &w->err));
    must(w, gmv_fill(w->stream, 0, 1, 0, &w->err));
    gmv_memory_free(first);
    gmv_memory_free(second);
    gmv_free(from);
    gmv_free(to);
}

/* The limit is set before the device is opened, in this test's own process. */
Test(memory, running_out_of_descriptors_is_out_of_memory)
{
    world w;
    gmv_memory *memories[64];
    size_t n = 0;
    struct rlimit limit = {.rlim_cur = 40, .rlim_max = 64};
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    world_open_with(&w, 0, (gmv_device_options){0});
    gmv_status status = GMV_OK;
    while (n < 64 && status == GMV_OK) {
        gmv_error_init(&w.err);
        status = gmv_memory_allocate(w.device, w.stream, GMV_MEMORY_EXPORTABLE, GMV_CONTENTS_ZEROED,
                                     100, &memories[n], &w.err);
        n += status == GMV_OK;
    }
    cr_expect_eq(status, GMV_ERR_DEVICE_OUT_OF_MEMORY);
    cr_expect(n > 30 && n <= 48, "%zu", n);
    FILE *file = fopen("/proc/self/status", "re");
    cr_expect_not_null(file, "the rest of the process has descriptors left");
    if (file)
        fclose(file);
    gmv_memory_free(memories[--n]);
    memories[n] = make_memory(&w, GMV_MEMORY_EXPORTABLE, GMV_CONTENTS_ZEROED, 100);
    n++;
    while (n > 0)
        gmv_memory_free(memories[--n]);
    world_close(&w);
}

/* ---- failing calls --------------------------------------------------------------------------- */

/* Everything that can be made to fail, in one go; undoes what it did, whatever happens. */
typedef struct story {
    gmv_stream *stream;
    gmv_memory *ordinary, *exportable, *imported;
    char *segment; /* of 4096 bytes */
    uint64_t a, b; /* 4096 bytes each */
    char byte;     /* results, which come when the stream is finished */
    int64_t number;
} story;

static gmv_status story_begin(world *w, story *s)
{
    gmv_share share;
    GMV_TRY(gmv_stream_create(w->device, &s->stream, &w->err));
    GMV_TRY(gmv_memory_allocate(w->device, s->stream, GMV_MEMORY_ORDINARY, GMV_CONTENTS_ZEROED,
                                70000, &s->ordinary, &w->err));
    GMV_TRY(gmv_memory_allocate(w->device, s->stream, GMV_MEMORY_EXPORTABLE, GMV_CONTENTS_ZEROED,
                                4096, &s->exportable, &w->err));
    GMV_TRY(gmv_memory_export(s->exportable, &share, &w->err));
    GMV_TRY(gmv_stream_use(s->stream, s->ordinary, &w->err));
    GMV_TRY(gmv_stream_use(s->stream, s->exportable, &w->err));
    if (!w->row->is_cuda) {
        GMV_TRY(gmv_memory_import_shm(w->device, s->segment, -1, true, &s->imported, &w->err));
        GMV_TRY(gmv_stream_use(s->stream, s->imported, &w->err));
    }
    s->a = s->ordinary->address;
    s->b = s->exportable->address;
    return GMV_OK;
}

static gmv_status story_copy(world *w, story *s)
{
    GMV_TRY(gmv_copy_in(s->stream, s->a, &s->byte, 1, &w->err));
    GMV_TRY(gmv_copy_out(s->stream, &s->byte, s->a, 1, &w->err));
    GMV_TRY(gmv_copy_within(s->stream, s->a, s->b, 64, &w->err));
    return gmv_fill(s->stream, s->a, 0xff, 64, &w->err);
}

static gmv_status story_compute(world *w, story *s)
{
    const gmv_layout layout = gmv_layout_flat(64);
    const gmv_bits bits = {s->a, 0};
    const gmv_bit_range range = {0, 64};
    GMV_TRY(gmv_kernel_valid_if(
        s->stream, &(gmv_valid_if){.input = s->a, .n = 64, .output = s->b, .output_nbytes = 64},
        &w->err));
    GMV_TRY(gmv_kernel_bits_to_bools(
        s->stream, &(gmv_bits_to_bools){.bits = bits, .n = 64, .output = s->b}, &w->err));
    GMV_TRY(gmv_kernel_copy_bits(
        s->stream, &(gmv_copy_bits){.bits = bits, .n = 64, .output = s->b, .output_nbytes = 64},
        &w->err));
    GMV_TRY(
        gmv_kernel_set_bits(s->stream, &(gmv_set_bits){.address = s->b, .range = range}, &w->err));
    GMV_TRY(gmv_kernel_combine_bits(
        s->stream,
        &(gmv_combine_bits){
            .inputs = &bits, .n_inputs = 1, .n = 64, .output = s->b, .output_nbytes = 64},
        &w->err));
    GMV_TRY(gmv_kernel_count_bits(
        s->stream,
        &(gmv_count_bits){
            .address = s->a, .ranges = &range, .n_ranges = 1, .out_counts = &s->number},
        &w->err));
    GMV_TRY(gmv_kernel_find_bit(
        s->stream, &(gmv_find_bit){.address = s->a, .range = range, .out_index = &s->number},
        &w->err));
    GMV_TRY(gmv_kernel_check_indices(
        s->stream,
        &(gmv_check_indices){.address = s->a, .itemsize = 1, .n = 64, .out_index = &s->number},
        &w->err));
    GMV_TRY(gmv_kernel_sequence(s->stream, &(gmv_sequence){.output = s->b, .n = 16, .step = 1},
                                &w->err));
    GMV_TRY(gmv_kernel_gather(
        s->stream,
        &(gmv_gather){
            .address = s->a, .layout = &layout, .itemsize = 1, .count = 64, .output = s->b},
        &w->err));
    return gmv_kernel_copy_pieces(
        s->stream,
        &(gmv_copy_piece){.source = s->a, .nbytes = 64, .destination = s->b, .capacity = 64}, 1,
        &w->err);
}

static gmv_status story_tell(world *w, story *s)
{
    gmv_status status = story_begin(w, s);
    if (status == GMV_OK)
        status = story_copy(w, s);
    if (status == GMV_OK)
        status = story_compute(w, s);
    if (status == GMV_OK)
        status = gmv_stream_finish(s->stream, &w->err);
    if (status != GMV_OK && s->stream)
        gmv_stream_abandon(s->stream);
    gmv_stream_destroy(s->stream);
    gmv_memory_free(s->imported);
    gmv_memory_free(s->exportable);
    gmv_memory_free(s->ordinary);
    return status;
}

static void make_segment(char name[64])
{
    snprintf(name, 64, "/gmvtest-memory-%d", (int)getpid());
    int descriptor = shm_open(name, O_CREAT | O_EXCL | O_RDWR, 0600);
    cr_assert(descriptor >= 0);
    cr_assert_eq(ftruncate(descriptor, 4096), 0);
    close(descriptor);
}

DEVICE_TEST(memory, every_call_can_fail_and_nothing_is_left)
{
    const uint64_t calls = w->row->is_cuda ? 22 : 24;
    char name[64];
    make_segment(name);
    for (uint64_t n = 1;; n++) {
        story s = {.segment = name};
        gmv_error_init(&w->err);
        gmv_device_fail_once(w->device, n, GMV_ERR_DEVICE_OUT_OF_MEMORY);
        gmv_status status = story_tell(w, &s);
        bool has_failed = gmv_device_has_failed(w->device);
        cr_assert_eq(status, has_failed ? GMV_ERR_DEVICE_OUT_OF_MEMORY : GMV_OK, "call %d", (int)n);
        cr_assert_eq(w->err.status, status);
        cr_assert_eq(gmv_device_import_mappings(w->device), 0);
        if (!w->row->is_cuda)
            cr_assert_eq(gmv_device_free_nbytes(w->device),
                         gmv_device_describe(w->device)->total_nbytes);
        if (!has_failed) {
            cr_expect_eq(n, calls + 1);
            break;
        }
    }
    gmv_device_fail_once(w->device, 0, GMV_OK);
    shm_unlink(name);
}

DEVICE_TEST(memory, every_allocation_can_fail_and_nothing_is_left)
{
    char name[64];
    make_segment(name);
    gmv_alloc_watch(1);
    for (uint64_t n = 1;; n++) {
        story s = {.segment = name};
        gmv_error_init(&w->err);
        gmv_alloc_fail_once(n);
        gmv_status status = story_tell(w, &s);
        bool has_failed = gmv_alloc_has_failed() != 0;
        gmv_alloc_fail_once(0);
        cr_assert_eq(status, has_failed ? GMV_ERR_OVERLOADED : GMV_OK, "allocation %d", (int)n);
        gmv_device_trim(w->device);
        cr_assert_eq(gmv_alloc_live(), 0);
        cr_assert_eq(gmv_device_import_mappings(w->device), 0);
        if (!has_failed) {
            cr_expect_geq(n, w->row->is_cuda ? 4 : 6);
            break;
        }
    }
    gmv_alloc_watch(0);
    shm_unlink(name);
}

Test(memory, opening_a_device_can_run_out_of_memory)
{
    gmv_alloc_watch(1);
    for (uint64_t n = 1;; n++) {
        gmv_device *device = NULL;
        gmv_error err;
        gmv_error_init(&err);
        gmv_alloc_fail_once(n);
        gmv_status status = gmv_device_open_host(NULL, &device, &err);
        bool has_failed = gmv_alloc_has_failed() != 0;
        gmv_alloc_fail_once(0);
        cr_assert_eq(status, has_failed ? GMV_ERR_OVERLOADED : GMV_OK);
        gmv_device_close(device);
        cr_assert_eq(gmv_alloc_live(), 0);
        if (!has_failed) {
            cr_expect_eq(n, 3);
            break;
        }
    }
    gmv_device_close(NULL);
}

DEVICE_TEST(memory, a_lost_device_fails_every_call_with_its_first_reason)
{
    const char *reason = NULL;
    gmv_memory *memory = make_memory(w, GMV_MEMORY_ORDINARY, GMV_CONTENTS_ZEROED, 100);
    gmv_memory *none = NULL;
    gmv_stream *stream = NULL;
    must(w, gmv_stream_use(w->stream, memory, &w->err));
    cr_expect_not(gmv_device_is_lost(w->device, &reason));
    gmv_device_mark_lost(w->device, "the first reason");
    gmv_device_mark_lost(w->device, "the second reason");
    cr_expect(gmv_device_is_lost(w->device, &reason));
    cr_expect_str_eq(reason, "the first reason");
    must_fail(w, GMV_ERR_DEVICE_LOST,
              gmv_memory_allocate(w->device, w->stream, GMV_MEMORY_ORDINARY, GMV_CONTENTS_ZEROED,
                                  64, &none, &w->err));
    cr_expect_not_null(strstr(w->err.message, "the first reason"));
    must_fail(w, GMV_ERR_DEVICE_LOST, gmv_stream_create(w->device, &stream, &w->err));
    must_fail(w, GMV_ERR_DEVICE_LOST, gmv_stream_use(w->stream, memory, &w->err));
    must_fail(w, GMV_ERR_DEVICE_LOST, gmv_fill(w->stream, memory->address, 0, 1, &w->err));
    must_fail(w, GMV_ERR_DEVICE_LOST, gmv_stream_finish(w->stream, &w->err));
    gmv_device_trim(w->device);
    gmv_memory_free(memory);
}

DEVICE_TEST(memory, a_call_can_be_made_to_lose_the_device)
{
    gmv_device_fail_once(w->device, 2, GMV_ERR_DEVICE_LOST);
    must(w, gmv_stream_finish(w->stream, &w->err));
    cr_expect_not(gmv_device_has_failed(w->device));
    must_fail(w, GMV_ERR_DEVICE_LOST, gmv_stream_finish(w->stream, &w->err));
    cr_expect(gmv_device_has_failed(w->device) && gmv_device_is_lost(w->device, NULL));
}
