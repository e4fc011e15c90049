#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A CuPy array in gmvd, nothing copied: share its memory, post the array, let gmvd mask it, read gmvd's memory back.

    python3 examples/cupy_share.py http://127.0.0.1:8080

Both processes must see the same GPU, and each other's pids as different numbers (docs/containers.md). The IPC handle
names a whole allocation of the driver, of which a pool may have cut the array: so the allocation's start is asked of
the driver, and posted beside the handle. Needs CuPy.
"""

import base64
import ctypes
import json
import sys
import urllib.error
import urllib.request

import cupy


class Gmvd:
    """The few calls this example needs."""

    def __init__(self, url):
        self.url = url.rstrip("/")

    def call(self, method, path, body=None):
        request = urllib.request.Request(self.url + path, method=method)
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request) as answer:
                return json.loads(answer.read())
        except urllib.error.HTTPError as error:
            sys.exit(f"{method} {path}: {error.code} {error.read().decode()}")


class Driver:
    """What CuPy does not tell: asked of the CUDA driver, in CuPy's context."""

    def __init__(self):
        self._functions = ctypes.CDLL("libcuda.so.1")

    def call(self, name, *arguments):
        result = getattr(self._functions, name)(*arguments)
        if result != 0:
            sys.exit(f"{name}: {result}")

    def allocation_of(self, address):
        """Start and size of the allocation that an address lies in."""
        base, nbytes = ctypes.c_uint64(), ctypes.c_size_t()
        self.call("cuMemGetAddressRange_v2", ctypes.byref(base), ctypes.byref(nbytes), ctypes.c_uint64(address))
        return base.value, nbytes.value

    def device_uuid(self):
        """The GPU's own name: ordinals may differ between processes."""
        device, uuid = ctypes.c_int(), (ctypes.c_ubyte * 16)()
        self.call("cuCtxGetDevice", ctypes.byref(device))
        self.call("cuDeviceGetUuid_v2", ctypes.byref(uuid), device)
        text = bytes(uuid).hex()
        return f"GPU-{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def check(what, holds):
    print(("ok: " if holds else "WRONG: ") + what)
    if not holds:
        sys.exit(1)


def main(url):
    gmvd, driver = Gmvd(url), Driver()
    array = cupy.arange(1000, dtype="f4")
    array[::10] = cupy.nan
    cupy.cuda.runtime.deviceSynchronize()  # what is shared must be finished

    base, nbytes = driver.allocation_of(array.data.ptr)
    handle = base64.b64encode(cupy.cuda.runtime.ipcGetMemHandle(base)).decode()
    buffer = gmvd.call("POST", "/v1/buffers/import", {
        "cuda_ipc": {"handle": handle, "base": base, "nbytes": nbytes, "device_uuid": driver.device_uuid()}})
    print(f"{nbytes} bytes of CuPy's pool are {buffer['id']}")

    view = gmvd.call("POST", "/v1/views", {"cuda_array_interface": array.__cuda_array_interface__})
    check("the view lies in the import", view["buffer"] == buffer["id"] and view["nbytes"] == array.nbytes)

    made = gmvd.call("POST", "/v1/kernels/nans_to_nulls", {"input": view["id"], "exportable": True})
    check("gmvd finds every NaN", made["null_count"] == 100)

    array[1] = 42
    cupy.cuda.runtime.deviceSynchronize()
    values = gmvd.call("GET", f"/v1/views/{view['id']}/values?offset=1&limit=1")["values"]
    check("what CuPy writes is what gmvd reads", values == [42.0])

    # The other way: gmvd's mask as an array of CuPy.
    share = gmvd.call("POST", f"/v1/buffers/{made['mask']['buffer']}/export", {})["cuda_ipc"]
    address = cupy.cuda.runtime.ipcOpenMemHandle(base64.b64decode(share["handle"]))
    memory = cupy.cuda.UnownedMemory(address, share["offset"] + share["nbytes"], None)
    mask = cupy.ndarray((made["mask"]["nbytes"],), "u1", cupy.cuda.MemoryPointer(memory, share["offset"]))
    valid = int(cupy.unpackbits(mask, bitorder="little")[:1000].sum())
    check("CuPy reads gmvd's mask where it lies", valid == 900)
    cupy.cuda.runtime.ipcCloseMemHandle(address)

    gmvd.call("DELETE", f"/v1/buffers/{buffer['id']}?if_held=cascade")
    gmvd.call("DELETE", f"/v1/views/{made['mask']['id']}")
    check("gmvd holds nothing any more", gmvd.call("GET", "/v1/handles")["items"] == [])


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8080")
