# SPDX-License-Identifier: Apache-2.0
"""The Python helper with the real libraries: their arrays in gmvd, gmvd's memory in them."""

import subprocess
import sys

import numpy
import pytest

from support import HERE, PACKAGES, worker_command


@pytest.mark.parametrize("library", ["cupy", "torch", "numba"])
def test_arrays_go_both_ways(client, library):
    worker_command(f"{library}_worker")  # skips where the package is missing
    assert f"{library}_worker" in PACKAGES
    view = client.view(numpy.arange(25_000, dtype="<f4"))
    done = subprocess.run([sys.executable, str(HERE / "workers" / "share_helper.py"), library, client.url, view["id"]],
                          capture_output=True, text=True, timeout=140)
    assert done.returncode == 0 and done.stdout == "well\n", f"{done.stdout}\n{done.stderr[-3000:]}"
    left = {handle["id"] for handle in client.handles() if handle["named"] and handle["kind"] == "buffer"}
    assert left == {view["buffer"]}
