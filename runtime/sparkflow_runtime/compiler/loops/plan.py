"""A loop in machine code: its memory, and how it runs from first to last turn.

The variables of such a loop change over between two buffers; those that a gradient reads, and what
else it reads, go to the rows of stacks. The gradient's own loop reads these in place.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from sparkflow_runtime.codegen.cpu.repeat import Loop, Move, RefusedError
from sparkflow_runtime.compiler.loops.lists import (
    FIRST_ROWS,
    MOST_ROWS,
    LoopList,
    RunningList,
    fits,
)
from sparkflow_runtime.compiler.loops.pointers import Cell
from sparkflow_runtime.ops.kernel import StepContext

FIRST_CAPACITY: Final = 256
"""Rows of a stack before it grows, each time to twice as many."""
FIRST_TURNS: Final = 256
"""After so many turns a loop looks whether its step was cancelled."""
FIRST_S: Final = 0.02
"""After fewer where they seem to take longer than this."""
MOST_TURNS: Final = 4096
"""After so many it looks where turns are short."""
SHORT_S: Final = 0.005
"""Where turns took less than this in all, four times as many come next."""


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


@dataclass(slots=True)
class TapeReading:
    """How the body reads a tape that it is given: which argument, and what of it."""

    argument: int
    place: int
    target: int
    stack: int
    row_bytes: int
    rows: int


class Memory:
    """Arrays that runs of a loop write to, used again when nobody has them any more.

    New ones would be given by the system page after page, which takes longer than many a turn.
    """

    def __init__(self) -> None:
        self._arrays: dict[tuple[tuple[int, ...], np.dtype[Any]], list[np.ndarray[Any, Any]]] = {}
        self._taken: Counter[tuple[tuple[int, ...], np.dtype[Any]]] = Counter()

    def begin(self) -> None:
        """A run begins."""
        self._taken.clear()

    def take(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
        """An array with any contents that nobody else has or has a view of."""
        self._taken[shape, dtype] += 1
        arrays = self._arrays.setdefault((shape, dtype), [])
        for place in range(len(arrays)):
            if sys.getrefcount(arrays[place]) == _ONLY_HERE:
                return arrays[place]
        made = np.empty(shape, dtype)
        if len(arrays) < 2 * self._taken[shape, dtype]:  # for what is kept until the next run ends
            arrays.append(made)
        return made


def _references() -> int:
    arrays = [np.empty(0)]
    return sys.getrefcount(arrays[0])


_ONLY_HERE: Final = _references()
"""What is counted for an array that only a list has."""


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
        lists: The lists among the variables that are read or written.
        borrowed: Numbers of the pointers that steps set.
        turn_s: About how long a turn takes.
        memory: What runs write to.
        list_rows: How many elements a list that grows has room for.
    """

    loop: Loop
    cells: list[Cell | None]
    arguments: list[int | None]
    results: list[int | None]
    constants: dict[int, np.ndarray[Any, Any]]
    taped: tuple[int, ...] | None
    tapes: list[TapeReading]
    lists: list[LoopList]
    borrowed: set[int]
    turn_s: float = 0.0
    memory: Memory = field(default_factory=Memory)
    list_rows: int = FIRST_ROWS

    def run(self, step: StepContext | None, values: Sequence[Any]) -> tuple[Any, ...] | None:
        """Runs the loop.

        Args:
            step: Says whether it was cancelled; None where nobody can.
            values: The variables before the first turn.

        Returns:
            The variables after the last one, then the tape; None where the values are not what the
            plan was made for, and where Python is to say what is wrong with them.
        """
        self.memory.begin()
        state = _State(self)
        if not state.begin(values):
            return None
        try:
            while not state.turn():
                if step is not None:
                    step.check_cancelled()
        except RefusedError as error:  # a turn has no effects: all of them can be done again
            if error.is_full:
                self.list_rows = min(2 * self.list_rows, MOST_ROWS)
            return None
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
        self.lists: dict[int, RunningList] = {}
        self.turns = 0
        self.at_once = FIRST_TURNS
        if plan.turn_s:
            self.at_once = max(1, min(FIRST_TURNS, int(FIRST_S / plan.turn_s)))
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
                first = self._new(cell)
                self.kept.append(first)
                second = self._new(cell)
                first[...] = array
                self.buffers[number] = (first, second)
                here, there = first.ctypes.data, second.ctypes.data
                pointers[number], pointers[result] = here, there
                self.moves[number] = Move(number, toggle=here ^ there)
                self.moves[result] = Move(result, toggle=here ^ there)
        if not self._begin_tapes(values) or not self._begin_lists(values):
            return False
        for place, cell in enumerate(plan.cells):
            if cell is None or pointers[place] or place in plan.borrowed:
                continue
            if place in recorded:
                self._stack(place, self._new_stack(cell), 0)
            else:
                array = self._new(cell)
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

    def _begin_lists(self, values: Sequence[Any]) -> bool:
        plan, pointers = self.plan, self.pointers
        for each in plan.lists:
            value = values[each.argument]
            if not fits(each, value, values):
                return False
            zeros = None if each.cell is None else np.zeros(each.cell.shape, each.cell.dtype)
            running = RunningList(each, value, plan.list_rows, plan.memory.take, zeros)
            self.lists[each.argument] = running
            pointers[each.control] = running.control.ctypes.data
            if each.length is not None:
                pointers[each.length] = running.length.ctypes.data
        return True

    def _new(self, cell: Cell) -> np.ndarray[Any, Any]:
        return self.plan.memory.take(cell.shape, cell.dtype)

    def _new_stack(self, cell: Cell) -> np.ndarray[Any, Any]:
        stack = self.plan.memory.take((self.capacity + 1, *cell.shape), cell.dtype)
        self.kept.append(stack)
        return stack

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
                cell = self.plan.cells[number]
                assert cell is not None
                found = self._new_stack(cell)
                found[: len(stack)] = stack
                larger[id(stack)] = found
            self._stack(number, found, shift)

    def end(self, values: Sequence[Any]) -> tuple[Any, ...]:
        plan = self.plan
        results: list[Any] = []
        each = zip(plan.arguments, plan.results, values, strict=True)
        for argument, (number, result, value) in enumerate(each):
            if argument in self.lists:
                results.append(self.lists[argument].end())
            elif number is None or result is None:
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
