# SPDX-License-Identifier: Apache-2.0
"""DLPack tensors: NumPy's own capsules are read, and what they say is registered."""

import ctypes

import numpy
import pytest

from conftest import BACKEND, cai

DEVICE = {"type": 2 if BACKEND == "cuda" else 1, "id": 0}


class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


class Versioned(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("manager", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
                ("flags", ctypes.c_uint64), ("tensor", Tensor)]


def described(array):
    """What the capsule that NumPy gives holds, as JSON; and the capsule, which keeps it alive."""
    capsule = array.__dlpack__(max_version=(1, 1))
    read = ctypes.pythonapi.PyCapsule_GetPointer
    read.restype, read.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    held = Versioned.from_address(read(capsule, b"dltensor_versioned"))
    t = held.tensor
    assert t.device_type == 1
    return {"version": [held.major, held.minor], "flags": {"read_only": bool(held.flags & 1), "is_copied": bool(held.flags & 2)},
            "device": DEVICE, "dtype": {"code": t.code, "bits": t.bits, "lanes": t.lanes}, "shape": t.shape[:t.ndim],
            "strides": t.strides[:t.ndim] if t.strides else None, "data": t.data or 0, "byte_offset": t.byte_offset}, capsule


DTYPES = ["|u1", "<u2", "<u4", "<u8", "|i1", "<i2", "<i4", "<i8", "<f2", "<f4", "<f8", "|b1", "<c8", "<c16"]
LAYOUTS = {
    "flat": lambda a: a.ravel(), "c": lambda a: a, "transposed": lambda a: a.T, "reversed": lambda a: a[::-1, ::-1],
    "every third": lambda a: a[:, ::3], "broadcast": lambda a: numpy.broadcast_to(a[2], (5, 8)),
    "0-d": lambda a: a[2:3, 3:4].reshape(()), "empty": lambda a: a[3:3],
}


@pytest.mark.parametrize("typestr", DTYPES)
@pytest.mark.parametrize("name", LAYOUTS)
def test_what_numpy_describes_is_registered_and_given_back(client, typestr, name):
    dtype = numpy.dtype(typestr)
    raw = numpy.random.default_rng(3).integers(0, 2, 12 * 8 * dtype.itemsize, "u1")
    whole = raw.view(dtype).reshape(12, 8)
    array = LAYOUTS[name](whole)
    tensor, capsule = described(array)
    buffer = client.upload(whole)
    if tensor["data"]:
        tensor["data"] += buffer["ptr"] - whole.ctypes.data
    view = client.post("/v1/views/from_dlpack", {"dlpack": tensor})
    del capsule
    assert (view["typestr"], view["shape"], view["nbytes"]) == (typestr, list(array.shape), array.nbytes)
    assert view["readonly"] == tensor["flags"]["read_only"]
    assert client.data(view["id"]) == array.tobytes()
    back = client.get(f"/v1/views/{view['id']}/dlpack")
    assert back["dtype"] == tensor["dtype"] and back["shape"] == tensor["shape"] and back["device"] == DEVICE
    assert back["version"] == [1, 1] and back["flags"] == {"read_only": view["readonly"], "is_copied": False}
    assert back["byte_offset"] == 0 and back["data"] == (view["ptr"] if array.size else 0)
    if array.size:
        assert [s for s, n in zip(back["strides"], array.shape) if n > 1] == [s // dtype.itemsize for s, n in zip(array.strides, array.shape) if n > 1]
    again = client.post("/v1/views/from_dlpack", {"dlpack": back, "buffer": view["buffer"]})
    assert client.data(again["id"]) == array.tobytes()


def tensor_over(buffer, **members):
    return {"version": [1, 1], "device": DEVICE, "dtype": {"code": 2, "bits": 32, "lanes": 1}, "shape": [4], "strides": [1],
            "data": buffer["ptr"], **members}


def test_boolean_and_byte_are_kept_apart(client):
    buffer = client.upload(bytes([1, 0, 1, 1]))
    for code, typestr in ((6, "|b1"), (1, "|u1"), (0, "|i1")):
        dtype = {"code": code, "bits": 8, "lanes": 1}
        view = client.post("/v1/views/from_dlpack", {"dlpack": tensor_over(buffer, dtype=dtype)})
        assert view["typestr"] == typestr
        assert client.get(f"/v1/views/{view['id']}/dlpack")["dtype"] == dtype
        assert client.get(f"/v1/views/{client.view(numpy.zeros(3, typestr))['id']}/dlpack")["dtype"] == dtype


@pytest.mark.parametrize("code, bits, dtype, values", [(4, 16, "bfloat16", [1.0, -2.0]), (10, 8, "float8_e4m3fn", [0.0, 1.9, 0.0, "NaN"]),
                                                       (12, 8, "float8_e5m2", [0.0, 1.8, 0.0, -2.0])])
def test_machine_learning_types_by_code(client, code, bits, dtype, values):
    content = b"\x80\x3f\x00\xc0" if bits == 16 else b"\x00\x3f\x00\xff" if code == 10 else b"\x00\x3f\x00\xc0"
    buffer = client.upload(content)
    tensor = tensor_over(buffer, dtype={"code": code, "bits": bits, "lanes": 1}, shape=[32 // bits])
    view = client.post("/v1/views/from_dlpack", {"dlpack": tensor})
    assert view["dtype"] == dtype and client.get(f"/v1/views/{view['id']}/values")["values"] == values
    assert client.get(f"/v1/views/{view['id']}/dlpack")["dtype"] == tensor["dtype"]


@pytest.mark.parametrize("code, bits, lanes", [(6, 1, 1), (1, 1, 1), (2, 32, 2), (99, 8, 1), (2, 32, 0), (3, 64, 1), (7, 8, 1), (17, 4, 1)])
def test_types_that_are_not_served(client, control, code, bits, lanes):
    buffer = client.upload(bytes(64))
    with client.unchanged():
        client.refused("POST", "/v1/views/from_dlpack", 422, "dtype_unsupported", "/dlpack/dtype",
                       json={"dlpack": tensor_over(buffer, dtype={"code": code, "bits": bits, "lanes": lanes})})
    control()


REFUSED = [
    ({"version": [2, 0]}, "value_error", "/dlpack/version"), ({"version": [0, 8]}, "value_error", "/dlpack/version"),
    ({"version": [1]}, "value_error", "/dlpack/version"), ({"version": [1, 1, 1]}, "value_error", "/dlpack/version"),
    ({"version": [1, -1]}, "value_error", "/dlpack/version"), ({"version": 1}, "type_error", "/dlpack/version"),
    ({"version": [1, 2], "strides": None}, "value_error", "/dlpack/strides"),
    ({"device": {"type": 3, "id": 0}}, "value_error", "/dlpack/device/type"), ({"device": {"type": 13}}, "value_error", "/dlpack/device/type"),
    ({"device": {"type": 3 - DEVICE["type"], "id": 0}}, "value_error", "/dlpack/device/type"),
    ({"device": {"type": DEVICE["type"], "id": -1}}, "value_error", "/dlpack/device/id"), ({"device": {}}, "value_error", "/dlpack/device/type"),
    ({"device": None}, "type_error", "/dlpack/device"), ({"dtype": {"code": 2, "bits": 32}}, "value_error", "/dlpack/dtype/lanes"),
    ({"dtype": {"code": 300, "bits": 32, "lanes": 1}}, "value_error", "/dlpack/dtype/code"),
    ({"dtype": {"code": 2, "bits": 32.0, "lanes": 1}}, "type_error", "/dlpack/dtype/bits"),
    ({"flags": {"read_only": 1}}, "type_error", "/dlpack/flags/read_only"), ({"flags": {"readonly": True}}, "value_error", "/dlpack/flags/readonly"),
    ({"shape": [-1]}, "value_error", "/dlpack/shape/0"), ({"shape": None}, "type_error", "/dlpack/shape"),
    ({"shape": [1] * 65, "strides": None}, "value_error", "/dlpack/shape"), ({"strides": [1, 1]}, "value_error", "/dlpack/strides"),
    ({"shape": [1 << 62, 1 << 62]}, "value_error", "/dlpack/strides"), ({"shape": [1 << 62, 4], "strides": None}, "value_error", "/dlpack/shape"),
    ({"strides": [1 << 61]}, "out_of_bounds", "/dlpack/shape"), ({"strides": [-(1 << 62)]}, "out_of_bounds", "/dlpack/shape"),
    ({"strides": [6]}, "out_of_bounds", "/dlpack/shape"), ({"strides": [-1]}, "out_of_bounds", "/dlpack/shape"),
    ({"data": 0}, "value_error", "/dlpack/data"), ({"data": -8}, "value_error", "/dlpack/data"), ({"data": 8}, "pointer_not_registered", "/dlpack/data"),
    ({"data": "8"}, "type_error", "/dlpack/data"), ({"data": None}, "type_error", "/dlpack/data"),
    ({"byte_offset": -1}, "value_error", "/dlpack/byte_offset"), ({"byte_offset": (1 << 63) - 1}, "value_error", "/dlpack/byte_offset"),
    ({"byte_offset": 1 << 63}, "value_error", "/dlpack/byte_offset"), ({"byte_offset": 2}, "value_error", "/dlpack/data"),
    ({"byte_offset": 64}, "pointer_not_registered", "/dlpack/data"), ({"byte_offset": 52}, "out_of_bounds", "/dlpack/shape"),
    ({"extra": 1}, "value_error", "/dlpack/extra"),
]


@pytest.mark.parametrize("members, code, pointer", REFUSED)
def test_tensors_that_are_refused(client, members, code, pointer):
    buffer = client.upload(bytes(64))
    with client.unchanged():
        client.refused("POST", "/v1/views/from_dlpack", 422, code, pointer, json={"dlpack": tensor_over(buffer, **members)})


def test_what_a_tensor_may_leave_out(client):
    buffer = client.upload(numpy.arange(16, dtype="<f4"))
    tensor = {"device": DEVICE, "dtype": {"code": 2, "bits": 32, "lanes": 1}, "shape": [4], "data": buffer["ptr"]}
    for members in ({}, {"version": None, "flags": None, "strides": None, "byte_offset": None}, {"version": [1, 1]}, {"version": [1, 99], "strides": [1]}):
        view = client.post("/v1/views/from_dlpack", {"dlpack": {**tensor, **members}, "label": "t"})
        assert view["contiguous"] and not view["readonly"] and view["label"] == "t"
        assert client.array(view["id"]).tolist() == [0, 1, 2, 3]
    scalar = client.post("/v1/views/from_dlpack", {"dlpack": {**tensor, "version": [1, 3], "shape": [], "byte_offset": 8}})
    assert scalar["len"] is None and client.array(scalar["id"]) == 2
    # Strides of single extents carry no meaning, however large.
    odd = client.post("/v1/views/from_dlpack", {"dlpack": {**tensor, "shape": [1, 4], "strides": [1 << 62, 1]}})
    assert odd["contiguous"] and client.array(odd["id"]).tolist() == [[0, 1, 2, 3]]
    client.refused("POST", "/v1/views/from_dlpack", 422, "value_error", "/dlpack", json={})
    client.refused("POST", "/v1/views/from_dlpack", 422, "type_error", "/dlpack", json={"dlpack": []})
    client.refused("POST", "/v1/views/from_dlpack", 404, "handle_unknown", "/buffer",
                   json={"dlpack": tensor, "buffer": "buf_00000000000000000000000000"})


def test_flags_and_buffers_make_views_readonly(client):
    sealed = client.upload(bytes(16), readonly="true")
    for buffer, flags, expected in ((sealed, {}, True), (client.upload(bytes(16)), {"read_only": True, "is_copied": True}, True),
                                    (client.upload(bytes(16)), {"read_only": False}, False)):
        view = client.post("/v1/views/from_dlpack", {"dlpack": tensor_over(buffer, flags=flags)})
        assert view["readonly"] is expected
        assert client.get(f"/v1/views/{view['id']}/dlpack")["flags"]["read_only"] is expected


def test_views_that_dlpack_cannot_tell(client):
    """Complex numbers may lie at multiples of half their size, which is no whole number of elements."""
    buffer = client.upload(bytes(64))
    view = client.post("/v1/views", {"cuda_array_interface": cai(buffer["ptr"], [4], "<c8", strides=[12])})
    client.refused("GET", f"/v1/views/{view['id']}/dlpack", 422, "value_error")


def test_dates_are_integers_there(client):
    for typestr in ("<M8[s]", "<M8[ns]", "<m8[us]"):
        view = client.view(numpy.arange(3).astype(typestr))
        assert client.get(f"/v1/views/{view['id']}/dlpack")["dtype"] == {"code": 0, "bits": 64, "lanes": 1}


def test_events_need_the_cuda_backend(client):
    if BACKEND == "cuda":
        pytest.skip("there are events on the CUDA backend")
    buffer = client.upload(bytes(16))
    client.refused("POST", "/v1/views/from_dlpack", 422, "backend_unsupported", "/event",
                   json={"dlpack": tensor_over(buffer), "event": "AAAA"})
