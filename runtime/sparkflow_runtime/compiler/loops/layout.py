"""The run-independent part of a loop: its memory, the pointers to it, and how they move.

Before the first iteration, machine code sets pointers to a run's arguments and copies the variables
to where iterations change them; after the last one it copies them to the run's results. So in
Python a run only looks up its arrays (`plan`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np

from sparkflow_runtime.codegen.cpu.copies import ZEROS, Pieces, bind_copies
from sparkflow_runtime.codegen.cpu.repeat import Beginning, Call, Given, Move, Program
from sparkflow_runtime.codegen.machine import scratch
from sparkflow_runtime.compiler.loops.accumulators import KeptFactors
from sparkflow_runtime.compiler.loops.memory import Stacks
from sparkflow_runtime.compiler.loops.planned_loop import PlannedLoop
from sparkflow_runtime.compiler.loops.pointers import Cell
from sparkflow_runtime.compiler.loops.running_lists import RunningList
from sparkflow_runtime.compiler.loops.tapes import (
    KnownTape,
    StackTape,
    TapeReading,
    number_at,
    numbers_of,
)

Array = np.ndarray[Any, Any]
FIRST_TURNS: Final = 256
"""Number of iterations between checks for cancellation."""
FIRST_OUTER_TURNS: Final = 8
"""The same for iterations with inner loops."""
FIRST_S: Final = 0.02
"""Checks are more frequent if they would otherwise be further apart than this."""
_MOST_TABLES: Final = 16
"""Maximum number of cached pointer tables: one per pair of stacks that runs write to and read."""


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable that is an array.

    Attributes:
        position: Its index among all variables.
        number: The number of its pointer.
        cell: Its shape and dtype.
        given: Number of the pointer to its initial value; its own pointer if it never changes, None
            if the value is the same in every run.
        changes: Whether iterations change it.
        result: Number of the pointer to its final value; its own pointer if iterations change it
            there, None if it never changes or is not read.
    """

    position: int
    number: int
    cell: Cell
    given: int | None
    changes: bool = True
    result: int | None = None


@dataclass(frozen=True, slots=True)
class Beginnings:
    """The start of runs whose tapes have the same makers.

    Its arguments are the variables, arrays for those that change, the loop-invariant arrays of
    tapes, and per list its memory and its elements.

    Attributes:
        program: The steps.
        begin: See `Program.begin`.
        packed: Numbers of the pointers to factors that are packed.
    """

    program: Program
    begin: Beginning
    packed: frozenset[int]


class Layout:
    """The run-independent part of a plan.

    Attributes:
        pointers: Addresses of the plan's own memory.
        current: The pointers of the current run.
        variables: The variables that are arrays.
        given: Those of them that runs receive as arguments.
        results: Per variable that changes and is read its position and the function that creates
            its array.
        growing: Indices in `results` of the variables that iterations add to, by their pointers.
        stacks: The rows of each, the pointers to its rows and their offsets in rows.
        kept: The factors that are kept; None for none.
        lists: The lists.
        tapes: Per tape what is read of it.
        first_turns: The number of iterations before the first check for cancellation.
    """

    def __init__(self, plan: PlannedLoop) -> None:
        self._plan = plan
        self._count = len(plan.cells)
        self._fixed: dict[int, Array] = dict(plan.constants)
        self._before: list[Call] = []
        self._after: list[Call] = []
        self._on_stack: dict[int, tuple[int, int]] = {}
        self._moves: list[Move] = []
        self.variables: list[Variable] = []
        self.stacks: list[tuple[Cell, tuple[tuple[int, int], ...]]] = []
        self._place_variables()
        self.cells = [cell for cell, _ in self.stacks]
        self.results: list[tuple[int, Callable[[], Array]]] = [
            (each.position, partial(np.empty, each.cell.shape, each.cell.dtype))
            for each in self.variables
            if each.result is not None
        ]
        self.given = [each for each in self.variables if each.given is not None]
        changing = [each.number for each in self.variables if each.result is not None]
        self.growing = {number: changing.index(number) for number in plan.growing}
        self.kept = self._keep() if plan.kept else None
        for packing in plan.packings:
            self._lines(packing.target)
        self.lists: list[RunningList] = []
        for each in plan.lists:
            is_read = each.argument not in plan.ends.unread
            running = RunningList(each, self._new_pointers(RunningList.POINTERS), is_read)
            self._before += running.before
            self._after += running.after
            self.lists.append(running)
        self.tapes: list[list[TapeReading]] = [
            [each for each in plan.tapes if each.argument == argument]
            for argument in sorted({each.argument for each in plan.tapes})
        ]
        self.first_turns = _first_turns(plan)
        self.pointers = np.zeros(self._count, np.int64)
        for number, array in self._fixed.items():
            self.pointers[number] = array.ctypes.data
        self.current = np.empty_like(self.pointers)
        self._known: list[KnownTape | None] = [None] * len(self.tapes)
        self._beginnings: Beginnings | None = None
        self._tables: dict[Any, Array] = {}

    def _place_variables(self) -> None:
        plan = self._plan
        recorded = set(numbers_of(plan.taped))
        settled = {*plan.constants, *plan.borrowed}
        settled |= {each.target for each in plan.packings}
        settled |= {number for each in plan.kept for number in (each.left, each.right)}
        settled.update(plan.overwriting.values())
        for position, (number, result) in enumerate(zip(plan.arguments, plan.results, strict=True)):
            if number is None:
                continue
            cell = self.cell(number)
            settled.add(number)
            if number in plan.growing:
                self._add_variable(position, number, result=number)
            elif result is None:
                self._add_steady(position, number)
            else:
                settled.add(result)
                is_read = position not in plan.ends.unread
                if number in plan.overwriting:
                    self._add_overwritten(position, number, is_read)
                    continue
                self._add_variable(position, number, self._new_pointers(1) if is_read else None)
                if number in recorded or result in recorded:
                    self._stack(cell, (number, 0), (result, 1))
                    continue
                self._memory(number, cell)
                self._memory(result, cell)
                toggle = self._fixed[number].ctypes.data ^ self._fixed[result].ctypes.data
                self._moves += [Move(number, toggle=toggle), Move(result, toggle=toggle)]
        for place, found in enumerate(plan.cells):
            if found is not None and place not in settled:
                if place in recorded:
                    self._stack(found, (place, 0))
                else:
                    self._memory(place, found)
        for number, result in plan.overwriting.items():
            if number in self._fixed:
                self._fixed[result] = self._fixed[number]

    def _add_steady(self, position: int, number: int) -> None:
        """Adds a variable that never changes."""
        start = self._plan.ends.starts.get(position)
        if start is not None:
            self._fixed[number] = np.array(start, order="C")
        given = number if start is None else None
        self.variables.append(Variable(position, number, self.cell(number), given, changes=False))

    def _add_overwritten(self, position: int, number: int, is_read: bool) -> None:
        """Adds a variable that changes in place: in the run's result, if there is one."""
        self._add_variable(position, number, number if is_read else None)
        if not is_read:
            self._memory(number, self.cell(number))

    def _add_variable(self, position: int, number: int, result: int | None) -> None:
        """Adds a variable that changes; it is copied before the first iteration and at the end."""
        cell, start = self.cell(number), self._plan.ends.starts.get(position)
        copy = bind_copies([Pieces(0, 0, 0, cell.size_bytes)], 1)
        source = self._new_pointers(1)
        if start is None:
            self._before.append(Call(copy, (source, number)))
        elif np.array(start, order="C").tobytes().strip(b"\0"):
            self._fixed[source] = np.array(start, order="C")
            self._before.append(Call(copy, (source, number)))
        else:
            clear = bind_copies([Pieces(ZEROS, 0, 0, cell.size_bytes)], 0)
            self._before.append(Call(clear, (number,)))
        given = source if start is None else None
        self.variables.append(Variable(position, number, cell, given, result=result))
        if result is not None and result != number:
            self._after.append(Call(copy, (number, result)))

    def _new_pointers(self, count: int) -> int:
        """Reserves pointers that no iteration uses; returns the number of the first."""
        self._count += count
        return self._count - count

    def _memory(self, number: int, cell: Cell) -> None:
        self._fixed[number] = np.empty(cell.shape, cell.dtype)

    def _lines(self, number: int) -> None:
        """Allocates memory aligned to cache lines, as all of it is read in whole vectors."""
        cell = self.cell(number)
        self._fixed[number] = scratch.aligned(cell.size_bytes).view(cell.dtype)

    def _keep(self) -> KeptFactors:
        kept = KeptFactors(self._plan.kept, self._plan.cells)
        for number, window in kept.windows.items():
            self._fixed[number] = window
            self._moves.append(Move(number, add=self.cell(number).size_bytes))
        self._windows = np.array([*kept.windows])
        return kept

    def _stack(self, cell: Cell, *shifted: tuple[int, int]) -> None:
        """Adds a stack; `shifted` maps pointers to its rows to their offsets in rows."""
        self.stacks.append((cell, shifted))
        for number, shift in shifted:
            self._on_stack[number] = (len(self.stacks) - 1, shift)
            self._moves.append(Move(number, add=cell.size_bytes))

    def cell(self, number: int) -> Cell:
        """What a pointer to an array points to."""
        cell = self._plan.cells[number]
        assert cell is not None
        return cell

    def number_of(self, path: Sequence[tuple[str, int]]) -> int:
        """See `tapes.Maker`."""
        assert self._plan.taped is not None
        return number_at(self._plan.taped, path)

    def place_of(self, number: int) -> tuple[int, int] | None:
        """See `tapes.Maker`."""
        found = self.on_stack(number)
        return None if found is None else (found[0], found[1] * self.cell(number).size_bytes)

    def on_stack(self, number: int) -> tuple[int, int] | None:
        """Returns the stack with the values of a pointer, and their offset in rows."""
        return self._on_stack.get(number)

    def fixed(self, number: int) -> Array:
        """Returns the plan's array that is the constant target of a pointer."""
        return self._fixed[number]

    def point_to_stacks(self, pointers: Array, stacks: Stacks, turns: int) -> None:
        """Sets the pointers to stack rows to the position after some iterations."""
        for address, (cell, shifted) in zip(stacks.addresses.tolist(), self.stacks, strict=True):
            for number, shift in shifted:
                pointers[number] = address + (turns + shift) * cell.size_bytes

    def point_to_windows(self, pointers: Array) -> None:
        """Resets the pointers to kept factors to the first iteration."""
        pointers[self._windows] = self.pointers[self._windows]

    def lists_changed(self) -> None:
        """Records that `pointers` has changed."""
        self._tables.clear()

    def table(self, stacks: Stacks, tapes: Sequence[StackTape]) -> Array:
        """Returns the initial pointers, except those to a run's arguments.

        Args:
            stacks: The stacks that the run writes to.
            tapes: The tapes that it reads, each of the known maker.
        """
        if not tapes and not self.stacks:
            return self.pointers
        key = (stacks.place, *(each.place for each in tapes))
        found = self._tables.get(key)
        if found is None:
            found = self.pointers.copy()
            self.point_to_stacks(found, stacks, 0)
            for known, tape in zip(self._known, tapes, strict=True):
                assert known is not None
                known.point(found, tape)
            if len(self._tables) >= _MOST_TABLES:
                self._tables.clear()
            self._tables[key] = found
        return found

    def know(self, values: Sequence[Any]) -> list[StackTape] | None:
        """Returns the tapes among a run's arguments; None if one cannot be read.

        Args:
            values: All variables.
        """
        tapes: list[StackTape] = []
        for place, readings in enumerate(self.tapes):
            tape = values[readings[0].argument]
            if not isinstance(tape, StackTape) or tape.recording is None:
                return None
            known, maker = self._known[place], tape.recording.maker
            if known is None or known.maker is not maker:
                known = KnownTape(maker, readings)
                if not known.fits(self.cell):
                    return None
                self._known[place], self._beginnings = known, None
                self._tables.clear()
            tapes.append(tape)
        return tapes

    def steady(self, tapes: Sequence[StackTape]) -> dict[int, Array]:
        """Returns the loop-invariant arrays of tapes, by pointer."""
        return {
            reading.target: tape.recording.rows(number)[0]
            for known, tape in zip(self._known, tapes, strict=True)
            if known is not None and tape.recording is not None
            for reading, number in known.steady
        }

    @property
    def beginnings(self) -> Beginnings:
        """Returns the start of runs with tapes of the known makers."""
        if self._beginnings is None:
            self._beginnings = self._make_beginnings()
        return self._beginnings

    def _make_beginnings(self) -> Beginnings:
        plan = self._plan
        steady = [
            reading for known in self._known if known is not None for reading, _ in known.steady
        ]
        given = [
            Given([(n, 0)], each.cell.elements)
            for each in self.given
            if (n := each.given) is not None
        ]
        for each in self.variables:
            if each.result is not None:
                following = plan.overwriting.get(each.number, each.result)
                given.append(Given([(n, 0) for n in {each.result, following}]))
        given += [Given([(each.stack, 0), (each.target, 0)]) for each in steady]
        given += [Given([(n, 0)]) for each in self.lists for n in (each.memory, each.elements)]
        stay = {each.number for each in self.variables if not each.changes}
        stay.update(plan.constants, (each.target for each in steady))
        packings = [each for each in plan.packings if each.source in stay]
        before = [Call(each.kernel, (each.source, each.target)) for each in packings]
        packed = {each.target for each in packings}
        loop = plan.steps.loop(packed, [*self._before, *before], self._after)
        program = loop.program(self._moves)
        return Beginnings(program, program.beginning(self._count, given), frozenset(packed))


def _first_turns(plan: PlannedLoop) -> int:
    if plan.has_loops:
        return FIRST_OUTER_TURNS
    if not plan.turn_s:
        return FIRST_TURNS
    return max(1, min(FIRST_TURNS, int(FIRST_S / plan.turn_s)))
