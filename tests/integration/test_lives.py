# SPDX-License-Identifier: Apache-2.0
"""Lives that end by themselves: leases, sessions, and what a request hears whose session is over."""

import concurrent.futures
import datetime
import re
import threading
import time

import numpy
import pytest

from conftest import Client, cai


def when(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))


def info(client, handle):
    return client.get(f"/v1/handles/{handle['id']}")


def gone(client, handle, reason, collection="buffers"):
    problem = client.refused("GET", f"/v1/{collection}/{handle['id']}", 410, "handle_deleted")
    assert problem["reason"] == reason and problem["id"] == handle["id"]
    return problem


def bearing(session):
    return {"headers": {"Gmv-Session": session["id"]}}


def metric(client, name):
    text = client.call("GET", "/metrics", expect=200).text
    return float(re.search(rf"^gmvd_{name} (\S+)$", text, re.MULTILINE).group(1))


@pytest.fixture
def session(client):
    made = client.post("/v1/sessions", {"ttl_seconds": 600})
    yield made
    client.call("DELETE", f"/v1/sessions/{made['id']}")


COLLECTIONS = {"buffer": "buffers", "view": "views", "column": "columns", "table": "tables", "packed": "packed"}


# ---- leases


def test_a_leased_handle_ends_by_itself(client, wait_until):
    before = metric(client, "leases_expired_total")
    buffer = client.post("/v1/buffers", {"nbytes": 64, "ttl_seconds": 600})
    assert 599.9 <= (when(info(client, buffer)["expires_at"]) - when(buffer["created_at"])).total_seconds() <= 601
    client.post(f"/v1/handles/{buffer['id']}/lease", {"ttl_seconds": 1}, expect=200)
    wait_until(lambda: client.call("GET", f"/v1/buffers/{buffer['id']}").status_code == 410)
    wait_until(lambda: client.registered() == 0)
    assert gone(client, buffer, "lease_expired")["alive"] is False
    client.refused("DELETE", f"/v1/buffers/{buffer['id']}", 410, "handle_deleted")
    client.refused("POST", f"/v1/handles/{buffer['id']}/lease", 410, "handle_deleted", json={"ttl_seconds": 9})
    assert metric(client, "leases_expired_total") >= before + 1
    assert metric(client, "reaper_lag_seconds") < 60


def test_the_end_of_a_lease_is_a_delete_that_keeps(client, wait_until):
    buffer = client.upload(b"contents", ttl_seconds=600)
    view = client.post("/v1/views", {"cuda_array_interface": cai(buffer["ptr"], [8], "|u1")})
    client.post(f"/v1/handles/{buffer['id']}/lease", {"ttl_seconds": 1}, expect=200)
    wait_until(lambda: client.call("GET", f"/v1/buffers/{buffer['id']}").status_code == 410)
    assert gone(client, buffer, "lease_expired")["alive"] is True
    assert client.data(view["id"]) == b"contents"
    listed = {handle["id"]: handle for handle in client.handles()}
    assert listed[buffer["id"]]["deleted"] and not listed[buffer["id"]]["named"]
    assert info(client, buffer)["reason"] == "lease_expired"
    assert view["id"] in client.delete(f"/v1/views/{view['id']}")["freed"]
    # Look-ups tell the end of a lease at once; the name itself goes a moment later, and the buffer with the last of the two.
    wait_until(lambda: client.call("GET", f"/v1/handles/{buffer['id']}").status_code == 410)


def test_a_lease_is_renewed_made_permanent_and_shown(client):
    buffer = client.post("/v1/buffers", {"nbytes": 8})
    assert info(client, buffer)["expires_at"] is None
    lease = f"/v1/handles/{buffer['id']}/lease"
    leased = client.post(lease, {"ttl_seconds": 31536000}, expect=200)
    assert leased["id"] == buffer["id"]
    days = (when(leased["expires_at"]) - when(buffer["created_at"])).days
    assert 364 <= days <= 365
    shown = next(handle for handle in client.handles() if handle["id"] == buffer["id"])
    assert shown["expires_at"] == leased["expires_at"] and shown["session"] is None
    shorter = client.post(lease, {"ttl_seconds": 60}, expect=200)
    assert when(shorter["expires_at"]) < when(leased["expires_at"])
    for body in ({"ttl_seconds": None}, {}):
        assert client.post(lease, body, expect=200)["expires_at"] is None
    answer = client.call("POST", lease, expect=200)
    assert answer.json()["expires_at"] is None


@pytest.mark.parametrize("value, code", [(0, "value_error"), (-1, "value_error"), (31536001, "value_error"),
                                         (2**63, "value_error"), (1.5, "type_error"), (True, "type_error"),
                                         ("60", "type_error"), ([], "type_error")])
def test_lengths_that_no_lease_has(client, value, code):
    buffer = client.post("/v1/buffers", {"nbytes": 8})
    view = client.view(numpy.arange(4, dtype="u1"))
    with client.unchanged():
        for path, body in ((f"/v1/handles/{buffer['id']}/lease", {}), ("/v1/buffers", {"nbytes": 8}),
                           (f"/v1/views/{view['id']}/byte_slice", {}), ("/v1/kernels/create_null_mask", {"size": 8}),
                           (f"/v1/views/{view['id']}/copy", {})):
            client.refused("POST", path, 422, code, "/ttl_seconds", json={**body, "ttl_seconds": value})


@pytest.mark.parametrize("value", ["0", "-1", "31536001", "x", "", "1.5"])
def test_lengths_in_a_query(client, value):
    problem = client.refused("POST", "/v1/buffers/upload", 400, "request_malformed", params={"ttl_seconds": value},
                             data=b"x", headers={"Content-Type": "application/octet-stream"})
    assert problem["parameter"] == "ttl_seconds"


def test_the_type_of_a_lease_is_judged_before_other_values(client):
    client.refused("POST", "/v1/buffers", 422, "type_error", "/ttl_seconds", json={"nbytes": -1, "ttl_seconds": "1"})


def test_calls_that_make_nothing_take_no_lease(client):
    view = client.view(numpy.arange(8, dtype="u1"))
    body = {"bitmask": view["id"], "begin_bit": 0, "end_bit": 8, "ttl_seconds": 5}
    client.refused("POST", "/v1/kernels/null_count", 422, "value_error", "/ttl_seconds", json=body)


def test_every_creating_call_gives_leases_to_what_it_names(client):
    array = numpy.array([1, 2, 3, 4], "<f4")
    view = client.view(array)
    flags = client.view(numpy.array([True, False, True]))
    column = client.column(numpy.arange(4, dtype="<i4"))
    table = client.post("/v1/tables", {"columns": [column["id"]]})
    packed = client.post(f"/v1/tables/{table['id']}/pack")
    made = []

    def make(path, body):
        made.append(client.post(path, {**body, "ttl_seconds": 3000}))
        return made[-1]

    buffer = make("/v1/buffers", {"nbytes": 64})
    make(f"/v1/buffers/{buffer['id']}/views", {"typestr": "<f4", "shape": [4]})
    make("/v1/views", {"cuda_array_interface": cai(view["ptr"], [4], "<f4")})
    make(f"/v1/views/{view['id']}/byte_slice", {})
    make(f"/v1/views/{view['id']}/copy", {})
    make("/v1/columns", {"type": {"name": "FLOAT32"}, "size": 4, "data": view["id"]})
    make("/v1/columns/from_view", {"view": view["id"]})
    make("/v1/tables", {"columns": [column["id"]]})
    make(f"/v1/tables/{table['id']}/pack", {})
    make(f"/v1/packed/{packed['id']}/unpack", {})
    make("/v1/packed/unpack_from_memoryviews", {"metadata": packed["metadata"], "gpu_data": packed["gpu_data"]})
    made.append(make("/v1/kernels/nans_to_nulls", {"input": view["id"]})["mask"])
    made.append(make("/v1/kernels/bools_to_mask", {"input": flags["id"]})["mask"])
    made.append(make("/v1/kernels/column_nans_to_nulls", {"input": view["id"]})["column"])
    made.append(make("/v1/kernels/create_null_mask", {"size": 8, "state": "ALL_VALID"})["mask"])
    made.append(client.upload(b"1", ttl_seconds=3000))
    made += make(f"/v1/tables/{table['id']}/contiguous_split", {"splits": [2]})["items"]
    handles = [handle for handle in made if "id" in handle]
    assert len(handles) == 18
    for handle in handles:
        seen = info(client, handle)
        assert seen["expires_at"] is not None, handle
        assert handle["expires_at"] == seen["expires_at"]
        assert client.get(f"/v1/{COLLECTIONS[handle['kind']]}/{handle['id']}")["expires_at"] == seen["expires_at"]
        if handle["owners"]:
            inner = [owner for owner in handle["owners"] if not client.get(f"/v1/handles/{owner}")["named"]]
            assert all(client.get(f"/v1/handles/{owner}")["expires_at"] is None for owner in inner)


def test_a_description_is_new_to_caches_when_its_lease_is(client):
    buffer = client.post("/v1/buffers", {"nbytes": 8})
    view = client.post(f"/v1/buffers/{buffer['id']}/views", {"typestr": "<i4", "shape": [2]})
    path, lease = f"/v1/views/{view['id']}", f"/v1/handles/{view['id']}/lease"
    tags = []
    for seconds in (None, 600, 700, None):
        expires_at = client.post(lease, {"ttl_seconds": seconds}, expect=200)["expires_at"]
        answer = client.call("GET", path, expect=200, headers={"If-None-Match": tags[-1]} if tags else {})
        assert answer.json() == {**view, "expires_at": expires_at}
        tags.append(answer.headers["ETag"])
        assert client.call("GET", path, headers={"If-None-Match": tags[-1]}).status_code == 304
    assert tags[0] == tags[3] and len(set(tags)) == 3


def test_inner_handles_have_no_lease(client):
    mask = client.post("/v1/kernels/create_null_mask", {"size": 8, "state": "ALL_VALID", "ttl_seconds": 100})["mask"]
    assert mask["expires_at"] is not None and client.get(f"/v1/buffers/{mask['buffer']}")["expires_at"] is None
    client.refused("POST", f"/v1/handles/{mask['buffer']}/lease", 409, "handle_inner", json={"ttl_seconds": 5})


def test_leases_of_what_is_no_handle(client, session):
    for name in ("nothing", "buf_00000000000000000000000000", session["id"]):
        client.refused("POST", f"/v1/handles/{name}/lease", 404, "handle_unknown", json={"ttl_seconds": 5})
    client.refused("GET", f"/v1/handles/{session['id']}", 404, "handle_unknown")


def test_a_released_view_takes_over_the_lease(client):
    column = client.column(numpy.arange(4, dtype="<i4"))
    table = client.post("/v1/tables", {"columns": [column["id"]]})
    packed = client.post(f"/v1/tables/{table['id']}/pack", {"ttl_seconds": 500})
    view = client.post(f"/v1/packed/{packed['id']}/release", expect=200)["gpu_data"]
    assert info(client, view)["expires_at"] == info(client, packed)["expires_at"] is not None


# ---- sessions


def test_a_session_lives_and_is_shown(client):
    made = client.post("/v1/sessions", {"ttl_seconds": 300, "bind": None, "label": "etl"})
    assert list(made) == ["id", "label", "ttl_seconds", "bind", "created_at", "expires_at", "handles"]
    assert re.fullmatch(r"ses_[0-9a-z]{26}", made["id"])
    assert made["label"] == "etl" and made["ttl_seconds"] == 300 and made["bind"] is None and made["handles"] == 0
    assert 299 <= (when(made["expires_at"]) - when(made["created_at"])).total_seconds() <= 301
    path = f"/v1/sessions/{made['id']}"
    assert client.get(path) == made
    listed = client.get("/v1/sessions")
    assert made in listed["items"] and listed["next_cursor"] is None
    assert metric(client, "sessions") >= 1
    answer = client.delete(path)
    assert answer == {"id": made["id"], "alive": False, "deleted": 0, "freed": [], "freed_count": 0, "freed_nbytes": 0,
                      "kept_alive_by": [], "kept_alive_by_count": 0, "in_flight": 0}
    for method in ("GET", "DELETE"):
        problem = client.refused(method, path, 410, "handle_deleted")
        assert problem["reason"] == "deleted"
    assert made["id"] not in [item["id"] for item in client.get("/v1/sessions")["items"]]


def test_defaults_and_location_of_a_session(client):
    answer = client.call("POST", "/v1/sessions", expect=201)
    made = answer.json()
    assert made["ttl_seconds"] == 300 and made["label"] is None
    assert answer.headers["Location"] == f"/v1/sessions/{made['id']}"
    client.delete(answer.headers["Location"])


@pytest.mark.parametrize("body, code, pointer", [
    ({"ttl_seconds": 0}, "value_error", "/ttl_seconds"), ({"ttl_seconds": 86401}, "value_error", "/ttl_seconds"),
    ({"ttl_seconds": "5"}, "type_error", "/ttl_seconds"), ({"label": "x" * 257}, "value_error", "/label"),
    ({"bind": "connection"}, "value_error", "/bind"), ({"bind": "process"}, "value_error", "/bind"),
    ({"bind": "thread"}, "value_error", "/bind"), ({"bind": 1}, "type_error", "/bind"),
    ({"expires": 1}, "value_error", "/expires")])
def test_sessions_that_cannot_be(client, body, code, pointer):
    before = metric(client, "sessions")
    client.refused("POST", "/v1/sessions", 422, code, pointer, json=body)
    assert metric(client, "sessions") == before


def test_a_session_owns_what_is_made_with_it_and_takes_it_along(client):
    made = client.post("/v1/sessions", {"ttl_seconds": 600})
    with_it = bearing(made)
    buffer = client.post("/v1/buffers", {"nbytes": 40}, **with_it)
    view = client.post("/v1/views", {"cuda_array_interface": cai(buffer["ptr"], [10], "<f4")}, **with_it)
    mask = client.post("/v1/kernels/nans_to_nulls", {"input": view["id"]}, **with_it)["mask"]
    loose = client.post(f"/v1/views/{view['id']}/byte_slice", {"start": 4})
    assert info(client, buffer)["session"] == made["id"] and info(client, loose)["session"] is None
    assert info(client, {"id": mask["buffer"]})["session"] == made["id"]
    assert client.get(f"/v1/sessions/{made['id']}")["handles"] == 3
    page = client.get("/v1/handles", params={"session": made["id"]})
    assert [item["id"] for item in page["items"]] == [buffer["id"], view["id"], mask["id"]]
    assert client.get("/v1/handles", params={"session": "ses_" + "0" * 26})["items"] == []
    client.delete(f"/v1/views/{mask['id']}")
    assert client.get(f"/v1/sessions/{made['id']}")["handles"] == 2
    ended = client.delete(f"/v1/sessions/{made['id']}")
    assert ended["deleted"] == 2 and ended["alive"] is True and ended["freed"] == []
    assert ended["kept_alive_by"] == [loose["id"]] and ended["kept_alive_by_count"] == 1
    assert gone(client, buffer, "session_ended")["alive"] and gone(client, view, "session_ended", "views")["alive"]
    assert client.get("/v1/handles", params={"session": made["id"]})["items"] == []
    assert client.data(loose["id"]) == bytes(36)
    freed = client.delete(f"/v1/views/{loose['id']}")
    assert freed["freed"] == [loose["id"], view["id"], buffer["id"]] and freed["freed_nbytes"] == 40


def test_the_end_of_a_session_frees_inner_parts_too(client):
    made = client.post("/v1/sessions")
    for _ in range(3):
        client.post("/v1/kernels/create_null_mask", {"size": 8, "state": "ALL_VALID"}, **bearing(made))
    ended = client.delete(f"/v1/sessions/{made['id']}", **bearing(made))
    assert (ended["deleted"], ended["freed_count"], ended["freed_nbytes"]) == (3, 6, 192)
    assert ended["alive"] is False and ended["in_flight"] == 0
    assert client.registered() == 0


@pytest.mark.parametrize("method, path, options", [
    ("POST", "/v1/buffers", {"json": {"nbytes": 8}}),
    ("POST", "/v1/buffers/upload", {"data": b"x" * 9, "headers": {"Content-Type": "application/octet-stream"}}),
    ("POST", "/v1/buffers/upload", {"data": bytes(3 << 20), "headers": {"Content-Type": "application/octet-stream"}}),
    ("POST", "/v1/kernels/create_null_mask", {"json": {"size": 8}}),
    ("POST", "/v1/sessions", {"json": {}}),
    ("POST", "/v1/buffers", {"json": {"nbytes": "not judged yet"}}),
    ("GET", "/v1/handles", {}), ("GET", "/v1/server", {}), ("GET", "/v1/sessions", {}),
    ("DELETE", "/v1/buffers/buf_00000000000000000000000000", {})])
def test_a_session_that_is_over_or_never_was_makes_nothing(client, method, path, options):
    ended = client.post("/v1/sessions")
    client.delete(f"/v1/sessions/{ended['id']}")
    view = client.view(numpy.arange(3, dtype="u1"))
    with client.unchanged():
        for name, status, code in ((ended["id"], 410, "handle_deleted"), ("ses_" + "0" * 26, 404, "handle_unknown"),
                                   ("nonsense", 404, "handle_unknown"), (view["id"], 404, "handle_unknown")):
            headers = {**options.get("headers", {}), "Gmv-Session": name}
            problem = client.refused(method, path, status, code, **{**options, "headers": headers})
            assert problem["parameter"] == "Gmv-Session"


def test_probes_and_documents_do_not_ask_for_the_session(client):
    for path in ("/livez", "/readyz", "/metrics", "/openapi.json"):
        client.call("GET", path, expect=200, headers={"Gmv-Session": "ses_" + "0" * 26})


def test_a_request_bears_one_session(daemon):
    answer = daemon.raw(b"GET /v1/server HTTP/1.1\r\nHost: localhost\r\nGmv-Session: ses_1\r\nGmv-Session: ses_2\r\n"
                        b"Connection: close\r\n\r\n")
    assert b" 400 " in answer.split(b"\r\n")[0] and b"Gmv-Session" in answer


def test_any_request_that_bears_a_session_renews_it(client):
    made = client.post("/v1/sessions", {"ttl_seconds": 600})
    first = when(made["expires_at"])
    for method, path, options in (("GET", "/v1/server", {}), ("GET", "/v1/buffers/none", {}),
                                  ("POST", "/v1/buffers", {"json": {"nbytes": "x"}}), ("HEAD", "/v1/handles", {})):
        time.sleep(0.01)
        client.call(method, path, headers={"Gmv-Session": made["id"]}, **options)
        renewed = when(client.get(f"/v1/sessions/{made['id']}")["expires_at"])
        assert renewed > first
        first = renewed
    time.sleep(0.01)
    assert when(client.get(f"/v1/sessions/{made['id']}")["expires_at"]) == first, "looking renews nothing"
    client.delete(f"/v1/sessions/{made['id']}")


def test_a_session_that_nobody_bears_ends_with_its_handles(client, wait_until):
    while True:
        made = client.post("/v1/sessions", {"ttl_seconds": 1})
        answer = client.call("POST", "/v1/buffers", json={"nbytes": 4096}, **bearing(made))
        if answer.status_code != 410:  # on a busy machine a second may pass between the two calls
            break
    buffer = answer.json()
    wait_until(lambda: client.call("GET", f"/v1/sessions/{made['id']}").status_code == 410)
    assert client.refused("GET", f"/v1/sessions/{made['id']}", 410, "handle_deleted")["reason"] == "lease_expired"
    gone(client, buffer, "session_ended")
    wait_until(lambda: client.registered() == 0)
    assert gone(client, buffer, "session_ended")["alive"] is False


def test_lists_of_sessions_go_in_pages(client):
    made = [client.post("/v1/sessions", {"label": f"{i}"}) for i in range(7)]
    found, cursor = [], None
    while True:
        page = client.get("/v1/sessions", params={"limit": 3, **({"cursor": cursor} if cursor else {})})
        found += page["items"]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert [item["id"] for item in found if item["id"] in {m["id"] for m in made}] == [m["id"] for m in made]
    handles = client.get("/v1/handles", params={"limit": 1})["next_cursor"]
    for text in ("junk", "0" * 32, *([handles] if handles else [])):
        client.refused("GET", "/v1/sessions", 400, "request_malformed", params={"cursor": text})
    for one in made:
        client.delete(f"/v1/sessions/{one['id']}")


def test_sessions_end_while_many_requests_bear_them(daemon, client):
    """Whatever the order: 201, 404 or 410, and nothing of an ended session is left."""
    statuses = set()

    def work(number):
        mine = Client(daemon.url)
        for round_number in range(12):
            with lock:
                bearer = current[0]
            body = {"nbytes": 512} if number % 2 else {"size": 64, "state": "ALL_VALID"}
            path = "/v1/buffers" if number % 2 else "/v1/kernels/create_null_mask"
            statuses.add(mine.call("POST", path, json=body, headers={"Gmv-Session": bearer["id"]}).status_code)
        mine.http.close()

    lock, current = threading.Lock(), [client.post("/v1/sessions")]
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        running = [pool.submit(work, number) for number in range(6)]
        while not all(one.done() for one in running):
            following = client.post("/v1/sessions")
            with lock:
                ended, current[0] = current[0], following
            client.delete(f"/v1/sessions/{ended['id']}")
        for one in running:
            one.result()
    client.delete(f"/v1/sessions/{current[0]['id']}")
    assert statuses <= {201, 410}
    assert client.handles() == [] and client.registered() == 0
