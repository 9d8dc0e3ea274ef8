"""A stand-in for NCCL on host memory, for `support.fake_cupy`: ranks are threads."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from typing import Any, Final

import numpy as np

DEADLINE_S: Final = 30.0
_KINDS: Final[dict[int, Any]] = {
    2: np.int32,
    4: np.int64,
    6: np.float16,
    7: np.float32,
    8: np.float64,
}
_MERGES: Final[dict[int, Any]] = {0: np.add, 1: np.multiply, 2: np.maximum, 3: np.minimum}


class _Communicators:
    """State shared by the ranks with one identifier."""

    def __init__(self, size: int) -> None:
        self.barrier = threading.Barrier(size)
        self.arrays: dict[int, Any] = {}


class FakeNccl:
    """A stand-in for `cupy.cuda.nccl`, for the ranks of one process.

    Attributes:
        available: As cupy's.
        calls: The calls of each rank, in order.
    """

    NCCL_INT32, NCCL_INT64, NCCL_FLOAT16, NCCL_FLOAT32, NCCL_FLOAT64 = 2, 4, 6, 7, 8
    NCCL_SUM, NCCL_PROD, NCCL_MAX, NCCL_MIN = 0, 1, 2, 3

    def __init__(self) -> None:
        self.available = True
        self.calls: dict[int, list[str]] = {}
        self._lock = threading.Lock()
        self._groups: dict[tuple[int, ...], _Communicators] = {}
        self._made = 0

    def get_unique_id(self) -> tuple[int, ...]:
        """Returns 128 numbers of one byte each, as cupy does."""
        with self._lock:
            self._made += 1
            return (self._made - 129, *range(127))

    def for_rank(self, cupy: Any) -> FakeNccl:
        """Makes the stand-in for cupy of a rank use this one."""
        cupy.cuda.nccl = _OfRank(self, cupy)
        return self

    def group(self, unique_id: tuple[int, ...], size: int) -> _Communicators:
        """Returns the state shared by the ranks with this identifier."""
        with self._lock:
            return self._groups.setdefault(unique_id, _Communicators(size))


class _OfRank:
    """The bindings in the process of one rank."""

    def __init__(self, shared: FakeNccl, cupy: Any) -> None:
        self._shared = shared
        self._cupy = cupy

    def __getattr__(self, name: str) -> Any:
        return getattr(self._shared, name)

    def NcclCommunicator(self, size: int, unique_id: tuple[int, ...], rank: int) -> Any:
        """Blocks until all ranks have called it."""
        assert len(unique_id) == 128
        group = self._shared.group(unique_id, size)
        group.barrier.wait(DEADLINE_S)
        calls = self._shared.calls.setdefault(rank, [])
        return _Communicator(group, rank, self._cupy, calls)


class _Communicator:
    def __init__(self, group: _Communicators, rank: int, cupy: Any, calls: list[str]) -> None:
        self._group = group
        self._rank = rank
        self._cupy = cupy
        self._calls = calls

    def allReduce(
        self, sent: int, received: int, count: int, kind: int, op: int, stream: int
    ) -> None:
        """Merges the arrays in the order of ranks."""

        def merge(arrays: dict[int, Any]) -> Any:
            total = arrays[0]
            for rank in range(1, len(arrays)):
                total = _MERGES[op](total, arrays[rank])
            return total

        self._put(f"allReduce {count}", sent, received, count, kind, stream, merge)

    def bcast(self, place: int, count: int, kind: int, root: int, stream: int) -> None:
        """Copies the root's values to all ranks."""
        self._put(f"bcast {count}", place, place, count, kind, stream, lambda each: each[root])

    def abort(self) -> None:
        """Ends calls that wait for other ranks."""
        self._calls.append("abort")
        self._group.barrier.abort()

    def _put(
        self,
        what: str,
        sent: int,
        received: int,
        count: int,
        kind: int,
        stream: int,
        merge: Callable[[dict[int, Any]], Any],
    ) -> None:
        self._calls.append(what)
        current = self._cupy.cuda.get_current_stream()
        assert current.ptr == stream, "on another stream than the current one"

        def run() -> None:
            try:
                self._group.arrays[self._rank] = _at(sent, count, kind).copy()
                self._group.barrier.wait(DEADLINE_S)
                made = merge(self._group.arrays)
                self._group.barrier.wait(DEADLINE_S)
            except threading.BrokenBarrierError:
                return  # aborted: leave the contents unchanged
            _at(received, count, kind)[...] = made

        current.put(run)


def _at(address: int, count: int, kind: int) -> Any:
    dtype = np.dtype(_KINDS[kind])
    memory = (ctypes.c_char * (count * dtype.itemsize)).from_address(address)
    return np.frombuffer(memory, dtype)
