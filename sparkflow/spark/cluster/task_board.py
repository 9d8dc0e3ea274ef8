"""The task board: the driver's view of which tasks have registered, are alive or were lost.

A value: each method returns a new board, or an answer to a waiting call. No threads, clocks or
network; `registration` provides those. An answer is None while it is undecided.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sparkflow.spark.cluster.events import TaskGone
from sparkflow.spark.cluster_layout import ClusterLayout, TaskName
from sparkflow_runtime.errors import (
    AbortedError,
    AlreadyExistsError,
    CancelledError,
    InvalidArgumentError,
)
from sparkflow_runtime.protos.cluster_pb2 import ClusterDef
from sparkflow_runtime.protos.rendezvous_pb2 import ReportStateRequest, TaskInfo


@dataclass(frozen=True, slots=True)
class Progress:
    """The content of a task's last heartbeat.

    Attributes:
        rows: Rows received so far.
        steps: Steps of its loops so far.
        heard_s: `time.monotonic()` when it came.
    """

    rows: int
    steps: int
    heard_s: float


@dataclass(frozen=True, slots=True)
class Instruction:
    """The instruction for a task that waits for one.

    Attributes:
        attempt: The attempt that has started; 0 for none.
        wants_state: Whether the task must report its state.
        ended: The reason why training is over; None while it continues.
    """

    attempt: int = 0
    wants_state: bool = False
    ended: str | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """A Spark task that asks whether to do its partition's work.

    Attributes:
        place: Equal for tasks on the same machine.
        task_attempt_id: Spark's id; Spark may run a task twice.
    """

    place: str
    task_attempt_id: int


@dataclass(frozen=True, slots=True)
class TaskBoard:
    """The tasks of a job.

    Attributes:
        layout: The tasks that must come.
        attempt: The number of the attempt, from 1; 0 before the first.
        feed_plan: What workers are told about their rows, as JSON.
        tasks: What those that have registered said.
        ready: Those that can be used.
        gone: Those that were given up in this attempt, or told of as lost.
        following: Those that wait for instructions, each with a mark of its process.
        lost: Those whose process ended, and who ask whether to start another.
        returning: Lost ones that may come back, with their own feed plans.
        progress: The last heartbeats.
        clock_ahead: By how many seconds each task's clock is ahead of the driver's, at least: a
            message that says its time has taken a while to come.
        states: Answers to the last question what tasks do.
        states_asked: How often they were asked.
        entered: Where there is no barrier stage, by task the Spark task that does its work.
        ended: Why training is over, "" if it ended well; None while it goes on.
        job_failed: Whether Spark's job has, so that no task comes back.
    """

    layout: ClusterLayout
    attempt: int = 0
    feed_plan: str = ""
    tasks: Mapping[TaskName, TaskInfo] = field(default_factory=dict)
    ready: frozenset[TaskName] = frozenset()
    gone: frozenset[TaskName] = frozenset()
    following: Mapping[TaskName, object] = field(default_factory=dict)
    lost: frozenset[TaskName] = frozenset()
    returning: Mapping[TaskName, str] = field(default_factory=dict)
    progress: Mapping[TaskName, Progress] = field(default_factory=dict)
    clock_ahead: Mapping[TaskName, float] = field(default_factory=dict)
    states: Mapping[TaskName, ReportStateRequest] = field(default_factory=dict)
    states_asked: int = 0
    entered: Mapping[TaskName, Entry] = field(default_factory=dict)
    ended: str | None = None
    job_failed: bool = False

    # ------------------------------------------------------------------ what the driver asks

    @property
    def missing(self) -> list[TaskName]:
        """The tasks that have not registered yet."""
        return sorted(set(self.layout.tasks) - self.tasks.keys())

    @property
    def is_usable(self) -> bool:
        """Whether waiting for the registered tasks to be ready is pointless."""
        return self.tasks.keys() <= self.ready or bool(self.gone) or self.ended is not None

    @property
    def can_begin(self) -> bool:
        """Whether every task can start a new attempt: it is alive, or asks to be restarted."""
        return set(self.layout.tasks) <= self.following.keys() | self.lost

    @property
    def all_answered(self) -> bool:
        """Whether all waiting tasks have reported their state."""
        return self.following.keys() <= self.states.keys()

    def cluster(self) -> ClusterDef:
        """The tasks that have registered, with their addresses."""
        members = {task: info.address for task, info in self.tasks.items()}
        cluster = ClusterDef()
        for job in sorted({task.job for task in members}):
            own = {task.index: where for task, where in members.items() if task.job == job}
            cluster.job.add(name=job, tasks=dict(sorted(own.items())))
        return cluster

    # ------------------------------------------------------------------ what the driver decides

    def begun(self, feed_plan: str) -> TaskBoard:
        """Starts another attempt: all tasks have to register (again)."""
        return replace(
            self,
            attempt=self.attempt + 1,
            feed_plan=feed_plan,
            tasks={},
            ready=frozenset(),
            gone=frozenset(),
            lost=frozenset(),
            returning={},
            progress={},
        )

    def returnable(self, task: TaskName, start: tuple[int, int]) -> TaskBoard:
        """Lets a lost worker rejoin the attempt that continues without it.

        Args:
            task: The worker.
            start: The position of its data: completed epochs, and steps of the next one.
        """
        plan = json.loads(self.feed_plan)
        starts = [list(each) for each in plan.get("start", ())]
        starts += [[0, 0]] * (task.index + 1 - len(starts))
        starts[task.index] = list(start)
        own_plan = json.dumps({**plan, "start": starts})
        returning = {**self.returning, task: own_plan}
        return replace(self, returning=returning, ready=self.ready - {task})

    def asked(self) -> TaskBoard:
        """Asks all tasks for their state."""
        return replace(self, states={}, states_asked=self.states_asked + 1)

    def over(self, reason: str) -> TaskBoard:
        """Ends training; the first reason counts."""
        return self if self.ended is not None else replace(self, ended=reason)

    # ------------------------------------------------------------------ what tasks say

    def enters(self, task: TaskName, entry: Entry) -> TaskBoard | None:
        """Adds a Spark task; returns None while another one does its partition's work.

        Spark may run a task twice (speculation, or again after a stage before it was lost). The
        second has to wait: were it to fail, Spark would count that, and were it to return, Spark
        would end the first.

        Raises:
            InvalidArgumentError: The job has no such task.
        """
        if task not in self.layout.tasks:
            raise InvalidArgumentError(message=f"The job has no {task}")
        if self.ended is None and task in self.entered and not self.is_vacant(task):
            return None
        return replace(self, entered={**self.entered, task: entry})

    def is_vacant(self, task: TaskName) -> bool:
        """Whether a lost worker may come back and its Spark task has not asked to restart it.

        Then that Spark task has gone as well, or will ask within moments.
        """
        return task in self.returning and task not in self.lost and task not in self.following

    def is_coming_back(self, task: TaskName) -> bool:
        """Returns whether a Spark task is there to restart a lost worker, or has done so."""
        return task in self.lost or task not in self.returning

    def answer_to_entered(self, entry: Entry) -> int | None:
        """Returns how many tasks are at a task's place, once all have arrived; 0 after training."""
        if self.ended is not None:
            return 0
        if self.entered.keys() != set(self.layout.tasks):
            return None
        return sum(each.place == entry.place for each in self.entered.values())

    def left(self, task: TaskName) -> TaskBoard:
        """Removes a Spark task that left before all had arrived: another one may do its work."""
        return replace(self, entered=_without(self.entered, task))

    def registered(self, info: TaskInfo, now_s: float) -> tuple[TaskBoard, str]:
        """A task has come.

        Args:
            info: What it says.
            now_s: Seconds of the driver's clock.

        Returns:
            The board, and the feed plan that is the task's own; "" for that of all.

        Raises:
            InvalidArgumentError: The job has no such task.
            AlreadyExistsError: It has come before, and was not lost.
        """
        name = TaskName(info.job, info.task)
        if name not in self.layout.tasks:
            raise InvalidArgumentError(message=f"The job has no {name}")
        if name in self.tasks and name not in self.returning:
            raise AlreadyExistsError(
                message=f"{name} has registered from {self.tasks[name].address} already"
            )
        ahead = info.time_s - now_s if info.time_s else 0.0
        before = self.tasks.get(name)
        if before is not None and before.host == info.host:
            ahead = max(ahead, self.clock_ahead[name])
        board = replace(
            self,
            tasks={**self.tasks, name: info},
            returning=_without(self.returning, name),
            lost=self.lost - {name},
            gone=self.gone - {name},
            clock_ahead={**self.clock_ahead, name: ahead},
        )
        return board, self.returning.get(name, "")

    def answer_to_registered(self, attempt: int, own_plan: str) -> str | None:
        """The feed plan for a task that registered in an attempt, once all have come.

        Raises:
            CancelledError: Training is over.
            AbortedError: Another attempt has begun.
        """
        if self.ended is not None:
            raise CancelledError(message=self.ended or "Training has ended")
        if self.attempt != attempt:
            raise AbortedError(message="The job has started another attempt")
        return None if self.missing else own_plan or self.feed_plan

    def made_ready(self, task: TaskName) -> TaskBoard:
        """A task can be used."""
        return replace(self, ready=self.ready | {task})

    def follows(self, task: TaskName, marker: object) -> TaskBoard:
        """A process of a task waits for instructions.

        Raises:
            AbortedError: It was given up.
        """
        if task in self.gone:
            raise AbortedError(message=f"{task} was given up because it stopped responding")
        return replace(self, following={**self.following, task: marker})

    def instruction(self, attempt: int, asked: int) -> Instruction | None:
        """What to tell a task that knows of an attempt and of so many questions."""
        if self.ended is not None:
            return Instruction(ended=self.ended)
        if (self.attempt, self.states_asked) == (attempt, asked):
            return None
        begun = self.attempt if self.attempt != attempt else 0
        return Instruction(begun, wants_state=self.states_asked != asked)

    def broke(self, task: TaskName, marker: object) -> TaskBoard | None:
        """The connection of a process broke; None if another one of the task is there already."""
        if self.following.get(task) is not marker:
            return None
        return replace(self, following=_without(self.following, task))

    def silence(self, task: TaskName, now_s: float) -> float:
        """Seconds since the last heartbeat of a task; 0 if there was none."""
        heard = self.progress.get(task)
        return now_s - heard.heard_s if heard is not None else 0.0

    def is_decided(self, task: TaskName, attempt: int) -> bool:
        """Whether it is known what has become of a task whose connection broke in an attempt."""
        return self.job_failed or self.is_settled(task, attempt)

    def is_settled(self, task: TaskName, attempt: int) -> bool:
        """Whether a task whose connection broke in an attempt needs not be given up.

        It is back, its loss was told of by others, or another attempt has begun.
        """
        return task in self.following or task in self.gone or self.attempt != attempt

    def given_up(self, task: TaskName, silent_s: float) -> tuple[TaskBoard, TaskGone]:
        """A task's process is taken for lost."""
        info = self.tasks.get(task)
        host = info.host if info is not None else "an unknown host"
        return replace(self, gone=self.gone | {task}), TaskGone(task, host, silent_s)

    def loss_told(self, task: TaskName) -> TaskBoard:
        """The Spark task says that the process was lost.

        Its connection may break much later, for the kernel takes the memory of a killed process
        back before it closes its sockets. It counts no more: the loss would be counted again, in
        the next attempt perhaps, and the process that has taken its place refused.
        """
        return replace(self, gone=self.gone | {task}, following=_without(self.following, task))

    def asks_restart(self, task: TaskName) -> TaskBoard:
        """A task's process ended; it asks whether to start another."""
        return replace(self, lost=self.lost | {task})

    def answer_to_restart(self, task: TaskName, attempt: int) -> bool | None:
        """Whether to start another process for a task that asked in an attempt."""
        if self.ended is not None:
            return False
        return True if self.attempt != attempt or task in self.returning else None

    def asks_no_more(self, task: TaskName) -> TaskBoard:
        """A task that asked whether to start another process has gone as well."""
        return replace(self, lost=self.lost - {task})

    def heard(self, task: TaskName, progress: Progress) -> TaskBoard:
        """A heartbeat."""
        return replace(self, progress={**self.progress, task: progress})

    def told(self, state: ReportStateRequest) -> TaskBoard:
        """A task says what it does."""
        return replace(self, states={**self.states, TaskName(state.job, state.task): state})

    def driver_time(self, task: TaskName, time_s: float, now_s: float) -> float:
        """A time of a task's clock as the driver's, which shows `now_s` and cannot be before it."""
        return min(time_s - self.clock_ahead.get(task, 0.0), now_s)


def _without(given: Mapping[TaskName, Any], task: TaskName) -> Mapping[TaskName, Any]:
    return {each: value for each, value in given.items() if each != task}
