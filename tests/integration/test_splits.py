# SPDX-License-Identifier: Apache-2.0
"""Tables that cuDF's own tests pack and split: cut anywhere, sliced before, nested, empty; pyarrow says what must come back."""

import base64
import itertools
import json
import random

import numpy
import pyarrow
import pytest

from test_columns_nested import upload
from test_tables_random import Line, shown, values

INTEGERS = [pyarrow.int8(), pyarrow.int16(), pyarrow.int32(), pyarrow.int64(), pyarrow.uint8(), pyarrow.uint16(), pyarrow.uint32(),
            pyarrow.uint64()]
NUMERIC = [*INTEGERS, pyarrow.float32(), pyarrow.float64(), pyarrow.bool_()]
DECIMALS = [pyarrow.decimal32(9, 2), pyarrow.decimal64(18, 0), pyarrow.decimal128(38, 7)]
TEXT = pyarrow.string()
LONG_CUTS = [2, 16, 31, 35, 64, 97, 158, 190, 638, 899, 900, 901, 996, 4200, 7131, 8111]
MIB = 1 << 20


class Desk(Line):
    """A line that tables are made and taken apart on; all that is made goes with its session."""

    def view(self, array):
        buffer = json.loads(self.call("POST", "/v1/buffers/upload", array.tobytes(), content_type="application/octet-stream"))
        body = {"typestr": array.dtype.str, "shape": list(array.shape)}
        return self.post(f"/v1/buffers/{buffer['id']}/views", body)

    def table(self, columns):
        return self.post("/v1/tables", {"columns": [column["id"] for column in columns]})

    def data(self, packed):
        return self.call("GET", f"/v1/packed/{packed['id']}/data")

    def rows(self, table):
        return [values(self, column) for column in table["columns"]]

    def tree(self, column_id):
        """What metadata says of a column, asked of its handle."""
        column = self.get(f"/v1/columns/{column_id}")
        return {"type": column["type"], "size": column["size"], "null_count": column["null_count"],
                "children": [self.tree(child) for child in column["children"]]}

    def check(self, packed, wanted, is_lasting=True):
        """Bytes that show these rows: to inspect, unpacked, and packed again unless strings lost their rows."""
        data = self.data(packed)
        body = {"metadata": packed["metadata"], "gpu_data_nbytes": len(data)}
        inspected = self.post("/v1/packed/inspect", body, expect=200)
        table = self.post(f"/v1/packed/{packed['id']}/unpack", {})
        assert table["num_rows"] == packed["num_rows"] == inspected["num_rows"]
        assert bare(inspected["columns"]) == [self.tree(column) for column in table["columns"]]
        assert self.rows(table) == wanted
        if is_lasting:
            again = self.post(f"/v1/tables/{table['id']}/pack", {})
            assert again["metadata"] == packed["metadata"] and self.data(again) == data
            assert self.get(f"/v1/tables/{table['id']}/packed_size") == {"nbytes": len(data)}
        return table

    def streamed(self, table, packed, chunk=MIB):
        path = f"/v1/tables/{table['id']}"
        assert self.call("GET", f"{path}/packed_stream?chunk_nbytes={chunk}") == self.data(packed)
        assert self.call("GET", f"{path}/packed_metadata") == base64.b64decode(packed["metadata"])
        assert self.get(f"{path}/packed_size") == {"nbytes": packed["gpu_data_nbytes"]}

    def whole(self, columns, wanted):
        table = self.table(columns)
        packed = self.post(f"/v1/tables/{table['id']}/pack", {})
        self.check(packed, wanted)
        self.streamed(table, packed)
        return table

    def split(self, table, cuts):
        return self.post(f"/v1/tables/{table['id']}/contiguous_split", {"splits": cuts})["items"]

    def cut(self, table, wanted, cuts):
        parts = self.split(table, cuts)
        ends = [*cuts, table["num_rows"]]
        for part, (begin, end) in zip(parts, itertools.pairwise([0, *ends]), strict=True):
            assert part["num_rows"] == end - begin
            self.check(part, [rows[begin:end] for rows in wanted], is_lasting=begin < end or table["num_rows"] == 0)


def bare(columns):
    return [{"type": column["type"], "size": column["size"], "null_count": column["null_count"],
             "children": bare(column["children"])} for column in columns]


@pytest.fixture
def desk(client, daemon):
    line = Desk(daemon.port)
    with line:
        yield line
    line.connection.close()


def numbers(kind, n, valid=None):
    rows = [bool(i % 3) if kind == pyarrow.bool_() else i % 100 for i in range(n)]
    return pyarrow.array([row if valid is None or valid[i] else None for i, row in enumerate(rows)], kind)


def texts(n, valid=None, kind=TEXT):
    rows = ["" if i % 5 == 0 else "\u00e9" * (i % 7) + str(i) for i in range(n)]
    return pyarrow.array([row if valid is None or valid[i] else None for i, row in enumerate(rows)], kind)


def coins(n, seed=1):
    return numpy.random.default_rng(seed).random(n) < 0.6


def posted(desk, arrays, first=0, count=None):
    return [upload(desk, array, first, count) for array in arrays], [shown(array.slice(first, count)) for array in arrays]


# ---- flat columns ------------------------------------------------------------------------------------

@pytest.mark.parametrize("kind", [*NUMERIC, *DECIMALS], ids=str)
def test_ten_rows_are_cut_into_three_and_into_empty_parts(desk, kind):
    columns, wanted = posted(desk, [numbers(kind, 10, coins(10, seed)) for seed in range(4)] + [numbers(kind, 10)])
    table = desk.whole(columns, wanted)
    for cuts in ([2, 5, 7], [2, 5, 10, 10, 10, 10], [0, 2, 2], [2, 5, 10], []):
        desk.cut(table, wanted, cuts)


@pytest.mark.parametrize("valid", [coins(10002), numpy.zeros(10002, "?")], ids=["random", "all null"])
def test_ten_thousand_rows_of_every_type_are_cut_at_odd_places(desk, valid):
    columns, wanted = posted(desk, [numbers(kind, 10002, valid) for kind in (*NUMERIC, *DECIMALS)] + [texts(10002, valid)])
    desk.cut(desk.whole(columns, wanted), wanted, LONG_CUTS)


@pytest.mark.parametrize("rows, first, cuts", [(10007, 0, [0, 3613, 7777, 10005, 10007]), (10049, 47, LONG_CUTS), (512, 0, [510])])
def test_long_and_sliced_numbers_are_cut(desk, rows, first, cuts):
    columns, wanted = posted(desk, [numbers(pyarrow.int32(), rows, coins(rows) if rows > 512 else numpy.ones(rows, "?"))], first)
    table = desk.whole(columns, wanted)
    desk.cut(table, wanted, cuts)


@pytest.mark.parametrize("valid", [coins(256), numpy.zeros(256, "?")], ids=["random", "all null"])
def test_bytes_beside_strings_are_cut_at_every_row(desk, valid):
    columns, wanted = posted(desk, [numbers(pyarrow.uint8(), 256, valid), texts(256, valid)])
    table = desk.table(columns)
    for cut in range(256):
        left, right = desk.split(table, [cut])
        for part, rows in ((left, slice(0, cut)), (right, slice(cut, 256))):
            unpacked = desk.post(f"/v1/packed/{part['id']}/unpack", {})
            assert desk.rows(unpacked) == [column[rows] for column in wanted]
            assert [entry["null_count"] for entry in part["columns"]] == [int((~valid[rows]).sum())] * 2


def test_a_great_many_columns_in_chunks(desk):
    arrays = [array for seed in range(16) for array in (numbers(pyarrow.uint64(), 4096, coins(4096, seed)), texts(4096))]
    columns, wanted = posted(desk, arrays)
    desk.whole(columns, wanted)


def test_one_row_with_and_without_a_mask(desk):
    columns, wanted = posted(desk, [numbers(pyarrow.int32(), 1, [True]), numbers(pyarrow.int64(), 1)])
    table = desk.whole(columns, wanted)
    desk.cut(table, wanted, [0, 1])


@pytest.mark.parametrize("rows", [10, 1_000_000])
def test_masks_without_nulls_stay(desk, rows):
    arrays = [numbers(pyarrow.int32(), 10, [True] * 10), texts(10, [True] * 10)]
    if rows > 10:
        text = numpy.tile(numpy.frombuffer(b"abcde", "u1"), rows)
        offsets = numpy.arange(rows + 1, dtype="<i4") * 5
        arrays = [pyarrow.array(numpy.arange(rows, dtype="<i4")),
                  pyarrow.Array.from_buffers(pyarrow.string(), rows, [None, *map(pyarrow.py_buffer, (offsets, text))])]
    bodies, wanted = [], [shown(array) for array in arrays] if rows == 10 else None
    for array in arrays:
        column = upload(desk, array)
        mask = desk.post("/v1/kernels/create_null_mask", {"size": rows, "state": "ALL_VALID"})["mask"]["id"]
        bodies.append(desk.post("/v1/columns", {"type": column["type"], "size": rows, "data": column["data"], "null_mask": mask,
                                                "children": column["children"]}))
    table = desk.table(bodies)
    packed = desk.post(f"/v1/tables/{table['id']}/pack", {})
    assert all(column["null_mask_offset"] >= 0 and column["null_count"] == 0 for column in packed["columns"])
    desk.streamed(table, packed)
    if wanted:
        desk.cut(table, wanted, [5])


# ---- strings -----------------------------------------------------------------------------------------

@pytest.mark.parametrize("kind", [pyarrow.string(), pyarrow.large_string()], ids=str)
def test_strings_whose_offsets_begin_anywhere_are_cut(desk, kind):
    columns, wanted = posted(desk, [texts(12, kind=kind), texts(12, coins(12), kind)])
    table = desk.whole(columns, wanted)
    for first, count in itertools.product(range(4, 8), range(1, 5)):
        desk.cut(table, wanted, [first, first + count])


STRINGS = {"nullable": [texts(10, [i not in (1, 4, 8) for i in range(10)])], "all null": [texts(10, [False] * 10)],
           "all null beside others": [texts(10, [False] * 10), texts(10)], "empty first": [pyarrow.array(["", None, "", "de", "", "fgh"] + [""] * 4)],
           "wide": [texts(10, coins(10), pyarrow.large_string())],
           "wide and narrow": [texts(10, coins(10), pyarrow.large_string()), texts(10, coins(10))]}


@pytest.mark.parametrize("name", STRINGS)
def test_strings_are_cut(desk, name):
    columns, wanted = posted(desk, STRINGS[name])
    table = desk.whole(columns, wanted)
    for cuts in ([2, 5, 9], [3, 7], [0, 2, 2]):
        desk.cut(table, wanted, cuts)


# ---- nested ------------------------------------------------------------------------------------------

I16 = pyarrow.list_(pyarrow.int16())
LISTS = [[1, 2], [], [3], None, [], [4, None, 6], [None], [], [9]]
DEEP = [[[1, 2], []], [], [[3]], None, [[], [4, None]], [None, [6]], [[]], [], [[9, 9, 9]]]
PEOPLE = [{"name": "Ada" * (i % 3), "age": i, "tags": [["a", None], None, []][: i % 4]} for i in range(9)]
INNER = pyarrow.struct([("i", pyarrow.int32()), ("f", pyarrow.float32()), ("s", pyarrow.string())])
OUTER = pyarrow.struct([("i", pyarrow.int32()), ("f", pyarrow.float32()), ("s", pyarrow.string()), ("l", I16), ("t", INNER)])
OUTER_ROWS = [None if i == 6 else {"i": i, "f": None if i % 3 == 1 else i / 2, "s": None if i == 2 else "x" * i,
                                   "l": None if i == 5 else list(range(i % 4)),
                                   "t": None if i % 4 == 3 else {"i": i, "f": float(i), "s": None if i == 1 else str(i)}}
              for i in range(8)]


def without_nulls(rows):
    if isinstance(rows, list):
        return [without_nulls(row) for row in rows if row is not None]
    return rows


WHOLE = {
    "numbers": [numbers(pyarrow.int64(), 7, [i not in (3, 5) for i in range(7)])],
    "numbers without a mask": [numbers(pyarrow.int64(), 7)],
    "three types": [numbers(kind, 7, coins(7, i)) for i, kind in enumerate((pyarrow.int16(), pyarrow.float32(), pyarrow.float64()))],
    "strings beside numbers": [numbers(pyarrow.int16(), 7, coins(7)), texts(7, coins(7, 2)), pyarrow.array([""] + ["b"] * 6)],
    "lists": [pyarrow.array(without_nulls(LISTS), pyarrow.list_(pyarrow.int32()))],
    "lists of lists": [pyarrow.array(without_nulls(DEEP), pyarrow.list_(pyarrow.list_(pyarrow.int32())))],
    "lists with nulls": [pyarrow.array(LISTS, pyarrow.list_(pyarrow.int32())), pyarrow.array(DEEP, pyarrow.list_(pyarrow.list_(pyarrow.int32())))],
    "structs": [pyarrow.array([{"s": str(i), "i": i, "b": i % 2 == 0} for i in range(9)])],
    "structs with nulls": [pyarrow.array([None if i % 4 == 2 else {"s": None if i % 3 else str(i), "i": i if i % 2 else None, "b": i < 3}
                                          for i in range(9)])],
    "structs of lists": [pyarrow.array(PEOPLE, pyarrow.struct([("name", pyarrow.string()), ("age", pyarrow.int32()), (
        "tags", pyarrow.list_(pyarrow.list_(pyarrow.string())))]))],
    "lists of structs": [pyarrow.array([[{"a": 1.5}, None], None, [], [{"a": None}]] * 2 + [[{"a": 2.5}]])],
    "strings beside structs": [pyarrow.array([["a", "b"], [], ["c"]]), pyarrow.array(
        [{"l": [1, 2], "n": 1}, {"l": [], "n": None}, {"l": [3], "n": 3}])],
    "structs without fields": [pyarrow.array([{}] * 5, pyarrow.struct([])), pyarrow.array([{}, None, {}, {}, None], pyarrow.struct([]))],
    "lists of wide strings": [pyarrow.array([[{"a": "x", "b": "yy"}], [], None, [{"a": None, "b": ""}] * 2, [None]], pyarrow.list_(
        pyarrow.struct([("a", pyarrow.large_string()), ("b", pyarrow.large_string())])))],
    "everything": [pyarrow.array(DEEP, pyarrow.list_(pyarrow.list_(pyarrow.int32()))), texts(9, coins(9)), numbers(pyarrow.float64(), 9),
                   pyarrow.array([{"d": deep, "t": str(i), "f": i / 4} for i, deep in enumerate(DEEP)], pyarrow.struct(
                       [("d", pyarrow.list_(pyarrow.list_(pyarrow.int32()))), ("t", pyarrow.string()), ("f", pyarrow.float32())]))],
    "structs of all": [pyarrow.array(OUTER_ROWS, OUTER)],
}


@pytest.mark.parametrize("name", WHOLE)
def test_nested_tables_are_cut_everywhere(desk, name):
    columns, wanted = posted(desk, WHOLE[name])
    table = desk.whole(columns, wanted)
    rows = table["num_rows"]
    for cuts in ([], [rows // 2], [1, rows - 1], [2, 3], [0, 0, rows]):
        desk.cut(table, wanted, cuts)


SLICES = [("everything", 1, [1, 4]), ("everything", 1, [0, 5]), ("lists with nulls", 2, [3, 4]), ("lists of structs", 2, [3, 4]),
          ("structs of lists", 2, [3, 4]), ("structs of all", 1, [3, 4]), ("structs of all", 1, [1])]


@pytest.mark.parametrize("name, first, cuts", SLICES)
def test_nested_tables_that_are_slices_are_cut(desk, name, first, cuts):
    columns, wanted = posted(desk, WHOLE[name], first)
    table = desk.whole(columns, wanted)
    desk.cut(table, wanted, cuts)


@pytest.mark.parametrize("first, count", [(0, 2), (2, 3), (5, 3)])
def test_each_part_of_a_sliced_struct_survives(desk, first, count):
    desk.whole(*posted(desk, WHOLE["structs of all"], first, count))


def test_both_halves_of_a_struct_are_cut_again(desk):
    columns, wanted = posted(desk, WHOLE["structs of all"])
    for part, rows in zip(desk.split(desk.table(columns), [4]), (slice(0, 4), slice(4, 8)), strict=True):
        half = [column[rows] for column in wanted]
        desk.cut(desk.check(part, half), half, [1])


def test_an_unpacked_table_can_be_sliced_and_cut(desk):
    rows = [{"l": [{"f": 0.5}, None], "s": "a"}, {"l": None, "s": None}, {"l": [], "s": "bc"}, None, {"l": [{"f": None}], "s": ""}] * 2
    array = pyarrow.array(rows, pyarrow.struct([("l", pyarrow.list_(pyarrow.struct([("f", pyarrow.float32())]))), ("s", pyarrow.string())]))
    columns, wanted = posted(desk, [array], 2)
    desk.cut(desk.whole(columns, wanted), wanted, [3, 4])


# ---- without rows ------------------------------------------------------------------------------------

EMPTY_KINDS = [pyarrow.string(), I16, pyarrow.float32(), pyarrow.struct([("f", pyarrow.float32()), ("s", pyarrow.string()), ("l", I16)]),
               pyarrow.int32(), pyarrow.decimal128(38, -3)]


def kept_without_rows(desk, table):
    """Packed, cut and streamed: each part is the empty table of the same types."""
    packed = desk.post(f"/v1/tables/{table['id']}/pack", {})
    assert packed["gpu_data_nbytes"] == 0
    desk.streamed(table, packed)
    types = [column["type"] for column in packed["columns"]]
    for cuts in ([], [0], [0, 0, 0, 0]):
        parts = desk.split(table, cuts)
        assert len(parts) == len(cuts) + 1
        for part in parts:
            assert part["metadata"] == packed["metadata"] and part["gpu_data_nbytes"] == 0
            unpacked = desk.check(part, [[] for _ in types])
            assert [desk.get(f"/v1/columns/{column}")["type"] for column in unpacked["columns"]] == types
    problem = desk.post(f"/v1/tables/{table['id']}/contiguous_split", {"splits": [1]}, expect=422)
    assert problem["code"] == "index_error"


def test_a_table_without_rows_keeps_its_types(desk):
    kept_without_rows(desk, desk.table(posted(desk, [pyarrow.array([], kind) for kind in EMPTY_KINDS])[0]))


@pytest.mark.parametrize("name", WHOLE)
def test_a_slice_without_rows_leaves_what_its_children_hold(desk, name):
    for first in (0, 2, 3):
        kept_without_rows(desk, desk.table(posted(desk, WHOLE[name], first, 0)[0]))


def empty_children(desk):
    """Columns without rows, some of which had some."""
    text = upload(desk, pyarrow.array(["abc", "d"]))
    integers = upload(desk, pyarrow.array([1, 2, 3], pyarrow.int32()))
    yield "STRING without offsets", desk.post("/v1/columns", {"type": {"name": "STRING"}, "size": 0})
    yield "STRING", desk.post("/v1/columns", {"type": {"name": "STRING"}, "size": 0, "offset": 1, "data": text["data"],
                                              "children": text["children"]})
    lists = upload(desk, pyarrow.array([[1], [2, 3]], pyarrow.list_(pyarrow.int32())))
    yield "LIST", desk.post("/v1/columns", {"type": {"name": "LIST"}, "size": 0, "offset": 2, "children": lists["children"]})
    yield "STRUCT", desk.post("/v1/columns", {"type": {"name": "STRUCT"}, "size": 0, "children": [integers["id"], text["id"]]})


def test_a_list_of_nothing_may_be_of_anything(desk):
    offsets = desk.post("/v1/columns", {"type": {"name": "INT32"}, "size": 2, "data": desk.view(numpy.zeros(2, "<i4"))["id"]})
    for name, child in empty_children(desk):
        column = desk.post("/v1/columns", {"type": {"name": "LIST"}, "size": 1, "children": [offsets["id"], child["id"]]})
        table = desk.table([column])
        packed = desk.post(f"/v1/tables/{table['id']}/pack", {})
        desk.check(packed, [[[]]])
        desk.streamed(table, packed)
        assert packed["columns"][0]["children"][1]["type"]["name"] == name.split()[0]
        for cuts in ([0], [1]):
            desk.cut(table, [[[]]], cuts)


# ---- both ways back ----------------------------------------------------------------------------------

def released(desk, packed):
    """Through release, with the handle gone before anything is made of what it held."""
    parts = desk.post(f"/v1/packed/{packed['id']}/release", {}, expect=200)
    desk.post(f"/v1/packed/{packed['id']}/release", {}, expect=409)
    desk.call("DELETE", f"/v1/packed/{packed['id']}")
    return desk.post("/v1/packed/unpack_from_memoryviews", {"metadata": parts["metadata"], "gpu_data": parts["gpu_data"]["id"]})


ROUND_TRIPS = ["no columns", "rows without columns", "three columns", "one row", *WHOLE]


@pytest.mark.parametrize("name", ROUND_TRIPS)
def test_tables_come_back_through_release_too(desk, name):
    body = {"columns": []}
    wanted, rows = [], 10 if name.startswith("rows") else 0
    if name not in ("no columns", "rows without columns"):
        arrays = {"three columns": [numbers(pyarrow.int64(), 3)] * 3, "one row": [numbers(pyarrow.int64(), 1)]}.get(name) or WHOLE[name]
        columns, wanted = posted(desk, arrays)
        body, rows = {"columns": [column["id"] for column in columns]}, len(arrays[0])
    table = desk.post("/v1/tables", {**body, "num_rows": rows} if not wanted else body)
    for unpack in (lambda packed: desk.post(f"/v1/packed/{packed['id']}/unpack", {}), lambda packed: released(desk, packed)):
        back = unpack(desk.post(f"/v1/tables/{table['id']}/pack", {}))
        assert (back["num_rows"], back["num_columns"]) == (rows, len(wanted)) and desk.rows(back) == wanted


@pytest.mark.parametrize("chunk", [1048576, 3072000])
def test_a_stream_of_a_long_table_unpacks_elsewhere(desk, chunk):
    rows = 100_000
    rng = random.Random(chunk)
    lengths = numpy.array([rng.randrange(100) for _ in range(rows)])
    offsets = numpy.concatenate([[0], numpy.cumsum(lengths)]).astype("<i4")
    text = numpy.frombuffer(rng.randbytes(int(offsets[-1])), "u1") % 26 + ord("a")
    arrays = [pyarrow.array(numpy.arange(rows)), pyarrow.Array.from_buffers(
        pyarrow.string(), rows, [None, pyarrow.py_buffer(offsets), pyarrow.py_buffer(text)])]
    columns, wanted = posted(desk, arrays)
    table = desk.table(columns)
    content = desk.call("GET", f"/v1/tables/{table['id']}/packed_stream?chunk_nbytes={chunk}")
    metadata = desk.call("GET", f"/v1/tables/{table['id']}/packed_metadata")
    view = desk.view(numpy.frombuffer(content, "u1"))
    body = {"metadata": base64.b64encode(metadata).decode(), "gpu_data": view["id"]}
    assert desk.rows(desk.post("/v1/packed/unpack_from_memoryviews", body)) == wanted
