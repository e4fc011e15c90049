/* SPDX-License-Identifier: Apache-2.0 */
/* What looking inside arrays has found, as the JSON of the HTTP contract. */
#ifndef GMV_CODEC_ENCODE_INSPECT_H
#define GMV_CODEC_ENCODE_INSPECT_H

#include <gmv/ops/inspect.h>

#include "codec/json_writer.h"

void gmv_encode_statistics(gmv_json_writer *writer, const gmv_statistics *statistics);
void gmv_encode_histogram(gmv_json_writer *writer, const gmv_histogram *histogram);
void gmv_encode_checksum(gmv_json_writer *writer, const gmv_checksum_request *request,
                         const gmv_checksum *checksum);
void gmv_encode_comparison(gmv_json_writer *writer, const gmv_comparison *comparison);

/* "crc32c", "xxh64_tree", "xxh3_tree", ends with NULL: by gmv_checksum_algorithm. */
extern const char *const gmv_checksum_algorithm_names[];

#endif
