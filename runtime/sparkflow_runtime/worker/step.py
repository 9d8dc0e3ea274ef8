"""One step on one partition, as its kernels see it, and the loop that repeats it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from sparkflow_runtime.compiler.program import Program
from sparkflow_runtime.errors import OutOfRangeError, ResourceExhaustedError
from sparkflow_runtime.rendezvous.table import EndOfLoop, StepRendezvous
from sparkflow_runtime.transport import codec, rpc
from sparkflow_runtime.transport.peers import Receiver

FOREVER: Final = 1 << 62
"""The number of steps of a loop that ends with its data."""
REPORT_INTERVAL_S: Final = 0.1


class Step:
    """The `StepContext` of one partition's run. Used by the thread that runs the partition.

    Attributes:
        waited_s: Time spent waiting for other tasks.
    """

    __slots__ = (
        "_local_task",
        "_receiver",
        "_rendezvous",
        "first_step",
        "iteration",
        "last_iteration",
        "step_id",
        "waited_s",
    )

    def __init__(
        self,
        step_id: int,
        rendezvous: StepRendezvous,
        receiver: Receiver,
        local_task: str,
        num_steps: int = 1,
        first_step: int = 0,
    ) -> None:
        self.first_step = first_step
        self.step_id = step_id
        self.iteration = 0
        self.last_iteration = num_steps - 1
        self.waited_s = 0.0
        self._rendezvous = rendezvous
        self._receiver = receiver
        self._local_task = local_task

    @property
    def number(self) -> int:
        """The training step's number: where the loop began plus the turn."""
        return self.first_step + self.iteration

    def check_cancelled(self) -> None:
        """Passes while the step goes on.

        Raises:
            EndOfLoop: The loop ended before this iteration.
            OpError: What ended the step.
        """
        self._rendezvous.check(self.iteration)

    def on_cancel(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Calls `callback` once if the step ends, or its loop does before this iteration.

        The returned function takes it back.
        """
        return self._rendezvous.on_abort(callback, self.iteration)

    def send(self, key: str, destination: str, values: tuple[Any, ...]) -> None:
        """Leaves a snapshot of the values for the partition on `destination`.

        Raises:
            EndOfLoop: The loop ended before this iteration.
            ResourceExhaustedError: They are more than a message can hold.
        """
        if _task_of(destination) == self._local_task:
            kept: Any = tuple([np.array(value) for value in values])
        else:
            kept = codec.encode(values)
            if len(kept) > rpc.MAX_MESSAGE_BYTES:
                raise ResourceExhaustedError(
                    message=f"{len(values)} tensors of {len(kept)} bytes in all are to go to "
                    f"{destination} together; a message holds {rpc.MAX_MESSAGE_BYTES}. Split the "
                    "largest over several devices"
                )
        start = time.perf_counter()
        self._rendezvous.put(key, self.iteration, kept)
        self.waited_s += time.perf_counter() - start

    def receive(self, key: str, source: str) -> tuple[Any, ...]:
        """Waits for the bundle `key` of this iteration.

        Raises:
            EndOfLoop: The sender's data ended before this iteration.
        """
        task = _task_of(source)
        start = time.perf_counter()
        try:
            if task == self._local_task:
                return self._rendezvous.take(key, self.iteration)  # type: ignore[no-any-return]  # put by `send`
            more = self.iteration < self.last_iteration
            values = self._receiver.receive(task, key, self.iteration, more)
        except Exception:
            # What ended the step says more than the cancelled wait does.
            self.check_cancelled()
            raise
        finally:
            self.waited_s += time.perf_counter() - start
        if values is None:
            raise EndOfLoop
        return values


def _task_of(device: str) -> str:
    return device.rpartition("/device:")[0]


@dataclass(frozen=True, slots=True)
class LoopUpdate:
    """What some steps of a loop yielded.

    Attributes:
        first_step: Number of the first of them.
        num_steps: How many.
        values: Per result of the partition the values of these steps, stacked along a new axis 0.
        waited_s: Time these steps waited for other tasks.
        elapsed_s: Time they took in all.
    """

    first_step: int
    num_steps: int
    values: tuple[np.ndarray[Any, Any], ...]
    waited_s: float
    elapsed_s: float


class _Recorder:
    """Collects the results of steps and hands them on every `REPORT_INTERVAL_S` seconds."""

    def __init__(self, step: Step, listen: Callable[[LoopUpdate], None]) -> None:
        self._step = step
        self._listen = listen
        self._rows: list[tuple[Any, ...]] = []
        self._first = step.first_step
        self._since = time.perf_counter()
        self._waited = 0.0

    def add(self, results: tuple[Any, ...]) -> None:
        if self._rows and any(
            np.shape(new) != np.shape(old) for new, old in zip(results, self._rows[-1], strict=True)
        ):
            self.flush()  # The short batch at the end of the data cannot be stacked on full ones.
        self._rows.append(results)
        if time.perf_counter() - self._since >= REPORT_INTERVAL_S:
            self.flush()

    def flush(self) -> None:
        if not self._rows:
            return
        now = time.perf_counter()
        values = tuple(np.stack(column) for column in zip(*self._rows, strict=True))
        waited = self._step.waited_s
        update = LoopUpdate(
            self._first, len(self._rows), values, waited - self._waited, now - self._since
        )
        self._first += len(self._rows)
        self._rows = []
        self._since, self._waited = now, waited
        self._listen(update)


def run_loop(
    program: Program,
    step: Step,
    args: Sequence[Any],
    listen: Callable[[LoopUpdate], None],
    ended: Callable[[int], None],
) -> int:
    """Runs a partition until its number of steps, its data or a peer's data end.

    Args:
        program: The compiled partition.
        step: Says how many steps at most.
        args: Fed values, the same in every step.
        listen: Called in this thread with what the steps yielded.
        ended: Called with the number of complete steps when the data ended early.

    Returns:
        The number of complete steps.

    Raises:
        OpError: A step failed, or the step was aborted.
    """
    recorder = _Recorder(step, listen)
    count = 0
    try:
        while step.iteration <= step.last_iteration:
            step.check_cancelled()
            recorder.add(program.run(step, args))
            count += 1
            step.iteration += 1
    except OutOfRangeError:
        ended(count)
    finally:
        recorder.flush()
    return count
