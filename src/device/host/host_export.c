/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exportable memory: each block is a file of its own in the directory of POSIX shared memory,
 * reserved when it is made, so that writing to it cannot fail later. The file has no name until it
 * is exported; freeing unlinks it.
 *
 * The descriptor stays open as long as the memory lives. It is what a name is made from, and it
 * carries the lock that tells a live export from one that a killed daemon left behind. (Opening the
 * file again through /proc/self/map_files would need privileges.) Two limits are therefore watched,
 * those of descriptors and of mappings.
 */
#ifndef _GNU_SOURCE
#    define _GNU_SOURCE /* O_TMPFILE */
#endif

#include "device/host/host.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gmv/base/alloc.h>

#define PATH_NBYTES_MAX 4096
#define NAME_ATTEMPTS   8

/* Writes "/gmvd-" and 32 hexadecimal digits; false when the system has no randomness. */
static bool export_make_name(char name[GMV_SHM_NAME_MAX])
{
    uint8_t bytes[16];
    if (!gmv_random_bytes(bytes, sizeof bytes))
        return false;
    int length = snprintf(name, GMV_SHM_NAME_MAX, "/%s", HOST_EXPORT_PREFIX);
    for (size_t i = 0; i < sizeof bytes; i++)
        length += snprintf(name + length, 3, "%02x", bytes[i]);
    return true;
}

static void export_path(const host_device *device, const char *name, char path[PATH_NBYTES_MAX])
{
    snprintf(path, PATH_NBYTES_MAX, "%s%s", device->shm_directory, name);
}

/* ---- making the file ---- */

/* Whether the file is locked by us and still has its name: a sweep may come before the lock. */
static bool export_hold(int descriptor)
{
    struct stat status;
    return flock(descriptor, LOCK_EX | LOCK_NB) == 0 && fstat(descriptor, &status) == 0 &&
           status.st_nlink > 0;
}

/* For file systems without nameless files: the name is there from the start. -1 and errno. */
static int export_open_named(const host_device *device, host_memory *memory)
{
    char path[PATH_NBYTES_MAX];
    for (int attempt = 0; attempt < NAME_ATTEMPTS; attempt++) {
        if (!export_make_name(memory->name))
            break;
        export_path(device, memory->name, path);
        int descriptor = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (descriptor < 0 && errno != EEXIST)
            return -1;
        if (descriptor >= 0 && export_hold(descriptor)) {
            memory->named = true;
            return descriptor;
        }
        if (descriptor >= 0) {
            unlink(path);
            close(descriptor);
        }
    }
    errno = EAGAIN;
    return -1;
}

static int export_open(const host_device *device, host_memory *memory)
{
    int descriptor = open(device->shm_directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (descriptor >= 0)
        return descriptor;
    if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)
        return -1;
    return export_open_named(device, memory);
}

/* Takes the pages now. posix_fallocate returns its error. */
static bool export_reserve(int descriptor, uint64_t nbytes)
{
    int error;
    do
        error = posix_fallocate(descriptor, 0, (off_t)nbytes);
    while (error == EINTR);
    return error == 0;
}

/* Opens, reserves and maps; what fails is undone by export_close. */
static bool export_create(host_device *device, host_memory *memory)
{
    struct stat status;
    memory->descriptor = export_open(device, memory);
    if (memory->descriptor < 0 || !export_reserve(memory->descriptor, memory->base.nbytes) ||
        fstat(memory->descriptor, &status) != 0)
        return false;
    memory->file_device = status.st_dev;
    memory->file_inode = status.st_ino;
    void *address =
        mmap(NULL, memory->base.nbytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory->descriptor, 0);
    if (address == MAP_FAILED)
        return false;
    memory->mapping.address = address;
    memory->mapping.nbytes = memory->base.nbytes;
    memory->base.address = (uint64_t)(uintptr_t)address;
    return true;
}

/* Unlinks, unmaps and closes what there is. */
static void export_close(host_device *device, host_memory *memory)
{
    char path[PATH_NBYTES_MAX];
    if (memory->named || memory->exported) {
        export_path(device, memory->name, path);
        unlink(path);
    }
    if (memory->mapping.address)
        munmap(memory->mapping.address, memory->mapping.nbytes);
    if (memory->descriptor >= 0)
        close(memory->descriptor);
}

static bool export_take_limits(host_limits *limits)
{
    if (!gmv__host_limit_take(&limits->descriptors, limits->descriptors_max))
        return false;
    if (gmv__host_limit_take(&limits->mappings, limits->mappings_max))
        return true;
    gmv__host_limit_give(&limits->descriptors);
    return false;
}

static void export_give_limits(host_limits *limits)
{
    gmv__host_limit_give(&limits->descriptors);
    gmv__host_limit_give(&limits->mappings);
}

gmv_status gmv__host_exportable_allocate(host_device *device, host_memory *memory, gmv_error *err)
{
    memory->descriptor = -1;
    memory->reserved_nbytes = memory->base.capacity;
    if (memory->base.nbytes > INT64_MAX || !gmv__host_reserve(device, memory->reserved_nbytes))
        return gmv__device_fail_memory(&device->base, memory->base.nbytes, err);
    if (!export_take_limits(&device->limits)) {
        gmv__host_release(device, memory->reserved_nbytes);
        return gmv_fail(err, GMV_ERR_DEVICE_OUT_OF_MEMORY, NULL,
                        "%llu exportable buffers is all that the process's limits of open files "
                        "and mappings allow; delete some or raise the limits",
                        (unsigned long long)atomic_load(&device->limits.descriptors));
    }
    if (gmv__host_has_fresh(device, memory->reserved_nbytes) && export_create(device, memory))
        return GMV_OK;
    export_close(device, memory);
    export_give_limits(&device->limits);
    gmv__host_release(device, memory->reserved_nbytes);
    return gmv__device_fail_memory(&device->base, memory->base.nbytes, err);
}

/* ---- the list of exports ---- */

/* Under the lock. */
static void exports_link(host_exports *exports, host_memory *memory)
{
    host_memory **head = &exports->buckets[host_file_bucket(memory->file_inode)];
    memory->previous_export = NULL;
    memory->next_export = *head;
    if (*head)
        (*head)->previous_export = memory;
    *head = memory;
    memory->exported = true;
}

static void exports_unlink(host_exports *exports, host_memory *memory)
{
    host_memory **head = &exports->buckets[host_file_bucket(memory->file_inode)];
    pthread_mutex_lock(&exports->lock);
    if (memory->exported) {
        *(memory->previous_export ? &memory->previous_export->next_export : head) =
            memory->next_export;
        if (memory->next_export)
            memory->next_export->previous_export = memory->previous_export;
    }
    pthread_mutex_unlock(&exports->lock);
}

bool gmv__host_exports_find(host_device *device, dev_t file_device, ino_t file_inode,
                            gmv_id *out_owner)
{
    host_exports *exports = &device->exports;
    pthread_mutex_lock(&exports->lock);
    host_memory *memory = exports->buckets[host_file_bucket(file_inode)];
    while (memory && (memory->file_device != file_device || memory->file_inode != file_inode))
        memory = memory->next_export;
    if (memory)
        *out_owner = memory->base.owner;
    pthread_mutex_unlock(&exports->lock);
    return memory != NULL;
}

void gmv__host_exportable_free(host_device *device, host_memory *memory)
{
    exports_unlink(&device->exports, memory);
    export_close(device, memory);
    export_give_limits(&device->limits);
    gmv__host_release(device, memory->reserved_nbytes);
}

/* ---- exporting ---- */

/* Gives the nameless file a name; the lock comes first, so that no sweep takes it for a stale one.
 */
static bool export_link(const host_device *device, int descriptor, char name[GMV_SHM_NAME_MAX])
{
    char path[PATH_NBYTES_MAX], self[64];
    if (flock(descriptor, LOCK_EX | LOCK_NB) != 0)
        return false;
    snprintf(self, sizeof self, "/proc/self/fd/%d", descriptor);
    for (int attempt = 0; attempt < NAME_ATTEMPTS; attempt++) {
        if (!export_make_name(name))
            return false;
        export_path(device, name, path);
        if (linkat(AT_FDCWD, self, AT_FDCWD, path, AT_SYMLINK_FOLLOW) == 0)
            return true;
        if (errno != EEXIST)
            return false;
    }
    return false;
}

/* Makes `name` the export's unless another thread was faster; false then. */
static bool export_publish(host_device *device, host_memory *memory, const char *name)
{
    pthread_mutex_lock(&device->exports.lock);
    bool first = !memory->exported;
    if (first) {
        memcpy(memory->name, name, GMV_SHM_NAME_MAX);
        exports_link(&device->exports, memory);
    }
    pthread_mutex_unlock(&device->exports.lock);
    return first;
}

static bool export_is_done(host_device *device, const host_memory *memory)
{
    pthread_mutex_lock(&device->exports.lock);
    bool done = memory->exported;
    pthread_mutex_unlock(&device->exports.lock);
    return done;
}

gmv_status gmv__host_memory_export(gmv_memory *base, gmv_share *out_share, gmv_error *err)
{
    host_memory *memory = host_memory_of(base);
    host_device *device = host_device_of(base->device);
    char name[GMV_SHM_NAME_MAX] = "";
    if (!export_is_done(device, memory)) {
        if (memory->named)
            memcpy(name, memory->name, sizeof name);
        else if (!export_link(device, memory->descriptor, name))
            return gmv_fail(err, GMV_ERR_OVERLOADED, NULL,
                            "no name could be made in the directory of shared memory; try again");
        if (!export_publish(device, memory, name) && !memory->named) {
            char path[PATH_NBYTES_MAX];
            export_path(device, name, path);
            unlink(path);
        }
    }
    *out_share = (gmv_share){.mechanism = GMV_SHARE_POSIX_SHM, .nbytes = base->nbytes};
    memcpy(out_share->shm_name, memory->name, sizeof memory->name);
    return GMV_OK;
}

/* ---- what killed daemons left ---- */

static void sweep_one(int directory, const char *name)
{
    struct stat opened, named;
    int descriptor = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (descriptor < 0)
        return;
    /* The name is looked at again under the lock: it may be another file's by now. */
    if (fstat(descriptor, &opened) == 0 && S_ISREG(opened.st_mode) && opened.st_uid == geteuid() &&
        flock(descriptor, LOCK_EX | LOCK_NB) == 0 &&
        fstatat(directory, name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
        named.st_dev == opened.st_dev && named.st_ino == opened.st_ino)
        unlinkat(directory, name, 0);
    close(descriptor);
}

void gmv__host_exports_sweep(const char *shm_directory)
{
    DIR *directory = opendir(shm_directory);
    if (!directory)
        return;
    struct dirent *entry;
    while ((entry = readdir(directory)))
        if (strncmp(entry->d_name, HOST_EXPORT_PREFIX, strlen(HOST_EXPORT_PREFIX)) == 0)
            sweep_one(dirfd(directory), entry->d_name);
    closedir(directory);
}
