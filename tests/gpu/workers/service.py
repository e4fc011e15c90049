# SPDX-License-Identifier: Apache-2.0
"""What all workers share: the loop that obeys commands, and the driver through ctypes."""

import base64
import ctypes
import json
import sys
import traceback

SLOW_FILL = b"""
.version 7.0
.target sm_75
.address_size 64
.visible .entry slow_fill(.param .u64 out, .param .u64 n, .param .u64 ns, .param .u32 value)
{
    .reg .pred %p;
    .reg .b32 %v, %t;
    .reg .b64 %o, %n, %i, %a, %begin, %now, %wait;
    ld.param.u64 %o, [out];
    ld.param.u64 %n, [n];
    ld.param.u64 %wait, [ns];
    ld.param.u32 %v, [value];
    cvta.to.global.u64 %o, %o;
    mov.u64 %begin, %globaltimer;
spin:
    mov.u64 %now, %globaltimer;
    sub.u64 %now, %now, %begin;
    setp.lt.u64 %p, %now, %wait;
    @%p bra spin;
    mov.u32 %t, %tid.x;
    cvt.u64.u32 %i, %t;
fill:
    setp.ge.u64 %p, %i, %n;
    @%p bra done;
    add.u64 %a, %o, %i;
    st.global.u8 [%a], %v;
    add.u64 %i, %i, 256;
    bra fill;
done:
    ret;
}
.visible .entry fault()
{
    .reg .b64 %a;
    mov.u64 %a, 64;
    st.global.u32 [%a], 1;
    ret;
}
\0"""


class Opaque(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_ubyte * 64)]


class Driver:
    """Calls in the context that is current; it is the package's, made by the package."""

    def __init__(self):
        self.driver = ctypes.CDLL("libcuda.so.1")
        self.module = None

    def call(self, name, *arguments):
        result = getattr(self.driver, name)(*arguments)
        if result != 0:
            raise RuntimeError(f"{name}: {result}")

    def range_of(self, address):
        """Base and size of the allocation that an address is in."""
        base, size = ctypes.c_uint64(), ctypes.c_size_t()
        self.call("cuMemGetAddressRange_v2", ctypes.byref(base), ctypes.byref(size), ctypes.c_uint64(address))
        return base.value, size.value

    def handle_of(self, address):
        handle = Opaque()
        self.call("cuIpcGetMemHandle", ctypes.byref(handle), ctypes.c_uint64(address))
        return bytes(handle.bytes)

    def function(self, name):
        if self.module is None:
            self.module = ctypes.c_void_p()
            self.call("cuModuleLoadData", ctypes.byref(self.module), SLOW_FILL)
        function = ctypes.c_void_p()
        self.call("cuModuleGetFunction", ctypes.byref(function), self.module, name.encode())
        return function

    def launch(self, name, stream, *values):
        pointers = (ctypes.c_void_p * max(1, len(values)))(*(ctypes.cast(ctypes.pointer(value), ctypes.c_void_p) for value in values))
        self.call("cuLaunchKernel", self.function(name), 1, 1, 1, 256, 1, 1, 0, ctypes.c_void_p(stream), pointers, None)

    def slow_fill(self, stream, address, nbytes, value, milliseconds):
        self.launch("slow_fill", stream, ctypes.c_uint64(address), ctypes.c_uint64(nbytes), ctypes.c_uint64(milliseconds * 1_000_000),
                    ctypes.c_uint32(value))

    def fault(self):
        """Touches memory that is not there; gives what the driver says then."""
        self.launch("fault", None)
        return {"result": self.driver.cuCtxSynchronize()}


def encode(content):
    return base64.b64encode(bytes(content)).decode()


def serve(worker):
    """Each public method is a command. What it raises is the answer, with the trace."""
    for line in sys.stdin:
        command = json.loads(line)
        try:
            answer = getattr(worker, command.pop("do"))(**command)
        except Exception:
            answer = {"error": traceback.format_exc(limit=-4)}
        print(json.dumps(answer), flush=True)
