/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels that make a few numbers of many elements, for the table of all kernels. */
#ifndef GMV_TESTS_FAKE_CUDA_FAKE_REDUCTIONS_H
#define GMV_TESTS_FAKE_CUDA_FAKE_REDUCTIONS_H

#include "fake_cuda/fake_priv.h"

#define FAKE_REDUCTION(name, type) \
    void run_##name(fake_access *access, const void *arguments, uint64_t blocks);

GMV_CUDA_ELEMENT_ROWS(FAKE_REDUCTION, statistics, cuda_statistics_args)
GMV_CUDA_ELEMENT_ROWS(FAKE_REDUCTION, compare, cuda_compare_args)
FAKE_REDUCTION(merge_statistics, cuda_merge_args)
FAKE_REDUCTION(compare_c8, cuda_compare_args)
FAKE_REDUCTION(compare_c16, cuda_compare_args)
FAKE_REDUCTION(merge_comparisons, cuda_merge_args)
FAKE_REDUCTION(histogram, cuda_histogram_args)
FAKE_REDUCTION(hash_xxh64, cuda_hash_args)
FAKE_REDUCTION(hash_xxh3, cuda_hash_args)
FAKE_REDUCTION(crc32c, cuda_crc_args)

#endif
