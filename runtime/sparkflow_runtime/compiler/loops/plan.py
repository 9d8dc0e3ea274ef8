"""A loop in machine code: its memory and its execution.

The variables of such a loop alternate between two buffers; those that a gradient reads, and its
other inputs, are written to the rows of stacks. The gradient's own loop reads these in place.
Buffers belong to the plan, and results are copied; stacks are too large for that, see `memory`. A
run of few iterations is one call of machine code, see `layout`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from sparkflow_runtime.codegen.cpu.repeat import RefusedError
from sparkflow_runtime.compiler.loops.accumulators import KeptFactors
from sparkflow_runtime.compiler.loops.layout import Layout
from sparkflow_runtime.compiler.loops.lists import FIRST_ROWS, MOST_ROWS
from sparkflow_runtime.compiler.loops.memory import NO_STACKS, StackMemory, Stacks
from sparkflow_runtime.compiler.loops.planned_loop import PlannedLoop
from sparkflow_runtime.compiler.loops.running_lists import fits
from sparkflow_runtime.compiler.loops.tapes import (
    BranchColumns,
    BranchTape,
    Column,
    Recorded,
    Rows,
    StackTape,
)
from sparkflow_runtime.ops.kernel import StepContext

FIRST_CAPACITY: Final = 256
"""Initial number of rows of a stack, which grows by doubling."""
MOST_TURNS: Final = 4096
"""Number of iterations between checks for cancellation if iterations are short."""
SHORT_S: Final = 0.005
"""If iterations took less than this in total, four times as many come next."""


@dataclass(slots=True)
class LoopPlan(PlannedLoop):
    """A loop in machine code, for arguments of fixed shapes. For one thread at a time.

    Attributes:
        memory: The stacks that runs write to.
        capacity: The number of iterations for which a run's stacks have room.
        list_rows: The capacity of growing lists.
        is_given_up: Whether an inner loop took too long to run without checking for cancellation.
    """

    memory: StackMemory = field(default_factory=StackMemory)
    capacity: int = FIRST_CAPACITY
    list_rows: int = FIRST_ROWS
    is_given_up: bool = False
    _layout: Layout | None = None

    def run(self, step: StepContext | None, values: Sequence[Any]) -> tuple[Any, ...] | None:
        """Runs the loop.

        Args:
            step: Checked for cancellation; None for no check.
            values: The initial variables.

        Returns:
            The final variables, then the tape; None if the plan is not for such values, or if
            Python is to report an error in them.
        """
        if self.is_given_up:
            return None
        if self._layout is None:
            self._layout = Layout(self)
        run = _Run(self, self._layout)
        if not run.take(values):
            return None
        is_over = self._draw(run, step) if self.streams else self._turn(run, step)
        return run.end(values) if is_over else None

    def _draw(self, run: _Run, step: StepContext | None) -> bool:
        """Like `_turn`, for iterations that draw random numbers."""
        with ExitStack() as held:
            for stream in self.streams:
                held.enter_context(stream.lock)
            drawn = [stream.state for stream in self.streams]
            is_over = self._turn(run, step)
            if not is_over:
                # Drawing is the only effect of an iteration: all can be repeated.
                for stream, before in zip(self.streams, drawn, strict=True):
                    stream.state = before
        return is_over

    def _turn(self, run: _Run, step: StepContext | None) -> bool:
        """Runs all iterations; returns whether that succeeded."""
        try:
            is_done = run.begin()
            while not is_done:
                if is_done is None:
                    return False
                if step is not None:
                    step.check_cancelled()
                is_done = run.turn()
        except RefusedError as error:
            self.is_given_up = error.is_long
            if error.is_full:
                self.list_rows = min(2 * self.list_rows, MOST_ROWS)
            return False
        return True


class _Run:
    """One run of a loop."""

    __slots__ = (
        "_arrays",
        "_at_once",
        "_began",
        "_capacity",
        "_kept",
        "_layout",
        "_lists",
        "_plan",
        "_program",
        "_results",
        "_stacks",
        "_steady",
        "_tapes",
        "_turns",
    )

    def __init__(self, plan: LoopPlan, layout: Layout) -> None:
        self._plan = plan
        self._layout = layout
        self._lists: list[np.ndarray[Any, Any]] = []
        self._turns = self._kept = 0
        self._at_once = layout.first_turns
        self._tapes: Sequence[StackTape] = ()
        self._steady: dict[int, np.ndarray[Any, Any]] = {}
        self._stacks = NO_STACKS
        if layout.stacks:
            self._stacks = self._new_stacks()

    def take(self, values: Sequence[Any]) -> bool:
        """Stores the variables; returns whether the plan may be for such variables."""
        layout, plan = self._layout, self._plan
        if layout.tapes:
            tapes = layout.know(values)
            if tapes is None:
                return False
            self._tapes, self._steady = tapes, layout.steady(tapes)
        for each in layout.lists:
            value = values[each.of.argument]
            if not fits(each.of, value, values):
                return False
            is_new, *arrays = each.begin(value, plan.list_rows, layout.pointers)
            if is_new:
                layout.lists_changed()
            self._lists += arrays
        self._arrays = [values[each.position] for each in layout.given]
        self._results = [make() for _, make in layout.results]
        return True

    def begin(self) -> bool | None:
        """Runs the first iterations.

        Returns:
            Whether the loop is over; None if nothing was done, because the plan is not for such
            variables.
        """
        outcome = self._begin()
        if outcome is None:
            arrays = [np.asarray(array) for array in self._arrays]
            for array, variable in zip(arrays, self._layout.given, strict=True):
                cell = variable.cell
                if array.shape != cell.shape or array.dtype != cell.dtype:
                    return None
            self._arrays = [np.array(array, order="C") for array in arrays]
            outcome = self._begin()
        return None if outcome is None else self._after(*outcome)

    def _begin(self) -> tuple[int, bool] | None:
        layout = self._layout
        beginnings = layout.beginnings
        self._program = beginnings.program
        table = layout.table(self._stacks, self._tapes)
        arrays = [*self._arrays, *self._results, *self._steady.values(), *self._lists]
        at_once = self._next_turns()
        self._began = time.perf_counter()
        return self._program.begin(beginnings.begin, layout.current, table, arrays, at_once)

    def turn(self) -> bool:
        """Runs some more iterations; returns whether the loop is over."""
        if self._layout.stacks and self._turns == self._plan.capacity:
            self._grow()
        at_once = self._next_turns()
        self._began = time.perf_counter()
        return self._after(*self._program.run(self._layout.current, at_once))

    def _next_turns(self) -> int:
        """Returns the maximum number of iterations to run next."""
        layout, at_once = self._layout, self._at_once
        if layout.stacks:
            at_once = min(at_once, self._plan.capacity - self._turns)
        if layout.kept is not None:
            at_once = min(at_once, layout.kept.turns - self._kept)
        return at_once

    def _after(self, turns: int, is_done: bool) -> bool:
        """Processes the results of some iterations; returns whether they were the last ones."""
        self._turns += turns
        kept = self._layout.kept
        if kept is not None:
            self._kept += turns
            if is_done or self._kept == kept.turns:
                self._add(kept)
        if not is_done and time.perf_counter() - self._began < SHORT_S:
            self._at_once = min(4 * self._at_once, MOST_TURNS)
        return is_done

    def _add(self, kept: KeptFactors) -> None:
        """Adds up kept products, always of equally many iterations: the order of sums is fixed."""
        layout = self._layout
        if self._kept:
            totals = {number: self._results[place] for number, place in layout.growing.items()}
            kept.add(self._kept, totals)
        self._kept = 0
        layout.point_to_windows(layout.current)

    def _new_stacks(self) -> Stacks:
        return self._plan.memory.take(self._layout.cells, self._plan.capacity + 1)

    def _grow(self) -> None:
        before = self._stacks
        self._plan.capacity *= 2
        self._stacks = self._new_stacks()
        for larger, array in zip(self._stacks.arrays, before.arrays, strict=True):
            larger[: len(array)] = array
        self._layout.point_to_stacks(self._layout.current, self._stacks, self._turns)

    def end(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """Returns the final variables and the tape."""
        layout = self._layout
        results = list(values)
        for (position, _), array in zip(layout.results, self._results, strict=True):
            results[position] = array
        for place, each in enumerate(layout.lists):
            position = each.of.argument
            results[position] = each.end(values[position], self._lists[2 * place])
        taped = self._plan.taped
        if taped is None:
            return (*results, [])
        unchanged = {
            variable.number: array
            for variable, array in zip(layout.given, self._arrays, strict=True)
            if not variable.changes
        }
        record = _Record(layout, taped, self._stacks, self._turns, unchanged | self._steady)
        return (*results, StackTape(self._turns, None, record))


@dataclass(frozen=True, slots=True)
class _Record:
    """What a run recorded, see `tapes.Recording`.

    Attributes:
        maker: Describes its location.
        taped: What was recorded.
        stacks: The values that changed between iterations.
        turns: The number of iterations.
        steady: The loop-invariant values, by pointer number, except those that are the same in
            every run.
    """

    maker: Layout
    taped: Sequence[Recorded]
    stacks: Stacks
    turns: int
    steady: Mapping[int, np.ndarray[Any, Any]]

    def columns(self) -> Sequence[Column]:
        """Returns what was recorded of each tensor."""
        return [self._column(each) for each in self.taped]

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
        """Returns what was recorded, by pointer number."""
        found = self.maker.on_stack(number)
        if found is not None:
            stack, shift = found
            return self.stacks.arrays[stack][shift : shift + self.turns], True
        array = self.steady.get(number)
        return self.maker.fixed(number) if array is None else array, False
