"""Steady plans as CUDA graphs: captured after a few identical runs, then replayed.

A recording keeps addresses. So feeds are copied to the arrays that it was captured with, its
allocations come from its own pool, and it is dropped when a variable gets another array. Only
functions whose kernels depend on nothing else may be captured: no random numbers from the host, no
launch that depends on the values of an array. A function whose capture fails runs as before from
then on.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from sparkflow_runtime.device.pinned import PinnedStaging

RUNS_BEFORE: Final = 3
"""Number of runs before the capture: they compile and load kernels and do one-time set-up."""

_log = logging.getLogger(__name__)


class HasArray(Protocol):
    """A variable."""

    array: Any


@dataclass(frozen=True, slots=True)
class _Recording:
    """A recorded run.

    Attributes:
        graph: cupy's.
        inputs, results: The arrays that it reads and writes.
        arrays: The arrays of the variables.
        pool: Owns the memory of all intermediate values.
    """

    graph: Any
    inputs: tuple[Any, ...]
    results: tuple[Any, ...]
    arrays: tuple[Any, ...]
    pool: Any


class SteadyPlan:
    """A function of arrays on the GPU that is captured when it is steady.

    `_lock` guards the recording and its arrays. A run that finds it locked is not a replay.

    Args:
        cupy: The module.
        function: Maps GPU arrays to GPU arrays; launches on the current stream.
        variables: The variables that it reads and updates.
        may_record: Whether all of its kernels may be captured.
        runs_before: See `RUNS_BEFORE`.

    Attributes:
        replays: The number of runs that were replays.
        refusal: Why it is no longer captured; "" while it may be.
    """

    def __init__(
        self,
        cupy: Any,
        function: Callable[..., Sequence[Any]],
        variables: Callable[[], Sequence[HasArray]],
        may_record: bool = True,
        runs_before: int = RUNS_BEFORE,
    ) -> None:
        self.replays = 0
        self.refusal = "" if may_record else "a kernel in it may not be recorded"
        self._cupy = cupy
        self._function = function
        self._variables = variables
        self._runs_left = runs_before
        self._runs_before = runs_before
        self._lock = threading.Lock()
        self._recording: _Recording | None = None

    def run(
        self, stream: Any, staging: PinnedStaging, args: Sequence[Any], step: Any = None
    ) -> tuple[Any, ...]:
        """Runs the function; returns when the results are on the host.

        Args:
            stream: cupy's current stream.
            staging: Copies arguments to the GPU.
            args: Host arrays, of the same shapes and dtypes in every run.
            step: Passed to the function.

        Returns:
            Host arrays to which nothing else refers.
        """
        if self.refusal or not self._lock.acquire(blocking=False):
            inputs = [staging.copy(arg, stream) for arg in args]
            return self._to_host(self._function(step, *inputs))
        try:
            return self._to_host(self._run_alone(stream, staging, args, step))
        finally:
            self._lock.release()

    def _run_alone(
        self, stream: Any, staging: PinnedStaging, args: Sequence[Any], step: Any
    ) -> Sequence[Any]:
        recording = self._recording
        if recording is not None and not self._is_current(recording):
            self._recording = recording = None
            self._runs_left = self._runs_before
        if recording is not None:
            for arg, target in zip(args, recording.inputs, strict=True):
                staging.copy(arg, stream, target)
            recording.graph.launch(stream)
            self.replays += 1
            return recording.results
        inputs = tuple(staging.copy(arg, stream) for arg in args)
        if self._runs_left > 0:
            self._runs_left -= 1
            return self._function(step, *inputs)
        return self._record(stream, inputs, step)

    def _record(self, stream: Any, inputs: tuple[Any, ...], step: Any) -> Sequence[Any]:
        """Captures the function and runs the recording, or the function itself if that fails."""
        variables = tuple(self._variables())
        arrays = tuple(variable.array for variable in variables)
        pool = self._cupy.cuda.MemoryPool()
        graph = None
        try:
            with self._cupy.cuda.using_allocator(pool.malloc):
                stream.begin_capture()
                try:
                    results = tuple(self._function(step, *inputs))
                finally:
                    graph = stream.end_capture()
        except Exception as error:  # whatever it is: captured launches have not run
            self.refusal = f"{type(error).__name__}: {error}"
            _log.info("A plan is not captured as a CUDA graph: %s", self.refusal)
            for variable, array in zip(variables, arrays, strict=True):
                variable.array = array
            return self._function(step, *inputs)
        graph.launch(stream)
        recording = _Recording(graph, inputs, results, arrays, pool)
        if self._is_current(recording):
            self._recording = recording
        else:
            self.refusal = "it gives variables other arrays"
        return results

    def _is_current(self, recording: _Recording) -> bool:
        variables = self._variables()
        return len(variables) == len(recording.arrays) and all(
            variable.array is array
            for variable, array in zip(variables, recording.arrays, strict=True)
        )

    def _to_host(self, results: Sequence[Any]) -> tuple[Any, ...]:
        to_host = self._cupy.asnumpy
        return tuple([to_host(result) for result in results])

    def close(self) -> None:
        """Drops the recording and its memory. Idempotent."""
        with self._lock:
            self._recording = None
