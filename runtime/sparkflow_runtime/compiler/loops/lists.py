"""Lists of tensors among the variables of a loop: the steps that read and write them, their memory.

The graph has a new list for everything that is written; here a list is changed in place, which is
the same as long as nobody reads an older one. What is written lies in memory of the loop, row after
row, so that reading and writing is a matter of addresses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from sparkflow_runtime import dtypes
from sparkflow_runtime.codegen.cpu.addresses import list_begins, list_ends
from sparkflow_runtime.codegen.cpu.loops import UnsupportedKernel, compile_kernel
from sparkflow_runtime.codegen.cpu.repeat import Call, Clear, Look, Put, Step
from sparkflow_runtime.codegen.cpu.repeat_ir import ListField
from sparkflow_runtime.codegen.ir.builder import KernelBuilder
from sparkflow_runtime.compiler.known import Known
from sparkflow_runtime.compiler.loops.pointers import Cell, NotNativeError, Pointers
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ir.node import Endpoint, Node
from sparkflow_runtime.ops.list_access import Access, ListAccess
from sparkflow_runtime.ops.lists.tensor_list import TensorList

FIRST_ROWS: Final = 256
"""So many elements a list that grows has room for at first."""
MOST_ROWS: Final = 1 << 16

Take = Callable[[tuple[int, ...], np.dtype[Any]], np.ndarray[Any, Any]]
"""Gives memory."""
_ROWS: Final = np.dtype(np.int64)


@dataclass(slots=True)
class LoopList:
    """A list among the variables.

    Attributes:
        argument: Which variable it is.
        control: Number of the pointer to its `ListField` block.
        is_changed: Whether turns change it.
        cell: What an element is; None where none is read or written.
        grows: Whether it becomes longer.
        length: Number of the pointer to its length, an int32; None where nobody asks.
        lengths: What its length must be: a number, or that of the list which is that variable.
        tables: By length and capacity, the control block and the table of addresses of the last
            run: runs of a plan follow each other.
    """

    argument: int
    control: int
    is_changed: bool
    cell: Cell | None = None
    grows: bool = False
    length: int | None = None
    lengths: list[tuple[int | None, int]] = field(default_factory=list)
    tables: dict[tuple[int, int], tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]] = field(
        default_factory=dict
    )


@dataclass(frozen=True, slots=True)
class _Fresh:
    """A list that a turn makes to be added to another one.

    Attributes:
        length: A number, or None; then the list which is the variable of the second number.
        writes: Numbers of the pointers to an index and to the element there.
    """

    length: tuple[int | None, int]
    writes: tuple[tuple[int, int], ...]


class ListSteps:
    """Makes the steps of one function of a loop that have to do with lists.

    Args:
        pointers: Of the loop.
        lists: The lists by the arguments of this function; their versions are told apart by name.
        known: What is known of the function's tensors.
        place: Gives the pointer to an array.
        may_change: Whether lists may be written to.
    """

    def __init__(
        self,
        pointers: Pointers,
        lists: Mapping[Endpoint, LoopList],
        known: Mapping[Endpoint, Known],
        place: Callable[[Endpoint], int],
        may_change: bool,
    ) -> None:
        self._may_change = may_change
        self._pointers = pointers
        self._versions = dict(lists)
        self._latest = {each.argument: endpoint for endpoint, each in lists.items()}
        self._fresh: dict[Endpoint, _Fresh] = {}
        self._asked: dict[int, LoopList] = {}
        self._known = known
        self._place = place

    def list_at_end(self, endpoint: Endpoint) -> LoopList | None:
        """The list that this is in the end; None where it is none, or an older one."""
        found = self._versions.get(endpoint)
        if found is None or self._latest[found.argument] != endpoint:
            return None
        return found

    def steps(self, node: Node, access: ListAccess) -> tuple[list[Step], int | None]:
        """The steps of a node, and the pointer to its output, where that is an array.

        Raises:
            NotNativeError: What the node does is left to Python.
        """
        made = Endpoint(node.name, 0)
        match access.access:
            case Access.LENGTH:
                return [], self._length(self._current(node.inputs[0]))
            case Access.NEW:
                self._fresh[made] = _Fresh(self._new_length(node.inputs[1]), ())
                return [], None
            case Access.READ:
                return self._read(self._current(node.inputs[0]), node.inputs[1], made)
            case Access.WRITE:
                return self._write(node, made, access), None
            case Access.CLEAR:
                changed = self._change(node.inputs[0], made)
                return [Clear(self._index(node.inputs[1]), changed.control)], None
            case Access.SUM:
                return self._sum(node, made), None

    def _current(self, endpoint: Endpoint) -> LoopList:
        found = self.list_at_end(endpoint)
        if found is None:
            raise NotNativeError(f"{endpoint} is no list of the loop, or is changed later on")
        return found

    def _change(self, before: Endpoint, after: Endpoint) -> LoopList:
        found = self._current(before)
        if not self._may_change:
            raise NotNativeError("a condition changes a list")
        self._versions[after] = found
        self._latest[found.argument] = after
        return found

    def _index(self, endpoint: Endpoint) -> int:
        number = self._place(endpoint)
        if self._pointers.cell(number) != Cell((), np.dtype(np.int32)):
            raise NotNativeError("the number of an element is no int32")
        return number

    def _length(self, asked: LoopList) -> int:
        if asked.length is None:
            asked.length = self._pointers.borrow(Cell((), np.dtype(np.int32)))
        self._asked[asked.length] = asked
        return asked.length

    def _new_length(self, endpoint: Endpoint) -> tuple[int | None, int]:
        known = self._known[endpoint].value
        if known is not None:
            return int(known), 0
        asked = self._asked.get(self._place(endpoint))
        if asked is None:
            raise NotNativeError("a list is made whose length nobody knows")
        return None, asked.argument

    def _holds(self, of: LoopList, cell: Cell) -> None:
        if of.cell is None:
            of.cell = cell
        if of.cell != cell or not cell.size_bytes:
            raise NotNativeError("elements of a list differ, or are nothing")

    def _read(
        self, source: LoopList, index: Endpoint, made: Endpoint
    ) -> tuple[list[Step], int | None]:
        number = self._pointers.new(self._known[made])
        cell = self._pointers.cell(number)
        self._holds(source, cell)
        at = self._index(index)
        if not source.is_changed:
            self._pointers.borrowed.add(number)
            return [Look(at, source.control, number)], number
        found = self._pointers.borrow(cell)  # the row may be written before the turn ends
        look = Look(at, source.control, found)
        return [look, self._pointers.copy(found, number)], number

    def _write(self, node: Node, made: Endpoint, access: ListAccess) -> list[Step]:
        before, index, item = node.inputs
        at, value = self._index(index), self._place(item)
        if before in self._fresh:
            fresh = self._fresh[before]
            if access.once or access.grows or fresh.writes:
                raise NotNativeError("a list is made and written to more than once")
            self._fresh[made] = _Fresh(fresh.length, ((at, value),))
            return []
        target = self._change(before, made)
        target.grows |= access.grows
        cell = self._pointers.cell(value)
        self._holds(target, cell)
        row = self._pointers.borrow(cell)
        return [Put(at, target.control, row, access.once), self._pointers.copy(value, row)]

    def _sum(self, node: Node, made: Endpoint) -> list[Step]:
        totals = [each for each in node.inputs if each in self._versions]
        added = [self._fresh[each] for each in node.inputs if each in self._fresh]
        if len(totals) + len(added) != len(node.inputs) or not added or len(totals) > 1:
            raise NotNativeError("lists are added that are not made in the turn")
        writes = tuple(write for each in added for write in each.writes)
        lengths = {each.length for each in added}
        if not totals:
            if len(lengths) > 1:
                raise NotNativeError("lists of different lengths are added")
            self._fresh[made] = _Fresh(added[0].length, writes)
            return []
        total = self._change(totals[0], made)
        total.lengths += sorted(lengths, key=str)
        steps: list[Step] = []
        for at, value in writes:
            cell = self._pointers.cell(value)
            self._holds(total, cell)
            old, row = self._pointers.borrow(cell), self._pointers.borrow(cell)
            steps += [Look(at, total.control, old), Put(at, total.control, row)]
            steps.append(Call(addition(cell), (old, value, row)))
        return steps


def addition(cell: Cell) -> Callable[..., bool]:
    """A function of two arrays and their sum, which may be one of them.

    Raises:
        NotNativeError: Their elements cannot be added.
    """
    size = cell.size_bytes // cell.dtype.itemsize
    builder = KernelBuilder(1)
    dtype = dtypes.as_dtype(cell.dtype)
    try:
        one, other = (builder.input(dtype, (True,)) for _ in range(2))
        builder.output(builder.call("add", one, other))
        return compile_kernel(builder.build()).bind((size,))
    except (UnsupportedKernel, InvalidArgumentError) as error:
        raise NotNativeError("elements of a list cannot be added") from error


class RunningList:
    """A list while a loop runs.

    Args:
        of: What it is in the loop.
        value: The list before the first turn, which `fits`.
        rows: How many elements there is room for if it grows.
        take: Gives memory.
        zeros: What is read where nothing is set.
    """

    def __init__(
        self,
        of: LoopList,
        value: TensorList,
        rows: int,
        take: Take,
        zeros: np.ndarray[Any, Any] | None,
    ) -> None:
        self._of = of
        self._value = value
        self._rows: np.ndarray[Any, Any]
        count = len(value)
        if of.length is not None:
            self.length = np.array(count, np.int32)
        cell = of.cell
        if cell is None:
            self.control = np.array([0, count, 0, 0, 0, 0, 0], np.int64)
            return
        capacity = max(count, rows) if of.grows else count
        tables = of.tables.get((count, capacity))
        if tables is None:
            control = np.array([0, count, capacity, 0, cell.size_bytes, 0, of.grows], np.int64)
            of.tables.clear()  # one is enough: where lengths change, nothing is lost
            of.tables[count, capacity] = tables = control, np.zeros(capacity, _ROWS)
        else:
            tables[0][ListField.LENGTH] = count
            tables[1].fill(0)
        self.control, self._rows = tables
        self._memory = self._rows
        if of.is_changed:
            room = 1 << max(capacity - 1, 0).bit_length()  # few sizes of memory are asked for
            self._memory = take((room, *cell.shape), cell.dtype)
        block = value.block
        self._block = block if block is not None and block.flags.c_contiguous else self._memory
        is_known = list_begins()(self._rows, zeros, self._memory, self._block, self.control)
        assert is_known, "arrays are numpy's"
        if self._block is self._memory and not value.is_unset:
            self._rows[:count] = self._addresses(value)

    def _addresses(self, value: TensorList) -> list[int]:
        self._kept: list[Any] = []
        found = []
        for item in value.items:
            if item is None:
                found.append(0)
                continue
            array = item if item.flags.c_contiguous else item.copy()
            self._kept.append(array)
            found.append(array.ctypes.data)
        return found

    def end(self) -> TensorList:
        """The list after the last turn."""
        if not self._of.is_changed or self._of.cell is None:
            return self._value
        count, memory = int(self.control[ListField.LENGTH]), self._memory
        written = np.empty((), np.int64)
        list_ends()(written, self.control)
        if count and written == count:
            return TensorList.rows_of(memory[:count])
        rows, value = self._rows[:count].copy(), self._value
        start, row_bytes = int(self.control[ListField.MEMORY]), self._of.cell.size_bytes

        def items() -> list[Any]:
            own = start + np.arange(count) * row_bytes
            written = (rows == own).tolist()
            return [
                memory[place, ...] if is_written else value.items[place] if address else None
                for place, (is_written, address) in enumerate(
                    zip(written, rows.tolist(), strict=True)
                )
            ]

        return TensorList.made_by(items, count, value.dtype)  # often nobody reads it


def fits(of: LoopList, value: Any, values: Sequence[Any]) -> bool:
    """Whether a list is what a loop was planned for.

    Args:
        of: What it is in the loop.
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
