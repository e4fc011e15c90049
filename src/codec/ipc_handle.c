/* SPDX-License-Identifier: Apache-2.0 */
/*
 * IPC handles. PyTorch's storages say in a first byte which version wrote them and in a second how
 * the memory was made: only cudaMalloc's has a legacy handle behind it.
 */
#include "codec/ipc_handle.h"

#include <string.h>

#include "codec/base64.h"

#define PREFIX_NBYTES      2
#define PREFIX_VERSION_MIN 2
#define PREFIX_VERSION_MAX 3
#define PREFIX_CUDA_MALLOC 'c'
#define PREFIX_EXPANDABLE  'e'
#define HANDLE_TEXT_MAX    88 /* base64 of 66 bytes */

/* Bytes that the text spells, at most GMV_IPC_HANDLE_NBYTES + PREFIX_NBYTES; else false. */
static bool handle_decode(const char *text, size_t length, uint8_t *out, size_t *out_nbytes)
{
    return length <= HANDLE_TEXT_MAX && gmv_base64_decode(text, length, out, out_nbytes);
}

static gmv_status handle_check_prefix(const uint8_t *prefix, const char *pointer, gmv_error *err)
{
    bool is_known = prefix[0] >= PREFIX_VERSION_MIN && prefix[0] <= PREFIX_VERSION_MAX;
    if (is_known && prefix[1] == PREFIX_CUDA_MALLOC)
        return GMV_OK;
    if (is_known && prefix[1] == PREFIX_EXPANDABLE)
        return gmv_fail(err, GMV_ERR_HANDLE_INVALID, pointer,
                        "the memory lies in an expandable segment, which legacy IPC handles cannot "
                        "carry; switch expandable segments off in the exporter, or copy the data "
                        "to memory of cudaMalloc");
    return gmv_fail(err, GMV_ERR_HANDLE_INVALID, pointer,
                    "the two bytes in front of the handle are none that are known; give the 64 "
                    "bytes of cudaIpcGetMemHandle");
}

gmv_status gmv_ipc_handle_read(const char *text, size_t length, const char *pointer,
                               uint8_t out_handle[GMV_IPC_HANDLE_NBYTES], gmv_error *err)
{
    uint8_t bytes[HANDLE_TEXT_MAX / 4 * 3];
    size_t nbytes = 0;
    bool is_plain = handle_decode(text, length, bytes, &nbytes);
    bool is_prefixed = nbytes == GMV_IPC_HANDLE_NBYTES + PREFIX_NBYTES;
    if (!is_plain || (nbytes != GMV_IPC_HANDLE_NBYTES && !is_prefixed))
        return gmv_fail(err, GMV_ERR_HANDLE_INVALID, pointer,
                        "a handle is the 64 bytes of cudaIpcGetMemHandle in base64 with the "
                        "standard alphabet and padding");
    if (is_prefixed)
        GMV_TRY(handle_check_prefix(bytes, pointer, err));
    memcpy(out_handle, bytes + (is_prefixed ? PREFIX_NBYTES : 0), GMV_IPC_HANDLE_NBYTES);
    return GMV_OK;
}

gmv_status gmv_ipc_event_read(const char *text, size_t length, const char *pointer,
                              uint8_t out_handle[GMV_IPC_HANDLE_NBYTES], gmv_error *err)
{
    uint8_t bytes[HANDLE_TEXT_MAX / 4 * 3];
    size_t nbytes = 0;
    if (!handle_decode(text, length, bytes, &nbytes) || nbytes != GMV_IPC_HANDLE_NBYTES)
        return gmv_fail(err, GMV_ERR_HANDLE_INVALID, pointer,
                        "an event is the 64 bytes of cudaIpcGetEventHandle in base64 with the "
                        "standard alphabet and padding");
    memcpy(out_handle, bytes, GMV_IPC_HANDLE_NBYTES);
    return GMV_OK;
}
