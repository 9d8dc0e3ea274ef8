"""Lists while a loop runs: which ones fit, and how they change."""

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.codegen.cpu.repeat import Call, Loop
from sparkflow_runtime.codegen.cpu.repeat_ir import ListField
from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.compiler.loops.lists import LoopList
from sparkflow_runtime.compiler.loops.pointers import Cell
from sparkflow_runtime.compiler.loops.running_lists import RunningList, fits
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


class Run:
    """A run without iterations on one list, whose addresses may change in any way."""

    def __init__(self, of: LoopList, value: TensorList, rows: int = 0) -> None:
        self.running, self.value = RunningList(of, 1), value
        self.pointers = np.zeros(1 + RunningList.POINTERS, np.int64)
        _, self.memory, elements = self.running.begin(value, rows, self.pointers)
        self.elements = elements
        self.pointers[self.running.memory] = self.memory.ctypes.data
        self.pointers[self.running.elements] = elements.ctypes.data
        self._call(self.running.before)
        self.control = self.running._control
        self.rows = self.running._rows

    def _call(self, calls: Sequence[Call]) -> None:
        never, flag = np.zeros((), np.bool_), len(self.pointers)
        pointers = np.append(self.pointers, never.ctypes.data)
        assert Loop(calls, (), flag).program(()).run(pointers, 1) == (0, True)

    def end(self) -> TensorList:
        self._call(self.running.after)
        return self.running.end(self.value, self.memory)


def test_what_was_not_written_stays_and_what_was_cleared_is_gone() -> None:
    value = TensorList([ONE, OTHER, None, ONE], np.float32)
    run = Run(of(), value)
    rows, memory = run.rows, run.memory
    assert rows.tolist() == [ONE.ctypes.data, OTHER.ctypes.data, 0, ONE.ctypes.data]
    rows[1], rows[2] = 0, memory[2].ctypes.data
    memory[2] = 7
    end = run.end()
    assert end.items[0] is ONE
    assert end.items[1] is None
    assert end.items[2].tolist() == [7, 7]
    assert end.items[3] is ONE
    assert end.block is None
    assert value.items[2] is None


def test_a_list_written_from_first_to_last_is_one_block() -> None:
    run = Run(of(), TensorList([None] * 3, np.float32))
    run.rows[:] = run.memory.ctypes.data + np.arange(3) * 8
    end = run.end()
    assert end.block.shape == (3, 2)
    assert all(np.shares_memory(item, end.block) for item in end.items)


def test_a_list_that_grows_has_room_and_is_short_again_in_the_next_run() -> None:
    run = Run(of(grows=True), TensorList([ONE], np.float32), 5)
    assert run.control[ListField.CAPACITY] == 5
    assert len(run.memory) == 8
    run.control[ListField.LENGTH] = 3
    assert [item is None for item in run.end().items] == [False, True, True]
    run._call(run.running.before)
    assert [item is None for item in run.end().items] == [False]


def test_elements_that_do_not_lie_in_order_are_copied() -> None:
    strided = np.arange(8.0, dtype=np.float32)[::4]
    run = Run(of(), TensorList([strided], np.float32))
    assert run.rows[0] != strided.ctypes.data


def test_rows_of_a_block_are_read_where_they_are() -> None:
    block = np.arange(6, dtype=np.float32).reshape(3, 2)
    for given in (block, np.asfortranarray(block)):
        run = Run(of(), TensorList.rows_of(given))
        found = [(ctypes.c_float * 2).from_address(address) for address in run.rows.tolist()]
        assert [[*row] for row in found] == block.tolist()
    assert run.rows[1] != given[1].ctypes.data


def test_what_is_not_set_has_no_rows() -> None:
    run = Run(of(), TensorList.unset(3, np.float32))
    assert run.rows.tolist() == [0, 0, 0]
    assert run.control[ListField.MEMORY] == run.memory.ctypes.data
    assert run.end().items == [None] * 3


def test_what_belongs_to_the_plan_is_made_again_only_for_other_lengths() -> None:
    running, pointers = RunningList(of(), 1), np.zeros(1 + RunningList.POINTERS, np.int64)
    for count, expected in ((3, True), (3, False), (4, True), (4, False)):
        value = TensorList.unset(count, np.float32)
        assert running.begin(value, 0, pointers)[0] == expected
        assert pointers[0] == running._control.ctypes.data
