# SPDX-License-Identifier: Apache-2.0
"""Null-mask kernels over HTTP, with NumPy and the vector file as oracles."""

import numpy
import pytest

from conftest import load_vectors


def bits(content, begin, end):
    return numpy.unpackbits(numpy.frombuffer(content, "u1"), bitorder="little")[begin:end]


def padded(valid):
    packed = numpy.packbits(numpy.asarray(valid, "u1"), bitorder="little").tobytes()
    return packed.ljust((len(packed) + 63) // 64 * 64, b"\0")


def kernel(client, name, body, expect=201):
    return client.post(f"/v1/kernels/{name}", body, expect=expect)


def ranged(view, begin, end, **more):
    return {"bitmask": view and view["id"], "begin_bit": begin, "end_bit": end, **more}


@pytest.mark.parametrize("rows", [0, 1, 5, 63, 64, 65, 511, 512, 513, 1000, 4097, 100_003])
def test_bools_to_mask_agrees_with_numpy(client, rows):
    values = numpy.random.default_rng(rows).integers(0, 3, rows).astype("u1").view("?")
    view = client.view(values) if rows else client.post("/v1/views", {"cuda_array_interface": {
        "data": [0, False], "shape": [0], "typestr": "|b1", "version": 3}})
    result = kernel(client, "bools_to_mask", {"input": view["id"]})
    truth = values.view("u1") != 0
    assert client.data(result["mask"]["id"]) == padded(truth)
    assert result["null_count"] == rows - int(truth.sum())


@pytest.mark.parametrize("typestr", ["<f4", "<f8"])
@pytest.mark.parametrize("rows", [1, 7, 64, 65, 1025, 50_001])
def test_nans_to_nulls_agrees_with_numpy(client, typestr, rows):
    random = numpy.random.default_rng(rows)
    values = random.standard_normal(rows).astype(typestr)
    values[random.random(rows) < 0.3] = numpy.nan
    values[random.random(rows) < 0.1] = numpy.inf
    values[random.random(rows) < 0.1] = -0.0
    result = kernel(client, "nans_to_nulls", {"input": client.view(values)["id"]})
    assert client.data(result["mask"]["id"]) == padded(~numpy.isnan(values))
    assert result["null_count"] == int(numpy.isnan(values).sum())


def test_every_nan_is_a_null_and_infinities_are_not(client):
    values = numpy.array([0xFFFFFFFF, 0x7FC00000, 0x7F800001, 0x7F800000, 0xFF800000, 0x80000000], "<u4").view("<f4")
    result = kernel(client, "nans_to_nulls", {"input": client.view(values)["id"]})
    assert result["null_count"] == 3 and client.data(result["mask"]["id"])[0] == 0b111000
    eight = kernel(client, "nans_to_nulls", {"input": client.view(numpy.array([1, 2, numpy.nan, 4]))["id"]})
    assert eight["null_count"] == 1 and client.data(eight["mask"]["id"])[0] == 0x0B


def test_nulls_that_are_there_already_stay(client):
    column = client.column(numpy.array([1, numpy.nan, 9, 3], "<f4"), mask="0b")
    result = kernel(client, "nans_to_nulls", {"input": column["id"]})
    assert result["null_count"] == 2 and client.data(result["mask"]["id"])[0] == 0x09


def test_a_null_boolean_counts_as_false(client):
    column = client.column(numpy.array([1, 1, 0, 1], "u1").view("?"), mask="0d")
    result = kernel(client, "bools_to_mask", {"input": column["id"]})
    assert result["null_count"] == 2 and client.data(result["mask"]["id"])[0] == 0x09
    view = client.view(numpy.array([1, 2, 255, 0], "u1").view("?"))
    result = kernel(client, "bools_to_mask", {"input": view["id"]})
    assert result["null_count"] == 1 and client.data(result["mask"]["id"])[0] == 0x07


def test_strided_input_is_gathered(client):
    values = numpy.array([1, 9, numpy.nan, 9, 3, 9, numpy.nan, 9], "<f4")
    buffer = client.upload(values)
    view = client.post("/v1/views", {"cuda_array_interface": {"data": [buffer["ptr"], False], "shape": [4], "strides": [8],
                                                              "typestr": "<f4", "version": 3}})
    result = kernel(client, "nans_to_nulls", {"input": view["id"]})
    assert result["null_count"] == 2 and client.data(result["mask"]["id"])[0] == 0b0101


@pytest.mark.parametrize("name, typestr", [("bools_to_mask", "<i4"), ("bools_to_mask", "|u1"), ("nans_to_nulls", "<i4"), ("nans_to_nulls", "|b1"),
                                           ("column_nans_to_nulls", "<i8")])
@pytest.mark.parametrize("rows", [0, 4])
def test_element_types_that_a_kernel_does_not_take(client, name, typestr, rows):
    view = client.view(numpy.zeros(max(rows, 1), typestr))
    column = client.post("/v1/columns", {"type": {"name": {"<i4": "INT32", "|u1": "UINT8", "|b1": "BOOL8", "<i8": "INT64"}[typestr]},
                                         "size": rows, "data": view["id"]})
    with client.unchanged():
        for handle in (view, column):
            client.refused("POST", f"/v1/kernels/{name}", 422, "dtype_unsupported", "/input", json={"input": handle["id"]})


def test_column_nans_to_nulls_of_a_sliced_column(client):
    values = numpy.array([1, numpy.nan, 3, numpy.nan, 5, numpy.nan, 7], "<f8")
    view = client.view(values)
    column = client.post("/v1/columns", {"type": {"name": "FLOAT64"}, "size": 4, "offset": 1, "data": view["id"]})
    made = kernel(client, "column_nans_to_nulls", {"input": column["id"]})["column"]
    assert made["offset"] == 0 and made["null_count"] == 2
    assert client.get(f"/v1/columns/{made['id']}/values")["values"] == [None, 3.0, None, 5.0]
    clean = client.column(numpy.array([1.0, 2.0]))
    made = kernel(client, "column_nans_to_nulls", {"input": clean["id"]})["column"]
    assert made["null_count"] == 0 and made["nullable"]


def test_mask_to_bools(client):
    content = numpy.random.default_rng(3).bytes(1250)
    mask = client.mask(content.hex())
    for begin, end in ((0, 0), (0, 500), (500, 7456), (7456, 10000), (0, 10000), (3, 4), (7, 7)):
        column = kernel(client, "mask_to_bools", ranged(mask, begin, end))["column"]
        assert column["type"]["name"] == "BOOL8" and column["size"] == end - begin and not column["nullable"]
        if column["data"]:
            assert client.data(column["data"]) == bits(content, begin, end).tobytes()
    for begin, end in ((8, 7), (-1, 3)):
        client.refused("POST", "/v1/kernels/mask_to_bools", 422, "value_error", json=ranged(mask, begin, end))
    assert kernel(client, "mask_to_bools", ranged(None, 0, 0))["column"]["size"] == 0
    client.refused("POST", "/v1/kernels/mask_to_bools", 422, "value_error", json=ranged(None, 0, 5))


@pytest.mark.parametrize("size", [0, 1, 512, 513, 1024])
def test_create_null_mask(client, size):
    expected = (size + 511) // 512 * 64
    for state, fill in (("UNALLOCATED", None), ("UNINITIALIZED", 0), ("ALL_VALID", 255), ("ALL_NULL", 0)):
        mask = kernel(client, "create_null_mask", {"size": size, "state": state})["mask"]
        nbytes = 0 if fill is None else expected
        assert mask["nbytes"] == nbytes and client.data(mask["id"]) == bytes([fill or 0]) * nbytes
    assert kernel(client, "create_null_mask", {"size": size})["mask"]["nbytes"] == expected


@pytest.mark.parametrize("body, code, pointer", [
    ({"size": -1}, "value_error", "/size"), ({"size": 2 ** 31}, "value_error", "/size"), ({"size": 1, "state": "VALID"}, "value_error", "/state"),
    ({"size": 1, "state": 2}, "type_error", "/state"), ({}, "value_error", "/size"), ({"size": 1, "device": 3}, "value_error", "/device")])
def test_bad_masks_to_create(client, body, code, pointer):
    with client.unchanged():
        client.refused("POST", "/v1/kernels/create_null_mask", 422, code, pointer, json=body)


def test_set_null_mask_keeps_the_other_bits(client):
    mask = client.mask("00000000")
    path = "/v1/kernels/set_null_mask"

    def set_bits(begin, end, valid):
        return client.post(path, ranged(mask, begin, end, valid=valid), expect=200)["mask"]

    assert set_bits(7, 7, True)["id"] == mask["id"] and client.data(mask["id"]) == bytes(4)
    set_bits(3, 5, True)
    assert client.data(mask["id"]) == bytes.fromhex("18000000")
    with client.unchanged():
        client.refused("POST", path, 422, "value_error", json=ranged(mask, 5, 3, valid=True))
        client.refused("POST", path, 422, "out_of_bounds", "/end_bit", json=ranged(mask, 30, 34, valid=True))
        client.refused("POST", path, 422, "value_error", "/begin_bit", json=ranged(mask, -1, 2, valid=True))
        client.refused("POST", path, 422, "type_error", "/bitmask", json=ranged(None, 0, 2, valid=True))
    readonly = client.post(f"/v1/views/{mask['id']}/views", {"typestr": "|u1", "shape": [4], "readonly": True})
    client.refused("POST", path, 403, "readonly", json=ranged(readonly, 0, 8, valid=True))
    assert client.data(mask["id"]) == bytes.fromhex("18000000")
    set_bits(0, 32, True)
    set_bits(1, 31, False)
    assert client.data(mask["id"]) == bytes.fromhex("01000080")


def test_copies_hold_owned_bits_only(client):
    mask = client.mask("ad")
    copied = kernel(client, "copy_bitmask", ranged(mask, 0, 7))["mask"]
    assert client.data(copied["id"]) == b"\x2d" + bytes(63)
    assert kernel(client, "null_count", ranged(mask, 0, 7), expect=200)["count"] == 3
    content = numpy.random.default_rng(8).bytes(125)
    view = client.mask(content.hex())
    for begin, end in ((0, 800), (321, 998), (1, 2), (31, 65), (5, 5), (0, 1000)):
        copied = kernel(client, "copy_bitmask", ranged(view, begin, end))["mask"]
        expected = padded(bits(content, begin, end)) if end > begin else b""
        assert client.data(copied["id"]) == expected
    assert kernel(client, "copy_bitmask", ranged(None, 0, 100))["mask"]["nbytes"] == 0


def test_a_sliced_columns_mask_starts_at_its_first_row(client):
    column = client.column(numpy.array([1, 0, 3, 4, 5], "<i4"), mask="1d", size=3, offset=2)
    assert column["null_count"] == 0
    copied = kernel(client, "copy_bitmask", {"column": column["id"]})["mask"]
    assert client.data(copied["id"]) == b"\x07" + bytes(63)
    bools = kernel(client, "mask_to_bools", ranged(copied, 0, 3))["column"]
    assert client.get(f"/v1/columns/{bools['id']}/values")["values"] == [True, True, True]
    assert client.get(f"/v1/columns/{column['id']}/values")["values"] == [3, 4, 5]
    table = client.post("/v1/tables", {"columns": [column["id"]]})
    packed = client.post(f"/v1/tables/{table['id']}/pack")
    assert packed["columns"][0]["null_count"] == 0
    unpacked = client.post(f"/v1/packed/{packed['id']}/unpack")
    assert client.get(f"/v1/columns/{unpacked['columns'][0]}/values")["values"] == [3, 4, 5]


def test_copy_bitmask_wants_one_source(client):
    mask = client.mask("ff")
    column = client.column(numpy.arange(3, dtype="u1"))
    with client.unchanged():
        for body in ({}, {"column": column["id"], **ranged(mask, 0, 1)}, {"bitmask": mask["id"]}):
            assert client.call("POST", "/v1/kernels/copy_bitmask", json=body, expect=422).json()["code"] == "value_error"


def test_and_and_or(client):
    first = client.column(numpy.zeros(32, "i1"), mask="f0f0f0f0", size=10, offset=3)
    second = client.column(numpy.zeros(32, "i1"), mask="33333333", size=10, offset=6)
    both = kernel(client, "bitmask_and", {"columns": [first["id"], second["id"]]})
    either = kernel(client, "bitmask_or", {"columns": [first["id"], second["id"]]})
    assert (client.data(both["mask"]["id"])[:2].hex(), both["null_count"]) == ("0c00", 8)
    assert (client.data(either["mask"]["id"])[:2].hex(), either["null_count"]) == ("de02", 3)
    assert both["mask"]["nbytes"] == either["mask"]["nbytes"] == 64

    bare = [client.column(numpy.zeros(10, "i1"))["id"] for _ in range(2)]
    nine = client.column(numpy.zeros(9, "i1"), mask="0000")["id"]
    for name in ("bitmask_and", "bitmask_or"):
        none = kernel(client, name, {"columns": bare})
        assert none["mask"]["nbytes"] == 0 and none["null_count"] == 0
        none = kernel(client, name, {"columns": []})
        assert none["mask"]["nbytes"] == 0 and none["null_count"] == 0
        with client.unchanged():
            client.refused("POST", f"/v1/kernels/{name}", 422, "value_error", json={"columns": [first["id"], nine]})
        mixed = kernel(client, name, {"columns": [first["id"], bare[0]]})
        assert mixed["null_count"] == (first["null_count"] if name == "bitmask_and" else 0)


def test_counts(client):
    full = client.mask("ff" * 8)
    count = lambda name, view, begin, end: kernel(client, name, ranged(view, begin, end), expect=200)["count"]  # noqa: E731
    assert count("null_count", full, 0, 0) == count("null_count", full, 5, 5) == count("null_count", full, 0, 64) == 0
    with client.unchanged():
        client.refused("POST", "/v1/kernels/null_count", 422, "value_error", json=ranged(full, 6, 5))
        client.refused("POST", "/v1/kernels/null_count", 422, "value_error", "/begin_bit", json=ranged(full, -1, 3))
        client.refused("POST", "/v1/kernels/null_count", 422, "out_of_bounds", "/end_bit", json=ranged(full, 60, 65))
        client.refused("POST", "/v1/kernels/null_count", 422, "value_error", json=ranged(None, 5, 3))
        client.refused("POST", "/v1/kernels/null_count", 422, "value_error", "/end_bit", json=ranged(None, 0, 2 ** 31))
    assert count("null_count", None, 0, 100) == 0 and count("valid_count", None, 0, 100) == 100
    content = numpy.random.default_rng(1).bytes(4000)
    view = client.mask(content.hex())
    for begin, end in ((0, 32000), (1, 31999), (7, 9), (31, 33), (12345, 23456)):
        ones = int(bits(content, begin, end).sum())
        assert count("valid_count", view, begin, end) == ones and count("null_count", view, begin, end) == end - begin - ones


def test_counts_by_segment(client):
    full = client.mask("ff" * 8)
    path = "/v1/kernels/segmented_null_count"
    count = lambda ranges: client.post(path, {"bitmask": full["id"], "ranges": ranges}, expect=200)["counts"]  # noqa: E731
    assert count([]) == [] and count([[0, 8], [8, 8]]) == [0, 0]
    with client.unchanged():
        for ranges, code in (([[0, 8], [8]], "value_error"), ([[8, 0]], "value_error"), ([[-1, 3]], "index_error"), ([[0, 65]], "out_of_bounds"),
                             ([[0, 8.0]], "type_error"), ([3], "type_error"), ([[0, 1, 2]], "value_error")):
            problem = client.refused("POST", path, 422, code, json={"bitmask": full["id"], "ranges": ranges})
            assert problem["pointer"].startswith("/ranges"), problem
    assert client.post(path, {"bitmask": None, "ranges": [[0, 32], [7, 25]]}, expect=200)["counts"] == [0, 0]


def test_first_set_bit(client):
    content = bytearray(16)
    content[70 // 8] = 1 << (70 % 8)
    mask = client.mask(content.hex())
    first = lambda begin, end: kernel(client, "index_of_first_set_bit", ranged(mask, begin, end), expect=200)["index"]  # noqa: E731
    assert (first(64, 128), first(0, 128), first(71, 128), first(0, 64)) == (6, 70, 57, 64)
    client.refused("POST", "/v1/kernels/index_of_first_set_bit", 422, "value_error", json=ranged(mask, 70, 70))
    assert kernel(client, "index_of_first_set_bit", ranged(None, 3, 9), expect=200)["index"] == 0


def test_allocation_sizes(client):
    path = "/v1/kernels/bitmask_allocation_size_bytes"
    for number, nbytes in ((0, 0), (1, 64), (512, 64), (513, 128), (1024, 128), (1025, 192)):
        assert client.post(path, {"number_of_bits": number}, expect=200)["nbytes"] == nbytes
    for padding, nbytes in ((1, 2), (8, 8)):
        assert client.post(path, {"number_of_bits": 10, "padding_boundary": padding}, expect=200)["nbytes"] == nbytes
    for body, pointer in (({"number_of_bits": 10, "padding_boundary": 0}, "/padding_boundary"),
                          ({"number_of_bits": 10, "padding_boundary": -1}, "/padding_boundary"), ({"number_of_bits": -1}, "/number_of_bits"),
                          ({"number_of_bits": 1, "padding_boundary": 2 ** 53}, "/padding_boundary"), ({"number_of_bits": 2 ** 31}, "/number_of_bits")):
        client.refused("POST", path, 422, "value_error", pointer, json=body)


def test_a_mask_at_the_very_end_of_an_allocation(client):
    buffer = client.upload(bytes(63) + b"\x17")
    view = client.post(f"/v1/buffers/{buffer['id']}/views", {"typestr": "|u1", "shape": [1], "offset": 63})
    assert kernel(client, "null_count", ranged(view, 0, 5), expect=200)["count"] == 1
    client.refused("POST", "/v1/kernels/null_count", 422, "out_of_bounds", json=ranged(view, 0, 9))


def test_what_is_no_bitmask(client):
    floats = client.view(numpy.zeros(4, "<f4"))
    buffer = client.upload(bytes(64))
    strided = client.post("/v1/views", {"cuda_array_interface": {"data": [buffer["ptr"], False], "shape": [8], "strides": [2],
                                                                 "typestr": "|u1", "version": 3}})
    column = client.column(numpy.zeros(4, "u1"))
    with client.unchanged():
        client.refused("POST", "/v1/kernels/null_count", 422, "dtype_unsupported", "/bitmask", json=ranged(floats, 0, 8))
        client.refused("POST", "/v1/kernels/null_count", 422, "not_contiguous", "/bitmask", json=ranged(strided, 0, 8))
        client.refused("POST", "/v1/kernels/null_count", 422, "kind_mismatch", "/bitmask", json=ranged(column, 0, 8))
    words = client.view(numpy.array([0xFFFFFFFE], "<u4"))
    assert kernel(client, "null_count", ranged(words, 0, 32), expect=200)["count"] == 1


def masked_column(client, vector, type_name, typestr):
    rows = vector["offset"] + vector["size"]
    data = numpy.frombuffer(bytes.fromhex(vector["data_hex"]), typestr) if "data_hex" in vector else numpy.zeros(rows, typestr)
    body = {"type": {"name": type_name}, "size": vector["size"], "offset": vector["offset"],
            "data": client.view(data)["id"] if len(data) else None,
            "null_mask": client.mask(vector["mask_hex"])["id"] if vector["mask_hex"] else None}
    return client.post("/v1/columns", body)["id"]


def run_vector(client, vector):
    """The call that a vector stands for: (path, body, what must come out)."""
    operation = vector["op"]
    mask = client.mask(vector["mask_hex"])["id"] if vector.get("mask_hex") else None
    begin, end = vector.get("begin", vector.get("start")), vector.get("end", vector.get("stop"))
    span = {"bitmask": mask, "begin_bit": begin, "end_bit": end}
    if operation == "bools_to_mask":
        return operation, {"input": masked_column(client, vector, "BOOL8", "|b1")}
    if operation == "nans_to_nulls":
        return operation, {"input": masked_column(client, vector, vector["type"], {"FLOAT32": "<f4", "FLOAT64": "<f8"}[vector["type"]])}
    if operation == "copy_bitmask_column":
        return "copy_bitmask", {"column": masked_column(client, vector, "INT8", "|i1")}
    if operation in ("bitmask_and", "bitmask_or"):
        return operation, {"columns": [masked_column(client, {"size": vector["size"], **column}, "INT8", "|i1") for column in vector["columns"]]}
    if operation == "allocation_size":
        return "bitmask_allocation_size_bytes", {"number_of_bits": vector["num_bits"]}
    if operation == "create_null_mask":
        return operation, {"size": vector["size"], "state": vector["state"]}
    if operation == "segmented_count":
        indices = vector["indices"]
        return "segmented_null_count", {"bitmask": mask, "ranges": [indices[i:i + 2] for i in range(0, len(indices), 2)]}
    if operation == "set_null_mask":
        return operation, {**span, "valid": vector["valid"]}
    return operation, span


def owned_bytes(vector, rows):
    """The expected mask where bytes and bits that no row owns are zero."""
    expected = bytearray.fromhex(vector["expected_hex"])
    for offset, length in vector["undefined"]:
        expected[offset:offset + length] = bytes(length)
    valid = numpy.unpackbits(numpy.frombuffer(bytes(expected), "u1"), bitorder="little")
    valid[rows:] = 0
    return numpy.packbits(valid, bitorder="little").tobytes()


def check_vector(client, vector, answer):
    operation = vector["op"]
    if operation in ("bools_to_mask", "nans_to_nulls", "bitmask_and", "bitmask_or"):
        assert answer["null_count"] == vector["null_count"]
        assert client.data(answer["mask"]["id"]) == owned_bytes(vector, vector["size"])
    elif operation in ("copy_bitmask", "copy_bitmask_column"):
        rows = vector["size"] if "size" in vector else vector["end"] - vector["begin"]
        assert client.data(answer["mask"]["id"]) == owned_bytes(vector, rows)
    elif operation == "mask_to_bools":
        data = answer["column"]["data"]
        assert (client.data(data) if data else b"") == bytes.fromhex(vector["expected_hex"])
    elif operation == "allocation_size":
        assert answer["nbytes"] == vector["bytes"]
    elif operation == "create_null_mask":
        fill = bytes.fromhex(vector["fill_byte_hex"] or "00")
        assert client.data(answer["mask"]["id"]) == fill * vector["bytes"]
    elif operation == "segmented_count":
        assert answer["counts"] == vector["null_counts"]
    elif operation == "set_null_mask":
        assert client.data(answer["mask"]["id"]) == bytes.fromhex(vector["expected_hex"])
    elif operation == "null_count":
        assert answer["count"] == vector["null_count"]
    else:
        assert answer["index"] == vector["expected"]


@pytest.mark.parametrize("operation", sorted({vector["op"] for vector in load_vectors("bitmask.json")}))
def test_the_vector_file(client, operation):
    """Every vector, confirmed by cuDF itself; what cuDF leaves open is zero here, and what ends its process is refused."""
    for vector in load_vectors("bitmask.json"):
        if vector["op"] != operation:
            continue
        path, body = run_vector(client, vector)
        answer = client.call("POST", f"/v1/kernels/{path}", json=body)
        if "error" in vector:
            assert answer.status_code == 422, (vector, answer.text)
            assert answer.json()["code"] in ("value_error", "index_error", "out_of_bounds"), vector
        else:
            assert answer.status_code in (200, 201), (vector, answer.text)
            check_vector(client, vector, answer.json())
