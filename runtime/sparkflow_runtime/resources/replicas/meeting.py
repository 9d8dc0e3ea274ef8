"""Combines the gradients of several replicas: the rounds of one task, with threads.

Replicas are blocked while the round they contributed to is open, so their gradients are used in
place: nothing is copied. The rules are those of `resources.rounds`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from math import isfinite
from typing import Generic, TypeVar

from sparkflow_runtime.errors import (
    AbortedError,
    DeadlineExceededError,
    InvalidArgumentError,
)
from sparkflow_runtime.resources.replicas.rounds import Contribution, Outcome, Rounds
from sparkflow_runtime.resources.waiting import Cancellation, wait_for

G = TypeVar("G")
R = TypeVar("R")
Combine = Callable[[Sequence[Contribution[G]]], R]
"""Combines all contributions into the result for the replica that finishes the round."""


class GradientRounds(Generic[G, R]):
    """Rounds behind a condition. Safe to use from several threads.

    `_changed` guards everything here; it is held while contributions are combined, since the
    contributors must not continue meanwhile.

    Args:
        name: For messages.
        rounds: The rules.
        timeout_s: How long a replica waits for the others.
    """

    def __init__(self, name: str, rounds: Rounds[G], timeout_s: float) -> None:
        self.name = name
        self._rounds = rounds
        self._timeout_s = timeout_s
        self._closed = False
        self._shared: tuple[int, R] | None = None
        self._changed = threading.Condition()

    @property
    def late(self) -> int:
        """How many contributions were dropped because they were too late."""
        with self._changed:
            return self._rounds.late

    def step_of(self, replica: int) -> int:
        """Returns the step for which a replica works."""
        with self._changed:
            return self._rounds.step_of(replica)

    def meet(
        self,
        contribution: Contribution[G],
        combine: Combine[G, R],
        running: Cancellation,
        step: int | None = None,
    ) -> R | None:
        """Contributes, and waits until the round is over or this replica must finish it.

        Args:
            contribution: Its arrays may not change while this blocks.
            combine: Called with the contributions in the order of replica numbers.
            running: The replica's step.
            step: The step of the gradients, if older than `step_of`.

        Returns:
            The result of `combine`, for the replica that must now use it and then call `release`;
            None for the others, once the round is over, and for those that were too late.

        Raises:
            InvalidArgumentError: The weight is negative or not finite.
            DeadlineExceededError: Other replicas did not contribute in time; the text names them.
            AbortedError: The rounds were dropped, or the replica contributed again elsewhere.
            CancelledError, ...: The error that ended the running step.
        """
        return self._meet(contribution, combine, running, step, share=False)

    def mean(
        self, contribution: Contribution[G], combine: Combine[G, R], running: Cancellation
    ) -> R:
        """As `meet`, but every replica gets the result of `combine`, and none needs to release.

        Raises:
            FailedPreconditionError, ...: As `meet`.
            AbortedError: Also if the replica was too late.
        """
        result = self._meet(contribution, combine, running, None, share=True)
        if result is None:
            raise AbortedError(
                message=f"Replica {contribution.replica} came too late for {self.name!r}"
            )
        return result

    def release(self, replica: int) -> None:
        """Ends the round if this replica is finishing it, so that all continue."""
        with self._changed:
            if self._rounds.finisher == replica:
                self._rounds.finish()
                self._rounds.go_on(replica)
                self._changed.notify_all()

    def join(self, replica: int) -> None:
        """Makes a replica join the open round, whatever it did before; others wait for it."""
        with self._changed:
            self._rounds.join(replica)

    def leave(self, replica: int) -> None:
        """Removes a replica that has no more data, or is gone; the others do not wait for it."""
        with self._changed:
            self._rounds.leave(replica)
            self._changed.notify_all()

    def close(self) -> None:
        """Ends all waits with AbortedError, when the rounds are dropped."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _meet(
        self,
        contribution: Contribution[G],
        combine: Combine[G, R],
        running: Cancellation,
        step: int | None,
        share: bool,
    ) -> R | None:
        self._check(contribution)
        rounds, replica = self._rounds, contribution.replica
        with self._changed:
            open_step = rounds.step
            outcome = rounds.push(contribution, step)
            waits_for_other = rounds.is_complete and not rounds.may_finish(replica)
            if rounds.step != open_step or outcome is Outcome.REPLACED or waits_for_other:
                self._changed.notify_all()
            open_step = rounds.step
            is_late = outcome is Outcome.LATE

        def attempt() -> tuple[R | None] | None:
            if self._closed:
                raise AbortedError(message=f"{self.name!r} was dropped by its task")
            if is_late:
                # The variables that it reads next must not be partially updated.
                if rounds.step == open_step and rounds.finisher is not None:
                    return None
                rounds.go_on(replica)
                return (None,)
            if rounds.step > open_step:
                rounds.go_on(replica)
                shared = self._shared
                return (shared[1] if shared is not None and shared[0] == open_step else None,)
            if not rounds.holds(contribution):
                raise AbortedError(
                    message=f"Replica {replica} contributed to step {open_step} of {self.name!r} "
                    "again: it was started anew, or two replicas have the same number"
                )
            return self._finish(replica, combine, share)

        try:
            (result,) = wait_for(
                self._changed, attempt, running, self._timeout_s, lambda: self._late(open_step)
            )
        except BaseException:
            with self._changed:
                rounds.withdraw(contribution)
            raise
        return result

    def _finish(self, replica: int, combine: Combine[G, R], share: bool) -> tuple[R] | None:
        """Returns the combined contributions if the replica may finish; `_changed` is held."""
        rounds = self._rounds
        if not rounds.may_finish(replica):
            return None
        contributions = rounds.begin_finish(replica)
        try:
            combined = combine(contributions)
        except BaseException:
            rounds.finish()
            self._changed.notify_all()
            raise
        if share:
            self._shared = (rounds.step, combined)
            rounds.finish()
            rounds.go_on(replica)
            self._changed.notify_all()
        return (combined,)

    def _check(self, contribution: Contribution[G]) -> None:
        weight = contribution.weight
        if not (isfinite(weight) and weight >= 0):
            raise InvalidArgumentError(
                message=f"Replica {contribution.replica} contributes to {self.name!r} with weight "
                f"{weight}; a weight is finite and at least 0"
            )

    def _late(self, step: int) -> DeadlineExceededError:
        """Returns a timeout's error, which names the missing replicas; `_changed` is held."""
        finisher = self._rounds.finisher
        if finisher is not None:
            waited_for = f"replica {finisher} to finish its update"
        else:
            missing = ", ".join(map(str, self._rounds.missing))
            waited_for = f"the gradients of replica(s) {missing}"
        return DeadlineExceededError(
            message=f"Step {step} of {self.name!r} waited {self._timeout_s:g} s for {waited_for}. "
            "Start what is missing again, take it out of the rounds, or allow more time (timeout_s)"
        )
