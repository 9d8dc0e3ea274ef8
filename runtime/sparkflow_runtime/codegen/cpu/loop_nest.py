"""Lowers the plan of a kernel's loops to LLVM assembly.

Loops are nested, one per dimension; the innermost one is over vectors (`loop_vectors`). What does
not vary along the last dimension is computed as a scalar outside that loop.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparkflow_runtime import dtypes
from sparkflow_runtime.codegen.cpu import maths
from sparkflow_runtime.codegen.cpu.loop_accumulators import combine
from sparkflow_runtime.codegen.cpu.loop_columns import load_columns, store_columns
from sparkflow_runtime.codegen.cpu.loop_frame import Frame
from sparkflow_runtime.codegen.cpu.loop_memory import I64, Array, Cut, vector
from sparkflow_runtime.codegen.cpu.loop_sums import Sums
from sparkflow_runtime.codegen.cpu.loop_vectors import VectorLoops, counting, splat
from sparkflow_runtime.codegen.cpu.maths import SCALARS, constant
from sparkflow_runtime.codegen.ir.kernel import Instruction
from sparkflow_runtime.codegen.ir.schedule import IDENTITY, Form, Pass, Schedule, Target


def generate(schedule: Schedule, target: Target, form: Form) -> str:
    """Returns the text of a module that defines `body`, see `native.body`.

    Args:
        schedule: The plan of the loops.
        target: The processor.
        form: The sizes it is specialised for.
    """
    return _Nest(schedule, target, form).text()


class _Nest:
    def __init__(self, schedule: Schedule, target: Target, form: Form) -> None:
        self._schedule = schedule
        self._kernel = schedule.kernel
        self._rank = schedule.kernel.rank
        self._target = target
        self._form = form
        self._frame = Frame(schedule, target.has_masks, form)
        self._builder = self._frame.builder
        self._memory = self._frame.memory
        self._loops = VectorLoops(self._frame, schedule.lanes(target.vector_bytes))
        self._sums = Sums(schedule, self._frame, self._loops, form.is_divided)
        self._scalars: dict[int, Any] = {}

    def text(self) -> str:
        """Emits everything."""
        self._level(0, None)
        self._finish()
        return self._frame.text()

    # ---------------------------------------------------------------------------------------- loops

    def _level(self, level: int, turn: int | None) -> None:
        """Emits the code inside `level` loops in one pass; `turn` is None outside the passes."""
        schedule, builder = self._schedule, self._builder
        if level == schedule.row and turn is None:
            for number in range(schedule.passes):
                self._level(level, number)
            return
        if turn is not None and self._form.keeps_columns and level == schedule.column_level(turn):
            self._compute_numbers(level, turn)
            self._columns(level, turn)
            return
        self._compute_numbers(level, turn)
        here = [
            each
            for each in schedule.reductions
            if turn is None or schedule.depths[each.argument] == turn
        ]
        for each in here:
            self._sums.begin(each, level)
        for each in here:
            if each.level == level:
                self._sums.add(each, self._scalars[each.argument])
        if schedule.goes_deeper(level, turn):
            if level == self._rank - 1:
                assert turn is not None
                self._innermost(turn)
            else:
                with self._frame.loop(*self._frame.bounds(level), f"loop{level}") as index:
                    self._frame.indices[level] = index
                    for array in self._arrays():
                        array.enter(builder, level, index)
                    self._level(level + 1, turn)
        for each in here:
            if each.in_register and each.start == level:
                if each.in_memory:
                    self._sums.add_to_array(each, self._sums.total(each))
                elif not each.is_shared:
                    self._scalars[each.value] = self._sums.total(each)
                    self._store_number(each.value, level)

    def _arrays(self) -> tuple[Array, ...]:
        frame, sums = self._frame, self._sums
        return (*frame.inputs, *frame.outputs, *frame.kept.values(), *sums.arrays.values())

    def _finish(self) -> None:
        """Stores scalar results; if there are parts, the last one to finish does."""
        builder, schedule = self._builder, self._schedule
        shared = [each for each in schedule.reductions if each.is_shared]
        totals = [each for each in shared if not each.in_memory]
        single = [
            value
            for value in dict.fromkeys(self._kernel.outputs)
            if schedule.levels[value] == 0 and not schedule.is_reduction(value)
        ]
        end = self._frame.block("end")
        if self._form.is_divided and (shared or single):
            self._sums.wait_for_last(shared, end)
        for each in totals:
            self._scalars[each.value] = self._sums.total(each)
        for value in (*single, *(each.value for each in totals)):
            self._store_number(value, 0)
        builder.branch(end)
        builder.position_at_end(end)
        builder.ret_void()

    # -------------------------------------------------------------------------------------- numbers

    def _compute_numbers(self, level: int, turn: int | None) -> None:
        """Emits the scalars that are computed inside `level` loops."""
        schedule, builder = self._schedule, self._builder
        for value in schedule.numbers(level, turn):
            instruction = schedule.instruction(value)
            if instruction is None:
                array = self._frame.inputs[value]
                pointer = array.pointer(builder, level)
                self._scalars[value] = self._memory.load(builder, array.dtype, pointer)
            else:
                arguments = [self._scalars[argument] for argument in instruction.arguments]
                self._scalars[value] = self._computed(instruction, arguments)
            if level and schedule.depths[value] == (turn or 0):
                self._store_number(value, level)

    def _store_number(self, value: int, level: int) -> None:
        for array, output in zip(self._frame.outputs, self._kernel.outputs, strict=True):
            if output == value:
                pointer = array.pointer(self._builder, level)
                self._memory.store(self._builder, array.dtype, self._scalars[value], pointer)

    def _computed(
        self, instruction: Instruction, arguments: list[Any], width: int = 0, index: Any = None
    ) -> Any:
        """Emits an instruction other than a reduction, on scalars (width 0) or vectors."""
        if instruction.function == "constant":
            return _constant(instruction, width)
        if instruction.function == "index":
            if not width:
                return self._frame.indices[instruction.over.index(True)]
            return self._builder.add(splat(self._builder, index, width), counting(I64, width))
        if instruction.function == IDENTITY:
            return arguments[0]
        return maths.emit(self._builder, instruction.function, instruction.dtype, *arguments)

    # -------------------------------------------------------------------------------------- vectors

    def _innermost(self, turn: int) -> None:
        """Emits the loop over the last dimension in one pass."""
        work = self._schedule.work(turn)
        registers = self._schedule.registers(turn, self._target, self._form.registers)
        gathered = [
            self._sums.accumulators[each.value] for each in work.reductions if each.in_register
        ]

        def step(index: Any, width: int, cut: Cut | None, carried: list[Any]) -> list[Any]:
            return self._step(work, index, width, cut, carried)

        low, high = self._frame.bounds(self._rank - 1)
        self._loops.emit(low, high, step, registers, self._form.has_rest, gathered)

    def _columns(self, level: int, turn: int) -> None:
        """Emits all loops inside `level`, with the one over the last dimension outermost.

        Column sums stay in registers and are stored when they are complete.
        """
        work = self._schedule.work(turn)
        registers = self._schedule.registers(turn, self._target, self._form.registers)
        builder = self._builder

        def step(index: Any, width: int, cut: Cut | None, _: list[Any]) -> list[Any]:
            places = [self._sums.begin_columns(each, width) for each in work.reductions]

            def inside(depth: int) -> None:
                if depth == self._rank - 1:
                    carried = [builder.load(place, typ=kind) for place, kind in places]
                    found = self._step(work, index, width, cut, carried, is_inside=True)
                    for (place, _), value in zip(places, found, strict=True):
                        builder.store(value, place)
                    return
                with self._frame.loop(*self._frame.bounds(depth), f"loop{depth}") as number:
                    self._frame.indices[depth] = number
                    for array in self._arrays():
                        array.enter(builder, depth, number)
                    self._compute_numbers(depth + 1, turn)
                    inside(depth + 1)

            inside(level)
            for each, (place, kind) in zip(work.reductions, places, strict=True):
                self._sums.end_columns(each, level, builder.load(place, typ=kind), index, cut)
            return []

        low, high = self._frame.bounds(self._rank - 1)
        self._loops.emit(low, high, step, registers, self._form.has_rest)

    def _step(
        self,
        work: Pass,
        index: Any,
        width: int,
        cut: Cut | None,
        carried: list[Any],
        is_inside: bool = False,
    ) -> list[Any]:
        """Emits a step, see `loop_vectors.Step`: all loads come before all stores.

        With `is_inside`, other loops are nested inside the vector loop, and all sums are carried.
        """
        schedule, builder, level = self._schedule, self._builder, self._rank - 1
        frame = self._frame
        found: dict[int, Any] = {}

        def get(value: int) -> Any:
            if value not in found:
                if schedule.levels[value] < self._rank:
                    found[value] = self._spread(value, width, is_inside)
                elif value not in work.loaded and frame.inputs[value].step > 1:
                    first = value - self._form.columns[value].offset
                    array = frame.inputs[first]
                    pointer = array.pointer(builder, level, index)
                    columns = load_columns(builder, self._memory, array, pointer, width, cut)
                    found.update(enumerate(columns, first))
                else:
                    array = frame.kept[value] if value in work.loaded else frame.inputs[value]
                    pointer = array.pointer(builder, level, index)
                    found[value] = self._memory.load(builder, array.dtype, pointer, width, cut)
            return found[value]

        for value in work.values:
            instruction = schedule.instruction(value)
            if instruction is not None and value not in work.loaded:
                arguments = [get(argument) for argument in instruction.arguments]
                found[value] = self._computed(instruction, arguments, width, index)
        results_at = {place: get(self._kernel.outputs[place]) for place in work.outputs}
        saved = [(frame.kept[value], get(value)) for value in work.saved]
        summed = [(each, get(each.argument)) for each in work.reductions]
        self._store(results_at, index, cut)
        for array, value_of_lanes in saved:
            pointer = array.pointer(builder, level, index)
            self._memory.store(builder, array.dtype, value_of_lanes, pointer, cut)
        before, results = iter(carried), []
        for reduction, lanes in summed:
            function, dtype = reduction.instruction.function, reduction.instruction.dtype
            if not (reduction.in_register or is_inside):
                self._sums.add_to_array(reduction, lanes, index, cut)
                continue
            if cut is not None and not is_inside:
                neutral = self._sums.accumulators[reduction.value].neutral(width)
                lanes = builder.select(cut.mask, lanes, neutral)
            results.append(combine(builder, function, dtype, next(before), lanes))
        return results

    def _store(self, results: Mapping[int, Any], index: Any, cut: Cut | None) -> None:
        """Stores vectors to the outputs, by their numbers."""
        builder = self._builder
        for place, value in results.items():
            array = self._frame.outputs[place]
            pointer = array.pointer(builder, self._rank - 1, index)
            if array.step == 1:
                self._memory.store(builder, array.dtype, value, pointer, cut)
            elif not self._form.columns[len(self._frame.inputs) + place].offset:
                columns = [results[each] for each in range(place, place + array.step)]
                store_columns(builder, self._memory, array, columns, pointer, cut)

    def _spread(self, value: int, width: int, is_inside: bool) -> Any:
        """Broadcasts a scalar of the outer loops to all lanes."""
        instruction = self._schedule.instruction(value)
        if instruction is not None and instruction.function == "constant":
            return _constant(instruction, width)
        if is_inside:
            return splat(self._builder, self._scalars[value], width)
        return self._loops.splat(self._scalars[value], width)


def _constant(instruction: Instruction, width: int) -> Any:
    value, is_truth = instruction.value, instruction.dtype is dtypes.bool_
    return constant(vector(SCALARS[instruction.dtype], width), bool(value) if is_truth else value)
