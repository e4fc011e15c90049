/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host backend: real memory of this machine, shared with other processes as POSIX shared
 * memory, and the same kernels in C. Private to this folder.
 *
 *   host_device.c   opening and closing, streams, copies
 *   host_memory.c   ordinary memory and the cache of freed blocks
 *   host_export.c   exportable memory: files in /dev/shm
 *   host_import.c   other processes' segments
 *   host_system.c   what the system lets the process have
 *   host_guard.c    surviving segments that are cut short
 *   host_kernels.c  kernels, on top of a set of inner loops: portable_set.c, avx2_set.c
 *   host_reductions.c, host_hash.c  kernels that make a few numbers of many elements or bytes
 *
 * Locks: each of cache.lock, exports.lock and imports.lock is held alone, for short steps, and
 * never around a system call.
 */
#ifndef GMV_DEVICE_HOST_HOST_H
#define GMV_DEVICE_HOST_HOST_H

#include <pthread.h>
#include <sys/types.h>

#include "device/backend.h"
#include "device/host/kernel_set.h"

#define HOST_ALIGNMENT     64
#define HOST_BIG_NBYTES    ((uint64_t)64 << 10) /* blocks from here on are mapped and recycled */
#define HOST_EXPORT_PREFIX "gmvd-"
#define HOST_SHM_DIRECTORY "/dev/shm"

/* ---- mappings of files, which may be cut short (host_guard.c) ---- */

/* A shared mapping of a file. Fixed while it is mapped, but for `lost`, which only becomes true. */
typedef struct host_mapping {
    uint8_t *address;
    size_t nbytes;
    _Atomic bool lost;
} host_mapping;

typedef struct host_stream {
    gmv_stream base;
    struct host_stream *next_active; /* in the list of the thread whose work this stream does */
    bool active;
    size_t n_uses;
    size_t uses_capacity;
    host_mapping **uses; /* mappings announced since the last finish */
} host_stream;

/* Installs the handler of SIGBUS, once per process. */
void gmv__host_guard_install(void);

/* From now until gmv__host_guard_forget this thread may touch `mapping` and survive. */
gmv_status gmv__host_guard_announce(host_stream *stream, host_mapping *mapping, gmv_error *err);

/* Ends that; true if any mapping that was announced has been lost. Another thread's list: nothing.
 */
bool gmv__host_guard_forget(host_stream *stream);

/* ---- ordinary memory ---- */

#define HOST_CACHE_CLASSES 256

/* Lies at the start of a freed block while the cache keeps it. */
typedef struct host_free_block host_free_block;

typedef struct host_cache {
    pthread_mutex_t lock;
    uint64_t nbytes_max;
    uint64_t nbytes;
    host_free_block *classes[HOST_CACHE_CLASSES]; /* the last freed first */
    host_free_block *oldest;
    host_free_block *newest;
} host_cache;

/* ---- files ---- */

#define HOST_FILE_BUCKETS 1024

/* Inodes are counted up by tmpfs, so their low bits spread. */
static inline size_t host_file_bucket(ino_t file_inode)
{
    return (size_t)file_inode % HOST_FILE_BUCKETS;
}

/* ---- exportable memory ---- */

struct host_memory;

typedef struct host_exports {
    pthread_mutex_t lock;
    struct host_memory *buckets[HOST_FILE_BUCKETS]; /* memory that has been exported, by its file */
} host_exports;

/*
 * What exportable and imported memory takes of the process's limits. A quarter of each limit is
 * left to the rest of the daemon: without it neither malloc nor accept would work.
 */
typedef struct host_limits {
    uint64_t mappings_max;    /* of files */
    uint64_t descriptors_max; /* kept open by exportable memory */
    _Atomic uint64_t mappings;
    _Atomic uint64_t descriptors;
} host_limits;

/* ---- imported memory ---- */

typedef enum host_import_state {
    HOST_IMPORT_OPENING,
    HOST_IMPORT_OPEN,
    HOST_IMPORT_FAILED
} host_import_state;

/* One mapping of one segment, shared by `count` memories and by those who wait for it to open. */
typedef struct host_import {
    host_mapping mapping;
    struct host_import *next;
    dev_t file_device;
    ino_t file_inode;
    uint64_t count;
    _Atomic uint64_t users; /* memories among them that have not been retired */
    host_import_state state;
    bool writable;
} host_import;

typedef struct host_imports {
    pthread_mutex_t lock;
    pthread_cond_t opened;
    host_import *buckets[HOST_FILE_BUCKETS]; /* by the file */
    _Atomic uint64_t n_mappings;
} host_imports;

/* ---- the device and its memory ---- */

typedef struct host_device {
    gmv_device base;
    const host_kernel_set *kernels;
    char *shm_directory;
    _Atomic uint64_t used_nbytes;      /* allocated and not yet freed; the cache not counted */
    _Atomic uint64_t unchecked_nbytes; /* fresh since the system was last asked for its memory */
    host_limits limits;
    host_cache cache;
    host_exports exports;
    host_imports imports;
} host_device;

typedef struct host_memory {
    gmv_memory base;
    uint64_t reserved_nbytes; /* what it counts for in used_nbytes */
    /* Exportable memory only: */
    host_mapping mapping;
    int descriptor; /* of the file, -1 if none */
    bool exported;  /* in the list of exports, and `name` is fixed; under exports.lock */
    bool named;     /* the file has had its name since it was made */
    char name[GMV_SHM_NAME_MAX];
    dev_t file_device;
    ino_t file_inode;
    struct host_memory *next_export;
    struct host_memory *previous_export;
    /* Imported memory only: */
    host_import *import; /* NULL for 0 bytes */
    bool retired;
} host_memory;

/* The bases come first; going through an integer drops const where the base was only looked at. */
_Static_assert(offsetof(host_device, base) == 0 && offsetof(host_memory, base) == 0 &&
                   offsetof(host_stream, base) == 0,
               "bases come first");

static inline host_device *host_device_of(const gmv_device *device)
{
    return (host_device *)(uintptr_t)device;
}

static inline host_memory *host_memory_of(const gmv_memory *memory)
{
    return (host_memory *)(uintptr_t)memory;
}

static inline host_stream *host_stream_of(const gmv_stream *stream)
{
    return (host_stream *)(uintptr_t)stream;
}

/* Bytes that the process may use at most, and those that it could still get now. */
uint64_t gmv__host_system_total(void);
uint64_t gmv__host_system_available(void);

/* Mappings and open files that the process may have; raises what it may raise of the latter. */
uint64_t gmv__host_system_mappings(void);
uint64_t gmv__host_system_descriptors(void);

/* The mapping whose loss this memory would share; NULL if it cannot be lost. */
host_mapping *gmv__host_memory_mapping(const gmv_memory *memory);

/* Counts nbytes as used; false if the device does not have them. */
bool gmv__host_reserve(host_device *device, uint64_t nbytes);
void gmv__host_release(host_device *device, uint64_t nbytes);

/* Whether the system can give nbytes of fresh pages without killing someone for them. */
bool gmv__host_has_fresh(host_device *device, uint64_t nbytes);

void gmv__host_limits_init(host_limits *limits);

/* Adds one to *count unless that makes it more than `max`. */
bool gmv__host_limit_take(_Atomic uint64_t *count, uint64_t max);
void gmv__host_limit_give(_Atomic uint64_t *count);

void gmv__host_cache_init(host_cache *cache, uint64_t nbytes_max);
void gmv__host_cache_trim(host_cache *cache);
uint64_t gmv__host_cache_nbytes(host_cache *cache);
void gmv__host_cache_destroy(host_cache *cache);

gmv_status gmv__host_ordinary_allocate(host_device *device, host_memory *memory,
                                       gmv_contents contents, gmv_error *err);
void gmv__host_ordinary_free(host_device *device, host_memory *memory);

/* nbytes above 0. */
gmv_status gmv__host_exportable_allocate(host_device *device, host_memory *memory, gmv_error *err);
void gmv__host_exportable_free(host_device *device, host_memory *memory);
gmv_status gmv__host_memory_export(gmv_memory *memory, gmv_share *out_share, gmv_error *err);

/* Unlinks exports of daemons that are gone. */
void gmv__host_exports_sweep(const char *shm_directory);

/* True, and *out_owner, if the file is an export of this device. */
bool gmv__host_exports_find(host_device *device, dev_t file_device, ino_t file_inode,
                            gmv_id *out_owner);

gmv_status gmv__host_memory_import_shm(gmv_device *device, const char *name, int64_t nbytes,
                                       bool writable, gmv_memory **out_memory, gmv_error *err);
bool gmv__host_import_retire(gmv_memory *memory);
void gmv__host_import_free(host_device *device, host_memory *memory);

/* ---- kernels (host_kernels.c) ---- */

gmv_status gmv__host_valid_if(gmv_stream *stream, const gmv_valid_if *args, gmv_error *err);
gmv_status gmv__host_bits_to_bools(gmv_stream *stream, const gmv_bits_to_bools *args,
                                   gmv_error *err);
gmv_status gmv__host_copy_bits(gmv_stream *stream, const gmv_copy_bits *args, gmv_error *err);
gmv_status gmv__host_set_bits(gmv_stream *stream, const gmv_set_bits *args, gmv_error *err);
gmv_status gmv__host_combine_bits(gmv_stream *stream, const gmv_combine_bits *args, gmv_error *err);
gmv_status gmv__host_count_bits(gmv_stream *stream, const gmv_count_bits *args, gmv_error *err);
gmv_status gmv__host_find_bit(gmv_stream *stream, const gmv_find_bit *args, gmv_error *err);
gmv_status gmv__host_check_indices(gmv_stream *stream, const gmv_check_indices *args,
                                   gmv_error *err);
gmv_status gmv__host_sequence(gmv_stream *stream, const gmv_sequence *args, gmv_error *err);
gmv_status gmv__host_gather(gmv_stream *stream, const gmv_gather *args, gmv_error *err);
gmv_status gmv__host_copy_pieces(gmv_stream *stream, const gmv_copy_piece *pieces, size_t n,
                                 gmv_error *err);
gmv_status gmv__host_split_bounds(gmv_stream *stream, const gmv_split_bounds *args, gmv_error *err);
gmv_status gmv__host_split(gmv_stream *stream, const gmv_split *args, gmv_error *err);

/* ---- reductions (host_reductions.c, host_hash.c) ---- */

gmv_status gmv__host_statistics(gmv_stream *stream, const gmv_statistics_reduction *args,
                                gmv_error *err);
gmv_status gmv__host_compare(gmv_stream *stream, const gmv_comparison_reduction *args,
                             gmv_error *err);
gmv_status gmv__host_histogram(gmv_stream *stream, const gmv_histogram_reduction *args,
                               gmv_error *err);
gmv_status gmv__host_hash_blocks(gmv_stream *stream, const gmv_hash_blocks *args, gmv_error *err);
gmv_status gmv__host_crc32c(gmv_stream *stream, const gmv_crc32c *args, gmv_error *err);

#endif
