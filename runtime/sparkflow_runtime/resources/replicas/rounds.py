"""Rounds: decides which replica's contribution counts for which step, without threads.

Replicas contribute once to every round. One of them is elected to finish it: it gets all
contributions, and ends the round after using them. If fewer contributions are required than there
are replicas, late ones are dropped and counted (backup workers: Chen et al., "Revisiting
Distributed Synchronous SGD", 2016).
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Generic, TypeVar

from sparkflow_runtime.errors import InvalidArgumentError

G = TypeVar("G")


class Outcome(enum.Enum):
    """The fate of a contribution."""

    ACCEPTED = "accepted"
    REPLACED = "replaced"
    """The replica had contributed to this round before; the new contribution counts."""
    LATE = "late"
    """Its round is over, or is being finished."""


@dataclass(frozen=True, slots=True)
class Contribution(Generic[G]):
    """One replica's contribution to one round.

    Attributes:
        replica: The replica's number.
        weight: Its number of rows.
        value: The mean over these rows; meaningless when the weight is 0.
    """

    replica: int
    weight: float
    value: G


class Rounds(Generic[G]):
    """The replicas that contributed to the open round, finish it, or have missed it.

    Args:
        num_replicas: Replicas 0 to `num_replicas - 1` are expected from the start.
        num_required: The number of contributions to a round; fewer if fewer replicas are left.
        elects_first: Whether only the participating replica with the lowest number may finish a
            round; otherwise the first that asks.

    Attributes:
        step: The number of the open round.
        finisher: The replica that is finishing it, None while contributions are awaited.
        late: The number of dropped contributions.

    Raises:
        InvalidArgumentError: There are no replicas, or more are required than there are.
    """

    def __init__(self, num_replicas: int, num_required: int, elects_first: bool = False) -> None:
        if not 1 <= num_required <= num_replicas:
            raise InvalidArgumentError(
                message=f"A round of {num_replicas} replicas was to need {num_required} "
                "contributions; it needs at least 1 and at most one per replica"
            )
        self.step = 0
        self.finisher: int | None = None
        self.late = 0
        self._required = num_required
        self._elects_first = elects_first
        self._active = set(range(num_replicas))
        self._arrived: dict[int, Contribution[G]] = {}
        self._at: dict[int, int] = {}

    @property
    def missing(self) -> list[int]:
        """Returns the participating replicas that have not contributed to the open round."""
        return sorted(self._active - self._arrived.keys())

    def step_of(self, replica: int) -> int:
        """Returns a replica's round: the one that was open when its last one ended."""
        return self._at.setdefault(replica, self.step)

    def push(self, contribution: Contribution[G], step: int | None = None) -> Outcome:
        """Counts a contribution, or drops it.

        A replica that was finishing the round and contributes again has failed in between: the
        round is over, since its update may already have been applied.

        Args:
            contribution: The contribution.
            step: Its round, if older than `step_of`.
        """
        replica = contribution.replica
        self._active.add(replica)
        made_for = self.step_of(replica) if step is None else min(step, self.step_of(replica))
        if self.finisher == replica:
            self.finish()
        if self.finisher is not None or made_for < self.step:
            self.late += 1
            return Outcome.LATE
        outcome = Outcome.REPLACED if replica in self._arrived else Outcome.ACCEPTED
        self._arrived[replica] = contribution
        return outcome

    def holds(self, contribution: Contribution[G]) -> bool:
        """Whether this very contribution counts for the open round."""
        return self._arrived.get(contribution.replica) is contribution

    def withdraw(self, contribution: Contribution[G]) -> None:
        """Withdraws a contribution, unless it was dropped, replaced or used."""
        if self.finisher is None and self.holds(contribution):
            del self._arrived[contribution.replica]

    @property
    def is_complete(self) -> bool:
        """Whether enough contributions arrived for the open round to be finished."""
        there = self._active | self._arrived.keys()
        arrived = len(self._arrived)
        return self.finisher is None and 0 < arrived >= min(self._required, len(there))

    def may_finish(self, replica: int) -> bool:
        """Whether the round is complete and this replica may finish it."""
        if not self.is_complete or replica not in self._arrived:
            return False
        return not self._elects_first or replica == min(self._active | self._arrived.keys())

    def begin_finish(self, replica: int) -> list[Contribution[G]]:
        """Elects the replica; returns the contributions in the order of replica numbers."""
        assert self.may_finish(replica)
        self.finisher = replica
        return [self._arrived[each] for each in sorted(self._arrived)]

    def finish(self) -> None:
        """Ends the round that is being finished; the next one is open."""
        assert self.finisher is not None
        self.finisher = None
        self._arrived.clear()
        self.step += 1

    def go_on(self, replica: int) -> None:
        """Makes a replica join the open round: from now on it reads the result of the last one."""
        self._at[replica] = self.step

    def join(self, replica: int) -> None:
        """Adds a replica to the open round: from now on it is awaited."""
        self._active.add(replica)
        self.go_on(replica)

    def leave(self, replica: int) -> None:
        """Removes a replica: no round waits for it. Its contributions count.

        If it was finishing a round, the round is over. It takes part again when it joins or
        contributes.
        """
        self._active.discard(replica)
        self._at.pop(replica, None)
        if self.finisher == replica:
            self.finish()
