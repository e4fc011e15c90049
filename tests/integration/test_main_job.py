# SPDX-License-Identifier: Apache-2.0
"""The main job from end to end: upload, view, slice, kernel, column, table, split, unpack, delete."""

import base64

import numpy

from conftest import cai

VALUES = numpy.array([1.5, numpy.nan, 3, 4, numpy.nan, 6, 7, 8, 9, 10], "<f4")


def test_the_worked_example_of_the_contract(client):
    buffer = client.upload(VALUES)
    assert buffer["nbytes"] == 40 and buffer["origin"] == "uploaded" and buffer["owners"] == []

    view = client.post("/v1/views", {"cuda_array_interface": cai(buffer["ptr"], [10], "<f4")})
    assert view["nbytes"] == view["size"] == 40 and view["len"] == 10
    assert view["cudf_type"] == {"name": "FLOAT32", "type_id": 9}
    assert view["contiguous"] and not view["readonly"]
    assert view["buffer"] == view["obj"] == buffer["id"] and view["offset"] == 0 and view["owners"] == [buffer["id"]]

    piece = client.post(f"/v1/views/{view['id']}/byte_slice", {"start": 4, "stop": -4})
    assert piece["typestr"] == "|u1" and piece["ptr"] == buffer["ptr"] + 4 and piece["nbytes"] == 32
    assert piece["obj"] == view["id"] and piece["owners"] == [view["id"]]

    nulls = client.post("/v1/kernels/nans_to_nulls", {"input": view["id"]})
    mask = nulls["mask"]
    assert nulls["null_count"] == 2 and mask["typestr"] == "|u1" and mask["nbytes"] == 64

    column = client.post("/v1/columns", {"type": {"name": "FLOAT32"}, "size": 10, "data": view["id"], "null_mask": mask["id"]})
    assert column["type"] == {"name": "FLOAT32", "type_id": 9, "scale": 0}
    assert column["null_count"] == 2 and column["nullable"] and column["device_buffer_size"] == 104
    assert column["owners"] == [view["id"], mask["id"]]

    table = client.post("/v1/tables", {"columns": [column["id"]]})
    assert table["num_rows"] == 10 and table["num_columns"] == 1 and table["columns"] == [column["id"]]

    parts = client.post(f"/v1/tables/{table['id']}/contiguous_split", {"splits": [2, 5]})["items"]
    assert [part["num_rows"] for part in parts] == [2, 3, 5]
    assert parts[0]["metadata_nbytes"] == 56 and parts[0]["gpu_data_nbytes"] == 128
    assert parts[0]["metadata"] == ("AgAAAAEAAAACAAAAAAAAAAkAAAAAAAAAAgAAAAEAAABAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=")
    assert parts[0]["columns"] == [{"type": {"name": "FLOAT32", "type_id": 9, "scale": 0}, "size": 2, "null_count": 1,
                                    "data_offset": 64, "null_mask_offset": 0, "children": []}]
    assert client.bytes(f"/v1/packed/{parts[0]['id']}/metadata") == base64.b64decode(parts[0]["metadata"])

    unpacked = client.post(f"/v1/packed/{parts[1]['id']}/unpack")
    assert unpacked["num_rows"] == 3 and len(unpacked["columns"]) == 1
    assert unpacked["owners"] == unpacked["columns"]
    assert client.get(f"/v1/columns/{unpacked['columns'][0]}/values")["values"] == [3.0, 4.0, None]

    gone = client.delete(f"/v1/views/{view['id']}")
    assert gone == {"id": view["id"], "alive": True, "deleted": 1, "freed": [], "freed_count": 0, "freed_nbytes": 0,
                    "kept_alive_by": [piece["id"], column["id"]], "kept_alive_by_count": 2, "in_flight": 0}
    problem = client.refused("GET", f"/v1/views/{view['id']}", 410, "handle_deleted")
    assert problem["id"] == view["id"] and problem["alive"] is True and problem["reason"] == "deleted"

    gone = client.delete(f"/v1/buffers/{buffer['id']}", params={"if_held": "cascade"})
    assert gone["deleted"] == 4 and gone["freed_count"] == 5 and gone["freed_nbytes"] == 40
    assert gone["freed"] == [piece["id"], table["id"], column["id"], view["id"], buffer["id"]]
    assert not gone["alive"] and gone["kept_alive_by"] == []

    left = {handle["id"] for handle in client.handles() if handle["named"]}
    assert left == {mask["id"], unpacked["id"], *(part["id"] for part in parts)}


def test_every_answer_of_a_creation_is_the_answer_of_its_get(client):
    buffer = client.upload(VALUES)
    view = client.post(f"/v1/buffers/{buffer['id']}/views", {"typestr": "<f4", "shape": [10]})
    column = client.post("/v1/columns/from_view", {"view": view["id"]})
    table = client.post("/v1/tables", {"columns": [column["id"]]})
    packed = client.post(f"/v1/tables/{table['id']}/pack")
    for path, made in (("buffers", buffer), ("views", view), ("columns", column), ("tables", table), ("packed", packed)):
        assert client.get(f"/v1/{path}/{made['id']}") == made


def test_a_creation_says_where_the_thing_is(client):
    answer = client.call("POST", "/v1/buffers", json={"nbytes": 8}, expect=201)
    assert answer.headers["Location"] == f"/v1/buffers/{answer.json()['id']}"
