# SPDX-License-Identifier: Apache-2.0
"""GET /v1/events: what happens to handles, as it happens, and where a client goes on."""

import contextlib
import json

import pytest
import requests

from conftest import PATIENCE


class Stream:
    """A reader of server-sent events."""

    def __init__(self, url, **headers):
        self.answer = requests.get(url + "/v1/events", stream=True, headers=headers, timeout=PATIENCE)
        assert self.answer.status_code == 200, self.answer.text
        self.lines = self.answer.iter_lines(chunk_size=1)
        self.last_id = None

    def next(self):
        """The next event as (name, data)."""
        name = data = None
        for line in self.lines:
            field, _, value = line.decode().partition(": ")
            if field == "id":
                self.last_id = value
            elif field == "event":
                name = value
            elif field == "data":
                data = json.loads(value)
            elif line == b"" and data is not None:
                return name, data
        raise EOFError

    def of(self, ids, count):
        """The next `count` events of these handles."""
        found = []
        while len(found) < count:
            name, data = self.next()
            if data.get("id") in ids:
                found.append((name, data["id"], data.get("reason")))
        return found

    def close(self):
        self.answer.close()


@pytest.fixture
def listen(daemon):
    with contextlib.ExitStack() as stack:
        def start(**headers):
            stream = Stream(daemon.url, **headers)
            stack.callback(stream.close)
            return stream

        yield start


def test_the_life_of_a_handle(client, listen):
    stream = listen()
    headers = stream.answer.headers
    assert headers["Content-Type"] == "text/event-stream" and headers["Cache-Control"] == "no-store"
    assert headers["X-Request-Id"]
    buffer = client.post("/v1/buffers", {"nbytes": 40, "label": "not told"})
    view = client.post(f"/v1/buffers/{buffer['id']}/views", {"typestr": "<f4", "shape": [10]})
    client.delete(f"/v1/buffers/{buffer['id']}")
    client.delete(f"/v1/views/{view['id']}")
    assert stream.of({buffer["id"], view["id"]}, 6) == [
        ("created", buffer["id"], None), ("created", view["id"], None), ("deleted", buffer["id"], "deleted"),
        ("deleted", view["id"], "deleted"), ("freed", view["id"], None), ("freed", buffer["id"], None)]


def test_what_an_event_says(client, listen):
    stream = listen()
    session = client.post("/v1/sessions")
    mask = client.post("/v1/kernels/create_null_mask", {"size": 8}, headers={"Gmv-Session": session["id"]})["mask"]
    events = {}
    while mask["id"] not in events:
        name, data = stream.next()
        assert name == "created"
        events[data["id"]] = data
    inner, named = events[mask["buffer"]], events[mask["id"]]
    assert list(inner) == ["id", "kind", "named", "nbytes", "session", "reason", "at"]
    assert inner["named"] is False and named["named"] is True
    assert (inner["kind"], inner["nbytes"], inner["session"]) == ("buffer", 64, session["id"])
    assert named["kind"] == "view" and named["reason"] is None and named["at"].endswith("Z")
    assert events[session["id"]]["kind"] == "session"
    client.delete(f"/v1/sessions/{session['id']}")
    assert stream.of({session["id"], mask["id"], mask["buffer"]}, 5) == [
        ("deleted", session["id"], "deleted"), ("deleted", mask["id"], "session_ended"),
        ("freed", mask["id"], None), ("freed", mask["buffer"], None), ("freed", session["id"], None)]


def test_the_end_of_a_lease_is_an_event(client, listen):
    stream = listen()
    buffer = client.post("/v1/buffers", {"nbytes": 8, "ttl_seconds": 1})
    assert stream.of({buffer["id"]}, 3) == [
        ("created", buffer["id"], None), ("expired", buffer["id"], "lease_expired"), ("freed", buffer["id"], None)]


def test_a_request_that_fails_for_want_of_room_is_an_event(own_daemon):
    small = own_daemon("--max-handles", "1")
    stream = Stream(small.url)
    small.client.post("/v1/buffers", {"nbytes": 8})
    problem = small.client.refused("POST", "/v1/buffers", 429, "quota_exceeded", json={"nbytes": 8})
    small.client.refused("POST", "/v1/buffers", 422, "value_error", json={"nbytes": -8})
    small.client.refused("POST", "/v1/buffers", 429, "quota_exceeded", json={"nbytes": 8})
    assert stream.next()[0] == "created"
    name, data = stream.next()
    assert name == "failed" and list(data) == ["operation", "status", "code", "request_id", "at"]
    assert (data["operation"], data["status"], data["code"]) == ("createBuffer", 429, "quota_exceeded")
    assert data["request_id"] == problem["request_id"]
    assert stream.next()[1]["code"] == "quota_exceeded", "what is only wrong is no event"
    stream.close()


def test_a_client_goes_on_behind_its_last_event(client, listen):
    first = listen()
    buffers = [client.post("/v1/buffers", {"nbytes": 8})["id"] for _ in range(6)]
    for buffer in buffers[:2]:
        assert first.of({buffer}, 1)
    second = listen(**{"Last-Event-ID": first.last_id})
    assert [event[1] for event in second.of(set(buffers), 4)] == buffers[2:]


def test_an_id_of_another_life_is_told_as_a_gap(listen):
    stream = listen(**{"Last-Event-ID": "0123456789abcdef-5"})
    assert stream.next()[0] == "missed"


def test_who_comes_late_is_told_how_many_were_missed(client, listen):
    first = listen()
    buffer = client.post("/v1/buffers", {"nbytes": 8})
    first.of({buffer["id"]}, 1)
    first.close()
    view = client.post(f"/v1/buffers/{buffer['id']}/views", {"typestr": "|u1", "shape": [8]})
    client.batch([operation for n in range(0, 6000, 2) for operation in (
        {"method": "POST", "path": f"/v1/views/{view['id']}/byte_slice", "body": {}},
        {"method": "DELETE", "path": f"/v1/views/${n % 1000}.id"})])
    second = listen(**{"Last-Event-ID": first.last_id})
    name, data = second.next()
    assert name == "missed"
    assert 0 <= data["count"] - (1 + 3 * 3000 - 8192) < 100, "sessions of other tests may end meanwhile"


@pytest.mark.parametrize("bad", ["", "5", "x" * 200, "0123456789ABCDEF-1"])
def test_ids_that_no_event_has(client, bad):
    problem = client.refused("GET", "/v1/events", 400, "request_malformed", headers={"Last-Event-ID": bad})
    assert problem["parameter"] == "Last-Event-ID"


def test_streams_are_limited_and_places_come_back(own_daemon, wait_until):
    one = own_daemon("--threads", "1")
    streams = [Stream(one.url) for _ in range(64)]
    problem = one.client.refused("GET", "/v1/events", 503, "overloaded")
    assert "64" in problem["detail"]
    for stream in streams:
        stream.close()

    def accepted():
        one.client.delete_all()
        one.client.post("/v1/buffers", {"nbytes": 8})
        with requests.get(one.url + "/v1/events", stream=True, timeout=PATIENCE) as answer:
            return answer.status_code == 200

    wait_until(accepted)


def test_a_stopping_daemon_ends_its_streams(own_daemon):
    mine = own_daemon("--drain-timeout", "600")
    stream = Stream(mine.url)
    mine.stop()
    with pytest.raises(EOFError):
        stream.next()


def test_head_of_the_stream(client):
    answer = client.call("HEAD", "/v1/events", expect=200)
    assert answer.headers["Content-Type"] == "text/event-stream"
    client.refused("POST", "/v1/events", 405, "method_not_allowed")


def test_head_has_a_head_and_nothing_behind_it(daemon):
    head = b"HEAD /v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
    content = daemon.raw(head)
    assert content.startswith(b"HTTP/1.1 200 ") and content.endswith(b"\r\n\r\n")
    assert content.count(b"\r\n\r\n") == 1, content
