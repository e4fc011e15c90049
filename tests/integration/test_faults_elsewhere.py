# SPDX-License-Identifier: Apache-2.0
"""Faults that users of neighbouring tools ran into, as far as no other test here provokes them."""

import concurrent.futures
import itertools
import json
import os
import re
import signal

import numpy
import pyarrow
import pytest

from conftest import PATIENCE, SOURCE, Client, cai, parse_answers
from test_columns_nested import upload, values
from test_tables_random import Line

ODD = 9007199254740993  # no double holds it


# ---- array interfaces ----------------------------------------------------------------------------------

def test_transposed_numbers_are_gathered_or_refused(client):
    buffer = client.upload(numpy.arange(6.0))
    view = client.post("/v1/views", {"cuda_array_interface": cai(buffer["ptr"], [2, 3], "<f8", strides=[8, 16])})
    assert not view["contiguous"]
    assert client.get(f"/v1/views/{view['id']}/values")["values"] == [0, 2, 4, 1, 3, 5]
    with client.unchanged():
        client.refused("POST", "/v1/columns/from_view", 422, "not_contiguous", "/view", json={"view": view["id"]})


def test_strides_are_not_made_up_where_there_are_none(client):
    buffer = client.upload(numpy.arange(10000.0))
    payload = cai(buffer["ptr"], [10000], "<f8")
    assert "strides" not in payload
    view = client.post("/v1/views", {"cuda_array_interface": payload})
    assert (view["nbytes"], view["contiguous"], view["strides"]) == (80000, True, None)
    short = client.upload(bytes(31))
    with client.unchanged():
        client.refused("POST", "/v1/views", 422, "out_of_bounds", json={"cuda_array_interface": cai(short["ptr"], [3, 8], "|u1", strides=[12, 1])})
        answer = client.call("POST", "/v1/views", json={"cuda_array_interface": cai(short["ptr"], [3], "<f8", strides=[12])}, expect=422)
        assert answer.json()["code"] in ("value_error", "out_of_bounds")


@pytest.mark.parametrize("typestr", ["|i", "<f", "f8", "", "<f8x", "<i99", "<i-4", "<i0", "<\u00e98", 7, None, True, ["<f8"]], ids=repr)
def test_a_type_string_without_a_width_is_no_type(client, control, typestr):
    buffer = client.upload(bytes(64))
    with client.unchanged():
        problem = client.call("POST", "/v1/views", json={"cuda_array_interface": cai(buffer["ptr"], [4], typestr)}, expect=422).json()
        assert problem["pointer"] == "/cuda_array_interface/typestr"
    assert client.post("/v1/views", {"cuda_array_interface": cai(buffer["ptr"], [4], "<i4")})["nbytes"] == 16
    control()


def test_booleans_are_bytes_and_bits_are_not_read(client):
    buffer = client.upload(bytes([1, 0, 1, 1, 0]))
    for typestr in ("|b1", "<b1"):
        view = client.post("/v1/views", {"cuda_array_interface": cai(buffer["ptr"], [5], typestr)})
        assert (view["itemsize"], view["nbytes"], view["cudf_type"]["name"], view["typestr"]) == (1, 5, "BOOL8", "|b1")
    client.refused("POST", "/v1/views", 422, "dtype_unsupported", json={"cuda_array_interface": cai(buffer["ptr"], [5], "|t1")})


def test_halves_are_views_but_no_columns(client):
    view = client.view(numpy.array([1, 2, 3, 4], "<f2"))
    assert view["nbytes"] == 8 and view["cudf_type"] is None
    with client.unchanged():
        for name, body in (("kernels/nans_to_nulls", {"input": view["id"]}), ("kernels/column_nans_to_nulls", {"input": view["id"]}),
                           ("columns/from_view", {"view": view["id"]})):
            client.refused("POST", f"/v1/{name}", 422, "dtype_unsupported", json=body)


def test_memory_of_the_daemon_itself_is_no_registered_memory(client, daemon, control):
    found = re.findall(r"^([0-9a-f]+)-[0-9a-f]+ rw.. .*(\[heap\]|\[stack\]|gmvd|libc)", open(f"/proc/{daemon.process.pid}/maps").read(), re.M)
    assert "[stack]" in {name for _, name in found} and len(found) > 2
    with client.unchanged():
        for begin, _ in found:
            client.refused("POST", "/v1/views", 422, "pointer_not_registered", "/cuda_array_interface/data/0",
                           json={"cuda_array_interface": cai(int(begin, 16), [4], "<f4")})
    control()


# ---- packing -------------------------------------------------------------------------------------------

def test_a_table_without_rows_unpacks_over_nothing_at_address_0(client):
    kinds = [pyarrow.int32(), pyarrow.float64(), pyarrow.string(), pyarrow.list_(pyarrow.int16())]
    table = client.post("/v1/tables", {"columns": [upload(client, pyarrow.array([], kind))["id"] for kind in kinds]})
    packed = client.post(f"/v1/tables/{table['id']}/pack")
    nothing = client.post("/v1/views", {"cuda_array_interface": cai(0, [0], "|u1")})["id"]
    for gpu_data in (packed["gpu_data"], nothing, None):
        back = client.post("/v1/packed/unpack_from_memoryviews", {"metadata": packed["metadata"], "gpu_data": gpu_data})
        columns = [client.get(f"/v1/columns/{column}") for column in back["columns"]]
        assert [column["type"]["name"] for column in columns] == ["INT32", "FLOAT64", "STRING", "LIST"]
        assert [column["size"] for column in columns] == [0] * 4 and all(values(client, column) == [] for column in columns)


def test_an_empty_frame_between_others_shifts_nothing(client):
    rows = [["a", None, "ccc", "dd"], [[1], [], None, [2, 3]]]
    columns = [upload(client, pyarrow.array(rows[0])), upload(client, pyarrow.array(rows[1], pyarrow.list_(pyarrow.int64())))]
    table = client.post("/v1/tables", {"columns": [column["id"] for column in columns]})
    parts = client.post(f"/v1/tables/{table['id']}/contiguous_split", {"splits": [2, 2]})["items"]
    assert parts[1]["gpu_data_nbytes"] == 0
    for part, window in zip(parts, (slice(0, 2), slice(2, 2), slice(2, 4)), strict=True):
        frame = client.bytes(f"/v1/packed/{part['id']}/data")
        data = client.view(numpy.frombuffer(frame, "u1"))["id"] if frame else None
        back = client.post("/v1/packed/unpack_from_memoryviews", {"metadata": part["metadata"], "gpu_data": data})
        assert [values(client, {"id": column}) for column in back["columns"]] == [row[window] for row in rows]


def test_members_of_an_unpacked_nested_table_go_with_it(client):
    array = pyarrow.array([{"l": [1, 2], "s": "a"}, {"l": None, "s": "bc"}, None])
    table = client.post("/v1/tables", {"columns": [upload(client, array)["id"], upload(client, pyarrow.array([["x"], [], ["yz"]]))["id"]]})
    packed = client.post(f"/v1/tables/{table['id']}/pack")

    def members(column_id):
        column = client.get(f"/v1/columns/{column_id}")
        return [column_id, *itertools.chain.from_iterable(map(members, column["children"]))]

    for is_cascade in (False, True):
        unpacked = client.post(f"/v1/packed/{packed['id']}/unpack")
        inside = list(itertools.chain.from_iterable(map(members, unpacked["columns"])))
        assert len(inside) == 10
        text = client.get(f"/v1/columns/{inside[5]}")["data"] or client.get(f"/v1/columns/{inside[4]}")["data"]
        piece = client.post(f"/v1/views/{text}/byte_slice", {"stop": 1})
        if is_cascade:
            client.delete(f"/v1/packed/{packed['id']}", params={"if_held": "cascade"})
            client.refused("GET", f"/v1/views/{piece['id']}", 410, "handle_deleted")
        else:
            client.delete(f"/v1/tables/{unpacked['id']}")
            assert len(client.data(piece["id"])) == 1
            client.delete(f"/v1/views/{piece['id']}")
        for column in inside:
            client.refused("GET", f"/v1/columns/{column}", 410, "handle_deleted")


def test_release_and_delete_at_once_lose_nothing(daemon, client):
    column = client.column(numpy.arange(1000, dtype="<i8"))
    table = client.post("/v1/tables", {"columns": [column["id"]]})
    before = client.registered()
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        for _ in range(10):
            packed = client.post(f"/v1/tables/{table['id']}/pack")
            path = f"/v1/packed/{packed['id']}"
            calls = [("POST", path + "/release"), ("DELETE", path), ("POST", path + "/unpack")] * 5
            answers = list(pool.map(lambda call: Client(daemon.url).call(call[0], call[1], json={} if call[0] == "POST" else None), calls))
            for (method, called), answer in zip(calls, answers):
                assert answer.status_code in ((200, 410) if method == "DELETE" else (200, 201, 409, 410)), answer.text
                if answer.status_code == 200 and method == "POST":
                    view = answer.json()["gpu_data"]["id"]
                    assert client.array(view).view("<i8")[:1000].tolist() == list(range(1000))
                    client.delete(f"/v1/views/{view}")
                elif answer.status_code == 201:
                    client.delete(f"/v1/tables/{answer.json()['id']}")
            assert sum(answer.status_code == 200 for (method, _), answer in zip(calls, answers) if method == "DELETE") == 1
            assert client.registered() == before


# ---- lives -----------------------------------------------------------------------------------------------

def test_the_end_of_one_clients_session_leaves_another_its_view(client):
    buffer = client.upload(bytes(range(64)))
    sessions = [client.post("/v1/sessions", {"ttl_seconds": 60})["id"] for _ in range(2)]
    body = {"typestr": "|u1", "shape": [32], "offset": 8}
    views = [client.post(f"/v1/buffers/{buffer['id']}/views", body, headers={"Gmv-Session": session}) for session in sessions]
    client.delete(f"/v1/sessions/{sessions[0]}")
    client.refused("GET", f"/v1/views/{views[0]['id']}", 410, "handle_deleted")
    assert client.data(views[1]["id"]) == bytes(range(8, 40))
    assert client.delete(f"/v1/buffers/{buffer['id']}")["alive"]
    assert client.data(views[1]["id"]) == bytes(range(8, 40))
    gone = client.delete(f"/v1/views/{views[1]['id']}")
    assert gone["freed"] == [views[1]["id"], buffer["id"]] and gone["freed_nbytes"] == 64
    client.delete(f"/v1/sessions/{sessions[1]}")


def test_a_daemon_full_of_handles_stops_with_a_request_in_flight(own_daemon):
    running = own_daemon("--drain-timeout", "600")
    client, line, size = running.client, Line(running.port), 64 << 20
    big = client.view(numpy.zeros(size, "u1"))
    table = client.post("/v1/tables", {"columns": [upload(client, pyarrow.array([["a", None], [], ["bcd"]]))["id"]]})
    packed = client.post(f"/v1/tables/{table['id']}/pack")
    for number in range(400):
        line.post(f"/v1/views/{big['id']}/byte_slice", {"start": number})
        line.post(f"/v1/packed/{packed['id']}/unpack", {})
        line.post(f"/v1/tables/{table['id']}/pack", {})
    line.connection.close()
    assert len(client.get("/v1/handles", params={"limit": 1000})["items"]) == 1000
    with running.connect() as connection:
        connection.sendall(f"GET /v1/views/{big['id']}/data HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        pieces = [connection.recv(1 << 16)]
        running.process.send_signal(signal.SIGTERM)
        while pieces[-1]:
            pieces.append(connection.recv(1 << 20))
    (status, headers, body), = parse_answers(b"".join(pieces))
    assert (status, len(body), headers["content-length"]) == (200, size, str(size))
    assert running.process.wait(PATIENCE) == 0


def forget_all(client):
    """Fills the ring of the handles that are remembered when they are gone: from then on it takes no more memory."""
    view = client.view(numpy.zeros(1, "u1"))
    column = client.post("/v1/columns/from_view", {"view": view["id"]})
    table = client.post("/v1/tables", {"columns": [column["id"]]})
    for _ in range(3):
        session = client.post("/v1/sessions")["id"]
        client.post(f"/v1/tables/{table['id']}/contiguous_split", {"splits": [1] * 9999}, documented=False,
                    headers={"Gmv-Session": session})
        assert client.delete(f"/v1/sessions/{session}")["freed_count"] >= 22000
    client.delete(f"/v1/buffers/{view['buffer']}", params={"if_held": "cascade"})


def test_making_and_deleting_many_thousand_times_takes_no_memory(client, daemon):
    view = client.view(numpy.arange(256, dtype="u1"))["id"]
    cycle = lambda n: [{"method": "POST", "path": f"/v1/views/{view}/views", "body": {"typestr": "|u1", "shape": [200]}},  # noqa: E731
                       {"method": "POST", "path": f"/v1/views/${n}.id/byte_slice", "body": {"start": 5}},
                       {"method": "DELETE", "path": f"/v1/views/${n}.id"}, {"method": "DELETE", "path": f"/v1/views/${n + 1}.id"}]
    operations = list(itertools.chain.from_iterable(cycle(n) for n in range(0, 1000, 4)))
    body = json.dumps({"operations": operations, "atomic": False})
    line = Line(daemon.port)

    def rounds(count):
        for _ in range(count):
            results = json.loads(line.call("POST", "/v1/batch", body, 200))["results"]
            assert [result["status"] for result in results[:4]] == [201, 201, 200, 200]
        with open(f"/proc/{daemon.process.pid}/statm") as statm:
            return int(statm.read().split()[1]) * 4096, len(os.listdir(f"/proc/{daemon.process.pid}/fd"))

    if not daemon.is_sanitized():
        forget_all(client)
    before = rounds(10)
    after = rounds(30)
    line.connection.close()
    assert len(client.handles()) == 2
    assert after[1] <= before[1]
    assert daemon.is_sanitized() or after[0] - before[0] < 1 << 20


# ---- HTTP --------------------------------------------------------------------------------------------------

def test_the_connection_goes_on_after_a_delete(daemon, client):
    ids = [client.post("/v1/buffers", {"nbytes": 8})["id"] for _ in range(2)]
    heads = "".join(f"DELETE /v1/buffers/{name} HTTP/1.1\r\nHost: localhost\r\n\r\n" for name in ids)
    content = daemon.raw((heads + "GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").encode())
    answers = parse_answers(content)
    assert [status for status, _, _ in answers] == [200, 200, 200]
    for (_, headers, body), name in zip(answers, ids):
        assert int(headers["content-length"]) == len(body) > 0 and json.loads(body)["id"] == name


RANGES = [("bytes=0-3", 206, slice(0, 4)), ("bytes=-4", 206, slice(-4, None)), ("bytes=5-", 206, slice(5, None)), ("bytes=9-9", 206, slice(9, 10)),
          ("bytes=3-1", 200, slice(None)), ("items=0-3", 200, slice(None)), ("bytes=0-3,2-5", 200, slice(None)), ("bytes=192-", 416, None)]


@pytest.mark.parametrize("text, status, part", RANGES)
def test_ranges_of_packed_data_and_of_a_stream(client, text, status, part):
    columns = [client.column(numpy.arange(3, dtype=typestr))["id"] for typestr in ("<f8", "u1", "<i8")]
    table = client.post("/v1/tables", {"columns": columns})
    packed = client.post(f"/v1/tables/{table['id']}/pack")
    whole = client.bytes(f"/v1/packed/{packed['id']}/data")
    assert len(whole) == 192
    for path in (f"/v1/packed/{packed['id']}/data", f"/v1/tables/{table['id']}/packed_stream", f"/v1/views/{packed['gpu_data']}/data"):
        answer = client.call("GET", path, headers={"Range": text}, expect=status)
        if status == 416:
            assert answer.headers["Content-Range"] == "bytes */192"
        else:
            assert answer.content == whole[part]


def test_one_large_error_and_the_document_for_64_clients_at_once(daemon, client):
    """Each client gets the very bytes that all others get."""
    body = json.dumps({"cuda_array_interface": {f"member{i}": "x" * 50 for i in range(2000)}}).encode()

    def work(_):
        mine, seen = Client(daemon.url), set()
        for _ in range(3):
            document = mine.http.get(mine.url + "/openapi.json", timeout=PATIENCE).content
            limits = mine.http.get(mine.url + "/v1/server", timeout=PATIENCE).json()["limits"]
            error = mine.http.post(mine.url + "/v1/views", data=body, timeout=PATIENCE,
                                   headers={"Content-Type": "application/json", "X-Request-Id": "same"})
            assert error.status_code == 422
            seen.add((document, json.dumps(limits), error.content))
        return seen

    with concurrent.futures.ThreadPoolExecutor(64) as pool:
        seen = set().union(*pool.map(work, range(64)))
    assert len(seen) == 1
    (document, _, _), = seen
    assert document == (SOURCE / "openapi" / "gmvd.json").read_bytes()


# ---- JSON ----------------------------------------------------------------------------------------------------

def test_integers_that_no_double_holds_are_judged_by_their_true_value(client):
    buffer = client.upload(bytes(range(16)))
    view = client.post(f"/v1/buffers/{buffer['id']}/views", {"typestr": "|u1", "shape": [16]})
    with client.unchanged():
        answer = client.call("PUT", f"/v1/buffers/{buffer['id']}/data?offset={ODD}", data=b"x", expect=422,
                             headers={"Content-Type": "application/octet-stream"})
        assert answer.json()["code"] == "out_of_bounds" and str(ODD) in answer.json()["detail"]
    cut = client.post(f"/v1/views/{view['id']}/byte_slice", {"start": 3, "stop": ODD})
    assert client.data(cut["id"]) == bytes(range(3, 16))
    numbers = client.view(numpy.array([ODD, -2 ** 63, ODD - 1], "<i8"))
    assert client.get(f"/v1/views/{numbers['id']}/values")["values"] == [ODD, -2 ** 63, ODD - 1]
    text = client.call("GET", f"/v1/views/{numbers['id']}/values").text
    assert str(ODD) in text and "-9223372036854775808" in text


def test_numbers_that_json_has_not_are_counted_and_spelled(client):
    view = client.view(numpy.array([1.5, numpy.nan, numpy.inf, -numpy.inf, -0.0], "<f4"))
    assert client.get(f"/v1/views/{view['id']}/values")["values"] == [1.5, "NaN", "Infinity", "-Infinity", 0.0]
    assert "-0.0" in client.call("GET", f"/v1/views/{view['id']}/values").text
    statistics = client.get(f"/v1/views/{view['id']}/statistics")
    assert (statistics["count"], statistics["nan_count"], statistics["inf_count"]) == (5, 1, 2)
    assert (statistics["min"], statistics["max"], statistics["sum"]) == (0, 1.5, 1.5)


JSON_POSTS = sorted(path for path, operations in json.loads((SOURCE / "openapi" / "gmvd.json").read_text())["paths"].items()
                    if "application/json" in operations.get("post", {}).get("requestBody", {}).get("content", {}))


@pytest.mark.parametrize("mark", [b"\xef\xbb\xbf", b"\xfe\xff", b"\xff\xfe"], ids=repr)
def test_a_byte_order_mark_is_refused_by_every_call(client, mark):
    view = client.view(numpy.arange(4, dtype="<i4"))
    column = client.post("/v1/columns/from_view", {"view": view["id"]})
    table = client.post("/v1/tables", {"columns": [column["id"]]})
    ids = {"views": view["id"], "buffers": view["buffer"], "tables": table["id"], "handles": view["id"],
           "packed": client.post(f"/v1/tables/{table['id']}/pack")["id"]}
    for path in JSON_POSTS:
        concrete = path.replace("{id}", ids.get(path.split("/")[2], "x"))
        with client.unchanged():
            client.refused("POST", concrete, 400, "json_malformed", data=mark + b"{}", headers={"Content-Type": "application/json"})


# ---- sharing -------------------------------------------------------------------------------------------------

def test_packed_data_a_single_byte_and_copies_open_elsewhere(client, host_memory):
    column = client.column(numpy.arange(100, dtype="<i4"))
    table = client.post("/v1/tables", {"columns": [column["id"]]})
    packed = client.post(f"/v1/tables/{table['id']}/pack")
    buffers = [client.post("/v1/buffers", {"nbytes": 1})["id"], client.get(f"/v1/views/{packed['gpu_data']}")["buffer"],
               client.post(f"/v1/views/{client.view(numpy.arange(50, dtype='u1'))['id']}/copy")["buffer"]]
    for buffer in buffers:
        content = client.bytes(f"/v1/buffers/{buffer}/data")
        export = client.post(f"/v1/buffers/{buffer}/export", expect=200)
        with open("/dev/shm" + export["posix_shm"]["name"], "rb") as opened:
            opened.seek(export["posix_shm"]["offset"])
            assert opened.read(export["posix_shm"]["nbytes"]) == content
