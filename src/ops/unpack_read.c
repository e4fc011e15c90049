/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the data of a packed table says of its columns. The metadata has passed
 * gmv_packed_metadata_decode (or was written by pack), so every offset and size lies inside
 * gpu_data; what the device is asked here needs the address and the bytes themselves.
 */
#include <string.h>

#include <gmv/base/num.h>

#include "ops/unpack_priv.h"

/* The first and the last of some offsets, each brought to a place of its own. */
#define UNPACK_ENDS         2
#define UNPACK_PLACE_NBYTES ((size_t)GMV_PACKED_ALIGNMENT)

/* The offsets of one column. */
typedef struct unpack_offsets {
    size_t entry; /* of the column they belong to */
    uint64_t address;
    int64_t width; /* bytes */
    int64_t n;
    int64_t limit;     /* none may be above */
    int64_t bad_index; /* n: none */
} unpack_offsets;

typedef struct unpack_reader {
    const gmv_unpack_source *source;
    size_t n_masks;
    gmv_bit_range *ranges; /* of each mask, in bits of gpu_data */
    int64_t *set_counts;   /* of each mask */
    size_t n_offsets;
    unpack_offsets *offsets;
    gmv_copy_piece *pieces; /* two to each of `offsets`, as `ends` */
    unsigned char *ends;    /* UNPACK_PLACE_NBYTES each */
    gmv_scratch *scratch;   /* the same on the device */
} unpack_reader;

/* Offsets are aligned within gpu_data, but any view may be posted as gpu_data. */
static gmv_status unpack_check_alignment(const gmv_unpack_source *source, gmv_error *err)
{
    for (size_t i = 0; source->gpu_data && i < source->metadata->n_entries; i++) {
        const gmv_packed_entry *entry = &source->metadata->entries[i];
        const size_t alignment = gmv__type_alignment(entry->type_id);
        if (entry->size == 0 || entry->data_offset < 0 || alignment == 0)
            continue;
        if ((source->gpu_data->ptr + (uint64_t)entry->data_offset) % alignment != 0)
            return gmv_fail(
                err, GMV_ERR_VALUE, "/gpu_data",
                "gpu_data must start at a multiple of %zu bytes for entry %zu of type %s",
                alignment, i, gmv_cudf_type_name(entry->type_id));
    }
    return GMV_OK;
}

/* ---- what there is to read ---- */

static gmv_status unpack_weigh(unpack_reader *reader, gmv_error *err)
{
    const gmv_packed_metadata *metadata = reader->source->metadata;
    uint64_t nbytes = 0;
    for (size_t i = 0; i < metadata->n_entries; i++) {
        const gmv_packed_entry *entry = &metadata->entries[i];
        if (gmv__unpack_has_mask(entry)) {
            reader->n_masks++;
            nbytes += (uint64_t)gmv__bits_nbytes(entry->size);
        }
        if (gmv__unpack_has_offsets(entry)) {
            reader->n_offsets++;
            nbytes += (uint64_t)entry[1].size * gmv_cudf_type_width(entry[1].type_id);
        }
    }
    return gmv_operation_weigh(reader->source->operation, nbytes, err);
}

static gmv_status unpack_allocate(unpack_reader *reader, gmv_error *err)
{
    const size_t n_ends = UNPACK_ENDS * reader->n_offsets;
    if (reader->n_masks > 0) {
        reader->ranges = gmv_calloc(reader->n_masks, sizeof *reader->ranges);
        reader->set_counts = gmv_calloc(reader->n_masks, sizeof *reader->set_counts);
        if (!reader->ranges || !reader->set_counts)
            return gmv_fail_no_memory(err);
    }
    if (reader->n_offsets > 0) {
        reader->offsets = gmv_calloc(reader->n_offsets, sizeof *reader->offsets);
        reader->pieces = gmv_calloc(n_ends, sizeof *reader->pieces);
        reader->ends = gmv_calloc(n_ends, UNPACK_PLACE_NBYTES);
        if (!reader->offsets || !reader->pieces || !reader->ends)
            return gmv_fail_no_memory(err);
    }
    return GMV_OK;
}

/* How far the offsets of an entry may reach: to the end of its elements, or of gpu_data. */
static int64_t unpack_limit(const gmv_unpack_source *source, const gmv_packed_entry *entry)
{
    if (entry->type_id == GMV_CUDF_LIST)
        return entry[2].size; /* offsets have no children of their own */
    if (entry->characters > 0)
        return entry->characters;
    return entry->data_offset < 0 ? 0 : source->gpu_data->nbytes - entry->data_offset;
}

static void unpack_collect(unpack_reader *reader)
{
    const gmv_packed_metadata *metadata = reader->source->metadata;
    size_t n_masks = 0, n_offsets = 0;
    for (size_t i = 0; i < metadata->n_entries; i++) {
        const gmv_packed_entry *entry = &metadata->entries[i];
        if (gmv__unpack_has_mask(entry))
            reader->ranges[n_masks++] = (gmv_bit_range){entry->null_mask_offset * 8,
                                                        entry->null_mask_offset * 8 + entry->size};
        if (gmv__unpack_has_offsets(entry))
            reader->offsets[n_offsets++] = (unpack_offsets){
                .entry = i,
                .address = reader->source->gpu_data->ptr + (uint64_t)entry[1].data_offset,
                .width = (int64_t)gmv_cudf_type_width(entry[1].type_id),
                .n = entry[1].size,
                .limit = unpack_limit(reader->source, entry),
            };
    }
}

/* ---- reading ---- */

static gmv_status unpack_enqueue_masks(const unpack_reader *reader, gmv_stream *stream,
                                       gmv_error *err)
{
    const gmv_count_bits count = {
        .address = reader->source->gpu_data->ptr,
        .ranges = reader->ranges,
        .n_ranges = reader->n_masks,
        .out_counts = reader->set_counts,
    };
    return reader->n_masks > 0 ? gmv_kernel_count_bits(stream, &count, err) : GMV_OK;
}

static void unpack_place_ends(unpack_reader *reader)
{
    for (size_t i = 0; i < UNPACK_ENDS * reader->n_offsets; i++) {
        const unpack_offsets *offsets = &reader->offsets[i / UNPACK_ENDS];
        const int64_t index = i % UNPACK_ENDS == 0 ? 0 : offsets->n - 1;
        reader->pieces[i] = (gmv_copy_piece){
            .source = offsets->address + (uint64_t)(index * offsets->width),
            .nbytes = (uint64_t)offsets->width,
            .destination = reader->scratch->memory->address + i * UNPACK_PLACE_NBYTES,
            .capacity = UNPACK_PLACE_NBYTES,
        };
    }
}

static gmv_status unpack_enqueue_offsets(unpack_reader *reader, gmv_device *device,
                                         gmv_stream *stream, gmv_error *err)
{
    const size_t n_ends = UNPACK_ENDS * reader->n_offsets;
    const uint64_t nbytes = n_ends * UNPACK_PLACE_NBYTES;
    if (n_ends == 0)
        return GMV_OK;
    GMV_TRY(gmv_engine_scratch(reader->source->operation->engine, device, stream, nbytes,
                               &reader->scratch, err));
    unpack_place_ends(reader);
    GMV_TRY(gmv_stream_use(stream, reader->scratch->memory, err));
    GMV_TRY(gmv_kernel_copy_pieces(stream, reader->pieces, n_ends, err));
    GMV_TRY(gmv_copy_out(stream, reader->ends, reader->scratch->memory->address, nbytes, err));
    for (size_t i = 0; i < reader->n_offsets; i++) {
        unpack_offsets *offsets = &reader->offsets[i];
        const gmv_check_indices check = {
            .address = offsets->address,
            .itemsize = offsets->width,
            .in_order = true,
            .n = offsets->n,
            .limit = offsets->limit,
            .out_index = &offsets->bad_index,
        };
        GMV_TRY(gmv_kernel_check_indices(stream, &check, err));
    }
    return GMV_OK;
}

static gmv_status unpack_load(unpack_reader *reader, gmv_error *err)
{
    gmv_engine *engine = reader->source->operation->engine;
    gmv_device *device = gmv__engine_device_of(engine, gmv__view_device(reader->source->gpu_data));
    gmv_stream *stream = gmv_operation_stream(reader->source->operation, device);
    gmv_status status = gmv__view_use(stream, reader->source->gpu_data, err);
    if (status == GMV_OK)
        status = unpack_enqueue_masks(reader, stream, err);
    if (status == GMV_OK)
        status = unpack_enqueue_offsets(reader, device, stream, err);
    if (status == GMV_OK)
        status = gmv_stream_finish(stream, err);
    if (status != GMV_OK)
        gmv_stream_abandon(stream); /* before the arrays go */
    gmv_engine_discard_scratch(engine, reader->scratch, true);
    reader->scratch = NULL;
    return status;
}

/* ---- what it means ---- */

static int64_t unpack_end(const unpack_reader *reader, size_t index, size_t end)
{
    const unsigned char *place = reader->ends + (UNPACK_ENDS * index + end) * UNPACK_PLACE_NBYTES;
    int32_t narrow;
    int64_t wide;
    memcpy(&narrow, place, sizeof narrow);
    memcpy(&wide, place, sizeof wide);
    return reader->offsets[index].width == (int64_t)sizeof narrow ? narrow : wide;
}

static gmv_status unpack_lie(const unpack_offsets *offsets, const char *what, int64_t value,
                             const char *wanted, int64_t limit, gmv_error *err)
{
    return gmv_fail(err, GMV_ERR_METADATA_INVALID, "/metadata", "entry %zu: its %s %lld%s %lld",
                    offsets->entry, what, (long long)value, wanted, (long long)limit);
}

/*
 * The ends were read apart from the rest: where somebody writes meanwhile they may disagree, so
 * they are judged by themselves. `*out_last` is where the offsets end.
 */
static gmv_status unpack_judge_offsets(const unpack_reader *reader, size_t index, int64_t *out_last,
                                       gmv_error *err)
{
    const unpack_offsets *offsets = &reader->offsets[index];
    const gmv_packed_entry *entry = &reader->source->metadata->entries[offsets->entry];
    const int64_t first = unpack_end(reader, index, 0);
    const int64_t last = unpack_end(reader, index, 1);
    const bool is_list = entry->type_id == GMV_CUDF_LIST;
    if (first != 0)
        return unpack_lie(offsets, "offsets start at", first, ", not at", 0, err);
    if (last < 0 || last > offsets->limit)
        return unpack_lie(offsets, "offsets end at", last,
                          is_list ? ", but the number of its elements is"
                                  : ", but the most that its characters can be is",
                          offsets->limit, err);
    if (offsets->bad_index < offsets->n)
        return unpack_lie(offsets, "offset number", offsets->bad_index,
                          " is below the one before it, or above", offsets->limit, err);
    if ((is_list || entry->characters > 0) && last != offsets->limit)
        return unpack_lie(offsets, "offsets end at", last,
                          is_list ? ", but the number of its elements is"
                                  : ", but the number of its characters is",
                          offsets->limit, err);
    *out_last = last;
    return GMV_OK;
}

static gmv_status unpack_judge(const unpack_reader *reader, gmv_unpack_reading *readings,
                               gmv_error *err)
{
    const gmv_packed_metadata *metadata = reader->source->metadata;
    size_t n_masks = 0, n_offsets = 0;
    for (size_t i = 0; i < metadata->n_entries; i++) {
        const gmv_packed_entry *entry = &metadata->entries[i];
        readings[i] = (gmv_unpack_reading){0};
        if (gmv__unpack_has_mask(entry))
            readings[i].null_count = entry->size - reader->set_counts[n_masks++];
        if (gmv__unpack_has_offsets(entry))
            GMV_TRY(unpack_judge_offsets(reader, n_offsets++, &readings[i].characters, err));
    }
    return GMV_OK;
}

gmv_status gmv__unpack_read(const gmv_unpack_source *source, gmv_unpack_reading *readings,
                            gmv_error *err)
{
    unpack_reader reader = {.source = source};
    GMV_TRY(unpack_check_alignment(source, err));
    GMV_TRY(unpack_weigh(&reader, err));
    gmv_status status = unpack_allocate(&reader, err);
    if (status == GMV_OK && reader.n_masks + reader.n_offsets > 0) {
        unpack_collect(&reader);
        status = unpack_load(&reader, err);
    }
    if (status == GMV_OK)
        status = unpack_judge(&reader, readings, err);
    gmv_free(reader.ranges);
    gmv_free(reader.set_counts);
    gmv_free(reader.offsets);
    gmv_free(reader.pieces);
    gmv_free(reader.ends);
    return status;
}
