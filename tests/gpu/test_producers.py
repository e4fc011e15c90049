# SPDX-License-Identifier: Apache-2.0
"""Real producers' memory in gmvd: payloads posted as they are, and every value held against NumPy's."""

import base64
import json
import math

import numpy
import pytest

from support import decode, import_ipc, integration, mappings, shared_worker

cai = integration.cai
DTYPES = ["|i1", "<i2", "<i4", "<i8", "|u1", "<u2", "<u4", "<u8", "<f2", "<f4", "<f8", "|b1", "<c8", "<c16"]
TIMES = ["<M8[s]", "<M8[ms]", "<M8[us]", "<M8[ns]", "<m8[s]", "<m8[ms]", "<m8[us]", "<m8[ns]"]


def expected_array(made):
    return numpy.frombuffer(decode(made["expected"]), made["typestr"]).reshape(made["shape"])


def same_value(said, wanted):
    """One element of /values against NumPy's."""
    if isinstance(said, list):
        return same_value(said[0], wanted.real) and same_value(said[1], wanted.imag)
    if isinstance(said, str):
        return said == ("NaN" if math.isnan(wanted) else "Infinity" if wanted > 0 else "-Infinity")
    if wanted.dtype.kind == "f":
        return wanted.dtype.type(said).tobytes() == wanted.tobytes()
    if wanted.dtype.kind in "Mm":
        wanted = wanted.view("<i8")
    return said == wanted.item() and isinstance(said, bool) == (wanted.dtype.kind == "b")


def check_null_counts(client, view, wanted):
    """The kernels' masks and counts of a 1-d array."""
    kernel, valid = ("bools_to_mask", wanted) if wanted.dtype.kind == "b" else ("nans_to_nulls", ~numpy.isnan(wanted))
    answer = client.post(f"/v1/kernels/{kernel}", {"input": view["id"]})
    assert answer["null_count"] == int((~valid).sum()), (answer["null_count"], int((~valid).sum()))
    bits = numpy.unpackbits(numpy.frombuffer(client.data(answer["mask"]["id"]), "u1"), bitorder="little")
    assert (bits[:valid.size].astype(bool) == valid).all() and not bits[valid.size:].any()


def check_view(client, made, **members):
    """Posts the payload as the producer gave it; what gmvd reads there is what NumPy has."""
    view = client.post("/v1/views", {"cuda_array_interface": made["payload"], **members})
    wanted = expected_array(made)
    assert view["shape"] == list(wanted.shape) and view["typestr"] == wanted.dtype.str, view
    assert view["cai"] == json.loads(json.dumps(made["payload"]))
    seen = client.data(view["id"])
    assert seen == wanted.tobytes(), f"{len(seen)} bytes, {wanted.nbytes} wanted: {seen[:64].hex()} is not {wanted.tobytes()[:64].hex()}"
    said = client.get(f"/v1/views/{view['id']}/values", params={"limit": 100_000})
    assert said["count"] == wanted.size
    for index, (value, right) in enumerate(zip(said["values"], wanted.reshape(-1))):
        assert same_value(value, right), f"element {index}: {value!r} is not {right!r}"
    if wanted.ndim == 1 and wanted.size and wanted.dtype.str in ("|b1", "<f4", "<f8"):
        check_null_counts(client, view, wanted)
    return view


# CuPy.


@pytest.fixture
def cupy():
    return shared_worker("cupy_worker")


@pytest.mark.parametrize("pooled", [False, True], ids=["own allocation", "pool"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_cupy_every_dtype(client, cupy, dtype, pooled):
    made = cupy.make(dtype=dtype, shape=[1001], pooled=pooled)
    buffer = import_ipc(client, made)
    assert buffer["exporter_base"] == made["base"] and buffer["nbytes"] <= made["nbytes"]
    view = check_view(client, made)
    assert view["buffer"] == buffer["id"] and view["offset"] == made["payload"]["data"][0] - made["base"]


@pytest.mark.parametrize("pooled", [False, True], ids=["own allocation", "pool"])
@pytest.mark.parametrize("dtype", ["|b1", "<i2", "<f4", "<c16"])
@pytest.mark.parametrize("step, shape", [("offset", [257]), ("strided", [1000]), ("reversed", [321]), ("columns", [40, 33]), ("transposed", [17, 40]),
                                         ("both reversed", [19, 23]), ("broadcast", [50]), ("scalar", [3, 5]), ("whole", [3, 4, 5, 6])])
def test_cupy_every_layout(client, cupy, step, shape, dtype, pooled):
    made = cupy.make(dtype=dtype, shape=shape, step=step, pooled=pooled)
    import_ipc(client, made)
    check_view(client, made)


@pytest.mark.parametrize("dtype", ["<f8", "|u1"])
def test_cupy_empty_arrays_need_no_buffer(client, cupy, dtype):
    made = cupy.make(dtype=dtype, shape=[20], step="empty")
    assert made["payload"]["data"][0] == 0
    view = check_view(client, made)
    assert view["nbytes"] == 0
    buffer = import_ipc(client, made)
    assert check_view(client, made, buffer=buffer["id"])["nbytes"] == 0


def test_cupy_arrays_of_one_chunk_share_a_handle(client, cupy):
    cupy.split_a_chunk(nbytes=8 << 20)
    first, second = (cupy.make(dtype="<f4", shape=[5000], pooled=True, seed=seed) for seed in (1, 2))
    assert first["base"] == second["base"] and first["handle"] == second["handle"] and first["expected"] != second["expected"]
    buffer = import_ipc(client, first)
    assert mappings(client) == 1
    views = [check_view(client, made) for made in (first, second)]
    assert views[0]["buffer"] == views[1]["buffer"] == buffer["id"] and views[0]["offset"] != views[1]["offset"]


def test_cupy_a_readonly_payload_is_not_written(client, cupy):
    made = cupy.make(dtype="|u1", shape=[64])
    import_ipc(client, made)
    made["payload"]["data"][1] = True
    view = check_view(client, made)
    assert view["readonly"]
    client.refused("PUT", f"/v1/views/{view['id']}/data", 403, "readonly", data=bytes(64), headers={"Content-Type": "application/octet-stream"})
    assert cupy.read(array=made["array"])["content"] == made["expected"]


def test_cupy_sees_what_gmvd_writes_and_the_other_way(client, cupy):
    made = cupy.make(dtype="<i4", shape=[1024])
    import_ipc(client, made)
    view = check_view(client, made)
    content = numpy.arange(1024, dtype="<i4")[::-1].tobytes()
    client.call("PUT", f"/v1/views/{view['id']}/data", data=content, expect=200, headers={"Content-Type": "application/octet-stream"})
    assert decode(cupy.read(array=made["array"])["content"]) == content
    cupy.fill(array=made["array"], value=-5)
    assert client.data(view["id"]) == numpy.full(1024, -5, "<i4").tobytes()


def test_cupy_frees_too_early(client, cupy):
    made = cupy.make(dtype="<f4", shape=[1 << 20])
    import_ipc(client, made)
    view = client.post("/v1/views", {"cuda_array_interface": made["payload"]})
    cupy.drop(array=made["array"])
    other = cupy.make(dtype="<f4", shape=[1 << 20], seed=1)
    assert client.data(view["id"]) == decode(made["expected"]) != decode(other["expected"])


def test_cupy_bounds_are_the_allocations(client, cupy):
    made = cupy.make(dtype="|u1", shape=[4096])
    buffer = import_ipc(client, made)
    with client.unchanged():
        for address, code in ((made["base"] + buffer["nbytes"] - 3, "out_of_bounds"), (made["base"] + buffer["nbytes"] + 64, None)):
            problem = client.call("POST", "/v1/views", json={"cuda_array_interface": cai(address, [8], "|u1")}, expect=422).json()
            assert problem["code"] in ((code,) if code else ("out_of_bounds", "pointer_not_registered")), problem


# PyTorch.


@pytest.fixture
def torch():
    return shared_worker("torch_worker")


@pytest.mark.parametrize("spelling", ["handle", "bare"])
@pytest.mark.parametrize("step, shape", [("whole", [999]), ("offset", [999]), ("strided", [999]), ("columns", [30, 31]), ("transposed", [21, 34]),
                                         ("expanded", [55]), ("empty", [10])])
def test_torch_every_layout(client, torch, step, shape, spelling):
    made = torch.make(dtype="<f4", shape=shape, step=step)
    assert made["told_base"] == made["base"], "storage offset and address range disagree"
    assert made["prefix"] in ("0263", "0363", ""), made["prefix"]
    import_ipc(client, {"handle": made[spelling], "base": made["told_base"]})
    check_view(client, made)


@pytest.mark.parametrize("dtype", DTYPES)
def test_torch_every_dtype(client, torch, dtype):
    made = torch.make(dtype=dtype, shape=[777])
    import_ipc(client, made)
    check_view(client, made)


def test_torch_tensors_of_one_segment(client, torch):
    first, second = (torch.make(dtype="<i8", shape=[100], seed=seed) for seed in (1, 2))
    buffers = [import_ipc(client, made) for made in (first, second)]
    for made, buffer in zip((first, second), buffers):
        check_view(client, made, buffer=buffer["id"])
    assert mappings(client) == (1 if first["base"] == second["base"] else 2)


def test_torch_writes_are_seen(client, torch):
    made = torch.make(dtype="<f8", shape=[64])
    import_ipc(client, made)
    view = check_view(client, made)
    torch.fill(tensor=made["tensor"], value=2.5)
    assert client.data(view["id"]) == numpy.full(64, 2.5).tobytes()


# Numba.


@pytest.fixture
def numba():
    return shared_worker("numba_worker")


@pytest.mark.parametrize("dtype", DTYPES + TIMES)
def test_numba_every_dtype(client, numba, dtype):
    made = numba.make(dtype=dtype, shape=[501])
    assert made["told_base"] == made["base"], "get_ipc_handle's offset and address range disagree"
    import_ipc(client, {"handle": made["handle"], "base": made["told_base"]})
    check_view(client, made)


@pytest.mark.parametrize("begin, step", [(5, 1), (0, 3), (2, 7)])
def test_numba_slices(client, numba, begin, step):
    made = numba.make(dtype="<f8", shape=[400], begin=begin, step=step)
    if step == 1:
        assert made["offset"] == made["payload"]["data"][0] - made["base"]
    import_ipc(client, made)
    check_view(client, made)


# A plain C program.


def test_a_c_program(client, start):
    producer = start("plain_producer")
    made = producer.receive()
    import_ipc(client, {"handle": base64.b64encode(bytes.fromhex(made["hex"])).decode(), "base": made["base"], "nbytes": made["nbytes"]})
    view = client.post("/v1/views", {"cuda_array_interface": cai(made["base"], [made["count"]], "<i4")})
    wanted = numpy.arange(made["count"], dtype="<i4") ** 2 - 7
    assert client.data(view["id"]) == wanted.tobytes()
    producer.end()
    assert client.data(view["id"]) == wanted.tobytes()


# The other way: CuPy opens gmvd's memory.


def open_in_cupy(client, cupy, buffer_id, offset, nbytes, typestr="|u1"):
    """The buffer's bytes from `offset` on, in CuPy; also the buffer that was really shared."""
    share = client.post(f"/v1/buffers/{buffer_id}/export", expect=200)
    opened = cupy.open(handle=share["cuda_ipc"]["handle"], offset=share["cuda_ipc"]["offset"] + offset, nbytes=nbytes, typestr=typestr)
    return opened["array"], share["buffer"], share["cloned"]


def put(client, buffer_id, offset, content):
    client.call("PUT", f"/v1/buffers/{buffer_id}/data", params={"offset": offset}, data=content, expect=200,
                headers={"Content-Type": "application/octet-stream"})


def check_both_ways(client, cupy, array, buffer_id, offset, nbytes):
    """Nothing is copied: each sees what the other writes."""
    put(client, buffer_id, offset, b"\xa5" * nbytes)
    assert decode(cupy.read(array=array)["content"]) == b"\xa5" * nbytes
    cupy.fill(array=array, value=0x3c)
    assert client.bytes(f"/v1/buffers/{buffer_id}/data")[offset:offset + nbytes] == b"\x3c" * nbytes
    cupy.close(array=array)


def test_cupy_opens_an_allocated_buffer(client, cupy):
    values = numpy.random.default_rng(3).standard_normal(20_000)
    buffer = client.post("/v1/buffers", {"nbytes": values.nbytes})
    put(client, buffer["id"], 0, values.tobytes())
    array, shared, cloned = open_in_cupy(client, cupy, buffer["id"], 0, values.nbytes, "<f8")
    assert not cloned and shared == buffer["id"]
    assert decode(cupy.read(array=array)["content"]) == values.tobytes()
    cupy.close(array=array)
    array, shared, _ = open_in_cupy(client, cupy, buffer["id"], 0, values.nbytes)
    check_both_ways(client, cupy, array, shared, 0, values.nbytes)


@pytest.mark.parametrize("exportable", [True, False])
def test_cupy_opens_a_computed_mask(client, cupy, exportable):
    values = numpy.random.default_rng(4).standard_normal(3001).astype("<f4")
    values[::7] = numpy.nan
    answer = client.post("/v1/kernels/nans_to_nulls", {"input": client.view(values)["id"], **({"exportable": True} if exportable else {})})
    mask = client.get(f"/v1/views/{answer['mask']['id']}")
    array, shared, cloned = open_in_cupy(client, cupy, mask["buffer"], mask["offset"], mask["nbytes"])
    assert cloned != exportable
    seen = numpy.frombuffer(decode(cupy.read(array=array)["content"]), "u1")
    assert (numpy.unpackbits(seen, bitorder="little")[:3001].astype(bool) == ~numpy.isnan(values)).all()
    cupy.close(array=array)
    array, _, _ = open_in_cupy(client, cupy, shared, mask["offset"], mask["nbytes"])
    check_both_ways(client, cupy, array, shared, mask["offset"], mask["nbytes"])
    if cloned:
        assert client.data(mask["id"]) == seen.tobytes(), "the clone's writes reached what it was cloned from"


@pytest.mark.parametrize("exportable", [True, False])
def test_cupy_opens_packed_data(client, cupy, exportable):
    column = client.column(numpy.arange(1000, dtype="<i8"))
    table = client.post("/v1/tables", {"columns": [column["id"]]})
    packed = client.post(f"/v1/tables/{table['id']}/pack", {"exportable": True} if exportable else {})
    view = client.get(f"/v1/views/{packed['gpu_data']}")
    array, shared, cloned = open_in_cupy(client, cupy, view["buffer"], view["offset"], view["nbytes"])
    assert cloned != exportable
    content = decode(cupy.read(array=array)["content"])
    assert content == client.data(view["id"]) and numpy.arange(1000, dtype="<i8").tobytes() in content
    cupy.close(array=array)
    array, _, _ = open_in_cupy(client, cupy, shared, view["offset"], view["nbytes"])
    check_both_ways(client, cupy, array, shared, view["offset"], view["nbytes"])


# Events.


def test_cupy_reads_wait_for_the_event(client, cupy):
    made = cupy.make(dtype="|u1", shape=[1 << 16])
    import_ipc(client, made)
    for value in (0x11, 0x22, 0x33):
        slow = cupy.fill_behind(array=made["array"], value=value, milliseconds=400)
        assert slow["pending"], "the kernel was over too soon: this proves nothing"
        assert slow["payload"]["stream"] > 2
        view = client.post("/v1/views", {"cuda_array_interface": slow["payload"], "event": slow["event"]})
        assert client.data(view["id"]) == bytes([value]) * (1 << 16)
        client.refused("POST", "/v1/views", 422, "value_error", json={"cuda_array_interface": slow["payload"]})
    cupy.drop_events()
