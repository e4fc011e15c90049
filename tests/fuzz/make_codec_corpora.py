#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the corpora of the codec's fuzz targets.

make_codec_corpora.py [SOURCE_FOLDER]: replaces tests/fuzz/corpus/{json,body,range,query,path,head}.
"""

import json
import pathlib
import shutil
import struct
import sys

JSON = [
    b"{}", b"[]", b"null", b"-0", b'"x"', b"[1,2.5,1e400,99999999999999999999,-1E-400]",
    b'{"a":{"b":[true,false,null]},"\\u00fc":"\\ud83d\\ude00\\n\\"\\\\"}', b"[" * 36 + b"]" * 36,
    b"[" * 40, b"[1\x00]", b"\xef\xbb\xbf{}", b'"\xc3\xbc"', b'"\xff"', b'"\\ud800"', b"{99999999999999999999:1}",
    b'{"a":1,"a":2}', b" [ 0.1 , 5e-324 , 1.7976931348623157e308 ] ", b"[01]", b"[1,]", b'"\\u0000"',
]
BODIES = [
    {}, {"flag": True, "maybe": 1, "clamped": -(10**30)}, {"label": "\u00fc" * 256}, {"name": "TWO"},
    {"typestr": "<f8", "type": "INT32"}, {"reference": "view_00000000000000000000000001"},
    {"references": ["col_00000000000000000000000001", "x"]}, {"int64s": [1, -2]},
    {"ranges": [[0, 1], [2, 3]]}, {"blob": "Zm9v"}, {"inner": {"number": 7, "text": "x"}}, {"inner": {}},
    {"a/b~c": 1}, {"maybe": 1.0}, {"ranges": [[1]]}, {"ranges": [["x", 1]]}, [], 5,
]
RANGES = [
    "bytes=0-3", "bytes=-4", "bytes=5-", "bytes=9-9", "bytes=10-", "bytes=3-1", "bytes=0-0,2-2", "items=0-3",
    "bytes=-0", "BYTES= 1-2 ", "bytes=99999999999999999999-", "bytes=0-99999999999999999999", "bytes=-", "",
]
QUERIES = [
    "", "offset=1&limit=2", "la%62el=a+b%2B%C3%BC&all", "all=true", "all=1", "limit=1001", "limit=01", "unknown=1",
    "offset=1&%6Fffset=2", "label=%", "label=%zz", "label=a%00b", "label=%FF", "&&", "=1", "label=a=b==",
]
PATHS = [
    "view_00000000000000000000000001", "v%69ew_00000000000000000000000001", "view_0000000000000000000000000I",
    "..%2F..", "X%00zzz", "%", "%zz", "a+b", "%25", "pkd_7zzzzzzzzzzzzzzzzzzzzzzzzz", "",
]
EMPTY, INT8, INT32, INT64, DICTIONARY32, STRING, LIST, DECIMAL128, STRUCT = 0, 1, 3, 4, 22, 23, 24, 27, 28


def column(type_id, size, *children, data=1, mask=0, offset=0, scale=0):
    """One column of fuzz_columns.c; data and mask are places in units of 8 bytes, 0 for none."""
    head = struct.pack("<BbHBBBBB", type_id, scale, size, offset, data, mask, 0, len(children))
    return (head + bytes(children)).ljust(16, b"\0")


OFFSETS = struct.pack("<9i", 0, 1, 1, 4, 9, 9, 12, 20, 33)
COLUMNS = [
    column(INT32, 40) + column(STRING, 8, 0, data=60) + b"\xff".ljust(16) + bytes(8) + OFFSETS + "\u00e9t\u00e9".encode(),
    column(INT64, 20) + column(STRING, 19, 0, data=60, mask=90) + b"\xff".ljust(16) + struct.pack("<5q", 0, 0, 3, 9, 11),
    column(INT32, 40) + column(STRING, 8, 0) + column(LIST, 8, 0, 1, data=0) + column(LIST, 5, 0, 2, data=0, offset=2)
    + b"\xff".ljust(16) + bytes(8) + OFFSETS,
    column(INT32, 40) + column(STRUCT, 30, 0, 0, data=0, offset=3) + column(LIST, 30, 0, 1, data=0) + b"\xff".ljust(16)
    + bytes(8) + OFFSETS * 3,
    column(INT8, 30) + column(INT32, 40) + column(STRING, 8, 1) + column(DICTIONARY32, 25, 0, 2, data=0, mask=40)
    + b"\xff".ljust(16) + bytes(range(200)),
    column(EMPTY, 500, data=0) + column(INT32, 9) + column(LIST, 8, 1, 0, data=0) + column(STRUCT, 8, 2, 0, data=0)
    + b"\xff".ljust(16) + struct.pack("<9i", -1, 5, 2**31 - 1, -2**31, 400, 3, 499, 500, 501),
    column(DECIMAL128, 20, data=2, scale=-5) + column(INT32, 0, data=0) + column(STRING, 0, data=0)
    + column(LIST, 0, 1, 2, data=0) + b"\xff".ljust(16) + bytes(range(99, 0, -1)),
]


# Heads that a library may read short, and values of fields.
HEADS = [
    b"Host: localhost\r\nX: b",
    b"Host: a\r\nTransfer-Encoding:\r\n chunked",
    b"Host: a\r\n: x\r\nContent-Length: 5",
    b"Host: a\r\n\x00x\r\nContent-Length: 5",
    b"Host: a\r\nX: b\x00c",
    b"Host: a\nX: b\n",
    b"Host: a\r\nX:\r\nY: \t",
    b"Host: a\r\nX: b\rY: c",
    b"",
    b":\r\n",
    b" X: a\r\n",
    b"127.0.0.1:80",
    b"\"a-1\", W/\"b\"",
    b"application/json; charset=utf-8",
    b"chunked",
]


# Batches whose references lead somewhere and nowhere.
BATCHES = [{"operations": operations, "atomic": atomic} for atomic, operations in (
    (True, []),
    (True, [{"method": "POST", "path": "/v1/buffers", "body": {"nbytes": 8}},
            {"method": "POST", "path": "/v1/buffers/$0.id/views", "body": {"shape": ["$0.n"], "label": "$$0.id"}},
            {"method": "DELETE", "path": "/v1/views/$1.id?if_held=keep"}]),
    (False, [{"method": "POST", "path": "/a"}, {"method": "POST", "path": "/$0.items.0.id/$0.n"},
             {"method": "POST", "path": "/$$x", "body": {"a": ["$0.items", {"b": "$0.items.1.0"}], "c": "$1.id"}}]),
    (None, [{"method": "POST", "path": "", "body": {"x": "$", "y": 10**40, "z": 1.5}}, {"method": "DELETE", "path": "$0.id"}]),
    (True, [{"method": "POST", "path": "/x", "body": {"$0.id": [[[[["$9.id", "$00.id", "$0.", "$.x"]]]]]}}] * 3),
)]


def payloads(cases):
    """One payload in six, and all that only a text can say."""
    for number, case in enumerate(cases):
        text = case.get("payload_text")
        if text is not None and len(text) < 1000:
            yield b'{"cai":' + text.encode() + b"}"
        elif text is None and number % 6 == 0:
            yield json.dumps({"cai": case["payload"]}).encode()[:1000]


def main():
    source = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    cases = json.loads((source / "tests/vectors/cai.json").read_text())
    sizes = (10, 0, 2**64 - 1)
    corpora = {
        "json": JSON,
        "body": [json.dumps(body, ensure_ascii=False).encode() for body in BODIES] + list(payloads(cases)),
        "range": [struct.pack("<Q", sizes[i % 3 if i > 9 else 0]) + text.encode() for i, text in enumerate(RANGES)],
        "query": [text.encode() for text in QUERIES],
        "batch": [json.dumps(batch).encode() for batch in BATCHES],
        "columns": COLUMNS,
        "head": HEADS,
        "path": [text.encode() + bytes([63]) for text in PATHS],
    }
    for name, inputs in corpora.items():
        folder = source / "tests/fuzz/corpus" / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for number, text in enumerate(inputs):
            (folder / f"{number:03d}").write_bytes(text)


main()
