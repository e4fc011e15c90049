# SPDX-License-Identifier: Apache-2.0
"""A Python client generated from the document does the main job against a running daemon."""

import base64
import importlib
import json
import math
import os
import pkgutil
import struct
import subprocess
import sys
from io import BytesIO

import pytest

from openapi_check import DOCUMENT

pytest.importorskip("openapi_python_client", reason="openapi-python-client is not installed")

PACKAGE = "gmvd_generated_client"
VALUES = [1.5, math.nan, 3.0, 4.0, math.nan, 6.0, 7.0, 8.0, 9.0, 10.0]


@pytest.fixture(scope="module")
def generated(tmp_path_factory):
    """The generated package. A warning of the generator is a failure: something would be missing."""
    folder = tmp_path_factory.mktemp("client")
    config = folder / "config.json"
    config.write_text(json.dumps({"post_hooks": []}), encoding="utf-8")
    outcome = subprocess.run(
        [sys.executable, "-m", "openapi_python_client", "generate", "--path", DOCUMENT, "--config", config,
         "--meta", "none", "--output-path", folder / PACKAGE, "--fail-on-warning"],
        capture_output=True, text=True, check=False, env={**os.environ, "NO_COLOR": "1"}, timeout=300)
    report = outcome.stdout + outcome.stderr
    assert outcome.returncode == 0, report
    assert "WARNING" not in report.upper(), report
    sys.path.insert(0, str(folder))
    try:
        yield importlib.import_module(PACKAGE)
    finally:
        sys.path.remove(str(folder))
        for name in [n for n in sys.modules if n == PACKAGE or n.startswith(PACKAGE + ".")]:
            del sys.modules[name]


class Api:
    """Calls by operationId: `api.get_view(...)` finds the module, sends, and holds the status against what is due."""

    def __init__(self, package, url):
        self.models = importlib.import_module(PACKAGE + ".models")
        self.types = importlib.import_module(PACKAGE + ".types")
        self._client = package.Client(base_url=url)
        self._modules = {}
        api = importlib.import_module(PACKAGE + ".api")
        for found in pkgutil.walk_packages(api.__path__, api.__name__ + "."):
            if not found.ispkg:
                self._modules[found.name.rsplit(".", 1)[1]] = found.name

    def __getattr__(self, name):
        module = importlib.import_module(self._modules[name])

        def call(*arguments, due=200, **named):
            response = module.sync_detailed(*arguments, client=self._client, **named)
            assert int(response.status_code) == due, response.content
            return response.parsed

        return call


@pytest.fixture
def api(generated, daemon):
    return Api(generated, daemon.url)


def file_of(api, payload):
    return api.types.File(payload=BytesIO(payload))


def test_every_module_of_the_client_imports(generated):
    names = [m.name for m in pkgutil.walk_packages(generated.__path__, PACKAGE + ".")]
    for name in names:
        importlib.import_module(name)
    document = json.loads(DOCUMENT.read_text(encoding="utf-8"))
    operations = sum(len(item) for item in document["paths"].values())
    assert sum(".api." in name and name.count(".") == 3 for name in names) == operations


def test_main_job(api):
    models = api.models
    contents = struct.pack("<10f", *VALUES)
    buffer = api.upload_buffer(body=file_of(api, contents), label="main job", due=201)
    assert (buffer.nbytes, buffer.origin, buffer.label) == (40, "uploaded", "main job")

    view = api.create_buffer_view(buffer.id, body=models.CreateTypedViewRequest(typestr="<f4", shape=[10]), due=201)
    assert (view.shape, view.strides, view.buffer, view.cudf_type.name) == ([10], None, buffer.id, "FLOAT32")
    assert view.cuda_array_interface["data"] == [buffer.ptr, False]

    made = api.nans_to_nulls(body=models.NansToNullsRequest(input_=view.id), due=201)
    assert (made.null_count, made.mask.nbytes) == (2, 64)

    column = api.create_column(due=201, body=models.CreateColumnRequest(
        type_=models.ColumnTypeRequest(name=models.ColumnTypeRequestName.FLOAT32), size=10, data=view.id,
        null_mask=made.mask.id))
    assert (column.null_count, column.nullable, column.type_.type_id) == (2, True, 9)

    table = api.create_table(body=models.CreateTableRequest(columns=[column.id]), due=201)
    assert (table.num_rows, table.columns) == (10, [column.id])

    parts = api.split_table(table.id, body=models.SplitTableRequest(splits=[2, 5]), due=201).items
    assert [part.num_rows for part in parts] == [2, 3, 5]

    expected = iter([1.5, None, 3.0, 4.0, None, 6.0, 7.0, 8.0, 9.0, 10.0])
    for part in parts:
        metadata = api.get_packed_metadata(part.id).payload.read()
        assert metadata == base64.b64decode(part.metadata) and len(metadata) == part.metadata_nbytes
        assert len(api.get_packed_data(part.id).payload.read()) == part.gpu_data_nbytes
        unpacked = api.unpack_packed(part.id, body=models.UnpackPackedRequest(), due=201)
        assert unpacked.num_columns == 1
        rows = api.get_column_values(unpacked.columns[0]).values
        assert rows == [next(expected) for _ in range(part.num_rows)]
    assert next(expected, "end") == "end"

    gone = api.delete_buffer(buffer.id, if_held=models.DeleteBufferIfHeld.CASCADE)
    assert (gone.alive, gone.deleted) == (False, 4)
    assert set(gone.freed) == {buffer.id, view.id, column.id, table.id}
    problem = api.get_buffer(buffer.id, due=410)
    assert isinstance(problem, models.Problem) and problem.code == "handle_deleted"
    api.delete_view(made.mask.id)
    for part in parts:
        api.delete_packed(part.id, if_held=models.DeletePackedIfHeld.CASCADE)


def test_bytes_travel_unchanged(api):
    contents = bytes([0, 255, 128, 10, 34, 123, 13, 10, 0])
    buffer = api.upload_buffer(body=file_of(api, contents), due=201)
    assert api.get_buffer_data(buffer.id).payload.read() == contents
    assert api.get_buffer_data(buffer.id, range_="bytes=1-3", due=206).payload.read() == contents[1:4]
    written = api.put_buffer_data(buffer.id, offset=2, body=file_of(api, b"\0\xfe"))
    assert (written.offset, written.nbytes) == (2, 2)
    assert api.get_buffer_data(buffer.id).payload.read() == contents[:2] + b"\0\xfe" + contents[4:]
    assert api.delete_buffer(buffer.id).freed_nbytes == len(contents)


def test_errors_are_problems_with_pointers(api):
    buffer = api.create_buffer(body=api.models.CreateBufferRequest(nbytes=8), due=201)
    request = api.models.CreateTypedViewRequest(typestr="<f4", shape=[3])
    problem = api.create_buffer_view(buffer.id, body=request, due=422)
    assert (problem.code, problem.pointer) == ("out_of_bounds", "/shape")
    assert api.get_view("view_" + "0" * 26, due=404).code == "handle_unknown"
    api.delete_buffer(buffer.id)


def test_sizes_beyond_32_bits_arrive_whole(api):
    """Each of 2^32 + 8 rows shows the same byte: large by its numbers alone."""
    models, large = api.models, (1 << 32) + 8
    buffer = api.create_buffer(body=models.CreateBufferRequest(nbytes=1), due=201)
    request = models.CreateTypedViewRequest(typestr="|u1", shape=[large], strides=[0])
    made = api.create_buffer_view(buffer.id, body=request, due=201)
    for view in (made, api.get_view(made.id)):
        assert (view.nbytes, view.size, view.len_, view.shape, view.ptr) == (large, large, large, [large], buffer.ptr)
    sliced = api.get_view_values(made.id, offset=large - 2)
    assert (sliced.size, sliced.offset, sliced.count, sliced.values) == (large, large - 2, 2, [0, 0])
    assert api.delete_buffer(buffer.id, if_held=models.DeleteBufferIfHeld.CASCADE).deleted == 2


def test_null_is_read_where_there_is_nothing_to_say(api):
    models = api.models
    payload = models.CreateViewRequestCudaArrayInterface.from_dict({"data": [0, False], "shape": [0], "typestr": "<f8", "version": 3})
    view = api.create_view(body=models.CreateViewRequest(cuda_array_interface=payload), due=201)
    assert [view.strides, view.buffer, view.device, view.label, view.mask] == [None] * 5
    assert (view.nbytes, view.contiguous) == (0, True)
    api.delete_view(view.id)


def test_lists_of_inputs_and_answers_in_lists_are_read(api):
    models = api.models
    buffer = api.upload_buffer(body=file_of(api, bytes([5] * 64)), due=201)
    view = api.create_buffer_view(buffer.id, body=models.CreateTypedViewRequest(typestr="|u1", shape=[8]), due=201)
    columns = [api.create_column(due=201, body=models.CreateColumnRequest(
        type_=models.ColumnTypeRequest(name=models.ColumnTypeRequestName.UINT8), size=8, data=view.id, null_mask=view.id)).id
        for _ in range(2)]
    both = api.bitmask_and(body=models.CombineBitmasksRequest(columns=columns), due=201)
    assert (both.null_count, both.mask.nbytes) == (6, 64)
    listed = api.list_handles()
    assert {buffer.id, view.id, *columns, both.mask.id} == {item.id for item in listed.items}
    api.delete_buffer(buffer.id, if_held=models.DeleteBufferIfHeld.CASCADE)
    api.delete_view(both.mask.id)


REFUSALS = [
    (400, "request_malformed", lambda api: api.get_view_values("view_" + "0" * 26, limit=0, due=400)),
    (404, "handle_unknown", lambda api: api.get_buffer("buf_" + "0" * 26, due=404)),
    (422, "value_error", lambda api: api.create_buffer(body=api.models.CreateBufferRequest(nbytes=-1), due=422)),
    (429, "quota_exceeded", lambda api: api.create_buffer(body=api.models.CreateBufferRequest(nbytes=2 ** 63 - 1), due=429)),
]


@pytest.mark.parametrize("status, code, call", REFUSALS, ids=[code for _, code, _ in REFUSALS])
def test_refusals_show_their_code_and_words(api, status, code, call):
    problem = call(api)
    assert isinstance(problem, api.models.Problem)
    assert (problem.status, problem.code) == (status, code) and problem.detail and problem.request_id


def test_conflicts_and_ranges_are_problems_too(api):
    models = api.models
    buffer = api.upload_buffer(body=file_of(api, bytes(8)), due=201)
    view = api.create_buffer_view(buffer.id, body=models.CreateTypedViewRequest(typestr="|u1", shape=[8]), due=201)
    held = api.delete_buffer(buffer.id, if_held=models.DeleteBufferIfHeld.REFUSE, due=409)
    assert (held.code, held.dependents) == ("held_by_dependents", [view.id])
    assert api.get_buffer_data(buffer.id, range_="bytes=8-", due=416).code == "range_not_satisfiable"
    api.delete_buffer(buffer.id, if_held=models.DeleteBufferIfHeld.CASCADE)
    assert api.get_view(view.id, due=410).alive is False
