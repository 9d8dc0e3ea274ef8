"""The rendezvous of the ranks of a collective group whose sessions do not know each other.

The task of rank 0 keeps the table. When all ranks of a group have joined, each gets the same
number, under which they then exchange tensors like the partitions of one step. A rank that joins
again, because its session or task was restarted, ends whatever the others still run under the old
number, and all of them must join again.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from sparkflow_runtime.errors import (
    AbortedError,
    CancelledError,
    DeadlineExceededError,
    InvalidArgumentError,
    OpError,
    from_status,
    to_status,
)

if TYPE_CHECKING:
    from sparkflow_runtime.protos.worker_pb2 import CompleteGroupRequest

MAX_RANKS: Final = 1 << 16
MAX_GROUPS: Final = 1 << 12
_NUMBER_BITS: Final = 62


@dataclass(slots=True)
class _Round:
    """The ranks that have joined a group, and their number.

    Attributes:
        size: The required number of ranks.
        members: The members that have joined, by rank.
        number: Their number; None until all have joined.
    """

    size: int
    members: dict[int, str] = field(default_factory=dict)
    number: int | None = None


class GroupTable:
    """The groups whose rank 0 is on this task. Safe to use from several threads.

    `_changed` guards all fields.

    Args:
        supersede: Called with a group's old number and the reason when that number becomes invalid.
    """

    def __init__(self, supersede: Callable[[int, OpError], None]) -> None:
        self._supersede = supersede
        self._changed = threading.Condition()
        self._rounds: dict[str, _Round] = {}
        self._closed: tuple[int, str] | None = None
        self._draw = random.SystemRandom()

    def join(
        self,
        applicant: CompleteGroupRequest,
        timeout_s: float,
        wanted: Callable[[], bool] = lambda: True,
    ) -> int:
        """Waits until all ranks of the group have joined; returns their common number.

        Args:
            applicant: The joining `rank` of a `group` of `group_size` ranks. Its `member` is a
                unique string, which distinguishes a rank that joins again from one that repeats its
                request.
            timeout_s: How long to wait for the others.
            wanted: Whether the applicant still waits; called again after `wake`.

        Raises:
            InvalidArgumentError: The ranks disagree on the size, or there is no such rank.
            DeadlineExceededError: Some ranks did not join; the message names them.
            AbortedError: The same rank joined again meanwhile.
            CancelledError: `wanted` returned False.
            OpError: The error with which the table was closed.
        """
        _check(applicant)
        ended: tuple[int, OpError] | None = None
        with self._changed:
            self._raise_if_closed()
            current = self._rounds.get(applicant.group)
            if current is not None and current.size != applicant.group_size:
                raise InvalidArgumentError(
                    message=f"Rank {applicant.rank} says that collective group {applicant.group} "
                    f"has {applicant.group_size} ranks; others said {current.size}. All replicas "
                    "must run the same graph"
                )
            if current is None and len(self._rounds) >= MAX_GROUPS:
                raise InvalidArgumentError(message=f"A task can lead at most {MAX_GROUPS} groups")
            if current is None or current.number is not None:
                if current is not None and current.number is not None:
                    ended = current.number, AbortedError(message=_came_again(applicant))
                current = self._rounds[applicant.group] = _Round(applicant.group_size)
            current.members[applicant.rank] = applicant.member
            if len(current.members) == current.size:
                current.number = (1 << _NUMBER_BITS) | self._draw.getrandbits(_NUMBER_BITS)
            self._changed.notify_all()
        if ended is not None:
            self._supersede(*ended)
        return self._wait(applicant, current, timeout_s, wanted)

    def wake(self) -> None:
        """Makes every `join` call `wanted` again."""
        with self._changed:
            self._changed.notify_all()

    def close(self, error: OpError) -> None:
        """Ends every present and future `join` with `error`."""
        with self._changed:
            self._closed = to_status(error)
            self._changed.notify_all()

    def _wait(
        self,
        applicant: CompleteGroupRequest,
        joined: _Round,
        timeout_s: float,
        wanted: Callable[[], bool],
    ) -> int:
        rank, member = applicant.rank, applicant.member

        def settled() -> bool:
            return (
                joined.number is not None
                or self._closed is not None
                or joined.members.get(rank) != member
                or not wanted()
            )

        with self._changed:
            in_time = self._changed.wait_for(settled, timeout_s)
            self._raise_if_closed()
            if joined.members.get(rank) != member:
                raise AbortedError(message=_came_again(applicant))
            if joined.number is not None:
                return joined.number
            del joined.members[rank]
            if in_time:
                raise CancelledError(message=f"Rank {rank} no longer waits for its group")
            missing = [each for each in range(joined.size) if each not in joined.members]
            missing.remove(rank)
            raise DeadlineExceededError(
                message=f"Rank {rank} waited {timeout_s:g} s for collective group "
                f"{applicant.group}: of {joined.size} ranks, these have not joined: "
                f"{', '.join(map(str, missing[:20]))}. Are they running, and with the same graph?"
            )

    def _raise_if_closed(self) -> None:
        if self._closed is not None:
            raise from_status(*self._closed)


def _check(applicant: CompleteGroupRequest) -> None:
    if not 0 <= applicant.rank < applicant.group_size <= MAX_RANKS:
        raise InvalidArgumentError(
            message=f"Collective group {applicant.group} has no rank {applicant.rank} of "
            f"{applicant.group_size}; there may be up to {MAX_RANKS}"
        )


def _came_again(applicant: CompleteGroupRequest) -> str:
    return (
        f"Rank {applicant.rank} of collective group {applicant.group} joined again: its session or "
        "its task was restarted. All ranks must join again"
    )
