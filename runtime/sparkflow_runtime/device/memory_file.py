"""Anonymous memory files that other processes on this host can map.

A file has no name: it is freed with the last process that has it open or mapped, however that
process ends. It is sealed, so its size never changes: no process can remove pages that another one
reads, which would kill that process with SIGBUS.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import sys
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from sparkflow_runtime.errors import InvalidArgumentError

Bytes = np.ndarray[Any, np.dtype[np.uint8]]

PAGE_BYTES: Final = mmap.PAGESIZE


@dataclass(frozen=True, slots=True)
class Segment:
    """What another process needs to map a memory file.

    Attributes:
        fd: An open file descriptor, to be passed over a Unix socket. Its creator closes it.
        size_bytes: The file's size.
    """

    fd: int
    size_bytes: int


def available() -> bool:
    """Whether this system has such files (Linux with /proc)."""
    return sys.platform == "linux" and hasattr(os, "memfd_create") and os.path.isdir("/proc/self")


class MemoryFile:
    """A memory file, mapped for writing in the process that created it.

    Pages take no memory before `reserve`. Forked children must not use it.

    Attributes:
        bytes: The whole file: [size_bytes] uint8. It stays mapped while a view of it exists.
        address: The address of its first byte.
        segment: For reading processes.
    """

    __slots__ = ("_mapping", "_pid", "_reserved", "address", "bytes", "segment")

    def __init__(self, size_bytes: int, *, readers_write: bool = False) -> None:
        """Creates the file.

        Args:
            size_bytes: Rounded up to whole pages.
            readers_write: Whether processes that get `segment` may write.

        Raises:
            OSError: There is no memory or file descriptor left, or the system has no such files.
        """
        size = -(-size_bytes // PAGE_BYTES) * PAGE_BYTES
        with contextlib.ExitStack() as undo:
            fd = os.memfd_create("sparkflow", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
            undo.callback(os.close, fd)
            os.ftruncate(fd, size)
            seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
            fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
            self._mapping = mmap.mmap(fd, size)
            self._pid = os.getpid()
            self._reserved = 0
            self.bytes: Bytes = np.frombuffer(self._mapping, np.uint8)
            self.address: int = self.bytes.ctypes.data
            if readers_write:
                undo.pop_all()
            else:
                fd = _reopen(fd, os.O_RDONLY)
        self.segment = Segment(fd, size)

    def reserve(self, end: int) -> None:
        """Allocates memory for the bytes up to `end`.

        Otherwise writing there on a full machine would kill the process with SIGBUS.

        Raises:
            OSError: There is not enough.
        """
        if end > self._reserved:
            end = -(-end // PAGE_BYTES) * PAGE_BYTES
            fd = _reopen(self.segment.fd, os.O_RDWR)
            try:
                os.posix_fallocate(fd, self._reserved, end - self._reserved)
            finally:
                os.close(fd)
            self._reserved = end

    def discard(self) -> None:
        """Frees the memory at once, even if other processes have it mapped; then closes.

        They read zeros from now on.
        """
        if os.getpid() == self._pid:  # not in a forked child, whose parent still uses it
            self._mapping.madvise(mmap.MADV_REMOVE)
        self.close()

    def close(self) -> None:
        """Closes the descriptor of `segment`; mappings stay. To be called once."""
        os.close(self.segment.fd)


def _reopen(fd: int, access: int) -> int:
    return os.open(f"/proc/self/fd/{fd}", access | os.O_CLOEXEC)


def map_segment(fd: int, size_bytes: int, *, writable: bool = False) -> mmap.mmap:
    """Maps a file that another process created. Takes ownership of `fd`: always closes it.

    Raises:
        InvalidArgumentError: It is smaller than announced, could be truncated, or is not a memory
            file.
        OSError: It cannot be mapped.
    """
    try:
        size = os.fstat(fd).st_size
        if not 0 < size_bytes <= size:
            raise InvalidArgumentError(
                message=f"A memory segment of {size_bytes} bytes was announced, it has {size}"
            )
        try:
            seals = fcntl.fcntl(fd, fcntl.F_GET_SEALS)
        except OSError as error:
            raise InvalidArgumentError(
                message=f"A memory segment must be a file made by memfd_create: {error}"
            ) from error
        if not seals & fcntl.F_SEAL_SHRINK:
            raise InvalidArgumentError(
                message=f"A memory segment must be sealed against shrinking, has seals {seals:#x}"
            )
        return mmap.mmap(fd, size_bytes, prot=mmap.PROT_READ | writable * mmap.PROT_WRITE)
    finally:
        os.close(fd)
