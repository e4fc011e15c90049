# SPDX-License-Identifier: Apache-2.0
"""HTTP itself: framing on raw sockets, methods, media types, caching, time-outs, drain."""

import json
import signal
import socket
import struct
import threading
import time

import numpy
import pytest
import requests

from conftest import BACKEND, PATIENCE, SOURCE, Client, cai, parse_answers, read_all


def request(method=b"GET", path=b"/livez", headers=(), body=b"", version=b"HTTP/1.1", host=b"localhost"):
    lines = [b"%s %s %s" % (method, path, version)]
    if host is not None:
        lines.append(b"Host: " + host)
    return b"\r\n".join([*lines, *headers, b"", body])


def statuses(daemon, content, **options):
    return [status for status, _, _ in parse_answers(daemon.raw(content, **options))]


LIVE = b"Connection: close"
SLICE = {"Content-Type": "application/json"}


def test_bodies_in_pieces_and_padded(daemon, client):
    buffer = client.upload(bytes(64))
    text = json.dumps({"cuda_array_interface": cai(buffer["ptr"], [4], "<f4")}).encode()
    for size in (100, 1500, 5000, 70_000, 1 << 20):
        client.call("POST", "/v1/views", data=text.ljust(size), headers=SLICE, expect=201)
    with daemon.connect() as connection:
        connection.sendall(request(b"POST", b"/v1/views", [b"Content-Type: application/json", b"Content-Length: 5000", LIVE]))
        for byte in text.ljust(5000):
            connection.send(bytes([byte]))
        (status, _, _), = parse_answers(read_all(connection))
    assert status == 201


def test_a_body_at_the_limit_and_one_byte_more(own_daemon):
    running = own_daemon("--max-json-nbytes", "10000")
    running.client.call("POST", "/v1/buffers", data=b'{"nbytes": 1}'.ljust(10000), headers=SLICE, expect=201)
    running.client.refused("POST", "/v1/buffers", 413, "body_too_large", data=b'{"nbytes": 1}'.ljust(10001), headers=SLICE)
    running.client.refused("POST", "/v1/buffers", 413, "body_too_large", data=iter([b'{"nbytes": 1}', b" " * 10000]), headers=SLICE)
    running.client.get("/livez")


def test_a_big_body_in_one_write_needs_no_further_push(daemon):
    body = b'{"nbytes": 0}'.ljust(1 << 20)
    with daemon.connect() as connection:
        connection.sendall(request(b"POST", b"/v1/buffers", [b"Content-Type: application/json", b"Content-Length: %d" % len(body)], body))
        assert connection.recv(4096).startswith(b"HTTP/1.1 201")
    daemon.client.delete_all()


@pytest.mark.parametrize("lines", [
    [b"Content-Length: 5", b"Content-Length: 5"], [b"Content-Length: 5", b"Content-Length: 6"], [b"Content-Length: 5", b"Transfer-Encoding: chunked"],
    [b"Transfer-Encoding: chunked", b"Content-Length: 5"], [b"Transfer-Encoding: gzip"], [b"Transfer-Encoding: gzip, chunked"],
    [b"Transfer-Encoding: chunked, chunked"], [b"Transfer-Encoding: identity"], [b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked"],
    [b"Transfer-Encoding: xchunked"], [b"Transfer-Encoding: chunked "], [b"Transfer-Encoding: chunked;q=1"], [b"Transfer-Encoding:"], [b"Content-Length : 5"], [b"Content Length: 5"],
    [b"Content-Length: -1"], [b"Content-Length: -268435455700"], [b"Content-Length: +5"], [b"Content-Length: 5abc"], [b"Content-Length: 0x5"],
    [b"Content-Length: 5, 6"], [b"Content-Length: "], [b"Content-Length: 99999999999999999999"]])
def test_framing_that_two_readers_could_read_differently(daemon, client, control, lines):
    smuggled = b"POST /v1/buffers HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 12\r\n\r\n" + b'{"nbytes": 1}'[:12]
    with client.unchanged():
        content = daemon.raw(request(b"POST", b"/v1/buffers", [b"Content-Type: application/json", *lines], b"hello" + smuggled))
        assert content and content.split(b" ")[1] in (b"400", b"413", b"501"), content[:300]
        assert b"HTTP/1.1 2" not in content
    control()


@pytest.mark.parametrize("value", [b"chunked", b"Chunked", b"CHUNKED"])
def test_plain_chunked_in_any_case(daemon, value):
    body = b"d\r\n" + b'{"nbytes": 0}' + b"\r\n0\r\n\r\n"
    content = daemon.raw(request(b"POST", b"/v1/buffers", [b"Content-Type: application/json", b"Transfer-Encoding: " + value, LIVE], body))
    assert [answer[0] for answer in parse_answers(content)] == [201]
    daemon.client.delete_all()


def test_hosts(daemon):
    assert statuses(daemon, request(headers=[LIVE], host=None)) == [400]
    assert statuses(daemon, request(headers=[LIVE, b"Host: localhost"])) == [400]
    for host in (b"localhost", b"127.0.0.1", b"localhost:%d" % daemon.port, b"[::1]:80"):
        assert statuses(daemon, request(headers=[LIVE], host=host)) == [200]
    for host in (b"evil.example", b"", b"localhost.evil.example", b"127.0.0.1.evil.example"):
        status, = statuses(daemon, request(headers=[LIVE], host=host))
        assert status in (400, 403, 421)


def test_lengths_that_are_not_the_bodys(daemon, client, control):
    body = b'{"nbytes": 0}'
    with client.unchanged():
        first = daemon.raw(request(b"POST", b"/v1/buffers", [b"Content-Type: application/json", b"Content-Length: 5"], body.ljust(50)))
        assert first.split(b" ")[1] == b"400" and b"HTTP/1.1 2" not in first
        cut = daemon.raw(request(b"POST", b"/v1/buffers", [b"Content-Type: application/json", b"Content-Length: 500"], body.ljust(50)), half_close=True)
        assert b"HTTP/1.1 2" not in cut
        none = daemon.raw(request(b"POST", b"/v1/buffers", [b"Content-Type: application/json", LIVE]))
        assert none.split(b" ")[1] in (b"400", b"422")
        zero = daemon.raw(request(b"POST", b"/v1/buffers", [b"Content-Type: application/json", b"Content-Length: 0"], body))
        assert b"HTTP/1.1 2" not in zero
    control()


@pytest.mark.parametrize("content_type", ["application/x-www-form-urlencoded", "text/plain", None, "multipart/form-data", "application/jsonx",
                                          "application/json; charset=utf-16", "application/octet-stream", "application/json, text/plain", "json", "a" * 10_000])
def test_media_types_that_are_not_taken(client, control, content_type):
    with client.unchanged():
        headers = {"Content-Type": content_type} if content_type else {}
        client.refused("POST", "/v1/buffers", 415, "media_type_unsupported", data=b'{"nbytes": 1}', headers=headers)
    control()


@pytest.mark.parametrize("content_type", ["application/json", "application/json; charset=utf-8", "application/json;charset=UTF-8", "Application/JSON",
                                          " application/json ", 'application/json; charset="utf-8"'])
def test_media_types_that_are_taken(daemon, client, content_type):
    body = b'{"nbytes": 0}'
    content = daemon.raw(request(b"POST", b"/v1/buffers", [b"Content-Type:" + content_type.encode(), b"Content-Length: %d" % len(body), LIVE], body))
    assert [answer[0] for answer in parse_answers(content)] == [201]


def document():
    return json.loads((SOURCE / "openapi" / "gmvd.json").read_text())


def test_other_methods_are_405_with_the_allowed_ones(daemon):
    for path, operations in document()["paths"].items():
        concrete = path.replace("{id}", "view_00000000000000000000000000")
        allowed = {method.upper() for method in operations if method in ("get", "post", "put", "delete")}
        if "GET" in allowed:
            allowed.add("HEAD")
        for method in ("PATCH", "PUT", "TRACE", "OPTIONS", "FROB", "DELETE", "POST", "GET"):
            if method in allowed:
                continue
            answer = daemon.client.call(method, concrete, documented=False)
            if method == "FROB" and answer.status_code == 501:
                continue
            assert answer.status_code == 405, (method, path, answer.text)
            assert {name.strip() for name in answer.headers["Allow"].split(",")} == allowed, (method, path)
            assert answer.json()["code"] == "method_not_allowed"


@pytest.mark.parametrize("path", ["//", "/v1", "/v1/", "/v1/nothing", "/v2/views", "/livez/", "/v1/views//data", "/V1/server", "/v1/server/", "/v1//server",
                                  "/v1/views/x/y/z"])
def test_unknown_routes(client, path):
    answer = client.call("GET", path, documented=False)
    assert (answer.status_code, answer.json()["code"]) == (404, "route_unknown")


def test_odd_path_parameters(daemon, client):
    view = client.view(numpy.zeros(4, "u1"))["id"]
    with client.unchanged():
        for tail in (view + "%00", view + "%00zzz", "", "/", "%2F", view + "/", "..%2F..", "%", "%zz", view + "%20", view + "?x", "%2e%2e"):
            for method in (b"GET", b"DELETE"):
                status, = statuses(daemon, request(method, b"/v1/views/" + tail.encode(), [LIVE]))
                assert status in (400, 404), (tail, status)
        status = statuses(daemon, request(b"GET", b"/v1/views/" + b"x" * 9000, [LIVE]))
        assert status and status[0] in (404, 414, 431)
        answer, = parse_answers(daemon.raw(request(b"GET", b"/v1/views/" + view.replace("_", "%5F").encode(), [LIVE])))
        assert answer[0] == 200


def test_queries_under_v1_are_strict(client):
    for query in ("x=1", "limit=1&limit=1", "limit=%zz", "limit=%00", "label=%ff", "limit=+1", "limit=1%20"):
        client.refused("GET", f"/v1/handles?{query}", 400, "request_malformed")
    assert client.get("/v1/handles?label=a%2Bb%20c+d")["items"] == []
    client.refused("GET", "/v1/server?x", 400, "request_malformed")


VALUES_BEFORE_HANDLES = [
    ("/v1/kernels/null_count", {"bitmask": "{view}", "begin_bit": -1, "end_bit": 8}, "value_error", "/begin_bit"),
    ("/v1/kernels/valid_count", {"bitmask": "{view}", "begin_bit": 5, "end_bit": 3}, "value_error", "/end_bit"),
    ("/v1/kernels/mask_to_bools", {"bitmask": "{view}", "begin_bit": 5, "end_bit": 3}, "value_error", "/end_bit"),
    ("/v1/kernels/copy_bitmask", {"bitmask": "{view}", "begin_bit": -1, "end_bit": 3}, "value_error", "/begin_bit"),
    ("/v1/kernels/set_null_mask", {"bitmask": "{view}", "begin_bit": 0, "end_bit": 2**31}, "value_error", "/end_bit"),
    ("/v1/kernels/index_of_first_set_bit", {"bitmask": "{view}", "end_bit": -1}, "value_error", "/end_bit"),
    ("/v1/kernels/segmented_null_count", {"bitmask": "{view}", "ranges": [[0, 8], [-1, 8]]}, "index_error", "/ranges/1"),
    ("/v1/views/{view}/byte_slice", {"step": 2}, "value_error", "/step"),
    ("/v1/views/{view}/views", {"typestr": "|u1", "shape": [1], "offset": -1}, "value_error", "/offset"),
    ("/v1/views/{view}/views", {"typestr": "|u1", "shape": [2, -1]}, "value_error", "/shape/1"),
    ("/v1/columns", {"type": {"name": "INT8"}, "size": -1, "data": "{view}"}, "value_error", "/size"),
    ("/v1/columns", {"type": {"name": "INT8", "scale": 2}, "size": 1, "data": "{view}"}, "value_error", "/type/scale"),
    ("/v1/columns", {"type": {"name": "INT8"}, "size": 1, "data": "{view}", "null_count": 2}, "value_error", "/null_count"),
    ("/v1/columns", {"type": {"name": "LIST"}, "size": 1, "data": "{view}"}, "value_error", "/children"),
    ("/v1/tables", {"columns": ["{column}"], "num_rows": -1}, "value_error", "/num_rows"),
]


@pytest.mark.parametrize("path, body, code, pointer", VALUES_BEFORE_HANDLES)
def test_values_of_the_body_are_judged_before_handles_are_looked_up(client, path, body, code, pointer):
    view = client.view(numpy.arange(8, dtype="u1"))["id"]
    column = client.column(numpy.arange(8, dtype="i1"))["id"]
    client.delete(f"/v1/views/{view}")
    client.delete(f"/v1/columns/{column}")
    body = json.loads(json.dumps(body).replace("{view}", view).replace("{column}", column))
    with client.unchanged():
        client.refused("POST", path.replace("{view}", view), 422, code, pointer, json=body)


def test_a_reversed_range_is_said_before_a_mask_is_readonly(client):
    view = client.view(numpy.zeros(8, "u1"), readonly=True)["id"]
    path = "/v1/kernels/set_null_mask"
    client.refused("POST", path, 422, "value_error", "/end_bit", json={"bitmask": view, "begin_bit": 5, "end_bit": 3})
    for end in (5, 64, 65):
        client.refused("POST", path, 403, "readonly", "/bitmask", json={"bitmask": view, "begin_bit": 5, "end_bit": end})


def test_what_changes_by_itself_is_not_kept_by_caches(client):
    view = client.view(numpy.arange(8, dtype="u1"))["id"]
    for path in ("/v1/handles", f"/v1/handles/{view}"):
        assert client.call("GET", path, expect=200).headers["Cache-Control"] == "no-store"


def test_reads_take_no_body(daemon):
    view = b"/v1/views/view_00000000000000000000000000"
    for method, path, status in ((b"GET", view, b"400"), (b"DELETE", view, b"400"), (b"HEAD", view, b"400"),
                                 (b"GET", b"/v1/columns/from_view", b"405"), (b"DELETE", b"/v1/handles", b"405"), (b"GET", b"/v1/none", b"404")):
        content = daemon.raw(request(method, path, [b"Content-Type: application/json", b"Content-Length: 2", LIVE], b"{}"))
        assert content.split(b" ")[1] == status


def test_head_is_get_without_a_body(daemon, client):
    view = client.view(numpy.arange(100, dtype="u1"))["id"]
    for path in ("/livez", "/v1/server", f"/v1/views/{view}", f"/v1/views/{view}/data", "/openapi.yaml", "/metrics"):
        get, head = client.call("GET", path), client.call("HEAD", path)
        assert head.status_code == 200 and head.content == b""
        if path not in ("/v1/server", "/metrics"):
            assert head.headers["Content-Length"] == str(len(get.content))
        assert head.headers["Content-Type"] == get.headers["Content-Type"]
    assert client.call("HEAD", "/v1/views/view_00000000000000000000000000").status_code == 404


def test_one_handle_is_cached_by_its_tag(daemon, client):
    view = client.view(numpy.arange(4, dtype="u1"))["id"]
    first = client.call("GET", f"/v1/views/{view}")
    tag = first.headers["ETag"]
    assert tag.startswith('"') and "no-cache" in first.headers["Cache-Control"]
    for condition in (tag, "*", f'"other", {tag}', "W/" + tag):
        second = client.call("GET", f"/v1/views/{view}", headers={"If-None-Match": condition}, expect=304)
        assert second.content == b"" and second.headers["ETag"] == tag
    assert client.call("GET", f"/v1/views/{view}", headers={"If-None-Match": '"other"'}, expect=200).json() == first.json()
    path = f"/v1/views/{view}".encode()
    content = daemon.raw(request(b"GET", path, [b"If-None-Match: " + tag.encode()]) + request(b"GET", path) + request(headers=[LIVE]))
    assert [answer[0] for answer in parse_answers(content)] == [304, 200, 200]


def test_http_1_0(daemon, client):
    big = client.upload(bytes(10 << 20))
    for path, length in ((b"/livez", None), (f"/v1/buffers/{big['id']}/data".encode(), 10 << 20)):
        for extra in ([], [b"Connection: keep-alive"]):
            for host in (None, b"localhost"):
                with daemon.connect() as connection:
                    connection.sendall(request(b"GET", path, extra, version=b"HTTP/1.0", host=host))
                    content = b""
                    while b"\r\n\r\n" not in content:
                        content += connection.recv(65536)
                    head, _, body = content.partition(b"\r\n\r\n")
                    assert b" 200 " in head.split(b"\r\n")[0] and b"chunked" not in head.lower()
                    expected = int([line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")][0].split(b":")[1])
                    while len(body) < expected:
                        body += connection.recv(1 << 20)
                    assert len(body) == expected and (length is None or expected == length)


def test_expect_100_continue(daemon, client):
    buffer = None
    with daemon.connect() as connection:
        connection.sendall(request(b"POST", b"/v1/buffers/upload", [b"Content-Type: application/octet-stream", b"Content-Length: 4", b"Expect: 100-continue", LIVE]))
        assert connection.recv(4096).startswith(b"HTTP/1.1 100")
        connection.sendall(b"abcd")
        (status, _, body), = parse_answers(read_all(connection))
        assert status == 201
        buffer = json.loads(body)
    assert client.bytes(f"/v1/buffers/{buffer['id']}/data") == b"abcd"


def test_request_ids(client):
    assert client.call("GET", "/livez", headers={"X-Request-Id": "abc-1.2_3"}).headers["X-Request-Id"] == "abc-1.2_3"
    for odd in ("", "x" * 129, "a b", "é".encode().decode("latin-1")):
        answer = client.call("GET", "/v1/views/view_00000000000000000000000000", headers={"X-Request-Id": odd})
        assert answer.headers["X-Request-Id"] not in ("", odd) and answer.json()["request_id"] == answer.headers["X-Request-Id"]


def test_pipelined_requests_are_answered_in_order(daemon, client):
    view = client.view(numpy.arange(64, dtype="u1"))["id"]
    body = json.dumps({"bitmask": view, "begin_bit": 0, "end_bit": 512}).encode()
    queued = request(b"POST", b"/v1/kernels/null_count", [b"Content-Type: application/json", b"Content-Length: %d" % len(body)], body)
    content = daemon.raw(queued + request() + queued + request(headers=[LIVE]))
    answers = parse_answers(content)
    assert [answer[0] for answer in answers] == [200] * 4 and b"count" in answers[0][2] and b"count" in answers[2][2]


def reset(connection):
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def test_clients_that_leave_at_every_moment(daemon, client, control, wait_until):
    size = 16 << 20
    view = client.view(numpy.zeros(size, "u1"))
    body = json.dumps({"bitmask": view["id"], "begin_bit": 0, "end_bit": 8 * size}).encode()
    post = request(b"POST", b"/v1/kernels/null_count", [b"Content-Type: application/json", b"Content-Length: %d" % len(body)], body)
    get = request(b"GET", f"/v1/views/{view['id']}/data".encode())
    for content in (post, get):
        for cut in (1, len(content) // 2, len(content) - 1, len(content)):
            for leave in ("reset", "close", "half-close", "silence"):
                connection = daemon.connect()
                connection.sendall(content[:cut])
                if cut == len(content):
                    time.sleep(0.002)
                if leave == "reset":
                    reset(connection)
                elif leave == "half-close":
                    connection.shutdown(socket.SHUT_WR)
                    if cut == len(content):
                        assert connection.recv(12).startswith(b"HTTP/1.1 200")
                    connection.close()
                elif leave == "close":
                    connection.close()
                else:
                    time.sleep(0.01)
                    reset(connection)
    wait_until(lambda: client.get(f"/v1/handles/{view['id']}")["in_flight"] == 0)
    control()


def test_downloads_cut_off_by_their_readers(daemon, client, control, wait_until):
    big = client.view(numpy.zeros(64 << 20, "u1"))

    def cut_off():
        connection = daemon.connect()
        connection.sendall(request(b"GET", f"/v1/views/{big['id']}/data".encode()))
        connection.recv(1024)
        reset(connection)

    threads = [threading.Thread(target=cut_off) for _ in range(100)]
    for thread in threads:
        thread.start()
    for _ in range(50):
        client.get("/v1/server")
    for thread in threads:
        thread.join()
    wait_until(lambda: client.get(f"/v1/handles/{big['id']}")["in_flight"] == 0)
    control()


def test_idle_connections_time_out_and_give_their_place(own_daemon, wait_until):
    running = own_daemon("--idle-timeout", "2")
    started = time.monotonic()
    with running.connect() as silent:
        assert silent.recv(100) == b""
        assert time.monotonic() - started > 1


def test_drain_finishes_what_runs_and_refuses_what_comes(own_daemon, wait_until):
    running = own_daemon("--threads", "2", "--drain-timeout", "4")
    client = running.client
    size = 64 << 20
    view = client.view(numpy.zeros(size, "u1"))
    idle = [running.connect() for _ in range(5)]
    half_sent = running.connect()
    half_sent.sendall(b"POST /v1/views HTTP/1.1\r\nHost: localhost\r\nContent-")
    uploading = running.connect()
    uploading.sendall(request(b"POST", b"/v1/buffers/upload", [b"Content-Type: application/octet-stream", b"Content-Length: 10000000"], bytes(2_000_000)))
    for number in range(200):
        client.post(f"/v1/views/{view['id']}/byte_slice", {"start": number})
    results = []

    def count():
        try:
            answer = Client(running.url).call("POST", "/v1/kernels/null_count", json={"bitmask": view["id"], "begin_bit": 0, "end_bit": 8 * size})
            results.append(answer.status_code)
        except requests.ConnectionError:
            pass  # came too late

    threads = [threading.Thread(target=count) for _ in range(12)]
    for thread in threads:
        thread.start()
    wait_until(lambda: results or client.get(f"/v1/handles/{view['id']}")["in_flight"] > 0)
    running.process.send_signal(signal.SIGTERM)
    for thread in threads:
        thread.join()
    assert running.process.wait(PATIENCE) == 0
    assert set(results) <= {200, 503}
    for connection in (*idle, half_sent, uploading):
        connection.close()


def test_drain_with_nothing_to_do_is_quick(own_daemon):
    """Far quicker than the time that requests are given."""
    running = own_daemon("--drain-timeout", "600")
    connections = [running.connect() for _ in range(20)]
    running.client.get("/livez")
    running.process.send_signal(signal.SIGTERM)
    assert running.process.wait(PATIENCE) == 0
    for connection in connections:
        connection.close()


def test_server_says_what_it_is(client):
    server = client.get("/v1/server")
    assert server["name"] == "gmvd" and server["backend"] == BACKEND and (server["cuda"] is None) == (BACKEND == "host")
    assert server["uptime_seconds"] >= 0 and server["limits"]
    device = client.get("/v1/devices")["items"][0]
    assert device["ordinal"] == 0 and device["state"] == "ready" and device["total_nbytes"] > 0
    assert (device["uuid"] is None) == (BACKEND == "host")


def test_probes(client):
    for path in ("/livez", "/healthz", "/readyz"):
        assert client.get(path)["status"] == "ok"
        assert "checks" in client.get(path + "?verbose")


def test_the_contract_is_served_as_it_ships(client):
    assert client.bytes("/openapi.yaml") == (SOURCE / "openapi" / "gmvd.yaml").read_bytes()
    assert client.bytes("/openapi.json") == (SOURCE / "openapi" / "gmvd.json").read_bytes()
    assert b"<html" in client.bytes("/docs").lower()


def test_nothing_is_said_of_broken_bytes(daemon, client, control):
    for body in (b'{"typestr":"\xd7\x49"}', b'{"label": "\xc0\xaf"}', b'{"label": "\\ud800"}', b'{"label": "\xe2\x82"}', b'{"label": "\xe2\x82', b"\xff\xfe{}"):
        with client.unchanged():
            answer = client.call("POST", "/v1/buffers", data=body, headers=SLICE)
            assert (answer.status_code, answer.json()["code"]) == (400, "json_malformed")
            answer.content.decode("utf-8", "strict")
    control()


MALFORMED = [b"{", b"{}}", b"{} {}", b"{},", b"[1", b'{"nbytes": 01}', b'{"nbytes": +1}', b'{"nbytes": NaN}', b'{"nbytes": 1,}', b"{'nbytes': 1}",
             b'{"nbytes": 1} x', b'{"nbytes": 1, "nbytes": 2}', b'{"nbytes": 1, "\\u006ebytes": 2}', b"{}\x00", b'{"nbytes\\u0000x": 1}',
             b'{"label": "a\\u0000b", "nbytes": 1}', b'{"nbytes": 1\x00}', b"\xef\xbb\xbf{\"nbytes\": 0}", b"[" * 100_000, b'{"a":' * 200_000,
             b'{"nbytes": /* no */ 1}', b'{"nbytes": 0x10}', b"nbytes=1", b" ", b'{"nbytes": 1e400', b"-", b'"', b"tru"]


@pytest.mark.parametrize("body", MALFORMED, ids=lambda body: repr(body[:24]))
def test_malformed_json(client, control, body):
    with client.unchanged():
        client.refused("POST", "/v1/buffers", 400, "json_malformed", data=body, headers=SLICE)
    control()


def test_white_space_behind_is_fine(client):
    client.call("POST", "/v1/buffers", data=b'\r\n\t {"nbytes": 0} \r\n\t ', headers=SLICE, expect=201)


def test_integers_are_integers(client, control):
    buffer = client.upload(bytes(64))
    with client.unchanged():
        for shape, code in (("[4.0]", "type_error"), ("[4e0]", "type_error"), ('["4"]', "type_error"), ("[true]", "type_error"), ("[4.5]", "type_error"),
                            ("[9223372036854775808]", "value_error"), ("[-9223372036854775809]", "value_error"), ("[1e400]", None), ("[-1]", "value_error"),
                            ("[99999999999999999999999999999999]", "value_error")):
            text = '{"cuda_array_interface": {"shape": %s, "typestr": "|u1", "version": 3, "data": [%d, false]}}' % (shape, buffer["ptr"])
            answer = client.call("POST", "/v1/views", data=text.encode(), headers=SLICE, expect=422)
            assert code is None or answer.json()["code"] == code, (shape, answer.json())
            assert answer.json()["pointer"].startswith("/cuda_array_interface/shape"), answer.json()
    text = '{"cuda_array_interface": {"shape": [-0], "typestr": "|u1", "version": 3, "data": [%d, false]}}' % buffer["ptr"]
    assert client.call("POST", "/v1/views", data=text.encode(), headers=SLICE, expect=201).json()["nbytes"] == 0
    control()


@pytest.mark.parametrize("path", sorted(path for path, operations in document()["paths"].items()
                                        if "post" in operations and "application/json" in operations["post"].get("requestBody", {}).get("content", {})))
def test_every_call_refuses_unknown_members_and_other_types(client, path):
    buffer = client.upload(bytes(256), label="x")
    view = client.post(f"/v1/buffers/{buffer['id']}/views", {"typestr": "<i4", "shape": [4]})
    column = client.post("/v1/columns/from_view", {"view": view["id"]})
    table = client.post("/v1/tables", {"columns": [column["id"]]})
    packed = client.post(f"/v1/tables/{table['id']}/pack")
    ids = {"buffers": buffer, "views": view, "columns": column, "tables": table, "packed": packed}
    concrete = path.replace("{id}", ids.get(path.split("/")[2], buffer)["id"])
    with client.unchanged():
        answer = client.call("POST", concrete, json={"no_such_member": 1})
        assert answer.status_code == 422, answer.text
        client.refused("POST", concrete, 422, "type_error", "", json=[1])
        client.refused("POST", concrete, 400, "json_malformed", data=b"{", headers=SLICE)
        client.refused("POST", concrete, 415, "media_type_unsupported", data=b"{}", headers={"Content-Type": "text/plain"})


def test_handles_of_every_wrong_kind_in_every_path(client):
    buffer = client.upload(bytes(256))
    view = client.post(f"/v1/buffers/{buffer['id']}/views", {"typestr": "<i4", "shape": [4]})
    for path, operations in document()["paths"].items():
        if "{id}" not in path or path.startswith("/v1/handles"):
            continue
        wrong = buffer["id"] if "/buffers/" not in path else view["id"]
        for method in operations:
            if method not in ("get", "post", "delete"):
                continue
            body = {}
            if method == "post":
                schema = operations[method].get("requestBody", {})
                body = {"json": {}} if schema else {}
                if path.endswith("contiguous_split"):
                    body = {"json": {"splits": []}}
                if path.endswith("}/views"):
                    body = {"json": {"typestr": "|u1", "shape": [1]}}
                if path.endswith("}/compare"):
                    body = {"json": {"other": view["id"]}}
            for handle in (wrong, "nonsense", "view_zzzzzzzzzzzzzzzzzzzzzzzzzz"):
                client.refused(method.upper(), path.replace("{id}", handle), 404, "handle_unknown", **body)


# metrics


def parse_metrics(text):
    assert text.endswith("\n") and "\r" not in text
    families, samples, current = {}, {}, None
    for line in text.splitlines():
        assert line == line.strip()
        if line.startswith("# HELP "):
            current = line.split(" ")[2]
            assert current not in families
            families[current] = {}
        elif line.startswith("# TYPE "):
            name, kind = line.split(" ")[2:]
            assert name == current and "type" not in families[name]
            families[name]["type"] = kind
        else:
            series, _, value = line.rpartition(" ")
            name = series.split("{")[0]
            base = name
            for suffix in ("_bucket", "_sum", "_count"):
                if families[current]["type"] == "histogram" and name == current + suffix:
                    base = current
            assert base == current, line
            assert series not in samples, series
            if "{" in series:
                labels = series[series.index("{") + 1:-1]
                assert series.endswith("}") and all("=" in label for label in labels.split('",'))
            samples[series] = float(value)
            if families[current]["type"] == "counter":
                assert name.endswith("_total")
    return families, samples


def test_metrics_are_well_formed_with_few_and_many_handles(client):
    for handles in (0, 1, 100):
        for _ in range(handles):
            client.post("/v1/buffers", {"nbytes": 64})
        answer = client.call("GET", "/metrics", expect=200)
        assert answer.headers["Content-Type"].startswith("text/plain")
        families, samples = parse_metrics(answer.text)
        assert samples['gmvd_handles{kind="buffer"}'] == len(client.handles())
        assert 'gmvd_buffer_bytes{device="0",origin="allocated"}' in samples
        for family in ("gmvd_build_info", "gmvd_http_requests_total", "gmvd_http_request_duration_seconds", "gmvd_operations_in_flight", "gmvd_device_lost"):
            assert family in families


def test_counters_never_go_down_and_routes_are_templates(client):
    view = client.view(numpy.zeros(4, "u1"))["id"]
    client.get(f"/v1/views/{view}")
    _, before = parse_metrics(client.call("GET", "/metrics").text)
    client.get(f"/v1/views/{view}")
    text = client.call("GET", "/metrics").text
    _, after = parse_metrics(text)
    series = 'gmvd_http_requests_total{method="GET",route="/v1/views/{id}",status="200"}'
    assert after[series] == before[series] + 1 and view not in text
    for name, value in before.items():
        if "_total" in name:
            assert after[name] >= value
