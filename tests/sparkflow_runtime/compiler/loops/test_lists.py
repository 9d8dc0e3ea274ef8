"""Lists while a loop runs: which ones fit, and what becomes of them."""

import ctypes
from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.codegen.cpu.repeat_ir import ListField
from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.compiler.loops.lists import LoopList, RunningList, fits
from sparkflow_runtime.compiler.loops.pointers import Cell
from sparkflow_runtime.ops.lists.tensor_list import TensorList

pytestmark = pytest.mark.skipif(not native.available(), reason="needs llvmlite")
FLOAT = np.dtype(np.float32)
CELL = Cell((2,), FLOAT)
ONE, OTHER = np.float32([1, 2]), np.float32([3, 4])


def of(**settings: Any) -> LoopList:
    return LoopList(0, 0, is_changed=True, cell=CELL, **settings)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (TensorList([ONE, None], np.float32), True),
        (TensorList([], np.float32), True),
        (TensorList([ONE, OTHER[:1]], np.float32), False),
        (TensorList([ONE.astype(np.float64)], np.float32), False),
        (TensorList([ONE], np.float64), False),
        (TensorList([None, np.float32(1)], np.float32), False),
        (TensorList.rows_of(np.stack([ONE, OTHER])), True),
        (TensorList.rows_of(np.stack([ONE, OTHER]).astype(np.float64)), False),
        (TensorList.rows_of(np.zeros((2, 3), np.float32)), False),
        (TensorList.unset(5, np.float32), True),
        (TensorList.unset(5, np.float64), False),
        ({}, False),
        (None, False),
    ],
)
def test_what_a_loop_was_planned_for(value: Any, expected: bool) -> None:
    assert fits(of(), value, [value]) == expected


def test_lengths_that_must_agree() -> None:
    two, three = TensorList([ONE] * 2, np.float32), TensorList([None] * 3, np.float32)
    assert fits(of(lengths=[(2, 0), (None, 1)]), two, [two, two])
    assert not fits(of(lengths=[(3, 0)]), two, [two])
    assert not fits(of(lengths=[(None, 1)]), two, [two, three])
    assert not fits(of(lengths=[(None, 1)]), two, [two, ONE])


def take(shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    return np.zeros(shape, dtype)


def test_what_was_not_written_stays_and_what_was_cleared_is_gone() -> None:
    value = TensorList([ONE, OTHER, None, ONE], np.float32)
    running = RunningList(of(), value, 0, take, np.zeros(2, np.float32))
    rows, memory = running._rows, running._memory
    assert rows.tolist() == [ONE.ctypes.data, OTHER.ctypes.data, 0, ONE.ctypes.data]
    rows[1], rows[2] = 0, memory[2].ctypes.data
    memory[2] = 7
    end = running.end()
    assert end.items[0] is ONE
    assert end.items[1] is None
    assert end.items[2].tolist() == [7, 7]
    assert end.items[3] is ONE
    assert end.block is None
    assert value.items[2] is None


def test_a_list_written_from_first_to_last_is_one_block() -> None:
    value = TensorList([None] * 3, np.float32)
    running = RunningList(of(), value, 0, take, np.zeros(2, np.float32))
    running._rows[:] = running._memory.ctypes.data + np.arange(3) * 8
    end = running.end()
    assert end.block.shape == (3, 2)
    assert all(np.shares_memory(item, end.block) for item in end.items)


def test_a_list_that_grows_has_room() -> None:
    value = TensorList([ONE], np.float32)
    running = RunningList(of(grows=True), value, 5, take, np.zeros(2, np.float32))
    assert running.control[ListField.CAPACITY] == 5
    assert len(running._memory) == 8
    running.control[ListField.LENGTH] = 3
    assert [item is None for item in running.end().items] == [False, True, True]


def test_elements_that_do_not_lie_in_order_are_copied() -> None:
    strided = np.arange(8.0, dtype=np.float32)[::4]
    running = RunningList(of(), TensorList([strided], np.float32), 0, take, np.zeros(2, np.float32))
    assert running._rows[0] != strided.ctypes.data


def test_rows_of_a_block_are_read_where_they_are() -> None:
    block = np.arange(6, dtype=np.float32).reshape(3, 2)
    for given in (block, np.asfortranarray(block)):
        running = RunningList(of(), TensorList.rows_of(given), 0, take, np.zeros(2, np.float32))
        found = [(ctypes.c_float * 2).from_address(address) for address in running._rows.tolist()]
        assert [[*row] for row in found] == block.tolist()
    assert running._rows[1] != given[1].ctypes.data


def test_what_is_not_set_has_no_rows() -> None:
    running = RunningList(of(), TensorList.unset(3, np.float32), 0, take, np.zeros(2, np.float32))
    assert running._rows.tolist() == [0, 0, 0]
    assert running.control[ListField.MEMORY] == running._memory.ctypes.data
    assert running.end().items == [None] * 3
