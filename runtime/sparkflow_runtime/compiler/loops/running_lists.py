"""The lists of a running loop: their memory, their tables, and their final values.

The plan owns what is constant between runs while a list's length is unchanged: its control block
and the table of its elements' addresses. A run receives two arrays per list.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from sparkflow_runtime.codegen.cpu.addresses import list_begins, list_ends
from sparkflow_runtime.codegen.cpu.repeat import Call
from sparkflow_runtime.codegen.cpu.repeat_ir import ListField
from sparkflow_runtime.compiler.loops.lists import LoopList
from sparkflow_runtime.compiler.loops.memory import Reused
from sparkflow_runtime.compiler.loops.pointers import Cell
from sparkflow_runtime.ops.lists.tensor_list import TensorList

_LENGTH: Final = ListField.LENGTH.value
_ROWS: Final = np.dtype(np.int64)
Array = np.ndarray[Any, Any]


class RunningList:
    """A list in repeated runs of a loop. For one thread at a time.

    Args:
        of: The list in the loop; its elements or its length are used.
        first: Number of the first of its `POINTERS` pointers.
        is_read: Whether it is read after the loop.

    Attributes:
        of: The same.
        memory, elements: Numbers of the pointers to the two arrays that `begin` returns.
        before: The calls before the first iteration.
        after: The calls after the last one.
    """

    POINTERS: Final = 5

    def __init__(self, of: LoopList, first: int, is_read: bool = True) -> None:
        self.of = of
        self._is_told = is_read and of.is_changed and of.cell is not None
        cell = of.cell
        self._table, self._zeros, self._counter, self.memory, self.elements = (
            first + place for place in range(self.POINTERS)
        )
        self._size = -1, -1
        self._length = np.zeros((), np.int32)
        self._written = np.zeros((), np.int64)
        self._reused = Reused()
        self._kept: list[Array] = []
        self._room = 0
        self.before: list[Call] = []
        self.after: list[Call] = []
        if cell is None:
            return
        self._nothing = np.zeros(cell.shape, cell.dtype)
        arrays = (self._table, self._zeros, self.memory, self.elements, of.control)
        self.before.append(Call(list_begins(), arrays))
        if self._is_told:
            self.after.append(Call(list_ends(), (self._counter, of.control)))

    def begin(self, value: TensorList, rows: int, pointers: Array) -> tuple[bool, Array, Array]:
        """Returns the arguments of a run for a list.

        Args:
            value: The initial list, which `fits`.
            rows: Its capacity if it grows.
            pointers: The table of the pointers that are constant between runs.

        Returns:
            Whether any of these pointers has changed; the memory for elements, and the elements.
        """
        self._kept.clear()
        of, count = self.of, len(value)
        size = count, max(count, rows) if of.grows else count
        is_new = size != self._size
        if is_new:
            self._resize(*size, pointers)
        if of.cell is None:
            return is_new, self._length, self._length
        memory = self._nothing
        if of.is_changed:
            memory = self._reused.take((self._room, *of.cell.shape), of.cell.dtype)
        block = value.block
        if block is not None:
            elements = block if block.flags.c_contiguous else self._copy(block)
        elif value.is_unset:
            elements = self._nothing
        else:
            elements = self._rows
            elements.fill(0)
            elements[:count] = self._addresses(value)
        return is_new, memory, elements

    def _resize(self, count: int, capacity: int, pointers: Array) -> None:
        self._size = count, capacity
        self._length[...] = count
        cell = self.of.cell
        row_bytes = 0 if cell is None else cell.size_bytes
        fields = [0, count, capacity, 0, row_bytes, 0, int(self.of.grows), count]
        self._control = np.array(fields, np.int64)
        self._numbers = self._control.data  # faster to read than the array
        pointers[self.of.control] = self._control.ctypes.data
        if self.of.length is not None:
            pointers[self.of.length] = self._length.ctypes.data
        if cell is None:
            return
        self._rows = np.zeros(capacity, _ROWS)
        self._room = 1 << max(capacity - 1, 0).bit_length()  # few different sizes are allocated
        for number, array in (
            (self._table, self._rows),
            (self._zeros, self._nothing),
            (self._counter, self._written),
        ):
            pointers[number] = array.ctypes.data

    def _copy(self, array: Array) -> Array:
        """Returns a copy in C order, which lives until the next run begins."""
        self._kept.append(array.copy())
        return self._kept[-1]

    def _addresses(self, value: TensorList) -> list[int]:
        found = []
        for item in value.items:
            if item is None:
                found.append(0)
                continue
            array = item if item.flags.c_contiguous else self._copy(item)
            found.append(array.ctypes.data)
        return found

    def end(self, value: TensorList, memory: Array) -> TensorList:
        """Returns the final list; the initial one if it is not read.

        Args:
            value: The initial list.
            memory: The result of `begin`.
        """
        if not self._is_told:
            return value
        count = self._numbers[_LENGTH]
        if count and self._written.item() == count:
            return TensorList.rows_of(memory[:count])
        rows, cell = self._rows[:count].copy(), self.of.cell
        assert cell is not None
        return TensorList.made_by(
            lambda: _items(rows, memory, cell, value), count, value.dtype
        )  # often it is not read


def _items(rows: Array, memory: Array, cell: Cell, value: TensorList) -> list[Any]:
    """Returns the elements: from the loop's memory if their addresses are in it, else the old."""
    own = memory.ctypes.data + np.arange(len(rows)) * cell.size_bytes
    written = (rows == own).tolist()
    return [
        memory[place, ...] if is_written else value.items[place] if address else None
        for place, (is_written, address) in enumerate(zip(written, rows.tolist(), strict=True))
    ]


def fits(of: LoopList, value: Any, values: Sequence[Any]) -> bool:
    """Whether a loop was planned for such a list.

    Args:
        of: The list in the loop.
        value: The list.
        values: All variables.
    """
    if type(value) is not TensorList:
        return False
    for number, argument in of.lengths:
        if number is None:
            other = values[argument]
            if type(other) is not TensorList:
                return False
            number = len(other)
        if number != len(value):
            return False
    cell = of.cell
    if cell is None:
        return True
    if value.dtype != cell.dtype:
        return False
    if value.block is not None:
        block = value.block
        is_array = type(block) is np.ndarray
        return is_array and block.shape[1:] == cell.shape and block.dtype == cell.dtype
    return value.is_unset or all(item is None or _is(item, cell) for item in value.items)


def _is(array: Any, cell: Cell) -> bool:
    return isinstance(array, np.ndarray) and array.shape == cell.shape and array.dtype == cell.dtype
