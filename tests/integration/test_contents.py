# SPDX-License-Identifier: Apache-2.0
"""What views and buffers hold, as it leaves: ranges, .npy files, hexdumps, copies taken at one time; NumPy and xxd are the oracle."""

import email.parser
import email.policy
import io
import pathlib
import re
import shutil
import subprocess

import numpy
import pytest

from conftest import BACKEND, cai

MIB = 1 << 20


def parts_of(answer):
    """[(first, last, total, bytes)] of a multipart answer, read by Python's own parser."""
    text = b"Content-Type: " + answer.headers["Content-Type"].encode() + b"\r\n\r\n" + answer.content
    message = email.parser.BytesParser(policy=email.policy.HTTP).parsebytes(text)
    assert message.get_content_type() == "multipart/byteranges" and not message.defects
    found = []
    for part in message.iter_parts():
        assert part.get_content_type() == "application/octet-stream" and not part.defects
        span, total = part["Content-Range"].removeprefix("bytes ").split("/")
        first, last = map(int, span.split("-"))
        found.append((first, last, int(total)))
    # The parser may change line ends in parts, so their bytes are cut out by hand.
    boundary = b"\r\n--" + message.get_boundary().encode()
    chunks = (b"\r\n" + answer.content).split(boundary)
    assert chunks[0] == b"" and chunks[-1] == b"--\r\n"
    bodies = [chunk.split(b"\r\n\r\n", 1)[1] for chunk in chunks[1:-1]]
    assert len(bodies) == len(found)
    return [(*where, body) for where, body in zip(found, bodies)]


def paths_of(client, content):
    """The same bytes as a buffer, as a flat view, and as a view that must be gathered."""
    content = numpy.frombuffer(content, "u1")
    buffer = client.upload(content)
    flat = client.post("/v1/views", {"cuda_array_interface": cai(buffer["ptr"], [len(content)], "|u1")})
    backwards = client.upload(content[::-1])
    strided = client.post("/v1/views", {"cuda_array_interface": cai(backwards["ptr"] + len(content) - 1, [len(content)], "|u1",
                                                                    strides=[-1])})
    assert not strided["contiguous"]
    return [f"/v1/buffers/{buffer['id']}/data", f"/v1/views/{flat['id']}/data", f"/v1/views/{strided['id']}/data"]


# ---- several ranges ----

@pytest.mark.parametrize("nbytes", [64, 70_000, 3 * MIB + 5])
def test_several_ranges_come_in_parts(client, nbytes):
    content = numpy.random.default_rng(nbytes).integers(0, 256, nbytes, "u1").tobytes()
    wanted = [(0, 0), (1, 9), (20, 20), (33, nbytes - 20), (nbytes - 2, nbytes - 1)]
    text = "bytes=" + ",".join(f"{first}-{last}" for first, last in wanted)
    for path in paths_of(client, content):
        answer = client.call("GET", path, headers={"Range": text}, expect=206)
        assert "Content-Range" not in answer.headers and int(answer.headers["Content-Length"]) == len(answer.content)
        assert parts_of(answer) == [(first, last, nbytes, content[first:last + 1]) for first, last in wanted]


def test_sixteen_ranges_are_taken_and_seventeen_give_the_whole(client):
    content = bytes(range(100))
    for path in paths_of(client, content):
        for count in (2, 16, 17):
            text = "bytes=" + ", ".join(f"{5 * i}-{5 * i + 2}" for i in range(count))
            answer = client.call("GET", path, headers={"Range": text}, expect=206 if count <= 16 else 200)
            if count > 16:
                assert answer.content == content
            else:
                assert [part[3] for part in parts_of(answer)] == [content[5 * i:5 * i + 3] for i in range(count)]


@pytest.mark.parametrize("text, parts", [
    ("bytes=0-1,-2", [(0, 1), (8, 9)]), ("bytes=0-0,2-2,99-", [(0, 0), (2, 2)]), ("bytes=0-4,5-", [(0, 4), (5, 9)]),
    ("bytes=3-4,50-60", [(3, 4)]), ("bytes=-0,7-", [(7, 9)]), ("bytes=10-,11-,-0", None), ("bytes=2-3,0-1", []), ("bytes=0-5,5-6", []),
    ("bytes=0-1,0-1", []), ("bytes=0-1,zzz", []), ("bytes=0-8,-3", [])])
def test_lists_of_ranges(client, text, parts):
    """`[]` is the whole, None that no range holds a byte."""
    content = b"0123456789"
    for path in paths_of(client, content):
        if parts is None:
            answer = client.call("GET", path, headers={"Range": text}, expect=416)
            assert answer.headers["Content-Range"] == "bytes */10"
            continue
        answer = client.call("GET", path, headers={"Range": text}, expect=206 if parts else 200)
        if not parts:
            assert answer.content == content and "Content-Range" not in answer.headers
        elif len(parts) == 1:
            (first, last), = parts
            assert answer.headers["Content-Range"] == f"bytes {first}-{last}/10" and answer.content == content[first:last + 1]
        else:
            assert parts_of(answer) == [(first, last, 10, content[first:last + 1]) for first, last in parts]


def test_ranges_of_packed_data(client):
    """A packed handle's data are ranges like any other: ends are inclusive, several come in parts, stale conditions give the whole."""
    column = client.column(numpy.frombuffer(b"0123456789", "u1"))
    table = client.post("/v1/tables", {"columns": [column["id"]]})
    packed = client.post(f"/v1/tables/{table['id']}/pack")
    path = f"/v1/packed/{packed['id']}/data"
    content = client.bytes(path)
    assert content.startswith(b"0123456789")
    n = len(content)
    for text, first, last in (("bytes=0-3", 0, 3), ("bytes=-4", n - 4, n - 1), ("bytes=5-", 5, n - 1), ("bytes=9-9", 9, 9)):
        answer = client.call("GET", path, headers={"Range": text}, expect=206)
        assert answer.content == content[first:last + 1] and answer.headers["Content-Range"] == f"bytes {first}-{last}/{n}"
    parts = client.call("GET", path, headers={"Range": "bytes=0-0,2-2"}, expect=206)
    assert [part[3] for part in parts_of(parts)] == [b"0", b"2"]
    assert client.call("GET", path, headers={"Range": f"bytes={n}-"}, expect=416).headers["Content-Range"] == f"bytes */{n}"
    for headers in ({"Range": "bytes=3-1"}, {"Range": "bytes=0-3,2-5"}, {"Range": "items=0-3"}, {"Range": "bytes=0-3", "If-Range": '"stale"'},
                    {"Range": "bytes=" + ",".join(f"{i}-{i}" for i in range(1000))}):
        assert client.call("GET", path, headers=headers, expect=200).content == content
    assert client.bytes(path, params={"consistency": "snapshot"}) == content


def test_a_range_of_nothing_is_not_satisfiable(client):
    buffer = client.post("/v1/buffers", {"nbytes": 0})
    for text in ("bytes=0-", "bytes=-1", "bytes=0-0,5-6"):
        answer = client.call("GET", f"/v1/buffers/{buffer['id']}/data", headers={"Range": text}, expect=416)
        assert answer.headers["Content-Range"] == "bytes */0" and answer.json()["parameter"] == "Range"


def test_if_range_holds_for_sealed_contents_only(client):
    sealed = client.upload(b"0123456789", readonly="true")
    live = client.upload(b"0123456789")
    path = f"/v1/buffers/{sealed['id']}/data"
    etag = client.call("GET", path, expect=200).headers["ETag"]
    ranges = {"Range": "bytes=0-1,4-5"}
    assert [part[3] for part in parts_of(client.call("GET", path, headers={**ranges, "If-Range": etag}, expect=206))] == [b"01", b"45"]
    for wrong in ('"other"', "W/" + etag, etag.strip('"'), "Sat, 29 Nov 2026 10:00:00 GMT", "*"):
        assert client.call("GET", path, headers={**ranges, "If-Range": wrong}, expect=200).content == b"0123456789"
    live_path = f"/v1/buffers/{live['id']}/data"
    live_etag = client.call("GET", f"/v1/buffers/{live['id']}", expect=200).headers["ETag"]
    assert client.call("GET", live_path, headers={**ranges, "If-Range": live_etag}, expect=200).content == b"0123456789"
    # A precondition that fails goes before ranges, and a 304 has no body.
    answer = client.call("GET", path, headers={**ranges, "If-None-Match": etag}, expect=304)
    assert answer.content == b"" and answer.headers["ETag"] == etag
    client.refused("GET", path, 412, "precondition_failed", headers={**ranges, "If-Match": '"other"'})


def test_head_says_what_get_would_send(client):
    content = numpy.arange(100_000, dtype="u4").tobytes()
    for path in paths_of(client, content):
        for query in ("", "?consistency=snapshot"):
            head = client.call("HEAD", path + query, headers={"Range": "bytes=0-1,4-5"}, expect=200)
            assert int(head.headers["Content-Length"]) == len(content) and head.headers["Accept-Ranges"] == "bytes"
            assert head.headers["Content-Type"] == "application/octet-stream"


# ---- .npy ----

DTYPES = ["|u1", "<u2", "<u4", "<u8", "|i1", "<i2", "<i4", "<i8", "<f2", "<f4", "<f8", "|b1", "<c8", "<c16", "<M8[s]", "<M8[ms]",
          "<M8[us]", "<M8[ns]", "<m8[s]", "<m8[ms]", "<m8[us]", "<m8[ns]"]
LAYOUTS = {
    "flat": lambda a: a.ravel(), "c": lambda a: a, "fortran": lambda a: numpy.asfortranarray(a), "transposed": lambda a: a.T,
    "reversed": lambda a: a[::-1, ::-1], "every third": lambda a: a[:, ::3], "broadcast": lambda a: numpy.broadcast_to(a[2], (5, 16)),
    "cube": lambda a: a.reshape(4, 6, 16).transpose(2, 0, 1), "fortran cube": lambda a: numpy.asfortranarray(a.reshape(4, 6, 16)),
    "empty": lambda a: a[3:3], "0-d": lambda a: a[2, 3], "one column": lambda a: a[:, 5:6],
}


def whole_of(typestr):
    dtype = numpy.dtype(typestr)
    raw = numpy.random.default_rng(11).integers(0, 255, 24 * 16 * dtype.itemsize, "u1")
    return (raw % 2).view(dtype).reshape(24, 16) if dtype.kind == "b" else raw.view(dtype).reshape(24, 16)


def register(client, array, **members):
    """A view with the very layout of a NumPy array."""
    array = numpy.asarray(array)
    low, high = numpy.lib.array_utils.byte_bounds(array) if array.size else (0, 0)
    raw = numpy.ctypeslib.as_array((numpy.ctypeslib.ctypes.c_ubyte * (high - low)).from_address(low)) if high > low else numpy.empty(0, "u1")
    buffer = client.upload(raw.copy())
    address = buffer["ptr"] + (array.__array_interface__["data"][0] - low if array.size else 0)
    return client.post("/v1/views", {"cuda_array_interface": cai(address, array.shape, array.dtype.str, strides=list(array.strides)), **members})


@pytest.mark.parametrize("typestr", DTYPES)
def test_numpy_loads_every_type(client, typestr):
    for name in ("flat", "fortran", "every third"):
        array = LAYOUTS[name](whole_of(typestr))
        loaded = numpy.load(io.BytesIO(client.bytes(f"/v1/views/{register(client, array)['id']}/npy")), allow_pickle=False)
        assert loaded.dtype == array.dtype and loaded.shape == array.shape and loaded.tobytes() == array.tobytes()


@pytest.mark.parametrize("name", LAYOUTS)
def test_numpy_loads_every_layout(client, name):
    array = numpy.asarray(LAYOUTS[name](whole_of("<f4")))
    view = register(client, array)
    path = f"/v1/views/{view['id']}/npy"
    answer = client.call("GET", path, expect=200)
    loaded = numpy.load(io.BytesIO(answer.content), allow_pickle=False)
    assert loaded.dtype == array.dtype and loaded.shape == array.shape and loaded.tobytes() == array.tobytes()
    assert loaded.flags.c_contiguous == (array.flags.c_contiguous or not array.flags.f_contiguous)
    assert answer.headers["Content-Disposition"] == f'attachment; filename="{view["id"]}.npy"'
    assert int(answer.headers["Content-Length"]) == len(answer.content) and (len(answer.content) - array.nbytes) % 64 == 0
    assert client.call("HEAD", path, expect=200).headers["Content-Length"] == answer.headers["Content-Length"]


@pytest.mark.parametrize("name", ["flat", "fortran", "reversed", "empty"])
def test_ranges_of_a_file_are_parts_of_it(client, name):
    view = register(client, LAYOUTS[name](whole_of("<u4")))
    path = f"/v1/views/{view['id']}/npy"
    whole = client.bytes(path)
    for first, last in ((0, 5), (10, 127), (100, min(400, len(whole) - 1)), (0, len(whole) - 1), (len(whole) - 3, len(whole) - 1)):
        answer = client.call("GET", path, headers={"Range": f"bytes={first}-{last}"}, expect=206)
        assert answer.content == whole[first:last + 1]
        assert answer.headers["Content-Range"] == f"bytes {first}-{last}/{len(whole)}"
    wanted = [(0, 5), (60, 70), (100, min(300, len(whole) - 2)), (len(whole) - 1, len(whole) - 1)]
    answer = client.call("GET", path, headers={"Range": "bytes=" + ",".join(f"{a}-{b}" for a, b in wanted)}, expect=206)
    assert [part[3] for part in parts_of(answer)] == [whole[a:b + 1] for a, b in wanted]


def test_a_large_file_of_a_gathered_view(client):
    whole = numpy.arange(3 * 700 * 701, dtype="<i4").reshape(3, 700, 701)
    array = whole.transpose(1, 0, 2)[::-1]
    loaded = numpy.load(io.BytesIO(client.bytes(f"/v1/views/{register(client, array)['id']}/npy")))
    assert (loaded == array).all()


@pytest.mark.parametrize("dtype, itemsize", [("bfloat16", 2), ("float8_e4m3fn", 1), ("float8_e5m2", 1)])
def test_machine_learning_types_are_raw_bytes_in_files(client, dtype, itemsize):
    content = numpy.arange(24, dtype="u1")
    buffer = client.upload(content)
    view = client.post(f"/v1/buffers/{buffer['id']}/views", {"typestr": f"|V{itemsize}", "shape": [24 // itemsize], "dtype": dtype})
    loaded = numpy.load(io.BytesIO(client.bytes(f"/v1/views/{view['id']}/npy")))
    assert loaded.dtype == numpy.dtype(f"V{itemsize}") and loaded.tobytes() == content.tobytes()


def test_sealed_files_have_an_entity_tag(client):
    view = client.view(numpy.arange(5))
    copy = client.post(f"/v1/views/{view['id']}/copy", {"readonly": True})
    for what in ("data", "npy", "hexdump"):
        assert "ETag" not in client.call("GET", f"/v1/views/{view['id']}/{what}", expect=200).headers
        answer = client.call("GET", f"/v1/views/{copy['id']}/{what}", expect=200)
        assert answer.headers["Cache-Control"] == "no-cache"
        again = client.call("GET", f"/v1/views/{copy['id']}/{what}", headers={"If-None-Match": answer.headers["ETag"]}, expect=304)
        assert again.content == b""


# ---- hexdump ----

def test_a_hexdump_is_what_xxd_prints(client):
    content = numpy.random.default_rng(2).integers(0, 256, 5000, "u1").tobytes()
    program = shutil.which("xxd")
    for path in paths_of(client, content)[1:]:
        path = path.removesuffix("data") + "hexdump"
        assert client.call("GET", path, expect=200).text.count("\n") == 256
        for offset, limit in ((0, 4096), (0, 1), (0, 16), (3, 100), (4990, 4096), (16, 32), (4999, 1), (0, 5000)):
            answer = client.call("GET", path, params={"offset": offset, "limit": limit}, expect=200)
            assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
            lines = answer.text.splitlines()
            assert len(lines) == -(-min(limit, 5000 - offset) // 16)
            assert "".join(line[10:50].replace(" ", "") for line in lines) == content[offset:offset + limit].hex()
            if program:
                expected = subprocess.run([program, "-s", str(offset), "-l", str(limit)], input=content, capture_output=True, check=True)
                assert answer.content == expected.stdout


def test_a_hexdump_ends_where_the_bytes_do(client):
    path = f"/v1/views/{client.view(numpy.zeros(3, 'u1'))['id']}/hexdump"
    assert client.call("GET", path, params={"offset": 3}, expect=200).text == ""
    assert client.call("GET", path, params={"offset": 2 ** 53 - 1}, expect=200).text == ""
    for query in ({"offset": -1}, {"offset": 2 ** 53}, {"limit": 0}, {"limit": MIB + 1}, {"limit": "x"}, {"offset": "1.0"}):
        client.refused("GET", path, 400, "request_malformed", params=query)
    empty = client.post("/v1/views", {"cuda_array_interface": cai(0, [0], "|u1")})
    assert client.call("GET", f"/v1/views/{empty['id']}/hexdump", expect=200).text == ""


def test_a_mebibyte_is_dumped_at_once(client):
    content = bytes(range(256)) * 4097
    view = client.view(numpy.frombuffer(content, "u1"))
    text = client.call("GET", f"/v1/views/{view['id']}/hexdump", params={"limit": MIB}, expect=200).text
    assert text.count("\n") == MIB // 16 and text.splitlines()[-1].startswith("000ffff0: f0f1")


# ---- copies taken at one time ----

def test_a_snapshot_is_the_contents_at_one_time(client):
    for path in paths_of(client, b"0123456789"):
        answer = client.call("GET", path, params={"consistency": "snapshot"}, expect=200)
        assert answer.content == b"0123456789" and answer.headers["Cache-Control"] == "no-store"
        part = client.call("GET", path, params={"consistency": "snapshot"}, headers={"Range": "bytes=1-2,5-"}, expect=206)
        assert [part[3] for part in parts_of(part)] == [b"12", b"56789"]
        assert client.bytes(path, params={"consistency": "live"}) == b"0123456789"
        for wrong in ("", "Snapshot", "none"):
            client.refused("GET", path, 400, "request_malformed", params={"consistency": wrong})
        client.refused("GET", path + "?consistency", 400, "request_malformed")
    view = client.view(numpy.arange(6, dtype="<i2"))
    assert numpy.load(io.BytesIO(client.bytes(f"/v1/views/{view['id']}/npy?consistency=snapshot"))).tolist() == list(range(6))


def test_a_snapshot_does_not_change_while_it_is_sent(client):
    """The rest of a live download sees what is written meanwhile; that of a snapshot does not."""
    nbytes = 32 * MIB
    buffer = client.upload(b"a" * nbytes)
    seen = {}
    for consistency in ("live", "snapshot"):
        client.call("PUT", f"/v1/buffers/{buffer['id']}/data", data=b"a" * nbytes, headers={"Content-Type": "application/octet-stream"},
                    expect=200)
        answer = client.http.get(f"{client.url}/v1/buffers/{buffer['id']}/data", params={"consistency": consistency}, stream=True)
        first = answer.raw.read(1000)
        other = type(client)(client.url)
        assert other.get(f"/v1/handles/{buffer['id']}")["in_flight"] >= 1
        other.call("PUT", f"/v1/buffers/{buffer['id']}/data", data=b"b" * nbytes, headers={"Content-Type": "application/octet-stream"},
                   expect=200)
        seen[consistency] = first + answer.raw.read()
        assert len(seen[consistency]) == nbytes
    assert set(seen["snapshot"]) == {ord("a")}
    assert seen["live"].endswith(b"b")


def test_a_snapshot_leaves_no_memory_behind(client):
    view = register(client, whole_of("<f8").T)
    with client.unchanged():
        for _ in range(5):
            client.bytes(f"/v1/views/{view['id']}/data?consistency=snapshot")


# ---- bounded memory ----

def test_a_huge_broadcast_is_not_made_to_be_looked_at(client):
    """2^38 logical bytes over 16: the head, any range, and a dump of the end come at once, and nothing of that size is allocated."""
    buffer = client.upload(b"0123456789abcdef")
    view = client.post("/v1/views", {"cuda_array_interface": cai(buffer["ptr"], [1 << 34, 16], "|u1", strides=[0, 1])})
    path = f"/v1/views/{view['id']}"
    assert client.call("HEAD", f"{path}/data", expect=200).headers["Content-Length"] == str(1 << 38)
    part = client.call("GET", f"{path}/data", headers={"Range": f"bytes={(1 << 38) - 20}-"}, expect=206)
    assert part.content == b"cdef0123456789abcdef"
    npy = client.call("GET", f"{path}/npy", headers={"Range": "bytes=0-143"}, expect=206)
    assert npy.content.startswith(b"\x93NUMPY") and npy.content.endswith(b"0123456789abcdef")
    dump = client.call("GET", f"{path}/hexdump", params={"offset": (1 << 38) - 16}, expect=200).text
    assert dump == "3ffffffff0: 3031 3233 3435 3637 3839 6162 6364 6566  0123456789abcdef\n"


def resident(daemon):
    """Bytes of the daemon's own memory; shared memory, where buffers lie, is left out."""
    text = pathlib.Path(f"/proc/{daemon.process.pid}/status").read_text(encoding="ascii")
    return 1024 * int(re.search(r"RssAnon:\s+(\d+)", text).group(1))


@pytest.mark.parametrize("layout", ["contiguous", "gathered"])
def test_eight_downloads_of_a_gibibyte_take_no_memory_of_that_size(daemon, client, wait_until, layout):
    """All are under way at once, each a good way in, and what they take stays far below what they send."""
    if layout == "contiguous":
        source = client.post("/v1/buffers", {"nbytes": 1 << 30})["id"]
        path = f"/v1/buffers/{source}/data"
    else:
        buffer = client.upload(bytes(4096))
        view = client.post("/v1/views", {"cuda_array_interface": cai(buffer["ptr"], [1 << 18, 4096], "|u1", strides=[0, 1])})
        source = view["id"]
        path = f"/v1/views/{source}/data"
    before = resident(daemon)
    connections = [daemon.connect() for _ in range(8)]
    grown = 0
    for connection in connections:
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    for _ in range(16):
        for connection in connections:
            left = 2 * MIB
            while left > 0:
                chunk = connection.recv(min(left, MIB))
                assert chunk
                left -= len(chunk)
        grown = max(grown, resident(daemon) - before)
    for connection in connections:
        connection.close()
    wait_until(lambda: client.get(f"/v1/handles/{source}")["in_flight"] == 0)
    staging = 32 * MIB
    assert grown < 200 * MIB + staging, f"{grown / MIB:.0f} MiB"


@pytest.mark.skipif(BACKEND != "host", reason="the stand-in for the driver keeps device memory in the process")
@pytest.mark.parametrize("how", ["upload in chunks", "upload of a length", "put in chunks", "put of a length"])
def test_what_comes_in_takes_no_memory_of_its_size(daemon, client, how):
    nbytes, block, seen = 128 * MIB, bytes(range(256)) * 4096, []
    before = resident(daemon)

    def blocks():
        for i in range(nbytes // MIB):
            if i % 16 == 0:
                seen.append(resident(daemon) - before)
            yield block

    class Sized:
        """A body that tells its length first."""

        def __init__(self):
            self.blocks = blocks()

        def __len__(self):
            return nbytes

        def read(self, _):
            return next(self.blocks, b"")

        def __iter__(self):
            return self.blocks

    octets = {"Content-Type": "application/octet-stream"}
    body = blocks() if "chunks" in how else Sized()
    if how.startswith("upload"):
        buffer = client.call("POST", "/v1/buffers/upload", data=body, headers=octets, expect=201).json()
    else:
        buffer = client.post("/v1/buffers", {"nbytes": nbytes})
        assert client.call("PUT", f"/v1/buffers/{buffer['id']}/data", data=body, headers=octets, expect=200).json()["nbytes"] == nbytes
    assert buffer["nbytes"] == nbytes
    assert client.bytes(f"/v1/buffers/{buffer['id']}/data", headers={"Range": f"bytes={nbytes - 300}-"}, expect=206) == block[-300:]
    # Of an unknown length it is kept in device memory that doubles, which on the host is the process's own.
    limit = 64 * MIB if how != "upload in chunks" else 2 * 256 * MIB
    assert max(seen) < limit, f"{max(seen) / MIB:.0f} MiB"


def test_more_logical_bytes_than_one_call_may_pass_over(client):
    buffer = client.upload(b"0123456789abcdef")
    view = client.post("/v1/views", {"cuda_array_interface": cai(buffer["ptr"], [1 << 40, 16], "|u1", strides=[0, 1])})
    for what in ("data", "npy", "data?consistency=snapshot"):
        client.refused("GET", f"/v1/views/{view['id']}/{what}", 429, "quota_exceeded")


@pytest.mark.parametrize("path", ["buffers/buf_x/data", "views/view_x/data", "views/view_x/npy", "packed/pkd_x/data"])
def test_consistency_is_read_before_the_handle_is_looked_for(client, path):
    problem = client.refused("GET", f"/v1/{path}?consistency=dead", 400, "request_malformed")
    assert problem["parameter"] == "consistency"


def test_the_packed_size_follows_live_offsets_and_is_not_to_be_kept(client):
    table = client.post("/v1/tables", {"columns": [client.column(numpy.arange(3, dtype="<i4"))["id"]]})
    answer = client.call("GET", f"/v1/tables/{table['id']}/packed_size", expect=200)
    assert answer.headers["Cache-Control"] == "no-store"


def test_a_snapshot_copies_no_more_than_is_sent(client):
    """As below, the whole would be more than any machine has."""
    buffer = client.upload(b"abcd")
    view = client.post(f"/v1/buffers/{buffer['id']}/views", {"typestr": "<u2", "shape": [1 << 37, 2], "strides": [0, 2]})
    url = f"/v1/views/{view['id']}/data?consistency=snapshot"
    size = 1 << 39
    for begin, length in ((0, 1), (3, 70001), (size - 5, 5), ((1 << 38) + 1, 1 << 21)):
        answer = client.call("GET", url, headers={"Range": f"bytes={begin}-{begin + length - 1}"}, expect=206)
        assert answer.headers["Content-Range"] == f"bytes {begin}-{begin + length - 1}/{size}"
        assert answer.content == (b"abcd" * (length // 4 + 2))[begin % 4:][:length]
    several = client.call("GET", url, headers={"Range": "bytes=1-2,70000-70004"}, expect=206)
    assert [part[3] for part in parts_of(several)] == [b"bc", b"abcda"]
    client.refused("GET", url, 416, "range_not_satisfiable", headers={"Range": f"bytes={size}-"})
    npy = client.call("GET", f"/v1/views/{view['id']}/npy?consistency=snapshot", headers={"Range": "bytes=0-131"}, expect=206).content
    assert npy[:6] == b"\x93NUMPY" and npy[128:] == b"abcd"
    for headers in ({"Range": "bytes=0-1", "If-Range": '"x"'}, {"Range": "lines=0-1"}, {"Range": "bytes=0-,1-"}):
        client.refused("GET", url, 507, "device_out_of_memory", headers=headers)


def test_head_of_a_snapshot_copies_nothing(client):
    """More than any machine has: a copy would be 507."""
    buffer = client.upload(b"x")
    view = client.post(f"/v1/buffers/{buffer['id']}/views", {"typestr": "|u1", "shape": [1 << 39], "strides": [0]})
    answer = client.call("HEAD", f"/v1/views/{view['id']}/data?consistency=snapshot", expect=200)
    assert int(answer.headers["Content-Length"]) == 1 << 39
    client.refused("GET", f"/v1/views/{view['id']}/data?consistency=snapshot", 507, "device_out_of_memory")
