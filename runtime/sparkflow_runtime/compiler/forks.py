"""Decides which parts of a plan run on several threads at once: a scheduler of numbers.

The plan stays in its order but for windows of neighbouring calls. Those of a window that wait for
each other, directly or through others in it, stay together; what is left apart is dealt out to a
few branches, which run at once and are waited for at the end of the window. What a call takes is
measured twice, because kernels may use all threads themselves: that gives what the window takes
today, and what its branches will take when each kernel has one thread.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Mapping, Sequence
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
_MOST_ENDS: Final = 48
_LONGEST: Final = 512
_COUNTS: Final = (2, 3, 4, 6, 8, 12, 16)
"""How many branches are tried. These keep the search under a second for plans of any size."""


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
    by_end: dict[int, list[_Window]] = {}
    for first in heavy:
        for window in _windows_from(first, units, set(heavy), threads, limits):
            by_end.setdefault(window.end, []).append(window)
    best: list[tuple[float, _Window | None]] = [(0.0, None)]
    for end in range(1, len(units) + 1):
        choice: tuple[float, _Window | None] = (best[-1][0], None)
        for window in by_end.get(end, ()):
            saved = best[window.first][0] + window.saved_s
            if saved > choice[0]:
                choice = (saved, window)
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
            found.append(_fork(chosen, units))
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
    return sorted(found[:_MOST_ENDS])


@dataclass(frozen=True, slots=True)
class _Window:
    """A fork that is not dealt out yet.

    Attributes:
        first: The number of its first call.
        end: The number after its last.
        count: How many branches it has.
        saved_s: What it saves.
    """

    first: int
    end: int
    count: int
    saved_s: float


def _windows_from(
    first: int, units: Sequence[Unit], ends: Collection[int], threads: int, limits: Limits
) -> list[_Window]:
    """The forks that save something and begin at a call."""
    parts = _Parts(first)
    found: list[_Window] = []
    shared_s = alone_s = 0.0
    for number in range(first, min(len(units), first + _LONGEST)):
        unit = units[number]
        if unit.is_barrier:
            break
        parts.add(number, unit)
        shared_s += unit.shared_s
        alone_s += unit.alone_s
        if number not in ends or parts.count < 2:
            continue
        best: _Window | None = None
        for count in _COUNTS:
            costs_s = (count - 1) * limits.branch_s
            least_saved_s = 0.0 if best is None else best.saved_s
            if count > min(threads, parts.count):
                break
            if shared_s - alone_s / count - costs_s <= least_saved_s:
                continue  # not even if its branches were equal
            branches = _dealt(parts.seconds, parts.pinned, count)
            if any(not members or seconds < limits.least_branch_s for seconds, members in branches):
                break
            saved_s = shared_s - max(seconds for seconds, _ in branches) - costs_s
            if saved_s > least_saved_s:
                best = _Window(first, number + 1, count, saved_s)
        if best is not None:
            found.append(best)
    return found


def _fork(window: _Window, units: Sequence[Unit]) -> Fork:
    parts = _Parts(window.first)
    for number in range(window.first, window.end):
        parts.add(number, units[number])
    branches = [
        tuple(sorted(number for part in chosen for number in parts.members[part]))
        for _, chosen in _dealt(parts.seconds, parts.pinned, window.count)
    ]
    return Fork(window.first, tuple(branches), window.saved_s)


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


def _dealt(
    seconds: Mapping[int, float], pinned: int | None, count: int
) -> list[tuple[float, list[int]]]:
    """The parts in so many branches of about the same length; the last is the step's own.

    The longest part goes first, each to the branch that is shortest so far.

    Args:
        seconds: By part.
        pinned: The part that the step's own thread must have, if there is one.
        count: As many branches, at most one per part.
    """
    own: list[int] = []
    heap: list[tuple[float, int, list[int]]] = [(0.0, number, []) for number in range(1, count)]
    if pinned is not None:
        own.append(pinned)
    heap.append((0.0 if pinned is None else seconds[pinned], 0, own))
    heapq.heapify(heap)
    for part in sorted(seconds, key=lambda each: (-seconds[each], each)):
        if part == pinned:
            continue
        if not seconds[part]:
            own.append(part)  # another thread would only have to be given it
            continue
        shortest, number, members = heap[0]
        members.append(part)
        heapq.heapreplace(heap, (shortest + seconds[part], number, members))
    heap.sort(key=lambda each: -each[1])
    return [(total, members) for total, _, members in heap]
