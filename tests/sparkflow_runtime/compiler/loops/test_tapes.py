import numpy as np
import pytest

from sparkflow_runtime.compiler.loops.tapes import (
    BranchColumns,
    BranchTape,
    StackTape,
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
