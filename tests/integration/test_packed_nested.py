# SPDX-License-Identifier: Apache-2.0
"""Packed tables of strings, lists and structs over HTTP: inspect, unpack, and what lies about them."""

import base64
import random
import struct

import numpy
import pyarrow
import pytest

from conftest import load_vectors
from test_columns_nested import array_of, random_kind, upload, values

VECTORS = {vector["name"]: vector for vector in load_vectors("packed_metadata.json")}
PARTITIONS = [(name, index) for name, vector in VECTORS.items() for index in range(len(vector["expected"]))]


def text_of(hexadecimal):
    return base64.b64encode(bytes.fromhex(hexadecimal)).decode()


def tree_of(entries):
    """The flat, depth-first entries of a vector as the columns that answers show."""
    def take():
        entry = next(rest)
        return {"type": {"name": entry["type"], "scale": entry["scale"]}, "size": entry["size"],
                "null_count": entry["null_count"], "data_offset": entry["data_offset"],
                "null_mask_offset": entry["null_mask_offset"], "children": [take() for _ in range(entry["num_children"])]}

    rest, columns = iter(entries), []
    while True:
        try:
            columns.append(take())
        except StopIteration:
            return columns


def without_ids(columns):
    return [{**column, "type": {key: value for key, value in column["type"].items() if key != "type_id"},
             "children": without_ids(column["children"])} for column in columns]


def upload_data(client, partition):
    content = bytes.fromhex(partition["gpu_data_hex"])
    return client.view(numpy.frombuffer(content, "u1"))["id"] if content else None


def shown(client, column_id, gpu_data, base):
    """A column handle and those below it, in the form of a packed handle's columns."""
    column = client.get(f"/v1/columns/{column_id}")

    def offset(view_id, size):
        if view_id is None:
            return -1
        view = client.get(f"/v1/views/{view_id}")
        assert gpu_data in view["owners"]
        return view["ptr"] - base

    return {"type": {"name": column["type"]["name"], "scale": column["type"]["scale"]}, "size": column["size"],
            "null_count": column["null_count"], "data_offset": offset(column["data"], column["size"]),
            "null_mask_offset": offset(column["null_mask"], column["size"]),
            "children": [shown(client, child, gpu_data, base) for child in column["children"]]}


@pytest.mark.parametrize("name, index", PARTITIONS, ids=[f"{name}-{index}" for name, index in PARTITIONS])
def test_vectors_are_inspected_and_unpacked(client, name, index):
    partition = VECTORS[name]["expected"][index]
    gpu_data = upload_data(client, partition)
    base = client.get(f"/v1/views/{gpu_data}")["ptr"] if gpu_data else 0
    for key, version in (("metadata_hex", 2), ("metadata_legacy_hex", 0)):
        metadata = text_of(partition[key])
        for nbytes in (None, partition["gpu_data_size"]):
            inspected = client.post("/v1/packed/inspect", {"metadata": metadata, "gpu_data_nbytes": nbytes}, expect=200)
            assert without_ids(inspected["columns"]) == tree_of(partition["entries"])
            assert inspected["metadata_nbytes"] == len(partition[key]) // 2
            if partition[key]:
                assert inspected["metadata_version"] == version
            if version == 2 or inspected["num_columns"]:
                assert inspected["num_rows"] == partition["num_rows"]
        table = client.post("/v1/packed/unpack_from_memoryviews", {"metadata": metadata, "gpu_data": gpu_data})
        assert [shown(client, column, gpu_data, base) for column in table["columns"]] == tree_of(partition["entries"])


def has_packed_form(kind):
    if pyarrow.types.is_null(kind) or pyarrow.types.is_dictionary(kind):
        return False
    if pyarrow.types.is_list(kind):
        return has_packed_form(kind.value_type)
    return all(has_packed_form(field.type) for field in kind) if pyarrow.types.is_struct(kind) else True


def random_table(client, rng):
    """Up to three columns of random types, cut anywhere, and the rows that they show."""
    rows, columns, wanted = rng.choice([1, 8, 33, 70]), [], []
    for _ in range(rng.randrange(1, 4)):
        kind = random_kind(rng, 3)
        while not has_packed_form(kind):
            kind = random_kind(rng, 3)
        first = rng.randrange(6)
        array, want = array_of(rng, kind, first + rows + rng.randrange(4))
        columns.append(upload(client, array, first, rows)["id"])
        wanted.append(want[first:first + rows])
    return client.post("/v1/tables", {"columns": columns}), wanted


@pytest.mark.parametrize("seed", range(16))
def test_random_tables_come_back_whole_and_in_parts(client, seed):
    rng = random.Random(seed)
    table, wanted = random_table(client, rng)
    content = client.bytes(f"/v1/tables/{table['id']}/packed_stream")
    data = client.view(numpy.frombuffer(content, "u1"))["id"] if content else None
    packed = client.post(f"/v1/tables/{table['id']}/pack")
    assert client.bytes(f"/v1/packed/{packed['id']}/data") == content

    def rows_of(unpacked):
        return [values(client, client.get(f"/v1/columns/{column}"), limit=1000) for column in unpacked["columns"]]

    for version in (2, 0):
        metadata = client.bytes(f"/v1/tables/{table['id']}/packed_metadata", params={"metadata_version": version})
        body = {"metadata": base64.b64encode(metadata).decode(), "gpu_data": data}
        unpacked = client.post("/v1/packed/unpack_from_memoryviews", body)
        assert rows_of(unpacked) == wanted
        again = client.post(f"/v1/tables/{unpacked['id']}/pack")
        assert again["metadata"] == packed["metadata"]
        assert client.bytes(f"/v1/packed/{again['id']}/data") == content
    splits = sorted(rng.randrange(table["num_rows"] + 1) for _ in range(3))
    parts = client.post(f"/v1/tables/{table['id']}/contiguous_split", {"splits": splits})["items"]
    for part, first, end in zip(parts, [0, *splits], [*splits, table["num_rows"]]):
        unpacked = client.post(f"/v1/packed/{part['id']}/unpack")
        assert rows_of(unpacked) == [want[first:end] for want in wanted]


def test_inspect_refuses_what_is_not_true(client, control):
    partition = VECTORS["list_of_struct"]["expected"][0]
    metadata = bytes.fromhex(partition["metadata_hex"])

    def lies(offset, kind, value, says, nbytes=None):
        content = bytearray(metadata)
        struct.pack_into("<" + kind, content, offset, value)
        problem = client.refused("POST", "/v1/packed/inspect", 422, "metadata_invalid", "/metadata",
                                 json={"metadata": base64.b64encode(content).decode(), "gpu_data_nbytes": nbytes})
        assert says in problem["detail"], problem["detail"]

    with client.unchanged():
        lies(0, "i", 1, "version 1")
        lies(4, "i", 2, "end within a column")
        lies(16 + 32, "i", 1, "entry 0: num_children is 1")
        lies(16 + 40 + 8, "i", 6, "entry 1: there are 6 offsets for 6 rows")
        lies(16 + 40 * 3 + 8, "i", 8, "entry 3: size is 8, but the struct around it has 9 rows")
        lies(16 + 40 * 5, "i", 2, "entry 5: offsets of a STRING column cannot be INT16")
        lies(16 + 40 * 5 + 16, "q", 512, "entry 5: data_offset is 512", 512)
        lies(16 + 40 * 5 + 16, "q", 256, "overlaps")
        for nbytes, status in ((0, 422), (487, 422)):
            client.refused("POST", "/v1/packed/inspect", status, "metadata_invalid", "/metadata",
                           json={"metadata": text_of(partition["metadata_hex"]), "gpu_data_nbytes": nbytes})
        client.refused("POST", "/v1/packed/inspect", 422, "value_error", "/gpu_data_nbytes",
                       json={"metadata": "", "gpu_data_nbytes": -1})
        client.refused("POST", "/v1/packed/inspect", 422, "type_error", "/gpu_data_nbytes",
                       json={"metadata": "", "gpu_data_nbytes": "1"})
        client.refused("POST", "/v1/packed/inspect", 422, "value_error", "/metadata", json={})
        client.refused("POST", "/v1/packed/inspect", 422, "metadata_invalid", "/metadata",
                       json={"metadata": "", "gpu_data_nbytes": 64})
    nothing = client.post("/v1/packed/inspect", {"metadata": "", "gpu_data_nbytes": 0}, expect=200)
    assert nothing == {"num_rows": 0, "num_columns": 0, "metadata_version": 2, "metadata_nbytes": 0, "columns": []}
    control()


def test_deep_trees_are_shown_and_read(client):
    levels = 64
    entry = struct.Struct("<iiiiqqii")
    metadata = struct.pack("<iiii", 2, 1, 1, 0) + entry.pack(28, 0, 1, 0, -1, -1, 1, 0) * (levels - 1) + \
        entry.pack(1, 0, 1, 0, 0, -1, 0, 0)
    column, = client.post("/v1/packed/inspect", {"metadata": base64.b64encode(metadata).decode()}, expect=200)["columns"]
    data = client.view(numpy.zeros(64, "u1"))["id"]
    table = client.post("/v1/packed/unpack_from_memoryviews", {"metadata": base64.b64encode(metadata).decode(), "gpu_data": data})
    handle = client.get(f"/v1/columns/{table['columns'][0]}")
    for _ in range(levels - 1):
        assert column["type"]["name"] == handle["type"]["name"] == "STRUCT"
        column, = column["children"]
        handle = client.get(f"/v1/columns/{handle['children'][0]}")
    assert column["type"]["name"] == handle["type"]["name"] == "INT8"


def test_wide_trees_are_shown_whole(client):
    entry = struct.Struct("<iiiiqqii")
    field = {"type": {"name": "INT8", "type_id": 1, "scale": 0}, "size": 0, "null_count": 0, "data_offset": -1,
             "null_mask_offset": -1, "children": []}
    for fields in (100, 100_000):  # to hold the longer one against the document takes half a minute
        metadata = struct.pack("<iiii", 2, 1, 0, 0) + entry.pack(28, 0, 0, 0, -1, -1, fields, 0) + \
            entry.pack(1, 0, 0, 0, -1, -1, 0, 0) * fields
        answer = client.post("/v1/packed/inspect", {"metadata": base64.b64encode(metadata).decode()}, expect=200,
                             documented=fields <= 100)
        assert answer["columns"][0]["children"] == [field] * fields


def test_offsets_and_masks_that_lie(client, control):
    partition = VECTORS["list_of_struct"]["expected"][0]
    good = bytearray.fromhex(partition["gpu_data_hex"])
    body = {"metadata": text_of(partition["metadata_hex"])}
    for offset, value, says in ((64, 1, "entry 0: its offsets start at 1"), (68, 100, "entry 0: its offset number 1"),
                                (88, 8, "entry 0: its offsets end at 8, but the number of its elements is 9"),
                                (448 + 36, 2 ** 31 - 1, "entry 4: its offsets end at 2147483647"),
                                (448 + 36, 65, "overlaps"), (128, 0, "entry 2: null_count is 1, but its mask has 9 nulls")):
        content = bytearray(good)
        struct.pack_into("<i", content, offset, value)
        view = client.view(numpy.frombuffer(bytes(content), "u1"))["id"]
        with client.unchanged():
            problem = client.refused("POST", "/v1/packed/unpack_from_memoryviews", 422, "metadata_invalid", "/metadata",
                                     json={**body, "gpu_data": view})
            assert says in problem["detail"], problem["detail"]
    control()
