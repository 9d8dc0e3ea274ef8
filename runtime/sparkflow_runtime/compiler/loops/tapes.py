"""What a loop in machine code records: a stack per tensor, and what branches of turns record.

The planner says what is recorded (`Recorded`); a run gives it as a `StackTape`, which the loop of
the gradient reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

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


class StackTape:
    """The tape of a loop: one stack per tensor, see `ops.tape`.

    Args:
        turns: How often the body ran.
        columns: What was recorded of each tensor.
        maker: What makes such tapes, all with columns of the same kinds; None for no such thing.
    """

    __slots__ = ("columns", "maker", "turns")

    def __init__(self, turns: int, columns: Sequence[Column], maker: object = None) -> None:
        self.turns = turns
        self.columns = columns
        self.maker = maker

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

    def __len__(self) -> int:
        return self.turns

    def __getitem__(self, turn: int) -> tuple[Any, ...]:
        if not -self.turns <= turn < self.turns:
            raise IndexError(f"The tape has {self.turns} turns, not turn {turn}")
        turn %= self.turns
        return _entry(self.columns, turn)


def numbers_of(recorded: Iterable[Recorded] | None) -> Iterator[int]:
    """The pointers to all that is recorded."""
    for each in recorded or ():
        if isinstance(each, BranchTape):
            yield each.flag
            for branch in each.taped:
                yield from numbers_of(branch)
        else:
            yield each
