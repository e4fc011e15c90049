# SPDX-License-Identifier: Apache-2.0
"""CuPy as the owner of memory, and as the user of gmvd's."""

import base64

import cupy
import numpy

from recipes import STEPS, content
from service import Driver, encode, serve


class Worker:
    def __init__(self):
        cupy.zeros(1)
        self.driver = Driver()
        self.arrays = []
        self.kept = []

    def copy_in(self, source, pooled):
        if not pooled:
            memory = cupy.cuda.MemoryPointer(cupy.cuda.Memory(max(1, source.nbytes)), 0)
            array = cupy.ndarray(source.shape, source.dtype, memory)
        else:
            array = cupy.empty(source.shape, source.dtype)
        array.set(source)
        return array

    def make(self, dtype, shape, step="whole", pooled=False, seed=0):
        """An array; its payload as it is, the allocation around it, and what NumPy has."""
        source = content(dtype, shape, seed)
        whole = self.copy_in(source, pooled)
        array, expected = STEPS[step](whole, cupy), STEPS[step](source, numpy)
        self.arrays.append((whole, array))
        cupy.cuda.runtime.deviceSynchronize()
        base, nbytes = self.driver.range_of(whole.data.ptr)
        return {"array": len(self.arrays) - 1, "payload": array.__cuda_array_interface__, "base": base, "nbytes": nbytes,
                "handle": encode(cupy.cuda.runtime.ipcGetMemHandle(base)), "block": whole.data.mem.ptr,
                "expected": encode(numpy.ascontiguousarray(expected).tobytes()), "typestr": expected.dtype.str, "shape": expected.shape}

    def split_a_chunk(self, nbytes):
        """From now on the pool serves small arrays from one chunk of its own."""
        cupy.get_default_memory_pool().free_all_blocks()
        chunk = cupy.empty(nbytes, "u1")
        del chunk
        return {}

    def read(self, array):
        return {"content": encode(cupy.asnumpy(self.arrays[array][1]).tobytes())}

    def fill(self, array, value):
        self.arrays[array][1].fill(value)
        cupy.cuda.runtime.deviceSynchronize()
        return {}

    def drop(self, array):
        """Frees it, also in the driver."""
        self.arrays[array] = None
        cupy.get_default_memory_pool().free_all_blocks()
        cupy.cuda.runtime.deviceSynchronize()
        return {}

    def open(self, handle, offset, nbytes, typestr="|u1"):
        """gmvd's memory as an array, nothing copied."""
        address = cupy.cuda.runtime.ipcOpenMemHandle(base64.b64decode(handle))
        memory = cupy.cuda.UnownedMemory(address, offset + nbytes, self)
        array = cupy.ndarray((nbytes // numpy.dtype(typestr).itemsize,), typestr, cupy.cuda.MemoryPointer(memory, offset))
        self.arrays.append((address, array))
        return {"array": len(self.arrays) - 1, "address": address}

    def close(self, array):
        address = self.arrays[array][0]
        self.arrays[array] = None
        cupy.cuda.runtime.ipcCloseMemHandle(address)
        return {}

    def fill_behind(self, array, value, milliseconds):
        """A slow kernel on a stream, an event behind it, and the payload as CuPy gives it on that stream."""
        target = self.arrays[array][1]
        stream = cupy.cuda.Stream(non_blocking=True)
        event = cupy.cuda.Event(block=False, disable_timing=True, interprocess=True)
        self.driver.function("slow_fill")
        with stream:
            self.driver.slow_fill(stream.ptr, target.data.ptr, target.nbytes, value, milliseconds)
            event.record(stream)
            payload = target.__cuda_array_interface__
        self.kept.append((stream, event))
        return {"payload": payload, "event": encode(cupy.cuda.runtime.ipcGetEventHandle(event.ptr)), "pending": not event.done}

    def drop_events(self):
        cupy.cuda.runtime.deviceSynchronize()
        self.kept.clear()
        return {}


if __name__ == "__main__":
    serve(Worker())
