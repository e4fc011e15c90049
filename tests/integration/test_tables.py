# SPDX-License-Identifier: Apache-2.0
"""Columns, tables and packing, with the vectors that cuDF confirmed and pyarrow as oracles."""

import base64
import concurrent.futures
import itertools
import json
import struct

import numpy
import pyarrow
import pytest

from conftest import CUDF_NAMES, Client, cai, load_vectors

TABLES = load_vectors("packed_metadata.json")


def octets(client, content):
    """A |u1 view over bytes, or None for none."""
    return client.view(numpy.frombuffer(content, "u1"))["id"] if content else None


def build_column(client, spec):
    return client.post("/v1/columns", {
        "type": {"name": spec["type"], "scale": spec["scale"]}, "size": spec["size"], "offset": spec["offset"],
        "data": octets(client, bytes.fromhex(spec["data_hex"] or "")), "null_mask": octets(client, bytes.fromhex(spec["mask_hex"] or "")),
        "children": [build_column(client, child)["id"] for child in spec["children"]]})


def build_table(client, columns, **members):
    return client.post("/v1/tables", {"columns": [column["id"] for column in columns], **members})


def table_of(client, *columns):
    return build_table(client, columns)


def zeroed(expected):
    """A vector's device bytes with what cuDF leaves open as zero."""
    content = bytearray.fromhex(expected["gpu_data_hex"])
    for offset, length in expected["undefined"]:
        content[offset:offset + length] = bytes(length)
    for offset, rows in expected.get("slack_bits", []):
        word, = struct.unpack_from("<I", content, offset)
        struct.pack_into("<I", content, offset, word & ((1 << rows) - 1))
    return bytes(content)


@pytest.mark.parametrize("vector", TABLES, ids=lambda vector: vector["name"])
def test_packing_is_cudfs_byte_for_byte(client, vector):
    columns = [build_column(client, spec) for spec in vector["table"]["columns"]]
    for column, spec in zip(columns, vector["table"]["columns"]):
        assert column["null_count"] == spec["null_count"]
    table = build_table(client, columns, num_rows=vector["table"]["num_rows"])
    if vector["splits"]:
        parts = client.post(f"/v1/tables/{table['id']}/contiguous_split", {"splits": vector["splits"]})["items"]
    else:
        parts = [client.post(f"/v1/tables/{table['id']}/pack")]
        assert client.get(f"/v1/tables/{table['id']}/packed_size")["nbytes"] == vector["packed_size"]
    expected_parts = vector["expected"]
    if not columns and vector["table"]["num_rows"] == 0 and not vector["splits"]:
        expected_parts = expected_parts or [{"num_rows": 0, "metadata_hex": "", "metadata_legacy_hex": "", "gpu_data_size": 0,
                                             "gpu_data_hex": "", "undefined": []}]
    assert len(parts) == len(expected_parts)
    for part, expected in zip(parts, expected_parts):
        path = f"/v1/packed/{part['id']}"
        assert part["num_rows"] == expected["num_rows"] and part["metadata_version"] == 2
        assert base64.b64decode(part["metadata"]).hex() == expected["metadata_hex"]
        assert client.bytes(path + "/metadata").hex() == expected["metadata_hex"]
        assert client.bytes(path + "/metadata", params={"metadata_version": 0}).hex() == expected["metadata_legacy_hex"]
        assert part["gpu_data_nbytes"] == expected["gpu_data_size"]
        content = client.bytes(path + "/data")
        assert content == zeroed(expected) == client.data(part["gpu_data"])

        unpacked = client.post(path + "/unpack")
        again = client.post(f"/v1/tables/{unpacked['id']}/pack")
        # Strings without rows lose their offsets the second time.
        if part["num_rows"] or (columns and '"STRING"' not in json.dumps(part["columns"])):
            assert again["metadata"] == part["metadata"] and client.bytes(f"/v1/packed/{again['id']}/data") == content
        for version in (2, 0):
            metadata = client.bytes(path + "/metadata", params={"metadata_version": version})
            other = client.post("/v1/packed/unpack_from_memoryviews", {"metadata": base64.b64encode(metadata).decode(), "gpu_data": part["gpu_data"]})
            if version == 2 or columns:
                assert other["num_rows"] == part["num_rows"] and other["num_columns"] == part["num_columns"]


def to_arrow(client, table_id):
    table = client.get(f"/v1/tables/{table_id}")
    return [client.get(f"/v1/columns/{column}/values", params={"limit": 100_000})["values"] for column in table["columns"]]


def random_array(random, typestr, rows):
    dtype = numpy.dtype(typestr)
    if dtype.kind == "b":
        return random.integers(0, 2, rows).astype("?")
    if dtype.kind == "f":
        return random.standard_normal(rows).astype(dtype)
    return numpy.frombuffer(random.bytes(rows * dtype.itemsize), dtype)


@pytest.mark.parametrize("seed", range(12))
def test_random_tables_agree_with_pyarrow(client, seed):
    random = numpy.random.default_rng(seed)
    rows = int(random.integers(1, 400))
    offset = int(random.integers(0, 70))
    columns, arrays = [], []
    for typestr in random.choice(["|i1", "<i2", "<i4", "<i8", "|u1", "<u2", "<u4", "<u8", "<f4", "<f8", "|b1"], int(random.integers(1, 6))):
        whole = random_array(random, typestr, rows + offset)
        valid = random.random(rows + offset) < 0.7 if random.random() < 0.7 else None
        mask = numpy.packbits(valid, bitorder="little").tobytes().hex() if valid is not None else None
        columns.append(client.column(whole, mask, size=rows, offset=offset))
        array = pyarrow.array(whole[offset:], mask=None if valid is None else ~valid[offset:], from_pandas=False)
        arrays.append(array)
        assert columns[-1]["null_count"] == array.null_count
    table = table_of(client, *columns)
    splits = sorted(int(split) for split in random.integers(0, rows + 1, int(random.integers(0, 5))))
    parts = client.post(f"/v1/tables/{table['id']}/contiguous_split", {"splits": splits})["items"]
    client.delete(f"/v1/tables/{table['id']}", params={"if_held": "keep"})
    for part, (begin, end) in zip(parts, itertools.pairwise([0, *splits, rows])):
        unpacked = client.post(f"/v1/packed/{part['id']}/unpack")
        for values, array, entry in zip(to_arrow(client, unpacked["id"]), arrays, part["columns"]):
            single = array.type == pyarrow.float32()
            narrow = lambda value: numpy.float32(value) if single and value is not None else value  # noqa: E731
            expected = array.slice(begin, end - begin)
            assert [narrow(value) for value in values] == [narrow(value) for value in expected.to_pylist()]
            assert entry["null_count"] == expected.null_count


SPLITS = [([], [5]), ([0], [0, 5]), ([5], [5, 0]), ([2, 2], [2, 0, 3])]


@pytest.mark.parametrize("splits, rows", SPLITS)
def test_one_part_more_than_splits(client, splits, rows):
    table = table_of(client, client.column(numpy.arange(5, dtype="<i4")))
    parts = client.post(f"/v1/tables/{table['id']}/contiguous_split", {"splits": splits})["items"]
    assert [part["num_rows"] for part in parts] == rows


@pytest.mark.parametrize("splits, code, pointer", [
    ([6], "index_error", "/splits/0"), ([3, 1], "value_error", "/splits/1"), ([-1], "value_error", "/splits/0"), ([1.0], "type_error", "/splits/0"),
    (["1"], "type_error", "/splits/0"), (3, "type_error", "/splits"), ([2 ** 63], "value_error", "/splits/0"), ([True], "type_error", "/splits/0"),
    ([6, 2], "index_error", "/splits/0"), ([2, 7], "index_error", "/splits/1"), (None, "type_error", "/splits")])
def test_bad_splits(client, splits, code, pointer):
    table = table_of(client, client.column(numpy.arange(5, dtype="<i4")))
    with client.unchanged():
        client.refused("POST", f"/v1/tables/{table['id']}/contiguous_split", 422, code, pointer, json={"splits": splits})


def test_errors_of_the_vector_file(client):
    for vector in load_vectors("packed_errors.json"):
        if vector["op"] != "contiguous_split" or "column_type" in vector:
            continue
        columns = [client.column(numpy.arange(vector["num_rows"], dtype="<i4")) for _ in range(vector["num_columns"])]
        table = build_table(client, columns, num_rows=vector["num_rows"])
        code = {"IndexError": "index_error", "ValueError": "value_error"}[vector["python"]]
        client.refused("POST", f"/v1/tables/{table['id']}/contiguous_split", 422, code, json={"splits": vector["splits"]})


def test_types_that_cannot_be_packed(client):
    empty = client.post("/v1/columns", {"type": {"name": "EMPTY"}, "size": 3})
    indices, keys = (client.column(numpy.arange(2, dtype="i1")) for _ in range(2))
    dictionary = client.post("/v1/columns", {"type": {"name": "DICTIONARY32"}, "size": 2, "children": [indices["id"], keys["id"]]})
    field = client.post("/v1/columns", {"type": {"name": "STRUCT"}, "size": 2, "children": [dictionary["id"]]})
    for column in (empty, dictionary, field):
        table = table_of(client, column)
        for call, members in (("pack", {}), ("contiguous_split", {"splits": [1]})):
            client.refused("POST", f"/v1/tables/{table['id']}/{call}", 422, "dtype_unsupported", json=members)
        client.refused("GET", f"/v1/tables/{table['id']}/packed_size", 422, "dtype_unsupported")


def test_a_table_without_columns(client, control):
    empty = client.post("/v1/tables", {"columns": []})
    assert empty["num_rows"] == 0 and empty["num_columns"] == 0
    packed = client.post(f"/v1/tables/{empty['id']}/pack")
    assert packed["gpu_data_nbytes"] == 0 and packed["metadata"] == "" and packed["gpu_data"].startswith("view_")
    assert client.bytes(f"/v1/packed/{packed['id']}/data") == b""
    back = client.post(f"/v1/packed/{packed['id']}/unpack")
    assert (back["num_rows"], back["num_columns"]) == (0, 0)
    for splits in ([], [3, 1, -5]):
        assert client.post(f"/v1/tables/{empty['id']}/contiguous_split", {"splits": splits})["items"] == []
    rows = client.post("/v1/tables", {"columns": [], "num_rows": 7})
    parts = client.post(f"/v1/tables/{rows['id']}/contiguous_split", {"splits": [3]})["items"]
    assert [part["num_rows"] for part in parts] == [3, 4]
    assert client.post(f"/v1/packed/{parts[1]['id']}/unpack")["num_rows"] == 4
    control()


def test_tables_that_do_not_fit(client):
    five, four = client.column(numpy.arange(5, dtype="<i4")), client.column(numpy.arange(4, dtype="<i4"))
    with client.unchanged():
        for body, code, pointer in (({"columns": [five["id"], four["id"]]}, "value_error", "/columns/1"), ({"columns": [five["id"]], "num_rows": 4}, "value_error", "/num_rows"),
                                    ({"columns": [], "num_rows": -1}, "value_error", "/num_rows"), ({"columns": [], "num_rows": 2 ** 31}, "value_error", "/num_rows"),
                                    ({"columns": "x"}, "type_error", "/columns"), ({"columns": [7]}, "type_error", "/columns/0"), ({}, "value_error", "/columns"),
                                    ({"columns": [five["data"]]}, "kind_mismatch", "/columns/0")):
            client.refused("POST", "/v1/tables", 422, code, pointer, json=body)
        client.refused("POST", "/v1/tables", 404, "handle_unknown", "/columns/0", json={"columns": ["col_00000000000000000000000000"]})
        client.refused("POST", "/v1/tables", 404, "handle_unknown", "/columns/0", json={"columns": ["nonsense"]})
    assert client.post("/v1/tables", {"columns": [five["id"], five["id"]]})["columns"] == [five["id"]] * 2


def column_body(view, **members):
    return {"type": {"name": "INT32"}, "size": 4, "data": view["id"], **members}


@pytest.mark.parametrize("members, code, pointer", [
    ({"size": -1}, "value_error", "/size"), ({"size": 2 ** 31}, "value_error", "/size"), ({"size": 4.0}, "type_error", "/size"), ({"size": 5}, "out_of_bounds", "/data"),
    ({"offset": -1}, "value_error", "/offset"), ({"offset": 1}, "out_of_bounds", "/data"), ({"offset": 2 ** 31 - 1}, "value_error", "/offset"),
    ({"data": None}, "value_error", "/data"), ({"null_count": 1}, "value_error", "/null_count"), ({"null_count": -1}, "value_error", "/null_count"),
    ({"null_count": "0"}, "type_error", "/null_count"), ({"type": {"name": "INT33"}}, "value_error", "/type/name"), ({"type": "INT32"}, "type_error", "/type"),
    ({"type": {}}, "value_error", "/type/name"), ({"type": {"name": "INT32", "scale": 1}}, "value_error", "/type/scale"),
    ({"type": {"name": "INT32", "type_id": 4}}, "value_error", "/type/type_id"), ({"type": {"name": "INT32", "width": 4}}, "value_error", "/type/width"),
    ({"children": ["col_00000000000000000000000000"]}, None, "/children"), ({"mask": None}, "value_error", "/mask")])
def test_columns_that_do_not_fit(client, control, members, code, pointer):
    view = client.view(numpy.arange(4, dtype="<i4"))
    with client.unchanged():
        answer = client.call("POST", "/v1/columns", json=column_body(view, **members))
        problem = answer.json()
        assert answer.status_code in (422, 404), answer.text
        assert code is None or problem["code"] == code, problem
        assert problem["pointer"].startswith(pointer), problem
    control()


def test_columns_over_bytes_must_be_aligned(client):
    buffer = client.upload(bytes(64))
    view = client.post(f"/v1/buffers/{buffer['id']}/views", {"typestr": "|u1", "shape": [40], "offset": 1})
    with client.unchanged():
        client.refused("POST", "/v1/columns", 422, "value_error", "/data", json=column_body(view))
    assert client.post("/v1/columns", {"type": {"name": "INT8"}, "size": 40, "data": view["id"]})["size"] == 40


def test_masks_of_columns_are_checked(client):
    view = client.view(numpy.arange(16, dtype="<i4"))
    short = client.mask("ff")
    body = {"type": {"name": "INT32"}, "size": 9, "data": view["id"], "null_mask": short["id"]}
    with client.unchanged():
        client.refused("POST", "/v1/columns", 422, "out_of_bounds", "/null_mask", json=body)
        client.refused("POST", "/v1/columns", 422, "value_error", "/null_count", json={**body, "size": 8, "null_count": 3})
    assert client.post("/v1/columns", {**body, "size": 8, "null_count": 0})["null_count"] == 0
    none = client.post("/v1/kernels/create_null_mask", {"size": 8, "state": "UNALLOCATED"})["mask"]
    bare = client.post("/v1/columns", {**body, "size": 8, "null_mask": none["id"]})
    assert not bare["nullable"] and bare["null_count"] == 0


def test_slices_of_a_column_count_their_own_nulls(client):
    view = client.view(numpy.zeros(64, "i1"))
    mask = client.mask("ffcfefffffffffff")

    def column(offset, size):
        return client.post("/v1/columns", {"type": {"name": "INT8"}, "size": size, "offset": offset, "data": view["id"], "null_mask": mask["id"]})

    middle = column(10, 40)
    assert middle["null_count"] == 3 and column(10, 5)["null_count"] == 2 and column(15, 15)["null_count"] == 1
    table = table_of(client, middle)
    parts = client.post(f"/v1/tables/{table['id']}/contiguous_split", {"splits": [5, 20]})["items"]
    assert [part["columns"][0]["null_count"] for part in parts] == [2, 1, 0]


def test_packing_a_slice_recounts_its_nulls(client):
    valid = numpy.ones(100, "?")
    valid[::10] = False
    mask = numpy.packbits(valid, bitorder="little").tobytes().hex()
    for begin, end, nulls in ((11, 20, 0), (15, 36, 2)):
        column = client.column(numpy.arange(100, dtype="<i4"), mask, offset=begin, size=end - begin)
        packed = client.post(f"/v1/tables/{table_of(client, column)['id']}/pack")
        assert packed["columns"][0]["null_count"] == nulls


def test_a_later_write_to_the_mask_counts_when_packing(client):
    view, mask = client.view(numpy.arange(8, dtype="<i4")), client.mask("ff")
    column = client.post("/v1/columns", {"type": {"name": "INT32"}, "size": 8, "data": view["id"], "null_mask": mask["id"]})
    client.post("/v1/kernels/set_null_mask", {"bitmask": mask["id"], "begin_bit": 0, "end_bit": 3, "valid": False}, expect=200)
    assert client.get(f"/v1/columns/{column['id']}")["null_count"] == 0
    assert client.post(f"/v1/tables/{table_of(client, column)['id']}/pack")["columns"][0]["null_count"] == 3


def test_every_order_of_mixed_columns(client):
    columns = [client.column(numpy.array([1, 2, 3], "<i4"), "05"), client.column(numpy.array([1.5, 2.5, 3.5], "<f8")),
               client.column(numpy.array([7, 8, 9], "u1")), client.column(numpy.array([1, 0, 1], "u1").view("?")), client.column(numpy.array([-1, 0, 1], "<i8"))]
    values = [[1, None, 3], [1.5, 2.5, 3.5], [7, 8, 9], [True, False, True], [-1, 0, 1]]
    for order in itertools.islice(itertools.permutations(range(5)), 0, 120, 7):
        packed = client.post(f"/v1/tables/{table_of(client, *(columns[i] for i in order))['id']}/pack")
        unpacked = client.post(f"/v1/packed/{packed['id']}/unpack")
        assert to_arrow(client, unpacked["id"]) == [values[i] for i in order]
        spans = sorted((offset, entry["size"]) for entry in packed["columns"] for offset in (entry["data_offset"], entry["null_mask_offset"]) if offset >= 0)
        offsets = [offset for offset, _ in spans]
        assert all(offset % 64 == 0 and offset < packed["gpu_data_nbytes"] for offset in offsets) and len(set(offsets)) == len(offsets)
    three = table_of(client, *columns[1:4])
    assert client.get(f"/v1/tables/{three['id']}/packed_size")["nbytes"] == 192


def test_from_view(client):
    for typestr, name in CUDF_NAMES.items():
        array = numpy.arange(3).astype("u1").astype(typestr) if typestr[1] not in "Mm" else numpy.arange(3).astype("<i8").view(typestr)
        column = client.post("/v1/columns/from_view", {"view": client.view(array)["id"]})
        assert column["type"]["name"] == name and column["size"] == 3 and not column["nullable"]
    whole = client.upload(numpy.arange(6, dtype="<i4"))
    with client.unchanged():
        for shape, strides, code in (([2, 3], [4, 8], "not_contiguous"), ([3], [8], "not_contiguous"), ([], None, "value_error")):
            view = client.post("/v1/views", {"cuda_array_interface": cai(whole["ptr"], shape, "<i4", strides=strides)})
            client.refused("POST", "/v1/columns/from_view", 422, code, "/view", json={"view": view["id"]})
            client.delete(f"/v1/views/{view['id']}")
        huge = client.post("/v1/views", {"cuda_array_interface": cai(0, [2 ** 31, 0], "<i4")})
        assert client.call("POST", "/v1/columns/from_view", json={"view": huge["id"]}).status_code == 422
        client.delete(f"/v1/views/{huge['id']}")


def test_values_of_dates_durations_and_decimals(client):
    def values(name, array, scale=0):
        column = client.post("/v1/columns", {"type": {"name": name, "scale": scale}, "size": len(array), "data": client.view(array)["id"]})
        return client.get(f"/v1/columns/{column['id']}/values")["values"]

    assert values("TIMESTAMP_DAYS", numpy.array([0, 19723, -1], "<i4")) == ["1970-01-01", "2024-01-01", "1969-12-31"]
    stamps = numpy.array(["2024-01-02T03:04:05.678901234", "1969-12-31T23:59:59.999999999"], "<M8[ns]")
    for unit, name in (("s", "SECONDS"), ("ms", "MILLISECONDS"), ("us", "MICROSECONDS"), ("ns", "NANOSECONDS")):
        array = stamps.astype(f"<M8[{unit}]")
        for got, expected in zip(values(f"TIMESTAMP_{name}", array), array):
            assert got.endswith("Z") and numpy.datetime64(got[:-1]) == expected
    assert values("DURATION_MILLISECONDS", numpy.array([-5, 0, 2 ** 40], "<i8")) == [-5, 0, 2 ** 40]
    assert values("DECIMAL32", numpy.array([12345, -5, 0], "<i4"), -2) == ["123.45", "-0.05", "0.00"]
    assert values("DECIMAL64", numpy.array([7, -7], "<i8"), 3) == ["7000", "-7000"]
    wide = numpy.frombuffer((2 ** 100 + 1).to_bytes(16, "little") + (-1).to_bytes(16, "little", signed=True), "<i8")
    column = client.post("/v1/columns", {"type": {"name": "DECIMAL128", "scale": 0}, "size": 2, "data": client.view(wide)["id"]})
    assert client.get(f"/v1/columns/{column['id']}/values")["values"] == [str(2 ** 100 + 1), "-1"]


# lives of packed handles


def packed_of(client, rows=10):
    column = client.column(numpy.arange(rows, dtype="<i8"), "fb" * ((rows + 7) // 8))
    return client.post(f"/v1/tables/{table_of(client, column, client.column(numpy.arange(rows, dtype='u1')))['id']}/pack")


def test_release_hands_the_data_over(client):
    packed = packed_of(client)
    before = client.post(f"/v1/packed/{packed['id']}/unpack")
    released = client.post(f"/v1/packed/{packed['id']}/release", expect=200)
    assert released["metadata"] == packed["metadata"] and released["metadata_nbytes"] == packed["metadata_nbytes"]
    assert released["gpu_data"]["id"] == packed["gpu_data"]
    assert client.get(f"/v1/handles/{packed['gpu_data']}")["named"]
    for method, path in (("GET", ""), ("GET", "/metadata"), ("GET", "/data"), ("POST", "/unpack"), ("POST", "/release")):
        client.refused(method, f"/v1/packed/{packed['id']}{path}", 409, "already_released")
    assert client.get(f"/v1/handles/{packed['id']}")["owners"] == []
    client.delete(f"/v1/packed/{packed['id']}")
    again = client.post("/v1/packed/unpack_from_memoryviews", {"metadata": released["metadata"], "gpu_data": released["gpu_data"]["id"]})
    client.delete(f"/v1/views/{released['gpu_data']['id']}")
    assert to_arrow(client, again["id"]) == to_arrow(client, before["id"])


def test_one_of_many_releases_wins(daemon, client):
    packed = packed_of(client)
    with concurrent.futures.ThreadPoolExecutor(32) as pool:
        answers = list(pool.map(lambda _: Client(daemon.url).call("POST", f"/v1/packed/{packed['id']}/release", json={}), range(32)))
    assert sorted(answer.status_code for answer in answers) == [200] + [409] * 31
    assert {answer.json()["code"] for answer in answers if answer.status_code == 409} == {"already_released"}


def test_unpacked_columns_live_in_the_packed_buffer(client):
    packed = packed_of(client)
    table = client.post(f"/v1/packed/{packed['id']}/unpack")
    first, second = table["columns"]
    gone = client.delete(f"/v1/packed/{packed['id']}")
    assert gone["alive"] and gone["kept_alive_by_count"] >= 1
    assert client.refused("GET", f"/v1/packed/{packed['id']}", 410, "handle_deleted")["alive"] is True
    other = client.post("/v1/tables", {"columns": [second]})
    client.refused("DELETE", f"/v1/columns/{second}", 409, "handle_inner")
    client.delete(f"/v1/tables/{table['id']}")
    assert client.get(f"/v1/columns/{second}/values")["values"] == list(range(10))
    client.refused("GET", f"/v1/columns/{first}/values", 410, "handle_deleted")
    gone = client.delete(f"/v1/tables/{other['id']}")
    assert gone["freed_nbytes"] == packed["gpu_data_nbytes"] and not gone["alive"]
    client.refused("GET", f"/v1/columns/{second}/values", 410, "handle_deleted")
    assert client.refused("GET", f"/v1/packed/{packed['id']}", 410, "handle_deleted")["alive"] is False


def test_cascade_from_a_packed_handle_takes_slices_of_its_columns(client):
    packed = packed_of(client)
    table = client.post(f"/v1/packed/{packed['id']}/unpack")
    column = client.get(f"/v1/columns/{table['columns'][0]}")
    piece = client.post(f"/v1/views/{column['data']}/byte_slice", {"start": 8})
    client.delete(f"/v1/packed/{packed['id']}", params={"if_held": "cascade"})
    for path in (f"/v1/tables/{table['id']}", f"/v1/views/{piece['id']}", f"/v1/columns/{column['id']}"):
        problem = client.refused("GET", path, 410, "handle_deleted")
        assert problem["alive"] is False


def test_deleting_packed_data_gives_the_memory_back(client):
    column = client.column(numpy.arange(200_000, dtype="<i8"))
    table = table_of(client, column)
    start, freed, made = client.registered(), 0, 0
    for round_number in range(40):
        packed = client.post(f"/v1/tables/{table['id']}/pack")
        made += packed["gpu_data_nbytes"]
        if round_number % 4 == 1:
            view = client.post(f"/v1/packed/{packed['id']}/release", expect=200)["gpu_data"]
            freed += client.delete(f"/v1/views/{view['id']}")["freed_nbytes"]
            freed += client.delete(f"/v1/packed/{packed['id']}")["freed_nbytes"]
        elif round_number % 4 == 2:
            unpacked = client.post(f"/v1/packed/{packed['id']}/unpack")
            freed += client.delete(f"/v1/packed/{packed['id']}")["freed_nbytes"]
            freed += client.delete(f"/v1/tables/{unpacked['id']}")["freed_nbytes"]
        else:
            freed += client.delete(f"/v1/packed/{packed['id']}")["freed_nbytes"]
        assert client.registered() == start
    assert freed == made


# hostile metadata


def entry_offset(index):
    return 16 + 40 * index


def patched(metadata, offset, text, value):
    content = bytearray(metadata)
    struct.pack_into("<" + text, content, offset, value)
    return bytes(content)


HOSTILE = [
    ("version 1", lambda m: patched(m, 0, "i", 1)), ("version 99", lambda m: patched(m, 0, "i", 99)), ("columns -1", lambda m: patched(m, 4, "i", -1)),
    ("columns 2", lambda m: patched(m, 4, "i", 2)), ("columns 1000000", lambda m: patched(m, 4, "i", 1_000_000)), ("rows 4", lambda m: patched(m, 8, "i", 4)),
    ("rows -1", lambda m: patched(m, 8, "i", -1)), ("one byte short", lambda m: m[:-1]), ("junk in front", lambda m: b"x" + m),
    ("forty more", lambda m: m + bytes(40)), ("data offset at the end", lambda m: patched(m, 32, "q", 128)), ("data offset -2", lambda m: patched(m, 32, "q", -2)),
    ("data offset misaligned", lambda m: patched(m, 32, "q", 65)), ("data offset huge", lambda m: patched(m, 32, "q", 2 ** 62)), ("no data", lambda m: patched(m, 32, "q", -1)),
    ("mask offset past the end", lambda m: patched(m, 40, "q", 4096)), ("no mask but nulls", lambda m: patched(m, 40, "q", -1)),
    ("size 2e9", lambda m: patched(m, 24, "i", 2_000_000_000)), ("size -1", lambda m: patched(m, 24, "i", -1)), ("children 1000000", lambda m: patched(m, 48, "i", 1_000_000)),
    ("children -1", lambda m: patched(m, 48, "i", -1)), ("null count size + 1", lambda m: patched(m, 28, "i", 4)), ("null count -1", lambda m: patched(m, 28, "i", -1)),
    ("null count that the mask belies", lambda m: patched(m, 28, "i", 2)), ("type 999", lambda m: patched(m, 16, "i", 999)), ("type -1", lambda m: patched(m, 16, "i", -1)),
    ("a scale on INT32", lambda m: patched(m, 20, "i", 3)), ("header only", lambda m: m[:16]), ("eight bytes", lambda m: m[:8]), ("one byte", lambda m: m[:1]), ("empty", lambda m: b""),
]


@pytest.mark.parametrize("name, lie", HOSTILE, ids=[name for name, _ in HOSTILE])
def test_metadata_that_lies(client, control, name, lie):
    packed = client.post(f"/v1/tables/{table_of(client, client.column(numpy.array([1, 2, 3], '<i4'), '05'))['id']}/pack")
    metadata = base64.b64decode(packed["metadata"])
    assert len(metadata) == 56
    with client.unchanged():
        client.refused("POST", "/v1/packed/unpack_from_memoryviews", 422, "metadata_invalid", "/metadata", json={
            "metadata": base64.b64encode(lie(metadata)).decode(), "gpu_data": packed["gpu_data"]})
    control()


def test_deeply_nested_metadata(client, control):
    entry = struct.pack("<iiiiqqii", 24, 0, 0, 0, -1, -1, 2, 0) + struct.pack("<iiiiqqii", 3, 0, 0, 0, -1, -1, 0, 0)
    metadata = struct.pack("<iiii", 2, 1, 0, 0) + entry * 50_000 + struct.pack("<iiiiqqii", 3, 0, 0, 0, -1, -1, 0, 0)
    with client.unchanged():
        client.refused("POST", "/v1/packed/unpack_from_memoryviews", 422, "metadata_invalid", "/metadata",
                       json={"metadata": base64.b64encode(metadata).decode(), "gpu_data": None})
    control()


def test_metadata_texts_and_data_that_do_not_fit(client, control):
    packed = client.post(f"/v1/tables/{table_of(client, client.column(numpy.array([1, 2, 3], '<i4'), '05'))['id']}/pack")
    text = packed["metadata"]
    buffer = client.upload(bytes(300))
    strided = client.post("/v1/views", {"cuda_array_interface": cai(buffer["ptr"], [128], "|u1", strides=[2])})
    short = client.post(f"/v1/views/{packed['gpu_data']}/byte_slice", {"stop": 70})
    off = client.post(f"/v1/buffers/{buffer['id']}/views", {"typestr": "|u1", "shape": [128], "offset": 1})
    with client.unchanged():
        for metadata in (text[:-1], text[:20] + " " + text[20:], text[:20] + "\n" + text[20:], text.replace("A", "-", 1), text + "=", "===="):
            client.refused("POST", "/v1/packed/unpack_from_memoryviews", 422, "value_error", "/metadata", json={"metadata": metadata, "gpu_data": packed["gpu_data"]})
        for view, code, pointer in ((strided, "not_contiguous", "/gpu_data"), (short, "metadata_invalid", "/metadata"), (off, "value_error", "/gpu_data")):
            client.refused("POST", "/v1/packed/unpack_from_memoryviews", 422, code, pointer, json={"metadata": text, "gpu_data": view["id"]})
        client.refused("POST", "/v1/packed/unpack_from_memoryviews", 422, "metadata_invalid", "/metadata", json={"metadata": text, "gpu_data": None})
        client.refused("POST", "/v1/packed/unpack_from_memoryviews", 422, "type_error", "/metadata", json={"metadata": 7, "gpu_data": None})
        for version in ("1", "3", "x", ""):
            client.refused("GET", f"/v1/packed/{packed['id']}/metadata", 400, "request_malformed", params={"metadata_version": version})
    control()


def test_empty_metadata_is_the_empty_table(client):
    for gpu_data in (None, client.post("/v1/views", {"cuda_array_interface": cai(0, [0], "|u1")})["id"]):
        table = client.post("/v1/packed/unpack_from_memoryviews", {"metadata": "", "gpu_data": gpu_data})
        assert (table["num_rows"], table["num_columns"]) == (0, 0)
    with client.unchanged():
        data = client.view(numpy.zeros(64, "u1"))
        client.refused("POST", "/v1/packed/unpack_from_memoryviews", 422, "metadata_invalid", "/metadata", json={"metadata": "", "gpu_data": data["id"]})
        client.delete(f"/v1/views/{data['id']}")
        client.delete(f"/v1/buffers/{data['buffer']}")


def test_an_empty_partition_between_others(client):
    table = table_of(client, client.column(numpy.arange(5, dtype="<i4"), "1f"), client.column(numpy.arange(5, dtype="<f8")))
    parts = client.post(f"/v1/tables/{table['id']}/contiguous_split", {"splits": [2, 2]})["items"]
    middle = parts[1]
    assert middle["gpu_data_nbytes"] == 0 and [entry["data_offset"] for entry in middle["columns"]] == [-1, -1]
    nothing = client.post("/v1/views", {"cuda_array_interface": cai(0, [0], "|u1")})
    back = client.post("/v1/packed/unpack_from_memoryviews", {"metadata": middle["metadata"], "gpu_data": nothing["id"]})
    assert back["num_rows"] == 0 and [client.get(f"/v1/columns/{c}")["type"]["name"] for c in back["columns"]] == ["INT32", "FLOAT64"]


def test_long_answers_leave_the_metadata_to_each_part(client):
    columns = [client.column(numpy.arange(64, dtype="u1")) for _ in range(80)]
    table = table_of(client, *columns)
    parts = client.post(f"/v1/tables/{table['id']}/contiguous_split", {"splits": sorted(list(range(64)) * 3)})["items"]
    assert len(parts) == 193 and parts[-1]["metadata"] is None and parts[-1]["columns"] is None
    whole = client.get(f"/v1/packed/{parts[-1]['id']}")
    assert len(whole["columns"]) == 80 and len(base64.b64decode(whole["metadata"])) == 16 + 40 * 80
