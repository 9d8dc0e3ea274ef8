"""Detects that a run has stalled, and reports which task waits for which."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from sparkflow.spark.cluster.task_board import Progress
from sparkflow.spark.cluster_layout import TaskName
from sparkflow.spark.errors import SparkTrainingError, StalledError
from sparkflow_runtime.protos.rendezvous_pb2 import ReportStateRequest, TaskInfo

# A healthy process answers within milliseconds, one that is swapped out within seconds.
_ANSWER_S = 5.0
_MAX_WAITS = 8
_MAX_STACK_CHARS = 6_000


class Tasks(Protocol):
    """The part of `RegistrationServer` that the watchdog needs."""

    def progress(self) -> Mapping[TaskName, Progress]: ...  # noqa: D102  see there
    def infos(self) -> Mapping[TaskName, TaskInfo]: ...  # noqa: D102
    def states(self, timeout_s: float) -> Mapping[TaskName, ReportStateRequest]: ...  # noqa: D102


class Watchdog:
    """Called repeatedly by a waiting thread; raises if there is no progress.

    Args:
        tasks: The tasks of the run.
        start_timeout_s: The maximum seconds between rows while waiting for rows.
        stall_timeout_s: The maximum seconds without a step of any worker.
        clock: Returns seconds, like `time.monotonic`.
    """

    def __init__(
        self,
        tasks: Tasks,
        start_timeout_s: float,
        stall_timeout_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tasks = tasks
        self._start_timeout_s = start_timeout_s
        self._stall_timeout_s = stall_timeout_s
        self._clock = clock
        self._rows = 0
        self._since = clock()
        self._last_step: dict[int, float] = {}

    def begin(self) -> None:
        """Starts a new phase: waiting for rows, or for steps."""
        self._since = self._clock()
        self._last_step.clear()

    def saw_steps(self, worker: int) -> None:
        """Notes steps of a worker."""
        self._since = self._last_step[worker] = self._clock()

    def check_rows(self, missing: Collection[TaskName]) -> None:
        """Raises an error if no rows arrive.

        Args:
            missing: The tasks that do not have all of theirs.

        Raises:
            SparkTrainingError: None arrived for `startTimeout`.
        """
        if not self._saw_rows() and self._clock() - self._since > self._start_timeout_s:
            names = ", ".join(map(str, sorted(missing)))
            raise SparkTrainingError(
                f"No row has arrived for {self._start_timeout_s:g} s (after {self._rows:,} rows), "
                f"and these tasks are still waiting: {names}. Spark may still be computing or "
                "shuffling the rows (see the stages of the job in its UI). startTimeout sets how "
                "long to wait"
            )

    def _saw_rows(self) -> bool:
        """Returns whether rows have arrived since the last call; if so, restarts the timeout."""
        rows = sum(each.rows for each in self._tasks.progress().values())
        if rows == self._rows:
            return False
        self._rows = rows
        self._since = self._clock()
        return True

    def check_steps(self) -> None:
        """Raises an error if no worker makes steps or receives rows.

        Raises:
            StalledError: None did for `stallTimeout`; reports which task waits for which, with
                stacks.
        """
        now = self._clock()
        if self._saw_rows() or now - self._since <= self._stall_timeout_s:
            return
        states = self._tasks.states(_ANSWER_S)
        raise StalledError(
            describe_stall(
                self._stall_timeout_s,
                {worker: now - when for worker, when in self._last_step.items()},
                self._tasks.infos(),
                {task: now - each.heard_s for task, each in self._tasks.progress().items()},
                states,
            )
        )


def describe_stall(
    timeout_s: float,
    last_step_s: Mapping[int, float],
    infos: Mapping[TaskName, TaskInfo],
    heard_s: Mapping[TaskName, float],
    states: Mapping[TaskName, ReportStateRequest],
) -> str:
    """Describes which task waits for which, and where each process is.

    Args:
        timeout_s: The seconds without a step.
        last_step_s: The seconds since each worker's last step; workers without steps are left out.
        infos: All tasks.
        heard_s: The seconds since each task's last heartbeat.
        states: The states of the tasks that answered.
    """
    head = f"No worker has made a step for {timeout_s:g} s (stallTimeout)"
    if last_step_s:
        each = (f"worker {worker} {ago:.0f} s ago" for worker, ago in sorted(last_step_s.items()))
        head += f"; the last steps were those of {', '.join(each)}"
    else:
        head += ", and none has made its first one"
    lines = [f"{head}. Who waits for whom:"]
    stacks = []
    for task, info in sorted(infos.items()):
        where = f"{task.job} {task.index} on {info.host} (pid {info.pid})"
        state = states.get(task)
        if state is None:
            ago = f"was last heard of {heard_s[task]:.0f} s ago" if task in heard_s else "is silent"
            lines.append(
                f"  {where} does not answer and {ago}: its process is stopped, swapped out or "
                "stuck in native code, or its machine is not reachable"
            )
            continue
        lines.extend(f"  {line}" for line in _describe_waits(where, state))
        if state.stacks:
            stacks.append(f"{where}:\n{_shortened(state.stacks)}")
    if stacks:
        lines.append("Python stacks of those who answered:")
    return "\n".join([*lines, *stacks])


def _describe_waits(where: str, state: ReportStateRequest) -> list[str]:
    if not state.waits:
        return [f"{where} waits for nobody; after {state.steps} steps it is at the stacks below"]
    waits = sorted(state.waits, key=lambda wait: -wait.seconds)
    lines = [
        f"{where} waits for {_short(wait.source)} for {wait.seconds:.1f} s, in step {wait.step}, "
        f"for bundle {wait.key!r}"
        for wait in waits[:_MAX_WAITS]
    ]
    if len(waits) > _MAX_WAITS:
        lines.append(f"{where} waits for {len(waits) - _MAX_WAITS} more")
    return lines


def _short(task: str) -> str:
    """`worker 1` of `/job:worker/replica:0/task:1`."""
    parts = dict(part.split(":", 1) for part in task.strip("/").split("/") if ":" in part)
    return f"{parts.get('job', task)} {parts.get('task', '')}".strip()


def _shortened(text: str) -> str:
    if len(text) <= _MAX_STACK_CHARS:
        return text
    return f"{text[:_MAX_STACK_CHARS]}\n({len(text) - _MAX_STACK_CHARS} more characters)"
