/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Other processes' segments of POSIX shared memory. Names are not trusted: no links, no FIFOs or
 * devices, and the size is the file's own.
 *
 * One mapping of a file is shared by all imports that it can serve; a second one is made only when
 * the file has grown, when write access is asked for and was not there, or when the first one has
 * been lost. The table's lock is not held while the system is called: the first import of a file
 * enters an entry that is still opening, others wait for it.
 */
#include "device/host/host.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gmv/base/alloc.h>

#define NAME_POINTER   "/posix_shm/name"
#define NBYTES_POINTER "/posix_shm/nbytes"

/* ---- opening ---- */

/* What is open, before it is mapped. */
typedef struct host_segment {
    int descriptor;
    bool writable;
    dev_t file_device;
    ino_t file_inode;
    uint64_t nbytes;
} host_segment;

static gmv_status import_check_name(const char *name, gmv_error *err)
{
    size_t length = strnlen(name, GMV_SHM_NAME_MAX);
    if (length >= GMV_SHM_NAME_MAX)
        return gmv_fail(err, GMV_ERR_HANDLE_INVALID, NAME_POINTER,
                        "the name is longer than %d bytes", GMV_SHM_NAME_MAX - 1);
    if (name[0] != '/' || length < 2 || strchr(name + 1, '/'))
        return gmv_fail(err, GMV_ERR_HANDLE_INVALID, NAME_POINTER,
                        "a name is one '/' and then at least one character that is none");
    return GMV_OK;
}

static gmv_status import_fail_open(int error, gmv_error *err)
{
    switch (error) {
    case ENOENT:
        return gmv_fail(err, GMV_ERR_HANDLE_INVALID, NAME_POINTER,
                        "there is no shared memory segment of that name; is its owner still "
                        "running, and in the same container?");
    case EACCES:
    case EPERM:
        return gmv_fail(err, GMV_ERR_HANDLE_INVALID, NAME_POINTER,
                        "the daemon may not open the segment; give its user access");
    case EMFILE:
    case ENFILE:
    case ENOMEM:
        return gmv_fail(err, GMV_ERR_OVERLOADED, NULL,
                        "the daemon has no free file descriptor; try again later");
    default: /* ELOOP, EISDIR, ENXIO, ... */
        return gmv_fail(err, GMV_ERR_HANDLE_INVALID, NAME_POINTER,
                        "the name is not that of a shared memory segment but of something else");
    }
}

/* Write access is taken wherever it is to be had, so that one mapping can serve all imports. */
static gmv_status segment_open(const host_device *device, const char *name, host_segment *out,
                               gmv_error *err)
{
    const int flags = O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
    char path[4096];
    struct stat status;
    snprintf(path, sizeof path, "%s%s", device->shm_directory, name);
    out->writable = true;
    out->descriptor = open(path, O_RDWR | flags);
    if (out->descriptor < 0 && (errno == EACCES || errno == EPERM || errno == EROFS)) {
        out->writable = false;
        out->descriptor = open(path, O_RDONLY | flags);
    }
    if (out->descriptor < 0)
        return import_fail_open(errno, err);
    if (fstat(out->descriptor, &status) != 0 || !S_ISREG(status.st_mode)) {
        close(out->descriptor);
        return import_fail_open(ENXIO, err);
    }
    out->file_device = status.st_dev;
    out->file_inode = status.st_ino;
    out->nbytes = (uint64_t)status.st_size;
    return GMV_OK;
}

/* How much of the segment the import covers. */
static gmv_status segment_cover(const host_segment *segment, int64_t nbytes, uint64_t *out_nbytes,
                                gmv_error *err)
{
    if (nbytes >= 0 && (uint64_t)nbytes > segment->nbytes)
        return gmv_fail(err, GMV_ERR_OUT_OF_BOUNDS, NBYTES_POINTER,
                        "nbytes is %lld, but the segment has %llu bytes", (long long)nbytes,
                        (unsigned long long)segment->nbytes);
    *out_nbytes = nbytes < 0 ? segment->nbytes : (uint64_t)nbytes;
    return GMV_OK;
}

static gmv_status segment_check_foreign(host_device *device, const host_segment *segment,
                                        gmv_error *err)
{
    gmv_id owner;
    if (!gmv__host_exports_find(device, segment->file_device, segment->file_inode, &owner))
        return GMV_OK;
    gmv_status status = gmv_fail(err, GMV_ERR_HANDLE_EXPORTED_HERE, NAME_POINTER,
                                 "this daemon has exported that segment itself; use the buffer's "
                                 "own handle");
    if (err && owner.kind != GMV_KIND_ANY) {
        err->has_subject = true;
        err->subject = owner;
        err->subject_alive = true;
    }
    return status;
}

/* ---- the table of mappings ---- */

/* Whether an import of `nbytes` bytes of `segment` can use `import`. Under the lock. */
static bool import_serves(const host_import *import, const host_segment *segment, uint64_t nbytes)
{
    return import->file_device == segment->file_device &&
           import->file_inode == segment->file_inode && import->mapping.nbytes >= nbytes &&
           (import->writable || !segment->writable) && import->state != HOST_IMPORT_FAILED &&
           !atomic_load(&import->mapping.lost);
}

/* Under the lock. */
static void imports_unlink(host_imports *imports, host_import *import)
{
    host_import **link = &imports->buckets[host_file_bucket(import->file_inode)];
    while (*link && *link != import)
        link = &(*link)->next;
    if (*link)
        *link = import->next;
}

/*
 * Finds the mapping for a segment and counts it, having waited until it is open; or enters
 * *fresh as opening and takes it from the caller. NULL: the mapping that was waited for failed.
 */
static host_import *imports_join(host_imports *imports, const host_segment *segment,
                                 uint64_t nbytes, host_import **fresh)
{
    host_import **head = &imports->buckets[host_file_bucket(segment->file_inode)];
    pthread_mutex_lock(&imports->lock);
    host_import *import = *head;
    while (import && !import_serves(import, segment, nbytes))
        import = import->next;
    if (!import) {
        import = *fresh;
        *fresh = NULL;
        import->next = *head;
        *head = import;
    } else {
        import->count++;
        while (import->state == HOST_IMPORT_OPENING)
            pthread_cond_wait(&imports->opened, &imports->lock);
        if (import->state == HOST_IMPORT_FAILED) {
            if (--import->count == 0)
                gmv_free(import);
            import = NULL;
        }
    }
    pthread_mutex_unlock(&imports->lock);
    return import;
}

/* Maps what imports_join has entered as opening, and tells those who wait. */
static bool imports_open(host_device *device, host_import *import, const host_segment *segment)
{
    host_imports *imports = &device->imports;
    int protection = PROT_READ | (segment->writable ? PROT_WRITE : 0);
    void *address = MAP_FAILED;
    if (gmv__host_limit_take(&device->limits.mappings, device->limits.mappings_max)) {
        address =
            mmap(NULL, import->mapping.nbytes, protection, MAP_SHARED, segment->descriptor, 0);
        if (address == MAP_FAILED)
            gmv__host_limit_give(&device->limits.mappings);
    }
    bool opened = address != MAP_FAILED;
    pthread_mutex_lock(&imports->lock);
    import->mapping.address = opened ? address : NULL;
    import->state = opened ? HOST_IMPORT_OPEN : HOST_IMPORT_FAILED;
    if (!opened) {
        imports_unlink(imports, import);
        if (--import->count == 0)
            gmv_free(import);
    } else {
        atomic_fetch_add(&imports->n_mappings, 1);
    }
    pthread_cond_broadcast(&imports->opened);
    pthread_mutex_unlock(&imports->lock);
    return opened;
}

/* A counted mapping that serves `nbytes` bytes of the segment. */
static gmv_status import_acquire(host_device *device, const host_segment *segment, uint64_t nbytes,
                                 host_import **out_import, gmv_error *err)
{
    host_import *fresh = gmv_calloc(1, sizeof *fresh);
    if (!fresh)
        return gmv_fail_no_memory(err);
    fresh->mapping.nbytes = segment->nbytes;
    fresh->file_device = segment->file_device;
    fresh->file_inode = segment->file_inode;
    fresh->writable = segment->writable;
    fresh->state = HOST_IMPORT_OPENING;
    fresh->count = 1;

    host_import *import = imports_join(&device->imports, segment, nbytes, &fresh);
    bool is_mine = !fresh;
    gmv_free(fresh);
    if (!import || (is_mine && !imports_open(device, import, segment)))
        return gmv_fail(err, GMV_ERR_DEVICE_OUT_OF_MEMORY, NULL,
                        "the segment of %llu bytes cannot be mapped: the process has no room or "
                        "too many mappings; delete imports that are no longer needed",
                        (unsigned long long)segment->nbytes);
    *out_import = import;
    return GMV_OK;
}

static void import_release(host_device *device, host_import *import)
{
    host_imports *imports = &device->imports;
    pthread_mutex_lock(&imports->lock);
    bool last = --import->count == 0;
    if (last)
        imports_unlink(imports, import);
    pthread_mutex_unlock(&imports->lock);
    if (!last)
        return;
    munmap(import->mapping.address, import->mapping.nbytes);
    atomic_fetch_sub(&imports->n_mappings, 1);
    gmv__host_limit_give(&device->limits.mappings);
    gmv_free(import);
}

/* ---- memory ---- */

static gmv_status import_segment(host_device *device, const host_segment *segment, int64_t claim,
                                 bool writable, host_memory *memory, gmv_error *err)
{
    uint64_t nbytes = 0;
    GMV_TRY(segment_check_foreign(device, segment, err));
    GMV_TRY(segment_cover(segment, claim, &nbytes, err));
    if (nbytes > 0)
        GMV_TRY(import_acquire(device, segment, nbytes, &memory->import, err));
    memory->base.device = &device->base;
    memory->base.kind = GMV_MEMORY_IMPORTED;
    memory->base.readonly = !writable || !segment->writable;
    memory->base.nbytes = nbytes;
    memory->base.capacity = nbytes;
    if (nbytes > 0) {
        atomic_fetch_add(&memory->import->users, 1);
        memory->base.address = (uint64_t)(uintptr_t)memory->import->mapping.address;
    }
    return GMV_OK;
}

gmv_status gmv__host_memory_import_shm(gmv_device *base, const char *name, int64_t nbytes,
                                       bool writable, gmv_memory **out_memory, gmv_error *err)
{
    host_device *device = host_device_of(base);
    host_segment segment;
    GMV_TRY(import_check_name(name, err));
    host_memory *memory = gmv_calloc(1, sizeof *memory);
    if (!memory)
        return gmv_fail_no_memory(err);
    memory->descriptor = -1;
    gmv_status status = segment_open(device, name, &segment, err);
    if (status == GMV_OK) {
        status = import_segment(device, &segment, nbytes, writable, memory, err);
        close(segment.descriptor);
    }
    if (status != GMV_OK) {
        gmv_free(memory);
        return status;
    }
    *out_memory = &memory->base;
    return GMV_OK;
}

bool gmv__host_import_retire(gmv_memory *base)
{
    host_memory *memory = host_memory_of(base);
    if (memory->retired || !memory->import)
        return false;
    memory->retired = true;
    return atomic_fetch_sub(&memory->import->users, 1) == 1;
}

void gmv__host_import_free(host_device *device, host_memory *memory)
{
    gmv__host_import_retire(&memory->base);
    if (memory->import)
        import_release(device, memory->import);
}
