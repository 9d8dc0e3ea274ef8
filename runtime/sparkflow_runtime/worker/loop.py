"""The step loop of one partition: its parameters, its updates, and its end."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from sparkflow_runtime.errors import AbortedError, CancelledError, OpError, OutOfRangeError
from sparkflow_runtime.rendezvous.table import EndOfLoop, StepRendezvous
from sparkflow_runtime.worker.step import Step

if TYPE_CHECKING:
    from sparkflow_runtime.compiler.program import Program

FOREVER: Final = 1 << 62
"""The number of steps of a loop that ends with its data."""
REPORT_INTERVAL_S: Final = 0.1
MAX_KEPT_BYTES: Final = 1 << 24
"""Results of more bytes than this are reported before the interval is over."""


@dataclass(frozen=True, slots=True)
class LoopTerms:
    """When a loop ends, and how its steps are numbered.

    Attributes:
        num_steps: Maximum number of steps; None: until the data end.
        first_step: The number of the first step.
        bounds: By the index of a result. The loop ends after a step in which a result is not below
            its bound; NaN is not below any.
    """

    num_steps: int | None = None
    first_step: int = 0
    bounds: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LoopEnd:
    """How a loop ended.

    Attributes:
        num_steps: The complete steps.
        out_of_range: The message of the OutOfRangeError that ended it, "" if its data did not end.
    """

    num_steps: int
    out_of_range: str = ""


@dataclass(frozen=True, slots=True)
class LoopUpdate:
    """The results of some steps of a loop.

    Attributes:
        first_step: Number of the first of them.
        num_steps: How many.
        values: Per result the values of these steps, stacked along a new axis 0; without those of
            the first `num_dropped` steps.
        waited_s: Time these steps waited for other tasks.
        elapsed_s: Time they took in all.
        num_dropped: For how many steps the values were dropped because a listener was slow.
    """

    first_step: int
    num_steps: int
    values: tuple[np.ndarray[Any, Any], ...]
    waited_s: float
    elapsed_s: float
    num_dropped: int = 0


Listen = Callable[[LoopUpdate], None]


class _Recorder:
    """Collects results of steps; reports the first at once, others every `REPORT_INTERVAL_S`."""

    def __init__(self, step: Step, listen: Listen) -> None:
        self._step = step
        self._listen = listen
        self._rows: list[tuple[Any, ...]] = []
        self._shapes: list[tuple[int, ...]] = []
        self._room = 0
        self._first = step.first_step
        self._since = self._due = time.perf_counter()
        self._waited = 0.0

    def add(self, results: tuple[Any, ...]) -> None:
        shapes = [getattr(value, "shape", ()) for value in results]
        if shapes != self._shapes or not self._rows:
            self.flush()  # The short batch at the end of the data cannot be stacked on full ones.
            self._shapes = shapes
            size_bytes = sum(getattr(value, "nbytes", 0) for value in results)
            self._room = MAX_KEPT_BYTES // max(size_bytes, 1)
        self._rows.append(results)
        if len(self._rows) > self._room or time.perf_counter() >= self._due:
            self.flush()

    def flush(self) -> None:
        if not self._rows:
            return
        now = time.perf_counter()
        values = tuple(stacked(column) for column in zip(*self._rows, strict=True))
        waited = self._step.waited_s
        update = LoopUpdate(
            self._first, len(self._rows), values, waited - self._waited, now - self._since
        )
        self._first += len(self._rows)
        self._rows = []
        self._since, self._due, self._waited = now, now + REPORT_INTERVAL_S, waited
        self._listen(update)


def stacked(column: Sequence[Any]) -> np.ndarray[Any, Any]:
    """Stacks values of one shape along a new axis 0."""
    first = column[0]
    if isinstance(first, np.ndarray | np.generic):
        return np.stack(column)
    # Strings: numpy's own dtype for them would drop trailing zero bytes.
    texts = np.empty(len(column), object)
    texts[:] = column
    return texts


def run_loop(
    program: Program,
    step: Step,
    args: Sequence[Any],
    listen: Listen,
    rendezvous: StepRendezvous,
    source: str = "",
    bounds: Mapping[int, float] | None = None,
) -> LoopEnd:
    """Runs a partition until its number of steps, its data or a peer's data end.

    Args:
        program: The compiled partition.
        step: The step, which knows the maximum number of steps.
        args: Fed values, the same in every step.
        listen: Called in this thread with the steps' results.
        rendezvous: The step's rendezvous; notified when the loop ends early.
        source: The partition's number in its bundles' keys.
        bounds: See `LoopTerms`; results of other partitions are ignored.

    Returns:
        How it ended.

    Raises:
        OpError: A step failed, or the step was aborted.
    """
    recorder = _Recorder(step, listen)
    watched = (
        [(place, bounds[index]) for place, index in enumerate(program.results) if index in bounds]
        if bounds
        else ()
    )
    count = 0
    why = ""
    try:
        while step.iteration <= step.last_iteration:
            rendezvous.begin(step, step.iteration)
            results = program.run(step, args)
            recorder.add(results)
            count += 1
            step.iteration += 1
            if any(not np.all(results[place] < bound) for place, bound in watched):
                break
    except EndOfLoop:
        pass
    except OutOfRangeError as error:
        why = error.message
    except OpError as error:
        if error.located and not isinstance(error, AbortedError | CancelledError):
            _append(error, f"in step {step.number} of a loop")
        raise
    finally:
        recorder.flush()
    if count <= step.last_iteration:
        rendezvous.end(source, count)
    return LoopEnd(count, why)


def _append(error: OpError, where: str) -> None:
    error.message = f"{error.message}\n\t {where}"
    error.args = (error.message,)
