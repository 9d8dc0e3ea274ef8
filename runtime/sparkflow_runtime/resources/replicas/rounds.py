"""Rounds: which replica's contribution counts for which step, without threads.

Replicas contribute once to every round. One of them is elected to finish it: it gets what all
contributed, and ends the round when it has done with that what is to be done. With fewer
contributions required than there are replicas, those that come too late are dropped and counted
(backup workers: Chen et al., "Revisiting Distributed Synchronous SGD", 2016).
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Generic, TypeVar

from sparkflow_runtime.errors import InvalidArgumentError

G = TypeVar("G")


class Outcome(enum.Enum):
    """What became of a contribution."""

    ACCEPTED = "accepted"
    REPLACED = "replaced"
    """The replica had contributed to this round before; the new contribution counts."""
    LATE = "late"
    """The round it was made for is over, or is being finished."""


@dataclass(frozen=True, slots=True)
class Contribution(Generic[G]):
    """What one replica brings to one round.

    Attributes:
        replica: The replica's number.
        weight: Its number of rows.
        value: The mean over these rows; meaningless when the weight is 0.
    """

    replica: int
    weight: float
    value: G


class Rounds(Generic[G]):
    """Who contributed to the open round, who finishes it, and who has missed it.

    Args:
        num_replicas: Replicas 0 to `num_replicas - 1` are expected from the start.
        num_required: So many contributions make a round; fewer when fewer replicas are left.
        elects_first: Whether only the replica with the lowest number that takes part may finish a
            round; else whoever asks first.

    Attributes:
        step: The number of the open round.
        finisher: Who is finishing it, None while contributions are awaited.
        late: How many contributions were dropped.

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
        """The replicas that take part and have not contributed to the open round."""
        return sorted(self._active - self._arrived.keys())

    def step_of(self, replica: int) -> int:
        """The round a replica works for: the one that was open when its last one ended."""
        return self._at.setdefault(replica, self.step)

    def push(self, contribution: Contribution[G], step: int | None = None) -> Outcome:
        """Counts a contribution, or drops it.

        A replica that was finishing the round and contributes again has failed in between: the
        round is over, since its update may have been made already.

        Args:
            contribution: What is brought.
            step: The round it was made for, where that is older than `step_of` says.
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
        """Takes a contribution back, unless it was dropped, replaced or used."""
        if self.finisher is None and self.holds(contribution):
            del self._arrived[contribution.replica]

    @property
    def is_complete(self) -> bool:
        """Whether enough arrived and somebody has to finish the open round."""
        there = self._active | self._arrived.keys()
        arrived = len(self._arrived)
        return self.finisher is None and 0 < arrived >= min(self._required, len(there))

    def may_finish(self, replica: int) -> bool:
        """Whether the round is complete and this replica may finish it."""
        if not self.is_complete or replica not in self._arrived:
            return False
        return not self._elects_first or replica == min(self._active | self._arrived.keys())

    def begin_finish(self, replica: int) -> list[Contribution[G]]:
        """Elects the replica; what was contributed, in the order of replica numbers."""
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
        """Has a replica work for the open round: from now on it reads what the last one left."""
        self._at[replica] = self.step

    def join(self, replica: int) -> None:
        """Takes a replica in that works for the open round: it is waited for from now on."""
        self._active.add(replica)
        self.go_on(replica)

    def leave(self, replica: int) -> None:
        """Takes a replica out: no round waits for it. What it contributed counts.

        If it was finishing a round, the round is over. It takes part again when it joins or
        contributes.
        """
        self._active.discard(replica)
        self._at.pop(replica, None)
        if self.finisher == replica:
            self.finish()
