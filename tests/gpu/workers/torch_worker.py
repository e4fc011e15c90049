# SPDX-License-Identifier: Apache-2.0
"""PyTorch as the owner of memory: handles as torch.multiprocessing would send them."""

import numpy
import torch

from recipes import content
from service import Driver, encode, serve

STEPS = {
    "whole": (lambda t: t, lambda a: a),
    "offset": (lambda t: t[3:], lambda a: a[3:]),
    "strided": (lambda t: t[1::3], lambda a: a[1::3]),
    "columns": (lambda t: t[:, ::2], lambda a: a[:, ::2]),
    "transposed": (lambda t: t.t(), lambda a: a.T),
    "expanded": (lambda t: t.unsqueeze(0).expand(4, *t.shape), lambda a: numpy.broadcast_to(a, (4, *a.shape))),
    "empty": (lambda t: t[:0], lambda a: a[:0]),
}


class Worker:
    def __init__(self):
        torch.zeros(1, device="cuda")
        self.driver = Driver()
        self.tensors = []

    def make(self, dtype, shape, step="whole", seed=0):
        source = content(dtype, shape, seed)
        whole = torch.from_numpy(source).to("cuda")
        on_device, on_host = STEPS[step]
        tensor = on_device(whole)
        storage = whole.untyped_storage()
        address = storage.data_ptr()
        _, handle, nbytes, offset, *_ = storage._share_cuda_()
        torch.cuda.synchronize()
        self.tensors.append((whole, tensor, storage))
        base, size = self.driver.range_of(address)
        expected = numpy.ascontiguousarray(on_host(source))
        return {"tensor": len(self.tensors) - 1, "payload": tensor.__cuda_array_interface__, "handle": encode(handle), "prefix": handle[:-64].hex(),
                "bare": encode(handle[-64:]), "told_base": address - offset, "base": base, "nbytes": size, "storage_nbytes": nbytes,
                "expected": encode(expected.tobytes()), "typestr": expected.dtype.str, "shape": expected.shape}

    def fill(self, tensor, value):
        self.tensors[tensor][1].fill_(value)
        torch.cuda.synchronize()
        return {}


if __name__ == "__main__":
    serve(Worker())
