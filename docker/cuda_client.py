# SPDX-License-Identifier: Apache-2.0
"""A client of the CUDA backend that needs no array library: memory of the driver, shared, and worked on by gmvd.

    PYTHONPATH=clients/python python3 docker/cuda_client.py http://127.0.0.1:8080

It tries the namespaces that CUDA IPC wants, with a GPU or with the tests' stand-in for the driver. Needs NumPy.
"""

import ctypes
import os
import sys

import numpy

import gmv_share


class Driver:
    def __init__(self):
        self._functions = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self.call("cuCtxPushCurrent_v2", context)

    def call(self, name, *arguments):
        result = getattr(self._functions, name)(*arguments)
        if result != 0:
            sys.exit(f"{name}: {result}")


class Array:
    """An array's bytes in an allocation of their own."""

    def __init__(self, driver, content):
        address = ctypes.c_uint64()
        driver.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(max(content.nbytes, 2 << 20)))
        driver.call("cuMemcpyHtoD_v2", address, content.tobytes(), ctypes.c_size_t(content.nbytes))
        driver.call("cuCtxSynchronize")
        self.__cuda_array_interface__ = {
            "data": (address.value, False), "shape": content.shape, "typestr": content.dtype.str, "strides": None, "version": 3}


def check(what, holds):
    print(f"  {'ok' if holds else 'WRONG'}: {what}", flush=True)
    if not holds:
        sys.exit(1)


driver = Driver()
content = numpy.arange(1000, dtype="<f4")
print(f"pid {os.getpid()} shares {content.nbytes} bytes", flush=True)
with gmv_share.share(Array(driver, content), sys.argv[1], copy=False) as shared:
    check("shared in place", not shared.copied)
    check("gmvd sees every value", shared.values() == content.tolist())
    check("and finds their mean on its device", shared.stats()["mean"] == 499.5)
    check("a slice of the last 16 bytes is the last 4 values", shared.byte_slice(-16).data() == content[-4:].tobytes())

with gmv_share.share(Array(driver, content), sys.argv[1], copy=False) as shared:
    check("once more, after all was given back", shared.values(0, 3) == [0.0, 1.0, 2.0])
