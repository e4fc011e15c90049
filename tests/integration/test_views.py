# SPDX-License-Identifier: Apache-2.0
"""Views: CUDA Array Interface payloads with NumPy as the oracle, byte slices, gathering, masks."""

import json
from multiprocessing import shared_memory

import numpy
import pytest

from conftest import BACKEND, cai, load_vectors

BAD_TYPESTRS = ["|i", "<f", "f8", "", "<f8x", "<i-4", "<i0", "<é8", "=f8", "<f08", " <f8", "<f8 ", "<m8[]", "<M8[s"]
UNSUPPORTED_TYPESTRS = ["<i99", "<M8", ">f8", ">u1", "<V2", "|V1", "|O", "|S4", "<U4", "|t1", "<M8[D]", "<M8[25s]", "<f16", "<c32", "<M8[as]"]


def test_payloads_of_the_vector_file(client, host_memory):
    """Every vector, its address moved to a buffer of the vector's size; texts as they stand."""
    refused = {"value": {"value_error", "json_malformed"}, "type": {"type_error"},
               "range": {"value_error", "out_of_bounds", "pointer_not_registered"}, "unsupported": {"dtype_unsupported", "value_error"}}
    segments, buffers = {}, {}
    try:
        for vector in load_vectors("cai.json"):
            place = vector.get("buffer") or {"ptr": 139888158572544, "nbytes": 4096}
            key = place["ptr"], place["nbytes"]
            if key not in buffers:
                client.delete_all()
                buffers.clear()
            if key not in buffers:
                memory = shared_memory.SharedMemory(create=True, size=max(place["nbytes"], 1))
                segments[memory.name] = memory
                buffers[key] = client.post("/v1/buffers/import", {"posix_shm": {
                    "name": "/" + memory.name, "base": place["ptr"], "nbytes": place["nbytes"]}})
            text = vector["payload_text"] if "payload_text" in vector else json.dumps(vector["payload"])
            answer = client.call("POST", "/v1/views", data=('{"cuda_array_interface": %s}' % text).encode(),
                                 headers={"Content-Type": "application/json"})
            expected, got = vector["expect"], answer.json()
            if not expected["ok"]:
                assert answer.status_code in (400, 422), (vector["name"], answer.text)
                assert got["code"] in refused[expected["error_kind"]], (vector["name"], expected, got)
                continue
            assert answer.status_code == 201, (vector["name"], answer.text)
            assert got["nbytes"] == expected["nbytes"] and got["len"] == expected["len"], vector["name"]
            assert got["itemsize"] == expected["itemsize"] and got["contiguous"] == expected["contiguous"], vector["name"]
            assert got["readonly"] == expected["readonly"], vector["name"]
            assert (got["cudf_type"] or {}).get("type_id") == expected["cudf_type_id"], vector["name"]
            if expected["nbytes"]:
                assert got["offset"] == expected["offset"] and got["buffer"] == buffers[key]["id"], vector["name"]
            if vector.get("payload") is not None:
                assert got["cai"] == vector["payload"], vector["name"]
    finally:
        for memory in segments.values():
            memory.close()
            memory.unlink()


@pytest.mark.parametrize("typestr", BAD_TYPESTRS)
def test_a_malformed_type_string(client, control, typestr):
    buffer = client.upload(bytes(64))
    with client.unchanged():
        client.refused("POST", "/v1/views", 422, "value_error", "/cuda_array_interface/typestr",
                       json={"cuda_array_interface": cai(buffer["ptr"], [4], typestr)})
    control()


@pytest.mark.parametrize("typestr", UNSUPPORTED_TYPESTRS)
def test_a_type_that_is_not_served(client, typestr):
    buffer = client.upload(bytes.fromhex("3FF0000000000000") + bytes(56))
    with client.unchanged():
        client.refused("POST", "/v1/views", 422, "dtype_unsupported", "/cuda_array_interface/typestr",
                       json={"cuda_array_interface": cai(buffer["ptr"], [1], typestr)})


DTYPES = ["|u1", "<u2", "<u4", "<u8", "|i1", "<i2", "<i4", "<i8", "<f2", "<f4", "<f8", "|b1", "<c8", "<c16", "<M8[s]", "<M8[ms]",
          "<M8[us]", "<M8[ns]", "<m8[s]", "<m8[ms]", "<m8[us]", "<m8[ns]"]


@pytest.mark.parametrize("typestr", DTYPES)
def test_every_element_type_round_trips(client, typestr):
    dtype = numpy.dtype(typestr)
    array = numpy.arange(6 * dtype.itemsize, dtype="u1").view(dtype)
    if dtype.kind == "b":
        array = numpy.array([True, False, True, True, False, True])
    view = client.view(array)
    assert view["typestr"] == typestr and view["dtype"] == dtype.name and view["itemsize"] == dtype.itemsize
    assert client.array(view["id"]).tobytes() == array.tobytes()


@pytest.mark.parametrize("strides", ["absent", None, [8]])
def test_absent_null_and_explicit_strides_are_one_thing(client, strides):
    buffer = client.upload(numpy.arange(4.0))
    members = {} if strides == "absent" else {"strides": strides}
    view = client.post("/v1/views", {"cuda_array_interface": cai(buffer["ptr"], [4], "<f8", **members)})
    assert view["nbytes"] == 32 and view["contiguous"] and view["strides"] is None
    assert client.array(view["id"]).tolist() == [0, 1, 2, 3]


def test_strides_that_carry_no_meaning(client):
    buffer = client.upload(numpy.arange(6.0))
    for shape, strides, nbytes in (([1, 5], [999, 8], 40), ([0], [123], 0), ([2, 3], [24, 8], 48)):
        view = client.post("/v1/views", {"cuda_array_interface": cai(buffer["ptr"], shape, "<f8", strides=strides)})
        assert view["contiguous"] and view["nbytes"] == nbytes
    with client.unchanged():
        client.refused("POST", "/v1/views", 422, "value_error", "/cuda_array_interface/strides",
                       json={"cuda_array_interface": cai(buffer["ptr"], [2, 3], "<f8", strides=[8])})


LAYOUTS = {
    "transposed": lambda a: a.T, "every second": lambda a: a[:, ::2], "reversed": lambda a: a[::-1, ::-1],
    "reversed columns": lambda a: a[:, ::-3], "one column": lambda a: a[:, 5], "broadcast": lambda a: numpy.broadcast_to(a[2], (5, a.shape[1])),
    "cube": lambda a: a.reshape(4, 6, -1).transpose(2, 0, 1)[1:, ::-1], "empty": lambda a: a[3:3], "row": lambda a: a[7],
    "window": lambda a: numpy.lib.stride_tricks.sliding_window_view(a[0], 5),
}


@pytest.mark.parametrize("typestr", ["|u1", "<i2", "<f4", "<f8", "<c16"])
@pytest.mark.parametrize("name", LAYOUTS)
def test_strided_views_are_gathered_in_c_order(client, typestr, name):
    whole = numpy.random.default_rng(5).integers(0, 255, (24, 16)).astype(typestr)
    selected = LAYOUTS[name](whole)
    buffer = client.upload(whole)
    address = buffer["ptr"] + selected.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
    view = client.post("/v1/views", {"cuda_array_interface": cai(address, selected.shape, typestr, strides=list(selected.strides))})
    assert view["contiguous"] == selected.flags.c_contiguous
    assert view["nbytes"] == selected.nbytes and view["shape"] == list(selected.shape)
    expected = numpy.ascontiguousarray(selected).tobytes()
    assert client.data(view["id"]) == expected
    if len(expected) > 9:
        part = client.call("GET", f"/v1/views/{view['id']}/data", headers={"Range": "bytes=3-8"}, expect=206)
        assert part.content == expected[3:9]
    if not view["contiguous"]:
        client.refused("POST", f"/v1/views/{view['id']}/byte_slice", 422, "not_contiguous", json={"start": 0})
        copied = client.post(f"/v1/views/{view['id']}/copy")
        assert copied["contiguous"] and client.data(copied["id"]) == expected and copied["buffer"] != view["buffer"]


def test_items_must_lie_on_their_alignment(client):
    buffer = client.upload(bytes(range(32)))
    with client.unchanged():
        problem = client.refused("POST", "/v1/views", 422, "value_error",
                                 json={"cuda_array_interface": cai(buffer["ptr"], [2], "<f8", strides=[12])})
        assert problem["pointer"].startswith("/cuda_array_interface/strides")
        client.refused("POST", "/v1/views", 422, "value_error", "/cuda_array_interface/data/0",
                       json={"cuda_array_interface": cai(buffer["ptr"] + 1, [2], "<f4")})
        client.refused("POST", "/v1/views", 422, "out_of_bounds",
                       json={"cuda_array_interface": cai(buffer["ptr"], [3], "<f8", strides=[16])})
    view = client.post("/v1/views", {"cuda_array_interface": cai(buffer["ptr"], [3, 8], "|u1", strides=[12, 1])})
    assert client.data(view["id"]) == bytes([*range(0, 8), *range(12, 20), *range(24, 32)])


def test_extents_past_the_end_by_one_byte(client):
    buffer = client.upload(bytes(64))
    pointer = "/cuda_array_interface/shape"
    with client.unchanged():
        for address, shape, strides in ((0, [65], None), (1, [64], None), (0, [2], [64]), (0, [8, 9], [8, 1]), (0, [2], [-1]), (63, [65], [-1])):
            client.refused("POST", "/v1/views", 422, "out_of_bounds", pointer,
                           json={"cuda_array_interface": cai(buffer["ptr"] + address, shape, "|u1", strides=strides)})
    for address, shape, strides in ((0, [64], None), (63, [64], [-1]), (0, [8, 8], [8, 1]), (5, [1 << 40, 4], [0, 1])):
        client.post("/v1/views", {"cuda_array_interface": cai(buffer["ptr"] + address, shape, "|u1", strides=strides)})


@pytest.mark.parametrize("shape, typestr, strides", [
    ([4294967296, 4294967296], "|u1", None), ([2305843009213693952], "<f8", None), ([4611686018427387904], "<f8", None),
    ([2], "|u1", [9223372036854775807]), ([2 ** 62, 2 ** 62, 0], "|u1", None), ([3], "|u1", [-2 ** 63]), ([2, 2], "|u1", [2 ** 62, 2 ** 62])])
def test_sizes_that_wrap_around(client, control, shape, typestr, strides):
    buffer = client.upload(bytes(64))
    with client.unchanged():
        answer = client.call("POST", "/v1/views", expect=422, json={
            "cuda_array_interface": cai(buffer["ptr"], shape, typestr, strides=strides)})
        assert answer.json()["code"] in ("value_error", "out_of_bounds")
    control()


@pytest.mark.parametrize("shape, strides", [([2**53], [0]), ([2**62], [0]), ([2**31, 2**30], [0, 0]), ([2**60, 0], None)])
def test_a_shape_that_no_double_holds_is_refused(client, control, shape, strides):
    buffer = client.upload(bytes(64))
    largest = client.post("/v1/views", {"cuda_array_interface": cai(buffer["ptr"], [2**53 - 1], "|u1", strides=[0])})
    assert largest["nbytes"] == 2**53 - 1
    payload = cai(buffer["ptr"], shape, "|u1", strides=strides)
    client.refused("POST", "/v1/views", 422, "value_error", "/cuda_array_interface/shape", json={"cuda_array_interface": payload})
    client.refused("POST", f"/v1/buffers/{buffer['id']}/views", 422, "value_error", "/shape",
                   json={"typestr": "|u1", "shape": shape, "strides": strides})
    control()


def test_a_huge_broadcast_is_a_view_but_not_a_download(client, control):
    buffer = client.upload(bytes(64))
    view = client.post("/v1/views", {"cuda_array_interface": cai(buffer["ptr"], [1 << 50, 4], "|u1", strides=[0, 1])})
    assert view["nbytes"] == 1 << 52
    with client.unchanged():
        client.refused("GET", f"/v1/views/{view['id']}/data", 429, "quota_exceeded")
    control()


@pytest.mark.parametrize("address, code", [
    (3735928559, "pointer_not_registered"), (1, "pointer_not_registered"), (-1, "value_error"), (2 ** 63 - 1, None),
    (0, "value_error"), (2 ** 63, "value_error"), (-2 ** 63, "value_error"), (2 ** 64, "value_error")])
def test_addresses_that_are_no_registered_memory(client, control, address, code):
    client.upload(bytes(64))
    with client.unchanged():
        answer = client.call("POST", "/v1/views", json={"cuda_array_interface": cai(address, [4], "<f4")}, expect=422)
        assert code is None or answer.json()["code"] == code
        assert answer.json()["pointer"] == "/cuda_array_interface/data/0"
    control()


def test_a_freed_buffers_address_is_forgotten(client):
    buffer = client.upload(bytes(64))
    client.delete(f"/v1/buffers/{buffer['id']}")
    client.refused("POST", "/v1/views", 422, "pointer_not_registered", json={"cuda_array_interface": cai(buffer["ptr"], [4], "<f4")})


def test_a_deleted_buffer_that_lives_is_no_longer_found(client):
    buffer = client.upload(bytes(64))
    view = client.post("/v1/views", {"cuda_array_interface": cai(buffer["ptr"], [64], "|u1")})
    client.delete(f"/v1/buffers/{buffer['id']}")
    client.refused("POST", "/v1/views", 422, "pointer_not_registered", json={"cuda_array_interface": cai(buffer["ptr"], [4], "<f4")})
    assert client.data(view["id"]) == bytes(64)
    typed = client.post(f"/v1/views/{view['id']}/views", {"typestr": "<f4", "shape": [2], "offset": 8})
    assert typed["owners"] == [view["id"]]


@pytest.mark.parametrize("shape", [[0], [0, 3], [3, 0], [2, 0, 5]])
@pytest.mark.parametrize("typestr", ["<f8", "|b1", "<i4"])
def test_empty_arrays_at_address_zero(client, shape, typestr):
    view = client.post("/v1/views", {"cuda_array_interface": cai(0, shape, typestr)})
    assert view["nbytes"] == 0 and view["len"] == shape[0] and view["shape"] == shape and view["ptr"] == 0
    assert view["cuda_array_interface"]["data"] == [0, False] and view["device"] is None and view["buffer"] is None
    assert client.data(view["id"]) == b""


def test_the_whole_way_with_an_empty_array(client, control):
    view = client.post("/v1/views", {"cuda_array_interface": cai(0, [0], "|b1")})
    assert client.post(f"/v1/views/{view['id']}/byte_slice", {"start": 0, "stop": 0})["nbytes"] == 0
    result = client.post("/v1/kernels/bools_to_mask", {"input": view["id"]})
    assert result["null_count"] == 0 and result["mask"]["nbytes"] == 0
    column = client.post("/v1/columns/from_view", {"view": view["id"]})
    table = client.post("/v1/tables", {"columns": [column["id"]]})
    packed = client.post(f"/v1/tables/{table['id']}/pack")
    assert packed["num_rows"] == 0 and packed["gpu_data_nbytes"] == 0
    assert client.post(f"/v1/packed/{packed['id']}/unpack")["num_rows"] == 0
    control()


def test_empty_arrays_inside_and_at_the_end_of_a_buffer(client):
    buffer = client.upload(bytes(64))
    for offset in (0, 8, 64):
        view = client.post("/v1/views", {"cuda_array_interface": cai(buffer["ptr"] + offset, [0], "<f8")})
        assert view["ptr"] == buffer["ptr"] + offset and view["cuda_array_interface"]["data"][0] == 0
    with client.unchanged():
        client.refused("POST", "/v1/views", 422, "pointer_not_registered", json={"cuda_array_interface": cai(0x10, [0], "<f8")})


def test_a_null_address(client):
    with client.unchanged():
        client.refused("POST", "/v1/views", 422, "type_error", "/cuda_array_interface/data/0",
                       json={"cuda_array_interface": {"shape": [0], "typestr": "<f8", "data": [None, False], "version": 3}})


def test_optional_members_that_are_null_are_absent(client):
    buffer = client.upload(bytes(64))
    bare = client.post("/v1/views", {"cuda_array_interface": cai(buffer["ptr"], [4], "<f4")})
    spelled = client.post("/v1/views", {"cuda_array_interface": cai(
        buffer["ptr"], [4], "<f4", strides=None, mask=None, descr=None, stream=None), "buffer": None, "event": None, "mask_kind": None})
    for member in ("ptr", "nbytes", "shape", "strides", "mask", "mask_kind", "contiguous", "cuda_array_interface"):
        assert bare[member] == spelled[member]


def test_versions(client):
    buffer = client.upload(bytes(64))
    for version in (0, 1, 2, 3):
        view = client.post("/v1/views", {"cuda_array_interface": {**cai(buffer["ptr"], [4], "<f4"), "version": version}})
        assert view["cuda_array_interface"]["version"] == 3 and view["cai"]["version"] == version
    with client.unchanged():
        for version, code in ((4, "value_error"), (-1, "value_error"), ("3", "type_error"), (3.5, "type_error"), (None, "type_error")):
            client.refused("POST", "/v1/views", 422, code, "/cuda_array_interface/version",
                           json={"cuda_array_interface": {**cai(buffer["ptr"], [4], "<f4"), "version": version}})
        payload = cai(buffer["ptr"], [4], "<f4")
        del payload["version"]
        client.refused("POST", "/v1/views", 422, "value_error", "/cuda_array_interface/version", json={"cuda_array_interface": payload})


def test_streams(client):
    buffer = client.upload(bytes(64))
    for stream in (1, 2, None):
        client.post("/v1/views", {"cuda_array_interface": cai(buffer["ptr"], [4], "<f4", stream=stream)})
    with client.unchanged():
        for stream, code in ((0, "value_error"), (-1, "value_error"), ("1", "type_error"), (1.0, "type_error"), (True, "type_error"),
                             (94201234, "value_error")):
            client.refused("POST", "/v1/views", 422, code, "/cuda_array_interface/stream",
                           json={"cuda_array_interface": cai(buffer["ptr"], [4], "<f4", stream=stream)})
        client.refused("POST", "/v1/views", 422, "backend_unsupported" if BACKEND == "host" else "handle_invalid", "/event",
                       json={"cuda_array_interface": cai(buffer["ptr"], [4], "<f4", stream=94201234), "event": "A" * 86 + "=="})


def test_unknown_members_of_a_payload_are_kept(client):
    buffer = client.upload(bytes(64))
    text = ('{"cuda_array_interface": {"shape":[4], "typestr":"<f4", "version":3, "data":[%d,false], "x-big": 123456789012345678901234567890,'
            ' "deep": [[[{"\\u00fc": null}]]]}}' % buffer["ptr"])
    view = client.call("POST", "/v1/views", data=text.encode(), headers={"Content-Type": "application/json"}, expect=201)
    assert view.json()["cai"]["x-big"] == 123456789012345678901234567890
    assert view.json()["cai"]["deep"] == [[[{"ü": None}]]]
    with client.unchanged():
        client.refused("POST", "/v1/views", 422, "value_error", "/strides",
                       json={"cuda_array_interface": cai(buffer["ptr"], [4], "<f4"), "strides": None})


def test_nesting_of_a_payload(client, control):
    buffer = client.upload(bytes(64))

    def post(depth):
        nest = "[" * (depth - 1) + "]" * (depth - 1)
        text = '{"cuda_array_interface": {"shape":[4], "typestr":"<f4", "version":3, "data":[%d,false], "x": %s}}' % (buffer["ptr"], nest)
        return client.call("POST", "/v1/views", data=text.encode(), headers={"Content-Type": "application/json"})

    for depth in (31, 32):
        answer = post(depth)
        assert answer.status_code == 201 and "x" in answer.json()["cai"]
    with client.unchanged():
        for depth in (33, 34, 40, 100_000):
            answer = post(depth)
            assert (answer.status_code, answer.json()["code"]) == (400, "json_malformed")
    control()


def test_every_member_replaced_by_nonsense(client, control):
    buffer = client.upload(bytes(64))
    good = cai(buffer["ptr"], [4], "<f4", strides=[4], stream=1, mask=None, descr=[["", "<f4"]])
    with client.unchanged():
        for member in good:
            for nonsense in (True, "x", -1, 1.5, [], {}, [[1]], "y" * 1_000_000):
                if (member, repr(nonsense)) in {("descr", "[]")}:
                    continue
                answer = client.call("POST", "/v1/views", json={"cuda_array_interface": {**good, member: nonsense}})
                if member == "descr" and answer.status_code == 201:
                    client.delete(f"/v1/views/{answer.json()['id']}")
                    continue
                if member == "shape" and nonsense == []:
                    assert answer.status_code in (201, 422)
                    if answer.status_code == 201:
                        client.delete(f"/v1/views/{answer.json()['id']}")
                    continue
                assert answer.status_code == 422, (member, str(nonsense)[:20], answer.text[:300])
                assert answer.json()["pointer"].startswith(f"/cuda_array_interface/{member}"), (member, str(nonsense)[:20], answer.json())
    control()


@pytest.mark.parametrize("body", ["[]", '"x"', "null", "7", "true"])
def test_bodies_that_are_no_object(client, body):
    with client.unchanged():
        for path in ("/v1/views", "/v1/buffers", "/v1/kernels/bools_to_mask", "/v1/columns", "/v1/tables"):
            client.refused("POST", path, 422, "type_error", "", data=body, headers={"Content-Type": "application/json"})


def test_an_empty_body_is_an_empty_object(client):
    view = client.view(numpy.arange(10, dtype="u1"))
    path = f"/v1/views/{view['id']}/byte_slice"
    assert client.call("POST", path, expect=201).json()["nbytes"] == 10
    with client.unchanged():
        assert client.call("POST", "/v1/views").status_code in (400, 422)


# byte_slice

SLICES = [((2, 5), 3), ((None, 2), 2), ((3, None), 7), ((2, 2), 0), ((0, 10000), 10), ((7, 3), 0), ((-4, None), 4), ((-10 ** 18, 10 ** 18), 10),
          ((-10 ** 30, 10 ** 30), 10), ((20, 30), 0)]


@pytest.mark.parametrize("typestr, shape", [("|u1", [10]), ("<i2", [5])])
@pytest.mark.parametrize("bounds, length", SLICES)
def test_slices_count_bytes_whatever_the_element(client, typestr, shape, bounds, length):
    content = bytes(range(10))
    buffer = client.upload(content)
    view = client.post("/v1/views", {"cuda_array_interface": cai(buffer["ptr"], shape, typestr)})
    piece = client.post(f"/v1/views/{view['id']}/byte_slice", {"start": bounds[0], "stop": bounds[1]})
    assert piece["nbytes"] == length and client.data(piece["id"]) == content[slice(*bounds)]
    assert piece["typestr"] == "|u1" and piece["cuda_array_interface"]["version"] == 3
    assert piece["owners"] == [view["id"]] and piece["obj"] == view["id"]
    assert piece["ptr"] == view["ptr"] + slice(*bounds).indices(10)[0]
    assert set(piece["cai"]) == {"data", "shape", "typestr", "version"}


@pytest.mark.parametrize("body, code, pointer", [
    ({"step": 2}, "value_error", "/step"), ({"step": 0}, "value_error", "/step"), ({"step": -1}, "value_error", "/step"),
    ({"step": 10 ** 30}, "value_error", "/step"), ({"start": "a"}, "type_error", "/start"), ({"start": 2.5}, "type_error", "/start"),
    ({"stop": True}, "type_error", "/stop"), ({"begin": 1}, "value_error", "/begin"), (5, "type_error", ""), ("a", "type_error", "")])
def test_what_is_no_slice(client, body, code, pointer):
    view = client.view(numpy.arange(10, dtype="u1"))
    with client.unchanged():
        client.refused("POST", f"/v1/views/{view['id']}/byte_slice", 422, code, pointer, json=body)


def test_slices_of_the_vector_file(client):
    views = {}
    for vector in load_vectors("slices_int64.json"):
        nbytes = vector["nbytes"]
        if nbytes > 100_000:
            continue
        if nbytes not in views:
            views[nbytes] = client.view(numpy.zeros(nbytes, "u1")) if nbytes else client.post(
                "/v1/views", {"cuda_array_interface": cai(0, [0], "|u1")})
        text = vector.get("request_text")
        if text is None:
            text = json.dumps({name: vector[name] for name in ("start", "stop", "step") if name in vector})
        answer = client.call("POST", f"/v1/views/{views[nbytes]['id']}/byte_slice", data=text.encode(),
                             headers={"Content-Type": "application/json"})
        expected = vector["expect"]
        if "error_kind" in expected or not expected.get("ok", True):
            assert answer.status_code == 422, vector
            assert answer.json()["code"] == {"value": "value_error", "type": "type_error"}[expected["error_kind"]], vector
        else:
            assert answer.status_code == 201, (vector, answer.text)
            assert answer.json()["nbytes"] == expected["length"], vector
            assert answer.json()["ptr"] == views[nbytes]["ptr"] + expected["offset"], vector
            client.delete(f"/v1/views/{answer.json()['id']}")


# masks that come with a payload


def masked(client, rows, mask_bytes, typestr, shape, **body):
    buffer = client.upload(numpy.arange(rows, dtype="<i4"))
    mask = client.upload(mask_bytes)
    return client.call("POST", "/v1/views", json={"cuda_array_interface": cai(
        buffer["ptr"], [rows], "<i4", mask=cai(mask["ptr"], shape, typestr)), **body})


@pytest.mark.parametrize("typestr, shape, content, kind", [
    ("|b1", [10], bytes([1, 0] * 5), "bools"), ("|u1", [10], bytes([7, 0] * 5), "bytes"), ("|u1", [64], b"\x55\x01" + bytes(62), "bits"),
    ("|t1", [10], b"\x55\x01", "bits"), ("|u1", [2], b"\x55\x01", "bits")])
def test_kinds_of_masks(client, typestr, shape, content, kind):
    view = masked(client, 10, content, typestr, shape).json()
    assert view["mask_kind"] == kind and view["mask"].startswith("view_")
    assert view["mask"] in view["owners"]
    inner = client.get(f"/v1/handles/{view['mask']}")
    assert not inner["named"] and inner["dependents"] == [view["id"]]
    column = client.post("/v1/columns/from_view", {"view": view["id"]})
    assert column["null_count"] == 5
    assert client.get(f"/v1/columns/{column['id']}/values")["values"] == [None if i % 2 else i for i in range(10)]


def test_the_request_settles_what_an_ambiguous_mask_is(client):
    content = b"\xff" * 8 + bytes(56)
    guessed = masked(client, 64, content, "|u1", [64]).json()
    told = masked(client, 64, content, "|u1", [64], mask_kind="bits").json()
    assert guessed["mask_kind"] == "bytes" and told["mask_kind"] == "bits"
    counts = [client.post("/v1/columns/from_view", {"view": view["id"]})["null_count"] for view in (guessed, told)]
    assert counts == [56, 0]


@pytest.mark.parametrize("typestr, shape, body, code", [
    ("|b1", [9], {}, "value_error"), ("|u1", [1], {}, "value_error"), ("<i4", [10], {}, "dtype_unsupported"),
    ("|b1", [10], {"mask_kind": "bits"}, "value_error"), ("|u1", [10], {"mask_kind": "x"}, "value_error"), ("|u1", [10], {"mask_kind": 7}, "type_error")])
def test_masks_that_do_not_fit(client, typestr, shape, body, code):
    client.upload(bytes(1))
    before = len(client.handles())
    answer = masked(client, 10, bytes(64), typestr, shape, **body)
    assert answer.status_code == 422 and answer.json()["code"] == code, answer.text
    assert len(client.handles()) == before + 2  # the two uploads of this test


def test_a_mask_is_checked_as_memory_too(client):
    buffer = client.upload(numpy.arange(10, dtype="<i4"))
    for mask, code in ((cai(0xDEAD, [10], "|b1"), "pointer_not_registered"), (cai(buffer["ptr"] + 35, [10], "|b1"), "out_of_bounds"),
                       (cai(buffer["ptr"], [10], "|b1", mask=cai(buffer["ptr"], [10], "|b1")), "value_error")):
        with client.unchanged():
            problem = client.call("POST", "/v1/views", expect=422, json={"cuda_array_interface": cai(buffer["ptr"], [10], "<i4", mask=mask)}).json()
            assert problem["code"] == code and problem["pointer"].startswith("/cuda_array_interface/mask"), problem


def test_the_mask_of_an_array_counts_in_kernels(client):
    buffer = client.upload(numpy.array([1, numpy.nan, 5, 3], "<f4"))
    mask = client.upload(bytes([1, 1, 0, 1]))
    view = client.post("/v1/views", {"cuda_array_interface": cai(buffer["ptr"], [4], "<f4", mask=cai(mask["ptr"], [4], "|b1"))})
    result = client.post("/v1/kernels/nans_to_nulls", {"input": view["id"]})
    assert result["null_count"] == 2 and client.data(result["mask"]["id"])[0] == 0x09


def test_bfloat16_and_half(client):
    buffer = client.upload(bytes(64))
    half = client.post("/v1/views", {"cuda_array_interface": cai(buffer["ptr"], [4], "<f2")})
    assert half["nbytes"] == 8 and half["cudf_type"] is None
    client.refused("POST", "/v1/kernels/nans_to_nulls", 422, "dtype_unsupported", "/input", json={"input": half["id"]})
    client.refused("POST", "/v1/columns/from_view", 422, "dtype_unsupported", "/view", json={"view": half["id"]})


def test_machine_learning_types(client):
    halves = numpy.array([0x3F80, 0xC049, 0x7F80, 0x7FC0, 0x8000, 0x3DCD], "<u2")
    buffer = client.upload(halves)
    payload = cai(buffer["ptr"], [6], "<V2", descr=[["", "<V2"]])
    with client.unchanged():
        client.refused("POST", "/v1/views", 422, "dtype_unsupported", "/cuda_array_interface/typestr",
                       json={"cuda_array_interface": payload})
        client.refused("POST", "/v1/views", 422, "dtype_unsupported", "/cuda_array_interface/typestr",
                       json={"cuda_array_interface": payload, "dtype": "float8_e5m2"})
        client.refused("POST", "/v1/views", 422, "value_error", "/cuda_array_interface/typestr",
                       json={"cuda_array_interface": cai(buffer["ptr"], [3], "<f4"), "dtype": "bfloat16"})
        client.refused("POST", "/v1/views", 422, "value_error", "/dtype",
                       json={"cuda_array_interface": payload, "dtype": "float32"})
        client.refused("POST", "/v1/views", 422, "type_error", "/dtype",
                       json={"cuda_array_interface": payload, "dtype": 16})
    view = client.post("/v1/views", {"cuda_array_interface": payload, "dtype": "bfloat16"})
    assert (view["typestr"], view["dtype"], view["itemsize"], view["cudf_type"]) == ("<V2", "bfloat16", 2, None)
    assert view["cuda_array_interface"]["typestr"] == "<V2" and view["nbytes"] == 12
    values = [1.0, -3.14, "Infinity", "NaN", -0.0, 0.1]
    assert client.get(f"/v1/views/{view['id']}/values")["values"] == values
    copy = client.post(f"/v1/views/{view['id']}/copy")
    assert copy["dtype"] == "bfloat16" and client.data(copy["id"]) == halves.tobytes()
    piece = client.post(f"/v1/views/{view['id']}/byte_slice", {"start": 2, "stop": 4})
    typed = client.post(f"/v1/views/{piece['id']}/views", {"typestr": "<u2", "shape": [1], "dtype": "bfloat16"})
    assert client.get(f"/v1/views/{typed['id']}/values")["values"] == [-3.14]
    reverse = client.post("/v1/views", {"cuda_array_interface": cai(buffer["ptr"] + 10, [6], "<V2", strides=[-2]),
                                        "dtype": "bfloat16"})
    assert client.get(f"/v1/views/{reverse['id']}/values")["values"] == values[::-1]
    client.refused("POST", "/v1/kernels/nans_to_nulls", 422, "dtype_unsupported", "/input", json={"input": view["id"]})
    client.refused("POST", "/v1/columns/from_view", 422, "dtype_unsupported", "/view", json={"view": view["id"]})


@pytest.mark.parametrize("dtype,values", [("float8_e4m3fn", [1.0, "NaN", 450.0, -0.0, 16.0]),
                                          ("float8_e5m2", [0.5, "NaN", "NaN", -0.0, 130.0])])
def test_eight_bit_floats(client, dtype, values):
    buffer = client.upload(bytes([0x38, 0x7F, 0x7E, 0x80, 0x58]))
    view = client.post(f"/v1/buffers/{buffer['id']}/views", {"typestr": "|V1", "shape": [5], "dtype": dtype})
    assert (view["typestr"], view["dtype"], view["itemsize"]) == ("|V1", dtype, 1)
    assert client.get(f"/v1/views/{view['id']}/values")["values"] == values


def test_values_are_json_whatever_the_floats(client):
    view = client.view(numpy.array([1.5, numpy.nan, numpy.inf, -numpy.inf, -0.0, 0.1, 3.0], "<f4"))
    answer = client.call("GET", f"/v1/views/{view['id']}/values", expect=200)
    assert answer.json()["values"] == [1.5, "NaN", "Infinity", "-Infinity", -0.0, 0.1, 3.0]
    assert answer.text.replace(" ", "").find("-0.0") > 0 and "0.1," in answer.text.replace(" ", "")


def test_values_of_64_bit_integers_are_exact(client):
    numbers = [9007199254740993, -9223372036854775808, 9223372036854775807]
    view = client.view(numpy.array(numbers, "<i8"))
    assert client.get(f"/v1/views/{view['id']}/values")["values"] == numbers
    unsigned = client.view(numpy.array([2 ** 64 - 1], "<u8"))
    assert client.get(f"/v1/views/{unsigned['id']}/values")["values"] == [2 ** 64 - 1]


def test_values_in_windows(client):
    view = client.view(numpy.arange(2500, dtype="<i4"))
    path = f"/v1/views/{view['id']}/values"
    first = client.get(path)
    assert first["size"] == 2500 and first["count"] == 1000 and first["values"] == list(range(1000))
    window = client.get(path, params={"offset": 2400, "limit": 1000})
    assert window["offset"] == 2400 and window["count"] == 100 and window["values"] == list(range(2400, 2500))
    assert client.get(path, params={"offset": 5000})["values"] == []
    assert client.get(path, params={"offset": 2**53 - 1})["values"] == []
    for query in ({"limit": 0}, {"limit": 100_001}, {"limit": "x"}, {"offset": -1}, {"offset": "1.0"}, {"start": 1},
                  {"offset": 2**53}, {"offset": 2**63 - 1}):
        client.refused("GET", path, 400, "request_malformed", params=query)


def test_the_exported_interface_serves_other_consumers(client):
    whole = numpy.arange(24, dtype="<f8").reshape(4, 6)
    buffer = client.upload(whole)
    view = client.post("/v1/views", {"cuda_array_interface": cai(buffer["ptr"], [6, 4], "<f8", strides=[8, 48])})
    exported = client.get(f"/v1/views/{view['id']}/cuda_array_interface")
    assert exported == view["cuda_array_interface"]
    assert exported == {"data": [buffer["ptr"], False], "shape": [6, 4], "strides": [8, 48], "typestr": "<f8", "version": 3, "stream": None}
    again = client.post("/v1/views", {"cuda_array_interface": exported})
    assert client.data(again["id"]) == client.data(view["id"]) == numpy.ascontiguousarray(whole.T).tobytes()
