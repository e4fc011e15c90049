# SPDX-License-Identifier: Apache-2.0
"""What callers of pylibcudf rely on: views of whole buffers and their slices, columns over them, masks and transforms."""

import numpy
import pyarrow
import pytest

from conftest import CUDF_NAMES, cai
from test_columns_nested import upload, values

NAN = float("nan")


# ---- views -------------------------------------------------------------------------------------------

def whole_view(client, content, stream=None):
    """A view of all bytes of a buffer, as a device buffer describes itself."""
    buffer = client.upload(content)
    return client.post("/v1/views", {"cuda_array_interface": cai(buffer["ptr"], [len(content)], "|u1", strides=None, stream=stream)})


@pytest.mark.parametrize("count", [0, 1, 1000, 1024, 10000])
@pytest.mark.parametrize("width", [1, 2, 4, 8, 16])
def test_a_whole_buffer_is_a_flat_view_of_its_bytes(client, count, width):
    content = numpy.random.default_rng(count).bytes(count * width)
    for stream in (None, 1, 2):  # the last two: made on a stream that the client has waited for
        view = whole_view(client, content, stream)
        assert (view["nbytes"], view["size"], view["len"]) == (len(content),) * 3
        assert (view["shape"], view["strides"], view["typestr"]) == ([len(content)], None, "|u1")
        exported = client.get(f"/v1/views/{view['id']}/cuda_array_interface")
        assert (exported["shape"], exported["strides"], exported["typestr"]) == ([len(content)], None, "|u1")
    for part in (slice(1, 3), slice(None, 2), slice(3, None), slice(2, 2), slice(0, 10000)):
        cut = client.post(f"/v1/views/{view['id']}/byte_slice", {"start": part.start, "stop": part.stop})
        assert client.data(cut["id"]) == content[part]
        assert cut["nbytes"] == len(content[part]) and cut["ptr"] == view["ptr"] + part.indices(len(content))[0]
        assert cut["cai"] == {"data": [cut["ptr"], False], "shape": [cut["nbytes"]], "typestr": "|u1", "version": 3}


def test_an_index_is_no_slice(client):
    view = whole_view(client, bytes(8))
    with client.unchanged():
        client.refused("POST", f"/v1/views/{view['id']}/byte_slice", 422, "type_error", json=0)
        client.refused("POST", f"/v1/views/{view['id']}/byte_slice", 422, "value_error", "/step", json={"step": 2})


def test_a_slice_becomes_a_column_without_a_copy(client):
    view = whole_view(client, bytes(range(100)))
    before = client.registered()
    cut = client.post(f"/v1/views/{view['id']}/byte_slice", {"start": 3, "stop": 13})
    column = client.post("/v1/columns/from_view", {"view": cut["id"]})
    assert (column["type"]["name"], column["size"], column["data"], column["null_mask"]) == ("UINT8", 10, cut["id"], None)
    assert values(client, column) == list(range(3, 13))
    assert client.registered() == before


def test_a_slice_keeps_its_view_but_not_the_column_that_shows_it(client):
    view = whole_view(client, bytes(range(16)))
    column = client.post("/v1/columns/from_view", {"view": view["id"]})
    cut = client.post(f"/v1/views/{column['data']}/byte_slice", {"start": 4})
    assert client.delete(f"/v1/columns/{column['id']}")["alive"] is False
    gone = client.delete(f"/v1/views/{view['id']}")
    assert gone["alive"] and gone["kept_alive_by"] == [cut["id"]]
    assert client.data(cut["id"]) == bytes(range(4, 16))
    assert client.delete(f"/v1/views/{cut['id']}")["freed"] == [cut["id"], view["id"]]


# ---- columns -----------------------------------------------------------------------------------------

@pytest.mark.parametrize("shape", [(6,), (2, 3), (2, 2, 3), (2, 2, 2, 3), (0,), (2, 0)], ids=str)
@pytest.mark.parametrize("typestr", CUDF_NAMES)
def test_arrays_of_any_type_and_shape_become_columns(client, typestr, shape):
    count = int(numpy.prod(shape))
    array = (numpy.arange(count).astype("u1").astype(typestr) if typestr[1] not in "Mm" else
             numpy.arange(count).astype("<i8").view(typestr)).reshape(shape)
    buffer = client.upload(array)
    for strides in (None, array.strides):
        view = client.post("/v1/views", {"cuda_array_interface": cai(buffer["ptr"], shape, typestr, strides=strides)})
        column = made = client.post("/v1/columns/from_view", {"view": view["id"]})
        for rows in numpy.cumprod(shape[:-1]).tolist():
            assert (column["type"]["name"], column["size"]) == ("LIST", rows)
            column = client.get(f"/v1/columns/{column['children'][1]}")
        assert (column["type"]["name"], column["size"], column["data"]) == (CUDF_NAMES[typestr], count, view["id"])
        assert client.array(column["data"]).tobytes() == array.tobytes()
        want = array.view("<i8") if typestr[1] == "m" else array
        if typestr[1] != "M":
            assert values(client, made) == want.tolist()


@pytest.mark.parametrize("payload", [None, "array", 7, []], ids=str)
def test_what_describes_no_array_is_no_view(client, payload):
    pointer = "/cuda_array_interface"
    with client.unchanged():
        client.refused("POST", "/v1/views", 422, "type_error", pointer, json={"cuda_array_interface": payload})


def test_shapes_beyond_the_rows_of_a_column_are_refused_even_at_address_0(client):
    with client.unchanged():
        for shape in ((2147483647, 1), (65536, 32768)):
            client.refused("POST", "/v1/views", 422, "value_error", json={"cuda_array_interface": cai(0, shape, "|i1")})


def test_a_column_takes_any_view_that_is_long_enough(client):
    data, mask = whole_view(client, bytes(100)), whole_view(client, b"\xff" * 4)
    body = {"type": {"name": "INT32"}, "size": 25, "data": data["id"]}
    plain = client.post("/v1/columns", body)
    assert (plain["size"], plain["type"]["name"], plain["data"]) == (25, "INT32", data["id"])
    assert (plain["null_count"], plain["null_mask"], plain["nullable"]) == (0, None, False)
    masked = client.post("/v1/columns", {**body, "null_mask": mask["id"], "null_count": 0})
    assert (masked["null_count"], masked["null_mask"], masked["nullable"]) == (0, mask["id"], True)
    client.refused("POST", "/v1/columns", 422, "out_of_bounds", "/data", json={**body, "size": 26})


def test_another_mask_makes_another_column_over_the_same_data(client):
    data, mask = whole_view(client, bytes(100)), whole_view(client, bytes.fromhex("e0ffffff"))
    body = {"type": {"name": "INT32"}, "size": 25, "data": data["id"]}
    plain = client.post("/v1/columns", body)
    masked = client.post("/v1/columns", {**body, "null_mask": mask["id"], "null_count": 5})
    assert (masked["data"], masked["null_mask"], masked["null_count"]) == (data["id"], mask["id"], 5)
    assert client.get(f"/v1/columns/{plain['id']}") == plain
    client.refused("POST", "/v1/columns", 422, "value_error", "/null_count", json={**body, "null_mask": None, "null_count": 5})


NO_VIEWS = [(7, "integer"), (True, "boolean"), ([], "array"), ({}, "object"), (1.5, "number")]


@pytest.mark.parametrize("member", ["data", "null_mask"])
@pytest.mark.parametrize("nothing, kind", NO_VIEWS, ids=repr)
def test_data_and_masks_that_are_no_views_are_told_with_their_type(client, member, nothing, kind):
    view = whole_view(client, bytes(100))
    with client.unchanged():
        problem = client.refused("POST", "/v1/columns", 422, "type_error", f"/{member}",
                                 json={"type": {"name": "INT32"}, "size": 25, "data": view["id"], member: nothing})
    assert kind in problem["detail"], problem["detail"]


def test_a_struct_without_rows_needs_no_data(client):
    for children in ([], [client.post("/v1/columns", {"type": {"name": "INT8"}, "size": 0})["id"]]):
        column = client.post("/v1/columns", {"type": {"name": "STRUCT"}, "size": 0, "data": None, "children": children})
        assert (column["size"], column["data"], column["null_count"]) == (0, None, 0) and values(client, column) == []


def test_a_string_column_is_made_of_characters_and_one_child(client):
    text, four = whole_view(client, b"abcdef"), client.column(numpy.array([0, 1, 3, 6], "<i4"))
    strings = {"type": {"name": "STRING"}, "size": 3, "data": text["id"], "children": [four["id"]]}
    column = client.post("/v1/columns", strings)
    assert values(client, column) == ["a", "bc", "def"] and column["children"] == [four["id"]]
    with client.unchanged():
        for change in ({"type": {"name": "INT8"}}, {"children": []}, {"children": [four["id"]] * 2},
                       {"type": {"name": "LIST"}, "data": None, "children": []}):
            client.refused("POST", "/v1/columns", 422, "value_error", "/children", json={**strings, **change})


# ---- masks -------------------------------------------------------------------------------------------

def kernel(client, name, body, expect=201):
    return client.post(f"/v1/kernels/{name}", body, expect=expect)


def nulls(client, mask, begin, end):
    return kernel(client, "null_count", {"bitmask": mask, "begin_bit": begin, "end_bit": end}, 200)["count"]


@pytest.mark.parametrize("typestr", ["<f4", "<f8"])
def test_a_copied_mask_counts_as_the_one_it_was_copied_from(client, typestr):
    column = upload(client, pyarrow.array([1, 2, None, 4, 5, 6, 7, 8], {"<f4": pyarrow.float32(), "<f8": pyarrow.float64()}[typestr]))
    copied = kernel(client, "copy_bitmask", {"column": column["id"]})["mask"]
    again = kernel(client, "copy_bitmask", {"bitmask": copied["id"], "begin_bit": 0, "end_bit": 8})["mask"]
    assert nulls(client, copied["id"], 0, 64) == nulls(client, again["id"], 0, 64) == 1 + 56
    assert nulls(client, copied["id"], 0, 8) == nulls(client, column["null_mask"], 0, 8) == 1
    bare = client.column(numpy.zeros(8, typestr))
    none = kernel(client, "copy_bitmask", {"column": bare["id"]})["mask"]
    assert none["nbytes"] == 0 and nulls(client, none["id"], 0, 64) == 0


@pytest.mark.parametrize("nothing, kind", NO_VIEWS, ids=repr)
def test_masks_that_are_no_views_are_told_with_their_type(client, nothing, kind):
    with client.unchanged():
        for name in ("copy_bitmask", "null_count", "valid_count", "mask_to_bools", "index_of_first_set_bit"):
            problem = client.refused("POST", f"/v1/kernels/{name}", 422, "type_error", "/bitmask",
                                     json={"bitmask": nothing, "begin_bit": 0, "end_bit": 8})
            assert kind in problem["detail"], problem["detail"]


# ---- transforms --------------------------------------------------------------------------------------

NANS = [([1, NAN, NAN, None, 3, None], [1, None, None, None, 3, None]), ([1, 4, 5, None, 3, None], [1, 4, 5, None, 3, None]),
        ([1.0, 2.0], [1, 2]), ([NAN, NAN], [None, None]), ([], [])]


@pytest.mark.parametrize("rows, want", NANS, ids=str)
@pytest.mark.parametrize("kind", [pyarrow.float32(), pyarrow.float64()], ids=str)
def test_a_mask_of_nans_put_on_its_input_hides_them(client, kind, rows, want):
    column = upload(client, pyarrow.array(rows, kind))
    result = kernel(client, "nans_to_nulls", {"input": column["id"]})
    assert result["null_count"] == want.count(None)
    masked = client.post("/v1/columns", {"type": column["type"], "size": len(rows), "data": column["data"],
                                         "null_mask": result["mask"]["id"], "null_count": result["null_count"]})
    assert values(client, masked) == want
    made = kernel(client, "column_nans_to_nulls", {"input": column["id"]})["column"]
    assert values(client, made) == want and made["null_count"] == want.count(None) and made["offset"] == 0


def test_nans_of_a_slice_with_nulls_are_hidden(client):
    array = pyarrow.array([1, None, 3, NAN, 5, None, NAN], pyarrow.float64())
    for first, count, want in ((1, 4, [None, 3, None, 5]), (0, 7, [1, None, 3, None, 5, None, None]), (6, 1, [None]), (4, 0, [])):
        made = kernel(client, "column_nans_to_nulls", {"input": upload(client, array, first, count)["id"]})["column"]
        assert values(client, made) == want and made["null_count"] == want.count(None)


def test_strings_have_no_nans(client):
    column = upload(client, pyarrow.array(["NaN", None]))
    with client.unchanged():
        for name in ("nans_to_nulls", "column_nans_to_nulls", "bools_to_mask"):
            client.refused("POST", f"/v1/kernels/{name}", 422, "dtype_unsupported", "/input", json={"input": column["id"]})


@pytest.mark.parametrize("rows", [[True, None, False], [True, False] * 4, [True, False, True, None, True, False, True, False], []], ids=str)
def test_a_mask_of_booleans_put_on_its_input_leaves_the_true_ones(client, rows):
    column = upload(client, pyarrow.array(rows, pyarrow.bool_()))
    result = kernel(client, "bools_to_mask", {"input": column["id"]})
    assert result["null_count"] == len(rows) - rows.count(True)
    masked = client.post("/v1/columns", {"type": column["type"], "size": len(rows), "data": column["data"],
                                         "null_mask": result["mask"]["id"]})
    assert values(client, masked) == [value or None for value in rows]
    bools = kernel(client, "mask_to_bools", {"bitmask": result["mask"]["id"], "begin_bit": 0, "end_bit": len(rows)})["column"]
    assert values(client, bools) == [value is True for value in rows] and bools["null_count"] == 0


FAMILIES = [("INT8", "UINT64", "FLOAT64", "BOOL8"), ("DECIMAL32", "DECIMAL64", "DECIMAL128"), ("TIMESTAMP_DAYS", "TIMESTAMP_NANOSECONDS"),
            ("DURATION_DAYS", "DURATION_MILLISECONDS")]


@pytest.mark.parametrize("name", [name for family in FAMILIES for name in family])
def test_columns_of_every_family_under_masks_in_every_state(client, name):
    data = whole_view(client, bytes(48))
    for state, want in (("UNALLOCATED", 0), ("ALL_VALID", 0), ("ALL_NULL", 3)):
        mask = kernel(client, "create_null_mask", {"size": 3, "state": state})["mask"]
        column = client.post("/v1/columns", {"type": {"name": name}, "size": 3, "data": data["id"], "null_mask": mask["id"]})
        assert column["null_count"] == want
        assert [value is None for value in values(client, column)] == [want == 3] * 3
    client.refused("POST", "/v1/columns", 422, "value_error", "/size", json={"type": {"name": name}, "size": -1, "data": data["id"]})
