# SPDX-License-Identifier: Apache-2.0
"""Heads that two readers could read differently, and bodies that are not what they seem."""

import gzip

import numpy
import pytest

SECOND = (b"POST /v1/buffers HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 12\r\n\r\n"
          b'{"nbytes":1}')
CHUNKS = b"5\r\nhello\r\n0\r\n\r\n"


def upload(lines, body):
    return (b"POST /v1/buffers/upload HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/octet-stream\r\n"
            + lines + b"\r\n" + body)


@pytest.mark.parametrize("lines, body", [
    (b"Transfer-Encoding:\r\n chunked\r\n", CHUNKS),
    (b"Transfer-Encoding:\r\n\tchunked\r\n", CHUNKS),
    (b"Transfer-Encoding: chunked\r\n , gzip\r\n", CHUNKS),
    (b"X: x\r\n Transfer-Encoding: chunked\r\n", CHUNKS),
    (b"X: x\rTransfer-Encoding: chunked\r\n", CHUNKS),
    (b" Transfer-Encoding: chunked\r\n", CHUNKS),
    (b"Transfer-Encoding: chunked\0x\r\n", CHUNKS),
    (b"Transfer-Encoding: \x0bchunked\r\n", CHUNKS),
    (b"Content-Length:\r\n 5\r\n", b"hello"),
    (b"Content-Length: 1\r\n 5\r\n", b"hello"),
    (b"Content-Length: 5\0 9\r\n", b"hello"),
    (b": x\r\nContent-Length: 5\r\n", b"hello"),
    (b":\r\nContent-Length: 5\r\n", b"hello"),
    (b"\0x\r\nContent-Length: 5\r\n", b"hello"),
    (b"\0x\r\n", SECOND),
    (b"X: 1\r\n: x\r\n", SECOND),
])
def test_lines_that_hide_a_body_or_its_end(daemon, client, control, lines, body):
    with client.unchanged():
        content = daemon.raw(upload(lines, body))
        assert content.split(b" ")[1] in (b"400", b"501"), content[:300]
        assert b"HTTP/1.1 2" not in content
    control()


def test_a_nul_in_the_target_cuts_nothing_off(daemon, client, control):
    view = client.view(numpy.zeros(4, "u1"))["id"].encode()
    with client.unchanged():
        for method in (b"GET", b"DELETE"):
            for target in (b"/v1/views/" + view + b"\0zzz", b"/v1/views/" + view + b"\0?x", b"/v1/views/" + view + b"?\0x",
                           b"/v1/views/" + view + b"\0"):
                content = daemon.raw(method + b" " + target + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")
                assert not content or content.split(b" ")[1] == b"400", content[:300]
    control()


@pytest.mark.parametrize("coding", ["gzip", "GZIP", "deflate", "br", "gzip, identity", "identity, gzip", "compress"])
def test_compressed_bodies_are_not_taken_for_what_they_hold(client, coding):
    with client.unchanged():
        problem = client.refused("POST", "/v1/buffers/upload", 415, "media_type_unsupported", data=gzip.compress(bytes(64)),
                                 headers={"Content-Type": "application/octet-stream", "Content-Encoding": coding})
        assert problem["parameter"] == "Content-Encoding"
        client.refused("POST", "/v1/buffers", 415, "media_type_unsupported", data=gzip.compress(b'{"nbytes": 1}'),
                       headers={"Content-Type": "application/json", "Content-Encoding": coding})
    buffer = client.upload(b"plain")
    client.refused("PUT", f"/v1/buffers/{buffer['id']}/data", 415, "media_type_unsupported", data=gzip.compress(b"x"),
                   headers={"Content-Type": "application/octet-stream", "Content-Encoding": coding})
    assert client.bytes(f"/v1/buffers/{buffer['id']}/data") == b"plain"


def test_a_body_may_say_that_it_is_not_compressed(client):
    client.call("POST", "/v1/buffers", data=b'{"nbytes": 1}', expect=201,
                headers={"Content-Type": "application/json", "Content-Encoding": "identity"})
    client.call("GET", "/livez", headers={"Content-Encoding": "gzip"}, expect=200)


def test_what_a_condition_protects_is_not_deleted(client):
    view = client.view(numpy.arange(4, dtype="u1"))["id"]
    leased = client.post(f"/v1/views/{view}/byte_slice", {"ttl_seconds": 1000})["id"]
    for node in (view, leased):
        path = f"/v1/views/{node}"
        tag = client.call("GET", path).headers["ETag"]
        for name, value in (("If-Match", '"other"'), ("If-Match", f"W/{tag}"), ("If-Match", ""), ("If-None-Match", "*"), ("If-None-Match", tag),
                            ("If-None-Match", f'"other", W/{tag}')):
            client.refused("DELETE", path, 412, "precondition_failed", headers={name: value})
            client.get(path)
    client.delete(f"/v1/views/{leased}", headers={"If-Match": client.call("GET", f"/v1/views/{leased}").headers["ETag"]})
    client.delete(f"/v1/views/{view}", headers={"If-Match": "*", "If-None-Match": '"other"'})
    client.refused("DELETE", f"/v1/views/{view}", 410, "handle_deleted", headers={"If-Match": '"other"'})
    client.refused("DELETE", f"/v1/views/view_{'0' * 26}", 404, "handle_unknown", headers={"If-Match": '"other"'})


def test_what_a_condition_protects_is_not_written(client):
    buffer = client.upload(b"before")["id"]
    octets = {"Content-Type": "application/octet-stream"}
    path = f"/v1/buffers/{buffer}/data"
    for condition in ({"If-Match": '"any"'}, {"If-Match": f'"{buffer}-1"'}, {"If-None-Match": "*"}):
        client.refused("PUT", path, 412, "precondition_failed", data=b"after!", headers={**octets, **condition})
        client.refused("PUT", path, 412, "precondition_failed", data=iter([b"aft", b"er!"]), headers={**octets, **condition})
        assert client.bytes(path) == b"before"
    client.refused("PUT", path, 422, "out_of_bounds", data=b"longer!", headers={**octets, "If-Match": '"any"'})
    for condition in ({"If-Match": "*"}, {"If-None-Match": '"any"'}):
        client.call("PUT", path, data=b"after!", headers={**octets, **condition}, expect=200)
    assert client.bytes(path) == b"after!"
