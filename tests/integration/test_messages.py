# SPDX-License-Identifier: Apache-2.0
"""What a refusal says to a person: the mistakes of a first hour, and the words that lead out of each."""

import json

import numpy
import pytest

from conftest import cai, parse_answers


@pytest.fixture()
def view(client):
    return client.view(numpy.zeros(4, "<f4"))


def says(problem, *words):
    for word in words:
        assert word in problem["detail"], problem


@pytest.mark.parametrize("came", ["application/x-www-form-urlencoded", "multipart/form-data; boundary=x"])
def test_a_wrong_media_type_is_named_beside_the_right_one(client, came):
    for method, path, wanted in [("POST", "/v1/buffers/upload", "application/octet-stream"), ("POST", "/v1/buffers", "application/json")]:
        says(client.refused(method, path, 415, "media_type_unsupported", data=b"{}", headers={"Content-Type": came}), came, wanted)


def test_a_missing_or_monstrous_media_type_is_not_repeated(client):
    says(client.refused("POST", "/v1/buffers", 415, "media_type_unsupported", data=b"{}"), "without a Content-Type", "application/json")
    problem = client.refused("POST", "/v1/buffers", 415, "media_type_unsupported", data=b"{}", headers={"Content-Type": "text/" + "x" * 90})
    assert problem["detail"] == "this call takes application/json (in UTF-8)"
    problem = client.refused("POST", "/v1/buffers", 415, "media_type_unsupported", data=iter([b"{}"]), headers={"Content-Type": "text/plain"})
    says(problem, "text/plain", "application/json")


def test_a_mistyped_name_is_answered_with_the_right_ones(client, view):
    says(client.refused("POST", "/v1/buffers", 422, "value_error", json={"size": 64}), "nbytes", "label", "ttl_seconds")
    says(client.refused("POST", "/v1/views", 422, "value_error", json=cai(view["ptr"], [4], "<f4")), "cuda_array_interface")
    says(client.refused("POST", "/v1/kernels/nans_to_nulls", 422, "value_error", json={"view": view["id"]}), "known are: input")
    says(client.refused("POST", "/v1/kernels/create_null_mask", 422, "value_error", json={"size": 1, "state": "all_valid"}), "ALL_VALID", "ALL_NULL")
    says(client.refused("POST", "/v1/batch", 422, "value_error", json={"requests": []}), "operations")
    says(client.refused("POST", "/v1/columns", 422, "value_error", json={"type": {"name": "float32"}, "size": 0}), "FLOAT32")
    says(client.refused("GET", f"/v1/views/{view['id']}/values?limt=1", 400, "request_malformed"), "limit", "offset")
    says(client.refused("GET", f"/v1/views/{view['id']}/checksum?algorithm=md5", 400, "request_malformed"), "crc32c")


def test_an_id_of_another_kind_is_told_as_such(client, view):
    for method in ("GET", "DELETE"):
        problem = client.refused(method, f"/v1/buffers/{view['id']}", 404, "handle_unknown")
        says(problem, "this path is for a buffer", view["id"], "of a view")
        assert problem["parameter"] == "id"
    says(client.refused("GET", "/v1/buffers/nonsense", 404, "handle_unknown"), "no such buffer")
    says(client.refused("POST", "/v1/kernels/nans_to_nulls", 422, "kind_mismatch", json={"input": view["buffer"]}), "a column or a view is wanted", "not a buffer")


def test_what_is_missing_is_said_with_the_way_to_it(client):
    says(client.refused("GET", "/v1/buffer", 404, "route_unknown"), "/docs")
    says(client.refused("POST", "/v1/views", 422, "pointer_not_registered", json={"cuda_array_interface": cai(4096, [1], "|u1")}), "import", "base")


@pytest.mark.parametrize("path, body, wanted", [
    ("/v1/columns", {"type": "FLOAT32", "size": 4, "data": "VIEW"}, 'write {"name": "FLOAT32"}'),
    ("/v1/columns", {"type": {"name": "FLOAT32"}, "size": 4, "data": {"id": "VIEW"}}, 'write "VIEW"'),
    ("/v1/columns", {"type": {"name": "FLOAT32"}, "size": 4, "data": 17}, 'the id of a handle is wanted here (a string such as "view_...")'),
    ("/v1/kernels/nans_to_nulls", "VIEW", 'write {"input": "VIEW"}'),
    ("/v1/kernels/nans_to_nulls", ["VIEW"], "its members are: input"),
    ("/v1/kernels/segmented_null_count", {"bitmask": "VIEW", "ranges": [0, 8]}, "a pair such as [0, 8]"),
    ("/v1/tables", {"columns": "VIEW"}, 'write ["VIEW"]'),
    ("/v1/tables", {"columns": [{"id": "VIEW"}]}, 'write "VIEW"'),
    ("/v1/tables", {"columns": {}}, 'such as ["col_..."]'),
    ("/v1/buffers", {"nbytes": "64"}, "leave the quotes out"),
    ("/v1/buffers", {"nbytes": 64, "readonly": "true"}, "leave the quotes out"),
    ("/v1/buffers/BUFFER/views", {"typestr": "|u1", "shape": 4}, "write [4]"),
    ("/v1/buffers/BUFFER/views", {"typestr": "|u1", "shape": "4"}, "such as [4]"),
    ("/v1/buffers/import", {"posix_shm": "/x"}, "its members are: name, base, nbytes"),
    ("/v1/views", {"cuda_array_interface": "VIEW"}, "__cuda_array_interface__"),
    ("/v1/views", {"cuda_array_interface": {"data": 1, "shape": [4], "typestr": "|u1", "version": 3}}, "[address, readonly]"),
    ("/v1/views", {"cuda_array_interface": {"data": [1, False], "shape": 4, "typestr": "|u1", "version": 3}}, "write [4]"),
])
def test_another_shape_is_answered_with_the_right_one(client, view, path, body, wanted):
    def filled(value):
        text = json.dumps(value) if not isinstance(value, str) else value
        return text.replace("VIEW", view["id"]).replace("BUFFER", view["buffer"])

    problem = client.refused("POST", filled(path), 422, "type_error", data=filled(body) if not isinstance(body, str) else json.dumps(view["id"]),
                             headers={"Content-Type": "application/json"})
    says(problem, filled(wanted))


def test_an_ipc_handle_in_the_wrong_place_is_not_repeated(client):
    problem = client.refused("POST", "/v1/buffers/import", 422, "type_error", json={"cuda_ipc": "c2VjcmV0"})
    says(problem, "its members are: handle")
    assert "c2VjcmV0" not in problem["detail"]


@pytest.mark.parametrize("text, wanted", [("float32", "<f4"), ("f4", "<f4"), ("=i8", "<i8"), ("FLOAT64", "<f8"), ("bool", "|b1"), ("u1", "|u1"),
                                          ("datetime64[ns]", "<M8[ns]"), ("bfloat16", "\"<V2\" beside \"dtype\": \"bfloat16\"")])
def test_a_type_of_another_spelling_is_answered_with_the_type_string(client, view, text, wanted):
    for path, body, pointer in ((f"/v1/buffers/{view['buffer']}/views", {"typestr": text, "shape": [1]}, "/typestr"),
                                ("/v1/views", {"cuda_array_interface": cai(view["ptr"], [1], text)}, "/cuda_array_interface/typestr")):
        says(client.refused("POST", path, 422, "value_error", pointer, json=body), wanted)
    if text != "bfloat16":
        problem = client.refused("POST", f"/v1/buffers/{view['buffer']}/views", 422, "value_error", "/dtype", json={"dtype": text, "shape": [1]})
        says(problem, f'write "typestr": "{wanted}"', "bfloat16")


@pytest.mark.parametrize("text, wanted", [("float32", "FLOAT32"), ("<f4", "FLOAT32"), ("string", "STRING"), ("timestamp_days", "TIMESTAMP_DAYS"),
                                          ("datetime64[ms]", "TIMESTAMP_MILLISECONDS")])
def test_a_column_type_of_another_spelling_is_answered_with_cudfs(client, text, wanted):
    says(client.refused("POST", "/v1/columns", 422, "value_error", "/type/name", json={"type": {"name": text}, "size": 0}), f'write "{wanted}"')


def test_a_path_that_nearly_is_one_is_answered_with_it(client, view):
    for path in ("/v1/buffers/", f"/v1/views/{view['id']}/", "/docs/"):
        says(client.refused("GET", path, 404, "route_unknown"), "without the slash at its end")
    for path in ("/buffers", f"/views/{view['id']}/data"):
        says(client.refused("GET", path, 404, "route_unknown"), "with /v1 before it")
    body = {"operations": [{"method": "POST", "path": "/v1/buffers/", "body": {"nbytes": 8}}]}
    says(client.refused("POST", "/v1/batch", 404, "route_unknown", "/operations/0/path", json=body), "without the slash at its end")


def test_what_curl_sends_of_its_own_accord_is_answered_with_the_option(client):
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    says(client.refused("POST", "/v1/buffers", 415, "media_type_unsupported", data=b"{}", headers=form), "-H 'Content-Type: application/json'")
    says(client.refused("POST", "/v1/buffers/upload", 415, "media_type_unsupported", data=b"x", headers=form), "--data-binary @FILE")


def test_a_forgotten_body_is_no_empty_one(daemon, client, view):
    for method, path in ((b"POST", b"/v1/buffers/upload"), (b"PUT", f"/v1/views/{view['id']}/data".encode())):
        with client.unchanged():
            status, _, body = parse_answers(daemon.raw(method + b" " + path + b" HTTP/1.1\r\nHost: localhost\r\n\r\n"))[0]
            problem = json.loads(body)
            assert (status, problem["code"], problem["parameter"]) == (400, "request_malformed", "Content-Length")
            says(problem, "Content-Length: 0")
    for framing in (b"Content-Length: 0\r\n\r\n", b"Content-Type: application/octet-stream\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"):
        request = b"POST /v1/buffers/upload HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" + framing
        status, _, body = parse_answers(daemon.raw(request))[0]
        assert status == 201 and json.loads(body)["nbytes"] == 0


def test_the_root_leads_on(client):
    index = client.get("/")
    assert index["name"] == "gmvd" and client.call("HEAD", "/").status_code == 200
    for name in ("docs", "openapi", "server", "handles"):
        assert client.call("GET", index[name]).status_code == 200


def test_limits_are_called_as_the_server_calls_them(own_daemon):
    running = own_daemon("--max-logical-nbytes", "1000", "--max-device-nbytes", "2000", "--max-handles", "5")
    limits = running.client.get("/v1/server")["limits"]
    assert (limits["max_logical_nbytes"], limits["max_device_nbytes"], limits["max_handles"]) == (1000, 2000, 5)
    says(running.client.refused("POST", "/v1/buffers", 429, "quota_exceeded", json={"nbytes": 1001}), "max_logical_nbytes is 1000")
    problem = running.client.refused("POST", "/v1/buffers/upload", 429, "quota_exceeded", data=bytes(1001), headers={"Content-Type": "application/octet-stream"})
    says(problem, "max_logical_nbytes is 1000")
    kept = [running.client.post("/v1/buffers", {"nbytes": 900}) for _ in range(2)]
    says(running.client.refused("POST", "/v1/buffers", 429, "quota_exceeded", json={"nbytes": 900}), "max_device_nbytes is 2000")
    for _ in range(3):
        running.client.post(f"/v1/buffers/{kept[0]['id']}/views", {"typestr": "|u1", "shape": [1]})
    says(running.client.refused("POST", f"/v1/buffers/{kept[0]['id']}/views", 429, "quota_exceeded", json={"typestr": "|u1", "shape": [1]}), "max_handles")
