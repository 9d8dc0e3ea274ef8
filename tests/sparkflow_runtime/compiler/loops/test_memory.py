import numpy as np

from sparkflow_runtime.compiler.loops.memory import Memory

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


def test_no_more_is_kept_than_two_runs_need() -> None:
    memory = Memory()
    given = []
    for _ in range(5):
        memory.begin()
        given += [memory.take((2,), FLOAT) for _ in range(3)]
    del given
    assert len(memory._arrays[(2,), FLOAT]) <= 6
