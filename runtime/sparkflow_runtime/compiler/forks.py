"""Decides which parts of a plan run on several threads at once: a scheduler of numbers.

The plan stays in its order but for windows of neighbouring calls. Those of a window that wait for
each other, directly or through others in it, stay together; what is left apart is dealt out to a
few branches, which run at once and are waited for at the end of the window. What a call takes is
measured twice, because kernels may use all threads themselves: that gives what the window takes
today, and what its branches will take when each kernel has one thread.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Unit:
    """What is known of one call.

    Attributes:
        waits: The numbers of the calls before it that must have run.
        shared_s: Seconds it takes when its kernel may use all threads.
        alone_s: Seconds it takes on one thread.
        is_pinned: Whether it keeps its order among other such calls, on the step's own thread.
        is_barrier: Whether nothing else may run while it does.
    """

    waits: frozenset[int] = frozenset()
    shared_s: float = 0.0
    alone_s: float = 0.0
    is_pinned: bool = False
    is_barrier: bool = False


@dataclass(frozen=True, slots=True)
class Limits:
    """What a fork must be worth.

    Handing a branch to a thread and back took 21 us, and over 37 in one of 20 cases (2026-11-21).

    Attributes:
        branch_s: What a branch costs besides its calls.
        least_branch_s: A branch takes as long, at least.
        least_saving_s: So much all forks of a plan save together, at least.
        least_share: And such a part of its time.
    """

    branch_s: float = 40e-6
    least_branch_s: float = 100e-6
    least_saving_s: float = 200e-6
    least_share: float = 0.15


USUAL: Final = Limits()
NONE: Final = Limits(0.0, 0.0, 0.0, 0.0)
"""Everything that can be forked is."""
_MOST_STARTS: Final = 96
_LONGEST: Final = 512


@dataclass(frozen=True, slots=True)
class Fork:
    """A window whose branches run at once.

    Attributes:
        first: The number of its first call.
        branches: The numbers of the calls of each, ascending. The last one is for the step's own
            thread.
        saved_s: What that is expected to save.
    """

    first: int
    branches: tuple[tuple[int, ...], ...]
    saved_s: float = 0.0

    @property
    def end(self) -> int:
        """The number after its last call."""
        return self.first + sum(map(len, self.branches))


def find_forks(units: Sequence[Unit], threads: int, limits: Limits) -> list[Fork]:
    """The forks that save most, in order; none where they save less than they must.

    Args:
        units: The plan.
        threads: How many branches a fork may have.
        limits: What makes one worth it.
    """
    if threads < 2:
        return []
    heavy = _heavy(units, limits)
    by_end: dict[int, list[Fork]] = {}
    for first in heavy:
        for fork in _windows_from(first, units, set(heavy), threads, limits):
            by_end.setdefault(fork.end, []).append(fork)
    best: list[tuple[float, Fork | None]] = [(0.0, None)]
    for end in range(1, len(units) + 1):
        choice: tuple[float, Fork | None] = (best[-1][0], None)
        for fork in by_end.get(end, ()):
            saved = best[fork.first][0] + fork.saved_s
            if saved > choice[0]:
                choice = (saved, fork)
        best.append(choice)
    saved_s = best[-1][0]
    if saved_s < limits.least_saving_s or saved_s < limits.least_share * sum(
        unit.shared_s for unit in units
    ):
        return []
    found: list[Fork] = []
    end = len(units)
    while end:
        chosen = best[end][1]
        if chosen is None:
            end -= 1
        else:
            found.append(chosen)
            end = chosen.first
    return found[::-1]


def order_with(forks: Sequence[Fork], count: int) -> list[int]:
    """The numbers of a plan's calls, those of each fork branch by branch.

    Args:
        forks: In order.
        count: How many calls the plan has.
    """
    order: list[int] = []
    for fork in forks:
        order.extend(range(len(order), fork.first))
        order.extend(number for branch in fork.branches for number in branch)
    order.extend(range(len(order), count))
    return order


def times_with(forks: Sequence[Fork], count: int) -> list[int]:
    """When each call of that order runs: those of a fork all at the same time.

    Args:
        forks: In order.
        count: How many calls the plan has.
    """
    times = list(range(count))
    for fork in forks:
        times[fork.first : fork.end] = [fork.first] * (fork.end - fork.first)
    return times


def _heavy(units: Sequence[Unit], limits: Limits) -> list[int]:
    """Where a window may begin and end: at the calls that take longest."""
    least_s = limits.least_branch_s / 8
    found = [
        number
        for number, unit in enumerate(units)
        if unit.alone_s > 0 and unit.alone_s >= least_s and not unit.is_barrier
    ]
    found.sort(key=lambda number: -units[number].alone_s)
    return sorted(found[:_MOST_STARTS])


def _windows_from(
    first: int, units: Sequence[Unit], ends: Collection[int], threads: int, limits: Limits
) -> list[Fork]:
    """The forks that save something and begin at a call."""
    parts = _Parts(first)
    found: list[Fork] = []
    shared_s = 0.0
    for number in range(first, min(len(units), first + _LONGEST)):
        unit = units[number]
        if unit.is_barrier:
            break
        parts.add(number, unit)
        shared_s += unit.shared_s
        if number not in ends or parts.count < 2:
            continue
        for count in range(2, min(threads, parts.count) + 1):
            branches = _dealt(parts, count, limits)
            if len(branches) != count:
                break
            longest_s = max(seconds for seconds, _ in branches)
            saved_s = shared_s - longest_s - (count - 1) * limits.branch_s
            if saved_s > 0:
                numbers = tuple(tuple(sorted(members)) for _, members in branches)
                found.append(Fork(first, numbers, saved_s))
    return found


class _Parts:
    """The calls of a growing window, those together that must be in one branch."""

    def __init__(self, first: int) -> None:
        self._first = first
        self._of: dict[int, int] = {}
        self._pinned: int | None = None
        self.seconds: dict[int, float] = {}
        self.members: dict[int, list[int]] = {}

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.members)

    @property
    def pinned(self) -> int | None:
        """The one for the step's own thread."""
        return None if self._pinned is None else self._of[self._pinned]

    def add(self, number: int, unit: Unit) -> None:
        """The window is longer by the next call."""
        self._of[number] = number
        self.members[number] = [number]
        self.seconds[number] = unit.alone_s
        for before in unit.waits:
            if before >= self._first:
                self._unite(before, number)
        if unit.is_pinned:
            if self._pinned is not None:
                self._unite(self._pinned, number)
            self._pinned = number

    def _unite(self, one: int, other: int) -> None:
        into, gone = self._of[one], self._of[other]
        if into == gone:
            return
        if len(self.members[into]) < len(self.members[gone]):
            into, gone = gone, into
        for number in self.members[gone]:
            self._of[number] = into
        self.members[into] += self.members.pop(gone)
        self.seconds[into] += self.seconds.pop(gone)


def _dealt(parts: _Parts, count: int, limits: Limits) -> list[tuple[float, list[int]]]:
    """The parts in so many branches of about the same length, or fewer; the last is the step's own.

    The longest part goes first, each to the branch that is shortest so far.
    """
    seconds = [0.0] * count
    members: list[list[int]] = [[] for _ in range(count)]
    own = count - 1
    pinned = parts.pinned
    if pinned is not None:
        seconds[own] = parts.seconds[pinned]
        members[own] += parts.members[pinned]
    for part in sorted(parts.members, key=lambda each: (-parts.seconds[each], each)):
        if part == pinned:
            continue
        # What takes no time is the own thread's, which would only have to give it away.
        shortest = min(range(count), key=lambda each: (seconds[each], not members[each], -each))
        if not parts.seconds[part]:
            shortest = own
        seconds[shortest] += parts.seconds[part]
        members[shortest] += parts.members[part]
    found = list(zip(seconds, members, strict=True))
    return [each for each in found if each[1] and each[0] >= limits.least_branch_s]
