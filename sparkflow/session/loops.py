"""A session's step loops: many steps with one call, their values as they are computed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any

import numpy as np

from sparkflow._api import export
from sparkflow_runtime.errors import OpError, OutOfRangeError
from sparkflow_runtime.master.running_loops import END_TIMEOUT_S, RunningLoop
from sparkflow_runtime.worker.loop import LoopEnd, LoopUpdate as RuntimeUpdate


@export("train.LoopUpdate")
class LoopUpdate:
    """Results of some steps of a loop.

    Attributes:
        first_step: The number of the first of them.
        num_steps: How many.
        num_dropped: Of how many of the first of them the values were dropped, because whoever
            listens is slow; 0 but for megabytes of values that wait.
        waited_s: The time they waited for other tasks, in seconds.
        elapsed_s: The time they took in all, in seconds.
    """

    __slots__ = (
        "_columns",
        "_fill",
        "elapsed_s",
        "first_step",
        "num_dropped",
        "num_steps",
        "waited_s",
    )

    def __init__(
        self,
        first_step: int,
        num_steps: int,
        columns: Sequence[np.ndarray[Any, Any]],
        fill: Callable[[Sequence[Any]], Any],
        num_dropped: int = 0,
        waited_s: float = 0.0,
        elapsed_s: float = 0.0,
    ) -> None:
        self.first_step = first_step
        self.num_steps = num_steps
        self.num_dropped = num_dropped
        self.waited_s = waited_s
        self.elapsed_s = elapsed_s
        self._columns = columns
        self._fill = fill

    @property
    def values(self) -> Any:
        """In the structure of the fetches the values of each step, stacked along a new axis 0.

        It has one row per step, less `num_dropped`.
        """
        return self._fill(self._columns)

    @property
    def last(self) -> Any:
        """The values of the last step in the structure of the fetches, as from `Session.run`."""
        return self._fill([column[-1] for column in self._columns])

    def narrowed(self, pick: Callable[[Any], Any]) -> LoopUpdate:
        """The same about a part of the fetches."""
        fill = self._fill
        return LoopUpdate(
            self.first_step,
            self.num_steps,
            self._columns,
            lambda values: pick(fill(values)),
            self.num_dropped,
            self.waited_s,
            self.elapsed_s,
        )

    def __repr__(self) -> str:
        return f"LoopUpdate(first_step={self.first_step}, num_steps={self.num_steps})"


@export("train.StepLoop")
class StepLoop:
    """A step loop that was started. Iterate over it for its updates. Thread-safe.

    Every iteration is a listener of its own: the first gets all updates from the first step on,
    others what comes after they began. A slow listener does not hold up the steps: updates that
    wait for it are put together into fewer, longer ones; when their values take more than 64 MiB
    the oldest values are dropped, see `LoopUpdate.num_dropped`. No step is left uncounted.

    As a context manager it is cancelled at the end of the block, if it still runs.

    Args:
        loop: The runtime's.
        fill: Makes the structure of the fetches from the fetched tensors' values.
        located: Adds to an error what the client knows of it.
    """

    def __init__(
        self,
        loop: RunningLoop,
        fill: Callable[[Sequence[Any]], Any],
        located: Callable[[OpError], OpError],
    ) -> None:
        self._loop = loop
        self._fill = fill
        self._located = located

    def narrowed(self, pick: Callable[[Any], Any]) -> StepLoop:
        """The same loop, whose updates are about a part of the fetches."""
        fill = self._fill
        return StepLoop(self._loop, lambda values: pick(fill(values)), self._located)

    def __iter__(self) -> Iterator[LoopUpdate]:
        """The updates as they arrive; ends when the loop does.

        Raises:
            OpError: As `wait` does.
        """
        return (update for update in self.poll(None) if update is not None)

    def poll(self, interval_s: float | None) -> Iterator[LoopUpdate | None]:
        """Like iteration, but also yields None whenever nothing arrived for this many seconds."""
        try:
            for update in self._loop.poll(interval_s):
                yield None if update is None else self._filled(update)
        except OpError as error:
            raise self._located(error) from error.__cause__

    @property
    def done(self) -> bool:
        """Whether it has ended, one way or another."""
        return self._loop.done

    def wait(self, timeout_s: float | None = None) -> int:
        """Blocks until the loop has ended; the number of complete steps.

        Args:
            timeout_s: How long to wait, in seconds; for ever when None.

        Raises:
            OpError: What ended it, if not its number of steps, its data, a bound or `stop`.
            TimeoutError: It still runs.
        """
        return self.end(timeout_s).num_steps

    def end(self, timeout_s: float | None = None) -> LoopEnd:
        """Like `wait`, with the text of the error that signalled the end of the data."""
        try:
            return self._loop.wait(timeout_s)
        except OpError as error:
            raise self._located(error) from error.__cause__

    def data_error(self, end: LoopEnd) -> OpError:
        """The error that signalled the end of the data."""
        return self._located(OutOfRangeError(message=end.out_of_range))

    def stop(self) -> None:
        """Ends the loop at the next step that all partitions can reach; does not wait for it.

        Steps that some partition has begun are completed by all, so nothing is lost or done by
        half. A step that waits for something that never comes needs `cancel`.
        """
        self._loop.stop()

    def cancel(self, reason: str = "The loop was cancelled") -> None:
        """Ends the loop in the middle of whatever step it is in, with a CancelledError."""
        self._loop.cancel(reason)

    def __enter__(self) -> StepLoop:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.give_up()

    def give_up(self) -> None:
        """Cancels the loop if it still runs, and waits until it has ended, ten seconds at most."""
        if not self.done:
            self.cancel()
            try:
                self.wait(END_TIMEOUT_S)
            except (OpError, TimeoutError):
                return  # It was to be cancelled; of what hangs in a kernel nothing more is known.

    def _filled(self, update: RuntimeUpdate) -> LoopUpdate:
        return LoopUpdate(
            update.first_step,
            update.num_steps,
            update.values,
            self._fill,
            update.num_dropped,
            update.waited_s,
            update.elapsed_s,
        )
