# SPDX-License-Identifier: Apache-2.0
"""Buffers: allocation, upload, download with ranges, typed views, POSIX shared memory both ways."""

import concurrent.futures
import json
import os
import stat
import subprocess
import threading
from multiprocessing import resource_tracker, shared_memory

import numpy
import pytest
import requests

from conftest import BACKEND, Client, cai, parse_answers, read_all


@pytest.fixture
def segment(host_memory):
    """Makes POSIX shared memory segments that are unlinked after the test."""
    made = []

    def make(content):
        content = bytes(content)
        memory = shared_memory.SharedMemory(create=True, size=max(len(content), 1))
        memory.buf[:len(content)] = content
        made.append(memory)
        return memory

    yield make
    for memory in made:
        memory.close()
        try:
            memory.unlink()
        except FileNotFoundError:
            resource_tracker.unregister("/" + memory.name, "shared_memory")


def import_segment(client, memory, **members):
    readonly = {"readonly": members.pop("readonly")} if "readonly" in members else {}
    return client.post("/v1/buffers/import", {"posix_shm": {"name": "/" + memory.name, **members}, **readonly})


def test_fresh_memory_is_zero(client):
    for nbytes in (1, 63, 64, 65, 4096, 100_000):
        buffer = client.post("/v1/buffers", {"nbytes": nbytes, "label": "fresh"})
        assert buffer["origin"] == "allocated" and buffer["label"] == "fresh" and buffer["device"] == 0
        assert client.bytes(f"/v1/buffers/{buffer['id']}/data") == bytes(nbytes)


def test_recycled_memory_shows_no_bytes_of_its_former_owner(client):
    for _ in range(4):
        dirty = client.upload(b"\xff" * (1 << 20))
        client.delete(f"/v1/buffers/{dirty['id']}")
        fresh = client.post("/v1/buffers", {"nbytes": 1 << 20})
        assert client.bytes(f"/v1/buffers/{fresh['id']}/data") == bytes(1 << 20)


def test_a_buffer_of_no_bytes_has_no_address(client):
    buffer = client.post("/v1/buffers", {"nbytes": 0})
    assert buffer["ptr"] == 0 and buffer["nbytes"] == 0
    assert client.bytes(f"/v1/buffers/{buffer['id']}/data") == b""
    client.refused("GET", f"/v1/buffers/{buffer['id']}/data", 416, "range_not_satisfiable", headers={"Range": "bytes=0-0"})
    client.refused("POST", f"/v1/buffers/{buffer['id']}/export", 422, "not_exportable", json={})


@pytest.mark.parametrize("body, code, pointer", [
    ({}, "value_error", "/nbytes"), ({"nbytes": -1}, "value_error", "/nbytes"), ({"nbytes": "8"}, "type_error", "/nbytes"),
    ({"nbytes": 8.0}, "type_error", "/nbytes"), ({"nbytes": True}, "type_error", "/nbytes"), ({"nbytes": None}, "type_error", "/nbytes"),
    ({"nbytes": 8, "device": 7}, "value_error", "/device"), ({"nbytes": 8, "device": -1}, "value_error", "/device"),
    ({"nbytes": 8, "device": "0"}, "type_error", "/device"), ({"nbytes": 8, "readonly": 1}, "type_error", "/readonly"),
    ({"nbytes": 8, "size": 8}, "value_error", "/size"), ({"nbytes": 8, "label": "x" * 257}, "value_error", "/label"),
    ({"nbytes": 8, "label": 7}, "type_error", "/label"), ({"nbytes": 2 ** 63}, "value_error", "/nbytes"),
])
def test_a_bad_allocation_is_refused(client, control, body, code, pointer):
    with client.unchanged():
        client.refused("POST", "/v1/buffers", 422, code, pointer, json=body)
    control()


def test_more_memory_than_there_is(client, control):
    with client.unchanged():
        answer = client.call("POST", "/v1/buffers", json={"nbytes": 2 ** 63 - 1})
        assert answer.status_code in (429, 507) and answer.json()["code"] in ("quota_exceeded", "device_out_of_memory")
    control()


@pytest.mark.parametrize("label", ["", "a" * 256, "ü" * 256, "😀", "line\nbreak", '"', "\\", "view_00000000000000000000000000"])
def test_labels_come_back_and_can_be_looked_for(client, label):
    made = [client.post("/v1/buffers", {"nbytes": 1, "label": label}) for _ in range(2)]
    assert [buffer["label"] for buffer in made] == [label, label]
    page = client.get("/v1/handles", params={"label": label})
    assert [handle["id"] for handle in page["items"]] == [buffer["id"] for buffer in made]
    assert all(handle["label"] == label for handle in page["items"])


def test_a_label_nobody_has_gives_an_empty_list(client):
    assert client.get("/v1/handles", params={"label": "nobody"}) == {"items": [], "next_cursor": None}


@pytest.mark.parametrize("nbytes", [0, 1, 63, 64, 4095, 65535, 65536, 65537, 1_000_003, 5 << 20])
@pytest.mark.parametrize("chunked", [False, True])
def test_an_upload_comes_back_as_it_was(client, nbytes, chunked):
    content = numpy.random.default_rng(nbytes).bytes(nbytes)
    body = (content[i:i + 70_001] for i in range(0, nbytes, 70_001)) if chunked else content
    buffer = client.call("POST", "/v1/buffers/upload", data=body, expect=201,
                         headers={"Content-Type": "application/octet-stream"}).json()
    assert buffer["nbytes"] == nbytes and buffer["origin"] == "uploaded"
    assert client.bytes(f"/v1/buffers/{buffer['id']}/data") == content
    assert client.registered() == nbytes


def test_uploads_in_pieces_of_every_size_twelve_at_a_time(daemon, client):
    def upload(piece):
        content = numpy.random.default_rng(piece).bytes(min(piece * 400, 3 << 20) + 5)
        with daemon.connect() as connection:
            connection.sendall(b"POST /v1/buffers/upload HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                               b"Content-Type: application/octet-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
            for start in range(0, len(content), piece):
                part = content[start:start + piece]
                connection.sendall(b"%x\r\n%s\r\n" % (len(part), part))
            connection.sendall(b"0\r\n\r\n")
            (status, _, body), = parse_answers(read_all(connection))
        assert status == 201, body
        assert Client(daemon.url).bytes(f"/v1/buffers/{json.loads(body)['id']}/data") == content

    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        list(pool.map(upload, [1, 2, 7, 64, 1000, 1460, 4096, 16384, 32768, 65536, 262144, 1048576]))


def test_a_broken_upload_leaves_nothing(daemon, client, wait_until):
    before = client.handles(), client.registered()
    for framing in (b"Content-Length: 3000000\r\n", b"Transfer-Encoding: chunked\r\n"):
        with daemon.connect() as connection:
            connection.sendall(b"POST /v1/buffers/upload HTTP/1.1\r\nHost: localhost\r\n"
                               b"Content-Type: application/octet-stream\r\n" + framing + b"\r\n")
            connection.sendall(b"10000\r\n" + bytes(65536) if b"chunked" in framing else bytes(1_500_000))
    wait_until(lambda: (client.handles(), client.registered()) == before)


def test_upload_takes_octets_only(client, control):
    with client.unchanged():
        for content_type in ("application/json", "application/x-www-form-urlencoded", "text/plain", None):
            headers = {"Content-Type": content_type} if content_type else {}
            client.refused("POST", "/v1/buffers/upload", 415, "media_type_unsupported", data=b"abc", headers=headers)
    control()


@pytest.mark.parametrize("query, parameter", [({"device": "7"}, None), ({"device": "x"}, "device"), ({"readonly": "1"}, "readonly"),
                                              ({"size": "3"}, "size"), ({"label": "x" * 257}, "label")])
def test_a_bad_upload_query_is_refused(client, query, parameter):
    with client.unchanged():
        answer = client.call("POST", "/v1/buffers/upload", data=b"abc", params=query,
                             headers={"Content-Type": "application/octet-stream"})
        assert answer.status_code in (400, 422)
        if parameter:
            assert answer.json().get("parameter") == parameter


def test_a_readonly_upload_is_sealed_and_cannot_be_written(client):
    buffer = client.upload(b"\x00" * 64, readonly="true")
    assert buffer["readonly"]
    view = client.post("/v1/views", {"cuda_array_interface": cai(buffer["ptr"], [64], "|u1")})
    assert view["readonly"] and view["cuda_array_interface"]["data"][1] is True
    client.refused("POST", "/v1/kernels/set_null_mask", 403, "readonly", json={
        "bitmask": view["id"], "begin_bit": 0, "end_bit": 8, "valid": True})
    client.refused("PUT", f"/v1/buffers/{buffer['id']}/data", 403, "readonly", data=b"x",
                   headers={"Content-Type": "application/octet-stream"})
    answer = client.call("GET", f"/v1/buffers/{buffer['id']}/data", expect=200)
    etag = answer.headers["ETag"]
    assert answer.content == bytes(64)
    assert client.call("GET", f"/v1/buffers/{buffer['id']}/data", headers={"If-None-Match": etag}, expect=304).content == b""
    part = client.call("GET", f"/v1/buffers/{buffer['id']}/data", headers={"Range": "bytes=0-3", "If-Range": etag}, expect=206)
    assert part.content == bytes(4)


def test_put_writes_where_it_says(client, control):
    buffer = client.upload(b"0123456789")
    path = f"/v1/buffers/{buffer['id']}/data"
    octets = {"Content-Type": "application/octet-stream"}
    assert client.call("PUT", path, data=b"ab", params={"offset": 3}, headers=octets, expect=200).json() == {"offset": 3, "nbytes": 2}
    assert client.bytes(path) == b"012ab56789"
    client.refused("PUT", path, 422, "out_of_bounds", data=b"ab", params={"offset": 9}, headers=octets)
    client.refused("PUT", path, 422, "out_of_bounds", data=b"", params={"offset": 9007199254740993}, headers=octets)
    client.refused("PUT", path, 400, "request_malformed", data=b"ab", params={"offset": -1}, headers=octets)
    placed = client.call("PUT", path, data=b"XY", headers={**octets, "Content-Range": "bytes 0-1/10"}, expect=200)
    assert placed.json() == {"offset": 0, "nbytes": 2} and client.bytes(path) == b"XY2ab56789"
    for text in ("bytes 0-2/10", "bytes 0-1", "bytes */10", "items 0-1/10", "bytes 1-0/10", "bytes 0-1/1", ""):
        client.refused("PUT", path, 400, "request_malformed", data=b"ab", headers={**octets, "Content-Range": text})
    client.refused("PUT", path, 400, "request_malformed", data=b"ab", params={"offset": 0}, headers={**octets, "Content-Range": "bytes 0-1/*"})
    client.refused("PUT", path, 422, "out_of_bounds", data=b"ab", headers={**octets, "Content-Range": "bytes 9-10/*"})
    control()


def test_put_writes_inside_a_view(client, control):
    buffer = client.upload(bytes(range(64)))
    view = client.post(f"/v1/buffers/{buffer['id']}/views", {"typestr": "<u2", "shape": [8], "offset": 16})
    path, octets = f"/v1/views/{view['id']}/data", {"Content-Type": "application/octet-stream"}
    assert client.call("PUT", path, data=b"abcd", params={"offset": 12}, headers=octets, expect=200).json() == {"offset": 12, "nbytes": 4}
    assert client.bytes(path) == bytes(range(16, 28)) + b"abcd"
    assert client.bytes(f"/v1/buffers/{buffer['id']}/data") == bytes(range(28)) + b"abcd" + bytes(range(32, 64))
    readonly = client.post(f"/v1/views/{view['id']}/views", {"typestr": "|u1", "shape": [16], "readonly": True})
    strided = client.post("/v1/views", {"cuda_array_interface": cai(buffer["ptr"], [4], "|u1", strides=[2])})
    empty = client.post("/v1/views", {"cuda_array_interface": cai(0, [0], "|u1")})
    client.refused("PUT", path, 422, "out_of_bounds", data=b"abcde", params={"offset": 12}, headers=octets)
    client.refused("PUT", path, 422, "out_of_bounds", data=iter([b"ab", b"cde"]), params={"offset": 12}, headers=octets)
    client.refused("PUT", f"/v1/views/{readonly['id']}/data", 403, "readonly", data=b"x", headers=octets)
    client.refused("PUT", f"/v1/views/{strided['id']}/data", 422, "not_contiguous", data=b"x", headers=octets)
    client.refused("PUT", f"/v1/views/{empty['id']}/data", 422, "out_of_bounds", data=b"x", headers=octets)
    assert client.call("PUT", f"/v1/views/{empty['id']}/data", data=b"", headers=octets, expect=200).json() == {"offset": 0, "nbytes": 0}
    assert client.bytes(path)[:12] == bytes(range(16, 28))
    control()


RANGES = [("bytes=0-3", 206, b"0123", "bytes 0-3/10"), ("bytes=-4", 206, b"6789", "bytes 6-9/10"),
          ("bytes=5-", 206, b"56789", "bytes 5-9/10"), ("bytes=9-9", 206, b"9", "bytes 9-9/10"),
          ("bytes=8-100", 206, b"89", "bytes 8-9/10"), ("bytes=-100", 206, b"0123456789", "bytes 0-9/10"),
          ("bytes=10-", 416, None, "bytes */10"), ("bytes=-0", 416, None, "bytes */10"), ("bytes=3-1", 200, b"0123456789", None),
          ("items=0-3", 200, b"0123456789", None), ("bytes=", 200, b"0123456789", None), ("bytes=a-b", 200, b"0123456789", None)]


@pytest.mark.parametrize("text, status, body, content_range", RANGES)
def test_one_range(client, text, status, body, content_range):
    buffer = client.upload(b"0123456789")
    view = client.post("/v1/views", {"cuda_array_interface": cai(buffer["ptr"], [10], "|u1")})
    for path in (f"/v1/buffers/{buffer['id']}/data", f"/v1/views/{view['id']}/data"):
        answer = client.call("GET", path, headers={"Range": text}, expect=status)
        assert answer.headers.get("Content-Range") == content_range
        if body is not None:
            assert answer.content == body and int(answer.headers["Content-Length"]) == len(body)
        head = client.call("HEAD", path, headers={"Range": text})
        assert head.content == b"" and head.status_code in (status, 200)


def test_many_ranges_or_a_stale_condition_give_the_whole(client):
    path = f"/v1/buffers/{client.upload(b'0123456789')['id']}/data"
    flood = "bytes=" + ",".join(f"{i}-{i}" for i in range(1000))
    for headers in ({"Range": flood}, {"Range": "bytes=0-3,2-5"}, {"Range": "bytes=0-3", "If-Range": '"stale"'}):
        assert client.call("GET", path, headers=headers, expect=200).content == b"0123456789"


def test_live_contents_are_not_kept_by_caches(client):
    answer = client.call("GET", f"/v1/buffers/{client.upload(b'0123')['id']}/data", expect=200)
    assert "ETag" not in answer.headers and "no-store" in answer.headers["Cache-Control"]
    assert answer.headers["Content-Type"] == "application/octet-stream" and answer.headers["Accept-Ranges"] == "bytes"


def test_offsets_add_up_through_views_of_views_and_slices(client):
    content = bytes(range(64))
    buffer = client.upload(content)
    view = client.post(f"/v1/buffers/{buffer['id']}/views", {"typestr": "|u1", "shape": [32], "offset": 32})

    def typed(offset, length, parent=f"/v1/views/{view['id']}"):
        return f"{parent}/views", {"typestr": "|u1", "shape": [length], "offset": offset}

    for offset, length in ((0, 32), (31, 1), (32, 0)):
        path, body = typed(offset, length)
        made = client.post(path, body)
        assert made["nbytes"] == length and client.data(made["id"]) == content[32 + offset:32 + offset + length]
    with client.unchanged():
        for offset, length in ((32, 1), (0, 33)):
            path, body = typed(offset, length)
            client.refused("POST", path, 422, "out_of_bounds", json=body)
        path, body = typed(-1, 1)
        problem = client.call("POST", path, json=body, expect=422).json()
        assert problem["code"] in ("value_error", "out_of_bounds")
    piece = view
    for start, stop in ((10, 30), (5, 100), (3, 4)):
        piece = client.post(f"/v1/views/{piece['id']}/byte_slice", {"start": start, "stop": stop})
    assert piece["nbytes"] == 1 and piece["offset"] == 50 and client.data(piece["id"]) == content[50:51]


# POSIX shared memory


def test_an_import_sees_what_the_exporter_writes_and_copies_nothing(client, segment):
    values = numpy.array([1, 2, 3, 4, 5], "<i8")
    memory = segment(values.tobytes())
    base = 0x7F0000000000
    buffer = import_segment(client, memory, base=base, nbytes=40)
    assert buffer["origin"] == "posix_shm" and buffer["exporter_base"] == base and buffer["nbytes"] == 40
    view = client.post("/v1/views", {"cuda_array_interface": cai(base, [5], "<i8")})
    assert view["buffer"] == buffer["id"] and view["ptr"] == buffer["ptr"]
    assert client.get(f"/v1/views/{view['id']}/values")["values"] == [1, 2, 3, 4, 5]
    numpy.frombuffer(memory.buf, "<i8", 5)[0] = 123
    assert client.get(f"/v1/views/{view['id']}/values")["values"] == [123, 2, 3, 4, 5]


def test_addresses_stay_exact_beyond_doubles(client, segment):
    memory = segment(bytes(64))
    base = 9007199254740992
    import_segment(client, memory, base=base, nbytes=64)
    view = client.post("/v1/views", {"cuda_array_interface": cai(base + 1, [1], "|u1")})
    assert view["offset"] == 1 and view["cai"]["data"] == [base + 1, False]


def test_alignment_counts_in_the_exporters_addresses_and_in_ours(client, segment):
    memory = segment(bytes(64))
    import_segment(client, memory, base=0x10001, nbytes=64)
    with client.unchanged():
        for address in (0x10001, 0x10004):
            client.refused("POST", "/v1/views", 422, "value_error", json={"cuda_array_interface": cai(address, [1], "<i4")})


def test_import_sizes(client, segment):
    memory = segment(bytes(8192))
    size = os.stat(f"/dev/shm/{memory.name}").st_size
    assert import_segment(client, memory)["nbytes"] == size
    assert import_segment(client, memory, nbytes=100)["nbytes"] == 100
    with client.unchanged():
        body = {"posix_shm": {"name": "/" + memory.name, "nbytes": size + 1}}
        client.refused("POST", "/v1/buffers/import", 422, "out_of_bounds", "/posix_shm/nbytes", json=body)
        for members, code, pointer in (({"nbytes": -1}, "value_error", "/posix_shm/nbytes"), ({"base": -1}, "value_error", "/posix_shm/base"),
                                       ({"base": "x"}, "type_error", "/posix_shm/base"), ({"size": 1}, "value_error", "/posix_shm/size"),
                                       ({"base": 2 ** 63 - 1}, "value_error", "/posix_shm/base")):
            client.refused("POST", "/v1/buffers/import", 422, code, pointer, json={"posix_shm": {"name": "/" + memory.name, **members}})


def test_imports_of_one_segment_share_a_mapping_but_not_a_handle(client, segment):
    memory = segment(b"\x07" * 4096)
    first, second = import_segment(client, memory), import_segment(client, memory)
    assert first["id"] != second["id"] and first["ptr"] == second["ptr"]
    with client.unchanged():
        client.refused("POST", "/v1/views", 422, "pointer_ambiguous", "/cuda_array_interface/data/0", json={
            "cuda_array_interface": cai(first["ptr"], [1], "|u1")})
    view = client.post("/v1/views", {"cuda_array_interface": cai(first["ptr"], [1], "|u1"), "buffer": first["id"]})
    client.delete(f"/v1/buffers/{second['id']}")
    assert client.data(view["id"]) == b"\x07"


def test_equal_addresses_of_two_exporters_need_the_buffers_name(client, segment):
    base = 0x302000000
    buffers = [import_segment(client, segment(bytes([value]) * 4096), base=base) for value in (11, 22)]
    payload = {"cuda_array_interface": cai(base, [1], "|u1")}
    client.refused("POST", "/v1/views", 422, "pointer_ambiguous", "/cuda_array_interface/data/0", json=payload)
    for buffer, value in zip(buffers, (11, 22)):
        view = client.post("/v1/views", {**payload, "buffer": buffer["id"]})
        assert client.data(view["id"]) == bytes([value])
    client.delete(f"/v1/buffers/{buffers[0]['id']}")
    assert client.data(client.post("/v1/views", payload)["id"]) == bytes([22])


@pytest.mark.parametrize("body, code, pointer", [
    ({}, "value_error", ""), ({"posix_shm": None}, "value_error", ""), ({"cuda_ipc": None}, "value_error", ""),
    ({"posix_shm": {}}, "value_error", "/posix_shm/name"), ({"posix_shm": "/x"}, "type_error", "/posix_shm"),
    ({"posix_shm": {"name": 7}}, "type_error", "/posix_shm/name"), ({"sysv_shm": {"name": "/x"}}, "value_error", "/sysv_shm"),
    ({"posix_shm": {"name": "/no-such-segment"}}, "handle_invalid", "/posix_shm/name"),
    ({"posix_shm": {"name": ""}}, "handle_invalid", "/posix_shm/name"), ({"posix_shm": {"name": "/"}}, "handle_invalid", "/posix_shm/name"),
    ({"posix_shm": {"name": "/../etc/passwd"}}, "handle_invalid", "/posix_shm/name"),
    ({"posix_shm": {"name": "/.."}}, "handle_invalid", "/posix_shm/name"),
    ({"posix_shm": {"name": "/" + "x" * 5000}}, "handle_invalid", "/posix_shm/name"),
    ({"cuda_ipc": {"handle": "A" * 86 + "=="}}, "backend_unsupported", "/cuda_ipc"),
])
def test_a_bad_import_is_refused(client, control, body, code, pointer):
    if BACKEND == "cuda" and code in ("handle_invalid", "backend_unsupported"):
        pytest.skip("which mechanism is refused depends on the backend; test_cuda_ipc.py has the others")
    with client.unchanged():
        problem = client.refused("POST", "/v1/buffers/import", 422, code, json=body)
        assert pointer == "" or problem.get("pointer", "").startswith(pointer), problem
    control()


def test_exactly_one_mechanism(client, segment):
    memory = segment(bytes(64))
    with client.unchanged():
        client.refused("POST", "/v1/buffers/import", 422, "value_error", json={
            "posix_shm": {"name": "/" + memory.name}, "cuda_ipc": {"handle": "A" * 86 + "=="}})


def test_names_that_are_not_plain_files(client, host_memory, control):
    fifo, link = f"/dev/shm/gmvd-test-fifo-{os.getpid()}", f"/dev/shm/gmvd-test-link-{os.getpid()}"
    os.mkfifo(fifo)
    os.symlink("/etc/passwd", link)
    try:
        with client.unchanged():
            for path in (fifo, link):
                client.refused("POST", "/v1/buffers/import", 422, "handle_invalid", "/posix_shm/name",
                               json={"posix_shm": {"name": "/" + os.path.basename(path)}})
    finally:
        os.unlink(fifo)
        os.unlink(link)
    control()


def test_a_segment_that_cannot_be_written_is_readonly(client, segment):
    if os.geteuid() == 0:
        pytest.skip("root may write any segment")
    memory = segment(bytes(64))
    os.chmod(f"/dev/shm/{memory.name}", stat.S_IRUSR)
    assert import_segment(client, memory)["readonly"]


def test_a_readonly_import_stays_so(client, segment):
    buffer = import_segment(client, segment(bytes(64)), readonly=True)
    assert buffer["readonly"]
    view = client.post("/v1/views", {"cuda_array_interface": cai(buffer["ptr"], [64], "|u1")})
    client.refused("POST", "/v1/kernels/set_null_mask", 403, "readonly",
                   json={"bitmask": view["id"], "begin_bit": 0, "end_bit": 8, "valid": True})


def export_kinds(client):
    allocated = client.post("/v1/buffers", {"nbytes": 4096})
    uploaded_small = client.upload(bytes(range(100)))
    uploaded_big = client.upload(numpy.arange(100_000, dtype="u1"))
    mask = client.post("/v1/kernels/bools_to_mask", {"input": client.view(numpy.ones(100, "?"))["id"]})["mask"]
    exportable = client.post("/v1/kernels/bools_to_mask", {"input": client.view(numpy.ones(100, "?"))["id"], "exportable": True})["mask"]
    return {"allocated": allocated["id"], "small upload": uploaded_small["id"], "big upload": uploaded_big["id"],
            "mask": mask["buffer"], "exportable mask": exportable["buffer"]}


def test_every_kind_of_own_memory_opens_in_another_process(client, host_memory):
    for kind, buffer_id in export_kinds(client).items():
        content = client.bytes(f"/v1/buffers/{buffer_id}/data")
        share = client.post(f"/v1/buffers/{buffer_id}/export", expect=200)
        assert share["cuda_ipc"] is None and share["posix_shm"]["nbytes"] == len(content)
        assert share["cloned"] == (share["buffer"] != buffer_id), kind
        assert share["cloned"] == (kind in ("small upload", "mask")), kind
        path = "/dev/shm" + share["posix_shm"]["name"]
        with open(path, "rb") as opened:
            opened.seek(share["posix_shm"]["offset"])
            assert opened.read(len(content)) == content
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        client.delete(f"/v1/buffers/{share['buffer']}" if share["cloned"] else f"/v1/buffers/{buffer_id}") if kind != "exportable mask" else None


def test_what_another_process_writes_into_an_export_is_seen(client, host_memory):
    buffer = client.post("/v1/buffers", {"nbytes": 64})
    share = client.post(f"/v1/buffers/{buffer['id']}/export", expect=200)["posix_shm"]
    memory = shared_memory.SharedMemory(name=share["name"])
    memory.buf[5] = 77
    assert client.bytes(f"/v1/buffers/{buffer['id']}/data")[5] == 77
    memory.close()
    resource_tracker.unregister("/" + memory.name.lstrip("/"), "shared_memory")


def test_an_export_ends_with_its_buffer(client, host_memory, wait_until):
    buffer = client.post("/v1/buffers", {"nbytes": 4096})
    name = client.post(f"/v1/buffers/{buffer['id']}/export", expect=200)["posix_shm"]["name"]
    again = client.post(f"/v1/buffers/{buffer['id']}/export", expect=200)["posix_shm"]["name"]
    assert name == again
    client.delete(f"/v1/buffers/{buffer['id']}")
    wait_until(lambda: not os.path.exists("/dev/shm" + name))


def test_imported_memory_is_not_exported_again(client, segment):
    buffer = import_segment(client, segment(bytes(64)))
    with client.unchanged():
        client.refused("POST", f"/v1/buffers/{buffer['id']}/export", 422, "not_exportable", json={})


def test_an_own_export_is_recognized(client, host_memory):
    buffer = client.post("/v1/buffers", {"nbytes": 4096})
    name = client.post(f"/v1/buffers/{buffer['id']}/export", expect=200)["posix_shm"]["name"]
    with client.unchanged():
        problem = client.refused("POST", "/v1/buffers/import", 409, "handle_exported_here", json={"posix_shm": {"name": name}})
        assert problem["id"] == buffer["id"]


def test_many_imports_and_deletions_leave_no_mapping(client, segment):
    memory = segment(bytes(1 << 16))
    for _ in range(300):
        buffer = import_segment(client, memory)
        gone = client.delete(f"/v1/buffers/{buffer['id']}")
        assert gone["freed_nbytes"] == buffer["nbytes"]
    metrics = client.call("GET", "/metrics").text
    assert 'gmvd_import_mappings{mechanism="posix_shm"} 0' in metrics


def test_freed_bytes_of_shared_imports_are_told_once(client, segment):
    memory = segment(bytes(4096))
    first, second = import_segment(client, memory), import_segment(client, memory)
    assert client.delete(f"/v1/buffers/{first['id']}")["freed_nbytes"] == 0
    assert client.delete(f"/v1/buffers/{second['id']}")["freed_nbytes"] == 4096


def test_a_segment_cut_short_fails_the_call_and_not_the_daemon(daemon, client, segment, control):
    memory = segment(bytes(1 << 20))
    buffer = import_segment(client, memory)
    view = client.post("/v1/views", {"cuda_array_interface": cai(buffer["ptr"], [1 << 20], "|u1")})
    os.truncate(f"/dev/shm/{memory.name}", 4096)
    client.refused("POST", "/v1/kernels/null_count", 409, "memory_lost",
                   json={"bitmask": view["id"], "begin_bit": 0, "end_bit": 8 << 20})
    client.refused("GET", f"/v1/views/{view['id']}/data", 409, "memory_lost")
    assert daemon.alive()
    control()


def test_a_segment_cut_short_while_kernels_packs_and_downloads_run(daemon, client, segment, control):
    size = 48 << 20
    for round_number in range(3):
        memory = segment(bytes(size))
        buffer = import_segment(client, memory)
        view = client.post("/v1/views", {"cuda_array_interface": cai(buffer["ptr"], [size], "|u1")})
        column = client.post("/v1/columns/from_view", {"view": view["id"]})
        table = client.post("/v1/tables", {"columns": [column["id"]]})
        outcomes = []

        def run(method, path, body):
            other = Client(daemon.url)
            for _ in range(6):
                try:
                    options = {"json": body} if body is not None else {}
                    answer = other.call(method, path, **options)
                except requests.RequestException:  # a download may break off
                    assert method == "GET"
                    continue
                outcomes.append((answer.status_code, answer.json()["code"] if answer.status_code == 409 else None))

        calls = [("POST", "/v1/kernels/null_count", {"bitmask": view["id"], "begin_bit": 0, "end_bit": 8 * size}),
                 ("POST", f"/v1/tables/{table['id']}/pack", {}), ("GET", f"/v1/views/{view['id']}/data", None)]
        threads = [threading.Thread(target=run, args=call) for call in calls]
        for thread in threads:
            thread.start()
        threading.Event().wait(0.05 * (round_number + 1))
        os.truncate(f"/dev/shm/{memory.name}", 8192)
        for thread in threads:
            thread.join()
        assert daemon.alive(), daemon.log_text()[-3000:]
        assert set(outcomes) <= {(200, None), (201, None), (409, "memory_lost")}, outcomes
        client.delete_all()
    control()


@pytest.mark.parametrize("exported", [False, True])
def test_a_download_breaks_off_at_once_where_its_memory_ends(own_daemon, segment, host_memory, exported):
    """Not when the connection has been silent for long: the end of the memory is not taken for a slow client."""
    daemon, size = own_daemon("--idle-timeout", "600"), 48 << 20
    client = daemon.client
    if exported:
        buffer = client.post("/v1/buffers", {"nbytes": size})
        name = client.post(f"/v1/buffers/{buffer['id']}/export", expect=200)["posix_shm"]["name"]
    else:
        memory = segment(bytes(size))
        name = "/" + memory.name
        buffer = import_segment(client, memory)
    with daemon.connect() as connection:
        connection.sendall(f"GET /v1/buffers/{buffer['id']}/data HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        got = len(connection.recv(1 << 16))
        os.truncate("/dev/shm" + name, (20 << 20) + 4096)
        try:
            while piece := connection.recv(1 << 20):
                got += len(piece)
        except ConnectionResetError:
            pass
    assert got < size
    client.refused("GET", f"/v1/buffers/{buffer['id']}/data", 409, "memory_lost")
    client.delete_all()


def test_a_full_shared_memory_file_system_is_507(own_daemon, host_memory):
    """The daemon gets a /dev/shm of 4 MiB of its own, in a mount namespace."""
    prefix = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs -o size=4m tmpfs /dev/shm && exec "$0" "$@"']
    if subprocess.run([*prefix, "true"], capture_output=True).returncode:
        pytest.skip("mounting in a namespace is not allowed here")
    client = own_daemon(prefix=prefix).client
    made = [client.post("/v1/buffers", {"nbytes": 1 << 20}) for _ in range(3)]
    with client.unchanged():
        client.refused("POST", "/v1/buffers", 507, "device_out_of_memory", json={"nbytes": 2 << 20})
        client.refused("POST", "/v1/buffers/upload", 507, "device_out_of_memory", data=bytes(2 << 20),
                       headers={"Content-Type": "application/octet-stream"})
        client.refused("POST", "/v1/buffers/upload", 507, "device_out_of_memory", data=iter([bytes(1 << 19)] * 5),
                       headers={"Content-Type": "application/octet-stream"})
    client.delete(f"/v1/buffers/{made[0]['id']}")
    assert client.bytes(f"/v1/buffers/{client.upload(bytes(range(256)) * 4096)['id']}/data") == bytes(range(256)) * 4096


def test_names_left_by_a_killed_daemon_are_swept(own_daemon, host_memory, wait_until):
    first = own_daemon()
    buffer = first.client.post("/v1/buffers", {"nbytes": 4096})
    name = first.client.post(f"/v1/buffers/{buffer['id']}/export", expect=200)["posix_shm"]["name"]
    alive = own_daemon()
    kept = alive.client.post("/v1/buffers", {"nbytes": 4096})
    kept_name = alive.client.post(f"/v1/buffers/{kept['id']}/export", expect=200)["posix_shm"]["name"]
    assert os.path.exists("/dev/shm" + name)
    first.process.kill()
    first.process.wait()
    first.stop = lambda *_, **__: None
    own_daemon()
    wait_until(lambda: not os.path.exists("/dev/shm" + name))
    assert os.path.exists("/dev/shm" + kept_name)
