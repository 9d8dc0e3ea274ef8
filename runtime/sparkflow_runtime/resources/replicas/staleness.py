"""Bounded staleness: limits how many steps a replica may be ahead of the slowest one.

The rule of Ho et al., "More Effective Distributed ML via a Stale Synchronous Parallel Parameter
Server", NIPS 2013. `Clocks` is the rule itself, without threads; `StalenessClock` waits.
"""

from __future__ import annotations

import threading

from sparkflow_runtime.errors import (
    AbortedError,
    DeadlineExceededError,
    InvalidArgumentError,
)
from sparkflow_runtime.resources.waiting import Cancellation, wait_for


class Clocks:
    """How many steps each replica has completed, and which may begin another.

    Args:
        num_replicas: Replicas 0 to `num_replicas - 1` take part from the start.
        staleness: How many steps a replica may be ahead of the slowest; 0: all run each step
            together.

    Raises:
        InvalidArgumentError: There are no replicas, or the bound is negative.
    """

    def __init__(self, num_replicas: int, staleness: int) -> None:
        if num_replicas < 1 or staleness < 0:
            raise InvalidArgumentError(
                message=f"Bounded staleness needs at least 1 replica and a bound of at least 0, "
                f"got {num_replicas} replicas and a bound of {staleness}"
            )
        self.staleness = staleness
        self._steps = dict.fromkeys(range(num_replicas), 0)

    @property
    def slowest(self) -> int:
        """Returns the fewest steps of any participating replica; 0 if there is none."""
        return min(self._steps.values(), default=0)

    def steps_of(self, replica: int) -> int:
        """Returns how many steps a replica has completed; adds a replica that is missing."""
        return self._steps.setdefault(replica, self.slowest)

    def advance(self, replica: int) -> None:
        """Counts a step of a replica."""
        self._steps[replica] = self.steps_of(replica) + 1

    def may_go_on(self, replica: int) -> bool:
        """Whether a replica may begin its next step."""
        return self.steps_of(replica) - self.slowest <= self.staleness

    def behind(self, replica: int) -> list[int]:
        """Returns the replicas for which this one must wait."""
        bound = self.steps_of(replica) - self.staleness
        return sorted(each for each, steps in self._steps.items() if steps < bound)

    def join(self, replica: int) -> None:
        """Adds a replica as one of the slowest, whatever it did before."""
        self._steps.pop(replica, None)
        self._steps[replica] = self.slowest

    def leave(self, replica: int) -> None:
        """Removes a replica, so that none waits for it."""
        self._steps.pop(replica, None)


class StalenessClock:
    """Clocks behind a condition, `_changed`. Safe to use from several threads.

    Args:
        name: For messages.
        clocks: The rule.
        timeout_s: How long a replica waits for slower ones.
    """

    def __init__(self, name: str, clocks: Clocks, timeout_s: float) -> None:
        self.name = name
        self._clocks = clocks
        self._timeout_s = timeout_s
        self._closed = False
        self._changed = threading.Condition()

    @property
    def staleness(self) -> int:
        """The bound."""
        return self._clocks.staleness

    def advance(self, replica: int, running: Cancellation) -> None:
        """Counts a step of a replica and waits until it may begin its next one.

        Raises:
            DeadlineExceededError: Slower replicas did not catch up in time; the text names them.
            AbortedError: The clock was dropped.
            CancelledError, ...: The error that ended the running step.
        """
        with self._changed:
            self._clocks.advance(replica)
            self._changed.notify_all()

        def attempt() -> bool | None:
            if self._closed:
                raise AbortedError(message=f"{self.name!r} was dropped by its task")
            return self._clocks.may_go_on(replica) or None

        wait_for(self._changed, attempt, running, self._timeout_s, lambda: self._late(replica))

    def join(self, replica: int) -> None:
        """Adds a replica that is new or was restarted."""
        with self._changed:
            self._clocks.join(replica)

    def leave(self, replica: int) -> None:
        """Removes a replica that has no more data, or is gone."""
        with self._changed:
            self._clocks.leave(replica)
            self._changed.notify_all()

    def close(self) -> None:
        """Ends all waits with AbortedError, when the clock is dropped."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _late(self, replica: int) -> DeadlineExceededError:
        behind = ", ".join(map(str, self._clocks.behind(replica)))
        return DeadlineExceededError(
            message=f"Replica {replica} made {self._clocks.steps_of(replica)} steps and waited "
            f"{self._timeout_s:g} s at {self.name!r} for replica(s) {behind}, which are more than "
            f"{self.staleness} steps behind. Start what is missing again, take it out, or allow "
            "more time (timeout_s)"
        )
