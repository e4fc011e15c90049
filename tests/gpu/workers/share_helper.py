# SPDX-License-Identifier: Apache-2.0
"""The Python helper as its users have it: share_helper.py LIBRARY URL VIEW, where VIEW holds 25,000 <f4 of gmvd's own, 0 and on.

Shares an array of the library every way that it can be made, and opens the view with the library.
"""

import pathlib
import sys

import numpy

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "clients" / "python"))
import gmv_share  # noqa: E402


class Cupy:
    def __init__(self):
        import cupy
        self.cupy = cupy

    def arrays(self):
        whole = self.cupy.arange(1200, dtype="<f4").reshape(30, 40)
        yield "whole", whole, False
        yield "columns", whole[:, 3:7], False
        yield "transposed", whole.T, False
        self.cupy.cuda.set_allocator(self.cupy.cuda.malloc_async)
        yield "stream-ordered", self.cupy.arange(50, dtype="<i8"), True
        self.cupy.cuda.set_allocator(self.cupy.cuda.malloc_managed)
        yield "managed", self.cupy.arange(50, dtype="<i8"), True
        self.cupy.cuda.set_allocator(self.cupy.get_default_memory_pool().malloc)
        stream = self.cupy.cuda.Stream(non_blocking=True)
        with stream:
            yield "behind work on a stream", self.cupy.cumsum(self.cupy.ones(1 << 22, "<i8")), False

    def opened(self, shared):
        array = self.cupy.asarray(shared)
        assert array.data.ptr == shared.__cuda_array_interface__["data"][0]
        return array

    numpy = staticmethod(lambda array: array.get())


class Torch:
    def __init__(self):
        import torch
        self.torch = torch

    def arrays(self):
        whole = self.torch.arange(1200, dtype=self.torch.float32, device="cuda").reshape(30, 40)
        yield "whole", whole, False
        yield "columns", whole[:, 3:7], False
        yield "with a gradient", self.torch.ones(7, device="cuda", requires_grad=True), False

    def opened(self, shared):
        return self.torch.as_tensor(shared, device="cuda")

    numpy = staticmethod(lambda tensor: tensor.detach().cpu().numpy())


class Numba:
    def __init__(self):
        from numba import cuda
        self.cuda = cuda

    def arrays(self):
        yield "whole", self.cuda.to_device(numpy.arange(1200, dtype="<f8")), False
        yield "every third", self.cuda.to_device(numpy.arange(1200, dtype="<f8"))[::3], False

    def opened(self, shared):
        return self.cuda.as_cuda_array(shared)

    numpy = staticmethod(lambda array: array.copy_to_host())


def main():
    name, url, view = sys.argv[1:]
    library = {"cupy": Cupy, "torch": Torch, "numba": Numba}[name]()
    for what, array, copied in library.arrays():
        with gmv_share.share(array, url) as shared:
            wanted = library.numpy(array)
            assert shared.copied is copied, f"{what}: copied is {shared.copied}"
            assert shared.shape == wanted.shape and shared.data() == numpy.ascontiguousarray(wanted).tobytes(), what
            assert (library.numpy(library.opened(shared)) == wanted).all(), what
            if shared.view["contiguous"]:
                assert shared.byte_slice(-8).data() == wanted.tobytes()[-8:], what
    opened = gmv_share.open(view, url, copy=False)
    array = library.opened(opened)
    assert (library.numpy(array) == numpy.arange(25_000, dtype="<f4")).all()
    del array
    opened.close()
    print("well")


if __name__ == "__main__":
    main()
