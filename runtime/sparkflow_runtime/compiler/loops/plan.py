"""A loop in machine code: its memory, and how it runs from first to last turn.

The variables of such a loop change over between two buffers; those that a gradient reads, and what
else it reads, go to the rows of stacks. The gradient's own loop reads these in place. Buffers
belong to the plan, and what leaves a run is copied; stacks are too large for that, see `memory`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence, Set
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from sparkflow_runtime.codegen.cpu.addresses import bind_addresses
from sparkflow_runtime.codegen.cpu.repeat import Move, Program, RefusedError
from sparkflow_runtime.codegen.machine import scratch
from sparkflow_runtime.compiler.loops.accumulators import KeptFactors, KeptProduct
from sparkflow_runtime.compiler.loops.lists import (
    FIRST_ROWS,
    MOST_ROWS,
    LoopList,
    RunningList,
    fits,
)
from sparkflow_runtime.compiler.loops.memory import NO_STACKS, Memory, Stacks
from sparkflow_runtime.compiler.loops.pointers import Cell
from sparkflow_runtime.compiler.loops.steps import LoopSteps, Packing
from sparkflow_runtime.compiler.loops.tapes import (
    BranchColumns,
    BranchTape,
    Column,
    KnownTape,
    Recorded,
    Rows,
    StackTape,
    TapeReading,
    number_at,
    numbers_of,
)
from sparkflow_runtime.ops.kernel import StepContext
from sparkflow_runtime.ops.machine_call import Stream

FIRST_CAPACITY: Final = 256
"""Rows of a stack before it grows, each time to twice as many."""
FIRST_TURNS: Final = 256
"""After so many turns a loop looks whether its step was cancelled."""
FIRST_OUTER_TURNS: Final = 8
"""The same where turns have loops of their own."""
FIRST_S: Final = 0.02
"""After fewer where they seem to take longer than this."""
MOST_TURNS: Final = 4096
"""After so many it looks where turns are short."""
SHORT_S: Final = 0.005
"""Where turns took less than this in all, four times as many come next."""


@dataclass(slots=True)
class LoopPlan:
    """A loop in machine code, for arguments of fixed shapes. For one thread at a time.

    Attributes:
        steps: What is done.
        cells: What every pointer points to; None for those that are no array of the loop's.
        arguments: Numbers of the pointers to the variables; None for tapes.
        results: Numbers of the pointers to their next values; None where they stay.
        constants: Arrays by the number of their pointers.
        taped: What is recorded, None for no tape.
        tapes: Readings of tapes given as arguments.
        lists: The lists among the variables that are read or written.
        borrowed: Numbers of the pointers that steps set.
        turn_s: About how long a turn takes.
        packings: Factors that are packed in runs in which they stay the same.
        streams: What turns draw from.
        growing: Numbers of the pointers to variables that turns add to in place.
        kept: Products whose factors are kept.
        memory: What runs write to.
        list_rows: How many elements a list that grows has room for.
        has_loops: Whether a turn may have any number of turns of its own.
        is_given_up: Whether such a loop took too long to go on without looking for cancellation.
    """

    steps: LoopSteps
    cells: list[Cell | None]
    arguments: list[int | None]
    results: list[int | None]
    constants: dict[int, np.ndarray[Any, Any]]
    taped: tuple[Recorded, ...] | None
    tapes: list[TapeReading]
    lists: list[LoopList]
    borrowed: set[int]
    turn_s: float = 0.0
    packings: Sequence[Packing] = ()
    streams: Sequence[Stream] = ()
    growing: Set[int] = frozenset()
    kept: Sequence[KeptProduct] = ()
    memory: Memory = field(default_factory=Memory)
    list_rows: int = FIRST_ROWS
    has_loops: bool = False
    is_given_up: bool = False
    _layout: _Layout | None = None

    @property
    def first_turns(self) -> int:
        """After so many a run looks for the first time whether it was cancelled."""
        if self.has_loops:
            return FIRST_OUTER_TURNS
        if not self.turn_s:
            return FIRST_TURNS
        return max(1, min(FIRST_TURNS, int(FIRST_S / self.turn_s)))

    def run(self, step: StepContext | None, values: Sequence[Any]) -> tuple[Any, ...] | None:
        """Runs the loop.

        Args:
            step: Says whether it was cancelled; None where nobody can.
            values: The variables before the first turn.

        Returns:
            The variables after the last one, then the tape; None where the values are not what the
            plan was made for, and where Python is to say what is wrong with them.
        """
        if self.is_given_up:
            return None
        if self._layout is None:
            self._layout = _Layout(self)
        self.memory.begin()
        state = _Run(self, self._layout)
        if not state.begin(values):
            return None
        with ExitStack() as held:
            for stream in self.streams:
                held.enter_context(stream.lock)
            drawn = [stream.state for stream in self.streams]
            try:
                while not state.turn():
                    if step is not None:
                        step.check_cancelled()
            except RefusedError as error:
                # A turn has no effects but that it draws: all of them can be done again.
                for stream, before in zip(self.streams, drawn, strict=True):
                    stream.state = before
                self.is_given_up = error.is_long
                if error.is_full:
                    self.list_rows = min(2 * self.list_rows, MOST_ROWS)
                return None
        return state.end(values)


@dataclass(frozen=True, slots=True)
class _Variable:
    """A variable that is an array.

    Attributes:
        position: Among all variables.
        number: Of its pointer.
        cell: What it is.
        buffers: Its values in even and in odd turns; None where it stays, or is on a stack.
        stack: Which of the stacks has its values; None where none has.
    """

    position: int
    number: int
    cell: Cell
    buffers: tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]] | None = None
    stack: int | None = None


class _Layout:
    """What is the same in every run: pointers to memory of the plan, and how pointers move."""

    def __init__(self, plan: LoopPlan) -> None:
        self._plan = plan
        self.pointers = np.zeros(len(plan.cells), np.int64)
        self.variables: list[_Variable] = []
        self.stacks: list[tuple[Cell, tuple[tuple[int, int], ...]]] = []
        self.on_stack: dict[int, tuple[int, int]] = {}
        self._kept: list[np.ndarray[Any, Any]] = []
        self.moves: list[Move] = []
        self.version = 0
        for place, constant in plan.constants.items():
            self.pointers[place] = constant.ctypes.data
        recorded = set(numbers_of(plan.taped))
        settled = {*plan.constants, *plan.borrowed}
        settled |= {each.target for each in plan.packings}
        settled |= {number for each in plan.kept for number in (each.left, each.right)}
        for position, (number, result) in enumerate(zip(plan.arguments, plan.results, strict=True)):
            if number is None:
                continue
            cell = self._cell(number)
            settled.add(number)
            if number in plan.growing:
                buffer = self.memory(number, cell)
                self.variables.append(_Variable(position, number, cell, (buffer, buffer)))
                continue
            if result is None:
                self.variables.append(_Variable(position, number, cell))
                continue
            settled.add(result)
            if number in recorded or result in recorded:
                stack = self._stack(cell, (number, 0), (result, 1))
                self.variables.append(_Variable(position, number, cell, stack=stack))
            else:
                buffers = self.memory(number, cell), self.memory(result, cell)
                toggle = int(self.pointers[number] ^ self.pointers[result])
                self.moves += [Move(number, toggle=toggle), Move(result, toggle=toggle)]
                self.variables.append(_Variable(position, number, cell, buffers))
        for place, found in enumerate(plan.cells):
            if found is not None and place not in settled:
                if place in recorded:
                    self._stack(found, (place, 0))
                else:
                    self.memory(place, found)
        self.cells = [cell for cell, _ in self.stacks]
        self.kept = self._keep() if plan.kept else None
        self.factors = [self._lines(each.target) for each in plan.packings]
        self.zeros = {
            each.argument: np.zeros(each.cell.shape, each.cell.dtype)
            for each in plan.lists
            if each.cell is not None
        }
        self.tapes = [
            [each for each in plan.tapes if each.argument == argument]
            for argument in sorted({each.argument for each in plan.tapes})
        ]
        self.rows = [np.array([each.rows for each in tape]) for tape in self.tapes]
        self.known: list[KnownTape | None] = [None] * len(self.tapes)
        self._addresses = self._bind_addresses(self.tapes)
        self._addresses_known = self._addresses
        self.plain = plan.steps.loop(()).program(self.moves)
        self._programs = {frozenset[int](): self.plain}

    def _bind_addresses(self, tapes: Sequence[Sequence[TapeReading]]) -> Callable[..., bool]:
        targets: list[list[tuple[int, int]]] = [
            [(each.number, 0)]
            for each in self.variables
            if each.buffers is None and each.stack is None
        ]
        targets += [[(each.stack, 0), (each.target, 0)] for tape in tapes for each in tape]
        for each in self._plan.lists:
            targets.append([(each.control, 0)])
            targets += [] if each.length is None else [[(each.length, 0)]]
        return bind_addresses(targets)

    def point(
        self,
        pointers: np.ndarray[Any, Any],
        arrays: Sequence[np.ndarray[Any, Any]],
        are_known: bool,
    ) -> bool:
        """Sets the pointers to what every run has of its own.

        Args:
            pointers: Of a run.
            arrays: The variables that stay, in their order; what each reading reads, tape by tape;
                per list its block, and its length where turns ask for it.
            are_known: Whether readings of stacks of known tapes are left out.
        """
        return (self._addresses_known if are_known else self._addresses)(*arrays, pointers)

    def know(self, place: int, tape: StackTape, readings: Sequence[TapeReading]) -> None:
        """Notes where a tape's maker has what is read."""
        assert tape.recording is not None
        self.known[place] = KnownTape(tape.recording.maker, readings)
        steady = [
            readings if known is None else known.steady_readings
            for readings, known in zip(self.tapes, self.known, strict=True)
        ]
        self._addresses_known = self._bind_addresses(steady)

    def number_of(self, path: Sequence[tuple[str, int]]) -> int:
        """See `tapes.Maker`."""
        assert self._plan.taped is not None
        return number_at(self._plan.taped, path)

    def place_of(self, number: int) -> tuple[int, int] | None:
        """See `tapes.Maker`."""
        found = self.on_stack.get(number)
        return None if found is None else (found[0], found[1] * self._cell(number).size_bytes)

    def point_to_stacks(self, pointers: np.ndarray[Any, Any], stacks: Stacks, turns: int) -> None:
        """Sets the pointers to the rows of stacks after some turns."""
        for address, (cell, shifted) in zip(stacks.addresses.tolist(), self.stacks, strict=True):
            for number, shift in shifted:
                pointers[number] = address + (turns + shift) * cell.size_bytes

    def begin(self, stacks: Stacks) -> np.ndarray[Any, Any]:
        """The pointers before the first turn of a run."""
        if stacks.pointers is None or stacks.version != self.version:
            stacks.pointers, stacks.version = self.pointers.copy(), self.version
            self.point_to_stacks(stacks.pointers, stacks, 0)
        return stacks.pointers.copy()

    def program(self, packed: frozenset[int]) -> Program:
        """The steps of runs in which these factors are packed."""
        found = self._programs.get(packed)
        if found is None:
            found = self._programs[packed] = self._plan.steps.loop(packed).program(self.moves)
        return found

    def _cell(self, number: int) -> Cell:
        cell = self._plan.cells[number]
        assert cell is not None
        return cell

    def memory(self, number: int, cell: Cell) -> np.ndarray[Any, Any]:
        array = np.empty(cell.shape, cell.dtype)
        self._kept.append(array)
        self.pointers[number] = array.ctypes.data
        return array

    def _lines(self, number: int) -> np.ndarray[Any, Any]:
        """Memory that begins with a line of the cache: all of it is read as whole vectors."""
        cell = self._cell(number)
        lines = scratch.aligned(cell.size_bytes).view(cell.dtype)
        self.pointers[number] = lines.ctypes.data
        return lines

    def _keep(self) -> KeptFactors:
        totals = {each.number: each.buffers[0] for each in self.variables if each.buffers}
        kept = KeptFactors(self._plan.kept, self._plan.cells, totals)
        for number, window in kept.windows.items():
            self.pointers[number] = window.ctypes.data
            self.moves.append(Move(number, add=self._cell(number).size_bytes))
        self.kept_numbers = np.array([*kept.windows])
        return kept

    def _stack(self, cell: Cell, *shifted: tuple[int, int]) -> int:
        """A stack; `shifted` are pointers to its rows and by how many rows they are ahead."""
        self.stacks.append((cell, shifted))
        for number, shift in shifted:
            self.on_stack[number] = (len(self.stacks) - 1, shift)
            self.moves.append(Move(number, add=cell.size_bytes))
        return len(self.stacks) - 1


class _Run:
    """One run of a loop."""

    def __init__(self, plan: LoopPlan, layout: _Layout) -> None:
        self._plan = plan
        self._layout = layout
        self._unchanged: dict[int, np.ndarray[Any, Any]] = {}
        self._lists: dict[int, RunningList] = {}
        self._program = layout.plain
        self._turns = self._kept = 0
        self._at_once = plan.first_turns
        self.maker = layout
        self._capacity = FIRST_CAPACITY
        if layout.stacks:
            self.stacks = self._new_stacks()
            self._pointers = layout.begin(self.stacks)
        else:
            self.stacks = NO_STACKS
            self._pointers = layout.pointers.copy()

    def begin(self, values: Sequence[Any]) -> bool:
        """Takes the variables; returns whether they are what the plan was made for."""
        unchanged = self._unchanged
        for variable in self._layout.variables:
            cell = variable.cell
            array = np.asarray(values[variable.position])
            if array.shape != cell.shape or array.dtype != cell.dtype:
                return False
            if variable.buffers is not None:
                variable.buffers[0][...] = array
            elif variable.stack is not None:
                self.stacks.arrays[variable.stack][0] = array
            else:
                unchanged[variable.number] = array if array.flags.c_contiguous else array.copy()
        arrays = [*unchanged.values()]
        are_known = False
        if self._layout.tapes:
            are_known = self._tapes_are_known(values)
            take_tapes = self._take_known_tapes if are_known else self._take_tapes
            if not take_tapes(values, arrays):
                return False
        if not self._begin_lists(values, arrays):
            return False
        if not self._layout.point(self._pointers, arrays, are_known):
            return False
        if self._plan.packings:
            self._pack()
        return True

    def _pack(self) -> None:
        """Packs the factors that stay the same in this run."""
        plan, layout = self._plan, self._layout
        steady = {**plan.constants, **self._unchanged}
        packed = frozenset(
            each.target
            for each, factor in zip(plan.packings, layout.factors, strict=True)
            if each.source in steady and each.kernel(steady[each.source], factor)
        )
        self._program = layout.program(packed)

    def _tapes_are_known(self, values: Sequence[Any]) -> bool:
        for readings, known in zip(self._layout.tapes, self._layout.known, strict=True):
            tape = values[readings[0].argument]
            if known is None or not isinstance(tape, StackTape) or tape.recording is None:
                return False
            if tape.recording.maker is not known.maker:
                return False
        return True

    def _take_known_tapes(self, values: Sequence[Any], arrays: list[np.ndarray[Any, Any]]) -> bool:
        layout, pointers = self._layout, self._pointers
        for place, known in enumerate(layout.known):
            assert known is not None
            tape = values[layout.tapes[place][0].argument]
            recording = tape.recording
            pointers[layout.rows[place]] = len(tape)
            pointers[known.pointers] = recording.stacks.addresses[known.places] + known.offsets
            for each, number in zip(known.steady_readings, known.steady, strict=True):
                self._unchanged[each.target] = recording.rows(number)[0]
                arrays.append(self._unchanged[each.target])
        return True

    def _take_tapes(self, values: Sequence[Any], arrays: list[np.ndarray[Any, Any]]) -> bool:
        layout = self._layout
        for place, readings in enumerate(layout.tapes):
            tape = values[readings[0].argument]
            if not isinstance(tape, StackTape):
                return False
            found = [tape.rows(each.path) for each in readings]
            layout.known[place] = None
            if not self._are_read(readings, found):
                return False
            self._pointers[layout.rows[place]] = len(tape)
            for each, (array, moves) in zip(readings, found, strict=True):
                arrays.append(array)
                if not moves:
                    self._unchanged[each.target] = array
            if tape.recording is not None:
                layout.know(place, tape, readings)
        return True

    def _are_read(self, readings: Sequence[TapeReading], found: Sequence[Rows]) -> bool:
        """Whether these are the arrays that are to be read; says of each how far its rows are."""
        for each, (array, moves) in zip(readings, found, strict=True):
            cell = self._plan.cells[each.target]
            assert cell is not None
            row = array.shape[1:] if moves else array.shape
            if row != cell.shape or array.dtype != cell.dtype or not array.flags.c_contiguous:
                return False
            row_bytes = cell.size_bytes if moves else 0
            self._pointers[each.row_bytes] = self._layout.pointers[each.row_bytes] = row_bytes
        self._layout.version += 1
        return True

    def _begin_lists(self, values: Sequence[Any], lists: list[np.ndarray[Any, Any]]) -> bool:
        plan = self._plan
        for each in plan.lists:
            value = values[each.argument]
            if not fits(each, value, values):
                return False
            zeros = self._layout.zeros.get(each.argument)
            running = RunningList(each, value, plan.list_rows, plan.memory.take, zeros)
            self._lists[each.argument] = running
            lists.append(running.control)
            if each.length is not None:
                lists.append(running.length)
        return True

    def _new_stacks(self) -> Stacks:
        return self._plan.memory.take_stacks(self._layout.cells, self._capacity + 1)

    def turn(self) -> bool:
        """Runs some turns; returns whether the loop is over."""
        at_once = self._at_once
        if self._layout.stacks:
            if self._turns == self._capacity:
                self._grow()
            at_once = min(at_once, self._capacity - self._turns)
        kept = self._layout.kept
        if kept is not None:
            at_once = min(at_once, kept.turns - self._kept)
        began = time.perf_counter()
        turns, is_done = self._program.run(self._pointers, at_once)
        self._turns += turns
        if kept is not None:
            self._kept += turns
            if is_done or self._kept == kept.turns:
                self._add(kept)
        if time.perf_counter() - began < SHORT_S:
            self._at_once = min(4 * self._at_once, MOST_TURNS)
        return is_done

    def _add(self, kept: KeptFactors) -> None:
        """Adds up what was kept, of as many turns in every run: sums have the same order."""
        if self._kept:
            kept.add(self._kept)
        self._kept = 0
        numbers = self._layout.kept_numbers
        self._pointers[numbers] = self._layout.pointers[numbers]

    def _grow(self) -> None:
        before = self.stacks
        self._capacity *= 2
        self.stacks = self._new_stacks()
        for larger, array in zip(self.stacks.arrays, before.arrays, strict=True):
            larger[: len(array)] = array
        self._layout.point_to_stacks(self._pointers, self.stacks, self._turns)

    def end(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """The variables after the last turn, and the tape."""
        plan = self._plan
        results = list(values)
        for variable in self._layout.variables:
            if variable.buffers is not None:
                results[variable.position] = variable.buffers[self._turns % 2].copy()
            elif variable.stack is not None:
                last = self.stacks.arrays[variable.stack][self._turns]
                results[variable.position] = last.copy()
        for position, running in self._lists.items():
            results[position] = running.end()
        if plan.taped is None:
            return (*results, [])
        self._lists = {}
        return (*results, StackTape(self._turns, None, self))

    def columns(self) -> Sequence[Column]:
        """See `tapes.Recording`."""
        return [self._column(each) for each in self._plan.taped or ()]

    def _column(self, recorded: Recorded) -> Column:
        if isinstance(recorded, BranchTape):
            flags = self.rows(recorded.flag)
            then, otherwise = (
                None if each is None else [self._column(every) for every in each]
                for each in recorded.taped
            )
            return BranchColumns(recorded, flags, (then, otherwise))
        return self.rows(recorded)

    def rows(self, number: int) -> Rows:
        """See `tapes.Recording`."""
        found = self._layout.on_stack.get(number)
        if found is not None:
            stack, shift = found
            return self.stacks.arrays[stack][shift : shift + self._turns], True
        if number in self._plan.constants:
            return self._plan.constants[number], False
        return self._unchanged[number], False
