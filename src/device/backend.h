/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a backend is: a const table of operations, and the structs that its own embed as their first
 * member. Private to this floor; callers see device.h and kernels.h only.
 *
 * device.c checks arguments, the lost state and the failure that a test asked for, and dispatches.
 * So a slot may rely on: no NULL but where said, sizes above 0 for copies and fills, memory and
 * streams of its own device, and a device that was not lost when the call began. What a slot finds
 * out about the device it tells by gmv_device_mark_lost and GMV_ERR_DEVICE_LOST. Out-parameters are
 * written on success only. Every slot is required.
 */
#ifndef GMV_DEVICE_BACKEND_H
#define GMV_DEVICE_BACKEND_H

#include <stdatomic.h>

#include <gmv/device/device.h>
#include <gmv/device/kernels.h>
#include <gmv/device/reductions.h>
#include <gmv/device/split.h>

/* ---- memory ---- */

/* May block. nbytes may be 0: an object with address 0. The kind is never IMPORTED. */
typedef gmv_status (*gmv_backend_memory_allocate)(gmv_device *device, gmv_stream *stream,
                                                  gmv_memory_kind kind, gmv_contents contents,
                                                  uint64_t nbytes, gmv_memory **out_memory,
                                                  gmv_error *err);

/*
 * Frees what the kind asks for. Called on a lost device too: then only what no driver is needed
 * for may be touched.
 */
typedef void (*gmv_backend_memory_free)(gmv_memory *memory);

typedef void *(*gmv_backend_memory_host_pointer)(const gmv_memory *memory);
typedef bool (*gmv_backend_memory_is_lost)(const gmv_memory *memory);

/* Called for imported memory only, at most once for each; never blocks. */
typedef bool (*gmv_backend_memory_retire)(gmv_memory *memory);

/* Called for exportable memory of at least one byte only; repeated calls give the same answer. */
typedef gmv_status (*gmv_backend_memory_export)(gmv_memory *memory, gmv_share *out_share,
                                                gmv_error *err);

/* The name is not checked yet. */
typedef gmv_status (*gmv_backend_memory_import_shm)(gmv_device *device, const char *name,
                                                    int64_t nbytes, bool writable,
                                                    gmv_memory **out_memory, gmv_error *err);

/* The handle is 64 bytes that nothing is known of. */
typedef gmv_status (*gmv_backend_memory_import_ipc)(gmv_device *device,
                                                    const uint8_t handle[GMV_IPC_HANDLE_NBYTES],
                                                    int64_t nbytes, bool writable,
                                                    gmv_memory **out_memory, gmv_error *err);

/* ---- streams ---- */

typedef gmv_status (*gmv_backend_stream_create)(gmv_device *device, gmv_stream_priority priority,
                                                gmv_stream **out_stream, gmv_error *err);

/* Implies abandon. Called on a lost device too. */
typedef void (*gmv_backend_stream_destroy)(gmv_stream *stream);

typedef gmv_status (*gmv_backend_stream_use)(gmv_stream *stream, gmv_memory *memory,
                                             gmv_error *err);

/* Whatever it returns, nothing is announced any more. */
typedef gmv_status (*gmv_backend_stream_finish)(gmv_stream *stream, gmv_error *err);

/* As finish, without an outcome. Called on a lost device too, where it must not wait. */
typedef void (*gmv_backend_stream_abandon)(gmv_stream *stream);

typedef gmv_status (*gmv_backend_stream_wait_event)(gmv_stream *stream,
                                                    const uint8_t handle[GMV_IPC_HANDLE_NBYTES],
                                                    gmv_error *err);

typedef gmv_status (*gmv_backend_copy_in)(gmv_stream *stream, uint64_t destination,
                                          const void *source, uint64_t nbytes, gmv_error *err);
typedef gmv_status (*gmv_backend_copy_out)(gmv_stream *stream, void *destination, uint64_t source,
                                           uint64_t nbytes, gmv_error *err);
typedef gmv_status (*gmv_backend_copy_within)(gmv_stream *stream, uint64_t destination,
                                              uint64_t source, uint64_t nbytes, gmv_error *err);
typedef gmv_status (*gmv_backend_fill)(gmv_stream *stream, uint64_t destination, uint8_t value,
                                       uint64_t nbytes, gmv_error *err);

/* ---- the table ---- */

typedef struct gmv_backend_ops {
    /* Devices. close is called once all memory and streams are gone; it frees the device struct. */
    void (*device_close)(gmv_device *device);
    uint64_t (*device_free_nbytes)(const gmv_device *device);     /* never blocks */
    uint64_t (*device_import_mappings)(const gmv_device *device); /* never blocks */
    void (*device_refresh)(gmv_device *device);
    void (*device_trim)(gmv_device *device);

    gmv_backend_memory_allocate memory_allocate;
    gmv_backend_memory_free memory_free;
    gmv_backend_memory_host_pointer memory_host_pointer;
    gmv_backend_memory_is_lost memory_is_lost;
    gmv_backend_memory_retire memory_retire;
    gmv_backend_memory_export memory_export;
    gmv_backend_memory_import_shm memory_import_shm;
    gmv_backend_memory_import_ipc memory_import_ipc;

    gmv_backend_stream_create stream_create;
    gmv_backend_stream_destroy stream_destroy;
    gmv_backend_stream_use stream_use;
    gmv_backend_stream_finish stream_finish;
    gmv_backend_stream_abandon stream_abandon;
    gmv_backend_stream_wait_event stream_wait_event;

    gmv_backend_copy_in copy_in;
    gmv_backend_copy_out copy_out;
    gmv_backend_copy_within copy_within;
    gmv_backend_fill fill;

    /* Kernels: contracts in kernels.h and split.h. */
    gmv_status (*valid_if)(gmv_stream *, const gmv_valid_if *, gmv_error *);
    gmv_status (*bits_to_bools)(gmv_stream *, const gmv_bits_to_bools *, gmv_error *);
    gmv_status (*copy_bits)(gmv_stream *, const gmv_copy_bits *, gmv_error *);
    gmv_status (*set_bits)(gmv_stream *, const gmv_set_bits *, gmv_error *);
    gmv_status (*combine_bits)(gmv_stream *, const gmv_combine_bits *, gmv_error *);
    gmv_status (*count_bits)(gmv_stream *, const gmv_count_bits *, gmv_error *);
    gmv_status (*find_bit)(gmv_stream *, const gmv_find_bit *, gmv_error *);
    gmv_status (*check_indices)(gmv_stream *, const gmv_check_indices *, gmv_error *);
    gmv_status (*sequence)(gmv_stream *, const gmv_sequence *, gmv_error *);
    gmv_status (*gather)(gmv_stream *, const gmv_gather *, gmv_error *);
    gmv_status (*copy_pieces)(gmv_stream *, const gmv_copy_piece *, size_t, gmv_error *);
    gmv_status (*split_bounds)(gmv_stream *, const gmv_split_bounds *, gmv_error *);
    gmv_status (*split)(gmv_stream *, const gmv_split *, gmv_error *);

    /* Reductions: contracts in reductions.h. */
    gmv_status (*statistics)(gmv_stream *, const gmv_statistics_reduction *, gmv_error *);
    gmv_status (*compare)(gmv_stream *, const gmv_comparison_reduction *, gmv_error *);
    gmv_status (*histogram)(gmv_stream *, const gmv_histogram_reduction *, gmv_error *);
    gmv_status (*hash_blocks)(gmv_stream *, const gmv_hash_blocks *, gmv_error *);
    gmv_status (*crc32c)(gmv_stream *, const gmv_crc32c *, gmv_error *);
} gmv_backend_ops;

/* ---- bases that a backend embeds first ---- */

#define GMV_LOST_REASON_MAX 256

typedef enum gmv_lost_state { GMV_LOST_NOT, GMV_LOST_MARKING, GMV_LOST_DONE } gmv_lost_state;

struct gmv_device {
    const gmv_backend_ops *ops;
    gmv_device_info info;
    _Atomic int lost;                      /* a gmv_lost_state; only ever grows */
    char lost_reason[GMV_LOST_REASON_MAX]; /* fixed once lost is GMV_LOST_DONE */
    _Atomic uint64_t calls_to_failure;     /* 0: none is to fail */
    _Atomic int failure_status;
    _Atomic bool has_failed;
    bool hides_host_pointers; /* set once, when it is opened */
};

struct gmv_stream {
    gmv_device *device;
};

/* Makes the base of a zeroed device; info is filled by the backend. */
void gmv__device_init(gmv_device *device, const gmv_backend_ops *ops);

/* What every call begins with: fails on a lost device, or if a test has chosen this call. */
GMV_NODISCARD gmv_status gmv__device_enter(gmv_device *device, gmv_error *err);

/* The row of elements.h that elements of this type are read by, -1 for complex numbers. */
int gmv__element_of_dtype(gmv_dtype dtype);

/* The status and message of a device that is lost. */
gmv_status gmv__device_fail_lost(const gmv_device *device, gmv_error *err);

/* The status and message of a device that has no nbytes left. */
gmv_status gmv__device_fail_memory(const gmv_device *device, uint64_t nbytes, gmv_error *err);

/* Copying bits is combining one input. It points into `copy`, which must live as long. */
static inline gmv_combine_bits gmv__combine_of_copy(const gmv_copy_bits *copy)
{
    return (gmv_combine_bits){
        .operation = GMV_BITS_AND,
        .inputs = &copy->bits,
        .n_inputs = 1,
        .n = copy->n,
        .output = copy->output,
        .output_nbytes = copy->output_nbytes,
        .out_set_count = copy->out_set_count,
    };
}

#endif
