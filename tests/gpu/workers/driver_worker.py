# SPDX-License-Identifier: Apache-2.0
"""The driver alone as owner and user of memory: what needs no package, and what only a bad neighbour does."""

import base64
import ctypes
import pathlib
import select
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "integration"))

import cuda_exporter  # noqa: E402
from service import Driver, Opaque, encode, serve  # noqa: E402


class Worker(cuda_exporter.Driver):
    def __init__(self):
        super().__init__(0)
        self.kernels = Driver()
        self.events = []

    def export(self, nbytes, value=0):
        """A block full of one byte: number, base, size, handle."""
        made = self.allocate(nbytes)
        self.fill(made["memory"], value, nbytes)
        return {**made, "nbytes": nbytes}

    def fill(self, memory, value, nbytes):
        self.call("cuMemsetD8_v2", ctypes.c_uint64(self.memory[memory]), ctypes.c_ubyte(value), ctypes.c_size_t(nbytes))
        self.call("cuCtxSynchronize")
        return {}

    def slow_fill(self, memory, value, nbytes, milliseconds):
        """A kernel that takes its time, with an event behind it."""
        stream, event, handle = ctypes.c_void_p(), ctypes.c_void_p(), Opaque()
        self.kernels.function("slow_fill")
        self.call("cuStreamCreate", ctypes.byref(stream), 1)
        self.call("cuEventCreate", ctypes.byref(event), cuda_exporter.IPC_EVENT_FLAGS)
        self.kernels.slow_fill(stream.value, self.memory[memory], nbytes, value, milliseconds)
        self.call("cuEventRecord", event, stream)
        self.call("cuIpcGetEventHandle", ctypes.byref(handle), event)
        self.events.append(event)
        return {"event": encode(handle.bytes), "stream": stream.value, "pending": self.driver.cuEventQuery(event) != 0}

    def event(self):
        event, handle = ctypes.c_void_p(), Opaque()
        self.call("cuEventCreate", ctypes.byref(event), cuda_exporter.IPC_EVENT_FLAGS)
        self.call("cuEventRecord", event, None)
        self.call("cuIpcGetEventHandle", ctypes.byref(handle), event)
        self.events.append(event)
        return {"handle": encode(handle.bytes)}

    def destroy_events(self):
        self.call("cuCtxSynchronize")
        for event in self.events:
            self.call("cuEventDestroy_v2", event)
        self.events.clear()
        return {}

    def watch(self, handle, offset, nbytes, value):
        """Opens memory of another process and looks at all of it again and again, until the next command is there."""
        address = ctypes.c_uint64()
        self.call("cuIpcOpenMemHandle_v2", ctypes.byref(address), Opaque.from_buffer_copy(base64.b64decode(handle)),
                  ctypes.c_uint(cuda_exporter.LAZY_PEER_ACCESS))
        print('{"opened": true}', flush=True)
        content, wanted = ctypes.create_string_buffer(nbytes), bytes([value]) * nbytes
        reads = wrong = 0
        while not select.select([sys.stdin], [], [], 0)[0]:
            self.call("cuMemcpyDtoH_v2", content, ctypes.c_uint64(address.value + offset), ctypes.c_size_t(nbytes))
            reads += 1
            wrong += content.raw != wanted
        self.call("cuIpcCloseMemHandle", address)
        return {"reads": reads, "wrong": wrong}

    def stop(self):
        return {}

    def fault(self):
        return self.kernels.fault()


if __name__ == "__main__":
    serve(Worker())
