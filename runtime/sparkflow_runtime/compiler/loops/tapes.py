"""What a loop in machine code records: a stack per tensor, and what branches of turns record.

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
"""An array whose rows are the values of a tensor, from the first turn on; or, with False, one that
is its value in every turn."""


@dataclass(frozen=True, slots=True)
class BranchTape:
    """What the branches of a turn record, each in the turns in which it is chosen.

    Attributes:
        flag: Number of the pointer to what chooses.
        names: The functions that are chosen where it holds, and where it does not.
        taped: Per function the numbers of the pointers whose values are recorded, None for no tape.
    """

    flag: int
    names: tuple[str, str]
    taped: tuple[tuple[Recorded, ...] | None, tuple[Recorded, ...] | None]


Recorded: TypeAlias = "int | BranchTape"
"""Number of the pointer to what is recorded, or what branches record."""


@dataclass(frozen=True, slots=True)
class BranchColumns:
    """The tapes of a branch in every turn.

    Attributes:
        of: What was recorded.
        flags: What was chosen.
        columns: Per function its columns; those of turns in which it was not chosen say nothing.
    """

    of: BranchTape
    flags: Rows
    columns: tuple[Sequence[Column] | None, Sequence[Column] | None]

    def named(self, function: str) -> Sequence[Column]:
        """The columns of a function."""
        found = self.columns[self.of.names.index(function)]
        assert found is not None
        return found

    def entry(self, turn: int) -> list[tuple[Any, ...]]:
        """The tape of the call in one turn."""
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
    """A run of a loop that is over, as far as tapes need it."""

    @property
    def stacks(self) -> Stacks:
        """What was recorded in every turn."""

    @property
    def maker(self) -> Maker:
        """What makes such recordings, all of the same kinds."""

    def rows(self, number: int) -> Rows:
        """What was recorded by the number of its pointer."""

    def columns(self) -> Sequence[Column]:
        """What was recorded of each tensor."""


class Maker(Protocol):
    """What is the same in all runs of a loop."""

    def cell(self, number: int) -> Cell:
        """What a pointer to an array points to."""

    def number_of(self, path: Sequence[tuple[str, int]]) -> int:
        """The number of the pointer to what is recorded, see `StackTape.rows`."""

    def place_of(self, number: int) -> tuple[int, int] | None:
        """In which stack it is recorded, and how many bytes from its beginning."""


class StackTape:
    """The tape of a loop: one stack per tensor, see `ops.tape`.

    Args:
        turns: How often the body ran.
        columns: What was recorded of each tensor; None where a recording has it.
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
        """What was recorded of a tensor.

        Args:
            path: A function and a place on its tape; of branches within branches, one pair each,
                from the body of the loop inwards.
        """
        found: Column = self.columns[path[0][1]]
        for function, place in path[1:]:
            assert isinstance(found, BranchColumns)
            found = found.named(function)[place]
        assert not isinstance(found, BranchColumns)
        return found

    @property
    def place(self) -> tuple[int, ...]:
        """Where the stacks of the recording are, and how many of their rows are the tape's."""
        assert self.recording is not None
        return (*self.recording.stacks.place, self.turns)

    def __len__(self) -> int:
        return self.turns

    def __getitem__(self, turn: int) -> tuple[Any, ...]:
        if not -self.turns <= turn < self.turns:
            raise IndexError(f"The tape has {self.turns} turns, not turn {turn}")
        turn %= self.turns
        return _entry(self.columns, turn)


def number_at(recorded: Sequence[Recorded], path: Sequence[tuple[str, int]]) -> int:
    """The number of the pointer to what is recorded; for the path see `StackTape.rows`."""
    found = recorded[path[0][1]]
    for function, place in path[1:]:
        assert isinstance(found, BranchTape)
        taped = found.taped[found.names.index(function)]
        assert taped is not None
        found = taped[place]
    assert isinstance(found, int)
    return found


def numbers_of(recorded: Iterable[Recorded] | None) -> Iterator[int]:
    """The pointers to all that is recorded."""
    for each in recorded or ():
        if isinstance(each, BranchTape):
            yield each.flag
            for branch in each.taped:
                yield from numbers_of(branch)
        else:
            yield each


@dataclass(slots=True)
class TapeReading:
    """How the body reads a tape that it is given: which argument, and what of it.

    Attributes:
        argument: Which one.
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
    """A tape that the loop is given, or one that a branch recorded in one of its turns.

    Attributes:
        argument: Which argument is the tape.
        path: What leads to the part, see `StackTape.rows`.
        at: Number of the pointer to the turn's number; None for the whole tape.
    """

    argument: int
    path: tuple[tuple[str, int], ...] = ()
    at: int | None = None


Place: TypeAlias = int | BranchTape | TapePart | None
"""What a tensor is: the number of the pointer to an array, a tape, or, with None, a list."""


class KnownTape:
    """Where the tapes of one maker have what is read.

    Args:
        maker: Theirs.
        readings: What is read.

    Attributes:
        maker: The same.
        steady: The readings of what is the same in every turn, each with the number of the maker's
            pointer to it.
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
        """Whether the tapes have what is read; `cell` says what that is, by the pointers to it."""
        maker = self.maker
        return all(
            maker.cell(maker.number_of(each.path)) == cell(each.target) for each in self._readings
        )

    def point(self, pointers: np.ndarray[Any, Any], tape: StackTape) -> None:
        """Sets pointers to the stacks of a tape, and how many rows there are and how far apart."""
        assert tape.recording is not None
        addresses = tape.recording.stacks.addresses
        for each in self._readings:
            pointers[each.rows], pointers[each.row_bytes] = tape.turns, 0
        for each, place, offset, row_bytes in self._moving:
            pointers[each.stack] = pointers[each.target] = addresses[place] + offset
            pointers[each.row_bytes] = row_bytes
