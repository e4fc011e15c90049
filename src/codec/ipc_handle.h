/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA IPC handles as texts: 64 opaque bytes in plain base64, which no message ever repeats. */
#ifndef GMV_CODEC_IPC_HANDLE_H
#define GMV_CODEC_IPC_HANDLE_H

#include <gmv/device/device.h>

/*
 * Reads a memory handle, bare or behind the two bytes that PyTorch puts in front of it.
 *
 * @retval GMV_ERR_HANDLE_INVALID  with `pointer`
 */
GMV_NODISCARD gmv_status gmv_ipc_handle_read(const char *text, size_t length, const char *pointer,
                                             uint8_t out_handle[GMV_IPC_HANDLE_NBYTES],
                                             gmv_error *err);

/* The same for the handle of an event, which is always bare. */
GMV_NODISCARD gmv_status gmv_ipc_event_read(const char *text, size_t length, const char *pointer,
                                            uint8_t out_handle[GMV_IPC_HANDLE_NBYTES],
                                            gmv_error *err);

#endif
