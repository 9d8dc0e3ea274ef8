"""Failure triage: which messages are failures, which are consequences, and their cause. Pure.

A failure is followed by others: every task that waits for a lost process fails, too. The first
failure that explains itself is reported; if none arrives in time, the error is built from what is
known. Among tasks that report within a second, the order is that of the failures, not of the
reports.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Generic, TypeAlias, TypeVar

from sparkflow.spark.cluster.events import Event, JobEnded, StepFailed, TaskFailed
from sparkflow.spark.cluster.failures import (
    ORDER_WAIT_S,
    is_cause,
    is_failure,
    is_whole,
    lost_worker,
    may_be_later,
    to_exception,
)
from sparkflow.spark.cluster_layout import TaskName

CAUSE_WAIT_S: Final = 10.0
"""How long after its first consequence the cause of a failure may arrive."""

Message = TypeVar("Message")


@dataclass(frozen=True, slots=True)
class Deliver(Generic[Message]):
    """The message is not a failure and is passed on."""

    message: Message


@dataclass(frozen=True, slots=True)
class Settle:
    """The failures are explained.

    Attributes:
        error: The error for the user.
        worker: The worker whose loss explains all of them; None if it does not.
    """

    error: Exception
    worker: int | None


Action: TypeAlias = Deliver[Message] | Settle | None


@dataclass(frozen=True, slots=True)
class FailureTriage(Generic[Message]):
    """The failures known so far.

    Attributes:
        failures: Those that are not handled yet.
        until: The time until which their cause is awaited; None if there are no failures.
        aside: Other messages that arrived meanwhile.
        away: Workers that are known to be lost and are not back.
    """

    failures: tuple[Event, ...] = ()
    until: float | None = None
    aside: tuple[Message, ...] = ()
    away: frozenset[int] = frozenset()

    def heard(
        self, message: Message, failure: Event | None, now: float
    ) -> tuple[FailureTriage[Message], Action[Message]]:
        """Handles a message.

        Args:
            message: The message.
            failure: The same if it is an event that may be a failure.
            now: The time.
        """
        if failure is None or not is_failure(failure):
            if self.until is None:
                return self, Deliver(message)
            return replace(self, aside=(*self.aside, message)), None
        if self.until is None and self._is_echo(failure):
            return self, None
        # After the end of the job, only the loss of a task with its executor may still be reported.
        is_end = isinstance(failure, JobEnded) and not may_be_later(failure)
        is_last = self.until is not None and is_end
        return self._with(failure, now, settles=is_last)

    def raised(
        self, error: Exception, now: float
    ) -> tuple[FailureTriage[Message], Action[Message]]:
        """Handles an error of a single step; reports of tasks take precedence."""
        return self._with(StepFailed(error), now, settles=False)

    def all_there(self, now: float) -> FailureTriage[Message]:
        """Notes that all tasks have answered since the first failure: none of them is its cause.

        The cause is then an error that one of them is about to report.
        """
        if self.until is None:
            return self
        return replace(self, until=min(self.until, now + ORDER_WAIT_S))

    def ticked(self, now: float) -> tuple[FailureTriage[Message], Action[Message]]:
        """Updates the time."""
        if self.until is None or now < self.until:
            return self, None
        return self._settled()

    def lost(self, worker: int) -> FailureTriage[Message]:
        """The others go on without this worker: failures so far are explained by that."""
        return replace(self, failures=(), away=self.away | {worker})

    def welcomed(self, worker: int) -> FailureTriage[Message]:
        """A lost worker is back: its failures count again."""
        return replace(self, away=self.away - {worker})

    def taken(self) -> tuple[FailureTriage[Message], Message]:
        """Returns the first of the messages that were set aside."""
        first, *rest = self.aside
        return replace(self, aside=tuple(rest)), first

    def _with(
        self, failure: Event, now: float, *, settles: bool
    ) -> tuple[FailureTriage[Message], Action[Message]]:
        until = now + CAUSE_WAIT_S if self.until is None else self.until
        if may_be_later(failure) and not any(map(is_cause, self.failures)):
            until = min(until, now + ORDER_WAIT_S)
        found = replace(self, failures=(*self.failures, failure), until=until)
        causes = filter(is_cause, found.failures)
        if settles or is_whole(found.failures) or not all(map(may_be_later, causes)):
            return found._settled()
        return found, None

    def _settled(self) -> tuple[FailureTriage[Message], Action[Message]]:
        settled = Settle(to_exception(self.failures), lost_worker(self.failures))
        return replace(self, until=None), settled

    def _is_echo(self, failure: Event) -> bool:
        """Whether this failure is another consequence of a loss that was already reported."""
        return bool(self.away) and lost_worker([*map(_loss, self.away), failure]) is not None


def _loss(worker: int) -> Event:
    return TaskFailed(TaskName("worker", worker), "", "", lost=True)
