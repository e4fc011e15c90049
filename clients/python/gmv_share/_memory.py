# SPDX-License-Identifier: Apache-2.0
"""Memory that stays reachable in this process as long as an object here refers to it."""

from __future__ import annotations

import weakref
from typing import Any, Callable, Optional


class Memory:
    """`owner` is kept; `release`, if any, runs once: at close() or when the last reference goes.

    The address of a closed memory must not be used any more, as with a closed file.
    """

    def __init__(self, owner: Any, release: Optional[Callable[[], object]] = None) -> None:
        self.owner = owner
        self._finalizer = weakref.finalize(self, release) if release else None
        if self._finalizer:
            self._finalizer.atexit = False  # the process's end gives everything back, and CUDA may be gone by then

    @property
    def closed(self) -> bool:
        return self._finalizer is not None and not self._finalizer.alive

    def close(self) -> None:
        if self._finalizer:
            self._finalizer()
