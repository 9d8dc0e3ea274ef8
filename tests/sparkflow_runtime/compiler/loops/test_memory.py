import numpy as np

from sparkflow_runtime.compiler.loops.memory import Reused, StackMemory
from sparkflow_runtime.compiler.loops.pointers import Cell

FLOAT = np.dtype(np.float32)


def test_memory_is_given_again_when_nobody_has_it() -> None:
    memory = Reused()
    first = memory.take((2, 3), FLOAT)
    second = memory.take((2, 3), FLOAT)
    assert first is not second
    address = first.ctypes.data
    del first
    assert memory.take((2, 3), FLOAT).ctypes.data == address


def test_memory_that_somebody_has_a_view_of_is_not_given_again() -> None:
    memory = Reused()
    row = memory.take((2, 3), FLOAT)[1]
    row[...] = 5
    memory.take((2, 3), FLOAT)[...] = 0
    assert (row == 5).all()


def test_no_more_is_kept_than_two_runs_need_and_of_one_kind() -> None:
    memory = Reused()
    given = [memory.take((2,), FLOAT) for _ in range(5)]
    del given
    assert len(memory._arrays) == 2
    assert memory.take((2,), np.dtype(np.float64)).dtype == np.float64
    assert memory.take((3, 2), FLOAT).shape == (3, 2)
    assert len(memory._arrays) == 1


CELLS = [Cell((2, 3), FLOAT), Cell((), np.dtype(np.bool_)), Cell((0, 4), FLOAT), Cell((5,), FLOAT)]


def test_stacks_lie_beside_each_other() -> None:
    stacks = StackMemory().take(CELLS, 7)
    assert [each.shape for each in stacks.arrays] == [(7, *cell.shape) for cell in CELLS]
    assert [each.dtype for each in stacks.arrays] == [cell.dtype for cell in CELLS]
    for number, each in enumerate(stacks.arrays):
        assert each.ctypes.data == stacks.addresses[number]
        each[...] = number
    for number, each in enumerate(stacks.arrays):
        assert (each == number).all()
    assert StackMemory().take([], 7).arrays == []


def test_stacks_are_given_again_when_nobody_has_them_or_a_view() -> None:
    memory = StackMemory()
    first = memory.take(CELLS, 7)
    second = memory.take(CELLS, 7)
    assert first is not second
    addresses = [each.addresses.tolist() for each in (first, second)]
    row = first.arrays[3][2:4]
    del first
    third = memory.take(CELLS, 7)
    assert third.addresses.tolist() not in addresses
    del row, third
    assert memory.take(CELLS, 7).addresses.tolist() == addresses[0]
    assert memory.take(CELLS, 8).arrays[0].shape == (8, 2, 3)
