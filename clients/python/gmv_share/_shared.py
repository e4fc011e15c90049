# SPDX-License-Identifier: Apache-2.0
"""share() and open(), and what they give back."""

from __future__ import annotations

import base64
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import numpy

from . import _cuda, _host
from ._http import DEFAULT_URL, Connection, Json
from ._memory import Memory

Interface = Dict[str, Any]


class Local(NamedTuple):
    """Where the elements are in this process."""

    address: int  # of element [0, ..., 0]
    memory: Memory
    on_device: bool


class SharedArray:
    """A view of gmvd whose memory this process has, too.

    NumPy, CuPy, Numba and PyTorch take it as they take any array (`numpy.asarray(shared)`, `cupy.asarray(shared)`):
    no copy is made, and the memory is kept while this object lives. Leaving a `with` block deletes its names in gmvd;
    what others made from them there goes on.
    """

    def __init__(self, connection: Connection, view: Json, local: Local, delete: List[str], copied: bool) -> None:
        self._connection = connection
        self._view = view
        self._local = local
        self._delete = delete  # paths of the names that are ours, dependents first
        self._path = f"/v1/views/{view['id']}"
        #: Whether the elements had to be copied once: a later write to the source is not seen then.
        self.copied = copied

    @property
    def id(self) -> str:
        return str(self._view["id"])

    @property
    def view(self) -> Json:
        """The view as gmvd describes it."""
        return dict(self._view)

    @property
    def url(self) -> str:
        return self._connection.url

    @property
    def shape(self) -> Tuple[int, ...]:
        return tuple(self._view["shape"])

    @property
    def typestr(self) -> str:
        return str(self._view["typestr"])

    @property
    def nbytes(self) -> int:
        return int(self._view["nbytes"])

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a 0-d array has no length")
        return self.shape[0]

    def __repr__(self) -> str:
        return f"<SharedArray {self.id} {self.typestr} {list(self.shape)} at {self.url}>"

    # As an array of this process.

    def _interface(self) -> Interface:
        if self._local.memory.closed:
            raise ValueError("this array has been closed")
        strides = self._view["strides"]
        return {"data": (self._local.address, bool(self._view["readonly"])), "shape": self.shape, "typestr": self.typestr,
                "strides": tuple(strides) if strides is not None else None, "version": 3}

    @property
    def __array_interface__(self) -> Interface:
        if self._local.on_device:
            raise AttributeError("device memory has __cuda_array_interface__, not __array_interface__")
        return self._interface()

    @property
    def __cuda_array_interface__(self) -> Interface:
        if not self._local.on_device:
            raise AttributeError("host memory has __array_interface__, not __cuda_array_interface__")
        # gmvd has finished its work on what it serves: there is no stream to wait for.
        return {**self._interface(), "stream": None}

    def _dlpack_exporter(self) -> Any:
        if not self._local.on_device:
            return numpy.asarray(self)
        try:
            import cupy  # type: ignore[import-not-found,unused-ignore]
        except ImportError:
            raise BufferError("DLPack capsules of device memory are made by CuPy, which is not installed; "
                              "use __cuda_array_interface__") from None
        return cupy.asarray(self)

    def __dlpack__(self, **options: Any) -> Any:
        return self._dlpack_exporter().__dlpack__(**options)

    def __dlpack_device__(self) -> Tuple[int, int]:
        device = self._dlpack_exporter().__dlpack_device__()
        return int(device[0]), int(device[1])

    # In gmvd.

    def byte_slice(self, start: Optional[int] = None, stop: Optional[int] = None) -> "SharedArray":
        """Bytes [start, stop) as Python slices, `|u1`; a view of its own, which keeps this one's memory."""
        view = self._connection.post(f"{self._path}/byte_slice", {"start": start, "stop": stop})
        address = self._local.address + view["ptr"] - self._view["ptr"] if view["nbytes"] else 0
        return SharedArray(self._connection, view, self._local._replace(address=address), [f"/v1/views/{view['id']}"], self.copied)

    def stats(self, mask: Optional[str] = None) -> Json:
        """count, null_count, nan_count, inf_count, zero_count, min, max, sum, sum_overflow, mean, std."""
        return self._connection.get(f"{self._path}/statistics", mask=mask)

    def values(self, offset: int = 0, limit: int = 1000) -> List[Any]:
        """Elements in C order as gmvd reads them."""
        values = self._connection.get(f"{self._path}/values", offset=offset, limit=limit)["values"]
        assert isinstance(values, list)
        return values

    def data(self) -> bytes:
        """All bytes in C order as gmvd reads them."""
        return self._connection.call("GET", f"{self._path}/data")

    def delete(self) -> List[Json]:
        """Removes the names in gmvd and tells what was freed; the local memory stays. Once: later calls do nothing."""
        answers = []
        while self._delete:
            answers.append(self._connection.delete(self._delete[0]))
            del self._delete[0]
        return answers

    def close(self) -> None:
        """delete(), and gives up the local memory if it is not the caller's own: arrays made from it must be gone."""
        self.delete()
        self._local.memory.close()

    def __enter__(self) -> "SharedArray":
        return self

    def __exit__(self, *_: object) -> None:
        self.delete()


# Arrays into gmvd.


class Source(NamedTuple):
    """What to post: an import that carries the address, and the array within."""

    imported: Json
    address: int
    local: Local
    copied: bool


def _copy_allowed(copy: Optional[bool], why: str) -> None:
    if copy is False:
        raise ValueError(f"the array cannot be shared without a copy: {why}")


def _host_source(array: "numpy.ndarray", copy: Optional[bool]) -> Tuple[Source, Optional[_host.Copy], Interface]:
    address = array.__array_interface__["data"][0]
    segment = None if copy else _host.find_segment(address)
    made = None
    if segment is None:
        _copy_allowed(copy, "it does not lie in a POSIX shared memory segment")
        made = _host.copy_to_segment(array)
        array = made.array
        address = array.__array_interface__["data"][0]
        segment = _host.Segment(made.name, address)
    imported = {"posix_shm": {"name": segment.name, "base": segment.base}, "readonly": not array.flags.writeable}
    local = Local(address, made.memory if made else Memory(array), False)
    return Source(imported, address, local, made is not None), made, array.__array_interface__


def _cuda_source(array: Any, interface: Interface, nbytes: int, copy: Optional[bool]) -> Source:
    driver = _cuda.driver()
    address, readonly = int(interface["data"][0]), bool(interface["data"][1])
    allocation = driver.allocation(address)
    driver.synchronize(allocation.context, interface.get("stream"))
    memory, start = Memory(array), address
    copied = bool(copy) or not allocation.can_share
    if copied:
        _copy_allowed(copy, "CUDA IPC carries memory of cudaMalloc only, not of managed or stream-ordered allocations")
        if interface.get("strides") is not None:
            raise ValueError("only C-contiguous arrays can be copied for sharing; make one with ascontiguousarray")
        start, memory = driver.copy(allocation.context, allocation.ordinal, address, nbytes)
        allocation = driver.allocation(start)
    handle = base64.b64encode(driver.ipc_handle(allocation)).decode()
    imported = {"cuda_ipc": {"handle": handle, "base": allocation.base, "device_uuid": driver.uuid(allocation.ordinal)},
                "readonly": readonly}
    return Source(imported, start, Local(start, memory, True), copied)


def _dtype_name(array: Any) -> Optional[str]:
    """The element type where the typestr cannot say it: PyTorch's machine-learning types."""
    name = str(getattr(array, "dtype", "")).rpartition(".")[2]
    known = {"bfloat16": "bfloat16", "float8_e4m3fn": "float8_e4m3fn", "float8_e5m2": "float8_e5m2"}
    return known.get(name)


def _without_gradient(array: Any) -> Any:
    """A PyTorch tensor that records its history refuses to be looked into; its detached twin is the same memory."""
    return array.detach() if getattr(array, "requires_grad", False) else array


def _as_host_array(array: Any) -> "numpy.ndarray":
    if hasattr(array, "__array_interface__") or hasattr(array, "__array__"):
        return numpy.asarray(array)  # PyTorch's CPU tensors too: no copy
    raise TypeError(f"share() takes an array with __cuda_array_interface__ or __array_interface__, not {type(array).__name__}")


def _cuda_interface(array: Any) -> Optional[Interface]:
    interface = getattr(array, "__cuda_array_interface__", None)
    if interface is None:
        return None
    if interface.get("mask") is not None:
        raise ValueError("arrays with a mask cannot be shared as one; share the mask as an array of its own")
    return dict(interface)


def _register(connection: Connection, imported: Json, interface: Interface, address: int, label: Optional[str],
              ttl_seconds: Optional[int], dtype: Optional[str]) -> Tuple[Json, List[str]]:
    """The buffer and the view over it; nothing stays if the second is refused."""
    life = {"label": label, "ttl_seconds": ttl_seconds}
    buffer = connection.post("/v1/buffers/import", {**imported, **life})
    path = f"/v1/buffers/{buffer['id']}"
    payload = {"data": [address, bool(interface["data"][1])], "shape": list(interface["shape"]), "typestr": interface["typestr"],
               "strides": list(interface["strides"]) if interface.get("strides") is not None else None, "version": 3}
    try:
        view = connection.post("/v1/views", {"cuda_array_interface": payload, "buffer": buffer["id"], "dtype": dtype, **life})
    except BaseException:
        connection.delete(path)
        raise
    return view, [f"/v1/views/{view['id']}", path]


def _share_nothing(connection: Connection, interface: Interface, array: Any, on_device: bool, label: Optional[str],
                   ttl_seconds: Optional[int], dtype: Optional[str]) -> SharedArray:
    """An array without elements has no memory to share."""
    payload = {"data": [0, bool(interface["data"][1])], "shape": list(interface["shape"]), "typestr": interface["typestr"], "version": 3}
    view = connection.post("/v1/views", {"cuda_array_interface": payload, "dtype": dtype, "label": label, "ttl_seconds": ttl_seconds})
    return SharedArray(connection, view, Local(0, Memory(array), on_device), [f"/v1/views/{view['id']}"], False)


def share(array: Any, url: str = DEFAULT_URL, *, copy: Optional[bool] = None, label: Optional[str] = None,
          ttl_seconds: Optional[int] = None) -> SharedArray:
    """Makes an array of this process a view of the gmvd at `url`.

    Arrays with `__cuda_array_interface__` (CuPy, PyTorch, Numba) go by CUDA IPC, once the stream that they name, or
    all work of their context, is done. NumPy arrays (and what NumPy takes without a copy) are shared in place if they
    lie in a POSIX shared memory segment. Memory that cannot be shared is copied once into memory that can; `copy=False`
    refuses that with ValueError, `copy=True` always copies. The array, or its copy, must live as long as gmvd is to
    use it: keep what this gives back.
    """
    connection = Connection(url)
    array = _without_gradient(array)
    dtype = _dtype_name(array)
    interface = _cuda_interface(array)
    on_device = interface is not None
    host = None
    if interface is None:
        host = _as_host_array(array)
        interface = dict(host.__array_interface__)
    size = 1
    for extent in interface["shape"]:
        size *= int(extent)
    if size == 0:
        return _share_nothing(connection, interface, array, on_device, label, ttl_seconds, dtype)
    made = None
    if host is not None:
        source, made, interface = _host_source(host, copy)
    else:
        source = _cuda_source(array, interface, size * _itemsize(interface["typestr"]), copy)
    try:
        view, names = _register(connection, source.imported, interface, source.address, label, ttl_seconds, dtype)
    finally:
        if made:
            made.unlink()  # gmvd has it mapped: no name is left for anyone to trip over
    return SharedArray(connection, view, source.local, names, source.copied)


def _itemsize(typestr: str) -> int:
    return numpy.dtype(typestr).itemsize


# Memory of gmvd here.


def open(view: str, url: str = DEFAULT_URL, *, copy: Optional[bool] = None) -> SharedArray:
    """The view with this id in this process's memory, not copied: what gmvd writes there is seen, and the reverse.

    Buffers that were allocated or uploaded (64 KiB and more), and results of calls with `"exportable": true`, are shared
    as they are. Others must be copied in gmvd once, which `copy=False` refuses with ValueError. Memory that gmvd itself
    has from another process cannot be opened through it.
    """
    connection = Connection(url)
    description = connection.get(f"/v1/views/{view}")
    if description["buffer"] is None or description["nbytes"] == 0:
        return SharedArray(connection, description, Local(0, Memory(None), _is_cuda(connection)), [], False)
    exported = connection.post(f"/v1/buffers/{description['buffer']}/export", {})
    clone = [f"/v1/buffers/{exported['buffer']}"] if exported["cloned"] else []
    try:
        if clone:
            _copy_allowed(copy, "its buffer is not one that gmvd can export in place")
        local = _map_export(exported, bool(description["readonly"]))
    except BaseException:
        for path in clone:
            connection.delete(path)
        raise
    local = local._replace(address=local.address + int(description["offset"]))
    return SharedArray(connection, description, local, clone, bool(clone))


def _is_cuda(connection: Connection) -> bool:
    return bool(connection.get("/v1/server")["backend"] == "cuda")


def _map_export(exported: Json, readonly: bool) -> Local:
    shared = exported["posix_shm"]
    if shared is not None:
        host = _host.map_segment(shared["name"], shared["offset"], shared["nbytes"], not readonly)
        return Local(host.address, host.memory, False)
    shared = exported["cuda_ipc"]
    device = _cuda.driver().open_handle(base64.b64decode(shared["handle"]), shared["device_uuid"], shared["offset"])
    return Local(device.address, device.memory, True)
