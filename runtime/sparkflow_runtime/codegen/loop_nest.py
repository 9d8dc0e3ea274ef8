"""From the plan of a kernel's loops to LLVM's assembly language.

The innermost loop works on vectors of several registers, so that enough instructions are under way
at once; what is left over goes through a second loop of single registers, the last one cut short.
What does not vary along the last dimension is computed as a number outside of that loop.

Numbers for the body (`sizes`): the size of each dimension, the number of parts, where a counter is,
then for each area (`Schedule.areas`) where it is and how far those of two parts are apart, and then
these areas and the counter themselves. Places are in bytes from the first number. A body for one
part reads neither the number of parts nor the counter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from llvmlite import ir

from sparkflow_runtime import dtypes
from sparkflow_runtime.codegen import maths
from sparkflow_runtime.codegen.kernel import Instruction
from sparkflow_runtime.codegen.loop_accumulators import BLOCK, Accumulator, combine, identity
from sparkflow_runtime.codegen.loop_memory import (
    I8,
    I32,
    I64,
    POINTER,
    Array,
    Cut,
    Memory,
    number,
    vector,
)
from sparkflow_runtime.codegen.maths import SCALARS, constant
from sparkflow_runtime.codegen.schedule import IDENTITY, Pass, Reduction, Schedule, Target

_MOST_REGISTERS: Final = 4
"""A vector of the innermost loop has at most so many registers."""

Vectors = Callable[[Any, Any, int, Cut | None, list[Any]], list[Any]]
"""Emits one step: builder, index, width, what is cut short, carried vectors; gives these anew."""


def generate(schedule: Schedule, target: Target, is_divided: bool = False) -> str:
    """The text of a module that defines `body`.

    Args:
        schedule: What is computed.
        target: For which processor.
        is_divided: Whether the body is called with parts of the outermost loop.
    """
    return _Nest(schedule, target, is_divided).text()


class _Nest:
    def __init__(self, schedule: Schedule, target: Target, is_divided: bool) -> None:
        self.schedule = schedule
        self.is_divided = is_divided
        self.kernel = schedule.kernel
        self.rank = schedule.kernel.rank
        self.target = target
        self.lanes = schedule.lanes(target.vector_bytes)
        self.module = ir.Module(context=ir.Context())
        signature = ir.FunctionType(ir.VoidType(), [POINTER, POINTER, I64, I64, I64])
        self.function = ir.Function(self.module, signature, name="body")
        entry = self.function.append_basic_block("entry")
        self.builder = ir.IRBuilder(entry)
        self.memory = Memory(entry, target.has_masks)
        self._read_arguments()
        self.scalars: dict[int, Any] = {}
        self.indices: list[Any] = [None] * self.rank
        self.accumulators = {
            each.value: Accumulator(self.memory, each)
            for each in schedule.reductions
            if each.in_register
        }

    def text(self) -> str:
        """Emits everything."""
        self._level(0, None)
        self._finish()
        return "\n".join(str(each) for each in self.module.globals.values())

    # ------------------------------------------------------------------------------------ arguments

    def _read_arguments(self) -> None:
        builder, kernel = self.builder, self.kernel
        sizes, arrays, self.low, self.high, self.part = self.function.args

        def read(place: int, kind: Any = I64) -> Any:
            pointer = builder.gep(sizes, [number(place)], source_etype=I64)
            return builder.load(pointer, align=8, typ=kind)

        self.sizes = [read(dimension) for dimension in range(self.rank)]
        self.parts = read(self.rank)
        self.counter = self._at(sizes, read(self.rank + 1))
        place = self.rank + 2

        def array(position: int, dtype: Any, axes: Any) -> Array:
            pointer = builder.gep(arrays, [number(position)], source_etype=POINTER)
            return Array(builder.load(pointer, align=8, typ=POINTER), dtype, axes, self.sizes)

        self.inputs = [array(i, each.dtype, each.axes) for i, each in enumerate(kernel.inputs)]
        self.outputs = [
            array(len(kernel.inputs) + i, kernel.value_dtypes[value], kernel.value_axes[value])
            for i, value in enumerate(kernel.outputs)
        ]
        self.areas: dict[int, tuple[Any, Any]] = {}
        for value in self.schedule.areas(self.is_divided):
            self.areas[value] = (self._at(sizes, read(place)), read(place + 1))
            place += 2
        self.kept = {value: self.outputs[home] for value, home in self.schedule.homes.items()}
        for value in self.schedule.buffered:
            axes = tuple(
                varies and dimension >= self.schedule.row
                for dimension, varies in enumerate(kernel.value_axes[value])
            )
            dtype = kernel.value_dtypes[value]
            self.kept[value] = Array(self._own_area(value), dtype, axes, self.sizes)
        self.sums = {}
        for each in self.schedule.reductions:
            if each.in_memory:
                home = self.outputs[kernel.outputs.index(each.value)]
                base = home.pointer(builder, 0)
                if each.is_shared and self.is_divided:
                    base = self._own_area(each.value)
                self.sums[each.value] = Array(base, home.dtype, home.axes, self.sizes)
        start = self.function.append_basic_block("start")
        builder.branch(start)
        builder.position_at_end(start)

    def _own_area(self, value: int) -> Any:
        base, distance = self.areas[value]
        return self._at(base, self.builder.mul(self.part, distance))

    def _at(self, base: Any, offset: Any) -> Any:
        return self.builder.gep(base, [offset], source_etype=I8)

    # ---------------------------------------------------------------------------------------- loops

    def _level(self, level: int, number: int | None) -> None:
        """Emits what is inside of so many loops; None before it is about one pass."""
        if level == self.schedule.row and number is None:
            for turn in range(self.schedule.passes):
                self._level(level, turn)
            return
        self._scalars_at(level, number)
        here = [each for each in self.schedule.reductions if self._is_in(each, level, number)]
        for each in here:
            if each.in_memory and each.first == level:
                self._fill(each, self.sums[each.value])
            if each.in_register and each.start == level:
                self.accumulators[each.value].clear(self.builder)
        if self.rank and level < self.rank:
            for each in here:
                if each.level == level:
                    self._gather(each, self.scalars[each.argument])
            if level == self.rank - 1:
                assert number is not None
                self._innermost(number)
            else:
                self._loop(level, number)
        for each in here:
            if each.in_register and each.start == level:
                self._flush(each)

    def _is_in(self, reduction: Reduction, level: int, number: int | None) -> bool:
        return number is None or self.schedule.depths[reduction.argument] == number

    def _bounds(self, dimension: int) -> tuple[Any, Any]:
        return (self.low, self.high) if dimension == 0 else (number(0), self.sizes[dimension])

    def _loop(self, dimension: int, pass_number: int | None) -> None:
        low, high = self._bounds(dimension)
        builder = self.builder
        before = builder.block
        inside = self.function.append_basic_block(f"loop{dimension}")
        after = self.function.append_basic_block(f"after{dimension}")
        builder.cbranch(builder.icmp_signed("<", low, high), inside, after)
        builder.position_at_end(inside)
        index = builder.phi(I64)
        index.add_incoming(low, before)
        self.indices[dimension] = index
        for array in (*self.inputs, *self.outputs, *self.kept.values(), *self.sums.values()):
            array.enter(builder, dimension, index)
        self._level(dimension + 1, pass_number)
        following = builder.add(index, number(1))
        index.add_incoming(following, builder.block)
        builder.cbranch(builder.icmp_signed("<", following, high), inside, after)
        builder.position_at_end(after)

    # ------------------------------------------------------------------ values of the outer loops

    def _scalars_at(self, level: int, number: int | None) -> None:
        if level == self.rank and self.rank:
            return
        schedule, builder = self.schedule, self.builder
        for value in schedule.live:
            if schedule.levels[value] != level or schedule.is_reduction(value):
                continue
            depth = schedule.depths[value]
            if level == schedule.row and depth != number:
                continue
            if level > schedule.row and number is not None and depth > number:
                continue
            instruction = schedule.instruction(value)
            if instruction is None:
                array = self.inputs[value]
                pointer = array.pointer(builder, level)
                self.scalars[value] = self.memory.load(builder, array.dtype, pointer)
            else:
                self.scalars[value] = self._computed(
                    builder, instruction, [self.scalars[a] for a in instruction.arguments], 0, None
                )
            if level and depth == (number or 0):
                self._store_scalar(value, level)

    def _store_scalar(self, value: int, level: int) -> None:
        for array, output in zip(self.outputs, self.kernel.outputs, strict=True):
            if output == value:
                pointer = array.pointer(self.builder, level)
                self.memory.store(self.builder, array.dtype, self.scalars[value], pointer)

    def _computed(
        self, builder: Any, instruction: Instruction, arguments: list[Any], width: int, index: Any
    ) -> Any:
        """The result of an instruction that is no reduction, of numbers (width 0) or vectors."""
        if instruction.function == "constant":
            return _constant(instruction, width)
        if instruction.function == "index":
            if not width:
                return self.indices[instruction.over.index(True)]
            return builder.add(_splat(builder, index, width), _counting(I64, width))
        if instruction.function == IDENTITY:
            return arguments[0]
        return maths.emit(builder, instruction.function, instruction.dtype, *arguments)

    # ----------------------------------------------------------------------------------- reductions

    def _gather(self, reduction: Reduction, value: Any) -> None:
        """Adds a number at the reduction's own level."""
        if reduction.in_register:
            self.accumulators[reduction.value].add(self.builder, value)
        else:
            self._add_to_memory(reduction, value)

    def _add_to_memory(self, reduction: Reduction, value: Any) -> None:
        array = self.sums[reduction.value]
        pointer = array.pointer(self.builder, reduction.start)
        value = self._guarded(self.builder, reduction, value)
        self._combine_with(self.builder, reduction, pointer, value, 0, None)

    def _combine_with(
        self, builder: Any, reduction: Reduction, pointer: Any, value: Any, width: int, cut: Any
    ) -> None:
        dtype, function = reduction.instruction.dtype, reduction.instruction.function
        before = self.memory.load(builder, dtype, pointer, width, cut)
        after = combine(builder, function, dtype, before, value)
        self.memory.store(builder, dtype, after, pointer, cut)

    def _guarded(self, builder: Any, reduction: Reduction, value: Any) -> Any:
        """The value, or what changes nothing where it has been added already."""
        instruction = reduction.instruction
        neutral = constant(value.type, identity(instruction.function, instruction.dtype))
        for dimension in reduction.free:
            is_first = builder.icmp_signed("==", self.indices[dimension], number(0))
            value = builder.select(is_first, value, neutral)
        return value

    def _flush(self, reduction: Reduction) -> None:
        if not reduction.in_memory and reduction.is_shared:
            return  # see `_finish`
        accumulator = self.accumulators[reduction.value]
        result = accumulator.rounded(self.builder, accumulator.total(self.builder))
        if reduction.in_memory:
            self._add_to_memory(reduction, result)
        else:
            self.scalars[reduction.value] = result
            self._store_scalar(reduction.value, reduction.start)

    def _fill(self, reduction: Reduction, array: Array) -> None:
        """Sets the sums inside of so many loops to the identity."""
        instruction, memory = reduction.instruction, self.memory
        start = identity(instruction.function, instruction.dtype)
        count = array.count(self.builder, reduction.first)
        if not start:
            memory.clear(self.builder, array.pointer(self.builder, reduction.first), array, count)
            return

        def fill(builder: Any, index: Any, width: int, cut: Cut | None, _: list[Any]) -> list[Any]:
            value = constant(vector(SCALARS[array.dtype], width), start)
            pointer = array.pointer(builder, reduction.first, index)
            memory.store(builder, array.dtype, value, pointer, cut)
            return []

        self._vectors(number(0), count, self.lanes, [], fill)

    def _finish(self) -> None:
        """Stores what there is one of; where there are parts, the last one to end does."""
        builder, kernel, schedule = self.builder, self.kernel, self.schedule
        shared = [each for each in schedule.reductions if each.is_shared]
        single = [
            value
            for value in kernel.outputs
            if schedule.levels[value] == 0 and not schedule.is_reduction(value)
        ]
        totals = [each for each in shared if not each.in_memory]
        end = None
        if self.is_divided and (shared or single):
            finish, end = (self.function.append_basic_block(name) for name in ("finish", "end"))
            self._wait_for_last(shared, finish, end)
        for each in totals:
            accumulator = self.accumulators[each.value]
            self.scalars[each.value] = accumulator.rounded(builder, accumulator.total(builder))
        for value in dict.fromkeys((*single, *(each.value for each in totals))):
            self._store_scalar(value, 0)
        if end is not None:
            builder.branch(end)
            builder.position_at_end(end)
        builder.ret_void()

    def _wait_for_last(self, shared: Sequence[Reduction], finish: Any, end: Any) -> None:
        """Goes on in `finish` only in the part that ends last, with everybody's sums."""
        builder = self.builder
        for each in shared:
            if not each.in_memory:
                accumulator = self.accumulators[each.value]
                total, place = accumulator.total(builder), self._own_area(each.value)
                self.memory.store(builder, accumulator.total_dtype, total, place)
        before = builder.atomic_rmw("add", self.counter, number(1), "acq_rel")
        is_last = builder.icmp_signed("==", builder.add(before, number(1)), self.parts)
        together = self.function.append_basic_block("combine")
        builder.cbranch(is_last, together, end)
        builder.position_at_end(together)
        builder.store(number(0), self.counter, align=8)
        for each in shared:
            if each.in_memory:
                self._combine_arrays(each)
            else:
                self._combine_totals(each)
        builder.branch(finish)
        builder.position_at_end(finish)

    def _combine_totals(self, reduction: Reduction) -> None:
        accumulator = self.accumulators[reduction.value]
        accumulator.clear(self.builder)

        def add(pointer: Any) -> None:
            value = self.memory.load(self.builder, accumulator.total_dtype, pointer)
            accumulator.add_total(self.builder, value)

        self._for_each_part(reduction, add)

    def _combine_arrays(self, reduction: Reduction) -> None:
        home = self.outputs[self.kernel.outputs.index(reduction.value)]
        base = home.pointer(self.builder, 0)
        target = Array(base, home.dtype, home.axes, self.sizes)
        self._fill(reduction, target)
        count = target.count(self.builder, 0)

        def add(pointer: Any) -> None:
            share = Array(pointer, home.dtype, home.axes, self.sizes)

            def step(
                builder: Any, index: Any, width: int, cut: Cut | None, _: list[Any]
            ) -> list[Any]:
                value = self.memory.load(
                    builder, home.dtype, share.pointer(builder, 0, index), width, cut
                )
                pointer = target.pointer(builder, 0, index)
                self._combine_with(builder, reduction, pointer, value, width, cut)
                return []

            self._vectors(number(0), count, self.lanes, [], step)

        self._for_each_part(reduction, add)

    def _for_each_part(self, reduction: Reduction, emit: Callable[[Any], None]) -> None:
        builder = self.builder
        base, distance = self.areas[reduction.value]
        before = builder.block
        inside = self.function.append_basic_block("part")
        after = self.function.append_basic_block("parts")
        builder.branch(inside)
        builder.position_at_end(inside)
        part = builder.phi(I64)
        part.add_incoming(number(0), before)
        emit(self._at(base, builder.mul(part, distance)))
        following = builder.add(part, number(1))
        part.add_incoming(following, builder.block)
        builder.cbranch(builder.icmp_signed("<", following, self.parts), inside, after)
        builder.position_at_end(after)

    # ------------------------------------------------------------------------------- innermost loop

    def _innermost(self, pass_number: int) -> None:
        work = self.schedule.work(pass_number)
        if not work:
            return
        registers = self.schedule.pressure(pass_number, self.lanes, self.target.vector_bytes)
        times = _MOST_REGISTERS
        while times > 1 and times * registers > self.target.registers:
            times //= 2
        low, high = self._bounds(self.rank - 1)
        gathered = [self.accumulators[each.value] for each in work.reductions if each.in_register]
        step = _Step(self, work)
        self._vectors(low, high, self.lanes * times, gathered, step.emit)

    def _vectors(
        self, low: Any, high: Any, width: int, gathered: Sequence[Accumulator], emit: Vectors
    ) -> None:
        """A loop of vectors, and one for what is left over, whose vectors are single registers.

        Carried vectors are those that are gathered into the accumulators.
        """
        builder, append = self.builder, self.function.append_basic_block
        blocks = [append(n) for n in ("outer", "main", "fold", "rest", "tail", "fold", "done")]
        outer, main, fold, rest, tail, fold_tail, done = blocks
        length = builder.sub(high, low)
        full = builder.add(low, builder.sub(length, builder.and_(length, number(width - 1))))
        self.hoist = builder.block
        is_blocked = any(each.needs_blocks for each in gathered)
        any_full = builder.icmp_signed("<", low, full)
        builder.cbranch(any_full, outer, rest)

        builder.position_at_end(outer)
        start = builder.phi(I64)
        start.add_incoming(low, self.hoist)
        end = full
        if is_blocked:
            end = builder.add(start, number(BLOCK * width))
            end = builder.select(builder.icmp_signed("<", end, full), end, full)
        builder.branch(main)

        builder.position_at_end(main)
        index, carried = self._carry(start, outer, gathered, width)
        results = emit(builder, index, width, None, carried)
        following = self._next(index, width, carried, results)
        builder.cbranch(builder.icmp_signed("<", following, end), main, fold)

        builder.position_at_end(fold)
        for accumulator, result in zip(gathered, results, strict=True):
            accumulator.add_lanes(builder, result)
        if is_blocked:
            start.add_incoming(end, fold)
            builder.cbranch(builder.icmp_signed("<", end, full), outer, rest)
        else:
            builder.branch(rest)

        builder.position_at_end(rest)
        self.hoist = rest
        builder.cbranch(builder.icmp_signed("<", full, high), tail, done)

        builder.position_at_end(tail)
        index, carried = self._carry(full, rest, gathered, self.lanes)
        left = builder.sub(high, index)
        few = builder.icmp_signed("<", left, number(self.lanes))
        count = builder.select(few, left, number(self.lanes))
        limits = _splat(builder, builder.trunc(count, I32), self.lanes)
        mask = builder.icmp_signed("<", _counting(I32, self.lanes), limits)
        results = emit(builder, index, self.lanes, Cut(count, mask), carried)
        following = self._next(index, self.lanes, carried, results)
        builder.cbranch(builder.icmp_signed("<", following, high), tail, fold_tail)

        builder.position_at_end(fold_tail)
        for accumulator, result in zip(gathered, results, strict=True):
            accumulator.add_lanes(builder, result)
        builder.branch(done)
        builder.position_at_end(done)

    def _carry(
        self, start: Any, before: Any, gathered: Sequence[Accumulator], width: int
    ) -> tuple[Any, list[Any]]:
        index = self.builder.phi(I64)
        index.add_incoming(start, before)
        carried = []
        for accumulator in gathered:
            neutral = accumulator.neutral(width)
            phi = self.builder.phi(neutral.type)
            phi.add_incoming(neutral, before)
            carried.append(phi)
        return index, carried

    def _next(self, index: Any, width: int, carried: list[Any], results: list[Any]) -> Any:
        following = self.builder.add(index, number(width))
        for phi, value in zip((index, *carried), (following, *results), strict=True):
            phi.add_incoming(value, self.builder.block)
        return following

    def splat_outside(self, value: int, width: int) -> Any:
        """A number of the outer loops in every lane, made before the loop of vectors."""
        instruction = self.schedule.instruction(value)
        if instruction is not None and instruction.function == "constant":
            return _constant(instruction, width)
        builder = ir.IRBuilder(self.hoist)
        builder.position_before(self.hoist.terminator)
        return _splat(builder, self.scalars[value], width)


class _Step:
    """One step of the innermost loop in one pass."""

    def __init__(self, nest: _Nest, work: Pass) -> None:
        self._nest = nest
        self._work = work

    def emit(
        self, builder: Any, index: Any, width: int, cut: Cut | None, carried: list[Any]
    ) -> list[Any]:
        """See `Vectors`: everything is read before anything is written."""
        nest, work, schedule = self._nest, self._work, self._nest.schedule
        memory, level = nest.memory, nest.rank - 1
        found: dict[int, Any] = {}

        def get(value: int) -> Any:
            if value not in found:
                if schedule.levels[value] < nest.rank:
                    found[value] = nest.splat_outside(value, width)
                else:
                    array = nest.kept[value] if value in work.loaded else nest.inputs[value]
                    pointer = array.pointer(builder, level, index)
                    found[value] = memory.load(builder, array.dtype, pointer, width, cut)
            return found[value]

        for value in work.values:
            instruction = schedule.instruction(value)
            if instruction is not None and value not in work.loaded:
                arguments = [get(argument) for argument in instruction.arguments]
                found[value] = nest._computed(builder, instruction, arguments, width, index)
        written = [(nest.outputs[place], get(nest.kernel.outputs[place])) for place in work.outputs]
        written += [(nest.kept[value], get(value)) for value in work.saved]
        summed = [
            (each, self._summand(builder, each, get(each.argument), cut))
            for each in work.reductions
        ]
        for array, vector_value in written:
            pointer = array.pointer(builder, level, index)
            memory.store(builder, array.dtype, vector_value, pointer, cut)
        results: list[Any] = []
        for reduction, vector_value in summed:
            instruction = reduction.instruction
            if reduction.in_register:
                before = carried[len(results)]
                results.append(
                    combine(builder, instruction.function, instruction.dtype, before, vector_value)
                )
            else:
                pointer = nest.sums[reduction.value].pointer(builder, level, index)
                vector_value = nest._guarded(builder, reduction, vector_value)
                nest._combine_with(builder, reduction, pointer, vector_value, width, cut)
        return results

    def _summand(self, builder: Any, reduction: Reduction, value: Any, cut: Cut | None) -> Any:
        if cut is None or not reduction.in_register:
            return value
        instruction = reduction.instruction
        neutral = constant(value.type, identity(instruction.function, instruction.dtype))
        return builder.select(cut.mask, value, neutral)


def _constant(instruction: Instruction, width: int) -> Any:
    value = instruction.value
    kind = vector(SCALARS[instruction.dtype], width)
    return constant(kind, bool(value) if instruction.dtype is dtypes.bool_ else value)


def _splat(builder: Any, value: Any, width: int) -> Any:
    kind = ir.VectorType(value.type, width)
    first = builder.insert_element(ir.Constant(kind, ir.Undefined), value, ir.Constant(I32, 0))
    places = ir.Constant(ir.VectorType(I32, width), None)
    return builder.shuffle_vector(first, ir.Constant(kind, ir.Undefined), places)


def _counting(scalar: Any, width: int) -> Any:
    return ir.Constant(ir.VectorType(scalar, width), list(range(width)))
