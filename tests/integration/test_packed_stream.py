# SPDX-License-Identifier: Apache-2.0
"""Tables that are packed as they are sent: the bytes, clients that stall or go, deletion and drain."""

import base64
import signal
import time

import numpy
import pytest

from conftest import BACKEND, PATIENCE, load_vectors, parse_answers

VECTORS = {vector["name"]: vector for vector in load_vectors("packed_metadata.json")}
MIB = 1 << 20


def unpacked(client, name, index=0):
    partition = VECTORS[name]["expected"][index]
    content = bytes.fromhex(partition["gpu_data_hex"])
    data = client.view(numpy.frombuffer(content, "u1"))["id"] if content else None
    metadata = base64.b64encode(bytes.fromhex(partition["metadata_hex"])).decode()
    return client.post("/v1/packed/unpack_from_memoryviews", {"metadata": metadata, "gpu_data": data})


def long_table(client, rows):
    """INT64 with nulls, cut from row 5 on, and UINT8; a few buffers of odd sizes."""
    numbers = client.view(numpy.arange(rows + 5, dtype="<i8") * 1000003)
    mask = client.view(numpy.frombuffer(numpy.random.default_rng(1).bytes((rows + 5) // 8 + 1), "u1"))
    columns = [client.post("/v1/columns", {"type": {"name": "INT64"}, "size": rows, "offset": 5, "data": numbers["id"],
                                           "null_mask": mask["id"]})["id"],
               client.column(numpy.arange(rows, dtype="u1"))["id"]]
    return client.post("/v1/tables", {"columns": columns})


def packed_bytes(client, table):
    packed = client.post(f"/v1/tables/{table['id']}/pack")
    content = client.bytes(f"/v1/packed/{packed['id']}/data")
    client.delete(f"/v1/packed/{packed['id']}")
    return content, base64.b64decode(packed["metadata"])


@pytest.mark.parametrize("name", [name for name, vector in VECTORS.items() if vector["expected"]])
def test_vectors_are_streamed_as_pack_lays_them_out(client, name):
    for index in range(len(VECTORS[name]["expected"])):
        table = unpacked(client, name, index)
        content, metadata = packed_bytes(client, table)
        answer = client.call("GET", f"/v1/tables/{table['id']}/packed_stream", expect=200)
        assert answer.content == content
        assert answer.headers["Content-Length"] == str(len(content))
        assert answer.headers["Content-Type"] == "application/octet-stream"
        assert answer.headers["Cache-Control"] == "no-store" and "ETag" not in answer.headers
        assert client.bytes(f"/v1/tables/{table['id']}/packed_metadata") == metadata
        assert client.get(f"/v1/tables/{table['id']}/packed_size") == {"nbytes": len(content)}
        old = client.bytes(f"/v1/tables/{table['id']}/packed_metadata", params={"metadata_version": 0})
        if metadata[4:8] != bytes(4) and metadata:
            body = {"metadata": base64.b64encode(old).decode(), "gpu_data_nbytes": len(content)}
            assert client.post("/v1/packed/inspect", body, expect=200)["metadata_version"] == 0


def test_long_tables_whatever_the_chunk_and_the_range(client):
    table = long_table(client, 500_001)
    content, metadata = packed_bytes(client, table)
    path = f"/v1/tables/{table['id']}/packed_stream"
    assert len(content) > 4 * MIB
    for chunk in (MIB, MIB + 1, 3_072_000, 64 * MIB, 2 ** 53, 10 ** 18, 2 ** 63 - 1):
        assert client.bytes(path, params={"chunk_nbytes": chunk}) == content
    for first, last in ((0, 0), (1, 100), (63, 2 * MIB + 64), (len(content) - 3, len(content) - 1), (MIB, 3 * MIB - 1)):
        answer = client.call("GET", path, expect=206, headers={"Range": f"bytes={first}-{last}"})
        assert answer.content == content[first:last + 1]
        assert answer.headers["Content-Range"] == f"bytes {first}-{last}/{len(content)}"
    several = client.call("GET", path, expect=206, headers={"Range": f"bytes=5-70,{MIB}-{2 * MIB},-9"})
    assert several.headers["Content-Type"].startswith("multipart/byteranges")
    for part in (content[5:71], content[MIB:2 * MIB + 1], content[-9:]):
        assert b"\r\n\r\n" + part + b"\r\n" in several.content
    client.refused("GET", path, 416, "range_not_satisfiable", headers={"Range": f"bytes={len(content)}-"})
    head = client.call("HEAD", path, expect=200, documented=False)
    assert head.content == b"" and head.headers["Content-Length"] == str(len(content))
    assert client.bytes(f"/v1/tables/{table['id']}/packed_metadata") == metadata


def test_a_nested_slice_has_its_own_null_counts(client):
    """Where cuDF's chunked packing takes the counts of the whole column."""
    table = unpacked(client, "list_of_struct")
    column = client.get(f"/v1/columns/{table['columns'][0]}")
    cut = client.post("/v1/columns", {"type": {"name": "LIST"}, "size": 3, "offset": 2, "null_mask": column["null_mask"],
                                      "children": column["children"]})
    table = client.post("/v1/tables", {"columns": [cut["id"]]})
    content, metadata = packed_bytes(client, table)
    assert client.bytes(f"/v1/tables/{table['id']}/packed_metadata") == metadata
    assert client.bytes(f"/v1/tables/{table['id']}/packed_stream") == content


def test_parameters_out_of_range(client, control):
    table = long_table(client, 10)
    with client.unchanged():
        for value in ("0", "-1", "1048575", "x", "", "1e9", "9223372036854775808", "18446744073709551616"):
            problem = client.refused("GET", f"/v1/tables/{table['id']}/packed_stream", 400, "request_malformed",
                                     params={"chunk_nbytes": value})
            assert problem["parameter"] == "chunk_nbytes"
        for value in ("1", "3", "x", ""):
            client.refused("GET", f"/v1/tables/{table['id']}/packed_metadata", 400, "request_malformed",
                           params={"metadata_version": value})
        for path in ("packed_stream", "packed_metadata"):
            client.refused("GET", f"/v1/tables/{table['columns'][0]}/{path}", 404, "handle_unknown")
            client.refused("GET", f"/v1/tables/{table['id']}/{path}", 400, "request_malformed", params={"chunk": "1"})
    control()


def begin(daemon, path):
    """A raw connection that has asked for a path and read the first bytes of the answer."""
    connection = daemon.connect()
    connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    return connection, connection.recv(4096)


def read_rest(connection, content):
    while True:
        head, separator, body = content.partition(b"\r\n\r\n")
        if separator:
            (_, headers, _), = parse_answers(head + b"\r\n\r\n")
            if len(body) >= int(headers["content-length"]):
                return body
        piece = connection.recv(1 << 16)
        if not piece:
            return body
        content += piece


def test_a_table_that_is_deleted_meanwhile_is_sent_to_its_end(daemon, client, wait_until):
    table = long_table(client, 3_000_000)
    content, _ = packed_bytes(client, table)
    connection, first = begin(daemon, f"/v1/tables/{table['id']}/packed_stream")
    with connection:
        client.delete_all()
        assert client.registered() > 0
        time.sleep(3)  # longer than staging is held for a client that does not read
        assert read_rest(connection, first) == content
    wait_until(lambda: client.registered() == 0 and client.handles() == [])


def test_clients_that_stall_or_go_hold_nothing_up(daemon, client, wait_until):
    table = long_table(client, 3_000_000)
    path = f"/v1/tables/{table['id']}/packed_stream"
    content, _ = packed_bytes(client, table)
    stalled = [begin(daemon, path)[0] for _ in range(40)]
    assert client.bytes(path) == content
    gone = [begin(daemon, path)[0] for _ in range(40)]
    for connection in gone:
        connection.close()
    assert client.bytes(path) == content
    client.delete_all()
    for connection in stalled:
        connection.close()
    wait_until(lambda: client.registered() == 0 and client.handles() == [])


def test_drain_ends_a_stream(own_daemon):
    running = own_daemon("--drain-timeout", "2")
    table = long_table(running.client, 6_000_000)
    connection, _ = begin(running, f"/v1/tables/{table['id']}/packed_stream")
    with connection:
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(PATIENCE) == 0


@pytest.mark.skipif(BACKEND != "host", reason="the stand-in's device memory is the process's own")
def test_a_stream_takes_little_memory(own_daemon):
    running = own_daemon()
    table = long_table(running.client, 8_000_000)

    def resident():
        for line in open(f"/proc/{running.process.pid}/status"):
            if line.startswith("VmHWM"):
                return int(line.split()[1]) << 10

    path = f"/v1/tables/{table['id']}/packed_stream"
    running.client.bytes(f"/v1/tables/{long_table(running.client, 200_000)['id']}/packed_stream")
    before = resident()
    assert len(running.client.bytes(path)) > 64 * MIB
    assert resident() - before < 32 * MIB
