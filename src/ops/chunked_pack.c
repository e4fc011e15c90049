/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunked packing over the plan of pack. A stretch of gpu_data is made by cutting the copies of the
 * buffers that lie in it: any stretch can be made at any time, in any order, so nothing has to be
 * kept of one that has been handed on.
 */
#include <string.h>

#include <gmv/base/alloc.h>
#include <gmv/base/num.h>

#include "ops/chunked_pack_priv.h"
#include "ops/column_priv.h"
#include "ops/packed_priv.h"

/* Copies that are described at a time: a stretch may lie in very many small buffers. */
#define CHUNKED_PIECES_MAX 8192u

struct gmv_chunked_pack {
    gmv_bytes_source source; /* first: bytes know it by this */
    gmv_engine *engine;
    gmv_table *table; /* held in flight */
    gmv_pack_plan plan;
    uint64_t *ends;        /* of each buffer, as gmv_chunks has them */
    gmv_memory **memories; /* of each buffer; @borrowed from the table */
    gmv_chunks chunks;
    gmv_chunk_cursor cursor;
};

static gmv_chunked_pack *chunked_of(gmv_bytes_source *source)
{
    return (gmv_chunked_pack *)source;
}

/* ---- making a stretch ---- */

typedef struct chunked_stretch {
    uint64_t begin, end; /* of gpu_data, multiples of 64 */
    uint64_t destination;
} chunked_stretch;

/* The first buffer that ends behind a place: the one that it lies in. */
static size_t chunked_find(const gmv_chunked_pack *pack, uint64_t place)
{
    size_t low = 0, high = pack->plan.n_buffers;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (pack->ends[middle] > place)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static int64_t chunked_clip(int64_t n, int64_t from, int64_t count)
{
    return n <= from ? 0 : GMV_MIN(n - from, count);
}

/* Bytes from..to of a buffer's copy, where both are multiples of 64, or `to` is its end. */
static gmv_copy_piece chunked_cut(gmv_copy_piece piece, uint64_t from, uint64_t to)
{
    piece.capacity = to - from;
    if (piece.is_bits) {
        piece.n = chunked_clip(piece.n, (int64_t)from * 8, (int64_t)(to - from) * 8);
        piece.bits.offset += (int64_t)from * 8;
        piece.nbytes = (uint64_t)gmv_bitmask_words(piece.n) * 4;
        return piece;
    }
    piece.nbytes =
        (uint64_t)chunked_clip((int64_t)piece.nbytes, (int64_t)from, (int64_t)(to - from));
    piece.source += from;
    return piece;
}

/* Describes copies from `*buffer` on, at most CHUNKED_PIECES_MAX, and announces their memory. */
static gmv_status chunked_describe(const gmv_chunked_pack *pack, gmv_stream *stream,
                                   const chunked_stretch *stretch, size_t *buffer,
                                   gmv_copy_piece *pieces, size_t *out_n, gmv_error *err)
{
    size_t n = 0;
    for (; *buffer < pack->plan.n_buffers && n < CHUNKED_PIECES_MAX; (*buffer)++) {
        const uint64_t first = *buffer > 0 ? pack->ends[*buffer - 1] : 0;
        const uint64_t last = pack->ends[*buffer];
        const uint64_t begin = GMV_MAX(first, stretch->begin);
        const uint64_t end = GMV_MIN(last, stretch->end);
        if (first >= stretch->end)
            break;
        if (begin >= end)
            continue;
        const gmv_copy_piece whole =
            gmv__pack_piece(&pack->plan, 0, *buffer, stretch->destination + begin - stretch->begin);
        pieces[n++] = chunked_cut(whole, begin - first, end - first);
        GMV_TRY(gmv_stream_use(stream, pack->memories[*buffer], err));
    }
    *out_n = n;
    return GMV_OK;
}

static gmv_status chunked_enqueue(const gmv_chunked_pack *pack, gmv_stream *stream,
                                  const chunked_stretch *stretch, gmv_memory *destination,
                                  gmv_copy_piece *pieces, gmv_error *err)
{
    size_t buffer = chunked_find(pack, stretch->begin);
    for (size_t n = CHUNKED_PIECES_MAX; n == CHUNKED_PIECES_MAX;) {
        GMV_TRY(gmv_stream_use(stream, destination, err));
        GMV_TRY(chunked_describe(pack, stream, stretch, &buffer, pieces, &n, err));
        GMV_TRY(gmv_kernel_copy_pieces(stream, pieces, n, err));
        if (n == CHUNKED_PIECES_MAX) /* the copies must be done before they are described anew */
            GMV_TRY(gmv_stream_finish(stream, err));
    }
    return GMV_OK;
}

/* Makes a stretch in `destination`, and copies its part from `skip` on to `out`, if not NULL. */
static gmv_status chunked_make(const gmv_chunked_pack *pack, gmv_stream *stream,
                               const chunked_stretch *stretch, gmv_memory *destination, void *out,
                               uint64_t skip, uint64_t nbytes, gmv_error *err)
{
    const size_t n_max = GMV_MIN(pack->plan.n_buffers, (size_t)CHUNKED_PIECES_MAX);
    gmv_copy_piece *pieces = gmv_calloc(n_max + 1, sizeof *pieces);
    if (!pieces)
        return gmv_fail_no_memory(err);
    gmv_status status = chunked_enqueue(pack, stream, stretch, destination, pieces, err);
    if (status == GMV_OK && out)
        status = gmv_copy_out(stream, out, stretch->destination + skip, nbytes, err);
    if (status == GMV_OK)
        status = gmv_stream_finish(stream, err);
    if (status != GMV_OK)
        gmv_stream_abandon(stream); /* before the pieces go */
    gmv_free(pieces);
    return status;
}

/* The bytes lie in one stretch of no more than a chunk. */
static gmv_status chunked_read_stretch(const gmv_chunked_pack *pack, gmv_stream *stream,
                                       uint64_t offset, void *out, uint64_t nbytes, gmv_error *err)
{
    chunked_stretch stretch = {
        .begin = offset - offset % GMV_PACKED_ALIGNMENT,
        .end = gmv_round_up(offset + nbytes, GMV_PACKED_ALIGNMENT),
    };
    gmv_scratch *scratch = NULL;
    GMV_TRY(gmv_engine_scratch(pack->engine, pack->plan.device, stream, stretch.end - stretch.begin,
                               &scratch, err));
    stretch.destination = scratch->memory->address;
    const gmv_status status = chunked_make(pack, stream, &stretch, scratch->memory, out,
                                           offset - stretch.begin, nbytes, err);
    gmv_engine_discard_scratch(pack->engine, scratch, true);
    return status;
}

gmv_status gmv_chunked_pack_read(gmv_chunked_pack *pack, gmv_stream *stream, uint64_t offset,
                                 void *out, uint64_t nbytes, gmv_error *err)
{
    const uint64_t total = pack->plan.total_nbytes;
    if (offset > total || nbytes > total - offset)
        return gmv_fail(err, GMV_ERR_OUT_OF_BOUNDS, NULL,
                        "%llu bytes from %llu on are asked for, there are %llu",
                        (unsigned long long)nbytes, (unsigned long long)offset,
                        (unsigned long long)total);
    const uint64_t longest =
        pack->chunks.chunk_nbytes - pack->chunks.chunk_nbytes % GMV_PACKED_ALIGNMENT;
    char *at = out;
    while (nbytes > 0) {
        const uint64_t taken = GMV_MIN(nbytes, longest - offset % GMV_PACKED_ALIGNMENT);
        GMV_TRY(chunked_read_stretch(pack, stream, offset, at, taken, err));
        offset += taken;
        at += taken;
        nbytes -= taken;
    }
    return GMV_OK;
}

/* ---- chunks ---- */

uint64_t gmv_chunked_pack_total_nbytes(const gmv_chunked_pack *pack)
{
    return pack->plan.total_nbytes;
}

bool gmv_chunked_pack_has_next(const gmv_chunked_pack *pack)
{
    return gmv__chunks_have_next(&pack->chunks, &pack->cursor);
}

static gmv_status chunked_check_span(const gmv_chunked_pack *pack, const gmv_view *span,
                                     gmv_error *err)
{
    const uint64_t wanted = pack->chunks.chunk_nbytes;
    GMV_TRY(gmv_view_require_contiguous(span, "/span", err));
    if (span->readonly)
        return gmv_fail(err, GMV_ERR_READONLY, "/span", "the span is readonly");
    if ((uint64_t)span->nbytes < wanted)
        return gmv_fail(err, GMV_ERR_VALUE, "/span",
                        "the span has %lld bytes, chunks may have up to %llu",
                        (long long)span->nbytes, (unsigned long long)wanted);
    if (span->buffer->memory->device != pack->plan.device)
        return gmv_fail(err, GMV_ERR_VALUE, "/span", "the span is not on the table's device");
    if (span->ptr % GMV_PACKED_ALIGNMENT != 0)
        return gmv_fail(err, GMV_ERR_VALUE, "/span",
                        "the span must start at a multiple of %d bytes", GMV_PACKED_ALIGNMENT);
    return GMV_OK;
}

gmv_status gmv_chunked_pack_next(gmv_chunked_pack *pack, gmv_operation *operation, gmv_view *span,
                                 uint64_t *out_nbytes, gmv_error *err)
{
    GMV_TRY(chunked_check_span(pack, span, err));
    if (!gmv_chunked_pack_has_next(pack))
        return gmv_fail(err, GMV_ERR_VALUE, NULL, "all chunks have been made");
    gmv_chunk_cursor cursor = pack->cursor;
    const uint64_t nbytes = gmv__chunks_step(&pack->chunks, &cursor);
    const chunked_stretch stretch = {pack->cursor.offset, cursor.offset, span->ptr};
    GMV_TRY(gmv_operation_weigh(operation, nbytes, err));
    if (nbytes > 0)
        GMV_TRY(chunked_make(pack, gmv_operation_stream(operation, pack->plan.device), &stretch,
                             span->buffer->memory, NULL, 0, 0, err));
    pack->cursor = cursor;
    *out_nbytes = nbytes;
    return GMV_OK;
}

/* ---- metadata ---- */

/* Bits of all masks, counted from the lowest address among them. */
static uint64_t chunked_mask_ranges(const gmv_pack_plan *plan, gmv_bit_range *ranges)
{
    uint64_t base = UINT64_MAX;
    for (size_t i = 0; i < plan->n_buffers; i++) {
        if (plan->buffers[i].kind == GMV_SPLIT_BITS)
            base = GMV_MIN(base, plan->buffers[i].address);
    }
    for (size_t i = 0; i < plan->n_buffers; i++) {
        const gmv_split_buffer *buffer = &plan->buffers[i];
        if (buffer->kind != GMV_SPLIT_BITS)
            continue;
        const int64_t *bounds = gmv__pack_bounds(plan, buffer->level, 0);
        const int64_t first = (int64_t)(buffer->address - base) * 8 + buffer->first;
        ranges[buffer->below] = (gmv_bit_range){first + bounds[0], first + bounds[1]};
    }
    return base;
}

static gmv_status chunked_count(const gmv_chunked_pack *pack, gmv_stream *stream,
                                gmv_bit_range *ranges, int64_t *counts, gmv_error *err)
{
    const gmv_pack_plan *plan = &pack->plan;
    const gmv_count_bits args = {
        .address = chunked_mask_ranges(plan, ranges),
        .ranges = ranges,
        .n_ranges = plan->n_masks,
        .out_counts = counts,
    };
    gmv_status status = GMV_OK;
    for (size_t i = 0; status == GMV_OK && i < plan->n_buffers; i++) {
        if (plan->buffers[i].kind == GMV_SPLIT_BITS)
            status = gmv_stream_use(stream, pack->memories[i], err);
    }
    if (status == GMV_OK)
        status = gmv_kernel_count_bits(stream, &args, err);
    if (status == GMV_OK)
        status = gmv_stream_finish(stream, err);
    if (status != GMV_OK)
        gmv_stream_abandon(stream); /* before the arrays go */
    return status;
}

static uint64_t chunked_masks_nbytes(const gmv_pack_plan *plan)
{
    uint64_t nbytes = 0;
    for (size_t i = 0; i < plan->n_buffers; i++) {
        const int64_t *bounds = gmv__pack_bounds(plan, plan->buffers[i].level, 0);
        if (plan->buffers[i].kind == GMV_SPLIT_BITS)
            nbytes += (uint64_t)gmv__bits_nbytes(bounds[1] - bounds[0]);
    }
    return nbytes;
}

static gmv_status chunked_count_nulls(const gmv_chunked_pack *pack, gmv_operation *operation,
                                      gmv_packed_metadata *metadata, gmv_error *err)
{
    const size_t n_masks = pack->plan.n_masks;
    if (n_masks == 0)
        return GMV_OK;
    GMV_TRY(gmv_operation_weigh(operation, chunked_masks_nbytes(&pack->plan), err));
    gmv_bit_range *ranges = gmv_calloc(n_masks, sizeof *ranges);
    int64_t *counts = gmv_calloc(n_masks, sizeof *counts);
    uint64_t *set_counts = gmv_calloc(n_masks, sizeof *set_counts);
    gmv_status status = ranges && counts && set_counts ? GMV_OK : gmv_fail_no_memory(err);
    if (status == GMV_OK)
        status = chunked_count(pack, gmv_operation_stream(operation, pack->plan.device), ranges,
                               counts, err);
    for (size_t i = 0; status == GMV_OK && i < n_masks; i++)
        set_counts[i] = (uint64_t)counts[i];
    if (status == GMV_OK)
        gmv__pack_count_nulls(&pack->plan, set_counts, metadata);
    gmv_free(ranges);
    gmv_free(counts);
    gmv_free(set_counts);
    return status;
}

gmv_status gmv_chunked_pack_metadata(gmv_chunked_pack *pack, gmv_operation *operation,
                                     gmv_packed_metadata *out_metadata, gmv_error *err)
{
    gmv_packed_metadata metadata;
    GMV_TRY(gmv__pack_metadata(&pack->plan, 0, &metadata, err));
    const gmv_status status = chunked_count_nulls(pack, operation, &metadata, err);
    if (status != GMV_OK) {
        gmv_packed_metadata_fini(&metadata);
        return status;
    }
    *out_metadata = metadata;
    return GMV_OK;
}

/* ---- life ---- */

static void chunked_note_memory(gmv_chunked_pack *pack, uint32_t buffer, const gmv_view *view)
{
    if (buffer != GMV_PACK_NO_BUFFER && view && view->buffer)
        pack->memories[buffer] = view->buffer->memory;
}

static void chunked_lay_out(gmv_chunked_pack *pack)
{
    const gmv_pack_plan *plan = &pack->plan;
    uint64_t end = 0;
    for (size_t i = 0; i < plan->n_buffers; i++) {
        end += gmv__pack_piece(plan, 0, i, 0).capacity;
        pack->ends[i] = end;
    }
    for (size_t i = 0; i < plan->n_nodes; i++) {
        const gmv_pack_node *node = &plan->nodes[i];
        chunked_note_memory(pack, node->validity, node->column->null_mask);
        chunked_note_memory(pack, node->data, node->column->data);
    }
}

static gmv_status chunked_plan(gmv_chunked_pack *pack, gmv_operation *operation,
                               const gmv_table *table, gmv_error *err)
{
    GMV_TRY(gmv__pack_plan_init(&pack->plan, operation, table, NULL, 0, err));
    pack->ends = gmv_calloc(pack->plan.n_buffers + 1, sizeof *pack->ends);
    pack->memories = gmv_calloc(pack->plan.n_buffers + 1, sizeof(gmv_memory *));
    if (!pack->ends || !pack->memories)
        return gmv_fail_no_memory(err);
    chunked_lay_out(pack);
    return GMV_OK;
}

static gmv_status chunked_on_read(gmv_bytes_source *source, gmv_stream *stream, uint64_t offset,
                                  void *out, uint64_t nbytes, gmv_error *err)
{
    return gmv_chunked_pack_read(chunked_of(source), stream, offset, out, nbytes, err);
}

static void chunked_on_release(gmv_bytes_source *source)
{
    gmv_chunked_pack_destroy(chunked_of(source));
}

static void chunked_free(gmv_chunked_pack *pack)
{
    gmv__pack_plan_fini(&pack->plan);
    gmv_free(pack->ends);
    gmv_free(pack->memories);
    gmv_free(pack);
}

gmv_status gmv_chunked_pack_create(gmv_operation *operation, gmv_table *table, int64_t chunk_nbytes,
                                   gmv_chunked_pack **out_pack, gmv_error *err)
{
    if (chunk_nbytes < (int64_t)GMV_CHUNKED_PACK_NBYTES_MIN)
        return gmv_fail(err, GMV_ERR_VALUE, "/chunk_nbytes",
                        "chunk_nbytes must be %lld or more, not %lld",
                        (long long)GMV_CHUNKED_PACK_NBYTES_MIN, (long long)chunk_nbytes);
    gmv_chunked_pack *pack = gmv_calloc(1, sizeof *pack);
    if (!pack)
        return gmv_fail_no_memory(err);
    const gmv_status status = chunked_plan(pack, operation, table, err);
    if (status != GMV_OK) {
        chunked_free(pack);
        return status;
    }
    gmv_registry_hold(operation->engine->registry, &table->node);
    pack->source = (gmv_bytes_source){pack->plan.device, chunked_on_read, chunked_on_release};
    pack->engine = operation->engine;
    pack->table = table;
    pack->cursor.is_first = true;
    pack->chunks = (gmv_chunks){
        .ends = pack->ends,
        .n_buffers = pack->plan.n_buffers,
        .chunk_nbytes = (uint64_t)chunk_nbytes,
        .has_rows = table->n_columns > 0 && table->num_rows > 0,
    };
    *out_pack = pack;
    return GMV_OK;
}

void gmv_chunked_pack_destroy(gmv_chunked_pack *pack)
{
    if (!pack)
        return;
    gmv_registry_release(pack->engine->registry, &pack->table->node, false);
    chunked_free(pack);
}

/* What only metadata and the plan itself need; the bytes may be read for a long time. */
static void chunked_forget_tree(gmv_chunked_pack *pack)
{
    gmv_free(pack->plan.nodes);
    gmv_free(pack->plan.levels);
    pack->plan.nodes = NULL;
    pack->plan.levels = NULL;
    pack->plan.n_nodes = 0;
}

gmv_status gmv_chunked_pack_bytes(gmv_operation *operation, gmv_table *table, int64_t chunk_nbytes,
                                  gmv_bytes *out_bytes, gmv_error *err)
{
    gmv_chunked_pack *pack;
    GMV_TRY(gmv_chunked_pack_create(operation, table, chunk_nbytes, &pack, err));
    const gmv_status status = gmv_operation_weigh(operation, pack->plan.total_nbytes, err);
    if (status != GMV_OK) {
        gmv_chunked_pack_destroy(pack);
        return status;
    }
    chunked_forget_tree(pack);
    *out_bytes = (gmv_bytes){
        .nbytes = pack->plan.total_nbytes,
        .engine = pack->engine,
        .source = &pack->source,
    };
    return GMV_OK;
}
