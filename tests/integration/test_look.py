# SPDX-License-Identifier: Apache-2.0
"""Looking inside: which views cover a buffer, and whether a column's mask is what the column says."""

import random

import numpy
import pytest

from conftest import cai


def map_of(client, buffer, limit=100):
    pieces, query = [], {"limit": limit}
    while True:
        page = client.get(f"/v1/buffers/{buffer['id']}/map", params=query)
        assert len(page["items"]) <= limit
        pieces += page["items"]
        if page["next_cursor"] is None:
            return pieces
        query["cursor"] = page["next_cursor"]


def test_a_map_is_the_whole_buffer(client):
    buffer = client.upload(bytes(64))
    assert map_of(client, buffer) == [{"offset": 0, "nbytes": 64, "views": [], "views_count": 0}]
    view = client.post(f"/v1/buffers/{buffer['id']}/views", {"typestr": "<f4", "shape": [4], "offset": 16})
    part = client.post(f"/v1/views/{view['id']}/byte_slice", {"start": 4, "stop": 8})
    strided = client.post("/v1/views", {"cuda_array_interface": cai(buffer["ptr"] + 60, [3], "<i4", strides=[-16])})
    assert map_of(client, buffer) == [
        {"offset": 0, "nbytes": 16, "views": [], "views_count": 0},
        {"offset": 16, "nbytes": 4, "views": [view["id"]], "views_count": 1},
        {"offset": 20, "nbytes": 4, "views": [view["id"], part["id"]], "views_count": 2},
        {"offset": 24, "nbytes": 4, "views": [view["id"]], "views_count": 1},
        {"offset": 28, "nbytes": 4, "views": [view["id"], strided["id"]], "views_count": 2},
        {"offset": 32, "nbytes": 32, "views": [strided["id"]], "views_count": 1}]
    client.delete(f"/v1/views/{view['id']}")
    assert {i for piece in map_of(client, buffer) for i in piece["views"]} == {part["id"], strided["id"]}
    empty = client.post("/v1/buffers", {"nbytes": 0})
    assert map_of(client, empty) == []


@pytest.mark.parametrize("limit", [1, 7, 1000])
def test_pages_of_a_map_are_the_map(client, limit):
    draw = random.Random(limit)
    buffer = client.upload(bytes(500))
    covered = []
    for _ in range(30):
        first = draw.randrange(500)
        n = draw.randrange(501 - first)
        view = client.post(f"/v1/buffers/{buffer['id']}/views", {"typestr": "|u1", "shape": [n], "offset": first})
        covered.append((first, first + n, view["id"]))
    at = 0
    for piece in map_of(client, buffer, limit):
        assert piece["offset"] == at and piece["nbytes"] > 0
        for byte in (at, at + piece["nbytes"] - 1):
            assert piece["views"] == [i for first, last, i in covered if first <= byte < last]
        at += piece["nbytes"]
    assert at == 500


def test_what_a_map_refuses(client):
    buffer, other = client.upload(bytes(8)), client.upload(bytes(8))
    client.post(f"/v1/buffers/{buffer['id']}/views", {"typestr": "|u1", "shape": [4]})
    path = f"/v1/buffers/{buffer['id']}/map"
    cursor = client.get(path, params={"limit": 1})["next_cursor"]
    assert client.get(path, params={"cursor": cursor})["items"][0]["offset"] == 4
    for query in ({"limit": 0}, {"limit": 1001}, {"cursor": "junk"}, {"cursor": ""}, {"offset": 1}):
        client.refused("GET", path, 400, "request_malformed", params=query)
    client.refused("GET", f"/v1/buffers/{other['id']}/map", 400, "request_malformed", params={"cursor": cursor})
    client.refused("GET", "/v1/buffers/buf_00000000000000000000000000/map", 404, "handle_unknown")
    client.delete(f"/v1/buffers/{buffer['id']}")
    client.refused("GET", path, 410, "handle_deleted")


def test_a_map_of_many_views(client):
    """More than a short job looks at: the walk moves to the bulk lane, and the map is exact."""
    buffer = client.upload(bytes(64))
    first = client.post(f"/v1/buffers/{buffer['id']}/views", {"typestr": "|u1", "shape": [64]})
    client.batch([{"method": "POST", "path": f"/v1/views/{first['id']}/byte_slice", "body": {"start": 8, "stop": 16}}] * 4500)
    pieces = map_of(client, buffer)
    assert [(piece["offset"], piece["nbytes"], piece["views_count"], len(piece["views"])) for piece in pieces] == [
        (0, 8, 1, 1), (8, 8, 4501, 100), (16, 48, 1, 1)]
    assert client.delete(f"/v1/buffers/{buffer['id']}", params={"if_held": "cascade"})["deleted"] == 4502


# ---- masks ----

def test_a_mask_is_counted_anew(client):
    values = numpy.arange(12, dtype="<i4")
    mask = client.mask("0f f0 ff ff".replace(" ", ""))
    column = client.post("/v1/columns", {"type": {"name": "INT32"}, "size": 12, "data": client.view(values)["id"], "null_mask": mask["id"]})
    path = f"/v1/columns/{column['id']}/mask_check"
    assert column["null_count"] == 8
    assert client.get(path) == {"claimed": 8, "counted": 8, "bits_past_end": 20, "all_valid": False, "nullable": True, "bits_before": 0,
                                "misaligned": False}
    client.post("/v1/kernels/set_null_mask", {"bitmask": mask["id"], "begin_bit": 0, "end_bit": 12, "valid": True}, expect=200)
    check = client.get(path)
    assert (check["claimed"], check["counted"], check["all_valid"]) == (8, 0, True)


def test_masks_at_odd_places_and_none(client):
    values = client.view(numpy.arange(16, dtype="|u1"))
    buffer = client.upload(bytes.fromhex("00ffff0f00000000"))
    odd = client.post(f"/v1/buffers/{buffer['id']}/views", {"typestr": "|u1", "shape": [3], "offset": 1})
    column = client.post("/v1/columns", {"type": {"name": "UINT8"}, "size": 10, "offset": 5, "data": values["id"], "null_mask": odd["id"]})
    assert client.get(f"/v1/columns/{column['id']}/mask_check") == {
        "claimed": 0, "counted": 0, "bits_past_end": 5, "all_valid": True, "nullable": True, "bits_before": 5, "misaligned": True}
    plain = client.post("/v1/columns", {"type": {"name": "UINT8"}, "size": 16, "data": values["id"]})
    assert client.get(f"/v1/columns/{plain['id']}/mask_check") == {
        "claimed": 0, "counted": 0, "bits_past_end": 0, "all_valid": True, "nullable": False, "bits_before": 0, "misaligned": False}
