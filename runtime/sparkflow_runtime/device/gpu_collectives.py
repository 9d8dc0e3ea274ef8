"""Collectives between GPUs with NCCL, through cupy's bindings.

NCCL requires the ranks of a communicator to call the same operations in the same order. So every
run takes a ticket when its partition starts it, in an order that is the same on all ranks, and runs
execute in ticket order. A lost rank would leave the other GPUs waiting forever: each run finishes
on the host before its result is used, and `abort` ends runs that hang.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np

from sparkflow_runtime.errors import AbortedError, InternalError

UNIQUE_ID_BYTES: Final = 128
"""NCCL_UNIQUE_ID_BYTES in nccl.h."""
_DTYPES: Final = {
    "float16": "NCCL_FLOAT16",
    "float32": "NCCL_FLOAT32",
    "float64": "NCCL_FLOAT64",
    "int32": "NCCL_INT32",
    "int64": "NCCL_INT64",
}
_OPS: Final = {"Add": "NCCL_SUM", "Mul": "NCCL_PROD", "Min": "NCCL_MIN", "Max": "NCCL_MAX"}


def bindings(cupy: Any) -> Any:
    """Returns cupy's bindings of NCCL; None if it was built without them or finds no library."""
    found = getattr(cupy.cuda, "nccl", None)
    return found if found is not None and getattr(found, "available", True) else None


def supports(dtype: Any) -> bool:
    """Whether NCCL supports this dtype."""
    return np.dtype(dtype).name in _DTYPES


def new_unique_id(nccl: Any) -> np.ndarray[Any, Any]:
    """Returns an id, [128] int8, with which the other ranks find the one that created it."""
    made = np.array(nccl.get_unique_id(), np.int8)
    require_unique_id(made)
    return made


def require_unique_id(unique_id: Any) -> None:
    """Checks that `new_unique_id` may have created an id.

    Raises:
        InternalError: It is something else.
    """
    if unique_id.dtype != np.int8 or unique_id.shape != (UNIQUE_ID_BYTES,):
        raise InternalError(
            message=f"An NCCL identifier has {UNIQUE_ID_BYTES} bytes, this one is "
            f"{unique_id.dtype} {list(unique_id.shape)}"
        )


class GpuCommunicator:
    """One rank of a group of GPUs. Safe to use from several threads.

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
        """Returns the ticket of one more run, in the order of calls."""
        with self._changed:
            self._given += 1
            return self._given - 1

    @contextlib.contextmanager
    def turn(self, ticket: int) -> Iterator[None]:
        """Waits for the runs before this one; starts the next one afterwards.

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
        """Creates the communicator on the first call; blocks until all ranks do.

        Args:
            size: The number of ranks.
            rank: This rank.
            exchange_id: Called with the id that rank 0 created, None on others; returns that id on
                every rank.

        Raises:
            AbortedError: The communicator was aborted.
            InternalError: The received id is malformed.
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
        """All-reduces the arrays of all ranks in place; returns when that is done.

        Args:
            array: Contiguous, on the GPU.
            op: `Add`, `Mul`, `Min` or `Max`.
            ready: An event after which the array has its values.
            scale: Factor by which this rank's values are multiplied first; with 0 they are ignored,
                even NaN. None for no scaling.
            divisor: The result is divided by this; floating point only.
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
        """Broadcasts the root's array to all ranks, in place; returns when that is done."""

        def launch() -> None:
            kind = getattr(self._nccl, _DTYPES[array.dtype.name])
            self._communicator.bcast(array.data.ptr, array.size, kind, root, self._stream.ptr)

        self._run(launch, ready)

    def abort(self) -> None:
        """Ends pending and future runs with AbortedError. May be called repeatedly."""
        with self._changed:
            self._aborted = True
            made, self._communicator = self._communicator, None
            self._changed.notify_all()
        if made is not None:
            made.abort()

    def close(self) -> None:
        """Like `abort`, at the end of the session."""
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
