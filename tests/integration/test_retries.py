# SPDX-License-Identifier: Apache-2.0
"""Idempotency-Key: the same request again is answered again and makes nothing; and what keys cannot be."""

import concurrent.futures
import itertools

import numpy
import pytest

from conftest import Client

COUNTER = itertools.count()


@pytest.fixture
def key():
    return f"key-{next(COUNTER)}"


def keyed(key, **more):
    return {"Idempotency-Key": key, **more}


@pytest.mark.parametrize("path, body", [
    ("/v1/buffers", {"nbytes": 64, "label": "once"}),
    ("/v1/kernels/create_null_mask", {"size": 8, "state": "ALL_VALID"}),
    ("/v1/kernels/create_null_mask", {"size": 200000000, "state": "ALL_VALID"}),  # on the bulk lane
    ("/v1/sessions", {"ttl_seconds": 5})])
def test_the_same_request_makes_one_thing(client, key, path, body):
    first = client.call("POST", path, expect=201, json=body, headers=keyed(key))
    assert "Idempotency-Replayed" not in first.headers
    with client.unchanged():
        for _ in range(2):
            again = client.call("POST", path, expect=201, json=body, headers=keyed(key))
            assert again.headers["Idempotency-Replayed"] == "true"
            assert again.content == first.content
            assert again.headers.get("Location") == first.headers.get("Location")
            assert again.headers["X-Request-Id"] != first.headers["X-Request-Id"]


def test_without_a_key_each_request_makes_its_own(client):
    assert client.post("/v1/buffers", {"nbytes": 8})["id"] != client.post("/v1/buffers", {"nbytes": 8})["id"]


def test_an_answer_is_given_again_though_what_it_made_is_gone(client, key):
    first = client.post("/v1/buffers", {"nbytes": 8}, headers=keyed(key))
    client.delete(f"/v1/buffers/{first['id']}")
    assert client.post("/v1/buffers", {"nbytes": 8}, headers=keyed(key)) == first


def test_release_can_be_sent_again(client, key):
    column = client.column(numpy.arange(4, dtype="<i4"))
    table = client.post("/v1/tables", {"columns": [column["id"]]})
    packed = client.post(f"/v1/tables/{table['id']}/pack")
    path = f"/v1/packed/{packed['id']}/release"
    first = client.post(path, expect=200, headers=keyed(key))
    assert client.post(path, expect=200, headers=keyed(key)) == first
    client.refused("POST", path, 409, "already_released", json={})


def test_another_request_with_the_key_is_refused(client, key):
    view = client.view(numpy.arange(8, dtype="u1"))
    client.post(f"/v1/views/{view['id']}/byte_slice", {"start": 1}, headers=keyed(key))
    session = client.post("/v1/sessions")
    with client.unchanged():
        for path, body, more in ((f"/v1/views/{view['id']}/byte_slice", {"start": 2}, {}),
                                 (f"/v1/views/{view['id']}/copy", {"start": 1}, {}),
                                 ("/v1/buffers", {"nbytes": 8}, {}),
                                 (f"/v1/views/{view['id']}/byte_slice", {"start": 1}, {"Gmv-Session": session["id"]})):
            problem = client.refused("POST", path, 422, "idempotency_mismatch", json=body, headers=keyed(key, **more))
            assert problem["parameter"] == "Idempotency-Key"
    client.delete(f"/v1/sessions/{session['id']}")


def test_a_request_that_failed_may_be_put_right_with_its_key(client, key):
    client.refused("POST", "/v1/buffers", 422, "value_error", json={"nbytes": -1}, headers=keyed(key))
    client.refused("POST", "/v1/buffers", 422, "value_error", json={"nbytes": -1}, headers=keyed(key))
    made = client.post("/v1/buffers", {"nbytes": 1}, headers=keyed(key))
    assert client.post("/v1/buffers", {"nbytes": 1}, headers=keyed(key)) == made


@pytest.mark.parametrize("bad", ["", "x" * 129, "a b", "caf\xe9"])
def test_keys_that_cannot_be(client, bad):
    with client.unchanged():
        problem = client.refused("POST", "/v1/buffers", 400, "request_malformed", json={"nbytes": 8},
                                 headers={"Idempotency-Key": bad.encode("latin-1")})
        assert problem["parameter"] == "Idempotency-Key"


def test_the_longest_key(client, key):
    longest = key.ljust(128, "~")
    first = client.post("/v1/buffers", {"nbytes": 8}, headers=keyed(longest))
    assert client.post("/v1/buffers", {"nbytes": 8}, headers=keyed(longest)) == first
    other = client.post("/v1/buffers", {"nbytes": 8}, headers=keyed(longest[:-1]))
    assert other["id"] != first["id"]


def test_a_key_means_nothing_where_nothing_is_posted_as_json(client, key):
    for _ in range(2):
        answer = client.call("GET", "/v1/handles", expect=200, headers=keyed("not a key"))
        assert "Idempotency-Replayed" not in answer.headers
    ids = {client.call("POST", "/v1/buffers/upload", expect=201, data=b"x", headers={
        "Content-Type": "application/octet-stream", **keyed(key)}).json()["id"] for _ in range(2)}
    assert len(ids) == 2


def test_many_at_once_make_one(daemon, client, key):
    """Every answer is the first one's, or says that it still runs."""

    def send(_):
        mine = Client(daemon.url)
        answer = mine.call("POST", "/v1/kernels/create_null_mask", json={"size": 4096}, headers=keyed(key))
        mine.http.close()
        return answer

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(send, range(40)))
    made = {answer.json()["mask"]["id"] for answer in answers if answer.status_code == 201}
    assert len(made) == 1
    for answer in answers:
        assert answer.status_code == 201 or answer.json()["code"] == "idempotency_in_flight"
    fresh = [a for a in answers if a.status_code == 201 and "Idempotency-Replayed" not in a.headers]
    assert len(fresh) == 1
    assert len([handle for handle in client.handles() if handle["named"]]) == 1
