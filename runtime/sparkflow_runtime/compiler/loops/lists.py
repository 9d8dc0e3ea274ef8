"""Lists of tensors among loop variables: the steps that read and write them.

In the graph every write creates a new list; here a list is changed in place, which is equivalent if
no older one is read. Written elements are rows in the loop's memory, so that reading and writing is
address arithmetic; see `running_lists`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from sparkflow_runtime import dtypes
from sparkflow_runtime.codegen.cpu.loops import UnsupportedKernel, compile_kernel
from sparkflow_runtime.codegen.cpu.repeat import Call, Clear, Look, Put, Step
from sparkflow_runtime.codegen.ir.builder import KernelBuilder
from sparkflow_runtime.compiler.known import Known
from sparkflow_runtime.compiler.loops.pointers import Cell, NotNativeError, Pointers
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ir.node import Endpoint, Node
from sparkflow_runtime.ops.list_access import Access, ListAccess

FIRST_ROWS: Final = 256
"""Initial capacity of a growing list."""
MOST_ROWS: Final = 1 << 16


@dataclass(slots=True)
class LoopList:
    """A list among the variables.

    Attributes:
        argument: The number of the variable.
        control: Number of the pointer to its `ListField` block.
        is_changed: Whether iterations change it.
        cell: The type of an element; None if none is read or written.
        grows: Whether it becomes longer.
        length: Number of the pointer to its length, an int32; None if it is not used.
        lengths: Its required length: a number, or the length of the list in that variable.
    """

    argument: int
    control: int
    is_changed: bool
    cell: Cell | None = None
    grows: bool = False
    length: int | None = None
    lengths: list[tuple[int | None, int]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Fresh:
    """A list that an iteration creates to be added to another one.

    Attributes:
        length: A number, or None; then that of the list in the variable of the second number.
        writes: Numbers of the pointers to an index and to the element there.
    """

    length: tuple[int | None, int]
    writes: tuple[tuple[int, int], ...]


class ListSteps:
    """Creates the list steps of one function of a loop.

    Args:
        pointers: The loop's pointers.
        lists: The lists by the arguments of this function; names distinguish their versions.
        known: What is known of the function's tensors.
        place: Returns the pointer to an array.
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
        """Returns the list of which this is the final version; None if it is not one."""
        found = self._versions.get(endpoint)
        if found is None or self._latest[found.argument] != endpoint:
            return None
        return found

    def steps(self, node: Node, access: ListAccess) -> tuple[list[Step], int | None]:
        """Returns the steps of a node, and the pointer to its output if that is an array.

        Raises:
            NotNativeError: The node needs Python.
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
            raise NotNativeError(f"{endpoint} is not a list of the loop, or is changed later")
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
            raise NotNativeError("the index of an element is not int32")
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
            raise NotNativeError("a list of unknown length is created")
        return None, asked.argument

    def _holds(self, of: LoopList, cell: Cell) -> None:
        if of.cell is None:
            of.cell = cell
        if of.cell != cell or not cell.size_bytes:
            raise NotNativeError("elements of a list differ, or are empty")

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
        found = self._pointers.borrow(cell)  # the row may be written before the iteration ends
        look = Look(at, source.control, found)
        return [look, self._pointers.copy(found, number)], number

    def _write(self, node: Node, made: Endpoint, access: ListAccess) -> list[Step]:
        before, index, item = node.inputs
        at, value = self._index(index), self._place(item)
        if before in self._fresh:
            fresh = self._fresh[before]
            if access.once or access.grows or fresh.writes:
                raise NotNativeError("a list is created and written to more than once")
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
            raise NotNativeError("lists are added that are not created in the iteration")
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
    """Returns a function of two arrays and their sum, which may be one of them.

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
