import numpy as np
import pytest

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
        with pytest.raises(IndexError, match="3 turns"):
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
    """3 and 6 are on stacks 0 and 1, 6 a row ahead; 8 is the same in every turn."""

    def number_of(self, path):
        return number_at([3, 8, 6], path)

    def place_of(self, number):
        return {3: (0, 0), 6: (1, 24)}.get(number)


def test_what_is_known_of_tapes_of_one_maker() -> None:
    readings = [
        TapeReading(0, (("body", place),), target=10 + place, stack=20 + place, row_bytes=0, rows=0)
        for place in range(3)
    ]
    known = KnownTape(Recorder(), readings)
    assert known.pointers.tolist() == [20, 22, 10, 12]
    assert known.places.tolist() == [0, 1, 0, 1]
    assert known.offsets.tolist() == [0, 24, 0, 24]
    assert (known.steady, known.steady_readings) == ([8], readings[1:2])
