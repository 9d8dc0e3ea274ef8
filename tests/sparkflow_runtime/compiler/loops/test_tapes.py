from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.compiler.loops.memory import Stacks
from sparkflow_runtime.compiler.loops.pointers import Cell
from sparkflow_runtime.compiler.loops.tapes import (
    BranchColumns,
    BranchTape,
    KnownTape,
    StackTape,
    TapeReading,
    number_at,
    numbers_of,
)


def test_a_tape_has_the_turns_there_were() -> None:
    stack, same = np.arange(6.0).reshape(3, 2), np.float32(7)
    tape = StackTape(3, [(stack, True), (same, False)])
    assert len(tape) == 3
    assert [entry[0].tolist() for entry in (tape[0], tape[-1])] == [[0, 1], [4, 5]]
    assert tape[1][1] == 7
    for turn in (3, -4):
        with pytest.raises(IndexError, match="3 iterations"):
            tape[turn]


def test_a_branch_has_an_entry_of_the_function_that_was_chosen() -> None:
    recorded = BranchTape(4, ("then", "otherwise"), ((5, 6), None))
    assert list(numbers_of([3, recorded])) == [3, 4, 5, 6]
    first, second = np.arange(3.0), np.arange(3.0) + 10
    flags = np.array([True, False, True])
    columns = BranchColumns(recorded, (flags, True), ([(first, True), (second, True)], None))
    tape = StackTape(3, [columns])
    assert [tape[turn] for turn in range(3)] == [([(0, 10)],), ([],), ([(2, 12)],)]
    array, moves = tape.rows([("body", 0), ("then", 1)])
    assert array is second
    assert moves


def test_where_what_is_read_was_recorded() -> None:
    inner = BranchTape(4, ("then", "otherwise"), ((5, 6), None))
    recorded = [3, BranchTape(7, ("a", "b"), (None, (8, inner)))]
    assert number_at(recorded, [("body", 0)]) == 3
    assert number_at(recorded, [("body", 1), ("b", 0)]) == 8
    assert number_at(recorded, [("body", 1), ("b", 1), ("then", 1)]) == 6


class Recorder:
    """3 and 6 are on stacks 0 and 1, 6 one row ahead; 8 is the same in every iteration."""

    def number_of(self, path: Any) -> int:
        return number_at([3, 8, 6], path)

    def place_of(self, number: int) -> tuple[int, int] | None:
        return {3: (0, 0), 6: (1, 24)}.get(number)

    def cell(self, number: int) -> Cell:
        return Cell((number,), np.dtype(np.float64))


class Recording:
    maker = Recorder()

    def __init__(self, stacks: Stacks) -> None:
        self.stacks = stacks


def test_what_is_known_of_tapes_of_one_maker() -> None:
    maker = Recorder()
    readings = [
        TapeReading(0, (("body", n),), target=n, stack=3 + n, row_bytes=6 + n, rows=9 + n)
        for n in range(3)
    ]
    known = KnownTape(maker, readings)
    assert known.steady == [(readings[1], 8)]
    assert known.fits(lambda target: maker.cell([3, 8, 6][target]))
    assert not known.fits(lambda target: maker.cell([3, 8, 5][target]))
    stacks = Stacks([maker.cell(3), maker.cell(6)], 5)
    pointers = np.full(12, -1, np.int64)
    known.point(pointers, StackTape(4, None, Recording(stacks)))
    first, second = stacks.addresses.tolist()
    assert pointers[:3].tolist() == [first, -1, second + 24]
    assert pointers[3:6].tolist() == [first, -1, second + 24]
    assert pointers[6:9].tolist() == [3 * 8, 0, 6 * 8]
    assert pointers[9:].tolist() == [4, 4, 4]


def test_stacks_and_turns_tell_what_pointers_to_a_tape_are() -> None:
    stacks = [Stacks([Cell((2,), np.dtype(np.float32))], rows) for rows in (3, 4)]
    places = {StackTape(n, None, Recording(each)).place for each in stacks for n in (1, 2)}
    assert len(places) == 4
