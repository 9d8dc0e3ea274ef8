"""Where and when the values of a kernel are computed: loop levels, passes over rows, kept values.

A kernel becomes nested loops, one per dimension. A value is computed in the outermost possible
loop: its *level* is the number of loops around it. If reductions over the last dimensions are
reused, the work inside the *row* loops takes several *passes*: one more than the longest chain of
reused reductions that depend on each other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from sparkflow_runtime.codegen.ir.kernel import (
    REDUCTIONS,
    SOURCES,
    Axes,
    Column,
    Instruction,
    Kernel,
)
from sparkflow_runtime.dtypes import DType

IDENTITY: Final = "identity"
"""The function of a reduction over dimensions of size 1."""

MOST_REGISTERS: Final = 4
"""Maximum registers per vector of the innermost loop."""
COSTS: Final = {
    **dict.fromkeys(("divide", "sqrt"), 4.0),
    **dict.fromkeys(("exp", "sigmoid", "log", "log1p", "expm1", "tanh"), 16.0),
    "erf": 24.0,
}
"""Approximate cost of these functions in additions; everything else costs one."""
_CHEAP: Final = 6.0
"""Cheaper values are recomputed in a later pass, others are kept in memory."""
_MOST_COLUMN_BYTES: Final = 1024
"""Longer rows are always read whole, in memory order."""


@dataclass(frozen=True, slots=True)
class Target:
    """The relevant properties of the processor.

    Attributes:
        vector_bytes: The size of a vector register.
        registers: Number of vector registers.
        has_masks: Whether it has masked loads and stores of 4- and 8-byte elements.
    """

    vector_bytes: int
    registers: int
    has_masks: bool


@dataclass(frozen=True, slots=True)
class Form:
    """What code is specialised for, in addition to the kernel.

    Attributes:
        is_divided: Whether it is called for parts of the outermost loop.
        registers: Maximum registers per vector of the innermost loop; 0 if the last dimension is
            shorter than one.
        has_rest: Whether the last dimension may not be a multiple of these vectors.
        keeps_columns: Whether column sums are kept in registers, see `Schedule.column_level`.
        columns: Where inputs and outputs are, see `short_rows`; empty if each is an array.
    """

    is_divided: bool = False
    registers: int = MOST_REGISTERS
    has_rest: bool = True
    keeps_columns: bool = False
    columns: tuple[Column, ...] = ()


def form_of(
    last: int, lanes: int, may_be_cut: bool, is_divided: bool, most: int = MOST_REGISTERS
) -> Form:
    """Returns the form for a size of the last dimension.

    Short rows get vectors that leave little or no remainder.

    Args:
        last: The size.
        lanes: Lanes per register.
        may_be_cut: Whether parts of the loop may start and end anywhere.
        is_divided: See `Form`.
        most: Maximum registers per vector.
    """
    if last < lanes:
        return Form(is_divided, 0, True)
    choices = [each for each in (4, 2, 1) if each <= most and each * lanes <= last]
    registers = choices[0]
    if last < 4 * MOST_REGISTERS * lanes:
        even = [each for each in choices if last % (each * lanes) == 0]
        good = [each for each in choices if last % (each * lanes) < lanes]
        registers = (even or good)[0]
    return Form(is_divided, registers, may_be_cut or last % (registers * lanes) != 0)


def simplify(kernel: Kernel, sizes: Sequence[int]) -> tuple[Kernel, tuple[int, ...]]:
    """Returns the same loops with fewer dimensions.

    Dimensions of size 1 are dropped, and adjacent ones along which everything varies in the same
    way are merged. The arrays are unchanged.

    Args:
        kernel: Any kernel.
        sizes: Sizes of its iteration space.

    Returns:
        The simpler kernel, whose reductions over no dimensions become `identity`, and its sizes.
    """
    patterns = [operand.axes for operand in kernel.inputs]
    patterns += [each.over for each in kernel.instructions if each.over]
    outputs = [kernel.value_axes[number] for number in kernel.outputs]
    counting = {each.over.index(True) for each in kernel.instructions if each.function == "index"}
    groups: list[list[int]] = []
    for dimension, size in enumerate(sizes):
        if size == 1:
            continue
        if groups and not {dimension, groups[-1][-1]} & counting:
            last = groups[-1][-1]
            if all(axes[last] == axes[dimension] for axes in (*patterns, *outputs)):
                groups[-1].append(dimension)
                continue
        groups.append([dimension])
    kept = [group[0] for group in groups]
    if len(kept) == kernel.rank:
        return kernel, tuple(sizes)

    def short(axes: Axes) -> Axes:
        return tuple(axes[dimension] for dimension in kept)

    def shortened(each: Instruction) -> Instruction:
        if not each.over:
            return each
        over = short(each.over)
        if any(over):
            return replace(each, over=over)
        if each.function in REDUCTIONS:
            return replace(each, function=IDENTITY, over=())
        return Instruction("constant", (), each.dtype)  # the only position

    simple = Kernel(
        len(kept),
        tuple(replace(operand, axes=short(operand.axes)) for operand in kernel.inputs),
        tuple(shortened(each) for each in kernel.instructions),
        kernel.outputs,
    )
    return simple, tuple(math.prod(sizes[d] for d in group) for group in groups)


@dataclass(frozen=True, slots=True)
class Reduction:
    """How a reduction is executed.

    A reduction over the *last* few loops accumulates in a register inside them and is complete
    after them; if outer loops are reduced too, the register is added to an array in memory.

    Attributes:
        value: The number of its result.
        argument: The number of the reduced value.
        instruction: The kernel's instruction.
        level: Number of loops around the step that accumulates one element.
        start: Number of loops around the reset of the register; `level` if there is none.
        first: Number of loops around the reset of the array.
        free: Dimensions of loops that must add to the array only in their first iteration.
        is_shared: Whether parts of the outermost loop each hold a partial result.
    """

    value: int
    argument: int
    instruction: Instruction
    level: int
    start: int
    first: int
    free: tuple[int, ...]
    is_shared: bool

    @property
    def in_memory(self) -> bool:
        """Whether it accumulates in an array."""
        return self.first < self.start

    @property
    def in_register(self) -> bool:
        """Whether it accumulates in a register."""
        return self.start < self.level


class Schedule:
    """The plan of a kernel's loops.

    Args:
        kernel: A simplified kernel.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.first = len(kernel.inputs)
        """The number of the first instruction's value."""

    def instruction(self, value: int) -> Instruction | None:
        """Returns the instruction that computes a value; None for an input."""
        return None if value < self.first else self.kernel.instructions[value - self.first]

    @cached_property
    def live(self) -> tuple[int, ...]:
        """The values that outputs depend on, in order."""
        found: set[int] = set()
        stack = list(self.kernel.outputs)
        while stack:
            value = stack.pop()
            if value not in found:
                found.add(value)
                instruction = self.instruction(value)
                stack.extend(instruction.arguments if instruction else ())
        return tuple(sorted(found))

    @cached_property
    def used_reductions(self) -> tuple[int, ...]:
        """Reductions that other instructions use."""
        used = {
            argument
            for value in self.live
            if (instruction := self.instruction(value))
            for argument in instruction.arguments
        }
        return tuple(value for value in self.live if value in used and self.is_reduction(value))

    def is_reduction(self, value: int) -> bool:
        """Whether a value is a reduction."""
        instruction = self.instruction(value)
        return instruction is not None and instruction.function in REDUCTIONS

    @cached_property
    def row(self) -> int:
        """Number of loops around the passes."""
        for value in self.used_reductions:
            instruction = self.instruction(value)
            assert instruction is not None
            return instruction.over.index(True)
        return 0

    @cached_property
    def depths(self) -> tuple[int, ...]:
        """The number of passes after which each value is available."""
        used = set(self.used_reductions)
        found = [0] * self.first
        for number, each in enumerate(self.kernel.instructions):
            depth = max((found[a] for a in each.arguments), default=0)
            found.append(depth + (self.first + number in used))
        return tuple(found)

    @cached_property
    def is_divisible(self) -> bool:
        """Whether parts of the outermost loop may run at once."""
        shared = {each.value for each in self.reductions if each.is_shared}
        if not self.kernel.rank or (self.used_reductions and not self.row):
            return False
        return all(
            self.kernel.value_axes[value][0] or self.levels[value] == 0 or value in shared
            for value in self.kernel.outputs
        )

    def leaves_out(self, sizes: Sequence[int]) -> bool:
        """Whether an output has elements that loops over these sizes never reach."""
        inside: dict[int, Sequence[int]] = {
            value: range(level) for value, level in enumerate(self.levels)
        }
        for each in self.reductions:
            inside[each.value] = (*range(min(each.first, each.start)), *each.free)
        for value in self.kernel.outputs:
            axes = self.kernel.value_axes[value]
            is_empty = any(v and not size for v, size in zip(axes, sizes, strict=True))
            if not is_empty and any(not sizes[dimension] for dimension in inside[value]):
                return True
        return False

    @cached_property
    def passes(self) -> int:
        """Number of passes over rows."""
        return 1 + max((self.depths[value] for value in self.live), default=0)

    @cached_property
    def levels(self) -> tuple[int, ...]:
        """The number of loops around each value."""
        found = []
        for axes, depth in zip(self.kernel.value_axes, self.depths, strict=True):
            level = max((d + 1 for d, varies in enumerate(axes) if varies), default=0)
            found.append(max(level, self.row) if depth else level)
        return tuple(found)

    @cached_property
    def reductions(self) -> tuple[Reduction, ...]:
        """The reductions that are needed."""
        return tuple(self._reduction(value) for value in self.live if self.is_reduction(value))

    def _reduction(self, value: int) -> Reduction:
        instruction = self.instruction(value)
        assert instruction is not None
        argument, over = instruction.arguments[0], instruction.over
        axes = self.kernel.value_axes[argument]
        last = max(d for d, summed in enumerate(over) if summed)
        level = max(self.levels[argument], last + 1)
        start = max((d + 1 for d in range(level) if not over[d]), default=0)
        first = over.index(True)
        free = tuple(d for d in range(first, start) if not over[d] and not axes[d])
        is_shared = over[0] and value not in self.used_reductions
        return Reduction(value, argument, instruction, level, start, first, free, is_shared)

    def column_level(self, turn: int) -> int | None:
        """Returns the level at which a pass may run the last loop, outside those in between.

        Reductions over all of those then stay in registers, one vector of columns after
        another. None for a pass without such reductions, or with others.
        """
        rank = self.kernel.rank
        here = [each for each in self.reductions if self.depths[each.argument] == turn]
        level = min((each.first for each in here), default=rank)
        if not self.row <= level < rank - 1:
            return None
        for each in here:
            is_of_columns = each.first == level and each.start == each.level == rank
            if not is_of_columns or each.free or not all(each.instruction.over[level:-1]):
                return None
        return level

    def keeps_columns(self, sizes: Sequence[int], width: int) -> bool:
        """Whether column sums are kept in registers for these sizes.

        With many columns, each pass over some of them would read a part of every row; expensive
        scalars outside the last loop would be computed again for each vector of columns.

        Args:
            sizes: Sizes of the loops.
            width: Number of columns per vector.
        """
        if all(self.column_level(turn) is None for turn in range(self.passes)):
            return False
        if sizes[-1] <= width:
            return True
        values = (*range(self.first), *self.kernel.outputs)
        row_bytes = sizes[-1] * max(self.kernel.value_dtypes[value].size for value in values)
        heavy = any(
            COSTS.get(instruction.function, 1.0) > _CHEAP
            for value in self.live
            if (instruction := self.instruction(value)) and self.levels[value] < self.kernel.rank
        )
        return not heavy and row_bytes <= _MOST_COLUMN_BYTES

    # ------------------------------------------------------------------ what happens in which pass

    def numbers(self, level: int, turn: int | None) -> list[int]:
        """Returns the scalars to compute inside `level` loops, in one pass.

        Args:
            level: Number of enclosing loops.
            turn: The pass; None outside the rows.
        """
        if level == self.kernel.rank and level:
            return []
        found = []
        for value in self.live:
            if self.levels[value] == level and not self.is_reduction(value):
                depth = self.depths[value]
                if depth == turn or turn is None or (level > self.row and depth < turn):
                    found.append(value)
        return found

    def goes_deeper(self, level: int, turn: int | None) -> bool:
        """Whether there is work inside one more loop."""
        if turn is None or level >= self.kernel.rank:
            return level < self.kernel.rank
        if self.work(turn):
            return True
        stored = (v for v in self.kernel.outputs if not self.is_reduction(v))
        return any(self.levels[v] > level and self.depths[v] == turn for v in stored) or any(
            each.level > level and self.depths[each.argument] == turn for each in self.reductions
        )

    def work(self, number: int) -> Pass:
        """Returns the work inside the last loop in one pass."""
        return self._work[number]

    @cached_property
    def _work(self) -> tuple[Pass, ...]:
        rank = self.kernel.rank
        found = [Pass() for _ in range(self.passes)]
        for place, value in enumerate(self.kernel.outputs):
            if self.levels[value] == rank and not self.is_reduction(value):
                found[self.depths[value]].outputs.append(place)
        for each in self.reductions:
            if each.level == rank:
                found[self.depths[each.argument]].reductions.append(each)
        for number in reversed(range(self.passes)):
            work = found[number]
            wanted = {self.kernel.outputs[place] for place in work.outputs}
            wanted |= {each.argument for each in work.reductions}
            wanted |= set(work.saved)
            for value in self._demand(wanted, number, work):
                if value not in found[self.depths[value]].saved:
                    found[self.depths[value]].saved.append(value)
        return tuple(found)

    def _demand(self, wanted: set[int], number: int, work: Pass) -> list[int]:
        """Fills in what a pass computes; returns the values that an earlier pass must keep."""
        rank, seen, kept = self.kernel.rank, set[int](), []
        stack = list(wanted)
        while stack:
            value = stack.pop()
            if value in seen:
                continue
            seen.add(value)
            instruction = self.instruction(value)
            if self.levels[value] < rank or instruction is None:
                continue
            if self.depths[value] < number and self._costs[value] > _CHEAP:
                kept.append(value)
                continue
            stack.extend(instruction.arguments)
        work.values = sorted(value for value in seen if self.levels[value] == rank)
        work.loaded = sorted(kept)
        return work.loaded

    @cached_property
    def _costs(self) -> tuple[float, ...]:
        """The cost of recomputing a value; arguments count once per use."""
        rank = self.kernel.rank
        found = [1.0] * self.first
        for number, each in enumerate(self.kernel.instructions):
            if each.function in SOURCES or self.levels[self.first + number] < rank:
                found.append(0.0)
                continue
            cost = COSTS.get(each.function, 1.0) + sum(found[a] for a in each.arguments)
            found.append(min(cost, 1e6))
        return tuple(found)

    @cached_property
    def homes(self) -> dict[int, int]:
        """Kept values that can be stored in the array of an output that is written later."""
        found: dict[int, int] = {}
        for number in range(self.passes):
            for value in self._work[number].saved:
                if not all(self.kernel.value_axes[value][self.row :]):
                    continue  # it would be read again after the output is written
                last = max(p for p in range(self.passes) if value in self._work[p].loaded)
                for place, output in enumerate(self.kernel.outputs):
                    if (
                        place not in found.values()
                        and place in (p for w in self._work[last:] for p in w.outputs)
                        and self.kernel.value_axes[output] == self.kernel.value_axes[value]
                        and self.kernel.value_dtypes[output] is self.kernel.value_dtypes[value]
                    ):
                        found[value] = place
                        break
        return found

    def row_axes(self, value: int) -> Axes:
        """Returns the dimensions within a row along which a value varies."""
        axes = self.kernel.value_axes[value]
        return tuple(varies and d >= self.row for d, varies in enumerate(axes))

    @cached_property
    def buffered(self) -> tuple[int, ...]:
        """Kept values that need memory of their own, for one row each."""
        return tuple(
            value for work in self._work for value in work.saved if value not in self.homes
        )

    def areas(self, is_divided: bool) -> tuple[int, ...]:
        """Values that need memory per part: buffered ones, and shared sums if there are parts."""
        if not is_divided:
            return self.buffered
        return self.buffered + tuple(each.value for each in self.reductions if each.is_shared)

    # ------------------------------------------------------------------------------------- vectors

    def lanes(self, vector_bytes: int) -> int:
        """Returns the number of elements per register."""
        sizes = {
            _register_bytes(self.kernel.value_dtypes[value])
            for value in self.live
            if self.levels[value] == self.kernel.rank
            and not self.kernel.value_dtypes[value].is_bool
        }
        return vector_bytes // min(sizes, default=4)

    def registers(self, number: int, target: Target, most: int) -> int:
        """Returns the number of registers per vector of the innermost loop in one pass.

        As many as possible without spilling. One if much is computed: that keeps the processor busy
        anyway (measured: 0 to 15 % lost with exp, tanh and similar), and the code compiles in half
        the time.

        Args:
            number: The pass.
            target: The processor.
            most: The maximum.
        """
        functions = [self.instruction(value) for value in self._work[number].values]
        heavy = sum(COSTS.get(each.function, 1.0) > _CHEAP for each in functions if each)
        if heavy > 1:
            return min(most, 1)
        pressure = self._pressure(number, self.lanes(target.vector_bytes) / target.vector_bytes)
        while most > 1 and most * pressure > target.registers:
            most //= 2
        return most

    def _pressure(self, number: int, lanes_per_byte: float) -> float:
        """Returns the number of registers a pass needs if its vectors have one register each."""
        values, types = self._work[number].values, self.kernel.value_dtypes
        last: dict[int, int] = {}
        for value in values:
            instruction = self.instruction(value)
            for argument in instruction.arguments if instruction else ():
                last[argument] = value
        size = {value: max(1.0, _register_bytes(types[value]) * lanes_per_byte) for value in values}
        written = {self.kernel.outputs[place] for place in self._work[number].outputs}
        most = 1.0
        live: set[int] = set()
        for value in values:
            instruction = self.instruction(value)
            if instruction is None:
                continue  # loaded at its first use
            arguments = {a for a in instruction.arguments if a in size}
            inside = 4.0 if COSTS.get(instruction.function, 1.0) > _CHEAP else 0.0
            live |= arguments
            before = sum(size[each] for each in live)
            live -= {a for a in arguments if last[a] == value and a not in written}
            after = sum(size[each] for each in live) + size[value]  # in an argument's register
            most = max(most, inside + before, inside + after)
            if value in last or value in written:
                live.add(value)
        return most + len(self._work[number].reductions)


class Pass:
    """The work of one pass inside the last loop.

    Attributes:
        outputs: Numbers of the outputs that are written.
        reductions: The reductions it accumulates.
        saved: Values that are kept for a later pass.
        loaded: Values that an earlier pass has kept.
        values: All needed values that vary along the last dimension, in order.
    """

    def __init__(self) -> None:
        self.outputs: list[int] = []
        self.reductions: list[Reduction] = []
        self.saved: list[int] = []
        self.loaded: list[int] = []
        self.values: list[int] = []

    def __bool__(self) -> bool:
        return bool(self.outputs or self.reductions or self.saved)


def _register_bytes(dtype: DType) -> int:
    """Size of an element in a register; at least 4, as results of comparisons are that large."""
    return max(dtype.size, 4)
