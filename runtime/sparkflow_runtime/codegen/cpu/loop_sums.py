"""Reductions inside of nested loops: where their results are gathered, and how parts are combined.

What is gathered over the last few loops is held in a register. What loops outside of these add up
is held in an array, the output itself. Where parts of the outermost loop run at once, each has a
place of its own for what all of them have a share in, and the last one to end combines them in the
order of the parts, so that the result does not depend on timing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkflow_runtime.codegen.cpu.loop_accumulators import Accumulator, combine, identity
from sparkflow_runtime.codegen.cpu.loop_frame import Frame
from sparkflow_runtime.codegen.cpu.loop_memory import Array, Cut, number, vector
from sparkflow_runtime.codegen.cpu.loop_vectors import VectorLoops
from sparkflow_runtime.codegen.cpu.maths import SCALARS, constant
from sparkflow_runtime.codegen.ir.schedule import Reduction, Schedule


class Sums:
    """Emits what reductions need.

    Args:
        schedule: The plan of the loops.
        frame: The function.
        loops: For arrays that are filled or added.
        is_divided: Whether there are parts.

    Attributes:
        accumulators: Registers, by the number of the result.
        arrays: Sums in memory, by the number of the result.
    """

    def __init__(
        self, schedule: Schedule, frame: Frame, loops: VectorLoops, is_divided: bool
    ) -> None:
        self._schedule = schedule
        self._frame = frame
        self._loops = loops
        self._is_divided = is_divided
        self._outputs = {
            each.value: frame.outputs[schedule.kernel.outputs.index(each.value)]
            for each in schedule.reductions
            if each.in_memory
        }
        self.accumulators = {
            each.value: Accumulator(frame.memory, each)
            for each in schedule.reductions
            if each.in_register
        }
        self.arrays: dict[int, Array] = {}
        for each in schedule.reductions:
            if each.in_memory:
                output = self._outputs[each.value]
                base = output.pointer(frame.builder, 0)
                if each.is_shared and is_divided:
                    base = frame.own_area(each.value)
                self.arrays[each.value] = frame.array(base, output.dtype, output.axes)

    def begin(self, reduction: Reduction, level: int) -> None:
        """Sets to the identity what is gathered inside of so many loops."""
        if reduction.in_memory and reduction.first == level:
            self._fill(reduction, self.arrays[reduction.value])
        if reduction.in_register and reduction.start == level:
            self.accumulators[reduction.value].clear(self._frame.builder)

    def add(self, reduction: Reduction, value: Any) -> None:
        """Adds a number at the reduction's own level."""
        if reduction.in_register:
            self.accumulators[reduction.value].add(self._frame.builder, value)
        else:
            self.add_to_array(reduction, value)

    def total(self, reduction: Reduction) -> Any:
        """What is in the register, as the result's dtype."""
        accumulator, builder = self.accumulators[reduction.value], self._frame.builder
        return accumulator.rounded(builder, accumulator.total(builder))

    def add_to_array(
        self, reduction: Reduction, value: Any, index: Any = None, cut: Cut | None = None
    ) -> None:
        """Adds a number, or a vector from an index on, to sums in memory."""
        builder, instruction = self._frame.builder, reduction.instruction
        neutral = constant(value.type, identity(instruction.function, instruction.dtype))
        for dimension in reduction.free:
            is_first = builder.icmp_signed("==", self._frame.indices[dimension], number(0))
            value = builder.select(is_first, value, neutral)
        level = reduction.start if index is None else reduction.start - 1
        pointer = self.arrays[reduction.value].pointer(builder, level, index)
        self._combine_with(reduction, pointer, value, cut)

    def begin_columns(self, reduction: Reduction, width: int) -> tuple[Any, Any]:
        """A place for a vector of sums, with its type; it holds what changes nothing."""
        instruction, builder = reduction.instruction, self._frame.builder
        kind = vector(SCALARS[instruction.dtype], width)
        place = self._frame.memory.variable(kind)
        start = identity(instruction.function, instruction.dtype)
        builder.store(constant(kind, start), place)
        return place, kind

    def end_columns(
        self, reduction: Reduction, level: int, value: Any, index: Any, cut: Cut | None
    ) -> None:
        """Writes a vector of complete sums, from an index on, inside of so many loops."""
        array, builder = self.arrays[reduction.value], self._frame.builder
        pointer = array.pointer(builder, level, index)
        self._frame.memory.store(builder, array.dtype, value, pointer, cut)

    def _combine_with(
        self, reduction: Reduction, pointer: Any, value: Any, cut: Cut | None
    ) -> None:
        builder, memory = self._frame.builder, self._frame.memory
        dtype, function = reduction.instruction.dtype, reduction.instruction.function
        before = memory.load(builder, dtype, pointer, getattr(value.type, "count", 0), cut)
        memory.store(builder, dtype, combine(builder, function, dtype, before, value), pointer, cut)

    def _fill(self, reduction: Reduction, array: Array) -> None:
        builder, memory = self._frame.builder, self._frame.memory
        instruction, first = reduction.instruction, reduction.first
        start = identity(instruction.function, instruction.dtype)
        count = array.count(builder, first)
        if not start:
            memory.clear(builder, array.pointer(builder, first), array, count)
            return

        def fill(index: Any, width: int, cut: Cut | None, _: list[Any]) -> list[Any]:
            value = constant(vector(SCALARS[array.dtype], width), start)
            pointer = array.pointer(builder, first, index)
            memory.store(builder, array.dtype, value, pointer, cut)
            return []

        self._loops.emit(number(0), count, fill)

    # ---------------------------------------------------------------------------------------- parts

    def wait_for_last(self, shared: Sequence[Reduction], end: Any) -> None:
        """All parts but the last one to end go to `end`; that one goes on with everybody's sums."""
        frame, builder = self._frame, self._frame.builder
        for each in shared:
            if not each.in_memory:
                accumulator = self.accumulators[each.value]
                total, place = accumulator.total(builder), frame.own_area(each.value)
                frame.memory.store(builder, accumulator.total_dtype, total, place)
        before = builder.atomic_rmw("add", frame.counter, number(1), "acq_rel")
        is_last = builder.icmp_signed("==", builder.add(before, number(1)), frame.parts)
        last = frame.block("last")
        builder.cbranch(is_last, last, end)
        builder.position_at_end(last)
        builder.store(number(0), frame.counter, align=8)
        for each in shared:
            self._combine(each)

    def _combine(self, reduction: Reduction) -> None:
        """Makes one result from those of the parts."""
        frame, builder = self._frame, self._frame.builder
        base, distance = frame.areas[reduction.value]
        if reduction.in_memory:
            self.arrays[reduction.value] = self._outputs[reduction.value]
            self._fill(reduction, self.arrays[reduction.value])
        else:
            self.accumulators[reduction.value].clear(builder)
        with frame.loop(number(0), frame.parts, "part") as part:
            share = frame.at(base, builder.mul(part, distance))
            if reduction.in_memory:
                self._add_array(reduction, share)
            else:
                accumulator = self.accumulators[reduction.value]
                value = frame.memory.load(builder, accumulator.total_dtype, share)
                accumulator.add_total(builder, value)

    def _add_array(self, reduction: Reduction, base: Any) -> None:
        builder, memory = self._frame.builder, self._frame.memory
        result = self.arrays[reduction.value]
        share = self._frame.array(base, result.dtype, result.axes)

        def step(index: Any, width: int, cut: Cut | None, _: list[Any]) -> list[Any]:
            pointer = share.pointer(builder, 0, index)
            value = memory.load(builder, result.dtype, pointer, width, cut)
            self._combine_with(reduction, result.pointer(builder, 0, index), value, cut)
            return []

        self._loops.emit(number(0), result.count(builder, 0), step)
