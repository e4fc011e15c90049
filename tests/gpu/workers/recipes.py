# SPDX-License-Identifier: Apache-2.0
"""Arrays of known content, and what is done to them: the same steps for NumPy and for a library on the GPU."""

import numpy


def content(dtype, shape, seed=0):
    """Distinct bits, with NaNs, infinities and zeros in floats and both values in booleans."""
    dice = numpy.random.default_rng(seed)
    dtype, count = numpy.dtype(dtype), int(numpy.prod(shape))
    if dtype.kind == "b":
        values = dice.integers(0, 2, count).astype("?")
    elif dtype.kind in "Mm":
        values = dice.integers(-2 ** 60, 2 ** 60, count).view(dtype)
    elif dtype.kind == "f":
        values = (dice.standard_normal(count) * 100).astype(dtype)
        values[::5], values[1::17], values[2::19] = numpy.nan, numpy.inf, 0
    elif dtype.kind == "c":
        values = (dice.standard_normal(count) + 1j * dice.standard_normal(count)).astype(dtype)
    else:
        values = numpy.frombuffer(dice.bytes(count * dtype.itemsize), dtype).copy()
    return values.reshape(shape)


STEPS = {
    "whole": lambda a, library: a,
    "offset": lambda a, library: a[3:],
    "strided": lambda a, library: a[1::3],
    "columns": lambda a, library: a[:, ::2],
    "reversed": lambda a, library: a[::-1],
    "both reversed": lambda a, library: a[::-1, ::-1],
    "transposed": lambda a, library: a.T,
    "broadcast": lambda a, library: library.broadcast_to(a, (4, *a.shape)),
    "empty": lambda a, library: a[:0],
    "scalar": lambda a, library: a.reshape(-1)[7:8].reshape(()),
}
