"""What a loop in machine code records: a stack per tensor, and the tapes of branches.

The planner says what is recorded (`Recorded`); a run gives it as a `StackTape`, which the loop of
the gradient reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np

from sparkflow_runtime.compiler.loops.memory import Stacks
from sparkflow_runtime.compiler.loops.pointers import Cell

Rows: TypeAlias = tuple[np.ndarray[Any, Any], bool]
"""An array whose rows are a tensor's values by iteration; or, with False, its constant value."""


@dataclass(frozen=True, slots=True)
class BranchTape:
    """What the branches of an iteration record, each when it is taken.

    Attributes:
        flag: Number of the pointer to the predicate.
        names: The functions for true and for false.
        taped: Per function the numbers of the pointers whose values are recorded, None for no tape.
    """

    flag: int
    names: tuple[str, str]
    taped: tuple[tuple[Recorded, ...] | None, tuple[Recorded, ...] | None]


Recorded: TypeAlias = "int | BranchTape"
"""Number of the recorded pointer, or what branches record."""


@dataclass(frozen=True, slots=True)
class BranchColumns:
    """The tapes of a branch in every iteration.

    Attributes:
        of: What was recorded.
        flags: The values of the predicate.
        columns: Per function its columns; rows of iterations in which it was not taken are
            undefined.
    """

    of: BranchTape
    flags: Rows
    columns: tuple[Sequence[Column] | None, Sequence[Column] | None]

    def named(self, function: str) -> Sequence[Column]:
        """Returns the columns of a function."""
        found = self.columns[self.of.names.index(function)]
        assert found is not None
        return found

    def entry(self, turn: int) -> list[tuple[Any, ...]]:
        """Returns the tape of the call in one iteration."""
        is_chosen = self.flags[0][turn] if self.flags[1] else self.flags[0]
        columns = self.columns[0 if is_chosen else 1]
        return [] if columns is None else [_entry(columns, turn)]


Column: TypeAlias = "Rows | BranchColumns"


def _entry(columns: Sequence[Column], turn: int) -> tuple[Any, ...]:
    found: list[Any] = []
    for each in columns:
        if isinstance(each, BranchColumns):
            found.append(each.entry(turn))
        else:
            found.append(each[0][turn] if each[1] else each[0])
    return tuple(found)


class Recording(Protocol):
    """The part of a finished loop run that tapes need."""

    @property
    def stacks(self) -> Stacks:
        """What was recorded in every iteration."""

    @property
    def maker(self) -> Maker:
        """The maker of such recordings, which are all alike."""

    def rows(self, number: int) -> Rows:
        """Returns what was recorded, by pointer number."""

    def columns(self) -> Sequence[Column]:
        """What was recorded of each tensor."""


class Maker(Protocol):
    """The part of a loop that is the same in all runs."""

    def cell(self, number: int) -> Cell:
        """Returns the target of a pointer to an array."""

    def number_of(self, path: Sequence[tuple[str, int]]) -> int:
        """Returns the number of the recorded pointer, see `StackTape.rows`."""

    def place_of(self, number: int) -> tuple[int, int] | None:
        """Returns the stack that records it, and the offset in it in bytes."""


class StackTape:
    """The tape of a loop: one stack per tensor, see `ops.tape`.

    Args:
        turns: The number of iterations.
        columns: What was recorded of each tensor; None if a recording has it.
        recording: The run; None for none.
    """

    __slots__ = ("_columns", "recording", "turns")

    def __init__(
        self,
        turns: int,
        columns: Sequence[Column] | None,
        recording: Recording | None = None,
    ) -> None:
        self.turns = turns
        self._columns = columns
        self.recording = recording

    @property
    def columns(self) -> Sequence[Column]:
        """What was recorded of each tensor."""
        if self._columns is None:
            assert self.recording is not None
            self._columns = self.recording.columns()
        return self._columns

    def rows(self, path: Sequence[tuple[str, int]]) -> Rows:
        """Returns what was recorded of a tensor.

        Args:
            path: A function and a position on its tape; for nested branches one pair each, from the
                body of the loop inwards.
        """
        found: Column = self.columns[path[0][1]]
        for function, place in path[1:]:
            assert isinstance(found, BranchColumns)
            found = found.named(function)[place]
        assert not isinstance(found, BranchColumns)
        return found

    @property
    def place(self) -> tuple[int, ...]:
        """Returns the location of the recording's stacks, and how many rows are on the tape."""
        assert self.recording is not None
        return (*self.recording.stacks.place, self.turns)

    def __len__(self) -> int:
        return self.turns

    def __getitem__(self, turn: int) -> tuple[Any, ...]:
        if not -self.turns <= turn < self.turns:
            raise IndexError(f"The tape has {self.turns} iterations, not iteration {turn}")
        turn %= self.turns
        return _entry(self.columns, turn)


def number_at(recorded: Sequence[Recorded], path: Sequence[tuple[str, int]]) -> int:
    """Returns the number of the recorded pointer; for the path see `StackTape.rows`."""
    found = recorded[path[0][1]]
    for function, place in path[1:]:
        assert isinstance(found, BranchTape)
        taped = found.taped[found.names.index(function)]
        assert taped is not None
        found = taped[place]
    assert isinstance(found, int)
    return found


def numbers_of(recorded: Iterable[Recorded] | None) -> Iterator[int]:
    """Returns all recorded pointers."""
    for each in recorded or ():
        if isinstance(each, BranchTape):
            yield each.flag
            for branch in each.taped:
                yield from numbers_of(branch)
        else:
            yield each


@dataclass(slots=True)
class TapeReading:
    """A read of a tape argument by the body.

    Attributes:
        argument: The argument's number.
        path: See `StackTape.rows`.
        target: Number of the pointer that is set.
        stack, row_bytes, rows: See `repeat.Read`.
    """

    argument: int
    path: tuple[tuple[str, int], ...]
    target: int
    stack: int
    row_bytes: int
    rows: int


@dataclass(frozen=True, slots=True)
class TapePart:
    """A tape argument of the loop, or one that a branch recorded in one of its iterations.

    Attributes:
        argument: The number of the tape argument.
        path: Leads to the part, see `StackTape.rows`.
        at: Number of the pointer to the iteration's index; None for the whole tape.
    """

    argument: int
    path: tuple[tuple[str, int], ...] = ()
    at: int | None = None


Place: TypeAlias = int | BranchTape | TapePart | None
"""A tensor's representation: the number of the pointer to an array, a tape, or None for a list."""


class KnownTape:
    """The locations of reads in the tapes of one maker.

    Args:
        maker: The maker.
        readings: The reads.

    Attributes:
        maker: The same.
        steady: The reads of loop-invariant values, each with the number of the maker's pointer to
            it.
    """

    def __init__(self, maker: Maker, readings: Sequence[TapeReading]) -> None:
        self.maker = maker
        self._readings = readings
        self._moving: list[tuple[TapeReading, int, int, int]] = []
        self.steady: list[tuple[TapeReading, int]] = []
        for each in readings:
            number = maker.number_of(each.path)
            place = maker.place_of(number)
            if place is None:
                self.steady.append((each, number))
            else:
                self._moving.append((each, *place, maker.cell(number).size_bytes))

    def fits(self, cell: Callable[[int], Cell]) -> bool:
        """Whether the tapes have what is read; `cell` returns its type by pointer."""
        maker = self.maker
        return all(
            maker.cell(maker.number_of(each.path)) == cell(each.target) for each in self._readings
        )

    def point(self, pointers: np.ndarray[Any, Any], tape: StackTape) -> None:
        """Sets pointers to the stacks of a tape, the number of rows and their distance."""
        assert tape.recording is not None
        addresses = tape.recording.stacks.addresses
        for each in self._readings:
            pointers[each.rows], pointers[each.row_bytes] = tape.turns, 0
        for each, place, offset, row_bytes in self._moving:
            pointers[each.stack] = pointers[each.target] = addresses[place] + offset
            pointers[each.row_bytes] = row_bytes
