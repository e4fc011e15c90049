# SPDX-License-Identifier: Apache-2.0
"""What a refusal says to a person: the mistakes of a first hour, and the words that lead out of each."""

import numpy
import pytest

from conftest import cai


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


def test_limits_are_called_as_the_server_calls_them(own_daemon):
    running = own_daemon("--max-logical-bytes", "1000", "--max-device-bytes", "2000", "--max-handles", "5")
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
