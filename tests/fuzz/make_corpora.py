#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the corpora of the model's fuzz targets from the test vectors.

make_corpora.py [SOURCE_FOLDER]: replaces tests/fuzz/corpus/{typestr,slice,layout,packed_metadata,unpack}.
"""

import json
import pathlib
import re
import struct
import sys

DTYPES = (
    "|u1 <u2 <u4 <u8 |i1 <i2 <i4 <i8 <f2 <f4 <f8 |b1 <c8 <c16 "
    "<M8[s] <M8[ms] <M8[us] <M8[ns] <m8[s] <m8[ms] <m8[us] <m8[ns]"
).split()
READONLY, STRIDES, STREAM = 1, 2, 4


def int64(value):
    return struct.pack("<q", value)


def is_int(value):
    return isinstance(value, int) and not isinstance(value, bool)


def are_ints(values):
    return isinstance(values, list) and all(is_int(value) for value in values)


def typestr_inputs(cases):
    for case in cases:
        payload = case["payload"]
        if isinstance(payload, dict) and isinstance(payload.get("typestr"), str):
            yield case["name"], payload["typestr"].encode()[:80]


def slice_inputs(cases):
    for case in cases:
        bounds = [case["start"], case["stop"], case["step"]]
        if not all(bound is None or is_int(bound) for bound in bounds):
            continue
        flags = sum(1 << i for i, bound in enumerate(bounds) if bound is not None)
        values = [case["nbytes"]] + [bound or 0 for bound in bounds]
        yield case["name"], bytes([flags]) + b"".join(map(int64, values))


def layout_inputs(cases):
    for case in cases:
        payload, buffer = case["payload"], case["buffer"]
        if not isinstance(payload, dict) or not are_ints(payload.get("shape")):
            continue
        shape, strides = payload["shape"], payload.get("strides")
        data, stream = payload.get("data"), payload.get("stream")
        if len(shape) > 64 or (strides is not None and not are_ints(strides)):
            continue
        if not (isinstance(data, list) and len(data) == 2 and is_int(data[0])):
            continue
        if strides is not None and len(strides) != len(shape):
            continue
        if payload.get("typestr") not in DTYPES or not is_int(payload.get("version")):
            continue
        flags = READONLY * (data[1] is True) + STRIDES * (strides is not None)
        flags += STREAM * is_int(stream)
        head = bytes([DTYPES.index(payload["typestr"]), len(shape), flags, 0])
        values = [data[0], payload["version"], stream if is_int(stream) else 0]
        values += [buffer["ptr"], buffer["nbytes"]] + shape + (strides or [])
        yield case["name"], head + b"".join(map(int64, values))


ENTRY = struct.Struct("<iiiiqqii")
INT64, STRING, STRUCT, OLD_STRUCT, INT8 = 4, 23, 28, 27, 1


def old_metadata(part):
    """Headerless metadata as a release before 21.12 would have written it."""
    data = bytes.fromhex(part["gpu_data_hex"])
    entries = list(ENTRY.iter_unpack(bytes.fromhex(part["metadata_legacy_hex"])))
    if not entries:
        return b""
    content = ENTRY.pack(*entries[0][:3], -1, *entries[0][4:])
    characters = None
    for position, entry in enumerate(entries[1:], 1):
        if entry[0] == STRING and entry[6] == 1:
            offsets = entries[position + 1]
            end = offsets[4] + offsets[2] * (8 if offsets[0] == INT64 else 4)
            width = 8 if offsets[0] == INT64 else 4
            size = int.from_bytes(data[end - width:end], "little") if offsets[2] else 0
            characters = position + 1, ENTRY.pack(INT8, 0, size, 0, entry[4] if size else -1, -1, 0, 0)
            entry = (*entry[:4], -1, entry[5], 2, 0)
        content += ENTRY.pack(OLD_STRUCT if entry[0] == STRUCT else entry[0], *entry[1:])
        if characters and characters[0] == position:
            content += characters[1]
            characters = None
    return content


def old_inputs(cases):
    for case in cases:
        for number, part in enumerate(case["expected"]):
            yield f"{case['name']}-{number}-old", int64(part["gpu_data_size"]) + old_metadata(part)


def unpack_inputs(cases, old):
    for case in cases:
        for number, part in enumerate(case["expected"]):
            metadata = old_metadata(part) if old else bytes.fromhex(part["metadata_hex"])
            content = struct.pack("<H", len(metadata)) + metadata + bytes.fromhex(part["gpu_data_hex"])
            if len(content) <= 2048:
                yield f"{case['name']}-{number}{'-old' if old else ''}", content


def packed_inputs(cases, errors):
    for case in cases:
        for number, part in enumerate(case["expected"]):
            for key in ("metadata_hex", "metadata_legacy_hex"):
                name = f"{case['name']}-{number}{'-legacy' if 'legacy' in key else ''}"
                yield name, int64(part["gpu_data_size"]) + bytes.fromhex(part[key])
    for case in errors:
        if case["op"] == "read_metadata":
            yield case["name"], int64(-1) + bytes.fromhex(case["metadata_hex"])


def write(folder, inputs, limit):
    """Writes each different input once, at most `limit` of them, spread over all."""
    different = {}
    for name, content in inputs:
        different.setdefault(content, re.sub(r"[^A-Za-z0-9_-]", "_", name))
    kept = sorted((name, content) for content, name in different.items())
    kept = [kept[i * len(kept) // limit] for i in range(limit)] if len(kept) > limit else kept
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    for name, content in kept:
        (folder / name).write_bytes(content)
    print(f"{folder}: {len(kept)} inputs")


def main():
    source = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    corpus = source / "tests" / "fuzz" / "corpus"

    def vectors(name):
        return json.loads((source / "tests" / "vectors" / name).read_text())

    cai = vectors("cai.json")
    write(corpus / "typestr", typestr_inputs(cai), 80)
    write(corpus / "slice", slice_inputs(vectors("slices_int64.json")), 40)
    write(corpus / "layout", layout_inputs(cai), 100)
    packed = vectors("packed_metadata.json")
    nested = [case for case in packed if any("children" in column and column["children"] for column in case["table"]["columns"])]
    write(corpus / "packed_metadata", [*packed_inputs(packed, vectors("packed_errors.json")), *old_inputs(nested)], 140)
    write(corpus / "unpack", [*unpack_inputs(packed, False), *unpack_inputs(nested, True)], 100)


if __name__ == "__main__":
    main()
