"""Where the gradients of several replicas meet: their mean, weighted by rows.

`Rounds` decides who contributed to which step; the accumulators hold gradients, wait and average.

For one step every replica contributes a gradient that is the mean over its own rows, with the
number of these rows as its weight. `sum(weight * gradient) / sum(weight)`, summed in the order of
replica numbers, is then the gradient over all rows, bit for bit the same in every run.
"""

from __future__ import annotations

import enum
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, Generic, TypeVar

import numpy as np

from sparkflow_runtime import shapes
from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.errors import AbortedError, FailedPreconditionError, InvalidArgumentError
from sparkflow_runtime.resources.waiting import Cancellation, wait_for
from sparkflow_runtime.shapes import Shape

G = TypeVar("G")


class Outcome(enum.Enum):
    """What became of a contribution."""

    ACCEPTED = "accepted"
    REPEATED = "repeated"
    """The replica contributed to this step before; the first contribution counts."""
    STALE = "stale"
    """The step was taken already."""


@dataclass(frozen=True, slots=True)
class Contribution(Generic[G]):
    """One replica's gradient for one step.

    Attributes:
        replica: The replica's number.
        weight: Its number of rows.
        gradient: The mean over these rows; meaningless when the weight is 0.
    """

    replica: int
    weight: float
    gradient: G


class Rounds(Generic[G]):
    """Contributions by step, without threads. Each (replica, step) counts at most once.

    Steps are taken in increasing order; taking one ends all before it. How many steps wait at once
    depends on how far replicas run ahead of the steps taken: whoever lets them run bounds that.

    Attributes:
        last_taken: The last step taken, None before the first.
        repeated, stale: How many contributions were dropped, and why.
    """

    def __init__(self) -> None:
        self.last_taken: int | None = None
        self.repeated = 0
        self.stale = 0
        self._steps: dict[int, dict[int, Contribution[G]]] = {}

    def add(self, step: int, contribution: Contribution[G]) -> Outcome:
        """Counts a contribution, or drops it."""
        if self.is_taken(step):
            self.stale += 1
            return Outcome.STALE
        arrived = self._steps.setdefault(step, {})
        if contribution.replica in arrived:
            self.repeated += 1
            return Outcome.REPEATED
        arrived[contribution.replica] = contribution
        return Outcome.ACCEPTED

    def is_taken(self, step: int) -> bool:
        """Whether contributions to this step come too late."""
        return self.last_taken is not None and step <= self.last_taken

    def ready(self, step: int, num_required: int) -> bool:
        """Whether so many replicas contributed to this step."""
        return len(self._steps.get(step, ())) >= num_required

    def take(self, step: int) -> list[Contribution[G]]:
        """The contributions to this step in the order of replica numbers; ends the step.

        Raises:
            FailedPreconditionError: It was taken before.
        """
        if self.is_taken(step):
            raise FailedPreconditionError(
                message=f"Step {step} was taken already, the last one was {self.last_taken}; "
                "every step can be taken once, in increasing order"
            )
        self.last_taken = step
        arrived = self._steps.pop(step, {})
        for earlier in [s for s in self._steps if s < step]:
            self.stale += len(self._steps.pop(earlier))
        return [arrived[replica] for replica in sorted(arrived)]


class _Accumulator(Generic[G]):
    """Rounds behind a condition. Safe to use from several threads.

    `_changed` guards `_rounds` and `_closed`; gradients are copied and averaged outside it.
    """

    def __init__(self, name: str, dtype: DType, shape: Shape) -> None:
        self.name = name
        self.dtype = dtype
        self.shape = shape
        self._rounds: Rounds[G] = Rounds()
        self._closed = False
        self._changed = threading.Condition()

    @property
    def dropped(self) -> tuple[int, int]:
        """How many contributions were (repeated, stale)."""
        with self._changed:
            return self._rounds.repeated, self._rounds.stale

    def close(self) -> None:
        """Ends all waiting with AbortedError, for whoever drops the accumulator."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _add(self, step: int, contribution: Contribution[G]) -> Outcome:
        with self._changed:
            outcome = self._rounds.add(step, contribution)
            if outcome is Outcome.ACCEPTED:
                self._changed.notify_all()
        return outcome

    def _take(
        self, step: int, num_required: int, cancellation: Cancellation
    ) -> list[Contribution[G]]:
        if num_required < 1:
            raise InvalidArgumentError(
                message=f"num_required must be at least 1, got {num_required}"
            )

        def attempt() -> list[Contribution[G]] | None:
            if self._closed:
                raise AbortedError(message=f"Accumulator {self.name!r} was dropped by its task")
            taken = self._rounds.is_taken(step)
            return self._rounds.take(step) if taken or self._ready(step, num_required) else None

        return wait_for(self._changed, attempt, cancellation)

    def _ready(self, step: int, num_required: int) -> bool:
        return self._rounds.ready(step, num_required)

    def _checked_weight(self, weight: float, replica: int) -> float:
        if not (isfinite(weight) and weight >= 0):
            raise InvalidArgumentError(
                message=f"Replica {replica} contributes to accumulator {self.name!r} with weight "
                f"{weight}; a weight is finite and at least 0"
            )
        return weight

    def _check(self, array: Any, expected: Shape, what: str) -> None:
        if array.dtype != self.dtype.as_numpy_dtype:
            raise InvalidArgumentError(
                message=f"Accumulator {self.name!r} holds {self.dtype.name}, got {what} "
                f"of {array.dtype}"
            )
        if not shapes.is_compatible(expected, array.shape):
            raise InvalidArgumentError(
                message=f"Accumulator {self.name!r} takes {what} of shape {shapes.text(expected)}, "
                f"got {shapes.text(array.shape)}"
            )


class WeightedAccumulator(_Accumulator[Any]):
    """Weighted means of arrays.

    Args:
        name: For messages.
        dtype: Of the gradients and of the sums.
        shape: Of the gradients, as far as it is known.
    """

    def apply(self, step: int, replica: int, weight: float, gradient: Any) -> Outcome:
        """Contributes a replica's gradient to a step; does not block.

        Args:
            step: The step this gradient is for.
            replica: The number of the contributing replica.
            weight: How many rows the gradient is the mean of. With 0 the replica has arrived and
                the values of its gradient are ignored, whatever they are.
            gradient: The array; copied.

        Raises:
            InvalidArgumentError: A wrong dtype or shape, a weight that is negative or not finite.
        """
        weight = self._checked_weight(weight, replica)
        self._check(gradient, self.shape, "a gradient")
        kept = np.array(gradient) if weight else np.zeros(gradient.shape, gradient.dtype)
        return self._add(step, Contribution(replica, weight, kept))

    def take(self, step: int, num_required: int, cancellation: Cancellation) -> Any:
        """The weighted mean of all that arrived, once `num_required` replicas contributed.

        Blocks until then. Zeros when all weights are 0.

        Raises:
            FailedPreconditionError: The step was taken before.
            InvalidArgumentError: `num_required` below 1, or gradients of different shapes.
            AbortedError: The accumulator was dropped.
            CancelledError, ...: What ended the waiting step.
        """
        arrived = self._take(step, num_required, cancellation)
        first = arrived[0]
        for other in arrived[1:]:
            if other.gradient.shape != first.gradient.shape:
                raise InvalidArgumentError(
                    message=f"The gradients for accumulator {self.name!r} in step {step} differ: "
                    f"replica {first.replica} has shape {shapes.text(first.gradient.shape)}, "
                    f"replica {other.replica} {shapes.text(other.gradient.shape)}"
                )
        return (
            _weighted_mean([c for c in arrived if c.weight])
            if _total(arrived)
            else (first.gradient)
        )


@dataclass(frozen=True, slots=True)
class Rows:
    """A sparse gradient: `values[i]` belongs to row `indices[i]`."""

    indices: Any
    values: Any


class SparseWeightedAccumulator(_Accumulator[Rows]):
    """Weighted means of sparse gradients.

    Args:
        name: For messages.
        dtype: Of the values.
        shape: Of the variable, as far as it is known; values have shape `[n] + shape[1:]`.
    """

    def apply(self, step: int, replica: int, weight: float, indices: Any, values: Any) -> Outcome:
        """Contributes a replica's rows to a step; does not block. See `WeightedAccumulator.apply`.

        Raises:
            InvalidArgumentError: Indices and values that do not fit each other or the accumulator,
                a weight that is negative or not finite.
        """
        weight = self._checked_weight(weight, replica)
        if indices.ndim != 1:
            raise InvalidArgumentError(
                message=f"Accumulator {self.name!r} takes indices of rank 1, "
                f"got shape {shapes.text(indices.shape)}"
            )
        rows = None if self.shape is None else self.shape[1:]
        self._check(values, shapes.concatenate(indices.shape, rows), "values")
        if not weight:
            indices, values = indices[:0], values[:0]
        return self._add(
            step, Contribution(replica, weight, Rows(np.array(indices), np.array(values)))
        )

    def take(self, step: int, num_required: int, cancellation: Cancellation) -> tuple[Any, Any]:
        """Indices and values of all that arrived, once `num_required` replicas contributed.

        The rows of each replica follow those of the one with the next lower number, multiplied by
        its share of the weights: summing rows of equal index gives the weighted mean. No rows when
        all weights are 0. Blocks and raises as `WeightedAccumulator.take`.
        """
        arrived = self._take(step, num_required, cancellation)
        total = _total(arrived)
        for contribution in arrived:
            values = contribution.gradient.values
            if contribution.weight:
                values *= values.dtype.type(contribution.weight / total)
        return (
            np.concatenate([c.gradient.indices for c in arrived]),
            np.concatenate([c.gradient.values for c in arrived]),
        )


def _total(arrived: Sequence[Contribution[Any]]) -> float:
    return sum(contribution.weight for contribution in arrived)


def _weighted_mean(arrived: Sequence[Contribution[Any]]) -> Any:
    """Works in the arrays of the contributions, which are nobody else's."""
    total = _total(arrived)
    mean = None
    for contribution in arrived:
        share = contribution.gradient
        share *= share.dtype.type(contribution.weight / total)
        mean = share if mean is None else np.add(mean, share, out=mean)
    return mean
