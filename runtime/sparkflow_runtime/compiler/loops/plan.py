"""Loops whose turns are fused kernels only: they run in machine code from first to last turn.

The variables of such a loop change over between two buffers; those that a gradient reads, and what
else it reads, go to the rows of stacks. The gradient's own loop reads these in place.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from sparkflow_runtime import dtypes
from sparkflow_runtime.codegen.cpu.repeat import MOST_ARRAYS, Call, Loop, Move, Read
from sparkflow_runtime.compiler.fusion.finish import FusedKernel
from sparkflow_runtime.compiler.known import Known
from sparkflow_runtime.compiler.plan import Unit
from sparkflow_runtime.ir.function import Function
from sparkflow_runtime.ir.node import ARG, RETVAL, Endpoint
from sparkflow_runtime.ops.kernel import StepContext

FIRST_CAPACITY: Final = 256
"""Rows of a stack before it grows, each time to twice as many."""
FIRST_TURNS: Final = 256
"""After so many turns a loop looks whether its step was cancelled."""
MOST_TURNS: Final = 4096
"""After so many it looks where turns are short."""
SHORT_S: Final = 0.005
"""Where turns took less than this in all, four times as many come next."""


class NotNativeError(Exception):
    """A loop does something that only Python can."""


class StackTape:
    """The tape of a loop: one stack per tensor, see `ops.tape`.

    Args:
        turns: How often the body ran.
        columns: Per tensor the array whose rows are its values, from the first turn on; or one
            array that is its value in every turn.
    """

    __slots__ = ("columns", "turns")

    def __init__(self, turns: int, columns: Sequence[tuple[np.ndarray[Any, Any], bool]]) -> None:
        self.turns = turns
        self.columns = columns

    def __len__(self) -> int:
        return self.turns

    def __getitem__(self, turn: int) -> tuple[Any, ...]:
        if not -self.turns <= turn < self.turns:
            raise IndexError(f"The tape has {self.turns} turns, not turn {turn}")
        turn %= self.turns
        return tuple([array[turn] if moves else array for array, moves in self.columns])


@dataclass(frozen=True, slots=True)
class LoopFunction:
    """The condition or the body of a loop, planned for the shapes of its arguments.

    Attributes:
        function: What it is.
        units: What it does.
        known: What is known of its tensors.
    """

    function: Function
    units: Sequence[Unit]
    known: Mapping[Endpoint, Known]


@dataclass(frozen=True, slots=True)
class _Cell:
    """A pointer's target: what one row or buffer holds."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def size_bytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


@dataclass(slots=True)
class _Tape:
    """How the body reads a tape that it is given: which argument, and what of it."""

    argument: int
    place: int
    target: int
    stack: int
    row_bytes: int
    rows: int


@dataclass(slots=True)
class LoopPlan:
    """A loop in machine code, for arguments of fixed shapes. For one thread at a time.

    Attributes:
        loop: The steps.
        cells: What every pointer points to; None for those that are no array of the loop's.
        arguments: Numbers of the pointers to the variables; None for tapes.
        results: Numbers of the pointers to their next values; None where they stay.
        constants: Arrays by the number of their pointers.
        taped: Numbers of the pointers whose values are recorded, None for no tape.
        tapes: Readings of tapes given as arguments.
    """

    loop: Loop
    cells: list[_Cell | None]
    arguments: list[int | None]
    results: list[int | None]
    constants: dict[int, np.ndarray[Any, Any]]
    taped: tuple[int, ...] | None
    tapes: list[_Tape]

    def run(self, step: StepContext | None, values: Sequence[Any]) -> tuple[Any, ...] | None:
        """Runs the loop.

        Args:
            step: Says whether it was cancelled; None where nobody can.
            values: The variables before the first turn.

        Returns:
            The variables after the last one, then the tape; None where the values are not what the
            plan was made for.
        """
        state = _State(self)
        if not state.begin(values):
            return None
        while not state.turn():
            if step is not None:
                step.check_cancelled()
        return state.end(values)


class _State:
    """One run of a loop."""

    def __init__(self, plan: LoopPlan) -> None:
        self.plan = plan
        self.pointers = np.zeros(len(plan.cells), np.int64)
        self.kept: list[Any] = []
        self.unchanged: dict[int, np.ndarray[Any, Any]] = {}
        self.moves: dict[int, Move] = {}
        self.stacks: dict[int, tuple[np.ndarray[Any, Any], int]] = {}
        self.buffers: dict[int, tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]] = {}
        self.turns = 0
        self.at_once = FIRST_TURNS
        self.capacity = FIRST_CAPACITY

    def begin(self, values: Sequence[Any]) -> bool:
        plan, pointers = self.plan, self.pointers
        for place, constant in plan.constants.items():
            pointers[place] = constant.ctypes.data
        recorded = set(plan.taped or ())
        for number, result, value in zip(plan.arguments, plan.results, values, strict=True):
            if number is None:
                continue
            cell = plan.cells[number]
            assert cell is not None
            array = np.asarray(value)
            if array.shape != cell.shape or array.dtype != cell.dtype:
                return False
            if result is None:
                array = array if array.flags.c_contiguous else array.copy()
                self.unchanged[number] = array
                pointers[number] = array.ctypes.data
            elif number in recorded or result in recorded:
                stack = self._new_stack(cell)
                stack[0] = array
                self._stack(number, stack, 0)
                self._stack(result, stack, 1)
            else:
                first, second = np.empty(cell.shape, cell.dtype), np.empty(cell.shape, cell.dtype)
                first[...] = array
                self.buffers[number] = (first, second)
                here, there = first.ctypes.data, second.ctypes.data
                pointers[number], pointers[result] = here, there
                self.moves[number] = Move(number, toggle=here ^ there)
                self.moves[result] = Move(result, toggle=here ^ there)
        if not self._begin_tapes(values):
            return False
        for place, cell in enumerate(plan.cells):
            if cell is None or pointers[place]:
                continue
            if place in recorded:
                self._stack(place, self._new_stack(cell), 0)
            else:
                array = np.empty(cell.shape, cell.dtype)
                self.kept.append(array)
                pointers[place] = array.ctypes.data
        return True

    def _begin_tapes(self, values: Sequence[Any]) -> bool:
        for each in self.plan.tapes:
            tape = values[each.argument]
            if not isinstance(tape, StackTape):
                return False
            array, moves = tape.columns[each.place]
            cell = self.plan.cells[each.target]
            assert cell is not None
            row = array.shape[1:] if moves else array.shape
            if row != cell.shape or array.dtype != cell.dtype or not array.flags.c_contiguous:
                return False
            self.pointers[each.stack] = self.pointers[each.target] = array.ctypes.data
            self.pointers[each.row_bytes] = cell.size_bytes if moves else 0
            self.pointers[each.rows] = len(tape)
            self.kept.append(array)
        return True

    def _new_stack(self, cell: _Cell) -> np.ndarray[Any, Any]:
        return np.empty((self.capacity + 1, *cell.shape), cell.dtype)

    def _stack(self, number: int, stack: np.ndarray[Any, Any], shift: int) -> None:
        cell = self.plan.cells[number]
        assert cell is not None
        self.stacks[number] = (stack, shift)
        self.pointers[number] = stack.ctypes.data + (self.turns + shift) * cell.size_bytes
        self.moves[number] = Move(number, add=cell.size_bytes)

    def turn(self) -> bool:
        """Runs some turns; returns whether the loop is over."""
        if self.stacks and self.turns == self.capacity:
            self._grow()
        at_once = self.at_once
        if self.stacks:
            at_once = min(at_once, self.capacity - self.turns)
        began = time.perf_counter()
        turns, is_done = self.plan.loop.run(self.pointers, list(self.moves.values()), at_once)
        self.turns += turns
        if time.perf_counter() - began < SHORT_S:
            self.at_once = min(4 * self.at_once, MOST_TURNS)
        return is_done

    def _grow(self) -> None:
        self.capacity *= 2
        larger: dict[int, np.ndarray[Any, Any]] = {}
        for number, (stack, shift) in list(self.stacks.items()):
            found = larger.get(id(stack))
            if found is None:
                found = np.empty((self.capacity + 1, *stack.shape[1:]), stack.dtype)
                found[: len(stack)] = stack
                larger[id(stack)] = found
                self.kept.append(stack)  # its id stays its own
            self._stack(number, found, shift)

    def end(self, values: Sequence[Any]) -> tuple[Any, ...]:
        plan = self.plan
        results: list[Any] = []
        for number, result, value in zip(plan.arguments, plan.results, values, strict=True):
            if number is None or result is None:
                results.append(value)
            elif number in self.stacks:
                results.append(self.stacks[number][0][self.turns].copy())
            else:
                results.append(self.buffers[number][self.turns % 2])
        if plan.taped is None:
            return (*results, [])
        return (*results, StackTape(self.turns, [self._column(each) for each in plan.taped]))

    def _column(self, number: int) -> tuple[np.ndarray[Any, Any], bool]:
        if number in self.stacks:
            stack, shift = self.stacks[number]
            return stack[shift : shift + self.turns], True
        if number in self.plan.constants:
            return self.plan.constants[number], False
        return self.unchanged[number], False


def plan_loop(
    condition: LoopFunction,
    body: LoopFunction,
    bind: Callable[[FusedKernel], Callable[..., bool]],
    taped_places: Callable[[str], Sequence[str]],
) -> LoopPlan:
    """A loop in machine code.

    Args:
        condition: What tells whether there is another turn.
        body: The turn.
        bind: Binds a kernel, in one part.
        taped_places: What the function of a name records, see `ops.kernel.FunctionTable`.

    Raises:
        NotNativeError: A turn is more than fused kernels, or a shape changes.
    """
    return _Planner(bind, taped_places).plan(condition, body)


class _Planner:
    def __init__(
        self,
        bind: Callable[[FusedKernel], Callable[..., bool]],
        taped_places: Callable[[str], Sequence[str]],
    ) -> None:
        self.bind = bind
        self.taped_places = taped_places
        self.cells: list[_Cell | None] = []
        self.constants: dict[int, np.ndarray[Any, Any]] = {}
        self.arguments: list[int | None] = []
        self.tapes: list[_Tape] = []

    def plan(self, condition: LoopFunction, body: LoopFunction) -> LoopPlan:
        for node in body.function.args:
            known = body.known[Endpoint(node.name, 0)]
            is_tape = known.dtype is dtypes.variant
            self.arguments.append(None if is_tape else self._new(known))
        places: dict[Endpoint, int] = {}
        steps = self._steps(body, places)
        found = [self._place(body, places, node.inputs[0]) for node in body.function.results]
        count = len(self.arguments)
        results = self._results(found[:count])
        taped = None
        if body.function.taped is not None:
            taped = tuple(self._recorded(each) for each in found[count:])
        asked: dict[Endpoint, int] = {}
        asking = self._steps(condition, asked)
        (answer,) = condition.function.results
        flag = self._place(condition, asked, answer.inputs[0])
        cell = None if flag is None else self.cells[flag]
        if flag is None or cell is None or cell.shape != () or cell.dtype != np.bool_:
            raise NotNativeError("the condition is not one truth value")
        loop = Loop(asking, steps, flag)
        return LoopPlan(
            loop, self.cells, self.arguments, results, self.constants, taped, self.tapes
        )

    def _new(self, known: Known) -> int:
        shape = known.full_shape
        if shape is None or known.dtype.is_ref or known.dtype not in dtypes.PLAIN:
            raise NotNativeError("a tensor has no known shape, or is no array")
        self.cells.append(_Cell(shape, np.dtype(known.dtype.as_numpy_dtype)))
        return len(self.cells) - 1

    def _number(self) -> int:
        self.cells.append(None)
        return len(self.cells) - 1

    def _place(
        self, function: LoopFunction, places: Mapping[Endpoint, int], endpoint: Endpoint
    ) -> int | None:
        """The pointer to a tensor of a function; None for a tape."""
        if endpoint in places:
            return places[endpoint]
        node = function.function.body[endpoint.node]
        if node.op == ARG:
            index: int = node.attrs["index"]
            return self.arguments[index]
        known = function.known[endpoint]
        if known.value is None:
            raise NotNativeError(f"{endpoint} is made by Python")
        number = self._new(known)
        self.constants[number] = np.array(known.value, order="C")
        return number

    def _steps(self, function: LoopFunction, places: dict[Endpoint, int]) -> list[Call | Read]:
        steps: list[Call | Read] = []
        for unit in function.units:
            if unit.fused is not None:
                steps += self._call(function, places, unit.fused)
            elif unit.node.op == "_TapeRead":
                steps += self._read(function, places, unit)
            elif unit.node.op not in (ARG, RETVAL):
                raise NotNativeError(f"{unit.node.op} is Python's")
        return steps

    def _call(
        self, function: LoopFunction, places: dict[Endpoint, int], fused: FusedKernel
    ) -> list[Call | Read]:
        if fused.checks or any(output.divisor is not None for output in fused.outputs):
            raise NotNativeError("something is left to do when a kernel has run")
        arrays = [self._array(function, places, endpoint) for endpoint in fused.inputs]
        for endpoint, source in fused.copies.items():
            places[endpoint] = self._array(function, places, source)
        for output in fused.outputs:
            number = self._new(function.known[output.endpoints[0]])
            arrays.append(number)
            places.update(dict.fromkeys(output.endpoints, number))
        if len(arrays) > MOST_ARRAYS:
            raise NotNativeError("a kernel has too many arrays")
        return [Call(self.bind(fused), tuple(arrays))] if fused.kernel.outputs else []

    def _array(
        self, function: LoopFunction, places: Mapping[Endpoint, int], endpoint: Endpoint
    ) -> int:
        number = self._place(function, places, endpoint)
        assert number is not None  # kernels read no tapes
        return number

    def _read(
        self, function: LoopFunction, places: dict[Endpoint, int], unit: Unit
    ) -> list[Call | Read]:
        tape, index = unit.node.inputs
        source = function.function.body[tape.node]
        at = self._place(function, places, index)
        if source.op != ARG or at is None:
            raise NotNativeError("a tape is made in the loop")
        recorded = self.taped_places(unit.node.attrs["function"])
        steps: list[Call | Read] = []
        for slot, name in enumerate(unit.node.attrs["names"]):
            endpoint = Endpoint(unit.node.name, slot)
            target = places[endpoint] = self._new(function.known[endpoint])
            stack, row_bytes, rows = self._number(), self._number(), self._number()
            place = list(recorded).index(name)
            self.tapes.append(_Tape(source.attrs["index"], place, target, stack, row_bytes, rows))
            steps.append(Read(at, stack, row_bytes, rows, target))
        return steps

    def _results(self, found: Sequence[int | None]) -> list[int | None]:
        results: list[int | None] = []
        taken = {*self.arguments, *self.constants, *(each.target for each in self.tapes)}
        for argument, result in zip(self.arguments, found, strict=True):
            if argument == result:
                results.append(None)
                continue
            if argument is None or result is None or result in taken:
                raise NotNativeError("a variable becomes another one")
            if self.cells[argument] != self.cells[result]:
                raise NotNativeError("a variable changes its shape")
            taken.add(result)
            results.append(result)
        return results

    def _recorded(self, number: int | None) -> int:
        if number is None or any(number == each.target for each in self.tapes):
            raise NotNativeError("what was read from a tape is recorded")
        return number
