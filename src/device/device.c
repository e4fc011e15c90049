/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The public calls of device.h and kernels.h. Each one checks that the device is not lost, lets the
 * failure that a test asked for happen, and dispatches to the backend.
 */
#include <assert.h>
#include <string.h>

#include "device/backend.h"

/* ---- the state that all backends share ---- */

void gmv__device_init(gmv_device *device, const gmv_backend_ops *ops)
{
    device->ops = ops;
    atomic_init(&device->lost, GMV_LOST_NOT);
    atomic_init(&device->calls_to_failure, 0);
    atomic_init(&device->failure_status, GMV_OK);
    atomic_init(&device->has_failed, false);
}

bool gmv_device_is_lost(const gmv_device *device, const char **out_reason)
{
    int lost = atomic_load_explicit(&device->lost, memory_order_acquire);
    if (GMV_LIKELY(lost == GMV_LOST_NOT))
        return false;
    if (out_reason)
        *out_reason = lost == GMV_LOST_DONE ? device->lost_reason : "it no longer answers";
    return true;
}

void gmv_device_mark_lost(gmv_device *device, const char *reason)
{
    int expected = GMV_LOST_NOT;
    if (!atomic_compare_exchange_strong(&device->lost, &expected, GMV_LOST_MARKING))
        return;
    strncpy(device->lost_reason, reason ? reason : "it no longer answers", GMV_LOST_REASON_MAX - 1);
    atomic_store_explicit(&device->lost, GMV_LOST_DONE, memory_order_release);
}

gmv_status gmv__device_fail_lost(const gmv_device *device, gmv_error *err)
{
    const char *reason = "it no longer answers";
    (void)gmv_device_is_lost(device, &reason);
    return gmv_fail(err, GMV_ERR_DEVICE_LOST, NULL,
                    "device %d is lost (%s); the daemon must be started again",
                    (int)device->info.ordinal, reason);
}

gmv_status gmv__device_fail_memory(const gmv_device *device, uint64_t nbytes, gmv_error *err)
{
    return gmv_fail(err, GMV_ERR_DEVICE_OUT_OF_MEMORY, NULL,
                    "the device cannot give %llu bytes (%llu of %llu are free); delete handles "
                    "that are no longer needed",
                    (unsigned long long)nbytes, (unsigned long long)gmv_device_free_nbytes(device),
                    (unsigned long long)device->info.total_nbytes);
}

void gmv_device_fail_once(gmv_device *device, uint64_t n, gmv_status status)
{
    assert(n == 0 || status != GMV_OK);
    atomic_store(&device->calls_to_failure, 0);
    atomic_store(&device->failure_status, (int)status);
    atomic_store(&device->has_failed, false);
    atomic_store(&device->calls_to_failure, n);
}

bool gmv_device_has_failed(const gmv_device *device)
{
    return atomic_load(&device->has_failed);
}

/* Counts one fallible call; true if it is the one that a test wants to fail. */
static bool device_count_call(gmv_device *device)
{
    uint64_t left = atomic_load_explicit(&device->calls_to_failure, memory_order_relaxed);
    while (GMV_UNLIKELY(left != 0)) {
        if (!atomic_compare_exchange_weak(&device->calls_to_failure, &left, left - 1))
            continue;
        if (left != 1)
            return false;
        atomic_store(&device->has_failed, true);
        return true;
    }
    return false;
}

static gmv_status device_fail_on_demand(gmv_device *device, gmv_error *err)
{
    gmv_status status = (gmv_status)atomic_load(&device->failure_status);
    if (status == GMV_ERR_DEVICE_LOST) {
        gmv_device_mark_lost(device, "a test asked for it");
        return gmv__device_fail_lost(device, err);
    }
    return gmv_fail(err, status, NULL, "a test asked for this call to fail");
}

/* What every fallible call does first. */
gmv_status gmv__device_enter(gmv_device *device, gmv_error *err)
{
    assert(device);
    if (GMV_UNLIKELY(gmv_device_is_lost(device, NULL)))
        return gmv__device_fail_lost(device, err);
    if (GMV_UNLIKELY(device_count_call(device)))
        return device_fail_on_demand(device, err);
    return GMV_OK;
}

/* ---- devices ---- */

void gmv_device_close(gmv_device *device)
{
    if (device)
        device->ops->device_close(device);
}

const gmv_device_info *gmv_device_describe(const gmv_device *device)
{
    return &device->info;
}

const char *gmv_device_driver_version(const gmv_device *device)
{
    return device->info.driver_version;
}

uint64_t gmv_device_free_nbytes(const gmv_device *device)
{
    return device->ops->device_free_nbytes(device);
}

uint64_t gmv_device_import_mappings(const gmv_device *device)
{
    return device->ops->device_import_mappings(device);
}

void gmv_device_refresh(gmv_device *device)
{
    if (!gmv_device_is_lost(device, NULL))
        device->ops->device_refresh(device);
}

void gmv_device_trim(gmv_device *device)
{
    if (!gmv_device_is_lost(device, NULL))
        device->ops->device_trim(device);
}

/* ---- memory and sharing ---- */

gmv_status gmv_memory_allocate(gmv_device *device, gmv_stream *stream, gmv_memory_kind kind,
                               gmv_contents contents, uint64_t nbytes, gmv_memory **out_memory,
                               gmv_error *err)
{
    assert(out_memory && stream && stream->device == device);
    assert(kind == GMV_MEMORY_EXPORTABLE || kind == GMV_MEMORY_ORDINARY);
    GMV_TRY(gmv__device_enter(device, err));
    return device->ops->memory_allocate(device, stream, kind, contents, nbytes, out_memory, err);
}

void gmv_memory_free(gmv_memory *memory)
{
    if (memory)
        memory->device->ops->memory_free(memory);
}

void *gmv_memory_host_pointer(const gmv_memory *memory)
{
    if (!memory->address || memory->device->hides_host_pointers)
        return NULL;
    return memory->device->ops->memory_host_pointer(memory);
}

bool gmv_memory_is_lost(const gmv_memory *memory)
{
    return memory->device->ops->memory_is_lost(memory);
}

bool gmv_memory_retire(gmv_memory *memory)
{
    return memory->kind != GMV_MEMORY_IMPORTED || memory->device->ops->memory_retire(memory);
}

gmv_status gmv_memory_export(gmv_memory *memory, gmv_share *out_share, gmv_error *err)
{
    static const char *const why[] = {
        [GMV_MEMORY_EXPORTABLE] = "there is nothing to export in 0 bytes",
        [GMV_MEMORY_ORDINARY] = "the memory is part of a pool; copy it to an exportable buffer",
        [GMV_MEMORY_IMPORTED] = "the memory is imported; export it from the process that owns it",
    };
    assert(memory && out_share);
    GMV_TRY(gmv__device_enter(memory->device, err));
    if (memory->kind != GMV_MEMORY_EXPORTABLE || memory->nbytes == 0)
        return gmv_fail(err, GMV_ERR_NOT_EXPORTABLE, NULL, "%s", why[memory->kind]);
    return memory->device->ops->memory_export(memory, out_share, err);
}

gmv_status gmv_memory_import_shm(gmv_device *device, const char *name, int64_t nbytes,
                                 bool writable, gmv_memory **out_memory, gmv_error *err)
{
    assert(name && out_memory);
    GMV_TRY(gmv__device_enter(device, err));
    return device->ops->memory_import_shm(device, name, nbytes, writable, out_memory, err);
}

gmv_status gmv_memory_import_ipc(gmv_device *device, const uint8_t handle[GMV_IPC_HANDLE_NBYTES],
                                 int64_t nbytes, bool writable, gmv_memory **out_memory,
                                 gmv_error *err)
{
    assert(handle && out_memory);
    GMV_TRY(gmv__device_enter(device, err));
    return device->ops->memory_import_ipc(device, handle, nbytes, writable, out_memory, err);
}

/* ---- streams and copies ---- */

gmv_status gmv_stream_create_with_priority(gmv_device *device, gmv_stream_priority priority,
                                           gmv_stream **out_stream, gmv_error *err)
{
    assert(out_stream);
    GMV_TRY(gmv__device_enter(device, err));
    return device->ops->stream_create(device, priority, out_stream, err);
}

gmv_status gmv_stream_create(gmv_device *device, gmv_stream **out_stream, gmv_error *err)
{
    return gmv_stream_create_with_priority(device, GMV_STREAM_PRIORITY_DEFAULT, out_stream, err);
}

void gmv_stream_destroy(gmv_stream *stream)
{
    if (stream)
        stream->device->ops->stream_destroy(stream);
}

gmv_device *gmv_stream_device(const gmv_stream *stream)
{
    return stream->device;
}

gmv_status gmv_stream_use(gmv_stream *stream, gmv_memory *memory, gmv_error *err)
{
    assert(stream);
    GMV_TRY(gmv__device_enter(stream->device, err));
    if (!memory)
        return GMV_OK;
    assert(memory->device == stream->device);
    return stream->device->ops->stream_use(stream, memory, err);
}

gmv_status gmv_stream_finish(gmv_stream *stream, gmv_error *err)
{
    assert(stream);
    gmv_status status = gmv__device_enter(stream->device, err);
    if (status == GMV_OK)
        return stream->device->ops->stream_finish(stream, err);
    /* A failure does not keep anything announced. */
    stream->device->ops->stream_abandon(stream);
    return status;
}

void gmv_stream_abandon(gmv_stream *stream)
{
    stream->device->ops->stream_abandon(stream);
}

gmv_status gmv_stream_wait_event(gmv_stream *stream,
                                 const uint8_t event_handle[GMV_IPC_HANDLE_NBYTES], gmv_error *err)
{
    assert(stream && event_handle);
    GMV_TRY(gmv__device_enter(stream->device, err));
    return stream->device->ops->stream_wait_event(stream, event_handle, err);
}

gmv_status gmv_copy_in(gmv_stream *stream, uint64_t destination, const void *source,
                       uint64_t nbytes, gmv_error *err)
{
    GMV_TRY(gmv__device_enter(stream->device, err));
    if (nbytes == 0)
        return GMV_OK;
    assert(destination && source);
    return stream->device->ops->copy_in(stream, destination, source, nbytes, err);
}

gmv_status gmv_copy_out(gmv_stream *stream, void *destination, uint64_t source, uint64_t nbytes,
                        gmv_error *err)
{
    GMV_TRY(gmv__device_enter(stream->device, err));
    if (nbytes == 0)
        return GMV_OK;
    assert(destination && source);
    return stream->device->ops->copy_out(stream, destination, source, nbytes, err);
}

gmv_status gmv_copy_within(gmv_stream *stream, uint64_t destination, uint64_t source,
                           uint64_t nbytes, gmv_error *err)
{
    GMV_TRY(gmv__device_enter(stream->device, err));
    if (nbytes == 0)
        return GMV_OK;
    assert(destination && source);
    return stream->device->ops->copy_within(stream, destination, source, nbytes, err);
}

gmv_status gmv_fill(gmv_stream *stream, uint64_t destination, uint8_t value, uint64_t nbytes,
                    gmv_error *err)
{
    GMV_TRY(gmv__device_enter(stream->device, err));
    if (nbytes == 0)
        return GMV_OK;
    assert(destination);
    return stream->device->ops->fill(stream, destination, value, nbytes, err);
}

/* ---- kernels ---- */

gmv_status gmv_kernel_valid_if(gmv_stream *stream, const gmv_valid_if *args, gmv_error *err)
{
    GMV_TRY(gmv__device_enter(stream->device, err));
    assert(args->n >= 0 && args->output % 64 == 0 && args->output_nbytes % 64 == 0);
    assert((uint64_t)args->n <= args->output_nbytes * 8);
    return stream->device->ops->valid_if(stream, args, err);
}

gmv_status gmv_kernel_bits_to_bools(gmv_stream *stream, const gmv_bits_to_bools *args,
                                    gmv_error *err)
{
    GMV_TRY(gmv__device_enter(stream->device, err));
    assert(args->n >= 0 && args->bits.offset >= 0);
    return stream->device->ops->bits_to_bools(stream, args, err);
}

gmv_status gmv_kernel_copy_bits(gmv_stream *stream, const gmv_copy_bits *args, gmv_error *err)
{
    GMV_TRY(gmv__device_enter(stream->device, err));
    assert(args->n >= 0 && args->bits.offset >= 0 && args->output % 64 == 0);
    assert((uint64_t)args->n <= args->output_nbytes * 8);
    return stream->device->ops->copy_bits(stream, args, err);
}

gmv_status gmv_kernel_set_bits(gmv_stream *stream, const gmv_set_bits *args, gmv_error *err)
{
    GMV_TRY(gmv__device_enter(stream->device, err));
    assert(args->range.begin >= 0 && args->range.begin <= args->range.end);
    return stream->device->ops->set_bits(stream, args, err);
}

gmv_status gmv_kernel_combine_bits(gmv_stream *stream, const gmv_combine_bits *args, gmv_error *err)
{
    GMV_TRY(gmv__device_enter(stream->device, err));
    assert(args->n >= 0 && args->n_inputs >= 1 && args->output % 64 == 0);
    assert((uint64_t)args->n <= args->output_nbytes * 8);
    return stream->device->ops->combine_bits(stream, args, err);
}

gmv_status gmv_kernel_count_bits(gmv_stream *stream, const gmv_count_bits *args, gmv_error *err)
{
    GMV_TRY(gmv__device_enter(stream->device, err));
    assert(args->n_ranges == 0 || args->ranges);
    return stream->device->ops->count_bits(stream, args, err);
}

gmv_status gmv_kernel_find_bit(gmv_stream *stream, const gmv_find_bit *args, gmv_error *err)
{
    GMV_TRY(gmv__device_enter(stream->device, err));
    assert(args->range.begin >= 0 && args->range.begin <= args->range.end);
    return stream->device->ops->find_bit(stream, args, err);
}

gmv_status gmv_kernel_check_indices(gmv_stream *stream, const gmv_check_indices *args,
                                    gmv_error *err)
{
    GMV_TRY(gmv__device_enter(stream->device, err));
    assert(args->n >= 0 && args->validity.offset >= 0);
    assert(args->itemsize == 1 || args->itemsize == 2 || args->itemsize == 4 ||
           args->itemsize == 8);
    assert(args->address % (uint64_t)args->itemsize == 0);
    return stream->device->ops->check_indices(stream, args, err);
}

gmv_status gmv_kernel_sequence(gmv_stream *stream, const gmv_sequence *args, gmv_error *err)
{
    GMV_TRY(gmv__device_enter(stream->device, err));
    assert(args->n >= 0 && args->step >= 0 && args->output % 4 == 0);
    assert(args->n == 0 || (args->n - 1) * args->step <= INT32_MAX);
    return stream->device->ops->sequence(stream, args, err);
}

gmv_status gmv_kernel_gather(gmv_stream *stream, const gmv_gather *args, gmv_error *err)
{
    GMV_TRY(gmv__device_enter(stream->device, err));
    assert(args->layout && args->first >= 0 && args->count >= 0 && args->itemsize >= 1);
    return stream->device->ops->gather(stream, args, err);
}

gmv_status gmv_kernel_copy_pieces(gmv_stream *stream, const gmv_copy_piece *pieces, size_t n,
                                  gmv_error *err)
{
    GMV_TRY(gmv__device_enter(stream->device, err));
    assert(n == 0 || pieces);
    return stream->device->ops->copy_pieces(stream, pieces, n, err);
}

gmv_status gmv_kernel_split_bounds(gmv_stream *stream, const gmv_split_bounds *args, gmv_error *err)
{
    GMV_TRY(gmv__device_enter(stream->device, err));
    assert(args->n_levels >= 1 && args->levels && args->bounds);
    return stream->device->ops->split_bounds(stream, args, err);
}

gmv_status gmv_kernel_split(gmv_stream *stream, const gmv_split *args, gmv_error *err)
{
    GMV_TRY(gmv__device_enter(stream->device, err));
    assert(args->first + args->n < args->n_points || args->n == 0);
    return stream->device->ops->split(stream, args, err);
}
