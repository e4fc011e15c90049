# SPDX-License-Identifier: Apache-2.0
"""More than 2^31 bytes, rows or characters in one call. GMVD_LARGE=1 runs these; they need 8 GiB of memory."""

import base64
import os
import struct

import numpy
import pytest

from conftest import cai

pytestmark = pytest.mark.skipif(not os.environ.get("GMVD_LARGE"), reason="GMVD_LARGE=1 runs tests that take gigabytes")
TWO_GIB = 1 << 31


def allocate(client, nbytes, marks):
    """A buffer of zeros but for marks: {offset: bytes}."""
    buffer = client.post("/v1/buffers", {"nbytes": nbytes})
    for offset, content in marks.items():
        client.call("PUT", f"/v1/buffers/{buffer['id']}/data", expect=200, params={"offset": offset}, data=content,
                    headers={"Content-Type": "application/octet-stream"})
    return buffer


def view_of(client, buffer, typestr, count):
    return client.post(f"/v1/buffers/{buffer['id']}/views", {"typestr": typestr, "shape": [count]})["id"]


def streamed(client, path, windows):
    """Reads a whole answer; gives its length, and the bytes at the given places."""
    found, offset = {begin: b"" for begin in windows}, 0
    with client.http.get(client.url + path, stream=True, timeout=600) as answer:
        assert answer.status_code == 200
        for piece in answer.iter_content(1 << 24):
            for begin, end in windows.items():
                found[begin] += piece[max(begin - offset, 0):max(end - offset, 0)]
            offset += len(piece)
        assert answer.headers["Content-Length"] == str(offset)
    return offset, found


def test_rows_of_more_than_2_31_bytes_are_cut_and_streamed(client):
    rows, cut = 419_430_400, 300_000_001
    marks = {row * 8: struct.pack("<q", row) for row in (0, 1, cut - 1, cut, TWO_GIB // 8, rows - 1)}
    column = client.post("/v1/columns", {"type": {"name": "INT64"}, "size": rows,
                                         "data": view_of(client, allocate(client, rows * 8, marks), "<i8", rows)})
    table = client.post("/v1/tables", {"columns": [column["id"]]})
    assert client.get(f"/v1/tables/{table['id']}/packed_size") == {"nbytes": rows * 8}
    for chunk in (3 << 30, 1 << 28):
        nbytes, found = streamed(client, f"/v1/tables/{table['id']}/packed_stream?chunk_nbytes={chunk}",
                                 {begin: begin + 8 for begin in marks})
        assert nbytes == rows * 8 and found == marks
    parts = client.post(f"/v1/tables/{table['id']}/contiguous_split", {"splits": [cut]})["items"]
    assert [part["num_rows"] for part in parts] == [cut, rows - cut]
    assert [part["gpu_data_nbytes"] for part in parts] == [-(-cut * 8 // 64) * 64, -(-(rows - cut) * 8 // 64) * 64]
    for part, first in zip(parts, (0, cut)):
        unpacked, = client.post(f"/v1/packed/{part['id']}/unpack")["columns"]
        for row in (offset // 8 for offset in marks):
            if first <= row < first + part["num_rows"]:
                query = {"offset": row - first, "limit": 1}
                assert client.get(f"/v1/columns/{unpacked}/values", params=query)["values"] == [row]


def test_more_than_2_31_characters_are_packed_and_cut(client):
    ends = [0, 5, TWO_GIB + 10, TWO_GIB + 20, TWO_GIB + 20, TWO_GIB + 100]
    text = allocate(client, ends[-1], {0: b"first", TWO_GIB + 10: b"0123456789", TWO_GIB + 20: b"e" * 80})
    offsets = client.column(numpy.array(ends, "<i8"))
    characters = client.post("/v1/views", {"cuda_array_interface": cai(text["ptr"], [ends[-1]], "|u1")})
    column = client.post("/v1/columns", {"type": {"name": "STRING"}, "size": 5, "data": characters["id"], "children": [offsets["id"]]})

    def rows(column_id, first, limit):
        return client.get(f"/v1/columns/{column_id}/values", params={"offset": first, "limit": limit})["values"]

    assert rows(column["id"], 0, 1) == ["first"] and rows(column["id"], 2, 3) == ["0123456789", "", "e" * 80]
    table = client.post("/v1/tables", {"columns": [column["id"]]})
    packed = client.post(f"/v1/tables/{table['id']}/pack")
    characters_nbytes = -(-ends[-1] // 64) * 64
    assert packed["gpu_data_nbytes"] == characters_nbytes + 64
    unpacked, = client.post(f"/v1/packed/{packed['id']}/unpack")["columns"]
    assert rows(unpacked, 0, 1) == ["first"] and rows(unpacked, 2, 3) == ["0123456789", "", "e" * 80]
    nbytes, found = streamed(client, f"/v1/tables/{table['id']}/packed_stream", {TWO_GIB + 10: TWO_GIB + 20})
    assert (nbytes, found) == (packed["gpu_data_nbytes"], {TWO_GIB + 10: b"0123456789"})
    assert client.bytes(f"/v1/tables/{table['id']}/packed_metadata") == base64.b64decode(packed["metadata"])
    client.delete(f"/v1/packed/{packed['id']}", params={"if_held": "cascade"})
    parts = client.post(f"/v1/tables/{table['id']}/contiguous_split", {"splits": [1, 2]})["items"]
    for part, wanted in zip(parts, (["first"], None, ["0123456789", "", "e" * 80])):
        unpacked, = client.post(f"/v1/packed/{part['id']}/unpack")["columns"]
        assert wanted is None or rows(unpacked, 0, 3) == wanted
    assert parts[1]["gpu_data_nbytes"] == -(-(ends[2] - ends[1]) // 64) * 64 + 64


@pytest.mark.parametrize("rows", [1_300_000_000, 1_799_989_091])
def test_more_than_a_billion_booleans_become_a_mask(client, rows):
    zeros = view_of(client, client.post("/v1/buffers", {"nbytes": rows}), "|b1", rows)
    assert client.post("/v1/kernels/bools_to_mask", {"input": zeros})["null_count"] == rows
    client.delete(f"/v1/views/{zeros}", params={"if_held": "cascade"})
    client.delete_all()
    buffer = client.post("/v1/buffers", {"nbytes": rows})
    ones, step = bytes(1 << 26).replace(b"\0", b"\1"), 1 << 26
    for offset in range(0, rows - 1, step):
        client.call("PUT", f"/v1/buffers/{buffer['id']}/data", expect=200, params={"offset": offset},
                    data=ones[:min(step, rows - 1 - offset)], headers={"Content-Type": "application/octet-stream"})
    result = client.post("/v1/kernels/bools_to_mask", {"input": view_of(client, buffer, "|b1", rows)})
    assert result["null_count"] == 1
    body = {"bitmask": result["mask"]["id"], "begin_bit": 0, "end_bit": rows}
    assert client.post("/v1/kernels/null_count", body, expect=200)["count"] == 1
    last = {**body, "begin_bit": rows - 1}
    assert client.post("/v1/kernels/null_count", last, expect=200)["count"] == 1


def test_all_memory_of_many_large_packs_comes_back(client):
    """Packed and deleted as it is, after release, and after unpack with the table or the handle going first."""
    rows = (64 << 20) // 8
    table = client.post("/v1/tables", {"columns": [client.column(numpy.arange(rows, dtype="<i8"))["id"]]})
    start, freed, made = client.registered(), 0, 0

    def delete(collection, handle_id):
        return client.delete(f"/v1/{collection}/{handle_id}")["freed_nbytes"]

    for number in range(100):
        packed = client.post(f"/v1/tables/{table['id']}/pack")
        made += packed["gpu_data_nbytes"]
        names = [("packed", packed["id"])]
        if number % 4 == 1:
            names.append(("views", client.post(f"/v1/packed/{packed['id']}/release", expect=200)["gpu_data"]["id"]))
        elif number % 4 > 1:
            names.append(("tables", client.post(f"/v1/packed/{packed['id']}/unpack")["id"]))
        freed += sum(delete(*name) for name in (names if number % 4 < 3 else reversed(names)))
        assert client.registered() == start
    assert freed == made == 100 * (64 << 20)
