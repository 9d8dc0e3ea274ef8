"""The collectives of a session: its groups, and the runs in progress.

A run is started when its tensors are available, and awaited when its result is needed. In between,
a separate thread exchanges with the other ranks.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, TimeoutError as FutureTimeoutError
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from sparkflow_runtime.errors import (
    AbortedError,
    DeadlineExceededError,
    FailedPreconditionError,
    InternalError,
    OpError,
    from_status,
    to_status,
)
from sparkflow_runtime.resources.collectives.collective_exchange import (
    Exchange,
    Group,
    Meeting,
    instance_of,
)
from sparkflow_runtime.resources.waiting import Cancellation

DEFAULT_TIMEOUT_S: Final = 600.0
"""How long a rank waits for the others by default: a rank may be saving a checkpoint. A lost rank
is detected at once."""
_GRACE_S: Final = 5.0

Work = Callable[[Exchange], tuple[Any, ...]]
_StepKey = tuple[int, int]
"""A step's number, and the iteration of its loop."""


class Running(Cancellation, Protocol):
    """What collectives need of the running step (a `StepContext` is one)."""

    @property
    def step_id(self) -> int:
        """The step's number."""

    @property
    def iteration(self) -> int:
        """The iteration of the step loop."""

    def meeting(self) -> Meeting:
        """The meeting of this step's ranks."""

    def join(self, group: str, rank: int, devices: tuple[str, ...], timeout_s: float) -> Meeting:
        """Returns the meeting of ranks in separate sessions; waits until all have joined."""


@dataclass(slots=True)
class _Run:
    """One run of an instance.

    Attributes:
        group: The ranks.
        instance: The instance.
        turn: The run's index.
        step: The step that it is part of.
        member: The session's part in the group; None within a step.
        abandon: Called if it fails.
        future: Its result.
        exchange: Its exchange; None until the group has met.
        forget: Removes the callback from the step.
    """

    group: Group
    instance: int
    turn: int
    step: _StepKey
    member: _Member | None
    abandon: Callable[[], None] | None = None
    future: Future[tuple[Any, ...]] = field(default_factory=Future)
    exchange: Exchange | None = None
    forget: Callable[[], None] = lambda: None

    @property
    def title(self) -> str:
        return f"Collective instance {self.instance} of group {self.group.key}"

    def result(self, timeout_s: float) -> tuple[Any, ...]:
        """Returns the run's result.

        Raises:
            concurrent.futures.TimeoutError: It took too long.
            Exception: Its error.
        """
        try:
            return self.future.result(timeout_s)
        except FutureTimeoutError:
            if self.exchange is not None:
                raise
        # The ranks have not met: that wait ends at the same time, and knows which are missing.
        return self.future.result(_GRACE_S)

    def timed_out(self, timeout_s: float) -> OpError:
        """Returns the error's text if the others do not join."""
        group = self.group
        waits_for = None if self.exchange is None else self.exchange.waits_for
        whom = "the other ranks" if waits_for is None else group.describe(waits_for)
        return DeadlineExceededError(
            message=f"{self.title}: {group.describe(group.rank)} waited {timeout_s:g} s for {whom} "
            f"in run {self.turn}. Does it run the same collectives, equally often?"
        )


class _Member:
    """This session's membership in a group whose ranks are in separate sessions.

    `_lock` guards `_turns`, `_complete`, `_meeting` and `_failure`; `_meets` is held while the
    ranks meet.
    """

    def __init__(self, group: Group) -> None:
        self._group = group
        self._meets = threading.Lock()
        self._lock = threading.Lock()
        self._meeting: Meeting | None = None
        self._failure: tuple[int, str] | None = None
        self._turns: dict[int, int] = {}
        self._complete: dict[int, tuple[int, _StepKey]] = {}

    def next_turn(self, instance: int) -> int:
        """Returns the index of the instance's next run.

        Raises:
            OpError: The group has failed: its copies may differ by a step.
        """
        with self._lock:
            self._raise_failure()
            turn = self._turns.get(instance, 0)
            self._turns[instance] = turn + 1
            return turn

    def meet(self, step: Running, timeout_s: float) -> Meeting:
        """Returns the ranks' meeting; waits for all of them the first time.

        Raises:
            OpError: They did not join, or the group has failed.
        """
        with self._meets:
            with self._lock:
                self._raise_failure()
                if self._meeting is not None:
                    return self._meeting
            group = self._group
            name = f"{group.key}@{group.devices[0]}"
            found = step.join(name, group.rank, group.devices, timeout_s)
            with self._lock:
                self._meeting = found
                failure = self._failure
            if failure is not None:
                found.end(from_status(*failure), lambda key, turn: False)
                raise from_status(*failure)
            return found

    def complete(self, instance: int, turn: int, step: _StepKey) -> None:
        """Records that this rank has the results of a run and those before it.

        So all ranks have begun that run, and have read what was lent in the one before, see
        `run_lanes`.
        """
        with self._lock:
            self._complete[instance] = turn, step
            meeting = self._meeting
        if meeting is not None:
            meeting.release(instance, turn - 1)

    def fail(self, error: OpError, step: _StepKey) -> None:
        """Ends the group with its first error, for all ranks.

        Steps before the failed one stay valid for the others: a rank that is ahead may be the first
        to learn that another one has left.
        """
        meeting = self._note(error)
        if meeting is None:
            return
        with self._lock:
            last = {i: turn - (of == step) for i, (turn, of) in self._complete.items()}
        meeting.end(error, lambda key, turn: turn <= last.get(instance_of(key), -1))

    def leave(self) -> None:
        """Leaves the group gracefully: others still receive what they have not received yet."""
        group = self._group
        error = FailedPreconditionError(
            message=f"{group.describe(group.rank)} left collective group {group.key}: its session "
            "was closed. All ranks must run equally many steps"
        )
        self._note(error)
        with self._lock:
            meeting = self._meeting
        if meeting is not None:
            meeting.leave(error)

    def _note(self, error: OpError) -> Meeting | None:
        """Records the first error; returns the meeting that must still be notified of it."""
        with self._lock:
            if self._failure is not None:
                return None
            self._failure = to_status(error)
            return self._meeting

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise from_status(*self._failure)


class Collectives:
    """The collectives of one session on one task. Safe to use from several threads.

    `_lock` guards `_members` and `_runs`.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._members: dict[Group, _Member] = {}
        self._runs: dict[tuple[Any, ...], _Run] = {}

    def start(
        self,
        step: Running,
        group: Group,
        instance: int,
        timeout_s: float,
        work: Work,
        abandon: Callable[[], None] | None = None,
    ) -> None:
        """Begins a run of an instance and returns at once.

        Args:
            step: The running step.
            group: The ranks.
            instance: Its number, the same on all ranks.
            timeout_s: How long to wait for the other ranks.
            work: This rank's work, called in a separate thread.
            abandon: Called if the run fails, to end what the meeting does not end.

        Raises:
            OpError: The group has failed before.
        """
        member = self._member(group) if group.between else None
        turn = 0 if member is None else member.next_turn(instance)
        run = _Run(group, instance, turn, (step.step_id, step.iteration), member, abandon)
        meeting = step.meeting()

        def exchange() -> tuple[Any, ...]:
            where = meeting if member is None else member.meet(step, timeout_s)
            run.exchange = Exchange(where, group, instance, turn)
            return work(run.exchange)

        with self._lock:
            self._runs[_key(step, group, instance)] = run
        run.future = meeting.submit(exchange)
        if member is not None or abandon is not None:
            run.forget = step.on_cancel(lambda: self._give_up(step, group, instance, run))

    def wait(self, step: Running, group: Group, instance: int, timeout_s: float) -> tuple[Any, ...]:
        """Returns the result of the run that this step started; blocks until it is available.

        Raises:
            DeadlineExceededError: Another rank did not take part in time; the text names it.
            OpError: The run failed; the text names the instance, and the rank if one is lost.
        """
        with self._lock:
            run = self._runs.pop(_key(step, group, instance), None)
        if run is None:
            raise InternalError(message=f"Instance {instance} of group {group.key} did not start")
        try:
            result = run.result(timeout_s)
            if run.member is not None:
                run.member.complete(instance, run.turn, run.step)
            return result
        except FutureTimeoutError:
            error: Exception = run.timed_out(timeout_s)
        except Exception as failure:
            error = failure
        finally:
            run.forget()
        self._fail(run, _told(run, error))
        step.check_cancelled()
        raise _told(run, error) from error

    def close(self) -> None:
        """Leaves all groups, for the end of the session."""
        with self._lock:
            members = list(self._members.values())
            self._members.clear()
            self._runs.clear()
        for member in members:
            member.leave()

    def _member(self, group: Group) -> _Member:
        with self._lock:
            return self._members.setdefault(group, _Member(group))

    def _fail(self, run: _Run, error: OpError) -> None:
        if run.member is not None:
            run.member.fail(error, run.step)
        if run.abandon is not None:
            run.abandon()

    def _give_up(self, step: Running, group: Group, instance: int, run: _Run) -> None:
        """Ends the run, as the step ended between start and result: the others need not wait."""
        with self._lock:
            self._runs.pop(_key(step, group, instance), None)
        reason = "its step has ended"
        try:
            step.check_cancelled()
        except OpError as error:
            reason = to_status(error)[1]
        self._fail(
            run,
            AbortedError(message=f"{run.title}: {group.describe(group.rank)} gave up: {reason}"),
        )


def _key(step: Running, group: Group, instance: int) -> tuple[Any, ...]:
    return step.step_id, step.iteration, group.key, group.rank, instance


def _told(run: _Run, error: Exception) -> OpError:
    """Returns the error with the instance's name in its text."""
    code, text = to_status(error)
    return from_status(code, text if run.title in text else f"{run.title}: {text}")
