import numpy as np
import pytest

from sparkflow_runtime.compiler.loops.plan import StackTape


def test_a_tape_has_the_turns_there_were() -> None:
    stack, same = np.arange(6.0).reshape(3, 2), np.float32(7)
    tape = StackTape(3, [(stack, True), (same, False)])
    assert len(tape) == 3
    assert [entry[0].tolist() for entry in (tape[0], tape[-1])] == [[0, 1], [4, 5]]
    assert tape[1][1] == 7
    for turn in (3, -4):
        with pytest.raises(IndexError, match="3 turns"):
            tape[turn]
