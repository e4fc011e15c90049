# SPDX-License-Identifier: Apache-2.0
"""POST /v1/batch: references, all or none, each alone, and what cannot be part of one."""

import numpy
import pytest

from conftest import cai


def post(path, **body):
    return {"method": "POST", "path": path, "body": body}


def delete(path):
    return {"method": "DELETE", "path": path}


def run(client, *operations, expect=200, **members):
    return client.post("/v1/batch", {"operations": list(operations), **members}, expect=expect)["results"]


def refused(client, status, code, pointer, *operations, operation=None, **members):
    with client.unchanged():
        problem = client.refused("POST", "/v1/batch", status, code, pointer, json={"operations": list(operations), **members})
    assert problem.get("operation") == operation
    return problem


def test_a_table_in_one_round_trip(client):
    buffer = client.upload(numpy.array([1.5, numpy.nan, 3.0, 4.0], "<f4"))
    results = run(
        client,
        post("/v1/views", cuda_array_interface=cai(buffer["ptr"], [4], "<f4")),
        post("/v1/kernels/nans_to_nulls", input="$0.id"),
        post("/v1/columns", type={"name": "FLOAT32"}, size=4, data="$0.id", null_mask="$1.mask.id"),
        post("/v1/tables", columns=["$2.id"], label="$$2.id"),
        post("/v1/tables/$3.id/contiguous_split", splits=[1, 3]),
        post("/v1/packed/$4.items.1.id/unpack"),
        delete("/v1/views/$0.id"))
    assert [result["status"] for result in results] == [201, 201, 201, 201, 201, 201, 200]
    table = results[3]["body"]
    assert table["label"] == "$2.id" and table["columns"] == [results[2]["body"]["id"]]
    assert client.get(f"/v1/tables/{table['id']}") == table
    unpacked = results[5]["body"]
    assert client.get(f"/v1/columns/{unpacked['columns'][0]}/values")["values"] == [None, 3.0]
    deleted = results[6]["body"]
    assert deleted["id"] == results[0]["body"]["id"] and deleted["in_flight"] == 0 and deleted["alive"] is True
    assert results[2]["body"]["id"] in deleted["kept_alive_by"]


def test_numbers_and_lists_can_be_referred_to(client):
    view = client.view(numpy.arange(12, dtype="u1"))
    results = run(client, post(f"/v1/views/{view['id']}/byte_slice", start=4),
                  post("/v1/kernels/bitmask_allocation_size_bytes", number_of_bits="$0.nbytes"),
                  post(f"/v1/buffers/{view['buffer']}/views", typestr="$0.typestr", shape="$0.shape", offset="$0.offset"))
    assert results[1]["body"] == {"nbytes": 64}
    assert results[2]["body"]["shape"] == [8] and results[2]["body"]["offset"] == 4


@pytest.mark.parametrize("reference", [
    "$", "$0", "$0.", "$.id", "$x.id", "$-1.id", "$00.id", "$1.id", "$2.id", "$9.id", "$0.none", "$0.id.id", "$0.owners.0",
    "$0.shape.x", "$0.shape.-1", "$0.shape.00", "$99999999999999999999.id", "$0." + "x" * 100, "$0.id."])
def test_references_that_lead_nowhere(client, reference):
    view = client.view(numpy.arange(4, dtype="u1"))
    first = post(f"/v1/views/{view['id']}/byte_slice")
    if reference == "$0.owners.0":
        reference = "$0.owners.1"
    refused(client, 422, "value_error", "/operations/1/body/input", first,
            post("/v1/kernels/nans_to_nulls", input=reference), operation=1)
    refused(client, 422, "value_error", "/operations/1/path", first, post(f"/v1/views/{reference}/byte_slice"), operation=1)


def test_a_path_takes_strings_only(client):
    view = client.view(numpy.arange(4, dtype="u1"))
    refused(client, 422, "value_error", "/operations/1/path", post(f"/v1/views/{view['id']}/byte_slice"),
            post("/v1/views/$0.nbytes/byte_slice"), operation=1)


def test_all_or_none(client):
    view = client.view(numpy.arange(16, dtype="u1"))
    problem = refused(
        client, 422, "value_error", "/operations/3/body/step",
        post("/v1/buffers", nbytes=1 << 20), post(f"/v1/views/{view['id']}/byte_slice", start=1),
        post("/v1/kernels/create_null_mask", size=100), post("/v1/views/$1.id/byte_slice", step=2),
        delete(f"/v1/views/{view['id']}"), operation=3)
    assert problem["status"] == 422
    assert client.get(f"/v1/views/{view['id']}") == view


def test_deletes_come_last_and_none_is_carried_out_when_one_cannot_be(client):
    view = client.view(numpy.arange(16, dtype="u1"))
    gone = client.post("/v1/buffers", {"nbytes": 8})
    client.delete(f"/v1/buffers/{gone['id']}")
    mask = client.post("/v1/kernels/create_null_mask", {"size": 8})["mask"]
    for path, status, code in ((f"/v1/buffers/{gone['id']}", 410, "handle_deleted"),
                               ("/v1/buffers/buf_00000000000000000000000000", 404, "handle_unknown"),
                               ("/v1/buffers/nothing", 404, "handle_unknown"),
                               (f"/v1/buffers/{view['id']}", 404, "handle_unknown"),
                               (f"/v1/buffers/{mask['buffer']}", 409, "handle_inner"),
                               (f"/v1/views/{view['id']}", 410, "handle_deleted")):
        refused(client, status, code, "/operations/2", delete(f"/v1/views/{view['id']}"), post("/v1/buffers", nbytes=8),
                delete(path), operation=2)
    refused(client, 422, "value_error", "/operations/0", delete(f"/v1/views/{view['id']}?if_held=refuse"), operation=0)
    results = run(client, delete(f"/v1/views/{view['id']}"), post(f"/v1/views/{view['id']}/byte_slice", start=8),
                  delete(f"/v1/buffers/{view['buffer']}?if_held=keep"))
    assert [result["status"] for result in results] == [200, 201, 200]
    assert client.data(results[1]["body"]["id"]) == bytes(range(8, 16))
    assert results[0]["body"]["kept_alive_by"] == [results[1]["body"]["id"]]


def test_a_cascade_in_a_batch(client):
    view = client.view(numpy.arange(16, dtype="u1"))
    results = run(client, post(f"/v1/views/{view['id']}/byte_slice"), delete(f"/v1/buffers/{view['buffer']}?if_held=cascade"))
    assert results[1]["body"]["deleted"] == 3 and results[1]["body"]["alive"] is False
    assert client.registered() == 0


def test_each_alone(client):
    view = client.view(numpy.arange(16, dtype="u1"))
    results = run(
        client, post(f"/v1/views/{view['id']}/byte_slice", start=1), post("/v1/nothing"),
        post(f"/v1/views/{view['id']}/byte_slice", step=2), post("/v1/views/$1.id/byte_slice"),
        post("/v1/views/$0.id/byte_slice", start=2), delete("/v1/views/$0.id?if_held=refuse"), delete("/v1/views/$4.id"),
        delete("/v1/views/$0.id"), delete("/v1/views/$0.id"), post("/v1/buffers", nbytes=8, label="x" * 257),
        post("/v1/buffers?color=red", nbytes=8), atomic=False)
    assert [result["status"] for result in results] == [201, 404, 422, 422, 201, 409, 200, 200, 410, 422, 400]
    codes = [result["body"].get("code") for result in results]
    assert codes == [None, "route_unknown", "value_error", "value_error", None, "held_by_dependents", None, None,
                     "handle_deleted", "value_error", "request_malformed"]
    assert results[2]["body"]["pointer"] == "/operations/2/body/step" and results[2]["body"]["operation"] == 2
    assert results[9]["body"]["pointer"] == "/operations/9/body/label"
    assert results[10]["body"]["parameter"] == "color"
    assert results[6]["body"]["alive"] is False and results[7]["body"]["alive"] is False
    assert results[7]["body"]["in_flight"] == 0


def test_masks_are_set_and_packed_released_when_each_stands_alone(client):
    mask = client.mask("00" * 64)
    column = client.column(numpy.arange(4, dtype="<i4"))
    table = client.post("/v1/tables", {"columns": [column["id"]]})
    packed = client.post(f"/v1/tables/{table['id']}/pack")
    set_mask = post("/v1/kernels/set_null_mask", bitmask=mask["id"], begin_bit=0, end_bit=3, valid=True)
    release = post(f"/v1/packed/{packed['id']}/release")
    for operation in (set_mask, release):
        refused(client, 422, "value_error", "/operations/1/path", post("/v1/buffers", nbytes=8), operation, operation=1)
    assert client.data(mask["id"]) == bytes(64)
    results = run(client, set_mask, release, atomic=False)
    assert [result["status"] for result in results] == [200, 200]
    assert client.data(mask["id"])[0] == 7


@pytest.mark.parametrize("path", ["/v1/batch", "/v1/sessions", "/v1/buffers/import", "/v1/handles/$0.id/lease",
                                  "/v1/buffers/$0.id/export", "/v1/buffers/upload"])
def test_calls_that_no_batch_takes(client, path):
    refused(client, 422, "value_error", "/operations/1/path", post("/v1/buffers", nbytes=8), post(path), operation=1)
    results = run(client, post("/v1/buffers", nbytes=8), post(path), atomic=False)
    assert results[1]["status"] == 422 and results[1]["body"]["code"] == "value_error"


@pytest.mark.parametrize("path, status, code", [("/livez", 422, "value_error"), ("", 404, "route_unknown"),
                                                ("v1/buffers", 404, "route_unknown"), ("//", 404, "route_unknown"),
                                                ("/v1/handles", 422, "value_error"),
                                                ("http://127.0.0.1/v1/buffers", 404, "route_unknown")])
def test_paths_that_no_post_has(client, path, status, code):
    refused(client, status, code, None, post(path), operation=0)


@pytest.mark.parametrize("body, code, pointer", [
    ({}, "value_error", "/operations"), ({"operations": None}, "type_error", "/operations"),
    ({"operations": {}}, "type_error", "/operations"), ({"operations": [1]}, "type_error", "/operations/0"),
    ({"operations": [{}]}, "value_error", "/operations/0/method"),
    ({"operations": [{"method": "POST"}]}, "value_error", "/operations/0/path"),
    ({"operations": [{"method": "PUT", "path": "/"}]}, "value_error", "/operations/0/method"),
    ({"operations": [{"method": "GET", "path": "/"}]}, "value_error", "/operations/0/method"),
    ({"operations": [{"method": 1, "path": "/"}]}, "type_error", "/operations/0/method"),
    ({"operations": [{"method": "POST", "path": "/", "body": []}]}, "type_error", "/operations/0/body"),
    ({"operations": [{"method": "DELETE", "path": "/", "body": {}}]}, "value_error", "/operations/0/body"),
    ({"operations": [{"method": "POST", "path": "/", "header": 1}]}, "value_error", "/operations/0/header"),
    ({"operations": [{"method": "GET", "path": "/"}, {"method": "POST", "path": 5}]}, "type_error", "/operations/1/path"),
    ({"operations": [], "atomic": 1}, "type_error", "/atomic"), ({"operations": [], "x": 1}, "value_error", "/x"),
    ({"operations": [{"method": "POST", "path": "/"}] * 1001}, "value_error", "/operations"), ([], "type_error", "")])
def test_batches_that_cannot_be(client, body, code, pointer):
    with client.unchanged():
        client.refused("POST", "/v1/batch", 422, code, pointer, json=body)


def test_an_empty_batch_and_an_empty_body(client):
    assert run(client) == []
    client.refused("POST", "/v1/batch", 400, "json_malformed")


def test_a_thousand_operations(client):
    view = client.view(numpy.arange(16, dtype="u1"))
    slices = [post(f"/v1/views/{view['id']}/byte_slice", start=1)]
    slices += [post(f"/v1/views/${i}.id/byte_slice", start=0, label=f"{i}") for i in range(999)]
    results = run(client, *slices)
    assert len(results) == 1000 and all(result["status"] == 201 for result in results)
    assert client.data(results[-1]["body"]["id"]) == bytes(range(1, 16))


def test_leases_and_sessions_in_a_batch(client):
    session = client.post("/v1/sessions")
    answer = client.call("POST", "/v1/batch", expect=200, headers={"Gmv-Session": session["id"]}, json={"operations": [
        post("/v1/buffers", nbytes=8, ttl_seconds=500), post("/v1/buffers", nbytes=8)]}).json()["results"]
    leased, plain = (client.get(f"/v1/handles/{result['body']['id']}") for result in answer)
    assert leased["expires_at"] is not None and plain["expires_at"] is None
    assert leased["session"] == plain["session"] == session["id"]
    assert client.delete(f"/v1/sessions/{session['id']}")["deleted"] == 2


def test_a_batch_with_a_key_runs_once(client):
    body = {"operations": [post("/v1/buffers", nbytes=8)]}
    first = client.post("/v1/batch", body, expect=200, headers={"Idempotency-Key": "batch"})
    assert client.post("/v1/batch", body, expect=200, headers={"Idempotency-Key": "batch"}) == first
    assert len(client.handles()) == 1


def test_integers_of_any_length_pass_through(client):
    view = client.view(numpy.arange(4, dtype="u1"))
    results = run(client, post(f"/v1/views/{view['id']}/byte_slice", stop=10**30), post("/v1/buffers", nbytes=10**30),
                  atomic=False)
    assert results[0]["body"]["nbytes"] == 4
    assert results[1]["body"]["code"] == "value_error" and results[1]["body"]["pointer"] == "/operations/1/body/nbytes"


def test_work_on_the_device_in_a_batch(client):
    """More than the short lane takes, and a failure behind it takes all back."""
    big = client.upload(bytes(20 << 20))
    view = client.post("/v1/views", {"cuda_array_interface": cai(big["ptr"], [20 << 20], "|u1")})
    refused(client, 404, "handle_unknown", "/operations/1/body/input", post(f"/v1/views/{view['id']}/copy"),
            post("/v1/kernels/nans_to_nulls", input="view_00000000000000000000000000"), operation=1)
    results = run(client, post(f"/v1/views/{view['id']}/copy"), delete("/v1/views/$0.id"))
    assert results[1]["body"]["freed_nbytes"] == 20 << 20
