#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Penguins through gmvd: share memory, post it, find what is missing, pack, unpack, compare.

    python3 examples/penguins.py http://127.0.0.1:8080

The four measurements of data/penguins.csv are put into one POSIX shared memory segment, as a process
would that owns the data. gmvd maps the segment; nothing is copied. Each measurement is posted as a CUDA
Array Interface payload with the address that it has in *this* process. Missing values (NaN) become null
masks, the columns a table, the table two packed partitions, and those are unpacked again. Every step is
held against NumPy and pyarrow. Needs numpy and pyarrow.
"""

import csv
import ctypes
import json
import pathlib
import sys
import urllib.request
from multiprocessing import shared_memory

import numpy
import pyarrow

MEASUREMENTS = ["bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g"]


class Gmvd:
    """The few calls this example needs."""

    def __init__(self, url):
        self.url = url.rstrip("/")

    def call(self, method, path, body=None):
        request = urllib.request.Request(self.url + path, method=method)
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request) as answer:
            content = answer.read()
            return json.loads(content) if answer.headers["Content-Type"] == "application/json" else content


def read_measurements():
    """One float64 array for each measurement, NaN where the table says NA."""
    with open(pathlib.Path(__file__).parent / "data" / "penguins.csv", newline="") as table:
        rows = list(csv.DictReader(table))
    return [numpy.array([numpy.nan if row[name] == "NA" else float(row[name]) for row in rows]) for name in MEASUREMENTS]


def share(arrays):
    """Copies the arrays into one fresh segment; gives the segment, its address here and arrays over it."""
    segment = shared_memory.SharedMemory(create=True, size=sum(array.nbytes for array in arrays))
    base = ctypes.addressof(ctypes.c_char.from_buffer(segment.buf))
    shared, offset = [], 0
    for array in arrays:
        over = numpy.frombuffer(segment.buf, array.dtype, len(array), offset)
        over[:] = array
        shared.append(over)
        offset += array.nbytes
    return segment, base, shared


def check(what, holds):
    print(f"  {'ok' if holds else 'WRONG'}: {what}")
    if not holds:
        sys.exit(1)


def run(url):
    gmvd = Gmvd(url)
    arrays = read_measurements()
    rows = len(arrays[0])
    segment, base, shared = share(arrays)
    made = []
    try:
        print(f"{rows} penguins in segment /{segment.name}, mapped here at {base:#x}")
        buffer = gmvd.call("POST", "/v1/buffers/import", {"posix_shm": {"name": "/" + segment.name, "base": base, "nbytes": segment.size}, "label": "penguins"})
        made.append(("buffers", buffer["id"]))

        columns = []
        for name, array in zip(MEASUREMENTS, shared):
            payload = {"data": [array.__array_interface__["data"][0], False], "shape": list(array.shape), "typestr": array.dtype.str, "version": 3}
            view = gmvd.call("POST", "/v1/views", {"cuda_array_interface": payload, "buffer": buffer["id"], "label": name})
            nulls = gmvd.call("POST", "/v1/kernels/nans_to_nulls", {"input": view["id"]})
            mask = gmvd.call("GET", f"/v1/views/{nulls['mask']['id']}/data")
            valid = numpy.unpackbits(numpy.frombuffer(mask, "u1"), bitorder="little")[:rows].astype(bool)
            check(f"{name}: {nulls['null_count']} missing, and the mask is NumPy's", (valid == ~numpy.isnan(array)).all() and nulls["null_count"] == int(numpy.isnan(array).sum()))
            column = gmvd.call("POST", "/v1/columns", {"type": {"name": "FLOAT64"}, "size": rows, "data": view["id"], "null_mask": nulls["mask"]["id"]})
            made += [("views", view["id"]), ("views", nulls["mask"]["id"]), ("columns", column["id"])]
            columns.append(column["id"])

        table = gmvd.call("POST", "/v1/tables", {"columns": columns})
        parts = gmvd.call("POST", f"/v1/tables/{table['id']}/contiguous_split", {"splits": [rows // 2]})["items"]
        made += [("tables", table["id"]), *(("packed", part["id"]) for part in parts)]
        print(f"packed into {[part['num_rows'] for part in parts]} rows, {[part['gpu_data_nbytes'] for part in parts]} bytes")

        # The packed parts stand alone: what they were made from may go.
        for collection, handle in made[:-len(parts)]:
            gmvd.call("DELETE", f"/v1/{collection}/{handle}")
        del made[:-len(parts)]
        for array in shared:
            array[:] = 0

        begin = 0
        for part in parts:
            unpacked = gmvd.call("POST", f"/v1/packed/{part['id']}/unpack")
            made.append(("tables", unpacked["id"]))
            for name, array, column in zip(MEASUREMENTS, arrays, unpacked["columns"]):
                values = gmvd.call("GET", f"/v1/columns/{column}/values?limit=100000")["values"]
                expected = pyarrow.array(array[begin:begin + part["num_rows"]], from_pandas=True)
                check(f"rows {begin} to {begin + part['num_rows']} of {name} came back, nulls and all", values == expected.to_pylist())
            begin += part["num_rows"]
    finally:
        for collection, handle in reversed(made):
            gmvd.call("DELETE", f"/v1/{collection}/{handle}")
        shared.clear()
        del array
        segment.unlink()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    run(sys.argv[1])
