/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading and writing the metadata of packed tables. The reader believes nothing: counts never size
 * an allocation, the tree is walked with a stack of fixed depth, and every buffer must lie inside
 * the data and apart from the others. What it lets through describes a table of sound structure.
 */
#include <gmv/model/packed_metadata.h>

#include <endian.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <gmv/base/alloc.h>
#include <gmv/base/num.h>
#include <gmv/model/bitmask.h>
#include <gmv/model/cudf_type.h>

#define PACKED_NONE (-1) /* the offset of a buffer that is not there */

/* Where the fields of an entry lie. */
enum {
    PACKED_AT_TYPE = 0,
    PACKED_AT_SCALE = 4,
    PACKED_AT_SIZE = 8,
    PACKED_AT_NULL_COUNT = 12,
    PACKED_AT_DATA = 16,
    PACKED_AT_NULL_MASK = 24,
    PACKED_AT_CHILDREN = 32,
    PACKED_AT_PAD = 36
};

/* One column whose children are being read. */
typedef struct packed_level {
    const gmv_packed_entry *parent; /* NULL: the table itself */
    int32_t n_read;                 /* children seen so far */
    int32_t n_children;
} packed_level;

/* Half-open bytes of gpu_data. A buffer of unknown length is a point: begin == end. */
typedef struct packed_range {
    int64_t begin;
    int64_t end;
    size_t entry;
} packed_range;

typedef struct packed_reader {
    gmv_packed_metadata *metadata;
    int64_t gpu_data_nbytes;
    gmv_error *err;
    bool has_old_strings; /* some string has its characters in a child */
    size_t depth;         /* levels in use */
    packed_level levels[GMV_PACKED_DEPTH_MAX];
} packed_reader;

void gmv_packed_metadata_fini(gmv_packed_metadata *metadata)
{
    gmv_free(metadata->entries);
    *metadata = (gmv_packed_metadata){0};
}

/* ---- writing ---- */

size_t gmv_packed_metadata_nbytes(const gmv_packed_metadata *metadata, int32_t version)
{
    size_t entries = metadata->n_entries * GMV_PACKED_ENTRY_NBYTES;
    if (version == GMV_PACKED_HEADERLESS)
        return metadata->num_columns == 0 ? 0 : GMV_PACKED_ENTRY_NBYTES + entries;
    bool nothing = metadata->num_columns == 0 && metadata->num_rows == 0;
    return nothing ? 0 : GMV_PACKED_HEADER_NBYTES + entries;
}

static void packed_put32(unsigned char *out, int32_t value)
{
    uint32_t little = htole32((uint32_t)value);
    memcpy(out, &little, sizeof little);
}

static void packed_put64(unsigned char *out, int64_t value)
{
    uint64_t little = htole64((uint64_t)value);
    memcpy(out, &little, sizeof little);
}

static void packed_put_entry(unsigned char *out, const gmv_packed_entry *entry)
{
    packed_put32(out + PACKED_AT_TYPE, entry->type_id);
    packed_put32(out + PACKED_AT_SCALE, entry->scale);
    packed_put32(out + PACKED_AT_SIZE, entry->size);
    packed_put32(out + PACKED_AT_NULL_COUNT, entry->null_count);
    packed_put64(out + PACKED_AT_DATA, entry->data_offset);
    packed_put64(out + PACKED_AT_NULL_MASK, entry->null_mask_offset);
    packed_put32(out + PACKED_AT_CHILDREN, entry->num_children);
    packed_put32(out + PACKED_AT_PAD, 0);
}

void gmv_packed_metadata_encode(const gmv_packed_metadata *metadata, int32_t version,
                                void *out_bytes)
{
    if (gmv_packed_metadata_nbytes(metadata, version) == 0)
        return;
    unsigned char *out = (unsigned char *)out_bytes;
    if (version == GMV_PACKED_HEADERLESS) {
        packed_put_entry(out, &(gmv_packed_entry){.type_id = GMV_CUDF_EMPTY,
                                                  .size = metadata->num_columns,
                                                  .data_offset = PACKED_NONE,
                                                  .null_mask_offset = PACKED_NONE});
        out += GMV_PACKED_ENTRY_NBYTES;
    } else {
        packed_put32(out, GMV_PACKED_VERSION);
        packed_put32(out + 4, metadata->num_columns);
        packed_put32(out + 8, metadata->num_rows);
        packed_put32(out + 12, 0);
        out += GMV_PACKED_HEADER_NBYTES;
    }
    for (size_t i = 0; i < metadata->n_entries; i++, out += GMV_PACKED_ENTRY_NBYTES)
        packed_put_entry(out, &metadata->entries[i]);
}

/* ---- reading: bytes to entries ---- */

static int32_t packed_get32(const unsigned char *in)
{
    uint32_t little;
    memcpy(&little, in, sizeof little);
    return (int32_t)le32toh(little);
}

static int64_t packed_get64(const unsigned char *in)
{
    uint64_t little;
    memcpy(&little, in, sizeof little);
    return (int64_t)le64toh(little);
}

static gmv_status packed_lie(gmv_error *err, const char *format, ...) GMV_PRINTF(2, 3);

static gmv_status packed_lie(gmv_error *err, const char *format, ...)
{
    char message[GMV_ERROR_MESSAGE_MAX];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    return gmv_fail(err, GMV_ERR_METADATA_INVALID, "/metadata", "%s", message);
}

/* False if the pad is not zero. */
static bool packed_get_entry(const unsigned char *in, gmv_packed_entry *out_entry)
{
    *out_entry = (gmv_packed_entry){
        .type_id = packed_get32(in + PACKED_AT_TYPE),
        .scale = packed_get32(in + PACKED_AT_SCALE),
        .size = packed_get32(in + PACKED_AT_SIZE),
        .null_count = packed_get32(in + PACKED_AT_NULL_COUNT),
        .data_offset = packed_get64(in + PACKED_AT_DATA),
        .null_mask_offset = packed_get64(in + PACKED_AT_NULL_MASK),
        .num_children = packed_get32(in + PACKED_AT_CHILDREN),
    };
    return packed_get32(in + PACKED_AT_PAD) == 0;
}

/* Releases up to 23.04 wrote a null count of -1 into the entry that stands for the table. */
static bool packed_is_before_2306(const unsigned char *bytes)
{
    return packed_get32(bytes) == GMV_PACKED_HEADERLESS &&
           packed_get32(bytes + PACKED_AT_NULL_COUNT) == -1;
}

static gmv_status packed_read_stub(const unsigned char *bytes, gmv_packed_metadata *metadata,
                                   gmv_error *err)
{
    gmv_packed_entry stub;
    bool pad_is_zero = packed_get_entry(bytes, &stub);
    if (!pad_is_zero || stub.scale != 0 || stub.null_count < -1 || stub.null_count > 0 ||
        stub.data_offset != PACKED_NONE || stub.null_mask_offset != PACKED_NONE ||
        stub.num_children != 0)
        return packed_lie(err, "the first 40 bytes are not the table's entry of the headerless "
                               "layout: all but the column count is fixed there");
    metadata->version = GMV_PACKED_HEADERLESS;
    metadata->num_columns = stub.size;
    return GMV_OK;
}

static gmv_status packed_read_header(const unsigned char *bytes, gmv_packed_metadata *metadata,
                                     gmv_error *err)
{
    metadata->version = GMV_PACKED_VERSION;
    metadata->num_columns = packed_get32(bytes + 4);
    metadata->num_rows = packed_get32(bytes + 8);
    if (metadata->num_rows < 0)
        return packed_lie(err, "the header's row count is %" PRId32 "; it must be 0 or more",
                          metadata->num_rows);
    if (packed_get32(bytes + 12) != 0)
        return packed_lie(err, "the header's last four bytes are not 0");
    return GMV_OK;
}

/* Fills all but the entries; `*out_head` is the number of bytes before the first entry. */
static gmv_status packed_read_head(const unsigned char *bytes, size_t nbytes, size_t *out_head,
                                   gmv_packed_metadata *metadata, gmv_error *err)
{
    if (nbytes < sizeof(int32_t))
        return packed_lie(err, "the metadata has %zu bytes, too few for a header", nbytes);
    int32_t version = packed_get32(bytes);
    if (version != GMV_PACKED_VERSION && version != GMV_PACKED_HEADERLESS)
        return packed_lie(err,
                          "the metadata has version %" PRId32 "; version %d and the headerless "
                          "layout before it are read",
                          version, GMV_PACKED_VERSION);
    bool headerless = version == GMV_PACKED_HEADERLESS;
    size_t head = headerless ? GMV_PACKED_ENTRY_NBYTES : GMV_PACKED_HEADER_NBYTES;
    if (nbytes < head || (nbytes - head) % GMV_PACKED_ENTRY_NBYTES != 0)
        return packed_lie(err, "the metadata has %zu bytes; it must be %zu and a multiple of %d",
                          nbytes, head, GMV_PACKED_ENTRY_NBYTES);
    GMV_TRY(headerless ? packed_read_stub(bytes, metadata, err)
                       : packed_read_header(bytes, metadata, err));
    metadata->n_entries = (nbytes - head) / GMV_PACKED_ENTRY_NBYTES;
    if (metadata->num_columns < 0 || (size_t)metadata->num_columns > metadata->n_entries)
        return packed_lie(err, "the table's column count is %" PRId32 ", but there are %zu entries",
                          metadata->num_columns, metadata->n_entries);
    *out_head = head;
    return GMV_OK;
}

static gmv_status packed_read_entries(const unsigned char *bytes, gmv_packed_metadata *metadata,
                                      gmv_error *err)
{
    if (metadata->n_entries == 0)
        return GMV_OK;
    metadata->entries =
        (gmv_packed_entry *)gmv_calloc(metadata->n_entries, sizeof *metadata->entries);
    if (metadata->entries == NULL)
        return gmv_fail_no_memory(err);
    for (size_t i = 0; i < metadata->n_entries; i++)
        if (!packed_get_entry(bytes + i * GMV_PACKED_ENTRY_NBYTES, &metadata->entries[i]))
            return packed_lie(err, "entry %zu: the last four bytes are not 0", i);
    /* The headerless layout does not say how many rows there are; the columns do. */
    if (metadata->version == GMV_PACKED_HEADERLESS)
        metadata->num_rows = metadata->entries[0].size;
    return GMV_OK;
}

/* ---- reading: one entry by itself ---- */

/* Bytes of an entry's own data; 0 for characters as long as only the data knows their number. */
static int64_t packed_data_nbytes(const gmv_packed_entry *entry)
{
    if (entry->type_id == GMV_CUDF_STRING)
        return entry->characters;
    return (int64_t)entry->size * (int64_t)gmv_cudf_type_width(entry->type_id);
}

static int64_t packed_mask_nbytes(const gmv_packed_entry *entry)
{
    return 4 * gmv_bitmask_words(entry->size);
}

static gmv_status packed_check_counts(const packed_reader *reader, size_t i)
{
    const gmv_packed_entry *entry = &reader->metadata->entries[i];
    if (gmv_cudf_type_name(entry->type_id) == NULL)
        return packed_lie(reader->err, "entry %zu: there is no type id %" PRId32, i,
                          entry->type_id);
    if (entry->scale != 0 && !gmv_cudf_type_is_decimal(entry->type_id))
        return packed_lie(reader->err, "entry %zu: scale is %" PRId32 ", but %s has none", i,
                          entry->scale, gmv_cudf_type_name(entry->type_id));
    if (entry->size < 0)
        return packed_lie(reader->err, "entry %zu: size is %" PRId32 "; it must be 0 or more", i,
                          entry->size);
    if (entry->null_count < 0 || entry->null_count > entry->size)
        return packed_lie(reader->err,
                          "entry %zu: null_count is %" PRId32 "; it must be 0 to %" PRId32, i,
                          entry->null_count, entry->size);
    if (entry->null_count > 0 && entry->null_mask_offset == PACKED_NONE)
        return packed_lie(reader->err,
                          "entry %zu: null_count is %" PRId32 ", but there is no null mask", i,
                          entry->null_count);
    return GMV_OK;
}

static gmv_status packed_check_buffer(const packed_reader *reader, size_t i, const char *field,
                                      int64_t offset, int64_t nbytes, int64_t alignment)
{
    if (offset == PACKED_NONE)
        return GMV_OK;
    if (offset < 0)
        return packed_lie(reader->err, "entry %zu: %s is %" PRId64 "; it must be -1, or 0 or more",
                          i, field, offset);
    if (offset % alignment != 0)
        return packed_lie(reader->err, "entry %zu: %s is %" PRId64 ", not a multiple of %" PRId64,
                          i, field, offset, alignment);
    int64_t limit = reader->gpu_data_nbytes < 0 ? INT64_MAX : reader->gpu_data_nbytes;
    if (offset > limit || nbytes > limit - offset)
        return packed_lie(reader->err,
                          "entry %zu: %s is %" PRId64 ", and %" PRId64
                          " bytes from there do not fit into gpu_data of %" PRId64 " bytes",
                          i, field, offset, nbytes, limit);
    return GMV_OK;
}

static bool packed_has_own_data(int32_t type_id)
{
    return gmv_cudf_type_is_fixed_width(type_id) || type_id == GMV_CUDF_STRING;
}

static gmv_status packed_check_buffers(const packed_reader *reader, size_t i)
{
    const gmv_packed_entry *entry = &reader->metadata->entries[i];
    int64_t width = (int64_t)gmv_cudf_type_width(entry->type_id);
    GMV_TRY(packed_check_buffer(reader, i, "data_offset", entry->data_offset,
                                packed_data_nbytes(entry), GMV_MAX(width, 1)));
    GMV_TRY(packed_check_buffer(reader, i, "null_mask_offset", entry->null_mask_offset,
                                packed_mask_nbytes(entry), 4));
    if (entry->data_offset != PACKED_NONE && !packed_has_own_data(entry->type_id))
        return packed_lie(reader->err,
                          "entry %zu: data_offset is %" PRId64 ", but %s has no data of its own", i,
                          entry->data_offset, gmv_cudf_type_name(entry->type_id));
    if (entry->size > 0 && width > 0 && entry->data_offset == PACKED_NONE)
        return packed_lie(reader->err,
                          "entry %zu: data_offset is -1, but there are %" PRId32 " rows of %s", i,
                          entry->size, gmv_cudf_type_name(entry->type_id));
    return GMV_OK;
}

/* Before 24.02 characters were a child of their own, and only the headerless layout was there. */
static bool packed_is_old_string(const packed_reader *reader, const gmv_packed_entry *entry)
{
    return reader->metadata->version == GMV_PACKED_HEADERLESS &&
           entry->type_id == GMV_CUDF_STRING && entry->num_children == 2;
}

/* How many children a type has: all but STRUCT and STRING have an exact number. */
static gmv_status packed_check_child_count(const packed_reader *reader, size_t i)
{
    const gmv_packed_entry *entry = &reader->metadata->entries[i];
    bool right;
    switch (entry->type_id) {
    case GMV_CUDF_STRUCT:
        right = entry->num_children >= 0;
        break;
    case GMV_CUDF_LIST:
        right = entry->num_children == 2;
        break;
    case GMV_CUDF_STRING:
        right = entry->num_children == 1 || (entry->num_children == 0 && entry->size == 0) ||
                packed_is_old_string(reader, entry);
        break;
    case GMV_CUDF_EMPTY:
    case GMV_CUDF_DICTIONARY32:
        right =
            entry->num_children == 0 && entry->size == 0 && entry->null_mask_offset == PACKED_NONE;
        break;
    default:
        right = entry->num_children == 0;
        break;
    }
    if (!right)
        return packed_lie(reader->err,
                          "entry %zu: num_children is %" PRId32 " with %" PRId32
                          " rows, which %s cannot have",
                          i, entry->num_children, entry->size, gmv_cudf_type_name(entry->type_id));
    size_t left = reader->metadata->n_entries - i - 1;
    if ((size_t)entry->num_children > left)
        return packed_lie(reader->err,
                          "entry %zu: num_children is %" PRId32 ", but only %zu entries follow", i,
                          entry->num_children, left);
    return GMV_OK;
}

/* ---- reading: an entry in its place ---- */

static gmv_status packed_check_offsets_child(const packed_reader *reader, size_t i,
                                             const gmv_packed_entry *parent)
{
    const gmv_packed_entry *entry = &reader->metadata->entries[i];
    bool wide = entry->type_id == GMV_CUDF_INT64 && parent->type_id == GMV_CUDF_STRING;
    if (entry->type_id != GMV_CUDF_INT32 && !wide)
        return packed_lie(reader->err, "entry %zu: offsets of a %s column cannot be %s", i,
                          gmv_cudf_type_name(parent->type_id), gmv_cudf_type_name(entry->type_id));
    bool none = entry->size == 0 && parent->size == 0;
    if (!none && (int64_t)entry->size != (int64_t)parent->size + 1)
        return packed_lie(reader->err,
                          "entry %zu: there are %" PRId32 " offsets for %" PRId32
                          " rows; there must be one more",
                          i, entry->size, parent->size);
    if (entry->null_count != 0)
        return packed_lie(reader->err,
                          "entry %zu: offsets cannot be null, but null_count is %" PRId32, i,
                          entry->null_count);
    if (entry->null_mask_offset != PACKED_NONE)
        return packed_lie(reader->err,
                          "entry %zu: offsets have no null mask, but null_mask_offset is %" PRId64,
                          i, entry->null_mask_offset);
    return GMV_OK;
}

/* Elements or characters, of which there are none without offsets. */
static gmv_status packed_check_elements_child(const packed_reader *reader, size_t i,
                                              const gmv_packed_entry *parent)
{
    const gmv_packed_entry *entry = &reader->metadata->entries[i];
    /* Offsets are the first child and have none themselves, so they follow their parent. */
    if (parent[1].size == 0 && entry->size != 0)
        return packed_lie(reader->err,
                          "entry %zu: size is %" PRId32 ", but the %s around it has no offsets", i,
                          entry->size, gmv_cudf_type_name(parent->type_id));
    if (parent->type_id != GMV_CUDF_STRING)
        return GMV_OK;
    if (entry->type_id != GMV_CUDF_INT8)
        return packed_lie(reader->err, "entry %zu: characters cannot be %s", i,
                          gmv_cudf_type_name(entry->type_id));
    if (entry->null_mask_offset != PACKED_NONE)
        return packed_lie(
            reader->err,
            "entry %zu: characters have no null mask, but null_mask_offset is %" PRId64, i,
            entry->null_mask_offset);
    if (parent->data_offset != PACKED_NONE)
        return packed_lie(reader->err,
                          "entry %zu: the characters are a child, but the string around them has "
                          "data_offset %" PRId64,
                          i, parent->data_offset);
    return GMV_OK;
}

static gmv_status packed_check_place(const packed_reader *reader, size_t i)
{
    const packed_level *level = &reader->levels[reader->depth - 1];
    const gmv_packed_entry *entry = &reader->metadata->entries[i];
    const gmv_packed_entry *parent = level->parent;
    if (parent == NULL && entry->size != reader->metadata->num_rows)
        return packed_lie(reader->err,
                          "entry %zu: size is %" PRId32 ", but the table has %" PRId32 " rows", i,
                          entry->size, reader->metadata->num_rows);
    if (parent == NULL)
        return GMV_OK;
    if (parent->type_id == GMV_CUDF_STRUCT && entry->size != parent->size)
        return packed_lie(reader->err,
                          "entry %zu: size is %" PRId32 ", but the struct around it has %" PRId32
                          " rows",
                          i, entry->size, parent->size);
    if (parent->type_id == GMV_CUDF_STRUCT)
        return GMV_OK;
    return level->n_read == 0 ? packed_check_offsets_child(reader, i, parent)
                              : packed_check_elements_child(reader, i, parent);
}

/* Steps into the children of entry i, or out of every level that is complete. */
static gmv_status packed_descend(packed_reader *reader, size_t i)
{
    const gmv_packed_entry *entry = &reader->metadata->entries[i];
    reader->levels[reader->depth - 1].n_read++;
    if (entry->num_children > 0) {
        if (reader->depth == GMV_PACKED_DEPTH_MAX)
            return packed_lie(reader->err, "entry %zu: columns are nested deeper than %d levels", i,
                              GMV_PACKED_DEPTH_MAX);
        reader->levels[reader->depth++] = (packed_level){entry, 0, entry->num_children};
    }
    while (reader->depth > 0 &&
           reader->levels[reader->depth - 1].n_read == reader->levels[reader->depth - 1].n_children)
        reader->depth--;
    return GMV_OK;
}

static gmv_status packed_check_tree(packed_reader *reader)
{
    const gmv_packed_metadata *metadata = reader->metadata;
    reader->depth = metadata->num_columns > 0;
    reader->levels[0] = (packed_level){NULL, 0, metadata->num_columns};
    for (size_t i = 0; i < metadata->n_entries; i++) {
        if (reader->depth == 0)
            return packed_lie(reader->err, "entry %zu: all columns are complete before it", i);
        GMV_TRY(packed_check_counts(reader, i));
        GMV_TRY(packed_check_buffers(reader, i));
        GMV_TRY(packed_check_child_count(reader, i));
        GMV_TRY(packed_check_place(reader, i));
        GMV_TRY(packed_descend(reader, i));
        reader->has_old_strings |= packed_is_old_string(reader, &metadata->entries[i]);
    }
    if (reader->depth > 0)
        return packed_lie(reader->err, "the %zu entries end within a column", metadata->n_entries);
    return GMV_OK;
}

/* ---- reading: buffers apart from each other ---- */

/* The buffers of an entry that hold bytes, and the place of characters. Returns how many. */
static size_t packed_entry_ranges(const gmv_packed_metadata *metadata, size_t i,
                                  packed_range out_ranges[2])
{
    const gmv_packed_entry *entry = &metadata->entries[i];
    size_t n = 0;
    if (entry->null_mask_offset != PACKED_NONE && entry->size > 0)
        out_ranges[n++] = (packed_range){entry->null_mask_offset,
                                         entry->null_mask_offset + packed_mask_nbytes(entry), i};
    if (entry->data_offset != PACKED_NONE && entry->size > 0)
        out_ranges[n++] =
            (packed_range){entry->data_offset, entry->data_offset + packed_data_nbytes(entry), i};
    return n;
}

/* A point goes before a range that begins there, so that it never seems to lie inside it. */
static bool packed_range_less(const packed_range *a, const packed_range *b)
{
    return a->begin != b->begin ? a->begin < b->begin : a->end < b->end;
}

static void packed_sift_down(packed_range *ranges, size_t root, size_t n)
{
    packed_range moved = ranges[root];
    for (size_t child; (child = 2 * root + 1) < n; root = child) {
        if (child + 1 < n && packed_range_less(&ranges[child], &ranges[child + 1]))
            child++;
        if (!packed_range_less(&moved, &ranges[child]))
            break;
        ranges[root] = ranges[child];
    }
    ranges[root] = moved;
}

/* Heapsort: no memory beside, no order of input that makes it slow. */
static void packed_sort_ranges(packed_range *ranges, size_t n)
{
    for (size_t root = n / 2; root-- > 0;)
        packed_sift_down(ranges, root, n);
    for (size_t last = n; last-- > 1;) {
        packed_range largest = ranges[0];
        ranges[0] = ranges[last];
        ranges[last] = largest;
        packed_sift_down(ranges, 0, last);
    }
}

/* Whether the buffers lie in the order that packing writes them in, which needs no sorting. */
static bool packed_ranges_ascend(const gmv_packed_metadata *metadata)
{
    int64_t end = 0;
    for (size_t i = 0; i < metadata->n_entries; i++) {
        packed_range ranges[2];
        size_t n = packed_entry_ranges(metadata, i, ranges);
        for (size_t j = 0; j < n; j++) {
            if (ranges[j].begin < end)
                return false;
            end = ranges[j].end;
        }
    }
    return true;
}

static gmv_status packed_check_sorted(const packed_range *ranges, size_t n, gmv_error *err)
{
    for (size_t i = 1; i < n; i++) {
        if (ranges[i].begin < ranges[i - 1].end)
            return packed_lie(err,
                              "entry %zu: the buffer at offset %" PRId64
                              " overlaps that at %" PRId64 " of entry %zu",
                              ranges[i].entry, ranges[i].begin, ranges[i - 1].begin,
                              ranges[i - 1].entry);
    }
    return GMV_OK;
}

gmv_status gmv_packed_metadata_check_apart(const gmv_packed_metadata *metadata, gmv_error *err)
{
    if (packed_ranges_ascend(metadata))
        return GMV_OK;
    packed_range *ranges = (packed_range *)gmv_calloc(metadata->n_entries, 2 * sizeof *ranges);
    if (ranges == NULL)
        return gmv_fail_no_memory(err);
    size_t n = 0;
    for (size_t i = 0; i < metadata->n_entries; i++)
        n += packed_entry_ranges(metadata, i, ranges + n);
    packed_sort_ranges(ranges, n);
    gmv_status status = packed_check_sorted(ranges, n, err);
    gmv_free(ranges);
    return status;
}

/* ---- reading: what earlier releases wrote differently ---- */

/* What speaks for either meaning of id 27 in one piece of metadata. */
typedef struct packed_id_27 {
    size_t first_struct;  /* entry */
    size_t first_decimal; /* entry */
    size_t first_open;    /* entry that may be either: no rows, no children, no scale */
    bool has_struct, has_decimal, has_open;
} packed_id_27;

static void packed_weigh_id_27(packed_id_27 *evidence, const gmv_packed_entry *entry, size_t i)
{
    /* STRUCT is 28 wherever 27 is DECIMAL128. */
    bool is_decimal = entry->type_id == GMV_CUDF_STRUCT;
    bool is_struct = false;
    if (entry->type_id == GMV_CUDF_DECIMAL128) {
        is_struct = entry->num_children != 0 || (entry->size > 0 && entry->data_offset < 0);
        is_decimal = !is_struct && (entry->data_offset >= 0 || entry->scale != 0);
        if (!is_struct && !is_decimal && !evidence->has_open) {
            evidence->has_open = true;
            evidence->first_open = i;
        }
    }
    if (is_struct && !evidence->has_struct) {
        evidence->has_struct = true;
        evidence->first_struct = i;
    }
    if (is_decimal && !evidence->has_decimal) {
        evidence->has_decimal = true;
        evidence->first_decimal = i;
    }
}

/*
 * Releases that wrote -1 into the table's entry (up to 23.04) may be of before 21.12, when id 27
 * was STRUCT. One release wrote all entries, so one that can be told apart decides for all.
 */
static gmv_status packed_decide_id_27(gmv_packed_metadata *metadata, gmv_error *err)
{
    packed_id_27 evidence = {0};
    for (size_t i = 0; i < metadata->n_entries; i++)
        packed_weigh_id_27(&evidence, &metadata->entries[i], i);
    if (evidence.has_struct && evidence.has_decimal)
        return packed_lie(err,
                          "entry %zu: type id 27 is STRUCT here, as up to release 21.10, but entry "
                          "%zu is of a later release",
                          evidence.first_struct, evidence.first_decimal);
    if (evidence.has_open && !evidence.has_struct && !evidence.has_decimal)
        return packed_lie(err,
                          "entry %zu: type id 27 is STRUCT up to release 21.10 and DECIMAL128 "
                          "later, and without rows and children nothing tells which it is; pack "
                          "the table with a later release",
                          evidence.first_open);
    for (size_t i = 0; evidence.has_struct && i < metadata->n_entries; i++) {
        if (metadata->entries[i].type_id == GMV_CUDF_DECIMAL128)
            metadata->entries[i].type_id = GMV_CUDF_STRUCT;
    }
    return GMV_OK;
}

/* Moves the characters of old strings from their second child into the string itself. */
static void packed_join_characters(gmv_packed_metadata *metadata)
{
    gmv_packed_entry *entries = metadata->entries;
    size_t n = 0;
    size_t skipped = SIZE_MAX; /* the characters of the string just seen */
    for (size_t i = 0; i < metadata->n_entries; i++) {
        if (i == skipped)
            continue;
        gmv_packed_entry entry = entries[i];
        if (entry.type_id == GMV_CUDF_STRING && entry.num_children == 2) {
            skipped = i + 2;
            entry.num_children = 1;
            entry.characters = entries[skipped].size;
            entry.data_offset = entry.characters > 0 ? entries[skipped].data_offset : PACKED_NONE;
        }
        entries[n++] = entry;
    }
    metadata->n_entries = n;
}

/* ---- reading: all of it ---- */

static gmv_status packed_read_all(const unsigned char *bytes, size_t nbytes,
                                  int64_t gpu_data_nbytes, gmv_packed_metadata *metadata,
                                  gmv_error *err)
{
    size_t head = 0;
    GMV_TRY(packed_read_head(bytes, nbytes, &head, metadata, err));
    GMV_TRY(packed_read_entries(bytes + head, metadata, err));
    if (packed_is_before_2306(bytes))
        GMV_TRY(packed_decide_id_27(metadata, err));
    packed_reader reader = {
        .metadata = metadata,
        .gpu_data_nbytes = gpu_data_nbytes,
        .err = err,
    };
    GMV_TRY(packed_check_tree(&reader));
    GMV_TRY(gmv_packed_metadata_check_apart(metadata, err));
    if (reader.has_old_strings)
        packed_join_characters(metadata);
    return GMV_OK;
}

gmv_status gmv_packed_metadata_decode(const void *bytes, size_t nbytes, int64_t gpu_data_nbytes,
                                      gmv_packed_metadata *out_metadata, gmv_error *err)
{
    gmv_packed_metadata metadata = {.version = GMV_PACKED_VERSION};
    if (nbytes == 0) {
        if (gpu_data_nbytes > 0)
            return packed_lie(err,
                              "the metadata is empty, which stands for no columns and no rows, "
                              "but gpu_data has %" PRId64 " bytes",
                              gpu_data_nbytes);
        *out_metadata = metadata;
        return GMV_OK;
    }
    gmv_status status =
        packed_read_all((const unsigned char *)bytes, nbytes, gpu_data_nbytes, &metadata, err);
    if (status != GMV_OK) {
        gmv_packed_metadata_fini(&metadata);
        return status;
    }
    *out_metadata = metadata;
    return GMV_OK;
}
