# SPDX-License-Identifier: Apache-2.0
"""Numba as the owner of memory: get_ipc_handle gives handle, size and offset."""

import ctypes

import numpy
from numba import cuda

from recipes import content
from service import Driver, encode, serve


def handle_bytes(handle):
    """The 64 bytes in whatever form this release keeps them."""
    reserved = getattr(handle, "reserved", handle)
    if isinstance(reserved, (bytes, bytearray)):
        raw = bytes(reserved)
    elif isinstance(reserved, ctypes.Structure):
        raw = bytes(reserved)
    else:
        raw = bytes(item & 255 if isinstance(item, int) else ord(item) for item in reserved)
    if len(raw) != 64:
        raise ValueError(f"{type(handle)}: {len(raw)} bytes")
    return raw


class Worker:
    def __init__(self):
        cuda.to_device(numpy.zeros(1))
        self.driver = Driver()
        self.arrays = []

    def make(self, dtype, shape, begin=0, step=1, seed=0):
        source = content(dtype, shape, seed)
        whole = cuda.to_device(source)
        array = whole[begin::step]
        shared = array.get_ipc_handle() if array.is_c_contiguous() else whole.get_ipc_handle()
        cuda.synchronize()
        ipc = shared._ipc_handle
        address = array.__cuda_array_interface__["data"][0] if array.is_c_contiguous() else whole.__cuda_array_interface__["data"][0]
        base, nbytes = self.driver.range_of(address)
        self.arrays.append((whole, array, shared))
        expected = numpy.ascontiguousarray(source[begin::step])
        return {"array": len(self.arrays) - 1, "payload": array.__cuda_array_interface__, "handle": encode(handle_bytes(ipc.handle)),
                "offset": int(ipc.offset), "told_base": int(address) - int(ipc.offset), "base": base, "nbytes": nbytes,
                "expected": encode(expected.tobytes()), "typestr": expected.dtype.str, "shape": expected.shape}


if __name__ == "__main__":
    serve(Worker())
