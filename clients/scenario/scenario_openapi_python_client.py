# SPDX-License-Identifier: Apache-2.0
"""The scenario of README.md with openapi-python-client's client: scenario_openapi_python_client.py URL."""

import io
import math
import struct
import sys

import gmvd_httpx_client as gmvd
from gmvd_httpx_client import models
from gmvd_httpx_client.api.buffers import create_buffer_view, upload_buffer
from gmvd_httpx_client.api.columns import create_column
from gmvd_httpx_client.api.kernels import nans_to_nulls
from gmvd_httpx_client.api.packed import get_packed_data, get_packed_metadata
from gmvd_httpx_client.api.sessions import create_session, delete_session
from gmvd_httpx_client.api.tables import create_table, split_table
from gmvd_httpx_client.api.views import byte_slice_view, create_view, delete_view, get_view
from gmvd_httpx_client.types import File


def main(url):
    client = gmvd.Client(base_url=url)
    session = create_session.sync(client=client, body=models.CreateSessionRequest(ttl_seconds=60))
    assert session.ttl_seconds == 60
    bears = {"client": client, "gmv_session": session.id}

    content = struct.pack("<10f", 1.5, math.nan, 3, 4, math.nan, 6, 7, 8, 9, 10)
    buffer = upload_buffer.sync(body=File(payload=io.BytesIO(content)), **bears)
    assert buffer.nbytes == 40

    typed = create_buffer_view.sync(buffer.id, body=models.CreateTypedViewRequest(typestr="<f4", shape=[10]), **bears)
    assert typed.nbytes == 40 and typed.shape == [10]

    payload = {"data": [buffer.ptr, False], "shape": [10], "typestr": "<f4", "version": 3}
    request = models.CreateViewRequest.from_dict({"cuda_array_interface": payload})
    view = create_view.sync(body=request, **bears)
    assert view.buffer == buffer.id and view.nbytes == 40

    part = byte_slice_view.sync(view.id, body=models.ByteSliceRequest(start=4, stop=-4), **bears)
    assert part.nbytes == 32

    mask = nans_to_nulls.sync(body=models.NansToNullsRequest(input_=view.id), **bears)
    assert mask.null_count == 2

    request = {"type": {"name": "FLOAT32"}, "size": 10, "data": view.id, "null_mask": mask.mask.id}
    column = create_column.sync(body=models.CreateColumnRequest.from_dict(request), **bears)
    assert column.null_count == 2

    table = create_table.sync(body=models.CreateTableRequest(columns=[column.id]), **bears)
    assert table.num_rows == 10

    packed = split_table.sync(table.id, body=models.SplitTableRequest(splits=[2, 5]), **bears).items
    assert [item.num_rows for item in packed] == [2, 3, 5]

    metadata = get_packed_metadata.sync_detailed(packed[0].id, client=client).content
    data = get_packed_data.sync_detailed(packed[0].id, client=client).content
    assert len(metadata) == 56 and metadata[0] == 2
    assert len(data) == 128 and data[64:68] == content[:4]

    answer = get_view.sync_detailed("view_00000000000000000000000000", client=client)
    assert answer.status_code == 404 and isinstance(answer.parsed, models.Problem)
    assert answer.parsed.status == 404 and answer.parsed.code == "handle_unknown"

    deletion = delete_view.sync(view.id, client=client)
    assert deletion.alive and {part.id, column.id} <= set(deletion.kept_alive_by)

    end = delete_session.sync(session.id, client=client)
    assert not end.alive and end.deleted >= 8
    print("well")


if __name__ == "__main__":
    main(sys.argv[1])
