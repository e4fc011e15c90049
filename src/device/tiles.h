/* SPDX-License-Identifier: Apache-2.0 */
/* How reductions cut an array: the same on every backend, so that they round alike. */
#ifndef GMV_DEVICE_TILES_H
#define GMV_DEVICE_TILES_H

#include <stdint.h>

#define REDUCTION_THREADS 256u
#define REDUCTION_MERGE   2048u /* partials that one block makes one of */

/* Elements for each thread of a tile: 256 bytes of them. */
static inline uint32_t reduction_pieces(uint64_t itemsize)
{
    return (uint32_t)(256 / itemsize);
}

static inline uint64_t reduction_tiles(uint64_t n, uint32_t pieces)
{
    uint64_t tile = (uint64_t)REDUCTION_THREADS * pieces;
    return n / tile + (n % tile != 0);
}

static inline uint64_t reduction_merged(uint64_t partials)
{
    return partials / REDUCTION_MERGE + (partials % REDUCTION_MERGE != 0);
}

#endif
