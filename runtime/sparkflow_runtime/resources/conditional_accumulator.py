"""TensorFlow's gradient accumulators: sums that are available once enough gradients are in.

A gradient carries the step for which it was computed; stale ones are dropped. float16 and bfloat16
are added in float32 and rounded once, when the sum is taken.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np

from sparkflow_runtime import shapes
from sparkflow_runtime.dtypes import DType, wide
from sparkflow_runtime.errors import (
    AbortedError,
    CancelledError,
    InvalidArgumentError,
    OpError,
)
from sparkflow_runtime.resources.parking import Request, requested, tell
from sparkflow_runtime.resources.waiting import Cancellation, wait_for
from sparkflow_runtime.shapes import Shape

S = TypeVar("S")


@dataclass(slots=True, eq=False)
class _Taking(Request):
    """A request for the sum of at least `num_required` gradients.

    Attributes:
        num_required: The required number of gradients.
        sum, count: The sum and number of gradients that it got, from which `taken` is computed.
        taken: The op's result.
    """

    num_required: int = 0
    sum: Any = None
    count: int = 0
    taken: Any = None


class _Accumulator(Generic[S]):
    """A sum behind a condition. Safe to use from several threads.

    Requests are served in order of arrival, once enough gradients are in for them.
    `_lock` guards `_sum`, `_count`, `_takings`, `_step`, `_stopped` and `_closed`.

    Args:
        name: For messages.
        dtype: Of the gradients.
        shape: The gradients' shape, as far as it is known.
        mean: Whether the result is a mean rather than a sum.
    """

    def __init__(self, name: str, dtype: DType, shape: Shape, mean: bool) -> None:
        self.name = name
        self.dtype = dtype
        self.shape = shape
        self.mean = mean
        self._sum: S | None = None
        self._count = 0
        self._takings: list[_Taking] = []  # that are not done
        self._step = 0
        self._stopped = False
        self._closed = False
        # used directly: `Condition` enters it in Python code, which is slower
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)

    @property
    def num_accumulated(self) -> int:
        """How many gradients are in."""
        with self._lock:
            return self._count

    def set_global_step(self, step: int) -> None:
        """Drops gradients for earlier steps from now on; allows taking again."""
        with self._lock:
            self._step = step
            self._stopped = False

    def cancel_takes(self) -> None:
        """Ends all requests with CancelledError, until the next `set_global_step`.

        This stops a loop of requests, whether it waits now or is about to.
        """
        with self._lock:
            self._stopped = True
            ended = self._end_all()
        tell(ended)

    def close(self) -> None:
        """Ends all waits with AbortedError, when the accumulator is dropped."""
        with self._lock:
            self._closed = True
            ended = self._end_all()
        tell(ended)

    def park(self, request: Request, on_done: Callable[[], None]) -> bool:
        """See `parking.Owner`."""
        with self._lock:
            if request.done:
                return False
            request.on_done = on_done
        return True

    def give_up(self, request: Request, error: OpError) -> None:
        """See `parking.Owner`."""
        with self._lock:
            if request.done:
                return
            self._takings = [each for each in self._takings if each is not request]
            request.fail(error)
        tell([request])

    def _add(self, local_step: int, gradient: S) -> bool:
        served: list[_Taking] = []
        with self._lock:
            if local_step < self._step:
                return False
            self._sum = (
                self._first(gradient) if self._sum is None else self._added(self._sum, gradient)
            )
            self._count += 1
            if self._takings:
                served = self._serve()
        tell(served)
        return True

    def _ask(self, num_required: int) -> _Taking:
        """Takes the sum, or enters the queue for it."""
        taking = _Taking(num_required=num_required)
        with self._lock:
            refusal = self._refusal()
            if refusal is not None:
                raise refusal
            self._takings.append(taking)
            self._serve()  # no other request waits: it would have been served before
        return taking

    def _serve(self) -> list[_Taking]:
        """Gives the sum to the first request that it satisfies; returns the requests done now."""
        for taking in self._takings:
            if taking.num_required <= self._count and self._sum is not None:
                taking.sum, taking.count = self._sum, self._count
                self._sum, self._count = None, 0
                self._step += 1
                self._takings.remove(taking)
                taking.done = True
                self._changed.notify_all()
                return [taking]
        return []

    def _refusal(self) -> OpError | None:
        """Returns why nothing can be taken."""
        if self._closed:
            return AbortedError(message=f"Accumulator {self.name!r} was dropped by its task")
        if self._stopped:
            return CancelledError(
                message=f"Taking gradients from accumulator {self.name!r} was stopped"
            )
        return None

    def _end_all(self) -> list[_Taking]:
        ended, self._takings = self._takings, []
        for taking in ended:
            refusal = self._refusal()
            assert refusal is not None
            taking.fail(refusal)
        self._changed.notify_all()
        return ended

    def _take(self, num_required: int, cancellation: Cancellation) -> Any:
        """Returns `_made` of the sum and the number of gradients, once enough are in."""
        if num_required < 1:
            raise InvalidArgumentError(
                message=f"Argument num_required must be positive, got {num_required}"
            )
        taking = requested(lambda: self._ask(num_required), self)
        if not taking.done:
            self._wait(taking, cancellation)
        if taking.error is not None:
            raise taking.error
        if taking.sum is not None:  # a parked run repeats the request for what it has
            taking.taken = self._made(taking.sum, taking.count)
            taking.sum = None
        return taking.taken

    def _wait(self, taking: _Taking, cancellation: Cancellation) -> None:
        try:
            wait_for(self._changed, lambda: True if taking.done else None, cancellation)
        except BaseException:
            with self._lock:
                if not taking.done:
                    self._takings.remove(taking)
            raise

    def _made(self, total: S, count: int) -> Any:
        raise NotImplementedError(type(self).__name__)

    def _first(self, gradient: S) -> S:
        """Returns a copy of one gradient as the sum."""
        return gradient

    def _added(self, total: S, gradient: S) -> S:
        raise NotImplementedError(type(self).__name__)

    def _check(self, array: Any, expected: Shape) -> None:
        if array.dtype != self.dtype.as_numpy_dtype:
            raise InvalidArgumentError(
                message=f"Accumulator {self.name!r} holds {self.dtype.name}, got a gradient of "
                f"{array.dtype}"
            )
        self._check_shape(array, expected)

    def _check_shape(self, array: Any, expected: Shape) -> None:
        if not shapes.is_compatible(expected, array.shape):
            raise InvalidArgumentError(
                message=f"Shape mismatch: expected {shapes.text(expected)}, "
                f"got {shapes.text(array.shape)}, for accumulator {self.name!r}"
            )


class ConditionalAccumulator(_Accumulator[Any]):
    """Sums or means of arrays."""

    def apply(self, local_step: int, gradient: Any) -> bool:
        """Adds a gradient unless it is stale; returns whether it was added. Does not block.

        Raises:
            InvalidArgumentError: A wrong dtype, or a shape that does not match the earlier ones.
        """
        self._check(gradient, self.shape)
        return self._add(local_step, gradient)

    def take(self, num_required: int, cancellation: Cancellation) -> Any:
        """Returns the mean or sum once enough gradients are in, which ends the step. Blocks.

        Raises:
            InvalidArgumentError: `num_required` below 1.
            AbortedError: The accumulator was dropped.
            CancelledError, ...: What ended the waiting step.
        """
        return self._take(num_required, cancellation)

    def _made(self, total: Any, count: int) -> Any:
        if self.mean and total.dtype.kind in "fc":
            np.divide(total, total.dtype.type(count), out=total)  # nothing else refers to it
        elif self.mean:
            total = total / total.dtype.type(count)
        return total.astype(self.dtype.as_numpy_dtype, copy=False)

    def _first(self, gradient: Any) -> Any:
        return np.array(gradient, wide(gradient.dtype))

    def _added(self, total: Any, gradient: Any) -> Any:
        self._check_shape(gradient, total.shape)
        return np.add(total, gradient, out=total)


SumEqual: TypeAlias = Callable[[Any, Any], tuple[Any, Any, Any]]
"""Adds up rows of equal index: of [n] indices and [n, ...] values the distinct indices, the sum of
each one's rows, and which of the distinct ones each of the n is."""


class Rows:
    """Rows by index, with the number of gradients each was in.

    Args:
        indices: [n] different integers.
        values: [n, ...].
        counts: [n] integers.
    """

    __slots__ = ("counts", "indices", "values")

    def __init__(self, indices: Any, values: Any, counts: Any) -> None:
        self.indices = indices
        self.values = values
        self.counts = counts

    def sorted(self) -> Rows:
        """Returns the rows in ascending order of the indices."""
        order = np.argsort(self.indices)
        return Rows(self.indices[order], self.values[order], self.counts[order])


class SparseConditionalAccumulator(_Accumulator[Rows]):
    """Sums or means of rows; a mean is over the gradients that contain the row, as in TensorFlow.

    Args:
        name: For messages.
        dtype: Of the gradients.
        shape: The shape of the whole tensor, as far as it is known.
        mean: Whether the results are means rather than sums.
        sum_equal: Adds up rows of equal index, into memory that nothing else refers to.
    """

    def __init__(
        self, name: str, dtype: DType, shape: Shape, mean: bool, sum_equal: SumEqual
    ) -> None:
        super().__init__(name, dtype, shape, mean)
        self._sum_equal = sum_equal

    def apply(self, local_step: int, indices: Any, values: Any, shape: Any) -> bool:
        """Adds rows unless they are stale; returns whether they were added. Does not block.

        Args:
            local_step: The step for which they were computed.
            indices: [n] integers, which may repeat.
            values: [n, ...].
            shape: The shape of the whole tensor, empty if unknown.

        Raises:
            InvalidArgumentError: A wrong dtype, or shapes that do not fit.
        """
        self._check_rows(indices, values)
        whole = tuple(int(size) for size in shape)
        if whole and not shapes.is_compatible(self._begins(len(whole)), whole):
            raise InvalidArgumentError(
                message=f"Shape mismatch: expected {shapes.text(self.shape)}, "
                f"got {shapes.text(whole)}, for accumulator {self.name!r}"
            )
        known = self._begins(values.ndim)
        self._check(values, (*indices.shape, *known[1:]))
        if known[0] is not None and indices.size and int(indices.max()) >= known[0]:
            slice_ = int(np.argmax(indices >= known[0]))
            raise InvalidArgumentError(
                message=f"Shape mismatch: index of slice {slice_} exceeded limits of shape; index "
                f"is {int(indices[slice_])} exceeded {known[0]}"
            )
        if whole and indices.size and int(indices.max()) >= whole[0]:
            raise InvalidArgumentError(
                message=f"Index {int(indices.max())} is outside the shape {shapes.text(whole)} of "
                f"a gradient for accumulator {self.name!r}"
            )
        values = values.astype(wide(values.dtype), copy=False)
        distinct, sums, _ = self._sum_equal(indices, values)
        once = Rows(distinct, sums, np.ones(distinct.size, np.int64))
        return self._add(local_step, once)

    def take(self, num_required: int, cancellation: Cancellation) -> tuple[Any, Any, Any]:
        """Returns indices, values and the known part of the shape; ends the step. Blocks.

        Raises as `ConditionalAccumulator.take`.
        """
        taken: tuple[Any, Any, Any] = self._take(num_required, cancellation)
        return taken

    def _made(self, total: Rows, count: int) -> tuple[Any, Any, Any]:
        rows = total.sorted()
        values = rows.values
        if self.mean:
            counts = rows.counts.astype(values.dtype)
            values = values / counts.reshape(-1, *[1] * (values.ndim - 1))
        first = self._begins(values.ndim)[0]
        sizes = [-1 if first is None else first, *values.shape[1:]]
        values = values.astype(self.dtype.as_numpy_dtype, copy=False)
        return rows.indices, values, np.array(sizes, np.int64)

    def _begins(self, rank: int) -> tuple[int | None, ...]:
        """What the accumulator's shape says of a whole of a rank: it may know fewer dimensions."""
        known = self.shape or ()
        return (*known, *[None] * (rank - len(known)))

    def _added(self, total: Rows, gradient: Rows) -> Rows:
        self._check_shape(gradient.values, (None, *total.values.shape[1:]))
        distinct, sums, number = self._sum_equal(
            np.concatenate([total.indices, gradient.indices]),
            np.concatenate([total.values, gradient.values]),
        )
        counts = np.concatenate([total.counts, gradient.counts])
        counts = np.bincount(number, counts, distinct.size).astype(np.int64)
        return Rows(distinct, sums, counts)

    def _check_rows(self, indices: Any, values: Any) -> None:
        if indices.ndim != 1 or values.shape[:1] != indices.shape:
            raise InvalidArgumentError(
                message=f"Accumulator {self.name!r} takes indices of rank 1 with one row of values "
                f"each, got shapes {shapes.text(indices.shape)} and {shapes.text(values.shape)}"
            )
