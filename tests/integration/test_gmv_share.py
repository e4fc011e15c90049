# SPDX-License-Identifier: Apache-2.0
"""The Python helper of clients/python: arrays of this process in the daemon, and the daemon's memory here."""

import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
from multiprocessing import shared_memory

import numpy
import pytest

from conftest import BACKEND, SOURCE

HELPER = SOURCE / "clients" / "python"
sys.path.insert(0, str(HELPER))
import gmv_share  # noqa: E402

host_only = pytest.mark.skipif(BACKEND != "host", reason="NumPy arrays are shared with the host backend")
cuda_only = pytest.mark.skipif(BACKEND != "cuda", reason="CUDA memory is the CUDA backend's")


@pytest.fixture
def segment():
    memory = shared_memory.SharedMemory(create=True, size=8192)
    yield memory
    memory.close()
    memory.unlink()


# The host backend.


@host_only
def test_an_array_in_a_segment_is_shared_in_place(client, segment):
    array = numpy.ndarray((100,), "<f4", segment.buf, offset=64)
    array[:] = numpy.arange(100)
    with gmv_share.share(array, client.url, copy=False, label="in place") as shared:
        assert not shared.copied and shared.shape == (100,) and shared.nbytes == 400 and len(shared) == 100
        assert client.get(f"/v1/views/{shared.id}")["label"] == "in place"
        assert client.data(shared.id) == array.tobytes()
        array[3] = -7  # seen there without a word
        assert shared.values(offset=3, limit=1) == [-7.0]
        here = numpy.asarray(shared)
        assert here.__array_interface__["data"] == array.__array_interface__["data"]
    assert client.handles() == []
    del array, here


@host_only
@pytest.mark.parametrize("cut", [lambda a: a[::2], lambda a: a[::-1], lambda a: a.T, lambda a: a[2:5, 1:3]], ids=["step", "reversed", "transposed", "block"])
def test_every_layout_is_shared_in_place(client, segment, cut):
    whole = numpy.ndarray((10, 6), "<i4", segment.buf)
    whole[:] = numpy.arange(60).reshape(10, 6)
    array = cut(whole)
    with gmv_share.share(array, client.url, copy=False) as shared:
        assert client.data(shared.id) == numpy.ascontiguousarray(array).tobytes()
        assert (numpy.asarray(shared) == array).all() and numpy.asarray(shared).strides == array.strides
    del whole, array


@host_only
def test_other_memory_is_copied_once_or_refused(client):
    array = numpy.arange(12, dtype="<i2").reshape(3, 4)
    with client.unchanged(), pytest.raises(ValueError, match="without a copy"):
        gmv_share.share(array, client.url, copy=False)
    with gmv_share.share(array, client.url) as shared:
        assert shared.copied and client.data(shared.id) == array.tobytes()
        here = numpy.asarray(shared)
        here[1, 1] = 500  # the copy is what gmvd sees, not the source
        assert shared.values()[5] == 500 and array[1, 1] == 5
        assert (numpy.from_dlpack(shared) == here).all()
        segments = re.findall(r"(/dev/shm/gmv-share-\w+)", pathlib.Path("/proc/self/maps").read_text())
    assert segments and not any(os.path.exists(name) for name in segments)


@host_only
def test_a_readonly_array_stays_so(client, segment):
    array = numpy.ndarray((8,), "|u1", segment.buf)
    array.flags.writeable = False
    with gmv_share.share(array, client.url) as shared:
        assert client.get(f"/v1/views/{shared.id}")["readonly"] is True
        assert not numpy.asarray(shared).flags.writeable
    del array


def test_an_array_without_elements(client):
    with gmv_share.share(numpy.zeros((3, 0), "<f8"), client.url) as shared:
        assert shared.shape == (3, 0) and numpy.asarray(shared).shape == (3, 0)
    assert client.handles() == []


@host_only
def test_a_slice_is_a_view_of_its_own_over_the_same_memory(client, segment):
    array = numpy.ndarray((16,), "<u2", segment.buf)
    array[:] = numpy.arange(16)
    shared = gmv_share.share(array, client.url)
    tail = shared.byte_slice(-4)
    assert bytes(numpy.asarray(tail)) == array[-2:].tobytes() and tail.data() == array[-2:].tobytes()
    told = shared.delete()
    assert [answer["alive"] for answer in told] == [True, True] and shared.delete() == []
    assert told[0]["kept_alive_by"] == [tail.id]
    assert tail.data() == array[-2:].tobytes()
    tail.close()
    assert client.handles() == []
    del array


@host_only
def test_stats_are_the_daemons(client, segment):
    array = numpy.ndarray((5,), "<f8", segment.buf)
    array[:] = [1, 2, numpy.nan, 4, 5]
    with gmv_share.share(array, client.url) as shared:
        stats = shared.stats()
    assert (stats["nan_count"], stats["min"], stats["max"], stats["sum"], stats["mean"]) == (1, 1.0, 5.0, 12.0, 3.0)
    del array


@host_only
def test_a_buffer_of_gmvd_is_opened_without_a_copy(client):
    array = numpy.arange(50_000, dtype="<i4")
    view = client.view(array)
    opened = gmv_share.open(view["id"], client.url, copy=False)
    here = numpy.asarray(opened)
    assert not opened.copied and (here == array).all()
    here[7] = -1
    assert client.array(view["id"])[7] == -1
    opened.close()
    assert client.get(f"/v1/views/{view['id']}")["id"] == view["id"]  # what was opened is not ours to delete


@host_only
def test_a_small_buffer_is_cloned_or_refused(client):
    view = client.view(numpy.arange(9, dtype="<i8"))
    mask = client.post("/v1/kernels/create_null_mask", {"size": 64, "state": "ALL_VALID"})["mask"]
    before = {handle["id"] for handle in client.handles()}
    with pytest.raises(ValueError, match="without a copy"):
        gmv_share.open(mask["id"], client.url, copy=False)
    assert {handle["id"] for handle in client.handles()} == before
    with gmv_share.open(mask["id"], client.url) as opened:
        assert opened.copied and bytes(numpy.asarray(opened)) == b"\xff" * 64
    assert {handle["id"] for handle in client.handles()} == before
    assert view["id"] in before


@host_only
def test_a_readonly_view_opens_readonly(client):
    buffer = client.call("POST", "/v1/buffers/upload", params={"readonly": "true"}, data=bytes(1 << 17),
                         headers={"Content-Type": "application/octet-stream"}, expect=201).json()
    view = client.post(f"/v1/buffers/{buffer['id']}/views", {"typestr": "|u1", "shape": [100], "offset": 50})
    here = numpy.asarray(gmv_share.open(view["id"], client.url))
    assert not here.flags.writeable and here.nbytes == 100


# Errors are what pylibcudf raises.


def test_a_daemon_that_is_not_there_is_told_by_its_address():
    with pytest.raises(ConnectionRefusedError, match="no gmvd answers at http://127.0.0.1:1$"):
        gmv_share.share(numpy.zeros(3), "http://127.0.0.1:1")


def test_refusals_are_exceptions_of_the_right_kind(client):
    with gmv_share.share(numpy.zeros((0,), "<f8"), client.url) as shared:
        with pytest.raises(gmv_share.GmvTypeError) as caught:
            shared.byte_slice("a")
        assert isinstance(caught.value, TypeError) and caught.value.pointer == "/start" and caught.value.status == 422
    with pytest.raises(gmv_share.GmvError) as caught:
        shared.values()
    assert caught.value.code == "handle_deleted" and caught.value.status == 410
    with pytest.raises(TypeError):
        gmv_share.share(5, client.url)
    with pytest.raises(ValueError):
        gmv_share.share(numpy.zeros(1), "127.0.0.1:8080")


# The CUDA backend, on a GPU or with the stand-in for the driver. The helper runs in a process of its own, as its users do.


CUDA_SCRIPT = """
import ctypes, sys
sys.path.insert(0, sys.argv[1])
import numpy, gmv_share
from gmv_share import _cuda

class Array:
    pass

driver = _cuda.driver()
content = numpy.arange(1000, dtype="<f4")
address = ctypes.c_uint64()
with driver.current(driver.primary_context(0)):
    driver.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(4096))
    driver.call("cuMemcpyHtoD_v2", address, content.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(4000))
    driver.call("cuCtxSynchronize")

def read(address, nbytes):
    into = ctypes.create_string_buffer(nbytes)
    with driver.current(driver.primary_context(0)):
        driver.call("cuMemcpyDtoH_v2", into, ctypes.c_uint64(address), ctypes.c_size_t(nbytes))
    return into.raw

array = Array()
array.__cuda_array_interface__ = {"data": (address.value + 400, False), "shape": (450,), "strides": (8,), "typestr": "<f4", "version": 3, "stream": 1}
url = sys.argv[2]
with gmv_share.share(array, url, copy=False) as shared:
    assert not shared.copied
    assert shared.data() == content[100:1000:2].tobytes()
    interface = shared.__cuda_array_interface__
    assert interface["data"] == (address.value + 400, False) and interface["strides"] == (8,), interface
    assert not hasattr(shared, "__array_interface__")
array.__cuda_array_interface__ = {"data": (address.value, True), "shape": (10,), "typestr": "<f4", "version": 3}
with gmv_share.share(array, url, copy=True) as shared:
    assert shared.copied and shared.data() == content[:10].tobytes() and shared.view["readonly"]
    tail = shared.byte_slice(-4)
    assert read(tail.__cuda_array_interface__["data"][0], 4) == content[9:10].tobytes()
    tail.delete()
opened = gmv_share.open(sys.argv[3], url, copy=False)
assert read(opened.__cuda_array_interface__["data"][0], opened.nbytes) == bytes(range(100)) * 1000
opened.close()
try:
    opened.__cuda_array_interface__
    raise SystemExit("a closed array still has an address")
except ValueError:
    print("well")
"""


@cuda_only
def test_cuda_memory_goes_both_ways(client):
    view = client.view(numpy.frombuffer(bytes(range(100)) * 1000, "u1"))
    done = subprocess.run([sys.executable, "-c", CUDA_SCRIPT, str(HELPER), client.url, view["id"]],
                          capture_output=True, text=True, timeout=600)
    assert done.returncode == 0 and done.stdout == "well\n", done.stderr
    assert {handle["id"] for handle in client.handles() if handle["named"]} == {view["id"], view["buffer"]}


def test_it_installs_with_pip_from_the_tree(tmp_path):
    if not all(importlib.util.find_spec(name) for name in ("pip", "setuptools", "wheel")):
        pytest.skip("this Python has no pip, setuptools and wheel")
    shutil.copytree(HELPER, tmp_path / "tree")  # building leaves files beside the sources
    done = subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index",
                           "--target", str(tmp_path / "installed"), str(tmp_path / "tree")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = subprocess.run([sys.executable, "-c", "import gmv_share; print(gmv_share.__file__, *gmv_share.__all__)"], cwd=tmp_path,
                           env={**os.environ, "PYTHONPATH": str(tmp_path / "installed")}, capture_output=True, text=True)
    assert found.returncode == 0 and "share" in found.stdout.split() and str(tmp_path / "installed") in found.stdout, found.stderr
    assert (tmp_path / "installed" / "gmv_share" / "py.typed").exists()


def test_its_types_hold():
    if not importlib.util.find_spec("mypy"):
        pytest.skip("this Python has no mypy")
    done = subprocess.run([sys.executable, "-m", "mypy", "--config-file", "pyproject.toml", "--cache-dir", os.devnull], cwd=HELPER,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
