# SPDX-License-Identifier: Apache-2.0
"""Columns of every type over HTTP: pyarrow lays out their buffers, gmvd reads their rows back."""

import base64
import decimal
import random
import threading
from multiprocessing import shared_memory

import numpy
import pyarrow
import pytest

from conftest import cai

FIXED = {
    pyarrow.int8(): "INT8", pyarrow.int16(): "INT16", pyarrow.int32(): "INT32", pyarrow.int64(): "INT64",
    pyarrow.uint8(): "UINT8", pyarrow.uint16(): "UINT16", pyarrow.uint32(): "UINT32", pyarrow.uint64(): "UINT64",
    pyarrow.float32(): "FLOAT32", pyarrow.float64(): "FLOAT64", pyarrow.bool_(): "BOOL8",
    pyarrow.date32(): "TIMESTAMP_DAYS", pyarrow.timestamp("s"): "TIMESTAMP_SECONDS",
    pyarrow.timestamp("ms"): "TIMESTAMP_MILLISECONDS", pyarrow.timestamp("us"): "TIMESTAMP_MICROSECONDS",
    pyarrow.timestamp("ns"): "TIMESTAMP_NANOSECONDS", pyarrow.duration("s"): "DURATION_SECONDS",
    pyarrow.duration("ms"): "DURATION_MILLISECONDS", pyarrow.duration("us"): "DURATION_MICROSECONDS",
    pyarrow.duration("ns"): "DURATION_NANOSECONDS", pyarrow.decimal32(9, 2): "DECIMAL32",
    pyarrow.decimal64(18, 0): "DECIMAL64", pyarrow.decimal128(38, 7): "DECIMAL128", pyarrow.decimal128(38, -3): "DECIMAL128",
}
TEXTS = (pyarrow.string(), pyarrow.large_string(), pyarrow.binary())
INDICES = (pyarrow.int8(), pyarrow.int16(), pyarrow.int32(), pyarrow.int64())


# ---- values: as pyarrow takes them, and as JSON shows them --------------------------------------

def random_value(rng, kind):
    if rng.random() < 0.2:
        return None
    if pyarrow.types.is_null(kind):
        return None
    if pyarrow.types.is_boolean(kind):
        return rng.random() < 0.5
    if pyarrow.types.is_integer(kind):
        low = 0 if pyarrow.types.is_unsigned_integer(kind) else -2 ** (kind.bit_width - 1)
        return rng.choice([low, low + 2 ** kind.bit_width - 1, 0, rng.randrange(low, low + 2 ** kind.bit_width)])
    if pyarrow.types.is_floating(kind):
        return rng.choice([float("inf"), -0.0, 1.5, rng.randrange(-2 ** 16, 2 ** 16) / 8])
    if pyarrow.types.is_decimal(kind):
        digits = rng.randrange(1, 10 if kind.bit_width == 32 else 19 if kind.bit_width == 64 else 36)
        with decimal.localcontext() as context:
            context.prec = 60
            return decimal.Decimal(rng.randrange(-10 ** digits + 1, 10 ** digits)).scaleb(-kind.scale)
    if pyarrow.types.is_date(kind):
        return rng.randrange(-719162, 2932896)  # the years 1 to 9999
    if pyarrow.types.is_timestamp(kind):
        scale = {"s": 1, "ms": 10 ** 3, "us": 10 ** 6, "ns": 10 ** 9}[kind.unit]
        return rng.randrange(-9 * 10 ** 9, 9 * 10 ** 9) * scale + rng.randrange(scale)
    if pyarrow.types.is_duration(kind):
        return rng.randrange(-2 ** 63, 2 ** 63)
    if pyarrow.types.is_binary(kind):
        return bytes(rng.choice([0, 0x41, 0xff, 0x80]) for _ in range(rng.randrange(5)))
    if kind in TEXTS:
        return "".join(rng.choice("ab\"\\\x00\n\u00e4\u20ac\U0001f600") for _ in range(rng.randrange(6)))
    if pyarrow.types.is_list(kind):
        return [random_value(rng, kind.value_type) for _ in range(rng.randrange(4))]
    if pyarrow.types.is_struct(kind):
        return {field.name: random_value(rng, field.type) for field in kind}
    assert pyarrow.types.is_dictionary(kind)
    return random_value(random.Random(rng.randrange(20)), kind.value_type)


def shown(value, kind):
    """The value as the answer has it."""
    if value is None:
        return None
    if pyarrow.types.is_date(kind):
        return str(numpy.datetime64(value, "D"))
    if pyarrow.types.is_timestamp(kind):
        return str(numpy.datetime64(value, kind.unit)) + "Z"
    if pyarrow.types.is_decimal(kind):
        return format(value, "f")
    if pyarrow.types.is_floating(kind):
        return "Infinity" if value == float("inf") else value
    if pyarrow.types.is_binary(kind):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return {"base64": base64.b64encode(value).decode()}
    if pyarrow.types.is_list(kind):
        return [shown(item, kind.value_type) for item in value]
    if pyarrow.types.is_struct(kind):
        return [shown(value[field.name], field.type) for field in kind]
    if pyarrow.types.is_dictionary(kind):
        return shown(value, kind.value_type)
    return value


def random_kind(rng, depth):
    choice = rng.randrange(10)
    if depth == 0 or choice < 3:
        return rng.choice([*FIXED, *TEXTS, pyarrow.null()])
    if choice < 6:
        return pyarrow.list_(random_kind(rng, depth - 1))
    if choice < 9:
        return pyarrow.struct([(f"f{i}", random_kind(rng, depth - 1)) for i in range(rng.randrange(4))])
    return pyarrow.dictionary(rng.choice(INDICES), rng.choice([pyarrow.string(), pyarrow.int64(), pyarrow.float64()]))


# ---- columns: Arrow's buffers as they are ---------------------------------------------------------

def octets(client, content):
    return client.view(numpy.frombuffer(content, "u1"))["id"] if len(content) else None


def type_of(kind):
    if pyarrow.types.is_null(kind):
        return {"name": "EMPTY"}
    if kind in TEXTS:
        return {"name": "STRING"}
    for test, name in ((pyarrow.types.is_list, "LIST"), (pyarrow.types.is_struct, "STRUCT"),
                       (pyarrow.types.is_dictionary, "DICTIONARY32")):
        if test(kind):
            return {"name": name}
    return {"name": FIXED[kind], "scale": -kind.scale if pyarrow.types.is_decimal(kind) else 0}


def offsets_column(client, buffer, kind, n):
    """Offsets up to number `n`; an array of no rows has no offsets to speak of."""
    width = 8 if pyarrow.types.is_large_string(kind) else 4
    content = bytes(buffer)[:width * n] if buffer is not None and buffer.size >= width * n else bytes(width * n)
    return client.post("/v1/columns", {"type": {"name": "INT64" if width == 8 else "INT32"}, "size": n,
                                       "data": octets(client, content)})["id"]


def upload(client, array, first=0, count=None):
    """Rows of an array, over the whole of its buffers; gives the answer to the last POST."""
    kind, buffers = array.type, array.buffers()
    count = len(array) - first if count is None else count
    body = {"type": type_of(kind), "size": count, "offset": array.offset + first, "children": []}
    end = body["offset"] + count
    if pyarrow.types.is_null(kind):
        return client.post("/v1/columns", body)
    body["null_mask"] = octets(client, bytes(buffers[0])) if buffers[0] is not None else None
    if kind in TEXTS:
        body["children"] = [offsets_column(client, buffers[1], kind, end + 1)]
        body["data"] = octets(client, bytes(buffers[2])) if buffers[2] is not None else None
    elif pyarrow.types.is_list(kind):
        body["children"] = [offsets_column(client, buffers[1], kind, end + 1), upload(client, array.values)["id"]]
    elif pyarrow.types.is_struct(kind):
        assert array.offset == 0  # pyarrow's fields have the struct's offset in them already
        body["children"] = [upload(client, array.field(i))["id"] for i in range(kind.num_fields)]
    elif pyarrow.types.is_dictionary(kind):
        body["children"] = [upload(client, bare(array.indices))["id"], upload(client, array.dictionary)["id"]]
    elif pyarrow.types.is_boolean(kind):
        body["data"] = octets(client, numpy.unpackbits(numpy.frombuffer(buffers[1], "u1"), bitorder="little").tobytes())
    else:
        body["data"] = octets(client, bytes(buffers[1])) if buffers[1] is not None else None
        if not body["data"]:
            assert end == 0
    return client.post("/v1/columns", body)


def bare(indices):
    """Indices without nulls: those of null rows lead nowhere."""
    return pyarrow.Array.from_buffers(indices.type, indices.offset + len(indices), [None, indices.buffers()[1]])


def values(client, column, **query):
    return client.get(f"/v1/columns/{column['id']}/values", params=query)["values"]


def array_of(rng, kind, n):
    model = [random_value(rng, kind) for _ in range(n)]
    return pyarrow.array(model, kind), [shown(value, kind) for value in model]


KINDS = [*FIXED, *TEXTS, pyarrow.null(), *(pyarrow.dictionary(index, pyarrow.string()) for index in INDICES),
         pyarrow.list_(pyarrow.int16()), pyarrow.list_(pyarrow.list_(pyarrow.string())), pyarrow.struct([]),
         pyarrow.struct([("a", pyarrow.string()), ("b", pyarrow.list_(pyarrow.float64()))])]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_rows_of_each_type_whole_and_sliced(client, kind):
    rng = random.Random(str(kind))
    array, want = array_of(rng, kind, 75)
    column = upload(client, array)
    assert values(client, column) == want
    assert column["null_count"] == array.null_count and column["num_children"] == len(column["children"])
    assert column["nullable"] == (column["null_mask"] is not None)
    assert (column["data"] is None) == (column["type"]["name"] in ("EMPTY", "LIST", "STRUCT", "DICTIONARY32"))
    for first, count in ((0, 0), (75, 0), (1, 74), (31, 33), (63, 12), (74, 1)):
        sliced = upload(client, array, first, count)
        assert sliced["null_count"] == array.slice(first, count).null_count
        assert values(client, sliced) == want[first:first + count]
    answer = client.get(f"/v1/columns/{column['id']}/values", params={"offset": 30, "limit": 7})
    assert (answer["size"], answer["offset"], answer["count"]) == (75, 30, 7) and answer["values"] == want[30:37]


@pytest.mark.parametrize("seed", range(24))
def test_rows_of_random_nested_types(client, seed):
    rng = random.Random(seed)
    kind = random_kind(rng, 4)
    array, want = array_of(rng, kind, rng.choice([0, 1, 9, 40]))
    column = upload(client, array)
    assert values(client, column) == want
    first = rng.randrange(len(want) + 1)
    count = rng.randrange(len(want) - first + 1)
    assert values(client, upload(client, array, first, count)) == want[first:first + count]
    table = client.post("/v1/tables", {"columns": [column["id"], column["id"]]})
    assert table["num_rows"] == len(want)


def test_children_may_have_an_offset_of_their_own(client):
    text = pyarrow.array(["x", "ab", None, "c", "", "def"]).slice(1)
    numbers = pyarrow.array([9, 1, 2, None, 4, 5]).slice(1)
    lists = pyarrow.ListArray.from_arrays(pyarrow.array([7, 0, 2, 2, 5], pyarrow.int32()).slice(1), text)
    column = client.post("/v1/columns", {
        "type": {"name": "LIST"}, "size": 3,
        "children": [client.post("/v1/columns", {"type": {"name": "INT32"}, "size": 4, "offset": 1, "data": octets(client, bytes(
            numpy.array([7, 0, 2, 2, 5], "<i4")))})["id"], upload(client, text)["id"]]})
    assert values(client, column) == lists.to_pylist() == [["ab", None], [], ["c", "", "def"]]
    structs = client.post("/v1/columns", {"type": {"name": "STRUCT"}, "size": 3, "offset": 2,
                                          "children": [upload(client, text)["id"], upload(client, numbers)["id"]]})
    assert values(client, structs) == [["c", None], ["", 4], ["def", 5]]


def test_what_a_column_says_of_itself(client):
    array = pyarrow.array([["a", None], None, ["bcd"]])
    column = upload(client, array)
    offsets, text = (client.get(f"/v1/columns/{child}") for child in column["children"])
    nbytes = [client.get(f"/v1/views/{view}")["nbytes"] for view in
              (column["null_mask"], offsets["data"], text["data"], text["null_mask"],
               client.get(f"/v1/columns/{text['children'][0]}")["data"])]
    assert column["device_buffer_size"] == sum(nbytes)
    assert column["owners"] == [column["null_mask"], *column["children"]]
    assert column["data"] is None and column["num_children"] == 2 and column["null_count"] == 1
    assert text["null_count"] == 1 and text["num_children"] == 1
    with client.unchanged():
        assert client.get(f"/v1/columns/{column['id']}") == column


def test_children_live_as_long_as_their_parent(client):
    column = upload(client, pyarrow.array([["a"], ["b", "c"]]))
    for child in column["children"]:
        assert client.delete(f"/v1/columns/{child}")["alive"]
    assert values(client, column) == [["a"], ["b", "c"]]
    client.refused("GET", f"/v1/columns/{column['children'][0]}", 410, "handle_deleted")
    assert client.delete(f"/v1/columns/{column['id']}")["freed_count"] == 3


# ---- what is refused --------------------------------------------------------------------------------

def test_children_that_do_not_fit_are_named(client):
    def numbers(*content, typestr="<i4"):
        return client.column(numpy.array(content, typestr))["id"]

    offsets, five, backwards = numbers(0, 2, 2, 5), numbers(5, 6, 7, 8, 9), numbers(0, 3, 2, 5)
    text = octets(client, b"abcde")
    nullable = client.column(numpy.array([0, 2, 2, 5], "<i4"), mask="0e")["id"]
    with client.unchanged():
        for name, size, children, pointer, word in (
                ("LIST", 3, [offsets], "/children", "two children"), ("STRING", 1, [], "/children", "one child"),
                ("STRUCT", 6, [five, five], "/children/0", "5"), ("STRUCT", 5, [five, offsets], "/children/1", "4"),
                ("LIST", 4, [offsets, five], "/children/0", "5 offsets"), ("LIST", 3, [nullable, five], "/children/0", "null"),
                ("LIST", 3, [backwards, five], "/children/0", "offset 2 is 2, which is below the one before it, 3"),
                ("LIST", 3, [five, five], "/children/0", "offset 1 is 6, but there are 5 elements"),
                ("DICTIONARY32", 5, [five, five], "/children/0", "index 0 is 5, but there are 5 keys"),
                ("DICTIONARY32", 3, [offsets, nullable], "/children/1", "null"),
                ("INT32", 5, [five], "/children", "no children"), ("EMPTY", 5, [five], "/children", "no children")):
            problem = client.refused("POST", "/v1/columns", 422, "value_error", pointer,
                                     json={"type": {"name": name}, "size": size, "children": children})
            assert word in problem["detail"], problem
        client.refused("POST", "/v1/columns", 422, "value_error", "/data",
                       json={"type": {"name": "LIST"}, "size": 3, "children": [offsets, five], "data": text})
        client.refused("POST", "/v1/columns", 422, "value_error", "/null_mask",
                       json={"type": {"name": "EMPTY"}, "size": 3, "null_mask": text})
        client.refused("POST", "/v1/columns", 422, "value_error", "/null_count",
                       json={"type": {"name": "EMPTY"}, "size": 3, "null_count": 2})


def test_children_that_are_no_columns_are_named(client):
    column = client.column(numpy.arange(3, dtype="<i4"))
    gone = client.column(numpy.arange(3, dtype="<i4"))
    client.delete(f"/v1/columns/{gone['id']}")

    def refused(child, status, code, pointer="/children/1"):
        client.refused("POST", "/v1/columns", status, code, pointer,
                       json={"type": {"name": "STRUCT"}, "size": 3, "children": [column["id"], child]})

    with client.unchanged():
        refused("col_" + "0" * 26, 404, "handle_unknown")
        refused("nonsense", 404, "handle_unknown")
        refused(gone["id"], 410, "handle_deleted")
        refused(column["data"], 422, "kind_mismatch")
        refused(7, 422, "type_error")
        client.refused("POST", "/v1/columns", 422, "type_error", "/children",
                       json={"type": {"name": "STRUCT"}, "size": 3, "children": column["id"]})


def test_a_child_in_many_places_is_counted_in_each(client):
    column = client.column(numpy.arange(2, dtype="<i4"))
    for level in range(20):
        body = {"type": {"name": "STRUCT"}, "size": 2, "children": [column["id"]] * 16}
        answer = client.call("POST", "/v1/columns", json=body)
        if answer.status_code != 201:
            break
        column = answer.json()
    problem = answer.json()
    assert level == 4 and (answer.status_code, problem["code"], problem["pointer"]) == (429, "quota_exceeded", "/children")
    client.refused("GET", f"/v1/columns/{column['id']}/values", 429, "quota_exceeded")
    deep = client.column(numpy.arange(2, dtype="<i4"))
    for _ in range(63):
        deep = client.post("/v1/columns", {"type": {"name": "STRUCT"}, "size": 2, "children": [deep["id"]]})
    client.refused("POST", "/v1/columns", 429, "quota_exceeded", "/children",
                   json={"type": {"name": "STRUCT"}, "size": 2, "children": [deep["id"]]})
    text = client.call("GET", f"/v1/columns/{deep['id']}/values", expect=200).text
    assert "[" * 64 + "0" + "]" * 63 in text.replace(" ", "")


def test_an_answer_that_would_be_too_long_is_refused(client, control):
    long = 17 << 20
    offsets = client.column(numpy.array([0, long, long + 1], "<i4"))["id"]
    text = client.upload(b"a" * (long + 1))
    view = client.post("/v1/views", {"cuda_array_interface": cai(text["ptr"], [long + 1], "|u1")})
    column = client.post("/v1/columns", {"type": {"name": "STRING"}, "size": 2, "data": view["id"], "children": [offsets]})
    problem = client.refused("GET", f"/v1/columns/{column['id']}/values", 429, "quota_exceeded")
    assert "16777216 bytes" in problem["detail"] and "fewer" in problem["detail"]
    problem = client.refused("GET", f"/v1/columns/{column['id']}/values?limit=1", 429, "quota_exceeded")
    assert "views" in problem["detail"]
    assert values(client, column, offset=1) == ["a"]
    keys = client.post("/v1/columns", {"type": {"name": "STRING"}, "size": 1, "data": view["id"], "children": [
        client.column(numpy.array([0, 1 << 20], "<i4"))["id"]]})
    rows = client.column(numpy.zeros(100000, "|i1"))["id"]
    many = client.post("/v1/columns", {"type": {"name": "DICTIONARY32"}, "size": 100000, "children": [rows, keys["id"]]})
    problem = client.refused("GET", f"/v1/columns/{many['id']}/values?limit=100000", 429, "quota_exceeded")
    assert "33554432 bytes" in problem["detail"]
    assert values(client, many, limit=2) == ["a" * (1 << 20)] * 2
    control()


# ---- from views of several dimensions ---------------------------------------------------------------

@pytest.mark.parametrize("shape", [(6,), (2, 3), (2, 2, 3), (2, 2, 2, 3), (2, 0), (0,), (0, 3), (3, 1, 0)], ids=str)
@pytest.mark.parametrize("typestr", ["|i1", "<u8", "<f4", "|b1", "<m8[ms]"])
def test_dimensions_become_lists(client, shape, typestr):
    array = numpy.arange(int(numpy.prod(shape))).astype("<i8" if "m8" in typestr else typestr).reshape(shape)
    buffer = client.upload(array)
    view = client.post("/v1/views", {"cuda_array_interface": cai(buffer["ptr"], shape, typestr)})
    column = client.post("/v1/columns/from_view", {"view": view["id"]})
    assert values(client, column) == array.tolist()
    rows = 1
    for extent in shape[:-1]:
        rows *= extent
        assert (column["type"]["name"], column["size"], column["data"], column["null_mask"]) == ("LIST", rows, None, None)
        offsets, column = (client.get(f"/v1/columns/{child}") for child in column["children"])
        assert (offsets["type"]["name"], offsets["size"], offsets["null_mask"]) == ("INT32", rows + 1, None)
        client.refused("DELETE", f"/v1/columns/{offsets['id']}", 409, "handle_inner")
    assert column["data"] == view["id"]


def test_dimensions_that_are_refused(client):
    buffer = client.upload(numpy.arange(24, dtype="<i4"))
    with client.unchanged():
        for shape, strides, code in (((2, 3), (4, 8), "not_contiguous"), ((), None, "value_error"),
                                     ((2147483647, 1), None, "value_error"), ((65536, 32768), None, "value_error"),
                                     ((1, 2147483647, 0), None, "value_error")):
            pointer = 0 if numpy.prod(shape, dtype=object) > 24 or 0 in shape else buffer["ptr"]
            if pointer == 0 and 0 not in shape:
                continue  # no buffer is that large: those are tested without HTTP
            view = client.post("/v1/views", {"cuda_array_interface": cai(pointer, shape, "<i4", strides=strides)})
            client.refused("POST", "/v1/columns/from_view", 422, code, "/view", json={"view": view["id"]})
            client.delete(f"/v1/views/{view['id']}")


# ---- an exporter that changes what was checked ---------------------------------------------------------

def test_offsets_that_change_while_they_are_read_lead_nowhere_else(client, host_memory, control):
    rows, nbytes = 2000, 1 << 16
    memory = shared_memory.SharedMemory(create=True, size=nbytes)
    stopped = threading.Event()
    good = numpy.arange(rows + 1, dtype="<i4")
    offsets = numpy.ndarray(rows + 1, "<i4", memory.buf)
    try:
        offsets[:] = good
        text = numpy.ndarray(nbytes - 32768, "u1", memory.buf, 32768)
        text[:] = ord("X")  # what no row may show
        text[:rows] = ord("a")
        buffer = client.post("/v1/buffers/import", {"posix_shm": {"name": "/" + memory.name}})

        def view(offset, count, typestr):
            return client.post(f"/v1/buffers/{buffer['id']}/views", {"typestr": typestr, "shape": [count], "offset": offset})["id"]

        numbers = client.post("/v1/columns", {"type": {"name": "INT32"}, "size": rows + 1, "data": view(0, rows + 1, "<i4")})["id"]
        strings = client.post("/v1/columns", {"type": {"name": "STRING"}, "size": rows, "data": view(32768, rows, "|u1"),
                                              "children": [numbers]})
        lists = client.post("/v1/columns", {"type": {"name": "LIST"}, "size": rows, "children": [numbers, strings["id"]]})
        indices = client.post("/v1/columns", {"type": {"name": "INT32"}, "size": rows, "data": view(0, rows, "<i4")})["id"]
        words = client.post("/v1/columns", {"type": {"name": "DICTIONARY32"}, "size": rows, "children": [indices, strings["id"]]})
        assert values(client, strings, limit=3) == ["a", "a", "a"] == values(client, words, limit=3)

        def flip():
            rng = numpy.random.default_rng(7)
            while not stopped.is_set():
                where = rng.integers(0, rows + 1, 50)
                offsets[where] = rng.integers(-2 ** 31, 2 ** 31, 50)
                offsets[where[:25]] = rng.integers(0, rows, 25)
                stopped.wait(0.0005)
                offsets[:] = good

        writer = threading.Thread(target=flip)
        writer.start()
        try:
            for _ in range(40):
                for column in (strings, lists, words):
                    answer = client.call("GET", f"/v1/columns/{column['id']}/values", params={"limit": rows})
                    assert answer.status_code == 200 or answer.json()["code"] == "quota_exceeded", answer.text[:300]
                    assert "X" not in answer.text.replace('"code"', "")
                made = client.call("POST", "/v1/columns", json={"type": {"name": "LIST"}, "size": rows, "children": [numbers, strings["id"]]})
                assert made.status_code == 201 or made.json()["pointer"] == "/children/0"
                table = client.post("/v1/tables", {"columns": [strings["id"], lists["id"]]})
                packed = client.call("POST", f"/v1/tables/{table['id']}/pack", json={})
                assert packed.status_code in (201, 422, 429), packed.text[:300]
                if packed.status_code == 201:
                    assert b"X" * 8 not in client.bytes(f"/v1/packed/{packed.json()['id']}/data")
                    client.delete(f"/v1/packed/{packed.json()['id']}")
        finally:
            stopped.set()
            writer.join()
        control()
    finally:
        del offsets, text
        memory.close()
        memory.unlink()


# ---- beside other calls ------------------------------------------------------------------------------

def test_kernels_take_the_masks_of_any_column_but_elements_of_their_own_types_only(client):
    lists = upload(client, pyarrow.array([["a"], None, [], ["b", "c"]]))
    texts = upload(client, pyarrow.array([None, None, "x", "y"]))
    nothing = upload(client, pyarrow.nulls(4))
    bare = client.post("/v1/columns", {"type": {"name": "STRUCT"}, "size": 4, "children": [texts["id"]]})
    for name in ("bools_to_mask", "nans_to_nulls", "column_nans_to_nulls"):
        for column in (lists, texts, nothing, bare):
            client.refused("POST", f"/v1/kernels/{name}", 422, "dtype_unsupported", "/input", json={"input": column["id"]})
    both = client.post("/v1/kernels/bitmask_and", {"columns": [lists["id"], texts["id"], bare["id"]]})
    assert both["null_count"] == 2 and client.data(both["mask"]["id"])[0] == 0x0c
    either = client.post("/v1/kernels/bitmask_or", {"columns": [lists["id"], texts["id"]]})
    assert either["null_count"] == 1 and client.data(either["mask"]["id"])[0] == 0x0d
    copied = client.post("/v1/kernels/copy_bitmask", {"column": lists["id"]})["mask"]
    assert client.data(copied["id"])[0] == 0x0d
    for column in (nothing, bare):
        assert client.post("/v1/kernels/copy_bitmask", {"column": column["id"]})["mask"]["nbytes"] == 0
    assert client.post("/v1/kernels/bitmask_and", {"columns": [nothing["id"]]})["mask"]["nbytes"] == 0


@pytest.mark.parametrize("name, value, want", [
    ("TIMESTAMP_SECONDS", 2 ** 63 - 1, "+292277026596-12-04T15:30:07Z"), ("TIMESTAMP_SECONDS", -2 ** 63, "-292277022657-01-27T08:29:52Z"),
    ("TIMESTAMP_NANOSECONDS", -2 ** 63, "1677-09-21T00:12:43.145224192Z"), ("TIMESTAMP_MILLISECONDS", -62135596800001, "+0000-12-31T23:59:59.999Z"),
    ("TIMESTAMP_MILLISECONDS", 253402300800000, "+10000-01-01T00:00:00.000Z"), ("DURATION_MICROSECONDS", -2 ** 63, -2 ** 63)])
def test_instants_of_any_year_inside_a_list(client, name, value, want):
    element = client.post("/v1/columns", {"type": {"name": name}, "size": 1, "data": client.view(numpy.array([value], "<i8"))["id"]})
    offsets = client.column(numpy.array([0, 1], "<i4"))
    column = client.post("/v1/columns", {"type": {"name": "LIST"}, "size": 1, "children": [offsets["id"], element["id"]]})
    assert values(client, column) == [[want]]
