# SPDX-License-Identifier: Apache-2.0
"""Arrays of this process in a running gmvd, and gmvd's memory in this process, by the shortest way there is.

    import gmv_share

    with gmv_share.share(array) as shared:          # CuPy, PyTorch, Numba or NumPy
        print(shared.id, shared.stats()["mean"])
        tail = shared.byte_slice(-16)
    array = cupy.asarray(gmv_share.open(view_id))   # or numpy.asarray: memory of gmvd, not copied

CUDA arrays go by CUDA IPC; NumPy arrays by POSIX shared memory, in place if they lie in a segment already.
"""

from ._http import DEFAULT_URL, GmvError, GmvIndexError, GmvTypeError, GmvValueError
from ._shared import SharedArray, open, share

__all__ = ["DEFAULT_URL", "GmvError", "GmvIndexError", "GmvTypeError", "GmvValueError", "SharedArray", "open", "share"]
