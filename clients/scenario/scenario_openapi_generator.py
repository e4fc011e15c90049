# SPDX-License-Identifier: Apache-2.0
"""The scenario of README.md with openapi-generator's Python client: scenario_openapi_generator.py URL."""

import math
import struct
import sys

import gmvd_client as gmvd


def main(url):
    client = gmvd.ApiClient(gmvd.Configuration(host=url))
    sessions, buffers, views = gmvd.SessionsApi(client), gmvd.BuffersApi(client), gmvd.ViewsApi(client)
    tables, packed_tables = gmvd.TablesApi(client), gmvd.PackedApi(client)

    session = sessions.create_session(create_session_request=gmvd.CreateSessionRequest(ttl_seconds=60))
    assert session.ttl_seconds == 60
    bears = {"gmv_session": session.id}

    content = struct.pack("<10f", 1.5, math.nan, 3, 4, math.nan, 6, 7, 8, 9, 10)
    buffer = buffers.upload_buffer(content, **bears)
    assert buffer.nbytes == 40

    typed = buffers.create_buffer_view(buffer.id, gmvd.CreateTypedViewRequest(typestr="<f4", shape=[10]), **bears)
    assert typed.nbytes == 40 and typed.shape == [10]

    payload = {"data": [buffer.ptr, False], "shape": [10], "typestr": "<f4", "version": 3}
    view = views.create_view(gmvd.CreateViewRequest(cuda_array_interface=payload), **bears)
    assert view.buffer == buffer.id and view.nbytes == 40

    part = views.byte_slice_view(view.id, byte_slice_request=gmvd.ByteSliceRequest(start=4, stop=-4), **bears)
    assert part.nbytes == 32

    mask = gmvd.KernelsApi(client).nans_to_nulls(gmvd.NansToNullsRequest(input=view.id), **bears)
    assert mask.null_count == 2

    request = gmvd.CreateColumnRequest(type=gmvd.ColumnTypeRequest(name="FLOAT32"), size=10, data=view.id, null_mask=mask.mask.id)
    column = gmvd.ColumnsApi(client).create_column(request, **bears)
    assert column.null_count == 2

    table = tables.create_table(gmvd.CreateTableRequest(columns=[column.id]), **bears)
    assert table.num_rows == 10

    packed = tables.split_table(table.id, gmvd.SplitTableRequest(splits=[2, 5]), **bears).items
    assert [item.num_rows for item in packed] == [2, 3, 5]

    metadata, data = packed_tables.get_packed_metadata(packed[0].id), packed_tables.get_packed_data(packed[0].id)
    assert len(metadata) == 56 and metadata[0] == 2
    assert len(data) == 128 and data[64:68] == content[:4]

    try:
        views.get_view("view_00000000000000000000000000")
        raise AssertionError("a view that never was")
    except gmvd.exceptions.NotFoundException as error:
        problem = gmvd.Problem.from_json(error.body)
        assert problem.status == 404 and problem.code == "handle_unknown"

    deletion = views.delete_view(view.id)
    assert deletion.alive and {part.id, column.id} <= set(deletion.kept_alive_by)

    end = sessions.delete_session(session.id)
    assert not end.alive and end.deleted >= 8
    print("well")


if __name__ == "__main__":
    main(sys.argv[1])
