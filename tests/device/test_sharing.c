/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sharing memory with other processes, both ways: what can be opened, what is refused, what is
 * shared, what a killed daemon leaves behind, and segments that their owner cuts short.
 */
#include "device/device_support.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include <gmv/base/clock.h>

/* A segment of this process, as a client would make it. */
typedef struct segment {
    char name[GMV_SHM_NAME_MAX];
    int descriptor;
    size_t nbytes;
    uint8_t *bytes;
} segment;

static segment segment_make(const char *suffix, size_t nbytes)
{
    segment s = {.nbytes = nbytes};
    snprintf(s.name, sizeof s.name, "/gmvtest-%d-%s", (int)getpid(), suffix);
    shm_unlink(s.name);
    s.descriptor = shm_open(s.name, O_CREAT | O_EXCL | O_RDWR, 0600);
    cr_assert(s.descriptor >= 0, "shm_open: %s", strerror(errno));
    cr_assert_eq(ftruncate(s.descriptor, (off_t)nbytes), 0);
    s.bytes =
        nbytes ? mmap(NULL, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED, s.descriptor, 0) : NULL;
    cr_assert_neq(s.bytes, MAP_FAILED);
    return s;
}

static void segment_free(segment *s)
{
    if (s->nbytes)
        munmap(s->bytes, s->nbytes);
    close(s->descriptor);
    shm_unlink(s->name);
}

static gmv_memory *import(world *w, const char *name, int64_t nbytes, bool writable)
{
    gmv_memory *memory = NULL;
    must(w, gmv_memory_import_shm(w->device, name, nbytes, writable, &memory, &w->err));
    return memory;
}

static void import_fails(world *w, gmv_status status, const char *pointer, const char *name,
                         int64_t nbytes)
{
    gmv_memory *memory = NULL;
    must_fail(w, status, gmv_memory_import_shm(w->device, name, nbytes, true, &memory, &w->err));
    cr_expect_null(memory);
    cr_expect(w->err.has_pointer == (pointer != NULL));
    if (pointer)
        cr_expect_str_eq(w->err.pointer, pointer, "%s", name);
}

static void wait_for_success(pid_t child)
{
    int status;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child ended with %#x", status);
}

/* ---- exporting ------------------------------------------------------------------------------- */

/* The other process: opens the name, wants `expected` everywhere, leaves `left` there. */
static int child_exchanges(const char *name, size_t nbytes, uint8_t expected, uint8_t left)
{
    struct stat status;
    int descriptor = shm_open(name, O_RDWR, 0);
    if (descriptor < 0 || fstat(descriptor, &status) != 0)
        return 1;
    if (status.st_size != (off_t)nbytes || (status.st_mode & 0777) != 0600)
        return 2;
    uint8_t *bytes = mmap(NULL, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (bytes == MAP_FAILED || !bytes_are(bytes, expected, nbytes))
        return 3;
    memset(bytes, left, nbytes);
    return 0;
}

HOST_TEST(sharing, another_process_opens_an_export_and_writes_to_it)
{
    enum { NBYTES = 100001 };
    gmv_share share, again;
    gmv_memory *memory = make_memory(w, GMV_MEMORY_EXPORTABLE, GMV_CONTENTS_UNSPECIFIED, NBYTES);
    must(w, gmv_fill(w->stream, memory->address, 0x11, NBYTES, &w->err));
    must(w, gmv_memory_export(memory, &share, &w->err));
    must(w, gmv_memory_export(memory, &again, &w->err));
    cr_expect_eq(share.mechanism, GMV_SHARE_POSIX_SHM);
    cr_expect_eq(strncmp(share.shm_name, "/gmvd-", 6), 0);
    cr_expect_str_eq(again.shm_name, share.shm_name);
    cr_expect(share.offset == 0 && share.nbytes == NBYTES);
    pid_t child = fork();
    if (child == 0)
        _exit(child_exchanges(share.shm_name, NBYTES, 0x11, 0x22));
    wait_for_success(child);
    cr_expect(bytes_are(gmv_memory_host_pointer(memory), 0x22, NBYTES));
    gmv_memory_free(memory);
    cr_expect(shm_open(share.shm_name, O_RDONLY, 0) < 0 && errno == ENOENT,
              "freeing takes the name away");
}

HOST_TEST(sharing, what_is_not_exported_has_no_name)
{
    gmv_memory *memory = make_memory(w, GMV_MEMORY_EXPORTABLE, GMV_CONTENTS_ZEROED, 4096);
    char path[64], target[256] = "";
    bool found = false;
    for (int descriptor = 3; descriptor < 256 && !found; descriptor++) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
        ssize_t length = readlink(path, target, sizeof target - 1);
        target[length > 0 ? length : 0] = '\0';
        found = strncmp(target, "/dev/shm/", 9) == 0;
    }
    cr_expect(found && strstr(target, "(deleted)"), "%s", target);
    gmv_memory_free(memory);
}

HOST_TEST(sharing, ordinary_imported_and_empty_memory_is_not_exportable)
{
    gmv_share share;
    segment s = segment_make("not", 4096);
    gmv_memory *memories[] = {
        make_memory(w, GMV_MEMORY_ORDINARY, GMV_CONTENTS_ZEROED, 4096),
        make_memory(w, GMV_MEMORY_EXPORTABLE, GMV_CONTENTS_ZEROED, 0),
        import(w, s.name, -1, true),
    };
    for (size_t i = 0; i < 3; i++) {
        must_fail(w, GMV_ERR_NOT_EXPORTABLE, gmv_memory_export(memories[i], &share, &w->err));
        gmv_memory_free(memories[i]);
    }
    segment_free(&s);
}

HOST_TEST(sharing, an_own_export_is_recognized_by_whatever_name)
{
    gmv_share share;
    gmv_memory *memory = make_memory(w, GMV_MEMORY_EXPORTABLE, GMV_CONTENTS_ZEROED, 4096);
    memory->owner = (gmv_id){.high = 1, .low = 2, .kind = GMV_KIND_BUFFER};
    must(w, gmv_memory_export(memory, &share, &w->err));
    import_fails(w, GMV_ERR_HANDLE_EXPORTED_HERE, "/posix_shm/name", share.shm_name, -1);
    cr_expect(w->err.has_subject && w->err.subject_alive);
    cr_expect(gmv_id_equal(&w->err.subject, &memory->owner));

    char from[GMV_SHM_NAME_MAX + 16], to[64];
    snprintf(from, sizeof from, "/dev/shm%s", share.shm_name);
    snprintf(to, sizeof to, "/dev/shm/gmvtest-%d-alias", (int)getpid());
    cr_assert_eq(link(from, to), 0);
    import_fails(w, GMV_ERR_HANDLE_EXPORTED_HERE, "/posix_shm/name", to + 8, -1);
    gmv_memory_free(memory);
    unlink(to);
}

/* Every thread gets the same name, and there is only one in the directory. */
static void *export_in_thread(void *argument)
{
    gmv_share *share = gmv_calloc(1, sizeof *share);
    gmv_error err;
    gmv_error_init(&err);
    if (share && gmv_memory_export(argument, share, &err) != GMV_OK)
        share->shm_name[0] = '\0';
    return share;
}

HOST_TEST(sharing, threads_that_export_at_once_get_one_name)
{
    for (int round = 0; round < 50; round++) {
        pthread_t threads[4];
        gmv_share *shares[4];
        struct stat status;
        char path[GMV_SHM_NAME_MAX + 16];
        gmv_memory *memory = make_memory(w, GMV_MEMORY_EXPORTABLE, GMV_CONTENTS_ZEROED, 4096);
        for (size_t i = 0; i < 4; i++)
            cr_assert_eq(pthread_create(&threads[i], NULL, export_in_thread, memory), 0);
        for (size_t i = 0; i < 4; i++)
            pthread_join(threads[i], (void **)&shares[i]);
        for (size_t i = 0; i < 4; i++)
            cr_assert_str_eq(shares[i]->shm_name, shares[0]->shm_name);
        snprintf(path, sizeof path, "/dev/shm%s", shares[0]->shm_name);
        cr_assert_eq(stat(path, &status), 0);
        cr_assert_eq(status.st_nlink, 1);
        for (size_t i = 0; i < 4; i++)
            gmv_free(shares[i]);
        gmv_memory_free(memory);
    }
}

#define O_TMPFILE_BIT 020000000

/* From now on this process finds no file system with nameless files. False if it cannot be done. */
static bool forbid_nameless_files(void)
{
    struct sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, O_TMPFILE_BIT, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EOPNOTSUPP),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {sizeof program / sizeof program[0], program};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0 &&
           open("/dev/shm", O_TMPFILE_BIT | O_DIRECTORY | O_RDWR, 0600) < 0 && errno == EOPNOTSUPP;
}

HOST_TEST(sharing, exports_work_where_there_are_no_nameless_files)
{
    gmv_share share, again;
    if (!forbid_nameless_files())
        cr_skip_test("no system call filter here");
    gmv_memory *other = make_memory(w, GMV_MEMORY_EXPORTABLE, GMV_CONTENTS_ZEROED, 4096);
    gmv_memory *memory = make_memory(w, GMV_MEMORY_EXPORTABLE, GMV_CONTENTS_ZEROED, 5000);
    must(w, gmv_memory_export(memory, &share, &w->err));
    must(w, gmv_memory_export(memory, &again, &w->err));
    cr_expect_str_eq(again.shm_name, share.shm_name);
    import_fails(w, GMV_ERR_HANDLE_EXPORTED_HERE, "/posix_shm/name", share.shm_name, -1);
    pid_t child = fork();
    if (child == 0)
        _exit(child_exchanges(share.shm_name, 5000, 0, 0x22));
    wait_for_success(child);
    cr_expect(bytes_are(gmv_memory_host_pointer(memory), 0x22, 5000));
    gmv_memory_free(memory);
    gmv_memory_free(other);
    cr_expect(shm_open(share.shm_name, O_RDONLY, 0) < 0 && errno == ENOENT);
}

/* ---- importing ------------------------------------------------------------------------------- */

HOST_TEST(sharing, another_process_makes_a_segment_that_is_imported)
{
    enum { NBYTES = 70000 };
    segment s = segment_make("theirs", NBYTES);
    pid_t child = fork();
    if (child == 0)
        _exit(child_exchanges(s.name, NBYTES, 0, 0x33));
    wait_for_success(child);
    gmv_memory *memory = import(w, s.name, -1, true);
    cr_expect_eq(memory->kind, GMV_MEMORY_IMPORTED);
    cr_expect(memory->nbytes == NBYTES && memory->capacity == NBYTES && !memory->readonly);
    cr_expect(bytes_are(gmv_memory_host_pointer(memory), 0x33, NBYTES));
    must(w, gmv_stream_use(w->stream, memory, &w->err));
    must(w, gmv_fill(w->stream, memory->address, 0x44, NBYTES, &w->err));
    must(w, gmv_stream_finish(w->stream, &w->err));
    child = fork();
    if (child == 0)
        _exit(child_exchanges(s.name, NBYTES, 0x44, 0x55));
    wait_for_success(child);
    shm_unlink(s.name);
    cr_expect(bytes_are(gmv_memory_host_pointer(memory), 0x55, NBYTES), "outlives its name");
    gmv_memory_free(memory);
    segment_free(&s);
}

HOST_TEST(sharing, imports_of_one_segment_share_and_count_one_mapping)
{
    segment s = segment_make("shared", 10000);
    gmv_memory *first = import(w, s.name, -1, true);
    gmv_memory *second = import(w, s.name, 5000, false);
    gmv_memory *third = import(w, s.name, 0, true);
    cr_expect_eq(second->address, first->address);
    cr_expect(second->nbytes == 5000 && second->readonly);
    cr_expect(third->nbytes == 0 && third->address == 0);
    cr_expect_eq(gmv_device_import_mappings(w->device), 1);
    gmv_memory_free(first);
    cr_expect_eq(gmv_device_import_mappings(w->device), 1);
    s.bytes[4999] = 7;
    cr_expect_eq(((const uint8_t *)gmv_memory_host_pointer(second))[4999], 7);
    gmv_memory_free(second);
    cr_expect_eq(gmv_device_import_mappings(w->device), 0);
    gmv_memory_free(third);
    segment_free(&s);
}

HOST_TEST(sharing, a_reused_name_is_another_segment)
{
    segment s = segment_make("reused", 4096);
    s.bytes[0] = 1;
    gmv_memory *first = import(w, s.name, -1, true);
    segment_free(&s);
    s = segment_make("reused", 4096);
    s.bytes[0] = 2;
    gmv_memory *second = import(w, s.name, -1, true);
    cr_expect_neq(second->address, first->address);
    cr_expect_eq(*(const uint8_t *)gmv_memory_host_pointer(first), 1);
    cr_expect_eq(*(const uint8_t *)gmv_memory_host_pointer(second), 2);
    gmv_memory_free(first);
    gmv_memory_free(second);
    segment_free(&s);
}

HOST_TEST(sharing, a_grown_segment_is_mapped_anew)
{
    segment s = segment_make("grown", 4096);
    gmv_memory *first = import(w, s.name, -1, true);
    cr_assert_eq(ftruncate(s.descriptor, 20000), 0);
    gmv_memory *second = import(w, s.name, -1, true);
    cr_expect(first->nbytes == 4096 && second->nbytes == 20000);
    cr_expect_eq(gmv_device_import_mappings(w->device), 2);
    must(w, gmv_stream_use(w->stream, second, &w->err));
    must(w, gmv_fill(w->stream, second->address, 9, 20000, &w->err));
    must(w, gmv_stream_finish(w->stream, &w->err));
    cr_expect_eq(s.bytes[4095], 9);
    gmv_memory *third = import(w, s.name, 20000, true);
    cr_expect_eq(third->address, second->address);
    gmv_memory_free(first);
    gmv_memory_free(second);
    gmv_memory_free(third);
    segment_free(&s);
}

HOST_TEST(sharing, a_claim_beyond_the_segment_is_out_of_bounds)
{
    segment s = segment_make("claim", 4096);
    segment empty = segment_make("empty", 0);
    import_fails(w, GMV_ERR_OUT_OF_BOUNDS, "/posix_shm/nbytes", s.name, 4097);
    import_fails(w, GMV_ERR_OUT_OF_BOUNDS, "/posix_shm/nbytes", s.name, INT64_MAX);
    import_fails(w, GMV_ERR_OUT_OF_BOUNDS, "/posix_shm/nbytes", empty.name, 1);
    gmv_memory *memory = import(w, empty.name, -1, true);
    cr_expect(memory->nbytes == 0 && memory->address == 0);
    gmv_memory_free(memory);
    segment_free(&s);
    segment_free(&empty);
}

/* Rights do not bind root, so the test becomes somebody else where it can. */
HOST_TEST(sharing, a_segment_without_write_access_is_readonly)
{
    segment s = segment_make("readonly", 4096);
    s.bytes[100] = 5;
    cr_assert_eq(fchmod(s.descriptor, 0444), 0);
    if (geteuid() == 0)
        cr_assert_eq(seteuid(65534), 0);
    gmv_memory *memory = import(w, s.name, -1, true);
    cr_expect(memory->readonly);
    cr_expect_eq(((const uint8_t *)gmv_memory_host_pointer(memory))[100], 5);
    gmv_memory_free(memory);
    if (getuid() == 0) {
        cr_assert_eq(seteuid(0), 0);
        cr_assert_eq(fchmod(s.descriptor, 0600), 0);
        cr_assert_eq(seteuid(65534), 0);
        import_fails(w, GMV_ERR_HANDLE_INVALID, "/posix_shm/name", s.name, -1);
        cr_assert_eq(seteuid(0), 0);
    }
    segment_free(&s);
}

HOST_TEST(sharing, a_mapping_without_write_access_is_not_used_by_who_has_it)
{
    if (getuid() != 0)
        cr_skip_test("needs two users");
    segment s = segment_make("rights", 4096);
    cr_assert_eq(fchmod(s.descriptor, 0644), 0);
    cr_assert_eq(seteuid(65534), 0);
    gmv_memory *first = import(w, s.name, -1, true);
    cr_assert_eq(seteuid(0), 0);
    gmv_memory *second = import(w, s.name, -1, true);
    cr_expect(first->readonly && !second->readonly);
    must(w, gmv_stream_use(w->stream, second, &w->err));
    must(w, gmv_fill(w->stream, second->address, 6, 4096, &w->err));
    must(w, gmv_stream_finish(w->stream, &w->err));
    cr_expect(bytes_are(gmv_memory_host_pointer(first), 6, 4096));
    gmv_memory_free(first);
    gmv_memory_free(second);
    segment_free(&s);
}

HOST_TEST(sharing, malformed_names_are_refused)
{
    static char long_name[GMV_SHM_NAME_MAX + 2] = "/";
    memset(long_name + 1, 'a', GMV_SHM_NAME_MAX);
    const char *const names[] = {"",     "/",     "name",     "//name",
                                 "/a/b", "/../x", "/name/..", "name/",
                                 "/.",   "/..",   long_name,  "/gmvtest-there-is-no-such-segment"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        import_fails(w, GMV_ERR_HANDLE_INVALID, "/posix_shm/name", names[i], -1);
}

/* None of these may block the daemon, or be followed. */
HOST_TEST(sharing, links_fifos_folders_and_sockets_are_refused)
{
    char paths[4][64];
    segment s = segment_make("target", 4096);
    char target[GMV_SHM_NAME_MAX + 16];
    for (size_t i = 0; i < 4; i++)
        snprintf(paths[i], sizeof paths[i], "/dev/shm/gmvtest-%d-odd%zu", (int)getpid(), i);
    snprintf(target, sizeof target, "/dev/shm%s", s.name);
    cr_assert_eq(symlink(target, paths[0]), 0);
    cr_assert_eq(mkfifo(paths[1], 0600), 0);
    cr_assert_eq(mkdir(paths[2], 0700), 0);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, paths[3], sizeof paths[3]);
    int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    cr_assert_eq(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
    for (size_t i = 0; i < 4; i++)
        import_fails(w, GMV_ERR_HANDLE_INVALID, "/posix_shm/name", paths[i] + 8, -1);
    close(listener);
    rmdir(paths[2]);
    for (size_t i = 0; i < 4; i++)
        unlink(paths[i]);
    segment_free(&s);
}

/* Distinct segments of 1 byte, until the process's limit of mappings nears; nothing else may break.
 */
Test(sharing, running_out_of_mappings_is_out_of_memory)
{
    enum { MOST = 70000 };
    world w;
    char directory[] = "/dev/shm/gmvtest-mappings-XXXXXX", path[128];
    gmv_memory **memories = gmv_calloc(MOST, sizeof *memories);
    unsigned limit = 0;
    FILE *file = fopen("/proc/sys/vm/max_map_count", "re");
    if (!file || fscanf(file, "%u", &limit) != 1 || limit > MOST)
        cr_skip_test("this system allows a process too many mappings");
    fclose(file);
    cr_assert_not_null(mkdtemp(directory));
    world_open_with(&w, 0, (gmv_device_options){.shm_directory = directory});
    gmv_status status = GMV_OK;
    size_t n = 0;
    while (n < MOST && status == GMV_OK) {
        snprintf(path, sizeof path, "%s/%zu", directory, n);
        int descriptor = open(path, O_CREAT | O_EXCL | O_RDWR, 0600);
        cr_assert(descriptor >= 0 && ftruncate(descriptor, 1) == 0);
        close(descriptor);
        gmv_error_init(&w.err);
        status = gmv_memory_import_shm(w.device, path + strlen(directory), -1, true, &memories[n],
                                       &w.err);
        unlink(path);
        n += status == GMV_OK;
    }
    cr_expect_eq(status, GMV_ERR_DEVICE_OUT_OF_MEMORY, "%s", gmv_status_code(status));
    cr_expect(n > limit / 2 && n <= limit / 4 * 3, "%zu", n);
    cr_expect_eq(gmv_device_import_mappings(w.device), n);
    gmv_memory *memory = make_memory(&w, GMV_MEMORY_ORDINARY, GMV_CONTENTS_ZEROED, 1 << 20);
    gmv_memory_free(memory);
    while (n > 0)
        gmv_memory_free(memories[--n]);
    gmv_free(memories);
    rmdir(directory);
    world_close(&w);
}

/* ---- what killed daemons leave --------------------------------------------------------------- */

static bool exists(const char *directory, const char *name)
{
    struct stat status;
    char path[512];
    snprintf(path, sizeof path, "%s%s", directory, name);
    return lstat(path, &status) == 0;
}

/* The daemon that is killed: exports, tells the name, and is gone without a farewell. */
static void die_after_exporting(const char *directory, int out)
{
    gmv_device_options options = {.shm_directory = directory};
    gmv_device *device;
    gmv_stream *stream;
    gmv_memory *memory;
    gmv_share share;
    gmv_error err;
    gmv_error_init(&err);
    if (gmv_device_open_host(&options, &device, &err) != GMV_OK ||
        gmv_stream_create(device, &stream, &err) != GMV_OK ||
        gmv_memory_allocate(device, stream, GMV_MEMORY_EXPORTABLE, GMV_CONTENTS_ZEROED, 4096,
                            &memory, &err) != GMV_OK ||
        gmv_memory_export(memory, &share, &err) != GMV_OK ||
        write(out, share.shm_name, sizeof share.shm_name) != (ssize_t)sizeof share.shm_name)
        _exit(1);
    raise(SIGKILL);
}

Test(sharing, stale_names_are_swept_and_live_ones_are_not)
{
    world w;
    char directory[] = "/dev/shm/gmvtest-sweep-XXXXXX", path[512];
    gmv_share live;
    char stale[GMV_SHM_NAME_MAX];
    int ends[2];
    cr_assert_not_null(mkdtemp(directory));
    world_open_with(&w, 0, (gmv_device_options){.shm_directory = directory});
    gmv_memory *memory = make_memory(&w, GMV_MEMORY_EXPORTABLE, GMV_CONTENTS_ZEROED, 4096);
    must(&w, gmv_memory_export(memory, &live, &w.err));
    cr_assert_eq(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0)
        die_after_exporting(directory, ends[1]);
    cr_assert_eq(read(ends[0], stale, sizeof stale), (ssize_t)sizeof stale);
    waitpid(child, NULL, 0);
    cr_expect(exists(directory, stale) && exists(directory, live.shm_name));

    snprintf(path, sizeof path, "%s/gmvd-link", directory);
    cr_assert_eq(symlink("nowhere", path), 0);
    snprintf(path, sizeof path, "%s/gmvd-fifo", directory);
    cr_assert_eq(mkfifo(path, 0600), 0);
    snprintf(path, sizeof path, "%s/other", directory);
    close(open(path, O_CREAT | O_RDWR, 0600));

    gmv_device_options options = {.shm_directory = directory};
    gmv_device *second;
    must(&w, gmv_device_open_host(&options, &second, &w.err));
    gmv_device_close(second);
    cr_expect_not(exists(directory, stale), "the killed daemon's");
    cr_expect(exists(directory, live.shm_name), "this one's");
    cr_expect(exists(directory, "/other"), "somebody else's");
    cr_expect(exists(directory, "/gmvd-link") && exists(directory, "/gmvd-fifo"), "no files");

    gmv_memory_free(memory);
    cr_expect_not(exists(directory, live.shm_name));
    static const char *const left[] = {"/gmvd-link", "/gmvd-fifo", "/other"};
    for (size_t i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s%s", directory, left[i]);
        unlink(path);
    }
    cr_expect_eq(rmdir(directory), 0, "nothing else was left");
    world_close(&w);
}

/* ---- segments that are cut short ------------------------------------------------------------- */

HOST_TEST(lost, a_segment_cut_before_the_work_fails_it_and_the_process_lives)
{
    segment s = segment_make("cut", 1 << 20);
    gmv_memory *memory = import(w, s.name, -1, true);
    gmv_memory *result = make_memory(w, GMV_MEMORY_ORDINARY, GMV_CONTENTS_ZEROED, 1 << 20);
    int64_t count;
    cr_assert_eq(ftruncate(s.descriptor, 5000), 0);
    cr_expect_not(gmv_memory_is_lost(memory), "nobody has noticed yet");
    must(w, gmv_stream_use(w->stream, result, &w->err));
    must(w, gmv_stream_use(w->stream, memory, &w->err));
    must(w, gmv_copy_within(w->stream, result->address, memory->address, 1 << 20, &w->err));
    must(w, gmv_kernel_count_bits(w->stream,
                                  &(gmv_count_bits){.address = memory->address,
                                                    .ranges = &(gmv_bit_range){0, 8 << 20},
                                                    .n_ranges = 1,
                                                    .out_counts = &count},
                                  &w->err));
    must(w, gmv_fill(w->stream, memory->address, 1, 1 << 20, &w->err));
    must_fail(w, GMV_ERR_MEMORY_LOST, gmv_stream_finish(w->stream, &w->err));
    cr_expect(gmv_memory_is_lost(memory) && !gmv_memory_is_lost(result));
    must_fail(w, GMV_ERR_MEMORY_LOST, gmv_stream_use(w->stream, memory, &w->err));
    must(w, gmv_stream_finish(w->stream, &w->err));
    gmv_memory_free(memory);
    gmv_memory_free(result);
    segment_free(&s);
}

HOST_TEST(lost, all_imports_of_a_lost_mapping_are_lost_and_a_new_one_is_not)
{
    segment s = segment_make("all", 1 << 20);
    gmv_memory *first = import(w, s.name, -1, true);
    gmv_memory *second = import(w, s.name, 4096, true);
    cr_assert_eq(ftruncate(s.descriptor, 8192), 0);
    must(w, gmv_stream_use(w->stream, first, &w->err));
    must(w, gmv_fill(w->stream, first->address + 9000, 1, 1, &w->err));
    must_fail(w, GMV_ERR_MEMORY_LOST, gmv_stream_finish(w->stream, &w->err));
    cr_expect(gmv_memory_is_lost(first) && gmv_memory_is_lost(second));
    gmv_memory *third = import(w, s.name, -1, true);
    cr_expect(!gmv_memory_is_lost(third) && third->nbytes == 8192);
    must(w, gmv_stream_use(w->stream, third, &w->err));
    must(w, gmv_fill(w->stream, third->address, 3, 8192, &w->err));
    must(w, gmv_stream_finish(w->stream, &w->err));
    gmv_memory_free(first);
    gmv_memory_free(second);
    gmv_memory_free(third);
    segment_free(&s);
}

/* Whoever may open an export may also cut it. */
HOST_TEST(lost, an_own_export_that_a_client_cuts_is_lost)
{
    gmv_share share;
    gmv_memory *memory = make_memory(w, GMV_MEMORY_EXPORTABLE, GMV_CONTENTS_ZEROED, 1 << 20);
    must(w, gmv_memory_export(memory, &share, &w->err));
    int descriptor = shm_open(share.shm_name, O_RDWR, 0);
    cr_assert_eq(ftruncate(descriptor, 0), 0);
    close(descriptor);
    must(w, gmv_stream_use(w->stream, memory, &w->err));
    must(w, gmv_fill(w->stream, memory->address, 1, 1 << 20, &w->err));
    must_fail(w, GMV_ERR_MEMORY_LOST, gmv_stream_finish(w->stream, &w->err));
    gmv_memory_free(memory);
}

HOST_TEST(lost, many_mappings_may_be_in_use_at_once)
{
    enum { N = 100 };
    segment segments[N];
    gmv_memory *memories[N];
    for (size_t i = 0; i < N; i++) {
        char suffix[16];
        snprintf(suffix, sizeof suffix, "many%zu", i);
        segments[i] = segment_make(suffix, 8192);
        memories[i] = import(w, segments[i].name, -1, true);
        must(w, gmv_stream_use(w->stream, memories[i], &w->err));
    }
    cr_assert_eq(ftruncate(segments[77].descriptor, 0), 0);
    for (size_t i = 0; i < N; i++)
        must(w, gmv_fill(w->stream, memories[i]->address, 1, 8192, &w->err));
    must_fail(w, GMV_ERR_MEMORY_LOST, gmv_stream_finish(w->stream, &w->err));
    for (size_t i = 0; i < N; i++) {
        cr_expect_eq(gmv_memory_is_lost(memories[i]), i == 77);
        gmv_memory_free(memories[i]);
        segment_free(&segments[i]);
    }
}

typedef struct cutter {
    int descriptor;
    int64_t after_ns;
} cutter;

static void *cut_in_thread(void *argument)
{
    const cutter *c = argument;
    struct timespec pause = {0, c->after_ns};
    nanosleep(&pause, NULL);
    return ftruncate(c->descriptor, 100) == 0 ? NULL : argument;
}

HOST_TEST(lost, a_segment_cut_during_the_work_fails_it_and_the_process_lives)
{
    enum { NBYTES = 4 << 20 };
    gmv_memory *result = make_memory(w, GMV_MEMORY_ORDINARY, GMV_CONTENTS_ZEROED, NBYTES);
    for (int round = 0; round < 20; round++) {
        segment s = segment_make("during", NBYTES);
        gmv_memory *memory = import(w, s.name, -1, true);
        cutter c = {s.descriptor, 100000 * (round % 7)};
        pthread_t thread;
        gmv_status status = GMV_OK;
        int64_t deadline = gmv_clock_monotonic_ns() + INT64_C(120000000000), null_count;
        cr_assert_eq(pthread_create(&thread, NULL, cut_in_thread, &c), 0);
        while (status == GMV_OK && gmv_clock_monotonic_ns() < deadline) {
            must(w, gmv_stream_use(w->stream, memory, &w->err));
            must(w, gmv_kernel_valid_if(w->stream,
                                        &(gmv_valid_if){.input = memory->address,
                                                        .n = NBYTES,
                                                        .output = result->address,
                                                        .output_nbytes = NBYTES / 8,
                                                        .out_null_count = &null_count},
                                        &w->err));
            must(w, gmv_copy_within(w->stream, result->address, memory->address, NBYTES, &w->err));
            gmv_error_init(&w->err);
            status = gmv_stream_finish(w->stream, &w->err);
        }
        cr_assert_eq(status, GMV_ERR_MEMORY_LOST);
        void *failed = NULL;
        pthread_join(thread, &failed);
        cr_expect_null(failed);
        gmv_memory_free(memory);
        segment_free(&s);
    }
    gmv_memory_free(result);
}

/* Touches a page that is gone without having announced it; gives the child's wait status. */
static int status_of_unannounced_access(void (*prepare)(void))
{
    pid_t child = fork();
    int status = 0;
    if (child == 0) {
        world w;
        if (prepare)
            prepare();
        world_open_with(&w, 0, (gmv_device_options){0});
        segment s = segment_make("dies", 8192);
        gmv_memory *memory = import(&w, s.name, -1, true);
        /* Announced and finished: no longer protected. */
        must(&w, gmv_stream_use(w.stream, memory, &w.err));
        must(&w, gmv_stream_finish(w.stream, &w.err));
        shm_unlink(s.name);
        if (ftruncate(s.descriptor, 0) != 0)
            _exit(3);
        must(&w, gmv_fill(w.stream, memory->address, 1, 1, &w.err));
        _exit(4);
    }
    waitpid(child, &status, 0);
    return status;
}

static void set_default_action(void)
{
    signal(SIGBUS, SIG_DFL);
}

static void exit_42(int number)
{
    _exit(42);
}

static void set_own_handler(void)
{
    signal(SIGBUS, exit_42);
}

Test(lost, an_access_that_was_not_announced_kills_as_ever)
{
    int status = status_of_unannounced_access(set_default_action);
    cr_expect(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS, "%#x", status);
}

Test(lost, the_handler_that_was_there_before_gets_the_rest)
{
    int status = status_of_unannounced_access(set_own_handler);
    cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 42, "%#x", status);
}

Test(lost, a_signal_that_was_sent_kills_as_ever)
{
    pid_t child = fork();
    int status = 0;
    if (child == 0) {
        world w;
        set_default_action();
        world_open_with(&w, 0, (gmv_device_options){0});
        raise(SIGBUS);
        _exit(4);
    }
    waitpid(child, &status, 0);
    cr_expect(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS, "%#x", status);
}
