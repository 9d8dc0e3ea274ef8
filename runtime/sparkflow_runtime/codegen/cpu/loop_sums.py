"""Reductions inside nested loops: where they accumulate, and how parts are combined.

Reductions over the last few loops accumulate in a register. Those over loops outside these
accumulate in an array, the output itself. If parts of the outermost loop run concurrently, each has
its own copy of the shared accumulators, and the last part to finish combines them in part order, so
that the result does not depend on timing.
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
    """Emits the code of reductions.

    Args:
        schedule: The plan of the loops.
        frame: The function.
        loops: Emits the vector loops that fill or add arrays.
        is_divided: Whether the outermost loop is split into parts.

    Attributes:
        accumulators: Registers, by result number.
        arrays: Sums in memory, by result number.
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
        """Resets the accumulators that start inside `level` loops."""
        if reduction.in_memory and reduction.first == level:
            self._fill(reduction, self.arrays[reduction.value])
        if reduction.in_register and reduction.start == level:
            self.accumulators[reduction.value].clear(self._frame.builder)

    def add(self, reduction: Reduction, value: Any) -> None:
        """Accumulates a scalar at the reduction's own level."""
        if reduction.in_register:
            self.accumulators[reduction.value].add(self._frame.builder, value)
        else:
            self.add_to_array(reduction, value)

    def total(self, reduction: Reduction) -> Any:
        """Returns the register's value, in the result's dtype."""
        accumulator, builder = self.accumulators[reduction.value], self._frame.builder
        return accumulator.rounded(builder, accumulator.total(builder))

    def add_to_array(
        self, reduction: Reduction, value: Any, index: Any = None, cut: Cut | None = None
    ) -> None:
        """Adds a scalar, or a vector starting at an index, to sums in memory."""
        builder, instruction = self._frame.builder, reduction.instruction
        neutral = constant(value.type, identity(instruction.function, instruction.dtype))
        for dimension in reduction.free:
            is_first = builder.icmp_signed("==", self._frame.indices[dimension], number(0))
            value = builder.select(is_first, value, neutral)
        level = reduction.start if index is None else reduction.start - 1
        pointer = self.arrays[reduction.value].pointer(builder, level, index)
        self._combine_with(reduction, pointer, value, cut)

    def begin_columns(self, reduction: Reduction, width: int) -> tuple[Any, Any]:
        """Returns a slot for a vector of sums, holding identities, and its type."""
        instruction, builder = reduction.instruction, self._frame.builder
        kind = vector(SCALARS[instruction.dtype], width)
        place = self._frame.memory.variable(kind)
        start = identity(instruction.function, instruction.dtype)
        builder.store(constant(kind, start), place)
        return place, kind

    def end_columns(
        self, reduction: Reduction, level: int, value: Any, index: Any, cut: Cut | None
    ) -> None:
        """Stores a vector of complete sums, starting at an index, inside `level` loops."""
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
        """Branches to `end` in all parts but the last to finish, which continues with all sums."""
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
        """Combines the results of the parts."""
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
