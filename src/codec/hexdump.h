/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes as text for people, line for line what `xxd` prints. */
#ifndef GMV_CODEC_HEXDUMP_H
#define GMV_CODEC_HEXDUMP_H

#include <gmv/base/strbuf.h>

/* `offset` is that of the first byte: lines are named by it and start there. */
void gmv_hexdump_write(gmv_strbuf *out, uint64_t offset, const void *bytes, size_t nbytes);

#endif
