"""Collectives between GPUs by NCCL, through cupy's bindings.

NCCL wants the ranks of a communicator to ask for the same things in the same order. So every run
takes a ticket where its partition starts it, which is the same on all ranks, and runs follow their
tickets. A rank that is lost would leave the others' GPUs waiting for ever: each run ends on the
host before its result is used, and `abort` ends the runs that hang.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np

from sparkflow_runtime.errors import AbortedError, InternalError

UNIQUE_ID_BYTES: Final = 128
"""NCCL_UNIQUE_ID_BYTES of nccl.h."""
_DTYPES: Final = {
    "float16": "NCCL_FLOAT16",
    "float32": "NCCL_FLOAT32",
    "float64": "NCCL_FLOAT64",
    "int32": "NCCL_INT32",
    "int64": "NCCL_INT64",
}
_OPS: Final = {"Add": "NCCL_SUM", "Mul": "NCCL_PROD", "Min": "NCCL_MIN", "Max": "NCCL_MAX"}


def bindings(cupy: Any) -> Any:
    """The bindings of NCCL in cupy, None where it was built without, or finds no library."""
    found = getattr(cupy.cuda, "nccl", None)
    return found if found is not None and getattr(found, "available", True) else None


def supports(dtype: Any) -> bool:
    """Whether NCCL has values of this dtype."""
    return np.dtype(dtype).name in _DTYPES


def new_unique_id(nccl: Any) -> np.ndarray[Any, Any]:
    """[128] int8: what the other ranks need to find the one that made it."""
    made = np.array(nccl.get_unique_id(), np.int8)
    require_unique_id(made)
    return made


def require_unique_id(unique_id: Any) -> None:
    """Passes what `new_unique_id` may have made.

    Raises:
        InternalError: It is something else.
    """
    if unique_id.dtype != np.int8 or unique_id.shape != (UNIQUE_ID_BYTES,):
        raise InternalError(
            message=f"An identifier of NCCL is {UNIQUE_ID_BYTES} bytes, this one is "
            f"{unique_id.dtype} {list(unique_id.shape)}"
        )


class GpuCommunicator:
    """One rank's part in a group of GPUs. Safe to use from several threads.

    `_changed` guards `_next`, `_given`, `_communicator` and `_aborted`.

    Args:
        cupy: The module.
        nccl: Its bindings.
        index: The rank's GPU.
    """

    def __init__(self, cupy: Any, nccl: Any, index: int) -> None:
        self._cupy = cupy
        self._nccl = nccl
        self._index = index
        self._changed = threading.Condition()
        self._given = 0
        self._next = 0
        self._communicator: Any = None
        self._aborted = False
        with cupy.cuda.Device(index):
            self._stream = cupy.cuda.Stream(non_blocking=True)

    def ticket(self) -> int:
        """The place of one more run, in the order of calls."""
        with self._changed:
            self._given += 1
            return self._given - 1

    @contextlib.contextmanager
    def turn(self, ticket: int) -> Iterator[None]:
        """Waits for the runs before this one; lets the next one begin afterwards.

        Raises:
            AbortedError: The communicator was aborted.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._aborted or self._next == ticket)
            self._raise_if_aborted()
        try:
            yield
        finally:
            with self._changed:
                self._next = ticket + 1
                self._changed.notify_all()

    def connect(self, size: int, rank: int, exchange_id: Callable[[Any], Any]) -> None:
        """Makes the communicator, the first time; blocks until all ranks do.

        Args:
            size: How many ranks there are.
            rank: Which of them this is.
            exchange_id: Is given what rank 0 made, None on others; gives every rank what rank 0
                made.

        Raises:
            AbortedError: The communicator was aborted.
            InternalError: What came is no identifier.
        """
        if self._communicator is not None:
            return
        unique_id = exchange_id(new_unique_id(self._nccl) if rank == 0 else None)
        require_unique_id(unique_id)
        with self._cupy.cuda.Device(self._index):
            made = self._nccl.NcclCommunicator(size, tuple(map(int, unique_id)), rank)
        with self._changed:
            self._communicator = made
            aborted = self._aborted
        if aborted:
            made.abort()
            self._raise_if_aborted()

    def all_reduce(
        self, array: Any, op: str, ready: Any, scale: float | None = None, divisor: int = 1
    ) -> None:
        """Merges the arrays of all ranks into each of them; returns when that is done.

        Args:
            array: Contiguous, on the GPU.
            op: `Add`, `Mul`, `Min` or `Max`.
            ready: An event after which the array has its values.
            scale: What this rank's values are multiplied by first; with 0 they do not count,
                whatever they are. None for nothing.
            divisor: What the result is divided by, of floating point.
        """

        def launch() -> None:
            if scale == 0:
                array.fill(0)
            elif scale is not None:
                array.__imul__(array.dtype.type(scale))
            kind = getattr(self._nccl, _DTYPES[array.dtype.name])
            operation = getattr(self._nccl, _OPS[op])
            pointer, count, stream = array.data.ptr, array.size, self._stream.ptr
            self._communicator.allReduce(pointer, pointer, count, kind, operation, stream)
            if divisor != 1:
                array.__itruediv__(array.dtype.type(divisor))

        self._run(launch, ready)

    def broadcast(self, array: Any, root: int, ready: Any) -> None:
        """Fills the arrays of all ranks with that of the root; returns when that is done."""

        def launch() -> None:
            kind = getattr(self._nccl, _DTYPES[array.dtype.name])
            self._communicator.bcast(array.data.ptr, array.size, kind, root, self._stream.ptr)

        self._run(launch, ready)

    def abort(self) -> None:
        """Ends runs that hang and those to come, with AbortedError. May be called again."""
        with self._changed:
            self._aborted = True
            made, self._communicator = self._communicator, None
            self._changed.notify_all()
        if made is not None:
            made.abort()

    def close(self) -> None:
        """The same, for the end of the session."""
        self.abort()

    def _run(self, launch: Callable[[], None], ready: Any) -> None:
        cuda = self._cupy.cuda
        with cuda.Device(self._index), self._stream:
            self._stream.wait_event(ready)
            launch()
            done = cuda.Event(disable_timing=True)
            done.record(self._stream)
        done.synchronize()
        self._raise_if_aborted()

    def _raise_if_aborted(self) -> None:
        if self._aborted:
            raise AbortedError(message=f"NCCL on GPU:{self._index} was aborted")
