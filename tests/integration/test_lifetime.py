# SPDX-License-Identifier: Apache-2.0
"""Deletion, dependents, inner handles, tombstones, lists; and many clients at once."""

import concurrent.futures
import itertools
import os
import threading

import numpy
import pytest

from conftest import Client, cai
from test_tables_random import Line


def chain(client):
    content = numpy.arange(64, dtype="u1")
    buffer = client.upload(content)
    view = client.post("/v1/views", {"cuda_array_interface": cai(buffer["ptr"], [64], "|u1")})
    first = client.post(f"/v1/views/{view['id']}/byte_slice", {"start": 8})
    second = client.post(f"/v1/views/{first['id']}/byte_slice", {"start": 8, "stop": 16})
    return [("buffers", buffer), ("views", view), ("views", first), ("views", second)]


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_a_parent_outlives_its_name_in_every_order(client, order):
    handles = chain(client)
    named, freed_nbytes, freed = set(range(4)), 0, []
    for step, number in enumerate(order):
        collection, handle = handles[number]
        if 3 in named:
            assert client.data(handles[3][1]["id"]) == bytes(range(16, 24))
        gone = client.delete(f"/v1/{collection}/{handle['id']}")
        named.discard(number)
        alive = any(other >= number for other in named)
        assert gone["alive"] == alive and gone["deleted"] == 1 and gone["in_flight"] == 0
        dependents = [handles[number + 1][1]["id"]] if alive else []
        assert gone["kept_alive_by"] == dependents and gone["kept_alive_by_count"] == len(dependents)
        freed += gone["freed"]
        freed_nbytes += gone["freed_nbytes"]
        expected_freed = [handles[i][1]["id"] for i in (3, 2, 1, 0) if not any(other >= i for other in named)]
        assert sorted(freed) == sorted(expected_freed)
        assert gone["freed"] == [i for i in expected_freed if i in gone["freed"]]
        problem = client.refused("GET", f"/v1/{collection}/{handle['id']}", 410, "handle_deleted")
        assert problem["alive"] == alive
    assert freed_nbytes == 64 and client.registered() == 0


def test_memory_is_kept_while_other_memory_comes_and_goes(client):
    handles = chain(client)
    for collection, handle in handles[:3]:
        client.delete(f"/v1/{collection}/{handle['id']}")
    for _ in range(3):
        other = client.upload(b"\xee" * (4 << 20))
        client.delete(f"/v1/buffers/{other['id']}")
    assert client.data(handles[3][1]["id"]) == bytes(range(16, 24))


def test_a_long_chain_of_slices_goes_without_recursion(client):
    names = [client.view(numpy.arange(64, dtype="u1"))["id"]]
    for _ in range(3):
        parents = [names[-1], *(f"${n}.id" for n in range(999))]
        pieces = client.batch([{"method": "POST", "path": f"/v1/views/{parent}/byte_slice", "body": {}} for parent in parents])
        names += [piece["id"] for piece in pieces]
    client.batch([{"method": "DELETE", "path": f"/v1/views/{name}"} for name in names[:-1]])
    gone = client.delete(f"/v1/views/{names[-1]}")
    assert gone["freed_count"] == 3001 and len(gone["freed"]) == 100


def test_refuse(client):
    (_, buffer), (_, view), *_ = chain(client)
    with client.unchanged():
        problem = client.refused("DELETE", f"/v1/buffers/{buffer['id']}", 409, "held_by_dependents", params={"if_held": "refuse"})
        assert problem["dependents"] == [view["id"]]
    free = client.post("/v1/buffers", {"nbytes": 8})
    assert client.delete(f"/v1/buffers/{free['id']}", params={"if_held": "refuse"})["deleted"] == 1
    client.refused("DELETE", f"/v1/buffers/{buffer['id']}", 400, "request_malformed", params={"if_held": "maybe"})


def test_cascade(client):
    handles = chain(client)
    gone = client.delete(f"/v1/buffers/{handles[0][1]['id']}", params={"if_held": "cascade"})
    assert gone["deleted"] == 4 and gone["freed"] == [handle["id"] for _, handle in reversed(handles)]
    for collection, handle in handles[1:]:
        assert client.refused("GET", f"/v1/{collection}/{handle['id']}", 410, "handle_deleted")["reason"] == "cascade"


def test_deleting_what_is_not_there(daemon, client, control):
    buffer = client.upload(bytes(8))
    with client.unchanged():
        client.refused("DELETE", "/v1/buffers/buf_00000000000000000000000000", 404, "handle_unknown")
        client.refused("DELETE", f"/v1/views/{buffer['id']}", 404, "handle_unknown")
        client.refused("DELETE", f"/v1/buffers/{buffer['id'][:-1]}", 404, "handle_unknown")
        client.refused("DELETE", f"/v1/buffers/{buffer['id'].upper()}", 404, "handle_unknown")
        client.refused("DELETE", "/v1/buffers/", 404, "route_unknown", documented=False)
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda _: Client(daemon.url).call("DELETE", f"/v1/buffers/{buffer['id']}").status_code, range(50)))
    assert sorted(answers) == [200] + [410] * 49
    client.refused("DELETE", f"/v1/buffers/{buffer['id']}", 410, "handle_deleted")
    control()


def test_deleting_one_of_three(client):
    buffers = [client.upload(bytes([i])) for i in range(3)]
    client.delete(f"/v1/buffers/{buffers[1]['id']}")
    assert [handle["id"] for handle in client.get("/v1/handles")["items"]] == [buffers[0]["id"], buffers[2]["id"]]
    assert client.bytes(f"/v1/buffers/{buffers[2]['id']}/data") == b"\x02"


def test_inner_handles_serve_reads_and_stand_in_bodies(client):
    mask = client.post("/v1/kernels/bools_to_mask", {"input": client.view(numpy.ones(8, "?"))["id"]})["mask"]
    inner = client.get(f"/v1/buffers/{mask['buffer']}")
    assert inner["origin"] == "computed"
    assert inner["id"] not in [handle["id"] for handle in client.get("/v1/handles")["items"]]
    assert inner["id"] in [handle["id"] for handle in client.get("/v1/handles", params={"all": "true"})["items"]]
    client.refused("DELETE", f"/v1/buffers/{inner['id']}", 409, "handle_inner")
    view = client.post(f"/v1/buffers/{inner['id']}/views", {"typestr": "<u4", "shape": [16]})
    client.delete(f"/v1/views/{mask['id']}")
    assert client.data(view["id"])[:4] == b"\xff\0\0\0"
    client.delete(f"/v1/views/{view['id']}")
    client.refused("GET", f"/v1/buffers/{inner['id']}", 410, "handle_deleted")


def test_a_handles_state(client):
    handles = chain(client)
    (_, buffer), (_, view), *_ = handles
    state = client.get(f"/v1/handles/{buffer['id']}")
    assert state["named"] and state["alive"] and not state["deleted"] and state["reason"] is None
    assert state["owners"] == [] and state["dependents"] == [view["id"]] and state["dependents_count"] == 1 and state["nbytes"] == 64
    client.delete(f"/v1/buffers/{buffer['id']}")
    state = client.get(f"/v1/handles/{buffer['id']}")
    assert not state["named"] and state["alive"] and state["deleted"] and state["reason"] == "deleted"
    client.delete(f"/v1/views/{view['id']}", params={"if_held": "cascade"})
    client.refused("GET", f"/v1/handles/{buffer['id']}", 410, "handle_deleted")
    client.refused("GET", "/v1/handles/buf_00000000000000000000000000", 404, "handle_unknown")


def test_pages_are_stable_while_others_delete(client):
    made = [client.post("/v1/buffers", {"nbytes": 0})["id"] for _ in range(25)]
    page = client.get("/v1/handles", params={"limit": 10})
    seen = [handle["id"] for handle in page["items"]]
    for handle in made[3:7] + made[12:14]:
        client.delete(f"/v1/buffers/{handle}")
    while page["next_cursor"]:
        page = client.get("/v1/handles", params={"limit": 10, "cursor": page["next_cursor"]})
        seen += [handle["id"] for handle in page["items"]]
    assert seen == made[:12] + made[14:]


def test_filters_and_cursors(client):
    buffer = client.upload(bytes(8), label="mine")
    view = client.post(f"/v1/buffers/{buffer['id']}/views", {"typestr": "|u1", "shape": [8], "label": "mine"})
    ids = lambda **query: [handle["id"] for handle in client.get("/v1/handles", params=query)["items"]]  # noqa: E731
    assert ids(kind="view") == [view["id"]] and ids(kind="buffer") == [buffer["id"]] and ids(label="mine") == [buffer["id"], view["id"]]
    assert ids(kind="table") == []
    cursor = client.get("/v1/handles", params={"limit": 1})["next_cursor"]
    for query in ({"limit": 0}, {"limit": 1001}, {"limit": "x"}, {"kind": "thing"}, {"cursor": "junk"}, {"cursor": ""}, {"all": "1"}, {"more": "1"},
                  {"cursor": cursor, "kind": "view"}):
        client.refused("GET", "/v1/handles", 400, "request_malformed", params=query)
    client.refused("GET", "/v1/handles?limit=1&limit=2", 400, "request_malformed")
    assert client.get("/v1/handles?all")["next_cursor"] is None


def test_each_kind_has_its_list(client):
    column = client.column(numpy.arange(4, dtype="<i4"), label="mine")
    table = client.post("/v1/tables", {"columns": [column["id"]]})
    client.post(f"/v1/tables/{table['id']}/pack")
    for kind, path in (("buffer", "/v1/buffers"), ("view", "/v1/views"), ("column", "/v1/columns"), ("table", "/v1/tables"), ("packed", "/v1/packed")):
        for query in ({}, {"all": "true"}, {"label": "mine"}, {"limit": 1}, {"session": "ses_00000000000000000000000000"}):
            listed = client.get(path, params=query)
            assert listed == client.get("/v1/handles", params={**query, "kind": kind})
        assert all(handle["kind"] == kind for handle in client.get(path)["items"])
        assert client.get(path)["items"]
        client.refused("GET", path, 400, "request_malformed", params={"kind": kind})
        assert client.call("HEAD", path).status_code == 200


def test_a_list_of_one_kind_goes_on_where_the_list_of_all_stopped(client):
    made = [client.post("/v1/buffers", {"nbytes": 0})["id"] for _ in range(5)]
    first = client.get("/v1/buffers", params={"limit": 2})
    second = client.get("/v1/handles", params={"limit": 2, "kind": "buffer", "cursor": first["next_cursor"]})
    third = client.get("/v1/buffers", params={"cursor": second["next_cursor"]})
    assert [handle["id"] for page in (first, second, third) for handle in page["items"]] == made
    client.refused("GET", "/v1/views", 400, "request_malformed", params={"cursor": first["next_cursor"]})


@pytest.mark.parametrize("mode", ["keep", "cascade"])
def test_deleting_while_the_memory_is_read(daemon, client, mode):
    size = 24 << 20
    content = numpy.random.default_rng(4).bytes(size)
    for _ in range(4):
        buffer = client.upload(content)
        view = client.post("/v1/views", {"cuda_array_interface": cai(buffer["ptr"], [size], "|u1")})
        results = []

        def download():
            results.append(Client(daemon.url).call("GET", f"/v1/views/{view['id']}/data"))

        def count():
            results.append(Client(daemon.url).call("POST", "/v1/kernels/null_count", json={"bitmask": view["id"], "begin_bit": 0, "end_bit": 8 * size}))

        threads = [threading.Thread(target=work) for work in (download, count, download)]
        for thread in threads:
            thread.start()
        client.delete(f"/v1/views/{view['id']}", params={"if_held": mode})
        client.delete(f"/v1/buffers/{buffer['id']}", params={"if_held": mode})
        for thread in threads:
            thread.join()
        assert len(results) == 3
        for answer in results:
            assert answer.status_code in (200, 410)
            if answer.status_code == 200 and answer.headers["Content-Type"] == "application/octet-stream":
                assert answer.content == content
    assert daemon.alive()


def test_many_clients_at_once(daemon, client):
    parents = [client.upload(numpy.arange(256, dtype="u1")) for _ in range(3)]

    def work(number):
        mine = Client(daemon.url)
        parent = parents[number % 4] if number % 4 < 3 else mine.upload(bytes(256))
        for _ in range(16):
            view = mine.post(f"/v1/buffers/{parent['id']}/views", {"typestr": "|u1", "shape": [256]})
            piece = mine.post(f"/v1/views/{view['id']}/byte_slice", {"start": 1})
            assert len(mine.data(piece["id"])) == 255
            for handle in mine.get("/v1/handles", params={"limit": 50})["items"]:
                assert handle["kind"] in ("buffer", "view") and handle["created_at"]
            mine.delete(f"/v1/views/{view['id']}")
            mine.delete(f"/v1/views/{piece['id']}")
        if number % 4 == 3:
            mine.delete(f"/v1/buffers/{parent['id']}")

    with concurrent.futures.ThreadPoolExecutor(32) as pool:
        list(pool.map(work, range(32)))
    assert len(client.handles()) == 3


def test_everything_at_once(daemon, client):
    """32 connections that make, slice, mask, pack, unpack, list, upload, download and delete on shared and own memory."""
    values = numpy.arange(512, dtype="<f4")
    values[::7] = numpy.nan
    shared = client.view(values)

    def work(number):
        mine = Client(daemon.url)
        for round_number in range(6):
            view = shared if number % 2 else mine.view(values)
            nulls = mine.post("/v1/kernels/nans_to_nulls", {"input": view["id"]})
            column = mine.post("/v1/columns", {"type": {"name": "FLOAT32"}, "size": 512, "data": view["id"], "null_mask": nulls["mask"]["id"]})
            table = mine.post("/v1/tables", {"columns": [column["id"], column["id"]]})
            parts = mine.post(f"/v1/tables/{table['id']}/contiguous_split", {"splits": [100, 300]})["items"]
            unpacked = mine.post(f"/v1/packed/{parts[1]['id']}/unpack")
            mine.get("/v1/handles", params={"limit": 20, "all": "true"})
            mine.call("GET", "/metrics")
            assert len(mine.bytes(f"/v1/packed/{parts[0]['id']}/data")) == parts[0]["gpu_data_nbytes"]
            if round_number % 2:
                released = mine.post(f"/v1/packed/{parts[2]['id']}/release", expect=200)
                mine.delete(f"/v1/views/{released['gpu_data']['id']}", params={"if_held": "cascade"})
            mine.delete(f"/v1/views/{nulls['mask']['id']}", params={"if_held": "cascade" if round_number % 3 else "keep"})
            for part in parts:
                mine.delete(f"/v1/packed/{part['id']}", params={"if_held": "cascade"})
            mine.call("DELETE", f"/v1/tables/{unpacked['id']}")
            mine.call("DELETE", f"/v1/tables/{table['id']}")
            mine.call("DELETE", f"/v1/columns/{column['id']}")
            if view is not shared:
                mine.delete(f"/v1/buffers/{view['buffer']}", params={"if_held": "cascade"})

    with concurrent.futures.ThreadPoolExecutor(32) as pool:
        list(pool.map(work, range(32)))
    assert {handle["id"] for handle in client.handles()} == {shared["id"], shared["buffer"]}


def test_making_and_deleting_leaks_nothing(daemon, client):
    def resident():
        with open(f"/proc/{daemon.process.pid}/statm") as statm:
            return int(statm.read().split()[1]) * 4096

    def descriptors():
        return len(os.listdir(f"/proc/{daemon.process.pid}/fd"))

    buffer, line = client.upload(bytes(4096)), Line(daemon.port)

    def rounds(count):
        for _ in range(count):
            view = line.post(f"/v1/buffers/{buffer['id']}/views", {"typestr": "|u1", "shape": [4096]})
            piece = line.post(f"/v1/views/{view['id']}/byte_slice", {})
            line.call("DELETE", f"/v1/views/{view['id']}")
            line.call("DELETE", f"/v1/views/{piece['id']}")

    rounds(300)
    before = resident(), descriptors()
    rounds(1500)
    assert daemon.is_sanitized() or resident() - before[0] < 4 << 20
    assert descriptors() <= before[1] + 2
    line.connection.close()


def test_handle_limits_are_named(own_daemon):
    client = own_daemon("--max-handles", "5").client
    for _ in range(5):
        client.post("/v1/buffers", {"nbytes": 0})
    answer = client.call("POST", "/v1/buffers", json={"nbytes": 0})
    assert (answer.status_code, answer.json()["code"]) == (429, "quota_exceeded") and "5" in answer.json()["detail"]
    client.delete_all()
    client.post("/v1/buffers", {"nbytes": 0})


def test_byte_limits_are_named(own_daemon):
    client = own_daemon("--max-device-nbytes", "1000000").client
    with client.unchanged():
        answer = client.call("POST", "/v1/buffers", json={"nbytes": 1_000_001})
        assert (answer.status_code, answer.json()["code"]) == (429, "quota_exceeded")
        answer = client.call("POST", "/v1/buffers/upload", data=bytes(2_000_000), headers={"Content-Type": "application/octet-stream"})
        assert (answer.status_code, answer.json()["code"]) == (429, "quota_exceeded")
        answer = client.call("POST", "/v1/buffers/upload", data=iter([bytes(500_000)] * 4), headers={"Content-Type": "application/octet-stream"})
        assert (answer.status_code, answer.json()["code"]) == (429, "quota_exceeded")
    client.post("/v1/buffers", {"nbytes": 900_000})
