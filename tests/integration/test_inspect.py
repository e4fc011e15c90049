# SPDX-License-Identifier: Apache-2.0
"""Looking inside arrays: statistics, histograms, checksums, comparisons, with NumPy and a table of bytes as oracles."""

import math
import re
import socket
import struct

import numpy
import pytest

from conftest import cai

INTEGERS = ["|u1", "<u2", "<u4", "<u8", "|i1", "<i2", "<i4", "<i8"]
FLOATS = ["<f2", "<f4", "<f8"]
EPSILON = 2.0 ** -53


def random_array(typestr, n, seed=0):
    """Every kind of element: with the extremes of its type, and what is no number."""
    random = numpy.random.default_rng(seed)
    dtype = numpy.dtype(typestr)
    if dtype.kind == "b":
        return random.integers(0, 2, n).astype(dtype)
    if dtype.kind in "Mm":
        return random.integers(-2 ** 62, 2 ** 62, n).astype("<i8").view(dtype)
    if dtype.kind in "iu":
        return numpy.frombuffer(random.bytes(n * dtype.itemsize), dtype).copy()
    array = (random.standard_normal(n) * 100 + 1000).astype(dtype)
    if n > 9:
        array[random.integers(0, n, 1 + n // 20)] = numpy.nan
        array[random.integers(0, n, 1 + n // 30)] = numpy.inf
        array[random.integers(0, n, 1 + n // 30)] = -numpy.inf
        array[random.integers(0, n, 1 + n // 20)] = 0
    return array


def expected_statistics(array, valid=None):
    """What NumPy says of the flat array."""
    flat = array.reshape(-1)
    valid = numpy.ones(len(flat), bool) if valid is None else valid.reshape(-1)
    nulls = int((~valid).sum())
    if flat.dtype.kind in "Mm":
        flat = flat.view("<i8")
    if flat.dtype.kind == "b":
        flat = flat.astype("u1")
    kept = flat[valid]
    counts = {"count": len(flat), "null_count": nulls, "nan_count": 0, "inf_count": 0}
    if flat.dtype.kind == "f":
        counts["nan_count"] = int(numpy.isnan(kept).sum())
        counts["inf_count"] = int(numpy.isinf(kept).sum())
        kept = kept[numpy.isfinite(kept)]
    counts["zero_count"] = int((kept == 0).sum())
    if len(kept) == 0:
        return counts, None
    if flat.dtype.kind == "f":
        exact = math.fsum(kept.astype("f8"))
        return counts, (float(kept.min()), float(kept.max()), exact, exact / len(kept), float(kept.astype("f8").std()),
                        float(numpy.abs(kept.astype("f8")).sum()))
    exact = sum(int(value) for value in kept)
    mean = exact / len(kept)
    deviation = math.sqrt(math.fsum((float(value) - mean) ** 2 for value in kept) / len(kept))
    return counts, (int(kept.min()), int(kept.max()), exact, mean, deviation, abs(exact))


def check_statistics(got, array, valid=None):
    counts, numbers = expected_statistics(array, valid)
    assert {name: got[name] for name in counts} == counts
    if numbers is None:
        assert [got[name] for name in ("min", "max", "sum", "mean", "std")] == [None] * 5 and got["sum_overflow"] is False
        return
    least, greatest, exact, mean, deviation, magnitude = numbers
    if isinstance(exact, int):
        assert (got["min"], got["max"]) == (least, greatest)
        assert type(got["min"]) is int and type(got["max"]) is int
        fits = -2 ** 63 <= exact < 2 ** 63
        assert got["sum"] == (exact if fits else None) and got["sum_overflow"] is not fits
        assert got["mean"] == pytest.approx(mean, rel=1e-15)
    else:
        # The fewest digits that read back to the same float of its own type.
        assert (array.dtype.type(got["min"]), array.dtype.type(got["max"])) == (least, greatest)
        assert abs(got["sum"] - exact) <= 128 * EPSILON * magnitude and got["sum_overflow"] is False
        assert abs(got["mean"] - mean) * counts["count"] <= 256 * EPSILON * magnitude
    assert got["std"] == pytest.approx(deviation, rel=1e-10, abs=1e-300)


def statistics(client, view, **query):
    return client.get(f"/v1/views/{view['id']}/statistics", params=query)


# ---- statistics


@pytest.mark.parametrize("typestr", INTEGERS + FLOATS + ["|b1", "<M8[s]", "<m8[ns]"])
@pytest.mark.parametrize("n", [1, 100, 8192, 20001])
def test_statistics_are_numpys(client, typestr, n):
    array = random_array(typestr, n, n)
    check_statistics(statistics(client, client.view(array)), array)


def test_statistics_of_nothing(client):
    for array in (numpy.zeros(0, "<f4"), numpy.full(5, numpy.nan, "<f8"), numpy.array([numpy.inf, -numpy.inf], "<f4")):
        check_statistics(statistics(client, client.view(array)), array)


@pytest.mark.parametrize("typestr", ["<f4", "<i2", "|u1", "<f8"])
def test_statistics_of_any_layout(client, typestr):
    """Strided, reversed, transposed and broadcast arrays, and single elements."""
    array = random_array(typestr, 24 * 50, 3).reshape(24, 50)
    buffer = client.upload(array)
    size = array.dtype.itemsize
    layouts = [
        (array[::2, ::3], 0, [12, 17], [100 * size, 3 * size]),
        (array[::-1, ::-1], (24 * 50 - 1) * size, [24, 50], [-50 * size, -size]),
        (array.T, 0, [50, 24], [size, 50 * size]),
        (numpy.broadcast_to(array[3, :7], (11, 7)), 150 * size, [11, 7], [0, size]),
        (array[5, 6].reshape(()), (5 * 50 + 6) * size, [], []),
    ]
    for wanted, offset, shape, strides in layouts:
        view = client.post("/v1/views", {"cuda_array_interface": cai(buffer["ptr"] + offset, shape, typestr, strides=strides)})
        check_statistics(statistics(client, view), numpy.ascontiguousarray(wanted))


def test_a_sum_beyond_64_bits_and_one_beyond_a_double(client):
    got = statistics(client, client.view(numpy.full(3, 2 ** 63 - 1, "<i8")))
    assert got["sum"] is None and got["sum_overflow"] is True and got["mean"] == 2.0 ** 63 and got["std"] == 0
    got = statistics(client, client.view(numpy.array([2 ** 63 - 1, 2 ** 63 - 1, -2 ** 63, -2 ** 63, 2], "<i8")))
    assert got["sum"] == 0 and got["sum_overflow"] is False
    got = statistics(client, client.view(numpy.full(4, 1e308)))
    assert got["sum"] is None and got["sum_overflow"] is True and got["mean"] is None and got["max"] == 1e308
    got = statistics(client, client.view(numpy.array([2 ** 64 - 1, 0], "<u8")))
    assert got["max"] == 2 ** 64 - 1 and got["sum"] is None and got["mean"] == 2.0 ** 63


def test_a_deviation_far_from_zero(client):
    array = 1e9 + numpy.tile([4.0, 7.0, 13.0, 16.0], 25000)
    got = statistics(client, client.view(array))
    assert got["std"] == pytest.approx(math.sqrt(22.5), rel=1e-9) and got["mean"] == 1e9 + 10


@pytest.mark.parametrize("n", [5, 64, 9000])
def test_masks_of_the_request(client, n):
    array = random_array("<f4", n, 5)
    valid = numpy.random.default_rng(6).integers(0, 2, n).astype(bool)
    view = client.view(array)
    bools, bits = client.view(valid), client.view(numpy.packbits(valid, bitorder="little"))
    for mask in (bools, bits):
        check_statistics(statistics(client, view, mask=mask["id"]), array, valid)
    words = numpy.zeros(-(-n // 32), "<u4")
    words.view("u1")[:-(-n // 8)] = numpy.packbits(valid, bitorder="little")
    check_statistics(statistics(client, view, mask=client.view(words)["id"]), array, valid)


def masked_view(client, array, mask, **members):
    buffer, other = client.upload(array), client.upload(mask)
    payload = cai(buffer["ptr"], array.shape, array.dtype.str, mask=cai(other["ptr"], mask.shape, mask.dtype.str))
    return client.post("/v1/views", {"cuda_array_interface": payload, **members})


@pytest.mark.parametrize("kind", ["bools", "bytes", "bits"])
def test_a_views_own_mask_counts_everywhere(client, kind):
    n = 9003
    array = random_array("<f8", n, 7)
    valid = numpy.random.default_rng(8).integers(0, 3, n) > 0
    mask = {"bools": valid, "bytes": valid.astype("u1") * 9, "bits": numpy.packbits(valid, bitorder="little")}[kind]
    view = masked_view(client, array, mask)
    assert view["mask_kind"] == kind
    check_statistics(statistics(client, view), array, valid)
    also = numpy.random.default_rng(9).integers(0, 2, n).astype(bool)
    check_statistics(statistics(client, view, mask=client.view(also)["id"]), array, valid & also)
    packed = client.view(numpy.packbits(also, bitorder="little"))
    check_statistics(statistics(client, view, mask=packed["id"]), array, valid & also)

    kept = array[valid & numpy.isfinite(array)]
    counts, edges = numpy.histogram(kept, 10)
    got = client.get(f"/v1/views/{view['id']}/histogram", params={"bins": 10})
    assert got["counts"] == counts.tolist() and got["edges"] == edges.tolist()

    values = client.get(f"/v1/views/{view['id']}/values", params={"offset": 13, "limit": 300})["values"]
    assert [value is None for value in values] == (~valid[13:313]).tolist()
    assert [value for value, is_valid in zip(values, valid[13:313]) if is_valid and not isinstance(value, str)] == \
        [value for value, is_valid in zip(array[13:313].tolist(), valid[13:313]) if is_valid and math.isfinite(value)]

    changed = array.copy()
    changed[~valid] += 1
    other = masked_view(client, changed, mask)
    got = client.post(f"/v1/views/{view['id']}/compare", {"other": other["id"], "nan_equal": True}, expect=200)
    assert got == {"equal": True, "differing": 0, "first_difference": None, "max_absolute_difference": 0.0,
                   "max_relative_difference": 0.0}
    plain = client.view(array)
    got = client.post(f"/v1/views/{view['id']}/compare", {"other": plain["id"], "nan_equal": True}, expect=200)
    assert got["differing"] == (~valid).sum() and got["first_difference"] == int(numpy.argmax(~valid))


def test_what_says_no_mask_to_the_kernels_says_so_here(client):
    array = numpy.arange(9, dtype="<i4")
    none = client.post("/v1/kernels/create_null_mask", {"size": 9, "state": "UNALLOCATED"})["mask"]
    assert none["nbytes"] == 0
    check_statistics(statistics(client, client.view(array), mask=none["id"]), array, numpy.ones(9, bool))


def test_masks_that_do_not_fit(client):
    view = client.view(numpy.arange(100, dtype="<f4"))
    path = f"/v1/views/{view['id']}/statistics"

    def refused(mask, status, code):
        problem = client.refused("GET", path, status, code, params={"mask": mask})
        assert problem["parameter"] == "mask" and "pointer" not in problem

    refused(client.view(numpy.ones(99, "|b1"))["id"], 422, "value_error")
    refused(client.view(numpy.ones(12, "|u1"))["id"], 422, "out_of_bounds")
    refused(client.view(numpy.ones(100, "<f4"))["id"], 422, "dtype_unsupported")
    refused("view_0000", 404, "handle_unknown")
    gone = client.view(numpy.ones(100, "|b1"))
    client.delete(f"/v1/views/{gone['id']}")
    refused(gone["id"], 410, "handle_deleted")
    refused(gone["buffer"], 422, "kind_mismatch")
    base = client.upload(bytes(64))
    strided = client.post("/v1/views", {"cuda_array_interface": cai(base["ptr"], [20], "|u1", strides=[3])})
    refused(strided["id"], 422, "not_contiguous")


# ---- histograms


def histogram(client, view, **query):
    return client.get(f"/v1/views/{view['id']}/histogram", params=query)


def check_histogram(got, array, bins, low=None, high=None):
    """`array` as NumPy is to see it."""
    finite = array[numpy.isfinite(array)] if array.dtype.kind == "f" else array
    given = None if low is None else (low, high)
    counts, edges = numpy.histogram(finite, bins, given)
    assert got["counts"] == counts.tolist()
    # The shortest text of a float32 is another double.
    assert numpy.array_equal(numpy.array(got["edges"]).astype(edges.dtype), edges)
    assert got["below"] == int((finite < edges[0]).sum()) and got["above"] == int((finite > edges[-1]).sum())
    if array.dtype.kind == "f":
        assert got["nan_count"] == int(numpy.isnan(array).sum()) and got["inf_count"] == int(numpy.isinf(array).sum())


@pytest.mark.parametrize("typestr", INTEGERS + ["<f4", "<f8"])
@pytest.mark.parametrize("bins", [1, 7, 64, 3000])
def test_histograms_are_numpys(client, typestr, bins):
    array = random_array(typestr, 5000, bins)
    view = client.view(array)
    check_histogram(histogram(client, view, bins=bins), array, bins)
    for low, high in ((-50.5, 1100.25), (3, 3), (900, 1001)):
        check_histogram(histogram(client, view, bins=bins, min=low, max=high), array, bins, low, high)


@pytest.mark.parametrize("seed", range(30))
def test_histograms_put_what_lies_on_an_edge_where_numpy_does(client, seed):
    random = numpy.random.default_rng(seed)
    dtype = ["<f4", "<f8", "<i4", "|u1"][seed % 4]
    bins = int(random.integers(1, 300))
    array = (random.integers(-200, 200, 3000) / (10 if seed % 4 < 2 else 1)).astype(dtype)
    check_histogram(histogram(client, client.view(array), bins=bins), array, bins)
    low, high = sorted(float(value) for value in random.integers(-30, 30, 2) / 10)
    check_histogram(histogram(client, client.view(array), bins=bins, min=low, max=high + 1), array, bins, low, high + 1)


def test_histograms_of_short_floats_and_bools_and_of_one_value(client):
    for typestr in ("<f2", "|b1"):
        array = random_array(typestr, 3000, 4)
        view = client.view(array)
        check_histogram(histogram(client, view, bins=33), array.astype("f8" if typestr == "<f2" else "u1"), 33)
    for array in (numpy.full(4, 5, "<i4"), numpy.full(4, 0.1, "<f4"), numpy.full(4, 0.1, "<f8")):
        check_histogram(histogram(client, client.view(array), bins=5), array, 5)
    got = histogram(client, client.view(numpy.zeros(0, "<f4")), bins=2)
    assert got == {"edges": [0.0, 0.5, 1.0], "counts": [0, 0], "below": 0, "above": 0, "nan_count": 0, "inf_count": 0}
    assert len(histogram(client, client.view(numpy.arange(9.0)))["counts"]) == 64
    got = histogram(client, client.view(numpy.arange(9.0)), bins=2, min=4)
    assert got["edges"] == [4.0, 6.0, 8.0] and got["counts"] == [2, 3] and got["below"] == 4


def test_histograms_that_cannot_be(client):
    view = client.view(numpy.arange(10, dtype="<f4"))
    path = f"/v1/views/{view['id']}/histogram"
    for query, parameter in (({"bins": 0}, "bins"), ({"bins": 65537}, "bins"), ({"bins": "x"}, "bins"), ({"min": "nan"}, "min"),
                             ({"min": "1e999"}, "min"), ({"max": "0x1"}, "max"), ({"max": ".5"}, "max"), ({"min": "01"}, "min"),
                             ({"min": 2, "max": 1}, "max"), ({"range": 1}, "range")):
        assert client.refused("GET", path, 400, "request_malformed", params=query)["parameter"] == parameter
    problem = client.refused("GET", path, 422, "value_error", params={"bins": 1000, "min": 1, "max": 1.00001})
    assert problem["parameter"] == "bins"
    complex_view = client.view(numpy.zeros(3, "<c8"))
    for verb in ("statistics", "histogram"):
        client.refused("GET", f"/v1/views/{complex_view['id']}/{verb}", 422, "dtype_unsupported")


# ---- checksums

CRC_TABLE = []
for entry in range(256):
    for _ in range(8):
        entry = entry >> 1 ^ (0x82F63B78 if entry & 1 else 0)
    CRC_TABLE.append(entry)


def crc32c(content):
    crc = 0xFFFFFFFF
    for byte in content:
        crc = crc >> 8 ^ CRC_TABLE[(crc ^ byte) & 0xFF]
    return f"{crc ^ 0xFFFFFFFF:08x}"


def rotate(value, by):
    return (value << by | value >> (64 - by)) & (2 ** 64 - 1)


def xxh64(content):
    """By the specification of xxHash."""
    p1, p2, p3, p4, p5 = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)
    full = 2 ** 64 - 1

    def step(accumulator, word):
        return rotate((accumulator + word * p2) & full, 31) * p1 & full

    at = 0
    if len(content) >= 32:
        lanes = [(p1 + p2) & full, p2, 0, -p1 & full]
        words = numpy.frombuffer(content[:len(content) // 32 * 32], "<u8").tolist()
        for i in range(0, len(words), 4):
            lanes = [step(lane, word) for lane, word in zip(lanes, words[i:i + 4])]
        at = len(words) * 8
        digest = sum(rotate(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18))) & full
        for lane in lanes:
            digest = ((digest ^ step(0, lane)) * p1 + p4) & full
    else:
        digest = p5
    digest = (digest + len(content)) & full
    while at + 8 <= len(content):
        digest = (rotate(digest ^ step(0, int.from_bytes(content[at:at + 8], "little")), 27) * p1 + p4) & full
        at += 8
    if at + 4 <= len(content):
        digest = (rotate(digest ^ int.from_bytes(content[at:at + 4], "little") * p1 & full, 23) * p2 + p3) & full
        at += 4
    for byte in content[at:]:
        digest = rotate(digest ^ byte * p5 & full, 11) * p1 & full
    for by, prime in ((33, p2), (29, p3), (32, 1)):
        digest = (digest ^ digest >> by) * prime & full
    return digest


def checksum(client, view, **query):
    return client.get(f"/v1/views/{view['id']}/checksum", params=query)


def test_the_oracles_know_the_published_vectors():
    assert crc32c(b"123456789") == "e3069283" and crc32c(bytes(32)) == "8a9136aa" and crc32c(b"\xff" * 32) == "62a8ab43"
    assert xxh64(b"") == 0xEF46DB3751D8E999 and xxh64(b"xxhash") == 0x32DD38952C4BC720


@pytest.mark.parametrize("nbytes", [0, 1, 9, 31, 4096, 65535, 131072, 131073, 300001])
def test_crc32c_of_the_logical_bytes(client, nbytes):
    content = numpy.random.default_rng(nbytes).bytes(nbytes)
    view = client.view(numpy.frombuffer(content, "u1"))
    assert checksum(client, view) == {"algorithm": "crc32c", "nbytes": nbytes, "block_nbytes": None, "value": crc32c(content),
                                      "blocks": None}
    if nbytes > 20:
        moved = client.post(f"/v1/views/{view['id']}/byte_slice", {"start": 5, "stop": nbytes - 2})
        assert checksum(client, moved)["value"] == crc32c(content[5:nbytes - 2])


@pytest.mark.parametrize("block_nbytes", [1024, 1088, 65536])
@pytest.mark.parametrize("nbytes", [0, 5, 1024, 65536, 70000, 200007])
def test_trees_of_hashes(client, nbytes, block_nbytes):
    content = numpy.random.default_rng(nbytes).bytes(nbytes)
    view = client.view(numpy.frombuffer(content, "u1"))
    blocks = [xxh64(content[at:at + block_nbytes]) for at in range(0, nbytes, block_nbytes)]
    query = {"algorithm": "xxh64_tree", "block_nbytes": block_nbytes}
    wanted = {"algorithm": "xxh64_tree", "nbytes": nbytes, "block_nbytes": block_nbytes,
              "value": f"{xxh64(b''.join(block.to_bytes(8, 'little') for block in blocks)):016x}", "blocks": None}
    assert checksum(client, view, **query) == wanted
    assert checksum(client, view, blocks="true", **query) == {**wanted, "blocks": [f"{block:016x}" for block in blocks]}


def test_xxh3_trees(client):
    """XXH3 has no short description: the library's Python module says what is right, where it is there."""
    xxhash = pytest.importorskip("xxhash")
    content = numpy.random.default_rng(1).bytes(300000)
    view = client.view(numpy.frombuffer(content, "u1"))
    for block_nbytes in (1024, 1600, 65536):
        blocks = [xxhash.xxh3_64_intdigest(content[at:at + block_nbytes]) for at in range(0, len(content), block_nbytes)]
        got = checksum(client, view, algorithm="xxh3_tree", block_nbytes=block_nbytes, blocks="true")
        assert got["blocks"] == [f"{block:016x}" for block in blocks]
        assert got["value"] == xxhash.xxh3_64_hexdigest(b"".join(block.to_bytes(8, "little") for block in blocks))


def test_checksums_of_strided_arrays_are_those_of_their_copies(client):
    array = numpy.random.default_rng(2).integers(0, 2 ** 31, (130, 90)).astype("<i4")
    buffer = client.upload(array)
    view = client.post("/v1/views", {"cuda_array_interface": cai(buffer["ptr"], [45, 130], "<i4", strides=[8, 360])})
    content = numpy.ascontiguousarray(array[:, ::2].T).tobytes()
    assert client.data(view["id"]) == content
    assert checksum(client, view)["value"] == crc32c(content)
    got = checksum(client, view, algorithm="xxh64_tree", block_nbytes=4096, blocks="true")
    assert got["blocks"] == [f"{xxh64(content[at:at + 4096]):016x}" for at in range(0, len(content), 4096)]


def test_checksums_that_cannot_be(client):
    view = client.view(numpy.arange(10, dtype="<f4"))
    path = f"/v1/views/{view['id']}/checksum"
    for query, parameter in (({"algorithm": "md5"}, "algorithm"), ({"block_nbytes": 4096}, "block_nbytes"), ({"blocks": "true"}, "blocks"),
                             ({"algorithm": "xxh64_tree", "block_nbytes": 1000}, "block_nbytes"),
                             ({"algorithm": "xxh64_tree", "block_nbytes": 1030}, "block_nbytes"),
                             ({"algorithm": "xxh3_tree", "block_nbytes": 1 << 25}, "block_nbytes"), ({"blocks": "1"}, "blocks")):
        assert client.refused("GET", path, 400, "request_malformed", params=query)["parameter"] == parameter
    buffer = client.upload(bytes(64))
    wide = client.post("/v1/views", {"cuda_array_interface": cai(buffer["ptr"], [(1 << 26) + 1], "|u1", strides=[0])})
    query = {"algorithm": "xxh64_tree", "block_nbytes": 1024, "blocks": "true"}
    problem = client.refused("GET", f"/v1/views/{wide['id']}/checksum", 422, "value_error", params=query)
    assert problem["parameter"] == "blocks"


# ---- comparisons


def compare(client, a, b, **members):
    return client.post(f"/v1/views/{a['id']}/compare", {"other": b["id"], **members}, expect=200)


def check_comparison(got, a, b, nan_equal=False, absolute=0.0, relative=0.0):
    a, b = a.reshape(-1), b.reshape(-1)
    if a.dtype.kind in "Mm":
        a, b = a.view("<i8"), b.view("<i8")
    if a.dtype.kind in "iub":
        pairs = [(int(x), int(y)) for x, y in zip(a, b)]
        finite = numpy.ones(len(a), bool)
        differs = numpy.array([x != y and abs(x - y) > absolute + relative * abs(y) for x, y in pairs], bool)
        gaps = [abs(x - y) for x, y in pairs]
        shares = [abs(x - y) / abs(y) for x, y in pairs if y]
    else:
        wide = "c16" if a.dtype.kind == "c" else "f8"
        x, y = a.astype(wide), b.astype(wide)
        finite = numpy.isfinite(x) & numpy.isfinite(y)
        with numpy.errstate(all="ignore"):
            near = numpy.isclose(x, y, relative, absolute, equal_nan=nan_equal)
            gap = numpy.abs(x - y)[finite]
        differs = ~(near | (x == y))
        gaps = gap.tolist()
        shares = [g / abs(v) for g, v in zip(gaps, y[finite].tolist()) if v]
    first = numpy.flatnonzero(differs)
    assert got["equal"] is not bool(differs.any()) and got["differing"] == int(differs.sum())
    assert got["first_difference"] == (int(first[0]) if len(first) else None)
    if not finite.any():
        assert got["max_absolute_difference"] is None and got["max_relative_difference"] is None
    elif a.dtype.kind in "iub":
        assert got["max_absolute_difference"] == max(gaps) and type(got["max_absolute_difference"]) is int
        assert got["max_relative_difference"] == pytest.approx(max(shares, default=0), rel=1e-14)
    else:
        assert got["max_absolute_difference"] == pytest.approx(max(gaps), rel=1e-14)
        assert got["max_relative_difference"] == pytest.approx(max(shares, default=0), rel=1e-14)


@pytest.mark.parametrize("typestr", INTEGERS + FLOATS + ["|b1", "<M8[us]", "<c8", "<c16"])
@pytest.mark.parametrize("n", [1, 50, 9001])
def test_comparisons_are_numpys(client, typestr, n):
    dtype = numpy.dtype(typestr)
    if dtype.kind == "c":
        part = "<f4" if dtype.itemsize == 8 else "<f8"
        a = numpy.empty(n, dtype)
        a.real, a.imag = random_array(part, n, 1), random_array(part, n, 2)
    else:
        a = random_array(typestr, n, 1)
    b = a.copy()
    places = numpy.random.default_rng(n).integers(n // 3, n, 1 + n // 50)
    b[places] = numpy.roll(a, 1)[places]
    left, right, same = client.view(a), client.view(b), client.view(a)
    check_comparison(compare(client, left, right), a, b)
    check_comparison(compare(client, left, right, nan_equal=True), a, b, nan_equal=True)
    check_comparison(compare(client, left, same, nan_equal=True), a, a, nan_equal=True)
    check_comparison(compare(client, left, right, absolute_tolerance=50, nan_equal=True), a, b, True, 50.0)
    check_comparison(compare(client, left, right, relative_tolerance=0.125, nan_equal=True), a, b, True, 0.0, 0.125)


def test_comparisons_of_layouts(client):
    a = numpy.arange(60, dtype="<f4").reshape(6, 10)
    buffer = client.upload(a)
    turned = client.post("/v1/views", {"cuda_array_interface": cai(buffer["ptr"], [10, 6], "<f4", strides=[4, 40])})
    b = numpy.ascontiguousarray(a.T)
    b[7, 3] += 0.5
    got = compare(client, turned, client.view(b))
    assert got == {"equal": False, "differing": 1, "first_difference": 7 * 6 + 3, "max_absolute_difference": 0.5,
                   "max_relative_difference": pytest.approx(0.5 / 37.5)}


def test_comparisons_that_cannot_be(client):
    view = client.view(numpy.arange(10, dtype="<f4"))
    path = f"/v1/views/{view['id']}/compare"

    def refused(body, code, pointer, status=422):
        client.refused("POST", path, status, code, pointer, json=body)

    refused({"other": client.view(numpy.arange(10, dtype="<f8"))["id"]}, "value_error", "/other")
    refused({"other": client.view(numpy.arange(11, dtype="<f4"))["id"]}, "value_error", "/other")
    refused({"other": client.view(numpy.zeros((5, 2), "<f4"))["id"]}, "value_error", "/other")
    refused({"other": view["buffer"]}, "kind_mismatch", "/other")
    refused({"other": "view_x"}, "handle_unknown", "/other", 404)
    refused({}, "value_error", "/other")
    refused({"other": view["id"], "absolute_tolerance": -1}, "value_error", "/absolute_tolerance")
    refused({"other": view["id"], "relative_tolerance": "1"}, "type_error", "/relative_tolerance")
    refused({"other": view["id"], "relative_tolerance": True}, "type_error", "/relative_tolerance")
    refused({"other": view["id"], "nan_equals": True}, "value_error", "/nan_equals")
    client.refused("POST", path, 422, "value_error", "/absolute_tolerance",
                   data=b'{"other": "%s", "absolute_tolerance": 1e400}' % view["id"].encode(),
                   headers={"Content-Type": "application/json"})


# ---- columns


def test_columns_leave_out_nulls(client):
    n = 300
    array = random_array("<f8", n, 11)
    valid = numpy.random.default_rng(12).integers(0, 2, n).astype(bool)
    mask = numpy.packbits(valid, bitorder="little").tobytes().ljust(64, b"\0").hex()
    column = client.column(array, mask)
    check_statistics(client.get(f"/v1/columns/{column['id']}/statistics"), array, valid)
    kept = array[valid & numpy.isfinite(array)]
    counts, edges = numpy.histogram(kept, 9)
    got = client.get(f"/v1/columns/{column['id']}/histogram", params={"bins": 9})
    assert got["counts"] == counts.tolist() and got["edges"] == edges.tolist()
    got = client.get(f"/v1/columns/{column['id']}/checksum")
    assert got["value"] == crc32c(array.tobytes()) and got["nbytes"] == 8 * n
    sliced = client.post("/v1/columns", {"type": {"name": "FLOAT64"}, "size": 200, "offset": 37, "data": column["data"],
                                         "null_mask": column["null_mask"]})
    check_statistics(client.get(f"/v1/columns/{sliced['id']}/statistics"), array[37:237], valid[37:237])
    assert client.get(f"/v1/columns/{sliced['id']}/checksum")["value"] == crc32c(array[37:237].tobytes())
    changed = array.copy()
    changed[~valid] = 5
    place = int(numpy.flatnonzero(valid & numpy.isfinite(array) & (array != 0))[3])
    changed[place] *= 2
    other = client.column(changed, mask)
    got = client.post(f"/v1/columns/{column['id']}/compare", {"other": other["id"], "nan_equal": True}, expect=200)
    assert got["differing"] == 1 and got["first_difference"] == place
    assert got["max_absolute_difference"] == abs(array[place]) and got["max_relative_difference"] == 0.5


def test_columns_of_days_and_decimals(client):
    days = numpy.array([-3, 0, 19000], "<i4")
    view = client.view(days)
    column = client.post("/v1/columns", {"type": {"name": "TIMESTAMP_DAYS"}, "size": 3, "data": view["id"]})
    got = client.get(f"/v1/columns/{column['id']}/statistics")
    assert (got["min"], got["max"], got["sum"]) == (-3, 19000, 18997)
    decimals = client.post("/v1/columns", {"type": {"name": "DECIMAL32", "scale": -2}, "size": 3, "data": view["id"]})
    for verb in ("statistics", "histogram"):
        client.refused("GET", f"/v1/columns/{decimals['id']}/{verb}", 422, "dtype_unsupported")
    client.refused("POST", f"/v1/columns/{decimals['id']}/compare", 422, "dtype_unsupported", json={"other": decimals["id"]})
    assert client.get(f"/v1/columns/{decimals['id']}/checksum")["value"] == crc32c(days.tobytes())
    client.refused("POST", f"/v1/columns/{column['id']}/compare", 422, "value_error", "/other", json={"other": decimals["id"]})
    client.refused("GET", f"/v1/columns/{column['id']}/statistics", 400, "request_malformed", params={"mask": view["id"]})


# ---- limits


def test_work_is_counted_in_logical_bytes(own_daemon):
    client = own_daemon("--max-logical-nbytes", "100000").client
    buffer = client.upload(bytes(64))
    view = client.post("/v1/views", {"cuda_array_interface": cai(buffer["ptr"], [1 << 40], "<f4", strides=[0])})
    for path in ("statistics", "histogram", "checksum"):
        client.refused("GET", f"/v1/views/{view['id']}/{path}", 429, "quota_exceeded")
    client.refused("POST", f"/v1/views/{view['id']}/compare", 429, "quota_exceeded", json={"other": view["id"]})
    small = client.post("/v1/views", {"cuda_array_interface": cai(buffer["ptr"], [20000], "<f4", strides=[0])})
    assert client.get(f"/v1/views/{small['id']}/statistics")["zero_count"] == 20000
    client.refused("GET", f"/v1/views/{small['id']}/histogram", 429, "quota_exceeded")  # it looks twice
    assert client.get(f"/v1/views/{small['id']}/histogram", params={"min": 0, "max": 1})["counts"][0] == 20000
    client.refused("POST", f"/v1/views/{small['id']}/compare", 429, "quota_exceeded", json={"other": small["id"]})


def test_huge_logical_arrays_pass_through_bounded_staging(client):
    """40 million logical elements over eight, several parts of what is gathered at a time."""
    array = numpy.array([1, 2, 3, 4, 5, 6, 7, 250], "|u1")
    buffer = client.upload(array)
    n = 5_000_000
    view = client.post("/v1/views", {"cuda_array_interface": cai(buffer["ptr"], [n, 8], "|u1", strides=[0, 1])})
    before = client.registered()
    got = statistics(client, view)
    assert got["sum"] == n * 278 and got["count"] == 8 * n and (got["min"], got["max"]) == (1, 250)
    assert histogram(client, view, bins=2, min=0, max=10)["counts"] == [4 * n, 3 * n]
    other = client.post(f"/v1/views/{view['id']}/compare", {"other": view["id"]}, expect=200)
    assert other["equal"] is True
    assert client.registered() == before


@pytest.mark.parametrize("name, bits, value", [
    ("bfloat16", [0x3F80, 0xC000, 0x0000, 0x7F80, 0x7FC0, 0x4228], [1.0, -2.0, 0.0, 42.0]),
    ("float8_e4m3fn", [0x38, 0xC0, 0x00, 0x7F, 0x77, 0x01], [1.0, -2.0, 0.0, 240.0, 2.0 ** -9]),
    ("float8_e5m2", [0x3C, 0xC0, 0x80, 0x7C, 0x7E, 0x01], [1.0, -2.0, 0.0, 2.0 ** -16]),
])
def test_machine_learning_floats(client, name, bits, value):
    array = numpy.array(bits * 700, "<u2" if name == "bfloat16" else "|u1")
    buffer = client.upload(array)
    view = client.post("/v1/views", {"cuda_array_interface": cai(buffer["ptr"], array.shape, array.dtype.str), "dtype": name})
    got = statistics(client, view)
    assert (got["min"], got["max"]) == (min(value), max(value)) and got["zero_count"] == 700
    assert got["nan_count"] == 700 and got["inf_count"] == (0 if name == "float8_e4m3fn" else 700)
    assert got["sum"] == pytest.approx(700 * sum(value), rel=1e-14)
    counts, edges = numpy.histogram(numpy.array(value * 700), 6)
    got = histogram(client, view, bins=6)
    assert got["counts"] == counts.tolist() and got["edges"] == edges.tolist()
    assert compare(client, view, view, nan_equal=True)["equal"] is True
    assert compare(client, view, view)["differing"] == 700


def test_work_stops_when_its_client_has_broken_the_connection(daemon, client, wait_until):
    """Statistics of 2^40 elements would run for half an hour. The gauge counts the call that reads it."""
    def in_flight():
        return int(re.search(r"^gmvd_operations_in_flight (\d+)$", client.call("GET", "/metrics").text, re.MULTILINE).group(1))

    buffer = client.upload(bytes(2))
    view = client.post(f"/v1/buffers/{buffer['id']}/views", {"typestr": "|u1", "shape": [1 << 39, 2], "strides": [0, 1]})
    with daemon.connect() as connection:
        connection.sendall(f"GET /v1/views/{view['id']}/statistics HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        wait_until(lambda: in_flight() >= 2)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    wait_until(lambda: in_flight() == 1)
