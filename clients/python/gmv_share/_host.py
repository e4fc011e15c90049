# SPDX-License-Identifier: Apache-2.0
"""Host memory: which POSIX shared memory segment an address lies in, making segments, mapping gmvd's."""

from __future__ import annotations

import ctypes
import mmap
import os
import secrets
from typing import NamedTuple, Optional

import numpy

from ._memory import Memory

SHM_FOLDER = "/dev/shm"


class Segment(NamedTuple):
    """A shared memory segment as this process sees it."""

    name: str  # as shm_open takes it
    base: int  # where its first byte is, or would be


def find_segment(address: int) -> Optional[Segment]:
    """The named segment that this address is shared through; None if nobody else could open the memory."""
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
        for line in maps:
            span, access, offset, _, _, *path = line.rstrip("\n").split(maxsplit=5)
            begin, end = (int(part, 16) for part in span.split("-"))
            if not begin <= address < end:
                continue
            if access[3] != "s" or not path or not path[0].startswith(SHM_FOLDER + "/") or path[0].endswith(" (deleted)"):
                return None
            name = path[0][len(SHM_FOLDER):]
            return Segment(name, begin - int(offset, 16)) if "/" not in name[1:] else None
    return None


class Copy(NamedTuple):
    """An array's elements in a fresh segment, which has a name until unlink()."""

    name: str
    memory: Memory
    array: "numpy.ndarray"

    def unlink(self) -> None:
        try:
            os.unlink(SHM_FOLDER + self.name)
        except FileNotFoundError:
            pass


def map_file(descriptor: int, nbytes: int, writable: bool) -> mmap.mmap:
    access = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
    return mmap.mmap(descriptor, nbytes, mmap.MAP_SHARED, access)


def copy_to_segment(array: "numpy.ndarray") -> Copy:
    """C-contiguous; readonly if the array is."""
    name = f"/gmv-share-{secrets.token_hex(12)}"
    descriptor = os.open(SHM_FOLDER + name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        # Reserved now: memory that is missing later would end this process by a signal.
        os.posix_fallocate(descriptor, 0, max(1, array.nbytes))
        mapping = map_file(descriptor, max(1, array.nbytes), True)
    except BaseException:
        os.unlink(SHM_FOLDER + name)
        raise
    finally:
        os.close(descriptor)
    copy = numpy.frombuffer(mapping, dtype=array.dtype, count=array.size).reshape(array.shape)
    copy[...] = array
    copy.flags.writeable = array.flags.writeable
    return Copy(name, Memory(mapping), copy)


class Mapped(NamedTuple):
    address: int
    memory: Memory


def map_segment(name: str, offset: int, nbytes: int, writable: bool) -> Mapped:
    """Bytes [offset, offset + nbytes) of a segment of gmvd."""
    flags = (os.O_RDWR if writable else os.O_RDONLY) | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(SHM_FOLDER + name, flags)
    try:
        mapping = map_file(descriptor, offset + nbytes, writable)
    finally:
        os.close(descriptor)
    # A buffer over a readonly mapping cannot be had from ctypes; NumPy gives its address.
    address = numpy.frombuffer(mapping, dtype="u1").ctypes.data
    return Mapped(address + offset, Memory(mapping))


def read_bytes(address: int, nbytes: int) -> bytes:
    return ctypes.string_at(address, nbytes)
