/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checksums of the logical bytes. The device makes a number of each tile or block, the host joins
 * them as they come; only a last block that is not full is copied out whole.
 */
#define XXH_STATIC_LINKING_ONLY /* states without memory of their own */
#include <xxhash.h>

#include <gmv/base/alloc.h>
#include <gmv/base/num.h>

#include "ops/inspect_priv.h"

#define CHECKSUM_ALIGNMENT 16
#define PART_BLOCKS_MAX    (INT64_C(1) << 20)

/* ---- CRC-32C ---- */

/* The register after n bytes more, whose tiles' registers are `tiles`. */
static uint32_t crc_join(uint32_t crc, const gmv_crc32c_shifter *shifter, const uint32_t *tiles,
                         uint64_t nbytes)
{
    for (; nbytes >= GMV_CRC_TILE; nbytes -= GMV_CRC_TILE)
        crc = gmv_crc32c_shifter_apply(shifter, crc) ^ *tiles++;
    return nbytes ? gmv_crc32c_shift(crc, nbytes) ^ *tiles : crc;
}

static gmv_status crc_run(gmv_pass *pass, const gmv_subject *subject, uint32_t *tiles,
                          uint64_t *out_value, gmv_error *err)
{
    gmv_crc32c_shifter shifter;
    uint32_t crc = UINT32_MAX;
    gmv_crc32c_shifter_init(&shifter, GMV_CRC_TILE);
    for (int64_t first = 0, n; first < subject->size; first += n) {
        gmv_part part;
        n = GMV_MIN(pass->n_max, subject->size - first);
        uint64_t nbytes = (uint64_t)(n * subject->itemsize);
        uint64_t n_tiles = nbytes / GMV_CRC_TILE + (nbytes % GMV_CRC_TILE != 0);
        GMV_TRY(gmv__pass_load(pass, first, n, &part, err));
        gmv_crc32c args = {.input = part.address, .nbytes = nbytes, .output = pass->own};
        GMV_TRY(gmv_kernel_crc32c(pass->draft.stream, &args, err));
        GMV_TRY(gmv_copy_out(pass->draft.stream, tiles, pass->own, n_tiles * sizeof *tiles, err));
        GMV_TRY(gmv_stream_finish(pass->draft.stream, err));
        crc = crc_join(crc, &shifter, tiles, nbytes);
    }
    *out_value = (uint32_t)~crc;
    return GMV_OK;
}

static gmv_status crc_make(gmv_operation *operation, const gmv_subject *subject,
                           gmv_checksum *checksum, gmv_error *err)
{
    gmv_pass pass;
    int64_t n_max = gmv__pass_part_max(subject, 1, CHECKSUM_ALIGNMENT, 1);
    uint64_t nbytes = ((uint64_t)(n_max * subject->itemsize) / GMV_CRC_TILE + 1) * sizeof(uint32_t);
    if (subject->size == 0)
        return GMV_OK; /* the checksum of nothing is 0 */
    uint32_t *tiles = gmv_malloc((size_t)nbytes);
    if (!tiles)
        return gmv_fail_no_memory(err);
    gmv_status status =
        gmv__pass_begin(&pass, operation, subject, 1, CHECKSUM_ALIGNMENT, n_max, nbytes, err);
    if (status == GMV_OK)
        status = gmv__pass_end(&pass, crc_run(&pass, subject, tiles, &checksum->value, err), err);
    gmv_free(tiles);
    return status;
}

/* ---- trees ---- */

/* The hash of the blocks' hashes, as they come, and the hashes themselves where they are listed. */
typedef struct hash_tree {
    gmv_hash hash;
    uint64_t block_nbytes;
    gmv_checksum *checksum;
    uint64_t n_done;
    uint64_t *hashes; /* of one part */
    uint8_t *rest;    /* bytes of a block that is not full */
    XXH64_state_t xxh64;
    XXH3_state_t xxh3;
} hash_tree;

static void tree_add(hash_tree *tree, const uint64_t *hashes, uint64_t n)
{
    if (tree->hash == GMV_HASH_XXH3)
        (void)XXH3_64bits_update(&tree->xxh3, hashes, n * sizeof *hashes);
    else
        (void)XXH64_update(&tree->xxh64, hashes, n * sizeof *hashes);
    for (uint64_t i = 0; tree->checksum->blocks && i < n; i++)
        tree->checksum->blocks[tree->n_done + i] = hashes[i];
    tree->n_done += n;
}

static gmv_status tree_part(hash_tree *tree, gmv_pass *pass, int64_t first, int64_t n,
                            gmv_error *err)
{
    gmv_part part;
    gmv_stream *stream = pass->draft.stream;
    uint64_t nbytes = (uint64_t)(n * pass->subjects[0]->itemsize);
    uint64_t n_blocks = nbytes / tree->block_nbytes, rest = nbytes % tree->block_nbytes;
    GMV_TRY(gmv__pass_load(pass, first, n, &part, err));
    gmv_hash_blocks args = {
        .hash = tree->hash,
        .input = part.address,
        .block_nbytes = tree->block_nbytes,
        .n = (int64_t)n_blocks,
        .output = pass->own,
    };
    GMV_TRY(gmv_kernel_hash_blocks(stream, &args, err));
    GMV_TRY(gmv_copy_out(stream, tree->hashes, pass->own, n_blocks * sizeof(uint64_t), err));
    GMV_TRY(
        gmv_copy_out(stream, tree->rest, part.address + n_blocks * tree->block_nbytes, rest, err));
    GMV_TRY(gmv_stream_finish(stream, err));
    if (rest)
        tree->hashes[n_blocks++] = gmv_hash_bytes(tree->hash, tree->rest, (size_t)rest);
    tree_add(tree, tree->hashes, n_blocks);
    return GMV_OK;
}

static gmv_status tree_run(hash_tree *tree, gmv_pass *pass, const gmv_subject *subject,
                           gmv_error *err)
{
    for (int64_t first = 0, n; first < subject->size; first += n) {
        n = GMV_MIN(pass->n_max, subject->size - first);
        GMV_TRY(tree_part(tree, pass, first, n, err));
    }
    return GMV_OK;
}

static gmv_status tree_pass(hash_tree *tree, gmv_operation *operation, const gmv_subject *subject,
                            gmv_error *err)
{
    gmv_pass pass;
    int64_t unit = (int64_t)tree->block_nbytes / subject->itemsize;
    int64_t n_max = gmv__pass_part_max(subject, 1, CHECKSUM_ALIGNMENT, unit);
    n_max = GMV_MIN(n_max, PART_BLOCKS_MAX * unit);
    uint64_t hashes_nbytes = ((uint64_t)(n_max / unit) + 1) * sizeof(uint64_t);
    if (subject->size == 0)
        return GMV_OK;
    tree->hashes = gmv_malloc((size_t)hashes_nbytes);
    tree->rest = gmv_malloc((size_t)tree->block_nbytes);
    if (!tree->hashes || !tree->rest)
        return gmv_fail_no_memory(err);
    GMV_TRY(gmv__pass_begin(&pass, operation, subject, 1, CHECKSUM_ALIGNMENT, n_max, hashes_nbytes,
                            err));
    return gmv__pass_end(&pass, tree_run(tree, &pass, subject, err), err);
}

static gmv_status tree_make(gmv_operation *operation, const gmv_subject *subject,
                            const gmv_checksum_request *request, gmv_checksum *checksum,
                            gmv_error *err)
{
    hash_tree tree = {
        .hash = request->algorithm == GMV_CHECKSUM_XXH3_TREE ? GMV_HASH_XXH3 : GMV_HASH_XXH64,
        .block_nbytes = (uint64_t)request->block_nbytes,
        .checksum = checksum,
    };
    (void)XXH64_reset(&tree.xxh64, 0);
    (void)XXH3_64bits_reset(&tree.xxh3);
    gmv_status status = tree_pass(&tree, operation, subject, err);
    checksum->value =
        tree.hash == GMV_HASH_XXH3 ? XXH3_64bits_digest(&tree.xxh3) : XXH64_digest(&tree.xxh64);
    gmv_free(tree.hashes);
    gmv_free(tree.rest);
    return status;
}

/* ---- both ---- */

static gmv_status request_check(const gmv_checksum_request *request, uint64_t nbytes,
                                gmv_checksum *checksum, gmv_error *err)
{
    if (request->algorithm == GMV_CHECKSUM_CRC32C)
        return GMV_OK;
    if (request->block_nbytes < GMV_HASH_BLOCK_MIN || request->block_nbytes > GMV_HASH_BLOCK_MAX ||
        request->block_nbytes % 64 != 0)
        return gmv_fail(err, GMV_ERR_VALUE, "/block_nbytes",
                        "a block has a multiple of 64 bytes, %d to %d", GMV_HASH_BLOCK_MIN,
                        GMV_HASH_BLOCK_MAX);
    uint64_t block_nbytes = (uint64_t)request->block_nbytes;
    checksum->n_blocks = nbytes / block_nbytes + (nbytes % block_nbytes != 0);
    if (!request->list_blocks)
        return GMV_OK;
    if (checksum->n_blocks > GMV_CHECKSUM_LISTED_MAX)
        return gmv_fail(err, GMV_ERR_VALUE, "/blocks",
                        "%llu blocks are too many to list, at most %d are; take larger ones",
                        (unsigned long long)checksum->n_blocks, GMV_CHECKSUM_LISTED_MAX);
    checksum->blocks = gmv_calloc((size_t)checksum->n_blocks + 1, sizeof(uint64_t));
    return checksum->blocks ? GMV_OK : gmv_fail_no_memory(err);
}

gmv_status gmv_inspect_checksum(gmv_operation *operation, gmv_node *subject_node,
                                const gmv_checksum_request *request, gmv_checksum *out_checksum,
                                gmv_error *err)
{
    gmv_subject subject;
    GMV_TRY(gmv__subject_describe(operation, subject_node, NULL, &subject, err));
    subject.n_masks = 0; /* the bytes are there, valid or not */
    gmv_checksum checksum = {.nbytes = gmv__subject_nbytes(&subject)};
    GMV_TRY(gmv_operation_weigh(operation, checksum.nbytes, err));
    gmv_status status = request_check(request, checksum.nbytes, &checksum, err);
    if (status == GMV_OK && request->algorithm == GMV_CHECKSUM_CRC32C)
        status = crc_make(operation, &subject, &checksum, err);
    else if (status == GMV_OK)
        status = tree_make(operation, &subject, request, &checksum, err);
    if (status != GMV_OK) {
        gmv_checksum_fini(&checksum);
        return status;
    }
    *out_checksum = checksum;
    return GMV_OK;
}

void gmv_checksum_fini(gmv_checksum *checksum)
{
    gmv_free(checksum->blocks);
    checksum->blocks = NULL;
}
