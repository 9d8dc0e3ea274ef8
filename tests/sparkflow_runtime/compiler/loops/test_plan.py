import numpy as np
import pytest

from sparkflow_runtime.compiler.loops.plan import Memory, StackTape

FLOAT = np.dtype(np.float32)


def test_memory_is_given_again_when_nobody_has_it() -> None:
    memory = Memory()
    first = memory.take((2, 3), FLOAT)
    second = memory.take((2, 3), FLOAT)
    assert first is not second
    address = first.ctypes.data
    del first
    assert memory.take((2, 3), FLOAT).ctypes.data == address
    assert memory.take((2, 3), np.dtype(np.float64)).dtype == np.float64
    assert memory.take((3, 2), FLOAT).shape == (3, 2)


def test_memory_that_somebody_has_a_view_of_is_not_given_again() -> None:
    memory = Memory()
    row = memory.take((2, 3), FLOAT)[1]
    row[...] = 5
    memory.take((2, 3), FLOAT)[...] = 0
    assert (row == 5).all()


def test_a_tape_has_the_turns_there_were() -> None:
    stack, same = np.arange(6.0).reshape(3, 2), np.float32(7)
    tape = StackTape(3, [(stack, True), (same, False)])
    assert len(tape) == 3
    assert [entry[0].tolist() for entry in (tape[0], tape[-1])] == [[0, 1], [4, 5]]
    assert tape[1][1] == 7
    for turn in (3, -4):
        with pytest.raises(IndexError, match="3 turns"):
            tape[turn]
