/* SPDX-License-Identifier: Apache-2.0 */
/* From bits to bits, and from bits to numbers. */
#ifndef GMV_DEVICE_CUDA_KERNELS_MASKS_H
#define GMV_DEVICE_CUDA_KERNELS_MASKS_H

#include "device/cuda/kernels/bits.cuh"
#include "device/cuda/kernels/sums.cuh"

/* ---- combining ---- */

DEVICE void pieces_combine(block16 *pieces, const block16 *more, bool is_or)
{
    UNROLL
    for (uint32_t i = 0; i < GMV_CUDA_PIECES; i++) {
        pieces[i].low = is_or ? pieces[i].low | more[i].low : pieces[i].low & more[i].low;
        pieces[i].high = is_or ? pieces[i].high | more[i].high : pieces[i].high & more[i].high;
    }
}

KERNEL(combine_bits, cuda_combine_args)
{
    uint64_t first = block_index() * (GMV_CUDA_THREADS * GMV_CUDA_PIECES) + thread_index();
    block16 pieces[GMV_CUDA_PIECES], more[GMV_CUDA_PIECES];
    UNROLL
    for (uint32_t i = 0; i < GMV_CUDA_PIECES; i++)
        pieces[i].low = pieces[i].high = args.is_or ? 0 : UINT64_MAX;
    for (uint32_t input = 0; input < args.n_inputs; input++) {
        bit_source source = source_of(args.inputs[input], args.n);
        if (source.blocks) {
            SOURCE_PIECES(source, first, GMV_CUDA_THREADS, GMV_CUDA_PIECES, more);
        } else {
            UNROLL
            for (uint32_t i = 0; i < GMV_CUDA_PIECES; i++)
                more[i].low = more[i].high = UINT64_MAX;
        }
        pieces_combine(pieces, more, args.is_or);
    }
    result_add(args.set_count, pieces_store(pieces, first, GMV_CUDA_THREADS, args.n, args.output,
                                            args.output_nbytes));
}

/* The first and the last byte of a range, of which some bits stay. */
KERNEL(set_edges, cuda_edges_args)
{
    uint32_t edge = thread_index();
    if (block_index() != 0 || edge >= 2 || args.addresses[edge] == 0)
        return;
    uint8_t byte = load8(args.addresses[edge]);
    byte = (uint8_t)(args.valid ? byte | args.masks[edge] : byte & ~args.masks[edge]);
    store8(args.addresses[edge], byte);
}

/* ---- counting and finding ---- */

/* The blocks are counted where they lie: nothing is shifted, only the ends are cut off. */
KERNEL(count_bits, cuda_scan_args)
{
    uint64_t first = block_index() * (GMV_CUDA_THREADS * GMV_CUDA_SCAN_PIECES) + thread_index();
    bit_source source = source_of(args.bits, args.n);
    uint64_t end = source.shift + args.n;
    block16 blocks[GMV_CUDA_SCAN_PIECES];
    uint32_t ones = 0;
    SOURCE_BLOCKS(source, first, GMV_CUDA_THREADS, GMV_CUDA_SCAN_PIECES, blocks);
    if (first == 0 || !pieces_inside(first, GMV_CUDA_THREADS, GMV_CUDA_SCAN_PIECES, end)) {
        UNROLL
        for (uint32_t i = 0; i < GMV_CUDA_SCAN_PIECES; i++)
            blocks[i] = block_clip(blocks[i], first + i * GMV_CUDA_THREADS, source.shift, end);
    }
    UNROLL
    for (uint32_t i = 0; i < GMV_CUDA_SCAN_PIECES; i++)
        ones += block_ones(blocks[i]);
    result_add(args.result, ones);
}

/* What is looked for is the largest distance of a one from the end: 0 is then "none". */
KERNEL(find_bit, cuda_scan_args)
{
    uint64_t tile = block_index() * (GMV_CUDA_THREADS * GMV_CUDA_SCAN_PIECES);
    uint64_t first = tile + thread_index(), best = 0;
    bit_source source = source_of(args.bits, args.n);
    block16 pieces[GMV_CUDA_SCAN_PIECES];
    if (result_largest_so_far(args.result) + 128 * tile < args.n) {
        uint64_t any = 0;
        SOURCE_PIECES(source, first, GMV_CUDA_THREADS, GMV_CUDA_SCAN_PIECES, pieces);
        UNROLL
        for (uint32_t i = 0; i < GMV_CUDA_SCAN_PIECES; i++)
            any |= pieces[i].low | pieces[i].high;
        if (any) {
            UNROLL
            for (uint32_t i = 0; i < GMV_CUDA_SCAN_PIECES; i++) {
                uint64_t piece = first + i * GMV_CUDA_THREADS;
                block16 value = piece_clip(pieces[i], piece, args.n);
                if ((value.low | value.high) && best == 0)
                    best = args.n - 128 * piece -
                           (value.low ? lowest_one(value.low) : 64 + lowest_one(value.high));
            }
        }
    }
    result_subtract_largest(args.result, args.n, best);
}

#endif
