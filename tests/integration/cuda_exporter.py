# SPDX-License-Identifier: Apache-2.0
"""Another process with CUDA memory: the driver through ctypes, on a GPU or with the stand-in for the driver.

As a program it obeys one JSON command a line and answers each with one line; Exporter is how a test talks to it.
"""

import base64
import ctypes
import json
import os
import subprocess
import sys
import time

IS_FAKE = "fake_cuda" in os.environ.get("LD_LIBRARY_PATH", "")
IPC_EVENT_FLAGS = 4 | 2  # interprocess, without timing
LAZY_PEER_ACCESS = 1


class Opaque(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_ubyte * 64)]


class Driver:
    """The primary context of one device, and the allocations made in it by number."""

    def __init__(self, ordinal):
        self.driver = ctypes.CDLL("libcuda.so.1")
        self.memory = {}
        self.events = []
        self.context = ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), ordinal)
        self.call("cuCtxPushCurrent_v2", self.context)

    def call(self, name, *arguments):
        result = getattr(self.driver, name)(*arguments)
        if result != 0:
            raise RuntimeError(f"{name}: {result}")

    def add(self, address):
        self.memory[len(self.memory)] = address
        return len(self.memory) - 1

    def allocate(self, nbytes):
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(nbytes))
        self.call("cuMemsetD8_v2", address, ctypes.c_ubyte(0), ctypes.c_size_t(nbytes))
        handle = Opaque()
        self.call("cuIpcGetMemHandle", ctypes.byref(handle), address)
        return {"memory": self.add(address.value), "base": address.value, "handle": base64.b64encode(bytes(handle.bytes)).decode()}

    def write(self, memory, offset, content):
        content = bytes.fromhex(content)
        self.call("cuMemcpyHtoD_v2", ctypes.c_uint64(self.memory[memory] + offset), content, ctypes.c_size_t(len(content)))
        self.call("cuCtxSynchronize")
        return {}

    def read(self, memory, offset, nbytes):
        content = ctypes.create_string_buffer(nbytes)
        self.call("cuMemcpyDtoH_v2", content, ctypes.c_uint64(self.memory[memory] + offset), ctypes.c_size_t(nbytes))
        return {"content": content.raw.hex()}

    def free(self, memory):
        self.call("cuMemFree_v2", ctypes.c_uint64(self.memory[memory]))
        return {}

    def open(self, handle):
        address = ctypes.c_uint64()
        self.call("cuIpcOpenMemHandle_v2", ctypes.byref(address), Opaque.from_buffer_copy(base64.b64decode(handle)),
                  ctypes.c_uint(LAZY_PEER_ACCESS))
        return {"memory": self.add(address.value)}

    def close(self, memory):
        self.call("cuIpcCloseMemHandle", ctypes.c_uint64(self.memory[memory]))
        return {}

    def fill_behind(self, memory, value, nbytes, milliseconds):
        """Fills on a stream once the host has slept, and gives an event that is recorded behind that."""
        stream, event, handle = ctypes.c_void_p(), ctypes.c_void_p(), Opaque()
        self.sleep = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: time.sleep(milliseconds / 1000))
        self.call("cuStreamCreate", ctypes.byref(stream), 1)
        self.call("cuEventCreate", ctypes.byref(event), IPC_EVENT_FLAGS)
        self.call("cuLaunchHostFunc", stream, self.sleep, None)
        self.call("cuMemsetD8Async", ctypes.c_uint64(self.memory[memory]), ctypes.c_ubyte(value), ctypes.c_size_t(nbytes), stream)
        self.call("cuEventRecord", event, stream)
        self.call("cuIpcGetEventHandle", ctypes.byref(handle), event)
        return {"handle": base64.b64encode(bytes(handle.bytes)).decode()}

    def has(self, name):
        return {"has": hasattr(self.driver, name)}

    def held_event(self):
        """The stand-in's: an event that does not pass before release_events."""
        made = self.event()
        self.driver.fake_cuda_hold_event(self.events[-1], True)
        return made

    def release_events(self):
        for event in self.events:
            self.driver.fake_cuda_hold_event(event, False)
        return {}

    def event(self):
        event, handle = ctypes.c_void_p(), Opaque()
        self.call("cuEventCreate", ctypes.byref(event), IPC_EVENT_FLAGS)
        self.call("cuEventRecord", event, None)
        self.call("cuIpcGetEventHandle", ctypes.byref(handle), event)
        self.events.append(event)
        return {"handle": base64.b64encode(bytes(handle.bytes)).decode()}


class Exporter:
    """exporter.allocate(nbytes=10) and so on; a failure is a RuntimeError that names the call and its result."""

    def __init__(self, ordinal=0):
        self.process = subprocess.Popen([sys.executable, __file__, str(ordinal)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __getattr__(self, name):
        def do(**members):
            self.process.stdin.write(json.dumps({"do": name, **members}) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
            answer = json.loads(line) if line else {"error": "the exporter is gone"}
            if "error" in answer:
                raise RuntimeError(answer["error"])
            return answer

        return do

    def export(self, content):
        """Memory that holds the content: its number, base and handle."""
        made = self.allocate(nbytes=len(content))
        self.write(memory=made["memory"], offset=0, content=bytes(content).hex())
        return made

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


def import_ipc(client, made, **members):
    """A buffer over what an exporter made."""
    readonly = {"readonly": members.pop("readonly")} if "readonly" in members else {}
    return client.post("/v1/buffers/import", {"cuda_ipc": {"handle": made["handle"], **members}, **readonly})


def metric(client, series):
    line, = (line for line in client.call("GET", "/metrics").text.splitlines() if line.startswith(series))
    return int(line.split()[-1])


def mappings(client):
    return metric(client, 'gmvd_import_mappings{mechanism="cuda_ipc"}')


def main():
    driver = Driver(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    for line in sys.stdin:
        command = json.loads(line)
        try:
            answer = getattr(driver, command.pop("do"))(**command)
        except RuntimeError as error:
            answer = {"error": str(error)}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
