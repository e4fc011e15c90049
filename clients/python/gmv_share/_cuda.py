# SPDX-License-Identifier: Apache-2.0
"""CUDA memory through the driver: the allocation around a pointer, IPC handles both ways, a copy where none can be made.

The driver's library is opened at the first use. Everything happens in the context that a pointer belongs to, or, for
memory of gmvd, in the device's primary context, which CuPy, PyTorch and Numba use as well.
"""

from __future__ import annotations

import contextlib
import ctypes
from typing import Any, Dict, Iterator, NamedTuple, Optional

from ._memory import Memory

IPC_HANDLE_NBYTES = 64
LAZY_PEER_ACCESS = 1
IPC_BLOCK_NBYTES = 2 << 20  # what the driver shares at least; smaller allocations would show their neighbours
POINTER_CONTEXT = 1
POINTER_DEVICE_ORDINAL = 9
POINTER_LEGACY_IPC_CAPABLE = 10


class Handle(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_ubyte * IPC_HANDLE_NBYTES)]


class Uuid(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_ubyte * 16)]

    def text(self) -> str:
        digits = bytes(self.bytes).hex()
        return "GPU-" + "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


class CudaError(RuntimeError):
    """A call of the CUDA driver failed."""


class Allocation(NamedTuple):
    """The allocation that a pointer lies in."""

    base: int
    nbytes: int
    context: Optional[int]
    ordinal: int
    can_share: bool  # by a legacy IPC handle


class Mapped(NamedTuple):
    address: int
    memory: Memory


class Driver:
    def __init__(self) -> None:
        try:
            self._functions = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise CudaError(f"CUDA arrays need the NVIDIA driver: {error}") from None
        self._contexts: Dict[int, ctypes.c_void_p] = {}
        self.call("cuInit", 0)

    def call(self, name: str, *arguments: Any) -> None:
        result = getattr(self._functions, name)(*arguments)
        if result != 0:
            raise CudaError(f"{name} failed: {self.error_text(result)}")

    def error_text(self, result: int) -> str:
        text = ctypes.c_char_p()
        self._functions.cuGetErrorString(ctypes.c_int(result), ctypes.byref(text))
        return f"{text.value.decode()} ({result})" if text.value else str(result)

    @contextlib.contextmanager
    def current(self, context: Optional[int]) -> Iterator[None]:
        if not context:
            yield
            return
        self.call("cuCtxPushCurrent_v2", ctypes.c_void_p(context))
        try:
            yield
        finally:
            self.call("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))

    def primary_context(self, ordinal: int) -> Optional[int]:
        """Retained once a device, and kept."""
        if ordinal not in self._contexts:
            device, context = ctypes.c_int(), ctypes.c_void_p()
            self.call("cuDeviceGet", ctypes.byref(device), ordinal)
            self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
            self._contexts[ordinal] = context
        return self._contexts[ordinal].value

    def uuid(self, ordinal: int) -> str:
        device, uuid = ctypes.c_int(), Uuid()
        self.call("cuDeviceGet", ctypes.byref(device), ordinal)
        self.call("cuDeviceGetUuid_v2", ctypes.byref(uuid), device)
        return uuid.text()

    def ordinal_of(self, uuid: str) -> int:
        count = ctypes.c_int()
        self.call("cuDeviceGetCount", ctypes.byref(count))
        for ordinal in range(count.value):
            if self.uuid(ordinal) == uuid:
                return ordinal
        raise CudaError(f"this process does not see device {uuid}; look at CUDA_VISIBLE_DEVICES")

    def _attribute(self, kind: int, value: Any, address: int) -> Any:
        self.call("cuPointerGetAttribute", ctypes.byref(value), kind, ctypes.c_uint64(address))
        return value.value

    def allocation(self, address: int) -> Allocation:
        with self.current(self.primary_context(0)):  # the questions need a context, and any will do
            context = self._attribute(POINTER_CONTEXT, ctypes.c_void_p(), address)
            ordinal = self._attribute(POINTER_DEVICE_ORDINAL, ctypes.c_int(), address)
            can_share = bool(self._attribute(POINTER_LEGACY_IPC_CAPABLE, ctypes.c_int(), address))
        context = context or self.primary_context(ordinal)  # memory of pools belongs to none
        base, nbytes = ctypes.c_uint64(), ctypes.c_size_t()
        with self.current(context):
            self.call("cuMemGetAddressRange_v2", ctypes.byref(base), ctypes.byref(nbytes), ctypes.c_uint64(address))
        return Allocation(base.value, nbytes.value, context, ordinal, can_share)

    def ipc_handle(self, allocation: Allocation) -> bytes:
        handle = Handle()
        with self.current(allocation.context):
            self.call("cuIpcGetMemHandle", ctypes.byref(handle), ctypes.c_uint64(allocation.base))
        return bytes(handle.bytes)

    def synchronize(self, context: Optional[int], stream: Optional[int]) -> None:
        """Waits for a stream by its handle; None: for all work of the context."""
        with self.current(context):
            if stream is None:
                self.call("cuCtxSynchronize")
            else:
                self.call("cuStreamSynchronize", ctypes.c_void_p(stream))

    def copy(self, context: Optional[int], ordinal: int, source: int, nbytes: int) -> Mapped:
        """The bytes in an allocation of their own, which can be shared whatever the source is."""
        context = context or self.primary_context(ordinal)
        address = ctypes.c_uint64()
        blocks = max(1, -(-nbytes // IPC_BLOCK_NBYTES))
        with self.current(context):
            self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(blocks * IPC_BLOCK_NBYTES))
            memory = Memory(None, lambda: self._free(context, address.value))
            self.call("cuMemcpyDtoD_v2", address, ctypes.c_uint64(source), ctypes.c_size_t(nbytes))
            self.call("cuCtxSynchronize")
        return Mapped(address.value, memory)

    def _free(self, context: Optional[int], address: int) -> None:
        with self.current(context):
            self.call("cuMemFree_v2", ctypes.c_uint64(address))

    def open_handle(self, handle: bytes, uuid: str, offset: int) -> Mapped:
        """gmvd's memory in this process; closed when the last reference goes."""
        context = self.primary_context(self.ordinal_of(uuid))
        address = ctypes.c_uint64()
        with self.current(context):
            self.call("cuIpcOpenMemHandle_v2", ctypes.byref(address), Handle.from_buffer_copy(handle), LAZY_PEER_ACCESS)
        return Mapped(address.value + offset, Memory(None, lambda: self._close(context, address.value)))

    def _close(self, context: Optional[int], address: int) -> None:
        with self.current(context):
            self.call("cuIpcCloseMemHandle", ctypes.c_uint64(address))


_driver: Optional[Driver] = None


def driver() -> Driver:
    global _driver
    if _driver is None:
        _driver = Driver()
    return _driver
